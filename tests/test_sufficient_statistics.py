"""One noisy sum of products: what it is, how far one record moves it, and what it learns."""

import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.core import rules
from skdpdyn.core.losses import squared
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import Noisy, opened
from skdpdyn.data import base
from skdpdyn.data.local import LocalRows
from skdpdyn.privacy import Adjacency, Gaussian
from skdpdyn.solvers import SufficientStatistics, sufficient_statistics


def data(n_samples=50, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n_samples, n_features))
    return X, X[:, 0] - 0.5 * X[:, 1]


def problem(X, **changes):
    return Objective(squared, *X.shape, **{"data_norm": 1.0, "intercept_scaling": 0.5, **changes})


def released(objective, rows, adjacency="replace_one"):
    """Return the sum that is released, and the noise of its diagonal, at multiplier 1."""
    seen = []

    def listen(products, release):
        seen.append((opened(products), products.sensitivity(adjacency)))
        return Noisy(*seen[-1])

    with patch.object(sufficient_statistics, "symmetric", listen):
        record = Gaussian(1.0, adjacency=adjacency)
        SufficientStatistics().solve(objective, record, rows, generator=None)
    return seen[0]


def vectors(X, y, objective):
    """Return the vectors whose outer products are summed, as numpy computes them."""
    scaled = X / np.maximum(objective.data_norm, np.linalg.norm(X, axis=1))[:, None]
    constant = np.full(len(X), objective.intercept_scaling / objective.data_norm)
    return np.column_stack([scaled, constant, rules.TARGET_FACTOR * np.clip(y, -1, 1)])


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_sum_is_of_products_of_rows_constants_and_targets(layout, dtype, monkeypatch):
    monkeypatch.setattr(base, "moment_chunk", lambda *public: 16)  # chunks of few rows
    X, y = data()
    X = (9 * X).astype(dtype)
    objective = problem(X, data_norm=3.0)
    found, _ = released(objective, LocalRows(layout(X), 2 * y))
    rows = vectors(X.astype(float), 2 * y, objective)
    np.testing.assert_allclose(found, rows.T @ rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("data_norm", [0.01, 1.0, 100.0])
def test_the_sensitivity_is_a_supremum(adjacency, data_norm):
    """One record moves the sum by at most the noise at a multiplier of 1, and somewhere by 0.9."""
    rng = np.random.default_rng(0)
    moved = []
    for _ in range(300):
        X = rng.standard_normal((6, 3)) * data_norm * 10
        y = rng.choice([-1.0, 1.0], 6)
        other = X.copy()
        other[0] = rng.standard_normal(3) * data_norm * 10
        of_other = y.copy()
        of_other[0] = -y[0]
        objective = problem(X, data_norm=data_norm, intercept_scaling=0.1 * data_norm)
        (first, std) = released(objective, LocalRows(X, y), adjacency)
        if adjacency is Adjacency.ADD_REMOVE:
            other, of_other = X[1:], y[1:]
            objective = replace(objective, n_samples=5)
        (second, _) = released(objective, LocalRows(other, of_other), adjacency)
        moved.append(np.linalg.norm(first - second) / std)
    assert 0.9 <= max(moved) <= 1


def test_rounding_is_part_of_the_sensitivity():
    """Sums next to a power of two, where what is added is rounded."""
    excess = 0.0
    for large in (1024, 2047, 2048, 3000):
        for part in (0.51, 0.75, 0.99):
            lost = part * np.spacing(2.0 ** math.floor(math.log2(large)))
            X = np.full((4096, 1), math.sqrt(lost))
            X[:large] = 1.0
            other = X.copy()
            other[0] = 0.0
            objective = problem(X, intercept_scaling=0.0)
            pairs = [(LocalRows(rows, np.zeros(4096)), "add_remove") for rows in (X, other)]
            (one, std), (two, _) = (released(objective, *pair) for pair in pairs)
            excess = max(excess, abs(float(one[0, 0] - two[0, 0])) - 1)
    rounding = std / (1 + rules.TARGET_FACTOR**2) - 1
    assert excess <= rounding
    assert 1e-12 < rounding < 1e-8
    model = PrivateRidge(target_bounds=(0, 1), solver="sufficient_statistics")
    assert model.privacy_cost(10**6, 100).mu > 0
    with pytest.raises(ValueError, match="n_samples=1000000000000: sums in float64 cannot tell"):
        model.privacy_cost(10**12, 100)


def test_it_learns_the_mean_of_a_long_tail():
    """Huber's loss learns less; noise on the mean is 0.005."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 2))
    y = np.minimum(rng.exponential(size=20_000), 20.0)
    named = PrivateRidge(3.0, 1e-6, target_bounds=(0, 20), solver="sufficient_statistics")
    named = named.set_params(random_state=0).fit(X, y)
    assert named.mechanism_ == Gaussian(named.noise_multiplier_)
    assert named.conditioning_ is None
    assert abs(named.predict(X).mean() - y.mean()) < 0.1


def test_refusals():
    X, y = data()
    with pytest.raises(ValueError, match="learns quadratic losses only, not the logistic loss"):
        PrivateLogisticRegression(classes=[0, 1], solver="sufficient_statistics").fit(X, y > 0)
    with pytest.raises(ValueError, match=r"n_features=30000: .* of more than 20000 columns"):
        PrivateRidge(target_bounds=(-1, 1), solver="sufficient_statistics").privacy_cost(10, 30_000)
    wide = PrivateRidge(target_bounds=(-1, 1), solver="sufficient_statistics")
    with pytest.raises(ValueError, match="each larger than X of n_samples=5900"):
        wide.privacy_cost(5900, 6000)
    assert wide.privacy_cost(6001, 6000).mu > 0  # as many rows as columns


def test_ridge_of_many_records_is_solved_at_once():
    """Noise moves coefficients by 3 %, 20 % are allowed: it fails once in 1e9 runs."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 3)) @ [[1, 0, 0], [0.5, 0.2, 0], [0, 0, 0.1]]
    y = X @ [0.5, -0.4, 3.0] + 0.2 + rng.normal(scale=0.1, size=len(X))

    def fitted(X=X, y=y, **changes):
        model = PrivateRidge(epsilon=8.0, target_bounds=(-2, 2), random_state=0)
        return model.set_params(**changes).fit(X, y)

    many = fitted()
    assert many.solver_ == "sufficient_statistics"
    assert not hasattr(many, "n_iter_")
    assert many.mechanism_["training"].noise_multiplier == many.noise_multiplier_
    assert many.privacy_.epsilon(many.delta_) == pytest.approx(8.0, rel=1e-6)
    np.testing.assert_allclose(many.coef_, [0.5, -0.4, 3.0], rtol=0.2)
    assert abs(many.intercept_ - 0.2) < 0.02
    others = [{"solver": "noisy_gd"}, {"clip": 1.0}, {"conditioning": many.conditioning_}]
    others += [{"X": X[:400], "y": y[:400]}, {"X": sparse.csr_array(X)}, {"start": many}]
    assert {fitted(**other).solver_ for other in others} == {"noisy_gd"}
