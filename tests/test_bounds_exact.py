"""Every bound against exactly solvable cases: exact <= bound, or exact == bound."""

import itertools
import math
import sys
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from printed import corollary_2, lower_bound, quadratic
from runs import cyclic, descent, fresh, one_pass, poisson
from scipy import special, stats

from skdpdyn.privacy import (
    GaussianDP,
    LaplaceDP,
    PrivacyLossDP,
    ProfileMixture,
    SubsampledDP,
    composition,
    contraction,
    iteration,
    langevin,
    last_iterate,
    last_iterate_mu,
    recursion,
    subsampling,
)
from skdpdyn.privacy.loss_grids import PROFILE_ERROR, Masses, Tilted, tilted
from skdpdyn.privacy.numerical import (
    ACCURACY,
    ComposedLosses,
    SampledGaussian,
    discretised,
    sampled_profile,
)

EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)
ROUNDING = 1e-8  # of the quadratures below


def divergence(epsilon, p, q, x):
    """Hockey-stick divergence of two densities on a fine grid."""
    return np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x)


def mixture(x, means, weights, std=1.0):
    densities = stats.norm.pdf(x, np.asarray(means)[:, None], std)
    return np.sum(np.asarray(weights)[:, None] * densities, axis=0)


def both_ways(epsilon, p, q, x):
    return max(divergence(epsilon, p, q, x), divergence(epsilon, q, p, x))


# --- the quadratic --------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("n_steps", [1, 2, 7, 100, 10**5])
@pytest.mark.parametrize("decay", [1e-6, 1e-3, 0.1, 0.5, 1.0])
def test_bounds_are_above_the_quadratic(n_steps, decay):
    curvature = {"strong_convexity": 0.7, "smoothness": 0.7}
    m = descent(n_steps=n_steps, noise_multiplier=3.0, step_size=decay / 0.7, **curvature)
    exact = quadratic(m)
    printed = corollary_2(m)
    assert last_iterate(m).mu == pytest.approx(exact.mu, rel=1e-12)
    assert composition(m).mu >= exact.mu * (1 - 1e-12)
    for order in (1.5, 2.0, 30.0):
        assert lower_bound(m)(order) <= exact.rdp(order) <= printed(order) * (1 + 1e-12)
        if decay < 1:
            assert langevin(m).rdp(order) >= 1.57 * exact.rdp(order)
    if n_steps > 10 / decay:  # Corollary 2 converges to within this factor
        assert printed(2) <= 4 / (2 - decay) ** 2 * exact.rdp(2) * (1 + 1e-3)


# --- disjoint batches -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_batches", [1, 2, 3, 7])
@pytest.mark.parametrize("n_epochs", [1, 2, 9])
@pytest.mark.parametrize("strong_convexity", [0.0, 1e-4, 0.1, 0.9])
def test_cyclic_batches_in_closed_form(n_batches, n_epochs, strong_convexity):
    size = {"n_samples": 5 * n_batches, "batch_size": 5, "n_epochs": n_epochs}
    steps = {"step_size": 1.0, "strong_convexity": strong_convexity}
    m = cyclic(**size, **steps, noise_multiplier=2.0)
    worst = 0.0
    for position in range(1, n_batches + 1):
        present = np.arange(m.n_steps) % n_batches == position - 1
        c = np.full(m.n_steps, 1 - strong_convexity)
        noise = np.full(m.n_steps, 2.0)
        exact = last_iterate_mu(c, present, noise)
        assert last_iterate(m, index=position).mu == pytest.approx(exact, rel=1e-9)
        worst = max(worst, exact)
        assert iteration(m, index=position).rdp(2.0) >= GaussianDP(exact).rdp(2.0) * (1 - 1e-12)
    assert last_iterate(m).mu == pytest.approx(worst, rel=1e-9)
    # Bok, Su and Altschuler (2024), strongly convex NoisyCGD
    if n_batches > 1 and strong_convexity:
        c = 1 - strong_convexity
        past = 1 - c ** (n_batches * (n_epochs - 1))
        share = past / (2 - past)
        square = 1 + c ** (2 * n_batches - 2) * (1 - c**2) / (1 - c**n_batches) ** 2 * share
        assert last_iterate(m).mu == pytest.approx(math.sqrt(square) / 2, rel=1e-9)


