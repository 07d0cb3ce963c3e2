"""Private search and honest totals: what is spent, what is shown, what is refused."""

import math
import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy import sparse, stats
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.feature_selection import RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.audit import Listener, listened
from skdpdyn.core.noise import generators
from skdpdyn.exceptions import CalibrationError, PrivacyLeakWarning, UnsupportedMechanismError
from skdpdyn.inspection import TradeoffDisplay
from skdpdyn.model_selection import (
    PrivacyTotal,
    PrivateSearchCV,
    _trials,
    private_search,
    search_privacy,
    total_privacy,
)
from skdpdyn.model_selection._candidates import Candidates
from skdpdyn.model_selection._scores import score_of
from skdpdyn.model_selection._steps import chooses_by_records, reads_records
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
from skdpdyn.privacy import (
    ApproximateDP,
    Assumed,
    Budget,
    Gaussian,
    GaussianDP,
    Ledger,
    PoissonSubsampled,
    Selection,
    check_report,
    composition,
    privacy_report,
    subsampling,
    tightest,
)
from skdpdyn.solvers import NoisyGD
from skdpdyn.training import facts
from skdpdyn.training.purchase import Purchase, most_of_facts
from skdpdyn.training.sources import sources_of

pytestmark = pytest.mark.usefixtures("noise_found_once")

LOGISTIC = PrivateLogisticRegression(classes=[0, 1], solver=NoisyGD(n_steps=5))
RIDGE = PrivateRidge(target_bounds=(-2.0, 2.0), solver=NoisyGD(n_steps=5))
KNOWN = clone(LOGISTIC).set_params(delta=1e-4)
SEEDED = clone(LOGISTIC).set_params(random_state=1)
GRID = {"clip": [0.3, 0.6], "alpha": [1e-3, 1e-2]}


def data(n_samples=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n_samples, 3))
    return X, (X[:, 0] + 0.1 * rng.standard_normal(n_samples) > 0).astype(int)


X, Y = data()


def candidates_of(chosen):
    return Candidates(chosen.estimator, chosen.param_grid)


def search(estimator=LOGISTIC, grid=GRID, **changes):
    return PrivateSearchCV(
        estimator, grid, **{"epsilon": 2.0, "delta": 1e-4, "expected_trials": 3, **changes}
    )


def plan_of(chosen, n_samples=200):
    base = chosen._base()
    purchase = Purchase.of(base, n_samples, X.shape[1])
    part = most_of_facts(base, n_samples, X.shape[1])
    return chosen._plan(X[:2], base, purchase.request, part)


# --- the law of the number of trials --------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "shape"),
    [(4.0, 0.0), (4.0, 1.0), (10.0, 2.5), (10.0, 0.0), (1.0, 0.0), (4.0, math.inf)],
)
def test_law_of_the_number_of_trials(mean, shape):
    """Chi-square against the law as scipy has it; failure probability 1e-7 in each of six."""
    record = Selection(trial=GaussianDP(0.1), expected_trials=mean, shape=shape)
    (generator,) = generators(0)
    draws = np.array([_trials.number_of_trials(record, generator) for _ in range(4_000)])
    k = np.arange(0, 400)
    halting = record.halting_probability
    if mean == 1.0:
        assert np.all(draws == 1)
        return
    if shape == math.inf:
        law = stats.poisson.pmf(k, mean)
    elif shape == 0:
        law = stats.logser.pmf(k, 1 - halting)
    else:
        law = stats.nbinom.pmf(k, shape, halting)
        law = np.where(k == 0, 0, law / (1 - law[0]))
    assert law @ k == pytest.approx(mean, rel=1e-4)
    common = 4_000 * law > 20
    expected = 4_000 * np.append(law[common], 1 - law[common].sum())
    counts = [np.count_nonzero(draws == value) for value in k[common]]
    counts = np.append(counts, np.count_nonzero(~np.isin(draws, k[common])))
    statistic = np.sum((counts - expected) ** 2 / expected)
    assert statistic < stats.chi2.isf(1e-7, counts.size - 1)


def test_candidates_are_equally_likely():
    """Six points of two grids; failure probability 1e-7."""
    (generator,) = generators(1)
    grids = search(grid=[{"clip": [0.3, 0.6], "alpha": [1e-3, 1e-2]}, {"clip": [1.0, 2.0]}])
    drawn = [tuple(sorted(candidates_of(grids).draw(generator).items())) for _ in range(6000)]
    counts = [drawn.count(value) for value in set(drawn)]
    assert len(counts) == 6
    assert np.sum((np.array(counts) - 1000) ** 2) / 1000 < stats.chi2.isf(1e-7, 5)


# --- what is spent --------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("changes", [{}, {"shape": 1.0}, {"test_size": 0.2}], ids=str)
def test_the_total_meets_the_budget_and_dp_accounting(adjacency, changes):
    estimator = clone(LOGISTIC).set_params(adjacency=adjacency)
    fitted = search(estimator, **changes).fit(X, Y)
    cost = fitted.privacy_
    best = tightest(fitted.mechanism_)
    assert 2.0 * (1 - 1e-6) <= fitted.epsilon_ <= 2.0
    assert cost.epsilon(1e-4) == fitted.epsilon_
    assert cost.adjacency == fitted.mechanism_.adjacency == adjacency
    assert cost == fitted.privacy_cost(200, 3) == best.alternatives.get("selection", cost)
    orders = 1 + np.geomspace(1e-1, 1e3, 500)
    accountant = RdpAccountant(orders, cost.neighboring_relation).compose(cost.dp_event)
    assert 2.0 * (1 - 1e-4) <= accountant.get_epsilon(1e-4) <= 2.0 * (1 + 1e-4)


def test_a_trial_is_within_what_the_selection_was_told(monkeypatch):
    """Of every trial that ran: the fit's mu, and the score's, are the record's."""
    trials = []
    run = _trials.run_trial

    def spy(estimator, score, *parts):
        outcome = run(estimator, score, *parts)
        trials.append((outcome[0].privacy_, [len(part) for part in parts[:4]]))
        return outcome

    monkeypatch.setattr(private_search, "run_trial", spy)
    for test_size, sizes in ((None, (200, 200)), (0.2, (160, 40)), (50, (150, 50))):
        trials.clear()
        chosen = search(test_size=test_size)
        fitted = chosen.fit(X, Y)
        plan = plan_of(chosen)
        assert plan.mechanism == fitted.mechanism_
        mu = fitted.mechanism_.trial.mu
        assert trials
        for privacy, parts in trials:
            assert parts == [sizes[0], sizes[0], sizes[1], sizes[1]]
            assert privacy.mu == pytest.approx(plan.fit_mu, rel=1e-6)
            assert privacy.mu <= plan.fit_mu
        together = max if sum(sizes) == 200 else math.hypot
        assert together(plan.fit_mu, plan.score_mu) == pytest.approx(mu, rel=1e-8)  # from below


@pytest.mark.smoke
def test_the_score_has_the_noise_that_was_paid_for():
    """Noise of N(0, (1/(m mu))^2); chi-square over 120 searches, failure probability 1e-6."""
    chosen = search(expected_trials=1, holdout=np.arange(60))
    plan = plan_of(chosen)
    chosen._plan = lambda *_: plan
    deviations = []
    for _ in range(120):
        chosen.fit(X, Y)
        deviations.append(chosen.best_score_ - chosen.best_estimator_.score(X[:60], Y[:60]))
    statistic = np.sum((np.array(deviations) * 60 * plan.mechanism.trial.mu) ** 2)
    assert stats.chi2.ppf(5e-7, 120) < statistic < stats.chi2.isf(5e-7, 120)


