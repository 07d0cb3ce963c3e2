"""Interface of rows, wherever they are stored, to solvers and conditioning."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import (
    ACUTE,
    ANY,
    POSITIVE,
    Sealed,
    SealedCells,
    SealedCounts,
    SealedProducts,
    opened,
)
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.kernels.asked import COUNTS, OCTAVES, OUTER, PARTS, SPLIT, SQUARES, SUM, Statistic
from skdpdyn.support import chunks

if TYPE_CHECKING:
    from skdpdyn.kernels.passes import Gradients

_EPS = np.finfo(np.float64).eps
_MOST_GROWTH = 64  # largest growth of rounding at which single precision may sum blocks
_LEAST_SINGLE = 1e-18  # see `Objective.allows_single`
_MOST_SINGLE = 1e30
_LEAST_CHUNK = 1024
_LARGEST_CHUNK = 4096  # rows that statistics add up one after the other
_MULTIPLE = 64  # rows that they map at a time
_CHUNK_NUMBERS = 1 << 22  # in the rows of a chunk
_STORED = 32  # values that a CSR row is taken to store


class Rows(ABC):
    """Rows with their targets and the public map that they go through.

    A fit asks for sums over rows, which are sealed, and for nothing else. Rows are summed in fixed
    chunks, whose edges follow from public numbers alone, and chunks are added in order. So the same
    rows give the same bits wherever they are.

    A source has ``shape``, ``dtype`` and ``is_sparse``, and offers `open_sums`, which `gradient`
    rests on, and `summed`, which all else does. Most sources read rows in order: they derive from
    `skdpdyn.data.streamed.StreamedRows`, which asks for one method.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of columns.
    dtype : dtype
        Precision of the rows, float64 or float32.
    is_sparse : bool
        Whether rows are CSR arrays.
    map : RowMap or None
        Map of each row before training; None for scaling into the ball of ``data_norm``.
    draws : bool
        Whether `gradient` takes chosen rows, for solvers that draw batches.
    ranges : Ranges or None
        Ranges that columns of dense rows are clipped to and brought to [-1, 1] by; None: rows are
        taken as they are.
    n_threads : int
        Number of threads of sums, whose bits do not depend on it.
    expansion : Expansion or None
        Public tables of features, where rows are the cells of these, see `skdpdyn.data.coded`.
    has_exposure : bool
        Whether targets of counts come with their exposures, as arrays of two columns.
    has_flags : bool
        Whether targets are flags by their type: False and True.
    most_rows : int
        Public bound on the number of rows of a record, for which all sums leave room.
    common : float
        Public factor of the exposures of all rows, or the exposure of those that have none.
    total : float or None
        Sum of the weights of rows, once it was bought; None: that of one for each record.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    is_sparse: bool
    map: Any = None  # RowMap or None
    draws = False
    has_parts = True  # whether the first rows of each chunk can be counted alone
    n_threads = 1
    has_exposure = False
    has_flags = False
    most_rows: int = 1
    common = 1.0
    total: float | None = None
    expansion: Any = None  # tables of features, where rows are cells
    ranges: Ranges | None = None  # of columns, which dense rows come to [-1, 1] by

    # --- what a source offers ---------------------------------------------------------------------

    @abstractmethod
    def open_sums(self, gradients: "Gradients") -> Callable[..., np.ndarray]:
        """Return the adder of gradients over rows, point by point, in the rows' number of threads.

        Parameters
        ----------
        gradients : Gradients
            The sum to compute, with its number of chunks, see `skdpdyn.kernels.passes`;
            ``of_batches``: over chosen rows, which only a source that `draws` is asked for.

        Returns
        -------
        callable
            A function of ``weights``, ``intercept`` and ``shift``, the parameters as kernels read
            them, and of the places of chosen records where sums are of batches. It returns the
            sum of all chunks, added in order, of shape (what.n_sums,), and ``close()`` frees its
            resources.
        """

    @abstractmethod
    def summed(self, statistic: Statistic) -> np.ndarray:
        """Return a statistic of all rows: sums of chunks of `moment_edges`, added up in order."""

    def batches(self, size: int, n_epochs: int) -> Iterator[Any]:
        """Yield batches of rows in their order, epoch after epoch, each a `LocalRows`.

        Raises
        ------
        ValueError
            If these rows are not read in order.
        """
        raise ValueError(
            f"{type(self).__name__} cannot give batches in the order of rows. Use solver='auto'"
        )

    def close(self) -> None:
        """Free the caches of `gradient`, and the resources of a fit: workers, files, sockets."""
        self.close_sums()

    def close_sums(self) -> None:
        """Free the caches of `gradient` alone."""
        opened = self.__dict__.pop("_gradients", {})
        for _, _, sums in opened.values():
            sums.close()

    def changed(self) -> bool:
        """Return whether rows are others than when a fit began, which is refused then.

        Sources that are read anew in every pass compare what bounds a row as they read it.
        """
        return False

    def __copy__(self):
        """Return the same rows without the caches of `gradient`."""
        rows = object.__new__(type(self))
        rows.__dict__ |= {name: value for name, value in vars(self).items() if name != "_gradients"}
        return rows

    def gradient(self, objective: Objective, point: np.ndarray, chosen=None) -> Sealed:
        """Return the sum of the clipped gradients of the loss over rows under their map.

        What it needs of each row is held from call to call with the same objective, until `close`.

        Parameters
        ----------
        objective : Objective
            The problem. Where it is ``exact``, the rounding of the computed sum is within what one
            record changes. Otherwise the sum itself cannot be released: the record of a run pays
            for the rounding of its last iterate.
        point : ndarray of shape (n_parameters,)
            Coefficients of mapped rows, output by output, then those of the intercept column.
        chosen : ndarray of int or None, default=None
            Places of some records, in the order in which they are summed; None: all records.

        Returns
        -------
        Sealed of shape (n_parameters,)
            Of terms of norm at most ``objective.lipschitz``.

        Raises
        ------
        ValueError
            If the rows are not those of the objective, or batches cannot be chosen from these rows.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpdyn.data.local import LocalRows
        >>> from skdpdyn.core.losses import squared
        >>> from skdpdyn.core.objective import Objective
        >>> rows = LocalRows(np.array([[1.0], [-1.0]]), np.array([0.5, 0.25]))
        >>> objective = Objective(squared, 2, 1, data_norm=1.0, clip=1.0, exact=True)
        >>> rows.gradient(objective, np.array([0.5]))
        Sealed(norm=1.0, apart=2.0, rounding=0.0)
        """
        if point.shape != (objective.n_parameters,):
            raise ValueError(f"point has shape {point.shape}: give {objective.n_parameters}")
        opened = vars(self).setdefault("_gradients", {})
        before, place, sums = opened.get(chosen is None, (None, None, None))
        if before is not objective:
            if sums is not None:
                sums.close()
                # what the last objective needed of each row makes room for what this one needs
                opened.pop(chosen is None)
                place = sums = None
            place, sums = self._open(objective, chosen is not None)
            opened[chosen is None] = objective, place, sums
        at = place.at(point)
        total = sums(*at) if chosen is None else sums(*at, np.asarray(chosen))
        rounding = 0.0 if objective.exact else math.inf
        return Sealed(place.pull_back(self.common * total), objective.lipschitz, ANY, rounding)

    def residual_sum(self, objective: Objective, limit: float, point: np.ndarray) -> Sealed:
        """Return the sum over rows of the derivatives of the loss, each clipped to a limit.

        Parameters
        ----------
        objective : Objective
            The problem, with an intercept.
        limit : float
            Largest norm of a row's derivatives, with the rounding of their sum.
        point : ndarray of shape (n_parameters,)
            Coefficients of mapped rows, output by output, then the intercepts.

        Returns
        -------
        Sealed of shape (n_outputs,)
        """
        residuals = replace(
            objective, clip=limit, intercept_scaling=1.0, exact=True, residuals=True
        )
        place, sums = self._open(residuals, False)
        with closing(sums):
            total = place.pull_back(self.common * sums(*place.at(point)))
        apart = min(ANY, objective.loss.apart / limit)
        return Sealed(total[-objective.n_outputs :], limit, apart)

    def _open(self, objective, of_batches):
        from skdpdyn.kernels.passes import Gradients, Point

        self.check(replace(objective, n_samples=self.n_records) if of_batches else objective)
        if of_batches and not self.draws:
            raise ValueError(
                f"{type(self).__name__} cannot draw batches. Use solver='auto', or an array in "
                "memory"
            )
        gradients = Gradients.of(objective, self, of_batches)
        return Point(gradients, self.map), self.open_sums(gradients)

    @abstractmethod
    def with_target(self, centre: float, scale: float) -> "Rows":
        """Return the same rows with the targets (y - centre) / scale."""

    @abstractmethod
    def with_rate(self, rate: float, unit: float, most: float = math.inf) -> "Rows":
        """Return rows of counts with rates in units of ``rate``, residuals in units of ``unit``.

        Exposures above ``most``, in the units of these rows, count as that, at the same rates.
        """

    @abstractmethod
    def weighted_by_class(self, weights: np.ndarray) -> "Rows":
        """Return the same rows, each with the weight of its class: targets are codes of classes."""

    @abstractmethod
    def with_classes(self, codes: np.ndarray) -> "Rows":
        """Return the same rows with the code of each target, a cell; rows of -1 weigh nothing."""

    def with_map(self, map: RowMap | None) -> "Rows":
        """Return the same rows under another map, or as they are."""
        if map is not None:
            map.check(self.shape[1], self.is_sparse)
        rows = copy.copy(self)
        rows.map = map
        return rows

    def with_ranges(self, ranges: Ranges | None) -> "Rows":
        """Return the same dense rows with columns brought from their ranges to [-1, 1]."""
        rows = copy.copy(self)
        rows.ranges = ranges
        return rows

    def with_total(self, total: float) -> "Rows":
        """Return the same rows with the sum of their weights."""
        rows = copy.copy(self)
        rows.total = total
        return rows

    def with_norm(self, norm: float) -> "Rows":
        """Return the same rows under the map with another ``norm``."""
        return self.with_map(replace(self.map, norm=norm))

    # --- public numbers ---------------------------------------------------------------------------

    @property
    def mass(self) -> float:
        """The number that turns sums of weighted rows into means."""
        return self.n_records if self.total is None else self.total

    @property
    def n_records(self) -> int:
        """Number of records, which is public: of persons, or of rows."""
        return self.shape[0]

    @property
    def of_persons(self) -> bool:
        """Whether a record is a person with possibly several rows; `LocalRows` only."""
        return False

    def count_chunks(self, n_sums: int) -> int:
        """Return the largest number of chunks, see `skdpdyn.support.chunks.count_chunks`."""
        shape = self.n_records, self.shape[1]
        return chunks.count_chunks(shape, self.dtype, self.is_sparse, n_sums)

    def chunk_edges(self, n_chunks: int) -> np.ndarray:
        """Return where chunks begin and end, see `skdpdyn.support.chunks.chunk_edges`."""
        return chunks.chunk_edges(self.n_records, n_chunks, self.shape[0])

    def moment_edges(self) -> np.ndarray:
        """Return where the chunks of statistics begin and end, see `moment_chunk`."""
        return chunks.edges_of(
            self.shape[0], moment_chunk(self.n_records, self.shape[1], self.is_sparse)
        )

    def check(self, objective) -> None:
        """Refuse rows that are not those of the objective; compiled loops do not look.

        Raises
        ------
        ValueError
            If the shape is another.
        """
        if self.shape != (objective.n_samples, objective.n_features):
            raise ValueError(
                f"X has shape {self.shape}: the objective has n_samples={objective.n_samples}, "
                f"n_features={objective.n_features}"
            )

    def growth(self, objective) -> float:
        """Return how much more sums of mapped rows may round than others; at least 1.

        The rounding of a sum is relative to its terms, whose norm is at most ``map.spread`` times
        the largest residual, where that of a gradient is at most ``objective.lipschitz``.

        Raises
        ------
        ValueError
            If the map has a centre or a full matrix, and nothing bounds the residuals.
        """
        if self.map is None or self.map.is_exact or objective.residuals:
            return 1.0
        largest = objective.loss.lipschitz
        if objective.intercept_scaling:
            largest = min(largest, objective.clip / objective.intercept_scaling)
        if not math.isfinite(largest):
            raise ValueError(
                f"a {objective.loss.name} loss without a bound on its residuals cannot be "
                "trained on "
                "rows with a centre or a full matrix of weights. Give clip, and fit an intercept"
            )
        return max(1.0, largest * self.map.spread / objective.lipschitz)

    def allows_single(self, objective) -> bool:
        """Return whether gradients of float32 rows may be summed in that precision.

        Yes, if `Objective.allows_single` allows it, the factors of rows cannot be subnormal under
        any map, and rounding does not grow too much. No, if records are persons: one more row of a
        person makes all blocks round anew.
        """
        if self.of_persons:
            return False
        if not objective.allows_single or self.map is None:
            return objective.allows_single
        row_map = self.map
        least = objective.lipschitz * row_map.radius / (row_map.norm * row_map.spread)
        return (
            not row_map.unit
            and least >= _LEAST_SINGLE
            and objective.loss.lipschitz / row_map.norm <= _MOST_SINGLE
            and self.growth(objective) <= _MOST_GROWTH
        )

    def sum_rounding(self) -> float:
        """Return how much sums over these rows may round, see the function `sum_rounding`."""
        of_terms = None if self.map is None else 4 * self.map.error
        return sum_rounding(self.n_records, self.shape[1], of_terms, self.most_rows)

    # --- statistics -------------------------------------------------------------------------------

    def counts(
        self,
        quantity: str,
        thresholds: np.ndarray,
        centre: float = 0.0,
        *,
        part: float = math.inf,
        keep: bool = False,
    ) -> SealedCounts:
        """Return how many rows are within each of some thresholds, by weight.

        Parameters
        ----------
        quantity : {"norms", "lengths", "distances"}
            Which numbers to compare: norms of rows of X, their norms under the map, or distances of
            the targets from ``centre``, times their exposure where they have one.
        thresholds : ndarray of shape (n_thresholds,)
            Numbers in increasing order.
        centre : float, default=0.0
            Point that distances of targets are measured from.
        part : float, default=inf
            Rows of each chunk that count, see `sample`; not of targets.
        keep : bool, default=False
            Whether rows in memory keep what training needs of each under this map.

        Returns
        -------
        SealedCounts of shape (n_thresholds,)
            They are exact: weights are rounded down to a public unit in whose multiples sums are.
        """
        source = {"norms": "rows", "lengths": "mapped", "distances": "targets"}[quantity]
        statistic = Statistic(
            COUNTS,
            source,
            thresholds=thresholds,
            centre=centre,
            grain=self._grain,
            part=part,
            keep=keep,
        )
        return SealedCounts(self.summed(statistic), len(thresholds))

    @property
    def _grain(self):
        """Weights are rounded down to multiples of its inverse, so that counts are exact."""
        return 2.0 ** (53 - self.n_records.bit_length())

    def octave_counts(self, source: str = "rows") -> SealedCells:
        """Return how many numbers of each column of X are in each octave, by weight.

        Parameters
        ----------
        source : {"rows", "targets"}, default="rows"
            "targets": of one column, the targets.

        Returns
        -------
        SealedCells of shape (n_features, 4096)
            First of the positive numbers by the biased exponent of doubles, of which the first
            cells are 0 and the last one no number, then of the negative ones; 2^k is in the octave
            that ends with it.
        """
        return SealedCells(self.summed(Statistic(OCTAVES, source, grain=self._grain)))

    def part_counts(
        self, ranges: np.ndarray, split: np.ndarray, source: str = "rows"
    ) -> SealedCells:
        """Return how many numbers of X are in each part of the range of its column, by weight.

        Parameters
        ----------
        ranges : ndarray of shape (n_features, 2)
            Ranges, which are cut into as many equal parts.
        split : ndarray of bool of shape (n_features,)
            Columns that are counted.
        source : {"rows", "targets"}, default="rows"
            See `octave_counts`.

        Returns
        -------
        SealedCells of shape (n_features, PARTS)
        """
        width = (ranges[:, 1] - ranges[:, 0]) / PARTS
        factors = np.divide(1.0, width, out=np.zeros(len(width)), where=split)
        lows = np.where(split, ranges[:, 0], 0.0)
        statistic = Statistic(SPLIT, source, grain=self._grain, lows=lows, factors=factors)
        return SealedCells(self.summed(statistic))

    def sample(self, least: float) -> tuple[float, int]:
        """Return how many rows of each chunk are a public sample, and how many they are in all.

        Places are public where a record is a row; all rows count where it is a person, the number
        of whose rows is not.

        Parameters
        ----------
        least : float
            Number of rows that is enough.

        Returns
        -------
        part : float
            The first rows of each chunk that count; inf for all.
        n_rows : int
            Number of them.
        """
        if self.of_persons or not self.has_parts or least >= self.n_records:
            return math.inf, self.n_records
        sizes = np.diff(self.moment_edges())
        part = -(-math.ceil(least) // (len(sizes) * _MULTIPLE)) * _MULTIPLE
        return float(part), int(np.sum(np.minimum(sizes, part)))

    def class_counts(self, n_classes: int) -> SealedCounts:
        """Return how many rows each class has, by weight: targets are codes of classes."""
        within = opened(self.counts("distances", np.arange(n_classes)))
        return SealedCounts(np.diff(within, prepend=0.0))

    def weight_total(self) -> Sealed:
        """Return the sum of the weights of rows."""
        return self.counts("distances", np.array([math.inf])).at(0)

    def target_sum(self, centre: float = 0.0, *, positive: bool = False) -> Sealed:
        """Return the sum of the targets' distances from a centre, with their signs, by weight.

        Each is multiplied by its exposure and clipped to [-1, 1], or to [0, 1] if ``positive``.
        """
        statistic = Statistic(SUM, "targets", centre=centre, least=0.0 if positive else -1.0)
        rounding = target_rounding(self.n_records, self.most_rows)
        return Sealed(self.summed(statistic)[0], 1.0, POSITIVE if positive else ANY, rounding)

    def column_sums(self, radius: float) -> Sealed:
        """Return the sum of ``weight * x`` over all rows x, without the map.

        Parameters
        ----------
        radius : float
            Radius of the ball that each row is scaled into first.

        Returns
        -------
        Sealed of shape (n_features,)
        """
        total = self.summed(Statistic(SUM, "rows", radius))
        return Sealed(total, radius, ANY, self.sum_rounding())

    def column_squares(self) -> Sealed:
        """Return the sum of ``weight * z**2`` over all mapped rows z, column by column.

        Returns
        -------
        Sealed of shape (n_features,)
        """
        total = self.summed(Statistic(SQUARES, "mapped"))
        return Sealed(total, 1.0, ACUTE, self.sum_rounding())

    def second_moment(self, constant: float = 0.0) -> SealedProducts:
        """Return the sum of ``weight * outer(z, z)`` over all mapped rows z.

        Parameters
        ----------
        constant : float, default=0.0
            Constant of a column that is appended to dense mapped rows, as the intercept's; 0 for
            none.

        Returns
        -------
        SealedProducts of shape (n_features, n_features), one more with a constant
            Symmetric; of cells, and without a constant, only within `Expansion.blocks`, and 0
            elsewhere.
        """
        return self._products(Statistic(OUTER, "mapped", constant=constant))

    def _products(self, statistic):
        norm = 1 + statistic.constant**2 + statistic.targets**2
        return SealedProducts(self.summed(statistic), norm, self.sum_rounding())

    def sketched_moment(
        self, projection: sparse.csr_array, constant: float = 0.0
    ) -> SealedProducts:
        """Return the sum of ``weight * outer(s, s)`` over sketches s of all mapped rows.

        Parameters
        ----------
        projection : csr_array of shape (n_features, n_buckets)
            Public: a sketch is a mapped row times it, scaled into the unit ball.
        constant : float, default=0.0
            Constant of a column that is appended to sketches; 0 for none.

        Returns
        -------
        SealedProducts of shape (n_buckets, n_buckets), one more with a constant
        """
        return self._products(Statistic(OUTER, "mapped", constant=constant, projection=projection))

    def products_with_targets(self, constant: float, factor: float) -> SealedProducts:
        """Return the second moment of mapped rows with their constant and their target appended.

        As `second_moment`, where targets are clipped to [-1, 1] and multiplied by ``factor``.
        """
        return self._products(Statistic(OUTER, "mapped", constant=constant, targets=factor))


def moment_chunk(n_records: int, n_features: int, is_sparse: bool) -> int:
    """Return how many rows statistics add up one after the other, from public numbers alone.

    A 64th of the records, or 1,024 to 4,096 rows, or fewer where these would be large.
    """
    size = min(max(n_records // 64, _LEAST_CHUNK), _LARGEST_CHUNK)
    width = min(n_features, _STORED) if is_sparse else n_features
    return max(min(size, _CHUNK_NUMBERS // width) // _MULTIPLE, 1) * _MULTIPLE


def sum_rounding(
    n_samples: int, n_features: int, of_terms: float | None = None, most_rows: int = 1
) -> float:
    """Return how much sums over rows may round in two runs together, over their largest term.

    A chunk of m rows rounds by (m + 2)/2 eps times their weight at most, see
    `skdpdyn.kernels.statistics`, and the sum of chunks as `skdpdyn.support.chunks.in_order` says: a
    function of public numbers and of the map alone.

    Parameters
    ----------
    n_samples, n_features : int
        Numbers of records and columns.
    of_terms : float or None, default=None
        Rounding of each term, over the largest; None: of d numbers of a row without a map.
    most_rows : int, default=1
        Public bound on the number of rows of a record, whose weights add up to at most 1.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If sums in float64 cannot tell one record among so many.
    """
    of_terms = (2 * n_features + 32) * _EPS if of_terms is None else of_terms
    sums = n_samples * largest_number_of_terms(n_samples, n_features, most_rows)
    rounding = sums * _EPS + 2 * n_samples * of_terms
    if not rounding < 0.5:
        raise ValueError(
            f"n_samples={n_samples}: sums in float64 cannot tell one record among so many"
        )
    return float(rounding)


def target_rounding(n_samples: int, most_rows: int = 1) -> float:
    """Return how much sums of targets in [-1, 1] may round in two runs together.

    Each product with a weight is rounded once, and the sum of a chunk twice, by n eps/2 in all each
    time; sums of chunks round as `skdpdyn.support.chunks.in_order` says.
    """
    of_chunks = chunks.in_order(0, n_samples * most_rows / _MULTIPLE + 1)
    return 2 * (of_chunks + 3) * n_samples * float(_EPS)


def largest_number_of_terms(n_samples: int, n_features: int, most_rows: int = 1) -> float:
    """Return how many rows, summed one after the other, round as much as chunks do.

    Whatever the kind of the rows: those of CSR rows are the larger chunks.
    """
    largest, least = (moment_chunk(n_samples, n_features, kind) for kind in (True, False))
    return chunks.in_order(largest + 2, n_samples * most_rows / least + 1)
