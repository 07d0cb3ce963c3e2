"""Noisy gradient descent does what its record says: against numpy and theory."""

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from problems import StepNoise, descend, descended, generator, pairwise, problem
from scipy import stats
from spending import spent

from skdpdyn.core.losses import logistic, softmax
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    ACCOUNTANTS,
    Adjacency,
    NoisyGradientDescent,
    composition,
    from_json,
    last_iterate,
    to_json,
)
from skdpdyn.privacy.guarantees import gdp_mu
from skdpdyn.privacy.schedules import cooled_time_factor, curvature_aware_time, largest_step_size
from skdpdyn.solvers import NoisyGD, steps
from skdpdyn.solvers.runs import paid

REPLACE_ONE = Adjacency.REPLACE_ONE


def rows(n_samples=37, n_features=5, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_samples, n_features)).astype(dtype), (
        rng.random(n_samples) < 0.5
    ).astype(float)


def record(objective, n_steps=3, noise_multiplier=1e-3, step_size=0.5, radius=None, momentum=0.0):
    plain = momentum == 0  # no bound of momentum knows of a curvature
    constants = {"sensitivity": objective.sensitivity(REPLACE_ONE), "momentum": momentum}
    constants["strong_convexity"] = objective.strong_convexity if plain else 0.0
    constants["smoothness"] = objective.smoothness if plain else None
    constants["diameter"] = None if radius is None else 2 * radius
    run = {"n_steps": n_steps, "noise_multiplier": noise_multiplier, "step_size": step_size}
    return NoisyGradientDescent(**run, **constants)


def solved(objective, mechanism, X, y, seed=0):
    mechanism = paid(mechanism, objective)
    return NoisyGD().solve(objective, mechanism, LocalRows(X, y), generator=generator(seed))


@pytest.mark.parametrize(
    "wrong",
    [
        {"sensitivity": 0.01},
        {"strong_convexity": 0.3},
        {"smoothness": 0.3},
    ],
    ids=repr,
)
def test_a_run_refuses_facts_of_another_problem(wrong):
    """What a record costs rests on them, and its solver is not believed."""
    X, y = rows()
    objective = problem(logistic, X, alpha=0.2)
    mechanism = replace(record(objective), **wrong)
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}=.* is not that of the problem"):
        solved(objective, mechanism, X, y)


def test_a_run_refuses_to_round_more_than_its_record_pays_for():
    X, y = rows()
    objective = problem(logistic, X, alpha=0.2, spread=10.0)
    mechanism = paid(record(objective), objective)
    for spread, rounding, message in (
        (9.0, 0.99 * mechanism.rounding, "rounding=.* is not that of the problem; .*paid"),
        (11.0, mechanism.rounding, "map of rows rounds more"),
        (9.0, mechanism.rounding, None),
    ):
        row_map = RowMap(np.zeros(X.shape[1]), np.ones(X.shape[1]), norm=1 / spread, radius=1.0)
        assert row_map.spread == pytest.approx(spread)
        given = LocalRows(X, y, map=row_map)
        claimed = replace(mechanism, rounding=rounding)
        with nullcontext() if message is None else pytest.raises(ValueError, match=message):
            NoisyGD().solve(objective, claimed, given, generator=generator())
    far = np.full(objective.n_parameters, 0.1)
    with pytest.raises(ValueError, match="longer than start_norm"):
        NoisyGD().solve(objective, mechanism, LocalRows(X, y), generator=generator(), start=far)


def by_numpy(objective, mechanism, X, y, rng):
    """The algorithm of Chourasia, Ye and Shokri (2021)."""
    run = mechanism
    n_steps = mechanism.n_steps
    sizes, noise = (
        np.broadcast_to(values, n_steps) for values in (run.step_size, run.noise_multiplier)
    )
    steps = sizes, sizes * noise * 2 * objective.lipschitz / len(X)
    added = StepNoise(rng, n_steps, objective.n_parameters, exact=run.momentum > 0)
    radius = math.inf if run.diameter is None else run.diameter / 2
    return descended(
        objective, X.astype(float), y, steps, added, radius=radius, momentum=run.momentum
    )


