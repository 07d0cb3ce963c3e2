"""Facts of a table in one value: a schema, from a codebook or a release, never from the data.

Each fact may have been released before: then the schema carries the release as its source.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from skdpdyn.core.columns import TEXT, TYPES, is_date, number_of, shown_date, value_of
from skdpdyn.core.expansion import Levels
from skdpdyn.privacy.checks import is_auto, is_named, quoted
from skdpdyn.privacy.display import code_span
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.serialization import from_dict, to_dict

_IS_WHOLE = re.compile(r"-?\d{1,18}").fullmatch
_CODEBOOK = ["name", "low", "high", "levels"]
_ARE_PLAIN = float, int, bool, str, type(None)
_FACTS = "bounds", "categories", "classes", "target_bounds"
SHARED = "shared"
"""In place of levels: values that many records share are levels of a column of numbers."""


@dataclass(frozen=True)
class Source:
    """A release that a fit was given, whole or in part: a model, a map of rows, or facts.

    Parameters
    ----------
    label : str
        The parameter, and the class of the model.
    guarantee : Guarantee or None
        What the release cost by itself. None: it has no guarantee.
    leaks : tuple of str, default=()
        What the guarantee does not cover.
    key : str, default=""
        Checksum of what was released, by which it is known again.
    """

    label: str
    guarantee: Guarantee | None
    leaks: tuple[str, ...] = ()
    key: str = ""


class ReleasedTuple(tuple):
    """A released tuple with its sources. Copies keep the sources, derived values do not."""

    sources: tuple[Source, ...] = ()


class ReleasedDict(dict):
    """A dict that was released, with its sources."""

    sources: tuple[Source, ...] = ()


class ReleasedArray(np.ndarray):
    """A released array with its sources. Copies keep the sources, derived values do not.

    Examples
    --------
    >>> import copy
    >>> import numpy as np
    >>> from skdpdyn.core.schema import Source, released
    >>> classes = released(np.array([0, 1]), (Source("a fit", None),))
    >>> classes, [source.label for source in copy.deepcopy(classes).sources]
    (array([0, 1]), ['a fit'])
    >>> (classes + 1).sources
    ()
    """

    sources: tuple[Source, ...] = ()

    def __new__(cls, values: Any) -> "ReleasedArray":
        """Return the array, of no source: see `released`."""
        return np.asarray(values).view(cls)

    def __deepcopy__(self, memo: Any) -> Any:
        return released(np.array(self), self.sources)

    def __copy__(self) -> Any:
        return released(np.array(self), self.sources)

    def __reduce__(self) -> Any:
        return released, (np.array(self), self.sources)

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def released(value: Any, sources: tuple[Source, ...]) -> Any:
    """Return a tuple, a dict, levels or an array with the releases that it came from.

    All else stays as it is. Whoever is given it as a parameter finds them, see
    `skdpdyn.training.sources`.
    """
    if not sources:
        return value
    kept: Any
    if isinstance(value, Levels):
        return replace(value, levels=released(value.levels, sources))
    if isinstance(value, np.ndarray):
        kept = value.view(ReleasedArray)
    elif isinstance(value, tuple):
        kept = ReleasedTuple(value)
    elif isinstance(value, dict):  # and what it has of each column
        kept = ReleasedDict({key: released(fact, sources) for key, fact in value.items()})
    else:
        return value
    kept.sources = sources
    return kept


@dataclass(frozen=True)
class Schema:
    """Public facts of a table, which replace single parameters of estimators and functions.

    Pass it as ``schema``. Facts that are None are bought if the parameter of the estimator is
    "auto". The same is true of columns that a dict does not contain. A parameter that is passed to
    the estimator itself takes precedence over the schema.

    Parameters
    ----------
    bounds : dict, pairs or None, default=None
        Bounds of numeric columns, and of columns of dates: dates of any library, or text in ISO
        format.
    categories : dict or None, default=None
        Levels of each categorical column. For a numeric column: ``{"shared": [0, 7688]}``, with a
        list of values that occur in many records.
    classes : sequence or None, default=None
        Class labels.
    target_bounds : tuple (low, high) or None, default=None
        Bounds of numeric targets.
    types : dict or None, default=None
        Types of columns: "number", "date", "flag" (boolean) or "text". Needed for columns whose
        dtype differs from the type. Cells of objects or text are then converted one by one. A cell
        that cannot be converted counts as missing.
    sources : tuple of Source, default=()
        Releases that the facts come from. `skdpdyn.complete_schema` sets them, and so does a fitted
        model in its ``schema_``. A fit with this schema lists these releases and their leaks. Facts
        without a source count as public; you are responsible for that.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression, Schema
    >>> schema = Schema(bounds=(0, 10), classes=[0, 1])
    >>> X = np.random.default_rng(0).uniform(0, 10, (5000, 1))
    >>> model = PrivateLogisticRegression(schema=schema).fit(X, (X[:, 0] > 5).astype(int))
    >>> len(model.bought_), Schema.from_json(schema.to_json()) == schema
    (0, True)
    """

    bounds: Any = None
    categories: Any = None
    classes: Any = None
    target_bounds: Any = None
    types: Any = None
    sources: tuple[Source, ...] = ()

    def __post_init__(self):
        facts = {name: getattr(self, name) for name in _FACTS}
        of_facts = [source for fact in facts.values() for source in sources_in(fact)]
        sources = tuple(dict.fromkeys((*self.sources, *of_facts)))
        object.__setattr__(self, "sources", sources)
        for name, fact in facts.items():
            object.__setattr__(self, name, released(_plain(fact), sources))
        object.__setattr__(self, "types", _plain(self.types))
        given = self.types
        is_dict = given is None or isinstance(given, dict)
        if not is_dict or any(kind not in TYPES for kind in (given or {}).values()):
            raise ValueError(f"types={quoted(given)} must be a dict of columns, each of {TYPES}")

    def __or__(self, other: "Schema") -> "Schema":
        """Return the facts and sources of both schemas; facts of the left one take precedence.

        Raises
        ------
        ValueError
            If the sources have different neighbouring relations or units.
        """
        facts: dict[str, Any] = {
            name: _either(getattr(self, name), getattr(other, name)) for name in _FACTS
        }
        sources = tuple(dict.fromkeys((*self.sources, *other.sources)))
        types: Any = _either(self.types, other.types)
        merged = Schema(**facts, types=types, sources=sources)
        for source in sources:
            if source.guarantee is not None:
                check_relation(merged, source.guarantee.adjacency, source.guarantee.unit)
        return merged

    @classmethod
    def from_codebook(cls, codebook: Any, target: str | None = None) -> "Schema":
        """Read a codebook, which has a line with bounds or levels for each column.

        Parameters
        ----------
        codebook : DataFrame, str or Path
            A frame or a CSV file with the columns ``name``, ``low``, ``high``, ``levels`` and
            optionally ``type``, and no others. Numbers and dates have ``low`` and ``high``. Text
            columns have ``levels``, separated by "|". For types see `Schema`.
        target : str or None, default=None
            Name of the target, if it has a line. Its levels are the classes.

        Returns
        -------
        Schema

        Raises
        ------
        ValueError
            If it is not a codebook.
        """
        import pandas  # slow to load

        if isinstance(codebook, str | Path):
            codebook = pandas.read_csv(codebook, dtype={"name": str, "levels": str})
        columns = list(getattr(codebook, "columns", ()))
        if sorted(map(str, {*columns} - {"type"})) != sorted(_CODEBOOK):
            raise ValueError(
                "codebook must be a frame or a CSV file with the columns name, low, high and "
                "levels, and if need be type, and no others, a line for each column. It is public: "
                "do not pass the data, nor what follows from them"
            )
        codebook = codebook[[*_CODEBOOK, *(["type"] * ("type" in columns))]]
        bounds: dict[Any, Any] = {}
        categories: dict[Any, Any] = {}
        types: dict[Any, Any] = {}
        for name, low, high, levels, *kind in codebook.itertuples(index=False):
            has_levels = isinstance(levels, list | tuple) or bool(pandas.notna(levels))
            has_bounds = bool(pandas.notna([low, high]).any())
            has_type = bool(pandas.notna(kind).any())
            again = name in {*bounds, *categories, *types}
            if again or has_bounds + has_levels + has_type == 0 or (has_bounds and has_levels):
                raise ValueError(
                    f"codebook: {name!r} needs one line, with low and high or with levels, or a "
                    "type alone"
                )
            if has_levels:
                categories[name] = _levels_of(levels)
            if has_bounds:
                bounds[name] = _end_of(low), _end_of(high)
            if has_type:
                types[name] = kind[0]
        classes = categories.pop(target, None)
        target_bounds = bounds.pop(target, None)
        types.pop(target, None)
        return cls(bounds or None, categories or None, classes, target_bounds, types or None)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return it as a JSON document; also write it to a file, if there is a path.

        Parameters
        ----------
        path : str, Path or None, default=None
            The file.

        Returns
        -------
        str
        """
        facts = {name: getattr(self, name) for name in (*_FACTS, "types")}
        of_dicts = {  # JSON's keys are text
            name: {"pairs": list(fact.items())}
            for name, fact in facts.items()
            if isinstance(fact, dict)
        }
        sources = [
            {**vars(source), "guarantee": to_dict(source.guarantee)} for source in self.sources
        ]
        text = json.dumps(facts | of_dicts | {"sources": sources})
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, text: str | Path) -> "Schema":
        """Return the schema of a JSON document.

        Parameters
        ----------
        text : str or Path
            What `to_json` has returned, or the path of the file that it has written.

        Returns
        -------
        Schema
        """
        if isinstance(text, Path) or not text.lstrip().startswith("{"):
            text = Path(text).read_text(encoding="utf-8")
        facts = json.loads(text)
        sources = [
            Source(
                source["label"],
                from_dict(source["guarantee"]),
                tuple(source["leaks"]),
                source["key"],
            )
            for source in facts.pop("sources", ())
        ]
        of_columns: dict[str, Any] = {
            name: dict(fact["pairs"]) for name, fact in facts.items() if isinstance(fact, dict)
        }
        return Schema(**facts | of_columns, sources=tuple(sources))


