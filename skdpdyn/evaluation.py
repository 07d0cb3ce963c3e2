"""Scores of a model on private records: all metrics and curves follow from one noisy histogram.

A test score is a release like any other. `evaluate` counts the records in bins of their score and
by label, adds noise to the counts once, and computes all else from these: accuracy, recall and
precision at every threshold, the ROC curve, the calibration curve. Each number has an interval,
because the distribution of the noise is public.
"""

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from skdpdyn.base import quoting_no_records, refuse_dates, refuse_unreadable, silent_arithmetic
from skdpdyn.inspection import _axes
from skdpdyn.linear_model.targets import as_labels, codes_of, numbers_of
from skdpdyn.noise import check_random_state, generators, release, seed_leaks, source_of
from skdpdyn.privacy import (
    Adjacency,
    Budget,
    Composition,
    Gaussian,
    composition,
    least_noise,
    privacy_report,
)
from skdpdyn.privacy.checks import as_float, checked_choice
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.report import PrivacyReport

__all__ = [
    "ClassEvaluation",
    "Estimate",
    "PrivateCalibrationDisplay",
    "PrivateEvaluation",
    "PrivateRocCurveDisplay",
    "RegressionEvaluation",
    "ScoreEvaluation",
    "evaluate",
]

_THRESHOLDS = np.arange(1, 32) / 32
_MOST_THRESHOLDS = 1023
_LOG_LOSS_SHARE = 0.3  # of mu^2, for the log loss of more than two classes
_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class Estimate:
    """A number and the interval that holds the one without noise.

    Parameters
    ----------
    value : float
        The estimate; NaN where noise leaves nothing of it.
    low, high : float
        Ends of the interval.

    Examples
    --------
    >>> from skdpdyn.evaluation import Estimate
    >>> Estimate(0.75, 0.74, 0.76), float(Estimate(0.75, 0.74, 0.76))
    (0.75 [0.74, 0.76], 0.75)
    """

    value: float
    low: float
    high: float

    def __float__(self):
        return self.value

    def __repr__(self):
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, eq=False)
class NoisyNumbers:
    """Released numbers, the covariance of their noise, and the quantile for intervals.

    Parameters
    ----------
    values : ndarray of shape (n_numbers,)
        The numbers.
    covariance : ndarray of shape (n_numbers, n_numbers)
        Covariance of their noise, public.
    quantile : float
        How many standard deviations wide an interval is, to each side.
    """

    values: np.ndarray
    covariance: np.ndarray
    quantile: float

    def linear(self, weights: np.ndarray, constant=0.0, bounds=(-math.inf, math.inf)) -> Estimate:
        """Return the estimate of ``constant + weights @ values``."""
        width = self.quantile * math.sqrt(max(weights @ self.covariance @ weights, 0.0))
        value = constant + float(weights @ self.values)
        return _within(value, value - width, value + width, bounds)

    def ratio(self, above, below, bounds=(0.0, 1.0)) -> Estimate:
        """Return the estimate of a ratio of two sums, ``above @ values / below @ values``.

        The interval is Fieller's (1954), which is exact for normal noise.
        """
        vectors = np.array([above, below])
        (a, b), square = vectors @ self.values, self.quantile**2
        (aa, ab), (_, bb) = square * (vectors @ self.covariance @ vectors.T)
        lead, middle, last = b * b - bb, a * b - ab, a * a - aa
        if not (b > 0 and lead > 0):  # the denominator may be 0
            return Estimate(math.nan, *bounds)
        width = math.sqrt(max(middle**2 - lead * last, 0.0))
        return _within(a / b, (middle - width) / lead, (middle + width) / lead, bounds)

    def smooth(self, value: float, gradient: np.ndarray, bounds=(0.0, 1.0)) -> Estimate:
        """Return the estimate of a function of the numbers, to first order in the noise."""
        shifted = self.linear(gradient, value - float(gradient @ self.values))
        return _within(value, shifted.low, shifted.high, bounds)


