"""The actor of Dask that holds rows on a worker: it checks them once, and sums them when asked.

Nothing leaves but sums and codes: no error, no text and no row.
"""

import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import get_worker
from scipy import sparse

from skdpdyn.data.local import LocalRows
from skdpdyn.data.rows import arrays_of, canonical_rows, check_indices
from skdpdyn.data.streamed import encoded
from skdpdyn.kernels.later import aligned_empty
from skdpdyn.kernels.sums import Total, fingerprint, finite_fingerprint

# codes of refusals: numbers behind them are public, such as columns
MISSING, TARGETS, EXPOSURE, SHAPE, UNREADABLE = range(1, 6)
MALFORMED, MASKED, KIND, FAILED, MEMORY, VERSION, COLUMNS = range(6, 13)
_OURS = sys.modules["skdpdyn"].__version__


class Refusal(Exception):
    """A code, and numbers that say where."""


@dataclass(frozen=True)
class TableForm:
    """Public properties that the rows of all partitions must have.

    ``names`` are those of columns, of frames, and ``dtypes`` the types of X, column by column if it
    is a frame, and of what goes with it, as Dask says them.
    """

    n_features: int
    dtype: str
    names: tuple | None
    dtypes: tuple[tuple[str, ...], ...]
    is_sparse: bool
    numeric: bool  # whether targets are numbers
    n_targets: int  # one may be followed by its exposure
    version: str = _OURS  # of this library, where the fit is


class Holder:
    """The rows of some partitions on their worker, which they do not leave.

    Parameters
    ----------
    form : TableForm
        Properties that the rows must have.
    lengths : list of int
        Rows of each partition.
    *blocks : array, frame or series
        X of each partition, followed by its targets, if there are some, and exposures.
    """

    def __init__(self, form, lengths, *blocks):
        self._worker = get_worker()
        self._sums = []
        self._refusal = _caught(UNREADABLE, self._read, form, lengths, blocks)

    def __reduce__(self):
        raise TypeError("the rows of a fit do not leave their worker")

    def answer(self, requests):
        """Return the answer to the last of some requests, each a name and arguments.

        Returns
        -------
        list of ndarray, or tuple of int
            First what tells the rows and targets of each partition from others, as they were read,
            then numbers of each; a code and what it says, if a request is refused.
        """
        return self._refusal or _caught(FAILED, self._answered, requests)

    def _read(self, form, lengths, blocks):
        if form.version != _OURS:
            raise Refusal(VERSION)
        parts = zip(*[iter(blocks)] * (1 + form.n_targets), strict=True)
        read = [_rows_of(form, n, *part) for n, part in zip(lengths, parts, strict=True)]
        self._rows = [LocalRows(X) for X, _, _ in read]
        self._y = [y for _, y, _ in read]
        self._arrays = [
            arrays_of(X) if y is None else [*arrays_of(X), _told(y)] for X, y, _ in read
        ]
        as_read = [
            [found, *map(fingerprint, others)]
            for (_, _, found), (_, *others) in zip(read, self._arrays, strict=True)
        ]
        self._as_read = np.array(as_read, np.uint64)

    def _answered(self, requests):
        for name, arguments in requests:
            numbers = getattr(self, name)(*arguments)
        return [self._as_read, *(np.array(of_part) for of_part in numbers)]

    def changed(self):
        """Return of each partition whether someone wrote to it."""
        found = [list(map(fingerprint, arrays)) for arrays in self._arrays]
        return np.any(np.array(found, np.uint64) != self._as_read, axis=1)

    def _go_on(self):
        """Stop if nobody waits: Dask has dropped this actor."""
        if not any(actor is self for actor in list(self._worker.state.actors.values())):
            raise Refusal(FAILED)

    def targets(self, encode=None, changes=()):
        """Set the targets as the loss takes them, and the weights of their classes."""
        if encode is None:
            return
        for place, (rows, y) in enumerate(zip(self._rows, self._y, strict=True)):
            try:
                targets = np.ascontiguousarray(encode(y), dtype=np.float64)
            except Exception:
                raise Refusal(TARGETS, int(y.dtype.kind in "biuf")) from None
            self._rows[place] = encoded(rows, targets, changes)

    def map(self, row_map):
        """Set the map that rows go through."""
        self._rows = [rows.with_map(row_map) for rows in self._rows]

    def summed(self, pieces, statistic):
        """Yield a statistic of each partition's pieces of chunks.

        Of its first chunk some rows may stand before the partition.
        """
        for rows, (edges, before) in zip(self._rows, pieces, strict=True):
            sums = []
            for first, last in pairwise(edges.tolist()):
                self._go_on()
                total = Total((statistic.n_sums(rows.shape[1]),))
                here = replace(statistic, part=max(statistic.part - before, 0.0))
                rows.part(first, last).add_to(total, here, np.array([0, last - first]))
                sums.append(total.value())
                before = 0
            yield sums

    def gradients(self, edges, gradients):
        """Begin sums of gradients, which `point` returns."""
        from skdpdyn.kernels.passes import LocalSums

        self._sums = [
            LocalSums(gradients, rows, of_part, self._worker.state.nthreads, keep=True)
            for rows, of_part in zip(self._rows, edges, strict=True)
        ]
        self._weights = aligned_empty(gradients.n_weights, gradients.precision)

    def point(self, weights, intercept, shift):
        """Yield the sums of gradients of each partition's pieces of chunks at a point."""
        self._weights[:] = weights
        for sums in self._sums:
            yield sums.of_chunks(self._weights, intercept, shift, go_on=self._go_on)

    def batches(self, gradients):
        """Begin sums over chosen rows, which `batch` returns."""
        from skdpdyn.kernels.passes import BatchSums

        self._sums = [BatchSums(gradients, rows) for rows in self._rows]

    def batch(self, chosen, weights, intercept, shift):
        """Yield the sum at a point over the rows at some places of each partition."""
        for sums, of_part in zip(self._sums, chosen, strict=True):
            self._go_on()
            yield sums(weights, intercept, shift, of_part)


