"""
Odds ratios of a hospital
=========================

Which patients come back within a month? A table of odds ratios with intervals, for one budget, in
one call, and as a forest plot.
"""

# %%
# Stays of 30,000 patients, drawn here
# ------------------------------------
# Every column has public bounds. They are the units of the noise, so the table does not depend on
# how a column is coded.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpdyn import PrivateLogisticRegression
from skdpdyn.inference import private_regression
from skdpdyn.inspection import CoefficientDisplay

rng = np.random.default_rng(0)
n = 30_000
stays = pd.DataFrame(
    {
        "age, by 10 years": np.clip(rng.normal(6.2, 1.5, n), 1.8, 10),
        "days in hospital": np.clip(rng.gamma(2.0, 2.0, n), 0, 30),
        "diabetes": rng.uniform(size=n) < 0.25,
        "emergency": rng.uniform(size=n) < 0.4,
        "left-handed": rng.uniform(size=n) < 0.1,
    }
).astype(float)
effects = np.array([0.15, 0.05, 0.4, 0.5, 0.0])
log_odds = -3.0 + stays.to_numpy() @ effects
returned = (rng.uniform(size=n) < 1 / (1 + np.exp(-log_odds))).astype(int)
bounds = dict.fromkeys(stays, (0, 1))
bounds |= {"age, by 10 years": (1.8, 10), "days in hospital": (0, 30)}

# %%
# One call
# --------

model, table = private_regression(
    PrivateLogisticRegression(), stays, returned, epsilon=2.0, bounds=bounds, classes=[0, 1]
)
print(table.summary(odds_ratios=True))
low, high = table.conf_int().T
held = (low[:-1] <= effects) & (effects <= high[:-1])
print(f"answered: {table.answered.sum()} of {len(table.names)} coefficients")
print(f"intervals that hold the effect that was drawn with: {held.sum()} of {held.size}")

# %%
# Differences have intervals too, from the released covariance.

print("emergency against diabetes:", table.contrast({"emergency": 1, "diabetes": -1}))

# %%

plt.style.use("tableau-colorblind10")
display = CoefficientDisplay.from_summary(table, odds_ratios=True)
display.ax_.set_title("Coming back within 30 days: 95 % intervals")
display.figure_.tight_layout()
plt.show()
