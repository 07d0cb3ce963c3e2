"""PrivateScaler: what it releases, what that costs, and what the next step gets."""

import math
import tracemalloc

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skdpdyn.core import spending
from skdpdyn.data.base import sum_rounding
from skdpdyn.exceptions import CalibrationError, PrivacyLeakWarning
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import GaussianDP, composition, split_budget
from skdpdyn.privacy.guarantees import gdp_mu
from skdpdyn.training import conditioning

ADJACENCIES = ["replace_one", "add_remove"]
ROWS = np.random.default_rng(0).normal([0.5, 0.0, -0.2, 0.1], 0.3, (200, 4))


class Planted:
    """A generator that draws what it is told to."""

    def __init__(self, mean=0.0, counts=0.0):
        self.mean, self.counts = mean, counts

    def standard_normal(self, size=None):
        return self.counts if size is None else np.full(size, self.mean)


@pytest.fixture
def inside(monkeypatch):
    """Fit with planted noise, and look inside: the noisy mean with its noise's deviation, and
    the exact counts.
    """

    def fit(scaler, X, noise=None):
        seen = {"counts": []}
        honest_shrinking, honest_count = conditioning.shrunk, np.count_nonzero
        honest_release = spending.release

        def release(point, scale, generator, **options):
            if not isinstance(generator, Planted):
                return honest_release(point, scale, generator, **options)
            size = np.size(point)
            return np.asarray(point) + scale * generator.standard_normal(size if size > 1 else None)

        def shrunk(mean, noise_std, radius):
            seen["mean"], seen["mean_std"] = mean, noise_std
            return honest_shrinking(mean, noise_std, radius)

        def count(array):
            seen["counts"].append(honest_count(array))
            return seen["counts"][-1]

        with monkeypatch.context() as patch:
            patch.setattr(conditioning, "shrunk", shrunk)
            patch.setattr(spending, "release", release)
            patch.setattr(np, "count_nonzero", count)
            if noise is not None:
                patch.setattr(spending, "generators", lambda *_, **__: [noise])
            scaler.fit(X)
        return seen

    return fit


# --- sensitivity ----------------------------------------------------------------------------------


def test_the_mean_leaves_room_for_the_rounding_of_two_sums(inside):
    """Its noise is for twice the radius, and what `sum_rounding` says."""
    scaler = PrivateScaler()
    std = inside(scaler, ROWS, Planted())["mean_std"]
    sensitivity = 200 * std / scaler.mechanism_["column means"].noise_multiplier
    assert sum_rounding(200, 4) > 1e-11
    assert sensitivity - 2 == pytest.approx(sum_rounding(200, 4), rel=1e-3)


# --- noise ----------------------------------------------------------------------------------------


def test_a_seed_repeats_the_noise_and_says_so():
    scaler = PrivateScaler(random_state=3)
    with pytest.warns(PrivacyLeakWarning, match="random_state=3"):
        first = scaler.fit(ROWS).mean_
    with pytest.warns(PrivacyLeakWarning):
        np.testing.assert_array_equal(clone(scaler).fit(ROWS).mean_, first)
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
    pairs = split_budget(epsilon, delta, shares)
    spent = [PrivateScaler(*pair).privacy_cost(1000, 3) for pair in pairs]
    whole = GaussianDP(math.hypot(*(guarantee.mu for guarantee in spent)))
    assert epsilon * (1 - 1e-5) < whole.epsilon(delta) <= epsilon
    for guarantee, share in zip(spent, shares, strict=True):
        assert guarantee.mu == pytest.approx(whole.mu * math.sqrt(share / sum(shares)), rel=1e-5)


@pytest.mark.parametrize("shares", [(1,), (0.1, 0.9), (1, 1, 1)])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-9), (8.0, 1e-5), (50.0, 1e-12)]
)
def test_no_part_of_a_budget_exceeds_its_share_by_rounding(epsilon, delta, shares):
    """In 50 digits: a Gaussian mechanism of a part's share of mu has at least that part's delta
    at its epsilon.
    """
    for (part, _), share in zip(split_budget(epsilon, delta, shares), shares, strict=True):
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
            split_budget(1.0, 1e-6, shares)
    with pytest.raises(ValueError, match="shares=2 must be a sequence"):
        split_budget(1.0, 1e-6, 2)
    with pytest.raises(ValueError, match="shares='19' must be a sequence"):
        split_budget(1.0, 1e-6, "19")
    with pytest.raises(ValueError, match="epsilon=0"):
        split_budget(0.0, 1e-6, (1, 1))
    with pytest.raises(CalibrationError, match=r"a part this small has epsilon=0 at delta=0\.1"):
        split_budget(1.0, 0.1, (1e-6, 1))


