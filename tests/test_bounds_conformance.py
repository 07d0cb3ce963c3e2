"""Laws that every (accountant, record) pair obeys, whatever the theorem."""

import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    ACCOUNTANTS,
    ApproximateDP,
    Composition,
    CyclicBatches,
    Gaussian,
    GaussianDP,
    NoisyGradientDescent,
    ObjectivePerturbation,
    OnePass,
    OutputPerturbation,
    PoissonSubsampled,
    PrivacyLossDP,
    ProfileMixture,
    RenyiDP,
    Selection,
    SubsampledDP,
    WithoutReplacement,
    composition,
    contraction,
    last_iterate,
    recursion,
    subsampling,
    tightest,
)
from skdpdyn.privacy.guarantees import LinearCurve
from skdpdyn.privacy.numerical import SampledGaussian

RECORDS = {
    "gaussian": Gaussian(3.0),
    "full batch": NoisyGradientDescent(n_steps=40, noise_multiplier=8.0, step_size=0.5, strong_convexity=0.1, smoothness=1.0),
    "full batch, convex, domain": NoisyGradientDescent(
        n_steps=40, noise_multiplier=8.0, step_size=0.5, strong_convexity=0.0, smoothness=1.0, diameter=0.3, sensitivity=1.0
    ),
    "full batch, all": NoisyGradientDescent(
        n_steps=40, noise_multiplier=8.0, step_size=0.5, strong_convexity=0.1, smoothness=1.0, release="all"
    ),
    "cyclic": CyclicBatches(
        n_samples=100, batch_size=10, n_epochs=4, noise_multiplier=3.0, step_size=0.5, strong_convexity=0.1, smoothness=1.0
    ),
    "shuffled": CyclicBatches(
        n_samples=95,
        batch_size=10,
        n_epochs=4,
        noise_multiplier=3.0,
        step_size=0.5,
        strong_convexity=0.1,
        smoothness=1.0,
        order="shuffled_once",
    ),
    "fresh": WithoutReplacement(
        n_samples=100, batch_size=10, n_epochs=4, noise_multiplier=3.0, step_size=0.5, strong_convexity=0.1, smoothness=1.0
    ),
    "poisson": PoissonSubsampled(sampling_probability=0.1, noise_multiplier=2.0, n_steps=40),
    "poisson, steps": PoissonSubsampled(sampling_probability=0.1, noise_multiplier=2.0, n_steps=40, step_size=0.5),
    "output": OutputPerturbation(noise_multiplier=3.0, adjacency="add_remove"),
    "output, gamma": OutputPerturbation(noise_multiplier=3.0, distribution="gamma"),
    "objective": ObjectivePerturbation(noise_multiplier=3.0, curvature=0.1),
    "objective, gamma": ObjectivePerturbation(noise_multiplier=3.0, curvature=0.1, distribution="gamma"),
    "objective, several outputs": ObjectivePerturbation(noise_multiplier=3.0, curvature=0.1, rank=4),
    "objective, approximate": Composition(
        (ObjectivePerturbation(noise_multiplier=3.0, curvature=0.1), OutputPerturbation(noise_multiplier=30.0))
    ),
    "one pass": OnePass(n_samples=40, noise=2.0, step_size=0.5, lipschitz=1.0, smoothness=0.5, diameter=1.0),
    "one pass, laplace": OnePass(
        n_samples=40, noise=2.0, step_size=0.5, lipschitz=1.0, smoothness=0.5, diameter=1.0, distribution="laplace"
    ),
    "one pass, random": OnePass(
        n_samples=40,
        noise=2.0,
        step_size=0.5,
        lipschitz=1.0,
        smoothness=0.5,
        diameter=1.0,
        strong_convexity=0.2,
        stopping="random",
    ),
    "selection": Selection(trial=GaussianDP(0.3), expected_trials=10.0),
    "selection, poisson": Selection(trial=GaussianDP(0.3), expected_trials=4.0, shape=math.inf),
    "two": Composition(
        (
            Gaussian(3.0),
            CyclicBatches(
                n_samples=100,
                batch_size=10,
                n_epochs=4,
                noise_multiplier=3.0,
                step_size=0.5,
                strong_convexity=0.1,
                smoothness=1.0,
                order="shuffled_once",
            ),
        )
    ),
}
LONGER = {"n_steps": lambda n: n + 7, "n_epochs": lambda n: n + 2}
NOISIER = ("noise_multiplier", "noise")


