"""Guarantees: exact values, inverse pairs, composition, extremes, refusals."""

import dataclasses
import itertools
import json
import math
import re
from pathlib import Path

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from test_units import EXAMPLES

from skdpdyn.exceptions import CalibrationError, UnsupportedMechanismError
from skdpdyn.privacy import (
    Adjacency,
    ApproximateDP,
    Budget,
    GaussianDP,
    NoisyGradientDescent,
    PrivacyLossDP,
    ProfileMixture,
    RenyiDP,
    Selection,
    langevin,
    selection,
    tightest,
)
from skdpdyn.privacy._numerics import gdp_log_delta
from skdpdyn.privacy.filters import Filter
from skdpdyn.privacy.guarantees import Guarantee, LinearCurve, composed, gdp_mu
from skdpdyn.privacy.numerical import RepeatedCurve
from skdpdyn.privacy.renyi import SummedCurve, largest
from skdpdyn.privacy.rounded import rounded
from skdpdyn.privacy.words import mu_in_words

REFERENCE = json.loads((Path(__file__).parent / "data" / "privacy_bounds.json").read_text())
GUARANTEES = [GaussianDP(mu) for mu in (0.01, 1.0, 30.0)]
GUARANTEES += [RenyiDP(LinearCurve(rate)) for rate in (1e-4, 0.5, 40.0)]
GUARANTEES += [ApproximateDP(1.0, 1e-6), ApproximateDP(0.3)]

DESCENT = NoisyGradientDescent(
    n_steps=500, noise_multiplier=250.0, step_size=0.02, strong_convexity=1, smoothness=4
)
TRIALS = Selection(trial=GaussianDP(0.1), expected_trials=10, shape=1.0)
OTHERS = [RenyiDP(LinearCurve(0.01)), RenyiDP(LinearCurve(0.5)), langevin(DESCENT)]
OTHERS += [selection(TRIALS), ApproximateDP(0.3), ProfileMixture([0.1, 1.0])]


@pytest.mark.parametrize("case", REFERENCE["gdp_mu"], ids=str)
def test_mu_of_a_budget(case):
    assert gdp_mu(case["epsilon"], case["delta"]) == pytest.approx(case["mu"], rel=1e-9)


@pytest.mark.parametrize("case", REFERENCE["gdp_epsilon"], ids=str)
def test_epsilon_of_mu(case):
    assert GaussianDP(case["mu"]).epsilon(case["delta"]) == pytest.approx(case["epsilon"], rel=1e-9)


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.3, 0.4999, 0.5, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("x", [-30.0, -5.01, -4.99, -1.0, 0.0, 1.0, 8.0, 19.99, 20.01, 37.0, 100.0])
def test_gaussian_profile_against_60_digits(mu, x):
    """Oracle: log(Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu)) by mpmath."""
    epsilon = max(mu * (x + mu / 2), 0.0)
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        m = mpmath.mpf(mu)

        def phi(t):
            return mpmath.erfc(-t / mpmath.sqrt(2)) / 2

        exact = mpmath.log(phi(m / 2 - e / m) - mpmath.exp(e) * phi(-m / 2 - e / m))
        error = abs(mpmath.mpf(gdp_log_delta(epsilon, mu)) - exact)
        assert error <= 1e-13 * max(1, abs(exact))


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_profile_is_a_decreasing_probability(guarantee):
    epsilon = np.append(0.0, np.geomspace(1e-8, 1e4, 300))
    delta = guarantee.delta(epsilon)
    assert np.all((delta >= 0) & (delta <= 1))
    assert np.all(np.diff(delta) <= 1e-15)
    assert guarantee.delta(math.inf) == getattr(guarantee, "at_delta", 0.0)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
@pytest.mark.parametrize("delta", [1e-300, 1e-15, 1e-5, 0.1, 0.9])
def test_epsilon_and_delta_are_inverse(guarantee, delta):
    epsilon = guarantee.epsilon(delta)
    assert epsilon >= 0
    if epsilon == 0:
        assert delta >= guarantee.delta(0.0)
    elif math.isfinite(epsilon):
        assert guarantee.delta(epsilon) <= delta * (1 + 1e-6)
        assert guarantee.delta(epsilon * (1 - 1e-4)) > delta * (1 - 1e-6)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_epsilon_decreases_with_delta_and_is_zero_from_delta_of_zero_on(guarantee):
    edge = guarantee.delta(0.0)
    epsilon = guarantee.epsilon(np.geomspace(1e-300, 1.0, 200))
    assert not np.any(np.isnan(epsilon))
    finite = np.isfinite(epsilon)
    assert np.all(np.diff(epsilon[finite]) <= 1e-9 * epsilon[finite][:-1])
    assert not np.any(np.diff(finite.astype(int)) < 0)
    if edge < 1:
        assert guarantee.epsilon(min(1.0, edge * (1 + 1e-9))) == 0
    assert guarantee.epsilon(edge * (1 - 1e-6)) > 0


