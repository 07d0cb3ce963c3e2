"""Conversions and compositions as textbooks print them are never below ours."""

import math

import pytest
from printed import textbook, theorem_2

from skdpdyn.privacy import (
    GaussianDP,
    NoisyGradientDescent,
    PoissonSubsampled,
    RenyiDP,
    WithoutReplacement,
    composition,
    langevin,
    subsampling,
)
from skdpdyn.privacy.guarantees import LinearCurve


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


POISSON = PoissonSubsampled(
    sampling_probability=0.01, noise_multiplier=8.0, n_steps=200, adjacency="add_remove"
)
FIXED = WithoutReplacement(
    n_samples=1000,
    batch_size=10,
    n_epochs=2,
    noise_multiplier=8.0,
    step_size=0.1,
    strong_convexity=0.1,
    smoothness=1.0,
)


@pytest.mark.parametrize("record", [POISSON, FIXED], ids=["poisson", "fixed"])
def test_textbook_chain_is_never_below_the_numerical_bound(record):
    for delta in (1e-3, 1e-6):
        chains = textbook(1 / 8.0, record.n_steps, 0.01, delta)
        assert min(chains) >= subsampling(record).epsilon(delta)


def test_langevin_without_contraction_costs_twice_what_composition_costs():
    m = NoisyGradientDescent(
        n_steps=300, noise_multiplier=40.0, step_size=0.1, strong_convexity=0.7, smoothness=2.0
    )
    assert langevin(m).rdp(7) == pytest.approx(theorem_2(m, 0.35)(7), rel=1e-12)
    assert theorem_2(m, 1e-9)(7) == pytest.approx(2 * composition(m).rdp(7), rel=1e-3)
