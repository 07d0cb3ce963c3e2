"""Kernels of full-batch noisy gradient descent on dense rows, losses with several outputs.

One pass over X a step: dot products of four rows with five outputs at a time, the loss on a block of rows, the norm of each
row's residuals bounded, then the same tiles of four rows and five outputs added to the sums. A tile loads nine numbers for
twenty multiplications, so the arithmetic units set the pace. Each tile prefetches its share of the next block.
"""

import numpy as np

from skdpdyn._jit import prefetch, residual_matrix_function
from skdpdyn.solvers._dense import gather, gathered_dtype, room, room_type, rows, rows_type

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
_LINE = 8  # numbers that rows of weights and of sums are aligned to
_EPS = 2.3e-16

residual_type = residual_matrix_function


def precision(dtype):
    """Precision of the arithmetic on rows of ``dtype``: their own, see `skdpdyn.solvers._descent`."""
    return dtype


def layout(n_outputs, n_features):
    """Where the kernel has each parameter, and how many of its places are weights: rows padded to lines, outputs to tiles."""
    stride = -(-n_features // _LINE) * _LINE
    n_weights = -(-n_outputs // _TILE) * _TILE * stride
    coefficients = np.add.outer(stride * np.arange(n_outputs), np.arange(n_features))
    return np.append(coefficients, n_weights + np.arange(n_outputs)), n_weights


def chunk_gradients(residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, start, stop, out):
    """Write the clipped loss gradients of rows start..stop, summed, into ``out`` (coefficients, then the intercepts)."""
    n_features, n_outputs = X.shape[1], intercept.size
    n_weights, stride = weights.size, -(-n_features // _LINE) * _LINE
    n_padded = n_weights // stride
    line = 64 // X.itemsize
    share = (4 * n_features // (2 * n_padded // _TILE) // line + 1) * line  # of four rows, prefetched by each tile
    # Row numbers and offsets are unsigned: the test for negative indices would keep loops from vectorising.
    stride = np.uintp(stride)
    raw, slope, target = np.empty((_BLOCK, n_outputs)), np.empty((_BLOCK, n_outputs)), np.empty(_BLOCK)
    tiles = np.empty((_BLOCK, n_padded), X.dtype)  # dot products, then steps
    block_sum = np.empty(n_weights, X.dtype)
    within = 1 - (n_outputs + 8) * _EPS  # the rounding of a norm and of what is scaled by it
    raw[:] = 0
    target[:] = 0
    tiles[:] = 0
    block_sum[:] = 0
    out[:] = 0
    last = stop - 1
    for first in range(start, stop, _BLOCK):
        size = stop - first if stop - first < _BLOCK else _BLOCK
        for tile in range(0, n_padded, _TILE):
            w0 = np.uintp(tile) * stride
            w1 = w0 + stride
            w2 = w1 + stride
            w3 = w2 + stride
            w4 = w3 + stride
            for i in range(0, size, 4):
                a = first + i
                ahead = (a + _BLOCK) * n_features + tile // _TILE * share
                for j in range(ahead, ahead + share, line):
                    prefetch(X, j)
                b = a + (a < last)  # past the end, the last row again, with a step of zero
                c = b + (b < last)
                d = c + (c < last)
                a, b, c, d = np.uintp(a), np.uintp(b), np.uintp(c), np.uintp(d)
                a0 = a1 = a2 = a3 = a4 = b0 = b1 = b2 = b3 = b4 = X.dtype.type(0)
                c0 = c1 = c2 = c3 = c4 = d0 = d1 = d2 = d3 = d4 = X.dtype.type(0)
                for j in range(np.uintp(n_features)):
                    xa, xb, xc, xd = X[a, j], X[b, j], X[c, j], X[d, j]
                    v0, v1, v2, v3, v4 = weights[w0 + j], weights[w1 + j], weights[w2 + j], weights[w3 + j], weights[w4 + j]
                    a0, a1, a2, a3, a4 = a0 + xa * v0, a1 + xa * v1, a2 + xa * v2, a3 + xa * v3, a4 + xa * v4
                    b0, b1, b2, b3, b4 = b0 + xb * v0, b1 + xb * v1, b2 + xb * v2, b3 + xb * v3, b4 + xb * v4
                    c0, c1, c2, c3, c4 = c0 + xc * v0, c1 + xc * v1, c2 + xc * v2, c3 + xc * v3, c4 + xc * v4
                    d0, d1, d2, d3, d4 = d0 + xd * v0, d1 + xd * v1, d2 + xd * v2, d3 + xd * v3, d4 + xd * v4
                for row, dots in enumerate(
                    ((a0, a1, a2, a3, a4), (b0, b1, b2, b3, b4), (c0, c1, c2, c3, c4), (d0, d1, d2, d3, d4))
                ):
                    for k, dot in enumerate(dots):
                        tiles[i + row, tile + k] = dot
        for i in range(size):
            a = np.uintp(first + i)
            target[i] = y[a]
            for k in range(n_outputs):
                raw[i, k] = row_scale[a] * tiles[i, k] + intercept[k]
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
                tiles[i, k] = r * row_scale[a]
            for k in range(n_outputs, n_padded):
                tiles[i, k] = 0
        for i in range(size, _BLOCK):
            tiles[i, :] = 0
        for tile in range(0, n_padded, _TILE):
            w0 = np.uintp(tile) * stride
            w1 = w0 + stride
            w2 = w1 + stride
            w3 = w2 + stride
            w4 = w3 + stride
            for i in range(0, size, 4):
                a = first + i
                ahead = (a + _BLOCK) * n_features + (n_padded + tile) // _TILE * share
                for j in range(ahead, ahead + share, line):
                    prefetch(X, j)
                b = a + (a < last)
                c = b + (b < last)
                d = c + (c < last)
                a, b, c, d = np.uintp(a), np.uintp(b), np.uintp(c), np.uintp(d)
                k, r = tile, i
                a0, a1, a2, a3, a4 = tiles[r, k], tiles[r, k + 1], tiles[r, k + 2], tiles[r, k + 3], tiles[r, k + 4]
                r += 1
                b0, b1, b2, b3, b4 = tiles[r, k], tiles[r, k + 1], tiles[r, k + 2], tiles[r, k + 3], tiles[r, k + 4]
                r += 1
                c0, c1, c2, c3, c4 = tiles[r, k], tiles[r, k + 1], tiles[r, k + 2], tiles[r, k + 3], tiles[r, k + 4]
                r += 1
                d0, d1, d2, d3, d4 = tiles[r, k], tiles[r, k + 1], tiles[r, k + 2], tiles[r, k + 3], tiles[r, k + 4]
                for j in range(np.uintp(n_features)):
                    xa, xb, xc, xd = X[a, j], X[b, j], X[c, j], X[d, j]
                    block_sum[w0 + j] += (a0 * xa + b0 * xb) + (c0 * xc + d0 * xd)
                    block_sum[w1 + j] += (a1 * xa + b1 * xb) + (c1 * xc + d1 * xd)
                    block_sum[w2 + j] += (a2 * xa + b2 * xb) + (c2 * xc + d2 * xd)
                    block_sum[w3 + j] += (a3 * xa + b3 * xb) + (c3 * xc + d3 * xd)
                    block_sum[w4 + j] += (a4 * xa + b4 * xb) + (c4 * xc + d4 * xd)
        if X.itemsize < 8 or first + _BLOCK >= stop:
            for j in range(n_weights):
                out[j] += block_sum[j]
                block_sum[j] = 0
