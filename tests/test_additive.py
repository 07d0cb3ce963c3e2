"""Additive models: public expansions, rows of cells, and the estimators that train on them."""

import pickle
import tracemalloc
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import product
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
)
from skdpdyn.core import rules
from skdpdyn.core.columns import key_of, numbers_in
from skdpdyn.core.expansion import Expansion, Levels, NumberColumn, cosines, levels_in
from skdpdyn.core.losses import logistic, softmax
from skdpdyn.core.noise import generators
from skdpdyn.core.objective import Objective
from skdpdyn.core.schema import Schema
from skdpdyn.core.sealed import SealedCells, opened
from skdpdyn.core.spending import Spending
from skdpdyn.data import ParquetRows
from skdpdyn.data.coded import Coded, CodedRows
from skdpdyn.data.local import LocalRows
from skdpdyn.data.lookups import Lookups
from skdpdyn.data.persons import by_person
from skdpdyn.data.row_map import RowMap
from skdpdyn.data.rows import row_norms
from skdpdyn.inference import private_regression
from skdpdyn.inference.table import names_of
from skdpdyn.inspection import ShapeDisplay
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.privacy import Budget, Ledger, Vocabulary, check_report, composition
from skdpdyn.training.additive import drawn_finely, read_cells, read_table
from skdpdyn.training.base import distinct
from skdpdyn.training.look import energy
from skdpdyn.training.parts import LEVELS
from skdpdyn.training.plan import plan_of
from skdpdyn.training.purchase import Purchase
from skdpdyn.training.reading import Beside, read

RNG = np.random.default_rng(0)
N = 4000
FRAME = pd.DataFrame(
    {
        "age": RNG.uniform(0, 100, N),
        "gain": RNG.exponential(100.0, N) * (RNG.random(N) < 0.5),
        "ward": RNG.choice(["north", "south", "west"], N),
        "urgent": RNG.random(N) < 0.3,
    }
)
Y = (np.abs(FRAME["age"] - 50) + 20 * (FRAME["ward"] == "west") > 35).to_numpy()
LEVELS_OF = {"ward": ["north", "south", "west"]}
COLUMNS = {"bounds": {"age": (0, 100), "gain": (0, 1000)}, "categories": LEVELS_OF}
GAM = PrivateGAMClassifier(classes=[False, True], random_state=0, **COLUMNS)
CURVES = PrivateGAMRegressor(target_bounds=(0, 1), random_state=0, **COLUMNS)
pytestmark = pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")


# --- rows of cells --------------------------------------------------------------------------------


def expansion_of(rich):
    """Return an expansion of three columns of numbers and one of levels."""
    columns = (
        NumberColumn(0.0, 3.0),
        Levels(("a", "b")),
        NumberColumn(1.0, 2.0),
        NumberColumn(-1.0, 5.0),
    )
    columns += (Levels(("c", "d", "e")),)
    expansion = Expansion(columns, 3, 1.5, full_levels=2.4)
    if rich:
        expansion = expansion.with_uniform_distributions()
        # of numbers, and of levels too
        expansion = replace(expansion, pairs=((0, 2), (2, 3), (0, 3), (1, 2), (1, 4)), order=4)
        # some of them drawn finely
        expansion = replace(expansion, fine=(0, 6, 0, 6, 0))
    return expansion


def codes_of(expansion, n_rows=700):
    """Return cells of rows, some of them missing and other."""
    cells = [column.n_cells for column in expansion.columns]
    return RNG.integers(0, cells, (n_rows, len(cells))).astype(expansion.code_dtype)


def check_lengths(one, other):
    """Check that lengths of rows of cells are those of expanded rows."""
    grid = np.linspace(0, 9, 20)
    for keep in (False, True):
        found = opened(one.counts("lengths", grid, keep=keep))
        np.testing.assert_array_equal(found, opened(other.counts("lengths", grid, keep=keep)))
    for of_one, of_other in zip(one.factors(), other.factors(), strict=True):
        np.testing.assert_allclose(of_one, of_other, rtol=1e-7)
    assert np.all(one.factors()[1] <= other.factors()[1] * (1 + 1e-12))  # no length is too small
    order = RNG.permutation(len(one.X))  # it depends on its own row, to the last bit
    found = CodedRows(one.X[order], map=one.map).factors()[1]
    np.testing.assert_array_equal(found, one.factors()[1][order])


@pytest.mark.parametrize(("rich", "has_tables"), [(False, False), (False, True), (True, True)])
def test_what_is_said_of_cells_adds_up_to_the_raw_prediction(rich, has_tables, monkeypatch):
    """With a table for each two columns, and where expanded rows are multiplied sooner."""
    expansion = expansion_of(rich)
    if not rich:
        monkeypatch.setattr(CodedRows, "has_tables", has_tables)
    codes = codes_of(expansion)
    rows = expansion.expanded(codes)
    coef = RNG.standard_normal(expansion.n_features)
    weights = expansion.cells(coef)
    centre = RNG.standard_normal(5 + len(expansion.pairs))
    factor = RNG.random(len(rows))
    (parts,) = expansion.terms(codes, weights[None], centre[None], factor)
    expected = (rows @ coef - centre.sum()) * factor
    np.testing.assert_allclose(parts.sum(axis=1), expected, atol=1e-12)
    sums = RNG.standard_normal(expansion.n_weights)
    assert expansion.features(sums) @ coef == pytest.approx(sums @ weights)
    assert np.all(np.linalg.norm(rows, axis=1) <= expansion.row_norm)
    cells = Coded(codes, expansion)
    np.testing.assert_allclose(row_norms(cells), np.linalg.norm(rows, axis=1))
    d = rows.shape[1]
    inside = expansion.mixed
    whole = np.diag(1.0 + np.arange(d)) + np.tri(d).T / 9
    assert sorted(np.concatenate(expansion.blocks)) == list(range(d))
    assert expansion.n_products == expansion.pair_weights.size
    for weights in (1.0 + np.arange(d), whole * inside, whole):
        given = RowMap(rows.mean(axis=0), weights, 2.0, 9.0)
        one = CodedRows(cells, map=given)
        other = LocalRows(rows, map=given)
        for constant in (0.0, 0.1):
            found, expected = (opened(rows.second_moment(constant)) for rows in (one, other))
            expected *= 1.0 if constant or weights is whole else inside
            np.testing.assert_allclose(found, expected, atol=1e-7)
        if given.is_diagonal:
            to = sparse.csr_array(RNG.choice([-1.0, 0.0, 1.0], (d, 4)) / d)
            found, expected = (opened(rows.sketched_moment(to, 0.1)) for rows in (one, other))
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
            found, expected = (opened(rows.column_squares()) for rows in (one, other))
            np.testing.assert_allclose(found, expected, rtol=1e-7)
        check_lengths(one, other)
    if rich:
        counts = np.ones(expansion.n_cells, dtype=bool)
        with pytest.raises(ValueError, match="mixes features of two blocks"):
            Lookups(expansion, given, expansion.cells(coef)[None], centre[None], counts)
    np.testing.assert_allclose(
        opened(one.column_sums(1.0)), opened(other.column_sums(1.0)), atol=1e-12
    )
    grid = np.linspace(0, 3, 20) + 1e-6
    np.testing.assert_array_equal(*(opened(rows.counts("norms", grid)) for rows in (one, other)))
    assert pickle.loads(pickle.dumps(expansion)) == expansion
    tables = sum(table.nbytes for table in expansion.tables if isinstance(table, np.ndarray))
    assert len(pickle.dumps(expansion)) < tables  # which are made again
    stored = pickle.dumps(RowMap(None, whole * inside, 2.0, 9.0))
    np.testing.assert_array_equal(pickle.loads(stored).weights, whole * inside)
    assert len(stored) < 8.2 * np.count_nonzero(whole * inside) + 1000  # no zeros


