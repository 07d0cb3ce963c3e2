"""DP-SGD runs the record that is accounted; calibration finds the least noise."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from problems import generator
from runs import descent, poisson
from scipy import integrate, sparse, stats
from scipy.special import expit
from spending import spent

from skdpdyn.core import rules
from skdpdyn.core.losses import logistic, softmax
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import (
    Adjacency,
    Budget,
    GaussianDP,
    composition,
    least_noise,
    most_steps,
    subsampling,
    tightest,
)
from skdpdyn.privacy.calibration import NUMERICAL_SLACK
from skdpdyn.privacy.schedules import curvature_aware_time
from skdpdyn.solvers import DPSGD
from skdpdyn.solvers.runs import paid

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "bound": "tightest"}
each_adjacency = pytest.mark.parametrize("adjacency", list(Adjacency))


def problem(loss=logistic, n_samples=500, n_features=4, **changes):
    defaults = {"data_norm": 1.0, "alpha": 0.01, "clip": 0.4}
    return Objective(loss, n_samples, n_features, **{**defaults, **changes})


def record_of(solver, objective, noise_multiplier=2.0, adjacency=Adjacency.REPLACE_ONE, **budget):
    budget = spent(adjacency=adjacency, **{**BUDGET, **budget})
    return solver.mechanism(objective, *budget)(noise_multiplier)


# --- the record is what runs ----------------------------------------------------------------------


@pytest.mark.parametrize("average", [None, "uniform", "weighted"])
@pytest.mark.parametrize("step_size", ["auto", "halved", "inverse", 0.3])
def test_realised_schedule_is_the_records(step_size, average):
    """Without noise, of all records, the run is gradient descent by the record's steps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    y = (rng.random(50) < 0.5).astype(float)
    objective = problem(n_samples=50, n_features=3)
    options = {"step_size": step_size, "average": average}
    solver = DPSGD(n_steps=9, batch_size=50, momentum=0.3, radius=1.5, **options)
    record = record_of(solver, objective, noise_multiplier=1e-8)
    rows = X / np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    theta = np.zeros(3)
    move = np.zeros(3)
    last = 1.0
    iterates = []
    for step in np.broadcast_to(record.step_size, 9):
        limit = 0.4 / np.linalg.norm(rows, axis=1)
        gradient = np.clip(expit(rows @ theta) - y, -limit, limit) @ rows / 50
        before = theta
        point = theta + 0.3 * step / last * move
        theta = point - step * (gradient + 0.01 * point)
        theta = theta * min(1, 1.5 / np.linalg.norm(theta))
        move = theta - before
        last = step
        iterates.append(theta)
    even = [1 / 9] * 9
    rising = [2 * t / 90 for t in range(1, 10)]
    weights = {None: [0.0] * 8 + [1.0], "uniform": even, "weighted": rising}[average]
    ours = solver.solve(objective, record, LocalRows(X, y), generator=generator())
    np.testing.assert_allclose(ours, np.array(weights) @ np.array(iterates), rtol=1e-5)
    short = replace(record, step_size=0.01)
    other = solver.solve(objective, short, LocalRows(X, y), generator=generator())
    assert not np.allclose(other, ours)


def test_an_empty_batch_adds_its_noise_and_the_divisor_is_public():
    """q = 1e-9: no record ever comes; the noise is divided by q n all the same."""
    objective = problem(n_samples=10, n_features=2000)
    run = {"noise_multiplier": 0.5, "n_steps": 1, "step_size": 2.0}
    record = poisson(sampling_probability=1e-9, **run)
    rows = LocalRows(np.ones((10, 2000)), np.zeros(10))
    record = paid(record, objective)
    theta = DPSGD().solve(objective, record, rows, generator=generator())
    assert np.std(theta) == pytest.approx(2.0 * 0.5 * 0.4 / 1e-8, rel=0.1)


@each_adjacency
@pytest.mark.parametrize("q", [0.01, 0.2, 0.7])
def test_realised_batches_are_the_records(q, adjacency):
    """A row for each column, one step, no noise: binomial, fails with probability < 1e-6."""
    objective = problem(n_samples=20_000, n_features=20_000)
    run = {"noise_multiplier": 1e-9, "n_steps": 1, "adjacency": adjacency, "step_size": 1.0}
    record = poisson(sampling_probability=q, **run)
    rows = LocalRows(sparse.eye_array(20_000, format="csr"), np.ones(20_000))
    record = paid(record, objective)
    theta = DPSGD().solve(objective, record, rows, generator=generator())
    moved = theta > 1e-6
    # clipped, and divided by what is public
    np.testing.assert_allclose(theta[moved], 0.4 / (q * 20_000), rtol=1e-7)
    assert stats.binom.sf(np.sum(moved) - 1, 20_000, q) > 4e-7
    assert stats.binom.cdf(np.sum(moved), 20_000, q) > 4e-7


