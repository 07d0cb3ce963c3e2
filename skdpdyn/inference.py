"""Standard errors and confidence intervals for coefficients that were learnt with noise.

Noise and penalty move the coefficients of a private model. By how much depends on the curvature of
the risk, which is private. `private_summary` spends a budget on a noisy curvature; penalty and
noise are public numbers. So it can undo the penalty, and say how far the noise and the sample may
have moved the rest.
"""

import html
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse, special
from sklearn.utils.validation import check_is_fitted

from skdpdyn.base import (
    DTYPES,
    quoting_no_records,
    silent_arithmetic,
    validated,
)
from skdpdyn.blas import one_blas_thread
from skdpdyn.data.local import LocalRows
from skdpdyn.data.persons import by_person, person_codes
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.linear_model import PrivateLogisticRegression, PrivateRidge
from skdpdyn.linear_model.request import most_rows_of
from skdpdyn.linear_model.targets import as_labels, codes_of, numbers_of
from skdpdyn.noise import check_random_state, generators, seed_leaks, source_of
from skdpdyn.privacy import Budget, GaussianDP, ObjectivePerturbation, privacy_report
from skdpdyn.privacy.checks import as_float, checked_flag
from skdpdyn.privacy.display import whose
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.report import Assumed, PrivacyReport
from skdpdyn.spending import Share, Spending, planned, training_of, warn_of_weak_budget

__all__ = ["PrivateSummary", "private_summary"]

