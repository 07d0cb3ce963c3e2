"""Public expansions of columns: cosines on public scales, one-hot levels, products of cosines.

Nothing is learnt from records. A column within public bounds [low, high] is seen on one or two
scales that run from 0 to 1: linear, and where the bounds hold 0, a logarithmic one that starts
there. Its features are cos(pi k u) k^-decay, k = 1..n_terms, an orthogonal basis whose decay makes
of a ridge penalty a penalty on roughness.

`Expansion` looks at a column through at most 255 cells of public edges, so that a row is one small
number a column, and its features are rows of public tables.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import sparse

from skdpdyn.core import rules
from skdpdyn.core.columns import (
    DATE,
    NUMBER,
    apart,
    key_of,
    moments,
    numbers_in,
    other_key,
    read_each,
    values_of,
)
from skdpdyn.kernels.cells import write_products, write_terms
from skdpdyn.kernels.ready import MOST_EDGES, write_codes
from skdpdyn.privacy.checks import is_auto, quoted
from skdpdyn.support.stored import FieldsAlone

_DEPTH = 1000.0  # of the log scale: it tells numbers apart down to a thousandth of the bounds
_N_CELLS = 254  # of a column of numbers, and one more for missing values: a byte
_OCTAVES = 16.0  # that the cells of a log scale reach down
PAIR_WEIGHT = 0.5
FINE_DECAY = 0.5
_SHOWN = 4.0  # deviations of their noise from which on cells show records: 1 in 30,000 looks
_BESIDE = 1.5  # and of cells beside those
_LEAST_REST = 1e-6  # part of the records in the last cells, which `Expansion.inside` keeps by it
_MOST_HIDDEN = 0.06  # part of the records that noise may hide before those: more are in a tail

__all__ = ["Expansion", "Levels", "NumberColumn", "cosines", "on_scales"]


def _logarithm(values, low, high):
    """Return numbers on a log scale that starts at 0, within [-1, 1]."""
    reach = max(high, -low)
    size = np.log1p(_DEPTH * np.abs(values) / reach) / math.log1p(_DEPTH)
    return np.copysign(size, values)


def on_scales(
    values: np.ndarray, low: float, high: float, scales: Sequence[str]
) -> list[np.ndarray]:
    """Return numbers within [low, high] on each scale, from 0 to 1.

    Parameters
    ----------
    values : ndarray
        Numbers; those outside count as the nearer bound.
    low, high : float
        Public bounds.
    scales : sequence of {"linear", "log"}
        Scales. "log" is left out where the bounds do not hold 0.

    Returns
    -------
    list of ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.core.expansion import on_scales
    >>> linear, log = on_scales(np.array([0.0, 1.0, 10.0]), 0.0, 10.0, ("linear", "log"))
    >>> linear.tolist(), log.round(2).tolist()
    ([0.0, 0.1, 1.0], [0.0, 0.67, 1.0])
    """
    values = np.clip(values, low, high)
    places = []
    if "linear" in scales:
        places.append((values - low) / (high - low))
    if "log" in scales and low <= 0 <= high:
        first, last = _logarithm(np.array([low, high]), low, high)
        places.append((_logarithm(values, low, high) - first) / (last - first))
    return places


def cosines(scale: np.ndarray, n_terms: int, decay: float) -> np.ndarray:
    """Return cos(pi k u) k^-decay, k = 1..n_terms, of numbers u; 2 u - 1 where ``n_terms`` is 0."""
    if n_terms == 0:
        return 2 * scale[:, None] - 1
    k = np.arange(1, n_terms + 1)
    return np.cos(np.pi * np.multiply.outer(scale, k)) * k**-decay


@dataclass(frozen=True)
class NumberColumn(FieldsAlone):
    """A column of numbers within bounds, which may be missing: the last of its cells.

    Parameters
    ----------
    low, high : float
        Bounds, public or bought. Numbers outside count as the nearer one.
    scales : tuple of str, default=("linear", "log")
        Scales that it is seen on.
    kind : {"number", "date"}, default="number"
        What the numbers are: dates are days since 1970.
    shared : tuple of float or None, default=()
        Values within the bounds that many records have: each has a cell, and a feature besides its
        place on the scales. None: they are still to be bought.

    Examples
    --------
    >>> from skdpdyn.core.expansion import NumberColumn
    >>> column = NumberColumn(0.0, 100.0, shared=(20.0,))
    >>> (cell,) = set(column.codes([20, 20.0])) - set(column.codes([19.99, 20.01]))
    >>> float(column.middles[cell])
    20.0
    """

    low: float
    high: float
    scales: tuple[str, ...] = ("linear", "log")
    kind: str = NUMBER
    shared: tuple[float, ...] | None = ()

    @property
    def has_log(self) -> bool:
        """Whether a log scale from 0 suits the bounds."""
        return self.low <= 0 <= self.high

    @cached_property
    def edges(self) -> np.ndarray:
        """Inner edges of the cells: half of them evenly spaced, half by a log scale from 0.

        Those around shared values are so far apart that single precision tells them.
        """
        shared = np.array(self.shared or ())
        n_cells = _N_CELLS - 2 * shared.size
        grids = [np.linspace(self.low, self.high, n_cells // 2 if self.has_log else n_cells + 1)]
        if self.has_log:
            ends = [end for end in (self.low, self.high) if end != 0]
            each = (n_cells // 2) // len(ends)
            grids += [end * 2.0 ** -np.linspace(0, _OCTAVES, each) for end in ends]
        least = (self.high - self.low) * 2.0**-40
        beyond = shared + np.maximum(np.abs(shared) * 2.0**-21, least)
        edges = np.unique(np.concatenate([*grids, shared, np.minimum(beyond, self.high)]))
        return edges[1:-1]

    @property
    def n_cells(self) -> int:
        """Number of cells, with that of missing values."""
        return self.edges.size + 2

    @cached_property
    def _for_kernel(self):
        """Edges up to their largest number, and the cell of missing values."""
        edges = np.full((1, MOST_EDGES), np.inf)
        edges[0, : self.edges.size] = self.edges
        return edges, np.array([self.n_cells - 1])

    @cached_property
    def middles(self) -> np.ndarray:
        """The number that each cell stands for."""
        ends = np.concatenate([[self.low], self.edges, [self.high]])
        middles = (ends[:-1] + ends[1:]) / 2
        middles[self.flagged[:-1]] = self.shared or ()
        return middles

    @cached_property
    def flagged(self) -> np.ndarray:
        """Cells that have a feature of their own: of shared values, and the last, of missing ones.

        These are the last features of the column.
        """
        at = np.searchsorted(self.edges, np.array(self.shared or ()), side="right")
        return np.append(at, self.n_cells - 1)

    @property
    def n_flags(self) -> int:
        """Number of features that are 1 in one cell, and 0 elsewhere."""
        return 1 + len(self.shared or ())

    def within(self, low: float, high: float) -> "NumberColumn":
        """Return the column with other bounds; shared values beyond count as the nearer one."""
        shared = self.shared and tuple(sorted({*np.clip(self.shared, low, high).tolist()}))
        return NumberColumn(low, high, kind=self.kind, shared=shared)

    @property
    def shown(self) -> np.ndarray:
        """The middles as they are shown: of dates, dates of numpy."""
        return moments(self.middles) if self.kind == DATE else self.middles

    def codes(self, values: Any) -> np.ndarray:
        """Return the cell of each number."""
        values = numbers_in(values, self.kind)
        kernel = write_codes.in_memory
        if kernel is not None and values.ndim == 1 and self.edges.size <= MOST_EDGES:
            codes = np.empty((1, values.size), np.uint16)
            kernel(np.ascontiguousarray(values)[:, None], *self._for_kernel, codes)
            return codes[0]
        places = np.searchsorted(self.edges, values, side="right")  # NaN is after all
        places[np.isnan(values)] = self.n_cells - 1
        return places


@dataclass(frozen=True)
class Levels(FieldsAlone):
    """A column of public levels; then come a cell of all others, and one of missing values.

    Cells are compared by `skdpdyn.core.columns.key_of`.

    Parameters
    ----------
    levels : tuple
        Public levels, as they are shown. Missing values among them are left out: they have a cell.

    Raises
    ------
    ValueError
        If two levels have one key, or a value can be no level.

    Examples
    --------
    >>> from skdpdyn.core.expansion import Levels
    >>> column = Levels(("a", 1, None))
    >>> column.levels, column.codes([1.0, "1", " a ", "b", None]).tolist()
    (('a', 1), [1, 1, 0, 2, 3])
    """

    levels: tuple

    def __post_init__(self):
        keys = [key_of(level) for level in self.levels]
        present = [key for key in keys if key is not None]
        if () in present or len(set(present)) < len(present):
            raise ValueError(
                "levels must be numbers, dates or text, and differ: 1, 1.0, True and '1' are one "
                "level, and blanks around a text do not count"
            )
        if len(present) < len(keys):  # else they keep the source that they may have
            named = zip(self.levels, keys, strict=True)
            levels = tuple(level for level, key in named if key is not None)
            object.__setattr__(self, "levels", levels)

    @property
    def n_cells(self) -> int:
        """Number of cells, with those of other and of missing values."""
        return len(self.levels) + 2

    @property
    def n_flags(self) -> int:
        """Number of features that are 1 in one cell, and 0 elsewhere: all."""
        return self.n_cells

    @cached_property
    def places(self) -> dict[Any, int]:
        """The cell of each key: of flags in both their forms, of missing values too."""
        places: dict[Any, int] = {key_of(level): j for j, level in enumerate(self.levels)}
        other_forms = {other_key(key): place for key, place in places.items()}
        return {**other_forms, **places, None: self.n_cells - 1}

    def codes(self, values: Any) -> np.ndarray:
        """Return the cell of each value."""
        different, of_values = apart(values)
        other = self.n_cells - 2
        cells = [self.places.get(key, other) for key in read_each(key_of, different, ())]
        return np.array(cells, dtype=np.intp)[of_values]


def levels_in(values: Any) -> tuple[Levels, np.ndarray]:
    """Return the levels that occur in a column, by value, which are private, and each one's cell.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.core.expansion import levels_in
    >>> column, codes = levels_in(np.array(["b", 7, None, "7"], dtype=object))
    >>> column.levels, codes.tolist()
    ((7, 'b'), [1, 0, 3, 0])
    """
    different, of_values = apart(values)
    keys = read_each(key_of, different, ())
    occur = np.bincount(of_values, minlength=len(keys)) > 0  # not all of a categorical's own list
    found = {key for key, there in zip(keys, occur, strict=True) if there} - {None, ()}
    column = Levels(tuple(sorted(found, key=lambda key: (isinstance(key, str), key))))
    other = column.n_cells - 2
    places = column.places
    cells = [other if key == () else places.get(key, other) for key in keys]
    return column, np.array(cells, dtype=np.intp)[of_values]


def weighted_squares(table: Any, centre: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted sums of squares of each cell's features less a centre.

    Parameters
    ----------
    table : ndarray or sparse matrix of shape (n_cells, n_features)
        Features of cells; a sparse one is a diagonal matrix.
    centre, weights : ndarray of shape (n_features,)
        Centre, and weights of squares.
    """
    if not sparse.issparse(table):
        return np.square(table - centre) @ weights
    absent = weights * np.square(centre)
    return weights * np.square(table.diagonal() - centre) + (absent.sum() - absent)


