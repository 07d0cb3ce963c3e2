"""What other libraries see of an estimator: weights, steps that sample, reports, explanations."""

import functools
import importlib
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

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
from skdpdyn.inspection import to_shap
from skdpdyn.linear_model.base import PrivateLinearModel
from skdpdyn.model_selection import PrivateSearchCV, search_privacy, total_privacy
from skdpdyn.preprocessing import BoundsScaler

N = 1500
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
LABELS = (X[:, 0] > 0).astype(int)
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2, N)
MODELS = {
    "logistic": (PrivateLogisticRegression(classes=[0, 1]), LABELS),
    "softmax": (PrivateSoftmaxRegression(classes=[0, 1, 2]), LABELS),
    "hinge": (PrivateLinearSVC(classes=[0, 1]), LABELS),
    "ridge": (PrivateRidge(target_bounds=(-1, 1)), X[:, 0]),
    "poisson": (PrivatePoissonRegressor(target_bounds=(0, 2)), LABELS),
    "quantile": (PrivateQuantileRegressor(target_bounds=(-1, 1)), X[:, 0]),
    "additive classifier": (PrivateGAMClassifier(classes=[0, 1]), LABELS),
    "additive regressor": (PrivateGAMRegressor(target_bounds=(-1, 1)), X[:, 0]),
}


@pytest.mark.every_case
@pytest.mark.parametrize("name", MODELS)
def test_the_signature_of_fit_has_weights_where_they_have_bounds(name):
    model, y = MODELS[name]
    assert not has_fit_parameter(model, "sample_weight")
    model = type(model)(**model.get_params() | {"weight_bounds": (0.5, 2), "bounds": (-1, 1)})
    assert has_fit_parameter(model, "sample_weight")
    assert has_fit_parameter(model, "groups")
    assert model.fit(X, y, sample_weight=WEIGHTS).n_samples_ == N


@pytest.mark.filterwarnings("ignore")
def test_meta_estimators_hand_weights_on():
    options = {"weight_bounds": (0.5, 2), "bounds": (-1, 1), "random_state": 0}
    ridge = PrivateRidge(target_bounds=(-1, 1), **options)
    several = MultiOutputRegressor(ridge).fit(X, X[:, :2], sample_weight=WEIGHTS)
    alone = ridge.fit(X, X[:, 1], sample_weight=WEIGHTS)
    np.testing.assert_array_equal(several.estimators_[1].coef_, alone.coef_)
    logistic = PrivateLogisticRegression(classes=[0, 1], **options)
    calibrated = CalibratedClassifierCV(logistic, cv=2).fit(X, LABELS, sample_weight=WEIGHTS)
    assert calibrated.score(X, LABELS) > 0.9


class RandomOverSampler(BaseEstimator):
    """A sampler of the kind that imbalanced-learn has."""

    def fit_resample(self, X, y):
        return X, y

    def fit(self, X, y):
        return self


class OtherPipeline(Pipeline):
    """A pipeline of another library."""


def test_steps_that_sample_are_refused_by_name():
    model = PrivateLogisticRegression(classes=[0, 1])
    pipeline = OtherPipeline([("sample", RandomOverSampler()), ("model", model)])
    told = "RandomOverSampler copies or leaves out records by their labels.*class_weight"
    for ask in (
        lambda: total_privacy(pipeline),
        lambda: total_privacy(RandomOverSampler()),
        lambda: search_privacy(GridSearchCV(pipeline, {"model__alpha": [0.0]}), N, n_features=3),
        lambda: PrivateSearchCV(pipeline, {"model__alpha": [0.0]}, epsilon=1.0).fit(X, LABELS),
    ):
        with pytest.raises(ValueError, match=told):
            ask()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["outside", "inside", "around a pipeline"])
def test_a_fixed_threshold_costs_what_its_model_does(place):
    model = PrivateLogisticRegression(classes=[0, 1], bounds=(-1, 1))
    scaler = BoundsScaler((-1, 1))
    estimator = {
        "outside": FixedThresholdClassifier(model, threshold=0.3),
        "inside": make_pipeline(scaler, FixedThresholdClassifier(model, threshold=0.3)),
        "around a pipeline": FixedThresholdClassifier(make_pipeline(scaler, model)),
    }[place]
    name = next(name for name in estimator.get_params() if name.endswith("alpha"))
    search = GridSearchCV(estimator, {name: [0.0, 0.1]}, cv=2).fit(X, LABELS)
    plain = GridSearchCV(model, {"alpha": [0.0, 0.1]}, cv=2).fit(X, LABELS)
    assert search_privacy(search).guarantee == search_privacy(plain).guarantee
    with pytest.raises(ValueError, match="FixedThresholdClassifier cannot be searched"):
        PrivateSearchCV(estimator, {name: [0.0]}, epsilon=1.0).fit(X, LABELS)


