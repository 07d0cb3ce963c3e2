"""A slope beside the mean residual: how much too steep, or too flat, predictions are.

What noise and clipping make of a score is a straight line in it, about. So once training is over, a
fit buys sums over its records of the residual, and of the residual times the score, with what they
change by if scores move, and takes one step that a prior keeps short. Of several classes it buys
the slope alone, one for all.

A fit of persons makes a mean person's predictions right, whose rows weigh 1/k. Persons with many
rows may have another rate, so that risks of all rows do not add up to what happens. Where that is
asked for, sums over rows of one weight, of residuals and of what they change by, move the
intercept: by so much as would make them 0 if all rows had the rate of a mean person.
"""

import math
from dataclasses import replace

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.losses import Loss, sigmoid
from skdpdyn.core.spending import Share
from skdpdyn.training.parts import sums_of_rows
from skdpdyn.training.values import Part

SUMS_OF_SLOPE = "slope of residuals"
SUMS_OF_ROWS = "rate of rows"
FARTHEST = 3.0
"""How far from the base rate's raw prediction a score counts."""


def _sums_of_slope(raw_prediction, y, out):
    """Write a row's residual, its product with the score, and its part of their Jacobian."""
    for i in range(y.size):
        p = sigmoid(raw_prediction[0, i])
        u = raw_prediction[0, i] - raw_prediction[1, i]
        u = u if u < FARTHEST else FARTHEST  # NaN too
        u = u if u > -FARTHEST else -FARTHEST
        w = p * (1.0 - p)
        out[0, i] = p - y[i]
        out[1, i] = out[0, i] * u
        out[2, i] = w
        out[3, i] = w * u
        out[4, i] = w * u * u


SUMS = Loss(
    "slope",
    _sums_of_slope,
    lipschitz=math.hypot(1.0, FARTHEST),
    smoothness=4.0,
    n_outputs=5,
)
"""Five numbers of a row, of its score and of the base rate's: no loss, but bounded like one.

With w = p (1 - p) the square of their norm is at most p^2 (1 + u^2) + w^2 (1 + u^2 + u^4): 10 at
p = 1, 8.9 elsewhere. Kernels clip what is beyond.
"""


FARTHEST_OF_CLASSES = 6.0
"""The same where classes are several: with 3 the slope of confident predictions is wrong."""


def _sums_of_classes(raw_prediction, y, out):
    """Write a row's residuals times its scores, added up, and a sixth of what that changes by."""
    n_classes = raw_prediction.shape[0] // 2
    for i in range(y.size):
        most = raw_prediction[0, i]
        for c in range(1, n_classes):
            most = max(most, raw_prediction[c, i])
        total = first = second = of_class = 0.0
        for c in range(n_classes):
            p = math.exp(raw_prediction[c, i] - most)
            u = raw_prediction[c, i] - raw_prediction[n_classes + c, i]
            u = u if u < FARTHEST_OF_CLASSES else FARTHEST_OF_CLASSES  # NaN too
            u = u if u > -FARTHEST_OF_CLASSES else -FARTHEST_OF_CLASSES
            total += p
            first += p * u
            second += p * u * u
            of_class = u if y[i] == c else of_class
            out[c, i] = out[n_classes + c, i] = 0.0
        first /= total
        out[0, i] = first - of_class
        out[1, i] = (second / total - first * first) / FARTHEST_OF_CLASSES


def sums_of_classes(n_classes: int) -> Loss:
    """Return two numbers of a row, of its scores and of the base rates': no loss, but bounded.

    With g the first, the variance v of scores is at most 36, and at most g (12 - g) where g > 6: of
    the label's score and the mean a of all others, D apart, with q the probability of these, g is
    q D and v at most q (1 - q) D^2 + q (36 - a^2), where a >= D - 6. So the square of their norm,
    g^2 + v^2/36, is at most 144. Kernels clip what is beyond.
    """
    bound = 2 * FARTHEST_OF_CLASSES
    return Loss(
        "slope", _sums_of_classes, lipschitz=bound, smoothness=36.0, n_outputs=2 * n_classes
    )


