"""Coverage and width of private intervals on simulated data, beside those of rivals.

Run ``python -m benchmarks intervals``. Each method spends (epsilon, 1/n^2). A line shows, for
nominal 95 % intervals: the share of coefficients that were answered, the coverage of their
intervals, the 99.9 % interval of that over repetitions, the coverage of the worst coefficient, and
the median ratio of the standard error to that of the same regression without privacy. "fails" marks
a 99.9 % interval that lies outside of 0.935 to 0.975. 400 repetitions of a cell of 20,000 records
and 5 columns take about 20 s of a processor.

Methods: `private_regression`, and for linear regression BinAgg (Lin, Slavkovic and Bhoomireddy
2025, arXiv 2510.16974) and the private bootstrap (Wang, Cheng and Awan 2022, arXiv 2210.06140), see
`benchmarks._rivals_intervals`.
Designs: neighbouring columns have a correlation of 0.5 or of 0.95, or columns have a long tail. All
methods know that columns are within -1 and 1. The data of "robust" have another link than the
model, and the target is the best approximation to it.
"""

import argparse
import time
import warnings
from functools import cache
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit

from benchmarks._rivals_intervals import binagg, bootstrap
from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.inference import private_regression
from skdpdyn.privacy import Budget

FORMS = ("likelihood", "robust", "linear")
DESIGNS = {"correlated": 0.5, "collinear": 0.95, "skewed": None}
LARGE = 20_000  # records, above which repetitions are fewer
NOISE = 0.5  # of the linear target, whose bounds are -4 and 4
_QUANTILE = 1.959963984540054
_FAILS = 3.2905  # normal quantile of 99.9 %


def coefficients(n_features):
    """Return the true coefficients, the intercept last."""
    signs = np.where(np.arange(n_features) % 2, -1.0, 1.0)
    return np.append(signs * np.linspace(3.0, 0.75, n_features), -0.5)


def rows(rng, n_samples, n_features, design):
    """Return rows in the unit ball whose columns are as the design says."""
    if design == "skewed":
        X = rng.exponential(1.0, (n_samples, n_features)) * (0.4 / np.sqrt(n_features))
    else:
        places = np.arange(n_features)
        distance = np.abs(np.subtract.outer(places, places))
        root = np.linalg.cholesky(DESIGNS[design] ** distance)
        X = rng.standard_normal((n_samples, n_features)) @ root.T * (0.6 / np.sqrt(n_features))
    return X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]


def expected(X, form):
    """Return the expectation of the target."""
    raw = X @ coefficients(X.shape[1])[:-1] + coefficients(X.shape[1])[-1]
    if form == "linear":
        return raw
    return expit(raw) if form == "likelihood" else expit(raw + 2 * np.abs(raw) - 1)


@cache
def truth(n_features, design, form):
    """Return what is to be covered: for a wrong model the best approximation, on a million rows."""
    theta = coefficients(n_features)
    if form != "robust":
        return theta
    X = rows(np.random.default_rng(1), 1_000_000, n_features, design)
    probability, Z = expected(X, form), np.column_stack([X, np.ones(len(X))])
    theta = np.zeros(n_features + 1)
    for _ in range(12):
        p = expit(Z @ theta)
        theta = theta + np.linalg.solve((Z.T * (p * (1 - p))) @ Z, Z.T @ (probability - p))
    return theta


def errors_without_privacy(X, y, form, theta):
    """Return standard errors of the same regression without privacy, at the true coefficients."""
    Z = np.column_stack([X, np.ones(len(X))])
    if form == "linear":
        return NOISE * np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)))
    p = expit(Z @ theta)
    inverse = np.linalg.inv((Z.T * (p * (1 - p))) @ Z)
    scores = Z * (p - y)[:, None]
    middle = inverse if form == "likelihood" else inverse @ (scores.T @ scores) @ inverse
    return np.sqrt(np.diag(middle))


def by_regression(X, y, form, epsilon, adjacency):
    """Return estimates and standard errors of a table in one call."""
    model = PrivateRidge() if form == "linear" else PrivateLogisticRegression()
    of_target = {"target_bounds": (-4.0, 4.0)} if form == "linear" else {"classes": [False, True]}
    options = {"epsilon": epsilon, "adjacency": adjacency, "robust": form == "robust"}
    _, table = private_regression(model, X, y, bounds=(-1, 1), **of_target, **options)
    return table.params, table.bse


