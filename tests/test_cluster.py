"""Rows on a cluster: the bits of a local fit, whoever is lost, and no record on the way."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from itertools import chain

import numpy as np
import pytest
from numba import config
from scipy import sparse
from sklearn.base import clone

from skdpdyn import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core.sealed import opened
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import ClusterError
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper
from skdpdyn.solvers import (
    DPSGD,
    NoisyGD,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    SufficientStatistics,
)

distributed, dask = map(pytest.importorskip, ("distributed", "dask"))
pytest.importorskip("dask.dataframe")
parts = ("driver", "worker", "dask")
driver, worker, collections = (import_module(f"skdpdyn.data.cluster.{one}") for one in parts)
pytestmark = pytest.mark.system

# Two chunks of sums for conditioning, and edges of gradients' chunks between them
N_SAMPLES = 1_000 if config.DISABLE_JIT else 30_000
SIZE = 5_120  # rows of a partition that ends with chunks of gradients
SECRET = 0.123456789


@pytest.fixture(scope="module", autouse=True)
def here():
    """A cluster whose workers are in this process, where coverage sees them."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    whole = distributed.LocalCluster(processes=False, **options)
    with whole as cluster, distributed.Client(cluster) as client:
        yield client


def rows_of(X, y, lengths, numeric=False):
    """The rows of arrays, on the cluster, in partitions of some lengths."""
    X = remote(X, lengths)
    y = remote(y, lengths)
    return collections.cluster_rows(X, y, numeric, True, None)


def remote(array, lengths):
    """A collection of an array, in blocks of a size or of some lengths."""
    lengths = lengths if isinstance(lengths, int) else tuple(lengths)
    if sparse.issparse(array):
        return remote(array.toarray(), lengths).map_blocks(sparse.csr_array)
    chunks = lengths if array.ndim == 1 else (lengths, -1)
    return dask.array.from_array(array, chunks=chunks)


def data(n_samples=N_SAMPLES, n_features=5, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features)) / 2
    return X.astype(dtype), X @ np.arange(n_features) + 0.1 * rng.standard_normal(n_samples)


def cut(n_samples, n_parts, multiple=1):
    """Lengths of partitions that end at multiples of a number of rows."""
    edges = np.linspace(0, n_samples, n_parts + 1) // multiple * multiple
    edges[-1] = n_samples
    return np.diff(edges).astype(int).tolist()


def identity(y):
    return y


BINARY = {"classes": [False, True]}
MODELS = {
    "default": PrivateLogisticRegression(**BINARY),
    "plain": PrivateLogisticRegression(**BINARY, conditioning=None, solver=NoisyGD(n_steps=5)),
    "minimiser": PrivateLogisticRegression(**BINARY, solver=OutputPerturbation(), clip=1.0),
    "objective": PrivateLogisticRegression(**BINARY, solver=ObjectivePerturbation()),
    "softmax": PrivateSoftmaxRegression(classes=[0, 1, 2]),
    "svc": PrivateLinearSVC(**BINARY),
    "weights": PrivateLogisticRegression(**BINARY, class_weight={True: 3.0}),
    "private weights": PrivateLogisticRegression(**BINARY, class_weight="private"),
    "ridge": PrivateRidge(target_bounds=(-5, 5)),
    "bought bounds": PrivateRidge(epsilon=10.0),
    "statistics": PrivateRidge(target_bounds=(-5, 5), solver=SufficientStatistics()),
    "counts": PrivatePoissonRegressor(target_bounds=(0, 3)),
    "rates": PrivatePoissonRegressor(epsilon=10.0),  # of bounds that are bought
}


def target(name, y):
    if isinstance(MODELS[name], PrivateRidge):
        return y
    if isinstance(MODELS[name], PrivatePoissonRegressor):
        return np.round(np.abs(y))
    return np.digitize(y, [-1, 1]) if name == "softmax" else y > 0


def extras(name, y):
    """Exposures, where the model has them."""
    return {"exposure": np.linspace(0.5, 2, len(y))} if name == "rates" else {}


def fitted(name, X, y, **given):
    model = copy.deepcopy(MODELS[name]).set_params(random_state=0)
    return model.fit(X, y, **given)


