"""Displays of an evaluation: the ROC curve and the calibration curve, with intervals."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skdpdyn.evaluation.estimates import Estimate
from skdpdyn.privacy.display import Display, draw_band, draw_reference


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRocCurveDisplay(Display):
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
        Axes and figure of the drawing.
    line_ : matplotlib Line2D
        The curve.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpdyn.evaluation import PrivateRocCurveDisplay, evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    >>> y = X[:, 0] > 0
    >>> model = LogisticRegression().fit([[-1.0], [1.0]], [False, True])
    >>> evaluation = evaluate(model, X, y, epsilon=4.0)
    >>> display = PrivateRocCurveDisplay.from_evaluation(evaluation, plot=False)
    >>> display.fpr.size, bool(display.roc_auc.value > 0.95)
    (33, True)
    """

    fpr: Any
    tpr: Any
    intervals: Any
    roc_auc: Any
    name: str | None = None

    @classmethod
    def from_evaluation(
        cls,
        evaluation: Any,
        *,
        name: str | None = None,
        plot: bool = True,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Take the curve from a result of `evaluate`.

        Parameters
        ----------
        evaluation : ScoreEvaluation
            Evaluation of a classifier of two classes.
        name : str or None, default=None
            Label of the curve.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``plot``.

        Returns
        -------
        PrivateRocCurveDisplay
        """
        _check_has(evaluation, "roc_curve")
        fpr, tpr, thresholds = evaluation.roc_curve()
        between = [evaluation.recall(threshold) for threshold in thresholds[1:-1]]
        intervals = np.array(
            [(0.0, 0.0), *((recall.low, recall.high) for recall in between), (1.0, 1.0)]
        )
        display = cls(fpr=fpr, tpr=tpr, intervals=intervals, roc_auc=evaluation.roc_auc, name=name)
        return display.plot(ax=ax, **kwargs) if plot else display

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``plot``.

        Returns
        -------
        self
        """
        self._draw_on(ax)
        label = f"{self.name or 'noisy counts'}, AUC {self.roc_auc!r}"
        options = {"label": label, **kwargs}
        self.line_ = draw_band(self.ax_, self.fpr, self.tpr, self.intervals.T, **options)
        if len(self.ax_.lines) == 1:  # once on shared axes
            draw_reference(self.ax_, [0, 1], [0, 1], "guessing")
        self.ax_.set(
            xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1)
        )
        self.ax_.set_aspect("equal")
        self.ax_.legend(frameon=False, loc="lower right")
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCalibrationDisplay(Display):
    """Calibration curve of a private evaluation, with the intervals of its points.

    Create it with `from_evaluation`. Drawing costs nothing.

    Parameters
    ----------
    predicted : ndarray of shape (n_groups,)
        Mean probability in each group of records, or the counts that are expected there.
    observed : list of Estimate
        Part of the second class in each group, or the counts that occurred there.
    name : str or None, default=None
        Label of the curve.
    of_counts : bool, default=False
        Whether it is of counts.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the drawing.
    line_ : matplotlib Line2D
        The curve.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpdyn.evaluation import PrivateCalibrationDisplay, evaluate
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    >>> model = LogisticRegression(C=100).fit([[-1.0], [1.0]], [False, True])
    >>> evaluation = evaluate(model, X, X[:, 0] > 0, epsilon=4.0)
    >>> display = PrivateCalibrationDisplay.from_evaluation(evaluation, n_groups=4, plot=False)
    >>> display.predicted.size, bool(display.observed[-1].value > 0.9)
    (4, True)
    """

    predicted: Any
    observed: Any
    name: str | None = None
    of_counts: bool = False

    @classmethod
    def from_evaluation(
        cls,
        evaluation: Any,
        *,
        n_groups: int | None = None,
        name: str | None = None,
        plot: bool = True,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Take the curve from a result of `evaluate`.

        Parameters
        ----------
        evaluation : ScoreEvaluation or RateEvaluation
            Evaluation of a classifier of two classes, or of counts.
        n_groups : int or None, default=None
            Number of groups, see `ScoreEvaluation.calibration_curve`. Of counts there are ten.
        name : str or None, default=None
            Label of the curve.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``errorbar``.

        Returns
        -------
        PrivateCalibrationDisplay
        """
        _check_has(evaluation, "calibration_curve")
        of_counts = hasattr(evaluation, "rate")
        groups = () if of_counts else (n_groups,)
        predicted, observed = evaluation.calibration_curve(*groups)
        if of_counts:
            observed = [
                Estimate(*(expected * end for end in (ratio.value, ratio.low, ratio.high)))
                for expected, ratio in zip(predicted.tolist(), observed, strict=True)
            ]
        display = cls(predicted=predicted, observed=observed, name=name, of_counts=of_counts)
        return display.plot(ax=ax, **kwargs) if plot else display

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the groups that have enough records to tell.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``errorbar``.

        Returns
        -------
        self
        """
        self._draw_on(ax)
        groups = [i for i, estimate in enumerate(self.observed) if not math.isnan(estimate.value)]
        value, low, high = (
            np.array([getattr(self.observed[i], name) for i in groups])
            for name in ("value", "low", "high")
        )
        drawn = self.ax_.errorbar(
            self.predicted[groups],
            value,
            yerr=[value - low, high - value],
            **{"marker": "o", "capsize": 3, "label": self.name or "noisy counts", **kwargs},
        )
        self.line_ = drawn.lines[0]
        largest = max(self.predicted) if self.of_counts else 1
        ends = [0, largest]
        draw_reference(self.ax_, ends, ends, "calibrated")
        self.ax_.set(xlabel="predicted probability", ylabel="observed part")
        if self.of_counts:
            self.ax_.set(xlabel="expected counts", ylabel="observed counts")
        else:
            self.ax_.set(xlim=(0, 1), ylim=(0, 1))
        self.ax_.set_aspect("equal")
        self.ax_.legend(frameon=False, loc="upper left")
        return self


def _check_has(evaluation, curve):
    """Refuse evaluations that have no such curve."""
    if not hasattr(evaluation, curve):
        raise ValueError(
            f"a {type(evaluation).__name__} has no {curve}: pass what evaluate returns of a "
            "classifier of two classes, or for a calibration curve of counts"
        )
