"""The estimator: what a scikit-learn user expects of it, and what a privacy officer does."""

import math
import os
import pickle
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_blobs
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import shuffle

from skdpdyn import PrivateLogisticRegression
from skdpdyn.core import noise as _noise
from skdpdyn.exceptions import PrivacyLeakWarning, UnsupportedMechanismError
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.privacy import GaussianDP, RenyiDP, composition, last_iterate, tightest
from skdpdyn.solvers import NoisyGD


def data(n_samples=60, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n_samples, n_features))
    return X, (X[:, 0] + 0.1 * rng.standard_normal(n_samples) > 0).astype(int)


def model(**changes):
    return PrivateLogisticRegression(
        **{"epsilon": 2.0, "delta": 1e-4, "classes": [0, 1], "conditioning": None, **changes}
    )


# --- what it learns -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(100)])
def test_the_accuracy_check_of_scikit_learn_for_100_seeds(seeds):
    """check_classifiers_train asks for 0.83 on 200 rows at the default epsilon of 1."""
    X, y = make_blobs(n_samples=300, random_state=0)
    X, y = shuffle(X, y, random_state=7)
    X = StandardScaler().fit_transform(X)
    X, y = X[y != 2], y[y != 2]
    scores = [PrivateLogisticRegression(random_state=seed).fit(X, y).score(X, y) for seed in seeds]
    assert np.sum(np.array(scores) > 0.83) >= 95


@pytest.mark.smoke
@pytest.mark.parametrize(
    "container", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.csr_matrix]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_rows_are_learnt_as_dense_ones(container, dtype):
    X, y = data()
    X = (X * (np.abs(X) > 0.2) * 3).astype(dtype)  # some rows are empty, some longer than data_norm
    dense, ours = model(random_state=0).fit(X, y), model(random_state=0).fit(container(X), y)
    tolerance = 1e-10 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(ours.coef_, dense.coef_, rtol=tolerance)
    np.testing.assert_allclose(ours.intercept_, dense.intercept_, rtol=tolerance)
    np.testing.assert_allclose(ours.predict_proba(container(X)), ours.predict_proba(X), rtol=1e-6)
    assert ours.coef_.dtype == dtype


@pytest.mark.slow
def test_with_a_large_budget_it_is_the_minimiser_of_its_objective():
    """Unclipped, at epsilon 1e5: scikit-learn's coefficients with C = 1/(n alpha), intercept
    penalised as a column.
    """
    X, y = data(2000)
    private = model(
        epsilon=1e5, alpha=0.01, clip=10.0, intercept_scaling=1.0, solver=NoisyGD(n_steps=4000)
    ).fit(X, y)
    with_column = np.column_stack([X, np.ones(2000)])
    exact = (
        LogisticRegression(C=1 / (2000 * 0.01), fit_intercept=False, tol=1e-10)
        .fit(with_column, y)
        .coef_.ravel()
    )
    np.testing.assert_allclose(
        np.append(private.coef_, private.intercept_), exact, rtol=0.02, atol=0.01
    )


def test_scaling_the_data_and_its_norm_changes_nothing():
    """Every default is in units of data_norm."""
    X, y = data()
    small = model(random_state=0).fit(X, y)
    # a power of two, as are the lattices of what is released
    large = model(random_state=0, data_norm=1024.0).fit(1024 * X, y)
    assert large.n_iter_ == small.n_iter_
    np.testing.assert_allclose(large.predict_proba(1024 * X), small.predict_proba(X), rtol=1e-9)


def test_rows_outside_the_ball_are_mapped_in_fit_and_in_prediction():
    X, y = data()
    X = 10 * X
    inside = X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    far, near = model(random_state=0).fit(X, y), model(random_state=0).fit(inside, y)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-9)
    np.testing.assert_allclose(far.decision_function(X), near.decision_function(inside), rtol=1e-9)
    np.testing.assert_allclose(
        far.decision_function(1e6 * X), far.decision_function(inside), rtol=1e-9
    )


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


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        ([0, 1], [0, 1]),
        ([1, -1], [-1, 1]),
        (["b", "a"], ["a", "b"]),
        ([False, True], [False, True]),
        ([2.0, 1.0], [1.0, 2.0]),
    ],
)
def test_classes_of_any_kind(classes, labels):
    X, y = data()
    fitted = model(classes=classes, random_state=0).fit(X, np.array(labels)[y])
    assert list(fitted.classes_) == sorted(labels)
    assert set(fitted.predict(X)) <= set(labels)


