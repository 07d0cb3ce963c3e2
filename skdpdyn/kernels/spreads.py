"""Sums of independent discrete numbers on a grid, at the points around each."""

from functools import cache

import numpy as np
from numba import types

from skdpdyn.kernels.jit import entry, readonly, writable


def _add(grid, ones, weights, others, other_weights, same, out, excess):
    inverse = 1 / np.diff(grid)
    last, start = grid.size - 1, 0
    for i in range(ones.size):
        k = start
        for j in range(i if same else 0, others.size):
            total, weight = ones[i] + others[j], weights[i] * other_weights[j]
            if same and j > i:
                weight *= 2
            if total >= grid[last]:
                out[last] += weight
                excess[0] += weight * (total - grid[last])
            elif total <= grid[0]:
                out[0] += weight
            else:
                while grid[k + 1] <= total:
                    k += 1
                if j == (i if same else 0):
                    start = k
                weight *= inverse[k]
                out[k] += weight * (grid[k + 1] - total)
                out[k + 1] += weight * (total - grid[k])


@cache
def _compiled():
    vector = readonly(np.float64)
    results = writable(np.float64), writable(np.float64)
    return entry(types.void(vector, vector, vector, vector, vector, types.boolean, *results))(_add)


def spread_sum(
    grid: np.ndarray, one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, float]:
    """Return the weights of X + Y on a grid, and the mean of what X + Y exceeds its end by.

    A sum between two points is put at both, with its mean; one below the grid at its first point;
    one beyond at its last.

    Parameters
    ----------
    grid : ndarray of shape (n_points,)
        Points that grow.
    one, other : (ndarray, ndarray)
        Points that grow, and their weights, of X and of Y.

    Returns
    -------
    weights : ndarray of shape (n_points,)
    excess : float
    """
    weights, excess = np.zeros(grid.size), np.zeros(1)
    _compiled()(grid, *one, *other, one is other, weights, excess)
    return weights, float(excess[0])
