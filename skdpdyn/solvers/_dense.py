"""Kernels of full-batch noisy gradient descent on dense rows, losses with a single output.

One pass over X a step: rows in blocks that stay in cache, dot products, the loss on the block, the residual clamped, then
four rows at a time added to the sum.

Memory must not idle meanwhile, and a core can wait for a few dozen lines only. So when X is larger than the last-level cache,
blocks are small, and each row, or each tile of a long row, prefetches its share of the block after the next: 1.2 to 1.4 reads
of X a step instead of 2 to 3. A tile's weights stay in the first-level cache from row to row. Rows in cache, which would lose,
and short ones are multiplied in pairs, which share the loads of the weights; longer pairs would start too many loads at once.
"""

import numpy as np

from skdpdyn._jit import aligned_empty, prefetch, readonly, residual_function, writable

_MIN_BLOCK, _MAX_BLOCK = 4, 64  # rows; multiples of 8 in between, the width of the loss
_NEAR_BYTES, _FAR_BYTES = 33_000, 14_000  # of a block, without and with prefetching
_SHORT_ROW_BYTES, _LONG_ROW_BYTES, _TILE_BYTES = 512, 1_280, 768  # rows up to the first in pairs, beyond the second in tiles
_CACHED_BYTES = 12_000_000  # an X up to here is not prefetched
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
    """Where the kernel has each parameter, and how many of its places are weights."""
    return np.arange(n_features + 1), n_features


def chunk_gradients(residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, start, stop, out):
    """Write the clipped loss gradients of rows start..stop, summed, into ``out`` (coefficients, then the intercept)."""
    n_features = X.shape[1]
    row_bytes = n_features * X.itemsize
    far = X.nbytes > _CACHED_BYTES
    block = (_FAR_BYTES if far else _NEAR_BYTES) // (row_bytes + 1) // 8 * 8
    block = _MIN_BLOCK if block < _MIN_BLOCK else _MAX_BLOCK if block > _MAX_BLOCK else block
    paired, tiled = not far or row_bytes <= _SHORT_ROW_BYTES, far and row_bytes > _LONG_ROW_BYTES
    tile, line = _TILE_BYTES // X.itemsize if tiled else n_features, 64 // X.itemsize
    # Dot products start three quarters of the prefetches and adding starts one: memory hardly idles.
    share_of_two, share_of_four = (n_features * 3 // 2, n_features) if far else (0, 0)
    # Row numbers are unsigned: the test for negative indices costs 1 ns a row and keeps loops over rows from vectorising.
    # No min, max or np.zeros in here: each costs 20 to 50 ms of compilation. A range with a step in a variable divides.
    raw, slope, target, step = np.empty(block), np.empty(block), np.empty(block), np.empty(block)
    out[:] = 0
    last, constant = stop - 1, intercept[0]
    intercept_sum = 0.0
    for first in range(start, stop, block):
        size = stop - first if stop - first < block else block
        ahead = end = (first + 2 * block) * n_features
        if paired:
            for i in range(0, size, 2):
                end += share_of_two
                while ahead < end:
                    prefetch(X, ahead)
                    ahead += line
                a = first + i
                a, b = np.uintp(a), np.uintp(a + (a < last))
                dot_a = dot_b = 0.0
                for j in range(n_features):
                    dot_a += X[a, j] * weights[j]
                    dot_b += X[b, j] * weights[j]
                raw[i] = row_scale[a] * dot_a + constant
                raw[i + 1] = row_scale[b] * dot_b + constant
                target[i] = y[a]
                target[i + 1] = y[b]
        else:
            left = 0
            while left < n_features:
                right = left + tile if left + tile < n_features else n_features
                for i in range(size):
                    end += (right - left) * 3 // 4
                    while ahead < end:
                        prefetch(X, ahead)
                        ahead += line
                    a = np.uintp(first + i)
                    dot = 0.0
                    for j in range(np.uintp(left), np.uintp(right)):
                        dot += X[a, j] * weights[j]
                    raw[i] = row_scale[a] * dot + (raw[i] if left else constant)
                    target[i] = y[a]
                left = right
        residual(raw, target, slope)
        for i in range(size):
            a = np.uintp(first + i)
            limit = bound[a]
            r = slope[i]
            r = r if r <= limit else limit  # also of NaN
            r = r if r >= -limit else -limit
            intercept_sum += r
            step[i] = r * row_scale[a]
        for i in range(size, block):
            step[i] = 0.0
        for i in range(0, size, 4):
            a = first + i
            b = a + (a < last)  # past the end, the last row again, with a step of zero
            c = b + (b < last)
            d = c + (c < last)
            a, b, c, d = np.uintp(a), np.uintp(b), np.uintp(c), np.uintp(d)
            sa, sb, sc, sd = step[i], step[i + 1], step[i + 2], step[i + 3]
            if tiled:
                left = 0
                while left < n_features:
                    right = left + tile if left + tile < n_features else n_features
                    end += right - left
                    while ahead < end:
                        prefetch(X, ahead)
                        ahead += line
                    for j in range(np.uintp(left), np.uintp(right)):
                        out[j] += (sa * X[a, j] + sb * X[b, j]) + (sc * X[c, j] + sd * X[d, j])
                    left = right
            else:
                end += share_of_four
                while ahead < end:
                    prefetch(X, ahead)
                    ahead += line
                for j in range(n_features):
                    out[j] += (sa * X[a, j] + sb * X[b, j]) + (sc * X[c, j] + sd * X[d, j])
    out[n_features] = intercept_sum * intercept_scaling