@pytest.mark.parametrize("bounds", ["auto", None, (0, 1), {0: (0, 1)}])
def test_the_tag_of_sparse_rows_says_what_fit_accepts(bounds):
    model = PrivateLogisticRegression(bounds=bounds, classes=[0, 1])
    rows = sparse.csr_array(np.abs(X))
    if get_tags(model).input_tags.sparse:
        assert model.fit(rows, LABELS).n_samples_ == N
    else:
        with pytest.raises(ValueError, match="bounds would make sparse rows dense"):
            model.fit(rows, LABELS)


def test_relations_of_duckdb_are_refused_with_the_call_to_make():
    relation = type("DuckDBPyRelation", (), {})()
    with pytest.raises(ValueError, match=r"a relation of DuckDB: call .df\(\)"):
        PrivateRidge(target_bounds=(0, 1)).fit(relation, LABELS)


OTHER = {
    "bounds": (-2, 2),
    "weight_bounds": (0.1, 1),
    "categories": {"x0": ["a"]},
    "max_rows_per_person": 7,
    "data_norm": 3.0,
    "schema": Schema(bounds=(-3, 3)),
    "estimand": "rows",
}


@pytest.mark.every_case
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_a_report_is_of_the_fit_whatever_parameters_become(name):
    model, y = MODELS[name]
    model = type(model)(**model.get_params()).fit(X, y)
    told = str(model.privacy_report())
    for parameter, value in model.get_params(deep=False).items():
        model.set_params(**{parameter: OTHER.get(parameter, "something else")})
        assert str(model.privacy_report()) == told, parameter
        model.set_params(**{parameter: value})


def test_terms_are_shap_values_that_add_up(monkeypatch):
    classes = np.searchsorted([-0.3, 0.3], X[:, 0])
    for model, raw in (
        (PrivateGAMClassifier(bounds=(-1, 1), classes=[0, 1, 2]), "decision_function"),
        (PrivateGAMRegressor(bounds=(-1, 1), target_bounds=(-20, 20)), "predict"),
    ):
        found = to_shap(model.fit(X, classes), X[:50])
        added = found.values.sum(axis=1) + found.base_values
        np.testing.assert_allclose(added, getattr(model, raw)(X[:50]), atol=1e-9)
        assert found.feature_names == list(model.terms_[1:])
    # where the library is there, its own class
    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace(Explanation=dict))
    assert set(to_shap(model, X[:2])) == {"values", "base_values", "data", "feature_names"}
    with pytest.raises(TypeError, match="PrivateRidge, which has no terms"):
        to_shap(PrivateRidge(), X)


@pytest.mark.parametrize("groups", [None, np.arange(N) // 2], ids=["records", "persons"])
def test_searches_hand_weights_to_trials_and_scores(groups, monkeypatch):
    handed = []
    fit = PrivateLinearModel.fit

    @functools.wraps(fit)
    def seen(*arguments, **options):
        handed.append(options["sample_weight"])
        return fit(*arguments, **options)

    monkeypatch.setattr(PrivateLinearModel, "fit", seen)
    model = PrivateLogisticRegression(classes=[0, 1], bounds=(-1, 1), weight_bounds=(0.5, 2))
    search = PrivateSearchCV(model, {"alpha": [0.0, 1e-3]}, epsilon=3.0, random_state=0)
    assert has_fit_parameter(search, "sample_weight")
    search.fit(X, LABELS, groups=groups, sample_weight=WEIGHTS)
    for weights in handed:
        np.testing.assert_allclose(weights, WEIGHTS, rtol=1e-15)
    assert search.best_score_ > 0.9
    with pytest.raises(ValueError, match=r"weight_bounds=\(0.5, 2\): pass sample_weight"):
        search.fit(X, LABELS)
    search.set_params(param_grid={"weight_bounds": [(0.5, 2), (0.5, 3)]})
    with pytest.raises(ValueError, match="weight_bounds must be those of the estimator"):
        search.fit(X, LABELS, sample_weight=WEIGHTS)
    search.set_params(estimator=PrivateLogisticRegression(classes=[0, 1]), param_grid={})
    assert not has_fit_parameter(search, "sample_weight")
