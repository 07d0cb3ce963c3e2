"""Output perturbation: how far a record moves what is learnt, and the noise on it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from problems import StepNoise, descended, generator
from scipy import sparse, stats
from spending import spent

from skdpdyn import PrivateLogisticRegression, PrivateSoftmaxRegression
from skdpdyn.core.losses import logistic, softmax, squared
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.privacy import Adjacency, perturbation
from skdpdyn.privacy.guarantees import gdp_mu
from skdpdyn.solvers import OutputPerturbation, output_perturbation

ADJACENCIES = list(Adjacency)
METHODS = ("minimiser", "permutation_sgd", "gradient_descent")
SOLVERS = (
    OutputPerturbation(),
    OutputPerturbation("permutation_sgd", n_epochs=2, batch_size=4),  # few steps: 1/beta throughout
    OutputPerturbation("permutation_sgd", n_epochs=40, batch_size=3),
    OutputPerturbation("gradient_descent", n_epochs=7),
    OutputPerturbation("gradient_descent"),
)
each_method = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: f"{s.method}-{s.n_epochs}")


def problem(loss, X, **changes):
    defaults = {"data_norm": 1.0, "alpha": 0.05, "intercept_scaling": 0.25}
    defaults["clip"] = math.inf if loss.n_outputs > 1 else 0.3
    return Objective(loss, *X.shape, **defaults | changes)


def statistic_of(solver, objective):
    """What is computed without noise, as the record says."""
    record_of = solver.mechanism(objective, *spent(1.0, 1e-6))
    return output_perturbation.statistic_of(objective, record_of(1.0))


def learnt(solver, objective, X, y, seed=0):
    """What is computed without noise."""
    return statistic_of(solver, objective).run(objective, LocalRows(X, y), generator(seed), 0)


def sensitivity(solver, objective, adjacency="replace_one"):
    return statistic_of(solver, objective).sensitivity(objective, Adjacency(adjacency))


# --- sensitivity ----------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("data_norm", [0.1, 1.0, 12.0, 100.0])
def test_sensitivities_are_the_papers(data_norm, adjacency):
    n = 1000
    scale = math.hypot(data_norm, data_norm / 4)
    objective = Objective(logistic, n, 5, data_norm, 1e-3 * scale**2, 0.5 * scale, data_norm / 4)
    moves = (1.0 if adjacency is Adjacency.REPLACE_ONE else 0.5) * scale  # S
    assert objective.lipschitz == pytest.approx(0.5 * scale)
    alpha = objective.alpha
    beta = 0.25 * scale**2 + objective.alpha
    exact = moves / (n * alpha)
    assert sensitivity(OutputPerturbation(), objective, adjacency) == pytest.approx(exact, rel=1e-5)
    steps = OutputPerturbation("gradient_descent", n_epochs=30)
    after = (1 - alpha / beta) ** 30
    assert sensitivity(steps, objective, adjacency) == pytest.approx(exact * (1 - after), rel=1e-5)
    # but for the steps of 1/beta, of which a quarter-million samples forget nearly all
    for size in (1, 50):
        epochs = 250_000 * size // n
        passes = OutputPerturbation("permutation_sgd", n_epochs=epochs, batch_size=size)
        assert 0.999 * exact < sensitivity(passes, objective, adjacency) < exact * (1 + 1e-5)
    # two steps of 1/beta; a record comes in the last
    short = OutputPerturbation("permutation_sgd", n_epochs=1, batch_size=500)
    assert sensitivity(short, objective, adjacency) == pytest.approx(moves / (beta * 500), rel=1e-5)


@pytest.mark.every_case
@pytest.mark.parametrize("n_epochs", [1, 5])
@pytest.mark.parametrize("batch_size", [1, 7, 40, 50, 10**6])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.3])
def test_the_worst_place_in_the_permutation(n_epochs, batch_size, alpha):
    """The sum over the steps that see a record, written out for every place that it can have."""
    objective = Objective(logistic, 50, 3, 1.0, alpha, 0.5, 0.25)
    solver = OutputPerturbation("permutation_sgd", n_epochs=n_epochs, batch_size=batch_size)
    size = min(batch_size, 50)
    n_batches = math.ceil(50 / size)
    moved = np.zeros(n_batches)
    for t in range(1, n_epochs * n_batches + 1):
        eta = 1 / max(objective.smoothness, alpha * t)
        moved *= max(abs(1 - eta * alpha), abs(1 - eta * objective.smoothness))
        moved[(t - 1) % n_batches] += eta * 2 * objective.lipschitz / size
    assert np.max(moved) <= sensitivity(solver, objective) <= np.max(moved) * (1 + 1e-8)
    if alpha:
        assert np.max(moved) <= 2 * objective.lipschitz / (50 * alpha) * (1 + 1e-12)


@pytest.mark.parametrize("alpha", [0.0, 1e-6])
def test_the_rounding_of_long_paths_is_in_the_sensitivity(alpha):
    """Of both runs, by hand: a thousand long steps of rows of norm 100."""
    objective = Objective(logistic, 10, 3, 100.0, alpha)
    steps = 1000
    eps = np.finfo(float).eps
    eta = 1 / (0.25 * 100**2 + alpha)
    radius = 100 * steps * eta
    largest = 100 * radius
    gradient = eps * ((0.25 * (3 / 2 + 8) * largest + logistic.rounding) * 100 + (9 + 28 / 2) * 100)
    survive = np.sum((1 - eta * alpha) ** np.arange(steps))
    rounded = 2 * survive * (eta * gradient + 8 * eps * radius)
    solver = OutputPerturbation("gradient_descent", n_epochs=steps)
    exact = survive * eta * 200 / 10
    rounded += exact * 4 * eps * steps  # of the sum over steps
    assert sensitivity(solver, objective) - exact == pytest.approx(rounded, rel=1e-2)


def extreme(adjacency, data_norm, n_samples=25, place=0):
    """Huber's loss beyond its knee: gradients are constant, and one record turns its own round."""
    X = np.full((n_samples, 2), 1e-12)
    y = np.resize([1.0, -1.0], n_samples)
    X[place] = [data_norm, 0]
    y[place] = 1.0
    X2 = X.copy()
    y2 = y.copy()
    if adjacency is Adjacency.REPLACE_ONE:
        y2[place] = -1.0
    else:
        X2[place] = 0.0  # without an intercept, no contribution
    return X, y, X2, y2


