"""Rows on a cluster: the bits of a local fit, whoever is lost, and nothing of a record on the way.

The first half has workers that are threads of this process, without Dask; the second has Dask.
"""

import copy
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config
from scipy import sparse
from sklearn.base import is_regressor

import skdpdyn
from skdpdyn import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.data.cluster import driver, wire, worker
from skdpdyn.data.cluster.driver import ClusterRows
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import ClusterError
from skdpdyn.kernels.passes import Gradients
from skdpdyn.losses import logistic
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.objective import Objective
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper
from skdpdyn.solvers import (
    DPSGD,
    DPSVRG,
    BassilySGD,
    NoisyGD,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    SufficientStatistics,
)

pytestmark = pytest.mark.system

# Two chunks of sums for conditioning, and edges of gradients' chunks between them
N_SAMPLES = 1_000 if config.DISABLE_JIT else 30_000
SECRET = 0.123456789


class Threads:
    """Workers that are threads of this process: all that a session asks of a cluster."""

    version = skdpdyn.__version__
    dumps = staticmethod(pickle.dumps)
    feature_names = None

    def __init__(self, X, y, lengths, numeric=False, exposure=None):
        self.lengths, self.n_features = list(lengths), X.shape[1]
        self.dtype, self.is_sparse = X.dtype.name, sparse.issparse(X)
        edges = np.concatenate([[0], np.cumsum(self.lengths)])
        targets = [part for part in (y, exposure) if part is not None]
        self.has_exposure, self.parts = exposure is not None, []
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            form = worker.Form(
                last - first, X.shape[1], self.dtype, self.is_sparse, numeric, len(targets)
            )
            if last > first:
                parts = (part[first:last] for part in (X, *targets))
                self.parts.append(worker.Part(form, *parts))
        self.n_placed, self.tasks, self.stops = 0, [], False

    def address(self):
        return "127.0.0.1", 0

    def listening_context(self):
        return None

    def shares(self):
        """Alternate: the partitions of a worker are no neighbours."""
        parts = range(len(self.parts))
        return [list(parts[start::2]) for start in range(min(2, len(parts)))]

    def place(self, parts, invitation):
        self.n_placed += 1
        task = SimpleNamespace(over=False, sock=None)
        self.tasks.append(task)
        threading.Thread(target=self._attend, args=(task, parts, invitation), daemon=True).start()
        return task

    def _attend(self, task, parts, invitation):
        try:
            if self.stops:
                return
            channel = wire.answer_invitation(invitation)
            task.sock = channel._sock
            worker.serve(channel, [self.parts[part] for part in parts], 1)
            channel.close()
        finally:
            task.over = True

    def kill(self, task):
        task.sock.shutdown(socket.SHUT_RDWR)

    def lose(self, task):
        self.release(task)

    def release(self, task):
        self.tasks.remove(task)

    def is_lost(self, task):
        return task.over


def data(n_samples=N_SAMPLES, n_features=5, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features)) / 2
    return X.astype(dtype), X @ np.arange(n_features) + 0.1 * rng.standard_normal(n_samples)


def cut(n_samples, n_parts, multiple=1):
    """Lengths of partitions that end at multiples of a number of rows."""
    edges = np.linspace(0, n_samples, n_parts + 1) // multiple * multiple
    edges[-1] = n_samples
    return np.diff(edges).astype(int).tolist()


def problem(X):
    return Objective(logistic, *X.shape, data_norm=1.0, alpha=0.1, clip=1.0, intercept_scaling=0.25)


def identity(y):
    return y


def all_sums(rows, objective):
    """All that a fit may ask of rows: sums of conditioning, sums of gradients, counts."""
    thresholds = np.linspace(0, 2, 9)
    moments = [rows.target_sum(), rows.column_sums(), rows.column_sums(0.5)]
    moments.append(rows.products(1.0, 0.25))
    moments.append(rows.residual_sum(0.1))
    compared = "norms", "distances", "residuals"
    counts = [list(rows.counts(of, thresholds, 0.1)) for of in compared]
    gradients = []
    row_map = RowMap(None, np.linspace(1, 2, rows.shape[1]), norm=1.5, radius=1.0)
    for mapped in (rows.with_map(row_map), rows.with_map(row_map).with_norm(0.7)):
        counts.append(list(mapped.counts("lengths", thresholds)))
        moments += [mapped.column_squares(), mapped.second_moment()]
        point = np.linspace(0, 1, objective.n_parameters)
        gradients += [mapped.gradient(objective, point), mapped.gradient(objective, -point)]
    return {"moments": moments, "gradients": gradients, "counts": counts}


