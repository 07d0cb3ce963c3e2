"""Parts that a fit of counts buys: the rate that training starts from, and a scale."""

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.losses import Loss, poisson
from skdpdyn.core.spending import SEARCH_RELEASES, Share
from skdpdyn.training.parts import (
    SECOND_RATE,
    TARGET_SCALE,
    combined,
    takes_what_is_left,
)
from skdpdyn.training.targets import residual_limit
from skdpdyn.training.values import TargetUnits

BASE_RATE = "base rate"
EXPOSURE = "mean exposure"
N_EXPOSURES = 8  # halvings that find the unit of exposures, to half an octave, and their mean
_DROWNS = 100.0  # how many times the largest count exposures are, where their mean is asked
_DOUBLINGS = 32.0  # their unit is searched from 2^-32 to 2^32
_MOST_COUNTS = 0.99  # part of the counts that are not cut off


def _of_any_exposure(largest):
    """Return the loss of counts up to ``largest``."""
    return replace(poisson(largest), at_zero=math.inf)


def loss_of_counts(target_bounds: tuple[float, float] | None) -> Loss:
    """Return the loss of counts within public bounds, or an error where there are none."""
    if target_bounds is None:
        raise ValueError(
            "target_bounds: what a fit costs depends on the largest count. Pass (0, high)"
        )
    return _of_any_exposure(target_bounds[1] / residual_limit(target_bounds[1]))


class Rate(NamedTuple):
    """Released numbers of counts: the rate of a usual exposure, that of exposure 1, a scale.

    And the rows, whose largest exposures are cut.
    """

    rows: Any
    usual: float
    rate: float
    unit: float


class CountUnits(TargetUnits):
    """The rate that training starts from, and the 95 % quantile of distances from it."""

    def loss(self, request):
        """See `TargetUnits.loss`."""
        loss = request.loss
        return _of_any_exposure((loss.smoothness - 1) ** 2) if request.recipe.adapts else loss

    def share(self, request):
        """See `Part.share`."""
        size = rules.rate_share(request.strength)
        if not (request.fit_intercept or request.recipe.adapts):
            return {}
        times = 1 + request.fit_intercept  # around 0, and around the base rate
        scale = Share(times * rules.RATE_SCALE_SHARE, times * SEARCH_RELEASES)
        shares = shares_of_rate(size, scale, request.has_exposure)
        if not request.recipe.adapts:
            shares.pop(TARGET_SCALE)
        if not request.fit_intercept:
            shares.pop(BASE_RATE)
        return shares

    def calibration_share(self, request):
        """See `TargetUnits.calibration_share`."""
        return rules.rate_calibration_share(request.strength)

    def learn(self, learning, spending):
        """See `Part.learn`."""
        request = learning.plan.request
        part = rules.count_quantile(request.strength)
        rate = self._rate(learning, spending, part)
        usual = rate.usual
        unit = rate.unit
        count = residual_limit(learning.target.attributes["target_bounds_"][1])
        flatness = min(usual / unit, 1.0)
        n_parameters = learning.plan.objective.n_parameters
        learning.facts = replace(
            learning.facts,
            enough=rules.enough_steps_of_rates(request.strength),
            flatness=flatness,
            steepness=rules.steepness_of_rates(usual * count, unit * count, part),
            time=rules.time_of_rare(request.strength, flatness, n_parameters),
        )
        learning.rows = rate.rows.with_rate(rate.rate, unit)
        learning.units = (math.log(rate.rate), 1.0)
        learning.relative = unit / usual

    def _rate(self, learning, spending, part):
        """Return the rate that was bought; without it, one of an exposure of 1."""
        rows = learning.rows
        n_samples = rows.mass
        largest = learning.target.largest

        exposure = 1.0
        if EXPOSURE in spending.shares:
            exposure, most = mean_exposure(rows, n_samples, largest, spending)
            rows = rows.with_rate(1.0, 1.0, most)
        usual = exposure

        def scale(centre):
            if TARGET_SCALE not in spending.shares:
                return 1.0
            return count_scale(rows, n_samples, largest, part, spending, centre)

        if BASE_RATE in spending.shares:
            cut = scale(0.0)
            cut_rows = rows.with_rate(1.0, cut)  # of the same targets, which take no memory
            mean, std = _mean(BASE_RATE, cut_rows, n_samples, spending)
            clear = mean >= rules.LEAST_RATE * std
            if takes_what_is_left(mean if clear else 0.0, learning, spending):
                more = _mean(SECOND_RATE, cut_rows, n_samples, spending)
                mean, std = combined(mean, std, *more)
            usual = cut * max(mean, std)
        return Rate(rows, usual, usual / exposure, scale(usual / exposure))

    def moved(self, learning, spending, residual):
        """See `TargetUnits.moved`: by the logarithm of predicted over observed counts.

        The base rate stands between both, so that its noise moves neither end far.
        """
        half = np.clip(residual * learning.relative / 2, -7 / 9, 7 / 9)  # by a factor of 8 at most
        return np.log1p(-half) - np.log1p(half)


def _mean(name, rows, n_samples, spending, centre=0.0):
    """Return the mean of counts above a centre, cut off at 1, and the deviation of its noise."""
    total, std = spending.release(name, rows.target_sum(centre, positive=True))
    return total / n_samples, std / n_samples


def shares_of_rate(size: float, scale: Share, has_exposure: bool) -> dict[str, Share]:
    """Return the shares that buy a rate: a mean of exposures, a scale of counts, their mean.

    They are bought apart, for few counts make a rate rare and not its exposures: signs of
    differences between both, of 400 claims, led to a thousandth of the rate in 3 of 30 fits.
    """
    exposures = {EXPOSURE: Share(size, N_EXPOSURES)} if has_exposure else {}
    return exposures | {TARGET_SCALE: scale, BASE_RATE: Share(size)}


def count_scale(rows, n_samples, largest, part, spending, centre=0.0):
    """Return a private scale of counts, that this part of them is within; at least 1 of them."""
    counts = partial(rows.counts, "distances", centre=centre)
    return max(spending.quantile(TARGET_SCALE, counts, largest, part, n_samples), 1 / largest)


def base_rate(rows, n_samples, largest, spending, exposure=None):
    """Return the rate and the mean count, not below its noise; the mean exposure may be known."""
    if exposure is None:
        exposure, most = mean_exposure(rows, n_samples, largest, spending)
        rows = rows.with_rate(1.0, 1.0, most)
    cut = count_scale(rows, n_samples, largest, _MOST_COUNTS, spending)
    mean = cut * max(_mean(BASE_RATE, rows.with_rate(1.0, cut), n_samples, spending))
    return mean / exposure, mean


def mean_exposure(rows, n_samples, largest, spending):
    """Estimate the mean exposure, in any unit, and where it was cut off: four times a usual one.

    Halvings find a unit in which cut off exposures are a half in the mean. Counts up to ``largest``
    are added to them, a hundredth of each.
    """

    def within(unit):
        scaled = rows.with_rate(largest / unit, largest * _DROWNS)
        return max(_mean(EXPOSURE, scaled, n_samples, spending, -_DROWNS))

    low = -_DOUBLINGS
    high = _DOUBLINGS
    for _ in range(N_EXPOSURES - 1):
        middle = (low + high) / 2
        low, high = (middle, high) if within(2.0**middle) > 0.5 else (low, middle)
    unit = 2.0 ** ((low + high) / 2 + 1)
    return unit * min(within(unit), 1.0), unit
