"""Kernels of full-batch noisy gradient descent on dense rows, losses with several outputs.

One pass over X a step: dot products of four rows with five outputs at a time, the loss on a block of rows, the norm of each
row's residuals bounded, then the same tiles of four rows and five outputs added to the sums. A tile loads nine vectors for
twenty multiplications, so the arithmetic units set the pace. Each visit to four rows asks for two of the four rows a block
further on, the next visit for the other two: all at once would be more than memory delivers, and the processor drops requests.

A row's dot products have nothing of the next row in them, not even times zero.
"""

import numpy as np

from skdpdyn._jit import inner, prefetch, residual_matrix_function
from skdpdyn._vectors import (
    add_inner,
    add_outer,
    load_numbers,
    load_part_of_registers,
    load_registers,
    register_size,
    store_rows,
    store_totals,
    zero_registers,
)
from skdpdyn.solvers._dense import four_rows, gather, gathered_dtype, room, room_type, rows, rows_type

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

_BLOCK = 32  # rows summed in the precision of X: Objective.bound_rows counts on no more
_TILE = 5  # outputs
_PADDING = 16  # numbers that the weights and the sums of an output are padded to: the largest register of single precision
_EPS = 2.3e-16

residual_type = residual_matrix_function


def precision(dtype):
    """Precision of the arithmetic on rows of ``dtype``: their own, see `skdpdyn.solvers._descent`."""
    return dtype


def layout(n_outputs, n_features):
    """Where the kernel has each parameter, and how many of its places are weights: rows padded to registers, outputs to tiles."""
    stride = -(-n_features // _PADDING) * _PADDING
    n_weights = -(-n_outputs // _TILE) * _TILE * stride
    coefficients = np.add.outer(stride * np.arange(n_outputs), np.arange(n_features))
    return np.append(coefficients, n_weights + np.arange(n_outputs)), n_weights


@inner
def _tile(first, stride):
    """Where each output of a tile has its own, the first one at ``first``."""
    b = first + stride
    c = b + stride
    d = c + stride
    return first, b, c, d, d + stride


def chunk_gradients(residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, start, stop, out):
    """Write the clipped loss gradients of rows start..stop, summed, into ``out`` (coefficients, then the intercepts)."""
    n_features, n_outputs, n_weights = X.shape[1], intercept.size, weights.size
    n_padded = -(-n_outputs // _TILE) * _TILE
    stride = n_weights // n_padded
    width = register_size(X)
    whole = n_features // width * width
    rest = n_features - whole
    raw, slope, target = np.empty((_BLOCK, n_outputs)), np.empty((_BLOCK, n_outputs)), np.empty(_BLOCK)
    numbers = np.empty(n_padded * _BLOCK, X.dtype)  # dot products, then steps: those of an output side by side
    block_sum = np.empty(n_weights, X.dtype)
    within = 1 - (n_outputs + 8) * _EPS  # the rounding of a norm and of what is scaled by it
    raw[:] = 0
    target[:] = 0
    numbers[:] = 0
    block_sum[:] = 0
    out[:] = 0
    for first in range(start, stop, _BLOCK):
        size = stop - first if stop - first < _BLOCK else _BLOCK
        for tile in range(0, n_padded, _TILE):
            of_weights = _tile(tile * stride, stride)
            for i in range(0, size, 4):
                four, dots = four_rows(first + i, size - i, n_features), zero_registers(X, 20)
                ahead = (first + i + _BLOCK + tile % 2 * 2) * n_features
                for j in range(0, whole, width):
                    prefetch(X, ahead + j)
                    prefetch(X, ahead + n_features + j)
                    dots = add_outer(load_registers(weights, of_weights, j), load_registers(X, four, j), dots)
                if rest:
                    part = load_part_of_registers(X, four, whole, rest)
                    dots = add_outer(load_registers(weights, of_weights, whole), part, dots)
                store_totals(numbers, _tile(tile * _BLOCK + i, _BLOCK), dots)
        for i in range(size):
            a = np.uintp(first + i)
            target[i] = y[a]
            for k in range(n_outputs):
                raw[i, k] = row_scale[a] * numbers[k * _BLOCK + i] + intercept[k]
        residual(raw, target, slope)
        numbers[:] = 0
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
                numbers[k * _BLOCK + i] = r * row_scale[a]
        for tile in range(0, n_padded, _TILE):
            of_sums = _tile(tile * stride, stride)
            for i in range(0, size, 4):
                four = four_rows(first + i, size - i, n_features)
                steps = load_numbers(numbers, _tile(tile * _BLOCK + i, _BLOCK), 4)
                ahead = (first + i + _BLOCK + (tile + 1) % 2 * 2) * n_features
                for j in range(0, whole, width):
                    prefetch(X, ahead + j)
                    prefetch(X, ahead + n_features + j)
                    sums = add_inner(steps, load_registers(X, four, j), load_registers(block_sum, of_sums, j))
                    store_rows(block_sum, of_sums, j, sums)
                if rest:
                    part = load_part_of_registers(X, four, whole, rest)
                    store_rows(block_sum, of_sums, whole, add_inner(steps, part, load_registers(block_sum, of_sums, whole)))
        if X.itemsize < 8 or first + _BLOCK >= stop:
            for j in range(n_weights):
                out[j] += block_sum[j]
                block_sum[j] = 0
