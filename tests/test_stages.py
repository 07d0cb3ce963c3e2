"""A fit in two stages: its facts are completed, then it is that of who gave all of them."""

from copy import deepcopy
from pickle import dumps, loads
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

import skdpdyn
from skdpdyn import (
    PrivateGAMClassifier,
    PrivateLogisticRegression,
    PrivateRidge,
    Schema,
    complete_schema,
)
from skdpdyn.core.expansion import NumberColumn
from skdpdyn.core.schema import facts_of
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.evaluation import evaluate, prediction_interval
from skdpdyn.inference import private_regression
from skdpdyn.model_selection import PrivateSearchCV, search_privacy, total_privacy
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
from skdpdyn.privacy import check_report, composition
from skdpdyn.solvers import DPSGD
from skdpdyn.training import fit
from skdpdyn.training.purchase import Purchase, parameters_of

pytestmark = pytest.mark.filterwarnings("ignore:random_state", "ignore:noisy counts")

RNG = np.random.default_rng(0)
N = 6000
X = RNG.uniform(-1, 1, (N, 3)) * [1.0, 30.0, 1e-3] + [0, 2000, 0]
SCORE = (X - [0, 2000, 0]) / [1.0, 30.0, 1e-3] @ [1.0, -2.0, 0.3]
COUNTS = RNG.poisson(np.exp(SCORE))
FRAME = pd.DataFrame(X, columns=[*"abc"]).assign(side=np.where(SCORE > 0, "up", "down"))
ESTIMATORS = [
    made
    for name in skdpdyn.__all__
    if isinstance(made := getattr(skdpdyn, name), type) and hasattr(made, "fit")
]


def table(made):
    """Return rows and targets for an estimator; of three classes where there may be."""
    rows = FRAME if made.__name__.startswith("PrivateGAM") else X
    if made.__name__ == "PrivatePoissonRegressor":
        return rows, COUNTS
    several = made.__name__ in ("PrivateSoftmaxRegression", "PrivateGAMClassifier")
    labels = np.digitize(SCORE, [-1, 1] if several else [0])
    return rows, labels if is_classifier(made()) else SCORE


