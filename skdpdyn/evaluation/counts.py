"""Counts and sums over the records that are scored."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg, special
from sklearn.base import is_classifier, is_regressor

from skdpdyn.core import rules
from skdpdyn.core.sealed import Noisy, Sealed, stacked
from skdpdyn.core.spending import SEARCH_RELEASES, Share, Spending, scaled_to, total_of
from skdpdyn.data.tally import RowTally, TalliedRows
from skdpdyn.evaluation.bins import CELL_EDGES, N_CELLS, Bins, joined_bins
from skdpdyn.evaluation.estimates import Covariance, NoisyNumbers
from skdpdyn.evaluation.results import (
    MOST_CONFUSED,
    ClassEvaluation,
    PrivateEvaluation,
    RateEvaluation,
    RegressionEvaluation,
    ScoreEvaluation,
)
from skdpdyn.exceptions import PrivacyUtilityWarning, warn
from skdpdyn.privacy import Budget
from skdpdyn.privacy.checks import checked_number, checked_pair, quoted
from skdpdyn.training.base import quoting_no_records, refuse_unreadable
from skdpdyn.training.counts import TARGET_SCALE, base_rate, shares_of_rate
from skdpdyn.training.facts import TargetRange
from skdpdyn.training.foreign import predicted as answers
from skdpdyn.training.parameters import within
from skdpdyn.training.parts import FALSE
from skdpdyn.training.targets import (
    Counts,
    Numbers,
    as_labels,
    codes_of,
    exposures,
    numbers_of,
    residual_limit,
)

_MOST_THRESHOLDS = 1023
DECILES = "deciles of rates"
SUMS = "sums"
# Noisy counts in public cells of log odds say where bins of equal numbers of records end
CELLS = "cells of log odds"
COUNTS_BY_LABEL = "counts"
CELLS_SHARE = 0.1
WEIGHTS = "sum of weights"
WEIGHTS_SHARE = 0.03
_LEAST_RATE = 1e-30  # rates are not smaller, nor larger than its reciprocal


@dataclass(frozen=True, eq=False)
class NoisyPart:
    """Numbers to release together.

    Row i of ``strategy`` says which of the wanted numbers the one at i sums; a vector: the one at i
    is ``strategy[i]`` times the wanted number. ``known`` are pairs of weights of the wanted numbers
    and their weighted sum, if that is public.
    """

    name: str
    sums: Sealed
    share: float = 1.0
    strategy: np.ndarray = field(default_factory=partial(np.ones, 1))
    known: tuple[tuple[np.ndarray, float], ...] = ()

    def released(self, spending: Spending, quantile: float) -> NoisyNumbers:
        """Release the values, and return the least-squares estimate of the wanted numbers."""
        sums, std = spending.release(self.name, self.sums)
        noisy = np.atleast_1d(sums)
        if self.strategy.ndim == 1:
            values = noisy / self.strategy
            covariance = Covariance.apart(np.broadcast_to(std / self.strategy, noisy.shape) ** 2)
        else:
            information = np.linalg.inv(self.strategy.T @ self.strategy)
            values = information @ (self.strategy.T @ noisy)
            covariance = Covariance.shared(std**2 * information)
        numbers = NoisyNumbers(values, covariance, quantile)
        for weights, total in self.known:
            numbers = numbers.given(weights, total)
        return numbers


@dataclass(frozen=True, eq=False)
class Counted:
    """Statistics to release, and a function that makes an evaluation of the released numbers.

    ``learn`` returns the statistics, with the same names and shares, of what it buys by the shares
    ``first``; None: they are ``parts``.
    """

    parts: tuple[NoisyPart, ...]
    evaluation: Callable[..., PrivateEvaluation]
    first: dict[str, Share] = field(default_factory=dict)
    learn: Callable[[Spending, float], tuple[NoisyPart, ...]] | None = None

    @property
    def shares(self) -> dict[str, Share]:
        """Shares of all that is bought, which add up to 1."""
        return self.first | {part.name: Share(part.share) for part in self.parts}

    def learnt(self, spending: Spending, total: float) -> tuple[NoisyPart, ...]:
        """Return the statistics to release, of records of this total weight."""
        return self.parts if self.learn is None else self.learn(spending, total)


def counted(model, X, y, beside, budget_of, **options):
    """Return the tally of records or persons, and the statistics of scores to release.

    With ``groups``, each row of a person with k has weight 1/k: a person adds the mean of what
    single rows would add. ``beside`` are groups, weights and their bounds, ``budget_of`` returns
    the budget by the number of records, ``options`` are those of `evaluate` for one kind of model.
    """
    refuse_unreadable(X, y)
    classes = _classes_of(model, options)
    y = quoting_no_records(np.asarray, as_labels(y, classes))
    if y.ndim != 1 or not y.size:
        raise ValueError(f"y has shape {y.shape}: pass one target for each row, and at least one")
    groups, sample_weight, bounds = beside
    part = None if sample_weight is None else within(bounds, sample_weight, y.size)
    owned = RowTally.by(y.size, groups, part)
    thresholds = options.pop("thresholds")
    exposure = options.pop("exposure")
    budget = budget_of(n_samples=owned.n)
    if classes is None:
        predicted = answers(model, "predict", X, y.size)
        if options["target_bounds"] is None:
            options["target_bounds"] = getattr(model, "target_bounds_", None)
        if exposure is not None or _takes_exposure(model):
            score = partial(_rates, predicted, y, exposure, owned)
            return owned, _of_numbers(score, _most_deviance, Counts(), y, owned, budget, **options)
        score = partial(_errors, predicted, y, owned)
        return owned, _of_numbers(score, _most_error, Numbers(), y, owned, budget, **options)
    codes = codes_of(y, classes)
    if classes.size > 2:
        return owned, _confusions(model, X, codes, owned, classes)
    edges = _checked_thresholds(thresholds)
    return owned, _histogram(model, X, codes, owned, classes, edges)


def _classes_of(model, options):
    """Return the classes of a model, None for a regression; refuse options of another kind."""
    if not is_regressor(model) and not is_classifier(model):
        raise ValueError(f"a {type(model).__name__} is neither a classifier nor a regressor")
    classes = None if is_regressor(model) else np.asarray(model.classes_)
    for name, value in options.items():
        of_two = name == "thresholds"
        fits = classes is not None and classes.size == 2 if of_two else classes is None
        if value is not None and not fits:
            shown = "..." if name == "exposure" else repr(value)
            kind = "a classifier of two classes" if of_two else "a regression"
            raise ValueError(f"{name}={shown} is for {kind}, and not for a {type(model).__name__}")
    return classes


def total_weight(owned: RowTally, spending: Spending) -> Noisy:
    """Return the sum of the weights, and the deviation of its noise: bought of a design."""
    if not owned.is_design:
        return Noisy(float(owned.n), 0.0)
    total, std = spending.release(WEIGHTS, owned.total())
    return Noisy(max(total, 1.0), std)


def _histogram(model, X, codes, owned, classes, thresholds):
    """Count by label and bin; bins of about equal numbers of records are bought first."""
    probability = answers(model, "predict_proba", X, codes.size)[:, 1]
    probability = np.where(probability >= 0, probability, 0.0)  # no NaN
    learnt: list[Bins] = []

    def learn(spending, total):
        places = np.searchsorted(special.expit(CELL_EDGES[1:-1]), probability)
        cells = counts_of_bins(CELLS, places, (1, N_CELLS), owned)
        strength = rules.strength_of(owned.n, spending.mu, spending.adjacency)
        bins = Bins.of(cells.released(spending, 1.0), total, strength, thresholds)
        learnt.append(bins)
        n_bins = bins.edges.size + 1
        places = np.searchsorted(bins.edges, probability) + codes.astype(np.intp) * n_bins
        places = np.where(codes < 0, 2 * n_bins, places)
        joined = joined_bins(bins.edges, thresholds)
        shape = (2, n_bins)
        return (counts_of_bins(COUNTS_BY_LABEL, places, shape, owned, joined, True),)

    def evaluation(released, **public):
        (noisy,) = released
        _warn_of_others(noisy, classes)
        (bins,) = learnt
        log_losses, squares = bins.losses(noisy)
        edges = bins.edges
        return ScoreEvaluation(
            noisy=noisy,
            thresholds=edges if thresholds is None else thresholds,
            edges=edges,
            middles=bins.middles,
            losses=log_losses,
            squares=squares,
            **public,
        )

    shares = {CELLS: Share(CELLS_SHARE), COUNTS_BY_LABEL: Share(1 - CELLS_SHARE)}
    return Counted((), evaluation, shares, learn)


def counts_of_bins(name, places, shape, owned, joined=None, others=False):
    """Count by label and bin, at every resolution but the coarsest, whose sum is public.

    ``joined`` are the numbers of bins of another kind that join these: they are counted at every
    resolution too, and the squares of what a record adds to both kinds of counts are as large.
    ``others``: whether a last count is of all other labels. It is told as loud as the counts of a
    record of a label are together, so that no record adds a longer vector than another one.
    """
    n_labels, n_bins = shape
    levels = _resolutions(np.arange(n_bins))
    square = float(len(levels))
    if joined is not None:
        coarse = _resolutions(joined)
        weight = math.sqrt(len(levels) / len(coarse))
        levels += [weight * level for level in coarse]
        square *= 2
    strategy = np.kron(np.eye(n_labels), np.vstack(levels))
    if others:
        strategy = linalg.block_diag(strategy, math.sqrt(square))
    counts = owned.by_strategy(places, strategy)
    known = owned.known(np.ones(strategy.shape[1]))
    return NoisyPart(name, counts, strategy=strategy, known=known)


def _resolutions(bins):
    """Return matrices that sum 1, 2, 4, ... neighbouring bins, up to two sums; each is in one."""
    n_bins = int(bins[-1]) + 1
    return [
        1.0 * (np.arange(-(-n_bins >> k))[:, None] == bins >> k)
        for k in range((n_bins - 1).bit_length())
    ]


def _confusions(model, X, codes, owned, classes):
    """Count by true and predicted label, and sum the log losses; the last count is of others."""
    predicted = codes_of(answers(model, "predict", X, codes.size), classes)
    with_losses = hasattr(model, "predict_proba")
    count = _pairs_of_labels if classes.size <= MOST_CONFUSED else _right_and_wrong
    counts = count(codes, predicted, owned, classes.size)
    parts = [replace(counts, share=1 - rules.LOG_LOSS_SHARE * with_losses)]
    largest = 3 * math.log(classes.size)
    if with_losses:
        probability = answers(model, "predict_proba", X, codes.size)
        losses = -np.log(probability[np.arange(codes.size), codes]) / largest
        losses = np.where((losses <= 1) & (codes >= 0), losses, 1.0)  # NaN too
        parts.append(NoisyPart("log losses", owned.sum(losses), rules.LOG_LOSS_SHARE))

    def evaluation(released, **public):
        noisy = released[0]
        if classes.size > MOST_CONFUSED:
            right, by_true, by_predicted = np.arange(3 * classes.size).reshape(-1, 3).T
            last = noisy.values.size - 1
            places = [np.column_stack([right, wrong]).ravel() for wrong in (by_true, by_predicted)]
            noisy, public["by_predicted"] = (noisy.of(np.append(of, last)) for of in places)
        _warn_of_others(noisy, classes)
        log_loss = None
        if with_losses:
            losses = released[1].beside(*public["total"])
            log_loss = losses.ratio(np.array([largest, 0]), np.array([0, 1]), (0.0, largest))
        return ClassEvaluation(noisy=noisy, classes=classes, log_loss=log_loss, **public)

    return Counted(tuple(parts), evaluation)


def _pairs_of_labels(codes, predicted, owned, n_classes):
    """Count by pair of true and predicted label."""
    size = n_classes**2
    places = np.where((codes < 0) | (predicted < 0), size, codes * n_classes + predicted)
    known = owned.known(np.ones(size + 1))
    return NoisyPart("counts", owned.counts(places, size + 1), known=known)


def _right_and_wrong(codes, predicted, owned, n_classes):
    """Count, for each label, records of it that are right, and wrong ones by either label.

    A record that is wrong is in two counts. The only count of one that is right, or of another
    label, is told as loud as these two are together.
    """
    known = (codes >= 0) & (predicted >= 0)
    right = known & (codes == predicted)
    by_true = np.where(known, 3 * codes + ~right, 3 * n_classes)
    by_predicted = np.where(known & ~right, 3 * predicted + 2, -1)
    strategy = np.append(np.tile([math.sqrt(2), 1.0, 1.0], n_classes), math.sqrt(2))
    counts = owned.at_several([by_true, by_predicted], strategy, math.sqrt(2))
    sums = [np.append(np.tile(of, n_classes), 1.0) for of in ([1.0, 1.0, 0.0], [1.0, 0.0, 1.0])]
    wrong = (sums[0] - sums[1], 0.0)  # wrong records are as many by either label
    return NoisyPart("counts", counts, strategy=strategy, known=(wrong, *owned.known(sums[0])))


def _warn_of_others(noisy, classes):
    """Warn of labels that are no class, where their noisy count shows some."""
    last = np.append(np.zeros(noisy.values.size - 1), 1.0)
    if noisy.values[-1] >= -math.sqrt(noisy.covariance.times(last)[-1]) * special.ndtri(FALSE):
        warn(
            f"noisy counts show labels other than classes={classes.tolist()}, which count as "
            "wrong: see the part `other` of the records",
            PrivacyUtilityWarning,
        )


def _of_numbers(
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

    ``score(low, high, largest_error)`` counts, and ``most_of(low, high)`` is the largest error.
    """
    if target_bounds is not None:
        low, high = checked_pair(target_bounds, "target_bounds", largest=1e150)
        most = most_of(low, high)
        requirement = f"above 0 and at most {most:g}"
        return score(low, high, _checked_limit(largest_error, most, requirement))
    strength = rules.strength_of(owned.n, budget.mu, budget.adjacency)
    if strength < rules.FACTS_STRENGTH:
        raise ValueError(
            "target_bounds=None: the model knows none, and so few records pay for none at "
            f"epsilon={budget.epsilon:g}. Pass public bounds (low, high)"
        )
    numbers = numbers_of(y)
    largest = _checked_limit(largest_error, math.inf, "above 0")
    buyer = TargetRange(targets)
    first = buyer.shares(strength)
    chosen: list[Counted] = []

    def within(low, high):
        return score(low, high, min(largest, most_of(low, high)))

    def learn(spending, total):
        rows = TalliedRows(numbers, None, owned)
        chosen.append(within(*buyer.range_of(rows, spending)))
        return chosen[0].learnt(spending, total)

    def evaluation(released, **public):
        return chosen[0].evaluation(released, **public)

    placeholder = within(*targets.placeholder)
    shares = first | scaled_to(placeholder.shares, 1 - total_of(first.values()))
    return Counted((), evaluation, shares, learn)


