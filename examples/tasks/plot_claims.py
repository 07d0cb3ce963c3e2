"""
Claims: a table and deciles
===========================

Insurance claims with years of exposure: a table of rates, and how many claims were observed over
those expected, by decile of the predicted rate.
"""

# %%
# Policies, drawn here
# --------------------

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn import PrivatePoissonRegressor
from skdpdyn.evaluation import evaluate
from skdpdyn.inference import private_regression

rng = np.random.default_rng(0)
n = 60_000
X = rng.uniform(-1, 1, (n, 3))
years = rng.uniform(0.1, 1.0, n)
claims = rng.poisson(years * np.exp(X @ [0.8, -0.6, 0.0] - 0.5))
half = n // 2

# %%
# The table
# ---------

model, table = private_regression(
    PrivatePoissonRegressor(),
    X[:half],
    claims[:half],
    epsilon=2.0,
    bounds=(-1, 1),
    target_bounds=(0, 6),
    exposure=years[:half],
)
print(table)
print("expected claims of three policies:", model.predict(X[:3], exposure=years[:3]).round(2))

# %%
# Held out: deviance, and observed over expected claims
# -----------------------------------------------------

found = evaluate(model, X[half:], claims[half:], exposure=years[half:], epsilon=4.0)
print(found)
expected, ratios = found.calibration_curve()
holds = sum(one.low <= 1 <= one.high for one in ratios)
print(f"deciles whose interval holds 1: {holds} of 10")

# %%

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(layout="constrained")
values, low, high = np.array([(one.value, one.low, one.high) for one in ratios]).T
ax.errorbar(np.arange(1, 11), values, yerr=[values - low, high - values], fmt="o", capsize=3)
ax.axhline(1.0, color="0.5", linestyle=":")
ax.set(
    title="30,000 policies not trained on, 95 % intervals",
    xlabel="decile of the predicted rate",
    ylabel="observed / expected claims",
    xticks=range(1, 11),
)
plt.show()