@pytest.mark.parametrize("kind", ["dense", "csr", "float32"])
@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_sums_have_the_bits_of_local_ones(kind, n_parts):
    """Where partitions end with chunks; else they are as close as rounding has them."""
    X, y = data(dtype=np.float32 if kind == "float32" else np.float64)
    X = sparse.csr_array(X * (np.abs(X) > 0.3)) if kind == "csr" else X
    y, exposure = y / 5, np.linspace(0.5, 2, len(y))
    local, objective = LocalRows(X, y, exposure=exposure), problem(X)
    what = Gradients.of(replace(objective, exact=True), local)
    sizes = {
        "moments": int(local.moment_edges()[1]),
        "gradients": int(local.chunk_edges(what.n_chunks)[1]),
    }
    expected = all_sums(local, objective)
    for aligned, multiple in sizes.items():
        cluster = Threads(X, y, cut(len(y), n_parts, multiple), exposure=exposure)
        rows = ClusterRows(cluster).with_targets(identity)
        found = all_sums(rows, objective)
        rows.close()
        assert found["counts"] == expected["counts"]
        for name, sums in expected.items():
            for ours, theirs in zip(found[name], sums, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * len(y))
                if name == aligned or n_parts == 1:
                    np.testing.assert_array_equal(ours, theirs)


