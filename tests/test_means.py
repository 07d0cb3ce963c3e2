"""Predictions of mostly-zero and of skewed outcomes are means, by what their cells tell."""

import re

import numpy as np
import pytest

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLogisticRegression as Logistic,
    PrivatePoissonRegressor,
    PrivateRidge,
)
from skdpdyn.core.rules import strength_of
from skdpdyn.core.sealed import Noisy, opened
from skdpdyn.core.spending import Share, Spending
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import PrivacyUtilityWarning, UnsupportedMechanismError
from skdpdyn.inference import private_regression
from skdpdyn.inference.scored import ScoredRows
from skdpdyn.inference.scoring import least_limit
from skdpdyn.linear_model import Numbers
from skdpdyn.privacy import Budget
from skdpdyn.training.cells import N_OCTAVES, TargetCells
from skdpdyn.training.facts import TargetRange
from skdpdyn.training.line import SUMS_OF_SLOPE, sums_of_level

N = 50_000
BOUNDS = [(-1.0, 1.0)] * 4


def table(kind, seed=0):
    """Return rows and targets of which few have nearly all of the sum, and bounds of these."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N, 4))
    rate = 0.03 * np.exp(np.sin(3 * X[:, 0]) + 0.8 * (X[:, 1] > 0)) / 1.86
    if kind == "outcome":
        return X, (rng.random(N) < rate).astype(float), (0.0, 1.0)
    if kind == "costs":
        return X, np.where(rng.random(N) < rate, rng.gamma(2.0, 50.0, N), 0).clip(0, 500), (0, 500)
    return X, (10 * np.exp(X[:, 1]) * rng.exponential(1.0, N)).clip(0, 150), (0, 150)


@pytest.mark.parametrize("estimator", [PrivateRidge, PrivateGAMRegressor])
@pytest.mark.parametrize("kind", ["outcome", "costs", "skewed"])
def test_predictions_add_up_to_the_targets(estimator, kind):
    X, y, target_bounds = table(kind)
    for seed in range(2):
        model = estimator(
            epsilon=2, bounds=BOUNDS, target_bounds=target_bounds, random_state=seed
        ).fit(X, y)
        off = model.predict(X).mean() - y.mean()
        assert abs(off) < 0.02 * y.mean() + 3 * model.mean_std_
        assert model.mean_std_ < 0.1 * y.mean()
        told = f"sum of predictions +- {N * model.mean_std_:.3g}"
        assert told in model.privacy_report().to_text()


def test_a_rare_outcome_keeps_its_shape():
    X, y, target_bounds = table("outcome")
    rate = 0.03 * np.exp(np.sin(3 * X[:, 0]) + 0.8 * (X[:, 1] > 0)) / 1.86
    model = PrivateGAMRegressor(
        epsilon=2, bounds=BOUNDS, target_bounds=target_bounds, random_state=0
    ).fit(X, y)
    assert 1 - np.mean((model.predict(X) - rate) ** 2) / rate.var() > 0.75


@pytest.mark.parametrize("estimator", [PrivateRidge, PrivateGAMRegressor])
def test_robust_centres_are_those_of_hubers_loss_at_its_width(estimator):
    """Of skewed targets, and some that are wrong: .15 and more below means, within .02 here."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 4))
    y = 2 + X @ [1.0, -0.5, 0.3, 0.0] + rng.gamma(1.0, 1.0, 20_000)
    y[:400] += 30
    model = estimator(100, loss="huber", bounds=BOUNDS, target_bounds=(-50, 100), random_state=0)
    if estimator is PrivateGAMRegressor:  # the chance of products is .1
        model.set_params(interactions=None)
    width = model.fit(X, y).huber_width_
    Z = np.column_stack([X, np.ones(len(X))])
    plain = np.linalg.lstsq(Z, y, rcond=None)[0]
    least_squares = np.mean(Z @ plain)
    for _ in range(30):
        weights = np.minimum(1, width / np.maximum(np.abs(y - Z @ plain), 1e-9))[:, None]
        plain = np.linalg.solve((weights * Z).T @ Z, (weights * Z).T @ y)
    off = model.predict(X) - Z @ plain
    assert abs(off.mean()) < 0.02
    assert off.std() < 0.1
    assert np.mean(Z @ plain) < least_squares - 0.5
    report = model.privacy_report().to_text()
    assert f"by Huber's loss of width {width:.3g}" in report
    assert "sum of predictions" not in report
    np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X), atol=1e-12)
    with pytest.raises(UnsupportedMechanismError, match="no table is known"):
        private_regression(model, X, y, epsilon=1)


