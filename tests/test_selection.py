"""Papernot and Steinke's bounds: against ``dp_accounting``, brute force and limits."""

import math
from itertools import product

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy import optimize, stats

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    ApproximateDP,
    Gaussian,
    GaussianDP,
    PoissonSubsampled,
    RenyiDP,
    Selection,
    SubsampledDP,
    WithoutReplacement,
    recursion,
    selection,
    subsampling,
)
from skdpdyn.privacy.guarantees import LinearCurve
from skdpdyn.privacy.releases import log_inverse_gamma
from skdpdyn.privacy.renyi import LargestCurve

LAWS = [(mean, shape) for mean in (1.5, 10.0, 80.0) for shape in (0.0, 0.5, 1.0, 4.0, math.inf)]


def selected(trial, mean=5.0, shape=0.0, **options):
    return selection(Selection(trial=trial, expected_trials=mean, shape=shape), **options)


def orders_used(curve, order):
    """The order, and that at which the theorem's inner minimum is attained."""
    if curve.shape < math.inf:
        length = log_inverse_gamma(curve.expected_trials, curve.shape)

        def inner(x):
            return (math.exp(x) * curve.trial(1 + math.exp(x)) + length) / (1 + math.exp(x))
    else:
        epsilon = math.log1p(1 / (order - 1))

        def inner(x):
            a = 1 + math.exp(x)
            return (a - 1) * (curve.trial(a) - epsilon) + (a - 1) * math.log1p(-1 / a) - math.log(a)

    options = {"method": "bounded", "options": {"xatol": 1e-9}}
    found = (optimize.minimize_scalar(inner, bounds=(s, s + 2), **options) for s in range(-8, 12))
    best = min(found, key=lambda found: found.fun)
    return np.sort([1 + 1e-9, 1 + math.exp(best.x), order])


@pytest.mark.parametrize(("mean", "shape"), LAWS)
@pytest.mark.parametrize("mu", [0.05, 0.7])
def test_renyi_bound_is_that_of_dp_accounting(mean, shape, mu):
    guarantee = selected(GaussianDP(mu), mean, shape)
    lowest = guarantee.curve._least[0]
    for order in (1.3 * lowest, 3 * lowest, 20 * lowest):
        orders = orders_used(guarantee.curve, order)
        event = RepeatAndSelectDpEvent(GaussianDpEvent(1 / mu), mean, shape)
        theirs = RdpAccountant(orders).compose(event)._rdp[orders == order][0]
        assert guarantee.rdp(order) == pytest.approx(theirs, rel=3e-9)  # they solve gamma to 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "shape"), LAWS)
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_epsilon_is_that_of_dp_accounting(mean, shape, adjacency):
    guarantee = selected(GaussianDP(0.3, adjacency), mean, shape)
    orders = 1 + np.geomspace(1e-2, 1e4, 600)
    known = RepeatAndSelectDpEvent(GaussianDpEvent(1 / 0.3), mean, shape)
    for event in (guarantee.dp_event, known):
        accountant = RdpAccountant(orders, guarantee.neighboring_relation)
        theirs = accountant.compose(event).get_epsilon(1e-6)
        assert theirs * (1 - 1e-4) <= guarantee.epsilon(1e-6) <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("shape", [0.0, 1.0, 3.0, -0.5])
def test_mean_of_the_law(shape):
    for mean in (1.0, 1 + 1e-6, 1.7, 10.0, 150.0):
        record = Selection(trial=GaussianDP(0.1), expected_trials=mean, shape=shape)
        gamma = record.halting_probability
        k = np.arange(1, 200_000)
        steps = np.concatenate([[0.0], np.cumsum(np.log((k[:-1] + shape) / (k[:-1] + 1)))])
        weights = np.exp(steps + k * np.log1p(-gamma)) if gamma < 1 else (k == 1).astype(float)
        if shape != -0.5 or mean < 20:  # the tail of the others is summed in full
            assert weights @ k / weights.sum() == pytest.approx(mean, rel=1e-7)
    poisson = Selection(trial=GaussianDP(0.1), expected_trials=3.0, shape=math.inf)
    assert poisson.halting_probability is None


@pytest.mark.parametrize("shape", [0.0, 1.0, 5.0])
def test_one_trial_costs_what_it_costs(shape):
    guarantee = selected(GaussianDP(0.3), 1.0, shape)
    assert guarantee.rdp(7.0) == pytest.approx(GaussianDP(0.3).rdp(7.0), rel=1e-7)
    assert guarantee.epsilon(1e-6) >= GaussianDP(0.3).epsilon(1e-6)


def best_of(cumulative, mean, shape):
    """Law of the best of T draws from a finite law, and of T = 0 as an outcome of its own."""
    if shape == math.inf:
        generating = np.exp(mean * (np.append(0.0, cumulative) - 1))
        return np.append(generating[0], np.diff(generating))
    length = log_inverse_gamma(mean, shape)
    rest = -math.expm1(-length)
    x = np.append(0.0, cumulative)
    if shape == 0:
        generating = np.log1p(-rest * x) / -length
        return np.diff(generating)
    return np.diff(((1 - rest * x) ** -shape - 1) / math.expm1(shape * length))


