"""The converging bounds: on conditioned rows, by Theorem 4, and beside composition."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from runs import descent
from sklearn.base import clone

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core.losses import logistic
from skdpdyn.core.objective import Objective
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import CalibrationError, UnsupportedMechanismError
from skdpdyn.privacy import (
    Adjacency,
    Budget,
    Composition,
    Gaussian,
    calibrate,
    check_report,
    composition,
    langevin,
    last_iterate,
)
from skdpdyn.privacy.calibration import NUMERICAL_SLACK
from skdpdyn.privacy.guarantees import GaussianDP, LinearCurve
from skdpdyn.privacy.renyi import RenyiDP
from skdpdyn.privacy.rounded import RoundedCurve
from skdpdyn.privacy.schedules import theorem4_schedule
from skdpdyn.solvers import NoisyGD
from skdpdyn.solvers.noisy_gd import Learnt, conditioned_time
from skdpdyn.training.conditioning import FittedConditioning
from skdpdyn.training.plan import plan_of
from skdpdyn.training.purchase import Purchase

ORDERS = np.array([1.5, 4.0, 40.0, 300.0])
BOUNDS = {"langevin": langevin, "last_iterate": last_iterate}


@pytest.mark.smoke
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(classes=[0, 1]),
        PrivateLinearSVC(classes=[0, 1]),
        PrivateRidge(target_bounds=(0, 1)),
        PrivatePoissonRegressor(target_bounds=(0, 8)),
        PrivateGAMClassifier(classes=[0, 1]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_bought_parts_compose_with_a_converging_bound(model, bound, adjacency):
    """By Renyi curves with Langevin's, by mu with the exact one: theirs and nothing more."""
    model = clone(model).set_params(bound=bound, adjacency=adjacency, bounds=(-1, 1))
    spent = plan_of(Purchase.of(model, 20_000, 5).request)
    assert spent.request.recipe.maps
    assert spent.bound == bound
    bought, training = spent.mechanism.mechanisms
    assert type(bought) is Gaussian
    mu = 1 / bought.noise_multiplier
    alone = BOUNDS[bound](training)
    assert spent.guarantee.rdp(ORDERS) == pytest.approx(
        ORDERS * mu**2 / 2 + alone.rdp(ORDERS)
        if bound == "langevin"
        else ORDERS * (mu**2 + alone.mu**2) / 2,
        rel=1e-12,
    )
    budget = spent.budget
    unspent = NUMERICAL_SLACK if bound == "langevin" else 2e-6
    assert budget.epsilon * (1 - unspent) < spent.guarantee.epsilon(budget.delta) <= budget.epsilon


@pytest.mark.parametrize("bound", BOUNDS)
def test_what_was_asked_is_shown_with_the_theorem_of_each_part(bound):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (4000, 3))
    facts = {"classes": [False, True], "bounds": (-0.5, 0.5)}
    model = PrivateLogisticRegression(bound=bound, epsilon=3.0, **facts)
    model = model.fit(X, X[:, 0] > 0)
    assert model.conditioning_ is not None
    assert model.bound_ == bound
    assert model.privacy_ == model.privacy_cost(4000, 3)
    report = model.privacy_report()
    assert check_report(report.as_dict())["theorem"]["bound"] == bound
    lines = [line for line in report.to_text().splitlines() if line.startswith("  part ")]
    assert len(lines) > 3
    assert "; by composition: Dong" in lines[0]
    assert f"; by {bound}: " in lines[-1]


def test_gaussian_releases_alone_are_no_run_of_a_converging_bound():
    with pytest.raises(UnsupportedMechanismError, match="langevin has no theorem for Gaussian"):
        langevin(Composition((Gaussian(5.0), Gaussian(4.0))))


@pytest.mark.parametrize("mu", [1e-2, 1e-3, 1e-4, 1e-5])
def test_rounding_costs_a_curve_little_more_than_its_part(mu):
    """With z = mu / mu_run the exact excess is 2 z + z^2; at a fixed order's tilt it was 1e3."""
    exact = LinearCurve(0.005)  # mu_run = 0.1
    added = RoundedCurve(exact, mu)(ORDERS[1:]) / exact(ORDERS[1:]) - 1
    assert np.all(added >= 2 * mu / 0.1)
    assert np.all(added <= 4 * mu / 0.1 + 3 * (mu / 0.1) ** 2)


# --- Theorem 4 ------------------------------------------------------------------------------------

STRONG = {"alpha": 0.1, "data_norm": 1.0, "classes": [0, 1]}
MAP = FittedConditioning(RowMap(np.zeros(5), np.ones(5), norm=1.0, radius=1.0))


@pytest.mark.parametrize("conditioning", [None, MAP], ids=["rows as they are", "mapped"])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_theorem_4_sets_steps_and_no_more_noise(adjacency, conditioning):
    model = PrivateLogisticRegression(
        1.0, 1e-6, solver=NoisyGD(n_steps="theorem4"), bound="langevin", adjacency=adjacency
    ).set_params(conditioning=conditioning, **STRONG)
    spent = plan_of(Purchase.of(model, 20_000, 5).request)
    record = spent.mechanism
    objective = spent.objective
    training = spent.training
    printed = calibrate(
        Budget(training.epsilon, training.delta, adjacency),
        n_samples=20_000,
        n_features=6,
        lipschitz=objective.lipschitz,
        strong_convexity=0.1,
        smoothness=objective.smoothness,
        adjacency=adjacency,
        n_steps="theorem4",
    )
    assert (record.n_steps, record.step_size) == (printed.n_steps, printed.step_size)
    assert 0.7 < record.noise_multiplier / printed.noise_multiplier < 1
    assert spent.bound == "langevin"


