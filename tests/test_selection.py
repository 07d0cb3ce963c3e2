"""Papernot and Steinke's bounds against ``dp_accounting``, against brute force, and in the
limits that are known exactly.
"""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy import optimize, stats

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    ApproximateDP,
    Composition,
    Gaussian,
    GaussianDP,
    PoissonSubsampled,
    RenyiDP,
    Selection,
    SubsampledDP,
    WithoutReplacement,
    composition,
    recursion,
    selection,
    subsampling,
    tightest,
)
from skdpdyn.privacy.guarantees import LargestCurve, LinearCurve
from skdpdyn.privacy.mechanisms import log_inverse_gamma

LAWS = [(mean, shape) for mean in (1.5, 10.0, 80.0) for shape in (0.0, 0.5, 1.0, 4.0, math.inf)]


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

    best = min(
        (
            optimize.minimize_scalar(
                inner, bounds=(s, s + 2), method="bounded", options={"xatol": 1e-9}
            )
            for s in range(-8, 12)
        ),
        key=lambda found: found.fun,
    )
    return np.sort([1 + 1e-9, 1 + math.exp(best.x), order])


@pytest.mark.parametrize(("mean", "shape"), LAWS)
@pytest.mark.parametrize("mu", [0.05, 0.7])
def test_renyi_bound_is_that_of_dp_accounting(mean, shape, mu):
    guarantee = selection(Selection(trial=GaussianDP(mu), expected_trials=mean, shape=shape))
    lowest = guarantee.curve._least[0]
    for order in (1.3 * lowest, 3 * lowest, 20 * lowest):
        orders = orders_used(guarantee.curve, order)
        accountant = RdpAccountant(orders).compose(
            RepeatAndSelectDpEvent(GaussianDpEvent(1 / mu), mean, shape)
        )
        theirs = accountant._rdp[orders == order][0]
        # they solve gamma to 1e-9
        assert guarantee.rdp(order) == pytest.approx(
            theirs, rel=1e-9 if shape == math.inf else 3e-9
        )


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "shape"), LAWS)
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_epsilon_is_that_of_dp_accounting(mean, shape, adjacency):
    guarantee = selection(
        Selection(trial=GaussianDP(0.3, adjacency), expected_trials=mean, shape=shape)
    )
    orders = 1 + np.exp(np.linspace(math.log(1e-2), math.log(1e4), 600))
    for event in (
        guarantee.dp_event,
        RepeatAndSelectDpEvent(GaussianDpEvent(1 / 0.3), mean, shape),
    ):
        theirs = (
            RdpAccountant(orders, guarantee.neighboring_relation).compose(event).get_epsilon(1e-6)
        )
        assert theirs * (1 - 1e-4) <= guarantee.epsilon(1e-6) <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("shape", [0.0, 1.0, 3.0, -0.5])
def test_mean_of_the_law(shape):
    for mean in (1.0, 1 + 1e-6, 1.7, 10.0, 150.0):
        record = Selection(trial=GaussianDP(0.1), expected_trials=mean, shape=shape)
        gamma, k = record.halting_probability, np.arange(1, 200_000)
        steps = np.concatenate([[0.0], np.cumsum(np.log((k[:-1] + shape) / (k[:-1] + 1)))])
        weights = np.exp(steps + k * np.log1p(-gamma)) if gamma < 1 else (k == 1).astype(float)
        if shape != -0.5 or mean < 20:  # the tail of the others is summed in full
            assert weights @ k / weights.sum() == pytest.approx(mean, rel=1e-7)
    assert (
        Selection(trial=GaussianDP(0.1), expected_trials=3.0, shape=math.inf).halting_probability
        is None
    )


@pytest.mark.parametrize("shape", [0.0, 1.0, 5.0])
def test_one_trial_costs_what_it_costs(shape):
    guarantee = selection(Selection(trial=GaussianDP(0.3), expected_trials=1.0, shape=shape))
    assert guarantee.rdp(7.0) == pytest.approx(GaussianDP(0.3).rdp(7.0), rel=1e-7)
    assert guarantee.epsilon(1e-6) >= GaussianDP(0.3).epsilon(1e-6)


def best_of(cumulative, mean, shape):
    """Law of the best of T draws from a finite law in increasing order of score, and of T = 0 as
    an outcome of its own.
    """
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
    """Gaussian trials, a thousand outcomes, scored in several orders; the exact laws of the
    winner, T = 0 released as such.
    """
    edges = np.linspace(-6, 6.5, 1000)
    for mu in (0.05, 0.5, 1.5):
        one, other = (
            np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) - shift))
            for shift in (0.0, mu)
        )
        curve = selection(
            Selection(trial=GaussianDP(mu), expected_trials=mean, shape=shape), tight=tight
        )
        for score in (
            np.arange(one.size),
            -np.arange(one.size),
            -np.abs(np.arange(one.size) - 500.0),
        ):
            by_score = np.argsort(score, kind="stable")
            p, q = (
                np.clip(best_of(np.cumsum(law[by_score]), mean, shape), 1e-300, None)
                for law in (one, other)
            )
            for order in (1.05, 1.5, 3.0, 10.0, 40.0):
                for first, second in ((p, q), (q, p)):
                    exact = np.log(
                        np.sum(np.exp(order * np.log(first) - (order - 1) * np.log(second)))
                    ) / (order - 1)
                    assert exact <= curve.rdp(order) + 1e-9
    # The same bound with a part left out (the mean's logarithm, gamma's) is below some of these:
    # see the tests of values