def _before_records(parts, std):
    """Return the number of cells before the first ones that hold records, as noisy counts show.

    Cells are looked at alone and side by side. Of those beyond their noise the fewest are taken
    that end first, and then those beside them while they are probably more than noise. 0 where
    noise may hide a tail, which has much of a skewed column: R^2 of King County's prices at epsilon
    1 is .74 without it, and .76. 0, too, where the first cell alone may hold records: the ones of a
    rare dummy are there.
    """
    if parts[0] > _BESIDE * std:
        return 0
    below = np.append(0.0, np.cumsum(parts))
    widths = [2**k for k in range(parts.size.bit_length())]
    shown = []
    for width in widths:
        stands_out = below[width:] - below[:-width] > _SHOWN * std * math.sqrt(width)
        if stands_out.any():
            start = int(np.argmax(stands_out))
            shown.append((start + width, -start))
    first = -min(shown)[1] if shown else 0
    if 2 * std * math.sqrt(first) > _MOST_HIDDEN:
        return 0
    is_wider = True
    while is_wider:
        likely = (
            width
            for width in widths
            if width <= first
            and below[first] - below[first - width] > _BESIDE * std * math.sqrt(width)
        )
        wider = next(likely, 0)
        first -= wider
        is_wider = wider > 0
    return first


