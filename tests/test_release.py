"""The exact release and the coupled normals: against slow exact arithmetic, and exact laws."""

import math
from fractions import Fraction
from functools import reduce
from itertools import product

import mpmath
import numba
import numpy as np
import pytest
from randomgen import AESCounter
from scipy import stats

from skdpdyn.kernels import normals, release as kernel
from skdpdyn.kernels.normals import NORMAL_ERROR, draw_normals
from skdpdyn.kernels.release import largest_point, release

COMPILED = not numba.config.DISABLE_JIT
EDGE = 2 * math.exp(-25)  # of Wichura's last region
BASE = 2**20


def generator(key):
    return np.random.Generator(AESCounter(key=key))


def scripted(numbers):
    """A generator whose first uniforms are these whole numbers times 2^-53, by its state."""
    words = np.random.MT19937(5).random_raw(624).tolist()
    for i, number in enumerate(numbers):
        words[2 * i : 2 * i + 2] = (number >> 26) << 5, (number & (2**26 - 1)) << 6
    bits = np.random.MT19937()
    key = np.array(list(map(unscrambled, words)), np.uint32)
    bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 0}}
    return np.random.Generator(bits)


def unscrambled(word):
    """The word of the state of MT19937 that comes out as ``word``."""
    word ^= word >> 18
    word ^= (word << 15) & 0xEFC60000
    left = word
    for _ in range(4):  # 7 more bits are right each time
        left = word ^ ((left << 7) & 0x9D2C5680)
    right = left
    for _ in range(2):  # 11 more
        right = left ^ (right >> 11)
    return right


def digits_of(key):
    """Digits to base 2^20, in their order, of the words of a stream."""
    words = map(int, AESCounter(key=key).random_raw(10_000))
    return lambda: next(words) >> 44


def scripted_digits(numbers):
    """Those of uniform doubles."""
    generator = scripted(numbers)
    return lambda: int(generator.random() * BASE)


class Uniform:
    """A uniform number, its digits drawn when they are asked for."""

    def __init__(self, draw):
        self.draw = draw
        self.known = [draw()]

    def digit(self, place):
        while place >= len(self.known):
            self.known.append(self.draw())
        return self.known[place]

    def __lt__(self, other):
        place = 0
        while self.digit(place) == other.digit(place):
            place += 1
        return self.digit(place) < other.digit(place)

    def bounds(self, n):
        lower = sum(Fraction(self.digit(i), BASE ** (i + 1)) for i in range(n))
        return lower, lower + Fraction(1, BASE**n)


class Half:
    """The number 1/2, which the first digit of a uniform number tells from it."""


