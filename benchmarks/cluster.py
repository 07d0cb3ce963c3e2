"""Fits on a Dask cluster of this machine: overhead of a step, speed, growth, and workers that die.

Run ``python -m benchmarks cluster``. All times are ratios inside one run, the best of three, on a
``LocalCluster`` of two processes of one thread.

- An empty step (100 columns, 1,024 rows) of a fit, over the same through actors that only answer,
  and with connections of the client to the workers, past Dask's scheduler.
- A step over 2,000,000 rows of 100 columns by one worker and by two, over a local step on as many
  threads.
- The driver's memory beyond its imports at X of 1 GB, over X.
- ``--kills``: a worker is killed while partitions are placed, while rows are conditioned, while a
  step is computed, and between a step and the next, so many times each: fits with the bits of a
  local one, errors, fits that take over 30 seconds ("HANG"), and seconds.
- On paper: what 1,000 workers cost a step, in bytes.
"""

import argparse
import os
import resource
import signal
import time
import warnings
from collections import Counter

import numpy as np

from skdpdyn import PrivateLogisticRegression
from skdpdyn.core.losses import logistic
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import ClusterError, PrivacyLeakWarning
from skdpdyn.kernels.passes import Gradients

COLUMNS = 100
LIMIT = 30  # seconds after which a fit counts as one that hangs
HOOKS = "_place", "_asked", "_awaited"  # of a session
PHASES = "placing", "conditioning", "stepping", "between two steps"


class Echo:
    """An actor that answers a point by as many numbers as a worker does."""

    def __init__(self, shape):
        self.sums = np.zeros(shape)

    def at(self, point):
        """Return sums."""
        return self.sums


def best(run, n_steps, repeats=3):
    """Seconds of a step."""
    run(2)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run(n_steps)
        times.append((time.perf_counter() - start) / n_steps)
    return min(times)


