"""Private search and honest totals: what is spent, what is shown, what is refused."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy import stats
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

from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.core.noise import generators
from skdpdyn.exceptions import CalibrationError, PrivacyLeakWarning, UnsupportedMechanismError
from skdpdyn.inspection import TradeoffDisplay
from skdpdyn.model_selection import (
    PrivacyTotal,
    PrivateSearchCV,
    _candidates,
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
    Gaussian,
    GaussianDP,
    PoissonSubsampled,
    Selection,
    composition,
    privacy_report,
    subsampling,
    tightest,
)
from skdpdyn.solvers import NoisyGD
from skdpdyn.training.preparation import Preparation
from skdpdyn.training.request import request_of

LOGISTIC = PrivateLogisticRegression(classes=[0, 1], solver=NoisyGD(n_steps=5))
RIDGE = PrivateRidge(target_bounds=(-2.0, 2.0), solver=NoisyGD(n_steps=5))
GRID = {"clip": [0.3, 0.6], "alpha": [1e-3, 1e-2]}
POISSON = {"trials": "poisson", "expected_trials": 6}


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
    preparation = Preparation.of(request_of(base, n_samples, X.shape[1]))
    return chosen._plan(n_samples, X[:2], preparation, preparation.stand_ins(base))


# --- the law of the number of trials --------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "shape"),
    [(4.0, 0.0), (4.0, 1.0), (10.0, 2.5), (10.0, 0.0), (1.0, 0.0), (4.0, math.inf)],
)
def test_law_of_the_number_of_trials(mean, shape):
    """Chi-square against the law as scipy has it; failure probability 1e-7 in each of six. That
    each uniform number gives the right one is shown above, to 150 digits.
    """
    record = Selection(trial=GaussianDP(0.1), expected_trials=mean, shape=shape)
    (generator,) = generators(0)
    draws = np.array([_trials.number_of_trials(record, generator) for _ in range(4_000)])
    k = np.arange(0, 400)
    if mean == 1.0:
        assert np.all(draws == 1)
        return
    if shape == math.inf:
        law = stats.poisson.pmf(k, mean)
    elif shape == 0:
        law = stats.logser.pmf(k, 1 - record.halting_probability)
    else:
        law = stats.nbinom.pmf(k, shape, record.halting_probability)
        law = np.where(k == 0, 0, law / (1 - law[0]))
    assert law @ k == pytest.approx(mean, rel=1e-4)
    common = 4_000 * law > 20
    expected = 4_000 * np.append(law[common], 1 - law[common].sum())
    counts = np.array(
        [
            *(np.count_nonzero(draws == value) for value in k[common]),
            np.count_nonzero(~np.isin(draws, k[common])),
        ]
    )
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
    assert 2.0 * (1 - 1e-6) <= fitted.epsilon_ <= 2.0
    assert fitted.privacy_.epsilon(1e-4) == fitted.epsilon_
    assert fitted.privacy_.adjacency == fitted.mechanism_.adjacency == adjacency
    assert (
        fitted.privacy_
        == fitted.privacy_cost(200, 3)
        == tightest(fitted.mechanism_).alternatives.get("selection", fitted.privacy_)
    )
    orders = 1 + np.exp(np.linspace(math.log(1e-1), math.log(1e3), 500))
    accountant = RdpAccountant(orders, fitted.privacy_.neighboring_relation).compose(
        fitted.privacy_.dp_event
    )
    assert 2.0 * (1 - 1e-4) <= accountant.get_epsilon(1e-4) <= 2.0 * (1 + 1e-4)


def test_a_trial_is_within_what_the_selection_was_told(monkeypatch):
    """Of every trial that ran: the fit's mu, and the score's, are the record's."""
    trials = []
    run = _trials.run_trial

    def spy(estimator, score, *parts):
        outcome = run(estimator, score, *parts)
        parts = parts[:4]
        trials.append((outcome[0].privacy_, [len(part) for part in parts]))
        return outcome

    monkeypatch.setattr(private_search, "run_trial", spy)
    for changes, sizes in (
        ({}, (200, 200)),
        ({"test_size": 0.2}, (160, 40)),
        ({"test_size": 50}, (150, 50)),
    ):
        trials.clear()
        chosen = search(**changes)
        fitted = chosen.fit(X, Y)
        plan = plan_of(chosen)
        assert plan.mechanism == fitted.mechanism_
        mu = fitted.mechanism_.trial.mu
        assert trials
        for privacy, parts in trials:
            assert parts == [sizes[0], sizes[0], sizes[1], sizes[1]]
            assert privacy.mu == pytest.approx(plan.fit_mu, rel=1e-6)
            assert privacy.mu <= plan.fit_mu
        together = (
            max(plan.fit_mu, plan.score_mu)
            if sum(sizes) == 200
            else math.hypot(plan.fit_mu, plan.score_mu)
        )
        assert together == pytest.approx(mu, rel=1e-8)  # a budget is calibrated from below


@pytest.mark.smoke
def test_the_score_has_the_noise_that_was_paid_for():
    """One trial, the same held-out records: the released score is the exact one plus N(0, (1/(m
    mu))^2).

    Chi-square over 200 searches, failure probability 1e-6.
    """
    chosen = search(expected_trials=1, holdout=np.arange(60))
    plan = plan_of(chosen)
    chosen._plan = lambda *_: plan
    deviations = []
    for _ in range(200):
        chosen.fit(X, Y)
        deviations.append(chosen.best_score_ - chosen.best_estimator_.score(X[:60], Y[:60]))
    statistic = np.sum((np.array(deviations) * 60 * plan.mechanism.trial.mu) ** 2)
    assert stats.chi2.ppf(5e-7, 200) < statistic < stats.chi2.isf(5e-7, 200)


