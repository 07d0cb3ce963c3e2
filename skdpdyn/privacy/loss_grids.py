"""Privacy losses of parts on a grid, and of their composition, right to a relative error.

Every part is discretised by connecting the dots of its profile (Doroshenko, Ghazi, Kamath, Kumar
and Manurangsi 2022, Algorithm 1). The total loss L is a sum of independent ones, so that FFTs
compute its distribution, under a tilt: with M(t) = E exp(t L) and K = log M, the tilted total has
the masses P(L = l) exp(t l - K(t)), and

    delta(epsilon) = exp(K(t) - t epsilon) E_t w(L - epsilon),
    w(x) = (1 - exp(-x)) exp(-t x) where x > 0, else 0.

This holds for every t. Each answer is an upper bound, whose excess is small against itself, however
small delta is. One grid, one cut, one tilt and one FFT serve deltas near one another:

1. *Rare huge losses* are at infinity already: the grid of a part ends where all that lies beyond
   is 1e-6 of delta over the number of releases (`numerical.CUT`). That is an upper bound, as a
   loss only grows, and what it adds is in `infinity`, which every answer includes. Without it they
   would decide M(t), so that no tilt reaches the losses near epsilon.
2. *The tilt* solves t K'(t) - K(t) = log(1/delta): there E_t L is the epsilon at which Chernoff's
   bound exp(K - t epsilon) is delta. Losses near epsilon are then the likely ones. Any other tilt
   gives a bound too, so that it need not be exact.
3. *The FFT's rounding.* Let u = 2^-53 and kappa = `_PER_HALVING` u log2 N. Every output of an FFT
   over N points of masses p is a tree of sums whose partial results are at most the masses below
   them in absolute value. A stage of radix 2, 3, 4 or 5 (sizes have no other factors) turns and
   adds; its twiddle factors, products and sums have relative errors that add up to less than 8 u
   for each factor of 2 of the radix, so that |F^ - F| <= kappa sum(p), and `_PER_HALVING` is twice
   that. By repeated squaring, the n-th power of a complex number is off by (n - 1) 3 u, relative.
   With a = |F^| + kappa, which is at least |F|, the spectrum of the composition is off by at most

       A (sum_i n_i (kappa / a_i + 3 u)), A = prod_i a_i^n_i,

   at every frequency, and a mass of the total by the mean over frequencies of that and of kappa A,
   for the inverse FFT. This mean is added to every mass. As A is small at most frequencies where
   there are many releases, it is about n kappa times the *largest mass of the tilted total*, and
   that is next to epsilon: the charge is about n kappa of the answer, not of Chernoff's bound.
   Where there is one release, there is no FFT and no charge.
4. *The masses* exp(log p + t l - c) that enter have errors of 4 u times their exponents' terms, and
   are rounded up by that. c stands for K in both places, so that its own error does not matter.
5. *Outside of the window* that the FFT folds, on either side, the tilted total has a mass of at
   most `_OUTSIDE`, by Chernoff's bound. What is folded in only adds; what is folded out of the
   losses above epsilon has w <= 1 and is added.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import fft, optimize

from skdpdyn.privacy._numerics import smallest_safe
from skdpdyn.privacy._types import Array

MOST_COMPOSED = 2**22  # points of a composed grid
PROFILE_ERROR = 1e-12  # of the deltas that profiles give, relative
_DIFFERENCE_ERROR = 1e-15  # of a difference of neighbours on a profile, relative
_UNIT = 2.0**-53
_PER_HALVING = 16  # roundings of an FFT for each factor of 2 of its size
_OUTSIDE = 1e-18  # of the tilted total on each side of its window
_BLOCK = 4096  # losses that are summed at once
_POOLED = 4096  # points of a part that are enough to choose a tilt
_REACHES = 2.0 ** np.arange(3, -8, -1)  # tried for Chernoff's bounds, per standard deviation


@dataclass(frozen=True, eq=False)
class Masses:
    """Probabilities of one part's losses, ``(low + i) interval`` and infinity."""

    low: int
    probs: Array
    infinity: float

    @cached_property
    def indices(self) -> Array:
        """Losses over the interval."""
        return np.arange(self.low, self.low + self.probs.size, dtype=float)

    @cached_property
    def log_probs(self) -> Array:
        """Logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.probs)

    def moments(self, step: float) -> tuple[float, float, float]:
        """Return log sum p_i exp(step i), and mean and variance of i under that tilt."""
        exponents = self.log_probs + step * self.indices
        top = float(np.max(exponents))
        weights = np.exp(exponents - top)
        total = float(np.sum(weights))
        mean = float(np.sum(weights * self.indices)) / total
        variance = float(np.sum(weights * (self.indices - mean) ** 2)) / total
        return math.log(total) + top, mean, variance

    def log_moment(self, step: float) -> float:
        """Return log sum p_i exp(step i)."""
        exponents = self.log_probs + step * self.indices
        top = float(np.max(exponents))
        return math.log(float(np.sum(np.exp(exponents - top)))) + top

    def pooled(self) -> "Masses":
        """Return few masses that are near these: for numbers that need not be exact."""
        block = -(-self.probs.size // _POOLED)
        starts = np.arange(0, self.probs.size, block)
        pooled = Masses(0, np.add.reduceat(self.probs, starts), self.infinity)
        vars(pooled)["indices"] = self.indices[starts] + block / 2
        return pooled


def connect_dots(above: Array, swapped: Array, interval: float) -> Masses:
    """Return the masses of the pair whose profile is a chord of a part's between grid points.

    Parameters
    ----------
    above : ndarray of shape (n + 1,)
        Delta of P against Q at 0, interval, ..., n interval.
    swapped : ndarray of shape (n + 1,)
        Delta of Q against P there.
    interval : float
        Step of the grid.

    Returns
    -------
    Masses
        Under P. A loss of -l has exp(-l) times the mass that l has where P and Q are swapped, so
        that no mass is a difference of large numbers.

    Notes
    -----
    Errors of up to e in all deltas are made up for by factors of 1 + 3 e above 0, and 1 - 3 e
    below. Above 0 that is plain. At -epsilon, delta is 1 - Q exp(-epsilon) + exp(-epsilon)
    delta_swapped(epsilon), where Q is the total mass of the swapped run. Q is then below 1 by at
    least 4 e delta(0), and delta_swapped is too small by at most that. Masses that rounding made
    negative are set to 0 above 0, and made up for by still lower losses below 0: mass moves up.
    """
    fall, fall_swapped = (-np.diff(np.minimum.accumulate(delta)) for delta in (above, swapped))
    lost = _DIFFERENCE_ERROR / interval
    upper = np.maximum(_masses(fall, interval), 0.0) * (1 + 3 * PROFILE_ERROR) + fall * lost
    lower = _masses(fall_swapped, interval) * (1 - 3 * PROFILE_ERROR) - fall_swapped * lost
    lower *= np.exp(-interval * np.arange(1, lower.size + 1))
    at_most = np.maximum(np.minimum.accumulate(np.cumsum(lower[::-1])[::-1]), 0.0)
    lower = -np.diff(np.append(at_most, 0.0))
    infinity = float(above[-1]) * (1 + 3 * PROFILE_ERROR)
    rest = max(0.0, 1.0 - float(np.sum(lower) + np.sum(upper)) - infinity) + 1e-15
    probs = np.concatenate([lower[::-1], [rest], upper])
    seen = np.flatnonzero(probs)
    return Masses(int(seen[0]) - lower.size, probs[seen[0] : seen[-1] + 1], infinity)


def _masses(fall: Array, interval: float) -> Array:
    """Return the masses at interval, ..., n interval of a profile that falls so from 0 on."""
    inner = (fall[:-1] * math.exp(interval) - fall[1:]) / math.expm1(interval)
    return np.append(inner, fall[-1] / -math.expm1(-interval))


@dataclass(frozen=True, eq=False)
class Tilted:
    """The tilted total of a composition; every number is rounded up.

    Attributes
    ----------
    interval, tilt, log_moment : float
        Step of the grid, the tilt t, and K(t).
    low : int
        Index of the first loss.
    probs : ndarray of shape (n,)
        The tilted masses.
    outside : float
        Tilted mass that may lie above the window.
    infinity : float
        Mass at infinity, not tilted.
    """

    interval: float
    tilt: float
    log_moment: float
    low: int
    probs: Array
    outside: float
    infinity: float

    @cached_property
    def _weights(self) -> Array:
        """Return e^(-(t + 1) x) and w(x) at the losses of a block, from its first on."""
        x = self.interval * np.arange(_BLOCK)
        fall = np.exp(-self.tilt * x)
        return np.stack([fall * np.exp(-x), fall * -np.expm1(-x)], axis=1)

    @cached_property
    def _from_block(self) -> list[tuple[float, float]]:
        """The sums of the weighted masses from each block on; all terms are positive."""
        blocks = np.pad(self.probs, (0, -self.probs.size % _BLOCK)).reshape(-1, _BLOCK)
        sums = [(0.0, 0.0)]
        for within in (blocks @ self._weights)[::-1].tolist():
            sums.append(self._before(within, sums[-1], self.interval * _BLOCK))
        return sums[::-1]

    def _before(self, within: Any, after: Any, length: float) -> tuple[float, float]:
        """Add the sums of what begins after a length to those of what is within it.

        w(x + y) = e^(-t y) (w(x) + e^(-(t + 1) x) (1 - e^-y)).
        """
        fall = math.exp(-self.tilt * length)
        second = after[1] - math.expm1(-length) * after[0]
        return within[0] + fall * math.exp(-length) * after[0], within[1] + fall * second

    def delta(self, epsilon: float) -> float:
        """Return delta at ``epsilon``."""
        if math.isinf(epsilon):
            return self.infinity
        index = math.floor(epsilon / self.interval) + 1 - self.low
        index = min(max(index, 0), self.probs.size)
        excess = max((self.low + index) * self.interval - epsilon, 0.0)
        block, offset = divmod(index, _BLOCK)
        probs = self.probs[index : (block + 1) * _BLOCK]
        sums = self._before(
            (probs @ self._weights[: probs.size]).tolist(),
            self._from_block[min(block + 1, len(self._from_block) - 1)],
            (_BLOCK - offset) * self.interval,
        )
        total = self._before((0.0, 0.0), sums, excess)[1]
        shift = self.tilt * epsilon
        exponent = self.log_moment - shift + 16 * _UNIT * (1 + abs(self.log_moment) + shift)
        total = (total * (1 + 1e-11) + self.outside) * math.exp(min(exponent, 700.0))
        if not total >= 0:
            raise FloatingPointError("the privacy losses could not be composed")
        return min(1.0, total + self.infinity)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at which delta is at most ``delta``, rounded up."""
        if delta >= self.delta(0.0):
            return 0.0
        if delta <= self.infinity:
            return math.inf
        target = math.log(delta)

        # in logarithms, which fall nearly on a line
        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon), 1e-300)) - target

        low, high = 0.0, self.interval
        if self.tilt:
            high = max((self.log_moment - target) / self.tilt, high)
        while not excess(high) <= 0:
            low, high = high, 1.1 * high
        epsilon = optimize.brentq(excess, low, high, xtol=1e-14, rtol=1e-14)
        # The root is known to 1e-14, which is more than all of it where it is next to 0
        return smallest_safe(epsilon, lambda x: self.delta(x) <= delta, math.inf, scale=1e-9)


