"""Standard errors of a fitted model, for a budget of their own.

Noise and penalty move the coefficients of a private model. By how much depends on the curvature of
the risk, which is private. `private_summary` spends a budget on a noisy curvature; penalty and
noise are public numbers. So it can undo the penalty, and say how far the noise and the sample may
have moved the rest.
"""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import special
from sklearn.utils.validation import check_is_fitted

from skdpdyn.base import (
    DTYPES,
    quoting_no_records,
    silent_arithmetic,
    validated,
)
from skdpdyn.data.local import LocalRows
from skdpdyn.data.persons import by_person, persons_of
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.inference.directions import (
    Moment,
    estimates,
    inverted,
    learn_coordinates,
    rounding_of,
    shares_of_coordinates,
)
from skdpdyn.inference.table import PrivateSummary, checked_confidence, names_of
from skdpdyn.linear_model import PrivateLogisticRegression, PrivateRidge
from skdpdyn.linear_model.parameters import most_rows_of
from skdpdyn.linear_model.targets import as_labels, codes_of, numbers_of, scaling
from skdpdyn.noise import check_random_state, seed_leaks
from skdpdyn.privacy import Budget, ObjectivePerturbation
from skdpdyn.privacy.checks import checked_flag
from skdpdyn.rules import LARGEST_RESIDUAL, ROBUST_SHARE
from skdpdyn.spending import (
    Share,
    buying,
    total_of,
    training_of,
)

MOMENTS, SCORES = "moments", "scores"


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
    confidence = checked_confidence(confidence)
    _check_model(model, groups)
    budget = Budget.for_samples(
        epsilon, delta, n_samples=model.n_samples_, adjacency=model.privacy_.adjacency
    )
    names = names_of(model)
    with silent_arithmetic():
        rows, y = _rows(model, X, y, groups)
        shares = shares_of_coordinates(rows, budget, model.intercept_scaling_ > 0)
        left = 1 - total_of(shares.values())
        shares |= {MOMENTS: Share(left * (1 - ROBUST_SHARE * robust))}
        shares |= {SCORES: Share(left * ROBUST_SHARE)} if robust else {}
        fitted = _logistic if isinstance(model, PrivateLogisticRegression) else _linear
        with buying(shares, budget, model.n_samples_, random_state) as (spending, plan):
            found, title, estimand = fitted(model, rows, y, spending, names)
    own = plan.guarantee.with_unit(model.privacy_.unit)
    has_odds = isinstance(model, PrivateLogisticRegression)
    return PrivateSummary.of(
        found,
        names=names,
        confidence=confidence,
        title=f"{title}, {model.n_samples_} {own.unit}s{', robust' if robust else ''}",
        estimand=estimand,
        n_samples=model.n_samples_,
        privacy_=model.privacy_.compose(own),
        own_privacy_=own,
        mechanism_=plan.mechanism,
        delta_=budget.delta,
        leaks_=tuple(dict.fromkeys((*model.leaks_, *seed_leaks(random_state)))),
        sources_=model.sources_,
        inverse_link=special.expit if has_odds else None,
        ratio="odds ratio" if has_odds else None,
    )


