"""Models that leave Python or skdpdyn predict what they did."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numba import config
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpdyn import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.model_selection import total_privacy
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper

RNG = np.random.default_rng(0)
N_SAMPLES = 150 if config.DISABLE_JIT else 600
# rows that have to be shortened, most of them
X = RNG.normal(0, 1, (N_SAMPLES, 3)) * [1, 5, 0.1]
LABELS = np.where(X[:, 0] > 0, "yes", "no")
THREE = np.where(X[:, 1] > 0, LABELS, "maybe")
COUNTS = np.round(np.abs(X[:, 0]))

MODELS = {
    "logistic": (PrivateLogisticRegression(30.0, classes=["no", "yes"]), LABELS),
    "two": (PrivateSoftmaxRegression(30.0, classes=["no", "yes"]), LABELS),
    "three": (PrivateSoftmaxRegression(30.0, classes=["maybe", "no", "yes"]), THREE),
    "svc": (PrivateLinearSVC(30.0, classes=["no", "yes"]), LABELS),
    "ridge": (PrivateRidge(30.0, target_bounds=(-2, 2)), X[:, 0]),
    "poisson": (PrivatePoissonRegressor(30.0, target_bounds=(0, 4)), COUNTS),
}

TRUSTED = [
    "skdpdyn.conditioning.FittedConditioning",
    "skdpdyn.data.row_map.RowMap",
    "skdpdyn.linear_model.logistic.PrivateLogisticRegression",
    "skdpdyn.linear_model.poisson.PrivatePoissonRegressor",
    "skdpdyn.linear_model.ridge.PrivateRidge",
    "skdpdyn.linear_model.softmax.PrivateSoftmaxRegression",
    "skdpdyn.linear_model.svc.PrivateLinearSVC",
    "skdpdyn.preprocessing.BoundsScaler",
    "skdpdyn.preprocessing.PrivateScaler",
    "skdpdyn.preprocessing.RowMapper",
    "skdpdyn.privacy.guarantees.GaussianDP",
    "skdpdyn.privacy.mechanisms.Composition",
    "skdpdyn.privacy.mechanisms.Gaussian",
    "skdpdyn.privacy.mechanisms.NoisyGradientDescent",
]


def answers(model, rows):
    """All that a model predicts, labels apart."""
    names = ("predict_proba", "decision_function")
    found = [getattr(model, name)(rows) for name in names if hasattr(model, name)]
    return found or [model.predict(rows)]


@pytest.mark.system
@pytest.mark.parametrize("conditioning", ["auto", None])
@pytest.mark.parametrize("name", MODELS)
def test_pipelines_of_scikit_learn_predict_the_same(name, conditioning):
    model, y = MODELS[name]
    for rows in (X, sparse.csr_array(X)):
        model.set_params(conditioning=conditioning).fit(rows, y)
        plain = model.to_sklearn()
        assert type(plain[0]) is RowMapper
        assert type(plain[1]).__module__.startswith("sklearn.")
        assert (plain.predict(rows) == model.predict(rows)).all() or name in ("ridge", "poisson")
        for mine, theirs in zip(answers(model, rows), answers(plain, rows), strict=False):
            if mine.shape == theirs.shape:  # scikit-learn has one score for two classes
                np.testing.assert_allclose(theirs, mine, rtol=1e-12, atol=1e-12)
    by_hand = LogisticRegression().fit(X, LABELS) if name == "logistic" else None
    if by_hand is not None and conditioning is None:  # the reason for the first step
        by_hand.coef_, by_hand.intercept_ = model.coef_, model.intercept_
        assert np.abs(by_hand.predict_proba(X) - model.predict_proba(X)).max() > 0.1


def test_pipelines_keep_the_names_of_columns_and_models_without_one_say_so():
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c"])
    model, y = MODELS["logistic"]
    plain = make_pipeline(model.fit(frame, y).to_sklearn())
    assert plain[0].feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        plain.predict(frame[["b", "a", "c"]])
    assert total_privacy(plain[0][0]).free == (("", "RowMapper maps each row by itself"),)
    with pytest.raises(ValueError, match="LogisticRegression learns from the records without"):
        total_privacy(plain)

    class Alone(type(model)):
        family = replace(model.family, twin=None)

    with pytest.raises(NotImplementedError, match="Alone has no counterpart in scikit-learn"):
        Alone(**model.get_params(deep=False)).fit(frame, y).to_sklearn()


def test_a_map_of_rows_refuses_what_is_none():
    with pytest.raises(ValueError, match="norm=None shortens no row"):
        RowMapper(weights=[1.0]).fit(X[:, :1])
    with pytest.raises(ValueError, match="weights are of 2 columns: X has 3 columns"):
        RowMapper(norm=1.0, weights=[1.0, 1.0]).fit(X)


@pytest.mark.parametrize("name", MODELS)
def test_skops_loads_what_is_trusted(name):
    io = pytest.importorskip("skops.io")
    model, y = MODELS[name]
    pipeline = make_pipeline(BoundsScaler((-20, 20)), PrivateScaler(), model).fit(X, y)
    for stored, types in (
        (pipeline, TRUSTED),
        (model.to_sklearn(), [f"{RowMapper.__module__}.RowMapper"]),
    ):
        data = io.dumps(stored)
        assert set(io.get_untrusted_types(data=data)) <= set(types)
        loaded = io.loads(data, trusted=types)
        np.testing.assert_array_equal(loaded.predict(X), stored.predict(X))
    assert io.loads(io.dumps(model), trusted=TRUSTED).privacy_ == model.privacy_


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_onnx_predicts_the_same(name):
    pytest.importorskip("skl2onnx")
    from onnx.reference import ReferenceEvaluator

    from skdpdyn.onnx import to_onnx

    model, y = MODELS[name]
    forms = [("auto", X), (None, X), ("auto", sparse.csr_array(X))]
    for (conditioning, rows), double in zip(forms, (True, True, False), strict=True):
        model.set_params(conditioning=conditioning).fit(rows, y)
        graph = ReferenceEvaluator(to_onnx(model, double=double))
        first, *rest = graph.run(None, {"X": X.astype(np.float64 if double else np.float32)})
        tolerance = 1e-9 if double else 1e-4
        if name in ("ridge", "poisson"):
            np.testing.assert_allclose(first.ravel(), model.predict(rows), tolerance, tolerance)
            continue
        assert np.mean(first == model.predict(rows)) > (1 - 1e-9 if double else 0.99)
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(rest[0], model.predict_proba(rows), tolerance, tolerance)


@pytest.mark.system
def test_without_skl2onnx_the_error_has_the_line_to_paste():
    code = (
        "import sys; sys.modules['skl2onnx'] = None\n"
        "from skdpdyn.onnx import to_onnx\n"
        "try:\n    to_onnx(None)\nexcept ImportError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == 'skl2onnx is needed: pip install "skdpdyn[onnx]"\n'