def assert_same_fit(model, name, X, y, **given):
    """Check that a model is that of a local fit, to the last bit; return that."""
    expected = fitted(name, X, y, **given)
    for attribute in ("coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(model, attribute), getattr(expected, attribute))
    assert model.mechanism_ == expected.mechanism_
    assert model.privacy_ == expected.privacy_ == model.privacy_cost(*X.shape)
    assert model.coef_.dtype == expected.coef_.dtype
    assert getattr(model, "class_weight_", None) == getattr(expected, "class_weight_", None)
    return expected


@pytest.mark.parametrize("name", MODELS)
def test_fits_have_the_bits_of_local_ones(name):
    X, y = data()
    lengths = cut(len(y), 3, 256)
    y = target(name, y)
    given = extras(name, y)
    far = {key: remote(part, lengths) for key, part in given.items()}
    model = fitted(name, remote(X, lengths), remote(y, lengths), **far)
    assert_same_fit(model, name, X, y, **given)


def test_flags_are_classes_at_no_cost():
    X, _ = data()
    model = PrivateLogisticRegression(epsilon=3.0, random_state=0)
    model = model.fit(remote(X, [len(X)]), remote(X[:, 0] > 0, [len(X)]))
    assert model.classes_.tolist() == [False, True]
    assert "classes" not in model.bought_


def test_rows_that_are_too_long_to_square_are_shortened_where_they_are():
    X, y = data(600)
    X[[5, -1], 0] = 1e200
    for name in ("default", "plain"):
        model = clone(MODELS[name]).set_params(bounds=None, random_state=0)
        local = clone(model).fit(X, y > 0)
        model.fit(remote(X, cut(600, 3)), remote(y > 0, cut(600, 3)))
        np.testing.assert_array_equal(model.coef_, local.coef_)


# --- faults ---------------------------------------------------------------------------------------


def alter_answers(patch, altered):
    """Have each answer of a worker awaited by ``altered``, which takes the method it replaces."""
    awaited = driver.Session._awaited
    patch.setattr(driver.Session, "_awaited", lambda *arguments: altered(awaited, *arguments))


def lose_at(monkeypatch, phase):
    """Have a worker lost at the third answer to a question, when it was told all."""
    ask = driver.Session.ask
    left = [1, 2, 3]

    def asked(self, question, *told):
        self.name, *_ = question
        return ask(self, question, *told)

    def lost(awaited, session, share, call):
        if left and session.name == phase:
            left.pop()
            if not left:
                return None
        return awaited(session, share, call)

    monkeypatch.setattr(driver.Session, "ask", asked)
    alter_answers(monkeypatch, lost)
    return left


def assert_nothing_is_left(client):
    """No task or actor of a fit, a moment after it."""

    def actors(dask_worker):
        return [*dask_worker.state.actors, *dask_worker.active_threads.values()]

    def tasks(dask_scheduler):
        return list(dask_scheduler.tasks)

    start = time.monotonic()
    while left := [*client.run_on_scheduler(tasks), *chain(*client.run(actors).values())]:
        assert time.monotonic() - start < 5, left
        time.sleep(0.02)


COMPUTED = []  # names of blocks, whenever one is computed
ANEW = {  # what a block is that is computed a second time: changes rows and targets
    "order": lambda X, y: (X[::-1], y[::-1]),
    "order of rows": lambda X, y: (X[::-1], y),
    "a row twice": lambda X, y: (np.vstack([X[:-1], X[:1]]), y),
    "last digit": lambda X, y: (np.nextafter(X, 9), y),
    "targets": lambda X, y: (X, y[::-1]),
    "a label": lambda X, y: (X, np.append(y[:-1], y[y != y[-1]][0])),
    "fewer rows": lambda X, y: (X[1:], y[1:]),
    "sparse": lambda X, y: (sparse.csr_array(X), y),
    "another type": lambda X, y: (X.astype(np.float32), y),
    "nothing": lambda X, y: (X, y),
    "exposures": lambda X, y: (X, y * 2),
}
SEEN = {"fewer rows": "another shape", "sparse": "sparse", "another type": "other types"}


def block(name, X, y, fault):
    """A part of X or y, another one where it is computed for a second time."""
    COMPUTED.append(name)
    if COMPUTED.count(name) > 1:
        X, y = ANEW[fault](X, y)
    return X if name == "X" else y


def computed(name, X, y, fault):
    """X or y as a collection, whose last partition is computed anew when it is lost."""
    array = {"X": X, "y": y}[name]
    anew = dask.delayed(block, pure=False)(name, X[-200:], y[-200:], fault)
    last = dask.array.from_delayed(anew, array[-200:].shape, array.dtype)
    return dask.array.concatenate([remote(array[:-200], 200), last])


def lose_last(monkeypatch, phase):
    """Have the worker of the last partition lost once, when it was asked a question."""
    ask = driver.Session.ask
    lost = []

    def asked(self, question, *told):
        self.name, *_ = question
        return ask(self, question, *told)

    def answered(awaited, session, share, call):
        if session.name == phase and not lost and 2 in share.parts and share.as_read is not None:
            lost.append(share)
            return None
        return awaited(session, share, call)

    monkeypatch.setattr(driver.Session, "ask", asked)
    alter_answers(monkeypatch, answered)
    return lost


@pytest.mark.parametrize("phase", ["summed", "point", "changed", "batch"])
@pytest.mark.parametrize("kind", [int, object])
def test_a_partition_that_is_computed_anew_with_other_rows_is_refused(kind, phase, monkeypatch):
    """Or one record might be in two partitions, and count twice."""
    X, y = data(600)
    labels = (y > 0).astype(int) if kind is int else np.where(y > 0, "yes", "no").astype(object)
    options = {"solver": "dp_sgd"} if phase == "batch" else {}
    for fault in ANEW.keys() - {"exposures"}:
        del COMPUTED[:]
        far = [computed(name, X, labels, fault) for name in ("X", "y")]
        model = PrivateLogisticRegression(classes=np.unique(labels).tolist(), **options)
        refused = pytest.raises(ValueError, match=SEEN.get(fault, "computed anew"))
        with monkeypatch.context() as patch, nullcontext() if fault == "nothing" else refused:
            lost = lose_last(patch, phase)
            model.fit(*far)
        assert hasattr(model, "coef_") == (fault == "nothing")
        assert lost
        assert sorted(COMPUTED) == ["X", "X", "y", "y"]


def test_exposures_that_are_computed_anew_are_compared_too(monkeypatch):
    X, y = data(600)
    counts = np.round(np.abs(y))
    exposure = np.linspace(1, 2, 600)
    del COMPUTED[:]
    given = {"exposure": computed("y", X, exposure, "exposures")}
    lost = lose_last(monkeypatch, "summed")
    with pytest.raises(ValueError, match="computed anew"):
        PrivatePoissonRegressor(target_bounds=(0, 3)).fit(
            remote(X, 200), remote(counts, 200), **given
        )
    assert lost
    scaler = PrivateScaler(random_state=0)
    del COMPUTED[:]
    del lost[:]
    with pytest.raises(ValueError, match="computed anew"):
        scaler.fit(computed("X", 1000 + X, counts, "order"))  # asks twice: of a narrow range
    assert lost


def test_rows_on_a_worker_that_are_written_to_are_refused(here, monkeypatch):
    X, y = data(600)
    ask = driver.Session.ask

    def holders(dask_worker):
        return list(dask_worker.state.actors.values())

    def asked(self, question, *told):
        if question[0] == "changed":
            for holder in chain(*here.run(holders).values()):
                rows, *_ = holder._arrays[0]
                rows.setflags(write=True)
                rows[0, 0] += 1
        return ask(self, question, *told)

    monkeypatch.setattr(driver.Session, "ask", asked)
    model = PrivateLogisticRegression(**BINARY)
    with pytest.raises(ValueError, match="data changed during the fit"):
        model.fit(remote(X, 300), remote(y > 0, 300))


def test_what_rows_and_targets_both_rest_on_is_computed_once():
    """A shuffle without a seed, run for each of them, would give targets to other rows."""
    import pandas as pd

    local = pd.DataFrame(data(900)[0], columns=list("abcde"))
    for kind in ("frame", "array"):
        table = dask.dataframe.from_pandas(local, npartitions=3)
        table = table.map_partitions(lambda part: part.sample(frac=1.0), meta=local[:0])
        rows, targets = table[["a", "b"]], table["a"]
        if kind == "array":
            table = table.to_dask_array(lengths=True)
            rows, targets = table[:, :2], table[:, 0]
        parts = collections.Partitions(rows, targets, True, True, None)
        blocks = [part for pair in parts.blocks for part in pair]
        found = parts.client.gather(parts.client.compute(blocks))
        assert len(found) == 6
        for X, y in zip(found[::2], found[1::2], strict=True):
            np.testing.assert_array_equal(np.asarray(X)[:, 0], np.asarray(y))


def drawn(n_rows):
    """The numbers of rows in an order that nobody seeded."""
    return np.random.default_rng().permutation(n_rows) / n_rows


def test_what_all_partitions_rest_on_is_computed_once(here, monkeypatch):
    """Each record is in one of them, however long it takes to place them all."""
    submit = driver.Session._submit

    def submitted(self, *arguments):
        submit(self, *arguments)
        time.sleep(0.2)

    monkeypatch.setattr(driver.Session, "_submit", submitted)
    whole = dask.delayed(drawn, pure=False)(600)
    parts = [
        dask.array.from_delayed(whole[k * 100 : (k + 1) * 100], (100,), float) for k in range(6)
    ]
    X = dask.array.concatenate(parts)[:, None]
    rows = collections.cluster_rows(X, X[:, 0], True).with_targets(identity)
    rows.target_sum()
    seen = here.run(lambda dask_worker: list(dask_worker.state.actors.values()))
    held = [part for holder in chain(*seen.values()) for part in holder._arrays]
    for numbers in (
        np.concatenate([X[:, 0] for X, _ in held]),
        np.concatenate([y for _, y in held]),
    ):
        np.testing.assert_array_equal(np.sort(numbers), np.arange(600) / 600)
    rows.close()


def test_partitions_of_frames_have_the_columns_that_dask_says():
    import pandas as pd

    X, y = data(600)
    meta = pd.DataFrame(X[:0], columns=list("abcde"))
    targets = dask.dataframe.from_pandas(pd.Series(y > 0), npartitions=2)
    changes = {
        "nothing": lambda part: part,
        "order": lambda part: part[list("edcba")],
        "names": lambda part: part.set_axis(list("vwxyz"), axis=1),
        "dates": lambda part: part.assign(a=pd.to_datetime((part["a"] * 1e9).astype("int64"))),
        "text": lambda part: part.assign(a=part["a"].astype(str)),
        "single": lambda part: part.assign(a=part["a"].astype("float32")),
        "a column more": lambda part: part.assign(f=1.0),
    }
    for name, change in changes.items():
        parts = [pd.DataFrame(X[:300], columns=list("abcde"))]
        parts.append(change(pd.DataFrame(X[300:], columns=list("abcde"))))
        far = dask.dataframe.from_delayed(
            [dask.delayed(part) for part in parts], meta=meta, verify_meta=False
        )
        model = PrivateLogisticRegression(**BINARY)
        if name == "nothing":
            assert model.fit(far, targets).n_samples_ == 600
            continue
        with pytest.raises(ValueError, match="other columns, or other types"):
            model.fit(far, targets)
        with pytest.raises(ValueError, match="other columns, or other types"):
            PrivateScaler().fit(far)
        assert not hasattr(model, "coef_")


def test_a_worker_that_is_lost_again_and_again_is_an_error(monkeypatch):
    X, y = data(500)
    rows = rows_of(X, y, 500).with_targets(identity)
    with monkeypatch.context() as patch:
        alter_answers(patch, lambda *arguments: None)
        with pytest.raises(ClusterError, match="lost 5 times"):
            rows.target_sum()
    rows.close()
    assert opened(rows.target_sum()) == opened(LocalRows(X, y).target_sum())  # one may try again
    rows.close()


def test_what_a_worker_holds_does_not_leave_it(here):
    X = np.full((300, 2), SECRET)
    y = np.full(300, SECRET)
    rows = rows_of(X, y, 300).with_targets(identity)
    rows.target_sum()
    (share,) = rows._session._shares
    seen = here.run(lambda dask_worker: list(dask_worker.state.actors.values()))
    (holder,) = chain(*seen.values())
    for held in (holder, share.actor, share.future.result()):
        assert str(SECRET)[:6] not in f"{held} {held!r}"
        assert np.float64(SECRET).tobytes() not in pickle.dumps(share.actor)
    for dumps in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="do not leave their worker"):
            dumps(holder)
    rows.close()
    assert not hasattr(rows, "pieces")


