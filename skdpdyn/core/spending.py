"""A Gaussian budget in named shares: it buys private numbers, under one record of all.

Each release takes a share of mu^2 that is fixed before it, from public numbers and from what was
released earlier. Together they cost mu^2 = the sum of mu_p^2 (Dong, Roth and Su 2022).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import special

from skdpdyn.core.noise import Generator, generators, noisy, symmetric
from skdpdyn.core.sealed import Noisy, Sealed, SealedCells, SealedCounts, SealedProducts, opened
from skdpdyn.exceptions import CalibrationError, PrivacyWeakWarning, warn
from skdpdyn.privacy import Budget, Composition, Gaussian, Vocabulary, composition
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.guarantees import Adjacency, Guarantee
from skdpdyn.privacy.proofs import costs_no_more, proof_of

__all__ = [
    "TRAINING",
    "Share",
    "Spending",
    "Spent",
    "buying",
    "planned",
    "scaled_to",
    "training_of",
]

TRAINING = "training"
"""Name of the part of a record that trained the coefficients."""

ROUNDS_DOWN = 1 - 1e-9  # factor on mu, so that the parts stay below the declared total
_WEAK_EPSILON = 20
# six counts find one of 64 thresholds within 7 octaves
SEARCH_RELEASES = 6
SEARCH_OCTAVES = 7
_GRID = 64
_WHOLE = 1 + 1e-9  # all shares of mu^2 together, and their rounding


@dataclass(frozen=True)
class Share:
    """A share of mu^2, and the number of equal releases that it pays for."""

    size: float
    n_releases: int = 1

    def noise_multiplier(self, mu: float) -> float:
        """Return the noise of each release over its sensitivity, for ``mu`` of the whole budget."""
        return 1 / (mu * math.sqrt(self.size / self.n_releases))


@dataclass(frozen=True)
class Spent:
    """Hold a record that ran, or will run, and its cost under a bound."""

    mechanism: Mechanism
    bound: str
    guarantee: Guarantee
    budget: Budget


def scaled_to(shares: Mapping[str, Share], total: float) -> dict[str, Share]:
    """Return the shares, multiplied so that they add up to ``total``."""
    factor = total / total_of(shares.values())
    return {name: Share(part.size * factor, part.n_releases) for name, part in shares.items()}


def total_of(shares: Iterable[Share]) -> float:
    """Return the part of mu^2 that all shares take together."""
    return math.fsum(share.size for share in shares)


def vocabulary_of(share: Share, budget: Budget, n_columns: int, most_levels: int) -> Vocabulary:
    """Return the record of levels that a share buys: the budget reserves for its failure.

    The threshold is the least, about, that keeps what one record, or person, alone has.
    """
    noise = share.noise_multiplier(budget.mu * ROUNDS_DOWN)
    std = noise * math.sqrt(Adjacency(budget.adjacency).sum_sensitivity(1.0) * n_columns)
    failure = budget.failure / (n_columns * most_levels) * (1 - 1e-8)
    if failure == 0:  # delta over exp(epsilon)
        raise CalibrationError(
            f"epsilon={budget.epsilon}: so large a budget leaves no delta for levels of text. "
            "Lower epsilon, or give categories={column: [levels]} of public levels"
        )
    return Vocabulary(
        noise_multiplier=noise,
        threshold=1 - std * float(special.ndtri(failure)),
        n_columns=n_columns,
        most_levels=most_levels,
        adjacency=budget.adjacency,
    )


def planned(
    shares: Mapping[str, Share],
    budget: Budget,
    records: Mapping[str, Mechanism] = MappingProxyType({}),
) -> Spent:
    """Return the record of a `Spending` of these shares, before any record is seen.

    ``records`` are those of shares that buy no plain Gaussian release.

    Raises
    ------
    CalibrationError
        If it costs more than the budget: no noise can be computed for so extreme a one.
    """
    mu = budget.mu * ROUNDS_DOWN
    parts: tuple[Mechanism, ...] = ()
    names: tuple[str, ...] = ()
    for name, share in shares.items():
        part = records.get(name) or _gaussian(share.noise_multiplier(mu), budget.adjacency)
        parts = parts + (part,) * share.n_releases
        names = names + (name,) * share.n_releases
    record = Composition(parts, names=names)
    guarantee = composition(record)
    if not guarantee.epsilon(budget.delta) <= budget.epsilon:
        raise CalibrationError(
            f"epsilon={budget.epsilon}: no noise can be computed for so extreme a budget"
        )
    return Spent(record, "composition", guarantee, budget)


def training_of(record: Mechanism) -> Mechanism:
    """Return the part of a fit's record that trained the coefficients."""
    named = isinstance(record, Composition) and TRAINING in (record.names or ())
    return record[TRAINING] if named else record