def _within(value, low, high, bounds):
    return Estimate(
        *(float(min(max(number, bounds[0]), bounds[1])) for number in (value, low, high))
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PrivateEvaluation(ABC):
    """What `evaluate` returns: metrics with intervals, and what they cost.

    Everything in it was released: it may be shown to anybody. All metrics come from what was
    released once, so asking for more of them costs nothing.

    Parameters
    ----------
    n_samples : int
        Number of records, public.
    noisy : NoisyNumbers
        What was released, with the covariance of its noise.
    privacy_ : Guarantee
        What it cost.
    mechanism_ : record
        What was released.
    delta_ : float
        Where epsilon is shown.
    confidence : float
        Probability that an interval covers.
    leaks_ : tuple of str, default=()
        What ``privacy_`` does not cover: a seed.
    """

    n_samples: int
    noisy: NoisyNumbers
    privacy_: Guarantee
    mechanism_: Any
    delta_: float
    confidence: float
    leaks_: tuple[str, ...] = ()

    @property
    def epsilon_(self) -> float:
        """The epsilon that was spent, at ``delta_``."""
        return float(self.privacy_.epsilon(self.delta_))

    @abstractmethod
    def metrics(self) -> dict[str, Estimate]:
        """Return the metrics of the table by name.

        Returns
        -------
        dict of str to Estimate
        """

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame.

        Returns
        -------
        DataFrame
            One row for each metric, by its name, with columns "value", "low" and "high".
        """
        import pandas as pd

        rows = self.metrics()
        table = [(one.value, one.low, one.high) for one in rows.values()]
        return pd.DataFrame(table, index=list(rows), columns=["value", "low", "high"])

    def privacy_report(self) -> PrivacyReport:
        """Report on what was released, under which theorem, and what is not covered.

        Returns
        -------
        PrivacyReport
        """
        return privacy_report(
            self.mechanism_,
            self.privacy_,
            delta=self.delta_,
            bound="composition",
            public=(f"n_samples={self.n_samples}", "the model", "thresholds, classes and bounds"),
            randomness=source_of(self.leaks_),
            leaks=self.leaks_,
        )

    def __repr__(self):
        rows = self.metrics()
        width = max(map(len, rows))
        rows = [f"  {name:{width}}  {one!r}" for name, one in rows.items()]
        return "\n".join([self._title(), *rows, *self._notes()])

    def _repr_html_(self):
        head = "".join(f"<th>{name}</th>" for name in ("", "value", "low", "high"))
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{one.value:.4g}</td><td>{one.low:.4g}</td>"
            f"<td>{one.high:.4g}</td></tr>"
            for name, one in self.metrics().items()
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        caption = f"<caption>{html.escape(self._title())}</caption>"
        return f"<table>{caption}<tr>{head}</tr>{rows}</table>{notes}"

    def _title(self):
        return f"{self.n_samples} records, intervals of {100 * self.confidence:g} % for noise alone"

    def _notes(self):
        spent = f"spent: epsilon={self.epsilon_:.6g}, delta={self.delta_:.3g}"
        return [
            f"{spent} ({self.privacy_.adjacency})",
            *(f"NOT PRIVATE: {leak}" for leak in self.leaks_),
        ]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScoreEvaluation(PrivateEvaluation):
    """Metrics of a classifier of two classes, from a histogram of its probabilities by label.

    A record counts as predicted to be of the second class where its probability is above the
    threshold. Metrics are those of probabilities that are rounded to bins: accuracy, recall and
    precision are exact at the edges of bins, where thresholds are.

    Parameters
    ----------
    n_samples : int
        Number of records, public.
    noisy : NoisyNumbers
        Counts of the first class by bin and of the second, with the covariance of their noise.
    privacy_ : Guarantee
        What it cost.
    mechanism_ : record
        What was released.
    delta_ : float
        Where epsilon is shown.
    confidence : float
        Probability that an interval covers.
    leaks_ : tuple of str, default=()
        What ``privacy_`` does not cover: a seed.
    thresholds : ndarray of shape (n_bins - 1,)
        Edges between the bins.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpdyn.evaluation import evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20_000, 1))
    >>> model = LogisticRegression().fit([[-1.0], [1.0]], [False, True])
    >>> found = evaluate(model, X, X[:, 0] > 0, epsilon=1.0)
    >>> bool(found.recall(0.5).value > 0.95), found.thresholds.size
    (True, 31)
    """

    thresholds: np.ndarray

    @property
    def accuracy(self) -> Estimate:
        """Part of the records whose label is predicted, at the middle threshold."""
        return self.accuracy_at()

    @property
    def roc_auc(self) -> Estimate:
        """Return the area under the ROC curve; ties count half."""
        negative, positive = self._by_label()
        n_negative, n_positive = negative.sum(), positive.sum()
        below = np.cumsum(negative) - negative / 2
        above = n_positive - np.cumsum(positive) + positive / 2
        nothing = Estimate(math.nan, 0.0, 1.0)
        if any(self._count(label).low <= 0 for label in (0, 1)):
            return nothing
        auc = float(positive @ below / (n_negative * n_positive))
        gradient = [
            (above / n_positive - auc) / n_negative,
            (below / n_negative - auc) / n_positive,
        ]
        return self.noisy.smooth(auc, np.concatenate(gradient))

    @property
    def log_loss(self) -> Estimate:
        """Return the mean log loss of probabilities rounded to the middle of their bin."""
        middle = self._middles()
        losses = np.concatenate([-np.log1p(-middle), -np.log(middle)]) / self.n_samples
        return self.noisy.linear(losses, bounds=(0.0, math.inf))

    @property
    def prevalence(self) -> Estimate:
        """Part of the records that are of the second class."""
        weights = self._select(0, 1) / self.n_samples
        return self.noisy.linear(weights, bounds=(0.0, 1.0))

    def accuracy_at(self, threshold: float | None = None) -> Estimate:
        """Return the part of the records whose label is predicted.

        Parameters
        ----------
        threshold : float or None, default=None
            One of ``thresholds``; None: the middle one, 1/2 by default.

        Returns
        -------
        Estimate
        """
        first = self._first_bin(threshold)
        weights = self._select(first, 1) + self._select(0, 0) - self._select(first, 0)
        return self.noisy.linear(weights / self.n_samples, bounds=(0.0, 1.0))

    def recall(self, threshold: float | None = None) -> Estimate:
        """Return the part of the second class that is predicted, also called true positive rate.

        Parameters
        ----------
        threshold : float or None, default=None
            One of ``thresholds``; None: the middle one.

        Returns
        -------
        Estimate
        """
        return self.noisy.ratio(self._select(self._first_bin(threshold), 1), self._select(0, 1))

    def false_positive_rate(self, threshold: float | None = None) -> Estimate:
        """Return the part of the first class that is predicted to be of the second.

        Parameters
        ----------
        threshold : float or None, default=None
            One of ``thresholds``; None: the middle one.

        Returns
        -------
        Estimate
        """
        return self.noisy.ratio(self._select(self._first_bin(threshold), 0), self._select(0, 0))

    def precision(self, threshold: float | None = None) -> Estimate:
        """Return the part of the second class among the records that are predicted to be of it.

        Parameters
        ----------
        threshold : float or None, default=None
            One of ``thresholds``; None: the middle one.

        Returns
        -------
        Estimate
        """
        positive = self._select(self._first_bin(threshold), 1)
        return self.noisy.ratio(positive, positive + self._select(self._first_bin(threshold), 0))

    def roc_curve(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the points of the ROC curve, from (0, 0) to (1, 1).

        Noise can make a curve fall: the points are those of the least curve above it that does not.

        Returns
        -------
        fpr, tpr : ndarray of shape (n_bins + 1,)
            False and true positive rates.
        thresholds : ndarray of shape (n_bins + 1,)
            Probability beyond which a record counts as predicted.
        """
        rates = []
        for counts in self._by_label():
            passed = np.cumsum(counts[::-1]) / max(counts.sum(), 1.0)
            passed = np.maximum.accumulate(np.clip(passed, 0, 1))
            rates.append(np.concatenate([[0.0], passed[:-1], [1.0]]))
        fpr, tpr = rates
        return fpr, tpr, np.concatenate([[1.0], self.thresholds[::-1], [0.0]])

    def calibration_curve(self, n_groups: int = 8) -> tuple[np.ndarray, list[Estimate]]:
        """Return how often the second class occurs where it is predicted with a probability.

        Parameters
        ----------
        n_groups : int, default=8
            Number of groups that neighbouring bins are joined to, a divisor of their number.

        Returns
        -------
        predicted : ndarray of shape (n_groups,)
            Mean probability in each group, or its middle where there are no records to tell.
        observed : list of Estimate
            Part of the second class in each group; NaN where there are too few records.
        """
        middle, n_bins = self._middles(), self.thresholds.size + 1
        if n_groups not in [k for k in range(1, n_bins + 1) if n_bins % k == 0]:
            raise ValueError(
                f"n_groups={n_groups!r} must be a divisor of {n_bins}, the number of bins"
            )
        size, predicted, observed = n_bins // n_groups, [], []
        for first in range(0, n_bins, size):
            inside = np.zeros((2, n_bins))
            inside[:, first : first + size] = 1
            positive = inside.copy()
            positive[0] = 0
            observed.append(self.noisy.ratio(positive.ravel(), inside.ravel()))
            part = slice(first, first + size)
            counts = np.maximum(sum(self._by_label())[part], 0)
            counts = counts if counts.any() else np.ones(size)
            predicted.append(counts @ middle[part] / counts.sum())
        return np.array(predicted), observed

    def metrics(self) -> dict[str, Estimate]:
        """Return the metrics of the table by name, at the middle threshold.

        Returns
        -------
        dict of str to Estimate
        """
        return {
            "accuracy": self.accuracy,
            "ROC AUC": self.roc_auc,
            "log loss": self.log_loss,
            "recall": self.recall(),
            "precision": self.precision(),
            "prevalence": self.prevalence,
        }

    def _by_label(self):
        return self.noisy.values.reshape(2, -1)

    def _count(self, label):
        return self.noisy.linear(self._select(0, label))

    def _middles(self):
        edges = np.concatenate([[0.0], self.thresholds, [1.0]])
        return (edges[1:] + edges[:-1]) / 2

    def _select(self, first, label):
        """Return the weights that sum one label's counts from a bin on."""
        weights = np.zeros((2, self.thresholds.size + 1))
        weights[label, first:] = 1
        return weights.ravel()

    def _first_bin(self, threshold):
        """Return the first bin above a threshold."""
        if threshold is None:
            return (self.thresholds.size + 1) // 2
        at = int(np.argmin(np.abs(self.thresholds - as_float(threshold))))
        if not abs(self.thresholds[at] - as_float(threshold)) <= 1e-9:
            raise ValueError(
                f"threshold={threshold!r} is no edge of a bin: it must be one of "
                f"{self.thresholds.tolist()}. "
                "Give evaluate the thresholds that you need"
            )
        return at + 1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClassEvaluation(PrivateEvaluation):
    """Metrics for more than two classes, from noisy counts of true and predicted labels.

    Parameters
    ----------
    n_samples : int
        Number of records, public.
    noisy : NoisyNumbers
        Counts by true and predicted label, with the covariance of their noise.
    privacy_ : Guarantee
        What it cost.
    mechanism_ : record
        What was released.
    delta_ : float
        Where epsilon is shown.
    confidence : float
        Probability that an interval covers.
    leaks_ : tuple of str, default=()
        What ``privacy_`` does not cover: a seed.
    classes : ndarray of shape (n_classes,)
        The labels.
    log_loss : Estimate or None, default=None
        Mean of the log losses, each at most 3 log(n_classes). A share of the budget of its own pays
        for it. None for a model without probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpdyn.evaluation import evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20_000, 1))
    >>> model = LogisticRegression(C=100).fit([[-0.6], [0.0], [0.6]], [0, 1, 2])
    >>> found = evaluate(model, X, np.digitize(X[:, 0], [-0.3, 0.3]), epsilon=1.0)
    >>> bool(found.accuracy.value > 0.9), found.confusion_matrix.shape
    (True, (3, 3))
    """

    classes: np.ndarray
    log_loss: Estimate | None = None

    @property
    def confusion_matrix(self) -> np.ndarray:
        """Return noisy counts: true labels by row, predicted ones by column."""
        return self.noisy.values.reshape(self.classes.size, -1)

    @property
    def accuracy(self) -> Estimate:
        """Part of the records whose label is predicted."""
        weights = np.eye(self.classes.size).ravel() / self.n_samples
        return self.noisy.linear(weights, bounds=(0.0, 1.0))

    def recall(self, label: Any) -> Estimate:
        """Return the part of the records of a label that are predicted to be of it.

        Parameters
        ----------
        label : object
            One of ``classes``.

        Returns
        -------
        Estimate
        """
        return self._part(label, "true")

    def precision(self, label: Any) -> Estimate:
        """Return the part of a label among the records that are predicted to be of it.

        Parameters
        ----------
        label : object
            One of ``classes``.

        Returns
        -------
        Estimate
        """
        return self._part(label, "predicted")

    def metrics(self) -> dict[str, Estimate]:
        """Return the metrics of the table by name.

        Returns
        -------
        dict of str to Estimate
        """
        rows = {"accuracy": self.accuracy}
        rows |= {} if self.log_loss is None else {"log loss": self.log_loss}
        for name, metric in (("recall", self.recall), ("precision", self.precision)):
            rows |= {f"{name} of {label}": metric(label) for label in self.classes.tolist()}
        return rows

    def _part(self, label, of):
        labels = self.classes.tolist()
        if label not in labels:
            raise ValueError(f"label={label!r} must be one of {labels}")
        code, right = labels.index(label), np.zeros((len(labels),) * 2)
        right[code, code] = 1
        all_of = np.zeros_like(right)
        all_of[(code, slice(None)) if of == "true" else (slice(None), code)] = 1
        return self.noisy.ratio(right.ravel(), all_of.ravel())


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegressionEvaluation(PrivateEvaluation):
    """Metrics of a regression, from noisy sums of errors, which are cut off, and of targets.

    Parameters
    ----------
    n_samples : int
        Number of records, public.
    noisy : NoisyNumbers
        Sums of absolute and of squared errors over the largest one, and of the target and its
        square in [-1/2, 1/2], with the covariance of their noise.
    privacy_ : Guarantee
        What it cost.
    mechanism_ : record
        What was released.
    delta_ : float
        Where epsilon is shown.
    confidence : float
        Probability that an interval covers.
    leaks_ : tuple of str, default=()
        What ``privacy_`` does not cover: a seed.
    target_bounds : tuple (low, high)
        Bounds that targets and predictions are clipped to.
    largest_error : float
        Errors beyond it count as it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skdpdyn.evaluation import evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20_000, 1))
    >>> model = LinearRegression().fit([[-1.0], [1.0]], [-1.0, 1.0])
    >>> found = evaluate(model, X, X[:, 0], epsilon=1.0, target_bounds=(-1.0, 1.0))
    >>> bool(found.r2.value > 0.9), found.largest_error
    (True, 2.0)
    """

    target_bounds: tuple[float, float]
    largest_error: float

    @property
    def mean_absolute_error(self) -> Estimate:
        """Mean of the absolute errors."""
        weights = np.array([self.largest_error / self.n_samples, 0, 0, 0])
        return self.noisy.linear(weights, bounds=(0.0, self.largest_error))

    @property
    def mean_squared_error(self) -> Estimate:
        """Mean of the squared errors."""
        square = self.largest_error**2
        return self.noisy.linear(np.array([0, square / self.n_samples, 0, 0]), bounds=(0.0, square))

    @property
    def r2(self) -> Estimate:
        """Part of the variance of the target that is predicted."""
        width = self.target_bounds[1] - self.target_bounds[0]
        mean = self.noisy.values[2] / self.n_samples
        centred = np.array([0, 0, -2 * mean, 1])
        errors = np.array([0, (self.largest_error / width) ** 2, 0, 0])
        # The variance is no sum: this form of it is off by the square of the mean's noise
        shifted = NoisyNumbers(
            np.append(self.noisy.values, self.n_samples),
            np.pad(self.noisy.covariance, (0, 1)),
            self.noisy.quantile,
        )
        rest = shifted.ratio(
            np.append(errors, 0), np.append(centred, mean**2), bounds=(0.0, math.inf)
        )
        return Estimate(1 - rest.value, 1 - rest.high, 1 - rest.low)

    def metrics(self) -> dict[str, Estimate]:
        """Return the metrics of the table by name.

        Returns
        -------
        dict of str to Estimate
        """
        return {
            "R^2": self.r2,
            "mean absolute error": self.mean_absolute_error,
            "mean squared error": self.mean_squared_error,
        }


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float | str = "auto",
    adjacency: str = "replace_one",
    thresholds: Any = None,
    target_bounds: tuple[float, float] | None = None,
    largest_error: float | None = None,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> PrivateEvaluation:
    """Score a model on private records, at a cost of at most (epsilon, delta).

    Of a classifier of two classes one noisy histogram is released: the numbers of records by label
    and by bin of the probability of the second class, at several resolutions (halves, quarters,
    ..., single bins), so that sums over many bins have little noise. A record is in one bin of each
    resolution. All counts together move by sqrt(2 r) if a record is replaced, r resolutions, and by
    sqrt(r) if it is dropped. Least squares make one histogram of them, whose total is the public
    number of records.

    Of more classes the numbers of records by true and predicted label are released, and the mean of
    the log losses, each cut off at 3 log(number of classes). Of a regression four sums: of absolute
    and squared errors, cut off at ``largest_error``, and of the target and its square.

    An interval holds the metric of these very records without noise, with the probability
    ``confidence``: it is made of the public distribution of the noise. How far the records are from
    the population that they were drawn from is another matter.

    If the records were not among those that the model was trained on, a record is in one part only,
    and both releases together cost what the dearer one costs:
    ``total_privacy(model, evaluation, disjoint=True)``.

    Parameters
    ----------
    model : fitted classifier or regressor
        It must score each row by itself, as linear models do. Any model that may be shown: one of
        skdpdyn, or one that was learnt from public data.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,)
        Their targets; of a classifier each must be one of ``model.classes_``.
    epsilon : float
        Privacy budget, > 0.
    delta : float or "auto", default="auto"
        Probability of a larger loss, in (0, 1). "auto": 1/n^2.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours, see `skdpdyn.privacy.Adjacency`.
    thresholds : array-like of shape (2^k - 1,), default=None
        Of two classes: increasing probabilities between 0 and 1 that are the edges of bins. None:
        1/32, 2/32, ..., 31/32. If a class is rare, put them where its probabilities are. The middle
        one is known best.
    target_bounds : tuple (low, high), default=None
        Of a regression: public bounds that targets and predictions are clipped to. None: those of
        the model.
    largest_error : float, default=None
        Of a regression: where errors are cut off. The noise is in proportion to it. None: the
        distance of the bounds.
    confidence : float, default=0.95
        Probability that an interval covers, in (0, 1).
    random_state : None or int, default=None
        None: fresh entropy and a cryptographic generator. An int repeats the noise, which is not
        private: for tests.

    Returns
    -------
    ScoreEvaluation, ClassEvaluation or RegressionEvaluation
        See `ScoreEvaluation` for two classes, `ClassEvaluation` for more, and
        `RegressionEvaluation`.

    Raises
    ------
    ValueError, TypeError
        If a parameter, X or y is invalid.
    CalibrationError
        If no noise is known to meet the budget.

    Warns
    -----
    PrivacyLeakWarning
        If ``random_state`` is an int.

    References
    ----------
    M. Hay, V. Rastogi, G. Miklau, D. Suciu (2010), Boosting the accuracy of differentially private
    histograms through consistency: several resolutions, and least squares. E. Fieller (1954), Some
    problems in interval estimation: ratios.

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
    quantile = _quantile(confidence)
    adjacency = Adjacency(checked_choice(adjacency, "adjacency", list(Adjacency)))
    quoting_no_records(check_is_fitted, model)
    with silent_arithmetic():
        y, counted = _counted(model, X, y, thresholds, target_bounds, largest_error, adjacency)
    budget = Budget.for_samples(epsilon, delta, n_samples=y.size, adjacency=adjacency)
    _ = budget.mu  # refuses delta=0

    def record(noise_multiplier):
        parts = tuple(
            Gaussian(noise_multiplier / math.sqrt(part.share), adjacency=adjacency)
            for part in counted.parts
        )
        return Composition(parts) if len(parts) > 1 else parts[0]

    mechanism = least_noise(record, budget, bound="composition")
    (generator,) = generators(random_state)
    released = []
    for part, ran in zip(
        counted.parts, getattr(mechanism, "mechanisms", (mechanism,)), strict=True
    ):
        std = part.sensitivity * ran.noise_multiplier
        released.append(part.estimated(release(part.values, std, generator), std, quantile))
    return counted.evaluation(
        released,
        n_samples=y.size,
        privacy_=composition(mechanism),
        mechanism_=mechanism,
        delta_=budget.delta,
        confidence=float(confidence),
        leaks_=seed_leaks(random_state),
    )


def _quantile(confidence):
    if not 0 < as_float(confidence) < 1:
        raise ValueError(f"confidence={confidence!r} must be in (0, 1): how often intervals cover")
    return float(special.ndtri((1 + confidence) / 2))


@dataclass(frozen=True, eq=False)
class _Statistic:
    """Numbers to be released together: how far one record moves them, and what they are sums of.

    ``strategy`` has a row for each of the numbers: which ones of those that are wanted it sums up,
    None if it is these. ``total``: what those that are wanted sum up to, if that is public.
    """

    values: np.ndarray
    sensitivity: float
    share: float = 1.0
    strategy: np.ndarray | None = None
    total: float | None = None

    def estimated(self, noisy: np.ndarray, std: float, quantile: float) -> NoisyNumbers:
        """Return the least-squares estimate of what is wanted."""
        strategy = np.eye(noisy.size) if self.strategy is None else self.strategy
        information = np.linalg.inv(strategy.T @ strategy)
        values, covariance = information @ (strategy.T @ noisy), std**2 * information
        if self.total is not None:
            moved = covariance.sum(axis=1)
            values = values + moved / moved.sum() * (self.total - values.sum())
            covariance = covariance - np.outer(moved, moved) / moved.sum()
        return NoisyNumbers(values, covariance, quantile)


@dataclass(frozen=True, eq=False)
class _Counted:
    """What is to be released of the records, and the evaluation that is made of what was."""

    parts: tuple[_Statistic, ...]
    evaluation: Callable[..., PrivateEvaluation]


def _counted(model, X, y, thresholds, target_bounds, largest_error, adjacency):
    """Return the targets as an array, and what is to be released of them and the model's scores."""
    refuse_dates(X)
    refuse_unreadable(X, y)
    regression = is_regressor(model)
    if not regression and not is_classifier(model):
        raise ValueError(f"a {type(model).__name__} is neither a classifier nor a regressor")
    for name, value, of in (
        ("thresholds", thresholds, "a classifier of two classes"),
        ("target_bounds", target_bounds, "a regression"),
        ("largest_error", largest_error, "a regression"),
    ):
        fits = regression if of == "a regression" else not regression and len(model.classes_) == 2
        if value is not None and not fits:
            raise ValueError(f"{name}={value!r} is for {of}, and not for a {type(model).__name__}")
    classes = None if regression else np.asarray(model.classes_)
    y = quoting_no_records(np.asarray, as_labels(y, classes))
    if y.ndim != 1 or not y.size:
        raise ValueError(f"y has shape {y.shape}: pass one target for each row, and at least one")
    if regression:
        return y, _errors(model, X, y, target_bounds, largest_error, adjacency)
    codes = codes_of(y, classes)
    if classes.size > 2:
        return y, _confusions(model, X, codes, classes, adjacency)
    return y, _histogram(model, X, codes, _checked_thresholds(thresholds), adjacency)


