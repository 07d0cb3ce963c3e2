"""What a value may not claim, and corners where digits or sense would be lost."""

import math

import mpmath
import numpy as np
import pytest
from runs import cyclic, descent, fresh, one_pass, poisson

from skdpdyn.exceptions import CalibrationError, UnsupportedMechanismError
from skdpdyn.privacy import (
    ApproximateDP,
    Budget,
    GaussianDP,
    Laplace,
    LaplaceDP,
    PrivacyLossDP,
    ProfileMixture,
    SubsampledDP,
    calibrate,
    composition,
    contraction,
    langevin,
    least_noise,
    subsampling,
)
from skdpdyn.privacy.accountants.contraction import ContractedDP
from skdpdyn.privacy.numerical import SampledGaussian

EXTREME = "so extreme a budget"
SAMPLED = SampledGaussian(0.01, 1.0, "add_remove")
PROBLEM = {"n_samples": 99, "n_features": 5, "lipschitz": 1, "strong_convexity": 0, "smoothness": 1}


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("noise_multiplier", [1e-300, 1e-150, 1e200])
def test_noise_that_no_float_can_square(adjacency, noise_multiplier):
    run = {"noise_multiplier": noise_multiplier, "adjacency": adjacency}
    for m in (fresh(**run), *(poisson(sampling_probability=q, **run) for q in (0.01, 1.0))):
        with pytest.raises(UnsupportedMechanismError, match="be computed for noise_multiplier="):
            subsampling(m)
    with pytest.raises(UnsupportedMechanismError, match="computed for sampling_probability=1e-300"):
        subsampling(poisson(sampling_probability=1e-300))


@pytest.mark.parametrize("q", [1e-18, 1e-15, 1e-12, 1e-9, 1e-3, 0.5, 1.0])
def test_tiny_subsets_keep_their_digits(q):
    """Oracle at 60 digits: q delta_GDP(1)(log(1 + (e^epsilon - 1)/q))."""
    for epsilon in [part * q for part in (0.01, 0.3, 1.0, 10.0, 100.0)] + [1e-6, 1.0, 29.0, 31.0]:
        with mpmath.workdps(60):
            inner = mpmath.log1p(mpmath.expm1(mpmath.mpf(epsilon)) / mpmath.mpf(q))
            exact = q * (mpmath.ncdf(-inner + 0.5) - mpmath.exp(inner) * mpmath.ncdf(-inner - 0.5))
        got = SubsampledDP(GaussianDP(1.0), q).delta(epsilon)
        assert got == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


def test_weights_that_do_not_quite_sum_to_one_cost():
    short = ProfileMixture([1.0, 1.0], [0.5, 0.5 - 9e-10])
    assert short.delta(1.0) >= GaussianDP(1.0).delta(1.0) * (1 - 1e-14)
    long = ProfileMixture([1.0, 1.0], [0.5, 0.5 + 9e-10])
    assert long.delta(1.0) == pytest.approx((1 + 9e-10) * GaussianDP(1.0).delta(1.0), rel=1e-12)


def test_a_part_that_promises_nothing_leaves_nothing():
    nothing = ApproximateDP(1.0, 1.0).compose(GaussianDP(1.0))
    assert nothing.delta(5.0) == 1.0
    assert math.isinf(nothing.epsilon(0.5))


def test_huge_losses_are_infinite_not_errors():
    assert math.isinf(GaussianDP(1e160).rdp(2.0))
    tiny = {"step_size": 1e-200, "strong_convexity": 1e-200}
    rdp = langevin(descent(n_steps=10, noise_multiplier=2.0, **tiny)).rdp(1.5)
    assert rdp == pytest.approx(10 / 4 * 1.5)


@pytest.mark.parametrize("noise", [1e-200, 5.0, 1e161, 1e200, 1e307])
def test_schedules_whose_rates_no_float_can_square(noise):
    """The norm of rates of 1e-200 came out as 0, a run without any cost."""
    steps = descent(n_steps=4, noise_multiplier=[noise] * 4)
    batches = cyclic(n_samples=4, batch_size=2, noise_multiplier=[noise] * 8)
    assert composition(steps).mu == composition(batches).mu == 2 / noise


def test_numbers_at_the_edge_of_doubles_are_answered():
    run = {"n_samples": 5, "sampling_probability": 1e-100, "largest_batch": 2, "n_steps": 1}
    assert subsampling(poisson(**run)).delta(1e300) == 0
    steps = {"step_size": 1e-20, "lipschitz": 1e-10, "smoothness": 1e-10, "diameter": 0.9}
    assert 0 < contraction(one_pass(noise=1e100, **steps)).epsilon(5e-324) < 1e-100