def sources_in(given: Any) -> list[Source]:
    """Return the releases that a schema, a fact or the facts of a dict of columns came from."""
    if isinstance(given, Levels):
        return sources_in(given.levels)
    of_columns = given.values() if isinstance(given, dict) else ()
    return [
        *getattr(given, "sources", ()),
        *(one for fact in of_columns for one in sources_in(fact)),
    ]


def apply_schema(model: Any) -> Any:
    """Set the facts of its schema on an estimator in place of "auto" and None, and return it."""
    for name, fact in facts_of(getattr(model, "schema", None)).items():
        value = getattr(model, name, ())
        if fact is not None and (value is None or is_auto(value)):
            setattr(model, name, fact)
    return model


def facts_of(schema: Any) -> dict[str, Any]:
    """Return the facts of a schema by their names; none of None."""
    if schema is None:
        return {}
    if not isinstance(schema, Schema):
        raise ValueError(f"schema={quoted(schema)} must be a skdpdyn.Schema, or None")
    facts = {name: getattr(schema, name) for name in _FACTS}
    if isinstance(schema.categories, dict):
        types = schema.types or {}
        facts["categories"] = {
            key: levels if is_asked(levels) or types.get(key) != TEXT else Levels(levels)
            for key, levels in schema.categories.items()
        }
    return facts


