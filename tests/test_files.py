"""Memory maps: the bits of an array, read in order, whatever happens to the file."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numba import config
from problems import pairwise
from pyarrow import parquet
from sklearn.base import clone
from sklearn.utils import check_array

from skdpdyn import (
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.data.files import ArrayFile, MappedRows
from skdpdyn.solvers import DPSGD, NoisyGD

N_SAMPLES = 1_500 if config.DISABLE_JIT else 4_500
BINARY = {"classes": [False, True], "random_state": 0}


@pytest.fixture(autouse=True)
def small_portions(monkeypatch):
    monkeypatch.setattr("skdpdyn.data.streamed._PIECE_BYTES", 30_000)
    monkeypatch.setattr(ArrayFile, "least_bytes", 0)


def data(n_samples=N_SAMPLES):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 5)) / 2
    return X, X @ np.arange(5) + 0.1 * rng.standard_normal(n_samples)


def mapped(path, array, mode="r"):
    np.save(path, array)
    return np.load(path, mmap_mode=mode)


def raw(path, array):
    """A map of a file with other bytes before and behind."""
    path.write_bytes(b"before" * 1000 + array.tobytes() + b"behind")
    return np.memmap(path, array.dtype, "r", offset=6000, shape=array.shape)


MAPS = {
    "npy": lambda path, X: mapped(path, X),
    "writable": lambda path, X: mapped(path, X, "r+"),
    "offset": raw,
    "part": lambda path, X: mapped(path, np.concatenate([X[:7], X, X[:3]]))[7:-3],
}


@pytest.fixture
def passes(monkeypatch):
    """How often files are read to the end."""
    count = []
    source = MappedRows._source

    def counted(self, edges):
        yield from source(self, edges)
        count.append(True)

    monkeypatch.setattr(MappedRows, "_source", counted)
    return count


THREE = PrivateSoftmaxRegression(classes=[0, 1, 2], random_state=0)
MODELS = {  # and what they learn of y
    "classes": (PrivateLogisticRegression(**BINARY), lambda y: y > 0),
    "three": (THREE, lambda y: np.digitize(y, [-1, 1])),
    "bounds": (PrivateRidge(target_bounds=(-5, 5), random_state=0), lambda y: y),
    "leaky classes": (PrivateLogisticRegression(random_state=0), lambda y: y > 0),
    "leaky bounds": (PrivateRidge(random_state=0), lambda y: y),
    "weights": (PrivateLogisticRegression(**BINARY, class_weight={True: 2.0}), lambda y: y > 0),
    "counts": (PrivatePoissonRegressor(random_state=0), lambda y: np.round(np.abs(y))),
}
DTYPES = np.float32, np.float64, np.int16


@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("how", MAPS)
def test_the_same_bits_as_from_an_array(how, tmp_path, passes):
    """Every model with every map and every type of numbers, in some of all cases."""
    _, y = data()
    for which, dtype, kind in pairwise(MAPS, DTYPES, MODELS):
        if which != how:
            continue
        X = rows_as(dtype)
        (model, target_of) = MODELS[kind]
        on_disk = MAPS[how](tmp_path / "X.npy", X)
        target = target_of(y)
        model.fit(X, target)
        expected = model.coef_, model.intercept_
        n_passes = len(passes)
        model.fit(on_disk, mapped(tmp_path / "y.npy", target) if how == "npy" else target)
        assert len(passes) > n_passes
        np.testing.assert_array_equal(model.coef_, expected[0])
        np.testing.assert_array_equal(model.intercept_, expected[1])
        assert model.n_features_in_ == 5


def rows_as(dtype):
    """Return the rows, as large as whole numbers need."""
    X, _ = data()
    return (100 * X if dtype == np.int16 else X).astype(dtype)


@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_bits_with_exposures(dtype, tmp_path, passes):
    X = rows_as(dtype)
    (model, target_of) = MODELS["counts"]
    target = target_of(data()[1])
    on_disk = MAPS["npy"](tmp_path / "X.npy", X)
    exposure = np.linspace(0.5, 2, len(X))
    expected = model.fit(X, target, exposure=exposure).coef_
    for given in (exposure, exposure.tolist(), mapped(tmp_path / "e.npy", exposure)):
        n_passes = len(passes)
        np.testing.assert_array_equal(model.fit(on_disk, target, exposure=given).coef_, expected)
        assert len(passes) > n_passes
    with pytest.raises(ValueError, match="one finite number > 0"):
        model.fit(on_disk, target, exposure=exposure[1:])


def test_what_needs_memory_has_it(tmp_path, passes):
    X, y = data(1_000)
    on_disk = mapped(tmp_path / "X.npy", X)
    cases = [
        (PrivateLogisticRegression(**BINARY, solver=DPSGD()), on_disk, y > 0, {}),
        (PrivateLogisticRegression(**BINARY), on_disk, y > 0, {"groups": np.arange(1000) // 2}),
    ]
    plain = PrivateLogisticRegression(**BINARY, solver=NoisyGD(n_steps=2))
    for other in (
        mapped(tmp_path / "c.npy", X, "c"),  # may have been written to
        mapped(tmp_path / "f.npy", np.asfortranarray(X)),
        on_disk[::2],
        np.memmap(tmp_path / "f16.npy", np.float16, "w+", shape=X.shape)[:, ::-1],
    ):
        cases.append((plain, other, y[: len(other)] > 0, {}))
    gone = mapped(tmp_path / "gone.npy", X)
    os.remove(tmp_path / "gone.npy")
    cases.append((plain, gone, y > 0, {}))
    for model, rows, target, given in cases:
        model.fit(np.array(rows), target, **given)
        expected = model.coef_
        model.fit(rows, target, **given)
        np.testing.assert_array_equal(model.coef_, expected)
    assert not passes
    assert ArrayFile.of(X) is None


def test_targets_are_checked_as_in_memory(tmp_path):
    X, y = data(1_000)
    on_disk = mapped(tmp_path / "X.npy", X)
    for target, message in (
        (y[1:] > 0, "inconsistent numbers of samples"),
        (np.where(y > 0, np.nan, 1.0), "Input y contains NaN"),
        ((y > 0).astype(str), "labels that are not in classes"),
        (np.stack([y > 0, y > 0], 1), "y should be a 1d array"),
    ):
        with pytest.raises(ValueError, match=message):
            PrivateLogisticRegression(**BINARY).fit(on_disk, target)
    model = PrivateLogisticRegression(**BINARY)
    expected = model.fit(X, y > 0).coef_
    np.testing.assert_array_equal(model.fit(on_disk, (y > 0).tolist()).coef_, expected)


FAULTS = {
    "cut short": (lambda path: os.truncate(path, 50_000), "shorter than it was|changed while"),
    "written to": (lambda path: os.utime(path), "changed while it was read"),
    "nan": (None, r"columns \[4\] hold missing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_changes_is_refused(fault, tmp_path, monkeypatch):
    X, y = data(3_000)
    change, message = FAULTS[fault]
    if change is None:
        X[-1, -1] = np.nan
    path = tmp_path / "X.npy"
    on_disk = mapped(path, X)
    checks = []
    check = ArrayFile.check

    def changing(self):
        checks.append(check(self))
        if change is not None and len(checks) == 3:  # the second pass has begun
            change(path)

    monkeypatch.setattr(ArrayFile, "check", changing)
    model = PrivateLogisticRegression(**BINARY)
    with pytest.raises(ValueError, match=message):
        model.fit(on_disk, y > 0)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("solver", [NoisyGD(n_steps=2), DPSGD()])
@pytest.mark.parametrize("least_bytes", [0, 1 << 26])
def test_a_short_file_does_not_end_the_process(solver, least_bytes, tmp_path, monkeypatch, passes):
    monkeypatch.setattr(ArrayFile, "least_bytes", least_bytes)
    X, y = data(3_000)
    path = tmp_path / "X.npy"
    model = PrivateLogisticRegression(**BINARY, solver=solver)
    on_disk = mapped(path, X)
    model.fit(on_disk, y > 0)
    assert bool(passes) == (least_bytes == 0 and solver.streams)
    os.truncate(path, 50_000)
    with pytest.raises(ValueError, match="shorter than it was"):
        model.fit(on_disk, y > 0)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_are_converted_as_scikit_learn_converts_them(library):
    X, y = data(500)
    columns = {f"x{j}": X[:, j].astype(np.float32) for j in range(5)} | {"x3": X[:, 3] > 0}
    frame = library(columns)
    model = PrivateLogisticRegression(**BINARY)
    expected = clone(model).fit(check_array(frame, dtype=[np.float64, np.float32]), y > 0)
    np.testing.assert_array_equal(model.fit(frame, y > 0).coef_, expected.coef_)
    assert model.feature_names_in_.tolist() == list(columns)
    with pytest.raises(ValueError, match=r"columns that are not numbers|must be numbers"):
        model.fit(library(columns | {"x5": ["text"] * 500}), y > 0)


LIMITED = """
import resource, sys
import numpy as np
from skdpdyn import PrivateLogisticRegression
from skdpdyn.data import ParquetRows

