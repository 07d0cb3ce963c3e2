"""Every family of kernels, of dense and CSR rows, computes what the record says."""

import math
import threading

import numba
import numpy as np
import pytest
from problems import (
    StepNoise,
    data,
    descend,
    descend_on_batches,
    generator,
    pairwise,
    problem,
    threaded,
)
from reference import gradients
from scipy import sparse, stats

from skdpdyn.core.losses import LOSSES, Loss, logistic, softmax, squared
from skdpdyn.data import local
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import ConvergenceError
from skdpdyn.kernels import passes, statistics
from skdpdyn.kernels.draws import FixedBatches
from skdpdyn.kernels.gradients import Dense
from skdpdyn.kernels.passes import compiled_some_chunks, kernel_family
from skdpdyn.kernels.statistics import compiled_limit
from skdpdyn.kernels.sums import Total
from skdpdyn.solvers.minimise import largest_rounding, minimise
from skdpdyn.support.chunks import chunk_edges, count_chunks

LAYOUTS = {"dense": np.ascontiguousarray, "csr": sparse.csr_array}

each_kernel = pytest.mark.parametrize(
    ("layout", "loss"),
    [
        pytest.param(LAYOUTS[name], loss, id=f"{name}-{loss.name}{loss.n_outputs}")
        for name in LAYOUTS
        for loss in LOSSES
    ],
)
each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def run(objective, X, y, step_size=(0.2, 0.5, 0.1), noise_std=0.01, radius=math.inf, n_threads=1):
    theta = np.zeros(objective.n_parameters)
    noise_std = np.broadcast_to(noise_std, len(step_size))
    steps = np.array(step_size), noise_std, radius
    descend(theta, objective, LocalRows(X, y), *steps, generator(), n_threads)
    return theta


def by_numpy(objective, X, y, step_size=(0.2, 0.5, 0.1), noise_std=0.01, radius=math.inf):
    """Algorithm 1 of Chourasia, Ye and Shokri (2021), with gradients clipped record by record."""
    theta = np.zeros(objective.n_parameters)
    noise = StepNoise(generator(), len(step_size), theta.size, exact=not objective.contracts)
    for step in step_size:
        moved = -step * gradients(objective, X, y, theta).mean(axis=0)
        theta = noise.add(theta - step * objective.alpha * theta, moved, noise_std)
        theta *= min(1.0, radius / np.linalg.norm(theta))
    return theta


