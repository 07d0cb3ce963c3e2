"""Accounting against quadrature, and time of calibration, of the bounds and of a report.

Run ``python -m benchmarks accounting --seed 7``. Poisson batches on settings that the seed draws:
how far epsilon is above the oracle of ``tests/accounting_oracle.py`` (never below it), and what
`least_noise` takes and leaves unspent. Then calibration over a random grid of the whole range that
it promises: median, 99th percentile and worst time, and the largest part of epsilon left unspent.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

from skdpdyn import PrivateLogisticRegression
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import (
    NoisyGradientDescent,
    OnePass,
    PoissonSubsampled,
    WithoutReplacement,
    calibrate,
    composition,
    contraction,
    langevin,
    last_iterate,
    last_iterate_mu,
    least_noise,
    recursion,
    subsampling,
    tightest,
)


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


def google(record, delta):
    """Return epsilon by dp_accounting's privacy loss distributions, at a grid of 1e-5."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, pld

    replaced = record.adjacency == "replace_one"
    relations = NeighboringRelation
    relation = relations.REPLACE_ONE if replaced else relations.ADD_OR_REMOVE_ONE
    event = PoissonSampledDpEvent(
        record.sampling_probability, GaussianDpEvent(record.noise_multiplier)
    )
    theirs = pld.PLDAccountant(relation, value_discretization_interval=1e-5)
    return theirs.compose(event, record.n_steps).get_epsilon(delta)


def excesses(n_cases, rng):
    """Print how far epsilons are above the oracle's, which says where its sums are too long."""
    from accounting_oracle import NotConverged, exact_epsilon

    ours, theirs, unknown = [], [], 0
    while len(ours) < n_cases:
        record_for, _ = poisson_run(rng)
        record, delta = record_for(10 ** rng.uniform(-0.2, 0.9)), 10 ** rng.uniform(-25, -3)
        epsilon = tightest(record, delta=delta).guarantee.epsilon(delta)
        if not 1e-4 < epsilon < 30:
            continue
        setting = (record.sampling_probability, record.noise_multiplier, record.n_steps)
        try:
            exact = exact_epsilon(*setting, record.adjacency, delta, epsilon)
        except NotConverged:
            unknown += 1
            continue
        ours.append(epsilon / exact - 1)
        if delta >= 1e-12 and record.n_steps < 10**6:
            theirs.append(google(record, delta) / exact - 1)
    for name, some in (("skdpdyn", ours), ("dp_accounting", theirs)):
        print(
            f"{name} above the oracle, {len(some)} settings: median {np.median(some):.1e}, 99 % "
            f"{np.percentile(some, 99):.1e}, least {min(some):.1e}, largest {max(some):.1e}"
        )
    print(f"{unknown} settings more, where the oracle's sum is too long")


def batches(n_cases, rng):
    """Print what least noise for Poisson batches takes, and leaves unspent."""
    times, unspent, failed = [], [], 0
    for _ in range(n_cases):
        record_for, n_samples = poisson_run(rng, 1e4, 1e8)
        epsilon, delta = 10 ** rng.uniform(-1.3, 1), 1 / n_samples**2
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
        batch, n_samples = 10 ** rng.uniform(1.5, 4), 10 ** rng.uniform(5, 9)
        easy = {
            "epsilon": 10 ** rng.uniform(-1, 1),
            "delta": 10 ** rng.uniform(-14, -3),
            "sampling_probability": batch / n_samples,
            "n_steps": 10 ** rng.uniform(1.5, 4),
        }
        name, factor = str(rng.choice(list(easy))), rng.uniform(1.02, 2)
        hard = easy | {name: easy[name] * factor ** (-1 if name in ("epsilon", "delta") else 1)}
        adjacency = str(rng.choice(["replace_one", "add_remove"]))
        noises = (needed_noise(run, adjacency) for run in (easy, hard))
        pairs.append((easy, hard, *noises))
    return pairs


