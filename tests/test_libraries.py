"""Private models inside other libraries: results, numbers of fits, totals, and what objects keep.

A library that is not installed is skipped by its name: pip install "skdpdyn[libraries]".
"""

import functools
import pickle
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from skdpdyn import PrivateGAMClassifier, PrivateLogisticRegression, PrivateRidge
from skdpdyn.inspection import to_shap
from skdpdyn.linear_model.base import PrivateLinearModel
from skdpdyn.model_selection import total_privacy

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore")]

N = 4000
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (N, 3))
NUMBERS = X[:, 0] - 0.5 * X[:, 1] + RNG.normal(0, 0.1, N)
LABELS = (NUMBERS > 0).astype(int)
TREATMENT = X[:, 2] + RNG.normal(0, 0.5, N)
SERIES = np.sin(np.arange(2000) / 6) + RNG.normal(0, 0.1, 2000)
RIDGE = PrivateRidge(epsilon=1e4, bounds=(-2, 2), target_bounds=(-3, 3)), Ridge()
LOGISTIC = (
    PrivateLogisticRegression(epsilon=1e4, classes=[0, 1], bounds=(-1, 1)),
    LogisticRegression(),
)


class Use(NamedTuple):
    """How a library uses a model: what it returns, in how many fits, and what its object keeps."""

    run: Any
    models: Any
    n_fits: int
    keeps: str  # "rows", "some rows" or "no rows"
    total: str  # pattern of the refusal


def frame_of(rows):
    return pytest.importorskip("pandas").DataFrame(rows, columns=list("abc"))


def imblearn(model):
    from imblearn.over_sampling import RandomOverSampler
    from imblearn.pipeline import make_pipeline

    pipeline = make_pipeline(RandomOverSampler(random_state=0), model).fit(X, LABELS)
    return pipeline, pipeline.predict_proba(X)[:, 1]


def fairlearn(model):
    from fairlearn.postprocessing import ThresholdOptimizer

    options = {"predict_method": "predict_proba", "prefit": False}
    found = ThresholdOptimizer(estimator=model, constraints="demographic_parity", **options)
    group = X[:, 2] > 0
    found.fit(X, LABELS, sensitive_features=group)
    predicted = found.predict(X, sensitive_features=group, random_state=0)
    return found, np.array([predicted[group].mean(), predicted[~group].mean()])


def mapie(model):
    from mapie.regression import SplitConformalRegressor

    found = SplitConformalRegressor(model, confidence_level=0.9, prefit=False)
    found.fit(X[:2000], NUMBERS[:2000]).conformalize(X[2000:], NUMBERS[2000:])
    return found, found.predict_interval(X)[1][:, 0, 0]


def crepes(model):
    from crepes import WrapRegressor

    found = WrapRegressor(model)
    found.fit(X[:2000], NUMBERS[:2000])
    found.calibrate(X[2000:], NUMBERS[2000:])
    return found, found.predict_int(X)[:, 0]


def econml(model):
    from econml.dml import LinearDML

    found = LinearDML(model_y=model, model_t=model, cv=2, random_state=0)
    found.fit(NUMBERS, TREATMENT, X=X[:, :1], W=X, cache_values=True)
    return found, found.const_marginal_effect(X[:5, :1]).ravel()


def doubleml(model):
    import doubleml

    data = doubleml.DoubleMLData.from_arrays(X, NUMBERS, TREATMENT)
    found = doubleml.DoubleMLPLR(data, model, model, n_folds=2).fit()
    return found, found.coef


def sktime(model):
    from sktime.forecasting.compose import make_reduction

    pandas = pytest.importorskip("pandas")
    found = make_reduction(model, window_length=12).fit(pandas.Series(SERIES))
    return found, np.ravel(found.predict([1, 2, 3]))


def skforecast(model):
    from skforecast.recursive import ForecasterRecursive

    pandas = pytest.importorskip("pandas")
    found = ForecasterRecursive(estimator=model, lags=12)
    found.fit(y=pandas.Series(SERIES))
    return found, found.predict(steps=3).to_numpy()


def dalex(model):
    import dalex

    found = dalex.Explainer(model.fit(X, NUMBERS), frame_of(X), NUMBERS, verbose=False)
    return found, found.predict(X)


def skrub(model):
    from skrub import TableVectorizer

    found = make_pipeline(TableVectorizer(), model).fit(frame_of(X), NUMBERS)
    return found, found.predict(frame_of(X))


def feature_engine(model):
    from feature_engine.imputation import MeanMedianImputer

    found = make_pipeline(MeanMedianImputer(), model).fit(frame_of(X), NUMBERS)
    return found, found.predict(frame_of(X))