def test_composition_of_batches_by_arrays_is_that_of_the_worst_position():
    noise = np.array([1.0, 2.0, 4.0, 1.5, 3.0, 4.0])  # two epochs of three batches
    mus = [math.hypot(1 / noise[position], 1 / noise[position + 3]) for position in range(3)]
    m = cyclic(n_samples=15, batch_size=5, n_epochs=2, noise_multiplier=noise)
    assert composition(m).mu == pytest.approx(max(mus), rel=1e-12)


def test_batches_by_arrays_and_with_a_domain():
    rng = np.random.default_rng(1)
    step = rng.uniform(0.1, 1.0, 24)
    noise = rng.uniform(1.0, 3.0, 24)
    size = {"n_samples": 22, "batch_size": 6, "n_epochs": 6, "noise_multiplier": noise}
    m = cyclic(**size, step_size=step, strong_convexity=0.2, smoothness=1.5)
    mus = []
    for position in range(4):
        present = np.where(np.arange(24) % 4 == position, step, 0.0)
        c = np.maximum(1 - 0.2 * step, 1.5 * step - 1)
        mus.append(last_iterate_mu(c, present, step * noise))
    assert last_iterate(m).mu == pytest.approx(max(mus), rel=1e-12)
    parts = (6 / 22, 6 / 22, 6 / 22, 4 / 22)
    mean = sum(w * GaussianDP(mu).delta(0.7) for w, mu in zip(parts, mus, strict=True))
    shuffled = replace(m, order="shuffled_once")
    assert last_iterate(shuffled).delta(0.7) == pytest.approx(mean, rel=1e-12)
    narrow, wide = (replace(m, diameter=diameter, sensitivity=1.0) for diameter in (1e-3, 1e6))
    assert last_iterate(narrow).mu < last_iterate(m).mu
    assert last_iterate(wide).mu == pytest.approx(last_iterate(m).mu, rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_shuffled_once_is_above_the_exact_mixture_over_positions(epsilon):
    n_batches = 4
    n_epochs = 3
    decay = 0.3
    noise = 0.6
    size = {"n_samples": n_batches, "batch_size": 1, "n_epochs": n_epochs}
    steps = {"noise_multiplier": noise, "step_size": decay, "strong_convexity": 1.0}
    m = cyclic(**size, **steps, order="shuffled_once")
    steps = np.arange(m.n_steps)
    reach = (1 - decay) ** (m.n_steps - 1.0 - steps) * decay
    std = math.sqrt(np.sum((reach * noise) ** 2))
    shifts = np.array([np.sum(reach[steps % n_batches == place]) for place in range(n_batches)])
    x = np.linspace(-12 * std, 12 * std + shifts.max(), 200_001)
    for low, high in ((0.0, 1.0), (-0.5, 0.5), (-1.0, 0.0)):
        even = np.full(n_batches, 1 / n_batches)
        p, q = (mixture(x, end * shifts, even, std) for end in (low, high))
        assert both_ways(epsilon, p, q, x) <= last_iterate(m).delta(epsilon) + ROUNDING


# --- sampled batches ------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("noise", [0.6, 2.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_poisson_is_above_the_exact_mixture_and_attained(q, noise, epsilon):
    x = np.linspace(-14, 14, 100_001)
    shift = 1 / noise
    exact = {"replace_one": 0.0, "add_remove": 0.0}
    laws = {end: mixture(x, [0.0, end], [1 - q, q]) for end in np.linspace(-shift, shift, 5)}
    for one, other in itertools.combinations(laws, 2):
        value = both_ways(epsilon, laws[one], laws[other], x)
        exact["replace_one"] = max(exact["replace_one"], value)
        if 0 in (one, other):
            exact["add_remove"] = max(exact["add_remove"], value)
    for adjacency, value in exact.items():
        run = {"sampling_probability": q, "noise_multiplier": noise, "adjacency": adjacency}
        delta = subsampling(poisson(n_steps=1, **run)).delta(epsilon)
        assert value - ROUNDING <= delta <= value * (1 + 1e-3) + 1e-7


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_poisson_composes_like_the_product_law(adjacency):
    q = 0.3
    noise = 1.0
    axis = np.linspace(-9, 9, 1501)
    ends = (1.0, -1.0) if adjacency == "replace_one" else (1.0, 0.0)
    p, r = (mixture(axis, [0.0, end], [1 - q, q]) for end in ends)
    p = np.multiply.outer(p, p)
    r = np.multiply.outer(r, r)
    run = {"sampling_probability": q, "noise_multiplier": noise, "adjacency": adjacency}
    guarantee = subsampling(poisson(n_steps=2, **run))
    for epsilon in EPSILONS:
        excess = (np.maximum(a - math.exp(epsilon) * b, 0) for a, b in ((p, r), (r, p)))
        exact = max(np.trapezoid(np.trapezoid(one, axis), axis) for one in excess)
        assert exact - 1e-6 <= guarantee.delta(epsilon) <= exact * (1 + 1e-3) + 1e-6


@pytest.mark.every_case
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("q", [0.1, 0.6])
def test_fixed_size_is_above_all_pairs_of_shifts(adjacency, q):
    noise = 1.5  # over S
    x = np.linspace(-14, 14, 50_001)
    bound = (1.0 if adjacency == "replace_one" else 2.0) / noise  # any two records' contributions
    moved = 1.0 / noise  # the changed record's own
    run = {"n_epochs": 1, "noise_multiplier": noise, "adjacency": adjacency}
    delta = subsampling(fresh(batch_size=int(100 * q), **run))
    assert delta.parts[0][1] == 100 // int(100 * q)
    one_step = delta.parts[0][0]
    laws = {end: mixture(x, [0.0, end], [1 - q, q]) for end in np.linspace(-bound, bound, 9)}
    # relative to the record that is in the batch instead
    pairs = [ends for ends in itertools.combinations(laws, 2) if ends[1] - ends[0] <= moved + 1e-12]
    for epsilon in EPSILONS:
        worst = max(both_ways(epsilon, laws[one], laws[other], x) for one, other in pairs)
        assert worst <= one_step.delta(epsilon) + ROUNDING
        if epsilon > 0.4:  # neither Poisson pair is valid here
            assert worst > q * GaussianDP(moved / 2).delta(math.log1p(math.expm1(epsilon) / q))


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("decay", [0.05, 0.6])
@pytest.mark.parametrize("noise", [0.8, 3.0])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_recursion_is_above_the_exact_mixture(order, decay, noise, batch_size):
    n, n_epochs = (3, 2) if batch_size == 1 else (6, 3)
    for adjacency, ends in (
        ("replace_one", (0.5, -0.5)),
        ("replace_one", (1.0, 0.0)),
        ("add_remove", (1.0, 0.0)),
    ):
        size = {"n_samples": n, "batch_size": batch_size, "n_epochs": n_epochs}
        steps = {"noise_multiplier": noise, "step_size": decay, "strong_convexity": 1.0}
        m = fresh(**size, **steps, adjacency=adjacency)
        q = batch_size / n
        steps = m.n_steps
        # of a unit that enters the sum, in units of the step
        reach = (1 - decay) ** np.arange(steps)
        std = noise * math.sqrt(np.sum(reach**2))
        patterns = np.array(list(itertools.product((0, 1), repeat=steps)))
        weights = np.prod(np.where(patterns, q, 1 - q), axis=1)
        shifts, index = np.unique(np.round(patterns @ reach, 9), return_inverse=True)
        weights = np.bincount(index, weights=weights)
        width = order * shifts.max() + 12 * std
        x = np.linspace(-width, width, 8001)
        p, r = (
            special.logsumexp(
                stats.norm.logpdf(x, end * shifts[:, None], std), axis=0, b=weights[:, None]
            )
            for end in ends
        )
        bound = recursion(m).rdp(order)
        for a, b in ((p, r), (r, p)):
            exact = math.log(np.trapezoid(np.exp(order * a + (1 - order) * b), x)) / (order - 1)
            assert exact <= bound * (1 + 1e-9)


def test_recursion_takes_strides_on_the_safe_side(monkeypatch):
    size = {"n_samples": 1000, "n_epochs": 200, "noise_multiplier": 2.0}
    m = fresh(**size, step_size=1e-2, strong_convexity=1e-2)
    exact = recursion(m).rdp(4.0)  # 20,000 steps: in strides of 2 to 19 when they start early
    module = sys.modules[type(recursion(m).curve).__module__]
    monkeypatch.setattr(module, "EXACT_STEPS", 50)
    # which would remember the answer
    monkeypatch.setattr(module, "_recursion", module._recursion.__wrapped__)
    assert exact < recursion(m).rdp(4.0) <= exact * 1.01


@pytest.mark.parametrize("order", [64.01, 64.5, 70.3, 200.9])
def test_large_orders_between_integers_are_above_the_exact_curve(order):
    q = 0.02
    noise = 4.0
    x = np.linspace(-10 * noise, order + 10 * noise, 200_001)
    ratio = np.logaddexp(math.log1p(-q), math.log(q) + (x - 0.5) / noise**2)
    base = stats.norm.logpdf(x, 0, noise)
    moments = [np.trapezoid(np.exp(base + power * ratio), x) for power in (order, 1 - order)]
    exact = np.log(max(moments)) / (order - 1)
    assert exact <= SampledGaussian(q, noise, "add_remove")._renyi_curve()(order) <= exact * 1.1


@pytest.mark.parametrize(("q", "noise"), [(1e-6, 0.7), (0.01, 1.0), (0.3, 0.8), (1.0, 2.0)])
def test_records_drawn_one_by_one_have_a_profile_in_each_direction(q, noise):
    """Of Gaussian noise that of `SampledGaussian`; of Laplace noise, dp_accounting's 1.286408."""
    epsilon = np.linspace(0.0, 3.0, 301)
    one = SubsampledDP(GaussianDP(1 / noise, "add_remove"), q, "poisson")
    exact = SampledGaussian(q, noise, "add_remove")._profiles(epsilon)
    np.testing.assert_allclose(one._profiles(epsilon), exact, rtol=1e-11, atol=1e-15)
    laplace = SubsampledDP(LaplaceDP(1.0, "add_remove"), 0.01, "poisson")
    composed = PrivacyLossDP(((laplace, 1000),), "add_remove")
    assert composed.epsilon(1e-6) == pytest.approx(1.2864075, rel=1e-6)
    with pytest.raises(ValueError, match="sampling='poisson' is proven for 'add_remove'"):
        SubsampledDP(GaussianDP(1.0), q, "poisson")


@pytest.mark.parametrize("count", [1, 30, 1000, 10**6])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10, 1e-14, 1e-17])
def test_numerical_composition_of_gaussians_is_never_below_the_exact_one(count, delta):
    one = SubsampledDP(GaussianDP(1.2 / math.sqrt(count)), 1.0)
    losses = ComposedLosses(((one, count),), ACCURACY)
    exact = GaussianDP(1.2)
    numerical = losses.epsilon(delta)
    assert exact.epsilon(delta) <= numerical
    if count < 10**6:
        assert numerical <= exact.epsilon(delta) * (1 + 1e-6)
    for epsilon in (*EPSILONS, 8.0):
        assert exact.delta(epsilon) <= losses.delta(epsilon)


