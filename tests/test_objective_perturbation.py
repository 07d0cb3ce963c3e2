"""Objective perturbation: guarantees against exact losses by quadrature, and the solver."""

import itertools
import math
import pickle
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from printed import chaudhuri, kifer, redberg, redberg_renyi
from problems import pairwise
from reference import gradients
from scipy import sparse, special, stats
from spending import spent

from skdpdyn import PrivateLogisticRegression, PrivateRidge, PrivateSoftmaxRegression
from skdpdyn.core import noise as noise_module
from skdpdyn.core.losses import logistic, softmax, squared
from skdpdyn.core.noise import largest_norm, standard_noise
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    Adjacency,
    GaussianDP,
    PerturbedObjective,
    PerturbedObjectiveDP,
    from_json,
    perturbation,
    to_json,
)
from skdpdyn.privacy.accountants.perturbation import TiltedCurve
from skdpdyn.solvers import ObjectivePerturbation, objective_perturbation
from skdpdyn.solvers.minimise import largest_rounding
from skdpdyn.training.plan import plan_of as planned
from skdpdyn.training.purchase import Purchase

ADJACENCIES = list(Adjacency)
NORMS = [0.1, 1.0, 12.0, 100.0]


def composed(
    objective, noise, adjacency="replace_one", distribution="gaussian", epsilon=100.0, **options
):
    """What the solver declares: constants under test are those of the solver."""
    solver = ObjectivePerturbation(noise=distribution, **options)
    return solver.mechanism(objective, *spent(epsilon, 1e-6, Adjacency(adjacency)))(noise)


def record(objective, noise, adjacency="replace_one", distribution="gaussian", epsilon=1e3):
    """Its first part."""
    return composed(objective, noise, adjacency, distribution, epsilon).mechanisms[0]


# --- the exact privacy loss in one dimension ------------------------------------------------------


def residual(loss, raw, y, bound):
    """Residual of the clipped loss and its slope, in plain numpy."""
    free = special.expit(raw) - y if loss == "logistic" else raw - y
    slope = special.expit(raw) * special.expit(-raw) if loss == "logistic" else np.ones_like(raw)
    return np.clip(free, -bound, bound), np.where(np.abs(free) < bound, slope, 0.0)


def log_density(theta, rows, problem, scale, distribution):
    """Density of theta: that of the noise b(theta) = -gradient of the sum, times |db/dtheta|."""
    penalty = problem.n_samples * problem.alpha
    b = penalty * theta
    jacobian = np.full_like(theta, penalty)
    for x, y in rows:
        most = 1.0 if problem.loss.name == "logistic" else math.inf
        bound = min(problem.clip / max(abs(x), 1e-300), most)
        value, slope = residual(problem.loss.name, theta * x, y, bound)
        b = b + value * x
        jacobian = jacobian + slope * x * x
    law = stats.norm if distribution == "gaussian" else stats.laplace
    return law.logpdf(b, scale=scale) + np.log(jacobian)


def worlds(loss, norm, clip, adjacency):
    """A problem of one column, and pairs (rest, record, another record) of adversarial data."""
    for curvature in (0.02, 0.3, 3.0):
        smoothness = {"logistic": 0.25, "squared": 1.0}[loss.name] * norm**2
        problem = Objective(loss, 10, 1, norm, alpha=smoothness / curvature / 10, clip=clip * norm)
        # of the residual's rise, in raw predictions
        width = {"logistic": 4.0, "squared": clip}[loss.name]
        targets = (0.0, 1.0) if loss.name == "logistic" else (0.0, -1.0, 1.0, -3.0, 3.0)
        targets = [y * (1.0 if loss.name == "logistic" else width) for y in targets]
        for rest in ([], [(norm, targets[1])] * 2):
            for y, other_y, sign in itertools.product(targets, targets, (1, -1)):
                if adjacency is Adjacency.ADD_REMOVE and (other_y, sign) != (targets[0], 1):
                    continue  # the other record is not there
                if adjacency is Adjacency.REPLACE_ONE and sign == 1 and y >= other_y:
                    continue  # both directions are looked at
                yield problem, rest, (norm, y), (sign * norm, other_y)


