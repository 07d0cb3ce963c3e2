"""Kernels of full-batch noisy gradient descent on dense rows, losses with a single output.

One pass over X a step: rows in blocks that stay in cache, dot products of four rows at a time, the
loss on the block, the residual clamped, then the same four rows at a time added to the sum.

The four are not neighbours. A chunk is read as four streams, its quarters: each is one long stretch
of memory, which processors load ahead by themselves, and four of them faster than one. On a Zen 3 a
step takes 0.6 to 0.8 of the time that four neighbouring rows take, with prefetches of our own. With
AVX-512 arithmetic is so fast that memory must not idle while a block is in cache: both loops over
rows ask for the next one then, each for two of the streams. What belongs to the rows comes in
pieces too short to be loaded ahead, and so do rows without a whole vector: they are prefetched.

A row's dot product has nothing of another row in it, not even times zero: a record touches its own
residual alone.
"""

import numpy as np

from skdpdyn.kernels.jit import (
    inner,
    prefetch,
    readonly,
    residual_function,
    writable,
)
from skdpdyn.kernels.vectors import (
    PREFETCHES,
    ZEN,
    add_rows,
    clamp,
    filled,
    load,
    load_numbers,
    load_part,
    multiply_add,
    places,
    store,
    store_dots,
    total,
    zeros_on_stack,
)

# Bytes of a block, which is read twice, from the first or from the second cache; rows of each
# stream. As measured on a Zen 3, a Zen 4 and a Xeon: on the Zen 4, the Xeon's blocks take up to
# 1.15 times as long.
_BLOCK_BYTES, _MAX_BLOCK = (260_000, 16) if not PREFETCHES else (54_000, 16) if ZEN else (27_000, 8)
_MAX_LANES = 4 * _MAX_BLOCK
_CACHED_BYTES = 2_000_000  # an X up to here is not prefetched
_GATHERED_BYTES = 64_000  # of a batch's rows at a time

_ORIGIN = (0,)

residual_type = residual_function


def rows_type(dtype):
    """Return the numba type of what `rows` returns."""
    return readonly(dtype, 2)


def rows(X):
    """Return X as the kernel takes it."""
    return X


def precision(dtype):
    """Return the lowest precision of the weights: double, see `skdpdyn.solvers.steps`."""
    return "float64"


def gathered_dtype(dtype):
    """Return the dtype of the rows that `gather` copies."""
    return "float64"


def room_type(dtype):
    """Return the numba type of what `room` returns."""
    return writable(np.float64, 2)


def room(rows, size):
    """Return room for some rows side by side, of that dtype."""
    return np.empty((size, rows.shape[1]))


def gather(rows, index, first, count, out):
    """Copy the rows at some places into ``out``."""
    for i in range(count):
        row = np.uintp(index[first + i])
        for j in range(rows.shape[1]):
            out[i, j] = rows[row, j]


