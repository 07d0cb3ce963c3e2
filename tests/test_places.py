"""What is said of a row does not depend on where it stands, nor on how many rows stand beside it.

Evaluations by person count on that: a bit of another person's row that follows the number of rows
of one person moves counts by whole persons.
"""

import os
import subprocess
import sys
import tracemalloc
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from threadpoolctl import threadpool_info
from ways import ESTIMATORS

from skdpdyn import PrivateLogisticRegression
from skdpdyn.core.expansion import NumberColumn
from skdpdyn.data import lookups, products
from skdpdyn.data.products import Products
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.kernels.ready import WhenReady, predict_rows, write_codes
from skdpdyn.model_selection._scores import ConstantClassifier, score_of
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper
from skdpdyn.training.foreign import BY_ROW, answers_by_row, predicted

SOME = range(1, 34)
SETTINGS = {"epsilon": 5.0, "delta": 1e-3, "random_state": 0}
PUBLIC = {"classes": [0, 1], "target_bounds": (-1.0, 1.0), "bounds": (-2.0, 2.0)}
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 7))


def hold(answers, rows, sizes, take=None):
    """Check that rows have one answer: alone, and in tables of some sizes and orders of memory."""
    take = take or (lambda rows, places: rows[places])
    n = rows.shape[0]
    alone = [np.asarray(answers(take(rows, [k])))[0] for k in range(n)]
    for size in sizes:
        places = np.arange(size)[::-1] % n
        block = take(rows, places)
        blocks = [block]
        if isinstance(block, np.ndarray):
            blocks.append(np.asfortranarray(block))
        for one in blocks:
            found = np.asarray(answers(one))
            np.testing.assert_array_equal(found, np.array([alone[k] for k in places]))


def sizes_of(n_features, n_outputs):
    """Return 73 numbers of rows: the first ones, and those where OpenBLAS changes its algorithm."""
    middle = 60_000 // (n_features * n_outputs)
    return [*range(1, 50), *range(middle - 12, middle + 12)]


def maps_of(n_features):
    """Yield ranges and maps of rows: none, a diagonal, a triangle, and a full matrix."""
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(n_features, n_features))
    centre = rng.normal(size=n_features) / 10
    ranges = Ranges(np.full(n_features, -2.0), np.full(n_features, 1.5))
    yield None, None
    yield None, RowMap(None, 1 + rng.random(n_features), norm=1.0, radius=9.0, unit=True)
    yield ranges, RowMap(centre, 1 + rng.random(n_features), norm=2.0, radius=3.0)
    yield ranges, RowMap(centre, np.triu(matrix), norm=5.0, radius=9.0)
    yield None, RowMap(centre, matrix, norm=5.0, radius=9.0)


def raw_of(model):
    """Return a function of rows: what a model says of them, and that they are finite."""

    def raw(rows):
        found, is_finite = model.raw(rows)
        assert is_finite
        return found

    return raw


class Kernel:
    """Stands for a kernel that is always there, or never."""

    def __init__(self, function):
        self.in_memory = function

    def found(self, worthwhile, loading):
        """Return the function."""
        return self.in_memory


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_features", [1, 2, 9])
def test_numpy_repeats_the_kernel_to_the_bit(dtype, n_features, monkeypatch):
    """Of few rows, of many, of rows too long to square, and of those that are not finite."""
    rows = RNG.normal(size=(70, n_features)).astype(dtype)
    rows[5] *= 1e200 if dtype == "float64" else 1e30
    rows[9] = 0
    coef = RNG.normal(size=(2, n_features))
    ready = predict_rows[dtype]
    for ranges, row_map in maps_of(n_features):
        model = Products.of(coef, ranges, row_map, 3.0, np.dtype(dtype))
        found = []
        for kernel in (ready.found(worthwhile=True) or ready.with_signature[0], None):
            monkeypatch.setattr(products, "predict_rows", {dtype: Kernel(kernel)})
            with np.errstate(all="ignore"):
                found.append(model.raw(rows))
                np.testing.assert_array_equal(model.raw(rows[5:7])[0], found[-1][0][5:7])
                monkeypatch.setattr(products, "AT_ONCE", 1)
                np.testing.assert_array_equal(model.raw(rows, n_jobs=2)[0], found[-1][0])
                monkeypatch.undo()
                monkeypatch.setattr(products, "predict_rows", {dtype: Kernel(kernel)})
                for bad in (np.nan, np.inf, -np.inf):
                    spoilt = rows.copy()
                    spoilt[33, -1] = bad
                    assert not model.raw(spoilt)[1]
                    assert not model.raw(spoilt[33:34])[1]
        assert found[0][1]
        assert np.isfinite(found[0][0]).all()
        np.testing.assert_array_equal(found[0][0], found[1][0])


