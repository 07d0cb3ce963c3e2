"""Records and guarantees as JSON, so that costs can be stored and checked later."""

import hashlib
import json
import math
from dataclasses import Field, fields
from typing import Any, NoReturn

import numpy as np

from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.stored import TYPES, is_whole

VERSION = 3
"""Version of the documents that `to_json` writes; those of another are refused."""
ROUNDING = 1e-9  # by which another machine's numbers may differ


def to_json(value: Any) -> str:
    """Return a record or guarantee as a JSON document; floats keep every bit.

    Parameters
    ----------
    value : record or Guarantee
        Object to store.

    Returns
    -------
    str

    Examples
    --------
    >>> from skdpdyn.privacy import GaussianDP, from_json, to_json
    >>> to_json(GaussianDP(0.5))
    '{"version": 3, "type": "GaussianDP", "mu": 0.5, "adjacency": "replace_one", "failure": 0.0, \
"unit": "record"}'
    >>> from_json(to_json(GaussianDP(0.5))) == GaussianDP(0.5)
    True
    """
    stored = to_dict(value)
    if not is_whole(value):
        raise ValueError(
            f"value is a {type(value).__name__} and must be a record or a guarantee: of others "
            "`to_dict` makes plain values"
        )
    return json.dumps({"version": VERSION, **stored}, allow_nan=False)


def from_json(text: str) -> Any:
    """Return the record or guarantee that `to_json` stored, checked like any other.

    Parameters
    ----------
    text : str
        The document.

    Returns
    -------
    record or Guarantee

    Raises
    ------
    ValueError
        If the document is not one, is of another version, names an unknown type, lacks a field, has
        one that is unknown or there twice, or holds a senseless value.

    Examples
    --------
    >>> from skdpdyn.privacy import Gaussian, from_json, to_json
    >>> from_json(to_json(Gaussian(2.0))).noise_multiplier
    2.0
    """
    if not isinstance(text, str | bytes | bytearray):
        raise ValueError(f"a document is a text, not of type {type(text).__name__}")
    try:
        stored = load_json(text)
        if isinstance(stored, dict):
            check_version(stored.pop("version", None), "version of the document")
        value = from_dict(stored)
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None
    if not is_whole(value):
        raise ValueError(f"the document holds no record or guarantee, but {value!r}")
    return value


def check_version(version: Any, name: str) -> None:
    """Raise unless documents of a version are read here."""
    if type(version) is not int or version != VERSION:
        raise ValueError(
            f"{name}={version!r} must be {VERSION}: read it with the version that wrote it"
        )


def load_json(text: str) -> Any:
    """Read a JSON document in which no name comes twice and no number is infinite.

    Parameters
    ----------
    text : str
        The document.

    Returns
    -------
    dict, list, str, float, int, bool or None

    Raises
    ------
    ValueError
        If it is no such document.
    """
    try:
        return json.loads(text, object_pairs_hook=_once_each, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None


def checksum(content: Any) -> str:
    """Return the SHA-256 of plain values in their canonical JSON form: names sorted, no spaces.

    Parameters
    ----------
    content : dict
        Nested dicts and lists of plain values.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _once_each(pairs: list[tuple[str, Any]]) -> Mechanism:
    """Return the dict of a JSON object, none of whose names may come twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"a name comes twice among {[name for name, _ in pairs]}")
    return dict(pairs)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number that to_json writes")


def to_dict(value: Any) -> Any:
    """Return nested dicts and lists with the content of `to_json`."""
    kind: Any = type(value)
    if TYPES.get(kind.__name__) is kind:
        names = [
            field.name
            for field in fields(value)
            if not (_is_optional(field) and getattr(value, field.name) == field.default)
        ]
        stored = {name: to_dict(getattr(value, name)) for name in names}
        return {"type": type(value).__name__, **stored}
    if isinstance(value, (tuple, list, np.ndarray)):
        return [
            to_dict(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)
        ]
    if isinstance(value, float) and not math.isfinite(value):
        return {"type": "float", "value": str(value)}
    if isinstance(value, float):
        return float(value)  # of numpy's, too
    if value is None or isinstance(value, (str, int)):
        return str(value) if isinstance(value, str) else value
    raise ValueError(
        f"{type(value).__name__} cannot be stored: only {sorted(TYPES)} and plain values can"
    )


def from_dict(stored: Any) -> Any:
    """Return the record or guarantee in nested dicts and lists."""
    if isinstance(stored, list):
        return tuple(from_dict(item) for item in stored)
    if not isinstance(stored, dict):
        return stored
    values = {name: from_dict(value) for name, value in stored.items() if name != "type"}
    kind = stored.get("type")
    if kind == "float" and values.get("value") in ("inf", "-inf", "nan"):
        return float(values["value"])
    if not isinstance(kind, str) or kind not in TYPES:
        raise ValueError(f"type={kind!r} is unknown: one of {sorted(TYPES)} can be read")
    return _built(kind, values)


def agree(value: Any, other: Any, tolerance: float) -> bool:
    """Return whether two plain values are equal, numbers up to a relative tolerance."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(
            agree(value[name], other[name], tolerance) for name in value
        )
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(
            agree(*pair, tolerance) for pair in zip(value, other, strict=True)
        )
    if type(value) in (int, float) and type(other) in (int, float):
        return math.isclose(value, other, rel_tol=tolerance)
    return type(value) is type(other) and value == other


def _built(kind: str, values: dict[str, Any]) -> Any:
    """Return the record or guarantee of a kind with these fields."""
    names = {field.name for field in fields(TYPES[kind])}
    optional = {field.name for field in fields(TYPES[kind]) if _is_optional(field)}
    # a default for what was lost could be another mechanism
    if not names - optional <= set(values) <= names:
        raise ValueError(
            f"not a stored {kind}: it has the fields {sorted(values)}, not {sorted(names)}"
        )
    try:
        built = TYPES[kind](**values)
    except (TypeError, ArithmeticError, AttributeError, CalibrationError) as error:
        # CalibrationError: beyond floating point
        raise ValueError(f"not a stored {kind}: {error}") from None
    filled = [
        name for name, value in values.items() if value is None and getattr(built, name) is not None
    ]
    if filled:
        raise ValueError(f"not a stored {kind}: {filled} must not be null")
    return built


def _is_optional(field: Field[Any]) -> bool:
    """Return whether a field is stored only if not at its default: it says how to compute."""
    return field.metadata.get("optional", False)
