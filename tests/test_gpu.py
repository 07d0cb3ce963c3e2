"""Rows in arrays of other libraries: the same fit as from numpy's, and nothing but sums comes here.

On CPU torch and array-api-strict: no GPU is needed. What a GPU's library may do to products is
planted.
"""

from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
import test_rounding
from releases import dispatching
from sklearn import config_context
from test_streamed import MODELS, data, target

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
)
from skdpdyn.data import gpu
from skdpdyn.data.gpu import DeviceRows
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.losses import LOSSES, softmax, squared
from skdpdyn.objective import Objective
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.solvers import DPSGD

pytest.importorskip("array_api_compat")
LIBRARIES = "array_api_strict", "torch"
N = 1009  # a prime: no other number of a fit is it
BINARY = {"classes": [0, 1], "random_state": 0}


@pytest.fixture(params=LIBRARIES)
def xp(request):
    library = pytest.importorskip(request.param)
    if request.param == "torch":
        library.set_num_threads(1)
    with dispatching():
        yield library


@pytest.fixture
def strict():
    library = pytest.importorskip("array_api_strict")
    with dispatching():
        yield library


@pytest.fixture(autouse=True)
def several_parts(monkeypatch):
    monkeypatch.setattr(gpu, "LEAST_NUMBERS", 1500)
    monkeypatch.setattr(gpu, "PARTS", 4)


FITS = [name for name in MODELS if name != "cyclic"]  # its batches: see below


@pytest.mark.parametrize("name", FITS)
def test_the_same_fit_as_from_numpys_arrays(name, xp):
    X, y = data(N, dtype=np.float64)
    y, model = target(name, y), MODELS[name].set_params(random_state=0)
    given = [{}]
    if name == "counts":
        given.append({"exposure": np.linspace(0.5, 2, N)})
    for options in given:
        model.fit(X, y, **options)
        expected, record = (model.coef_, model.intercept_), model.mechanism_
        shown = [getattr(model, name, None) for name in ("class_weight_", "diagnostics_")]
        there = {key: xp.asarray(value) for key, value in options.items()}
        model.fit(xp.asarray(X), xp.asarray(y), **there)
        np.testing.assert_allclose(model.coef_, expected[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.intercept_, expected[1], rtol=0, atol=1e-12)
        np.testing.assert_equal(model.mechanism_, record)
        assert [getattr(model, one, None) for one in ("class_weight_", "diagnostics_")] == shown


@pytest.mark.parametrize("name", ["default", "softmax"])
def test_single_precision_stays_it_and_sums_do_not(name, strict, monkeypatch):
    X, y = data(N, dtype=np.float32)
    objective = Objective(softmax(3), N, 5, 1.0, clip=0.1)
    assert LocalRows(X).allows_single(objective)
    assert not DeviceRows(strict.asarray(X), strict.asarray(y)).allows_single(objective)
    monkeypatch.setattr(LocalRows, "allows_single", lambda rows, objective: False)
    y, model = target(name, y), MODELS[name].set_params(random_state=0)
    expected = model.fit(X, y).coef_
    model.fit(strict.asarray(X), strict.asarray(y))
    assert model.coef_.dtype == np.float32
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-6, atol=1e-6)


