"""What public bounds change, bought on request: paid for in full, true, and told in the report."""

import numpy as np
import pytest
from numba import config
from scipy import sparse
from test_models import LOGISTIC, POISSON, RIDGE
from test_report import SCHEMA, validate
from test_solvers_conformance import DEFAULTS, label, model
from test_streamed import GeneratedRows

from skdpdyn import PrivateRidge
from skdpdyn.data.local import rows_of
from skdpdyn.model_selection import PrivateSearchCV, total_privacy
from skdpdyn.privacy import (
    Budget,
    Composition,
    Gaussian,
    Ledger,
    check_report,
    composition,
    tightest,
)
from skdpdyn.solvers import NoisyGD, ObjectivePerturbation, OutputPerturbation
from skdpdyn.training.diagnostics import ROWS, TARGETS

REGRESSORS = RIDGE, POISSON
BOUNDS = (-1.0, 3.0)


def true_shares(X, y, weight=None):
    long = np.linalg.norm(X, axis=1) > 1
    clipped = (y < BOUNDS[0]) | (y > BOUNDS[1])
    return {name: np.average(of, weights=weight) for name, of in ((ROWS, long), (TARGETS, clipped))}


def assert_true(diagnostics, truth):
    """Within six standard deviations of the noise, beyond which it is with probability 2e-9."""
    assert diagnostics.keys() == truth.keys()
    for name, found in diagnostics.items():
        share = found["share"]
        low = found["low"]
        high = found["high"]
        deviation = max(share - low, high - share) / 1.96  # one end may be cut off
        assert 0 <= low < share < high <= 1
        assert abs(found["share"] - truth[name]) <= 6 * deviation, name


N_SAMPLES = 400 if config.DISABLE_JIT else 3000
SHORT = {"conditioning": None, "solver": NoisyGD(n_steps=3)}


def data(n_samples=N_SAMPLES, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.7, 0.7, (n_samples, 4))
    return X, 1 + 3 * X[:, 0] + rng.standard_normal(n_samples)


# --- what they cost -------------------------------------------------------------------------------


@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("problem", DEFAULTS, ids=label)
def test_every_solver_pays_for_them_and_says_so(problem, tmp_path):
    """A hundredth of mu^2, beforehand, in record, report, total and books."""
    case, name = problem
    X, y = case.data(60)
    private = model(case, name, diagnostics=True)
    cost = private.privacy_cost(60, 3)
    ledger = Ledger(tmp_path / "books.json", cap=(2.1, 1e-4))
    with ledger.reserve("fit", cost) as entry:
        fitted = private.fit(X, y)
        entry.settle(fitted)
    assert fitted.privacy_ == cost == ledger.entries["fit"].cost
    assert fitted.epsilon_ <= 2
    names = (ROWS, TARGETS)[: 1 + (case in REGRESSORS)]
    assert tuple(fitted.diagnostics_) == names
    bought = fitted.mechanism_.mechanisms[: len(names)]
    assert all(isinstance(part, Gaussian) for part in bought)
    paid = composition(Composition(bought)).mu / Budget(2.0, 1e-4).mu
    assert paid**2 == pytest.approx(0.01, rel=1e-6)
    whole = tightest(fitted.mechanism_, delta=fitted.delta_).guarantee
    assert whole.epsilon(fitted.delta_) <= fitted.epsilon_ * (1 + 1e-9)
    assert total_privacy(fitted).guarantee.epsilon(1e-4) == pytest.approx(fitted.epsilon_)

    report = fitted.privacy_report()
    entries = report.as_dict()["diagnostics"]
    assert entries[ROWS] == fitted.diagnostics_[ROWS]["share"]
    assert len(entries) == 2 * len(names)
    validate(report.as_dict(), SCHEMA)
    assert check_report(report.to_json())["diagnostics"] == entries
    assert f"- {ROWS}: " in report.to_model_card()
    entries[ROWS] += 1e-3
    with pytest.raises(ValueError, match="checksum"):
        check_report({**report.as_dict(), "diagnostics": entries})


# --- that they are true ---------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["dense", "csr", "float32", "read in order"])
@pytest.mark.parametrize("options", [{"data_norm": 1.0}, SHORT], ids=["conditioned", "plain"])
def test_they_are_those_of_the_records(layout, options):
    X, y = data()
    private = PrivateRidge(20.0, 1e-6, target_bounds=BOUNDS, diagnostics=True, **options)
    if layout == "read in order":
        private.fit(GeneratedRows(X, y))
    else:
        private.fit({"csr": sparse.csr_array, "float32": np.float32}.get(layout, np.asarray)(X), y)
    assert_true(private.diagnostics_, true_shares(X, y))


def test_a_count_and_a_label():
    X, y = POISSON.data(1000)
    truth = np.mean(y > 3)
    options = {"target_bounds": (0, 3), "diagnostics": True, **SHORT}
    fitted = POISSON.model(epsilon=20.0, **options).fit(X, y)
    found = fitted.diagnostics_[TARGETS]
    assert abs(found["share"] - truth) <= 6 * (found["high"] - found["low"]) / 2 / 1.96
    assert found["low"] < found["high"]


@pytest.mark.parametrize("most_rows", ["auto", 2])
def test_the_rows_of_a_person_weigh_one_together(most_rows):
    X, y = data()
    persons = np.sort(np.random.default_rng(1).integers(len(y) // 3, size=len(y)))
    _, persons = np.unique(persons, return_inverse=True)
    options = {"diagnostics": True, "max_rows_per_person": most_rows, **SHORT}
    private = PrivateRidge(100.0, 1e-6, target_bounds=BOUNDS, **options)
    private.fit(X, y, groups=persons)
    used = rows_of(X, y, persons, 100 if most_rows == "auto" else most_rows)
    assert_true(private.diagnostics_, true_shares(used.X, used.y, used.weight))


def test_what_is_rounding_is_not_counted():
    """Rows of norm 1, in single precision too, and targets on their bounds are left as they are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 7))
    X = (X / np.linalg.norm(X, axis=1)[:, None]).astype(np.float32)
    y = rng.choice(np.array([0.1, 0.7], np.float32), 2000)
    options = {"target_bounds": (0.1, 0.7), "diagnostics": True, **SHORT}
    private = PrivateRidge(50.0, 1e-3, **options).fit(X, y)
    for found in private.diagnostics_.values():
        assert found["share"] < 0.006  # six standard deviations of the noise


# --- refusals, and where they travel --------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"solver": OutputPerturbation(noise="gamma")},
        {"solver": ObjectivePerturbation(noise="gamma"), "delta": 0},
    ],
)
def test_what_has_no_part_for_gaussian_noise_is_refused(options):
    with pytest.raises(ValueError, match="diagnostics=True: solver="):
        LOGISTIC.model(diagnostics=True, **options).privacy_cost(100, 3)


def test_more_than_there_is_is_refused():
    with pytest.raises(ValueError, match="diagnostics='yes' must be"):
        LOGISTIC.model(diagnostics="yes").privacy_cost(1000, 3)


@pytest.mark.slow
def test_a_search_pays_for_those_of_its_winner():
    X, y = LOGISTIC.data(100)
    private = LOGISTIC.estimator(classes=[0, 1], diagnostics=True, **SHORT)
    search = PrivateSearchCV(private, {"clip": [0.3, 0.6]}, epsilon=8.0, random_state=0).fit(X, y)
    assert search.privacy_ == search.privacy_cost(100, 3)
    assert search.best_estimator_.diagnostics_.keys() == {ROWS}
