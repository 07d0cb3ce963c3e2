"""Speed of a full-batch step, as ratios inside one run.

Run ``python -m benchmarks speed``. Every figure is a median over interleaved rounds in one process,
BLAS on one thread:

- one read: a jitted sum of X with reassociation, the physical limit of a pass over the data;
- numpy: ``r = 1 / (1 + exp(-(X @ w))) - y``, clipped by the bound of each row, then ``r @ X``: the
  same link and clip.

Rounds in which other processes used a core are thrown away where the system tells (Linux); if too
few are left, it says so.
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from contextlib import contextmanager

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from skdpdyn.core.losses import logistic
from skdpdyn.core.noise import generators
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.solvers.steps import Steps, descend

SHAPES = [
    (1_000, 2),
    (1_000, 30),
    (1_000, 100),
    (1_000, 1_000),
    (10_000, 104),
    (45_000, 104),
    (100_000, 100),
    (200_000, 10),
    (200_000, 30),
    (200_000, 100),
    (20_000, 1_000),
    (60_000, 784),
    (5_000, 4_000),
]


@numba.njit(fastmath={"reassoc", "nsz", "contract"})
def one_read(flat):
    total = flat.dtype.type(0)
    for i in range(flat.size):
        total += flat[i]
    return total


def numpy_step(X, y, bound, weights, alpha, step_size, noise_std, rng):
    residual = 1 / (1 + np.exp(-(X @ weights))) - y
    np.clip(residual, -bound, bound, out=residual)
    noise = rng.standard_normal(weights.size).astype(X.dtype)
    return weights - step_size * (residual @ X / len(X) + alpha * weights) + noise_std * noise


def busy_seconds():
    """Return the processor time of the whole machine so far, None where it cannot be read."""
    try:
        with open("/proc/stat") as file:
            fields = list(map(int, file.readline().split()[1:]))
    except OSError:
        return None
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def medians(variants, rounds, quiet):
    """Return median seconds of each variant, and the number of interleaved, undisturbed rounds."""
    for run in variants.values():
        run()
    times, kept = {name: [] for name in variants}, 0
    for attempt in range(4 * rounds):
        busy, own = busy_seconds(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        start, measured = time.perf_counter(), {}
        for name, run in variants.items():
            begin = time.perf_counter()
            run()
            measured[name] = time.perf_counter() - begin
        wall = time.perf_counter() - start
        if busy is not None and quiet:
            others = (
                busy_seconds() - busy - (sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - own)
            )
            if others > 0.12 * wall + 0.02 and attempt < 4 * rounds - 1 - (rounds - kept):
                continue
        kept += 1
        for name, seconds in measured.items():
            times[name].append(seconds)
        if kept == rounds:
            break
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


def problem(n_samples, n_features, dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features), dtype=dtype)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (rng.random(n_samples) < 0.5).astype(float)


def our_steps(X, y, n_steps, n_threads, rng):
    """Return a run of ``n_steps`` steps of fit, without what fit prepares once."""
    objective = Objective(
        logistic, *X.shape, data_norm=1.0, alpha=1e-4, clip=0.5, intercept_scaling=0.25
    )
    rows = LocalRows(X, y)
    rows.n_threads = n_threads
    schedule = Steps(np.full(n_steps, 4.0), np.full(n_steps, 1e-3), len(X))
    return lambda: descend(objective, rows, schedule, rng)


DTYPES = np.float64, np.float32


def shape_variants(n_samples, n_features, dtype):
    """Return pairs (run, repetitions): a read, a step on one and two threads, a numpy step."""
    X, y = problem(n_samples, n_features, dtype)
    n_steps = int(np.clip(2e8 / X.size, 4, 2000))
    few = max(1, n_steps // 4)
    (rng,) = generators(None)
    bound, weights = np.full(len(X), 0.5, dtype), np.zeros(n_features, dtype)
    target, flat = y.astype(dtype), X.reshape(-1)

    def repeat(function):
        def run():
            for _ in range(few):
                function()

        return run, few

    return {
        "read": repeat(lambda: one_read(flat)),
        "numpy": repeat(lambda: numpy_step(X, target, bound, weights, 1e-4, 4.0, 1e-3, rng)),
        # a fit's fixed cost cancels in the difference of a long and a short run
        "one": (our_steps(X, y, n_steps + 1, 1, rng), n_steps),
        "two": (our_steps(X, y, n_steps + 1, 2, rng), n_steps),
        "short": (our_steps(X, y, 1, 1, rng), 1),
    }


def seconds_a_step(n_samples, n_features, rounds, quiet):
    """Return the seconds of each variant of each dtype, all of them interleaved."""
    variants = {
        (dtype, name): run
        for dtype in DTYPES
        for name, run in shape_variants(n_samples, n_features, dtype).items()
    }
    seconds = medians({name: run for name, (run, _) in variants.items()}, rounds, quiet)
    for dtype in DTYPES:
        for name in ("one", "two"):
            seconds[dtype, name] -= seconds[dtype, "short"]
    return {name: value / variants[name][1] for name, value in seconds.items()}


def table(rounds, quiet, shapes):
    print(
        f"{'rows x columns':>16} {'dtype':>8} {'ns a row':>9} {'reads':>6} {'numpy':>6} "
        f"{'2 threads':>10} {'float32':>8}"
    )
    print(f"{'':>16} {'':>8} {'':>9} {'of X':>6} {'/ ours':>6} {'/ 1':>10} {'/ 64':>8}")
    for n_samples, n_features in shapes:
        seconds = seconds_a_step(n_samples, n_features, rounds, quiet)
        for dtype in DTYPES:
            step = seconds[dtype, "one"]
            print(
                f"{n_samples:>8,} x {n_features:>5,} {np.dtype(dtype).name:>8} "
                f"{step / n_samples * 1e9:>9.1f} "
                f"{step / seconds[dtype, 'read']:>6.2f} {seconds[dtype, 'numpy'] / step:>6.2f} "
                f"{seconds[dtype, 'two'] / step:>10.2f} {step / seconds[np.float64, 'one']:>8.2f}",
                flush=True,
            )


def growth_of_a_step(small, large, rounds, quiet):
    """Return the ratio of a step's time on a large X to that on a small one, interleaved."""
    (rng,) = generators(None)
    runs = {}
    for shape in (small, large):
        X, y = problem(*shape, np.float64)
        runs[shape], runs[shape, "short"] = our_steps(X, y, 13, 1, rng), our_steps(X, y, 1, 1, rng)
    seconds = medians(runs, rounds, quiet)
    return (seconds[large] - seconds[large, "short"]) / (seconds[small] - seconds[small, "short"])


