"""PrivateScaler: what it releases, what that costs, and what the next step gets."""

import math

import mpmath
import numpy as np
import pytest
from sklearn.base import clone

from skdpdyn.exceptions import CalibrationError, PrivacyLeakWarning
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import Budget, GaussianDP, composition
from skdpdyn.privacy.guarantees import gdp_mu

ADJACENCIES = ["replace_one", "add_remove"]
ROWS = np.random.default_rng(0).normal([0.5, 0.0, -0.2, 0.1], 0.3, (200, 4))


# --- noise ----------------------------------------------------------------------------------------


def test_a_seed_repeats_the_noise_and_says_so():
    scaler = PrivateScaler(random_state=3)
    with pytest.warns(PrivacyLeakWarning, match="random_state=3"):
        first = scaler.fit(ROWS).ranges_
    with pytest.warns(PrivacyLeakWarning):
        np.testing.assert_array_equal(clone(scaler).fit(ROWS).ranges_, first)
    assert scaler.leaks_ == ("random_state=3 lets anyone recompute the noise",)
    assert "random_state=3" in scaler.privacy_report().to_text()
    assert PrivateScaler().fit(ROWS).leaks_ == ()
    with pytest.raises(TypeError, match="is refused: clones"):
        PrivateScaler(random_state=np.random.default_rng()).fit(ROWS)


# --- budget ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [(1,), (0.1, 0.9), (1, 1, 1)])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-9), (8.0, 1e-5), (50.0, 1e-12)]
)
def test_no_part_of_a_budget_exceeds_its_share_by_rounding(epsilon, delta, shares):
    """In 50 digits: at its epsilon, a part's share of mu has its delta."""
    parts = Budget(epsilon, delta).split(shares)
    whole = math.hypot(*(part.mu for part in parts))
    assert epsilon * (1 - 1e-5) < GaussianDP(whole).epsilon(delta) <= epsilon
    for budget, share in zip(parts, shares, strict=True):
        part = budget.epsilon
        assert budget.mu == pytest.approx(whole * math.sqrt(share / sum(shares)), rel=1e-5)
        with mpmath.workdps(50):
            root = mpmath.sqrt(mpmath.mpf(share) / mpmath.fsum(shares))
            mu = mpmath.mpf(gdp_mu(epsilon, delta)) * root
            above = mu / 2 - part / mu
            below = -mu / 2 - part / mu
            assert mpmath.ncdf(above) - mpmath.exp(part) * mpmath.ncdf(below) >= delta


def test_senseless_shares():
    numbers = (), (0.0, 1.0), (-1.0,), (math.inf, 1.0), (math.nan,), (1e308, 1e308)
    for shares in (*numbers, (True, 1), ("1", 2), ([1, 2],)):
        with pytest.raises(ValueError, match="must be finite numbers > 0, one for each part"):
            Budget(1.0, 1e-6).split(shares)
    for shares in (2, "19"):
        with pytest.raises(ValueError, match=f"shares={shares!r} must be a sequence"):
            Budget(1.0, 1e-6).split(shares)
    with pytest.raises(ValueError, match="epsilon=0"):
        Budget(0.0, 1e-6).split((1, 1))
    with pytest.raises(CalibrationError, match=r"a part this small has epsilon=0 at delta=0\.1"):
        Budget(1.0, 0.1).split((1e-6, 1))


# --- ranges of columns ----------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [0.1, 30.0])
def test_ranges_are_paid_for_by_all_of_the_budget(epsilon, adjacency):
    scaler = PrivateScaler(epsilon=epsilon, adjacency=adjacency).fit(ROWS)
    assert epsilon * (1 - 1e-6) < scaler.epsilon_ <= epsilon
    assert scaler.privacy_ == composition(scaler.mechanism_) == scaler.privacy_cost(200, 4)
    assert scaler.privacy_report().as_dict()["spent"]["epsilon"] == scaler.epsilon_


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ranges_are_those_that_an_estimator_buys(dtype):
    """Values beyond count as the end, and the precision of X stays."""
    tail = np.random.default_rng(7).lognormal(3, 1, 4000)
    X = np.column_stack([tail, tail * (-1) ** np.arange(4000), 5000 + tail]).astype(dtype)
    scaler = PrivateScaler(epsilon=10.0).fit(X)
    low, high = scaler.ranges_.T
    assert low[0] == 0 < low[2]
    assert np.all(np.mean((low <= X) & (high >= X), axis=0) > 0.95)
    scaled = scaler.transform(X)
    assert scaled.dtype == dtype
    expected = 2 * (np.clip(X.astype(float), low, high) - low) / (high - low) - 1
    np.testing.assert_allclose(scaled, expected, atol=256 * np.finfo(dtype).eps)


# --- absurd input ---------------------------------------------------------------------------------


def test_senseless_data():
    fitted = PrivateScaler().fit(ROWS)
    bare = PrivateScaler()
    before = dict(vars(fitted))
    for call, given, message in (
        (fitted.fit, ([[math.nan, 0.0], [0.0, 0.0]],), "NaN"),
        (fitted.transform, ([[math.inf, 0.0, 0.0, 0.0]],), "infinity"),
        (fitted.fit, (ROWS[:1],), r"n_samples=1: delta='auto' is 1/n\^2 = 1"),
        (bare.privacy_cost, (0, 1), "n_samples=0 must be an integer >= 1"),
        (bare.privacy_cost, (10**12, 1), "float64 cannot tell one record among so many"),
        (PrivateScaler(adjacency="edge").fit, (ROWS,), "adjacency='edge' must be 'replace_one'"),
        (PrivateScaler(epsilon=0.0).fit, (ROWS,), "epsilon=0.0 must be a finite number > 0"),
        (PrivateScaler(delta=0.0).privacy_cost, (200, 4), r"delta=0(|.0) must be in \(0, 1\)"),
        (bare.transform, (ROWS,), "not fitted yet"),
        (bare.privacy_report, (), "not fitted yet"),
    ):
        with pytest.raises(ValueError, match=message):
            call(*given)
    assert vars(fitted) == before
