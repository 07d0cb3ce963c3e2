"""Accounting where numbers are extreme, and documents that hold anything."""

import itertools
import json
import math
import time
from contextlib import suppress
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from runs import cyclic, descent, fresh, one_pass, poisson

from skdpdyn.privacy import (
    ACCOUNTANTS,
    ApproximateDP,
    Composition,
    CyclicBatches,
    Gaussian,
    GaussianDP,
    PerturbedObjective,
    PerturbedOutput,
    ProfileMixture,
    RenyiDP,
    Selection,
    SubsampledDP,
    WithoutReplacement,
    composition,
    from_json,
    least_noise,
    subsampling,
    tightest,
    to_json,
)
from skdpdyn.privacy.calibration import judge
from skdpdyn.privacy.guarantees import Guarantee, LinearCurve
from skdpdyn.privacy.renyi import LargestCurve
from skdpdyn.privacy.sampled import SampledCurve

# --- the Renyi curve of Poisson batches -----------------------------------------------------------


def exact_divergence(q, z, order, replaced):
    """Renyi divergence of the dominating pair, at 30 digits, from what E_Q (P/Q)^a is above 1."""
    with mpmath.workdps(30):
        q = mpmath.mpf(q)
        m = 1 / mpmath.mpf(z)
        a = mpmath.mpf(order)

        def integrand(x):
            p = 1 - q + q * mpmath.exp(m * x - m * m / 2)
            other = 1 - q + q * mpmath.exp(-m * x - m * m / 2) if replaced else mpmath.mpf(1)
            ratio = p / other
            return mpmath.npdf(x) * other * (ratio**a - 1 - a * (ratio - 1))

        middle = np.linspace(float(-2 * m - 8), float(2 * a * m + 8), 16)
        ends = [-2 * m - 25, *middle.tolist(), 2 * a * m + 25]
        return float(mpmath.log1p(mpmath.quad(integrand, ends)) / (a - 1))


@pytest.mark.parametrize(
    ("q", "z", "order", "adjacency"),
    [
        (0.01, 4.0, 30.0, "replace_one"),
        (1e-9, 1.0, 2.0, "add_remove"),
        (0.999, 0.3, 8.0, "replace_one"),
        (0.5, 1.0, 40.5, "add_remove"),
        (0.3, 1e3, 1.5, "replace_one"),
        (0.1, 2.0, 1 + 1e-6, "add_remove"),
    ],
)
def test_curve_is_just_above_the_exact_divergence(q, z, order, adjacency):
    exact = exact_divergence(q, z, order, adjacency == "replace_one")
    assert exact <= SampledCurve(q, z, adjacency)(order) <= exact * (1 + 1e-10)


def test_curve_under_add_remove_is_that_of_dp_accounting():
    import dp_accounting

    # between integers theirs is interpolated, which is above
    q = 0.02
    z = 1.3
    orders = [2.0, 3.7, 8.0, 33.0]
    accountant = dp_accounting.rdp.RdpAccountant(orders=orders)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z)), 7)
    run = {"noise_multiplier": z, "n_steps": 7, "adjacency": "add_remove"}
    ours = subsampling(poisson(sampling_probability=q, **run)).rdp(np.array(orders))
    np.testing.assert_allclose(ours, accountant.rdp, rtol=1e-4)
    np.testing.assert_allclose(ours[[0, 2, 3]], accountant.rdp[[0, 2, 3]], rtol=1e-9)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    q=st.floats(-100, 0).map(lambda power: 10.0**power),
    z=st.floats(-100, 100).map(lambda power: 10.0**power),
    adjacency=st.sampled_from(["replace_one", "add_remove"]),
)
def test_curve_at_extremes(q, z, adjacency):
    """A Renyi divergence grows with its order, is above 0, and below that without sampling."""
    orders = 1 + np.geomspace(1e-9, 1e15, 40)
    with np.errstate(over="ignore"):
        values = SampledCurve(q, z, adjacency)(orders)
        whole = orders * np.square((2 if adjacency == "replace_one" else 1) / z) / 2
    assert np.all((values > 0) & (values <= whole))
    if z > 0.1:  # with less noise it is a bound that does not grow, at most that without sampling
        assert np.all(values[1:] >= values[:-1] * (1 - 1e-9))
        noisier = SampledCurve(q, 1.5 * z, adjacency)(orders)
        assert np.all(noisier <= values * (1 + 1e-9))


