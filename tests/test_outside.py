"""Records outside of public facts: labels that are no class, targets and weights beyond bounds.

One record must not decide whether something is answered, so none is refused for it.
"""

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss, roc_auc_score
from test_streamed import GeneratedRows

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
from skdpdyn.core.losses import logistic, softmax
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import opened
from skdpdyn.data import ParquetRows
from skdpdyn.data.local import LocalRows
from skdpdyn.evaluation import evaluate
from skdpdyn.exceptions import PrivacyUtilityWarning
from skdpdyn.inference import private_regression
from skdpdyn.solvers import SOLVERS

N = 2000
OTHERS = "noisy counts show labels other than classes="
CLASSIFIERS = {
    "logistic": PrivateLogisticRegression(classes=[0, 1]),
    "softmax": PrivateSoftmaxRegression(classes=[0, 1, 2]),
    "svc": PrivateLinearSVC(classes=[0, 1]),
    "additive": PrivateGAMClassifier(classes=[0, 1], bounds=(-3, 3)),
    "additive, three classes": PrivateGAMClassifier(classes=[0, 1, 2], bounds=(-3, 3)),
}
ODD = {
    "a number": lambda y: np.where(np.arange(y.size) == 7, 12, y),
    "a part": lambda y: np.where(np.arange(y.size) == 7, 0.5, y),
    "an object": lambda y: _put(y.astype(object), [0.5]),
    "nothing": lambda y: _put(y.astype(object), None),
    "text in a list": lambda y: _put(y.astype(object), "no").tolist(),
    "all": lambda y: y + 100,
}


def _put(y, value):
    y[7:8] = np.array([value, 0], dtype=object)[:1]
    return y


