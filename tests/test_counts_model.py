"""Poisson regression: what an exposure does, and what it cannot do."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numba import config
from problems import descend, descend_on_batches
from scipy import sparse
from sklearn import config_context
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

from skdpdyn import PrivateGAMRegressor, PrivatePoissonRegressor, PrivateRidge
from skdpdyn.core.losses import poisson
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import opened
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.kernels.draws import FixedBatches
from skdpdyn.model_selection import PrivateSearchCV, private_search
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.solvers import NoisyGD
from skdpdyn.solvers.minimise import minimise

LARGEST = 4.0
MAPS = [None, RowMap(np.full(3, 0.1), np.array([1.0, 0.5, 2.0]), 1.0, 2.0)]


def generator():
    return np.random.Generator(np.random.PCG64(0))


def simulated(n_samples, n_features=10, seed=0):
    """Rows, counts and exposures, of rates whose logarithms have a standard deviation of 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_samples, n_features))
    coef = np.linspace(-1, 1, n_features)
    exposure = rng.uniform(0.1, 1.0, n_samples)
    rate = 2 * np.exp(X @ (coef * math.sqrt(3) / np.linalg.norm(coef)) - 0.5)
    return X, rng.poisson(exposure * rate).astype(float), exposure


def problem(n_samples, clip=0.7, alpha=0.2):
    options = {"alpha": alpha, "clip": clip, "intercept_scaling": 0.5}
    return Objective(poisson(LARGEST), n_samples, 3, 1.0, **options)


def records(n_samples=90, layout=np.ascontiguousarray, row_map=None, weight=None):
    """Rows with exposures from tiny to huge, and mapped rows, counts and exposures."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n_samples, 3))
    counts = rng.uniform(0, LARGEST, n_samples)
    exposure = 10.0 ** rng.uniform(-3, 3, n_samples)
    rows = LocalRows(layout(X), counts / exposure, weight, row_map, exposure)
    if row_map is None:
        mapped = X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    else:
        scale, offset, _ = row_map.factors(X)
        mapped = scale[:, None] * X * row_map.weights
        mapped -= offset[:, None] * row_map.centre * row_map.weights
    return rows, mapped, counts, exposure


def gradients(objective, mapped, counts, exposure, theta):
    """Each record's gradient: its residual in counts clipped, by both bounds."""
    column = np.column_stack([mapped, np.full(len(mapped), objective.intercept_scaling)])
    limit = np.minimum(1, objective.clip / np.linalg.norm(column, axis=1))
    residual = exposure * np.exp(np.minimum(column @ theta, 600)) - counts
    return np.clip(residual, -limit, limit)[:, None] * column


