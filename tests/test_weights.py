"""Weights of a survey's design: what they estimate, what they cost, and what is refused."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpdyn import PrivateGAMClassifier, PrivateLogisticRegression, PrivateRidge

BOUNDS = (2.0, 5.0)
MODELS = {
    "logistic": PrivateLogisticRegression(3.0, classes=[False, True], weight_bounds=BOUNDS),
    "ridge": PrivateRidge(3.0, target_bounds=(-3, 5), weight_bounds=BOUNDS),
    "additive": PrivateGAMClassifier(
        3.0, bounds=(-1, 1), classes=[False, True], weight_bounds=BOUNDS
    ),
}


def sample(kind, seed=0, size=60_000):
    """Return a sample in which high outcomes are too many, with inverse probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (size, 2))
    raw = X @ [1.0, -0.5]
    y = raw + 1 + rng.normal(0, 0.5, size) if kind == "ridge" else rng.random(size) < _mean(raw - 1)
    chosen = np.where(y > 1 if kind == "ridge" else y, 0.5, 0.2)
    taken = rng.random(size) < chosen
    return X[taken], y[taken], 1 / chosen[taken]


def _mean(raw):
    return 1 / (1 + np.exp(-raw))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
def test_weighted_fits_estimate_the_population(kind, persons):
    """Noise has a deviation of at most 0.1 here: six of them, chance 1e-8 for each number."""
    X, y, weights = sample(kind)
    given = {"groups": np.arange(len(y)) // 2} if persons else {}
    model = clone(MODELS[kind]).fit(X, y, sample_weight=weights, **given)
    assert model.epsilon_ == pytest.approx(3.0)
    assert not model.leaks_
    unit = "person" if persons else "record"
    assert f"each weight follows from its own {unit} alone" in model.privacy_report().to_text()
    assert model.privacy_.with_unit("record") == model.privacy_cost(model.n_samples_, 2)
    if kind == "additive":
        raw = LogisticRegression(C=1e6).fit(X, y, sample_weight=weights).decision_function(X)
        assert abs(np.mean(model.decision_function(X) - raw)) < 0.3
        return
    exact = LinearRegression() if kind == "ridge" else LogisticRegression(C=1e6)
    exact.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(np.ravel(model.coef_), np.ravel(exact.coef_), atol=0.6)
    tight = 0.05 if kind == "ridge" else 0.3  # without weights 0.11 and 0.92 too high
    np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=tight)


def test_weights_are_given_by_name_in_a_pipeline():
    X, y, weights = sample("logistic", size=5000)
    pipeline = make_pipeline(clone(MODELS["logistic"]))
    pipeline.fit(X, y, privatelogisticregression__sample_weight=weights)
    assert "sum of weights" in pipeline[-1].mechanism_.names


@pytest.mark.parametrize(
    ("bounds", "weights", "message"),
    [
        (None, np.ones(100), "Give weight_bounds"),
        ((1.0, 2.0), None, "pass sample_weight"),
        ((1.0, 2.0), np.full(100, np.nan), "within these public bounds"),
        ((1.0, 2.0), np.ones(99), "for each row of X"),
        ((2.0, 1.0), np.ones(100), "low < high"),
        ((-1.0, 1.0), np.ones(100), "two numbers >= 0"),
    ],
)
def test_what_are_no_weights_is_refused(bounds, weights, message):
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    model = PrivateLogisticRegression(classes=[False, True], weight_bounds=bounds)
    given = {} if weights is None else {"sample_weight": weights}
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        model.fit(X, X[:, 0] > 0, **given)
    assert "nan" not in str(caught.value)