def test_statistics_are_those_of_rows_in_memory(xp):
    X, y = data(N, dtype=np.float64)
    classes = (y > 0).astype(float)
    maps = (
        RowMap(np.full(5, 0.1), np.arange(1.0, 6), norm=1.5, radius=1.2),
        RowMap(np.full(5, 0.1), np.eye(5) + 0.1, norm=1.5, radius=1.2),
        RowMap(None, np.arange(1.0, 6), norm=1.5, radius=1.2),
    )
    for row_map in maps:
        asked = [
            lambda rows: rows.counts("norms", np.linspace(0.1, 2, 64)),
            lambda rows: rows.counts("lengths", np.linspace(0.1, 2, 64)),
            lambda rows: rows.counts("distances", np.linspace(0.1, 2, 64), 0.3),
            lambda rows: rows.class_counts(2),
            lambda rows: rows.target_sum(0.25),
            lambda rows: rows.column_sums(),
            lambda rows: rows.column_sums(0.7),
            lambda rows: rows.column_squares(),
            lambda rows: rows.second_moment(),
            lambda rows: rows.second_moment(0.5),
            lambda rows: rows.products(0.7, 0.5),
            lambda rows: rows.products_with_targets(0.5, 0.4),
        ]
        here = LocalRows(X, classes, map=row_map)
        there = DeviceRows(xp.asarray(X), xp.asarray(classes)).with_targets(lambda y: y)
        there = there.with_map(row_map)
        assert there.sample(1) == (np.inf, N)  # all rows count there
        weights = np.array([1 / 3, 0.7])
        for rows in ((here, there), tuple(r.weighted_by_class(weights) for r in (here, there))):
            for ask in asked:
                expected, found = map(ask, rows)
                # counts, the first four, are exact
                tolerance = 0 if ask in asked[:4] else 1e-12
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exact", [False, True])
def test_gradients_are_those_of_rows_in_memory(exact, dtype, strict, monkeypatch):
    """With limits that clamp most residuals, in the precision of X, rounded down."""
    if dtype is np.float32:  # kernels of several outputs then sum in single precision
        monkeypatch.setattr(LocalRows, "allows_single", lambda rows, objective: False)
    X, y = data(N, dtype=dtype)
    X *= 3
    classes, weights = (y > 0).astype(dtype), np.array([0.5, 0.75, 1.0])
    row_map = RowMap(np.full(5, 0.1), np.eye(5) + 0.1, norm=1.5, radius=1.2)
    for loss in (*LOSSES[:4], softmax(3)):
        for given, scaling in ((None, 0.5), (row_map, 0.5), (None, 0.0)):
            spread = 1.0 if given is None else given.spread
            objective = Objective(
                loss, N, 5, 1.0, clip=0.05, intercept_scaling=scaling, spread=spread, exact=exact
            )
            point = np.linspace(-2, 2, objective.n_parameters)
            here = LocalRows(X, classes, map=given)
            there = DeviceRows(strict.asarray(X), strict.asarray(classes)).with_targets(
                lambda y: strict.astype(y, strict.float64)
            )
            for rows in (here, here.weighted_by_class(weights)):
                expected = rows.gradient(objective, point)
                of = there if rows is here else there.weighted_by_class(weights)
                found = (of if given is None else of.with_map(given)).gradient(objective, point)
                np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_derivatives_are_those_of_the_kernels(strict):
    rng = np.random.default_rng(0)
    for loss in LOSSES:
        shape = (loss.n_outputs, 200) if loss.n_outputs > 1 else (200,)
        raw, y = rng.normal(0, 5, shape), rng.integers(0, 2, 200).astype(float)
        raw[..., 0], raw[..., 1] = 1e3, -1e3
        expected = np.empty(shape)
        found = loss.of_arrays(strict, strict.asarray(raw), strict.asarray(y))
        loss.residual(raw.copy(), y, expected)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-13, atol=1e-15)


def test_nothing_of_a_record_comes_to_the_host(xp, monkeypatch):
    """No array that comes has an axis of records; and no more numbers than chunks have sums."""
    came = []
    monkeypatch.setattr(gpu, "to_host", lambda array: came.append(array.shape) or np.asarray(array))
    X, y = data(N, dtype=np.float64)
    for model in (PrivateLogisticRegression(**BINARY), PrivateLogisticRegression(random_state=0)):
        model.fit(xp.asarray(X), xp.asarray((y > 0).astype(int)))
    assert came
    assert max(np.prod(shape) for shape in came) < N / 2
    assert not [shape for shape in came if N in shape]


def mixing(matmul, a, b):
    """Add the first row to the others, and take it off again, as products of Strassen's kind do."""
    product, first = matmul(a, b), matmul(a, b)[..., :1]
    return (product + first) - first


def of_single(matmul, a, b):
    return matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.float64)


def of_one_scale(matmul, a, b):
    """Keep 53 bits of what is largest."""
    a, b = (
        np.rint(x * (s := 2.0**52 / 2.0 ** np.ceil(np.log2(np.abs(x).max())))) / s for x in (a, b)
    )
    return matmul(a, b)


def never_the_same(matmul, a, b, calls=[0]):  # noqa: B006
    calls[0] += 1
    product = matmul(a, b)
    return np.nextafter(product, np.inf) if calls[0] % 2 else product


