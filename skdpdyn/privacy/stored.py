"""Types that JSON can hold: each record, guarantee and curve registers itself by name."""

from typing import TypeVar

_Kind = TypeVar("_Kind", bound=type)

TYPES: dict[str, type] = {}
"""All that can be stored, by name."""

_PARTS: set[type] = set()


def stored(kind: _Kind) -> _Kind:
    """Register a record or guarantee, a frozen dataclass, for `to_json` and `from_json`.

    Parameters
    ----------
    kind : type
        The class; its fields are plain values, tuples, arrays, or other registered classes.

    Returns
    -------
    type
        The class itself: for use as a decorator.

    Raises
    ------
    ValueError
        If another class is registered under that name: a document could be read as the wrong one.
    """
    registered = TYPES.setdefault(kind.__name__, kind)
    if registered is not kind:
        raise ValueError(
            f"{kind.__name__} is registered already, by {registered.__module__}: give the class "
            "another name"
        )
    return kind


def stored_part(kind: _Kind) -> _Kind:
    """Register a class that is stored inside a guarantee only: a curve, say.

    Parameters
    ----------
    kind : type
        The class, as in `stored`.

    Returns
    -------
    type
        The class itself: for use as a decorator.
    """
    _PARTS.add(kind)
    return stored(kind)


def is_whole(value: object) -> bool:
    """Return whether a value is a registered record or guarantee, rather than a part of one."""
    return TYPES.get(type(value).__name__) is type(value) and type(value) not in _PARTS