# --- the kernel is the algorithm ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_samples", "n_features", "changes", "radius"),
    pairwise(
        [1, 3, 4, 16, 17, 53, 600],
        [1, 2, 5, 8, 13, 16, 33, 46],
        [{}, {"intercept_scaling": 0.0}, {"clip": math.inf}, {"data_norm": 30.0, "alpha": 0.0}],
        [None, 0.05],
    ),
)
def test_against_numpy_on_the_same_noise(n_samples, n_features, changes, radius):
    X, y = rows(n_samples, n_features)
    objective = problem(logistic, X, **changes)
    mechanism = record(
        objective, radius=radius, noise_multiplier=0.5, step_size=0.5 / objective.smoothness
    )
    known = by_numpy(objective, mechanism, X, y, generator())
    np.testing.assert_allclose(solved(objective, mechanism, X, y), known, rtol=1e-9, atol=1e-11)


@pytest.mark.smoke
@pytest.mark.parametrize(("momentum", "sizes"), [(0.0, [0.1, 0.2, 0.4, 0.05]), (0.7, [0.2] * 4)])
def test_schedules_run_as_recorded(momentum, sizes):
    X, y = rows()
    objective = problem(logistic, X)
    noise = np.array([0.1, 2.0, 0.5, 1.0])
    mechanism = record(objective, 4, noise, np.array(sizes), momentum=momentum)
    known = by_numpy(objective, mechanism, X, y, generator())
    np.testing.assert_allclose(solved(objective, mechanism, X, y), known, rtol=1e-9)


# --- sensitivity and contraction ------------------------------------------------------------------


def one_step(objective, X, y, start, step_size):
    """The noiseless update from any point."""
    theta = start.copy()
    descend(theta, objective, LocalRows(X, y), [step_size], np.zeros(1), math.inf, generator())
    return theta


@pytest.mark.parametrize("clip", [0.1, 0.5, math.inf])
@pytest.mark.parametrize("part_of_largest_step", [0.1, 0.5, 1.0])
def test_an_update_contracts(clip, part_of_largest_step):
    """With clipped gradients too: the hypothesis of the last-iterate bound."""
    rng = np.random.default_rng(1)
    X, y = rows(40, 3)
    objective = problem(logistic, X, clip=clip, alpha=0.02)
    step_size = part_of_largest_step * 2 / (objective.smoothness + objective.alpha)
    contraction = 1 - step_size * objective.alpha
    for scale in (1e-3, 1.0, 100.0):
        first, second = rng.standard_normal((2, 4)) * scale
        one, other = (one_step(objective, X, y, of, step_size) for of in (first, second))
        most = contraction * np.linalg.norm(first - second)
        assert np.linalg.norm(one - other) <= most * (1 + 1e-12)


# --- the noise that ran is the noise that was declared --------------------------------------------


@pytest.mark.parametrize("intercept_scaling", [0.0, 0.5])
def test_every_parameter_gets_its_noise(intercept_scaling):
    """Over 300 runs, each has the declared variance (six chi-squares at 2e-9 each)."""
    X = np.zeros((10, 3))
    objective = problem(logistic, X, alpha=0.0, intercept_scaling=intercept_scaling, clip=0.4)
    mechanism = record(objective, n_steps=2, noise_multiplier=50.0, step_size=0.3)
    y = np.tile([0.0, 1.0], 5)
    runs = np.array([solved(objective, mechanism, X, y, seed) for seed in range(300)])
    assert runs.shape == (300, 3 + (intercept_scaling > 0))
    declared = math.sqrt(2) * 0.3 * 50.0 * objective.sensitivity(REPLACE_ONE)
    squares = np.sum((runs[:, :3] / declared) ** 2, axis=0)
    assert np.all(squares > stats.chi2.ppf(1e-9, 300))
    assert np.all(squares < stats.chi2.isf(1e-9, 300))
    if intercept_scaling:
        assert np.std(runs[:, 3]) > 0.5 * declared