def skopt(model):
    from skopt import BayesSearchCV

    search = BayesSearchCV(model, {"alpha": (1e-6, 1e-4)}, n_iter=3, cv=2, random_state=0)
    return search.fit(X, NUMBERS), search.predict(X)


def optuna(model):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        model.set_params(alpha=trial.suggest_float("alpha", 1e-6, 1e-4))
        return cross_val_score(model, X, NUMBERS, cv=2).mean()

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0), direction="maximize")
    study.optimize(objective, n_trials=3)
    return study, np.array([study.best_value])


UNKNOWN = "is not known: it may fit several models"
NEITHER = "is neither a fitted estimator nor a guarantee"
USES = {
    "imblearn": Use(imblearn, LOGISTIC, 1, "no rows", "RandomOverSampler copies"),
    "fairlearn": Use(fairlearn, LOGISTIC, 1, "no rows", "ThresholdOptimizer learns"),
    "mapie": Use(mapie, RIDGE, 1, "no rows", UNKNOWN),
    "crepes": Use(crepes, RIDGE, 1, "no rows", UNKNOWN),
    "econml": Use(econml, RIDGE, 4, "rows", UNKNOWN),
    "doubleml": Use(doubleml, RIDGE, 4, "rows", UNKNOWN),
    "sktime": Use(sktime, RIDGE, 1, "rows", UNKNOWN),
    "skforecast": Use(skforecast, RIDGE, 1, "some rows", UNKNOWN),
    "dalex": Use(dalex, RIDGE, 1, "rows", NEITHER),
    "skrub": Use(skrub, RIDGE, 1, "no rows", "TableVectorizer learns"),
    "feature_engine": Use(feature_engine, RIDGE, 1, "no rows", "MeanMedianImputer learns"),
    "skopt": Use(skopt, RIDGE, 7, "no rows", "how many fits it makes"),
    "optuna": Use(optuna, RIDGE, 6, "no rows", NEITHER),
}


def kept_in(item):
    """Return how much of the records an object's pickle holds."""
    held = item.dumps() if type(item).__module__.startswith("dalex") else pickle.dumps(item)
    cells = SERIES if b"skforecast" in held or b"sktime" in held else X[:, 1]
    part = np.mean([cell.tobytes() in held for cell in cells])
    return "rows" if part > 0.9 else "some rows" if part else "no rows"


@pytest.mark.every_case
@pytest.mark.parametrize("library", USES)
def test_models_in_other_libraries(library, monkeypatch):
    pytest.importorskip(library, reason=f"{library} is not installed")
    use = USES[library]
    model, plain = use.models
    n_fits = []
    fit = PrivateLinearModel.fit

    @functools.wraps(fit)
    def counted(*arguments, **options):
        n_fits.append(1)
        return fit(*arguments, **options)

    monkeypatch.setattr(PrivateLinearModel, "fit", counted)
    found, mine = use.run(model)
    assert len(n_fits) == use.n_fits
    _, theirs = use.run(plain)
    assert np.mean(np.abs(mine - theirs)) < 0.05
    assert kept_in(found) == use.keeps
    with pytest.raises(ValueError, match=use.total):
        total_privacy(found)


def test_the_page_on_other_libraries_has_the_fits_and_what_stays():
    page = Path(__file__).parents[1] / "doc" / "howto" / "libraries.rst"
    rows = dict(re.findall(r"\* - ``(\w+)``\s+- (.*?)\n(?=   \* -|\n)", page.read_text(), re.S))
    assert set(rows) == set(USES)
    for library, use in USES.items():
        fits, kept = rows[library].split("\n     - ")
        assert fits.startswith(str(use.n_fits))
        assert kept.startswith(use.keeps)


def test_shap_takes_the_terms_of_an_additive_model():
    shap = pytest.importorskip("shap", reason="shap is not installed")
    model = PrivateGAMClassifier(bounds=(-1, 1), classes=[0, 1]).fit(X, LABELS)
    found = to_shap(model, X[:20])
    assert type(found) is shap.Explanation
    added = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(added, model.decision_function(X[:20]), atol=1e-9)


def test_shap_explains_a_linear_model_behind_the_map_of_its_rows():
    shap = pytest.importorskip("shap", reason="shap is not installed")
    model = PrivateLogisticRegression(bounds=(-1, 1), classes=[0, 1]).fit(X, LABELS)
    *before, last = (step for _, step in model.to_sklearn().steps)
    mapped = make_pipeline(*before).transform(X[:100])
    found = shap.LinearExplainer(last, mapped)(mapped)
    added = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(added, model.decision_function(X[:100]), atol=1e-6)