@pytest.mark.parametrize("n_samples", [np.int32(70_000), np.int32(65_536), np.int64(4 * 10**9 + 1)])
def test_squares_of_numpy_integers_do_not_overflow(n_samples):
    """As int32, 70,000^2 is 605,032,704: delta would be eight times 1/n^2."""
    budget = Budget.for_samples(1.0, "auto", n_samples=n_samples)
    assert budget.delta == 1 / int(n_samples) ** 2


def test_the_largest_loss_of_a_composition_leaves_nothing_to_delta():
    one = contraction(one_pass(distribution="laplace"))
    both = ApproximateDP(0.3).compose(one)
    assert 0 < both.epsilon(0.0) < math.inf
    assert both.delta(both.epsilon(0.0)) == 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_rate_next_to_0_is_answered():
    parts = ((SubsampledDP(GaussianDP(1 / 3), 5e-324), 40),)
    guarantee = PrivacyLossDP(parts, accuracy=5e-6)
    assert guarantee.epsilon(1e-6) == 0
    assert 0 <= guarantee.delta(1.0) <= 1e-15


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianDP(1.0).with_unit(np.array([1.0, 2.0])), r"unit=.* must be a word"),
        (lambda: GaussianDP(1.0).for_unit(np.array([])), r"unit=.* must be a word"),
        (lambda: GaussianDP(1.0).group(10**400), r"size=.* must be an integer"),
        (lambda: ProfileMixture([0.1]).rdp(10**400), r"order=.* must be a finite number > 1"),
        (lambda: ProfileMixture([True, 0.5]), r"mus=.* must be numbers >= 0"),
        (lambda: ProfileMixture(np.array([])), r"mus=.* must hold at least one component"),
        (lambda: ProfileMixture([0.1, 0.5], [True, 0.5]), r"weights=.* must be numbers > 0"),
        (lambda: descent(n_steps=2, noise_multiplier=[True, 2.0]), r"noise_multiplier=.* positive"),
        (lambda: Budget(1.0, 1e-6).split(np.array(0.5)), r"shares=.* must be a sequence"),
        (lambda: calibrate(1.0, 1e-6, group_size=10**400, **PROBLEM), r"group_size=.* an integer"),
        (lambda: Budget(1.0, 1e-5, reserved=1e-5), r"reserved=1e-05 must be in \[0, delta\)"),
        (lambda: Budget.for_samples(1.0, "auto", n_samples=0), "n_samples=0 must be an integer"),
        (lambda: fresh(n_epochs=10**18), "n_epochs times the steps of one=1.* must be an integer"),
        (lambda: ContractedDP(1.0, 1.0, 5, n_stops=3), "n_stops=3 must be at least later_steps"),
        (lambda: PrivacyLossDP(()), r"parts=\(\) must hold at least one release"),
        (lambda: PrivacyLossDP(((GaussianDP(1.0, "add_remove"), 1),)), "costs of both cannot be"),
        (lambda: PrivacyLossDP(((SAMPLED, 1000),)), "costs of both cannot be added"),
        (lambda: PrivacyLossDP(((GaussianDP(1.0), 0.25),)), r"count=0.25 must be an integer >= 1"),
        (lambda: PrivacyLossDP(((ApproximateDP(1.0, 1e-6), -3),)), r"count=-3 must be an integer"),
        *((lambda q=q: SampledGaussian(q, 1.0, "add_remove"), "must be") for q in (1.5, 0.0)),
        *((lambda z=z: SampledGaussian(0.1, z, "add_remove"), "must be") for z in (0.0, math.inf)),
        *((lambda mu=mu: calibrate(mu=mu, **PROBLEM), "must be") for mu in ("1", True)),
        *((lambda a=a: calibrate(advantage=a, **PROBLEM), "must be") for a in ("1", 1.0)),
        *((lambda a=a: calibrate(advantage=a, **PROBLEM), EXTREME) for a in (1e-300, 5e-324)),
        (lambda: calibrate(mu=1e-200, **PROBLEM), EXTREME),
        (lambda: least_noise(lambda z: Laplace(noise_multiplier=z), 1e300, 1e-5), EXTREME),
    ],
)
def test_hostile_values_are_refused_by_name(call, message):
    """Before, OverflowError, TypeError and errors that named nothing; true in JSON was 1.0."""
    with pytest.raises((ValueError, CalibrationError), match=message):
        call()


def test_rates_of_any_shape_and_the_least_deltas_are_answered():
    guarantee = PrivacyLossDP(((LaplaceDP(0.1), 10),))
    assert guarantee.tradeoff([]).shape == (0,)
    assert guarantee.tradeoff(np.array([[0.5]])) == [[guarantee.tradeoff(0.5)]]
    assert guarantee.epsilon(5e-324) == pytest.approx(1.0, rel=1e-12)
    run = poisson(sampling_probability=0.01, noise_multiplier=1.5, n_steps=50)
    deltas = np.array([1e-289, 1e-300, 5e-324])
    assert np.all(np.diff(subsampling(run).epsilon(deltas)) > 0)