def guarantee_of(accountant, record):
    try:
        return accountant(record)
    except UnsupportedMechanismError:
        return None


def with_adjacency(record, adjacency):
    if isinstance(record, Composition):
        return Composition(tuple(replace(part, adjacency=adjacency) for part in record.mechanisms))
    if isinstance(record, Selection):
        return replace(record, trial=replace(record.trial, adjacency=adjacency))
    return replace(record, adjacency=adjacency)


PAIRS = [
    pytest.param(accountant, with_adjacency(record, adjacency), id=f"{name}-{label}-{adjacency}")
    for name, accountant in ACCOUNTANTS.items()
    for label, record in RECORDS.items()
    for adjacency in ("replace_one", "add_remove")
    if guarantee_of(accountant, record) is not None
]
EPSILONS = np.append(0.0, np.geomspace(1e-3, 50, 12))


def check_profile(guarantee):
    deltas = np.array([guarantee.delta(float(epsilon)) for epsilon in EPSILONS])
    assert np.all((deltas >= 0) & (deltas <= 1))
    assert np.all(np.diff(deltas) <= 1e-14)
    np.testing.assert_allclose(guarantee.delta(EPSILONS), deltas, rtol=1e-6, atol=1e-12)
    for delta in (0.3, 1e-3, 1e-8, 1e-12):
        epsilon = guarantee.epsilon(delta)
        assert (epsilon == 0) == (delta >= guarantee.delta(0.0))
        if math.isfinite(epsilon):
            assert guarantee.delta(epsilon) <= delta * (1 + 1e-8) + 1e-15  # an FFT cannot do better
    epsilons = [guarantee.epsilon(delta) for delta in (0.3, 1e-3, 1e-8, 1e-300, 0.0)]
    assert all(one <= other for one, other in itertools.pairwise(epsilons))
    for bad in (math.nan, -1.0):
        for question in (guarantee.delta, guarantee.epsilon):
            with pytest.raises(ValueError, match="must be"):
                question(bad)


@pytest.mark.parametrize(("accountant", "record"), PAIRS)
def test_guarantees_are_profiles(accountant, record):
    guarantee = accountant(record)
    assert guarantee.adjacency == record.adjacency
    check_profile(guarantee)
    again = pickle.loads(pickle.dumps(guarantee))
    assert again == guarantee
    assert again.epsilon(1e-6) == guarantee.epsilon(1e-6)
    assert pickle.loads(pickle.dumps(record)) == record
    assert hash(pickle.loads(pickle.dumps(record))) == hash(record)
    tpr = 1 - guarantee.tradeoff(np.array([0.0, 0.01, 0.2, 1.0]))
    assert np.all(np.diff(tpr) >= 0)
    assert tpr[-1] == 1
    assert tpr[1] - 0.01 <= guarantee.advantage + 1e-9


@pytest.mark.parametrize(
    ("accountant", "record"), [pair for pair in PAIRS if isinstance(pair.values[0](pair.values[1]), RenyiDP)]
)
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-9])
def test_no_order_of_a_fine_grid_is_better_than_the_one_that_is_found(accountant, record, delta):
    guarantee = accountant(record)
    excess = np.geomspace(1e-9, 1e15, 3000)
    with np.errstate(over="ignore", invalid="ignore"):
        slack = -excess * np.log1p(1 / excess) - np.log1p(excess)
        epsilons = guarantee.rdp(1 + excess) + (slack - math.log(delta)) / excess
    assert guarantee.epsilon(delta) <= max(0.0, np.nanmin(epsilons)) * (1 + 1e-12)