def rows_at_a_time(n_features):
    """Return how many rows of a batch are summed one after the other: as many as caches hold."""
    return min(max(_GATHERED_BYTES // (n_features * 8) // 8, 1), 16) * 8


def layout(n_outputs, n_features):
    """Return each parameter's place in the kernel, in whole vectors, and how many are weights."""
    n_weights = -(-n_features // 16) * 16
    return np.append(np.arange(n_features), n_weights), n_weights


@inner
def four_rows(first, quarter, stop, n_features, column):
    """Return where four rows, a quarter apart, have a column in X; beyond ``stop`` the last row."""
    last = stop - 1
    b = first + quarter
    c = b + quarter
    d = c + quarter
    b, c, d = b if b < last else last, c if c < last else last, d if d < last else last
    return (
        first * n_features + column,
        b * n_features + column,
        c * n_features + column,
        d * n_features + column,
    )


def chunk_gradients(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """Write the clipped loss gradients of rows start..stop, summed, into ``out``.

    Coefficients, then the intercept's, then the sum of residual * offset, see
    `skdpdyn.data.row_map.RowMap.factors`.
    """
    n_features = X.shape[1]
    quarter, line = (stop - start + 3) // 4, 64 // X.itemsize
    # No min, max or np.zeros in here: each costs 20 to 50 ms of compilation.
    block = _BLOCK_BYTES // (4 * n_features * X.itemsize + 1)
    block = 1 if block < 1 else _MAX_BLOCK if block > _MAX_BLOCK else block
    n_lanes = (block + 7) // 8 * 8
    ahead = block * n_features if X.nbytes > _CACHED_BYTES else 0
    raw, slope = zeros_on_stack(_MAX_LANES, 4 * n_lanes), zeros_on_stack(_MAX_LANES, 4 * n_lanes)
    target, step = zeros_on_stack(_MAX_LANES, 4 * n_lanes), zeros_on_stack(_MAX_LANES, 4 * n_lanes)
    constant, intercept_sum, zero, one = filled(intercept[0]), filled(0.0), filled(0.0), filled(1.0)
    moved, offset_sum = filled(shift[0]), filled(0.0)
    for j in range(0, weights.size, 8):
        store(out, j, zero)
    for first in range(start, start + quarter, block):
        size = start + quarter - first if start + quarter - first < block else block
        for i in range(size):
            four = four_rows(first + i, quarter, stop, n_features, 0)
            store_dots(
                raw, places(i, n_lanes, 4), weights, _ORIGIN, X, four, n_features, four[:2], ahead
            )
        for stream in range(4):
            row, lane = first + stream * quarter, stream * n_lanes
            count = stop - row if stop - row < size else size
            for i in range(0, size, 8):
                a, k = row + i, lane + i
                prefetch(row_scale, a + n_lanes + 7)
                prefetch(y, a + n_lanes + 7)
                prefetch(row_limit, a + n_lanes + 7)
                if n_features < 8:  # loads of parts make no processor load ahead
                    for j in range(0, 8 * n_features, line):
                        prefetch(X, (a + n_lanes) * n_features + j)
                store(
                    raw, k, multiply_add(load_part(row_scale, a, count - i), load(raw, k), constant)
                )
                store(target, k, load_part(y, a, count - i))
        if row_offset.size:
            for stream in range(4):
                row, lane = first + stream * quarter, stream * n_lanes
                count = stop - row if stop - row < size else size
                for i in range(0, size, 8):
                    a, k = row + i, lane + i
                    prefetch(row_offset, a + n_lanes + 7)
                    store(
                        raw,
                        k,
                        multiply_add(load_part(row_offset, a, count - i), moved, load(raw, k)),
                    )
        residual(raw, target, slope)
        # in loops of their own: a branch costs short rows 7 %
        if row_offset.size or row_weight.size:
            for stream in range(4):
                row, lane = first + stream * quarter, stream * n_lanes
                count = stop - row if stop - row < size else size
                for i in range(0, size, 8):
                    a, k = row + i, lane + i
                    r = clamp(load(slope, k), load_part(row_limit, a, count - i))
                    if row_weight.size:
                        prefetch(row_weight, a + n_lanes + 7)
                        r = multiply_add(r, load_part(row_weight, a, count - i), zero)
                    if row_offset.size:
                        offset_sum = multiply_add(
                            r, load_part(row_offset, a, count - i), offset_sum
                        )
                    intercept_sum = multiply_add(r, one, intercept_sum)
                    store(step, k, multiply_add(r, load_part(row_scale, a, count - i), zero))
        else:
            for stream in range(4):
                row, lane = first + stream * quarter, stream * n_lanes
                count = stop - row if stop - row < size else size
                for i in range(0, size, 8):
                    a, k = row + i, lane + i
                    r = clamp(load(slope, k), load_part(row_limit, a, count - i))
                    intercept_sum = multiply_add(r, one, intercept_sum)
                    store(step, k, multiply_add(r, load_part(row_scale, a, count - i), zero))
        for i in range(size):
            four = four_rows(first + i, quarter, stop, n_features, 0)
            add_rows(
                out,
                _ORIGIN,
                load_numbers(step, places(i, n_lanes, 4), 1),
                X,
                four,
                n_features,
                four[2:],
                ahead,
            )
    out[weights.size] = total(intercept_sum) * intercept_scaling
    out[weights.size + 1] = total(offset_sum)
