"""Rows in memory: arrays and CSR arrays, with factors and limits for kernels."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpdyn.core.sealed import SealedCells
from skdpdyn.data.base import Rows
from skdpdyn.data.persons import Persons, by_person
from skdpdyn.data.row_map import RowMap, scaled_csr
from skdpdyn.data.rows import ball_of, canonical_rows, in_reach, numbers_of_rows, shortened
from skdpdyn.kernels.asked import OCTAVES, ROWS, SPLIT, InRanges, LongRows, Statistic
from skdpdyn.kernels.sums import Total
from skdpdyn.support.blas import in_threads
from skdpdyn.support.chunks import LEAST_SUMMED, in_order

if TYPE_CHECKING:
    from skdpdyn.kernels.passes import BatchSums, LocalSums

_EPS = np.finfo(np.float64).eps
_AT_ONCE = 1 << 16  # rows whose limits are computed at a time
_DENSE_NUMBERS = 1 << 20  # that sparse rows are made dense to at a time, or a chunk's


class BoundedRows(NamedTuple):
    """Public factors and limits of rows, for kernels: four vectors of length n_samples.

    A row counts as ``scale * W x - offset * W centre``, its residual (or the norm of several) is
    clamped to ``limit`` and then multiplied by ``weight``. ``offset`` is empty without a centre,
    ``weight`` if all weights are 1. Limits are in the precision of X, rounded down.
    """

    scale: np.ndarray
    limit: np.ndarray
    offset: np.ndarray
    weight: np.ndarray


class LocalRows(Rows):
    """Rows in memory with their targets, the weight of each, and the public map they go through.

    X is not copied, unless it is a CSR array with duplicate or unsorted entries.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features)
        C-ordered or CSR float64 or float32 rows.
    y : ndarray of shape (n_samples,) or None, default=None
        Targets, which are kept in the precision of X. None where only sums of rows are wanted.
    weight : ndarray of shape (n_samples,) or None, default=None
        Weight of each row, in [0, 1]: its clipped gradient is multiplied by it. None for 1.
    map : RowMap or None, default=None
        Map of each row before training; None for scaling into the ball of ``data_norm``.
    exposure : ndarray of shape (n_samples,), float or None, default=None
        Positive finite factor on the derivative of each row's loss, applied before clipping, so
        that it does not change the influence of a row. A number is public, the factor of all rows:
        it takes no memory. None for 1. Rows in other units, see `with_rate`, have both.
    persons : Persons or None, default=None
        Persons of the rows, if a record is a person; the weights of a person's rows add up to at
        most 1. None: every row is a record.
    most_rows : int, default=1
        Public bound on the number of rows of a record.

    Raises
    ------
    ValueError
        If there is not one weight in [0, 1] and one exposure > 0 for each row, or X is sparse and
        the map has a centre.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.data.local import LocalRows
    >>> rows = LocalRows(np.array([[0.6, 0.8], [3.0, 4.0]]), np.array([0.0, 1.0]))
    >>> rows.shape, rows.factors(data_norm=1.0)[0].round(6).tolist()
    ((2, 2), [1.0, 0.2])
    """

    draws = True
    _scaled: tuple = None, None  # a map, X, and scales and offsets of its rows under it

    def __init__(self, X, y=None, weight=None, map=None, exposure=None, persons=None, most_rows=1):
        self.X = canonical_rows(X)
        self.persons: Persons | None = persons
        self.most_rows = most_rows
        self.y = np.empty(0, self.dtype) if y is None else y.astype(self.dtype, copy=False)
        self.weight = np.empty(0)
        if weight is not None:
            self.weight = np.ascontiguousarray(weight, dtype=np.float64)
            if self.weight.shape != self.shape[:1]:
                raise ValueError(
                    f"weight has shape {self.weight.shape}: give one for each row of X"
                )
            if not np.all((self.weight >= 0) & (self.weight <= 1)):
                raise ValueError("weight must hold numbers in [0, 1] only")
        if persons is not None:
            _check_persons(persons, self.weight if self.weight.size else None)
        self.exposure = np.empty(0)
        if isinstance(exposure, float):
            self.common = exposure
            exposure = None
        if exposure is not None:
            self.exposure = np.ascontiguousarray(exposure, dtype=np.float64)
        if exposure is not None and not (
            self.exposure.shape == self.shape[:1]
            and np.all((self.exposure > 0) & np.isfinite(self.exposure))
        ):
            raise ValueError("exposure must hold one finite number > 0 for each row of X")
        if map is not None:
            map.check(self.shape[1], self.is_sparse)
        self.map: Any = map  # RowMap or None
        self._cached: list = []  # a map, X, and factors and lengths of rows under it

    def weighted_by(self, factor: np.ndarray) -> "LocalRows":
        """Return the same rows with weights times ``factor``, a number in [0, 1] for each row."""
        rows = copy.copy(self)
        factor = np.where(factor >= 0, np.minimum(factor, 1.0), 0.0)
        rows.weight = factor * rows.weight if rows.weight.size else factor
        return rows

    def weighted_alike(self) -> "LocalRows":
        """Return the same rows of persons, each with the weight 1/most_rows."""
        if self.persons is None:
            raise ValueError("every row is a record, whose weight is 1")
        counts = np.diff(self.persons.first)[self.persons.owners()]
        return self.weighted_by(counts / self.most_rows)

    def weighted_by_class(self, weights: np.ndarray) -> "LocalRows":
        """See `Rows.weighted_by_class`."""
        return self.weighted_by(weights[self.y.astype(np.intp)])

    def with_classes(self, codes: np.ndarray) -> "LocalRows":
        """See `Rows.with_classes`."""
        rows = self._with_each(lambda cells: codes[cells.astype(np.intp)])
        others = rows.y < 0
        if not np.any(others):  # weights of 1 would change no bit
            return rows
        rows.y[others] = 0
        return rows.weighted_by(~others)

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Number of rows and of columns."""
        return self.X.shape

    @property
    def n_records(self) -> int:
        """Number of records, which is public: of persons, or of rows."""
        return self.shape[0] if self.persons is None else self.persons.n_persons

    @property
    def of_persons(self) -> bool:
        """Whether a record is a person, whose rows may be several."""
        return self.persons is not None

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """Precision of X."""
        return self.X.dtype

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether X is a CSR array."""
        return sparse.issparse(self.X)

    @property
    def in_ranges(self) -> Any:
        """X as kernels take it: with the ranges that map its columns to [-1, 1], if any."""
        return self.X if self.ranges is None else InRanges(self.X, *self.ranges.numbers(self.dtype))

    def with_numbers(self, y: np.ndarray) -> "LocalRows":
        """Return the same rows with other targets."""
        rows = copy.copy(self)
        rows.y = y.astype(self.dtype, copy=False)
        return rows

    def with_target(self, centre: float, scale: float) -> "LocalRows":
        """See `Rows.with_target`."""
        return self._with_each(lambda y: (y - centre) / scale)

    def with_rate(self, rate: float, unit: float, most: float = math.inf) -> "LocalRows":
        """See `Rows.with_rate`."""
        rows = self._with_each(lambda y: y / rate) if rate != 1 else copy.copy(self)
        rows.exposure = np.minimum(self.exposure, most / self.common)
        rows.common = self.common * rate / unit
        return rows

    def _with_each(self, function):
        """Return the same rows with a function of the targets, some at a time in double."""
        y = np.empty_like(self.y)
        for first in range(0, y.size, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            y[part] = function(self.y[part].astype(np.float64))
        return self.with_numbers(y)

    def part(self, first: int, last: int) -> "LocalRows":
        """Return rows first, ..., last - 1 under the same map, with targets and weights."""
        part = copy.copy(self)
        rows = slice(first, last)
        part.X = self.X[rows]
        part.y = self.y[rows]
        part.weight = self.weight[rows]
        part.exposure = self.exposure[rows]
        part._cached = []
        return part

    def open_sums(self, gradients) -> "LocalSums | BatchSums":
        """See `Rows.open_sums`."""
        from skdpdyn.kernels.passes import BatchSums, LocalSums

        if gradients.of_batches:
            return BatchSums(gradients, self)
        return LocalSums(gradients, self, self.chunk_edges(gradients.n_chunks), self.n_threads)

    def of_records(self, chosen: np.ndarray) -> np.ndarray:
        """Return the places of the rows of some records, record by record."""
        if self.persons is None or self.persons.largest == 1:
            return chosen
        return self.persons.rows_of(chosen)

    def check(self, objective) -> None:
        """Refuse rows that are not those of the objective; its compiled loops do not look.

        Raises
        ------
        ValueError
            If the shape of X or the number of targets is another.
        """
        shape = objective.n_samples, objective.n_features
        if (self.n_records, self.shape[1]) != shape or len(self.y) != self.shape[0]:
            raise ValueError(
                f"X has shape {self.shape} and y has {len(self.y)} targets: the objective has "
                f"n_samples={objective.n_samples}, n_features={objective.n_features}"
            )
        if self.persons is not None and self.persons.largest > objective.most_rows:
            raise ValueError("a person has more rows than the objective's most_rows")

    # --- the numbers of each row ------------------------------------------------------------------

    def factors(self, data_norm: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ``scale``, ``offset`` and norm of each row, see `RowMap.factors`.

        Parameters
        ----------
        data_norm : float, default=1.0
            Radius of the ball that rows are in. Mapped rows are in the unit ball.

        Raises
        ------
        ValueError
            If there is a map and ``data_norm`` is not 1.
        """
        return self._divided(*self._in_reach(lambda: self._lengths(data_norm)))

    def _in_reach(self, function):
        """Call a function, a second time with shortened rows if they are too long to square.

        Others with the same X shorten theirs when they ask: it is a function of each row alone.
        """
        try:
            return function()
        except LongRows:
            self.X = shortened(self.X)
        return function()

    def _lengths(self, data_norm):
        """Return factors and lengths of rows before they are divided by the map's norm."""
        if self.map is None:
            return numbers_of_rows(self.in_ranges, ball_of(self.X, data_norm))
        if data_norm != 1:
            raise ValueError(f"data_norm={data_norm!r}: mapped rows are in the unit ball. Use 1.0")
        return self.map.lengths(self.in_ranges)

    def _divided(self, factors, lengths):
        return (
            (factors, np.empty(0), lengths)
            if self.map is None
            else self.map.divided(factors, lengths)
        )

    def bounded(self, objective, n_chunks=64, dtype=None, aligned=True) -> BoundedRows:
        """Return factors and limits that bound each row's gradient, for kernels.

        All leave room for rounding, so that the sensitivity of the *computed* sum of gradients
        stays within ``sensitivity``. A sum of gradients of norm at most L rounds by its own norm
        times eps/2 at most, and so does each product and what it multiplies a row by: a block of 32
        rows, in any order, by less than 300 eps L, a chunk of m rows by m^2/4 eps L, the sum of c
        chunks of n rows by less than (2 + c^2 eps) n/2 eps L, see
        `skdpdyn.support.chunks.in_order`; two runs, by twice that. Partial sums of one output or of
        several round alike. Changing a row changes the rounding of its own block, of the float64
        sums of its chunk, and of the sum of the chunks, nothing else. But a record that joins a
        batch, or has another number of rows, moves the rows that follow, and every block and every
        chunk rounds anew. With weights that add up to n in all, each of up to n k/m chunks, k the
        most rows of a record, rounds by m/2 eps L times its weight, a block by 16 eps L times its
        weight and a little.

        With a map the sums are those of the parts of mapped rows, larger by `growth`; the map of
        their sum then rounds by as many eps/2 as it has terms.

        Parameters
        ----------
        objective : Objective
            The problem.
        n_chunks : int, default=64
            Largest number of chunks of equal size, each of its rows summed one after the other.
        dtype : dtype, default=None
            Precision that blocks are summed in; None for that of X.
        aligned : bool, default=True
            Whether rows have weight 1 and keep their place in the sums if a record is dropped.

        Raises
        ------
        ValueError
            If rounding could hide what one record does.
        """
        terms = self.growth(objective), mapping_terms(self)
        room = allowance(objective, dtype or self.dtype, n_chunks, aligned, *terms)
        return self._bounded(objective, room)

    def bounded_for(self, gradients) -> BoundedRows:
        """Return the factors and bounds of rows for `skdpdyn.kernels.passes.Gradients`.

        If the budget pays for rounding, they leave no room for it. A softmax that is not clipped is
        not clamped either then, for that would be no contraction.
        """
        objective = gradients.objective
        if objective.exact:
            return self.bounded(
                objective, gradients.n_chunks, gradients.precision, gradients.aligned
            )
        return self._bounded(objective.unclamped() if objective.contracts else objective, 0.0)

    def _bounded(self, objective, room):
        return self._in_reach(lambda: self._bounds(objective, room))

    def _bounds(self, objective, room):
        from skdpdyn.kernels.statistics import compiled_limit

        n_rows = self.shape[0]
        has_centre = self.map is not None and self.map.centre is not None
        is_divided = objective.residuals and self._has_scales  # lengths do not matter then
        cached = self._scaled[2:] if is_divided else self._take_cached()
        scale, offset = cached or (np.empty(n_rows), np.empty(n_rows if has_centre else 0))
        limit = np.empty(n_rows, self.dtype)
        compiled = compiled_limit(self.dtype.char)
        largest = objective.loss.lipschitz
        common = self.common
        of_limit = objective.clip / common, objective.intercept_scaling, largest / common, 1 - room

        def of_part(first):
            part = slice(first, first + _AT_ONCE)
            norms = np.zeros(limit[part].size)
            if not is_divided:
                lengths = scale[part], offset[part]
                if not cached:
                    lengths = self.part(first, part.stop)._lengths(objective.data_norm)
                scale[part], moved, of_rows = self._divided(*lengths)
                norms = norms if objective.residuals else of_rows
                if has_centre:
                    offset[part] = moved
            compiled(norms, self.exposure[part], limit[part], *of_limit)

        for _ in in_threads(of_part, range(0, n_rows, _AT_ONCE), self.n_threads):
            pass
        self._scaled = self.map, self.X, scale, offset
        weight = self._weight_of_gradients
        return BoundedRows(scale, limit, offset if has_centre else np.empty(0), weight)

    @property
    def _has_scales(self):
        """Whether scales and offsets of these rows under this map are known."""
        return self._scaled[0] is self.map is not None and self._scaled[1] is self.X

    @property
    def _weight_of_gradients(self):
        if self.exposure.size and self.weight.size:
            return self.exposure * self.weight
        return self.exposure if self.exposure.size else self.weight

    def _take_cached(self):
        """Return the cached factors and lengths of rows under this map, and clear the cache."""
        cached = self._cached[:]
        self._cached.clear()  # of copies too: whoever has the numbers writes over them
        is_alike = cached and self.map is not None and self.map.moves_like(cached[0])
        return cached[2:] if is_alike and cached[1] is self.X else None

    # --- sums for conditioning --------------------------------------------------------------------

    def summed(self, statistic: Statistic) -> np.ndarray:
        """See `Rows.summed`, in as many threads as the rows say."""
        total = Total((statistic.n_sums(self.shape[1]),))
        self.add_to(total, statistic, self.moment_edges())
        return statistic.from_sums(total.value(), self.shape[1])

    def add_to(self, total: Total, statistic: Statistic, edges: np.ndarray) -> None:
        """Add the sums of chunks of a statistic to those before them, in order."""
        if statistic.source == "targets" and statistic.kind in (OCTAVES, SPLIT):
            column = LocalRows(np.ascontiguousarray(self.y[:, None]))
            column.weight = self.weight
            column.n_threads = self.n_threads
            column.add_to(total, replace(statistic, source="rows"), edges)
            return
        if statistic.source == "targets":
            from skdpdyn.kernels.statistics import TargetPass, add_up

            run = TargetPass(self.y, self.exposure, self.weight, statistic, self.common)
            add_up(run, edges, total, self.n_threads)
        elif statistic.source == "mapped" and self.map is None:
            raise ValueError("these rows have no map: give one, as LocalRows(X, map=RowMap(...))")
        elif statistic.projection is not None or (
            self.is_sparse and statistic.source == "mapped" and not self.map.is_diagonal
        ):
            self._add_made_dense(total, statistic, edges)
        else:
            self._add_rows(total, statistic, edges)

    def _add_rows(self, total, statistic, edges):
        """Add a statistic of rows in the memory and format that they are in."""
        from skdpdyn.kernels.statistics import add_up

        if statistic.kind in (OCTAVES, SPLIT):  # exact, however they are added up
            edges = edges[np.linspace(0, edges.size - 1, self.n_threads + 1).astype(np.intp)]
        before = total.parts.copy()

        def added():
            total.parts[:] = before
            add_up(self._pass(statistic), edges, total, self.n_threads)

        self._in_reach(added)

    def _add_made_dense(self, total, statistic, edges):
        """Add the sums of sparse rows, or of sketches, of which a part at a time is made dense."""
        is_short = self.is_sparse and statistic.projection is not None
        width = statistic.projection.shape[1] if is_short else self.shape[1]
        at_once = max(1, _DENSE_NUMBERS // (width * max(1, int(np.diff(edges).max(initial=0)))))
        for first in range(0, edges.size - 1, at_once):
            span = edges[first : first + at_once + 1]
            rows, of_dense = self.part(int(span[0]), int(span[-1]))._made_dense(statistic)
            rows.add_to(total, of_dense, span - span[0])

    def _made_dense(self, statistic):
        """Return dense rows, or the sketches of rows, and the statistic of them."""
        rows = copy.copy(self)
        to = statistic.projection
        if to is None:
            rows.X = self.X.toarray().astype(self.dtype, copy=False)
            return rows, statistic
        if self.is_sparse:
            scale, _, _ = self.factors()
            rows.X = (scaled_csr(self.X, scale, self.map.weights) @ to).toarray()
        else:
            rows.X = np.ascontiguousarray(in_reach(self._mapped, self.in_ranges)[0] @ to)
            rows.ranges = None
        rows.map = RowMap(None, np.ones(to.shape[1]), norm=1.0, radius=1.0)
        return rows, replace(statistic, projection=None)

    def _pass(self, statistic):
        """Return the pass over rows."""
        from skdpdyn.kernels.statistics import RowPass

        row_map = self.map if statistic.source == "mapped" else None
        of_map = (None, None)
        ball = ball_of(self.X, statistic.radius) if row_map is None else row_map.ball(self.X)
        if row_map is not None:
            of_map = row_map.centre, row_map.weights
        if statistic.kind == SPLIT:
            of_map = -np.asarray(statistic.lows), np.asarray(statistic.factors)
        to = None
        if statistic.keep:
            to = np.empty(self.shape[0]), np.empty(self.shape[0])
            self._cached[:] = row_map, self.X, *to
        return RowPass(
            self.in_ranges,
            ball._replace(
                constant=statistic.constant,
                grain=statistic.grain,
                part=statistic.part,
                target=statistic.targets,
            ),
            statistic.kind,
            centre=of_map[0],
            weights=of_map[1],
            thresholds=statistic.thresholds,
            y=self.y if statistic.targets else None,
            row_weight=self.weight,
            numbers=to,
        )

    def mapped_blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield slices of rows, and these rows mapped."""
        if self.map is None:
            raise ValueError("these rows have no map: give one, as LocalRows(X, map=RowMap(...))")
        for first, last in pairwise(self.moment_edges().tolist()):
            rows = self.part(first, last)
            if self.is_sparse and self.map.is_diagonal:
                scale, _, _ = rows.factors()
                yield slice(first, last), scaled_csr(rows.X, scale, self.map.weights)
                continue
            X = rows.X.toarray() if self.is_sparse else rows.in_ranges
            yield slice(first, last), in_reach(self._mapped, X)[0]

    def _mapped(self, X):
        """Return some dense rows mapped."""
        from skdpdyn.kernels.statistics import RowPass

        mapped = np.empty((1, math.prod(X.shape)))
        run = RowPass(X, self.map.ball(X), ROWS, centre=self.map.centre, weights=self.map.weights)
        run(np.array([0, X.shape[0]]), 0, 1, mapped, np.empty((0, 0)))
        return mapped.reshape(X.shape)


def rows_of(
    X, y, codes: np.ndarray | None, most_rows: int, exposure=None, equal: bool = False, weight=None
) -> LocalRows:
    """Return the rows that are used, with their persons and weights.

    Parameters
    ----------
    X, y : ndarray or CSR array of shape (n_rows, n_features), ndarray of shape (n_rows,) or None
        All rows and targets. They are copied where some are not used.
    codes : ndarray of shape (n_rows,) or None
        Number of each row's person, see `skdpdyn.data.persons.person_codes`; None: every row is a
        record.
    most_rows : int
        Public limit on the rows of a person that are used.
    exposure : ndarray of shape (n_rows,), float or None, default=None
        Exposure of each row, or of all, see `LocalRows`.
    equal : bool, default=False
        Whether weights of rows are public and equal, see `skdpdyn.data.persons.by_person`.
    weight : ndarray of shape (n_rows,) or None, default=None
        A further weight of each row, in [0, 1].

    Returns
    -------
    LocalRows
    """
    kind = getattr(X, "kind", LocalRows)
    if codes is None:
        return kind(X, y, weight, exposure=exposure, most_rows=most_rows)
    used, persons, of_persons = by_person(codes, most_rows, equal)
    if used is not None:
        X = X[used]
        y = None if y is None else y[used]
        exposure = exposure[used] if isinstance(exposure, np.ndarray) else exposure
        weight = None if weight is None else weight[used]
    # those of a person add up to less than 1 by more than products of both round
    weights = of_persons if of_persons.size else None
    rows = kind(X, y, weights, None, exposure, persons, most_rows)
    return rows if weight is None else rows.weighted_by(weight)


def _check_persons(persons, weight):
    """Refuse rows of a person that weigh more than 1 together."""
    totals = np.bincount(persons.owners(), weight, persons.n_persons)
    if not np.all(totals <= 1 + persons.largest * _EPS):
        raise ValueError("weight of the rows of a person must add up to at most 1")


def counts_of_columns(
    portions: Iterable[tuple[slice, Callable[[int], np.ndarray]]],
    places: Sequence[int],
    count: Callable[[int, LocalRows], SealedCells],
    n_records: int,
    weight: np.ndarray | None = None,
    *,
    codes: np.ndarray | None = None,
    most_rows: int = 1,
    equal: bool = False,
) -> SealedCells:
    """Return counts of columns of a table, of which some rows are there at a time.

    Parameters
    ----------
    portions : iterable of (slice, callable)
        Which rows, each of them once, and a function that returns their numbers of a column. All
        rows of a person are in one portion.
    places : sequence of int
        Columns.
    count : callable
        Of the place of a column in ``places``, and of rows of that column alone, its counts.
    n_records : int
        Public number of records, or of persons.
    weight : ndarray of shape (n_rows,) or None, default=None
        Weights in [0, 1], rounded down so that their sums over portions are exact.
    codes : ndarray of shape (n_rows,) or None, default=None
        Number of each row's person; None: every row is a record.
    most_rows : int, default=1
        Public limit on the rows of a person that are used.
    equal : bool, default=False
        Whether weights of rows are public and equal.

    Returns
    -------
    SealedCells
    """
    grain = 2.0 ** (53 - n_records.bit_length())
    weight = None if weight is None else np.floor(weight * grain) / grain
    counted = []
    for part, numbers_of in portions:
        of_rows = None if weight is None else weight[part]
        columns = (numbers_of(j)[:, None] for j in places)
        rows = (
            rows_of(column, None, codes, most_rows, equal=equal, weight=of_rows)
            for column in columns
        )
        counted.append([count(k, of_column) for k, of_column in enumerate(rows)])
    return SealedCells.in_portions(counted)


def mapping_terms(rows: Rows) -> int:
    """Return how many terms a sum over rows has beside these, once it is mapped."""
    # a feature's sum is over the cells of its column, whose sums over rows come first
    cells = 0 if rows.expansion is None else 2 * rows.expansion.n_cells
    if rows.map is None:
        return cells
    return cells + (16 if rows.map.is_diagonal else 2 * rows.map.n_features + 32)


def allowance(objective, dtype, n_chunks, aligned, growth=1.0, mapping=0) -> float:
    """Return the part of the sensitivity that rounding may add, see `LocalRows.bounded`.

    Raises
    ------
    ValueError
        If sums in float64 cannot tell one record among so many.
    """
    chunk = objective.n_samples / n_chunks + 16
    n_blocks = 1
    n_moved = chunk
    n_rows = objective.n_samples
    if not aligned:
        n_rows *= objective.most_rows
        n_chunks *= objective.most_rows
        n_blocks = objective.n_samples / 16 + n_chunks
        n_moved = objective.n_samples
    of_chunks = in_order(0, n_rows / LEAST_SUMMED + 1)
    double_sums = n_moved * chunk + objective.n_samples * of_chunks
    blocks = 640 * np.finfo(dtype).eps * n_blocks
    # a step of the sum over a divisor rounds by less than 8 eps of it
    room = (blocks + double_sums * _EPS + (mapping + 8) * objective.n_samples * _EPS) * growth
    if not room < 0.5:
        raise ValueError(
            f"n_samples={objective.n_samples}: sums in float64 cannot tell one record among so many"
        )
    return float(room)