def test_values():
    """By hand: mu = 1, geometric with mean 4 (gamma = 1/4): b = sqrt(2 log 4) minimises (b -
    1)/2 + log(4)/b.
    """
    b, order = math.sqrt(2 * math.log(4)), 9.0
    by_hand = order / 2 + 2 * ((b - 1) / 2 + math.log(4) / b) + math.log(4) / (order - 1)
    assert selection(Selection(trial=GaussianDP(1.0), expected_trials=4.0, shape=1.0)).rdp(
        order
    ) == pytest.approx(by_hand, rel=1e-12)
    # Poisson by a trial's own profile: R(a) + mean delta(log(a/(a-1))) + log(mean)/(a-1)
    by_hand = order / 2 + 4 * GaussianDP(1.0).delta(math.log(9 / 8)) + math.log(4) / 8
    assert selection(
        Selection(trial=GaussianDP(1.0), expected_trials=4.0, shape=math.inf), tight=True
    ).rdp(order) == pytest.approx(by_hand, rel=1e-12)


def test_trials_without_a_gaussian_guarantee():
    fresh = WithoutReplacement(
        n_samples=100,
        batch_size=10,
        n_epochs=1,
        noise_multiplier=20.0,
        step_size=0.5,
        strong_convexity=0.1,
        smoothness=1.0,
    )
    guarantee = selection(Selection(trial=recursion(fresh), expected_trials=5.0))
    assert guarantee.epsilon(1e-6) > recursion(fresh).epsilon(1e-6)
    linear = selection(Selection(trial=RenyiDP(LinearCurve(0.045)), expected_trials=5.0))
    assert linear == selection(
        Selection(trial=GaussianDP(0.3), expected_trials=5.0)
    ) or linear.epsilon(1e-6) == pytest.approx(
        selection(Selection(trial=GaussianDP(0.3), expected_trials=5.0)).epsilon(1e-6), rel=1e-12
    )
    either = selection(
        Selection(
            trial=RenyiDP(LargestCurve((LinearCurve(0.045), LinearCurve(0.02)))),
            expected_trials=5.0,
        )
    )
    assert either.epsilon(1e-6) == pytest.approx(linear.epsilon(1e-6), rel=1e-9)
    sampled = subsampling(
        PoissonSubsampled(
            sampling_probability=0.1, noise_multiplier=4.0, n_steps=5, adjacency="add_remove"
        )
    )
    assert selection(Selection(trial=sampled, expected_trials=5.0)).adjacency == "add_remove"
    with pytest.raises(UnsupportedMechanismError, match="no dp_accounting event"):
        _ = guarantee.dp_event
    with pytest.raises(UnsupportedMechanismError, match="no dp_accounting event"):
        _ = selection(Selection(trial=GaussianDP(0.3), expected_trials=5.0, shape=-0.5)).dp_event
    with pytest.raises(UnsupportedMechanismError, match="no dp_accounting event"):
        _ = selection(
            Selection(trial=GaussianDP(0.3, "add_remove"), expected_trials=5.0, shape=math.inf),
            tight=True,
        ).dp_event  # the event would cost more


@pytest.mark.parametrize("trial", [SubsampledDP(GaussianDP(1.0), 0.1), ApproximateDP(0.1, 1e-9)])
def test_trials_without_a_renyi_curve_are_refused_by_name(trial):
    with pytest.raises(
        UnsupportedMechanismError,
        match=f"Renyi curve of one trial, and none is known of this {type(trial).__name__}",
    ):
        selection(Selection(trial=trial, expected_trials=5.0))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Selection(trial=Gaussian(3.0), expected_trials=5.0), "must be a guarantee"),
        (lambda: Selection(trial=GaussianDP(0.1), expected_trials=0.9), "expected_trials=0.9"),
        (lambda: Selection(trial=GaussianDP(0.1), expected_trials=math.nan), "expected_trials=nan"),
        (lambda: Selection(trial=GaussianDP(0.1), expected_trials=5.0, shape=-1.0), "shape=-1.0"),
        (
            lambda: Selection(trial=GaussianDP(0.1), expected_trials=5.0, shape=math.nan),
            "shape=nan",
        ),
    ],
)
def test_senseless_selections_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_tightest_knows_the_sharper_form():
    record = Selection(trial=tightest(Gaussian(5.0)), expected_trials=10.0, shape=math.inf)
    assert record.trial == composition(Gaussian(5.0))
    best = tightest(record, delta=1e-6)
    assert best.bound == "selection"
    assert best.guarantee.epsilon(1e-6) < 0.9 * selection(record).epsilon(1e-6)
    twice = tightest(Composition((record, record)))
    assert twice.guarantee.epsilon(1e-6) > best.guarantee.epsilon(1e-6)