def status(field):
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(field))

def fit(X, y=None):
    return PrivateLogisticRegression(classes=[False, True], bounds=None).fit(X, y)

folder, allowed = sys.argv[1], int(sys.argv[2])
y = np.load(f"{folder}/y.npy")
X = np.load(f"{folder}/X.npy", mmap_mode="r")
rng = np.random.default_rng(0)
few = rng.standard_normal((1000, 50)).astype(np.float32)
fit(few, few[:, 0] > 0)
fit(ParquetRows(f"{folder}/few.parquet", "y"))
limit = status("VmData") + allowed
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
if sys.argv[3] == "array":
    fit(np.array(X), y)
print(fit(X, y).n_samples_, fit(ParquetRows(f"{folder}/X.parquet", "y")).n_samples_)
"""


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.skipif(
    config.DISABLE_JIT or not sys.platform.startswith("linux"),
    reason="needs compiled kernels, and a limit that Linux has",
)
def test_a_file_larger_than_memory_fits(tmp_path):
    n_samples = 2_000_000
    n_features = 50
    allowed = 250_000_000
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.3, 0.3, (n_samples, n_features)).astype(np.float32)
    y = X[:, 0] > 0
    assert X.nbytes > allowed
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    table = pa.table({f"x{j}": X[:, j] for j in range(n_features)} | {"y": y})
    parquet.write_table(table, tmp_path / "X.parquet", row_group_size=1 << 18)
    parquet.write_table(table.slice(0, 1000), tmp_path / "few.parquet")
    run = [sys.executable, "-c", LIMITED, str(tmp_path), str(allowed)]
    fits = subprocess.run([*run, "map"], capture_output=True, text=True, check=False)
    assert fits.stdout.split() == [str(n_samples)] * 2, fits.stderr
    array = subprocess.run([*run, "array"], capture_output=True, text=True, check=False)
    assert array.returncode != 0