# --- projection -----------------------------------------------------------------------------------


def test_every_iterate_is_projected():
    X, y = rows()
    objective = problem(logistic, X)
    mechanism = record(objective, n_steps=6, noise_multiplier=20.0, radius=0.01)
    for seed in range(5):
        assert np.linalg.norm(solved(objective, mechanism, X, y, seed)) <= 0.01 * (1 + 1e-12)


# --- hyperparameters ------------------------------------------------------------------------------


def test_the_record_is_complete():
    X, _ = rows()
    objective = problem(logistic, X)
    budget = spent(1.0, 1e-5)
    solver = NoisyGD(n_steps=7, step_size=0.25, radius=2.0)
    mechanism = solver.mechanism(objective, *budget)(3.0)
    assert 0 < mechanism.rounding < 1e-9
    assert objective.strong_convexity == 0.1
    assert objective.sensitivity(REPLACE_ONE) == 2 * 0.4 / 37
    assert replace(mechanism, rounding=0.0) == record(objective, 7, 3.0, 0.25, radius=2.0)
    worst_case = NoisyGD(n_steps="worst_case").mechanism(objective, *budget)(1.0)
    assert worst_case.step_size == 2 / (objective.smoothness + 0.1)
    assert worst_case.n_steps >= 1
    assert NoisyGD(step_size=0.5).mechanism(objective, *budget)(1.0).step_size == 0.5


def schedule(solver, objective, epsilon=1.0, bound="tightest"):
    return solver.mechanism(objective, *spent(epsilon, 1e-10, bound=bound))(1.0)


def test_cooled_steps_fall_to_nothing_and_train_for_as_long_as_said():
    objective = Objective(logistic, 20_000, 20, 1.0, alpha=0.0)
    constant = schedule(NoisyGD(cooling=False), objective)
    cooled = schedule(NoisyGD(), objective)
    half = cooled.n_steps // 2
    largest = largest_step_size(0.0, objective.smoothness)
    assert np.all(cooled.step_size[: half + 1] == largest)
    assert constant.step_size == largest
    np.testing.assert_allclose(
        np.diff(cooled.step_size[half + 1 :]), -2 * largest / cooled.n_steps, rtol=1e-9
    )
    assert cooled.step_size[-1] == pytest.approx(2 * largest / cooled.n_steps)
    longer = cooled_time_factor(gdp_mu(1.0, 1e-10), n_samples=20_000, n_parameters=20)
    assert 1 < longer < 3
    assert cooled.step_size.sum() == pytest.approx(
        longer * constant.n_steps * largest, rel=3 / constant.n_steps
    )
    assert cooled.noise_multiplier == constant.noise_multiplier == 1.0


def test_steps_are_cooled_where_records_are_many_and_nothing_else_was_said():
    many, few = (Objective(logistic, n, 20, 1.0, alpha=0.0) for n in (100_000, 1_000))
    assert np.ndim(schedule(NoisyGD(), many).step_size) == 1
    for solver, objective, epsilon in [
        (NoisyGD(), few, 1.0),
        (NoisyGD(), many, 0.01),
        # no contraction
        (NoisyGD(), Objective(softmax(3), 100_000, 20, 1.0, alpha=0.0, clip=0.5), 1.0),
        (NoisyGD(n_steps=10), many, 1.0),
        (NoisyGD(n_steps="worst_case"), replace(many, alpha=1e-3), 1.0),
        (NoisyGD(step_size=1.0), many, 1.0),
        (NoisyGD(cooling=False), many, 1.0),
        (NoisyGD(radius=5.0), many, 1.0),
    ]:
        assert np.ndim(schedule(solver, objective, epsilon).step_size) == 0
    assert np.ndim(schedule(NoisyGD(), many, bound="langevin").step_size) == 0
    ten = schedule(NoisyGD(n_steps=10, step_size=1.0, cooling=True), few).step_size
    np.testing.assert_allclose(ten, [1, 1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2])


