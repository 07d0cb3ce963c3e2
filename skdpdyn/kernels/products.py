"""The pass over dense rows that predictions of linear models make: X is read once.

The value of a row is computed from the numbers of that row alone, each product and each sum of two
rounded as IEEE 754 says, in the order of the columns: the bits are the same wherever the row
stands, whatever stands beside it, and by whatever compiler or processor. `skdpdyn.data.products`
repeats them by numpy.

Some rows at a time are turned, so that one number of each of them is in one vector.
"""

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from skdpdyn.kernels.jit import readonly, strict, writable
from skdpdyn.kernels.ready import WIDE
from skdpdyn.kernels.vectors import clamp, filled, load, store, total

_number = types.float64
_vector = readonly(np.float64)
_matrix = readonly(np.float64, 2)
_room = writable(np.float64)

if numba.config.DISABLE_JIT:

    def multiply_then_add(a, b, c):
        """Return ``a * b + c``, element by element, each product and each sum rounded."""
        return a * b + c

else:  # compiled

    @intrinsic
    def multiply_then_add(typing_context, a, b, c):
        """Return ``a * b + c``, element by element, each product and each sum rounded."""

        def codegen(context, builder, signature, args):
            a, b, c = args
            return builder.fadd(builder.fmul(a, b), c)

        return c(a, b, c), codegen


@strict
def _turn(X, start, v):
    """Write a block of rows, a column of X after the other; the last row fills the rest."""
    last = X.shape[0] - 1
    for k in range(0, WIDE, 4):  # four rows share what is written
        first = min(start + k, last)
        second = min(start + k + 1, last)
        third = min(start + k + 2, last)
        fourth = min(start + k + 3, last)
        for p in range(X.shape[1]):
            at = p * WIDE + k
            v[at] = X[first, p]
            v[at + 1] = X[second, p]
            v[at + 2] = X[third, p]
            v[at + 3] = X[fourth, p]


@strict
def _are_finite(v, n_columns):
    """Return whether all numbers are finite: 0 times others is NaN."""
    zero = filled(0.0)
    a = zero
    b = zero
    for at in range(0, n_columns * WIDE, WIDE):
        a = multiply_then_add(load(v, at), zero, a)
        b = multiply_then_add(load(v, at + 8), zero, b)
    return total(multiply_then_add(a, filled(1.0), b)) == 0.0


@strict
def _into_ranges(v, middle, factor):
    """Bring each column from its range to [-1, 1]; values beyond count as the nearer end."""
    one = filled(1.0)
    nothing = filled(-0.0)
    for p in range(middle.size):
        less = filled(-middle[p])
        times = filled(factor[p])
        for at in (p * WIDE, p * WIDE + 8):
            number = multiply_then_add(load(v, at), one, less)
            store(v, at, clamp(multiply_then_add(number, times, nothing), one))


@strict
def write_dots(left, right, out):
    """Write the products of a row of numbers with a block of rows."""
    a = filled(0.0)
    b = filled(0.0)
    for p in range(left.size):
        number = filled(left[p])
        a = multiply_then_add(number, load(right, p * WIDE), a)
        b = multiply_then_add(number, load(right, p * WIDE + 8), b)
    store(out, 0, a)
    store(out, 8, b)


@strict
def _write_squares(v, n_columns, squares):
    """Write the squared length of each row."""
    a = filled(0.0)
    b = filled(0.0)
    for at in range(0, n_columns * WIDE, WIDE):
        a = multiply_then_add(load(v, at), load(v, at), a)
        b = multiply_then_add(load(v, at + 8), load(v, at + 8), b)
    store(squares, 0, a)
    store(squares, 8, b)


@strict
def write_lengths(w, matrix, full, squares):
    """Write the squared length of each row times a matrix, an upper triangle unless ``full``.

    Two rows of the matrix at a time share what is loaded.
    """
    d = matrix.shape[1]
    zero = filled(0.0)
    s = zero
    t = zero
    for q in range(0, matrix.shape[0], 2):
        a = zero
        b = zero
        c = zero
        e = zero
        for p in range(0 if full else q, d):
            first = filled(matrix[q, p])
            second = filled(matrix[q + 1, p])
            at = p * WIDE
            a = multiply_then_add(first, load(w, at), a)
            b = multiply_then_add(first, load(w, at + 8), b)
            c = multiply_then_add(second, load(w, at), c)
            e = multiply_then_add(second, load(w, at + 8), e)
        s = multiply_then_add(c, c, multiply_then_add(a, a, s))
        t = multiply_then_add(e, e, multiply_then_add(b, b, t))
    store(squares, 0, s)
    store(squares, 8, t)


