"""Balls in bins: each record in one uniformly random batch of every pass, by dominating pairs.

Let a pass have B batches, z be the noise over the bound C on one record's gradient, s = 1/z, u_j
independent standard normals, X_j = exp(s u_j - s^2/2), and X'_j the same of -u_j.

*The pair of a pass.* All else fixed (convexity), a record that is in batch j moves the sums of that
batch alone, by C g_j with norm(g_j) <= 1, chosen with knowledge of all batches before. P over the
law of noise alone is then mean_j X_(g_j), X_g = exp(s <g, u_j> - s^2 norm(g)^2 / 2), and with
another record in its place there is Q with g'_j. P's delta at log(gamma) is E (sum_j X_(g_j) -
gamma X_(g'_j))_+ / B. Given the batches before, only c, the sum so far, counts: let V be convex,
not falling, and h(v, w) = V(c + e^v - gamma e^w). E h of the normal exponents grows

- where their covariance falls: its derivative there is E h_vw = -gamma E V'' e^(v + w) <= 0;
- with norm(g), where g and g' are opposite: its derivative is that by the covariance, as above, and
  norm(g) s^2 E (h_vv - h_v) = norm(g) s^2 E V'' e^(2 v) >= 0; and the same with norm(g').

So g = -g' of norm 1 is worst, whatever c is, and what V was before the batch, E h, is convex in c
and does not fall. From V(c) = c_+ after the last batch backwards, this is the proof of

    delta(log gamma) = E (sum_j X_j - gamma X'_j)_+ / B under replace_one,
    E (sum_j X_j - gamma B)_+ / B and E (B - gamma sum_j X_j)_+ / B under add_remove,

the latter with g' = 0 or g = 0: the pair of Feldman and Shenfeld (2025, 2026). Records are
allocated independently of one another, anew and secretly in every pass, so that passes compose.

*An upper bound on a sum.* These are means of convex functions of a sum of B independent numbers Y.
They do not fall where a number is replaced by a random one with that mean: Y goes to the two points
around it of a grid, sums of two go to those of another grid, and so on, in about log2 B rounds.
That is a bound on every grid. What exceeds the last point by x adds x times the largest slope.
Points are multiples of a power of 2, so that sums of two are exact, and all weights are sums of
positive products, rounded up. For add_remove, one law of the sum serves all gamma. For replace_one
each gamma has its own Y = X - gamma X'; below the first point it moves up to that, and between some
gammas delta is at most its chord.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from skdpdyn.privacy._types import Array
from skdpdyn.privacy.discrete import Atoms
from skdpdyn.privacy.fields import Checked, Count, Positive
from skdpdyn.privacy.guarantees import Adjacency, Neighbours
from skdpdyn.privacy.loss_grids import convex
from skdpdyn.privacy.stored import stored_part

_REACH = 12.0  # standard deviations: beyond it are losses that count as infinite
_POINTS, _FEWER = 2048, 512  # of a sum's grid: of the one sum of add_remove, of each of replace_one
_ROUGH = 256  # points that show how large losses are
_GAMMAS = 128  # of chords under replace_one
_STEEPEST = 4.0  # by how much logarithms change in a cell, so that quadrature has its digits
_COARSE = 64  # units of the least point above 0
_ROOM = 1 + 1e-9  # for quadrature and the last sums
_UNITS = 2.0**50  # multiples of a unit up to which sums of two are exact
_LOW_TAIL = 1e-31  # probability below the first point but 0
_SHIFT = 1e-12  # of losses, for the rounding of exponents
_LARGEST, _LEAST = 300.0, 1e-4  # exponents and shifts for which all that holds
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True, eq=False)
class _Law:
    """Weights of a number on a grid, at least its own, and its mean beyond the last point."""

    points: Array
    weights: Array
    excess: float = 0.0

    def times(self, count: int, n_points: int, tail: float, unit: float) -> "_Law":
        """Return the law of the sum of ``count`` of these."""
        if count == 1:
            return self
        half = self.times(count // 2, n_points, tail, unit)
        both = half.plus(half, n_points, tail, unit)
        return both.plus(self, n_points, tail, unit) if count % 2 else both

    def plus(self, other: "_Law", n_points: int, tail: float, unit: float) -> "_Law":
        """Return the law of the sum with another, on a grid of multiples of ``unit``."""
        seen = zip(self._seen(tail), other._seen(tail), strict=True)
        low, high, mean, variance = (one + another for one, another in seen)
        scale = math.sqrt(variance) or 1.0
        first, last = np.arcsinh((np.array([low, high]) - mean) / scale)
        grid = mean + scale * np.sinh(np.linspace(first, last, n_points))
        if self.points[0] == 0:
            grid[0] = 0.0
        grid = np.unique(np.clip(np.round(grid / unit), -_UNITS, _UNITS)) * unit
        from skdpdyn.kernels.spreads import spread_sum  # numba is loaded where it is asked for

        one = self.points, self.weights
        another = one if other is self else (other.points, other.weights)
        weights, excess = spread_sum(grid, one, another)
        excess += self.excess * np.sum(other.weights) + other.excess * np.sum(self.weights)
        room = 1 + 2.0**-50 * self.points.size * other.points.size
        return _Law(grid, weights * room, excess * room)

    def _seen(self, tail: float) -> tuple[float, float, float, float]:
        """Return points between which nearly all is, mean and variance: they need not be exact."""
        low = np.searchsorted(np.cumsum(self.weights), _LOW_TAIL)
        high = self.points.size - 1 - np.searchsorted(np.cumsum(self.weights[::-1]), tail)
        weights = self.weights / np.sum(self.weights)
        mean = weights @ self.points
        return self.points[low], self.points[high], mean, weights @ (self.points - mean) ** 2


def _law(shift: float, gamma: float, count: int, n_points: int) -> _Law:
    """Return the law of the sum of ``count`` of X - gamma X'."""
    factor = math.exp(-shift * shift / 2)
    reach = _REACH + shift
    if shift * reach > _LARGEST or shift < _LEAST:
        raise OverflowError("the noise is too extreme for sums on a grid")

    def above(u: Any, by: Any) -> Any:
        """Return Y(u + by) - Y(u), of two terms of one sign."""
        rise = np.exp(shift * u) * np.expm1(shift * by)
        return factor * (
            rise - (gamma * np.exp(-shift * u) * np.expm1(-shift * by) if gamma else 0)
        )

    u = np.linspace(-reach if gamma else -_REACH, reach, n_points)
    points = factor * (np.exp(shift * u) - gamma * np.exp(-shift * u))
    # no likely sum is above `_UNITS` units; and one that is below is as good as one that is 0
    unit = 2.0 ** math.ceil(math.log2(4 * (points[-1] + count))) / _UNITS
    points = np.unique(np.clip(np.round(points / unit), -_UNITS, _UNITS)) * unit
    if gamma:
        u = np.arcsinh(points / (2 * factor * math.sqrt(gamma))) + math.log(gamma) / 2
    else:
        points = points[points >= _COARSE * unit]
        u = np.log(points) + shift * shift / 2
    u /= shift
    middle, half = (u[1:] + u[:-1]) / 2, np.diff(u) / 2
    if not 2 * np.max(half) * (_REACH + 3 * shift) <= _STEEPEST:
        raise OverflowError("the noise is too small for sums on a grid")
    at = middle[:, None] + half[:, None] * _NODES
    density = np.exp(-at * at / 2) * (_WEIGHTS * half[:, None] / np.diff(points)[:, None])
    density /= math.sqrt(2 * math.pi)
    weights = np.zeros(points.size)
    left, right = u[:-1, None], u[1:, None]
    weights[1:] += np.sum(above(left, at - left) * density, axis=1)
    weights[:-1] -= np.sum(above(right, at - right) * density, axis=1)
    weights[-1] += special.ndtr(-u[-1])
    below = special.ndtr(u[0])
    if not gamma:  # it goes to 0 and to the first point
        up = special.ndtr(u[0] - shift) / points[0]
        points, weights = np.append(0.0, points), np.append(max(below - up, 0.0), weights)
        weights[0], below = weights[0] + 1e-12 * below, up
    weights[0 if gamma else 1] += below
    law = _Law(points, weights * _ROOM, float(special.ndtr(shift - u[-1])) * _ROOM)
    return law.times(count, n_points, math.exp(-(reach**2) / 2), unit)