def test_intercept_is_optional():
    X, y = data()
    fitted = model(fit_intercept=False).fit(X, y)
    assert fitted.intercept_ == 0.0
    assert fitted.intercept_scaling_ == 0.0
    assert fitted.coef_.shape == (1, 3)
    assert model(intercept_scaling=0.3).fit(X, y).intercept_scaling_ == 0.3


# --- what it spends -------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("bound", ["tightest", "composition", "langevin", "last_iterate"])
@pytest.mark.parametrize("radius", [None, 3.0])
def test_the_budget_is_met_by_what_ran(adjacency, bound, radius):
    X, y = data()
    estimator = model(adjacency=adjacency, bound=bound, solver=NoisyGD(radius=radius))
    fitted = clone(estimator).fit(X, y)
    assert fitted.privacy_cost(60, 3) == fitted.privacy_
    assert 2.0 * (1 - 1e-6) < fitted.epsilon_ <= 2.0
    assert fitted.delta_ == 1e-4
    assert fitted.privacy_.adjacency == fitted.mechanism_.adjacency == adjacency
    assert fitted.bound_ == ("last_iterate" if bound == "tightest" else bound)
    assert isinstance(fitted.privacy_, RenyiDP if bound == "langevin" else GaussianDP)
    assert tightest(fitted.mechanism_).guarantee.epsilon(1e-4) <= 2.0
    assert fitted.mechanism_.n_steps == fitted.n_iter_
    assert fitted.mechanism_.step_size == fitted.step_size_
    assert fitted.mechanism_.noise_multiplier == fitted.noise_multiplier_
    assert fitted.mechanism_.strong_convexity == fitted.alpha_
    assert fitted.leaks_ == ()


def test_sigma_is_the_langevin_noise():
    """A step's standard deviation, sqrt(2 step) sigma, is noise_multiplier x step x S/n."""
    X, y = data()
    fitted = model().fit(X, y)
    step_std = fitted.noise_multiplier_ * fitted.step_size_ * 2 * fitted.clip_ / 60
    assert math.sqrt(2 * fitted.step_size_) * fitted.sigma_ == pytest.approx(step_std, rel=1e-12)


def test_realised_noise_of_a_whole_fit():
    """Rows of zeros teach nothing: coefficients are noise alone. Chi-square, failure probability
    1e-6.
    """
    y = np.tile([0, 1], 10)
    fitted = model(alpha=0.0, fit_intercept=False, solver=NoisyGD(n_steps=3)).fit(
        np.zeros((20, 2000)), y
    )
    std = math.sqrt(3) * math.sqrt(2 * fitted.step_size_) * fitted.sigma_
    statistic = np.sum((fitted.coef_ / std) ** 2)
    assert stats.chi2.ppf(5e-7, 2000) < statistic < stats.chi2.isf(5e-7, 2000)


def test_the_clip_is_the_sensitivity_that_is_paid_for():
    narrow, wide = model(clip=0.2), model(clip=100.0)
    X, y = data()
    narrow.fit(X, y), wide.fit(X, y)
    assert narrow.mechanism_.sensitivity == pytest.approx(2 * 0.2 / 60)
    assert wide.clip_ == pytest.approx(math.hypot(1, 0.25))
    assert wide.mechanism_.sensitivity == pytest.approx(2 * math.hypot(1, 0.25) / 60)


def test_delta_defaults_to_one_over_n_squared():
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


def test_nothing_but_the_parameters_depends_on_the_records():
    """Two data sets with the same noise: all else that the fitted estimators hold is equal."""
    (X, y), (X2, y2) = data(), data(seed=5)
    state, state2 = (vars(model(random_state=0).fit(*d)) for d in ((X, y), (X2, y2)))
    assert set(state) == set(state2)
    differing = {name for name in state if not np.all(state[name] == state2[name])}
    assert differing == {"coef_", "intercept_"}