def _histogram(model, X, codes, thresholds, adjacency):
    """Count by label and bin, at every resolution but the coarsest, whose sum is public."""
    probability = _predicted(model, "predict_proba", X, codes.size)[:, 1]
    n_bins = thresholds.size + 1
    bins = np.searchsorted(thresholds, np.where(probability >= 0, probability, 0.0))  # no NaN
    counts = np.bincount(codes.astype(np.intp) * n_bins + bins, minlength=2 * n_bins)
    levels = [np.kron(np.eye(n_bins >> k), np.ones(1 << k)) for k in range(int(math.log2(n_bins)))]
    strategy = np.kron(np.eye(2), np.vstack(levels))
    sensitivity = math.sqrt(len(levels) * adjacency.sum_sensitivity(1.0))
    histogram = _Statistic(
        strategy @ counts, sensitivity, strategy=strategy, total=float(codes.size)
    )

    def evaluation(released, **public):
        return ScoreEvaluation(noisy=released[0], thresholds=thresholds, **public)

    return _Counted((histogram,), evaluation)


def _confusions(model, X, codes, classes, adjacency):
    """Count by true and predicted label, and sum the log losses."""
    predicted = codes_of(_predicted(model, "predict", X, codes.size), classes)
    with_losses = hasattr(model, "predict_proba")
    counts = np.bincount(codes * classes.size + predicted, minlength=classes.size**2)
    parts = [
        _Statistic(
            counts.astype(float),
            math.sqrt(adjacency.sum_sensitivity(1.0)),
            1 - _LOG_LOSS_SHARE * with_losses,
            total=float(codes.size),
        )
    ]
    largest = 3 * math.log(classes.size)
    if with_losses:
        probability = _predicted(model, "predict_proba", X, codes.size)
        losses = -np.log(probability[np.arange(codes.size), codes]) / largest
        losses = np.where(losses <= 1, np.maximum(losses, 0.0), 1.0)  # NaN too
        rounding = 1 + 4 * codes.size * _EPS
        parts.append(_Statistic(np.array([math.fsum(losses)]), rounding, _LOG_LOSS_SHARE))

    def evaluation(released, **public):
        log_loss = None
        if with_losses:
            weights = np.array([largest / codes.size])
            log_loss = released[1].linear(weights, bounds=(0.0, largest))
        return ClassEvaluation(noisy=released[0], classes=classes, log_loss=log_loss, **public)

    return _Counted(tuple(parts), evaluation)