def true_losses(adjacency, problem, rest, one, other, scale, distribution):
    """Cells of a grid over theta, and the log-densities of two neighbours there."""
    first = [*rest, one]
    second = [*rest, other] if adjacency is Adjacency.REPLACE_ONE else rest
    reach = 13.0 if distribution == "gaussian" else 40.0
    span = reach * scale + (len(rest) + 1) * problem.lipschitz
    span /= problem.n_samples * problem.alpha
    theta = np.linspace(-span, span, 4001)
    densities = (log_density(theta, of, problem, scale, distribution) for of in (first, second))
    return theta[1] - theta[0], *densities


def exact_delta(a, b, cell, epsilons):
    """Hockey-stick divergence of log-densities, by quadrature."""
    return -np.expm1(np.minimum(epsilons[:, None] + b - a, 0.0)) @ np.exp(a) * cell


@pytest.mark.parametrize(("norm", "adjacency"), list(zip(NORMS, 2 * ADJACENCIES, strict=True)))
def test_the_profile_holds_and_is_tight(norm, adjacency):
    """Exact deltas are below the claim (to 1e-3, of quadrature), and some above half of it."""
    found = 0.0
    claims = {}
    cases = itertools.product(((logistic, 1.0), (logistic, 0.4), (squared, 0.7)), (0.4, 3.0))
    for (loss, clip), noise in cases:
        for problem, rest, one, other in worlds(loss, norm, clip, adjacency):
            declared = record(problem, noise, adjacency)
            epsilons = np.append(np.arange(6) / noise, declared.tilt + np.arange(1, 6) / noise)
            if declared not in claims:
                claims[declared] = perturbation(declared).delta(epsilons)
            deltas = claims[declared]
            scale = noise * problem.n_samples * problem.sensitivity(adjacency)
            cell, p, q = true_losses(adjacency, problem, rest, one, other, scale, "gaussian")
            for a, b in ((p, q), (q, p)):
                true = exact_delta(a, b, cell, epsilons)
                found = max(found, np.max((true / deltas)[deltas > 1e-12], initial=0.0))
    assert 0.5 <= found <= 1 + 1e-3


@pytest.mark.parametrize("norm", [1.0, 12.0])
@pytest.mark.parametrize("loss", [logistic, squared])
def test_each_direction_has_its_own_profile(loss, norm):
    """As compositions take them: one bounds P against Q, and the other Q against P."""
    for problem, rest, one, other in worlds(loss, norm, 0.7, Adjacency.ADD_REMOVE):
        declared = record(problem, 0.4, Adjacency.ADD_REMOVE)
        epsilons = np.concatenate([[0.0], declared.tilt + np.arange(1, 9) / 4])
        claims = np.array(perturbation(declared)._profiles(epsilons))
        scale = 0.4 * problem.n_samples * problem.sensitivity(Adjacency.ADD_REMOVE)
        cell, p, q = true_losses(Adjacency.ADD_REMOVE, problem, rest, one, other, scale, "gaussian")
        true = np.array([exact_delta(a, b, cell, epsilons) for a, b in ((p, q), (q, p))])
        true = np.where(claims > 1e-12, true, 0.0)
        assert any(np.all(each <= claims * (1 + 1e-3)) for each in (true, true[::-1]))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("norm", NORMS)