def length_of_descent(source, first):
    """How many uniforms descend from ``first``."""
    last = first
    following = Uniform(source)
    n = 0
    while (following.known[0] < BASE // 2) if isinstance(last, Half) else following < last:
        last = following
        following = Uniform(source)
        n = n + 1
    return n


def slow_half_normal(source):
    def half_decays():
        return length_of_descent(source, Half()) % 2 == 0

    def accepts(whole, fraction):
        for _ in range(whole + 1):
            last = fraction
            n = 0
            while True:
                following = Uniform(source)
                if not following < last:
                    break
                m = 2 * whole + 2
                choice = source()
                while choice >= BASE // m * m:
                    choice = source()
                part = choice // (BASE // m)
                if part == 0 or (part == 1 and not Uniform(source) < fraction):
                    break
                last = following
                n = n + 1
            if n % 2:
                return False
        return True

    while True:
        whole = 0
        while half_decays():
            whole += 1
        if all(half_decays() for _ in range(whole * (whole - 1))):
            fraction = Uniform(source)
            if accepts(whole, fraction):
                return whole, fraction


def slow_exponential(source):
    whole = 0
    fraction = Uniform(source)
    while length_of_descent(source, fraction) % 2:
        whole = whole + 1
        fraction = Uniform(source)
    return whole, fraction


def pitch_of(scale):
    return Fraction(2) ** (math.frexp(scale)[1] - 13)


def slow_release(point, scale, source):
    """round_h(point + scale * N) in rational arithmetic."""
    bound = Fraction(2) ** 52 * pitch_of(scale)
    point = min(max(Fraction(point), -bound), bound) / pitch_of(scale)
    scale = Fraction(scale) / pitch_of(scale)
    sign = -1 if source() >= BASE // 2 else 1
    whole, fraction = slow_half_normal(source)
    ends = (0, 1)
    n = 0
    while ends[0] != ends[1]:
        n += 1
        sums = (sign * point + scale * (whole + end) for end in fraction.bounds(n))
        ends = [math.floor(of + Fraction(1, 2)) for of in sums]
    return sign * ends[0]


def released_and_slow(point, scale, numbers):
    """What scripted numbers release, in cells, and what they are to release."""
    got = Fraction(release([point], scale, scripted(numbers))[0]) / pitch_of(scale)
    return got, slow_release(point, scale, scripted_digits(numbers))


POINTS = [0.0, 0.5, -0.5, 2.0**-13, -(2.0**-13), 1e-300, -1e-300, 5e-324, 0.1, -3.7]
FAR = [1e5, -1e9, 2.0**40, 1e300, -math.inf]


@pytest.mark.parametrize("scale", [1.0, 0.1, 1.9999999999999998, 1e-250, 1e250, 3e-5])
def test_release_is_the_rounded_sum_bit_for_bit(scale):
    points = np.array(POINTS + FAR) * (scale if abs(math.log10(scale)) < 200 else 1.0)
    released = release(points, scale, generator(3), "gaussian")
    source = digits_of(3)
    finite = np.clip(points, -1e308, 1e308)
    expected = [slow_release(point, scale, source) for point in finite]
    assert [Fraction(value) / pitch_of(scale) for value in released] == expected


@pytest.mark.parametrize("seed", range(8))
def test_release_bit_for_bit_where_digits_tie(seed):
    """Streams of few different digits: many comparisons tie, many sums lie on a boundary."""
    rng = np.random.default_rng(seed)
    values = np.array([0, BASE // 2, BASE - 1, BASE // 2 - 1, rng.integers(BASE)]) << 33
    for point, scale in product(POINTS, (1.0, 1.5)):
        got, slow = released_and_slow(point, scale, rng.choice(values[: 2 + seed % 4], 40).tolist())
        assert got == slow


@pytest.mark.parametrize("digits", [(3, 5), (5, 3)])
def test_release_bit_for_bit_where_the_factor_ties(digits):
    """The fraction is proposed, 0 is below it, and the factor has its first digit."""
    first = BASE // 4
    proposed = [0, 0, 1, first, 0, BASE // 2, first, *digits, BASE - 1]
    numbers = [drawn << 33 for drawn in (*proposed, 0, 1, 3 * first, BASE - 1, 4, 6)]
    got, slow = released_and_slow(0.25, 1.0, numbers)
    assert got == slow


@pytest.mark.parametrize("scale", [1.0, 1.5, 0.7])
def test_release_bit_for_bit_next_to_a_boundary(scale):
    """Fractions of the normal that leave the sum 2^-187 from a boundary, on either side."""
    rng = np.random.default_rng(8)
    for case in range(40):
        point = float(rng.normal()) * 2.0 ** -int(rng.integers(0, 130)) * (case > 0)
        sign = 1 if rng.integers(2) else -1
        boundary = (int(rng.integers(2000, 4000)) + Fraction(1, 2)) * pitch_of(scale) * sign
        fraction = sign * (boundary - Fraction(point)) / Fraction(scale)
        if not 0 < fraction < 1:
            continue
        below = math.floor(fraction * BASE**10)
        results = []
        for of_ten in (below - 1, below + 2):
            first, *others = ((of_ten // BASE ** (9 - i)) % BASE for i in range(10))
            # sign; the whole part is 0, for 0 < 1/2 and not 1 < 0; the fraction is accepted,
            # for BASE - 1 is not below it
            digits = [0 if sign > 0 else BASE - 1, 0, 1, first, BASE - 1, *others]
            got, slow = released_and_slow(point, scale, [drawn << 33 for drawn in digits])
            assert got == slow
            results.append(got)
        assert results[1] - results[0] == sign


def real(whole, fraction):
    return whole + mpmath.mpf(fraction.numerator) / fraction.denominator


@pytest.mark.parametrize("n", [1, 3])
def test_the_gamma_form_is_the_rounded_sum_bit_for_bit(n):
    """The value in 200 digits, from the same uniform numbers."""
    point = np.array([0.3, -1e-300, 2.0**38])[:n]
    scale = 0.7
    for key in range(30):
        released = release(point, scale, generator(key), "gamma")
        source = digits_of(key)
        signs = [-1 if source() >= BASE // 2 else 1 for _ in range(n)]
        half_normals = [slow_half_normal(source) for _ in range(n)]
        exponentials = [slow_exponential(source) for _ in range(n)]
        with mpmath.workdps(200):
            absolute = [real(k, x.bounds(6)[0]) for k, x in half_normals]
            gamma = sum(real(k, x.bounds(6)[0]) for k, x in exponentials)
            radius = mpmath.mpf(scale) * gamma / mpmath.sqrt(sum(a * a for a in absolute))
            pitch = mpmath.mpf(2) ** (math.frexp(scale)[1] - 13)
            for i in range(n):
                ideal = (mpmath.mpf(point[i]) + radius * signs[i] * absolute[i]) / pitch
                assert abs(mpmath.mpf(released[i]) / pitch - ideal) <= 0.5


def test_the_gamma_form_refines_until_it_is_decided(monkeypatch):
    """From 20 bits on, with digits not looked at as small, or large, as they can be."""
    rng = np.random.default_rng(9)
    monkeypatch.setattr(kernel, "FIRST_BITS", 20)
    for case in range(500 if COMPILED else 60):

        def number(whole, following):
            return whole, [int(rng.integers(BASE)), *[following] * 19]

        if case % 2:
            half_normals = [number(int(rng.integers(10, 20)), 0) for _ in range(8)]
            exponentials = [number(0, BASE - 1) for _ in range(8)]
        else:
            half_normals = [number(0, 0), number(20, 0)]
            exponentials = [number(40, 0), number(40, 0)]
        drawn = iter([*half_normals, *exponentials])
        monkeypatch.setattr(kernel, "_compiled", lambda _, drawn=drawn: lambda _: next(drawn))
        released = release(np.zeros(len(half_normals)), 1.0, generator(1), "gamma")
        with mpmath.workdps(100):
            absolute, of_gamma = (
                [real(k, sum(Fraction(d, BASE ** (i + 1)) for i, d in enumerate(x))) for k, x in of]
                for of in (half_normals, exponentials)
            )
            radius = sum(of_gamma) / mpmath.sqrt(sum(a * a for a in absolute))
            for value, a in zip(released, absolute, strict=True):
                assert abs(abs(value) - radius * a) * 4096 <= 0.5


def chi_square(released, edges, cdf):
    """The p-value of counts between edges, which are boundaries of cells of the lattice."""
    observed, _ = np.histogram(released, edges)
    assert observed.sum() == len(released)
    probabilities = np.diff([float(cdf(edge)) for edge in edges])
    return stats.chisquare(observed, len(released) * probabilities / probabilities.sum()).pvalue


@pytest.mark.parametrize("point", [0.0, 0.3, -1000.1])
def test_the_law_is_the_gaussian_of_the_cells(point):
    """Each test fails with a probability of 1e-8 if all is well."""
    n = 200_000 if COMPILED else 4_000
    released = release(np.full(n, point), 0.8, generator(11))
    pitch = 2.0**-13
    whole = released / pitch
    assert np.array_equal(whole, np.round(whole))
    # between lattice points
    inner = (np.round(np.linspace(point - 2.4, point + 2.4, 41) / pitch) + 0.5) * pitch
    edges = np.concatenate([[point - 100], inner, [point + 100]])

    def cdf(edge):
        return mpmath.ncdf((mpmath.mpf(edge) - mpmath.mpf(point)) / mpmath.mpf(0.8))

    assert chi_square(released, edges, cdf) > 1e-8
    low_bits = np.bincount(whole.astype(np.int64) % 32, minlength=32)  # uniform but for exp(-1e6)
    assert stats.chisquare(low_bits).pvalue > 1e-8
    neighbours = np.corrcoef(released[1:], released[:-1])[0, 1]
    assert abs(neighbours) * math.sqrt(n) < 6


def test_every_lattice_value_is_reached_from_both_of_two_neighbours():
    """Each of 165 values is missed with a probability below exp(-35): below 1e-12."""
    if not COMPILED:
        pytest.skip("400,000 draws")
    values = np.arange(-82, 83) / 4096
    for point in (0.0, 0.4 + 1e-9):
        released = release(np.full(400_000, point), 1.0, generator(12))
        assert np.isin(values, released).all()
    ordinary = [set(point + generator(12).standard_normal(1000)) for point in (0.0, 0.4 + 1e-9)]
    assert not ordinary[0] & ordinary[1]


def test_the_laplace_law():
    """The gamma form in one dimension; fails with a probability of 1e-8."""
    n = 3000
    rng = generator(13)
    pitch = 2.0**-12
    released = np.array([release(0.3, 1.5, rng, "gamma").item() for _ in range(n)])
    inner = (np.round(np.linspace(-4, 4, 21) / pitch) + 0.5) * pitch
    edges = np.concatenate([[-200], inner, [200]])
    assert chi_square(released, edges, stats.laplace(0.3, 1.5).cdf) > 1e-8


def test_the_law_in_three_dimensions():
    """The norm is Gamma(3), a coordinate over it uniform; fails with a probability of 3e-8."""
    rng = generator(14)
    noise = np.array([release(np.zeros(3), [1.0, 1.0, 1.0], rng, "gamma") for _ in range(1500)])
    norm = np.linalg.norm(noise, axis=1)
    assert stats.kstest(norm, stats.gamma(3).cdf).pvalue > 1e-8
    for i in (0, 2):
        assert stats.kstest(noise[:, i] / norm, stats.uniform(-1, 2).cdf).pvalue > 1e-8


@pytest.mark.parametrize("distribution", ["gaussian", "gamma"])
@pytest.mark.parametrize("scale", [1e-250, 1e-3, 1.0, 1e250])
def test_extremes_saturate_at_public_bounds(distribution, scale):
    bound = largest_point(scale)
    assert 5e11 * scale < bound <= 2.0**40 * scale
    points = [bound, -bound, 0.9 * bound, 0.0]
    released = release(points, scale, generator(1), distribution)
    assert np.isfinite(released).all()
    assert np.all(np.abs(released - points) < 60 * scale)  # exp(-56) of Gamma(4)
    beyond = release([math.inf, -1e308, 0.9 * bound, 0.0], scale, generator(1), distribution)
    np.testing.assert_array_equal(beyond, released)
    assert np.all(released / float(pitch_of(scale)) % 1 == 0)


@pytest.mark.parametrize("distribution", ["gaussian", "gamma"])
def test_shapes_scales_and_repetition(distribution):
    point = np.arange(6.0).reshape(2, 3)
    scale = np.array([1e-6, 1.0, 1e6])
    first = release(point, scale, generator(2), distribution)
    assert first.shape == point.shape
    np.testing.assert_array_equal(first, release(point, scale, generator(2), distribution))
    assert not np.any(first == release(point, scale, generator(4), distribution))
    listed = release(point.tolist(), np.vstack([scale, scale]), generator(2), distribution)
    np.testing.assert_array_equal(first, listed)
    assert release([], 1.0, generator(2), distribution).size == 0
    assert release(1.0, 1.0, generator(2), distribution).shape == ()
    np.testing.assert_array_equal(largest_point([1.0, 2.5]), [2.0**40, 2.0**41])


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 1e-251, 1e251, [1.0, 0.0]])
def test_scales_out_of_range_are_refused(scale):
    with pytest.raises(ValueError, match=r"scale=.* must be from 1e-250 to 1e\+250"):
        release([1.0, 2.0], scale, generator(1))
    with pytest.raises(ValueError, match="scale="):
        largest_point(scale)


def test_other_wrong_values_are_refused():
    for point, scale, law, message in (
        ([1.0], 1.0, "laplace", "distribution='laplace' must be 'gaussian' or 'gamma'"),
        ([1.0, math.nan], 1.0, "gaussian", "coordinates that are not numbers"),
        (1.0, [1.0, 2.0], "gaussian", r"scale has shape \(2,\)"),
        ([1.0, 1.0, 1.0], [1.0, 2.0], "gaussian", "shape"),
    ):
        with pytest.raises(ValueError, match=message):
            release(point, scale, generator(1), law)


# the normals of earlier steps


def ideal_minus(x, uniform):
    """How far the ideal x with P(abs(N) > x) = uniform is from x, by Newton's method."""
    with mpmath.workdps(40):
        slope = 2 * mpmath.npdf(x)
        x = mpmath.mpf(x)
        step = (mpmath.erfc(x / mpmath.sqrt(2)) - uniform) / slope
        return float(step + x * step**2 / 2)


def scripted_normals(numbers, n):
    """The first n normals that whole numbers of 53 bits become."""
    out = np.empty((1, n))
    draw_normals(scripted(numbers), out)
    return out[0]


@pytest.mark.parametrize("n_words", [1, 2, 3, 12])
def test_normals_are_near_the_ideal_ones_of_their_uniform(n_words):
    """Near those at both ends of where the uniform number U can be, by the parts of NORMAL_ERROR.

    The first bit is the sign, negative where it is 0. The digits of U come next, turned over where
    it is 1. Zeros make U small.
    """
    rng = np.random.default_rng(n_words)
    for case in range(40):
        if n_words == 1:
            border = int(0.15 * 2**52)  # between the first two of Wichura's regions
            ends = [2**52 - 1, border - 1, border, border + 1]
            numbers = [ends[case] if case < 4 else int(rng.integers(2**47, 2**52))]
        elif n_words == 2 and case < 30:
            border = int(EDGE * 2**52)
            first = border + case if case < 2 else 2 ** int(rng.integers(47))
            numbers = [first, int(rng.integers(2**53))]
        else:
            numbers = [0] * (n_words - 1) + [int(rng.integers(2**53)) | 2**48]
        unit = Fraction(1, 2 ** (53 * n_words - 1))
        for negative in (True, False):
            first = numbers[0] if negative else 2**53 - 1 - numbers[0]
            x = scripted_normals([first, *numbers[1:]], 1)[0]
            assert (x < 0) == negative
            whole = reduce(lambda value, number: value * 2**53 + number, numbers)
            for end in (whole * unit, (whole + 1) * unit):
                error = abs(ideal_minus(abs(x), mpmath.mpf(end.numerator) / end.denominator))
                assert error < 45 * 2.0**-53 * abs(x) + 3e-15 < NORMAL_ERROR


@pytest.mark.parametrize(("first", "last"), [(1, 0.15), (0.15, EDGE), (EDGE, 1e-268)])
def test_the_approximation_has_its_error(first, last):
    """Wichura's coefficients in real arithmetic: 2 roundings of x."""

    def value(coefficients, t):
        return reduce(lambda value, c: value * t + c, coefficients, mpmath.mpf(0))

    def exact(uniform):
        r = mpmath.sqrt(-mpmath.log(uniform / 2))
        half = (1 - uniform) / 2
        if 1 - uniform <= 0.85:
            at = mpmath.mpf(0.180625) - half**2
            factor = half
            region = "CENTRE"
        else:
            region = "MIDDLE" if r <= 5 else "FAR"
            at = r - (mpmath.mpf(1.6) if r <= 5 else 5)
            factor = 1
        parts = (getattr(normals, f"_{region}_{part}") for part in ("NUMERATOR", "DENOMINATOR"))
        above, below = (value(part, at) for part in parts)
        return factor * above / below

    with mpmath.workdps(40):
        for exponent in np.linspace(math.log(first), math.log(last), 200)[1:-1]:
            uniform = mpmath.mpf(math.exp(exponent))
            x = exact(uniform)
            step = (mpmath.erfc(x / mpmath.sqrt(2)) - uniform) / (2 * mpmath.npdf(x))
            assert abs(step) <= 2 * 2.0**-53 * x


def test_normals_rise_with_the_uniform():
    """In steps larger than the rounding, over the breakpoint too."""
    parts = np.concatenate([np.linspace(1e-9, 0.9687, 400), [0.85 - 1e-14, 0.85, 0.85 + 1e-14]])
    parts.sort()
    for some in (parts[:210], parts[200:]):
        drawn = scripted_normals([int((1 + part) * 2**52) for part in some], some.size)
        assert np.all(np.diff(drawn) > 0)


def test_the_law_of_the_normals():
    """Each part fails with a probability of 1e-8. More than one block: nothing is used twice."""
    shape = (1000, 1000) if COMPILED else (10, 1001)
    out = np.empty(shape)
    draw_normals(generator(21), out)
    flat = out.ravel()
    edges = stats.norm.ppf(np.linspace(0, 1, 65))
    assert stats.chisquare(np.histogram(flat, edges)[0]).pvalue > 1e-8
    assert stats.kstest(flat, stats.norm.cdf).pvalue > 1e-8
    assert np.unique(flat).size == flat.size
    n_far = int(np.sum(np.abs(flat) > 3.5))
    assert stats.binomtest(n_far, flat.size, 2 * stats.norm.sf(3.5)).pvalue > 1e-8
    for lag in (1, 255, 256, 257):
        assert abs(np.corrcoef(flat[lag:], flat[:-lag])[0, 1]) * math.sqrt(flat.size) < 6
