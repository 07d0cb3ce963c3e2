"""Prediction intervals: a conformal quantile of errors, found by noisy halvings."""

import math
from typing import Any, Self

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator, RegressorMixin, is_regressor
from sklearn.utils.validation import check_is_fitted

from skdpdyn.core.noise import check_random_state, seed_leaks, source_of
from skdpdyn.core.spending import Share, Spending, buying
from skdpdyn.data.files import UnchangedFiles
from skdpdyn.data.tally import RowTally
from skdpdyn.exceptions import CalibrationError, PrivacyUtilityWarning, warn
from skdpdyn.privacy import Adjacency, Budget, GaussianDP, privacy_report
from skdpdyn.privacy.checks import checked_choice, checked_flag, checked_number, quoted
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.report import Assumed, PrivacyReport
from skdpdyn.training.base import quoting_no_records, refuse_unreadable, silent_arithmetic
from skdpdyn.training.foreign import predicted, predictor_of
from skdpdyn.training.sources import facts_of, leaks_of, sources_of
from skdpdyn.training.targets import are_bounds, numbers_of

HALVINGS = "coverage"
N_HALVINGS = 9
MEAN_OF_LARGEST = 1.48501317
"""The mean of the largest of so many standard normals, rounded up."""
LEAST_WIDTH = 1 / 1024
"""Half the least width that a model of two quantiles is taken to predict, over that of bounds."""


