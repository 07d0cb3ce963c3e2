"""Sums of numbers that rows have by themselves, such as scores of a model: sealed, by weight."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from skdpdyn.core.sealed import ACUTE, ANY, POSITIVE, Sealed, SealedCounts
from skdpdyn.data.local import LocalRows
from skdpdyn.data.persons import persons_of

_EPS = np.finfo(np.float64).eps


class RowTally:
    """Sums over rows of given numbers, each clipped before it is added.

    What is given for a row must follow from that row, and from what is public.

    Parameters
    ----------
    n : int
        Number of records or persons, which is public.
    weight : ndarray of shape (n_rows,) or None, default=None
        Weight of each row, in [0, 1]; those of a person's rows add up to at most 1. They are
        rounded down to multiples of a power of two that all their sums are multiples of, too: no
        sum of them rounds, however many rows there are. None: 1.
    is_design : bool, default=False
        Whether weights are those of a survey, whose sum is not public.
    """

    def __init__(self, n: int, weight: np.ndarray | None = None, is_design: bool = False) -> None:
        self.n = n
        self.is_design = is_design
        self.weight = None
        if weight is not None:
            grain = _grain(n)
            self.weight = np.floor(_clipped(weight, 0.0) * grain) / grain

    @classmethod
    def by(cls, n_rows: int, groups: Any, part: np.ndarray | None) -> "RowTally":
        """Return the tally of rows by ids, and parts of weights; None: every row is a record."""
        persons, n = persons_of(groups, n_rows)
        if persons is None:
            return cls(n, part, part is not None)
        most = np.floor(_grain(n) / np.bincount(persons))[persons]
        most *= 1.0 if part is None else _clipped(part, 0.0)
        return cls(n, np.floor(most) / _grain(n), part is not None)

    @classmethod
    def of(cls, rows: LocalRows) -> "RowTally":
        """Return the tally of rows in memory."""
        return cls(rows.n_records, rows.weight if rows.weight.size else None)

    def known(self, weights: np.ndarray) -> tuple[tuple[np.ndarray, float], ...]:
        """Return a weighted sum of counts to which every record adds 1, where it is public."""
        return () if self.is_design else ((weights, float(self.n)),)

    def total(self) -> Sealed:
        """Return the sum of the weights."""
        return self.sum(np.ones(self.n if self.weight is None else self.weight.size))

    def sum(self, terms: np.ndarray, least: float = 0.0) -> Sealed:
        """Return the sum of numbers, clipped to [0, 1], or to [-1, 1] for ``least`` -1."""
        apart = POSITIVE if least == 0 else ANY
        return self._sealed(self._sum(_clipped(terms, least)), 1.0, apart)

    def by_place(self, terms: np.ndarray, places: np.ndarray, size: int) -> Sealed:
        """Return the sum at each place of numbers, clipped to [0, 1]: a row is at one place."""
        terms = _clipped(terms, 0.0)
        totals = [self._sum(terms * (places == k)) for k in range(size)]
        return self._sealed(totals, 1.0, ACUTE)

    def columns(self, numbers: np.ndarray, least: float = -1.0) -> Sealed:
        """Return sums of columns of numbers, clipped to [-1, 1], or to [0, 1] for ``least`` 0."""
        inside = _clipped(numbers, least)
        totals = [self._sum(column) for column in inside.T]
        return self._sealed(totals, math.sqrt(len(totals)), POSITIVE if least == 0 else ANY)

    def moments(self, numbers: np.ndarray) -> Sealed:
        """Return the sums of c and of 4 c^2, c clipped to [-1/2, 1/2].

        The norm of (c, 4 c^2) is at most sqrt(1.25). Those of c and b differ by d^2 (1 + 16 s^2),
        squared, with d = |c - b| and s = |c + b| <= 1 - d: by less than 1.2875.
        """
        c = _clipped(2 * numbers, -1.0) / 2
        norm = math.sqrt(1.25)
        sums = [self._sum(c), self._sum(4 * c**2)]
        return self._sealed(sums, norm, math.sqrt(1.2875) / norm)

    def counts(self, places: np.ndarray, size: int) -> SealedCounts:
        """Return how many rows are at each of ``size`` places: a row is at one place."""
        return SealedCounts(self._counts(places, size), rounding=self._rounding)

    def within(self, numbers: np.ndarray, thresholds: np.ndarray) -> SealedCounts:
        """Return how many numbers are within each of some thresholds."""
        inside = [(numbers <= threshold).astype(np.intp) for threshold in thresholds]
        return SealedCounts([self._counts(of, 2)[1] for of in inside], len(inside), self._rounding)

    def by_strategy(self, places: np.ndarray, strategy: np.ndarray) -> Sealed:
        """Return sums of counts by place, at least 0 times each: row i says how often in sum i."""
        if not np.all(strategy >= 0):
            raise ValueError("strategy must hold numbers of at least 0")
        norm = math.sqrt(np.max(np.sum(strategy**2, axis=0)))
        counts = self._counts(places, strategy.shape[1])
        return self._sealed(strategy @ counts, norm, ACUTE)

    def at_several(self, places: Sequence[np.ndarray], factors: np.ndarray, norm: float) -> Sealed:
        """Return counts times factors of at least 0, where a row is at several places.

        Parameters
        ----------
        places : sequence of ndarray of shape (n_rows,)
            Places of each row, each another one; -1: none.
        factors : ndarray of shape (n_counts,)
            Public factors.
        norm : float
            Largest norm of the factors of a row. Rows beyond it do not count.
        """
        last = factors.size  # of rows that are nowhere
        of_rows = [_inside(place, last) for place in places]
        squares = sum(np.append(factors**2, 0.0)[place] for place in of_rows)
        within = squares <= norm**2 * (1 + 8 * _EPS)
        for place, other in combinations(of_rows, 2):
            within &= (place != other) | (place == last)
        counts = sum(self._counts(np.where(within, place, last), last) for place in of_rows)
        return self._sealed(factors * counts, norm, ACUTE)

    def signed(
        self, terms: np.ndarray, limit: float, places: Sequence[np.ndarray], sizes: Sequence[int]
    ) -> Sealed:
        """Return the sums of vectors at places of several kinds: a row is at one place of each.

        Terms of a row's vectors are multiples of a power of two that all their sums are, too.

        Parameters
        ----------
        terms : ndarray of shape (n_rows, n_outputs)
            Vectors, which are cut to a norm of ``limit``; what is no number is 0.
        limit : float
            Public.
        places : sequence of ndarray of shape (n_rows,)
            Of each kind, the place of each row.
        sizes : sequence of int
            Numbers of places of each kind.

        Returns
        -------
        Sealed of shape (n_outputs * sum(sizes),)
            One output after the other.
        """
        terms = np.where(np.isfinite(terms), terms, 0.0) / limit
        lengths = np.sqrt(np.einsum("ij,ij->i", terms, terms)) * (1 + 1e-12)
        terms /= np.maximum(lengths, 1.0)[:, None]
        terms = terms if self.weight is None else terms * self.weight[:, None]
        terms = np.trunc(terms * _grain(self.n)) / _grain(self.n)
        sums = [
            np.bincount(_inside(place, size), term, size + 1)[:-1]
            for term in terms.T
            for place, size in zip(places, sizes, strict=True)
        ]
        return self._sealed(np.concatenate(sums), math.sqrt(len(sizes)), ANY) * limit

    def _counts(self, places, size):
        return np.bincount(_inside(places, size), self.weight, size + 1)[:-1].astype(np.float64)

    def _sum(self, terms):
        """Return the weighted sum, rounded once."""
        return math.fsum(terms if self.weight is None else terms * self.weight)

    @property
    def _rounding(self):
        return 4 * self.n * _EPS

    def _sealed(self, totals, norm, apart):
        return Sealed(totals, norm, apart, self._rounding)


class TalliedRows(LocalRows):
    """Targets of rows, whose number is private where only that of persons is public.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Numbers, or counts over their exposures.
    exposure : ndarray of shape (n_rows,) or None
        Exposures; None: 1.
    tally : RowTally
        Adds up.
    """

    def __init__(self, y: np.ndarray, exposure: np.ndarray | None, tally: RowTally) -> None:
        super().__init__(np.zeros((y.size, 1)), y, tally.weight, exposure=exposure)
        self._tally = tally

    @property
    def n_records(self) -> int:
        """See `LocalRows.n_records`."""
        return self._tally.n

    def target_sum(self, centre: float = 0.0, *, positive: bool = False) -> Sealed:
        """See `Rows.target_sum`: sums are rounded once, however many rows there are."""
        terms = (self.y - centre) * self.common
        terms = terms * self.exposure if self.exposure.size else terms
        return self._tally.sum(terms, 0.0 if positive else -1.0)


def means(scores: Sequence[float], n: int) -> Sealed:
    """Return means of ``n`` numbers in [0, 1] each, one of which alone a share pays for.

    They come from other processes, and are clipped again.
    """
    return Sealed(_clipped(scores, 0.0), 1 / n, POSITIVE, 64 * n * _EPS)


def _grain(n):
    """Return the inverse of the number that weights are multiples of."""
    return 2.0 ** (52 - n.bit_length())


def _inside(places, size):
    """Return places, and one more for those that there are not, whose rows count nowhere."""
    return np.where((places >= 0) & (places < size), places, size)


def _clipped(numbers, least):
    """Return numbers clipped to [least, 1]; NaN becomes the least."""
    numbers = np.asarray(numbers, dtype=np.float64)
    return np.where(numbers >= least, np.minimum(numbers, 1.0), least)
