"""BoundsScaler: a public map of each record alone, so that it costs nothing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from skdpdyn import PrivateLogisticRegression
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler

ROWS = np.array([[0.0, -1.0], [5.0, 1.0], [10.0, 0.0]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("feature_range", [(0.0, 1.0), (-1.0, 1.0), (2.0, 7.0)])
def test_maps_bounds_to_range(feature_range, dtype):
    scaler = BoundsScaler([(0, 10), (-1, 3)], feature_range=feature_range)
    scaled = scaler.fit_transform(np.array([[0, -1], [10, 3], [5, 1], [2.5, 0]], dtype=dtype))
    start, stop = feature_range
    share = np.array([[0, 0], [1, 1], [0.5, 0.5], [0.25, 0.25]])
    np.testing.assert_allclose(scaled, start + (stop - start) * share, rtol=4 * np.finfo(dtype).eps)
    assert scaled.dtype == dtype


@pytest.mark.smoke
def test_clips_what_lies_outside():
    scaled = BoundsScaler([(0, 10), (-1, 3)]).fit(ROWS).transform([[-1e300, 4.0], [11.0, -1e300]])
    np.testing.assert_array_equal(scaled, [[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_stays_in_range_whatever_the_rounding(dtype):
    rng = np.random.default_rng(0)
    for k in range(200):
        low, start = rng.uniform(-1, 1, 2)
        width = 10 ** rng.uniform(-3, 6)
        span = 10 ** rng.uniform(-3, 3)
        if k == 0:  # ends that are one float32
            low = 1e8
            width = 1.0
        scaler = BoundsScaler((low, low + width), feature_range=(start, start + span))
        scaled = scaler.fit_transform(np.array([[low], [low + width], [1e30], [-1e30]], dtype))
        rounding = 4 * np.finfo(dtype).eps * (abs(start) + span)
        assert np.all((scaled >= start - rounding) & (scaled <= start + span + rounding))


def test_bounds_by_column_name():
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    bounds = {"b": (-1, 1), "unused": (0, 1), "a": (0, 10)}
    scaler = BoundsScaler(bounds).fit(frame)
    np.testing.assert_array_equal(scaler.bounds_, [[0, 10], [-1, 1]])
    turned = BoundsScaler(bounds).fit(frame[["b", "a"]])
    np.testing.assert_array_equal(turned.bounds_, [[-1, 1], [0, 10]])
    with pytest.raises(ValueError, match=r"by column name: no bounds for \['b'\]"):
        BoundsScaler({"a": (0, 1)}).fit(frame)
    with pytest.raises(ValueError, match=r"bounds has shape \(2,\)"):
        BoundsScaler({"a": 0, "b": 1}).fit(frame)
    with pytest.raises(ValueError, match="feature names should match"):
        scaler.transform(frame[["b", "a"]])


def test_nothing_is_learnt_from_the_data():
    rng = np.random.default_rng(0)
    query = rng.normal(size=(20, 2))
    tables = 1e6 * rng.normal(size=(3, 2)), np.zeros((1, 2))
    first = BoundsScaler((-1, 1)).fit(rng.normal(size=(50, 2)))
    for other in (BoundsScaler((-1, 1)).fit(X) for X in tables):
        assert vars(other).keys() == vars(first).keys()
        np.testing.assert_array_equal(other.bounds_, first.bounds_)
        np.testing.assert_array_equal(other.transform(query), first.transform(query))
    # and a record's image does not depend on the records beside it
    alone = np.vstack([first.transform(row[None]) for row in query])
    np.testing.assert_array_equal(first.transform(query), alone)


NO_PAIRS = [(0, 0), (np.nan, 1), (0, np.inf), (-1e308, 1e308), (0,), "ab", (0, "1"), (True, 2)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bounds": "a"}, r"bounds='a' must be \(low, high\) of numbers or dates"),
        (
            {"bounds": {0: (0, 1), 1: ("2020-01-01", "now")}},
            "bounds of 1 are text: pass numbers",
        ),
        ({"bounds": [(0, 1)] * 3}, r"shape \(3, 2\): give one pair, or one pair for each of 2 col"),
        ({"bounds": (0, 1, 2)}, r"bounds has shape \(3,\)"),
        ({"bounds": 1.0}, r"bounds has shape \(\)"),
        ({"bounds": (1, 0)}, r"bounds=\(1, 0\) must be pairs \(low, high\) of finite numbers with"),
        ({"bounds": (1, 1)}, "must be pairs .* with low < high"),
        ({"bounds": [(0, 1), (0, np.inf)]}, r"of finite numbers .*: not so of columns \[1\]"),
        ({"bounds": (np.nan, 1)}, "of finite numbers"),
        ({"bounds": {"a": (0, 1)}}, "bounds is a dict by column name: X has no column names"),
        (
            {"feature_range": (1, 0)},
            r"feature_range=\(1, 0\) must be a pair \(low, high\) of finite numbers",
        ),
        *[({"feature_range": of}, "feature_range=.* must be a pair") for of in NO_PAIRS],
    ],
)
def test_errors(parameters, message):
    scaler = BoundsScaler(**parameters)
    with pytest.raises(ValueError, match=message):
        scaler.fit(ROWS)
    assert not hasattr(scaler, "bounds_")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_missing_values_by_choice(dtype):
    X = np.array([[np.nan, 1.0], [5.0, np.nan], [20.0, 0.0]], dtype=dtype)
    passed = BoundsScaler([(0, 10), (-1, 1)], missing="pass").fit(X).transform(X)
    np.testing.assert_array_equal(passed, [[np.nan, 1.0], [0.5, np.nan], [1.0, 0.5]])
    for start, filled in ((0.0, 0.0), (-1.0, 0.0), (2.0, 2.0)):
        scaler = BoundsScaler([(0, 10), (-1, 1)], (start, start + 2), missing="indicator")
        flagged = scaler.fit_transform(X)
        assert flagged.dtype == dtype
        np.testing.assert_array_equal(flagged[:, 2:], np.isnan(X))
        np.testing.assert_array_equal(flagged[:, :2][np.isnan(X)], filled)
        np.testing.assert_array_equal(flagged[2, :2], [start + 2, start + 1])
    assert scaler.get_feature_names_out().tolist() == ["x0", "x1", "x0_missing", "x1_missing"]
    whole = BoundsScaler((0, 1), missing="indicator").fit_transform(ROWS)
    assert whole.shape == (3, 4), "which columns have missing values is private"
    with pytest.raises(ValueError, match="infinity"):
        scaler.transform([[np.inf, 0.0]])
    with pytest.raises(ValueError, match="missing='drop' must be 'error'"):
        BoundsScaler((0, 1), missing="drop").fit(X)


def test_a_dict_serves_behind_steps_that_drop_names():
    frame = pd.DataFrame({"a": [np.nan, 5.0], "b": [-1.0, 1.0]})
    imputer = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
    pipeline = make_pipeline(imputer, BoundsScaler({"a": (0, 10), "b": (-1, 1)}))
    np.testing.assert_array_equal(pipeline.fit_transform(frame), [[0.0, 0.0], [0.5, 1.0]])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_refuses_what_is_not_finite(bad):
    scaler = BoundsScaler((0, 1)).fit(ROWS)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        scaler.transform([[bad, 0.0]])
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        BoundsScaler((0, 1)).fit([[bad, 0.0]])


@pytest.mark.parametrize("unit", ["datetime64[s]", "timedelta64[s]"])
def test_missing_dates_are_refused_as_other_gaps(unit):
    """Cast to an integer, one would become the most negative, which is finite."""
    X = np.array([["2020-01-01" if unit.startswith("date") else 1], ["NaT"]], dtype=unit)
    model = PrivateLogisticRegression(classes=[0, 1])
    for estimator in (BoundsScaler((0, 1)), PrivateScaler(1.0, 1e-5), model):
        for rows in (X, pd.DataFrame(X)):
            with pytest.raises(ValueError, match="Input X contains NaN"):
                estimator.fit(rows, [0, 1])
            if estimator is not model:
                estimator.fit(rows[:1])
