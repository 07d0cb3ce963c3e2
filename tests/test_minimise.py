"""The certified minimiser: against other optimisers, and in exact arithmetic."""

import math
import re
from dataclasses import replace
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_info, threadpool_limits

from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.core.losses import logistic, softmax, squared
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import ConvergenceError
from skdpdyn.kernels.passes import Gradients
from skdpdyn.solvers import minimise as _minimise
from skdpdyn.solvers.minimise import minimise
from skdpdyn.support.blas import one_blas_thread


def rows(n_samples=60, n_features=4, n_classes=2, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_samples, n_features)).astype(dtype)
    return X, rng.integers(0, n_classes, n_samples).astype(float)


def problem(loss, X, **changes):
    defaults = {"data_norm": 10.0, "alpha": 0.01, "intercept_scaling": 0.5}
    return Objective(loss, *X.shape, **{**defaults, **changes})


def with_column(X, constant=0.5):
    return np.column_stack([X, np.full(len(X), constant)])


# --- against other optimisers ---------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", [logistic, squared], ids=lambda loss: loss.name)
def test_against_scikit_learn(loss, layout, dtype):
    X, y = rows(dtype=dtype)
    objective = problem(loss, X, clip=1e3)
    theta = minimise(objective, LocalRows(layout(X), y), tolerance=1e-10)
    exact = Ridge(len(y) * objective.alpha, fit_intercept=False, solver="cholesky")
    if loss is logistic:
        options = {"fit_intercept": False, "solver": "newton-cholesky", "tol": 1e-13}
        exact = LogisticRegression(C=1 / (len(y) * objective.alpha), **options)
    exact.fit(with_column(X.astype(float)), y)
    np.testing.assert_allclose(theta, np.ravel(exact.coef_), atol=1e-7)


@pytest.mark.parametrize("loss", [logistic, squared], ids=lambda loss: loss.name)
@pytest.mark.parametrize("clip", [0.05, 0.3])
def test_clipped_losses_and_a_linear_term(loss, clip):
    """The clipped losses are Huber's: written out as functions here, and left to scipy."""
    X, y = rows()
    objective = problem(loss, X, clip=clip)
    linear = 0.02 * np.arange(objective.n_parameters)
    theta = minimise(objective, LocalRows(X, y), tolerance=1e-10, linear=linear)
    rows_ = with_column(X)
    limit = LocalRows(X).bounded(objective, 1).limit
    # where sigmoid(t) or t reaches the bound
    knee = np.log(limit / (1 - limit)) if loss is logistic else limit

    def value(theta):
        raw = (2 * y - 1) * (rows_ @ theta) if loss is logistic else rows_ @ theta - y
        if loss is logistic:  # log(1 + e^-raw), its slope clamped to [-bound, 0]
            beyond = np.logaddexp(0, knee) - limit * (knee + raw)
            huber = np.where(raw >= -knee, np.logaddexp(0, -raw), beyond)
        else:
            huber = np.where(np.abs(raw) <= limit, raw**2 / 2, limit * np.abs(raw) - limit**2 / 2)
        return np.mean(huber) + objective.alpha / 2 * theta @ theta + linear @ theta

    options = {"method": "L-BFGS-B", "options": {"ftol": 1e-15, "gtol": 1e-9}}
    other = optimize.minimize(value, np.zeros(theta.size), **options)
    assert value(theta) <= other.fun + 1e-15
    np.testing.assert_allclose(theta, other.x, atol=2e-5)


# --- the certificate ------------------------------------------------------------------------------


def exact_gradient(objective, X, y, theta, linear):
    """The gradient in 50 digits, from the rows, factors and bounds as they are in double."""
    mpmath.mp.dps = 50
    given = LocalRows(X)
    what = Gradients.of(replace(objective.unclamped(), exact=True), given)
    row_scale, limits, _, _ = given.bounded_for(what)
    limit = limits.tolist()
    y = LocalRows(X, y).y.tolist()
    coef, column = np.split(theta, [objective.n_outputs * objective.n_features])
    total = mpmath.zeros(objective.n_outputs, objective.n_features + 1)
    weights = np.column_stack([coef.reshape(objective.n_outputs, -1), column])
    for i, row in enumerate(X.tolist()):
        scaled = [mpmath.mpf(row_scale[i]) * mpmath.mpf(v) for v in row]
        row = mpmath.matrix([[*scaled, objective.intercept_scaling]])
        raw = list(mpmath.matrix(weights.tolist()) * row.T)
        if objective.n_outputs > 1:
            powers = [mpmath.exp(r) for r in raw]
            residual = [p / mpmath.fsum(powers) - (y[i] == k) for k, p in enumerate(powers)]
        else:
            slope = 1 / (1 + mpmath.exp(-raw[0])) if objective.loss is logistic else raw[0]
            residual = [min(max(slope - y[i], -limit[i]), mpmath.mpf(limit[i]))]
        total += mpmath.matrix(residual) * row
    last = objective.n_features  # mpmath 1.3 has no columns from the end
    mean = [v / len(y) for part in (total[:, :last], total[:, last]) for v in part]
    return [
        g + objective.alpha * mpmath.mpf(t) + mpmath.mpf(v)
        for g, t, v in zip(mean, theta, linear, strict=True)
    ]