def _checked_limit(largest_error, most, requirement):
    """Return the limit at which errors are cut off; None: the largest error."""
    if largest_error is None:
        return most
    return checked_number(largest_error, "largest_error", lambda x: 0 < x <= most, requirement)


def _most_error(low, high):
    """Return the largest error of numbers within bounds."""
    return high - low


def _most_deviance(low, high):
    """Return the limit of deviances of counts up to a largest one."""
    return 2 * high + 8


def _errors(predicted, y, owned, low, high, largest):
    """Sum errors, their squares, targets and their squares, each in units of the largest."""
    targets = np.clip(numbers_of(y), low, high)
    errors = np.abs(np.where(predicted >= low, np.minimum(predicted, high), low) - targets)
    errors = np.minimum(errors / largest, 1.0)
    moments = owned.moments((targets - low) / (high - low) - 0.5)
    sums = stacked([owned.sum(errors), owned.sum(errors**2), moments])

    def evaluation(released, **public):
        return RegressionEvaluation(
            noisy=released[0], target_bounds=(low, high), largest_error=largest, **public
        )

    return Counted((NoisyPart("sums", sums),), evaluation)


def _takes_exposure(model):
    """Return whether a model of this package predicts rates."""
    return getattr(getattr(model, "family", None), "targets", None) is not None and (
        model.family.targets.takes_exposure
    )