@pytest.mark.parametrize(("accountant", "record"), PAIRS)
def test_more_steps_and_less_noise_cost_more(accountant, record):
    before = accountant(record).epsilon(1e-6)
    for name in NOISIER:
        if hasattr(record, name):
            assert accountant(replace(record, **{name: 1.5 * getattr(record, name)})).epsilon(1e-6) <= before
    for name, longer in LONGER.items():
        if name in getattr(record, "__dataclass_fields__", {}) and getattr(record, name) is not None:
            assert accountant(replace(record, **{name: longer(getattr(record, name))})).epsilon(1e-6) >= before * (1 - 1e-9)


@pytest.mark.parametrize(("accountant", "record"), PAIRS)
def test_composition_of_copies_is_k_fold(accountant, record):
    if isinstance(record, Composition):
        return
    threefold = accountant(Composition((record,) * 3))
    one = accountant(record)
    assert threefold == one.compose(one).compose(one)
    assert threefold.epsilon(1e-6) > one.epsilon(1e-6)
    assert threefold.delta(0.0) <= 3 * one.delta(0.0) + 1e-9  # basic composition
    if isinstance(one, GaussianDP):
        assert threefold.mu == pytest.approx(one.mu * math.sqrt(3), rel=1e-14)


@pytest.mark.parametrize(("accountant", "record"), PAIRS)
def test_adjacency_costs_at_most_a_factor_of_two(accountant, record):
    replaced, removed = (accountant(with_adjacency(record, adjacency)) for adjacency in ("replace_one", "add_remove"))
    with pytest.raises(ValueError, match="cannot compose"):
        replaced.compose(removed)
    if isinstance(record, (PoissonSubsampled, OnePass)):  # their unit is one record's contribution
        assert removed.epsilon(1e-6) < replaced.epsilon(1e-6)


@pytest.mark.parametrize("label", RECORDS)
def test_tightest_names_the_winner_and_the_reasons(label):
    record = RECORDS[label]
    best = tightest(record, delta=1e-6)
    assert set(best.alternatives) | {best.bound} == set(ACCOUNTANTS)
    for other in best.alternatives.values():
        if isinstance(other, UnsupportedMechanismError):
            assert "needs" in str(other) or "no theorem" in str(other)
        else:
            assert best.epsilon(1e-6) <= other.epsilon(1e-6)


def test_unknown_records_are_refused_by_name():
    for name, accountant in ACCOUNTANTS.items():
        with pytest.raises(UnsupportedMechanismError, match=f"{name} has no theorem for dict"):
            accountant({})
    with pytest.raises(UnsupportedMechanismError, match="no bound holds"):
        tightest({})