@pytest.mark.every_case
@each_method
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("data_norm", [0.1, 1.0, 12.0, 100.0])
def test_the_sensitivity_is_reached(solver, adjacency, data_norm):
    """Dividing it by the batch size, or forgetting what a step moves, would fail here."""
    distances = []
    for place in generator().permutation(25)[[0, -1]]:  # in the first batch, and alone in the last
        X, y, X2, y2 = extreme(adjacency, data_norm, place=place)
        constants = {"alpha": 0.02 * data_norm**2, "clip": 1e-3 * data_norm, "data_norm": data_norm}
        objective = problem(squared, X, intercept_scaling=0.0, **constants)
        first, second = (learnt(solver, objective, *pair) for pair in ((X, y), (X2, y2)))
        distances.append(np.linalg.norm(first - second))
    claimed = sensitivity(solver, objective, adjacency)
    assert 0.95 * claimed < max(distances) <= claimed
    if solver.method == "permutation_sgd" and solver.n_epochs == 40:
        assert min(distances) > 0.9 * claimed  # the same from every place


def by_numpy(objective, solver, X, y, order):
    """The short last batch is divided by the batch size too."""
    size = solver.batch_size
    batches = [order[first : first + size] for first in range(0, len(y), size)] * solver.n_epochs
    t = 1 + np.arange(len(batches))
    steps = 1 / np.maximum(objective.smoothness, objective.alpha * t), 0.0 * t
    added = StepNoise(generator(), len(t), objective.n_parameters)
    return descended(objective, X, y, steps, added, batches.__getitem__, divisor=size)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", [logistic, squared, softmax(3)], ids=lambda loss: loss.name)
def test_permutation_sgd_against_numpy(loss, layout):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((23, 4))
    y = rng.integers(0, 2, 23).astype(float)
    objective = problem(loss, X)
    solver = OutputPerturbation("permutation_sgd", n_epochs=6, batch_size=4)
    order = generator(3).permutation(23)
    expected = by_numpy(objective, solver, X, y, order)
    ours = learnt(solver, objective, layout(X), y, seed=3)
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS[1:], ids=lambda s: f"{s.method}-{s.n_epochs}")
def test_the_path_stays_in_the_ball_that_rounding_is_computed_for(solver):
    X = np.tile([1.0, 0.0], (25, 1))
    for alpha in (0.02, 1.0):
        objective = problem(squared, X, alpha=alpha, clip=1e-3, intercept_scaling=0.0)
        theta = learnt(solver, objective, X, np.ones(25))
        assert 0.02 < np.linalg.norm(theta) / (objective.lipschitz / alpha) <= 1


# --- the guarantee against the true privacy loss --------------------------------------------------


