"""The pass over dense rows that predictions of linear models make: X is read once.

The value of a row is computed from the numbers of that row alone, each product and each sum of two
rounded as IEEE 754 says, in the order of the columns: the bits are the same wherever the row
stands, whatever stands beside it, and by whatever compiler or processor. `skdpdyn.data.products`
repeats them by numpy.

Some rows at a time are turned, so that one number of each of them is in one vector.
"""

import numpy as np
from numba import types

from skdpdyn.kernels.jit import readonly, strict, writable
from skdpdyn.kernels.ready import WIDE
from skdpdyn.kernels.vectors import filled, load, multiply_then_add, store, total

_number = types.float64
_vector = readonly(np.float64)
_matrix = readonly(np.float64, 2)
_room = writable(np.float64)


@strict
def _turn(X, start, v):
    """Write a block of rows, a column of X after the other; the last row fills the rest."""
    last = X.shape[0] - 1 - start
    for k in range(WIDE):
        row = start + (k if k < last else last)
        for p in range(X.shape[1]):
            v[p * WIDE + k] = X[row, p]


@strict
def _are_finite(v, n_columns):
    """Return whether all numbers are finite: 0 times others is NaN."""
    zero = filled(0.0)
    a = zero
    b = zero
    c = zero
    d = zero
    for at in range(0, n_columns * WIDE, WIDE):
        a = multiply_then_add(load(v, at), zero, a)
        b = multiply_then_add(load(v, at + 8), zero, b)
        c = multiply_then_add(load(v, at + 16), zero, c)
        d = multiply_then_add(load(v, at + 24), zero, d)
    ones = filled(1.0)
    a = multiply_then_add(a, ones, b)
    c = multiply_then_add(c, ones, d)
    return total(multiply_then_add(a, ones, c)) == 0.0


@strict
def _into_ranges(v, middle, factor):
    """Bring each column from its range to [-1, 1]; values beyond count as the nearer end."""
    for p in range(middle.size):
        for k in range(p * WIDE, (p + 1) * WIDE):
            number = (v[k] - middle[p]) * factor[p]
            number = number if number > -1.0 else -1.0
            v[k] = number if number < 1.0 else 1.0


@strict
def write_dots(left, right, out):
    """Write the products of a row of numbers with a block of rows."""
    a = filled(0.0)
    b = filled(0.0)
    c = filled(0.0)
    d = filled(0.0)
    for p in range(left.size):
        number = filled(left[p])
        there = p * WIDE
        a = multiply_then_add(number, load(right, there), a)
        b = multiply_then_add(number, load(right, there + 8), b)
        c = multiply_then_add(number, load(right, there + 16), c)
        d = multiply_then_add(number, load(right, there + 24), d)
    store(out, 0, a)
    store(out, 8, b)
    store(out, 16, c)
    store(out, 24, d)


@strict
def _write_squares(v, n_columns, squares):
    """Write the squared length of each row."""
    a = filled(0.0)
    b = filled(0.0)
    c = filled(0.0)
    d = filled(0.0)
    for at in range(0, n_columns * WIDE, WIDE):
        a = multiply_then_add(load(v, at), load(v, at), a)
        b = multiply_then_add(load(v, at + 8), load(v, at + 8), b)
        c = multiply_then_add(load(v, at + 16), load(v, at + 16), c)
        d = multiply_then_add(load(v, at + 24), load(v, at + 24), d)
    store(squares, 0, a)
    store(squares, 8, b)
    store(squares, 16, c)
    store(squares, 24, d)


@strict
def write_lengths(w, matrix, full, squares):
    """Write the squared length of each row times a matrix, an upper triangle unless ``full``.

    Two rows of the matrix at a time share what is loaded.
    """
    d = matrix.shape[1]
    zero = filled(0.0)
    s = zero
    t = zero
    u = zero
    x = zero
    for q in range(0, matrix.shape[0], 2):
        a = zero
        b = zero
        c = zero
        e = zero
        f = zero
        g = zero
        h = zero
        i = zero
        for p in range(0 if full else q, d):
            first = filled(matrix[q, p])
            second = filled(matrix[q + 1, p])
            at = p * WIDE
            a = multiply_then_add(first, load(w, at), a)
            b = multiply_then_add(first, load(w, at + 8), b)
            c = multiply_then_add(first, load(w, at + 16), c)
            e = multiply_then_add(first, load(w, at + 24), e)
            f = multiply_then_add(second, load(w, at), f)
            g = multiply_then_add(second, load(w, at + 8), g)
            h = multiply_then_add(second, load(w, at + 16), h)
            i = multiply_then_add(second, load(w, at + 24), i)
        s = multiply_then_add(f, f, multiply_then_add(a, a, s))
        t = multiply_then_add(g, g, multiply_then_add(b, b, t))
        u = multiply_then_add(h, h, multiply_then_add(c, c, u))
        x = multiply_then_add(i, i, multiply_then_add(e, e, x))
    store(squares, 0, s)
    store(squares, 8, t)
    store(squares, 16, u)
    store(squares, 24, x)


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
    for k in range(WIDE):
        square = scale[k]
        least = radius
        if square == np.inf:
            square = _shorten(v, n_columns, k)
            least = 0.0  # beyond any ball, however short it is now
        length = np.sqrt(square)
        scale[k] = radius / (length if length > least else least)


@strict
def _divide(v, centre, matrix, ball, scale, lost, w):
    """Multiply factors by those of a map; write how much of its shift rows lose, and use ``w``."""
    _radius, norm, shrink, unit, full = ball
    for p in range(centre.size):
        for k in range(WIDE):
            w[p * WIDE + k] = scale[k] * v[p * WIDE + k] - centre[p]
    if matrix.shape[0] == 1:  # a diagonal
        for p in range(centre.size):
            for k in range(p * WIDE, (p + 1) * WIDE):
                w[k] *= matrix[0, p]
        _write_squares(w, centre.size, lost)
    else:
        write_lengths(w, matrix, full > 0.0, lost)
    for k in range(WIDE):
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
