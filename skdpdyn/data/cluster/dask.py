"""All that knows Dask: what can be trained on, and where partitions are placed.

Dask loads rows and keeps them. On each worker one long task of ours answers the driver, so that
the steps of a fit go past Dask's scheduler, where workers can connect to the driver.
"""

import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import cloudpickle
import dask
import distributed
import numpy as np
from distributed.utils import get_ip, get_ipv6
from scipy import sparse

from skdpdyn.data.cluster import is_collection
from skdpdyn.data.cluster.driver import ClusterRows
from skdpdyn.data.cluster.relay import driver_end, worker_end
from skdpdyn.data.cluster.wire import LIMIT, LostError, answer_invitation
from skdpdyn.data.cluster.worker import Form, Part, serve
from skdpdyn.exceptions import ClusterError

_SERVED, _UNREACHABLE, _OTHER_VERSION, _FAILED = range(4)  # how a task ends
_PAUSE = 0.2  # seconds
_VERSION = sys.modules["skdpdyn"].__version__
_SHUNNED = 5.0  # seconds, in which the scheduler has heard of a worker's end


def cluster_rows(
    X: Any, y: Any, numeric: bool, has_target: bool = True, exposure: Any = None
) -> ClusterRows:
    """Return the rows of a Dask array or frame; nothing is computed but the lengths of a frame.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows.
    y : dask.array.Array, dask.dataframe.Series or None
        Targets, in the same partitions.
    numeric : bool
        Whether targets are numbers.
    has_target : bool, default=True
        Whether there are targets.
    exposure : dask.array.Array, dask.dataframe.Series or None, default=None
        Exposures of counts, in the same partitions.

    Returns
    -------
    ClusterRows

    Raises
    ------
    ValueError, TypeError
        If X or y cannot be trained on where they are; the error says what to do.
    """
    return ClusterRows(DaskCluster(X, y, numeric, has_target, exposure))


def mapped(function: Any, X: Any) -> Any:
    """Return a Dask array of what a function of rows answers, partition by partition.

    Parameters
    ----------
    function : callable
        Takes rows, and returns an array with an answer for each.
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows.

    Returns
    -------
    dask.array.Array
    """
    import dask.array

    sample = function(example(X))
    lengths = (np.nan,) * X.npartitions if _is_frame(X) else X.chunks[0]

    def answers(rows):
        return function(rows) if rows.shape[0] else sample[:0]

    blocks = [
        dask.array.from_delayed(
            dask.delayed(answers, pure=False)(block), (n_rows, *sample.shape[1:]), meta=sample[:0]
        )
        for block, n_rows in zip(_blocks(X), lengths, strict=True)
    ]
    return dask.array.concatenate(blocks, allow_unknown_chunksizes=True)


def _blocks(collection):
    return list(np.ravel(np.array(collection.to_delayed(), dtype=object)))


def _is_frame(X):
    return hasattr(X, "dtypes")


def example(X: Any) -> Any:
    """Return a few rows that have the form of those of X."""
    _check_form(X)
    if _is_frame(X):
        return X._meta_nonempty
    rows = np.zeros((1, X.shape[1]), X.dtype)
    return sparse.csr_array(rows) if sparse.issparse(X._meta) else rows


def _check_form(X):
    """Refuse what has no rows in partitions."""
    if getattr(X, "ndim", None) != 2 or not hasattr(X, "npartitions"):
        raise ValueError(f"X is a Dask {type(X).__name__}: pass an array or a frame of two axes")
    if not _is_frame(X) and X.numblocks[1] != 1:
        raise ValueError(
            f"X has {X.numblocks[1]} blocks of columns. Bring its columns together, by "
            "X.rechunk({1: -1})"
        )