def hockey_stick(law, other, epsilon, points):
    """Integral of (density - e^epsilon other density)_+, the larger of both directions."""
    p = law.pdf(points)
    q = other.pdf(points)
    gaps = (np.maximum(a - math.exp(epsilon) * b, 0.0) for a, b in ((p, q), (q, p)))
    return max(np.trapezoid(gap, points) for gap in gaps)


def outputs_in_one_dimension(solver, adjacency, data_norm, rng):
    """Objectives and results of two neighbours with one column, by Huber's or logistic loss."""
    for _ in range(25):
        n = int(rng.integers(2, 12))
        loss = squared if rng.random() < 0.7 else logistic
        X = rng.uniform(-2, 2, (n, 1)) * data_norm * 10 ** rng.uniform(-3, 0)
        y = rng.choice([-1.0, 1.0] if loss is squared else [0.0, 1.0], n)
        X2 = X.copy()
        y2 = y.copy()
        X[0] = data_norm
        X2[0], y2[0] = (data_norm, y[0]) if adjacency is Adjacency.REPLACE_ONE else (0.0, y[0])
        if adjacency is Adjacency.REPLACE_ONE:
            X2[0] *= -1
        clip = data_norm * 10 ** rng.uniform(-3, 0)
        alpha = data_norm**2 * 10 ** rng.uniform(-2, 0)
        objective = Objective(loss, n, 1, data_norm, alpha, clip)
        yield objective, *(learnt(solver, objective, *pair)[0] for pair in ((X, y), (X2, y2)))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("data_norm", [0.1, 1.0, 12.0, 100.0])
@pytest.mark.parametrize("method", METHODS)
def test_gaussian_noise_against_the_true_profile(method, data_norm, adjacency, monkeypatch):
    """One column: the hockey-stick divergence is within the guarantee, and near it."""
    monkeypatch.setattr(output_perturbation, "release", lambda theta, scale, *others: theta + scale)
    rng = np.random.default_rng(1)
    best = 0.0
    solver = OutputPerturbation(method, n_epochs=3, batch_size=2)
    for objective, first, second in outputs_in_one_dimension(solver, adjacency, data_norm, rng):
        mechanism = solver.mechanism(objective, *spent(1.0, 1e-6, adjacency))(0.8)
        zeros = np.zeros((objective.n_samples, 1)), np.zeros(objective.n_samples)
        noisy = solver.solve(objective, mechanism, LocalRows(*zeros), generator=generator())
        std = (noisy - learnt(solver, objective, *zeros))[0]
        guarantee = perturbation(mechanism)
        true_mu = abs(first - second) / std
        assert true_mu <= guarantee.mu
        best = max(best, true_mu / guarantee.mu)
        points = (first + second) / 2 + std * np.linspace(-12, 12, 20_001)
        for epsilon in (0.0, 0.5, 2.0):
            true = hockey_stick(stats.norm(first, std), stats.norm(second, std), epsilon, points)
            assert true <= guarantee.delta(epsilon) + 1e-7
    assert best >= 0.9


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("data_norm", [0.1, 1.0, 12.0, 100.0])
def test_gamma_noise_against_the_true_loss(data_norm, adjacency):
    """One column: the density is exp(-|t - theta| / s) / (2 s)."""
    rng = np.random.default_rng(1)
    best = 0.0
    solver = OutputPerturbation(noise="gamma")
    for objective, first, second in outputs_in_one_dimension(solver, adjacency, data_norm, rng):
        mechanism = solver.mechanism(objective, *spent(1.0, 0.0, adjacency))(0.8)
        scale = mechanism.noise_multiplier * sensitivity(solver, objective, adjacency)
        guarantee = perturbation(mechanism)
        true = abs(first - second) / scale
        assert true <= guarantee.epsilon(0.0)
        best = max(best, true / guarantee.epsilon(0.0))
        points = (first + second) / 2 + scale * np.linspace(-40, 40, 40_001)
        laws = stats.laplace(first, scale), stats.laplace(second, scale)
        assert hockey_stick(*laws, 0.3, points) <= guarantee.delta(0.3) + 1e-5
    assert best >= 0.9


# --- estimators -----------------------------------------------------------------------------------


def tables(n_samples=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n_samples, 3))
    return X, X @ [1.0, -2.0, 0.5]


def test_gaussian_noise_has_no_pure_guarantee():
    X, raw = tables()
    message = r"delta=0 must be in \(0, 1\): Gaussian noise has no pure-epsilon guarantee"
    for method in METHODS:
        solver = OutputPerturbation(method)
        with pytest.raises(ValueError, match=message):
            PrivateLogisticRegression(delta=0, classes=[0, 1], solver=solver).fit(X, raw > 0)


