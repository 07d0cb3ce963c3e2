"""Reference values, met to 1e-9 relative, and the speeds that the bounds promise."""

import json
import math
from functools import partial
from pathlib import Path

import pytest
from printed import textbook, theorem_2
from runs import cyclic, descent, fresh, one_pass, poisson
from timing import times_as_long

from skdpdyn.privacy import (
    Gaussian,
    GaussianDP,
    OnePass,
    RenyiDP,
    WithoutReplacement,
    composition,
    contraction,
    langevin,
    last_iterate,
    recursion,
    subsampling,
    tightest,
)
from skdpdyn.privacy.guarantees import LinearCurve

REFERENCE = json.loads((Path(__file__).parent / "data" / "privacy_bounds.json").read_text())
approx = pytest.approx


@pytest.mark.parametrize("case", REFERENCE["contraction"])
def test_contraction(case):
    names = ("noise", "step_size", "lipschitz", "smoothness", "strong_convexity", "diameter")
    arguments = {name: case[name] for name in names} | {"n_samples": case["n"]}
    for key, options in (
        ("gaussian_delta", {}),
        ("laplace_delta", {"distribution": "laplace"}),
        ("random_stop_gaussian_delta", {"stopping": "random"}),
    ):
        one = contraction(OnePass(**arguments, **options), index=case["index"])
        delta = one.delta(case["epsilon"])
        assert delta == approx(case[key], rel=1e-9, abs=0)


@pytest.mark.parametrize("case", REFERENCE["without_replacement_recursion"])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_recursion(case, adjacency):
    m = WithoutReplacement(
        n_samples=case["n"],
        batch_size=case["batch_size"],
        n_epochs=case["n_epochs"],
        noise_multiplier=case["noise_multiplier"],
        step_size=case["step_size"],
        strong_convexity=case["strong_convexity"],
        smoothness=1.0,
        adjacency=adjacency,
    )
    assert recursion(m).rdp(case["alpha"]) == approx(case["rdp"], rel=1e-9)


MILLION = 10**6


def passes(n_steps, noise_multiplier, **options):
    return one_pass(n_samples=n_steps, noise=noise_multiplier / 100, step_size=0.1, **options)


SLOW = {"step_size": 0.1, "strong_convexity": 1e-3}
CLOSED_FORMS = {
    "composition": (composition, partial(descent, **SLOW)),
    "langevin": (langevin, partial(descent, **SLOW)),
    "last_iterate": (last_iterate, partial(descent, **SLOW)),
    "bounded domain": (last_iterate, partial(descent, **SLOW, diameter=1.0, sensitivity=1e-3)),
    "cyclic batches": (
        last_iterate,
        lambda n_steps, **noise: cyclic(
            n_samples=1000, batch_size=1, n_epochs=n_steps // 1000, **SLOW, **noise
        ),
    ),
    "one pass": (last_iterate, passes),
    "contraction": (contraction, passes),
    "random stop": (contraction, partial(passes, stopping="random")),
}


@pytest.mark.system
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms_take_as_long_for_a_million_steps_as_for_a_thousand(name):
    """A loop over the steps would take about a thousand times as long."""
    accountant, run = CLOSED_FORMS[name]

    def cost(n_steps):  # of other noise each time, so that nothing is remembered
        return lambda repeat: accountant(run(n_steps=n_steps, noise_multiplier=500 + repeat))

    assert times_as_long(cost(MILLION), cost(1000)) < 30


def test_a_single_step_is_a_gaussian_mechanism():
    for m in (
        descent(n_steps=1, noise_multiplier=2.0),
        cyclic(n_samples=10, n_epochs=1, noise_multiplier=2.0),
        fresh(n_samples=10, n_epochs=1, noise_multiplier=2.0),
        Gaussian(2.0),
        poisson(sampling_probability=1.0, noise_multiplier=4.0, n_steps=1),
        poisson(sampling_probability=1.0, noise_multiplier=2.0, n_steps=1, adjacency="add_remove"),
        one_pass(n_samples=1, noise=4.0, smoothness=1.0, diameter=1e9),
    ):
        best = tightest(m)
        assert best.guarantee.epsilon(1e-6) == approx(GaussianDP(0.5).epsilon(1e-6), rel=1e-12)
        for other in (a for a in best.alternatives.values() if not isinstance(a, Exception)):
            assert other.epsilon(1e-6) >= best.guarantee.epsilon(1e-6) * (1 - 1e-12)


# --- as textbooks print them: never below ours ----------------------------------------------------


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-100])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 3.0])
def test_classic_conversion_is_never_below_the_tight_one(rate, delta):
    curve = LinearCurve(rate)
    tight = RenyiDP(curve)
    classic = RenyiDP(curve, conversion="classic")
    exact = GaussianDP(math.sqrt(2 * rate)).epsilon(delta)
    assert exact <= tight.epsilon(delta) <= classic.epsilon(delta)
    closed = rate + 2 * math.sqrt(rate * math.log(1 / delta))
    assert classic.epsilon(delta) == approx(closed, rel=1e-6)
    assert classic.delta(closed) == approx(delta, rel=1e-6)


def test_textbook_chain_is_never_below_the_numerical_bound():
    run = {"noise_multiplier": 8.0}
    sampled = poisson(sampling_probability=0.01, n_steps=200, adjacency="add_remove", **run)
    for record in (sampled, fresh(n_samples=1000, n_epochs=2, **run)):
        for delta in (1e-3, 1e-6):
            chains = textbook(1 / 8.0, record.n_steps, 0.01, delta)
            assert min(chains) >= subsampling(record).epsilon(delta)


def test_langevin_without_contraction_costs_twice_what_composition_costs():
    curvature = {"strong_convexity": 0.7, "smoothness": 2.0}
    m = descent(n_steps=300, noise_multiplier=40.0, step_size=0.1, **curvature)
    assert langevin(m).rdp(7) == approx(theorem_2(m, 0.35)(7), rel=1e-12)
    assert theorem_2(m, 1e-9)(7) == approx(2 * composition(m).rdp(7), rel=1e-3)