@settings(max_examples=300)
@given(st.floats(-150, 9), st.floats(-300, -0.01))
def test_gaussian_epsilon_never_fails_open(log_mu, log_delta):
    mu = 10.0**log_mu
    delta = 10.0**log_delta
    guarantee = GaussianDP(mu)
    epsilon = guarantee.epsilon(delta)
    assert epsilon >= 0
    assert guarantee.delta(epsilon) <= delta
    assert GaussianDP(mu * 1.01).epsilon(delta) >= epsilon


@settings(max_examples=300)
@given(st.floats(-12, 4), st.floats(-300, -0.3))
def test_mu_of_a_budget_is_on_the_safe_side(log_epsilon, log_delta):
    epsilon = 10.0**log_epsilon
    delta = 10.0**log_delta
    spent = GaussianDP(gdp_mu(epsilon, delta)).epsilon(delta)
    # delta has no more digits than that to tell epsilon by
    assert epsilon * (1 - 1e-9) - 1e-14 < spent <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(1e300, 1e-5), (1e-300, 1e-300)])
def test_absurd_budgets_are_refused(epsilon, delta):
    with pytest.raises(CalibrationError, match=r"epsilon=.*delta=.*extreme"):
        gdp_mu(epsilon, delta)


def test_gaussian_agrees_with_dp_accounting_under_its_default_relation():
    guarantee = GaussianDP(0.7)
    accountant = dp_accounting.pld.PLDAccountant(guarantee.neighboring_relation)
    accountant.compose(guarantee.dp_event)
    assert guarantee.neighboring_relation == dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    assert accountant.get_epsilon(1e-6) == pytest.approx(guarantee.epsilon(1e-6), rel=1e-3)
    assert isinstance(GaussianDP(0.0).dp_event, dp_accounting.NoOpDpEvent)


def test_renyi_conversion_agrees_with_dp_accounting():
    """dp_accounting minimises over its own orders, so it can only be above."""
    rate = 0.05
    accountant = dp_accounting.rdp.RdpAccountant(np.linspace(1.1, 60, 2000))
    accountant.compose(dp_accounting.ZCDpEvent(rate))
    theirs = accountant.get_epsilon(1e-5)
    ours = RenyiDP(LinearCurve(rate)).epsilon(1e-5)
    assert theirs * (1 - 1e-4) <= ours <= theirs


def test_composition():
    assert GaussianDP(3.0).compose(GaussianDP(4.0)) == GaussianDP(5.0)
    both = GaussianDP(1.0).compose(RenyiDP(LinearCurve(0.25)))
    assert both.rdp(3.0) == pytest.approx(3 * 0.75)
    twice = RenyiDP(LinearCurve(0.25)).compose(RenyiDP(LinearCurve(0.5)))
    assert twice.rdp(2.0) == pytest.approx(1.5)
    both = ApproximateDP(1.0, 1e-6).compose(ApproximateDP(0.5, 1e-7))
    assert both.epsilon(1.1e-6) == pytest.approx(1.5, abs=1e-6)


@pytest.mark.parametrize("other", OTHERS, ids=repr)
def test_composing_takes_the_least_bound_and_failures_never_help(other):
    """Before, sums of Renyi curves were up to 7 % above grids, which a failure led to."""
    for mu in (0.3, 1.0):
        joint = GaussianDP(mu).compose(other).epsilon(1e-6)
        failing = GaussianDP(mu, failure=1e-15).compose(other).epsilon(1e-6)
        grids = PrivacyLossDP(((GaussianDP(mu), 1), (other, 1))).epsilon(1e-6)
        curves = SummedCurve((LinearCurve(mu**2 / 2), other.rdp))
        assert joint <= min(failing, grids * (1 + 1e-7), RenyiDP(curves).epsilon(1e-6))
    curve = RepeatedCurve(other.rdp, 2)
    assert other.compose(other).epsilon(1e-6) <= RenyiDP(curve).epsilon(1e-6) * (1 + 1e-12)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_unlike_adjacencies_never_compose(guarantee):
    other = dataclasses.replace(guarantee, adjacency="add_remove")
    assert other != guarantee
    with pytest.raises(ValueError, match="'add_remove' and 'replace_one': costs of both"):
        guarantee.compose(other)


