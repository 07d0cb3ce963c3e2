"""Columns of levels in a table: dummies of the levels that are common enough to be told."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from skdpdyn.core.columns import OBJECTS, TEXT, Frame, numbers_in
from skdpdyn.core.expansion import Expansion, Levels, NumberColumn, bounds_by_column
from skdpdyn.core.rules import ROOM_OF_TABLES
from skdpdyn.data.coded import Coded
from skdpdyn.privacy.checks import is_auto, quoted
from skdpdyn.training.additive import (
    OpenNumbers,
    Table,
    is_open,
    of_memory,
    public_levels,
)
from skdpdyn.training.base import distinct, quoting_no_records, refuse_unreadable
from skdpdyn.training.ranges import seen

COUNTS_OF_LEVELS = "counts of levels"
LEVELS_SHARE = 0.03
REST = "all other levels"
KNOWN = "(known)"  # in parentheses, as no level of a list is
# A level's variance among rows of length 1 is its part of the records over the number of columns.
# Noise on the moment that finds coordinates has a norm of about the root of the number of numbers
# and levels over the strength: what is told has this many times that
CLEAR = 14.0
SEEN = 3.0  # standard deviations of noise that the count of pooled levels is above
MOST_NAMED = 3


@dataclass(frozen=True, eq=False)
class TableCells:
    """A table whose columns of levels are behind its columns of numbers.

    Parameters
    ----------
    names : tuple of str
        Names of the columns of numbers.
    numbers : ndarray of shape (n_rows, n_numbers)
        The numbers, 0 where they are missing; a column of zeros if there are none.
    missing : ndarray of bool of shape (n_rows, n_numbers)
        Which are missing.
    keys : tuple
        Columns of levels.
    table : Table
        All of them: behind the levels of a column come other and missing values.
    """

    names: tuple[str, ...]
    numbers: np.ndarray
    missing: np.ndarray
    keys: tuple[Hashable, ...]
    table: Table

    @classmethod
    def of(
        cls, X: Any, categories: Any, bounds: Any, with_missing: Any, types: Mapping[Hashable, str]
    ) -> "TableCells | None":
        """Return a frame's cells, or raise an error that quotes no record.

        None: all columns are numbers without missing values. In columns ``with_missing``, missing
        is a level beside the number, which is the middle of the bounds there.
        """
        if categories is None and not len(with_missing):
            return None
        refuse_unreadable(X)
        frame: Any = None if isinstance(X, np.ndarray) else Frame.of(X)
        if frame is None:
            raise ValueError(
                "categories and missing name columns of a frame: pass pandas.DataFrame(X, "
                "columns=...)"
            )
        frame = frame.said(types)
        frame.refuse_unreadable()
        levels = _with_text(frame, {} if categories is None else categories)
        is_table = isinstance(levels, Mapping)
        twice = [key for key in with_missing if is_table and key in levels]
        if twice:
            raise ValueError(
                f"missing names {quoted(twice[0])}, a column of categories: its missing cells are "
                "a level already"
            )
        if not is_table or not {*levels} <= {*frame.keys}:
            raise ValueError(
                f"categories={quoted(categories)} must be a dict of columns of X, a frame, and "
                "their public levels, or 'auto'"
            )
        if unknown := [key for key in with_missing if key not in frame.keys]:
            raise ValueError(f"missing names {quoted(unknown[0])}, which is no column of X")
        named = {*levels, *with_missing}
        return cls._of(frame, levels, bounds, with_missing) if named else None

    @classmethod
    def _of(cls, frame, categories, bounds, with_missing):
        """Return the cells of columns of levels, and the numbers of the others."""
        every = slice(0, frame.n_rows)
        places = {key: j for j, key in enumerate(frame.keys)}
        kinds = dict(zip(frame.keys, frame.kinds, strict=True))
        numeric = [key for key in frame.keys if key not in categories]
        keys = [key for key in frame.keys if key in categories]
        gapped = [key for key in numeric if key in with_missing]
        numbers = {
            key: quoting_no_records(numbers_in, frame.take(every, places[key]), kinds[key])
            for key in numeric
        }
        pairs = (
            bounds_by_column(bounds, "bounds", len(numeric), numeric, partly=True)
            if numeric
            else ()
        )
        columns: tuple[Any, ...] = (
            *map(column_of, pairs, [kinds[key] for key in numeric]),
            *(public_levels(key, categories[key]) for key in keys),
        )
        values = *numbers.values(), *(frame.take(every, places[key]) for key in keys)
        values += tuple(np.where(np.isnan(numbers[key]), np.array(None), KNOWN) for key in gapped)
        of_numbers = np.zeros((frame.n_rows, 1))
        missing = np.zeros((frame.n_rows, 1), dtype=bool)
        if numeric:
            of_numbers = np.column_stack([*numbers.values()])
            missing = np.isnan(of_numbers) & [key in with_missing for key in numeric]
        columns += (Levels((KNOWN,)),) * len(gapped)
        portions = partial(of_memory, frame.n_rows, lambda part, j: values[j][part])
        table = Table(columns, frame.n_rows, portions)
        of_numbers = np.where(missing, 0.0, of_numbers)
        if np.any(np.isnan(of_numbers)):  # which column it is would be told of records
            raise ValueError(
                "Input X contains NaN in a column that missing does not name. Name each column of "
                "numbers that may have missing values, or fill them with a public value"
            )
        return cls(tuple(map(str, numeric)), of_numbers, missing, (*keys, *gapped), table)

    @property
    def levels(self) -> tuple[Any, ...]:
        """Columns of levels, of which some may be open."""
        return self.table.columns[len(self.names) :]

    def filled(self, bounds: np.ndarray) -> np.ndarray:
        """Return what stands for missing numbers of each column: the middle of its bounds.

        Where they are bought, the middle of the range that was seen, for it is near most numbers.
        """
        columns = self.table.columns[: len(self.names)]
        return np.array(
            [sum(seen_of(*of)) / 2 for of in zip(bounds.tolist(), columns, strict=True)]
        )

    def coded(self, columns: tuple[Any, ...]) -> Coded:
        """Return the cells of the columns of levels, of all of which the facts are known."""
        first = len(self.names)
        codes = self.table.coded(Expansion(columns, 0, 0.0)).codes[:, first:]
        return Coded(np.ascontiguousarray(codes), Expansion(columns[first:], 0, 0.0))

    def noise(self, strength: float) -> float:
        """Return the part of the records that noise makes of a level, by the root of their rank."""
        return CLEAR * (len(self.names) + len(self.keys)) / strength

    def most_columns(self, strength: float) -> int:
        """Return how many columns there can be, public: parts of levels add up to 1 a column."""
        n_columns = len(self.keys)
        n_cells = sum(level.n_cells for level in self.levels)
        most = int((n_columns / self.noise(strength)) ** (2 / 3)) + 1
        return (
            len(self.names)
            + n_columns
            + (most if any(map(is_open, self.levels)) else min(most, n_cells))
        )

    def chosen(
        self,
        columns: Sequence[Levels],
        counts: np.ndarray,
        n_records: int,
        strength: float,
        std: float,
    ) -> "ChosenLevels":
        """Return which levels are told, given counts of all of them with noise of deviation std.

        As many as noise leaves clear: the more there are, the more records each needs. The others
        of a column are pooled, or count as its reference, the commonest, where noise hides them.
        """
        parts = counts / n_records
        n_numbers = len(self.names)
        most = self.most_columns(strength) - n_numbers - len(self.keys)
        ranked = enumerate(sorted(parts.tolist(), reverse=True)[:most], 1)
        noise = self.noise(strength)
        enough = [part for k, part in ranked if part >= noise * math.sqrt(n_numbers + k)]
        least = min(enough, default=2.0)
        ends = np.cumsum([column.n_cells for column in columns])[:-1]
        told = [
            _told(key, column, of_column, least, SEEN * std / n_records)
            for key, column, of_column in zip(
                self.keys, columns, np.split(parts, ends), strict=True
            )
        ]
        return ChosenLevels(
            self.keys,
            tuple(columns),
            tuple(reference for reference, _ in told),
            [dummies for _, dummies in told],
            tuple(
                names_of_cells(key, column.levels)[-1]
                for key, column in zip(self.keys, columns, strict=True)
            ),
        )


def names_of_cells(key: Hashable, levels: Sequence[Any]) -> list[str]:
    """Return names of a column's levels, of other and missing values, and of all other levels.

    Examples
    --------
    >>> from skdpdyn.inference.levels import names_of_cells
    >>> names_of_cells("job", ["a", "other"])
    ['job: a', 'job: other', 'job: (other)', 'job: missing', 'job: all other levels']
    """
    shown = [str(level) for level in levels]
    return [f"{key}: {name}" for name in (*shown, *distinct(["other", "missing", REST], shown))]


def _told(
    key: Hashable, column: Levels, parts: np.ndarray, least: float, seen: float
) -> tuple[str, dict[str, list[int]]]:
    """Return the reference of a column as a text, and the cells of each dummy by its name.

    Levels with less than ``least`` of the records are pooled. Where noise of a cell, ``seen``,
    hides them all together, they count as the reference, which names them: too few records to move
    other coefficients by more than noise does. A column of which nothing else is told has a dummy
    of no cell. Missing numbers always have a dummy: what stands for them may be far from the
    others, so that few of them move a slope by a lot.
    """
    *labels, rest = names_of_cells(key, column.levels)
    if column.levels == (KNOWN,):
        return labels[0], {labels[-1]: [len(labels) - 1]}
    reference = int(np.argmax(parts))
    is_frequent = parts >= least
    dummies = {labels[k]: [k] for k in np.flatnonzero(is_frequent).tolist() if k != reference}
    rare = np.flatnonzero(~is_frequent).tolist()
    if is_frequent.any() and parts[rare].sum() >= seen * math.sqrt(len(rare)):
        dummies[rest] = rare
        return labels[reference], dummies
    if not dummies:  # a row without an answer
        dummies[rest] = []
    hidden = [str(column.levels[k]) for k in rare if k < len(column.levels) and k != reference]
    names = hidden[:MOST_NAMED] + [f"{len(hidden) - MOST_NAMED} more"] * (len(hidden) > MOST_NAMED)
    return " or ".join([labels[reference], *names]), dummies


def seen_of(pair: Sequence[float], column: Any) -> tuple[float, float]:
    """Return the bounds of a column of numbers; where they are bought, the range that was seen."""
    return seen(pair, ROOM_OF_TABLES if is_open(column) else 1.0)


def column_of(pair: Any, kind: str) -> NumberColumn:
    """Return a column of numbers within bounds, or an open one where they are NaN."""
    if np.isnan(pair[0]):
        return OpenNumbers(-1.0, 1.0, kind=kind)
    return NumberColumn(float(pair[0]), float(pair[1]), kind=kind)


def _with_text(frame, categories):
    """Return levels of columns, of which those of text that are not named are bought."""
    if not (is_auto(categories) or isinstance(categories, Mapping)):
        return categories
    kinds = zip(frame.keys, frame.kinds, strict=True)
    text = dict.fromkeys((key for key, kind in kinds if kind in (TEXT, OBJECTS)), "auto")
    return text if is_auto(categories) else {**text, **categories}


@dataclass(frozen=True, eq=False)
class CellNames:
    """Which coefficient of a table each level of a column has.

    Parameters
    ----------
    column : Levels
        The levels.
    names : tuple of str or None
        The coefficient of each level, of other and of missing values; None: the reference.
    filled : float
        Of a column of numbers with missing values: what stands for these.
    """

    column: Levels
    names: tuple[str | None, ...]
    filled: float

    @property
    def is_numeric(self) -> bool:
        """Whether the column is one of numbers, of which missing ones have a coefficient."""
        return self.column.levels == (KNOWN,)

    def of(self, values: Any) -> list[str | None]:
        """Return the coefficient of each value; numbers are NaN where they are missing."""
        if self.is_numeric:
            values = np.where(np.isnan(values), np.array(None), KNOWN)
        return [self.names[code] for code in self.column.codes(values).tolist()]


@dataclass(frozen=True, eq=False)
class ChosenLevels:
    """Levels of a table: the reference of each column, and by name the cells of its dummies.

    ``rest`` are the names that dummies of pooled levels have.
    """

    keys: tuple[Hashable, ...]
    columns: tuple[Levels, ...]
    references: tuple[str, ...]
    dummies: list[dict[str, list[int]]]
    rest: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Names of the dummies."""
        return [name for names in self.dummies for name in names]

    @property
    def pooled(self) -> list[int]:
        """Places of the dummies of pooled levels among ``names``."""
        return [j for j, name in enumerate(self.names) if name in self.rest]

    @property
    def silent(self) -> list[int]:
        """Places of the dummies of no cell among ``names``."""
        every = [cells for names in self.dummies for cells in names.values()]
        return [j for j, cells in enumerate(every) if not cells]

    def note(self, as_reference: Sequence[str]) -> str:
        """Return the sentences of the table on levels; some dummies count as references."""
        references = [
            " or ".join([reference, *(REST for name in names if name in as_reference)])
            for reference, names in zip(self.references, self.dummies, strict=True)
        ]
        why = f' "{REST.capitalize()}" are rare, or noise hides them.' if self.pooled else ""
        return f" Reference levels: {'; '.join(references)}.{why}"

    def cells(
        self, as_reference: Sequence[str], filled: Mapping[str, float]
    ) -> dict[str, "CellNames"]:
        """Return by column which dummy each cell has; some dummies count as references.

        ``filled`` are what stands for missing numbers, by column.
        """
        found = {}
        for key, column, names in zip(self.keys, self.columns, self.dummies, strict=True):
            of_cells = dict.fromkeys(range(column.n_cells))
            for name, cells in names.items():
                of_cells |= dict.fromkeys(cells if name not in as_reference else (), name)
            names_so_far = tuple(of_cells.values())
            found[str(key)] = CellNames(column, names_so_far, filled.get(str(key), math.nan))
        return found

    def one_hot(self, first: int) -> list[list[int]]:
        """Return places of the dummies of each column, from ``first`` on."""
        ends = np.cumsum([first, *map(len, self.dummies)]).tolist()
        return [list(range(start, end)) for start, end in pairwise(ends)]

    def dummies_of(self, codes: np.ndarray) -> list[np.ndarray]:
        """Return the dummies of rows."""
        every = zip(codes.T, self.dummies, strict=True)
        return [
            np.isin(column, cells).astype(np.float64)
            for column, cells_of_names in every
            for cells in cells_of_names.values()
        ]
