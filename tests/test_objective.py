"""The Objective's promises: every record's gradient is within its bound."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from skdpdyn.core.losses import logistic, softmax, squared
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.data.rows import row_norms
from skdpdyn.kernels.passes import Gradients
from skdpdyn.privacy import Adjacency


def objective(**changes):
    defaults = {"n_samples": 50, "n_features": 3, "data_norm": 2.0}
    defaults |= {"alpha": 0.1, "clip": 0.7, "intercept_scaling": 0.5}
    return Objective(logistic, **defaults | changes)


def test_constants():
    problem = objective(clip=math.inf)
    assert problem.row_norm == pytest.approx(math.sqrt(4.25))
    assert problem.lipschitz == pytest.approx(math.sqrt(4.25))
    assert problem.smoothness == pytest.approx(4.25 / 4 + 0.1)
    assert problem.strong_convexity == 0.1
    assert problem.n_parameters == 4
    assert objective(intercept_scaling=0.0).n_parameters == 3
    assert objective(intercept_scaling=0.0, clip=math.inf).lipschitz == 2.0
    joint = Objective(softmax(4), 50, 3, 2.0, alpha=0.1, intercept_scaling=0.5)
    assert joint.n_parameters == 16
    assert joint.lipschitz == pytest.approx(math.sqrt(2 * 4.25))
    assert joint.smoothness == pytest.approx(4.25 / 2 + 0.1)
    assert objective().lipschitz == 0.7
    assert objective().sensitivity(Adjacency.REPLACE_ONE) == pytest.approx(2 * 0.7 / 50)
    assert objective().sensitivity(Adjacency.ADD_REMOVE) == pytest.approx(0.7 / 50)


@pytest.mark.parametrize("clip", [0.01, 0.25, 1.0, 100.0])
def test_tolerable_noise_is_one_unit_or_what_residuals_are_clipped_to(clip):
    assert Objective(logistic, 100, 5, 3.0, clip=clip, intercept_scaling=4.0).tolerable_noise == 1.0
    assert Objective(softmax(3), 100, 5, 3.0, clip=clip).tolerable_noise == 1.0
    ridge = Objective(squared, 100, 5, 3.0, clip=5 * clip, intercept_scaling=4.0)
    assert ridge.tolerable_noise == min(1.0, math.sqrt(clip))


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e3, 1e12])
@pytest.mark.parametrize("data_norm", [0.01, 1.0, 100.0])
def test_rows_and_gradients_stay_within_their_bounds(dtype, scale, data_norm):
    """Fuzz, in extended precision: norms never exceed the bound by one bit."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((200, 7)) * scale).astype(dtype)
    X[0] = 0
    X[1] = data_norm / math.sqrt(7)
    for clip in (0.3 * data_norm, math.inf):
        scales = {"data_norm": data_norm, "intercept_scaling": 0.25 * data_norm}
        problem = objective(n_features=7, clip=clip, **scales)
        row_scale, residual_limit, _, _ = LocalRows(X).bounded(problem)
        rows = X.astype(np.longdouble) * row_scale[:, None]
        norms = np.sqrt((rows**2).sum(axis=1))
        assert np.all(norms <= data_norm)
        assert np.all((row_scale > 0) & (row_scale <= 1))
        gradient = residual_limit * np.sqrt(norms**2 + (0.25 * data_norm) ** 2)
        assert np.all(gradient <= problem.lipschitz)
        assert np.max(gradient) > 0.999 * problem.lipschitz or scale < data_norm
        assert np.all(residual_limit <= logistic.lipschitz)


def test_more_records_than_sums_can_tell_apart_are_refused():
    with pytest.raises(ValueError, match="n_samples=10000000000: sums in float64 cannot tell one"):
        LocalRows(np.zeros((1, 3))).bounded(objective(n_samples=10**10))


def test_norms_do_not_lose_digits_in_float32():
    X = np.full((2, 10_000), 0.1, dtype=np.float32)
    np.testing.assert_allclose(row_norms(X), np.linalg.norm(X.astype(float), axis=1), rtol=1e-12)


# --- CSR rows -------------------------------------------------------------------------------------