@pytest.mark.parametrize("direction", ["replace", "remove", "add"])
@pytest.mark.parametrize("q", [1e-9, 1e-4, 0.3, 0.999])
@pytest.mark.parametrize("z", [0.1, 0.3, 1.0, 30.0, 1e4, 1e6])
def test_profiles_of_batches_have_the_relative_error_that_grids_allow_for(q, z, direction):
    part = SampledGaussian(q, z, "replace_one" if direction == "replace" else "add_remove")
    span = part._reach(1e-28)
    if direction == "add":
        span = min(span, -math.log1p(-q))
    epsilons = span * np.array([0.0, 1e-6, 0.01, 0.1, 0.3, 0.6, 0.9])
    with mpmath.workdps(60):
        exact = [exact_profile(q, z, direction, mpmath.mpf(epsilon)) for epsilon in epsilons]
    ours = sampled_profile(direction, part, epsilons)
    for one, other in zip(ours, exact, strict=True):
        assert one == pytest.approx(float(other), rel=PROFILE_ERROR, abs=1e-300)


def exact_profile(q, z, direction, epsilon):
    """Delta of one step of batches in 60 digits, by Newton's method for the edge."""
    q = mpmath.mpf(q)
    m = 1 / mpmath.mpf(z)
    one, other = {"replace": (m, -m), "remove": (m, 0), "add": (0, m)}[direction]
    side = -1 if direction == "add" else 1

    def weight(x, mean):
        return 1 - q + q * mpmath.exp(mean * x - mpmath.mpf(mean) ** 2 / 2)

    def excess(x):  # rises with x
        return mpmath.log(weight(side * x, one) / weight(side * x, other)) - epsilon

    low = mpmath.mpf(-(10**7))
    high = mpmath.mpf(10**7)
    for _ in range(220):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)

    def tail(mean):
        return (1 - q) * mpmath.ncdf(-high) + q * mpmath.ncdf(side * mean - high)

    return tail(one) - mpmath.exp(epsilon) * tail(other)


