"""Predictions of mostly-zero and of skewed outcomes are means, by what their cells tell."""

import numpy as np
import pytest

from skdpdyn import PrivateRidge
from skdpdyn.core.rules import strength_of
from skdpdyn.core.spending import Share, Spending
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import PrivacyUtilityWarning
from skdpdyn.linear_model import Numbers
from skdpdyn.privacy import Budget
from skdpdyn.training.cells import N_OCTAVES, TargetCells
from skdpdyn.training.facts import TargetRange

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


@pytest.mark.parametrize("kind", ["outcome", "costs", "skewed"])
def test_predictions_add_up_to_the_targets(kind):
    X, y, target_bounds = table(kind)
    for seed in range(3):
        model = PrivateRidge(
            epsilon=2, bounds=BOUNDS, target_bounds=target_bounds, random_state=seed
        ).fit(X, y)
        assert model.solver_ == "sufficient_statistics"
        assert 0.9 < model.predict(X).sum() / y.sum() < 1.1


def cells_of(y, epsilon=1e4):
    """Return cells of targets, nearly without noise."""
    spending = Spending.seeded(Budget(epsilon, 1e-6), {"cells": Share(1.0)}, 0)
    return TargetCells.bought("cells", LocalRows(np.zeros((len(y), 1)), y), spending)


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
    assert 0.196 < cells_of(y).quantile(0.95) < 0.23  # an octave's targets are not spread evenly
    assert cells_of(rng.uniform(-1, 1, 100_000)).quantile(0.95) == pytest.approx(0.95, abs=0.01)
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
