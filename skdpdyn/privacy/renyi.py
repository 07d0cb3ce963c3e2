"""Guarantees by a Renyi curve, and by one point of a profile."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Annotated, Any, TypeAlias

import numpy as np
from scipy import optimize, special

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._numerics import by_element
from skdpdyn.privacy._types import Array, Floats
from skdpdyn.privacy.checks import quoted
from skdpdyn.privacy.fields import Check, Checked, Cost, choice, number
from skdpdyn.privacy.guarantees import (
    Adjacency,
    GaussianDP,
    Guarantee,
    Neighbours,
    Unit,
    check_alike,
)
from skdpdyn.privacy.stored import stored, stored_part

_MANY = 16  # arguments from which on a vectorised evaluation pays
_FINELY = 1024  # epsilons whose best orders are looked for, evenly spread if there are more

LOG_EXCESS_ORDERS = np.linspace(math.log(1e-9), math.log(1e15), 241)
_COARSE = 8  # every eighth point of the grid is tried first


def best_order(function: Callable[..., Any]) -> tuple[float, float]:
    """Return the best order - 1 and the minimum of a function of it: of a wide grid, and refined.

    (order - 1) times a Renyi divergence is convex in the order, so that what is minimised has a
    single valley; where a curve is not that of a divergence, the value at any order is a bound
    still.
    """

    def least_of(grid: Array) -> Any:
        values = np.broadcast_to(function(np.exp(grid)), grid.shape)
        best = int(np.nanargmin(values))
        ends = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
        return (math.exp(grid[best]), values[best]), *ends

    with np.errstate(over="ignore", invalid="ignore"):
        _, low, high = least_of(LOG_EXCESS_ORDERS[::_COARSE])
        least, *span = least_of(
            LOG_EXCESS_ORDERS[(low <= LOG_EXCESS_ORDERS) & (high >= LOG_EXCESS_ORDERS)]
        )
        refined = optimize.minimize_scalar(
            lambda log_excess: function(np.exp(log_excess)),
            bounds=span,
            method="bounded",
            options={"xatol": 1e-10},
        )
    if not least[1] <= refined.fun:  # NaN: of a curve beyond doubles
        least = math.exp(refined.x), refined.fun
    return least[0], float(least[1])


def checked_curves(curves: Any, name: str) -> tuple[Any, ...]:
    """Return Renyi curves; raise if there is none or if their adjacencies differ."""
    is_list = isinstance(curves, tuple | list) and curves
    if not is_list or not all(map(callable, curves)):
        raise ValueError(f"{name}={quoted(curves)} must be functions of the order, at least one")
    adjacency_of(*curves)
    return tuple(curves)


def adjacency_of(*curves: Any) -> Adjacency | None:
    """Return the adjacency of Renyi curves, or None if none of them has one."""
    adjacencies = {
        Adjacency(curve.adjacency)
        for curve in curves
        if getattr(curve, "adjacency", None) is not None
    }
    if len(adjacencies) > 1:
        raise ValueError(
            f"curves={quoted(curves)} are of unlike adjacencies: account all under one"
        )
    return adjacencies.pop() if adjacencies else None


Curve: TypeAlias = Annotated[
    Any, Check(lambda curve, name: checked_curves((curve,), name)[0], "a function of the order")
]
Curves: TypeAlias = Annotated[
    tuple[Any, ...], Check(checked_curves, "functions of the order, at least one")
]


@stored_part
@dataclass(frozen=True)
class PureCurve(Checked):
    """The Renyi curve of a pure guarantee: that of randomized response.

    Every release of pure ``at_epsilon`` is a post-processing of it (Kairouz, Oh and Viswanath 2015,
    Theorem 10). With x = (order - 1) epsilon its moment is 1 + (e^x - 1) (e^epsilon - e^-x) / (1 +
    e^epsilon), in which nothing cancels.
    """

    at_epsilon: Cost

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        excess = np.asarray(order, dtype=float) - 1
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            x = excess * self.at_epsilon
            moment = np.expm1(x) * -np.expm1(-x - self.at_epsilon) * special.expit(self.at_epsilon)
            # from 30 on the moment is e^x / (1 + e^-epsilon) up to e^-60
            log_moment = np.where(x < 30, np.log1p(moment), x - np.log1p(np.exp(-self.at_epsilon)))
            divergence = log_moment / excess * (1 + 1e-14)
        return np.fmin(divergence, self.at_epsilon)[()]


@stored_part
@dataclass(frozen=True)
class LargestCurve(Checked):
    """Pointwise maximum of Renyi curves: one of several releases, or releases of disjoint parts."""

    curves: Curves

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        return np.max([curve(order) for curve in self.curves], axis=0)

    @property
    def adjacency(self) -> Any:
        """Adjacency of the curves, or None if none of them has one."""
        return adjacency_of(*self.curves)


@stored_part
@dataclass(frozen=True)
class SummedCurve(Checked):
    """Sum of Renyi curves: composition."""

    curves: Curves

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        # `sum` of floats rounds otherwise from Python 3.12 on
        return reduce(add, (curve(order) for curve in self.curves))

    adjacency = LargestCurve.adjacency


@stored
@dataclass(frozen=True)
class RenyiDP(Guarantee):
    """Renyi differential privacy, as a curve over all orders.

    Parameters
    ----------
    curve : callable
        ``curve(order)``: the Renyi divergence bound for order > 1 (float or array); picklable for
        the guarantee to pickle.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation that it holds for.
    conversion : {"tight", "classic"}, default="tight"
        How epsilon and delta follow from the curve. "classic" is epsilon = RDP +
        log(1/delta)/(order - 1) (Mironov 2017, Proposition 3): never smaller, and what the papers
        plot.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.

    References
    ----------
    C. Canonne, G. Kamath, T. Steinke (2020), The discrete Gaussian for differential privacy,
    Proposition 12: the conversion, minimised over real orders. Any order gives a valid bound, so
    the search cannot be on the wrong side.

    Examples
    --------
    >>> from skdpdyn.privacy import RenyiDP
    >>> from skdpdyn.privacy.guarantees import LinearCurve
    >>> round(RenyiDP(LinearCurve(0.5)).epsilon(1e-5), 4)
    4.7284
    """

    curve: Curve
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    conversion: Annotated[str, choice("tight", "classic")] = "tight"
    unit: Unit = "record"

    def __post_init__(self) -> None:
        super().__post_init__()
        if adjacency_of(self.curve) not in (None, self.adjacency):
            raise ValueError(
                f"adjacency={self.adjacency!r}: {self.curve!r} holds for {self.curve.adjacency!r}"
            )

    def _delta(self, epsilon: Array) -> Any:
        return self._deltas(epsilon) if epsilon.size > _MANY else by_element(self._one, epsilon)

    def _one(self, epsilon: float) -> float:
        """Return one delta, the least over all orders."""
        if math.isinf(epsilon):
            return 0.0

        def log_delta(excess: Floats) -> Any:  # excess = order - 1
            return excess * (self.rdp(1 + excess) - epsilon) + self._log_slack(excess)

        return math.exp(min(0.0, best_order(log_delta)[1]))

    def _deltas(self, epsilon: Array, rough: bool = False) -> Array:
        """Return many deltas at once, each at nearly its best order; ``rough``: of a few."""
        flat = np.where(np.isinf(epsilon), 0.0, epsilon).ravel()
        orders = np.exp(LOG_EXCESS_ORDERS[:: 8 if rough else 1])
        orders, log_moment, slope = self._lines(orders)
        best = np.searchsorted(slope, flat)
        least = log_moment[best] - orders[best] * flat
        if slope.size and not rough:  # once more, where the slopes are the epsilons
            many = flat.size > _FINELY
            epsilons = np.linspace(flat.min(), flat.max(), _FINELY) if many else np.unique(flat)
            middle = (orders[1:] + orders[:-1]) / 2
            orders, log_moment, slope = self._lines(np.unique(np.interp(epsilons, slope, middle)))
            best = np.searchsorted(slope, flat)
            least = np.minimum(least, log_moment[best] - orders[best] * flat)
        log_delta = np.where(np.isinf(epsilon), -math.inf, least.reshape(epsilon.shape))
        return np.exp(np.minimum(0.0, log_delta))

    def _lines(self, excess: Array) -> tuple[Array, Array, Array]:
        """Return orders less 1, logarithms of their bounds on delta at epsilon 0, and slopes.

        The bound at an order falls with epsilon on a line, and it is convex in the order: the least
        at an epsilon is where the slope is that. Any other order gives a bound, too.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            log_moment = excess * self.rdp(1 + excess) + self._log_slack(excess)
        finite = log_moment < 1e300
        excess, log_moment = (np.append(0.0, line[finite]) for line in (excess, log_moment))
        return excess, log_moment, np.maximum.accumulate(np.diff(log_moment) / np.diff(excess))

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return math.inf
        if delta == 1:
            return 0.0
        log_delta = math.log(delta)

        def epsilon(excess: Floats) -> Any:  # below 0 where delta(0) is below delta
            return self.rdp(1 + excess) + (self._log_slack(excess) - log_delta) / excess

        return max(0.0, best_order(epsilon)[1])

    def with_accuracy(self, accuracy: float | None) -> Any:
        """See `Guarantee.with_accuracy`: for a curve that uses a numerical profile."""
        rougher = getattr(self.curve, "with_accuracy", None)
        return self if rougher is None else replace(self, curve=rougher(accuracy))

    def _log_slack(self, excess: Floats) -> Any:
        return (
            -excess * np.log1p(1 / excess) - np.log1p(excess) if self.conversion == "tight" else 0.0
        )

    @property
    def dp_event(self) -> Any:
        """The curve's event for a Renyi accountant, if it has one."""
        event = getattr(self.curve, "dp_event", None)
        return super().dp_event if event is None else event

    @property
    def neighboring_relation(self) -> Any:
        """ADD_OR_REMOVE_ONE: ``RdpAccountant`` reads the event alike under all relations."""
        _ = self.dp_event  # raises if there is no event
        return GaussianDP.neighboring_relation.fget(self)  # type: ignore[attr-defined]

    def _closed_form(self, other: Guarantee) -> Guarantee | None:
        if type(other) is not RenyiDP:  # profiles say more than their Renyi curves
            return None
        return replace(self, curve=SummedCurve((self.curve, other.curve)))

    def _renyi_curve(self) -> Any:
        return self.curve