@pytest.mark.parametrize(
    "column", [NumberColumn(0.0, 3.0), NumberColumn(1.0, 2.0), NumberColumn(-1.0, 1e6)]
)
def test_cells_are_where_their_numbers_are(column):
    assert column.n_cells <= 255
    values = RNG.uniform(column.low, column.high, 5000)
    codes = column.codes(values)
    ends = np.concatenate([[column.low], column.edges, [column.high]])
    assert np.all((ends[codes] <= values) & (values < ends[codes + 1]))
    np.testing.assert_array_equal(column.codes(column.middles), np.arange(column.n_cells - 1))
    assert column.codes([np.nan, -1e9, 1e9]).tolist() == [
        column.n_cells - 1, 0, column.n_cells - 2,
    ]  # fmt: skip


def test_levels_have_cells_of_their_own():
    column = Levels(("a", "b", 3))
    values = ["b", "a", 3, "other", None, np.nan, pd.NA, [1], 3.0]
    expected = [1, 0, 2, 3, 4, 4, 4, 3, 2]
    assert column.codes(np.array([*values, "a"], dtype=object)[:-1]).tolist() == expected


@pytest.mark.parametrize(
    ("n_outputs", "rich", "of_persons"), [*product([1, 3], [False, True], [False, True])]
)
def test_gradients_are_those_of_expanded_rows(n_outputs, rich, of_persons):
    expansion = expansion_of(rich)
    codes = codes_of(expansion)
    d = expansion.n_features
    dense = expansion.expanded(codes)
    y = RNG.integers(0, max(2, n_outputs), len(codes)).astype(float)
    loss = logistic if n_outputs == 1 else softmax(3)
    weights = RNG.standard_normal((d, d))
    row_map = RowMap(RNG.standard_normal(d) / 10, weights, 9.0, expansion.row_norm)
    persons = weight = None
    if of_persons:
        _, persons, weight = by_person(np.arange(len(codes)) // 2, 2)
    n_records = len(codes) // 2 if of_persons else len(codes)
    rows = CodedRows(Coded(codes, expansion), y, weight, row_map, persons=persons, most_rows=2)
    same = LocalRows(dense, y, weight, row_map, persons=persons, most_rows=2)
    objective = Objective(
        loss, n_records, d, 1.0, clip=0.6, intercept_scaling=0.2, spread=1e3, most_rows=2,
        exact=True,
    )  # fmt: skip
    theta = RNG.standard_normal(objective.n_parameters)
    chosen = RNG.permutation(n_records)[:50]
    for of in (None, chosen):
        found = opened(rows.gradient(objective, theta, of))
        np.testing.assert_allclose(found, opened(same.gradient(objective, theta, of)), atol=1e-7)
    counts = opened(rows.cell_counts())
    for j, first in enumerate(expansion.starts[:-1]):
        of_column = np.bincount(codes[:, j], minlength=expansion.columns[j].n_cells)
        found = counts[first : first + len(of_column)]
        # weights of a person add up to a little less than 1
        np.testing.assert_allclose(found, of_column / (2 if of_persons else 1), rtol=1e-12)


def test_a_distribution_is_that_of_the_records():
    column = NumberColumn(0.0, 1.0)
    expansion = Expansion((column,), 2, 1.5).with_uniform_distributions()
    values = RNG.beta(1, 5, 50_000)
    parts = np.bincount(column.codes(values), minlength=column.n_cells) / values.size
    known = expansion.with_distributions(parts, 1e-5, 1 / 64, 2.0)
    assert known.row_norm == expansion.row_norm  # public, so that rows are in the ball without care
    at = np.searchsorted(np.sort(values), column.middles) / values.size
    np.testing.assert_allclose(known.distributions[0], at, atol=0.02)
    noise = expansion.with_distributions(RNG.normal(0, 1, parts.size), 1.0, 1 / 64, 2.0)
    assert np.all(np.diff(noise.distributions[0]) >= 0)
    assert noise.distributions[0][-1] <= 1
    assert noise.inside(0) == slice(0, column.n_cells - 1)
    assert cosines(np.array([0.0, 1.0]), 0, 1.0).tolist() == [[-1.0], [1.0]]


# --- the estimators -------------------------------------------------------------------------------


def test_the_form_of_the_table_does_not_matter():
    expected = clone(GAM).fit(FRAME, Y)
    polars = clone(GAM).fit(pl.from_pandas(FRAME), Y)
    np.testing.assert_array_equal(polars.coef_, expected.coef_)
    typed = FRAME.astype({"ward": "category", "age": "Float64", "urgent": "boolean"})
    np.testing.assert_array_equal(clone(GAM).fit(typed, Y).coef_, expected.coef_)
    by_type = {"ward": pd.CategoricalDtype(["north", "south", "west"])}
    explicit = clone(GAM).set_params(categories=by_type).fit(FRAME, Y)
    np.testing.assert_array_equal(explicit.coef_, expected.coef_)
    objects = FRAME.astype({"age": object, "gain": str})  # whose bounds say that they are numbers
    np.testing.assert_array_equal(clone(GAM).fit(objects, Y).coef_, expected.coef_)
    by_number = {"bounds": {0: (0, 100), 1: (0, 1000)}, "n_jobs": 2}
    levels = {2: ["north", "south", "west"], 3: [False, True]}
    array = clone(GAM).set_params(categories=levels, **by_number)
    array.fit(FRAME.to_numpy(object), Y)
    named = clone(GAM).set_params(categories={"ward": levels[2], "urgent": levels[3]})
    np.testing.assert_array_equal(array.coef_, named.fit(FRAME, Y).coef_)
    assert expected.privacy_.failure > 0  # a column of flags has no name, and may hold text
    assert named.privacy_.failure == 0
    numbers = FRAME[["age", "gain"]]
    plain = PrivateGAMClassifier(bounds=[(0, 100), (0, 1000)], classes=[0, 1], random_state=0)
    one = clone(plain).fit(numbers, Y)
    other = clone(plain).fit(numbers.to_numpy(), Y)
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_missing_values_are_a_level():
    frame = FRAME.copy()
    frame.loc[Y & (RNG.random(N) < 0.9), "gain"] = np.nan
    frame.loc[::7, "ward"] = None
    model = clone(GAM).set_params(epsilon=3.0).fit(frame, Y)
    assert model.score(frame, Y) > 0.9
    assert np.all(np.isfinite(model.predict_proba(frame.iloc[:3].assign(ward="elsewhere"))))


def test_pairs_that_vary_together_make_no_step_too_long():
    """All products follow one factor: steps for any pair alone leave R^2 at .700, not .720."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(5000, 1))
    X = np.clip(0.5 + 0.15 * (factor + 0.2 * rng.normal(size=(5000, 10))), 0, 1)
    y = np.sin(2 * factor[:, 0]) + 0.3 * factor[:, 0] + 0.5 * rng.normal(size=5000)
    options = {"bounds": (0, 1), "target_bounds": (-4, 4)}
    scores = []
    for seed in range(5):
        model = PrivateGAMRegressor(3.0, random_state=seed, **options).fit(X[:4000], y[:4000])
        assert model.expansion_.pairs
        scores.append(model.score(X[4000:], y[4000:]))
    assert np.mean(scores) > 0.71


def test_persons_streams_of_noise_and_several_classes():
    three = np.digitize(FRAME["age"], [30, 60])
    model = clone(GAM).set_params(classes=[0, 1, 2], epsilon=3.0)
    model.fit(FRAME, three, groups=np.arange(N) // 2)
    assert model.n_samples_ == N // 2
    assert model.privacy_unit_ == "person"
    assert model.coef_.shape[0] == 3
    assert model.score(FRAME, three) > 0.8
    seen = clone(model).set_params(classes="from_y").fit(FRAME, three)
    assert seen.classes_.tolist() == [0, 1, 2]
    rates = clone(CURVES).set_params(loss="poisson", target_bounds=(0, 10), epsilon=3.0)
    counts = RNG.poisson(np.exp(FRAME["age"] / 50))
    years = RNG.uniform(0.5, 2, N)
    rates.fit(FRAME, counts, exposure=years)
    assert np.all(rates.predict(FRAME) > 0)
    assert rates.score(FRAME, counts, exposure=np.ones(N)) > 0.2


def test_curves_are_monotonic_where_they_are_asked_to_be():
    y = np.clip(FRAME["age"] / 100 + RNG.normal(0, 0.3, N), 0, 1)
    model = clone(CURVES).set_params(monotonic_cst={"age": 1}).fit(FRAME, y)
    tens = np.tile(np.arange(0, 101.0, 10), 300)
    ages = FRAME.iloc[np.repeat(np.arange(300), 11)].assign(age=tens)
    moves = np.diff(
        model.predict(ages).reshape(300, -1)
    )  # whether or not the others make rows long
    assert np.all(moves >= -1e-12)
    assert np.ptp(moves, axis=0).max() > 1e-3
    falls = clone(CURVES).set_params(monotonic_cst=[-1, 0, 0, 0]).fit(FRAME, y)
    assert np.all(np.diff(falls.predict(ages).reshape(300, -1)) <= 1e-12)
    assert model.score(FRAME, y) > 0.3


@pytest.mark.parametrize(
    ("options", "frame", "message"),
    [
        ({"categories": None}, FRAME, r"\['ward'\] hold no numbers.* categories=\{'ward': \['a'"),
        ({"categories": {"ward": ["1", 1.0]}}, FRAME, "of different levels"),
        ({}, FRAME.assign(size=pd.cut(FRAME["age"], 3)), r"intervals: 'size'.*categories="),
        ({}, FRAME.assign(size=FRAME["age"] * 1j), r"flags or text: 'size' \(complex128\)"),
        ({"categories": None}, FRAME.astype({"ward": "category"}), "levels that they hold are"),
        ({"bounds": COLUMNS["bounds"] | {"size": (0, 1)}}, FRAME, r"\['size'\]"),
        ({"categories": {"town": [1]}}, FRAME, r"\['town'\], which X does not have"),
        ({"categories": {"ward": []}}, FRAME, "or a list of different levels"),
        ({"categories": "ward"}, FRAME, "or a dict of columns"),
        ({}, FRAME.assign(age=np.inf), "infinity"),
        ({"solver": "dp_sgd"}, FRAME, "cannot train an additive model"),
        ({"solver": "noisy_sgd", "categories": {"ward": "auto"}}, FRAME, "no Gaussian release"),
        (
            {"bound": "last_iterate", "categories": {"ward": "auto"}},
            FRAME,
            r"bound='last_iterate' .* no part of delta .* categories=",
        ),
        ({"interactions": [("age", "age")]}, FRAME, "must be two columns"),
        ({"interactions": "some"}, FRAME, "interactions="),
        ({"monotonic_cst": {"age": 2}}, FRAME, "monotonic_cst="),
        ({"monotonic_cst": [1]}, FRAME, "monotonic_cst=.* one number a column"),
        ({"monotonic_cst": 1}, FRAME, "monotonic_cst=1 must be a dict"),
        ({"monotonic_cst": {"ward": 1}}, FRAME, r"\['ward'\], whose categories have no order"),
        ({"monotonic_cst": {"age": 1}, "classes": [0, 1, 2]}, FRAME, "needs two classes"),
        ({"monotonic_cst": {"town": 1}}, FRAME, "monotonic_cst names the column 'town'"),
    ],
)
def test_what_is_refused(options, frame, message):
    with pytest.raises((ValueError, TypeError), match=message):
        clone(GAM).set_params(**options).fit(frame, Y)


def test_rows_elsewhere_are_refused_with_what_to_use(tmp_path):
    FRAME.assign(y=Y).to_parquet(tmp_path / "rows.parquet")
    levels = COLUMNS["categories"]
    rows = ParquetRows(tmp_path / "rows.parquet", target="y", categories=levels)
    dask = pytest.importorskip("dask.dataframe")
    collection = dask.from_pandas(FRAME[["age", "gain"]], npartitions=2)
    with pytest.raises(TypeError, match="takes arrays and frames in memory"):
        clone(GAM).fit(collection, dask.from_pandas(pd.Series(Y), npartitions=2))
    with pytest.raises(ValueError, match=r"categories name the columns .* X does not have"):
        clone(GAM).fit(rows)  # they are columns of 0 and 1 there


@pytest.mark.parametrize("n_classes", [0, 1, 2, 3])
def test_a_graph_predicts_the_same(n_classes):
    pytest.importorskip("skl2onnx")
    from onnx.reference import ReferenceEvaluator

    from skdpdyn.export.onnx import to_onnx

    X = np.column_stack([FRAME["age"], FRAME["gain"], FRAME["ward"] == "west"])
    X[::7, 0] = np.nan
    y = np.digitize(FRAME["age"], [30, 60])
    levels = {2: [False, True]}
    public = {"bounds": {0: (0, 100), 1: (0, 1000)}, "categories": levels, "random_state": 0}
    public["interactions"] = [(0, 1), (1, 2)]
    model = PrivateGAMRegressor(5.0, target_bounds=(0, 3), loss="poisson", **public)
    if n_classes > 1:
        y = np.minimum(y, n_classes - 1)
        model = PrivateGAMClassifier(5.0, classes=range(n_classes), **public)
    if n_classes == 0:  # of numbers, cut
        model = PrivateGAMRegressor(5.0, target_bounds=(0, 1), **public)
        y = np.minimum(y, 1)
    model.fit(X, y)
    if n_classes == 0:
        assert model.predict(X).max() == 1 < model.explain(X).sum(axis=1).max()
    assert model.expansion_.order == 6
    *_, found = ReferenceEvaluator(to_onnx(model, double=True)).run(None, {"X": X})
    expected = model.predict_proba(X) if n_classes > 1 else model.predict(X)[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_refusal_quotes_no_record():
    class Table(pd.DataFrame):
        def items(self):
            raise RuntimeError("secret")

    with pytest.raises(ValueError, match="its text is left out") as caught:
        clone(GAM).fit(Table(FRAME), Y)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.every_case
@pytest.mark.parametrize("name", ["__hash__", "__str__", "__eq__"])
def test_a_cell_whose_code_fails_is_other_and_changes_no_other_cell(name):
    def fails(*arguments):
        raise RuntimeError("secret")

    kind = type("Secret", (), {"__hash__": lambda cell: 0, name: fails})
    cells = [kind(), "east", kind(), 1, "west", "east"] * 4
    for values in (np.array(cells, dtype=object), pd.Series(cells, dtype=object)):
        assert Levels(("east", "west")).codes(values).tolist() == [2, 0, 2, 2, 1, 0] * 4
        column, codes = levels_in(values)
        assert column.levels == (1, "east", "west")
        assert codes.tolist() == [3, 1, 3, 0, 2, 1] * 4
        assert np.isnan(numbers_in(values)).sum() == 20
    frame = FRAME.assign(ward=[kind(), *FRAME["ward"][1:]])
    same = FRAME.assign(ward=[object(), *FRAME["ward"][1:]])
    np.testing.assert_array_equal(clone(GAM).fit(frame, Y).coef_, clone(GAM).fit(same, Y).coef_)


def test_a_number_or_a_date_whose_code_fails_is_missing():
    class Secret(float):
        def __float__(self):
            raise RuntimeError("secret")

    first = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))  # before the year 1 in UTC
    values = np.array([Secret(1), 2.0, first], dtype=object)
    np.testing.assert_array_equal(numbers_in(values), [np.nan, 2, np.nan])
    np.testing.assert_array_equal(numbers_in(values, "date"), [np.nan, 2, np.nan])
    assert Levels((1, 2)).codes(values).tolist() == [2, 1, 2]


def test_expanded_rows_are_never_all_in_memory():
    """Cells take an eighth of X, what is kept for each row 24 bytes, and a block of rows some."""
    X = RNG.uniform(0, 1, (200_000, 10))
    y = X[:, 0] > 0.5
    model = PrivateGAMClassifier(bounds=(0, 1), classes=[0, 1], interactions=None)
    model.fit(X[:2000], y[:2000])
    tracemalloc.start()
    model.set_params(epsilon=0.01).fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    expanded = len(X) * model.expansion_.n_features * 8
    assert rules.expands(1e9, 10)
    assert peak < min(0.3 * X.nbytes + 24 * len(X) + 8 * len(X) + 3e7, expanded / 4)


def test_numbers_of_cells_that_nobody_is_in_are_not_told():
    """The first record with a new level, or a gap, is predicted as others are; seeded."""
    levels = {"w": ["x", "y", "z", "new"]}
    rng = np.random.default_rng(0)
    n_near = 0
    for seed in range(5):
        X = pd.DataFrame({"a": rng.uniform(0, 100, 8000), "b": rng.uniform(0, 100, 8000)})
        X["w"] = rng.choice(["x", "y", "z"], 8000)
        y = rng.random(8000) < 0.05 + 0.3 * X["a"] / 100 + 0.1 * (X["w"] == "z")
        model = PrivateGAMClassifier(1.0, bounds=(0, 100), categories=levels, classes=[False, True])
        model.set_params(random_state=seed).fit(X, y)
        kept = model.kept_parts_[-6:]
        assert np.all(kept[:3] > 0.7)
        people = X[:300]
        risk = np.mean([model.predict_proba(people.assign(w=one))[:, 1] for one in "xyz"], axis=0)
        for change in ({"w": "new"}, {"w": "elsewhere"}, {"w": None}):
            moved = model.predict_proba(people.assign(**change))[:, 1]
            n_near += 0.8 < np.median(moved / risk) < 1.25
        scores = model.decision_function(people.assign(w="new"))
        same = model.to_sklearn().decision_function(people.assign(w="new"))
        np.testing.assert_allclose(scores, same, atol=1e-9)
    assert n_near >= 14


# --- private levels -------------------------------------------------------------------------------

PRIVATE = clone(GAM).set_params(categories={"ward": "auto"}, epsilon=3.0)


def test_a_cell_depends_on_nothing_but_the_value():
    """Levels have one form each: what another record has decides neither cell nor spelling."""
    whole = [1, 1.0, np.int64(1), np.float32(1), Fraction(1), Decimal("1.0"), True, "1", " 1.0 "]
    part = [0.1, np.float32(0.1), Decimal("0.10"), "0.1"]
    days = [date(2022, 1, 1), pd.Timestamp("2022-01-01"), np.datetime64("2022-01-01", "ns")]
    days += ["2022-01-01", datetime(2022, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))]
    same = [whole, part, days, [2.0**60, 2**60, str(2**60)], ["b", " b", np.str_("b")]]
    for values in same:
        forms = {(type(key_of(value)), key_of(value)) for value in values}
        assert len(forms) == 1
    none = [np.inf, complex(1), b"a", (1,), [1], np.ones(2), object()]
    assert [key_of(value) for value in none] == [()] * len(none)
    missing = [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT", "D")]
    assert [key_of(value) for value in missing] == [None] * len(missing)
    text = ["-0", "01", "--1", "1" * 20, "\u0661", "", "1.00", "1e5", "nan", "True"]
    assert [key_of(value) for value in text] == text
    assert key_of("-7") == -7
    values = np.empty(len(whole) + len(none) + 4, dtype=object)
    values[:] = [*whole, *none, None, "b", 7, "True"]
    (column, codes), (other, reverse) = levels_in(values), levels_in(values[::-1])
    assert column.levels == other.levels == (1, 7, "True", "b")
    assert codes.tolist() == [0] * len(whole) + [4] * len(none) + [5, 3, 1, 2]
    assert reverse.tolist() == codes.tolist()[::-1]
    in_october = datetime(2022, 10, 30, 2, tzinfo=ZoneInfo("Europe/Berlin"))
    twice = [in_october, in_october.replace(fold=1)]
    digits = [Fraction(10**9999), Fraction(10**9999)]
    for equal in (twice, [pd.Interval(1, 2), pd.Interval(1.0, 2.0)], [1, complex(1)], digits):
        assert equal[0] == equal[1]
        cells = np.empty(2, dtype=object)
        cells[:] = equal
        of_equal, codes = levels_in(cells)
        named = (*of_equal.levels, ())
        assert [named[code] for code in codes] == [key_of(value) for value in equal]
    unused = pd.Series(pd.Categorical(["z"], ["a", "z"]))
    assert levels_in(unused)[0].levels == ("z",)
    codes = Levels((1, "b")).codes(values)  # text of a flag is the number, where none is public
    assert codes.tolist() == [0] * len(whole) + [2] * len(none) + [3, 1, 2, 0]
    rows = np.array([[0.5, 1], [0.2, "x"], [0.1, 1.0]], dtype=object)
    model = clone(PRIVATE).set_params(bounds={0: (0, 1)}, categories={1: "auto"})
    table = read_table(model, rows)
    ((column, codes),) = table.seen({1: table.columns[1]})
    assert (column.levels, codes.tolist()) == ((1, "x"), [0, 1, 0])


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_levels_are_bought(adjacency, tmp_path):
    frame = FRAME.assign(code=(np.arange(N) % 50).astype(str))
    frame.loc[0, "ward"] = "a secret"
    frame.loc[::9, "ward"] = None
    known = clone(GAM).set_params(epsilon=3.0, adjacency=adjacency, random_state=None)
    model = clone(known).set_params(categories="auto").fit(frame, Y)
    ward = model.expansion_.columns[2]
    assert ward.levels == ("north", "south", "west")
    assert b"a secret" not in pickle.dumps(model)
    assert model.privacy_ == model.privacy_cost(N, 5)
    assert model.privacy_.failure > 0
    assert model.privacy_.epsilon(model.delta_) == pytest.approx(3.0)
    assert model.mechanism_["levels of columns"].n_columns == 2
    assert composition(model.mechanism_).failure <= model.privacy_.failure
    for report in (model.privacy_report(), model.set_params(random_state=0).privacy_report()):
        assert check_report(report.to_json())["theorem"]
    ledger = Ledger(tmp_path / "ledger.json", Budget(3.0, 1e-6, adjacency))
    ledger.reserve("levels", clone(model).set_params(random_state=None), N, 5)
    assert ledger.total.failure == model.privacy_.failure
    shape = model.shapes_["ward"]
    assert shape.grid == ["north", "south", "west", "(other)", "(missing)"]
    assert np.argmax(shape.value[0][:3]) == 2
    explained = model.explain(frame)
    scores = model.decision_function(frame)
    np.testing.assert_allclose(explained.sum(axis=1), scores, atol=1e-9)
    np.testing.assert_array_equal(model.to_sklearn().predict(frame), model.predict(frame))
    assert model.score(frame, Y) > 0.85
    persons = clone(model).fit(frame, Y, groups=np.arange(N) // 2)
    assert persons.mechanism_["levels of columns"].most_levels == 100
    assert persons.privacy_ == model.privacy_cost(N // 2, 5).with_unit("person")


@pytest.mark.parametrize("bounds", [(0, 100), "auto"])
def test_shared_values_are_levels_beside_their_curve(bounds):
    """A value of one record in twenty has an effect of its own, those of one record have none."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"gain": rng.uniform(0, 100, N), "age": rng.uniform(0, 100, N)})
    shared = rng.random(N) < 0.05
    X.loc[shared, "gain"] = 40.0
    y = np.where(shared, 3.0, 0.0) + X["age"] / 50 + rng.normal(0, 0.5, N)
    known = PrivateGAMRegressor(
        3.0, bounds=bounds, target_bounds=(-3, 8), categories={"gain": "shared"}
    )
    model = clone(known).fit(X, y)
    gain = model.expansion_.columns[0]
    assert gain.shared == (40.0,)
    at, beside = (model.predict(X.assign(gain=value)).mean() for value in (40.0, 40.01))
    assert at - beside > 2
    assert model.privacy_ == model.privacy_cost(N, 2)
    assert model.privacy_.failure > 0
    assert model.mechanism_["levels of columns"].n_columns == 1
    assert check_report(model.privacy_report().to_json())["theorem"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X), atol=1e-9)
    schema = Schema.from_json(model.schema_.to_json())
    assert schema.categories == {"gain": {"shared": (40.0,)}}
    again = PrivateGAMRegressor(3.0, schema=schema).fit(X, y)
    assert again.expansion_.columns[0].shared == (40.0,)
    assert not again.bought_
    explained = model.explain(X)
    np.testing.assert_allclose(explained.sum(axis=1), model.predict(X), atol=1e-9)


