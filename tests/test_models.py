"""What every estimator promises alike, whatever it learns; then what softmax and ridge regression
promise beyond that.

Tests marked ``@each`` hold of every estimator. A package outside runs them on its own: ``from
test_models import *``, and a fixture ``case`` of its own, see test_extension.py.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from problems import descend
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpdyn import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core.losses import logistic
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import PrivacyLeakWarning, UnsupportedMechanismError
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.privacy import GaussianDP, RenyiDP, tightest
from skdpdyn.solvers import DPSGD, NoisyGD


@dataclass(frozen=True)
class Case:
    """An estimator, what is public about its targets, and targets for rows of it."""

    estimator: type
    public: dict
    targets: Callable
    lipschitz: float  # of the loss, for rows of norm 1
    defaults_to: str = "last_iterate"

    def __str__(self):
        return self.estimator.__name__

    def model(self, **changes):
        options = {"epsilon": 2.0, "delta": 1e-4, "conditioning": None}
        return self.estimator(**options | self.public | changes)

    def data(self, n_samples=60, n_features=3, seed=0):
        """Rows with zeros, some empty, some longer than 1, and targets."""
        rng = np.random.default_rng(seed)
        X = 1.5 * rng.uniform(-0.5, 0.5, (n_samples, n_features))
        X[np.abs(X) < 0.2] = 0
        return X, self.targets(X[:, 0] + 0.1 * rng.standard_normal(n_samples))


def of_thirds(score):
    return np.digitize(score, [-0.2, 0.2])


def rounded(score):
    return np.round(4 + 5 * np.clip(score, -0.8, 0.8))


THREE = {"classes": [0, 1, 2]}
LOGISTIC = Case(
    PrivateLogisticRegression, {"classes": [0, 1]}, lambda of: (of > 0).astype(int), 1.0
)
SOFTMAX = Case(PrivateSoftmaxRegression, THREE, of_thirds, math.sqrt(2), "composition")
RIDGE = Case(PrivateRidge, {"target_bounds": (-1.0, 3.0)}, lambda score: 1 + 3 * score, math.inf)
SVC = Case(PrivateLinearSVC, {"classes": [0, 1]}, LOGISTIC.targets, 1.0)
POISSON = Case(PrivatePoissonRegressor, {"target_bounds": (0.0, 9.0)}, rounded, 1.0)
CASES = [LOGISTIC, SOFTMAX, RIDGE, SVC, POISSON]
CLASSIFIERS = [LOGISTIC, SOFTMAX, SVC]

__all__ = ["case"]


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


def each(test):
    """Export a test that holds of every estimator."""
    __all__.append(test.__name__)
    return test


each_classifier = pytest.mark.parametrize("case", CLASSIFIERS, ids=str)


def raw(fitted, X):
    """The continuous prediction."""
    if is_classifier(fitted):
        return fitted.decision_function(X)
    predicted = fitted.predict(X)
    return np.log(predicted) if isinstance(fitted, PrivatePoissonRegressor) else predicted


def public_state(fitted):
    """All attributes of a fitted estimator but what it learnt."""
    return {
        name: value for name, value in vars(fitted).items() if name not in ("coef_", "intercept_")
    }


def assert_unchanged(fitted, before):
    assert set(vars(fitted)) == set(before)
    assert all(vars(fitted)[name] is before[name] for name in before)


def assert_same_state(first, second):
    assert set(first) == set(second)
    for name in first:
        assert np.all(np.asarray(first[name] == second[name])), name


# --- what it spends -------------------------------------------------------------------------------

ACCOUNTS = "tightest", "composition", "langevin", "last_iterate"
BOUNDS = [
    (case, {"clip": 1e6} if case is SOFTMAX else {}, bound) for case in CASES for bound in ACCOUNTS
]
BOUNDS += [(SOFTMAX, {}, bound) for bound in ("tightest", "composition")]


@pytest.mark.smoke
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    ("case", "changes", "bound"), BOUNDS, ids=[f"{c}-{[*changes]}-{b}" for c, changes, b in BOUNDS]
)
def test_the_budget_is_met_and_known_beforehand(case, changes, bound, adjacency):
    estimator = case.model(adjacency=adjacency, bound=bound, **changes)
    cost = clone(estimator).privacy_cost(60, 3)
    fitted = estimator.fit(*case.data())
    assert cost == fitted.privacy_ == fitted.privacy_cost(60, 3)
    assert 2.0 * (1 - 1e-6) < fitted.epsilon_ <= 2.0
    assert fitted.privacy_.epsilon(1e-4) == fitted.epsilon_
    assert fitted.delta_ == 1e-4
    assert tightest(fitted.mechanism_).guarantee.epsilon(1e-4) <= 2.0
    default = "last_iterate" if changes else case.defaults_to
    assert fitted.bound_ == (default if bound == "tightest" else bound)
    assert isinstance(fitted.privacy_, RenyiDP if bound == "langevin" else GaussianDP)
    assert fitted.privacy_.adjacency == fitted.mechanism_.adjacency == adjacency
    per_record = 2 if adjacency == "replace_one" else 1
    assert fitted.mechanism_.sensitivity == per_record * fitted.clip_ / 60
    assert fitted.leaks_ == ()


@pytest.mark.parametrize("bound", ["last_iterate", "langevin"])
def test_a_clipped_softmax_has_no_last_iterate_bound(bound):
    message = rf"{bound} .*needs a known smoothness, not None"
    with pytest.raises(UnsupportedMechanismError, match=message):
        SOFTMAX.model(bound=bound).fit(*SOFTMAX.data())
    with pytest.raises(UnsupportedMechanismError, match=message):
        SOFTMAX.model(bound=bound).privacy_cost(60, 3)


@each
def test_the_clip_never_exceeds_the_largest_gradient(case):
    expected = min(case.lipschitz * math.hypot(1, 0.25), 1e6)
    assert case.model(clip=1e6).fit(*case.data()).clip_ == pytest.approx(expected)
    assert case.model(clip=0.1).fit(*case.data()).clip_ == 0.1


# --- what it learns -------------------------------------------------------------------------------


@each
def test_scaling_the_data_and_its_norm_changes_nothing(case):
    """Every default is in units of data_norm."""
    X, y = case.data()
    small = case.model(random_state=0).fit(X, y)
    for factor in (2.0**-7, 2.0**10):  # powers of two, as are the lattices of what is released
        large = case.model(random_state=0, data_norm=factor).fit(factor * X, y)
        assert large.n_iter_ == small.n_iter_
        assert large.bound_ == small.bound_
        np.testing.assert_allclose(large.clip_, factor * small.clip_)
        np.testing.assert_allclose(large.alpha_, factor**2 * small.alpha_)
        np.testing.assert_allclose(large.intercept_scaling_, factor * small.intercept_scaling_)
        np.testing.assert_allclose(raw(large, factor * X), raw(small, X), rtol=1e-9)


@each
def test_rows_outside_the_ball_are_mapped_in_fit_and_in_prediction(case):
    X, y = case.data()
    X = 10 * X
    inside = X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    far = case.model(random_state=0).fit(X, y)
    near = case.model(random_state=0).fit(inside, y)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-9)
    np.testing.assert_allclose(raw(far, X), raw(near, inside), rtol=1e-9)
    np.testing.assert_allclose(raw(far, sparse.csr_array(1e6 * X)), raw(far, inside), rtol=1e-9)


@each
@pytest.mark.parametrize("verbose", [0, 1])
def test_warnings_and_output_do_not_depend_on_the_records(case, verbose, capsys, still_clock):
    said = []
    for factor, seed in ((1, 0), (1e6, 3)):
        X, y = case.data(seed=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            case.model(verbose=verbose).fit(factor * X, y)
        said.append(([str(w.message) for w in caught], capsys.readouterr()))
    assert said[0] == said[1]
    assert said[0][0] == []
    assert bool(said[0][1].out) == bool(verbose)


@each
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_rows_of_either_precision_are_predicted_as_dense_ones(case, container, dtype):
    X, y = case.data(70, 12)
    rows = container(X.astype(dtype))
    rtol = 1e-8 if dtype is np.float64 else 1e-3
    fitted = case.model().fit(rows, y)
    atol = rtol * np.abs(fitted.coef_).max()
    assert isinstance(fitted.coef_, np.ndarray)
    assert raw(fitted, rows).dtype == fitted.coef_.dtype == dtype
    np.testing.assert_allclose(raw(fitted, rows), raw(fitted, X), rtol=rtol, atol=atol)
    if hasattr(fitted, "predict_proba"):
        assert fitted.predict_proba(rows).dtype == dtype
        np.testing.assert_allclose(fitted.predict_proba(rows), fitted.predict_proba(X), rtol)


# --- what it refuses ------------------------------------------------------------------------------


def spoilt(value, container=sparse.csr_array):
    """Sparse rows with one stored value replaced."""
    X = sparse.csr_array(LOGISTIC.data()[0])
    X.data[4] = value
    return container(X)


X, _ = LOGISTIC.data()
BAD_ROWS = [
    (X * np.nan, "Input X contains NaN"),
    (spoilt(-np.inf), "Input X contains infinity"),
    (spoilt(np.nan, sparse.csc_array), "Input X contains NaN"),
    (X[:0], r"Found array with 0 sample\(s\)"),
    (sparse.csr_array((0, 3)), r"Found array with 0 sample\(s\)"),
    (X[:, :0], r"0 feature\(s\)"),
    (sparse.csr_array((60, 0)), r"0 feature\(s\)"),
    (X[:, 0], "Expected 2D array, got 1D array"),
    (3.0, "Expected 2D array, got scalar array"),
    (None, "Expected 2D array, got scalar array"),
    (X[None], "Found array with dim 3"),
    (X + 1j, "Complex data not supported"),
    (sparse.csr_array(X + 1j), "Complex data not supported"),
    (X.astype(str) + "?", "could not convert string to float|columns that are not numbers: 0 .<U"),
]
LANGEVIN = {"bound": "langevin", "alpha": 0.0, "clip": 1e6}
LAST = {"bound": "last_iterate", "alpha": 1e-9, "clip": 1e6, "solver": NoisyGD(step_size=20.0)}
BAD_PARAMETERS = [
    ({"epsilon": 0}, "epsilon=0 must be a finite number > 0: the privacy budget"),
    ({"epsilon": math.inf}, "epsilon=inf must be a finite number > 0"),
    ({"epsilon": True}, "epsilon=True must be a finite number > 0"),
    ({"delta": 0}, r"delta=0 must be in \(0, 1\)"),
    ({"delta": 1}, r"delta=1 must be in \(0, 1\)"),
    ({"delta": "foo"}, r"delta='foo' must be a number in \(0, 1\), or 'auto'"),
    ({"data_norm": 0}, "data_norm=0 must be a finite number > 0: a public bound on the norm of"),
    ({"clip": -1.0}, "clip=-1.0 must be a finite number > 0"),
    ({"clip": 10**400}, "clip="),
    ({"alpha": -1.0}, "alpha=-1.0 must be a finite number >= 0"),
    ({"fit_intercept": 1}, "fit_intercept=1 must be True or False"),
    ({"intercept_scaling": 0}, "intercept_scaling=0 must be a finite number > 0"),
    ({"solver": "saga"}, "solver='saga' must be 'auto', one of"),
    ({"bound": "moments"}, "bound='moments' must be 'tightest' or one of"),
    (LANGEVIN, "langevin .* needs strong_convexity > 0, not 0.0"),
    (LAST, "last_iterate .* needs step_size <= 2/smoothness"),
    ({"adjacency": "swap"}, "adjacency='swap' must be 'replace_one' or 'add_remove'"),
    ({"random_state": 1.5}, "random_state=1.5 must be None"),
    ({"random_state": np.random.default_rng(0)}, "clones, folds and workers would copy its state"),
    ({"n_jobs": 0}, "n_jobs=0 must be None or an integer, not 0"),
    ({"n_jobs": 2.5}, "n_jobs=2.5 must be None or an integer"),
    ({"solver": NoisyGD(n_steps=0)}, "n_steps=0 must be 'auto', .*'theorem4' or an integer >= 1"),
    ({"solver": NoisyGD(radius=-1.0)}, "radius=-1.0 must be None or a finite number > 0"),
    ({"solver": NoisyGD(step_size=10**400)}, "step_size="),
]
OTHERS = r"y holds labels that are not in classes=\[0, 1"
NO_LABELS = "classes=.* must be an array-like of labels"
BAD_TARGETS = [
    (CASES, {}, None, "requires y to be passed"),
    (CASES, {}, lambda y: y[:-1], "inconsistent numbers of samples"),
    (CASES, {}, lambda y: np.column_stack([y, y]), "y should be a 1d array"),
    (CASES, {}, lambda y: np.full(60, np.nan), "Input y contains NaN"),
    (CASES, {}, lambda y: np.where(np.arange(60) == 7, np.inf, y), "Input y contains infinity"),
    (CASES, {}, lambda y: y + 1j, "[Cc]omplex data not supported|labels that are not in classes"),
    (CASES, {}, lambda y: 3, "y should be a 1d array"),
    (CLASSIFIERS, {}, lambda y: y.astype(str), OTHERS),
    (CLASSIFIERS, {"classes": ["a", "b"]}, lambda y: y, r"not in classes=\['a', 'b'\]"),
    (CLASSIFIERS, {"classes": "auto"}, lambda y: [str(y[0]), *y[1:]], "strings and other labels"),
    (CLASSIFIERS, {"classes": "auto"}, lambda y: y + np.arange(60) / 100, "type: continuous"),
    (CLASSIFIERS, {"classes": "auto"}, lambda y: 0 * y, "there is only one class"),
    (CLASSIFIERS, {"classes": [1, 1.0]}, lambda y: 0 * y + 1, "there is only one class"),
    *[(CLASSIFIERS, {"classes": of}, lambda y: y, NO_LABELS) for of in ([], 2, {0, 1}, [[0, 1]])],
    (CLASSIFIERS, {"classes": [0, "a"]}, lambda y: y, "all finite numbers or all strings"),
    (CLASSIFIERS, {"classes": [0, math.nan]}, lambda y: 0 * y, "classes"),
    ([RIDGE], {}, lambda y: np.where(y > 0, "high", "low"), "regression needs a target of numbers"),
    ([RIDGE], {}, lambda y: np.array(["high"] * 60, dtype=object), "could not convert string to"),
    ([RIDGE], {}, lambda y: np.arange(60).astype("datetime64[s]"), "date|numeric|number"),
]
NO_BOUNDS = (1, 0), (1, 1), (0, math.nan), (-math.inf, 0), (0, 1e200), (0, 1, 2), "01", 3.0, {0, 1}
BAD_TARGETS += [
    ([RIDGE], {"target_bounds": bounds}, lambda y: y, r"a pair \(low, high\) of finite numbers")
    for bounds in (*NO_BOUNDS, (None, 1), {0: 1, 1: 2}, np.zeros((2, 2)))
]


def test_errors_of_steps_in_a_search_quote_no_records():
    X, y = LOGISTIC.data()
    rows = pd.DataFrame({"number": X[:, 0], "ward": ["a"] * 59 + ["surgery of 12 May"]})
    encoder = OneHotEncoder(categories=[["a", "b"]])
    columns = make_column_transformer(
        (encoder, ["ward"]), remainder="passthrough", sparse_threshold=0
    )
    pipeline = make_pipeline(columns, LOGISTIC.model())
    grid = {"privatelogisticregression__clip": [0.1]}
    message = r"Found unknown categories\. Pass every category that can occur"
    with pytest.raises(ValueError, match=message) as caught:
        PrivateSearchCV(pipeline, grid, test_size=None).fit(rows, y)
    assert "surgery" not in str(caught.value)


BAD_FITS = [
    *[(case, {}, rows, True, message) for case in CASES for rows, message in BAD_ROWS],
    *[(case, {}, X[:-1], True, "inconsistent numbers of samples") for case in CASES],
    *[(case, changes, X, True, message) for case in CASES for changes, message in BAD_PARAMETERS],
    *[(case, {"delta": "auto"}, X[:1], lambda y: y[:1], "is 1/n.2 = 1") for case in CASES],
    *[
        (case, changes, X, spoil, message)
        for cases, changes, spoil, message in BAD_TARGETS
        for case in cases
    ],
]


@pytest.mark.parametrize(
    ("case", "changes", "X", "spoil", "message"),
    BAD_FITS,
    ids=[f"{c}-{[*b]}-{m[:40]}" for c, b, _, _, m in BAD_FITS],
)
def test_bad_input_is_refused_and_nothing_is_half_fitted(case, changes, X, spoil, message):
    """By a fresh estimator, and by one that was fitted before, which stays as it was."""
    good = case.data()
    y = good[1] if spoil is True else spoil and spoil(good[1])
    fresh = case.model(**changes)
    fitted = case.model().fit(*good).set_params(**changes)
    before = dict(vars(fitted))
    for estimator in (fresh, fitted):
        with pytest.raises((ValueError, TypeError), match=message):
            estimator.fit(X, y)
    assert not [name for name in vars(fresh) if name.endswith("_")]
    assert_unchanged(fitted, before)


STRANGE = {"numbers": np.array([2.0, 1.0]), "names": np.array(["auto", "best"])}
STRANGE |= {"array of a name": np.array("auto"), "bytes": b"auto", "name": "nonsense"}
STRANGE |= {"nan": math.nan, "complex": 1 + 2j, "huge": 10**400, "list": [], "dict": {}}
STRANGE["object"] = object()
"""Values that no parameter takes, but for two whose integers may be as large as they like."""


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
@each
def test_strange_values_of_any_parameter_are_refused_by_its_name(case, value):
    X, y = case.data()
    for name in case.model().get_params(deep=False):
        if name in ("random_state", "verbose") and value is STRANGE["huge"]:
            continue
        if name == "bounds" and value is STRANGE["dict"]:  # of no column: all are bought
            continue
        if name == "classes" and value is STRANGE["numbers"]:  # two classes, to none of which 0 is
            continue
        with pytest.raises((ValueError, TypeError), match=name):
            case.model(**{name: value}).fit(X, y)


@each
def test_an_interrupted_fit_leaves_the_model_as_it_was(case, monkeypatch):
    X, y = case.data()
    fitted = case.model().fit(X, y)
    before = dict(vars(fitted))
    interrupted = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(type(case.estimator.family.targets), "published", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X[:, :2], y)
    assert_unchanged(fitted, before)


@each
def test_bad_rows_are_refused_in_prediction(case):
    fitted = case.model().fit(*case.data())
    columns = "X has 2 features, but .* is expecting 3"
    others = (X[:, :2], columns), (sparse.csc_array(X[:, :2]), columns)
    for rows, message in (*BAD_ROWS, *others):
        if 0 in getattr(rows, "shape", ())[1:] or getattr(rows, "dtype", None) == np.float32:
            continue
        with pytest.raises(ValueError, match=message):
            fitted.predict(rows)


@each
@pytest.mark.parametrize("arguments", [(0, 3), (10, 0), (2.5, 3), (10, None), ("10", 3)])
def test_privacy_cost_of_no_data_is_refused(case, arguments):
    with pytest.raises(ValueError, match="must be an integer >= 1"):
        case.model().privacy_cost(*arguments)


@pytest.mark.parametrize(
    ("case", "public", "message"),
    [
        (LOGISTIC, {"classes": [0]}, "there is only one class"),
        (LOGISTIC, {"classes": [0, 1, 2]}, "Only binary classification is supported"),
        (SOFTMAX, {"classes": [0]}, "there is only one class"),
        (SOFTMAX, {"classes": {0, 1}}, "must be an array-like of labels"),
        (SOFTMAX, {"classes": [0, "a"]}, "all finite numbers or all strings"),
        (RIDGE, {"target_bounds": (1, 0)}, r"a pair \(low, high\)"),
        (SOFTMAX, {"classes": "from_y"}, "classes: the privacy cost depends on their number"),
    ],
    ids=lambda value: str(value) if isinstance(value, (Case, str)) else "-".join(value),
)
def test_privacy_cost_of_a_fit_that_would_be_refused_is_refused(case, public, message):
    with pytest.raises(ValueError, match=message):
        case.model(**public).privacy_cost(60, 3)


@each_classifier
def test_classes_taken_from_y_are_marked(case):
    with pytest.warns(
        PrivacyLeakWarning, match=r"classes=.*: the labels were taken from y.*Pass classes="
    ):
        fitted = case.model(classes="from_y").fit(*case.data())
    assert fitted.leaks_ == ("classes were taken from y",)


@each_classifier
def test_the_labels_that_occur_are_not_a_release(case):
    X, y = case.data()
    few = case.model().fit(X, 0 * y)
    all_labels = case.model().fit(X, y)
    assert_same_state(public_state(few), public_state(all_labels))


# --- softmax regression ---------------------------------------------------------------------------


def test_probabilities_are_the_softmax_of_the_raw_predictions():
    X, y = SOFTMAX.data()
    fitted = SOFTMAX.model(epsilon=50.0).fit(X, y)
    inside = X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    expected = inside @ fitted.coef_.T + fitted.intercept_
    proba = fitted.predict_proba(X)
    assert fitted.coef_.shape == (3, 3)
    assert fitted.intercept_.shape == (3,)
    np.testing.assert_allclose(fitted.decision_function(X), expected, atol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(proba, softmax(expected, axis=1))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), proba)
    np.testing.assert_array_equal(fitted.predict(X), np.argmax(proba, axis=1))


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (["c", "a", "b"], ["a", "b", "c"]),
        ([7, -1, 2**40], [-1, 7, 2**40]),
        ([2.5, 0.5, 1.0], [0.5, 1.0, 2.5]),
        ([False, True], [False, True]),
        (["no", "yes"], ["no", "yes"]),
        (pd.Index(["a", "b", "c"]), ["a", "b", "c"]),
        (range(4), [0, 1, 2, 3]),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [None, object])
def test_classes_of_any_kind(classes, labels, dtype):
    X, y = SOFTMAX.data()
    y = np.array(labels, dtype=dtype)[np.minimum(y, len(labels) - 1)]
    fitted = SOFTMAX.model(classes=classes).fit(X, y)
    assert list(fitted.classes_) == labels
    assert set(fitted.predict(X)) <= set(labels)


# --- ridge regression -----------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_of_the_target_do_not_matter(fit_intercept):
    """Scaled and shifted targets and bounds give scaled and shifted predictions."""
    X, y = RIDGE.data()
    expected = RIDGE.model(random_state=0, fit_intercept=fit_intercept).fit(X, y)
    for factor, shift in [(1e-6, 0.0), (1e6, 0.0), (3.0, 1000.0), (0.01, -5.0)]:
        shift *= fit_intercept
        bounds = tuple(factor * bound + shift for bound in (-1.0, 3.0))
        ours = RIDGE.model(random_state=0, target_bounds=bounds, fit_intercept=fit_intercept).fit(
            X, factor * y + shift
        )
        assert ours.target_bounds_ == bounds
        assert ours.privacy_ == expected.privacy_
        np.testing.assert_allclose(
            ours.predict(X), factor * expected.predict(X) + shift, rtol=1e-9, atol=1e-10 * factor
        )
        np.testing.assert_allclose(ours.coef_, factor * expected.coef_, rtol=1e-8)


def test_bounds_taken_from_y_are_marked():
    X, y = RIDGE.data()
    leak = "target_bounds were taken from y"
    model = RIDGE.model(target_bounds="from_y")
    message = r"target_bounds=.from_y.: the bounds were taken from y.*Pass target_bounds="
    with pytest.warns(PrivacyLeakWarning, match=message):
        fitted = clone(model).fit(X, y)
    assert fitted.leaks_ == (leak,)
    assert fitted.target_bounds_ == (y.min(), y.max())
    assert f"NOT PRIVATE: {leak}" in fitted._repr_html_()
    assert fitted.privacy_ == RIDGE.model().privacy_cost(60, 3) == model.privacy_cost(60, 3)
    both = model.set_params(random_state=3).fit(X, y).leaks_
    assert both == (leak, "random_state=3 lets anyone recompute the noise")


@pytest.mark.parametrize("bounds", [(0.0, 1e100), (1e39, 1.1e39)])
def test_single_precision_that_cannot_hold_the_target_is_refused(bounds):
    """Neither infinite coefficients nor infinite predictions without an error."""
    X, y = RIDGE.data()
    with pytest.raises((ValueError, FloatingPointError)):
        RIDGE.model(target_bounds=bounds).fit(X.astype(np.float32), y)


@each
def test_a_seed_is_warned_of_at_the_line_of_the_user(case):
    X, y = case.data()
    with pytest.warns(PrivacyLeakWarning, match="random_state") as caught:
        case.model(random_state=0).fit(X, y)
    assert {warning.filename for warning in caught} == {__file__}


@each
def test_parameters_of_a_solver_that_is_a_name(case):
    message = r"solver__n_steps is a parameter of an instance: pass solver=NoisyGD\(\), not 'noisy"
    with pytest.raises(ValueError, match=message):
        case.model(solver="noisy_gd").set_params(solver__n_steps=3)
    both = case.model(solver="noisy_gd").set_params(solver=NoisyGD(), solver__n_steps=3)
    assert both.solver.n_steps == 3


@each
@pytest.mark.parametrize("solver", [NoisyGD(step_size=5e-324), DPSGD(step_size=1e-310)])
def test_steps_whose_noise_would_be_rounded_away_are_refused(case, solver):
    X, y = case.data()
    with pytest.raises(ValueError, match=r"step_size=.* must be .*noise would be rounded away"):
        case.model(solver=solver).fit(X, y)


@pytest.mark.parametrize("noise_std", [[5e-324], [1.0, 0.0], [0.0, 1.0]])
def test_noise_that_would_be_rounded_away_is_refused(noise_std):
    objective = Objective(logistic, *X.shape, 1.0, 0.1)
    start = np.zeros(objective.n_parameters)
    rows = LocalRows(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="would be rounded away"):
        descend(start, objective, rows, np.ones(len(noise_std)), noise_std, math.inf, None)


def test_missing_values_of_any_kind_are_named():
    model = LOGISTIC.model()
    X = np.random.default_rng(0).random((20, 2))
    missing = X.astype(object)
    huge = X.astype(object)
    missing[0, 0] = pd.NA
    huge[0, 0] = 10**400
    y = pd.Series(np.arange(20) % 2, dtype=object)
    text = pd.Series(["no", "yes"] * 10, dtype="string")
    with pytest.raises(ValueError, match="which are numbers"):
        model.fit(X, text)
    for rows, target, message in (
        (missing, y, "X or y contains missing values"),
        (huge, y, "must be numbers that a float can hold"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(rows, target)


@pytest.mark.slow
@pytest.mark.parametrize("case", CLASSIFIERS, ids=str)
@pytest.mark.parametrize("kind", [float, np.uint64, np.float32])
def test_a_label_of_another_type_relabels_no_other_record(case, kind):
    """A list of integers becomes floats as soon as one is one, and some share floats."""
    X, y = case.data()
    first = 2**53
    classes = first + 2 * np.arange(int(y.max()) + 1)
    classes[1] = first + 1
    labels = classes[y.astype(int)].tolist()
    odd = labels.index(first)
    mixed = [*labels[:odd], kind(first), *labels[odd + 1 :]]
    model = case.model(classes=classes)
    options = {"epsilon": 2.0, "delta": 1e-4, "random_state": 0}
    search = PrivateSearchCV(model, {"clip": [0.3]}, **options)
    alone = clone(model).set_params(random_state=0)
    one, other = (clone(alone).fit(X, some) for some in (labels, mixed))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    one, other = (clone(search).fit(X, some).best_estimator_ for some in (labels, mixed))
    np.testing.assert_array_equal(one.coef_, other.coef_)


@each
def test_a_row_of_another_precision_in_a_list_changes_no_other(case):
    """T28: numpy takes a list of rows for doubles as soon as one is one."""
    X, y = case.data()
    rows = list(X.astype(np.float32))
    mixed = [rows[0].astype(np.float64), *rows[1:]]
    one, other = (case.model(random_state=0).fit(some, y) for some in (rows, mixed))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.coef_.dtype == other.coef_.dtype == np.float64