def test_theorem_4_names_the_steps_that_are_too_many():
    model = PrivateLogisticRegression(solver=NoisyGD(n_steps="theorem4"), classes=[0, 1])
    for alpha, said in ((1e-3, r"K\* = [0-9,]+ steps, and at most 100,000"), (0.0, "> 0")):
        with pytest.raises(CalibrationError, match=said):
            model.set_params(alpha=alpha).privacy_cost(36_000, 105)
    with pytest.raises(ValueError, match="step_size='auto'"):
        model.set_params(solver__step_size=0.1, alpha=0.1).privacy_cost(1000, 3)
    softmax = PrivateSoftmaxRegression(classes=range(3), solver=NoisyGD(n_steps="theorem4"))
    with pytest.raises(CalibrationError, match="clipped softmax has none: use clip="):
        softmax.set_params(alpha=0.1, clip=0.5).privacy_cost(1000, 3)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize(("n_samples", "n_features", "alpha"), [(50, 3, 1e-6), (10**6, 90, 1e-3)])
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateRidge])
def test_the_alpha_that_theorem_4_asks_for_is_enough_and_little_less_is_not(
    kind, n_samples, n_features, alpha, adjacency
):
    options = {"target_bounds": (-1, 1)} if kind is PrivateRidge else {"classes": [0, 1]}
    model = kind(1.0, 1e-6, bound="langevin", adjacency=adjacency, data_norm=1.0, **options)
    model.set_params(solver=NoisyGD(n_steps="theorem4"), conditioning=None)
    with pytest.raises(CalibrationError, match="K") as caught:
        model.set_params(alpha=alpha).privacy_cost(n_samples, n_features)
    told = float(re.search(r"an alpha above ([\d.e-]+)", str(caught.value))[1])
    model.set_params(alpha=told).privacy_cost(n_samples, n_features)
    with pytest.raises(CalibrationError, match="an alpha above"):
        model.set_params(alpha=0.98 * told).privacy_cost(n_samples, n_features)


@pytest.mark.every_case
@pytest.mark.parametrize(
    "kind", [PrivateLogisticRegression, PrivateRidge, PrivateSoftmaxRegression]
)
def test_theorem_4_runs_with_a_penalty_and_a_clip_of_its_own(kind):
    facts = {"target_bounds": (0, 2)} if kind is PrivateRidge else {"classes": [0, 1, 2]}
    if kind is PrivateLogisticRegression:
        facts = {"classes": [0, 1]}
    X = np.random.default_rng(0).uniform(0, 1, (3000, 4))
    y = (X[:, 0] * len(facts.get("classes", "abc"))).astype(int)
    model = kind(
        1.0,
        1e-6,
        bounds=(0, 1),
        bound="langevin",
        solver=NoisyGD(n_steps="theorem4"),
        random_state=0,
        **facts,
    ).fit(X, y)
    record = model.mechanism_
    assert record.n_steps == model.n_iter_ <= 10_000
    # more steps are free
    assert langevin(replace(record, n_steps=10**6)).epsilon(1e-6) < 1.01
    worst = 0.0 if kind is PrivateRidge else 1 / len(facts["classes"])
    assert model.score(X, y) > worst + 0.1


def test_sigma_of_a_run_is_that_of_the_theorem():
    problem = {"n_samples": 5000, "n_features": 4, "lipschitz": 1.0, "smoothness": 0.5}
    record = calibrate(1.0, 1e-6, **problem, strong_convexity=0.1, n_steps="theorem4")
    _, variance, _ = theorem4_schedule(1.0, 1e-6, **problem, strong_convexity=0.1)
    known = replace(record, sensitivity=2.0 / 5000)
    assert known.sigma == pytest.approx(math.sqrt(variance), rel=1e-6)
    with pytest.raises(ValueError, match="with a sensitivity"):
        _ = record.sigma


def test_a_converged_run_costs_the_same_however_long():
    record = descent(n_steps=10**7, noise_multiplier=60.0, step_size=2.0, smoothness=0.4)
    longer = replace(record, n_steps=10**9)
    assert last_iterate(longer).mu == pytest.approx(last_iterate(record).mu, rel=1e-12)
    assert composition(longer).mu == pytest.approx(10 * composition(record).mu, rel=1e-12)
    assert last_iterate(record).mu == pytest.approx(math.sqrt(1.8 / 0.2) / 60, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1e-4, 0.01, 0.3])
def test_auto_stops_where_a_strong_penalty_undoes_what_training_adds(alpha):
    """Steps with momentum m move 1/(1 - m) times as far."""
    objective = Objective(logistic, 20_000, 5, 1.0, alpha=alpha, clip=1.0, intercept_scaling=0.15)
    record = NoisyGD().adapted(objective, 0.2, Adjacency.REPLACE_ONE, Learnt(0.5))(1.0)
    time = np.sum(record.step_size) / (1 - record.momentum)
    free = conditioned_time(objective, 0.2, Adjacency.REPLACE_ONE)
    assert time == pytest.approx(min(free, 3 / alpha) if alpha else free, rel=0.05)


def test_a_cost_of_hundreds_composes_with_a_gaussian_one():
    """Numbers of e^epsilon overflow there; a calibration may begin so far away."""
    far = RenyiDP(LinearCurve(264.0)).compose(GaussianDP(0.28))
    assert RenyiDP(LinearCurve(264.0)).epsilon(1e-7) < far.epsilon(1e-7) < 500
