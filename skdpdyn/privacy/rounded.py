"""Guarantees of runs as they are computed, from those of the exact runs that they are close to.

On the same records, telling a computed run from the exact one is at least as hard as telling N(0,
1) from N(mu/2, 1), where mu is the ``rounding`` of a record (`skdpdyn.core.rounding`). So two
computed runs are at most twice that further apart than two exact ones, once on each side.
"""

import math
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np

from skdpdyn.privacy._numerics import gdp_log_deltas
from skdpdyn.privacy._types import Array, Floats
from skdpdyn.privacy.fields import Checked, Tame
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee, Whole, Wrapped
from skdpdyn.privacy.mixtures import ProfileMixture
from skdpdyn.privacy.renyi import Curve, RenyiDP
from skdpdyn.privacy.stored import stored, stored_part

_REACH = 20.0  # in units of mu/2, of the epsilon of one side
_NEAR = 100.0  # epsilons up to here share one epsilon of a side
_FAR = 1e9  # an epsilon beyond which delta falls no more, and no epsilon is promised
# relative excess of the Renyi order that is asked of the exact runs
_LEAST_TILT = 1e-6
_MOST_TILT = 0.1


@singledispatch
def rounded(guarantee: Guarantee, mu: float) -> Guarantee:
    """Return the guarantee of the computed runs.

    Parameters
    ----------
    guarantee : Guarantee
        Guarantee of the exact runs.
    mu : float
        Twice the distance of a computed run from the exact one on the same records, as a Gaussian
        guarantee.

    Returns
    -------
    Guarantee
        Of Gaussian guarantees and mixtures of them by the triangle inequality of trade-off
        functions (Dong, Roth and Su 2022, Lemma A.5), which adds up mu; of Renyi curves by
        `RoundedCurve`; of others by `RoundedDP`.
    """
    return RoundedDP(guarantee, mu)


@rounded.register
def _(guarantee: GaussianDP, mu: float) -> Guarantee:
    if guarantee.failure:  # a side makes it a little more likely
        return RoundedDP(guarantee, mu)
    return replace(guarantee, mu=guarantee.mu + mu)


@rounded.register
def _(guarantee: ProfileMixture, mu: float) -> ProfileMixture:
    return replace(guarantee, mus=tuple(mu_of_part + mu for mu_of_part in guarantee.mus))


@rounded.register
def _(guarantee: RenyiDP, mu: float) -> RenyiDP:
    return replace(guarantee, curve=RoundedCurve(guarantee.curve, mu))


@stored_part
@dataclass(frozen=True)
class RoundedCurve(Checked):
    """The Renyi curve of computed runs, by the weak triangle inequality (Mironov 2017, Prop. 11).

    For 1/p + 1/q = 1, D_a(P, R) <= (a - 1/p) / (a - 1) D_{pa}(P, Q) + D_{q (a - 1/p)}(Q, R). Where
    P, Q is the side, q is 1 + t, and D_{q (a - 1/p)} is that of the exact runs and the other side.
    Where Q, R is the side, p is: the large order must be the side's, and the divergence of the
    exact runs pays the factor. That p is nearer to 1 where the order is, so that the factor is at
    most 1 + t. Any t is valid, at each order. A side costs about a mu^2 / (8 t), and the exact runs
    about t times their divergence more, so that the root of the ratio is near the best.
    """

    curve: Curve
    rounding_mu: Tame

    @property
    def adjacency(self) -> Any:
        """Adjacency of the exact runs' curve, if it has one."""
        return getattr(self.curve, "adjacency", None)

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        excess = order - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.sqrt(order / self.curve(order)) * self.rounding_mu / math.sqrt(8)
        most = np.fmin(np.fmax(best, _LEAST_TILT), _MOST_TILT)
        far = 1 + 1 / most
        noise_cost = (order - 1 / far) / excess * far * order * self.rounding_mu**2 / 8
        excess = (1 + most) * excess
        tilt = most * np.minimum(excess, 1.0)
        p = 1 + tilt
        q = 1 + 1 / tilt
        shifted = excess + tilt / p  # the order, less 1/p
        return (
            noise_cost
            + shifted / excess * self.curve(p * (1 + excess))
            + q * shifted * self.rounding_mu**2 / 8
        )


