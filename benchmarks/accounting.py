"""Time of calibration, of the bounds and of a report.

Run ``python -m benchmarks accounting``. Calibration over a random grid of the whole range that it
promises: median, 99th percentile and worst time, and the largest part of epsilon left unspent.
"""

import argparse
import time

import numpy as np

from skdpdyn import PrivateLogisticRegression
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
    recursion,
    subsampling,
    tightest,
)


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
        spent = tightest(mechanism, delta=delta).epsilon(delta)
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
    rng = np.random.default_rng(0)
    calibrations(50, rng)
    times, unspent = calibrations(parser.parse_args(argv).cases, rng)
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
        "a fitted model's report": lambda: str(model.privacy_report()),
    }.items():
        print(f"{name:>48} {milliseconds(function):>9.2f} ms")