@pytest.mark.parametrize("fault", [mixing, of_single, of_one_scale, never_the_same])
def test_products_of_another_kind_are_refused(fault, strict):
    X, y = data(N, dtype=np.float64)
    matmul = strict.matmul

    def faulty(a, b):
        return strict.asarray(fault(np.matmul, np.asarray(a), np.asarray(b)))

    DeviceRows(strict.asarray(X), strict.asarray(y))
    with (
        patch.object(strict, "matmul", faulty),
        pytest.raises(ValueError, match="no sums of float64"),
    ):
        DeviceRows(strict.asarray(X), strict.asarray(y))
    assert strict.matmul is matmul


def test_products_round_as_the_theorem_says(xp):
    """In exact fractions: of the rows of a chunk, with terms that cancel."""
    rng = np.random.default_rng(0)
    for size in (16, 300):
        X, r = rng.standard_normal((size, 3)) * 2.0 ** rng.integers(-20, 20, (size, 3)), 1 / 3
        X[size // 2 :] = -X[: size // 2] * (1 + 1e-10)
        found = gpu.products_of_chunks(
            gpu.namespace(xp.asarray(X)),
            xp.full((1, size), r, dtype=xp.float64),
            xp.asarray(X),
            size,
        )
        for j, sums in enumerate(np.asarray(found)[0, 0]):
            exact = [Fraction(x) * Fraction(r) for x in X[:, j].tolist()]
            error = abs(Fraction(float(sums)) - sum(exact))
            assert error <= Fraction(size, 2**53) * sum(map(abs, exact))


def test_sums_of_chunks_keep_what_is_rounded_away(strict, monkeypatch):
    def source(X, y):
        return DeviceRows(strict.asarray(X), strict.asarray(y)).with_targets(lambda y: y)

    monkeypatch.setitem(test_rounding.WHO, "device", test_rounding.of_all(source))
    test_rounding.test_whoever_adds_up_chunks_keeps_what_is_rounded_away("device", monkeypatch)


def test_the_sum_of_targets_is_rounded_once(strict):
    """Their room is that of sums that keep what additions round away, see `target_rounding`."""
    y = np.full(N, 0.1)
    rows = DeviceRows(strict.asarray(y[:, None]), strict.asarray(y)).with_targets(lambda y: y)
    assert rows.target_sum() == float(sum(map(Fraction, y.tolist())))


def test_predictions_come_back_where_the_rows_are(xp):
    X, y = data(N, dtype=np.float32)
    labels = (y > 0).astype(np.int64)
    rows, classes = xp.asarray(X), xp.asarray(labels)
    model = PrivateLogisticRegression(**BINARY).fit(rows, classes)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        there, here = getattr(model, method)(rows), getattr(model, method)(X)
        assert type(there) is type(rows)
        assert there.device == rows.device
        assert str(there.dtype).rpartition(".")[2] == here.dtype.name
        np.testing.assert_array_equal(np.asarray(there), here)
    assert model.score(rows, classes) == model.score(X, labels) > 0.9
    np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X))
    scaler = BoundsScaler((-1, 1))
    assert type(scaler.fit(rows).transform(rows)) is type(rows)
    counts = PrivatePoissonRegressor(target_bounds=(0, 3), random_state=0).fit(
        rows, xp.abs(rows[:, 0])
    )
    exposure = xp.full((N,), 2.0, dtype=xp.float64)
    doubled = np.asarray(counts.predict(rows, exposure=exposure))
    np.testing.assert_allclose(doubled, 2 * counts.predict(X), rtol=1e-6)
    assert counts.score(rows, xp.abs(rows[:, 0]), exposure=exposure) <= 1


def test_without_dispatch_arrays_become_numpys(strict):
    X, y = data(N, dtype=np.float64)
    model = PrivateLogisticRegression(**BINARY)
    with config_context(array_api_dispatch=False):
        model.fit(strict.asarray(X), strict.asarray((y > 0).astype(int)))
        assert type(model.predict(strict.asarray(X))) is np.ndarray


SECRET = 0.123456789


def _given(xp, **changed):
    """Return X and y, in one of which something is changed."""
    X, y = data(N, dtype=np.float64)
    X[-1] = SECRET
    given = {"X": X, "y": (y > 0).astype(float)} | changed
    return [xp.asarray(given[name]) if given[name] is not None else None for name in ("X", "y")]


def _with(X, place, value):
    X = X.copy()
    X[place] = value
    return X