@strict
def _shorten(v, n_columns, k):
    """Divide a row that is too long to be squared by its largest number; return its square."""
    largest = 0.0
    for at in range(k, n_columns * WIDE, WIDE):
        size = abs(v[at])
        largest = size if size > largest else largest
    square = 0.0
    for at in range(k, n_columns * WIDE, WIDE):
        v[at] /= largest
        square += v[at] * v[at]
    return square


@strict
def _bring_into_ball(v, n_columns, radius, scale):
    """Write the factor of each row that brings it into a ball."""
    _write_squares(v, n_columns, scale)
    some_are_long = False
    for k in range(scale.size):  # a loop of a known number of rounds would use no vectors
        some_are_long |= scale[k] == np.inf
    if some_are_long:
        for k in range(WIDE):
            square = scale[k]
            if square == np.inf:  # beyond any ball, however short it is divided
                scale[k] = radius / np.sqrt(_shorten(v, n_columns, k))
            else:
                length = np.sqrt(square)
                scale[k] = radius / (length if length > radius else radius)
    else:
        for k in range(scale.size):
            length = np.sqrt(scale[k])
            scale[k] = radius / (length if length > radius else radius)


@strict
def _divide(v, centre, matrix, ball, scale, lost, w):
    """Multiply factors by those of a map; write how much of its shift rows lose, and use ``w``."""
    _radius, norm, shrink, unit, full = ball
    for p in range(centre.size):
        less = filled(-centre[p])
        for at in (0, 8):
            there = p * WIDE + at
            store(w, there, multiply_then_add(load(scale, at), load(v, there), less))
    if matrix.shape[0] == 1:  # a diagonal
        nothing = filled(-0.0)
        for p in range(centre.size):
            times = filled(matrix[0, p])
            for at in (p * WIDE, p * WIDE + 8):
                store(w, at, multiply_then_add(load(w, at), times, nothing))
        _write_squares(w, centre.size, lost)
    else:
        write_lengths(w, matrix, full > 0.0, lost)
    for k in range(lost.size):
        length = np.sqrt(lost[k])
        least = length if unit > 0.0 else norm
        kept = shrink * norm / (length if length > least else least)
        kept = kept if length >= unit else 0.0
        scale[k] *= kept
        lost[k] = kept - 1.0


def _predict(X, middle, factor, centre, matrix, ball, coef, shift, constant, room, out):
    """Write raw predictions; return whether all numbers of X are finite."""
    n_columns = X.shape[1]
    size = n_columns * WIDE
    v = room[:size]
    w = room[size : 2 * size]
    dots = room[2 * size : 2 * size + WIDE]
    scale = room[2 * size + WIDE : 2 * size + 2 * WIDE]
    lost = room[2 * size + 2 * WIDE : 2 * size + 3 * WIDE]
    finite = True
    for start in range(0, X.shape[0], WIDE):
        _turn(X, start, v)
        finite &= _are_finite(v, n_columns)
        _into_ranges(v, middle, factor)
        for k in range(WIDE):
            scale[k] = 1.0
        if ball[0] < np.inf:
            _bring_into_ball(v, n_columns, ball[0], scale)
        if centre.size:
            _divide(v, centre, matrix, ball, scale, lost, w)
        n_rows = min(WIDE, X.shape[0] - start)
        for o in range(coef.shape[0]):
            write_dots(coef[o], v, dots)
            for k in range(n_rows):
                raw = dots[k] * scale[k]
                if centre.size:
                    raw += lost[k] * shift[o]
                out[start + k, o] = raw + constant[o]
    return finite


def _signature(dtype):
    of_map = _vector, _vector, _vector, _matrix, types.UniTuple(_number, 5)
    to = _room, writable(np.float64, 2)
    return types.boolean(readonly(dtype, 2), *of_map, _matrix, _vector, _vector, *to)


WITH_SIGNATURES = {dtype: (_predict, _signature(dtype)) for dtype in ("float64", "float32")}
"""The pass over rows by their precision."""