def data(n_classes=2, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    raw = X[:, 0] + rng.logistic(size=n)
    return X, np.digitize(raw, np.linspace(-1, 1, n_classes + 1)[1:-1])


def given(model):
    return len(model.classes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_no_label_makes_a_fit_fail_or_cost_more(name, odd):
    model = clone(CLASSIFIERS[name])
    X, y = data(given(model))
    labels = ODD[odd](y)
    kinds = [({}, X), ({"groups": np.arange(N) // 2}, X)]
    kinds += [] if name.startswith("additive") else [({}, sparse.csr_array(X))]
    for options, rows in kinds:
        model.fit(rows, labels, **options)
        assert model.privacy_.with_unit("record") == model.privacy_cost(model.n_samples_, 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "sufficient_statistics"])
@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_records_of_other_labels_weigh_nothing(name, solver):
    """Their rows do not matter, whatever the solver, nor how many there are of each label."""
    model = clone(CLASSIFIERS[name]).set_params(solver=solver, random_state=0, conditioning=None)
    X, y = data(given(model))
    others = np.arange(N) % 5 == 0
    first = model.fit(X, np.where(others, 12, y)).coef_
    moved = np.where(others[:, None], X[::-1], X)
    np.testing.assert_array_equal(model.fit(moved, np.where(others, -3, y)).coef_, first)
    assert not np.array_equal(model.fit(X, y).coef_, first)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", [logistic, softmax(3)], ids=["one output", "three"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_weights_change_no_bit_of_other_records(kind, loss, dtype):
    """A weight of 0 is as a gradient of 0, and no other row rounds anew."""
    X, y = data(max(2, loss.n_outputs), n=300)
    objective = Objective(loss, *X.shape, 1.0, 0.1, clip=0.4, intercept_scaling=0.5)
    point = np.random.default_rng(1).normal(size=objective.n_parameters)
    rows = LocalRows(kind(X.astype(dtype)), y.astype(float))
    sums = opened(rows.gradient(objective, point))
    ones = rows.weighted_by(np.ones(300))
    np.testing.assert_array_equal(opened(ones.gradient(objective, point)), sums)
    codes = np.append(np.arange(max(2, loss.n_outputs)), -1)
    cells = rows.with_numbers(np.where(np.arange(300) == 9, codes.size - 1, y))
    empty = X.copy()
    empty[9] = 0
    without = LocalRows(kind(empty.astype(dtype)), y.astype(float)).weighted_by(np.arange(300) != 9)
    found = opened(cells.with_classes(codes).gradient(objective, point))
    np.testing.assert_array_equal(found, opened(without.gradient(objective, point)))


@pytest.mark.parametrize("name", ["logistic", "softmax", "additive"])
def test_counts_show_other_labels_and_means_are_of_the_rest(name):
    model = clone(CLASSIFIERS[name]).set_params(epsilon=1e3, delta=1e-6)
    X, y = data(given(model), n=20_000)
    others = np.arange(20_000) % 2 == 0
    with pytest.warns(PrivacyUtilityWarning, match=OTHERS):
        model.fit(X, np.where(others, 9, y))
    exact = LogisticRegression(C=1e6).fit(X[~others], y[~others])
    difference = model.predict_proba(X) - exact.predict_proba(X)
    assert np.max(np.abs(difference.mean(axis=0))) < 0.01
    assert np.sqrt(np.mean(difference**2)) < 0.06


def test_no_counts_warn_of_labels_that_are_not_there(recwarn):
    X, y = data()
    model = clone(CLASSIFIERS["logistic"])
    for adjacency in ("replace_one", "add_remove"):
        model.set_params(adjacency=adjacency).fit(X, y)
        private_regression(model, X, y, epsilon=1.0, bounds=(-3, 3), classes=[0, 1])
        evaluate(model, X, y, epsilon=1.0)
    assert not [one for one in recwarn if OTHERS in str(one.message)]  # 2e-4 by chance


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("labels", ["numbers", "text"])
def test_sources_of_rows_give_the_bits_of_an_array(labels, tmp_path):
    X, y = data(3)
    X = X.astype(np.float32)
    names = np.array(["low", "middle", "high"])
    classes = [0, 2] if labels == "numbers" else ["low", "high"]
    y = y if labels == "numbers" else names[y]
    model = PrivateLogisticRegression(classes=classes, random_state=0)
    found = model.fit(X, y).coef_
    np.testing.assert_array_equal(model.fit(GeneratedRows(X, y), None).coef_, found)
    table = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    parquet.write_table(table, tmp_path / "rows.parquet")
    rows = ParquetRows(tmp_path / "rows.parquet", target="y")
    np.testing.assert_array_equal(model.fit(rows, None).coef_, found)


def test_a_value_that_is_no_category_is_in_none_of_its_columns(tmp_path):
    colours = np.array(["red", "blue", "grey"])[np.arange(N) % 3]
    table = pyarrow.table({"x": np.ones(N), "colour": colours, "y": np.arange(N) % 2})
    parquet.write_table(table, tmp_path / "rows.parquet")
    known = {"colour": ["blue", "red"]}
    rows = ParquetRows(tmp_path / "rows.parquet", target="y", categories=known)
    found = np.vstack([X for X, _ in rows.read()])
    of_colours = np.column_stack([colours == "blue", colours == "red"])
    np.testing.assert_array_equal(found[:, 1:], of_colours)


@pytest.mark.parametrize(
    ("classes", "of"),
    [
        ([0, 1], lambda y: y.astype(str)),
        ([0, 1], lambda y: pandas.Series(y.astype(str), dtype="string")),
        ([0, 1], lambda y: y.astype("datetime64[s]")),
        (["0", "1"], lambda y: y),
        (["0", "1"], lambda y: pandas.Series(y, dtype="Int64")),
    ],
)
def test_labels_of_a_type_that_cannot_match_are_refused(classes, of):
    X, y = data()
    model = clone(CLASSIFIERS["logistic"]).set_params(classes=classes)
    with pytest.raises(ValueError, match="y holds labels that are not in classes"):
        model.fit(X, of(y))
    model.classes_ = np.array(classes)
    model.coef_ = np.zeros((1, 3))
    with pytest.raises(ValueError, match="y holds labels that are not in classes"):
        evaluate(model, X, of(y), epsilon=1.0)


# --- evaluations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [lambda y: y, lambda y: _put(y.astype(object), None)])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("persons", [False, True])
def test_labels_of_no_class_count_as_wrong_in_an_evaluation(n_classes, of, persons):
    n = 3000
    X, y = data(n_classes, n)
    model = clone(CLASSIFIERS["logistic" if n_classes == 2 else "softmax"])
    model.set_params(epsilon=1e3, delta=1e-6).fit(X, y)
    others = np.arange(n) % 4 == 3
    labels = of(np.where(others, 9, y))
    options = {"groups": np.arange(n)} if persons else {}
    if n_classes == 2:
        options["thresholds"] = np.arange(1, 512) / 512
    with pytest.warns(PrivacyUtilityWarning, match=f"{OTHERS}.* count as wrong"):
        found = evaluate(model, X, labels, epsilon=1e6, **options)
    inside = np.flatnonzero(~others & np.array([label is not None for label in labels]))
    proba = model.predict_proba(X[inside])
    truth = y[inside]
    part = inside.size / n
    expected = part * accuracy_score(truth, model.predict(X[inside]))
    assert found.accuracy.value == pytest.approx(expected, abs=2e-3)
    assert found.other.value == pytest.approx(1 - part, abs=1e-3)
    losses = part * log_loss(truth, proba) + (1 - part) * 3 * np.log(n_classes)
    assert found.log_loss.value == pytest.approx(losses, abs=3e-3)
    if n_classes == 2:
        assert found.roc_auc.value == pytest.approx(roc_auc_score(truth, proba[:, 1]), abs=2e-3)
        counts = confusion_matrix(truth, model.predict(X[inside]))
        assert found.recall().value == pytest.approx(counts[1, 1] / counts[1].sum(), abs=2e-3)
        _, observed = found.calibration_curve(n_groups=2)
        high = proba[:, 1] > 0.5
        assert observed[1].value == pytest.approx(np.mean(truth[high]), abs=2e-3)
    else:
        known = confusion_matrix(truth, model.predict(X[inside]))
        np.testing.assert_allclose(found.confusion_matrix, known, atol=5)
    assert 0.9 < found.population.other.high / (1 - part) < 1.2


def test_an_evaluation_answers_where_classes_were_bought():
    X, y = data(n=3000)
    y[7] = 7
    model = PrivateLogisticRegression(epsilon=3.0).fit(X, y)
    assert model.bought_.keys() >= {"classes"} or not model.leaks_
    found = evaluate(model, X, y, epsilon=1.0)
    assert found.other.low <= 1 / 3000


class SaysOther(LogisticRegression):
    """A model that predicts a label that it does not have."""

    def predict(self, X):
        """Return a label of no class for some rows."""
        return np.where(X[:, 0] > 1, 77, super().predict(X))


def test_a_prediction_of_no_class_counts_as_wrong():
    X, y = data(3, n=600)
    model = SaysOther().fit(X, y)
    with pytest.warns(PrivacyUtilityWarning, match=OTHERS):
        found = evaluate(model, X, y, epsilon=1e6)
    assert found.accuracy.value == pytest.approx(np.mean(model.predict(X) == y), abs=1e-3)


# --- numbers --------------------------------------------------------------------------------------

REGRESSORS = {
    "ridge": PrivateRidge(target_bounds=(-1, 1)),
    "quantile": PrivateQuantileRegressor(target_bounds=(-1, 1)),
    "counts": PrivatePoissonRegressor(target_bounds=(0, 3)),
    "additive": PrivateGAMRegressor(target_bounds=(-1, 1), bounds=(-3, 3)),
    "additive counts": PrivateGAMRegressor(loss="poisson", target_bounds=(0, 3), bounds=(-3, 3)),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_beyond_bounds_count_as_these(name):
    X, y = data(5)
    model = clone(REGRESSORS[name]).set_params(random_state=0, epsilon=5.0)
    far = np.where(y > 2, 1e300, np.where(y < 1, -1e300, 0.5))
    within = np.clip(far, *model.target_bounds)
    models = [clone(model).fit(X, target) for target in (far, within)]
    np.testing.assert_array_equal(*(one.predict(X) for one in models))
    scores = [evaluate(models[0], X, of, epsilon=1.0, random_state=0) for of in (far, within)]
    assert repr(scores[0]) == repr(scores[1])
    if name in ("ridge", "counts"):
        options = {"epsilon": 1.0, "bounds": (-3, 3), "random_state": 0}
        tables = [private_regression(model, X, of, **options)[1] for of in (far, within)]
        np.testing.assert_array_equal(*(one.params for one in tables))


def test_weights_beyond_bounds_count_as_these():
    X, y = data()
    weights = np.random.default_rng(0).uniform(0, 9, N)
    model = PrivateLogisticRegression(classes=[0, 1], weight_bounds=(2, 5), random_state=0)
    far, within = (
        clone(model).fit(X, y, sample_weight=of) for of in (weights, np.clip(weights, 2, 5))
    )
    np.testing.assert_array_equal(far.coef_, within.coef_)
