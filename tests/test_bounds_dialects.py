"""Composition in the literature's other dialects, and the variants of the Langevin theorems."""

import math

import numpy as np
import pytest

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    ApproximateDP,
    CyclicBatches,
    Gaussian,
    GaussianDP,
    NoisyGradientDescent,
    OnePass,
    PoissonSubsampled,
    RenyiDP,
    WithoutReplacement,
    composition,
    langevin,
    last_iterate,
    subsampling,
)
from skdpdyn.privacy.guarantees import LinearCurve
from skdpdyn.privacy.literature.dialects import (
    advanced_composition,
    basic_composition,
    log_moment,
    naive_epsilon,
    subsampling_lemma,
    zcdp,
)
from skdpdyn.privacy.literature.langevin import (
    contributions,
    diffusion,
    langevin_lsi,
    langevin_quadratic,
    lower_bound,
    quadratic,
)


def test_zcdp_and_moments_are_the_renyi_curve():
    lipschitz, sigma, steps = 2.0, 30.0, 50  # lecture notes 12.1.2: rho = T L^2 / (2 sigma^2)
    m = NoisyGradientDescent(
        n_steps=steps, noise_multiplier=sigma / lipschitz, step_size=0.1, adjacency="add_remove"
    )
    assert zcdp(m).curve.rate == pytest.approx(steps * lipschitz**2 / (2 * sigma**2), rel=1e-12)
    moments = np.array([0.5, 3.0, 40.0])
    np.testing.assert_allclose(
        log_moment(composition(m), moments), moments * zcdp(m).rdp(moments + 1), rtol=1e-12
    )
    with pytest.raises(UnsupportedMechanismError, match="zcdp needs Gaussian noise"):
        zcdp(
            OnePass(
                n_samples=5,
                noise=1.0,
                step_size=0.1,
                lipschitz=1.0,
                smoothness=1.0,
                diameter=1.0,
                distribution="laplace",
            )
        )


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-100])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 3.0])
def test_classic_conversion_is_never_below_the_tight_one(rate, delta):
    curve = LinearCurve(rate)
    tight, classic = RenyiDP(curve), RenyiDP(curve, conversion="classic")
    assert (
        GaussianDP(math.sqrt(2 * rate)).epsilon(delta)
        <= tight.epsilon(delta)
        <= classic.epsilon(delta)
    )
    closed = rate + 2 * math.sqrt(rate * math.log(1 / delta))
    assert classic.epsilon(delta) == pytest.approx(closed, rel=1e-6)
    assert classic.delta(closed) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(
    "record",
    [
        Gaussian(5.0),
        NoisyGradientDescent(n_steps=30, noise_multiplier=50.0, step_size=0.1),
        CyclicBatches(
            n_samples=100, batch_size=10, n_epochs=7, noise_multiplier=20.0, step_size=0.1
        ),
        PoissonSubsampled(
            sampling_probability=0.01, noise_multiplier=8.0, n_steps=200, adjacency="add_remove"
        ),
        WithoutReplacement(
            n_samples=1000,
            batch_size=10,
            n_epochs=2,
            noise_multiplier=8.0,
            step_size=0.1,
            strong_convexity=0.1,
            smoothness=1.0,
        ),
    ],
    ids=lambda record: type(record).__name__,
)
@pytest.mark.parametrize("theorem", ["basic", "advanced"])
def test_textbook_chain_is_never_below_the_numerical_bound(record, theorem):
    exact = (
        subsampling if isinstance(record, (PoissonSubsampled, WithoutReplacement)) else composition
    )(record)
    for delta in (1e-3, 1e-6):
        assert naive_epsilon(record, delta, theorem) >= exact.epsilon(delta)


def test_composition_theorems():
    step = ApproximateDP(0.1, 1e-8)
    assert basic_composition(step, 100) == ApproximateDP(10.0, 1e-6)
    advanced = advanced_composition(step, 100, 1e-6)
    assert advanced.at_epsilon == pytest.approx(
        math.sqrt(200 * math.log(1e6)) * 0.1 + 10 * math.expm1(0.1)
    )
    assert advanced.at_delta == pytest.approx(2e-6)
    assert advanced_composition(ApproximateDP(1e4), 10, 0.1).at_epsilon == math.inf
    with pytest.raises(ValueError, match="slack=0"):
        advanced_composition(step, 100, 0)


