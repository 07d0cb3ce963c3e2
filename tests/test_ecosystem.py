"""At peace with scikit-learn: what pipelines and meta-estimators leak is told, step by step."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import FixedThresholdClassifier, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skdpdyn import PrivateGAMClassifier, PrivateLogisticRegression, PrivateRidge
from skdpdyn.inference import private_regression
from skdpdyn.model_selection import PrivateSearchCV, search_privacy, total_privacy
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
Y = (X[:, 0] > 0).astype(int)
TARGET = np.exp(X[:, 1])


def logistic(**changes):
    return PrivateLogisticRegression(**({"classes": [0, 1], "delta": 1e-4} | changes))


def ridge():
    return PrivateRidge(target_bounds=(-1, 1), delta=1e-4)


class Mine(TransformerMixin, BaseEstimator):
    def transform(self, rows):
        return rows


def log_of_row(rows):
    return np.log1p(np.abs(rows))


# --- the pipeline that leaks says so --------------------------------------------------------------


SCALER = (
    "  step 'scale': StandardScaler learns means and variances from the records: "
    "use BoundsScaler or PrivateScaler"
)
DIRECTIONS = (
    "  step 'columns__pca': PCA learns directions from the records: leave it out, "
    "conditioning='auto' of the model learns directions within the budget"
)
SPARSE = (
    "  step 'columns': Pass sparse_threshold=0 to ColumnTransformer: with 0.3 it may choose "
    "between sparse and dense rows by how many values of all records are zero"
)


def test_each_step_that_learns_has_a_line_with_the_remedy():
    pipeline = Pipeline(
        [
            ("scale", StandardScaler()),
            ("columns", make_column_transformer((PCA(1), [0]), remainder="passthrough")),
            ("model", logistic()),
        ]
    ).fit(X, Y)
    with pytest.raises(ValueError, match="no total is known") as refused:
        total_privacy(pipeline)
    assert str(refused.value).splitlines() == ["no total is known:", SCALER, DIRECTIONS, SPARSE]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (SimpleImputer(), r"SimpleImputer learns .*: pass strategy='constant', fill_value"),
        (OneHotEncoder(), r"OneHotEncoder learns categories .*: pass categories=\[\[\.\.\.\]"),
        (TfidfVectorizer(), "TfidfVectorizer learns a vocabulary .*: use HashingVectorizer"),
        (SelectKBest(), "SelectKBest learns .* which columns to keep: name the columns"),
        (LogisticRegression(), "LogisticRegression learns .*: use PrivateLogisticRegression"),
        (RidgeCV(), "RidgeCV learns from the records without privacy$"),
        (Mine(), "Mine learns .* requires_fit=False"),
        (FunctionTransformer(np.sort), r"\(sort\) may mix records.*row_wise = True"),
        (FunctionTransformer(np.cumsum), r"\(cumsum\) may mix records"),
        (FunctionTransformer(lambda rows: rows), "may mix records"),
        (FunctionTransformer(np.log1p, kw_args={"where": True}), "log1p.*with kw_args.*may mix"),
        (logistic(), "PrivateLogisticRegression is not fitted"),
        (FixedThresholdClassifier(logistic()), "FixedThresholdClassifier is not fitted"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseEstimator) else "",
)
def test_what_steps_learn_is_told_by_their_kind_and_their_name(step, message):
    with pytest.raises(ValueError, match=message):
        total_privacy(step)
    with pytest.raises(ValueError, match=f"step 'one': .*{message}"):
        total_privacy(Pipeline([("one", step)]))


def test_a_total_has_a_line_for_each_step_and_names_models_by_theirs():
    pipeline = Pipeline(
        [
            ("scale", BoundsScaler((-1, 1))),
            ("log", FunctionTransformer(np.arctan)),
            ("centre", PrivateScaler(0.3, 1e-4)),
            ("model", logistic()),
        ]
    ).fit(X, Y)
    total = total_privacy(pipeline)
    names = ["centre (PrivateScaler)", "model (PrivateLogisticRegression)"]
    assert [name for name, _ in total.parts] == names
    assert total.free == (
        ("scale", "BoundsScaler scales by public bounds"),
        ("log", "FunctionTransformer(arctan) acts on each number by itself"),
    )
    lines = str(total).splitlines()
    assert [re.split(r"\s{2,}", line)[1] for line in lines[2:4]] == ["0", "0"]
    assert len(lines) == 7
    assert lines[-1].startswith("together")
    assert total_privacy(total).free == total.free


def test_what_is_harmless_around_a_model_is_accepted():
    threshold = FixedThresholdClassifier(logistic(), threshold=0.4).fit(X, Y)
    assert total_privacy(threshold).guarantee == threshold.estimator_.privacy_
    frozen = FrozenEstimator(make_pipeline(BoundsScaler((-1, 1)), logistic()).fit(X, Y))
    assert total_privacy(frozen).guarantee == frozen.estimator[-1].privacy_
    target = TransformedTargetRegressor(
        make_pipeline(BoundsScaler((-1, 1)), ridge()),
        func=np.log,
        inverse_func=np.exp,
        check_inverse=False,
    ).fit(X, TARGET)
    assert total_privacy(target).guarantee == target.regressor_[-1].privacy_
    for changes, message in (
        ({"check_inverse": True}, "pass check_inverse=False"),
        ({"func": np.sort}, "TransformedTargetRegressor may mix records"),
        ({"func": None, "inverse_func": None, "transformer": StandardScaler()}, "StandardScaler"),
    ):
        with pytest.raises(ValueError, match=message):
            total_privacy(target.set_params(**changes))
    with pytest.raises(ValueError, match="TransformedTargetRegressor is not fitted"):
        total_privacy(TransformedTargetRegressor(ridge(), check_inverse=False))

    class Other(FixedThresholdClassifier):
        pass

    with pytest.raises(ValueError, match="Other learns from the records without privacy"):
        total_privacy(Other(logistic()).fit(X, Y))


def test_a_user_vouches_for_a_function(monkeypatch):
    model = logistic()
    pipeline = make_pipeline(FunctionTransformer(log_of_row), model).fit(X, Y)
    search = PrivateSearchCV(pipeline, {f"{pipeline.steps[-1][0]}__clip": [0.5]}, epsilon=1.0)
    with pytest.raises(ValueError, match="say so by its attribute row_wise"):
        total_privacy(pipeline)
    with pytest.raises(ValueError, match="may mix records"):
        search.fit(X, Y)
    monkeypatch.setattr(log_of_row, "row_wise", True, raising=False)
    total = total_privacy(pipeline)
    said = "acts on each row by itself, as you say"
    assert total.guarantee == pipeline[-1].privacy_
    assert said in str(total)
    assert said in str(search.fit(X, Y).privacy_report())
    with pytest.warns(UserWarning, match="without noise"):
        assert search_privacy(pipeline, 60, n_features=2).guarantee.mu > 0


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_errors_name_columns_and_their_types_but_no_value(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"age": [1.0, 2.0], "sex": ["secret", "b"], "day": ["c", "secret"]})
    for model, y in ((BoundsScaler((0, 1)), None), (logistic(), [0, 1])):
        with pytest.raises(ValueError, match="X holds columns that are not numbers") as refused:
            model.fit(frame, y)
        text = str(refused.value)
        assert re.search(
            r"'sex' \(\w+\), 'day' \(\w+\)\. Where .*types.*PrivateGAMClassifier", text
        )
        assert "age" not in text
        assert "secret" not in text
        assert refused.value.__cause__ is refused.value.__context__ is None


@pytest.mark.filterwarnings("ignore")
def test_a_lazy_frame_is_refused_wherever_rows_or_targets_are_read():
    frames = pytest.importorskip("polars")
    frame = frames.DataFrame({"age": np.linspace(0, 1, 40)})
    labels = np.arange(40) % 2
    additive = PrivateGAMClassifier(classes=[0, 1], bounds=(0, 1))
    reads = [
        lambda: logistic().fit(frame.lazy(), labels),
        lambda: logistic().fit(frame, frame.lazy()),
        lambda: additive.fit(frame.lazy(), labels),
        lambda: clone(additive).fit(frame, labels).predict(frame.lazy()),
        lambda: PrivateScaler().fit(frame.lazy()),
        lambda: private_regression(
            logistic(), frame.lazy(), labels, epsilon=1.0, delta=1e-6, bounds=(0, 1)
        ),
    ]
    for read in reads:
        with pytest.raises(
            ValueError, match=r"LazyFrame: call \.collect\(\), or, if .*sink_parquet"
        ):
            read()


def test_one_column_and_columns_of_the_same_name_have_advice():
    frame = pytest.importorskip("pandas").DataFrame({"age": [1.0, 2.0]})
    cases = (frame["age"], r"X\.to_frame\(\)"), (frame[["age", "age"]], "Give each column of X a")
    for X, advice in cases:
        with pytest.raises(ValueError, match=advice):
            logistic().fit(X, [0, 1])


# --- inside meta-estimators -----------------------------------------------------------------------

LABELS = np.where(Y, "yes", "no")


def predicted(meta, labels=LABELS):
    return meta.fit(X, labels).predict(X)


def proba(model):
    return cross_val_predict(model, X, LABELS, cv=2, method="predict_proba")


META = [  # what is run, with which labels, and what total_privacy says of it
    (lambda m: predicted(VotingClassifier([("m", m)])), VotingClassifier, "the labels that occur"),
    (lambda m: predicted(StackingClassifier([("m", m)], cv=2)), StackingClassifier, "every fold"),
    (lambda m: predicted(OneVsRestClassifier(m)), OneVsRestClassifier, "the labels that occur"),
    (lambda m: predicted(OneVsOneClassifier(m)), OneVsOneClassifier, "how many have each"),
    (lambda m: predicted(BaggingClassifier(m, 2)), BaggingClassifier, "cost as k records"),
    (proba, None, ""),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("run", "kind", "message"), META, ids=["voting", "stacking", "rest", "one", "bagging", "proba"]
)
def test_labels_that_were_numbered_are_refused_with_the_line_to_paste(run, kind, message):
    with pytest.raises(ValueError, match="y holds labels that are not in classes") as refused:
        run(logistic(classes=["no", "yes"]))
    pasted = re.search(r"paste: (classes=.*)$", str(refused.value), flags=re.MULTILINE)[1]
    assert pasted == "classes=range(2)"
    assert len(run(eval(f"logistic({pasted})"))) == len(X)
    if kind is not None:
        several = kind in (VotingClassifier, StackingClassifier)
        meta = kind([("m", logistic())] if several else logistic())
        with pytest.raises(ValueError, match=f"{kind.__name__} .*{message}"):
            total_privacy(meta)


@pytest.mark.filterwarnings("ignore")
def test_calibration_needs_labels_that_were_numbered_before():
    for classes in (["no", "yes"], range(2)):
        with pytest.raises(ValueError, match="y holds labels that are not in classes") as refused:
            predicted(CalibratedClassifierCV(logistic(classes=classes), ensemble=False, cv=2))
    assert "number them before, by y = np.searchsorted(labels, y)" in str(refused.value)
    numbered = np.searchsorted(["no", "yes"], LABELS)
    calibrated = CalibratedClassifierCV(logistic(classes=range(2)), ensemble=False, cv=2)
    assert set(predicted(calibrated, numbered)) <= {0, 1}
    with pytest.raises(ValueError, match="learns probabilities without privacy: calibrate on pub"):
        total_privacy(calibrated)


def test_every_meta_estimator_of_the_table_exists():
    table = (Path(__file__).parents[1] / "doc" / "guide" / "meta.rst").read_text()
    names = set(re.findall(r"`sklearn\.([\w.]+)\.(\w+)`", table))
    assert len(names) > 12
    for module, name in names:
        assert hasattr(importlib.import_module(f"sklearn.{module}"), name)


# --- scikit-learn's other habits ------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_go_in_and_come_out_by_set_output(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"age": X[:, 0], "income": X[:, 1]})
    labels = frames.Series("label", LABELS.tolist()) if library == "polars" else LABELS
    for scaler in (BoundsScaler((-1, 1)), PrivateScaler(delta=1e-4)):
        scaled = scaler.set_output(transform=library).fit_transform(frame)
        assert isinstance(scaled, frames.DataFrame)
        assert list(scaled.columns) == ["age", "income"]
    pipeline = make_pipeline(BoundsScaler((-1, 1)), logistic(classes=["no", "yes"]))
    pipeline.set_output(transform=library).fit(frame, labels)
    assert pipeline[-1].feature_names_in_.tolist() == ["age", "income"]
    assert set(pipeline.predict(frame)) <= {"no", "yes"}
    with pytest.raises(ValueError, match="feature names should match"):
        pipeline[-1].predict(frame[["income", "age"]])


def test_metadata_is_routed():
    weights = np.ones(len(X))
    with config_context(enable_metadata_routing=True):
        model = logistic().set_score_request(sample_weight=True)
        model.set_fit_request(sample_weight=False)
        scored = cross_validate(model, X, Y, cv=2, params={"sample_weight": weights})
        assert len(scored["test_score"]) == 2
        with pytest.raises(ValueError, match=r"sample_weight.*not explicitly set"):
            cross_validate(logistic(), X, Y, cv=2, params={"sample_weight": weights})
        pipeline = make_pipeline(BoundsScaler((-1, 1)), model).fit(X, Y)
        assert 0 <= pipeline.score(X, Y, sample_weight=weights) <= 1
        with pytest.raises(TypeError, match="sample_weight"):
            pipeline.fit(X, Y, sample_weight=weights)  # which no fit asks for
        weighted = logistic().set_params(weight_bounds=(0.5, 2.0))
        weighted.set_fit_request(sample_weight=True)
        assert make_pipeline(weighted).fit(X, Y, sample_weight=weights)[0].n_samples_ == len(X)


ARRAYS = """
import warnings
import array_api_strict as xp
import numpy as np
from sklearn import config_context
from skdpdyn import PrivateGAMClassifier, PrivateLogisticRegression, PrivateRidge
from skdpdyn.inference import private_regression
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
rows, labels = xp.asarray(X), xp.asarray((X[:, 0] > 0).astype(np.int64))
for dispatch in (False, True):
    with config_context(array_api_dispatch=dispatch):
        model = PrivateLogisticRegression(classes=[0, 1], delta=1e-4).fit(rows, labels)
        predictions = model.predict(rows)
        assert type(predictions) is np.ndarray
        assert (np.asarray(predictions) == model.predict(X)).all()
        assert 0 <= model.score(rows, labels) <= 1
        for scaler in (BoundsScaler((-1, 1)), PrivateScaler(delta=1e-4)):
            scaled = np.asarray(scaler.fit(rows).transform(rows))
            assert (scaled == scaler.transform(X)).all()
        ridge = PrivateRidge(target_bounds=(-1, 1), delta=1e-4)
        assert ridge.fit(rows, rows[:, 1]).n_samples_ == 60
print("fine")
"""


@pytest.mark.system
def test_arrays_of_other_libraries():
    pytest.importorskip("array_api_strict")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-c", ARRAYS]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.stdout == "fine\n", run.stderr