def test_shared_values_are_numbers():
    for given, match in (
        ({"ward": "shared"}, "'shared' is for columns of numbers"),
        ({"none": "shared"}, "which X does not have"),
        ({"age": {"shared": ["a"]}}, "must be 'shared', or"),
        ({"age": {"shared": range(99)}}, "at most 40 numbers"),
    ):
        with pytest.raises(ValueError, match=match):
            clone(GAM).set_params(categories={"ward": ["north"]} | given).fit(FRAME, Y)
    column = NumberColumn(0.0, 1.0, shared=(0.0, 0.25, 1.0))
    assert column.n_cells <= 255
    assert column.codes([0.0, 0.25, 1.0]).tolist() == column.flagged[:-1].tolist()
    assert column.within(0.5, 2.0).shared == (0.5, 1.0)
    assert np.all(np.diff(column.edges) > 0)


def test_what_cannot_pay_for_levels_says_so():
    with pytest.raises(ValueError, match=r"epsilon=1000.*no delta for levels of text"):
        clone(PRIVATE).set_params(epsilon=1000.0).fit(FRAME, Y)
    with pytest.raises(ValueError, match=r"threshold=0\.5"):
        Vocabulary(noise_multiplier=1.0, threshold=0.5)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows_of_one", [1, 3])