def _distribution(parts, std, least, deviations):
    """Return the part of the records below the middle of each cell; cells of noise are merged.

    It is 0 and 1 in cells at the ends that show no records.
    """
    first = _before_records(parts, std)
    last = parts.size - _before_records(parts[::-1], std)
    ends = [first]
    mass = []
    pooled = 0.0
    for cell in range(first, last):
        pooled += float(parts[cell])
        if pooled >= max(least, deviations * std * math.sqrt(cell + 1 - ends[-1])):
            ends.append(cell + 1)
            mass.append(pooled)
            pooled = 0.0
    if ends[-1] < last:
        ends.append(last)
        mass.append(max(pooled, _LEAST_REST) if mass else 1.0)
    below = np.append(0.0, np.cumsum(mass))
    return tuple(np.interp(np.arange(len(parts)) + 0.5, ends, below / below[-1]).tolist())


@dataclass(frozen=True, eq=False)
class PairProducts:
    """Products of a pair of columns as functions of its two cells.

    Parameters
    ----------
    features : ndarray of int
        Their places among all features.
    weights : ndarray of shape (n_products,)
        Their weights.
    first, second : ndarray of int
        Which two of 1 and of all products, without their weights, are multiplied.
    left, right : ndarray of shape (n_cells, n_multiplied)
        At cells k and l that is ``left[k] * right[l]``.
    """

    features: np.ndarray
    weights: np.ndarray
    first: np.ndarray
    second: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def _moved(self, centre):
        """Return the matrix that makes of 1 and of products without weights those less a centre."""
        return np.column_stack([-centre[self.features], np.diag(self.weights)])

    def squares(self, weights: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Return squared lengths of W v of the products v, less their centre, at each two cells.

        ``weights`` are the block of W for these features.
        """
        turned = weights @ self._moved(centre)
        of_two = turned.T @ turned
        of_two = of_two[self.first, self.second] * np.where(self.first == self.second, 1.0, 2.0)
        return (self.left * of_two) @ self.right.T

    def moment(self, counts: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Return the sum of outer(v, v) over rows of the products v, from counts of two cells."""
        moved = self._moved(centre)
        sums = np.zeros((moved.shape[1],) * 2)
        sums[self.first, self.second] = np.sum((counts.T @ self.left) * self.right, axis=0)
        sums[self.second, self.first] = sums[self.first, self.second]
        return moved @ sums @ moved.T


@dataclass(frozen=True)
class Expansion(FieldsAlone):
    """Public tables of features of rows that are given as cells.

    Parameters
    ----------
    columns : tuple of NumberColumn or Levels
        Columns.
    n_terms : int
        Number of cosines of each scale.
    decay : float
        Decay of the cosines.
    pairs : tuple of (int, int), default=()
        Pairs of columns whose low cosines, and levels, are multiplied.
    order : int, default=2
        Products of cosines of frequencies a and b have a b up to this.
    fine : tuple of int, default=()
        For each pair the order that it is drawn finely with: its products decay slower. 0: as
        others; (): none is.
    distributions : tuple of (tuple of float or None) or None, default=None
        For each column, the part of the records below each cell and half of those in it: a further
        scale, of what was released. None: no such scale.
    full_levels : float, default=inf
        Number of levels of a column up to which the feature of a level is 1. In a column of more
        levels it is the root of this over their number.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.core.expansion import Expansion, Levels, NumberColumn
    >>> expansion = Expansion((NumberColumn(1.0, 3.0), Levels(("a", "b"))), n_terms=2, decay=1.0)
    >>> codes = np.array([[0, 1], [254, 3]])
    >>> expansion.expanded(codes).round(2).tolist()
    [[1.0, 0.5, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]]
    """

    columns: tuple[NumberColumn | Levels, ...]
    n_terms: int
    decay: float
    pairs: tuple[tuple[int, int], ...] = ()
    order: int = 2
    fine: tuple[int, ...] = ()
    distributions: tuple[tuple[float, ...] | None, ...] | None = None
    full_levels: float = math.inf

    def __post_init__(self):
        if len(set(self.pairs)) < len(self.pairs):
            raise ValueError(f"pairs={quoted(self.pairs)} must differ")
        if self.fine and len(self.fine) != len(self.pairs):
            raise ValueError(f"fine={quoted(self.fine)} must have a number for each pair")

    # --- sizes ------------------------------------------------------------------------------------

    def n_scales(self, column: NumberColumn | Levels) -> int:
        """Return the number of public scales of a column."""
        if isinstance(column, Levels):
            return 0
        return sum(scale == "linear" or column.has_log for scale in column.scales)

    @cached_property
    def widths(self) -> list[int]:
        """Number of features of each column."""
        extra = self.distributions is not None
        return [
            (self.n_scales(column) + extra * isinstance(column, NumberColumn))
            * max(self.n_terms, 1)
            + column.n_flags
            for column in self.columns
        ]

    @cached_property
    def n_features(self) -> int:
        """Number of features of a row."""
        return sum(self.widths) + self.n_products

    @cached_property
    def n_products(self) -> int:
        """Number of products of pairs, before any is listed."""
        return sum(map(self.n_products_of, range(len(self.pairs))))

    def n_products_of(self, k: int) -> int:
        """Return the number of products of a pair, by its number, before any is listed."""
        sizes = [len(getattr(self.columns[j], "levels", (0,))) for j in self.pairs[k]]
        return math.prod(sizes) * len(self._terms_of_pair(k))

    @cached_property
    def unlisted(self) -> np.ndarray:
        """Whether nobody may be in a cell: missing values, and levels that no list names."""
        unlisted = np.zeros(self.n_cells, dtype=bool)
        for column, end in zip(self.columns, self.starts[1:], strict=True):
            unlisted[end - 1 - isinstance(column, Levels) : end] = True
        return unlisted

    @cached_property
    def starts(self) -> np.ndarray:
        """Place of each column's first cell among all cells, and the number of cells."""
        return np.append(0, np.cumsum([column.n_cells for column in self.columns]))

    @property
    def n_cells(self) -> int:
        """Number of cells of all columns."""
        return int(self.starts[-1])

    @cached_property
    def code_dtype(self) -> np.dtype:
        """Smallest type of integers that numbers all cells of a column."""
        most = max(column.n_cells for column in self.columns)
        return np.min_scalar_type(most - 1)

    @cached_property
    def slices(self) -> list[slice]:
        """Return where each column has its features, and behind them each pair."""
        sizes = [*self.widths, *map(len, self.factors)]
        ends = np.cumsum(sizes).tolist()
        return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]

    @cached_property
    def row_norm(self) -> float:
        """Largest norm of a row, whatever its cells, and whatever distributions are learnt."""
        of_scale = math.fsum(k ** (-2 * self.decay) for k in range(1, max(self.n_terms, 1) + 1))
        extra = self.distributions is not None
        scales = [
            max((self.n_scales(column) + extra) * of_scale + (column.n_flags > 1), 1.0)
            if isinstance(column, NumberColumn)
            else self.flag(j) ** 2
            for j, column in enumerate(self.columns)
        ]
        squares = math.fsum(scales) + math.fsum(
            # a row has one of the levels of each column
            math.fsum(weight**2 for *_, weight in self._terms_of_pair(k))
            for k in range(len(self.pairs))
        )
        return math.sqrt(squares) * (1 + 1e-9)

    @cached_property
    def longest(self) -> float:
        """Largest norm of a row whatever its cells, by the tables themselves."""
        squares = [
            float(weighted_squares(table, np.zeros(width), np.ones(width)).max())
            for table, width in zip(self.tables, self.widths, strict=True)
        ]
        # of each column the largest squares of its frequencies, after that of any of its levels
        largest = []
        columns = zip(self.starts, self.starts[1:], np.diff(self.low_starts), strict=False)
        for first, last, n in columns:
            low = self.low[first:last, :n] ** 2
            largest.append([low.sum(axis=1).max(), *low.max(axis=0)])
        squares += [
            largest[i][a] * largest[j][b] * weight**2
            for k, (i, j) in enumerate(self.pairs)
            for a, b, weight in self._terms_of_pair(k)
        ]
        return math.sqrt(math.fsum(squares)) * (1 + 1e-12)

    # --- tables -----------------------------------------------------------------------------------

    @cached_property
    def tables(self) -> list[Any]:
        """For each column, the features of each cell; of levels, a sparse diagonal matrix."""
        return [
            sparse.eye(column.n_cells, format="csr") * self.flag(j)
            if isinstance(column, Levels)
            else self._of_numbers(j)
            for j, column in enumerate(self.columns)
        ]

    def flag(self, j: int) -> float:
        """Return the feature of a level of a column, or of a missing number."""
        column = self.columns[j]
        if isinstance(column, NumberColumn):
            return 1.0
        return math.sqrt(min(1.0, self.full_levels / max(len(column.levels), 1)))

    def inside(self, j: int) -> slice:
        """Return the cells of a column of numbers between the ends of its distribution.

        Cells before and behind count as the nearer end. All cells where no distribution is known.
        """
        n_cells = self.columns[j].n_cells - 1
        below = None if self.distributions is None else self.distributions[j]
        if below is None:
            return slice(0, n_cells)
        first = int(np.searchsorted(below, 0.0, side="right"))
        return slice(first, int(np.searchsorted(below, 1.0, side="left")))

    def last_scale(self, j: int) -> np.ndarray:
        """Return the cells of a column of numbers on its last scale: of a distribution, if any."""
        return self._scales(j)[-1]

    def _scales(self, j):
        column = self.columns[j]
        inside = self.inside(j)
        scales = on_scales(column.middles, column.low, column.high, column.scales)
        if self.distributions is not None:
            scales.append(np.asarray(self.distributions[j]))
        cells = np.clip(np.arange(column.n_cells - 1), inside.start, inside.stop - 1)
        return [scale[cells] for scale in scales]

    def _of_numbers(self, j):
        flagged = self.columns[j].flagged
        flags = np.zeros((self.columns[j].n_cells, flagged.size))
        flags[flagged, np.arange(flagged.size)] = 1.0
        parts = [cosines(scale, self.n_terms, self.decay) for scale in self._scales(j)]
        return np.hstack([np.pad(np.hstack(parts), [(0, 1), (0, 0)]), flags])

    @cached_property
    def low(self) -> np.ndarray:
        """Numbers of each cell that products multiply: low cosines, or a level."""
        factors = np.zeros((self.n_cells, int(np.diff(self.low_starts).max())))
        for j, (first, column) in enumerate(zip(self.starts, self.columns, strict=False)):
            n = self.low_starts[j + 1] - self.low_starts[j]
            if isinstance(column, Levels):
                factors[first : first + n, :n] = np.eye(n)
            else:
                rows = slice(first, first + column.n_cells - 1)
                factors[rows, :n] = cosines(self.last_scale(j), int(n), 0.0)
        return factors

    @cached_property
    def low_starts(self) -> np.ndarray:
        """Place of each column's first number among those of `low`, side by side."""
        paired = {j for pair in self.pairs for j in pair}
        sizes = [
            self._highest(j)
            if isinstance(column, NumberColumn)
            else len(column.levels) * (j in paired)
            for j, column in enumerate(self.columns)
        ]
        return np.append(0, np.cumsum(sizes))

    @cached_property
    def head(self) -> "Expansion":
        """The expansion with the lowest products of each pair alone."""
        return replace(self, order=1, fine=())

    @cached_property
    def blocks(self) -> list[np.ndarray]:
        """Features that a map of rows mixes: of all columns, of all lowest products, then by pair.

        Log losses at epsilon 1 to 10 are within .004 of those of a map that mixes all features.
        """
        numbers = np.arange(self.n_features)
        parts = self.slices[len(self.columns) :]
        n_lowest = [*map(len, self.head.factors)]
        lowest = [numbers[part][:n] for part, n in zip(parts, n_lowest, strict=True)]
        others = [numbers[part][n:] for part, n in zip(parts, n_lowest, strict=True)]
        blocks = [numbers[: sum(self.widths)], np.concatenate([numbers[:0], *lowest]), *others]
        return [block for block in blocks if block.size]

    @property
    def is_mixed(self) -> bool:
        """Whether features, of each block by itself, are few enough for a full second moment."""
        most = rules.MOST_EXPANDED, rules.MOST_MATRIX_COLUMNS
        sizes = sum(self.widths), len(self.pairs)
        return self.n_features <= most[0] and max(sizes) <= most[1]

    @property
    def mixed(self) -> np.ndarray:
        """Whether two features are in one of the blocks, of shape (n_features, n_features)."""
        is_mixed = np.zeros((self.n_features,) * 2, dtype=bool)
        for block in self.blocks:
            is_mixed[np.ix_(block, block)] = True
        return is_mixed

    def tails(self) -> dict[tuple[int, int], PairProducts]:
        """Return the products of each pair beyond the lowest, where there are any."""
        blocks = {int(block[-1]): block for block in self.blocks[2:]}
        parts = zip(self.pairs, self.slices[len(self.columns) :], self.factors, strict=True)
        return {
            pair: self._products(pair, block, factors[-block.size :])
            for pair, part, factors in parts
            if factors and (block := blocks.get(part.stop - 1)) is not None
        }

    def _products(self, pair, features, factors):
        """Return some products of a pair as functions of its cells."""
        *places, weights = zip(*factors, strict=True)
        tables = []
        for j, factors_of_column in zip(pair, places, strict=True):
            table = self.low[
                self.starts[j] : self.starts[j + 1],
                np.array(factors_of_column) - self.low_starts[j],
            ]
            tables.append(np.column_stack([np.ones(len(table)), table]))
        meet = [(table != 0).T @ (table != 0) for table in tables]  # no row has two levels
        first, second = np.nonzero(np.triu(meet[0] & meet[1]))
        sides = (table[:, first] * table[:, second] for table in tables)
        return PairProducts(features, np.array(weights), first, second, *sides)

    def _order_of(self, k):
        """Return the order of a pair, and the decay of its products."""
        fine = self.fine[k] if self.fine else 0
        return (fine, FINE_DECAY) if fine else (self.order, self.decay)

    def _highest(self, j):
        """Return the highest order of the pairs that a column is in."""
        orders = (self._order_of(k)[0] for k, pair in enumerate(self.pairs) if j in pair)
        return max(self.order, *orders, 0)

    def _terms_of_pair(self, k):
        """Return frequencies, or 0 for levels, and weights of the products of a pair, by kind."""
        are_numbers = (isinstance(self.columns[j], NumberColumn) for j in self.pairs[k])
        return _terms_of_kinds(*self._order_of(k), *are_numbers)

    @cached_property
    def factors(self) -> list[list[tuple[int, int, float]]]:
        """For each pair the places of both factors of its products in `low`, and their weights."""
        return [
            [
                (place, other_place, weight)
                for a, b, weight in self._terms_of_pair(k)
                for place in self._places(i, a)
                for other_place in self._places(j, b)
            ]
            for k, (i, j) in enumerate(self.pairs)
        ]

    def _places(self, j, frequency):
        first = self.low_starts[j]
        stop = self.low_starts[j + 1]
        return [first + frequency - 1] if frequency else range(first, stop)

    @cached_property
    def places(self) -> np.ndarray:
        """Places of both factors of the products of all pairs, of shape (2, n_products)."""
        places = [factor[:2] for factors in self.factors for factor in factors]
        return np.ascontiguousarray(np.array(places, dtype=np.int64).reshape(-1, 2).T)

    @cached_property
    def pair_weights(self) -> np.ndarray:
        """Factors of the products of all pairs."""
        return np.array([weight for factors in self.factors for *_, weight in factors])

    def expanded(self, codes: np.ndarray) -> np.ndarray:
        """Return the features of rows that are given as cells, shape (n_rows, n_features)."""
        rows = np.empty((len(codes), self.n_features))
        for j, (part, table) in enumerate(zip(self.slices, self.tables, strict=False)):
            if isinstance(self.columns[j], Levels):
                rows[:, part] = 0.0
                rows[np.arange(len(codes)), part.start + codes[:, j].astype(np.intp)] = self.flag(j)
            else:
                np.take(table, codes[:, j], axis=0, out=rows[:, part], mode="clip")
        rows[:, sum(self.widths) :] = self.products(codes)
        return rows

    def products(self, codes: np.ndarray) -> np.ndarray:
        """Return the last features of rows, products of pairs, shape (n_rows, n_products)."""
        products = np.empty((len(codes), self.pair_weights.size))
        tables = self.starts, self.low, self.low_starts, self.places
        if products.size:
            write_products(codes, *tables, self.pair_weights, products)
        return products

    def terms(
        self, codes: np.ndarray, weights: np.ndarray, centres: np.ndarray, factor: np.ndarray
    ) -> np.ndarray:
        """Return the contribution of each column, and each pair, to raw predictions.

        Parameters
        ----------
        codes : ndarray of shape (n_rows, n_columns)
            Cells.
        weights : ndarray of shape (n_outputs, n_weights)
            What is said of each cell, and of products, see `cells`.
        centres : ndarray of shape (n_outputs, n_columns + n_pairs)
            What is subtracted from it.
        factor : ndarray of shape (n_rows,)
            What the rest is multiplied by.

        Returns
        -------
        ndarray of shape (n_outputs, n_rows, n_columns + n_pairs)
        """
        terms = np.empty((len(weights), len(codes), len(self.columns) + len(self.pairs)))
        ends = np.append(0, np.cumsum([*map(len, self.factors)])).astype(np.int64)
        tables = self.starts, self.low, self.low_starts, self.places, ends
        for of_output, centre, out in zip(weights, centres, terms, strict=True):
            write_terms(codes, *tables, of_output, centre, factor, out)
        return terms

    # --- the linear map between features and what kernels read, and its transpose ----------------

    @property
    def n_weights(self) -> int:
        """Numbers that a kernel reads for an output: one a cell, and one a product."""
        return self.n_cells + self.pair_weights.size

    def cells(self, coef: np.ndarray) -> np.ndarray:
        """Return the contribution of each cell, and of each product, of shape (n_weights,).

        Parameters
        ----------
        coef : ndarray of shape (n_features,)
            Coefficients of features.
        """
        parts = [table @ coef[part] for table, part in zip(self.tables, self.slices, strict=False)]
        return np.concatenate([*parts, coef[sum(self.widths) :] * self.pair_weights])

    def features(self, sums: np.ndarray) -> np.ndarray:
        """Return the transpose of `cells` times sums over rows, of shape (n_features,)."""
        features = np.empty(self.n_features)
        for j, table in enumerate(self.tables):
            features[self.slices[j]] = sums[self.starts[j] : self.starts[j + 1]] @ table
        features[sum(self.widths) :] = sums[self.n_cells :] * self.pair_weights
        return features

    # --- distributions of columns -----------------------------------------------------------------

    @property
    def n_numbers(self) -> int:
        """Number of columns of numbers."""
        return sum(isinstance(column, NumberColumn) for column in self.columns)

    @cached_property
    def cells_of_numbers(self) -> np.ndarray:
        """Return the places of the cells of numbers, without those of missing ones."""
        parts = [
            np.arange(first, first + column.n_cells - 1)
            for first, column in zip(self.starts, self.columns, strict=False)
            if isinstance(column, NumberColumn)
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)

    def with_uniform_distributions(self) -> "Expansion":
        """Return the expansion with a further scale of each column, until it is known."""
        uniform = tuple(
            tuple(on_scales(column.middles, column.low, column.high, ("linear",))[0].tolist())
            if isinstance(column, NumberColumn)
            else None
            for column in self.columns
        )
        return replace(self, distributions=uniform)

    def with_distributions(
        self, parts: np.ndarray, std: float, least: float, deviations: float
    ) -> "Expansion":
        """Return the expansion with the scales that released parts of the records in cells give.

        Parameters
        ----------
        parts : ndarray of shape (n_cells,)
            Noisy part of the records in each cell.
        std : float
            Standard deviation of the noise.
        least : float
            Cells are merged until they hold this part of the records.
        deviations : float
            And until they stand so many standard deviations out of their noise.
        """
        distributions = tuple(
            _distribution(parts[first : first + column.n_cells - 1], std, least, deviations)
            if isinstance(column, NumberColumn)
            else None
            for first, column in zip(self.starts, self.columns, strict=False)
        )
        return replace(self, distributions=distributions)


