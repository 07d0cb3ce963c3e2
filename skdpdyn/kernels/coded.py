"""Kernels on rows that are cells of public tables, for additive models.

A row is a small number for each column: the cell that its value is in. What a model says of a row
is the sum of what it says of its cells, and of products of two low cosines of columns. So a pass
looks up one number a cell, where the expanded row has dozens, and the gradient is what residuals
add up to in each cell. `skdpdyn.expansion.Expansion` turns these sums into those of features.
"""

from dataclasses import dataclass

import numpy as np
from numba import types

from skdpdyn.chunks import MOST_GATHERED
from skdpdyn.kernels.jit import readonly, residual_function, residual_matrix_function, writable

_BLOCK = 64  # rows; a multiple of 8, the width of the loss
_EPS = 2.3e-16


def _one_output(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """Write the clipped loss gradients of rows start..stop, summed, into ``out``.

    By cell, then by product of cosines, then the intercept's, then the sum of residual * offset.
    """
    codes, starts, low, side = X
    n_columns, n_cells = codes.shape[1], weights.size - side * side
    raw, slope, target = np.zeros(_BLOCK), np.zeros(_BLOCK), np.zeros(_BLOCK)
    cosines = np.zeros((_BLOCK, side))
    intercept_sum, offset_sum = 0.0, 0.0
    out[:] = 0
    for first in range(start, stop, _BLOCK):
        size = stop - first if stop - first < _BLOCK else _BLOCK
        for i in range(size):
            a = np.uintp(first + i)
            dot = 0.0
            for j in range(n_columns):
                cell = np.uintp(starts[j]) + np.uintp(codes[a, j])
                dot += weights[cell]
                if side:
                    cosines[i, 2 * j] = low[cell, 0]
                    cosines[i, 2 * j + 1] = low[cell, 1]
            for u in range(side):
                part, at = 0.0, n_cells + u * side
                for v in range(u // 2 * 2 + 2, side):
                    part += cosines[i, v] * weights[at + v]
                dot += part * cosines[i, u]
            raw[i] = row_scale[a] * dot + intercept[0]
            if row_offset.size:
                raw[i] += row_offset[a] * shift[0]
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
            if row_offset.size:
                offset_sum += r * row_offset[a]
            step = r * row_scale[a]
            for j in range(n_columns):
                out[np.uintp(starts[j]) + np.uintp(codes[a, j])] += step
            for u in range(side):
                part, at = step * cosines[i, u], n_cells + u * side
                for v in range(u // 2 * 2 + 2, side):
                    out[at + v] += part * cosines[i, v]
    out[weights.size] = intercept_sum * intercept_scaling
    out[weights.size + 1] = offset_sum


def _several_outputs(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """Write the gradients of rows start..stop, as `_one_output` does, output by output."""
    codes, starts, low, side = X
    n_columns, n_outputs = codes.shape[1], intercept.size
    stride = weights.size // n_outputs
    n_cells = stride - side * side
    raw, slope = np.zeros((n_outputs, _BLOCK)), np.zeros((n_outputs, _BLOCK))
    target, cosines = np.zeros(_BLOCK), np.zeros((_BLOCK, side))
    within = 1 - (n_outputs + 8) * _EPS  # the rounding of a norm and of what is scaled by it
    out[:] = 0
    for first in range(start, stop, _BLOCK):
        size = stop - first if stop - first < _BLOCK else _BLOCK
        for i in range(size):
            a = np.uintp(first + i)
            target[i] = y[a]
            if side:
                for j in range(n_columns):
                    cell = np.uintp(starts[j]) + np.uintp(codes[a, j])
                    cosines[i, 2 * j] = low[cell, 0]
                    cosines[i, 2 * j + 1] = low[cell, 1]
            for k in range(n_outputs):
                dot = 0.0
                for j in range(n_columns):
                    dot += weights[k * stride + starts[j] + np.int64(codes[a, j])]
                for u in range(side):
                    part, at = 0.0, k * stride + n_cells + u * side
                    for v in range(u // 2 * 2 + 2, side):
                        part += cosines[i, v] * weights[at + v]
                    dot += part * cosines[i, u]
                raw[k, i] = row_scale[a] * dot + intercept[k]
                if row_offset.size:
                    raw[k, i] += row_offset[a] * shift[k]
        residual(raw, target, slope)
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
                out[weights.size + k] += r * intercept_scaling
                if row_offset.size:
                    out[weights.size + n_outputs + k] += r * row_offset[a]
                step = r * row_scale[a]
                for j in range(n_columns):
                    out[k * stride + starts[j] + np.int64(codes[a, j])] += step
                for u in range(side):
                    part, at = step * cosines[i, u], k * stride + n_cells + u * side
                    for v in range(u // 2 * 2 + 2, side):
                        out[at + v] += part * cosines[i, v]


def _gather(rows, index, first, count, out):
    for i in range(count):
        row = np.uintp(index[first + i])
        for j in range(out[0].shape[1]):
            out[0][i, j] = rows[0][row, j]


@dataclass(frozen=True)
class CodedFamily:
    """A family of kernels, see `skdpdyn.kernels.passes`, for cells of one type of integers.

    Parameters
    ----------
    codes : str
        Name of the type of cells.
    several : bool
        Whether losses have several outputs.
    """

    codes: str
    several: bool

    @property
    def residual_type(self):
        """Type of the loss's derivative."""
        return residual_matrix_function if self.several else residual_function

    @property
    def chunk_gradients(self):
        """The kernel."""
        return _several_outputs if self.several else _one_output

    def rows_type(self, dtype):
        """Return the numba type of what `rows` returns."""
        tables = readonly(np.int64), readonly(np.float64, 2), types.int64
        return types.Tuple((readonly(self.codes, 2), *tables))

    def rows(self, X):
        """Return cells, each column's first one, and tables, as the kernel takes them."""
        expansion = X.expansion
        return X.codes, expansion.starts.astype(np.int64), expansion.low, expansion.n_products

    def precision(self, dtype):
        """Return the lowest precision of the weights: double."""
        return "float64"

    def gathered_dtype(self, dtype):
        """Return the dtype of targets and limits of the rows that `gather` copies."""
        return dtype

    def room_type(self, dtype):
        """Return the numba type of what `room` returns."""
        _, *tables = self.rows_type(dtype)
        return types.Tuple((writable(self.codes, 2), *tables))

    def room(self, rows, size):
        """Return room for some rows side by side."""
        codes, *tables = rows
        return np.empty((size, codes.shape[1]), codes.dtype), *tables

    @property
    def gather(self):
        """What copies rows there."""
        return _gather

    def rows_at_a_time(self, n_features):
        """Return how many rows of a batch are summed one after the other."""
        return MOST_GATHERED
