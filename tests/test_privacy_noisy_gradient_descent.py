"""Bounds on noisy gradient descent: references, oracles, conformance, hypotheses."""

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    NoisyGradientDescent,
    composition,
    langevin,
    last_iterate,
    last_iterate_mu,
    tightest,
)

REFERENCE = json.loads((Path(__file__).parent / "data" / "privacy_bounds.json").read_text())


def record(**changes):
    defaults = {"n_steps": 50, "noise_multiplier": 20.0, "step_size": 0.5}
    defaults |= {"strong_convexity": 0.05, "smoothness": 1.0}
    return NoisyGradientDescent(**defaults | changes)


# --- reference values -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    REFERENCE["noisy_gd"],
    ids=lambda c: f"{c['strong_convexity']}-{c['alpha']}-{c['n_steps']}",
)
def test_reference_curves(case):
    """Setting of Chourasia, Ye and Shokri (2021), Figure 1."""
    noise_std = math.sqrt(2 * case["step_size"]) * case["sigma"]
    noise_multiplier = noise_std * case["n"] / (case["step_size"] * case["total_sensitivity"])
    constants = ("n_steps", "step_size", "strong_convexity", "smoothness")
    m = record(noise_multiplier=noise_multiplier, **{name: case[name] for name in constants})
    assert langevin(m).rdp(case["alpha"]) == pytest.approx(case["langevin_rdp"], rel=1e-9)
    assert composition(m).rdp(case["alpha"]) == pytest.approx(case["composition_rdp"], rel=1e-9)
    assert last_iterate(m).mu == pytest.approx(case["exact_mu"], rel=1e-9)
    assert last_iterate(m).rdp(case["alpha"]) == pytest.approx(case["exact_rdp"], rel=1e-9)


@pytest.mark.parametrize(
    "case", REFERENCE["schedule"], ids=lambda c: f"{len(c['contraction'])} steps, mu {c['mu']:.4f}"
)
def test_reference_schedules(case):
    mu = last_iterate_mu(case["contraction"], case["sensitivity"], case["noise_std"])
    assert mu == pytest.approx(case["mu"], rel=1e-9)


@pytest.mark.parametrize("case", REFERENCE["bounded_domain_convex"], ids=str)
def test_reference_bounded_domain(case):
    constants = {name: case[name] for name in ("n_steps", "diameter", "sensitivity")}
    noise = case["noise_std"] / case["sensitivity"]
    m = record(noise_multiplier=noise, step_size=1.0, strong_convexity=0.0, **constants)
    assert last_iterate(m).mu == pytest.approx(case["mu"], rel=1e-9)
    schedule = np.full((3, case["n_steps"]), [[1.0], [case["sensitivity"]], [case["noise_std"]]])
    assert last_iterate_mu(*schedule, case["diameter"]) == pytest.approx(case["mu"], rel=1e-9)


# --- oracles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_size", [1e-6, 1e-3, 0.1, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("n_steps", [1, 2, 10, 1000, 10**5])
def test_quadratic_oracle(step_size, n_steps):
    """l = |theta - x|^2/2: the last iterate is Gaussian (Chourasia et al. 2021, Theorem 3)."""
    sensitivity = 0.003
    noise_multiplier = 7.0
    powers = (1 - step_size) ** np.arange(n_steps)
    gap = step_size * sensitivity * math.fsum(powers)
    noise_std = step_size * sensitivity * noise_multiplier
    exact = gap / (noise_std * math.sqrt(math.fsum(powers**2)))
    constants = {"n_steps": n_steps, "step_size": step_size, "strong_convexity": 1.0}
    m = record(noise_multiplier=noise_multiplier, smoothness=1.0, **constants)
    assert last_iterate(m).mu == pytest.approx(exact, rel=1e-12)
    assert composition(m).mu >= exact * (1 - 1e-12)
    if step_size < 1:
        assert langevin(m).rdp(2.0) >= exact**2 * 1.57 * (1 - 1e-12)


