"""Guarantees of runs as they are computed, from those of the exact runs that they are close to.

On the same records a computed run and the exact one are as hard to tell apart as N(0, 1) from N(mu/2, 1), where mu is the
``rounding`` of a record (`skdpdyn.rounding`). So two computed runs are at most that much further apart, on both sides, than two
exact ones.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from skdpdyn.privacy._numerics import by_element, gdp_log_deltas, like
from skdpdyn.privacy.checks import checked_delta, checked_epsilon, checked_number
from skdpdyn.privacy.guarantees import Adjacency, GaussianDP, Guarantee, RenyiDP
from skdpdyn.privacy.mixtures import ProfileMixture
from skdpdyn.privacy.stored import stored, stored_part

_REACH = 20.0  # in units of mu/2, of the epsilon of one side
_TILT = 1e-6  # relative excess of the Renyi order that is asked of the exact runs


@singledispatch
def rounded(guarantee, mu):
    """Return the guarantee of the computed runs.

    Parameters
    ----------
    guarantee : Guarantee
        That of the exact runs.
    mu : float
        Twice the distance of a computed run from the exact one on the same records, as a Gaussian guarantee.

    Returns
    -------
    Guarantee
        Of Gaussian guarantees and mixtures of them by the triangle inequality of trade-off functions (Dong, Roth and Su 2022,
        Lemma A.5), which adds up mu; of Renyi curves by `RoundedCurve`; of others by `RoundedDP`.
    """
    return RoundedDP(guarantee, mu)


@rounded.register
def _(guarantee: GaussianDP, mu):
    return GaussianDP(guarantee.mu + mu, guarantee.adjacency, guarantee.failure)


@rounded.register
def _(guarantee: ProfileMixture, mu):
    return ProfileMixture(tuple(one + mu for one in guarantee.mus), guarantee.weights, guarantee.adjacency)


@rounded.register
def _(guarantee: RenyiDP, mu):
    return RenyiDP(RoundedCurve(guarantee.curve, mu), guarantee.adjacency, guarantee.conversion)


@stored_part
@dataclass(frozen=True)
class RoundedCurve:
    """The Renyi curve of computed runs: the weak triangle inequality (Mironov 2017, Proposition 11), on both sides.

    For 1/p + 1/q = 1, D_a(P, R) <= (a - 1/p) / (a - 1) D_{pa}(P, Q) + D_{q (a - 1/p)}(Q, R); here q = 1 + 1e-6.
    """

    curve: Callable
    mu: float

    def __post_init__(self):
        checked_number(self.mu, "mu", lambda x: 0 <= x < math.inf, "a finite number >= 0")

    @property
    def adjacency(self):
        """That of the exact runs' curve, where it says it."""
        return getattr(self.curve, "adjacency", None)

    def __call__(self, order):
        """Renyi divergence bound of ``order``."""
        total = 0.0
        for _ in range(2):
            p = 1 + 1 / _TILT
            total = total + (order - 1 / p) / (order - 1) * p * order * self.mu**2 / 8
            order = (1 + _TILT) * (order - 1 / p)
        return total + self.curve(order)


@stored
@dataclass(frozen=True)
class RoundedDP(Guarantee):
    """A guarantee of exact runs, for the computed ones.

    If one side costs (e1, d1) at the most and the exact runs are (epsilon, delta)-private, the computed ones are
    (epsilon + 2 e1, exp(e1) delta + (1 + exp(epsilon + e1)) d1)-private.

    Parameters
    ----------
    exact : Guarantee
        That of the exact runs.
    mu : float
        Twice the distance of a computed run from the exact one on the same records.

    Examples
    --------
    >>> from skdpdyn.privacy import ApproximateDP
    >>> from skdpdyn.privacy.rounded import RoundedDP
    >>> round(RoundedDP(ApproximateDP(1.0, 1e-6), 1e-9).epsilon(1.1e-6), 6)
    1.0
    """

    exact: Guarantee
    mu: float

    def __post_init__(self):
        checked_number(self.mu, "mu", lambda x: 0 <= x < math.inf, "a finite number >= 0")

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of the exact runs."""
        return self.exact.adjacency

    @property
    def accuracy(self):
        """Relative error of epsilon up to which a numerical bound is computed."""
        return self.exact.accuracy

    def with_accuracy(self, accuracy):
        """See `Guarantee.with_accuracy`: that of the exact runs."""
        return RoundedDP(self.exact.with_accuracy(accuracy), self.mu)

    def _side(self, epsilon):
        """Return an epsilon of one side whose delta, times exp(epsilon), is below 1e-86, and the logarithm of that delta."""
        own = (_REACH + np.sqrt(2 * epsilon)) * self.mu / 2
        return own, gdp_log_deltas(own, self.mu / 2)

    def delta(self, epsilon):
        """Delta at ``epsilon`` >= 0 (float or array)."""
        epsilon = checked_epsilon(epsilon)
        finite = np.minimum(epsilon, 1e9)
        own, log_lost = self._side(finite)
        exact = np.exp(own) * np.asarray(self.exact.delta(np.maximum(epsilon - 2 * own, 0.0)))
        exact = exact + np.maximum(2 * own - epsilon, 0.0)  # delta(0) of the exact runs is all that is known below
        return like(epsilon, np.minimum(1.0, exact + 2 * np.exp(np.minimum(finite + own + log_lost, 0.0))))

    def epsilon(self, delta):
        """Epsilon at ``delta`` (float or array), rounded up."""
        delta = checked_delta(delta)
        return like(delta, by_element(self._epsilon, delta))

    def _epsilon(self, delta):
        if delta >= self.delta(0.0):
            return 0.0
        own, least = 0.0, self.exact.epsilon(delta * (1 - 1e-9))
        for _ in range(3):  # the side's epsilon follows from the whole, which it is a small part of
            if math.isinf(least):
                return math.inf
            own, log_lost = map(float, self._side(least + 4 * own))
            least = self.exact.epsilon(delta * math.exp(-own) * (1 - 1e-9))
        lost = 2 * math.exp(min(least + own + log_lost, 0.0))
        return least + 2 * own if lost <= 1e-10 * delta else math.inf

    def _closed_form(self, other):
        if isinstance(other, RoundedDP):
            return RoundedDP(self.exact.compose(other.exact), math.hypot(self.mu, other.mu))
        return RoundedDP(self.exact.compose(other), self.mu)

    def _renyi_curve(self):
        curve = self.exact._renyi_curve()
        return None if curve is None else RoundedCurve(curve, self.mu)

    def rdp(self, order):
        """Renyi divergence bound of ``order``, where the exact runs have a curve."""
        curve = self._renyi_curve()
        return super().rdp(order) if curve is None else RenyiDP(curve, self.adjacency).rdp(order)

    def _gaussian_bound(self):
        bound = self.exact._gaussian_bound()
        return None if bound is None else bound + self.mu
