"""Rows of cells for additive models: a byte a column in place of expanded rows."""

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy import sparse

from skdpdyn.core.expansion import Expansion, weighted_squares
from skdpdyn.core.sealed import SealedCells
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.data.rows import ball_of, numbers_of_rows
from skdpdyn.kernels.asked import COUNTS, OUTER, SQUARES, SUM, Statistic
from skdpdyn.kernels.cells import add_cells, count_cells
from skdpdyn.kernels.sums import Total
from skdpdyn.support.blas import in_threads, one_blas_thread

_AT_ONCE = 2048  # rows that are expanded, or summed, at a time
_MOST_EXPANDED = 1 << 23  # numbers of them: 64 MB
_LOOKED_UP = 1 << 15  # rows that are looked up in tables at a time
_EPS = np.finfo(np.float64).eps


class Coded:
    """Rows as cells of public tables, which stand for arrays of expanded rows.

    They have the shape and the precision of expanded rows; some at a time become an array.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        Cells, in C order.
    expansion : Expansion
        Tables.
    """

    dtype = np.dtype(np.float64)
    ndim = 2
    kind: type[LocalRows]  # of rows that are made of them

    def __init__(self, codes: np.ndarray, expansion: Expansion):
        self.codes = codes
        self.expansion = expansion

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return len(self.codes), self.expansion.n_features

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "Coded":
        return Coded(self.codes[rows], self.expansion)

    def toarray(self) -> np.ndarray:
        """Return the expanded rows."""
        return self.expansion.expanded(self.codes)

    def astype(self, dtype: Any, copy: bool = True) -> np.ndarray:
        """Return the expanded rows in a precision."""
        return self.toarray().astype(dtype, copy=False)


def tables_of_squares(
    expansion: Expansion, row_map: RowMap, counts: np.ndarray | None = None, products: bool = True
) -> Iterator[tuple[np.ndarray, dict[int, np.ndarray]]]:
    """Yield tables of squared lengths of rows under a map, but for the lowest products of pairs.

    For each column, those of its cells, and by the number of a later column those of the cells of
    both, where they are not all 0.

    Parameters
    ----------
    expansion : Expansion
        Tables of features.
    row_map : RowMap
        The map, which mixes no features beyond those of each block.
    counts : ndarray of bool of shape (n_cells,) or None, default=None
        Whether a cell counts; others are as if they were at the map's centre. None: all count.
    products : bool, default=True
        Whether products of pairs beyond the lowest count.
    """
    tails = expansion.tails() if products else {}
    centre = centre_of(expansion, row_map)
    slices = expansion.slices
    moved = []
    if not row_map.is_diagonal:
        moved = moved_tables(expansion, row_map, counts)
        gram = row_map.block(expansion.blocks[0])
        gram = gram.T @ gram
    for i in range(len(expansion.columns)):
        if row_map.is_diagonal:
            part = slices[i]
            squares = np.square(row_map.weights[part])
            alone = weighted_squares(expansion.tables[i], centre[part], squares)
            if counts is not None:
                alone = alone * counts[expansion.starts[i] : expansion.starts[i + 1]]
        else:
            alone = np.sum(moved[i] @ gram[slices[i], slices[i]] * moved[i], axis=1)
        of_two = {}
        for j in range(i + 1, len(moved)):
            of_two[j] = moved[i] @ (2 * gram[slices[i], slices[j]]) @ moved[j].T
        for (first, j), tail in tails.items():
            if first == i:
                squares = tail.squares(row_map.block(tail.features), centre)
                of_two[j] = of_two[j] + squares if j in of_two else squares
        yield alone, of_two


def moved_tables(
    expansion: Expansion, row_map: RowMap, counts: np.ndarray | None = None
) -> list[np.ndarray]:
    """Return tables of features of columns less their centre; 0 where a cell does not count."""
    centre = centre_of(expansion, row_map)
    parts = zip(expansion.tables, expansion.slices, strict=False)
    dense = [
        (table.toarray() if sparse.issparse(table) else table) - centre[part]
        for table, part in parts
    ]
    if counts is None:
        return dense
    of_columns = np.split(counts[:, None], expansion.starts[1:-1])
    return [table * of_column for table, of_column in zip(dense, of_columns, strict=True)]


