"""Fits on a Dask cluster of this machine: overhead of a step, speed, growth, and workers that die.

Run ``python -m benchmarks cluster``. All times are ratios inside one run, the best of three, on a
``LocalCluster`` of two processes of one thread.

- An empty step (100 columns, 1,024 rows) through the sockets of a fit, and through Dask's scheduler
  as behind a firewall, over the same through actors: what Dask offers for state on workers.
- A step over 2,000,000 rows of 100 columns by one worker and by two, over a local step on as many
  threads.
- The driver's memory beyond its imports at X of 1 GB, over X.
- ``--kills``: a worker is killed while partitions are placed, while rows are conditioned, while a
  step is computed, and between a step and the next, so many times each: fits with the bits of a
  local one, errors, fits that take over 30 seconds ("HANG"), and seconds.
- On paper: what 1,000 workers cost a step, in bytes and milliseconds.
"""

import argparse
import os
import resource
import signal
import socket
import threading
import time
import warnings
from collections import Counter

import numpy as np

from skdpdyn import PrivateLogisticRegression
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import ClusterError, PrivacyLeakWarning
from skdpdyn.kernels.passes import Gradients
from skdpdyn.losses import logistic
from skdpdyn.objective import Objective

COLUMNS = 100
LIMIT = 30  # seconds after which a fit counts as one that hangs
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
    """Seconds of an empty step through sockets, the scheduler and actors."""
    import dask

    X, y = client.persist(collections(1024, 2))
    seconds = []
    for relay, n_steps in ((False, 500), (True, 50)):
        with dask.config.set({"skdpdyn.relay": relay}):
            rows = cluster_rows(X, y)
        run, end, what = steps(rows, problem(X.shape))
        seconds.append(best(run, n_steps))
        end()
        rows.close()
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    shape = (max(1, len(rows.chunk_edges(what.n_chunks)) // 2), what.n_sums)
    actors = [
        client.submit(Echo, shape, actor=True, workers=[w], pure=False).result() for w in workers
    ]
    point = np.zeros(what.n_sums)

    def ask(n_steps):
        for _ in range(n_steps):
            np.add.reduce(np.concatenate([f.result() for f in [a.at(point) for a in actors]]))

    return *seconds, best(ask, 50)


def speed(client, n_rows):
    """Seconds of a step by workers and by threads, by their number."""
    X, y = client.persist(collections(n_rows, 2))
    found = {}
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    for count in (1, 2):
        far = client.persist([X, y], workers=workers[:count]) if count == 1 else (X, y)
        rows = cluster_rows(*far)
        if count == 1:
            rows._session._cluster.shares = lambda: [list(range(X.npartitions))]
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
    from skdpdyn.data.cluster import driver, wire

    X, y = collections(40_000, 8, columns=5)
    model = PrivateLogisticRegression(classes=[False, True], random_state=0)
    expected = model.fit(X.compute(), y.compute()).coef_
    invite, ask = driver.Session._invite, driver.Session._ask
    signal.signal(signal.SIGALRM, hung)
    for phase in PHASES:
        outcomes, seconds = Counter(), []
        for _ in range(times):
            client.wait_for_workers(2, timeout=60)
            left = [1]

            def kill(left=left):
                if left and left.pop():
                    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

            def inviting(self, lost, phase=phase, kill=kill):
                if phase == "placing":
                    kill()
                return invite(self, lost)

            def asking(self, request, kind, take, phase=phase, kill=kill):
                if phase == "between two steps" and kind == wire.POINT:
                    kill()

                def taking(read):
                    if phase == ("stepping" if kind == wire.POINT else "conditioning"):
                        kill()
                    return take(read)

                return ask(self, request, kind, taking)

            driver.Session._invite, driver.Session._ask = inviting, asking
            start = time.perf_counter()
            signal.alarm(LIMIT)
            try:
                same = np.array_equal(model.fit(X, y).coef_, expected)
                outcomes["the same bits" if same else "OTHER BITS"] += 1
            except (ClusterError, Hang) as error:
                outcomes[str(error)] += 1
            finally:
                signal.alarm(0)
                driver.Session._invite, driver.Session._ask = invite, ask
            seconds.append(time.perf_counter() - start)
        print(f"  {phase:18s} {dict(outcomes)}, at most {max(seconds):.1f} s")


def star(n_workers):
    """Seconds in which a driver tells so many sockets a point, and reads an answer of each."""
    pairs = [socket.socketpair() for _ in range(n_workers)]
    point, answer = bytes(8 * COLUMNS), bytearray(8 * COLUMNS)

    def answers():
        for _, worker in pairs * 5:
            worker.recv_into(bytearray(8 * COLUMNS), 0, socket.MSG_WAITALL)
            worker.sendall(answer)

    thread = threading.Thread(target=answers)
    thread.start()
    start = time.perf_counter()
    for _ in range(5):
        for driver, _ in pairs:
            driver.sendall(point)
        for driver, _ in pairs:
            driver.recv_into(answer, 0, socket.MSG_WAITALL)
    seconds = (time.perf_counter() - start) / 5
    thread.join()
    for pair in pairs:
        for one in pair:
            one.close()
    return seconds


def on_paper():
    """Print what 1,000 workers cost a step, of 10^9 rows of 100 columns."""
    n_workers, n_rows = 1000, 10**9
    n_chunks = max(64, n_rows // 16384)
    sums = n_chunks * (COLUMNS + 12) * 8
    point = n_workers * (COLUMNS + 12) * 8
    print(f"on paper, {n_workers} workers, {n_rows:,} rows of {COLUMNS} columns, a step:")
    print(f"  {n_chunks:,} chunks: {sums / 1e6:.0f} MB of sums come, {point / 1e6:.1f} MB go out")
    print(f"  at 10 Gbit/s {sums / 1.25e9 * 1e3:.0f} ms; {n_workers} sockets of this machine, a")
    print(f"  point to each and an answer of each: {star(n_workers) * 1e3:.0f} ms")


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
        sockets, relayed, actors = (1e6 * seconds for seconds in overhead(client))
        print(f"an empty step: {sockets / actors:.3f} of the same through actors")
        print(f"  ({sockets:.0f} microseconds here, {actors:.0f} through actors)")
        print(f"  {relayed:.0f} through the scheduler")
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
