"""Columns of additive models: their public facts, and how rows become cells."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, compress
from typing import Any, NamedTuple

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.columns import (
    DATE,
    FLAG,
    INTERVALS,
    NUMBER,
    OBJECTS,
    TEXT,
    intervals_of,
    key_of,
    numbers_in,
    values_of,
)
from skdpdyn.core.expansion import Expansion, Levels, NumberColumn, bounds_by_column, levels_in
from skdpdyn.core.schema import SHARED, is_asked, is_shared, types_of
from skdpdyn.data.coded import Coded
from skdpdyn.data.streamed import CodedLabels, StreamedRows
from skdpdyn.privacy.checks import as_floats, is_auto, quoted
from skdpdyn.support.blas import in_threads
from skdpdyn.support.threads import threads_of
from skdpdyn.training.base import quoting_no_records, read_frame

_MOST_PRODUCTS = 1_000_000  # of pairs: half a gigabyte of them, and of what they are made of
_AT_ONCE = 1 << 15  # rows that become cells at a time, by each thread
_ALONE = 1 << 17  # rows that one thread alone makes cells of
FLAGS = Levels((False, True))


class OpenLevels(Levels):
    """A column whose levels are still to be bought."""


class OpenNumbers(NumberColumn):
    """A column of numbers whose bounds are still to be bought: [-1, 1] stands for them."""


OPEN_LEVELS = OpenLevels(())


def public_columns(
    model: Any, n_features: int, names: Sequence[str] | None, kinds: Sequence[str] | None
) -> tuple[NumberColumn | Levels, ...]:
    """Return the public facts of each column, or an error that says how to give them.

    Parameters
    ----------
    model : estimator
        Has ``bounds`` and ``categories``.
    n_features : int
        Number of columns.
    names : sequence of str or None
        Their names. None: they have none, and are known by their number.
    kinds : sequence of str or None
        What they hold, see `skdpdyn.core.columns.kind_of`; None: all are numbers.
    """
    keys: list[Hashable] = list(range(n_features) if names is None else names)
    levels, shared = _levels(model)
    if unknown := [key for key in (*levels, *shared) if key not in keys]:
        raise ValueError(
            f"categories name the columns {unknown}, which X does not have: leave them out"
        )
    facts: dict[Hashable, Any] = {key: levels[key] for key in keys if key in levels}
    kinds = [NUMBER] * n_features if kinds is None else kinds
    others = {key: kind for key, kind in zip(keys, kinds, strict=True) if key not in facts}
    if intervals := [key for key, kind in others.items() if kind == INTERVALS]:
        raise ValueError(intervals_of(", ".join(map(repr, intervals))))
    text = [key for key, kind in others.items() if kind in (TEXT, OBJECTS)]
    if model.categories is None and text:
        raise ValueError(
            f"the columns {text} hold no numbers, and the levels that they hold are private: "
            f"pass those that can occur, categories={{{text[0]!r}: ['a', 'b', ...]}}, or "
            "categories='auto', which buys them; or leave out columns that explain "
            "nothing, such as ids, and the target"
        )
    facts |= dict.fromkeys(text, OPEN_LEVELS)
    facts |= {key: FLAGS for key, kind in others.items() if kind == FLAG}
    numbers = {key: kind for key, kind in others.items() if kind in (NUMBER, DATE)}
    for key, pair in _bounds(model.bounds, [*numbers], names, n_features).items():
        column = OpenNumbers(-1.0, 1.0, kind=numbers[key], shared=shared.get(key, ()))
        facts[key] = column if np.isnan(pair[0]) else column.within(*pair)
    if wrong := [key for key in shared if key not in numbers]:
        raise ValueError(
            f"categories: 'shared' is for columns of numbers, and {wrong} hold others: give "
            "levels, or bounds of those that are objects and hold numbers"
        )
    return tuple(facts[key] for key in keys)


def is_open(column: NumberColumn | Levels) -> bool:
    """Return whether the facts of a column are still to be bought."""
    return isinstance(column, OpenNumbers) or is_counted(column)


def is_counted(column: NumberColumn | Levels) -> bool:
    """Return whether the levels or the shared values of a column are still to be bought."""
    return isinstance(column, OpenLevels) or getattr(column, "shared", ()) is None


class MostOpen(NamedTuple):
    """Largest numbers of columns of numbers and of levels that may be open."""

    numbers: int
    levels: int


def most_open(model: Any, n_features: int) -> MostOpen:
    """Return how many columns may be open, by the parameters alone, whatever columns hold."""
    if model.start is not None:  # which lends them
        return MostOpen(0, 0)
    bounds = model.bounds
    categories = model.categories
    asked = categories if isinstance(categories, dict) else {}
    shared = {key for key, levels in asked.items() if is_shared(levels)}
    named = {*asked} - shared | ({*bounds} if isinstance(bounds, dict) else set())
    types = types_of(getattr(model, "schema", None)).items()
    numbers = levels = 0
    if is_auto(bounds) or isinstance(bounds, dict):
        others = named | {key for key, kind in types if kind in (TEXT, FLAG)}
        numbers = max(n_features - len(others), 0)
    if categories is not None:
        others = named | shared | {key for key, kind in types if kind != TEXT}
        levels = max(n_features - len(others), 0) + sum(map(is_asked, asked.values()))
    return MostOpen(numbers, levels)


def as_parameters(columns: Sequence[NumberColumn | Levels], keys: Iterable[Any]) -> dict[str, Any]:
    """Return columns as the parameters that say the same, which cost nothing; none is open."""
    named = list(zip(keys, columns, strict=True))
    numbers = {key: column for key, column in named if isinstance(column, NumberColumn)}
    levels: dict[Any, Any] = {
        key: Levels(column.levels) for key, column in named if isinstance(column, Levels)
    }
    levels |= {key: {SHARED: column.shared} for key, column in numbers.items() if column.shared}
    bounds = {key: (column.low, column.high) for key, column in numbers.items()}
    return {"bounds": bounds, "categories": levels}


def _levels(model):
    """Return levels, and shared values, of columns by their names; private ones are not known."""
    categories = model.categories
    if categories is None or is_auto(categories):
        return {}, {}
    if not isinstance(categories, dict):
        raise ValueError(
            f"categories={quoted(categories)} must be 'auto', None, or a dict of columns and their "
            "public levels; levels that are only in the records count as 'other'"
        )
    levels = {key: of for key, of in categories.items() if not is_shared(of)}
    shared = {key: _shared(key, of) for key, of in categories.items() if key not in levels}
    return {key: public_levels(key, of) for key, of in levels.items()}, shared


def _shared(key, given):
    """Return shared values of a column that are given; None: they are bought."""
    if is_asked(given):
        return None
    values = as_floats(values_of(list(given[SHARED])))
    if not (values.ndim == 1 and values.size <= rules.MOST_SHARED and np.isfinite(values).all()):
        raise ValueError(
            f"categories[{key!r}]={quoted(given)} must be 'shared', or {{'shared': values}} of at "
            f"most {rules.MOST_SHARED} numbers"
        )
    return tuple(values.tolist())


def public_levels(key: Hashable, levels: Any) -> Levels:
    """Return public levels of a column, or an error that says how to give them."""
    if is_auto(levels) or isinstance(levels, Levels):
        return OPEN_LEVELS if is_auto(levels) else levels
    levels = getattr(levels, "categories", levels)  # of a type with explicit levels
    listed = [] if isinstance(levels, str) else list(levels)
    listed = [level.item() if isinstance(level, np.generic) else level for level in listed]
    try:
        column = Levels(tuple(listed))
    except (TypeError, ValueError):
        column = Levels(())
    if not column.levels:  # raised here, so that no other error is its context
        raise ValueError(
            f"categories[{key!r}]={quoted(levels)} must be 'auto', or a list of different levels, "
            "at least one: numbers, dates or text. 1, 1.0, True and '1' are one level, blanks "
            "around a text do not count, and missing values have a level of their own"
        )
    return column


def _bounds(bounds, numbers, names, n_features):
    """Return the bounds of the columns of numbers, as a dict, NaN where they are bought."""
    if isinstance(bounds, dict) and names is None and bounds and not {*bounds} & {*numbers}:
        if len(bounds) != len(numbers):
            raise ValueError(
                "bounds is a dict by column name: X has no column names. Give one pair for each "
                f"of {len(numbers)} columns of numbers, in their order"
            )
        bounds = dict(zip(numbers, bounds.values(), strict=True))
    if isinstance(bounds, dict) and (unknown := set(bounds) - set(numbers)):
        raise ValueError(
            f"bounds name the columns {sorted(map(str, unknown))}, which X does not have, or which "
            "hold no numbers: leave them out"
        )
    if not numbers:
        return {}
    if np.shape(bounds) == (n_features, 2) and n_features != len(numbers):
        raise ValueError(
            "bounds has a pair for columns of levels too: give a dict of the columns of numbers"
        )
    pairs = bounds_by_column(bounds, "bounds", len(numbers), numbers, partly=True)
    return dict(zip(numbers, map(tuple, pairs.tolist()), strict=True))


def counted_columns(model: Any, n_features: int) -> tuple[NumberColumn | Levels, ...]:
    """Return the public facts of columns in some order, where only their number is known."""
    tables = _lent(model)
    if tables is not None:
        if len(tables.columns) != n_features:
            raise ValueError(
                f"start has {len(tables.columns)} columns, and the data have {n_features}"
            )
        return tables.columns
    by_name = [*model.categories] if isinstance(model.categories, dict) else []
    if isinstance(model.bounds, dict):
        by_name += [key for key in model.bounds if key not in by_name]
    if not any(isinstance(key, str) for key in by_name):
        return public_columns(model, n_features, None, None)
    unnamed = [f"column {j}" for j in range(n_features - len(by_name))]
    if len(by_name) + len(unnamed) != n_features:
        raise ValueError(
            f"n_features={n_features}: bounds and categories name {len(by_name)} columns"
        )
    kinds = [NUMBER] * len(by_name) + [FLAG if isinstance(model.bounds, dict) else NUMBER]
    kinds += kinds[-1:] * (n_features - len(kinds))
    return public_columns(model, n_features, by_name + unnamed, kinds[:n_features])


def expand(
    model: Any, columns: tuple[NumberColumn | Levels, ...], named: bool, strength: float
) -> Expansion:
    """Return the public features that columns become, by public numbers alone.

    Parameters
    ----------
    model : estimator
        Has ``interactions`` and ``monotonic_cst``.
    columns : tuple
        Columns.
    named : bool
        Whether they are those of data, in their order.
    strength : float
        See `skdpdyn.core.rules`.
    """
    tables = _lent(model)
    if tables is not None:
        return tables
    n_numbers = sum(isinstance(column, NumberColumn) for column in columns)
    full_levels = rules.full_levels(strength)
    if not rules.expands(strength, n_numbers):
        straight = tuple(
            replace(column, scales=("linear",)) if isinstance(column, NumberColumn) else column
            for column in columns
        )
        return Expansion(straight, 0, 1.0, full_levels=full_levels)
    plain = Expansion(columns, 1, 1.0)
    learns = rules.buys_distributions(strength, n_numbers)
    n_scales = sum(plain.n_scales(column) for column in columns) + learns * n_numbers
    n_terms = rules.cosines_of_curves(strength, n_numbers, n_scales)
    decay = rules.decay_of_cosines(strength, n_numbers)
    expansion = Expansion(columns, n_terms, decay, full_levels=full_levels)
    if learns:
        expansion = expansion.with_uniform_distributions()
    orders = rules.orders_of_products(strength, n_numbers)
    pairs = _pairs(model, columns, named)
    if not pairs:
        return expansion
    if not is_auto(model.interactions):
        asked = replace(expansion, pairs=pairs, order=max(orders, default=2))
        if asked.n_products > _MOST_PRODUCTS:
            raise ValueError(
                f"interactions={quoted(model.interactions)} make {asked.n_products} products of "
                f"levels and numbers: at most {_MOST_PRODUCTS} fit in memory. Leave out pairs of "
                "columns of many levels, or list fewer levels in categories"
            )
        finer = drawn_finely(asked, strength)
        return finer if finer.is_mixed else asked
    rich = (replace(expansion, pairs=pairs, order=order) for order in orders)
    return next((richer for richer in rich if richer.is_mixed), expansion)


class FreePairs(NamedTuple):
    """Pairs of columns that a look chooses from, and the largest number that it keeps."""

    pairs: tuple[tuple[int, int], ...]
    most: int


def candidates_of(
    model: Any, expansion: Expansion, strength: float, n_samples: int, is_bounded: bool
) -> FreePairs | None:
    """Return the pairs of columns that a look chooses from, by public numbers; None: none looks."""
    columns = expansion.columns
    asks = is_number_of(model.interactions)
    most = int(model.interactions) if asks else rules.MOST_PAIRS
    if most < 0:
        raise ValueError(f"interactions={most}: a number of pairs must be >= 0")
    if not (asks or is_auto(model.interactions)) or _lent(model) is not None:
        return None
    pairs = _free_pairs(model, columns)
    least = min(strength, n_samples)
    if asks:
        pays = least >= rules.LEAST_LOOKED_AT * len(columns)
    else:
        pays = rules.looks(least, len(columns), is_bounded)
    pays &= rules.expands(strength, expansion.n_numbers)
    return FreePairs(pairs, most) if pairs and most and pays else None


def names_pairs(interactions: Any) -> bool:
    """Return whether pairs are asked for by name: a fit has these, whatever it learns."""
    return interactions is not None and not (is_auto(interactions) or is_number_of(interactions))


def is_number_of(interactions: Any) -> bool:
    """Return whether so many pairs are asked for, in place of their names."""
    return isinstance(interactions, (int, np.integer)) and not isinstance(interactions, bool)


def drawn_finely(
    expansion: Expansion, strength: float, parts: Sequence[float] | None = None
) -> Expansion:
    """Return the expansion with each pair drawn as finely as records allow.

    Parameters
    ----------
    expansion : Expansion
        Tables.
    strength : float
        See `skdpdyn.core.rules`.
    parts : sequence of float or None, default=None
        Part of the products that each pair may have. None: all alike.
    """
    n_pairs = len(expansion.pairs)
    fine = []
    for k, part in enumerate(parts or [1 / n_pairs] * n_pairs):
        room = min(rules.MOST_FINE, rules.fine_products(strength) * part)
        for order in (*rules.FINE_ORDERS, 0):
            finer = replace(expansion, fine=tuple(order * (k == other) for other in range(n_pairs)))
            if order <= expansion.order or finer.n_products_of(k) <= room:
                fine.append(order if order > expansion.order else 0)
                break
    return replace(expansion, fine=tuple(fine) if any(fine) else ())


def _lent(model):
    """Return the tables of the additive model that a fit starts from; None: it starts afresh."""
    if model.start is None:
        return None
    tables = getattr(model.start, "expansion_", None)
    if isinstance(tables, Expansion):
        return tables
    raise ValueError(
        f"start={quoted(model.start)} must be a fitted additive model of skdpdyn, which lends its "
        "tables and its map of rows, or None. clone() takes a model's fit away: pass "
        "FrozenEstimator(model) of scikit-learn"
    )


def _as_lent(model, columns, names):
    """Return the columns of the start, or raise unless these are alike."""
    tables = _lent(model)
    if tables is None:
        return columns
    start_names = getattr(model.start, "feature_names_in_", names)
    n_columns = len(columns)
    pairs = zip(columns, tables.columns, strict=False)
    for same, difference in (
        (names is None or list(names) == list(start_names), "other columns than X"),
        (n_columns == len(tables.columns), "another number of columns than X"),
        (all(_alike(*pair) for pair in pairs), "other bounds or categories"),
        (monotonic(model, n_columns) == monotonic(model.start, n_columns), "another monotonic_cst"),
    ):
        if not same:
            raise ValueError(f"start has {difference}: pass what it was fitted with")
    return tables.columns


def _alike(column, lent):
    if isinstance(column, NumberColumn):
        ends = (column.low, column.high), (getattr(lent, "low", None), getattr(lent, "high", None))
        if not isinstance(lent, NumberColumn) or column.shared not in (None, lent.shared):
            return False
        return isinstance(column, OpenNumbers) or ends[0] == ends[1]
    return column == lent or (is_open(column) and isinstance(lent, Levels))


def _pairs(model, columns, named):
    """Return the pairs of columns that are multiplied, where records are many enough."""
    if model.interactions is None or is_number_of(model.interactions):
        return ()
    every = _free_pairs(model, columns)
    pairs = tuple(pair for pair in every if all(isinstance(columns[j], NumberColumn) for j in pair))
    if is_auto(model.interactions):
        return pairs
    # of columns in some order: of numbers
    return _asked_pairs(model, columns) if named else pairs[: len(model.interactions)]


def _free_pairs(model, columns):
    """Return all pairs of columns whose curves may go up and down."""
    fixed = monotonic(model, len(columns))
    return tuple(combinations([j for j in range(len(columns)) if j not in fixed], 2))


def _place_of(model, key, parameter):
    """Return the number of a column that is given by its name or number."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None and key in list(names):
        return list(names).index(key)
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and key >= 0:
        return int(key)
    raise ValueError(f"{parameter} names the column {key!r}, which is not one of X")


