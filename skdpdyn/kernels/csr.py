"""Kernels of full-batch noisy gradient descent on CSR rows, losses with a single output.

One pass over the stored values a step: a row costs a gather and a scatter for each of its values,
and the link. A block has the more rows the more columns there are: then weights and sums take turns
in the cache, where both would not fit. Indices are unsigned, because the test for negative ones
would cost more than half as much again.
"""

import numpy as np
from numba import types

from skdpdyn.chunks import MOST_GATHERED
from skdpdyn.kernels.jit import readonly, residual_function, writable
from skdpdyn.kernels.vectors import zeros_on_stack

_MIN_BLOCK, _MAX_BLOCK = 32, 1024  # rows; multiples of 8, the width of the loss

residual_type = residual_function


def rows_type(dtype):
    """Return the numba type of what `rows` returns."""
    return types.Tuple(
        (readonly(dtype), readonly(np.uint32), readonly(np.int64), readonly(np.int64))
    )


def rows(X):
    """Return the values of X, their columns, and each row's start and end, for the kernel."""
    X.check_format(full_check=True)  # the kernel does not check indices
    return views(X)


def views(X):
    """Return what `rows` does of rows whose indices have been checked."""
    indices = (
        X.indices.view(np.uint32) if X.indices.dtype == np.int32 else X.indices.astype(np.uint32)
    )
    edges = X.indptr.astype(np.int64)
    return X.data, indices, edges[:-1], edges[1:]


def precision(dtype):
    """Return the lowest precision of the weights: double, see `skdpdyn.solvers.steps`."""
    return "float64"


def gathered_dtype(dtype):
    """Return the dtype of the values of the rows that `gather` copies."""
    return dtype


def room_type(dtype):
    """Return the numba type of what `room` returns."""
    places = writable(np.int64)
    return types.Tuple((readonly(dtype), readonly(np.uint32), places, places))


def room(rows, size):
    """Return room for the places of some rows side by side; their values stay where they are."""
    values, columns, _, _ = rows
    return values, columns, np.empty(size, np.int64), np.empty(size, np.int64)


def gather(rows, index, first, count, out):
    """Copy the places of some rows into ``out``."""
    for i in range(count):
        row = np.uintp(index[first + i])
        out[2][i], out[3][i] = rows[2][row], rows[3][row]


def rows_at_a_time(n_features):
    """Return how many rows of a batch are summed one after the other."""
    return MOST_GATHERED


def layout(n_outputs, n_features):
    """Return the kernel's place of each parameter, and how many places are weights."""
    return np.arange(n_features + 1), n_features


def chunk_gradients(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """Write the clipped loss gradients of rows start..stop, summed, into ``out``.

    Coefficients, then the intercept's, then the sum of residual * offset, see
    `skdpdyn.data.row_map.RowMap.factors`. Sparse rows have no centre: ``row_offset`` is not read.
    """
    values, columns, row_start, row_end = X
    block, all_rows = weights.size // 128 * 8, (stop - start + 7) // 8 * 8
    block = _MIN_BLOCK if block < _MIN_BLOCK else _MAX_BLOCK if block > _MAX_BLOCK else block
    block = all_rows if block > all_rows else block
    raw, slope, target = (
        zeros_on_stack(_MAX_BLOCK, block),
        zeros_on_stack(_MAX_BLOCK, block),
        zeros_on_stack(_MAX_BLOCK, block),
    )
    out[:] = 0
    constant, intercept_sum = intercept[0], 0.0
    for first in range(start, stop, block):
        size = stop - first if stop - first < block else block
        for i in range(size):
            a = np.uintp(first + i)
            dot = 0.0
            for p in range(np.uintp(row_start[a]), np.uintp(row_end[a])):
                dot += values[p] * weights[columns[p]]
            raw[i] = row_scale[a] * dot + constant
            target[i] = y[a]
        residual(raw, target, slope)
        for i in range(size):
            a = np.uintp(first + i)
            limit = np.float64(row_limit[a])
            r = slope[i]
            if not r <= limit:  # true for NaN, too
                r = limit
            if not r >= -limit:
                r = -limit
            if row_weight.size:
                r *= row_weight[a]
            intercept_sum += r
            step = r * row_scale[a]
            for p in range(np.uintp(row_start[a]), np.uintp(row_end[a])):
                out[columns[p]] += step * values[p]
    out[weights.size] = intercept_sum * intercept_scaling
