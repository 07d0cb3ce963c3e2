"""Slope and level of predictions of numbers, bought after training: sums of predictions are right.

Training bounds residuals by the scale of most targets, and stops early: predictions are too flat,
and means of skewed targets too low. Noisy counts of targets in octaves tell limits beyond which
little of them lies; within these, a few sums over the records say how far predictions are off. A
prior that knows how wrong fits of such a kind are keeps the moves short.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from skdpdyn.core import rules
from skdpdyn.core.losses import Loss
from skdpdyn.core.spending import Share
from skdpdyn.exceptions import PrivacyUtilityWarning, warn
from skdpdyn.training.conditioning import moments_of
from skdpdyn.training.parts import (
    MEAN_RESIDUAL,
    TARGET_MEAN,
    NumberUnits,
    combined,
    half_range_of,
    residual_bound,
    sums_of_rows,
)
from skdpdyn.training.values import Part

SLOPE = "slope of predictions"
LEVEL = "level of predictions"
_WIDEST = 2.0  # deviations of predictions from which on a row says no more of their slope
_FARTHEST = 6.0  # deviations at which predictions are cut in sums
_UNBOUNDED = 1e9  # where predictions are not cut at the bounds of targets


def buys_level(request: Any) -> bool:
    """Return whether slope and level are bought: of models of means, where records are many."""
    fits = isinstance(request.family.units, MeanUnits) and request.fit_intercept
    enough = solves(request) or request.strength >= rules.LEAST_STRENGTH_OF_LINE
    return fits and request.recipe.adapts and enough


def solves(request: Any) -> bool:
    """Return whether sums of products are solved: those bound targets, where steps do residuals."""
    return request.recipe.solver is not None


class MeanUnits(NumberUnits):
    """Units of a model of means, whose slope and level are bought once it is trained.

    Sums of products bound targets where bias and noise are least. Steps bound residuals, which are
    smaller, by the scale of most targets; but where nearly all targets are at one place and most of
    the rest lies beyond that scale, by a wide unit, and they train for a shorter time.
    """

    def calibration_share(self, request):
        """See `TargetUnits.calibration_share`: the level takes its place."""
        return 0.0 if buys_level(request) else super().calibration_share(request)

    def scale(self, cells, learning, spending):
        """See `NumberUnits.scale`."""
        request = learning.plan.request
        learning.cells = cells
        solved = solves(request)
        scale = super().scale(cells, learning, spending)
        of_limit = scale
        if solved:
            cost = rules.cost_of_limit(request.n_features + 1)
            of_limit = cells.limit(request.strength, cost)
        if LEVEL not in spending.shares:
            return of_limit
        learning.spread = cells.spread()
        if not cells.at_one_place:
            learning.spread = min(max(learning.spread, scale / 3), 1.5 * scale)
            self._give_back(learning, spending)
            return of_limit
        learning.spread = max(learning.spread, scale / 10)
        sizes = dict(zip((SLOPE, LEVEL), rules.LINE_OF_FEW, strict=True))
        learning.change_shares(spending, {name: sizes[name] for name in self.line(request)})
        if solved:
            return of_limit
        unit = max(cells.unit_of_few(scale), scale)
        time = rules.time_of_few(learning.spread / min(unit, cells.farthest))
        learning.facts = replace(learning.facts, time=time)
        return unit

    def attributes(self, learning):
        """See `TargetUnits.attributes`."""
        std = learning.mean_std
        return {} if std is None else {"mean_std_": std * half_range_of(learning)}

    @staticmethod
    def line(request: Any) -> dict[str, float]:
        """Return the shares of slope and level, from public numbers alone."""
        if not buys_level(request):
            return {}
        slope, level = rules.LINE
        turns = not (solves(request) or request.is_sparse)  # others know no deviation of rows
        return ({SLOPE: slope} if turns else {}) | {LEVEL: level}

    def _give_back(self, learning, spending):
        """Train on the share of slope and level where these would drown in their noise."""
        request = learning.plan.request
        if _limits(learning, spending).noise > rules.DROWNED_LEVEL * learning.spread:
            none = dict.fromkeys(self.line(request), 0.0)
            residual = 0.0 if solves(request) else rules.calibration_share(request.strength)
            learning.change_shares(spending, none | {MEAN_RESIDUAL: residual})


def _limits(learning, spending):
    """Return the limits of slope and level."""
    return learning.cells.limits(_noise_of(LEVEL, learning, spending))


def _noise_of(name, learning, spending):
    """Return the deviation of the noise on a mean of numbers in [-1, 1] that a share pays for."""
    return spending.noise_on_sum(name) / learning.rows.mass


def _sums_of_slope(raw_prediction, y, out):
    """Write a row's residual times its cut prediction, and its part of their derivative.

    Raw predictions are the row's, the mean row's, the reciprocal of two deviations, and the limits.
    """
    for i in range(y.size):
        low = raw_prediction[3, i]
        high = raw_prediction[4, i]
        most = high if high > -low else -low
        f = raw_prediction[0, i]
        v = (f - raw_prediction[1, i]) * raw_prediction[2, i]
        size = abs(v)
        q = (size if size < 1.0 else 1.0) * (size if size < 2.0 else 2.0) / 2.0
        v = v if v < 1.0 else 1.0  # NaN too
        v = v if v > -1.0 else -1.0
        t = y[i] if y[i] > low else low
        t = t if t < high else high
        f = f if f > low else low
        f = f if f < high else high
        r = (t - f) / most
        r = r if r < 1.0 else 1.0
        r = r if r > -1.0 else -1.0
        out[0, i] = r * v
        out[1, i] = 0.5 * q - 0.25
        for k in range(2, 5):
            out[k, i] = 0.0


SUMS_OF_SLOPE = Loss(
    "slope", _sums_of_slope, lipschitz=math.hypot(1.0, 0.25), smoothness=1.0, n_outputs=5
)
"""Two numbers of a row, no loss: a product of two in [-1, 1], and one in [-1/4, 1/4].