def test_renyi_bound_is_above_the_numerical_one_and_near_it():
    run = {"sampling_probability": 0.01, "noise_multiplier": 4.0, "n_steps": 1000}
    guarantee = subsampling(poisson(**run))
    renyi = RenyiDP(guarantee._renyi_curve())
    for delta in (1e-5, 1e-7, 1e-9):
        assert guarantee.epsilon(delta) <= renyi.epsilon(delta) <= 1.2 * guarantee.epsilon(delta)
    exact = 1000 * exact_divergence(0.01, 4.0, 8.0, True)
    assert guarantee.rdp(8.0) == pytest.approx(exact, rel=1e-9)
    assert from_json(to_json(guarantee)).rdp(8.0) == guarantee.rdp(8.0)


# --- no cliff -------------------------------------------------------------------------------------


def test_noise_has_no_cliff_in_the_number_of_steps():
    """Without a tilt or a Renyi curve: 4.14 at 900 steps and 415 at 1,000."""

    def run(n_steps):
        return lambda z: poisson(sampling_probability=0.01, noise_multiplier=z, n_steps=n_steps)

    steps = 700, 900, 1000, 1300
    noises = [least_noise(run(n_steps), 1.0, 1e-12).noise_multiplier for n_steps in steps]
    for (one, other), ratio in zip(itertools.pairwise(noises), (9 / 7, 10 / 9, 1.3), strict=True):
        assert one <= other <= one * ratio**0.5 * 1.05
    assert noises[2] == pytest.approx(4.1498, rel=1e-3)


@pytest.mark.parametrize(
    ("q", "z", "n_steps", "adjacency", "epsilon"),
    [
        (1e-9, 1.0, 10**18, "replace_one", 1.0),
        (1e-9, 1e3, 10**15, "add_remove", 1.0),
        (1e-3, 1e3, 10**9, "replace_one", 0.25),  # at 1.0 delta is 8e-59, on three more grids
        (0.1, 1e18, 40, "add_remove", 1.0),
    ],
)
def test_extreme_runs_are_answered_in_seconds(q, z, n_steps, adjacency, epsilon):
    start = time.process_time()
    run = {"noise_multiplier": z, "n_steps": n_steps, "adjacency": adjacency}
    record = poisson(sampling_probability=q, **run)
    guarantee = subsampling(record)
    unsampled = composition(record)
    assert 0 <= guarantee.epsilon(1e-6) <= unsampled.epsilon(1e-6)
    assert 0 <= guarantee.delta(epsilon) <= unsampled.delta(epsilon)
    assert time.process_time() - start < 10


# --- parts of a composition, each by its best bound -----------------------------------------------

RARE = {"sampling_probability": 0.01, "adjacency": "add_remove"}
STEPS = poisson(**RARE, noise_multiplier=1.0, n_steps=1000)


def test_composition_takes_the_best_bound_of_each_part():
    both = Composition((STEPS, Gaussian(5.0, adjacency="add_remove")))
    best = tightest(both, delta=1e-6)
    assert best.bound == "tightest"
    assert best.guarantee == subsampling(STEPS).compose(GaussianDP(0.2, "add_remove"))
    assert best.guarantee.epsilon(1e-6) == pytest.approx(2.2986, rel=1e-3)  # before, 649
    assert set(best.alternatives) == set(ACCOUNTANTS)
    assert judge(both, 1e-6, best.bound) == (best.bound, best.guarantee)
    nested = tightest(Composition((both, Gaussian(5.0, adjacency="add_remove"))), delta=1e-6)
    assert nested.bound == "tightest"
    expected = subsampling(STEPS).compose(GaussianDP(0.2 * math.sqrt(2), "add_remove"))
    assert nested.guarantee.epsilon(1e-6) == pytest.approx(expected.epsilon(1e-6), rel=1e-3)

    def record(noise):
        other = Gaussian(5.0 * noise, adjacency="add_remove")
        return Composition((replace(STEPS, noise_multiplier=noise), other))

    found = least_noise(record, 2.0, 1e-6, bound="tightest")
    assert 1.999 < tightest(found, delta=1e-6).guarantee.epsilon(1e-6) <= 2.0


def test_parts_that_are_nothing_at_this_delta_are_judged_by_what_they_add_up_to():
    """Each part has epsilon 0 by either accountant; a thousand of them do not."""
    parts = (poisson(**RARE, n_steps=1),) * 1000 + (Gaussian(50.0, adjacency="add_remove"),)
    best = tightest(Composition(parts), delta=0.3)
    assert best.guarantee.epsilon(1e-6) < 1.0


