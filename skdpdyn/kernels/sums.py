"""Sums of many vectors that round about once, whatever their number.

What an addition rounds away is a double itself, which six operations find (Knuth): it is added up
beside the sum, and joins it at the end. The distance from the exact sum is at most 2 + c^2 eps
times eps/2 times the sum of the norms, c the number of vectors, see
`skdpdyn.support.chunks.in_order`. All sums of chunks are added up here, wherever their rows are.
"""

import math
from functools import cache

import numpy as np
from numba import types

from skdpdyn.kernels.jit import entry, readonly, strict, writable


@strict
def add(total, term):
    """Add a vector to ``total``, whose second row holds the rounded-off remainders."""
    for j in range(term.size):
        before = total[0, j]
        value = term[j]
        after = before + value
        added = after - before
        total[0, j] = after
        total[1, j] += (before - (after - added)) + (value - added)


def _add_rows(total, terms):
    for i in range(terms.shape[0]):
        add(total, terms[i, : total.shape[1]])


@cache
def _compiled():
    return entry((writable(np.float64, 2), readonly(np.float64, 2)))(_add_rows)


def _fingerprint(words):
    total = np.uint64(0)
    for i in range(words.size):
        total += np.uint64(words[i]) * (np.uint64(i) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1))
    return total


@cache
def _compiled_fingerprint(dtype):
    return entry(types.uint64(readonly(dtype)))(_fingerprint)


def fingerprint(numbers: np.ndarray) -> int:
    """Return a number that tells a C-ordered array of floats from others, faster than it is read.

    Each change of one number changes it, and nearly every other change: factors are odd, and differ
    by place.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.kernels.sums import fingerprint
    >>> fingerprint(np.array([1.0, 2.0])) - fingerprint(np.array([2.0, 1.0])) == 0
    False
    """
    words = numbers.reshape(-1).view(f"u{numbers.itemsize}")
    return int(_compiled_fingerprint(words.dtype.name)(words))


class Total:
    """A sum of arrays, which are added one after the other.

    Parameters
    ----------
    shape : tuple of int
        Shape of each array.

    Attributes
    ----------
    parts : ndarray of shape (2, n_numbers)
        Sums that compiled loops add to, see `add`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.kernels.sums import Total
    >>> total = Total((1,))
    >>> for number in (1e16, 1.0, -1e16):
    ...     total.add_rows(np.array([[number]]))
    >>> total.value()
    array([1.])
    """

    def __init__(self, shape):
        self._shape = shape
        self.parts = np.zeros((2, math.prod(shape)))

    def add_rows(self, rows):
        """Add the rows of a C-ordered array; columns beyond those of the sum are ignored."""
        _compiled()(self.parts, rows)

    def value(self):
        """Return the sum of all arrays so far."""
        return (self.parts[0] + self.parts[1]).reshape(self._shape)
