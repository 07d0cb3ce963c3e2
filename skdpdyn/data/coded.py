"""Rows of cells: what an additive model trains on, a byte a column in place of expanded rows."""

import copy
from typing import Any

import numpy as np

from skdpdyn.data.local import LocalRows
from skdpdyn.expansion import Expansion
from skdpdyn.kernels.statistics import Statistic
from skdpdyn.kernels.sums import Total

_AT_ONCE = 2048  # rows that are expanded at a time


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
        self.codes, self.expansion = codes, expansion

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


class CodedRows(LocalRows):
    """Rows of cells in memory, see `LocalRows`."""

    X: Coded

    @property
    def expansion(self) -> Expansion:  # type: ignore[override]
        """Public tables of features."""
        return self.X.expansion

    def with_expansion(self, expansion: Expansion) -> "CodedRows":
        """Return the same cells under other tables."""
        rows = copy.copy(self)
        rows._kept = []
        rows.X = Coded(self.X.codes, expansion)
        return rows

    def add_to(self, total: Total, statistic: Statistic, edges: np.ndarray) -> None:
        """See `LocalRows.add_to`: some expanded rows at a time are chunks of their own."""
        if statistic.of == "targets":
            super().add_to(total, statistic, edges)
            return
        kept = np.empty((2, self.shape[0])) if statistic.keep else None
        for first in range(int(edges[0]), int(edges[-1]), _AT_ONCE):
            part = self.part(first, min(first + _AT_ONCE, int(edges[-1])))
            weight = part.weight if part.weight.size else None
            rows = LocalRows(part.X.toarray(), part.y, weight, self.map)
            rows.add_to(total, statistic, np.array([0, len(part.X)]))
            if kept is not None:
                kept[:, first : first + len(part.X)] = rows._kept[1:]
        if kept is not None:
            self._kept[:] = self.map, *kept

    def sample(self, least: float) -> tuple[float, int]:
        """See `Rows.sample`: all rows, for `add_to` cuts other chunks."""
        return float("inf"), self.n_records

    def cell_counts(self) -> np.ndarray:
        """Return how many rows are in each cell of each column, by weight; exact."""
        unit = 2.0 ** (53 - self.n_records.bit_length())
        weight = np.floor(self.weight * unit) if self.weight.size else None
        sizes = np.diff(self.X.expansion.starts)
        counts = [
            np.bincount(of, weight, size) for of, size in zip(self.X.codes.T, sizes, strict=True)
        ]
        return np.concatenate(counts) / (1.0 if weight is None else unit)

    def _mapping_terms(self):
        # a feature's sum is over the cells of its column, whose sums over rows come first
        return super()._mapping_terms() + 2 * self.X.expansion.n_cells


Coded.kind = CodedRows
