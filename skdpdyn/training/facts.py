"""Facts of a table that can be bought: classes, bounds of targets, ranges and levels of columns.

Each is a release with shares of its own, and a small class: what it takes, and what it finds.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import ndtri

from skdpdyn.core import rules
from skdpdyn.core.columns import DATE
from skdpdyn.core.expansion import Expansion
from skdpdyn.core.sealed import Noisy
from skdpdyn.core.spending import Share, Spending, vocabulary_of
from skdpdyn.data.base import Rows
from skdpdyn.data.coded import Coded
from skdpdyn.data.local import counts_of_columns
from skdpdyn.data.ranges import Ranges
from skdpdyn.exceptions import PrivacyUtilityWarning, warn
from skdpdyn.privacy import Budget
from skdpdyn.privacy._types import Mechanism
from skdpdyn.training.additive import kept
from skdpdyn.training.parts import CLASS_COUNTS, FALSE, LEVELS, warn_of_others
from skdpdyn.training.ranges import bought_ranges, shares_of_ranges, widened
from skdpdyn.training.reading import Reading
from skdpdyn.training.targets import N_CELLS, Numbers, Targets, cells_of_labels, numbers_of
from skdpdyn.training.values import Facts

_RANGES = "range of targets", "finer range of targets"
_PAIRS = [0, 1], [-1, 1], [1, 2]


class Fact(ABC):
    """A fact of a table that is open, and can be bought.

    Attributes
    ----------
    name : str
        The parameter in whose place it is bought.
    """

    name = ""

    @abstractmethod
    def shares(self, strength: float) -> dict[str, Share]:
        """Return its shares by name, from public numbers alone."""

    @abstractmethod
    def buy(self, reading: Reading, facts: Facts, spending: Spending) -> Facts:
        """Return the facts with this one."""

    def records(
        self, shares: dict[str, Share], budget: Budget, most_rows: int
    ) -> dict[str, Mechanism]:
        """Return the records of shares that buy no plain Gaussian release.

        ``most_rows`` is that of a person; 1: every row is a record.
        """
        return {}


@dataclass(frozen=True, eq=False)
class ClassLabels(Fact):
    """Classes, and how many records each has: one noisy count for each label of a public list.

    The cells are -1, 0, 1, ... and "other". The list, the counts and all that follows from them is
    post-processing. Records of labels that are no class keep their place and weigh nothing.
    """

    targets: Targets
    name = "classes"

    def shares(self, strength):
        """See `Fact.shares`: that of a base rate of two classes, whatever their number will be."""
        return {CLASS_COUNTS: Share(rules.class_share(strength, 1))}

    def buy(self, reading, facts, spending):
        """See `Fact.buy`: the classes that show."""
        counts = reading.rows(cells_of_labels).class_counts(N_CELLS)
        noisy, std = spending.release(CLASS_COUNTS, counts)
        classes, others = classes_of(noisy, std, self.targets.most)
        if others:
            warn_of_others(classes)
        noisy = noisy[classes + 1]
        total = max(float(noisy.sum()), std) if others else None
        return replace(facts, target=classes, counts=Noisy(noisy, std), total=total)


def classes_of(counts: np.ndarray, std: float, most: float) -> tuple[np.ndarray, bool]:
    """Return the classes that noisy counts show, and whether they show other labels too.

    Parameters
    ----------
    counts : ndarray of shape (n_cells,)
        Noisy counts of the labels -1, 0, 1, ..., and of all others.
    std : float
        Standard deviation of their noise.
    most : float
        Largest number of classes.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The first of the lists [0, 1], [-1, 1] and [1, 2] outside of which nothing stands out;
        otherwise the labels that do, of more than ``most`` the commonest, and [0, 1] where fewer
        than two do.
    others : bool
        Whether a label that is no class stands out.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.training.facts import classes_of
    >>> classes_of(np.array([1.0, 0.0, 950.0, 60.0, -2.0]), std=3.0, most=2)
    (array([1, 2]), False)
    >>> classes_of(np.array([1.0, 0.0, 70.0, 2.0, 60.0, -2.0]), std=3.0, most=2)
    (array([1, 3]), False)
    """
    threshold = -std * ndtri(FALSE / counts.size)
    shown = np.flatnonzero(counts >= threshold) - 1
    for pair in _PAIRS:
        if np.all(np.isin(shown, pair)):
            return np.array(pair), False
    labels = shown[shown < counts.size - 2]
    if labels.size < 2:
        return np.array(_PAIRS[0]), True
    commonest = labels[np.argsort(-counts[labels + 1], kind="stable")]
    classes = np.sort(commonest[: int(min(most, labels.size))])
    return classes, classes.size < shown.size


@dataclass(frozen=True, eq=False)
class TargetRange(Fact):
    """Bounds of targets that are numbers: the range of a column of one number a record."""

    targets: Numbers
    room: float = 1.0
    name = "target_bounds"

    def shares(self, strength):
        """See `Fact.shares`."""
        size = rules.target_range_share(strength)
        parts = size * (1 - rules.FINER_PART), size * rules.FINER_PART
        return dict(zip(_RANGES, map(Share, parts), strict=True))

    def buy(self, reading, facts, spending):
        """See `Fact.buy`."""
        pair = self.range_of(reading.rows(numbers_of), spending)
        return replace(facts, target=self.targets.usable(*widened(pair, self.room)))

    def range_of(self, rows: Rows, spending: Spending) -> tuple[float, float]:
        """Return the bounds that are bought of the targets of rows."""
        counts = rows.octave_counts("targets"), partial(rows.part_counts, source="targets")
        of_rows = rows.n_records, rows.dtype.name
        low, high = bought_ranges(*counts, spending, *of_rows, _RANGES, of_targets=True)[0].tolist()
        if math.isnan(low):
            low = -1.0
            high = 1.0
            warn(
                "target_bounds='auto': noisy counts show no target but 0. Others are cut to "
                "[-1, 1], which means may be far beyond: pass target_bounds=(low, high)",
                PrivacyUtilityWarning,
            )
        return self.targets.usable(low, high)


@dataclass(frozen=True, eq=False)
class ColumnRanges(Fact):
    """Ranges of columns of numbers, by which rows come to [-1, 1]; those that are NaN are bought.

    All columns are counted in one pass over the rows.
    """

    pairs: np.ndarray
    name = "bounds"

    @property
    def placeholder(self) -> Ranges:
        """Ranges that are [-1, 1] where they are open."""
        return Ranges(*np.where(np.isnan(self.pairs), [-1.0, 1.0], self.pairs).T)

    def shares(self, strength):
        """See `Fact.shares`."""
        return shares_of_ranges(strength, int(np.isnan(self.pairs[:, 0]).sum()))

    def buy(self, reading, facts, spending):
        """See `Fact.buy`."""
        rows = reading.rows()
        pairs = self.pairs.copy()
        is_open = np.isnan(self.pairs[:, 0])

        def parts(ends, split):
            all_ends = np.zeros_like(pairs)
            is_split = np.zeros_like(is_open)
            all_ends[is_open] = ends
            is_split[is_open] = split
            return rows.part_counts(all_ends, is_split).columns(is_open)

        octaves = rows.octave_counts().columns(is_open)
        pairs[is_open] = bought_ranges(octaves, parts, spending, rows.n_records, rows.dtype.name)
        if facts.kinds is not None:
            pairs = np.where(is_open[:, None], _in_whole_days(pairs, facts.kinds), pairs)
        return replace(facts, ranges=Ranges(*pairs.T))


def _in_whole_days(pairs, kinds):
    """Return bought ranges, of dates to the whole days around them, which are shown as dates."""
    of_dates = np.array([kind == DATE for kind in kinds])[:, None]
    whole = np.column_stack([np.floor(pairs[:, 0]), np.ceil(pairs[:, 1])])
    return np.where(of_dates, whole, pairs)


@dataclass(frozen=True, eq=False)
class TableBounds(Fact):
    """Bounds of columns of a table, one column at a time: missing values count nowhere."""

    places: Sequence[int]
    room: float = 1.0
    name = "bounds"

    def shares(self, strength):
        """See `Fact.shares`."""
        return shares_of_ranges(strength, len(self.places))

    def buy(self, reading, facts, spending):
        """See `Fact.buy`."""
        of_octaves = self._counts(reading, lambda _, rows: rows.octave_counts())

        def parts(pairs, split):
            return self._counts(
                reading, lambda k, rows: rows.part_counts(pairs[k : k + 1], split[k : k + 1])
            )

        pairs = bought_ranges(of_octaves, parts, spending, reading.shape[0])
        columns = list(facts.columns)
        pairs = np.array([widened(pair, self.room) for pair in pairs.tolist()])
        pairs = _in_whole_days(pairs, [columns[j].kind for j in self.places])
        for j, (low, high) in zip(self.places, pairs.tolist(), strict=True):
            columns[j] = columns[j].within(low, high)
        return replace(facts, columns=tuple(columns))

    def _counts(self, reading, count):
        """Return counts of these columns."""
        return counts_of_columns(
            reading.X.portions(),
            self.places,
            count,
            reading.shape[0],
            reading.weights,
            codes=reading.persons,
            most_rows=reading.most_rows,
            equal=reading.equal_rows,
        )


@dataclass(frozen=True, eq=False)
class ColumnLevels(Fact):
    """Levels of columns, and shared values of numbers, by noisy counts of those that occur.

    Which of them have counts is private: see `skdpdyn.privacy.Vocabulary`.
    """

    places: Sequence[int]
    name = "categories"

    def shares(self, strength):
        """See `Fact.shares`."""
        return {LEVELS: Share(rules.levels_share(strength, len(self.places)))}

    def buy(self, reading, facts, spending):
        """See `Fact.buy`: the levels that stand out."""
        seen = reading.X.seen({j: facts.columns[j] for j in self.places})
        expansion = Expansion(tuple(column for column, _ in seen), 0, 0.0)
        cells = Coded(np.column_stack([places for _, places in seen]), expansion)
        ends = expansion.starts[1:]
        # no level, and missing
        counts = reading.rows(X=cells).cell_counts().without([*ends - 2, *ends - 1])
        most_levels = 1 if reading.persons is None else reading.most_rows
        noisy = spending.vocabulary(LEVELS, counts, most_levels)
        columns = list(facts.columns)
        for j, (levels, _), shown in zip(
            self.places, seen, np.split(noisy, ends[:-1]), strict=True
        ):
            columns[j] = kept(columns[j], levels, shown)
        return replace(facts, columns=tuple(columns))

    def records(self, shares, budget, most_rows):
        """See `Fact.records`."""
        return {LEVELS: vocabulary_of(shares[LEVELS], budget, len(self.places), most_rows)}
