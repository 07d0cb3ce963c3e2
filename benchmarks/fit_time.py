"""Time of a default fit beside scikit-learn's, one thread each, as ratios inside one run.

``python -m benchmarks fit_time --data DIR``: our defaults at epsilon 1 against scikit-learn's
LogisticRegression with lbfgs and C=1000, whose iterations are told (it stops at 100, as by
default).

- alike, scales: 50 float32 columns, uniform in [-1, 1], alike or with scales from 1 to 0.01, in
  rows within the unit ball; labels of a logistic model that is right 9 times of 10 or so; n = 1e5,
  3e5, 1e6;
- flights: late or not, 80 % of the rows of ``accuracy.py``;
- mnist: softmax of ten classes, 80 % of the rows of ``accuracy.py``.

Every figure is a median over rounds (``--rounds``), in which ours and scikit-learn's take turns,
after a fit of a thousand rows that compiles. ``--samples`` gives other sizes, ``--only`` some of
the problems, ``--solver`` and ``--epsilon`` other fits. Goals are those of the table GOALS.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.accuracy import DATA, flights, mnist, splits
from skdpdyn import PrivateLogisticRegression
from skdpdyn.solvers import SOLVERS

GOALS = {"alike": 2.0, "scales": 1.0, "flights": 1.2, "mnist": 3.0}  # at most, times scikit-learn's
COLUMNS = 50
SIZES = (100_000, 300_000, 1_000_000)


def columns(scales, n_samples):
    """Return float32 rows within the unit ball, whose columns have these scales, and labels."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_samples, len(scales))).astype(np.float32)
    weights = rng.standard_normal(len(scales)).astype(np.float32)  # of columns alike
    y = X @ weights + 0.5 * rng.logistic(size=n_samples) > 0
    X *= (scales / np.linalg.norm(scales)).astype(np.float32)
    return X, y


def problems(only, sizes, directory):
    """Return (name, X, y, maker of our model) for each problem, one after the other."""

    def binary(**options):
        return PrivateLogisticRegression(classes=[False, True], **options)

    for name, smallest in (("alike", 1.0), ("scales", 0.01)):
        if name in only:
            for n_samples in sizes:
                yield name, *columns(np.geomspace(1.0, smallest, COLUMNS), n_samples), binary
    for name, loader in (("flights", flights), ("mnist", mnist)):
        if name in only:
            try:
                problem = loader(directory)
            except FileNotFoundError as error:
                print(f"SKIPPED {name}: no file {error.filename}; say where it is by --data")
                continue
            train, _ = next(splits(len(problem.y), 1))
            yield name, problem.X[train], problem.y[train], problem.private


def seconds_of(model, X, y):
    """Return the time of a fit."""
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def measure(name, X, y, private, rounds):
    """Print the median times of both, and their ratio."""
    private().fit(X[:1000], y[:1000])  # compiles
    times = []
    for _ in range(rounds):
        ours, theirs = private(), LogisticRegression(C=1000)
        times.append((seconds_of(ours, X, y), seconds_of(theirs, X, y)))
    ours_seconds, their_seconds = np.median(times, axis=0)
    ratio = ours_seconds / their_seconds
    ran = getattr(ours, "solver_", ours.solver)
    ran = ran if isinstance(ran, str) else type(ran).__name__
    met = "met" if ratio <= GOALS[name] else "missed"
    print(
        f"{name:>8} {X.shape[0]:>9} x {X.shape[1]:<4} {ours_seconds:>9.3f} {their_seconds:>9.3f} "
        f"{ratio:>7.2f} {GOALS[name]:>5g} {met:<7} {getattr(ours, 'n_iter_', ''):>7} "
        f"{int(np.max(theirs.n_iter_)):>7} "
        f"{ours.score(X, y):>8.4f} {theirs.score(X, y):>8.4f}  {ran}",
        flush=True,
    )


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(GOALS), choices=GOALS)
    parser.add_argument(
        "--samples", type=int, nargs="+", default=SIZES, help="default: 100000 300000 1000000"
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--solver", choices=SOLVERS, help="default: the estimator's")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args(argv)
    options = {"epsilon": arguments.epsilon, "n_jobs": 1}
    if arguments.solver:
        options["solver"] = arguments.solver
    print(
        f"{'problem':>8} {'rows x columns':>16} {'ours, s':>9} {'theirs':>9} {'ratio':>7} "
        f"{'goal':>5} {'':7} "
        f"{'steps':>7} {'lbfgs':>7} {'score':>8} {'theirs':>8}"
    )
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, X, y, private in problems(arguments.only, arguments.samples, arguments.data):
            measure(name, X, y, lambda private=private: private(**options), arguments.rounds)