KINDS = [(relation, unit) for relation in Adjacency for unit in ("record", "person")]
MEETINGS = {
    "compose": lambda one, other: one.compose(other),
    "composed": lambda one, other: composed([one, other]),
    "largest": lambda one, other: largest([one, other]),  # of two mu, before, the larger number
    "parts": lambda one, other: PrivacyLossDP(((other, 2),), one.adjacency, unit=one.unit),
    "filter": lambda one, other: Filter("gdp").shares(  # before, a quarter of mu^2
        other, Budget(1.0, 1e-6, one.adjacency), one.unit
    ),
}


@pytest.mark.parametrize("name", MEETINGS)
def test_only_costs_of_one_kind_meet(name):
    for one, other in itertools.product(KINDS, KINDS):
        costs = [GaussianDP(0.1, relation, unit=unit) for relation, unit in (one, other)]
        if one == other:
            assert MEETINGS[name](*costs) is not None
            continue
        with pytest.raises(ValueError, match=r"adjacency=|no guarantee together"):
            MEETINGS[name](*costs)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_tradeoff_is_a_decreasing_curve_below_the_diagonal(guarantee):
    fpr = np.linspace(0, 1, 51)
    fnr = guarantee.tradeoff(fpr)
    assert np.all((fnr >= 0) & (fnr <= 1 - fpr + 1e-12))
    assert np.all(np.diff(fnr) <= 1e-12)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_tradeoff_by_the_profile_is_the_highest_of_all_lines(guarantee):
    """Although it looks at few of them."""
    fpr = np.array([0.0, 1e-6, 0.01, 0.3, 0.9, 1.0])
    epsilon = np.geomspace(1e-6, 700.0, 2000)
    epsilon = np.append(0.0, epsilon)
    miss = 1 - guarantee.delta(epsilon)
    x = fpr[:, None]
    lines = np.maximum(miss - np.exp(epsilon) * x, np.exp(-epsilon) * (miss - x)).max(axis=1)
    found = Guarantee.tradeoff(guarantee, fpr)
    assert np.all(found >= np.maximum(lines, 0.0) - 1e-13)
    np.testing.assert_allclose(found, np.maximum(lines, 0.0), atol=3e-4)  # many, not all
    if isinstance(guarantee, ApproximateDP) and not guarantee.at_delta:  # before, 1 % below
        gamma = math.exp(guarantee.at_epsilon)
        exact = np.maximum(1 - gamma * fpr, (1 - fpr) / gamma)
        np.testing.assert_allclose(found, np.maximum(exact, 0.0), atol=1e-8)


def test_tradeoff_by_the_profile_matches_the_closed_form():
    gaussian = GaussianDP(1.3)
    fpr = np.linspace(0.001, 0.999, 40)
    by_profile = super(GaussianDP, gaussian).tradeoff(fpr)
    assert np.all(by_profile <= gaussian.tradeoff(fpr) + 1e-12)
    np.testing.assert_allclose(by_profile, gaussian.tradeoff(fpr), atol=1e-10)
    assert gaussian.tradeoff(0.5) == pytest.approx(float(mpmath.ncdf(-1.3)))


def test_one_point_of_a_profile():
    """(1, 0)-DP implies (0, (e - 1)/(e + 1)): the total variation of randomised response."""
    assert ApproximateDP(1.0).delta(0.0) == pytest.approx(math.tanh(0.5))
    assert ApproximateDP(1.0, 0.1).epsilon(0.05) == math.inf
    with pytest.raises(UnsupportedMechanismError, match="ApproximateDP has no Renyi curve"):
        ApproximateDP(1.0, 0.1).rdp(2.0)
    with pytest.raises(UnsupportedMechanismError, match="no dp_accounting event"):
        _ = ApproximateDP(1.0, 0.1).dp_event
    with pytest.raises(UnsupportedMechanismError, match="no dp_accounting event"):
        _ = RenyiDP(SummedCurve((LinearCurve(1.0),))).neighboring_relation


