"""Differences of the losses of two models on the same records."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skdpdyn.core import rules
from skdpdyn.core.spending import SEARCH_RELEASES, Share, scaled_to
from skdpdyn.data.tally import RowTally
from skdpdyn.evaluation.numbers import (
    LEAST_RATE,
    LIMITS,
    SQUARES,
    SUMS,
    TAIL_OF_COUNTS,
    limit_of,
    most_deviance,
    most_error,
    squares_of,
)
from skdpdyn.evaluation.parts import Counted, NoisyPart
from skdpdyn.evaluation.results import PairedEvaluation
from skdpdyn.privacy.arguments import checked_pair
from skdpdyn.training.foreign import predicted as answers, quantile_of
from skdpdyn.training.targets import (
    codes_of,
    exposures,
    most_pinball,
    numbers_of,
    pinball_losses,
)

WRONG = "part that is wrong"
"""Of labels alone: their differences are whole numbers, of which most may be 0."""


def differences(
    models: Sequence[Any],
    X: Any,
    y: np.ndarray,
    owned: RowTally,
    strength: float,
    target_bounds: Any,
    exposure: Any,
    takes_exposure: bool,
) -> Counted:
    """Sum the losses of one model less those of another, cut off at limits that are bought.

    A record adds numbers in [-1, 1] in units of the limits; another one in its place moves each by
    2 at the most.
    """
    if is_classifier(models[0]):
        losses = [_of_labels(model, X, y, models) for model in models]
    else:
        low, high = checked_pair(target_bounds, "target_bounds", largest=1e150)
        of_model = _of_numbers
        quantile = common_quantile(models)
        if takes_exposure:
            of_model = partial(_of_rates, exposure=exposure)
        elif quantile is not None:
            of_model = partial(_of_quantile, quantile=quantile)
        losses = [of_model(model, X, y, low, high) for model in models]
    names = tuple(losses[0])
    most = np.array([limit for limit, _ in losses[0].values()])
    columns = np.column_stack([losses[0][name][1] - losses[1][name][1] for name in names])
    shares = {}
    searched = [
        k for k, name in enumerate(names) if name != WRONG and strength >= rules.FACTS_STRENGTH
    ]
    if searched:
        shares = {LIMITS: Share(0.05 * len(searched), SEARCH_RELEASES * len(searched))}
    shares |= {SUMS: Share(0.7), SQUARES: Share(0.15)}
    learnt: dict[str, Any] = {"names": names}

    def release(spending, total, quantile):
        limits = most.copy()
        for k in searched:
            apart = np.abs(columns[:, k])
            limits[k] = limit_of(LIMITS, apart, most[k], TAIL_OF_COUNTS, owned, spending, total)
        parts = np.clip(columns / limits, -1.0, 1.0)
        noisy = NoisyPart(SUMS, owned.columns(parts)).released(spending, quantile)
        means = np.clip(noisy.values / total, -1.0, 1.0)
        influences = list(((parts - means) / 2).T)
        learnt.update(limits=limits, sampled=4 * squares_of(influences, owned, spending))
        return [noisy]

    def evaluation(released, **public):
        return PairedEvaluation(noisy=released[0], **learnt, **public)

    return Counted(scaled_to(shares, 1.0), release, evaluation)


def common_quantile(models: Sequence[Any]) -> float | None:
    """Return the quantile that models are scored at, which one of them may not name.

    Raises
    ------
    ValueError
        If they predict different ones.
    """
    named = {quantile_of(model) for model in models} - {None}
    if len(named) > 1:
        raise ValueError(f"against must be a model of the same quantile: they are of {named}")
    return named.pop() if named else None


def probability_losses(probability: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the log loss, cut off at 3 log(n_classes), and the squared error of each row.

    Of labels that are no class, whose code is -1, both are the largest: the second is 2.
    """
    largest = 3 * math.log(probability.shape[1])
    right = probability[np.arange(codes.size), codes]
    logs = -np.log(right)
    logs = np.where((logs <= largest) & (codes >= 0), np.maximum(logs, 0.0), largest)  # NaN too
    squares = np.sum(probability**2, axis=1) - 2 * right + 1
    squares = np.where((squares <= 2) & (codes >= 0), np.maximum(squares, 0.0), 2.0)
    return logs, squares


def _of_labels(model, X, y, models):
    """Return the largest loss, and that of each row, by name."""
    classes = [np.asarray(one.classes_) for one in models]
    if not np.array_equal(*classes):
        raise ValueError("against must be a model of the same classes")
    codes = codes_of(y, classes[0])
    predicted = codes_of(answers(model, "predict", X, codes.size), classes[0])
    losses = {WRONG: (1.0, 1.0 * ((predicted != codes) | (codes < 0)))}
    if all(hasattr(one, "predict_proba") for one in models):
        probability = answers(model, "predict_proba", X, codes.size)
        logs, squares = probability_losses(probability, codes)
        losses["log loss"] = (3 * math.log(classes[0].size), logs)
        losses["Brier score"] = (2.0, squares) if classes[0].size > 2 else (1.0, squares / 2)
    return losses


def _of_numbers(model, X, y, low, high):
    """Return the largest errors, and those of each row, by name."""
    targets = np.clip(numbers_of(y), low, high)
    predicted = answers(model, "predict", X, y.size)
    errors = np.abs(np.where(predicted >= low, np.minimum(predicted, high), low) - targets)
    most = most_error(low, high)
    return {"absolute error": (most, errors), "squared error": (most**2, errors**2)}


def _of_quantile(model, X, y, low, high, quantile):
    """Return the largest pinball loss, and that of each row, by name."""
    losses, _ = pinball_losses(answers(model, "predict", X, y.size), y, quantile, low, high)
    return {"pinball loss": (most_pinball(quantile, low, high), losses)}


def _of_rates(model, X, y, low, high, exposure):
    """Return the largest deviance, and that of each row, by name."""
    observed = np.clip(numbers_of(y), low, high)
    rates = answers(model, "predict", X, y.size)
    rates = np.where(rates > LEAST_RATE, np.minimum(rates, 1 / LEAST_RATE), LEAST_RATE)
    means = exposures(exposure, y) * rates
    logs = observed * np.log(np.maximum(observed, LEAST_RATE) / means)
    most = most_deviance(low, high)
    return {"deviance": (most, np.clip(2 * (logs - (observed - means)), 0.0, most))}
