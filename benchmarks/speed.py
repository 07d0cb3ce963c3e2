"""Times of fits, steps, starts, rows on disk, clusters and predictions, as ratios in one run.

``python -m benchmarks speed [PART ...]``: one thread, the least time of rounds in which all take
turns, after one that compiles. Parts:

- fits: CPU seconds of default fits at epsilon 1 over those of scikit-learn: LogisticRegression by
  lbfgs with C=1000, Ridge by Cholesky, PoissonRegressor. Goals are those of GOALS.
- steps: a step of full-batch gradient descent in reads of X (a jitted sum, which no pass can beat),
  in steps of numpy, in steps of softmax, and on sparse rows in products of scipy.
- dp_sgd: a step on Poisson batches over the sum of its rows where they lie, and numpy's step.
- start: import and first fit of 1,000 x 20 in a new process, with an empty and with a filled cache
  of compiled code, over the imports of numba and scikit-learn's base classes.
- rows: seconds, passes, and peak bytes a row of default fits in memory, on a memory map and on
  Parquet, over ``--sizes``; each a process of its own (Linux).
- cluster: a step on a Dask cluster of this machine over a local one.
- predict: milliseconds of predictions of a row and of tables over those of scikit-learn.
- width: seconds and megabytes as rows, columns, levels, classes and entries of a ledger grow, and
  the exponent between two sizes, beside scikit-learn's.

Minutes: fits 8, steps 3, dp_sgd 0.5, start 2, rows 6, cluster 2, predict 2, width 5; all with
``--quick`` 3 to 4.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numba
import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from threadpoolctl import threadpool_limits

import skdpdyn
from benchmarks._common import least_times, loaded, parser, problem, run_parts, splits
from benchmarks._growth import width
from benchmarks._predictions import predict
from benchmarks._worker import peak_cleared, status
from skdpdyn.core.losses import logistic, softmax
from skdpdyn.core.noise import generators
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.kernels.draws import PoissonBatches
from skdpdyn.solvers.steps import Steps, descend

# at most, times scikit-learn's, of a million rows
GOALS = {"alike": 0.75, "scales": 0.35, "ridge": 1.5, "poisson": 1.8}
GOALS |= {"all_flights": 1.2, "mnist": 0.4, "newsgroups": 1.85}
REAL = tuple(GOALS)[4:]
COLUMNS = 10  # of rows on disk
DENSE = [(200_000, 10, 1), (45_000, 104, 1), (200_000, 100, 1), (60_000, 784, 1), (60_000, 784, 10)]
SPARSE = [(45_000, 104, 11, 1), (100_000, 10_000, 48, 1), (100_000, 10_000, 48, 10)]
WHERE = "memory", "map", "parquet"


def binary(**options):
    """Return our model of two classes."""
    return skdpdyn.PrivateLogisticRegression(classes=[False, True], **options)


def made(name, n_samples, n_columns=50):
    """Return X, y, the maker of our model and that of scikit-learn's."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_samples, n_columns)).astype(np.float32)
    scales = np.geomspace(1.0, 0.01 if name == "scales" else 1.0, n_columns)
    scores = X @ rng.standard_normal(n_columns).astype(np.float32)
    X *= (scales / np.linalg.norm(scales)).astype(np.float32)
    if name == "ridge":
        y = np.tanh(scores / 10) + 0.1 * rng.standard_normal(n_samples)
        ours = partial(skdpdyn.PrivateRidge, target_bounds=(-1, 1))
        return X, y, ours, lambda: Ridge(solver="cholesky")
    if name == "poisson":
        y = rng.poisson(np.exp(scores / 10)).astype(float)
        ours = partial(skdpdyn.PrivatePoissonRegressor, target_bounds=(0, 10))
        return X, y, ours, lambda: PoissonRegressor(alpha=1e-6)
    y = scores + 0.5 * rng.logistic(size=n_samples) > 0
    return X, y, binary, lambda: LogisticRegression(C=1000)


def real(name, directory):
    """Return the same of a data set, of whose rows four fifths are trained on."""
    data = problem(name, directory)
    ((train, _),) = splits(len(data.y), 1)
    return data.X[train], data.y[train], data.private, lambda: LogisticRegression(C=1000)


