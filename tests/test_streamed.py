"""Rows that are read in order: a source in a few lines, and the same bits as from an array."""

import numpy as np
import pytest
from numba import config

from skdpdyn import (
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core.losses import logistic
from skdpdyn.core.objective import Objective
from skdpdyn.data.base import Rows
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.solvers import (
    DPSGD,
    NoisyGD,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    SufficientStatistics,
)
from skdpdyn.training.conditioning import FittedConditioning


class GeneratedRows(StreamedRows):
    """Rows from a generator: all that a source of rows has to say."""

    def __init__(self, X, y, portion=997):
        super().__init__(X.shape, X.dtype)
        self._data = (X, y)
        self._portion = portion
        self.has_exposure = y.ndim == 2

    def read(self):
        X, y = self._data
        for first in range(0, len(X), self._portion):
            part = slice(first, first + self._portion)
            yield X[part], y[part]


# pieces of several chunks; kernels that are not compiled take minutes for so many rows
N_SAMPLES = 2_000 if config.DISABLE_JIT else 10_000


def data(n_samples=N_SAMPLES, n_features=5, dtype=np.float32):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features)) / 2
    return X.astype(dtype), X @ np.arange(n_features) + 0.1 * rng.standard_normal(n_samples)


BINARY = {"classes": [False, True]}
MAP = FittedConditioning(RowMap(np.full(5, 0.1), np.arange(1.0, 6.0), norm=3.0, radius=2.5))
MODELS = {
    "default": PrivateLogisticRegression(**BINARY),
    "plain": PrivateLogisticRegression(**BINARY, conditioning=None, solver=NoisyGD(n_steps=20)),
    "map": PrivateLogisticRegression(**BINARY, conditioning=MAP, solver=NoisyGD(n_steps=20)),
    "minimiser": PrivateLogisticRegression(**BINARY, solver=OutputPerturbation(), clip=1.0),
    "objective": PrivateLogisticRegression(**BINARY, solver=ObjectivePerturbation()),
    "cyclic": PrivateLogisticRegression(**BINARY, solver=NoisySGD("cyclic", n_epochs=2)),
    "softmax": PrivateSoftmaxRegression(classes=[0, 1, 2]),
    "ridge": PrivateRidge(target_bounds=(-5, 5)),
    "ridge, no intercept": PrivateRidge(target_bounds=(-5, 5), fit_intercept=False),
    "statistics": PrivateRidge(target_bounds=(-5, 5), solver=SufficientStatistics()),
    "weights": PrivateLogisticRegression(**BINARY, class_weight={True: 3.0}),
    "private weights": PrivateLogisticRegression(**BINARY, class_weight="private"),
    "counts": PrivatePoissonRegressor(target_bounds=(0, 3)),
    "counts, no intercept": PrivatePoissonRegressor(target_bounds=(0, 3), fit_intercept=False),
}


def target(name, y):
    if "ridge" in name or name == "statistics":
        return y
    if "counts" in name:
        return np.round(np.abs(y))
    return np.digitize(y, [-1, 1]) if name == "softmax" else y > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_as_from_an_array(name, dtype, monkeypatch):
    monkeypatch.setattr("skdpdyn.data.streamed._PIECE_BYTES", 30_000)
    X, y = data(dtype=dtype)
    y = target(name, y)
    model = MODELS[name].set_params(random_state=0)
    model.fit(X, y)
    expected = model.coef_, model.intercept_
    shown = getattr(model, "class_weight_", None)
    model.fit(GeneratedRows(X, y))
    np.testing.assert_array_equal(model.coef_, expected[0])
    np.testing.assert_array_equal(model.intercept_, expected[1])
    assert getattr(model, "class_weight_", None) == shown
    assert model.coef_.dtype == dtype
    assert model.privacy_ == model.privacy_cost(*X.shape)
    if "counts" in name:
        exposure = np.linspace(0.5, 2, len(y))
        expected = model.fit(X, y, exposure=exposure).coef_
        model.fit(GeneratedRows(X, np.column_stack([y, exposure])))
        np.testing.assert_array_equal(model.coef_, expected)


def test_batches_are_in_order_where_rows_are_read_in_order():
    X, y = data(3000)
    model = PrivateLogisticRegression(**BINARY, solver="noisy_sgd", random_state=0)
    assert model.fit(X, y > 0).mechanism_.order == "shuffled_once"
    model.fit(GeneratedRows(X, y > 0))
    assert model.mechanism_.order == "fixed"
    in_memory = PrivateLogisticRegression(**BINARY, solver=NoisySGD("cyclic"), random_state=0)
    np.testing.assert_array_equal(in_memory.fit(X, y > 0).coef_, model.coef_)
    assert model.privacy_ == in_memory.privacy_
    # what is only found out at the end of the last epoch
    rows = GeneratedRows(X, y > 0)
    passes = []
    n_epochs = model.mechanism_.n_epochs

    def read():
        passes.append(True)
        yield from GeneratedRows.read(rows)
        if len(passes) == n_epochs:
            yield X[:1], y[:1] > 0

    rows.read = read
    with pytest.raises(ValueError, match="more than n_samples"):
        model.fit(rows)
    assert len(passes) == n_epochs


