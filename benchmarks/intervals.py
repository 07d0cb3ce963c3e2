"""Coverage and width of the intervals of `skdpdyn.inference.private_summary` on simulated data.

Run ``python -m benchmarks intervals``. Model and table together cost (epsilon, 1/n^2); the table
takes a share of mu^2 that grows with the number of columns. A line shows, for nominal 95 %
intervals: the share of coefficients that were answered, the coverage of their intervals with its
standard error over repetitions, the coverage of the worst coefficient, and the median ratio of the
standard error to that of the same regression without privacy. Columns are correlated. The data of
"robust" have another link than the model, and the target is the best approximation to it.
"""

import argparse
import time
import warnings
from functools import cache
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import brentq
from scipy.special import expit

from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.inference import private_summary
from skdpdyn.privacy import Budget, GaussianDP

FORMS = ("likelihood", "robust", "linear")
NOISE = 0.5  # of the linear target, whose bounds are -4 and 4
_QUANTILE = 1.959963984540054


def share_of(n_features, form):
    """Return the part of mu^2 that pays for the table."""
    if form == "linear":
        return 0.9  # the table does not use the model's coefficients
    return float(np.clip(0.025 * n_features, 0.15, 0.4)) + 0.1 * (form == "robust")


def coefficients(n_features):
    """Return the true coefficients, the intercept last."""
    signs = np.where(np.arange(n_features) % 2, -1.0, 1.0)
    return np.append(signs * np.linspace(3.0, 0.75, n_features), -0.5)


def rows(rng, n_samples, n_features, correlation):
    """Return rows in the unit ball whose neighbouring columns are correlated."""
    places = np.arange(n_features)
    root = np.linalg.cholesky(correlation ** np.abs(np.subtract.outer(places, places)))
    X = rng.standard_normal((n_samples, n_features)) @ root.T * (0.6 / np.sqrt(n_features))
    return X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]


def expected(X, form):
    """Return the expectation of the target."""
    raw = X @ coefficients(X.shape[1])[:-1] + coefficients(X.shape[1])[-1]
    if form == "linear":
        return raw
    return expit(raw) if form == "likelihood" else expit(raw + 2 * np.abs(raw) - 1)


@cache
def truth(n_features, correlation, form):
    """Return what is to be covered: for a wrong model the best approximation, on a million rows."""
    theta = coefficients(n_features)
    if form != "robust":
        return theta
    X = rows(np.random.default_rng(1), 1_000_000, n_features, correlation)
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


def models(n_samples, n_features, epsilon, adjacency, form):
    """Return a model and the budget of its table, which together cost epsilon."""
    whole = Budget.for_samples(epsilon, "auto", n_samples=n_samples, adjacency=adjacency)
    table = whole.part(share_of(n_features, form))

    def model(own):
        shared = {"delta": whole.delta, "conditioning": None, "adjacency": adjacency}
        if form == "linear":
            return PrivateRidge(own, target_bounds=(-4.0, 4.0), **shared)
        return PrivateLogisticRegression(
            own, classes=[False, True], clip=1.1, solver="objective_perturbation", **shared
        )

    def excess(own):
        cost = model(own).privacy_cost(n_samples, n_features)
        return cost.compose(GaussianDP(table.mu, adjacency)).epsilon(whole.delta) - epsilon

    return model(brentq(excess, 0.02 * epsilon, epsilon, xtol=1e-6) * (1 - 1e-5)), table


def simulate(n_samples, n_features, epsilon, adjacency, correlation, form, repetitions, seed=0):
    """Return errors over standard errors, and widths over those without privacy; NaN: not
    answered.
    """
    rng = np.random.default_rng(seed)
    model, table = models(n_samples, n_features, epsilon, adjacency, form)
    theta, errors, widths = truth(n_features, correlation, form), [], []
    for _ in range(repetitions):
        X = rows(rng, n_samples, n_features, correlation)
        mean = expected(X, form)
        noise = rng.standard_normal(n_samples) if form == "linear" else rng.uniform(size=n_samples)
        y = mean + NOISE * noise if form == "linear" else noise < mean
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            summary = private_summary(
                model.fit(X, y),
                X,
                y,
                epsilon=table.epsilon,
                delta=table.delta,
                robust=form == "robust",
            )
        errors.append((summary.coef - theta) / summary.std_err)
        widths.append(summary.std_err / errors_without_privacy(X, y, form, theta))
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
    n_samples, n_features, epsilon, adjacency, _, form = cell
    told = statistics(*simulate(*cell, repetitions))
    what = f"{form:<10} {adjacency:<11} {n_samples:>7} {n_features:>3} {epsilon:>4g}"
    return what + " {:>9.3f} {:>9.3f} {:>6.3f} {:>6.3f} {:>6.2f}".format(*told)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--n-samples", type=int, nargs="+", default=[2000, 20_000, 100_000])
    parser.add_argument("--n-features", type=int, nargs="+", default=[2, 5, 10, 30])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    both = ["add_remove", "replace_one"]
    parser.add_argument("--adjacency", nargs="+", default=both, choices=both)
    parser.add_argument("--correlation", type=float, default=0.5)
    parser.add_argument("--form", nargs="+", default=["likelihood"], choices=FORMS)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args(argv)
    start = time.perf_counter()
    print(f"correlation {arguments.correlation:g}, {arguments.repetitions} repetitions\n")
    print(
        f"{'form':<10} {'adjacency':<11} {'n':>7} {'d':>3} {'eps':>4} {'answered':>9} "
        f"{'coverage':>9} "
        f"{'+-':>6} {'worst':>6} {'width':>6}"
    )
    cells = product(
        arguments.n_samples,
        arguments.n_features,
        arguments.epsilon,
        arguments.adjacency,
        [arguments.correlation],
        arguments.form,
    )
    cells = sorted(cells, key=lambda cell: (FORMS.index(cell[-1]), cell[3]))
    lines = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(line)(cell, arguments.repetitions) for cell in cells
    )
    for told in lines:
        print(told, flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s")