def _asked_pairs(model, columns):
    free = {*range(len(columns))} - {*monotonic(model, len(columns))}
    pairs: list[tuple[int, int]] = []
    for pair in model.interactions:
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(
                f"interactions={quoted(model.interactions)} must be 'auto', None, a number of "
                "pairs, or pairs of columns"
            )
        i, j = (_place_of(model, key, "interactions") for key in pair)
        place = min(i, j), max(i, j)
        if i == j or not {i, j} <= free or place in pairs:
            raise ValueError(
                f"interactions: {tuple(pair)!r} must be two columns, neither of them in "
                "monotonic_cst, and no other pair of the same two"
            )
        pairs.append(place)
    return tuple(pairs)


def monotonic(model: Any, n_features: int) -> dict[int, int]:
    """Return the columns whose curves may only rise, 1, or fall, -1.

    Parameters
    ----------
    model : estimator
        Has ``monotonic_cst``.
    n_features : int
        Number of columns.
    """
    signs = model.monotonic_cst
    if signs is None:
        return {}
    if isinstance(signs, dict):
        if not all(isinstance(key, (int, np.integer)) for key in signs) and not hasattr(
            model, "feature_names_in_"
        ):
            return {}  # before a fit, columns have no names
        items = [(_place_of(model, key, "monotonic_cst"), sign) for key, sign in signs.items()]
    else:
        of_each = np.ndim(signs) == 1 and len(signs) == n_features
        items = list(enumerate(signs)) if of_each else [(n_features, 0)]
    if any(sign not in (-1, 0, 1) for _, sign in items) or any(j >= n_features for j, _ in items):
        raise ValueError(
            f"monotonic_cst={quoted(signs)} must be a dict of columns, or one number a column, "
            "each of 1, 0 and -1"
        )
    return {j: int(sign) for j, sign in items if sign}