@pytest.mark.parametrize("persons", [False, True], ids=["records", "persons"])
@pytest.mark.parametrize("made", ESTIMATORS, ids=lambda made: made.__name__)
def test_who_gave_a_fact_changes_no_bit(made, persons):
    """The second fit is given what the first has bought, by its parameters, and goes on with the
    same noise."""
    model = made(epsilon=5.0, random_state=0)
    rows, y = table(made)
    groups = {"groups": np.arange(N) // 2} if persons else {}
    seen = {}
    buy = Purchase.buy

    def noting(purchase, reading, spending):
        facts = buy(purchase, reading, spending)
        seen.update(facts=facts, spending=deepcopy(vars(spending)))
        return facts

    with patch.object(Purchase, "buy", noting):
        bought = clone(model).fit(rows, y, **groups)
    facts = seen["facts"]
    assert facts.bought

    def owning(purchase, reading, spending):
        assert not purchase.open
        vars(spending).update(seen["spending"])
        return facts

    of = Purchase.of

    def declared(*given):
        purchase = of(*given)
        assert not purchase.request.facts.bought
        request = fit.request_of(*given[:4], facts)
        return Purchase(request, purchase.open)

    given = clone(model).set_params(**parameters_of(bought, facts))
    with patch.object(Purchase, "of", declared), patch.object(Purchase, "buy", owning):
        given.fit(rows, y, **groups)
    assert vars(given).keys() == vars(bought).keys()
    for name in ("coef_", "intercept_", "ranges_", "classes_", "units_", "target_bounds_"):
        np.testing.assert_array_equal(getattr(given, name, 0), getattr(bought, name, 0), name)
    assert given.mechanism_ == bought.mechanism_
    cost = model.privacy_cost(given.n_samples_, rows.shape[1])
    assert given.privacy_ == bought.privacy_ == cost.with_unit("person" if persons else "record")
    assert given.bought_ == bought.bought_ == facts.parts_of_mu


@pytest.mark.parametrize("gaps", [False, True], ids=["levels", "gaps"])
def test_a_table_of_a_person_with_more_rows_than_the_limit(gaps):
    """Of them as many are used as the limit says, whatever columns hold, and no text tells."""
    frame = pd.DataFrame({"a": RNG.uniform(0, 8, N), "side": RNG.choice(["up", "down"], N)})
    y = frame["a"] + (frame["side"] == "up") + RNG.normal(size=N)
    if gaps:
        frame.loc[::9, "a"] = np.nan
    options = {"categories": {"side": ["up", "down"]}, "missing": ["a"] * gaps}
    (_, one), (_, other) = (
        private_regression(
            PrivateRidge(max_rows_per_person=5),
            frame,
            y,
            groups=np.minimum(np.arange(N), last),
            epsilon=30.0,
            random_state=0,
            **options,
        )
        for last in (2999, N - 4)
    )
    for table_of in (one, other):
        truth = table_of.params[list(table_of.names).index("a")]
        assert abs(truth - 1) < 0.15
    assert one.names == other.names


@pytest.mark.parametrize("most", [4, 64])
def test_equal_rows_are_divided_by_their_number_not_by_that_of_persons(most):
    """Most places of persons are empty, and the sum of weights is far from the persons' number."""
    n = 60_000
    rows = RNG.normal(5.0, 1.0, (n, 4))
    probability = 1 / (1 + np.exp(-(rows @ [0.8, -0.5, 0.3, 0.0] - 5.2)))
    y = (RNG.random(n) < probability).astype(int)
    model = PrivateLogisticRegression(
        most / 2, 1e-6, max_rows_per_person=most, random_state=0, classes=[0, 1]
    )
    model.fit(rows, y, groups=np.arange(n) // 2, equal_rows=True)
    assert "sum of weights" in model.mechanism_.names
    best = log_loss(y, probability)
    assert log_loss(y, model.predict_proba(rows)[:, 1]) < best + 0.006


@pytest.mark.parametrize("solver", [DPSGD(n_steps=3), "noisy_sgd", "objective_perturbation"])
def test_releases_that_are_not_gaussian_buy_no_facts(solver):
    """The facts are named, all of them, before anything is released; given ones need no noise."""
    model = PrivateLogisticRegression(3.0, solver=solver, bounds={0: (-1, 1)})
    message = r"^classes, bounds: solver=.* Pass classes=\[\.\.\.\], bounds=\["
    with patch("skdpdyn.core.noise.release") as released:
        with pytest.raises(ValueError, match=message):
            model.fit(X, (SCORE > 0).astype(int))
        with pytest.raises(ValueError, match=message):
            model.privacy_cost(N, 3)
    released.assert_not_called()


# --- facts that are handed on ---------------------------------------------------------------------

LEAKED = "classes were taken from y"
WORDS = np.where(SCORE > 0, "yes", "no")


def releases():
    """Yield releases that have bought facts, with rows and targets for a second fit."""
    logistic = PrivateLogisticRegression(epsilon=5.0)
    two = (SCORE > 0).astype(int)
    yield "a fit", logistic.fit(X, two), X, two
    additive = PrivateGAMClassifier(epsilon=5.0)
    yield "curves", additive.fit(FRAME, two), FRAME, two
    search = PrivateSearchCV(PrivateGAMClassifier(), {"clip": [0.1]}, epsilon=5.0)
    yield "a search", search.fit(FRAME, two), FRAME, two
    model, _ = private_regression(
        PrivateLogisticRegression(), FRAME, two, epsilon=5.0, categories="auto"
    )
    yield "a table", model, FRAME, two
    yield "a profile", complete_schema(FRAME, two, epsilon=5.0), FRAME, two


@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyUtilityWarning")
def test_facts_that_are_handed_on_keep_their_source():
    """Also through JSON, clone, parameters and merging; they are bought once, and counted once."""
    for name, first, rows, y in releases():
        schema = first if isinstance(first, Schema) else first.schema_
        (source,) = schema.sources
        assert source.guarantee == first.privacy_
        assert source.leaks == first.leaks_ == ()
        stored = Schema.from_json(schema.to_json())
        merged = Schema(target_bounds=(0, 1)) | schema
        assert stored.sources == merged.sources == schema.sources
        assert merged.target_bounds == (0, 1)
        for given in (schema, stored, merged):
            second = clone(PrivateGAMClassifier(epsilon=5.0, schema=given)).fit(rows, y)
            assert second.get_params()["schema"].sources == (source,), name
            assert (second.bought_, second.sources_) == ({}, (source,)), name
            assert second.schema_.sources == (source,)
            assert second.expansion_.columns == given_columns(schema, rows)
        total = total_privacy(first, second)
        alone = total_privacy(first.privacy_, second.privacy_).guarantee
        assert (total.guarantee, total.sources) == (alone, ())  # it is among the parts
        assert total_privacy(second).sources == (source,)


def given_columns(schema, rows):
    """Return the columns that a schema describes, as additive models have them."""
    facts = facts_of(schema)
    keys = list(getattr(rows, "columns", range(rows.shape[1])))
    return tuple(
        facts["categories"][key] if schema.types[key] == "text" else NumberColumn(*of)
        for key in keys
        for of in [schema.bounds.get(key, (0, 0))]
    )


@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
def test_facts_that_leaked_keep_their_leak():
    """Labels of text come from y, and whoever is given them says so; so does a seed."""
    first = PrivateLogisticRegression(epsilon=5.0).fit(X, WORDS)
    assert first.leaks_ == (LEAKED,)
    for schema in (first.schema_, Schema.from_json(first.schema_.to_json())):
        second = PrivateGAMClassifier(epsilon=5.0, schema=schema).fit(X, WORDS)
        assert second.bought_ == {} or "classes" not in second.bought_
        assert LEAKED in second.leaks_
        assert LEAKED in second.schema_.sources[0].leaks
        search = PrivateSearchCV(PrivateRidge(schema=schema), {"clip": [0.1]}, epsilon=5.0)
        assert LEAKED in search.fit(X, SCORE).leaks_
        _, table_of = private_regression(
            PrivateLogisticRegression(), X, WORDS, epsilon=5.0, schema=schema
        )
        assert LEAKED in table_of.leaks_
        labels = Schema(classes=schema.classes, sources=schema.sources)
        assert LEAKED in complete_schema(X, WORDS, epsilon=5.0, schema=labels).leaks_
    seeded = complete_schema(X, epsilon=5.0, random_state=0)
    assert any("random_state" in leak for leak in seeded.leaks_)
    assert PrivateRidge(epsilon=5.0, schema=seeded).fit(X, SCORE).leaks_ == seeded.leaks_


ATTRIBUTES = {
    "classes_": "classes",
    "target_bounds_": "target_bounds",
    "ranges_": "bounds",
}
"""Public facts of a fit, and the parameter that takes them; so do those of its schema."""


@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("made", ESTIMATORS, ids=lambda made: made.__name__)
def test_a_fact_that_is_handed_on_alone_keeps_its_source(made):
    """An attribute of a fit as a parameter of another one, also through clone, pickle and tables;
    a fact that is made anew of it, or typed, is the word of its user."""
    rows, y = table(made)
    first = made(epsilon=5.0).fit(rows, y)
    facts = {taken: getattr(first, name, None) for name, taken in ATTRIBUTES.items()}
    of_schema = {name: getattr(first.schema_, name) for name in ("bounds", "categories")}
    (source,) = first.schema_.sources
    params = made().get_params()
    for name, fact in [*facts.items(), *of_schema.items()]:
        if fact is None or name not in params:
            continue
        for given in (fact, clone(made(**{name: fact})).get_params()[name], loads(dumps(fact))):
            second = made(epsilon=5.0, **{name: given}).fit(rows, y)
            assert source in second.sources_, name
            assert source in second.schema_.sources
            assert name not in second.bought_
        assert getattr(fact, "sources", None) == (source,)
        assert Schema(**{name: fact}).sources == (source,)
        if isinstance(fact, np.ndarray):
            retyped = made(epsilon=5.0, **{name: fact.tolist()}).fit(rows, y)
            assert source not in retyped.sources_
            assert type(first.predict(rows[:2])) is np.ndarray
    other = made(
        adjacency="add_remove", **{name: of for name, of in facts.items() if name in params}
    )
    with pytest.raises(ValueError, match="its facts were released by"):
        other.fit(rows, y)


def test_levels_that_are_taken_out_by_hand_keep_their_source():
    """Out of tables or a schema, also of one column, through clone and pickle; nor do they go to a
    fit under another relation."""
    two = (SCORE > 0).astype(int)
    first = PrivateGAMClassifier(epsilon=5.0).fit(FRAME, two)
    (source,) = first.schema_.sources
    column = loads(dumps(first)).expansion_.columns[3]
    for levels in (column, column.levels, first.schema_.categories["side"], loads(dumps(column))):
        options = {"bounds": (-1, 1), "categories": {"side": levels}, "classes": [0, 1]}
        model = clone(PrivateGAMClassifier(epsilon=5.0, **options))
        second = model.fit(FRAME, two)
        assert second.sources_ == (source,)
        assert second.schema_.sources == (source,)
        assert Schema(categories={"side": levels}).sources == (source,)
        with pytest.raises(ValueError, match="its facts were released by"):
            clone(model).set_params(adjacency="add_remove").fit(FRAME, two)
    typed = {"side": list(column.levels)}
    assert model.set_params(categories=typed).fit(FRAME, two).sources_ == ()


@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
def test_bounds_of_a_scaler_keep_their_source():
    """Those that it bought, and those that it was given: in a model, and in totals."""
    two = (SCORE > 0).astype(int)
    profile = complete_schema(X, epsilon=5.0, random_state=0)
    own = PrivateScaler(epsilon=5.0, random_state=0).fit(X)
    (source,) = own.schema_.sources
    assert (source.guarantee, source.leaks) == (own.privacy_, own.leaks_)
    assert "bounds: bought for 100 % of mu^2" in own.privacy_report().to_text()
    for given in (own.ranges_, own.schema_.bounds, loads(dumps(own)).ranges_):
        model = PrivateLogisticRegression(epsilon=5.0, classes=[0, 1], bounds=given).fit(X, two)
        assert model.sources_ == (source,)
        assert total_privacy(own, model).sources == ()  # it is among the parts
        assert total_privacy(model).sources == (source,)
    for options in ({"schema": profile}, {"bounds": profile.bounds}):
        scaler = clone(BoundsScaler(feature_range=(-1, 1), **options)).fit(X)
        assert type(scaler.transform(X)) is np.ndarray
        last = PrivateLogisticRegression(epsilon=5.0, classes=[0, 1], bounds=(-1, 1))
        pipeline = make_pipeline(scaler, last).fit(X, two)
        assert scaler.bounds_.sources == profile.sources
        total = total_privacy(pipeline)
        assert (total.sources, total.leaks) == (profile.sources, profile.leaks_)
        searched = search_privacy(pipeline, n_samples=N, n_features=3)
        assert searched.sources == profile.sources
        assert set(profile.leaks_) <= set(searched.leaks)
        both = total_privacy(profile, pipeline)
        assert both.guarantee.mu == np.hypot(profile.privacy_.mu, last.privacy_.mu)
        assert both.sources == ()


def test_releases_of_equal_facts_are_two():
    """Ranges are powers of two: a second release that is the same costs as much as the first."""
    two = (SCORE > 0).astype(int)

    for release in (
        lambda: complete_schema(X, epsilon=5.0),
        lambda: PrivateScaler(epsilon=5.0).fit(X),
    ):
        one, other = release(), release()
        first, second = (getattr(of, "schema_", of) for of in (one, other))
        assert first.bounds == second.bounds
        assert len((first | second).sources) == 2
        assert (first | first).sources == first.sources
        model = PrivateLogisticRegression(epsilon=5.0, classes=[0, 1], schema=first).fit(X, two)
        assert total_privacy(other, model).sources == model.sources_ == first.sources
        assert total_privacy(one, model).sources == ()


def test_a_table_and_an_evaluation_keep_the_source_of_facts():
    first = PrivateRidge(epsilon=5.0, random_state=0).fit(X, SCORE)
    options = {"epsilon": 5.0, "target_bounds": first.target_bounds_}
    model, _ = private_regression(PrivateRidge(), X, SCORE, bounds=first.ranges_, **options)
    assert model.sources_ == first.schema_.sources
    assert first.leaks_[0] in model.leaks_
    assert (
        first.leaks_[0]
        in evaluate(PrivateRidge(epsilon=5.0).fit(X, SCORE), X, SCORE, **options).leaks_
    )


def test_what_takes_facts_of_a_release_lists_it():
    """Scores, intervals and profiles too, in their totals and reports."""
    profile = complete_schema(X, SCORE, epsilon=5.0)
    (source,) = profile.sources
    assert profile.sources_ == total_privacy(profile).sources == ()
    public = LinearRegression().fit(np.zeros((2, 3)), np.zeros(2))
    bounds = {"target_bounds": profile.target_bounds}
    budget = {"epsilon": 5.0}
    for given in (
        evaluate(public, X, SCORE, schema=profile, **budget),
        evaluate(public, X, SCORE, **bounds, **budget),
        prediction_interval(public, X, SCORE, **bounds, **budget),
        complete_schema(X, SCORE, schema=Schema(**bounds), **budget),
    ):
        assert source in given.sources_
        assert total_privacy(given).sources == (source,)
        assert total_privacy(given, profile).sources == ()
        assert "complete_schema of GaussianDP" in given.privacy_report().to_text()


@pytest.mark.parametrize(
    ("facts", "is_known"),
    [
        ({}, False),
        ({"types": dict.fromkeys("abc", "number") | {"side": "flag"}}, True),
        ({"types": dict.fromkeys("abc", "number") | {"side": "text"}}, False),
        ({"bounds": dict.fromkeys("abc", (-1, 1)), "categories": {"side": ["up"]}}, True),
        ({"categories": {"side": ["up"]}}, False),
    ],
)
def test_no_part_of_delta_is_kept_where_all_columns_are_known(facts, is_known):
    """Nor more, or less, than the price says, which knows the number of columns alone."""
    model = PrivateGAMClassifier(epsilon=5.0, schema=Schema(classes=[0, 1], **facts))
    cost = model.privacy_cost(N, 4)
    assert (cost.failure == 0) == is_known
    frame = FRAME.assign(side=SCORE > 0) if facts.get("types", {}).get("side") == "flag" else FRAME
    assert model.fit(frame, (SCORE > 0).astype(int)).privacy_ == cost


def test_facts_of_other_neighbours_or_units_are_refused():
    profile = complete_schema(X, epsilon=5.0, adjacency="add_remove")
    persons = np.arange(N) // 2
    of_persons = complete_schema(X, epsilon=5.0, groups=persons)
    two = (SCORE > 0).astype(int)
    for schema in (profile, of_persons):
        for release in (
            lambda given: PrivateRidge(schema=given).fit(X, SCORE),
            lambda given: PrivateSearchCV(
                PrivateLogisticRegression(schema=given), {"clip": [0.1]}, epsilon=5.0
            ).fit(X, two),
            lambda given: private_regression(PrivateRidge(), X, SCORE, epsilon=5.0, schema=given),
            lambda given: complete_schema(X, SCORE, epsilon=5.0, schema=given),
        ):
            with pytest.raises(ValueError, match="its facts were released by complete_schema"):
                release(schema)
    with pytest.raises(ValueError, match="its facts were released"):
        profile | of_persons
    model = PrivateRidge(epsilon=5.0, schema=of_persons).fit(X, SCORE, groups=persons)
    assert model.sources_ == of_persons.sources


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_profile_costs_what_it_says(adjacency):
    """All of the budget buys all facts; the report proves it from the record, types as well."""
    frame = FRAME.assign(flag=X[:, 0] > 0, day=pd.Timestamp("2024-01-01"))
    y = np.digitize(SCORE, [-1, 1])
    profile = complete_schema(frame, y, epsilon=2.0, adjacency=adjacency)
    assert profile.types == dict.fromkeys("abc", "number") | {
        "day": "date",
        "side": "text",
        "flag": "flag",
    }
    assert profile.categories["side"] == ("down", "up")
    assert profile.classes == (0, 1, 2)
    assert profile.bounds["b"][0] <= 1970 < 2030 <= profile.bounds["b"][1]
    spent = composition(profile.mechanism_)
    assert spent.epsilon(profile.delta_) <= 2.0 < spent.epsilon(profile.delta_) * (1 + 1e-6)
    assert spent == profile.privacy_
    assert sum(profile.bought_.values()) == pytest.approx(1.0)
    check_report(profile.privacy_report().as_dict())
    asked = Schema(bounds="auto", categories={"side": "auto"}, target_bounds=(0, 1))
    of_asked = complete_schema(frame, epsilon=2.0, adjacency=adjacency, schema=asked)
    assert of_asked.bounds.keys() == profile.bounds.keys()
    assert of_asked.categories == profile.categories
    with pytest.raises(ValueError, match="nothing to buy"):
        complete_schema(frame, y, epsilon=2.0, adjacency=adjacency, schema=profile)
    with pytest.raises(ValueError, match="y holds labels that are no numbers"):
        complete_schema(frame, WORDS, epsilon=2.0)


class InOrder(StreamedRows):
    """Rows of arrays, read some at a time."""

    def __init__(self, X, y):
        super().__init__(X.shape, X.dtype)
        self._data = X, y

    def read(self):
        for first in range(0, len(self._data[0]), 999):
            yield tuple(one[first : first + 999] for one in self._data)


def test_a_profile_of_rows_in_order_is_that_of_an_array():
    two = (SCORE > 0).astype(float)
    one, other = (
        complete_schema(*given, epsilon=2.0, random_state=0, schema=Schema(classes=[0, 1]))
        for given in ((X, two), (InOrder(X, two),))
    )
    assert (one.bounds, one.classes) == (other.bounds, other.classes)
    assert one.mechanism_ == other.mechanism_
