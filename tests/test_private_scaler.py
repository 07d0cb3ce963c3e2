"""PrivateScaler: what it releases, what that costs, and what the next step gets."""

import math
import tracemalloc

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skdpdyn import PrivateLogisticRegression
from skdpdyn.core import spending
from skdpdyn.data.base import sum_rounding
from skdpdyn.exceptions import CalibrationError, PrivacyLeakWarning
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
from skdpdyn.privacy import GaussianDP, composition, from_json, split_budget, to_json
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


@pytest.mark.parametrize("data_norm", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sensitivity_of_the_mean(inside, dtype, data_norm):
    """Neighbours move the mean by at most the deviation of its noise over its noise multiplier;
    some by 0.999 of it.
    """
    rng = np.random.default_rng(1)
    X = (data_norm * rng.normal(size=(50, 3))).astype(dtype)
    rows = data_norm * np.array(
        [[0, 0, 0], [1e3, 0, 0], [-1e3, 0, 0], [1e-3, 1e15, 1e15], [0.3, -0.4, 0.5]]
    )
    moved = {adjacency: [] for adjacency in ADJACENCIES}
    for adjacency in ADJACENCIES:
        scaler, means = PrivateScaler(data_norm=data_norm, adjacency=adjacency), []
        for row in rows.astype(np.float32).astype(dtype):
            seen = inside(scaler, np.vstack([X, row]), Planted())
            means.append(seen["mean"])
        sensitivity = seen["mean_std"] / scaler.mechanism_.mechanisms[0].noise_multiplier
        # a row of zeros contributes nothing
        others = means if adjacency == "replace_one" else means[:1]
        moved[adjacency] = (
            max(np.linalg.norm(one - other) for one in others for other in means) / sensitivity
        )
    for largest in moved.values():
        assert 0.999 < largest <= 1


def test_the_mean_leaves_room_for_the_rounding_of_two_sums(inside):
    """Its noise is for twice the radius, and what `sum_rounding` says."""
    scaler = PrivateScaler()
    std = inside(scaler, ROWS, Planted())["mean_std"]
    sensitivity = 200 * std / scaler.mechanism_["column means"].noise_multiplier
    assert sum_rounding(200, 4) > 1e-11
    assert sensitivity - 2 == pytest.approx(sum_rounding(200, 4), rel=1e-3)


# --- noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("data_norm", [0.5, 20.0])
def test_realised_noise_of_the_mean(inside, adjacency, data_norm):
    """Rows of zeros have a mean of noise alone. A chi-square of 500 draws, failure probability
    1e-6.
    """
    scaler = PrivateScaler(0.3, data_norm=data_norm, adjacency=adjacency)
    mean = inside(scaler, np.zeros((40, 500)))["mean"]
    multiplier = scaler.mechanism_.mechanisms[0].noise_multiplier
    std = multiplier * data_norm * (2 if adjacency == "replace_one" else 1) / 40
    assert stats.chi2.ppf(5e-7, 500) < np.sum((mean / std) ** 2) < stats.chi2.isf(5e-7, 500)


@pytest.mark.parametrize("with_mean", [True, False])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_noise_of_the_counts(inside, adjacency, with_mean):
    """All rows within every threshold: noise decides against them from n/2 deviations' worth of
    it on, and not before.
    """
    X = np.zeros((40, 3))
    scaler = PrivateScaler(2.0, adjacency=adjacency, with_mean=with_mean)
    scaler.fit(X)
    multipliers = {part.noise_multiplier for part in scaler.mechanism_.mechanisms[with_mean:]}
    (multiplier,) = multipliers
    inside(scaler, X, Planted(counts=-20 / multiplier * (1 - 1e-9)))
    assert scaler.scale_ == pytest.approx(2.0 ** (-63 / 8))
    inside(scaler, X, Planted(counts=-20 / multiplier * (1 + 1e-9)))
    assert scaler.scale_ == 1.0


def test_every_draw_is_another(inside):
    """Each of the six counts and each coordinate of the mean has a normal of its own."""
    drawn = []

    class Counting(Planted):
        def standard_normal(self, size=None):
            drawn.append(size)
            return super().standard_normal(size)

    inside(PrivateScaler(), ROWS, Counting())
    assert drawn == [4] + [None] * 6


def test_fresh_noise_in_every_fit_and_clone():
    scaler = PrivateScaler()
    means = [model.fit(ROWS).mean_ for model in (scaler, clone(scaler), scaler)]
    assert len({mean.tobytes() for mean in means}) == 3
    assert not np.any(means[0] == ROWS.mean(axis=0))


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


@pytest.mark.parametrize("with_mean", [True, False])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 30.0])
def test_the_budget_is_met(epsilon, adjacency, with_mean):
    scaler = PrivateScaler(epsilon, adjacency=adjacency, with_mean=with_mean).fit(ROWS)
    assert epsilon * (1 - 1e-6) < scaler.epsilon_ <= epsilon
    assert scaler.delta_ == 1 / 200**2
    assert scaler.privacy_ == composition(scaler.mechanism_) == scaler.privacy_cost(200, 4)
    assert scaler.privacy_.adjacency == adjacency
    parts = [1 / part.noise_multiplier for part in scaler.mechanism_.mechanisms]
    assert len(parts) == 6 + with_mean
    assert math.hypot(*parts) == pytest.approx(scaler.privacy_.mu, rel=1e-12)
    assert (parts[0] / scaler.privacy_.mu) ** 2 == pytest.approx(
        0.9 if with_mean else 1 / 6, rel=1e-12
    )
    assert from_json(to_json(scaler.mechanism_)) == scaler.mechanism_
    assert scaler.privacy_report().as_dict()["spent"]["epsilon"] == scaler.epsilon_