@stored
@dataclass(frozen=True)
class RoundedDP(Wrapped):
    """A guarantee of exact runs, for the computed ones.

    If one side costs (e1, d1) at most and the exact runs are (epsilon, delta)-private, the
    computed ones are (epsilon + 2 e1, exp(e1) delta + (1 + exp(epsilon + e1)) d1)-private.

    Parameters
    ----------
    exact : Guarantee
        Guarantee of the exact runs.
    rounding_mu : float
        Twice the distance of a computed run from the exact one on the same records.

    Examples
    --------
    >>> from skdpdyn.privacy import ApproximateDP
    >>> from skdpdyn.privacy.rounded import RoundedDP
    >>> round(RoundedDP(ApproximateDP(1.0, 1e-6), 1e-9).epsilon(1.1e-6), 6)
    1.0
    """

    exact: Whole
    rounding_mu: Tame

    _inside = "exact"

    @property
    def failure(self) -> float:
        """Probability of an event outside of which the guarantee holds, see `GaussianDP`."""
        return getattr(self.exact, "failure", 0.0)

    def _at(self, epsilon: Floats, limit: float) -> Any:
        """Return a delta at epsilons up to ``limit``, with one epsilon for all: it never grows."""
        side = self._side(limit)
        with np.errstate(divide="ignore"):
            log_exact = side + np.log(self.exact.delta(np.maximum(epsilon - 2 * side, 0.0)))
        lost = self._lost(epsilon, side)
        exact = np.exp(np.minimum(log_exact, 0.0))
        # delta(0) of the exact runs is all that is known below
        exact = exact + np.maximum(2 * side - epsilon, 0.0)
        return np.minimum(1.0, exact + lost)

    def _side(self, limit: float) -> float:
        """Return an epsilon of one side so large that exp(limit) times its delta is below 1e-86."""
        return (_REACH + math.sqrt(2 * limit)) * self.rounding_mu / 2

    def _lost(self, epsilon: Floats, side: float) -> Any:
        """Return the part of delta of both sides, given one side's epsilon, ``side``."""
        return np.exp(
            np.minimum(
                math.log(2) + epsilon + side + gdp_log_deltas(side, self.rounding_mu / 2), 0.0
            )
        )

    def _delta(self, epsilon: Array) -> Any:
        near = self._at(np.minimum(epsilon, _NEAR), _NEAR)
        if not np.any(epsilon > _NEAR):
            return near
        far = self._at(np.clip(epsilon, _NEAR, _FAR), _FAR)
        return np.where(epsilon > _NEAR, np.minimum(near, far), near)

    def _epsilon(self, delta: float) -> float:
        side = self._side(_NEAR)
        exact = self.exact.epsilon(delta * math.exp(-side) * (1 - 1e-9))
        epsilon = exact + 2 * side
        something = exact > 0 and side > 1e-9 * delta
        if something and epsilon <= _NEAR and self._lost(epsilon, side) <= 1e-10 * delta:
            return epsilon
        return super()._epsilon(delta)

    def _start(self, delta: float) -> tuple[float, float]:
        return 2 * self._side(_NEAR), 0.0

    def _closed_form(self, other: Guarantee) -> Guarantee | None:
        if isinstance(other, RoundedDP):
            return RoundedDP(
                self.exact.compose(other.exact), math.hypot(self.rounding_mu, other.rounding_mu)
            )
        joint = self.exact._closed_form(other) or other._closed_form(self.exact)
        if joint is None and self.failure:  # no numerical part may fail
            joint = self.exact.compose(other)
        return None if joint is None else RoundedDP(joint, self.rounding_mu)

    def _renyi_curve(self) -> Any:
        curve = self.exact._renyi_curve()
        return None if curve is None else RoundedCurve(curve, self.rounding_mu)

    def _gaussian_bound(self) -> float | None:
        mu = self.exact._gaussian_bound()
        return None if mu is None else mu + self.rounding_mu
