"""Rows in memory: arrays and CSR arrays, with factors and limits for kernels."""

import copy
import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpdyn.blas import one_blas_thread
from skdpdyn.chunks import LEAST_SUMMED, in_order
from skdpdyn.data.base import RowsInPieces
from skdpdyn.data.persons import Persons, by_person
from skdpdyn.data.row_map import block_size, norms_of_mapped, scaled_csr
from skdpdyn.data.rows import canonical_rows, row_factors, row_norms
from skdpdyn.kernels.lengths import compiled_limit
from skdpdyn.kernels.passes import BatchSums, LocalSums

_EPS = np.finfo(np.float64).eps
_AT_ONCE = 1 << 16  # rows whose factors are computed at a time


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


class LocalRows(RowsInPieces):
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
    exposure : ndarray of shape (n_samples,) or None, default=None
        Positive finite factor on the derivative of each row's loss, applied before clipping, so
        that it does not change the influence of a row. None for 1.
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
        self.exposure = np.empty(0) if exposure is None else exposure
        if exposure is not None and not (
            exposure.shape == self.shape[:1] and np.all((exposure > 0) & np.isfinite(exposure))
        ):
            raise ValueError("exposure must hold one finite number > 0 for each row of X")
        self._check_map(map)
        self.map: Any = map  # RowMap or None

    def weighted_by(self, factor: np.ndarray) -> "LocalRows":
        """Return the same rows with weights times ``factor``, a number in [0, 1] for each row."""
        rows = copy.copy(self)
        rows.weight = np.ascontiguousarray(factor * (rows.weight if rows.weight.size else 1.0))
        return rows

    def weighted_by_class(self, weights: np.ndarray) -> "LocalRows":
        """See `Rows.weighted_by_class`."""
        return self.weighted_by(weights[self.y.astype(np.intp)])

    def class_counts(self, n_classes: int) -> list[float]:
        """See `Rows.class_counts`."""
        return [self.count(self.y == code) for code in range(n_classes)]

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

    def with_encoded(self, y: np.ndarray, changes: Sequence[tuple[str, tuple]]) -> "LocalRows":
        """Return the same rows with targets and changes, see `TargetsElsewhere`."""
        rows, exposure = copy.copy(self), np.empty(0)
        if y.ndim == 2:
            y, exposure = y[:, 0], np.ascontiguousarray(y[:, 1])
        rows.y, rows.exposure = np.ascontiguousarray(y, dtype=self.dtype), exposure
        rows.weight = np.empty(0)
        for name, arguments in changes:
            rows = getattr(rows, name)(*arguments)
        return rows

    def with_target(self, centre: float, scale: float) -> "LocalRows":
        """See `Rows.with_target`."""
        rows = copy.copy(self)
        rows.y = self._targets((self.y.astype(np.float64) - centre) / scale)
        return rows

    def with_rate(self, rate: float, unit: float) -> "LocalRows":
        """See `Rows.with_rate`."""
        rows = copy.copy(self)
        rows.y = self._targets(self.y.astype(np.float64) / rate)
        rows.exposure = self.exposure * rate / unit
        return rows

    def _targets(self, y):
        """Return targets in the precision of X."""
        return y.astype(self.dtype, copy=False)

    def part(self, first: int, last: int) -> "LocalRows":
        """Return rows first, ..., last - 1 under the same map, with targets and weights."""
        part, rows = copy.copy(self), slice(first, last)
        part.X, part.y = self.X[rows], self.y[rows]
        part.weight, part.exposure = self.weight[rows], self.exposure[rows]
        if "norms" in vars(self):
            part.__dict__["norms"] = self.norms[rows]
        return part

    def pieces(self):
        """See `RowsInPieces.pieces`: a chunk at a time."""
        for first, last in pairwise(self.moment_edges().tolist()):
            yield self.part(first, last), True

    def open_sums(self, what) -> LocalSums | BatchSums:
        """See `Rows.open_sums`."""
        if what.of_batches:
            return BatchSums(what, self)
        return LocalSums(what, self, self.chunk_edges(what.n_chunks), self.n_threads)

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

    @cached_property
    def norms(self) -> np.ndarray:
        """Norm of each row of X, without the map."""
        return row_norms(self.X)

    def factors(self, data_norm: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ``scale``, ``offset`` and norm of each row, see `RowMap.factors`.

        Parameters
        ----------
        data_norm : float, default=1.0
            Radius of the ball that rows are in. Mapped rows are in the unit ball.

        Raises
        ------
        ValueError
            If there is a map and ``data_norm`` is not 1, or a row is too large.
        """
        if self.map is None:
            scale = row_factors(self.norms, data_norm, self.X)
            return scale, np.empty(0), scale * self.norms
        if data_norm != 1:
            raise ValueError(f"data_norm={data_norm!r}: mapped rows are in the unit ball. Use 1.0")
        return self.map.factors(self.X)

    def bounded(self, objective, n_chunks=64, dtype=None, aligned=True) -> BoundedRows:
        """Return factors and limits that bound each row's gradient, for kernels.

        All leave room for rounding, so that the sensitivity of the *computed* sum of gradients
        stays within ``sensitivity``. A sum of gradients of norm at most L rounds by its own norm
        times eps/2 at most, and so does each product and what it multiplies a row by: a block of 32
        rows, in any order, by less than 300 eps L, a chunk of m rows by m^2/4 eps L, the sum of c
        chunks of n rows by less than (2 + c^2 eps) n/2 eps L, see `skdpdyn.chunks.in_order`;
        two runs, by twice that. Partial sums of one output or of several round alike. Changing a
        row changes the rounding of its own block, of the float64 sums of its chunk, and of the sum
        of the chunks, nothing else. But a record that joins a batch, or has another number of rows,
        moves the rows that follow, and every block and every chunk rounds anew. With weights that
        add up to n in all, each of up to n k/m chunks, k the most rows of a record, rounds by m/2
        eps L times its weight, a block by 16 eps L times its weight and a little.

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
            If a row is too large, or rounding could hide what one record does.
        """
        return self._bounded(objective, self._allowance(objective, n_chunks, dtype, aligned))

    def bounded_without_room(self, objective) -> BoundedRows:
        """Return factors and limits of rows if the budget pays for rounding.

        A softmax that is not clipped is not clamped either, for that would be no contraction.
        """
        return self._bounded(objective.unclamped() if objective.contracts else objective, 0.0)

    def bounded_for(self, what) -> BoundedRows:
        """Return the factors and bounds of rows for `skdpdyn.kernels.passes.Gradients`."""
        if what.objective.exact:
            return self.bounded(what.objective, what.n_chunks, what.precision, what.aligned)
        return self.bounded_without_room(what.objective)

    def _bounded(self, objective, room):
        if self.map is not None:  # of no more use, and beside X in memory for the whole run
            vars(self).pop("norms", None)
        n_rows = self.shape[0]
        has_centre = self.map is not None and self.map.centre is not None
        scale, offset = np.empty(n_rows), np.empty(n_rows if has_centre else 0)
        limit = np.empty(n_rows, self.dtype)
        of_limit = objective.clip, objective.intercept_scaling, objective.loss.lipschitz
        for first in range(0, n_rows, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            scale[part], offset[part], limits = self.part(first, part.stop).factors(
                objective.data_norm
            )
            with np.errstate(all="ignore"):
                compiled_limit()(limits, *of_limit)
                if self.exposure.size:
                    limits /= self.exposure[part]
                limits *= 1 - room
                limit[part] = rounded_down(limits, self.dtype)
        weight = self._weighted(self.exposure) if self.exposure.size else self.weight
        return BoundedRows(scale, limit, offset, weight)

    def _allowance(self, objective, n_chunks, dtype, aligned):
        mapping = 0
        if self.map is not None:
            mapping = 16 if self.map.is_diagonal else 2 * self.map.n_features + 32
        growth = self.growth(objective)
        return allowance(objective, dtype or self.dtype, n_chunks, aligned, growth, mapping)

    # --- sums for conditioning --------------------------------------------------------------------

    def count(self, chosen: np.ndarray) -> float:
        """Return the weight of the chosen rows, the number of them where all weigh 1.

        Weights are rounded down to a public unit in whose multiples sums are exact: a record moves
        a count by 1 at most, to the last digit.
        """
        if not self.weight.size:
            return float(np.count_nonzero(chosen))
        unit = 2.0 ** (53 - self.n_records.bit_length())
        return float(np.sum(np.floor(self.weight[chosen] * unit))) / unit

    def numbers(self, of: str, centre: float = 0.0) -> np.ndarray:
        """Return the number of each row that `Rows.counts` compares."""
        if of == "distances":
            return np.abs(self.y - centre)
        if of == "residuals":
            return np.abs(self.exposure * centre - self.y * self.exposure)
        if of == "norms":
            return self.norms
        lengths = np.empty(self.shape[0])
        for first in range(0, len(lengths), _AT_ONCE):  # factors, which come with them, go at once
            part = slice(first, first + _AT_ONCE)
            _, lengths[part] = self.map.lengths(self.X[part])
        return lengths

    def counts(self, of: str, thresholds: np.ndarray, centre: float = 0.0) -> Sequence[float]:
        """See `Rows.counts`: they are counted when they are asked for."""
        return self.counts_of(self.numbers(of, centre), thresholds)

    def counts_of(self, numbers: np.ndarray, thresholds: np.ndarray) -> Sequence[float]:
        """Return how many of some numbers, of one row each, are within thresholds, by weight."""
        return _Counts(self, numbers, thresholds)

    def target_terms(self):
        """Yield the sum of the targets, by weight, rounded once."""
        yield math.fsum(self._weighted(self.y))

    def residual_terms(self, rate: float):
        """Yield the sum of residuals of counts, clipped to [-1, 1], by weight, rounded once."""
        residuals = np.clip(self.exposure * rate - self.y * self.exposure, -1.0, 1.0)
        yield math.fsum(self._weighted(residuals))

    def row_terms(self, radius: float | None = None):
        """Yield ``sum(weight * x)`` of each block of rows, scaled into the ball of ``radius``."""
        factor = np.ones(self.shape[0])
        if radius is not None:
            factor = row_factors(self.norms, radius, self.X)
        factor, size = self._weighted(factor), block_size(self.shape[1])
        with one_blas_thread():
            for first in range(0, self.shape[0], size):
                part = slice(first, first + size)
                yield factor[part] @ self.X[part].astype(np.float64, copy=False)

    def square_terms(self):
        """Yield ``sum(weight * z**2)`` of each block of mapped rows z."""
        for part, rows in self.mapped_blocks():
            weight = self._weighted(np.ones(rows.shape[0]), part)
            if sparse.issparse(rows):
                squares = rows.data**2 * np.repeat(weight, np.diff(rows.indptr))
                yield np.bincount(rows.indices, weights=squares, minlength=self.shape[1])
            else:
                yield np.einsum("i,ij,ij->j", weight, rows, rows)

    def outer_terms(self, constant: float = 0.0):
        """Yield ``sum(weight * outer(z, z))`` of each block of mapped rows z with ``constant``."""
        with one_blas_thread():
            for part, rows in self.mapped_blocks():
                weight = np.sqrt(self._weighted(np.ones(rows.shape[0]), part))
                if sparse.issparse(rows):
                    rows = scaled_csr(rows, weight)
                    yield (rows.T @ rows).toarray()
                else:
                    if constant:
                        rows = np.column_stack([rows, np.full(len(rows), constant)])
                    rows *= weight[:, None]
                    yield rows.T @ rows

    def sketch_terms(self, projection: sparse.csr_array, constant: float = 0.0):
        """Yield ``sum(weight * outer(s, s))`` over the sketches s of each block of mapped rows."""
        with one_blas_thread():
            for part, mapped in self.mapped_blocks():
                sketch = (mapped @ projection).toarray()
                lengths = np.linalg.norm(sketch, axis=1)
                sketch *= ((1 - 1e-9) / np.maximum(lengths, 1.0))[:, None]
                if constant:
                    sketch = np.column_stack([sketch, np.full(len(sketch), constant)])
                weight = self._weighted(np.ones(len(sketch)), part)
                sketch *= np.sqrt(weight)[:, None]
                yield sketch.T @ sketch

    def product_terms(self, radius: float, constant: float = 0.0):
        """Yield the products of each block of rows, see `Rows.products`."""
        scale, size = row_factors(self.norms, radius, self.X), block_size(self.shape[1])
        with one_blas_thread():
            for first in range(0, self.shape[0], size):
                part = slice(first, first + size)
                target = np.clip(self.y[part], -1, 1)
                # the root, because both factors of the product are weighted
                weight = np.sqrt(self._weighted(np.ones(len(target)), part))
                factor, target, column = scale[part] * weight, target * weight, constant * weight
                if not self.is_sparse:
                    rows = self.X[part] * factor[:, None]
                    if constant:
                        rows = np.column_stack([rows, column])
                    yield np.column_stack([rows.T @ rows, rows.T @ target])
                    continue
                rows = scaled_csr(self.X[part], factor)
                if constant:
                    rows = sparse.hstack([rows, sparse.csr_array(column[:, None])], format="csr")
                yield np.column_stack([(rows.T @ rows).toarray(), rows.T @ target])

    def _weighted(self, factor, part=slice(None)):
        return factor * self.weight[part] if self.weight.size else factor

    def mapped_blocks(self):
        """Yield which rows, and these rows mapped."""
        if self.map is None:
            raise ValueError("these rows have no map: give one, as LocalRows(X, map=RowMap(...))")
        for part, factor, rows in self.map.blocks(self.X):
            scale, _, _ = self.map.divided(factor.copy(), norms_of_mapped(rows))
            divisor = np.divide(scale, factor, out=np.zeros_like(scale), where=factor > 0)
            if sparse.issparse(rows):
                rows = scaled_csr(rows, divisor)
            else:
                rows *= divisor[:, None]
            yield part, rows


class _Counts(Sequence):
    """Weighted numbers of rows within thresholds, counted on access."""

    def __init__(self, rows, numbers, thresholds):
        self._rows, self._numbers, self._thresholds = rows, numbers, thresholds

    def __len__(self):
        return len(self._thresholds)

    def __getitem__(self, place):
        return self._rows.count(self._numbers <= self._thresholds[place])


def rounded_down(numbers: np.ndarray, dtype: Any) -> np.ndarray:
    """Return numbers >= 0 in another precision, none larger than before."""
    with np.errstate(all="ignore"):
        rounded = numbers.astype(dtype, copy=False)
        return np.where(rounded > numbers, np.nextafter(rounded, rounded.dtype.type(0)), rounded)


def rows_of(X, y, codes: np.ndarray | None, most_rows: int, exposure=None) -> LocalRows:
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
    exposure : ndarray of shape (n_rows,) or None, default=None
        Exposure of each row, see `LocalRows`.

    Returns
    -------
    LocalRows
    """
    if codes is None:
        return LocalRows(X, y, exposure=exposure, most_rows=most_rows)
    used, persons, weight = by_person(codes, most_rows)
    if used is not None:
        X, *rest = (None if part is None else part[used] for part in (X, y, exposure))
        y, exposure = rest
    weights = weight if weight.size else None
    return LocalRows(X, y, weights, None, exposure, persons, most_rows)


def allowance(objective, dtype, n_chunks, aligned, growth=1.0, mapping=0) -> float:
    """Return the part of the sensitivity that rounding may add, see `LocalRows.bounded`.

    Raises
    ------
    ValueError
        If sums in float64 cannot tell one record among so many.
    """
    chunk = objective.n_samples / n_chunks + 16
    n_blocks, n_moved, n_rows = 1, chunk, objective.n_samples
    if not aligned:
        n_rows *= objective.most_rows
        n_chunks *= objective.most_rows
        n_blocks, n_moved = objective.n_samples / 16 + n_chunks, objective.n_samples
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