def collections(n_rows, n_parts, columns=COLUMNS):
    """Rows and labels of a Dask array, in partitions that end with chunks of a step."""
    import dask.array as da

    size = -(-n_rows // (64 * 16)) * 16 * max(1, 64 // n_parts)
    rng = da.random.default_rng(0)
    X = rng.uniform(-0.1, 0.1, (n_rows, columns), chunks=(size, columns))
    return X, X[:, 0] > 0


def steps(rows, objective):
    """Return what runs so many steps on rows, and the function that ends it."""
    what, point = Gradients.of(objective, rows), np.zeros(objective.n_parameters)

    def run(n_steps):
        for _ in range(n_steps):
            rows.gradient(objective, point)

    return run, rows.close, what


def problem(shape):
    return Objective(logistic, *shape, data_norm=1.0, alpha=1e-4, clip=0.5, intercept_scaling=0.25)


def cluster_rows(X, y):
    from skdpdyn.data.cluster.dask import cluster_rows as rows_of

    return rows_of(X, y, numeric=False).with_targets(as_numbers)


def as_numbers(y):
    return y.astype(np.float64)


def overhead(client):
    """Seconds of an empty step of a fit, of a fit past the scheduler, and of bare actors."""
    X, y = client.persist(collections(1024, 2))
    rows = cluster_rows(X, y)
    run, end, what = steps(rows, problem(X.shape))
    seconds = []
    for direct in (False, True):
        client.direct_to_workers = direct
        seconds.append(best(run, 100))
    client.direct_to_workers = False
    end()
    shape = (max(1, len(rows.chunk_edges(what.n_chunks)) // 2), what.n_sums)
    rows.close()
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    actors = [
        client.submit(Echo, shape, actor=True, workers=[w], pure=False).result() for w in workers
    ]
    point = np.zeros(what.n_sums)

    def ask(n_steps):
        for _ in range(n_steps):
            np.add.reduce(np.concatenate([f.result() for f in [a.at(point) for a in actors]]))

    return *seconds, best(ask, 100)


def speed(client, n_rows):
    """Seconds of a step by workers and by threads, by their number."""
    X, y = client.persist(collections(n_rows, 2))
    found = {}
    for count in (1, 2):
        rows = cluster_rows(X, y)
        alive = rows._session._workers()
        rows._session._workers = lambda at_least=1, alive=alive, count=count: dict(
            sorted(alive.items())[:count]
        )
        run, end, _ = steps(rows, problem(X.shape))
        found["workers", count] = best(run, 5)
        end()
        rows.close()
    local = LocalRows(X.compute(), y.compute().astype(np.float64))
    for count in (1, 2):
        local.n_threads = count
        run, end, _ = steps(local, problem(local.shape))
        found["threads", count] = best(run, 5)
        end()
    return found


def growth(n_bytes):
    """Peak memory that a fit adds to this process, over X."""
    n_rows = n_bytes // (8 * COLUMNS)
    model = PrivateLogisticRegression(classes=[False, True])
    model.fit(*collections(50_000, 4))  # what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.fit(*collections(n_rows, 16))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / n_bytes


class Hang(Exception):
    """A fit that neither ends nor fails."""


def hung(number, frame):
    raise Hang("HANG")


def kills(client, times):
    """Outcomes of fits in each of which a worker is killed once, and their seconds."""
    from skdpdyn.data.cluster import driver

    X, y = collections(40_000, 8, columns=5)
    model = PrivateLogisticRegression(classes=[False, True], random_state=0)
    expected = model.fit(X.compute(), y.compute()).coef_
    place, ask, await_ = (getattr(driver.Session, name) for name in HOOKS)
    signal.signal(signal.SIGALRM, hung)
    for phase in PHASES:
        outcomes, seconds = Counter(), []
        for _ in range(times):
            client.wait_for_workers(2, timeout=60)
            left = [1]

            def kill(left=left):
                if left and left.pop():
                    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

            def placing(self, shares, phase=phase, kill=kill):
                if phase == "placing":
                    kill()
                return place(self, shares)

            def asking(self, share, question, told, phase=phase, kill=kill):
                self.asked = question[0]
                if phase == "between two steps" and self.asked == "point":
                    kill()
                return ask(self, share, question, told)

            def awaiting(self, share, call, phase=phase, kill=kill):
                if phase == ("stepping" if self.asked == "point" else "conditioning"):
                    kill()
                return await_(self, share, call)

            for name, hook in zip(HOOKS, (placing, asking, awaiting), strict=True):
                setattr(driver.Session, name, hook)
            start = time.perf_counter()
            signal.alarm(LIMIT)
            try:
                same = np.array_equal(model.fit(X, y).coef_, expected)
                outcomes["the same bits" if same else "OTHER BITS"] += 1
            except (ClusterError, Hang) as error:
                outcomes[str(error)] += 1
            finally:
                signal.alarm(0)
                for name, hook in zip(HOOKS, (place, ask, await_), strict=True):
                    setattr(driver.Session, name, hook)
            seconds.append(time.perf_counter() - start)
        print(f"  {phase:18s} {dict(outcomes)}, at most {max(seconds):.1f} s")


def on_paper():
    """Print what 1,000 workers cost a step, of 10^9 rows of 100 columns."""
    n_workers, n_rows = 1000, 10**9
    n_chunks = max(64, n_rows // 16384)
    sums = n_chunks * (COLUMNS + 12) * 8
    point = n_workers * (COLUMNS + 12) * 8
    print(f"on paper, {n_workers} workers, {n_rows:,} rows of {COLUMNS} columns, a step:")
    print(f"  {n_chunks:,} chunks: {sums / 1e6:.0f} MB of sums come, {point / 1e6:.1f} MB go out")
    print(f"  at 10 Gbit/s {sums / 1.25e9 * 1e3:.0f} ms")


def main(arguments):
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=20, help="of a worker, in each phase")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the comparison of speed")
    parser.add_argument("--bytes", type=int, default=10**9, help="of X, for the driver's memory")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    import dask
    from distributed import Client, LocalCluster

    # Dask looks 15 s after a worker has ended, and gives up its successor for good if that is still
    # starting. Many kills in a row meet this.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    shape = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**shape) as cluster, Client(cluster) as client:
        fit, direct, actors = (1e3 * seconds for seconds in overhead(client))
        print(f"an empty step: {fit / actors:.2f} of the same through bare actors")
        print(f"  ({fit:.2f} ms, {direct:.2f} past the scheduler, {actors:.2f} of bare actors)")
        print(f"memory of the driver: {growth(options.bytes):.3f} of X")
        found = speed(client, options.rows)
        for count in (1, 2):
            ratio = found["workers", count] / found["threads", count]
            print(f"a step over {options.rows:,} rows, {count} worker(s): {ratio:.2f} of a")
            print(f"  local step on {count} thread(s)")
        print(f"a worker is killed once, in {options.kills} fits a phase:")
        if options.kills:
            kills(client, options.kills)
    on_paper()


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