ROWS, LABELS = data(N, dtype=np.float64)[0], np.ones(N)
FAULTS = {
    "integers": ({"X": np.ones((N, 2), np.int64)}, "X holds .*int64 .*xp.astype"),
    "missing": ({"X": _with(ROWS, (3, 1), np.nan)}, r"columns \[1\] hold missing"),
    "infinite": ({"X": _with(ROWS, (3, 1), np.inf)}, r"columns \[1\] hold missing"),
    "long": ({"X": _with(ROWS, (3, 1), 1e200)}, "norm exceeds"),
    "one row": ({"X": np.ones(N)}, "Expected 2D array"),
    "few targets": ({"y": np.ones(N - 1)}, "y has shape"),
    "label": ({"y": np.full(N, SECRET)}, "labels that are not in"),
    "no label": ({"y": np.full(N, np.nan)}, "labels that are not in"),
    "no targets": ({"y": None}, "requires y"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_no_fit_takes_is_refused_and_not_quoted(fault, xp):
    changed, message = FAULTS[fault]
    model = PrivateLogisticRegression(**BINARY)
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(*_given(xp, **changed))
    assert not [name for name in vars(model) if name.endswith("_")]
    seen = caught.value
    while seen is not None:
        assert str(SECRET)[:6] not in str(seen)
        seen = seen.__cause__ or seen.__context__


def test_what_stays_elsewhere_is_refused_by_name(xp):
    X, y = _given(xp)
    model = PrivateLogisticRegression(**BINARY)
    with pytest.raises(ValueError, match=r"y is a ndarray on the host.*y = xp.asarray"):
        model.fit(X, np.asarray(y))
    with pytest.raises(ValueError, match="groups needs all rows in memory"):
        model.fit(X, y, groups=np.arange(N))
    for solver in (DPSGD(), "noisy_sgd"):
        with pytest.raises(ValueError, match=r"DeviceRows.*Use solver='auto'"):
            PrivateLogisticRegression(**BINARY, solver=solver).fit(X, y)
    with pytest.raises(ValueError, match=r"target_bounds|NaN or infinity"):
        PrivateRidge(target_bounds=(-1, 1)).fit(X, xp.where(y > 0, y, xp.asarray(float("nan"))))
    counts = PrivatePoissonRegressor(target_bounds=(0, 3))
    with pytest.raises(ValueError, match="exposure those > 0"):
        counts.fit(X, y, exposure=-xp.abs(X[:, 0]))
    with pytest.raises(TypeError, match="takes arrays and frames in memory"):
        PrivateGAMClassifier().fit(X, y)
    objective = Objective(squared, N, 5, 1.0, clip=1.0)
    rows = DeviceRows(X, y).with_targets(lambda y: y)
    without = replace(objective, loss=replace(squared, of_arrays=None))
    with pytest.raises(ValueError, match="the squared loss has no derivative for arrays"):
        rows.gradient(without, np.zeros(5))
    rows.gradient(objective, np.zeros(5))


def test_devices_and_kinds_are_refused_by_name():
    torch = pytest.importorskip("torch")
    y = torch.ones(20)
    with dispatching():
        for X, message in (
            (torch.ones(20, 2).half(), "X holds torch.float16 .*X.to"),
            (torch.ones(20, 2).bfloat16(), "X holds torch.bfloat16"),
            (torch.ones(20, 2).to_sparse(), "X is a sparse tensor.*to_dense"),
        ):
            with pytest.raises(ValueError, match=message):
                PrivateRidge().fit(X, y)


def test_mixed_devices_and_devices_without_float64_are_refused(strict):
    X, y = _given(strict)
    device = strict.Device("device1")
    with pytest.raises(ValueError, match=r"y is a Array on device .*device1.*device=X.device"):
        PrivateRidge().fit(X, strict.asarray(np.asarray(y), device=device))
    there = strict.Device("no_float64")
    X, y = (strict.asarray(np.asarray(one, np.float32), device=there) for one in (X, y))
    with pytest.raises(ValueError, match="has no float64"):
        PrivateRidge().fit(X, y)


def test_labels_and_bounds_that_are_taken_are_a_leak(xp):
    X, y = _given(xp)
    model = PrivateLogisticRegression(random_state=0).fit(X, y)
    assert "classes were taken from y" in model.leaks_
    assert model.classes_.tolist() == [0, 1]
    ridge = PrivateRidge(random_state=0).fit(X, X[:, 0])
    assert ridge.target_bounds_ == (float(xp.min(X[:, 0])), float(xp.max(X[:, 0])))