def test_a_mean_that_drowns_in_noise_warns():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (5000, 4))
    y = (rng.random(5000) < 0.005).astype(float)
    with pytest.warns(PrivacyUtilityWarning, match="mean of predictions may be off"):
        PrivateRidge(bounds=BOUNDS, target_bounds=(0, 1), random_state=0).fit(X, y)


def test_sums_of_slope_and_level_are_those_of_numpy_and_bounded():
    rng = np.random.default_rng(0)
    n = 4000
    y = rng.normal(0, 2, n) * rng.choice([1, 10], n)
    f = rng.normal(0.2, 1.5, n) * rng.choice([1, 10], n)
    low, high, base = -0.5, 3.0, 0.2
    out = np.empty((5, n))
    numbers = np.array([0, base, 0.4, low, high])[:, None] + np.zeros(n)
    numbers[0] = f
    SUMS_OF_SLOPE.residual(numbers, y, out)
    v = (f - base) * 0.4
    r = np.clip((np.clip(y, low, high) - np.clip(f, low, high)) / 3, -1, 1) * np.clip(v, -1, 1)
    q = np.minimum(np.abs(v), 1) * np.minimum(np.abs(v), 2) / 2
    np.testing.assert_allclose(out[:2], [r, q / 2 - 0.25], atol=1e-12)
    assert not np.any(out[2:])
    assert np.linalg.norm(out, axis=0).max() <= SUMS_OF_SLOPE.lipschitz
    for largest in (1.5, 0.0):
        loss = sums_of_level(largest)
        out = np.empty((8, n))
        factor = 0.6 if largest else 0.0
        numbers = np.array([0, base, factor, low, high, -1, 20, largest])[:, None] + np.zeros(n)
        numbers[0] = f
        loss.residual(numbers, y, out)
        cut = np.clip(f, -1, 20)
        t = (2 * np.clip(y, low, high) - low - high) / (high - low)
        both = t, np.clip((cut - base) * 0.6, -largest, largest)
        if not largest:
            both = np.clip((np.clip(y, low, high) - np.clip(cut, low, high)) / 3, -1, 1), 0 * y
        np.testing.assert_allclose(out[:2], both, atol=1e-12)
        assert not np.any(out[2:])
        assert np.linalg.norm(out, axis=0).max() <= loss.lipschitz * (1 + 1e-12)


def cells_of(y, epsilon=1e4):
    """Return cells of targets, nearly without noise."""
    spending = Spending.seeded(Budget(epsilon, 1e-6), {"cells": Share(1.0)}, 0)
    return TargetCells.bought("cells", LocalRows(np.zeros((len(y), 1)), y), 0.0, spending)


def test_cells_are_octaves_that_end_at_powers_of_two():
    y = np.repeat([0.0, 2.0**-12, 2.0**-11, -(2.0**-11), 0.5, 0.50001, -1.0, 2.0, -2.0], 1000)
    above, below = np.round(cells_of(y).counts, -2)
    assert above[[0, 1, -3, -2, -1]].tolist() == [2000, 1000, 1000, 1000, 1000]
    assert below[[1, -2, -1]].tolist() == [1000, 1000, 1000]
    assert above.sum() + below.sum() == len(y)
    assert above.size == N_OCTAVES


