"""Quantile regression: the part below predictions, the score, and what it lacks."""

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import d2_pinball_score, mean_pinball_loss, mean_squared_error
from spending import Recorder

from skdpdyn import PrivateGAMRegressor, PrivateQuantileRegressor, PrivateRidge
from skdpdyn.core import noise, rules
from skdpdyn.core.losses import PINBALL_WIDTH, pinball, pinballs
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import opened
from skdpdyn.data.local import LocalRows
from skdpdyn.evaluation import evaluate
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.inference import private_regression
from skdpdyn.inspection import PrivacyDynamicsDisplay
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.solvers.steps import Steps, descend
from skdpdyn.training.residuals import likely_shift

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (20_000, 3)) / np.sqrt(3)
Y = X @ [1.0, -2.0, 0.5] + RNG.gamma(2.0, 0.5, 20_000)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_part_below_is_the_quantile(quantile):
    """Within 1.5 points, 15 deviations of the noise on counts, and near scikit-learn."""
    model = PrivateQuantileRegressor(10.0, quantile=quantile, target_bounds=(-3, 7)).fit(X, Y)
    assert np.mean(model.predict(X) >= Y) == pytest.approx(quantile, abs=0.015)
    public = QuantileRegressor(quantile=quantile, alpha=0).fit(X[:2000], Y[:2000])
    score = d2_pinball_score(Y, public.predict(X), alpha=quantile)
    assert model.score(X, Y) == pytest.approx(score, abs=0.04)


@pytest.mark.parametrize("quantile", [0.02, 0.3, 0.9])
@pytest.mark.parametrize(("law", "left"), [("normal", 0.001), ("skewed", 0.008)])
def test_counts_find_the_shift(quantile, law, left):
    """Six exact counts, each where the ones before it say, leave a little of one fifth."""
    draws = np.random.default_rng(1).normal(size=20_000)
    residuals = 0.1 * (draws if law == "normal" else np.exp(draws))
    residuals += 0.2 - np.quantile(residuals, quantile)
    places = []
    parts = []
    shift = 0.0
    for _ in range(rules.COUNTS_OF_RESIDUALS):
        places.append(shift)
        parts.append(float(np.mean(residuals <= shift)))
        shift = likely_shift(places, parts, quantile, 1e-4)
    assert np.mean(residuals <= shift) == pytest.approx(quantile, abs=left)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_coefficients_are_those_without_privacy(quantile):
    """Within .02 of those of linear programming, where noise is nothing, and residuals skewed."""
    rows = X[:4000] * np.sqrt(3)
    found = PrivateQuantileRegressor(1e6, quantile=quantile, bounds=(-1, 1), target_bounds=(-3, 7))
    found.fit(rows, Y[:4000])
    public = QuantileRegressor(quantile=quantile, alpha=0).fit(rows, Y[:4000])
    np.testing.assert_allclose(found.coef_, public.coef_, atol=0.02)
    ran = found.mechanism_["training"]
    assert ran.n_steps == len(rules.kinks(1e9, 4))
    assert np.array(ran.units) * PINBALL_WIDTH == pytest.approx(rules.kinks(1e9, 4))
    drawn = PrivacyDynamicsDisplay.from_estimator(found, plot=False, n_points=3)
    assert drawn.steps[-1] == ran.n_steps


def test_steps_in_units_are_those_of_another_kink():
    """Targets and parameters over u have the loss of a kink that is u times as wide."""
    loss = pinball(0.8)
    objective = Objective(loss, len(Y), 3, data_norm=1.0, clip=10.0, intercept_scaling=1.0)
    rows = LocalRows(X, Y)
    theta = np.array([1.0, -1.5, 0.2, 1.0])
    for unit in (0.1, 4.0):
        width = unit * loss.kink
        away = X @ theta[:3] + theta[3] - Y
        slopes = np.clip((away + width) / (2 * width), 0, 1) - 0.8
        expected = np.column_stack([X, np.ones(len(X))]).T @ slopes
        quiet = Steps(np.ones(1), np.zeros(1), 1.0, units=np.array([unit]))
        moved = descend(objective, rows, quiet, np.random.default_rng(), start=theta)
        np.testing.assert_allclose(theta - moved, expected, rtol=1e-6)


@pytest.mark.parametrize("a_parameter", [59.0, 61.0, 1e3, 1e9])
def test_kinks_narrow_to_where_noise_is_as_large(a_parameter):
    kinks = np.array(rules.kinks(5 * a_parameter, 5))
    if a_parameter < 60:
        assert kinks.size == 0
        return
    assert kinks[0] == 0.5
    assert kinks[-1] == pytest.approx(max(1 / a_parameter, 0.003))
    assert np.all(np.diff(kinks) <= 0)
    assert kinks[:-6].min() / kinks[6:].min() <= 1.5


