"""Plans before a fit: what they expect, what they solve for, and that real fits keep to them."""

import math
import warnings

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.inspection import BudgetCurveDisplay
from skdpdyn.planning import auc_of, plan
from skdpdyn.solvers import ObjectivePerturbation

COLUMNS = {"bounds": {"age": (0, 110)}, "categories": {"ward": ["a", "b"]}}
COLUMNS |= {"monotonic_cst": {"age": 1}, "interactions": [("age", "ward")]}
GUESSES = {
    PrivateLogisticRegression(): {"auc": 0.85, "prevalence": 0.3},
    PrivateLinearSVC(classes=["no", "yes"]): {"auc": 0.85, "prevalence": 0.3},
    PrivateSoftmaxRegression(classes=["a", "b", "c"]): {"accuracy": 0.7},
    PrivateRidge(target_bounds=(10, 20), bounds=(18, 90)): {"r2": 0.5},
    PrivatePoissonRegressor(target_bounds=(0, 30)): {"d2": 0.4, "mean_count": 2.0},
    PrivateQuantileRegressor(quantile=0.9, target_bounds=(10, 20)): {"d2": 0.4},
    PrivateGAMClassifier(**COLUMNS): {"auc": 0.85, "prevalence": 0.3},
}


QUANTILES = [0.1, 0.5, 0.9]


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateQuantileRegressor(quantile=QUANTILES),
        PrivateGAMRegressor(loss="quantile", quantile=0.9),
    ],
    ids=["several", "curves"],
)
def test_quantiles_are_planned_by_the_score_that_they_have(estimator):
    planned = plan(estimator, n_samples=100_000, n_features=2, epsilon=5.0, d2=0.3)
    assert (planned.name, planned.not_private) == ("d2", 0.3)
    assert planned.points[0].score == pytest.approx(0.3, abs=0.04)
    with pytest.raises(ValueError, match=r"needs \['d2'\]"):
        plan(estimator, n_samples=1000, n_features=2, r2=0.3)


@pytest.mark.parametrize("estimator", GUESSES, ids=lambda model: type(model).__name__)
def test_scores_rise_to_what_is_expected_without_privacy(estimator):
    guesses = GUESSES[estimator]
    planned = plan(estimator, n_samples=[200, 1_000_000], n_features=4, **guesses)
    few, many = planned.points
    assert few.score < many.score
    assert all(point.low < point.score < point.high for point in planned.points)
    assert planned.not_private == next(iter(guesses.values()))
    # a clipped loss, and rows that are shortened, keep a little back of R^2 and D^2
    assert many.score == pytest.approx(planned.not_private, abs=0.06)
    assert f"{planned.not_private:.3f}" in str(planned)


def test_a_pure_budget_is_planned_and_a_plan_is_the_same_tomorrow():
    solver = ObjectivePerturbation(noise="gamma")
    model = PrivateLogisticRegression(delta=0.0, solver=solver)
    asked = {"n_samples": 100, "n_features": 2, "auc": 0.85, "prevalence": 0.3}
    planned = plan(model, **asked)
    assert 0.2 < planned.points[0].score < 0.86
    assert plan(model, **asked) == planned


LOGISTIC = PrivateLogisticRegression(classes=[0, 1])
OF_TEN = {"n_features": 10, "auc": 0.85, "prevalence": 0.3}


@pytest.mark.parametrize("solve_for", ["epsilon", "n_samples"])
def test_what_is_solved_for_reaches_the_target_and_half_of_it_does_not(solve_for):
    shape = {"n_samples": 5000} if solve_for == "epsilon" else {"epsilon": 2.0}
    (found,) = plan(LOGISTIC, solve_for=solve_for, target=0.8, **shape, **OF_TEN).points
    assert found.score >= 0.8
    at = {"n_samples": 5000, "epsilon": 2.0} | {solve_for: getattr(found, solve_for)}
    assert plan(LOGISTIC, **at, **OF_TEN).points[0] == found
    at[solve_for] = type(at[solve_for])(at[solve_for] / 2)
    assert plan(LOGISTIC, **at, **OF_TEN).points[0].score < 0.8


