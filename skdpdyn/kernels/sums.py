"""Sums of many vectors that round about once, whatever their number.

What an addition rounds away is a double itself, which six operations find (Knuth): it is added up
beside the sum, and joins it at the end. The distance from the exact sum is at most 2 + c^2 eps
times eps/2 times the sum of the norms, c the number of vectors, see
`skdpdyn.support.chunks.in_order`. All sums of chunks are added up here, wherever their rows are.
"""

import math
from functools import cache

import numpy as np

from skdpdyn.kernels.later import entry, is_compiled, readonly, strict, types, writable


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


_MULTIPLIER = 0x9E3779B97F4A7C15
_EXPONENTS = {4: 0x7F800000, 8: 0x7FF0000000000000}  # their bits are 1 where a float is no number


def _read_by_numpy(words, exponent):
    """Return the fingerprint of words, and how many of them have all bits of an exponent."""
    numbers = words.astype(np.uint64)
    factors = np.arange(words.size, dtype=np.uint64) * np.uint64(_MULTIPLIER)
    factors ^= factors >> np.uint64(32)
    mixed = numbers ^ numbers >> np.uint64(32)
    n_infinite = np.count_nonzero(numbers & np.uint64(exponent) == np.uint64(exponent))
    return int(np.sum(mixed * (factors | np.uint64(1)))), n_infinite


def _read_through(words, exponent):
    """Return the same, in compiled code."""
    total = np.uint64(0)
    n_infinite = 0
    for i in range(words.size):
        word = np.uint64(words[i])
        n_infinite += word & exponent == exponent
        # few bits of a word differ where numbers are few, such as 0 and 1: the upper ones
        word ^= word >> np.uint64(32)
        factor = np.uint64(i) * np.uint64(_MULTIPLIER)
        # no multiple of its place: sums of places are the same in many orders
        factor ^= factor >> np.uint64(32)
        total += word * (factor | np.uint64(1))
    return total, n_infinite


@cache
def _compiled_read_through(dtype):
    if not is_compiled():
        return _read_by_numpy
    result = types.Tuple((types.uint64, types.int64))
    return entry(result(readonly(dtype), types.uint64))(_read_through)


def _words(array):
    """Return the bytes of an array as numbers of four or eight bytes, a copy of those of others."""
    array = np.ascontiguousarray(array)
    if array.dtype.alignment in _EXPONENTS:
        return array.reshape(-1).view(f"u{array.dtype.alignment}")
    data = array.tobytes()
    return np.frombuffer(data + bytes(-len(data) % 8), np.uint64)


def fingerprint(array: np.ndarray) -> int:
    """Return a number that tells an array of any numbers or text from others.

    Each change of one number changes it, and nearly every other change: factors are odd, and differ
    by place.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.kernels.sums import fingerprint
    >>> fingerprint(np.array([1.0, 2.0])) - fingerprint(np.array([2.0, 1.0])) == 0
    False
    """
    words = _words(array)
    return int(_compiled_read_through(words.dtype.name)(words, 0)[0])


def finite_fingerprint(floats: np.ndarray) -> int | None:
    """Return the `fingerprint` of floats, None where some are not finite, faster than their sum."""
    words = _words(floats)
    found, n_infinite = _compiled_read_through(words.dtype.name)(words, _EXPONENTS[words.itemsize])
    return None if n_infinite else int(found)


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