def test_a_level_of_one_shows_no_more_often_than_is_paid_for(adjacency, rows_of_one, monkeypatch):
    """Levels of one record, or person, in two columns. Chance: 5 deviations on both sides, 6e-7."""
    monkeypatch.setattr(rules, "FAILURE_SHARE", 0.8)
    alone = np.arange(60) < rows_of_one
    frame = pd.DataFrame({name: np.where(alone, np.arange(60), 99) for name in "ab"})
    known = {"bounds": {}, "classes": [0, 1], "adjacency": adjacency}
    known["categories"] = dict.fromkeys("ab", "auto")
    model = PrivateGAMClassifier(1.0, 0.5, max_rows_per_person=rows_of_one, **known)
    owners = None if rows_of_one == 1 else np.arange(60) // rows_of_one
    n_draws = 1500
    shown = 0
    (generator,) = generators(0)
    with read(model, frame, alone, Beside(owners)) as reading:
        purchase = Purchase.of(model, *reading.shape, reading.form)
        planned = plan_of(purchase.request)
        for _ in range(n_draws):
            spending = Spending(planned.budget, planned.shares, generator)
            columns = purchase.buy(reading, spending).columns
            shown += any(set(column.levels) - {99} for column in columns)
    failure = composition(spending.record()).failure
    assert failure <= planned.budget.failure
    room = 5 * np.sqrt(failure * (1 - failure) / n_draws)
    assert shown / n_draws <= failure + room
    assert rows_of_one > 1 or shown / n_draws >= 0.9 * failure - room
    assert planned.budget.reserved == pytest.approx(0.4)
    spending = Spending(planned.budget, planned.shares, generator)
    assert not np.any(
        spending.vocabulary(LEVELS, SealedCells(np.zeros((1, 1000))), 1)
    )  # these do not occur


