"""Where training starts: what it is in mapped coordinates, what it costs, and what it gains."""

import math
from collections import namedtuple
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils import Bunch

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core.losses import logistic
from skdpdyn.core.objective import Objective
from skdpdyn.core.rounding import farthest_iterate, public_radius, rounding_mu
from skdpdyn.core.schema import sources_in
from skdpdyn.model_selection import PrivateSearchCV, total_privacy
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
from skdpdyn.privacy import Composition, Ledger
from skdpdyn.solvers import NoisyGD
from skdpdyn.training.conditioning import FittedConditioning

pytestmark = pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")

RNG = np.random.default_rng(0)
X = RNG.normal([0.3, 0.0, -0.2], [0.2, 0.02, 0.1], (3000, 3))
Y = X[:, 0] - 5 * X[:, 1] + 0.1 * RNG.normal(size=3000) > 0.3
COUNTS = RNG.poisson(2.0, 3000)
ESTIMATORS = [
    (PrivateLogisticRegression(classes=[False, True]), Y),
    (PrivateLinearSVC(classes=[False, True]), Y),
    (PrivateSoftmaxRegression(classes=[0, 1, 2]), np.minimum(COUNTS, 2)),
    (PrivateRidge(target_bounds=(-3.0, 7.0)), 4 * X[:, 0]),
    (PrivatePoissonRegressor(target_bounds=(0, 20)), COUNTS),
]
each = pytest.mark.parametrize(("model", "y"), ESTIMATORS, ids=lambda x: type(x).__name__)
STILL = NoisyGD(n_steps=1, step_size=1e-12)


@pytest.mark.parametrize("is_mapped", [False, True], ids=["rows as they are", "mapped"])
@each
def test_training_that_does_not_move_returns_where_it_starts(model, y, is_mapped):
    """So coordinates of mapped rows and of learnt units are turned into right."""
    shape = (3, 3) if isinstance(model, PrivateSoftmaxRegression) else (1, 3)
    coef = RNG.normal(size=shape)
    intercept = RNG.normal(size=len(np.ones(shape)))
    if shape[0] > 1:  # which add up to 0 over classes
        coef -= coef.mean(axis=0)
        intercept -= intercept.mean()
    conditioning = clone(model).fit(X, y).conditioning_ if is_mapped else None
    options = {"solver": STILL, "conditioning": conditioning, "random_state": 0}
    fitted = clone(model).set_params(start=(coef, intercept), **options).fit(X, y)
    np.testing.assert_allclose(np.atleast_2d(fitted.coef_), coef, atol=1e-5)
    np.testing.assert_allclose(np.atleast_1d(fitted.intercept_), intercept, atol=1e-5)


@pytest.mark.parametrize("solver", ["auto", NoisyGD(n_steps=20)], ids=["auto", "contracting"])
def test_a_start_costs_what_is_declared(solver):
    told = {"start": ([[1.0, -2.0, 0.0]], [0.5]), "classes": [False, True], "solver": solver}
    model = PrivateLogisticRegression(**told, random_state=0)
    cost = model.privacy_cost(*X.shape)
    assert model.fit(X, Y).privacy_ == cost
    assert cost.epsilon(1 / 3000**2) <= 1
    other = clone(model).set_params(start=([[0.0, 7.0, 3.0]], [0.0]))
    assert other.privacy_cost(*X.shape) == cost  # whatever the start


def test_a_start_that_is_too_far_is_brought_to_its_public_norm():
    model = PrivateLogisticRegression(classes=[False, True], conditioning=None, solver=STILL)
    model.set_params(start=([[1e9, 1e9, 0.0]], [-1e9]), random_state=0).fit(X, Y)
    theta = np.append(model.coef_, model.intercept_ / model.intercept_scaling_)
    most = 1000 / math.hypot(model.data_norm_, model.intercept_scaling_)
    assert 0.99 * most < np.linalg.norm(theta) <= most + 1e-6