@pytest.mark.parametrize("test_size", [0.2, None])
def test_guarantees_that_are_not_gaussian(test_size):
    """The Langevin bound is a Renyi curve: every candidate's is within the trial's."""
    estimator = clone(LOGISTIC).set_params(bound="langevin", alpha=1e-2)
    chosen = search(estimator, {"clip": [0.3, 0.6], "alpha": [1e-2, 1e-1]}, test_size=test_size)
    fitted = chosen.fit(X, Y)
    assert 2.0 * (1 - 1e-3) <= fitted.epsilon_ <= 2.0
    plan = plan_of(chosen)
    orders = np.array([1.5, 5.0, 50.0])
    guarantees = GaussianDP(plan.fit_mu), *plan.candidates
    fits = np.max([guarantee.rdp(orders) for guarantee in guarantees], axis=0)
    score = GaussianDP(plan.score_mu).rdp(orders)
    # of other records, or of the same
    together = np.maximum(fits, score) if test_size else fits + score
    # a trial's budget is calibrated from below
    np.testing.assert_allclose(fitted.mechanism_.trial.rdp(orders), together, rtol=1e-8)
    assert np.all(together <= fitted.mechanism_.trial.rdp(orders))
    with pytest.raises(UnsupportedMechanismError, match="a candidate costs"):
        plan.check(GaussianDP(2 * plan.fit_mu), "record")


# --- scores ---------------------------------------------------------------------------------------


OF_SCORES = {
    "accuracy": LOGISTIC,
    "neg_log_loss": LOGISTIC,
    "neg_mean_squared_error": RIDGE,
    "neg_mean_pinball_loss": PrivateQuantileRegressor(quantile=0.9, target_bounds=(-1, 1)),
}


@pytest.mark.parametrize("scoring", OF_SCORES)
def test_one_record_moves_a_score_by_its_part(scoring):
    rng = np.random.default_rng(0)
    of_numbers = scoring.startswith("neg_mean")
    model = clone(OF_SCORES[scoring]).set_params(epsilon=1e4, delta=1e-2)
    target = 3 * X[:, 0] if of_numbers else Y
    fitted = clone(model).fit(X, target)
    fitted.coef_ = 50 * fitted.coef_  # so that losses reach their ends
    score = score_of(scoring, fitted.get_params(), model)
    held = X[:20].copy()
    labels = target[:20].copy()
    moved = []
    for _ in range(300):
        before = score.mean(fitted, held, labels)
        other = held.copy()
        other_labels = labels.copy()
        other[3] = rng.uniform(-50, 50, 3)
        # 2 is not among the classes
        other_labels[3] = rng.uniform(-1e3, 1e3) if of_numbers else rng.integers(0, 3)
        moved.append(abs(score.mean(fitted, other, other_labels) - before))
        assert 0 <= before <= 1
    assert 0.9 / 20 <= max(moved) <= 1 / 20 + 1e-12


@pytest.mark.slow
def test_the_winner_has_the_best_noisy_score():
    """With budget in abundance the good candidate wins."""
    rich = {"epsilon": 500.0, "expected_trials": 40, "shape": 5.0, "random_state": 0}
    classifier = clone(LOGISTIC).set_params(solver=NoisyGD(n_steps=100, step_size=4.0))
    fitted = search(classifier, {"clip": [1e-5, 1.0]}, scoring="neg_log_loss", **rich).fit(X, Y)
    assert fitted.best_params_ == {"clip": 1.0}
    assert fitted.best_estimator_.clip == 1.0
    assert fitted.score(X, Y) > 0.8
    ridge = clone(RIDGE).set_params(solver=NoisyGD(n_steps=100))
    fitted = search(ridge, {"clip": [1e-6, 1.0]}, **rich).fit(X, X[:, 0])
    assert fitted.best_params_ == {"clip": 1.0}


# --- what is shown --------------------------------------------------------------------------------


def test_nothing_but_the_winner_is_shown():
    fitted = search().fit(X, Y)
    learnt = {name for name in vars(fitted) if name.endswith("_")}
    assert learnt == {
        *("mechanism_", "privacy_", "bound_", "delta_", "epsilon_", "n_samples_", "leaks_"),
        *("sources_", "bought_", "schema_", "best_estimator_", "best_params_", "best_score_"),
        "has_exposure_",  # whether exposures were passed
        "_assumed_",  # public facts, for the report
    }
    assert fitted.privacy_unit_ == "record"
    for name in ("n_trials_", "cv_results_", "best_index_", "scores_"):
        assert not hasattr(fitted, name)
    assert fitted.leaks_ == ()
    assert set(fitted.best_params_) == {"clip", "alpha"}
    np.testing.assert_array_equal(fitted.predict(X), fitted.best_estimator_.predict(X))
    assert fitted.predict_proba(X).shape == fitted.predict_log_proba(X).shape == (200, 2)
    assert fitted.decision_function(X).shape == (200,)
    assert fitted.n_features_in_ == 3
    assert fitted.classes_.tolist() == [0, 1]
    assert not hasattr(search(RIDGE), "predict_proba")


def test_an_error_leaves_a_search_as_it_was(monkeypatch):
    fitted = search().fit(X, Y)
    before = dict(vars(fitted))
    # the last thing that can fail
    monkeypatch.setattr(private_search, "validate_data", lambda *args, **kwargs: 1 / 0)
    monkeypatch.setattr(private_search, "number_of_trials", lambda mechanism, generator: 0)
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        fitted.fit(X, Y)
    assert vars(fitted) == before


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        *[
            ({name: value}, ValueError, f"{name}={value!r}")
            for name, value in [
                *[("epsilon", 0.0), ("expected_trials", 0.5)],
                *[("expected_trials", "many"), ("trials", "geometric"), ("shape", -0.5)],
                *[("scoring", "roc_auc"), ("scoring", "neg_mean_squared_error")],
                *[("test_size", 0.0), ("test_size", 200), ("test_size", True)],
            ]
        ],
        ({"delta": 0.0}, ValueError, "delta=0"),
        *[({"holdout": of}, ValueError, "holdout") for of in ([0, 0], [200], np.zeros(200, bool))],
        ({"n_jobs": 2.5}, ValueError, "n_jobs=2.5 must be None or an integer"),
        ({"grid": []}, ValueError, "param_grid"),
        ({"grid": [1]}, TypeError, "param_grid=.1. must be a dict of lists"),
        ({"grid": {1: [2]}}, ValueError, "param_grid holds 1"),
        ({"grid": {"clip": []}}, ValueError, "clip"),
        *[({"grid": {"clip": of}}, TypeError, "clip") for of in ("auto", {0.3, 0.6}, iter([0.1]))],
        ({"grid": {"alpha": stats.uniform(0, 0.1)}}, TypeError, "alpha"),
        ({"grid": {"solver__n_stepz": [3]}}, ValueError, "n_stepz"),
        ({"estimator": LogisticRegression()}, ValueError, "no privacy_cost"),
        ({"estimator": SEEDED}, ValueError, "would repeat the noise in every trial"),
        ({"epsilon": 1e-6}, CalibrationError, "so small that .* nothing is left for one trial"),
        ({"epsilon": 1e-9}, CalibrationError, "epsilon"),
        ({"estimator": search(), "grid": {"expected_trials": [2]}}, ValueError, "be searched"),
    ],
)
def test_senseless_searches_are_refused(changes, error, message):
    with pytest.raises(error, match=message):
        search(**changes).fit(X, Y)


