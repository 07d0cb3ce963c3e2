"""Nothing crashes, hangs or tells: malformed input, errors, threads, interrupts, caches."""

import inspect
import json
import math
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from enum import Enum
from functools import partial
from importlib import import_module
from unittest.mock import patch

import numba
import numpy as np
import pandas as pd
import pytest
from releases import HOSTILE, Raises, Reshapes, Widens, shown
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpdyn import (
    PrivateGAMRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core.spending import Spending
from skdpdyn.data.base import Rows
from skdpdyn.data.rows import check_indices
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.evaluation import evaluate
from skdpdyn.inference import person_periods, private_regression
from skdpdyn.kernels.sums import fingerprint, finite_fingerprint
from skdpdyn.model_selection import PrivateSearchCV, private_search
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper
from skdpdyn.solvers import SOLVERS

RNG = np.random.default_rng(0)
N = 200
DENSE = RNG.uniform(-0.4, 0.4, (N, 4)) * (RNG.random((N, 4)) < 0.7)
LABELS = (DENSE[:, 0] > 0).astype(int)
MODELS = {
    "logistic": lambda **options: PrivateLogisticRegression(classes=[0, 1], **options),
    "softmax": lambda **options: PrivateSoftmaxRegression(classes=[0, 1], **options),
    "ridge": lambda **options: PrivateRidge(target_bounds=(0, 1), **options),
    "svc": lambda **options: PrivateLinearSVC(classes=[0, 1], **options),
    "counts": lambda **options: PrivatePoissonRegressor(target_bounds=(0, 3), **options),
}


def every_method(fitted):
    """Return names and functions of X and y of what reads records with a fitted model."""
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        if hasattr(fitted, method):
            yield method, lambda X, y, method=method: getattr(fitted, method)(X)
    yield "score", fitted.score
    if hasattr(fitted, "predict_proba") or not hasattr(fitted, "classes_"):
        yield "evaluate", lambda X, y: evaluate(fitted, X, y, epsilon=1.0)


def written(name, place, value):
    """Return what writes a number into the indices or the pointers of sparse rows."""

    def change(X):
        setattr(X, name, getattr(X, name).copy())
        getattr(X, name)[place] = value

    return change


MALFORMED = {
    "beyond the columns": written("indices", 7, 4),
    "far beyond": written("indices", 7, 2**31 - 1),
    "negative": written("indices", 7, -5),
    "short indptr": lambda X: setattr(X, "indptr", X.indptr[:-1]),
    "long indptr": lambda X: setattr(X, "indptr", np.append(X.indptr, X.indptr[-1])),
    "not from 0": written("indptr", 0, 1),
    "decreasing": written("indptr", 5, 10**6),
    "beyond the entries": written("indptr", -1, 10**6),
}


def malformed(change, format="csr"):
    X = sparse.csr_array(DENSE).asformat(format)
    change(X)
    return X


def refused(function, *arguments):
    with pytest.raises(ValueError, match="malformed sparse array"):
        function(*arguments)


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_malformed_sparse_rows_are_refused_by_name(change):
    """Compiled code would follow the indices out of the arrays."""
    bad = malformed(change)
    for model in MODELS.values():
        for solver in SOLVERS:
            refused(model(solver=solver).fit, bad, LABELS)
        refused(PrivateSearchCV(model(), {"clip": [0.1, 0.2]}).fit, bad, LABELS)
        for _, function in every_method(model(random_state=0).fit(DENSE, LABELS)):
            refused(function, bad, LABELS)
    refused(RowMapper(1.0).fit(DENSE).transform, bad)
    for format in ("csr", "csc"):
        bad = malformed(written("indices", 7, N) if format == "csc" else change, format)
        refused(MODELS["ridge"]().fit, bad, LABELS)


def test_other_formats_are_looked_at_too():
    coo = sparse.coo_array(DENSE)
    coo.coords[1][3] = 9
    lil = sparse.lil_array(DENSE)
    lil.rows[0] = [0, 99]
    lil.data[0] = [1.0, 1.0]
    bsr = sparse.bsr_array(sparse.csr_array(DENSE), blocksize=(2, 2))
    bsr.indices[0] = 2
    for X in (coo, lil, bsr):
        refused(check_indices, X)
        refused(MODELS["logistic"]().fit, X, LABELS)


def masked(array):
    """The array with its first cell masked; the cell itself would do."""
    return np.ma.masked_array(array, mask=np.arange(np.size(array)).reshape(np.shape(array)) == 0)


def test_masked_cells_are_refused():
    """In rows, targets, ids, exposures and weights of a score."""
    X = masked(DENSE)
    y = masked(LABELS)
    groups = np.arange(N) // 2
    calls = [(PrivateScaler().fit, X), (BoundsScaler((0, 1)).fit, X), (RowMapper(1.0).fit, X)]
    for model in MODELS.values():
        search = PrivateSearchCV(model(), {"clip": [0.1]}, epsilon=20.0)
        fitted = model().fit(np.ma.masked_array(DENSE), np.ma.masked_array(LABELS))
        for fit in (model().fit, search.fit):
            calls += [(fit, X, LABELS), (fit, DENSE, y), (fit, DENSE, LABELS, masked(groups))]
        calls.append((fit, [*X], LABELS))  # a list of masked rows
        for method, function in every_method(fitted):
            calls.append((function, X, LABELS))
            calls += [(function, DENSE, y)] * (method in ("score", "evaluate"))
        calls.append((fitted.score, DENSE, LABELS, masked(np.ones(N))))
    tabled = partial(private_regression, MODELS["ridge"](), epsilon=1.0, bounds=(-1, 1))
    calls += [(tabled, X, LABELS), (tabled, DENSE, y)]
    counts = MODELS["counts"]()
    calls.append((partial(counts.fit, exposure=masked(np.ones(N))), DENSE, LABELS))
    calls.append((partial(counts.fit(DENSE, LABELS).score, exposure=masked(np.ones(N))), DENSE, y))
    calls.append((partial(PrivateScaler().fit, groups=masked(groups)), DENSE))
    for function, *arguments in calls:
        with pytest.raises(ValueError, match="masked"):
            function(*arguments)


# --- no record in any error -----------------------------------------------------------------------

TEXT = "patient-4711"
NUMBER = 987654.321


class Opaque:
    """A cell that tells of itself whatever is done to it."""

    def _tell(self, *arguments):
        raise RuntimeError(TEXT)

    __float__ = __array__ = __len__ = __getitem__ = __eq__ = __lt__ = _tell
    __hash__ = None

    def __repr__(self):
        return TEXT


class Hashless(Opaque):
    def __hash__(self):
        raise RuntimeError(TEXT)


class Overflowing(Opaque):
    """One that raises what no conversion to numbers is expected to raise."""

    def __float__(self):
        raise OverflowError(TEXT)

    def __eq__(self, other):
        raise KeyError(TEXT)


def planted(array, value):
    array = np.array(array, dtype=object)
    array[(0,) * array.ndim] = value
    return array


FIRST = np.arange(DENSE.size).reshape(DENSE.shape) == 0
COLUMNS = dict.fromkeys("bcd", DENSE[:, 0])
ROWS = {
    "text": planted(DENSE, TEXT),
    "texts": planted(DENSE, TEXT).astype(str),
    "bytes": planted(DENSE, TEXT.encode()),
    "one dimension": planted(DENSE, NUMBER)[:, 0].astype(float),
    "a number": np.float64(NUMBER),
    "a text": TEXT,
    "complex": DENSE + NUMBER * 1j,
    "an object": planted(DENSE, Opaque()),
    "objects": [[Opaque()] * 4] * N,
    "opaque": Opaque(),
    "a dict": {TEXT: [NUMBER] * N},
    "a set": {TEXT, NUMBER},
    "ragged": [[NUMBER, 1.0], *DENSE.tolist()],
    "nested": planted(DENSE, [NUMBER, TEXT]),
    "NA beside": planted(planted(DENSE, NUMBER).T[::-1], pd.NA).T,
    "infinite": np.where(FIRST, np.inf, NUMBER),
    "too large": np.where(FIRST, 1e200, NUMBER),
    "an integer": planted(DENSE, int(str(NUMBER).replace(".", "") + "0" * 400)),
    "a frame": pd.DataFrame(planted(DENSE, TEXT)),
    "a category": pd.DataFrame({"a": pd.Categorical([TEXT, *["b"] * (N - 1)]), **COLUMNS}),
    "dates": pd.DataFrame({c: pd.date_range("1971-04-07", periods=N) for c in "abcd"}),
    "three dimensions": np.full((N, 4, 2), NUMBER),
    "short": np.full((N - 1, 4), NUMBER),
    "wide": np.full((N, 5), NUMBER),
    "empty": np.empty((0, 4)),
}
TARGETS = {
    "a label": planted(LABELS, TEXT),
    "labels": planted(LABELS, TEXT).astype(str),
    "mixed": [TEXT, *LABELS.tolist()],
    "a list of texts": [TEXT] * N,
    "a number": planted(LABELS, NUMBER).astype(float),
    "an object": planted(LABELS, Opaque()),
    "opaque": Opaque(),
    "a scalar": NUMBER,
    "two columns": np.full((N, 2), NUMBER),
    "ragged": [[NUMBER, TEXT], *LABELS.tolist()],
    "missing": planted(np.full(N, NUMBER), None),
    "NA": planted(np.full(N, TEXT), pd.NA),
    "complex": LABELS + NUMBER * 1j,
    "short": np.full(N - 1, NUMBER),
    "a category": pd.Series(pd.Categorical([TEXT, *["b"] * (N - 1)])),
    "infinite": np.where(np.arange(N) == 0, np.inf, NUMBER),
    "below 0": np.where(np.arange(N) == 0, -NUMBER, LABELS),
    "huge": np.where(np.arange(N) == 0, NUMBER * 1e200, LABELS),
    "bytes": np.array([TEXT.encode(), b"other"] * (N // 2)),
    "days": np.array(["1971-04-07", "1971-04-08"] * (N // 2), dtype="M8[D]"),
    "not hashable": planted(LABELS, Hashless()),
    "overflowing": planted(LABELS, Overflowing()),
}


def told(error, seen=()):
    """All that an error shows, with those it came from."""
    if error is None or id(error) in seen:
        return ""
    seen = (*seen, id(error))
    own = " ".join(map(str, (error, repr(error), error.args, getattr(error, "__notes__", ""))))
    return own + told(error.__context__, seen) + told(error.__cause__, seen)


OTHERS = (
    "noisy counts show labels other than classes=[0, 1], which tell the model nothing. Pass "
    "classes=[...] with all that you mean: of more than two, to PrivateSoftmaxRegression or "
    "PrivateGAMClassifier"
)


def tells(function, *arguments):
    """The text of the error and of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            function(*arguments)
            text = ""
        except Exception as error:
            text = told(error)
    return text + " ".join(str(warning.message) for warning in caught)


class InOrder(StreamedRows):
    """Whatever it is given, as rows that are read in order."""

    def __init__(self, X, y):
        super().__init__(DENSE.shape, DENSE.dtype)
        self._portion = X, y

    def read(self):
        yield DENSE[:100], LABELS[:100].astype(float)
        yield self._portion


def probes():
    """Return names and functions of X and y of all that reads records."""
    for name, model in MODELS.items():
        yield f"{name}.fit", model().fit
        fitted = model().fit(DENSE, LABELS)
        for method, function in every_method(fitted):
            yield f"{name}.{method}", function
        yield f"ids of {name}.fit", lambda X, y, model=model: model().fit(DENSE, LABELS, groups=y)
        score = fitted.score
        yield f"weights of {name}", lambda X, y, score=score: score(DENSE, LABELS, sample_weight=y)
        weighed = model().set_params(weight_bounds=(1, 4)).fit
        yield f"weights of {name}.fit", lambda X, y, f=weighed: f(DENSE, LABELS, sample_weight=y)
    for name in ("logistic", "ridge"):
        model = MODELS[name]()
        yield f"{name}.fit in order", lambda X, y, model=model: model.fit(InOrder(X, y))
    yield "labels from y", PrivateLogisticRegression().fit
    yield "bounds from y", PrivateRidge().fit
    yield "bounds of counts from y", PrivatePoissonRegressor().fit
    for model in (PrivateLogisticRegression(), PrivateRidge(), PrivatePoissonRegressor()):
        search = PrivateSearchCV(model, {"clip": [0.1]}, epsilon=20.0, expected_trials=1)
        yield f"search of {model}, public facts from y", search.fit
    counts = MODELS["counts"]()
    yield "exposures of fit", lambda X, y: counts.fit(DENSE, LABELS, exposure=y)
    with_counts = MODELS["counts"]().fit(DENSE, LABELS)
    yield "exposures of score", lambda X, y: with_counts.score(DENSE, LABELS, exposure=y)
    ridge = MODELS["ridge"]()
    tabled = partial(private_regression, ridge, epsilon=1.0, bounds=(-1, 1))
    yield "private_regression", tabled
    ridge = MODELS["ridge"]().set_params(weight_bounds=(1, 4))
    weighed = partial(private_regression, ridge, epsilon=1.0, bounds=(-1, 1))
    yield "weights of a table", lambda X, y: weighed(DENSE, LABELS, sample_weight=y)
    weighed = partial(evaluate, with_counts, epsilon=1.0, weight_bounds=(1, 4))
    yield "weights of an evaluation", lambda X, y: weighed(DENSE, LABELS, sample_weight=y)
    curves = PrivateGAMRegressor(target_bounds=(0, 1), bounds=(-1, 1))
    yield "an additive model", curves.fit
    ones = np.ones(N)
    yield "durations", lambda X, y: person_periods(y, ones, [1, 2], X)
    yield "events", lambda X, y: person_periods(ones, y, [1, 2], X)
    for scaler in (PrivateScaler(), BoundsScaler((0, 1)), RowMapper(1.0)):
        name = type(scaler).__name__
        yield f"{name}.fit", lambda X, y, scaler=scaler: scaler.fit(X)
        fitted = clone(scaler).fit(DENSE)
        yield f"{name}.transform", lambda X, y, fitted=fitted: fitted.transform(X)
    yield "ids of PrivateScaler.fit", lambda X, y: PrivateScaler().fit(DENSE, groups=y)
    piped = make_pipeline(OneHotEncoder(categories=[[0.0, 1.0]] * 4), MODELS["logistic"]())
    bits = (DENSE > 0).astype(float)
    for name, estimator, rows, key in (
        ("search", MODELS["logistic"](), DENSE, "clip"),
        ("search of a ridge", MODELS["ridge"](), DENSE, "clip"),
        ("search of a pipeline", piped, bits, "privatelogisticregression__clip"),
    ):
        search = PrivateSearchCV(estimator, {key: [0.1]}, epsilon=20.0, expected_trials=1)
        fit = search.fit
        yield f"{name}.fit", fit
        yield f"ids of {name}", lambda X, y, fit=fit, rows=rows: fit(rows, LABELS, groups=y)
        for method, function in every_method(clone(search).fit(rows, LABELS)):
            yield f"{name}.{method}", function


TABLE = pd.DataFrame({"name": [TEXT] * 6, "size": [NUMBER] * 6})
TABLES = {
    "frame": TABLE,
    "series": TABLE["name"],
    "array": TABLE.to_numpy(),
    "numbers": np.full((6, 3), NUMBER),
    "list": TABLE.to_numpy().tolist(),
    "values": [NUMBER] * 6,
    "texts": (TEXT,) * 6,
    "dict": {"a": [TEXT] * 6, "b": [NUMBER] * 6},
}
GIVEN = {"X": DENSE, "y": LABELS, "epsilon": 1.0, "delta": 1e-6, "n_samples": 900, "n_features": 4}
GIVEN |= {"n_steps": 10, "X_shape": (100, 4), "param_grid": {"clip": [0.1, 0.2]}}
PACKAGES = ["", "audit", "evaluation", "inference", "inspection", "model_selection", "planning"]
PACKAGES += ["preprocessing", "privacy", "solvers", "data"]


def public_names():
    """Yield names and values of the public functions and classes of the package."""
    for name in PACKAGES:
        module = import_module(f"skdpdyn.{name}".rstrip("."))
        for public in getattr(module, "__all__", vars(module)):
            value = getattr(module, public)
            is_class = isinstance(value, type)
            other = is_class and issubclass(value, Enum | Exception)
            of = getattr(value, "__module__", "")
            ours = of.startswith("skdpdyn" if hasattr(module, "__all__") else module.__name__)
            if ours and not other and (is_class or inspect.isfunction(value)):
                yield f"{module.__name__}.{public}", value


def with_tables(function):
    """Yield names of places, and calls of a function with each table in them."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        return
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for table in TABLES.values():
        for parameter in parameters:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                yield parameter.name, partial(function, table, table)
            if parameter.kind in several:
                continue
            needed = {
                one.name: GIVEN.get(one.name, table)
                for one in parameters
                if one.default is one.empty and one.kind not in several
            }
            yield parameter.name, partial(function, **needed | {parameter.name: table})


def public_calls():
    """Yield names and calls of everything public, a table in each place."""
    for name, value in public_names():
        for place, call in with_tables(value):
            yield f"{name}({place})", call
            if not hasattr(value, "fit"):
                continue
            try:
                made = call()
            except Exception:
                continue
            yield f"{name}({place}).fit", partial(made.fit, DENSE, LABELS)
            if hasattr(made, "privacy_cost"):
                yield f"{name}({place}).privacy_cost", partial(made.privacy_cost, 900, 4)
    for model in MODELS.values():
        fitted = model().fit(DENSE, LABELS)
        for name, method in inspect.getmembers(fitted, callable):
            if not name.startswith("_") and name not in ("set_output", "export"):
                for place, call in with_tables(method):
                    yield f"{type(fitted).__name__}.{name}({place})", call


@pytest.mark.usefixtures("noise_found_once")
def test_no_error_quotes_a_table_that_stands_where_a_parameter_should():
    quoted = {
        name
        for name, call in public_calls()
        if any(part in tells(call) for part in ("4711", "987654"))
    }
    assert not quoted


@pytest.mark.usefixtures("noise_found_once")
def test_no_error_and_no_warning_quotes_a_record():
    """The sentinels are in the cells: none is in what a user, a log or a chained error shows."""
    cases = {f"X {name}": (X, LABELS) for name, X in ROWS.items()}
    cases |= {f"y {name}": (DENSE, y) for name, y in TARGETS.items()}
    quoted = []
    for probe, function in probes():
        of_y = probe.startswith(("ids of", "weights of", "exposures of"))
        for case, (X, y) in cases.items():
            text = "" if of_y and y is LABELS else tells(function, X, y)
            if any(part in text for part in ("4711", "987654", f"{NUMBER:.6e}"[:6], "1971")):
                quoted.append((probe, case, text[:200]))
    assert not quoted


SECRET = 0.4711471147114711  # the largest cell
SECRETIVE = np.where(FIRST, SECRET, DENSE)
framed = partial(pd.DataFrame, columns=list("abcd"))
LAYOUTS = {"dense": np.asarray, "sparse": sparse.csr_array, "frame": framed}


def trains_and_scores(step):
    """Return a search by which steps run, the rows that its trials saw, and what it found."""
    pipeline = make_pipeline(step, MODELS["logistic"](conditioning=None))
    seen = []
    model = f"{PrivateLogisticRegression.__name__.lower()}__clip"
    options = {"delta": 1e-4, "expected_trials": 8.0, "trials": "poisson", "random_state": 1}
    search = PrivateSearchCV(pipeline, {model: [0.1]}, epsilon=9.0, **options)
    fit = PrivateLogisticRegression.fit

    def spy(self, X, y=None, **given):
        seen.append(shown([X.toarray() if sparse.issparse(X) else np.array(X), np.array(y)]))
        return fit(self, X, y, **given)

    def run(X, y):
        with patch.object(PrivateLogisticRegression, "fit", spy):
            found = search.fit(X, y)
        assert len(seen) > 1
        assert all(rows == seen[0] for rows in seen)
        return search, found

    return run


def is_scored(step):
    """Return an evaluation of a model behind a step."""
    model = make_pipeline(step, MODELS["logistic"](conditioning=None).fit(DENSE, LABELS))
    return lambda X, y: (model, evaluate(model, X, y, epsilon=1.0, random_state=0))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("operation", [trains_and_scores, is_scored])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_code_of_others_changes_nothing_keeps_nothing_and_tells_nothing(hostile, operation, layout):
    """It runs alike each time, on rows of its own, and only what it computes of them is used."""
    X = LAYOUTS[layout](SECRETIVE)
    y = LABELS.copy()
    kept = []
    text = tells(lambda: kept.extend(operation(hostile())(X, y)))
    assert not any(part in text for part in ("0.47114", "AssertionError"))
    assert np.array_equal(X.toarray() if sparse.issparse(X) else X, SECRETIVE)
    assert np.array_equal(y, LABELS)
    held = pickle.dumps(kept)
    assert np.float64(SECRET).tobytes() not in held
    assert np.float64(-0.9 * SECRET).tobytes() not in held
    refused = "lent" in text or hostile in (Raises, Reshapes, Widens)
    assert bool(kept) or refused


@pytest.mark.parametrize("model", [MODELS["logistic"], MODELS["softmax"]])
def test_no_label_makes_a_fit_fail(model):
    for others in ([0, 1], [0, 0], ["no", "yes"], [None, [0.5]]):
        y = np.array([others[index % 2] for index in range(N)], dtype=object)
        y[0] = TEXT
        for labels in (y, y.tolist()):
            assert tells(model().fit, DENSE, labels) in ("", OTHERS)


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [MODELS["logistic"], partial(PrivateSearchCV, MODELS["logistic"](), {"clip": [0.1]})],
    ids=["model", "search"],
)
def test_two_threads_end_with_one_fits_attributes(kind):
    """What is published of a fit is all of it, or nothing."""
    frames = [(framed(DENSE[:100]), LABELS[:100]), (DENSE[:, :2], LABELS)]
    model = kind(random_state=0)
    stop = math.inf

    def fit_all_the_time(X, y):
        while time.monotonic() < stop:
            model.fit(X, y)

    def described(fitted):
        return shown({name: value for name, value in vars(fitted).items() if name.endswith("_")})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [described(kind(random_state=0).fit(X, y)) for X, y in frames]
        stop = time.monotonic() + 1.0
        threads = [threading.Thread(target=fit_all_the_time, args=frame) for frame in frames]
        for thread in threads:
            thread.start()
        while time.monotonic() < stop:
            snapshot = object.__new__(type(model))
            snapshot.__dict__ = dict(model.__dict__)
            assert not hasattr(snapshot, "n_features_in_") or described(snapshot) in alone
        for thread in threads:
            thread.join()
    assert alone[0] != alone[1]
    assert described(model) in alone


# --- data that change during a fit ----------------------------------------------------------------


def given():
    """What fits take, each an array of its own."""
    numbers = {"X": DENSE, "y": DENSE[:, 0], "labels": LABELS, "exposure": DENSE[:, 1] + 1}
    numbers |= {"sample_weight": DENSE[:, 2] + 0.5, "groups": np.arange(N) // 2}
    numbers["counts"] = np.round(DENSE[:, 0] ** 2 * 9)
    return {name: of.copy() for name, of in numbers.items()} | {"sparse": sparse.csr_array(DENSE)}


CHANGED = {  # what is fitted, on what, and what is written to
    "rows": ("logistic", {}, ("X", "labels"), "X"),
    "rows of float32": ("logistic", {}, ("float32", "labels"), "float32"),
    "rows of batches": ("logistic", {"solver": "dp_sgd"}, ("X", "labels"), "X"),
    "rows that are sums": ("ridge", {"solver": "sufficient_statistics"}, ("X", "y"), "X"),
    "rows of a table": ("table", {}, ("X", "labels"), "X"),
    "sparse values": ("logistic", {}, ("sparse", "labels"), "data"),
    "sparse columns": ("logistic", {}, ("sparse", "labels"), "indices"),
    "numbers": ("ridge", {}, ("X", "y"), "y"),
    "labels": ("logistic", {}, ("X", "labels"), "labels"),
    "labels of sparse rows": ("logistic", {}, ("sparse", "labels"), "labels"),
    "targets of cells": ("cells", {}, ("X", "y"), "y"),
    "exposures": ("counts", {}, ("X", "counts", "exposure"), "exposure"),
    "weights": ("logistic", {"weight_bounds": (0, 2)}, ("X", "labels", "sample_weight"), None),
    "persons": ("logistic", {}, ("X", "labels", "groups"), "groups"),
}


def fit_of_changed(case, write, patch):
    """Fit a case; its data are written to when noise has been drawn for the second time."""
    kind, options, names, changed = CHANGED[case]
    data = given()
    data["float32"] = data["X"].astype(np.float32)
    rows, target, *others = names
    keywords = {name: data[name] for name in others}
    array = data.get(changed or names[-1])
    if array is None:
        array = getattr(data["sparse"], changed)
    record = Spending.note
    notes = []

    def noted(self, *arguments):
        notes.append(arguments)
        if len(notes) == 1 and write:
            array[-1] = (array[-1] + 1) % 4
        return record(self, *arguments)

    patch.setattr(Spending, "note", noted)
    if kind == "table":
        model = PrivateLogisticRegression()
        options = {"epsilon": 1.0, "bounds": (-1, 1), "classes": [0, 1], "random_state": 0}
        private_regression(model, data[rows], data[target], **options)
    else:
        makers = MODELS | {"cells": partial(PrivateGAMRegressor, target_bounds=(-1, 1))}
        model = makers[kind](random_state=0, **options)
        model.fit(data[rows], data[target], **keywords)
    assert notes
    return model


def test_data_that_change_during_a_fit_are_refused(monkeypatch):
    """What bounds a row was computed from what it held when it was read."""
    for case in CHANGED:
        with monkeypatch.context() as patch:
            fit_of_changed(case, False, patch)
        with monkeypatch.context() as patch, pytest.raises(ValueError, match="data changed during"):
            fit_of_changed(case, True, patch)


def test_a_row_that_grows_between_two_steps_is_refused(monkeypatch):
    """Factors of the first step let it move the model hundreds of times as far as any row may."""
    X = DENSE.copy()
    gradient = Rows.gradient
    calls = []

    def writing(self, *arguments):
        calls.append(self)
        if len(calls) == 3:
            X[0] = 1e6
        return gradient(self, *arguments)

    monkeypatch.setattr(Rows, "gradient", writing)
    model = MODELS["logistic"]()
    with pytest.raises(ValueError, match="data changed during the fit"):
        model.fit(X, LABELS)
    assert len(calls) > 3
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_fingerprint_tells_arrays_of_few_numbers_apart():
    """Also where all that differs is in the highest bits, as of 0 and 1 as floats."""
    rng = np.random.default_rng(0)
    for kind in (bool, np.int8, np.float16, np.float32, np.float64, "U3", "M8[D]"):
        array = (rng.random((50, 7)) < 0.5).astype(int).astype(kind)
        found = {fingerprint(array)}
        for _ in range(300):
            found.add(fingerprint(rng.permuted(array, axis=0)))
        assert len(found) == 301, kind
        assert fingerprint(array[::2]) == fingerprint(array[::2].copy())
    for bad in (math.nan, math.inf, -math.inf):
        floats = np.array([0.0, -1e30, bad])
        assert finite_fingerprint(floats) is finite_fingerprint(floats.astype(np.float32)) is None
        assert finite_fingerprint(floats[:2]) == fingerprint(floats[:2])


# --- a search without a trial ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*MODELS, "three classes"])
def test_a_search_without_a_trial_has_the_methods_of_any_other(kind, monkeypatch):
    labels, estimator = (LABELS, MODELS[kind]()) if kind in MODELS else (
        np.arange(N) % 3, PrivateSoftmaxRegression(classes=[0, 1, 2]),
    )  # fmt: skip
    fitted = []
    for number in (0, 1):
        drawn = lambda mechanism, generator, number=number: number  # noqa: E731
        monkeypatch.setattr(private_search, "number_of_trials", drawn)
        search = PrivateSearchCV(estimator, {"clip": [0.1]}, epsilon=20.0, trials="poisson")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted.append(search.fit(DENSE, labels))
    methods = ["predict", "predict_proba", "predict_log_proba", "decision_function"]
    none, one = ([method for method in methods if hasattr(search, method)] for search in fitted)
    assert none == one == [method for method in methods if hasattr(estimator, method)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers = [{method: getattr(search, method)(DENSE) for method in none} for search in fitted]
        assert math.isfinite(fitted[0].score(DENSE.copy(), labels))
    for method in none:
        assert answers[0][method].shape == answers[1][method].shape
        assert np.all(np.isfinite(answers[0][method]))
    assert "decision_function" not in none or not np.any(answers[0]["decision_function"])


# --- the disk cache of compiled code --------------------------------------------------------------

FIT_ONCE = """
import sys, warnings
{before}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from skdpdyn import PrivateRidge
    for X in ([[0.1], [0.2]], [[0.3], [0.1]]):
        PrivateRidge(target_bounds=(0, 1), solver="output_perturbation").fit(X, [0.0, 1.0])
print([str(warning.message) for warning in caught])
"""
NO_DIRECTORY = """
from numba.core import caching
def refuse(locator):
    raise OSError(30, "Read-only file system")
caching._CacheLocator.ensure_cache_path = refuse
"""
FULL_DISK = """
from numba.core import caching
def refuse(*arguments):
    raise OSError(28, "No space left on device")
caching.IndexDataCacheFile._open_for_write = refuse
"""
needs_compiler = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def fit_in_a_process(cache, before=""):
    """The warnings of two fits in a new process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", FIT_ONCE.format(before=before)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.system
@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("before", [NO_DIRECTORY, FULL_DISK], ids=["no directory", "full disk"])
def test_fits_where_nothing_can_be_written_and_says_so_once(before, tmp_path):
    said = fit_in_a_process(tmp_path, before)
    assert said.count("NUMBA_CACHE_DIR") == 1
    assert not list(tmp_path.rglob("*.nb?"))


@pytest.mark.system
@needs_compiler
@pytest.mark.slow
def test_damaged_cache_files_are_compiled_anew(tmp_path):
    """Cut short, of other bytes, and with one bit of machine code changed."""
    assert fit_in_a_process(tmp_path) == "[]"
    files = sorted(tmp_path.rglob("*.nb?"))
    whole = {path: path.read_bytes() for path in files}
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for number, path in enumerate(files):
        content = bytearray(whole[path])
        content[len(content) // 2] ^= 1
        damages = content, content[: len(content) // 2], b"not a pickle", b""
        path.write_bytes(damages[number // 2 % 4])
    assert fit_in_a_process(tmp_path) == "[]"
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    assert set(written) >= set(whole)
    assert fit_in_a_process(tmp_path) == "[]"
    again = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    assert again == written, "all of them were read"


# --- interrupts -----------------------------------------------------------------------------------


ONE_AFTER_THE_OTHER = """
import json, os, signal, threading, time, warnings
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
from skdpdyn import PrivateLogisticRegression, PrivatePoissonRegressor, PrivateRidge
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.evaluation import evaluate
from skdpdyn.inference import private_regression
from skdpdyn.kernels.sums import finite_fingerprint, fingerprint
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.solvers import DPSGD, NoisyGD, NoisySGD, OutputPerturbation

warnings.simplefilter("ignore")
# an interrupt of an import leaves half a module behind, whosever it is
PrivateLogisticRegression(classes=[0, 1], solver="dp_sgd").privacy_cost(1000, 5)
X = np.random.default_rng(0).uniform(-0.2, 0.2, (1_000_000, 5)).astype(np.float32)
y = (X[:, 0] > 0).astype(int)

class InOrder(StreamedRows):
    def __init__(self):
        super().__init__(X.shape, X.dtype)
    def read(self):
        for first in range(0, len(X), 50_000):
            yield X[first:first + 50_000], y[first:first + 50_000]

def model(**options):
    return PrivateLogisticRegression(classes=[0, 1], **options)

persons = np.arange(len(X)) // 3
ridge = PrivateRidge(target_bounds=(0, 1), solver="sufficient_statistics")
search = PrivateSearchCV(model(), {"clip": [0.1, 0.2]}, epsilon=3.0)
ready = model(clip=1.1, conditioning=None, solver="objective_perturbation").fit(X, y)
long = (NoisyGD(n_steps=3000), NoisySGD(n_epochs=300), DPSGD(n_steps=20_000, batch_size=5000),
        OutputPerturbation("permutation_sgd", n_epochs=500), "objective_perturbation")
costly = model(adjacency="add_remove", solver=DPSGD(n_steps=1_000_000, batch_size=100))
cases = {
    **{str(solver): (one := model(solver=solver), lambda one=one: one.fit(X, y))
       for solver in long},
    "accounting": (costly, lambda: costly.privacy_cost(20_000, 20)),
    "sufficient_statistics": (ridge, lambda: ridge.fit(X, y)),
    "counts": (one := PrivatePoissonRegressor(target_bounds=(0, 1)), lambda one=one: one.fit(X, y)),
    "persons": (one := model(), lambda one=one: one.fit(X, y, groups=persons)),
    "rows in order": (one := model(), lambda one=one: one.fit(InOrder())),
    "scaler": (one := PrivateScaler(), lambda one=one: one.fit(X)),
    "search": (search, lambda: search.fit(X, y)),
    "cost of a search": (search, lambda: search.privacy_cost(10**6, 5)),
    "evaluate": (ready, lambda: evaluate(ready, X, y, epsilon=1.0)),
    "table": (ready, lambda: private_regression(ready, X, y, epsilon=1.0, bounds=(-1, 1))),
    "predict": (ready, lambda: ready.predict(X)),
}
for name, (estimator, call) in cases.items():
    before, at = dict(vars(estimator)), []
    def interrupt(at=at):
        at.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(0.4, interrupt)
    timer.daemon = True
    timer.start()
    try:
        while True:
            before = dict(vars(estimator))
            call()
    except KeyboardInterrupt:
        seconds = time.process_time() - at[0]
    print(json.dumps([name, seconds, vars(estimator) == before]), flush=True)
"""


@pytest.mark.system
@needs_compiler
@pytest.mark.slow
def test_an_interrupt_ends_all_that_takes_long_within_a_second():
    """Of the process's own time: what runs beside takes its part of the clock's."""
    command = [sys.executable, "-c", ONE_AFTER_THE_OTHER]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(lines) == 16, run.stderr
    for name, seconds, unchanged in lines:
        assert unchanged, name
        assert seconds < 1.0, name
