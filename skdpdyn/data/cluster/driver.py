"""The driver's side: which worker holds which partitions, and the requests to all of them.

On each worker one actor of Dask holds rows. The state of a fit is the point and the number of the
step, here. So a worker that is lost costs time alone: its partitions are placed anew, and the new
actor is told what the others know, and asked what they were asked. What is asked for has no noise
yet, so nothing is drawn twice.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

import distributed
import numpy as np

from skdpdyn.data.cluster import worker
from skdpdyn.data.streamed import TargetsElsewhere
from skdpdyn.exceptions import ClusterError
from skdpdyn.kernels.sums import Total

LIMIT = 30.0
"""Seconds that a fit waits for a sign of life: of a worker, or of the scheduler."""
_MOST_LOSSES = 5  # in one request
_LOOK = 1.0  # seconds between two looks whether a worker that is awaited lives
_MASKED = (
    "X or y is a masked array with masked cells. Fill missing values with a public one: no row may "
    "be dropped"
)
_REFUSALS = {
    worker.SHAPE: "a partition has another shape than its collection says. Call "
    "X.compute_chunk_sizes(), and give y the partitions of X",
    worker.UNREADABLE: "a partition could not be read as numbers. (What it holds may be private: "
    "the error stays on the worker)",
    worker.MALFORMED: "X is a malformed sparse array: its indices are not those of its shape",
    worker.MASKED: _MASKED,
    worker.KIND: "some partitions are sparse and others dense, or X._meta is not of their kind: "
    "pass meta= where X is made",
    worker.EXPOSURE: "exposure must hold one finite number > 0 for each row of X",
    worker.MEMORY: "X or y does not fit into the memory of a worker",
    worker.FAILED: "a worker failed. (The error may quote records, and stays there)",
    worker.COLUMNS: "a partition has other columns, or other types of them or of its targets, than "
    "its collection says. Pass meta= where X and y are made, or cast them, by X.astype(X.dtypes)",
    worker.VERSION: "a worker has another version of skdpdyn: install one version everywhere",
}
_ANEW = (
    "a partition was lost and computed anew, and has other rows or targets than before. Nothing is "
    "learnt. Store what is drawn at random, such as an unseeded shuffle, in files, and fit on these"
)


class _Share:
    """Some partitions, and the actor that holds them."""

    def __init__(self, parts, address):
        self.parts = parts
        self.address = address
        self.losses = 0
        self.future = self.actor = None
        self.sent: tuple = ()  # the state that its actor has
        self.as_read: Any = None  # fingerprints of the partitions, when they were first read


class Session:
    """The actors of one fit.

    Parameters
    ----------
    partitions : Partitions
        What the workers load, see `skdpdyn.data.cluster.dask`.
    """

    def __init__(self, partitions):
        self._partitions = partitions
        self._client = partitions.client
        self._shares: list[_Share] = []
        self._heard: dict[str, tuple] = {}
        self._computed: dict[int, list] = {}  # promises of partitions, until actors have them

    def close(self):
        """Drop all rows: the workers' part of this fit ends within a moment."""
        shares = self._shares
        self._shares = []
        self._computed = {}
        self._let_go(shares)

    def _let_go(self, shares):
        """Have Dask forget actors, also those that are asked something: nobody waits for it."""
        if futures := [share.future for share in shares if share.future is not None]:
            _in_time(self._client.cancel, futures)

    def _lose(self, share):
        """Drop an actor; raise after a few losses with the same rows."""
        self._let_go([share])
        share.address = share.future = share.actor = None
        share.losses += 1
        if share.losses > _MOST_LOSSES:
            raise ClusterError(
                f"a worker was lost {_MOST_LOSSES} times with the same rows, perhaps for want of "
                "memory. Use more workers, or smaller partitions"
            )

    def ask(self, question, *state):
        """Return the workers' answers for each partition, in order: all are asked at once.

        Parameters
        ----------
        question : tuple
            Name of a method of `skdpdyn.data.cluster.worker.Holder`, what it takes of each
            partition (None for nothing), and its other arguments.
        *state : tuple
            What the question rests on, in this order and form. A worker is told what it does not
            know yet.
        """
        self._shares = self._shares or self._cut()
        answers: dict[int, np.ndarray] = {}
        for share in self._shares:
            share.losses = 0
        waiting = self._shares
        while waiting:
            self._place([share for share in waiting if share.actor is None])
            calls = [(share, self._send(share, question, state)) for share in waiting]
            for share, call in calls:
                answer = self._awaited(share, call)
                if answer is None:
                    self._lose(share)
                elif isinstance(answer, tuple):
                    raise _refused(state, *answer)
                else:
                    share.sent = share.sent or state
                    as_read, *sums = answer
                    share.as_read = as_read if share.as_read is None else share.as_read
                    if not np.array_equal(share.as_read, as_read):
                        raise ValueError(_ANEW)
                    answers.update(zip(share.parts, sums, strict=True))
            waiting = [share for share in waiting if share.actor is None]
        return [answers[part] for part in sorted(answers)]

    def _send(self, share, question, state):
        """Ask a worker, after sending it the state it lacks; return Dask's promise, or None."""
        pairs = zip(share.sent, state, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: _same(*pair), pairs))
        if same < len(state):
            share.sent = ()  # until it answers
        requests = []
        for name, of_parts, *arguments in (*state[same:], question):
            of_share = () if of_parts is None else ([of_parts[part] for part in share.parts],)
            requests.append((name, (*of_share, *arguments)))
        try:
            return share.actor.answer(requests)
        except RuntimeError:  # Dask knows that it is lost
            return None

    def _awaited(self, share, call):
        """Return a worker's answer, None if the worker is lost."""
        while call is not None:
            try:
                return call.result(_LOOK)
            except TimeoutError:
                if share.future.status != "finished" or share.address not in self._workers():
                    break
            except OSError:
                break
        return None

    # --- placing ----------------------------------------------------------------------------------

    def _cut(self):
        """Return which partitions go to which worker: to the one that has computed their rows.

        If it is lost since, they go to one of the others, in proportion to threads.
        """
        workers = self._compute()
        holders = _in_time(self._client.who_has, [rows for rows, *_ in self._computed.values()])
        addresses = list(workers)
        lengths = np.array(self._partitions.lengths)
        ends = np.cumsum([workers[address]["nthreads"] for address in addresses])
        middles = (np.cumsum(lengths) - lengths / 2) / lengths.sum() * ends[-1]
        shares: dict[str, _Share] = {}
        for part, place in enumerate(np.searchsorted(ends, middles, side="right")):
            addresses_of_part = holders.get(self._computed[part][0].key, ())
            address = next(
                (holder for holder in addresses_of_part if holder in workers), addresses[place]
            )
            shares.setdefault(address, _Share([], address)).parts.append(part)
        return list(shares.values())

    def _compute(self):
        """Have Dask compute all partitions, and return the workers that were there.

        At once and for all workers, so that a step that several partitions rest on runs once: run
        anew, it might put a record into two of them.
        """
        blocks = [block for part in self._partitions.blocks for block in part]
        size = 1 + self._partitions.form.n_targets
        workers = self._workers()
        waiting = None
        while waiting is None or waiting:
            if waiting is None:
                there = {"workers": list(workers), "allow_other_workers": True}
                futures = self._client.compute(blocks, **there)
            with suppress(TimeoutError, distributed.CancelledError):
                distributed.wait(futures, timeout=_LOOK)
            waiting = [future for future in futures if future.status == "pending"]
            if waiting and not workers.keys() <= (alive := self._workers()).keys():
                workers = alive  # whoever is silent is asked no more
                futures = waiting = None
        if failed := [future for future in futures if future.status == "error"]:
            raise no_rows(_in_time(failed[0].exception))
        parts = [futures[first : first + size] for first in range(0, len(futures), size)]
        self._computed = dict(enumerate(parts))
        return workers

    def _place(self, shares):
        """Have each share held by a worker."""
        while shares:
            workers = self._workers()
            for share in shares:
                if share.future is None:
                    self._submit(share, workers)
            with suppress(TimeoutError, distributed.CancelledError):
                distributed.wait([share.future for share in shares], timeout=_LOOK)
            workers = self._workers(at_least=0)
            for share in shares:
                if share.address not in workers or share.future.status in ("cancelled", "lost"):
                    self._lose(share)
                elif share.future.status == "error":
                    raise no_rows(_in_time(share.future.exception))
                elif share.future.status == "finished":
                    share.actor = distributed.Actor(worker.Holder, share.address, share.future.key)
                    share.sent = ()
            shares = [share for share in shares if share.actor is None]
        self._computed = {}  # actors have them

    def _submit(self, share, workers):
        """Create an actor on one worker, and nowhere else.

        What it rests on is Dask's to compute: were it pinned too, it could not be computed anew
        once that worker is gone. What is computed already stays as it is.
        """
        if share.address not in workers:
            taken_addresses = [other.address for other in self._shares]
            share.address = min(
                workers, key=lambda address: (taken_addresses.count(address), address)
            )
        lengths = [self._partitions.lengths[part] for part in share.parts]
        computed = [block for part in share.parts for block in self._computed.get(part, ())]
        if not computed:
            blocks = [block for part in share.parts for block in self._partitions.blocks[part]]
            near = {"workers": [share.address], "allow_other_workers": True}
            computed = self._client.compute(blocks, **near)
        there = {"workers": [share.address], "allow_other_workers": False, "pure": False}
        share.future = self._client.submit(
            worker.Holder,
            self._partitions.form,
            lengths,
            *computed,
            actor=True,
            **there,
        )

    def _workers(self, at_least=1):
        """Return the scheduler's facts about each worker, once there is one."""
        deadline = time.monotonic() + LIMIT
        while True:
            workers = _in_time(partial(self._client.scheduler_info, n_workers=-1))["workers"]
            now = time.monotonic()
            for address, info in workers.items():
                if self._heard.get(address, (None,))[0] != info["last_seen"]:
                    self._heard[address] = info["last_seen"], now
            patience = max(LIMIT, len(workers) / 50)  # many workers are heard of less often
            alive = {
                address: info
                for address, info in workers.items()
                if now - self._heard[address][1] <= patience
            }
            if len(alive) >= at_least:
                return alive
            if now > deadline:
                raise ClusterError(f"the cluster has no worker for {LIMIT:g} seconds")
            time.sleep(_LOOK / 5)