def exact_schedule_mu(contraction, sensitivity, noise_std, start=0.0):
    """Least energy over all shifts by a general-purpose optimiser."""
    n_steps = len(contraction)

    def distances(shifts):
        z = start
        path = []
        for k in range(n_steps):
            z = contraction[k] * z + sensitivity[k] - shifts[k]
            path.append(z)
        return np.array(path)

    first = np.array(sensitivity, dtype=float)
    first[0] += contraction[0] * start
    constraints = [
        {"type": "ineq", "fun": lambda shifts: distances(shifts)[:-1]},
        {"type": "eq", "fun": lambda shifts: distances(shifts)[-1]},
        {"type": "ineq", "fun": lambda shifts: shifts},
    ]
    options = {"options": {"maxiter": 1000, "ftol": 1e-14}, "constraints": constraints}
    return math.sqrt(
        minimize(lambda shifts: np.sum((shifts / noise_std) ** 2), first, **options).fun
    )


@pytest.mark.parametrize("seed", range(25))
def test_isotonic_regression_against_a_general_optimiser(seed):
    rng = np.random.default_rng(seed)
    n_steps = rng.integers(2, 8)
    contraction = rng.uniform(0.3, 1.4, n_steps)
    noise_std = rng.uniform(0.3, 2.0, n_steps)
    sensitivity = rng.uniform(0.1, 1.0, n_steps) * (rng.random(n_steps) < 0.7)
    sensitivity[0] += 0.1
    schedule = np.array([contraction, sensitivity, noise_std])
    from_start = exact_schedule_mu(*schedule)
    diameter = rng.uniform(0.05, 3.0)
    assert last_iterate_mu(*schedule) == pytest.approx(from_start, rel=1e-5)
    anywhere = [exact_schedule_mu(*schedule[:, j:], diameter) for j in range(n_steps)]
    bounded = last_iterate_mu(*schedule, diameter)
    assert bounded == pytest.approx(min(from_start, *anywhere), rel=1e-5)


@pytest.mark.parametrize("contraction", [1e-3, 0.5, 0.99, 1 - 1e-9, 1.0])
@pytest.mark.parametrize("n_steps", [1, 2, 7, 1000])
@pytest.mark.parametrize("diameter", [None, 1e-4, 0.3, 1e3])
def test_closed_form_equals_schedule(contraction, n_steps, diameter):
    constants = {"strong_convexity": 1 - contraction, "n_steps": n_steps}
    constants |= {"diameter": diameter, "sensitivity": 0.01}
    m = record(noise_multiplier=2.0, step_size=1.0, **constants)
    by_schedule = last_iterate_mu(np.full(n_steps, contraction), 0.01, 0.02, diameter)
    assert last_iterate(m).mu == pytest.approx(by_schedule, rel=1e-10)
    noise, sizes = np.full((2, n_steps), [[2.0], [1.0]])
    as_arrays = record(noise_multiplier=noise, step_size=sizes, **constants)
    assert last_iterate(as_arrays).mu == pytest.approx(by_schedule, rel=1e-10)
    assert composition(as_arrays).mu == pytest.approx(composition(m).mu, rel=1e-12)


def test_long_schedules_do_not_underflow():
    """At c = 0.99 over 1e5 steps the product of contractions is e^-1005."""
    constant = last_iterate_mu(np.full(10**5, 0.99), 1.0, 1.0)
    assert constant == pytest.approx(math.sqrt(1.99 / 0.01), rel=1e-12)
    quiet_start = np.full(10**5, 0.99)
    noise = np.where(np.arange(10**5) < 99_900, 1e-9, 1.0)
    exact = last_iterate_mu(quiet_start, 1.0, noise)
    # all that came before reaches the last 100 steps as a start 1/(1 - c) away, and they alone can
    # hide it
    tail = np.arange(100)
    shift = 0.99**100 / 0.01 + np.sum(0.99**tail)
    assert exact == pytest.approx(shift / math.sqrt(np.sum(0.99 ** (2 * tail))), rel=1e-6)
    expanding = last_iterate_mu(np.full(10**5, 1.01), 1.0, 1.0)
    assert expanding == pytest.approx(math.sqrt(10**5), rel=1e-9)