def _errors(model, X, y, target_bounds, largest_error, adjacency):
    """Sum errors, their squares, targets and their squares, each in units of the largest."""
    bounds = getattr(model, "target_bounds_", None) if target_bounds is None else target_bounds
    if bounds is None:
        raise ValueError("target_bounds=None: the model knows none. Pass public bounds (low, high)")
    low, high = map(as_float, bounds) if np.shape(bounds) == (2,) else (0.0, 0.0)
    if not -1e150 < low < high < 1e150:
        raise ValueError(
            f"target_bounds={bounds!r} must be a pair (low, high) of finite numbers with low < high"
        )
    largest = high - low if largest_error is None else as_float(largest_error)
    if not 0 < largest <= high - low:
        raise ValueError(
            f"largest_error={largest_error!r} must be above 0 and at most {high - low:g}, the "
            "distance of the bounds"
        )
    targets = np.clip(numbers_of(y), low, high)
    predicted = _predicted(model, "predict", X, y.size)
    errors = np.abs(np.where(predicted >= low, np.minimum(predicted, high), low) - targets)
    errors = np.minimum(errors / largest, 1.0)
    centred = np.clip((targets - low) / (high - low) - 0.5, -0.5, 0.5)
    sums = [math.fsum(terms) for terms in (errors, errors**2, centred, centred**2)]
    # Replacing a record moves errors and squared errors by 1 each at most, and the pair of the
    # target and its square by 1 together; a record's own four numbers have a norm of sqrt(37)/4.
    replaced = adjacency is Adjacency.REPLACE_ONE
    sensitivity = (math.sqrt(3) if replaced else math.sqrt(37) / 4) * (1 + 4 * y.size * _EPS)

    def evaluation(released, **public):
        return RegressionEvaluation(
            noisy=released[0], target_bounds=(low, high), largest_error=largest, **public
        )

    return _Counted((_Statistic(np.array(sums), sensitivity),), evaluation)


