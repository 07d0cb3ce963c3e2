"""Parquet files and data sets: the bits of an array, and clear refusals."""

import os
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from numba import config
from pyarrow import dataset, parquet

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.data import ParquetRows, parquet as parquet_rows
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import PrivateScaler

N_SAMPLES = 1_500 if config.DISABLE_JIT else 4_500
COLOURS = ["red", "green", "blue"]
SECRET = 0.123456789


@pytest.fixture(autouse=True)
def small_portions(monkeypatch):
    monkeypatch.setattr("skdpdyn.data.parquet._MOST_ROWS", 700)
    monkeypatch.setattr("skdpdyn.data.streamed._PIECE_BYTES", 30_000)


def table(n_samples=N_SAMPLES):
    """Every kind of column, and targets of every kind."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, (n_samples, 2)).astype(np.float32)
    colour = rng.integers(0, 3, n_samples)
    return pa.table(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "flag": rng.random(n_samples) < 0.5,
            "level": rng.integers(-1, 2, n_samples, dtype=np.int8),
            "colour": pa.DictionaryArray.from_arrays(pa.array(colour, pa.int8()), COLOURS),
            "bought": x[:, 0] + 0.2 * colour > 0.2,
            "grade": np.array(["low", "middle", "high"])[np.digitize(x[:, 0], [-0.2, 0.2])],
            "price": x[:, 1] + 0.1 * colour,
            "claims": rng.poisson(np.exp(x[:, 1])),
            "years": rng.uniform(0.5, 2.0, n_samples),
        }
    )


COLUMNS = ["a", "b", "flag", "level", "colour"]
NAMES = ["a", "b", "flag", "level", "colour_red", "colour_green", "colour_blue"]


def array(rows):
    """What the columns are as numbers."""
    colour = np.array(rows["colour"].to_pylist())
    parts = [rows[name].to_numpy() for name in COLUMNS[:4]]
    return np.column_stack(parts + [colour == one for one in COLOURS]).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    rows = table()
    for part, first in enumerate(range(0, N_SAMPLES, N_SAMPLES // 3)):
        piece = rows.slice(first, N_SAMPLES // 3)
        parquet.write_table(piece, tmp_path / f"{part}.parquet", row_group_size=400)
    return tmp_path


SEEDED = {"random_state": 0, "data_norm": 2.0}
MODELS = {
    "bought": PrivateLogisticRegression(classes=[False, True], **SEEDED),
    "grade": PrivateSoftmaxRegression(classes=["low", "middle", "high"], **SEEDED),
    "price": PrivateRidge(target_bounds=(-1, 1), **SEEDED),
    "claims": PrivatePoissonRegressor(target_bounds=(0, 9), **SEEDED),
}
SOURCES = {"folder": Path, "files": lambda of: sorted(of.iterdir()), "dataset": dataset.dataset}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("target", MODELS)
def test_the_same_bits_as_from_an_array(source, target, folder):
    rows = table()
    model = MODELS[target]
    X = array(rows)
    y = rows[target].to_numpy()
    exposed = {"exposure": rows["years"].to_numpy()} if target == "claims" else {}
    model.fit(X, y, **exposed)
    expected = model.coef_, model.intercept_
    source = SOURCES[source](folder)
    years = {"exposure": "years"} if exposed else {}
    model.fit(ParquetRows(source, target, columns=COLUMNS, categories={"colour": COLOURS}, **years))
    np.testing.assert_array_equal(model.coef_, expected[0])
    np.testing.assert_array_equal(model.intercept_, expected[1])
    assert getattr(model, "has_exposure_", False) == bool(exposed)
    assert model.coef_.dtype == np.float32
    assert model.feature_names_in_.tolist() == NAMES
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("target", ["bought", "grade", "price"])
def test_additive_models_learn_the_same_bits_as_from_an_array(target, folder):
    limits = {"bounds": [(-0.5, 0.5), (-0.5, 0.5), (-1, 1)], "random_state": 0}
    values = MODELS[target].get_params()
    if target == "price":
        model = PrivateGAMRegressor(target_bounds=(-1, 1), **limits)
    else:
        model = PrivateGAMClassifier(classes=values["classes"], **limits)
    names = ["a", "b", "level"]
    rows = table()
    X = np.column_stack([rows[name].to_numpy().astype(np.float32) for name in names])
    expected = model.fit(X, rows[target].to_numpy()).coef_
    source = ParquetRows(folder, target, columns=names)
    np.testing.assert_array_equal(model.fit(source).coef_, expected)
    assert model.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="levels are not looked for"):
        model.set_params(categories={"level": "auto"}, bounds=(-1, 1)).fit(source)


@pytest.mark.parametrize("disk", ["has room", "is full", "is left alone"])
def test_files_are_decoded_once_where_there_is_room(disk, folder, monkeypatch):
    decoded = []
    batches = parquet_rows.batches_of
    monkeypatch.setattr(parquet_rows, "batches_of", lambda *of: decoded.append(of) or batches(*of))
    if disk == "is full":
        monkeypatch.setattr(parquet_rows, "written", lambda file, X: False)
    if disk == "is left alone":
        monkeypatch.setattr(parquet_rows, "MOST_SCRATCH", 0)
    rows = table()
    model = MODELS["grade"]
    expected = model.fit(array(rows)[:, :4], rows["grade"].to_numpy()).coef_
    source = pickle.loads(pickle.dumps(ParquetRows(folder, "grade", columns=COLUMNS[:4])))
    np.testing.assert_array_equal(model.fit(source).coef_, expected)
    assert (len(decoded) == 1) == (disk == "has room")


def test_rows_can_be_looked_at_and_have_a_public_shape(folder, tmp_path_factory):
    rows = ParquetRows(folder, "grade", COLUMNS[:4])
    all_rows = table()
    assert rows.shape == (N_SAMPLES, 4)
    assert rows.dtype == np.float32
    X, y = map(np.concatenate, zip(*rows.read(), strict=True))
    np.testing.assert_array_equal(X, array(all_rows)[:, :4])
    assert y.tolist() == all_rows["grade"].to_pylist()
    whole = pa.table({"n": [1, 2], "d": pa.array([1, 2], pa.decimal128(3, 1)), "y": [0, 1]})
    path = tmp_path_factory.mktemp("whole") / "x.parquet"
    parquet.write_table(whole, path)
    rows = ParquetRows(path, "y")
    assert rows.dtype == np.float64
    assert next(rows.read())[0].tolist() == [[1, 1], [2, 2]]


def test_partitions_and_filters(tmp_path):
    rows = table()
    options = {"partitioning": ["level"], "partitioning_flavor": "hive"}
    dataset.write_dataset(rows, tmp_path, format="parquet", **options)
    opened = ParquetRows(tmp_path, "bought", ["a", "level"])
    assert opened.shape == (N_SAMPLES, 2)
    X, _ = map(np.concatenate, zip(*opened.read(), strict=True))
    assert sorted(map(tuple, X.tolist())) == sorted(map(tuple, array(rows)[:, [0, 3]].tolist()))
    positive = dataset.dataset(tmp_path).filter(dataset.field("a") > 0)
    n_positive = int(np.sum(rows["a"].to_numpy() > 0))
    assert ParquetRows(positive, "bought", ["a"]).shape == (n_positive, 1)


def _refused(model, rows, message):
    """The refusal quotes no record, and leaves nothing fitted."""
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(rows)
    assert not [name for name in vars(model) if name.endswith("_")]
    seen = caught.value
    while seen is not None:
        assert str(SECRET)[:6] not in str(seen)
        assert "violet" not in str(seen)
        seen = seen.__cause__ or seen.__context__


def _with_last(path, name, value):
    """Write another value into the last row, as if it had been there from the start."""
    rows = parquet.read_table(path)
    values = [*rows[name].to_pylist()[:-1], value]
    place = rows.schema.names.index(name)
    kind = pa.string() if name == "colour" else rows.schema.field(name).type
    rows = rows.set_column(place, name, pa.array(values, kind))
    parquet.write_table(rows, path, row_group_size=400)


FAULTS = {
    "nan": (lambda path: _with_last(path, "b", float("nan")), r"columns \['b'\] hold missing"),
    "null": (lambda path: _with_last(path, "b", None), "column 'b' holds missing values"),
    "target": (lambda path: _with_last(path, "bought", None), "column 'bought' holds missing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_last_row_leaves_nothing_fitted(fault, folder):
    change, message = FAULTS[fault]
    change(folder / "2.parquet")
    rows = ParquetRows(folder, "bought", COLUMNS, {"colour": COLOURS})
    _refused(PrivateLogisticRegression(classes=[False, True]), rows, message)


AFTER = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size * 2 // 3),
    "gone": os.remove,
    "touched": os.utime,
    "replaced": lambda path: _with_last(path, "a", SECRET),
}


@pytest.mark.parametrize("when", ["before the fit", "in the second pass"])
@pytest.mark.parametrize("fault", AFTER)
def test_files_that_change_are_refused(fault, when, folder, monkeypatch):
    rows = ParquetRows(folder, "bought", COLUMNS, {"colour": COLOURS})
    if when == "before the fit":
        AFTER[fault](folder / "2.parquet")
    else:
        checks = []
        refuse_changes = ParquetRows._refuse_changes

        def changing(self):
            refuse_changes(self)
            checks.append(True)
            if len(checks) == 3:  # two a pass: once the files have been found as they were
                AFTER[fault](folder / "2.parquet")

        monkeypatch.setattr(ParquetRows, "_refuse_changes", changing)
    _refused(PrivateLogisticRegression(classes=[False, True]), rows, "a file changed")


def test_what_cannot_be_opened_says_so(folder, tmp_path_factory):
    def refused(message, columns=None, categories=None, source=folder, target="bought", **options):
        with pytest.raises(ValueError, match=message):
            ParquetRows(source, target, columns, categories, **options)

    refused("no column 'sold'", target="sold")
    refused("no column 'c'", ["c"])
    refused("different names", ["a", "a"])
    refused("without 'bought'", ["bought"])
    refused("'grade' holds no numbers", exposure="grade")
    refused("without 'bought' and 'a'", ["a"], exposure="a")
    refused("'d', which is not one of columns", ["a"], {"d": [1]})
    refused("column 'colour' has type dictionary")
    refused("column 'grade' has type string", ["grade"])
    for categories in ([], ["red", "red"], [None]):
        refused("different values", ["colour"], {"colour": categories})
    parquet.write_table(table(30).drop_columns(["b"]), folder / "3.parquet")
    refused("file 4 of 4 has no column 'b'", columns=["b"])
    other = tmp_path_factory.mktemp("other")
    (other / "x.parquet").write_text("secret")
    refused(r"could not be opened \(ArrowInvalid", source=other)
    refused("source is no file or folder that exists: .*nothing", source=other / "nothing")
    for other in (table(30), dataset.dataset(table(30)), pl.scan_parquet(folder / "0.parquet")):
        with pytest.raises(TypeError, match=f"source is a {type(other).__name__}: .* of files"):
            ParquetRows(other, "bought")


def test_those_that_need_an_array_say_so(folder):
    rows = ParquetRows(folder, "bought", ["a", "b"])
    y = table()["bought"].to_numpy()
    model = PrivateLogisticRegression(classes=[False, True]).fit(rows)
    grid = PrivateSearchCV(model, {"alpha": [0.1, 1.0]})
    for call, *given in ((model.predict,), (PrivateScaler().fit,), (grid.fit, y)):
        with pytest.raises(TypeError, match="X is a ParquetRows, which only fit of a model takes"):
            call(rows, *given)


def test_flags_are_classes_at_no_cost(tmp_path):
    parquet.write_table(table(), tmp_path / "rows.parquet")
    rows = ParquetRows(tmp_path / "rows.parquet", target="bought", columns=["a", "b"])
    for kind in (PrivateLogisticRegression, PrivateGAMClassifier):
        model = kind(epsilon=3.0, random_state=0).fit(rows)
        assert model.classes_.tolist() == [False, True]
        assert model.classes_.dtype == bool
        assert "classes" not in model.bought_