@pytest.mark.parametrize(
    ("layout", "row_map"), [(np.asarray, MAPS[0]), (np.asarray, MAPS[1]), (sparse.csr_array, None)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_solver_learns_with_the_exposure_as_an_offset(layout, row_map, weighted):
    weight = np.random.default_rng(3).uniform(0, 1, 90) if weighted else None
    rows, *of_records = records(90, layout, row_map, weight)
    objective = problem(90)
    steps = np.array([0.3, 0.2, 0.1])
    share = (np.ones(90) if weight is None else weight)[:, None]

    def mean(theta, chosen=slice(None), divisor=90):
        each = gradients(objective, *(array[chosen] for array in of_records), theta) * share[chosen]
        return each.sum(axis=0) / divisor

    expected = np.zeros(4)
    theta = np.zeros(4)
    for step in steps:
        expected = expected - step * (mean(expected) + 0.2 * expected)
    descend(theta, objective, rows, steps, np.zeros(3), math.inf, generator(), 1)
    np.testing.assert_allclose(theta, expected, rtol=1e-9)

    expected = np.zeros(4)
    theta = np.zeros(4)
    for k, step in enumerate(steps):
        part = slice(30 * k, 30 * k + 30)
        expected = expected - step * (mean(expected, part, 30) + 0.2 * expected)
    batches = {"batches": FixedBatches(30), "divisor": 30.0, "radius": math.inf}
    steps_of = {"step_size": steps, "noise_std": np.zeros(3), "generator": generator()}
    descend_on_batches(theta, objective, rows, **batches, **steps_of)
    np.testing.assert_allclose(theta, expected, rtol=1e-9)

    theta = minimise(objective, rows, tolerance=1e-9)
    assert np.linalg.norm(mean(theta) + 0.2 * theta) < 1e-8
    if row_map is None:
        at = np.array([0.3, -0.2, 0.1, 0.4])
        np.testing.assert_allclose(opened(rows.gradient(objective, at)) / 90, mean(at), rtol=1e-9)


@pytest.mark.parametrize("exposure", [1e-100, 1e-3, 1.0, 1e5, 1e100])
@pytest.mark.parametrize("count", [0.0, LARGEST])
def test_no_exposure_takes_a_gradient_beyond_its_bound(exposure, count):
    """Nor makes it fall, or rise by more than the smoothness, along a line."""
    objective = replace(problem(1), exact=True)
    row = np.array([[0.6, 0.0, 0.8]])
    rows = LocalRows(row, np.array([count / exposure]), exposure=np.array([exposure]))
    direction = np.append(row[0], 0.5) / objective.row_norm
    start = -math.log(exposure) / objective.row_norm
    points = np.concatenate([start + np.linspace(-6, 6, 400), [-1e3, 0, 1e3, 1e100]])
    slopes = []
    for at in np.sort(points):
        gradient = opened(rows.gradient(objective, at * direction))
        assert np.linalg.norm(gradient) <= objective.lipschitz
        slopes.append(gradient @ direction)
    rises = np.diff(slopes)
    assert np.all(rises >= -1e-12)
    assert np.all(rises <= objective.curvature * np.diff(np.sort(points)) * (1 + 1e-6) + 1e-12)
    assert max(np.abs(slopes)) > 0.9 * objective.lipschitz


@pytest.mark.parametrize(("count", "exposure"), [(1e308, 1e-30), (1e290, 1e-30), (1e300, 5e-324)])
def test_no_count_and_exposure_decide_whether_a_fit_answers(count, exposure):
    """Of a count beyond the bounds the rate is kept by a smaller exposure, which stays a number."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 2))
    exposures = rng.uniform(0.5, 2.0, 1500)
    counts = rng.poisson(exposures).astype(float)
    counts[0] = count
    exposures[0] = exposure
    given = {"target_bounds": (0, 8), "random_state": 0}
    for model in (
        PrivatePoissonRegressor(**given),
        PrivatePoissonRegressor(conditioning=None, solver=NoisyGD(n_steps=5), **given),
        PrivateGAMRegressor(loss="poisson", bounds=(-1, 1), **given),
    ):
        for rows in (X, X.astype(np.float32)):
            assert np.isfinite(model.fit(rows, counts, exposure=exposures).coef_).all()


def test_bad_exposures_are_refused():
    X, y, exposure = simulated(60, 3)
    model = PrivatePoissonRegressor(target_bounds=(0, 9))
    bad = 0.0, -1.0, math.nan, math.inf, "many", None
    for wrong in (exposure[:-1], *(np.append(exposure[1:].astype(object), one) for one in bad)):
        with pytest.raises(ValueError, match=r"finite number > 0 for each row|must be numbers"):
            model.fit(X, y, exposure=wrong)
    assert not hasattr(model, "coef_")
    with pytest.raises(TypeError, match="PrivateRidge takes none"):
        searched(PrivateRidge(target_bounds=(0, 30))).fit(X, y, exposure=exposure)
    with pytest.raises(ValueError, match="one finite number > 0 for each row"):
        searched(model).fit(X, y, exposure=-exposure)


@pytest.mark.slow
def test_rare_totals_are_right_whatever_the_exposures():
    """400 claims: a search for the rate by signs of differences led far below it, 1 fit of 10."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (60_000, 3))
    years = rng.uniform(0.2, 1.0, 60_000)
    claims = rng.poisson(0.01 * years)
    for seed in range(15):
        model = PrivatePoissonRegressor(1.0, target_bounds=(0, 2), random_state=seed)
        model.fit(X, claims, exposure=years)
        assert 0.5 < model.predict(X, exposure=years).sum() / claims.sum() < 2


def test_the_score_is_that_of_rates_weighted_by_their_exposures():
    X, y, exposure = simulated(500, 3)
    model = PrivatePoissonRegressor(target_bounds=(0, 30), data_norm=2.0)
    model.fit(X, y, exposure=exposure)
    weight = np.arange(500.0)
    rates = model.predict(X)
    ones = np.ones(500)
    assert model.score(X, y, exposure=ones) == d2_tweedie_score(y, rates, power=1)
    expected = d2_tweedie_score(y / exposure, rates, sample_weight=weight * exposure, power=1)
    assert model.score(X, y, weight, exposure) == pytest.approx(expected, rel=1e-12)
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(exposure=True).set_score_request(exposure=True)
        folds = cross_validate(model, X, y, params={"exposure": exposure}, return_estimator=True)
    assert len(folds["test_score"]) == 5


def searched(estimator, prefix="", **changes):
    grid = {f"{prefix}data_norm": [1.0, 2.0]}
    options = {"epsilon": 30.0, "delta": 1e-6, "random_state": 0, **changes}
    return PrivateSearchCV(estimator, grid, **options)


def test_a_search_trains_and_scores_by_exposure(monkeypatch):
    """Each trial is given the exposures of its rows, and its score compares counts with counts."""
    n_samples = 400 if config.DISABLE_JIT else 4000
    X, y, exposure = simulated(n_samples, 3)
    seen = []
    run = private_search.run_trial

    def spy(estimator, score, X, y, X_held, y_held, given):
        outcome = run(estimator, score, X, y, X_held, y_held, given)
        of_rows, of_held = given
        counts = np.clip(outcome[0].predict(X_held) * of_held["exposure"], 0, 30)
        error = np.mean((counts - np.clip(y_held, 0, 30)) ** 2)
        seen.append((X, of_rows["exposure"], outcome[1], 1 - error / 30**2))
        return outcome

    monkeypatch.setattr(private_search, "run_trial", spy)
    model = PrivatePoissonRegressor(target_bounds=(0, 30))
    search = searched(model).fit(X, y, exposure=exposure)
    place = {row.tobytes(): number for number, row in enumerate(X)}
    for rows, given, score, expected in seen:
        np.testing.assert_array_equal(given, [exposure[place[row.tobytes()]] for row in rows])
        assert score == pytest.approx(expected, rel=1e-12)
    assert search.privacy_ == search.privacy_cost(n_samples, 3)
    assert search.score(X, y, exposure=exposure) > 0.3
    # a tenth of the exposure, ten times the rate
    tenth = searched(model).fit(X, y, exposure=exposure / 10)
    assert np.median(tenth.predict(X) / search.predict(X)) == pytest.approx(10, rel=0.5)


def test_exposure_reaches_a_search_in_every_way():
    X, y, exposure = simulated(100, 3)
    options = {"conditioning": None, "solver": NoisyGD(n_steps=3)}
    model = PrivatePoissonRegressor(target_bounds=(0, 30), **options)
    pipeline = make_pipeline(BoundsScaler((-1, 1)), model)
    persons = np.arange(100) // 2
    search = searched(pipeline, "privatepoissonregressor__")
    search.fit(X, y, groups=persons, exposure=exposure)
    assert search.privacy_unit_ == "person"
    with config_context(enable_metadata_routing=True):
        routed = searched(model).set_fit_request(exposure=True).set_score_request(exposure=True)
        folds = cross_validate(routed, X, y, cv=2, params={"exposure": exposure})
        whole = make_pipeline(BoundsScaler((-1, 1)), routed).fit(X, y, exposure=exposure)
        assert np.isfinite(whole.score(X, y, exposure=exposure))
    assert np.all(np.isfinite(folds["test_score"]))


def test_what_is_public_of_counts():
    X, y, _ = simulated(60, 3)
    with pytest.raises(ValueError, match=r"target_bounds: .* Pass \(0, high\)"):
        PrivatePoissonRegressor(target_bounds="from_y").privacy_cost(60, 3)
    with pytest.raises(ValueError, match="must not begin below 0"):
        PrivatePoissonRegressor(target_bounds=(-1, 9)).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="target_bounds=") as caught:
        model = PrivatePoissonRegressor().fit(X, -y)
    assert caught[0].filename == __file__
    assert model.target_bounds_ == (0.0, 1.0)
    capped = PrivatePoissonRegressor(target_bounds=(0, 3), random_state=0)
    same = [capped.fit(X, counts).coef_ for counts in (y, np.clip(y, 0, 3))]
    np.testing.assert_array_equal(*same)


@pytest.mark.parametrize("deviation", [2.0, 3.0])
def test_exposures_that_differ_by_orders_do_not_hide_the_rate(deviation):
    """Rates of the largest counts, beyond the bounds, are kept. Four seeds give .04 to .06 less D^2
    for curves at a deviation of 2, .10 to .17 at 3, .002 for linear ones, and totals within 1.6 %.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (20_000, 3))
    exposure = np.exp(rng.normal(0, deviation, len(X)))
    rates = 0.3 * np.exp(X[:, 0])
    counts = rng.poisson(exposure * rates)
    best = d2_tweedie_score(counts / exposure, rates, sample_weight=exposure, power=1)
    given = {"epsilon": 3.0, "bounds": (0, 1), "target_bounds": (0, 200), "random_state": 0}
    models = PrivatePoissonRegressor(**given), PrivateGAMRegressor(loss="poisson", **given)
    for model, lost in zip(models, (0.02, 0.1 if deviation < 3 else 0.25), strict=True):
        model.fit(X, counts, exposure=exposure)
        assert model.score(X, counts, exposure=exposure) > best - lost
        assert model.predict(X, exposure).sum() == pytest.approx(counts.sum(), rel=0.05)
