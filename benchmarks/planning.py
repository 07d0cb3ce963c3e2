"""What `skdpdyn.planning.plan` says before fits, beside what fits on real data find.

``python -m benchmarks planning --data DIR`` plans and fits the default logistic regression on
Adult, MAGIC, California, flights and pen digits (odd or even): thirty cells of 2,000 rows and of
all training rows at epsilon 0.1, 1 and 4, and thirty more of 1,000 and 10,000 rows. A plan is told
the numbers of rows and columns, the AUC of a model without privacy and the prevalence. Its error is
the planned AUC less the mean of ``--fits`` fits; ``within`` is the part of the fits that are in the
planned interval. A fifth of the rows is kept for scores.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.accuracy import DATA, DATASETS, splits
from skdpdyn import PrivateLogisticRegression
from skdpdyn.exceptions import PrivacyUtilityWarning
from skdpdyn.planning import plan

SETS = ("adult", "magic", "california", "flights", "pendigits")
SIZES = {"thirty": (2_000, None), "thirty more": (1_000, 10_000)}  # None: all rows
EPSILONS = [0.1, 1.0, 4.0]
MOST = 60_000  # rows that the model without privacy is trained on


def problem(name, directory):
    """Return rows, whether each is of the second class, and a model without privacy."""
    found = DATASETS[name](directory)
    y = found.y % 2 == 1 if name == "pendigits" else found.y == np.unique(found.y)[1]
    return found.X, y, found.not_private[0]


def cells(name, directory, sizes, fits):
    """Yield one line's numbers for each cell: planned scores, fitted ones, seconds of the plan."""
    X, y, without = problem(name, directory)
    ((train, test),) = splits(len(y), 1)
    without.fit(X[train[:MOST]], y[train[:MOST]])
    auc = roc_auc_score(y[test], without.decision_function(X[test]))
    guesses = {"auc": auc, "prevalence": float(np.mean(y)), "n_features": X.shape[1]}
    for size in sizes:
        n_samples = min(size or len(train), len(train))
        model = PrivateLogisticRegression(classes=[False, True])
        start = time.process_time()
        planned = plan(model, n_samples=n_samples, epsilon=EPSILONS, **guesses).points
        seconds = (time.process_time() - start) / len(EPSILONS)
        for point in planned:
            model.set_params(epsilon=point.epsilon)
            scores = []
            for fit in range(fits if n_samples <= 10_000 else max(2, fits // 5)):
                rows = np.random.default_rng(fit).permutation(train)[:n_samples]
                model.fit(X[rows], y[rows])
                scores.append(roc_auc_score(y[test], model.decision_function(X[test])))
            yield auc, point, np.array(scores), seconds


def parsed(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the data sets")
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS, help="these data sets")
    parser.add_argument("--fits", type=int, default=20, help="fits a cell; a fifth of large ones")
    return parser.parse_args(arguments)


def main(arguments):
    asked = parsed(arguments)
    warnings.simplefilter("ignore", PrivacyUtilityWarning)
    for group, sizes in SIZES.items():
        errors, within = [], []
        print(f"{group + ' cells':<17} {'rows':>7} {'epsilon':>7} {'not private':>11} ", end="")
        print("planned   from     to  fitted  error within seconds")
        for name in asked.only:
            for auc, point, scores, seconds in cells(name, asked.data, sizes, asked.fits):
                errors.append(point.score - scores.mean())
                within.append(np.mean((point.low <= scores) & (scores <= point.high)))
                print(
                    f"{name:<17} {point.n_samples:>7} {point.epsilon:>7} {auc:>11.3f} "
                    f"{point.score:>7.3f} {point.low:>6.3f} {point.high:>6.3f} "
                    f"{scores.mean():>7.3f} {errors[-1]:>+6.3f} {within[-1]:>6.2f} {seconds:>7.1f}",
                    flush=True,
                )
        size = np.abs(errors)
        print(
            f"error: median {np.median(size):.3f}, worst {size.max():.3f}; "
            f"within the interval: {np.mean(within):.0%} of fits, "
            f"and most fits in {np.mean(np.array(within) > 0.5):.0%} of cells\n"
        )