def fits(asked):
    """Print the time of default fits over scikit-learn's."""
    sizes = (20_000,) if asked.quick else (100_000, 1_000_000)
    work = [(name, made(name, size)) for size in sizes for name in GOALS if name not in REAL]
    work += [] if asked.quick else loaded(REAL, lambda name: real(name, asked.data))
    print(f"{'problem':>12} {'rows x columns':>16} {'ours, s':>8} {'theirs':>8} {'ratio':>6} goal")
    for name, (X, y, ours, theirs) in work:
        runs = {
            "ours": lambda: ours(epsilon=1.0, n_jobs=1).fit(X, y),  # noqa: B023
            "theirs": lambda: theirs().fit(X, y),  # noqa: B023
        }
        times = least_times(runs, 1 if asked.quick else 3)
        ratio = times["ours"] / times["theirs"]
        print(
            f"{name:>12} {X.shape[0]:>9} x {X.shape[1]:<4} {times['ours']:>8.3f} "
            f"{times['theirs']:>8.3f} {ratio:>6.2f} {GOALS[name]:g}",
            flush=True,
        )


@numba.njit(fastmath={"reassoc", "nsz", "contract"})
def one_read(flat):
    """Return the sum of an array."""
    total = flat.dtype.type(0)
    for i in range(flat.size):
        total += flat[i]
    return total


@numba.njit(fastmath={"reassoc", "nsz", "contract"})
def gather_sum(X, rows, out):
    """Add up some rows."""
    out[:] = 0
    for i in range(rows.size):
        for j in range(X.shape[1]):
            out[j] += X[rows[i], j]


def objective_of(shape, n_outputs):
    """Return the objective of a step."""
    loss = logistic if n_outputs == 1 else softmax(n_outputs)
    options = {"data_norm": 1.0, "alpha": 1e-4, "clip": 0.5, "intercept_scaling": 0.25}
    return Objective(loss, *shape, **options)


def numpy_step(X, labels, weights):
    """Take a step as numpy writes it."""
    raw = X @ weights
    if raw.ndim == 1:
        residual = np.clip(1 / (1 + np.exp(-raw)) - labels, -0.5, 0.5)
    else:
        raw -= raw.max(axis=1, keepdims=True)
        residual = np.exp(raw)
        residual = residual / residual.sum(axis=1, keepdims=True) - labels
    return residual.T @ X


def step_times(X, y, n_outputs, others, rounds, n_threads=1):
    """Return the time of a step of ours, less what a fit does once, and of others."""
    objective = objective_of(X.shape, n_outputs)
    rows = LocalRows(X, y)
    rng = generators(None)[0]
    rows.n_threads = n_threads
    n_steps = int(np.clip(4e8 / (X.size * n_outputs), 4, 500))

    def run(n):
        steps = Steps(np.full(n, 0.1), np.full(n, 1e-3), len(y))
        return lambda: descend(objective, rows, steps, rng)

    clock = time.process_time if n_threads == 1 else time.perf_counter
    found = least_times({"short": run(1), "long": run(n_steps + 1), **others}, rounds, clock)
    return (found["long"] - found["short"]) / n_steps, found


def steps(asked):
    """Print steps in reads of X, numpy's steps and scipy's products."""
    rounds = 1 if asked.quick else 5
    rng = np.random.default_rng(0)
    print(f"{'rows x columns x outputs':>26} {'dtype':>8} {'ms':>8} {'reads of X':>11} ", end="")
    print(f"{'numpy / ours':>13} {'2 threads / 1':>14}")
    for n, d, k in DENSE[:2] if asked.quick else DENSE:
        X64 = rng.standard_normal((n, d))
        X64 /= np.linalg.norm(X64, axis=1, keepdims=True)
        y = rng.integers(0, max(2, k), n)
        weights = rng.standard_normal((d, k)) / d
        labels = np.eye(k)[y] if k > 1 else y.astype(float)
        for dtype in (np.float64, np.float32):
            X = X64.astype(dtype)
            of = labels.astype(dtype)
            w = weights.astype(dtype)
            w = w if k > 1 else w[:, 0]
            others = {
                "read": partial(one_read, X.reshape(-1)),
                "numpy": partial(numpy_step, X, of, w),
            }
            step, found = step_times(X, y.astype(float), k, others, rounds)
            wall = [step_times(X, y.astype(float), k, {}, rounds, t)[0] for t in (2, 1)]
            print(
                f"{f'{n:,} x {d} x {k}':>26} {np.dtype(dtype).name:>8} {step * 1e3:>8.2f} "
                f"{step / found['read']:>11.2f} {found['numpy'] / step:>13.2f} "
                f"{wall[0] / wall[1]:>14.2f}",
                flush=True,
            )
    print(f"{'rows x columns, in a row':>26} {'outputs':>8} {'ms':>8} {'ours / scipy':>13}")
    for n, d, in_row, k in SPARSE[:1] if asked.quick else SPARSE:
        columns = rng.integers(0, d, n * in_row)
        starts = np.arange(0, n * in_row + 1, in_row)
        X = sparse.csr_array((rng.standard_normal(n * in_row), columns, starts), shape=(n, d))
        X.sum_duplicates()
        weights, residual = (rng.standard_normal((size, k)).squeeze() for size in (d, n))
        others = {"scipy": lambda: (X @ weights, X.T @ residual)}  # noqa: B023
        y = rng.integers(0, max(2, k), n).astype(float)
        step, found = step_times(X, y, k, others, rounds)
        print(f"{f'{n:,} x {d:,}, {in_row}':>26} {k:>8} {step * 1e3:>8.2f} ", end="")
        print(f"{step / found['scipy']:>13.2f}", flush=True)


