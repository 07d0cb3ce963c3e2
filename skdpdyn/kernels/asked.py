"""Requests and results of passes over rows, which need no compiler."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

COUNTS, SUM, SQUARES, OUTER, ROWS, NOTHING, OCTAVES, SPLIT = range(8)
N_OCTAVES = 4096
PARTS = 32  # cells of a column by sign and exponent; parts of a range
APART = N_OCTAVES + 8  # between cells of columns, so that they are in other places of a cache


class Ball(NamedTuple):
    """Numbers of a map, and of sums under it, as kernels read them."""

    radius: float  # that rows are scaled into first; inf: they are taken as they are
    most: float  # largest square of a norm that is allowed
    norm: float = 0.0  # that shorter rows are divided by, targets multiplied; 0: no row is divided
    shrink: float = 1.0  # factor of all divided rows, for rounding
    unit: float = 0.0  # rows that are longer than this are divided by their own norm; 0: none
    full: float = 0.0  # whether W is no upper triangle
    constant: float = 0.0  # column that is appended to rows; 0: none
    grain: float = 1.0  # counted weights are rounded down to multiples of its inverse
    part: float = np.inf  # rows of each chunk that count: the first ones
    columns: float = 0.0  # columns of X
    target: float = 1.0  # factor of targets that are appended, once they are clipped
    mapped: float = 0.0  # whether there is a centre, or W


class InRanges(NamedTuple):
    """Dense rows whose columns come to [-1, 1] as they are loaded.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features)
        Rows as they are.
    middle, factor : ndarray of shape (n_features,)
        Middle of each column's range, and the inverse of half its width, in their precision.
    """

    values: np.ndarray
    middle: np.ndarray
    factor: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and of columns."""
        return self.values.shape

    @property
    def dtype(self) -> np.dtype:
        """Precision of the rows."""
        return self.values.dtype


@dataclass(frozen=True, eq=False)
class Statistic:
    """Public description of the sums of a pass.

    Parameters
    ----------
    kind : int
        COUNTS of rows within thresholds, SUM, SQUARES, or OUTER products; counts of the OCTAVES of
        each column, or of the `PARTS` that a range of it is SPLIT into.
    source : {"rows", "mapped", "targets"}
        Of rows scaled into a ball, of rows under their map, or of targets.
    radius : float, default=inf
        Radius of the ball.
    thresholds : ndarray of shape (n_thresholds,), default=()
        Numbers in increasing order that norms, or distances of targets, are compared with.
    centre : float, default=0.0
        Point that distances of targets are measured from.
    constant : float, default=0.0
        Constant of a column that is appended to rows; 0: none.
    least : float, default=-1.0
        What targets are clipped to from below before they are added up; 1 from above.
    targets : float, default=0.0
        What targets, clipped to [-1, 1], are multiplied by before they are appended too; 0: none
        are.
    lows, factors : ndarray of shape (n_features,), default=()
        Where what is SPLIT begins, and the inverse of the width of its parts; 0: it is not.
    projection : csr_array of shape (n_features, n_buckets) or None, default=None
        Public: rows are sketches of mapped rows, their products with it.
    grain : float, default=1.0
        Power of two: weights are rounded down to multiples of its inverse before they are counted,
        so that counts of as many records as there are can be exact.
    part : float, default=inf
        Rows of each chunk that count, the first ones: a public sample.
    keep : bool, default=False
        Whether factors and lengths of rows in memory are kept for training.
    """

    kind: int
    source: str
    radius: float = np.inf
    thresholds: Sequence[float] | np.ndarray = ()
    centre: float = 0.0
    constant: float = 0.0
    least: float = -1.0
    targets: float = 0.0
    lows: Sequence[float] | np.ndarray = ()
    factors: Sequence[float] | np.ndarray = ()
    projection: Any = None
    grain: float = 1.0
    part: float = np.inf
    keep: bool = False

    def n_columns(self, n_features: int) -> int:
        """Return the number of columns that are multiplied."""
        n_features = n_features if self.projection is None else self.projection.shape[1]
        return n_features + (self.constant > 0) + (self.targets > 0)

    def n_sums(self, n_features: int) -> int:
        """Return how many numbers of a chunk are added up."""
        if self.source == "targets" and self.kind == SUM:
            return 1
        if self.kind == COUNTS:
            return len(self.thresholds) + 1
        if self.kind in (OCTAVES, SPLIT):
            n_features = 1 if self.source == "targets" else n_features
            return n_features * (APART if self.kind == OCTAVES else PARTS)
        width = padded(self.n_columns(n_features))
        return width**2 if self.kind == OUTER else width

    def from_sums(self, sums: np.ndarray, n_features: int) -> np.ndarray:
        """Return the statistic from the sums of all chunks."""
        if self.kind == COUNTS:
            return np.cumsum(sums[:-1])
        if self.kind in (OCTAVES, SPLIT):
            return sums.reshape(1 if self.source == "targets" else n_features, -1)[:, :N_OCTAVES]
        size = min(self.n_columns(n_features), sums.size)
        if self.kind != OUTER:
            return sums[:size]
        upper = np.triu(sums.reshape(padded(size), -1)[:size, :size])
        return upper + np.triu(upper, 1).T


def padded(size):
    """Return the least multiple of eight that is not smaller."""
    return -(-size // 8) * 8


class LongRows(ValueError):
    """Some rows are too long to square: whoever asked asks again, with these rows shortened."""
