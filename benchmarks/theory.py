"""What the theory pages say, measured: excess risk, runs that converge, accounting, and rules.

``python -m benchmarks theory [PART ...]``, of which the parts are

- table1: Table 1 of Chourasia, Ye and Shokri (2021). One strongly convex problem, logistic
  regression on 4,000 records of Adult with alpha 0.01 and gradients that are not clipped; the mean
  excess of the regularised empirical risk over fits, and gradients of single records over n.
- converging: plain noisy gradient descent with the noise for which the exact bound has converged at
  epsilon 1: epsilon after K steps by each bound, the K* from which on a bound is within 1 % of its
  limit, and the accuracy that is left.
- accounting: epsilons of Poisson batches over the quadrature of ``tests/accounting_oracle.py``, the
  time of `least_noise` and of calibrations over random problems, and what they leave unspent.
- rules: curves of `skdpdyn.core.rules` into ``--figure FILE`` (rules.png), without data.

Minutes: table1 1, converging 10, accounting 12, rules 0.1; all with ``--quick`` 2.
"""

import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import optimize
from scipy.special import expit

from benchmarks._common import ROOT, loaded, mean_and_error, parser, problem, run_parts, splits
from benchmarks.rivals.bassily_sgd import BassilySGD
from benchmarks.rivals.dp_svrg import DPSVRG
from skdpdyn import PrivateLogisticRegression
from skdpdyn.core import rules
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import (
    ACCOUNTANTS,
    Composition,
    PoissonSubsampled,
    calibrate,
    least_noise,
    tightest,
)
from skdpdyn.solvers import DPSGD, NoisyGD, ObjectivePerturbation, OutputPerturbation
from skdpdyn.training.plan import plan_of
from skdpdyn.training.purchase import Purchase

SCALING = 0.25  # of the intercept column
WORST = NoisyGD(n_steps="worst_case")
ROWS = (
    ("noisy GD, last iterate", NoisyGD(), {}),
    ("noisy GD, last iterate, worst-case steps", WORST, {}),
    ("noisy GD, composition", NoisyGD(), {"bound": "composition"}),
    ("noisy GD, composition, worst-case steps", WORST, {"bound": "composition"}),
    ("noisy SGD, Bassily et al.", BassilySGD(), {}),
    ("DP-SVRG, Wang et al.", DPSVRG(), {}),
    ("DP-SGD", DPSGD(), {}),
    ("output perturbation", OutputPerturbation(), {}),
    ("objective perturbation", ObjectivePerturbation(), {}),
)
BOUNDS = "composition", "langevin", "last_iterate"
CONVERGING = {  # data, rows, alpha, further parameters
    "Adult": ("adult", None, 1e-3, {}),
    "MNIST": ("mnist", 10_000, 0.05, {"clip": 2.0}),
    "Adult, strongly regularised": ("adult", None, 0.1, {}),
}
FAR = 10**7  # steps: every bound that converges has
PANELS = {
    "clip of a residual, over the largest": {
        "logistic": lambda d, s: rules.logistic_clip(d, s),
        "softmax, 3 classes": lambda d, s: rules.softmax_clip(3 * d, s) / 2**0.5,
        "ridge, over scale / 4": lambda d, s: min(4 * rules.mapped_ridge_clip(d, s), 4),
    },
    "part of the rows that keep their length": {
        "bounded losses": lambda d, s: rules.kept_length(s, d, True),
        "ridge": lambda d, s: rules.kept_length(s, d, False),
        "counts": lambda d, s: rules.kept_length_of_rates(s, d),
    },
    "training time": {
        "one output": lambda d, s: rules.training_time(s, d, 1, True),
        "three classes": lambda d, s: rules.training_time(s, 3 * d, 3, True),
        "ridge": lambda d, s: rules.training_time(s, d, 1, False),
    },
    "part of mu^2": {
        "class shares": lambda d, s: rules.class_share(s, 1),
        "rate of counts": lambda d, s: rules.rate_share(s),
        "mean target": lambda d, s: rules.mean_target_share(s),
        "mean residual": lambda d, s: rules.calibration_share(s),
        "quantile of residuals": lambda d, s: rules.residuals_share(s),
        "mean residual of counts": lambda d, s: rules.rate_calibration_share(s),
        "length of rows": lambda d, s: rules.radius_share(s),
    },
}