def test_a_grid_without_parameters_has_one_point():
    assert search(grid={}).fit(X, Y).best_params_ == {}


def test_records_that_the_model_refuses_are_refused():
    missing = pd.Series(X[:, 0], dtype=object).where(np.arange(200) != 7)
    dates = pd.date_range("2020", periods=200)
    words = pd.DataFrame(X).add_prefix("x").assign(day="May")
    infinite = np.where(X[:, 0] == X[7, 0], np.inf, 0.0)
    from_y = clone(RIDGE).set_params(target_bounds="from_y")
    for model, rows, target, message in (
        *[(RIDGE, X, of, "y holds no numbers") for of in (X[:, 0].astype(str), dates)],
        *[(of, X, missing, "contains NaN") for of in (RIDGE, from_y)],
        *[(of, X, infinite, "contains infinity") for of in (RIDGE, from_y)],
        (LOGISTIC, words, Y, "X holds columns that are not numbers"),
    ):
        for estimator in (clone(model), search(model, {"clip": [0.3]})):
            with pytest.raises(ValueError, match=message):
                estimator.fit(rows, target)


def test_candidates_cannot_change_the_adjacency():
    other = clone(LOGISTIC).set_params(adjacency="add_remove")
    with pytest.raises(ValueError, match="adjacency"):
        search(make_pipeline(LOGISTIC), {"privatelogisticregression": [other]}).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "y", "name", "other"),
    [(LOGISTIC, Y, "classes", [0, 1, 2]), (RIDGE, X[:, 0], "target_bounds", (-5, 5))],
    ids=["classes", "target_bounds"],
)
@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
def test_candidates_that_are_whole_steps_keep_what_is_public(model, y, name, other):
    bare, whole = (clone(model).set_params(**{name: value}) for value in ("auto", other))
    step = type(model).__name__.lower()
    fitted = search(make_pipeline(model), {step: [bare]}).fit(X, y)
    np.testing.assert_array_equal(
        getattr(fitted.best_estimator_[-1], f"{name}_"), getattr(model, name)
    )
    assert fitted.leaks_ == fitted.best_estimator_[-1].leaks_ == ()
    for base in (model, bare):
        changed = search(make_pipeline(base), {step: [whole]})
        with pytest.raises(ValueError, match=rf"{name}=.* of a candidate"):
            changed.fit(X, y)


@pytest.mark.smoke
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateGAMClassifier])
def test_a_search_buys_facts_once_before_its_trials(kind, monkeypatch):
    """Within its budget, at the cost that it says; trials take them as public, the winner as it was
    given, and reports say that they were bought.
    """
    trials = []
    run = _trials.run_trial

    def spy(estimator, *parts):
        found = run(estimator, *parts)
        trials.append((dict(estimator.bought_), estimator.classes_.tolist(), estimator.leaks_))
        return found

    monkeypatch.setattr(private_search, "run_trial", spy)
    monkeypatch.setattr(facts, "FALSE", 1e-8)
    rows, labels = data(4000)
    labels[::999] = 7  # too few to be a class: they count as the first
    chosen = PrivateSearchCV(kind(), {"clip": [0.5, 0.9]}, epsilon=3.0, expected_trials=2)
    fitted = chosen.fit(1000 * rows, labels)
    assert set(map(str, trials)) == {str(({}, [0, 1], ()))}
    assert fitted.leaks_ == ()
    assert fitted.bought_.keys() == {"classes", "bounds"}
    names = ("class counts", "ranges of columns", "finer ranges of columns", "trials")
    assert fitted.mechanism_.names == names
    assert fitted.privacy_ == chosen.privacy_cost(4000, 3)
    assert 3.0 * (1 - 1e-4) <= fitted.epsilon_ <= 3.0
    winner = fitted.best_estimator_
    assert (winner.bounds, winner.classes, winner.bought_) == ("auto", "auto", fitted.bought_)
    for one in (fitted, winner):
        lines = one.privacy_report().as_dict()["assumed"]
        assert any("bounds: bought for" in line for line in lines["bought, or released before"])
        assert not any("bounds" in line for line in lines["public"])


def test_a_search_keeps_what_candidates_ask_for():
    """Bounds of their own, and weights of labels of which some are no class, as in a fit."""
    rows, labels = data(4000)
    ridge = PrivateRidge(bounds={0: (-3, 9)}, target_bounds=(-1, 2))
    chosen = PrivateSearchCV(ridge, {"bounds": [{0: (0, 1)}]}, epsilon=3.0, expected_trials=2)
    grid = {"class_weight": [{7: 2.0, 0: 1.0}]}
    weighted = PrivateSearchCV(PrivateLogisticRegression(), grid, epsilon=3.0, expected_trials=2)
    assert chosen.fit(rows, labels).best_estimator_.ranges_[0].tolist() == [0, 1]
    assert weighted.fit(rows, labels).best_estimator_.classes_.tolist() == [0, 1]


def test_a_cost_that_rests_on_facts_is_refused_before_they_are_bought():
    grid = {"solver": ["objective_perturbation"]}
    chosen = PrivateSearchCV(PrivateSoftmaxRegression(), grid, epsilon=3.0)
    listener = Listener()
    with listened(listener), pytest.raises(ValueError, match="a candidate is no Gaussian release"):
        chosen.fit(*data(4000))
    additive = PrivateGAMClassifier(bound="last_iterate", bounds=(-1, 1), classes=[0, 1])
    chosen = PrivateSearchCV(additive, {"alpha": [0.01, 0.1]}, epsilon=3.0)
    text = pd.DataFrame(X[:, :1], columns=["x"]).assign(ward="a")
    with listened(listener), pytest.raises(ValueError, match="no part of delta to buy levels"):
        chosen.fit(text, Y)
    assert not listener.calls


def test_labels_and_bounds_from_y_are_marked():
    cases = (LOGISTIC, Y, "classes", "auto"), (RIDGE, X[:, 0], "target_bounds", "auto")
    for model, y, name, given in cases:
        with pytest.warns(
            PrivacyLeakWarning, match=f"{name}='auto': the .* taken from y"
        ) as caught:
            fitted = search(clone(model).set_params(**{name: given})).fit(X, y)
        assert len(caught) == 1
        assert fitted.leaks_ == (f"{name} were taken from y",)
        assert fitted.best_estimator_.leaks_ == fitted.leaks_
    with pytest.raises(ValueError, match="requires y"):
        search().fit(X, None)


KEPT = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
KNOTS = SplineTransformer(knots=np.linspace([-1.0] * 3, [1.0] * 3, 5))
FREE = [BoundsScaler((-1, 1)), Normalizer(), PolynomialFeatures(2), "passthrough", KEPT, KNOTS]
FREE += [
    FunctionTransformer(*functions, check_inverse=False) for functions in ((), (np.arctan, np.tan))
]
FREE += [make(Normalizer(), BoundsScaler((0, 1))) for make in (make_pipeline, make_union)]
FREE += [kind(2, random_state=0) for kind in (GaussianRandomProjection, SparseRandomProjection)]
FREE += [
    make_column_transformer((Normalizer(), [0]), remainder="passthrough", sparse_threshold=0),
    MissingIndicator(features="all"),
    BoundsScaler((-1, 1), missing="indicator"),
    FunctionTransformer(np.clip, kw_args={"a_min": -0.5, "a_max": 0.5}),
    TfidfTransformer(use_idf=False, sublinear_tf=False),
]


