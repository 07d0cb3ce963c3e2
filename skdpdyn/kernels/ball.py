"""Projection onto a ball whose rounding does not grow with the number of parameters.

Bounds on rounding cover every step. So the norm is summed in twice the precision, by the error-free
transformations of Dekker (1971) and Knuth, wherever its rounding could matter.
"""

from functools import cache

import numpy as np

from skdpdyn.kernels.later import entry, inner, strict, types, writable

_CLEARLY_INSIDE = 1 - 1e-6  # times the squared radius: rounding cannot matter below it
_SPLITTER = 2.0**27 + 1

PROJECTION_ERROR = 1.75
"""Bound on the distance of a computed projection from the exact one, over eps times the radius.

The square root halves the relative error of the sum, eps/2; the root, the quotient and the product
add eps/2 each.
"""


@inner
def _about_square_norm(theta):
    total = 0.0
    for j in range(theta.size):
        total += theta[j] * theta[j]
    return total


@strict
def _square_norm(theta):
    """Return the sum of squares, rounded once."""
    total = lost = 0.0
    for j in range(theta.size):
        t = theta[j]
        c = _SPLITTER * t
        high = c - (c - t)
        low = t - high
        square = t * t
        lost += ((high * high - square) + 2 * high * low) + low * low
        before = total
        total = before + square
        added = total - before
        lost += (before - (total - added)) + (square - added)
    return total + lost


def _project(theta, radius):
    square = _about_square_norm(theta)
    if square <= radius * radius * _CLEARLY_INSIDE:
        return
    if square < 1e280:  # products of larger numbers cannot be split
        square = _square_norm(theta)
    if not square <= radius * radius:
        shrink = radius / np.sqrt(square)
        for j in range(theta.size):
            theta[j] *= shrink


@cache
def _compiled():
    return entry(types.void(writable(np.float64), types.float64), fastmath=False)(_project)


def project(theta, radius):
    """Project a vector onto the ball of this radius around 0, in place."""
    _compiled()(theta, radius)
