"""Prediction intervals: coverage, width beside a plain conformal interval, cost, and refusals."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from sklearn.base import clone, is_regressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from skdpdyn import PrivateQuantileRegressor, PrivateRidge
from skdpdyn.evaluation import prediction_interval
from skdpdyn.evaluation.prediction import MEAN_OF_LARGEST, N_HALVINGS, needed_count
from skdpdyn.exceptions import CalibrationError, PrivacyUtilityWarning
from skdpdyn.model_selection import total_privacy

BOUNDS = -4.0, 4.0
W = [1.5, -1.0, 0.5]


def made(n, seed=0):
    """Return rows and targets of a linear law."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, X @ W + rng.normal(0, 0.3, n)


X, Y = made(20_000)
HELD_OUT = made(10_000, seed=1)
NEW = made(20_000, seed=2)
RIDGE = PrivateRidge(target_bounds=BOUNDS).fit(X, Y)
QUANTILES = PrivateQuantileRegressor(quantile=[0.95, 0.5, 0.05], target_bounds=BOUNDS).fit(X, Y)


def flat(value=0.0):
    """Return a model that predicts one number."""
    model = PrivateRidge(target_bounds=BOUNDS).fit(X, Y)
    model.coef_ = np.zeros(3)
    model.intercept_ = value
    return model


def share_inside(found, X, y):
    """Return the part of targets that intervals hold."""
    low, high = found.predict_interval(X).T
    return np.mean((low <= y) & (y <= high))


LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "all equal": lambda rng, n: np.ones(n),
    "90 % in one point": lambda rng, n: np.where(rng.random(n) < 0.9, 1.0, 2 + rng.random(n)),
    "whole numbers": lambda rng, n: rng.poisson(1.5, n) + 0.0,
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [500, 3000])
def test_intervals_cover_whatever_the_law(law, n):
    """Mean coverage of 100 intervals, less five of its standard errors, is 0.9 at most below."""
    rng = np.random.default_rng(0)
    model = flat()
    covered = []
    for _ in range(100):
        y = LAWS[law](rng, n)
        found = prediction_interval(
            model, np.zeros((n, 3)), y, epsilon=1.0, target_bounds=(-30.0, 30.0)
        )
        new = LAWS[law](rng, 4000)
        covered.append(np.mean(np.abs(new) <= found.predict_interval(np.zeros((1, 3)))[0, 1]))
    assert np.mean(covered) + 5 * np.std(covered) / 10 >= 0.9


@pytest.mark.parametrize(("n", "coverage"), [(2000, 0.9), (10_000, 0.5), (300, 0.6)])
def test_the_count_that_is_needed_is_the_least_that_the_proof_allows(n, coverage):
    """The mean of min(n + 1, K - std M), by quadrature over the largest of nine normals."""
    largest = quad(lambda x: 1 - ndtr(x) ** N_HALVINGS, 0, 12)[0]
    largest -= quad(lambda x: ndtr(x) ** N_HALVINGS, -12, 0)[0]
    assert largest <= MEAN_OF_LARGEST < largest + 1e-8
    std = 40.0
    needed = needed_count(n, coverage, std)
    density = np.gradient(ndtr(grid := np.linspace(-9, 9, 200_001)) ** N_HALVINGS, grid)
    mean = np.trapezoid(np.minimum(n + 1, needed - std * grid) * density, grid)
    assert mean == pytest.approx((n + 1) * coverage, abs=1e-4 * std)


@pytest.mark.parametrize("model", [RIDGE, QUANTILES], ids=["ridge", "quantiles"])
def test_intervals_are_about_as_wide_as_plain_ones(model):
    """Within 5 % of the exact conformal quantile of the same scores, and 1 point of coverage."""
    found = prediction_interval(model, *HELD_OUT, epsilon=1.0)
    raw = model.predict(HELD_OUT[0]).reshape(len(HELD_OUT[1]), -1)
    half = (raw.max(axis=1) - raw.min(axis=1)) / 2
    unit = np.maximum(half, 8 / 1024) if raw.shape[1] > 1 else 1.0
    middle = (raw.max(axis=1) + raw.min(axis=1)) / 2
    scores = np.sort(np.abs(HELD_OUT[1] - middle) / unit)
    plain = scores[math.ceil(0.9 * (scores.size + 1)) - 1]
    assert 0.99 < found.threshold_ / plain < 1.05
    assert share_inside(found, *NEW) == pytest.approx(0.905, abs=0.012)


def test_the_cost_is_that_of_the_release_and_the_model_is_its_source():
    found = prediction_interval(RIDGE, *HELD_OUT, epsilon=0.5)
    assert is_regressor(found)
    assert clone(found) is found.fit(X) is found
    np.testing.assert_array_equal(found.predict(X), RIDGE.predict(X))
    assert found.epsilon_ == pytest.approx(0.5)
    assert found.delta_ == 1e-8
    assert [source.guarantee for source in found.sources_] == [RIDGE.privacy_]
    both = total_privacy(RIDGE, found)
    assert both.guarantee.mu == pytest.approx(math.hypot(RIDGE.privacy_.mu, found.privacy_.mu))
    assert not both.sources
    apart = total_privacy(RIDGE, found, disjoint=True)
    assert apart.guarantee.mu == max(RIDGE.privacy_.mu, found.privacy_.mu)
    assert "PrivateRidge" in str(found.privacy_report())


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_what_training_records_promise_follows_from_privacy(adjacency):
    model = PrivateRidge(target_bounds=BOUNDS, adjacency=adjacency).fit(X, Y)
    found = prediction_interval(model, X, Y, epsilon=1.0, held_out=False, adjacency=adjacency)
    mu = math.hypot(model.privacy_.mu, found.privacy_.mu)
    mu *= 1 if adjacency == "replace_one" else 2
    assert found.coverage_ == pytest.approx(1 - ndtr(ndtri(0.1) + mu))
    other = prediction_interval(
        LinearRegression().fit(X, Y), X[:900], Y[:900], epsilon=1.0, held_out=False,
        target_bounds=BOUNDS,
    )  # fmt: skip
    assert other.coverage_ is None


def test_what_is_refused():
    persons = PrivateRidge(target_bounds=BOUNDS).fit(X, Y, groups=np.arange(len(X)) // 2)
    plain = LinearRegression().fit(X, Y)
    labels = LogisticRegression().fit(X, Y > 0)
    few = HELD_OUT[0][:100], HELD_OUT[1][:100]
    for model, records, error, text in [
        (persons, HELD_OUT, ValueError, "fitted with groups, for a person"),
        (plain, HELD_OUT, ValueError, "target_bounds=None: the LinearRegression"),
        (labels, HELD_OUT, ValueError, "is not a regressor"),
        (RIDGE, few, CalibrationError, "n_samples=100 are too few.*pass [0-9]+ records"),
    ]:
        with pytest.raises(error, match=text):
            prediction_interval(model, *records, epsilon=1.0)
    for beside in ("groups", "sample_weight"):
        with pytest.raises(TypeError, match=beside):
            prediction_interval(RIDGE, *HELD_OUT, epsilon=1.0, **{beside: np.ones(10_000)})
    with pytest.raises(ValueError, match=r"coverage=1\.5"):
        prediction_interval(RIDGE, *HELD_OUT, epsilon=1.0, coverage=1.5)


def test_a_target_far_beyond_its_bounds_makes_intervals_infinite():
    with pytest.warns(PrivacyUtilityWarning, match="infinite"):
        found = prediction_interval(flat(), X, np.full(len(X), 1e6), epsilon=1.0)
    assert found.predict_interval(X[:1]).tolist() == [[-math.inf, math.inf]]
