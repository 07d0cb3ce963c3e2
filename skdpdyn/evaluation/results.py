"""Results of an evaluation: metrics with intervals, and their cost."""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skdpdyn.core.noise import source_of
from skdpdyn.core.schema import Source
from skdpdyn.evaluation.bins import joined_bins
from skdpdyn.evaluation.curves import PrivateCalibrationDisplay, PrivateRocCurveDisplay
from skdpdyn.evaluation.estimates import Estimate, NoisyNumbers
from skdpdyn.exceptions import optional
from skdpdyn.privacy import privacy_report
from skdpdyn.privacy.checks import as_float, quoted
from skdpdyn.privacy.display import Document, Shown, whose
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.report import Assumed, PrivacyReport
from skdpdyn.training.sources import facts_of

MOST_CONFUSED = 30  # classes whose pairs are counted: of more, each metric would have more noise


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PrivateEvaluation(Shown):
    """Metrics with intervals, and their cost: the result of `evaluate`.

    Everything in it was released and may be shown to anybody. All metrics are computed from one
    release, so asking for more of them costs nothing.

    Parameters
    ----------
    n_samples : int
        Public number of records, or of persons.
    total : tuple of float
        Sum of the weights, and the standard deviation of its noise. Without weights, these are the
        number of records and 0.
    noisy : NoisyNumbers
        Released numbers, with the covariance of their noise.
    privacy_ : Guarantee
        Guarantee of the release.
    mechanism_ : record
        Record of the release.
    delta_ : float
        Delta at which epsilon is printed.
    confidence : float
        Coverage probability of the intervals.
    leaks_ : tuple of str, default=()
        Leaks that ``privacy_`` does not cover, such as a seed.
    sources_ : tuple of Source, default=()
        Releases that ``schema`` or ``target_bounds`` came from, which `total_privacy` names.
    intervals_for : {"noise alone", "the population"}, default="noise alone"
        Whether intervals are for the metrics of these records, or of their population.
    """

    n_samples: int
    total: tuple[float, float]
    noisy: NoisyNumbers
    privacy_: Guarantee
    mechanism_: Any
    delta_: float
    confidence: float
    leaks_: tuple[str, ...] = ()
    sources_: tuple[Source, ...] = ()
    intervals_for: str = "noise alone"

    if TYPE_CHECKING:  # metrics depend on the kind of model

        def __getattr__(self, name: str) -> Any: ...

    @property
    def privacy_unit_(self) -> str:
        """Whom ``privacy_`` is for: "record", or "person" where ``groups`` were given."""
        return self.privacy_.unit

    @property
    def epsilon_(self) -> float:
        """The epsilon that was spent, at ``delta_``."""
        return float(self.privacy_.epsilon(self.delta_))

    @property
    def population(self) -> Self | None:
        """The same with intervals for the population; None if these are."""
        return None

    def mean(
        self, weights: np.ndarray, bounds: tuple[float, float], sampled: float = 0.0
    ) -> Estimate:
        """Return a weighted sum of the released numbers, over the total weight of records.

        Parameters
        ----------
        weights : ndarray
            Weight of each released number.
        bounds : tuple of float
            Within which it is.
        sampled : float, default=0.0
            Variance that a sample adds to the sum less the mean times the weight of records.

        Returns
        -------
        Estimate
        """
        divisor = np.append(np.zeros(len(weights)), 1.0)
        above = np.append(weights, 0.0)
        return self.noisy.beside(*self.total).ratio(above, divisor, bounds, sampled)

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
            One row for each metric, by its name, with columns "value", "low" and "high", and
            "population low" and "population high" where these are known.
        """
        pandas = optional("pandas", "plot")
        return pandas.DataFrame(dict(self._columns()), index=list(self.metrics()))

    def privacy_report(self) -> PrivacyReport:
        """Report on the release: its theorem, its cost, and the limits of its promise.

        Returns
        -------
        PrivacyReport
        """
        assumptions = [f"that each weight follows from its own {self.privacy_unit_} alone"]
        assumptions *= bool(self.total[1] > 0)  # it was bought
        return privacy_report(
            self.mechanism_,
            self.privacy_,
            delta=self.delta_,
            bound="composition",
            assumed=Assumed(
                (
                    f"n_samples={self.n_samples}",
                    "the model",
                    "thresholds, classes and bounds",
                    *assumptions,
                ),
                source_of(self.leaks_),
                self.leaks_,
                facts_of(self.sources_),
            ),
        )

    def document(self) -> Document:
        """Return the table that is shown.

        Returns
        -------
        Document
        """
        names, columns = zip(*self._columns(), strict=True)
        rows = [
            (name, *(f"{number:.4g}" for number in numbers))
            for name, *numbers in zip(self.metrics(), *columns, strict=True)
        ]
        spent = f"spent: epsilon={self.epsilon_:.6g}, delta={self.delta_:.3g}"
        return Document(
            f"{self.n_samples} {self.privacy_unit_}s, intervals of {100 * self.confidence:g} % for "
            f"{self.intervals_for}",
            [("", *names), *rows],
            [*self._notes(), f"{spent} ({whose(self.privacy_)})"],
            self.leaks_,
        )

    def _notes(self):
        """Return sentences about the release."""
        return []

    def _columns(self):
        """Return the pairs (name, values) of the table."""
        metrics = self.metrics().values()
        population = self.population
        columns = [
            (end, [getattr(metric, end) for metric in metrics]) for end in ("value", "low", "high")
        ]
        if population is not None:
            known = population.metrics()
            of_same = [known.get(name) for name in self.metrics()]
            columns += [
                (f"population {end}", [getattr(metric, end, math.nan) for metric in of_same])
                for end in ("low", "high")
            ]
        return columns


def _of_population(evaluation, n_labels, **without):
    """Return an evaluation of counts by label, whose covariance has that of the sample too."""
    if evaluation.intervals_for != "noise alone":
        return None
    noisy = evaluation.noisy.of_population(n_labels)
    return replace(evaluation, noisy=noisy, intervals_for="the population", **without)


class _OfNumbers(PrivateEvaluation):
    """Metrics from sums of numbers, whose squares were bought for the population.

    ``sampled`` are variances that a sample adds to sums less metrics times what they are divided
    by, in units of released limits.
    """

    sampled: np.ndarray

    @property
    def population(self) -> Self | None:
        """The same, with intervals for the population; None if these are."""
        if self.intervals_for != "noise alone":
            return None
        return replace(self, intervals_for="the population")

    def _added(self, place):
        """Return the variance that a sample adds, where intervals are for the population."""
        return 0.0 if self.intervals_for == "noise alone" else float(self.sampled[place])


class _OfLabels(PrivateEvaluation):
    """Metrics from counts by label, the last of which is of labels that are no class."""

    @property
    def other(self) -> Estimate:
        """Part of the records whose label is none of the classes."""
        last = np.zeros(self.noisy.values.size)
        last[-1] = 1.0
        return self.mean(last, (0.0, 1.0))


class _Calibrated:
    """Results that have a calibration curve."""

    def plot_calibration(self, **options: Any) -> PrivateCalibrationDisplay:
        """Draw parts or counts that occur in groups of predictions against these, with intervals.

        Parameters
        ----------
        **options : dict
            Options of `PrivateCalibrationDisplay.from_evaluation`.

        Returns
        -------
        PrivateCalibrationDisplay
        """
        return PrivateCalibrationDisplay.from_evaluation(self, **options)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScoreEvaluation(_OfLabels, _Calibrated):
    """Metrics of a classifier of two classes, from a histogram of its probabilities by label.

    The second class is predicted for a record if its probability is above the threshold. Metrics
    are computed from probabilities rounded to bins. Accuracy, recall and precision are exact at the
    edges of bins, which include the thresholds. Intervals for the population are conservative if
    records are persons. Labels that are neither class count as errors in the accuracy, as 3 log 2
    in the log loss and as 1 in the Brier score. These metrics and the prevalence are relative to
    all records, and all other metrics to the records of the two classes.

    Parameters
    ----------
    n_samples : int
        Public number of records, or of persons.
    total : tuple of float
        Sum of the weights, and the standard deviation of its noise. Without weights, these are the
        number of records and 0.
    noisy : NoisyNumbers
        Counts of the first and of the second class by bin, and a count of all other labels, with
        the covariance of their noise.
    privacy_ : Guarantee
        Guarantee of the release.
    mechanism_ : record
        Record of the release.
    delta_ : float
        Delta at which epsilon is printed.
    confidence : float
        Coverage probability of the intervals.
    leaks_ : tuple of str, default=()
        Leaks that ``privacy_`` does not cover, such as a seed.
    sources_ : tuple of Source, default=()
        Releases that ``schema`` or ``target_bounds`` came from, which `total_privacy` names.
    intervals_for : {"noise alone", "the population"}, default="noise alone"
        Whether intervals are for the metrics of these records, or of their population.
    thresholds : ndarray of shape (n_thresholds,)
        Thresholds at which metrics have the least noise: those that were given, or all edges.
    edges : ndarray of shape (n_bins - 1,)
        Released probabilities between the bins, which include the thresholds.
    middles : ndarray of shape (n_bins,)
        Released median probability of each bin.
    losses, squares : ndarray of shape (2, n_bins)
        Estimated mean log loss and squared error of each label in each bin. They follow from the
        released distribution of probabilities, recalibrated by the released counts.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpdyn.evaluation import evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    >>> model = LogisticRegression().fit([[-1.0], [1.0]], [False, True])
    >>> found = evaluate(model, X, X[:, 0] > 0, epsilon=4.0)
    >>> bool(found.recall(0.5).value > 0.95), found.thresholds.size
    (True, 31)
    """

    thresholds: np.ndarray
    edges: np.ndarray
    middles: np.ndarray
    losses: np.ndarray
    squares: np.ndarray

    @property
    def population(self) -> Self | None:
        """The same, with intervals for the population; None if these are."""
        return _of_population(self, 2)

    @property
    def accuracy(self) -> Estimate:
        """Share of the records whose label is predicted correctly, see `accuracy_at`."""
        return self.accuracy_at()

    @property
    def roc_auc(self) -> Estimate:
        """Return the area under the ROC curve; ties count half."""
        negative, positive = self._by_label()
        n_negative = negative.sum()
        n_positive = positive.sum()
        below = np.cumsum(negative) - negative / 2
        above = n_positive - np.cumsum(positive) + positive / 2
        nothing = Estimate(math.nan, 0.0, 1.0)
        if any(self.noisy.linear(self._select(0, label)).low <= 0 for label in (0, 1)):
            return nothing
        auc = float(positive @ below / (n_negative * n_positive))
        gradient = [
            (above / n_positive - auc) / n_negative,
            (below / n_negative - auc) / n_positive,
            np.zeros(1),
        ]
        return self.noisy.smooth(auc, np.concatenate(gradient))

    @property
    def log_loss(self) -> Estimate:
        """Return the mean log loss, from the mean loss in each bin by label."""
        return self.mean(np.append(self.losses, 3 * math.log(2)), (0.0, math.inf))

    @property
    def brier_score(self) -> Estimate:
        """Return the mean squared error of the probability, from the mean in each bin by label."""
        return self.mean(np.append(self.squares, 1.0), (0.0, 1.0))

    @property
    def prevalence(self) -> Estimate:
        """Share of the records that belong to the second class."""
        return self.mean(self._select(0, 1), (0.0, 1.0))

    def accuracy_at(self, threshold: float | None = None) -> Estimate:
        """Return the share of the records whose label is predicted correctly.

        Parameters
        ----------
        threshold : float or None, default=None
            One of ``thresholds``; None: 1/2 if it is one, else the middle one.

        Returns
        -------
        Estimate
        """
        first = self._first_bin(threshold)
        weights = self._select(first, 1) + self._select(0, 0) - self._select(first, 0)
        return self.mean(weights, (0.0, 1.0))

    def recall(self, threshold: float | None = None) -> Estimate:
        """Return the share of the second class that is predicted correctly (true-positive rate).

        Parameters
        ----------
        threshold : float or None, default=None
            One of ``thresholds``; None: 1/2 if it is one, else the middle one.

        Returns
        -------
        Estimate
        """
        return self.noisy.ratio(self._select(self._first_bin(threshold), 1), self._select(0, 1))

    def false_positive_rate(self, threshold: float | None = None) -> Estimate:
        """Return the share of the first class that is predicted to be the second class.

        Parameters
        ----------
        threshold : float or None, default=None
            One of ``thresholds``; None: 1/2 if it is one, else the middle one.

        Returns
        -------
        Estimate
        """
        return self.noisy.ratio(self._select(self._first_bin(threshold), 0), self._select(0, 0))

    def precision(self, threshold: float | None = None) -> Estimate:
        """Return the share of the second class among records that are predicted to belong to it.

        Parameters
        ----------
        threshold : float or None, default=None
            One of ``thresholds``; None: 1/2 if it is one, else the middle one.

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
        return fpr, tpr, np.concatenate([[1.0], self.edges[::-1], [0.0]])

    def calibration_curve(self, n_groups: int | None = None) -> tuple[np.ndarray, list[Estimate]]:
        """Return how often the second class occurs where it is predicted with a probability.

        Parameters
        ----------
        n_groups : int or None, default=None
            Number of groups that the neighbouring bins between ``thresholds`` are joined to, of as
            many each as can be. None: 8, or all bins if they are fewer.

        Returns
        -------
        predicted : ndarray of shape (n_groups,)
            Mean probability in each group, or its middle where there are no records to tell.
        observed : list of Estimate
            Part of the second class in each group; NaN where there are too few records.
        """
        n_bins = self.thresholds.size + 1
        n_groups = min(8, n_bins) if n_groups is None else n_groups
        if n_groups not in range(1, n_bins + 1):
            raise ValueError(
                f"n_groups={quoted(n_groups)} must be a whole number from 1 to {n_bins}, the "
                "number of bins between thresholds"
            )
        bins: Any = joined_bins(self.edges, self.thresholds)
        predicted = []
        observed = []
        for group in np.array_split(np.arange(n_bins), n_groups):
            part = np.isin(bins, group)
            inside = np.tile(1.0 * part, (2, 1))
            positive = inside * [[0.0], [1.0]]
            observed.append(self.noisy.ratio(np.append(positive, 0.0), np.append(inside, 0.0)))
            counts = np.maximum(sum(self._by_label())[part], 0)
            counts = counts if counts.any() else np.ones(counts.size)
            predicted.append(counts @ self.middles[part] / counts.sum())
        return np.array(predicted), observed

    def plot_roc(self, **options: Any) -> PrivateRocCurveDisplay:
        """Draw the ROC curve with the intervals of its points.

        Parameters
        ----------
        **options : dict
            Options of `PrivateRocCurveDisplay.from_evaluation`.

        Returns
        -------
        PrivateRocCurveDisplay
        """
        return PrivateRocCurveDisplay.from_evaluation(self, **options)

    def metrics(self) -> dict[str, Estimate]:
        """Return the metrics of the table by name, at the threshold 1/2 if that is one.

        Returns
        -------
        dict of str to Estimate
        """
        return {
            "accuracy": self.accuracy,
            "ROC AUC": self.roc_auc,
            "log loss": self.log_loss,
            "Brier score": self.brier_score,
            "recall": self.recall(),
            "precision": self.precision(),
            "prevalence": self.prevalence,
        }

    def _by_label(self):
        return self.noisy.values[:-1].reshape(2, -1)

    def _select(self, first, label):
        """Return the weights that sum one label's counts from a bin on."""
        weights = np.zeros((2, self.edges.size + 1))
        weights[label, first:] = 1
        return np.append(weights, 0.0)

    def _first_bin(self, threshold):
        """Return the first bin above a threshold."""
        if threshold is None:
            middle = self.thresholds[self.thresholds.size // 2]
            threshold = 0.5 if 0.5 in self.thresholds else middle
        at = int(np.argmin(np.abs(self.edges - as_float(threshold))))
        if not abs(self.edges[at] - as_float(threshold)) <= 1e-9:
            raise ValueError(
                f"threshold={quoted(threshold)} is not a threshold of this evaluation: it must "
                f"be one of {self.thresholds.tolist()}. Give evaluate the thresholds that you need"
            )
        return at + 1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClassEvaluation(_OfLabels):
    """Metrics for more than two classes, from noisy counts of true and predicted labels.

    Labels that are not classes count as errors in the accuracy, and with the largest log loss.
    Recall and precision are relative to the records of the classes. With more than 30 classes,
    pairs of labels are not counted. Instead, three counts are released for each label: correct
    predictions, errors with this true label, and errors with this predicted label. Each metric then
    has less noise.

    Parameters
    ----------
    n_samples : int
        Public number of records, or of persons.
    total : tuple of float
        Sum of the weights, and the standard deviation of its noise. Without weights, these are the
        number of records and 0.
    noisy : NoisyNumbers
        Counts by true and predicted label (with more than 30 classes, counts of correct predictions
        and of errors by true label), and a count of all other labels, with the covariance of their
        noise.
    privacy_ : Guarantee
        Guarantee of the release.
    mechanism_ : record
        Record of the release.
    delta_ : float
        Delta at which epsilon is printed.
    confidence : float
        Coverage probability of the intervals.
    leaks_ : tuple of str, default=()
        Leaks that ``privacy_`` does not cover, such as a seed.
    sources_ : tuple of Source, default=()
        Releases that ``schema`` or ``target_bounds`` came from, which `total_privacy` names.
    intervals_for : {"noise alone", "the population"}, default="noise alone"
        Whether intervals are for the metrics of these records, or of their population.
    classes : ndarray of shape (n_classes,)
        The labels.
    log_loss, brier_score : Estimate or None, default=None
        Mean log loss, clipped at 3 log(n_classes) for each record, and mean squared error of all
        probabilities of a record, at most 2. A separate share of the budget buys them. None for a
        model without probabilities.
    by_predicted : NoisyNumbers or None, default=None
        Counts of correct predictions and of errors by predicted label, and a count of all other
        labels. None if ``noisy`` has all pairs of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpdyn.evaluation import evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    >>> model = LogisticRegression(C=100).fit([[-0.6], [0.0], [0.6]], [0, 1, 2])
    >>> found = evaluate(model, X, np.digitize(X[:, 0], [-0.3, 0.3]), epsilon=4.0)
    >>> bool(found.accuracy.value > 0.9), found.confusion_matrix.shape
    (True, (3, 3))
    """

    classes: np.ndarray
    log_loss: Estimate | None = None
    brier_score: Estimate | None = None
    by_predicted: NoisyNumbers | None = None

    @property
    def population(self) -> Self | None:
        """The same but the losses, with intervals for the population; None if these are."""
        n_classes = self.classes.size
        predicted = self.by_predicted and self.by_predicted.of_population(n_classes)
        return _of_population(
            self, n_classes, log_loss=None, brier_score=None, by_predicted=predicted
        )

    @property
    def confusion_matrix(self) -> np.ndarray | None:
        """Noisy counts, true labels by row, predicted ones by column; None: more than 30 labels."""
        if self.by_predicted is not None:
            return None
        return self.noisy.values[:-1].reshape(self.classes.size, -1)

    @property
    def accuracy(self) -> Estimate:
        """Part of the records whose label is predicted correctly."""
        right = sum(self._counted(code)[0] for code in range(self.classes.size))
        return self.mean(right, (0.0, 1.0))

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
        return self._part(label)

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
        return self._part(label, by_predicted=True)

    def metrics(self) -> dict[str, Estimate]:
        """Return the metrics of the table by name.

        Returns
        -------
        dict of str to Estimate
        """
        rows: dict[str, Any] = {"accuracy": self.accuracy}
        if self.log_loss is not None:
            rows |= {"log loss": self.log_loss, "Brier score": self.brier_score}
        for name, metric in (("recall", self.recall), ("precision", self.precision)):
            rows |= {f"{name} of {label}": metric(label) for label in self.classes.tolist()}
        return rows

    def _part(self, label, by_predicted=False):
        labels = self.classes.tolist()
        if label not in labels:
            raise ValueError(f"label={quoted(label)} must be one of {labels}")
        of_pairs = self.by_predicted is None
        numbers = self.by_predicted if by_predicted and not of_pairs else self.noisy
        return numbers.ratio(*self._counted(labels.index(label), by_predicted and of_pairs))

    def _counted(self, code, by_column=False):
        """Return weights of counts that sum the right records of a label, and all of it."""
        counts = np.zeros((self.classes.size, (self.noisy.values.size - 1) // self.classes.size))
        right = counts.copy()
        right[code, code if self.by_predicted is None else 0] = 1
        counts[(slice(None), code) if by_column else code] = 1
        return np.append(right, 0.0), np.append(counts, 0.0)

    def _notes(self):
        """See `PrivateEvaluation._notes`."""
        if self.by_predicted is None:
            return []
        return [f"of more than {MOST_CONFUSED} classes no pairs of labels are counted"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegressionEvaluation(_OfNumbers):
    """Metrics of a regression, from noisy sums of clipped errors and targets.

    Parameters
    ----------
    n_samples : int
        Public number of records, or of persons.
    total : tuple of float
        Sum of the weights, and the standard deviation of its noise. Without weights, these are the
        number of records and 0.
    noisy : NoisyNumbers
        Four sums, with the covariance of their noise: of the absolute and the squared errors,
        divided by ``largest_error`` and its square; of the target, centred and scaled to
        [-1/2, 1/2] by ``target_scale``; and of four times its square.
    privacy_ : Guarantee
        Guarantee of the release.
    mechanism_ : record
        Record of the release.
    delta_ : float
        Delta at which epsilon is printed.
    confidence : float
        Coverage probability of the intervals.
    leaks_ : tuple of str, default=()
        Leaks that ``privacy_`` does not cover, such as a seed.
    sources_ : tuple of Source, default=()
        Releases that ``schema`` or ``target_bounds`` came from, which `total_privacy` names.
    intervals_for : {"noise alone", "the population"}, default="noise alone"
        Whether intervals are for the metrics of these records, or of their population.
    target_bounds : tuple (low, high)
        Bounds to which targets and predictions are clipped.
    largest_error : float
        Limit at which errors are clipped, given or released.
    target_scale : tuple of float
        For R^2: the approximate median of the targets, and twice the distance from it at which
        targets are clipped. Both are released, or are the middle and the width of the bounds.
    sampled : ndarray of shape (3,)
        Released sampling variances of the sums of the metrics.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skdpdyn.evaluation import evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    >>> model = LinearRegression().fit([[-1.0], [1.0]], [-1.0, 1.0])
    >>> found = evaluate(model, X, X[:, 0], epsilon=4.0, target_bounds=(-1.0, 1.0))
    >>> bool(found.r2.value > 0.9), bool(found.largest_error < 0.01)
    (True, True)
    """

    target_bounds: tuple[float, float]
    largest_error: float
    target_scale: tuple[float, float]
    sampled: np.ndarray

    @property
    def mean_absolute_error(self) -> Estimate:
        """Mean of the absolute errors."""
        weights = np.array([self.largest_error, 0, 0, 0])
        return self.mean(weights, (0.0, self.largest_error), self._added(0))

    @property
    def mean_squared_error(self) -> Estimate:
        """Mean of the squared errors."""
        square = self.largest_error**2
        return self.mean(np.array([0, square, 0, 0]), (0.0, square), self._added(1))

    @property
    def r2(self) -> Estimate:
        """Part of the variance of the target that the model explains."""
        square = self.target_scale[1] ** 2
        mean = self.noisy.values[2] / self.total[0]
        centred = square * np.array([0, 0, -2 * mean, 0.25, mean**2])
        errors = np.array([0, self.largest_error**2, 0, 0, 0])
        # The variance is no sum: this form of it is off by the square of the mean's noise
        unexplained = self.noisy.beside(*self.total).ratio(
            errors, centred, (0.0, math.inf), self._added(2)
        )
        return Estimate(1 - unexplained.value, 1 - unexplained.high, 1 - unexplained.low)

    def _notes(self):
        """See `PrivateEvaluation._notes`."""
        return [f"errors beyond {self.largest_error:.4g} count as it"]

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


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class QuantileEvaluation(_OfNumbers):
    """Metrics of a model of a quantile: its pinball loss, and the part of targets that it covers.

    R^2, absolute and squared errors judge means and medians, and are not released.

    Parameters
    ----------
    n_samples : int
        Public number of records, or of persons.
    total : tuple of float
        Sum of the weights, and the standard deviation of its noise. Without weights, these are the
        number of records and 0.
    noisy : NoisyNumbers
        Two sums, with the covariance of their noise: of the pinball losses, divided by
        ``largest_error``, and of targets at or below the prediction.
    privacy_ : Guarantee
        Guarantee of the release.
    mechanism_ : record
        Record of the release.
    delta_ : float
        Delta at which epsilon is printed.
    confidence : float
        Coverage probability of the intervals.
    leaks_ : tuple of str, default=()
        Leaks that ``privacy_`` does not cover, such as a seed.
    sources_ : tuple of Source, default=()
        Releases that ``schema`` or ``target_bounds`` came from, which `total_privacy` names.
    intervals_for : {"noise alone", "the population"}, default="noise alone"
        Whether intervals are for the metrics of these records, or of their population.
    quantile : float
        The quantile that the model predicts.
    target_bounds : tuple (low, high)
        Bounds to which targets and predictions are clipped.
    largest_error : float
        Limit at which pinball losses are clipped, given or released.
    sampled : ndarray of shape (2,)
        Released sampling variances of the sums.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateQuantileRegressor
    >>> from skdpdyn.evaluation import evaluate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 1))
    >>> y = X[:, 0] + rng.normal(size=20_000)
    >>> model = PrivateQuantileRegressor(quantile=0.9, target_bounds=(-5, 5))
    >>> model = model.fit(X[:10_000], y[:10_000])
    >>> found = evaluate(model, X[10_000:], y[10_000:], epsilon=1.0)
    >>> bool(0.85 < found.coverage.value < 0.95), bool(found.mean_pinball_loss.value < 0.3)
    (True, True)
    """

    quantile: float
    target_bounds: tuple[float, float]
    largest_error: float
    sampled: np.ndarray

    @property
    def mean_pinball_loss(self) -> Estimate:
        """Mean of the pinball losses, clipped at ``largest_error``."""
        weights = np.array([self.largest_error, 0])
        return self.mean(weights, (0.0, self.largest_error), self._added(0))

    @property
    def coverage(self) -> Estimate:
        """Part of the targets at or below the prediction, which is to be the quantile."""
        return self.mean(np.array([0.0, 1.0]), (0.0, 1.0), self._added(1))

    def _notes(self):
        """See `PrivateEvaluation._notes`."""
        return [
            f"coverage: the part of targets at or below the prediction, to be {self.quantile:g}",
            f"losses beyond {self.largest_error:.4g} count as it",
        ]

    def metrics(self) -> dict[str, Estimate]:
        """Return the metrics of the table by name.

        Returns
        -------
        dict of str to Estimate
        """
        return {"mean pinball loss": self.mean_pinball_loss, "coverage": self.coverage}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RateEvaluation(_OfNumbers, _Calibrated):
    """Metrics of a model of counts: deviance, and calibration by decile of the predicted rate.

    Parameters
    ----------
    n_samples : int
        Public number of records, or of persons.
    total : tuple of float
        Sum of the weights, and the standard deviation of its noise. Without weights, these are the
        number of records and 0.
    noisy : NoisyNumbers
        Sums of expected and of observed counts in ten groups and overall, divided by
        ``largest_count``, and sums of the deviances from the predictions and from the overall rate,
        divided by ``largest_error``.
    privacy_ : Guarantee
        Guarantee of the release.
    mechanism_ : record
        Record of the release.
    delta_ : float
        Delta at which epsilon is printed.
    confidence : float
        Coverage probability of the intervals.
    leaks_ : tuple of str, default=()
        Leaks that ``privacy_`` does not cover, such as a seed.
    sources_ : tuple of Source, default=()
        Releases that ``schema`` or ``target_bounds`` came from, which `total_privacy` names.
    intervals_for : {"noise alone", "the population"}, default="noise alone"
        Whether intervals are for the metrics of these records, or of their population.
    thresholds : ndarray of shape (9,)
        Released rates between the groups, approximately the deciles.
    rate : float
        Released overall rate, with whose deviance that of the model is compared.
    largest_count : float
        Released limit at which expected and observed counts are clipped.
    largest_error : float
        Limit at which the deviances of a record are clipped, given or released.
    sampled : ndarray of shape (13,)
        Released sampling variances of the sums of the metrics and of the ten groups.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivatePoissonRegressor
    >>> from skdpdyn.evaluation import evaluate
    >>> rng = np.random.default_rng(0)
    >>> X, years = rng.uniform(-1, 1, (50_000, 1)), rng.uniform(0.5, 1.0, 50_000)
    >>> claims = rng.poisson(years * np.exp(X[:, 0]))
    >>> model = PrivatePoissonRegressor(target_bounds=(0, 8)).fit(X, claims, exposure=years)
    >>> found = evaluate(model, X, claims, exposure=years, epsilon=1.0)
    >>> bool(0.1 < found.d2.value < 0.4), len(found.calibration_curve()[1])
    (True, 10)
    """

    thresholds: np.ndarray
    rate: float
    largest_count: float
    largest_error: float
    sampled: np.ndarray

    @property
    def mean_deviance(self) -> Estimate:
        """Mean of the Poisson deviances, clipped at ``largest_error``."""
        weights = np.zeros(24)
        weights[22] = self.largest_error
        added = self.largest_error**2 * self._added(0)
        return self.mean(weights, (0.0, self.largest_error), added)

    @property
    def d2(self) -> Estimate:
        """Part of the deviance from one common rate that the model explains."""
        of_model, of_one = np.eye(24)[22:]
        unexplained = self.noisy.ratio(of_model, of_one, (0.0, math.inf), self._added(1))
        return Estimate(1 - unexplained.value, 1 - unexplained.high, 1 - unexplained.low)

    @property
    def calibration(self) -> Estimate:
        """Sum of observed counts over that of expected ones."""
        expected, observed = np.eye(24)[20:22]
        return self.noisy.ratio(observed, expected, (0.0, math.inf), self._added(2))

    def calibration_curve(self) -> tuple[np.ndarray, list[Estimate]]:
        """Return how many counts were expected by group, and observed ones over expected ones.

        Returns
        -------
        expected : ndarray of shape (10,)
            Sum of expected counts in each group, from the lowest rates to the highest, with noise.
        ratios : list of Estimate
            Observed counts over expected ones; NaN where noise leaves nothing of them.
        """
        ratios = [
            self.noisy.ratio(observed, expected, (0.0, math.inf), self._added(3 + k))
            for k, (expected, observed) in enumerate(
                np.eye(24)[:20].reshape(2, 10, 24).swapaxes(0, 1)
            )
        ]
        return self.noisy.values[:10] * self.largest_count, ratios

    def metrics(self) -> dict[str, Estimate]:
        """Return the metrics of the table by name.

        Returns
        -------
        dict of str to Estimate
        """
        return {
            "D^2": self.d2,
            "mean deviance": self.mean_deviance,
            "observed / expected": self.calibration,
        }


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PairedEvaluation(_OfNumbers):
    """Differences of the mean losses of two models on the same records.

    The loss of the other model is subtracted from that of the first: below 0, the first is better.

    Parameters
    ----------
    n_samples : int
        Public number of records, or of persons.
    total : tuple of float
        Sum of the weights, and the standard deviation of its noise. Without weights, these are the
        number of records and 0.
    noisy : NoisyNumbers
        Sums of differences of losses over ``limits``, with the covariance of their noise.
    privacy_ : Guarantee
        Guarantee of the release.
    mechanism_ : record
        Record of the release.
    delta_ : float
        Delta at which epsilon is printed.
    confidence : float
        Coverage probability of the intervals.
    leaks_ : tuple of str, default=()
        Leaks that ``privacy_`` does not cover, such as a seed.
    sources_ : tuple of Source, default=()
        Releases that ``schema`` or ``target_bounds`` came from, which `total_privacy` names.
    intervals_for : {"noise alone", "the population"}, default="noise alone"
        Whether intervals are for the differences of these records, or of their population.
    names : tuple of str
        Names of the losses.
    limits : ndarray of shape (n_losses,)
        Released limits at which differences are clipped.
    sampled : ndarray of shape (n_losses,)
        Released sampling variances of the sums.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpdyn.evaluation import evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    >>> y = X[:, 0] > 0
    >>> model = LogisticRegression(C=100).fit([[-1.0], [1.0]], [False, True])
    >>> other = LogisticRegression(C=1).fit([[-1.0], [1.0]], [False, True])
    >>> found = evaluate(model, X, y, epsilon=4.0, against=other)
    >>> bool(found.metrics()["log loss"].high < 0)
    True
    """

    names: tuple[str, ...]
    limits: np.ndarray
    sampled: np.ndarray

    def metrics(self) -> dict[str, Estimate]:
        """Return the differences of the table by name.

        Returns
        -------
        dict of str to Estimate
        """
        return {
            name: self.mean(weights, (-limit, limit), limit**2 * self._added(k))
            for k, (name, weights, limit) in enumerate(
                zip(self.names, np.diag(self.limits), self.limits.tolist(), strict=True)
            )
        }

    def _notes(self):
        """See `PrivateEvaluation._notes`."""
        return ["losses of the first model less those of the other: below 0, it is better"]