@pytest.mark.parametrize("verbose", [0, 1])
def test_warnings_and_output_do_not_depend_on_the_records(capsys, verbose, still_clock):
    said = []
    for scale, seed in ((1, 0), (1e6, 3)):
        X, y = data(seed=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model(verbose=verbose).fit(scale * X, y)
        said.append(([str(w.message) for w in caught], capsys.readouterr()))
    assert said[0] == said[1]
    assert bool(said[0][1].out) == bool(verbose)


# --- randomness -----------------------------------------------------------------------------------


def noise_of(estimator, n_features=500):
    """The noise of a fit that has nothing else: correlation between two such fits tells whether
    they share it.
    """
    return (
        estimator.set_params(fit_intercept=False)
        .fit(np.zeros((20, n_features)), np.tile([0, 1], 10))
        .coef_.ravel()
    )


def assert_independent(noises):
    """Correlation below 0.3 on 500 normals: 6.7 standard deviations, failure probability below
    1e-9 a pair.
    """
    correlation = np.corrcoef(noises)
    assert np.all(np.abs(correlation[~np.eye(len(noises), dtype=bool)]) < 0.3)


def test_clones_and_refits_draw_fresh_noise():
    estimator = model()
    assert_independent(
        [
            noise_of(estimator),
            noise_of(estimator),
            noise_of(clone(estimator)),
            noise_of(pickle.loads(pickle.dumps(estimator))),
        ]
    )


def test_planted_bug_a_reused_seed(monkeypatch):
    monkeypatch.setattr(_noise.os, "urandom", lambda n: bytes(n))
    with pytest.raises(AssertionError):
        test_clones_and_refits_draw_fresh_noise()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_workers_and_folds_draw_independent_noise(n_jobs):
    assert_independent(
        joblib.Parallel(n_jobs=n_jobs)(joblib.delayed(noise_of)(model()) for _ in range(4))
    )


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
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert_independent([np.array(line.split(), dtype=float) for line in out.splitlines()])


def test_a_seed_repeats_and_is_marked():
    X, y = data()
    with pytest.warns(PrivacyLeakWarning, match="random_state=1: the noise can be recomputed"):
        first = model(random_state=1).fit(X, y)
    np.testing.assert_array_equal(first.coef_, clone(first).fit(X, y).coef_)
    assert first.leaks_ == ("random_state=1 lets anyone recompute the noise",)
    assert "NOT PRIVATE: random_state=1" in first._repr_html_()


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


@pytest.mark.slow
def test_inside_pipelines_and_searches():
    X, y = data()
    pipeline = make_pipeline(BoundsScaler((-0.5, 0.5), (-1, 1)), model(epsilon=100.0))
    assert cross_val_score(pipeline, X, y, cv=3).shape == (3,)
    grid = {
        "privatelogisticregression__solver__step_size": [0.5, 1.0],
        "privatelogisticregression__clip": [0.3, 1.0],
    }
    pipeline.set_params(privatelogisticregression__solver=NoisyGD())
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(X, y)
    assert search.best_estimator_[-1].step_size_ in (0.5, 1.0)


def test_pandas_in_and_column_transformer():
    X, y = data()
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.where(X[:, 2] > 0, "x", "z")})
    target = pd.Series(np.where(y, "yes", "no"), name="outcome")
    columns = make_column_transformer(
        (BoundsScaler({"a": (-0.5, 0.5), "b": (-0.5, 0.5)}), ["a", "b"]),
        (OneHotEncoder(categories=[["x", "z"]], sparse_output=False), ["kind"]),
    ).set_output(transform="pandas")
    pipeline = make_pipeline(columns, model(classes=["no", "yes"])).fit(frame, target)
    assert list(pipeline[-1].feature_names_in_) == list(columns.get_feature_names_out())
    assert set(pipeline.predict(frame)) <= {"no", "yes"}


