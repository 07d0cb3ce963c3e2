"""Privacy losses of parts on a grid, and of their composition under a tilt, on the safe side.

Every part is discretised by connecting the dots of its profile (Doroshenko, Ghazi, Kamath, Kumar
and Manurangsi 2022, Algorithm 1). The total loss is a sum of independent ones, so that FFTs compute
its distribution.

FFTs have an absolute error. So they convolve the tilted masses p(l) exp(t l - log M(t)), where M(t)
= sum p(l) exp(t l), and the tilt t is nearly the one at which exp(log M(t) - t epsilon), Chernoff's
bound on the mass beyond epsilon, is smallest. What rounding and truncation can move is about 1e-15
per release of the tilted total, which is that part of Chernoff's bound in delta(epsilon): a small
relative error, however small delta is. It is added to delta.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import fft, optimize

from skdpdyn.privacy._numerics import smallest_safe
from skdpdyn.privacy._types import Array, Floats

MOST_COMPOSED = 2**22  # points of a composed grid
_TAIL = 1e-15  # part of the tilted total that may lie outside of a convolution
PROFILE_ERROR = 1e-12  # of the deltas that profiles give, relative
_DIFFERENCE_ERROR = 1e-15  # of a difference of neighbours on a profile, relative
_TILTS = np.append(0.0, 2.0 ** np.arange(-10, 31))
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
class Direction:
    """Losses of all parts in one direction, each with its number of repetitions."""

    interval: float
    parts: tuple[tuple[Masses, int], ...]
    _log_moments: dict[float, float] = field(default_factory=dict, repr=False)

    @property
    def infinity(self) -> float:
        """Mass at infinity of the composition."""
        if any(masses.infinity >= 1 for masses, _ in self.parts):
            return 1.0
        return -math.expm1(sum(n * math.log1p(-masses.infinity) for masses, n in self.parts))

    @property
    def releases(self) -> int:
        """Number of all repetitions."""
        return sum(n for _, n in self.parts)

    def log_moment(self, tilt: float) -> float:
        """Return the logarithm of M(t) of the composition."""
        if tilt not in self._log_moments:
            step = tilt * self.interval
            total = sum(n * _log_moment(masses, step) for masses, n in self.parts)
            self._log_moments[tilt] = total
        return self._log_moments[tilt]

    def tilt(self, cost: Callable[[float, float], float]) -> float:
        """Return the tilt t with the least ``cost(t, log M(t))``, which has a single valley."""
        best, least = 0.0, math.inf
        for tilt in _TILTS:
            value = cost(tilt, self.log_moment(float(tilt)))
            if not value <= least:
                break
            best, least = float(tilt), value
        return best

    def delta(self, epsilon: float) -> float:
        """Return delta at ``epsilon``, all errors included."""
        if math.isinf(epsilon):
            return self.infinity
        tilt, losses, probs = _composed(
            self, self.tilt(lambda t, log_moment: log_moment - t * epsilon)
        )
        log_moment, shift = self.log_moment(tilt), tilt * epsilon
        above = slice(int(np.searchsorted(losses, epsilon, side="right")), None)
        excess = losses[above] - epsilon
        total = float(np.sum(-np.expm1(-excess) * np.exp(-tilt * excess) * probs[above]))
        lost = 1e-14 + 1e-15 * (self.releases + abs(log_moment) + shift)
        total = (total + lost) * math.exp(min(log_moment - shift, 700.0))
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

        high = max(self._chernoff_epsilon(target), self.interval)
        while not excess(high) <= 0:
            high *= 1.1
        low = high
        while low > 0 and not excess(low) > 0:
            low, high = (0.9 * low if low > 1e-9 * self.interval else 0.0), low
        epsilon = optimize.brentq(excess, low, high, xtol=1e-14, rtol=1e-14)
        # The root is known to 1e-14, which is more than all of it where it is next to 0
        return smallest_safe(epsilon, lambda x: self.delta(x) <= delta, math.inf, scale=1e-9)

    def _chernoff_epsilon(self, log_delta: float) -> float:
        """Return an epsilon at which Chernoff's bound on the finite losses allows delta."""

        def bound(tilt: float, log_moment: float) -> float:
            return (log_moment - log_delta) / tilt if tilt else math.inf

        tilt = self.tilt(bound)
        return bound(tilt, self.log_moment(tilt))


