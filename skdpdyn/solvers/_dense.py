"""Kernels of full-batch noisy gradient descent on dense rows, losses with a single output.

One pass over X a step: rows in blocks that stay in cache, dot products of four rows at a time, the loss on the block, the
residual clamped, then the same four rows at a time added to the sum.

Memory must not idle meanwhile. So when X is not in cache, both loops over a row prefetch, evenly, the row two blocks further
on: the first loop would ask for lines faster than memory delivers, and then the processor drops requests; the second loop asks
for those again. 1.1 to 1.3 reads of X a step, instead of 1.7 to 2 with either loop alone.

A row's dot product has nothing of the next row in it, not even times zero: a record touches its own residual alone.
"""

import numpy as np

from skdpdyn._jit import aligned_empty, prefetch, readonly, residual_function, writable
from skdpdyn._vectors import clamp, filled, load, load_part, multiply_add, prefetch_two, store, total

_MIN_BLOCK, _MAX_BLOCK = 4, 64  # rows; multiples of 8 in between, the width of the loss
_NEAR_BYTES, _FAR_BYTES = 33_000, 10_000  # of a block, without and with prefetching
_CACHED_BYTES = 9_000_000  # an X up to here is not prefetched
_GATHERED_BYTES, _GATHERED_AHEAD = 64_000, 8  # of the rows of a batch at a time; how many rows ahead to load

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


def gathered_dtype(dtype, precision):
    """Dtype of the rows that `room` returns."""
    return precision


def room_type(dtype, precision):
    """Type of the rows that `room` returns."""
    return writable(precision, 2)


def room(X, precision):
    """How many rows a batch is summed by at a time, and room for them as the kernel takes them: they stay in cache."""
    n_features = X.shape[1]
    n_rows = min(max(_GATHERED_BYTES // (n_features * np.dtype(precision).itemsize) // 8, 1), 16) * 8
    return n_rows, aligned_empty(n_rows * n_features, precision).reshape(n_rows, n_features)


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


def chunk_gradients(residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, start, stop, out):
    """Write the clipped loss gradients of rows start..stop, summed, into ``out`` (coefficients, then the intercept)."""
    n_features = X.shape[1]
    whole = n_features // 16 * 16
    rest, beyond = n_features - whole, n_features - whole - 8
    far = X.nbytes > _CACHED_BYTES
    block = (_FAR_BYTES if far else _NEAR_BYTES) // (n_features * X.itemsize + 1) // 8 * 8
    block = _MIN_BLOCK if block < _MIN_BLOCK else _MAX_BLOCK if block > _MAX_BLOCK else block
    ahead = 2 * block * n_features
    # No min, max or np.zeros in here: each costs 20 to 50 ms of compilation.
    n_lanes = (block + 7) // 8 * 8
    raw, slope, target, step = np.empty(n_lanes), np.empty(n_lanes), np.empty(n_lanes), np.empty(n_lanes)
    raw[:] = 0
    target[:] = 0
    out[:] = 0
    constant, intercept_sum, zero, one = filled(intercept[0]), filled(0.0), filled(0.0), filled(1.0)
    for first in range(start, stop, block):
        size = stop - first if stop - first < block else block
        for i in range(0, size, 4):
            a = (first + i) * n_features
            b = a + n_features * (i + 1 < size)  # past the end, the last row again, with a step of zero
            c = b + n_features * (i + 2 < size)
            d = c + n_features * (i + 3 < size)
            dot_a = dot_b = dot_c = dot_d = zero
            for j in range(0, whole, 16):
                if far:
                    for row in (a, b, c, d):
                        prefetch_two(X, row + ahead + j)
                k = j + 8
                w, v = load(weights, j), load(weights, k)
                dot_a = multiply_add(load(X, a + k), v, multiply_add(load(X, a + j), w, dot_a))
                dot_b = multiply_add(load(X, b + k), v, multiply_add(load(X, b + j), w, dot_b))
                dot_c = multiply_add(load(X, c + k), v, multiply_add(load(X, c + j), w, dot_c))
                dot_d = multiply_add(load(X, d + k), v, multiply_add(load(X, d + j), w, dot_d))
            if rest:
                j, k = whole, whole + 8
                if far:
                    for row in (a, b, c, d):
                        prefetch_two(X, row + ahead + j)
                w, v = load(weights, j), load(weights, k)
                dot_a = multiply_add(load_part(X, a + k, beyond), v, multiply_add(load_part(X, a + j, rest), w, dot_a))
                dot_b = multiply_add(load_part(X, b + k, beyond), v, multiply_add(load_part(X, b + j, rest), w, dot_b))
                dot_c = multiply_add(load_part(X, c + k, beyond), v, multiply_add(load_part(X, c + j, rest), w, dot_c))
                dot_d = multiply_add(load_part(X, d + k, beyond), v, multiply_add(load_part(X, d + j, rest), w, dot_d))
            raw[i], raw[i + 1], raw[i + 2], raw[i + 3] = total(dot_a), total(dot_b), total(dot_c), total(dot_d)
        for i in range(0, size, 8):
            store(raw, i, multiply_add(load_part(row_scale, first + i, size - i), load(raw, i), constant))
            store(target, i, load_part(y, first + i, size - i))
        residual(raw, target, slope)
        for i in range(0, size, 8):
            r = clamp(load(slope, i), load_part(bound, first + i, size - i))
            intercept_sum = multiply_add(r, one, intercept_sum)
            store(step, i, multiply_add(r, load_part(row_scale, first + i, size - i), zero))
        for i in range(0, size, 4):
            a = (first + i) * n_features
            b = a + n_features * (i + 1 < size)
            c = b + n_features * (i + 2 < size)
            d = c + n_features * (i + 3 < size)
            p, q, r, s = filled(step[i]), filled(step[i + 1]), filled(step[i + 2]), filled(step[i + 3])
            for j in range(0, whole, 16):
                if far:
                    for row in (a, b, c, d):
                        prefetch_two(X, row + ahead + j)
                k = j + 8
                u = multiply_add(p, load(X, a + j), multiply_add(q, load(X, b + j), load(out, j)))
                store(out, j, multiply_add(r, load(X, c + j), multiply_add(s, load(X, d + j), u)))
                u = multiply_add(p, load(X, a + k), multiply_add(q, load(X, b + k), load(out, k)))
                store(out, k, multiply_add(r, load(X, c + k), multiply_add(s, load(X, d + k), u)))
            if rest:
                j, k = whole, whole + 8
                if far:
                    for row in (a, b, c, d):
                        prefetch_two(X, row + ahead + j)
                u, v = load(out, j), load(out, k)
                u = multiply_add(p, load_part(X, a + j, rest), multiply_add(q, load_part(X, b + j, rest), u))
                v = multiply_add(p, load_part(X, a + k, beyond), multiply_add(q, load_part(X, b + k, beyond), v))
                u = multiply_add(r, load_part(X, c + j, rest), multiply_add(s, load_part(X, d + j, rest), u))
                v = multiply_add(r, load_part(X, c + k, beyond), multiply_add(s, load_part(X, d + k, beyond), v))
                store(out, j, u)
                store(out, k, v)
    out[weights.size] = total(intercept_sum) * intercept_scaling
