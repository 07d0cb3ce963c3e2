"""Logarithms of sums, precise where the numbers themselves would overflow or cancel."""

import math

import numpy as np

from skdpdyn.privacy._types import Array


def log_expm1(x: float) -> float:
    """Return log(e^x - 1), x > 0."""
    return x + math.log(-math.expm1(-x))


def log_mixture(share: float, exponent: Array, divisor: float = 1.0) -> Array:
    """Return log(1 + share / divisor (e^exponent - 1)), relatively precise near 0."""
    near = np.log1p(share * np.expm1(np.minimum(exponent, 30.0)) / divisor)
    with np.errstate(over="ignore"):
        log_ratio = np.log1p((divisor / share - 1) * np.exp(-np.maximum(exponent, 30.0)))
    far = exponent + math.log(share) - math.log(divisor) + log_ratio
    return np.where(exponent < 30.0, near, far)
