"""The quantile of residuals after training: counts of targets below shifted predictions.

Smoothed kinks, short training and rows that are shortened leave predictions beside their quantile.
So once training is over, a fit buys a few counts of the targets at or below prediction + t, one
after the other, each where the shift is likely to be, and moves its intercept.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from skdpdyn.core import rules
from skdpdyn.core.losses import below
from skdpdyn.core.spending import Share, Spending
from skdpdyn.training.parts import sums_of_rows
from skdpdyn.training.values import Learning, Part

COUNTS_BELOW = "quantile of residuals"
FARTHEST = 1.0
"""The largest shift, in units of the scale of targets."""
_SPREADS = np.geomspace(0.005, 1.0, 41)  # of residuals about their quantile
_ZOOMS = 4  # looks at the posterior, each closer
_PLACES = 201
_CLEAR = 5.0  # deviations of the noise on a part


class QuantileOfResiduals(Part):
    """Counts below shifted predictions, after which the part below them is the quantile.

    With the quantile q, a record adds w (1 - q) where its target is below, and -w q elsewhere, w in
    [0, 1] its weight; a person adds a mean of such numbers, times their weight. The sum is 0 at the
    quantile, whatever all weights add up to.
    """

    def share(self, request):
        """See `Part.share`."""
        units = request.family.units
        if not request.fit_intercept or units is None or not units.quantiles:
            return {}
        size = rules.residuals_share(request.strength)
        return {COUNTS_BELOW: Share(size, len(units.quantiles) * rules.COUNTS_OF_RESIDUALS)}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if COUNTS_BELOW not in spending.shares:
            return
        objective = learning.plan.objective
        coef, intercept = objective.split(learning.theta)
        quantiles = learning.plan.request.family.units.quantiles
        for k, quantile in enumerate(quantiles):
            shift = bought_shift(
                quantile, coef[k : k + 1], intercept[k : k + 1], learning, spending
            )
            learning.theta[k - len(quantiles)] += shift / objective.intercept_scaling


def bought_shift(
    quantile: float,
    coef: np.ndarray,
    intercept: np.ndarray,
    learning: Learning,
    spending: Spending,
) -> float:
    """Buy counts below the predictions of one output, and return the shift to its quantile."""
    loss = below(quantile)
    places: list[float] = []
    parts: list[float] = []
    shift = 0.0
    for _ in range(rules.COUNTS_OF_RESIDUALS):
        total, std = sums_of_rows(
            COUNTS_BELOW,
            loss,
            loss.lipschitz,
            coef,
            intercept + shift,
            learning,
            spending,
        )
        places.append(shift)
        parts.append(quantile + float(total[0]) / learning.rows.mass)
        shift = likely_shift(places, parts, quantile, std / learning.rows.mass)
    between = _between(places, parts, quantile, _CLEAR * std / learning.rows.mass)
    return shift if between is None else between


def _between(places, parts, quantile, clear):
    """Return where parts on both sides of the quantile say that it is; None if they are not clear.

    Many equal targets make a jump, which no normal law has.
    """
    away = np.array(parts) - quantile
    at = np.array(places)
    below = at[away < 0].max(initial=-math.inf)
    above = at[away >= 0].min(initial=math.inf)
    if not -math.inf < below < above < math.inf:
        return None
    low, high = (float(away[at == end][0]) for end in (below, above))
    if min(-low, high) < clear:
        return None
    return float(below + (above - below) * low / (low - high))


def likely_shift(places: list[float], parts: list[float], quantile: float, std: float) -> float:
    """Return the posterior mean of the shift that has this quantile of residuals below it.

    Parts are modelled as Phi(z + (place - shift) / spread), z the quantile of a normal, and the
    farther one is from the quantile, the less it says of the shift.

    Parameters
    ----------
    places : list of float
        Shifts at which parts were bought, in units of the scale of targets.
    parts : list of float
        Noisy parts of the records below prediction + place.
    quantile : float
        The part that is wanted.
    std : float
        Deviation of the noise on a part.

    Returns
    -------
    float
    """
    normal = float(ndtri(quantile))
    low = -FARTHEST
    high = FARTHEST
    mean = 0.0
    for _ in range(_ZOOMS):
        grid = np.linspace(low, high, _PLACES)
        fits = -((grid[:, None] / rules.SHIFT_PRIOR) ** 2) / 2 + np.zeros(_SPREADS.size)
        for place, part in zip(places, parts, strict=True):
            expected = ndtr(normal + (place - grid[:, None]) / _SPREADS)
            doubt = std**2 + (rules.DOUBT_OF_FAR_PARTS * (part - quantile)) ** 2 + 1e-16
            fits -= (expected - part) ** 2 / (2 * doubt)
        weights = np.exp(fits - fits.max()).sum(axis=1)
        weights /= weights.sum()
        mean = float(weights @ grid)
        variance = max(float(weights @ grid**2) - mean**2, 0.0)
        deviation = max(math.sqrt(variance), grid[1] - grid[0])
        low = max(-FARTHEST, mean - 6 * deviation)
        high = min(FARTHEST, mean + 6 * deviation)
    return mean


QUANTILE = QuantileOfResiduals()
