"""The first stage of a fit, a search and a table: its facts are completed.

What is not given of a table is bought, or taken from y by name. All that follows is what somebody
would run who had given all facts.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.columns import DATE, FLAG, TEXT, shown_date
from skdpdyn.core.expansion import Levels, NumberColumn, bounds_by_column
from skdpdyn.core.noise import Generator
from skdpdyn.core.schema import SHARED, Schema
from skdpdyn.core.spending import ROUNDS_DOWN, Share, Spending, planned, vocabulary_of
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import Budget
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.calibration import check_shape
from skdpdyn.privacy.checks import is_auto
from skdpdyn.training.additive import (
    FLAGS,
    OpenNumbers,
    as_parameters,
    counted_columns,
    is_counted,
    most_open,
)
from skdpdyn.training.facts import (
    ClassLabels,
    ColumnLevels,
    ColumnRanges,
    Fact,
    TableBounds,
    TargetRange,
)
from skdpdyn.training.parameters import checked
from skdpdyn.training.plan import budget_of, refuse_to_buy, request_of
from skdpdyn.training.reading import Reading
from skdpdyn.training.values import Facts, Form, Request

FACTS = "facts"


@dataclass(frozen=True, eq=False)
class Purchase:
    """Facts of a table that are open, and bought before its fit.

    Attributes
    ----------
    request : Request
        That of the fit, in which something stands for each fact that is open: its plan is what is
        declared before any record is seen.
    open : tuple of Fact
        What is bought, in this order, at the shares of ``request.facts.bought``.
    """

    request: Request
    open: tuple[Fact, ...]

    @classmethod
    def of(
        cls,
        model: Any,
        n_samples: int,
        n_features: int,
        form: Form | None = None,
        y: np.ndarray | None = None,
    ) -> "Purchase":
        """Return the open facts of data of this shape, by public numbers and parameters.

        Parameters
        ----------
        model : estimator
            Has the parameters.
        n_samples, n_features : int
            Numbers of records, or of persons, and of columns.
        form : Form or None, default=None
            What is public of data that were read. None: nothing was.
        y : ndarray of shape (n_rows,) or None, default=None
            Targets in memory, whose facts are taken from them, with a warning, where nothing buys
            them.

        Raises
        ------
        ValueError
            If a parameter is wrong, or nothing that is open can be bought.
        """
        n_samples, n_features = check_shape(n_samples, n_features)
        checked(model)
        is_read = form is not None
        form = form or Form()
        expands = model.family.expand is not None
        columns = form.columns
        if columns is None and expands:
            columns = counted_columns(model, n_features)
        reserves = expands and most_open(model, n_features).levels > 0
        facts = Facts(None, columns, reserves=reserves, kinds=form.kinds)
        budget = budget_of(model, n_samples, form, facts)
        pays = budget.delta > 0 and strength_of(budget, n_samples) >= rules.FACTS_STRENGTH
        facts, of_target = _with_target(model, form, facts, pays, y, is_read)
        facts, of_columns = _with_columns(model, form, facts, n_features)
        request = request_of(model, n_samples, n_features, form, facts)
        if facts.ranges is None and columns is None and _pays_for_ranges(model, request):
            of_columns = (ColumnRanges(np.full((n_features, 2), np.nan)),)
            facts = replace(facts, ranges=of_columns[0].placeholder)
            request = request_of(model, n_samples, n_features, form, facts)
        buyers = *of_target, *of_columns
        bought = {fact.name: fact.shares(strength_of(budget, n_samples)) for fact in buyers}
        request = replace(request, facts=replace(facts, bought=bought))
        if buyers and not request.is_gaussian:
            refuse_to_buy(request)
        bought = _times(bought, request.recipe.times_facts(request) if buyers else 1)
        return cls(replace(request, facts=replace(facts, bought=bought)), buyers)

    def buy(self, reading: Reading, spending: Spending) -> Facts:
        """Return all facts of a table: those that were open are bought."""
        facts = self.request.facts
        for fact in self.open:
            facts = fact.buy(reading, facts, spending)
        return facts

    def buy_alone(self, reading: Reading, budget: Budget, generator: Generator) -> Facts:
        """Return all facts, of which the `record` is a release of its own, beside no training."""
        spending = Spending(budget, self.request.facts.spent, generator)
        facts = self.buy(reading, spending)
        if spending.record() != self.record(reading.persons is not None):
            raise CalibrationError("other facts were bought than planned: please report this")
        return facts

    def taking(self, part: float) -> "Purchase":
        """Return the purchase of the same facts for this part of mu^2 in all, or a little less."""
        facts = self.request.facts
        if not self.open:
            return self
        factor = part * (1 - 1e-12) / math.fsum(facts.parts_of_mu.values())
        facts = replace(facts, bought=_times(facts.bought, factor))
        return replace(self, request=replace(self.request, facts=facts))

    def records(self, budget: Budget, of_persons: bool) -> dict[str, Mechanism]:
        """Return the records of releases that are not plain Gaussian ones."""
        request = self.request
        most_rows = request.most_rows if of_persons else 1
        return {
            name: record
            for fact in self.open
            for name, record in fact.records(request.facts.spent, budget, most_rows).items()
        }

    def record(self, of_persons: bool = False) -> Mechanism | None:
        """Return the record of all that is bought, of records or of persons; None of nothing."""
        if not self.open:
            return None
        budget = self.request.budget
        records = self.records(budget, of_persons)
        return planned(self.request.facts.spent, budget, records).mechanism


def most_of_facts(model: Any, n_samples: int, n_features: int) -> float:
    """Return the largest part of mu^2 that open facts ask for, whatever the form of the data."""
    request = Purchase.of(model, n_samples, n_features).request
    parts = dict(request.facts.parts_of_mu)
    if model.family.expand is not None:
        strength = strength_of(request.budget, n_samples)
        most = most_open(model, n_features)
        parts[TableBounds.name] = rules.ranges_share(strength, most.numbers) * (most.numbers > 0)
        parts[ColumnLevels.name] = rules.levels_share(strength, most.levels) * (most.levels > 0)
    return math.fsum(parts.values())


def record_of_most(part: float, budget: Budget) -> Mechanism | None:
    """Return a record with the cost of any facts that take this part of mu^2 together.

    Their Gaussian releases add up to one, and levels of all columns fail as often as those of one
    column do, a little less often than here. None: nothing is open.
    """
    if not part:
        return None
    share = Share(part)
    records: dict[str, Mechanism] = {}
    if budget.failure:
        levels = vocabulary_of(share, budget, 1, 1)
        records[FACTS] = replace(levels, threshold=levels.threshold * (1 - 1e-12))
    return planned({FACTS: share}, budget, records).mechanism


def parameters_of(model: Any, facts: Facts) -> dict[str, Any]:
    """Return facts that were bought, or lent, as parameters of estimators, which cost nothing."""
    targets = model.family.targets
    found = {targets.parameter: targets.placeholder if facts.target is None else facts.target}
    if facts.columns is not None:
        names = getattr(model, "feature_names_in_", range(len(facts.columns)))
        return found | as_parameters(facts.columns, names)
    if facts.ranges is not None and ColumnRanges.name in facts.bought:
        found["bounds"] = facts.ranges.pairs
    return found


def schema_of(model: Any, facts: Facts, parameter: str, names: Any = None) -> Schema:
    """Return all facts of a table as a schema; ``parameter``: that of the target's facts.

    ``names``: of the columns, of which further ones are left out; None: those of the model.
    """
    target = facts.target
    columns = facts.columns
    if columns is None and facts.ranges is not None:
        columns = [NumberColumn(*pair) for pair in facts.ranges.pairs.tolist()]
    columns = () if columns is None else columns
    if names is None:
        names = getattr(model, "feature_names_in_", range(len(columns)))
    named = dict(zip(names, columns, strict=False))
    numbers = {key: column for key, column in named.items() if isinstance(column, NumberColumn)}
    levels = {key: column for key, column in named.items() if isinstance(column, Levels)}
    shared = {key: {SHARED: column.shared} for key, column in numbers.items() if column.shared}
    kinds = {key: column.kind for key, column in numbers.items()}
    kinds |= {key: FLAG if column == FLAGS else TEXT for key, column in levels.items()}
    if facts.kinds is not None:
        every = getattr(model, "feature_names_in_", range(len(facts.kinds)))
        kinds |= dict(zip(every, facts.kinds, strict=False))
    ends = {key: (column.low, column.high) for key, column in numbers.items()}
    dates = {key: tuple(map(shown_date, ends[key])) for key in ends if kinds[key] == DATE}
    return Schema(
        bounds=ends | dates or None,
        categories={key: column.levels for key, column in levels.items()} | shared or None,
        types=kinds or None,
        **{parameter: target},
    )


def strength_of(budget: Budget, n_samples: int) -> float:
    """Return N mu / f of releases for a whole budget, see `skdpdyn.core.rules.strength_of`."""
    return rules.strength_of(n_samples, budget.mu * ROUNDS_DOWN, budget.adjacency)


def _times(bought, factor):
    """Return shares by fact, each so many times as large."""
    if factor == 1:
        return bought
    return {
        fact: {name: Share(share.size * factor, share.n_releases) for name, share in shares.items()}
        for fact, shares in bought.items()
    }


def _with_target(model, form, facts, pays, y, is_read):
    """Return facts with that of the target, and its buyer where it is open.

    Something stands for it until then. Where records do not pay for it, it is taken from y.
    """
    targets = model.family.targets
    given = targets.public(model, form.of_y)
    if given is not None:
        return replace(facts, target=given), ()
    if targets.may_buy(model, form.of_y) and (pays or not is_read):
        room = 1.0 if targets.takes_exposure else form.room  # the unit of counts follows from it
        buyer = TargetRange(targets, room) if targets.clips else ClassLabels(targets)
        return replace(facts, target=targets.placeholder), (buyer,) * pays
    if not is_read:
        return facts, ()
    target, leaks = targets.from_y(model, y)
    return replace(facts, target=target, leaks=leaks), ()


def _with_columns(model, form, facts, n_features):
    """Return facts with those of columns, and the buyers of those that are left open."""
    if facts.columns is not None:
        return facts, of_open_columns(facts.columns, form.room)
    pairs = _given_pairs(model, form, n_features)
    if pairs is None:
        return facts, ()
    ranges = ColumnRanges(pairs)
    return replace(facts, ranges=ranges.placeholder), (ranges,) * bool(np.isnan(pairs).any())


def of_open_columns(columns: Any, room: float = 1.0) -> tuple[Fact, ...]:
    """Return the buyers of open facts of the columns of a table, and of ranges with some room."""
    numbers = [j for j, column in enumerate(columns) if isinstance(column, OpenNumbers)]
    levels = [j for j, column in enumerate(columns) if is_counted(column)]
    return (TableBounds(numbers, room),) * bool(numbers) + (ColumnLevels(levels),) * bool(levels)


def _given_pairs(model, form, n_features):
    """Return ranges of columns, given or lent by a map or a start, NaN where they are open.

    None: no range is given.
    """
    bounds: Any = getattr(model, "bounds", None)  # an older class outside may lack it
    lent: Any = getattr(model.conditioning, "ranges", None)
    if bounds is None or (form.is_sparse and is_auto(bounds)):
        return None if lent is None else lent.pairs
    if form.is_sparse:
        raise ValueError("bounds would make sparse rows dense: use bounds=None, or X.toarray()")
    names = _names_of(model, bounds, n_features)
    pairs = bounds_by_column(bounds, "bounds", n_features, names, partly=True)
    of_start = getattr(model.start, "ranges_", None) if lent is None else lent.pairs
    if of_start is not None:
        pairs = np.where(np.isnan(pairs), of_start, pairs)
    if lent is not None and not np.array_equal(lent.pairs, pairs):
        raise ValueError("bounds are others than those of conditioning: use bounds='auto'")
    return None if is_auto(bounds) and np.isnan(pairs).all() else pairs


def _pays_for_ranges(model, request):
    """Return whether ranges are bought unasked: of dense rows, on the way to a map of rows."""
    asked = is_auto(getattr(model, "bounds", None)) and not request.is_sparse
    free = is_auto(model.data_norm) and is_auto(model.conditioning) and request.start is None
    if not (asked and free and request.recipe.maps):
        return False
    return request.strength >= rules.LEAST_RANGES_STRENGTH * math.sqrt(request.n_features)


def _names_of(model, bounds, n_features):
    """Return names of columns: those of the model's fit, or before it those that bounds have."""
    if isinstance(bounds, dict) and not hasattr(model, "n_features_in_"):
        return [*bounds, *[None] * n_features][:n_features]
    return getattr(model, "feature_names_in_", None)