def test_renyi_and_pure_losses(adjacency, norm):
    best = 0.0
    for loss, clip in ((logistic, 0.4), (squared, 0.7)):
        for problem, rest, one, other in worlds(loss, norm, clip, adjacency):
            scale = problem.n_samples * problem.sensitivity(adjacency)
            declared = record(problem, 1.0, adjacency)
            cell, p, q = true_losses(adjacency, problem, rest, one, other, scale, "gaussian")
            for order in (1.5, 2.0, 8.0):
                claimed = perturbation(declared).rdp(order)
                for a, b in ((p, q), (q, p)):
                    moment = special.logsumexp(order * a + (1 - order) * b + math.log(cell))
                    assert moment / (order - 1) <= claimed + 1e-6
            declared = record(problem, 1.0, adjacency, "gamma")
            cell, p, q = true_losses(adjacency, problem, rest, one, other, scale, "gamma")
            largest = np.max(np.abs(p - q))
            assert largest <= perturbation(declared).epsilon(0.0) * (1 + 1e-9)
            best = max(best, largest / perturbation(declared).epsilon(0.0))
    assert best >= 0.8


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_two_dimensions(adjacency):
    """Records in any directions: exact deltas in the plane stay below the claim."""
    rng = np.random.default_rng(3)

    def density(theta, rows, clip, scale):
        b = theta.copy()
        hessian = np.eye(2)[:, :, None, None] * np.ones(theta.shape[1:])
        for x, y in rows:
            limit = clip / np.linalg.norm(x)
            value, slope = residual("squared", np.tensordot(x, theta, 1), y, limit)
            b += value * np.reshape(x, (2, 1, 1))
            hessian += slope * np.multiply.outer(x, x)[:, :, None, None]
        jacobian = hessian[0, 0] * hessian[1, 1] - hessian[0, 1] ** 2
        return np.exp(-np.sum((b / scale) ** 2, axis=0) / 2) / (2 * math.pi * scale**2) * jacobian

    best = 0.0
    for _ in range(40):
        m = 10 ** rng.uniform(-0.1, 0.6)
        curvature = 10 ** rng.uniform(-1.5, 0.3)
        clip = 1.0
        scale = adjacency.sum_sensitivity(clip) / m
        corner = rng.choice([0, math.pi / 2, math.pi, rng.uniform(0, math.pi)])
        angles = 0.4 + np.array([0.0, corner, *rng.uniform(0, math.pi, 2)])
        n_others = rng.integers(0, 3)
        span = 6.5 * scale + (1 + n_others) * clip
        grid = np.linspace(-span, span, 351)
        theta = np.stack(np.meshgrid(grid, grid))
        cell = (grid[1] - grid[0]) ** 2
        root = math.sqrt(curvature)
        spread = rng.choice([1.0, 5.0]) * (clip / root + root * scale)
        directions = root * np.column_stack([np.cos(angles), np.sin(angles)])
        one, other, *others = ((x, rng.uniform(-1, 1) * spread) for x in directions)
        others = others[:n_others]
        second = [*others, other] if adjacency is Adjacency.REPLACE_ONE else others
        p, q = (density(theta, of, clip, scale) for of in ([*others, one], second))
        # of the quadrature, across jumps of the curvature
        assert np.sum(p) * cell == pytest.approx(1, abs=1e-2)
        declared = PerturbedObjective(
            noise_multiplier=1 / m, curvature=curvature, adjacency=adjacency
        )
        tilt = math.log1p(curvature)
        for epsilon in (0.0, m, 2 * m, tilt + m, tilt + 3 * m):
            both = (np.sum(np.maximum(a - math.exp(epsilon) * b, 0)) for a, b in ((p, q), (q, p)))
            best = max(best, max(both) * cell / perturbation(declared).delta(epsilon))
    assert 0.5 <= best <= 1 + 1e-2


