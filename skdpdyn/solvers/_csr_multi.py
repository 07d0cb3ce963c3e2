"""Kernels of full-batch noisy gradient descent on CSR rows, losses with several outputs.

As for a single output, with the weights of a column side by side: a stored value touches one stretch of memory, not one
place for each output, which is prefetched where not all of them fit in cache. Four stored values at a time share the loads and
stores of a row's dot products.
"""

import numpy as np

from skdpdyn._jit import prefetch, residual_matrix_function
from skdpdyn.solvers._csr import gather, gathered_dtype, precision, room, room_type, rows, rows_type

__all__ = [
    "chunk_gradients",
    "gather",
    "gathered_dtype",
    "layout",
    "precision",
    "residual_type",
    "room",
    "room_type",
    "rows",
    "rows_type",
]

_BLOCK = 32  # rows
_AHEAD = 32  # stored values to prefetch by
_CACHED_BYTES = 300_000  # weights up to here are not prefetched
_EPS = 2.3e-16

residual_type = residual_matrix_function


def layout(n_outputs, n_features):
    """Where the kernel has each parameter, and how many of its places are weights: column by column."""
    n_weights = n_outputs * n_features
    coefficients = np.add.outer(np.arange(n_outputs), n_outputs * np.arange(n_features))
    return np.append(coefficients, n_weights + np.arange(n_outputs)), n_weights


def chunk_gradients(residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, start, stop, out):
    """Write the clipped loss gradients of rows start..stop, summed, into ``out`` (coefficients, then the intercepts)."""
    values, columns, row_start, row_end = X
    n_outputs, n_weights = intercept.size, weights.size
    width, one, two, three = np.uintp(n_outputs), np.uintp(1), np.uintp(2), np.uintp(3)
    raw, slope, target = np.empty((_BLOCK, n_outputs)), np.empty((_BLOCK, n_outputs)), np.empty(_BLOCK)
    line = np.empty(n_outputs)  # dot products of a row, then its steps
    # A helper for the prefetches would count references to its arrays: half as slow again.
    end_of_prefetches = np.uintp(columns.size - _AHEAD - 4 if columns.size > _AHEAD + 4 and weights.nbytes > _CACHED_BYTES else 0)
    ahead, last = np.uintp(_AHEAD), np.int64(n_outputs - 1)
    within = 1 - (n_outputs + 8) * _EPS  # the rounding of a norm and of what is scaled by it
    raw[:] = 0
    target[:] = 0
    out[:] = 0
    for first in range(start, stop, _BLOCK):
        size = stop - first if stop - first < _BLOCK else _BLOCK
        for i in range(size):
            a = np.uintp(first + i)
            line[:] = 0
            start_of_row, end_of_row = row_start[a], row_end[a]
            end_of_fours = start_of_row + (end_of_row - start_of_row) // 4 * 4
            for p in range(np.uintp(start_of_row), np.uintp(end_of_fours), np.uintp(4)):
                q, r, s = p + one, p + two, p + three
                if p < end_of_prefetches:
                    for g in range(np.uintp(4)):
                        left = np.int64(columns[p + ahead + g]) * n_outputs
                        for j in range(left, left + last, 8):
                            prefetch(weights, j)
                        prefetch(weights, left + last)
                vp, vq, vr, vs = values[p], values[q], values[r], values[s]
                wp, wq, wr, ws = columns[p] * width, columns[q] * width, columns[r] * width, columns[s] * width
                for k in range(width):
                    line[k] += (vp * weights[wp + k] + vq * weights[wq + k]) + (vr * weights[wr + k] + vs * weights[ws + k])
            for p in range(np.uintp(end_of_fours), np.uintp(end_of_row)):
                value, w = values[p], columns[p] * width
                for k in range(width):
                    line[k] += value * weights[w + k]
            for k in range(n_outputs):
                raw[i, k] = row_scale[a] * line[k] + intercept[k]
            target[i] = y[a]
        residual(raw, target, slope)
        for i in range(size):
            a = np.uintp(first + i)
            limit = bound[a] * within
            square = 0.0
            for k in range(n_outputs):
                square += slope[i, k] * slope[i, k]
            factor = 1.0
            if not square <= limit * limit:
                factor = limit / np.sqrt(square)
            for k in range(n_outputs):
                r = slope[i, k] * factor if square < np.inf else 0.0  # also of NaN
                out[n_weights + k] += r * intercept_scaling
                line[k] = r * row_scale[a]
            for p in range(np.uintp(row_start[a]), np.uintp(row_end[a])):
                if p < end_of_prefetches:
                    left = np.int64(columns[p + ahead]) * n_outputs
                    for j in range(left, left + last, 8):
                        prefetch(out, j)
                    prefetch(out, left + last)
                value, w = values[p], columns[p] * width
                for k in range(width):
                    out[w + k] += value * line[k]
