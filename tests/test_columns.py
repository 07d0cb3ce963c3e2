"""What a column is: one reading of every type, at every door; and columns that tell nothing."""

import datetime as dt
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    Schema,
    complete_schema,
)
from skdpdyn.core.columns import Frame, kind_of, numbers_in, value_of
from skdpdyn.core.expansion import Levels, levels_in
from skdpdyn.evaluation import evaluate
from skdpdyn.exceptions import PrivacyUtilityWarning
from skdpdyn.inference import person_periods, private_regression
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper

RNG = np.random.default_rng(0)
N = 4000
DAYS = RNG.integers(19_000, 20_000, N)
Y = DAYS > 19_500
FLIPPED = Y ^ (np.random.default_rng(1).random(N) < 0.2)  # no line separates these
DATES = DAYS.astype("datetime64[D]")
FIRST, LAST = "2022-01-08", "2024-10-04"  # days 19,000 and 20,000
TEXT_OF_DATES = Schema(types={"c": "date"})
NUMBERS = Schema(types={"c": "number"})


def arrow(values, kind):
    """Return a column of pandas with a type of pyarrow."""
    return pd.Series(values, dtype=pd.ArrowDtype(kind))


# --- columns of the same days, or numbers of days, and what a schema says of them ---------------

MOMENTS = pd.Series(DATES.astype("datetime64[ns]"))
TYPES = {
    "int16": (DAYS.astype(np.int16), None),
    "uint64": (DAYS.astype(np.uint64), None),
    "float32": (DAYS.astype(np.float32), None),
    "big-endian": (DAYS.astype(">f8"), None),
    "Int64 of pandas": (pd.array(DAYS, "Int64"), None),
    "Float32 of pandas": (pd.array(DAYS, "Float32"), None),
    "sparse": (pd.arrays.SparseArray(DAYS.astype(float)), None),
    "int of pyarrow": (arrow(DAYS, pa.int32()), None),
    "decimal of pyarrow": (arrow([Decimal(int(day)) for day in DAYS], pa.decimal128(9, 2)), None),
    "wide decimal": (arrow([Decimal(int(day)) for day in DAYS], pa.decimal256(40, 2)), None),
    "sparse of gaps": (pd.arrays.SparseArray(DAYS.astype(float), fill_value=np.nan), None),
    "sparse int": (pd.arrays.SparseArray(DAYS), None),
    "datetime64": (DATES.astype("datetime64[s]"), None),
    "with a zone": (MOMENTS.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"), None),
    "period": (MOMENTS.dt.to_period("D"), None),
    "date of pyarrow": (arrow(DATES.astype(object), pa.date32()), None),
    "time stamp of pyarrow": (arrow(MOMENTS, pa.timestamp("us", "UTC")), None),
    "timedelta64": (DAYS.astype("timedelta64[D]").astype("timedelta64[s]"), None),
    "duration of pyarrow": (arrow(DAYS.astype("m8[D]").astype("m8[us]"), pa.duration("us")), None),
    "numbers as objects": (DAYS.astype(object), NUMBERS),
    "Decimal": (np.array([Decimal(int(day)) for day in DAYS], dtype=object), NUMBERS),
    "numbers as text": (DAYS.astype(str), NUMBERS),
    "long text": (arrow(DAYS.astype(str).tolist(), pa.large_string()), NUMBERS),
    "numbers as codes": (
        pd.arrays.ArrowExtensionArray(pa.array(DAYS).dictionary_encode()),
        NUMBERS,
    ),
    "numbers as a category": (pd.Categorical(DAYS.astype(str)), NUMBERS),
    "dates as text": (DATES.astype(str), TEXT_OF_DATES),
    "dates of Python": (DATES.astype(object), TEXT_OF_DATES),
    "dates as a category": (pd.Categorical(DATES.astype(str)), TEXT_OF_DATES),
}
POLARS = {
    "polars: int": pl.Series(DAYS),
    "polars: decimal": pl.Series([Decimal(int(day)) for day in DAYS]),
    "polars: wide int": pl.Series(DAYS.tolist(), dtype=pl.Int128),
    "polars: date": pl.Series(DATES),
    "polars: datetime": pl.Series(DATES.astype("M8[ms]")),
    "polars: duration": pl.Series(DAYS.astype("m8[D]").astype("m8[us]")),
}
KNOWN = {"bounds": {"c": (19_000, 20_000)}, "classes": [False, True]}


def frame_of(name):
    """Return the column of a type as a frame, and what a schema says."""
    if name in POLARS:
        return pl.DataFrame({"c": POLARS[name]}), None
    if name == "table of pyarrow":
        return pa.table({"c": pa.array(DATES)}), None
    if name == "pieces of pyarrow":
        halves = np.array_split(DATES, 2)
        return pa.concat_tables([pa.table({"c": pa.array(half)}) for half in halves]), None
    if name == "batch of pyarrow":
        return pa.record_batch({"c": pa.array(DATES).cast(pa.date64())}), None
    column, schema = TYPES[name]
    return pd.DataFrame({"c": column}), schema


SINGLE = "float32", "Float32 of pandas"  # rows of single precision are trained on in it
EVERY = [*TYPES, *POLARS, "table of pyarrow", "pieces of pyarrow", "batch of pyarrow"]
EXPECTED = pd.DataFrame({"c": DAYS.astype(float)})


def scored(model, schema):
    """Return a function that fits a model, and predicts the rows."""

    def run(X):
        model_of = clone(model).set_params(schema=schema)
        return model_of.fit(X, Y).predict(X)

    return run


def searched(X, schema):
    """Return predictions of the winner of a search."""
    model = PrivateLogisticRegression(schema=schema, **KNOWN)
    search = PrivateSearchCV(model, {"clip": [1.0]}, epsilon=9.0, random_state=0)
    return search.fit(X, Y).predict(X)


def evaluated(X, schema):
    """Return a score of a model that knows the column as numbers."""
    model = PrivateLogisticRegression(epsilon=9.0, schema=schema, random_state=0, **KNOWN)
    return evaluate(model.fit(X, Y), X, Y, epsilon=1.0, random_state=0).accuracy.value


def tabled(X, schema, **options):
    """Return the coefficients of a table."""
    model = PrivateLogisticRegression()
    given = {"epsilon": 9.0, "bounds": KNOWN["bounds"], "classes": [False, True], **options}
    return private_regression(model, X, FLIPPED, schema=schema, random_state=0, **given)[1].params


LINEAR = PrivateLogisticRegression(epsilon=9.0, random_state=0, **KNOWN)
RIDGE = PrivateRidge(9.0, bounds=KNOWN["bounds"], target_bounds=(0, 1), random_state=0)
GAM = PrivateGAMClassifier(epsilon=9.0, random_state=0, **KNOWN)
CURVE = PrivateGAMRegressor(9.0, bounds=KNOWN["bounds"], target_bounds=(0, 1), random_state=0)

DOORS = {
    "linear": lambda X, schema: scored(LINEAR, schema)(X),
    "ridge": lambda X, schema: scored(RIDGE, schema)(X),
    "additive": lambda X, schema: scored(GAM, schema)(X),
    "additive regression": lambda X, schema: scored(CURVE, schema)(X),
    "explain": lambda X, schema: clone(GAM).set_params(schema=schema).fit(X, Y).explain(X),
    "search": searched,
    "evaluate": evaluated,
    "table": tabled,
    "table with levels": lambda X, schema: tabled(X, schema, categories="auto"),
    "bounds scaler": lambda X, schema: BoundsScaler(KNOWN["bounds"], schema=schema).fit_transform(
        X
    ),
    "profile": lambda X, schema: (
        complete_schema(X, Y, epsilon=9.0, schema=schema, random_state=0).classes
    ),
}
# doors that take no schema: types alone decide there
WITHOUT_SCHEMA = {
    "private scaler": lambda X: PrivateScaler(9.0, random_state=0).fit_transform(X),
    "row mapper": lambda X: RowMapper(1e6).fit_transform(X),
}


OF_LINEAR = "linear", "ridge", "search", "evaluate"  # rows of columns of mostly 0 stay sparse


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore")
def test_every_type_means_the_same_at_every_door(door):
    expected = np.asarray(DOORS[door](EXPECTED, None), dtype=float)
    for name in EVERY:
        if door in OF_LINEAR and name == "sparse int":
            with pytest.raises(ValueError, match="bounds would make sparse rows dense"):
                DOORS[door](*frame_of(name))
            continue
        found = np.asarray(DOORS[door](*frame_of(name)), dtype=float)
        assert np.isfinite(found).all(), name
        if name in SINGLE:
            assert np.mean(np.abs(found - expected)) < 0.02, name
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("door", WITHOUT_SCHEMA)
def test_types_decide_where_no_schema_is_taken(door):
    expected = WITHOUT_SCHEMA[door](EXPECTED)
    for name in EVERY:
        X, schema = frame_of(name)
        if schema is None:
            found = WITHOUT_SCHEMA[door](X)
            found = found.toarray() if sparse.issparse(found) else found  # rows stay sparse
            np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=name)