# --- several outputs ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("norm", [0.1, 12.0])
def test_softmax_of_three_classes(adjacency, norm):
    """Exact Renyi divergences over the plane that residuals lie in, one column."""
    basis = np.linalg.svd(np.ones((1, 3)))[2][1:]  # of the plane of vectors that sum to 0
    problem = Objective(softmax(3), 10, 1, norm, alpha=norm**2 / 10, clip=math.sqrt(2) * norm)
    declared = record(problem, 1.5, adjacency)
    assert declared.rank == 2
    assert declared.curvature == pytest.approx(2 / 3)
    scale = 1.5 * problem.n_samples * problem.sensitivity(adjacency)
    span = (9 * scale + 3 * problem.lipschitz) / norm**2
    grid = np.linspace(-span, span, 301)
    plane = np.stack(np.meshgrid(grid, grid))
    theta = np.tensordot(basis.T, plane, 1)

    def log_p(rows):
        b = norm**2 * plane
        hessian = norm**2 * np.eye(2)[:, :, None, None] * np.ones((1, 1, *plane.shape[1:]))
        for x, y in rows:
            p = special.softmax(theta * x, axis=0)
            b = b + np.tensordot(basis, p - np.eye(3)[y][:, None, None], 1) * x
            full = np.einsum("ij,jab->ijab", np.eye(3), p) - p[:, None] * p[None]
            hessian = hessian + np.einsum("ki,ijab,lj->klab", basis, full, basis) * x * x
        determinant = hessian[0, 0] * hessian[1, 1] - hessian[0, 1] ** 2
        return stats.norm.logpdf(b, scale=scale).sum(axis=0) + np.log(determinant)

    best = 0.0
    for rest, y, other in itertools.product(([], [(norm, 0)], [(-norm, 1)]), range(3), range(3)):
        first = log_p([*rest, (norm, y)])
        second = log_p([*rest, (norm, other)] if adjacency is Adjacency.REPLACE_ONE else rest)
        for order, (a, b) in itertools.product((1.5, 4.0), ((first, second), (second, first))):
            total = special.logsumexp(order * a + (1 - order) * b) + 2 * math.log(grid[1] - grid[0])
            best = max(best, total / (order - 1) / perturbation(declared).rdp(order))
    assert 0.1 < best <= 1 + 1e-6


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_pure_softmax(n_classes):
    """The largest loss over parameters and data is below the claim, and close to it."""
    norm = 3.0
    rng = np.random.default_rng(0)
    problem = Objective(softmax(n_classes), 10, 1, norm, 0.2 * norm**2, math.sqrt(2) * norm)
    declared = record(problem, 2.0, "add_remove", "gamma")
    known = (n_classes - 1) * math.log1p(1 / (2 * n_classes))
    assert declared.tilt == pytest.approx(known, rel=1e-12)
    penalty = 2 * norm**2
    scale = 2.0 * math.sqrt(2) * norm
    largest_tilt = largest = 0.0
    for size in np.geomspace(1e-3, 30, 300):
        theta = rng.standard_normal(n_classes) * size / norm
        p = special.softmax(theta * norm)
        hessian = penalty * np.eye(n_classes) + norm**2 * (np.diag(p) - np.outer(p, p))
        tilt = np.linalg.slogdet(hessian)[1] - n_classes * math.log(penalty)
        without = penalty * theta
        for y in range(n_classes):
            b = without + norm * (p - np.eye(n_classes)[y])
            loss = (np.linalg.norm(without) - np.linalg.norm(b)) / scale + tilt
            largest = max(largest, abs(loss))
            largest_tilt = max(largest_tilt, tilt)
    assert 0.999 * declared.tilt <= largest_tilt <= declared.tilt * (1 + 1e-12)
    assert 0.6 <= largest / perturbation(declared).epsilon(0.0) <= 1


def test_constants_of_other_losses_are_those_of_any_hessian():
    """Of several outputs only the largest eigenvalue may be known."""
    several = replace(softmax(4), name="several", trace=None, rank=None)
    for loss, trace, rank in ((logistic, 1.0, 1), (several, 4.0, 4), (softmax(4), 1.5, 3)):
        problem = Objective(loss, 10, 1, 3.0, alpha=0.7)
        declared = record(problem, 1.0)
        assert declared.curvature == pytest.approx(trace * problem.curvature / 7)
        assert declared.rank == rank