def of_rival(method):
    """Return a rival, for linear regression: it knows the bounds and mu."""

    def found(X, y, form, epsilon, adjacency):
        mu = Budget.for_samples(epsilon, "auto", n_samples=len(X), adjacency=adjacency).mu
        # both count a record that joins or leaves; replacing is leaving and joining
        return method(X, y, 4.0, mu / (2 if adjacency == "replace_one" else 1))

    return found


METHODS = {
    "regression": by_regression,
    "BinAgg": of_rival(binagg),
    "bootstrap": of_rival(bootstrap),
}
RIVALS = "BinAgg", "bootstrap"


def simulate(cell, repetitions, seed=0):
    """Return errors over standard errors, and widths over those without privacy; NaN: not
    answered.
    """
    form, adjacency, design, n_samples, n_features, epsilon, method = cell
    rng = np.random.default_rng(seed)
    theta, errors, widths = truth(n_features, design, form), [], []
    for _ in range(repetitions):
        X = rows(rng, n_samples, n_features, design)
        mean = expected(X, form)
        noise = rng.standard_normal(n_samples) if form == "linear" else rng.uniform(size=n_samples)
        y = mean + NOISE * noise if form == "linear" else noise < mean
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            coef, std_err = METHODS[method](X, y, form, epsilon, adjacency)
        errors.append((coef - theta) / std_err)
        widths.append(std_err / errors_without_privacy(X, y, form, theta))
    return np.array(errors), np.array(widths)


def statistics(errors, widths):
    """Return what a line tells: share answered, coverage, its standard error, the worst, and
    width.
    """
    answered = np.isfinite(errors)
    if not answered.any():
        return 0.0, *[float("nan")] * 4
    covered, counted = (np.abs(errors) <= _QUANTILE).sum(axis=1), answered.sum(axis=1)
    coverage = covered.sum() / counted.sum()
    # of a ratio: the intervals of one repetition are not independent
    spread = np.sum((covered - coverage * counted) ** 2) ** 0.5 / counted.sum()
    by_coefficient = (np.abs(errors) <= _QUANTILE).sum(axis=0) / np.maximum(answered.sum(axis=0), 1)
    worst = by_coefficient[answered.any(axis=0)].min()
    return answered.mean(), coverage, spread, worst, np.median(widths[answered])


def line(cell, repetitions):
    """Return a line of the table."""
    form, adjacency, design, n_samples, n_features, epsilon, method = cell
    share, coverage, spread, *rest = statistics(*simulate(cell, repetitions))
    # where all cover, the spread of a nominal coverage
    counted = max(share * repetitions * (n_features + 1), 1)
    reach = _FAILS * max(spread, np.sqrt(0.05 * 0.95 / counted))
    low, high = coverage - reach, min(coverage + reach, 1.0)
    told, far = (share, coverage, low, high, *rest), high < 0.935 or low > 0.975
    what = f"{form:<10} {adjacency:<11} {design:<10} {n_samples:>7} {n_features:>3} {epsilon:>4g}"
    what += f" {method:<10} {repetitions:>5}"
    return (
        what
        + " {:>9.3f} {:>9.3f} {:>6.3f} {:>6.3f} {:>6.3f} {:>6.2f}".format(*told)
        + "  fails" * bool(far)
    )


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=2000, help="of up to 20,000 records")
    parser.add_argument("--large-repetitions", type=int, default=200, help="of more records")
    parser.add_argument("--n-samples", type=int, nargs="+", default=[1000, 20_000, 1_000_000])
    parser.add_argument("--n-features", type=int, nargs="+", default=[2, 5, 20])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 4.0])
    both = ["add_remove", "replace_one"]
    parser.add_argument("--adjacency", nargs="+", default=both, choices=both)
    parser.add_argument("--design", nargs="+", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--form", nargs="+", default=list(FORMS), choices=FORMS)
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args(argv)
    start = time.perf_counter()
    print(
        f"{'form':<10} {'adjacency':<11} {'design':<10} {'n':>7} {'d':>3} {'eps':>4} "
        f"{'method':<10} {'times':>5} {'answered':>9} {'coverage':>9} "
        f"{'low':>6} {'high':>6} {'worst':>6} {'width':>6}"
    )
    cells = product(
        arguments.form,
        arguments.adjacency,
        arguments.design,
        arguments.n_samples,
        arguments.n_features,
        arguments.epsilon,
        arguments.method,
    )
    cells = [cell for cell in cells if cell[-1] not in RIVALS or cell[0] == "linear"]
    lines = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(line)(cell, times)
        for cell in cells
        for times in [arguments.repetitions if cell[3] <= LARGE else arguments.large_repetitions]
    )
    for told in lines:
        print(told, flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s")
