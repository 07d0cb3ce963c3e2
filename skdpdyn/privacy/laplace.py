"""The exact guarantee of Laplace noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpdyn.privacy._types import Array, Floats
from skdpdyn.privacy.fields import Checked, Cost, NonNegative
from skdpdyn.privacy.guarantees import (
    Adjacency,
    GaussianDP,
    Guarantee,
    Neighbours,
    Unit,
    dp_accounting,
)
from skdpdyn.privacy.stored import stored, stored_part


@stored_part
@dataclass(frozen=True)
class LaplaceCurve(Checked):
    """The Renyi curve of Laplace noise (Mironov 2017, Proposition 6)."""

    at_epsilon: Cost

    def __call__(self, order: Floats) -> Any:
        """Return the Renyi divergence of ``order``, rounded up."""
        s = self.at_epsilon
        excess = np.asarray(order, dtype=float) - 1
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

    _of_pair = True

    at_delta = 0.0  # no field: what holds at `at_epsilon`

    def _delta(self, epsilon: Array) -> Any:
        return np.abs(np.expm1(np.minimum(epsilon - self.at_epsilon, 0.0) / 2))

    @property
    def _largest_loss(self) -> float:
        return self.at_epsilon

    def _renyi_curve(self) -> LaplaceCurve:
        return LaplaceCurve(self.at_epsilon)

    @property
    def dp_event(self) -> Any:
        """``LaplaceDpEvent(1 / at_epsilon)``, for an accountant of ``neighboring_relation``."""
        if self.at_epsilon == 0:
            return dp_accounting().NoOpDpEvent()
        return dp_accounting().LaplaceDpEvent(1 / self.at_epsilon)

    neighboring_relation = GaussianDP.neighboring_relation