So their norm is at most that of (1, 1/4). Kernels clip what is beyond.
"""


def _sums_of_level(raw_prediction, y, out):
    """Write a row's target and its prediction, or its residual; each is cut, in its own unit.

    Raw predictions are the row's, the mean row's, the factor of the difference (0: the residual is
    written), the limits, and the bounds that predictions are cut at.
    """
    for i in range(y.size):
        low = raw_prediction[3, i]
        high = raw_prediction[4, i]
        factor = raw_prediction[2, i]
        f = raw_prediction[0, i]
        f = f if f > raw_prediction[5, i] else raw_prediction[5, i]  # NaN too
        f = f if f < raw_prediction[6, i] else raw_prediction[6, i]
        t = y[i] if y[i] > low else low
        t = t if t < high else high
        for k in range(7):
            out[k, i] = 0.0
        if factor > 0.0:
            most = raw_prediction[7, i]
            v = (f - raw_prediction[1, i]) * factor
            v = v if v < most else most
            out[0, i] = (2.0 * t - low - high) / (high - low)
            out[1, i] = v if v > -most else -most
        else:
            most = high if high > -low else -low
            f = f if f > low else low
            f = f if f < high else high
            r = (t - f) / most
            r = r if r < 1.0 else 1.0
            out[0, i] = r if r > -1.0 else -1.0
        out[7, i] = 0.0


def sums_of_level(largest: float) -> Loss:
    """Return two numbers of a row, no loss: one in [-1, 1], and one in [-largest, largest].

    So their norm is at most that of (1, largest). Kernels clip what is beyond.
    """
    bound = math.hypot(1.0, largest)
    return Loss("level", _sums_of_level, n_outputs=8, smoothness=1.0, lipschitz=bound)


@dataclass
class _FitOfLine:
    """Predictions base + coef z of a fit, in units of training, in which targets have mean 0."""

    coef: np.ndarray
    base: float
    std: float  # of predictions, over rows
    low: float  # limits on targets
    high: float
    of_targets: float  # the standard deviation of targets
    ends: tuple[float, float]  # predictions are cut at

    @property
    def most(self):
        """The largest distance from the mean within the limits."""
        return max(self.high, -self.low)

    def means(self, name, loss, numbers, learning, spending):
        """Buy means over rows of functions of target, prediction and some constants.

        Returns them, and the deviation of their noise.
        """
        coefs = np.zeros((loss.n_outputs, self.coef.size))
        coefs[0] = self.coef
        numbers = np.array([self.base, self.base, *numbers])
        sums, std = sums_of_rows(name, loss, loss.lipschitz, coefs, numbers, learning, spending)
        return sums / learning.rows.mass, std / learning.rows.mass


class LineOfResiduals(Part):
    """A slope and a shift of predictions of numbers, after which they add up to the targets.

    Both follow from sums over records of bounded vectors: a record moves them by the bound if it
    comes or goes, by twice that if another takes its place. The rows of a person add a convex
    combination.
    """

    def share(self, request):
        """See `Part.share`."""
        units = request.family.units
        sizes = units.line(request) if isinstance(units, MeanUnits) else {}
        return {name: Share(size) for name, size in sizes.items()}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if learning.cells is None or not learning.plan.request.fit_intercept:
            return
        if LEVEL in spending.shares:
            noise, hidden = self._moved(learning, spending)
        else:
            noise, hidden = _of_residual(learning, spending)
        learning.mean_std = math.hypot(noise, hidden)
        mean = learning.units[0]
        if learning.mean_std > rules.DOUBTFUL_MEAN * (1 - abs(mean)):
            _warn(learning, noise, hidden)

    def _moved(self, learning, spending):
        """Buy slope and level, and move the fit; return the level's noise, and the hidden part."""
        objective = learning.plan.objective
        coef, intercept = objective.split(learning.theta)
        mean, unit = learning.units
        limits = _limits(learning, spending)
        is_cut = learning.plan.request.expansion is not None
        fit = _FitOfLine(
            coef[0],
            float(intercept[0]),
            _deviation(learning, coef[0]),
            limits.low / unit,
            limits.high / unit,
            learning.spread / unit,
            ((-1 - mean) / unit, (1 - mean) / unit) if is_cut else (-_UNBOUNDED, _UNBOUNDED),
        )
        if SLOPE in spending.shares and 0 < fit.std < math.inf:
            _turn(fit, learning, spending)
        level, std = _level(fit, learning, spending)
        moved = moved_by(level, fit.base, fit.std, fit.ends) if is_cut else fit.base + level
        learning.theta = np.append(fit.coef, moved / objective.intercept_scaling)
        return std * unit, limits.hidden


