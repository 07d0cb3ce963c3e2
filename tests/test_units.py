"""Whom a guarantee protects: it never loses its unit, and no total claims more than it holds."""

import importlib
import inspect
import math
import pkgutil
import warnings
from functools import cache
from itertools import product

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings, strategies as st
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline

import skdpdyn
from skdpdyn import PrivateLogisticRegression, PrivatePoissonRegressor, PrivateRidge
from skdpdyn.evaluation import evaluate
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.inference import private_regression
from skdpdyn.model_selection import PrivateSearchCV, search_privacy, total_privacy
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import (
    ApproximateDP,
    GaussianDP,
    PerturbedObjectiveDP,
    PrivacyLossDP,
    ProfileMixture,
    RenyiDP,
    Selection,
    SubsampledDP,
    check_report,
    from_json,
    selection,
    to_json,
)
from skdpdyn.privacy.accountants.contraction import ContractedDP
from skdpdyn.privacy.guarantees import Guarantee, LinearCurve, checked_guarantee, composed
from skdpdyn.privacy.laplace import LaplaceDP
from skdpdyn.privacy.numerical import SampledGaussian, TruncatedGaussian
from skdpdyn.privacy.renyi import largest
from skdpdyn.privacy.rounded import RoundedDP, rounded

DELTA = 1e-6
N = 60
EACH = 3  # persons, and rows of each
RNG = np.random.default_rng(0)
OWNERS = np.tile(np.arange(N), EACH)
X = RNG.uniform(-0.5, 0.5, (N * EACH, 2))
Y = (X[:, 0] > 0).astype(int)
BUDGET = {"epsilon": 1.0, "delta": DELTA}


def logistic(**changes):
    options = {**BUDGET, "classes": [0, 1], "conditioning": None, "clip": 0.5}
    return PrivateLogisticRegression(**options | changes)


def quietly(call, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments, **options)


# --- no guarantee loses its unit ------------------------------------------------------------------

SAMPLED = SampledGaussian(0.1, 2.0, "replace_one")
EXAMPLES = [GaussianDP(0.3), RenyiDP(LinearCurve(0.05)), ApproximateDP(0.5, 1e-8), LaplaceDP(0.5)]
EXAMPLES += [ProfileMixture([0.1, 0.2]), SubsampledDP(GaussianDP(0.5), 0.1), SAMPLED]
EXAMPLES += [PrivacyLossDP(((ApproximateDP(0.2), 2),)), PerturbedObjectiveDP(0.2, 0.1)]
EXAMPLES += [ContractedDP(0.5, 0.5, 3), RoundedDP(ApproximateDP(0.5), 1e-9)]
EXAMPLES += [TruncatedGaussian(50, 9, SAMPLED)]
each_kind = pytest.mark.parametrize("guarantee", EXAMPLES, ids=lambda one: type(one).__name__)


def classes_of(kind):
    return {kind, *(each for one in kind.__subclasses__() for each in classes_of(one))}


def package():
    """All modules of the package that load without an extra."""
    for info in pkgutil.walk_packages(skdpdyn.__path__, "skdpdyn."):
        if not info.name.endswith("__main__"):
            try:
                yield importlib.import_module(info.name)
            except ImportError:
                continue


@each_kind
def test_a_guarantee_keeps_its_unit(guarantee):
    assert guarantee.unit == "record"
    of = guarantee.with_unit("household")
    assert type(of) is type(guarantee)
    assert of.unit == "household"
    assert of != guarantee
    assert of.with_unit("record") == guarantee
    assert of.epsilon(DELTA) == guarantee.epsilon(DELTA)
    assert of.with_accuracy(1e-3).unit == "household"
    assert from_json(to_json(of)) == of
    assert rounded(of, 1e-9).unit == "household"
    for other in EXAMPLES:
        try:
            alone = guarantee.compose(other)
        except UnsupportedMechanismError:
            continue
        both = of.compose(other.with_unit("household"))
        assert both.unit == "household"
        assert both.with_unit("record") == alone
        for one, another in ((of, other), (other, of)):
            with pytest.raises(UnsupportedMechanismError, match="total_privacy"):
                one.compose(another)


@pytest.mark.parametrize("unit", ["", "two words", 3, None, "record\n"])
def test_a_unit_is_a_word(unit):
    with pytest.raises(ValueError, match="must be a word"):
        GaussianDP(1.0, unit=unit)


# what each function that takes a guarantee and returns one makes of one of a household
GAUSSIAN = GaussianDP(0.3, unit="household")
PURE = ApproximateDP(0.5, 1e-8, unit="household")
TRIALS = Selection(trial=GAUSSIAN, expected_trials=3, shape=1.0)
CARRIED = {
    "skdpdyn.privacy.guarantees.composed": lambda: composed([GAUSSIAN, PURE]),
    "skdpdyn.privacy.renyi.largest": lambda: largest([GAUSSIAN, GAUSSIAN]),
    "skdpdyn.privacy.guarantees.checked_guarantee": lambda: checked_guarantee(GAUSSIAN, "cost"),
    "skdpdyn.privacy.rounded.rounded": lambda: rounded(GAUSSIAN, 1e-9),
    "skdpdyn.privacy.accountants.selection.selection": lambda: selection(TRIALS),
    "skdpdyn.model_selection.totals.total_privacy": lambda: total_privacy(GAUSSIAN, PURE).guarantee,
}
# these take a record or public numbers, of which a fit says whom they protect
FROM_RECORDS = "skdpdyn.privacy.accountants", "skdpdyn.privacy.ledger"


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_made_of_a_guarantee_protects_the_same(name):
    assert CARRIED[name]().unit == "household"