REFUSED = {
    "complex": DAYS * 1j,
    "time of day": arrow([dt.time(1)] * N, pa.time64("us")),
    "lists": arrow([[1]] * N, pa.list_(pa.int64())),
    "bytes": arrow([b"a"] * N, pa.binary()),
    "records": arrow([{"a": 1}] * N, pa.struct({"a": pa.int64()})),
    "spans of months": arrow([pa.MonthDayNano([1, 2, 3])] * N, pa.month_day_nano_interval()),
    "edges": pd.arrays.IntervalArray.from_breaks(np.arange(N + 1)),
    "polars: time": pl.Series([dt.time(1)] * N),
    "polars: lists": pl.Series([[1]] * N),
    "polars: records": pl.Series([{"a": 1}] * N),
    "polars: bytes": pl.Series([b"a"] * N),
}
NO_TABLES = {
    "structured array": np.array([*zip(DAYS, DAYS, strict=True)], dtype=[("c", int), ("d", float)]),
    "dict": {"c": DAYS.tolist()},
    "dicts": [{"c": int(day)} for day in DAYS],
    "generator": ((float(day),) for day in DAYS),
    "lazy frame": pl.LazyFrame({"c": DAYS}),
}


@pytest.mark.parametrize("door", [*DOORS, *WITHOUT_SCHEMA])
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_column_is_refused_by_name(door):
    enter = DOORS.get(door) or (lambda X, _: WITHOUT_SCHEMA[door](X))
    for column in (*REFUSED.values(), pd.cut(DAYS, 5)):
        X = (pl if isinstance(column, pl.Series) else pd).DataFrame({"c": column})
        with pytest.raises(ValueError, match="'c'"):
            enter(X, None)
    for X in NO_TABLES.values():
        with pytest.raises(ValueError, match=r"pandas\.DataFrame\(X\)|\.collect\(\)"):
            enter(X, None)


