"""Conditioning: what is learnt is charged; fit and prediction have the same map."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import clone

from skdpdyn import PrivateLogisticRegression, PrivateRidge, PrivateSoftmaxRegression
from skdpdyn.core import rules
from skdpdyn.core.sealed import opened
from skdpdyn.data.local import LocalRows
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import CalibrationError, PrivacyUtilityWarning
from skdpdyn.privacy import Composition, NoisyGradientDescent, composition
from skdpdyn.training.conditioning import FittedConditioning, projection
from skdpdyn.training.slope import SUMS, posterior, posterior_of_classes, sums_of_classes

pytestmark = pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
ADJACENCIES = ["replace_one", "add_remove"]


def data(n_samples=3000, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features)) * 0.3 * 0.3 ** np.arange(n_features)
    X[:, 0] += 0.4
    return X, (X[:, 1] / 0.1 + X[:, -1] / X[:, -1].std() > 0).astype(int)


def models(**changes):
    return [
        PrivateLogisticRegression(classes=[0, 1], **changes),
        PrivateSoftmaxRegression(classes=[0, 1, 2], **changes),
        PrivateRidge(target_bounds=(-1.0, 2.0), **changes),
    ]


# --- what it spends -------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    "container", [np.asarray, pytest.param(sparse.csr_array, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("index", range(3))
def test_parts_compose_to_what_is_declared(index, container, adjacency):
    X, y = data()
    model = models(adjacency=adjacency)[index]
    fitted = clone(model).fit(container(X), y)
    assert fitted.privacy_cost(*X.shape) == fitted.privacy_ == model.privacy_cost(*X.shape)
    assert type(fitted.mechanism_) is Composition
    spent = composition(fitted.mechanism_).mu
    assert fitted.privacy_.mu * (1 - 1e-8) < spent <= fitted.privacy_.mu
    assert 1 - 1e-6 < fitted.epsilon_ <= 1
    assert fitted.privacy_report().as_dict()
    if index == 2 and container is np.asarray and adjacency == "add_remove":
        assert fitted.solver_ == "sufficient_statistics"  # records are enough there
        return
    last = fitted.mechanism_["training"]
    assert type(last) is NoisyGradientDescent
    assert last.smoothness is None  # so that no accountant takes a learnt curvature for a fact
    assert 16 <= fitted.n_iter_ <= 100
    assert fitted.solver_ == "noisy_gd"


def test_off_where_sums_cannot_tell_one_record():
    many = PrivateLogisticRegression(classes=[0, 1]).privacy_cost(10**10, 20)
    none = PrivateLogisticRegression(classes=[0, 1], conditioning=None)
    assert many == none.privacy_cost(10**10, 20)
    given = FittedConditioning(RowMap(None, np.ones(20), norm=1.0, radius=1.0))
    with pytest.raises(ValueError, match="n_samples=10000000000 are too many to sum"):
        none.set_params(conditioning=given).privacy_cost(10**10, 20)


def test_parts_that_leave_nothing_for_training_are_refused(monkeypatch):
    """Parts of extensions may ask for any share."""
    monkeypatch.setattr(rules, "MOMENTS_SHARE", 1.0)
    with pytest.raises(ValueError, match=r"leaves nothing of the budget .* add up to 1\."):
        PrivateLogisticRegression(classes=[0, 1]).privacy_cost(3000, 4)


def test_a_map_that_was_released_is_free():
    X, y = data()
    released = PrivateLogisticRegression(classes=[0, 1], bounds=None).fit(X, y).conditioning_
    model = PrivateLogisticRegression(classes=[0, 1], conditioning=released)
    fitted = model.fit(X, y)
    names = ("class counts", "curvature", "training", "mean residual", "slope of residuals")
    assert fitted.mechanism_.names == names
    assert fitted.privacy_.mu * (1 - 1e-8) < composition(fitted.mechanism_).mu <= fitted.privacy_.mu
    assert fitted.conditioning_.row_map is released.row_map
    assert fitted.score(X, y) > 0.85
    for message, changes in (
        ("fit_intercept=False", {"fit_intercept": False}),
        ("cannot train on mapped rows", {"solver": "objective_perturbation"}),
        ("must be 'auto', None, or", {"conditioning": 0.3}),
        ("must be 'auto', None, or", {"conditioning": released.row_map}),
    ):
        with pytest.raises(ValueError, match=message):
            clone(model).set_params(**changes).privacy_cost(*X.shape)
    with pytest.raises(ValueError, match="columns"):
        model.fit(X[:, :3], y)


# --- the map --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("index", range(3))
def test_coefficients_are_in_units_of_the_columns(index, dtype):
    X, y = data()
    X = X.astype(dtype)
    fitted = models(random_state=0, bounds=None)[index].fit(X, y)
    assert fitted.coef_.dtype == dtype
    learnt = fitted.conditioning_
    centred = X - learnt.mean
    weighted = centred * learnt.weights if learnt.weights.ndim == 1 else centred @ learnt.weights.T
    short = np.linalg.norm(weighted, axis=1) < 0.999 * learnt.norm
    inside = (np.linalg.norm(X, axis=1) < learnt.radius) & short
    assert 0.2 < inside.mean() < 0.95
    linear = (X @ np.atleast_2d(fitted.coef_).T + fitted.intercept_).squeeze()
    raw = fitted.predict(X) if index == 2 else fitted.decision_function(X)
    tolerance = 1e-9 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(raw[inside], linear[inside], rtol=tolerance, atol=tolerance)
    assert not np.allclose(raw[~inside], linear[~inside], rtol=1e-3, atol=1e-3)


DEGENERATE = {
    "constant": lambda X: X * [1, 0, 0, 0] + [0, 0.3, 0, 0],
    "zero": np.zeros_like,
    "one column": lambda X: X[:, :1],
    "alike": lambda X: np.tile(X[:1], (len(X), 1)),
    "duplicated": lambda X: np.repeat(X[::100], 100, axis=0),
    "short": lambda X: 1e-2 * X,
    "long": lambda X: 1e2 * X,
    "scales": lambda X: X * [1e-6, 1e-3, 1, 1e3],
    "wide": lambda X: np.tile(X[:300], 100),
    "empty": lambda X: sparse.csr_array(np.zeros_like(X)),
}


@pytest.mark.slow
@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_rows(kind, index):
    X, y = data()
    X = DEGENERATE[kind](X)
    y = y[: X.shape[0]]
    fitted = models(epsilon=3.0)[index].fit(X, y)
    assert np.all(np.isfinite(fitted.coef_))
    assert np.all(np.isfinite(fitted.predict(X)))


@pytest.mark.parametrize("index", range(3))
def test_many_rows_that_are_all_alike_have_no_direction(index):
    """As of columns whose bounds are in other units; seeds, so that noise shows none."""
    X = np.full((40_000, 2), 7.0)
    y = np.arange(40_000) % 4 == 0
    with pytest.warns(PrivacyUtilityWarning, match="tell nothing"):
        fitted = models(epsilon=3.0, bounds=(0, 1), random_state=0)[index].fit(X, y)
    np.testing.assert_array_equal(fitted.coef_, 0)
    means = fitted.predict(X) if index == 2 else fitted.predict_proba(X)[:, 1]
    np.testing.assert_allclose(means, 0.25, atol=0.01)


@pytest.mark.parametrize("epsilon", [1e24, 1e40])
def test_a_budget_so_large_that_sums_are_beyond_the_lattice(epsilon):
    """Sums would be cut off at 2^40 times their noise: coefficients of 8e15 in place of 1 and 2."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 2))
    model = PrivateRidge(epsilon=epsilon, delta=1e-6, target_bounds=(-2.0, 2.0))
    with pytest.raises(CalibrationError, match="no noise can be computed for so extreme a budget"):
        model.fit(X, X @ [1.0, 2.0])