@dataclass(frozen=True)
class Losses:
    """Composed losses in both directions; one where they are alike."""

    directions: tuple[Tilted, ...]

    def delta(self, epsilon: float) -> float:
        """Return the larger delta at ``epsilon``."""
        return max(one.delta(epsilon) for one in self.directions)

    def epsilon(self, delta: float) -> float:
        """Return the larger epsilon at ``delta``."""
        return max(one.epsilon(delta) for one in self.directions)


Parts = Sequence[tuple[Masses, int]]


def compose(parts: Parts, interval: float, log_delta: float) -> Tilted:
    """Return the total of parts, each with its number of repetitions, for deltas near one.

    Parameters
    ----------
    parts : sequence of (Masses, int)
        The parts in one direction.
    interval : float
        Step of the grid.
    log_delta : float
        Logarithm of the delta, below 0.
    """
    return tilted(parts, interval, _tilt(parts, log_delta) / interval)


def _tilt(parts: Parts, log_delta: float) -> float:
    """Return nearly the tilt of the index at which Chernoff's bound of delta is at its mean."""
    pooled = [(masses.pooled(), n) for masses, n in parts]
    variance = sum(n * masses.moments(0.0)[2] for masses, n in pooled)
    if not variance > 0:
        return 0.0

    def excess(log_tilt: float) -> float:
        tilt, total = math.exp(log_tilt), 0.0
        for masses, n in pooled:
            log_moment, mean, _ = masses.moments(tilt)
            total += n * (tilt * mean - log_moment)
        return math.log(max(total, 1e-300) / -log_delta)

    low = high = math.log(-2 * log_delta / variance) / 2
    while excess(low) > 0 and low > -80:
        low -= 1
    # beyond a tilt of 1 for each index, no more than the largest loss is left
    while excess(high) < 0 and high < 0:
        high += 1
    if excess(low) > 0 or excess(high) < 0:
        return math.exp(low if excess(low) > 0 else min(high, 0.0))
    return math.exp(optimize.brentq(excess, low, high, xtol=0.01))


