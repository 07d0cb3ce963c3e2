"""The driver's side: rows that are on workers, and the sockets to these.

The state of a fit is the point and the number of the step, here. So a worker that is lost costs
time alone: its partitions are placed anew, the new worker is told what the others know, and the
request is made again to all of them. What is asked for has no noise yet, so nothing is drawn twice.
"""

import math
import time
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from skdpdyn.data.base import TargetsElsewhere
from skdpdyn.data.cluster import wire, worker
from skdpdyn.data.cluster.wire import CALL, POINT, LostError, Refusal, numbers
from skdpdyn.exceptions import ClusterError
from skdpdyn.kernels.sums import Total

_MOST_LOSSES = 5  # in one request
_LOOK = 1.0  # seconds between two looks at tasks that are awaited
_MASKED = (
    "X or y is a masked array with masked cells. Fill missing values with a public one: no row may "
    "be dropped"
)
_REFUSALS = {
    worker.SHAPE: "a partition has another shape than its collection says. Call "
    "X.compute_chunk_sizes(), and give y the partitions of X",
    worker.UNREADABLE: "a partition could not be read as numbers. (What it holds may be private: "
    "the error stays on the worker)",
    worker.LONG: "X holds rows whose norm exceeds the largest that can be trained on: rescale X",
    worker.MALFORMED: "X is a malformed sparse array: its indices are not those of its shape",
    worker.MASKED: _MASKED,
    worker.KIND: "some partitions are sparse and others dense, or X._meta is not of their kind: "
    "pass meta= where X is made",
    worker.EXPOSURE: "exposure must hold one finite number > 0 for each row of X",
    worker.FAILED: "a worker failed. (The error may quote records, and stays there)",
}


class _Share:
    """Some partitions on one worker, and the connection to it."""

    def __init__(self, parts):
        self.parts, self.channel, self.task = parts, None, None
        self.is_ready, self.losses = False, 0

    def lose(self):
        if self.channel is not None:
            self.channel.close()
        self.channel, self.is_ready = None, False
        self.losses += 1

    def send(self, kind, number, payload):
        try:
            self.channel.send(kind, number, payload)
        except OSError:
            self.lose()
            raise LostError("a worker is lost") from None

    def numbers(self, number, shape, dtype=np.float64):
        try:
            return numbers(self.channel, number, shape, dtype)
        except OSError:
            self.lose()
            raise LostError("a worker is lost") from None