# --- ranges of columns ----------------------------------------------------------------------------


def ranged(**parameters):
    return PrivateScaler(bounds="private", **{"crude_bounds": (-100, 100), **parameters})


@pytest.mark.parametrize("equalize", [False, True])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [0.1, 30.0])
def test_ranges_are_paid_for(epsilon, adjacency, equalize):
    scaler = ranged(epsilon=epsilon, adjacency=adjacency, equalize=equalize).fit(ROWS)
    assert epsilon * (1 - 1e-6) < scaler.epsilon_ <= epsilon
    assert scaler.privacy_ == composition(scaler.mechanism_) == scaler.privacy_cost(200, 4)
    parts = [1 / part.noise_multiplier for part in scaler.mechanism_.mechanisms]
    assert math.hypot(*parts[:24]) == pytest.approx(math.sqrt(0.3) * scaler.privacy_.mu, rel=1e-6)
    assert math.hypot(*parts) == pytest.approx(scaler.privacy_.mu, rel=1e-12)
    assert scaler.privacy_report().as_dict()["spent"]["epsilon"] == scaler.epsilon_


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyWeakWarning")
def test_a_range_covers_most_of_a_column(dtype):
    """With a large budget: 95 %, and one step of the search less does not. Crude bounds hold for
    the rest.
    """
    tail = np.random.default_rng(7).lognormal(3, 1, 4000)
    X = np.column_stack([tail, tail * (-1) ** np.arange(4000), 50 + tail, -50 - tail]).astype(dtype)
    crude = np.array([(0, 1e6), (-1e4, 1e6), (50, 1e5), (-1e5, -50)])
    scaler = ranged(epsilon=1e9, crude_bounds=crude).fit(X)
    origin, step = np.array([0, 0, 50, -50]), 2 ** (20 / 63)
    reach = np.abs(scaler.bounds_ - origin[:, None]).max(axis=1)
    for shrunk, enough in ((1.0, True), (step * (1 + 1e-6), False)):
        within = np.mean(np.abs(X - origin) <= reach / shrunk, axis=0)
        assert np.all((within >= 0.95) == enough)
    assert scaler.bounds_[[0, 2], 0].tolist() == [0, 50]
    assert scaler.bounds_[3, 1] == -50
    scaled = (np.clip(X.astype(float), *scaler.bounds_.T) - origin) / reach / 2
    expected = by_numpy(scaler, scaled)
    np.testing.assert_allclose(scaler.transform(X), expected, atol=64 * np.finfo(dtype).eps)
    assert scaler.transform(X).dtype == dtype
    everything = clone(scaler).set_params(crude_bounds=(0, 1e-3)).fit(X)  # all count as an end
    np.testing.assert_allclose(everything.bounds_[:3], [(0, 1e-3)] * 3)
    named = pd.DataFrame(X, columns=list("abcd"))
    named_scaler = clone(scaler).set_params(crude_bounds=dict(zip("abcd", crude, strict=True)))
    np.testing.assert_array_equal(named_scaler.fit(named).bounds_, scaler.bounds_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bounds": (0, 1)}, r"bounds=\(0, 1\) must be 'private', or None.*use BoundsScaler"),
        ({"bounds": None}, "crude_bounds are of no use with bounds=None"),
        ({"data_norm": 3.0}, r"data_norm=3.0: bounds='private' brings rows within norm 1"),
        ({"crude_bounds": None}, "crude_bounds=None: give the public bounds of the columns"),
        ({"crude_bounds": [(0, 1)]}, r"crude_bounds has shape \(1, 2\)"),
        ({"crude_bounds": (0, math.inf)}, "crude_bounds=.*of finite numbers"),
    ],
)
def test_senseless_ranges(parameters, message):
    with pytest.raises(ValueError, match=message):
        ranged().set_params(**parameters).fit(ROWS)


def test_ranges_are_of_dense_columns():
    with pytest.raises(ValueError, match=r"X is sparse: .*Pass X.toarray\(\)"):
        ranged(with_mean=False).fit(sparse.csr_array(ROWS))
    with pytest.raises(ValueError, match="X is sparse: bounds='private' takes dense rows"):
        ranged(with_mean=False).fit(ROWS).transform(sparse.csr_array(ROWS))