def _predicted(model, method, X, n_samples):
    """Return what a method of the model says of the rows, or an error that quotes none of them."""
    if not hasattr(model, method):
        raise ValueError(f"{type(model).__name__} has no {method}: evaluate a model that has one")
    predicted = np.asarray(quoting_no_records(getattr(model, method), X))
    if len(predicted) != n_samples:
        raise ValueError(f"X has {len(predicted)} rows and y has {n_samples} targets")
    return predicted


def _checked_thresholds(thresholds):
    """Return the edges of bins, whose number is a power of two."""
    if thresholds is None:
        return _THRESHOLDS
    try:
        edges = np.asarray(thresholds, dtype=np.float64)
    except (TypeError, ValueError):
        edges = np.empty(0)
    inside = edges.ndim == 1 and edges.size and np.all((edges > 0) & (edges < 1))
    is_power = edges.size and not edges.size & (edges.size + 1)
    if not (
        inside and is_power and edges.size <= _MOST_THRESHOLDS and np.all(edges[1:] > edges[:-1])
    ):
        raise ValueError(
            f"thresholds={thresholds!r} must be 1, 3, 7, ... or {_MOST_THRESHOLDS} increasing "
            "numbers between 0 and 1: "
            "one less than a power of two"
        )
    return edges


class PrivateRocCurveDisplay:
    """ROC curve of a private evaluation, with the intervals of its points.

    Create it with `from_evaluation`. Drawing costs nothing.

    Parameters
    ----------
    fpr, tpr : ndarray of shape (n_points,)
        False and true positive rates.
    intervals : ndarray of shape (n_points, 2)
        Interval of each true positive rate.
    roc_auc : Estimate
        Area under the curve.
    name : str or None, default=None
        Label of the curve.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : matplotlib Line2D
        The curve.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpdyn.evaluation import PrivateRocCurveDisplay, evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20_000, 1))
    >>> y = X[:, 0] > 0
    >>> model = LogisticRegression().fit([[-1.0], [1.0]], [False, True])
    >>> evaluation = evaluate(model, X, y, epsilon=1.0)
    >>> display = PrivateRocCurveDisplay.from_evaluation(evaluation, plot=False)
    >>> display.fpr.size, bool(display.roc_auc.value > 0.95)
    (33, True)
    """

    def __init__(self, *, fpr, tpr, intervals, roc_auc, name=None):
        self.fpr = fpr
        self.tpr = tpr
        self.intervals = intervals
        self.roc_auc = roc_auc
        self.name = name

    @classmethod
    def from_evaluation(cls, evaluation, *, name=None, plot=True, ax=None, **kwargs):
        """Take the curve from what `evaluate` released.

        Parameters
        ----------
        evaluation : ScoreEvaluation
            Of a classifier of two classes.
        name : str or None, default=None
            Label of the curve.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.
        **kwargs : dict
            For matplotlib's ``plot``.

        Returns
        -------
        PrivateRocCurveDisplay
        """
        _check_scores(evaluation)
        fpr, tpr, thresholds = evaluation.roc_curve()
        between = [evaluation.recall(threshold) for threshold in thresholds[1:-1]]
        intervals = np.array([(0.0, 0.0), *((one.low, one.high) for one in between), (1.0, 1.0)])
        display = cls(fpr=fpr, tpr=tpr, intervals=intervals, roc_auc=evaluation.roc_auc, name=name)
        return display.plot(ax=ax, **kwargs) if plot else display

    def plot(self, ax=None, **kwargs):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.
        **kwargs : dict
            For matplotlib's ``plot``.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = _axes(ax)
        label = f"{self.name or 'noisy counts'}, AUC {self.roc_auc!r}"
        (self.line_,) = self.ax_.plot(self.fpr, self.tpr, **{"label": label, **kwargs})
        self.ax_.fill_between(
            self.fpr, *self.intervals.T, color=self.line_.get_color(), alpha=0.2, linewidth=0
        )
        if len(self.ax_.lines) == 1:  # once on shared axes
            self.ax_.plot(
                [0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, label="guessing"
            )
        self.ax_.set(
            xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1)
        )
        self.ax_.set_aspect("equal")
        self.ax_.legend(frameon=False, loc="lower right")
        return self


