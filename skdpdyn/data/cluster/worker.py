"""Code that runs on a worker: it checks rows once, and sums them whenever the driver asks.

Nothing leaves but sums and codes: no error, no text and no row.
"""

import pickle
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from skdpdyn.data.cluster.wire import (
    BEAT,
    BUSY,
    CALL,
    NUMBERS,
    POINT,
    REFUSED,
    Refusal,
)
from skdpdyn.data.local import LocalRows
from skdpdyn.data.rows import canonical_rows, check_indices
from skdpdyn.kernels.jit import aligned_empty
from skdpdyn.kernels.passes import BatchSums, LocalSums
from skdpdyn.kernels.sums import Total

# codes of refusals: numbers behind them are public, such as columns
MISSING, TARGETS, EXPOSURE, SHAPE, UNREADABLE, LONG = range(1, 7)
MALFORMED, MASKED, KIND, FAILED, MEMORY = range(7, 12)
_AT_ONCE = 1 << 16  # rows between two looks whether the driver still waits
_NORM = "X holds rows whose norm exceeds"


@dataclass(frozen=True)
class Form:
    """Public properties that the rows of a partition must have."""

    n_rows: int
    n_features: int
    dtype: str
    is_sparse: bool
    numeric: bool  # whether targets are numbers
    n_targets: int = 1  # one may be followed by its exposure


class Part:
    """The rows of a partition, as kernels take them, on their worker: it refuses to leave it.

    Parameters
    ----------
    form : Form
        Properties that the rows must have.
    X : array or frame
        A block of rows.
    *targets : array or series
        Their targets, if there are some, and exposures.
    """

    def __init__(self, form, X, *targets):
        self.refusal = None
        try:
            with np.errstate(all="ignore"):
                self.rows = _rows_of(form, X, *targets)
        except Refusal as refusal:
            self.refusal = refusal.args
        except MemoryError:
            self.refusal = (MEMORY,)
        except Exception:
            self.refusal = (UNREADABLE,)

    def __repr__(self):
        return "Part()"

    def __reduce__(self):
        raise TypeError("the rows of a fit do not leave their worker")

    def __sizeof__(self):
        if self.refusal is not None:
            return 0
        X = self.rows[0]
        parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        return sum(part.nbytes for part in parts)


def _rows_of(form, X, *targets):
    """Return X and y, checked as a local fit checks them, or refuse them by a code."""
    parts = X, *targets
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise Refusal(MASKED)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy(dtype=form.dtype, na_value=np.nan)
    if sparse.issparse(X) != form.is_sparse:
        raise Refusal(KIND)
    if form.is_sparse:
        try:
            check_indices(X)
        except ValueError:
            raise Refusal(MALFORMED) from None
        X = sparse.csr_array(X)
    if X.dtype.kind not in "biuf":  # casts would make numbers of dates
        raise Refusal(UNREADABLE)
    if form.is_sparse:
        X = canonical_rows(X.astype(form.dtype, copy=False))
    else:
        X = np.ascontiguousarray(X, dtype=form.dtype)
    if X.ndim != 2 or X.shape != (form.n_rows, form.n_features):
        raise Refusal(SHAPE)
    if not np.all(np.isfinite(X.data if form.is_sparse else X)):
        raise Refusal(MISSING, *_not_finite(X))
    columns = [_column(form, target) for target in targets]
    if form.n_targets == 2:
        if columns[1].dtype.kind not in "biuf":
            raise Refusal(EXPOSURE)
        exposure = columns[1].astype(np.float64)
        if not np.all((exposure > 0) & np.isfinite(exposure)):
            raise Refusal(EXPOSURE)
        return X, np.column_stack([columns[0], exposure])
    return X, columns[0] if columns else None


def _column(form, target):
    """Return targets or exposures as an array."""
    column = target.to_numpy() if hasattr(target, "to_numpy") else np.asarray(target)
    if column.shape != (form.n_rows,):
        raise Refusal(SHAPE)
    return column.astype(np.float64) if form.numeric and column.dtype.kind == "O" else column


def _not_finite(X):
    """Return which columns hold what is no number."""
    if sparse.issparse(X):
        return np.unique(X.indices[~np.isfinite(X.data)]).tolist()
    return np.flatnonzero(~np.all(np.isfinite(X), axis=0)).tolist()


class _Void(Exception):
    """The driver has asked for something else, or is gone."""


