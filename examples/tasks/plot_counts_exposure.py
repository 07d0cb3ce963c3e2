"""
Counts with exposure
====================

Claims of policies that were insured for unequal times: the model learns a yearly rate, and the time
insured is the exposure of each count. The data are simulated, so that the true rates are known.
"""

# %%
# A policy has four public facts and was insured for a part of the year, at times for a few days
# only. Claims are rare: most policies have none.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import PoissonRegressor

from skdpdyn import PrivatePoissonRegressor

rng = np.random.default_rng(0)
n = 60_000
X = rng.uniform(-1, 1, (n, 4))
years = rng.beta(1.0, 0.6, n).clip(0.02)
rate = np.exp(X @ [0.9, -0.6, 0.4, 0.0] - 1.5)
claims = rng.poisson(years * rate)
train = slice(0, 50_000)
test = slice(50_000, None)
print(f"{np.mean(claims == 0):.0%} without a claim, {claims.sum() / years.sum():.3f} claims a year")

# %%
# ``y`` are counts, not rates. ``target_bounds`` says how many claims of one policy count at the
# most; the exposure needs no bound. Both belong to the record, and both are protected. What a fit
# costs is known beforehand.
model = PrivatePoissonRegressor(epsilon=1.0, target_bounds=(0, 10))
print(f"epsilon: {model.privacy_cost(50_000, 4).epsilon(1 / 50_000**2):.4f}")
model.fit(X[train], claims[train], exposure=years[train])

# %%
# The score is D², the part of the deviance explained, beside the best single rate. Claims that are
# rare are mostly chance, so that even the true rates explain little.
reference = PoissonRegressor(alpha=0)
reference.fit(X[train], claims[train] / years[train], sample_weight=years[train])
private = model.score(X[test], claims[test], exposure=years[test])
not_private = reference.score(X[test], claims[test] / years[test], sample_weight=years[test])
print(f"D²: {private:.3f}, without privacy {not_private:.3f}")

# %%
# A model that is told nothing of exposures takes a policy of three weeks without a claim for one of
# a year without a claim: its rates are too low.
blind = PrivatePoissonRegressor(epsilon=1.0, target_bounds=(0, 10))
blind.fit(X[train], claims[train])
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
order = np.argsort(rate[test])
groups = np.array_split(order, 20)
true = [rate[test][group].mean() for group in groups]
for label, fitted in (("with exposure", model), ("without", blind)):
    predicted = fitted.predict(X[test])
    axes.plot(true, [predicted[group].mean() for group in groups], "o", label=label)
axes.plot(true, true, color="0.5", label="right")
axes.set(
    title="50,000 policies at epsilon = 1",
    xlabel="true claims a year",
    ylabel="predicted claims a year",
)
figure.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()