@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.8])
def test_the_loss_is_that_of_the_quantile(quantile):
    """Its slope is the pinball's beyond the kink, and the integral's smoothness is no larger."""
    loss = pinball(quantile)
    raw = np.linspace(-1, 1, 2001)
    out = np.empty(2001)
    loss.derivative(raw.copy(), np.zeros(2001), out)
    np.testing.assert_allclose(out[raw < -PINBALL_WIDTH], -quantile)
    np.testing.assert_allclose(out[raw > PINBALL_WIDTH], 1 - quantile)
    assert np.abs(out).max() == pytest.approx(loss.lipschitz)
    assert np.max(np.diff(out) / np.diff(raw)) == pytest.approx(loss.smoothness)
    # from 0 down to the least loss of a target at either bound
    falls = [-np.trapezoid(np.minimum(out, 0), raw), np.trapezoid(np.maximum(out, 0), raw)]
    assert max(falls) == pytest.approx(loss.at_zero, abs=1e-3)


SEVERAL = [0.9, 0.1, 0.5]


def test_several_quantiles_of_one_fit():
    """The parts below are right, in the order that was given, and none crosses another."""
    model = PrivateQuantileRegressor(10.0, quantile=SEVERAL, target_bounds=(-3, 7)).fit(X, Y)
    predicted = model.predict(X)
    assert predicted.shape == (len(X), 3)
    assert model.coef_.shape == (3, 3)
    assert model.intercept_.shape == (3,)
    np.testing.assert_allclose(np.mean(Y[:, None] <= predicted, axis=0), SEVERAL, atol=0.02)
    assert np.all(np.diff(predicted[:, [1, 2, 0]], axis=1) >= 0)
    score = [
        d2_pinball_score(Y, column, alpha=one)
        for one, column in zip(SEVERAL, predicted.T, strict=True)
    ]
    assert model.score(X.copy(), Y) == pytest.approx(np.mean(score))
    raw = X @ model.coef_.T + model.intercept_
    kept = np.mean(np.all(np.isclose(np.sort(raw, axis=1)[:, [2, 0, 1]], predicted), axis=1))
    assert kept > 0.5  # rows that are not shortened
    assert model.privacy_ == model.privacy_cost(*X.shape)


def test_predictions_that_would_cross_are_sorted():
    model = PrivateQuantileRegressor(quantile=SEVERAL, target_bounds=(-3, 7)).fit(X, Y)
    model.coef_ = np.zeros((3, 3))
    model.intercept_ = np.array([0.0, 2.0, 1.0])
    assert model.predict(X[:1]).tolist() == [[2.0, 0.0, 1.0]]


@pytest.mark.parametrize("quantiles", [(0.1, 0.5, 0.9), (0.9, 0.1), (0.2, 0.25, 0.3, 0.99)])
def test_the_joint_clip_is_the_largest_norm_in_order(quantiles):
    """No derivatives in order are longer, and some are as long; what would cross is clipped."""
    loss = pinballs(quantiles)
    n_outputs = len(quantiles)
    ranks = np.argsort(np.argsort(quantiles))
    raw = np.sort(np.random.default_rng(0).normal(0, 1, (n_outputs, 5000)), axis=0)
    out = np.empty(raw.shape)
    loss.derivative(raw[ranks].copy(), np.zeros(raw.shape[1]), out)
    norms = np.linalg.norm(out, axis=0)
    assert norms.max() == pytest.approx(loss.lipschitz, rel=1e-12)
    far = np.where(np.asarray(quantiles) > 0.5, -9.0, 9.0)  # as wrong as can be
    loss.derivative(far[:, None].copy(), np.zeros(1), alone := np.empty((n_outputs, 1)))
    assert np.linalg.norm(alone) > 1.02 * loss.lipschitz
    objective = Objective(loss, 1, 1, data_norm=1.0, clip=loss.lipschitz, exact=True)
    gradient = opened(LocalRows(np.ones((1, 1)), np.zeros(1)).gradient(objective, far))
    assert 0.99 * loss.lipschitz < np.linalg.norm(gradient) <= loss.lipschitz


def test_only_composition_holds_for_several_quantiles():
    objective = Objective(pinballs((0.1, 0.9)), 100, 2, data_norm=1.0, clip=5.0)
    assert not objective.contracts
    for bound in ("langevin", "last_iterate"):
        with pytest.raises(UnsupportedMechanismError):
            PrivateQuantileRegressor(quantile=SEVERAL, bound=bound, target_bounds=(-3, 7)).fit(X, Y)


def test_what_takes_one_quantile_refuses_several():
    model = PrivateQuantileRegressor(quantile=SEVERAL, target_bounds=(-3, 7)).fit(X, Y)
    with pytest.raises(NotImplementedError, match="predictions are sorted"):
        model.to_sklearn()
    with pytest.raises(ValueError, match="a model of several quantiles is not scored"):
        evaluate(model, X, Y, epsilon=1.0)
    one = PrivateQuantileRegressor(target_bounds=(-3, 7)).fit(X, Y)
    with pytest.raises(ValueError, match=r"exposure=... is for rates: a PrivateQuantileRegressor"):
        evaluate(one, X, Y, exposure=np.ones(len(Y)), epsilon=1.0)
    np.testing.assert_allclose(one.to_sklearn().predict(X), one.predict(X), atol=1e-12)