class Answers:
    """Requests that a worker answers about its partitions, in their order.

    Parameters
    ----------
    parts : list of Part
        The partitions.
    n_threads : int
        Threads of this worker.
    go_on : callable
        Called between pieces of work; raises if the driver does not wait any more.
    """

    def __init__(self, parts, n_threads, go_on):
        self._parts, self._n_threads, self._go_on = parts, n_threads, go_on
        self._rows = [LocalRows(X) for X, _ in (part.rows for part in parts)]
        self._held, self._sums, self._point = ExitStack(), [], None
        self._batches: list[BatchSums] = []

    def targets(self, encode, changes):
        """Set the targets as the loss takes them, and the weights of their classes."""
        for place, (rows, part) in enumerate(zip(self._rows, self._parts, strict=True)):
            try:
                y = np.ascontiguousarray(encode(part.rows[1]), dtype=np.float64)
            except Exception:
                raise Refusal(TARGETS, part.rows[1].dtype.kind in "biuf") from None
            self._rows[place] = rows.with_encoded(y, changes)

    def map(self, row_map):
        """Set the map that rows go through."""
        self._rows = [rows.with_map(row_map) for rows in self._rows]

    def classes(self, n_classes):
        """Yield the number of rows of each class in each partition."""
        for rows in self._rows:
            yield np.array(rows.class_counts(n_classes))

    def summed(self, terms, shape, arguments, edges):
        """Yield the sums of some terms of each partition over its pieces of chunks."""
        for rows, of_part in zip(self._rows, edges, strict=True):
            sums = []
            for first, last in pairwise(of_part.tolist()):
                self._go_on()
                total = Total(shape)
                for term in getattr(rows.part(first, last), terms)(*arguments):
                    total.add(term)
                sums.append(total.value())
            yield np.array(sums)

    def counted(self, of, thresholds, centre):
        """Yield the number of rows of each partition within thresholds."""
        for rows in self._rows:
            within = np.zeros(len(thresholds) + 1, np.int64)
            for first in range(0, rows.shape[0], _AT_ONCE):
                self._go_on()
                numbers = rows.part(first, first + _AT_ONCE).numbers(of, centre)
                within += np.bincount(np.searchsorted(thresholds, numbers), minlength=within.size)
            yield np.cumsum(within[:-1])

    def gradients(self, what, edges):
        """Begin sums of gradients: what `point` returns."""
        self._held.close()
        self._point = None
        sums = [
            self._held.enter_context(
                closing(LocalSums(what, rows, of_part, self._n_threads, keep=True))
            )
            for rows, of_part in zip(self._rows, edges, strict=True)
        ]
        weights = aligned_empty(what.n_weights, what.precision)
        self._point = weights, *np.zeros((2, what.objective.n_outputs))
        self._sums = sums

    def point(self, request):
        """Yield the sums of gradients of each partition's pieces of chunks at a point."""
        first = 0
        for numbers in self._point:
            last = first + numbers.nbytes
            numbers[:] = np.frombuffer(request[first:last], numbers.dtype)
            first = last
        for sums in self._sums:
            yield sums.of_chunks(*self._point, go_on=self._go_on)

    def batches(self, what):
        """Begin sums over chosen rows: what `batch` returns."""
        self._batches = [BatchSums(what, rows) for rows in self._rows]

    def batch(self, weights, intercept, shift, chosen):
        """Yield the sum at a point over the rows at some places of each partition."""
        for sums, of_part in zip(self._batches, chosen, strict=True):
            self._go_on()
            yield sums(weights, intercept, shift, of_part)

    def release(self):
        """Let go of threads."""
        self._held.close()


@contextmanager
def _quiet():
    """Turn the one error of rows under a map, that of a row too long, into a code."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ValueError as error:
        if str(error).startswith(_NORM):
            raise Refusal(LONG) from None
        raise


def serve(channel, parts, n_threads):
    """Answer a driver until it hangs up.

    Parameters
    ----------
    channel : Channel
        The connection to it.
    parts : list of Part
        The rows.
    n_threads : int
        Threads of this worker.
    """

    def go_on():
        if channel.is_called():
            raise _Void

    number, answers = 0, None
    with _beating(channel) as beat:
        try:
            refusals = [part.refusal for part in parts if part.refusal is not None]
            if refusals:
                channel.send(REFUSED, 0, np.array(refusals[0], np.int64))
                return
            with beat():
                answers = Answers(parts, n_threads, go_on)
            channel.send(NUMBERS, 0)
            while True:
                kind, number, n_bytes = channel.receive()
                request = bytearray(n_bytes)
                channel.fill(request)
                with beat():
                    _answer(channel, answers, kind, number, request)
        except OSError:  # the driver has hung up, or its machine is gone
            return
        finally:
            if answers is not None:
                answers.release()


def _answer(channel, answers, kind, number, request):
    """Send what answers a request, a frame a partition."""
    codes: tuple[Any, ...]
    try:
        with _quiet():
            if kind == POINT:
                answer = answers.point(request)
            else:
                name, arguments = pickle.loads(request)
                answer = getattr(answers, name)(*arguments)
            for of_part in list(answer or ()):  # all before one is sent: others are read first
                channel.send(NUMBERS, number, np.ascontiguousarray(of_part))
            if kind == CALL and answer is None:
                channel.send(NUMBERS, number)
        return
    except OSError:
        raise
    except _Void:
        return
    except Refusal as refusal:
        codes = refusal.args
    except MemoryError:
        codes = (MEMORY,)
    except Exception:
        codes = (FAILED,)
    channel.send(REFUSED, number, np.array(codes, np.int64))


@contextmanager
def _beating(channel):
    """Send a sign of life now and then while something is computed, from a thread of its own."""
    since, over = [None], threading.Event()

    def beat():
        while not over.wait(BEAT / 5):
            start = since[0]
            if start is not None and time.monotonic() - start > BEAT:
                try:
                    channel.send(BUSY, 0)
                except OSError:
                    return
                since[0] = None if since[0] is None else time.monotonic()

    @contextmanager
    def busy():
        since[0] = time.monotonic()
        try:
            yield
        finally:
            since[0] = None

    thread = threading.Thread(target=beat, daemon=True, name="skdpdyn-beat")
    thread.start()
    try:
        yield busy
    finally:
        over.set()
