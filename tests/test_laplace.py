"""Laplace noise: its exact profile, its Renyi curve, and what pure parts cost together."""

import math

import numpy as np
import pytest
from scipy import integrate

from skdpdyn.privacy import (
    Composition,
    Laplace,
    LaplaceDP,
    RenyiDP,
    Selection,
    selection,
    tightest,
)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.4])
def test_profile_is_that_of_the_definition(epsilon):
    exact, _ = integrate.quad(
        lambda x: max(math.exp(-abs(x - 2)) - math.exp(epsilon - abs(x)), 0) / 2, -9, 60, limit=400
    )
    assert LaplaceDP(2.0).delta(epsilon) == pytest.approx(exact, abs=1e-4)


def test_epsilon_delta_and_renyi_agree():
    guarantee = LaplaceDP(1.3)
    for delta in (0.2, 1e-3, 1e-9, 1e-200):
        epsilon = guarantee.epsilon(delta)
        assert guarantee.delta(epsilon) <= delta
        assert epsilon == 0 or guarantee.delta(epsilon * (1 - 1e-6)) > delta * (1 - 1e-6)
    order = np.array([1 + 1e-9, 1.5, 4.0, 1e6])
    assert np.all(np.diff(guarantee.rdp(order)) >= 0)
    grid = np.linspace(0.0, 3.0, 40)
    renyi = RenyiDP(guarantee.rdp, guarantee.adjacency)
    assert np.all(renyi.delta(grid) >= guarantee.delta(grid) * (1 - 1e-12))
    # order 2, from the profile: E P/Q = 1 + the integral of 2 (e^x delta + e^-2x delta)
    x = np.linspace(0.0, guarantee.at_epsilon, 200_001)
    squared = 1 + integrate.trapezoid(guarantee.delta(x) * 2 * (np.exp(x) + np.exp(-2 * x)), x)
    assert math.exp(guarantee.rdp(2.0)) == pytest.approx(squared, rel=1e-6)
    trials = Selection(trial=guarantee, expected_trials=5.0, shape=1.0)
    assert guarantee.epsilon(1e-6) <= selection(trials).epsilon(1e-6) < math.inf


@pytest.mark.parametrize(("s", "t"), [(1.0, 1.0), (2.0, 0.5), (0.3, 0.2)])
def test_shared_sensitivity_of_laplace_noise_is_as_the_docstring_says(s, t):
    """By the losses of the first: atoms at its ends, density e^((l - s) / 2) / 4 between."""

    def second(x):
        return -math.expm1(min(x, -t / 1)) if x < -t else max(-math.expm1((x - t) / 2), 0.0)

    for epsilon in np.linspace(0.0, s + t, 9):
        exact = (second(epsilon - s) + math.exp(-s) * second(epsilon + s)) / 2
        exact += integrate.quad(
            lambda loss, epsilon=epsilon: math.exp((loss - s) / 2) / 4 * second(epsilon - loss),
            -s, s, points=sorted({min(max(epsilon + sign * t, -s), s) for sign in (-1, 1)}),
        )[0]  # fmt: skip
        less = t / 2 if epsilon <= s - t else (s + t - epsilon) / 4
        claimed = LaplaceDP(s + t).delta(epsilon) - less * math.exp((epsilon - s - t) / 2)
        assert exact == pytest.approx(claimed, abs=1e-9)


@pytest.mark.parametrize("delta", [1e-16, 1e-40])
def test_composed_pure_parts_have_an_answer_far_below_their_bound(delta):
    """Before, a ZeroDivisionError: far below the likely losses delta came out as 0."""
    total = tightest(Composition((Laplace(noise_multiplier=1.0),) * 2)).guarantee
    assert 1.9 < total.epsilon(delta) <= 2.0 * (1 + 1e-14)