@pytest.mark.parametrize(
    ("accountant", "record", "hypothesis"),
    [
        (
            last_iterate,
            NoisyGradientDescent(n_steps=5, noise_multiplier=1.0, step_size=2.1, strong_convexity=0.1, smoothness=1.0),
            "step_size <= 2/smoothness",
        ),
        (
            last_iterate,
            CyclicBatches(n_samples=10, batch_size=5, n_epochs=2, noise_multiplier=1.0, step_size=0.1),
            "a known smoothness",
        ),
        (
            last_iterate,
            CyclicBatches(
                n_samples=10,
                batch_size=5,
                n_epochs=2,
                noise_multiplier=1.0,
                step_size=0.1,
                strong_convexity=0.1,
                smoothness=1.0,
                release="all",
            ),
            "release='last'",
        ),
        (
            last_iterate,
            OnePass(n_samples=5, noise=1.0, step_size=2.1, lipschitz=1.0, smoothness=1.0, diameter=1.0),
            "step_size <= 2/smoothness",
        ),
        (
            last_iterate,
            OnePass(n_samples=5, noise=1.0, step_size=0.7, lipschitz=1.0, smoothness=0.3, diameter=1.0, strong_convexity=0.4),
            "no such function",
        ),
        (
            last_iterate,
            OnePass(n_samples=5, noise=1.0, step_size=0.7, lipschitz=1.0, smoothness=0.5, diameter=1.0, distribution="laplace"),
            "gaussian",
        ),
        (
            contraction,
            OnePass(n_samples=5, noise=1.0, step_size=2.0, lipschitz=1.0, smoothness=0.9, diameter=1.0, strong_convexity=0.1),
            "step_size < 2/",
        ),
        (
            recursion,
            WithoutReplacement(
                n_samples=10, batch_size=2, n_epochs=1, noise_multiplier=1.0, step_size=1.9, strong_convexity=0.1, smoothness=1.0
            ),
            "step_size < 2/",
        ),
        (
            recursion,
            WithoutReplacement(
                n_samples=10, batch_size=2, n_epochs=1, noise_multiplier=1.0, step_size=0.1, strong_convexity=0.0, smoothness=1.0
            ),
            "strong_convexity > 0",
        ),
        (
            recursion,
            WithoutReplacement(
                n_samples=10,
                batch_size=2,
                n_epochs=1,
                noise_multiplier=1.0,
                step_size=0.1,
                strong_convexity=0.1,
                smoothness=1.0,
                release="all",
            ),
            "release='last'",
        ),
        (
            recursion,
            PoissonSubsampled(sampling_probability=0.1, noise_multiplier=1.0, n_steps=10),
            "no theorem for PoissonSubsampled",
        ),
        (
            ACCOUNTANTS["iteration"],
            OnePass(n_samples=5, noise=1.0, step_size=0.5, lipschitz=1.0, smoothness=0.5, diameter=1.0, stopping="random"),
            "stopping='last'",
        ),
        (
            ACCOUNTANTS["iteration"],
            CyclicBatches(
                n_samples=10,
                batch_size=5,
                n_epochs=2,
                noise_multiplier=[1.0] * 4,
                step_size=0.1,
                strong_convexity=0.1,
                smoothness=1.0,
            ),
            "the same step_size",
        ),
    ],
)
def test_failed_hypotheses_are_named(accountant, record, hypothesis):
    with pytest.raises(UnsupportedMechanismError, match=hypothesis.replace("(", r"\(")):
        accountant(record)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Gaussian(0.0), "noise_multiplier=0.0"),
        (lambda: Gaussian(math.nan), "noise_multiplier=nan"),
        (lambda: PoissonSubsampled(sampling_probability=1.5, noise_multiplier=1.0, n_steps=3), "sampling_probability=1.5"),
        (lambda: PoissonSubsampled(sampling_probability=0.5, noise_multiplier=1.0, n_steps=3.5), "n_steps=3.5"),
        (lambda: PoissonSubsampled(sampling_probability=0.5, noise_multiplier=1.0, n_steps=3, adjacency="both"), "both"),
        (
            lambda: WithoutReplacement(
                n_samples=10, batch_size=20, n_epochs=1, noise_multiplier=1.0, step_size=0.1, strong_convexity=0.1, smoothness=1.0
            ),
            "batch_size=20",
        ),
        (
            lambda: CyclicBatches(n_samples=10, batch_size=5, n_epochs=2, noise_multiplier=[1.0] * 3, step_size=0.1),
            "noise_multiplier has shape",
        ),
        (
            lambda: CyclicBatches(n_samples=10, batch_size=5, n_epochs=2, noise_multiplier=1.0, step_size=0.1, order="random"),
            "order='random'",
        ),
        (
            lambda: CyclicBatches(n_samples=10, batch_size=5, n_epochs=2, noise_multiplier=1.0, step_size=0.1, diameter=1.0),
            "sensitivity=None",
        ),
        (
            lambda: OnePass(n_samples=10, noise=1.0, step_size=0.1, lipschitz=1.0, smoothness=1.0, diameter=math.inf),
            "diameter=inf",
        ),
        (
            lambda: OnePass(
                n_samples=10, noise=1.0, step_size=0.1, lipschitz=1.0, smoothness=1.0, diameter=1.0, distribution="cauchy"
            ),
            "distribution='cauchy'",
        ),
        (
            lambda: OnePass(
                n_samples=10, noise=1.0, step_size=0.1, lipschitz=1.0, smoothness=1.0, diameter=1.0, stopping="never"
            ),
            "stopping='never'",
        ),
        (lambda: Composition(()), "at least one record"),
        (lambda: Composition((Gaussian(1.0), Gaussian(1.0, adjacency="add_remove"))), "all of one adjacency"),
        (
            lambda: contraction(
                OnePass(n_samples=10, noise=1.0, step_size=0.1, lipschitz=1.0, smoothness=1.0, diameter=1.0), index=11
            ),
            "index=11",
        ),
        (
            lambda: contraction(
                OnePass(n_samples=10, noise=1.0, step_size=0.1, lipschitz=1.0, smoothness=1.0, diameter=1.0), index=0
            ),
            "index=0",
        ),
        (
            lambda: last_iterate(
                NoisyGradientDescent(n_steps=5, noise_multiplier=1.0, step_size=0.1, strong_convexity=0.1, smoothness=1.0),
                index=1,
            ),
            "index=1",
        ),
        (
            lambda: last_iterate(
                CyclicBatches(
                    n_samples=10,
                    batch_size=5,
                    n_epochs=2,
                    noise_multiplier=1.0,
                    step_size=0.1,
                    strong_convexity=0.1,
                    smoothness=1.0,
                    order="shuffled_once",
                ),
                index=1,
            ),
            "index=1",
        ),
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
    "objective": ACCOUNTANTS["perturbation"](RECORDS["objective"]),
    "laplace": contraction(RECORDS["one pass, laplace"]),
}


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations_with_replacement(MIXED, 2)))
def test_every_two_guarantees_compose(one, other):
    one, other = MIXED[one], MIXED[other]
    both, swapped = one.compose(other), other.compose(one)
    for delta in (1e-3, 1e-6):
        epsilon = both.epsilon(delta)
        assert swapped.epsilon(delta) == pytest.approx(epsilon, rel=1e-3)
        assert epsilon >= max(one.epsilon(delta), other.epsilon(delta)) * (1 - 2e-3)
        assert epsilon <= (one.epsilon(delta / 2) + other.epsilon(delta / 2)) * 1.001  # basic composition
    check_profile(both)