@pytest.mark.parametrize(
    ("mean", "shape"),
    [
        *((1.0, math.inf), (2.0, math.inf), (12.0, math.inf), (1.3, 0.0)),
        *((10.0, 0.0), (10.0, 1.0), (5.0, 4.0), (3.0, -0.5)),
    ],
)
@pytest.mark.parametrize("tight", [False, True])
def test_bound_is_never_below_the_exact_divergence(mean, shape, tight):
    """Gaussian trials, a thousand outcomes, scored in several orders."""
    edges = np.linspace(-6, 6.5, 1000)
    for mu in (0.05, 0.5, 1.5):
        one, other = (
            np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) - shift))
            for shift in (0.0, mu)
        )
        curve = selected(GaussianDP(mu), mean, shape, tight=tight)
        places = np.arange(one.size)
        for score in (places, -places, -np.abs(places - 500.0)):
            by_score = np.argsort(score, kind="stable")
            laws = (best_of(np.cumsum(law[by_score]), mean, shape) for law in (one, other))
            p, q = (np.log(np.clip(law, 1e-300, None)) for law in laws)
            for order, (a, b) in product((1.05, 1.5, 3.0, 10.0, 40.0), ((p, q), (q, p))):
                exact = np.log(np.sum(np.exp(order * a - (order - 1) * b))) / (order - 1)
                assert exact <= curve.rdp(order) + 1e-9
    # The same bound with a part left out (the mean's logarithm, gamma's) is below some of these:
    # see the tests of values


def test_values():
    """By hand: mu = 1, gamma = 1/4: b = sqrt(2 log 4) minimises (b - 1)/2 + log(4)/b."""
    b = math.sqrt(2 * math.log(4))
    order = 9.0
    by_hand = order / 2 + 2 * ((b - 1) / 2 + math.log(4) / b) + math.log(4) / (order - 1)
    assert selected(GaussianDP(1.0), 4.0, 1.0).rdp(order) == pytest.approx(by_hand, rel=1e-12)
    # Poisson by a trial's own profile: R(a) + mean delta(log(a/(a-1))) + log(mean)/(a-1)
    by_hand = order / 2 + 4 * GaussianDP(1.0).delta(math.log(9 / 8)) + math.log(4) / 8
    tight = selected(GaussianDP(1.0), 4.0, math.inf, tight=True)
    assert tight.rdp(order) == pytest.approx(by_hand, rel=1e-12)


def test_trials_without_a_gaussian_guarantee():
    constants = {"step_size": 0.5, "strong_convexity": 0.1, "smoothness": 1.0}
    sizes = {"n_samples": 100, "batch_size": 10, "n_epochs": 1}
    fresh = recursion(WithoutReplacement(noise_multiplier=20.0, **sizes, **constants))
    guarantee = selected(fresh)
    assert guarantee.epsilon(1e-6) > fresh.epsilon(1e-6)
    gaussian = pytest.approx(selected(GaussianDP(0.3)).epsilon(1e-6), rel=1e-9)
    larger = LinearCurve(0.045)
    smaller = LinearCurve(0.02)
    assert selected(RenyiDP(larger)).epsilon(1e-6) == gaussian
    assert selected(RenyiDP(LargestCurve((larger, smaller)))).epsilon(1e-6) == gaussian
    batches = {"sampling_probability": 0.1, "noise_multiplier": 4.0, "n_steps": 5}
    sampled = subsampling(PoissonSubsampled(adjacency="add_remove", **batches))
    assert selected(sampled).adjacency == "add_remove"
    # the event of the last would cost more
    dear = selected(GaussianDP(0.3, "add_remove"), shape=math.inf, tight=True)
    for nameless in (guarantee, selected(GaussianDP(0.3), shape=-0.5), dear):
        with pytest.raises(UnsupportedMechanismError, match="no dp_accounting event"):
            _ = nameless.dp_event


@pytest.mark.parametrize("trial", [SubsampledDP(GaussianDP(1.0), 0.1), ApproximateDP(0.1, 1e-9)])
def test_trials_without_a_renyi_curve_are_refused_by_name(trial):
    message = f"Renyi curve of one trial, and none is known of this {type(trial).__name__}"
    with pytest.raises(UnsupportedMechanismError, match=message):
        selected(trial)


def test_senseless_selections_are_refused():
    trials = [("expected_trials", 0.9), ("expected_trials", math.nan)]
    for name, value in (*trials, ("shape", -1.0), ("shape", math.nan)):
        with pytest.raises(ValueError, match=f"{name}={value}"):
            Selection(**{"trial": GaussianDP(0.1), "expected_trials": 5.0, name: value})
    with pytest.raises(ValueError, match="must be a guarantee"):
        Selection(trial=Gaussian(3.0), expected_trials=5.0)