# --- shapes ---------------------------------------------------------------------------------------

RICH = clone(GAM).set_params(epsilon=3.0).fit(FRAME, Y)


def test_what_explains_a_row_adds_up_to_its_prediction():
    explained = RICH.explain(FRAME)
    assert explained.shape == (N, len(RICH.terms_))
    assert RICH.terms_[:5] == ["intercept", "age", "gain", "ward", "urgent"]
    assert RICH.terms_[5] == "age * gain"
    np.testing.assert_allclose(explained.sum(axis=1), RICH.decision_function(FRAME), atol=1e-9)
    assert np.ptp(explained[:, 0]) == 0
    three = np.digitize(FRAME["age"], [30, 60])
    several = clone(GAM).set_params(classes=[0, 1, 2]).fit(FRAME, three)
    scores = several.explain(FRAME).sum(axis=1)
    np.testing.assert_array_equal(several.predict(FRAME), np.argmax(scores, axis=1))


def test_shapes_are_what_explains_rows():
    explained = RICH.explain(FRAME)
    shapes = RICH.shapes_
    rows = read_cells(RICH, FRAME)
    given = RICH.conditioning_.row_map
    factors = given.factors(rows.toarray())[0] * given.norm
    assert 0.1 < np.mean(factors < 1 - 1e-6) < 0.9
    for k, name in enumerate(RICH.terms_[1:], 1):
        shape = shapes[name]
        if isinstance(shape.grid, tuple):
            assert shape.value.shape == (1, 32, 32)
            continue
        column = FRAME[name]
        if isinstance(shape.grid, list):
            found = shape.value[0][[shape.grid.index(level) for level in column]]
            assert shape.grid[-2:] == ["(other)", "(missing)"]
        else:
            inside = RICH.expansion_.inside(k - 1)
            cells = RICH.expansion_.columns[k - 1].codes(column)
            found = shape.value[0][np.clip(cells, inside.start, inside.stop - 1) - inside.start]
        np.testing.assert_allclose(found * factors, explained[:, k], atol=1e-9)