def test_iterates_stay_within_reach_of_their_start_and_rounding_has_room_for_it():
    """Steps without noise, of the loss that rises most."""
    rng = np.random.default_rng(1)
    objective = Objective(logistic, 5, 3, data_norm=1.0, alpha=0.05, start_norm=40.0)
    start = rng.normal(size=3)
    start *= 40 / np.linalg.norm(start)
    rows = rng.normal(size=(5, 3))
    rows = -rows * np.sign(rows @ start)[:, None] / np.linalg.norm(rows, axis=1)[:, None]
    moved = np.zeros(3)
    farthest = 0.0
    for _ in range(400):  # all rows of the second class, for which the start is wrong
        residual = 1 / (1 + np.exp(-rows @ (start + moved))) - 1
        moved = moved - 2.0 * (residual @ rows / 5 + objective.alpha * moved)
        farthest = max(farthest, float(np.linalg.norm(moved)))
    near = replace(objective, start_norm=0.0)
    bounds = [farthest_iterate(of, 2.0, 0.0, 400) for of in (near, objective)]
    assert bounds[0] < farthest <= bounds[1]  # a start is not free: without it the bound is wrong
    assert public_radius(objective, 2.0, 1.0, 400) >= public_radius(near, 2.0, 1.0, 400)
    given = {"radius": 20.0, "n_summed": 10.0}
    plain, far = (rounding_mu(of, 2.0, 1e-3, 400, **given) for of in (near, objective))
    assert far > 1.5 * plain


def test_what_is_known_helps_where_records_are_few_and_is_not_far_from_it():
    start = PrivateLogisticRegression(epsilon=50.0, classes=[False, True]).fit(X, Y)
    scores = {known: [] for known in (None, start)}
    for known, k in product(scores, range(5)):
        model = PrivateLogisticRegression(0.1, classes=[False, True], start=known, random_state=k)
        scores[known].append(model.fit(X, Y).score(X, Y))
    assert np.mean(scores[start]) > np.mean(scores[None]) + 0.02
    assert min(scores[start]) > start.score(X, Y) - 0.1


@pytest.mark.filterwarnings("error::skdpdyn.exceptions.PrivacyUtilityWarning")
def test_a_start_is_no_constant_where_the_budget_pays_for_little():
    told = {"start": ([[5.0, -20.0, 0.0]], [-1.5]), "classes": [False, True]}
    model = PrivateLogisticRegression(epsilon=0.05, **told, random_state=0).fit(X[:300], Y[:300])
    assert model.n_iter_ > 0
    assert model.score(X, Y) > 0.6


def test_a_released_map_is_not_paid_for_again():
    first = PrivateLogisticRegression(classes=[False, True], random_state=0).fit(X, Y)
    again = clone(first).set_params(start=first).fit(X, Y)  # it lends its map
    np.testing.assert_array_equal(again.conditioning_.weights, first.conditioning_.weights)
    assert isinstance(again.mechanism_, Composition)
    assert "column means" in set(first.mechanism_.names) - set(again.mechanism_.names)
    assert {"curvature", "training"} <= set(again.mechanism_.names)  # of these rows
    both = total_privacy(first, again)
    assert both.guarantee.mu == pytest.approx(math.hypot(first.privacy_.mu, again.privacy_.mu))
    text = again.privacy_report().to_text()
    assert "start: a PrivateLogisticRegression of GaussianDP" in text
    assert "paid for by that guarantee" in text
    assert "start" not in first.privacy_report().to_text()


def test_a_map_is_lent_where_it_suits():
    first = PrivateLogisticRegression(classes=[False, True], random_state=0).fit(X, Y)
    as_they_are = clone(first).set_params(start=first, conditioning=None).fit(X, Y)
    assert as_they_are.conditioning_ is None
    of_sparse = clone(first).set_params(start=first).fit(csr_array(X), Y)
    assert "column variances" in of_sparse.mechanism_.names
    assert of_sparse.conditioning_.mean is None


def test_a_chain_of_starts_does_not_wander_off():
    """Columns of unlike scales, few records: maps learnt anew let coefficients grow to hundreds."""
    last = None
    lost = []
    for month in range(8):
        some = slice(350 * month, 350 * (month + 1))
        model = PrivateLogisticRegression(classes=[False, True], start=last, random_state=month)
        last = model.fit(X[some], Y[some])
        lost.append(log_loss(Y, last.predict_proba(X)))
    assert lost[-1] < 1.2 * min(lost)