def growth(rounds, quiet):
    """Print how time grows with twice the rows and with ten times the columns."""
    ratio = growth_of_a_step((200_000, 100), (400_000, 100), rounds, quiet)
    print(f"a step, twice the rows (200,000 x 100 to 400,000 x 100): {ratio:.2f}")
    # rows of each
    for few_columns, many_columns in [(200_000, 20_000), (100_000, 100_000), (20_000, 20_000)]:
        ratio = (
            growth_of_a_step((few_columns, 100), (many_columns, 1_000), rounds, quiet)
            * few_columns
            / many_columns
        )
        print(
            f"a row, ten times the columns ({few_columns:,} x 100 to {many_columns:,} x 1,000): "
            f"{ratio:.2f}"
        )


def generator_cost(rounds, quiet):
    X, y = problem(45_000, 104, np.float64)
    pcg = np.random.Generator(np.random.PCG64())
    variants = {
        "aes": our_steps(X, y, 50, 1, generators(None)[0]),
        "pcg": our_steps(X, y, 50, 1, pcg),
    }
    seconds = medians(variants, rounds, quiet)
    print(
        "cryptographic generator against PCG64, 45,000 x 104: "
        f"{seconds['aes'] / seconds['pcg']:.3f}"
    )


MEMORY = """
import numpy as np
from skdpdyn import PrivateLogisticRegression
from skdpdyn.solvers import NoisyGD
from skdpdyn.solvers.steps import Steps, descend

def status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024

def fit(X, y):
    PrivateLogisticRegression(classes=[False, True], solver=NoisyGD(n_steps=3)).fit(X, y)

rng = np.random.default_rng(0)
fit(rng.standard_normal((100, 3)), rng.random(100) < 0.5)
X, y = np.ones((200_000, 100)), rng.random(200_000) < 0.5
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the peak so far
before = status("VmRSS")
fit(X, y)
print(status("VmHWM") - before)
"""


def memory():
    if not os.path.exists("/proc/self/clear_refs"):
        print("memory of a fit beyond X: not measured, this system does not tell")
        return
    out = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    ).stdout
    print(f"memory of a fit beyond X, 200,000 x 100 float64: {float(out):.0f} MB")


@contextmanager
def busy_processes(number):
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--noisy", action="store_true", help="keep rounds in which other processes were busy"
    )
    parser.add_argument(
        "--shape", action="append", help="only this shape, like 45000x104; may be repeated"
    )
    parser.add_argument(
        "--busy",
        type=int,
        default=0,
        help="beside so many processes that never rest; implies --noisy",
    )
    arguments = parser.parse_args(argv)
    quiet = not (arguments.noisy or arguments.busy)
    shapes = (
        [tuple(map(int, shape.split("x"))) for shape in arguments.shape]
        if arguments.shape
        else SHAPES
    )
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, numba "
        f"{numba.__version__}, numpy {np.__version__}"
    )
    with threadpool_limits(1), busy_processes(arguments.busy):
        table(arguments.rounds, quiet, shapes)
        if not arguments.shape:
            growth(arguments.rounds, quiet)
            generator_cost(arguments.rounds, quiet)
    memory()
