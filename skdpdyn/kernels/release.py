"""The exact release: ideal noise added in exact arithmetic, then rounded to a lattice.

Ordinary floating-point noise gives the data away in its low bits: from a given point, some doubles
cannot be reached. Here the noise is a real number whose binary digits are drawn as they are needed.
The sum of point and noise is compared with the boundaries between lattice points in integers, and
more digits are drawn until the comparison is decided. The result is a function of the ideal sum, so
every guarantee of the ideal mechanism holds for it (post-processing).

A uniform number in [0, 1) is stored as the list of its base-2^20 digits that were drawn so far. All
further digits are independent of every decision, because none was based on them.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from skdpdyn.kernels.later import (
    entry,
    inlined,
    inner,
    merged,
    readonly,
    source_of,
    source_type,
    types,
    uniform,
    writable,
)

DIGIT_BITS = 20
BASE = 1 << DIGIT_BITS
PITCH_BITS = 12  # the pitch of the lattice is 2^-12 of the scale, rounded down to a power of two
SCALE_BITS = 52 - PITCH_BITS  # a scale is a whole number of 53 bits times 2^-SCALE_BITS pitches
FIXED_BITS = SCALE_BITS + DIGIT_BITS
FIRST_BITS = 6 * DIGIT_BITS  # first bits of gamma noise
LEAST_SCALE = 1e-250
LARGEST_SCALE = 1e250  # well inside the normal doubles, with room for the lattice


@inlined
def digit(source):
    """Draw one uniform digit, the leading bits of a uniform double."""
    return int(uniform(source) * 1048576.0)


@inner
def is_less(a, b, source):
    """Return whether the uniform number a is below b; draw digits of both until they differ."""
    i = 0
    while True:
        if i == len(a):
            a.append(digit(source))
        if i == len(b):
            b.append(digit(source))
        if a[i] != b[i]:
            return a[i] < b[i]
        i += 1


@inlined
def choice(n, source):
    """Draw 0 or 1 with probability 1/n each, and else 2, by rejection. n is at most 2^20."""
    share = BASE // n
    drawn = digit(source)
    while drawn >= n * share:
        drawn = digit(source)
    return int(drawn >= share) + int(drawn >= 2 * share)


@inner
def descends_evenly(first, source):
    """Return True with probability exp(-first).

    This is whether first > U_1 > U_2 > ... stops after an even number of uniforms. The chance that
    it goes on for at least n of them is first^n / n! (von Neumann, 1951).
    """
    even = True
    last = first
    while True:
        following = [digit(source)]
        if not is_less(following, last, source):
            return even
        even = not even
        last = following


@inner
def goes_on_from(digit_of_both, even, source):
    """Return the answer of `half_decay` where two first digits are equal, so that all decide."""
    numbers = [digit_of_both]
    if not is_less(numbers, [digit_of_both], source):
        return even
    return descends_evenly(numbers, source) != even


@inlined
def half_decay(source):
    """Return True with probability exp(-1/2): the same with 1/2 for the first number."""
    last = digit(source)
    if last >= BASE // 2:
        return True
    even = False  # 1/2 > last: one uniform number so far
    while True:
        following = digit(source)
        if following == last:  # rare
            return goes_on_from(last, even, source)
        if following > last:
            return even
        even = not even
        last = following


@inlined
def gaussian_decay(integer, first, source):
    """Run Karney's algorithm B on first digits alone, which nearly always decide.

    It returns True with probability exp(-x (2 whole + x) / (2 whole + 2)), for a fraction x that
    begins with ``first``. Where two digits are equal, `gaussian_decay_of_all` goes on.

    Returns
    -------
    decided, even : bool
        Whether first digits decide; the answer, if they do.
    last, following : int
        Where nothing is decided, either these two first digits are equal, or those of x and of the
        number that it is compared with, the factor.
    """
    even = True
    last = first
    following = digit(source)
    while following < last:
        drawn = choice(2 * integer + 2, source)
        if drawn == 0:
            return True, even, last, following
        if drawn == 1:
            factor = digit(source)
            if factor >= first:
                return factor > first, even, last, following
        even = not even
        last = following
        following = digit(source)
    return following > last, even, last, following


@inner
def gaussian_decay_of_all(integer, fraction, even, last, following, source):
    """Go on where `gaussian_decay` stopped undecided, by all digits."""
    is_drawn = following < last
    numbers = fraction if last == fraction[0] else [last]  # the first, or a later one
    following_numbers = [following]
    while is_drawn or is_less(following_numbers, numbers, source):
        drawn = 1 if is_drawn else choice(2 * integer + 2, source)
        factor = [fraction[0] if is_drawn else digit(source)] if drawn == 1 else [0]
        if drawn == 0 or (drawn == 1 and not is_less(factor, fraction, source)):
            return even
        even = not even
        numbers = following_numbers
        following_numbers = [digit(source)]
        is_drawn = False
    return even


@merged
def all_half_decay(n, source):
    """Return True with probability exp(-n/2)."""
    passed = 0
    while passed < n and half_decay(source):
        passed += 1
    return passed == n


@merged
def all_gaussian_decay(integer, fraction, source):
    """Return True with probability exp(-x (2 whole + x) / 2) for the fraction x."""
    first = fraction[0]
    for _ in range(integer + 1):
        decided, even, last, following = gaussian_decay(integer, first, source)
        if not decided:
            even = gaussian_decay_of_all(integer, fraction, even, last, following, source)
        if not even:
            return False
    return True


@merged
def half_normal(fraction, source):
    """Draw the absolute value of a standard normal: return its whole part, write its fraction.

    ``fraction`` is a list with room for the first digit, which others follow where they were drawn.

    Karney (2016), "Sampling exactly from the normal distribution", algorithm N. With k the whole
    part and x the fraction, a proposal has the weight exp(-k/2), it is accepted with probability
    exp(-k(k-1)/2) exp(-x(2k+x)/2), and the product is exp(-(k+x)^2/2).
    """
    while True:
        integer = 0
        while half_decay(source):
            integer += 1
        if all_half_decay(integer * (integer - 1), source):
            fraction[0] = digit(source)
            while len(fraction) > 1:
                fraction.pop()
            if all_gaussian_decay(integer, fraction, source):
                return integer


@inner
def exponential(source):
    """Draw a standard exponential number: its whole part and the digits of its fraction.

    von Neumann (1951): with probability exp(-x) a proposed fraction x is accepted, and each failure
    adds 1.
    """
    integer = 0
    while True:
        fraction = [digit(source)]
        if descends_evenly(fraction, source):
            return integer, fraction
        integer += 1


@merged
def leading_bits(numerator, shift, count):
    """Return the first ``count`` <= 60 bits of the fractional part of numerator / 2^shift."""
    if shift >= count:
        return (numerator >> min(shift - count, 63)) & ((1 << count) - 1)
    return (numerator & ((1 << shift) - 1)) << (count - shift)


@merged
def nearest(numerator, shift, scale, fraction, source):
    """Return the integer nearest to a + b N for a standard normal N.

    Here a = numerator / 2^shift and b = scale / 2^40. The sign s of N is drawn first. Wanted is s
    times the largest integer j <= b|N| + 1/2 + s a. A first digit of the fraction of |N| leaves at
    most one boundary between two integers undecided. `gap` then says where the sum is, seen from
    that boundary: the difference times 2^(bits in use) is above gap - 1 and below gap + scale. Each
    further bit of |N| and a halves that.

    Integers stay below 2^63 in size. (A whole part of |N| from 1,024 on would break that. Its
    probability is below 1e-227000.)
    """
    negative = digit(source) >= BASE // 2
    integer = half_normal(fraction, source)
    away = numerator if negative else -numerator  # the sum is scale * |N| / 2^40 - away / 2^shift

    first = fraction[0]
    coarse = scale >> SCALE_BITS
    fine = scale & ((1 << SCALE_BITS) - 1)
    by_whole = integer * scale
    by_coarse = coarse * first
    undecided = (
        ((by_whole & ((1 << SCALE_BITS) - 1)) << DIGIT_BITS)
        + ((by_coarse & (BASE - 1)) << SCALE_BITS)
        + fine * first
        + (1 << (FIXED_BITS - 1))
        - leading_bits(away, shift, FIXED_BITS)
    )
    boundary = (
        (by_whole >> SCALE_BITS)
        + (by_coarse >> DIGIT_BITS)
        - (away >> min(shift, 63))
        + (undecided >> FIXED_BITS)
    )
    gap = undecided & ((1 << FIXED_BITS) - 1)
    if gap > 0:
        boundary = boundary + 1
        gap = gap - (1 << FIXED_BITS)

    used = FIXED_BITS
    while -scale < gap <= 0:
        used += 1
        place, bit = divmod(used - FIXED_BITS - 1, DIGIT_BITS)
        place += 1
        if place == len(fraction):
            fraction.append(digit(source))
        gap *= 2
        if (fraction[place] >> (DIGIT_BITS - 1 - bit)) & 1:
            gap += scale
        if shift >= used:
            gap -= (away >> min(shift - used, 63)) & 1
    if gap <= 0:
        boundary -= 1
    return -boundary if negative else boundary


def _release_gaussian(point, scale, source, out):
    """Write the coordinates that `release` returns; ``scale`` may be one for all.

    Returns whether all are numbers, and all scales right.
    """
    fraction = [0]
    for i in range(out.size):
        std = scale[i if scale.size > 1 else 0]
        if not LEAST_SCALE <= std <= LARGEST_SCALE or np.isnan(point[i]):
            return False
        fine, exponent = math.frexp(std)
        pitch = exponent - 1 - PITCH_BITS
        numerator = 0
        shift = 0
        largest = math.ldexp(1.0, pitch + 52)
        number = point[i] if point[i] < largest else largest
        number = number if number > -largest else -largest
        if number != 0.0:  # a whole number, over 2^shift, of pitches
            first, exponent = math.frexp(number)
            numerator = int(math.ldexp(first, 53))
            shift = pitch + 53 - exponent
        drawn = nearest(numerator, shift, int(math.ldexp(fine, 53)), fraction, source)
        out[i] = math.ldexp(float(drawn), pitch)
    return True


def _half_normal(source):
    fraction = [0]
    return half_normal(fraction, source), fraction


def _exponential(source):
    return exponential(source)


@cache
def _compiled(function):
    """Compile functions that Python calls at the first call: most imports release nothing."""
    if function is _release_gaussian:
        numbers = readonly(np.float64)
        signature = types.boolean(numbers, numbers, source_type(), writable(np.float64))
    else:
        signature = (source_type(),)
    return entry(signature)(function)


def largest_point(scale: ArrayLike) -> float | np.ndarray:
    """Return the largest absolute coordinate that `release` takes as it is.

    It is 2^40 times ``scale`` rounded down to a power of two. Beyond 2^52 lattice points from 0 a
    double cannot hold every sum of a coordinate and its noise. Choose a public bound on the
    parameters, for instance the radius of the ball that they are projected onto, and refuse a scale
    that it is too large for.

    Parameters
    ----------
    scale : float or array-like of float
        Scale of the noise, from 1e-250 to 1e250.

    Returns
    -------
    float or ndarray of float
        Array of the shape of ``scale``; above ``5e11 * scale``.

    Raises
    ------
    ValueError
        If a scale is not a number from 1e-250 to 1e250.

    Examples
    --------
    >>> from skdpdyn.kernels.release import largest_point
    >>> largest_point(1.0)
    1099511627776.0
    """
    largest = np.ldexp(1.0, _pitch_exponent(_checked_scale(scale)) + 52)
    return float(largest) if largest.ndim == 0 else largest


def release(
    point: ArrayLike,
    scale: ArrayLike,
    generator: np.random.Generator,
    distribution: str = "gaussian",
) -> np.ndarray:
    r"""Return a point with ideal noise, exactly rounded to a lattice.

    The result is :math:`\mathrm{round}_h(\mathrm{point} + \mathrm{scale} \cdot Z)`, where ``Z`` is
    drawn from the continuous law and the sum is exact: no rounding comes before the one to the
    lattice. The pitch h is 2^-12 of the scale, rounded down to a power of two. It depends on the
    scale alone. Rounding raises the variance of a coordinate by less than one part in 10^8.

    Parameters
    ----------
    point : float or array-like of float
        Point to release: the noiseless result of computing with records. Coordinates beyond
        ``largest_point(scale)`` are moved there first, infinite ones too. That bound is public and
        moving closer never raises a sensitivity.
    scale : float or array-like of float
        Scale of the noise, a public number from 1e-250 to 1e250, one for all coordinates or one for
        each. The standard deviation of Gaussian noise.
    generator : numpy.random.Generator
        The source, cryptographic and used by nothing else meanwhile.
    distribution : {"gaussian", "gamma"}, default="gaussian"
        "gaussian": Z has independent standard normal coordinates. "gamma": Z has a density
        proportional to exp(-norm(Z)) in as many dimensions as ``point`` has coordinates: a uniform
        direction and a norm of the law Gamma(point.size). In one dimension this is the Laplace
        distribution.

    Returns
    -------
    ndarray of float64
        Array of the shape of ``point``: a whole number of pitches in each coordinate, held exactly.

    Raises
    ------
    ValueError
        If a scale is not a number from 1e-250 to 1e250, if it does not fit the point's shape, if
        the distribution is unknown, or if a coordinate is not a number: then whatever computed it
        was not bounded, and no noise would be right.

    Notes
    -----
    *Why it is exact.* Normals are drawn by Karney's algorithm N, which only compares
    uniform numbers with one another, digit by digit, until they differ. Accepted is a whole number
    k and a fraction x of which the leading digits are known; the other ones are still uniform and
    independent. Point and scale are doubles, hence whole multiples of powers of two, so for any
    number of digits the interval in which point + scale (k + x) lies has ends that integers hold
    exactly. Digits are drawn until both ends round to the same lattice point. The result is thus a
    function of the ideal sum, which is the ideal mechanism, and has its guarantee: post-processing.
    The gamma form divides such normals by their norm and multiplies by a sum of exact exponentials,
    in intervals of integers that are refined in the same way.

    The generator's bits are taken as uniform. The time that a draw takes is not hidden.

    References
    ----------
    Karney, C. F. F. (2016), "Sampling exactly from the normal distribution", ACM Transactions on
    Mathematical Software 42(1), algorithms N, H, B.

    von Neumann, J. (1951), "Various techniques used in connection with random digits".

    Examples
    --------
    A seeded generator, for the example only: whoever knows the seed can subtract the noise.

    >>> import numpy as np
    >>> from skdpdyn.kernels.release import release
    >>> released = release([0.5, -2.0], 0.1, np.random.default_rng(0))
    >>> released.shape
    (2,)
    >>> np.unique(released * 2**16 % 1).item()  # the pitch is 2^-16: 2^-12 of 2^-4
    0.0
    """
    if distribution not in ("gaussian", "gamma"):
        raise ValueError(f"distribution={distribution!r} must be 'gaussian' or 'gamma'")
    point = np.asarray(point, np.float64)
    scale = np.asarray(scale, np.float64)
    if scale.ndim and np.broadcast_shapes(point.shape, scale.shape) != point.shape:
        raise ValueError(
            f"scale has shape {scale.shape}: give one number, or one for each coordinate of "
            f"{point.shape}"
        )
    if distribution == "gaussian":
        scales = np.broadcast_to(scale, point.shape) if scale.ndim else scale
        noisy = np.empty(point.shape)
        to = point.ravel(), scales.ravel(), source_of(generator), noisy.ravel()
        if _compiled(_release_gaussian)(*to):
            return noisy
    _checked_scale(scale)
    if distribution == "gaussian" or np.isnan(point).any():
        raise ValueError("point has coordinates that are not numbers: bound whatever computes it")
    pitch_exponent = _pitch_exponent(scale)
    largest = np.ldexp(1.0, pitch_exponent + 52)
    numerator, exponent = _whole_numbers(np.clip(point, -largest, largest))
    # point = numerator / 2^shift pitches
    shift = np.where(numerator == 0, 0, pitch_exponent - exponent)
    scale_numerator, _ = _whole_numbers(np.broadcast_to(scale, point.shape))
    arguments = (np.ravel(a).tolist() for a in (numerator, shift, scale_numerator))
    lattice = np.array(_nearest_gamma(*arguments, generator), np.float64)
    return np.ldexp(lattice.reshape(point.shape), pitch_exponent)


def _checked_scale(scale):
    """Return the scale as an array, or refuse it."""
    scale = np.asarray(scale, np.float64)
    right = (scale >= LEAST_SCALE) & (scale <= LARGEST_SCALE)
    if not right.all():
        raise ValueError(
            f"scale={scale[~right].flat[0]} must be from {LEAST_SCALE} to {LARGEST_SCALE}: "
            "rescale the data"
        )
    return scale


def _pitch_exponent(scale):
    """Return the exponent of the pitch of the lattice, a power of two, in int64."""
    return np.frexp(scale)[1].astype(np.int64) - 1 - PITCH_BITS


def _whole_numbers(numbers):
    """Return integers of 53 bits and exponents of two, whose products are the numbers."""
    fraction, exponent = np.frexp(numbers)
    return np.ldexp(fraction, 53).astype(np.int64), exponent.astype(np.int64) - 53


def _nearest_gamma(numerator, shift, scale, generator):
    """Return the integers nearest to the coordinates of a + b Z for a Z of density exp(-norm(Z)).

    a and b are as in `nearest`. Z = s G N / norm(N) for half-normal coordinates N, signs s and G a
    sum of as many exponentials: the law Gamma(n) of its norm and a uniform direction. All of this
    is known to lie between integers, in units of 2^-bits.
    """
    source = source_of(generator)
    negative = [_digit(generator) >= BASE // 2 for _ in numerator]
    normals = [_compiled(_half_normal)(source) for _ in numerator]
    exponentials = [_compiled(_exponential)(source) for _ in numerator]
    bits = FIRST_BITS
    while True:
        lows = [_leading(integer, fraction, bits, generator) for integer, fraction in normals]
        norm_low = math.isqrt(sum(low * low for low in lows))
        norm_high = math.isqrt(sum((low + 1) ** 2 for low in lows)) + 1
        gamma_low = sum(
            _leading(integer, fraction, bits, generator) for integer, fraction in exponentials
        )
        gamma_high = gamma_low + len(exponentials)
        if norm_low > 0 or not lows:
            integers = []
            for i, low in enumerate(lows):
                a = -numerator[i] if negative[i] else numerator[i]  # the sign of Z put aside
                least = gamma_low * low // norm_high
                most = gamma_high * (low + 1) // norm_low + 1
                nearest_least = _rounded(a, shift[i], scale[i] * least, SCALE_BITS + bits)
                if nearest_least != _rounded(a, shift[i], scale[i] * most, SCALE_BITS + bits):
                    break
                integers.append(-nearest_least if negative[i] else nearest_least)
            else:
                return integers
        bits *= 2


def draw_gamma(size: int, generator: np.random.Generator) -> np.ndarray:
    """Return a vector of density exp(-norm), each coordinate within 2^-44 of the ideal one.

    Parameters
    ----------
    size : int
        Number of coordinates.
    generator : numpy.random.Generator
        The source.

    Returns
    -------
    ndarray of shape (size,)

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.kernels.release import draw_gamma
    >>> draw_gamma(3, np.random.default_rng(0)).size
    3
    """
    nothing = [0] * size
    nearest_integers = _nearest_gamma(nothing, nothing, [1 << (SCALE_BITS + 44)] * size, generator)
    return np.ldexp(np.array(nearest_integers, dtype=np.float64), -44)


def _digit(generator):
    """Draw a digit as kernels do."""
    return int(generator.random() * BASE)


def _leading(integer, fraction, bits, generator):
    """Return floor((whole + fraction) 2^bits); draw the digits that are missing."""
    while len(fraction) * DIGIT_BITS < bits:
        fraction.append(_digit(generator))
    for following in fraction[: bits // DIGIT_BITS]:
        integer = (integer << DIGIT_BITS) + following
    return integer


def _rounded(a, a_shift, b, b_shift):
    """Return floor(a / 2^a_shift + b / 2^b_shift + 1/2)."""
    shift = max(a_shift, b_shift) + 1
    return ((a << (shift - a_shift)) + (b << (shift - b_shift)) + (1 << (shift - 1))) >> shift
