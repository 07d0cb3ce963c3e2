"""Time of a default fit beside scikit-learn's, one thread each, as ratios inside one run.

``python -m benchmarks fit_time --data DIR``: our defaults at epsilon 1 against scikit-learn's
LogisticRegression with lbfgs and C=1000, whose iterations are told (it stops at 100, as by
default), its Ridge by Cholesky and its PoissonRegressor.

- alike, scales: float32 columns, uniform in [-1, 1], alike or with scales from 1 to 0.01, in rows
  within the unit ball; labels of a logistic model that is right 9 times of 10 or so;
- ridge, poisson: the same columns, and targets of such models;
- flights: late or not, 80 % of the rows of ``accuracy.py``;
- mnist: softmax of ten classes, 80 % of the rows of ``accuracy.py``;
- newsgroups: counts of words, 80 % of the rows of ``accuracy.py``.

Every figure is the least CPU time of some rounds (``--rounds``), in which ours and scikit-learn's
take turns, after a fit of a thousand rows that compiles. The serial share is the part of the time
that is not in passes over rows, which threads share; ``--threads 2`` shows the wall time of a fit
with two threads over that with one, on a machine that has nothing else to do. ``--samples`` gives
other sizes, ``--only`` some of the problems, ``--solver`` and ``--epsilon`` other fits. Goals are
those of the table GOALS.
"""

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from threadpoolctl import threadpool_limits

from benchmarks.accuracy import DATA, flights, mnist, newsgroups, splits
from skdpdyn import PrivateLogisticRegression, PrivatePoissonRegressor, PrivateRidge
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.solvers import SOLVERS

# at most, times scikit-learn's, of a million rows
GOALS = {
    "alike": 0.75,
    "scales": 0.35,
    "ridge": 1.5,
    "poisson": 1.8,
    "flights": 1.2,
    "mnist": 0.4,
    "newsgroups": 1.85,
}
REAL = {"flights": flights, "mnist": mnist, "newsgroups": newsgroups}
COLUMNS = 50
SIZES = (100_000, 1_000_000)
PASSES = "gradient", "summed", "_bounded"  # methods that threads share


def columns(scales, n_samples):
    """Return float32 rows within the unit ball, whose columns have these scales, and scores."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_samples, len(scales))).astype(np.float32)
    weights = rng.standard_normal(len(scales)).astype(np.float32)  # of columns alike
    scores = X @ weights
    X *= (scales / np.linalg.norm(scales)).astype(np.float32)
    return X, scores, rng


def made(name, n_samples):
    """Return X, y, the maker of our model and that of scikit-learn's."""
    smallest = 0.01 if name == "scales" else 1.0
    X, scores, rng = columns(np.geomspace(1.0, smallest, COLUMNS), n_samples)
    if name == "ridge":
        y = np.tanh(scores / 10) + 0.1 * rng.standard_normal(n_samples)
        return (
            X,
            y,
            lambda **k: PrivateRidge(target_bounds=(-1, 1), **k),
            lambda: Ridge(solver="cholesky"),
        )
    if name == "poisson":
        y = rng.poisson(np.exp(scores / 10)).astype(float)
        return (
            X,
            y,
            lambda **k: PrivatePoissonRegressor(target_bounds=(0, 10), **k),
            lambda: PoissonRegressor(alpha=1e-6),
        )
    return X, scores + 0.5 * rng.logistic(size=n_samples) > 0, binary, lbfgs


def binary(**options):
    return PrivateLogisticRegression(classes=[False, True], **options)


def lbfgs():
    return LogisticRegression(C=1000)


def problems(only, sizes, directory):
    """Return (name, X, y, our maker, scikit-learn's) for each problem, one after the other."""
    for name in only:
        if name not in REAL:
            for n_samples in sizes:
                yield name, *made(name, n_samples)
    for name, loader in REAL.items():
        if name in only:
            try:
                problem = loader(directory)
            except FileNotFoundError as error:
                print(f"SKIPPED {name}: no file {error.filename}; say where it is by --data")
                continue
            train, _ = next(splits(len(problem.y), 1))
            yield name, problem.X[train], problem.y[train], problem.private, lbfgs


def seconds_of(model, X, y, clock=time.process_time):
    """Return the time of a fit."""
    start = clock()
    model.fit(X, y)
    return clock() - start


def serial_share(model, X, y):
    """Return the part of a fit on one thread that is not in passes over rows."""
    spent, methods = [0.0], {name: getattr(LocalRows, name) for name in PASSES}

    def timed(method, depth=[0]):  # noqa: B006  # passes inside passes count once
        def run(*arguments, **options):
            depth[0] += 1
            start = time.process_time()
            try:
                return method(*arguments, **options)
            finally:
                depth[0] -= 1
                spent[0] += (time.process_time() - start) * (depth[0] == 0)

        return run

    try:
        for name, method in methods.items():
            setattr(LocalRows, name, timed(method))
        whole = seconds_of(model, X, y)
    finally:
        for name, method in methods.items():
            setattr(LocalRows, name, method)
    return 1 - spent[0] / whole


def measure(name, X, y, private, theirs, rounds, n_threads):
    """Print the least times of both, their ratio, and what threads do."""
    private(n_jobs=1).fit(X[:1000], y[:1000])  # compiles
    times = []
    for _ in range(rounds):
        ours, other = private(n_jobs=1), theirs()
        times.append((seconds_of(ours, X, y), seconds_of(other, X, y)))
    ours_seconds, their_seconds = np.min(times, axis=0)
    ratio = ours_seconds / their_seconds
    threads = ""
    if n_threads > 1:
        walls = [
            [seconds_of(private(n_jobs=n), X, y, time.perf_counter) for n in (n_threads, 1)]
            for _ in range(rounds)
        ]
        threads = f"{np.divide(*np.min(walls, axis=0)):.2f}"
    met = "met" if ratio <= GOALS[name] else "missed"
    print(
        f"{name:>10} {X.shape[0]:>9} x {X.shape[1]:<4} {ours_seconds:>9.3f} {their_seconds:>9.3f} "
        f"{ratio:>7.2f} {GOALS[name]:>5g} {met:<7} {getattr(ours, 'n_iter_', ''):>7} "
        f"{int(np.max(getattr(other, 'n_iter_', None) or 0)):>7} "
        f"{ours.score(X, y):>8.4f} {other.score(X, y):>8.4f} "
        f"{serial_share(private(n_jobs=1), X, y):>7.1%} {threads:>8}",
        flush=True,
    )


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(GOALS), choices=GOALS)
    parser.add_argument(
        "--samples", type=int, nargs="+", default=SIZES, help="default: 100000 1000000"
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--solver", choices=SOLVERS, help="default: the estimator's")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args(argv)
    options = {"epsilon": arguments.epsilon}
    if arguments.solver:
        options["solver"] = arguments.solver
    print(
        f"{'problem':>10} {'rows x columns':>16} {'ours, s':>9} {'theirs':>9} {'ratio':>7} "
        f"{'goal':>5} {'':7} "
        f"{'steps':>7} {'theirs':>7} {'score':>8} {'theirs':>8} {'serial':>7} {'threads':>8}"
    )
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # scores of the rows of the fit
        for name, X, y, private, theirs in problems(
            arguments.only, arguments.samples, arguments.data
        ):
            ours = partial(private, **options)
            measure(name, X, y, ours, theirs, arguments.rounds, arguments.threads)
