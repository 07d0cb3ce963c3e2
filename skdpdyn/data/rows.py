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


def bound_rows(objective, X, n_chunks=64, dtype=None, aligned=True):
    """Factor of each row that brings it into the ball, and bound of (the norm of) each row's residual.

    Both leave room for rounding, so that the sensitivity of the *computed* sum of gradients stays within `sensitivity`. A sum
    of gradients of norm at most L rounds by its own norm times eps/2 at most, and so does each product and what it multiplies
    a row by: a block of 32 rows, in any order, by less than 300 eps L, a chunk of m rows by m^2/4 eps L, the sum of c chunks
    of n rows by (c + 1) n/4 eps L; two runs, by twice that. Partial sums of one output or of several round alike. Changing a
    row changes the rounding of its own block, of the float64 sums of its chunk, and of the sum of the chunks, nothing else.
    But a record that joins a batch moves the rows that follow, and every block and every chunk rounds anew.

    Parameters
    ----------
    objective : Objective
        The problem.
    X : ndarray or CSR array of shape (n_samples, n_features)
        The rows.
    n_chunks : int, default=64
        Largest number of chunks of equal size, each of its rows summed one after the other.
    dtype : dtype, default=None
        Precision that blocks are summed in; None for that of X.
    aligned : bool, default=True
        Whether every row is summed at the same place with a record and without it.

    Returns
    -------
    row_scale, residual_bound : ndarray of shape (n_samples,)
    """
    norms = row_norms(X)
    row_scale = row_factors(norms, objective.data_norm, X)
    with np.errstate(divide="ignore"):
        residual_bound = np.minimum(
            objective.clip / np.hypot(row_scale * norms, objective.intercept_scaling), objective.loss.lipschitz
        )
    return row_scale, residual_bound * (1 - allowance(objective, dtype or X.dtype, n_chunks, aligned))


def make_room(objective, X, noise_std, n_chunks=64, dtype=None, aligned=True):
    """What `bound_rows` returns, and noise, with room for rounding where it does no harm.

    In the residual's bound, or where a clamped residual would be no contraction, in the noise.

    Parameters
    ----------
    objective : Objective
        The problem.
    X : ndarray or CSR array of shape (n_samples, n_features)
        The rows.
    noise_std : ndarray of shape (n_steps,)
        Standard deviation of the noise of each step.
    n_chunks : int, default=64
        Largest number of chunks of equal size, each of its rows summed one after the other.
    dtype : dtype, default=None
        Precision that blocks are summed in; None for that of X.
    aligned : bool, default=True
        Whether every row is summed at the same place with a record and without it.

    Returns
    -------
    bounded_rows : tuple of ndarray of shape (n_samples,)
    noise_std : ndarray of shape (n_steps,)
    """
    if objective.n_outputs > 1 and objective.contracts:
        more_noise = noise_std * (1 + allowance(objective, dtype or X.dtype, n_chunks, aligned))
        return bound_rows(objective.unclamped(), X, n_chunks, dtype, aligned), more_noise
    return bound_rows(objective, X, n_chunks, dtype, aligned), noise_std


def allowance(objective, dtype, n_chunks, aligned):
    """Part of the sensitivity that rounding may add, see `bound_rows`."""
    chunk = objective.n_samples / n_chunks + 16
    n_blocks, n_moved = (1, chunk) if aligned else (objective.n_samples / 32 + n_chunks, objective.n_samples)
    double_sums = n_moved * chunk + n_chunks * objective.n_samples
    allowance = 640 * np.finfo(dtype).eps * n_blocks + double_sums * _EPS
    if not allowance < 0.5:
        raise ValueError(f"n_samples={objective.n_samples}: sums in float64 cannot tell one record among so many")
    return float(allowance)