# --- the kernel is the algorithm ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "loss", "n_samples", "n_features", "changes"),
    pairwise(
        LAYOUTS,
        LOSSES,
        [1, 3, 4, 33, 67],
        [1, 9, 24],
        [{}, {"intercept_scaling": 0.0}, {"clip": 1e3}, {"data_norm": 30.0, "alpha": 0.0}],
    ),
    ids=lambda value: getattr(value, "name", None),
)
def test_against_numpy_on_the_same_noise(layout, loss, n_samples, n_features, changes):
    X, y = data(loss, n_samples, n_features)
    objective = problem(loss, X, **changes)
    for radius in (math.inf, 0.05):
        ours = run(objective, LAYOUTS[layout](X), y, radius=radius)
        exact = by_numpy(objective, X, y, radius=radius)
        np.testing.assert_allclose(ours, exact, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("n_classes", [*range(3, 12), 16, 17, 25])
def test_any_number_of_classes(n_classes):
    loss = softmax(n_classes)
    X, y = data(loss)
    for layout in LAYOUTS.values():
        ours = run(problem(loss, X), layout(X), y)
        np.testing.assert_allclose(ours, by_numpy(problem(loss, X), X, y), rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@each_kernel
@pytest.mark.parametrize(
    "shape",
    [(5003, 37), (31007, 51), (5003, 701), (53, 8009), (500, 3001)],
    ids=["many chunks", "beyond the cache", "long and beyond the cache", "wide", "long blocks"],
)
def test_large_data_against_numpy(layout, loss, shape):
    """Branches for many rows, for more than a cache holds, and for more columns."""
    X, y = data(loss, *shape)
    found = run(problem(loss, X), layout(X), y)
    exact = by_numpy(problem(loss, X), X, y)
    np.testing.assert_allclose(found, exact, rtol=1e-7, atol=1e-9)


@each_kernel
@each_dtype
def test_any_number_of_threads_gives_the_same_bits(layout, loss, dtype):
    X, y = data(loss, 1100, 4, dtype)
    assert LocalRows(layout(X)).count_chunks(5 * loss.n_outputs) > 2
    given = problem(loss, X), layout(X), y, (0.2, 0.5)
    one, two, eight = (run(*given, n_threads=threads) for threads in (1, 2, 8))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, eight)


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_ends_when_a_thread_fails(failing, error, monkeypatch):
    """Whichever it is: the others come to an end, and its error is the fit's."""
    X, y = data(logistic, 1100, 4)

    def part(*_):
        if (threading.current_thread() is threading.main_thread()) == (failing == 0):
            raise error

    monkeypatch.setattr(passes, "compiled_some_chunks", lambda *_: part)
    with pytest.raises(error):
        run(problem(logistic, X), X, y, n_threads=3)


def _failing_chunk_gradients(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """A kernel that finds no memory for the last rows, before it has written anything."""
    # all rows, and not room for some of a batch, which the last ones do not fill
    whole = y.size == 1100
    if (stop == y.size) == whole:
        raise MemoryError
    out[:] = 1.0


STILL = {"step_size": np.full(3, 0.1), "noise_std": np.zeros(3), "radius": math.inf}
"""Steps without noise."""


class Failing(Dense):
    chunk_gradients = staticmethod(_failing_chunk_gradients)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("n_threads", [0, 1, 2], ids=["batches", "one", "two"])
def test_no_fit_survives_a_kernel_that_fails(n_threads, monkeypatch):
    """Compiled code drops its error; another sum left in its place would count rows twice."""
    X, y = data(logistic, 1100, 4)
    monkeypatch.setattr(passes, "kernel_family", lambda is_sparse, n_outputs: Failing(False))
    theta = np.zeros(5)
    given = (problem(logistic, X), LocalRows(X, y))
    try:
        if n_threads:
            descend(theta, *given, **STILL, generator=generator(), n_threads=n_threads)
        else:
            batches = {"batches": FixedBatches(1100), "divisor": 1100.0}
            descend_on_batches(theta, *given, **batches, **STILL, generator=generator())
    except MemoryError:
        assert numba.config.DISABLE_JIT
    else:
        assert not np.all(np.isfinite(theta))  # which fit refuses


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_minimum_is_certified_by_a_kernel_that_fails(monkeypatch):
    X, y = data(logistic, 1100, 4)
    monkeypatch.setattr(passes, "kernel_family", lambda is_sparse, n_outputs: Failing(False))
    with pytest.raises(MemoryError if numba.config.DISABLE_JIT else ConvergenceError):
        minimise(problem(logistic, X), LocalRows(X, y), tolerance=1e-3)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_csr_rows_of_any_kind(index):
    """Unsorted, duplicate and read-only entries, and wide indices, give the same bits."""
    X, y = data(logistic)
    tidy = sparse.csr_array(X)
    rng = np.random.default_rng(0)
    rows = zip(tidy.indptr, tidy.indptr[1:], strict=False)
    order = np.concatenate([rng.permutation(np.arange(*edges)) for edges in rows])
    order = np.repeat(order.astype(int), 2)  # every value in two halves
    indices = tidy.indices[order].astype(index)
    indptr = 2 * tidy.indptr.astype(index)
    X = sparse.csr_array((tidy.data[order] / 2, indices, indptr), shape=X.shape)
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    objective = problem(logistic, X)
    np.testing.assert_array_equal(run(objective, X, y), run(objective, tidy, y))
    assert X.nnz == 2 * tidy.nnz


def test_chunks_do_not_outgrow_the_rows():
    """At most 64, of 256 rows or more, and their sums take at most a quarter of X."""
    sizes = (100, 3, 1), (10_000, 20, 1), (10_000, 20, 30), (100_000, 1, 2000)
    for n_samples, n_features, n_outputs in sizes:
        n_sums = (n_features + 1) * n_outputs
        n_chunks = count_chunks((n_samples, n_features), np.float32, False, n_sums)
        n_bytes = 4 * n_samples * n_features
        assert 1 <= n_chunks <= 64
        fits = n_chunks * n_sums * 8 <= n_bytes / 4 and n_samples >= 256 * n_chunks
        assert n_chunks == 1 or fits
        edges = chunk_edges(n_samples, n_chunks)
        assert edges[0] == 0
        assert edges[-1] == n_samples
        assert edges.size - 1 <= n_chunks
        assert np.all(np.diff(edges) > 0)
        assert np.diff(edges).max() <= n_samples / n_chunks + 16
    assert count_chunks((1000, 5000), np.float64, True, 5001) == 1


@pytest.mark.parametrize("loss", [logistic, softmax(3)], ids=lambda loss: loss.name)
def test_how_many_values_rows_store_moves_no_chunk(loss, monkeypatch):
    """A record that stores more moves no other to another chunk, nor its room for rounding."""
    seen = []
    counts = set()
    monkeypatch.setattr(local, "allowance", lambda self, *arguments: seen.append(arguments) or 0.0)
    for row_length in (2, 20, 200):
        columns = np.tile(np.arange(row_length), 4000)
        parts = np.full(columns.size, 0.01), columns, np.arange(4001) * row_length
        X = sparse.csr_array(parts, shape=(4000, 2500))
        counts.add(LocalRows(X).count_chunks(2501 * loss.n_outputs))
        run(problem(loss, X), X, np.zeros(4000))
    assert len(counts) == 1
    assert 1 < counts.pop() < 4000 // 256
    assert seen == 3 * seen[:1]
    assert len(seen) == (3 if loss.n_outputs > 1 else 0)


def test_the_sums_of_short_rows_take_no_more_than_a_quarter_of_x(monkeypatch):
    """Rows that store few values are summed on one thread, to the same bits."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 1500, 8000)
    X = sparse.csr_array((np.ones(8000), columns, np.arange(0, 8001, 2)), shape=(4000, 1500))
    y = rng.integers(0, 2, 4000).astype(float)
    one = run(problem(logistic, X), X, y, n_threads=1)
    objective = problem(logistic, X, alpha=0.1)
    tolerance = 1.01 * largest_rounding(objective, objective.lipschitz / objective.alpha)
    minimiser = minimise(objective, LocalRows(X, y), tolerance=tolerance)
    room = []

    def sums(n_chunks, n_sums):
        room.append(n_chunks)
        return np.zeros((n_chunks, n_sums))

    monkeypatch.setattr(passes, "chunk_sums", sums)
    np.testing.assert_array_equal(run(problem(logistic, X), X, y, n_threads=2), one)
    by_two = minimise(objective, threaded(LocalRows(X, y), 2), tolerance=tolerance)
    np.testing.assert_array_equal(by_two, minimiser)
    assert room == [1, 1]


# --- bounds ---------------------------------------------------------------------------------------


def gradient_sum(objective, X, y, weight, rows=None):
    """What the kernel sums, in its own layout, where all coefficients are ``weight``."""
    given = LocalRows(X, y)
    family = kernel_family(given.is_sparse, objective.n_outputs)
    order, n_weights = family.layout(objective.n_outputs, objective.n_features)
    precision = family.precision(X.dtype.name)
    weights = np.zeros(n_weights, precision)
    total = Total((n_weights + 2 * objective.n_outputs,))
    weights[order[: -objective.n_outputs]] = weight
    compiled_some_chunks(family, X.dtype.name, precision)(
        objective.loss.residual,
        family.rows(X),
        given.y,
        *given.bounded(objective),
        weights,
        np.full(objective.n_outputs, float(weight)),
        np.zeros(objective.n_outputs),
        objective.intercept_scaling,
        np.array([0, len(y)] if rows is None else rows),
        0,
        1,
        np.empty((1, total.parts.shape[1])),
        total.parts,
    )
    return total.value()


@each_kernel
@each_dtype
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 1), (3, 5), (1, 8), (7, 40), (2, 45), (5, 72), (0, 119)]
)
def test_a_chunk_sums_its_own_rows_alone(layout, loss, dtype, start, stop):
    """Bit by bit what a chunk without neighbours sums, at any number of rows."""
    X, y = data(loss, 120, 11, dtype)
    objective = problem(loss, X)
    alone = gradient_sum(objective, layout(X[start:stop]), y[start:stop], 0.3)
    among = gradient_sum(objective, layout(X), y, 0.3, rows=(start, stop))
    np.testing.assert_array_equal(among, alone)


def in_single(norms, exposure, limits, *of_limit):
    """Write limits of residuals, rounded down to single precision; return them in it."""
    rounded = np.empty(len(norms), np.float32)
    compiled_limit("float32")(norms, exposure, rounded, *of_limit)
    limits[:] = rounded
    return rounded


@pytest.mark.parametrize("number", [0.0, 1e-50, 1e-45, 0.1, 1.0, 1e38, 1e39, math.inf])
def test_numbers_are_rounded_down(number):
    (rounded,) = in_single(np.ones(1), np.empty(0), np.empty(1), number, 0.0, math.inf, 1.0)
    assert float(rounded) <= number
    with np.errstate(over="ignore"):
        following = float(np.nextafter(rounded, np.float32(math.inf)))
    assert following > number or float(rounded) == number


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
@each_kernel
@each_dtype
def test_no_gradient_exceeds_the_bound_by_one_bit(layout, loss, dtype):
    """Nor does one of raw predictions that are huge, infinite or not a number."""
    largest = 0.0
    for seed in range(30):
        X, y = data(loss, 1, 3, dtype, seed)
        objective = problem(loss, X, clip=0.4, data_norm=0.7)
        for weight in (0.0, 1.0, -3.0, 1e30, math.inf, math.nan):
            gradient = gradient_sum(objective, layout(X), y, weight).astype(np.longdouble)
            norm = np.sqrt(np.sum(gradient**2))
            assert norm <= objective.lipschitz
            largest = max(largest, norm)
    assert largest > 0.999 * objective.lipschitz


@pytest.mark.slow
@each_kernel
def test_single_precision_is_not_added_up_for_long(layout, loss):
    """Of 30,000 equal rows in one chunk: the allowance for rounding counts on blocks of 32."""
    X = np.full((30_000, 3), 0.1, np.float32)
    y = np.zeros(30_000)
    objective = problem(loss, X)
    one, all_ = (gradient_sum(objective, layout(X[:n]), y[:n], 0.3) for n in (1, len(X)))
    np.testing.assert_allclose(all_, len(X) * one, rtol=3e-6)


@each_kernel
def test_batches_of_single_precision_are_summed_in_double(layout, loss, monkeypatch):
    """A record that joins moves the others; blocks of float32 sums would round anew."""
    X, y = data(loss, 300, 21, np.float32)
    results = []
    monkeypatch.setattr(statistics, "compiled_limit", lambda dtype: in_single)
    for rows in (layout(X), layout(X.astype(np.float64))):
        theta = np.zeros(problem(loss, X).n_parameters)
        batches = {"batches": FixedBatches(200), "divisor": 200.0}
        given = problem(loss, X), LocalRows(rows, y)
        descend_on_batches(theta, *given, **batches, **STILL, generator=generator())
        results.append(theta)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_where_a_step_contracts_single_rows_are_summed_in_double(layout):
    """An unclipped softmax: parameters rounded to float32 would be shared by all rows."""
    X, y = data(softmax(3), 300, 21, np.float32)
    objective = problem(softmax(3), X, clip=math.inf)
    single, double = (run(objective, layout(X.astype(t)), y) for t in (np.float32, np.float64))
    np.testing.assert_allclose(single, double, rtol=1e-12, atol=1e-12 * np.abs(double).max())


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("weight", [math.inf, math.nan])
def test_predictions_that_are_not_numbers_have_the_largest_residual(layout, weight):
    """Of a squared loss, in rows of either kind: infinity less infinity among them."""
    X = np.array([[0.3, -0.4]])
    objective = problem(squared, X, intercept_scaling=0.0)
    expected = X[0] / np.linalg.norm(X) * objective.lipschitz
    found = gradient_sum(objective, layout(X), np.zeros(1), weight)[:2]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def raw_predictions(raw_prediction, y, out):
    out[:] = raw_prediction


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_loss_that_is_not_a_number_is_bounded(layout):
    """Softmax never lets NaN through; the kernels do not count on that."""
    loss = Loss("raw", raw_predictions, math.inf, 1.0, n_outputs=3)
    X, y = data(logistic, 1, 3)
    objective = problem(loss, X)
    for weight in (1.0, 1e30, 1e200, math.inf, math.nan):
        assert np.linalg.norm(gradient_sum(objective, layout(X), y, weight)) <= objective.lipschitz


# --- the noise that ran ---------------------------------------------------------------------------


@pytest.mark.smoke
@each_kernel
@each_dtype
def test_every_parameter_gets_its_noise(layout, loss, dtype):
    """Without data the last iterate is N(0, K noise_std^2 I): chi-square, fails with 1e-6."""
    X = np.zeros((4, 3000 // loss.n_outputs), dtype)
    objective = problem(loss, X, alpha=0.0, intercept_scaling=0.0)
    theta = run(objective, layout(X), np.zeros(4), step_size=np.full(3, 0.3), noise_std=0.7)
    statistic = np.sum((theta / (math.sqrt(3) * 0.7)) ** 2)
    assert stats.chi2.ppf(5e-7, theta.size) < statistic < stats.chi2.isf(5e-7, theta.size)
    assert np.unique(theta).size > 0.9 * theta.size  # on a lattice
