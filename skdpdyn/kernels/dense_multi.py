"""Kernels of full-batch noisy gradient descent on dense rows, losses with several outputs.

One pass over X a step, in four streams as for a single output: dot products of a row of each stream
with the weights of a few outputs at a time, the loss on a block of rows, the norm of each row's
residuals bounded, then the same tiles of four rows and a few outputs added to the sums. Three
outputs are as many as sixteen registers hold the products of, five as many as the 32 of AVX-512:
what a tile reads from cache is used more often then. Two are for what is left over. The sums of
some columns stay in the first cache while all rows of a block are added to them.

A row's dot products have nothing of another row in them, not even times zero.
"""

import numpy as np

from skdpdyn.kernels.dense import (
    four_rows,
    gather,
    gathered_dtype,
    room,
    room_type,
    rows,
    rows_at_a_time,
    rows_type,
)
from skdpdyn.kernels.jit import residual_matrix_function
from skdpdyn.kernels.vectors import (
    REGISTER_BYTES,
    add_rows,
    load_numbers,
    places,
    store_dots,
    zeros_on_stack,
)

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

_BLOCK = 32  # rows summed in the precision of the weights: LocalRows.bounded counts on no more
_OF_STREAM = _BLOCK // 4
# bytes of sums that stay in cache while a block is added; least number of columns
_PANEL_BYTES, _MIN_PANEL = 16_000, 64
# numbers that the weights and the sums of an output are padded to: the largest register of single
# precision
_PADDING = 16
_FIVES = REGISTER_BYTES == 64  # whether five outputs have registers for their products
_EPS = 2.3e-16

residual_type = residual_matrix_function


def precision(dtype):
    """Return the lowest precision of the weights and of a block's sums: that of the rows."""
    return dtype