class Risk:
    """The regularised empirical risk, as a function of coefficients and the intercept column's."""

    def __init__(self, X, y, alpha):
        self.X = np.column_stack([X, np.full(len(X), SCALING)])
        self.y = y
        self.alpha = alpha
        zero = np.zeros(self.X.shape[1])
        options = {"jac": self.gradient, "method": "BFGS", "options": {"gtol": 1e-10}}
        self.least = optimize.minimize(self, zero, **options).fun

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
    """Return the mean number of per-record gradients of a run, nan where it is not known."""
    if isinstance(mechanism, Composition):
        if not all(isinstance(part, PoissonSubsampled) for part in mechanism.mechanisms):
            return math.nan
        # of DP-SVRG, each of whose steps takes the gradient at two points
        snapshots, steps = mechanism.mechanisms
        return gradients_of(snapshots, n_samples) + 2 * gradients_of(steps, n_samples)
    part = getattr(mechanism, "sampling_probability", 1)  # of the records, in a batch
    return getattr(mechanism, "n_steps", math.nan) * part * n_samples


def table1(asked, alpha=1e-2):
    """Print the excess risk of every solver."""
    data = problem("adult", asked.data)
    n_samples, n_fits = (1000, 1) if asked.quick else (4000, 3)
    X = data.X[:n_samples]
    y = data.y[:n_samples].astype(float)
    risk = Risk(X, y, alpha)
    at_zero = risk(np.zeros(X.shape[1] + 1)) - risk.least
    for epsilon in (1.0,) if asked.quick else (0.5, 1.0, 3.0):
        print(
            f"\nAdult, {n_samples} x {X.shape[1]}, alpha={alpha:g}, epsilon={epsilon:g}, ", end=""
        )
        print(f"delta=1/n^2, {n_fits} fits; risk {risk.least:.4f}, excess {at_zero:.4f} at 0")
        print(f"{'solver':<41} {'excess':>8} {'+-':>8} {'gradients / n':>14} {'noise':>8}", end="")
        print(f" {'seconds':>8}  bound")
        for title, solver, options in ROWS:
            model = PrivateLogisticRegression(
                epsilon,
                alpha=alpha,
                clip=math.hypot(1, SCALING),
                classes=[0, 1],
                intercept_scaling=SCALING,
                conditioning=None,  # all minimise the same function
                solver=solver,
                **options,
            )
            start = time.perf_counter()
            try:
                found = [risk.excess(model.fit(X, y.astype(int))) for _ in range(n_fits)]
            except Exception as error:  # a rule that has no answer here is one line of the table
                print(f"{title:<41} {type(error).__name__}: {str(error).splitlines()[0]}")
                continue
            seconds = (time.perf_counter() - start) / n_fits
            (mean, error) = mean_and_error(found)
            count = gradients_of(model.mechanism_, n_samples) / n_samples
            print(
                f"{title:<41} {mean:>8.5f} {error:>8.5f} {count:>14.3g} "
                f"{getattr(model, 'noise_multiplier_', math.nan):>8.4g} {seconds:>8.2f}  "
                f"{model.bound_}",
                flush=True,
            )


def epsilon_after(record, bound, n_steps, delta):
    """Return what a run costs that stops after so many steps."""
    return ACCOUNTANTS[bound](replace(record, n_steps=n_steps)).epsilon(delta)


def converged_at(record, bound, delta):
    """Return the steps from which on epsilon is within 1 % of its limit; None: it has none."""
    limit = epsilon_after(record, bound, FAR, delta)
    low = 0
    high = FAR
    while high - low > 1:
        middle = (low + high) // 2
        near = epsilon_after(record, bound, middle, delta) >= 0.99 * limit
        low, high = (low, middle) if near else (middle, high)
    return high if high < FAR / 2 else None


def scored(model, pairs, X, y):
    """Return the mean accuracy with its standard error; ``model`` is trained."""
    found = [model.fit(X[train], y[train]).score(X[test], y[test]) for train, test in pairs]
    return "{:.4f} +- {:.4f}".format(*mean_and_error(found))


def planned(model, shape):
    """Return the record that a fit of this shape would run."""
    return plan_of(Purchase.of(model, *shape).request).mechanism


