"""What a fit buys of counts: their rate, which training starts from, and a scale of them."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from skdpdyn import rules
from skdpdyn.data.base import target_rounding
from skdpdyn.linear_model.parts import (
    SECOND_RATE,
    TARGET_SCALE,
    TargetUnits,
    combined,
    takes_what_is_left,
)
from skdpdyn.linear_model.targets import residual_limit
from skdpdyn.losses import Loss, poisson
from skdpdyn.spending import COUNTS, Share

BASE_RATE, EXPOSURE = "base rate", "mean exposure"
N_TRIALS = 10  # halvings that find the base rate, to a sixteenth of an octave
_DROWNS = 100.0  # a rate so far above the base rate that a mean of exposures follows from it
_DOUBLINGS = 32.0  # the first rate is searched from 2^-32 to 2^32


def _of_any_exposure(largest):
    """Return the loss of counts up to ``largest``."""
    return replace(poisson(largest), at_zero=math.inf)


def loss_of_counts(target_bounds: tuple[float, float] | None) -> Loss:
    """Return the loss of counts within public bounds, or an error where there are none."""
    if target_bounds is None:
        raise ValueError(
            "target_bounds=None: what a fit costs depends on the largest count. Pass (0, high)"
        )
    return _of_any_exposure(target_bounds[1] / residual_limit(target_bounds[1]))


class CountUnits(TargetUnits):
    """The rate that training starts from, and the 95 % quantile of distances from it."""

    def loss(self, request):
        """See `TargetUnits.loss`."""
        loss = request.loss
        return _of_any_exposure((loss.smoothness - 1) ** 2) if request.adapts else loss

    def share(self, request):
        """See `Part.share`."""
        shares = {}
        if request.adapts:
            shares[TARGET_SCALE] = Share(2 * rules.SCALE_SHARE, 2 * COUNTS)
            if request.has_exposure:
                shares[EXPOSURE] = Share(rules.SCALE_SHARE)
        if request.fit_intercept:
            size = rules.rate_share(request.strength)
            shares[BASE_RATE] = Share(size, N_TRIALS if request.has_exposure else 1)
        return shares

    def calibration_share(self, request):
        """See `TargetUnits.calibration_share`: exposures say nothing of the mean rate."""
        return 0.0 if request.has_exposure else rules.rate_calibration_share(request.strength)

    def learn(self, learning, spending):
        """See `Part.learn`."""
        request, rows, largest = learning.plan.request, learning.rows, learning.target.largest
        part, rate = rules.count_quantile(request.strength), 1.0

        def scale(centre):
            """Return a scale of the counts, at least 1 of them."""
            if TARGET_SCALE not in spending.shares:
                return 1.0
            counts = partial(rows.counts, "distances", centre=centre)
            found = spending.quantile(TARGET_SCALE, counts, largest, part, rows.n_records)
            return max(found, 1 / largest)

        if BASE_RATE in spending.shares:
            cut = scale(0.0)
            if request.has_exposure:
                rate = base_rate(rows, rows.n_records, spending)
            else:
                cut_rows = rows.with_rate(1.0, cut)
                mean, std = _mean(BASE_RATE, cut_rows, spending)
                clear = mean >= rules.LEAST_RATE * std
                if takes_what_is_left(mean if clear else 0.0, learning, spending):
                    mean, std = combined(mean, std, *_mean(SECOND_RATE, cut_rows, spending))
                rate = cut * max(mean, std)
        unit = scale(rate)
        learning.flatness = min(rate / unit, 1.0)
        if EXPOSURE in spending.shares:  # of any unit: expected counts are what is curved
            expected = rows.with_rate(rate, unit * _DROWNS)
            learning.flatness = min(max(_mean(EXPOSURE, expected, spending, -_DROWNS)), 1.0)
        learning.steepness = min(rules.SAFETY * learning.flatness, 1.0)
        n_parameters = learning.plan.objective.n_parameters
        learning.time = rules.time_of_rare(request.strength, learning.flatness, n_parameters)
        learning.rows, learning.units = rows.with_rate(rate, unit), (math.log(rate), 1.0)
        learning.relative = unit / rate

    def moved(self, learning, spending, residual):
        """See `TargetUnits.moved`: by the logarithm of predicted over observed counts.

        The base rate stands between both, so that its noise moves neither end far.
        """
        half = np.clip(residual * learning.relative / 2, -7 / 9, 7 / 9)  # by a factor of 8 at most
        return np.log1p(-half) - np.log1p(half)


def _mean(name, rows, spending, centre=0.0):
    """Return the mean of counts above a centre, cut off at 1, and the deviation of its noise.

    A record moves the sum of numbers in [0, 1] by 1 at most, under both relations.
    """
    sensitivity = 1 + target_rounding(rows.n_records, rows.most_rows)
    found = float(spending.release(name, rows.target_sum(centre), sensitivity))
    std = sensitivity * spending.noise_multiplier(name)
    return found / rows.n_records, std / rows.n_records


def base_rate(rows, n_samples, spending):
    """Estimate the rate at which clipped residuals add up to 0, by bisection.

    One record moves a sum of numbers in [-1, 1] by 1, or by 2 if it is replaced.
    """
    low, high = -_DOUBLINGS, _DOUBLINGS
    sensitivity = spending.per_record + target_rounding(n_samples, rows.most_rows)
    for _ in range(N_TRIALS):
        middle = (low + high) / 2
        over = spending.release(BASE_RATE, rows.target_sum(2.0**middle), sensitivity) < 0
        low, high = (low, middle) if over else (middle, high)
    return 2.0 ** ((low + high) / 2)