def test_cooled_steps_cost_what_the_law_of_a_quadratic_says():
    """Where curvature is the strong convexity, the last iterate is Gaussian."""
    objective = Objective(logistic, 100_000, 20, 1.0, alpha=1e-3)
    m = schedule(NoisyGD(), objective)
    # below 1 / smoothness, the contraction is that of the strong convexity
    m = replace(m, step_size=m.step_size / 2)
    kept = 1 - m.step_size * m.strong_convexity
    after = np.append(np.cumprod(kept[::-1])[::-1][1:], 1.0)
    moved = m.step_size * after
    exact = np.sum(moved) / np.linalg.norm(moved * m.noise_multiplier)
    assert exact * (1 - 1e-12) <= last_iterate(m).mu <= min(1.1 * exact, composition(m).mu)


def test_cooled_time_factor_by_hand():
    """Noise in rows, t d (S / (n mu))^2 / (2 c), is 1/8 at the second time."""
    n = 10_000
    d = 5
    mu = 0.3
    first = curvature_aware_time(1.0, 1e-8, n_samples=n, lipschitz=1.0, curvature=0.25, mu=mu)
    second = first * cooled_time_factor(mu, n_samples=n, n_parameters=d) ** 2
    assert second * d * (2 / (n * mu)) ** 2 / (2 * 0.25) == pytest.approx(1 / 8)
    removed = cooled_time_factor(mu, n_samples=n, n_parameters=d, adjacency="add_remove")
    assert removed == cooled_time_factor(mu, n_samples=2 * n, n_parameters=d)


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({"n_steps": 0}, "n_steps=0 must be 'auto', 'worst_case', 'theorem4' or an integer >= 1"),
        ({"step_size": 0.0}, "step_size=0.0 must be 'auto' or a number > 0"),
        ({"step_size": math.inf}, "step_size=inf must be"),
        ({"cooling": "linear"}, "cooling='linear' must be 'auto', True or False"),
        ({"cooling": True, "n_steps": 10**8}, "n_steps=100000000 must be an .* <= 10000000"),
        ({"n_steps": 10**12}, "n_steps=1000000000000 must be 'auto', .* and <= 1000000000"),
        ({"radius": -1.0}, "radius=-1.0 must be None or a finite number > 0"),
    ],
)
def test_bad_hyperparameters_are_refused(hyperparameters, message):
    with pytest.raises(ValueError, match=message):
        schedule(NoisyGD(**hyperparameters), problem(logistic, rows()[0]))


def test_noise_of_momentum_is_exact():
    X, y = rows(50, 3)
    schedule = steps.Steps(np.ones(1), np.ones(1), 50, momentum=0.7)
    with pytest.raises(ValueError, match="momentum, averages and Laplace noise need exact noise"):
        steps.descend(Objective(logistic, 50, 3, 1.0, clip=0.4), LocalRows(X, y), schedule, None)


def test_no_bound_but_composition_takes_momentum():
    run = record(Objective(logistic, 10, 3, 1.0, clip=0.4), 9, 5.0, momentum=0.7)
    assert from_json(to_json(run)) == run
    for name, accountant in ACCOUNTANTS.items():
        for changes in ({}, {"diameter": 0.1}, {"strong_convexity": 0.1}):
            try:
                cost = accountant(replace(run, **changes))
            except UnsupportedMechanismError:
                assert name != "composition"
            else:
                assert cost == composition(replace(run, momentum=0.0)), name
    with pytest.raises(ValueError, match=r"momentum=0\.7 needs smoothness=None"):
        replace(run, smoothness=1.0)
    for wrong in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="momentum="):
            replace(run, momentum=wrong)