def test_bands_are_those_of_the_noise():
    """40 fits would tell a standard deviation to about 11 %; the bounds leave a factor of two."""
    curves = clone(CURVES).set_params(epsilon=1.0, interactions=None)
    y = FRAME["age"].to_numpy() / 100
    fits = [clone(curves).set_params(random_state=seed).fit(FRAME, y) for seed in range(12)]
    fixed = fits[0].shapes_["age"]
    shapes = [fit.shapes_["age"] for fit in fits]  # each drawn where its distribution has mass
    curves_at = [np.interp(fixed.grid, shape.grid, shape.value[0]) for shape in shapes]
    spread = np.std(curves_at, axis=0)
    ratio = np.median(spread / fixed.estimate[0])
    assert 0.3 < ratio < 3
    assert np.all(fixed.bound >= fixed.estimate)
    assert np.all(np.isfinite(fixed.bound))


def test_curves_are_drawn_where_records_are_and_flat_beyond():
    """Of an axis to 127 with ages from 17 to 90 nobody is in 43 %: ends are medians of 9 fits."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(17, 91, 30_000), rng.normal(50, 10, 30_000)])
    y = rng.random(30_000) < 1 / (1 + np.exp(-X @ [0.05, 0.1] + 7.5))
    for bounds in ([(0, 127), (-200, 300)], "auto"):
        ends = []
        for seed in range(9):
            options = {"interactions": None, "random_state": seed}
            model = PrivateGAMClassifier(bounds=bounds, classes=[False, True], **options).fit(X, y)
            age, other = (model.shapes_[name].grid for name in ("x0", "x1"))
            ends.append([age[0], age[-1], other[0], other[-1]])
        least_age, most_age, least, most = np.median(ends, axis=0)  # middles of cells
        assert 16 < least_age < 19
        assert 88 < most_age < 100
        assert 10 < least < 40
        assert 60 < most < 90
        assert model.shapes_["x0"].missing is not None
        far = model.explain(np.array([[0, 50], [127, 50], [40, -200.0]]))
        near = model.explain(np.array([[age[0], 50], [age[-1], 50], [40, other[0]]]))
        np.testing.assert_allclose(far, near, atol=1e-12)


def test_importances_are_mean_contributions():
    """Within a factor, for rows are not normal and second moments are noisy; in their order."""
    found = RICH.term_importances_
    seen = dict(zip(RICH.terms_, np.abs(RICH.explain(FRAME)).mean(axis=0), strict=True))
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found.keys() == set(RICH.terms_[1:])
    for name in list(found)[:2]:
        assert 0.4 < found[name] / seen[name] < 2.5
    # without effect they are less than contributions, which are noise: seeded
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 3))
    y = rng.random(8000) < 1 / (1 + np.exp(-np.sin(1.5 * X[:, 0]) - 0.7 * X[:, 1]))
    model = PrivateGAMClassifier(bounds=(-4, 4), classes=[False, True], random_state=0).fit(X, y)
    found = model.term_importances_
    *seen, noise = np.abs(model.explain(X)).mean(axis=0)[1:4]
    assert found["x2"] < noise / 2
    np.testing.assert_allclose([found["x0"], found["x1"]], seen, rtol=0.5)


NAMES = ["other", "missing", "(other)", "intercept", "a * b", "a", "b * c", "c", "(intercept)"]


def test_no_two_names_of_what_a_model_shows_are_equal():
    """Whatever columns and levels are called."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0, 1, (400, len(NAMES))), columns=NAMES)
    frame["levels"] = rng.choice(NAMES, 400)
    model = PrivateGAMClassifier(
        bounds=dict.fromkeys(NAMES, (0, 1)),
        categories={"levels": NAMES},
        classes=[False, True],
        interactions=[("a", "b * c"), ("a * b", "c"), ("a", "c")],
    ).fit(frame, frame["a"] > 0.5)
    linear = PrivateLogisticRegression(3.0, classes=[False, True], conditioning=None)
    linear.fit(frame[NAMES], frame["a"] > 0.5)
    grid = model.shapes_["levels"].grid
    scaler = BoundsScaler((0, 1), missing="indicator")
    frame["a_missing"] = frame["a"]
    shown = [model.terms_, grid, names_of(linear), distinct(map(str, [1, "1", *grid]))]
    shown.append(scaler.fit(frame[["a", "a_missing"]]).get_feature_names_out().tolist())
    for names in shown:
        assert len(set(names)) == len(names)
    assert set(NAMES) < set(model.terms_)
    assert grid[: len(NAMES)] == NAMES