class PredictionInterval(RegressorMixin, BaseEstimator):
    """A regressor with intervals for new records, which `prediction_interval` returns.

    Parameters
    ----------
    model : fitted regressor
        The model that it predicts by.
    coverage : float
        The part of new records that intervals hold, at least.

    Attributes
    ----------
    threshold_ : float
        Half the width of intervals; of a model of several quantiles, half their width over half
        the distance of the lowest and the highest. Infinite: no interval was found.
    coverage_ : float or None
        The least probability that an interval holds a new record, which is proven. None: none is.
    privacy_ : Guarantee
        Guarantee of the release, without the model's.
    mechanism_ : record
        Record of the release.
    delta_ : float
        Delta at which epsilon is shown.
    n_samples_ : int
        Number of records that it was computed from, public.
    sources_ : tuple of Source
        The model, with its guarantee, and releases that ``target_bounds`` came from.
    leaks_ : tuple of str
        What ``privacy_`` does not cover.

    Examples
    --------
    >>> from skdpdyn.evaluation import PredictionInterval
    >>> hasattr(PredictionInterval, "predict_interval")
    True
    """

    threshold_: float
    coverage_: float | None
    privacy_: Guarantee
    mechanism_: Any
    delta_: float
    n_samples_: int
    leaks_: tuple[str, ...]

    def __init__(self, model: Any, coverage: float) -> None:
        self.model = model
        self.coverage = coverage

    @property
    def epsilon_(self) -> float:
        """The epsilon that was spent, at ``delta_``."""
        return float(self.privacy_.epsilon(self.delta_))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Do nothing: intervals are bought once.

        Parameters
        ----------
        X : object
            Not looked at.
        y : object, default=None
            Not looked at.

        Returns
        -------
        self : object
        """
        check_is_fitted(self)
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def predict(self, X: Any) -> Any:
        """Return the predictions of the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_quantiles)
        """
        return self.model.predict(X)

    def predict_interval(self, X: Any) -> np.ndarray:
        """Return an interval for the target of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Low and high ends, infinite where ``threshold_`` is.
        """
        check_is_fitted(self)
        middle, unit = _middle_and_unit(np.asarray(self.model.predict(X)), self._least)
        half = self.threshold_ * unit
        # as far out as rounding, so that a target on the edge of what was counted is inside
        ends = np.nextafter(middle - half, -math.inf), np.nextafter(middle + half, math.inf)
        return np.column_stack(ends)

    def privacy_report(self) -> PrivacyReport:
        """Report on the release: its theorem, its cost, and the limits of its promise.

        Returns
        -------
        PrivacyReport
        """
        known = f"n_samples={self.n_samples_}", "the width of the target's bounds", "coverage"
        assumed = Assumed((*known, *facts_of(self.sources_)), source_of(self.leaks_), self.leaks_)
        return privacy_report(
            self.mechanism_,
            self.privacy_,
            delta=self.delta_,
            bound="composition",
            assumed=assumed,
        )


def prediction_interval(
    model: Any,
    X: Any,
    y: Any,
    *,
    coverage: float = 0.9,
    epsilon: float,
    delta: float | str = "auto",
    adjacency: str = "replace_one",
    target_bounds: tuple[float, float] | None = None,
    held_out: bool = True,
    random_state: int | None = None,
) -> PredictionInterval:
    """Buy intervals for new records, at a cost of at most (epsilon, delta).

    A bisection with nine noisy counts finds a conformal quantile of the scores of records. For a
    model that predicts one number, a score is abs(y - prediction). For a `PrivateQuantileRegressor`
    with several quantiles, it is abs(y - m) / w, where m is the middle between the lowest and the
    highest predicted quantile and w half of their distance. A record moves each count by 1.

    If these records and a new record are exchangeable, and the model was fitted to other records,
    the interval of the new record contains its target with probability at least ``coverage``. The
    probability is over these records, the new record and the noise; it holds for every
    distribution, also with ties. It does not hold for each row, group or model separately. Because
    exchangeability is needed, weighted records and persons with several rows are refused.

    Model and interval use different records, so each may spend the whole epsilon, and their total
    cost is the larger of the two: ``total_privacy(model, interval, disjoint=True)``. Split records
    by row number, before looking at them. Do not split by the values of a column and do not
    stratify: a record that is replaced would then move to the other part.

    Parameters
    ----------
    model : fitted regressor
        A model that may be shown: one of skdpdyn for records, not for persons, or one that was
        learnt from public data.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows that the model was not fitted to.
    y : array-like of shape (n_samples,)
        Their targets.
    coverage : float, default=0.9
        The part of new records that intervals hold, in (0, 1).
    epsilon : float
        Privacy budget, > 0.
    delta : float or "auto", default="auto"
        Additive term of the (epsilon, delta) guarantee, in (0, 1). "auto": 1/n^2.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours, see `skdpdyn.privacy.Adjacency`.
    target_bounds : tuple (low, high) or None, default=None
        Public bounds of the target, of which the width h counts: distances are told from h/1024 to
        h. None: those of the model, given or bought.
    held_out : bool, default=True
        Whether the model was fitted to other records. False: to these, which then pay for both. No
        coverage of ``coverage`` is proven then; ``coverage_`` is what follows from privacy: at
        least 1 - Phi(Phi^-1(1 - coverage) + mu), mu of model and interval together, twice it under
        "add_remove"; None where a failure is charged, or the model has no mu.
    random_state : None or int, default=None
        None: fresh entropy and a cryptographic generator. An int repeats the noise, so the
        release is not private: for tests only.

    Returns
    -------
    PredictionInterval
        A regressor with ``predict_interval(X)``. Its ``privacy_`` is that of this release alone;
        `total_privacy` adds the model's.

    Raises
    ------
    ValueError, TypeError
        If a parameter, X or y is invalid, or the model was fitted to persons or with exposures.
    CalibrationError
        If records are too few for the budget and the coverage, or no noise is known to meet it.

    Warns
    -----
    PrivacyWeakWarning
        If ``epsilon`` is above 20, or ``delta`` above 1/n.
    PrivacyLeakWarning
        If ``random_state`` is an int.
    PrivacyUtilityWarning
        If no threshold was found, so that intervals are infinite.

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer (2005), Algorithmic learning in a random world. A. Angelopoulos
    and others (2022), Private prediction sets.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.evaluation import prediction_interval
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = X @ [1.0, -2.0] + rng.normal(0, 0.2, 20_000)
    >>> model = PrivateRidge(target_bounds=(-4, 4)).fit(X[:10_000], y[:10_000])
    >>> found = prediction_interval(model, X[10_000:], y[10_000:], epsilon=1.0)
    >>> low, high = found.predict_interval(X[:5]).T
    >>> bool(np.all(high - low < 0.8)), round(found.epsilon_, 6)
    (True, 1.0)
    """
    check_random_state(random_state)
    checked_number(coverage, "coverage", lambda x: 0 < x < 1, "a number in (0, 1)")
    checked_flag(held_out, "held_out")
    adjacency = Adjacency(checked_choice(adjacency, "adjacency", list(Adjacency)))
    quoting_no_records(check_is_fitted, model)
    _refuse_persons(model)
    _refuse_rates(model)
    least, grid = _scales(model, target_bounds)
    with silent_arithmetic(), UnchangedFiles(X, y):
        distances, units = _distances(model, X, y, least)
    tally = RowTally(distances.size)
    budget = Budget.for_samples(epsilon, delta, n_samples=tally.n, adjacency=adjacency)
    shares = {HALVINGS: Share(1.0, N_HALVINGS)}
    spending = Spending.seeded(budget, shares, random_state)
    needed = needed_count(tally.n, coverage, spending.noise_multiplier(HALVINGS))
    with buying(spending, shares, tally.n) as plan:
        threshold = _halved(distances, units, grid, needed, tally, spending)
    interval = PredictionInterval(model, coverage)
    interval.threshold_ = threshold
    interval._least = least
    interval.privacy_ = plan.guarantee.with_unit("record")
    interval.mechanism_ = plan.mechanism
    interval.delta_ = budget.delta
    interval.n_samples_ = tally.n
    given = (*sources_of(model, "model"), *sources_of(target_bounds, "target_bounds"))
    interval.sources_ = tuple(dict.fromkeys(given))
    interval.leaks_ = (*leaks_of(interval.sources_), *seed_leaks(random_state))
    interval.coverage_ = float(coverage) if held_out else _coverage_of_training(interval)
    if math.isinf(threshold):
        warn(
            "no threshold was found within the target's bounds: intervals are infinite. Pass "
            "target_bounds=(low, high) that are wider, or more records",
            PrivacyUtilityWarning,
        )
    return interval


def needed_count(n_samples: int, coverage: float, std: float) -> float:
    """Return the noisy count K from which on a threshold is accepted.

    Of n + 1 exchangeable distances at least min(n + 1, K - std M) are within what is accepted, M
    the largest of the nine standard normals of a path. The mean of that is (n + 1) coverage at
    least: it is K - std E M, up to 1e-8 std where K - n - 1 is below -std.

    Raises
    ------
    CalibrationError
        If K is nearer to n + 1, so that none might be accepted.
    """
    lost = (n_samples + 1) * (1 - coverage) / std
    if lost < MEAN_OF_LARGEST + 1:
        enough = math.ceil((MEAN_OF_LARGEST + 1) * std / (1 - coverage))
        raise CalibrationError(
            f"n_samples={n_samples} are too few for coverage={coverage:g} at this budget: pass "
            f"{enough} records, or a larger epsilon"
        )
    return (n_samples + 1) * coverage + std * (MEAN_OF_LARGEST + 1e-8)


def _halved(distances, units, grid, needed, tally, spending):
    """Return the smallest threshold that is accepted, of a grid; infinity if none is."""
    low = -1
    enough = len(grid)
    for _ in range(N_HALVINGS):
        middle = (low + enough) // 2
        within = (distances <= grid[middle] * units).astype(np.intp)
        if spending.release(HALVINGS, tally.counts(within, 2).at(1)).value >= needed:
            enough = middle
        else:
            low = middle
    return float(grid[enough]) if enough < len(grid) else math.inf


def _refuse_persons(model):
    """Refuse classifiers, and models whose guarantee is for persons."""
    if not is_regressor(model):
        raise ValueError(
            f"a {type(model).__name__} is not a regressor: prediction intervals are for numbers"
        )
    unit = getattr(getattr(predictor_of(model), "privacy_", None), "unit", "record")
    if unit != "record":
        raise ValueError(
            f"the model was fitted with groups, for a {unit}: rows of one {unit} are not "
            "exchangeable with those of another. Fit it to records"
        )


def _refuse_rates(model):
    """Refuse models of rates, from which counts are far apart by their exposures."""
    if getattr(predictor_of(model), "has_exposure_", False):
        raise ValueError(
            "the model was fitted with exposures, and predicts rates: prediction intervals are of "
            "numbers without exposures"
        )


def _n_quantiles(model):
    """Return the number of quantiles that a model predicts; None: one number."""
    quantile = getattr(predictor_of(model), "quantile", None)
    return len(quantile) if np.ndim(quantile) else None


def _scales(model, target_bounds):
    """Return the least half-width of a model of quantiles, and the thresholds to look at.

    There are 2^9 - 1 of them, evenly spaced on a log scale: ten octaves below the width of the
    target's bounds, and six below 16 half-widths.
    """
    bounds = target_bounds
    if bounds is None:
        bounds = getattr(predictor_of(model), "target_bounds_", None)
    if bounds is None:
        raise ValueError(
            f"target_bounds=None: the {type(model).__name__} has no bounds of its target. Pass "
            "public target_bounds=(low, high)"
        )
    if np.shape(bounds) != (2,) or not are_bounds(*map(float, bounds)):
        raise ValueError(f"target_bounds={quoted(target_bounds)} must be two numbers, low < high")
    width = float(bounds[1]) - float(bounds[0])
    highest, octaves = (width, 10.0) if _n_quantiles(model) is None else (16.0, 6.0)
    steps = np.arange(2**N_HALVINGS - 2, -1, -1) / (2**N_HALVINGS - 1)
    return width * LEAST_WIDTH, highest * 2.0 ** (-octaves * steps)


def _distances(model, X, y, least):
    """Return distances of targets from predictions, and the unit of each."""
    refuse_unreadable(X, y)
    y = numbers_of(quoting_no_records(np.asarray, y))
    if y.ndim != 1 or not y.size:
        raise ValueError(f"y has shape {y.shape}: pass one target for each row, and at least one")
    raw = predicted(model, "predict", X, y.size, n_outputs=_n_quantiles(model))
    middle, unit = _middle_and_unit(raw.astype(np.float64), least)
    return np.abs(y - middle), unit


def _middle_and_unit(raw, least):
    """Return the middle of an interval, and the unit of its threshold."""
    if raw.ndim == 1:
        return raw, np.ones(len(raw))
    low = raw.min(axis=1)
    high = raw.max(axis=1)
    return (low + high) / 2, np.maximum((high - low) / 2, least)


def _coverage_of_training(interval):
    """Return the coverage that follows from the privacy of model and interval together."""
    parts = [source.guarantee for source in interval.sources_] + [interval.privacy_]
    known = all(isinstance(part, GaussianDP) and part.failure == 0 for part in parts)
    if not known or len({(part.adjacency, part.unit) for part in parts}) > 1:
        return None
    replaced = interval.privacy_.adjacency == Adjacency.REPLACE_ONE
    steps = 1.0 if replaced else 2.0  # a record leaves, and another one joins
    mu = steps * math.sqrt(math.fsum(part.mu**2 for part in parts))
    return float(1 - ndtr(ndtri(1 - interval.coverage) + mu))
