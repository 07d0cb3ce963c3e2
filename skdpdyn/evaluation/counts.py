"""Counts and sums over the records that are scored."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
from scipy import linalg, special
from sklearn.base import is_classifier, is_regressor

from skdpdyn.core import rules
from skdpdyn.core.sealed import Noisy
from skdpdyn.core.spending import Share, Spending
from skdpdyn.data.tally import RowTally
from skdpdyn.evaluation.bins import CELL_EDGES, N_CELLS, Bins, joined_bins
from skdpdyn.evaluation.numbers import (
    errors_of,
    most_deviance,
    most_error,
    of_numbers,
    quantiles_of_model,
    rates_of_model,
)
from skdpdyn.evaluation.paired import differences, probability_losses
from skdpdyn.evaluation.parts import Counted, NoisyPart
from skdpdyn.evaluation.results import MOST_CONFUSED, ClassEvaluation, ScoreEvaluation
from skdpdyn.exceptions import PrivacyUtilityWarning, warn
from skdpdyn.privacy.checks import quoted
from skdpdyn.training.base import quoting_no_records, refuse_unreadable
from skdpdyn.training.foreign import predicted as answers, predictor_of, quantile_of
from skdpdyn.training.parameters import within
from skdpdyn.training.parts import FALSE
from skdpdyn.training.targets import (
    Counts,
    Numbers,
    as_labels,
    codes_of,
    most_pinball,
    refuse_lacking,
)

_MOST_THRESHOLDS = 1023
# Noisy counts in public cells of log odds say where bins of equal numbers of records end
CELLS = "cells of log odds"
COUNTS_BY_LABEL = "counts"
LOSSES = "losses of probabilities"
CELLS_SHARE = 0.1
WEIGHTS = "sum of weights"
WEIGHTS_SHARE = 0.03


def counted(model, X, y, beside, budget_of, **options):
    """Return the tally of records or persons, and the statistics of scores to release.

    With ``groups``, each row of a person with k has weight 1/k: a person adds the mean of what
    single rows would add. ``beside`` are groups, weights and their bounds, ``budget_of`` returns
    the budget by the number of records, ``options`` are those of `evaluate` for one kind of model.
    """
    refuse_unreadable(X, y)
    against = options.pop("against")
    classes = _classes_of(model, options)
    if against is not None and is_classifier(against) != (classes is not None):
        raise ValueError("against must be a model of the same kind")
    y = quoting_no_records(np.asarray, as_labels(y, classes))
    if y.ndim != 1 or not y.size:
        raise ValueError(f"y has shape {y.shape}: pass one target for each row, and at least one")
    groups, sample_weight, bounds = beside
    part = None if sample_weight is None else within(bounds, sample_weight, y.size)
    owned = RowTally.by(y.size, groups, part)
    thresholds = options.pop("thresholds")
    exposure = options.pop("exposure")
    for one in [model] if against is None else [model, against]:
        refuse_lacking(exposure, predictor_of(one))
        if exposure is not None and quantile_of(one) is not None:
            raise ValueError(
                f"exposure=... is for rates: a {type(one).__name__} predicts quantiles"
            )
    budget = budget_of(n_samples=owned.n)
    if classes is None and options["target_bounds"] is None:
        options["target_bounds"] = getattr(predictor_of(model), "target_bounds_", None)
    counts_occur = exposure is not None or _takes_exposure(model)
    if against is not None:
        if options["target_bounds"] is None and classes is None:
            raise ValueError("against: differences need target_bounds=(low, high)")
        strength = rules.strength_of(owned.n, budget.mu, budget.adjacency)
        bounds = options["target_bounds"]
        models = model, against
        return owned, differences(models, X, y, owned, strength, bounds, exposure, counts_occur)
    if classes is None:
        score, most, targets = _regression(model, X, y, exposure, counts_occur, owned)
        return owned, of_numbers(score, most, targets, y, owned, budget, **options)
    codes = codes_of(y, classes)
    if classes.size > 2:
        return owned, _confusions(model, X, codes, owned, classes)
    edges = _checked_thresholds(thresholds)
    return owned, _histogram(model, X, codes, owned, classes, edges)


def _regression(model, X, y, exposure, counts_occur, owned):
    """Return the score of numbers, counts or a quantile, its largest error, and its targets."""
    quantile = quantile_of(model)
    predicted = answers(model, "predict", X, y.size)
    if counts_occur:
        return partial(rates_of_model, predicted, y, exposure, owned), most_deviance, Counts()
    if quantile is not None:
        score = partial(quantiles_of_model, predicted, y, quantile, owned)
        return score, partial(most_pinball, quantile), Numbers()
    return partial(errors_of, predicted, y, owned), most_error, Numbers()


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

    def release(spending, total, quantile):
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
        counts = counts_of_bins(COUNTS_BY_LABEL, places, shape, owned, joined, others=True)
        return [counts.released(spending, quantile)]

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
    return Counted(shares, release, evaluation)


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
    largest = np.array([3 * math.log(classes.size), 2.0])
    if with_losses:
        probability = answers(model, "predict_proba", X, codes.size)
        losses = np.column_stack(probability_losses(probability, codes)) / largest
        sums = owned.columns(losses, least=0.0)
        parts.append(NoisyPart(LOSSES, sums, rules.LOG_LOSS_SHARE))

    def evaluation(released, **public):
        noisy = released[0]
        if classes.size > MOST_CONFUSED:
            right, by_true, by_predicted = np.arange(3 * classes.size).reshape(-1, 3).T
            last = noisy.values.size - 1
            places = [np.column_stack([right, wrong]).ravel() for wrong in (by_true, by_predicted)]
            noisy, public["by_predicted"] = (noisy.of(np.append(of, last)) for of in places)
        _warn_of_others(noisy, classes)
        if with_losses:
            means = released[1].beside(*public["total"])
            public["log_loss"], public["brier_score"] = (
                means.ratio(np.append(of, 0.0), np.array([0.0, 0.0, 1.0]), (0.0, of.max()))
                for of in np.diag(largest)
            )
        return ClassEvaluation(noisy=noisy, classes=classes, **public)

    return Counted.of(parts, evaluation)


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


def _takes_exposure(model):
    """Return whether a model of this package predicts rates."""
    targets = getattr(getattr(predictor_of(model), "family", None), "targets", None)
    return getattr(targets, "takes_exposure", False)


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
