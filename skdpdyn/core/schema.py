"""Public facts of a table in one value: a schema, from a codebook and never from the data."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from skdpdyn.privacy.checks import is_auto, quoted
from skdpdyn.privacy.display import code_span

_IS_WHOLE = re.compile(r"-?\d{1,18}").fullmatch


@dataclass(frozen=True)
class Schema:
    """Public facts of a table, for all that take ``schema`` in place of single parameters.

    Facts that are None, or of columns that a dict leaves out, are bought where "auto" says so. A
    parameter of an estimator that is given itself goes first.

    Parameters
    ----------
    bounds : dict, pairs or None, default=None
        Bounds of the columns of numbers.
    categories : dict or None, default=None
        Levels of the other columns.
    classes : sequence or None, default=None
        Labels of classes.
    target_bounds : tuple (low, high) or None, default=None
        Bounds of targets that are numbers.

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

    def __post_init__(self):
        for field in fields(self):
            object.__setattr__(self, field.name, _plain(getattr(self, field.name)))

    @classmethod
    def from_codebook(cls, codebook: Any, target: str | None = None) -> "Schema":
        """Read a codebook: a line for each column, with its bounds or its levels.

        Parameters
        ----------
        codebook : DataFrame, str or Path
            A frame, or a CSV file, with the columns ``name``, ``low``, ``high`` and ``levels`` and
            no others: of numbers low and high, of text the levels, with "|" between them.
        target : str or None, default=None
            Name of the target, if it has a line: its levels are the classes.

        Returns
        -------
        Schema

        Raises
        ------
        ValueError
            If it is no codebook.
        """
        import pandas  # slow to load

        if isinstance(codebook, str | Path):
            codebook = pandas.read_csv(codebook, dtype={"name": str, "levels": str})
        if list(getattr(codebook, "columns", ())) != ["name", "low", "high", "levels"]:
            raise ValueError(
                "codebook must be a frame or a CSV file with the columns name, low, high and "
                "levels, a line for each column. It is public: do not pass the data, nor what "
                "follows from them"
            )
        facts: dict[str, dict[Any, Any]] = {"bounds": {}, "categories": {}}
        for name, low, high, levels in codebook.itertuples(index=False):
            has_levels = isinstance(levels, list | tuple) or bool(pandas.notna(levels))
            again = name in [*facts["bounds"], *facts["categories"]]
            if again or pandas.notna([low, high]).any() == has_levels:
                raise ValueError(
                    f"codebook: {name!r} needs one line, with low and high or with levels"
                )
            facts["categories" if has_levels else "bounds"][name] = (
                _levels_of(levels) if has_levels else (low, high)
            )
        return cls(
            classes=facts["categories"].pop(target, None),
            target_bounds=facts["bounds"].pop(target, None),
            **{kind: of_columns or None for kind, of_columns in facts.items()},
        )

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
        facts = asdict(self).items()  # JSON's keys are text
        of_dicts = {k: {"pairs": list(v.items())} for k, v in facts if isinstance(v, dict)}
        text = json.dumps(dict(facts) | of_dicts)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, text: str) -> "Schema":
        """Return the schema of a JSON document.

        Parameters
        ----------
        text : str
            What `to_json` has returned.

        Returns
        -------
        Schema
        """
        facts = json.loads(text).items()
        return cls(**{k: dict(v["pairs"]) if isinstance(v, dict) else v for k, v in facts})


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
    return {field.name: getattr(schema, field.name) for field in fields(schema)}


def said_of(fact: str, given: Any) -> list[str]:
    """Return a report's line on facts of columns that were given; no line where none were."""
    if not isinstance(given, Mapping):
        return [] if given is None or is_auto(given) else [f"the columns' {fact}"]
    named = ", ".join(code_span(column) for column, value in given.items() if not is_auto(value))
    return [f"{fact} of the columns {named}"] * bool(named)


def _plain(fact):
    """Return a fact as Python's own numbers, tuples and dicts, which compare and travel."""
    if isinstance(fact, Mapping):
        return {_plain(key): _plain(value) for key, value in fact.items()}
    fact = getattr(fact, "categories", fact)  # of a type with explicit levels
    if hasattr(fact, "tolist"):
        fact = fact.tolist()
    return tuple(map(_plain, fact)) if isinstance(fact, list | tuple | range) else fact


def _levels_of(text):
    """Return the levels that a line of a codebook lists; numbers, if all are whole ones."""
    levels = [part.strip() for part in text.split("|")] if isinstance(text, str) else list(text)
    return [*map(int, levels)] if all(map(_IS_WHOLE, map(str, levels))) else levels