def test_steps_without_noise_keep_their_sensitivity():
    assert last_iterate_mu([1.0, 1.0], [1.0, 1.0], [0.0, 2.0]) == pytest.approx(1.0)
    assert last_iterate_mu([1.0, 1.0], [1.0, 1.0], [2.0, 0.0]) == math.inf
    assert last_iterate_mu([1.0, 1.0], [1.0, 0.0], [2.0, 0.0]) == pytest.approx(0.5)
    for diameter in (None, 3.0):
        schedule = [0.5, 0.0, 0.5], [9.0, 1.0, 0.0], [1e-3, 1.0, 1.0]
        mu = last_iterate_mu(*schedule, diameter)
        assert mu == pytest.approx(0.5 / math.sqrt(1.25))
    assert last_iterate_mu([1.0], [0.0], [1.0]) == 0.0
    long = 2**14 + 1  # the debt crosses from one segment of the regression to the next
    noise = np.append(np.zeros(2**14), 1.0)
    assert last_iterate_mu(np.ones(long), 1.0, noise) == pytest.approx(long)


# --- conformance ----------------------------------------------------------------------------------

EXACT = [composition, last_iterate]
BOUNDS = [*EXACT, langevin]


@pytest.mark.parametrize("bound", BOUNDS)
def test_more_steps_never_cost_less_and_more_noise_never_more(bound):
    costs = [bound(record(n_steps=k)).epsilon(1e-6) for k in (1, 2, 3, 10, 100, 10**4, 10**9)]
    assert np.all(np.diff(costs) >= -1e-12)
    costs = [bound(record(noise_multiplier=z)).epsilon(1e-6) for z in np.geomspace(1e-6, 1e9, 30)]
    assert np.all(np.isfinite(costs))
    assert np.all(np.diff(costs) <= 0)


@pytest.mark.parametrize("bound", EXACT)
def test_one_step_is_a_gaussian_mechanism(bound):
    assert bound(record(n_steps=1, noise_multiplier=4.0)).mu == pytest.approx(0.25, rel=1e-14)
    assert langevin(record(n_steps=1, noise_multiplier=4.0)).rdp(2.0) > 0.25**2


def test_contraction_of_one_is_composition():
    m = record(strong_convexity=0.0)
    assert last_iterate(m).mu == pytest.approx(composition(m).mu, rel=1e-14)
    for decay in (1e-17, 1e-15, 1e-12):
        m = record(strong_convexity=decay, n_steps=10**6)
        assert last_iterate(m).mu == pytest.approx(composition(m).mu, rel=1e-5)


@settings(max_examples=300)
@given(
    n_steps=st.integers(1, 10**9),
    log_noise=st.floats(-6, 9),
    log_decay=st.floats(-16, 0),
    slope=st.floats(1.0, 100.0),
    part=st.floats(1e-6, 1.0),
)
def test_bounds_are_ordered_everywhere(n_steps, log_noise, log_decay, slope, part):
    smoothness = 10.0**log_decay * slope
    constants = {"strong_convexity": 10.0**log_decay, "smoothness": smoothness}
    constants |= {"step_size": part * 2 / smoothness, "n_steps": n_steps}
    m = record(noise_multiplier=10.0**log_noise, **constants)
    exact = last_iterate(m).mu
    composed = composition(m).mu
    assert 0 < exact <= composed * (1 + 1e-12)
    assert exact >= 1 / m.noise_multiplier * (1 - 1e-12)
    if m.step_size < 1 / smoothness:
        assert langevin(m).rdp(2.0) >= exact**2 * 1.57 * (1 - 1e-9)
    best = tightest(m)
    assert best.guarantee.mu == min(exact, composed)


def test_oversized_steps_cost_what_composition_costs():
    m = record(step_size=2.5)
    best = tightest(m)
    assert best.bound == "composition"
    assert best.guarantee == composition(m)
    assert "step_size <= 2/smoothness" in str(best.alternatives["last_iterate"])


def test_between_the_two_largest_steps_the_fast_direction_sets_the_contraction():
    """step 1.99 on curvature in [0.05, 1]: |1 - 1.99| = 0.99 beats |1 - 0.0995|."""
    known = last_iterate_mu(np.full(50, 0.99), 1.0, 20.0)
    assert last_iterate(record(step_size=1.99)).mu == pytest.approx(known, rel=1e-12)


# --- tightest -------------------------------------------------------------------------------------


