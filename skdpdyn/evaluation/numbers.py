"""Scores of numbers, quantiles and counts: limits are bought, then sums, then their squares.

Noise is in proportion to limits, so they follow the records. Squares of what records add to a
metric, about the released one, say how far the metric of a population may be.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.sealed import stacked
from skdpdyn.core.spending import SEARCH_RELEASES, Share, scaled_to, total_of
from skdpdyn.data.tally import RowTally, TalliedRows
from skdpdyn.evaluation.parts import Counted, NoisyPart
from skdpdyn.evaluation.results import QuantileEvaluation, RateEvaluation, RegressionEvaluation
from skdpdyn.privacy import Budget
from skdpdyn.privacy.arguments import checked_pair
from skdpdyn.privacy.checks import checked_number
from skdpdyn.training.counts import base_rate, shares_of_rate
from skdpdyn.training.facts import TargetRange
from skdpdyn.training.targets import (
    Numbers,
    exposures,
    most_pinball,
    numbers_of,
    pinball_losses,
    residual_limit,
)

DECILES = "deciles of rates"
LIMITS = "limits"
MIDDLE = "middle of targets"
SUMS = "sums"
SQUARES = "squares"
# Limits are this many times the quantile beyond which there is a part of the records: a fixed one
# where they are few, and as many records as noise hides where they are not
_BEYOND = 2.0
_TAIL = 0.05
TAIL_OF_COUNTS = 0.01  # counts and deviances have longer tails, to one side
_HIDDEN = 20.0
_LEAST_COUNT = 2.0
_OCTAVES = 16
_N_PLACES = 64
LEAST_RATE = 1e-30  # rates are not smaller, nor larger than its reciprocal


def of_numbers(
    score: Callable[..., Counted],
    most_of: Callable[[float, float], float],
    targets: Numbers,
    y: np.ndarray,
    owned: RowTally,
    budget: Budget,
    target_bounds: Any,
    largest_error: Any,
) -> Counted:
    """Return scores of targets that are numbers within bounds, which are bought if none are known.

    ``score(strength, low, high, largest_error)`` counts, and ``most_of(low, high)`` is the largest
    error.
    """
    strength = rules.strength_of(owned.n, budget.mu, budget.adjacency)
    if target_bounds is not None:
        low, high = checked_pair(target_bounds, "target_bounds", largest=1e150)
        most = most_of(low, high)
        requirement = f"above 0 and at most {most:g}"
        return score(strength, low, high, _checked_limit(largest_error, most, requirement))
    if strength < rules.FACTS_STRENGTH:
        raise ValueError(
            "target_bounds=None: the model has none, and there are too few records to estimate "
            f"them at epsilon={budget.epsilon:g}. Pass public bounds (low, high)"
        )
    numbers = numbers_of(y)
    largest = _checked_limit(largest_error, math.inf, "above 0")
    buyer = TargetRange(targets)
    first = buyer.shares(strength)
    chosen: list[Counted] = []

    def within(low, high):
        limit = None if largest is None else min(largest, most_of(low, high))
        return score(strength, low, high, limit)

    def release(spending, total, quantile):
        rows = TalliedRows(numbers, None, owned)
        chosen.append(within(*buyer.range_of(rows, spending)))
        return chosen[0].release(spending, total, quantile)

    def evaluation(released, **public):
        return chosen[0].evaluation(released, **public)

    placeholder = within(*targets.placeholder)
    shares = first | scaled_to(placeholder.shares, 1 - total_of(first.values()))
    return Counted(shares, release, evaluation)


def _checked_limit(largest_error, most, requirement):
    """Return the limit at which errors are cut off; None: it is bought."""
    if largest_error is None:
        return None
    return checked_number(largest_error, "largest_error", lambda x: 0 < x <= most, requirement)


def most_error(low: float, high: float) -> float:
    """Return the largest error of numbers within bounds."""
    return high - low


def most_deviance(low: float, high: float) -> float:
    """Return the largest limit of deviances of counts up to a largest one."""
    return 2 * high + 8


def limit_of(name, numbers, most, tail, owned, spending, total):
    """Return a limit of numbers that few are beyond: twice a private quantile, or ``most``."""
    strength = rules.strength_of(owned.n, spending.mu, spending.adjacency)
    quantile = spending.quantile(
        name,
        partial(owned.within, numbers),
        most / _BEYOND,
        1 - min(tail, _HIDDEN / strength),
        total,
        octaves=_OCTAVES,
    )
    return _BEYOND * quantile


def _middle(targets, ends, owned, spending, total):
    """Return about the median of targets, and a limit of distances from it.

    There are two searches of each; the second ones look closer, where the first ones led.
    """
    low, high = ends
    for _ in range(2):
        grid = np.linspace(low, high, _N_PLACES)
        centre = spending.threshold(MIDDLE, partial(owned.within, targets), grid, 0.5, total)
        centre -= (grid[1] - grid[0]) / 2
        most = max(centre - ends[0], ends[1] - centre)
        reach = limit_of(MIDDLE, np.abs(targets - centre), most, _TAIL, owned, spending, total)
        low = max(centre - reach, ends[0])
        high = min(centre + reach, ends[1])
    return centre, reach


def errors_of(
    predicted: np.ndarray,
    y: np.ndarray,
    owned: RowTally,
    strength: float,
    low: float,
    high: float,
    largest: float | None,
) -> Counted:
    """Sum errors, their squares, targets and their squares, each in units of a limit."""
    targets = np.clip(numbers_of(y), low, high)
    errors = np.abs(np.where(predicted >= low, np.minimum(predicted, high), low) - targets)
    shares: dict[str, Share] = {}
    if strength >= rules.FACTS_STRENGTH:
        shares |= {} if largest is not None else {LIMITS: Share(0.05, SEARCH_RELEASES)}
        shares |= {MIDDLE: Share(0.1, 4 * SEARCH_RELEASES)}
    shares |= {SUMS: Share(0.75), SQUARES: Share(0.1)}
    learnt: dict[str, Any] = {}

    def release(spending, total, quantile):
        limit = high - low if largest is None else largest
        centre = (low + high) / 2
        reach = (high - low) / 2
        if LIMITS in shares:
            limit = limit_of(LIMITS, errors, high - low, _TAIL, owned, spending, total)
        if MIDDLE in shares:
            centre, reach = _middle(targets, (low, high), owned, spending, total)
        parts = np.minimum(errors / limit, 1.0)
        from_centre = np.clip((targets - centre) / (2 * reach), -0.5, 0.5)
        sums = [owned.sum(parts), owned.sum(parts**2), owned.moments(from_centre)]
        noisy = NoisyPart(SUMS, stacked(sums)).released(spending, quantile)
        mean, square, along, variance = noisy.values / total
        mean, square = np.clip([mean, square], 0.0, 1.0)
        variance = max(variance / 4 - along**2, 1e-12)
        # what a record moves the ratio of squared errors to squared deviations by, per deviation
        unexplained = min(square * limit**2 / variance / (2 * reach) ** 2, 10.0)
        along = np.clip(along, -0.5, 0.5)
        of_deviations = unexplained * (2 * reach * (from_centre - along)) ** 2
        most = max(limit**2, unexplained * (2 * reach * (0.5 + abs(along))) ** 2)
        influences = [
            parts - mean,
            parts**2 - square,
            (limit**2 * parts**2 - of_deviations) / most,
        ]
        units = np.array([limit, limit**2, most]) ** 2
        learnt["largest_error"] = limit
        learnt["target_scale"] = (centre, 2 * reach)
        learnt["sampled"] = units * squares_of(influences, owned, spending)
        return [noisy]

    def evaluation(released, **public):
        return RegressionEvaluation(
            noisy=released[0], target_bounds=(low, high), **learnt, **public
        )

    return Counted(scaled_to(shares, 1.0), release, evaluation)


def quantiles_of_model(
    predicted: np.ndarray,
    y: np.ndarray,
    quantile: float,
    owned: RowTally,
    strength: float,
    low: float,
    high: float,
    largest: float | None,
) -> Counted:
    """Sum pinball losses, in units of a limit, and count targets at or below the predictions."""
    losses, covered = pinball_losses(predicted, y, quantile, low, high)
    most = most_pinball(quantile, low, high)
    shares: dict[str, Share] = {}
    if strength >= rules.FACTS_STRENGTH and largest is None:
        shares |= {LIMITS: Share(0.05, SEARCH_RELEASES)}
    shares |= {SUMS: Share(0.85), SQUARES: Share(0.1)}
    # losses on the rarer side are the large ones
    tail = 2 * _TAIL * min(quantile, 1 - quantile)
    learnt: dict[str, Any] = {}

    def release(spending, total, quantile_of_noise):
        limit = most if largest is None else largest
        if LIMITS in shares:
            limit = limit_of(LIMITS, losses, most, tail, owned, spending, total)
        numbers = np.column_stack([np.minimum(losses / limit, 1.0), covered])
        noisy = NoisyPart(SUMS, owned.columns(numbers, 0.0)).released(spending, quantile_of_noise)
        influences = list((numbers - np.clip(noisy.values / total, 0.0, 1.0)).T)
        squares = squares_of(influences, owned, spending)
        learnt.update(largest_error=limit, sampled=np.array([limit**2, 1.0]) * squares)
        return [noisy]

    def evaluation(released, **public):
        return QuantileEvaluation(
            noisy=released[0],
            quantile=quantile,
            target_bounds=(low, high),
            **learnt,
            **public,
        )

    return Counted(scaled_to(shares, 1.0), release, evaluation)


def squares_of(influences, owned, spending, by_place=()):
    """Buy sums of squares of influences in [-1, 1], and of others by place; none too small."""
    sums = owned.columns(np.column_stack(influences) ** 2, least=0.0)
    sums = stacked([sums, *(owned.by_place(of**2, *places) for of, *places in by_place)])
    noisy = NoisyPart(SQUARES, sums).released(spending, 1.0)
    std = np.sqrt(np.diag(noisy.covariances(np.eye(noisy.values.size))))
    return np.maximum(noisy.values, 0.0) + std


def rates_of_model(
    rates: np.ndarray,
    y: np.ndarray,
    exposure: Any,
    owned: RowTally,
    strength: float,
    low: float,
    high: float,
    largest: float | None,
) -> Counted:
    """Sum expected and observed counts, in all and by decile of the rate, and deviances."""
    if not low >= 0:
        raise ValueError(f"target_bounds={(low, high)!r} must not begin below 0: counts are scored")
    has_exposure = exposure is not None
    exposure = exposures(exposure, y)
    observed = np.clip(numbers_of(y), low, high)
    rates = np.where(rates > LEAST_RATE, np.minimum(rates, 1 / LEAST_RATE), LEAST_RATE)
    unit = residual_limit(high)
    rows = TalliedRows(observed / exposure, exposure / unit, owned)
    exposure_of_all = None if has_exposure else 1 / unit
    shares = {
        DECILES: Share(0.15, 10 * SEARCH_RELEASES),
        **shares_of_rate(0.02, Share(0.01, SEARCH_RELEASES), has_exposure),
    }
    if strength >= rules.FACTS_STRENGTH:
        shares |= {LIMITS: Share(0.06, (1 + (largest is None)) * SEARCH_RELEASES)}
    shares |= {SUMS: Share(0.66), SQUARES: Share(0.1)}
    learnt: dict[str, Any] = {}

    def deviances(means):
        logs = observed * np.log(np.maximum(observed, LEAST_RATE) / means)
        return np.maximum(2 * (logs - (observed - means)), 0.0)

    def release(spending, total, quantile):
        edges = _deciles(rates, high, owned, spending, total)
        rate, _ = base_rate(rows, total, high / unit, spending, exposure_of_all)
        expected = np.minimum(exposure * rates, high)
        of_models = [deviances(exposure * of_model) for of_model in (rates, rate)]
        most = high
        limit = most_deviance(low, high) if largest is None else largest
        if LIMITS in shares:
            buy = partial(limit_of, LIMITS, owned=owned, spending=spending, total=total)
            most = buy(np.maximum(observed, expected), high, TAIL_OF_COUNTS)
            most = max(most, min(_LEAST_COUNT, high))
            if largest is None:
                limit = buy(np.maximum(*of_models), limit, TAIL_OF_COUNTS)
        places = np.searchsorted(edges, rates)
        counts = np.minimum(np.column_stack([expected, observed]) / most, 1.0)
        losses = np.minimum(np.column_stack(of_models) / limit, 1.0)
        sums = [owned.by_place(of, places, 10) for of in counts.T]
        sums += [owned.columns(counts, 0.0), owned.columns(losses, 0.0)]
        noisy = NoisyPart(SUMS, stacked(sums)).released(spending, quantile)
        learnt.update(thresholds=edges, rate=rate, largest_count=most, largest_error=limit)
        learnt["sampled"] = _of_rates(noisy.values, total, counts, losses, places, owned, spending)
        return [noisy]

    def evaluation(released, **public):
        return RateEvaluation(noisy=released[0], **learnt, **public)

    return Counted(scaled_to(shares, 1.0), release, evaluation)


def _deciles(rates, high, owned, spending, total):
    """Return rates that a tenth, two tenths, ... of the records are within, about."""
    search = partial(spending.quantile, DECILES, partial(owned.within, rates))
    middle = search(high * 2.0**10, 0.5, total, octaves=30)
    return np.sort([search(8 * middle, k / 10, total, octaves=6) for k in range(1, 10)])


def _of_rates(values, total, counts, losses, places, owned, spending):
    """Buy squared influences on each ratio of `RateEvaluation`, in units of released limits."""
    of_groups = _ratios(values[10:20], values[:10])
    of_all = _ratios(values[21], values[20])
    unexplained = _ratios(values[22], values[23])
    units = np.maximum(np.concatenate([[1.0, unexplained, of_all], of_groups]), 1.0)
    expected, observed = counts.T
    of_model, of_one = losses.T
    influences = [
        of_model - np.clip(values[22] / total, 0.0, 1.0),
        (of_model - unexplained * of_one) / units[1],
        (observed - of_all * expected) / units[2],
    ]
    of_place = (observed - of_groups[places] * expected) / units[3:][places]
    return units**2 * squares_of(influences, owned, spending, [(of_place, places, 10)])


def _ratios(above, below):
    """Return ratios of noisy sums, from 0 to 10."""
    return np.clip(above / np.maximum(below, 1e-300), 0.0, 10.0)
