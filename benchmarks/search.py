"""Does a search for hyperparameters pay? Accuracy on Adult at the same *total* budget, and the
overhead of a grid search.

Run ``python -m benchmarks search``. At every total epsilon (delta = 1/n_train^2) over random 80/20
splits:

- defaults: one fit with all of the budget, nothing tuned;
- private search: `PrivateSearchCV` over clip, alpha and step size, as it is by default (a held-out
  part, a logarithmic number of trials), and with all records in both roles and a Poisson number;
- grid search, honestly priced: scikit-learn's ``GridSearchCV`` over the same candidates, its fits
  given so small a budget that `search_privacy` finds the total spent. (Its scores are not private
  on top of that.)

Then the time of a grid search of 3 x 3 candidates on 5 folds over that of the same fits alone. The
figure goes to ``--figure``.
"""

import argparse
import math
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid

from benchmarks.accuracy import adult, splits
from skdpdyn import PrivateLogisticRegression
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.model_selection import PrivateSearchCV, search_privacy
from skdpdyn.privacy import GaussianDP
from skdpdyn.privacy.guarantees import gdp_mu
from skdpdyn.solvers import NoisyGD

CANDIDATES = {
    "clip": [0.25, 0.5, 1.0],
    "alpha": ["auto", 1e-4],
    "solver__step_size": ["auto", 16.0],
}
FOLDS = 5


def model(**budget):
    return PrivateLogisticRegression(classes=[False, True], solver=NoisyGD(), **budget)


def defaults(epsilon, delta, X, y):
    return model(epsilon=epsilon, delta=delta).fit(X, y)


def private_search(epsilon, delta, X, y, **options):
    return PrivateSearchCV(model(), CANDIDATES, epsilon=epsilon, delta=delta, **options).fit(X, y)


def priced_grid_search(epsilon, delta, X, y):
    n_fits = len(ParameterGrid(CANDIDATES)) * FOLDS + 1
    one = GaussianDP(gdp_mu(epsilon, delta) / math.sqrt(n_fits)).epsilon(delta)
    search = GridSearchCV(model(epsilon=one, delta=delta), CANDIDATES, cv=KFold(FOLDS)).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # the docstring says it
        spent = search_privacy(search).guarantee.epsilon(delta)
    assert 0.999 * epsilon <= spent <= 1.001 * epsilon
    return search


METHODS = {
    "defaults": defaults,
    "private search": private_search,
    "private search, Poisson, shared": lambda *data: private_search(
        *data, test_size=None, trials="poisson", expected_trials=6, bound="tightest"
    ),
    "grid search, honestly priced": priced_grid_search,
}


def accuracies(X, y, epsilons, n_splits):
    table = {}
    print(
        f"{'total epsilon':>13}  {'method':32} {'accuracy':>8} {'+-':>7} {'worst':>7} "
        f"{'seconds':>8}"
    )
    for epsilon in epsilons:
        for name, method in METHODS.items():
            scores, start = [], time.perf_counter()
            for train, test in splits(len(y), n_splits):
                fitted = method(epsilon, 1 / len(train) ** 2, X[train], y[train])
                scores.append(fitted.score(X[test], y[test]))
            table[epsilon, name] = scores
            seconds = (time.perf_counter() - start) / n_splits
            row = (
                f"{np.mean(scores):>8.4f} {np.std(scores):>7.4f} {np.min(scores):>7.4f} "
                f"{seconds:>8.2f}"
            )
            print(f"{epsilon:>13g}  {name:32} {row}", flush=True)
        best = max(
            (name for name in METHODS if "private" in name),
            key=lambda name: np.mean(table[epsilon, name]),
        )
        gain = 100 * np.mean(np.subtract(table[epsilon, best], table[epsilon, "defaults"]))
        verb = "gains" if gain > 0 else "loses"
        print(f"{'':13}  {best} {verb} {abs(gain):.2f} points against the defaults", flush=True)
    return table


def overhead(X, y):
    """Time a grid search of 3 x 3 candidates on 5 folds against the same fits alone, by turns."""
    grid = {"clip": [0.25, 0.5, 1.0], "alpha": ["auto", 1e-4, 1e-3]}
    estimator, ratios = model(epsilon=0.1), []  # short fits, which show the overhead best
    for _ in range(2):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            GridSearchCV(estimator, grid, cv=FOLDS, refit=False).fit(X, y)
        searched = time.perf_counter() - start
        alone = 0.0
        for parameters in ParameterGrid(grid):
            for train, _ in KFold(FOLDS).split(X):
                one, rows, labels = model(epsilon=0.1, **parameters), X[train], y[train]
                start = time.perf_counter()
                one.fit(rows, labels)
                alone += time.perf_counter() - start
        ratios.append(searched / alone)
    print(
        "\ngrid search over the sum of its 45 fits: "
        f"{' and '.join(f'{ratio:.2f}' for ratio in ratios)} ({alone:.1f} s alone)"
    )


def draw(table, epsilons, path):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(epsilons), figsize=(5.5 * len(epsilons), 3.5), layout="constrained", squeeze=False
    )
    for axis, epsilon in zip(axes[0], epsilons, strict=True):
        axis.boxplot(
            [table[epsilon, name] for name in METHODS],
            orientation="horizontal",
            tick_labels=list(METHODS),
            whis=(0, 100),
        )
        axis.axvline(np.mean(table[epsilon, "defaults"]), color="0.6", linestyle=":")
        axis.invert_yaxis()
        axis.locator_params(axis="x", nbins=5)
        axis.set(title=f"Adult, total epsilon {epsilon:g}", xlabel="test accuracy")
    for axis in axes[0, 1:]:
        axis.set_yticklabels([])
    figure.savefig(path, dpi=120)
    print(f"figure: {path}")


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--figure", type=Path, default=Path("search.png"))
    parser.add_argument("--only", choices=["accuracy", "overhead"])
    arguments = parser.parse_args(argv)
    problem = adult(None)
    if arguments.only != "overhead":
        draw(
            accuracies(problem.X, problem.y, arguments.epsilon, arguments.splits),
            arguments.epsilon,
            arguments.figure,
        )
    if arguments.only != "accuracy":
        overhead(problem.X, problem.y)