@lru_cache(maxsize=64)
def _added(shift: float, count: int) -> dict[str, tuple[Atoms, float]]:
    """Return losses under add_remove and the probability of infinite ones, by direction."""
    law = _law(shift, 0.0, count, _POINTS)
    with np.errstate(divide="ignore"):
        log_weights, losses = np.log(law.weights[1:]), np.log(law.points[1:] / count)
    added = Atoms(_SHIFT - losses[::-1], log_weights[::-1])
    removed = Atoms(_SHIFT + losses, log_weights + losses)
    return {"add": (added, law.weights[0]), "remove": (removed, law.excess / count)}


@lru_cache(maxsize=64)
def _replaced(shift: float, count: int) -> tuple[Array, Array]:
    """Return numbers gamma, and delta of replace_one at their logarithms."""

    def delta(epsilon: float, n_points: int) -> float:
        law = _law(shift, math.exp(epsilon - _SHIFT), count, n_points)
        above = float(law.weights @ np.maximum(law.points, 0.0))
        return (above + law.excess) / count * _ROOM

    low, high = 0.0, 2 * shift * (_REACH + shift)
    while high - low > 0.05 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle, _ROUGH) > _LOW_TAIL else (low, middle)
    epsilon = high * np.linspace(0.0, 1.0, _GAMMAS) ** 2
    gammas = np.exp(epsilon)
    return gammas, convex(gammas, np.array([delta(x, _FEWER) for x in epsilon]))


