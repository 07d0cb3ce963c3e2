"""Pictures of the cost of training: over steps, to an attacker, and in scores."""

import importlib
import math
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import special

from skdpdyn.exceptions import UnsupportedMechanismError, optional
from skdpdyn.privacy.accountants import ACCOUNTANTS, tightest
from skdpdyn.privacy.arguments import has_own
from skdpdyn.privacy.checks import checked_count, checked_number, quoted
from skdpdyn.privacy.display import Display, draw_band, draw_reference, label_of
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.training.base import distinct

_MOST_SHAPES = 12  # that are drawn where none are named
_FAR = 7.0  # quantile of the smallest false positive rate above 0, 1e-12


@dataclass(kw_only=True, eq=False, repr=False)
class PrivacyDynamicsDisplay(Display):
    """Privacy loss against the number of steps, under every bound that holds.

    Create it with `from_mechanism` or `from_estimator`.

    Parameters
    ----------
    steps : ndarray of shape (n_points,)
        Numbers of steps.
    curves : dict of str to ndarray of shape (n_points,)
        Loss after each, by accountant.
    ylabel : str
        Label of the loss.
    target : float or None, default=None
        The budget, drawn as a line.
    n_steps : int or None, default=None
        Steps of the run itself, marked.
    xlabel : str, default="steps"
        Label of the counted steps.
    title : str or None, default=None
        Title of the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the drawing.
    lines_ : dict of str to matplotlib Line2D
        The curves.

    Examples
    --------
    >>> from skdpdyn.inspection import PrivacyDynamicsDisplay
    >>> from skdpdyn.privacy import NoisyGradientDescent
    >>> m = NoisyGradientDescent(
    ...     n_steps=500,
    ...     noise_multiplier=250.0,
    ...     step_size=0.02,
    ...     strong_convexity=1.0,
    ...     smoothness=4.0,
    ... )
    >>> display = PrivacyDynamicsDisplay.from_mechanism(m, order=10, plot=False)
    >>> round(float(display.curves["last_iterate"][-1]), 8)
    0.00791935
    """

    steps: Any
    curves: Any
    ylabel: Any
    target: Any = None
    n_steps: int | str | None = None
    xlabel: Any = "steps"
    title: Any = None

    @classmethod
    def from_mechanism(
        cls,
        mechanism: Any,
        *,
        delta: Any = 1e-6,
        order: Any = None,
        n_points: Any = 60,
        target: Any = None,
        max_steps: Any = None,
        title: Any = None,
        plot: Any = True,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Evaluate all accountants on the same run, stopped earlier or later.

        Parameters
        ----------
        mechanism : record
            A record with ``n_steps`` or ``n_epochs``, which is what varies.
        delta : float, default=1e-6
            Delta at which epsilon is read, if ``order`` is None.
        order : float or None, default=None
            Show the Renyi divergence of this order instead of epsilon.
        n_points : int, default=60
            Points on the curves.
        target : float or None, default=None
            A budget, drawn as a line.
        max_steps : int or None, default=None
            Last number of steps (epochs) shown; None: that of the record, beyond which only equal
            steps go on.
        title : str or None, default=None
            Title of the legend.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``plot``.

        Returns
        -------
        PrivacyDynamicsDisplay
        """
        length = _length(mechanism)
        if length is None:
            raise UnsupportedMechanismError(
                f"{type(mechanism).__name__} has no number of steps to vary"
            )
        delta = checked_number(delta, "delta", lambda x: 0 <= x <= 1, "in [0, 1]")
        if order is not None:
            order = checked_number(order, "order", lambda x: x > 1, "None or a number > 1")
        n_run = getattr(mechanism, length)
        last = n_run if max_steps is None else checked_count(max_steps, "max_steps", largest=10**15)
        if last > n_run and _fields_by_step(mechanism):
            raise UnsupportedMechanismError(
                f"max_steps={last}: the steps differ, and the record says nothing of steps "
                f"after {n_run}"
            )
        steps = np.unique(
            np.geomspace(1, last, checked_count(n_points, "n_points", least=2)).round().astype(int)
        )
        curves = {}
        for name, accountant in ACCOUNTANTS.items():
            try:
                guarantees = [accountant(_stopped(mechanism, length, int(k))) for k in steps]
                losses = [g.epsilon(delta) if order is None else g.rdp(order) for g in guarantees]
            except UnsupportedMechanismError:  # this accountant has no curve to show
                continue
            curves[name] = np.array(losses, dtype=float)
        if not curves:
            tightest(mechanism)  # says why
        ylabel = (
            f"epsilon at delta = {delta:.3g}"
            if order is None
            else f"Renyi divergence of order {order:g}"
        )
        display = cls(
            steps=steps,
            curves=curves,
            ylabel=ylabel,
            target=target,
            n_steps=n_run,
            xlabel=length.removeprefix("n_"),
            title=title,
        )
        return display.plot(ax=ax, **kwargs) if plot else display

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, plot: Any = True, **kwargs: Any
    ) -> Self:
        """Plot the dynamics of a fitted estimator's run, with the epsilon it spent as the target.

        Parameters
        ----------
        estimator : fitted estimator
            One with ``mechanism_`` and ``privacy_``, or a pipeline that ends in one and has no
            other private step.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        plot : bool, default=True
            Whether to draw at once.
        **kwargs : dict
            For `from_mechanism`.

        Returns
        -------
        PrivacyDynamicsDisplay

        Raises
        ------
        UnsupportedMechanismError
            If what ran has no number of steps to vary.
        """
        estimator = _fitted(estimator)
        mechanism = estimator.mechanism_
        options = {"title": "NOT PRIVATE" if estimator.leaks_ else None}
        training = [
            part for part in getattr(mechanism, "mechanisms", ()) if _length(part) is not None
        ]
        if len(training) == 1:  # the training after releases that prepared it
            (mechanism,) = training
            options["title"] = options["title"] or "the training alone"
        length = _length(mechanism)
        if length is not None and not _fields_by_step(mechanism):
            options["max_steps"] = 4 * getattr(mechanism, length)
        if kwargs.get("order") is None:
            delta = kwargs.get("delta", estimator.delta_)
            options |= {
                "delta": delta,
                "target": None if training else estimator.privacy_.epsilon(delta),
            }
        return cls.from_mechanism(mechanism, **{**options, **kwargs}, ax=ax, plot=plot)

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
        self.lines_ = {}
        for name, curve in self.curves.items():
            shown = np.where(np.isfinite(curve) & (curve > 0), curve, math.nan)
            (self.lines_[name],) = self.ax_.plot(
                self.steps, shown, **{"label": name.replace("_", " "), **kwargs}
            )
        if self.target is not None:
            self.ax_.axhline(self.target, color="0.3", linestyle="--", linewidth=1, label="target")
        if self.n_steps is not None and self.n_steps > 1:  # type: ignore[operator]
            label = f"{self.n_steps} {self.xlabel}"
            self.ax_.axvline(self.n_steps, color="0.6", linestyle=":", linewidth=1, label=label)
        self.ax_.set(xscale="log", yscale="log", xlabel=self.xlabel, ylabel=self.ylabel)
        self.ax_.legend(frameon=False, title=self.title)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class TradeoffDisplay(Display):
    """Plot false negatives against false positives of the best attack that a guarantee allows.

    Create it with `from_mechanism`, `from_guarantee` or `from_estimator`.

    Parameters
    ----------
    fpr : ndarray of shape (n_points,)
        False positive rates.
    fnr : ndarray of shape (n_points,)
        Smallest false negative rates.
    advantage : float
        Largest true positive rate minus false positive rate.
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
    >>> from skdpdyn.inspection import TradeoffDisplay
    >>> from skdpdyn.privacy import GaussianDP
    >>> round(TradeoffDisplay.from_guarantee(GaussianDP(1.0), plot=False).advantage, 6)
    0.382925
    """

    fpr: Any
    fnr: Any
    advantage: Any
    name: str | None = None

    @classmethod
    def from_guarantee(
        cls,
        guarantee: Any,
        *,
        n_points: Any = 201,
        name: Any = None,
        plot: Any = True,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the trade-off of a guarantee.

        Parameters
        ----------
        guarantee : Guarantee, or a total of several
            Guarantee of the release.
        n_points : int, default=201
            Points on the curve: the quantiles of normal numbers, for attackers who make few
            mistakes of one kind.
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
        TradeoffDisplay
        """
        leaks = getattr(guarantee, "leaks", ())  # of a total
        guarantee = getattr(guarantee, "guarantee", guarantee)
        if not isinstance(guarantee, Guarantee):
            raise ValueError(
                f"{quoted(guarantee)} is no guarantee: of an estimator use from_estimator, of a "
                "record from_mechanism"
            )
        if name is None and leaks:
            name = "NOT PRIVATE"
        if guarantee.unit != "record":
            name = f"{name or 'best attack'}, on one {guarantee.unit}"
        # On a grid of equal steps the chord from 0 to the first of them would lie far above the
        # curve
        inner = special.ndtr(
            np.linspace(-_FAR, _FAR, checked_count(n_points, "n_points", least=20))
        )[1:-1]
        fpr = np.concatenate([[0.0], inner, [1.0]])
        display = cls(
            fpr=fpr,
            fnr=np.asarray(guarantee.tradeoff(fpr)),
            advantage=float(guarantee.advantage),
            name=name,
        )
        return display.plot(ax=ax, **kwargs) if plot else display

    @classmethod
    def from_mechanism(cls, mechanism: Any, *, delta: Any = 1e-6, **kwargs: Any) -> Self:
        """Plot the trade-off of a record's tightest guarantee; bounds are compared at ``delta``.

        Parameters
        ----------
        mechanism : record
            Record of the run.
        delta : float, default=1e-6
            Delta at which bounds are compared.
        **kwargs : dict
            For `from_guarantee`.

        Returns
        -------
        TradeoffDisplay
        """
        best = tightest(mechanism, delta=delta)
        return cls.from_guarantee(
            best.guarantee, **{"name": best.bound.replace("_", " "), **kwargs}
        )

    @classmethod
    def from_estimator(cls, estimator: Any, **kwargs: Any) -> Self:
        """Plot the trade-off of a fitted estimator's ``privacy_``.

        Parameters
        ----------
        estimator : fitted estimator
            One with ``privacy_`` and ``bound_``, or a pipeline that ends in one and has no other
            private step.
        **kwargs : dict
            For `from_guarantee`.

        Returns
        -------
        TradeoffDisplay
        """
        estimator = _fitted(estimator)
        name = estimator.bound_.replace("_", " ") + (", NOT PRIVATE" if estimator.leaks_ else "")
        return cls.from_guarantee(estimator.privacy_, **{"name": name, **kwargs})

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw, with the advantage as the largest gap to guessing.

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
        label = f"{self.name or 'best attack'}, advantage {self.advantage:.3g}"
        (self.line_,) = self.ax_.plot(self.fpr, self.fnr, **{"label": label, **kwargs})
        at = int(np.argmax(1 - self.fpr - self.fnr))
        self.ax_.plot(
            [self.fpr[at]] * 2,
            [self.fnr[at], 1 - self.fpr[at]],
            color=self.line_.get_color(),
            linestyle=":",
        )
        if len(self.ax_.lines) == 2:  # once on shared axes
            draw_reference(self.ax_, [0, 1], [1, 0], "guessing")
        self.ax_.set(
            xlabel="false positive rate",
            ylabel="false negative rate",
            xlim=(0, 1),
            ylim=(0, 1),
            aspect="equal",
        )
        self.ax_.legend(frameon=False, loc="upper right")
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetCurveDisplay(Display):
    """Expected scores against epsilon, a curve for each number of records.

    Create it with `from_plan`.

    Parameters
    ----------
    curves : dict of int to ndarray of shape (n_epsilons, 4)
        By number of records: epsilon, score, and the ends of its interval.
    name : str
        The score.
    not_private : float
        The score without privacy, drawn as a line.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the drawing.
    lines_ : dict of int to matplotlib Line2D
        The curves.

    Examples
    --------
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.inspection import BudgetCurveDisplay
    >>> from skdpdyn.planning import plan
    >>> sizes, epsilons = [2000, 20_000], [0.1, 1.0, 10.0]
    >>> planned = plan(PrivateRidge(), n_samples=sizes, epsilon=epsilons, n_features=5, r2=0.5)
    >>> display = BudgetCurveDisplay.from_plan(planned, plot=False)
    >>> display.curves[20_000].shape
    (3, 4)
    """

    curves: dict[int, np.ndarray]
    name: str
    not_private: float

    @classmethod
    def from_plan(cls, plan: Any, *, plot: bool = True, ax: Any = None, **kwargs: Any) -> Self:
        """Plot the scores that `skdpdyn.planning.plan` expects.

        Parameters
        ----------
        plan : PlannedScores
            Expected scores, of several budgets.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``plot``.

        Returns
        -------
        BudgetCurveDisplay
        """
        curves: dict[int, list] = {}
        for point in plan.points:
            row = (point.epsilon, point.score, point.low, point.high)
            curves.setdefault(point.n_samples, []).append(row)
        arrays = {size: np.array(sorted(rows)) for size, rows in curves.items()}
        display = cls(curves=arrays, name=plan.name, not_private=plan.not_private)
        return display.plot(ax=ax, **kwargs) if plot else display

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw, with intervals as shades.

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
        self.lines_ = {}
        for size, curve in self.curves.items():
            epsilons, scores, *ends = curve.T
            options = {"label": f"{size:,} records", "marker": "o", **kwargs}
            self.lines_[size] = draw_band(self.ax_, epsilons, scores, ends, **options)
        self.ax_.axhline(self.not_private, color="0.3", linestyle="--", label="not private")
        self.ax_.set(xscale="log", xlabel="epsilon", ylabel=f"expected {self.name}")
        self.ax_.legend(frameon=False)
        return self


def _fitted(estimator):
    """Return the estimator that was fitted with privacy: itself, or the last step of a pipeline."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    if isinstance(estimator, Pipeline):
        from skdpdyn.model_selection import total_privacy

        before = [
            step
            for _, step in estimator.steps[:-1]
            if step is not None and not isinstance(step, str)
        ]
        if total_privacy(*before).parts:  # an error where one of them learnt without privacy
            raise ValueError(
                f"{quoted(estimator)} has several private steps: show what they cost together, by "
                "TradeoffDisplay.from_guarantee(total_privacy(pipeline)), or one step alone"
            )
        estimator = estimator[-1]
    if not any(has_own(estimator, name) for name in ("privacy_", "privacy_cost")):
        raise ValueError(
            f"{quoted(estimator)} has no privacy_: show a fitted estimator of skdpdyn, or a "
            "Pipeline that ends in one"
        )
    check_is_fitted(estimator, "privacy_")
    return estimator


@dataclass(kw_only=True, eq=False, repr=False)
class CoefficientDisplay(Display):
    """Coefficients with their intervals as a forest plot, all from released numbers.

    Create it with `from_summary`.

    Parameters
    ----------
    names : tuple of str
        Names of the coefficients.
    estimates, low, high : ndarray of shape (n_coefficients,)
        Estimates, and the ends of their intervals.
    xlabel : str, default="coefficient"
        Label of the axis.
    reference : float, default=0.0
        Where nothing is told: 1 for ratios, on a logarithmic axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.inference import private_regression
    >>> from skdpdyn.inspection import CoefficientDisplay
    >>> X = np.random.default_rng(0).uniform(0, 1, (20_000, 2))
    >>> y = X[:, 0] > np.random.default_rng(1).uniform(0, 1, 20_000)
    >>> _, table = private_regression(
    ...     PrivateLogisticRegression(), X, y, epsilon=2.0, bounds=(0, 1), classes=[False, True]
    ... )
    >>> display = CoefficientDisplay.from_summary(table, odds_ratios=True, plot=False)
    >>> display.names, bool(display.low[0] > 1)
    (('x0', 'x1'), True)
    """

    names: Any
    estimates: Any
    low: Any
    high: Any
    xlabel: str = "coefficient"
    reference: float = 0.0

    @classmethod
    def from_summary(
        cls,
        summary: Any,
        *,
        odds_ratios: bool = False,
        plot: bool = True,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Take the coefficients of a table that have estimates, without the intercept.

        Parameters
        ----------
        summary : PrivateSummary
            A table of `skdpdyn.inference`.
        odds_ratios : bool, default=False
            Whether to show exponentials: odds ratios, of counts rate ratios.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``errorbar``.

        Returns
        -------
        CoefficientDisplay
        """
        places = [
            i
            for i, name in enumerate(summary.names)
            if summary.answered[i] and not name.endswith("intercept")
        ]
        ratio = summary.ratio_shown(odds_ratios)
        numbers = np.column_stack([summary.params, summary.conf_int()])[places].T
        estimates, low, high = np.exp(numbers) if ratio else numbers
        names = tuple(summary.names[i] for i in places)
        display = cls(names=names, estimates=estimates, low=low, high=high)
        if ratio:
            display.xlabel = ratio
            display.reference = 1.0
        return display.plot(ax=ax, **kwargs) if plot else display

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw a line for each coefficient, the first at the top.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``errorbar``.

        Returns
        -------
        CoefficientDisplay
        """
        self._draw_on(ax)
        places = np.arange(len(self.names))[::-1]
        lengths = np.array([self.estimates - self.low, self.high - self.estimates])
        options = {"fmt": "o", "capsize": 3} | kwargs
        self.ax_.errorbar(self.estimates, places, xerr=lengths, **options)
        self.ax_.axvline(self.reference, color="0.5", linestyle=":")
        self.ax_.set_yticks(places, [*map(label_of, self.names)])
        self.ax_.set_xlabel(self.xlabel)
        if self.reference > 0:
            from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

            self.ax_.set_xscale("log")
            self.ax_.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
            self.ax_.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            self.ax_.xaxis.set_minor_locator(NullLocator())
        return self


def _length(mechanism):
    """Return the field that says how long a run was, or None."""
    return next(
        (
            name
            for name in ("n_steps", "n_epochs")
            if name in getattr(mechanism, "__dataclass_fields__", {})
        ),
        None,
    )


def _fields_by_step(mechanism):
    """Return the fields of a record that are arrays: those that differ from step to step."""
    by_step = "noise_multiplier", "step_size", "units"
    values = {name: getattr(mechanism, name, 0) for name in by_step}
    return {name: value for name, value in values.items() if np.ndim(value)}


def _stopped(mechanism, length, count):
    """Return the record of the same run, stopped after ``count`` steps or epochs."""
    n_steps = mechanism.n_steps // getattr(mechanism, length) * count
    return replace(
        mechanism,
        **{length: count},
        **{name: value[:n_steps] for name, value in _fields_by_step(mechanism).items()},
    )


def _scale_of(model, output):
    """Name the scale of the raw predictions of an additive model."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return "log rate" if model.loss == "poisson" else "y"
    if len(classes) == 2:
        return f"log odds of {label_of(classes[1])}"
    return f"log probability of {label_of(classes[output])}, up to a constant"


@dataclass(kw_only=True, eq=False, repr=False)
class ShapeDisplay(Display):
    """Curves of an additive model, with bands for the noise of training.

    Create it with `from_estimator`. Numeric columns are drawn as curves, categorical columns as
    bars, and pairs as heat maps. It shows what was released, and costs nothing. Bands of a model
    show how far noise moves a curve for the same records. Confidence bands of a table, drawn beside
    them, cover the curve of the population. The legend says which is which.

    Parameters
    ----------
    shapes : dict of str to Shape
        Shapes by name, see ``shapes_`` of `skdpdyn.PrivateGAMClassifier`.
    output : int, default=0
        Which output to draw, if there are several classes.
    ylabel : str, default="contribution"
        Label with the unit of contributions, such as log odds or targets.
    curves : dict of str to Curve or None, default=None
        Curves of a table by name, see `skdpdyn.inference.PrivateSummary.curve`: each is shifted
        vertically to the shape.

    Attributes
    ----------
    axes_, figure_ : matplotlib Axes and Figure
        Axes, one for each shape, and figure of the drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateGAMRegressor
    >>> from skdpdyn.inspection import ShapeDisplay
    >>> X = np.random.default_rng(0).uniform(0, 1, (2000, 2))
    >>> model = PrivateGAMRegressor(bounds=(0, 1), target_bounds=(0, 1)).fit(X, X[:, 0])
    >>> display = ShapeDisplay.from_estimator(model, columns=["x0"], plot=False)
    >>> len(display.shapes)
    1
    """

    shapes: dict[str, Any]
    output: int = 0
    ylabel: str = "contribution"
    curves: dict[str, Any] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        columns: Any = None,
        output: int = 0,
        table: Any = None,
        simultaneous: bool = False,
        plot: bool = True,
    ) -> Self:
        """Take the shapes of a fitted additive model.

        Parameters
        ----------
        estimator : PrivateGAMClassifier or PrivateGAMRegressor
            The fitted model, or a pipeline that ends with one.
        columns : str, sequence of str or None, default=None
            Names of columns and of pairs, as in ``terms_``. None: the columns that matter most by
            ``term_importances_``, 12 at the most.
        output : int, default=0
            Which output to draw, of several classes.
        table : PrivateSummary or None, default=None
            Table of the same target, with ``splines``: its curves are drawn too. None: no table.
        simultaneous : bool, default=False
            Whether bands of the table should hold whole curves, see `PrivateSummary.curve`.
        plot : bool, default=True
            Whether to draw.

        Returns
        -------
        ShapeDisplay

        Raises
        ------
        ValueError
            If a name is not one of ``terms_``.
        TypeError
            If it is no additive model.
        """
        model = estimator[-1] if hasattr(estimator, "steps") else estimator
        if not (hasattr(type(model), "shapes_") or hasattr(model, "shapes_")):
            raise TypeError(
                f"estimator is a {type(model).__name__}, which has no curves: pass an additive "
                "model"
            )
        shapes = model.shapes_
        names = [columns] if isinstance(columns, str) else columns
        if columns is None:
            singles = model.terms_[1 : 1 + model.n_features_in_]
            names = [name for name in model.term_importances_ if name in singles][:_MOST_SHAPES]
        if unknown := [name for name in names if name not in shapes]:
            raise ValueError(f"columns {unknown} are not among {list(shapes)}")
        display = cls(
            shapes={name: shapes[name] for name in names},
            output=output,
            ylabel=f"contribution to {_scale_of(model, output)}",
        )
        if table is not None:
            known = [name for name in names if name in table.splines]
            options = {"simultaneous": simultaneous}
            display.curves = {name: table.curve(name, **options) for name in known}
        return display.plot() if plot else display

    def plot(self, axes: Any = None) -> Self:
        """Draw each shape.

        Parameters
        ----------
        axes : sequence of matplotlib Axes or None, default=None
            Where to draw; None: new ones, four in a row.

        Returns
        -------
        ShapeDisplay
        """
        if axes is None:
            wide = min(4, len(self.shapes))
            high = math.ceil(len(self.shapes) / wide)
            plt = optional("matplotlib.pyplot", "plot")
            figure = plt.figure(figsize=(4 * wide, 3 * high), layout="constrained")
            places = figure.subplots(high, wide, squeeze=False).ravel()
            axes = places[: len(self.shapes)]
            for place in places[len(axes) :]:
                place.remove()
        for ax, shape in zip(axes, self.shapes.values(), strict=True):
            self._draw(ax, shape)
            ax.set_title(label_of(shape.name))
            if not isinstance(shape.grid, tuple):
                ax.set_ylabel(self.ylabel)
        self.axes_ = list(axes)
        self.figure_ = axes[0].figure
        if self.curves:
            parts = zip(*(ax.get_legend_handles_labels() for ax in self.axes_), strict=True)
            handles, labels = (chain(*part) for part in parts)
            named = dict(zip(labels, handles, strict=True))
            place = {"loc": "outside lower center", "frameon": False}
            self.figure_.legend(named.values(), named, **place)
        return self

    def _draw(self, ax, shape):
        value = shape.value[self.output]
        errors = {
            "largest": shape.bound if shape.bound is None else shape.bound[self.output],
            "estimated": shape.estimate if shape.estimate is None else shape.estimate[self.output],
        }
        if isinstance(shape.grid, tuple):
            places = [
                np.arange(len(side)) if isinstance(side, list) else side for side in shape.grid
            ]
            colours = ax.pcolormesh(*places, value.T, shading="nearest")
            ax.figure.colorbar(colours, ax=ax, label=self.ylabel)
            if (error := errors["estimated"]) is not None:
                of_noise = np.ma.masked_where(np.abs(value) >= 2 * error, value)
                ax.pcolor(*places, of_noise.T, shading="nearest", hatch="////", alpha=0)
                ax.set_xlabel("hatched: within two standard errors of noise")
            for axis, side in zip((ax.xaxis, ax.yaxis), shape.grid, strict=True):
                if isinstance(side, list):
                    axis.set_ticks(np.arange(len(side)), distinct(map(label_of, side)))
        elif isinstance(shape.grid, list):
            error = errors["estimated"]
            ax.bar(distinct(map(label_of, shape.grid)), value)
            if error is not None:
                ax.errorbar(range(len(value)), value, 2 * error, fmt="none", color="black")
            ax.tick_params(axis="x", rotation=90)
        else:
            ax.plot(shape.grid, value, label="model")
            for (name, error), alpha in zip(errors.items(), (0.15, 0.3), strict=True):
                if error is not None:
                    band = value - 2 * error, value + 2 * error
                    label = f"two standard errors of noise alone, {name}"
                    ax.fill_between(shape.grid, *band, alpha=alpha, color="C0", label=label)
            if curve := (self.curves or {}).get(shape.name):
                at = np.interp(curve.grid, shape.grid, value)
                known = np.isfinite(curve.value)
                precision = (curve.high - curve.low)[known] ** -2.0
                off = (at - curve.value)[known]
                shift = float(np.average(off, weights=precision)) if known.any() else 0.0
                curve.plot(ax, shift=shift, color="C1")


