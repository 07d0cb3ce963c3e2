"""Ranges of columns: the public map that clips values to them and brings them to [-1, 1]."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

LARGEST_POWER = {"float64": 1000, "float32": 100}
"""Powers of two that ends of ranges are at most, and their width at least the inverse of."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """Map each column from its range to [-1, 1]; values outside count as the nearer end.

    Parameters
    ----------
    low, high : ndarray of shape (n_features,)
        Ends of the ranges, the lower first; NaN where they are still to be bought.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.data.ranges import Ranges
    >>> ranges = Ranges(np.array([0.0, -4.0]), np.array([8.0, 4.0]))
    >>> ranges.mapped(np.array([[2.0, 5.0]])).tolist()
    [[-0.5, 1.0]]
    """

    low: np.ndarray
    high: np.ndarray

    def around_zero(self) -> "Ranges":
        """Return ranges that hold these and have 0 in their middle, for models of no intercept."""
        farthest = np.maximum(np.abs(self.low), np.abs(self.high))
        return Ranges(-farthest, farthest)

    @property
    def pairs(self) -> np.ndarray:
        """Return the ends, of shape (n_features, 2)."""
        return np.column_stack([self.low, self.high])

    @cached_property
    def middle(self) -> np.ndarray:
        """Middle of each range; halved before they are added, for sums of ends may overflow."""
        return self.low / 2 + self.high / 2

    @cached_property
    def half(self) -> np.ndarray:
        """Half the width of each range."""
        return self.high / 2 - self.low / 2

    def numbers(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Return the middle and the inverse of half the width, as kernels take them.

        Raises
        ------
        ValueError
            If they are beyond the precision of the rows.
        """
        with np.errstate(over="ignore"):
            numbers = self.middle.astype(dtype), (1 / self.half).astype(dtype)
        if not np.all(np.isfinite(numbers)):
            raise ValueError(f"bounds are too far apart, or too near, for {dtype} rows: rescale X")
        return numbers

    def mapped(self, X: np.ndarray) -> np.ndarray:
        """Return rows in [-1, 1], in the precision of X, as kernels map them when they load them.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows.
        """
        middle, factor = self.numbers(X.dtype)
        with np.errstate(over="ignore"):
            return np.clip((X - middle) * factor, -1, 1)

    def of_mapped(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return parameters of mapped rows, from those of rows within the ranges.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features)
            Coefficients.
        intercept : ndarray of shape (n_outputs,)
            Intercepts.
        """
        return coef * self.half, intercept + coef @ self.middle

    def of_values(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return parameters of rows within the ranges, from those of mapped rows."""
        coef = coef / self.half
        return coef, intercept - coef @ self.middle