@pytest.mark.parametrize("rank", [2, 3, 9, 500])
def test_radial_moments(rank):
    """Against the chi law's moment generating function, a hypergeometric series; never below."""
    for scale in (1e-6, 1e-3, 0.1, 1.0, 4.0):
        square = scale**2 / 2
        odd = special.poch(rank / 2, 0.5) * math.sqrt(2) * scale
        even_series = special.hyp1f1(rank / 2, 0.5, square)
        exact = math.log(even_series + odd * special.hyp1f1((rank + 1) / 2, 1.5, square))
        claimed = TiltedCurve(scale, 0.0, rank)(2.0) - square
        assert exact * (1 - 1e-9) <= claimed <= exact * (1 + 1e-3) + 1e-9
    one = TiltedCurve(0.3, 0.1)
    two = TiltedCurve(0.3, 0.1, 2)
    orders = 1 + np.geomspace(1e-9, 1e12, 50)
    assert np.all(one(orders) <= two(orders))
    assert np.all(np.diff(two(orders)) >= -1e-12 * two(orders)[1:])


# --- guarantees -----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=40)
@given(
    noise=st.floats(-1, 4).map(lambda power: 10.0**power),
    curvature=st.floats(-6, -0.05).map(lambda power: 10.0**power),
    delta=st.floats(-300, -0.5).map(lambda power: 10.0**power),
)
def test_never_above_the_published_forms(noise, curvature, delta):
    given = {"noise_multiplier": noise, "curvature": curvature}
    removed, replaced = (
        PerturbedObjective(adjacency=of, **given) for of in ("add_remove", "replace_one")
    )
    ours = perturbation(removed).epsilon(delta)
    assert redberg(removed, ours * (1 - 1e-12)) >= delta or ours == 0
    assert ours <= redberg_renyi(removed).epsilon(delta) * (1 + 1e-9)
    for mechanism in (removed, replaced):
        assert perturbation(mechanism).epsilon(delta) <= kifer(mechanism, delta) * (1 + 1e-12)
    if perturbation(replaced).epsilon(delta) > replaced.tilt + perturbation(replaced)._kink:
        published = redberg_renyi(replaced).epsilon(delta)
        assert perturbation(replaced).epsilon(delta) <= published * (1 + 1e-9)
    pure = PerturbedObjective(noise_multiplier=noise, curvature=curvature, distribution="gamma")
    assert perturbation(pure).epsilon(0.0) <= chaudhuri(pure)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_profiles_are_smooth_and_reach_tiny_deltas(adjacency):
    for mu, tilt in itertools.product((1e-6, 0.1, 0.9, 1.1, 20.0), (0.0, 1e-9, 0.2, 5.0)):
        guarantee = PerturbedObjectiveDP(mu, tilt, adjacency=adjacency)
        epsilons = np.unique(
            np.append(np.linspace(0, 2 * tilt + 6 * mu, 601), tilt + mu * np.geomspace(6, 36, 20))
        )
        deltas = guarantee.delta(epsilons)
        assert np.all(np.diff(deltas) <= 1e-12 * deltas[1:])
        if epsilons[-1] < 5:  # each form is convex in exp(epsilon), and the least of four nearly
            slope = np.diff(deltas) / np.diff(np.exp(epsilons))
            concave = np.diff(slope) < -1e-3 * np.abs(slope[:-1]) - 1e-9 / mu
            assert np.sum(concave) <= 3
        for delta in (1e-3, 1e-12, 1e-300):
            epsilon = guarantee.epsilon(delta)
            assert guarantee.delta(epsilon) <= delta
            assert epsilon == 0 or guarantee.delta(epsilon * (1 - 1e-9)) > delta * (1 - 1e-9)
            assert epsilon >= GaussianDP(mu).epsilon(delta) * (1 - 1e-12)
    exact = PerturbedObjectiveDP(0.0, 0.3, adjacency=adjacency)
    assert exact.delta(0.3) == 0
    assert PerturbedObjectiveDP(1e-9, 0.0, adjacency=adjacency).delta(0.0) <= 2.1e-9