def test_a_process_compiles_once_rows_are_worth_it():
    asked = []

    class Ready(Kernel):
        def found(self, worthwhile, loading):
            asked.append(worthwhile)

    coef = np.ones((1, 1000))
    model = Products.of(coef, Ranges(-coef[0], coef[0]), None, 3.0, np.dtype("float64"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "predict_rows", {"float64": Ready(None)})
        for _ in range(30):
            model.raw(np.zeros((1000, 1000)))
        model.raw(np.zeros((1, 1000)))  # numpy alone
    assert len(asked) == 30
    assert not asked[0] or sum(asked) == 30
    assert asked[-1]


def test_a_changed_model_says_what_its_numbers_say():
    model = private().fit(ROWS, LABELS)
    before = model.decision_function(ROWS)
    model.coef_ *= 2
    after = model.decision_function(ROWS) - model.intercept_
    np.testing.assert_allclose(after, 2 * (before - model.intercept_), rtol=1e-12)
    model.ranges_[:] *= 10
    assert np.ptp(model.decision_function(ROWS)) != np.ptp(after)


def hold_products(n_outputs):
    """Check products of linear models, of both precisions."""
    rng = np.random.default_rng(n_outputs)
    n_features = int(rng.integers(49, 52))
    rows = rng.normal(size=(11, n_features))
    coef = rng.normal(size=(n_outputs, n_features))
    of_maps = list(maps_of(n_features))
    for dtype in (np.float64, np.float32):
        for ranges, row_map in of_maps:
            model = Products.of(coef, ranges, row_map, 3.0, np.dtype(dtype))
            hold(raw_of(model), rows.astype(dtype), sizes_of(n_features, n_outputs))


@pytest.mark.parametrize("n_outputs", range(1, 11))
def test_products_of_a_row_are_the_same_in_every_place(n_outputs):
    hold_products(n_outputs)


def core_types():
    """Return another kind of processor that OpenBLAS has products for, and this machine can run.

    Tests of this process hold its own kind.
    """
    facts = Path("/proc/cpuinfo")
    flags = facts.read_text(encoding="utf-8") if facts.exists() else ""
    known = {"SkylakeX": "avx512f", "Haswell": "avx2", "Nehalem": "sse4_2"}
    own = {library.get("architecture") for library in threadpool_info()}
    return [name for name, flag in known.items() if flag in flags and name not in own][:1] or [""]


@pytest.mark.every_case
@pytest.mark.parametrize("core_type", core_types())
def test_they_are_whatever_products_blas_takes(core_type):
    """In a process of its own, with models and all that they say of rows."""
    script = "import test_places as t; [t.hold_products(k) for k in (1, 3)]; t.hold_models()"
    given = {"OPENBLAS_CORETYPE": core_type} if core_type else {}
    paths = [str(Path(__file__).parent), *sys.path]
    environment = os.environ | given | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], env=environment, check=True)


# --- models ---------------------------------------------------------------------------------------


