"""Filters: caps that are guarantees though later costs are chosen by earlier outcomes."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, TypeAlias

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy.budget import Budget
from skdpdyn.privacy.checks import as_float, checked_choice, quoted
from skdpdyn.privacy.fields import Checked, number
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee, check_alike, gdp_mu
from skdpdyn.privacy.renyi import ApproximateDP, RenyiDP

# shares of the cap, exact: of the divergence, and of the probability of failures
Shares: TypeAlias = tuple[Any, Any]
_DOWN = 1 - 1e-12  # by which limits are rounded down
_ORDERS = 1 + np.geomspace(1e-2, 1e4, 2000)


@dataclass(frozen=True)
class Filter(Checked):
    """A rule that stops spending in time, however costs were chosen after earlier results.

    A composed epsilon is a guarantee if no cost depends on outcomes. A filter adds up one number
    for each release, and refuses the release that would pass a limit fixed beforehand:

    - "gdp": the squares of mu, up to that of the cap. All costs must be Gaussian.
    - "renyi": the Renyi divergences of one order, up to the one that implies the cap.

    Whoever chooses the next cost by what came out has the cap as a guarantee, and no other: the
    sum of the moment is none.

    A release may fail with some probability (`GaussianDP`). Outside of an event of probability p,
    the sum of these, all releases are such that do not fail. That adds (1 + e^epsilon) p to delta,
    so failures have a limit of their own: a part of the cap's delta, fixed beforehand.

    Parameters
    ----------
    kind : {"gdp", "renyi"}
        What is added up.
    order : float or None, default=None
        Of "renyi": the order, > 1. None: that which lets most Gaussian releases through.
    failures : float, default=0.0
        Part of the cap's delta for failures, in [0, 1).

    References
    ----------
    A. Smith, A. Thakurta (2022), Fully adaptive composition for Gaussian differential privacy:
    "gdp". V. Feldman, T. Zrnic (2021), Individual privacy accounting via a Renyi filter: "renyi",
    at one order. Filters of general tradeoff functions do not hold.

    Examples
    --------
    >>> from skdpdyn.privacy import Budget, GaussianDP
    >>> from skdpdyn.privacy.filters import Filter
    >>> cap = Budget(1.0, 1e-6)
    >>> shares = Filter("gdp").shares(GaussianDP(cap.mu / 2), cap)
    >>> [float(share) for share in shares]
    [0.25, 0.0]
    """

    kind: Annotated[str, lambda value, _: checked_choice(value, "filter", ("gdp", "renyi"))]
    order: float | None = None
    failures: Annotated[float, number(lambda x: 0 <= x < 1, "in [0, 1): a part of delta")] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order is not None and (
            self.kind != "renyi" or not 1 < as_float(self.order) < math.inf
        ):
            raise ValueError(f"order={quoted(self.order)} is for 'renyi', and must be a number > 1")

    def fixed_for(self, cap: Budget) -> "Filter":
        """Return the filter with an order, or raise an error if it leaves nothing of a cap."""
        self._delta(cap)
        if self.kind == "gdp":
            return self
        fixed = self
        if self.order is None:
            limits = self._divergence(_ORDERS, cap) / _ORDERS
            fixed = replace(self, order=float(_ORDERS[int(np.argmax(limits))]))
        if not fixed._divergence(fixed.order, cap) > 0:
            raise ValueError(
                f"order={fixed.order!r}: no divergence of this order implies the cap {cap}. Give "
                "a larger order"
            )
        return fixed

    def shares(self, cost: Guarantee, cap: Budget, unit: str = "record") -> Shares:
        """Return which shares of a cap's limits a cost takes; infinite if it is not known.

        Parameters
        ----------
        cost : Guarantee
            The cost.
        cap : Budget
            The cap.
        unit : str, default="record"
            Whom the cap protects.

        Returns
        -------
        tuple of (Fraction or inf, Fraction or inf)
            Of the limit on what is added up, and of that on failures.

        Raises
        ------
        ValueError
            If the cost is for other neighbours, or another unit, than the cap.
        """
        check_alike(self.guarantee(cap, unit), cost)
        failure = Fraction(getattr(cost, "failure", 0.0))
        limit = Fraction(self.failures * self._delta(cap) * _DOWN)
        limit /= 1 + Fraction(math.exp(cap.epsilon))  # how often delta counts a failure
        failing = (failure / limit if limit else math.inf) if failure else Fraction(0)
        try:
            self.check(cost)
            without = replace(cost, failure=0.0) if type(cost) is GaussianDP else cost
            return self._spent(without, cap), failing
        except (UnsupportedMechanismError, ArithmeticError, ValueError):
            return math.inf, failing

    def check(self, cost: Guarantee) -> None:
        """Refuse a cost that this filter cannot add up."""
        if self.kind == "gdp" and type(cost) is not GaussianDP:
            raise UnsupportedMechanismError(
                f"filter='gdp' adds up Gaussian costs, not a {type(cost).__name__}: open a "
                "ledger with filter='renyi', or take a solver whose guarantee is Gaussian"
            )
        if self.kind == "renyi" and cost._renyi_curve() is None and type(cost) is not GaussianDP:
            raise UnsupportedMechanismError(
                f"filter='renyi' adds up Renyi divergences, and a {type(cost).__name__} has none"
            )

    def guarantee(self, cap: Budget, unit: str) -> Guarantee:
        """Return the guarantee of the cap, however costs are chosen."""
        return ApproximateDP(cap.epsilon, cap.delta, cap.adjacency, unit)

    def _spent(self, cost: Guarantee, cap: Budget) -> Fraction:
        """Return the share of the limit that a cost without failures takes."""
        if self.kind == "gdp":
            # bits of the cap's own mu, which a single fit may spend
            mu = gdp_mu(cap.epsilon, self._left(cap)) if self.failures else cap.mu
            return Fraction(cost.mu) ** 2 / Fraction(mu) ** 2
        order = as_float(self.order)
        return Fraction(float(cost.rdp(order))) / Fraction(float(self._divergence(order, cap)))

    def _divergence(self, order: Any, cap: Budget) -> Any:
        """Return the largest Renyi divergence of an order that implies the cap, rounded down."""
        excess = order - 1
        slack = RenyiDP(lambda order: order)._log_slack(excess)
        of_delta = (math.log(self._left(cap)) - slack) / excess
        return cap.epsilon + of_delta - 1e-12 * (cap.epsilon + abs(of_delta))

    def _left(self, cap: Budget) -> float:
        """Return the part of delta that failures leave."""
        return self._delta(cap) * (1 - self.failures) * (_DOWN if self.failures else 1.0)

    def _delta(self, cap: Budget) -> float:
        if not cap.delta > 0 or cap.epsilon > 700:
            raise ValueError(f"cap={cap}: a filter needs a delta in (0, 1) and epsilon <= 700")
        return cap.delta


def added(shares: Iterable[Shares]) -> Shares:
    """Return the shares of several costs together."""
    divergences, failures = zip((Fraction(0), Fraction(0)), *shares, strict=True)
    return sum(divergences), sum(failures)


def most(shares: Iterable[Shares]) -> Shares:
    """Return shares that none of several costs exceeds."""
    divergences, failures = zip((Fraction(0), Fraction(0)), *shares, strict=True)
    return max(divergences), max(failures)
