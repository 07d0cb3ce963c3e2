"""Predictions of additive models by look-up tables, which are made once for a model.

The squared length of a row, and what each term says of it, are sums of numbers that tables have for
a cell of a column, or for the cells of two. Only the lowest products of pairs mix among one
another: these are multiplied by a triangle. Where tables of two cells would be too large, so are
the features of all columns, and the other products of each pair. Where those of all outputs would
be, each says something of every product.

A sum has one order, whatever the number of rows. Compiled code adds many rows, and numpy does the
same to the bit where none is on disk.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from skdpdyn.core.expansion import Expansion, NumberColumn
from skdpdyn.data.coded import centre_of, mixes_blocks, moved_tables, tables_of_squares
from skdpdyn.data.row_map import RowMap
from skdpdyn.kernels.ready import (
    MOST_EDGES,
    add_dots,
    add_features,
    add_looked_up,
    add_products,
    write_codes,
)
from skdpdyn.support.blas import in_threads, one_blas_thread
from skdpdyn.support.threads import threads_of

_FEW = 16  # rows that numpy alone looks up
_VERY_FEW = 8  # whose products are multiplied by one call
_IN_CACHE = 128  # rows that numpy looks up at a time
AT_ONCE = 1 << 14  # rows that compiled code does, a multiple of what it multiplies at a time
MOST_CELLS = 6_000_000  # of all tables: 48 MB
_WORTH_COMPILING = 200_000  # rows in all, which take numpy a second
_WORTH_LOADING = 10_000  # that numba is imported for


@dataclass(frozen=True, eq=False)
class CellTables:
    """Numbers for the cell of each column, and for the cells of pairs of columns.

    Parameters
    ----------
    alone : ndarray of shape (n_tables, n_cells)
        Numbers of all cells, of one column after the other.
    pairs : ndarray of shape (n_pairs, 4)
        Both columns, where the numbers of their cells begin, and how many there are for a cell of
        the first.
    of_pairs : ndarray of shape (n_tables, n_cells_of_pairs)
        Numbers of all two cells.
    """

    alone: np.ndarray
    pairs: np.ndarray
    of_pairs: np.ndarray

    @classmethod
    def of(cls, alone: Any, tables: dict[tuple[int, int], np.ndarray]) -> "CellTables":
        """Return the tables, those of pairs by their columns, (n_tables, n_cells, n_cells)."""
        pairs = []
        flat = [np.zeros((len(alone), 0))]
        first = 0
        for (i, j), table in tables.items():
            pairs.append((i, j, first, table.shape[2]))
            flat.append(table.reshape(len(table), -1))
            first += flat[-1].shape[1]
        places = np.array(pairs, dtype=np.int64).reshape(-1, 4)
        return cls(np.ascontiguousarray(alone), places, np.hstack(flat))

    def each(self, codes: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return all numbers of rows of codes, of shape (n_tables, n_rows, n_columns + n_pairs)."""
        i, j, first, stride = self.pairs.T
        alone = self.alone[:, codes + starts[:-1]]
        of_pairs = self.of_pairs[:, codes[:, i] * stride + codes[:, j] + first]
        return np.concatenate([alone, of_pairs], axis=2)

    def one_by_one(self, codes: np.ndarray, starts: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the same numbers of many rows, of shape (n_tables, n_rows): a table in the cache.

        ``codes`` are of shape (n_columns, n_rows) here.
        """
        for first, of_column in zip(starts[:-1], codes, strict=True):
            yield self.alone.take(of_column + first, axis=1)
        for i, j, first, stride in self.pairs.tolist():
            yield self.of_pairs.take(codes[i] * stride + codes[j] + first, axis=1)

    def sums(self, codes: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return the sums of the numbers of rows, to the bit as kernels add them."""
        if codes.shape[1] <= _FEW:
            return _sums(self.each(codes.T, starts))
        numbers = self.one_by_one(codes, starts)
        total = next(numbers)
        for of_term in numbers:
            total += of_term
        return total


class Lookups:
    """Tables of a fitted additive model.

    Parameters
    ----------
    expansion : Expansion
        Tables of features.
    row_map : RowMap
        The released map of expanded rows.
    weights : ndarray of shape (n_outputs, n_weights)
        Numbers of each cell and product, for each output.
    centres : ndarray of shape (n_outputs, n_terms)
        Contribution of each term at the map's centre.
    counts : ndarray of bool of shape (n_cells,)
        Whether a cell can shorten a row.

    Attributes
    ----------
    terms, squares : CellTables or None
        Contributions of terms, and squared lengths of rows. None: they would be too large, and
        follow from products of pairs, and from ``features``.
    alone, dots : CellTables or None, tuple or None
        Where there are no ``terms``: contributions of columns, and products of pairs: numbers of
        cells, the column and the place of each factor, both factors of each product, its weights
        and what all together are at the centre.
    features : tuple or None
        Where the features of columns begin, and end in a row, those of all cells, and a triangle
        that they are multiplied by. None: ``squares`` has them.
    products : list of tuple
        Products of pairs: numbers of cells, the column and the place of each factor, both factors
        of each product, its weight and its centre, and the triangle.
    constants : ndarray of shape (n_outputs,)
        What all rows have at the map's centre.
    """

    def __init__(
        self,
        expansion: Expansion,
        row_map: RowMap,
        weights: np.ndarray,
        centres: np.ndarray,
        counts: np.ndarray,
    ) -> None:
        if mixes_blocks(expansion, row_map):
            raise ValueError("row_map mixes features of two blocks: give one that a fit learnt")
        self._expansion = expansion
        self._numbers = weights, centres
        self._norm = row_map.norm
        self._starts = expansion.starts.astype(np.int64)
        self._row_map = row_map
        self._counts = counts
        self.constants = centres.sum(axis=1)
        self._is_wide = is_wide(expansion, row_map.is_diagonal)
        self._few = 0 if self._is_wide else _FEW
        self._kernels = _kernels(self._is_wide, has_terms(expansion, len(weights)))
        with one_blas_thread():
            self.terms = None
            self.alone = None
            self.dots = None
            if has_terms(expansion, len(weights)):
                self.terms = _of_terms(expansion, weights, centres)
            else:
                self.alone = _of_columns(expansion, weights, centres)
                self.dots = self._of_dots()
            self.squares = self._of_squares()
            blocks = expansion.blocks[1:] if self._is_wide else expansion.blocks[1:2]
            self.products = [self._products_of(block) for block in blocks]
            self.features = None
            if self._is_wide and not row_map.is_diagonal:
                self.features = self._of_features()

    # --- tables -----------------------------------------------------------------------------------

    def _of_squares(self):
        """Return squared lengths by cells and pairs of cells; None: there is another form."""
        expansion = self._expansion
        alone = []
        tables = {}
        if self._is_wide and not self._row_map.is_diagonal:
            return None
        squares = tables_of_squares(expansion, self._row_map, self._counts, not self._is_wide)
        for i, (of_one, of_two) in enumerate(squares):
            alone.append(of_one)
            tables |= {(i, j): table[None] for j, table in of_two.items() if np.any(table)}
        return CellTables.of(np.concatenate(alone)[None], tables)

    def _of_features(self):
        """Return the features of columns at their cells, less their centre, and their triangle."""
        tables = moved_tables(self._expansion, self._row_map, self._counts)
        firsts = np.cumsum([0, *(table.size for table in tables[:-1])])
        ends = np.cumsum([table.shape[1] for table in tables])
        features = np.concatenate([table.ravel() for table in tables])
        triangle = _triangle(self._row_map, self._expansion.blocks[0])
        return firsts.astype(np.int64), ends.astype(np.int64), features, triangle

    def _of_dots(self):
        """Return the products of pairs with the weights of each output, as kernels read them."""
        expansion = self._expansion
        weights, centres = self._numbers
        factors, sides = self.factors(np.arange(expansion.n_products))
        of_products = np.ascontiguousarray(weights[:, expansion.n_cells :])
        shift = centres[:, len(expansion.columns) :].sum(axis=1)
        return expansion.low, factors, sides, of_products, shift

    def _products_of(self, block):
        """Return the products of pairs of a block of features, as kernels read them."""
        expansion = self._expansion
        numbers = block - sum(expansion.widths)
        factors, sides = self.factors(numbers)
        weights = expansion.pair_weights[numbers]
        centre = centre_of(expansion, self._row_map)[block]
        triangle = _triangle(self._row_map, block)
        return expansion.low, factors, sides, weights, centre, triangle

    def factors(self, products: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the column and the place of each factor of some products, and both of each."""
        expansion = self._expansion
        places = expansion.places[:, products]
        columns = np.searchsorted(expansion.low_starts, places, side="right") - 1
        inside = places - expansion.low_starts[columns]
        both = np.stack([columns, inside], axis=2).reshape(-1, 2).astype(np.int64)
        factors, sides = np.unique(both, axis=0, return_inverse=True)
        return factors, np.ascontiguousarray(sides.reshape(2, -1).T.astype(np.int64))

    # --- cells ------------------------------------------------------------------------------------

    @cached_property
    def _edges(self):
        """Return edges of columns of numbers, and the cells of missing ones; None: others occur."""
        columns = self._expansion.columns
        if not all(isinstance(of, NumberColumn) and of.n_cells <= 256 for of in columns):
            return None
        edges = np.full((len(columns), MOST_EDGES), np.inf)
        for of, column in zip(edges, columns, strict=True):
            of[: column.edges.size] = column.edges
        return edges, np.array([column.n_cells - 1 for column in columns])

    def codes(self, X: Any) -> np.ndarray | None:
        """Return the cells of rows of an array of numbers, of shape (n_columns, n_rows).

        None for other rows, and where a number is infinite.
        """
        is_plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float64 and len(X) > 0
        if not is_plain or self._edges is None or X.shape[1] != len(self._edges[0]):
            return None
        edges, missing = self._edges
        codes = np.empty(X.shape[::-1], np.uint16)
        if self._are_ready(len(X)):
            kernel = write_codes.found(worthwhile=True)
            infinite = False
            for part in _parts(len(X), AT_ONCE):
                turned = np.empty((len(edges), len(X[part])), np.uint16)
                infinite |= kernel(np.ascontiguousarray(X[part]), edges, missing, turned)
                codes[:, part] = turned
            return None if infinite else codes
        if np.isinf(X).any():
            return None
        if len(X) <= _FEW:
            found = np.sum(edges[:, None, :] <= X.T[:, :, None], axis=2)
            return np.where(np.isnan(X.T), missing[:, None], found).astype(np.uint16)
        for of, column, numbers in zip(codes, self._expansion.columns, X.T, strict=True):
            of[:] = column.codes(numbers)
        return codes

    # --- sums -------------------------------------------------------------------------------------

    def raw(self, codes: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Return the sums of all terms.

        Parameters
        ----------
        codes : ndarray of shape (n_columns, n_rows)
            Cells.
        n_jobs : int or None, default=None
            Threads that compiled code takes, see `skdpdyn.support.threads.threads_of`.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
        """
        n_rows = codes.shape[1]
        out = np.empty((n_rows, len(self.constants)))
        if not self._are_ready(n_rows):
            for part in _parts(n_rows, AT_ONCE):
                cells = codes[:, part].astype(np.intp)
                out[part] = (self._factors(cells) * self._sums_of_terms(cells)).T
            return out + self.constants

        def write(part):
            turned = np.ascontiguousarray(codes[:, part], dtype=np.uint16)
            sums = self._added(self.terms or self.alone, turned)
            if self.dots is not None:
                add_dots.found(worthwhile=True)(turned, self._starts, *self.dots, sums)
            out[part] = (self._factors_of_many(turned) * sums).T

        parts = _parts(n_rows, AT_ONCE)
        list(in_threads(write, parts, threads_of(n_jobs, codes.size) if parts[1:] else 1))
        return out + self.constants

    def _sums_of_terms(self, cells):
        """Return the sums of terms to the bit by numpy, of shape (n_outputs, n_rows)."""
        sums = (self.terms or self.alone).sums(cells, self._starts)
        if self.dots is None:
            return sums
        low, factors, sides, weights, shift = self.dots
        for part in _parts(cells.shape[1], _IN_CACHE):
            v = self._multiplied(cells[:, part], low, factors, sides)
            sums[:, part] += [
                np.add.accumulate(v * of_output[:, None])[-1] - less
                for of_output, less in zip(weights, shift, strict=True)
            ]
        return sums

    def _multiplied(self, cells, low, factors, sides):
        """Return products of numbers of two columns' cells, of shape (n_products, n_rows)."""
        column, inside = factors.T
        of_rows = low[cells[column] + self._starts[column, None], inside[:, None]]
        return of_rows[sides[:, 0]] * of_rows[sides[:, 1]]

    def each(self, codes: np.ndarray, same: Any = ()) -> np.ndarray:
        """Return the contribution of each term, less that at the centre.

        Parameters
        ----------
        codes : ndarray of shape (n_columns, n_rows)
            Cells.
        same : ndarray of shape (n_outputs,), default=()
            What a first term says of all rows, if there is one.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs, n_terms)
        """
        expansion = self._expansion
        n_terms = len(expansion.columns) + len(expansion.pairs)
        first = int(len(same) > 0)
        explained = np.empty((codes.shape[1], len(self.constants), first + n_terms))
        if first:
            explained[:, :, 0] = same
        out = explained[:, :, first:]
        ready = self._are_ready(len(out))
        for part in _parts(len(out), AT_ONCE):
            cells = codes[:, part].astype(np.intp)
            if ready:
                turned = np.ascontiguousarray(codes[:, part], dtype=np.uint16)
                factors = self._factors_of_many(turned)
            else:
                factors = self._factors(cells)
            if self.terms is None:
                given = np.ascontiguousarray(cells.T, dtype=expansion.code_dtype)
                out[part] = np.moveaxis(expansion.terms(given, *self._numbers, factors), 0, 1)
            elif len(factors) <= _FEW:
                terms = self.terms.each(cells.T, self._starts) * factors[:, None]
                out[part] = np.moveaxis(terms, 0, 1)
            else:
                terms = np.empty((n_terms, len(self.constants), len(factors)))
                for term, numbers in zip(
                    terms, self.terms.one_by_one(cells, self._starts), strict=True
                ):
                    np.multiply(numbers, factors, out=term)
                out[part] = terms.T
        return explained

    def _are_ready(self, n_rows):
        """Return whether compiled code is there, or worth it by all rows that were predicted."""
        if n_rows <= self._few:
            return False
        _so_far[0] += n_rows
        worthwhile, loading = (_so_far[0] > least for least in (_WORTH_COMPILING, _WORTH_LOADING))
        return all(kernel.found(worthwhile, loading) is not None for kernel in self._kernels)

    def _added(self, tables, turned):
        """Return sums of numbers of tables by compiled code, of shape (n_tables, n_rows)."""
        sums = np.zeros((len(tables.alone), turned.shape[1]))
        kernel = add_looked_up.found(worthwhile=True)
        kernel(turned, self._starts, tables.alone, tables.pairs, tables.of_pairs, sums)
        return sums

    def _factors_of_many(self, turned):
        """Return factors that rows are shortened by, by compiled code."""
        if self.features is None:
            squares = self._added(self.squares, turned)[0]
        else:
            squares = np.zeros(turned.shape[1])
            add_features.found(worthwhile=True)(turned, *self.features, squares)
        for of_block in self.products:
            kernel = add_products.found(worthwhile=True)
            kernel(turned, self._starts, *of_block, squares)
        return self._shortened(squares)

    def _factors(self, cells):
        """Return the same factors to the bit by numpy."""
        if self.features is None:
            squares = self.squares.sums(cells, self._starts)[0]
        else:
            squares = self._lengths_of_features(cells)
        for low, factors, sides, weights, centre, triangle in self.products:
            for part in _parts(cells.shape[1], _IN_CACHE):
                v = self._multiplied(cells[:, part], low, factors, sides)
                v = v * weights[:, None] - centre[:, None]
                squares[part] += _squared_lengths(v, triangle)
        return self._shortened(squares)

    def _lengths_of_features(self, cells):
        firsts, ends, features, triangle = self.features
        widths = np.diff(ends, prepend=0)
        of_column = np.repeat(np.arange(len(ends)), widths)
        inside = np.arange(ends[-1]) - np.repeat(ends - widths, widths)
        squares = np.empty(cells.shape[1])
        for part in _parts(cells.shape[1], _IN_CACHE):
            of_cells = firsts[:, None] + cells[:, part] * widths[:, None]
            places = of_cells[of_column] + inside[:, None]
            squares[part] = _squared_lengths(features[places], triangle)
        return squares

    def _shortened(self, squares):
        return self._norm / np.sqrt(np.maximum(squares, self._norm**2))


def is_wide(expansion: Expansion, is_diagonal: bool) -> bool:
    """Return whether tables of squared lengths would be too large."""
    if is_diagonal:
        return _count_of_pairs(expansion, 1) > MOST_CELLS
    sizes = np.array([column.n_cells for column in expansion.columns])
    return int(np.sum(sizes) ** 2 - np.sum(sizes**2)) // 2 > MOST_CELLS


def has_terms(expansion: Expansion, n_outputs: int) -> bool:
    """Return whether terms of pairs have tables: of so many outputs they may be too large."""
    return _count_of_pairs(expansion, n_outputs) <= MOST_CELLS


def _count_of_pairs(expansion, n_outputs):
    """Return how many numbers the terms of pairs have by two cells, for so many outputs."""
    sizes = [column.n_cells for column in expansion.columns]
    return n_outputs * sum(sizes[i] * sizes[j] for i, j in expansion.pairs)


def _triangle(row_map, block):
    """Return a triangle of an even number of rows that leaves lengths of a block as its map."""
    matrix = row_map.block(block)
    triangle = matrix if row_map.is_diagonal else np.linalg.qr(matrix, mode="r")
    return np.vstack([triangle, np.zeros((len(triangle) % 2, len(triangle)))])


def _squared_lengths(v, triangle):
    """Return squared lengths of columns of ``v`` times a triangle, in the order of kernels."""
    if v.shape[1] <= _VERY_FEW:
        turned = _sums(v.T[:, None, :] * triangle).T
    else:
        turned = np.zeros((len(triangle), v.shape[1]))
        for p, of in enumerate(triangle.T):
            turned[: p + 1] += of[: p + 1, None] * v[p]
    return np.add.accumulate(turned * turned)[-1]


def _of_columns(expansion, weights, centres):
    """Return the contributions of columns by cell, for each output."""
    column_of_cell = np.repeat(np.arange(len(expansion.columns)), np.diff(expansion.starts))
    return CellTables.of(weights[:, : expansion.n_cells] - centres[:, column_of_cell], {})


def _of_terms(expansion, weights, centres):
    """Return the contributions of columns by cell and of pairs by two cells, for each output."""
    n_columns = len(expansion.columns)
    tables = {}
    product = expansion.n_cells
    for k, (i, j) in enumerate(expansion.pairs):
        low = [expansion.low[expansion.starts[of] : expansion.starts[of + 1]] for of in (i, j)]
        sizes = np.diff(expansion.low_starts)[[i, j]]
        one, other, _ = map(np.array, zip(*expansion.factors[k], strict=True))
        of_products = np.zeros((len(weights), *sizes))
        places = one - expansion.low_starts[i], other - expansion.low_starts[j]
        of_products[:, *places] = weights[:, product : product + one.size]
        table = low[0][:, : sizes[0]] @ of_products @ low[1][:, : sizes[1]].T
        tables[i, j] = table - centres[:, n_columns + k, None, None]
        product += one.size
    return CellTables.of(_of_columns(expansion, weights, centres).alone, tables)


def _parts(n_rows, size) -> list[slice]:
    return [slice(first, first + size) for first in range(0, n_rows, size)]


def _sums(terms):
    """Return sums along the last axis, one term after the other: `numpy.sum` adds pairs."""
    return np.add.accumulate(terms, axis=-1)[..., -1]


_so_far = [0]


def prepare(model: Any) -> None:
    """Compile the passes over rows, as a fit does, whose predictions will be asked for."""
    wide = is_wide(model.expansion_, model.conditioning_.row_map.is_diagonal)
    for kernel in _kernels(wide, has_terms(model.expansion_, len(np.atleast_2d(model.coef_)))):
        kernel.found(worthwhile=True)


def _kernels(wide, with_terms):
    others = [add_features] * wide + [add_dots] * (not with_terms)
    return (write_codes, add_looked_up, add_products, *others)


CACHE: "WeakKeyDictionary[Any, tuple]" = WeakKeyDictionary()
# beside the models: what is in them is copied, stored and shown


def lookups_of(owner: Any, objects: tuple, values: tuple, explainer: Any) -> Lookups:
    """Return the tables of a fitted additive model, which are made anew once it has changed.

    Parameters
    ----------
    owner : object
        Whose tables they are.
    objects, values : tuple
        What they follow from: by identity, and by value.
    explainer : callable
        Returns the numbers that tables are made of.

    Returns
    -------
    Lookups
    """
    kept = CACHE.get(owner)
    if (
        kept is not None
        and all(one is other for one, other in zip(kept[0], objects, strict=True))
        and all(map(np.array_equal, kept[1], values))
    ):
        return kept[2]
    of = explainer()
    tables = Lookups(of.expansion_, of.row_map, of.weights, of.centres, of.counts)
    CACHE[owner] = objects, tuple(map(np.copy, values)), tables
    return tables
