"""Tables of coefficients: what is released for them, what intervals cover, and which models have
none.
"""

import importlib
import math
import re
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpdyn import PrivateLogisticRegression, PrivateRidge, PrivateSoftmaxRegression, spending
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.inference import private_summary
from skdpdyn.model_selection import total_privacy
from skdpdyn.privacy import GaussianDP, Ledger, check_report
from skdpdyn.solvers import NoisyGD, ObjectivePerturbation

sys.path.append(str(Path(__file__).parents[1]))
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (1000, 3))
RAW = X @ [3.0, -2.0, 0.5] + 0.5
Y = RNG.uniform(size=1000) < expit(RAW)
TARGET = RAW + RNG.normal(size=1000)


def logistic(**parameters):
    defaults = {"classes": [False, True], "clip": 2.0, "conditioning": None}
    return PrivateLogisticRegression(
        **{**defaults, "solver": "objective_perturbation", **parameters}
    )


def ridge(**parameters):
    defaults = {"target_bounds": (-8.0, 8.0), "conditioning": None}
    return PrivateRidge(**{**defaults, "solver": "sufficient_statistics", **parameters})


class Recorder:
    """Release without noise, or what another recorder did; remember points and scales."""

    def __init__(self, before=None):
        self.calls, self.before = [], before

    def __call__(self, point, scale, generator, **options):
        point = np.array(point, dtype=float)
        self.calls.append((point, np.broadcast_to(scale, point.shape)))
        return point if self.before is None else self.before.calls[len(self.calls) - 1][0]


# --- what one record does to what is released -----------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("kind", [logistic, ridge])
@pytest.mark.parametrize("norm", [1.0, 10.0])
def test_sensitivity(kind, robust, adjacency, norm, monkeypatch):
    """Each release moves by no more than its noise is for, and by 0.9 of that at some neighbour."""
    rows, target = norm * X[:40], (Y if kind is logistic else TARGET)[:40]
    # A row of zeros without an intercept is no row at all
    clip = {"clip": 2 * norm} if kind is logistic else {}
    model = kind(adjacency=adjacency, data_norm=norm, fit_intercept=False, **clip)
    model.fit(rows, target)
    far, zero = 5 * norm * np.eye(3), np.zeros(3)
    pairs = [(far[0], far[1]), (far[0], -far[0]), (rows[1], far[2])]
    pairs = pairs if adjacency == "replace_one" else [(one, zero) for one, _ in pairs]
    labels = [(True, True), (True, False)] if kind is logistic else [(8.0, 8.0), (8.0, 0.0)]
    if adjacency == "add_remove":
        labels = labels if kind is logistic else [(8.0, 0.0)]
    moved = []
    # Curvature is largest where nothing is known, and residuals are where all is wrong
    for (one, other), (label, changed), coef in product(
        pairs, labels, (0.0, 20 / norm, -20 / norm)
    ):
        model.coef_ = np.full_like(model.coef_, coef)
        recorders = [Recorder()]
        recorders.append(Recorder(before=recorders[0]))
        for recorder, row, value in zip(recorders, (one, other), (label, changed), strict=True):
            A, b = rows.copy(), target.copy()
            A[0], b[0] = row, value
            monkeypatch.setattr(spending, "release", recorder)
            summary = private_summary(model, A, b, epsilon=1.0, robust=robust)
        calls = list(zip(*(recorder.calls for recorder in recorders), strict=True))
        assert all(np.array_equal(scale, same) for (_, scale), (_, same) in calls)
        moved.append([np.linalg.norm((one - two) / scale) for (one, scale), (two, _) in calls])
    paid = [1 / part.noise_multiplier for part in summary.mechanism_.mechanisms]
    assert len(paid) == 1 + robust
    attained = np.max(moved, axis=0) / paid
    assert np.all(attained <= 1)
    if kind is logistic or not robust:  # residuals are cut off where these rows do not reach
        assert np.all(attained > 0.9)


# --- the numbers ----------------------------------------------------------------------------------


def without_privacy(rows, target, robust):
    """Coefficients and standard errors of the regression itself, the intercept last."""
    Z = np.column_stack([rows, np.ones(len(rows))])
    if target.dtype == bool:
        fitted = LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(rows, target)
        theta = np.append(fitted.coef_, fitted.intercept_)
        p = expit(Z @ theta)
        weight, residual, scale = p * (1 - p), p - target, 1.0
    else:
        theta = np.linalg.lstsq(Z, target)[0]
        weight, residual = np.ones(len(Z)), Z @ theta - target
        scale = residual @ residual / (len(Z) - Z.shape[1])
    inverse = np.linalg.inv((Z.T * weight) @ Z)
    middle = (Z.T * residual**2) @ Z if robust else scale * np.linalg.inv(inverse)
    return theta, np.sqrt(np.diag(inverse @ middle @ inverse))