def test_many_rows_are_as_good_as_few_under_a_larger_budget():
    """Only 10,000 rows are drawn for 20,000: as many as are drawn for themselves."""
    planned = plan(LOGISTIC, n_samples=[5000, 10_000, 20_000], epsilon=0.05, **OF_TEN)
    scores = [point.score for point in planned.points]
    assert scores[0] < scores[1] < scores[2]


def test_intervals_hold_scores_of_columns_that_tell_much_of_one_another():
    """At correlations of .98, where a quarter of the rows was too hopeful."""
    rng = np.random.default_rng(0)
    rows = np.sqrt(0.98) * rng.normal(size=(6000, 1)) + np.sqrt(0.02) * rng.normal(size=(6000, 8))
    signal = rows @ np.tile([1.0, -1.0], 4)
    y = np.sqrt(0.6) * signal / np.std(signal) + np.sqrt(0.4) * rng.normal(size=6000)
    model = PrivateRidge(epsilon=2.0, target_bounds=(-3, 3))
    (planned,) = plan(model, n_samples=3000, n_features=8, r2=0.6).points
    rows = (rows / 4).clip(-1, 1)
    y = y.clip(-3, 3)
    for seed in range(4):
        model.set_params(random_state=seed).fit(rows[:3000], y[:3000])
        assert planned.low < model.score(rows[3000:], y[3000:]) < planned.high


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"auc": 0.4}, "auc=0.4 must be in"),
        ({"prevalence": 1.0}, "prevalence=1.0 must be in"),
        ({"r2": 0.5}, r"guesses=.*PrivateLogisticRegression.*needs \['auc', 'prevalence'\]"),
        ({"n_samples": None}, "n_samples=None must be an integer"),
        ({"n_features": 0}, "n_features=0 must be"),
        ({"solve_for": "delta"}, "solve_for='delta' must be 'epsilon' or 'n_samples'"),
        ({"solve_for": "epsilon"}, "target=None must be a number below"),
        ({"solve_for": "epsilon", "target": 0.9}, "target=0.9 must be a number below"),
        ({"solve_for": "epsilon", "target": 0.849, "n_samples": 50}, "not even 100.0 is expected"),
        ({"epsilon": -1.0}, "epsilon=-1.0 must be"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        plan(LOGISTIC, **({"n_samples": 1000} | OF_TEN | changes))
    with pytest.raises(TypeError, match="of a pipeline pass the last"):
        plan(make_pipeline(LOGISTIC), n_samples=1000, **OF_TEN)


def test_an_estimator_keeps_its_parameters_and_nothing_warns():
    model = PrivateLogisticRegression(epsilon=3.0)
    before = model.get_params()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan(model, n_samples=1000, **OF_TEN)
    assert model.get_params() == before
    assert not hasattr(model, "coef_")


def test_the_display_has_a_curve_for_each_number_of_records():
    planned = plan(LOGISTIC, n_samples=[200, 500], epsilon=[3.0, 0.3], **OF_TEN)
    display = BudgetCurveDisplay.from_plan(planned, color="k")
    assert list(display.lines_) == [200, 500]
    np.testing.assert_array_equal(display.lines_[200].get_xdata(), [0.3, 3.0])
    assert display.ax_.get_ylabel() == "expected auc"
    again = planned.plot(ax=display.ax_)
    assert again.ax_ is display.ax_


@pytest.mark.parametrize("scale", [100.0, 2.0])  # few ties, and many
def test_ranks_are_those_of_scikit_learn(scale):
    rng = np.random.default_rng(0)
    positive = rng.random(500) < 0.3
    raw = np.round(scale * (rng.normal(size=500) + positive))
    assert auc_of(raw, positive) == pytest.approx(roc_auc_score(positive, raw), rel=1e-12)
    assert math.isnan(auc_of(raw, positive | True))