@stored
@dataclass(frozen=True)
class ApproximateDP(Guarantee):
    """(epsilon, delta)-differential privacy at one point of the profile.

    Parameters
    ----------
    at_epsilon : float
        The epsilon, >= 0.
    at_delta : float, default=0.0
        The delta, in [0, 1].
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation that it holds for.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.

    References
    ----------
    P. Kairouz, S. Oh, P. Viswanath (2015), The composition theorem for differential privacy: the
    profile that one point implies.

    Examples
    --------
    >>> from skdpdyn.privacy import ApproximateDP
    >>> round(ApproximateDP(1.0, 1e-6).compose(ApproximateDP(0.5, 1e-6)).epsilon(2e-6), 6)
    1.5
    """

    at_epsilon: Cost
    at_delta: Annotated[float, number(lambda x: 0 <= x <= 1, "in [0, 1]")] = 0.0
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    unit: Unit = "record"

    _of_pair = True

    def _delta(self, epsilon: Array) -> Any:
        # below `at_epsilon` by the two lines of hypothesis testing
        gap = -np.expm1(np.minimum(epsilon, self.at_epsilon) - self.at_epsilon)
        below = self.at_delta + (1 - self.at_delta) * special.expit(self.at_epsilon) * gap
        return np.where(epsilon >= self.at_epsilon, self.at_delta, below)

    @property
    def _largest_loss(self) -> float:
        return self.at_epsilon

    def _renyi_curve(self) -> Any:
        return PureCurve(self.at_epsilon) if self.at_delta == 0 else None


def largest(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Return a guarantee that each of several implies: it holds whichever is true of a unit.

    Raises
    ------
    UnsupportedMechanismError
        If they protect unlike units, or have no mu and no Renyi curve to compare.
    ValueError
        If the adjacencies differ.
    """
    check_alike(*guarantees)
    if len(set(guarantees)) == 1:
        return guarantees[0]
    gaussian = [guarantee for guarantee in guarantees if isinstance(guarantee, GaussianDP)]
    if len(gaussian) == len(guarantees):
        mu, failure = (
            max(getattr(guarantee, name) for guarantee in gaussian) for name in ("mu", "failure")
        )
        return replace(gaussian[0], mu=mu, failure=failure)
    curves = []
    for guarantee in guarantees:
        curves.append(guarantee._renyi_curve())
        if curves[-1] is None:
            raise UnsupportedMechanismError(
                f"{type(guarantee).__name__} ({guarantee.adjacency}) has no Renyi curve to "
                "compare with the others: take another solver or bound"
            )
    curve = LargestCurve(tuple(dict.fromkeys(curves)))
    return RenyiDP(curve, guarantees[0].adjacency, unit=guarantees[0].unit)
