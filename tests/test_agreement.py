"""Agreement with scikit-learn where noise is nothing, with columns that show nothing among them."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
)

from skdpdyn import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.datasets import load_adult

RNG = np.random.default_rng(0)
N = 20_000
BASE = RNG.uniform(-1, 1, (N, 4))
RAW = BASE @ [1.5, -1.0, 0.5, 0.0] + 0.3
COLUMNS = {
    "plain": BASE,
    "ones": np.column_stack([BASE, np.ones(N)]),
    "zeros": np.column_stack([BASE, np.zeros(N)]),
    "repeated": np.column_stack([BASE, BASE[:, 0]]),
}
NUMBERS = RAW + RNG.normal(0, 0.3, N)
LABELS = (RNG.random(N) < expit(RAW)).astype(int)
CLASSES = np.digitize(RAW + RNG.logistic(size=N), [-0.5, 1.0])
COUNTS = RNG.poisson(np.exp(RAW)).astype(float)


class SmoothedHinge:
    """Oracle of the hinge whose kink is smoothed, which scikit-learn has not."""

    def fit(self, X, y):
        """Minimise the mean loss by scipy."""
        sign = 2.0 * y - 1
        rows = np.column_stack([X, np.ones(len(X))])

        def risk(theta):
            short = np.maximum(1.5 - sign * (rows @ theta), 0)
            losses = np.where(short < 1, short**2 / 2, short - 0.5)
            return losses.mean(), -(np.minimum(short, 1) * sign) @ rows / len(rows)

        options = {"ftol": 1e-14, "gtol": 1e-9}
        start = np.zeros(rows.shape[1])
        self.coef_ = minimize(risk, start, jac=True, method="L-BFGS-B", options=options).x
        return self

    def decision_function(self, X):
        """Return raw predictions."""
        return X @ self.coef_[:-1] + self.coef_[-1]


BUDGET = {"epsilon": 1e6, "bounds": (-1, 1), "random_state": 0}
NUMBERED = BUDGET | {"target_bounds": (-4, 5)}
PAIRS = {
    "squared": (PrivateRidge(**NUMBERED), LinearRegression(), NUMBERS, "predict"),
    "pinball": (
        PrivateQuantileRegressor(quantile=0.8, **NUMBERED),
        QuantileRegressor(quantile=0.8, alpha=0.0),
        NUMBERS,
        "predict",
    ),
    "poisson": (
        PrivatePoissonRegressor(**BUDGET, target_bounds=(0, 30)),
        PoissonRegressor(alpha=0.0, tol=1e-8, max_iter=1000),
        COUNTS,
        "predict",
    ),
    "logistic": (
        PrivateLogisticRegression(**BUDGET, classes=[0, 1]),
        LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000),
        LABELS,
        "decision_function",
    ),
    "hinge": (
        PrivateLinearSVC(**BUDGET, classes=[0, 1]),
        SmoothedHinge(),
        LABELS,
        "decision_function",
    ),
    "softmax": (
        PrivateSoftmaxRegression(**BUDGET, classes=[0, 1, 2]),
        LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000),
        CLASSES,
        "decision_function",
    ),
}


FEW = slice(0, 4000)
ROWS = {"pinball": FEW, "softmax": FEW}  # which take time


@cache
def expected_of(loss):
    """Return what scikit-learn's model predicts for its own rows."""
    _, plain, y, method = PAIRS[loss]
    rows = ROWS.get(loss, slice(None))
    return getattr(plain.fit(BASE[rows], y[rows]), method)(BASE[rows])