def test_sparse_flags_of_a_frame_are_flags():
    """`pandas.get_dummies(sparse=True)` makes them; scikit-learn would leave them as they are."""
    flags = pd.DataFrame({"c": DAYS > 19_400, "d": DAYS % 2 == 0})
    for dense, of_sparse in ((flags, bool), (flags.astype(int), int)):
        X = dense.astype(pd.SparseDtype(of_sparse, of_sparse(0)))
        model = clone(LINEAR).set_params(bounds=None)
        rows = sparse.csr_array(dense.to_numpy(dtype=float))
        np.testing.assert_array_equal(model.fit(X, Y).coef_, clone(model).fit(rows, Y).coef_)
        given = {"bounds": (0, 1), "categories": None}
        np.testing.assert_allclose(tabled(X, None, **given), tabled(dense, None, **given))


def test_a_linear_model_refuses_text_by_name_and_an_array_of_objects_is_of_numbers():
    """scikit-learn's checks ask for the latter."""
    X, _ = frame_of("numbers as objects")
    for door in ("linear", "ridge", "table", "bounds scaler"):
        bare = {"table": lambda X: tabled(X, None, bounds="auto")}.get(
            door,
            lambda X, door=door: {
                "linear": PrivateLogisticRegression(),
                "ridge": PrivateRidge(),
                "bounds scaler": BoundsScaler((0, 1)),
            }[door].fit(X, Y),
        )
        with pytest.raises(ValueError, match=r"'c' \(object\).*types="):
            bare(X)
    rows = EXPECTED.to_numpy()
    one = PrivateLogisticRegression(classes=[False, True], random_state=0).fit(rows, Y)
    other = clone(one).fit(rows.astype(object), Y)
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_cells_that_do_not_convert_are_missing():
    values = np.array(["7", " 8.5 ", Decimal("1e400"), "<5", "inf", None, True], dtype=object)
    expected = [7, 8.5, np.nan, np.nan, np.nan, np.nan, 1]
    np.testing.assert_array_equal(numbers_in(values), expected)
    days = np.array(["1970-01-02", dt.date(1970, 1, 3), "May", "12921-08-18", 5], dtype=object)
    np.testing.assert_array_equal(numbers_in(days, "date"), [1, 2, np.nan, 4_000_000, 5])
    missing = pd.DataFrame({"c": pd.Series(DAYS.astype(object)).mask(DAYS > 19_900, "<5")})
    model = clone(GAM).fit(missing, Y)
    blank = EXPECTED.mask(EXPECTED > 19_900)
    np.testing.assert_array_equal(model.coef_, clone(GAM).fit(blank, Y).coef_)