def _turn(fit, learning, spending):
    """Buy the slope, and change the coefficients of a fit, and the deviation of its predictions.

    With u the distance of a prediction from the mean row's in deviations, and v half of it cut at
    1, a slope that changes by c changes residuals times v by c std E[u v], and u v is 4 q.
    """
    numbers = 1 / (_WIDEST * fit.std), fit.low, fit.high
    means, noise = fit.means(SLOPE, SUMS_OF_SLOPE, numbers, learning, spending)
    bend = 16 * (means[1] + 0.25)  # 2 E[u v], which is about the variance of u
    doubt = (16 * noise) ** 2
    expected, deviation = rules.PRIOR_OF_BEND
    bend = (bend * deviation**2 + expected * doubt) / (deviation**2 + doubt)
    bend = max(bend, rules.LEAST_BEND)
    by = fit.most * 2 / (fit.std * bend)
    explained = min(bend * (fit.std / fit.of_targets) ** 2, 0.95)  # R^2, about
    scales, weights = rules.PRIOR_OF_TURN
    change = posterior_mean(by * means[0], by * noise, scales, 1 - explained, weights)
    fit.coef = fit.coef * (1 + max(change, -1.0))
    fit.std *= max(1 + change, 1e-6) * math.sqrt(bend)


def _level(fit, learning, spending):
    """Buy the level; return how far predictions are to move, and the noise in that.

    Targets and predictions are summed apart: in units of half of the limits' distance, and of six
    deviations. Where predictions say most of the targets, sums of residuals have less noise.
    """
    half = (fit.high - fit.low) / 2
    widest = _FARTHEST * fit.std
    largest = math.sqrt(widest / half) if half + widest < fit.most else 0.0
    factor = largest / widest if largest else 0.0
    numbers = factor, fit.low, fit.high, *fit.ends, largest
    means, noise = fit.means(LEVEL, sums_of_level(largest), numbers, learning, spending)
    if largest:
        mean = (fit.low + fit.high) / 2 + half * means[0]
        known = _noise_of(TARGET_MEAN, learning, spending) / learning.units[1]
        mean, std = combined(mean, half * noise, 0.0, known)  # 0 is the mean that was bought
        level = mean - fit.base - means[1] / factor
        std = math.hypot(std, noise / factor)
    else:
        level = fit.most * means[0]
        std = fit.most * noise
    scales, weights = rules.PRIOR_OF_LEVEL
    return posterior_mean(level, std, scales, fit.of_targets, weights), std


