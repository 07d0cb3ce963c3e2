"""Checks of parameters: how values are read, and refused by name. Other packages may use them."""

import inspect
import math
from collections.abc import Callable
from functools import partial
from numbers import Integral, Number, Real
from os import PathLike
from typing import Any

import numpy as np

from skdpdyn.privacy._types import Array, Floats

_FEW = 4  # numbers and names that an error shows of a list
_LONGEST_TEXT = 100  # that an error shows
EXTREME = 1e140  # beyond it, or below its inverse, squares leave the range of double precision
MAX_STEPS = 10**18  # no computer runs that many steps


def as_float(value: Any) -> float:
    """Return a real number as a float, infinite if too large; NaN for all else, bools included."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def as_floats(value: Any) -> Array:
    """Return numbers as an array of floats; one NaN for all else, bools among numbers included."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        return np.asarray(as_float(value))
    if isinstance(value, list | tuple):
        each = np.array(value, dtype=object).ravel()
        if any(isinstance(item, bool | np.bool_) for item in each):
            return np.asarray(math.nan)
    with np.errstate(over="ignore"):
        return array.astype(float)


def checked_array(value: Any, name: str, valid: Callable[[Any], Any], requirement: str) -> Array:
    """Return the value as an array, or raise an error that names it; NaN is never valid."""
    array = as_floats(value)
    if not np.all(valid(array)):  # NaN is refused, too
        raise ValueError(f"{name}={quoted(value)} must be {requirement}")
    return array


def checked_number(value: Any, name: str, valid: Callable[[Any], Any], requirement: str) -> float:
    """Return a number as a float, or raise an error that names it; NaN is never valid."""
    number = as_float(value)
    if not valid(number) or (math.isinf(number) and isinstance(value, Integral)):
        raise ValueError(f"{name}={quoted(value)} must be {requirement}")
    return number


def quoted(value: Any) -> str:
    """Return a value as errors show it: numbers and names, if they are few; of others the type.

    A table, an array or a list that stands where a parameter should may hold records.
    """
    if _is_single(value):
        return repr(value)
    kind = type(value).__name__
    if isinstance(value, tuple | list | dict):
        few = isinstance(value, tuple | list) and len(value) <= _FEW and all(map(_is_single, value))
        return repr(value) if few or not value else f"a {kind} of length {len(value)}"
    shape = getattr(value, "shape", None)
    return f"a {kind} of shape {shape}" if isinstance(shape, tuple) else f"a {kind}"


def _is_single(value: Any) -> bool:
    """Return whether a value is a number, a short text, or the name of something public."""
    if isinstance(value, str | bytes):
        return len(value) <= _LONGEST_TEXT
    named = isinstance(value, type | PathLike) or inspect.isroutine(value)
    return named or value is None or isinstance(value, Number | np.generic)


def is_named(value: Any, *names: Any) -> bool:
    """Return whether a parameter is one of these names; an array never is."""
    return isinstance(value, str) and value in names


def is_auto(value: Any) -> bool:
    """Return whether a parameter is "auto"."""
    return is_named(value, "auto")


def checked_choice(value: Any, name: str, choices: Any, others: str = "") -> str:
    """Return one of several names, or raise an error that lists them after ``others``."""
    if not is_named(value, *choices):
        *most, last = (repr(str(choice)) for choice in choices)
        raise ValueError(f"{name}={quoted(value)} must be {others}{', '.join(most)} or {last}")
    return value


def checked_flag(value: Any, name: str, others: str = "") -> bool:
    """Return True or False; a text or a number is neither; ``others``: other allowed values."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={quoted(value)} must be {others}True or False")
    return bool(value)


def checked_count(
    value: Any, name: str, least: int = 1, largest: float = math.inf, others: str = ""
) -> int:
    """Return an integer that is not too small or large; neither a float nor a bool is one."""
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_count or not least <= value <= largest:
        raise ValueError(
            f"{name}={quoted(value)} must be {others}an integer >= {least}"
            + (f" and <= {largest}" if largest < math.inf else "")
        )
    return int(value)


# one number or many
checked_epsilon = partial(
    checked_array, name="epsilon", valid=lambda x: x >= 0, requirement="a number >= 0"
)
checked_delta, checked_rate = (
    partial(checked_array, name=name, valid=lambda x: (x >= 0) & (x <= 1), requirement="in [0, 1]")
    for name in ("delta", "fpr")
)


def checked_order(order: Floats) -> Any:
    """Return one order (a float) or many; raise unless all are > 1 and finite."""
    order = checked_array(order, "order", lambda x: (x > 1) & (x < math.inf), "a finite number > 1")
    return order if order.ndim else float(order)