def centre_of(expansion: Expansion, row_map: RowMap) -> np.ndarray:
    """Return the centre of a map of expanded rows."""
    return np.zeros(expansion.n_features) if row_map.centre is None else row_map.centre


def _unit_map(n_features):
    """Return the map that leaves rows within the unit ball as they are, and shortens others."""
    return RowMap(None, np.ones(n_features), norm=1.0, radius=1.0)


def mixes_blocks(expansion: Expansion, row_map: RowMap) -> bool:
    """Return whether a map mixes features beyond those of each block."""
    if row_map.is_diagonal:
        return False
    of_features = np.empty(expansion.n_features, dtype=np.intp)
    for k, block in enumerate(expansion.blocks):
        of_features[block] = k
    return any(np.ptp(of_features[places]) > 0 for places in row_map.blocks)


class CodedRows(LocalRows):
    """Rows of cells in memory, see `LocalRows`."""

    X: Coded
    has_parts = False  # `add_to` cuts other chunks

    @property
    def expansion(self) -> Expansion:  # type: ignore[override]
        """Public tables of features."""
        return self.X.expansion

    def with_expansion(self, expansion: Expansion) -> "CodedRows":
        """Return the same cells under other tables."""
        rows = copy.copy(self)
        rows._cached = []
        rows.X = Coded(self.X.codes, expansion)
        return rows

    def summed(self, statistic: Statistic) -> np.ndarray:
        """See `LocalRows.summed`: by the tables of cells, wherever no row is scaled into a ball."""
        if statistic.source == "rows" and statistic.kind == SUM and self._within(statistic.radius):
            return self._column_sums()
        if (
            statistic.source == "rows"
            and statistic.kind == COUNTS
            and self._within(statistic.radius)
            and not self.expansion.pairs
        ):
            ones = np.ones(self.shape[1])
            rows: Any = self.with_map(RowMap(None, ones, norm=1.0, radius=self.expansion.row_norm))
            return rows._length_counts(statistic)
        if (
            statistic.source == "mapped"
            and not statistic.constant
            and self._within(self.map.radius)
        ):
            if statistic.kind == COUNTS:
                return self._length_counts(statistic)
            if statistic.kind == SQUARES and self._is_separate:
                return self._column_squares()
            if statistic.kind == OUTER and self.has_tables:
                with one_blas_thread():
                    return self._second_moment()
        return super().summed(statistic)

    def add_to(self, total: Total, statistic: Statistic, edges: np.ndarray) -> None:
        """See `LocalRows.add_to`: some expanded rows at a time are chunks of their own."""
        if statistic.source == "targets":
            super().add_to(total, statistic, edges)
            return
        to = statistic.projection
        is_looked_up = to is not None and self._is_separate and self._within(self.map.radius)
        if is_looked_up:
            statistic = replace(statistic, projection=None)
            tables = self._sketched_tables(to)
        at_once = _AT_ONCE if is_looked_up else self._at_once
        for first in range(int(edges[0]), int(edges[-1]), at_once):
            part: Any = self.part(first, min(first + at_once, int(edges[-1])))
            weight = part.weight if part.weight.size else None
            if is_looked_up:
                rows = LocalRows(part._sketches(tables), part.y, weight, _unit_map(to.shape[1]))
            else:
                rows = LocalRows(part.X.toarray(), part.y, weight, self.map)
            rows.add_to(total, replace(statistic, keep=False), np.array([0, len(part.X)]))

    def _sketched_tables(self, to):
        """Return each column's features under the map, less the centre, times a public matrix."""
        by = sparse.diags(self.map.weights) @ to
        centre = centre_of(self.expansion, self.map)
        parts = zip(self.expansion.tables, self.expansion.slices, strict=True)
        tables = []
        for table, part in parts:
            of_cells = table @ by[part]
            of_cells = of_cells.toarray() if sparse.issparse(of_cells) else of_cells
            tables.append(of_cells - centre[part] @ by[part])
        return tables

    def _sketches(self, tables):
        """Return mapped rows times a public matrix, from its product with the tables."""
        sums = np.zeros((len(self.X), tables[0].shape[1]))
        for codes, table in zip(self.X.codes.T, tables, strict=True):
            sums += table[codes]
        lengths = np.maximum(self._lengths(1.0)[1], self.map.norm)
        return sums * ((1 - self.map.error) / lengths)[:, None]

    # --- sums by tables of cells ------------------------------------------------------------------

    def _within(self, radius):
        """Return whether all rows are in this ball, whatever their cells, also after rounding."""
        return self.expansion.longest <= radius

    @property
    def _at_once(self):
        """How many rows are expanded at a time: a public number."""
        return max(1, min(_AT_ONCE, _MOST_EXPANDED // self.expansion.n_features))

    @property
    def _is_separate(self):
        """Whether a row's length is a sum of numbers of its cells alone."""
        return self.map.is_diagonal and not self.expansion.pairs

    @property
    def has_tables(self) -> bool:
        """Whether sums are made by a table for each two columns: by public numbers alone.

        Such a table takes as long as some 45 products for each of its cells, and to look it up some
        60 products a row. Of few features a column it takes longer than products of expanded rows.
        """
        expansion = self.expansion
        if mixes_blocks(expansion, self.map):
            return False
        if expansion.pairs:
            return True
        sizes = np.diff(expansion.starts).astype(np.float64)
        n_pairs = sizes.size * (sizes.size - 1) / 2
        of_tables = 45 * (np.sum(sizes) ** 2 - np.sum(sizes**2)) / 2
        of_expanded = self.n_records * (float(expansion.n_features) ** 2 - 60 * n_pairs)
        return bool(of_tables < of_expanded)

    def sum_rounding(self) -> float:
        """See `Rows.sum_rounding`.

        Sums of weights of cells are exact, and what follows from them are sums of products of a few
        numbers: over cells, over products of pairs of at most `_AT_ONCE` rows, and over their
        blocks. Each rounds by as many eps/2 as it has terms, times the sizes of what is multiplied,
        at most ``map.spread`` squared for each record. Products of pairs are multiplied by the root
        of a weight on both sides: that is four eps/2 of each term, of the 64.
        """
        expansion = self.expansion
        n_blocks = self.n_records * self.most_rows / self._at_once
        n_terms = _AT_ONCE + n_blocks + expansion.n_cells + 4 * expansion.n_features + 64
        spread = 1.0 if self.map is None else self.map.spread
        rounding = super().sum_rounding() + 2 * self.n_records * n_terms * _EPS * spread**2
        if not rounding < 0.5:
            raise ValueError(
                f"n_samples={self.n_records}: sums in float64 cannot tell one record among so many"
            )
        return rounding

    def _blocks(self, size):
        """Return slices of so many rows."""
        return [slice(i, i + size) for i in range(0, self.shape[0], size)]

    def _exact(self, weight, most=1.0):
        """Return weights up to ``most``, rounded down so that all their sums are exact."""
        unit = 2.0 ** (53 - self.n_records.bit_length() - math.ceil(math.log2(most)))
        weight = weight * unit
        return np.divide(np.floor(weight, out=weight), unit, out=weight)

    def cell_counts(self) -> SealedCells:
        """Return how many rows are in each cell of each column, by weight."""
        return SealedCells(self._counts_of_cells(), self.expansion.starts)

    def _counts_of_cells(self):
        weight = self._exact(self.weight) if self.weight.size else None
        sizes = np.diff(self.expansion.starts)
        counts = [
            np.bincount(codes, weight, size)
            for codes, size in zip(self.X.codes.T, sizes, strict=True)
        ]
        return np.concatenate(counts)

    def _column_sums(self):
        expansion = self.expansion
        weight = np.ones(self.shape[0])
        weight = self._exact(self.weight) if self.weight.size else weight
        products = list(self._each(self._sums_of_pair, range(len(expansion.pairs)), weight))
        return expansion.features(np.concatenate([self._counts_of_cells(), *products]))

    def _sums_of_pair(self, k, weight):
        """Return the sums of the products of a pair, without their weights."""
        expansion = self.expansion
        (i, j) = self.expansion.pairs[k]
        tables = [
            expansion.low[expansion.starts[column] : expansion.starts[column + 1]]
            for column in (i, j)
        ]
        firsts = [expansion.low_starts[column] for column in (i, j)]
        sums = tables[0].T @ self._counts_of_pair(i, j, weight) @ tables[1]
        return np.array([sums[a - firsts[0], b - firsts[1]] for a, b, _ in expansion.factors[k]])

    def _counts_of_pair(self, i, j, weight):
        """Return the weight of the rows in each two cells of two columns."""
        counts = np.zeros([self.expansion.columns[column].n_cells for column in (i, j)])
        count_cells(self.X.codes, i, j, counts.shape[1], weight, counts.reshape(-1))
        return counts

    def _lengths(self, data_norm):
        """See `LocalRows._lengths`: by tables where no row is scaled into a ball."""
        if self.map is None or data_norm != 1 or not self._within(self.map.radius):
            return super()._lengths(data_norm)
        if (lengths := self._take_cached()) is not None:
            return lengths
        if not (self._is_separate or self.has_tables):
            ball = self.map.ball(self.X)._replace(radius=math.inf)
            return numbers_of_rows(self.X, ball, self.map.centre, self.map.weights)
        with one_blas_thread():
            squares = self._squares()
        squares += self._rounding_of_squares()
        return np.ones(squares.size), np.sqrt(squares, out=squares)

    def _take_cached(self):
        """See `LocalRows._take_cached`: lengths stay known."""
        if not (self._cached and self.map.moves_like(self._cached[0])):
            return None
        return np.ones(self.shape[0]), self._cached[1].copy()

    def _rounding_of_squares(self):
        """Return the largest error of `_squares`; with it added, no square is too small.

        The square of a length is a sum over pairs of columns of numbers in public tables, in an
        order that depends on nothing. It rounds by as many eps as a number in them has terms, times
        the square of ``spread * norm``. Of m products of pairs a triangular factor of d x m numbers
        is off by some d m eps of the root of the sum of their squares (Higham, 2002, theorem 19.4),
        and squares of a pair's products have at most (m + 1)^2 terms.
        """
        m = self.expansion.pair_weights.size
        n_columns = len(self.expansion.columns)
        n_terms = 8 * self.shape[1] * (m + 8) * math.sqrt(m + 1) + 4 * n_columns**2
        return n_terms * _EPS * (self.map.spread * self.map.norm) ** 2

    def _squares(self):
        """Return squared lengths of rows under the map."""
        expansion = self.expansion
        squares = np.zeros(self.shape[0])
        for i, (alone, of_two) in enumerate(tables_of_squares(expansion, self.map)):
            tables = [(i, 0, alone)]
            tables += [(j, table.shape[1], table.ravel()) for j, table in of_two.items()]
            list(self._each(self._add_looked_up, self._blocks(_LOOKED_UP), i, tables, squares))
        for lowest in expansion.blocks[1:2]:
            triangle = np.linalg.qr(self.map.block(lowest), mode="r")
            triangle = np.diag(triangle) if self.map.is_diagonal else triangle
            centre = centre_of(expansion, self.map)[lowest]
            others = expansion.head, triangle, centre, squares
            list(self._each(self._add_products, self._blocks(_AT_ONCE), *others))
        return squares

    def _each(self, function, items, *others):
        """Return a function's results for each item, in order, computed in all threads."""
        return in_threads(lambda item: function(item, *others), items, self.n_threads)

    def _add_looked_up(self, part, i, tables, squares):
        for j, stride, table in tables:
            add_cells(self.X.codes[part], i, j, stride, table, squares[part])

    def _add_products(self, part, expansion, triangle, centre, squares):
        products = expansion.products(self.X.codes[part])
        squares[part] += numbers_of_rows(products, ball_of(self.X), centre, triangle)[1] ** 2

    def _length_counts(self, statistic):
        lengths = self._lengths(1.0)[1]
        grain = statistic.grain
        self._cached[:] = self.map, lengths
        weight = np.floor(self.weight * grain) / grain if self.weight.size else None
        places = np.searchsorted(statistic.thresholds, lengths)
        counts = np.bincount(places, weight, len(statistic.thresholds) + 1)
        return np.cumsum(counts[:-1])

    def _squared_scales(self):
        """Return the squared factors of rows under the map, times their weights."""
        weight = np.maximum(self._lengths(1.0)[1], self.map.norm)
        weight = np.divide(1 - self.map.error, weight, out=weight)
        weight *= weight * self.weight if self.weight.size else weight
        return self._exact(weight, self.map.norm**-2)

    def _column_squares(self):
        """Return the diagonal of the second moment under a diagonal map."""
        expansion = self.expansion
        weight = self._squared_scales()
        centre = centre_of(expansion, self.map)
        squares = []
        for codes, table, part in zip(
            self.X.codes.T, expansion.tables, expansion.slices, strict=True
        ):
            counts = np.bincount(codes, weight, table.shape[0])
            if sparse.issparse(table):
                others = counts.sum() - counts
                present = np.square(table.diagonal() - centre[part])
                sums = present * counts + np.square(centre[part]) * others
            else:
                sums = counts @ np.square(table - centre[part])
            squares.append(sums)
        return np.concatenate(squares) * np.square(self.map.weights)

    def _second_moment(self):
        expansion = self.expansion
        moved = moved_tables(expansion, self.map)
        centre = centre_of(expansion, self.map)
        weight = self._squared_scales()
        slices = expansion.slices
        tails = expansion.tails()
        moment = np.zeros((expansion.n_features,) * 2)
        pairs = list(combinations_with_replacement(range(len(moved)), 2))
        tables = self._each(self._crossed, pairs, moved, weight, tails, centre)
        for (i, j), (table, of_tail) in zip(pairs, tables, strict=True):
            moment[slices[i], slices[j]] = table
            if (i, j) in tails:
                features = tails[i, j].features
                moment[np.ix_(features, features)] = of_tail
        for lowest in expansion.blocks[1:2]:
            blocks = self._each(self._of_lowest, self._blocks(_AT_ONCE), centre[lowest], weight)
            moment[np.ix_(lowest, lowest)] = sum(blocks)
        moment = np.triu(moment) + np.triu(moment, 1).T
        if self.map.is_diagonal:
            return moment * np.outer(self.map.weights, self.map.weights)
        moment = self.map.weights @ moment @ self.map.weights.T
        return (moment + moment.T) / 2

    def _crossed(self, pair, moved, weight, tails, centre):
        """Return sums over rows of products of two columns' features, and of those of the pair."""
        i, j = pair
        if i == j:
            counts = np.bincount(self.X.codes[:, i], weight, len(moved[i]))
            return (moved[i].T * counts) @ moved[i], None
        counts = self._counts_of_pair(i, j, weight)
        of_tail = tails[pair].moment(counts, centre) if pair in tails else None
        return moved[i].T @ counts @ moved[j], of_tail

    def _of_lowest(self, rows, centre, weight):
        """Return sums of the lowest products of pairs over some rows, by one another."""
        moved = self.expansion.head.products(self.X.codes[rows]) - centre
        moved *= np.sqrt(weight[rows, None])
        return moved.T @ moved  # BLAS takes half the time for a matrix by itself


Coded.kind = CodedRows