@pytest.mark.every_case
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("loss", PAIRS)
def test_predictions_are_those_of_scikit_learn(loss, columns):
    """Of all rows within a hundredth of their deviation; what shows nothing has no coefficient."""
    model, _, y, method = PAIRS[loss]
    rows = ROWS.get(loss, slice(None))
    X = COLUMNS[columns][rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(model.fit(X, y[rows]), method)(X)
        expected = expected_of(loss)
    if expected.ndim > 1:
        found = found - found.mean(axis=1, keepdims=True)
        expected = expected - expected.mean(axis=1, keepdims=True)
    assert np.max(np.abs(found - expected)) <= 0.01 * np.std(expected)
    coef = np.atleast_2d(model.coef_)
    last = {"repeated": coef[:, 0], "plain": coef[:, -1]}.get(columns, 0.0)
    np.testing.assert_allclose(coef[:, -1], last, atol=0.02)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_predictions_of_sparse_rows_are_those_of_scikit_learn(loss):
    """Where no map divides rows by their length."""
    model, plain, y, method = PAIRS[loss]
    y = y[:1000]
    X = np.where(RNG.random((1000, 4)) < 0.5, BASE[:1000], 0)
    rows = sparse.csr_array(X)
    model = clone(model).set_params(bounds=None, data_norm=2.0, conditioning=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(model.fit(rows, y), method)(rows)
    expected = getattr(plain.fit(X, y), method)(X)
    assert np.max(np.abs(found - expected)) <= 0.01 * np.std(expected)


@pytest.mark.parametrize("loss", PAIRS)
def test_a_rare_dummy_shows(loss):
    """Ten records of 20,000 tell what they tell scikit-learn, beside a column of ones."""
    model, plain, y, method = PAIRS[loss]
    rows = FEW if loss == "pinball" else slice(None)
    dummy = np.zeros(N)
    dummy[: N // 200 : 10] = 1.0
    X = np.column_stack([BASE, dummy, np.ones(N)])[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(model.fit(X, y[rows]), method)(X)
        expected = getattr(plain.fit(X[:, :5], y[rows]), method)(X[:, :5])
    if expected.ndim > 1:
        found = found - found.mean(axis=1, keepdims=True)
        expected = expected - expected.mean(axis=1, keepdims=True)
    assert np.max(np.abs(found - expected)) <= 0.05 * np.std(expected)
    coef, public = (np.atleast_2d(one.coef_)[:, 4] for one in (model, plain))
    np.testing.assert_allclose(coef, public, atol=0.05)


def test_coefficients_of_columns_that_show_nothing():
    """Two equal columns share one coefficient, and R^2 with a constant one is that without."""
    model = PrivateRidge(epsilon=1e6, target_bounds=(-4, 5)).fit(COLUMNS["repeated"], NUMBERS)
    np.testing.assert_allclose(model.coef_[[0, -1]], 0.75, atol=0.02)
    for columns in ("ones", "zeros"):
        model = PrivateRidge(epsilon=1e6).fit(COLUMNS[columns], NUMBERS)
        assert model.score(COLUMNS[columns].copy(), NUMBERS) > 0.92


@pytest.mark.parametrize("columns", ["ones", "repeated"])
@pytest.mark.parametrize("loss", PAIRS)
def test_what_shows_nothing_has_the_least_coefficients(loss, columns):
    """Two equal columns share one coefficient evenly, a constant one has none, at epsilon 10."""
    model, y = PAIRS[loss][0], PAIRS[loss][2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(model).set_params(epsilon=10.0).fit(COLUMNS[columns], y)
    coef = np.atleast_2d(model.coef_)
    shared = coef[:, 0] if columns == "repeated" else 0.0
    np.testing.assert_allclose(coef[:, -1], shared, atol=0.15)


LINEAR = {
    "squared": PrivateRidge(target_bounds=(-4, 5)),
    "pinball": PrivateQuantileRegressor(target_bounds=(-4, 5)),
    "poisson": PrivatePoissonRegressor(target_bounds=(0, 30)),
    "logistic": PrivateLogisticRegression(classes=[0, 1]),
    "hinge": PrivateLinearSVC(classes=[0, 1]),
    "softmax": PrivateSoftmaxRegression(classes=[0, 1, 2]),
}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("loss", LINEAR)
def test_coefficients_are_in_units_of_the_columns(loss, columns):
    """Raw predictions of rows inside the ranges are X @ coef_ + intercept_, but of those that the
    map shortens.
    """
    model = LINEAR[loss]
    X = COLUMNS[columns]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, PAIRS[loss][2])
    ranges = model.ranges_
    inside = np.all((ranges[:, 0] <= X) & (ranges[:, 1] >= X), axis=1)
    row_map = model.conditioning_.row_map
    scaled = 2 * (X - ranges.mean(axis=1)) / np.diff(ranges, axis=1).T[0]
    (scale, _, _) = row_map.factors(scaled)
    whole = np.isclose(scale, scale.max(), rtol=1e-9)  # longer rows have a smaller factor
    raw = X @ np.atleast_2d(model.coef_).T + model.intercept_
    predicted = model._raw_predictions(X).reshape(len(X), -1)
    kept = inside & whole
    assert kept.mean() > 0.3
    np.testing.assert_allclose(raw[kept], predicted[kept], rtol=1e-6, atol=1e-6)
    assert np.max(np.abs(model.coef_)) < 1e5


@pytest.mark.parametrize("name", ["logistic", "pinball"])
def test_coefficients_of_dummies_can_be_read(name):
    """The largest of Adult's, with ranges that are bought, are below 100, rare levels among them,
    and rows inside the ranges have the raw prediction that they say.
    """
    data, target = load_adult(return_X_y=True)
    X = pd.get_dummies(data, dtype=float).to_numpy()
    model = clone(LINEAR[name]).fit(X, (target == ">50K").astype(int))
    coef = np.ravel(model.coef_)
    assert np.max(np.abs(coef)) < 100
    low, high = model.ranges_.T
    inside = np.all((low <= X) & (high >= X), axis=1)
    away = X @ coef + model.intercept_ - model._raw_predictions(X).ravel()
    assert np.mean(inside) > 0.5
    assert np.mean(np.abs(away[inside]) < 1e-6) > 0.2  # others are shortened