def csr(n_samples=60, n_features=9, dtype=np.float64, index=np.int32):
    """Rows of all lengths, some empty at the start, in the middle and at the end."""
    rng = np.random.default_rng(0)
    X = 3 * rng.standard_normal((n_samples, n_features))
    X[rng.random(X.shape) > 0.4] = 0
    X[[0, 1, 20, -1]] = 0
    X = sparse.csr_array(X.astype(dtype))
    X.indices = X.indices.astype(index)
    X.indptr = X.indptr.astype(index)
    return X


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_csr_rows_are_bounded_as_dense_rows_are(dtype, index):
    X = csr(dtype=dtype, index=index)
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    problem = objective(n_samples=60, n_features=9)
    np.testing.assert_allclose(row_norms(X), row_norms(X.toarray()), rtol=1e-14)
    both = (LocalRows(rows).bounded(problem) for rows in (X, X.toarray()))
    for ours, dense in zip(*both, strict=True):
        np.testing.assert_allclose(ours, dense, rtol=1e-14)


def test_the_allowance_for_rounding_grows_with_the_chunks():
    free = objective(clip=math.inf)
    eps = np.finfo(np.float32).eps
    double, single = (LocalRows(np.zeros((50, 3), dtype)) for dtype in (np.float64, np.float32))
    few, one = (double.bounded(free, n_chunks).limit[0] for n_chunks in (4, 1))
    assert 1 - 1e-11 < one < few < 1
    assert 1 - single.bounded(free).limit[0] == pytest.approx(640 * eps, rel=0.01)
    # limits are in the precision of X
    assert 1 - single.bounded(free, 64, np.float64).limit[0] < eps


def test_the_allowance_is_for_all_blocks_and_chunks_where_a_record_moves_the_others():
    """Runs of b rows in chunks of m round by b (m + 2) / 2 eps; in blocks by 2 b/32 300 eps."""
    many = objective(clip=math.inf, n_samples=12_800)
    X = np.zeros((12_800, 3))
    double = 1 - LocalRows(X).bounded(many, 100, aligned=False).limit[0]
    assert double >= 12_800 * (128 + 2) / 2 * np.finfo(np.float64).eps
    single = 1 - LocalRows(X.astype(np.float32)).bounded(many, 100, aligned=False).limit[0]
    assert single >= 400 * 600 * np.finfo(np.float32).eps


def test_the_rounding_of_long_predictions_is_counted_in_whatever_order_they_are_added():
    """A thousand terms, one after the other, all but the first of which are lost."""
    # products of 1e-16, less than half of what 1 can tell apart
    row = theta = np.append(1.0, np.full(999, 1e-8))
    raw = 0.0
    for value, weight in zip(row, theta, strict=True):
        raw += value * weight
    # of the gradient of a squared loss
    error = (math.fsum(row * theta) - raw) * np.linalg.norm(row)
    one = Objective(squared, 1, 1000, 1.0, clip=10.0)
    norm = np.linalg.norm(theta)
    assert one.gradient_rounding(norm, 8, 1) < error <= one.gradient_rounding(norm, 1000, 1)


def test_where_gradients_may_be_summed_in_single_precision():
    clipped = {"clip": 0.5, "data_norm": 1.0}
    assert Objective(softmax(3), 50, 3, **clipped).allows_single
    # a step is a contraction
    assert not Objective(softmax(3), 50, 3, 1.0, clip=math.inf).allows_single
    assert not objective(clip=0.5).allows_single
    # factors of long rows vanish
    assert not Objective(softmax(3), 50, 3, 1e-26, clip=1e-27).allows_single
    steep = replace(softmax(3), lipschitz=math.inf)
    # clipped residuals of tiny rows overflow
    assert not Objective(steep, 50, 3, **clipped).allows_single


def test_a_softmax_is_not_clamped_where_its_kernels_must_follow_it():
    """Clamped a little, it is the derivative of no convex function."""
    several = Objective(softmax(3), 50, 3, 2.0, clip=math.inf, intercept_scaling=0.5)
    rows = LocalRows(np.full((50, 3), 2.0, np.float32))
    free = rows.bounded_for(Gradients.of(several, rows))
    assert rows.bounded(several).limit.max() < math.sqrt(2) < free.limit.min()
    assert several.unclamped().contracts
    assert several.unclamped().loss.residual is several.loss.residual
    assert several.unclamped().smoothness == several.smoothness
    single = objective(clip=math.inf)
    assert single.unclamped() is single