def test_schedules():
    objective = problem()
    names = "auto", "halved", "inverse"
    records = (record_of(DPSGD(n_steps=5, step_size=name), objective) for name in names)
    steps = {name: record.step_size for name, record in zip(names, records, strict=True)}
    np.testing.assert_allclose(steps["halved"], steps["auto"] * np.array([1, 1, 1, 0.5, 0.5]))
    np.testing.assert_allclose(steps["inverse"], 100 / np.arange(1, 6))
    assert record_of(DPSGD(n_steps=5, step_size=0.7), objective).step_size == 0.7


@each_adjacency
def test_defaults_train_as_long_as_the_noise_lets_pay(adjacency):
    objective = problem(n_samples=40_000, alpha=1e-7)
    record = record_of(DPSGD(), objective, adjacency=adjacency)
    constants = {"lipschitz": objective.lipschitz, "curvature": objective.curvature}
    rest = {"n_samples": 40_000, "adjacency": adjacency}
    time_to_train = curvature_aware_time(1.0, 1e-6, **rest, **constants)
    assert record.n_steps * record.step_size == pytest.approx(time_to_train, rel=0.01)
    assert record.step_size <= 2 / (objective.smoothness + objective.alpha)
    mechanism = DPSGD().mechanism(objective, *spent(adjacency=adjacency, **BUDGET))
    calibrated = least_noise(mechanism, 1.0, 1e-6)
    assert 3.9 < calibrated.noise_multiplier < 4.4
    # clipped: no step contracts anyway
    long = record_of(DPSGD(), problem(softmax(5), n_samples=40_000, alpha=1e-7))
    assert long.step_size > 2 / problem(softmax(5)).curvature


def test_least_batches():
    assert record_of(DPSGD(), problem(n_samples=100)).sampling_probability == 1.0
    least = record_of(DPSGD(), problem(n_samples=1000), epsilon=0.01).sampling_probability
    assert least == rules.LEAST_BATCH / 1000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"step_size": "inverse"}, "alpha > 0"),
        ({"n_steps": "worst_case"}, "n_steps='worst_case'"),
        ({"batch_size": 501}, "batch_size=501 .*n_samples=500"),
        ({"batch_size": "all"}, "batch_size='all'"),
        ({"step_size": "decaying"}, "step_size='decaying'"),
        ({"average": "all"}, "average='all'"),
    ],
)
def test_wrong_hyperparameters(wrong, message):
    with pytest.raises(ValueError, match=message):
        record_of(DPSGD(**wrong), problem(alpha=0.0))


# --- calibration ----------------------------------------------------------------------------------


@each_adjacency
@pytest.mark.parametrize(
    ("q", "n_steps", "epsilon", "delta"),
    [
        (0.01, 1000, 1.0, 1e-5),
        (0.5, 60, 0.1, 1e-9),
        (0.02, 300, 8.0, 1e-6),
        (0.002, 200, 0.05, 1e-5),
        (1.0, 50, 1.0, 1e-5),
    ],
)
def test_least_noise_is_on_the_safe_side_and_near(q, n_steps, epsilon, delta, adjacency):
    run = {"sampling_probability": q, "n_steps": n_steps, "adjacency": adjacency}

    def mechanism(noise_multiplier):
        return poisson(noise_multiplier=noise_multiplier, **run)

    m = least_noise(mechanism, epsilon, delta)
    spent = tightest(m, delta=delta).guarantee.epsilon(delta)
    assert epsilon * (1 - 1.01 * NUMERICAL_SLACK) <= spent <= epsilon
    less = tightest(mechanism(m.noise_multiplier * 0.999), delta=delta)
    assert less.guarantee.epsilon(delta) > epsilon  # within 0.1 % of the least


