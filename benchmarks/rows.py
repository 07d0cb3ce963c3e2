"""Time and memory of a fit by the number of rows, in memory and on disk, and beside reading.

Run ``python -m benchmarks rows``. Rows have 10 float32 columns, uniform within the unit ball, and
labels of a logistic model. Every fit is a process of its own, after one of few rows that compiles.

- times: seconds of the fit, and how many times those of the size before. Ten times the rows should
  take at most 11 times as long.
- of reading: the seconds over those of reading the same rows as often as the fit did, in the same
  process, right after it; at most 1.3. A file that fits into the system's cache is read at the
  speed of memory, which no computation keeps up with: ``--memory 500`` (Linux, as root) limits all
  memory in MB, that cache included, so that a larger file is read from the disk in every pass.
- bytes: peak memory beyond X, y and what a fit of few rows takes, over the number of rows.

``--sizes 1e5 1e6`` gives sizes, up to 1e8 and beyond; ``--where`` some of memory, map, parquet;
``--solvers`` some of the solvers, and ``all`` for each with its defaults; ``--models`` some
of logistic, softmax, svc, ridge, poisson.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np

COLUMNS = 10
BLOCK = 1 << 20
WHERE = "memory", "map", "parquet"
STREAMING = "noisy_gd", "objective_perturbation", "output_perturbation", "sufficient_statistics"
OTHERS = "noisy_sgd", "dp_sgd"
MODELS = {
    "logistic": ("PrivateLogisticRegression", {"classes": [False, True]}),
    "softmax": ("PrivateSoftmaxRegression", {"classes": [False, True]}),
    "svc": ("PrivateLinearSVC", {"classes": [False, True]}),
    "ridge": ("PrivateRidge", {"target_bounds": (0, 1)}),
    "poisson": ("PrivatePoissonRegressor", {"target_bounds": (0, 1)}),
}


def blocks(n_samples):
    """Yield rows and labels, a block at a time."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(COLUMNS).astype(np.float32) * 8
    for first in range(0, n_samples, BLOCK):
        size = min(BLOCK, n_samples - first)
        X = rng.uniform(-1, 1, (size, COLUMNS)).astype(np.float32) / np.float32(COLUMNS**0.5)
        yield X, X @ weights + rng.logistic(size=size) > 0


def write(folder, n_samples):
    """Write the rows as a NumPy file and as a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n_samples, COLUMNS))
    y = np.empty(n_samples, bool)
    names = [*(f"x{j}" for j in range(COLUMNS)), "y"]
    schema = pa.schema([(name, pa.float32()) for name in names[:-1]] + [("y", pa.bool_())])
    with parquet.ParquetWriter(folder / "X.parquet", schema) as file:
        first = 0
        for rows, labels in blocks(n_samples):
            X[first : first + len(rows)], y[first : first + len(rows)] = rows, labels
            first += len(rows)
            columns = [np.ascontiguousarray(column) for column in rows.T]
            file.write_table(pa.table(dict(zip(names, [*columns, labels], strict=True))))
    X.flush()
    np.save(folder / "y.npy", y)


def status(field):
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(field))


def opened(folder, where):
    """Return X and y as a fit takes them."""
    if where == "parquet":
        from skdpdyn.data import ParquetRows

        return ParquetRows(folder / "X.parquet", "y"), None
    y = np.load(folder / "y.npy")
    X = np.load(folder / "X.npy", mmap_mode="r" if where == "map" else None)
    return X, y


def limit_memory(n_bytes):
    """Put this process into a group of its own, of either version of Linux's control groups."""
    first = Path("/sys/fs/cgroup/memory")
    group = (first if first.exists() else first.parent) / f"skdpdyn-rows-{os.getpid()}"
    group.mkdir()
    name = "memory.limit_in_bytes" if first.exists() else "memory.max"
    (group / name).write_text(str(n_bytes))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def forget(folder):
    """Drop the files from the system's cache, which counts them to whoever wrote them."""
    for path in folder.glob("X.*"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(folder, where, solver, name, limit):
    """Fit once, and print seconds, passes, seconds of reading as often, and bytes a row."""
    import skdpdyn
    from skdpdyn.data.files import ArrayFile
    from skdpdyn.data.streamed import StreamedRows

    if limit:
        limit_memory(limit * 10**6)
        forget(folder)
    name = "ridge" if solver == "sufficient_statistics" else name
    kind, public = MODELS[name]
    model = getattr(skdpdyn, kind)(solver=solver, **public)
    write(folder / "few", 1000)
    ArrayFile.least_bytes = 0  # also few rows are read in order
    for rows in ("memory", where):
        model.fit(*opened(folder / "few", rows))
    streams, portions = [], StreamedRows._portions

    def counted(self, edges):
        streams.append(self)
        yield from portions(self, edges)

    StreamedRows._portions = counted
    X, y = opened(folder, where)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak so far
    before, start = status("VmRSS"), time.perf_counter()
    model.fit(X, y)
    seconds, memory = time.perf_counter() - start, status("VmHWM") - before
    reading = float("nan")
    if streams:
        rows = streams[-1] if where == "parquet" else opened_rows(X, y)
        start = time.perf_counter()
        for _ in rows.read():
            pass
        reading = (time.perf_counter() - start) * len(streams)
    print(json.dumps([seconds, len(streams), reading, memory / model.n_samples_]))


def opened_rows(X, y):
    from skdpdyn.data.files import MappedRows, file_of_rows

    return MappedRows(file_of_rows(X), y)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6, 1e7, 1e8])
    parser.add_argument("--where", nargs="+", choices=WHERE, default=WHERE)
    parser.add_argument("--solvers", nargs="+", default=["noisy_gd"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["logistic"])
    parser.add_argument("--memory", type=int, default=0, help="limit of all memory, in MB")
    parser.add_argument("--directory", help="where files are written; a temporary one by default")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        warnings.simplefilter("ignore")
        folder, where, solver, name = arguments.one
        (Path(folder) / "few").mkdir(exist_ok=True)
        measure(Path(folder), where, solver, name, arguments.memory)
        return
    solvers = (*STREAMING, *OTHERS) if arguments.solvers == ["all"] else arguments.solvers
    print(
        f"{'rows':>12} {'where':<8} {'model':<8} {'solver':<24} {'seconds':>8} {'times':>6} "
        f"{'passes':>6} {'of reading':>10} {'bytes a row':>11}"
    )
    last = {}
    for size in map(int, arguments.sizes):
        with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
            write(Path(folder), size)
            for name, solver, where in product(arguments.models, solvers, arguments.where):
                if solver in OTHERS and where != "memory":
                    continue
                run = [sys.executable, "-m", "benchmarks", "rows"]
                run += ["--one", folder, where, solver, name]
                run += ["--memory", str(arguments.memory)]
                out = subprocess.run(run, capture_output=True, text=True, check=False)
                if out.returncode:
                    print(f"{size:>12,} {where:<8} {name:<8} {solver:<24} failed:")
                    print(out.stderr[-200:] or f"ended by signal {-out.returncode}")
                    continue
                seconds, passes, reading, memory = json.loads(out.stdout.splitlines()[-1])
                times = seconds / last.get((where, name, solver), float("nan"))
                last[where, name, solver] = seconds
                print(
                    f"{size:>12,} {where:<8} {name:<8} {solver:<24} {seconds:>8.2f} {times:>6.1f} "
                    f"{passes:>6} {seconds / reading:>10.2f} {memory:>11.1f}",
                    flush=True,
                )