def _rates(rates, y, exposure, owned, low, high, largest):
    """Sum expected and observed counts by decile of the rate, and deviances."""
    if not low >= 0:
        raise ValueError(f"target_bounds={(low, high)!r} must not begin below 0: counts are scored")
    has_exposure = exposure is not None
    exposure = exposures(exposure, y)
    observed = np.clip(numbers_of(y), low, high)
    rates = np.where(rates > _LEAST_RATE, np.minimum(rates, 1 / _LEAST_RATE), _LEAST_RATE)
    unit = residual_limit(high)
    rows = TalliedRows(observed / exposure, exposure / unit, owned)
    learnt = {}
    exposure_of_all = None if has_exposure else 1 / unit

    def deviances(means):
        logs = observed * np.log(np.maximum(observed, _LEAST_RATE) / means)
        return np.clip(2 * (logs - (observed - means)) / largest, 0.0, 1.0)

    def learn(spending, total):
        of_deciles = partial(spending.quantile, DECILES, partial(owned.within, rates))
        middle = of_deciles(high * 2.0**10, 0.5, total, octaves=30)
        edges = [of_deciles(8 * middle, k / 10, total, octaves=6) for k in range(1, 10)]
        learnt["thresholds"] = np.sort(edges)
        learnt["rate"], _ = base_rate(rows, total, high / unit, spending, exposure_of_all)
        places = np.searchsorted(learnt["thresholds"], rates)
        expected = np.minimum(exposure * rates, high)
        sums = [owned.by_place(counts / high, places, 10) for counts in (expected, observed)]
        sums += [owned.sum(deviances(exposure * rate)) for rate in (rates, learnt["rate"])]
        return (NoisyPart(SUMS, stacked(sums)),)

    def evaluation(released, **public):
        return RateEvaluation(
            noisy=released[0], largest_count=high, largest_error=largest, **learnt, **public
        )

    first = {
        DECILES: Share(0.15, 10 * SEARCH_RELEASES),
        TARGET_SCALE: Share(0.01, SEARCH_RELEASES),
        **shares_of_rate(0.02, has_exposure),
        SUMS: Share(0.8),
    }
    return Counted((), evaluation, first, learn)


def _checked_thresholds(thresholds):
    """Return the probabilities where metrics are asked for; None: everywhere alike."""
    if thresholds is None:
        return None
    try:
        edges = np.asarray(thresholds, dtype=np.float64)
    except (TypeError, ValueError):
        edges = np.empty(0)
    inside = edges.ndim == 1 and edges.size and np.all((edges > 0) & (edges < 1))
    if not (inside and edges.size <= _MOST_THRESHOLDS and np.all(edges[1:] > edges[:-1])):
        raise ValueError(
            f"thresholds={quoted(thresholds)} must be 1 to {_MOST_THRESHOLDS} increasing numbers "
            "between 0 and 1"
        )
    return edges
