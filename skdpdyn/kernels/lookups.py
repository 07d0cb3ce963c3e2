"""Loops over rows of cells for predictions of additive models: numbers are looked up and added.

Nothing is reassociated nor contracted, and a row's sums are of its own cells alone, in one order:
`skdpdyn.data.lookups` repeats them by numpy to the bit.
"""

import numpy as np
from numba import types

from skdpdyn.kernels.jit import WhenReady, readonly, writable
from skdpdyn.kernels.vectors import filled, load, multiply_then_add, store

WIDE = 32  # rows whose products are multiplied at a time


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


def _add_products(codes, starts, low, factors, sides, weights, centre, triangle, squares):
    """Add the squared length of products of two columns, less their centre, times a triangle."""
    n_rows = codes.shape[1]
    n_products = weights.size
    n_factors = factors.shape[0]
    total = np.empty(WIDE)
    of_rows = np.empty((n_factors, WIDE))
    v = np.empty((n_products, WIDE))
    for start in range(0, n_rows, WIDE):
        for u in range(n_factors):
            j = factors[u, 0]
            a = factors[u, 1]
            for k in range(WIDE):
                row = min(start + k, n_rows - 1)
                of_rows[u, k] = low[np.uintp(starts[j]) + np.uintp(codes[j, row]), a]
        for p in range(n_products):
            one = sides[p, 0]
            other = sides[p, 1]
            for k in range(WIDE):
                v[p, k] = of_rows[one, k] * of_rows[other, k] * weights[p] - centre[p]
        e = filled(0.0)
        f = filled(0.0)
        g = filled(0.0)
        h = filled(0.0)
        for q in range(n_products):
            a = filled(0.0)
            b = filled(0.0)
            c = filled(0.0)
            d = filled(0.0)
            for p in range(q, n_products):
                of = filled(triangle[q, p])
                at = p * WIDE
                a = multiply_then_add(of, load(v, at), a)
                b = multiply_then_add(of, load(v, at + 8), b)
                c = multiply_then_add(of, load(v, at + 16), c)
                d = multiply_then_add(of, load(v, at + 24), d)
            e = multiply_then_add(a, a, e)
            f = multiply_then_add(b, b, f)
            g = multiply_then_add(c, c, g)
            h = multiply_then_add(d, d, h)
        store(total, 0, e)
        store(total, 8, f)
        store(total, 16, g)
        store(total, 24, h)
        for k in range(min(WIDE, n_rows - start)):
            squares[start + k] += total[k]


_codes = readonly(np.uint16, 2)
_numbers = readonly(np.float64)
_table = readonly(np.float64, 2)
_places = readonly(np.int64)
_pairs = readonly(np.int64, 2)
write_codes = WhenReady(
    _write_codes,
    types.boolean(_table, _table, _places, writable(np.uint16, 2)),
)
add_looked_up = WhenReady(
    _add_looked_up,
    types.void(_codes, _places, _table, _pairs, _table, writable(np.float64, 2)),
)
add_products = WhenReady(
    _add_products,
    types.void(
        *(_codes, _places, _table, _pairs, _pairs, _numbers, _numbers, _table),
        writable(np.float64),
    ),
)