def _same(sent, state):
    """Return whether these are the same objects: nothing that is sent changes."""
    return len(sent) == len(state) and all(a is b for a, b in zip(sent, state, strict=True))


def _refused(state, code, *where):
    """Return the error that a local fit raises."""
    if code == worker.MISSING:
        return ValueError(
            f"columns {list(where)} hold missing or infinite values. Fill them with public ones"
        )
    if code == worker.TARGETS:  # that of a target that no fit takes
        ((_, _, encode, _), *_) = state
        (are_numbers,) = where
        try:
            encode(np.array([np.nan]) if are_numbers else np.array([None]))
        except ValueError as error:
            return error
        return ValueError("y holds targets that cannot be read")
    kinds = {worker.MEMORY: MemoryError, worker.VERSION: ClusterError}
    return kinds.get(code, ValueError)(_REFUSALS[code])


def no_rows(error: BaseException) -> ClusterError:
    """Return the error to raise where rows could not be computed."""
    return ClusterError(
        f"rows of a partition could not be computed ({type(error).__name__}; its text is left out, "
        "for it may quote records). The logs of the workers have it; is skdpdyn installed there?"
    )


def _in_time(function, *arguments):
    """Return the result of a function of the client, or raise where the scheduler is silent."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(function, *arguments).result(LIMIT)
    except (TimeoutError, OSError):
        raise ClusterError("the scheduler of the cluster does not answer") from None
    finally:
        pool.shutdown(wait=False)


class ClusterRows(TargetsElsewhere):
    """Rows in the partitions of a Dask collection, which are summed by the workers that have them.

    Partitions are cut where chunks are, so that where these coincide sums have the bits of a local
    fit. A chunk in several partitions is summed in as many pieces, each as if it were a chunk. A
    million more of them round by a thousandth of one addition, see
    `skdpdyn.support.chunks.in_order`.

    Parameters
    ----------
    partitions : Partitions
        What the workers load, see `skdpdyn.data.cluster.dask`.
    """

    def __init__(self, partitions):
        form = partitions.form
        lengths = partitions.lengths
        self._starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self.shape = int(self._starts[-1]), form.n_features
        self.dtype = np.dtype(form.dtype)
        self.is_sparse = form.is_sparse
        self.feature_names = partitions.feature_names
        self.has_exposure = form.n_targets == 2
        self.has_flags = form.dtypes[1:2] == (("bool",),)
        self._session = Session(partitions)

    draws = True

    def close(self):
        """Let go of the workers."""
        super().close()
        self._session.close()

    def open_sums(self, gradients) -> "_Sums":
        """See `Rows.open_sums`; on the threads that each worker has.

        Who is in a batch is drawn here, and told to who has the rows.
        """
        if gradients.of_batches:
            return _Sums(self, ("batches", None, gradients), gradients.n_sums)
        cuts = self._cuts(self.chunk_edges(gradients.n_chunks))
        return _Sums(self, ("gradients", cuts, gradients), gradients.n_sums)

    def summed(self, statistic):
        """See `Rows.summed`: chunks are added up where their rows are."""
        edges = self.moment_edges()
        shape = (statistic.n_sums(self.shape[1]),)
        starts = self._starts[:-1]
        before = starts - edges[np.searchsorted(edges, starts, side="right") - 1]
        pieces = list(zip(self._cuts(edges), before.tolist(), strict=True))
        sums = _added(self._answers("summed", statistic, of_parts=pieces), shape)
        return statistic.from_sums(sums, self.shape[1])

    def _answers(self, name, *arguments, of_parts=None, opened=()):
        """Return the workers' answers for each partition of these rows."""
        encoded = () if self._encode is None else (self._encode, self._changes)
        state = ("targets", None, *encoded), ("map", None, self.map), *opened
        return self._session.ask((name, of_parts, *arguments), *state)

    def changed(self):
        """See `Rows.changed`: workers compare their rows with those that they read."""
        return any(self._session.ask(("changed", None)))

    def _cuts(self, edges):
        """Return where the pieces of chunks of each partition begin and end."""
        return [
            np.concatenate([[first], edges[(edges > first) & (edges < last)], [last]]) - first
            for first, last in pairwise(self._starts.tolist())
        ]

    def _by_part(self, chosen):
        """Return which rows of each partition are those at some places among all."""
        parts = np.searchsorted(self._starts, chosen, side="right") - 1
        by_part = np.argsort(parts, kind="stable")
        places = (chosen - self._starts[parts])[by_part]
        edges = np.searchsorted(parts[by_part], np.arange(self._starts.size)).tolist()
        return [places[first:last] for first, last in pairwise(edges)]


class _Sums:
    """Sums of gradients over all rows or over chosen ones, at one point after the other."""

    def __init__(self, rows, opened, n_sums):
        self._rows = rows
        self._opened = opened
        self._shape = (n_sums,)

    def close(self):
        """Do nothing: workers drop their state at the next request."""

    def __call__(self, *point):
        """Return the sum of all pieces, in order; the places of chosen records come last."""
        name = "point"
        of_parts = None
        if len(point) > 3:
            *point, chosen = point
            name = "batch"
            of_parts = self._rows._by_part(chosen)
        sums = self._rows._answers(name, *point, of_parts=of_parts, opened=[self._opened])
        return _added(sums, self._shape)


def _added(sums, shape):
    """Return the sum of all pieces of all partitions, added up in the order of the rows."""
    total = Total(shape)
    for of_part in sums:
        total.add_rows(np.atleast_2d(of_part))
    return total.value()
