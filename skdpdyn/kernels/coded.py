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
from skdpdyn.kernels.jit import (
    inner,
    readonly,
    residual_function,
    residual_matrix_function,
    writable,
)

_BLOCK = 64  # rows; a multiple of 8, the width of the loss
_EPS = 2.3e-16


@inner
def _look_up(codes, starts, low, first, size, cosines):
    """Write the two low cosines of each column of some rows, a row of ``cosines`` each."""
    for i in range(size):
        a = np.uintp(first + i)
        for j in range(codes.shape[1]):
            cell = np.uintp(starts[j]) + np.uintp(codes[a, j])
            cosines[2 * j, i], cosines[2 * j + 1, i] = low[cell, 0], low[cell, 1]


@inner
def _say_pairs(cosines, pairs, weights, raw):
    """Add what the products of pairs of columns say of the rows of a block."""
    for p in range(len(pairs)):
        i, j, w = 2 * pairs[p, 0], 2 * pairs[p, 1], weights[3 * p : 3 * p + 3]
        one, two, of_one, of_two = cosines[i], cosines[i + 1], cosines[j], cosines[j + 1]
        for r in range(_BLOCK):
            raw[r] += one[r] * (w[0] * of_one[r] + w[1] * of_two[r]) + w[2] * two[r] * of_one[r]


@inner
def _add_pairs(cosines, pairs, step, out):
    """Add the steps of a block, times the products of pairs of columns."""
    for p in range(len(pairs)):
        i, j, first, second, third = 2 * pairs[p, 0], 2 * pairs[p, 1], 0.0, 0.0, 0.0
        one, two, of_one, of_two = cosines[i], cosines[i + 1], cosines[j], cosines[j + 1]
        for r in range(_BLOCK):
            moved = step[r] * one[r]
            first += moved * of_one[r]
            second += moved * of_two[r]
            third += step[r] * two[r] * of_one[r]
        out[3 * p] += first
        out[3 * p + 1] += second
        out[3 * p + 2] += third


def _one_output(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """Write the clipped loss gradients of rows start..stop, summed, into ``out``.

    By cell, then by product of cosines, then the intercept's, then the sum of residual * offset.
    """
    codes, starts, low, pairs = X
    n_columns, n_cells = codes.shape[1], starts[-1]
    raw, slope, target = np.zeros(_BLOCK), np.zeros(_BLOCK), np.zeros(_BLOCK)
    cosines = np.zeros((2 * n_columns, _BLOCK))
    intercept_sum, offset_sum = 0.0, 0.0
    out[:] = 0
    for first in range(start, stop, _BLOCK):
        size = stop - first if stop - first < _BLOCK else _BLOCK
        for i in range(size):
            a = np.uintp(first + i)
            dot = 0.0
            for j in range(n_columns):
                dot += weights[np.uintp(starts[j]) + np.uintp(codes[a, j])]
            raw[i] = dot
            target[i] = y[a]
        if len(pairs):
            _look_up(codes, starts, low, first, size, cosines)
            _say_pairs(cosines, pairs, weights[n_cells:], raw)
        for i in range(size):
            a = np.uintp(first + i)
            raw[i] = row_scale[a] * raw[i] + intercept[0]
            if row_offset.size:
                raw[i] += row_offset[a] * shift[0]
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
            slope[i] = r * row_scale[a]
            for j in range(n_columns):
                out[np.uintp(starts[j]) + np.uintp(codes[a, j])] += slope[i]
        if len(pairs):
            slope[size:] = 0.0
            _add_pairs(cosines, pairs, slope, out[n_cells:])
    out[weights.size] = intercept_sum * intercept_scaling
    out[weights.size + 1] = offset_sum


def _several_outputs(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """Write the gradients of rows start..stop, as `_one_output` does, output by output."""
    codes, starts, low, pairs = X
    n_columns, n_outputs, n_cells = codes.shape[1], intercept.size, starts[-1]
    stride = weights.size // n_outputs
    raw, slope = np.zeros((n_outputs, _BLOCK)), np.zeros((n_outputs, _BLOCK))
    target, cosines = np.zeros(_BLOCK), np.zeros((2 * n_columns, _BLOCK))
    within = 1 - (n_outputs + 8) * _EPS  # the rounding of a norm and of what is scaled by it
    out[:] = 0
    for first in range(start, stop, _BLOCK):
        size = stop - first if stop - first < _BLOCK else _BLOCK
        for i in range(size):
            a = np.uintp(first + i)
            target[i] = y[a]
            for k in range(n_outputs):
                dot = 0.0
                for j in range(n_columns):
                    dot += weights[k * stride + starts[j] + np.int64(codes[a, j])]
                raw[k, i] = dot
        if len(pairs):
            _look_up(codes, starts, low, first, size, cosines)
        for k in range(n_outputs):
            if len(pairs):
                _say_pairs(cosines, pairs, weights[k * stride + n_cells :], raw[k])
            for i in range(size):
                a = np.uintp(first + i)
                raw[k, i] = row_scale[a] * raw[k, i] + intercept[k]
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
                slope[k, i] = r * row_scale[a]
                for j in range(n_columns):
                    out[k * stride + starts[j] + np.int64(codes[a, j])] += slope[k, i]
        if len(pairs):
            for k in range(n_outputs):
                slope[k, size:] = 0.0
                _add_pairs(cosines, pairs, slope[k], out[k * stride + n_cells :])


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
        tables = readonly(np.int64), readonly(np.float64, 2), readonly(np.int64, 2)
        return types.Tuple((readonly(self.codes, 2), *tables))

    def rows(self, X):
        """Return cells, each column's first one, and tables, as the kernel takes them."""
        expansion = X.expansion
        pairs = np.array(expansion.pairs, dtype=np.int64).reshape(-1, 2)
        return X.codes, expansion.starts.astype(np.int64), expansion.low, pairs

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
        """Return what copies rows there."""
        return _gather

    def rows_at_a_time(self, n_features):
        """Return how many rows of a batch are summed one after the other."""
        return MOST_GATHERED