@pytest.mark.filterwarnings("error")
def test_no_date_beyond_the_year_9999_warns_of_itself():
    """numpy would, of one with its distance from UTC."""
    texts = {
        "12921-08-18T06:00": 0.25,
        "12921-08-18T00:00:00Z": 0,
        "12921-08-18T00:00+02:00": -1 / 12,
        "12921-08-18 00:00:00.5-0230": (2.5 + 0.5 / 3600) / 24,
        "12921-08-18T00-05": 5 / 24,
        "12921-08-18Z": np.nan,
        "12921-13-18T00:00Z": np.nan,
        "12921-08-18T00:00Z+02:00": np.nan,
    }
    found = numbers_in(np.array([*texts], dtype=object), "date")
    np.testing.assert_allclose(found, 4_000_000 + np.array([*texts.values()]), rtol=1e-15)


FAR = pa.array([0, None, 2**63 - 1], pa.timestamp("us"))  # Python has no such last one
IN_A_ZONE = pa.array([0, None, 2**63 - 1], pa.timestamp("us", "Asia/Tokyo"))
FAR_DATES = {
    "arrow": FAR,
    "arrow, in a zone": IN_A_ZONE,
    "arrow, days": pa.array([0, None, 2**31 - 1], pa.int32()).cast(pa.date32()),
    "arrow, portions": pa.chunked_array([FAR[:2], FAR[2:]]),
    "arrow, a dictionary": FAR.dictionary_encode(),
    "pandas, of arrow": arrow(FAR, FAR.type),
    "pandas, a dictionary": pd.Series(pd.arrays.ArrowExtensionArray(IN_A_ZONE.dictionary_encode())),
    "pandas, in a zone": IN_A_ZONE.to_pandas(),
    "pandas, categories": IN_A_ZONE.to_pandas().astype("category"),
    "polars": pl.Series([0, None, 2**63 - 1]).cast(pl.Datetime("us")),
    "polars, in a zone": pl.Series([0, None, 2**62]).cast(pl.Datetime("us", "Asia/Tokyo")),
    "numpy": np.array([0, -(2**63), 2**62], "M8[us]"),
}


@pytest.mark.parametrize("name", FAR_DATES)
def test_no_date_is_too_far_away_to_be_a_level(name):
    """Other libraries raise where Python has no such date, for one cell of a whole column."""
    assert Levels(("1970-01-01",)).codes(FAR_DATES[name]).tolist() == [0, 2, 1]
    assert levels_in(FAR_DATES[name])[0].levels == ("1970-01-01",)


def test_no_cell_decides_what_a_column_of_objects_is():
    one = pd.DataFrame({"c": np.array([1.5, 2.5], dtype=object)})
    other = pd.DataFrame({"c": np.array(["a", 1], dtype=object)})
    assert Frame.of(one).kinds == Frame.of(other).kinds == ["objects"]
    assert kind_of(pd.Categorical([1, 2]).dtype) == "text"
    for rows in ([[1, "a"], [2, "b"]], [[1.0, None], [2.0, 3.0]]):
        for model in (PrivateLogisticRegression(), PrivateGAMClassifier()):
            with pytest.raises(ValueError, match="X is a list of cells of several types"):
                model.fit(rows, [0, 1])


def test_no_cell_decides_what_a_list_of_numbers_is():
    """numpy makes flags of flags alone, and objects of all cells if one is a large integer."""
    rng = np.random.default_rng(0)
    flags = (rng.random((3000, 2)) < 0.5).tolist()
    whole = rng.integers(0, 9, (3000, 2)).tolist()
    model = PrivateGAMClassifier(4.0, categories="auto", classes=[0, 1], random_state=0)
    for rows, cells in ((flags, (False, 2, 0.5, 2**64)), (whole, (3, 0.5, True, 2**64))):
        kinds = []
        for cell in cells:
            fitted = model.fit([[cell, *rows[0][1:]], *rows[1:]], [0, 1] * 1500)
            kinds.append((fitted.schema_.types, list(fitted.bought_)))
        assert kinds == [({0: "number", 1: "number"}, ["bounds"])] * len(cells)


