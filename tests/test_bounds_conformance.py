"""Laws that every (accountant, record) pair obeys, whatever the theorem."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from bound_laws import BoundLaws, check_profile
from hypothesis import given, settings, strategies as st
from runs import cyclic, descent, fresh, one_pass, poisson
from scipy import special

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    ACCOUNTANTS,
    ApproximateDP,
    Composition,
    Gaussian,
    GaussianDP,
    PerturbedObjective,
    PerturbedOutput,
    PrivacyLossDP,
    ProfileMixture,
    RenyiDP,
    Selection,
    SubsampledDP,
    composition,
    contraction,
    from_json,
    iteration,
    last_iterate,
    perturbation,
    recursion,
    subsampling,
    tightest,
    to_json,
)
from skdpdyn.privacy.guarantees import LinearCurve
from skdpdyn.privacy.numerical import SampledGaussian
from skdpdyn.privacy.renyi import largest
from skdpdyn.privacy.rounded import RoundedCurve, RoundedDP, rounded
from skdpdyn.privacy.sampled import SampledCurve

OBJECTIVE = PerturbedObjective(noise_multiplier=3.0, curvature=0.1)
OF_OTHERS = PerturbedOutput(noise_multiplier=3.0, adjacency="add_remove")
RECORDS = {
    "gaussian": Gaussian(3.0),
    "full batch": descent(),
    "full batch, convex, domain": descent(strong_convexity=0.0, diameter=0.3, sensitivity=1.0),
    "full batch, all": descent(release="all"),
    "cyclic": cyclic(),
    "shuffled": cyclic(n_samples=95, order="shuffled_once"),
    "fresh": fresh(),
    "poisson": poisson(),
    "poisson, steps": poisson(step_size=0.5),
    "output": OF_OTHERS,
    "output, gamma": PerturbedOutput(noise_multiplier=3.0, distribution="gamma"),
    "objective": OBJECTIVE,
    "objective, gamma": replace(OBJECTIVE, distribution="gamma"),
    "objective, several outputs": replace(OBJECTIVE, rank=4),
    "objective, approximate": Composition((OBJECTIVE, PerturbedOutput(noise_multiplier=30.0))),
    "one pass": one_pass(),
    "one pass, laplace": one_pass(distribution="laplace"),
    "one pass, random": one_pass(strong_convexity=0.2, stopping="random"),
    "selection": Selection(trial=GaussianDP(0.3), expected_trials=10.0),
    "selection, poisson": Selection(trial=GaussianDP(0.3), expected_trials=4.0, shape=math.inf),
    "poisson and full": Composition((poisson(), Gaussian(5.0))),
    "two": Composition((Gaussian(3.0), cyclic(order="shuffled_once"))),
}


class TestAccountants(BoundLaws):
    """All accountants of the package, on one record of every kind."""

    records = RECORDS


def test_unknown_records_are_refused_by_name():
    for name, accountant in ACCOUNTANTS.items():
        with pytest.raises(UnsupportedMechanismError, match=f"{name} has no theorem for dict"):
            accountant({})
    with pytest.raises(UnsupportedMechanismError, match="no bound holds"):
        tightest({})


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("accountant", "record", "hypothesis"),
    [
        (last_iterate, descent(step_size=2.1), "step_size <= 2/smoothness"),
        (last_iterate, cyclic(strong_convexity=0.0, smoothness=None), "a known smoothness"),
        (last_iterate, cyclic(release="all"), "release='last'"),
        (last_iterate, one_pass(step_size=4.1), "step_size <= 2/smoothness"),
        (last_iterate, one_pass(smoothness=0.3, strong_convexity=0.4), "no such function"),
        (last_iterate, one_pass(distribution="laplace"), "gaussian"),
        (contraction, one_pass(step_size=4.0), "step_size < 2/"),
        (recursion, fresh(step_size=1.9), "step_size < 2/"),
        (recursion, fresh(strong_convexity=0.0), "strong_convexity > 0"),
        (recursion, fresh(release="all"), "release='last'"),
        (recursion, poisson(), "no theorem for PoissonSubsampled"),
        (ACCOUNTANTS["iteration"], one_pass(stopping="random"), "stopping='last'"),
        (ACCOUNTANTS["iteration"], cyclic(noise_multiplier=[1.0] * 40), "the same step_size"),
    ],
)
def test_failed_hypotheses_are_named(accountant, record, hypothesis):
    with pytest.raises(UnsupportedMechanismError, match=hypothesis.replace("(", r"\(")):
        accountant(record)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Gaussian(0.0), "noise_multiplier=0.0"),
        (lambda: poisson(sampling_probability=1.5), "sampling_probability=1.5"),
        (lambda: poisson(n_steps=3.5), "n_steps=3.5"),
        (lambda: fresh(batch_size=200), "batch_size=200"),
        (lambda: cyclic(noise_multiplier=[1.0] * 3), "noise_multiplier has shape"),
        (lambda: cyclic(diameter=1.0), "sensitivity=None"),
        (lambda: Composition(()), "at least one record"),
        (lambda: Composition((Gaussian(1.0), OF_OTHERS)), "all of one adjacency"),
        (lambda: contraction(one_pass(), index=41), "index=41"),
        (lambda: contraction(one_pass(), index=0), "index=0"),
        (lambda: last_iterate(descent(), index=1), "index=1"),
        (lambda: last_iterate(cyclic(order="shuffled_once"), index=1), "index=1.* nobody's"),
        (lambda: iteration(cyclic(order="shuffled_once"), index=1), "nobody's position is known"),
        (lambda: ProfileMixture([1.0], [0.5]), "weights"),
        (lambda: SubsampledDP(GaussianDP(1.0), 0.0), "sampling_probability"),
        (lambda: RenyiDP(LinearCurve(1.0), conversion="best"), "conversion='best'"),
    ],
)
def test_senseless_values_are_refused_by_name(build, message):
    with pytest.raises(ValueError, match=message):
        build()


MIXED = {
    "gaussian": GaussianDP(0.7),
    "renyi": RenyiDP(LinearCurve(0.1)),
    "pure": ApproximateDP(0.3),
    "approximate": ApproximateDP(0.3, 1e-7),
    "mixture": ProfileMixture([0.2, 0.9]),
    "fixed size": SubsampledDP(GaussianDP(1.0), 0.1),
    "poisson": PrivacyLossDP(((SampledGaussian(0.1, 1.0, "replace_one"), 5),)),
    "contracted": contraction(RECORDS["one pass"], index=39),
    "objective": perturbation(OBJECTIVE),
    "laplace": contraction(RECORDS["one pass, laplace"]),
}


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations_with_replacement(MIXED, 2)))
def test_every_two_guarantees_compose(one, other):
    one = MIXED[one]
    other = MIXED[other]
    both = one.compose(other)
    swapped = other.compose(one)
    for delta in (1e-3, 1e-6):
        epsilon = both.epsilon(delta)
        assert swapped.epsilon(delta) == pytest.approx(epsilon, rel=1e-3)
        assert epsilon >= max(one.epsilon(delta), other.epsilon(delta)) * (1 - 2e-3)
        # basic composition
        assert epsilon <= (one.epsilon(delta / 2) + other.epsilon(delta / 2)) * 1.001
    check_profile(both)


# --- extremes -------------------------------------------------------------------------------------

extreme = st.floats(-6, 9).map(lambda power: 10.0**power)
steps = st.integers(0, 9).map(lambda power: 10**power)
orders = st.one_of(st.floats(-9, 0).map(lambda power: 1 + 10.0**power), st.floats(1.001, 1e6))
deltas = st.floats(-300, -0.01).map(lambda power: 10.0**power)


@settings(max_examples=60)
@given(
    noise=extreme,
    n_steps=steps,
    decay=st.floats(-15, -0.01).map(lambda power: 10.0**power),
    order=orders,
    delta=deltas,
)
def test_full_batches_at_extremes(noise, n_steps, decay, order, delta):
    edge = {"step_size": decay, "strong_convexity": 1.0, "smoothness": 1.0 + 1e-9}
    m = descent(n_steps=n_steps, noise_multiplier=noise, **edge)
    values = {name: ACCOUNTANTS[name](m) for name in ("composition", "last_iterate", "langevin")}
    for guarantee in values.values():
        assert guarantee.rdp(order) >= values["last_iterate"].rdp(order) * (1 - 1e-9) >= 0
        epsilon = guarantee.epsilon(delta)
        assert epsilon >= 0  # not NaN
        assert (epsilon == 0) == (delta >= guarantee.delta(0.0))
        assert 0 <= guarantee.delta(1.0) <= 1
        assert guarantee.epsilon(delta) >= values["last_iterate"].epsilon(delta) * (1 - 1e-9)


@settings(max_examples=60)
@given(
    noise=extreme,
    n=steps,
    decay=st.floats(-15, -0.1).map(lambda power: 10.0**power),
    delta=deltas,
    distribution=st.sampled_from(["gaussian", "laplace"]),
    stopping=st.sampled_from(["last", "random"]),
    tight=st.booleans(),
)
def test_one_pass_at_extremes(noise, n, decay, delta, distribution, stopping, tight):
    edge = {"step_size": decay, "strong_convexity": 1.0, "smoothness": 1.0 + 1e-9}
    m = one_pass(n_samples=n, noise=noise, distribution=distribution, stopping=stopping, **edge)
    for index in {1, n // 2 + 1, n}:
        guarantee = contraction(m, index=index, tight=tight)
        epsilon = guarantee.epsilon(delta)
        assert epsilon >= 0
        assert (epsilon == 0) == (delta >= guarantee.delta(0.0))
        assert 0 <= guarantee.delta(1.0) <= guarantee.delta(0.5) <= 1


@settings(max_examples=40)
@given(
    noise=extreme,
    n_epochs=st.integers(0, 6).map(lambda power: 10**power),
    n_batches=st.sampled_from([1, 2, 10, 999]),
)
def test_cyclic_batches_at_extremes(noise, n_epochs, n_batches):
    for decay in (1e-15, 1e-3, 0.999):
        size = {"n_samples": n_batches, "batch_size": 1, "n_epochs": n_epochs}
        m = cyclic(**size, noise_multiplier=noise, step_size=decay, strong_convexity=1.0)
        mu = last_iterate(m).mu
        assert 0 < mu <= composition(m).mu * (1 + 1e-12)
        shuffled = last_iterate(replace(m, order="shuffled_once"))
        assert shuffled.epsilon(1e-9) <= GaussianDP(mu).epsilon(1e-9) * (1 + 1e-9)


@settings(max_examples=40)
@given(
    noise=extreme,
    n_epochs=st.integers(0, 7).map(lambda power: 10**power),
    order=orders,
    delta=deltas,
)
def test_fresh_batches_at_extremes(noise, n_epochs, order, delta):
    for batch_size, decay in ((1, 1e-15), (10, 0.01), (100, 0.5)):
        size = {"batch_size": batch_size, "n_epochs": n_epochs}
        m = fresh(**size, noise_multiplier=noise, step_size=decay, strong_convexity=1.0)
        rdp = recursion(m).rdp(order)
        assert rdp >= 0
        assert rdp <= composition(m).rdp(order) * (1 + 1e-9)
        assert recursion(replace(m, n_epochs=2 * n_epochs)).rdp(order) >= rdp


# --- what rounding and failures add ---------------------------------------------------------------

FAILING = GaussianDP(0.5, failure=1e-9)
SAMPLED = SampledCurve(0.1, 2.0, "add_remove")
WIDENED = {
    "failure": FAILING,
    "failure, add_remove": GaussianDP(2.0, "add_remove", 1e-20),
    "failure alone": GaussianDP(0.0, failure=1e-3),
    "rounded curve": RenyiDP(RoundedCurve(LinearCurve(0.5), 1e-4)),
    "rounded sampled curve": RenyiDP(RoundedCurve(SAMPLED, 1e-9), "add_remove"),
    "rounded point": RoundedDP(ApproximateDP(1.0, 1e-7), 1e-6),
    "rounded Gaussian": RoundedDP(GaussianDP(0.5), 1e-3),
    "rounded failure": RoundedDP(FAILING, 1e-6),
    "failure beside losses": PrivacyLossDP(((FAILING, 2), (ApproximateDP(0.5), 3))),
    "rounded profile": RoundedDP(SubsampledDP(GaussianDP(1.0), 0.1), 1e-8),
    "rounded losses": RoundedDP(subsampling(poisson()), 1e-9),
}


@pytest.mark.every_case
@pytest.mark.parametrize("label", WIDENED)
def test_rounding_and_failures_keep_to_the_laws(label):
    guarantee = WIDENED[label]
    check_profile(guarantee)
    deltas = guarantee.delta(np.append(np.linspace(0, 200, 401), [1e3, 1e8, 1e10, math.inf]))
    assert np.all(np.diff(deltas) <= 1e-14)
    again = from_json(to_json(guarantee))
    assert again == guarantee
    assert again.epsilon(1e-6) == guarantee.epsilon(1e-6)
    twice = guarantee.compose(guarantee)
    assert twice.adjacency == guarantee.adjacency
    assert guarantee.epsilon(1e-2) <= twice.epsilon(1e-2)
    rates = np.array([0.0, 0.01, 0.2, 1.0])
    missed = guarantee.tradeoff(rates)
    assert np.all(np.diff(missed) <= 0)
    assert np.all(1 - missed - rates <= guarantee.advantage + 1e-9)


def test_rounding_costs_something_and_little():
    for label, guarantee in WIDENED.items():
        if isinstance(guarantee, RoundedDP):
            exact = guarantee.exact.epsilon(1e-6)
            assert exact < guarantee.epsilon(1e-6) <= exact + 100 * guarantee.rounding_mu, label
    with pytest.raises(ValueError, match="mu="):
        RoundedDP(GaussianDP(0.5), math.nan)
    with pytest.raises(ValueError, match="mu="):
        RoundedCurve(LinearCurve(0.5), 1e200)


@pytest.mark.parametrize("mu", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("order", [1.0001, 1.5, 2.0, 30.0])
def test_rounded_curve_is_above_exact_laws(mu, order):
    """Gaussians that are moved apart; a certain event of probability e^-loss next door."""
    gaussian = RoundedCurve(LinearCurve(0.5), mu)(order)
    assert order * (1 + mu) ** 2 / 2 <= gaussian * (1 + 1e-15)
    for loss in (2.0, 11.5, 30.0):
        curve = RoundedCurve(lambda order, loss=loss: loss * np.ones_like(order), mu)
        assert curve(order) >= -special.log_ndtr(special.ndtri_exp(-loss) - mu / 2) * (1 - 1e-15)


@pytest.mark.parametrize("mu", [1e-2, 1e-6])
def test_rounded_profile_is_above_exact_laws(mu):
    """Two Gaussians, and randomised response of a point, moved by one side on either hand."""
    epsilons = np.linspace(0, 8, 30)
    rounded_deltas = RoundedDP(GaussianDP(1.0), mu).delta(epsilons)
    assert np.all(rounded_deltas >= GaussianDP(1.0 + mu).delta(epsilons))
    own = RoundedDP(ApproximateDP(1.0), mu).delta(epsilons)
    p = special.expit(1.0)
    other = special.ndtr(special.ndtri(1 - p) - mu / 2)
    moved = special.ndtr(special.ndtri(p) + mu / 2) - np.exp(epsilons) * other
    assert np.all(own >= moved)


def test_a_failure_is_never_lost():
    """Whatever knows mu only must refuse, or keep the failure."""
    assert FAILING.compose(FAILING).failure == 2e-9
    assert FAILING.group(1) == FAILING
    with pytest.raises(UnsupportedMechanismError, match="says nothing of groups of 3"):
        FAILING.group(3)
    assert rounded(FAILING, 1e-6).delta(0.5) > FAILING.delta(0.5)
    for other in map(MIXED.get, ("approximate", "fixed size", "renyi", "objective")):
        total = FAILING.compose(other)
        assert total.failure == other.compose(FAILING).failure == 1e-9
        assert total.compose(FAILING).failure == 2e-9
        assert from_json(to_json(total)) == total
        with pytest.raises(UnsupportedMechanismError):
            total.rdp(2.0)
        assert RoundedDP(FAILING, 1e-9).compose(other).failure == 1e-9
    with pytest.raises(UnsupportedMechanismError, match="fails with some probability"):
        PrivacyLossDP(((RoundedDP(FAILING, 1e-9), 2),))
    with pytest.raises(UnsupportedMechanismError):
        FAILING.rdp(2.0)
    with pytest.raises(UnsupportedMechanismError, match="failure=1e-09: no dp_accounting event"):
        _ = FAILING.dp_event
    assert largest([FAILING, GaussianDP(0.7)]) == GaussianDP(0.7, failure=1e-9)


def test_a_failure_is_added_to_composed_losses():
    total = FAILING.compose(ApproximateDP(0.1, 1e-9))
    surely = PrivacyLossDP(((GaussianDP(FAILING.mu), 1), (ApproximateDP(0.1, 1e-9), 1)))
    epsilons = np.array([0.0, 0.5, 2.0])
    expected = surely.delta(epsilons) + (1 + np.exp(epsilons)) * 1e-9
    np.testing.assert_allclose(total.delta(epsilons), expected, rtol=1e-12)
    assert total.delta(total.epsilon(1e-6)) <= 1e-6
    assert total.epsilon(1e-10) == math.inf


ROUNDS = [
    descent(noise_multiplier=30.0),
    descent(noise_multiplier=30.0, diameter=2.0, sensitivity=0.1),
    cyclic(noise_multiplier=30.0),
    cyclic(noise_multiplier=30.0, order="shuffled_once"),
    fresh(noise_multiplier=30.0),
    poisson(sampling_probability=0.01, noise_multiplier=4.0),
    one_pass(noise=40.0),
]


@pytest.mark.every_case
@pytest.mark.parametrize("record", ROUNDS, ids=lambda record: type(record).__name__)
def test_every_accountant_pays_for_the_rounding_of_the_record(record):
    """What rounds pays for at least a part of it, by every theorem that covers the run at all."""
    paid = set()
    for name, judge in ACCOUNTANTS.items():
        try:
            exact = judge(record)
            computed = judge(replace(record, rounding=0.3))
        except (UnsupportedMechanismError, ValueError):
            continue
        paid.add(name)
        assert computed.epsilon(1e-5) > 1.01 * exact.epsilon(1e-5)
        if type(exact) is GaussianDP:
            assert computed.mu >= exact.mu + 0.3
    assert paid


def test_every_gaussian_part_beside_training_counts():
    """Whatever bounds training: mu^2 of all parts add up, 3^2 + 4^2 + 12^2 = 13^2."""
    run = descent(n_steps=1, noise_multiplier=1 / 12)
    parts = Composition((Gaussian(1 / 3), run, Gaussian(1 / 4)))
    assert composition(parts).mu == pytest.approx(13)
    assert composition(Composition((Gaussian(1 / 5), Gaussian(1 / 12)))).mu == pytest.approx(13)