def gradient_of(objective, X, y, linear):
    return _minimise._Gradient(objective, LocalRows(X, y), linear)


def error_of(gradient, objective, X, y, theta, linear):
    """Return the error of a gradient, and the norm of the exact one."""
    exact = exact_gradient(objective, X, y, theta, linear)
    lost = [mpmath.mpf(g) - e for g, e in zip(gradient(theta), exact, strict=True)]
    return mpmath.norm(lost), mpmath.norm(exact)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("data_norm", [0.1, 1.0, 100.0])
@pytest.mark.parametrize(
    ("loss", "clip"),
    [(logistic, math.inf), (logistic, 0.3), (squared, 0.5), (softmax(3), math.inf)],
)
def test_the_certificate_holds_in_exact_arithmetic(loss, clip, data_norm, dtype):
    X, y = rows(40, 3, loss.n_outputs, dtype)
    X *= data_norm
    scale = math.hypot(data_norm, data_norm / 4)
    constants = {"data_norm": data_norm, "alpha": 1e-3 * scale**2, "clip": clip * scale}
    objective = problem(loss, X, intercept_scaling=data_norm / 4, **constants)
    linear = np.linspace(0, 0.1, objective.n_parameters) * scale
    tolerance = 1e-8 * scale
    theta = minimise(objective, LocalRows(X, y), tolerance=tolerance, linear=linear)
    gradient = gradient_of(objective, X, y, linear)
    error, norm = error_of(gradient, objective, X, y, theta, linear)
    assert norm <= tolerance
    assert error <= gradient.rounding(theta) <= tolerance / 10


def test_the_rounding_of_raw_predictions_that_cancel_is_counted():
    X, y = rows(40, 1)
    X = np.column_stack([X, np.nextafter(X, 2)])
    objective = problem(logistic, X, data_norm=2.0, alpha=1e-7)
    theta = np.array([1e7, -1e7, 0.1])
    gradient = gradient_of(objective, X, y, np.zeros(3))
    error, _ = error_of(gradient, objective, X, y, theta, np.zeros(3))
    assert 1e-12 < error <= gradient.rounding(theta) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("loss", [logistic, squared, softmax(3)], ids=lambda loss: loss.name)