@pytest.mark.parametrize("test_size", [0.2, None])
def test_guarantees_that_are_not_gaussian(test_size):
    """Chourasia, Ye and Shokri's bound has a Renyi curve: every candidate's is within the
    trial's.
    """
    estimator = clone(LOGISTIC).set_params(bound="langevin", alpha=1e-2)
    chosen = search(estimator, {"clip": [0.3, 0.6], "alpha": [1e-2, 1e-1]}, test_size=test_size)
    fitted = chosen.fit(X, Y)
    assert 2.0 * (1 - 1e-3) <= fitted.epsilon_ <= 2.0
    plan = plan_of(chosen)
    orders = np.array([1.5, 5.0, 50.0])
    fits = np.max(
        [guarantee.rdp(orders) for guarantee in (GaussianDP(plan.fit_mu), *plan.candidates)], axis=0
    )
    score = GaussianDP(plan.score_mu).rdp(orders)
    # of other records, or of the same
    together = np.maximum(fits, score) if test_size else fits + score
    # a trial's budget is calibrated from below
    np.testing.assert_allclose(fitted.mechanism_.trial.rdp(orders), together, rtol=1e-8)
    assert np.all(together <= fitted.mechanism_.trial.rdp(orders))
    with pytest.raises(UnsupportedMechanismError, match="a candidate costs"):
        plan.check(GaussianDP(2 * plan.fit_mu), "record")


# --- scores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "neg_mean_squared_error"])
def test_one_record_moves_a_score_by_its_part(scoring):
    rng = np.random.default_rng(0)
    model = clone(RIDGE if "squared" in scoring else LOGISTIC).set_params(epsilon=1e4, delta=1e-2)
    target = 3 * X[:, 0] if "squared" in scoring else Y
    fitted = clone(model).fit(X, target)
    fitted.coef_ = 50 * fitted.coef_  # so that losses reach their ends
    score = score_of(scoring, fitted, {})
    held, labels = X[:20].copy(), target[:20].copy()
    moved = []
    for _ in range(300):
        before = score.mean(fitted, held, labels)
        other, other_labels = held.copy(), labels.copy()
        other[3] = rng.uniform(-50, 50, 3)
        # 2 is not among the classes
        other_labels[3] = rng.uniform(-1e3, 1e3) if "squared" in scoring else rng.integers(0, 3)
        moved.append(abs(score.mean(fitted, other, other_labels) - before))
        assert 0 <= before <= 1
    assert 0.9 / 20 <= max(moved) <= 1 / 20 + 1e-12


@pytest.mark.slow
def test_the_winner_has_the_best_noisy_score():
    """With budget in abundance the good candidate wins. (By log loss: what is too small to move
    has the same accuracy.)
    """
    rich = {"epsilon": 500.0, "expected_trials": 40, "shape": 5.0, "random_state": 0}
    classifier = clone(LOGISTIC).set_params(solver=NoisyGD(n_steps=100, step_size=4.0))
    fitted = search(classifier, {"clip": [1e-5, 1.0]}, scoring="neg_log_loss", **rich).fit(X, Y)
    assert fitted.best_params_ == {"clip": 1.0}
    assert fitted.best_estimator_.clip == 1.0
    assert fitted.score(X, Y) > 0.8
    ridge = clone(RIDGE).set_params(solver=NoisyGD(n_steps=100))
    assert search(ridge, {"clip": [1e-6, 1.0]}, **rich).fit(X, X[:, 0]).best_params_ == {
        "clip": 1.0
    }


# --- what is shown --------------------------------------------------------------------------------