class Session:
    """The connections of one fit.

    Parameters
    ----------
    cluster : object
        Places of the partitions, see `skdpdyn.data.cluster.dask.DaskCluster`.
    """

    def __init__(self, cluster):
        self._cluster = cluster
        self._shares: list[_Share] = []
        self._told: dict[str, tuple] = {}  # in the order in which a worker needs it
        self._number: int = 0
        self._listening: Any = None
        self._owners: list[_Share] = []
        self.encode: Any = None
        """Name of the encoding of targets, for errors."""

    def close(self):
        """Hang up: what workers do ends within a moment."""
        for share in self._shares:
            if share.channel is not None:
                share.channel.close()
            if share.task is not None:
                self._cluster.release(share.task)
        if self._listening is not None:
            self._listening.close()
        self._shares, self._owners, self._told, self._listening = [], [], {}, None

    def tell(self, name, *arguments, of_parts=None):
        """Tell all workers what later requests rest on, unless they know it.

        ``of_parts``: what is told of each partition besides.
        """
        message = name, arguments, of_parts
        told = self._told.get(name)
        if told is not None and told[2] is of_parts is None and _same(told[1], arguments):
            return
        for other in {"gradients", "batches", name}:  # which rest on all that is told
            self.forget(other)
        self._ask(lambda share: self._call(share, message), CALL, self._acknowledged)
        self._told[name] = message

    def forget(self, name):
        """Tell a new worker nothing of this any more."""
        self._told.pop(name, None)

    def ask(self, take, name, *arguments, of_parts=None):
        """Ask all workers, and return what ``take`` makes of ``read(part, shape, dtype)``."""
        message = name, arguments, of_parts
        return self._ask(lambda share: self._call(share, message), CALL, take)

    def ask_at(self, take, point):
        """Return what ``take`` makes of the sums at a point, see `Answers.point` of the worker."""
        return self._ask(lambda share: point, POINT, take)

    def _call(self, share, message):
        name, arguments, of_parts = message
        if of_parts is not None:
            arguments = *arguments, [of_parts[part] for part in share.parts]
        return self._cluster.dumps((name, arguments))

    def _ask(self, request, kind, take):
        while True:
            self._place()
            self._number += 1
            number = self._number
            try:
                for share in self._shares:
                    share.send(kind, number, request(share))
                answer = take(partial(self._read, number))
                for share in self._shares:
                    share.losses = 0
                return answer
            except LostError:
                self._count_losses()
            except Refusal as refusal:
                raise self._refused(*refusal.args) from None

    def _read(self, number, part, *like):
        """Return the next numbers about a partition."""
        return self._owners[part].numbers(number, *like)

    def _acknowledged(self, read):
        for share in self._shares:
            read(share.parts[0], 0)

    def _count_losses(self):
        if max(share.losses for share in self._shares) > _MOST_LOSSES:
            raise ClusterError(
                f"a worker was lost {_MOST_LOSSES} times with the same rows, perhaps for want of "
                "memory. Use more workers, or smaller partitions"
            )

    def _refused(self, code, *where):
        if code == worker.MISSING:
            return ValueError(
                f"columns {list(where)} hold missing or infinite values. Fill them with public ones"
            )
        if code == worker.MEMORY:
            return MemoryError("X or y does not fit into the memory of a worker")
        if code == worker.TARGETS:
            return self._target_error(*where)
        return ValueError(_REFUSALS[code])

    def _target_error(self, are_numbers):
        """Return the error that a local fit raises: of a target that no fit takes."""
        encode = self.encode
        try:
            encode(np.array([np.nan]) if are_numbers else np.array([None]))
        except ValueError as error:
            return error
        return ValueError("y holds targets that cannot be read")

    # --- placing ----------------------------------------------------------------------------------

    def _place(self):
        """Place what is on no worker, and tell the new workers what the others know."""
        if not self._shares:
            self._shares = [_Share(parts) for parts in self._cluster.shares()]
            owners = {part: share for share in self._shares for part in share.parts}
            self._owners = [owners[part] for part in range(len(owners))]
        while new := [share for share in self._shares if not share.is_ready]:
            try:
                self._invite([share for share in new if share.channel is None])
                for share in new:
                    self._catch_up(share)
                    share.is_ready = True
            except LostError:
                self._count_losses()
            except Refusal as refusal:
                raise self._refused(*refusal.args) from None

    def _catch_up(self, share):
        share.numbers(0, 0)  # it has looked at its rows
        for message in self._told.values():
            self._number += 1
            share.send(CALL, self._number, self._call(share, message))
            share.numbers(self._number, 0)

    def _invite(self, lost):
        """Have each share served by a worker, and wait until all of them have come."""
        if lost and self._listening is None:
            self._listening = wire.listen(*self._cluster.address())
        awaited = {}
        for share in lost:
            self._summon(share, awaited)
            self._admit(awaited, 0)  # without a wait, for workers that are still to be asked
        looked = time.monotonic()
        while awaited:
            self._admit(awaited)
            if time.monotonic() - looked < _LOOK:
                continue
            for name, (_, share) in list(awaited.items()):
                if self._cluster.is_lost(share.task):  # raises if the rows are lost for good
                    del awaited[name]
                    share.lose()
                    self._count_losses()
                    self._summon(share, awaited)
            looked = time.monotonic()

    def _summon(self, share, awaited):
        if share.task is not None:
            self._cluster.lose(share.task)
        invitation = wire.Invitation(self._listening.getsockname()[:2], self._cluster.version)
        share.task = self._cluster.place(share.parts, invitation)
        awaited[invitation.name] = invitation, share

    def _admit(self, awaited, seconds=0.2):
        """Take the connection of an invited worker, if one comes in time."""
        self._listening.settimeout(seconds)
        try:
            sock, _ = self._listening.accept()
        except (TimeoutError, BlockingIOError):
            return
        invitations = {name: invitation for name, (invitation, _) in awaited.items()}
        try:
            name, channel = wire.admit(sock, invitations, self._cluster.listening_context())
        except OSError:
            sock.close()
            return
        awaited.pop(name)[1].channel = channel  # the invitation is used up