def check_monotonic(model: Any, columns: Sequence[Any], named: bool, n_outputs: int) -> None:
    """Raise, before records train, if ``monotonic_cst`` asks for what has no order.

    Parameters
    ----------
    model : estimator
        Has ``monotonic_cst``.
    columns : sequence of NumberColumn or Levels
        Columns.
    named : bool
        Whether they are those of data, in their order.
    n_outputs : int
        Number of raw predictions of a row.
    """
    signs = monotonic(model, len(columns))
    if signs and n_outputs > 1:
        raise ValueError(
            "monotonic_cst needs two classes, or a regression: pass classes=[...] of two, or leave "
            "it out"
        )
    names = getattr(model, "feature_names_in_", range(len(columns)))
    levels = [names[j] for j in signs if named and isinstance(columns[j], Levels)]
    if levels:
        raise ValueError(
            f"monotonic_cst names {levels}, whose categories have no order: number them, 1, 2, 3, "
            "in the column itself, or leave them out"
        )


# --- rows -----------------------------------------------------------------------------------------


class Table:
    """Columns as they were read, which become cells once their facts are complete.

    Parameters
    ----------
    columns : tuple
        Their public facts, of which some may be open.
    n_rows : int
        Number of rows.
    portions : callable
        Of a number of rows at a time, or None for many, what yields places of rows, in order, and a
        function of a column's number that returns its values there.
    n_threads : int, default=1
        Threads that make cells.
    """

    def __init__(
        self,
        columns: tuple[NumberColumn | Levels, ...],
        n_rows: int,
        portions: Callable[[int | None], Iterator[tuple[slice, Callable[[int], Any]]]],
        n_threads: int = 1,
    ) -> None:
        self.columns = columns
        self.shape = (n_rows, len(columns))
        self._portions = portions
        self._n_threads = n_threads
        self._seen: dict[int, tuple[Levels, np.ndarray]] = {}  # so that text is read once

    def __len__(self) -> int:
        return self.shape[0]

    def portions(self) -> Iterator[tuple[slice, Callable[[int], np.ndarray]]]:
        """Yield places of rows, in order, and a function that returns a column's numbers there."""
        for part, take in self._portions(None):
            yield part, partial(self._numbers, take)

    def _numbers(self, take, j):
        return quoting_no_records(lambda: numbers_in(take(j), self.columns[j].kind))

    def seen(self, columns: dict[int, NumberColumn | Levels]) -> list[tuple[Levels, np.ndarray]]:
        """Return what occurs in columns, by their number, which is private, and each row's cell.

        These are levels, or numbers within the bounds of the column.
        """
        ((_, take),) = self._portions(None)
        found = {}
        for j, column in columns.items():
            if isinstance(column, NumberColumn):
                values = self._numbers(take, j)
                found[j] = levels_in(np.clip(values, column.low, column.high))
            else:
                found[j] = self._seen[j] = quoting_no_records(lambda j=j: levels_in(take(j)))
        return [*found.values()]

    def coded(self, expansion: Expansion) -> Coded:
        """Return rows as cells of tables."""
        codes = np.empty(self.shape, expansion.code_dtype)

        def write(portion):
            part, take = portion
            for j, column in enumerate(expansion.columns):
                codes[part, j] = self._codes(j, column, part, take)

        if self._n_threads > 1:
            list(in_threads(write, self._portions(_AT_ONCE), self._n_threads))
        else:
            for portion in self._portions(_ALONE):
                write(portion)
        return Coded(codes, expansion)

    def _codes(self, j, column, part, take):
        """Return cells of a column, by the levels that were seen in it where these were read."""
        if j not in self._seen:
            return quoting_no_records(lambda: column.codes(take(j)))
        levels, places = self._seen[j]
        other = column.n_cells - 2
        cells = [column.places.get(key_of(level), other) for level in levels.levels]
        return np.array([*cells, other, other + 1])[places[part]]