def test_infinite_and_zero_mu():
    assert GaussianDP(0.0).delta(0.0) == 0.0
    assert GaussianDP(0.0).epsilon(1e-300) == 0.0
    assert GaussianDP(math.inf).delta(5.0) == 1.0
    assert GaussianDP(math.inf).epsilon(0.5) == math.inf
    assert GaussianDP(1e200).epsilon(0.5) == math.inf
    assert GaussianDP(math.inf).tradeoff(0.0) == 0.0
    assert GaussianDP(math.inf).tradeoff(0.5) == 0.0
    assert GaussianDP(0.0).tradeoff(0.25) == 0.75
    assert GaussianDP(1.0).epsilon(0.0) == math.inf


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_bad_numbers_raise_and_are_never_zero(bad):
    for guarantee in GUARANTEES:
        with pytest.raises(ValueError, match=r"epsilon=.* must be a number >= 0"):
            guarantee.delta(bad)
        with pytest.raises(ValueError, match=r"delta=.* must be in \[0, 1\]"):
            guarantee.epsilon(bad)
        with pytest.raises(ValueError, match=r"fpr=.* must be in \[0, 1\]"):
            guarantee.tradeoff(bad)
    with pytest.raises(ValueError, match=r"mu=.* must be a number >= 0"):
        GaussianDP(bad)
    with pytest.raises(ValueError, match=r"order=.* must be a finite number > 1"):
        GaussianDP(1.0).rdp(bad)
    with pytest.raises(ValueError, match="'sideways' is not a valid Adjacency"):
        GaussianDP(1.0, "sideways")
    with pytest.raises(ValueError, match=r"rate=.* must be a number >= 0"):
        LinearCurve(bad)
    low = lambda order: 0.1 * np.asarray(order) - 5  # noqa: E731
    for curve in (lambda order: math.nan, lambda order: -order, low):
        with pytest.raises(FloatingPointError, match="is negative or not a number"):
            RenyiDP(curve).epsilon(1e-5)


@pytest.mark.parametrize("part", [1 - 1e-15, 1 - 1e-13, 1 - 1e-9])
def test_epsilon_just_below_the_delta_of_zero(part):
    for mu in np.geomspace(1e-8, 20, 60):
        guarantee = GaussianDP(mu)
        delta = guarantee.delta(0.0) * part
        assert guarantee.delta(guarantee.epsilon(delta)) <= delta


def test_a_tightest_bound_composes_as_what_it_proved():
    run = NoisyGradientDescent(n_steps=4, noise_multiplier=1.0, step_size=1.0)
    assert GaussianDP(1.5).compose(tightest(run)) == GaussianDP(2.5)
    assert hash(tightest(run)) == hash(tightest(dataclasses.replace(run)))


FAILING = GaussianDP(0.235, failure=3e-8)
MAY_FAIL = [FAILING, rounded(FAILING, 1e-9), FAILING.compose(ApproximateDP(1e-9))]


@pytest.mark.every_case
@pytest.mark.parametrize("guarantee", [*EXAMPLES, *MAY_FAIL], ids=lambda one: type(one).__name__)
def test_a_mu_is_that_of_gaussian_differential_privacy_and_nothing_else(guarantee):
    """In code it says all, in words all but what is rarer than the failure beside it."""
    epsilon = np.linspace(0.0, 30.0, 301)
    if hasattr(guarantee, "mu"):
        told = GaussianDP(guarantee.mu, guarantee.adjacency, guarantee.failure, guarantee.unit)
        for delta in (0.3, 1e-3, 1e-6, 1e-7, 1e-12, 1e-300):
            assert told.epsilon(delta) == guarantee.epsilon(delta)
        np.testing.assert_array_equal(told.delta(epsilon), guarantee.delta(epsilon))
    words = r"([-+.e\d]+)(?:, except with probability ([-+.e\d]+))?(?: \(regret [-+.e\d]+\))?"
    mu, failure = re.fullmatch(words, mu_in_words(guarantee)).groups()
    told = GaussianDP(float(mu) * (1 + 1e-5), failure=float(failure or 0.0) * (1 + 1e-5))
    assert np.all(told.delta(epsilon) >= guarantee.delta(epsilon))
    if guarantee in MAY_FAIL:  # a failure below the guarantee's own would need a mu of 1.2
        assert FAILING.mu <= float(mu) < 0.25
        assert 3e-8 <= float(failure) < 3.1e-8
