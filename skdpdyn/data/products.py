"""Raw predictions of linear models on dense rows: a row has one value in every place.

Compiled code reads X once. Where none is on disk, numpy does the same to the bit: a first
prediction compiles nothing, and a process that predicts many rows compiles once.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.data.rows import ball_of
from skdpdyn.kernels.later import aligned_empty
from skdpdyn.kernels.ready import WIDE, predict_rows
from skdpdyn.support.blas import in_threads
from skdpdyn.support.threads import threads_of

_NONE = np.empty(0)
_NO_MATRIX = np.empty((0, 0))
AT_ONCE = 1 << 18  # numbers of X between two looks at interrupts
_FEW = 16  # rows that no compiled code is looked for on disk for
_IN_CACHE = 1 << 10  # rows that it takes at a time
_WORTH_COMPILING = 20_000_000  # numbers of X in all, which take numpy a second
_WORTH_LOADING = 1_000_000  # that numba is imported for


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
        in `skdpdyn.kernels.asked.Ball`.
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
        of_ranges: tuple[np.ndarray, np.ndarray] = _NONE, _NONE
        if ranges is not None:
            coef, constant = ranges.of_mapped(coef, constant)
            middle, factor = ranges.numbers(dtype)
            of_ranges = middle.astype(np.float64), factor.astype(np.float64)
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

    def raw(self, X: np.ndarray, n_jobs: int | None = None) -> tuple[np.ndarray, bool]:
        """Return raw predictions without intercepts, and whether all numbers of X are finite.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows in any order of memory.
        n_jobs : int or None, default=None
            Threads that compiled code takes, see `skdpdyn.support.threads.threads_of`.

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
            In double precision.
        finite : bool
        """
        n_rows, n_features = X.shape
        kernel = predict_rows[X.dtype.name].in_memory
        if kernel is None and n_rows > _FEW:
            kernel = _kernel(X.dtype.name, X.size)
        out = np.empty((n_rows, len(self.coef)))
        step = max(_FEW, AT_ONCE // max(n_features, 1))
        step = min(step, _IN_CACHE) if kernel is None else step
        of_rows = *self.ranges, self.centre, self.matrix, self.of_map
        numbers = *of_rows, self.coef, self.shift, self.constant

        def write(part):
            if kernel is None:
                out[part] = self._by_numpy(X[part].astype(np.float64))
                return bool(np.isfinite(X[part]).all())
            room = aligned_empty((2 * n_features + 3) * WIDE)
            return kernel(np.ascontiguousarray(X[part]), *numbers, room, out[part])

        parts = [slice(first, first + step) for first in range(0, n_rows, step)]
        n_threads = 1 if kernel is None or len(parts) < 2 else threads_of(n_jobs, X.size)
        return out, all([*in_threads(write, parts, n_threads)])

    def _by_numpy(self, rows):
        """Return raw predictions to the bit of the kernel: all sums are in the order of columns."""
        radius = self.of_map[0]
        middle, factor = self.ranges
        if middle.size:
            rows = np.minimum(np.maximum((rows - middle) * factor, -1.0), 1.0)
        scale: Any = 1.0
        if radius < math.inf:
            squares = _sums(rows * rows)
            least: Any = radius
            if np.isinf(squares).any():
                long = np.isinf(squares)
                least = np.where(long, 0.0, radius)  # beyond any ball, however short they are now
                rows[long] /= np.max(np.abs(rows[long]), axis=1, keepdims=True)
                squares[long] = _sums(rows[long] * rows[long])
            scale = (radius / np.maximum(np.sqrt(squares), least))[:, None]
        lost: Any = None
        if self.centre.size:
            kept = self._kept(rows * scale - self.centre)[:, None]
            scale = scale * kept
            lost = (kept - 1.0) * self.shift
        raw = self._dots(rows) * scale
        return (raw if lost is None else raw + lost) + self.constant

    def _kept(self, rows):
        """Return which part of its length the map leaves each row."""
        _, norm, shrink, unit, _ = self.of_map
        if len(self.matrix) == 1:
            mapped = rows * self.matrix[0]
        elif len(rows) <= _FEW:
            mapped = _sums(rows[:, None, :] * self.matrix)
        else:
            mapped = np.zeros((len(rows), len(self.matrix)))
            for p, column in enumerate(self.matrix.T):
                last = len(column) if self.of_map[4] else p + 1  # an upper triangle
                mapped[:, :last] += rows[:, p, None] * column[:last]
        length = np.sqrt(_sums(mapped * mapped))
        least = length if unit else norm
        return np.where(length >= unit, shrink * norm / np.maximum(length, least), 0.0)

    def _dots(self, rows):
        if len(rows) <= _FEW:
            return _sums(rows[:, None, :] * self.coef)
        return np.stack([_sums(rows * coef_of_output) for coef_of_output in self.coef], axis=1)


def _sums(terms):
    """Return sums along the last axis, one term after the other: `numpy.sum` adds pairs."""
    return np.add.accumulate(terms, axis=-1)[..., -1]


_so_far = Counter[str]()


def _kernel(dtype, size):
    """Return the pass over rows if it is compiled, or worth that by all that was predicted."""
    _so_far[dtype] += size
    worthwhile, loading = (_so_far[dtype] > least for least in (_WORTH_COMPILING, _WORTH_LOADING))
    return predict_rows[dtype].found(worthwhile, loading)


def prepare(dtype: np.dtype) -> None:
    """Compile the pass over rows, as a fit does, whose predictions will be asked for."""
    predict_rows[dtype.name].found(worthwhile=True)


_KEPT: "WeakKeyDictionary[Any, tuple]" = WeakKeyDictionary()
# beside the models: what is in them is copied and stored


def products_of(model: Any, dtype: np.dtype) -> Products:
    """Return the numbers of a fitted model, which are made anew once it has changed.

    Parameters
    ----------
    model : estimator
        Has ``coef_``, ``conditioning_``, ``ranges_`` and ``data_norm_``.
    dtype : dtype
        Precision of rows.
    """
    found = dtype, model.conditioning_, model.data_norm_
    values = model.coef_, () if model.ranges_ is None else model.ranges_
    kept = _KEPT.get(model)
    if (
        kept is not None
        and kept[0] == dtype
        and kept[1] is model.conditioning_
        and kept[2] == model.data_norm_
        and all(map(np.array_equal, kept[3], values))
    ):
        return kept[4]
    ranges = None if model.ranges_ is None else Ranges(*model.ranges_.T)
    row_map = None if model.conditioning_ is None else model.conditioning_.row_map
    products = Products.of(model.coef_, ranges, row_map, model.data_norm_, dtype)
    _KEPT[model] = *found, tuple(map(np.copy, values)), products
    return products


def _even(weights):
    """Return a map's diagonal as one row, or its matrix with an even number of rows."""
    if weights.ndim == 1:
        return weights[None]
    return np.vstack([weights, np.zeros((len(weights) % 2, len(weights)))])
