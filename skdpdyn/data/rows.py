"""Rows as kernels take them: canonical, with each norm and the factor into the ball."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from skdpdyn.kernels.asked import NOTHING, Ball, LongRows
from skdpdyn.kernels.sums import Total
from skdpdyn.support.chunks import edges_of

_EPS = np.finfo(np.float64).eps
_AT_ONCE = 1 << 12  # rows between two looks at interrupts
_MOST_EXPANDED = 1 << 23  # numbers of rows that become an array at a time: 64 MB
_REACH = 1 - 1e-3  # of the longest norm that can be squared: entries are rounded, too


def arrays_of(X) -> list[np.ndarray]:
    """Return the arrays that dense rows or CSR rows are in."""
    return [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]


def canonical_rows(X):
    """Return X, or a canonical copy if CSR entries are unsorted, duplicate or not contiguous."""
    if not sparse.issparse(X):
        return X
    check_indices(X)
    parts = X.data, X.indices, X.indptr
    contiguous = all(part.flags.c_contiguous for part in parts)
    # A new array looks at the entries; X itself may remember how they were before someone wrote to
    # them.
    looked_at = sparse.csr_array(tuple(map(np.ascontiguousarray, parts)), shape=X.shape)
    if contiguous and looked_at.has_canonical_format:
        return X
    if not looked_at.has_canonical_format:
        looked_at = looked_at.copy()
        looked_at.sum_duplicates()
    return looked_at


def check_indices(X: sparse.sparray | sparse.spmatrix) -> None:
    """Refuse a sparse array whose indices point outside of it: compiled code does not check them.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_rows, n_columns)
        In any format of scipy.

    Raises
    ------
    ValueError
        If ``indices``, ``coords`` or ``indptr`` are not those of an array of this shape.

    Examples
    --------
    >>> from scipy import sparse
    >>> from skdpdyn.data.rows import check_indices
    >>> X = sparse.csr_array([[0.0, 1.0]])
    >>> X.indices[0] = 2
    >>> check_indices(X)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: X is a malformed sparse array: indices must be from 0 to 1, ...
    """
    if X.format == "coo":
        for index, size in zip(X.coords, X.shape, strict=True):
            _check_index("coords", index, size)
            _require(len(index) == len(X.data), "coords and data must be of one length")
        return
    if X.format not in ("csr", "csc", "bsr"):  # their cells are told one by one
        try:
            coo = X.tocoo()
        except Exception:
            coo = None
        _require(coo is not None, "it has no list of cells")
        check_indices(coo)
        return
    block = X.blocksize if X.format == "bsr" else (1, 1)
    major, minor = (size // length for size, length in zip(X.shape, block, strict=True))
    major, minor = (minor, major) if X.format == "csc" else (major, minor)
    indptr = np.asarray(X.indptr)
    indices = np.asarray(X.indices)
    _require(
        indptr.dtype.kind in "iu" and indptr.shape == (major + 1,),
        "indptr must hold one integer more than rows",
    )
    _require(indptr[0] == 0, "indptr must start with 0")
    _require(bool(np.all(indptr[1:] >= indptr[:-1])), "indptr must not decrease")
    _require(len(indices) == len(X.data), "indices and data must be of one length")
    _require(indptr[-1] <= len(indices), "indptr must not end beyond the entries")
    _check_index("indices", indices, minor)


def _check_index(name, index, size):
    integers = index.ndim == 1 and index.dtype.kind in "iu"
    inside = integers and (not index.size or (index.min() >= 0 and index.max() < size))
    _require(inside, f"{name} must be from 0 to {size - 1}, the last of its columns or rows")


def _require(condition, remedy):
    if not condition:
        raise ValueError(f"X is a malformed sparse array: {remedy}")


def row_norms(X):
    """Return the Euclidean norm of each row of a dense or CSR array, without a copy of X.

    Raises
    ------
    LongRows
        If a row is too long for its norm to be squared, see `in_reach`.
    """
    X = canonical_rows(X)
    return numbers_of_rows(X, ball_of(X))[1]


def in_reach(function: Callable[[Any], Any], X: Any) -> tuple[Any, Any]:
    """Return the value of a function of rows, and the rows, shortened if they are too long.

    Parameters
    ----------
    function : callable
        A function of canonical rows that squares their norms.
    X : ndarray or CSR array of shape (n_samples, n_features)
        The rows.

    Returns
    -------
    answer : object
        What the function returns.
    X : ndarray or CSR array of shape (n_samples, n_features)
        The rows that it was given at last.
    """
    try:
        return function(X), X
    except LongRows:
        X = shortened(X)
    return function(X), X


def shortened(X):
    """Return rows, with those that are too long to square scaled to about the longest that are not.

    So no record decides whether a fit or a prediction answers: a code for missing, such as
    -3.4e38, counts as any long row does. Each row is mapped by itself, which is public: it is
    divided by its largest entry first, in double precision.
    """
    from skdpdyn.kernels.statistics import RowPass, add_up

    factors, lengths = np.empty((2, X.shape[0]))
    run = RowPass(X, ball_of(X), NOTHING, numbers=(factors, lengths), any_length=True)
    add_up(run, edges_of(X.shape[0], _AT_ONCE), Total((1,)))
    places = np.isnan(factors)
    reach = _REACH * math.sqrt(float(np.finfo(X.dtype).max))
    rows = X[places].astype(np.float64)
    if sparse.issparse(X):
        sizes = np.diff(rows.indptr)
        rows.data /= np.repeat(np.maximum.reduceat(np.abs(rows.data), rows.indptr[:-1]), sizes)
        rows.data *= np.repeat(reach / row_norms(rows), sizes)
        data = X.data.copy()
        data[np.repeat(places, np.diff(X.indptr))] = rows.data
        return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
    rows /= np.max(np.abs(rows), axis=1, keepdims=True)
    rows *= (reach / row_norms(rows))[:, None]
    X = X.copy()
    X[places] = rows
    return X


def numbers_of_rows(X, ball, centre=None, weights=None):
    """Return the factor of each canonical row into a ball, and its length under a map.

    A length is a function of its own row alone, to the last bit. Raises `LongRows` as `row_norms`.
    """
    from skdpdyn.kernels.statistics import RowPass, add_up

    numbers_of_all = np.empty(X.shape[0]), np.empty(X.shape[0])
    dense = sparse.issparse(X) and weights is not None and weights.ndim == 2
    dense |= hasattr(X, "expansion")  # stands for an array, see `skdpdyn.data.coded`
    at_once = max(1, min(_AT_ONCE, _MOST_EXPANDED // X.shape[1]))
    step = at_once if dense else max(1, X.shape[0])
    for first in range(0, X.shape[0], step):
        part = slice(first, first + step)
        rows = X[part].toarray() if dense else X
        numbers = tuple(values[part] for values in numbers_of_all)
        run = RowPass(rows, ball, NOTHING, centre=centre, weights=weights, numbers=numbers)
        edges = edges_of(rows.shape[0], _AT_ONCE)
        add_up(run, edges, Total((1,)))
    return numbers_of_all


def ball_of(X, radius=math.inf):
    """Return a ball that rows are scaled into, and the largest square of a norm for training."""
    inner = radius * (1 - (X.shape[1] + 16) * _EPS)  # so that rounding keeps rows in the ball
    return Ball(inner, float(np.finfo(X.dtype).max))


def row_factors(norms, data_norm, X):
    """Return the factor that scales each row into the ball, however its norm was rounded."""
    radius = ball_of(X, data_norm).radius
    return radius / np.maximum(norms, radius)