def test_nothing_but_the_winner_is_shown():
    fitted = search().fit(X, Y)
    learnt = {name for name in vars(fitted) if name.endswith("_")}
    assert learnt == {
        *("mechanism_", "privacy_", "bound_", "delta_", "epsilon_", "n_samples_", "leaks_"),
        *("sources_", "bought_", "best_estimator_", "best_params_", "best_score_"),
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


@pytest.mark.parametrize("estimator", [LOGISTIC, RIDGE], ids=lambda model: type(model).__name__)
def test_no_trial_has_an_answer_that_does_not_depend_on_the_data(estimator, monkeypatch):
    monkeypatch.setattr(private_search, "number_of_trials", lambda mechanism, generator: 0)
    first, second = (search(estimator, **POISSON).fit(*rows) for rows in ((X, Y), (3 * X, 1 - Y)))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert np.unique(first.predict(X)).size == 1
    assert first.best_params_ == {}
    assert math.isnan(first.best_score_)
    assert first.epsilon_ == pytest.approx(2.0)
    assert total_privacy(first).guarantee == first.privacy_


def test_an_error_leaves_a_search_as_it_was(monkeypatch):
    fitted = search().fit(X, Y)
    before = dict(vars(fitted))
    # the last thing that can fail
    monkeypatch.setattr(private_search, "validate_data", lambda *args, **kwargs: 1 / 0)
    monkeypatch.setattr(private_search, "number_of_trials", lambda mechanism, generator: 0)
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        fitted.fit(X, Y)
    assert vars(fitted) == before


def test_poisson_may_make_no_trial():
    (generator,) = generators(3)
    record = Selection(trial=GaussianDP(0.1), expected_trials=1.0, shape=math.inf)
    assert min(_trials.number_of_trials(record, generator) for _ in range(100)) == 0
    seeds = (seed for seed in range(100))
    while (
        search(**POISSON, random_state=next(seeds))
        .set_params(expected_trials=1)
        .fit(X, Y)
        .best_params_
    ):
        # of one hundred seeds one has T = 0 but with probability 1e-20, and the seeds are fixed
        pass


# --- a simulated attack ---------------------------------------------------------------------------


class Mean:
    """A trial as private as its plan says, and no more: one record moves its coefficient by 2,
    under noise of 2/mu.
    """

    def __init__(self, plan, rows, noise):
        self.privacy_ = GaussianDP(plan.fit_mu)
        self.coef_ = rows[0, 0] + noise.standard_normal() * 2 / plan.fit_mu

    def _sign(self):
        """Sign no map of rows: there is none."""


def attack(plan, chosen, n_runs, monkeypatch):
    """The winner's coefficient when the attacked record is there, and when it is another, by a
    score that rewards it.
    """
    noise = np.random.default_rng(0)

    def trial(estimator, score, rows, labels, held, held_labels, given):
        fitted = Mean(plan, rows, noise)
        return fitted, 1 / (1 + math.exp(-fitted.coef_))  # in [0, 1], as every score

    monkeypatch.setattr(private_search, "run_trial", trial)
    # thousands of searches, of which nothing but the trials' number, noise and choice is attacked
    monkeypatch.setattr(_candidates.Candidates, "build", lambda *_: None)
    chosen._plan = lambda *_: plan
    outcomes = [[], []]
    for outcome, sign in zip(outcomes, (1.0, -1.0), strict=True):
        rows = np.vstack([[[sign, 0.0]], np.zeros((9, 2))])
        outcome += [
            chosen.fit(rows, np.ones(10, dtype=int)).best_estimator_.coef_ for _ in range(n_runs)
        ]
    return np.array(outcomes)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon=0.0"),
        ({"delta": 0.0}, ValueError, "delta=0"),
        ({"expected_trials": 0.5}, ValueError, "expected_trials=0.5"),
        ({"expected_trials": "many"}, ValueError, "expected_trials='many'"),
        ({"trials": "geometric"}, ValueError, "trials='geometric'"),
        ({"shape": -0.5}, ValueError, "shape=-0.5"),
        ({"scoring": "roc_auc"}, ValueError, "scoring='roc_auc'"),
        ({"scoring": "neg_mean_squared_error"}, ValueError, "scoring='neg_mean_squared_error'"),
        ({"test_size": 0.0}, ValueError, "test_size=0.0"),
        ({"test_size": 200}, ValueError, "test_size=200"),
        ({"test_size": True}, ValueError, "test_size=True"),
        ({"holdout": [0, 0]}, ValueError, "holdout"),
        ({"holdout": [200]}, ValueError, "holdout"),
        ({"holdout": np.zeros(200, dtype=bool)}, ValueError, "holdout"),
        ({"grid": {}}, ValueError, None),
        ({"grid": []}, ValueError, "param_grid"),
        ({"grid": [1]}, TypeError, "Parameter grid"),
        ({"grid": {"clip": []}}, ValueError, "clip"),
        ({"grid": {"clip": "auto"}}, TypeError, "clip"),
        ({"grid": {"solver__n_stepz": [3]}}, ValueError, "n_stepz"),
        ({"estimator": LogisticRegression()}, ValueError, "no privacy_cost"),
        (
            {"estimator": clone(LOGISTIC).set_params(random_state=1)},
            ValueError,
            "would repeat the noise in every trial",
        ),
        ({"grid": {"clip": {0.3, 0.6}}}, TypeError, "clip"),
        ({"grid": {"alpha": stats.uniform(0, 0.1)}}, TypeError, "alpha"),
        (
            {"epsilon": 1e-6},
            CalibrationError,
            "epsilon is so small that .* nothing is left for one trial",
        ),
        ({"epsilon": 1e-9}, CalibrationError, "epsilon"),
    ],
)
def test_senseless_searches_are_refused(changes, error, message):
    if message is None:  # a grid without parameters has one point: the estimator itself
        assert search(**changes).fit(X, Y).best_params_ == {}
        return
    with pytest.raises(error, match=message):
        search(**changes).fit(X, Y)


def test_a_search_in_a_search_is_refused():
    with pytest.raises(ValueError, match="cannot be searched"):
        search(search(), {"expected_trials": [2]}).fit(X, Y)


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


@pytest.mark.parametrize(
    "y",
    [
        X[:, 0].astype(str),
        X[:, 0].astype(str).tolist(),
        pd.Series(pd.to_timedelta(X[:, 0], unit="D")),
        pd.date_range("2020", periods=200),
    ],
    ids=["strings", "list of strings", "durations", "dates"],
)
def test_targets_that_the_model_refuses_are_refused(y):
    for estimator in (RIDGE, search(RIDGE, {"clip": [0.3]})):
        with pytest.raises(
            ValueError, match=r"y holds no numbers: regression needs a target of numbers"
        ):
            clone(estimator).fit(X, y)