# --- what comes out -------------------------------------------------------------------------------


def by_numpy(scaler, X):
    X = X.astype(float)
    X = X * np.minimum(1, scaler.data_norm / np.linalg.norm(X, axis=1))[:, None]
    centred = (X - (0 if scaler.mean_ is None else scaler.mean_)) / scaler.scale_
    return centred / np.maximum(1, np.linalg.norm(centred, axis=1))[:, None]


@pytest.mark.parametrize("with_mean", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_come_out_within_the_unit_ball(dtype, with_mean):
    scaler = PrivateScaler(5.0, data_norm=0.7, with_mean=with_mean).fit(ROWS.astype(dtype))
    rows = (ROWS * np.geomspace(1e-3, 1e3, 200)[:, None]).astype(dtype)
    before = rows.copy()
    scaled = scaler.transform(rows)
    rounding = 256 * np.finfo(dtype).eps
    np.testing.assert_allclose(scaled, by_numpy(scaler, rows), rtol=0, atol=rounding)
    np.testing.assert_array_equal(rows, before)
    assert scaled.dtype == dtype
    assert np.linalg.norm(scaled.astype(float), axis=1).max() <= 1 + rounding
    alone = np.vstack([scaler.transform(row[None]) for row in rows])
    np.testing.assert_allclose(scaled, alone, rtol=0, atol=rounding)


def test_with_a_large_budget_it_is_the_mean_and_the_quantile():
    X = 0.2 * ROWS
    scaler = PrivateScaler(1e9, quantile=0.8).fit(X)
    np.testing.assert_allclose(scaler.mean_, X.mean(axis=0), atol=1e-4)
    within = np.mean(
        np.linalg.norm(X - scaler.mean_, axis=1) <= np.array([[0.9170], [1.0]]) * scaler.scale_,
        axis=1,
    )
    assert within[0] < 0.8 <= within[1]


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_stay_sparse(container):
    X = np.where(np.random.default_rng(3).random((300, 20)) < 0.2, 1.0, 0.0)
    X[7] = 0
    rows = container(X)
    with pytest.raises(
        ValueError, match="X is sparse, and centring would make it dense: pass with_mean=False"
    ):
        PrivateScaler().fit(rows)
    scaler = PrivateScaler(with_mean=False, data_norm=3.0).fit(rows)
    scaled = scaler.transform(rows)
    assert isinstance(scaled, container)
    np.testing.assert_allclose(scaled.toarray(), scaler.transform(X), rtol=1e-15)
    np.testing.assert_array_equal(rows.toarray(), X)
    assert scaler.mean_ is None


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
        ({"data_norm": 0.0}, "data_norm=0.0 must be a number from 1e-50 to 1e50"),
        ({"data_norm": math.inf}, "data_norm=inf"),
        ({"data_norm": True}, "data_norm=True"),
        ({"with_mean": "yes"}, "with_mean='yes' must be True or False"),
        ({"quantile": 1.0}, r"quantile=1.0 must be in \(0, 1\)"),
        ({"quantile": math.nan}, "quantile=nan"),
        ({"adjacency": "edge"}, "adjacency='edge' must be 'replace_one' or 'add_remove'"),
    ],
)
def test_senseless_parameters(parameters, message):
    scaler = PrivateScaler(**parameters)
    with pytest.raises(ValueError, match=message):
        scaler.fit(ROWS)
    with pytest.raises(ValueError, match=message):
        scaler.privacy_cost(200, 4)
    assert not hasattr(scaler, "scale_")


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
    with pytest.raises(
        ValueError, match="equalize=True: n_samples=10000000000 are too many to sum"
    ):
        PrivateScaler(equalize=True).privacy_cost(10**10, 1)
    with pytest.raises(NotFittedError):
        PrivateScaler().transform(ROWS)
    with pytest.raises(NotFittedError):
        PrivateScaler().privacy_report()


def test_a_failed_fit_leaves_the_scaler_as_it_was():
    rng = np.random.default_rng(0)
    fitted = PrivateScaler(delta=1e-4).fit(rng.uniform(size=(50, 3)))
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match="quantile=2"):
        fitted.set_params(quantile=2).fit(rng.uniform(size=(50, 5)))
    assert vars(fitted) == {**before, "quantile": 2}