@pytest.mark.slow
@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("kind", [logistic, ridge])
@pytest.mark.parametrize("norm", [1.0, 10.0])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_large_budgets_give_the_regression_itself(kind, robust, norm, container):
    """With next to no noise: what the penalty did is taken back, and errors are the usual ones."""
    rows, target = norm * np.tile(X, (5, 1)), np.tile(Y if kind is logistic else TARGET, 5)
    clip = {"clip": 2 * norm} if kind is logistic else {}
    model = kind(epsilon=3000.0, delta=1e-9, data_norm=norm, adjacency="add_remove", **clip)
    model.fit(container(rows), target)
    summary = private_summary(
        model, container(rows), target, epsilon=3e4, delta=1e-9, robust=robust
    )
    theta, error = without_privacy(rows, target, robust)
    np.testing.assert_allclose(summary.coef, theta, atol=0.1 * error.max(), rtol=0.01)
    np.testing.assert_allclose(summary.std_err, error, rtol=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("form", ["likelihood", "robust", "linear"])
def test_intervals_cover(form, monkeypatch):
    """Of 60 repetitions a coefficient with coverage 0.93 is covered less than 41 times with
    probability 2e-8.
    """
    benchmark = importlib.import_module("benchmarks.intervals")
    n_features, repetitions = (1, 60)
    if form == "linear":  # whose table does not use the model's coefficients

        def short(*cell):
            model, table = models(*cell)
            return model.set_params(solver=NoisyGD(n_steps=3)), table

        models = benchmark.models
        monkeypatch.setattr(benchmark, "models", short)
    cell = form, "add_remove", "correlated", 5000, n_features, 2.0, "summary"
    errors, widths = benchmark.simulate(cell, repetitions, seed=None)
    assert errors.shape == (repetitions, n_features + 1)
    assert np.isfinite(errors).mean() > 0.9
    assert np.all((np.abs(errors) < 1.96).sum(axis=0) >= 41 - np.isnan(errors).sum(axis=0))
    assert np.nanstd(errors) > 0.6  # not because intervals are wide: 120 numbers
    assert np.nanmedian(widths) < (1.35 if form == "likelihood" else 6.0)
    assert benchmark.statistics(errors, widths)[1] > 0.6


# --- not enough information -----------------------------------------------------------------------


def test_what_the_noise_hides_is_not_answered():
    model = logistic().fit(X, Y)
    summary = private_summary(model, X, Y, epsilon=0.01)
    assert not summary.answered.any()
    assert np.all(np.isnan(summary.coef))
    assert np.all(summary.sufficient_epsilon > 0.01)
    told = r"nothing seen: |not enough information; epsilon=0\.0"
    assert len(re.findall(told, str(summary))) == 4
    assert len(re.findall("nothing seen|not enough information", summary._repr_html_())) == 4
    assert summary.own_privacy_.epsilon(summary.delta_) == pytest.approx(0.01)  # charged


@pytest.mark.parametrize("epsilon", [1.0, 5.0, 30.0])
@pytest.mark.parametrize(
    ("columns", "told"), [([0, 0, 1], "collinear"), ([0, None, 1], "constant")]
)
def test_columns_that_tell_nothing_are_named_and_not_advised_on(columns, told, epsilon):
    """An eigenvalue of 0 is taken for information if its noise is above 2.4 standard deviations."""
    rows = np.tile(X, (5, 1))
    rows = np.column_stack([np.full(len(rows), 0.2) if j is None else rows[:, j] for j in columns])
    model = ridge(epsilon=1.0).fit(rows, np.tile(TARGET, 5))
    summary = private_summary(model, rows, np.tile(TARGET, 5), epsilon=epsilon, random_state=1)
    hidden = ("x0", "x1") if told == "collinear" else ("x1",)
    assert summary.hidden[1] == hidden
    assert np.isinf(summary.sufficient_epsilon[1])
    assert f"nothing seen: {', '.join(hidden)} may be {told}" in str(summary)
    if epsilon > 1:
        assert np.isfinite(summary.std_err[2])


def test_coding_moves_errors_no_further_than_noise_does():
    """Columns in 0..1 in place of -1..1: as many answers, and errors in the same units."""
    rows, target = np.tile(2 * X, (20, 1)), np.tile(Y, 20)
    tables = []
    for coded in (rows, (rows + 1) / 2):
        model = logistic(data_norm=3**0.5, clip=2 * 3**0.5, random_state=0).fit(coded, target)
        tables.append(private_summary(model, coded, target, epsilon=1.0, random_state=0))
    assert all(table.answered.all() for table in tables)
    # the model's own noise is twice as large in these units where rows have half the spread
    ratio = tables[1].std_err[:3] / 2 / tables[0].std_err[:3]
    assert np.all((ratio > 0.8) & (ratio < 2.2))


@pytest.mark.slow
def test_a_column_of_zeros_takes_nothing_from_the_others():
    rows = np.column_stack([np.tile(X, (20, 1)), np.zeros(20_000)])
    target = np.tile(Y, 20)
    model = logistic(epsilon=4.0).fit(rows, target)
    summary = private_summary(model, rows, target, epsilon=4.0)
    assert summary.answered.tolist() == [True, True, True, False, True]
    assert np.isnan(summary.sufficient_epsilon).tolist() == summary.answered.tolist()
    assert summary.hidden[3] == ("x3",)
    linear = ridge(epsilon=1.0).fit(rows, np.tile(TARGET, 20))
    assert not private_summary(linear, rows, np.tile(TARGET, 20), epsilon=4.0).answered[3]


def test_a_noisy_covariance_of_scores_refuses():
    model = logistic(epsilon=1.0).fit(X, Y)
    plain = private_summary(model, X, Y, epsilon=3.0)
    robust = private_summary(model, X, Y, epsilon=3.0, robust=True)
    assert plain.answered.sum() >= robust.answered.sum()


# --- models without intervals ---------------------------------------------------------------------

REFUSED = {
    "clip": (logistic(clip=0.515388), ("clip=0.515388 makes another loss .* Fit the model with "
                                     "clip=1.04")),
    "conditioning": (ridge(conditioning="auto", solver="auto"), "Fit it with conditioning=None"),
    "noisy_gd": (logistic(solver="noisy_gd"), ("solver='noisy_gd' stops .* "
                                               "solver='objective_perturb")),
    "output": (logistic(solver="output_perturbation"), "solver='output_perturbation' stops"),
    "gamma": (logistic(solver=ObjectivePerturbation(noise="gamma")), r"noise='gaussian'\)"),
    "class weights": (logistic(class_weight={True: 2.0}), "Fit the model with class_weight=None"),
    "softmax": (PrivateSoftmaxRegression(classes=[0, 1, 2]), "PrivateSoftmaxRegression, only"),
    "pipeline": (
        make_pipeline(FunctionTransformer(), logistic()),
        "of a Pipeline pass its last step, and X as",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_models_without_intervals_are_refused_with_a_remedy(name):
    model, message = REFUSED[name]
    model.fit(X, TARGET if name == "conditioning" else Y)
    with pytest.raises(UnsupportedMechanismError, match=message):
        private_summary(model, X, Y, epsilon=1.0)


def test_a_table_protects_whom_the_model_protects():
    pairs = np.arange(len(X)) // 2
    model, alone = ridge().fit(X, TARGET, groups=pairs, unit="pair"), ridge().fit(X, TARGET)
    for fitted, groups in ((model, None), (alone, pairs)):
        with pytest.raises(UnsupportedMechanismError, match="would protect another unit: pass"):
            private_summary(fitted, X, TARGET, groups=groups, epsilon=1.0)
    with pytest.raises(ValueError, match="X has 499 groups, and the model was fitted on 500"):
        private_summary(model, X[2:], TARGET[2:], groups=pairs[2:], epsilon=1.0)
    table = private_summary(model, X, TARGET, groups=pairs, epsilon=1.0)
    assert table.own_privacy_.unit == table.privacy_.unit == "pair"
    assert "500 pairs" in str(table)
    assert "for one pair" in str(table)
    check_report(table.privacy_report().as_dict())


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("kind", [logistic, ridge])
def test_rows_that_a_person_repeats_change_nothing(kind, robust, monkeypatch):
    """A person counts as the mean of all rows, and no more than the public number are used."""
    target = Y if kind is logistic else TARGET
    model = kind(max_rows_per_person=3).fit(X, target, groups=np.arange(len(X)))
    once, often = Recorder(), Recorder()
    repeated = np.repeat(np.arange(len(X)), 1 + np.arange(len(X)) % 5)
    for recorder, rows in ((once, np.arange(len(X))), (often, repeated)):
        monkeypatch.setattr(spending, "release", recorder)
        data = X[rows], target[rows]
        private_summary(model, *data, groups=rows, epsilon=1.0, robust=robust)
    for (point, scale), (other, of_other) in zip(once.calls, often.calls, strict=True):
        np.testing.assert_allclose(other, point, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(scale, of_other)


def test_parameters_and_records_are_checked():
    model = logistic().fit(X, Y)
    for wrong, message in (
        ({"epsilon": 0}, "epsilon=0 must be"),
        ({"delta": 0}, "delta=0 must be in"),
        ({"confidence": 1.0}, "confidence=1.0 must be"),
        ({"robust": "yes"}, "robust"),
        ({"random_state": np.random.default_rng()}, "random_state"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            private_summary(model, X, Y, **{"epsilon": 1.0, **wrong})
    with pytest.raises(ValueError, match="X has 999 rows, and the model was fitted on 1000"):
        private_summary(model, X[1:], Y[1:], epsilon=1.0)
    secret = np.where(np.arange(1000) == 7, 1234.5, 1.0)
    with pytest.raises(ValueError, match="y holds labels that are not in classes") as caught:
        private_summary(model, X, secret, epsilon=1.0)
    assert "1234" not in str(caught.value)
    with pytest.raises(ValueError, match="is not fitted yet"):
        private_summary(logistic(), X, Y, epsilon=1.0)


# --- what it costs, and how it is shown -----------------------------------------------------------


def test_cost(tmp_path):
    model = logistic(epsilon=0.5, delta=1e-6).fit(X, Y)
    summary = private_summary(model, X, Y, epsilon=0.5, delta=1e-6)
    assert summary.own_privacy_.epsilon(1e-6) == pytest.approx(0.5)
    assert summary.own_privacy_.epsilon(1e-6) <= 0.5
    assert summary.privacy_ == model.privacy_.compose(summary.own_privacy_)
    assert total_privacy(summary).guarantee.epsilon(1e-6) == summary.privacy_.epsilon(1e-6)
    check_report(summary.privacy_report().as_dict())
    ledger = Ledger(tmp_path / "books.json", cap=(2.0, 1e-6))
    with ledger.reserve("model and table", summary) as entry:
        entry.settle(summary)
    assert ledger.epsilon == pytest.approx(summary.privacy_.epsilon(1e-6))
    assert isinstance(summary.own_privacy_, GaussianDP)


def test_seeds_leak_and_repeat():
    model = logistic(random_state=0).fit(X, Y)
    one, other = (private_summary(model, X, Y, epsilon=5.0, random_state=1) for _ in range(2))
    np.testing.assert_array_equal(one.coef, other.coef)
    assert len(one.leaks_) == 2
    assert "NOT PRIVATE: random_state=1" in str(one)
    assert not np.array_equal(private_summary(model, X, Y, epsilon=5.0).coef, one.coef)


def test_table():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["age", "<b>", "income of the last year"])
    model = logistic(epsilon=5.0).fit(frame, Y)
    summary = private_summary(model, frame, Y, epsilon=5.0, confidence=0.9)
    table = summary.to_frame(odds_ratios=True)
    assert list(table.index) == ["age", "<b>", "income of the last year", "intercept"]
    assert list(table)[:6] == ["coef", "std err", "z", "P>|z|", "[0.05", "0.95]"]
    np.testing.assert_allclose(table["odds ratio"], np.exp(table["coef"]))
    np.testing.assert_allclose(
        (table["0.95]"] - table["[0.05"]) / table["std err"], 2 * 1.6448536, rtol=1e-6
    )
    assert np.all((summary.pvalues < 0.1) == (summary.conf_int().prod(axis=1) > 0))
    assert list(summary.to_frame()) == list(table)[:6]
    text = summary.as_text(odds_ratios=True)
    assert len({len(line) for line in text.splitlines()[1:6]}) == 1
    assert "expected log loss of y == True" in text
    shown = summary._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert repr(summary) == summary.as_text()


def test_the_linear_table_needs_no_intercept_and_reads_bounds():
    model = ridge(epsilon=5.0, fit_intercept=False, target_bounds=(0.0, 4.0)).fit(X, TARGET)
    summary = private_summary(model, X.astype(np.float32), TARGET, epsilon=50.0)
    assert summary.names == ("x0", "x1", "x2")
    assert math.isfinite(summary.std_err[0])
    assert "least-squares fit to y within [0, 4]" in summary.estimand