def test_tightest_names_the_winner_and_keeps_the_others():
    best = tightest(record(step_size=0.1))
    assert best.bound == "last_iterate"
    refused = UnsupportedMechanismError
    others = {name: of for name, of in best.alternatives.items() if not isinstance(of, refused)}
    assert list(others) == ["composition", "langevin"]
    assert all(best.guarantee.epsilon(1e-6) <= of.epsilon(1e-6) for of in others.values())
    assert pickle.loads(pickle.dumps(best)) == best
    with pytest.raises(refused, match=r"holds for this object: composition: .*; langevin: .*"):
        tightest(object())


# --- hypotheses -----------------------------------------------------------------------------------


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("bound", "changes", "message"),
    [
        (langevin, {"release": "all"}, "release='last', not 'all'"),
        (langevin, {"strong_convexity": 0.0}, "strong_convexity > 0, not 0.0"),
        (langevin, {"smoothness": None}, "a known smoothness"),
        (langevin, {"step_size": 1.0}, "step_size < 1/smoothness = 1, not 1"),
        (langevin, {"noise_multiplier": np.full(50, 3.0)}, "the same step_size and noise_multi"),
        (last_iterate, {"release": "all"}, "release='last', not 'all'"),
        (last_iterate, {"smoothness": None}, "a known smoothness"),
        (last_iterate, {"step_size": 2.0001}, "step_size <= 2/smoothness = 2, not 2.0001"),
        (last_iterate, {"step_size": np.nextafter(2.0, 3.0)}, "beyond it a step does not contract"),
        (langevin, {"step_size": np.nextafter(1.0, 2.0)}, "step_size < 1/smoothness"),
        (last_iterate, {"step_size": np.append(np.full(49, 0.1), 3.0)}, "2/smoothness = 2, not 3"),
    ],
)
def test_failed_hypotheses_are_named(bound, changes, message):
    with pytest.raises(UnsupportedMechanismError, match=message.replace("(", r"\(")):
        bound(record(**changes))


def test_all_iterates_cost_the_composition():
    assert tightest(record(release="all")).bound == "composition"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_steps": 0}, "n_steps=0 must be an integer >= 1"),
        ({"n_steps": 10**20}, "n_steps=100000000000000000000 must be an integer >= 1"),
        ({"noise_multiplier": 0.0}, "noise_multiplier=0.0 must be positive"),
        ({"noise_multiplier": math.inf}, "noise_multiplier=inf must be positive and finite"),
        ({"noise_multiplier": [1.0, 2.0]}, r"shape \(2,\): give a number or one value for each"),
        ({"step_size": -0.1}, "step_size=-0.1 must be positive"),
        ({"strong_convexity": -1.0}, "strong_convexity=-1.0 must be a finite number >= 0"),
        ({"strong_convexity": 2.0}, "smoothness=1.0 must be >= strong_convexity=2.0"),
        ({"smoothness": math.nan}, "smoothness=nan must be a finite number > 0"),
        ({"diameter": 1.0}, "sensitivity=None must be given with a diameter"),
        ({"diameter": -1.0, "sensitivity": 1.0}, "diameter=-1.0 must be a finite number > 0"),
        ({"sensitivity": 0.0}, "sensitivity=0.0 must be a finite number > 0"),
        ({"release": "some"}, "release='some' must be 'last' or 'all'"),
        ({"adjacency": "swap"}, "'swap' is not a valid Adjacency"),
    ],
)
def test_bad_records_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        record(**changes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, math.nan], [1.0, 1.0], [1.0, 1.0]), "contraction must hold one finite number"),
        (([0.5], [-1.0], [1.0]), "sensitivity must hold one finite number"),
        (([0.5], [1.0], [math.inf]), "noise_std must hold one finite number"),
        (([0.5], [1.0], [1.0], math.nan), "diameter=nan must be a finite number"),
        (([[0.5]], [1.0], [1.0]), "contraction must hold"),
        (([0.5], [], [1.0]), "sensitivity must hold"),
        (([0.5] * 3, [1.0], [1.0] * 2), "of 3, sensitivity of 1, .* of 2 steps: .* same length"),
    ],
)
def test_bad_schedules_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        last_iterate_mu(*arguments)
