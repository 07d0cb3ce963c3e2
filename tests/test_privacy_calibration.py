"""Calibration meets the budget from below, everywhere; its rules reproduce the papers."""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from timing import times_as_long

from skdpdyn.exceptions import CalibrationError, UnsupportedMechanismError
from skdpdyn.privacy import (
    Adjacency,
    NoisyGradientDescent,
    WithoutReplacement,
    calibrate,
    composition,
    langevin,
    last_iterate,
    least_noise,
    tightest,
)
from skdpdyn.privacy.guarantees import gdp_mu
from skdpdyn.privacy.schedules import (
    MAX_STEPS,
    MIN_STEPS,
    curvature_aware_schedule,
    curvature_aware_time,
    largest_step_size,
    theorem4_schedule,
    worst_case_steps,
)

REFERENCE = json.loads((Path(__file__).parent / "data" / "privacy_bounds.json").read_text())
PROBLEM = {"n_samples": 10_000, "n_features": 50, "lipschitz": 1.0}
PROBLEM |= {"strong_convexity": 0.01, "smoothness": 0.26}


@pytest.mark.smoke
@pytest.mark.parametrize("case", REFERENCE["calibration"], ids=lambda c: f"epsilon {c['epsilon']}")
def test_reference_calibrations(case):
    problem = {name: case[name] for name in ("lipschitz", "strong_convexity")}
    problem |= {"n_samples": case["n"], "n_features": case["d"]}
    epsilon = case["epsilon"]
    delta = case["delta"]
    smoothness = case["smoothness"]
    step_size, sigma2, n_steps = theorem4_schedule(epsilon, delta, smoothness=smoothness, **problem)
    assert step_size == pytest.approx(case["theorem4_step_size"], rel=1e-9)
    assert sigma2 == pytest.approx(case["theorem4_sigma2"], rel=1e-9)
    assert n_steps == pytest.approx(case["theorem4_n_steps_real"], rel=1e-9)
    printed = calibrate(epsilon, delta, smoothness=smoothness, n_steps="theorem4", **problem)
    assert printed.n_steps == math.ceil(n_steps)
    assert langevin(printed).epsilon(delta) <= epsilon

    exact = calibrate(epsilon, delta, smoothness=smoothness, n_steps="worst_case", **problem)
    assert exact.n_steps == case["exact_n_steps"]
    assert exact.step_size == pytest.approx(case["exact_step_size"], rel=1e-9)
    assert exact.noise_multiplier == pytest.approx(case["exact_noise_multiplier"], rel=1e-9)
    assert last_iterate(exact).mu == pytest.approx(case["mu"], rel=1e-9)
    real = worst_case_steps(gdp_mu(epsilon, delta), step_size=exact.step_size, **problem)
    assert real == pytest.approx(case["exact_n_steps_real"], rel=1e-9)


@settings(max_examples=400)
@given(
    logs=st.tuples(*(st.floats(*ends) for ends in ((-3, 1.69), (-15, -2), (0, 6), (0, 6), (0, 8)))),
    strong_convexity=st.sampled_from([0.0, 1e-9, 1e-4, 0.01, 0.2]),
    rule=st.sampled_from(["curvature", "worst_case", "int"]),
    adjacency=st.sampled_from(list(Adjacency)),
)
def test_budget_is_met_from_below(logs, strong_convexity, rule, adjacency):
    if rule == "worst_case" and strong_convexity == 0:
        return
    epsilon, delta, n_steps, d, n = (10.0**log for log in logs)
    problem = {"n_samples": int(n), "n_features": int(d), "lipschitz": 0.7}
    problem |= {"strong_convexity": strong_convexity, "smoothness": strong_convexity + 0.25}
    n_steps = int(n_steps) if rule == "int" else rule
    m = calibrate(epsilon, delta, n_steps=n_steps, adjacency=adjacency, **problem)
    spent = tightest(m, delta=delta).guarantee.epsilon(delta)
    assert epsilon * (1 - 1e-6) < spent <= epsilon
    assert m.adjacency is adjacency
    assert rule != "int" or m.n_steps == n_steps


