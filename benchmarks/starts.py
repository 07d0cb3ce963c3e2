"""What a start is worth: from a model of public rows, and from the model of last month.

``python -m benchmarks starts --data DIR`` trains the default logistic regression on Adult, MAGIC,
California above 180,000 dollars and flights, at epsilon 0.03 and 0.1, afresh and from the
``LogisticRegression`` of scikit-learn on 300 public rows, which are left out. Then training
rows are dealt to twelve months, and each month trains at epsilon 0.3, afresh and from the model of
the month before: scores are those of month twelve. Each line is the mean over 80/20 splits, and
the gain is paired.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.accuracy import DATA, DATASETS, log_loss, splits
from skdpdyn.exceptions import PrivacyUtilityWarning

SETS = ("adult", "magic", "california", "flights")
N_PUBLIC, N_MONTHS = 300, 12


def public_start(problem, train, test):
    """Yield, for each epsilon, scores of the start, of fits afresh and from the start."""
    public, private = train[:N_PUBLIC], train[N_PUBLIC:]
    start = LogisticRegression(max_iter=1000).fit(problem.X[public], problem.y[public])
    for epsilon in (0.03, 0.1):
        starts = None, (start.coef_, start.intercept_)
        models = [problem.private(epsilon=epsilon, start=known) for known in starts]
        fitted = [start, *(model.fit(problem.X[private], problem.y[private]) for model in models)]
        yield f"public start, epsilon {epsilon}", [scores(model, problem, test) for model in fitted]


def months(problem, train, test):
    """Yield scores of month one, and of month twelve afresh and from the month before."""
    found, last = [], None
    for rows in np.array_split(train, N_MONTHS):
        models = [problem.private(epsilon=0.3, start=known) for known in (None, last)]
        fitted = [model.fit(problem.X[rows], problem.y[rows]) for model in models]
        found.append([scores(model, problem, test) for model in fitted])
        last = fitted[1]
    yield "twelve months, epsilon 0.3", [found[0][0], *found[-1]]


def scores(model, problem, test):
    """Return accuracy and log loss."""
    X, y = problem.X[test], problem.y[test]
    return model.score(X, y), log_loss(model, X, y)


def main(arguments):
    """Print a line for each set and each kind of start."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the data sets")
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--splits", type=int, default=10)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", PrivacyUtilityWarning)
    print(f"{'accuracy':<11} {'':<28} start or month 1  afresh  started          gain  log loss")
    for name in asked.only:
        problem, found = DATASETS[name](asked.data), {}
        for train, test in splits(len(problem.y), asked.splits):
            for kind in (public_start, months):
                for title, row in kind(problem, train, test):
                    found.setdefault(title, []).append(row)
        for title, rows in found.items():
            (first, _), (afresh, lost), (started, less) = np.mean(rows, axis=0)
            gains = np.array(rows)[:, 2, 0] - np.array(rows)[:, 1, 0]
            error = np.std(gains, ddof=1) / np.sqrt(len(gains))
            print(
                f"{name:<11} {title:<28} {first:>16.4f} {afresh:>7.4f} {started:>8.4f} "
                f"{np.mean(gains):>+.4f} +- {error:.4f}  {lost:.4f} -> {less:.4f}",
                flush=True,
            )