def converged(title, data, asked, epsilon=1.0):
    """Print the tables of a problem."""
    _, n_rows, alpha, options = CONVERGING[title]
    X = data.X[:n_rows]
    y = data.y[:n_rows]
    pairs = splits(len(y), 1 if asked.quick else 5)
    shape = len(pairs[0][0]), X.shape[1]
    options = {"epsilon": epsilon, "alpha": alpha, "conditioning": None} | options
    model = data.private(bound="langevin", solver=NoisyGD(n_steps=1), **options)
    delta = 1 / shape[0] ** 2
    step_size = planned(model, shape).step_size  # the largest that all bounds allow
    model.set_params(bound="last_iterate", solver__step_size=step_size)
    n_steps = 10**5
    for _ in range(2):  # noise for many steps, then for those that come near it
        record = planned(model.set_params(solver__n_steps=n_steps), shape)
        n_steps = converged_at(record, "last_iterate", delta)
    print(f"\n{title}: n = {shape[0]}, d = {shape[1]}, alpha = {alpha:g}, step {step_size:.3g}")
    print(f"noise for epsilon {epsilon:g} by the exact bound; epsilon after")
    print(f"{'steps':>12} " + " ".join(f"{name:>13}" for name in BOUNDS))
    for k in (1, 10, 100, 1_000, 10_000, 100_000, 10**6):
        costs = (epsilon_after(record, bound, k, delta) for bound in BOUNDS)
        print(f"{k:>12} " + " ".join(f"{cost:>13.4g}" for cost in costs))
    print(f"what epsilon {epsilon:g} buys at {n_steps} steps, the exact bound's K*")
    for bound in BOUNDS:
        score = scored(model.set_params(bound=bound, solver__n_steps=n_steps), pairs, X, y)
        k = converged_at(model.mechanism_, bound, delta) or "none"
        print(f"  {bound:<13} K* = {k:>7} sigma {model.sigma_:.4g} accuracy {score}", flush=True)
    model.set_params(bound="langevin", solver=NoisyGD(n_steps="theorem4"))
    try:
        score = scored(model, pairs, X, y)
        print(f"  Theorem 4     K* = {model.n_iter_:>7} sigma {model.sigma_:.4g} accuracy {score}")
    except CalibrationError as error:
        print(f"  {error}")


def converging(asked):
    """Print the tables of every problem."""
    titles = ["Adult, strongly regularised"] if asked.quick else list(CONVERGING)
    load = lambda title: problem(CONVERGING[title][0], asked.data)  # noqa: E731
    for title, data in loaded(titles, load):
        converged(title, data, asked)


def draw_rules(asked):
    """Draw every rule: full lines for 10 columns, dashed ones for 100."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    strengths = np.geomspace(20, 1e6, 200)
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    for axis, (title, curves) in zip(axes.flat, PANELS.items(), strict=True):
        for place, (name, rule) in enumerate(curves.items()):
            for d, style in ((10, "-"), (100, "--")):
                values = [rule(d, s) for s in strengths]
                label = name if d == 10 else None
                axis.plot(strengths, values, style, color=f"C{place}", label=label)
        axis.set(title=title, xscale="log", xlabel="s = n mu / f")
        axis.legend(fontsize="small")
    file = asked.figure or Path("rules.png")
    figure.savefig(file, dpi=100)
    print(f"curves of the rules: {file}")


def poisson_run(rng, least=1e3, most=1e10):
    """Return a function of the noise that makes a drawn record, and its number of records."""
    n_samples = 10 ** rng.uniform(math.log10(least), math.log10(most))
    batch = 10 ** rng.uniform(math.log10(16), math.log10(min(n_samples / 4, 65536)))
    run = {
        "sampling_probability": batch / n_samples,
        "n_steps": max(1, int(10 ** rng.uniform(-1, math.log10(30)) * n_samples / batch)),
        "adjacency": str(rng.choice(["replace_one", "add_remove"])),
    }
    return lambda noise: PoissonSubsampled(noise_multiplier=noise, **run), n_samples


def excesses(n_cases, rng):
    """Print how far epsilons are above the oracle's, which says where its sums are too long."""
    sys.path.append(str(ROOT / "tests"))
    from accounting_oracle import NotConverged, exact_epsilon

    ours = []
    unknown = 0
    while len(ours) < n_cases:
        record_for, _ = poisson_run(rng)
        record = record_for(10 ** rng.uniform(-0.2, 0.9))
        delta = 10 ** rng.uniform(-25, -3)
        epsilon = tightest(record, delta=delta).guarantee.epsilon(delta)
        if not 1e-4 < epsilon < 30:
            continue
        setting = (record.sampling_probability, record.noise_multiplier, record.n_steps)
        try:
            exact = exact_epsilon(*setting, record.adjacency, delta, epsilon)
            ours.append(epsilon / exact - 1)
        except NotConverged:
            unknown += 1
    print(
        f"epsilon above the oracle, {len(ours)} settings: median {np.median(ours):.1e}, 99 % "
        f"{np.percentile(ours, 99):.1e}, least {min(ours):.1e}, largest {max(ours):.1e}; "
        f"{unknown} settings more, where the oracle's sums are too long"
    )