class ClusterRows(TargetsElsewhere):
    """Rows in the partitions of a Dask collection, which are summed by the workers that have them.

    Partitions are cut where chunks are, so that where these coincide sums have the bits of a local
    fit. A chunk in several partitions is summed in as many pieces, each as if it were a chunk. A
    million more of them round by a thousandth of one addition, see `skdpdyn.chunks.in_order`.

    Parameters
    ----------
    cluster : DaskCluster
        Places of the rows: ``lengths``, ``n_features``, ``dtype``, ``is_sparse``, and how to place
        partitions.
    """

    def __init__(self, cluster):
        self._lengths = [n_rows for n_rows in cluster.lengths if n_rows]
        self._starts = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])
        self.shape = int(self._starts[-1]), cluster.n_features
        self.dtype, self.is_sparse = np.dtype(cluster.dtype), cluster.is_sparse
        self.feature_names = cluster.feature_names
        self.has_exposure = cluster.has_exposure
        self._session = Session(cluster)

    draws = True

    def close(self):
        """Let go of the workers."""
        super().close()
        self._session.close()

    def class_counts(self, n_classes: int) -> np.ndarray:
        """See `Rows.class_counts`."""
        parts = range(len(self._lengths))
        return self._ready().ask(
            lambda read: sum(read(part, n_classes) for part in parts), "classes", n_classes
        )

    def open_sums(self, what) -> "_Sums":
        """See `Rows.open_sums`; on the threads that each worker has.

        Who is in a batch is drawn here, and told to who has the rows.
        """
        return _BatchSums(self, what) if what.of_batches else _Sums(self, what)

    def counts(self, of, thresholds, centre=0.0):
        """See `Rows.counts`."""
        size = len(thresholds)

        def total(read):
            return sum(read(part, size, np.int64) for part in range(len(self._lengths)))

        return self._ready().ask(total, "counted", of, thresholds, centre).tolist()

    def summed(self, terms, shape, *arguments):
        """See `Rows.summed`: each term is computed where its rows are."""
        cuts = self._cuts(self.moment_edges())
        return self._ready().ask(
            lambda read: self._added(read, cuts, shape),
            "summed",
            terms,
            shape,
            arguments,
            of_parts=cuts,
        )

    def _ready(self):
        """Return the session, once all workers have the targets and the map of these rows."""
        session = self._session
        if self._encode is not None:
            session.encode = self._encode
            session.tell("targets", self._encode, self._changes)
        session.tell("map", self.map)
        return session

    def _cuts(self, edges):
        """Return where the pieces of chunks of each partition begin and end."""
        return [
            np.concatenate([[first], edges[(edges > first) & (edges < last)], [last]]) - first
            for first, last in pairwise(self._starts.tolist())
        ]

    def _added(self, read, cuts, shape):
        """Return the sum of all pieces, added up in the order of the rows."""
        total, n_numbers = Total(shape), math.prod(shape)
        for part, edges in enumerate(cuts):
            total.add_rows(read(part, (len(edges) - 1, n_numbers)))
        return total.value()


class _Sums:
    """Sums of gradients over all partitions, at one point after the other."""

    def __init__(self, rows, what):
        self._rows, self._shape, self._session = rows, (what.n_sums,), rows._ready()
        self._cuts = rows._cuts(rows.chunk_edges(what.n_chunks))
        self._session.tell("gradients", what, of_parts=self._cuts)

    def close(self):
        """Have workers forget it."""
        self._session.forget("gradients")

    def __call__(self, weights, intercept, shift):
        """Return the sum over all chunks, added up in order."""
        point = b"".join(numbers.tobytes() for numbers in (weights, intercept, shift))
        return self._session.ask_at(self._take, point)

    def _take(self, read):
        return self._rows._added(read, self._cuts, self._shape)


class _BatchSums:
    """Sums of gradients over chosen rows, at one point after the other."""

    def __init__(self, rows, what):
        self._rows, self._n_sums, self._session = rows, what.n_sums, rows._ready()
        self._session.tell("batches", what)

    def close(self):
        """Have workers forget it."""
        self._session.forget("batches")

    def __call__(self, weights, intercept, shift, chosen):
        """Return the sum over the rows at these places, partition by partition."""
        starts = self._rows._starts
        parts = np.searchsorted(starts, chosen, side="right") - 1
        by_part = np.argsort(parts, kind="stable")
        places = (chosen - starts[parts])[by_part]
        edges = np.searchsorted(parts[by_part], np.arange(starts.size)).tolist()
        of_parts = [places[first:last] for first, last in pairwise(edges)]
        point = weights, intercept, shift
        return self._session.ask(self._take, "batch", *point, of_parts=of_parts)

    def _take(self, read):
        total = Total((self._n_sums,))
        for part in range(self._rows._starts.size - 1):
            total.add(read(part, self._n_sums))
        return total.value()


def _same(known, told):
    return len(known) == len(told) and all(a is b for a, b in zip(known, told, strict=True))