class _LearnsBounds(BoundsScaler):
    def fit(self, X, y=None):
        self.bounds = (np.min(X), np.max(X))
        return super().fit(X, y)


class _Centres(FunctionTransformer):
    def transform(self, X):
        return X - np.mean(X, axis=0)


class _PipelineOfItsOwn(Pipeline):
    pass


NOT_FREE = [
    _PipelineOfItsOwn([("scaler", BoundsScaler((0, 1)))]),
    FunctionTransformer(lambda rows: rows - rows.mean(axis=0)),
    OneHotEncoder(categories=[[0, 1]] * 3, min_frequency=3),
    make_column_transformer((BoundsScaler((0, 1)), [0]), remainder=StandardScaler()),
    make_column_transformer((BoundsScaler((0, 1)), lambda rows: [0])),
    FrozenEstimator(FunctionTransformer(lambda rows: rows / np.abs(rows).max())),
    FunctionTransformer(np.frompyfunc(lambda number: number, 1, 1)),
    FunctionTransformer(np.arctan, kw_args={"out": np.empty((200, 3))}),
    OneHotEncoder(categories=[[0, 1]] * 3, drop="first", handle_unknown="ignore"),
    make_column_transformer((Normalizer(), [0]), remainder="passthrough"),
    FunctionTransformer(np.square, np.sqrt),
    SimpleImputer(strategy="constant", fill_value=0.0),
    clone(KEPT).set_params(add_indicator=True),
    SimpleImputer(strategy="constant", keep_empty_features=True),
    clone(KNOTS).set_params(extrapolation="error"),
    FunctionTransformer(np.digitize, kw_args={"bins": [0.0], "x": 0}),
    FunctionTransformer(np.searchsorted, kw_args={"v": [0.0]}),
    type("SplineTransformer", (SplineTransformer,), {"__module__": "elsewhere"})(knots=KNOTS.knots),
]
LEARN = StandardScaler, OneHotEncoder, OrdinalEncoder, MissingIndicator, SplineTransformer
NOT_FREE += [
    kind() for kind in (*LEARN, TfidfTransformer, KBinsDiscretizer, _LearnsBounds, _Centres)
]
NOT_FREE += [make(Normalizer(), StandardScaler()) for make in (make_pipeline, make_union)]


OF_STEP = {"privatelogisticregression__clip": [0.3, 0.6]}


@pytest.mark.parametrize("step", FREE, ids=lambda step: type(step).__name__)
def test_steps_that_learn_public_numbers_are_free(step):
    fitted = search(make_pipeline(step, LOGISTIC), OF_STEP).fit(X, Y)
    assert fitted.best_estimator_[-1].privacy_ == fitted.privacy_
    assert total_privacy(fitted.best_estimator_).guarantee == fitted.privacy_


def test_a_cost_needs_the_columns_that_reach_the_model():
    parts = (OneHotEncoder(categories=[["a", "b"]]), ["sex"]), (BoundsScaler((-1, 1)), ["age"])
    encoder = make_column_transformer(*parts, sparse_threshold=0)
    model = clone(LOGISTIC).set_params(solver="objective_perturbation")  # its cost depends on them
    pipeline = search(make_pipeline(encoder, model), OF_STEP)
    with pytest.raises(ValueError, match=r"rows of zeros .*of the model alone"):
        pipeline.privacy_cost(200, 2)
    people = pd.DataFrame({"sex": np.where(X[:, 1] > 0, "a", "b"), "age": X[:, 0]})
    alone = search(model, {"clip": [0.3, 0.6]}).privacy_cost(200, 3)
    assert pipeline.fit(people, Y).privacy_ == alone


@pytest.mark.parametrize("step", NOT_FREE, ids=lambda step: type(step).__name__)
def test_steps_that_learn_without_privacy_are_refused(step):
    pipeline = make_pipeline(step, LOGISTIC)
    with pytest.raises(ValueError, match=r"learns?|may mix|choose|warns"):
        search(pipeline, OF_STEP).fit(X, Y)
    with pytest.raises(ValueError, match=r"learns?|may mix|choose|warns"):
        search_privacy(pipeline, n_samples=200, n_features=3)
    with pytest.raises(ValueError, match="no total is known"):
        total_privacy(step)


# --- what searches that are not private spent -----------------------------------------------------


def priced(*args, **kwargs):
    with pytest.warns(PrivacyLeakWarning, match="without noise"):
        return search_privacy(*args, **kwargs)


@pytest.mark.slow
def test_a_grid_search_is_counted_fit_by_fit(monkeypatch):
    model = clone(LOGISTIC).set_params(delta="auto")
    sizes = []
    fit = PrivateLogisticRegression.fit

    def counted(self, rows, y):
        sizes.append(len(y))
        return fit(self, rows, y)

    monkeypatch.setattr(PrivateLogisticRegression, "fit", counted)
    repeated = RepeatedKFold(n_splits=3, n_repeats=2)
    for cv, refit in (
        (KFold(5), True),
        (KFold(3, shuffle=True), False),
        (5, True),
        (repeated, True),
    ):
        sizes.clear()
        fitted = GridSearchCV(model, GRID, cv=cv, refit=refit).fit(X[:199], Y[:199])
        total = priced(fitted, 199, n_features=3)
        counted = sorted(int(name.split()[2]) for name, _ in total.parts if name != "refit")
        assert counted == sorted(sizes[: len(sizes) - refit])
        assert len(total.parts) == len(sizes)
        spent = sum(model.privacy_cost(size, 3).mu ** 2 for size in sizes)
        assert total.guarantee.mu == pytest.approx(math.sqrt(spent), rel=1e-12)
        assert any("scores" in leak for leak in total.leaks)
        assert any("stratified" in leak for leak in total.leaks) == (cv == 5)
        if refit:
            assert priced(fitted).guarantee == total.guarantee


@pytest.mark.parametrize(
    ("cv", "sizes"),
    [
        (5, [160] * 5),
        (KFold(7), [171] * 4 + [172] * 3),
        (TimeSeriesSplit(3), [50, 100, 150]),
        (ShuffleSplit(4, test_size=0.25), [150] * 4),
        (StratifiedShuffleSplit(4, test_size=0.25), [150] * 4),
        (RepeatedStratifiedKFold(n_splits=4, n_repeats=2), [150] * 8),
        ([(range(100), range(100, 200)), (range(50, 200), range(50))], [100, 150]),
    ],
    ids=str,
)
def test_cross_validation_is_counted(cv, sizes):
    model = clone(LOGISTIC).set_params(epsilon=1.0, delta="auto")
    total = priced(model, cv=cv, n_samples=200, n_features=3)
    spent = [model.privacy_cost(n, 3).mu ** 2 for n in sizes]
    assert total.guarantee.mu == pytest.approx(math.sqrt(np.sum(spent)), rel=1e-12)
    of_fitted = priced(model.fit(X, Y), cv=cv, n_samples=200, n_features=3)
    assert of_fitted.guarantee.mu == total.guarantee.mu


