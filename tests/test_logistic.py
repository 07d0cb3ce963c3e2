"""The estimator: what a scikit-learn user expects of it, and what a privacy officer does."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import BaggingClassifier

from skdpdyn import PrivateLogisticRegression
from skdpdyn.exceptions import PrivacyLeakWarning, UnsupportedMechanismError
from skdpdyn.privacy import composition, last_iterate
from skdpdyn.solvers import NoisyGD


def data(n_samples=60, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n_samples, n_features))
    return X, (X[:, 0] + 0.1 * rng.standard_normal(n_samples) > 0).astype(int)


def model(**changes):
    defaults = {"epsilon": 2.0, "delta": 1e-4, "classes": [0, 1], "conditioning": None}
    return PrivateLogisticRegression(**{**defaults, **changes})


# --- what it learns -------------------------------------------------------------------------------


@pytest.mark.smoke
def test_predictions_agree_with_each_other():
    X, y = data()
    fitted = model(classes=["no", "yes"], random_state=0).fit(X, np.array(["no", "yes"])[y])
    raw = fitted.decision_function(X)
    proba = fitted.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.predict(X) == "yes", raw > 0)
    np.testing.assert_array_equal(fitted.predict(X) == "yes", proba[:, 1] > 0.5)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), proba)
    np.testing.assert_allclose(X @ fitted.coef_.ravel() + fitted.intercept_, raw)


# --- what it spends -------------------------------------------------------------------------------


def test_realised_noise_of_a_whole_fit():
    """Rows of zeros teach nothing. Chi-square, failure probability 1e-6."""
    y = np.tile([0, 1], 10)
    fitted = model(alpha=0.0, fit_intercept=False, solver=NoisyGD(n_steps=3))
    fitted.fit(np.zeros((20, 2000)), y)
    std = math.sqrt(3) * math.sqrt(2 * fitted.step_size_) * fitted.sigma_
    statistic = np.sum((fitted.coef_ / std) ** 2)
    assert stats.chi2.ppf(5e-7, 2000) < statistic < stats.chi2.isf(5e-7, 2000)


def test_delta_defaults_to_one_over_n_squared():
    for n in (65537, 50000):  # whose squares overflow as int32
        cost = model(delta="auto").privacy_cost(np.int32(n), 3)
        assert cost == model(delta="auto").privacy_cost(n, 3)
    assert model(delta="auto").privacy_cost(1000, 3).epsilon(1e-6) == pytest.approx(2.0)
    X, y = data()
    assert model(delta="auto").fit(X, y).delta_ == 1 / 60**2


def test_defaults_never_read_the_data():
    (X, y), (X2, y2) = data(), data(seed=5)
    first, second = model().fit(X, y), model().fit(7 * X2, 1 - y2)
    assert first.mechanism_ == second.mechanism_
    assert first.privacy_ == second.privacy_
    public = {"coef_", "intercept_"}
    for name in [name for name in vars(first) if name.endswith("_") and name not in public]:
        assert np.all(getattr(first, name) == getattr(second, name)), name


# --- randomness -----------------------------------------------------------------------------------


def noise_of(estimator, n_features=500):
    """The noise of a fit that has nothing else: correlation tells whether two share it."""
    rows, y = np.zeros((20, n_features)), np.tile([0, 1], 10)
    return estimator.set_params(fit_intercept=False).fit(rows, y).coef_.ravel()


def assert_independent(noises):
    """Correlation below 0.3 on 500 normals: 6.7 deviations, below 1e-9 a pair."""
    correlation = np.corrcoef(noises)
    assert np.all(np.abs(correlation[~np.eye(len(noises), dtype=bool)]) < 0.3)


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_forked_children_draw_independent_noise():
    program = """
import os, sys
sys.path.insert(0, {path!r})
from test_logistic import model, noise_of
noise_of(model())
for _ in range(2):
    if os.fork() == 0:
        print(*noise_of(model()))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""
    program = program.format(path=os.path.dirname(__file__))
    command = [sys.executable, "-c", program]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert_independent([np.array(line.split(), dtype=float) for line in out.splitlines()])


def test_ensembles_that_hand_out_seeds_are_marked():
    X, y = data()
    with pytest.warns(PrivacyLeakWarning, match="the noise can be recomputed"):
        BaggingClassifier(model(), n_estimators=2).fit(X, y)