def _dtype(X):
    """Return the precision that a local fit would take; refuse columns that are not numbers."""
    dtypes = dict(X.dtypes) if _is_frame(X) else {None: X.dtype}
    kinds = {name: getattr(dtype, "kind", "O") for name, dtype in dtypes.items()}
    if "c" in kinds.values():
        raise ValueError("Complex data not supported. Real numbers are needed")
    if others := [name for name, kind in kinds.items() if kind not in "biuf"]:
        columns = "" if others == [None] else f" {', '.join(map(repr, others))}"
        raise ValueError(
            f"X holds columns that are not numbers:{columns} ({dtypes[others[0]]}). Encode them, "
            "by X.map_partitions(encoder.transform) for one"
        )
    whole = np.result_type(*[getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes.values()])
    return "float32" if whole == np.float32 else "float64"


def _lengths(X):
    """Return the number of rows of each partition, which is public; of a frame, it is computed."""
    if _is_frame(X):
        try:
            return [int(n_rows) for n_rows in X.map_partitions(len).compute()]
        except Exception as error:
            failure = _no_rows(error)
        raise failure
    if np.isnan(X.shape[0]):
        raise ValueError(
            "X has partitions whose lengths are not known. Call X.compute_chunk_sizes() before: "
            "the number of records is public"
        )
    return list(X.chunks[0])


@dataclass
class _Task:
    """A task that serves a share of the partitions, or will."""

    address: str
    future: Any
    is_relayed: bool = False