def test_most_steps_of_a_closed_form():
    def mechanism(n_steps):
        return descent(n_steps=n_steps, noise_multiplier=20.0, step_size=1.0)

    for epsilon in (0.3, 0.5, 1.0):
        n_steps = most_steps(mechanism, epsilon, 1e-5, "composition").n_steps
        spent, more = (GaussianDP(math.sqrt(k) / 20).epsilon(1e-5) for k in (n_steps, n_steps + 1))
        assert spent <= epsilon < more
    # the last iterate's loss converges
    assert most_steps(mechanism, 2.0, 1e-5, largest=777).n_steps == 777
    with pytest.raises(CalibrationError, match="a single step"):
        most_steps(mechanism, 1e-3, 1e-5)


def test_batches_whose_rounding_is_paid_for_are_cut_and_accounted_as_such():
    objective = Objective(logistic, n_samples=10**5, n_features=3, data_norm=1.0, clip=1.0)
    budget = Budget(1.0, 1e-8)
    record = DPSGD(n_steps=100, batch_size=500).mechanism(objective, budget, "tightest")(4.0)
    assert 500 < record.largest_batch < 10**4
    whole = replace(record, n_samples=None, largest_batch=None)
    momentum = DPSGD(n_steps=100, batch_size=500, momentum=0.5)
    exact = momentum.mechanism(objective, budget, "tightest")
    assert exact(4.0).largest_batch is None
    for judge in (subsampling, composition):
        paid = judge(record).epsilon(1e-8)
        free = judge(whole).epsilon(1e-8)
        assert free * (1 - 1e-9) <= paid <= free * (1 + 1e-6)
    assert judge(record).failure > 0
    orders = np.array([2.0, 16.0])
    at_orders = subsampling(replace(record, rounding=0.0)).rdp(orders)
    free = subsampling(replace(whole, rounding=0.0)).rdp(orders)
    assert np.all((free <= at_orders) & (at_orders <= free * (1 + 1e-9)))
    hard = replace(record, largest_batch=510, rounding=0.0)
    assert np.all(subsampling(hard).rdp(orders) > free)
    with pytest.raises(ValueError, match="give both"):
        replace(record, n_samples=None)


# --- batches that are cut -------------------------------------------------------------------------


def cut(adjacency="add_remove", **changes):
    run = {"n_samples": 200, "sampling_probability": 0.05, "largest_batch": 12, "n_steps": 20}
    return poisson(adjacency=adjacency, **run | changes)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_cut_batches(adjacency):
    from dp_accounting.pld import PLDAccountant

    epsilon = subsampling(cut(adjacency)).epsilon(1e-5)
    guarantee = subsampling(cut(adjacency))
    theirs = PLDAccountant(guarantee.neighboring_relation)
    theirs.compose(guarantee.dp_event)
    assert epsilon == pytest.approx(theirs.get_epsilon(1e-5), rel=2e-4)
    plain = poisson(sampling_probability=0.05, n_steps=20, adjacency=adjacency)
    never = subsampling(cut(adjacency, largest_batch=200))
    assert never.epsilon(1e-5) == pytest.approx(subsampling(plain).epsilon(1e-5), rel=1e-5)
    assert epsilon > never.epsilon(1e-5)


def test_cut_batches_are_above_a_law_that_is_written_out():
    """One step, three records, of which one at most is taken; the others' values are -1."""
    q = 0.6
    noise = 1.5
    y = np.linspace(-16, 16, 40_001)

    def law(value):  # of the record, which vanishes for None
        total = np.zeros_like(y)
        values = [-1, -1] if value is None else [-1, -1, value]
        for taken in itertools.product((0, 1), repeat=len(values)):
            weight = np.prod([q if one else 1 - q for one in taken])
            drawn = list(itertools.compress(values, taken)) or [0]
            for sum_ in drawn:
                total += weight / len(drawn) * np.exp(-((y - sum_) ** 2) / 2 / noise**2)
        return total / np.sqrt(2 * np.pi) / noise

    one_of_three = {"n_samples": 3, "sampling_probability": q, "largest_batch": 1, "n_steps": 1}
    for adjacency, other in (("add_remove", None), ("replace_one", -1.0)):
        bound = subsampling(cut(adjacency, **one_of_three, noise_multiplier=noise))
        for epsilon, pair in itertools.product((0.0, 0.5, 1.0), ((1.0, other), (other, 1.0))):
            one, two = map(law, pair)
            exact = integrate.trapezoid(np.maximum(one - math.exp(epsilon) * two, 0), y)
            assert exact <= bound.delta(epsilon) <= 1