def test_quantile_and_limit_are_those_of_the_distances():
    rng = np.random.default_rng(0)
    y = np.clip(rng.normal(0, 0.1, 100_000), -1, 1)
    assert 0.196 < cells_of(y).distance_of(0.95) < 0.23  # an octave's targets are not spread evenly
    assert cells_of(rng.uniform(-1, 1, 100_000)).distance_of(0.95) == pytest.approx(0.95, abs=0.01)
    rare = np.where(rng.random(100_000) < 0.03, 1.0, -0.03)
    assert cells_of(rare).limit(1e4, 9.0) == 1.0
    assert cells_of(rare).limit(10, 9.0) < 0.1  # the noise is more than what lies beyond


def bounds_of(y, epsilon, seed):
    """Return the bounds that are bought of targets."""
    fact = TargetRange(Numbers())
    budget = Budget.for_samples(epsilon, "auto", n_samples=len(y), adjacency="replace_one")
    strength = strength_of(len(y), budget.mu, budget.adjacency)
    spending = Spending.seeded(budget, fact.shares(strength), seed)
    return fact.range_of(LocalRows(np.zeros((len(y), 1)), y), spending)


def test_bounds_of_mostly_zero_targets_hold_the_others():
    rng = np.random.default_rng(0)
    costs = np.where(rng.random(10_000) < 0.04, rng.gamma(2.0, 100.0, 10_000), 0.0)
    outcome = (rng.random(10_000) < 0.03).astype(float)
    for seed in range(6):
        low, high = bounds_of(costs, 2, seed)
        assert low == 0
        assert np.maximum(costs - high, 0).sum() < 0.2 * costs.sum()
        assert bounds_of(outcome, 1, seed) in ((0, 1), (0, 2))


def test_bounds_of_targets_that_seem_to_be_0_alone_warn():
    y = np.where(np.arange(10_000) < 10, 300.0, 0.0)
    with pytest.warns(PrivacyUtilityWarning, match="no target but 0"):
        assert bounds_of(y, 1, 0) == (-1, 1)


@pytest.mark.parametrize("kind", ["outcome", "costs", "skewed"])
def test_a_table_is_one_of_means(kind):
    """Slopes are those of least squares without privacy, within their errors."""
    X, y, target_bounds = table(kind)
    plain = np.linalg.lstsq(np.column_stack([X, np.ones(N)]), y, rcond=None)[0]
    off = []
    for seed in range(6):
        _, found = private_regression(
            PrivateRidge(),
            X,
            y,
            epsilon=2,
            bounds=BOUNDS,
            target_bounds=target_bounds,
            robust=True,
            random_state=seed,
        )
        off.append((found.params - plain) / found.bse)
    off = np.array(off)
    assert np.abs(off).max() < 4
    assert np.all(np.abs(off.mean(axis=0)) < 1.5)


def test_a_direction_of_few_rows_does_not_lead_limits_astray():
    """Errors of other slopes are 1.8 over the root of n in the median, and were 7.5."""
    rng = np.random.default_rng(0)
    n = 20_000
    X = np.column_stack([rng.random(n) < 0.01, rng.normal(size=(n, 4)).clip(-4, 4)])
    truth = [0.5, 0.3, 0.0, 0.0, 0.2, 1.0]
    y = X @ truth[:5] + 1 + rng.normal(size=n)
    off = []
    errors = []
    for seed in range(8):
        _, found = private_regression(
            PrivateRidge(),
            X,
            y,
            epsilon=1,
            bounds=[(0, 1)] + [(-4, 4)] * 4,
            target_bounds=(-6, 8),
            random_state=seed,
        )
        off.append((found.params - truth) / found.bse)
        errors.append(found.bse[1:5])
    assert np.nanmax(np.abs(off)) < 4.5
    assert np.median(errors) * np.sqrt(n) < 2.1