@pytest.mark.parametrize("tilt", [0.0, 4.0])
@pytest.mark.parametrize("count", [2, 30, 1000, 10**5])
def test_convolution_is_off_by_less_than_is_charged(count, tilt):
    """Losses of -0.01 and 0.01: their sums are binomial, here in 40 digits."""
    masses = Masses(-1, np.array([0.4, 0.0, 0.6]), 0.0)
    total = tilted(((masses, count),), 0.01, tilt)
    assert total.probs.size < 20 * math.sqrt(count) + 40
    mean = total.interval * count * (0.2 if tilt == 0 else math.tanh(0.04 + math.log(1.5) / 2))
    for epsilon in (0.0, 0.013, max(mean, 0.02), mean + 0.02 * math.sqrt(count)):
        with mpmath.workdps(40):
            exact = mpmath.mpf(0)
            loss = mpmath.mpf(0.01)
            p = mpmath.mpf(0.6)
            q = mpmath.mpf(0.4)
            first = max(0, math.floor((epsilon / 0.01 + count) / 2) - 1)
            mass = mpmath.binomial(count, first) * p**first * q ** (count - first)
            for heads in range(first, min(count, first + math.ceil(9 * math.sqrt(count))) + 1):
                excess = (2 * heads - count) * loss - mpmath.mpf(epsilon)
                if excess > 0:
                    exact -= mass * mpmath.expm1(-excess)
                mass *= (count - heads) * p / ((heads + 1) * q)
        assert exact <= total.delta(epsilon)
        if epsilon == mean:
            assert total.delta(epsilon) <= float(exact) * (1 + 1e-7)


