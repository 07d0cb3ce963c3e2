"""Fields of records with their own checks, which run when a record is made.

``noise_multiplier: Positive`` is a float to a type checker; `Checked` reads the check beside it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import numpy as np

from skdpdyn.privacy.checks import (
    EXTREME,
    MAX_STEPS,
    as_floats,
    checked_choice,
    checked_count,
    checked_flag,
    checked_number,
    quoted,
)


@dataclass(frozen=True)
class Check:
    """A check of a value and its name: it returns the value to keep, or raises."""

    check: Callable[[Any, str], Any]
    words: str

    def __call__(self, value: Any, name: str) -> Any:
        """Return the value to keep."""
        return self.check(value, name)

    def __repr__(self) -> str:
        return self.words


def number(valid: Callable[[float], bool], requirement: str) -> Check:
    """Return the check of a number for which ``valid`` holds; it never does of NaN."""
    return Check(lambda value, name: checked_number(value, name, valid, requirement), requirement)


def count(least: int = 1, largest: int = MAX_STEPS) -> Check:
    """Return the check of an integer between two others."""
    return Check(
        lambda value, name: checked_count(value, name, least, largest), f"an integer >= {least}"
    )


def choice(*names: str, others: str = "") -> Check:
    """Return the check of one of several names."""
    words = " or ".join(map(repr, names))
    return Check(lambda value, name: checked_choice(value, name, names, others), words)


def _by_step(value: Any, name: str) -> Any:
    """Return a positive float, or a read-only array of positive floats."""
    array = np.array(as_floats(value))
    if not np.all((array > 0) & np.isfinite(array)):
        raise ValueError(f"{name}={quoted(value)} must be positive and finite")
    return _read_only(array) if array.ndim else float(array)


def _one_each(value: Any, name: str) -> tuple[float, ...]:
    """Return a tuple of positive floats."""
    numbers = _by_step(value, name)
    if np.ndim(numbers) != 1:
        raise ValueError(f"{name}={quoted(value)} must be a sequence of numbers")
    return tuple(numbers)


def _read_only(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    return value


Positive: TypeAlias = Annotated[float, number(lambda x: 0 < x < math.inf, "a finite number > 0")]
NonNegative: TypeAlias = Annotated[
    float, number(lambda x: 0 <= x < math.inf, "a finite number >= 0")
]
Cost: TypeAlias = Annotated[float, number(lambda x: x >= 0, "a number >= 0")]
Tame: TypeAlias = Annotated[
    float, number(lambda x: 0 <= x < EXTREME, f"a number >= 0 and < {EXTREME}")
]
Probability: TypeAlias = Annotated[float, number(lambda p: 0 < p <= 1, "in (0, 1]")]
Failure: TypeAlias = Annotated[float, number(lambda p: 0 <= p < 1, "in [0, 1)")]
Count: TypeAlias = Annotated[int, count()]
Flag: TypeAlias = Annotated[bool, Check(checked_flag, "True or False")]

Units: TypeAlias = Annotated[tuple[float, ...], Check(_one_each, "numbers > 0")]
BySteps: TypeAlias = Annotated[
    float | np.ndarray, Check(_by_step, "numbers > 0, one or one a step")
]


class Checked:
    """Base of frozen dataclasses: each field is checked, and set, in the order of the fields."""

    def __post_init__(self) -> None:
        for name, check, may_be_none in checks_of(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if not (may_be_none and value is None):
                object.__setattr__(self, name, check(value, name))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # a file has text where a field has one of an enum: check and convert, as __init__ does
        vars(self).update(state)
        self.__post_init__()


class Stepwise(Checked):
    """Records with values a step, which are compared by content."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("noise_multiplier", "step_size"):
            value = getattr(self, name)
            n_steps = self.n_steps  # type: ignore[attr-defined]
            if np.ndim(value) and value.shape != (n_steps,):
                raise ValueError(
                    f"{name} has shape {value.shape}: give a number or one value for each of the "
                    f"n_steps={n_steps} steps"
                )

    @property
    def _values(self) -> Any:
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return tuple(
            (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
            for value in values
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: _read_only(value) for name, value in state.items()})


@cache
def checks_of(kind: Any) -> tuple[tuple[str, Check, bool], ...]:
    """Return the fields of a class that have a check, with it, and whether they may be None."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        (field.name, hint.__metadata__[0], type(None) in get_args(hints[field.name]))
        for field in fields(kind)
        for hint in (hints[field.name], *get_args(hints[field.name]))
        if hasattr(hint, "__metadata__")
    )
