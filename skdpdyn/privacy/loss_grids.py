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
   gives a bound too, so that it need not be exact. Where exp(K - t epsilon) is above e^700, far
   below the likely losses, tilted masses may be 0 in doubles, and delta is said to be 1.
3. *The FFT's rounding.* Let u = 2^-53 and kappa = `_PER_HALVING` u log2 N. Every output of an FFT
   over N points of masses p is a tree of sums whose partial results are at most the masses below
   them in absolute value. A stage of radix 2, 3, 4 or 5 (sizes have no other factors) turns and
   adds; its twiddle factors, products and sums have relative errors that add up to less than 8 u
   for each factor of 2 of the radix, so that |F^ - F| <= kappa sum(p), and `_PER_HALVING` is twice
   that. By repeated squaring, the n-th power of a complex number is off by (n - 1) 3 u, relative.
   With a = |F^| + kappa, which is at least |F|, the spectrum of the composition is off by at most

       A (sum_i n_i (kappa / a_i + 3 u)), A = prod_i a_i^n_i,

   at every frequency; where masses but that of 0 add up to b, little, the n-th power is exp(n log(1
   + x)), |x| <= 2 b, and its relative error is 2 n b (kappa + 32 u) + 8 u, besides a
   factor (1 + u)^n of the rounded sum of all masses, which is rounded up. A mass of the total is
   off by the mean over frequencies of that and of kappa A, for the inverse FFT. This mean is added
   to every mass. As A is small at most frequencies where there are many releases, it is about n
   kappa times the *largest mass of the tilted total*, and that is next to epsilon: the charge is
   about n kappa of the answer, not of Chernoff's bound. Where there is one release, there is no FFT
   and no charge.
4. *The masses* exp(log p + t l - c) that enter have errors of 4 u times their exponents' terms, and
   are rounded up by that. c stands for K in both places, so that its own error does not matter.
5. *Outside of the window* that the FFT folds, on either side, the tilted total has a mass of at
   most `_OUTSIDE`, by Chernoff's bound. What is folded in only adds; what is folded out of the
   losses above epsilon has w <= 1 and is added.
6. *Many releases of small losses and of rare large ones* (`Split`) fit no single grid: an interval
   must be below a usual loss, and there are more such intervals in a large one than an FFT can
   hold. One lemma puts them on two. As (1 - u exp(epsilon - x))_+ falls with u and is convex in it,
   delta does not fall where a loss is replaced by a random one, independent of the others, with
   E exp(-loss) no larger. So (a) a loss may be put at the two multiples around it of a coarser
   interval, and (b) an independent loss x with E exp(-x) <= 1 may be added. Let A be the losses
   below a bound, of probability a, and s <= -log E_A exp(-loss). Then x = A - s may be added to a
   rare loss, by (b), so that a release costs no more than A - s, and independently s with
   probability a and else a rare loss. The s of n releases cancel: n times A on a fine grid, the
   total of which moves to the coarse one by (a), and n times 0 with probability a, else a rare
   loss less s, on the coarse grid. Only as many A as there are rare losses were added.
7. *Rare losses so large* that a single one decides delta have a density that falls more slowly
   than any exponential: under no tilt are losses near epsilon the likely ones, but either the
   small ones or the largest. So delta is a sum over two events, each under a tilt of its own: no
   release has a rare loss, or some have. With r_i the transform of the rare losses of a release
   over the probability of none, p_i, the spectrum of both is prod p_i^n_i exp(A), A = sum_i n_i
   log(1 + r_i), and that of the second prod p_i^n_i (exp(A) - 1), in which nothing cancels. Where
   all |r_i| <= rho_i < 1/2, A is off by at most 2 sum_i n_i rho_i (kappa + 32 u).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import fft, special

from skdpdyn.privacy._logarithms import log_expm1
from skdpdyn.privacy._numerics import safe_root, smallest_safe
from skdpdyn.privacy._types import Array