def read_cells(model: Any, X: Any) -> Coded:
    """Return rows as cells of a fitted model, or raise an error that quotes no record.

    Parameters
    ----------
    model : estimator
        Has ``bounds``, ``categories`` and ``expansion_``.
    X : array-like of shape (n_rows, n_features)
        Rows, with NaN or None where values are missing.
    """
    frame = read_frame(model, X, reset=False)
    columns = model.expansion_.columns
    portions = partial(of_memory, frame.n_rows, frame.take)
    return Table(columns, frame.n_rows, portions).coded(model.expansion_)


def read_table(model: Any, X: Any) -> Table:
    """Return the columns of data in memory with their known facts, for a fit.

    Parameters
    ----------
    model : estimator
        Has ``bounds`` and ``categories``.
    X : array-like of shape (n_rows, n_features)
        Rows, with NaN or None where values are missing.
    """
    frame = read_frame(model, X, reset=True)
    names = getattr(model, "feature_names_in_", None)
    columns = public_columns(model, model.n_features_in_, names, frame.kinds)
    columns = _as_lent(model, columns, names)
    n_threads = threads_of(model.n_jobs, frame.n_rows * len(columns))
    portions = partial(of_memory, frame.n_rows, frame.take)
    return Table(columns, frame.n_rows, portions, n_threads)


