"""Budget: one value that carries epsilon, delta and the neighbouring relation."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from scipy import special

from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy.checks import as_float, checked_count, checked_number, is_auto, quoted
from skdpdyn.privacy.fields import Check, Checked, number
from skdpdyn.privacy.guarantees import Adjacency, GaussianDP, Neighbours, gdp_mu


def _delta(value: Any, name: str) -> float:
    """Return a checked delta; "auto" is refused: it needs the number of records."""
    if isinstance(value, str):
        raise ValueError(
            f"{name}={quoted(value)} must be a number in (0, 1), or 'auto' where the number of "
            "records is known: 1/n^2"
        )
    return checked_number(
        value, name, lambda x: 0 <= x < 1, "in (0, 1), or 0 for noise that is pure"
    )


@dataclass(frozen=True)
class Budget(Checked):
    """A privacy budget: (epsilon, delta) under one neighbouring relation.

    Parameters
    ----------
    epsilon : float
        Largest epsilon, finite and > 0.
    delta : float
        Largest delta, in [0, 1). 0 is a pure budget, which Gaussian noise cannot keep.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours.
    reserved : float, default=0.0
        Part of ``delta`` that is kept for a guarantee's ``failure``, and lost to ``mu``.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from skdpdyn.privacy import Budget
    >>> budget = Budget.for_samples(1.0, "auto", n_samples=10_000)
    >>> budget.delta, round(budget.mu, 6)
    (1e-08, 0.196067)
    """

    epsilon: Annotated[
        float, number(lambda x: 0 < x < math.inf, "a finite number > 0: the privacy budget")
    ]
    delta: Annotated[float, Check(_delta, "in [0, 1)")]
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    reserved: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_number(
            self.reserved, "reserved", lambda x: x == 0 or 0 < x < self.delta, "in [0, delta)"
        )

    @classmethod
    def for_samples(
        cls,
        epsilon: float,
        delta: Any,
        *,
        n_samples: int,
        adjacency: Adjacency | str = "replace_one",
    ) -> "Budget":
        """Return the budget with ``delta="auto"`` replaced by 1 / n_samples^2.

        Parameters
        ----------
        epsilon : float
            Largest epsilon, finite and > 0.
        delta : float or "auto"
            Largest delta; "auto" is 1 / n_samples^2.
        n_samples : int
            Number of records, public.
        adjacency : {"replace_one", "add_remove"}, default="replace_one"
            Which data sets are neighbours.

        Returns
        -------
        Budget

        Raises
        ------
        ValueError
            If a number is out of its range, or ``delta="auto"`` and there is a single record.
        """
        if is_auto(delta):
            n_samples = checked_count(n_samples, "n_samples")  # whose square an int32 may not hold
            if n_samples == 1:
                raise ValueError(
                    "n_samples=1: delta='auto' is 1/n^2 = 1, which protects nothing. Give "
                    "delta, or more than one record"
                )
            delta = 1 / n_samples**2
        return cls(epsilon, delta, Adjacency(adjacency))

    @cached_property
    def mu(self) -> float:
        """Largest mu for which mu-Gaussian differential privacy stays within the budget."""
        if self.delta == 0:
            raise ValueError(
                f"delta={self.delta:g} must be in (0, 1): Gaussian noise has no pure-epsilon "
                "guarantee; 1/n^2 is customary"
            )
        return gdp_mu(self.epsilon, self.delta - self.reserved)

    @property
    def failure(self) -> float:
        """Probability of a failure that ``reserved`` pays for, (1 + exp(epsilon)) times."""
        return self.reserved * float(special.expit(-self.epsilon)) * (1 - 1e-9)

    def split(self, shares: Any) -> Any:
        """Divide the budget among several Gaussian releases from the same records.

        Gaussian guarantees compose by mu^2, so a share is a part of mu^2. Every part keeps
        ``delta``: the epsilons of the parts add up to more than ``epsilon``, and composed they cost
        it.

        Parameters
        ----------
        shares : sequence of float
            Sizes of the parts relative to each other, positive.

        Returns
        -------
        tuple of Budget

        Raises
        ------
        ValueError
            If a share is out of its range.
        CalibrationError
            If a part is so small that no epsilon > 0 stands for it at this delta.

        Examples
        --------
        >>> from skdpdyn.privacy import Budget
        >>> [round(part.epsilon, 6) for part in Budget(1.0, 1e-9).split((0.2, 0.8))]
        [0.431821, 0.889784]
        """
        if not np.iterable(shares) or isinstance(shares, (str, bytes)):
            raise ValueError(
                f"shares={quoted(shares)} must be a sequence of numbers > 0, one for each part"
            )
        shares = list(shares)
        parts = [as_float(share) for share in shares]
        if not parts or not all(part > 0 for part in parts) or not sum(parts) < math.inf:
            raise ValueError(
                f"shares={quoted(shares)} must be finite numbers > 0, one for each part"
            )
        return tuple(self.part(part / math.fsum(parts)) for part in parts)

    def part(self, share: float) -> "Budget":
        """Return the budget of a Gaussian release that takes this share of mu^2, see `split`.

        Parameters
        ----------
        share : float
            In (0, 1].

        Returns
        -------
        Budget
            Its ``mu`` is known and is not searched for again.

        Raises
        ------
        ValueError
            If the share is out of its range.
        CalibrationError
            If the part is so small that no epsilon > 0 stands for it at this delta.
        """
        checked_number(share, "share", lambda x: 0 < x <= 1, "in (0, 1]: a part of mu^2")
        mu = self.mu * math.sqrt(share) * (1 - 1e-12)  # epsilon rounds up by less
        delta = self.delta - self.reserved
        epsilon = GaussianDP(mu).epsilon(delta)
        if not epsilon > 0:
            raise CalibrationError(
                f"share={share:.3g}: a part this small has epsilon=0 at delta={quoted(delta)}. "
                "Take a smaller delta"
            )
        budget = replace(self, epsilon=epsilon, delta=delta, reserved=0.0)
        vars(budget)["mu"] = mu
        return budget