def batches(n_cases, rng):
    """Print what least noise for Poisson batches takes, and leaves unspent."""
    times = []
    unspent = []
    failed = 0
    for _ in range(n_cases):
        record_for, n_samples = poisson_run(rng, 1e4, 1e8)
        epsilon = 10 ** rng.uniform(-1.3, 1)
        delta = 1 / n_samples**2
        start = time.process_time()
        try:
            record = least_noise(record_for, epsilon, delta)
        except CalibrationError:
            failed += 1
            continue
        times.append(time.process_time() - start)
        unspent.append(1 - tightest(record, delta=delta).guarantee.epsilon(delta) / epsilon)
    print(
        f"least noise of Poisson batches, {n_cases} settings: {failed} failed, unspent "
        f"{min(unspent):.1e} to {max(unspent):.1e}, median {np.median(times):.2f} s of CPU, worst "
        f"{max(times):.2f} s"
    )


def needed_noise(run, adjacency):
    """Return the least noise multiplier of Poisson batches."""

    def record_for(noise):
        return PoissonSubsampled(
            sampling_probability=run["sampling_probability"],
            noise_multiplier=noise,
            n_steps=math.ceil(run["n_steps"]),
            adjacency=adjacency,
        )

    return least_noise(record_for, run["epsilon"], run["delta"]).noise_multiplier


def larger_needs(n_pairs, rng):
    """Return drawn pairs of runs whose second is harder in one number, with the noises of both.

    Noises are known to `calibration.NUMERICAL_SLACK` of epsilon, so that numbers differ by 2 % or
    more.
    """
    pairs = []
    for _ in range(n_pairs):
        batch = 10 ** rng.uniform(1.5, 4)
        n_samples = 10 ** rng.uniform(5, 9)
        easy = {
            "epsilon": 10 ** rng.uniform(-1, 1),
            "delta": 10 ** rng.uniform(-14, -3),
            "sampling_probability": batch / n_samples,
            "n_steps": 10 ** rng.uniform(1.5, 4),
        }
        name = str(rng.choice(list(easy)))
        factor = rng.uniform(1.02, 2)
        hard = easy | {name: easy[name] * factor ** (-1 if name in ("epsilon", "delta") else 1)}
        adjacency = str(rng.choice(["replace_one", "add_remove"]))
        noises = (needed_noise(run, adjacency) for run in (easy, hard))
        pairs.append((easy, hard, *noises))
    return pairs


def calibrations(n_cases, rng):
    """Print the time of random calibrations, and the largest part left unspent."""
    times = []
    unspent = []
    for _ in range(n_cases):
        epsilon = 10 ** rng.uniform(-3, np.log10(50))
        delta = 10 ** rng.uniform(-15, -2)
        strong_convexity = float(rng.choice([0.0, 1e-6, 1e-3, 0.1]))
        steps = ["curvature", int(10 ** rng.uniform(0, 6))]
        steps += ["worst_case"] if strong_convexity else []
        settings = {
            "n_samples": int(10 ** rng.uniform(0, 7)),
            "n_features": int(10 ** rng.uniform(0, 6)),
            "lipschitz": 1.0,
            "strong_convexity": strong_convexity,
            "smoothness": strong_convexity + 0.25,
            "n_steps": steps[rng.integers(len(steps))],
        }
        start = time.perf_counter()
        mechanism = calibrate(epsilon, delta, **settings)
        times.append((time.perf_counter() - start) * 1e3)
        spent = tightest(mechanism, delta=delta).guarantee.epsilon(delta)
        assert spent <= epsilon
        unspent.append(1 - spent / epsilon)
    print(
        f"calibration: median {np.median(times):.2f} ms, 99 % {np.percentile(times, 99):.2f} ms, "
        f"worst {max(times):.2f} ms; largest unspent part of epsilon {max(unspent):.1e}"
    )


def accounting(asked):
    """Print errors and times of accounting on what the seed draws."""
    rng = np.random.default_rng(asked.seed)
    excesses(5 if asked.quick else 200, rng)
    batches(5 if asked.quick else 200, rng)
    pairs = larger_needs(3 if asked.quick else 100, rng)
    wrong = sum(harder < easier for _, _, easier, harder in pairs)
    print(f"least noise of {len(pairs)} pairs: {wrong} fall where the harder one needs more")
    calibrations(100 if asked.quick else 3000, rng)


PARTS = {
    "table1": table1,
    "converging": converging,
    "accounting": accounting,
    "rules": draw_rules,
}


def main(arguments=None):
    """Run the parts."""
    made = parser(__doc__, PARTS)
    made.add_argument("--seed", type=int, default=0, help="of what accounting draws")
    made.add_argument("--figure", type=Path, help="file for the figure of rules")
    run_parts(PARTS, made.parse_args(arguments))