def _infinity(parts: Parts) -> float:
    """Return the mass at infinity of the total."""
    if any(masses.infinity >= 1 for masses, _ in parts):
        return 1.0
    kept = sum(n * math.log1p(-masses.infinity) for masses, n in parts)
    return abs(math.expm1(kept)) * (1 + 1e-14)


def tilted(parts: Parts, interval: float, tilt: float) -> Tilted:
    """Return the total under ``tilt``; OverflowError where it has too many points."""
    step, log_moment, each = tilt * interval, 0.0, []
    for masses, n in parts:
        constant = masses.log_moment(step)
        with np.errstate(invalid="ignore"):
            terms = np.abs(masses.log_probs) + np.abs(step * masses.indices) + abs(constant) + 1
            probs = np.exp(masses.log_probs + step * masses.indices - constant)
            probs = np.where(masses.probs > 0, probs * (1 + 4 * _UNIT * terms), 0.0)
        each.append((Masses(masses.low, probs, 0.0), n))
        log_moment += n * constant
    low, high = _window(each)
    if high - low >= MOST_COMPOSED:
        raise OverflowError("the privacy losses are too many for their grid")
    probs, outside = each[0][0].probs, 0.0
    if sum(n for _, n in parts) > 1:
        probs, outside = _convolved(each, low, high), _OUTSIDE
    return Tilted(interval, tilt, log_moment, low, probs, outside, _infinity(parts))