def test_limits_follow_a_tail_through_cells_that_noise_hides():
    edges = 0.02 * 2.0 ** (np.arange(15) / 2)

    def limit(counts):
        counts = 34.0 * np.array(counts + [0.0] * (14 - len(counts)))
        return least_limit(edges, Noisy(counts, 34.0), 30_000.0, 34.0) / edges[0]

    assert limit([2.3, 1.1, 3.7, 6.2, 5.8, 5.8, 5.0, 3.8, 1.7]) > 10
    assert limit([2.3, 1.1, 3.7, 6.2, 5.8]) < 6
    assert limit([1.4, 3.0, 0.5, 3.9]) == 1  # none that stands out


def test_a_table_says_how_much_weight_is_lost(monkeypatch):
    sums = []
    plain = ScoredRows.lost

    def lost(self, weights):
        sealed = plain(self, weights)
        sums.append(float(opened(sealed)) / len(y))
        return sealed

    monkeypatch.setattr(ScoredRows, "lost", lost)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_t(2, 20_000).clip(-40, 40), rng.random(20_000) < 0.05])
    y = rng.random(20_000) < 0.3 + 0.1 * X[:, 1]
    for model, target in ((PrivateRidge(target_bounds=(0, 1)), 1.0 * y), (Logistic(), y)):
        _, found = private_regression(
            model, X, target, epsilon=4, bounds=[(-40, 40), (0, 1)], random_state=0
        )
        said = re.search(r"remove about ([\d.]+) % of the total weight", found.estimand)
        assert sums[-1] > 0.01
        assert float(said[1]) == pytest.approx(100 * sums[-1], abs=0.9)  # four deviations


def test_ranges_that_a_table_buys_have_room_and_its_schema_says_so():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.exp(rng.normal(size=20_000)), rng.uniform(90, 110, 20_000)])
    y = 1 + 0.5 * X[:, 0] + rng.normal(size=20_000)
    model, found = private_regression(PrivateRidge(), X, y, epsilon=2, random_state=0)
    (low, high), around = (model.schema_.bounds[j] for j in range(2))
    assert low == 0
    assert high >= X[:, 0].max()
    assert around[0] < 50
    assert around[1] > 150
    again, _ = private_regression(
        PrivateRidge(), X, y, epsilon=2, schema=model.schema_, random_state=0
    )
    assert dict(again.schema_.bounds) == dict(model.schema_.bounds)  # nothing is widened twice
    assert abs(found.params[0] - 0.5) < 4 * found.bse[0]


def test_a_table_of_counts_is_maximum_likelihood_at_a_huge_budget():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=20_000).clip(-4, 4), rng.random(20_000) < 0.02])
    y = rng.poisson(np.exp(-0.2 + X @ [0.8, 0.6]))
    Z = np.column_stack([X, np.ones(len(X))])
    plain = np.zeros(3)
    for _ in range(30):
        mean = np.exp(Z @ plain)
        bend = (Z.T * mean) @ Z
        plain += np.linalg.solve(bend, Z.T @ (y - mean))
    _, found = private_regression(
        PrivatePoissonRegressor(),
        X,
        y,
        epsilon=1e6,
        delta=1e-8,
        bounds=[(-4, 4), (0, 1)],
        target_bounds=(0, 60),
        random_state=0,
    )
    errors = np.sqrt(np.diag(np.linalg.inv(bend)))
    assert np.abs(found.params - plain).max() < 0.05 * errors.min()
    np.testing.assert_allclose(found.bse / errors, 1, atol=0.01)


def test_the_importance_of_a_column_without_effect_is_not_that_of_noise():
    """In the mean of 16 seeded fits: .11, where contributions, which are all noise, are .26."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = rng.random(2000) < 0.5
    importances = []
    contributions = []
    for seed in range(16):
        model = PrivateGAMClassifier(
            epsilon=1.0, bounds=(-4, 4), classes=[False, True], random_state=seed
        ).fit(X, y)
        importances.append(model.term_importances_["x0"])
        contributions.append(np.abs(model.explain(X)).mean(axis=0)[1])
    assert np.mean(contributions) > 0.1
    assert np.mean(importances) < np.mean(contributions) / 2