def layout(n_outputs, n_features):
    """Return each parameter's place, rows padded to registers, and how many places are weights."""
    stride = -(-n_features // _PADDING) * _PADDING
    n_weights = n_outputs * stride
    coefficients = np.add.outer(stride * np.arange(n_outputs), np.arange(n_features))
    return np.append(coefficients, n_weights + np.arange(n_outputs)), n_weights


def chunk_gradients(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """Write the clipped loss gradients of rows start..stop, summed, into ``out``.

    Coefficients, then the intercepts', then the sums of residual * offset, see
    `skdpdyn.data.row_map.RowMap.factors`.
    """
    n_features, n_outputs, n_weights = X.shape[1], intercept.size, weights.size
    stride = n_weights // n_outputs
    # end of the tiles of five
    fives = n_outputs - n_outputs % 5 - (5 if n_outputs % 5 == 1 else 0) if _FIVES else 0
    threes = n_outputs - 2 * (-(n_outputs - fives) % 3)  # end of the tiles of three
    quarter = (stop - start + 3) // 4
    panel = _PANEL_BYTES // (n_outputs * weights.itemsize) // _PADDING * _PADDING
    panel = _MIN_PANEL if panel < _MIN_PANEL else panel
    raw, slope = np.empty((n_outputs, _BLOCK)), np.empty((n_outputs, _BLOCK))
    target, scale = zeros_on_stack(_BLOCK, _BLOCK), zeros_on_stack(_BLOCK, _BLOCK)
    limit, square = zeros_on_stack(_BLOCK, _BLOCK), zeros_on_stack(_BLOCK, _BLOCK)
    offset, share = zeros_on_stack(_BLOCK, _BLOCK), zeros_on_stack(_BLOCK, _BLOCK)
    # dot products, later steps; the numbers of one output lie side by side
    numbers = np.empty(n_outputs * _BLOCK, weights.dtype)
    block_sum = np.empty(n_weights, weights.dtype)
    within = 1 - (n_outputs + 8) * _EPS  # the rounding of a norm and of what is scaled by it
    ahead = _OF_STREAM * n_features
    numbers[:] = 0
    block_sum[:] = 0
    out[:] = 0
    for first in range(start, start + quarter, _OF_STREAM):
        size = start + quarter - first if start + quarter - first < _OF_STREAM else _OF_STREAM
        for i in range(size):
            four, to = four_rows(first + i, quarter, stop, n_features, 0), 4 * i
            for k in range(0, fives, 5):
                five = places(k * stride, stride, 5)
                store_dots(
                    numbers,
                    places(k * _BLOCK + to, _BLOCK, 5),
                    weights,
                    five,
                    X,
                    four,
                    n_features,
                    (),
                    0,
                )
            for k in range(fives, threes, 3):
                three = places(k * stride, stride, 3)
                store_dots(
                    numbers,
                    places(k * _BLOCK + to, _BLOCK, 3),
                    weights,
                    three,
                    X,
                    four,
                    n_features,
                    (),
                    0,
                )
            for k in range(threes, n_outputs, 2):
                two = places(k * stride, stride, 2)
                store_dots(
                    numbers,
                    places(k * _BLOCK + to, _BLOCK, 2),
                    weights,
                    two,
                    X,
                    four,
                    n_features,
                    (),
                    0,
                )
        for i in range(_BLOCK):
            row = first + i // 4 + i % 4 * quarter
            target[i] = scale[i] = limit[i] = square[i] = offset[i] = share[i] = 0
            if i < 4 * size and row < stop:
                a = np.uintp(row)
                target[i], scale[i], limit[i] = y[a], row_scale[a], row_limit[a] * within
                if row_offset.size:
                    offset[i] = row_offset[a]
                if row_weight.size:
                    share[i] = row_weight[a]
        for k in range(n_outputs):
            for i in range(_BLOCK):
                raw[k, i] = scale[i] * numbers[k * _BLOCK + i] + intercept[k]
        if row_offset.size:
            for k in range(n_outputs):
                for i in range(_BLOCK):
                    raw[k, i] += offset[i] * shift[k]
        residual(raw, target, slope)
        for k in range(n_outputs):
            for i in range(_BLOCK):
                square[i] += slope[k, i] * slope[k, i]
        for i in range(_BLOCK):
            fits = square[i] <= limit[i] * limit[i]
            # the factor on the residuals
            limit[i] = 1.0 if fits else limit[i] / np.sqrt(square[i])
        if row_weight.size:
            for i in range(_BLOCK):
                limit[i] *= share[i]
        for k in range(n_outputs):
            output_sum = 0.0
            for i in range(_BLOCK):
                r = slope[k, i] * limit[i] if square[i] < np.inf else 0.0  # for NaN, too
                output_sum += r
                numbers[k * _BLOCK + i] = r * scale[i]
            out[n_weights + k] += output_sum * intercept_scaling
        if row_offset.size:
            for k in range(n_outputs):
                offset_sum = 0.0
                for i in range(_BLOCK):
                    r = slope[k, i] * limit[i] if square[i] < np.inf else 0.0
                    offset_sum += r * offset[i]
                out[n_weights + n_outputs + k] += offset_sum
        for left in range(0, n_features, panel):
            length = n_features - left if n_features - left < panel else panel
            for i in range(size):
                four, of = four_rows(first + i, quarter, stop, n_features, left), 4 * i
                for k in range(0, fives, 5):
                    steps = load_numbers(numbers, places(k * _BLOCK + of, _BLOCK, 5), 4)
                    add_rows(
                        block_sum,
                        places(k * stride + left, stride, 5),
                        steps,
                        X,
                        four,
                        length,
                        four,
                        ahead,
                    )
                for k in range(fives, threes, 3):
                    steps = load_numbers(numbers, places(k * _BLOCK + of, _BLOCK, 3), 4)
                    add_rows(
                        block_sum,
                        places(k * stride + left, stride, 3),
                        steps,
                        X,
                        four,
                        length,
                        four,
                        ahead,
                    )
                for k in range(threes, n_outputs, 2):
                    steps = load_numbers(numbers, places(k * _BLOCK + of, _BLOCK, 2), 4)
                    add_rows(
                        block_sum,
                        places(k * stride + left, stride, 2),
                        steps,
                        X,
                        four,
                        length,
                        four,
                        ahead,
                    )
        if weights.itemsize < 8 or first + _OF_STREAM >= start + quarter:
            for j in range(n_weights):
                out[j] += block_sum[j]
                block_sum[j] = 0
