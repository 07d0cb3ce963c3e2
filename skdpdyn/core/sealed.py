"""Sealed statistics: sums over records that nothing reads before noise is added.

Whoever adds up records seals the sum, with what one record can change. In between it is divided,
cut and stacked by public numbers, and what a record changes follows. Then
`skdpdyn.core.noise.noisy` opens it, and adds noise for just that. So no release names a
sensitivity, and all that follows one is post-processing.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skdpdyn.privacy.guarantees import Adjacency
from skdpdyn.support.blas import one_blas_thread

__all__ = ["Noisy", "Sealed", "SealedCells", "SealedCounts", "SealedProducts", "opened", "stacked"]

ANY = 2.0
ACUTE = math.sqrt(2.0)
POSITIVE = 1.0
"""How far apart two terms are, over the largest norm of one: of any vectors, of vectors at no
obtuse angle, of numbers that are none below 0."""
_EPS = np.finfo(np.float64).eps


class Sealed:
    """A sum of one term for each record, which has not been released.

    Parameters
    ----------
    value : float or array-like of float
        The sum, as it was computed.
    norm : float, default=1.0
        Largest Euclidean norm of a term; that of a person is the sum of those of all rows.
    apart : float, default=2.0
        Largest distance of the terms of two records, over ``norm``.
    rounding : float, default=0.0
        Largest distance by which rounding moves the computed sums of two data sets apart, over
        ``norm``.

    Examples
    --------
    >>> from skdpdyn.core.sealed import ACUTE, Sealed
    >>> counts = Sealed([3.0, 5.0], apart=ACUTE)
    >>> counts / 4
    Sealed(norm=0.25, apart=1.4142135623730951, rounding=0.0)
    >>> round(counts.sensitivity("replace_one"), 3), counts.sensitivity("add_remove")
    (1.414, 1.0)
    """

    __slots__ = ("__value", "apart", "norm", "rounding")
    __array_ufunc__ = None  # so that numpy leaves arithmetic to this class
    __iter__ = None  # type: ignore[assignment]

    def __init__(
        self, value: Any, norm: float = 1.0, apart: float = ANY, rounding: float = 0.0
    ) -> None:
        self.__value = np.asarray(value, dtype=np.float64)
        self.norm = float(norm)
        self.apart = apart
        self.rounding = rounding

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(norm={self.norm}, apart={self.apart}, rounding={self.rounding})"
        )

    def _refused(self, *_, **__):
        raise TypeError("a sealed statistic is of records: release it, with noise")

    __array__ = __bool__ = __complex__ = __float__ = __index__ = __int__ = __len__ = _refused
    __eq__ = __ge__ = __gt__ = __le__ = __lt__ = __ne__ = __reduce_ex__ = _refused
    __hash__ = None  # type: ignore[assignment]

    def sensitivity(self, adjacency: str) -> float:
        """Return the largest change of the computed sum by one record."""
        replaced = adjacency == Adjacency.REPLACE_ONE
        return self.norm * ((self.apart if replaced else 1.0) + self.rounding)

    def _like(self, value):
        return Sealed(value, self.norm, self.apart, self.rounding)

    def __mul__(self, number: float) -> "Sealed":
        return Sealed(self.__value * number, self.norm * abs(number), self.apart, self.rounding)

    def __truediv__(self, number: float) -> "Sealed":
        return Sealed(self.__value / number, self.norm / abs(number), self.apart, self.rounding)

    def __getitem__(self, places: Any) -> "Sealed":
        """Return some coordinates; the places are public."""
        return self._like(self.__value[places])


class SealedCounts(Sealed):
    """Exact counts of records: one adds at most 1 to each, and at most ``most`` in all."""

    __slots__ = ()

    def __init__(self, value: Any, most: int = 1, rounding: float = 0.0) -> None:
        super().__init__(value, math.sqrt(most), ACUTE, rounding)

    def at(self, place: int) -> Sealed:
        """Return a single count."""
        return Sealed(opened(self)[place], 1.0, POSITIVE, self.norm * self.rounding)


class SealedCells(SealedCounts):
    """Counts in the cells of columns: a record is in at most one cell of each column.

    Parameters
    ----------
    value : array-like of float of shape (n_columns, n_cells), or (n_cells_in_all,)
        Counts of each column, or of one column after the other.
    edges : ndarray of int of shape (n_columns + 1,) or None, default=None
        Where columns begin and end; None: a row of ``value`` is a column.
    """

    __slots__ = ("__edges",)

    def __init__(self, value: Any, edges: np.ndarray | None = None) -> None:
        value = np.asarray(value, dtype=np.float64)
        self.__edges = np.arange(len(value) + 1) * value.shape[-1] if edges is None else edges
        super().__init__(value.ravel(), self.n_columns)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.__edges) - 1

    def _by_column(self):
        return opened(self).reshape(self.n_columns, -1)

    @classmethod
    def in_portions(cls, portions: Sequence[Sequence["SealedCells"]]) -> "SealedCells":
        """Return the counts of columns, of which each portion of the records has a list."""
        return cls(sum(np.vstack([one._by_column() for one in columns]) for columns in portions))

    def only(self, places: np.ndarray) -> SealedCounts:
        """Return some counts alone, of as few columns as these public places are in."""
        columns = np.searchsorted(self.__edges, places, "right")
        return SealedCounts(opened(self)[places], np.unique(columns).size)

    def columns(self, chosen: Any) -> "SealedCells":
        """Return the counts of some columns, by number or by a mask, all of as many cells."""
        return SealedCells(self._by_column()[chosen])

    def merged(self, places: np.ndarray, n_cells: int) -> "SealedCells":
        """Return counts in other cells of the same columns, all of one number of cells.

        ``places`` says which of the new cells of its column each cell goes to, of shape (n_columns,
        n_cells_before) or of one column for all; -1: to none.
        """
        if np.max(places) >= n_cells:
            raise ValueError(f"there is no cell {np.max(places)} among {n_cells}")
        value = self._by_column()
        firsts = (n_cells + 1) * np.arange(self.n_columns)[:, None]
        of_all = firsts + np.where(places < 0, n_cells, places)  # the last cell is left out
        size = self.n_columns * (n_cells + 1)
        out = np.bincount(of_all.ravel(), value.ravel(), size).reshape(self.n_columns, -1)
        return SealedCells(out[:, :-1])

    def with_columns(self, chosen: np.ndarray, other: "SealedCells") -> "SealedCells":
        """Return counts of which the chosen columns, a mask, are those of another."""
        return SealedCells(np.where(chosen[:, None], other._by_column(), self._by_column()))

    def without(self, places: Sequence[int]) -> "SealedCells":
        """Return the counts with 0 in some cells."""
        value = opened(self).copy()
        value[list(places)] = 0
        return SealedCells(value, self.__edges)


class SealedProducts(Sealed):
    """A sum of the outer products of a vector of each record with itself.

    ``norm`` is the largest squared norm of a vector; no two of the products are at an obtuse angle.
    """

    __slots__ = ()

    def __init__(self, value: Any, norm: float, rounding: float) -> None:
        super().__init__(value, norm, ACUTE, rounding)

    @property
    def n_columns(self) -> int:
        """Number of coordinates of a vector."""
        return len(opened(self))

    def largest_eigenvalue(self, n_records: int) -> Sealed:
        """Return the largest eigenvalue, which a record moves up by at most ``norm`` (Weyl).

        LAPACK's eigenvalues are those of a matrix that is off by some eps of the largest one.
        """
        with one_blas_thread():
            top = np.linalg.eigvalsh(opened(self))[-1]
        rounding = self.rounding + 64 * self.n_columns * n_records * _EPS
        return Sealed(top, self.norm, POSITIVE, rounding)


class Noisy(NamedTuple):
    """A released statistic, and the standard deviation of its noise where the scale is 1."""

    value: Any
    std: float


def opened(sealed: Sealed) -> np.ndarray:
    """Return the sum without noise: for noise, for sources, and for steps that stay secret."""
    return sealed._Sealed__value  # type: ignore[attr-defined]


def stacked(parts: Sequence[Sealed]) -> Sealed:
    """Return sums side by side: a record moves each of them."""
    norm = math.sqrt(math.fsum(part.norm**2 for part in parts))
    apart = math.sqrt(math.fsum((part.norm * part.apart) ** 2 for part in parts)) / norm
    rounding = math.sqrt(math.fsum((part.norm * part.rounding) ** 2 for part in parts)) / norm
    value = np.concatenate([opened(part).ravel() for part in parts])
    return Sealed(value, norm, apart, rounding)
