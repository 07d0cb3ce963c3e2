"""What is public is given, or bought: labels, levels, bounds of targets."""

import warnings
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
    Schema,
)
from skdpdyn.core import rules
from skdpdyn.core.losses import logistic, softmax
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import opened
from skdpdyn.core.spending import total_of
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.evaluation import evaluate
from skdpdyn.exceptions import PrivacyLeakWarning, PrivacyUtilityWarning
from skdpdyn.inference import private_regression
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.planning import plan
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.solvers import OutputPerturbation
from skdpdyn.training import facts
from skdpdyn.training.facts import classes_of
from skdpdyn.training.parts import CLASS_COUNTS
from skdpdyn.training.plan import plan_of
from skdpdyn.training.purchase import Purchase


@pytest.fixture(autouse=True)
def no_empty_cell_stands_out(request, monkeypatch):
    if "chance" not in request.node.name:
        monkeypatch.setattr(facts, "FALSE", 1e-8)


RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (6000, 2))
SIGNAL = X @ [1.0, -2.0]
TWO = (SIGNAL > 0).astype(int)
THREE = np.digitize(SIGNAL, [-1, 1])
CLASSIFIERS = [
    PrivateLogisticRegression,
    PrivateLinearSVC,
    PrivateSoftmaxRegression,
    lambda **given: PrivateGAMClassifier(bounds=(-1, 1), **given),
]