def test_pickles_with_all_that_it_says():
    X, y = data()
    fitted = model().fit(X, y)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    assert copy.privacy_ == fitted.privacy_
    assert copy.mechanism_ == fitted.mechanism_


def test_read_only_memory_mapped_and_fortran_ordered_input(tmp_path):
    X, y = data()
    expected = model(random_state=0).fit(X, y).coef_
    X.tofile(tmp_path / "X")
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="r", shape=X.shape)
    np.testing.assert_array_equal(model(random_state=0).fit(mapped, y).coef_, expected)
    np.testing.assert_array_equal(
        model(random_state=0).fit(np.asfortranarray(X), y).coef_, expected
    )
    np.testing.assert_array_equal(
        model(random_state=0).fit(np.hstack([X, X])[:, :3], y).coef_, expected
    )
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


def test_wide_data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5, 20_000))
    assert model(solver=NoisyGD(n_steps=2)).fit(X, [0, 1, 0, 1, 1]).coef_.shape == (1, 20_000)


# --- what it shows --------------------------------------------------------------------------------


def test_display_shows_what_was_spent():
    X, y = data()
    estimator = model()
    assert "spent" not in estimator._repr_html_()
    assert estimator._repr_mimebundle_()["text/plain"] == repr(estimator)
    bundle = estimator.fit(X, y)._repr_mimebundle_()
    line = "spent: epsilon=2, delta=0.0001 (replace_one, bound last_iterate)"
    assert line in bundle["text/html"]
    assert bundle["text/plain"].splitlines()[-1] == line
    shown = "PrivateLogisticRegression(classes=[0,1],conditioning=None,delta=0.0001,epsilon=2.0)"
    assert "".join(repr(estimator).split()) == shown


# --- what it refuses ------------------------------------------------------------------------------


def test_classes_taken_from_y_are_marked():
    X, y = data()
    with pytest.warns(
        PrivacyLeakWarning, match=r"classes=.*: the labels were taken from y.*Pass classes="
    ):
        fitted = model(classes="from_y").fit(X, y)
    assert fitted.leaks_ == ("classes were taken from y",)


def test_the_labels_that_occur_are_not_a_release():
    """With classes given, a data set of one class trains like any other."""
    X, _ = data()
    fitted = model().fit(X, np.zeros(60, dtype=int))
    assert list(fitted.classes_) == [0, 1]


@pytest.mark.parametrize(
    ("classes", "dtype"),
    [
        ([0.0, 0.5], float),
        ([-1, 2**40], np.int64),
        (["a", "b"], object),
        (["a", "b"], "U3"),
        ([0, 1], object),
    ],
)
def test_which_valid_labels_occur_is_never_an_error(classes, dtype):
    """Errors are per record: any mixture of valid labels fits."""
    X, _ = data()
    for pattern in ([0, 0], [1, 1], [0, 1]):
        y = np.array([classes[code] for code in pattern * 30], dtype=dtype)
        assert list(model(classes=classes).fit(X, y).classes_) == classes


def test_a_seed_of_zero_is_marked_too():
    X, y = data()
    assert model(random_state=0).fit(X, y).leaks_ == (
        "random_state=0 lets anyone recompute the noise",
    )


def test_prediction_uses_the_norm_of_the_fit():
    X, y = data()
    fitted = model(random_state=0).fit(X, y)
    before = fitted.decision_function(10 * X)
    np.testing.assert_array_equal(
        fitted.set_params(data_norm=100.0).decision_function(10 * X), before
    )


def test_parameters_beyond_floating_point_are_refused():
    """All are within it by chance with a probability below 1e-6."""
    X, y = data()
    with pytest.raises(FloatingPointError, match="the parameters overflowed"):
        model(data_norm=1e-40).fit((1e-40 * X).astype(np.float32), y)


def test_numpy_integers_do_not_overflow_in_the_cost():
    for n in (65537, 50000):
        assert model(delta="auto").privacy_cost(np.int32(n), 3) == model(delta="auto").privacy_cost(
            n, 3
        )


def test_display_can_be_turned_off():
    X, y = data()
    with config_context(display="text"):
        assert set(model().fit(X, y)._repr_mimebundle_()) == {"text/plain"}