def models():
    """Yield a fitted model of each kind, and the rows that it is asked about."""
    signal = ROWS[:, 0] + ROWS[:, 1] / 3
    for name, kind in ESTIMATORS.items():
        if not hasattr(kind, "predict") or name == "PrivateSearchCV":
            continue
        known = {key: of for key, of in PUBLIC.items() if hasattr(kind(), key)}
        y = np.clip(np.abs(signal) if "Poisson" in name else signal, -1, 1)
        y = np.digitize(signal, [-0.5, 0.5]) if "Softmax" in name else y
        known |= {"classes": [0, 1, 2]} if "Softmax" in name else {}
        known |= {"target_bounds": (0.0, 1.0)} if "Poisson" in name else {}
        y = (signal > 0).astype(int) if "classes" in known and len(known["classes"]) == 2 else y
        yield kind(**known, **SETTINGS).fit(ROWS, y)
        if name == "PrivateLogisticRegression":
            linear = partial(kind, classes=[0, 1], bounds=None, **SETTINGS)
            yield linear().fit(sparse.csr_array(ROWS), y)


def hold_models():
    """Check all that models of this package say of rows."""
    for model in models():
        for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
            if not hasattr(model, method):
                continue
            answers = getattr(model, method)
            if model.ranges_ is None and "GAM" not in type(model).__name__:
                hold(answers, sparse.csr_array(ROWS[:9]), SOME)
                continue
            hold(answers, ROWS[:9], SOME)
            hold(answers, ROWS[:9].astype(np.float32), SOME)
        if hasattr(model, "explain"):
            hold(model.explain, ROWS[:9], SOME)


def test_models_say_the_same_of_a_row_in_every_place():
    hold_models()