@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyUtilityWarning")
@pytest.mark.parametrize("categories", ["auto", {"w": ["x", "y"]}], ids=["bought", "listed"])
def test_an_additive_model_lends_tables_and_map(categories):
    """All that is left to buy are the base rate and steps, and training that stays still is it."""
    frame = pd.DataFrame({"a": X[:, 0], "w": np.where(RNG.random(3000) < 0.4, "x", "y")})
    bounds = {"a": (-1.0, 2.0)}
    rates = COUNTS.astype(float)
    kinds = {"squared": 4 * X[:, 0], "poisson": rates}
    models = [(PrivateGAMClassifier(3.0, classes=[False, True]), Y)]
    models += [
        (PrivateGAMRegressor(3.0, loss=k, target_bounds=(-3, 20)), y) for k, y in kinds.items()
    ]
    for model, y in models[: 1 if categories == "auto" else 3]:
        model.set_params(bounds=bounds, categories=categories, delta=1e-6)
        if model.get_params().get("loss") == "poisson":
            model.set_params(target_bounds=(0, 20))
        first = clone(model).fit(frame, y)
        same = clone(model).set_params(start=first, solver=STILL, random_state=0).fit(frame, y)
        np.testing.assert_allclose(same.coef_, first.coef_, atol=1e-6)
        again = clone(model).set_params(start=FrozenEstimator(first)).fit(frame, y)
        assert again.privacy_ == again.privacy_cost(3000, 2)
        assert again.expansion_ == first.expansion_
        assert {*again.sources_} <= {*sources_in(again.expansion_.columns[1])}
        assert again.conditioning_.row_map is first.conditioning_.row_map
        bought = {"levels of columns", "column means", "column distributions", "second moments"}
        assert not bought & set(again.mechanism_.names)
        assert again.sources_[0].guarantee == first.privacy_
        for other in ({"bounds": {"a": (-1.0, 3.0)}}, {"monotonic_cst": {"a": 1}}):
            with pytest.raises(ValueError, match=r"start has (other bounds|another mono)"):
                clone(again).set_params(**other).fit(frame, y)
    with pytest.raises(ValueError, match="start has other columns"):
        clone(again).fit(frame[["w", "a"]], y)
    with pytest.raises(ValueError, match="must be a fitted additive model"):
        clone(again).set_params(start=([1.0], 0.0)).fit(frame, y)


def test_a_start_has_the_columns_of_the_data_in_their_order():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = PrivateLogisticRegression(classes=[False, True])
    first = clone(model).fit(frame, Y)
    for start in (first, FrozenEstimator(first)):
        again = clone(model).set_params(start=start)
        with pytest.raises(ValueError, match="other columns than X, or in another order"):
            again.fit(frame[["c", "a", "b"]], Y)
        assert again.fit(frame, Y).sources_
    assert clone(model).set_params(start=first).fit(X, Y).sources_  # no names to compare


def test_numbers_are_public_by_the_word_of_who_passes_them():
    public = LogisticRegression().fit(X[:300], Y[:300])
    numbers = (public.coef_, public.intercept_)
    model = PrivateLogisticRegression(classes=[False, True], start=numbers).fit(X, Y)
    assert not model.leaks_
    assert "public by the word of who passed them" in model.privacy_report().to_text()
    assert not total_privacy(model).sources


def test_a_chain_of_models_keeps_all_that_it_came_from():
    """Each link, so that a total counts what paid for it, and so does a total of totals."""
    model = clone(ESTIMATORS[0][0])
    links = []
    for _ in range(3):
        links.append(clone(model).fit(X[:300], Y[:300]))
        model.set_params(start=FrozenEstimator(links[-1]))
    assert [source.guarantee for source in links[2].sources_] == [
        links[1].privacy_,
        links[0].privacy_,
    ]
    total = total_privacy(links[2])
    assert total.sources == total_privacy(total).sources == links[2].sources_


def given(value, is_nested):
    """Return all estimators with a value as each of their parameters, bare and within others."""
    ways = (value, [value], {"start": value}) if is_nested else (value,)
    search = PrivateSearchCV(PrivateLogisticRegression(classes=[False, True]), {"clip": [1.0]})
    scalers = [PrivateScaler(), BoundsScaler((0, 1))]
    others = [
        *((model, Y) for model in [search, *scalers, PrivateGAMClassifier(classes=[False, True])]),
        (PrivateGAMRegressor(target_bounds=(-3.0, 7.0)), 4 * X[:, 0]),
        (PrivateQuantileRegressor(target_bounds=(-3.0, 7.0)), 4 * X[:, 0]),
    ]
    for model, y in [*ESTIMATORS, *others]:
        for name in model.get_params(deep=False):
            for held in ways:
                yield clone(model), name, held, y
    for name in ("start", "conditioning"):
        model = PrivateLogisticRegression(classes=[False, True], **{name: value})
        yield clone(search), "estimator", model, Y
        yield clone(search), "param_grid", {name: ["auto", value]}, Y