@stored_part
@dataclass(frozen=True)
class AllocatedGaussian(Checked):
    """One pass over batches that each record is in one of, by its dominating pair.

    Parameters
    ----------
    n_batches : int
        Number B of batches in a pass.
    noise_multiplier : float
        Standard deviation z of the noise on a batch's sum over the bound on one record's
        contribution.
    adjacency : {"replace_one", "add_remove"}
        The neighbouring relation.
    """

    n_batches: Count
    noise_multiplier: Positive
    adjacency: Neighbours

    def _gaussian_bound(self) -> float:
        return self.adjacency.sum_sensitivity(1.0) / self.noise_multiplier  # its batch is told

    def _renyi_curve(self) -> None:
        return None

    @property
    def _pair(self) -> tuple[float, int]:
        return 1 / self.noise_multiplier, self.n_batches

    def delta(self, direction: str, epsilon: Array) -> Array:
        """Return a bound on delta in one direction at epsilons >= 0."""
        if direction == "replace":
            return np.interp(np.exp(epsilon), *_replaced(*self._pair))
        atoms, infinite = _added(*self._pair)[direction]
        return np.minimum(atoms.delta(epsilon) * _ROOM + infinite, 1.0)

    def largest_loss(self, tail: float) -> float:
        """Return an epsilon beyond which delta is at most ``tail``, or hardly falls."""
        try:
            if self.adjacency is Adjacency.REPLACE_ONE:
                gammas, deltas = _replaced(*self._pair)
                epsilon = np.log(gammas)
            else:
                both = _added(*self._pair)
                epsilon = np.geomspace(1e-12, max(one.losses[-1] for one, _ in both.values()), 2000)
                deltas = np.max([self.delta(direction, epsilon) for direction in both], axis=0)
        except OverflowError:
            return math.inf
        return float(epsilon[min(np.sum(deltas > max(tail, 2 * deltas[-1])), epsilon.size - 1)])
