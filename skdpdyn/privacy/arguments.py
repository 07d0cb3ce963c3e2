"""Checks of arguments that no record has: pairs, and objects of others."""

import inspect
import math
from typing import Any

import numpy as np

from skdpdyn.privacy.checks import as_float, quoted


def has_own(item: Any, name: str) -> bool:
    """Return whether an object has an attribute itself: one that it hands on is of another.

    A wrapper whose ``__getattr__`` asks what is inside shows what that has spent, and may have done
    anything else with the records.
    """
    missing = object()
    return inspect.getattr_static(item, name, missing) is not missing and hasattr(item, name)


def checked_pair(value: Any, name: str, others: str = "", largest: float = math.inf) -> Any:
    """Return the ends of an interval between numbers below ``largest``, or raise for another."""
    is_pair = isinstance(value, (tuple, list, np.ndarray)) and np.shape(value) == (2,)
    low, high = map(as_float, value) if is_pair else (0.0, 0.0)
    if not -largest < low < high < largest or math.isinf(high - low):
        raise ValueError(
            f"{name}={quoted(value)} must be {others}a pair (low, high) of finite numbers "
            "with low < high"
        )
    return low, high