# --- values of a column that a user gives -------------------------------------------------------

FORMS = [
    str,
    dt.date.fromisoformat,
    dt.datetime.fromisoformat,
    pd.Timestamp,
    np.datetime64,
    lambda text: pd.Timestamp(text, tz="UTC"),
    lambda text: float(np.datetime64(text).astype(int)),
]


@pytest.mark.parametrize("form", FORMS)
def test_dates_are_bounds_in_every_form(form):
    pair = form(FIRST), form(LAST)
    X, _ = frame_of("datetime64")
    schema = Schema(bounds={"c": pair})
    columns = ["name", "low", "high", "levels"]
    book = Schema.from_codebook(pd.DataFrame([("c", *pair, None)], columns=columns))
    expected = {model: clone(model).fit(X, Y).coef_ for model in (LINEAR, GAM)}
    for model, coef in expected.items():
        for given in (schema, book, Schema.from_json(schema.to_json())):
            by_schema = clone(model).set_params(bounds="auto", schema=given).fit(X, Y)
            np.testing.assert_array_equal(by_schema.coef_, coef)
        plain = clone(model).set_params(bounds={"c": pair}).fit(X, Y)
        np.testing.assert_array_equal(plain.coef_, coef)
        assert plain.schema_.bounds == {"c": (FIRST, LAST)}
        assert plain.schema_.types == {"c": "date"}
    scaled = BoundsScaler({"c": pair}).fit_transform(X)
    np.testing.assert_allclose(scaled[:, 0], (DAYS - 19_000) / 1000)
    np.testing.assert_array_equal(tabled(X, None), tabled(X, None, bounds={"c": pair}))


def test_curves_of_dates_have_dates_on_their_axis():
    model = clone(GAM).fit(frame_of("datetime64")[0], Y)
    grid = model.shapes_["c"].grid
    assert grid.dtype.kind == "M"
    assert np.datetime64(FIRST) <= grid[0] < grid[-1] <= np.datetime64(LAST)
    by_text = pd.DataFrame({"c": [FIRST, LAST]})  # the model knows that they are dates
    assert model.predict(by_text).tolist() == [False, True]
    table = private_regression(
        PrivateLogisticRegression(),
        frame_of("datetime64")[0],
        Y,
        epsilon=9.0,
        classes=[False, True],
    )[1]
    np.testing.assert_array_equal(table.predict([[FIRST]]), table.predict([[19_000]]))


def test_a_codebook_has_types():
    lines = [("price", None, None, None, "number"), ("day", FIRST, LAST, None, "date")]
    book = pd.DataFrame(lines, columns=["name", "low", "high", "levels", "type"])
    schema = Schema.from_codebook(book)
    assert schema.types == {"price": "number", "day": "date"}
    assert schema.bounds == {"day": (FIRST, LAST)}
    assert Schema.from_codebook(book[sorted(book)]) == schema
    with pytest.raises(ValueError, match="levels, and if need be type, and no others"):
        Schema.from_codebook(book.assign(unit="euro"))
    with pytest.raises(ValueError, match="types="):
        Schema(types={"price": "money"})


@pytest.mark.parametrize("unit", ["h", "ms"])
def test_durations_are_days(unit):
    days = np.minimum(RNG.exponential(3, 20_000), 5)
    spans = pd.Series((days * 86_400_000).astype("m8[ms]")).astype(
        f"m8[{'s' if unit == 'h' else unit}]"
    )
    happens = days < 5
    periods = person_periods(spans, happens, [1, 2, 3, 4, 5])
    by_span = person_periods(spans, happens, [pd.Timedelta(days=k) for k in range(1, 6)])
    assert abs(int(periods[1].sum()) - int(happens.sum())) < 5
    np.testing.assert_array_equal(periods[1], by_span[1])
    counts = RNG.poisson(0.1 * days)
    X = RNG.uniform(0, 1, (20_000, 1))
    model = PrivatePoissonRegressor(epsilon=9.0, bounds=(0, 1), target_bounds=(0, 20))
    assert model.fit(X, counts, exposure=spans).predict(X).mean() == pytest.approx(0.1, rel=0.1)
    dates = pd.Series(DATES).repeat(5).to_numpy()
    with pytest.raises(ValueError, match="dates are no durations"):
        model.fit(X, counts, exposure=dates)
    assert value_of(pd.Timedelta(hours=36)) == 1.5


# --- columns that tell nothing ------------------------------------------------------------------

