"""Arrays in files: the bits of an array, no copy, and files that are cut short or change."""

import os
import signal
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
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array

from skdpdyn import (
    PrivateGAMRegressor,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.evaluation import evaluate
from skdpdyn.inference import private_regression
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.solvers import DPSGD, NoisyGD

N_SAMPLES = 1_500 if config.DISABLE_JIT else 4_500
BINARY = {"classes": [False, True], "random_state": 0}


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


def gone(path, array):
    """A map of a file that has no name any more."""
    pages = mapped(path, array)
    path.unlink()
    return pages


MAPS = {
    "npy": lambda path, X: mapped(path, X),
    "a plain view": lambda path, X: np.asarray(mapped(path, X)),
    "writable": lambda path, X: mapped(path, X, "r+"),
    "copied on write": lambda path, X: mapped(path, X, "c"),
    "by columns": lambda path, X: mapped(path, np.asfortranarray(X)),
    "offset": raw,
    "part": lambda path, X: mapped(path, np.concatenate([X[:7], X, X[:3]]))[7:-3],
    "every other row": lambda path, X: mapped(path, np.repeat(X, 2, axis=0))[::2],
    "gone": gone,
}
FEW = DPSGD(n_steps=5, batch_size=50)  # whose noise is found in no time
THREE = PrivateSoftmaxRegression(classes=[0, 1, 2], random_state=0)
MODELS = {  # and what they learn of y
    "classes": (PrivateLogisticRegression(**BINARY), lambda y: y > 0),
    "three": (THREE, lambda y: np.digitize(y, [-1, 1])),
    "bounds": (PrivateRidge(target_bounds=(-5, 5), random_state=0), lambda y: y),
    "leaky classes": (PrivateLogisticRegression(random_state=0), lambda y: y > 0),
    "leaky bounds": (PrivateRidge(random_state=0), lambda y: y),
    "weights": (PrivateLogisticRegression(**BINARY, class_weight={True: 2.0}), lambda y: y > 0),
    "batches": (PrivateLogisticRegression(**BINARY, solver=FEW), lambda y: y > 0),
    "counts": (PrivatePoissonRegressor(random_state=0), lambda y: np.round(np.abs(y))),
}
DTYPES = np.float32, np.float64, np.int16


@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("how", MAPS)
def test_the_same_bits_as_from_an_array(how, tmp_path):
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
        model.fit(on_disk, mapped(tmp_path / "y.npy", target) if how == "npy" else target)
        np.testing.assert_array_equal(model.coef_, expected[0])
        np.testing.assert_array_equal(model.intercept_, expected[1])
        assert model.n_features_in_ == 5


def rows_as(dtype):
    """Return the rows, as large as whole numbers need."""
    X, _ = data()
    return (100 * X if dtype == np.int16 else X).astype(dtype)


@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("beside", ["exposure", "groups"])
def test_the_same_bits_with_what_is_beside(beside, tmp_path):
    X, y = data()
    (model, target_of) = MODELS["counts"]
    target = target_of(y)
    on_disk = mapped(tmp_path / "X.npy", X)
    values = np.linspace(0.5, 2, len(X)) if beside == "exposure" else np.arange(len(X)) // 3
    expected = model.fit(X, target, **{beside: values}).coef_
    for given in (values, values.tolist(), mapped(tmp_path / "beside.npy", values)):
        np.testing.assert_array_equal(model.fit(on_disk, target, **{beside: given}).coef_, expected)


# --- files that are cut short, or change ----------------------------------------------------------

SHORT = {"conditioning": None, "solver": NoisyGD(n_steps=2)}
LOGISTIC = PrivateLogisticRegression(**BINARY, **SHORT)
WEIGHED = clone(LOGISTIC).set_params(weight_bounds=(0.1, 2))
TREND = PrivateGAMRegressor(bounds=(-3, 3), target_bounds=(-5, 5), random_state=0)
PLAIN = PrivateLogisticRegression(classes=[False, True], **SHORT)
SEARCH = PrivateSearchCV(PLAIN, {"clip": [0.5, 1.0]}, epsilon=8.0, random_state=0)
ASKED = {
    "X": lambda on_disk, X, y: clone(LOGISTIC).fit(on_disk(X), y > 0),
    "a plain view": lambda on_disk, X, y: clone(LOGISTIC).fit(np.asarray(on_disk(X)), y > 0),
    "y": lambda on_disk, X, y: clone(LOGISTIC).fit(X, on_disk(y > 0)),
    "groups": lambda on_disk, X, y: clone(LOGISTIC).fit(X, y > 0, on_disk(np.arange(len(y)) // 2)),
    "sample_weight": lambda on_disk, X, y: clone(WEIGHED).fit(
        X, y > 0, sample_weight=on_disk(np.ones(len(y)))
    ),
    "sparse": lambda on_disk, X, y: clone(LOGISTIC).fit(
        sparse.csr_array((on_disk(X.ravel()), *_places(X)), shape=X.shape), y > 0
    ),
    "exposure": lambda on_disk, X, y: PrivatePoissonRegressor(target_bounds=(0, 9), **SHORT).fit(
        X, np.round(np.abs(y)), exposure=on_disk(np.ones(len(y)))
    ),
    "an additive model": lambda on_disk, X, y: clone(TREND).fit(on_disk(X), y),
    "a search": lambda on_disk, X, y: clone(SEARCH).fit(on_disk(X), y > 0),
    "a scaler": lambda on_disk, X, y: PrivateScaler(epsilon=9.0).fit(on_disk(X)),
    "a table": lambda on_disk, X, y: private_regression(
        PrivateRidge(), on_disk(X), y, epsilon=1.0, bounds=(-3, 3), target_bounds=(-5, 5)
    ),
    "an evaluation": lambda on_disk, X, y: evaluate(
        clone(LOGISTIC).fit(X, y > 0), on_disk(X), y > 0, epsilon=1.0
    ),
}


def _places(X):
    n_rows, n_columns = X.shape
    return np.tile(np.arange(n_columns), n_rows), np.arange(0, n_columns * (n_rows + 1), n_columns)


@pytest.mark.every_case
@pytest.mark.parametrize("asked", ASKED)
def test_a_short_file_is_refused_before_it_is_read(asked, tmp_path):
    X, y = data(1500)

    def cut(array):
        pages = mapped(tmp_path / "cut.npy", array)
        os.truncate(tmp_path / "cut.npy", 1000)
        return pages

    with pytest.raises(ValueError, match="shorter than it was: open it anew"):
        ASKED[asked](cut, X, y)


@pytest.mark.every_case
@pytest.mark.parametrize("asked", ASKED)
def test_nothing_is_published_of_a_file_that_changed(asked, tmp_path, monkeypatch):
    """It is told by its size, its inode and the time of its change, which a late look sees."""
    from skdpdyn.data import files

    X, y = data(1500)
    path = tmp_path / "X.npy"
    check = files._Pages.check
    looks = []

    def changed(self):
        looks.append(self)
        os.utime(path, ns=(0, 0))
        check(self)

    monkeypatch.setattr(files._Pages, "check", changed)
    with pytest.raises(ValueError, match="changed while it was read"):
        ASKED[asked](lambda array: mapped(path, array), X, y)
    assert len(looks) == 1


def _grown(path):
    with path.open("ab") as file:
        file.write(b"more")


CHANGES = {
    "cut behind the array": lambda path: os.truncate(path, path.stat().st_size - 3),
    "grown": _grown,
    "written to": lambda path: os.utime(path),
    "another file of its name": lambda path: os.replace(path.with_suffix(".new"), path),
    "gone": os.remove,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_leaves_the_model_as_it_was(change, tmp_path):
    path = tmp_path / "X"
    X, y = data(3_000)
    on_disk = raw(path, X)
    path.with_suffix(".new").write_bytes(path.read_bytes())

    class Changing(NoisyGD):
        def solve(self, *arguments, **options):
            CHANGES[change](path)
            return super().solve(*arguments, **options)

    model = clone(LOGISTIC).fit(X, y < 0)
    before = dict(vars(model))
    model.solver = Changing(n_steps=2)
    with pytest.raises(ValueError, match="changed while it was read"):
        model.fit(on_disk, y > 0)
    assert {**vars(model), "solver": None} == {**before, "solver": None}


def test_an_error_of_a_fit_is_heard_before_that_of_its_file(tmp_path):
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


# --- whole systems --------------------------------------------------------------------------------

CUT = """
import os, sys
import numpy as np
from skdpdyn import PrivateLogisticRegression
from skdpdyn.solvers import NoisyGD

class Cutting(NoisyGD):
    def solve(self, *arguments, **options):
        os.truncate(sys.argv[1], 1000)
        return super().solve(*arguments, **options)

X = np.load(sys.argv[1], mmap_mode="r")
y = np.arange(len(X)) % 2
PrivateLogisticRegression(classes=[0, 1], solver=Cutting(n_steps=2)).fit(X, y)
print("published")
"""
LINUX = pytest.mark.skipif(
    config.DISABLE_JIT or not sys.platform.startswith("linux"),
    reason="needs compiled kernels, and signals and limits that Linux has",
)


@pytest.mark.system
@LINUX
def test_a_file_that_is_cut_while_it_is_read_ends_the_process(tmp_path):
    """No model is published; the page on many rows says so."""
    np.save(tmp_path / "X.npy", data(100_000)[0])
    run = [sys.executable, "-c", CUT, str(tmp_path / "X.npy")]
    cut = subprocess.run(run, capture_output=True, text=True, check=False)
    assert cut.returncode == -signal.SIGBUS
    assert cut.stdout == ""


LIMITED = """
import resource, sys
import numpy as np
from skdpdyn import PrivateLogisticRegression
from skdpdyn.data import ParquetRows

def status(field):
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(field))

def fit(X, y=None, groups=None):
    return PrivateLogisticRegression(classes=[False, True], bounds=None).fit(X, y, groups)

folder, allowed = sys.argv[1], int(sys.argv[2])
y = np.load(f"{folder}/y.npy")
X = np.load(f"{folder}/X.npy", mmap_mode="r")
persons = np.arange(len(y), dtype=np.int32) // 2
rng = np.random.default_rng(0)
few = rng.standard_normal((1000, 50)).astype(np.float32)
fit(few, few[:, 0] > 0)
fit(few, few[:, 0] > 0, np.arange(1000) // 2)
fit(ParquetRows(f"{folder}/few.parquet", "y"))
limit = status("VmData") + allowed
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # of anonymous memory, not of pages
if sys.argv[3] == "array":
    fit(np.array(X), y)
elif sys.argv[3] == "map":
    print(fit(X, y).n_samples_)
    print(fit(X, y, persons).n_samples_)
else:
    print(fit(ParquetRows(f"{folder}/X.parquet", "y")).n_samples_)
"""


@pytest.mark.system
@pytest.mark.slow
@LINUX
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

    def run(source):
        # a process each: pyarrow's allocator keeps what it has once asked for
        command = [sys.executable, "-c", LIMITED, str(tmp_path), str(allowed), source]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    pages = run("map")
    assert pages.stdout.split() == [str(n_samples), str(n_samples // 2)], pages.stderr
    parquet_file = run("parquet")
    assert parquet_file.stdout.split() == [str(n_samples)], parquet_file.stderr
    array = run("array")
    assert array.returncode != 0
