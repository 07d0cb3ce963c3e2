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
from skdpdyn.exceptions import PrivacyLeakWarning
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


# --- randomness -----------------------------------------------------------------------------------


def noise_of(estimator, n_features=500):
    """The noise of a fit that has nothing else: correlation tells whether two share it."""
    rows = np.zeros((20, n_features))
    y = np.tile([0, 1], 10)
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


X, Y = data()
LONG = NoisyGD(step_size=10.0)
BAD_FITS = [  # beside those of every estimator in test_models.py
    ({}, X, Y.astype(str), "which are numbers"),
    ({"classes": "auto"}, X, X[:, 0], "Unknown label type: continuous"),
    ({"classes": "auto"}, X, np.ones(60), "two classes are needed, and there is only one class"),
    ({"classes": "auto"}, X, np.arange(60) % 3, "multiclass; use PrivateSoftmaxRegression"),
    ({"classes": ["a", "b"]}, X, Y, r"\['a', 'b'\], which are strings: .*classes=range\(2\)$"),
    ({"classes": [0]}, X, Y, "two classes are needed, and there is only one class"),
    ({"classes": [0, 1, 2]}, X, Y, "Only binary classification is supported"),
    ({"classes": [0, "a"]}, X, Y, "classes=.* all finite numbers or all strings"),
    ({"classes": [0, None]}, X, Y, "classes=.* must be labels that can be sorted"),
    ({"epsilon": 1e300}, X, Y, "no noise can be computed for so extreme a budget"),
    ({"delta": 0}, X, Y, "delta=0 .* Gaussian noise has no pure-epsilon guarantee"),
    ({"data_norm": 1e200}, X, Y, r"data_norm=1e\+200 is not between 1e-50 and 1e\+50: rescale"),
    ({"intercept_scaling": 1e200}, X, Y, "intercept_scaling=.* is not between"),
    ({"clip": 1e-300}, X, Y, "clip=1e-300 is not between"),
    ({"alpha": 1.7e308}, X, Y, "alpha=.* is not between"),
    ({"alpha": 5e-324}, X, Y, "alpha=.* is not between"),
    ({"solver": NoisyGD(n_steps=10**20)}, X, Y, "n_steps=.* <= 1000000000"),
    ({"solver": NoisyGD}, X, Y, "solver=.* or an instance of a class of skdpdyn.solvers"),
    ({"bound": ["tightest"]}, X, Y, "bound=.* must be 'tightest' or one of"),
    ({"bound": "langevin", "solver": LONG}, X, Y, "langevin .* needs step_size < 1/smoothness"),
    ({"solver": NoisyGD(n_steps="worst_case"), "alpha": 0}, X, Y, "of steps is finite only above"),
]


@pytest.mark.parametrize(
    ("changes", "X", "y", "message"), BAD_FITS, ids=[f"{c[0]}-{c[3][:30]}" for c in BAD_FITS]
)
def test_bad_input_is_refused(changes, X, y, message):
    with pytest.raises(ValueError, match=message):
        model(**changes).fit(X, y)


def test_a_refit_leaves_nothing_of_the_one_before():
    X, y = data()
    fitted = model().fit(X, y)
    fitted.stray_ = 1
    assert not hasattr(fitted.fit(X[:, :2], y), "stray_")
    assert fitted.n_features_in_ == 2