def test_hard_problems(loss):
    """Any shape and scale, separable or not, kinks, and penalties down to 1e-6 of the curvature."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n_samples = int(rng.integers(1, 40))
        n_features = int(rng.integers(1, 10))
        data_norm = 10 ** rng.uniform(-2, 2)
        X = rng.standard_normal((n_samples, n_features)) * data_norm * 10 ** rng.uniform(-1, 0.5)
        if rng.random() < 0.3:
            X[1:] *= 1e-3
        any_label = rng.integers(0, max(2, loss.n_outputs), n_samples)
        y = (X[:, 0] > 0 if rng.random() < 0.5 else any_label).astype(float)
        row_norm = math.hypot(data_norm, data_norm / 4)
        clip = math.inf if loss.n_outputs > 1 else row_norm * 10 ** rng.uniform(-2, 0.3)
        constants = {"alpha": row_norm**2 * 10 ** rng.uniform(-6, 0), "clip": clip}
        constants |= {"data_norm": data_norm, "intercept_scaling": data_norm / 4}
        objective = problem(loss, X, **constants)
        tolerance = 1e-6 * objective.lipschitz / n_samples
        theta = minimise(objective, LocalRows(X, y), tolerance=tolerance)
        assert np.linalg.norm(gradient_of(objective, X, y, None)(theta)) <= tolerance


def blas_threads():
    return [of["num_threads"] for of in threadpool_info() if of["user_api"] == "blas"]


def test_products_take_one_thread_and_only_meanwhile():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert before
        for _ in range(2):  # the libraries are looked for once
            with one_blas_thread():
                assert set(blas_threads()) == {1}
            assert blas_threads() == before


def test_an_unreachable_tolerance_is_an_error():
    X, y = rows()
    with pytest.raises(ConvergenceError, match="1e-17: the minimiser could not be cert") as error:
        minimise(problem(logistic, X), LocalRows(X, y), tolerance=1e-17)
    # no number that was measured on the records
    assert re.findall(r"\d\S*", str(error.value)) == ["1e-17:"]


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [0, 1])
@pytest.mark.parametrize("loss", [logistic, squared, softmax(3)], ids=lambda loss: loss.name)
def test_where_newton_stops_nesterov_goes_on(loss, n_steps, monkeypatch):
    X, y = rows(n_classes=max(2, loss.n_outputs))
    objective = problem(loss, X, alpha=1e-2, clip=math.inf if loss.n_outputs > 1 else 0.5)
    expected = minimise(objective, LocalRows(X, y), tolerance=1e-11)
    monkeypatch.setattr(_minimise, "_MAX_STEPS", n_steps)
    ours = minimise(objective, LocalRows(X, y), tolerance=1e-11)
    np.testing.assert_allclose(ours, expected, atol=2e-11 / 1e-2)


@pytest.mark.slow
def test_kinks_that_stall_newton():
    """Its steps go to and fro between two kinks: two hundred of them do not arrive."""
    kinks = [237, 383, 218, -5, -313, 1268, -16479, -34320, -14459]
    kinks += [343548, -551983, 1666409, -18, 0, -33]
    X = np.reshape(kinks, (5, 3)) / 1e6
    constants = {"alpha": 3.06e-7, "clip": 0.00227, "intercept_scaling": 1.0, "data_norm": 1.0}
    objective = problem(squared, X, **constants)
    # must not raise
    minimise(objective, LocalRows(X, np.array([0.0, 1.0, 1.0, 0.0, 0.5])), tolerance=4.54e-10)


def test_what_is_certified_is_the_computed_norm_and_its_rounding():
    """Opposite rows of one label: 0 is the minimum but for a tiny linear term."""
    X = np.array([[0.3, -0.4], [-0.3, 0.4]])
    objective = problem(logistic, X, intercept_scaling=0.0)
    rounding = gradient_of(objective, X, np.ones(2), None).rounding(np.zeros(2))
    linear = np.array([0.8 * rounding, 0.0])
    theta = minimise(objective, LocalRows(X, np.ones(2)), tolerance=1.5 * rounding, linear=linear)
    assert np.linalg.norm(gradient_of(objective, X, np.ones(2), linear)(theta)) <= 0.5 * rounding
    with pytest.raises(ConvergenceError, match="could not be certified"):
        minimise(objective, LocalRows(X, np.ones(2)), tolerance=0.9 * rounding)


def test_without_a_unique_minimiser_it_refuses():
    X, y = rows()
    with pytest.raises(ValueError, match=r"alpha=0.0, clip=inf: a unique minimiser needs alpha >"):
        minimise(problem(logistic, X, alpha=0.0), LocalRows(X, y), tolerance=1e-6)
    with pytest.raises(ValueError, match="a loss of several outputs unclipped"):
        minimise(problem(softmax(3), X, clip=0.5), LocalRows(X, y), tolerance=1e-6)


@pytest.mark.parametrize(
    ("loss", "clip", "reached"),
    [
        (logistic, 0.5, 0.99),
        (squared, 0.1, 0.99),
        (squared, 2.0, 0.7),
        (softmax(3), math.inf, 0.99),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_minimiser_is_within_its_bound(loss, clip, reached):
    """Of rows that make it long: sqrt(alpha) does the most where the loss is squared."""
    largest = 0.0
    for alpha, factor, slope in product((1e-4, 1e-2, 1.0), (1, 3, math.inf), (0.0, 0.01, 1.0)):
        objective = Objective(loss, 50, 1, 1.0, alpha=alpha, clip=clip)
        linear = np.full(objective.n_parameters, -slope / math.sqrt(objective.n_parameters))
        given = LocalRows(np.full((50, 1), min(factor * math.sqrt(alpha), 1.0)), np.ones(50))
        theta = minimise(objective, given, tolerance=1e-9, linear=linear)
        largest = max(largest, np.linalg.norm(theta) / objective.minimiser_norm(slope))
    assert reached < largest <= 1 + 1e-6  # the tolerance


def test_a_penalty_that_double_precision_does_not_see_is_refused():
    _minimise.check_condition(Objective(logistic, 50, 2, 10.0, alpha=1e-10))
    for solver in ("objective_perturbation", "output_perturbation"):
        options = {"classes": [0, 1], "data_norm": 10.0, "alpha": 1e-12, "solver": solver}
        message = r"alpha=1e-12 is less than 1e-12 of the loss's curvature 26.6.* Raise alpha"
        with pytest.raises(ValueError, match=message):
            PrivateLogisticRegression(50.0, **options).privacy_cost(10**15, 2)


@pytest.mark.slow
def test_what_makes_the_minimiser_long_does_not_make_it_fail():
    """Rows of norm sqrt(alpha), where a coefficient of 1/(2 sqrt(alpha)) fits the targets best."""
    cells = np.full(300_000, 1e-3), np.zeros(300_000, np.int32), np.arange(300_001)
    X = sparse.csr_array(cells, shape=(300_000, 200))
    options = {"alpha": 1e-6, "clip": 0.1, "target_bounds": (-1, 1), "fit_intercept": False}
    options |= {"adjacency": "add_remove", "solver": "objective_perturbation"}
    model = PrivateRidge(3.0, **options)
    assert 450 < np.linalg.norm(model.fit(X, np.ones(300_000)).coef_) < 550