def test_dates_are_refused_as_the_model_refuses_them():
    rows = pd.DataFrame(X).assign(day=pd.Timestamp("2020-01-01"))
    for estimator in (LOGISTIC, search()):
        with pytest.raises(ValueError, match="X holds dates or times"):
            clone(estimator).fit(rows, Y)


FREE = [
    BoundsScaler((-1, 1)),
    Normalizer(),
    PolynomialFeatures(2),
    FunctionTransformer(np.arctan),
    FunctionTransformer(),
    "passthrough",
    make_pipeline(Normalizer(), BoundsScaler((0, 1))),
    make_union(Normalizer(), BoundsScaler((0, 1))),
    make_column_transformer(
        (BoundsScaler((0, 1)), [0]), remainder="passthrough", sparse_threshold=0
    ),
    make_column_transformer((Normalizer(), [0]), remainder="passthrough", sparse_threshold=0),
    FunctionTransformer(np.arctan, np.tan, check_inverse=False),
    SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True),
    MissingIndicator(features="all"),
    BoundsScaler((-1, 1), missing="indicator"),
    SplineTransformer(knots=np.linspace([-1.0] * 3, [1.0] * 3, 5)),
    FunctionTransformer(np.digitize, kw_args={"bins": [-0.5, 0.0, 0.5]}),
    FunctionTransformer(np.clip, kw_args={"a_min": -0.5, "a_max": 0.5}),
    TfidfTransformer(use_idf=False, sublinear_tf=False),
    GaussianRandomProjection(2, random_state=0),
    SparseRandomProjection(2, random_state=0),
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
    _LearnsBounds(),
    _Centres(),
    _PipelineOfItsOwn([("scaler", BoundsScaler((0, 1)))]),
    StandardScaler(),
    FunctionTransformer(lambda rows: rows - rows.mean(axis=0)),
    OneHotEncoder(),
    OneHotEncoder(categories=[[0, 1]] * 3, min_frequency=3),
    OrdinalEncoder(),
    make_pipeline(Normalizer(), StandardScaler()),
    make_union(Normalizer(), StandardScaler()),
    make_column_transformer((BoundsScaler((0, 1)), [0]), remainder=StandardScaler()),
    make_column_transformer((BoundsScaler((0, 1)), lambda rows: [0])),
    FrozenEstimator(FunctionTransformer(lambda rows: rows / np.abs(rows).max())),
    FunctionTransformer(np.frompyfunc(lambda number: number, 1, 1)),
    FunctionTransformer(np.arctan, kw_args={"out": np.empty((200, 3))}),
    OneHotEncoder(categories=[[0, 1]] * 3, drop="first", handle_unknown="ignore"),
    make_column_transformer((Normalizer(), [0]), remainder="passthrough"),
    FunctionTransformer(np.square, np.sqrt),
    SimpleImputer(keep_empty_features=True),
    SimpleImputer(strategy="constant", fill_value=0.0),
    SimpleImputer(
        strategy="constant", fill_value=0.0, keep_empty_features=True, add_indicator=True
    ),
    SimpleImputer(strategy="constant", keep_empty_features=True),
    MissingIndicator(),
    SplineTransformer(),
    SplineTransformer(knots="quantile"),
    SplineTransformer(knots=np.linspace([-1.0] * 3, [1.0] * 3, 5), extrapolation="error"),
    TfidfTransformer(),
    KBinsDiscretizer(),
    FunctionTransformer(np.digitize, kw_args={"bins": [0.0], "x": 0}),
    FunctionTransformer(np.searchsorted, kw_args={"v": [0.0]}),
    type("SplineTransformer", (SplineTransformer,), {"__module__": "elsewhere"})(
        knots=np.linspace([-1.0] * 3, [1.0] * 3, 5)
    ),
]


@pytest.mark.parametrize("step", FREE, ids=lambda step: type(step).__name__)
def test_steps_that_learn_public_numbers_are_free(step):
    pipeline = make_pipeline(step, LOGISTIC)
    fitted = search(pipeline, {"privatelogisticregression__clip": [0.3, 0.6]}).fit(X, Y)
    assert fitted.best_estimator_[-1].privacy_ == fitted.privacy_
    assert total_privacy(fitted.best_estimator_).guarantee == fitted.privacy_


def test_a_cost_needs_the_columns_that_reach_the_model():
    encoder = make_column_transformer(
        (OneHotEncoder(categories=[["a", "b"]]), ["sex"]),
        (BoundsScaler((-1, 1)), ["age"]),
        sparse_threshold=0,
    )
    model = clone(LOGISTIC).set_params(solver="objective_perturbation")  # its cost depends on them
    pipeline = search(
        make_pipeline(encoder, model), {"privatelogisticregression__clip": [0.3, 0.6]}
    )
    with pytest.raises(ValueError, match=r"rows of zeros .*of the model alone"):
        pipeline.privacy_cost(200, 2)
    people = pd.DataFrame({"sex": np.where(X[:, 1] > 0, "a", "b"), "age": X[:, 0]})
    assert pipeline.fit(people, Y).privacy_ == search(model, {"clip": [0.3, 0.6]}).privacy_cost(
        200, 3
    )


