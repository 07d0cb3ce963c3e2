"""Compiled norms of dense rows and of mapped rows, and the factors that follow from them.

The bits of a row depend on nothing but the row: each is summed in whole vectors, in the same order
wherever it is. So rows that are read in order keep nothing in memory between two passes.
"""

from functools import cache

import numba
import numpy as np
from numba import types

from skdpdyn.kernels.jit import entry, readonly, writable
from skdpdyn.kernels.vectors import (
    filled,
    load,
    load_part,
    multiply_add,
    store,
    total,
)

_PIECE = 10**8  # products between two looks at interrupts: a tenth of a second

_f64, _i64, _flag = types.float64, types.int64, types.boolean
_vector, _output = readonly(np.float64), writable(np.float64)


def _divide(factor, lengths, offset, norm, shrink, error, exact, unit, zero):
    """Replace factors by scales and lengths by norms, as `RowMap.factors` returns them."""
    of_norm, added = (error, 0.0) if exact else (0.0, error)
    for i in range(factor.size):
        length = lengths[i]
        least = length if unit else norm
        divisor = (length if length > least else least) / shrink
        told = length / divisor
        told += of_norm * told + added
        scale = factor[i] / divisor
        if unit and length < zero:
            scale = told = 0.0
        factor[i] = scale
        lengths[i] = told if told < 1.0 else 1.0
        if offset.size:
            offset[i] = 1 / divisor


def _limit(norms, clip, scaling, largest):
    """Replace norms by limits of residuals: of a gradient of norm ``clip``, and the largest."""
    for i in range(norms.size):
        limit = clip / np.sqrt(norms[i] * norms[i] + scaling * scaling)
        norms[i] = limit if limit < largest else largest


@cache
def compiled_divide():
    """Compile `_divide`."""
    return entry(types.void(_output, _output, _output, *(_f64,) * 3, _flag, _flag, _f64))(_divide)


@cache
def compiled_limit():
    """Compile `_limit`."""
    return entry(types.void(_output, *(_f64,) * 3))(_limit)


if numba.config.DISABLE_JIT:

    def takes(X):
        """Return False: without a compiler, numpy is faster."""
        return False

else:  # compiled

    def takes(X):
        """Return whether these functions take the rows."""
        flags = getattr(X, "flags", None)
        return isinstance(X, np.ndarray) and flags.c_contiguous and flags.aligned

    def _squares(X, out):
        """Write the square of each row's norm."""
        n_features = X.shape[1]
        for i in range(X.shape[0]):
            squares = filled(0.0)
            for j in range(0, n_features, 8):
                row = load_part(X, i * n_features + j, n_features - j)
                squares = multiply_add(row, row, squares)
            out[i] = total(squares)

    def _lengths(X, radius, most, shift, weights, width, tile, factor, lengths):
        """Write the factor of each row and the norm of W (factor x + shift).

        ``weights`` is the transpose of W, its rows filled up with zeros to ``width``, or the
        diagonal; ``tile`` has room for four rows. Returns whether all squares are at most ``most``.
        """
        n_rows, n_features = X.shape
        diagonal, zero, within = weights.size == width, filled(0.0), True
        for start in range(0, n_rows, 256):
            stop = start + 256 if start + 256 < n_rows else n_rows
            for i in range(start, stop):
                squares = zero
                for j in range(0, n_features, 8):
                    row = load_part(X, i * n_features + j, n_features - j)
                    squares = multiply_add(row, row, squares)
                factor[i] = total(squares)
            of_block = factor[start:stop]  # whose indices the compiler knows not to be negative
            for i in range(of_block.size):
                within &= of_block[i] <= most
                norm = np.sqrt(of_block[i])
                of_block[i] = radius / (norm if norm > radius else radius)
            for first in range(start, stop, 4):
                size = stop - first if stop - first < 4 else 4
                for k in range(size):
                    i = first + k
                    f, squares = filled(factor[i]), zero
                    for j in range(0, n_features, 8):
                        row = load_part(X, i * n_features + j, n_features - j)
                        row = multiply_add(row, f, load(shift, j))
                        if diagonal:
                            row = multiply_add(row, load(weights, j), zero)
                            squares = multiply_add(row, row, squares)
                        else:
                            store(tile, k * width + j, row)
                    if diagonal:
                        lengths[i] = total(squares)
                if not diagonal:
                    a, b, c, d = zero, zero, zero, zero
                    for i in range(0, width, 8):
                        p, q, r, s = zero, zero, zero, zero
                        for j in range(n_features):
                            w, k = load(weights, j * width + i), np.uintp(j)
                            p = multiply_add(filled(tile[k]), w, p)
                            q = multiply_add(filled(tile[k + np.uintp(width)]), w, q)
                            r = multiply_add(filled(tile[k + np.uintp(2 * width)]), w, r)
                            s = multiply_add(filled(tile[k + np.uintp(3 * width)]), w, s)
                        a, b = multiply_add(p, p, a), multiply_add(q, q, b)
                        c, d = multiply_add(r, r, c), multiply_add(s, s, d)
                    lengths[first] = total(a)
                    if size > 1:
                        lengths[first + 1] = total(b)
                    if size > 2:
                        lengths[first + 2] = total(c)
                    if size > 3:
                        lengths[first + 3] = total(d)
            of_block = lengths[start:stop]
            for i in range(of_block.size):
                of_block[i] = np.sqrt(of_block[i])
        return within

    @cache
    def _compiled_squares(dtype):
        return entry(types.void(readonly(dtype, 2), _output))(_squares)

    @cache
    def _compiled_lengths(dtype):
        numbers = _f64, _f64, _vector, _vector, _i64, _output
        signature = types.boolean(readonly(dtype, 2), *numbers, _output, _output)
        return entry(signature)(_lengths)

    def _parts(n_rows, work):
        step = max(1, _PIECE // work)
        return (slice(first, first + step) for first in range(0, n_rows, step))

    def squared_norms(X):
        """Return the square of each row's norm."""
        squares, run = np.empty(len(X)), _compiled_squares(X.dtype.name)
        for part in _parts(*X.shape):
            run(X[part], squares[part])
        return squares

    def dense_lengths(X, radius, most, shift, weights):
        """Return the factor of each row into a ball, and the norm of W (factor x + shift).

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows, in C order.
        radius : float
            Radius of the ball.
        most : float
            Largest square of a norm that is allowed.
        shift : ndarray of shape (width,)
            Vector to add, padded with zeros to a multiple of eight.
        weights : ndarray of shape (n_features, width) or (width,)
            The transpose of W, filled up likewise, or its diagonal.

        Returns
        -------
        factor, lengths : ndarray of shape (n_samples,)
        within : bool
            Whether all squares are at most ``most``.
        """
        factor, lengths = np.empty(len(X)), np.empty(len(X))
        run, within, width = _compiled_lengths(X.dtype.name), True, shift.size
        of_map = shift, weights.ravel(), width, np.zeros(4 * width)
        for part in _parts(len(X), weights.size + X.shape[1]):
            within &= run(X[part], radius, most, *of_map, factor[part], lengths[part])
        return factor, lengths, within