MOMENTS, SCORES = "second moments", "scores"
ROBUST_SHARE = 0.5  # part of mu^2 for the covariance of the scores
# In standard deviations of the noise: how far above its norm an eigenvalue must be to count, and
# how much is subtracted from those that count, which tend to be too large
ABOVE_NOISE, SAFE = 3.0, 1.5
# A coefficient is refused if this part of it, squared, lies in directions that are not carried
LEAST_PART = 0.05
LARGEST_VARIANCE_NOISE = 0.25  # standard deviation of the noise on a variance, over the variance
LARGEST_RESIDUAL = 6.0  # standard deviations: where the scores of a linear model are cut off


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSummary:
    """A table of coefficients with their standard errors, as `private_summary` returns it.

    Everything in it was released: it may be shown to anybody.

    Parameters
    ----------
    names : tuple of str
        Name of each coefficient; the intercept is the last.
    coef : ndarray of shape (n_coefficients,)
        Estimates without the penalty's pull towards 0; NaN where there is not enough information.
    std_err : ndarray of shape (n_coefficients,)
        Standard errors, of sampling and of all noise together; NaN likewise.
    sufficient_epsilon : ndarray of shape (n_coefficients,)
        Where there is not enough information: about which epsilon of `private_summary` could give
        it. NaN elsewhere.
    confidence : float
        Probability that an interval covers.
    title : str
        Title of the table.
    estimand : str
        Sentence that says which numbers the coefficients estimate.
    n_samples : int
        Number of records, or of persons, public.
    privacy_ : Guarantee
        Guarantee of the model and this table together, for the unit that the model protects.
    own_privacy_ : Guarantee
        Guarantee of this table alone.
    mechanism_ : Composition
        Record of the releases for the table.
    delta_ : float
        Delta at which epsilon is shown.
    leaks_ : tuple of str, default=()
        Leaks of the model or the table that the guarantees do not cover.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.inference import private_summary
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [3.0, -2.0] + 10
    >>> model = PrivateRidge(epsilon=0.5, target_bounds=(7.0, 13.0), conditioning=None).fit(X, y)
    >>> summary = private_summary(model, X, y, epsilon=1.0)
    >>> summary.names, summary.conf_int.shape
    (('x0', 'x1', 'intercept'), (3, 2))
    """

    names: tuple[str, ...]
    coef: np.ndarray
    std_err: np.ndarray
    sufficient_epsilon: np.ndarray
    confidence: float
    title: str
    estimand: str
    n_samples: int
    privacy_: Guarantee
    own_privacy_: Guarantee
    mechanism_: Any
    delta_: float
    leaks_: tuple[str, ...] = field(default=())

    @property
    def answered(self) -> np.ndarray:
        """Whether there is enough information on each coefficient, of shape (n_coefficients,)."""
        return np.isfinite(self.std_err)

    @property
    def z(self) -> np.ndarray:
        """Each coefficient over its standard error."""
        return self.coef / self.std_err

    @property
    def p_value(self) -> np.ndarray:
        """Probability of a larger absolute value of ``z`` if the coefficient were 0."""
        return 2 * special.ndtr(-np.abs(self.z))

    @property
    def conf_int(self) -> np.ndarray:
        """Lower and upper ends of the intervals, of shape (n_coefficients, 2)."""
        width = special.ndtri((1 + self.confidence) / 2) * self.std_err
        return np.column_stack([self.coef - width, self.coef + width])

    def to_frame(self, *, odds_ratios: bool = False) -> Any:
        """Return the table as a pandas DataFrame.

        Parameters
        ----------
        odds_ratios : bool, default=False
            Whether to add the exponentials of coefficients and intervals.

        Returns
        -------
        DataFrame
            One row for each coefficient, by its name.
        """
        import pandas as pd

        return pd.DataFrame(dict(self._columns(odds_ratios)), index=list(self.names))

    def as_text(self, *, odds_ratios: bool = False) -> str:
        """Return the table as text, which is what ``print`` shows.

        Parameters
        ----------
        odds_ratios : bool, default=False
            Whether to add the exponentials of coefficients and intervals.

        Returns
        -------
        str
        """
        columns = self._columns(odds_ratios)
        width = max(12, *map(len, self.names)) + 1
        lines = ["".join([" " * width, *(f"{name:>12}" for name, _ in columns)])]
        lines += ["-" * len(lines[0])]
        for i, name in enumerate(self.names):
            cells = [f"{values[i]:>12.4g}" for _, values in columns]
            lines.append(
                f"{name:<{width}}" + ("".join(cells) if self.answered[i] else self._why(i))
            )
        rule = "=" * len(lines[0])
        return "\n".join([self.title, rule, *lines, rule, *self._notes()])

    def privacy_report(self) -> PrivacyReport:
        """Report on what was released for this table; the model reports on itself.

        Returns
        -------
        PrivacyReport
        """
        return privacy_report(
            self.mechanism_,
            self.own_privacy_,
            delta=self.delta_,
            bound="composition",
            assumed=Assumed(
                (f"n_samples={self.n_samples}", "the model and its parameters"),
                source_of(self.leaks_),
                self.leaks_,
            ),
        )

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self):
        columns = self._columns(False)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["", *(n for n, _ in columns)])
        rows = []
        for i, name in enumerate(self.names):
            cells = "".join(f"<td>{values[i]:.4g}</td>" for _, values in columns)
            if not self.answered[i]:
                cells = f'<td colspan="{len(columns)}">{html.escape(self._why(i))}</td>'
            rows.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<tr>{head}</tr>{''.join(rows)}</table>{notes}"

    def _columns(self, odds_ratios):
        """Return the pairs (name, values) of the table."""
        checked_flag(odds_ratios, "odds_ratios")
        low, high = (f"{end:.4g}" for end in ((1 - self.confidence) / 2, (1 + self.confidence) / 2))
        columns = [
            ("coef", self.coef),
            ("std err", self.std_err),
            ("z", self.z),
            ("P>|z|", self.p_value),
            (f"[{low}", self.conf_int[:, 0]),
            (f"{high}]", self.conf_int[:, 1]),
        ]
        if odds_ratios:
            with np.errstate(over="ignore"):
                columns += [
                    ("odds ratio", np.exp(self.coef)),
                    (f"odds [{low}", np.exp(self.conf_int[:, 0])),
                    (f"odds {high}]", np.exp(self.conf_int[:, 1])),
                ]
        return columns

    def _why(self, i):
        return f"  not enough information; epsilon={self.sufficient_epsilon[i]:.2g} could give it"

    def _notes(self):
        own, both = (
            float(guarantee.epsilon(self.delta_))
            for guarantee in (self.own_privacy_, self.privacy_)
        )
        where = f"(delta={self.delta_:.3g}, {whose(self.own_privacy_)})"
        return [
            self.estimand,
            f"spent: epsilon={own:.6g} for this table, {both:.6g} with the model {where}",
            *(f"NOT PRIVATE: {leak}" for leak in self.leaks_),
        ]