@pytest.mark.parametrize("options", [{}, {"monotonic_cst": {3: 1}}, {"classes": [0, 1, 2]}])
def test_numpy_repeats_look_ups_to_the_bit(options, monkeypatch):
    """Of rows with gaps, beyond bounds and beyond what the map leaves as it is."""
    y = np.digitize(ROWS[:, 0], [-0.5, 0.5][: len(options.get("classes", [0, 1])) - 1])
    known = {"classes": [0, 1], "bounds": (-2.0, 2.0), "interactions": [(0, 1), (0, 2), (5, 6)]}
    model = ESTIMATORS["PrivateGAMClassifier"](**known | options, **SETTINGS).fit(ROWS, y)
    rows = np.vstack([ROWS, 5 * ROWS])[:150].copy()
    rows[7, 2] = np.nan
    found = WhenReady.found
    kinds = (
        lambda self, *_, **__: found(self, worthwhile=True) or self.with_signature[0],
        lambda self, *_: None,
    )
    said = []
    for most_cells, kind in product((10**9, 0), kinds):  # and where tables would be too large
        monkeypatch.setattr(lookups, "MOST_CELLS", most_cells)
        lookups.CACHE.clear()
        monkeypatch.setattr(WhenReady, "found", kind)
        said.append((model.decision_function(rows), model.explain(rows)))
        np.testing.assert_array_equal(model.decision_function(rows[3:4]), said[-1][0][3:4])
        with pytest.raises(ValueError, match="contains infinity"):
            model.predict(np.where(rows == rows[40, 3], np.inf, rows))
        of_pipeline = model.to_sklearn().decision_function(rows)
        np.testing.assert_allclose(of_pipeline, said[-1][0], rtol=1e-12, atol=1e-12)
    for one, other in zip(said[::2], said[1::2], strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_allclose(said[2][0], said[0][0], rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(lookups, "AT_ONCE", 32)
    threads = model.set_params(n_jobs=2)
    np.testing.assert_array_equal(threads.decision_function(rows), said[-1][0])
    many = np.tile(rows, (200, 1))
    tracemalloc.start()
    model.predict(many)
    assert tracemalloc.get_traced_memory()[1] < 4 * many.nbytes  # of no number for each term
    tracemalloc.stop()


def test_compiled_code_finds_the_cells_that_a_search_finds(monkeypatch):
    column = NumberColumn(-2.0, 5.0, shared=(1.0,))
    values = np.concatenate([column.edges, np.nextafter(column.edges, -9), [np.nan, -1e300, 1e300]])
    found = []
    for kernel in (None, write_codes.found(worthwhile=True) or write_codes.with_signature[0]):
        monkeypatch.setattr(write_codes, "in_memory", kernel)
        found.append(column.codes(values))
    np.testing.assert_array_equal(*found)
    assert found[0].max() == column.n_cells - 1


def test_levels_and_gaps_of_a_row_do_too():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": ROWS[:, 0], "side": np.where(ROWS[:, 1] > 0, "a", "b")})
    frame.loc[3:5, "x"] = np.nan
    frame.loc[2:4, "side"] = None
    model = ESTIMATORS["PrivateGAMClassifier"](
        classes=[0, 1], bounds={"x": (-2, 2)}, categories={"side": ["a"]}, **SETTINGS
    ).fit(frame, ROWS[:, 2] > 0)
    hold(model.predict_proba, frame[:9], SOME, lambda rows, places: rows.iloc[places])


# --- what may see many rows -----------------------------------------------------------------------


def rows_of_steps():
    """Yield steps of the closed list with rows that they are asked about."""
    gaps = np.where(np.arange(ROWS.size).reshape(ROWS.shape) % 5 > 0, ROWS, np.nan)
    levels = np.where(ROWS > 0.5, "high", np.where(ROWS > -0.5, "middle", "low")).astype(object)
    for step in (
        Binarizer(),
        FunctionTransformer(),
        KBinsDiscretizer(4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
        MaxAbsScaler(),
        MinMaxScaler(clip=True),
        RobustScaler(),
        StandardScaler(),
        BoundsScaler((-1, 1)),
        PrivateScaler(**SETTINGS),
        RowMapper(2.0, norm=1.0, centre=np.full(7, 0.1), weights=np.eye(7) + 0.1),
        DummyRegressor(strategy="constant", constant=0.3),
        ConstantClassifier(),
    ):
        yield step, ROWS
    yield SimpleImputer(strategy="constant", fill_value=0.5), gaps
    yield SimpleImputer(), gaps
    yield SimpleImputer(strategy="most_frequent", add_indicator=True), gaps
    known = [["low", "middle"]] * 7
    yield OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False), levels
    options = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    yield OrdinalEncoder(categories=known, **options), levels


def test_steps_of_the_closed_list_take_a_row_by_itself():
    seen = set()
    for step, rows in rows_of_steps():
        step.fit(rows, ROWS[:, 0] > 0)
        answers = step.predict if hasattr(step, "predict") else step.transform
        hold(answers, rows[:9], SOME)
        if rows is ROWS and not isinstance(step, (PrivateScaler, ConstantClassifier)):
            hold(answers, rows[:9].astype(np.float32), SOME)
        assert answers_by_row(step)
        seen.add(type(step).__name__)
    seen |= {"ColumnTransformer", "Pipeline", "PrivateSearchCV"}
    seen |= {name for name, kind in ESTIMATORS.items() if hasattr(kind, "predict")}
    assert seen == {name for names in BY_ROW.values() for name in names}


class Counting(ClassifierMixin, BaseEstimator):
    """A model whose answer follows from how many rows came before."""

    def fit(self, X, y):
        """Count none."""
        self.classes_ = np.unique(y)
        self.n_seen_ = 0
        return self

    def predict(self, X):
        """Say where each row stands."""
        places = self.n_seen_ + np.arange(len(X))
        self.n_seen_ += len(X)
        return places % 2


class Drawing(Counting):
    """A model that draws from public random generators."""

    def predict(self, X):
        """Draw a label for each row."""
        return np.random.randint(0, 2, len(X))  # noqa: NPY002


class ByBlock(TransformerMixin, BaseEstimator):
    """Scales all rows by the largest."""

    def fit(self, X, y=None):
        """Learn nothing."""
        return self

    def __sklearn_is_fitted__(self):
        return True

    def transform(self, X):
        """Scale rows."""
        return X / max(10.0, np.abs(X).max())


class Replaced(PrivateLogisticRegression):
    """A model of this package with a prediction of its own."""

    def predict(self, X):
        """Say whether a row is above the mean of all."""
        return (X[:, 0] > X[:, 0].mean()).astype(int)


def private():
    """Return a private model."""
    return PrivateLogisticRegression(classes=[0, 1], bounds=(-2, 2), **SETTINGS)


def replaced_by_hand(X, y):
    """Return a fitted model whose method was replaced."""
    model = private().fit(X, y)
    model.predict = lambda X: (X[:, 0] > X[:, 0].mean()).astype(int)
    return model


LABELS = (ROWS[:, 0] > 0).astype(int)
OTHERS = {
    "counts calls": Counting(),
    "draws": Drawing(),
    "draws by its prior": DummyClassifier(strategy="stratified"),
    "products": LogisticRegression(),
    "scales by the block": make_pipeline(ByBlock(), private()),
    "a function of rows": make_pipeline(FunctionTransformer(ByBlock().transform), private()),
    "in columns": make_pipeline(
        make_column_transformer((ByBlock(), [0, 1]), remainder="passthrough"), private()
    ),
    "a subclass": Replaced(classes=[0, 1], bounds=(-2, 2), **SETTINGS),
}


@pytest.mark.every_case
@pytest.mark.parametrize("name", [*OTHERS, "a method of the object"])
def test_others_see_one_row_each(name):
    """Another person with many rows, or a large one, changes no answer for the rest."""
    model = OTHERS[name].fit(ROWS, LABELS) if name in OTHERS else replaced_by_hand(ROWS, LABELS)
    assert not answers_by_row(model)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    alone = predicted(model, "predict", ROWS[:40], 40)
    for large in (ROWS[40:41], 1e6 * ROWS[40:47]):
        more = np.vstack([large, ROWS[:40]])
        found = predicted(model, "predict", more, len(more))
        np.testing.assert_array_equal(found[len(large) :], alone)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_pipelines_of_what_is_known_see_many_rows(monkeypatch):
    columns = make_column_transformer((StandardScaler(), [0, 1]), remainder="passthrough")
    known = Pipeline([("all", "passthrough"), ("columns", columns), ("model", private())])
    assert answers_by_row(known.fit(ROWS, LABELS))
    seen = []

    def noted(model, rows):
        seen.append(len(rows))
        return np.zeros(len(rows))

    monkeypatch.setattr(PrivateLogisticRegression, "predict", noted)
    predicted(known, "predict", ROWS[:9], 9)
    # the type of numbers in a list follows all of its rows
    predicted(known, "predict", ROWS[:3].tolist(), 3)
    assert seen == [9, 1, 1, 1]


def test_one_record_moves_a_weighted_score_by_its_part():
    rows = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    labels = (rows[:, 0] > 0).astype(int)
    model = PrivateLogisticRegression(classes=[0, 1], bounds=(-1, 1)).fit(rows, labels)
    score = score_of("accuracy", {"classes": [0, 1]})
    weights = np.random.default_rng(1).uniform(0.25, 1, 50)
    held = rows[:50]
    right = model.predict(held)
    best = score.mean(model, held, right, weight=weights)
    for place in (0, int(np.argmax(weights))):
        wrong = right.copy()
        wrong[place] = 1 - wrong[place]
        moved = best - score.mean(model, held, wrong, weight=weights)
        assert moved == pytest.approx(weights[place] / 50)
        nothing = weights.copy()
        nothing[place] = 0.0
        assert score.mean(model, held, wrong, weight=nothing) == pytest.approx(best)


def test_scores_by_person_move_by_one_person():
    """Of rows that tie, a person with up to eight moves the mean by one part at the most."""
    accuracy = score_of("accuracy", {"classes": [0, 1]})
    model = LogisticRegression().fit(ROWS, LABELS)
    n = 61
    for x in ROWS[:10]:
        model.intercept_ = -(x[None] @ model.coef_[0])
        means = []
        for k in range(1, 9):
            weight = np.append(np.full(k, 1 / k), np.ones(n))
            rows = np.tile(x, (n + k, 1))
            means.append(accuracy.mean(model, rows, np.ones(n + k, int), weight))
        assert np.ptp(means) <= (1 + 1e-9) / (n + 1)
