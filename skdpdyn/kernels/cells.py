"""Loops over rows of cells in public tables: the lookups and sums of additive models.

A row's numbers depend on its own cells alone, in an order that depends on nothing.
"""

from collections.abc import Callable
from functools import cache, wraps

import numpy as np

from skdpdyn.kernels.later import entry, inner, readonly, types, writable


def _kinds():
    """Return the types of the arguments after cells, by name."""
    return {
        "whole": types.int64,
        "numbers": readonly(np.float64),
        "places": readonly(np.int64),
        "table": readonly(np.float64, 2),
        "pairs": readonly(np.int64, 2),
        "sums": writable(np.float64),
        "sums_of_rows": writable(np.float64, 2),
    }


def _of_codes(names: str) -> Callable:
    """Decorate a loop over rows of cells: it is compiled for their type when it is first used."""

    def decorate(loop):
        @cache
        def compiled(codes):
            kinds = _kinds()
            others = [kinds[name] for name in names.split()]
            return entry(types.void(readonly(codes, 2), *others))(loop)

        @wraps(loop)
        def run(codes, *others):
            compiled(codes.dtype.name)(codes, *others)

        return run

    return decorate


@inner
def _write_low(codes, r, starts, low, low_starts, out):
    """Write the numbers of each cell of a row that products multiply."""
    for j in range(codes.shape[1]):
        cell = np.uintp(starts[j]) + np.uintp(codes[r, j])
        first = low_starts[j]
        for k in range(low_starts[j + 1] - first):
            out[first + k] = low[cell, k]


@_of_codes("places table places pairs numbers sums_of_rows")
def write_products(codes, starts, low, low_starts, places, weights, out):
    """Write the products of low cosines, or levels, of each row, times a weight of each product."""
    of_row = np.empty(low_starts[-1])
    for r in range(codes.shape[0]):
        _write_low(codes, r, starts, low, low_starts, of_row)
        for p in range(weights.size):
            first = np.uintp(places[0, p])
            second = np.uintp(places[1, p])
            out[r, p] = of_row[first] * of_row[second] * weights[p]


@_of_codes("places table places pairs places numbers numbers numbers sums_of_rows")
def write_terms(codes, starts, low, low_starts, places, ends, weights, centre, factor, out):
    """Write the contribution of each column and pair, less the centre's, times its factor."""
    n_columns = codes.shape[1]
    of_row = np.empty(low_starts[-1])
    for r in range(codes.shape[0]):
        _write_low(codes, r, starts, low, low_starts, of_row)
        for j in range(n_columns):
            cell = np.uintp(starts[j]) + np.uintp(codes[r, j])
            out[r, j] = (weights[cell] - centre[j]) * factor[r]
        for k in range(ends.size - 1):
            dot = 0.0
            for p in range(ends[k], ends[k + 1]):
                first = np.uintp(places[0, p])
                second = np.uintp(places[1, p])
                dot += weights[starts[n_columns] + p] * of_row[first] * of_row[second]
            out[r, n_columns + k] = (dot - centre[n_columns + k]) * factor[r]


@_of_codes("whole whole whole numbers sums")
def add_cells(codes, i, j, stride, table, out):
    """Add to each row the number in a table for its cells in two columns."""
    for r in range(codes.shape[0]):
        out[r] += table[np.uintp(codes[r, i]) * np.uintp(stride) + np.uintp(codes[r, j])]


@_of_codes("whole whole whole numbers sums")
def count_cells(codes, i, j, stride, weight, out):
    """Add the weights of rows in each pair of cells of two columns."""
    for r in range(codes.shape[0]):
        out[np.uintp(codes[r, i]) * np.uintp(stride) + np.uintp(codes[r, j])] += weight[r]