def bounds_by_column(
    bounds: Any, name: str, n_features: int, names: Any = None, *, partly: bool = False
) -> np.ndarray:
    """Return public bounds of shape (n_features, 2); errors call the parameter ``name``.

    Parameters
    ----------
    bounds : tuple (low, high), array-like of shape (n_features, 2) or dict
        As a user gives them: numbers, or dates, which become days since 1970.
    name : str
        Name of the parameter.
    n_features : int
        Number of columns.
    names : sequence or None, default=None
        Names of the columns. None: a dict has their numbers, or is in their order.
    partly : bool, default=False
        Whether a dict may leave columns out, and "auto" all: their bounds are NaN.
    """
    original = bounds
    bounds = {} if partly and is_auto(bounds) else bounds
    if bounds is None:
        raise ValueError(
            f"{name}=None: give the public bounds of the columns, such as {name}={{'age': (0, "
            "110)}, or (0, 1) for all"
        )
    if isinstance(bounds, dict):
        bounds = _in_order(bounds, name, n_features, names, partly)
    try:
        array = np.asarray(values_of(bounds), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None:  # raised here, so that no other error is its context
        raise ValueError(_not_numbers(original, name))
    if array.shape == (2,) and not isinstance(original, dict):
        array = np.tile(array, (n_features, 1))
    if array.shape != (n_features, 2):
        raise ValueError(
            f"{name} has shape {array.shape}: give one pair, or one pair for each of "
            f"{n_features} columns"
        )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        width = array[:, 1] - array[:, 0]
        usable = np.isfinite(width) & (width > 0) & np.isfinite(1 / width)
        usable |= partly & np.isnan(array).all(axis=1)
    if not np.all(usable):
        columns = np.array(range(n_features) if names is None else names, object)[~usable].tolist()
        raise ValueError(
            f"{name}={quoted(original)} must be pairs (low, high) of finite numbers with low < "
            f"high: not so of columns {columns}"
        )
    return array


def _not_numbers(bounds, name):
    """Return the error message for bounds that are not numbers."""
    if isinstance(bounds, dict):
        for column, pair in bounds.items():
            if isinstance(pair, list | tuple) and any(isinstance(end, str) for end in pair):
                return f"{name} of {column!r} are text: pass numbers, dates, or days since 1970"
    return (
        f"{name}={quoted(bounds)} must be (low, high) of numbers or dates, for all columns or for "
        "each of them"
    )


def _in_order(bounds, name, n_features, names, partly):
    """Return the pairs of a dict by column name, in the order of the columns."""
    columns = range(n_features) if names is None else names
    if names is None and not set(bounds) <= set(columns):
        if len(bounds) != n_features:
            raise ValueError(
                f"{name} is a dict by column name: X has no column names, and {n_features} columns "
                f"for {len(bounds)} pairs. Give one pair for each column, in their order"
            )
        columns = bounds
    missing = set(columns) - set(bounds)
    if missing and partly and (unknown := sorted(map(str, {*bounds} - {*columns}))):
        raise ValueError(
            f"{name} is a dict by column name: {unknown} are no columns of numbers in X. Leave "
            "them out"
        )
    if missing and not partly:
        raise ValueError(f"{name} is a dict by column name: no bounds for {sorted(missing)}")
    return [bounds.get(column, (np.nan, np.nan)) for column in columns]


@cache
def _terms_of_kinds(order, decay, *are_numbers):
    """Return frequencies, or 0 for levels, and weights of products of columns of two kinds."""
    kinds = [range(1, order + 1) if is_number else (0,) for is_number in are_numbers]
    products = [(a, b) for a in kinds[0] for b in kinds[1]]
    return tuple(
        (a, b, PAIR_WEIGHT * float(max(a, 1) * max(b, 1)) ** -decay)
        for a, b in products
        if max(a, 1) * max(b, 1) <= (order if a and b else max(order // 2, 1))
    )