def _caught(otherwise, function, *arguments):
    """Return a function's result, or the code of its refusal: its errors may quote records."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments)
    except Refusal as refusal:
        return refusal.args
    except MemoryError:
        return (MEMORY,)
    except Exception:
        return (otherwise,)


def _told(y):
    """Return targets, or the text of those that are objects."""
    if not y.dtype.hasobject:
        return y
    text = "\0".join(map(str, y.tolist()))
    return np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)


def names_of(X: Any) -> tuple | None:
    """Return the names of the columns of a frame, None of an array."""
    return tuple(X.columns) if hasattr(X, "columns") else None


def types_of(part: Any) -> tuple[str, ...]:
    """Return the names of the types of a frame's columns, of a series or of an array."""
    is_frame = hasattr(part, "dtypes") and part.ndim == 2
    dtypes = list(part.dtypes) if is_frame else [getattr(part, "dtype", None)]
    kinds = {"U": "text", "S": "bytes"}  # of any length
    return tuple(kinds.get(getattr(dtype, "kind", ""), str(dtype)) for dtype in dtypes)


def _rows_of(form, n_rows, X, *targets):
    """Return X, y and the fingerprint of X, checked as a local fit checks them, or refuse them.

    Of CSR rows it is that of their values.
    """
    parts = X, *targets
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise Refusal(MASKED)
    if (names_of(X), *map(types_of, parts)) != (form.names, *form.dtypes):
        raise Refusal(COLUMNS)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy(dtype=form.dtype, na_value=np.nan)
    X = _matrix(form, X)
    if X.ndim != 2 or X.shape != (n_rows, form.n_features):
        raise Refusal(SHAPE)
    found = finite_fingerprint(X.data if form.is_sparse else X)
    if found is None:
        raise Refusal(MISSING, *_not_finite(X))
    columns = [_column(form, n_rows, target) for target in targets]
    if form.n_targets == 2:
        if columns[1].dtype.kind not in "biuf":
            raise Refusal(EXPOSURE)
        exposure = columns[1].astype(np.float64)
        if not np.all((exposure > 0) & np.isfinite(exposure)):
            raise Refusal(EXPOSURE)
        return X, np.column_stack([columns[0], exposure]), found
    return X, columns[0] if columns else None, found


def _matrix(form, X):
    """Return rows of numbers in the form's precision."""
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
        return canonical_rows(X.astype(form.dtype, copy=False))
    return np.ascontiguousarray(X, dtype=form.dtype)


def _column(form, n_rows, target):
    """Return targets or exposures as an array."""
    column = target.to_numpy() if hasattr(target, "to_numpy") else np.asarray(target)
    if column.shape != (n_rows,):
        raise Refusal(SHAPE)
    return column.astype(np.float64) if form.numeric and column.dtype.kind == "O" else column


def _not_finite(X):
    """Return which columns hold values other than numbers."""
    if sparse.issparse(X):
        return np.unique(X.indices[~np.isfinite(X.data)]).tolist()
    return np.flatnonzero(~np.all(np.isfinite(X), axis=0)).tolist()