X, Y = data()
BAD_FITS = [
    ({}, X * np.nan, Y, "Input X contains NaN"),
    ({}, X + np.inf, Y, "Input X contains infinity"),
    ({}, X[:0], Y[:0], r"Found array with 0 sample\(s\)"),
    ({}, X[:, :0], Y, r"0 feature\(s\)"),
    ({}, X[:, 0], Y, "Expected 2D array, got 1D array"),
    ({}, X[None], Y, "Found array with dim 3"),
    ({}, X + 1j, Y, "Complex data not supported"),
    ({}, X, Y[:-1], "inconsistent numbers of samples"),
    ({}, X, None, "requires y to be passed"),
    ({}, X, np.column_stack([Y, Y]), "y should be a 1d array"),
    ({}, X, X[:, 0], "y holds labels that are not in classes"),
    ({"classes": "auto"}, X, X[:, 0], "Unknown label type: continuous"),
    ({}, X * 1e200, Y, "norm exceeds 1.3e[+]154, the largest that float64 can train on: rescale X"),
    ({}, X, Y + 1, r"y holds labels that are not in classes=\[0, 1\]"),
    (
        {"classes": ["a", "b"]},
        X,
        Y,
        r"in classes=\['a', 'b'\], which are strings: .*paste: classes=range\(2\)$",
    ),
    ({}, X, Y.astype(str), "which are numbers"),
    ({"classes": [0]}, X, Y, "two classes are needed, and there is only one class"),
    ({"classes": "auto"}, X, np.ones(60), "two classes are needed, and there is only one class"),
    (
        {"classes": [0, 1, 2]},
        X,
        Y,
        (
            "Only binary classification is supported. The type of the target is multiclass; use "
            "PrivateSoftmaxRegression"
        ),
    ),
    (
        {"classes": "auto"},
        X,
        np.arange(60) % 3,
        (
            "Only binary classification is supported. The type of the target is multiclass; use "
            "PrivateSoftmaxRegression"
        ),
    ),
    (
        {"delta": "auto"},
        X[:1],
        Y[:1],
        r"n_samples=1: delta='auto' is 1/n\^2 = 1, which protects nothing",
    ),
    ({"epsilon": 0}, X, Y, "epsilon=0 must be a finite number > 0: the privacy budget"),
    ({"epsilon": -1.0}, X, Y, "epsilon=-1.0 must be a finite number > 0"),
    ({"epsilon": math.inf}, X, Y, "epsilon=inf must be a finite number > 0"),
    ({"epsilon": math.nan}, X, Y, "epsilon=nan must be a finite number > 0"),
    ({"epsilon": "1"}, X, Y, "epsilon='1' must be a finite number > 0"),
    ({"epsilon": 1e300}, X, Y, "no noise can be computed for so extreme a budget"),
    (
        {"delta": 0},
        X,
        Y,
        r"delta=0 must be in \(0, 1\): Gaussian noise has no pure-epsilon guarantee",
    ),
    ({"delta": 1.5}, X, Y, r"delta=1.5 must be in \(0, 1\)"),
    ({"delta": "tiny"}, X, Y, r"delta='tiny' must be a number in \(0, 1\), or 'auto'"),
    (
        {"data_norm": 0},
        X,
        Y,
        "data_norm=0 must be a finite number > 0: a public bound on the norm of a row",
    ),
    ({"data_norm": -1.0}, X, Y, "data_norm=-1.0 must be a finite number > 0"),
    ({"data_norm": None}, X, Y, "data_norm=None must be a finite number > 0"),
    (
        {"data_norm": 1e200},
        X,
        Y,
        r"data_norm=1e\+200 is not between 1e-50 and 1e\+50: rescale the data",
    ),
    ({"intercept_scaling": 1e200}, X, Y, "intercept_scaling=.* is not between"),
    ({"clip": 1e-300}, X, Y, "clip=1e-300 is not between"),
    ({"alpha": 1.7e308}, X, Y, "alpha=.* is not between"),
    ({"alpha": 5e-324}, X, Y, "alpha=.* is not between"),
    ({"solver": NoisyGD(n_steps=10**20)}, X, Y, "n_steps=.* <= 1000000000"),
    ({"bound": ["tightest"]}, X, Y, "bound=.* must be 'tightest' or one of"),
    ({"classes": {0, 1}}, X, Y, "classes=.* must be an array-like of labels"),
    ({"classes": "01"}, X, Y, "classes='01' must be an array-like of labels"),
    ({"classes": [0, "a"]}, X, Y, "classes=.* all finite numbers or all strings"),
    ({"classes": [0, None]}, X, Y, "classes=.* must be labels that can be sorted"),
    ({"alpha": -1.0}, X, Y, "alpha=-1.0 must be a finite number >= 0: 'auto' or"),
    ({"alpha": math.nan}, X, Y, "alpha=nan must be a finite number >= 0"),
    ({"clip": 0.0}, X, Y, "clip=0.0 must be a finite number > 0: 'auto' or a bound"),
    ({"fit_intercept": "yes"}, X, Y, "fit_intercept='yes' must be True or False"),
    ({"intercept_scaling": 0.0}, X, Y, "intercept_scaling=0.0 must be a finite number > 0"),
    ({"solver": "lbfgs"}, X, Y, r"solver='lbfgs' must be 'auto', one of \['bassily_sgd'"),
    ({"solver": NoisyGD}, X, Y, "solver=.* or an instance of a class of skdpdyn.solvers"),
    ({"bound": "moments"}, X, Y, "bound='moments' must be 'tightest' or one of"),
    ({"adjacency": "swap"}, X, Y, "adjacency='swap' must be 'replace_one' or 'add_remove'"),
    ({"random_state": 1.5}, X, Y, "random_state=1.5 must be None"),
    ({"n_jobs": 0}, X, Y, "n_jobs=0 must be None or an integer, not 0"),
    ({"bound": "langevin", "alpha": 0.0}, X, Y, "langevin .* needs strong_convexity > 0, not 0.0"),
    (
        {"bound": "langevin", "solver": NoisyGD(step_size=10.0)},
        X,
        Y,
        "langevin .* needs step_size < 1/smoothness",
    ),
    (
        {"bound": "last_iterate", "solver": NoisyGD(step_size=10.0)},
        X,
        Y,
        "last_iterate .* needs step_size <= 2/smoothness",
    ),
    (
        {"solver": NoisyGD(n_steps="worst_case"), "alpha": 0.0},
        X,
        Y,
        "worst-case number of steps is finite only above 0",
    ),
]