def test_shapes_are_drawn(monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    display = ShapeDisplay.from_estimator(RICH, columns=["age", "ward", "age * gain"])
    assert [ax.get_title() for ax in display.axes_] == ["age", "ward", "age * gain"]
    label = "contribution to log odds of True"
    assert [ax.get_ylabel() for ax in display.figure_.axes] == [label, label, "", label]
    assert len(ShapeDisplay.from_estimator(RICH, plot=False).shapes) == 4
    of_pair = display.axes_[2]
    value, hatched = (drawn.get_array() for drawn in of_pair.collections)
    shape = display.shapes["age * gain"]
    assert value.ravel().tolist() == shape.value[0].T.ravel().tolist()
    is_noise = np.abs(shape.value[0]) < 2 * shape.estimate[0]
    assert of_pair.collections[1].get_hatch()
    assert 0 < hatched.count() == is_noise.sum() < is_noise.size
    assert of_pair.get_xlabel() == "hatched: within two standard errors of noise"
    X = np.random.default_rng(0).uniform(0, 1, (300, 20))
    many = PrivateGAMClassifier(bounds=(0, 1), classes=[False, True]).fit(X, X[:, 0] > 0.5)
    drawn = ShapeDisplay.from_estimator(many)
    assert [ax.get_title() for ax in drawn.axes_] == list(many.term_importances_)[:12]
    assert drawn.figure_.get_size_inches().tolist() == [16, 9]
    with pytest.raises(ValueError, match=r"columns \['town'\]"):
        ShapeDisplay.from_estimator(RICH, columns=["town"])
    assert [*ShapeDisplay.from_estimator(RICH, columns="age", plot=False).shapes] == ["age"]
    with pytest.raises(TypeError, match="a PrivateRidge, which has no curves"):
        ShapeDisplay.from_estimator(PrivateRidge())
    _, table = private_regression(
        PrivateLogisticRegression(), X[:, :3], X[:, 0] > 0.5, epsilon=50.0, bounds=(0, 1),
        classes=[False, True], splines={0: 2},
    )  # fmt: skip
    drawn = ShapeDisplay.from_estimator(many, columns=["x0", "x1"], table=table, simultaneous=True)
    (legend,) = drawn.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "model",
        "two standard errors of noise alone, largest",
        "two standard errors of noise alone, estimated",
        "table",
        "95 % for the whole curve: sampling and all noise",
    ]


def test_a_pair_of_a_column_without_levels_has_no_products():
    """No level may show where levels are bought, whatever pairs were asked for."""
    columns = NumberColumn(-1.0, 1.0), NumberColumn(-1.0, 1.0), Levels(())
    expansion = Expansion(columns, 2, 1.5, pairs=((0, 1), (0, 2)), order=4)
    assert list(expansion.tails()) == [(0, 1)]


def test_a_named_pair_is_drawn_finely():
    """A checkerboard of 4 x 4 fields is no product of low cosines; levels have curves of theirs."""
    X = np.random.default_rng(0).uniform(0, 1, (20_000, 5))
    y = np.prod(np.cos(4 * np.pi * X[:, :2]), axis=1)
    public = {"bounds": (0, 1), "target_bounds": (-1, 1), "random_state": 0}
    model = PrivateGAMRegressor(3.0, interactions=[(0, 1)], **public).fit(X, y)
    assert model.score(X, y) > 0.9  # all pairs: 0
    frame = pd.DataFrame({"x": X[:, 0], "side": X[:, 1] > 0.5})
    y = np.where(frame["side"], 1, -1) * np.cos(4 * np.pi * X[:, 0])
    model = PrivateGAMRegressor(3.0, interactions=[("x", "side")], **public).fit(frame, y)
    assert model.score(frame, y) > 0.9


def test_a_look_finds_the_pair_that_acts_together():
    """Its cost is that of the plan, and all of it is in the record."""
    rng = np.random.default_rng(0)
    n = 30_000
    frame = pd.DataFrame(rng.uniform(0, 1, (n, 3)), columns=["a", "b", "c"])
    frame["side"] = rng.choice(["east", "west"], n)
    signs = np.where(frame["side"] == "east", 1, -1)
    y = signs * np.cos(2 * np.pi * frame["b"]) + frame["a"] + rng.normal(0, 0.3, n)
    public = {"bounds": (0, 1), "categories": {"side": ["east", "west"]}, "target_bounds": (-3, 4)}
    model = PrivateGAMRegressor(1.0, interactions=2, random_state=0, **public).fit(frame, y)
    assert model.chosen_pairs_ == model.expansion_.pairs == ((1, 3),)
    assert model.score(frame, y) > 0.8  # curves alone: .14
    assert model.privacy_ == model.privacy_cost(n, 4)
    names = set(model.mechanism_.names)
    assert {"look at residuals", "curves before a look: training", "training"} <= names
    assert check_report(model.privacy_report().to_json())["theorem"]
    assert "pairs chosen: b * side" in model.privacy_report().to_json()
    grid = model.shapes_["b * side"]
    assert grid.value.shape == grid.estimate.shape
    pytest.importorskip("matplotlib").use("Agg")
    assert len(ShapeDisplay.from_estimator(model, columns=["b * side"]).axes_[0].collections) == 2
    none = PrivateGAMRegressor(1.0, interactions=2, random_state=0, **public)
    assert none.fit(frame, frame["a"]).chosen_pairs_ == ()


