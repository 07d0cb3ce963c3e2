"""Quantiles of ten tables, and prediction intervals beside plain conformal ones.

Run ``python -m benchmarks quantiles [quantiles] [intervals]``. A fit knows the bounds of targets
and buys ranges of columns, and spends (epsilon, 1/n^2). Of quantiles a line shows the part of test
targets at or below the prediction, its mean distance from the quantile over fits, and the mean D^2
of the pinball loss; the last lines are means over tables. "atom" is a made-up target of which 30 %
are 0: no part is a quantile within it, and the distance is that of the nearest part, below or at
and below. Of intervals a line shows the coverage of .9 over runs, half of the records held out of
the fit, and the mean width over that of the conformal quantile of the same model's scores on the
same records without noise.

Minutes: 60 of a processor; 1 with ``--quick``.
"""

import warnings
from itertools import product

import numpy as np
import pandas as pd

from benchmarks._common import (
    abalone,
    housing,
    loaded,
    mean_and_error,
    parser,
    run_parts,
    splits,
    swedish as swedish_table,
)
from skdpdyn import PrivateQuantileRegressor, PrivateRidge
from skdpdyn.evaluation import prediction_interval

QUANTILES = (0.1, 0.5, 0.8, 0.9)
TEST = 20_000  # new records of an interval


def _read(name, target, bounds):
    """Return a reader of a file: rows, with dummies of text, targets and their bounds."""

    def read(directory):
        frame = pd.read_csv(directory / name).dropna()
        y = frame.pop(target).to_numpy(float)
        frame = frame.drop(
            columns=["instant", "dteday", "casual", "registered", "id", "date"], errors="ignore"
        )
        return pd.get_dummies(frame, dtype=float).to_numpy(), y, bounds

    return read


def _of(table):
    """Return a reader of a table of the arena."""

    def read(directory):
        found = table(directory)
        return found.numbers(found.X), found.y, found.target_bounds

    return read


def made(law, n_samples, rng):
    """Return four columns, a target that is linear in them but for noise of a law, and bounds."""
    X = rng.uniform(-1, 1, (n_samples, 4))
    y = X @ [1.5, -1.0, 0.5, 0.0]
    if law == "normal":
        return X, y + rng.normal(0, 0.3, n_samples), (-4.0, 4.0)
    if law == "skewed":
        return X, y + rng.lognormal(0, 0.7, n_samples), (-4.0, 12.0)
    if law == "discrete":
        return X, np.clip(np.round(4 + y + rng.normal(size=n_samples)), 0, 12), (0.0, 12.0)
    if law == "spread":
        noise = rng.normal(0, 0.3, n_samples) * (1 + 0.8 * X[:, 0])
        return X, y + noise, (-4.0, 4.0)
    return X, np.where(rng.random(n_samples) < 0.3, 0.0, np.exp(y)), (0.0, 21.0)  # atom


LAWS = ("normal", "skewed", "discrete", "spread", "atom")
TABLES = {
    "abalone": _of(abalone),
    "swedish": _of(swedish_table),
    "bike": _read("bike_sharing_hour.csv.gz", "cnt", (0.0, 1000.0)),
    "housing": _of(housing),
    "kchouse": _read("kc_house.csv.gz", "price", (0.0, 3e6)),
    "diamonds": _read("diamonds.csv.gz", "price", (0.0, 2e4)),
} | {law: lambda _, law=law: made(law, 25_000, np.random.default_rng(0)) for law in LAWS}


def quantiles(asked):
    """Print the parts below and D^2 of each table."""
    from sklearn.metrics import d2_pinball_score

    means = {}
    for name, (X, y, bounds) in loaded(asked.tables, lambda name: TABLES[name](asked.data)):
        for epsilon, quantile in product(asked.epsilon, QUANTILES):
            model = PrivateQuantileRegressor(epsilon, quantile=quantile, target_bounds=bounds)
            cells = []
            for train, test in splits(len(X), asked.repetitions):
                predicted = model.fit(X[train], y[train]).predict(X[test])
                at = np.mean(y[test] <= predicted)
                below = np.mean(y[test] < predicted - 1e-3 * np.ptp(bounds))
                off = max(below - quantile, quantile - at, 0.0) if name == "atom" else at - quantile
                cells.append((at, off, d2_pinball_score(y[test], predicted, alpha=quantile)))
            at, off, score = np.array(cells).T
            share, error = mean_and_error(at)
            if name != "atom":
                means.setdefault(epsilon, []).append((abs(off).mean(), score.mean()))
            print(
                f"{name:<9} {epsilon:>5g} {quantile:.1f}  at or below {share:.3f} +- {error:.3f}  "
                f"off {abs(off).mean():.3f}  D2 {score.mean():.3f} +- "
                f"{mean_and_error(score)[1]:.3f}",
                flush=True,
            )
    for epsilon, cells in means.items():
        off, score = np.mean(cells, axis=0)
        print(f"all       {epsilon:>5g} off {off:.4f}  D2 {score:.4f}")


def intervals(asked):
    """Print coverage and width of intervals."""
    models = {"ridge": PrivateRidge, "quantiles": PrivateQuantileRegressor}
    for name, law, n_samples, epsilon in product(
        models, LAWS[:2] + LAWS[3:4], asked.n_samples, asked.epsilon
    ):
        covered, widths = [], []
        for seed in range(asked.repetitions):
            X, y, bounds = made(law, n_samples + TEST, np.random.default_rng(seed))
            options = {"quantile": [0.05, 0.95]} if name == "quantiles" else {}
            model = models[name](epsilon, target_bounds=bounds, **options)
            half = n_samples // 2
            model.fit(X[:half], y[:half])
            rows, targets = X[half:n_samples], y[half:n_samples]
            found = prediction_interval(model, rows, targets, epsilon=epsilon)
            low, high = found.predict_interval(X[n_samples:]).T
            covered.append(np.mean((low <= y[n_samples:]) & (y[n_samples:] <= high)))
            ends = found.predict_interval(rows).T
            middle, unit = ends.mean(axis=0), np.diff(ends, axis=0)[0] / 2 / found.threshold_
            ranks = np.sort(np.abs(targets - middle) / unit)
            plain = ranks[min(int(np.ceil(0.9 * (len(ranks) + 1))), len(ranks)) - 1]
            widths.append(found.threshold_ / plain)
        coverage, error = mean_and_error(covered)
        print(
            f"{name:<10} {law:<9} {n_samples:>6} {epsilon:>4g}  coverage {coverage:.3f} +- "
            f"{error:.3f}  width {np.mean(widths):.3f}",
            flush=True,
        )


PARTS = {"quantiles": quantiles, "intervals": intervals}


def main(arguments=None):
    """Print the parts that are asked for."""
    made_parser = parser(__doc__, PARTS)
    made_parser.add_argument("--repetitions", type=int, default=8, help="fits of a cell")
    made_parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    made_parser.add_argument("--tables", nargs="+", default=list(TABLES), help=", ".join(TABLES))
    made_parser.add_argument("--n-samples", nargs="+", type=int, default=[2000, 20_000])
    asked = made_parser.parse_args(arguments)
    if asked.quick:
        asked.repetitions = 2
        asked.epsilon = [1.0]
        asked.tables = ["normal", "atom"]
        asked.n_samples = [2000]
    warnings.simplefilter("ignore")
    run_parts(PARTS, asked)
