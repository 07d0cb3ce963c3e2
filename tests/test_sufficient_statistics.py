"""AdaSSP: what it releases, how far one record moves it, and that the noise is the declared one."""

import math

import numpy as np
import pytest
from scipy import sparse

from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.core.losses import squared
from skdpdyn.core.objective import Objective
from skdpdyn.data import base
from skdpdyn.data.local import LocalRows
from skdpdyn.privacy import Adjacency
from skdpdyn.solvers import SufficientStatistics, sufficient_statistics

ADJACENCIES = list(Adjacency)


def data(n_samples=50, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n_samples, n_features))
    return X, X[:, 0] - 0.5 * X[:, 1]


def problem(X, **changes):
    return Objective(squared, *X.shape, **{"data_norm": 1.0, "intercept_scaling": 0.5, **changes})


def with_column(X, constant):
    scaled = X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return np.column_stack([scaled, np.full(len(X), constant)])


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_statistics(layout, dtype, monkeypatch):
    monkeypatch.setattr(base, "moment_chunk", lambda *public: 16)  # chunks of few rows
    X, y = data()
    X = (3 * X).astype(dtype)
    gram, moment = SufficientStatistics()._statistics(problem(X), LocalRows(layout(X), 2 * y))
    rows = with_column(X.astype(float), 0.5)
    np.testing.assert_allclose(gram, rows.T @ rows, rtol=1e-6)
    np.testing.assert_allclose(moment, rows.T @ np.clip(2 * y, -1, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("data_norm", [0.01, 1.0, 100.0])
def test_sensitivities_are_suprema(adjacency, data_norm):
    """One record moves each statistic by at most its scale, and somewhere by 0.9 of it."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(300):
        X = rng.standard_normal((6, 3)) * data_norm * 10
        y = rng.choice([-1.0, 1.0], 6)
        X2 = X.copy()
        y2 = y.copy()
        X2[0] = rng.standard_normal(3) * data_norm * 10
        y2[0] = rng.choice([-1.0, 1.0])
        if rng.random() < 0.2:
            X2[0] = X[0]
            y2[0] = -y[0]
        if rng.random() < 0.2:  # one short row apart
            X[1:] *= 1e-6
            X2[1:] = X[1:]
        objective = problem(X, data_norm=data_norm, intercept_scaling=0.1 * data_norm)
        square = objective.row_norm**2
        solver = SufficientStatistics()
        first, second = (
            solver._statistics(objective, LocalRows(*pair)) for pair in ((X, y), (X2, y2))
        )
        if adjacency is Adjacency.ADD_REMOVE:
            fewer = problem(X[1:], data_norm=data_norm, intercept_scaling=0.1 * data_norm)
            second = solver._statistics(fewer, LocalRows(X[1:], y[1:]))
        more = 2 if adjacency is Adjacency.REPLACE_ONE else 1
        (gram, moment) = first
        (other_gram, other_moment) = second
        least, other_least = (np.linalg.eigvalsh(of)[0] for of in (gram, other_gram))
        moved = np.linalg.norm(moment - other_moment) / (objective.row_norm * more)
        turned = np.linalg.norm(gram - other_gram) / (square * math.sqrt(more))
        parts.append([abs(least - other_least) / square, turned, moved])
    largest = np.max(parts, axis=0)
    assert np.all(largest <= 1 + 1e-9)
    assert np.all(largest[1:] >= 0.9)


def test_rounding_is_part_of_the_sensitivities():
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
            of = (LocalRows(rows, np.ones(4096)) for rows in (X, other))
            one, two = (SufficientStatistics()._statistics(objective, rows)[0] for rows in of)
            excess = max(excess, abs(float(one[0, 0] - two[0, 0])) - 1)
    assert excess <= sufficient_statistics._rounding(objective) < 1e-8
    model = PrivateRidge(target_bounds=(0, 1), solver="sufficient_statistics")
    assert model.privacy_cost(10**6, 100).mu > 0
    with pytest.raises(ValueError, match="n_samples=1000000000000: sums in float64 cannot tell"):
        model.privacy_cost(10**12, 100)


def test_refusals():
    X, y = data()
    with pytest.raises(ValueError, match="learns quadratic losses only, not the logistic loss"):
        PrivateLogisticRegression(classes=[0, 1], solver="sufficient_statistics").fit(X, y > 0)
    with pytest.raises(ValueError, match=r"n_features=30000: .* of more than 20000 columns"):
        PrivateRidge(target_bounds=(-1, 1), solver="sufficient_statistics").privacy_cost(10, 30_000)


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
