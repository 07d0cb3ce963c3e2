"""Rows that do not fit into memory: read in order, a portion at a time, in several passes."""

import copy
import math
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skdpdyn.data.base import Rows, moment_chunk
from skdpdyn.data.local import LocalRows
from skdpdyn.data.rows import shortened
from skdpdyn.kernels.sums import Total, fingerprint
from skdpdyn.privacy.checks import checked_choice
from skdpdyn.support.chunks import edges_of

_PIECE_BYTES = 1 << 23  # size of the rows that are summed at a time
_AHEAD = 2  # portions that are read while one is summed


class CodedLabels(NamedTuple):
    """Targets, few of which differ: `values`, and the place of each row's among them."""

    values: np.ndarray
    codes: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the targets."""
        return self.codes.shape


class TargetsElsewhere(Rows):
    """Rows whose targets are encoded, and changed to other units, as they are read."""

    _encode: Any = None
    _changes: tuple[tuple[str, tuple], ...] = ()  # methods of `LocalRows`, and their arguments

    def with_targets(self, encode: Callable) -> Any:
        """Return a copy whose targets go through ``encode``, as the loss takes them.

        It returns one number for each target, or rates in a first and exposures in a second column.
        """
        rows = copy.copy(self)
        rows._encode = encode
        return rows

    def with_target(self, centre, scale):
        """See `Rows.with_target`."""
        return self._changed("with_target", centre, scale)

    def with_ranges(self, ranges):
        """See `Rows.with_ranges`."""
        rows = self._changed("with_ranges", ranges)
        rows.ranges = ranges
        return rows

    def with_rate(self, rate, unit, most=math.inf):
        """See `Rows.with_rate`."""
        rows = self._changed("with_rate", rate, unit, most)
        rows.common = self.common * rate / unit
        return rows

    def weighted_by_class(self, weights):
        """See `Rows.weighted_by_class`."""
        return self._changed("weighted_by_class", weights)

    def with_classes(self, codes):
        """See `Rows.with_classes`."""
        return self._changed("with_classes", codes)

    def _changed(self, name, *arguments):
        rows = copy.copy(self)
        rows._changes = (*self._changes, (name, arguments))
        return rows


def encoded(rows: LocalRows, y: np.ndarray, changes: Sequence[tuple[str, tuple]]) -> LocalRows:
    """Return the same rows with encoded targets and changes, see `TargetsElsewhere`."""
    rows = copy.copy(rows)
    exposure = np.empty(0)
    if y.ndim == 2:
        exposure = np.ascontiguousarray(y[:, 1])
        y = y[:, 0]
    rows.y = np.ascontiguousarray(y, dtype=rows.dtype)
    rows.exposure = exposure
    rows.weight = np.empty(0)
    rows.common = 1.0  # as before any change
    for name, arguments in changes:
        rows = getattr(rows, name)(*arguments)
    return rows


class StreamedRows(TargetsElsewhere):
    """Rows that come in order, as often as they are asked for, and are never all in memory.

    Derive from this class and write ``read``. The rows of every pass must be the same, as
    shuffling them anew would be another algorithm: a pass that has more or fewer rows than
    ``shape`` says is refused, and a step of training on other rows than the step before. What
    training knows of a row, 24 bytes of most, is kept between its steps.

    Parameters
    ----------
    shape : tuple of int
        Number of rows and of columns, which are public.
    dtype : dtype, default="float64"
        Precision of the rows: float64 or float32.
    feature_names : list of str or None, default=None
        Names of the columns, which are public.
    """

    is_sparse = False

    def __init__(self, shape, dtype="float64", feature_names=None):
        self.shape: tuple[int, int] = (int(shape[0]), int(shape[1]))
        self.feature_names: list[str] | None = feature_names
        self.dtype: np.dtype = np.dtype(dtype)
        checked_choice(self.dtype.name, "dtype", ("float64", "float32"))
        self._encode = np.asarray

    @abstractmethod
    def read(self) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield all rows and their targets in order, any number of them at a time.

        Yields
        ------
        X : ndarray of shape (n_rows, n_features)
            Some rows, of this object's dtype.
        y : ndarray of shape (n_rows,) or (n_rows, 2), or Labels
            Their targets, as a user has them. With ``has_exposure``, counts in a first and their
            exposures in a second column.
        """

    # --- the protocol -----------------------------------------------------------------------------

    def summed(self, statistic):
        """See `Rows.summed`: of as many whole chunks at a time as are read at once."""
        total = Total((statistic.n_sums(self.shape[1]),))
        size = moment_chunk(*self.shape, self.is_sparse)
        step = max(1, self._rows_at_a_time() // size) * size
        for _, X, y in self._portions(edges_of(self.shape[0], step).tolist()):
            self._piece(X, y).add_to(total, statistic, edges_of(len(X), size))
        return statistic.from_sums(total.value(), self.shape[1])

    def open_sums(self, gradients) -> "_StreamedSums":
        """See `Rows.open_sums`: on one thread, while one reads and one computes factors."""
        return _StreamedSums(self, gradients)

    def batches(self, size: int, n_epochs: int) -> Iterator[LocalRows]:
        """See `Rows.batches`; the last of each epoch may be short."""
        edges = [*range(0, self.shape[0], size), self.shape[0]]
        for _ in range(n_epochs):
            for _, X, y in self._portions(edges):
                yield self._piece(X, y)

    # --- how rows are read ------------------------------------------------------------------------

    def _rows_at_a_time(self):
        return max(1, _PIECE_BYTES // (self.shape[1] * self.dtype.itemsize))

    def _piece(self, X, y):
        """Return some rows under the map, with targets as the loss takes them."""
        return encoded(LocalRows(X, map=self.map), y, self._changes)

    def _numbers(self, y):
        """Return targets as the loss takes them."""
        y = self._encode(y.values)[y.codes] if isinstance(y, CodedLabels) else self._encode(y)
        return np.ascontiguousarray(y, dtype=np.float64)

    def _portions(self, edges, checked=True):
        """Yield the rows between edges, while another thread reads on: where they end, X and y.

        Without ``checked`` they are as they are read, and targets are left out.
        """
        return _in_advance(self._assembled(edges, checked), _AHEAD)

    def _assembled(self, edges, checked):
        """Yield the rows between edges, from portions that end elsewhere."""
        parts = deque()
        n_waiting = 0
        first = 0
        with closing(self._checked(edges) if checked else self._shaped(edges)) as portions:
            for last in edges[1:]:
                while n_waiting < last - first:
                    portion = next(portions, None)
                    if portion is None:
                        self.refuse_number(first + n_waiting)
                    parts.append(portion)
                    n_waiting += len(portion[0])
                yield last, *_first_rows(parts, last - first)
                n_waiting -= last - first
                first = last
            if n_waiting or next(portions, None) is not None:
                self.refuse_number(None)

    def _source(self, edges):
        """Yield all rows and their targets in order, best between these edges."""
        yield from self.read()

    def portions(self, edges=None) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield all rows and their targets as they are read, once shape and dtype are checked.

        Parameters
        ----------
        edges : sequence of int or None, default=None
            Where portions should begin and end; they need not.
        """
        portions = self._source(edges)
        while (portion := _read(portions)) is not None:
            X, y = portion
            of_target = (2,) if self.has_exposure else ()
            if X.shape != (len(X), self.shape[1]) or y.shape != (len(X), *of_target):
                raise ValueError(
                    f"rows of shape {X.shape} with targets of shape {y.shape} were read, where "
                    f"n_features={self.shape[1]}"
                )
            if X.dtype != self.dtype:
                raise ValueError(f"rows of {X.dtype} were read, not of {self.dtype}")
            if len(X):
                yield np.ascontiguousarray(X), y

    def _shaped(self, edges):
        """Yield rows, and as their targets a column."""
        with closing(self.portions(edges)) as portions:
            for X, _ in portions:
                yield X, X[:, 0]

    def _checked(self, edges):
        """Yield rows, with targets as the loss takes them; refuse rows that no kernel may see."""
        with closing(self.portions(edges)) as portions:
            for X, y in portions:
                with np.errstate(all="ignore"):  # sums of large numbers may not be finite
                    finite = np.isfinite(np.sum(X)) or np.all(np.isfinite(X))
                if not finite:
                    self._refuse_missing(X)
                yield X, self._numbers(y)

    def _refuse_missing(self, X):
        """Name the columns that hold values other than numbers."""
        columns = np.flatnonzero(~np.all(np.isfinite(X), axis=0)).tolist()
        if self.feature_names is not None:
            columns = [self.feature_names[column] for column in columns]
        raise ValueError(
            f"columns {columns} hold missing or infinite values. Fill them with public ones"
        )

    def refuse_number(self, n_read: int | None) -> None:
        """Refuse a pass of so many rows; None: of more than there are."""
        more = "more" if n_read is None else "fewer"
        raise ValueError(
            f"{more} than n_samples={self.shape[0]} rows were read: the data changed or are damaged"
        )


def _in_advance(source, n_items):
    """Yield a generator's items, while another thread runs ahead with it."""
    with closing(source), ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, source, None) for _ in range(n_items))
        try:
            while (item := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, source, None))
                yield item
        finally:
            for task in waiting:
                task.cancel()


