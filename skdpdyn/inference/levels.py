"""Columns of levels in a table: dummies of the levels that are common enough to be told."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpdyn.core.rules import strength_of
from skdpdyn.core.spending import Spending
from skdpdyn.data.local import LocalRows
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.training.additive import public_levels
from skdpdyn.training.base import quoting_no_records, refuse_dates

LEVELS, LEVELS_SHARE = "levels", 0.03
POOLED = "other (pooled)"
# A level's variance among rows of length 1 is its part of the records over the number of columns.
# Noise on the moment that finds coordinates has a norm of about the root of the number of numbers
# and levels over the strength: what is told has this many times that
CLEAR = 14.0


@dataclass(frozen=True, eq=False)
class Cells:
    """A frame whose columns of levels are a column of 0 and 1 for each level.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Numbers; behind the levels of a column come other and missing values.
    names : tuple of str
        Name of each column.
    groups : dict of str to list of int
        Places of the levels of each column.
    """

    X: np.ndarray
    names: tuple[str, ...]
    groups: dict[Hashable, list[int]]

    @classmethod
    def of(cls, X: Any, categories: dict[Hashable, Any]) -> "Cells":
        """Return a frame's cells, or raise an error that quotes no record."""
        if not hasattr(X, "columns") or not set(categories) <= set(X.columns):
            raise ValueError(
                f"categories={categories!r} must be a dict of columns of X, a frame, and their "
                "public levels"
            )
        refuse_dates(X)
        names: list[str] = []
        blocks, groups = [], {}
        for key in X.columns:
            if key not in categories:
                block = quoting_no_records(np.asarray, X[key], dtype=np.float64)[:, None]
                labels = [str(key)]
            else:
                column = public_levels(key, categories[key])
                codes = quoting_no_records(column.codes, X[key])
                block = codes[:, None] == np.arange(column.n_cells)
                labels = [f"{key}: {level}" for level in (*column.levels, "other", "missing")]
                groups[key] = list(range(len(names), len(names) + len(labels)))
            blocks.append(block)
            names += labels
        return cls(np.column_stack(blocks).astype(np.float64), tuple(names), groups)

    def bounded(self, X: Any, bounds: Any) -> tuple[Any, np.ndarray]:
        """Return a frame of all cells, and their bounds; ``bounds`` are those of numbers."""
        numbers = [key for key in X.columns if key not in self.groups]
        every = np.tile([0.0, 1.0], (len(self.names), 1))
        if numbers:
            places = [self.names.index(str(key)) for key in numbers]
            every[places] = BoundsScaler(bounds).fit(X[numbers]).bounds_
        return self.X, every

    def buy(self, rows: LocalRows, spending: Spending) -> "Told":
        """Buy counts of all levels: a record adds one to a level of each column."""
        weight = rows.weight if rows.weight.size else np.ones(rows.shape[0])
        places = [place for group in self.groups.values() for place in group]
        counts = np.array([math.fsum(weight[rows.X[:, j] > 0]) for j in places])
        room = 1 + 4 * rows.n_records * np.finfo(np.float64).eps
        sensitivity = spending.per_square * math.sqrt(len(self.groups)) * room
        noisy = spending.release(LEVELS, counts, sensitivity)
        strength = strength_of(rows.n_records, spending.mu, spending.adjacency)
        return self.told(noisy, rows.n_records, strength)

    def told(self, counts: np.ndarray, n_records: int, strength: float) -> "Told":
        """Return which levels are told, given noisy counts of all of them.

        As many as noise leaves clear: the more there are, the more records each needs. The others
        of a column are pooled, or count as its reference, the commonest, where they are too few
        together.
        """
        places = [place for group in self.groups.values() for place in group]
        parts = dict(zip(places, (counts / n_records).tolist(), strict=True))
        ranked = sorted(parts.values(), reverse=True)
        n_numbers = len(self.names) - len(places)
        noise = CLEAR * (n_numbers + len(self.groups)) / strength
        enough = [p for k, p in enumerate(ranked, 1) if p >= noise * math.sqrt(n_numbers + k)]
        least = min(enough, default=2.0)
        columns = [[j] for j in range(len(self.names)) if j not in parts]
        names, one_hot, references = [self.names[j] for (j,) in columns], [], []
        for key, group in self.groups.items():
            kept = [j for j in group if parts[j] >= least]
            pooled = [j for j in group if parts[j] < least]
            reference = max(group, key=parts.__getitem__)
            dummies = {self.names[j]: [j] for j in kept if j != reference}
            if kept and sum(parts[j] for j in pooled) >= least:
                dummies[f"{key}: {POOLED}"] = pooled
            one_hot.append(list(range(len(names), len(names) + len(dummies))))
            names, columns = names + list(dummies), columns + list(dummies.values())
            references.append(self.names[reference])
        matrix = np.zeros((len(self.names), len(columns)))
        for k, joined in enumerate(columns):
            matrix[joined, k] = 1.0
        first = [joined[0] for joined in columns]
        return Told(matrix, tuple(names), one_hot, tuple(references), first)


@dataclass(frozen=True, eq=False)
class Told:
    """Columns of a table, which are sums of cells: of which, the first of each, and their names.

    And groups of dummies, and the references of these.
    """

    matrix: np.ndarray
    names: tuple[str, ...]
    one_hot: list[list[int]]
    references: tuple[str, ...]
    first: list[int]
