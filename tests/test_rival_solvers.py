"""The rivals of the literature do what their records say: DP-SVRG, and Bassily's SGD."""

import importlib
import math
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import releases
from problems import generator, problem
from reference import gradients, shortened
from releases import by, fit, training
from scipy import sparse, stats
from spending import spent
from test_spent import check, without

from skdpdyn import PrivateLogisticRegression
from skdpdyn.core.losses import logistic, softmax, squared
from skdpdyn.core.noise import release
from skdpdyn.core.sealed import opened
from skdpdyn.data.local import LocalRows
from skdpdyn.privacy import Composition, PoissonSubsampled

sys.path.append(str(Path(__file__).parents[1]))  # also where tests run on an installed package
dp_svrg = importlib.import_module("benchmarks.rivals.dp_svrg")
BassilySGD = importlib.import_module("benchmarks.rivals.bassily_sgd").BassilySGD
DPSVRG = dp_svrg.DPSVRG
WAYS = {
    "bassily_sgd": fit(by(BassilySGD(n_steps=80))),
    "dp_svrg": fit(by(DPSVRG(n_rounds=2, n_inner=3, batch_size=30))),
    # its one draw is of the first record
    "one step of one record": fit(
        by(BassilySGD(n_steps=1), partial(releases.logistic, random_state=25, **without))
    ),
}
LOSSES = {"logistic": logistic, "squared": squared, "softmax": softmax(3)}


def rows(n_samples=40, n_features=5, loss="logistic", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)) * rng.uniform(0.1, 2, (n_samples, 1))
    classes = {"logistic": 2, "softmax": 3}.get(loss, 1)
    y = X[:, 0] if loss == "squared" else rng.integers(classes, size=n_samples)
    return X, y.astype(float)


def difference(data, objective, theta, snapshot, part):
    return opened(data.gradient(objective, theta, part)) - opened(
        data.gradient(objective, snapshot, part)
    )


def batches(probability, noise, n_steps, **options):
    given = {"sampling_probability": probability, "noise_multiplier": noise, "n_steps": n_steps}
    return PoissonSubsampled(**given, **options)


def svrg_record(
    n_rounds=2, n_inner=3, probability=0.3, noise=0.5, snapshot_noise=2.0, step_size=0.7
):
    snapshots = batches(1.0, snapshot_noise, n_rounds)
    return Composition(
        (snapshots, batches(probability, noise, n_rounds * n_inner, step_size=step_size))
    )


