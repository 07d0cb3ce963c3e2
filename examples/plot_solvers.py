"""
Noisy gradients against the classics
====================================

Is noisy gradient descent better than output and objective perturbation at the same budget? Here on
10,000 records of the Adult census data, all defaults, the same (epsilon, delta) for all; ``python
-m benchmarks accuracy --compare`` asks it at length.
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
    (
        OneHotEncoder(categories=list(adult.categories.values()), sparse_output=False),
        list(adult.categories),
    ),
)
X, y = columns.fit_transform(adult.data), adult.target
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=10_000, random_state=0)

# %%
# Three fits of each, since every fit has noise of its own.
solvers = ["noisy_gd", "noisy_sgd", "dp_sgd", "objective_perturbation", "output_perturbation"]
epsilons = [0.1, 0.3, 1.0, 3.0]
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
print(f"{'epsilon':24s}", *(f"{epsilon:7g}" for epsilon in epsilons))
for solver in solvers:
    scores = []
    for epsilon in epsilons:
        model = PrivateLogisticRegression(epsilon=epsilon, classes=["<=50K", ">50K"], solver=solver)
        scores.append([model.fit(X_train, y_train).score(X_test, y_test) for _ in range(3)])
    print(f"{solver:24s}", *(f"{np.mean(score):7.3f}" for score in scores))
    ax.errorbar(
        epsilons, np.mean(scores, axis=1), np.std(scores, axis=1), fmt="o-", capsize=3, label=solver
    )
larger_class = np.mean(y_test == "<=50K")
print(f"{'the larger class':24s} {larger_class:7.3f}")
ax.axhline(larger_class, color="0.5", linestyle=":", label="the larger class")
ax.set(
    xscale="log",
    xlabel="epsilon, delta = 1/n²",
    ylabel="accuracy on 35,222 others",
    title="All defaults, 10,000 records",
)
ax.set_xticks(epsilons, map(str, epsilons))
ax.minorticks_off()
ax.legend(frameon=False, fontsize="small")
plt.show()
