"""Kernels of full-batch noisy gradient descent on dense rows, losses with a single output.

One pass over X a step: rows in blocks that stay in cache, dot products of four rows at a time, the loss on the block, the
residual clamped, then the same four rows at a time added to the sum.

Memory must not idle meanwhile. So when X is not in cache, both loops over a row prefetch, evenly, the row two blocks further
on: the first loop would ask for lines faster than memory delivers, and then the processor drops requests; the second loop asks
for those again. 1.0 to 1.5 reads of X a step, instead of 1.5 to 2.1 with either loop alone.

A row's dot product has nothing of the next row in it, not even times zero: a record touches its own residual alone.
"""

import numpy as np

from skdpdyn._jit import aligned_empty, inner, prefetch, readonly, residual_function, writable
from skdpdyn._vectors import (
    add_inner,
    add_outer,
    clamp,
    filled,
    load,
    load_numbers,
    load_part,
    load_part_of_rows,
    load_rows,
    multiply_add,
    prefetch_rows,
    store,
    store_rows,
    store_totals,
    total,
    zeros_on_stack,
)

_MIN_BLOCK, _MAX_BLOCK = 4, 64  # rows; multiples of 8 in between, the width of the loss
_NEAR_BYTES, _FAR_BYTES = 33_000, 10_000  # of a block, without and with prefetching
_CACHED_BYTES = 9_000_000  # an X up to here is not prefetched
_GATHERED_BYTES, _GATHERED_AHEAD = 64_000, 8  # of the rows of a batch at a time; how many rows ahead to load

_ORIGIN = (0,)

residual_type = residual_function


def rows_type(dtype):
    """Type of what `rows` returns."""
    return readonly(dtype, 2)


def rows(X):
    """X as the kernel takes it."""
    return X


def precision(dtype):
    """Precision of the arithmetic on rows of ``dtype``: double, see `skdpdyn.solvers._descent`."""
    return "float64"


def gathered_dtype(dtype):
    """Dtype of the rows that `room` returns."""
    return "float64"


def room_type(dtype):
    """Type of the rows that `room` returns."""
    return writable(np.float64, 2)


def room(X):
    """How many rows a batch is summed by at a time, and room for them as the kernel takes them: they stay in cache."""
    n_features = X.shape[1]
    n_rows = min(max(_GATHERED_BYTES // (n_features * 8) // 8, 1), 16) * 8
    return n_rows, aligned_empty(n_rows * n_features).reshape(n_rows, n_features)


def gather(X, y, row_scale, bound, index, start, stop, rows, target, scale, limit):
    """Copy the rows index[start], ..., index[stop - 1], and what belongs to them, side by side."""
    n_features, last = X.shape[1], index.size - 1
    line = 64 // X.itemsize
    for i in range(stop - start):
        a = index[start + i]
        ahead = start + i + _GATHERED_AHEAD
        next_row = np.int64(index[ahead if ahead < last else last]) * n_features
        end = next_row + n_features
        while next_row < end:
            prefetch(X, next_row)
            next_row += line
        for j in range(n_features):
            rows[i, j] = X[a, j]
        target[i], scale[i], limit[i] = y[a], row_scale[a], bound[a]


def layout(n_outputs, n_features):
    """Where the kernel has each parameter, and how many of its places are weights: whole pairs of vectors."""
    n_weights = -(-n_features // 16) * 16
    return np.append(np.arange(n_features), n_weights), n_weights


@inner
def four_rows(first, count, n_features):
    """Where rows first, ..., first + 3 start in X; of those after the first ``count``, where the last of these does."""
    a = first * n_features
    b = a + n_features * (count > 1)
    c = b + n_features * (count > 2)
    return a, b, c, c + n_features * (count > 3)


def chunk_gradients(residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, start, stop, out):
    """Write the clipped loss gradients of rows start..stop, summed, into ``out`` (coefficients, then the intercept)."""
    n_features = X.shape[1]
    whole = n_features // 16 * 16
    rest = n_features - whole
    far = X.nbytes > _CACHED_BYTES
    block = (_FAR_BYTES if far else _NEAR_BYTES) // (n_features * X.itemsize + 1) // 8 * 8
    block = _MIN_BLOCK if block < _MIN_BLOCK else _MAX_BLOCK if block > _MAX_BLOCK else block
    ahead = 2 * block * n_features
    # No min, max or np.zeros in here: each costs 20 to 50 ms of compilation.
    n_lanes = (block + 7) // 8 * 8
    raw, slope = zeros_on_stack(_MAX_BLOCK, n_lanes), zeros_on_stack(_MAX_BLOCK, n_lanes)
    target, step = zeros_on_stack(_MAX_BLOCK, n_lanes), zeros_on_stack(_MAX_BLOCK, n_lanes)
    constant, intercept_sum, zero, one = filled(intercept[0]), filled(0.0), filled(0.0), filled(1.0)
    for j in range(0, weights.size, 8):
        store(out, j, zero)
    for first in range(start, stop, block):
        size = stop - first if stop - first < block else block
        for i in range(0, size, 4):
            four, dots = four_rows(first + i, size - i, n_features), (zero, zero, zero, zero)
            for j in range(0, whole, 16):
                if far:
                    prefetch_rows(X, four, ahead + j, 16)
                dots = add_outer(load_rows(X, four, j), load_rows(weights, _ORIGIN, j), dots)
                dots = add_outer(load_rows(X, four, j + 8), load_rows(weights, _ORIGIN, j + 8), dots)
            if rest:
                j = whole
                if far:
                    prefetch_rows(X, four, ahead + j, 16)
                dots = add_outer(load_part_of_rows(X, four, j, rest), load_rows(weights, _ORIGIN, j), dots)
                dots = add_outer(load_part_of_rows(X, four, j + 8, rest - 8), load_rows(weights, _ORIGIN, j + 8), dots)
            store_totals(raw, (i,), dots)
        for i in range(0, size, 8):
            store(raw, i, multiply_add(load_part(row_scale, first + i, size - i), load(raw, i), constant))
            store(target, i, load_part(y, first + i, size - i))
        residual(raw, target, slope)
        for i in range(0, size, 8):
            r = clamp(load(slope, i), load_part(bound, first + i, size - i))
            intercept_sum = multiply_add(r, one, intercept_sum)
            store(step, i, multiply_add(r, load_part(row_scale, first + i, size - i), zero))
        for i in range(0, size, 4):
            four, steps = four_rows(first + i, size - i, n_features), load_numbers(step, (i,), 4)
            for j in range(0, whole, 16):
                if far:
                    prefetch_rows(X, four, ahead + j, 16)
                k = j + 8
                store_rows(out, _ORIGIN, j, add_inner(steps, load_rows(X, four, j), load_rows(out, _ORIGIN, j)))
                store_rows(out, _ORIGIN, k, add_inner(steps, load_rows(X, four, k), load_rows(out, _ORIGIN, k)))
            if rest:
                j, k = whole, whole + 8
                if far:
                    prefetch_rows(X, four, ahead + j, 16)
                added = add_inner(steps, load_part_of_rows(X, four, j, rest), load_rows(out, _ORIGIN, j))
                store_rows(out, _ORIGIN, j, added)
                added = add_inner(steps, load_part_of_rows(X, four, k, rest - 8), load_rows(out, _ORIGIN, k))
                store_rows(out, _ORIGIN, k, added)
    out[weights.size] = total(intercept_sum) * intercept_scaling