@pytest.mark.parametrize(
    "quantile", [0.0, 1.0, -0.5, np.nan, "half", [0.5], [], [0.1, 0.1], [0.1, 1.0]]
)
def test_what_is_no_quantile_is_refused(quantile):
    with pytest.raises(ValueError, match="quantile"):
        PrivateQuantileRegressor(quantile=quantile, target_bounds=(0, 1)).fit(X, Y)


def test_it_has_no_table():
    with pytest.raises(UnsupportedMechanismError, match="standard errors need a likelihood"):
        private_regression(PrivateQuantileRegressor(), X, Y, epsilon=1.0, bounds=(-1, 1))


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_quantile_of_an_atom_is_in_it(quantile):
    """Of targets of which 30 % are at a bound no prediction is beyond it."""
    y = np.where(np.random.default_rng(0).random(len(Y)) < 0.3, 0.0, np.exp(Y - 1))
    known = {"target_bounds": (0, 40), "random_state": 0}
    predicted = PrivateQuantileRegressor(1.0, quantile=quantile, **known).fit(X, y).predict(X)
    assert predicted.min() >= 0
    assert np.mean(y < predicted) - 0.03 <= quantile <= np.mean(y <= predicted) + 0.03


@pytest.mark.parametrize("quantile", [0.1, 0.8])
def test_curves_of_a_quantile(quantile):
    """The part below is the quantile, and curves say what a line cannot."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (20_000, 2))
    y = np.sin(3 * rows[:, 0]) + rows[:, 1] ** 2 + rng.normal(0, 0.2, len(rows))
    known = {"bounds": (-1, 1), "target_bounds": (-2, 3)}
    model = PrivateGAMRegressor(10.0, loss="quantile", quantile=quantile, **known).fit(rows, y)
    assert np.mean(y <= model.predict(rows)) == pytest.approx(quantile, abs=0.015)
    line = PrivateQuantileRegressor(10.0, quantile=quantile, **known).fit(rows, y)
    assert model.score(rows.copy(), y) > line.score(rows.copy(), y) + 0.1
    assert model.privacy_ == model.privacy_cost(*rows.shape)
    np.testing.assert_allclose(model.to_sklearn().predict(rows), model.predict(rows), atol=1e-9)


def test_a_quantile_without_its_loss_is_refused():
    with pytest.raises(ValueError, match="goes with loss='quantile'"):
        PrivateGAMRegressor(quantile=0.9, target_bounds=(0, 1)).fit(X, Y)
    with pytest.raises(ValueError, match="must be one number"):
        PrivateGAMRegressor(loss="quantile", quantile=SEVERAL, target_bounds=(0, 1)).fit(X, Y)


@pytest.mark.parametrize("scoring", [None, "neg_mean_pinball_loss", "neg_mean_squared_error"])
def test_a_search_scores_a_quantile_by_its_pinball_loss(scoring):
    """With next to no noise, as scikit-learn; squared errors are still to be had, by name."""
    model = PrivateQuantileRegressor(quantile=0.9, target_bounds=(-3, 7))
    options = {"epsilon": 1e4, "scoring": scoring, "holdout": np.arange(4000, 5000)}
    search = PrivateSearchCV(model, {"clip": [0.8]}, expected_trials=1, **options)
    search.fit(X[:5000], Y[:5000])
    predicted = search.predict(X[4000:5000])
    score = mean_pinball_loss(np.clip(Y[4000:5000], -3, 7), predicted, alpha=0.9)
    if scoring == "neg_mean_squared_error":
        score = mean_squared_error(np.clip(Y[4000:5000], -3, 7), predicted)
    assert search.best_score_ == pytest.approx(-score, abs=5e-3)
    assert search.privacy_ == search.privacy_cost(5000, 3)


def test_a_search_refuses_what_no_score_of_a_quantile_compares(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(noise, "release", recorder)
    one = PrivateQuantileRegressor(quantile=0.9, target_bounds=(-3, 7))
    several = PrivateQuantileRegressor(quantile=SEVERAL, target_bounds=(-3, 7))
    ridge = PrivateRidge(target_bounds=(-3, 7))
    for model, grid, scoring, message in (
        (several, {"clip": [0.8]}, None, "a model of several quantiles is not scored"),
        (one, {"quantile": [0.5, 0.9]}, None, "param_grid holds 'quantile'"),
        (ridge, {"clip": [0.8]}, "neg_mean_pinball_loss", "scoring='neg_mean_pinball_loss' must"),
    ):
        with pytest.raises(ValueError, match=message):
            PrivateSearchCV(model, grid, scoring=scoring).fit(X, Y)
    assert not recorder.calls
