"""Whether default models are worse than the best constant that the same budget buys.

``python -m benchmarks constant --data DIR`` fits the defaults on 100 to 3,000 rows at epsilon 0.03
to 1: logistic regression on Adult, MAGIC, California above 180,000 dollars, and flights late by
more than 15 and 120 minutes; softmax on the pen digits; ridge on California's value; Poisson on
Swedish motor claims. Beside the mean loss of ``--fits`` fits (log loss; mean squared error in
variances of the target; mean deviance) stands the expected loss of the constant that the whole
budget buys of the same rows: a noisy share of each class, clamped at the standard deviation of its
noise; a noisy mean, clamped to its bounds; a noisy rate, at least that deviation. A fit is worse if
its mean loss is above by more than 0.5 %.
"""

import argparse
import math
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import xlogy

from benchmarks.accuracy import DATA, DATASETS, splits
from benchmarks.counts import policies
from skdpdyn import (
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core.rules import strength_of
from skdpdyn.exceptions import PrivacyUtilityWarning
from skdpdyn.privacy import Budget

SIZES = (100, 300, 1_000, 3_000)
EPSILONS = (0.03, 0.1, 0.3, 1.0)
ALLOWED = 0.005
DRAWS = 200  # of the constant's noise, a fit


@dataclass
class Problem:
    """Rows and targets, the model, and losses of predictions, of which the constant has one row."""

    X: np.ndarray
    y: np.ndarray
    model: object

    def loss(self, model, X, y):
        """Return the mean loss of a fitted model."""
        if hasattr(model, "predict_log_proba"):
            logs = model.predict_log_proba(X)
            return -float(np.mean(logs[np.arange(len(y)), np.searchsorted(model.classes_, y)]))
        found = model.predict(X).astype(float)
        if isinstance(model, PrivateRidge):
            return float(np.mean((found - y) ** 2) / np.var(self.y))
        return _deviance(y, found)

    def constant(self, strength, seen, y, rng):
        """Return the mean loss of constants of ``seen`` targets, for this n mu / f."""
        if isinstance(self.model, PrivateRidge):
            low, high = self.model.target_bounds
            noisy = seen.mean() + rng.normal(0, (high - low) / 2 / strength, DRAWS)
            means = np.clip(noisy, low, high)
            return float(np.mean(np.mean(y**2) - 2 * means * y.mean() + means**2) / np.var(self.y))
        if isinstance(self.model, PrivatePoissonRegressor):
            std = 1 / (2 * strength)  # counts are 0 or 1: a record moves their sum by 1
            rates = np.maximum(seen.mean() + rng.normal(0, std, DRAWS), std)
            return _deviance(y, 1.0) + 2 * float(np.mean(rates - 1 - y.mean() * np.log(rates)))
        labels = np.unique(self.y)
        shares, of_test = (
            np.array([np.mean(some == label) for label in labels]) for some in (seen, y)
        )
        if len(labels) == 2:
            std = 0.5 / strength
            noisy = shares[1] + rng.normal(0, std, DRAWS)
            kept = np.clip(noisy, std, 1 - std) if std < 0.5 else np.full(DRAWS, 0.5)
            found = np.stack([1 - kept, kept])
        else:
            std = math.sqrt(2) / (2 * strength)
            noise = rng.normal(0, std, (len(labels), DRAWS))
            found = np.maximum(shares[:, None] + noise, min(std, 1 / len(labels)))
            found /= found.sum(axis=0)
        return float(-np.mean(of_test @ np.log(found)))


def _deviance(y, rates):
    return float(2 * np.mean(xlogy(y, y / rates) - y + rates))


def two_classes(name, directory):
    """Return a problem of two classes."""
    found = DATASETS[name](directory)
    y = found.y == np.unique(found.y)[1]
    return Problem(found.X, y, PrivateLogisticRegression(classes=[False, True]))


def motor(directory):
    """Return 200,000 policies of Swedish motor insurance."""
    with np.load(directory / "swedish_motor_insurance.npz", allow_pickle=False) as table:
        rows, of, claims, _ = policies(table)
    chosen = np.random.default_rng(0).choice(len(of), 200_000, replace=False)
    return Problem(rows[of[chosen]], claims[chosen], PrivatePoissonRegressor(target_bounds=(0, 1)))


def pen_digits(directory):
    """Return the pen digits."""
    found = DATASETS["pendigits"](directory)
    return Problem(found.X, found.y, PrivateSoftmaxRegression(classes=range(10)))


def housing(directory):
    """Return the values of houses in California."""
    found = DATASETS["housing"](directory)
    return Problem(found.X, found.y, PrivateRidge(target_bounds=(0, 500_001)))


PROBLEMS = {
    "adult": partial(two_classes, "adult"),
    "magic": partial(two_classes, "magic"),
    "california": partial(two_classes, "california"),
    "flights > 15": partial(two_classes, "flights"),
    "flights > 120": partial(two_classes, "flights120"),
    "pen digits": pen_digits,
    "housing": housing,
    "motor": motor,
}


def main(arguments):
    """Print a line for each cell, and how many are worse."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the data sets")
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--fits", type=int, default=20, help="fits a cell")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", PrivacyUtilityWarning)
    n_cells, worse = 0, 0
    print(f"{'':<14} {'rows':>5} {'epsilon':>7} {'n mu/f':>7} {'constant':>8}     fits   excess")
    for name in asked.only:
        problem = PROBLEMS[name](asked.data)
        ((train, test),) = splits(len(problem.y), 1)
        test = test[:5000]
        for n_samples in SIZES:
            for epsilon in EPSILONS:
                budget = Budget.for_samples(epsilon, "auto", n_samples=n_samples)
                strength = strength_of(n_samples, budget.mu, budget.adjacency)
                rng, losses, constants = np.random.default_rng(0), [], []
                model = problem.model.set_params(epsilon=epsilon)
                for _ in range(asked.fits):
                    rows = rng.choice(train, n_samples, replace=False)
                    model.fit(problem.X[rows], problem.y[rows])
                    losses.append(problem.loss(model, problem.X[test], problem.y[test]))
                    seen, targets = problem.y[rows], problem.y[test]
                    constants.append(problem.constant(strength, seen, targets, rng))
                constant = np.mean(constants)
                excess = np.mean(losses) / constant - 1
                paired = np.subtract(losses, constants) / constant
                error = np.std(paired, ddof=1) / math.sqrt(asked.fits)
                n_cells, worse = n_cells + 1, worse + (excess > ALLOWED)
                mark = " worse" if excess > ALLOWED else ""
                print(
                    f"{name:<14} {n_samples:>5} {epsilon:>7} {strength:>7.1f} {constant:>8.4f} "
                    f"{np.mean(losses):>8.4f} {excess:>+8.1%} +- {error:.1%}{mark}",
                    flush=True,
                )
    print(
        f"{worse} of {n_cells} cells are worse by more than {ALLOWED:.1%}, {asked.fits} fits a cell"
    )