def test_every_function_that_makes_a_guarantee_of_others_is_known():
    """By their annotations: a new one needs a line above."""
    kinds = {kind.__name__ for kind in classes_of(Guarantee)} | {"PrivacyTotal"}
    found = set()
    for module in package():
        for name, function in inspect.getmembers(module, callable):
            if name.startswith("_") or getattr(function, "__module__", "") != module.__name__:
                continue
            of = getattr(function, "__annotations__", {})
            words = set(str(of.get("return")).replace("'", " ").replace(".", " ").split())
            words |= {getattr(of.get("return"), "__name__", "")}
            if words & kinds and not inspect.isclass(function):
                found.add(f"{module.__name__}.{name}")
    unknown = {name for name in found - CARRIED.keys() if not name.startswith(FROM_RECORDS)}
    assert not unknown
    assert {"skdpdyn.privacy.renyi.largest", "skdpdyn.privacy.rounded.rounded"} <= found


def test_every_way_to_spend_says_for_whom():
    """What has ``privacy_`` has ``privacy_unit_``, equal to its unit, shown and stored."""
    for unit, adjacency in product(
        ("record", "person", "household"), ("replace_one", "add_remove")
    ):
        for name, fitted in leaves(unit, adjacency).items():
            assert fitted.privacy_.unit == unit, name
            if name != "summary":
                assert fitted.privacy_unit_ == unit
            report = fitted.privacy_report()
            check_report(report.to_json())
            assert f"every single {unit}" in report.to_model_card()
            assert from_json(to_json(fitted.privacy_)).unit == unit
            shown = repr(fitted) if name in ("scores", "summary") else fitted._repr_html_()
            assert (f"one {unit}" in shown) == (unit != "record")
            said = "a record" if unit == "record" else f"one {unit}"
            assert said in str(total_privacy(fitted))


@pytest.mark.parametrize(
    "options", [{"unit": "person"}, {"unit": "record", "groups": OWNERS}, {"unit": "a b"}]
)
@pytest.mark.parametrize(
    "model", [logistic(), PrivateScaler(**BUDGET), PrivatePoissonRegressor(target_bounds=(0, 1))]
)
def test_a_unit_names_what_groups_hold(model, options):
    with pytest.raises(ValueError, match="unit="):
        model.fit(X, Y, **options)
    with pytest.raises(ValueError, match="unit="):
        PrivateSearchCV(logistic(), {"clip": [0.5]}).fit(X, Y, **options)
    with pytest.raises(ValueError, match="unit="):
        evaluate(quietly(logistic().fit, X, Y), X, Y, epsilon=1.0, **options)


# --- totals ---------------------------------------------------------------------------------------


@cache
def leaves(unit, adjacency):
    """One of each way to spend, by its name."""
    of = {} if unit == "record" else {"groups": OWNERS}
    named = {**of, "unit": None if unit == "person" else unit}
    options = {**BUDGET, "adjacency": adjacency}
    smooth = {"solver": "sufficient_statistics", "target_bounds": (0, 1)}
    ridge = PrivateRidge(conditioning=None, **options, **smooth)
    model = quietly(logistic(**options).fit, X, Y, **named)
    search = PrivateSearchCV(logistic(adjacency=adjacency), {"clip": [0.5]}, **BUDGET)
    _, table = quietly(private_regression, ridge, X, Y, bounds=(-1, 1), **options, **named)
    return {
        "model": model,
        "scaler": quietly(PrivateScaler(**options).fit, X, **named),
        "search": quietly(search.fit, X, Y, **named),
        "scores": quietly(evaluate, model, X, Y, **options, **named),
        "summary": table,
    }


def square_of(record):
    """Return mu^2 that a record costs at least: of a selection, one trial's."""
    if isinstance(record, Selection):
        return record.trial.mu**2
    parts = getattr(record, "mechanisms", None)
    if parts is not None:
        return math.fsum(map(square_of, parts))
    return getattr(record, "n_steps", 1) / record.noise_multiplier**2


NEIGHBOURS = st.tuples(
    st.sampled_from(["record", "record", "person", "person", "household"]),
    st.sampled_from(["replace_one", "replace_one", "replace_one", "add_remove"]),
)
KINDS = st.sampled_from(["model", "scaler", "search", "scores", "summary"])
TREES = st.recursive(
    st.tuples(KINDS, NEIGHBOURS) | st.tuples(st.just("pipeline"), NEIGHBOURS, NEIGHBOURS),
    lambda trees: st.tuples(
        st.sampled_from(["total", "disjoint"]), st.lists(trees, min_size=1, max_size=3)
    ),
    max_leaves=5,
)


