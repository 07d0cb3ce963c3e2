"""Raw predictions of linear models on dense rows: a row has one value in every place."""

import math
from dataclasses import dataclass

import numpy as np

from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.data.rows import ball_of
from skdpdyn.kernels.jit import aligned_empty
from skdpdyn.kernels.products import WIDE, compiled_predict

_NONE = np.empty(0)
_NO_MATRIX = np.empty((0, 0))
_AT_ONCE = 1 << 18  # numbers of X between two looks at interrupts


@dataclass(frozen=True, eq=False)
class Products:
    """Numbers of a linear model, as the pass over rows reads them.

    Parameters
    ----------
    coef : ndarray of shape (n_outputs, n_features)
        Coefficients of rows, or of columns in [-1, 1] if there are ranges.
    constant : ndarray of shape (n_outputs,)
        What is added to the products.
    ranges : tuple of two ndarray of shape (n_features,)
        The middle of each range and the inverse of half its width; empty without ranges.
    centre : ndarray of shape (n_features,)
        Centre of the map of rows; empty without a map.
    matrix : ndarray of shape (1, n_features) or (n_rows, n_features)
        The diagonal of the map, or the map, with an even number of rows.
    shift : ndarray of shape (n_outputs,)
        What the centre adds to the intercept.
    of_map : tuple of float
        ``radius``, infinite where no row is longer; ``norm``, ``shrink``, ``unit`` and ``full`` as
        in `skdpdyn.kernels.statistics.Ball`.
    """

    coef: np.ndarray
    constant: np.ndarray
    ranges: tuple[np.ndarray, np.ndarray]
    centre: np.ndarray
    matrix: np.ndarray
    shift: np.ndarray
    of_map: tuple[float, ...]

    @classmethod
    def of(
        cls,
        coef: np.ndarray,
        ranges: Ranges | None,
        row_map: RowMap | None,
        data_norm: float,
        dtype: np.dtype,
    ) -> "Products":
        """Return the numbers of a model, for rows of this precision."""
        coef = np.atleast_2d(coef).astype(np.float64)
        constant = np.zeros(len(coef))
        of_ranges = _NONE, _NONE
        if ranges is not None:
            coef, constant = ranges.of_mapped(coef, constant)
            of_ranges = tuple(of.astype(np.float64) for of in ranges.numbers(dtype))
        n_features = coef.shape[1]
        form = np.empty((0, n_features), dtype)
        if row_map is None:
            ball = ball_of(form, data_norm)
            of_centre = _NONE, _NO_MATRIX, np.zeros(len(coef))
        else:
            row_map.check(n_features, is_sparse=False)
            ball = row_map.ball(form)
            centre = np.zeros(n_features) if row_map.centre is None else row_map.centre
            of_centre = centre, _even(row_map.weights), -np.einsum("kj,j->k", coef, centre)
        # columns in [-1, 1] make no longer row
        within = ranges is not None and math.sqrt(n_features) <= ball.radius
        radius = math.inf if within else ball.radius
        of_map = radius, ball.norm, ball.shrink, ball.unit, ball.full
        return cls(np.ascontiguousarray(coef), constant, of_ranges, *of_centre, of_map)

    def raw(self, X: np.ndarray) -> np.ndarray:
        """Return raw predictions without intercepts, in double precision.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Finite rows in any order of memory.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
        """
        n_rows, n_features = X.shape
        kernel = compiled_predict(X.dtype.name)
        room = aligned_empty((2 * n_features + 3) * WIDE)
        out = np.empty((n_rows, len(self.coef)))
        numbers = *self.ranges, self.centre, self.matrix, self.of_map
        step = max(WIDE, _AT_ONCE // max(n_features, 1))
        for first in range(0, n_rows, step):
            part = slice(first, first + step)
            rows = np.ascontiguousarray(X[part])
            kernel(rows, *numbers, self.coef, self.shift, self.constant, room, out[part])
        return out


def _even(weights):
    """Return a map's diagonal as one row, or its matrix with an even number of rows."""
    if weights.ndim == 1:
        return weights[None]
    return np.vstack([weights, np.zeros((len(weights) % 2, len(weights)))])