def _changed(X, y, last):
    """Portions of rows, with ``last`` in place of the last one."""
    portions = list(GeneratedRows(X, y).read())
    return [*portions[:-1], *last(*portions[-1])]


def _raise(*portion):
    raise OSError(f"cannot read {portion}")
    yield


SECRET = 0.123456789
NAN = np.float32([1, 1, np.nan, 1, 1])
FAULTS = {
    "fewer": (lambda X, y: [], "fewer than n_samples=3000 rows"),
    "more": (lambda X, y: [(X, y), (X, y)], "more than n_samples=3000 rows"),
    "columns": (lambda X, y: [(X[:, :4], y)], "n_features=5"),
    "targets": (lambda X, y: [(X, y[1:])], "targets of shape"),
    "dtype": (lambda X, y: [(X.astype(np.float64), y)], "rows of float64"),
    "nan": (lambda X, y: [(X * NAN, y)], r"columns \[2\] hold missing"),
    "error": (_raise, r"could not be read \(OSError"),
    "label": (lambda X, y: [(X, y.astype(str))], "labels that are not in classes"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_last_portion_leaves_nothing_fitted(fault):
    X, y = data(3000)
    X[-1] = SECRET
    change, message = FAULTS[fault]
    model = PrivateLogisticRegression(**BINARY)
    rows = GeneratedRows(X, y > 0)
    rows.read = lambda: _changed(X, y > 0, change)
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(rows)
    assert not [name for name in vars(model) if name.endswith("_")]
    seen = caught.value
    while seen is not None:
        assert str(SECRET)[:6] not in str(seen)
        seen = seen.__cause__ or seen.__context__


@pytest.mark.parametrize("order", ["shuffled", "one number"])
def test_steps_on_other_rows_are_refused(order):
    """Their limits are not those that the first step has learnt."""
    X, y = data(3000)
    rows = GeneratedRows(X, y > 0)
    rng = np.random.default_rng(0)

    def read():
        if order == "shuffled":
            X[:] = rng.permutation(X)
        X[0, 0] += 0.5
        return GeneratedRows(X, y > 0).read()

    rows.read = read
    with pytest.raises(ValueError, match="other rows were read than in the step before"):
        PrivateLogisticRegression(**BINARY).fit(rows)


def test_what_cannot_stream_says_so():
    X, y = data(3000)
    rows = GeneratedRows(X, y > 0)
    for solver in (DPSGD(), OutputPerturbation("permutation_sgd"), NoisySGD("shuffled_once")):
        with pytest.raises(ValueError, match="needs all rows in memory, and X is a GeneratedRows"):
            PrivateLogisticRegression(**BINARY, solver=solver).fit(rows)
    exposed = GeneratedRows(X, np.column_stack([y > 0, np.zeros(3000)]))
    logistic_ = PrivateLogisticRegression(**BINARY)
    counts = PrivatePoissonRegressor(target_bounds=(0, 5))
    for model, X_, given, message in (
        (logistic_, rows, {"y": y > 0}, "y must be None"),
        (logistic_, rows, {"groups": np.arange(3000)}, "groups needs all rows in memory"),
        (counts, rows, {"exposure": np.ones(3000)}, "exposure must be None"),
        (counts, exposed, {}, "one finite number > 0"),
        (PrivateRidge(target_bounds=(0, 1)), exposed, {}, "and PrivateRidge takes none"),
        (logistic_, LocalRows(X, y), {}, "X is a LocalRows"),
        (PrivateLogisticRegression(classes="from_y"), rows, {}, "classes="),
        (PrivateRidge(target_bounds="from_y"), rows, {}, "target_bounds="),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            model.fit(X_, **given)
    with pytest.raises(ValueError, match="dtype='int64'"):
        StreamedRows.__init__(rows, X.shape, np.int64)
    with pytest.raises(ValueError, match="cannot draw batches"):
        rows.gradient(Objective(logistic, *X.shape, 1.0), np.zeros(X.shape[1]), np.arange(2))
    with pytest.raises(ValueError, match="cannot give batches in the order"):
        Rows.batches(rows, 1, 1)


@pytest.mark.parametrize("stop", [None, KeyboardInterrupt])
def test_a_fit_lets_go_of_what_its_rows_hold(stop):
    X, y = data(3000)
    rows = GeneratedRows(X, y > 0)
    closed = []
    rows.close = lambda: closed.append(True)
    if stop is None:
        PrivateLogisticRegression(**BINARY).fit(rows)
    else:
        rows.read = lambda: (_ for _ in ()).throw(stop)
        with pytest.raises(stop):
            PrivateLogisticRegression(**BINARY).fit(rows)
    assert closed == [True]