@lru_cache(64)
def _gaussian(noise_multiplier: float, adjacency: Adjacency) -> Gaussian:
    """Return the record of a release, which many have in common."""
    return Gaussian(noise_multiplier, adjacency=adjacency)


@dataclass
class Spending:
    """Buys Gaussian releases of statistics of the same records, each for its share of mu^2.

    Parameters
    ----------
    budget : Budget
        The whole budget.
    shares : dict of str to Share
        What each part may take, by the name that its record will have.
    generator : numpy.random.Generator
        The source of the noise.
    """

    budget: Budget
    shares: Mapping[str, Share]
    generator: Generator
    # called with the number of releases after each of them
    progress: Callable[[int], None] | None = field(default=None, init=False)
    n_threads: int = field(default=1, init=False)  # that draw noise
    _names: list[str] = field(default_factory=list, init=False)
    _records: list[Mechanism] = field(default_factory=list, init=False)

    @classmethod
    def seeded(cls, budget: Budget, shares: Mapping[str, Share], seed: int | None) -> "Spending":
        """Return a spending whose noise has a seed, for tests; None for noise of its own."""
        (generator,) = generators(seed)
        return cls(budget, shares, generator)

    @cached_property
    def mu(self) -> float:
        """The whole budget, as mu of Gaussian differential privacy, and a little less."""
        return self.budget.mu * ROUNDS_DOWN

    @cached_property
    def adjacency(self) -> Adjacency:
        """Which data sets are neighbours."""
        return Adjacency(self.budget.adjacency)

    @property
    def n_releases(self) -> int:
        """Number of releases that all shares pay for."""
        return sum(share.n_releases for share in self.shares.values())

    def noise_multiplier(self, name: str) -> float:
        """Return the noise that a share pays for: standard deviation over sensitivity."""
        return self.shares[name].noise_multiplier(self.mu)

    def noise_on_sum(self, name: str) -> float:
        """Return the deviation of the noise that a sum of numbers in [-1, 1] would get."""
        return self.adjacency.sum_sensitivity(1.0) * self.noise_multiplier(name)

    def release(
        self, name: str, sealed: Sealed, scale: Any = 1.0, record: Mechanism | None = None
    ) -> Noisy:
        """Return a statistic with noise, and the standard deviation of that.

        Parameters
        ----------
        name : str
            The part that pays.
        sealed : Sealed
            The statistic, which knows what a record changes.
        scale : float or ndarray, default=1.0
            Public unit that each coordinate is measured in.
        record : record or None, default=None
            What the record says of it, if not that it is `Gaussian`.

        Returns
        -------
        Noisy

        Raises
        ------
        CalibrationError
            If the share has been spent, or all shares are more than the budget.
        """
        if not total_of(self.shares.values()) <= _WHOLE:
            raise CalibrationError(
                f"the shares of mu^2 add up to {total_of(self.shares.values()):g}, more than 1"
            )
        if self._names.count(name) >= self.shares[name].n_releases:
            raise CalibrationError(f"the share of {name!r} is spent: please report this")
        multiplier = self.noise_multiplier(name)
        self.note(name, record or _gaussian(multiplier, self.adjacency))
        released = noisy(
            sealed, multiplier, self.adjacency, self.generator, scale, n_threads=self.n_threads
        )
        if self.progress is not None:
            self.progress(len(self._names))
        return released

    def note(self, name: str, record: Mechanism) -> None:
        """Note a cost before it is spent."""
        self._names.append(name)
        self._records.append(record)

    def symmetric(
        self, name: str, products: SealedProducts, inside: np.ndarray | bool = True
    ) -> Noisy:
        """Return a symmetric matrix with noise, see `skdpdyn.core.noise.symmetric`."""
        return symmetric(
            products, lambda entries, scale: self.release(name, entries, scale), inside
        )

    def vocabulary(self, name: str, counts: SealedCells, most_levels: int) -> np.ndarray:
        """Return noisy counts of levels of columns, 0 where they do not reach a public threshold.

        Parameters
        ----------
        name : str
            The part that pays.
        counts : SealedCells
            Counts of the levels that occur in some column. Where that is 0, a level does not occur.
        most_levels : int
            See `skdpdyn.privacy.Vocabulary`.

        Returns
        -------
        ndarray of shape (n_levels,)
        """
        record = vocabulary_of(self.shares[name], self.budget, counts.n_columns, most_levels)
        shown = np.zeros(opened(counts).shape)
        occur = opened(counts) > 0
        noisy = self.release(name, counts[occur], record=record).value
        shown[occur] = np.where(noisy >= record.threshold, noisy, 0.0)
        return shown

    def quantile(
        self,
        name: str,
        counts: Callable[[np.ndarray], SealedCounts],
        high: float,
        quantile: float,
        n_samples: float,
        octaves: float = SEARCH_OCTAVES,
    ) -> float:
        """Return a private threshold up to ``high`` that about this part of the rows is within.

        It is one of 64 numbers, evenly spaced on a log scale over ``octaves``. A binary search
        needs six noisy counts, each of which one record moves by at most 1, under both relations.
        ``counts`` returns how many rows are within each of some thresholds, see `Rows.counts`.
        """
        grid = high * 2.0 ** (-octaves * np.arange(_GRID)[::-1] / (_GRID - 1))
        return self.threshold(name, counts, grid, quantile, n_samples)

    def threshold(
        self,
        name: str,
        counts: Callable[[np.ndarray], SealedCounts],
        grid: np.ndarray,
        quantile: float,
        n_samples: float,
    ) -> float:
        """Return the `quantile` as one of 64 rising numbers."""
        low = -1
        enough = _GRID - 1
        within = counts(grid)
        for _ in range(SEARCH_RELEASES):
            middle = (low + enough) // 2
            if self.release(name, within.at(middle)).value >= quantile * n_samples:
                enough = middle
            else:
                low = middle
        return float(grid[enough])

    def record(self) -> Mechanism | None:
        """Return the record of all that was released, and of training; None if of nothing."""
        if self._names == [TRAINING]:
            return self._records[0]
        parts = tuple(self._records)
        return Composition(parts, names=tuple(self._names)) if parts else None

    def proved(self, declared: Spent) -> Mechanism | None:
        """Return the record so far, and judge it again, whoever calibrated it.

        Parameters
        ----------
        declared : Spent
            What was declared before the first release: the most that all may cost, and its bound.

        Returns
        -------
        record or None

        Raises
        ------
        CalibrationError
            If the bound does not prove the declared guarantee of what was released.
        """
        record = self.record()
        if record is None:
            return None
        planned = declared.mechanism
        judged = planned if costs_no_more(record, planned) else record
        if proof_of(judged, declared.guarantee, declared.bound, declared.budget.delta) is None:
            raise CalibrationError(
                "the parts of this fit cost more than it declares: please report this"
            )
        return record