BINARY = {"classes": [False, True]}
MODELS = {
    "default": PrivateLogisticRegression(**BINARY),
    "plain": PrivateLogisticRegression(**BINARY, conditioning=None, solver=NoisyGD(n_steps=5)),
    "minimiser": PrivateLogisticRegression(**BINARY, solver=OutputPerturbation(), clip=1.0),
    "objective": PrivateLogisticRegression(**BINARY, solver=ObjectivePerturbation()),
    "softmax": PrivateSoftmaxRegression(classes=[0, 1, 2]),
    "svc": PrivateLinearSVC(**BINARY),
    "weights": PrivateLogisticRegression(**BINARY, class_weight={True: 3.0}),
    "private weights": PrivateLogisticRegression(
        **BINARY, class_weight="private", solver=NoisyGD(n_steps=5)
    ),
    "diagnostics": PrivateRidge(target_bounds=(-1, 1), diagnostics=True),
    "ridge": PrivateRidge(target_bounds=(-5, 5)),
    "statistics": PrivateRidge(target_bounds=(-5, 5), solver=SufficientStatistics()),
    "counts": PrivatePoissonRegressor(target_bounds=(0, 3), diagnostics=True),
    "rates": PrivatePoissonRegressor(target_bounds=(0, 3)),
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


def assert_same_fit(model, expected):
    for name in ("coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))
    assert model.mechanism_ == expected.mechanism_
    assert model.privacy_ == expected.privacy_ == model.privacy_cost(*expected._shape)
    assert model.coef_.dtype == expected.coef_.dtype
    for name in ("class_weight_", "diagnostics_"):
        assert getattr(model, name, None) == getattr(expected, name, None)


@pytest.mark.parametrize("name", MODELS)
def test_fits_on_threads_are_the_local_ones(name):
    X, y = data()
    y = target(name, y)
    expected = fitted(name, X, y, **extras(name, y))
    expected._shape = X.shape
    numeric = is_regressor(MODELS[name])
    cluster = Threads(X, y, cut(len(y), 3, 256), numeric, **extras(name, y))
    assert_same_fit(fitted(name, ClusterRows(cluster), None), expected)


# --- faults ---------------------------------------------------------------------------------------


def kill_before(cluster, session, name, times=1):
    """Have a worker lost before a request of this name, or while its answer is read."""
    ask, left = session._ask, [times]

    def hooked(request, kind, take):
        asked = "point" if kind == wire.POINT else "placing"
        if kind == wire.CALL and session._shares:
            asked = pickle.loads(request(session._shares[0]))[0]

        def taking(read):
            if left[0] and name == f"answer to {asked}":
                left[0] -= 1
                cluster.kill(session._shares[-1].task)
            return take(read)

        if left[0] and name == asked:
            left[0] -= 1
            cluster.kill(session._shares[-1].task)
        return ask(request, kind, taking)

    session._ask = hooked
    return left


PHASES = ["counted", "summed", "gradients", "point", "answer to point", "answer to map"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_lost_worker_costs_no_bit(phase):
    X, y = data()
    expected = fitted("default", X, y > 0)
    expected._shape = X.shape
    cluster = Threads(X, y > 0, cut(len(y), 3, 256))
    rows = ClusterRows(cluster)
    left = kill_before(cluster, rows._session, phase)
    assert_same_fit(fitted("default", rows, None), expected)
    assert left == [0]
    assert cluster.n_placed == 3
    assert not cluster.tasks  # all are forgotten


def test_a_worker_that_is_lost_again_and_again_is_an_error(monkeypatch):
    monkeypatch.setattr(driver, "_LOOK", 0.1)
    X, y = data(500)
    cluster = Threads(X, y, [500])
    rows = ClusterRows(cluster).with_targets(identity)
    for phase in ("placing", "summing"):
        if phase == "placing":
            cluster.stops = True
        else:
            cluster.stops = False

            def dies(*arguments):
                raise OSError

            monkeypatch.setattr(worker, "_answer", dies)
        with pytest.raises(ClusterError, match="lost 5 times"):
            rows.target_sum()
        rows.close()
    monkeypatch.undo()
    assert rows.target_sum() == LocalRows(X, y).target_sum()  # one may try again
    rows.close()


def test_a_silent_worker_is_lost(monkeypatch):
    """It has 30 seconds, here a quarter of one, in which a worker that computes gives a sign."""
    monkeypatch.setattr(wire, "LIMIT", 0.25)
    monkeypatch.setattr(worker, "BEAT", 0.05)
    X, y = data(500)
    rows = ClusterRows(Threads(X, y, [500])).with_targets(identity)
    rows.target_sum()
    slow, waits = worker.Answers.counted, [1.0]

    def slowly(self, *arguments):
        time.sleep(waits[0])
        return slow(self, *arguments)

    monkeypatch.setattr(worker.Answers, "counted", slowly)
    assert rows.counts("norms", np.array([9.0])) == [500]  # it has said that it computes
    assert rows._session._cluster.n_placed == 1
    monkeypatch.setattr(worker, "BEAT", 99.0)
    rows.close()
    rows = ClusterRows(Threads(X, y, [500])).with_targets(identity)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(rows.counts, "norms", np.array([9.0]))
        time.sleep(0.9)  # silent for three times as long as it may be
        waits[0] = 0.0
        assert asked.result(10) == [500]
    assert rows._session._cluster.n_placed > 1
    rows.close()


def test_workers_stop_when_nobody_waits():
    """As soon as the driver hangs up, or asks for something else."""
    X, y = data(500)
    cluster = Threads(X, y, [250, 250])
    rows = ClusterRows(cluster).with_targets(identity)
    rows.target_sum()
    started = threading.Event()
    part = LocalRows.part
    asked = []

    def counted_part(self, *arguments):
        asked.append(time.monotonic())
        started.set()
        time.sleep(0.1)
        return part(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalRows, "part", counted_part)
        patch.setattr(worker, "_AT_ONCE", 5)  # a hundred pieces, ten seconds
        session, tasks = rows._session, list(cluster.tasks)
        session.tell("map", RowMap(None, np.ones(5), norm=1.5, radius=1.0))
        call = pickle.dumps(("counted", ("lengths", np.ones(1), 0.0)))
        for share in session._shares:
            share.send(wire.CALL, 99, call)
        assert started.wait(5)
        start = time.monotonic()
        rows.close()
        while not all(task.over for task in tasks):
            assert time.monotonic() - start < 1
            time.sleep(0.01)
    assert len(asked) < 50


def test_nobody_is_admitted_without_the_token():
    open_, listening = wire.Invitation(("127.0.0.1", 0), "1"), wire.listen("127.0.0.1")
    invitation = wire.Invitation(listening.getsockname(), "1", open_.name, open_.token)
    guess = wire.Invitation(listening.getsockname(), "1", open_.name, b"0" * 32)
    stranger = wire.Invitation(listening.getsockname(), "1")
    assert open_.token.hex() not in repr(open_)
    assert repr(open_.token) not in repr(open_)

    def admitted(who):
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(wire.answer_invitation, who)
            sock, _ = listening.accept()
            try:
                name, channel = wire.admit(sock, {open_.name: open_})
            except OSError:
                sock.close()
                with pytest.raises(OSError, match=r"."):
                    coming.result()
                raise
            channel.close()
            coming.result().close()
            return name

    assert admitted(invitation) == open_.name
    for who in (guess, stranger):
        with pytest.raises(OSError, match=r"not an invited worker|connection has ended"):
            admitted(who)
    # one who reflects what it is sent proves nothing
    with socket.create_connection(listening.getsockname()) as reflects:
        sock, _ = listening.accept()
        reflects.sendall(open_.name + bytes(32) + bytes(32))
        with pytest.raises(OSError, match="not an invited worker"):
            wire.admit(sock, {open_.name: open_})
        assert len(reflects.recv(99)) == 64
        sock.close()
    listening.close()


def test_what_a_worker_holds_does_not_leave_it():
    X, y = np.full((300, 2), SECRET), np.full(300, SECRET)
    part = worker.Part(worker.Form(300, 2, "float64", False, True), X, y)
    for seen in (repr(part), str(part), f"{part}"):
        assert str(SECRET)[:6] not in seen
    for dumps in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="do not leave their worker"):
            dumps(part)
    assert sys.getsizeof(part) >= X.nbytes
    assert not hasattr(ClusterRows, "pieces")


def _with(X, y, row, column, value):
    X = X.copy()
    X[row, column] = value
    return X, y


def _masked(X, y):
    return np.ma.MaskedArray(X, X > 9e9) if X is None else (np.ma.masked_greater(X, 1.0), y)


FAULTS = {
    "missing": (lambda X, y: _with(X, y, -1, 2, np.nan), r"columns \[2\] hold missing"),
    "infinite": (lambda X, y: _with(X, y, -1, 0, np.inf), r"columns \[0\] hold missing"),
    "long": (lambda X, y: _with(X, y, -1, 0, 1e200), "norm exceeds"),
    "masked": (_masked, "masked cells"),
    "label": (lambda X, y: (X, np.where(np.arange(len(y)) == len(y) - 1, 2, y)), "not in classes"),
    "text": (lambda X, y: (X.astype("U9"), y), "could not be read as numbers"),
    "dates": (lambda X, y: (X.astype("M8[s]"), y), "could not be read as numbers"),
    "sparse": (lambda X, y: (sparse.csr_array(X), y), "sparse and others dense"),
    "shape": (lambda X, y: (X[1:], y), "another shape"),
    "targets": (lambda X, y: (X, y[1:]), "another shape"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_local_fit_refuses_is_refused(fault):
    X, y = data(600)
    X[-1] = SECRET
    cluster = Threads(X, (y > 0).astype(float), [300, 300])
    form = worker.Form(300, 5, "float64", False, False)
    change, message = FAULTS[fault]
    cluster.parts[1] = worker.Part(form, *change(X[300:], (y > 0).astype(float)[300:]))
    model = PrivateLogisticRegression(classes=[0, 1])
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(ClusterRows(cluster))
    assert not [name for name in vars(model) if name.endswith("_")]
    seen = caught.value
    while seen is not None:
        assert str(SECRET)[:6] not in str(seen)
        seen = seen.__cause__ or seen.__context__


def test_errors_of_workers_are_codes(monkeypatch):
    X, y = sparse.csr_array(data(300)[0]), np.zeros(300)
    form = worker.Form(300, 5, "float64", True, True)
    malformed = X.copy()
    malformed.indices[0] = 99
    assert worker.Part(form, malformed, y).refusal == (worker.MALFORMED,)
    X.data[0] = np.nan
    assert worker.Part(form, X, y).refusal == (worker.MISSING, X.indices[0])
    assert sys.getsizeof(worker.Part(form, malformed, y)) < 300
    assert worker.Part(form, None, y).refusal == (worker.KIND,)
    X, y = data(300)
    objects = np.array([1.0, *y[1:]], dtype=object)
    numeric = worker.Form(300, 5, "float64", False, True)
    assert worker.Part(numeric, X, objects).rows[1].dtype == np.float64
    assert worker.Part(numeric, X, np.array([None] * 300)).refusal is None
    assert worker.Part(numeric, X, np.array(["1", *y[1:]], object)).rows[1][0] == 1.0
    monkeypatch.setattr(worker, "_rows_of", lambda *arguments: np.empty(10**18))
    assert worker.Part(numeric, X, y).refusal == (worker.MEMORY,)
    monkeypatch.undo()
    rows = ClusterRows(Threads(X, y, [300], True)).with_targets(identity)

    def failing(error):
        def counted(self, *arguments):
            raise error

        return counted

    for error, kind in ((RuntimeError(str(SECRET)), ValueError), (MemoryError(), MemoryError)):
        monkeypatch.setattr(worker.Answers, "counted", failing(error))
        with pytest.raises(kind, match="worker") as caught:
            rows.counts("norms", np.ones(1))
        assert str(SECRET) not in str(caught.value)
    assert rows.target_sum() == LocalRows(X, y).target_sum()  # it serves on
    rows.close()
    rows = ClusterRows(Threads(X, np.full(300, np.nan), [300], True))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        PrivateRidge(target_bounds=(0, 1)).fit(rows)
    session = driver.Session(None)
    session.encode = identity
    assert "targets that cannot be read" in str(session._refused(worker.TARGETS, True))


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
    cluster = Threads(X, y > 0, [130, 0, 500, 370])
    rows = ClusterRows(cluster)
    kill_before(cluster, rows._session, "answer to batch")
    seen, ask = [], rows._session.ask

    def asked(take, what, *arguments, of_parts=None):
        if what == "batch":
            seen.append([p + s for p, s in zip(of_parts, (0, 130, 630), strict=True)])
        return ask(take, what, *arguments, of_parts=of_parts)

    rows._session.ask = asked
    model.fit(rows)
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


def test_what_needs_all_rows_in_memory_says_so():
    X, y = data(600)
    rows = ClusterRows(Threads(X, y > 0, [300, 300]))
    for solver in (BassilySGD(), DPSVRG()):
        with pytest.raises(ValueError, match="all rows in memory, and X is a ClusterRows"):
            PrivateLogisticRegression(**BINARY, solver=solver).fit(rows)


# --- Dask -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dask():
    """Dask's modules, or a skip."""
    pytest.importorskip("distributed")
    import dask.array
    import dask.dataframe

    dask.config.set({"distributed.worker.memory.terminate": False})
    return SimpleNamespace(array=dask.array, frame=dask.dataframe, config=dask.config)


@pytest.fixture(scope="module")
def here(dask):
    """A cluster whose worker is in this process, where coverage sees it."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(processes=False, **options) as cluster, Client(cluster) as client:
        yield client


def blocks(dask, X=None, *y, size):
    """Collections of arrays, in blocks of a size; of a sparse X too."""
    if X is None:
        return ()
    if sparse.issparse(X):
        dense = dask.array.from_array(X.toarray(), chunks=(size, -1))
        return dense.map_blocks(sparse.csr_array), *blocks(dask, *y, size=size)
    chunks = size if X.ndim == 1 else (size, -1)
    first = dask.array.from_array(X, chunks=chunks)
    return (first, *blocks(dask, *y, size=size)) if y else (first,)


def frame(dask, X, n_parts=3):
    """A frame of Dask, and the same one in memory."""
    import pandas as pd

    local = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    return dask.frame.from_pandas(local, npartitions=n_parts), local


def test_a_dask_collection_is_trained_on_where_it_is(dask, here):
    import cloudpickle

    X, y = data()
    y = y > 0
    expected = fitted("default", X, y)
    expected._shape = X.shape
    model = fitted("default", *blocks(dask, X, y, size=len(y) // 3))
    assert_same_fit(model, expected)
    assert model.privacy_report().as_dict() == expected.privacy_report().as_dict()
    # predictions stay there too, block by block
    (far,) = blocks(dask, X, size=300)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        answers, local = getattr(model, method)(far), getattr(expected, method)(X)
        assert isinstance(answers, dask.array.Array)
        assert answers.chunks[0] == far.chunks[0]
        assert answers.dtype == local.dtype
        assert b"column_stack" not in cloudpickle.dumps(answers.dask)  # methods go by name
        np.testing.assert_allclose(answers.compute(), local, rtol=1e-12)
    assert model.score(far, y) == expected.score(X, y)


def test_frames_have_names_and_sparse_blocks_stay_sparse(dask, here):
    X, y = data(600)
    table, local = frame(dask, X)
    local["column 0"] = np.float32(1)
    table["column 0"] = np.float32(1)
    target, _ = frame(dask, y[:, None])
    model = fitted("ridge", table, target["column 0"])
    expected = fitted("ridge", local, y)
    expected._shape = X.shape
    assert_same_fit(model, expected)
    assert model.feature_names_in_.tolist() == local.columns.tolist()
    np.testing.assert_allclose(model.predict(table).compute(), expected.predict(local))
    empty = table[table["column 1"] > 9]
    assert model.predict(empty).compute().shape == (0,)
    rows = sparse.csr_array(X * (np.abs(X) > 0.3)).astype(np.float32)
    expected = fitted("plain", rows, y > 0)
    expected._shape = X.shape
    model = fitted("plain", *blocks(dask, rows, y > 0, size=256))
    assert_same_fit(model, expected)
    far, _ = blocks(dask, rows, y, size=256)
    np.testing.assert_array_equal(model.predict(far).compute(), expected.predict(rows))


def test_scalers_and_pipelines_train_there_too(dask, here):
    from sklearn.pipeline import make_pipeline

    X, y = data(2000)
    far, far_y = blocks(dask, X, y > 0, size=512)
    for options in ({}, {"equalize": True}, {"with_mean": False}):
        scaler = PrivateScaler(random_state=0, **options)
        expected = copy.copy(scaler).fit(X)
        scaler.fit(far)
        assert scaler.mechanism_ == expected.mechanism_
        np.testing.assert_allclose(scaler.transform(far).compute(), expected.transform(X))
    table, _ = frame(dask, X)
    assert scaler.fit(table).feature_names_in_[0] == "column 0"
    steps = BoundsScaler((-3, 3), (-0.4, 0.4)), RowMapper(0.9), MODELS["plain"]
    model = make_pipeline(*copy.deepcopy(steps)).set_params(
        privatelogisticregression__random_state=0
    )
    expected = copy.deepcopy(model).fit(X, y > 0)
    np.testing.assert_allclose(model.fit(far, far_y)[-1].coef_, expected[-1].coef_)
    with pytest.raises(ValueError, match="bounds='private' needs all rows in memory"):
        PrivateScaler(bounds="private", crude_bounds=(0, 1)).fit(far)
    with pytest.raises(ValueError, match="groups needs all rows in memory"):
        PrivateScaler().fit(far, groups=far_y)
    with pytest.raises(ValueError, match="with_mean=False"):
        PrivateScaler().fit(far.map_blocks(sparse.csr_array))


def test_what_a_cluster_cannot_train_on_is_refused_with_the_remedy(dask, here):
    X, y = data(600)
    far, far_y = blocks(dask, X, y > 0, size=300)
    table, _ = frame(dask, X)
    words = table.assign(ward="north")
    unknown = far[far[:, 0] > -99]
    refused = [
        (far, None, "y=None"),
        (far, y > 0, "from_array"),
        (far, table, "y should be a 1d array"),
        (far, far_y[:599], "not in the 2 partitions"),
        (table, table["column 0"].repartition(npartitions=1), "not in the 3 partitions"),
        (far.rechunk({1: 2}), far_y, r"X\.rechunk\(\{1: -1\}\)"),
        (unknown, far_y, "compute_chunk_sizes"),
        (far[:, 0], far_y, "of two axes"),
        (words, far_y, "not numbers: 'ward'"),
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
    with pytest.raises(ValueError, match="classes=None"):
        PrivateLogisticRegression().fit(far, far_y)
    with pytest.raises(ValueError, match="target_bounds=None"):
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
    with pytest.raises(ValueError, match="needs all rows in memory, and X is a ClusterRows"):
        PrivateLogisticRegression(**BINARY, solver=BassilySGD()).fit(far, far_y)


def test_errors_of_a_cluster_quote_no_record(dask, here, monkeypatch):
    X, y = data(600)
    far, far_y = blocks(dask, X, y > 0, size=300)

    def broken(block):
        raise OSError(f"cannot read {SECRET}")

    bad = far.map_blocks(broken, dtype=far.dtype, meta=np.empty((0, 0)))
    model = PrivateLogisticRegression(**BINARY)
    table, _ = frame(dask, X)
    for rows in (bad, table.map_partitions(broken, meta=table)):
        with pytest.raises(ClusterError, match=r"could not be computed \(OSError") as caught:
            model.fit(rows, far_y)
        seen = caught.value
        while seen is not None:
            assert str(SECRET)[:6] not in str(seen)
            seen = seen.__cause__ or seen.__context__
    from skdpdyn.data.cluster import dask as placing

    with monkeypatch.context() as patch:
        patch.setattr(placing, "_SHUNNED", 0.0)
        patch.setattr(placing, "serve", lambda *a: 1 / 0)
        patch.setattr(placing, "answer_invitation", lambda *a: SimpleNamespace(close=int))
        with pytest.raises(ClusterError, match="lost 5 times"):
            model.fit(far, far_y)
    of_another = wire.Invitation(("127.0.0.1", 0), "0")
    assert placing._attend(of_another, False) == placing._OTHER_VERSION
    with monkeypatch.context() as patch:
        patch.setattr(placing, "LIMIT", 0.2)
        with pytest.raises(ClusterError, match="does not answer"):
            placing._in_time(time.sleep, 0.6)
        patch.setattr(here, "scheduler_info", lambda n_workers: {"workers": {}})
        with pytest.raises(ClusterError, match="no worker"):
            model.fit(far, far_y)
    with dask.config.set({"skdpdyn.host": "localhost", "skdpdyn.port": 0}):
        model.fit(far, far_y)
    assert hasattr(model, "coef_")


def firewall():
    """Return what keeps workers of a process from connecting to the driver, and what ends that."""

    def put():
        from skdpdyn.data.cluster import dask as placing
        from skdpdyn.data.cluster.wire import answer_invitation

        def only_by_the_scheduler(invitation, context=None, sock=None):
            if sock is None:
                raise OSError("no route to host")
            return answer_invitation(invitation, context, sock)

        placing.answer_invitation = only_by_the_scheduler

    def end():
        from skdpdyn.data.cluster import dask as placing
        from skdpdyn.data.cluster.wire import answer_invitation

        placing.answer_invitation = answer_invitation

    return put, end


@pytest.fixture
def blocked(here):
    """Workers of this process that cannot connect to the driver."""
    put, end = firewall()
    put()
    yield here
    end()


def test_where_workers_cannot_connect_a_fit_goes_through_the_scheduler(dask, blocked):
    X, y = data(2000)
    expected = fitted("plain", X, y > 0)
    expected._shape = X.shape
    far, far_y = blocks(dask, X, y > 0, size=512)
    with pytest.warns(RuntimeWarning, match="cannot connect to this process"):
        assert_same_fit(fitted("plain", far, far_y), expected)
    X[-1, 0] = np.nan
    with (
        pytest.warns(RuntimeWarning, match="cannot connect"),
        pytest.raises(ValueError, match=r"columns \[0\] hold missing"),
    ):
        fitted("plain", *blocks(dask, X, y > 0, size=512))
    assert_nothing_is_left(blocked)


def assert_nothing_is_left(client):
    """No task, queue or thread of a fit, some seconds after it."""
    start = time.monotonic()
    while left := (
        client.run_on_scheduler(
            lambda dask_scheduler: [
                *dask_scheduler.tasks,
                *dask_scheduler.extensions["queues"].queues,
            ]
        )
        + [thread.name for thread in threading.enumerate() if "skdpdyn" in thread.name]
    ):
        assert time.monotonic() - start < 5, left
        time.sleep(0.02)


def test_a_relay_ends_where_a_message_is_missing(here):
    from distributed import Queue

    from skdpdyn.data.cluster import relay

    queue = Queue("one to worker", client=here)
    for message in ((0, b"first"), (1, b"second"), (3, b"fourth")):
        queue.put(message)
    with relay.worker_end(here, "one", lambda: True) as sock:
        sock.settimeout(10)
        received = b""
        while data := sock.recv(100):
            received += data
    assert received == b"firstsecond"
    queue.close()
    assert_nothing_is_left(here)


def test_a_relay_that_loses_a_message_is_a_lost_worker(dask, blocked, monkeypatch):
    from skdpdyn.data.cluster import relay

    class Forgetful(relay.Queue):
        n_messages = 0

        def put(self, message):
            Forgetful.n_messages += 1
            if Forgetful.n_messages != 20:
                super().put(message)

    X, y = data(2000)
    expected = fitted("plain", X, y > 0)
    expected._shape = X.shape
    monkeypatch.setattr(relay, "Queue", Forgetful)
    monkeypatch.setattr(driver.wire, "LIMIT", 1.0)
    with pytest.warns(RuntimeWarning, match="cannot connect"):
        assert_same_fit(fitted("plain", *blocks(dask, X, y > 0, size=512)), expected)
    assert Forgetful.n_messages > 30
    assert_nothing_is_left(blocked)


def test_without_a_cluster_the_error_says_how_to_begin_one(dask):
    code = (
        "import dask.array as da; from skdpdyn import PrivateRidge\n"
        "try: PrivateRidge(target_bounds=(0, 1)).fit(da.ones((9, 1)), da.ones(9))\n"
        "except ValueError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "distributed.Client()" in run.stdout


def test_nothing_loads_dask_before_it_is_needed():
    code = (
        "import sys, numpy; from skdpdyn import PrivateLogisticRegression as Model\n"
        "import skdpdyn.preprocessing, skdpdyn.data.cluster.driver\n"
        "print({name.partition('.')[0] for name in sys.modules} & {'dask', 'distributed'})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# --- workers that are processes, and die ----------------------------------------------------------

SIZE = 5_120


@contextmanager
def two_processes():
    """A cluster of two processes of one thread."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def processes(dask):
    """A cluster whose workers live."""
    with two_processes() as client:
        yield client


@pytest.fixture
def mortal(dask):
    """A cluster for one test, which may kill its workers."""
    with two_processes() as client:
        yield client


def kill_one(client):
    """End a worker's process at once, as a machine's end would."""
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_parts"), [("default", 1), ("default", 7), *((name, 2) for name in MODELS)]
)
def test_fits_on_a_cluster_have_the_bits_of_local_ones(dask, processes, name, n_parts):
    X, y = data()
    y, size = target(name, y), -(-len(y) // n_parts // 16) * 16
    for rows in (X, sparse.csr_array(X * (np.abs(X) > 0.3))):
        expected = fitted(name, rows, y, **extras(name, y))
        expected._shape = X.shape
        given = extras(name, y)
        far = dict(zip(given, blocks(dask, *given.values(), size=size), strict=True))
        assert_same_fit(fitted(name, *blocks(dask, rows, y, size=size), **far), expected)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["placing", "conditioning", "stepping", "broadcast", "relayed"])
def test_a_worker_that_is_killed_costs_no_bit(dask, mortal, phase, monkeypatch):
    if phase == "relayed":
        mortal.register_worker_callbacks(firewall()[0])
        told = pytest.warns(RuntimeWarning, match="cannot connect")
    else:
        told = nullcontext()
    X, y = data()
    expected = fitted("default", X, y > 0)
    expected._shape = X.shape
    far = blocks(dask, X, y > 0, size=SIZE)
    left, place, ask = [1], driver.Session._invite, driver.Session._ask

    def kill_once():
        if left.pop() if left else 0:
            kill_one(mortal)

    def invite(self, lost):
        if phase == "placing":
            kill_once()
        return place(self, lost)

    def asked(self, request, kind, take):
        if phase == "broadcast" and kind == wire.POINT:  # a step is done, its point is not sent
            kill_once()

        def taking(read):
            if phase in (["stepping", "relayed"] if kind == wire.POINT else ["conditioning"]):
                kill_once()
            return take(read)

        return ask(self, request, kind, taking)

    monkeypatch.setattr(driver.Session, "_invite", invite)
    monkeypatch.setattr(driver.Session, "_ask", asked)
    with told:
        assert_same_fit(fitted("default", *far), expected)
    assert not left
    assert_nothing_is_left(mortal)


@pytest.mark.slow
def test_an_interrupt_ends_the_fit_and_the_tasks_of_workers(dask, processes, monkeypatch):
    X, y = data()
    far = blocks(dask, X, y > 0, size=SIZE)
    ask, asked = driver.Session._ask, []

    def interrupted(self, request, kind, take):
        asked.append(kind)
        if asked.count(wire.POINT) == 3:
            signal.raise_signal(signal.SIGINT)
        return ask(self, request, kind, take)

    def tasks():
        return sum(processes.run(lambda dask_worker: len(dask_worker.state.tasks)).values())

    model = copy.deepcopy(MODELS["default"])
    monkeypatch.setattr(driver.Session, "_ask", interrupted)
    # a shell has its background jobs ignore the signal
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(*far)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not hasattr(model, "coef_")
    start = time.monotonic()
    while tasks():
        assert time.monotonic() - start < 1
        time.sleep(0.02)
    monkeypatch.undo()
    model.fit(*far)  # and the cluster serves on


@pytest.mark.slow
@pytest.mark.parametrize("relayed", [False, True])
def test_a_planted_value_is_nowhere(dask, mortal, relayed):
    """Neither in logs nor in errors, and in nothing that the scheduler was told."""
    with dask.config.set({"skdpdyn.relay": relayed}):
        look_for_planted_values(dask, mortal)


def look_for_planted_values(dask, processes):
    X, y = np.full((600, 3), SECRET), np.full(600, SECRET)
    missing = X.copy()
    missing[-1, 0] = np.nan
    ridge = PrivateRidge(target_bounds=(0, 1), random_state=0)
    counts = PrivatePoissonRegressor(target_bounds=(0, 1), random_state=0)
    (far_y,) = blocks(dask, y, size=300)
    n_errors = 0
    for kind in (np.asarray, np.float32, sparse.csr_array):
        (rows,), (bad,) = (blocks(dask, kind(part), size=300) for part in (X, missing))
        for fit in (
            lambda rows=rows: ridge.fit(rows, far_y),
            lambda rows=rows: counts.fit(rows, far_y, exposure=far_y),
            lambda bad=bad: ridge.fit(bad, far_y),
            lambda rows=rows: PrivateLogisticRegression(**BINARY).fit(rows, far_y),
            lambda rows=rows: counts.fit(rows, far_y, exposure=far_y - 1),
        ):
            seen = None
            try:
                fit()
            except Exception as error:
                seen, n_errors = error, n_errors + 1
            while seen is not None:
                assert str(SECRET)[:6] not in str(seen)
                seen = seen.__cause__ or seen.__context__
    table, _ = frame(dask, missing)
    with pytest.raises(ValueError, match="missing") as caught:
        ridge.fit(table, table["column 1"])
    assert str(SECRET)[:6] not in str(caught.value)
    assert n_errors == 9
    told = [processes.get_worker_logs(), processes.get_scheduler_logs(), processes.get_events()]
    told += [processes.get_task_stream(start=0), processes.scheduler_info()]
    assert str(SECRET)[:6] not in repr(told)
    for secret in (np.float64(SECRET), np.float32(SECRET)):
        assert secret.tobytes() not in pickle.dumps(told)


@pytest.mark.slow
def test_connections_have_the_tls_of_the_cluster(dask):
    pytest.importorskip("cryptography")
    from distributed import Client, LocalCluster

    X, y = data(1000)
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}
    expected = fitted("plain", X, y > 0)
    expected._shape = X.shape
    with LocalCluster(security=True, **options) as cluster, Client(cluster):
        far, admit, seen = blocks(dask, X, y > 0, size=256), wire.admit, []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                wire, "admit", lambda *args: seen.append(args[2].verify_mode.name) or admit(*args)
            )
            assert_same_fit(fitted("plain", *far), expected)
    assert set(seen) == {"CERT_REQUIRED"}
