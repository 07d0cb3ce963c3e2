"""Speed of a DP-SGD step and of its calibration, as ratios inside one run.

Run ``python -m benchmarks dp_sgd``. Logistic loss, unit rows in float64, n = 45,000, d = 104, q =
0.01: 450 rows a step. Medians over interleaved rounds in one process, one thread, a fit's fixed
cost taken off:

- gather-sum: a jitted sum of as many rows at the same kind of places, what loading them costs;
- sampling: the sampler alone;
- numpy: coin flips, the same link and clip, normals, by numpy;
- PCG64: the same step on numpy's generator instead of AES in counter mode;
- 1,000,000 rows: the same number of rows a step from a larger X.

Then the calibration of 1,000 such steps to (1, 1e-5), and its noise against that of the finest grid
and of Renyi accounting.
"""

import argparse
import time

import numba
import numpy as np
from scipy import optimize
from threadpoolctl import threadpool_limits

from benchmarks.speed import medians, problem
from skdpdyn.core.losses import logistic
from skdpdyn.core.noise import generators
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.kernels.draws import PoissonBatches
from skdpdyn.privacy import PoissonSubsampled, RenyiDP, least_noise, subsampling
from skdpdyn.privacy.numerical import discretised
from skdpdyn.solvers.steps import Steps, descend

ROWS, COLUMNS, BATCH = 45_000, 104, 450
SHORT = 100  # steps of the run whose time is taken off


@numba.njit(fastmath={"reassoc", "nsz", "contract"})
def gather_sum(X, rows, out):
    out[:] = 0
    for i in range(rows.size):
        a = rows[i]
        for j in range(X.shape[1]):
            out[j] += X[a, j]


def our_steps(X, y, n_steps, rng):
    objective = Objective(
        logistic, *X.shape, data_norm=1.0, alpha=1e-4, clip=0.5, intercept_scaling=0.25
    )
    batches = PoissonBatches(BATCH / len(X))
    steps = Steps(np.full(n_steps, 4.0), np.full(n_steps, 1e-3), float(BATCH))
    return lambda: descend(objective, LocalRows(X, y), steps, rng, batches=batches)


def gathers(X, n_repeats):
    rng, out = np.random.default_rng(0), np.empty(X.shape[1])
    batches = [
        np.flatnonzero(rng.random(len(X)) < BATCH / len(X)).astype(np.uintp)
        for _ in range(n_repeats)
    ]

    def run():
        for rows in batches:
            gather_sum(X, rows, out)

    return run


def samplings(n_samples, n_repeats, rng):
    chosen = PoissonBatches(BATCH / n_samples).drawn(n_samples, rng)

    def run():
        for step in range(n_repeats):
            chosen(step)

    return run


def numpy_steps(X, y, n_repeats):
    rng, weights = np.random.default_rng(0), np.zeros(X.shape[1])

    def run():
        for _ in range(n_repeats):
            chosen = np.flatnonzero(rng.random(len(X)) < BATCH / len(X))
            rows = X[chosen]
            residual = np.clip(1 / (1 + np.exp(-(rows @ weights))) - y[chosen], -0.5, 0.5)
            noise = 1e-3 * rng.standard_normal(weights.size)
            weights[:] = weights - 4.0 * (residual @ rows / BATCH + 1e-4 * weights) + noise

    return run


def steps(rounds, quiet, large):
    n_steps = 2_000
    X, y = problem(ROWS, COLUMNS, np.float64)
    (aes,) = generators(None)
    runs = {
        "ours": our_steps(X, y, SHORT + n_steps, aes),
        "short": our_steps(X, y, SHORT, aes),
        "pcg": our_steps(X, y, SHORT + n_steps, np.random.default_rng(0)),
        "gather": gathers(X, 200),
        "sampling": samplings(ROWS, 200, aes),
        "numpy": numpy_steps(X, y, 100),
    }
    if large:
        X, y = problem(large, COLUMNS, np.float64)
        runs["large"], runs["large short"] = (
            our_steps(X, y, SHORT + 2 * n_steps, aes),
            our_steps(X, y, SHORT, aes),
        )
    seconds = medians(runs, rounds, quiet)
    step = (seconds["ours"] - seconds["short"]) / n_steps
    gather, sampling, by_numpy = (
        seconds["gather"] / 200,
        seconds["sampling"] / 200,
        seconds["numpy"] / 100,
    )
    print(f"a step: {step * 1e6:.1f} us, {step / BATCH * 1e9:.0f} ns a sampled row")
    print(f"against the gather-sum of its rows: {step / gather:.2f}")
    print(
        f"sampling, part of a step: {sampling / step:.2f}, {sampling / BATCH * 1e9:.1f} ns a "
        "sampled row"
    )
    print(f"numpy's step against ours: {by_numpy / step:.1f}")
    print(
        "cryptographic generator against PCG64: "
        f"{step / ((seconds['pcg'] - seconds['short']) / n_steps):.3f}"
    )
    if large:
        from_large = (seconds["large"] - seconds["large short"]) / (2 * n_steps)
        print(f"{large:,} rows against {ROWS:,}, the same batch: {from_large / step:.2f}")


def calibration(adjacency):
    def mechanism(noise_multiplier):
        return PoissonSubsampled(
            sampling_probability=0.01,
            noise_multiplier=noise_multiplier,
            n_steps=1000,
            adjacency=adjacency,
        )

    def finest_excess(noise_multiplier):
        return subsampling(mechanism(noise_multiplier)).with_accuracy(1e-7).epsilon(1e-5) - 1

    least_noise(mechanism, 2.0, 1e-5)  # imports
    times = []
    for _ in range(3):
        discretised.cache_clear()
        start = time.perf_counter()
        noise = least_noise(mechanism, 1.0, 1e-5).noise_multiplier
        times.append(time.perf_counter() - start)
    finest = optimize.brentq(finest_excess, noise * 0.998, noise, xtol=1e-6)
    line = (
        f"{adjacency}: {np.median(times):.2f} s, noise {noise:.4f}, {noise / finest - 1:.2%} "
        "above the finest grid's"
    )
    if adjacency == "add_remove":  # Renyi curves of Poisson batches are known there only

        def renyi_excess(noise_multiplier):
            return (
                RenyiDP(subsampling(mechanism(noise_multiplier)).rdp, adjacency).epsilon(1e-5) - 1
            )

        line += (
            ", "
            f"{1 - noise / optimize.brentq(renyi_excess, noise, 2 * noise, xtol=1e-4):.1%} "
            "below Renyi accounting's"
        )
    print(line)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--noisy", action="store_true", help="keep rounds in which other processes used a core"
    )
    parser.add_argument(
        "--large", type=int, default=1_000_000, help="rows of the larger X; 0 to leave it out"
    )
    arguments = parser.parse_args(argv)
    with threadpool_limits(1):
        steps(arguments.rounds, not arguments.noisy, arguments.large)
        for adjacency in ("add_remove", "replace_one"):
            calibration(adjacency)
