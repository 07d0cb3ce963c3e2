"""PrivateScaler: what it releases, what that costs, and what the next step gets."""

import math
import tracemalloc

import mpmath
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

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


@pytest.mark.parametrize("shares", [(1,), (0.1, 0.9), (1, 4), (1e-3, 1, 1)])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-9), (8.0, 1e-5), (300.0, 1e-12)]
)
def test_parts_of_a_budget_cost_the_whole(epsilon, delta, shares):
    parts = Budget(epsilon, delta).split(shares)
    spent = [PrivateScaler(part.epsilon, delta).privacy_cost(1000, 3) for part in parts]
    whole = GaussianDP(math.hypot(*(guarantee.mu for guarantee in spent)))
    assert epsilon * (1 - 1e-5) < whole.epsilon(delta) <= epsilon
    for guarantee, share in zip(spent, shares, strict=True):
        assert guarantee.mu == pytest.approx(whole.mu * math.sqrt(share / sum(shares)), rel=1e-5)


@pytest.mark.parametrize("shares", [(1,), (0.1, 0.9), (1, 1, 1)])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-9), (8.0, 1e-5), (50.0, 1e-12)]
)
def test_no_part_of_a_budget_exceeds_its_share_by_rounding(epsilon, delta, shares):
    """In 50 digits: at its epsilon, a part's share of mu has its delta."""
    for budget, share in zip(Budget(epsilon, delta).split(shares), shares, strict=True):
        part = budget.epsilon
        with mpmath.workdps(50):
            mu = mpmath.mpf(gdp_mu(epsilon, delta)) * mpmath.sqrt(
                mpmath.mpf(share) / mpmath.fsum(shares)
            )
            above, below = mu / 2 - part / mu, -mu / 2 - part / mu
            assert mpmath.ncdf(above) - mpmath.exp(part) * mpmath.ncdf(below) >= delta


def test_senseless_shares():
    for shares in (
        (),
        (0.0, 1.0),
        (-1.0,),
        (math.inf, 1.0),
        (math.nan,),
        (True, 1),
        ("1", 2),
        (1e308, 1e308),
        ([1, 2],),
    ):
        with pytest.raises(ValueError, match="must be finite numbers > 0, one for each part"):
            Budget(1.0, 1e-6).split(shares)
    with pytest.raises(ValueError, match="shares=2 must be a sequence"):
        Budget(1.0, 1e-6).split(2)
    with pytest.raises(ValueError, match="shares='19' must be a sequence"):
        Budget(1.0, 1e-6).split("19")
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


def test_fit_makes_no_copy_of_the_rows():
    X = np.random.default_rng(5).normal(size=(60_000, 50)).astype(np.float32)
    tracemalloc.start()
    PrivateScaler().fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 2


# --- absurd input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0 must be a finite number > 0"),
        ({"epsilon": math.nan}, "epsilon=nan"),
        ({"delta": 0.0}, r"delta=0(|.0) must be in \(0, 1\)"),
        ({"delta": 1.0}, "delta=1.0"),
        ({"adjacency": "edge"}, "adjacency='edge' must be 'replace_one' or 'add_remove'"),
    ],
)
def test_senseless_parameters(parameters, message):
    scaler = PrivateScaler(**parameters)
    with pytest.raises(ValueError, match=message):
        scaler.fit(ROWS)
    with pytest.raises(ValueError, match=message):
        scaler.privacy_cost(200, 4)
    assert not hasattr(scaler, "ranges_")


def test_senseless_data():
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            PrivateScaler().fit([[bad, 0.0], [0.0, 0.0]])
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            PrivateScaler().fit(ROWS).transform([[bad, 0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"n_samples=1: delta='auto' is 1/n\^2 = 1"):
        PrivateScaler().fit(ROWS[:1])
    with pytest.raises(ValueError, match="n_samples=0 must be an integer >= 1"):
        PrivateScaler().privacy_cost(0, 1)
    with pytest.raises(ValueError, match="sums in float64 cannot tell one record among so many"):
        PrivateScaler().privacy_cost(10**12, 1)
    with pytest.raises(NotFittedError):
        PrivateScaler().transform(ROWS)
    with pytest.raises(NotFittedError):
        PrivateScaler().privacy_report()


def test_a_failed_fit_leaves_the_scaler_as_it_was():
    rng = np.random.default_rng(0)
    fitted = PrivateScaler(delta=1e-4).fit(rng.uniform(size=(50, 3)))
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match="adjacency='edge'"):
        fitted.set_params(adjacency="edge").fit(rng.uniform(size=(50, 5)))
    assert vars(fitted) == {**before, "adjacency": "edge"}