class Slope(Part):
    """A slope and a shift of raw predictions of two classes, or a slope of those of several."""

    def share(self, request):
        """See `Part.share`."""
        units = request.family.units
        if not request.fit_intercept or units is None:
            return {}
        n_outputs = request.loss.n_outputs
        size = rules.slope_share(request.strength, n_outputs, n_outputs * request.n_features)
        return {SUMS_OF_SLOPE: Share(size)} if size and units.has_probabilities else {}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if SUMS_OF_SLOPE not in spending.shares:
            return
        objective = learning.plan.objective
        units = learning.plan.request.family.units
        coef, intercept = objective.split(learning.theta)
        n = len(coef)
        shares = units.weighted(learning, spending)
        base = units.raw(shares / shares.sum(), n)
        loss = SUMS if n == 1 else sums_of_classes(n)
        intercepts = np.zeros(loss.n_outputs)
        coefs = np.zeros((loss.n_outputs, coef.shape[1]))
        intercepts[: 2 * n] = np.concatenate([intercept, base])
        coefs[:n] = coef
        sums, std = sums_of_rows(
            SUMS_OF_SLOPE, loss, loss.lipschitz, coefs, intercepts, learning, spending
        )
        by_slope, by_shift = (posterior if n == 1 else posterior_of_classes)(sums, std)
        slope = min(max(1 + by_slope, rules.SLOPES[0]), rules.SLOPES[1])
        moved = base + slope * (intercept - base) + by_shift
        learning.theta = np.append(slope * coef, moved / objective.intercept_scaling)


def posterior(sums: np.ndarray, std: float) -> tuple[float, float]:
    """Return the posterior mean of a change of slope, and of a shift."""
    residuals = sums[:2]
    (w, first, second) = sums[2:]
    bend = np.array([[w, first], [first, second]])
    prior = np.diag(np.square(rules.SLOPE_PRIOR))
    left = bend @ prior @ bend.T + std**2 * np.eye(2)
    shift, slope = -prior @ bend.T @ np.linalg.solve(left, residuals)
    return slope, shift


def posterior_of_classes(sums: np.ndarray, std: float) -> tuple[float, float]:
    """Return the posterior mean of a change of slope, and no shift."""
    residual = float(sums[0])
    bend = FARTHEST_OF_CLASSES * max(float(sums[1]), 0.0)
    return -residual * bend / (bend**2 + (std / rules.SLOPE_PRIOR_OF_CLASSES) ** 2), 0.0


SLOPE = Slope()


MOST_RATIO = 8.0
"""By which factor the rate of rows may be above or below that of persons."""


def _sums_of_rates(raw_prediction, y, out):
    """Write the residual of a row, and twice its curvature."""
    for i in range(y.size):
        p = sigmoid(raw_prediction[0, i])
        out[0, i] = p - y[i]
        out[1, i] = 2.0 * p * (1.0 - p)


SUMS_OF_MEAN_ROW = Loss("rates", _sums_of_rates, lipschitz=1.0, smoothness=1.0, n_outputs=2)
"""Two numbers of a row: no loss, but bounded like one.

The square of their norm is p^2 + 4 p^2 (1 - p)^2 where y = 0, which is 1 at p = 1 and less
elsewhere, since 1 + p >= 4 p^2 (1 - p). Where y = 1 it is its mirror.
"""


class MeanRow(Part):
    """A shift of raw predictions, after which predictions add up to the observed total.

    Rows weigh 1/m, m the public limit on the rows of a person, so that a person's sums are of
    norm 1 at most.
    """

    def share(self, request):
        """See `Part.share`."""
        return {SUMS_OF_ROWS: Share(rules.MEAN_ROW_SHARE)} if request.of_rows else {}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if SUMS_OF_ROWS not in spending.shares:
            return
        objective = learning.plan.objective
        request = learning.plan.request
        alike = replace(learning, rows=learning.rows.weighted_alike())
        coef, intercept = objective.split(learning.theta)
        coefs = np.vstack([coef, np.zeros_like(coef)])
        (residual, bend), std = sums_of_rows(
            SUMS_OF_ROWS,
            SUMS_OF_MEAN_ROW,
            SUMS_OF_MEAN_ROW.lipschitz,
            coefs,
            np.append(intercept, 0.0),
            alike,
            spending,
        )
        shares = request.family.units.weighted(learning, spending)
        rate = shares[1] / shares.sum()
        bend = max(bend / 2, std)
        observed = rate - residual / bend * rate * (1 - rate)
        least = rate / MOST_RATIO
        most = 1 - (1 - rate) / MOST_RATIO
        observed = min(max(observed, least), most, MOST_RATIO * rate)
        moved = math.log(observed / (1 - observed)) - math.log(rate / (1 - rate))
        moved /= 1 + (std / bend / rules.MEAN_ROW_PRIOR) ** 2  # the posterior mean
        learning.theta[-1] += moved / objective.intercept_scaling


MEAN_ROW = MeanRow()