class DaskCluster:
    """Places of the partitions of a collection, and a way to place them.

    Attributes
    ----------
    lengths : list of int
        Rows of each partition.
    n_features, dtype, is_sparse, feature_names
        Of X.
    version : str
        Version of this library, which workers must have too.
    """

    def __init__(self, X, y, numeric, has_target, exposure):
        self._client = _client()
        _check_form(X)
        self.dtype, self.n_features = _dtype(X), X.shape[1]
        self.is_sparse = sparse.issparse(X._meta)
        self.feature_names = list(X.columns) if _is_frame(X) else None
        if self.n_features == 0:
            raise ValueError("Found array with 0 feature(s): at least one column is needed")
        self.lengths = _lengths(X)
        targets = {"y": y} if has_target else {}
        if exposure is not None:
            targets["exposure"] = exposure
        columns = [_in_partitions(name, part, self.lengths) for name, part in targets.items()]
        self.has_exposure = exposure is not None
        self.version = _VERSION
        form = {
            "n_features": self.n_features,
            "dtype": self.dtype,
            "is_sparse": self.is_sparse,
            "numeric": numeric,
            "n_targets": len(columns),
        }
        blocks = zip(*map(_blocks, [X, *columns]), strict=True)
        self._parts = [
            (of_part, Form(n_rows=n_rows, **form))
            for of_part, n_rows in zip(blocks, self.lengths, strict=True)
            if n_rows
        ]
        self._collections = [X, *columns]
        self._wishes: dict[int, str] = {}
        self._seen: dict[str, tuple] = {}
        self._busy: list[_Task] = []
        self._lost: dict[str, float] = {}
        # whether new connections go through the scheduler
        self._is_relayed = bool(dask.config.get("skdpdyn.relay", False))

    dumps = staticmethod(cloudpickle.dumps)

    def address(self):
        """Return the address that workers reach this process at, and the port: 0 for any."""
        host = dask.config.get("skdpdyn.host", None)
        if host is None:
            scheduler = urlsplit(self._client.scheduler.address).hostname
            host = get_ipv6(scheduler) if ":" in scheduler else get_ip(scheduler)
        return host, dask.config.get("skdpdyn.port", 0)

    def listening_context(self):
        """Return the TLS context for connections of workers, None where the cluster has none."""
        return self._client.security.get_listen_args("client").get("ssl_context")

    def shares(self):
        """Return which partitions go to one worker, worker by worker.

        Partitions that are in the memory of a worker stay there. The others go to workers in their
        order, in proportion to threads.
        """
        workers = self._awaited_workers()
        addresses = list(workers)
        ends = np.cumsum([workers[address]["nthreads"] for address in addresses])
        rows = np.array([form.n_rows for _, form in self._parts])
        middles = (np.cumsum(rows) - rows / 2) / rows.sum() * ends[-1]
        places = np.searchsorted(ends, middles, side="right")
        futures = [f for part in self._collections[:1] for f in distributed.futures_of(part)]
        holders = _in_time(self._client.who_has, futures) if futures else {}
        shares: dict[str, list[int]] = {}
        for part, ((block, *_), _) in enumerate(self._parts):
            here = [address for address in holders.get(block.key, ()) if address in workers]
            shares.setdefault((here or [addresses[places[part]]])[0], []).append(part)
        self._wishes = {parts[0]: address for address, parts in shares.items()}
        return list(shares.values())

    def place(self, parts, invitation):
        """Return the task that will serve some partitions to the driver of the invitation.

        Our own tasks run on one worker and nowhere else. What they rest on is Dask's to compute:
        were it pinned too, it could not be computed anew once that worker is gone.
        """
        workers = self._awaited_workers()
        address = self._wishes.pop(parts[0], None)
        if address not in workers:
            held = [task.address for task in self._busy]
            address = min(workers, key=lambda one: (held.count(one), one))
        compute, submit = self._client.compute, self._client.submit
        there = {"workers": [address], "allow_other_workers": False, "pure": False}
        wanted = [block for part in parts for block in self._parts[part][0]]
        blocks = iter(compute(wanted, workers=[address], allow_other_workers=True))
        prepared = [
            submit(Part, form, *(next(blocks) for _ in of_part), **there)
            for of_part, form in (self._parts[part] for part in parts)
        ]
        future = submit(_attend, invitation, self._is_relayed, *prepared, **there)
        task = _Task(address, future, self._is_relayed)
        self._busy.append(task)
        if task.is_relayed:
            needed = partial(self._may_come, task)
            driver_end(self._client, _relay_of(invitation), invitation.address, needed)
        return task

    def release(self, task):
        """Forget a task; it ends when its connection does."""
        if task in self._busy:
            self._busy.remove(task)
        task.future.release()

    def lose(self, task):
        """Forget a task whose connection is lost; for some seconds, place nothing on its worker."""
        if task.is_relayed or not self._is_relayed:  # otherwise it may only be out of reach
            self._lost[task.address] = time.monotonic()
        self.release(task)

    def _may_come(self, task):
        """Return whether somebody will still send something from the task."""
        with suppress(ClusterError):  # which the driver raises
            return task in self._busy and not self.is_lost(task)
        return False

    def is_lost(self, task):
        """Return whether a task will never come; raise where its rows cannot be had."""
        status = task.future.status
        if status == "error":
            raise _no_rows(_in_time(task.future.exception))
        if status == "finished":
            ended = _in_time(task.future.result)
            if ended == _UNREACHABLE:
                self._relay_from_now_on()
            if ended == _OTHER_VERSION:
                raise ClusterError(
                    f"the worker {task.address} has another version of skdpdyn than "
                    f"{self.version}: install one version everywhere"
                )
            return True
        return status in ("cancelled", "lost") or task.address not in self._workers()

    def _relay_from_now_on(self):
        if not self._is_relayed:
            warnings.warn(
                f"workers cannot connect to this process at {self.address()[0]}: the fit goes "
                "through Dask's scheduler, which takes some milliseconds a step. In Dask's "
                "configuration, set skdpdyn.host and skdpdyn.port to an address that workers "
                "reach, or skdpdyn.relay to True",
                RuntimeWarning,
                stacklevel=2,
            )
        self._is_relayed = True

    def _awaited_workers(self):
        """Return the workers there are, once there is one."""
        deadline = time.monotonic() + LIMIT
        while not (workers := self._workers()):
            if time.monotonic() > deadline:
                raise ClusterError(f"the cluster has no worker for {LIMIT:g} seconds")
            time.sleep(_PAUSE)
        return workers

    def _workers(self):
        """Return what the scheduler says of each worker that lives: those that it hears of."""
        workers = _in_time(partial(self._client.scheduler_info, n_workers=-1))["workers"]
        now = time.monotonic()
        patience = max(LIMIT, len(workers) / 50)  # many workers are heard of less often
        alive = {}
        for address, info in workers.items():
            heard, since = self._seen.get(address, (None, now))
            since = since if heard == info["last_seen"] else now
            self._seen[address] = info["last_seen"], since
            shunned = now - self._lost.get(address, -_SHUNNED) < _SHUNNED
            if now - since <= patience and not shunned:
                alive[address] = info
        return alive


