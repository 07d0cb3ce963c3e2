"""Table 1 of Chourasia, Ye and Shokri (2021), measured: excess empirical risk and gradients of
single records, by solver.

Run ``python -m benchmarks table1``. One strongly convex problem: logistic regression on the first
records of Adult, columns by public bounds, rows in the unit ball, the penalty given and gradients
not clipped, so that all solvers minimise the same function; delta = 1/n^2. The excess is the mean
over fits with fresh noise of the regularised empirical risk above its minimum; that of theta = 0 is
in the title. Gradients are counted from the records of what ran (a batch counts its mean size);
every solver runs with its defaults, or with what its row says. Solvers that this version does not
have are skipped aloud.
"""

import argparse
import math
import time

import numpy as np
from scipy import optimize
from scipy.special import expit

from benchmarks.accuracy import adult
from skdpdyn import PrivateLogisticRegression
from skdpdyn.privacy import Composition, PoissonSubsampled
from skdpdyn.solvers import SOLVERS

SCALING = 0.25  # of the intercept column

ROWS = (
    ("noisy GD, last iterate", "noisy_gd", {}, {}),
    ("noisy GD, last iterate, worst-case steps", "noisy_gd", {"n_steps": "worst_case"}, {}),
    ("noisy GD, composition", "noisy_gd", {}, {"bound": "composition"}),
    (
        "noisy GD, composition, the same worst-case steps",
        "noisy_gd",
        {"n_steps": "worst_case"},
        {"bound": "composition"},
    ),
    ("noisy SGD, Bassily et al.", "bassily_sgd", {}, {}),
    ("DP-SVRG, Wang et al.", "dp_svrg", {}, {}),
    ("DP-SGD", "dp_sgd", {}, {}),
    ("output perturbation", "output_perturbation", {}, {}),
    ("objective perturbation", "objective_perturbation", {}, {}),
)


class Risk:
    """The regularised empirical risk, as a function of coefficients and the intercept column's."""

    def __init__(self, X, y, alpha):
        scaled = X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
        self.X, self.y, self.alpha = np.column_stack([scaled, np.full(len(X), SCALING)]), y, alpha
        found = optimize.minimize(
            self,
            np.zeros(self.X.shape[1]),
            jac=self.gradient,
            method="BFGS",
            options={"gtol": 1e-10},
        )
        self.least = found.fun

    def __call__(self, theta):
        """Return the risk."""
        raw = self.X @ theta
        return np.mean(np.logaddexp(0, raw) - self.y * raw) + self.alpha / 2 * theta @ theta

    def gradient(self, theta):
        """Return the gradient of the risk."""
        return (expit(self.X @ theta) - self.y) @ self.X / len(self.y) + self.alpha * theta

    def excess(self, model):
        """Return how far a fitted model's risk is above the least one."""
        return self(np.append(model.coef_, model.intercept_ / SCALING)) - self.least


def gradients_of(mechanism, n_samples):
    """Return the mean number of per-record gradients of a run, None where it is not known."""
    if isinstance(mechanism, Composition):
        if not all(isinstance(part, PoissonSubsampled) for part in mechanism.mechanisms):
            return None
        # of DP-SVRG, each of whose steps takes the gradient at two points
        snapshots, steps = mechanism.mechanisms
        return gradients_of(snapshots, n_samples) + 2 * gradients_of(steps, n_samples)
    if isinstance(mechanism, PoissonSubsampled):
        return mechanism.n_steps * mechanism.sampling_probability * n_samples
    return mechanism.n_steps * n_samples if hasattr(mechanism, "n_steps") else None


def run(X, y, alpha, epsilon, n_fits):
    risk = Risk(X, y, alpha)
    n_samples, n_features = X.shape
    print(
        f"\nAdult, {n_samples} x {n_features}, alpha={alpha:g}, epsilon={epsilon:g}, "
        f"delta=1/n^2, {n_fits} fits; "
        f"risk {risk.least:.4f} at the minimum, excess "
        f"{risk(np.zeros(n_features + 1)) - risk.least:.4f} at 0"
    )
    print(
        f"{'solver':<50} {'excess':>10} {'+-':>9} {'gradients':>11} {'over n':>9} {'noise':>9} "
        f"{'seconds':>8}  bound"
    )
    for title, name, parameters, options in ROWS:
        if name not in SOLVERS:
            print(f"{title:<50} SKIPPED: no solver {name!r} in this version")
            continue
        model = PrivateLogisticRegression(
            epsilon,
            alpha=alpha,
            clip=math.hypot(1, SCALING),
            classes=[False, True],
            intercept_scaling=SCALING,
            solver=SOLVERS[name](**parameters),
            **options,
        )
        start = time.perf_counter()
        try:
            excesses = [risk.excess(model.fit(X, y)) for _ in range(n_fits)]
        except Exception as error:  # a rule that has no answer here is one line of the table
            print(f"{title:<50} {type(error).__name__}: {error}")
            continue
        seconds = (time.perf_counter() - start) / n_fits
        count = gradients_of(model.mechanism_, n_samples)
        counted = (
            f"{'-':>11} {'-':>9}" if count is None else f"{count:>11.3g} {count / n_samples:>9.3g}"
        )
        noise = getattr(model, "noise_multiplier_", math.nan)
        print(
            f"{title:<50} {np.mean(excesses):>10.5f} "
            f"{np.std(excesses) / math.sqrt(n_fits):>9.5f} {counted} {noise:>9.4g} "
            f"{seconds:>8.2f}  {model.bound_}",
            flush=True,
        )


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 3.0])
    parser.add_argument("--alpha", type=float, default=1e-2)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--fits", type=int, default=3)
    arguments = parser.parse_args(argv)
    problem = adult(None)
    X, y = problem.X[: arguments.samples], problem.y[: arguments.samples]
    for epsilon in arguments.epsilon:
        run(X, y, arguments.alpha, epsilon, arguments.fits)
