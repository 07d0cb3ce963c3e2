"""NoisySGD does what its records say: against numpy, and exactly known laws."""

import math
from dataclasses import replace
from itertools import combinations

import numba
import numpy as np
import pytest
from problems import StepNoise, descended, generator
from scipy import sparse, stats
from spending import spent

from skdpdyn import PrivateLogisticRegression
from skdpdyn.core.losses import logistic, softmax, squared
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    Adjacency,
    CyclicBatches,
    OnePass,
    WithoutReplacement,
    contraction,
    iteration,
    last_iterate,
    tightest,
)
from skdpdyn.privacy.accountants.last_iterate import _position_mus, schedule_mu
from skdpdyn.solvers import NoisySGD, runs

REPLACE_ONE, ADD_REMOVE = Adjacency
DISJOINT = ("shuffled_once", "cyclic")
SAMPLINGS = (*DISJOINT, "without_replacement", "one_pass")


def record(objective, noise=1.0, **hyperparameters):
    budget = {"epsilon": 1.0, "delta": 1e-6, "adjacency": REPLACE_ONE, "bound": "tightest"}
    budget |= {name: hyperparameters.pop(name) for name in budget if name in hyperparameters}
    return NoisySGD(**hyperparameters).mechanism(objective, *spent(**budget))(noise)


def solve(objective, mechanism, X, y, seed=0, **options):
    options |= {"generator": generator(seed)}
    return NoisySGD().solve(objective, mechanism, LocalRows(X, y), **options)


def schedule(mechanism):
    """Return the step sizes and noise multipliers of all steps."""
    values = mechanism.step_size, mechanism.noise_multiplier
    return [np.broadcast_to(of, mechanism.n_steps) for of in values]


def line(n_samples, alpha=0.0, clip=1.0):
    """One parameter and Huber's loss of rows that are 1, for targets of any size."""
    loss = replace(squared, at_zero=math.inf)
    return Objective(loss, n_samples, 1, 1.0, alpha=alpha, clip=clip), np.ones((n_samples, 1))


# --- the run is the record ------------------------------------------------------------------------


def by_numpy(objective, mechanism, X, y, rng):
    """Algorithm 2 of the survey with a penalty: the noise of all steps is drawn after the order."""
    n = len(X)
    b = mechanism.batch_size
    order = rng.permutation(n) if mechanism.order == "shuffled_once" else np.arange(n)
    batches = [order[first : first + b] for first in range(0, n, b)] * mechanism.n_epochs
    sizes, multipliers = schedule(mechanism)
    noise = multipliers * mechanism.adjacency.sum_sensitivity(objective.lipschitz) / b
    added = StepNoise(rng, len(sizes), objective.n_parameters, piece=math.ceil(len(sizes) / 10))
    radius = math.inf if mechanism.diameter is None else mechanism.diameter / 2
    steps = sizes, sizes * noise
    return descended(objective, X, y, steps, added, batches.__getitem__, divisor=b, radius=radius)


@pytest.mark.parametrize("sampling", DISJOINT)
@pytest.mark.parametrize("batch_size", [1, 7, 20, 37])
@pytest.mark.parametrize(
    "hyperparameters", [{}, {"cooling": False, "radius": 0.3}, {"cooling": True, "step_size": 0.2}]
)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_against_numpy_on_the_same_noise(sampling, batch_size, hyperparameters, adjacency):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((37, 4))
    y = (rng.random(37) < 0.5).astype(float)
    objective = Objective(logistic, 37, 4, 1.0, alpha=0.05, clip=0.4, intercept_scaling=0.5)
    given = {"sampling": sampling, "batch_size": batch_size, "n_epochs": 3, **hyperparameters}
    mechanism = record(objective, 0.3, adjacency=adjacency, **given)
    expected = by_numpy(objective, mechanism, X, y, generator(5))
    for rows in (X, sparse.csr_array(X)):
        ours = solve(objective, mechanism, rows, y, 5)
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-11)