def of_memory(
    n_rows: int, take: Callable[[slice, int], Any], at_once: int | None
) -> Iterator[tuple[slice, Callable[[int], Any]]]:
    """Yield places of rows in memory, and a function that takes a column's values there."""
    step = n_rows if at_once is None else at_once
    for first in range(0, n_rows, step):
        part = slice(first, first + step)
        yield part, partial(take, part)


def streamed_table(model: Any, source: StreamedRows) -> tuple[Table, np.ndarray]:
    """Return the columns of a source of rows, and its targets as they are.

    Parameters
    ----------
    model : estimator
        Has ``bounds`` and ``categories``, and knows the columns of a fit.
    source : StreamedRows
        Rows of numbers.
    """
    names = source.feature_names
    (n_rows, n_features) = source.shape
    columns = _as_lent(model, public_columns(model, n_features, names, None), names)
    if any(map(is_counted, columns)):
        raise ValueError(
            "categories='auto' or 'shared': levels are not looked for in rows that are read in "
            "order. Pass the rows as X and y"
        )
    targets = [y.values[y.codes] if isinstance(y, CodedLabels) else y for _, y in source.portions()]
    n_read = sum(map(len, targets))
    if n_read != n_rows:
        source.refuse_number(None if n_read > n_rows else n_read)
    return Table(columns, n_rows, partial(_of_source, source)), np.concatenate(targets)


def _of_source(source, _):
    """Yield places of the rows of a source, and a function that takes a column's values there."""
    first = 0
    for X, _ in source.portions():
        yield slice(first, first + len(X)), lambda j, X=X: X[:, j].astype(np.float64)
        first += len(X)


def kept(
    column: NumberColumn | Levels, levels: Levels, counts: np.ndarray
) -> NumberColumn | Levels:
    """Return a column of those levels whose counts are not 0: others are "other".

    Of numbers the commonest are shared values; others are on its curve.
    """
    if isinstance(column, Levels):
        return Levels(tuple(compress(levels.levels, counts)))
    commonest = np.argsort(-counts, kind="stable")[: rules.MOST_SHARED]
    return replace(
        column, shared=tuple(float(levels.levels[k]) for k in np.sort(commonest) if counts[k])
    )