def private_summary(
    model: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    epsilon: float,
    delta: float | str = "auto",
    robust: bool = False,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> PrivateSummary:
    """Buy standard errors for the coefficients of a fitted model.

    For a `PrivateLogisticRegression` that was fitted by objective perturbation, it releases the
    Hessian of the log loss at the model's coefficients, with Gaussian noise. With H the noisy
    Hessian of the loss alone, Lambda = n alpha and theta the model's coefficients,

    - the estimate is theta + H^-1 Lambda theta, which undoes the penalty;
    - its variance is H^-1 (V + s^2 I + N) H^-1 + s_out^2 (I + Lambda H^-1)^2, with V = H, or with
      ``robust`` a noisy covariance of the scores, s the standard deviation of the model's random
      linear term, s_out that of the noise on its output, and N what the noise on H does to the
      estimate, to first order.

    For a `PrivateRidge` with any solver, it releases the second moments of rows and targets
    together, in one matrix. Estimates and variances are the least-squares ones for these moments;
    of the model, only the bounds are used.

    Directions in which the noisy matrix is not well above its noise carry no information.
    Coefficients that depend on them are not answered, and the table says which budget could.

    Parameters
    ----------
    model : PrivateLogisticRegression or PrivateRidge
        Fitted with ``conditioning=None``; logistic regression also with
        ``solver="objective_perturbation"`` and a ``clip`` of no less than
        sqrt(data_norm^2 + intercept_scaling^2), beyond which there is nothing to clip.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows that the model was fitted on.
    y : array-like of shape (n_samples,)
        Their targets.
    groups : array-like of shape (n_samples,), default=None
        The ids that the model was fitted with, if it was: the table then protects the same unit.
        Each row has weight 1/k, as in the fit. Intervals are then on the safe side, whatever the
        rows of a person have in common: what a mean of scores varies by is at most the mean of
        what they vary by.
    epsilon : float
        Budget of the table alone, > 0.
    delta : float or "auto", default="auto"
        Probability of a larger loss, in (0, 1). "auto": 1/n^2.
    robust : bool, default=False
        Whether the variance should hold though the model may be wrong (Huber and White's
        "sandwich"). That takes half of mu^2.
    confidence : float, default=0.95
        Probability that an interval covers, in (0, 1).
    random_state : None or int, default=None
        None: fresh entropy and a cryptographic generator. An int repeats the noise, which is not
        private: for tests.

    Returns
    -------
    PrivateSummary

    Raises
    ------
    ValueError, TypeError
        If a parameter, X or y is invalid.
    UnsupportedMechanismError
        If no interval is known for such a model. The error says what to fit in its place.
    CalibrationError
        If no noise is known to meet the budget.

    Warns
    -----
    PrivacyWeakWarning
        If ``epsilon`` is above 20, or ``delta`` above 1/n.
    PrivacyLeakWarning
        If ``random_state`` is an int.

    Notes
    -----
    Clipped, conditioned or early-stopped training converges to something else than the maximum of
    the likelihood, so it has no interval for that. Rows are scaled into the ball of radius
    ``data_norm`` first: if many are longer, the coefficients are those of the scaled rows.

    References
    ----------
    P. Huber (1967), The behavior of maximum likelihood estimates under nonstandard conditions: the
    robust form. R. Iyengar et al. (2019), Towards practical differentially private convex
    optimization: the noise on the output. The noisy Hessian's sensitivity is that of second
    moments, as in `skdpdyn.solvers.SufficientStatistics`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.inference import private_summary
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (20_000, 2))
    >>> y = rng.uniform(size=20_000) < 1 / (1 + np.exp(-X @ [3.0, -2.0]))
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0,
    ...     classes=[False, True],
    ...     clip=2.0,
    ...     conditioning=None,
    ...     solver="objective_perturbation",
    ... ).fit(X, y)
    >>> summary = private_summary(model, X, y, epsilon=0.5)
    >>> bool(np.all(np.abs(summary.coef - [3.0, -2.0, 0.0]) < 6 * summary.std_err))
    True
    >>> round(summary.own_privacy_.epsilon(summary.delta_), 6)
    0.5
    """
    check_random_state(random_state)
    checked_flag(robust, "robust")
    if not 0 < as_float(confidence) < 1:
        raise ValueError(f"confidence={confidence!r} must be in (0, 1): how often intervals cover")
    _check_model(model, groups)
    budget = Budget.for_samples(
        epsilon, delta, n_samples=model.n_samples_, adjacency=model.privacy_.adjacency
    )
    shares = {MOMENTS: Share(1 - ROBUST_SHARE), SCORES: Share(ROBUST_SHARE)}
    shares = shares if robust else {MOMENTS: Share(1.0)}
    plan = planned(shares, budget)
    warn_of_weak_budget(budget, model.n_samples_)
    with silent_arithmetic():
        rows, y = _rows(model, X, y, groups)
        (generator,) = generators(random_state)
        spending = Spending(budget, shares, generator)
        fitted = _logistic if isinstance(model, PrivateLogisticRegression) else _linear
        estimate, title, estimand = fitted(model, rows, y, spending)
    spending.check(plan)
    own = plan.guarantee.with_unit(model.privacy_.unit)
    names = getattr(model, "feature_names_in_", None)
    names = (f"x{i}" for i in range(model.n_features_in_)) if names is None else names
    return PrivateSummary(
        names=(*names, "intercept") if model.intercept_scaling_ else tuple(names),
        coef=estimate.coef,
        std_err=estimate.std_err,
        sufficient_epsilon=np.array(
            [
                math.nan
                if math.isnan(factor)
                else GaussianDP(spending.mu * factor).epsilon(budget.delta)
                for factor in estimate.wanting
            ]
        ),
        confidence=float(confidence),
        title=f"{title}, {model.n_samples_} {own.unit}s{', robust' if robust else ''}",
        estimand=estimand,
        n_samples=model.n_samples_,
        privacy_=model.privacy_.compose(own),
        own_privacy_=own,
        mechanism_=plan.mechanism,
        delta_=budget.delta,
        leaks_=tuple(dict.fromkeys((*model.leaks_, *seed_leaks(random_state)))),
    )


@dataclass(frozen=True)
class _Estimate:
    """Return estimates in units of X and y, and the missing mu of those without an estimate."""

    coef: np.ndarray
    std_err: np.ndarray
    wanting: np.ndarray


def _check_model(model, groups):
    """Refuse a model whose coefficients have no interval, and say which model to fit."""
    if not isinstance(model, PrivateLogisticRegression | PrivateRidge):
        hint = ": of a Pipeline pass its last step, and X as the other steps transform it"
        raise UnsupportedMechanismError(
            f"no interval is known for a {type(model).__name__}: fit a "
            "PrivateLogisticRegression or a PrivateRidge"
            f"{hint if hasattr(model, 'steps') else ''}"
        )
    quoting_no_records(check_is_fitted, model)
    if model.conditioning_ is not None:
        raise UnsupportedMechanismError(
            "the model was trained on rows under a map that it learnt, and its coefficients are "
            "those of the mapped rows. "
            "Fit it with conditioning=None"
        )
    if (model.privacy_.unit == "record") != (groups is None):
        raise UnsupportedMechanismError(
            f"the model protects one {model.privacy_.unit}, and this table would protect another "
            "unit: pass the groups that the model was fitted with, and none if it was not"
        )
    if isinstance(model, PrivateRidge):
        return
    if model.class_weight is not None:
        raise UnsupportedMechanismError(
            "class_weight makes another loss of the log loss, with another minimiser. Fit the "
            "model "
            "with class_weight=None"
        )
    record = training_of(model.mechanism_)
    linear = getattr(record, "mechanisms", (record,))[0]
    if not isinstance(linear, ObjectivePerturbation):
        raise UnsupportedMechanismError(
            f"solver={model.solver_!r} stops before it reaches a minimiser, or adds noise of "
            "which no interval is known. "
            "Fit the model with solver='objective_perturbation'"
        )
    if linear.distribution != "gaussian":
        raise UnsupportedMechanismError(
            "noise='gamma' is not normal. Fit the model with "
            "ObjectivePerturbation(noise='gaussian')"
        )
    row_norm = math.hypot(model.data_norm_, model.intercept_scaling_)
    if not model.clip_ >= row_norm * (1 - 1e-9):
        raise UnsupportedMechanismError(
            f"clip={model.clip_:.6g} makes another loss of the log loss, with another "
            "minimiser. Fit the model with "
            f"clip={math.ceil(row_norm * 100) / 100:g}, which no gradient exceeds"
        )


def _rows(model, X, y, groups):
    """Return the rows under the public map into the unit ball, and the targets, all checked."""
    regression = isinstance(model, PrivateRidge)
    y = as_labels(y, None if regression else model.classes_)
    X, y = validated(
        model,
        X,
        y,
        accept_sparse="csr",
        dtype=DTYPES,
        order="C",
        y_numeric=regression,
        reset=False,
    )
    used, persons, weight = None, None, np.empty(0)
    n_samples, most_rows = len(y), 1
    if groups is not None:
        codes = person_codes(groups, len(y))
        n_samples = int(codes.max()) + 1
        most_rows = most_rows_of(model, n_samples)
        used, persons, weight = by_person(codes, most_rows)
    if n_samples != model.n_samples_:
        raise ValueError(
            f"X has {n_samples} {'rows' if groups is None else 'groups'}, and the model was fitted "
            f"on {model.n_samples_}: pass the records of the fit"
        )
    y = numbers_of(y) if regression else codes_of(y, model.classes_)
    n_features, radius = model.n_features_in_, model.data_norm_
    to_unit_ball = RowMap(None, np.full(n_features, 1 / radius), norm=1.0, radius=radius)
    X, y = (X, y) if used is None else (X[used], y[used])
    weights = weight if weight.size else None
    rows = LocalRows(X, None, weights, to_unit_ball, None, persons, most_rows)
    return rows, y


def _logistic(model, rows, codes, spending):
    """Return intervals of a logistic regression by objective perturbation, for unit rows."""
    linear, output = training_of(model.mechanism_).mechanisms
    radius, alpha = model.data_norm_, model.alpha_
    constant = model.intercept_scaling_ / radius
    units = np.append(np.full(model.n_features_in_, 1 / radius), [constant] * (constant > 0))
    theta = np.append(model.coef_, [model.intercept_[0]] * (constant > 0)) / units
    penalty = model.n_samples_ * alpha / radius**2
    noise = linear.noise_multiplier * spending.adjacency.sum_sensitivity(model.clip_) / radius
    output_noise = 2 * output.noise_multiplier * output.tolerance / alpha * radius

    probability = special.expit(_products(rows, theta, constant))
    weight, scores = 4 * probability * (1 - probability), None
    hessian = _moment(MOMENTS, rows, weight, constant, spending, 0.25)
    if SCORES in spending.shares:
        scores = _moment(SCORES, rows, (probability - codes) ** 2, constant, spending, 1.0)
    inverse, safe, weak, needed = _inverted(hessian)
    pull = inverse @ (penalty * theta)  # the effect of the penalty
    variance = hessian.matrix if scores is None else scores.positive
    variance = variance + noise**2 * np.eye(theta.size)
    # In directions without information, only the penalty determines the minimiser
    loose = (noise**2 + hessian.noise_norm) / penalty**2 + (weak @ theta) ** 2
    far = pull @ pull + np.trace(safe @ variance @ safe) + loose.sum()
    variance += hessian.std**2 / 2 * (far * np.eye(theta.size) + np.outer(pull, pull))
    kept = np.eye(theta.size) + penalty * safe
    covariance = safe @ variance @ safe + output_noise**2 * kept @ kept
    covariance += weak.T @ (loose[:, None] * weak)
    true = model.classes_[1]
    estimand = (
        f"The coefficients that minimise the expected log loss of y == {true!s}, without penalty"
        f"{_of_rows(radius)}."
    )
    estimate = _estimate(theta + pull, covariance, safe, weak, needed, scores, units)
    return estimate, "Private logistic regression", estimand


def _linear(model, rows, y, spending):
    """Return intervals of a linear regression from noisy second moments."""
    low, high = model.target_bounds_
    radius, constant = model.data_norm_, model.intercept_scaling_ / model.data_norm_
    centre, half = ((low + high) / 2, (high - low) / 2) if constant else (0.0, max(-low, high))
    targets = np.clip((np.clip(y, low, high) - centre) / half, -1, 1)
    units = half * np.append(np.full(model.n_features_in_, 1 / radius), [constant] * (constant > 0))
    whole = _moment(MOMENTS, rows, None, constant, spending, 1.0, targets)
    moment = _Moment(whole.matrix[:-1, :-1], whole.std)
    inverse, safe, weak, needed = _inverted(moment)
    theta = inverse @ whole.matrix[:-1, -1]
    size = 1 + theta @ theta  # squared, of (theta, -1), which the noise multiplies
    rest = whole.matrix[-1, -1] - theta @ whole.matrix[:-1, -1]
    rest = max(rest, 0.0) + whole.std * size  # a standard deviation of its noise on the safe side
    square = rest / max(model.n_samples_ - theta.size, 1)
    scores, variance = None, square * moment.matrix
    if SCORES in spending.shares:
        largest = min(LARGEST_RESIDUAL * math.sqrt(square), 4.0)
        residual = (targets - _products(rows, theta, constant)) / largest
        weight = np.minimum(residual**2, 1.0)
        scores = _moment(SCORES, rows, weight, constant, spending, largest**2)
        variance = scores.positive
    variance = variance + moment.std**2 / 2 * (size * np.eye(theta.size) + np.outer(theta, theta))
    covariance = safe @ variance @ safe + (theta @ theta) * weak.T @ weak
    estimate = _estimate(theta, covariance, safe, weak, needed, scores, units)
    if constant:
        estimate.coef[-1] += centre
    estimand = (
        f"The coefficients of the least-squares fit to y within [{low:g}, "
        f"{high:g}]{_of_rows(radius)}."
    )
    return estimate, "Private linear regression", estimand


def _of_rows(radius):
    return (
        ", in the population that the records were drawn from; rows of a norm beyond "
        f"{radius:g} count as scaled down to it"
    )


@dataclass(frozen=True)
class _Moment:
    """A symmetric matrix, and the standard deviation of its noise on the diagonal."""

    matrix: np.ndarray
    std: float

    @property
    def noise_norm(self):
        """About the norm of the noise, as an operator."""
        return self.std * math.sqrt(2 * len(self.matrix))

    @property
    def positive(self):
        """The nearest matrix without negative eigenvalues."""
        with one_blas_thread():
            values, vectors = np.linalg.eigh(self.matrix)
            return (vectors * np.maximum(values, 0)) @ vectors.T


def _moment(name, rows, weight, constant, spending, largest, targets=None):
    """Release ``largest`` times the sum of weight * outer(r, r), r a row, its constant and target.

    ``weight`` multiplies that of the rows. One record moves it by its own term, whose Frobenius
    norm is at most largest * norm(r)^2, a person by a mean of such terms; the inner product of two
    is not negative, so replacing one moves it by at most sqrt(2) times that. Weights are in [0, 1].
    """
    if weight is not None:
        rows = rows.weighted_by(np.clip(weight, 0, 1))
    square = 1 + constant**2 + (targets is not None)
    total = 0.0
    with one_blas_thread():
        for part, block in rows.mapped_blocks():
            columns = [block.toarray() if sparse.issparse(block) else block]
            columns += [np.full(len(columns[0]), constant)] * (constant > 0)
            columns += [] if targets is None else [targets[part]]
            block = np.column_stack(columns)
            if rows.weight.size:
                block *= np.sqrt(rows.weight[part])[:, None]
            total = total + block.T @ block
    sensitivity = square * (spending.per_square + rows.sum_rounding())
    noisy = spending.symmetric(name, (total + total.T) / 2, sensitivity)
    return _Moment(largest * noisy, largest * sensitivity * spending.noise_multiplier(name))


def _products(rows, theta, constant):
    """Return the raw predictions of mapped rows, intercept included."""
    coef = theta[:-1] if constant else theta
    raw = np.empty(rows.shape[0])
    with one_blas_thread():
        for part, block in rows.mapped_blocks():
            raw[part] = block @ coef
    return raw + theta[-1] * constant if constant else raw


def _inverted(moment):
    """Return inverses in the directions that carry, for estimates and variances, and the others.

    The last is by how much mu is too small for all directions to carry.
    """
    with one_blas_thread():
        values, vectors = np.linalg.eigh(moment.matrix)
    least = moment.noise_norm + ABOVE_NOISE * moment.std
    carries = values >= least
    strong, strength = vectors[:, carries], values[carries]
    # An eigenvalue below half the noise's norm may be anything up to that
    needed = least / max(float(values[0]), moment.noise_norm / 2)
    inverse = (strong / strength) @ strong.T
    safe = (strong / (strength - SAFE * moment.std)) @ strong.T
    return inverse, safe, vectors[:, ~carries].T, needed


def _estimate(theta, covariance, safe, weak, needed, scores, units):
    """Return estimates in units of X; NaN where too much is in weak directions or in noise."""
    variance = np.diag(covariance)
    wanting = np.where(np.sum(weak**2, axis=0) > LEAST_PART, needed, math.nan)
    if scores is not None:
        noise = scores.std * np.sum(safe**2, axis=1) / variance / LARGEST_VARIANCE_NOISE
        wanting = np.fmax(wanting, np.where(noise > 1, noise, math.nan))
    unknown = ~np.isnan(wanting)
    std_err = np.where(unknown, math.nan, np.sqrt(variance) * units)
    return _Estimate(np.where(unknown, math.nan, theta * units), std_err, wanting)