@pytest.mark.parametrize("step", NOT_FREE, ids=lambda step: type(step).__name__)
def test_steps_that_learn_without_privacy_are_refused(step):
    pipeline = make_pipeline(step, LOGISTIC)
    with pytest.raises(ValueError, match=r"learns?|may mix|choose|warns"):
        search(pipeline, {"privatelogisticregression__clip": [0.3, 0.6]}).fit(X, Y)
    with pytest.raises(ValueError, match=r"learns?|may mix|choose|warns"):
        search_privacy(pipeline, n_samples=200, n_features=3)
    with pytest.raises(ValueError, match="no total is known"):
        total_privacy(step)


# --- what searches that are not private spent -----------------------------------------------------

MANY = {"clip": [0.3, 0.6, 1.0], "alpha": [1e-3, 1e-2]}


def priced(*args, **kwargs):
    with pytest.warns(PrivacyLeakWarning, match="without noise"):
        return search_privacy(*args, **kwargs)


@pytest.mark.slow
def test_a_grid_search_is_counted_fit_by_fit(monkeypatch):
    model = clone(LOGISTIC).set_params(delta="auto")
    sizes, fit = [], PrivateLogisticRegression.fit

    def counted(self, rows, y):
        sizes.append(len(y))
        return fit(self, rows, y)

    monkeypatch.setattr(PrivateLogisticRegression, "fit", counted)
    for cv, refit in (
        (KFold(5), True),
        (KFold(3, shuffle=True), False),
        (5, True),
        (RepeatedKFold(n_splits=4, n_repeats=2), True),
    ):
        sizes.clear()
        fitted = GridSearchCV(model, MANY, cv=cv, refit=refit).fit(X[:199], Y[:199])
        total = priced(fitted, 199, n_features=3)
        assert sorted(int(name.split()[2]) for name, _ in total.parts if name != "refit") == sorted(
            sizes[: len(sizes) - refit]
        )
        assert len(total.parts) == len(sizes)
        spent = sum(model.privacy_cost(size, 3).mu ** 2 for size in sizes)
        assert total.guarantee.mu == pytest.approx(math.sqrt(spent), rel=1e-12)
        assert any("scores" in leak for leak in total.leaks)
        assert any("stratified" in leak for leak in total.leaks) == (cv == 5)
        if refit:
            assert priced(fitted).guarantee == total.guarantee


def test_hyperparameters_that_change_the_cost_are_counted_as_they_are():
    grid = {"epsilon": [0.5, 1.0, 2.0]}
    fitted = RandomizedSearchCV(
        clone(LOGISTIC).set_params(delta=1e-4), grid, n_iter=3, cv=KFold(4), refit=False
    ).fit(X, Y)
    costs = [
        clone(LOGISTIC).set_params(epsilon=epsilon, delta=1e-4).privacy_cost(150, 3).mu
        for epsilon in grid["epsilon"]
    ]
    assert priced(fitted, 200, n_features=3).guarantee.mu == pytest.approx(
        math.sqrt(4 * np.sum(np.square(costs))), rel=1e-12
    )


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
    assert (
        priced(model.fit(X, Y), cv=cv, n_samples=200, n_features=3).guarantee.mu
        == total.guarantee.mu
    )


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
    total = priced(
        clone(RIDGE).set_params(epsilon=1.0, delta=1e-4),
        cv=LeaveOneOut(),
        n_samples=20,
        n_features=3,
    )
    one = clone(RIDGE).set_params(epsilon=1.0, delta=1e-4).privacy_cost(19, 3)
    assert total.guarantee.mu == pytest.approx(one.mu * math.sqrt(20))
    nested = priced(search(), cv=KFold(4), n_samples=200, n_features=3)
    assert nested.guarantee.epsilon(1e-4) > search().privacy_cost(150, 3).epsilon(1e-4)
    assert nested.guarantee.rdp(9.0) == pytest.approx(4 * search().privacy_cost(150, 3).rdp(9.0))


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
    """Scikit-learn's ColumnTransformer keeps rows sparse where few enough values of all records
    together are stored.
    """
    scaler, encoder = BoundsScaler((0, 1)), OneHotEncoder(categories=[["a", "b", "c"]])
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


def test_the_seed_of_a_private_search_is_told():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        total = search_privacy(search(random_state=0), n_samples=200, n_features=3)
    assert any("random_state=0" in leak for leak in total.leaks)


def test_totals_compose():
    model = clone(LOGISTIC).set_params(epsilon=1.0, delta=1e-4)
    one, other = clone(model).fit(X, Y), clone(model).set_params(epsilon=0.5).fit(X, Y)
    total = total_privacy(
        one,
        make_pipeline(Normalizer(), other),
        GaussianDP(0.2),
        tightest(Gaussian(5.0)),
        BoundsScaler((0, 1)),
    )
    assert total.guarantee.mu == pytest.approx(
        math.sqrt(one.privacy_.mu**2 + other.privacy_.mu**2 + 2 * 0.2**2), rel=1e-12
    )
    assert [name for name, _ in total.parts] == ["PrivateLogisticRegression"] * 2 + [
        "GaussianDP"
    ] * 2
    assert total_privacy(total, GaussianDP(0.3)).guarantee.mu == pytest.approx(
        math.hypot(total.guarantee.mu, 0.3), rel=1e-12
    )
    assert total.guarantee.epsilon(1e-4) > 1.0
    assert GaussianDP(0.3).compose(total).mu == pytest.approx(math.hypot(total.guarantee.mu, 0.3))
    text = str(total)
    assert "2 x GaussianDP" in text
    assert f"{total.guarantee.epsilon(1e-4):.6g}" in text.splitlines()[-1]
    assert f"{total.guarantee.epsilon(1e-3):.6g}" in total.report(delta=1e-3)
    assert pickle.loads(pickle.dumps(total)) == total
    assert total_privacy(BoundsScaler((0, 1))).guarantee.mu == 0
    with_search = total_privacy(search().fit(X, Y), one)
    assert with_search.guarantee.epsilon(1e-4) > 2.0
    grid = GridSearchCV(model, {"clip": [0.3, 0.6]}, cv=KFold(4)).fit(X, Y)
    assert total_privacy(grid).guarantee == priced(grid).guarantee
    assert "NOT PRIVATE: scores" in str(total_privacy(grid))