SLIPS = {
    "numbers as objects": (DAYS.astype(object), {}, "none of its levels"),
    "dates as text": (DATES.astype(str), {}, "none of its levels"),
    "another case": (
        np.where(Y, "old", "young"),
        {"categories": {"c": ["Old", "Young"]}},
        "none of",
    ),
    "codes with zeros": (
        np.array([f"0{day % 10}" for day in DAYS]),
        {"categories": {"c": [*range(10)]}},
        "none of",
    ),
    "other units": (DAYS * 1000.0, {"bounds": {"c": (0, 20_000)}}, "upper end"),
    "words under bounds": (DATES.astype(str), {"bounds": {"c": (0, 1)}}, "missing"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_columns_that_tell_nothing_are_named(slip):
    column, given, why = SLIPS[slip]
    X = pd.DataFrame({"c": column, "b": RNG.uniform(0, 1, N)})
    with pytest.warns(PrivacyUtilityWarning, match=f"tell nothing.*'c': .*{why}"):
        model = PrivateGAMClassifier(epsilon=4.0, classes=[False, True], **given).fit(X, Y)
    assert list(model.silent_columns_) == ["c"]
    assert "columns that tell nothing: `c`" in model.privacy_report().to_text()


@pytest.mark.parametrize("seed", range(4))
def test_other_units_are_named_if_the_distribution_shows_one_cell(seed):
    """All of the curve is then as it is in that cell."""
    X = pd.DataFrame({"c": np.resize(DAYS, 40_000) * 1000.0, "b": np.arange(40_000) % 1000})
    model = PrivateGAMClassifier(epsilon=4.0, bounds={"c": (0, 20_000)}, random_state=seed)
    with pytest.warns(PrivacyUtilityWarning, match="'c': nearly all of its values are at the up"):
        model.fit(X, np.resize(Y, 40_000))
    assert list(model.silent_columns_) == ["c"]


def test_linear_models_tables_and_profiles_name_them_too():
    X = pd.DataFrame({"c": DAYS * 1000.0, "b": RNG.uniform(0, 1, N)})
    with pytest.warns(
        PrivacyUtilityWarning, match="'c': nearly all of its values are at the upper"
    ):
        clone(LINEAR).set_params(bounds={"c": (0, 20_000), "b": (0, 1)}).fit(X, Y)
    words = pd.DataFrame({"c": np.char.add("id", np.arange(N).astype(str)), "b": DAYS % 7})
    with pytest.warns(PrivacyUtilityWarning, match="'c': none of its levels"):
        complete_schema(words, Y, epsilon=4.0)
    with pytest.warns(PrivacyUtilityWarning, match="'c': none of its levels"):
        _, table = private_regression(
            PrivateLogisticRegression(), words, Y, epsilon=4.0, categories="auto"
        )
    assert any(name.startswith("c: ") for name in table.names)


def test_rare_flags_and_columns_of_zeros_are_not_named():
    X = pd.DataFrame(
        {
            "zeros": np.where(RNG.random(20_000) < 0.92, 0.0, RNG.uniform(0, 100, 20_000)),
            "rare": (RNG.random(20_000) < 0.01).astype(float),
            "flag": RNG.random(20_000) < 0.02,
            "level": RNG.choice(["a", "b"], 20_000, p=[0.97, 0.03]),
        }
    )
    y = RNG.random(20_000) < 0.3
    bounds = {"zeros": (0, 100), "rare": (0, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in ({}, {"bounds": bounds}):
            assert PrivateGAMClassifier(epsilon=1.0, **given).fit(X, y).silent_columns_ == {}
            numbers = X.drop(columns="level")
            linear = PrivateLogisticRegression(epsilon=1.0, **given).fit(numbers, y)
            assert linear.silent_columns_ == {}


@pytest.mark.every_case
@pytest.mark.parametrize("dtype", ["str", "string", "string[pyarrow]", "category"])
def test_few_cells_of_text_are_read_as_many_are(dtype):
    cells = ["a", " b", "7", "nan", None, "b", "1.0", "", "c"] * 5
    column = pd.Series(cells, dtype=dtype)
    levels = Levels(("a", "b", 7, "nan", 1))
    many = levels.codes(column)
    assert many.tolist() == [0, 1, 2, 3, 6, 1, 4, 5, 5] * 5
    few = [levels.codes(column.iloc[k : k + 1])[0] for k in range(len(cells))]
    assert few == many.tolist()