def is_asked(fact: Any) -> bool:
    """Return whether a fact is asked for, and not given."""
    return is_named(fact, "auto", SHARED)


def is_shared(levels: Any) -> bool:
    """Return whether shared values of a column of numbers are asked for, or given."""
    return is_named(levels, SHARED) or (isinstance(levels, Mapping) and [*levels] == [SHARED])


def types_of(schema: Any) -> dict[Any, str]:
    """Return the types of columns by a schema; none without one."""
    return dict(getattr(schema, "types", None) or {})


def check_relations(model: Any, adjacency: str, unit: str) -> None:
    """Refuse parameters of an estimator that hold facts of other neighbours, or another unit."""
    for name in ("schema", *_FACTS):
        check_relation(getattr(model, name, None), adjacency, unit, name)


def check_relation(given: Any, adjacency: str, unit: str, name: str = "schema") -> None:
    """Refuse facts that were released for other neighbours, or for another unit.

    Their cost and that of what follows from them would not add up.
    """
    for source in sources_in(given):
        cost = source.guarantee
        if cost is not None and (cost.adjacency, cost.unit) != (adjacency, unit):
            raise ValueError(
                f"{name}: its facts were released by {source.label}, under {cost.adjacency} of one "
                f"{cost.unit}, and this is under {adjacency} of one {unit}: complete it under the "
                "same, or write down facts that are public"
            )


def said_of(fact: str, given: Any) -> list[str]:
    """Return a report's line on facts of columns that were given; no line where none were."""
    if not isinstance(given, Mapping):
        return [] if given is None or is_auto(given) else [f"the columns' {fact}"]
    named = ", ".join(code_span(column) for column, value in given.items() if not is_asked(value))
    return [f"{fact} of the columns {named}"] * bool(named)


def _either(fact, other_fact):
    """Return a fact, or that of another schema where it is open; of columns all that either knows.

    "auto" and "shared" ask for a fact, and are none.
    """
    if isinstance(fact, dict) and isinstance(other_fact, dict):
        return other_fact | {key: _either(one, other_fact.get(key)) for key, one in fact.items()}
    is_open = fact is None or (is_asked(fact) and other_fact is not None)
    return other_fact if is_open else fact


def _plain(fact):
    """Return a fact as Python's own numbers, tuples and dicts, which compare and travel.

    Dates are text in ISO's form.
    """
    if type(fact) in _ARE_PLAIN:  # most are
        return fact
    if isinstance(fact, Mapping):
        return {_plain(key): _plain(value) for key, value in fact.items()}
    fact = getattr(fact, "categories", fact)  # of a type with explicit levels
    if not isinstance(fact, str) and is_date(fact):
        return shown_date(value_of(fact))
    if hasattr(fact, "tolist"):
        fact = list(fact) if np.ndim(fact) else fact.tolist()
    return tuple(map(_plain, fact)) if isinstance(fact, list | tuple | range) else fact


def _end_of(bound):
    """Return a bound that a line of a codebook has: text of a number, beside dates, as a number."""
    is_number = isinstance(bound, str) and math.isfinite(number_of(bound))
    return number_of(bound) if is_number else bound


def _levels_of(text):
    """Return the levels that a line of a codebook lists; numbers, if all are whole ones."""
    levels = [part.strip() for part in text.split("|")] if isinstance(text, str) else list(text)
    return [*map(int, levels)] if all(map(_IS_WHOLE, map(str, levels))) else levels