class Explanation(NamedTuple):
    """Contributions of columns to predictions, in the fields that ``shap.Explanation`` has.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_terms), several outputs (n_samples, n_terms, n_outputs)
        Contribution of each term to the raw prediction of each row.
    base_values : ndarray of shape (n_samples,), of several outputs (n_samples, n_outputs)
        The raw prediction at the released mean of the rows.
    data : ndarray of shape (n_samples, n_features)
        The rows.
    feature_names : list of str
        Names of the terms: of columns, then of pairs of columns.

    Examples
    --------
    >>> from skdpdyn.inspection import Explanation
    >>> Explanation(values=[[0.1]], base_values=[0.5], data=[[3.0]], feature_names=["age"]).values
    [[0.1]]
    """

    values: Any
    base_values: Any
    data: Any
    feature_names: list[str]


def to_shap(model: Any, X: Any) -> Any:
    """Return the terms of an additive model for the plots of the shap library.

    The terms of a model are its explanation: nothing is sampled, and values and base value add up
    to the raw prediction. Whoever keeps the result keeps the rows of X.

    Parameters
    ----------
    model : PrivateGAMClassifier or PrivateGAMRegressor
        The fitted model.
    X : array-like of shape (n_samples, n_features)
        Rows to explain.

    Returns
    -------
    shap.Explanation or Explanation
        The former where shap is installed.

    Raises
    ------
    TypeError
        If the model is not additive. Explain a linear model behind the map of its rows, by
        ``shap.LinearExplainer`` of the last step of ``model.to_sklearn()``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateGAMRegressor
    >>> from skdpdyn.inspection import to_shap
    >>> X = np.random.default_rng(0).uniform(0, 1, (2000, 2))
    >>> model = PrivateGAMRegressor(bounds=(0, 1), target_bounds=(-9, 9)).fit(X, X[:, 0])
    >>> found = to_shap(model, X[:5])
    >>> added = found.values.sum(axis=1) + found.base_values
    >>> round(float(abs(added - model.predict(X[:5])).max()), 9)
    0.0
    """
    if not hasattr(model, "explain"):
        raise TypeError(
            f"model is a {type(model).__name__}, which has no terms: pass an additive model. "
            "Explain a linear one by shap.LinearExplainer of the last step of model.to_sklearn(), "
            "on rows that the steps before it have mapped"
        )
    terms = model.explain(X)
    try:
        kind = importlib.import_module("shap").Explanation
    except ImportError:
        kind = Explanation
    return kind(
        values=terms[:, 1:],
        base_values=terms[:, 0],
        data=np.asarray(X),
        feature_names=list(model.terms_[1:]),
    )