def svrg_by_numpy(objective, mechanism, X, y, rng):
    """Wang, Ye and Xu (2017), Algorithm 1, with noises and batches as recorded."""
    snapshots, steps = mechanism.mechanisms
    rounding = partial(dp_svrg._rounding, objective)
    snapshot = np.zeros(objective.n_parameters)
    for _ in range(snapshots.n_steps):
        at_snapshot = gradients(objective, X, y, snapshot)
        scale = snapshots.noise_multiplier * (objective.lipschitz + rounding(snapshot))
        full = release(at_snapshot.sum(axis=0), scale, rng) / len(X)
        theta = snapshot.copy()
        path = []
        for _ in range(steps.n_steps // snapshots.n_steps):
            curved = objective.curvature * np.linalg.norm(theta - snapshot)
            limit = min(2 * objective.lipschitz, curved)
            batch = rng.random(len(X)) < steps.sampling_probability
            moved = shortened(gradients(objective, X, y, theta) - at_snapshot, limit)
            difference = moved[batch].sum(axis=0)
            scale = steps.noise_multiplier * (limit + rounding(theta) + rounding(snapshot))
            noisy = release(difference, scale, rng)
            mean = noisy / (steps.sampling_probability * len(X))
            theta = theta - steps.step_size * (mean + full + objective.alpha * theta)
            path.append(theta)
        snapshot = np.mean(path, axis=0)
    return snapshot


@pytest.mark.parametrize("way", WAYS)
def test_each_release_of_a_rival_comes_near_to_its_limit_and_not_beyond(way):
    assert not check(training(WAYS[way])(2), way, 2)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("solver", [BassilySGD(n_steps=20), DPSVRG(n_rounds=2, n_inner=3)])
def test_a_rival_costs_what_it_says_before_and_after(solver, adjacency):
    X, y = rows()
    model = PrivateLogisticRegression(classes=[0, 1], solver=solver, adjacency=adjacency)
    cost = model.privacy_cost(*X.shape)
    first, again = (model.set_params(random_state=0).fit(X, y).coef_ for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert model.privacy_ == cost
    assert cost.epsilon(model.delta_) == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(ValueError, match="no proof for persons"):
        model.fit(X, y, groups=np.arange(40))


# --- DP-SVRG --------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "changes", [{}, {"intercept_scaling": 0.0}, {"clip": 0.05}, {"data_norm": 30.0, "alpha": 0.0}]
)
def test_svrg_against_numpy_on_the_same_noise(loss, changes, container):
    X, y = rows(loss=loss)
    X[3] = 0
    objective = problem(LOSSES[loss], X, **changes)
    mechanism = svrg_record(step_size=0.5 / objective.curvature)
    ours = DPSVRG().solve(objective, mechanism, LocalRows(container(X), y), generator=generator())
    theirs = svrg_by_numpy(objective, mechanism, X, y, generator())
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * np.max(np.abs(theirs)))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("data_norm", [0.2, 10.0])
def test_sensitivity_of_svrg(loss, data_norm):
    """A record moves the snapshot's sum by 2 L at most (L when it vanishes), a step's by 2 h."""
    rng = np.random.default_rng(1)
    reached = np.zeros(4)
    for seed in range(60):
        X, y = rows(12, 4, loss, seed)
        X = X * data_norm
        constants = {"clip": 0.5 * data_norm, "intercept_scaling": 0.25 * data_norm}
        objective = problem(LOSSES[loss], X, data_norm=data_norm, **constants)
        theta = rng.standard_normal(objective.n_parameters) * 10 ** rng.uniform(-1, 2) / data_norm
        snapshot = theta + rng.standard_normal(theta.size) * 10 ** rng.uniform(-3, 1) / data_norm
        other_X = X.copy()
        other_y = y.copy()
        other_X[0] = -X[0] if seed % 2 else 10 ** rng.uniform(-9, 9) * rng.standard_normal(4)
        other_y[0] = rng.permutation(y)[0]
        given = LocalRows(X, y)
        others = LocalRows(other_X, other_y)
        batch = np.flatnonzero(np.append(True, rng.random(11) < 0.5))

        points = (objective, theta, snapshot)
        everybody = np.arange(12)
        step = difference(given, *points, batch)
        whole = opened(given.gradient(objective, theta))
        limit = dp_svrg._largest_correction(objective, theta, snapshot)
        largest = objective.lipschitz + dp_svrg._rounding(objective, theta)
        moved = [
            np.linalg.norm(whole - opened(others.gradient(objective, theta))) / (2 * largest),
            np.linalg.norm(whole - opened(given.gradient(objective, theta, everybody[1:])))
            / largest,
            np.linalg.norm(step - difference(others, *points, batch)) / (2 * limit),
            np.linalg.norm(step - difference(given, *points, batch[1:])) / limit,
        ]
        reached = np.maximum(reached, moved)
    assert np.all(reached <= 1)
    assert np.all(reached[:2] > 0.9)


@pytest.mark.parametrize("loss", [logistic, squared, softmax(2)], ids=lambda loss: loss.name)
def test_some_corrections_of_svrg_reach_their_bound(loss):
    """By h where the loss is most curved and theta - s is along a row; two are never opposite."""
    X = np.array([[0.8, 0.0], [0.0, 0.8]])
    y = np.zeros(2)
    objective = problem(loss, X, data_norm=0.8, clip=0.7, intercept_scaling=0.0)
    assert objective.contracts == (loss.n_outputs == 1)
    given = LocalRows(X, y)
    snapshot = np.zeros(objective.n_parameters)
    sides = np.array([1.0]) if loss.n_outputs == 1 else np.array([1.0, -1.0])

    def reached(towards, of_records):
        theta = 1e-3 * np.outer(sides, towards).ravel()
        one, *other = (difference(given, objective, theta, snapshot, [i]) for i in of_records)
        moved = np.linalg.norm(one - sum(other))
        return moved / dp_svrg._largest_correction(objective, theta, snapshot)

    assert 0.999 < reached([1.0, 0.0], [0]) <= 1
    assert 0.999 < reached([1.0, 1.0], [0, 1]) <= 1


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_stay_bounded_when_predictions_overflow(loss):
    X, y = rows(loss=loss)
    X *= 1e100
    objective = problem(LOSSES[loss], X, data_norm=1.0, alpha=0.0)
    theta = np.full(objective.n_parameters, 1e308)
    theta[::2] *= -1
    given = LocalRows(X, y)
    for part in range(40):
        gradient = opened(given.gradient(objective, theta, np.array([part])))
        assert np.linalg.norm(gradient) <= objective.lipschitz * (1 + 1e-14)