def test_leaks_are_carried():
    seeded = clone(LOGISTIC).set_params(random_state=1, classes="from_y").fit(X, Y)
    assert total_privacy(seeded, seeded).leaks == seeded.leaks_
    assert len(seeded.leaks_) == 2
    total = priced(
        clone(LOGISTIC).set_params(random_state=1, classes="from_y"), n_samples=200, n_features=3
    )
    assert [leak for leak in total.leaks if "random_state=1" in leak or "classes" in leak] == list(
        total.leaks[-2:]
    )
    assert (
        priced(search(clone(LOGISTIC).set_params(classes="from_y")), n_samples=200, n_features=3)
        .leaks[-1]
        .startswith("classes")
    )


def test_disjoint_parts_cost_the_worst():
    parts = (
        GaussianDP(0.3),
        GaussianDP(0.4),
        make_pipeline(clone(LOGISTIC).set_params(epsilon=1e-3, delta=1e-4).fit(X, Y)),
    )
    assert total_privacy(*parts, disjoint=True).guarantee == GaussianDP(0.4)
    chosen = search().fit(X, Y)
    mixed = total_privacy(chosen, GaussianDP(0.4), disjoint=True)
    assert mixed.guarantee.rdp(9.0) == max(chosen.privacy_.rdp(9.0), GaussianDP(0.4).rdp(9.0))
    sampled = subsampling(
        PoissonSubsampled(sampling_probability=0.1, noise_multiplier=1.0, n_steps=5)
    )
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
    """A step without a state that warns, differently each time, so that no filter takes two
    warnings for one.
    """

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
    for seed in range(4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search(
                pipeline,
                {"privatelogisticregression__clip": [0.3, 0.6]},
                random_state=seed,
                expected_trials=6,
            ).fit(X, Y)
        assert not any("complaint" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("kind", ["neg_log_loss", "neg_mean_squared_error"])
def test_one_held_out_record_cannot_make_a_score_nan(kind):
    fitted, target = (
        (clone(LOGISTIC).fit(X, Y), Y)
        if kind == "neg_log_loss"
        else (clone(RIDGE).fit(X, Y.astype(float)), Y * 1.0)
    )
    score = score_of(kind, fitted, {})
    fitted.coef_ = np.full_like(fitted.coef_, math.nan)
    with np.errstate(invalid="ignore"):
        assert score.mean(fitted, X, target) == 0.0


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_missing_targets_are_refused(bad):
    target = pd.Series(X[:, 0], dtype=object)
    target[7] = bad
    for model in (
        RIDGE,
        search(RIDGE, {"clip": [0.3]}),
        search(clone(RIDGE).set_params(target_bounds="from_y"), {"clip": [0.3]}),
    ):
        with pytest.raises(ValueError, match=r"contains NaN|contains infinity"):
            clone(model).fit(X, target)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_jobs": 2.5}, "n_jobs=2.5 must be None or an integer"),
        ({"param_grid": {1: [2]}}, "param_grid holds 1"),
        ({"param_grid": {"clip": iter([0.1])}}, "clip"),
    ],
)
def test_more_senseless_parameters(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        search().set_params(**changes).fit(X, Y)


@pytest.mark.parametrize("shape", [(400.7, 4), ("a", 4), (400, "a"), (400, -1), (True, 4)])
def test_the_cost_of_senseless_shapes(shape):
    for model in (LOGISTIC, search(), PrivateScaler()):
        with pytest.raises(ValueError, match=r"n_(samples|features)=.* must be an integer >= 1"):
            model.privacy_cost(*shape)


def test_a_model_that_keeps_the_records_is_not_free():
    """Predictors that call what they do with records no fit have no transform."""
    with pytest.raises(ValueError, match="no total is known: GaussianProcessRegressor learns"):
        total_privacy(GaussianProcessRegressor(optimizer=None).fit(X, Y))
    with pytest.raises(ValueError, match="GaussianProcessRegressor learns"):
        total_privacy(
            make_pipeline(BoundsScaler((-1, 1)), GaussianProcessRegressor(optimizer=None)).fit(X, Y)
        )


def test_private_scalers_anywhere_are_counted():
    scaler = PrivateScaler(epsilon=0.3, delta=1e-4)
    union = make_union(scaler, BoundsScaler((-1, 1))).fit(X)
    columns = make_column_transformer(
        (scaler, [0, 1]), (BoundsScaler((-1, 1)), [2]), sparse_threshold=0
    )
    columns.fit(X)
    cost = scaler.privacy_cost(*X.shape)
    for composite in (union, columns, make_pipeline(columns, BoundsScaler((-1, 1))).fit(X)):
        assert total_privacy(composite).guarantee == cost
    with pytest.raises(ValueError, match="PrivateScaler spends a budget of its own"):
        search_privacy(make_pipeline(union, LOGISTIC), n_samples=200, n_features=3)


def test_a_search_is_counted_with_its_private_scaler():
    pipeline = make_pipeline(PrivateScaler(0.5, 1e-4), clone(LOGISTIC).set_params(delta=1e-4))
    grid = {"privatescaler__epsilon": [0.3, 0.5], "privatelogisticregression__clip": [0.3, 0.6]}
    fitted = GridSearchCV(pipeline, grid, cv=KFold(4)).fit(X, Y)
    scalers = [
        PrivateScaler(epsilon, 1e-4).privacy_cost(150, 3).mu for epsilon in (0.3, 0.3, 0.5, 0.5)
    ]
    fits = sum(4 * (mu**2 + pipeline[-1].privacy_cost(150, 3).mu ** 2) for mu in scalers)
    refit = sum(step.privacy_.mu**2 for step in fitted.best_estimator_)
    assert priced(fitted).guarantee.mu == pytest.approx(math.sqrt(fits + refit), rel=1e-8)
    assert total_privacy(fitted).guarantee == priced(fitted).guarantee
    runs = cross_validate(pipeline, X, Y, cv=KFold(4), return_estimator=True)["estimator"]
    assert priced(pipeline, cv=KFold(4), n_samples=200, n_features=3).guarantee.mu == pytest.approx(
        total_privacy(*runs).guarantee.mu, rel=1e-8
    )
    seeded = make_pipeline(PrivateScaler(0.5, 1e-4, random_state=3), LOGISTIC)
    assert any(
        "random_state=3" in leak for leak in priced(seeded, n_samples=200, n_features=3).leaks
    )
    with pytest.raises(
        ValueError, match="spends a budget of its own, where one budget has to pay for all"
    ):
        search(pipeline).fit(X, Y)


def test_a_grid_search_can_be_priced_before_it_is_fitted():
    model = clone(LOGISTIC).set_params(delta=1e-4)
    for grid, refit in (
        ({"epsilon": [0.5, 1.0, 2.0]}, True),
        ({"epsilon": [0.5, 1.0]}, False),
        ([{"clip": [0.3]}, {}], True),
    ):
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
    for unknown in (
        RandomizedSearchCV(model, {"clip": [0.3, 0.6]}),
        HalvingGridSearchCV(model, {"clip": [0.3, 0.6]}),
    ):
        with pytest.raises(
            ValueError, match="its candidates are not known, since it is not fitted"
        ):
            search_privacy(unknown, 200, n_features=3)
        with pytest.raises(
            ValueError, match="what it released is not known, since it is not fitted"
        ):
            total_privacy(unknown)


def test_candidates_that_change_columns_anywhere_are_seen():
    # its cost depends on them
    model = clone(LOGISTIC).set_params(delta=1e-4, solver="objective_perturbation")
    inner = Pipeline([("terms", PolynomialFeatures(1)), ("model", model)])
    outer = Pipeline([("bounds", BoundsScaler((-1, 1))), ("rest", inner)])
    replaced = Pipeline([("bounds", BoundsScaler((-1, 1))), ("model", model)])
    for pipeline, grid in (
        (outer, {"rest__terms__degree": [1, 3]}),
        (replaced, {"model": [model, make_pipeline(PolynomialFeatures(3), model)]}),
    ):
        fitted = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
        with pytest.raises(
            ValueError, match="depends on the number of columns, which candidates may change"
        ):
            search_privacy(fitted)
    assert (
        priced(
            GridSearchCV(outer, {"rest__model__clip": [0.3, 0.5]}, cv=2).fit(X, Y)
        ).guarantee.epsilon(1e-4)
        > 1
    )


def test_an_estimator_that_was_changed_after_the_search_is_refused():
    fitted = GridSearchCV(clone(LOGISTIC).set_params(delta=1e-4), {"clip": [0.3, 0.6]}, cv=2).fit(
        X, Y
    )
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
    fitted = GridSearchCV(clone(LOGISTIC).set_params(delta=1e-4), {"clip": [0.3]}, cv=cv).fit(X, Y)
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
    fitted = GridSearchCV(clone(LOGISTIC).set_params(delta=1e-4), {"clip": [0.3]}, cv=2).fit(X, Y)
    fitted.cv_results_ = None
    with pytest.raises(ValueError, match="what it released is not known"):
        total_privacy(fitted)
    with pytest.raises(ValueError, match=r"param_grid=\[\] has no candidates"):
        search_privacy(GridSearchCV(LOGISTIC, []), 200, n_features=3)


def test_advice_on_meta_estimators():
    model = clone(LOGISTIC).set_params(delta=1e-4)
    voting = VotingClassifier([("one", model)]).fit(X, Y)
    with pytest.raises(
        ValueError,
        match=r"takes the labels that occur from y and shows them without noise: "
        r"pass what was fitted in it, total_privacy\(\*fitted.estimators_\)",
    ):
        total_privacy(voting)
    assert total_privacy(*voting.estimators_).guarantee.mu == pytest.approx(
        voting.estimators_[0].privacy_.mu
    )
    for other, message in (
        (BaggingClassifier(model), "copies of records .k copies cost as k"),
        (OneVsOneClassifier(model), "chooses records by their labels"),
        (TunedThresholdClassifierCV(model), "use FixedThresholdClassifier"),
        (AdaBoostClassifier(model), "Nor is a total known of the private fits inside it"),
    ):
        with pytest.raises(ValueError, match=message) as refused:
            total_privacy(other)
        assert "estimators_)" not in str(refused.value)
    with pytest.raises(
        ValueError,
        match=(
            r"StandardScaler learns means and variances from the records: use BoundsScaler or "
            r"PrivateScaler$"
        ),
    ):
        total_privacy(StandardScaler())


def test_every_label_is_checked_whichever_records_are_held_out():
    wrong = np.where(np.arange(200) == 3, 9, Y)
    for seed in range(10):
        search = PrivateSearchCV(LOGISTIC, GRID, epsilon=50.0, expected_trials=2, random_state=seed)
        with pytest.raises(ValueError, match="y holds labels that are not in classes"):
            search.fit(X, wrong)


def test_marks_stay_wherever_a_total_goes():
    seeded = clone(LOGISTIC).set_params(delta=1e-4, random_state=0).fit(X, Y)
    total = total_privacy(seeded)
    assert total.leaks
    for use in (GaussianDP(1.0).compose, lambda trial: Selection(trial=trial, expected_trials=3.0)):
        with pytest.raises(
            ValueError,
            match=r"PrivacyTotal that does not cover all .* would be taken for a plain guarantee",
        ):
            use(total)
    assert total.compose(GaussianDP(1.0)).leaks == total.leaks
    report = privacy_report(
        seeded.mechanism_,
        total,
        delta=1e-4,
        bound=seeded.bound_,
        assumed=Assumed(leaks=["another"]),
    )
    assert report.as_dict()["assumed"]["not private in this run"] == ["another", *total.leaks]
    assert TradeoffDisplay.from_guarantee(total, plot=False).name == "NOT PRIVATE"


def test_splits_by_groups_are_passed():
    groups, model = np.arange(200) % 7, clone(LOGISTIC).set_params(delta=1e-4)
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
    with pytest.raises(ValueError, match="made 3 splits"):
        search_privacy(fitted, cv=pairs[:2])
    with pytest.raises(ValueError, match="it makes none"):
        search_privacy(model, 200, n_features=3, cv=[])
    labelled = GridSearchCV(model, {"clip": [0.3]}, cv=StratifiedGroupKFold(3)).fit(
        X, Y, groups=groups
    )
    assert any(
        "stratified by y" in leak
        for leak in priced(labelled, cv=list(labelled.cv.split(X, Y, groups))).leaks
    )
    known = GridSearchCV(model, {"clip": [0.3, 0.6]}, cv=KFold(3)).fit(X, Y)
    for search_, cv in (
        (known, pairs),
        (known, 3),
        (known, "nonsense"),
        (fitted, KFold(3)),
        (clone(known), pairs),
    ):
        with pytest.raises(ValueError, match="a search knows its own"):
            search_privacy(search_, 200, n_features=3, cv=cv)


def test_a_total_composes_with_what_it_does_not_cover():
    with pytest.warns(PrivacyLeakWarning):
        seeded = clone(LOGISTIC).set_params(random_state=0).fit(X, Y)
    total = total_privacy(seeded).compose(GaussianDP(1.0))
    assert total.guarantee.mu == math.hypot(seeded.privacy_.mu, 1.0)
    assert total.leaks == tuple(seeded.leaks_)
    assert total_privacy(GaussianDP(1.0), total_privacy(seeded)).leaks == total.leaks


def test_what_is_no_search_is_not_taken_for_one():
    """Others have a cv, an estimator and results too, and fit them more often than once a
    candidate and split.
    """
    for other in (RFECV(LOGISTIC, cv=3), TunedThresholdClassifierCV(LOGISTIC, cv=3)):
        for estimator in (other, clone(other).fit(X, Y)):
            with pytest.raises(
                ValueError, match=f"no total is known: {type(other).__name__} learns"
            ):
                total_privacy(estimator)
            with pytest.raises(ValueError, match="has no privacy_cost"):
                search_privacy(estimator)
    with pytest.raises(ValueError, match="is not fitted again: only its first fit"):
        search_privacy(FrozenEstimator(clone(LOGISTIC).fit(X, Y)), 100, cv=3, n_features=2)


def test_a_part_without_columns_released_nothing():
    for none in ([], np.zeros(3, dtype=bool), np.array([], dtype=int)):
        parts = make_column_transformer(
            (PrivateScaler(), [0, 1, 2]), (PrivateScaler(epsilon=9.0), none), sparse_threshold=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            total = total_privacy(parts.fit(X))
        assert total.guarantee == parts.transformers_[0][1].privacy_


def test_a_search_that_cannot_be_counted_says_who_can():
    grid = GridSearchCV(LOGISTIC, GRID, refit=False).fit(X, Y)
    with pytest.raises(
        ValueError,
        match=r"n_samples=None must be given.*total_privacy\(search_privacy\(search, \.\.\.\)\)",
    ):
        total_privacy(grid)
    assert total_privacy(priced(grid, n_samples=200, n_features=3)).guarantee.mu > 0