@contextmanager
def buying(
    spending: Spending,
    shares: Mapping[str, Share],
    n_samples: int,
    records: Mapping[str, Mechanism] = MappingProxyType({}),
) -> Iterator[Spent]:
    """Yield the cost of these shares; check at the end that the spending has bought all of them.

    Parameters
    ----------
    spending : Spending
        Takes these shares; it may have bought the first of them.
    shares : dict of str to Share
        What each part may take.
    n_samples : int
        Number of records, for warnings.
    records : dict of str to record, default={}
        Records of shares that buy no plain Gaussian release.

    Raises
    ------
    CalibrationError
        If the budget is too extreme, or something else was released than was planned.
    """
    plan = planned(shares, spending.budget, records)
    warn_of_weak_budget(spending.budget, n_samples)
    spending.shares = shares
    yield plan
    if spending.record() != plan.mechanism:
        raise CalibrationError("what was released is not what was planned: please report this")


def warn_of_weak_budget(budget: Budget, n_samples: int) -> None:
    """Warn of a budget that promises little, by public numbers alone."""
    if budget.epsilon > _WEAK_EPSILON:
        warn(
            f"epsilon={budget.epsilon:g} is above {_WEAK_EPSILON}: an attacker may be almost "
            "sure of a record",
            PrivacyWeakWarning,
        )
    if budget.delta * n_samples > 1:
        warn(
            f"delta={budget.delta:g} is above 1/n_samples={1 / n_samples:.3g}: giving away one "
            "whole record would meet it",
            PrivacyWeakWarning,
        )