def _no_rows(error):
    """Return the error to raise where rows could not be computed."""
    return ClusterError(
        f"rows of a partition could not be computed ({type(error).__name__}; its text is left out, "
        "for it may quote records). The logs of the workers have it; is skdpdyn installed there?"
    )


def _in_partitions(name, y, lengths):
    """Return targets, or what else each row has one of, in the partitions of X."""
    if y is None:
        raise ValueError(f"{name}=None: X is a Dask collection. Pass its targets as another one")
    if not is_collection(y):
        raise TypeError(
            f"X is a Dask collection, and {name} is not. Pass {name} in the partitions of X, by "
            f"dask.array.from_array({name}, chunks=(X.chunks[0],)) for one"
        )
    if getattr(y, "ndim", None) != 1:
        raise ValueError(f"{name} should be a 1d array or a series of Dask: take one column of it")
    if _is_frame(y) or not hasattr(y, "chunks"):
        same = y.npartitions == len(lengths)
    else:
        same = y.shape[0] == sum(lengths)
        y = y.rechunk((tuple(lengths),)) if same and y.chunks[0] != tuple(lengths) else y
    if not same:
        raise ValueError(
            f"{name} is not in the {len(lengths)} partitions of X. Make both from one collection"
        )
    return y


def _client():
    """Return the active client of a cluster."""
    try:
        client = distributed.default_client()
    except ValueError:
        client = None
    if client is None:
        raise ValueError(
            "X is a Dask collection, and no cluster is connected. Connect to yours, or begin one "
            "here, by client = distributed.Client()"
        )
    if client.asynchronous:
        raise ValueError("the active Dask client is asynchronous: fit takes one that is not")
    return client


def _in_time(function, *arguments):
    """Return what a function of the client returns, or raise where the scheduler says nothing."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(function, *arguments).result(LIMIT)
    except (TimeoutError, OSError):
        raise ClusterError("the scheduler of the cluster does not answer") from None
    finally:
        pool.shutdown(wait=False)


def _relay_of(invitation):
    """Return the name of a connection through the scheduler: no secret."""
    return f"skdpdyn {invitation.name.hex()}"


def _attend(invitation, is_relayed, *parts):
    """Answer the driver until it hangs up; on a worker, beside whatever else runs there."""
    try:
        if invitation.version != _VERSION:
            return _OTHER_VERSION
        worker, sock = distributed.get_worker(), None
        if is_relayed:
            running = partial(_is_running, worker, worker.get_current_task())
            sock = worker_end(distributed.get_client(), _relay_of(invitation), running)
        distributed.secede()
        context = worker.security.get_connection_args("worker").get("ssl_context")
        try:
            channel = answer_invitation(invitation, context, sock)
        except LostError:  # the driver has no time, or invites another by now
            return _FAILED
        except OSError:
            return _UNREACHABLE
        try:
            serve(channel, parts, worker.state.nthreads)
        finally:
            channel.close()
    except Exception:  # its text may quote records
        return _FAILED
    return _SERVED


def _is_running(worker, key):
    """Return whether anybody waits for a task that runs: it goes on when its driver is gone."""
    task = worker.state.tasks.get(key)
    return task is not None and task.state in ("executing", "long-running")