@pytest.mark.parametrize("state", [np.random.default_rng(0), np.random.RandomState(0)])
def test_generators_are_refused(state):
    X, y = data()
    with pytest.raises(TypeError, match="clones, folds and workers would copy its state"):
        model(random_state=state).fit(X, y)


# --- inside scikit-learn --------------------------------------------------------------------------


def test_read_only_memory_mapped_and_fortran_ordered_input(tmp_path):
    X, y = data()
    expected = model(random_state=0).fit(X, y).coef_
    X.tofile(tmp_path / "X")
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="r", shape=X.shape)
    for same in (mapped, np.asfortranarray(X), np.hstack([X, X])[:, :3]):
        np.testing.assert_array_equal(model(random_state=0).fit(same, y).coef_, expected)
    single = model(random_state=0).fit(X.astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    assert single.predict_proba(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.coef_, expected, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_rows_are_not_copied(dtype):
    """Memory that one fit of 64 MB of rows allocates, as numpy sees it."""
    import tracemalloc

    X = np.ones((20_000, 64 * 10**6 // 20_000 // np.dtype(dtype).itemsize), dtype=dtype)
    y = np.tile([0, 1], 10_000)
    estimator = model(solver=NoisyGD(n_steps=1))
    estimator.fit(X[:100], y[:100])
    tracemalloc.start()
    estimator.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8e6


# --- what it refuses ------------------------------------------------------------------------------


def test_which_valid_labels_occur_is_never_an_error():
    """Errors are per record: any mixture of valid labels fits, of any type."""
    X, numbers, words = data()[0], ([0.0, 0.5], [-1, 2**40], [0, 1]), ["a", "b"]
    cases = [(words, object), (words, "U3"), *zip(numbers, (float, np.int64, object), strict=True)]
    for classes, dtype in cases:
        for pattern in ([0, 0], [1, 1], [0, 1]):
            y = np.array([classes[code] for code in pattern * 30], dtype=dtype)
            assert list(model(classes=classes).fit(X, y).classes_) == classes


def test_parameters_beyond_floating_point_are_refused():
    """All are within it by chance with a probability below 1e-6."""
    X, y = data()
    with pytest.raises(FloatingPointError, match="the parameters overflowed"):
        model(data_norm=1e-40).fit((1e-40 * X).astype(np.float32), y)


X, Y = data()
LONG = NoisyGD(step_size=10.0)
BAD_RECORDS = [
    (X * np.nan, Y, "Input X contains NaN"),
    (X + np.inf, Y, "Input X contains infinity"),
    (X[:0], Y[:0], r"Found array with 0 sample\(s\)"),
    (X[:, :0], Y, r"0 feature\(s\)"),
    (X[:, 0], Y, "Expected 2D array, got 1D array"),
    (X[None], Y, "Found array with dim 3"),
    (X + 1j, Y, "Complex data not supported"),
    (X, Y[:-1], "inconsistent numbers of samples"),
    (X, None, "requires y to be passed"),
    (X, np.column_stack([Y, Y]), "y should be a 1d array"),
    (X, X[:, 0], "y holds labels that are not in classes"),
    (X * 1e200, Y, "norm exceeds 1.3e[+]154, the largest that float64 can train on: rescale X"),
    (X, Y + 1, r"y holds labels that are not in classes=\[0, 1\]"),
    (X, Y.astype(str), "which are numbers"),
]
BAD_LABELS = [  # for classes="auto"
    (X, X[:, 0], "Unknown label type: continuous"),
    (X, np.ones(60), "two classes are needed, and there is only one class"),
    (X, np.arange(60) % 3, "The type of the target is multiclass; use PrivateSoftmaxRegression"),
]
BAD_PARAMETERS = [
    ({"classes": ["a", "b"]}, r"\['a', 'b'\], which are strings: .*paste: classes=range\(2\)$"),
    ({"classes": [0]}, "two classes are needed, and there is only one class"),
    ({"classes": [0, 1, 2]}, "Only binary classification is supported"),
    ({"classes": {0, 1}}, "classes=.* must be an array-like of labels"),
    ({"classes": "01"}, "classes='01' must be an array-like of labels"),
    ({"classes": [0, "a"]}, "classes=.* all finite numbers or all strings"),
    ({"classes": [0, None]}, "classes=.* must be labels that can be sorted"),
    ({"epsilon": 0}, "epsilon=0 must be a finite number > 0: the privacy budget"),
    ({"epsilon": math.nan}, "epsilon=nan must be a finite number > 0"),
    ({"epsilon": "1"}, "epsilon='1' must be a finite number > 0"),
    ({"epsilon": 1e300}, "no noise can be computed for so extreme a budget"),
    ({"delta": 0}, r"delta=0 must be in \(0, 1\): Gaussian noise has no pure-epsilon guarantee"),
    ({"delta": 1.5}, r"delta=1.5 must be in \(0, 1\)"),
    ({"delta": "tiny"}, r"delta='tiny' must be a number in \(0, 1\), or 'auto'"),
    ({"data_norm": 0}, "data_norm=0 must be .* > 0: a public bound on the norm of a row"),
    ({"data_norm": None}, "data_norm=None must be a finite number > 0"),
    ({"data_norm": 1e200}, r"data_norm=1e\+200 is not between 1e-50 and 1e\+50: rescale the data"),
    ({"intercept_scaling": 1e200}, "intercept_scaling=.* is not between"),
    ({"intercept_scaling": 0.0}, "intercept_scaling=0.0 must be a finite number > 0"),
    ({"clip": 1e-300}, "clip=1e-300 is not between"),
    ({"clip": 0.0}, "clip=0.0 must be a finite number > 0: 'auto' or a bound"),
    ({"alpha": 1.7e308}, "alpha=.* is not between"),
    ({"alpha": 5e-324}, "alpha=.* is not between"),
    ({"alpha": -1.0}, "alpha=-1.0 must be a finite number >= 0: 'auto' or"),
    ({"alpha": math.nan}, "alpha=nan must be a finite number >= 0"),
    ({"fit_intercept": "yes"}, "fit_intercept='yes' must be True or False"),
    ({"solver": NoisyGD(n_steps=10**20)}, "n_steps=.* <= 1000000000"),
    ({"solver": "lbfgs"}, r"solver='lbfgs' must be 'auto', one of \['bassily_sgd'"),
    ({"solver": NoisyGD}, "solver=.* or an instance of a class of skdpdyn.solvers"),
    ({"bound": ["tightest"]}, "bound=.* must be 'tightest' or one of"),
    ({"bound": "moments"}, "bound='moments' must be 'tightest' or one of"),
    ({"adjacency": "swap"}, "adjacency='swap' must be 'replace_one' or 'add_remove'"),
    ({"random_state": 1.5}, "random_state=1.5 must be None"),
    ({"n_jobs": 0}, "n_jobs=0 must be None or an integer, not 0"),
    ({"bound": "langevin", "alpha": 0.0}, "langevin .* needs strong_convexity > 0, not 0.0"),
    ({"bound": "langevin", "solver": LONG}, "langevin .* needs step_size < 1/smoothness"),
    ({"bound": "last_iterate", "solver": LONG}, "last_iterate .* needs step_size <= 2/smoothness"),
    ({"solver": NoisyGD(n_steps="worst_case"), "alpha": 0.0}, "number of steps is finite only"),
]
BAD_FITS = [({}, *records) for records in BAD_RECORDS]
BAD_FITS += [({"classes": "auto"}, *records) for records in BAD_LABELS]
BAD_FITS += [(changes, X, Y, message) for changes, message in BAD_PARAMETERS]
BAD_FITS.append(({"delta": "auto"}, X[:1], Y[:1], "n_samples=1: .* = 1, which protects nothing"))


@pytest.mark.parametrize(
    ("changes", "X", "y", "message"), BAD_FITS, ids=[f"{c[0]}-{c[3][:30]}" for c in BAD_FITS]
)
def test_bad_input_is_refused_and_nothing_is_half_fitted(changes, X, y, message):
    estimator = model(**changes)
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.fit(X, y)
    assert not [name for name in vars(estimator) if name.endswith("_")]


def test_a_refit_leaves_nothing_of_the_one_before():
    X, y = data()
    fitted = model().fit(X, y)
    fitted.stray_ = 1
    assert not hasattr(fitted.fit(X[:, :2], y), "stray_")
    assert fitted.n_features_in_ == 2


def test_oversized_steps_fall_back_to_composition():
    X, y = data()
    fitted = model(solver=NoisyGD(n_steps=20, step_size=12.0)).fit(X, y)
    assert fitted.bound_ == "composition"
    assert fitted.privacy_ == composition(fitted.mechanism_)
    with pytest.raises(UnsupportedMechanismError):
        last_iterate(fitted.mechanism_)