class PrivateCalibrationDisplay:
    """Calibration curve of a private evaluation, with the intervals of its points.

    Create it with `from_evaluation`. Drawing costs nothing.

    Parameters
    ----------
    predicted : ndarray of shape (n_groups,)
        Mean probability in each group of records.
    observed : list of Estimate
        Part of the second class in each group.
    name : str or None, default=None
        Label of the curve.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : matplotlib Line2D
        The curve.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpdyn.evaluation import PrivateCalibrationDisplay, evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20_000, 1))
    >>> model = LogisticRegression(C=100).fit([[-1.0], [1.0]], [False, True])
    >>> evaluation = evaluate(model, X, X[:, 0] > 0, epsilon=1.0)
    >>> display = PrivateCalibrationDisplay.from_evaluation(evaluation, n_groups=4, plot=False)
    >>> display.predicted.size, bool(display.observed[-1].value > 0.9)
    (4, True)
    """

    def __init__(self, *, predicted, observed, name=None):
        self.predicted = predicted
        self.observed = observed
        self.name = name

    @classmethod
    def from_evaluation(cls, evaluation, *, n_groups=8, name=None, plot=True, ax=None, **kwargs):
        """Take the curve from what `evaluate` released.

        Parameters
        ----------
        evaluation : ScoreEvaluation
            Of a classifier of two classes.
        n_groups : int, default=8
            Number of groups that bins are joined to, a divisor of their number.
        name : str or None, default=None
            Label of the curve.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.
        **kwargs : dict
            For matplotlib's ``errorbar``.

        Returns
        -------
        PrivateCalibrationDisplay
        """
        _check_scores(evaluation)
        predicted, observed = evaluation.calibration_curve(n_groups)
        display = cls(predicted=predicted, observed=observed, name=name)
        return display.plot(ax=ax, **kwargs) if plot else display

    def plot(self, ax=None, **kwargs):
        """Draw the groups that have enough records to tell.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.
        **kwargs : dict
            For matplotlib's ``errorbar``.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = _axes(ax)
        told = [i for i, one in enumerate(self.observed) if not math.isnan(one.value)]
        value, low, high = (
            np.array([getattr(self.observed[i], name) for i in told])
            for name in ("value", "low", "high")
        )
        drawn = self.ax_.errorbar(
            self.predicted[told],
            value,
            yerr=[value - low, high - value],
            **{"marker": "o", "capsize": 3, "label": self.name or "noisy counts", **kwargs},
        )
        self.line_ = drawn.lines[0]
        self.ax_.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, label="calibrated")
        self.ax_.set(
            xlabel="predicted probability", ylabel="observed part", xlim=(0, 1), ylim=(0, 1)
        )
        self.ax_.set_aspect("equal")
        self.ax_.legend(frameon=False, loc="upper left")
        return self


def _check_scores(evaluation):
    if not isinstance(evaluation, ScoreEvaluation):
        raise ValueError(
            f"a {type(evaluation).__name__} has no such curve: pass what evaluate returns of a "
            "classifier of two classes"
        )
