"""Kernels of full-batch noisy gradient descent on CSR rows, losses with several outputs.

As for a single output, with the weights of a column side by side: a stored value touches one
stretch of memory, not one place for each output, which is prefetched where not all of them fit in
cache and the processor gains from that. Sixteen outputs at a time: their dot products, and then
their steps, stay in registers for a whole row. Vectors are whole: of what is beyond a column's
outputs, the next column's, products are not used, and zero is added to it.
"""

import numpy as np

from skdpdyn.kernels.csr import (
    gather,
    gathered_dtype,
    room,
    room_type,
    rows,
    rows_at_a_time,
    rows_type,
)
from skdpdyn.kernels.jit import prefetch, residual_matrix_function
from skdpdyn.kernels.vectors import PREFETCHES_COLUMNS, filled, load, multiply_add, store

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
    "rows_at_a_time",
    "rows_type",
]

_MIN_BLOCK, _MAX_NUMBERS = 32, 20_000  # rows; raw predictions
_AHEAD = 32  # stored values to prefetch by
_CACHED_BYTES = 300_000 if PREFETCHES_COLUMNS else np.inf  # weights up to here are not prefetched
_EPS = 2.3e-16

residual_type = residual_matrix_function


def precision(dtype):
    """Return the lowest precision of the weights: that of the rows. Sums are double."""
    return dtype


def layout(n_outputs, n_features):
    """Return each parameter's place, column by column, and how many places are weights."""
    n_weights = n_outputs * n_features + 16
    coefficients = np.add.outer(np.arange(n_outputs), n_outputs * np.arange(n_features))
    return np.append(coefficients, n_weights + np.arange(n_outputs)), n_weights


def chunk_gradients(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """Write the clipped loss gradients of rows start..stop, summed, into ``out``.

    Coefficients, then the intercepts', then the sums of residual * offset, see
    `skdpdyn.data.row_map.RowMap.factors`. Sparse rows have no centre: ``row_offset`` is not read.
    """
    values, columns, row_start, row_end = X
    n_outputs, n_weights = intercept.size, weights.size
    block, most, all_rows = (
        n_weights // 800 * 8,
        _MAX_NUMBERS // n_outputs // 8 * 8,
        (stop - start + 7) // 8 * 8,
    )
    block = most if block > most else block
    block = _MIN_BLOCK if block < _MIN_BLOCK else block
    block = all_rows if block > all_rows else block
    raw, slope, target = np.empty((n_outputs, block)), np.empty((n_outputs, block)), np.empty(block)
    line = np.empty((n_outputs + 15) // 16 * 16)  # dot products of a row, then its steps
    # A helper for the prefetches would count references to its arrays: half as slow again.
    end_of_prefetches = np.int64(columns.size - _AHEAD - 2 if weights.nbytes > _CACHED_BYTES else 0)
    within = 1 - (n_outputs + 8) * _EPS  # the rounding of a norm and of what is scaled by it
    zero, one = filled(0.0), filled(1.0)
    raw[:] = 0
    target[:] = 0
    out[:] = 0
    for first in range(start, stop, block):
        size = stop - first if stop - first < block else block
        for i in range(size):
            a = np.uintp(first + i)
            start_of_row, end_of_row = row_start[a], row_end[a]
            for k in range(0, n_outputs, 16):
                two = n_outputs - k > 8  # vectors
                edge = 15 if two else 7
                dot_a = dot_b = dot_c = dot_d = zero
                for p in range(start_of_row, end_of_row - 1, 2):
                    if p < end_of_prefetches:
                        for q in range(p + _AHEAD, p + _AHEAD + 2):
                            w = np.int64(columns[np.uintp(q)]) * n_outputs + k
                            prefetch(weights, w)
                            prefetch(weights, w + edge)
                            if two:
                                prefetch(weights, w + 8)
                    q, r = np.uintp(p), np.uintp(p + 1)
                    value, w = filled(values[q]), np.int64(columns[q]) * n_outputs + k
                    other, v = filled(values[r]), np.int64(columns[r]) * n_outputs + k
                    dot_a = multiply_add(value, load(weights, w), dot_a)
                    dot_b = multiply_add(other, load(weights, v), dot_b)
                    if two:
                        dot_c = multiply_add(value, load(weights, w + 8), dot_c)
                        dot_d = multiply_add(other, load(weights, v + 8), dot_d)
                if (end_of_row - start_of_row) % 2:
                    q = np.uintp(end_of_row - 1)
                    value, w = filled(values[q]), np.int64(columns[q]) * n_outputs + k
                    dot_a = multiply_add(value, load(weights, w), dot_a)
                    dot_c = multiply_add(value, load(weights, w + 8), dot_c)
                store(line, k, multiply_add(one, dot_b, dot_a))
                store(line, k + 8, multiply_add(one, dot_d, dot_c))
            for k in range(n_outputs):
                raw[k, i] = row_scale[a] * line[k] + intercept[k]
            target[i] = y[a]
        residual(raw, target, slope)
        line[:] = 0
        for i in range(size):
            a = np.uintp(first + i)
            limit = np.float64(row_limit[a]) * within
            square = 0.0
            for k in range(n_outputs):
                square += slope[k, i] * slope[k, i]
            factor = 1.0
            if not square <= limit * limit:
                factor = limit / np.sqrt(square)
            if row_weight.size:
                factor *= row_weight[a]
            for k in range(n_outputs):
                r = slope[k, i] * factor if square < np.inf else 0.0  # for NaN, too
                out[n_weights + k] += r * intercept_scaling
                line[k] = r * row_scale[a]
            for k in range(0, n_outputs, 16):
                two = n_outputs - k > 8
                edge = 15 if two else 7
                step, other = load(line, k), load(line, k + 8)
                for p in range(row_start[a], row_end[a]):
                    if p < end_of_prefetches:
                        w = np.int64(columns[np.uintp(p + _AHEAD)]) * n_outputs + k
                        prefetch(out, w)
                        prefetch(out, w + edge)
                        if two:
                            prefetch(out, w + 8)
                    q = np.uintp(p)
                    value, w = filled(values[q]), np.int64(columns[q]) * n_outputs + k
                    store(out, w, multiply_add(value, step, load(out, w)))
                    if two:
                        store(out, w + 8, multiply_add(value, other, load(out, w + 8)))