def test_composition_with_gaussian_releases():
    for adjacency in ADJACENCIES:
        one = PerturbedObjectiveDP(0.3, 0.1, adjacency=adjacency)
        both = one.compose(GaussianDP(0.4, adjacency))
        assert both == GaussianDP(0.4, adjacency).compose(one)
        assert both.compose(GaussianDP(0.3, adjacency)) == one.compose(GaussianDP(0.5, adjacency))
        near = PerturbedObjectiveDP(0.056, 0.09, adjacency=adjacency)  # not convex across epsilon 0
        assert near.compose(GaussianDP(1.6, adjacency)).error(1e-9) < 5e-6
        closed = {"replace_one": 4.0, "add_remove": 2.0}  # by the formula, before: two-sided losses
        for delta in (1e-4, 1e-8):
            exact = GaussianDP(0.5)  # the Jacobian adds its tilt at most
            at_most = 0.1 + exact.epsilon(delta / closed[adjacency])
            assert exact.epsilon(delta) <= both.epsilon(delta) <= at_most * (1 + 1e-6)
        assert both.rdp(3.0) >= one.rdp(3.0) + GaussianDP(0.4, adjacency).rdp(3.0) - 1e-12
        for value in (one, both):
            assert from_json(to_json(value)) == value
            assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    "values",
    [
        {"noise_multiplier": 0.0},
        {"curvature": -0.1},
        {"curvature": math.nan},
        {"rank": 0},
        {"distribution": "laplace"},
        {"adjacency": "both"},
        {"shift": -1.0, "tilt": 0.1},
        {"tilt": math.inf, "shift": 1.0},
    ],
    ids=str,
)
def test_senseless_values_are_refused_by_name(values):
    ((name, value), *_) = values.items()
    good = {"noise_multiplier": 1.0, "curvature": 0.1}
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        PerturbedObjectiveDP(**values) if "shift" in values else PerturbedObjective(**good | values)


# --- the solver -----------------------------------------------------------------------------------


def data(n_samples=300, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_samples, n_features))
    return X, (X[:, 0] - 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n_samples) > 0).astype(int)


def private(model=PrivateLogisticRegression, **parameters):
    given = {"classes": [0, 1]} if model is not PrivateRidge else {"target_bounds": (0, 1)}
    return model(**{**given, "solver": "objective_perturbation", **parameters})


def solved(problem, mechanism, X, y, noise="gaussian", **options):
    solver = ObjectivePerturbation(noise, **options)
    rows = LocalRows(X, y.astype(float))
    return solver.solve(problem, mechanism, rows, generator=np.random.default_rng(4))


@pytest.mark.parametrize("noise", ["gaussian", "gamma"])
def test_noise_on_the_output_hides_the_tolerance(noise):
    """A coarse tolerance: this noise is then the most. Failure probability 1e-6 each."""
    X = np.zeros((50, 2000))
    y = np.ones(50)
    problem = Objective(logistic, 50, 2000, 1.0, alpha=0.5, clip=1e-9)
    mechanism = composed(problem, 3.0, "add_remove", noise, tolerance=1.0)
    theta = solved(problem, mechanism, X, y, noise, tolerance=1.0)
    standard = theta / (mechanism.mechanisms[1].noise_multiplier * 2 * 1.0 / 0.5)
    if noise == "gaussian":
        assert stats.chi2.ppf(5e-7, 2000) < np.sum(standard**2) < stats.chi2.isf(5e-7, 2000)
    else:
        assert stats.gamma.ppf(5e-7, 2000) < np.linalg.norm(standard) < stats.gamma.isf(5e-7, 2000)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", [logistic, squared, softmax(3)], ids=lambda loss: loss.name)
def test_it_solves_the_perturbed_problem(loss, layout, monkeypatch):
    """The gradient of the whole sum, and the b that the generator gave."""
    monkeypatch.setattr(objective_perturbation, "release", lambda theta, *others: theta)
    X, y = data()
    problem = Objective(loss, *X.shape, 0.8, 0.01, 0.5 if loss.n_outputs == 1 else math.inf, 0.3)
    mechanism = composed(problem, 0.3)
    theta = solved(problem, mechanism, layout(X), y)
    generator = np.random.default_rng(4)
    b = 0.3 * 2 * problem.lipschitz * standard_noise("gaussian", theta.size, generator)
    tolerance = mechanism.mechanisms[1].tolerance
    left = gradients(problem, X, y, theta).sum(axis=0) + 300 * 0.01 * theta + b
    assert np.linalg.norm(left) <= 300 * (tolerance + 1e-12)
    assert tolerance < 1e-5