def _convolved(parts: Parts, low: int, high: int) -> Array:
    """Return the masses of the total from index low to high, rounded up."""
    most = max(high - low + 1, *(one.probs.size for one, _ in parts))
    size = fft.next_fast_len(most, real=True)
    kappa = _PER_HALVING * _UNIT * max(1.0, math.log2(size))
    spectrum: Any = 1.0
    largest: Any = 1.0
    relative: Any = kappa
    for masses, n in parts:
        # a loss of 0 at index 0, so that phases are small
        placed = np.zeros(size)
        placed[np.arange(masses.low, masses.low + masses.probs.size) % size] = masses.probs
        one = fft.rfft(placed)
        bound = np.abs(one) + kappa
        spectrum, largest = spectrum * _power(one, n), largest * bound**n
        relative = relative + n * (kappa / bound + 3 * _UNIT)
    # all frequencies but the first and the last stand for two
    error = 2 * float(np.sum(largest * relative)) / size * (1 + 1e-3)
    sums = fft.irfft(spectrum, size)
    return np.maximum(sums[np.arange(low, high + 1) % size], 0.0) + error


def _power(base: Array, exponent: int) -> Any:
    """Return an integer power by squaring: numpy's takes a logarithm."""
    result: Any = 1.0
    while exponent:
        if exponent % 2:
            result = result * base
        base, exponent = base * base, exponent // 2
    return result


def _window(parts: Parts) -> tuple[int, int]:
    """Return bounds on the total index with at most ``_OUTSIDE`` of the masses on each side."""
    low = sum(n * masses.low for masses, n in parts)
    high = sum(n * (masses.low + masses.probs.size - 1) for masses, n in parts)
    if sum(n for _, n in parts) == 1:
        return low, high
    moments = [(masses, n, *masses.moments(0.0)) for masses, n in parts]
    centre = sum(n * mean for _, n, _, mean, _ in moments)
    variance = sum(n * one for _, n, _, _, one in moments)

    def deviation(sign: int) -> float:
        """Return what the total exceeds its mean by with a probability of at most that."""
        least = math.inf
        for reach in sign * _REACHES / math.sqrt(max(variance, 1e-300)):
            moment = sum(n * (m.log_moment(reach) - reach * mean) for m, n, _, mean, _ in moments)
            bound = (moment - math.log(_OUTSIDE)) / abs(reach)
            if not bound < least:
                break
            least = bound
        return least

    low = max(low, math.floor(centre - deviation(-1)) - 1)
    return low, min(high, math.ceil(centre + deviation(1)) + 1)