def test_a_fixed_schedule_is_kept():
    objective = problem(logistic, np.zeros((1000, 3)), alpha=1e-4)
    solver = DPSVRG(n_rounds=7, n_inner=11, batch_size=25)
    snapshots, steps = solver.mechanism(objective, *spent(1.0, 1e-6))(2.0).mechanisms
    assert (snapshots.n_steps, steps.n_steps, steps.noise_multiplier) == (7, 77, 2.0)
    assert steps.sampling_probability == pytest.approx(0.025, rel=1e-13)
    records = (DPSVRG().mechanism(objective, *spent(of, 1e-6))(1.0) for of in (0.1, 50.0))
    small, large = (record.mechanisms[1] for record in records)
    assert small.n_steps < large.n_steps
    assert small.sampling_probability <= large.sampling_probability <= 1


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (DPSVRG(n_rounds=0), "n_rounds=0 must be 'auto' or an integer >= 1"),
        (DPSVRG(n_inner=2.5), "n_inner=2.5 must be 'auto' or an integer >= 1"),
        (DPSVRG(batch_size=0), r"batch_size=0 must be 'auto' or a number in \(0, n_samples=40\]"),
        (DPSVRG(batch_size=41), "batch_size=41"),
        (DPSVRG(step_size=-1.0), r"step_size=-1.0 must be 'auto' or a number > 0"),
        (DPSVRG(step_size="long"), "step_size='long'"),
        (BassilySGD(n_steps=True), "n_steps=True must be 'auto' or an integer >= 1"),
        (BassilySGD(radius=0), "radius=0 must be 'auto' or a finite number > 0"),
        (BassilySGD(radius=math.inf), "radius=inf"),
    ],
)
def test_senseless_parameters(solver, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        PrivateLogisticRegression(classes=[0, 1], solver=solver).fit(X, y)


# --- noisy SGD ------------------------------------------------------------------------------------


def test_without_a_penalty_steps_follow_the_radius():
    """alpha = 0: the first step is 2 radius / sqrt(L^2 + d sigma^2)."""
    X = np.zeros((20, 500))
    radius = 3.0
    objective = problem(logistic, X, intercept_scaling=0.0, alpha=0.0)
    rows = LocalRows(X, np.ones(20))
    solve = BassilySGD(radius=radius).solve
    mechanism = batches(1 / 20, 0.01, 1, diameter=2 * radius)
    theta = solve(objective, mechanism, rows, generator=generator())
    std = 0.01 * 0.4
    std *= 2 * radius / math.sqrt(0.4**2 + 500 * std**2)
    assert stats.chi2.ppf(5e-7, 500) < np.sum((theta / std) ** 2) < stats.chi2.isf(5e-7, 500)
    large = batches(1 / 20, 1e4, 3, diameter=2 * radius)
    theta = solve(objective, large, rows, generator=generator())
    assert np.linalg.norm(theta) == pytest.approx(radius)
    with pytest.raises(ValueError, match="alpha=0: radius='auto' is L / alpha"):
        BassilySGD().mechanism(objective, *spent(1.0, 1e-5))


def test_a_step_of_bassily_is_one_record_in_the_mean():
    """Noiseless: n records of probability 1/n have the full gradient as their mean."""
    X, y = rows(15, 2)
    objective = problem(logistic, X, alpha=1.0)
    mechanism = batches(1 / 15, 1e-12, 1, diameter=1e9)
    run = partial(BassilySGD().solve, objective, mechanism, LocalRows(X, y))
    steps = [run(generator=generator(seed)) for seed in range(2000)]
    mean = np.mean(steps, axis=0)
    expected = -gradients(objective, X, y, np.zeros(3)).mean(axis=0)
    error = 6 * np.std(steps, axis=0) / math.sqrt(2000)  # failure probability below 1e-8 each
    np.testing.assert_array_less(np.abs(mean - expected), error)


def test_number_of_steps_of_bassily():
    def steps(n_samples, delta):
        objective = problem(logistic, np.zeros((n_samples, 3)))
        return BassilySGD().mechanism(objective, *spent(1.0, delta))(1.0).n_steps

    assert steps(100, 1e-4) == 10_000
    assert steps(3000, 1e-6) == 100_000
    assert steps(3000, 1e-10) == 30_000
    assert steps(3000, 1e-300) == 1