@pytest.mark.smoke
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_labels_of_numbers_are_bought_without_a_word(kind):
    for y, expected in ((TWO, [0, 1]), (2.0 * TWO - 1, [-1, 1]), (TWO + 1, [1, 2])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = kind(epsilon=3.0).fit(X, y)
        assert model.classes_.tolist() == expected
        assert model.leaks_ == ()
        assert model.predict(X).astype(float) @ y > 0
        assert model.privacy_ == kind(epsilon=3.0).privacy_cost(len(X), 2)
        assert model.mechanism_.names.count("class counts") == 1
    flags = kind(epsilon=3.0).fit(X, TWO > 0)
    assert flags.classes_.tolist() == [False, True]
    assert "classes" not in flags.bought_
    assert not flags.leaks_


def test_several_classes_are_those_that_show():
    for kind in CLASSIFIERS[2:]:
        cases = (THREE, [0, 1, 2]), (THREE + 1, [1, 2, 3]), (THREE + 7, [7, 8, 9])
        for y, expected in cases:
            model = kind(epsilon=3.0).fit(X, y)
            assert model.classes_.tolist() == expected
            assert np.mean(model.predict(X) == y) > 0.6
    with pytest.warns(PrivacyUtilityWarning, match="labels other than classes"):
        two = PrivateLogisticRegression(epsilon=3.0).fit(X, np.where(X[:, 0] > 0.95, 7, 2 * TWO))
    assert two.classes_.tolist() == [0, 2]


def test_facts_have_their_own_share_beside_that_of_the_map():
    """So that their noise is that of their rule, whatever else a planned run buys."""
    model = PrivateLogisticRegression(bound="last_iterate", bounds=None)
    planned = plan_of(Purchase.of(model, 20_000, 5).request)
    labels = planned.shares[CLASS_COUNTS]
    others = [share for share in planned.shares.values() if share is not labels]
    assert labels.size == rules.class_share(planned.request.strength, 1)
    assert total_of(others) == pytest.approx(rules.map_share(planned.request.pays_for_matrix))


def test_a_record_of_another_label_weighs_nothing_and_keeps_its_place():
    """The same rows with the labels of a tenth of them as another: as if these were not there."""
    y = TWO.copy()
    others = np.arange(len(X)) % 10 == 0
    y[others] = 1 - y[others]  # wrong, so that they would be seen
    wrong = PrivateLogisticRegression(epsilon=30.0, delta=1e-6).fit(X, y)
    y[others] = 9
    with pytest.warns(PrivacyUtilityWarning):
        model = PrivateLogisticRegression(epsilon=30.0, delta=1e-6).fit(X, y)
    assert np.mean(model.predict_proba(X)[~others].max(1)) > 0.93
    assert np.mean(wrong.predict_proba(X)[~others].max(1)) < 0.92


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", [logistic, softmax(3)], ids=["logistic", "softmax"])
def test_rows_whose_weights_are_all_1_are_summed_to_the_same_bits(loss, dtype):
    """So weights may be left out where no record has another label: its block alone is another."""
    rows = X.astype(dtype)
    y = THREE % max(2, loss.n_outputs)
    row_map = RowMap(np.array([0.1, -0.2]), np.array([[1.0, 0.5], [0.0, 2.0]]), 1.0, 3.0)
    objective = Objective(loss, *X.shape, 1.0, clip=0.7, intercept_scaling=0.25, spread=9.0)
    y = y.astype(float)
    plain, ones = (LocalRows(rows, y, weight, row_map) for weight in (None, np.ones(len(X))))
    point = np.linspace(-0.5, 0.5, objective.n_parameters)
    for sums in (lambda of: of.gradient(objective, point), LocalRows.second_moment):
        np.testing.assert_array_equal(opened(sums(plain)), opened(sums(ones)))


def test_rows_read_in_order_give_the_same_bits():
    from skdpdyn.data.streamed import StreamedRows

    class InOrder(StreamedRows):
        def read(self):
            for part in np.array_split(np.arange(len(X)), 9):
                yield X[part], self.y[part]

    rows = InOrder(X.shape)
    for kind, y in ((PrivateSoftmaxRegression, THREE), (PrivateRidge, SIGNAL)):
        rows.y = y
        here, there = (kind(random_state=0).fit(*given) for given in ((X, y), (rows,)))
        np.testing.assert_array_equal(here.coef_, there.coef_)
        assert [*here.bought_] == [*there.bought_]
    rows = InOrder((100, 2))
    with pytest.raises(ValueError, match="which takes more records"):
        PrivateRidge().fit(rows)


def test_labels_that_are_not_bought_are_a_leak_by_name():
    text = np.array(["a", "b"])[TWO]
    few = slice(0, 30)
    cases = (X, text, "auto"), (X[few], TWO[few], "auto"), (X, TWO, "from_y")
    for rows, y, given in cases:
        with pytest.warns(PrivacyLeakWarning, match="taken from y"):
            model = PrivateLogisticRegression(classes=given).fit(rows, y)
        assert model.leaks_ == ("classes were taken from y",)
    with pytest.raises(ValueError, match="'auto' or 'from_y'"):
        PrivateLogisticRegression(classes=None).fit(X, TWO)


def test_a_report_says_what_was_bought_and_at_what_share():
    model = PrivateLogisticRegression().fit(X, TWO)
    share = model.bought_["classes"]
    noise = model.mechanism_["class counts"].noise_multiplier
    assert share == pytest.approx(1 / (noise * model.privacy_.mu) ** 2, rel=1e-6)
    text = model.privacy_report().to_text()
    assert f"classes: bought for {100 * share:.2g} % of mu^2" in text
    assert "possible labels" not in text
    given = PrivateLogisticRegression(classes=[0, 1]).fit(X, TWO).privacy_report().to_text()
    assert "possible labels" in given
    assert "classes: bought for" not in given


def test_a_label_stands_out_of_an_empty_cell_by_chance_in_a_ten_thousandth_of_fits():
    """2,000 draws: more than 7 of them fail with a probability below 1e-9."""
    noise = RNG.standard_normal((2000, 258))
    noise[:, 1:3] += 1000
    failed = sum(classes_of(one, 1.0, most=9)[0].tolist() != [0, 1] for one in noise)
    assert failed <= 7
    rare = np.array([0.0, 999.0, 1.0, 0.0, 0.0])
    assert classes_of(rare, 1.0, most=2)[0].tolist() == [0, 1]
    alone = np.array([0.0, 0.0, 0.0, 0.0, 9.0, 0.0])  # one label
    others = np.array([9.0, 0.0, 8.0, 7.0, 9.0, 9.0])  # -1, 1, 2, 3 and others
    for most in (2, 9):
        classes, has_others = classes_of(alone, 1.0, most)
        assert (classes.tolist(), has_others) == ([0, 1], True)
        classes, has_others = classes_of(others, 1.0, most)
        assert (classes.tolist(), has_others) == ([-1, 3] if most == 2 else [-1, 1, 2, 3], True)


@pytest.mark.filterwarnings("error")
def test_classes_are_the_labels_that_occur_in_every_estimator():
    """No classes between them appear, so that the second column is of the second label."""
    for labels in ([2, 4], [1, 3], [0, 2], [10, 20]):
        y = np.array(labels)[TWO]
        for kind in (PrivateLogisticRegression, PrivateSoftmaxRegression, PrivateGAMClassifier):
            model = kind(epsilon=3.0).fit(X, y)
            assert model.classes_.tolist() == labels
            assert np.mean(model.predict(X) == y) > 0.8
    for flags in (pd.array(TWO > 0, "boolean"), pd.Series(TWO > 0, dtype="bool[pyarrow]")):
        model = PrivateLogisticRegression(epsilon=3.0).fit(X, flags)
        assert model.classes_.tolist() == [False, True]
        assert "classes" not in model.bought_
    with pytest.raises(ValueError, match="Input y contains NaN"):
        PrivateLogisticRegression(epsilon=3.0).fit(X, pd.array([None, *(TWO[1:] > 0)], "boolean"))


def test_labels_change_no_coefficient_more_than_their_noise():
    """Bought or given, classes of 0 and 1 lead to the same records but for the counts' own."""
    with patch.object(rules, "class_share", lambda *_: 0.05):
        bought = PrivateLogisticRegression(epsilon=100.0, random_state=0).fit(X, TWO)
        given = PrivateLogisticRegression(epsilon=100.0, random_state=0, classes=[0, 1]).fit(X, TWO)
    assert sorted(bought.mechanism_.names) == sorted(given.mechanism_.names)
    np.testing.assert_allclose(bought.coef_, given.coef_, rtol=0.3)


def test_a_start_lends_what_it_knows_of_targets():
    """So that nothing is bought, nor taken from y, be it text."""
    text = np.array(["no", "yes", "zero"])[THREE]
    pairs = [
        (PrivateSoftmaxRegression(classes=["no", "yes", "zero"]), text),
        (PrivateGAMClassifier(bounds=(-1, 1), classes=["no", "yes", "zero"]), text),
        (PrivateRidge(target_bounds=(-4, 4)), SIGNAL),
        (PrivateGAMRegressor(bounds=(-1, 1), target_bounds=(-4, 4)), SIGNAL),
    ]
    for model, y in pairs:
        first = model.fit(X, y)
        name = model.family.targets.parameter
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = clone(first).set_params(start=FrozenEstimator(first), **{name: "auto"})
            again.fit(X, y)
        assert again.leaks_ == ()
        assert not again.bought_
        np.testing.assert_array_equal(getattr(again, f"{name}_"), getattr(first, f"{name}_"))
        assert again.privacy_ == clone(again).privacy_cost(len(X), 2)


# --- bounds of targets ----------------------------------------------------------------------------

REGRESSORS = {
    "ridge": PrivateRidge,
    "quantile": PrivateQuantileRegressor,
    "gam": lambda **given: PrivateGAMRegressor(bounds=(-1, 1), **given),
    "poisson": PrivatePoissonRegressor,
    "gam of counts": lambda **given: PrivateGAMRegressor(loss="poisson", bounds=(-1, 1), **given),
}


@pytest.mark.smoke
@pytest.mark.parametrize("kind", REGRESSORS)
def test_bounds_of_targets_are_bought_without_a_word(kind):
    counts = kind in ("poisson", "gam of counts")
    y = RNG.poisson(np.exp(SIGNAL)) if counts else 1e6 + 1e4 * (SIGNAL + 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = REGRESSORS[kind](epsilon=3.0).fit(X, y)
    low, high = model.target_bounds_
    assert low == 0 if counts else low < 0.99e6
    assert 16 <= high <= 128 if counts else 1.01e6 < high < 2.1e6
    assert model.leaks_ == ()
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.7
    assert model.privacy_ == REGRESSORS[kind](epsilon=3.0).privacy_cost(len(X), 2)
    assert set(model.bought_) - {"bounds"} == {"target_bounds"}
    assert "target bounds" not in str(model.privacy_report().sections["assumed"]["public"])


@pytest.mark.parametrize("y", [0.0, 5.0, -1e-300, 1e149, np.arange(6000.0) % 2 * 1e300, "most"])
def test_any_finite_target_has_bounds(y):
    y = np.where(np.arange(6000) == 7, 1e9, SIGNAL) if isinstance(y, str) else y + np.zeros(6000)
    model = PrivateRidge(epsilon=3.0).fit(X, y)
    low, high = model.target_bounds_
    assert -1e150 < low < high < 1e150
    assert np.all(np.isfinite(model.predict(X)))
    assert high < 1e9 or y.max() > 1e100


def test_bounds_that_are_not_bought_are_a_leak_by_name():
    for rows, given in ((slice(30), "auto"), (slice(None), "from_y")):
        with pytest.warns(PrivacyLeakWarning, match="taken from y"):
            model = PrivateRidge(target_bounds=given).fit(X[rows], SIGNAL[rows])
        assert model.leaks_ == ("target_bounds were taken from y",)
    with pytest.raises(ValueError, match="'auto', 'from_y' or"):
        PrivateRidge(target_bounds=None).fit(X, SIGNAL)


# --- columns that are no numbers ------------------------------------------------------------------


@pytest.mark.smoke
def test_columns_are_what_their_types_say():
    """Text is bought, by whatever type; flags are free, dates are days; nothing asks values."""
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 300, len(X)), "D")
    side = np.where(X[:, 1] > 0, "up", "down")
    frame = pd.DataFrame({"x": X[:, 0], "day": days, "flag": X[:, 1] > 0.5, "o": side})
    frame["o"] = frame["o"].astype(object)
    frame["c"] = frame["o"].astype("category")
    frame["s"] = frame["o"].astype("string")
    frame["zone"] = frame["day"].dt.tz_localize("Asia/Tokyo")
    bounds = {"x": (-1, 1), "day": (19_723, 20_089), "zone": (19_722, 20_088)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateGAMClassifier(epsilon=3.0, bounds=bounds).fit(frame, TWO)
    columns = dict(zip(frame, model.expansion_.columns, strict=True))
    for name in "ocs":
        assert columns[name].levels == ("down", "up")
    assert columns["flag"].levels == (False, True)
    assert columns["day"].low == 19_723
    since = (frame["day"] - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")
    numbers = frame.assign(day=since, zone=since - 9 / 24)
    np.testing.assert_array_equal(model.explain(frame), model.explain(numbers))
    assert [*model.bought_] == ["classes", "categories"]
    assert "levels" not in str(model.privacy_report().sections["assumed"]["public"])
    assert model.privacy_ == clone(model).privacy_cost(len(X), 7)
    with pytest.raises(ValueError, match="hold no numbers"):
        clone(model).set_params(categories=None).fit(frame, TWO)
    with pytest.raises(ValueError, match=r"'o' \(object\).*OneHotEncoder"):
        PrivateLogisticRegression().fit(frame[["x", "o"]], TWO)


def test_arrays_of_objects_and_of_numbers():
    side = np.where(X[:, 1] > 0, "up", "down").astype(object)
    rows = np.column_stack([X[:, 0].astype(object), side])
    model = PrivateGAMClassifier(epsilon=3.0, bounds={0: (-1, 1)}).fit(rows, TWO)
    assert model.expansion_.columns[1].levels == ("down", "up")
    plain = PrivateGAMClassifier(epsilon=3.0, bounds=(-1, 1)).fit(X, TWO)
    assert "categories" not in plain.bought_
    assert plain.privacy_ == clone(plain).privacy_cost(len(X), 2)
    search = PrivateSearchCV(PrivateGAMClassifier(bounds=(-1, 1), classes=[0, 1]), {"clip": [0.5]})
    assert search.set_params(epsilon=3.0).fit(X, TWO).score(X, TWO) > 0.4


@pytest.mark.smoke
def test_facts_of_some_columns_leave_the_others_to_be_bought():
    """At the norm of those alone; the report says which were given, and the cost is the same."""
    side = np.where(X[:, 1] > 0, "up", "down")
    code = np.where(SIGNAL > 0, "b", "a")
    frame = pd.DataFrame({"x": 30 * X[:, 0], "z": X[:, 1], "side": side, "code": code})
    options = {"epsilon": 3.0, "bounds": {"z": (-2, 2)}, "classes": [0, 1]}
    made = PrivateGAMClassifier(categories={"side": ["up", "down"]}, **options)
    additive = made.fit(frame, TWO)
    linear = PrivateLogisticRegression(**options).fit(frame[["x", "z"]], TWO)
    assert additive.bought_.keys() == {"bounds", "categories"}
    x, z, sides, codes = additive.expansion_.columns
    assert (x.low, x.high, z.low, z.high) == (-32, 32, -2, 2)
    assert (sides.levels, codes.levels) == (("up", "down"), ("a", "b"))
    assert linear.bought_.keys() == {"bounds"}
    assert linear.ranges_.tolist() == [[-32, 32], [-2, 2]]
    for model, cost in ((additive, made), (linear, PrivateLogisticRegression(**options))):
        cost = cost.privacy_cost(len(X), model.n_features_in_)
        assert cost.epsilon(model.delta_) == pytest.approx(model.epsilon_)
        strength = rules.strength_of(len(X), cost.mu, cost.adjacency)
        share = rules.ranges_share(strength, 1)  # of one column, not of two
        assert model.bought_["bounds"] == pytest.approx(share, rel=0.01)
        public = str(model.privacy_report().sections["assumed"]["public"])
        assert "bounds of the columns `z`" in public
        assert ("categories of the columns `side`" in public) == (model is additive)
    with pytest.raises(ValueError, match=r"\['w'\] are no columns of numbers in X"):
        PrivateLogisticRegression(bounds={"z": (-2, 2), "w": (0, 1)}).fit(frame[["x", "z"]], TWO)
    with pytest.raises(ValueError, match="is no Gaussian release"):
        PrivateLogisticRegression(
            bounds={0: (0, 1)}, solver=OutputPerturbation(noise="gamma"), classes=[0, 1]
        ).fit(X, TWO)


# --- schemas --------------------------------------------------------------------------------------

CODEBOOK = """name,low,high,levels
x,-1,1,
side,,,up|down
code,,,1|2
y,,,0|1
"""


@pytest.mark.smoke
def test_a_schema_stands_for_single_parameters(tmp_path):
    path = tmp_path / "codebook.csv"
    path.write_text(CODEBOOK)
    schema = Schema.from_codebook(path, target="y")
    assert schema == Schema.from_codebook(pd.read_csv(path), target="y")
    assert schema.categories == {"side": ("up", "down"), "code": (1, 2)}
    assert (schema.bounds, schema.classes) == ({"x": (-1.0, 1.0)}, (0, 1))
    assert Schema.from_json(schema.to_json(tmp_path / "schema.json")) == schema
    for place in (tmp_path / "schema.json", str(tmp_path / "schema.json")):
        assert Schema.from_json(place) == schema
    side = np.where(X[:, 1] > 0, "up", "down")
    frame = pd.DataFrame({"x": X[:, 0], "side": side, "code": 1 + TWO})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_schema = PrivateGAMClassifier(schema=schema).fit(frame, TWO)
    facts = {"bounds": schema.bounds, "categories": schema.categories, "classes": [0, 1]}
    assert by_schema.bought_ == {}
    assert by_schema.schema is schema
    public = str(by_schema.privacy_report().sections["assumed"]["public"])
    for fact in ("bounds of the columns `x`", "of the columns `side`, `code`", "possible labels"):
        assert fact in public
    assert by_schema.bounds is clone(by_schema).bounds is PrivateGAMClassifier().bounds
    assert by_schema.privacy_ == PrivateGAMClassifier(**facts).fit(frame, TWO).privacy_
    assert by_schema.privacy_ == PrivateGAMClassifier(schema=schema).privacy_cost(len(X), 3)
    other = PrivateLogisticRegression(schema=schema, classes=[0, 1, 2][1:]).fit(X[:, :1], TWO + 1)
    assert other.classes_.tolist() == [1, 2]


def test_a_schema_is_taken_wherever_facts_are():
    schema = Schema(bounds=np.array([[-1, 1], [-1, 1]]), target_bounds=(-3, 3), classes=range(2))
    scaled = BoundsScaler(schema=schema).fit_transform(X)
    np.testing.assert_array_equal(scaled, BoundsScaler(schema.bounds).fit_transform(X))
    model = PrivateRidge(schema=schema).fit(X, SIGNAL)
    assert model.target_bounds_ == (-3, 3)
    options = {"epsilon": 3.0, "random_state": 0}
    same = [
        evaluate(model, X, SIGNAL, **given, **options).mechanism_
        for given in ({"schema": Schema(target_bounds=(-9, 9))}, {"target_bounds": (-9, 9)})
    ]
    assert same[0] == same[1]
    model, table = private_regression(PrivateLogisticRegression(), X, TWO, schema=schema, **options)
    assert len(table.params) == 3
    assert not any("taken from y" in leak for leak in model.leaks_)
    search = PrivateSearchCV(PrivateLogisticRegression(schema=schema), {"clip": [0.5]}, epsilon=3.0)
    assert search.fit(X, TWO).leaks_ == ()
    guesses = {"auc": 0.8, "prevalence": 0.3}
    assert plan(PrivateLogisticRegression(schema=schema), n_samples=900, n_features=2, **guesses)


def test_what_is_no_codebook_is_refused():
    data = pd.DataFrame({"x": [17.5], "y": [2]})
    with pytest.raises(ValueError, match="must be a frame or a CSV file") as caught:
        Schema.from_codebook(data)
    assert "17.5" not in str(caught.value)
    lines = pd.DataFrame(columns=["name", "low", "high", "levels"])
    for line in (["x", 0, 1, "a|b"], ["x", None, None, None]):
        with pytest.raises(ValueError, match="'x' needs one line"):
            Schema.from_codebook(lines.assign(**dict(zip(lines, [[v] for v in line], strict=True))))
    with pytest.raises(ValueError, match=r"must be a skdpdyn\.Schema"):
        PrivateRidge(schema={"bounds": (0, 1)}).fit(X, SIGNAL)