def test_epsilon_falls_with_noise_where_delta_is_tiny():
    """Before, fine grids and coarse ones took turns, and epsilon jumped by 5 %."""
    noises = 0.88 * np.linspace(1, 1.02, 9)
    run = {"sampling_probability": 5e-4, "n_steps": 200}
    records = [poisson(noise_multiplier=noise, **run) for noise in noises]
    epsilons = [subsampling(record).epsilon(2.5e-13) for record in records]
    falls = -np.diff(np.log(epsilons))
    assert np.all((falls > 0.01) & (falls < 0.02))


def test_epsilon_of_composed_losses_is_infinite_only_below_the_mass_at_infinity():
    losses = discretised(((SampledGaussian(0.05, 1.5, "replace_one"), 200),))
    least = losses.delta(math.inf)
    assert losses.epsilon(least * 0.99) == math.inf
    assert losses.epsilon(least * 1.01) < math.inf


# --- one pass -------------------------------------------------------------------------------------


def projected_chain(m, gradients, cells=801):
    """Law after every step of one pass on a grid of [0, diameter], of a linear loss."""
    grid = np.linspace(0.0, m.diameter, cells)
    edges = np.concatenate([[-np.inf], (grid[1:] + grid[:-1]) / 2, [np.inf]])
    law_of_noise = stats.norm if m.distribution == "gaussian" else stats.laplace
    noise = law_of_noise(scale=m.step_size * m.noise)
    laws = []
    law = np.eye(cells)[cells // 2]
    for gradient in gradients:
        moved = (grid - m.step_size * gradient)[:, None]
        kernel = np.diff(noise.cdf(edges[None, :] - moved), axis=1)
        law = law @ kernel
        laws.append(law)
    return laws


@pytest.mark.system
@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_contraction_and_last_iterate_are_above_a_projected_chain(distribution, adjacency):
    kind = {"distribution": distribution, "adjacency": adjacency}
    m = one_pass(n_samples=5, noise=1.2, smoothness=1e-6, **kind)
    stopped = replace(m, stopping="random")
    ends = (1.0, -1.0) if adjacency == "replace_one" else (1.0, 0.0)
    for index in range(1, 6):
        gradients = np.eye(5)[index - 1]
        runs = [projected_chain(m, end * gradients) for end in ends]
        for epsilon in EPSILONS:
            excess = [np.maximum(p - math.exp(epsilon) * q, 0) for p, q in zip(*runs, strict=True)]
            distances = np.sum(excess, axis=1)
            assert distances[-1] <= contraction(m, index=index).delta(epsilon) + ROUNDING
            mixed = np.sum(np.maximum(sum(runs[0]) - math.exp(epsilon) * sum(runs[1]), 0)) / 5
            assert mixed <= np.mean(distances) + ROUNDING
            both = (contraction(stopped, index=index, tight=tight) for tight in (True, False))
            tight, printed = (one.delta(epsilon) for one in both)
            assert mixed <= tight + ROUNDING
            assert tight <= printed + ROUNDING
            if distribution == "gaussian":
                assert distances[-1] <= last_iterate(m, index=index).delta(epsilon) + 1e-4
                assert mixed <= last_iterate(stopped, index=index).delta(epsilon) + 1e-4


@pytest.mark.parametrize("stopping", ["last", "random"])
def test_a_step_that_forgets_all_leaves_the_last_record(stopping):
    """Contraction 0: later records' steps hide all but what the last of them show."""
    steps = {"n_samples": 5, "noise": 1.0, "step_size": 1.0, "smoothness": 1.0}
    near = 1 - 1e-12
    whole, nearly = (one_pass(**steps, strong_convexity=c, stopping=stopping) for c in (1.0, near))
    for index in (1, 4, 5):
        exact = last_iterate(whole, index=index)
        near = last_iterate(nearly, index=index).delta(0.1)
        assert exact.delta(0.1) == pytest.approx(near, abs=1e-10)
        assert (exact.delta(0.1) == 0) == (stopping == "last" and index < 5)
    assert last_iterate(whole).delta(0.1) > 0


def test_last_iterate_of_one_pass_is_the_general_schedule():
    curvature = {"smoothness": 2.0, "strong_convexity": 0.3}
    m = one_pass(n_samples=12, noise=1.5, step_size=0.4, diameter=0.8, **curvature)
    c = max(1 - 0.4 * 0.3, 0.4 * 2.0 - 1)
    step = m.step_size
    for index in range(1, 13):
        own = np.where(np.arange(1, 13) == index, step * 2.0, 0.0)
        exact = last_iterate_mu(np.full(12, c), own, np.full(12, step * 1.5), diameter=0.8)
        assert last_iterate(m, index=index).mu == pytest.approx(exact, rel=1e-9)
        assert iteration(m, index=index).rdp(2) >= last_iterate(m, index=index).rdp(2) * (1 - 1e-12)


@pytest.mark.system
def test_domain_bound_is_above_a_projected_chain():
    steps = 30
    noise = 1.5
    step = 0.2
    domain = {"step_size": step, "strong_convexity": 0.0, "diameter": 0.5}
    m = descent(n_steps=steps, noise_multiplier=noise, sensitivity=1.0, **domain)
    chain = one_pass(n_samples=steps, noise=noise, smoothness=1.0, **domain)
    runs = [projected_chain(chain, [end] * steps)[-1] for end in (0.5, -0.5)]
    assert last_iterate(m).mu < 0.6 * composition(m).mu
    for epsilon in EPSILONS:
        exact = np.sum(np.maximum(runs[0] - math.exp(epsilon) * runs[1], 0))
        assert exact <= last_iterate(m).delta(epsilon) + 1e-4


# --- composition across kinds ---------------------------------------------------------------------


def test_mixtures_compose_as_pairs_with_the_component_told():
    one = ProfileMixture([0.2, 1.0], [0.7, 0.3])
    other = ProfileMixture([0.5, 0.9])
    joint = one.compose(other)
    for epsilon in EPSILONS:
        parts = [
            w * v * GaussianDP(math.hypot(a, b)).delta(epsilon)
            for (w, a), (v, b) in itertools.product(
                zip((0.7, 0.3), (0.2, 1.0), strict=True), ((0.5, 0.5), (0.5, 0.9))
            )
        ]
        assert joint.delta(epsilon) == pytest.approx(sum(parts), rel=1e-12)
    numerical = PrivacyLossDP(((one, 1), (other, 1)))
    assert joint.epsilon(1e-5) <= numerical.epsilon(1e-5) <= joint.epsilon(1e-5) * 1.001
    # the trade-off of release and component together, against the supporting lines of the profile
    fpr = np.linspace(0, 1, 21)
    lines = np.maximum(PrivacyLossDP(((one, 1),)).tradeoff(fpr), 0)
    np.testing.assert_allclose(one.tradeoff(fpr), lines, atol=2e-3)
    one = ProfileMixture([0.8]).tradeoff(0.1)
    gaussian = GaussianDP(0.8).tradeoff(0.1)
    assert one <= gaussian <= one + 1e-3
    # many components are pooled on the safe side
    mus = np.linspace(0.0, 1.0, 5000)
    exact = np.mean([GaussianDP(mu).delta(0.3) for mu in mus])
    assert exact <= ProfileMixture(mus).delta(0.3) <= exact * 1.01


def test_sums_that_are_no_numbers_promise_nothing():
    """Far from all likely losses a sum may be 0 times infinity: delta is at most 1 there too."""
    for probs, outside in (([np.nan], 0.0), ([0.5], np.nan), ([0.5], np.inf)):
        total = Tilted(0.1, 0.0, 0.0, 2, np.array(probs), outside, 0.0)
        assert total.delta(0.05) == 1.0