def test_what_cannot_be_counted_is_refused():
    for arguments, message in (
        ({"cv": GroupKFold(3), "n_samples": 200, "n_features": 3}, "how many train in a split"),
        ({"n_features": 3}, "n_samples=None must be given"),
        ({"n_features": 3, "n_samples": True}, "n_samples=True must be given"),
        ({"n_samples": 200}, "n_features=None must be given"),
    ):
        with pytest.raises(ValueError, match=message):
            search_privacy(LOGISTIC, **arguments)
    with pytest.raises(ValueError, match="no privacy_cost"):
        search_privacy(LogisticRegression(), n_samples=200, n_features=3)
    used_up = GridSearchCV(LOGISTIC, {"clip": [0.3]}, cv=KFold(3).split(X)).fit(X, Y)
    with pytest.raises(ValueError, match="how many train in a split is not known"):
        search_privacy(used_up)
    assert priced(used_up, cv=list(KFold(3).split(X))).guarantee.mu > 0


def test_leave_one_out_and_private_searches_are_counted():
    ridge = clone(RIDGE).set_params(epsilon=1.0, delta=1e-4)
    total = priced(ridge, cv=LeaveOneOut(), n_samples=20, n_features=3)
    one = ridge.privacy_cost(19, 3)
    assert total.guarantee.mu == pytest.approx(one.mu * math.sqrt(20))
    nested = priced(search(), cv=KFold(4), n_samples=200, n_features=3)
    assert nested.guarantee.epsilon(1e-4) > search().privacy_cost(150, 3).epsilon(1e-4)
    assert nested.guarantee.rdp(9.0) == pytest.approx(4 * search().privacy_cost(150, 3).rdp(9.0))


N_FORMS = 3000
NUMBERS = np.random.default_rng(0).uniform(-1, 1, (N_FORMS, 3))
FORMS = {
    "numbers": NUMBERS,
    "sparse rows": sparse.csr_array(np.maximum(NUMBERS, 0)),
    "text": pd.DataFrame(NUMBERS, columns=[*"abc"]).assign(c=np.where(NUMBERS[:, 2] > 0, "u", "d")),
    "flags": pd.DataFrame(NUMBERS, columns=[*"abc"]).assign(b=NUMBERS[:, 1] > 0),
}
"""Tables of three columns, by what these hold."""


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("model", "form", "kind"),
    [
        (PrivateGAMClassifier(), "text", int),
        (PrivateGAMClassifier(), "flags", bool),
        (PrivateGAMClassifier(categories={"b": ["u", "d"]}), "text", bool),
        (PrivateGAMClassifier(bounds=(-1, 1), categories={"a": [0, 1]}), "flags", int),
        (PrivateLogisticRegression(), "sparse rows", bool),
        (PrivateLogisticRegression(), "sparse rows", int),
        (PrivateLogisticRegression(), "numbers", bool),
    ],
    ids=str,
)
def test_a_search_costs_what_was_said_whatever_columns_hold(model, form, kind, tmp_path):
    """Also a fit, at every delta: its price, by the shape of a table alone, is what it spends."""
    rows = FORMS[form]
    y = (NUMBERS[:, 0] > 0).astype(kind)
    chosen = PrivateSearchCV(model, {"clip": [0.1]}, epsilon=2.0, delta=1e-6, expected_trials=2)
    for release in (chosen, clone(model).set_params(epsilon=2.0, delta=1e-6)):
        cost = release.privacy_cost(N_FORMS, 3)
        ledger = Ledger(tmp_path / type(release).__name__, Budget(2.0, 1e-6))
        with ledger.reserve("release", release, N_FORMS, 3) as entry:
            entry.settle(release.fit(rows, y))
        assert release.privacy_ == cost
        assert 2.0 * (1 - 1e-3) <= release.epsilon_ <= 2.0
        check_report(release.privacy_report().as_dict())
    if form == "text" and kind is int:  # nothing is given
        assert chosen.bought_.keys() == {"classes", "bounds", "categories"}
        assert "levels of columns" in chosen.mechanism_.names
        assert chosen.best_estimator_.expansion_.columns[-1].levels == ("d", "u")
    nested = priced(chosen, cv=2, n_samples=2 * N_FORMS, n_features=3)
    assert nested.parts[0][1] == chosen.privacy_


# --- totals ---------------------------------------------------------------------------------------


def test_a_record_that_is_drawn_twice_into_a_fold_is_refused():
    twice = [(np.array([0, 0, 1, 2]), np.array([3])), (np.array([1, 2, 3]), np.array([0]))]
    for cv in (twice, [(np.array([0, -200, 1]), np.array([3]))]):
        with pytest.raises(UnsupportedMechanismError, match="more than once"):
            search_privacy(LOGISTIC, cv=cv, n_samples=200, n_features=3)