def test_subsampling_lemma_knows_its_adjacency():
    for sampling, adjacency, other in (
        ("poisson", "add_remove", "replace_one"),
        ("fixed_size", "replace_one", "add_remove"),
    ):
        one = subsampling_lemma(
            ApproximateDP(1.0, 1e-5, adjacency=GaussianDP(1, adjacency).adjacency), 0.1, sampling
        )
        assert one.at_epsilon == pytest.approx(math.log(1 + 0.1 * math.expm1(1.0)))
        assert one.at_delta == pytest.approx(1e-6)
        with pytest.raises(UnsupportedMechanismError, match="needs adjacency"):
            subsampling_lemma(ApproximateDP(1.0, 1e-5, other), 0.1, sampling)
    with pytest.raises(ValueError, match="sampling='shuffle'"):
        subsampling_lemma(ApproximateDP(1.0), 0.1, "shuffle")
    assert subsampling_lemma(ApproximateDP(1e4), 0.1, "fixed_size").at_epsilon == pytest.approx(
        1e4 + math.log(0.1)
    )
    with pytest.raises(UnsupportedMechanismError, match="needs adjacency"):
        naive_epsilon(
            PoissonSubsampled(sampling_probability=0.1, noise_multiplier=1.0, n_steps=5), 1e-6
        )


def test_langevin_theorems_agree_where_they_meet():
    sensitivity, strong_convexity, step = 2e-3, 0.7, 0.1
    m = NoisyGradientDescent(
        n_steps=300,
        noise_multiplier=40.0,
        step_size=step,
        strong_convexity=strong_convexity,
        smoothness=2.0,
        sensitivity=sensitivity,
    )
    sigma2 = step * (m.noise_multiplier * sensitivity) ** 2 / 2
    assert langevin_lsi(m, strong_convexity / (2 * sigma2)).rdp(7) == pytest.approx(
        langevin(m).rdp(7), rel=1e-12
    )
    # without contraction the diffusion costs what composition costs
    time = step * m.n_steps
    assert diffusion(sensitivity, time, math.sqrt(sigma2))(7) == pytest.approx(
        composition(m).rdp(7), rel=1e-12
    )
    assert langevin_lsi(m, 1e-9).rdp(7) == pytest.approx(2 * composition(m).rdp(7), rel=1e-3)
    assert contributions(m, 7).sum() == pytest.approx(langevin(m).rdp(7), rel=1e-12)
    assert np.all(np.diff(contributions(m, 7, last_iterate)) <= 1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: langevin_lsi(m, 1.0), "sensitivity = S/n"),
        (lambda m: langevin_quadratic(m), "strong_convexity = smoothness"),
        (lambda m: quadratic(m), "strong_convexity = smoothness"),
        (lambda m: lower_bound(Gaussian(1.0)), "NoisyGradientDescent, not Gaussian"),
        (
            lambda m: lower_bound(
                NoisyGradientDescent(n_steps=5, noise_multiplier=1.0, step_size=0.1)
            ),
            "0 < step_size strong_convexity",
        ),
        (
            lambda m: quadratic(
                NoisyGradientDescent(
                    n_steps=5,
                    noise_multiplier=1.0,
                    step_size=1.5,
                    strong_convexity=1.0,
                    smoothness=1.0,
                )
            ),
            "step_size <= 1/smoothness",
        ),
        (
            lambda m: quadratic(
                NoisyGradientDescent(
                    n_steps=5,
                    noise_multiplier=1.0,
                    step_size=0.5,
                    strong_convexity=1.0,
                    smoothness=1.0,
                    diameter=1.0,
                    sensitivity=1.0,
                )
            ),
            "diameter=None",
        ),
        (
            lambda m: contributions(
                NoisyGradientDescent(
                    n_steps=2,
                    noise_multiplier=[1.0, 2.0],
                    step_size=0.5,
                    strong_convexity=1.0,
                    smoothness=1.0,
                ),
                2,
            ),
            "the same step_size",
        ),
        (lambda m: diffusion(0.0, 1.0, 1.0), "drift_distance=0.0"),
    ],
)
def test_hypotheses_of_the_variants_are_named(call, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        call(
            NoisyGradientDescent(
                n_steps=5, noise_multiplier=1.0, step_size=0.1, strong_convexity=0.1, smoothness=1.0
            )
        )
