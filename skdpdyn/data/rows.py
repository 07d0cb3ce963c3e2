"""Rows as kernels take them: canonical, with the norm of each and the factor that brings it into the ball."""

import math

import numpy as np
from scipy import sparse

_EPS = np.finfo(np.float64).eps


def canonical_rows(X):
    """X itself, or for a CSR array with duplicate or unsorted entries, or parts that are not contiguous, a copy without them."""
    if not sparse.issparse(X):
        return X
    parts = X.data, X.indices, X.indptr
    contiguous = all(part.flags.c_contiguous for part in parts)
    # A new array looks at the entries; X itself may remember how they were before someone wrote to them.
    looked_at = sparse.csr_array(tuple(map(np.ascontiguousarray, parts)), shape=X.shape)
    if contiguous and looked_at.has_canonical_format:
        return X
    if not looked_at.has_canonical_format:
        looked_at = looked_at.copy()
        looked_at.sum_duplicates()
    return looked_at


def row_norms(X):
    """Euclidean norm of each row of an array or a CSR array, in float64 and without a copy of X.

    Raises
    ------
    ValueError
        If a row is too large for its norm to be computed. That is a precondition on every single row, like being finite.
    """
    with np.errstate(over="ignore"):
        squares = _squared_norms(canonical_rows(X)) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    if not np.all(squares <= np.finfo(X.dtype).max):
        raise ValueError(
            f"X holds rows whose norm exceeds {math.sqrt(np.finfo(X.dtype).max):.2g}, the largest that {X.dtype} can train on: "
            "rescale X"
        )
    return np.sqrt(squares)


def _squared_norms(X, slab=1 << 14):
    """Squared norms of CSR rows, a slab of rows at a time."""
    squares = np.zeros(X.shape[0])
    for first in range(0, X.shape[0], slab):
        edges = X.indptr[first : first + slab + 1]
        values = X.data[edges[0] : edges[-1]].astype(np.float64)
        filled = np.flatnonzero(np.diff(edges))  # reduceat takes an empty row for one value
        if filled.size:
            squares[first + filled] = np.add.reduceat(values**2, edges[filled] - edges[0])
    return squares


def row_factors(norms, data_norm, X):
    """Factor of each row of X that scales it into the ball of radius ``data_norm``, whatever the rounding of its norm."""
    radius = data_norm * (1 - (X.shape[1] + 16) * _EPS)
    return radius / np.maximum(norms, radius)