# --- defaults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [logistic, squared, softmax(5)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("noise", ["gaussian", "gamma"])
@pytest.mark.parametrize("data_norm", [0.1, 100.0])
def test_the_default_penalty_balances_noise_and_bias(loss, noise, data_norm):
    """The least of the excess risk that the class's notes write down."""
    solver = OutputPerturbation(noise=noise)
    clip = solver.auto_clip(loss, 0.5) * math.hypot(data_norm, data_norm / 4)
    objective = Objective(loss, 5000, 20, data_norm, 0.0, clip, data_norm / 4)
    alpha = solver.auto_alpha(objective, *spent(0.5, 1e-6))
    size = objective.n_parameters
    # root mean square per coordinate, over the sensitivity
    gamma = math.sqrt(stats.gamma(size).moment(2) / size) / 0.5
    over_sensitivity = gamma if noise == "gamma" else 1 / gdp_mu(0.5, 1e-6)

    def excess(alpha):
        kappa = objective.row_norm * over_sensitivity * 2 * objective.lipschitz / (5000 * alpha)
        bias = alpha / 2 * 10 / (loss.smoothness * objective.row_norm**2)
        return loss.smoothness * kappa**2 / 2 + bias

    assert excess(alpha) <= min(excess(0.99 * alpha), excess(1.01 * alpha))


@pytest.mark.slow
def test_the_default_tolerance_costs_little_and_can_be_certified():
    rng = np.random.default_rng(0)
    for loss in (logistic, softmax(4)):
        X = rng.standard_normal((3000, 20))
        y = rng.integers(0, 2, 3000).astype(float)
        for alpha in (1e-6, 1e-3, 1.0):
            objective = problem(loss, X, alpha=alpha)
            learnt(OutputPerturbation(), objective, X, y)
            ideal = objective.sensitivity(Adjacency.REPLACE_ONE) / alpha
            assert ideal < sensitivity(OutputPerturbation(), objective) <= ideal * (1 + 1e-3)
    rough = OutputPerturbation(tolerance=1e-3)
    assert sensitivity(rough, objective) == pytest.approx(ideal + 2e-3 / alpha, rel=1e-12)


def test_clip_of_a_softmax_is_none_and_cannot_be_asked_for():
    X, raw = tables()
    y = np.digitize(raw, [-0.4, 0.4])
    model = PrivateSoftmaxRegression(classes=[0, 1, 2], solver="output_perturbation", clip=0.5)
    message = r"clip=0.5: a clipped softmax gradient is that of no convex loss.*Use clip='auto'"
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    fitted = model.set_params(clip="auto").fit(X, y)
    assert fitted.clip_ == pytest.approx(math.sqrt(2) * math.hypot(1, 0.25))


REFUSED = {
    "method='newton' must be 'minimiser', 'permutation_sgd' or": {"method": "newton"},
    "noise='laplace' must be 'gaussian' or 'gamma'": {"noise": "laplace"},
    "tolerance=1e-30 is below .*, what double precision can certify": {"tolerance": 1e-30},
    "tolerance=0.0 must be 'auto' or a finite number > 0": {"tolerance": 0.0},
    "n_epochs=0 must be 'auto' or an": {"method": "permutation_sgd", "n_epochs": 0},
    "n_epochs=True must be 'auto' or an": {"method": "gradient_descent", "n_epochs": True},
    "batch_size=0.5 must be an integer": {"method": "permutation_sgd", "batch_size": 0.5},
    "alpha=0.0: without a penalty the minimiser has no bounded sensitivity": {"alpha": 0.0},
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message):
    given = dict(REFUSED[message])
    changes = {"alpha": given.pop("alpha", "auto"), "solver": OutputPerturbation(**given)}
    with pytest.raises(ValueError, match=message):
        PrivateLogisticRegression(classes=[0, 1], **changes).privacy_cost(400, 3)


def test_without_a_penalty_the_descents_have_a_sensitivity():
    X, raw = tables()
    for method in METHODS[1:]:
        solver = OutputPerturbation(method, n_epochs=5)
        model = PrivateLogisticRegression(classes=[0, 1], solver=solver, alpha=0.0).fit(X, raw > 0)
        assert model.alpha_ == 0
    objective = replace(problem(logistic, X, alpha=0.0), clip=0.3)
    steps = 5 / objective.smoothness
    five = sensitivity(OutputPerturbation("gradient_descent", n_epochs=5), objective)
    assert five == pytest.approx(steps * 2 * objective.lipschitz / 400, rel=1e-9)