@pytest.mark.parametrize("rule", ["curvature", "worst_case", 10**6])
def test_calibration_takes_a_few_evaluations_of_the_bound(rule):
    """About four, in time; a search over the number of steps takes hundreds."""

    def calibration(_):
        return calibrate(1.0, 1e-6, n_steps=rule, **PROBLEM)

    def bound(_):
        return tightest(mechanism, delta=1e-6).guarantee.epsilon(1e-6)

    mechanism = calibration(0)
    assert times_as_long(calibration, bound) < 40


@pytest.mark.parametrize("bound", [composition, langevin, last_iterate])
def test_each_bound_is_met_from_below(bound):
    constants = {"n_steps": 300, "step_size": 1.0, "strong_convexity": 0.01, "smoothness": 0.26}
    run = NoisyGradientDescent(noise_multiplier=1.0, **constants)
    m = least_noise(lambda noise: replace(run, noise_multiplier=noise), 0.5, 1e-6, bound.__name__)
    assert 0.5 * (1 - 1e-6) < bound(m).epsilon(1e-6) <= 0.5


def test_worst_case_steps_minimise_the_worst_case_error():
    mu = 0.3
    step_size = 7.0
    constants = {key: value for key, value in PROBLEM.items() if key != "smoothness"}

    def error(steps):
        x = (1 - step_size * 0.01) ** steps
        spread = math.sqrt(50) * 2 / (10_000 * mu * 0.01)
        return (x * 100) ** 2 + ((1 - x) * spread) ** 2

    best = worst_case_steps(mu, step_size=step_size, **constants)
    assert error(best) < min(error(best * 0.99), error(best * 1.01))


@pytest.mark.parametrize("tolerable_noise", [1.0, 0.25])
def test_curvature_aware_time_is_where_the_noise_reaches_the_raw_prediction(tolerable_noise):
    """Free of curvature, K steps move a unit row's raw prediction by as many units."""
    row_norm = 3.0
    budget = (0.7, 1e-7)
    problem = {"n_samples": 5000, "lipschitz": 1.2}
    curvature = row_norm**2 / 4
    time_ = curvature_aware_time(
        *budget, curvature=curvature, tolerable_noise=tolerable_noise, **problem
    )
    problem |= {"n_features": 4, "strong_convexity": 0.0, "smoothness": curvature}
    m = calibrate(*budget, n_steps=500, **problem)
    drift = math.sqrt(500) * time_ / 500 * (2 * 1.2 / 5000) * m.noise_multiplier
    assert drift * row_norm == pytest.approx(tolerable_noise, rel=1e-9)


def test_curvature_aware_schedule():
    schedule = partial(curvature_aware_schedule, strong_convexity=0.0, smoothness=0.25)
    assert schedule(1000.0) == (125, 8.0)
    assert schedule(1.0) == (MIN_STEPS, 1.0 / MIN_STEPS)
    assert schedule(1e9)[0] == MAX_STEPS
    assert schedule(1000.0, step_size=20.0) == (50, 20.0)
    forgetting = curvature_aware_schedule(1e6, strong_convexity=0.01, smoothness=0.26)
    assert math.prod(forgetting) == pytest.approx(math.log(10) / 0.01, rel=0.05)