def test_a_display_shows_what_was_spent():
    scaler = PrivateScaler(0.5, 1e-4)
    assert scaler._repr_mimebundle_()["text/plain"] == repr(scaler)
    bundle = scaler.fit(ROWS)._repr_mimebundle_()
    line = "spent: epsilon=0.5, delta=0.0001 (replace_one, bound composition)"
    assert line in bundle["text/html"]
    assert bundle["text/plain"].splitlines()[-1] == line


def test_noise_shrinks_as_the_budget_grows():
    costs = [PrivateScaler(epsilon).privacy_cost(100, 2).mu for epsilon in (0.01, 0.1, 1.0, 10.0)]
    assert costs == sorted(costs)


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


def test_rows_of_zeros_within_a_tiny_norm():
    X = np.zeros((20, 3), np.float32)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(
            PrivateScaler(data_norm=1e-45, with_mean=False).fit_transform(X), X
        )


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
def test_a_long_tail_gains_at_equal_cost():
    """Incomes below 100 million: public bounds alone bring almost all of them to 0."""
    rng = np.random.default_rng(0)
    X = rng.lognormal(np.log(3e4), 1, (4000, 2))
    y = np.log(X).sum(axis=1) > 2 * np.log(3e4)
    first, second = split_budget(1.0, 1e-8, (0.1, 0.9))
    gains = []
    for seed in range(3):
        model = PrivateLogisticRegression(
            1.0, 1e-8, classes=[False, True], conditioning=None, random_state=seed
        )
        private = ranged(crude_bounds=(0, 1e8), random_state=seed)
        private.set_params(epsilon=first[0], delta=first[1])
        private = make_pipeline(private, clone(model).set_params(epsilon=second[0])).fit(X, y)
        assert private[0].privacy_.compose(private[1].privacy_).epsilon(1e-8) <= 1.0
        public = make_pipeline(BoundsScaler((0, 1e8)), model).fit(X, y)
        gains.append(private.score(X, y) - public.score(X, y))
    assert np.mean(gains) > 0.1


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


def test_noise_alone_is_no_mean():
    """A mean that is drowned in noise is shrunk to 0, rather than moving all rows by it."""
    rng = np.random.default_rng(4)
    shrunk = [conditioning.shrunk(rng.standard_normal(1000), 1.0, 1e3) for _ in range(20)]
    assert max(np.linalg.norm(mean) for mean in shrunk) < 12  # of 32
    np.testing.assert_array_equal(conditioning.shrunk(np.full(9, 1.0), 2.0, 1.0), np.zeros(9))
    np.testing.assert_array_equal(conditioning.shrunk(np.zeros(9), 2.0, 1.0), np.zeros(9))
    np.testing.assert_allclose(conditioning.shrunk(np.array([3.0, 4.0]), 9.0, 1.0), [0.6, 0.8])
    np.testing.assert_allclose(
        conditioning.shrunk(np.array([3.0, 0, 0, 0]), 1.0, 9.0), [3 * (1 - 2 / 9), 0, 0, 0]
    )


def test_fit_makes_no_copy_of_the_rows():
    X = np.random.default_rng(5).normal(size=(60_000, 50)).astype(np.float32)
    tracemalloc.start()
    PrivateScaler().fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
def test_centring_pays_at_equal_cost():
    """Rows far from the origin: the same total mu learns more when a tenth of mu^2 centres them."""
    rng = np.random.default_rng(6)
    X = 0.1 * rng.normal(size=(4000, 10))
    y = X[:, 0] > 0
    X[:, 1] += 0.9
    centring, training = split_budget(0.1, 1e-7, (0.1, 0.9))
    gains = []
    for seed in range(10):
        model = PrivateLogisticRegression(
            0.1, 1e-7, classes=[False, True], conditioning=None, random_state=seed
        )
        scaler = PrivateScaler(*centring, random_state=100 + seed)
        centred = make_pipeline(scaler, clone(model).set_params(epsilon=training[0])).fit(X, y)
        assert centred[0].privacy_.compose(centred[1].privacy_).epsilon(1e-7) <= 0.1
        gains.append(centred.score(X, y) - model.fit(X, y).score(X, y))
    assert np.mean(gains) > 0.05


# --- absurd input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 1), (3, 50)])
def test_few_records(shape):
    X = np.ones(shape)
    scaler = PrivateScaler(delta=1e-5).fit(X)
    assert np.all(np.isfinite(scaler.transform(X)))
    assert np.linalg.norm(scaler.mean_) <= 1 + 1e-12


def test_extreme_rows_are_scaled_like_any_other():
    X = np.array([[1e150, -1e150], [0.0, 0.0], [1e-300, 0.0], [5e-324, 1.0]])
    scaled = PrivateScaler(delta=1e-5).fit(X).transform(X)
    assert np.all(np.isfinite(scaled))
    assert np.linalg.norm(scaled, axis=1).max() <= 1 + 1e-12


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