MOST_COMPOSED = 2**22  # points of a composed grid
_MOST_FOLDED = 2**18  # and of one round of small losses
PROFILE_ERROR = 1e-12  # of the deltas that profiles give, relative
_DIFFERENCE_ERROR = 1e-15  # of a difference of neighbours on a profile, relative
_UNIT = 2.0**-53
_PER_HALVING = 16  # roundings of an FFT for each factor of 2 of its size
_OUTSIDE = 1e-18  # of the tilted total on each side of its window
_RARE = 0.1  # of the mass at a loss of 0: where others have less, a power of them is precise
_LEAST = 1e-300  # probability that a smaller one is rounded up to
_MANY_RARE = 30.0  # rare losses that are expected: none is then less likely than a rounding
_SEEN = 20.0  # logarithm of Chernoff's bound over delta, up to which roundings are small
_BLOCK = 4096  # losses that are summed, or raised to a power, at once
_MOST_MOMENT = 600.0  # K of a tilt for deltas near 1
_POOLED = 4096  # points of a part that are enough to choose a tilt
_REACHES = 2.0 ** np.arange(3, -8, -1)  # tried for Chernoff's bounds, per standard deviation


class RareLosses(StrEnum):
    """Which rare losses the releases have: any, none, or some."""

    ANY = "any"
    NONE = "none"
    SOME = "some"


@dataclass(frozen=True)
class Goal:
    """Logarithm of the delta that grids are for, and a near epsilon there, or infinity."""

    log_delta: float
    epsilon: float = math.inf