def _read(portions):
    """Return the next portion, None at the end, or raise an error that quotes no record."""
    return quietly(next, portions, None, failed="the rows could not be read")


def quietly(function: Callable[..., Any], *arguments: Any, failed: str) -> Any:
    """Return the result of a function that reads rows, or raise an error that quotes no record."""
    try:
        return function(*arguments)
    except Exception as error:
        if getattr(error, "quotes_no_record", False):
            refusal = error
            refusal.__cause__ = refusal.__context__ = None
        else:
            kind = type(error).__name__
            refusal = ValueError(
                f"{failed} ({kind}; its text is left out, for it may quote records)"
            )
    raise refusal


def refuse(text: str) -> ValueError:
    """Return an error for `StreamedRows.read` to raise; ``text`` must quote no record."""
    error: Any = ValueError(text)
    error.quotes_no_record = True
    return error


def _first_rows(parts, n_rows):
    """Take the first rows off the portions."""
    portions = []
    while n_rows:
        X, y = parts.popleft()
        if len(X) > n_rows:
            parts.appendleft((X[n_rows:], y[n_rows:]))
            X = X[:n_rows]
            y = y[:n_rows]
        portions.append((X, y))
        n_rows -= len(X)
    if len(portions) == 1:
        return portions[0]
    return tuple(map(np.concatenate, zip(*portions, strict=True)))


