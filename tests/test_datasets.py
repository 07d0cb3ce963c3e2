"""The packaged data: what was published is what is loaded, and the public facts about it hold."""

import gzip
import hashlib
import subprocess
import sys
from functools import cache
from importlib import resources

import numpy as np
import pytest

from skdpdyn.datasets import load_adult, load_flights

COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country"),
]
NUMERIC = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
# Records with income <=50K and >50K, in the train and test parts of UCI
COUNTS = {True: (34_014, 11_208, 30_162, 15_060), False: (37_155, 11_687, 32_561, 16_281)}


@cache
def loaded(complete=True):
    """Return the records, once for all tests that only read them."""
    return load_adult(complete=complete)


@pytest.fixture
def adult():
    return loaded()


def packaged(name):
    return resources.files("skdpdyn.datasets").joinpath("data", name)


DIGESTS = {
    "adult": "ae0655a69eefdf7e0186431236d13982bc29cb8c1ab2dcc1bd68dae2ecec0d92",
    "flights": "a502c42425fd2344c8be5be11f7dd0ca39add9e70e26a7d25400be6bb99d3010",
}
LICENCES = {
    "adult": ("Becker", "Kohavi", "10.24432/C5XW20", "Creative Commons Attribution 4.0", "Changes"),
    "flights": ("nycflights13", "Wickham", "CC0 1.0", "Changes", "default_rng(0).choice(327346"),
}


def test_files_are_the_published_ones_with_their_licences():
    assert hashlib.sha256(packaged("adult.csv.gz").read_bytes()).hexdigest() == DIGESTS["adult"]
    packed = packaged("flights.csv.gz").read_bytes()
    assert len(packed) < 400_000
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == DIGESTS["flights"]
    for name, needed in LICENCES.items():
        text = packaged(f"LICENSE-{name}.txt").read_text(encoding="utf-8")
        assert [part for part in needed if part not in text] == []
    assert "10.24432/C5XW20" in load_adult.__doc__


@pytest.mark.parametrize("complete", [True, False])
def test_counts(complete):
    adult = loaded(complete)
    low, high, train, test = COUNTS[complete]
    n_samples = low + high
    assert n_samples == (45_222 if complete else 48_842)
    assert adult.data.shape == (n_samples, 14)
    assert adult.frame.shape == (n_samples, 15)
    assert adult.target.value_counts().to_dict() == {"<=50K": low, ">50K": high}
    assert adult.split.tolist().count("train") == train
    assert adult.split.tolist().count("test") == test
    missing = (adult.data == "?").any(axis=1).sum()
    assert missing == (0 if complete else 3_620)


def test_columns(adult):
    assert adult.feature_names == COLUMNS
    assert list(adult.data.columns) == COLUMNS
    assert list(adult.frame.columns) == [*COLUMNS, "income"]
    assert adult.target.name == "income"
    assert adult.target_names == ["<=50K", ">50K"]
    assert all(adult.data[name].dtype == np.float64 for name in NUMERIC)
    assert list(adult.data.select_dtypes("number").columns) == NUMERIC
    assert load_adult.__doc__ == adult.DESCR


def test_order_is_that_of_the_source(adult):
    assert adult.data.iloc[0].tolist() == [
        *(39, "State-gov", 77516, "Bachelors", 13, "Never-married", "Adm-clerical"),
        *("Not-in-family", "White", "Male", 2174, 0, 40, "United-States"),
    ]
    assert adult.split[0] == "train"
    assert adult.split[-1] == "test"
    assert np.all(adult.split[:30_162] == "train")
    last = adult.frame.iloc[-1]
    assert (last["age"], last["workclass"], last["income"]) == (35, "Self-emp-inc", ">50K")


FLIGHT_COLUMNS = [
    *("month", "day", "carrier", "origin", "dest"),
    *("sched_dep_time", "sched_arr_time", "air_time", "distance"),
]


@pytest.mark.parametrize("complete", [True, False, None])
def test_bounds_hold_levels_are_complete_and_both_are_public(complete):
    """Of adult, of all records of it, and of flights."""
    table = load_flights() if complete is None else loaded(complete)
    columns = FLIGHT_COLUMNS if complete is None else COLUMNS
    assert sorted([*table.bounds, *table.categories]) == sorted(columns)
    for name, (low, high) in table.bounds.items():
        assert low <= table.data[name].min() <= table.data[name].max() <= high, name
    unused = {}
    for name, levels in table.categories.items():
        occurring = set(table.data[name]) - {"?"}
        assert occurring <= set(levels), name
        assert levels == sorted(set(levels)), name
        if unseen := set(levels) - occurring:
            unused[name] = unseen
    if complete is None:  # levels of the year, of which two airports are not in the sample
        assert table.bounds["air_time"] == (0, 700)
        assert [len(codes) for codes in table.categories.values()] == [16, 3, 104]
        assert (unused.keys(), len(unused["dest"])) == ({"dest"}, 2)
        return
    assert list(table.bounds) == NUMERIC
    # documented ranges, not the extremes of these records
    assert table.bounds["fnlwgt"] == (0, 1_500_000)
    assert table.bounds["capital-gain"] == (0, 100_000)
    assert table.bounds["capital-loss"] == (0, 4_500)
    # one level of the census form occurs only beside a missing occupation
    assert unused == ({"workclass": {"Never-worked"}} if complete else {})


@pytest.mark.parametrize(("as_frame", "complete"), [(True, False), (False, True)])
def test_return_X_y(as_frame, complete):
    bunch = loaded(complete) if as_frame else load_adult(as_frame=False, complete=complete)
    X, y = load_adult(return_X_y=True, as_frame=as_frame, complete=complete)
    assert type(X) is type(bunch.data)
    assert type(y) is type(bunch.target)
    assert np.array_equal(np.asarray(X, dtype=object), np.asarray(bunch.data, dtype=object))
    assert np.array_equal(np.asarray(y), np.asarray(bunch.target))


@pytest.mark.system
def test_arrays_need_no_pandas():
    program = """
import sys
sys.modules["pandas"] = None  # importing it fails
from skdpdyn.datasets import load_adult, load_flights
X, y = load_adult(return_X_y=True, as_frame=False)
print(X.shape, y.shape)
print(load_flights(return_X_y=True, as_frame=False)[0].shape)
try:
    load_adult()
except ImportError as error:
    print(error.name)
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == ["(45222, 14) (45222,)", "(20000, 9)", "pandas"], run.stderr