def _with(X, y, row, column, value):
    X = X.copy()
    X[row, column] = value
    return X, y


FAULTS = {
    "missing": (lambda X, y: _with(X, y, -1, 2, np.nan), r"columns \[2\] hold missing"),
    "infinite": (lambda X, y: _with(X, y, -1, 0, np.inf), r"columns \[0\] hold missing"),
    "masked": (lambda X, y: (np.ma.masked_greater(X, 1.0), y), "masked cells"),
    "label": (lambda X, y: (X, y.astype(str)), "other types"),
    "text": (lambda X, y: (X.astype("U9"), y), "other types"),
    "dates": (lambda X, y: (X.astype("M8[s]"), y), "other types"),
    "single": (lambda X, y: (X.astype(np.float32), y), "other types"),
    "target dates": (lambda X, y: (X, y.astype("M8[s]")), "other types"),
    "sparse": (lambda X, y: (sparse.csr_array(X), y), "sparse and others dense"),
    "shape": (lambda X, y: (X[1:], y), "another shape"),
    "targets": (lambda X, y: (X, y[1:]), "another shape"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_local_fit_refuses_is_refused(fault):
    X, y = data(600)
    X[-1] = SECRET
    y = (y > 0).astype(float)
    change, message = FAULTS[fault]
    bad = change(X[300:], y[300:])
    far = []
    for whole, part in zip((X, y), bad, strict=True):
        block = dask.array.from_delayed(dask.delayed(part), whole[300:].shape, whole.dtype)
        far.append(dask.array.concatenate([remote(whole[:300], 300), block]))
    model = PrivateLogisticRegression(classes=[0, 1])
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(*far)
    assert not [name for name in vars(model) if name.endswith("_")]
    assert_quotes_nothing(caught.value)


def assert_quotes_nothing(error):
    while error is not None:
        assert str(SECRET)[:6] not in str(error)
        error = error.__cause__ or error.__context__


def held(form, X, *targets, monkeypatch=None):
    """What a worker makes of a partition."""
    holder = object.__new__(worker.Holder)
    refusal = worker._caught(worker.UNREADABLE, holder._read, form, [300], (X, *targets))
    return holder, refusal


def test_errors_of_workers_are_codes(monkeypatch):
    X = sparse.csr_array(data(300)[0])
    y = np.zeros(300)
    dtypes = ("float64",), ("float64",)
    form = worker.TableForm(5, "float64", None, dtypes, True, True, 1)
    malformed = X.copy()
    malformed.indices[0] = 99
    assert held(form, malformed, y)[1] == (worker.MALFORMED,)
    assert held(form, None, y)[1] == (worker.COLUMNS,)
    X, y = data(300)
    form = replace(form, is_sparse=False, dtypes=(("float64",), ("object",)))
    for objects in (np.array([1.0, *y[1:]], dtype=object), np.array(["1", *y[1:]], object)):
        holder, refusal = held(form, X, objects)
        assert refusal is None
        assert holder._y[0].dtype == np.float64
        assert holder._y[0][0] == 1.0
    assert held(form, X, np.array([None] * 300))[1] is None
    assert held(form, X, y)[1] == (worker.COLUMNS,)
    rows = rows_of(X, y, 300, numeric=True).with_targets(identity)

    def failing(error):
        def summed(self, *arguments):
            raise error

        return summed

    for error, kind in ((RuntimeError(str(SECRET)), ValueError), (MemoryError(), MemoryError)):
        with monkeypatch.context() as patch:
            patch.setattr(worker.Holder, "summed", failing(error))
            with pytest.raises(kind, match="worker") as caught:
                rows.counts("norms", np.ones(1))
            assert_quotes_nothing(caught.value)
        with monkeypatch.context() as patch:
            patch.setattr(worker, "_rows_of", failing(error))
            with pytest.raises(kind) as caught:
                rows_of(X, y, 300).counts("norms", np.ones(1))
        assert_quotes_nothing(caught.value)
    assert opened(rows.target_sum()) == opened(LocalRows(X, y).target_sum())  # it serves on
    rows.close()
    with pytest.raises(ValueError, match="Input y contains NaN"):
        PrivateRidge(target_bounds=(0, 1)).fit(remote(X, 300), remote(np.full(300, np.nan), 300))
    with pytest.raises(ValueError, match="targets that cannot be read"):
        PrivateLogisticRegression(classes=[0, 1]).fit(remote(X, 300), remote(y.astype(str), 300))
    with monkeypatch.context() as patch:
        patch.setattr(worker, "_OURS", "0")
        with pytest.raises(ClusterError, match="another version of skdpdyn"):
            rows.target_sum()
    told = [("targets", None, identity, ())]
    assert "targets that cannot be read" in str(driver._refused(told, worker.TARGETS, 1))


BATCHES = {
    "cyclic": NoisySGD("cyclic", batch_size=100, n_epochs=2),
    "shuffled": NoisySGD("shuffled_once", batch_size=130, n_epochs=2),
    "fresh": NoisySGD("without_replacement", batch_size=100, n_epochs=2),
    "poisson": DPSGD(n_steps=9, batch_size=60),
    "momentum": DPSGD(n_steps=9, batch_size=5, momentum=0.5, average="uniform"),
    "permutation": OutputPerturbation("permutation_sgd", n_epochs=1),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_hold_the_records_that_they_hold_locally(name, monkeypatch):
    """Under a seed each batch is that of a local fit, and so is all but the last digits."""
    X, y = data(1_000, dtype=np.float32 if name == "cyclic" else np.float64)
    X = sparse.csr_array(X * (np.abs(X) > 0.3)) if name == "shuffled" else X
    model = PrivateLogisticRegression(**BINARY, solver=BATCHES[name], random_state=0)
    expected = copy.deepcopy(model).fit(X, y > 0)
    lengths = [130, 0, 500, 370]
    left = lose_at(monkeypatch, "batch")
    seen = []
    ask = driver.Session.ask

    def asked(self, question, *told):
        if question[0] == "batch":
            seen.append([p + s for p, s in zip(question[1], (0, 130, 630), strict=True)])
        return ask(self, question, *told)

    monkeypatch.setattr(driver.Session, "ask", asked)
    model.fit(remote(X, lengths), remote(y > 0, lengths))
    assert not left
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=2e-6 if name == "cyclic" else 1e-9)
    assert model.mechanism_ == expected.mechanism_
    assert model.privacy_ == expected.privacy_ == model.privacy_cost(*X.shape)
    batches = [np.concatenate(batch).astype(int) for batch in seen]
    counts = np.bincount(np.concatenate(batches), minlength=1_000)
    if name in ("cyclic", "shuffled", "permutation"):  # each record once an epoch
        assert np.unique(counts).tolist() == [1 if name == "permutation" else 2]
        size = model.mechanism_.batch_size
        assert {len(batch) for batch in batches} == {size, 1_000 % size or size}
    assert all(len(np.unique(batch)) == len(batch) for batch in batches)


# --- Dask -----------------------------------------------------------------------------------------


def frame(X, n_parts=3):
    """A frame of Dask, and the same one in memory."""
    import pandas as pd

    local = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    return dask.dataframe.from_pandas(local, npartitions=n_parts), local


def test_a_dask_collection_is_trained_on_where_it_is():
    import cloudpickle

    X, y = data()
    y = y > 0
    model = fitted("default", remote(X, len(y) // 3), remote(y, len(y) // 3))
    expected = assert_same_fit(model, "default", X, y)
    assert model.privacy_report().as_dict() == expected.privacy_report().as_dict()
    # predictions stay there too, block by block
    far = remote(X, 300)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        answers = getattr(model, method)(far)
        local = getattr(expected, method)(X)
        assert isinstance(answers, dask.array.Array)
        assert answers.chunks[0] == far.chunks[0]
        assert answers.dtype == local.dtype
        assert b"column_stack" not in cloudpickle.dumps(answers.dask)  # methods go by name
        np.testing.assert_allclose(answers.compute(), local, rtol=1e-12)
    assert model.score(far, y) == expected.score(X, y)


def test_frames_have_names_and_sparse_blocks_stay_sparse():
    X, y = data(600)
    table, local = frame(X)
    local["column 0"] = np.float32(1)
    table["column 0"] = np.float32(1)
    target, _ = frame(y[:, None])
    model = fitted("ridge", table, target["column 0"])
    expected = assert_same_fit(model, "ridge", local, y)
    assert model.feature_names_in_.tolist() == local.columns.tolist()
    np.testing.assert_allclose(model.predict(table).compute(), expected.predict(local))
    empty = table[table["column 1"] > 9]
    assert model.predict(empty).compute().shape == (0,)
    rows = sparse.csr_array(X * (np.abs(X) > 0.3)).astype(np.float32)
    far = remote(rows, 256)
    model = fitted("plain", far, remote(y > 0, 256))
    expected = assert_same_fit(model, "plain", rows, y > 0)
    np.testing.assert_array_equal(model.predict(far).compute(), expected.predict(rows))


def test_scalers_and_pipelines_train_there_too():
    from sklearn.pipeline import make_pipeline

    X, y = data(2000)
    far = remote(X, 512)
    far_y = remote(y > 0, 512)
    scaler = PrivateScaler(random_state=0)
    expected = copy.copy(scaler).fit(X)
    scaler.fit(far)
    assert scaler.mechanism_ == expected.mechanism_
    np.testing.assert_array_equal(scaler.transform(far).compute(), expected.transform(X))
    table, _ = frame(X)
    assert scaler.fit(table).feature_names_in_[0] == "column 0"
    steps = BoundsScaler((-3, 3), (-0.4, 0.4)), RowMapper(0.9), MODELS["plain"]
    model = make_pipeline(*copy.deepcopy(steps))
    model.set_params(privatelogisticregression__random_state=0)
    expected = copy.deepcopy(model).fit(X, y > 0)
    np.testing.assert_allclose(model.fit(far, far_y)[-1].coef_, expected[-1].coef_)
    with pytest.raises(ValueError, match="groups needs all rows in memory"):
        PrivateScaler().fit(far, groups=far_y)


def test_lengths_that_dask_does_not_know_are_counted():
    """A frame that goes through a step of a pipeline is an array whose lengths Dask forgot."""
    X, y = data(600)
    far = remote(X, 300)
    far_y = remote(y > 0, 300)
    chosen = far[:, 0] > -99
    expected = PrivateLogisticRegression(**BINARY, random_state=0).fit(X, y > 0)
    found = copy.deepcopy(expected).fit(far[chosen], far_y[chosen])
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    from sklearn.pipeline import make_pipeline

    table, _ = frame(X)
    model = make_pipeline(BoundsScaler((-3, 3)), PrivateLogisticRegression(**BINARY))
    model.fit(table, table["column 0"] > 0)
    assert model[-1].n_samples_ == 600


def test_what_a_cluster_cannot_train_on_is_refused_with_the_remedy():
    X, y = data(600)
    far = remote(X, 300)
    far_y = remote(y > 0, 300)
    table, _ = frame(X)
    words = table.assign(ward="north", day=np.datetime64("2024-01-01", "s"))
    refused = [
        (far, None, "y=None"),
        (far, y > 0, "from_array"),
        (far, table, "y should be a 1d array"),
        (far, far_y[:599], "not in the 2 partitions"),
        (table, table["column 0"].repartition(npartitions=1), "not in the 3 partitions"),
        (far.rechunk({1: 2}), far_y, r"X\.rechunk\(\{1: -1\}\)"),
        (far[:, 0], far_y, "of two axes"),
        (words, far_y, r"not numbers: 'ward' \(\w+\), 'day' \(datetime64\[s\]\)"),
        (far.astype("M8[s]"), far_y, "not numbers"),
        (far.astype(complex), far_y, "Real numbers"),
        (far[:, :0], far_y, r"0 feature\(s\)"),
        (X, far_y, "not Dask collections"),
    ]
    for rows, targets, message in refused:
        with pytest.raises((ValueError, TypeError), match=message):
            PrivateLogisticRegression(**BINARY).fit(rows, targets)
    with pytest.raises(TypeError, match="PrivateSearchCV takes arrays in memory"):
        PrivateSearchCV(PrivateLogisticRegression(**BINARY), {"alpha": [1.0]}).fit(far, far_y)
    with pytest.raises(ValueError, match="classes="):
        PrivateLogisticRegression(classes="from_y").fit(far, far_y.astype(int))
    with pytest.raises(ValueError, match="target_bounds="):
        PrivateRidge().fit(far, far_y)
    counts = PrivatePoissonRegressor(target_bounds=(0, 5))
    for exposure, message in (
        (np.ones(600), "exposure is not. Pass exposure"),
        (far, "exposure should be a 1d array"),
        (far_y[:599], "exposure is not in the 2 partitions"),
        (far[:, 0], "one finite number > 0"),
        (far_y.astype("M8[s]"), "one finite number > 0"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            counts.fit(far, far_y, exposure=exposure)
    with pytest.raises(ValueError, match="groups needs all rows in memory"):
        PrivateLogisticRegression(**BINARY).fit(far, far_y, groups=far_y)


def test_errors_of_a_cluster_quote_no_record(here, monkeypatch):
    X, y = data(600)
    far = remote(X, 300)
    far_y = remote(y > 0, 300)

    def broken(block):
        raise OSError(f"cannot read {SECRET}")

    bad = far.map_blocks(broken, dtype=far.dtype, meta=np.empty((0, 0)))
    model = PrivateLogisticRegression(**BINARY)
    table, _ = frame(X)
    for rows in (bad, table.map_partitions(broken, meta=table)):
        with pytest.raises(ClusterError, match=r"could not be computed \(OSError") as caught:
            model.fit(rows, far_y)
        assert_quotes_nothing(caught.value)
    with monkeypatch.context() as patch:
        patch.setattr(driver, "LIMIT", 0.2)
        with pytest.raises(ClusterError, match="does not answer"):
            driver._in_time(time.sleep, 0.6)
        patch.setattr(here, "scheduler_info", lambda n_workers: {"workers": {}})
        with pytest.raises(ClusterError, match="no worker"):
            model.fit(far, far_y)


def test_without_a_cluster_the_error_says_how_to_begin_one():
    code = (
        "import dask.array as da; from skdpdyn import PrivateRidge\n"
        "try: PrivateRidge(target_bounds=(0, 1)).fit(da.ones((9, 1)), da.ones(9))\n"
        "except ValueError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "distributed.Client()" in run.stdout


# --- workers that are processes, and die ----------------------------------------------------------


@contextmanager
def two_processes(**options):
    """A cluster of two processes of one thread."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"} | options
    settings = {
        "distributed.worker.memory.terminate": False,
        # Dask gives up a worker that begins again for longer than this
        "distributed.deploy.lost-worker-timeout": "1h",
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def processes():
    with two_processes() as client:
        yield client


def stop_one(client, with_signal):
    """End a worker's process at once, as a machine's end would, or have it stand still."""
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, with_signal)
    return pid


@pytest.mark.parametrize("phase", ["placing", "conditioning", "stepping", "broadcast", "frozen"])
def test_a_worker_that_is_killed_costs_no_bit(processes, phase, monkeypatch):
    """Or one that stands still: here for 3 seconds, not 30."""
    X, y = data()
    with_signal = signal.SIGSTOP if phase == "frozen" else signal.SIGKILL
    if phase == "frozen":
        monkeypatch.setattr(driver, "LIMIT", 3.0)
    wait = distributed.wait
    asked = driver.Session._send
    stopped = []
    names = []

    def stop_at(when):
        if when == phase and not stopped:
            stopped.append(stop_one(processes, with_signal))

    def waiting(*arguments, **options):
        stop_at("placing")
        return wait(*arguments, **options)

    def asking(self, share, question, told):
        names.append(question[0])
        stop_at("broadcast" if names[-1] == "point" else "")  # a step is done, its point not sent
        return asked(self, share, question, told)

    def awaiting(awaited, session, share, call):
        stop_at({"point": "stepping", "summed": "conditioning"}.get(names[-1]))
        stop_at({"point": "frozen"}.get(names[-1]))
        return awaited(session, share, call)

    monkeypatch.setattr(distributed, "wait", waiting)
    monkeypatch.setattr(driver.Session, "_send", asking)
    alter_answers(monkeypatch, awaiting)
    start = time.monotonic()
    model = fitted("default", remote(X, SIZE), remote(y > 0, SIZE))
    assert time.monotonic() - start < 120  # no hang; the benchmark has 30 seconds
    (pid,) = stopped
    if phase == "frozen":
        os.kill(pid, signal.SIGCONT)
    assert_same_fit(model, "default", X, y > 0)
    processes.wait_for_workers(2, timeout=30)
    assert_nothing_is_left(processes)


def test_an_interrupt_ends_the_fit_and_the_tasks_of_workers(processes, monkeypatch):
    X, y = data()
    far = remote(X, SIZE), remote(y > 0, SIZE)
    ask = driver.Session.ask
    asked = []

    def interrupted(self, question, *told):
        asked.append(question[0])
        if asked.count("point") == 3:
            signal.raise_signal(signal.SIGINT)
        return ask(self, question, *told)

    model = copy.deepcopy(MODELS["default"])
    # a shell has its background jobs ignore the signal
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(driver.Session, "ask", interrupted)
            with pytest.raises(KeyboardInterrupt):
                model.fit(*far)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not hasattr(model, "coef_")
    assert_nothing_is_left(processes)
    model.fit(*far)  # and the cluster serves on


def test_a_planted_value_is_nowhere(processes, monkeypatch):
    """Neither in logs nor in errors, in nothing that the scheduler was told, in no answer."""
    X = np.full((600, 3), SECRET)
    y = np.full(600, SECRET)
    missing = X.copy()
    missing[-1, 0] = np.nan
    ridge = PrivateRidge(target_bounds=(0, 1), random_state=0)
    counts = PrivatePoissonRegressor(target_bounds=(0, 1), random_state=0)
    told = []
    n_errors = 0

    def answered(awaited, session, share, call):
        told.append(awaited(session, share, call))
        return told[-1]

    alter_answers(monkeypatch, answered)
    far_y = remote(y, 300)
    for kind in (np.asarray, np.float32, sparse.csr_array):
        rows, bad = (remote(kind(part), 300) for part in (X, missing))
        for fit in (
            lambda rows=rows: ridge.fit(rows, far_y),
            lambda rows=rows: counts.fit(rows, far_y, exposure=far_y),
            lambda bad=bad: ridge.fit(bad, far_y),
            lambda rows=rows: PrivateLogisticRegression(**BINARY).fit(rows, far_y),
            lambda rows=rows: counts.fit(rows, far_y, exposure=far_y - 1),
        ):
            try:
                fit()
            except Exception as error:
                assert_quotes_nothing(error)
                n_errors += 1
    table, _ = frame(missing)
    with pytest.raises(ValueError, match="missing") as caught:
        ridge.fit(table, table["column 1"])
    assert_quotes_nothing(caught.value)
    assert n_errors == 6
    assert len(told) > 100
    told += [processes.get_worker_logs(), processes.get_scheduler_logs(), processes.get_events()]
    told += [processes.get_task_stream(start=0), processes.scheduler_info(n_workers=-1)]
    assert str(SECRET)[:6] not in repr(told)
    for secret in (np.float64(SECRET), np.float32(SECRET)):
        assert secret.tobytes() not in pickle.dumps(told)


def test_connections_have_the_tls_of_the_cluster():
    pytest.importorskip("cryptography")
    X, y = data(1000)
    with two_processes(security=True, n_workers=1) as client:
        assert client.scheduler.address.startswith("tls://")
        model = fitted("plain", remote(X, 256), remote(y > 0, 256))
    assert_same_fit(model, "plain", X, y > 0)