def test_a_look_takes_chance_for_no_pair():
    """Of sums of 10,000 residuals in 20 cells, whose noise is small. 14 standard errors."""
    rng = np.random.default_rng(0)
    parts = np.full(4, 0.25), np.array([0.1, 0.2, 0.3, 0.2, 0.2])
    size = 100 * np.sqrt(np.outer(*parts))
    chances = np.array(
        [
            energy(rng.normal(0, size, (1, 4, 5)) + rng.normal(0, 5, (1, 4, 5)), 5.0, *parts, 1e4)
            for _ in range(1000)
        ]
    )[:, 0]
    assert np.mean(chances) == pytest.approx(0.5, abs=0.13)
    assert 0.01 < np.mean(chances < 0.05) < 0.15


@pytest.mark.parametrize("given", [{"solver": "noisy_sgd"}, {"bound": "last_iterate"}])
def test_a_look_is_refused_where_runs_do_not_compose(given):
    model = PrivateGAMClassifier(bounds=(0, 1), classes=[0, 1], interactions=10, **given)
    with pytest.raises(ValueError, match=r"interactions=10: .* does not choose pairs"):
        model.privacy_cost(1000, 4)
    assert model.set_params(interactions="auto").privacy_cost(100_000, 2)
    with pytest.raises(ValueError, match="must be >= 0"):
        PrivateGAMClassifier(bounds=(0, 1), interactions=-1).privacy_cost(1000, 2)


def test_few_records_or_many_levels_leave_named_pairs_as_coarse_as_others():
    numbers = (NumberColumn(0.0, 1.0),) * 4
    expansion = Expansion((*numbers, Levels(range(500))), 8, 1.5, pairs=((0, 1), (0, 4)), order=2)
    assert drawn_finely(expansion, 300.0) == expansion
    assert drawn_finely(expansion, 1e9).fine == (48, 0)
    few = replace(expansion, pairs=((0, 1), (2, 3)))
    assert drawn_finely(few, 4000.0).fine == (12, 12)
    assert drawn_finely(few, 1e9).n_products <= 400
    with pytest.raises(ValueError, match="a number for each pair"):
        replace(few, fine=(8,))


@pytest.mark.parametrize(("adjacency", "least"), [("add_remove", 0.75), ("replace_one", 0.65)])
def test_columns_of_levels_that_tell_nothing_cost_little(adjacency, least):
    """They lengthen rows: with levels as long as numbers R^2 is .70 and .47."""
    names = list("abcdefgh")
    scores = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, 1, 1500)
        levels = {f"c{j}": rng.choice(names, x.size) for j in range(4)}
        y = np.clip(x + 0.1 * rng.standard_normal(x.size), 0, 1)
        model = PrivateGAMRegressor(
            0.1,
            adjacency=adjacency,
            bounds={"x": (0, 1)},
            categories=dict.fromkeys(levels, names),
            target_bounds=(0, 1),
            random_state=seed,
        )
        frame = pd.DataFrame({"x": x} | levels)
        scores.append(model.fit(frame, y).score(frame, y))
    assert np.mean(scores) > least


def test_products_that_fill_memory_are_refused_before_any_is_made():
    """Two columns of 1,100 levels have 1,210,000 products, whatever the records are."""
    levels = [f"level {k}" for k in range(1100)]
    frame = pd.DataFrame({"a": levels[:100] * 40, "b": levels[-100:] * 40})
    model = PrivateGAMClassifier(
        bounds={}, categories={"a": levels, "b": levels}, classes=[0, 1], interactions=[("a", "b")]
    )
    tracemalloc.start()
    with pytest.raises(ValueError, match="1210000 products of levels and numbers"):
        model.fit(frame, np.arange(4000) % 2)
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()
    assert not hasattr(model, "privacy_")


def test_a_given_list_of_levels_is_never_a_matrix():
    """Of 3,000 levels one takes 72 MB."""
    levels = [f"level {k}" for k in range(3000)]
    rows = np.array(levels, dtype=object)[np.arange(6000) % 3000, None]
    model = PrivateGAMClassifier(classes=[0, 1], categories={0: levels})
    tracemalloc.start()
    model.fit(rows, np.arange(6000) % 2).predict(rows)
    assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()


@pytest.mark.parametrize("loss", ["log", "poisson"])
def test_the_first_gap_hardly_moves_a_prediction(loss):
    """Of 80 fits 0 to 7 % moved a risk, or a rate, by more than a fourth; 6 of 6 do it at 1e-7."""
    rng = np.random.default_rng(0)
    n = 2000
    X = pd.DataFrame({"a": rng.uniform(0, 100, n), "b": rng.uniform(0, 100, n)})
    X["ward"] = rng.choice(["x", "y"], n)
    rate = 0.05 + 0.003 * X["a"]
    given = {"epsilon": 1.0, "bounds": (0, 100), "categories": {"ward": ["x", "y", "new"]}}
    moved = []
    for seed in range(6):
        if loss == "log":
            model = PrivateGAMClassifier(classes=[0, 1], random_state=seed, **given)
            model.fit(X, rng.random(n) < rate)
            predict = lambda rows, model=model: model.predict_proba(rows)[:, 1].mean()  # noqa: E731
        else:
            model = PrivateGAMRegressor(
                loss="poisson", target_bounds=(0, 8), random_state=seed, **given
            ).fit(X, rng.poisson(3 * rate))
            predict = lambda rows, model=model: model.predict(rows).mean()  # noqa: E731
        # levels of counts that a list names are as they were learnt, whoever has them
        gaps = [X.assign(b=np.nan), X.assign(ward=None), X.assign(ward="other")]
        gaps += [X.assign(ward="new")] * (loss == "log")
        moved += [abs(np.log(predict(rows) / predict(X))) for rows in gaps]
    assert np.mean(np.array(moved) < np.log(1.25)) > 0.85
    assert max(moved) < np.log(2)


@pytest.mark.parametrize("part", [0.05, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_a_rare_dummy_of_numbers_shows(part, seed):
    """Its ones are in the last cell, with nobody between: no end of curves hides them.

    The effect of 2 has a standard error of about .15; seeds are fixed.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 1, (20_000, 3)), rng.random(20_000) < part])
    y = np.sin(3 * X[:, 0]) + 2 * X[:, 3] + rng.normal(scale=0.5, size=20_000)
    model = PrivateGAMRegressor(1.0, random_state=seed).fit(X, y)
    without = np.column_stack([X[:500, :3], np.zeros(500)])
    with_it = np.column_stack([X[:500, :3], np.ones(500)])
    effect = np.mean(model.predict(with_it) - model.predict(without))
    assert 1.2 < effect < 2.6