@dataclass(frozen=True)
class Losses:
    """Composed losses in both directions; one where they are alike."""

    directions: tuple[Direction, ...]

    def delta(self, epsilon: Floats) -> Array:
        """Return the larger delta at ``epsilon`` (float or array)."""
        flat = [max(one.delta(float(x)) for one in self.directions) for x in np.ravel(epsilon)]
        return np.reshape(flat, np.shape(epsilon))

    def epsilon(self, delta: float) -> float:
        """Return the larger epsilon at ``delta``."""
        return max(one.epsilon(delta) for one in self.directions)


def _log_moment(masses: Masses, tilt: float) -> float:
    """Return the logarithm of sum p_i exp(tilt i)."""
    exponents = masses.log_probs + tilt * masses.indices
    top = float(np.max(exponents))
    return math.log(float(np.sum(np.exp(exponents - top)))) + top


@lru_cache(maxsize=8)
def _composed(direction: Direction, tilt: float) -> tuple[float, Array, Array]:
    """Return a tilt up to ``tilt``, and losses and tilted masses of the composition.

    The masses add up to 1. The tilt is smaller where the composition had too many points.
    """
    step, tilted = tilt * direction.interval, []
    for masses, n in direction.parts:
        logs = masses.log_probs + step * masses.indices
        tilted.append((Masses(masses.low, np.exp(logs - _log_moment(masses, step)), 0.0), n))
    low, high = _window(tilted)
    if high - low >= MOST_COMPOSED:
        if tilt == 0:
            raise OverflowError("the privacy losses are too many for their grid")
        return _composed(direction, float(np.max(_TILTS[tilt > _TILTS])))
    size = fft.next_fast_len(max(high - low + 1, *(one.probs.size for one, _ in tilted)), real=True)
    spectrum: Any = 1.0
    for masses, n in tilted:
        # a loss of 0 at index 0, so that phases are small
        placed = np.zeros(size)
        placed[np.arange(masses.low, masses.low + masses.probs.size) % size] = masses.probs
        spectrum = spectrum * _power(fft.rfft(placed), n)
    sums = fft.irfft(spectrum, size)
    indices = np.arange(low, high + 1)
    return tilt, indices * direction.interval, np.maximum(sums[indices % size], 0.0)


def _power(base: Array, exponent: int) -> Any:
    """Return an integer power by squaring: numpy's takes a logarithm."""
    result: Any = 1.0
    while exponent:
        if exponent % 2:
            result = result * base
        base, exponent = base * base, exponent // 2
    return result


def _window(tilted: list[tuple[Masses, int]]) -> tuple[int, int]:
    """Return bounds on the total index that all but ``_TAIL`` of the masses are within."""
    low = sum(n * masses.low for masses, n in tilted)
    high = sum(n * (masses.low + masses.probs.size - 1) for masses, n in tilted)
    if sum(n for _, n in tilted) == 1:
        return low, high
    # no products of matrices: BLAS threads take longer to start
    means = [float(np.sum(masses.probs * masses.indices)) for masses, _ in tilted]
    pairs = list(zip(tilted, means, strict=True))
    centre = sum(n * mean for (_, n), mean in pairs)
    variance = sum(n * float(np.sum(m.probs * (m.indices - x) ** 2)) for (m, n), x in pairs)

    def deviation(sign: int) -> float:
        """Return what the total exceeds its mean by with a probability of at most half."""
        least = math.inf
        for reach in _REACHES / math.sqrt(max(variance, 1e-300)):
            moments = (n * (_log_moment(m, sign * reach) - sign * reach * x) for (m, n), x in pairs)
            bound = (sum(moments) - math.log(_TAIL / 2)) / reach
            if not bound < least:
                break
            least = bound
        return least

    low = max(low, math.floor(centre - deviation(-1)))
    return low, min(high, math.ceil(centre + deviation(1)))