def _deviation(learning, coef):
    """Return the standard deviation of predictions that released moments of rows tell."""
    row_map = learning.rows.map
    if learning.plan.request.expansion is not None:
        moments, vectors = moments_of(row_map)
        return math.sqrt(float(moments @ (coef if vectors is None else vectors.T @ coef) ** 2))
    return float(np.linalg.norm(coef)) * math.sqrt(row_map.moment) / row_map.norm


def _of_residual(learning, spending):
    """Return the noise of the mean residual or of the mean, and the hidden part."""
    bought = MEAN_RESIDUAL in spending.shares
    name = MEAN_RESIDUAL if bought else TARGET_MEAN
    bound = residual_bound(learning.plan.objective) * learning.units[1]
    noise = _noise_of(name, learning, spending)
    return noise * (bound if bought else 1.0), learning.cells.hidden(-bound, bound)


def posterior_mean(
    value: float, std: float, scales: Sequence[float], unit: float, weights: Sequence[float]
) -> float:
    """Return the mean of a number that was seen with noise, of which a prior is known.

    Parameters
    ----------
    value : float
        The number with noise.
    std : float
        Standard deviation of the noise.
    scales : sequence of float
        Deviations of normals around 0, in a unit, which are the prior.
    unit : float
        The unit.
    weights : sequence of float
        Their weights.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdpdyn.training.line import posterior_mean
    >>> posterior_mean(3.0, std=1.0, scales=[1.0], unit=1.0, weights=[1.0])
    1.5
    """
    squares = (np.array(scales) * unit) ** 2
    variances = squares + std**2
    logs = np.log(weights) - np.log(variances) / 2 - value**2 / (2 * variances)
    likely = np.exp(logs - logs.max())
    return float(value * np.sum(likely * squares / variances) / likely.sum())


def moved_by(shift: float, mean: float, std: float, ends: tuple[float, float]) -> float:
    """Return the mean of normal numbers after which those cut at two ends have a mean higher by so.

    Examples
    --------
    >>> from skdpdyn.training.line import moved_by
    >>> round(moved_by(0.25, 0.0, 1.0, (-100.0, 100.0)), 6)
    0.25
    >>> round(moved_by(0.25, 0.0, 1.0, (-0.5, 100.0)), 2)  # three tenths are cut
    0.33
    """
    low, high = ends
    std = max(std, 1e-9)

    def cut_mean(mean: float) -> float:
        a = (low - mean) / std
        b = (high - mean) / std
        inside = mean * (ndtr(b) - ndtr(a))
        bent = std * (math.exp(-a * a / 2) - math.exp(-b * b / 2)) / math.sqrt(2 * math.pi)
        return low * ndtr(a) + high * ndtr(-b) + inside + bent

    goal = cut_mean(mean) + shift
    least = min(mean, mean + shift - 4 * std)
    most = max(mean, mean + shift + 4 * std)
    for _ in range(60):
        middle = (least + most) / 2
        least, most = (middle, most) if cut_mean(middle) < goal else (least, middle)
    return (least + most) / 2


def _warn(learning, noise, hidden):
    """Warn that the mean of predictions is not known well."""
    unit = half_range_of(learning)
    off = learning.mean_std * unit
    room = max(1 - abs(learning.units[0]), 0.0) * unit
    why = "noise" if noise > hidden else "what lies beyond the limits on residuals"
    warn(
        f"the mean of predictions may be off by {off:.2g}, by {why}, where that of the targets is "
        f"about {room:.2g} from the nearer of target_bounds: sums of predictions may be wrong. "
        "Give narrower target_bounds, more records or a larger epsilon",
        PrivacyUtilityWarning,
    )


LINE = LineOfResiduals()
