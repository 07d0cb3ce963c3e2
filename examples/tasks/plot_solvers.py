"""
Which algorithm?
================

The default against noisy SGD, DP-SGD, and noise that is added once, at the same budgets: 10,000
records of the Adult census data, all defaults.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from skdpdyn import PrivateLogisticRegression
from skdpdyn.datasets import load_adult
from skdpdyn.preprocessing import BoundsScaler

adult = load_adult()
columns = make_column_transformer(
    (BoundsScaler(adult.bounds), list(adult.bounds)),
    (OneHotEncoder(categories=list(adult.categories.values())), list(adult.categories)),
    sparse_threshold=0,
)
X = columns.fit_transform(adult.data)
y = adult.target
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=10_000, random_state=0)

# %%
# Three fits of each, since every fit has noise of its own. Every solver promises the same
# (epsilon, delta).

solvers = {
    "noisy_gd": "default: noisy gradients",
    "noisy_sgd": "the same on batches",
    "dp_sgd": "DP-SGD",
    "objective_perturbation": "objective perturbation",
    "output_perturbation": "output perturbation",
}
epsilons = [0.1, 0.3, 1.0, 3.0]
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6.4, 5), layout="constrained")
print(f"{'epsilon':24s}", *(f"{epsilon:7g}" for epsilon in epsilons))
for place, (solver, name) in enumerate(solvers.items()):
    scores = []
    for epsilon in epsilons:
        model = PrivateLogisticRegression(
            epsilon=epsilon, classes=["<=50K", ">50K"], bounds=None, solver=solver
        )
        scores.append([model.fit(X_train, y_train).score(X_test, y_test) for _ in range(3)])
    print(f"{solver:24s}", *(f"{np.mean(score):7.3f}" for score in scores))
    beside = np.multiply(epsilons, 1.03 ** (place - 2))  # so that error bars do not hide each other
    mean = np.mean(scores, axis=1)
    spread = np.std(scores, axis=1)
    ax.errorbar(beside, mean, spread, fmt="osD^v"[place] + "-", capsize=3, label=name)
larger_class = float(np.mean(y_test == "<=50K"))
print(f"{'the larger class':24s} {larger_class:7.3f}")
ax.axhline(larger_class, color="0.6", linestyle=":", label="always the larger class")
ax.set(
    xscale="log",
    xlabel="privacy budget epsilon, delta = 1/n²",
    ylabel="accuracy on 35,222 others",
    title="Five algorithms, all defaults, 10,000 records",
)
ax.set_xticks(epsilons, map(str, epsilons))
ax.minorticks_off()
figure.legend(loc="outside lower center", ncols=2, frameon=False)
plt.show()
