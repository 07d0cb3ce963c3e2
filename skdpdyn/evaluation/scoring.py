"""Score a model on private records."""

from functools import partial
from typing import Any

from scipy import special
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from skdpdyn.core.noise import check_random_state, seed_leaks
from skdpdyn.core.schema import check_relation, facts_of
from skdpdyn.core.spending import Share, Spending, buying, scaled_to
from skdpdyn.data.files import UnchangedFiles
from skdpdyn.data.persons import unit_of
from skdpdyn.evaluation.counts import WEIGHTS, WEIGHTS_SHARE, counted, total_weight
from skdpdyn.evaluation.estimates import checked_confidence
from skdpdyn.evaluation.results import PrivateEvaluation
from skdpdyn.privacy import Adjacency, Budget
from skdpdyn.privacy.checks import checked_choice
from skdpdyn.training.base import quoting_no_records, silent_arithmetic
from skdpdyn.training.sources import leaks_of, sources_of


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    unit: str | None = None,
    exposure: Any = None,
    epsilon: float,
    delta: float | str = "auto",
    adjacency: str = "replace_one",
    thresholds: Any = None,
    target_bounds: tuple[float, float] | None = None,
    schema: Any = None,
    largest_error: float | None = None,
    against: Any = None,
    sample_weight: Any = None,
    weight_bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> PrivateEvaluation:
    """Score a model on private records, at a cost of at most (epsilon, delta).

    Shares of the budget are stated as parts of mu^2, where mu is the parameter of Gaussian
    differential privacy, see `skdpdyn.privacy.GaussianDP`. "Bought" means estimated with such a
    share.

    For a classifier of two classes, `evaluate` releases one noisy histogram: the numbers of records
    by label and by bin of the probability of the second class. The bins have several resolutions
    (halves, quarters, ..., single bins), so that sums over many bins have little noise. A record is
    in one bin of each resolution. With r resolutions, replacing a record changes the vector of
    counts by sqrt(2 r) in norm, and removing one by sqrt(r). Least squares combines the counts into
    one histogram, whose total is the public number of records. A tenth of mu^2 first buys counts in
    128 public cells of the log odds. They determine edges between which there are about equal
    numbers of records, so a rare class has bins where its records are. With ``thresholds``, half of
    the remaining mu^2 buys counts of the bins between them, also at several resolutions. Labels
    that are not classes of the model are counted separately. This count is scaled so that a record
    with such a label changes the release by no more than any other record.

    For more classes, `evaluate` releases the numbers of records by true and predicted label, the
    mean log loss, clipped at 3 log(number of classes) for each record, and the Brier score. With
    more than 30 classes, it releases three counts for each label instead: correct predictions,
    errors with this true label, and errors with this predicted label.

    For a regression, `evaluate` first buys a limit of the errors, the approximate median of the
    targets and a limit of the distances from it. Then it releases four sums: the absolute and the
    squared errors, clipped at ``largest_error``, and, for R2, the clipped target and its square.
    For a model of a quantile, these numbers would mislead: `evaluate` buys a limit of the pinball
    losses, and releases their sum, clipped at this limit, and the number of targets at or below the
    prediction. For counts, it buys deciles of the predicted rates, the overall rate and limits.
    Then it releases sums of expected and observed counts, overall and by decile, and sums of the
    deviances from the predictions and from the overall rate, clipped at ``largest_error``. For
    numbers, quantiles and counts, a tenth of mu^2 buys the sampling variances of the metrics.

    With the probability ``confidence``, an interval contains the metric of these records without
    noise. It follows from the public distribution of the noise. The intervals of ``population``
    contain the metric of the population from which the records were drawn. For classifiers, their
    variance is estimated from the same counts, at no cost.

    If the records were not used to train the model, each record is in only one of the two releases.
    Both together then cost the larger of their costs: ``total_privacy(model, evaluation,
    disjoint=True)``.

    Parameters
    ----------
    model : fitted classifier or regressor
        A model that may be published: a model of skdpdyn, or one that was trained on public data. A
        deep copy predicts on copies of the rows, so that the model cannot keep any records.
        Warnings of the copy are suppressed. Models of skdpdyn, alone or after scalers and encoders
        of scikit-learn, predict many rows at a time. Any other model predicts one row at a time,
        with a fresh copy for each row: 100,000 rows take 20 s with a
        `sklearn.linear_model.LogisticRegression`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,)
        Targets. Labels that are not in ``model.classes_`` count as errors, and have a count of
        their own. Numbers outside the target bounds are clipped.
    groups : array-like of shape (n_samples,), default=None
        Id of the person that each row belongs to: integers or strings. The guarantee is then for a
        person with all their rows. A row of a person with k rows has weight 1/k. Metrics are means
        over persons, whose number is public. None: every row is a record.
    unit : str or None, default=None
        Name of the unit that the ids in ``groups`` stand for, such as "household". None: "person",
        or "record" without ``groups``.
    exposure : array-like of shape (n_samples,), default=None
        Exposure of each count, for a model that predicts rates. None: 1 for a model of counts of
        skdpdyn, which is refused if it was fitted with exposures; to score rates, pass ones. A
        model of another package is scored as a model of rates if exposures are given.
    epsilon : float
        Privacy budget, > 0.
    delta : float or "auto", default="auto"
        Additive term of the (epsilon, delta) guarantee, in (0, 1). "auto": 1/n^2.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours, see `skdpdyn.privacy.Adjacency`.
    thresholds : array-like of shape (n_thresholds,), default=None
        Thresholds for recall, precision and accuracy of two classes: increasing probabilities
        between 0 and 1. Fewer thresholds have less noise. None: 1/2 and 30 others (62 to 254 with
        many records), with about equal numbers of records between them.
    target_bounds : tuple (low, high), default=None
        Public bounds to which targets and predictions of a regression are clipped (a prediction at
        the upper bound covers all targets beyond it). None: those of ``schema``, or of the model.
        If neither has any, at most a tenth of mu^2 buys them, as with ``target_bounds="auto"`` of
        an estimator.
    schema : Schema or None, default=None
        Public facts of the table, a `skdpdyn.Schema`. Only its target bounds are used.
    largest_error : float, default=None
        Limit at which the errors of a regression, the pinball losses of a model of a quantile q, or
        the deviances of counts, are clipped. The noise is proportional to it. None: twice a bought
        quantile, at least the 95 % quantile of errors, the 1 - min(q, 1 - q)/10 quantile of pinball
        losses or the 99 % quantile of deviances, and higher with many records. The limit is at most
        the width of the target bounds (for pinball losses, max(q, 1 - q) times it, and for
        deviances, twice the largest count plus 8), and equal to it with few records.
    against : fitted classifier or regressor, default=None
        Another model with the same classes, or another regressor of the same kind; if one of two
        regressors predicts a quantile, both are scored by its pinball loss. Only mean differences
        between the losses of the two models on the same records are released. They are more
        accurate than either loss. The differences are clipped at limits that are bought.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row, such as the inverse sampling probability of a survey. Metrics are then
        estimates for the population. A weight must follow from its own record alone. A share of 3 %
        of mu^2 buys the sum of the weights.
    weight_bounds : tuple (low, high), default=None
        Public bounds of the weights. Weights outside are clipped, and all weights are divided by
        ``high``. None: those of the model.
    confidence : float, default=0.95
        Probability that an interval covers, in (0, 1).
    random_state : None or int, default=None
        None: fresh entropy and a cryptographic generator. An int repeats the noise, so the
        release is not private: for tests only.

    Returns
    -------
    PrivateEvaluation
        A `ScoreEvaluation` for two classes, `ClassEvaluation` for more, `RegressionEvaluation`,
        `QuantileEvaluation` for a model of a quantile (also one of scikit-learn with a parameter
        ``quantile``), `RateEvaluation` for counts, or `PairedEvaluation` with ``against``.

    Raises
    ------
    ValueError, TypeError
        If a parameter, X or y is invalid, or a model was fitted with exposures and ``exposure`` is
        None.
    CalibrationError
        If no noise is known to meet the budget.

    Warns
    -----
    PrivacyWeakWarning
        If ``epsilon`` is above 20, or ``delta`` above 1/n.
    PrivacyLeakWarning
        If ``random_state`` is an int.

    References
    ----------
    M. Hay, V. Rastogi, G. Miklau, D. Suciu (2010), Boosting the accuracy of differentially private
    histograms through consistency (several resolutions, least squares). E. Fieller (1954), Some
    problems in interval estimation (intervals of ratios). E. DeLong, D. DeLong, D. Clarke-Pearson
    (1988), Comparing the areas under two or more correlated receiver operating characteristic
    curves (the sampling variance of an area).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.evaluation import evaluate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (20_000, 2))
    >>> y = X @ [1.0, -2.0] > 0
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True])
    >>> model = model.fit(X[:10_000], y[:10_000])
    >>> held_out = evaluate(model, X[10_000:], y[10_000:], epsilon=1.0)
    >>> bool(held_out.accuracy.value > 0.9), round(held_out.epsilon_, 6)
    (True, 1.0)
    """
    check_random_state(random_state)
    unit = unit_of(groups, unit)
    quantile = float(special.ndtri((1 + checked_confidence(confidence)) / 2))
    adjacency = Adjacency(checked_choice(adjacency, "adjacency", list(Adjacency)))
    models = [model] if against is None else [model, against]
    for one in models:
        quoting_no_records(check_is_fitted, one)
    with silent_arithmetic(), UnchangedFiles(X, y, groups, exposure, sample_weight):
        limits = {"target_bounds": target_bounds, "largest_error": largest_error}
        if target_bounds is None and is_regressor(model):
            limits["target_bounds"] = facts_of(schema).get("target_bounds")
            check_relation(schema, adjacency, unit)
        options = {"thresholds": thresholds, **limits, "exposure": exposure, "against": against}
        if weight_bounds is None:
            weight_bounds = getattr(model, "weight_bounds", None)
        beside = groups, sample_weight, weight_bounds
        budget_of = partial(Budget.for_samples, epsilon, delta, adjacency=adjacency)
        weighed, scores = counted(model, X, y, beside, budget_of, **options)
    n_samples = weighed.n
    budget = budget_of(n_samples=n_samples)
    shares = scores.shares
    if weighed.is_design:
        shares = {WEIGHTS: Share(WEIGHTS_SHARE)} | scaled_to(shares, 1 - WEIGHTS_SHARE)
    spending = Spending.seeded(budget, shares, random_state)
    with buying(spending, shares, n_samples) as plan:
        total = total_weight(weighed, spending)
        with silent_arithmetic():
            released = scores.release(spending, total[0], quantile)
    sources = tuple(dict.fromkeys(sources_of([schema, target_bounds], "schema")))
    return scores.evaluation(
        released,
        n_samples=n_samples,
        total=total,
        privacy_=plan.guarantee.with_unit(unit),
        mechanism_=plan.mechanism,
        delta_=budget.delta,
        confidence=float(confidence),
        leaks_=(
            *(leak for one in models for leak in _leaks_of(one)),
            *leaks_of(sources),
            *seed_leaks(random_state),
        ),
        sources_=sources,
    )


def _leaks_of(model):
    """Return the limits of the models' guarantees: their scores have the same ones."""
    private = [source for source in sources_of(model, "model") if source.guarantee is not None]
    return tuple(f"the model: {leak}" for leak in leaks_of(private))
