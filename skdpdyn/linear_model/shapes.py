"""Shapes of additive models: the curve of each column, with the noise of training.

Everything here follows from what a fit released, and costs nothing.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import nnls

from skdpdyn.core.expansion import Levels, NumberColumn, weighted_squares
from skdpdyn.core.spending import training_of
from skdpdyn.privacy import NoisyGradientDescent
from skdpdyn.training.base import distinct
from skdpdyn.training.conditioning import moments_of

_SEEN = 3.0  # deviations of noise from which on records are in a cell
_LIKE_EMPTY = 0.75  # part of a column's largest noise that cells without records have
_RARE = 0.1  # part of the usual share of a level: of rare ones
_HIDDEN_PRIOR = 0.4  # prior deviation of levels that nobody shows, though rare ones may be hidden
_N_CURVATURES = 200  # at which the noise of training is looked at
_N_POINTS = 32  # of a pair's grid, in each direction
_USUAL_BEND = 0.3  # part of the curvature of counts that steps allow for
_LONGEST = 1.9  # largest curvature that steps allow for, over the reciprocal of a step


@dataclass(frozen=True, eq=False)
class Shape:
    """The contribution of a column, or of a pair of columns, to an additive model.

    Parameters
    ----------
    name : str
        Name of the column, or of both.
    grid : ndarray or tuple of two ndarray
        The number, or the date, in the middle of each cell, from the first to the last that the
        released distribution shows records in: values beyond count as the nearest. Of levels, they
        with "(other)" and "(missing)" behind them, in more parentheses where a level is called so;
        or the numbers of both columns of a pair.
    value : ndarray of shape (n_outputs, n_points) or (n_outputs, n_points, n_points)
        Contribution to the raw prediction, less its mean over the released mean of the rows.
    missing : ndarray of shape (n_outputs,) or None, default=None
        Contribution of a missing number.
    bound : ndarray of the shape of ``value`` or None, default=None
        Largest standard error that the noise of training can bring, whatever the records are, if
        the loss is quadratic with a curvature that the steps allow for. None: not known for this
        solver.
    estimate : ndarray of the shape of ``value`` or None, default=None
        The same where rows have the released second moment, and the loss the curvature that steps
        were planned for: an estimate. Neither holds the error of sampling; after a monotonic
        projection both are those of the curve before it.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateGAMRegressor
    >>> X = np.random.default_rng(0).uniform(0, 10, (20_000, 1))
    >>> model = PrivateGAMRegressor(bounds=(0, 10), target_bounds=(-1, 1), random_state=0)
    >>> shape = model.fit(X, np.sin(X[:, 0])).shapes_["x0"]
    >>> high, low = np.interp([np.pi / 2, 3 * np.pi / 2], shape.grid, shape.value[0])
    >>> bool(1.7 < high - low < 2.3)
    True
    """

    name: str
    grid: Any
    value: np.ndarray
    missing: np.ndarray | None = None
    bound: np.ndarray | None = None
    estimate: np.ndarray | None = None


def shapes_of(model: Any) -> dict[str, Shape]:
    """Return the shape of each term of a fitted model, by its name."""
    expansion = model.expansion_
    noise = _Noise.of(model)
    weights = model._weights()
    centres = model._centres()
    shapes = {}
    for k, name in enumerate(model.terms_[1:]):
        part = expansion.slices[k]
        if k < len(expansion.columns):
            column = expansion.columns[k]
            rows = expansion.tables[k]
            cells = slice(expansion.starts[k], expansion.starts[k + 1])
            value = weights[:, cells] - centres[:, [k]]
            missing = None
            levels = list(getattr(column, "levels", ()))
            grid: Any = [*levels, *distinct(["(other)", "(missing)"], levels)]
            if isinstance(column, NumberColumn):
                inside = expansion.inside(k)
                grid = column.shown[inside]
                rows = rows[:-1][inside]
                missing = value[:, -1]
                value = value[:, :-1][:, inside]
        else:
            grid, rows = _grid_of_pair(expansion, k - len(expansion.columns))
            coef = np.atleast_2d(model.coef_)[:, part]
            value = coef @ rows.T - centres[:, [k]]
            missing = None
        size = (len(value), *(map(len, grid) if isinstance(grid, tuple) else (len(grid),)))
        errors: dict[str, Any] = {}
        if noise is not None:
            for kind, error in noise.errors(rows, part).items():
                errors[kind] = np.broadcast_to(error, value.shape).reshape(size)
        shapes[name] = Shape(name, grid, value.reshape(size), missing, **errors)
    return shapes


def kept_parts(model: Any) -> np.ndarray:
    """Return the factor by which each cell's number is shrunk, from the releases of a fit.

    A number of a level, or of missing values, is multiplied by 1 / (1 + (e / p)^2). Here e is the
    standard error that training brought, and p the prior standard deviation, both on the scale of
    raw predictions: p is 1, or 0.4 for a level that noise may hide. It may if the released mean
    shows no record in the cell, and e is about that of cells without records.

    The factor is 0 instead

    - for such a level, if even a level with a tenth of the usual share would show. With 0 for all
      of them, R^2 of diamonds is .029 less at epsilon 0.1, and that of Swedish claims .045 at 0.3.
    - for missing values, and for the "other" of a given list, if no record shows. They are also
      multiplied by the released mean over three standard deviations of its noise, at most 1.

    Where levels are bought, "other" holds the rare ones, so it counts as a level: R^2 of diamonds
    is .014 more at 0.1. Models of counts and of quantiles keep the numbers of listed levels: D^2 of
    hourly rentals is .005 less if they are shrunk.
    """
    expansion = model.expansion_
    kept = np.ones(expansion.n_cells)
    std = None if model.conditioning_ is None else model.conditioning_.mean_std
    scale = model._scale() or (1.0, None)  # of counts: a raw prediction is a logarithm
    noise = None if std is None else _Noise.of(model, scale)
    if std is None or noise is None:
        return kept
    unit = scale[0]
    mean = model.conditioning_.mean
    other_is_rare = "categories" in model.bought_ or bool(model.sources_)
    for j, column in enumerate(expansion.columns):
        part = expansion.slices[j]
        n_cells = column.n_cells
        first = 0 if isinstance(column, Levels) else n_cells - 1
        error = noise.errors(expansion.tables[j], part)["estimate"]
        if error is None:
            continue
        error = error / unit
        is_empty = mean[part][first - n_cells :] < _SEEN * std
        is_empty &= error[first:] > _LIKE_EMPTY * error.max()
        cells = slice(expansion.starts[j] + first, expansion.starts[j + 1])
        of_noise = 1 / (1 + error[first:] ** 2)
        rare_would_show = _RARE / (n_cells - first) * expansion.flag(j) > _SEEN * std
        of_hidden = 0.0 if rare_would_show else 1 / (1 + (error[first:] / _HIDDEN_PRIOR) ** 2)
        of_levels = np.where(is_empty, of_hidden, of_noise)
        shown = np.clip(mean[part][first - n_cells :] / (_SEEN * std), 0.0, 1.0)
        listed = of_levels if scale[1] else 1.0
        unlisted = np.where(is_empty, 0.0, of_noise * shown)
        if other_is_rare and isinstance(column, Levels):
            unlisted[-2] = of_levels[-2]
        kept[cells] = np.where(expansion.unlisted[cells], unlisted, listed)
    return kept


def usual_rows(model: Any) -> np.ndarray:
    """Return the released mean of the rows, nearer to 0 where it is mostly noise.

    All rows share what the noise of the mean adds to them, so that training makes a part of the
    intercept of it: what stands in for a cell must have it, too.
    """
    expansion = model.expansion_
    mean = model.conditioning_.mean.copy()
    std = model.conditioning_.mean_std
    if std is None:
        return mean
    for column, part in zip(expansion.columns, expansion.slices, strict=False):
        flags = slice(part.stop - column.n_flags, part.stop)
        mean[flags] = np.where(mean[flags] < _SEEN * std, 0.0, mean[flags])
        if isinstance(column, NumberColumn) and expansion.n_terms:
            k = np.arange(flags.start - part.start) % expansion.n_terms + 1
            squares = k ** (-2 * expansion.decay) / 2  # of a cosine, the mean's at the most
            mean[part.start : flags.start] *= squares / (squares + std**2)
    return mean


def _grid_of_pair(expansion, pair):
    """Return numbers, or levels, of both columns of a pair, and the products at all of them."""
    grid = []
    low = []
    for j in expansion.pairs[pair]:
        column = expansion.columns[j]
        (first, stop) = expansion.low_starts[j : j + 2]
        at = np.arange(column.n_cells - 1)  # without missing ones
        points = [*getattr(column, "levels", ()), "other"]
        if isinstance(column, NumberColumn):
            inside = expansion.inside(j)
            at = np.linspace(inside.start, inside.stop - 1, _N_POINTS).round().astype(np.intp)
            points = column.shown[at]
        grid.append(points)
        low.append((first, expansion.low[expansion.starts[j] + at, : stop - first]))
    (first, of_first), (second, other) = low
    products = [
        weight * np.multiply.outer(of_first[:, a - first], other[:, b - second]).ravel()
        for a, b, weight in expansion.factors[pair]
    ]
    return tuple(grid), np.column_stack(products)


def importances_of(model: Any) -> dict[str, float]:
    """Return the mean absolute contribution of each term less that of noise, the largest first."""
    noise = _Noise.of(model)
    weights = model._weights()
    centres = model._centres()
    expansion = model.expansion_
    importances = {}
    of_moments = _importances_of_moments(model, noise)
    for k, name in enumerate(model.terms_[1:]):
        if k >= len(expansion.columns):
            importances[name] = of_moments(expansion.slices[k])
            continue
        cells = _parts_of_cells(model, k)
        first = expansion.starts[k]
        squares = (weights[:, first : first + len(cells)] - centres[:, [k]]) ** 2
        if noise is not None:
            error = noise.errors(expansion.tables[k], expansion.slices[k])["estimate"]
            squares = np.maximum(squares - error**2, 0.0)
        importances[name] = float(np.mean(np.sqrt(squares) @ cells))
    return dict(sorted(importances.items(), key=lambda item: -item[1]))


def _importances_of_moments(model, noise):
    """Return a function of places of features: the same of normal rows of the released moments."""
    row_map = model.conditioning_.row_map
    moments, vectors = moments_of(row_map)
    coef = np.atleast_2d(model.coef_)
    turned = None
    if vectors is not None:
        turned = row_map.norm * _by_block(row_map, np.linalg.solve, row_map.weights, vectors).T

    def importance(part):
        if turned is None:
            moment = np.diag(moments[part] * (row_map.norm / row_map.weights[part]) ** 2)
        else:
            moment = (turned[:, part].T * moments) @ turned[:, part]
        squares = np.einsum("ki,ij,kj->k", coef[:, part], moment, coef[:, part])
        added = 0.0 if noise is None else np.sum(moment * noise.covariance(part))
        return math.sqrt(2 / math.pi) * float(np.mean(np.sqrt(np.maximum(squares - added, 0.0))))

    return importance


def _by_block(row_map, function, *matrices):
    """Apply a function to each block of matrices; other entries of the result are 0."""
    result = np.zeros((row_map.n_features,) * 2)
    for places in row_map.blocks:
        cells = np.ix_(places, places)
        result[cells] = function(*(matrix[cells] for matrix in matrices))
    return result


def _parts_of_cells(model, k):
    """Return parts of the records in each cell of a column that have the released mean features.

    Of numbers they are few cells: a quadrature of the distribution.
    """
    expansion = model.expansion_
    mean = model.conditioning_.mean[expansion.slices[k]]
    if isinstance(expansion.columns[k], Levels):
        parts = np.maximum(mean, 0.0)
    else:
        features = np.vstack([expansion.tables[k].T, np.ones(expansion.columns[k].n_cells)])
        parts, _ = nnls(features, np.append(mean, 1.0))
    return parts / max(float(parts.sum()), 1e-300)


@dataclass(frozen=True, eq=False)
class _Noise:
    """Factors of the noise of training in coefficients, one for each direction."""

    # of features, as directions of mapped rows, in units of raw predictions; or a diagonal
    vectors: np.ndarray
    mean: np.ndarray
    largest: float
    estimated: np.ndarray

    @classmethod
    def of(cls, model: Any, scale: Any = None) -> "_Noise | None":
        """Return the noise of a fitted model; None where it is not known.

        The scale is that of outputs, with the curvature of the loss; None: a part of the largest
        that steps allow for.
        """
        record = training_of(model.mechanism_)
        row_map = model.conditioning_.row_map
        scale = model._scale() if scale is None else scale
        if not isinstance(record, NoisyGradientDescent) or record.sensitivity is None or not scale:
            return None
        unit, bend = scale
        grid = np.linspace(0.0, _LONGEST / float(np.max(record.step_size)), _N_CURVATURES)
        squares = _accumulated(record, model.alpha_, grid)
        moments, vectors = moments_of(row_map)
        if bend is None:
            bend = _USUAL_BEND * float(grid[-1] / np.max(moments))
        turned = row_map.weights
        if vectors is not None:
            turned = _by_block(row_map, np.matmul, vectors.T, turned)
        directions = unit * turned / row_map.norm
        variances = np.interp(moments * bend, grid, squares)
        return cls(directions, row_map.centre, float(squares.max()), variances)

    def covariance(self, part):
        """Return the estimated covariance of the noise of some features' coefficients."""
        if self.vectors.ndim == 1:
            return np.diag(self.vectors[part] ** 2 * self.estimated[part])
        return (self.vectors[:, part].T * self.estimated) @ self.vectors[:, part]

    def errors(self, rows, part):
        """Return the bound and the estimate of the standard error of some features' sums."""
        if self.vectors.ndim == 1:
            weights = self.vectors[part] ** 2
            squares = weighted_squares(rows, self.mean[part], weights)
            of_estimate = weighted_squares(rows, self.mean[part], weights * self.estimated[part])
        else:
            rows = rows.toarray() if sparse.issparse(rows) else rows
            moved = (rows - self.mean[part]) @ self.vectors[:, part].T
            squares = np.sum(moved**2, axis=1)
            of_estimate = np.sum(moved**2 * self.estimated, axis=1)
        return {"bound": np.sqrt(self.largest * squares), "estimate": np.sqrt(of_estimate)}


def _accumulated(record, alpha, bend):
    """Return the variance that all steps leave in directions of these curvatures."""
    step_size = np.broadcast_to(record.step_size, record.n_steps)
    momentum = np.broadcast_to(record.momentum, record.n_steps)
    std = step_size * record.sensitivity * np.broadcast_to(record.noise_multiplier, record.n_steps)
    variance = np.zeros(len(bend))
    later = np.ones(len(bend))
    last = 0.0  # what a unit before the last steps leaves at the end
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(record.n_steps - 1, -1, -1):
            variance += (std[k] * later) ** 2
            # theta_k+1 = keep ((1 + m_k) theta_k - m_k theta_k-1) - step_size bend theta_k
            keep = 1 - step_size[k] * alpha
            moved = keep * (1 + momentum[k]) - step_size[k] * bend
            next_last = -keep * momentum[k] * later
            later = moved * later + last
            last = next_last
    return np.where(np.isfinite(later), variance, math.inf)