def calibrations(n_cases, rng):
    """Return milliseconds and unspent parts of random calibrations."""
    times, unspent = [], []
    for _ in range(n_cases):
        epsilon, delta = 10 ** rng.uniform(-3, np.log10(50)), 10 ** rng.uniform(-15, -2)
        strong_convexity = float(rng.choice([0.0, 1e-6, 1e-3, 0.1]))
        rules = ["curvature", int(10 ** rng.uniform(0, 6))] + (
            ["worst_case"] if strong_convexity else []
        )
        problem = {
            "n_samples": int(10 ** rng.uniform(0, 7)),
            "n_features": int(10 ** rng.uniform(0, 6)),
            "lipschitz": 1.0,
            "strong_convexity": strong_convexity,
            "smoothness": strong_convexity + 0.25,
            "n_steps": rules[rng.integers(len(rules))],
        }
        start = time.perf_counter()
        mechanism = calibrate(epsilon, delta, **problem)
        times.append((time.perf_counter() - start) * 1e3)
        spent = tightest(mechanism, delta=delta).guarantee.epsilon(delta)
        assert spent <= epsilon
        unspent.append(1 - spent / epsilon)
    return times, unspent


def milliseconds(function, repeats=5):
    """Return the median time of a call, after one that does not count."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append((time.perf_counter() - start) * 1e3)
    return np.median(times)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--settings", type=int, default=200, help="of Poisson batches")
    parser.add_argument("--pairs", type=int, default=0, help="of runs, one harder than the other")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    rng = np.random.default_rng(options.seed)
    excesses(options.settings, rng)
    batches(options.settings, rng)
    if options.pairs:
        pairs = larger_needs(options.pairs, rng)
        wrong = [pair for pair in pairs if pair[3] < pair[2]]
        print(
            f"least noise of {len(pairs)} pairs: {len(wrong)} fall where the harder one needs more"
        )
    calibrations(50, rng)
    times, unspent = calibrations(options.cases, rng)
    print(
        f"calibration: median {np.median(times):.2f} ms, 99 % {np.percentile(times, 99):.2f} "
        f"ms, worst {max(times):.2f} ms"
    )
    print(f"             largest unspent part of epsilon {max(unspent):.1e}")

    constant = NoisyGradientDescent(
        n_steps=10**6, noise_multiplier=500.0, step_size=0.5, strong_convexity=1e-3, smoothness=1.0
    )
    one_pass = OnePass(
        n_samples=10**6, noise=2.0, step_size=0.5, lipschitz=1.0, smoothness=0.5, diameter=1.0
    )
    fresh = WithoutReplacement(
        n_samples=10**6,
        batch_size=1,
        n_epochs=1,
        noise_multiplier=4.0,
        step_size=0.5,
        strong_convexity=0.05,
        smoothness=1.0,
    )
    noise = rng.uniform(0.5, 1.0, 10**6)
    X = rng.uniform(-0.5, 0.5, (1000, 3))
    model = PrivateLogisticRegression(classes=[False, True]).fit(X, X[:, 0] > 0)
    objective_perturbation = PrivateLogisticRegression(epsilon=0.1, solver="objective_perturbation")
    seed = iter(range(1, 100))
    for name, function in {
        "composition, 1e6 equal steps": lambda: composition(constant).epsilon(1e-6),
        "langevin, 1e6 equal steps": lambda: langevin(constant).epsilon(1e-6),
        "last_iterate, 1e6 equal steps": lambda: last_iterate(constant).epsilon(1e-6),
        "contraction, 1e6 records": lambda: contraction(one_pass).delta(1.0),
        "recursion, one order, 1e6 steps": lambda: recursion(fresh).rdp(8.0),
        "last_iterate, an array of 1e6 steps": lambda: last_iterate_mu(0.99, 1.0, noise),
        "last_iterate, an array of 1e4 steps in a domain": lambda: last_iterate_mu(
            0.99, 1.0, noise[: 10**4], 3.0
        ),
        # another noise every time, so that nothing is remembered
        "1,000 Poisson steps": lambda: subsampling(
            PoissonSubsampled(
                sampling_probability=0.01, noise_multiplier=1.0 + next(seed) / 100, n_steps=1000
            )
        ).epsilon(1e-5),
        "calibration of objective perturbation": lambda: objective_perturbation.privacy_cost(
            36_000, 105
        ),
        "a fitted model's report": lambda: model.privacy_report().to_text(),
    }.items():
        print(f"{name:>48} {milliseconds(function):>9.2f} ms")