def test_langevin_needs_shorter_steps():
    assert largest_step_size(0.01, 0.26) == pytest.approx(2 / 0.27)
    assert largest_step_size(0.01, 0.26, "langevin") < 1 / 0.26


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, r"epsilon=0.0 must be a finite number > 0"),
        ({"epsilon": math.inf}, r"epsilon=inf must be a finite number > 0"),
        ({"epsilon": "much"}, r"epsilon='much' must be a finite number > 0"),
        ({"delta": 0.0}, r"delta=0(.0)? must be in \(0, 1\): Gaussian noise has no pure-epsilon"),
        ({"delta": 1.0}, r"delta=1.0 must be in \(0, 1\)"),
        ({"n_samples": 0}, r"n_samples=0 must be an integer >= 1"),
        ({"n_features": 1.5}, r"n_features=1.5 must be an integer >= 1"),
        ({"n_samples": 10**400}, r"n_samples must be below 2\*\*63"),
        ({"lipschitz": 0.0}, r"lipschitz=0.0 must be a number between 1e-100 and 1e100"),
        ({"smoothness": math.inf}, r"smoothness=inf must be a number between"),
        ({"strong_convexity": -1.0}, r"convexity=-1.0 must be >= 0 and below smoothness=0.26"),
        ({"strong_convexity": 0.26}, r"strong_convexity=0.26 must be >= 0 and below"),
        ({"n_steps": "all"}, r"n_steps='all' must be 'curvature', 'worst_case', 'theorem4' or an"),
        ({"n_steps": 0}, r"n_steps=0 must be"),
        ({"n_steps": 10**20}, r"n_steps=100000000000000000000 must be an integer >= 1"),
        ({"adjacency": "swap"}, r"'swap' is not a valid Adjacency"),
    ],
)
def test_bad_arguments_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        calibrate(**{"epsilon": 1.0, "delta": 1e-6, **PROBLEM, **changes})


TOO_LARGE = r"epsilon=50.0: Theorem 4 needs epsilon <= 2 log\(1/delta\) = 27.631"
FAILED = [
    ("theorem4", {"epsilon": 50.0}, TOO_LARGE),
    ("theorem4", {"strong_convexity": 0.0}, "Theorem 4 needs strong_convexity > 0"),
    ("worst_case", {"strong_convexity": 0.0}, "number of steps is finite only above 0"),
    ("curvature", {"epsilon": 1e300}, "no noise can be computed for so extreme a budget"),
    ("theorem4", {"epsilon": 1e-300}, "epsilon=1e-300, .*: Theorem 4 cannot be computed"),
    ("theorem4", {"strong_convexity": 1e-300}, "1e-300, .*: Theorem 4 cannot be computed"),
]


@pytest.mark.parametrize(("rule", "changes", "message"), FAILED)
def test_failed_hypotheses_are_named(rule, changes, message):
    with pytest.raises(CalibrationError, match=message):
        calibrate(**{"epsilon": 1.0, "delta": 1e-6, "n_steps": rule, **PROBLEM, **changes})


def test_a_bound_that_cannot_hold_is_refused():
    def mechanism(noise_multiplier):
        return NoisyGradientDescent(n_steps=3, noise_multiplier=noise_multiplier, step_size=1.0)

    with pytest.raises(UnsupportedMechanismError, match=r"last_iterate .* a known smoothness"):
        least_noise(mechanism, 1.0, 1e-6, "last_iterate")
    with pytest.raises(ValueError, match="bound='magic' must be 'tightest' or one of"):
        least_noise(mechanism, 1.0, 1e-6, "magic")


@pytest.mark.smoke
def test_the_bound_that_judges_is_the_smallest_at_the_delta_that_was_asked():
    """Amplification by sampling wins at delta 1e-6, the default of `tightest`, not at 0.01."""

    sizes = {"n_samples": 100, "batch_size": 10, "n_epochs": 10, "noise_multiplier": 1.0}
    run = WithoutReplacement(step_size=1.0, strong_convexity=0.5, smoothness=1.0, **sizes)
    found = least_noise(lambda noise: replace(run, noise_multiplier=noise), 1.0, 0.01)
    best = tightest(found, delta=0.01)
    assert best.bound != tightest(found).bound
    assert 1 - 1e-3 < best.guarantee.epsilon(0.01) <= 1
