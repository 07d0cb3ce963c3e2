"""Standard normals for the steps of a fit, each within a known distance of an ideal one.

A normal of an earlier step need not be exact: the noise of later steps hides a small shift of the
parameters, and the guarantee has room for shifts of a known size. Every computed normal is coupled
to an ideal one: both are quantiles of the same real uniform number, of which the computed one uses
the leading digits. The two are never further apart than NORMAL_ERROR.
numpy's ziggurat has no such bound in its tail.
"""

import math
from functools import cache

import numpy as np

from skdpdyn.kernels.later import entry, generator_type, inner, types, writable

NORMAL_ERROR = 2e-13
"""Largest distance of a computed normal from the ideal one it is coupled to, if within 35 of 0.

With u = 2^-53 for one rounding and x for the normal, the parts of it are

- the digits of the uniform number U that were not drawn: at most 2^-53 where U = P(abs(N) > x) is
  above 1/32, at most 2^-48 U elsewhere. The normal moves by that over 2 phi(x), phi its density:
  below 2e-15;
- rounding of U where more than 52 digits were drawn: 3u U, for the normal below 3u;
- the approximation itself, Wichura's, in real arithmetic: below 2u x (tested against many digits);
- evaluating it: two polynomials of positive terms, 14 roundings each, the division or a reciprocal
  and a product, a logarithm (2u), a root and a difference: together below 40u x, in any order of
  the operations.

That makes 45u x + 3e-15, 1.8e-13 at x = 35. Ideal normals beyond 35 have a probability below
1e-267.
"""

_BLOCK = 256  # normals made at a time
_HALF_UNIT = 2.0**-53
_ENOUGH = 2.0**47  # a uniform number of so many units needs no more digits
_CENTRAL = 0.85  # part of the absolute values in Wichura's central region

# Wichura (1988), "Algorithm AS 241: the percentage points of the normal distribution", PPND16;
# coefficients from the highest power down
_CENTRE_NUMERATOR = (
    2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
    13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
)  # fmt: skip
_CENTRE_DENOMINATOR = (
    5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
    5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0,
)  # fmt: skip
_MIDDLE_NUMERATOR = (
    7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
    1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959,
    1.42343711074968357734,
)  # fmt: skip
_MIDDLE_DENOMINATOR = (
    1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
    0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187,
    1.0,
)  # fmt: skip
_FAR_NUMERATOR = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
    0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699,
    6.6579046435011037772,
)  # fmt: skip
_FAR_DENOMINATOR = (
    2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
    7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
    0.59983220655588793769, 1.0,
)  # fmt: skip


@inner
def polynomial(coefficients, x):
    """Return the value of a polynomial of degree 7, given from its highest power down."""
    value = coefficients[0]
    for i in range(1, 8):
        value = value * x + coefficients[i]
    return value


@inner
def central(part):
    """Return x >= 0 with P(abs(N) <= x) = part, for part <= 0.85."""
    half = 0.5 * part
    r = 0.180625 - half * half
    return half * polynomial(_CENTRE_NUMERATOR, r) / polynomial(_CENTRE_DENOMINATOR, r)


@inner
def outer(uniform):
    """Return x > 0 with P(abs(N) > x) = uniform, for 1e-300 < uniform <= 0.15."""
    r = math.sqrt(-math.log(0.5 * uniform))
    if r <= 5.0:
        return polynomial(_MIDDLE_NUMERATOR, r - 1.6) / polynomial(_MIDDLE_DENOMINATOR, r - 1.6)
    return polynomial(_FAR_NUMERATOR, r - 5.0) / polynomial(_FAR_DENOMINATOR, r - 5.0)


@inner
def refined(uniform, generator):
    """Return a small uniform number more precisely, given the middle of the 2^-52 that it is in.

    Further digits are drawn until the middle of what they leave is within 2^-48 of the number,
    relatively.
    """
    unit = 2.0 * _HALF_UNIT
    units = math.floor(uniform / unit)
    while units < _ENOUGH and unit > 1e-290:
        units = units / _HALF_UNIT + math.floor(generator.random() / _HALF_UNIT)
        unit *= _HALF_UNIT
    return (units + 0.5) * unit


def _fill(generator, out):
    out = out.reshape(out.size)
    middles = np.empty(_BLOCK)
    for first in range(0, out.size, _BLOCK):
        block = out[first : first + _BLOCK]
        for i in range(block.size):
            # the middle of one of 2^53 parts of (-1, 1), exact: the sign of the normal and 1 - U
            middles[i] = 2.0 * generator.random() - (1.0 - _HALF_UNIT)
        for i in range(block.size):  # vectorised, so for all of them
            block[i] = math.copysign(central(abs(middles[i])), middles[i])
        for i in range(block.size):
            part = abs(middles[i])
            if part > _CENTRAL:
                block[i] = math.copysign(outer(refined(1.0 - part, generator)), middles[i])


@cache
def _compiled():
    return entry(types.void(generator_type(), writable(np.float64, 2)))(_fill)


def draw_normals(generator: np.random.Generator, out: np.ndarray) -> None:
    """Fill ``out`` with independent standard normals, each within NORMAL_ERROR of an ideal one.

    Parameters
    ----------
    generator : numpy.random.Generator
        The source.
    out : ndarray of shape (n_steps, n_parameters), float64
        Array to fill, row by row.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.kernels.normals import draw_normals
    >>> out = np.empty((100, 100))
    >>> draw_normals(np.random.default_rng(0), out)
    >>> round(out.std().item(), 1)
    1.0
    """
    _compiled()(generator, out)


_LEAST_NOISE = 1e-250  # standard deviation


def check_noise(noise_std: np.ndarray) -> None:
    """Refuse noise that rounds to nothing in some step. 0 in all steps means no noise at all.

    Parameters
    ----------
    noise_std : ndarray
        Standard deviations.

    Raises
    ------
    ValueError
        If one is below 1e-250, and not all are 0.
    """
    if np.any(noise_std) and not np.all(noise_std >= _LEAST_NOISE):
        raise ValueError(
            f"noise of standard deviation {np.min(noise_std):.3g} would be rounded away: raise "
            "step_size or data_norm"
        )
