"""
Curves by age and hours
=======================

Income is no straight line of age. An additive model learns a curve for each column, and says with
it how much of the curve may be the noise that privacy needs. Raw columns go in: numbers within
public bounds, text with public levels, and cells that are missing.
"""

# %%
# Who earns more than 50,000 dollars, by age and hours
# ----------------------------------------------------

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpdyn import PrivateGAMClassifier
from skdpdyn.datasets import load_adult
from skdpdyn.inspection import ShapeDisplay

adult = load_adult()
y = np.asarray(adult.target == adult.target_names[1])
names = [name for name in adult.data if name.startswith(("age", "hours", "sex", "education"))]
bounds = {name: pair for name, pair in adult.bounds.items() if name in names}
levels = {name: values for name, values in adult.categories.items() if name in names}

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained", sharex="col")
numbers = [name for name in bounds if name.startswith(("age", "hours"))]
for row, epsilon in zip(axes, (0.1, 1.0), strict=True):
    model = PrivateGAMClassifier(
        epsilon=epsilon, bounds=bounds, categories=levels, classes=[False, True]
    ).fit(adult.data[names], y)
    ShapeDisplay.from_estimator(model, columns=numbers, plot=False).plot(row)
    row[0].set_ylabel(f"log odds, epsilon {epsilon:g}")
    print(f"epsilon {epsilon:g}: accuracy {model.score(adult.data[names], y):.3f}")
figure.suptitle("What age and hours add to the log odds of a high income")

# %%
# Two bands: what the noise brings under the released second moment of the rows, and the largest
# that it can bring in any direction. Neither has the error of sampling in it.

axes[0, 0].legend(fontsize=7)
plt.show()

# %%
# A table of a hospital, as it is kept
# ------------------------------------
#
# Gaps are a level of their own, so that a missing test may itself say something.

rng = np.random.default_rng(0)
n = 20_000
stays = pd.DataFrame(
    {
        "age": rng.uniform(0, 100, n),
        "lactate": rng.exponential(2.0, n),
        "ward": rng.choice(["surgery", "medicine", "paediatrics"], n),
    }
)
stays.loc[rng.random(n) < 0.4, "lactate"] = np.nan
risk = stays["age"] / 40 + np.log1p(stays["lactate"].fillna(0.5)) + (stays["ward"] == "medicine")
died = (risk + rng.logistic(0, 0.3, n) > 3.5).to_numpy()
model = PrivateGAMClassifier(
    epsilon=1.0,
    bounds={"age": (0, 110), "lactate": (0, 30)},
    categories={"ward": ["surgery", "medicine", "paediatrics"]},
    monotonic_cst={"age": 1},
    classes=[False, True],
).fit(stays, died)
display = ShapeDisplay.from_estimator(model)
print(f"accuracy {model.score(stays, died):.3f}; log odds of a missing lactate "
      f"{model.shapes_['lactate'].missing[0]:.2f}")  # fmt: skip
plt.show()