def test_a_slope_is_the_posterior_mean_of_one_step():
    """The sums are those of numpy, and scores that are twice too steep are brought back."""
    rng = np.random.default_rng(0)
    raw = rng.normal(-1, 2.5, 400)
    base = -1.0
    y = (rng.random(400) < expit(raw / 2 - 0.5)).astype(float)
    out = np.empty((5, 400))
    given = np.zeros((5, 400))
    given[0] = raw
    given[1] = base
    SUMS.residual(given, y, out)
    p = expit(raw)
    u = np.clip(raw - base, -3, 3)
    w = p * (1 - p)
    np.testing.assert_allclose(out, [p - y, (p - y) * u, w, w * u, w * u**2], atol=1e-12)
    assert np.linalg.norm(out, axis=0).max() <= SUMS.lipschitz
    slope, shift = posterior(1e3 * out.sum(axis=1), 1.0)
    bend = np.array([[w.sum(), w @ u], [w @ u, w @ u**2]])
    expected = -np.linalg.solve(bend, out[:2].sum(axis=1))
    np.testing.assert_allclose([shift, slope], expected, rtol=1e-2)
    assert slope < -0.2
    assert posterior(out.sum(axis=1), 1e9) == pytest.approx((0, 0), abs=1e-6)


def test_a_slope_of_classes_is_the_posterior_mean_of_one_step():
    """The sums are those of numpy, and no scores, however far apart, make them longer."""
    rng = np.random.default_rng(0)
    n_classes = 4
    loss = sums_of_classes(n_classes)
    for spread in (1.0, 3.0, 6.0, 50.0):
        raw = rng.normal(0, spread, (n_classes, 4000))
        base = rng.normal(0, 1, (n_classes, 1))
        raw[:, ::3] = np.clip(raw[:, ::3], base - 6, base + 6)
        y = rng.integers(0, n_classes, 4000)
        out = np.empty((2 * n_classes, 4000))
        given = np.vstack([raw, np.broadcast_to(base, raw.shape)])
        loss.residual(given.copy(), y.astype(float), out)
        p = softmax(raw, axis=0)
        u = np.clip(raw - base, -6, 6)
        mean = np.sum(p * u, axis=0)
        both = mean - u[y, np.arange(4000)], (np.sum(p * u**2, axis=0) - mean**2) / 6
        np.testing.assert_allclose(out[:2], both, atol=1e-9)
        assert not np.any(out[2:])
        assert np.linalg.norm(out, axis=0).max() <= loss.lipschitz * (1 + 1e-12)
    sums = np.array([-30.0, 50.0])
    slope, shift = posterior_of_classes(sums, 2.0)
    assert slope == pytest.approx(30 * 300 / (300**2 + 4**2))
    assert shift == 0
    assert posterior_of_classes(-sums, 1.0)[0] == 0  # variances of noise alone


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_sketch_keeps_directions_of_one_sign(is_sparse):
    """As those of counts are, alike or ever rarer: signs of neighbours must not cancel."""
    for n_features in (200, 1000, 10_000, 100_000):
        for direction in (np.ones(n_features), 1 / np.sqrt(np.arange(1.0, n_features + 1))):
            sketch = projection(n_features, is_sparse).T @ direction
            # the deviation is the root of 2 / 64 at the most; signs are public and fixed
            assert 0.6 <= sketch @ sketch / (direction @ direction) <= 1.6


def test_a_sketch_tells_the_curvature_of_many_columns():
    """Columns in units and ranges of their own, of which one direction is steep."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 1200)) + 0.2 * rng.choice([-1.0, 1.0], (400, 1))
    scales = 10.0 ** rng.uniform(-2, 2, 1200)
    rows = LocalRows(X * scales + 3).with_ranges(Ranges(3 - 2 * scales, 3 + 2 * scales))
    rows = rows.with_map(RowMap(np.full(1200, 0.01), np.ones(1200), norm=12.0, radius=40.0))
    exact = opened(rows.second_moment(0.1))
    found = opened(rows.sketched_moment(projection(1200, is_sparse=False), 0.1))
    assert np.trace(found) == pytest.approx(np.trace(exact), rel=0.15)
    tops = [np.linalg.eigvalsh(moment)[-1] / 400 for moment in (exact, found)]
    assert tops[1] == pytest.approx(tops[0], abs=1 / 256 + 0.2 * tops[0])