class _StreamedSums:
    """Sums of gradients over streamed rows, at one point after the other."""

    def __init__(self, rows, gradients):
        self._rows = rows
        self._gradients = gradients
        edges = rows.chunk_edges(gradients.n_chunks)
        size = int(np.max(np.diff(edges)))
        # whole chunks at a time
        step = max(1, rows._rows_at_a_time() // size)
        self._starts = [*range(0, len(edges) - 1, step), len(edges) - 1]
        self._edges = edges
        self._cached: dict = {}  # of each piece, once a pass has read it

    def close(self):
        """Drop the cached factors and limits of rows."""
        self._cached = {}

    def __call__(self, weights, intercept, shift):
        """Return the sum over all chunks, added up in order."""
        total = Total((self._gradients.n_sums,))
        with closing(_in_advance(self._pieces(), 1)) as pieces:  # while their numbers are computed
            for piece in pieces:
                with closing(piece) as sums:
                    sums.add_to(total, weights, intercept, shift)
        return total.value()

    def _pieces(self):
        """Yield the sums of whole chunks, with the cached factors and limits of each row."""
        from skdpdyn.kernels.passes import LocalSums

        edges = self._edges
        starts = self._starts
        places = [int(edges[start]) for start in starts]
        is_cached = len(self._cached) == len(starts) - 1
        with closing(self._rows._portions(places, checked=not is_cached)) as portions:
            for (start, end), (_, X, y) in zip(pairwise(starts), portions, strict=True):
                piece, numbers = (
                    self._read_piece(start, X) if is_cached else self._new_piece(start, X, y)
                )
                of_piece = edges[start : end + 1] - edges[start]
                yield LocalSums(self._gradients, piece, of_piece, numbers=numbers)

    def _new_piece(self, start, X, y):
        piece = self._rows._piece(X, y)
        numbers = piece.bounded_for(self._gradients)
        are_long = piece.X is not X  # they were shortened
        without_rows = copy.copy(piece)
        without_rows.X = None
        without_rows._scaled = LocalRows._scaled
        self._cached[start] = fingerprint(X), are_long, without_rows, numbers
        return piece, numbers

    def _read_piece(self, start, X):
        """Return rows that were read before, or refuse others: their limits are not known."""
        expected, are_long, without_rows, numbers = self._cached[start]
        if fingerprint(X) != expected:
            raise ValueError("other rows were read than in the step before: the data changed")
        piece = copy.copy(without_rows)
        piece.X = shortened(X) if are_long else X
        return piece, numbers