def test_the_record_is_complete():
    objective = Objective(logistic, 50, 3, 2.0, alpha=0.1, clip=0.5)
    problem = {"strong_convexity": 0.1, "smoothness": 0.1 + 4 / 4, "adjacency": ADD_REMOVE}
    given = {"batch_size": 20, "n_epochs": 2, "step_size": 0.25}
    left = np.sqrt(np.array([3, 3, 3, 3, 2, 1]) / 3)
    of_all = {"n_samples": 50, **problem}
    of_batches = of_all | {"batch_size": 20, "n_epochs": 2, "noise_multiplier": 3.0}
    of_batches["step_size"] = 0.25

    def recorded(**hyperparameters):
        found = record(objective, 3.0, adjacency=ADD_REMOVE, **hyperparameters)
        return replace(found, rounding=0.0)

    cooled = {"noise_multiplier": 3.0 / left, "step_size": 0.25 * left, "diameter": 4.0}
    cooled |= {"sensitivity": 0.5 / 20, "order": "shuffled_once"}
    assert recorded(radius=2.0, **given) == CyclicBatches(**of_batches | cooled)
    cyclic = CyclicBatches(sensitivity=0.5 / 20, **of_batches)
    assert recorded(cooling=False, sampling="cyclic", **given) == cyclic
    fresh = recorded(sampling="without_replacement", **given)
    assert fresh == WithoutReplacement(**of_batches)
    assert fresh.n_steps == 4  # 50 // 20 = 2 an epoch
    one_pass = {"sampling": "one_pass", "step_size": 0.25, "stopping": "random"}
    of_one = {"noise": 3.0 * 0.5, "step_size": 0.25, "lipschitz": 0.5, "diameter": 2 * 0.5 / 0.1}
    assert recorded(**one_pass) == OnePass(stopping="random", **of_all, **of_one)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_constants_hold_for_every_step(sampling):
    """The Hessian of a short last batch is no more curved and no less than recorded."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((23, 3))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    objective = Objective(squared, 23, 3, 1.0, alpha=0.2, clip=1.0)
    given = {} if sampling == "one_pass" else {"batch_size": 5}
    mechanism = record(objective, sampling=sampling, **given)
    b = getattr(mechanism, "batch_size", 1)
    for first in range(0, 23, b):
        rows = X[first : first + b]
        values = np.linalg.eigvalsh(rows.T @ rows / b + 0.2 * np.eye(3))
        assert mechanism.strong_convexity <= values[0] * (1 + 1e-9)
        assert values[-1] <= mechanism.smoothness * (1 + 1e-9)


# --- exactly known laws ---------------------------------------------------------------------------

# Every coordinate is a problem of its own: its records are rows that are 1 there and 0 elsewhere,
# one in every batch. One run has as many independent outcomes as there are coordinates. Huber's
# residuals stay unclipped, so that all laws are Gaussian.
COORDINATES = 20_000 if numba.config.DISABLE_JIT else 100_000


def many_lines(targets, short=False):
    """Rows of one batch for each target; ``short``: the last has half of the coordinates."""
    n = COORDINATES * len(targets) - (COORDINATES // 2 if short else 0)
    rows = np.arange(n), np.arange(n) % COORDINATES
    X = sparse.csr_array((np.ones(n), rows), shape=(n, COORDINATES))
    objective = Objective(squared, n, COORDINATES, 1.0, alpha=0.3, clip=1.0)
    return objective, X, np.repeat(targets, COORDINATES)[:n]


def law(mechanism, targets, absent=()):
    """Mean and standard deviation of a coordinate that has no record in the batches ``absent``."""
    b = mechanism.batch_size
    mean = 0.0
    variance = 0.0
    for k, (step_size, multiplier) in enumerate(zip(*schedule(mechanism), strict=True)):
        j = k % len(targets)
        weight = 0.0 if j in absent else 1 / b
        factor = 1 - step_size * (weight + mechanism.strong_convexity)
        mean = factor * mean + step_size * weight * targets[j]
        variance = factor**2 * variance + (step_size * multiplier * 2 / b) ** 2
    return mean, math.sqrt(variance)


def assert_standard_normal(values):
    """Kolmogorov-Smirnov, mean and variance; each fails an honest run with probability 3e-7."""
    assert stats.kstest(values, "norm").pvalue > 3e-7
    assert abs(values.sum()) < 5.13 * math.sqrt(values.size)
    law = stats.chi2(values.size)
    assert law.ppf(1.5e-7) < np.sum(values**2) < law.isf(1.5e-7)


@pytest.mark.parametrize("cooling", [True, False])
@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("n_epochs", [1, 3])
def test_runs_follow_the_law_that_is_accounted(cooling, short, n_epochs):
    targets = [0.9, -0.2, 0.5]
    objective, X, y = many_lines(targets, short)
    given = {"batch_size": COORDINATES, "n_epochs": n_epochs, "step_size": 0.8, "cooling": cooling}
    mechanism = record(objective, 0.01, sampling="cyclic", **given)
    theta = solve(objective, mechanism, X, y)
    whole = theta.size // 2 if short else theta.size
    for part, absent in ((theta[:whole], ()), (theta[whole:], (2,))):
        mean, std = law(mechanism, targets, absent)
        # a wrong mean would be seen
        assert mean > 20 * std / math.sqrt(part.size) if part.size else True
        assert part.size == 0 or assert_standard_normal((part - mean) / std) is None


def measured_mus(n_batches, n_epochs, forgetting, **hyperparameters):
    """Mu of the Gaussian last iterates of neighbours by place, and the record: the noise of equal
    seeds cancels.

    The record of interest pulls as hard as it may to either side. All else is rows of 0, or, with
    ``forgetting``, rows in its own batch of such curvature that the step before its noise forgets
    all that came before.
    """
    b = 10
    alpha = 0.3
    step_size = 1.2
    objective = Objective(squared, b * n_batches, 1, 1.0, alpha=alpha, clip=1.0)
    given = {"batch_size": b, "n_epochs": n_epochs, "step_size": step_size, **hyperparameters}
    mechanism = record(objective, 1e-3, sampling="cyclic", **given)
    (steps, multipliers) = schedule(mechanism)
    n_steps = mechanism.n_steps
    mus = []
    for position in range(n_batches):
        X = np.zeros((b * n_batches, 1))
        factors = 1 - steps * alpha
        own = np.arange(n_steps) % n_batches == position
        if forgetting:
            curvature = 1 / steps[position] - alpha
            X[position * b + 1 : (position + 1) * b] = math.sqrt(curvature * b / (b - 1))
            factors = np.where(own, 1 - steps * (curvature + alpha), factors)
        X[position * b] = 1.0
        ends = []
        for target in (1e6, -1e6):
            y = np.zeros(len(X))
            y[position * b] = target
            ends.append(solve(objective, mechanism, X, y))
        later = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)
        std = np.linalg.norm(later * steps * multipliers * 2 / b * 1.0)
        mus.append((ends[0] - ends[1]).item() / std)
    return mechanism, np.abs(mus)


@pytest.mark.parametrize("cooling", [True, False])
@pytest.mark.parametrize("n_batches", [1, 2, 5])
def test_one_epoch_costs_what_is_accounted_at_every_place(cooling, n_batches):
    mechanism, measured = measured_mus(n_batches, 1, True, cooling=cooling)
    mechanism = replace(mechanism, rounding=0.0)
    bounds = [last_iterate(mechanism, index=j).mu for j in range(1, n_batches + 1)]
    np.testing.assert_allclose(measured, bounds, rtol=1e-6)  # what is released lies on a lattice
    assert last_iterate(mechanism).mu == max(bounds)


@pytest.mark.parametrize(("cooling", "attained"), [(True, 0.92), (False, 0.98)])
def test_several_epochs_cost_at_most_what_is_accounted(cooling, attained):
    mechanism, spread = measured_mus(5, 4, False, cooling=cooling)
    _, last_alone = measured_mus(5, 4, True, cooling=cooling)
    bounds = np.array([last_iterate(mechanism, index=j).mu for j in range(1, 6)])
    measured = np.maximum(spread, last_alone)
    assert np.all(measured <= bounds * (1 + 1e-6))
    assert np.all(measured >= attained * bounds)


def test_cooling_makes_all_places_alike():
    """Without contraction, in one epoch, to the last digit; noise is little more."""
    objective = Objective(squared, 1000, 1, 1.0, clip=1.0)
    for n_epochs in (1, 3, 8):
        given = {"sampling": "cyclic", "batch_size": 40, "n_epochs": n_epochs, "step_size": 0.1}
        runs = (record(objective, 5.0, cooling=cooling, **given) for cooling in ("auto", False))
        cooled, constant = (replace(run, rounding=0.0) for run in runs)
        first, last = (last_iterate(cooled, index=j).mu for j in (1, 25))
        assert last == pytest.approx(first, rel=1e-12)
        # an epoch's noise hides an epoch
        assert last == pytest.approx(math.sqrt(n_epochs / 25) / 5.0, rel=1e-12)
        longer = math.sqrt((n_epochs - 1) / 25 + 1) / 5.0
        assert last_iterate(constant).mu == pytest.approx(longer, rel=1e-12)


MANY = Objective(logistic, 20_000, 20, 1.0, alpha=1e-4)


def test_what_is_given_is_not_cooled_besides():
    numbers = {"batch_size": 400, "n_epochs": 16, "step_size": 1.0, "radius": 5.0, "epsilon": 0.01}
    names = {"cooling": True, "bound": "composition", "sampling": "without_replacement"}
    for given in (*(numbers | names).items(), ()):
        m = record(MANY, **dict([given] if given else []))
        sizes = schedule(m)[0]
        assert (np.ptp(sizes[: m.n_steps * 3 // 4]) == 0) == bool(given)


def test_only_batches_of_our_choice_may_be_more_than_ten_thousand():
    """Of many in a given epoch each has a place to account for."""
    weak = replace(MANY, alpha=1e-9)
    assert 20_000 < record(weak, epsilon=1000.0).n_steps <= 41_000
    for name, value in (("batch_size", 10_000), ("n_epochs", 100), ("step_size", 1.0)):
        assert record(weak, epsilon=1000.0, **{name: value}).n_steps <= 10_100


def gaussian_mixture_delta(means, weights, epsilon):
    """Hockey-stick divergence of two mirrored mixtures of unit normals."""
    x = np.linspace(-30, 30, 60_001)
    p = stats.norm.pdf(x[:, None] - means) @ weights
    return np.sum(np.maximum(p - math.exp(epsilon) * p[::-1], 0)) * (x[1] - x[0])


@pytest.mark.parametrize("cooling", [True, False])
def test_shuffled_once_costs_at_most_the_mean_over_places(cooling):
    mechanism, measured = measured_mus(5, 1, False, cooling=cooling)
    noise = 1e-3 * measured.max()  # a worst place of mu = 1
    changes = {"noise_multiplier": mechanism.noise_multiplier * 1e3 * noise}
    shuffled = replace(mechanism, order="shuffled_once", sensitivity=None, rounding=0.0, **changes)
    means = measured * 1e-3 / noise / 2
    weights = np.full(5, 0.2)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        exact = gaussian_mixture_delta(means, weights, epsilon)
        bound = last_iterate(shuffled).delta(epsilon)
        assert exact <= bound
        if epsilon <= 0.1:
            assert exact >= 0.8 * bound


def captured(monkeypatch, objective, mechanism, n_fits):
    """Steps and batches that so many fits passed on to the loop, without running it."""
    values = []
    rng = generator()
    rows = LocalRows(np.ones((objective.n_samples, 1)), None)
    monkeypatch.setattr(
        runs, "descend", lambda *args, batches, **_: values.append((args[2], batches))
    )
    for _ in range(n_fits):
        NoisySGD().solve(objective, mechanism, rows, generator=rng)
    return values


def test_the_hidden_order_is_uniform(monkeypatch):
    """All 24 orders of four records; chi-square, failure probability 1e-7."""
    objective, _ = line(4)
    fits = captured(monkeypatch, objective, record(objective, batch_size=2, n_epochs=3), 5_000)
    orders = [batches.permutation for _, batches in fits]
    orders, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(orders) == 24
    assert stats.chisquare(counts).pvalue > 1e-7


def test_fresh_batches_are_uniform_subsets():
    """Chi-square of the sums of 500 fits, failure probability 1e-7."""
    objective, X = line(5)
    y = np.array([0.01, 0.02, 0.04, 0.08, 0.16])
    given = {"batch_size": 3, "n_epochs": 1, "step_size": 0.5}
    mechanism = record(objective, 1e-9, sampling="without_replacement", **given)
    sums = [solve(objective, mechanism, X, y, seed).item() * 3 / 0.5 for seed in range(500)]
    codes, counts = np.unique(np.round(np.array(sums) * 100), return_counts=True)
    assert set(codes) == {sum(1 << k for k in chosen) for chosen in combinations(range(5), 3)}
    assert stats.chisquare(counts).pvalue > 1e-7


# --- one pass -------------------------------------------------------------------------------------


N_CELLS = 300


def one_pass_law(mechanism, pulls):
    """Law of one parameter by quadrature: atoms at the ends of the interval, and cells between."""
    radius = mechanism.diameter / 2
    step_size = mechanism.step_size
    edges = np.linspace(-radius, radius, N_CELLS + 1)
    points = np.concatenate([[-radius], (edges[1:] + edges[:-1]) / 2, [radius]])
    noise = {"gaussian": stats.norm, "laplace": stats.laplace}[mechanism.distribution](
        scale=step_size * mechanism.noise
    )
    kernels = {}
    laws = [(np.abs(points) < radius / N_CELLS * 1.01) / 2]  # between two cells
    for pull in pulls:
        if pull not in kernels:
            center = points - step_size * (mechanism.strong_convexity * points - pull)
            below = noise.cdf(edges - center[:, None])
            kernels[pull] = np.column_stack(
                [below[:, 0], np.diff(below, axis=1), noise.sf(edges[-1] - center)]
            )
        laws.append(laws[-1] @ kernels[pull])
    return edges, laws[-1] if mechanism.stopping == "last" else np.mean(laws[1:], axis=0)


def one_pass(distribution, stopping, n_samples=4, noise=0.5):
    objective, X = line(n_samples, alpha=0.3, clip=0.5)
    given = {"distribution": distribution, "stopping": stopping, "radius": 0.6, "step_size": 0.7}
    return objective, X, record(objective, noise, sampling="one_pass", **given)


@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
@pytest.mark.parametrize("stopping", ["last", "random"])
def test_one_pass_costs_at_most_what_is_accounted(distribution, stopping):
    """Records that pull as hard as they may, to either side; the laws by quadrature."""
    _, _, mechanism = one_pass(distribution, stopping)
    n = mechanism.n_samples
    attained = []
    for index in range(1, n + 1):
        pulls = np.zeros((2, n))
        pulls[:, index - 1] = 0.5, -0.5
        p, q = (one_pass_law(mechanism, pull)[1] for pull in pulls)
        bounds = [contraction(mechanism, index=index)]
        if stopping == "random":
            bounds.append(contraction(mechanism, index=index, tight=True))
        if distribution == "gaussian":
            bounds.append(last_iterate(mechanism, index=index))
        for epsilon in (0.0, 0.3, 1.0, 1.8):
            exact = np.sum(np.maximum(p - math.exp(epsilon) * q, 0))
            # 1e-4: the quadrature
            assert all(exact <= bound.delta(epsilon) + 1e-4 for bound in bounds)
        attained.append(np.sum(np.maximum(p - q, 0)) / bounds[0].delta(0.0))
    if stopping == "last":
        assert attained[-1] > 0.6  # the ends of the interval hide a part


@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
@pytest.mark.parametrize("stopping", ["last", "random"])
def test_one_pass_follows_the_law_that_is_accounted(distribution, stopping):
    """Chi-square of 500 fits against the quadrature, failure probability 1e-7."""
    objective, X, mechanism = one_pass(distribution, stopping)
    y = np.array([1.0, -1.0, 1.0, 1.0]) * 1e6
    edges, law = one_pass_law(mechanism, 0.5 * np.sign(y))
    ends = np.array([solve(objective, mechanism, X, y, seed).item() for seed in range(500)])
    at_ends = np.abs(np.abs(ends) - 0.6) < 1e-12
    below = np.sum(at_ends & (ends < 0))
    between = np.histogram(ends[~at_ends], edges[:: N_CELLS // 10])[0]
    counts = [below, at_ends.sum() - below, *between]
    expected = [law[0], law[-1], *np.add.reduceat(law[1:-1], np.arange(0, N_CELLS, N_CELLS // 10))]
    assert stats.chisquare(counts, 500 * np.array(expected) / np.sum(expected)).pvalue > 1e-7


def test_a_random_stop_is_uniform(monkeypatch):
    objective, _ = line(6)
    random, last = (
        record(objective, sampling="one_pass", stopping=stopping, radius=1.0)
        for stopping in ("random", "last")
    )
    fits = captured(monkeypatch, objective, random, 5_000)
    stops = [steps.step_size.size for steps, _ in fits]
    assert stats.chisquare(np.bincount(stops, minlength=7)[1:]).pvalue > 1e-7
    fits = captured(monkeypatch, objective, last, 9)
    assert all(steps.step_size.size == 6 for steps, _ in fits)


def test_a_random_stop_is_not_told(capsys):
    objective, X = line(6)
    given = {"stopping": "random", "radius": 1e3, "step_size": 0.5}
    mechanism = record(objective, 1e-9, sampling="one_pass", **given)
    y = np.full(6, 1e6)
    ends = (solve(objective, mechanism, X, y, seed, verbose=1) for seed in range(20))
    steps = [end.item() / 0.5 for end in ends]
    np.testing.assert_allclose(steps, np.round(steps), rtol=1e-6)
    assert len(set(np.round(steps))) > 1
    assert capsys.readouterr().out == ""
    assert "n_iter_" not in NoisySGD().fitted_attributes(mechanism)


# --- hyperparameters ------------------------------------------------------------------------------


def test_auto_clips_a_softmax_where_no_bound_asks_for_contraction():
    asked = ({}, True), ({"radius": 1.0}, False), ({"cooling": True}, False)
    for hyperparameters, fresh in (*asked, ({"cooling": False}, True)):
        solver = NoisySGD(**hyperparameters)
        clip = solver.auto_clip(softmax(3), 0.7)
        assert clip == (0.7 if fresh else math.sqrt(2))
        assert solver.auto_clip(logistic, 0.5) == 0.5
        clip *= math.hypot(1.0, 0.25)
        objective = Objective(softmax(3), 100, 5, 1.0, 0.01, clip, intercept_scaling=0.25)
        mechanism = record(objective, **hyperparameters)
        assert isinstance(mechanism, WithoutReplacement if fresh else CyclicBatches)
        assert (mechanism.smoothness is None) == fresh
    assert isinstance(record(Objective(logistic, 100, 5, 1.0, alpha=0.01)), CyclicBatches)


FRESH = {"sampling": "without_replacement"}
ONE_PASS = {"sampling": "one_pass"}
LAPLACE = {"distribution": "laplace"}


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({"sampling": "poisson"}, "sampling='poisson' must be 'auto', 'shuffled_once', "),
        ({"batch_size": 0}, "batch_size=0 must be 'auto' or an integer >= 1"),
        ({"batch_size": 38}, "batch_size=38 must be at most n_samples=37"),
        ({"n_epochs": 1.5}, "n_epochs=1.5 must be 'auto' or an integer >= 1"),
        ({"step_size": -1.0}, "step_size=-1.0 must be 'auto' or a number > 0"),
        ({"cooling": 1}, "cooling=1 must be 'auto', True or False"),
        ({"cooling": True, **FRESH}, "cooling=True: .*'without_replacement' has no disjoint"),
        ({"radius": 0.0}, "radius=0.0 must be None or a finite number > 0"),
        ({"radius": 1.0, **FRESH}, "radius=1.0: .*'without_replacement' has no bound that knows a"),
        ({"distribution": "cauchy"}, "distribution='cauchy' must be 'gaussian' or 'laplace'"),
        ({"stopping": "early"}, "stopping='early' must be 'last' or 'random'"),
        ({"stopping": "random"}, "stopping='random': .*'shuffled_once' has no bound with random"),
        ({"sampling": "cyclic", **LAPLACE}, "'laplace': .*'cyclic' has no bound with Laplace"),
        ({**ONE_PASS, **LAPLACE}, "distribution='laplace' is for a single parameter, not 5"),
        ({**ONE_PASS, "batch_size": 2}, "batch_size=2: .*'one_pass' takes a record a step"),
        ({**ONE_PASS, "n_epochs": 2}, "n_epochs=2: sampling='one_pass' takes"),
    ],
)
def test_bad_hyperparameters_are_refused(hyperparameters, message):
    with pytest.raises(ValueError, match=message):
        record(Objective(logistic, 37, 5, 1.0, alpha=0.1), **hyperparameters)


def test_one_pass_needs_a_domain_and_a_contraction():
    clipped = Objective(softmax(3), 37, 5, 1.0, alpha=0.1, clip=0.5)
    with pytest.raises(ValueError, match=r"radius=None, alpha=0: .*needs a bounded domain"):
        record(Objective(logistic, 37, 5, 1.0), sampling="one_pass")
    with pytest.raises(ValueError, match=r"clip=0.5: a clipped softmax is no contraction.* 1.41"):
        record(clipped, sampling="one_pass")


@pytest.mark.parametrize(
    ("solver", "options", "message"),
    [
        (NoisySGD(), {"bound": "recursion"}, "recursion has no theorem for CyclicBatches"),
        (NoisySGD(step_size=9.0), {"bound": "last_iterate"}, "step_size <= 2/smoothness = .*not 9"),
        (
            NoisySGD(batch_size=50, cooling=True),
            {"bound": "iteration"},
            "the same step_size and noise_multiplier in every step",
        ),
        (NoisySGD(**FRESH), {"bound": "last_iterate"}, "no theorem for WithoutReplacement"),
        (NoisySGD(**FRESH), {"bound": "recursion", "alpha": 0.0}, "needs strong_convexity > 0"),
        (NoisySGD(**FRESH, step_size=9.0), {"bound": "recursion"}, "needs step_size < 2/"),
        (NoisySGD(**ONE_PASS, step_size=9.0), {"bound": "contraction"}, "needs step_size < 2/"),
        (NoisySGD(**ONE_PASS, stopping="random"), {"bound": "iteration"}, "needs stopping='last'"),
    ],
)
def test_bounds_whose_hypotheses_fail_are_refused(solver, options, message):
    model = PrivateLogisticRegression(classes=[0, 1], solver=solver, **options)
    with pytest.raises(UnsupportedMechanismError, match=message):
        model.privacy_cost(200, 3)


def test_long_steps_are_composed():
    objective = Objective(logistic, 100, 3, 1.0, alpha=0.1)
    m = record(objective, step_size=2.1 / objective.smoothness)
    assert np.ndim(m.step_size) == 0
    assert tightest(m).bound == "composition"
    assert np.ndim(record(objective, bound="iteration").step_size) == 0
    assert iteration(record(objective, bound="iteration")).rdp(2.0) > 0


# --- accounting of schedules ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(200))
def test_places_are_accounted_like_any_schedule(seed):
    """The short form, two numbers an epoch, against the regression over all steps."""
    rng = np.random.default_rng(seed)
    n_batches, n_epochs = rng.integers(1, 7, 2)
    n_steps = n_batches * n_epochs
    log_contraction = -rng.exponential(rng.choice([0.0, 1e-3, 0.1, 3.0]), n_steps)
    if seed % 5 == 0:
        log_contraction[rng.integers(n_steps)] = -math.inf
    sensitivity, noise_std = rng.uniform(0.1, 2.0, (2, n_steps))
    diameter = None if seed % 2 else rng.exponential(rng.choice([0.1, 3.0]))
    places = np.arange(1, n_batches + 1)
    mus = _position_mus(log_contraction, sensitivity, noise_std, diameter, n_batches, places)
    at = [np.where(np.arange(n_steps) % n_batches == j - 1, sensitivity, 0.0) for j in places]
    np.testing.assert_allclose(
        mus, [schedule_mu(log_contraction, own, noise_std, diameter) for own in at], rtol=1e-9
    )


# --- estimators -----------------------------------------------------------------------------------