def _check_model(model, groups):
    """Refuse a model whose coefficients have no interval, and say which model to fit."""
    if not isinstance(model, PrivateLogisticRegression | PrivateRidge):
        hint = ": of a Pipeline pass its last step, and X as the other steps transform it"
        raise UnsupportedMechanismError(
            f"no interval is known for a fitted {type(model).__name__}, only for a "
            "PrivateLogisticRegression and a PrivateRidge. private_regression fits a model that "
            "has a table, and buys it, for one budget"
            f"{hint if hasattr(model, 'steps') else ''}"
        )
    quoting_no_records(check_is_fitted, model)
    if model.conditioning_ is not None:
        raise UnsupportedMechanismError(
            "the model was trained on rows under a map that it learnt, and its coefficients are "
            "those of the mapped rows. Fit it with conditioning=None, or use private_regression, "
            "which needs no such choice"
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
    (codes, n_samples), most_rows = persons_of(groups, len(y)), 1
    if codes is not None:
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


def _logistic(model, rows, codes, spending, names):
    """Return intervals of a logistic regression by objective perturbation, for unit rows."""
    linear, output = training_of(model.mechanism_).mechanisms
    radius, alpha = model.data_norm_, model.alpha_
    constant = model.intercept_scaling_ / radius
    units = np.append(np.full(model.n_features_in_, 1 / radius), [constant] * (constant > 0))
    coef = np.append(model.coef_, [model.intercept_[0]] * (constant > 0)) / units
    penalty = model.n_samples_ * alpha / radius**2
    noise = linear.noise_multiplier * spending.adjacency.sum_sensitivity(model.clip_) / radius
    output_noise = 2 * output.noise_multiplier * output.tolerance / alpha * radius

    coordinates = learn_coordinates(rows, spending, constant > 0)
    of_unit = coordinates.of_unit(constant)
    theta = np.linalg.solve(of_unit.T, coef)
    probability = special.expit(_products(rows, coordinates, theta))
    weight, scores = 4 * probability * (1 - probability), None
    of_rows = partial(_moment, rows, coordinates, spending, theta)
    hessian = of_rows(MOMENTS, weight, 0.25)
    if SCORES in spending.shares:
        scores = of_rows(SCORES, (probability - codes) ** 2, 1.0)
    inverse = inverted(hessian)
    pull = inverse.matrix @ (of_unit @ (penalty * coef))  # the effect of the penalty
    variance = hessian.matrix if scores is None else scores.positive
    variance = variance + noise**2 * of_unit @ of_unit.T
    variance += hessian.std**2 / 2 * ((pull @ pull) * np.eye(theta.size) + np.outer(pull, pull))
    kept = np.linalg.inv(of_unit).T + penalty * inverse.matrix @ of_unit
    covariance = inverse.matrix @ variance @ inverse.matrix + output_noise**2 * kept @ kept.T
    # In directions without information, only the penalty determines the minimiser
    loose = np.sum(np.linalg.solve(of_unit, inverse.weak.T) ** 2, axis=0)
    loose = loose * (noise**2 + hessian.noise_norm) / penalty**2 + (inverse.weak @ theta) ** 2
    covariance += inverse.weak.T @ (loose[:, None] * inverse.weak)
    true = model.classes_[1]
    estimand = (
        f"The coefficients that minimise the expected log loss of y == {true!s}, without penalty"
        f"{_of_rows(radius)}."
    )
    in_units = units[:, None] * of_unit.T
    found = estimates(theta + pull, covariance, inverse, in_units, names, scores)
    return found, "Private logistic regression", estimand


def _linear(model, rows, y, spending, names):
    """Return intervals of a linear regression from noisy second moments."""
    low, high = model.target_bounds_
    radius, constant = model.data_norm_, model.intercept_scaling_ / model.data_norm_
    centre, half = scaling(low, high, constant > 0)
    targets = np.clip((np.clip(y, low, high) - centre) / half, -1, 1)
    units = half * np.append(np.full(model.n_features_in_, 1 / radius), [constant] * (constant > 0))
    coordinates = learn_coordinates(rows, spending, constant > 0)
    start = np.zeros(units.size)
    of_rows = partial(_moment, rows, coordinates, spending)
    whole = of_rows(start, MOMENTS, None, 1.0, targets)
    moment = Moment(whole.matrix[:-1, :-1], whole.std)
    inverse = inverted(moment)
    theta = inverse.matrix @ whole.matrix[:-1, -1]
    size = 1 + theta @ theta  # squared, of (theta, -1), which the noise multiplies
    rest = whole.matrix[-1, -1] - theta @ whole.matrix[:-1, -1]
    rest = max(rest, 0.0) + whole.std * size  # a standard deviation of its noise on the safe side
    square = rest / max(model.n_samples_ - theta.size, 1)
    scores, variance = None, square * moment.matrix
    if SCORES in spending.shares:
        largest = min(LARGEST_RESIDUAL * math.sqrt(square), 4.0)
        residual = (targets - _products(rows, coordinates, theta)) / largest
        scores = of_rows(theta, SCORES, np.minimum(residual**2, 1.0), largest**2)
        variance = scores.positive
    variance = variance + moment.std**2 / 2 * (size * np.eye(theta.size) + np.outer(theta, theta))
    covariance = inverse.matrix @ variance @ inverse.matrix
    covariance += (theta @ theta) * inverse.weak.T @ inverse.weak
    in_units = units[:, None] * coordinates.of_unit(constant).T
    found = estimates(theta, covariance, inverse, in_units, names, scores)
    if constant:
        found.params[-1] += centre
    estimand = (
        f"The coefficients of the least-squares fit to y within [{low:g}, "
        f"{high:g}]{_of_rows(radius)}."
    )
    return found, "Private linear regression", estimand


def _of_rows(radius):
    return (
        ", in the population that the records were drawn from; rows of a norm beyond "
        f"{radius:g} count as scaled down to it"
    )


def _moment(rows, coordinates, spending, theta, name, weight, largest, targets=None):
    """Release ``largest`` times the sum of weight * outer(r, r), r a row and its target.

    ``weight`` multiplies that of the rows. One record moves it by its own term, whose Frobenius
    norm is at most largest * square, a person by a mean of such terms; the inner product of two
    is not negative, so replacing one moves it by at most sqrt(2) times that. Weights are in [0, 1].
    """
    square, total = coordinates.square + (targets is not None), 0.0
    for part, block, of_block in coordinates.blocks(rows):
        block = block if targets is None else np.column_stack([block, targets[part]])
        of_block = of_block if weight is None else of_block * np.clip(weight[part], 0, 1)
        block *= np.sqrt(of_block)[:, None]
        total = total + block.T @ block
    sensitivity = square * (spending.per_square + rounding_of(rows, theta))
    noisy = spending.symmetric(name, (total + total.T) / 2, sensitivity)
    return Moment(largest * noisy, largest * sensitivity * spending.noise_multiplier(name))


def _products(rows, coordinates, theta):
    """Return the raw predictions of rows, intercept included."""
    raw = np.empty(rows.shape[0])
    for part, block, _ in coordinates.blocks(rows):
        raw[part] = np.einsum("ij,j->i", block, theta)
    return raw