@pytest.mark.parametrize(
    ("changes", "X", "y", "message"), BAD_FITS, ids=[f"{c[0]}-{c[3][:30]}" for c in BAD_FITS]
)
def test_bad_input_is_refused_and_nothing_is_half_fitted(changes, X, y, message):
    estimator = model(**changes)
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.fit(X, y)
    assert not [name for name in vars(estimator) if name.endswith("_")]


def test_a_failed_refit_leaves_the_fitted_model_as_it_was():
    X, y = data()
    fitted = model().fit(X, y)
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match="labels that are not in classes"):
        fitted.fit(X[:, :2], y + 1)
    assert vars(fitted) == before


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


@pytest.mark.parametrize("arguments", [(0, 3), (10, 0), (2.5, 3)])
def test_privacy_cost_of_no_data_is_refused(arguments):
    with pytest.raises(ValueError, match="must be an integer >= 1"):
        model().privacy_cost(*arguments)


def test_one_record_with_an_explicit_delta_is_a_model():
    fitted = model().fit([[0.1, 0.2]], [1])
    assert fitted.n_samples_ == 1
    assert fitted.epsilon_ <= 2.0


@pytest.mark.parametrize("epsilon", [1e-300, 1e-6])
def test_tiny_budgets_give_noise_and_no_error(epsilon):
    X, y = data()
    fitted = model(epsilon=epsilon).fit(X, y)
    assert fitted.epsilon_ <= epsilon
    assert np.all(np.isfinite(fitted.coef_))
