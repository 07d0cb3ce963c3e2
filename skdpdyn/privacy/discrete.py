"""Exact guarantees of noise on integers, of randomized answers, and of Laplace noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from itertools import accumulate
from typing import Any

import numpy as np
from scipy import special

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._numerics import by_element, smallest_safe, solve_epsilon
from skdpdyn.privacy._types import Array, Floats
from skdpdyn.privacy.fields import Checked, Cost, NonNegative
from skdpdyn.privacy.guarantees import (
    Adjacency,
    GaussianDP,
    Guarantee,
    LinearCurve,
    Neighbours,
    Unit,
)
from skdpdyn.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, RandomizedResponse
from skdpdyn.privacy.stored import stored, stored_part

_REACH = 39.0  # standard deviations from which on a normal density is below 1e-330


@stored_part
@dataclass(frozen=True)
class LaplaceCurve(Checked):
    """The Renyi curve of Laplace noise (Mironov 2017, Proposition 6)."""

    at_epsilon: Cost

    def __call__(self, order: Floats) -> Any:
        """Return the Renyi divergence of ``order``, rounded up."""
        s, excess = self.at_epsilon, np.asarray(order, dtype=float) - 1
        fall = excess * np.expm1(-(1 + 2 * excess) * s) / (1 + 2 * excess)
        return np.minimum(s * (1 + 1e-15) + np.log1p(fall) / excess, s)[()]


@stored
@dataclass(frozen=True)
class LaplaceDP(Guarantee):
    """The profile of Laplace noise: delta(epsilon) = 1 - exp((epsilon - s) / 2) up to s.

    That of one number whose change is the whole sensitivity. Where several numbers share it, the
    profile is below: with s1 + s2 = s, s1 >= s2, the composition of both has this delta less s2/2
    exp((epsilon - s) / 2) up to s1 - s2, and less (s - epsilon)/4 exp((epsilon - s) / 2) beyond.

    Parameters
    ----------
    at_epsilon : float
        The pure epsilon s: sensitivity over the scale of the noise, >= 0.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation that it holds for.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.

    Examples
    --------
    >>> from skdpdyn.privacy import LaplaceDP
    >>> round(LaplaceDP(1.0).delta(0.5), 6), LaplaceDP(1.0).epsilon(0.0)
    (0.221199, 1.0)
    """

    at_epsilon: NonNegative
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    unit: Unit = "record"

    at_delta = 0.0  # no field: what holds at `at_epsilon`

    def _delta(self, epsilon: Array) -> Any:
        return np.abs(np.expm1(np.minimum(epsilon - self.at_epsilon, 0.0) / 2))

    def _epsilon(self, delta: float) -> float:
        if delta >= self.delta(0.0):
            return 0.0
        epsilon = max(self.at_epsilon + 2 * math.log1p(-delta), 1e-300)
        return smallest_safe(
            epsilon, lambda x: self.delta(x) <= delta, math.inf, scale=self.at_epsilon
        )

    def _renyi_curve(self) -> LaplaceCurve:
        return LaplaceCurve(self.at_epsilon)

    @property
    def dp_event(self) -> Any:
        """``LaplaceDpEvent(1 / at_epsilon)``, for an accountant of ``neighboring_relation``."""
        import dp_accounting

        if self.at_epsilon == 0:
            return dp_accounting.NoOpDpEvent()
        return dp_accounting.LaplaceDpEvent(1 / self.at_epsilon)

    neighboring_relation = GaussianDP.neighboring_relation


@dataclass(frozen=True, eq=False)
class Atoms:
    """Losses of one direction, which grow, and the logarithms of their probabilities."""

    losses: Array
    log_probs: Array

    @cached_property
    def _beyond(self) -> tuple[Array, Array]:
        """Return the probability from each loss on, and delta there; all terms are positive."""
        total = np.append(np.cumsum(np.exp(self.log_probs[::-1]))[::-1], 0.0)
        fall = np.diff(self.losses)
        steps = zip((total[1:-1] * -np.expm1(-fall))[::-1], np.exp(-fall)[::-1], strict=True)
        deltas = accumulate(steps, lambda after, step: step[0] + step[1] * after, initial=0.0)
        return total, np.array([*deltas])[::-1]

    def delta(self, epsilon: Array) -> Array:
        """Return delta at epsilons."""
        total, deltas = self._beyond
        index = np.searchsorted(self.losses, epsilon, side="right")
        near = np.minimum(index, self.losses.size - 1)
        gap = np.minimum(epsilon - self.losses[near], 0.0)
        return np.where(
            index < self.losses.size, -np.expm1(gap) * total[index] + np.exp(gap) * deltas[near], 0
        )

    def log_moment(self, excess: float) -> float:
        """Return log E exp(excess * loss)."""
        if excess * np.max(np.abs(self.losses)) < 1:
            return math.log1p(np.exp(self.log_probs) @ np.expm1(excess * self.losses))
        return float(special.logsumexp(self.log_probs + excess * self.losses))


@singledispatch
def _directions(mechanism: Any) -> Sequence[Atoms]:
    """Return the losses of the worst neighbours; of one direction where both are alike."""
    raise UnsupportedMechanismError(f"{type(mechanism).__name__} has no finite set of losses")


@_directions.register
def _(mechanism: DiscreteLaplace) -> Sequence[Atoms]:
    a, size = mechanism.noise_parameter, mechanism.sensitivity
    fall = np.arange(size, -1.0, -1.0)
    log_probs = -a * fall + math.log(math.tanh(a / 2))
    log_probs[[0, -1]] = np.array([-a * size, 0.0]) - math.log1p(math.exp(-a))
    return (Atoms(a * (size - 2 * fall), log_probs),)


@_directions.register
def _(mechanism: DiscreteGaussian) -> Sequence[Atoms]:
    variance, size = mechanism.scale**2, mechanism.sensitivity
    reach = math.ceil(_REACH * mechanism.scale) + size
    noise = np.arange(-reach, reach + 1.0)
    log_probs = -(noise**2) / (2 * variance)
    return (Atoms(size * (noise + size / 2) / variance, log_probs - special.logsumexp(log_probs)),)


@_directions.register
def _(mechanism: RandomizedResponse) -> Sequence[Atoms]:
    p, k = mechanism.noise_parameter, mechanism.n_answers
    if p == 1 or k == 1:
        return (Atoms(np.zeros(1), np.zeros(1)),)
    other = p / k
    true = 1 - p + other
    with np.errstate(divide="ignore"):
        if mechanism.adjacency is Adjacency.REPLACE_ONE:
            most = math.log1p((1 - p) / other)
            return (Atoms(np.array([-most, 0, most]), np.log([other, (k - 2) * other, true])),)
        losses = np.array([math.log(p), math.log1p((k - 1) * (1 - p))])
        return (
            Atoms(losses, np.log([(k - 1) * other, true])),
            Atoms(-losses[::-1], np.log([1 / k, 1 - 1 / k])),
        )


@stored_part
@dataclass(frozen=True)
class DiscreteCurve:
    """The Renyi curve of a release with finitely many losses."""

    mechanism: Any

    @cached_property
    def _directions(self) -> Sequence[Atoms]:
        return _directions(self.mechanism)

    @property
    def adjacency(self) -> Any:
        """The neighbouring relation of the record."""
        return self.mechanism.adjacency

    def __call__(self, order: Floats) -> Any:
        """Return the Renyi divergence of ``order``, rounded up."""
        return by_element(self._at, np.asarray(order, dtype=float) - 1)[()]

    def _at(self, excess: float) -> float:
        most = max(float(one.losses[-1]) for one in self._directions)
        moment = max(one.log_moment(excess) for one in self._directions)
        return min(max(moment, 0.0) / excess + 1e-14 * most, most)


@stored
@dataclass(frozen=True)
class DiscreteDP(Guarantee):
    """The exact profile of a release with discrete losses, as its record says.

    - `DiscreteGaussian`, `RandomizedResponse`: the mean of (1 - exp(epsilon - loss))_+ over all
      outcomes of the worst neighbours. As discrete Gaussian noise is log-concave, sets of outcomes
      beyond a threshold are worst, and then the largest shift is. Its Renyi curve is that of
      Gaussian noise (Canonne, Kamath and Steinke 2020, Proposition 5).
    - `DiscreteLaplace`: the same of one integer that is moved by the whole sensitivity S. Where
      several integers share it, their profile is below. Proof for s + t = S: let q = e^-a, u and v
      the outcomes cut to [0, s] and [0, t], from 0 without the record. The loss is a (2 (u + v) -
      S), on the same lattice as that of one integer, so that profiles need only be compared at its
      points a (2 k - S), 1 <= k <= S. With A_k = (1 + q) q^-k P(u + v >= k), and by symmetry, the
      profile there is 1 - (q^(S-k+1) A_(S+1-k) + q^(S-k) A_k) / (1 + q); for one integer all A are
      1. So q A_(S+1-k) + A_k >= 1 + q is to be shown. For s >= t and r = 1 / (1 + q) + c m, c =
      tanh(a/2) >= 0: A_k is 1 + r with m = k - 1 up to t, 1 + c t up to s, and r with m = S - k
      beyond. In the middle both are at least 1; outside, one is r >= 1 / (1 + q) and the other 1 +
      r, and both sums are at least 1 + q.

    Parameters
    ----------
    mechanism : DiscreteGaussian, DiscreteLaplace or RandomizedResponse
        Record of the release.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.

    Examples
    --------
    >>> from skdpdyn.privacy import DiscreteDP, RandomizedResponse
    >>> coin = DiscreteDP(RandomizedResponse(noise_parameter=0.5, n_answers=2))
    >>> round(coin.delta(0.0), 6)
    0.5
    """

    mechanism: Any
    unit: Unit = "record"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._directions

    @cached_property
    def _directions(self) -> Sequence[Atoms]:
        return _directions(self.mechanism)

    @property
    def adjacency(self) -> Any:  # type: ignore[override]
        """The neighbouring relation of the record."""
        return self.mechanism.adjacency

    @property
    def at_delta(self) -> float:
        """Delta of outcomes that no double can hold: 1e-300 of Gaussian noise, else 0."""
        return 1e-300 if isinstance(self.mechanism, DiscreteGaussian) else 0.0

    @property
    def at_epsilon(self) -> float:
        """The largest loss, beyond which delta is ``at_delta``."""
        return max(float(one.losses[-1]) for one in self._directions)

    def _delta(self, epsilon: Array) -> Any:
        deltas = np.max([one.delta(epsilon) for one in self._directions], axis=0)
        return np.minimum(deltas * (1 + 1e-13) + self.at_delta, 1.0)

    def _epsilon(self, delta: float) -> float:
        if delta < self.at_delta:
            return math.inf

        def log_delta(epsilon: float) -> float:
            found = self.delta(epsilon)
            return math.log(found) if found > 0 else -math.inf

        epsilon = solve_epsilon(log_delta, delta, self.at_epsilon)
        return smallest_safe(epsilon, lambda x: self.delta(x) <= delta, math.inf)

    def _renyi_curve(self) -> Any:
        if isinstance(self.mechanism, DiscreteGaussian):
            return LinearCurve((self.mechanism.sensitivity / self.mechanism.scale) ** 2 / 2)
        return DiscreteCurve(self.mechanism)

    @property
    def dp_event(self) -> Any:
        """The record's event, for an accountant of ``neighboring_relation``."""
        from dp_accounting import dp_event

        record = self.mechanism
        if isinstance(record, DiscreteLaplace):
            return dp_event.DiscreteLaplaceDpEvent(record.noise_parameter, record.sensitivity)
        if isinstance(record, RandomizedResponse):
            return dp_event.RandomizedResponseDpEvent(record.noise_parameter, record.n_answers)
        return super().dp_event

    @property
    def neighboring_relation(self) -> Any:
        """ADD_OR_REMOVE_ONE of noise; of answers, REPLACE_ONE or REPLACE_SPECIAL."""
        import dp_accounting

        _ = self.dp_event  # raises if there is no event
        relations = dp_accounting.NeighboringRelation
        if isinstance(self.mechanism, DiscreteLaplace):
            return relations.ADD_OR_REMOVE_ONE
        replaced = self.adjacency is Adjacency.REPLACE_ONE
        return relations.REPLACE_ONE if replaced else relations.REPLACE_SPECIAL