@pytest.mark.filterwarnings("ignore:Found")
@pytest.mark.usefixtures("noise_found_once")
def test_no_parameter_of_an_estimator_hides_what_it_was_given(tmp_path):
    """Each is refused, or says what it was given, with all leaks of that: and so do its own."""
    seeded = PrivateLogisticRegression(classes=[False, True], random_state=0).fit(X, Y)
    clean = PrivateLogisticRegression(classes=[False, True]).fit(X, Y)
    twice = clone(clean).set_params(start=seeded).fit(X, Y)
    alone = FittedConditioning(clean.conditioning_.row_map)
    public = LogisticRegression().fit(X, Y)
    ledger = Ledger(tmp_path / "ledger.json", cap=(100.0, 1e-3))
    values = [seeded, FrozenEstimator(seeded), seeded.conditioning_, twice, twice.conditioning_]
    values += [clean, clean.conditioning_, public, FrozenEstimator(public), alone]
    taken = set()
    for value in values:
        lost = set(getattr(value, "leaks_", ()))
        for model, name, held, y in given(value, value in (seeded, twice.conditioning_, clean)):
            try:
                model.set_params(**{name: held}).fit(X[:300], y[:300])
            except (ValueError, TypeError, AttributeError, ImportError):
                continue
            if not hasattr(model, "privacy_") or (name == "estimator" and held is value):
                continue  # the latter is cloned, and its fit not used
            taken.add((type(model).__name__, name))
            assert lost <= set(model.leaks_), (model, name)
            assert model.sources_, (model, name)
            if value not in (clean, clean.conditioning_):
                assert model.leaks_, (model, name)
                with pytest.raises(ValueError, match="does not cover all"):
                    ledger.reserve("it", model)
            elif not model.leaks_:
                assert "add it if it is of the same people" in total_privacy(model).report()
                assert not total_privacy(model, disjoint=True).sources
                assert not total_privacy(model, clean).sources
    assert {("PrivateRidge", "start"), ("PrivateLinearSVC", "conditioning")} <= taken
    assert {("PrivateSearchCV", "estimator"), ("PrivateSearchCV", "param_grid")} <= taken


def test_whatever_has_coefficients_is_named_as_a_model():
    """No guarantee covers it, be it a namespace, a dict, a tuple or an array beside."""
    numbers = {"coef_": [[1.0, -5.0, 0.0]], "intercept_": [0.0]}
    record = np.array([([1.0, -5.0, 0.0], 0.0)], [("coef_", float, 3), ("intercept_", float)])
    values = [kind(**numbers) for kind in (SimpleNamespace, Bunch, namedtuple("Pair", numbers))]
    for value in [*values, record.view(np.recarray)]:
        model = PrivateLogisticRegression(classes=[False, True], start=value).fit(X, Y)
        (source,) = model.sources_
        assert source.guarantee is None
        assert source.label == f"start: a {type(value).__name__}"
        assert set(source.leaks) <= set(model.leaks_)
    of_class = PrivateLogisticRegression(classes=[False, True], start=type("Own", (), numbers))
    with pytest.raises(ValueError, match="must be None, a fitted linear model or a pair"):
        of_class.fit(X, Y)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (LogisticRegression(), r"clone\(\) takes a model's fit away"),
        ("last", "must be None, a fitted linear model or a pair"),
        (([1.0, 2.0], 0.0), r"coefficients of shape \(1, 2\).*the data need \(1, 3\)"),
        (([1.0, 2.0, np.nan], 0.0), "finite numbers only"),
        ((["a", "b", "c"], 0.0), "numbers only"),
        (LogisticRegression().fit(X, np.where(Y, 7, 3)), "other classes_"),
    ],
)
def test_what_is_no_start_is_refused(start, message):
    model = PrivateLogisticRegression(classes=[False, True], start=start)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=message):
        model.privacy_cost(*X.shape)


def test_starts_that_cannot_be_used_are_refused():
    model = PrivateLogisticRegression(classes=[False, True], start=([1.0, 2.0, 3.0], 1.0))
    for name, value, message in (
        ("solver", "dp_sgd", "Use solver='noisy_gd'"),
        ("fit_intercept", False, "fit_intercept=False"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(model).set_params(**{name: value}).fit(X, Y)