def test_the_leaks_of_every_candidate_are_told():
    model = clone(RIDGE).set_params(solver=NoisyGD(n_steps=3))
    grid = {"target_bounds": [(-1, 1), "from_y"], "random_state": [None, 7]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        total = search_privacy(GridSearchCV(model, grid, cv=2).fit(X, X[:, 0]))
    assert "target_bounds were taken from y" in total.leaks
    assert any("random_state=7" in leak for leak in total.leaks)
    assert len(set(total.leaks)) == len(total.leaks)


@pytest.mark.parametrize("threshold", [0.3, 1.0])
def test_what_decides_over_sparse_rows_is_looked_at(threshold):
    """Scikit-learn keeps rows sparse where few enough values of all records are stored."""
    scaler = BoundsScaler((0, 1))
    encoder = OneHotEncoder(categories=[["a", "b", "c"]])
    columns = make_column_transformer
    for part in (encoder, "passthrough", FunctionTransformer(np.log1p), columns((encoder, [0]))):
        step = columns((part, [0]), (scaler, [1]), sparse_threshold=threshold)
        assert "choose between sparse" in chooses_by_records(step)
        assert chooses_by_records(step.set_params(sparse_threshold=0)) is None
    for part in (scaler, "drop"):
        step = columns((part, [0]), (scaler, [1]), sparse_threshold=threshold)
        assert reads_records(step) is None
    inside = columns((columns((encoder, [0])), [0]), (scaler, [1]), sparse_threshold=0)
    assert "choose between sparse" in reads_records(inside)


def test_totals_compose():
    one = clone(KNOWN).fit(X, Y)
    other = clone(KNOWN).set_params(epsilon=0.5).fit(X, Y)
    piped = make_pipeline(Normalizer(), other)
    scaler = BoundsScaler((0, 1))
    total = total_privacy(one, piped, GaussianDP(0.2), tightest(Gaussian(5.0)), scaler)
    spent = math.sqrt(one.privacy_.mu**2 + other.privacy_.mu**2 + 2 * 0.2**2)
    more = pytest.approx(math.hypot(spent, 0.3), rel=1e-12)
    assert total.guarantee.mu == pytest.approx(spent, rel=1e-12)
    names = [name for name, _ in total.parts]
    assert names == ["PrivateLogisticRegression"] * 2 + ["GaussianDP"] * 2
    assert total_privacy(total, GaussianDP(0.3)).guarantee.mu == more
    assert total.guarantee.epsilon(1e-4) > 1.0
    assert GaussianDP(0.3).compose(total).mu == more
    text = str(total)
    assert "2 x GaussianDP" in text
    assert f"{total.guarantee.epsilon(1e-4):.6g}" in text.splitlines()[-1]
    assert f"{total.guarantee.epsilon(1e-3):.6g}" in total.report(delta=1e-3)
    assert pickle.loads(pickle.dumps(total)) == total
    assert total_privacy(BoundsScaler((0, 1))).guarantee.mu == 0
    with_search = total_privacy(search().fit(X, Y), one)
    assert with_search.guarantee.epsilon(1e-4) > 2.0
    grid = GridSearchCV(KNOWN, {"clip": [0.3, 0.6]}, cv=KFold(4)).fit(X, Y)
    assert total_privacy(grid).guarantee == priced(grid).guarantee
    assert "NOT PRIVATE: scores" in str(total_privacy(grid))


def test_leaks_are_carried():
    model = clone(SEEDED).set_params(classes="from_y")
    shape = {"n_samples": 200, "n_features": 3}
    total = priced(model, **shape)
    seeded = model.fit(X, Y)
    assert total_privacy(seeded, seeded).leaks == seeded.leaks_
    assert len(seeded.leaks_) == 2
    assert all("random_state=1" in leak or "classes" in leak for leak in total.leaks[-2:])
    of_search = search(clone(LOGISTIC).set_params(classes="from_y"), random_state=0)
    leaks = priced(of_search, **shape).leaks
    assert any(leak.startswith("classes") for leak in leaks)
    assert any("random_state=0" in leak for leak in leaks)


def test_disjoint_parts_cost_the_worst():
    weak = make_pipeline(clone(KNOWN).set_params(epsilon=1e-3).fit(X, Y))
    worst = total_privacy(GaussianDP(0.3), GaussianDP(0.4), weak, disjoint=True)
    assert worst.guarantee == GaussianDP(0.4)
    chosen = search().fit(X, Y)
    mixed = total_privacy(chosen, GaussianDP(0.4), disjoint=True)
    assert mixed.guarantee.rdp(9.0) == max(chosen.privacy_.rdp(9.0), GaussianDP(0.4).rdp(9.0))
    batches = PoissonSubsampled(sampling_probability=0.1, noise_multiplier=1.0, n_steps=5)
    sampled = subsampling(batches)
    assert total_privacy(sampled, sampled, disjoint=True).guarantee == sampled
    mixed = total_privacy(sampled, GaussianDP(0.4), disjoint=True)
    assert mixed.guarantee.rdp(9.0) == max(sampled.rdp(9.0), GaussianDP(0.4).rdp(9.0))
    with pytest.raises(UnsupportedMechanismError, match="ApproximateDP"):
        total_privacy(ApproximateDP(0.1, 1e-9), GaussianDP(0.4), disjoint=True)


def test_totals_that_are_not_known_are_refused():
    with pytest.raises(ValueError, match="no total is known: LogisticRegression learns"):
        total_privacy(LogisticRegression().fit(X, Y))
    with pytest.raises(ValueError, match="not fitted"):
        total_privacy(LOGISTIC)
    for thing in ({}, [LOGISTIC], None, 3, "drop"):
        with pytest.raises(ValueError, match="is neither a fitted estimator nor a guarantee"):
            total_privacy(thing)
    with pytest.raises(ValueError, match="disjoint='no' must be True or False"):
        total_privacy(GaussianDP(0.1), disjoint="no")
    with pytest.raises(ValueError, match=r"of a record, pass tightest\(record\)"):
        total_privacy(Gaussian(2.0))
    for disjoint in (False, True):
        with pytest.raises(ValueError, match="adjacency"):
            total_privacy(GaussianDP(0.1), GaussianDP(0.1, "add_remove"), disjoint=disjoint)
    assert isinstance(total_privacy(composition(Gaussian(2.0))), PrivacyTotal)


# --- what would tell how many trials there were, or decide by one record --------------------------


class Complaining(TransformerMixin, BaseEstimator):
    """A step that warns differently each time, so that no filter takes two warnings for one."""

    count = 0

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        Complaining.count += 1
        warnings.warn(f"complaint {Complaining.count}", UserWarning, stacklevel=2)
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def test_warnings_of_steps_do_not_count_the_trials():
    """Nor do those of the plan tell of the rows that it counts columns with."""
    pipeline = make_pipeline(Complaining(), LOGISTIC)
    for seed in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search(pipeline, OF_STEP, random_state=seed).fit(X, Y)
        assert not any("complaint" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("kind", ["neg_log_loss", "neg_mean_squared_error"])
def test_one_held_out_record_cannot_make_a_score_nan(kind):
    fitted = clone(LOGISTIC if kind == "neg_log_loss" else RIDGE).fit(X, Y)
    score = score_of(kind, fitted.get_params())
    fitted.coef_ = np.full_like(fitted.coef_, math.nan)
    with np.errstate(invalid="ignore"):
        assert score.mean(fitted, X, Y * (1 if kind == "neg_log_loss" else 1.0)) == 0.0


@pytest.mark.parametrize("shape", [(400.7, 4), ("a", 4), (400, "a"), (400, -1), (True, 4)])
def test_the_cost_of_senseless_shapes(shape):
    for model in (LOGISTIC, search(), PrivateScaler()):
        with pytest.raises(ValueError, match=r"n_(samples|features)=.* must be an integer >= 1"):
            model.privacy_cost(*shape)


def test_a_model_that_keeps_the_records_is_not_free():
    """Predictors that call what they do with records no fit have no transform."""
    process = GaussianProcessRegressor(optimizer=None)
    for model in (process, make_pipeline(BoundsScaler((-1, 1)), process)):
        with pytest.raises(ValueError, match="GaussianProcessRegressor learns"):
            total_privacy(model.fit(X, Y))


def test_private_scalers_anywhere_are_counted():
    scaler = PrivateScaler(epsilon=0.3, delta=1e-4)
    union = make_union(scaler, BoundsScaler((-1, 1))).fit(X)
    parts = (scaler, [0, 1]), (BoundsScaler((-1, 1)), [2])
    columns = make_column_transformer(*parts, sparse_threshold=0).fit(X)
    cost = scaler.privacy_cost(*X.shape)
    for composite in (union, columns, make_pipeline(columns, BoundsScaler((-1, 1))).fit(X)):
        assert total_privacy(composite).guarantee == cost
    with pytest.raises(ValueError, match="PrivateScaler spends a budget of its own"):
        search_privacy(make_pipeline(union, LOGISTIC), n_samples=200, n_features=3)


def test_a_search_is_counted_with_its_private_scaler():
    pipeline = make_pipeline(PrivateScaler(0.5, 1e-4), KNOWN)
    grid = {"privatescaler__epsilon": [0.3, 0.5], **OF_STEP}
    fitted = GridSearchCV(pipeline, grid, cv=KFold(4)).fit(X, Y)
    scalers = [PrivateScaler(of, 1e-4).privacy_cost(150, 3).mu for of in (0.3, 0.3, 0.5, 0.5)]
    fits = sum(4 * (mu**2 + pipeline[-1].privacy_cost(150, 3).mu ** 2) for mu in scalers)
    refit = sum(step.privacy_.mu**2 for step in fitted.best_estimator_)
    assert priced(fitted).guarantee.mu == pytest.approx(math.sqrt(fits + refit), rel=1e-8)
    assert total_privacy(fitted).guarantee == priced(fitted).guarantee
    runs = cross_validate(pipeline, X, Y, cv=KFold(4), return_estimator=True)["estimator"]
    mu = priced(pipeline, cv=KFold(4), n_samples=200, n_features=3).guarantee.mu
    assert mu == pytest.approx(total_privacy(*runs).guarantee.mu, rel=1e-8)
    seeded = make_pipeline(PrivateScaler(0.5, 1e-4, random_state=3), LOGISTIC)
    assert "random_state=3" in str(priced(seeded, n_samples=200, n_features=3).leaks)
    with pytest.raises(ValueError, match="of its own, where one budget has to pay for all"):
        search(pipeline).fit(X, Y)


def test_a_grid_search_can_be_priced_before_it_is_fitted():
    model = KNOWN
    one = [{"clip": [0.3]}, {}]
    several = {"epsilon": [0.5, 1.0, 2.0]}
    for grid, refit in ((several, True), (several, False), (one, True)):
        plan = GridSearchCV(model, grid, cv=KFold(4), refit=refit)
        planned = priced(plan, 200, n_features=3)
        fitted = priced(plan.fit(X, Y), 200, n_features=3)
        assert len(planned.parts) == len(fitted.parts)
        assert planned.guarantee.mu >= fitted.guarantee.mu  # whichever candidate is the best
        if refit and isinstance(grid, dict):
            dearest = clone(model).set_params(epsilon=2.0).privacy_cost(200, 3).mu
            assert planned.guarantee.mu**2 - fitted.guarantee.mu**2 == pytest.approx(
                dearest**2 - fitted.parts[-1][1].mu ** 2, abs=1e-12
            )
    unknown = RandomizedSearchCV(model, GRID, n_iter=3, cv=KFold(4))
    with pytest.raises(ValueError, match="its candidates are not known, since it is not fitted"):
        search_privacy(unknown, 200, n_features=3)
    with pytest.raises(ValueError, match="it released is not known, since it is not fitted"):
        total_privacy(unknown)
    assert len(priced(unknown.fit(X, Y)).parts) == 3 * 4 + 1


class _FitsTwice(GridSearchCV):
    def fit(self, X, y):
        super().fit(X, y)
        return super().fit(X, y)


@pytest.mark.parametrize("kind", [HalvingGridSearchCV, _FitsTwice])
def test_searches_whose_number_of_fits_is_not_known_are_refused(kind):
    """One trains on drawn parts of the splits, another fits more than its results say."""
    for unknown in (kind(KNOWN, GRID, cv=2), kind(KNOWN, GRID, cv=2).fit(X, Y)):
        with pytest.raises(ValueError, match=r"how many fits it makes, .* is not known"):
            search_privacy(unknown, 200, n_features=3)
    with pytest.raises(ValueError, match=r"how many fits it makes, .* is not known"):
        total_privacy(unknown)


def test_a_refit_whose_model_is_gone_counts_as_the_dearest():
    fitted = GridSearchCV(KNOWN, {"epsilon": [0.5, 2.0]}, cv=KFold(4)).fit(X, Y)
    del fitted.best_estimator_
    total = priced(fitted, 200, n_features=3)
    assert total.parts[-1] == ("refit", clone(KNOWN).set_params(epsilon=2.0).privacy_cost(200, 3))


def test_candidates_that_change_columns_anywhere_are_seen():
    model = clone(KNOWN).set_params(solver="objective_perturbation")  # its cost depends on them
    inner = Pipeline([("terms", PolynomialFeatures(1)), ("model", model)])
    outer = Pipeline([("bounds", BoundsScaler((-1, 1))), ("rest", inner)])
    replaced = Pipeline([("bounds", BoundsScaler((-1, 1))), ("model", model)])
    for pipeline, grid in (
        (outer, {"rest__terms__degree": [1, 3]}),
        (replaced, {"model": [model, make_pipeline(PolynomialFeatures(3), model)]}),
    ):
        fitted = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
        with pytest.raises(ValueError, match="the number of columns, which candidates may change"):
            search_privacy(fitted)
    fitted = GridSearchCV(outer, {"rest__model__clip": [0.3, 0.5]}, cv=2).fit(X, Y)
    assert priced(fitted).guarantee.epsilon(1e-4) > 1


def test_an_estimator_that_was_changed_after_the_search_is_refused():
    fitted = GridSearchCV(clone(KNOWN), {"clip": [0.3, 0.6]}, cv=2).fit(X, Y)
    assert priced(fitted).guarantee.mu > 0
    fitted.estimator.set_params(epsilon=1e-3)
    with pytest.raises(ValueError, match="was changed after the fit"):
        search_privacy(fitted)


class _AnySplits:
    """A cross-validator of somebody's own that looks like scikit-learn's wrapper of pairs."""

    def __init__(self, cv):
        self.cv = cv

    def split(self, X, y=None, groups=None):
        yield from self.cv

    def get_n_splits(self, X=None, y=None, groups=None):
        return len(self.cv)


class _NewEachTime:
    def __iter__(self):
        rng = np.random.default_rng()
        for _ in range(3):
            train = rng.permutation(200)
            yield train[:50], train[50:]


@pytest.mark.parametrize("cv", [_AnySplits(list(KFold(3).split(X))), _NewEachTime()])
def test_splits_that_may_be_others_are_not_believed(cv):
    with pytest.raises(ValueError, match="how many train in a split is not known"):
        search_privacy(LOGISTIC, 200, cv=cv, n_features=3)
    fitted = GridSearchCV(KNOWN, {"clip": [0.3]}, cv=cv).fit(X, Y)
    with pytest.raises(ValueError, match="how many train in a split is not known"):
        search_privacy(fitted)


@pytest.mark.parametrize(
    "cv",
    [[([0, 200], [1])], [([True] * 3, [1])], [(["a"], [1])], [(None, [1])], [1, 2], [([0.5], [1])]],
)
def test_splits_that_are_none_are_named(cv):
    with pytest.raises(ValueError, match=r"cv=.* does not split 200 records into pairs"):
        search_privacy(LOGISTIC, 200, cv=cv, n_features=3)


def test_searches_that_do_not_say_what_they_fitted():
    fitted = GridSearchCV(KNOWN, {"clip": [0.3]}, cv=2).fit(X, Y)
    fitted.cv_results_ = None
    with pytest.raises(ValueError, match="what it released is not known"):
        total_privacy(fitted)
    with pytest.raises(ValueError, match=r"param_grid=\[\] has no candidates"):
        search_privacy(GridSearchCV(LOGISTIC, []), 200, n_features=3)


def test_advice_on_meta_estimators():
    model = KNOWN
    voting = VotingClassifier([("one", model)]).fit(X, Y)
    advice = r"noise: pass what was fitted in it, total_privacy\(\*fitted.estimators_\)"
    with pytest.raises(ValueError, match=f"takes the labels that occur from y .* without {advice}"):
        total_privacy(voting)
    (one,) = voting.estimators_
    assert total_privacy(one).guarantee.mu == pytest.approx(one.privacy_.mu)
    for other, message in (
        (BaggingClassifier(model), "copies of records .k copies cost as k"),
        (OneVsOneClassifier(model), "chooses records by their labels"),
        (TunedThresholdClassifierCV(model), "use FixedThresholdClassifier"),
        (AdaBoostClassifier(model), "Nor is a total known of the private fits inside it"),
    ):
        with pytest.raises(ValueError, match=message) as refused:
            total_privacy(other)
        assert "estimators_)" not in str(refused.value)
    learns = "StandardScaler learns means and variances from the records"
    with pytest.raises(ValueError, match=f"{learns}: use BoundsScaler or PrivateScaler$"):
        total_privacy(StandardScaler())


class HandsOn:
    """Scores a model on its own training records, and hands its attributes on."""

    def __init__(self, estimator):
        self.estimator = estimator

    def __getattr__(self, name):
        if name == "estimator":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.estimator, name)

    def fit(self, X, y):
        self.estimator.fit(X, y)
        self.score_ = self.estimator.score(X, y)
        return self


class HandsOnEstimator(HandsOn, BaseEstimator):
    pass


@pytest.mark.parametrize("kind", [HandsOn, HandsOnEstimator])
def test_what_a_wrapper_hands_on_is_not_its_own(kind, tmp_path):
    """It says what the model inside spent, and may have done anything else with the records."""
    model = clone(LOGISTIC)
    wrapper = kind(model).fit(X, Y)
    assert wrapper.privacy_ == model.privacy_
    assert total_privacy(model).guarantee == model.privacy_
    with pytest.raises(ValueError, match=f"{kind.__name__} (is not known|learns from the records)"):
        total_privacy(wrapper)
    with pytest.raises(ValueError, match=f"{kind.__name__} has no privacy_cost"):
        search_privacy(wrapper, 200, cv=3, n_features=3)
    with pytest.raises(ValueError, match=f"no total is known|{kind.__name__} is"):
        total_privacy(kind(GridSearchCV(model, {"clip": [0.1, 0.2]}, cv=3)).fit(X, Y))
    ledger = Ledger(tmp_path / "ledger.json", (9.0, 1e-3))
    ledger.reserve("before", model).settle(model)
    for spend in (partial(ledger.reserve, "more"), ledger.reserve("other", model).settle):
        with pytest.raises(ValueError, match=f"a {kind.__name__} is no guarantee and has no priv"):
            spend(wrapper)
    with pytest.raises(ValueError, match=f"a {kind.__name__} has no privacy_cost"):
        ledger.reserve("more", wrapper, n_samples=200, n_features=3)
    (source,) = sources_of(wrapper, "start")
    assert source.guarantee is None
    assert source.leaks


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_a_label_that_is_no_class_counts_as_wrong(scoring):
    """It makes no search fail, whether its record trains or scores."""
    labels = np.where(np.arange(200) == 3, 9, Y)
    for holdout in (np.arange(100), np.arange(100, 200)):
        for y in (labels, np.where(labels == 9, None, labels)):
            PrivateSearchCV(LOGISTIC, GRID, epsilon=50.0, scoring=scoring, holdout=holdout).fit(
                X, y
            )
    score = score_of(scoring, {"classes": [0, 1]})
    model = clone(KNOWN).fit(X, Y)
    terms = score.terms(model, X, labels)
    assert terms[3] == 0
    np.testing.assert_array_equal(np.delete(terms, 3), np.delete(score.terms(model, X, Y), 3))


def test_marks_stay_wherever_a_total_goes():
    with pytest.warns(PrivacyLeakWarning):
        seeded = clone(KNOWN).set_params(random_state=0).fit(X, Y)
    total = total_privacy(seeded)
    message = "PrivacyTotal that does not cover all .* would be taken"
    assert total.leaks == seeded.leaks_
    for use in (GaussianDP(1.0).compose, lambda trial: Selection(trial=trial, expected_trials=3.0)):
        with pytest.raises(ValueError, match=message):
            use(total)
    more = total.compose(GaussianDP(1.0))
    assert more.leaks == total_privacy(GaussianDP(1.0), total).leaks == total.leaks
    assert more.guarantee.mu == math.hypot(seeded.privacy_.mu, 1.0)
    asked = {"delta": 1e-4, "bound": seeded.bound_, "assumed": Assumed(leaks=["another"])}
    report = privacy_report(seeded.mechanism_, total, **asked)
    assert report.as_dict()["assumed"]["not private in this run"] == ["another", *total.leaks]
    assert TradeoffDisplay.from_guarantee(total, plot=False).name == "NOT PRIVATE"


def test_splits_by_groups_are_passed():
    groups = np.arange(200) % 7
    model = KNOWN
    fitted = GridSearchCV(model, {"clip": [0.3, 0.6]}, cv=GroupKFold(3)).fit(X, Y, groups=groups)
    with pytest.raises(ValueError, match="how many train in a split is not known"):
        search_privacy(fitted)
    pairs = list(GroupKFold(3).split(X, Y, groups))
    total = priced(fitted, cv=pairs)
    spent = sum(2 * model.privacy_cost(len(train), 3).mu ** 2 for train, _ in pairs)
    assert total.guarantee.mu == pytest.approx(
        math.sqrt(spent + model.privacy_cost(200, 3).mu ** 2), rel=1e-12
    )
    assert priced(fitted, cv=tuple(pairs)).guarantee == total.guarantee
    with pytest.raises(ValueError, match="the search made 3"):
        search_privacy(fitted, cv=pairs[:2])
    with pytest.raises(ValueError, match="it makes none"):
        search_privacy(model, 200, n_features=3, cv=[])
    stratified = StratifiedGroupKFold(3)
    labelled = GridSearchCV(model, {"clip": [0.3]}, cv=stratified).fit(X, Y, groups=groups)
    leaks = priced(labelled, cv=list(stratified.split(X, Y, groups))).leaks
    assert any("stratified by y" in leak for leak in leaks)
    known = GridSearchCV(model, {"clip": [0.3, 0.6]}, cv=KFold(3)).fit(X, Y)
    wrong = [(known, pairs), (known, 3), (known, "nonsense"), (clone(known), pairs)]
    for search_, cv in (*wrong, (fitted, KFold(3))):
        with pytest.raises(ValueError, match="a search knows its own"):
            search_privacy(search_, 200, n_features=3, cv=cv)


def test_what_is_no_search_is_not_taken_for_one():
    """Others have a cv and results too, and fit more often than once a candidate and split."""
    for other in (RFECV(LOGISTIC, cv=3), TunedThresholdClassifierCV(LOGISTIC, cv=3)):
        for estimator in (other, clone(other).fit(X, Y)):
            with pytest.raises(ValueError, match=f"is known: {type(other).__name__} learns"):
                total_privacy(estimator)
            with pytest.raises(ValueError, match="has no privacy_cost"):
                search_privacy(estimator)
    with pytest.raises(ValueError, match="is not fitted again: only its first fit"):
        search_privacy(FrozenEstimator(clone(LOGISTIC).fit(X, Y)), 100, cv=3, n_features=2)


def test_a_part_without_columns_released_nothing():
    for none in ([], np.zeros(3, dtype=bool), np.array([], dtype=int)):
        steps = (PrivateScaler(), [0, 1, 2]), (PrivateScaler(epsilon=9.0), none)
        parts = make_column_transformer(*steps, sparse_threshold=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            total = total_privacy(parts.fit(X))
        assert total.guarantee == parts.transformers_[0][1].privacy_


def test_a_search_that_cannot_be_counted_says_who_can():
    grid = GridSearchCV(LOGISTIC, GRID, refit=False).fit(X, Y)
    advice = r"total_privacy\(search_privacy\(search, \.\.\.\)\)"
    with pytest.raises(ValueError, match=f"n_samples=None must be given.*{advice}"):
        total_privacy(grid)
    assert total_privacy(priced(grid, n_samples=200, n_features=3)).guarantee.mu > 0