@pytest.mark.parametrize("noise", ["gaussian", "gamma"])
def test_noise_is_drawn_once_and_never_again(noise, monkeypatch):
    X, y = data()
    problem = Objective(logistic, *X.shape, 1.0, 0.01, 0.5)
    drawn = Mock()
    for name in ("standard_noise", "release"):
        drawn.attach_mock(Mock(side_effect=getattr(noise_module, name)), name)
        monkeypatch.setattr(objective_perturbation, name, getattr(drawn, name))
    solved(problem, composed(problem, 5.0, distribution=noise), X, y, noise)
    assert [call[0] for call in drawn.mock_calls] == ["standard_noise", "release"]


def test_a_tolerance_out_of_reach_is_refused_before_the_records_are_seen():
    X, y = data()
    model = private(solver=ObjectivePerturbation(tolerance=1e-30))
    with pytest.raises(ValueError, match=r"tolerance=1e-30 is below .*Raise tolerance, or alpha"):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


CLIPPED = {"model": PrivateSoftmaxRegression, "clip": 0.5}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"alpha": 0}, ValueError, "alpha=0: objective perturbation needs a penalty"),
        ({"alpha": 1e-9}, ValueError, "alpha=1e-09: the Jacobian alone costs .* Raise alpha"),
        ({"noise": "laplace"}, ValueError, "noise='laplace' must be 'gaussian' or 'gamma'"),
        ({"tolerance": 0.0}, ValueError, "tolerance=0.0 must be 'auto' or"),
        ({"tolerance": "small"}, ValueError, "tolerance='small' must be 'auto' or"),
        ({"delta": 0.0}, ValueError, r"\(0, 1\): .*solver=ObjectivePerturbation\(noise='gamma'\)"),
        (
            {"bound": "composition"},
            UnsupportedMechanismError,
            "composition has no theorem for Pert",
        ),
        (CLIPPED, ValueError, "clip=0.5: a clipped softmax is the gradient of no convex"),
    ],
)
def test_refused_combinations(changes, error, message):
    options = {name: value for name, value in changes.items() if name in ("noise", "tolerance")}
    if options:
        changes = {"solver": ObjectivePerturbation(**options)}
    with pytest.raises(error, match=message):
        private(**changes).privacy_cost(1000, 4)


@pytest.mark.slow
def test_tolerance_is_within_reach_of_double_precision():
    """At sizes, norms and budgets that differ by orders."""
    rng = np.random.default_rng(0)
    grid = (20, 3000), (0.01, 100.0), (0.01, 50.0), ("gaussian", "gamma")
    for n, norm, epsilon, noise in pairwise(*grid):
        X = rng.standard_normal((n, 6)).astype(np.float32) * norm
        model = private(epsilon=epsilon, data_norm=norm, solver=ObjectivePerturbation(noise))
        assert np.all(np.isfinite(model.fit(X, rng.integers(0, 2, n)).coef_))


@pytest.mark.parametrize(
    ("n_samples", "epsilon"), [(10**4, 1.0), (10**6, 10.0), (10**6, 50.0), (10**9, 10.0)]
)
def test_the_tolerance_can_be_reached_whatever_the_records(n_samples, epsilon):
    """An error for some records and not for others would be a release."""
    model = private(epsilon=epsilon, delta=1e-7)
    if n_samples == 10**9:
        message = r"n_samples=1000000000, alpha=.*: double precision cannot certify"
        with pytest.raises(ValueError, match=message):
            model.privacy_cost(n_samples, 50)
        return
    plan = planned(Purchase.of(model, n_samples, 50).request)
    linear, output = plan.mechanism.mechanisms
    scale = linear.noise_multiplier * plan.objective.sensitivity(plan.mechanism.adjacency)
    of_noise = scale * largest_norm("gaussian", plan.objective.n_parameters)
    norm = plan.objective.minimiser_norm(of_noise)
    assert output.tolerance >= 4 * largest_rounding(plan.objective, norm)