def built(tree, asked):
    """Return a release, whom its parts protect, and mu^2 for one who is in all of them.

    For its own unit, or for a record if it is ``asked``: one whose person's rows are chosen costs
    twice the mu under add_remove, and four times its square.
    """
    kind, *what = tree
    if kind in ("total", "disjoint"):
        found = [built(one, asked) for one in what[0]]
        total = total_privacy(*(one for one, *_ in found), disjoint=kind == "disjoint")
        squares = [square for *_, square in found]
        of = set().union(*(of for _, of, _ in found))
        return total, of, max(squares) if kind == "disjoint" else math.fsum(squares)
    names = ("scaler", "model") if kind == "pipeline" else (kind,)
    fitted = [leaves(*of)[name] for name, of in zip(names, what, strict=True)]
    squares = []
    for name, one, of in zip(names, fitted, what, strict=True):
        # of a model of full batches the exact bound is less than composition
        square = one.privacy_.mu**2 if name == "model" else square_of(one.mechanism_)
        squares.append(square * (4 if asked and of == ("person", "add_remove") else 1))
    release = make_pipeline(*fitted) if kind == "pipeline" else fitted[0]
    return release, set(what), math.fsum(squares)


@settings(max_examples=150, deadline=None)
@given(trees=st.lists(TREES, min_size=1, max_size=3), asked=st.sampled_from([None, "record"]))
def test_every_total_is_refused_or_at_least_the_truth(trees, asked):
    """Mixed units and adjacencies, in trees of totals, disjoint parts and pipelines."""
    leaves_of = [leaf for tree in trees for leaf in _neighbours(tree)]
    units, adjacencies = ({leaf[place] for leaf in leaves_of} for place in (0, 1))
    alike = len(units) == 1 and (asked is None or units == {"record"})
    known = len(adjacencies) == 1 and (alike or (asked and units <= {"record", "person"}))
    try:
        found = [built(tree, asked) for tree in trees]
        total = total_privacy(*(one for one, *_ in found), unit=asked)
    except ValueError:
        # under add_remove a search has no mu to count twice; inside, unlike units have no total
        assert not alike or not known
        return
    assert known
    assert total.guarantee.unit == (asked or next(iter(units)))
    truth = GaussianDP(math.sqrt(math.fsum(square for *_, square in found))).epsilon(DELTA)
    assert total.guarantee.epsilon(DELTA) >= truth * (1 - 1e-9)


def _neighbours(tree):
    """Yield whom each leaf of a tree protects, under which adjacency."""
    kind, *what = tree
    if kind in ("total", "disjoint"):
        for one in what[0]:
            yield from _neighbours(one)
    else:
        yield from what


@pytest.mark.parametrize("disjoint", [False, True])
def test_a_total_of_unlike_units_is_refused_or_said_for_a_record(disjoint):
    """The sign of a scaler's mean told one person apart in each of 40 fits, at epsilon 0.7."""
    person = GaussianDP(0.3, unit="person")
    record = GaussianDP(0.4)
    household = GaussianDP(0.3, unit="household")
    for pair in ((person, record), (record, household), (person, household)):
        with pytest.raises(UnsupportedMechanismError, match="unit='record'"):
            total_privacy(*pair, disjoint=disjoint)
    total = total_privacy(person, record, disjoint=disjoint, unit="record")
    assert total.guarantee == GaussianDP(0.4 if disjoint else 0.5)
    assert "for a record" in str(total)
    removed = [GaussianDP(one.mu, "add_remove", unit=one.unit) for one in (person, record)]
    total = total_privacy(*removed, disjoint=disjoint, unit="record")
    assert total.guarantee.mu == (0.6 if disjoint else math.hypot(0.6, 0.4))
    for one, unit in ((household, "record"), (record, "person"), (household, "person")):
        with pytest.raises(UnsupportedMechanismError, match=f"unit='{unit}'"):
            total_privacy(one, disjoint=disjoint, unit=unit)
    with pytest.raises(UnsupportedMechanismError, match="counts twice"):
        total_privacy(ApproximateDP(0.1, 0.0, "add_remove", "person"), unit="record")
    assert total_privacy(person, unit="person").guarantee.unit == "person"
    assert total_privacy(person).for_unit("record").guarantee.unit == "record"


# --- searches -------------------------------------------------------------------------------------


@pytest.fixture
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield logistic().set_fit_request(groups=True, unit=True)


def test_searches_of_scikit_learn_by_person_are_refused(routed):
    """One who came with 100 rows moved 100 of 299 others between the folds of GroupKFold."""
    cv = GroupKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(routed, {"clip": [0.5]}, cv=cv)
    quietly(search.fit, X, Y, groups=OWNERS)
    for price in (total_privacy, search_privacy):
        with pytest.raises(UnsupportedMechanismError, match="PrivateSearchCV"):
            quietly(price, search)
    with pytest.raises(UnsupportedMechanismError, match="Use PrivateSearchCV"):
        quietly(search_privacy, routed, cv=3, n_samples=N, n_features=2)