def dp_sgd(asked, n=45_000, d=104, batch=450):
    """Print a step on Poisson batches over the sum of its rows, and over numpy's step."""
    rng = np.random.default_rng(0)
    (aes,) = generators(None)
    n_steps = 2_000
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (rng.random(n) < 0.5).astype(float)
    objective = objective_of((n, d), 1)
    weights = np.zeros(d)
    drawn = [np.flatnonzero(rng.random(n) < batch / n) for _ in range(200)]

    def ours(n_steps):
        of = Steps(np.full(n_steps, 4.0), np.full(n_steps, 1e-3), float(batch))
        batches = PoissonBatches(batch / n)
        return lambda: descend(objective, LocalRows(X, y), of, aes, batches=batches)

    def gathers():
        for rows in drawn:
            gather_sum(X, rows, weights)

    def by_numpy():
        for _ in range(200):
            rows = np.flatnonzero(rng.random(n) < batch / n)
            numpy_step(X[rows], y[rows], weights)
            rng.standard_normal(d)

    runs = {"long": ours(n_steps + 100), "short": ours(100), "gather": gathers, "numpy": by_numpy}
    found = least_times(runs, 1 if asked.quick else 5)
    step = (found["long"] - found["short"]) / n_steps
    print(f"a step {step * 1e6:.1f} us: {step / found['gather'] * 200:.2f} of the sum of its rows")
    print(f"numpy's step over ours: {found['numpy'] / 200 / step:.1f}")


IMPORTS = "import numba, sklearn.base, sklearn.utils.validation"
FIRST_FIT = """import numpy as np
from skdpdyn import PrivateLogisticRegression
rng = np.random.default_rng(0)
X, y = rng.standard_normal((1000, 20)), rng.random(1000) < 0.5
PrivateLogisticRegression(classes=[False, True]).fit(X, y)"""


def start(asked):
    """Print the time of a new process that imports and fits."""

    def run(program, cache):
        environ = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}
        return partial(subprocess.run, [sys.executable, "-c", program], env=environ, check=True)

    with tempfile.TemporaryDirectory() as folder:
        kept = os.path.join(folder, "kept")
        empty = iter(range(1000))
        runs = {"imports": run(IMPORTS, kept), "filled cache": run(FIRST_FIT, kept)}
        runs["empty cache"] = lambda: run(FIRST_FIT, os.path.join(folder, str(next(empty))))()
        rounds = 1 if asked.quick else 5
        found = least_times(runs, rounds, time.perf_counter)
    for name, seconds in found.items():
        print(f"{name:<13} {seconds:6.2f} s, {seconds / found['imports']:.2f} of the imports")


