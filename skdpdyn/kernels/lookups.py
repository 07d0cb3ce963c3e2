"""Loops over rows of cells for predictions of additive models: numbers are looked up and added.

Nothing is reassociated nor contracted, and a row's sums are of its own cells alone, in one order:
`skdpdyn.data.lookups` repeats them by numpy to the bit.
"""

import numpy as np
from numba import types

from skdpdyn.kernels.jit import readonly, strict, writable
from skdpdyn.kernels.products import write_dots, write_lengths
from skdpdyn.kernels.ready import WIDE


def _write_codes(X, edges, missing, codes):
    """Write the cell of each number of 255 edges; return whether any is infinite."""
    n_rows = X.shape[0]
    infinite = False
    for start in range(0, n_rows, WIDE):
        stop = min(start + WIDE, n_rows)
        for j in range(X.shape[1]):
            for r in range(start, stop):
                number = X[r, j]
                place = np.uintp(0)
                for step in (128, 64, 32, 16, 8, 4, 2, 1):
                    is_above = edges[j, place + np.uintp(step - 1)] <= number
                    place += np.uintp(step) * np.uintp(is_above)
                infinite |= np.isinf(number)
                codes[j, r] = missing[j] if np.isnan(number) else place
    return infinite


def _add_looked_up(codes, starts, alone, pairs, of_pairs, sums):
    """Add numbers of tables, by the cell of each column, and by the cells of pairs of columns.

    Of one pair for all rows at a time: its table stays in the cache.
    """
    n_rows = codes.shape[1]
    for o in range(sums.shape[0]):
        for j in range(codes.shape[0]):
            first = np.uintp(starts[j])
            for r in range(n_rows):
                sums[o, r] += alone[o, first + np.uintp(codes[j, r])]
        for p in range(pairs.shape[0]):
            i = pairs[p, 0]
            j = pairs[p, 1]
            first = np.uintp(pairs[p, 2])
            stride = np.uintp(pairs[p, 3])
            for r in range(n_rows):
                place = first + np.uintp(codes[i, r]) * stride + np.uintp(codes[j, r])
                sums[o, r] += of_pairs[o, place]


@strict
def _write_factors(codes, start, starts, low, factors, of_rows):
    """Write the factors of products for a block of rows; the last row fills the rest."""
    last = codes.shape[1] - 1
    for u in range(factors.shape[0]):
        j = factors[u, 0]
        a = factors[u, 1]
        for k in range(WIDE):
            row = min(start + k, last)
            of_rows[u, k] = low[np.uintp(starts[j]) + np.uintp(codes[j, row]), a]


def _add_products(codes, starts, low, factors, sides, weights, centre, triangle, squares):
    """Add the squared length of products of two columns, less their centre, times a triangle."""
    n_rows = codes.shape[1]
    n_products = weights.size
    total = np.empty(WIDE)
    of_rows = np.empty((factors.shape[0], WIDE))
    v = np.empty(n_products * WIDE)
    for start in range(0, n_rows, WIDE):
        _write_factors(codes, start, starts, low, factors, of_rows)
        for p in range(n_products):
            one = sides[p, 0]
            other = sides[p, 1]
            for k in range(WIDE):
                number = of_rows[one, k] * of_rows[other, k] * weights[p]
                v[p * WIDE + k] = number - centre[p]
        write_lengths(v, triangle, False, total)
        for k in range(min(WIDE, n_rows - start)):
            squares[start + k] += total[k]


def _add_dots(codes, starts, low, factors, sides, weights, shift, sums):
    """Add weighted products of two columns for each output, less its shift."""
    n_rows = codes.shape[1]
    n_products = weights.shape[1]
    dots = np.empty(WIDE)
    of_rows = np.empty((factors.shape[0], WIDE))
    v = np.empty(n_products * WIDE)
    for start in range(0, n_rows, WIDE):
        _write_factors(codes, start, starts, low, factors, of_rows)
        for p in range(n_products):
            for k in range(WIDE):
                v[p * WIDE + k] = of_rows[sides[p, 0], k] * of_rows[sides[p, 1], k]
        for o in range(weights.shape[0]):
            write_dots(weights[o], v, dots)
            for k in range(min(WIDE, n_rows - start)):
                sums[o, start + k] += dots[k] - shift[o]


def _add_features(codes, firsts, ends, features, triangle, squares):
    """Add the squared length of features of all columns times a triangle.

    Those of a cell of column j are side by side in ``features``, from ``firsts[j]`` on, and in a
    row they end at ``ends[j]``.
    """
    n_rows = codes.shape[1]
    total = np.empty(WIDE)
    v = np.empty(triangle.shape[1] * WIDE)
    for start in range(0, n_rows, WIDE):
        to = 0
        for j in range(codes.shape[0]):
            width = ends[j] - to
            for k in range(WIDE):
                row = min(start + k, n_rows - 1)
                at = np.uintp(firsts[j]) + np.uintp(codes[j, row]) * np.uintp(width)
                for a in range(width):
                    v[(to + a) * WIDE + k] = features[at + np.uintp(a)]
            to = ends[j]
        write_lengths(v, triangle, False, total)
        for k in range(min(WIDE, n_rows - start)):
            squares[start + k] += total[k]


_codes = readonly(np.uint16, 2)
_numbers = readonly(np.float64)
_table = readonly(np.float64, 2)
_places = readonly(np.int64)
_pairs = readonly(np.int64, 2)
_sums = writable(np.float64)
_sums_of_outputs = writable(np.float64, 2)
_of_products = _codes, _places, _table, _pairs, _pairs

WITH_SIGNATURES = {
    "write_codes": (
        _write_codes,
        types.boolean(_table, _table, _places, writable(np.uint16, 2)),
    ),
    "add_looked_up": (
        _add_looked_up,
        types.void(_codes, _places, _table, _pairs, _table, _sums_of_outputs),
    ),
    "add_products": (
        _add_products,
        types.void(*_of_products, _numbers, _numbers, _table, _sums),
    ),
    "add_dots": (
        _add_dots,
        types.void(*_of_products, _table, _numbers, _sums_of_outputs),
    ),
    "add_features": (
        _add_features,
        types.void(_codes, _places, _places, _numbers, _table, _sums),
    ),
}
"""Loops that Python calls."""