# --- extremes --------------------------------------------------------------------------------------------------------------

extreme = st.floats(-6, 9).map(lambda power: 10.0**power)
steps = st.integers(0, 9).map(lambda power: 10**power)
orders = st.one_of(st.floats(-9, 0).map(lambda power: 1 + 10.0**power), st.floats(1.001, 1e6))
deltas = st.floats(-300, -0.01).map(lambda power: 10.0**power)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(noise=extreme, n_steps=steps, decay=st.floats(-15, -0.01).map(lambda power: 10.0**power), order=orders, delta=deltas)
def test_full_batches_at_extremes(noise, n_steps, decay, order, delta):
    m = NoisyGradientDescent(
        n_steps=n_steps, noise_multiplier=noise, step_size=decay, strong_convexity=1.0, smoothness=1.0 + 1e-9
    )
    values = {name: ACCOUNTANTS[name](m) for name in ("composition", "last_iterate", "langevin")}
    for guarantee in values.values():
        assert guarantee.rdp(order) >= values["last_iterate"].rdp(order) * (1 - 1e-9) >= 0
        epsilon = guarantee.epsilon(delta)
        assert epsilon >= 0  # not NaN
        assert (epsilon == 0) == (delta >= guarantee.delta(0.0))
        assert 0 <= guarantee.delta(1.0) <= 1
        assert guarantee.epsilon(delta) >= values["last_iterate"].epsilon(delta) * (1 - 1e-9)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    noise=extreme,
    n=steps,
    decay=st.floats(-15, -0.1).map(lambda power: 10.0**power),
    delta=deltas,
    options=st.fixed_dictionaries(
        {"distribution": st.sampled_from(["gaussian", "laplace"]), "stopping": st.sampled_from(["last", "random"])}
    ),
    tight=st.booleans(),
)
def test_one_pass_at_extremes(noise, n, decay, delta, options, tight):
    m = OnePass(
        n_samples=n,
        noise=noise,
        step_size=decay,
        lipschitz=1.0,
        smoothness=1.0 + 1e-9,
        diameter=1.0,
        strong_convexity=1.0,
        **options,
    )
    for index in {1, n // 2 + 1, n}:
        guarantee = contraction(m, index=index, tight=tight)
        epsilon = guarantee.epsilon(delta)
        assert epsilon >= 0
        assert (epsilon == 0) == (delta >= guarantee.delta(0.0))
        assert 0 <= guarantee.delta(1.0) <= guarantee.delta(0.5) <= 1


@settings(derandomize=True, deadline=None, max_examples=40)
@given(noise=extreme, n_epochs=st.integers(0, 6).map(lambda power: 10**power), n_batches=st.sampled_from([1, 2, 10, 999]))
def test_cyclic_batches_at_extremes(noise, n_epochs, n_batches):
    for decay in (1e-15, 1e-3, 0.999):
        m = CyclicBatches(
            n_samples=n_batches,
            batch_size=1,
            n_epochs=n_epochs,
            noise_multiplier=noise,
            step_size=decay,
            strong_convexity=1.0,
            smoothness=1.0,
        )
        mu = last_iterate(m).mu
        assert 0 < mu <= composition(m).mu * (1 + 1e-12)
        shuffled = last_iterate(replace(m, order="shuffled_once"))
        assert shuffled.epsilon(1e-9) <= GaussianDP(mu).epsilon(1e-9) * (1 + 1e-9)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(noise=extreme, n_epochs=st.integers(0, 7).map(lambda power: 10**power), order=orders, delta=deltas)
def test_fresh_batches_at_extremes(noise, n_epochs, order, delta):
    for batch_size, decay in ((1, 1e-15), (10, 0.01), (100, 0.5)):
        m = WithoutReplacement(
            n_samples=100,
            batch_size=batch_size,
            n_epochs=n_epochs,
            noise_multiplier=noise,
            step_size=decay,
            strong_convexity=1.0,
            smoothness=1.0,
        )
        rdp = recursion(m).rdp(order)
        assert rdp >= 0
        assert rdp <= composition(m).rdp(order) * (1 + 1e-9)
        assert recursion(replace(m, n_epochs=2 * n_epochs)).rdp(order) >= rdp


@settings(derandomize=True, deadline=None, max_examples=15)
@given(noise=extreme, n_steps=steps, q=st.floats(-6, 0).map(lambda power: 10.0**power), delta=deltas)
def test_sampled_batches_at_extremes(noise, n_steps, q, delta):
    for adjacency in ("replace_one", "add_remove"):
        m = PoissonSubsampled(sampling_probability=q, noise_multiplier=noise, n_steps=n_steps, adjacency=adjacency)
        guarantee = subsampling(m)
        epsilon = guarantee.epsilon(delta)
        assert 0 <= epsilon <= composition(m).epsilon(delta) * (1 + 1e-12)
        assert (epsilon == 0) == (delta >= guarantee.delta(0.0))
