"""At peace with scikit-learn: what pipelines and meta-estimators leak is told, step by step."""

import re
from datetime import datetime

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.model_selection import search_privacy, total_privacy
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


# --- the pipeline that leaks says so
# --------------------------------------------------------------------------


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
    assert str(refused.value).splitlines() == [
        "no total is known:",
        SCALER,
        DIRECTIONS,
        SPARSE,
    ]


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
        (FunctionTransformer(np.sort), r"\(sort\) may mix records.*say row_wise=\['sort'\]"),
        (FunctionTransformer(np.cumsum), r"\(cumsum\) may mix records"),
        (FunctionTransformer(lambda rows: rows), "has no name to vouch for it by"),
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
    assert [name for name, _ in total.parts] == [
        "centre (PrivateScaler)",
        "model (PrivateLogisticRegression)",
    ]
    assert total.free == (
        ("scale", "BoundsScaler scales by public bounds"),
        ("log", "FunctionTransformer(arctan) acts on each number by itself"),
    )
    lines = str(total).splitlines()
    assert [re.split(r"\s{2,}", line)[1] for line in lines[1:3]] == ["0", "0"]
    assert len(lines) == 6
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


def test_a_user_vouches_for_a_function_by_name():
    pipeline = make_pipeline(FunctionTransformer(log_of_row), logistic()).fit(X, Y)
    with pytest.raises(ValueError, match=r"say row_wise=\['log_of_row'\]"):
        total_privacy(pipeline)
    for name in ("log_of_row", f"{__name__}.log_of_row"):
        total = total_privacy(pipeline, row_wise=[name])
        assert total.guarantee == pipeline[-1].privacy_
        assert "acts on each row by itself, as you say" in str(total)
    with pytest.raises(ValueError, match=r"row_wise=\['sqrt'\]: no step has a function"):
        total_privacy(pipeline, row_wise=["log_of_row", "sqrt"])
    for senseless in ("log_of_row", [log_of_row]):
        with pytest.raises(ValueError, match="must be a list of names of functions"):
            total_privacy(pipeline, row_wise=senseless)
    with pytest.warns(UserWarning, match="without noise"):
        assert search_privacy(pipeline, 60, n_features=2, row_wise=["log_of_row"]).mu > 0
    with pytest.raises(ValueError, match=r"step 'functiontransformer': .*may mix records"):
        search_privacy(pipeline, 60, n_features=2)
    # the user vouches for rows, not for whether they are stored sparse
    columns = make_column_transformer(
        (FunctionTransformer(log_of_row), [0]), (BoundsScaler(), [1]), sparse_threshold=0.3
    )
    with pytest.raises(ValueError, match="Pass sparse_threshold=0 to ColumnTransformer"):
        total_privacy(columns.fit(X), row_wise=["log_of_row"])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_errors_name_columns_and_their_types_but_no_value(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"age": [1.0, 2.0], "sex": ["secret", "b"], "day": ["c", "secret"]})
    for model, y in ((BoundsScaler(), None), (logistic(), [0, 1])):
        with pytest.raises(ValueError, match="X holds columns that are not numbers") as refused:
            model.fit(frame, y)
        text = str(refused.value)
        assert re.search(r"'sex' \(\w+\), 'day' \(\w+\)\. Encode them", text)
        assert "age" not in text
        assert "secret" not in text
        assert refused.value.__cause__ is refused.value.__context__ is None
    dates = frames.DataFrame({"age": [1.0], "day": [datetime(2020, 1, 1)]})
    with pytest.raises(ValueError, match="X holds dates or times in 'day': pass numbers"):
        BoundsScaler().fit(dates)