class Cumulants(NamedTuple):
    """The logarithm of a moment generating function, and its first two derivatives."""

    log_moment: float
    mean: float
    variance: float


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

    def moments(self, step: float) -> Cumulants:
        """Return log sum p_i exp(step i), and mean and variance of i under that tilt."""
        exponents = self.log_probs + step * self.indices
        top = float(np.max(exponents))
        weights = np.exp(exponents - top)
        total = float(np.sum(weights))
        mean = float(np.sum(weights * self.indices)) / total
        variance = float(np.sum(weights * (self.indices - mean) ** 2)) / total
        return Cumulants(math.log(total) + top, mean, variance)

    def pooled(self) -> "Masses":
        """Return few masses that are near these: for numbers that need not be exact."""
        block = -(-self.probs.size // _POOLED)
        starts = np.arange(0, self.probs.size, block)
        pooled = Masses(0, np.add.reduceat(self.probs, starts), self.infinity)
        sums = np.add.reduceat(self.probs * self.indices, starts)
        empty = pooled.probs == 0
        middle = self.indices[starts] + block / 2
        vars(pooled)["indices"] = np.where(empty, middle, sums / np.where(empty, 1, pooled.probs))
        return pooled


def connect_dots(above: Array, swapped: Array, epsilon: Array) -> Masses:
    """Return the masses of the pair whose profile is a chord of a part's between grid points.

    Parameters
    ----------
    above : ndarray of shape (n + 1,)
        Delta of P against Q at ``epsilon``.
    swapped : ndarray of shape (n + 1,)
        Delta of Q against P there.
    epsilon : ndarray of shape (n + 1,)
        Points of the grid, which grow from 0.

    Returns
    -------
    Masses
        Under P, by number of the point. A loss of -l has exp(-l) times the mass that l has where P
        and Q are swapped, so that no mass is a difference of large numbers.

    Notes
    -----
    Errors of up to e in all deltas are made up for by factors of 1 + 3 e above 0, and 1 - 3 e
    below. Above 0 that is plain. At -epsilon, delta is 1 - Q exp(-epsilon) + exp(-epsilon)
    delta_swapped(epsilon), where Q is the total mass of the swapped run. Q is then below 1 by at
    least 4 e delta(0), and delta_swapped is too small by at most that. Masses that rounding made
    negative are set to 0 above 0, and made up for by still lower losses below 0: mass moves up.
    """
    fall, fall_swapped = (-np.diff(np.minimum.accumulate(delta)) for delta in (above, swapped))
    widths = np.diff(epsilon)
    lost = _DIFFERENCE_ERROR / widths
    upper = np.maximum(_masses(fall, widths), 0.0) * (1 + 3 * PROFILE_ERROR) + fall * lost
    lower = _masses(fall_swapped, widths) * (1 - 3 * PROFILE_ERROR) - fall_swapped * lost
    lower *= np.exp(-epsilon[1:])
    at_most = np.maximum(np.minimum.accumulate(np.cumsum(lower[::-1])[::-1]), 0.0)
    lower = -np.diff(np.append(at_most, 0.0))
    infinity = float(above[-1]) * (1 + 3 * PROFILE_ERROR)
    at_zero = max(0.0, 1.0 - float(np.sum(lower) + np.sum(upper)) - infinity) + 1e-15
    probs = np.concatenate([lower[::-1], [at_zero], upper])
    occupied = np.flatnonzero(probs)
    return Masses(int(occupied[0]) - lower.size, probs[occupied[0] : occupied[-1] + 1], infinity)


def _masses(fall: Array, widths: Array) -> Array:
    """Return the masses at all points but the first of a profile that falls so between them."""
    masses = fall / -np.expm1(-widths)
    masses[:-1] -= fall[1:] / np.expm1(widths[1:])
    return masses


@dataclass(frozen=True, eq=False)
class Split:
    """One part's losses on two grids: small ones on a fine one, and the rare ones on the coarse.

    Attributes
    ----------
    small : Masses
        Small losses, conditional on being small, by multiples of the fine interval.
    log_stay : float
        Logarithm of the probability that the loss is small, or is 0 on the coarse grid.
    rare : Masses
        All others by multiples of the coarse interval, over that probability.
    ratio : int
        Coarse interval over the fine one.
    steps : tuple of float
        Tilts of the fine index, under which the tail of the small losses' total is likely: rare
        losses, that are likely under larger tilts, must not hide it. A mass is the least of what
        all tilts say.
    """

    small: Masses
    log_stay: float
    rare: Masses
    ratio: int
    steps: tuple[float, ...]


def rare_from(masses: Masses, step: float, rare: float) -> int:
    """Return the index from which on losses, in size, have a tilted probability below ``rare``."""
    weights = np.exp(masses.log_probs + step * masses.indices - masses.moments(step).log_moment)
    size = np.abs(masses.indices).astype(int)
    beyond = np.cumsum(np.bincount(size, weights)[::-1])[::-1]
    return max(int(np.sum(beyond > rare)), 1)


def split(
    part: tuple[Masses, int], fine: int, ratio: int, interval: float, log_delta: float
) -> Split:
    """Return the losses of a grid that is ``ratio`` times as fine up to its point ``fine``.

    Parameters
    ----------
    part : (Masses, int)
        By number of the point: multiples of ``interval / ratio`` up to that of number ``fine``,
        which is a multiple of ``interval``, and multiples of ``interval`` from there on. And the
        repetitions.
    fine, ratio : int
        Those numbers.
    interval : float
        The coarse interval.
    log_delta : float
        Logarithm of the delta.
    """
    masses, n = part
    number = masses.low + np.arange(masses.probs.size)
    is_small = np.abs(number) < fine
    probs = masses.probs[is_small]
    losses = number[is_small] * (interval / ratio)
    total = float(np.sum(probs))
    gains = probs * -np.expm1(-losses)
    slack = 1e-14 * float(np.sum(np.abs(gains))) / total
    shift = -math.log1p(-float(np.sum(gains)) / total)
    shift -= slack + 4e-15 * abs(shift)
    small = Masses(int(number[is_small][0]), probs / total * (1 + 4 * _UNIT), 0.0)
    rare = masses.probs[~is_small]
    cells = number[~is_small]
    cells = np.sign(cells) * (np.abs(cells) - fine + fine // ratio)
    # a loss less the shift, at the two multiples around it
    cells_moved = math.floor(-shift / interval)
    above = -math.expm1(cells_moved * interval + shift) / -math.expm1(-interval)
    above = min(max(above * (1 + 1e-13) + 1e-15, 0.0), 1.0)
    low = min(int(np.min(cells, initial=0)) + cells_moved, 0)
    size = max(int(np.max(cells, initial=0)) + cells_moved + 1, 0) - low + 1
    moved = np.zeros(size)
    moved[cells + cells_moved - low] += rare * (1 - above)
    moved[cells + cells_moved + 1 - low] += rare * above
    stay = total + float(moved[-low])
    moved[-low] = 0.0
    step = best_tilt([(small, n)], 1.0, Goal(log_delta))
    rare_masses = Masses(low, moved / stay * (1 + 8 * _UNIT), masses.infinity)
    log_stay = math.log(stay) + 4 * _UNIT
    return Split(small, log_stay, rare_masses, ratio, (step / 2, step))


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
        """Fold the sums beyond a length onto those within it.

        w(x + y) = e^(-t y) (w(x) + e^(-(t + 1) x) (1 - e^-y)).
        """
        fall = math.exp(-self.tilt * length)
        second = after[1] - math.expm1(-length) * after[0]
        return within[0] + fall * math.exp(-length) * after[0], within[1] + fall * second

    def delta(self, epsilon: float) -> float:
        """Return delta at ``epsilon``."""
        if math.isinf(epsilon / self.interval):
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
        # so far below the likely losses that masses may be 0 in doubles, or sums not numbers
        if not (exponent <= 700.0 and total >= 0):
            return 1.0
        total = (total * (1 + 1e-11) + self.outside) * math.exp(exponent)
        return min(1.0, total + self.infinity)


@dataclass(frozen=True)
class Direction:
    """The total in one direction: a sum over events that exclude each other."""

    events: tuple[Tilted, ...]

    def delta(self, epsilon: float) -> float:
        """Return delta at ``epsilon``."""
        return min(1.0, math.fsum(event.delta(epsilon) for event in self.events))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at which delta is at most ``delta``, rounded up."""
        if delta >= self.delta(0.0):
            return 0.0
        if delta <= math.fsum(event.infinity for event in self.events):
            return math.inf
        target = math.log(delta)

        # in logarithms, which fall nearly on a line
        def missed(epsilon: float) -> float:
            return target - math.log(max(self.delta(epsilon), 1e-300))

        chernoff = ((event.log_moment - target) / event.tilt for event in self.events if event.tilt)
        start = max([self.events[0].interval, *chernoff])  # without a tilt, the interval alone
        epsilon = safe_root(missed, start, start / 10, least=0.0, xtol=1e-14, rtol=1e-14)
        if math.isinf(epsilon):  # `outside` is more than delta
            return math.inf
        # The root is known to 1e-14, which is more than all of it where it is next to 0
        return smallest_safe(epsilon, lambda x: self.delta(x) <= delta, math.inf, scale=1e-9)


@dataclass(frozen=True)
class Losses:
    """Composed losses in both directions, one where they are alike; relative error of epsilon."""

    directions: tuple[Direction, ...]
    error: float = math.inf

    def delta(self, epsilon: float) -> float:
        """Return the larger delta at ``epsilon``."""
        return max(direction.delta(epsilon) for direction in self.directions)

    def epsilon(self, delta: float) -> float:
        """Return the larger epsilon at ``delta``."""
        return max(direction.epsilon(delta) for direction in self.directions)


Repeated = Sequence[tuple[Masses, int]]
Parts = Sequence[tuple[Masses | Split, int]]


def events(parts: Parts) -> tuple[RareLosses, ...]:
    """Return the events that delta is summed over: one where rare losses are none, or many."""
    rate = sum(n * float(np.sum(masses.probs)) for masses, n in _rare(parts, RareLosses.SOME))
    return (RareLosses.NONE, RareLosses.SOME) if 0 < rate < _MANY_RARE else (RareLosses.ANY,)


def best_tilt(
    parts: Parts, interval: float, goal: Goal, event: RareLosses = RareLosses.ANY
) -> float:
    """Return nearly the tilt that leaves the most to see at a delta.

    Parameters
    ----------
    parts : sequence of (Masses or Split, int)
        The parts in one direction, each with its number of repetitions.
    interval : float
        Step of the grid.
    goal : Goal
        Where epsilon is nearly known, it is to be the tilted mean; else Chernoff's bound is to be
        delta there.
    event : {"any", "none", "some"}, default="any"
        What is summed up.
    """
    pooled = _pooled(parts, interval, event)
    has_epsilon = goal.epsilon < math.inf
    target = goal.epsilon if has_epsilon else -goal.log_delta
    start = pooled.moments(0.0)
    if not start.variance > 0 or start.mean >= goal.epsilon:
        return 0.0

    def excess(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        log_moment, mean, _ = pooled.moments(tilt)
        total = mean if has_epsilon else tilt * mean - log_moment
        return math.log(max(total, 1e-300) / target)

    most = -math.log(interval)  # beyond a tilt of 1 for each index, the largest loss is left
    tilt, beyond = _root_tilt(excess, math.log(-2 * goal.log_delta / start.variance) / 2, most)
    if not beyond and goal.log_delta < -1:
        return tilt
    # Down to an epsilon of 0 exp(K - tilt epsilon) has to be a double. K is convex, and 0 at 0
    log_moment = pooled.moments(tilt).log_moment
    return tilt * min(1.0, _MOST_MOMENT / max(log_moment, _MOST_MOMENT))


def best_seen(
    directions: Sequence[Repeated], k: int, first: int, interval: float, goal: Goal
) -> int:
    """Return the index from which on losses of part k are rare, so that all events are best seen.

    It is one of a few from ``first`` on: the first at which no event hides delta.
    """
    least = math.inf
    best = first
    most = max(parts[k][0].probs.size for parts in directions)
    for index in np.unique(np.geomspace(first, most, 12).astype(int)).tolist():
        hidden = -math.inf
        for parts in directions:
            each: Any = [*parts[:k], (_halves(parts[k][0], index), parts[k][1]), *parts[k + 1 :]]
            for event in (RareLosses.NONE, RareLosses.SOME):
                hidden = max(hidden, _hidden(each, interval, goal, event))
        if hidden < least:
            least = hidden
            best = index
        if least < _SEEN:
            break
    return best


def _halves(masses: Masses, index: int) -> Split:
    """Return losses on one grid, of which those from an index on, in size, are rare."""
    small = np.abs(masses.indices) < index
    stay = float(np.sum(masses.probs[small]))
    near, far = (
        Masses(masses.low, np.where(mask, masses.probs / stay, 0.0), 0.0)
        for mask in (small, ~small)
    )
    return Split(near, math.log(stay), far, 1, ())


def _hidden(parts: Parts, interval: float, goal: Goal, event: RareLosses) -> float:
    """Return the logarithm of Chernoff's bound on an event's part of delta, over delta."""
    tilt = best_tilt(parts, interval, goal, event)
    log_moment = _pooled(parts, interval, event).moments(tilt).log_moment
    return log_moment - tilt * goal.epsilon - goal.log_delta


def _root_tilt(excess: Callable[[float], float], start: float, most: float) -> tuple[float, bool]:
    """Return a tilt at which ``excess`` is 0, and whether the largest one leaves it below."""
    log_tilt = safe_root(excess, start, 1.0, most - 80, most, xtol=0.001)
    return math.exp(log_tilt), log_tilt >= most


def _pooled(parts: Parts, interval: float, event: RareLosses) -> "_Sum":
    """Return the total with pooled masses."""
    each = [
        (part.small.pooled(), n, interval / part.ratio)
        if isinstance(part, Split)
        else (part.pooled(), n, interval)
        for part, n in parts
    ]
    return _Sum(each, [(masses.pooled(), n, interval) for masses, n in _rare(parts, event)], event)


def _rare(parts: Parts, event: RareLosses) -> list[tuple[Masses, int]]:
    """Return the rare losses of an event, over the probability of none."""
    rare = [(part.rare, n) for part, n in parts if isinstance(part, Split)]
    return [
        (masses, n) for masses, n in rare if event is not RareLosses.NONE and np.any(masses.probs)
    ]


@dataclass(frozen=True)
class _Sum:
    """A total of masses, each with its repetitions and the step of its grid, and of rare losses."""

    each: Sequence[tuple[Masses, int, float]]
    rare: Sequence[tuple[Masses, int, float]] = ()
    event: RareLosses = RareLosses.ANY

    def moments(self, tilt: float) -> Cumulants:
        """Return log E exp(tilt L) on the event, and about mean and variance under the tilt."""
        total = np.zeros(3)
        rate = 0.0
        jumps = np.zeros(3)
        for masses, n, unit in self.each:
            log_moment, index, spread = masses.moments(tilt * unit)
            total += n * np.array([log_moment, unit * index, unit * unit * spread])
        for masses, n, unit in self.rare:
            log_moment, index, spread = masses.moments(tilt * unit)
            rate += n * float(np.logaddexp(0.0, log_moment))
            often = n * float(special.expit(log_moment))
            jumps += often * np.array([0.0, unit * index, unit * unit * (spread + index * index)])
        if self.event is RareLosses.SOME:
            jumps /= -math.expm1(-max(rate, _LEAST))
            rate = log_expm1(max(rate, _LEAST))
        log_moment, mean, variance = (total + jumps).tolist()
        return Cumulants(log_moment + rate, mean, variance)

    @property
    def span(self) -> tuple[int, int]:
        """Least and largest index of the total."""
        ends = [
            (
                n * min(masses.low, 0 if is_rare else masses.low),
                n * max(masses.low + masses.probs.size - 1, 0 if is_rare else masses.low),
            )
            for is_rare, parts in enumerate((self.each, self.rare))
            for masses, n, _ in parts
        ]
        return sum(low for low, _ in ends), sum(high for _, high in ends)


def _infinity(parts: Parts) -> float:
    """Return the mass at infinity of the total."""
    each = [((part.rare if isinstance(part, Split) else part).infinity, n) for part, n in parts]
    if any(infinity >= 1 for infinity, _ in each):
        return 1.0
    log_finite = math.fsum(n * math.log1p(-infinity) for infinity, n in each)
    return abs(math.expm1(log_finite)) * (1 + 1e-14)


def tilted(
    parts: Parts, interval: float, tilt: float, event: RareLosses = RareLosses.ANY
) -> Tilted:
    """Return the total under ``tilt``; OverflowError where it has too many points."""
    log_moment = 0.0
    outside = 0.0
    each: list[tuple[Masses, int]] = []
    for part, n in parts:
        if isinstance(part, Split):
            step = tilt * interval / part.ratio
            small, log_small = _under(part.small, step)
            steps = [step, *(longer - step for longer in part.steps if longer > step)]
            folded = _folded(small, n, part.ratio, steps, interval)
            each += folded.parts
            outside += folded.outside
            log_moment += n * log_small + folded.log_total + 4 * _UNIT * abs(n * log_small)
            log_moment += n * (part.log_stay + 4 * _UNIT * abs(part.log_stay))
            continue
        masses, log_masses = _under(part, tilt * interval)
        each.append((masses, n))
        log_moment += n * log_masses + 4 * _UNIT * abs(n * log_masses)
    rare = [(_under(masses, tilt * interval, 0.0)[0], n) for masses, n in _rare(parts, event)]
    # below doubles: see `_LEAST`
    rare = [(masses, n) for masses, n in rare if np.any(masses.probs)]
    rate = math.fsum(n * math.log1p(min(float(np.sum(masses.probs)), 1.0)) for masses, n in rare)
    log_rate = log_expm1(max(rate, _LEAST)) if event is RareLosses.SOME else rate
    log_moment += log_rate + 8 * _UNIT * (abs(log_rate) + len(rare))
    total = _Sum(
        [(masses, n, 1) for masses, n in each], [(masses, n, 1) for masses, n in rare], event
    )
    low, high = _window(total)
    if high - low >= MOST_COMPOSED or any(np.sum(masses.probs) > 0.5 for masses, _ in rare):
        raise OverflowError("the privacy losses are too many for their grid")
    probs = each[0][0].probs
    if rare or sum(n for _, n in each) > 1:
        probs = _convolved(each, low, high, rare, event)
        outside = outside + _OUTSIDE
    infinity = _infinity(parts) if event is not RareLosses.SOME else 0.0
    return Tilted(interval, tilt, log_moment, low, probs, outside, infinity)


def _under(masses: Masses, step: float, constant: float | None = None) -> tuple[Masses, float]:
    """Return masses times exp(step i - constant), rounded up; None: their sum becomes 1."""
    constant = masses.moments(step).log_moment if constant is None else constant
    with np.errstate(invalid="ignore"):
        terms = np.abs(masses.log_probs) + np.abs(step * masses.indices) + abs(constant) + 1
        probs = np.exp(masses.log_probs + step * masses.indices - constant)
        probs = np.where(masses.probs > 0, probs * (1 + 4 * _UNIT * terms), 0.0)
    return Masses(masses.low, probs, 0.0), constant


@dataclass(frozen=True)
class _Folded:
    """Repeated tilted masses, moved to a coarser grid.

    Attributes
    ----------
    parts : list of (Masses, int)
        Tilted masses of sum 1 on the coarser grid.
    log_total : float
        Logarithm of what all were divided by.
    outside : float
        Tilted mass that may lie above the windows.
    """

    parts: list[tuple[Masses, int]]
    log_total: float
    outside: float


def _folded(masses: Masses, n: int, ratio: int, steps: Sequence[float], interval: float) -> _Folded:
    """Return tilted masses n times on a grid of ``interval``, ``ratio`` times coarser.

    In rounds, where they are too many for one FFT: so many times that they fit, moved to a coarser
    grid, and so on. ``steps`` are the tilt, and what further ones add to it.
    """
    if ratio == 1:
        return _Folded([(masses, n)], 0.0, 0.0)
    groups = 1
    windows = []
    tilts = [_under(masses, step) for step in steps[1:]]
    while True:
        factors = [masses, *(tilted_masses for tilted_masses, _ in tilts)]
        windows = [_window(_Sum([(factor, n // groups, 1)])) for factor in factors]
        low = min(window[0] for window in windows)
        high = max(window[1] for window in windows)
        if high - low < _MOST_FOLDED or groups == n:
            break
        # a window is nearly as long as the root of the repetitions
        groups = min(groups * 4 ** math.ceil(math.log2((high - low + 1) / _MOST_FOLDED)), n)
    each = n // groups
    outside = 0.0
    summed = masses
    if each > 1:
        probs = _convolved([(masses, each)], low, high)
        outside = _OUTSIDE
        index = np.arange(low, high + 1)
        for step, (tilted_masses, constant) in zip(steps[1:], tilts, strict=True):
            exponent = each * constant - step * index
            exponent += 4 * _UNIT * (abs(each * constant) + np.abs(step * index))
            other = _convolved([(tilted_masses, each)], low, high) * np.exp(
                np.minimum(exponent, 700.0)
            )
            probs = np.minimum(probs, other * (1 + 4 * _UNIT))
        summed = Masses(low, probs, 0.0)
    by = ratio if groups == 1 else min(ratio, max(2, 2 ** (each.bit_length() // 2)))
    moved = _moved(summed, by, steps[0], interval / ratio)
    total = float(np.sum(moved.probs))
    moved = Masses(moved.low, moved.probs / total * (1 + 4 * _UNIT), 0.0)
    coarser = [by * step for step in steps]
    rounds = [_folded(moved, groups, ratio // by, coarser, interval)]
    if n > each * groups:
        rounds.append(_folded(masses, n - each * groups, ratio, steps, interval))
    return _Folded(
        [part for folded in rounds for part in folded.parts],
        groups * (math.log(total) + 1e-15) + math.fsum(folded.log_total for folded in rounds),
        groups * outside + math.fsum(folded.outside for folded in rounds),
    )


def _moved(masses: Masses, by: int, step: float, interval: float) -> Masses:
    """Return tilted masses at the multiples of ``by`` around each of theirs, with E exp(-loss)."""
    low = masses.low // by
    probs = np.pad(masses.probs, (masses.low - low * by, 0))
    probs = np.pad(probs, (0, -probs.size % by)).reshape(-1, by)
    offset = np.arange(by)
    above = np.expm1(-interval * offset) / math.expm1(-interval * by)
    weights = [(1 - above) * np.exp(-step * offset), above * np.exp(step * (by - offset))]
    below, beyond = (probs @ np.transpose(weights)).T * (1 + 1e-12)
    return Masses(low, np.append(below, 0.0) + np.append(0.0, beyond), 0.0)


def _convolved(
    parts: Repeated, low: int, high: int, rare: Repeated = (), event: RareLosses = RareLosses.ANY
) -> Array:
    """Return the masses of the total from index low to high, rounded up."""
    most = max(high - low + 1, *(part.probs.size for part, _ in (*parts, *rare)))
    size = fft.next_fast_len(most, real=True)
    kappa = _PER_HALVING * _UNIT * max(1.0, math.log2(size))
    spectrum: Any = 1.0
    largest: Any = 1.0
    relative: Any = kappa
    for masses, n in parts:
        # a loss of 0 at index 0, so that phases are small
        placed = _placed(masses, size)
        atom = placed[0]
        placed[0] = 0.0
        others_mass = float(np.sum(placed))
        part = fft.rfft(placed)
        if others_mass < _RARE * atom:
            power = _power_of_rare(atom, others_mass, part, n)
            error = n * others_mass / atom * 2
            error = error * (kappa + 32 * _UNIT) + 8 * _UNIT
            spectrum = spectrum * power
            largest = largest * np.abs(power) * (1 + error)
            relative = relative + error
            continue
        part += atom
        bound = np.abs(part) + kappa
        spectrum = spectrum * _power(part, n)
        largest = largest * bound**n
        relative = relative + n * (kappa / bound + 3 * _UNIT)
    if rare:
        factor, error = _of_rare([(_placed(part, size), n) for part, n in rare], event, kappa)
        bound = np.abs(factor) + error
        spectrum = spectrum * factor
        largest = largest * bound
        relative = relative + error / bound
    # all frequencies but the first and the last stand for two
    error = 2 * float(np.sum(largest * relative)) / size * (1 + 1e-3)
    sums = fft.irfft(spectrum, size)
    return np.maximum(np.roll(sums, -low)[: high - low + 1], 0.0) + error


def _placed(masses: Masses, size: int) -> Array:
    """Return masses at their indices, modulo a size."""
    placed = np.zeros(size)
    placed[: masses.probs.size] = masses.probs
    return np.roll(placed, masses.low)


def _of_rare(
    rare: Sequence[tuple[Array, int]], event: RareLosses, kappa: float
) -> tuple[Any, float]:
    """Return prod (1 + r_i)^n_i, less 1 if some are rare, over its value at 0, and its error."""
    exponent = 0.0
    rate = 0.0
    often = 0.0
    for placed, n in rare:
        transform = fft.rfft(placed)
        share = float(np.sum(placed))
        size = np.log1p(2 * transform.real + (transform * transform.conj()).real) / 2
        exponent = exponent + n * (size + 1j * np.arctan2(transform.imag, 1 + transform.real))
        rate = rate + n * math.log1p(share)
        often = often + n * share
    rate = max(rate, _LEAST)
    error = 2 * often * (kappa + 32 * _UNIT)
    if event is RareLosses.ANY:
        return np.exp(exponent - rate), error + 8 * _UNIT
    # an error of A moves exp(A) - 1 by e^rate times it at most: (rate + 1) / rate of its largest
    share = -math.expm1(-rate)
    factor = np.expm1(exponent) * (math.exp(-rate) / share)
    return factor, error / share * (1 + 1e-6) + 32 * _UNIT


def _power_of_rare(atom: float, others_mass: float, others: Array, n: int) -> Array:
    """Return the n-th power of ``atom`` plus a transform of masses whose sum is ``others_mass``.

    Of their sum it is 1 + x, where x is small. exp(n log(1 + x)) is as precise as n x is.
    """
    x = (others - others_mass) / (atom + others_mass)
    size = np.log1p(2 * x.real + (x * x.conj()).real) / 2
    turn = np.arctan2(x.imag, 1 + x.real)
    log_sum = math.log(atom + others_mass) + 2 * _UNIT  # rounded up: it is taken n times
    return np.exp(n * (size + log_sum) + 1j * n * turn)


def _power(base: Array, exponent: int) -> Array:
    """Return an integer power by squaring: numpy's takes a logarithm. A cache holds a block."""
    power = np.ones_like(base)
    for start in range(0, base.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        factor = base[block]
        for digit in reversed(f"{exponent:b}"):
            if digit == "1":
                power[block] *= factor
            factor = factor * factor
    return power


def _window(total: _Sum) -> tuple[int, int]:
    """Return bounds on the total index with at most ``_OUTSIDE`` of the masses on each side."""
    low, high = total.span
    if sum(n for _, n, _ in (*total.each, *total.rare)) == 1:
        return low, high
    total_mass, centre, variance = total.moments(0.0)

    def deviation(sign: int) -> float:
        """Return the excess of the total over its mean that has at most this probability."""
        least = math.inf
        for reach in sign * _REACHES / math.sqrt(max(variance, 1e-300)):
            moment = total.moments(float(reach)).log_moment - total_mass - reach * centre
            bound = (moment - math.log(_OUTSIDE)) / abs(reach)
            if not bound < least:
                break
            least = bound
        return least

    low = max(low, math.floor(centre - deviation(-1)) - 1)
    return low, min(high, math.ceil(centre + deviation(1)) + 1)