# --- the smaller of two forms ---------------------------------------------------------------------


# --- documents ------------------------------------------------------------------------------------


OBJECTIVE = PerturbedObjective(noise_multiplier=3.0, curvature=0.1)
ORDINARY = [
    Gaussian(3.0),
    descent(diameter=0.3, sensitivity=1.0),
    cyclic(n_samples=95, order="shuffled_once"),
    fresh(),
    poisson(step_size=0.5),
    PerturbedOutput(noise_multiplier=3.0, distribution="gamma"),
    replace(OBJECTIVE, rank=4),
    Composition((OBJECTIVE, PerturbedOutput(noise_multiplier=30.0))),
    one_pass(strong_convexity=0.2, stopping="random"),
    Selection(trial=GaussianDP(0.3), expected_trials=4.0, shape=math.inf),
    ApproximateDP(0.1, 1e-9),
    ProfileMixture([0.1, 0.2], [0.5, 0.5]),
    SubsampledDP(GaussianDP(1.0), 0.1),
    RenyiDP(LargestCurve((LinearCurve(0.1),))),
]
EXTREMES = (
    [0, 1, -1, -0.0, 5e-324, 1e-320, 1e-160, 1e160, 1.7e308, 1e-9, 1 - 1e-9]
    + [10**power for power in (18, 19, 30, 400)]
    + [True, False, None, "", "replace_one", [], [1.0], [[1.0]], [1e308, 1e308], {}, [None], ["a"]]
    + [{"type": "float", "value": value} for value in ("inf", "-inf", "nan")]
    + [json.loads(to_json(value)) for value in (GaussianDP(1.0), Gaussian(1.0))]
)


def places(stored, path=()):
    """Where a document holds a value."""
    for name, value in stored.items() if isinstance(stored, dict) else enumerate(stored):
        if name not in ("type", "version"):
            yield (*path, name)
            if isinstance(value, (dict, list)):
                yield from places(value, (*path, name))


def guarantees_of(value):
    if isinstance(value, Guarantee):
        return [value]
    found = []
    for accountant in ACCOUNTANTS.values():
        with suppress(ValueError):  # UnsupportedMechanismError is one
            found.append(accountant(value))
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "ordinary",
    [
        pytest.param(
            value,
            id=type(value).__name__,
            # batches take 2 s and more for numbers that are nearly 0
            marks=[pytest.mark.system] * isinstance(value, WithoutReplacement | CyclicBatches),
        )
        for value in ORDINARY
    ],
)
def test_extreme_documents_are_refused_or_answered(ordinary):
    """Before, ZeroDivisionError, OverflowError, TypeError and MemoryError came out of them."""
    texts = {to_json(value) for value in (ordinary, *guarantees_of(ordinary))}
    n_read = n_refused = 0
    for text in sorted(texts):
        for path in places(json.loads(text)):
            for extreme in EXTREMES:
                document = json.loads(text)
                target = document
                for name in path[:-1]:
                    target = target[name]
                target[path[-1]] = extreme
                try:
                    value = from_json(json.dumps(document))
                    answers = [(one.epsilon(1e-6), one.delta(1.0)) for one in guarantees_of(value)]
                except ValueError:
                    n_refused += 1
                    continue
                n_read += 1
                assert all(epsilon >= 0 and 0 <= delta <= 1 for epsilon, delta in answers), document
    assert n_read > 3
    assert n_refused > 10


def test_delta_of_many_epsilons_with_infinite_ones():
    epsilon = np.append(np.linspace(0.0, 5.0, 20), math.inf)
    for rate in (0.5, math.inf, 1e300):
        guarantee = RenyiDP(LinearCurve(rate))
        delta = guarantee.delta(epsilon)
        assert not np.any(np.isnan(delta))
        assert delta[-1] == guarantee.delta(math.inf) == 0


def test_epsilon_just_below_the_delta_of_nothing():
    """There the root is next to 0, where steps relative to it go nowhere."""
    run = {"noise_multiplier": 5.0, "n_steps": 10}
    guarantee = subsampling(poisson(sampling_probability=0.001, **run))
    for part in (1e-6, 1e-9, 1e-12):
        delta = guarantee.delta(0.0) * (1 - part)
        assert 0 < guarantee.epsilon(delta) < 1e-8
        assert guarantee.delta(guarantee.epsilon(delta)) <= delta