def write_rows(folder, n_samples):
    """Write rows of a logistic model as a NumPy file and as a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(COLUMNS)]
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n_samples, COLUMNS))
    y = np.empty(n_samples, bool)
    weights = 8 * rng.standard_normal(COLUMNS)
    schema = pa.schema([(name, pa.float32()) for name in names] + [("y", pa.bool_())])
    with parquet.ParquetWriter(folder / "X.parquet", schema) as file:
        for first in range(0, n_samples, 1 << 20):
            rows = rng.uniform(-1, 1, (min(1 << 20, n_samples - first), COLUMNS)) / COLUMNS**0.5
            part = slice(first, first + len(rows))
            X[part] = rows
            y[part] = rows @ weights + rng.logistic(size=len(rows)) > 0
            columns = dict(zip(names, np.ascontiguousarray(X[part].T), strict=True))
            file.write_table(pa.table(columns | {"y": y[part]}))
    X.flush()
    np.save(folder / "y.npy", y)


def measure_rows(folder, where):
    """Fit in a new process, and print seconds of CPU and wall, and bytes a row."""
    from skdpdyn.data import ParquetRows

    def opened(folder, where):
        if where == "parquet":
            return ParquetRows(folder / "X.parquet", "y"), None
        mode = "r" if where == "map" else None
        return np.load(folder / "X.npy", mmap_mode=mode), np.load(folder / "y.npy")

    (folder / "few").mkdir(exist_ok=True)
    write_rows(folder / "few", 1000)
    binary(n_jobs=1).fit(*opened(folder / "few", where))  # compiles
    X, y = opened(folder, where)
    before = peak_cleared()
    start = time.process_time()
    wall = time.perf_counter()
    model = binary(n_jobs=1).fit(X, y)
    found = [time.process_time() - start, time.perf_counter() - wall]
    print(json.dumps([*found, (status("VmHWM") - before) * 2**20 / model.n_samples_]))


def rows(asked):
    """Print default fits of rows in memory and on disk."""
    sizes = [10_000.0] if asked.quick else asked.sizes
    print(f"{'rows':>12} {'where':<8} {'CPU, s':>8} {'of memory':>9} {'wall, s':>8} bytes a row")
    for size in map(int, sizes):
        with tempfile.TemporaryDirectory() as folder:
            write_rows(Path(folder), size)
            in_memory = None
            for where in WHERE:
                run = [sys.executable, "-m", "benchmarks", "speed", "rows", "--one", folder, where]
                out = subprocess.run(run, capture_output=True, text=True, check=False)
                if out.returncode:
                    print(f"{size:>12,} {where:<8} failed: {out.stderr.strip()[-200:]}")
                    continue
                cpu, wall, memory = json.loads(out.stdout.splitlines()[-1])
                in_memory = in_memory or cpu
                print(f"{size:>12,} {where:<8} {cpu:>8.2f} {cpu / in_memory:>9.2f} ", end="")
                print(f"{wall:>8.2f} {memory:>11.1f}", flush=True)


def cluster_of(n_rows, n_columns):
    """Return rows and labels of a Dask array, in partitions that end with chunks of a step."""
    import dask.array as da

    size = -(-n_rows // (64 * 16)) * 16 * 32
    X = da.random.default_rng(0).uniform(-0.1, 0.1, (n_rows, n_columns), chunks=(size, n_columns))
    return X, X[:, 0] > 0


def cluster(asked):
    """Print a step of two workers over a local one of two threads, and an empty one."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        print(f"SKIPPED cluster: {error}")
        return
    from skdpdyn.data.cluster.dask import cluster_rows

    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    n_steps = 5 if asked.quick else 50
    with LocalCluster(**options) as workers, Client(workers) as client:
        for n_rows in (1_024, 50_000 if asked.quick else 2_000_000):
            X, y = client.persist(cluster_of(n_rows, 100))
            far = cluster_rows(X, y, numeric=False).with_targets(lambda y: y.astype(np.float64))
            near = LocalRows(X.compute(), y.compute().astype(np.float64))
            near.n_threads = 2
            objective = objective_of(X.shape, 1)
            point = np.zeros(101)

            def run(rows, objective=objective, point=point):
                for _ in range(n_steps):
                    rows.gradient(objective, point[: objective.n_parameters])

            runs = {"workers": partial(run, far), "threads": partial(run, near)}
            found = least_times(runs, 1 if asked.quick else 3, time.perf_counter)
            far.close()
            print(
                f"a step over {n_rows:,} rows: {found['workers'] / n_steps * 1e3:.2f} ms by two "
                f"workers, {found['workers'] / found['threads']:.2f} of two threads",
                flush=True,
            )


PARTS = {
    "fits": fits,
    "steps": steps,
    "dp_sgd": dp_sgd,
    "start": start,
    "rows": rows,
    "cluster": cluster,
    "predict": predict,
    "width": width,
}


def main(arguments=None):
    """Run the parts."""
    options = parser(__doc__, PARTS)
    options.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6, 1e7], help="of rows")
    options.add_argument("--one", nargs=2, help="a fit of rows in this process: folder, where")
    asked = options.parse_args(arguments)
    warnings.simplefilter("ignore")  # of seeds, and of lbfgs that stops after 100 iterations
    if asked.one:
        measure_rows(Path(asked.one[0]), asked.one[1])
        return
    with threadpool_limits(1):
        run_parts(PARTS, asked)
