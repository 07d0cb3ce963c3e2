"""Checks of parameters: how values are read, and refused by name. Other packages may use them."""

import math
from numbers import Integral, Real

import numpy as np

EXTREME = 1e140  # beyond it, or below its inverse, squares leave the range of double precision
MAX_STEPS = 10**18  # no computer runs so many


def as_float(value):
    """Return a real number as a float, infinite where floats end; NaN for all else, bools included."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def checked(value, name, valid, requirement):
    """Return the value as an array, or raise an error that names it; NaN is never valid."""
    array = np.asarray(value)
    array = array.astype(float) if array.dtype.kind in "iuf" else np.asarray(as_float(value))
    if not np.all(valid(array)):  # also refuses NaN
        raise ValueError(f"{name}={value!r} must be {requirement}")
    return array


def checked_number(value, name, valid, requirement):
    """Return a number as a float, or raise an error that names it; NaN is never valid."""
    number = as_float(value)
    if not valid(number) or (math.isinf(number) and isinstance(value, Integral)):
        raise ValueError(f"{name}={value!r} must be {requirement}")
    return number


def checked_probability(value):
    """Return a sampling probability, in (0, 1]."""
    return checked_number(value, "sampling_probability", lambda x: 0 < x <= 1, "in (0, 1]")


def is_named(value, *names):
    """Whether a parameter is one of these names, which arrays cannot be compared with."""
    return isinstance(value, str) and value in names


def is_auto(value):
    """Whether a parameter is "auto"."""
    return is_named(value, "auto")


def checked_choice(value, name, choices, others=""):
    """One of several names, or an error that lists them, after ``others`` that the caller has ruled out."""
    if not is_named(value, *choices):
        *most, last = (repr(str(choice)) for choice in choices)
        raise ValueError(f"{name}={value!r} must be {others}{', '.join(most)} or {last}")
    return value


def checked_flag(value, name):
    """Return True or False; a text or a number is neither."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} must be True or False")
    return bool(value)


def checked_count(value, name, least=1, largest=math.inf):
    """Return an integer that is not too small or large; neither a float nor a bool is one."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= value <= largest:
        raise ValueError(
            f"{name}={value!r} must be an integer >= {least}"
            + (f" and <= {largest}" if largest < math.inf else "")
        )
    return int(value)


def checked_epsilon(epsilon):
    """One epsilon or many, >= 0."""
    return checked(epsilon, "epsilon", lambda x: x >= 0, "a number >= 0")


def checked_delta(delta):
    """One delta or many, in [0, 1]."""
    return checked(delta, "delta", lambda x: (x >= 0) & (x <= 1), "in [0, 1]")


def checked_rate(fpr):
    """One rate or many, in [0, 1]."""
    return checked(fpr, "fpr", lambda x: (x >= 0) & (x <= 1), "in [0, 1]")


def checked_order(order):
    """One order or many, > 1; a float if it is one."""
    order = checked(order, "order", lambda x: x > 1, "a number > 1")
    return order if order.ndim else float(order)
