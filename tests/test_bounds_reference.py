"""Reference values (tests/data/privacy_bounds.json), met to 1e-9 relative, and the speeds that
the bounds promise.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from timing import times_as_long

from skdpdyn.privacy import (
    CyclicBatches,
    Gaussian,
    GaussianDP,
    NoisyGradientDescent,
    OnePass,
    PoissonSubsampled,
    WithoutReplacement,
    composition,
    contraction,
    langevin,
    last_iterate,
    last_iterate_mu,
    recursion,
    subsampling,
    tightest,
)
from skdpdyn.privacy.guarantees import gdp_mu

REFERENCE = json.loads((Path(__file__).parent / "data" / "privacy_bounds.json").read_text())
approx = pytest.approx


@pytest.mark.parametrize("case", REFERENCE["gdp_mu"])
def test_gdp_mu(case):
    assert gdp_mu(case["epsilon"], case["delta"]) == approx(case["mu"], rel=1e-9)


@pytest.mark.parametrize("case", REFERENCE["gdp_epsilon"])
def test_gdp_epsilon(case):
    assert GaussianDP(case["mu"]).epsilon(case["delta"]) == approx(case["epsilon"], rel=1e-9)


@pytest.mark.parametrize("case", REFERENCE["noisy_gd"])
def test_noisy_gd(case):
    unit = case["total_sensitivity"] / case["n"]
    m = NoisyGradientDescent(
        n_steps=case["n_steps"],
        noise_multiplier=case["sigma"] * np.sqrt(2 / case["step_size"]) / unit,
        step_size=case["step_size"],
        strong_convexity=case["strong_convexity"],
        smoothness=case["smoothness"] + 1e-12,  # a curvature of 4 = smoothness is in the list
    )
    order = case["alpha"]
    assert langevin(m).rdp(order) == approx(case["langevin_rdp"], rel=1e-9)
    assert composition(m).rdp(order) == approx(case["composition_rdp"], rel=1e-9)
    assert last_iterate(m).mu == approx(case["exact_mu"], rel=1e-9)
    assert last_iterate(m).rdp(order) == approx(case["exact_rdp"], rel=1e-9)


@pytest.mark.parametrize("case", REFERENCE["schedule"])
def test_schedule(case):
    assert last_iterate_mu(case["contraction"], case["sensitivity"], case["noise_std"]) == approx(
        case["mu"], rel=1e-9
    )


@pytest.mark.parametrize("case", REFERENCE["contraction"])
def test_contraction(case):
    names = ("noise", "step_size", "lipschitz", "smoothness", "strong_convexity", "diameter")
    arguments = {name: case[name] for name in names} | {"n_samples": case["n"]}
    for key, options in (
        ("gaussian_delta", {}),
        ("laplace_delta", {"distribution": "laplace"}),
        ("random_stop_gaussian_delta", {"stopping": "random"}),
    ):
        delta = contraction(OnePass(**arguments, **options), index=case["index"]).delta(
            case["epsilon"]
        )
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


@pytest.mark.parametrize("case", REFERENCE["bounded_domain_convex"])
def test_bounded_domain(case):
    m = NoisyGradientDescent(
        n_steps=case["n_steps"],
        noise_multiplier=case["noise_std"] / case["sensitivity"],
        step_size=1.0,
        smoothness=1.0,
        diameter=case["diameter"],
        sensitivity=case["sensitivity"],
    )
    assert last_iterate(m).mu == approx(case["mu"], rel=1e-9)


MILLION = 10**6
CLOSED_FORMS = {
    "composition": (
        composition,
        lambda n: NoisyGradientDescent(
            n_steps=n, noise_multiplier=500.0, step_size=0.1, strong_convexity=1e-3, smoothness=1.0
        ),
    ),
    "langevin": (
        langevin,
        lambda n: NoisyGradientDescent(
            n_steps=n, noise_multiplier=500.0, step_size=0.1, strong_convexity=1e-3, smoothness=1.0
        ),
    ),
    "last_iterate": (
        last_iterate,
        lambda n: NoisyGradientDescent(
            n_steps=n, noise_multiplier=500.0, step_size=0.1, strong_convexity=1e-3, smoothness=1.0
        ),
    ),
    "bounded domain": (
        last_iterate,
        lambda n: NoisyGradientDescent(
            n_steps=n,
            noise_multiplier=500.0,
            step_size=0.1,
            strong_convexity=1e-3,
            smoothness=1.0,
            diameter=1.0,
            sensitivity=1e-3,
        ),
    ),
    "cyclic batches": (
        last_iterate,
        lambda n: CyclicBatches(
            n_samples=1000,
            batch_size=1,
            n_epochs=n // 1000,
            noise_multiplier=50.0,
            step_size=0.1,
            strong_convexity=1e-3,
            smoothness=1.0,
        ),
    ),
    "one pass": (
        last_iterate,
        lambda n: OnePass(
            n_samples=n, noise=4.0, step_size=0.1, lipschitz=1.0, smoothness=1.0, diameter=1.0
        ),
    ),
    "contraction": (
        contraction,
        lambda n: OnePass(
            n_samples=n, noise=4.0, step_size=0.1, lipschitz=1.0, smoothness=1.0, diameter=1.0
        ),
    ),
    "random stop": (
        contraction,
        lambda n: OnePass(
            n_samples=n,
            noise=4.0,
            step_size=0.1,
            lipschitz=1.0,
            smoothness=1.0,
            diameter=1.0,
            stopping="random",
        ),
    ),
}


def growth(bound, mechanism, small, large):
    """How many times longer a bound takes for a large number of steps: other noise every time,
    so that nothing is remembered.
    """
    costs = (
        lambda repeat, n_steps=n_steps: bound(mechanism(n_steps, repeat))
        for n_steps in (large, small)
    )
    return times_as_long(*costs)


@pytest.mark.system
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms_take_as_long_for_a_million_steps_as_for_a_thousand(name):
    """A loop over the steps would take about a thousand times as long."""
    accountant, mechanism = CLOSED_FORMS[name]
    assert (
        growth(
            lambda m: accountant(m).delta(1.0), lambda n_steps, _: mechanism(n_steps), 1000, MILLION
        )
        < 30
    )


@pytest.mark.system
@pytest.mark.slow
def test_arrays_of_steps_take_linear_time():
    """About ten times as long for ten times the steps; nine times as long as passes of numpy, in
    a domain fifteen times.
    """
    step_size = np.random.default_rng(0).uniform(0.1, 0.2, MILLION)

    def passes(_):
        return np.exp(np.cumsum(np.log1p(-step_size)))

    def steps(n_steps, repeat):
        return NoisyGradientDescent(
            n_steps=n_steps,
            noise_multiplier=500.0 + repeat,
            step_size=step_size[:n_steps],
            strong_convexity=1e-3,
            smoothness=1.0,
        )

    def steps_in_a_domain(n_steps, repeat):
        return replace(steps(n_steps, repeat), diameter=1.0, sensitivity=1e-3)

    assert growth(last_iterate, steps, MILLION // 10, MILLION) < 40
    assert growth(last_iterate, steps_in_a_domain, 1000, 10_000) < 40
    assert times_as_long(lambda repeat: last_iterate(steps(MILLION, repeat)), passes) < 80
    assert (
        times_as_long(lambda repeat: last_iterate(steps_in_a_domain(10_000, repeat)), passes) < 75
    )


@pytest.mark.system
@pytest.mark.slow
def test_numerical_bounds_hardly_grow_with_the_number_of_steps():
    """A hundred times the steps: the recursion stops when it has converged, and a convolution
    with itself is one power.
    """

    def epochs(n_epochs, repeat):
        return WithoutReplacement(
            n_samples=45_000,
            batch_size=450,
            n_epochs=n_epochs,
            noise_multiplier=4.0 + repeat / 100,
            step_size=0.5,
            strong_convexity=0.01,
            smoothness=1.0,
        )

    assert growth(lambda m: recursion(m).rdp(8.0), epochs, 1000, 100_000) < 30
    for adjacency in ("replace_one", "add_remove"):

        def poisson(n_steps, repeat, adjacency=adjacency):
            return PoissonSubsampled(
                sampling_probability=0.0101,
                noise_multiplier=1.01 + repeat / 100,
                n_steps=n_steps,
                adjacency=adjacency,
            )

        assert growth(lambda m: subsampling(m).epsilon(1e-5), poisson, 10, 1000) < 30


def test_a_single_step_is_a_gaussian_mechanism():
    for m in (
        NoisyGradientDescent(
            n_steps=1, noise_multiplier=2.0, step_size=0.5, strong_convexity=0.1, smoothness=1.0
        ),
        CyclicBatches(
            n_samples=10,
            batch_size=10,
            n_epochs=1,
            noise_multiplier=2.0,
            step_size=0.5,
            strong_convexity=0.1,
            smoothness=1.0,
        ),
        WithoutReplacement(
            n_samples=10,
            batch_size=10,
            n_epochs=1,
            noise_multiplier=2.0,
            step_size=0.5,
            strong_convexity=0.1,
            smoothness=1.0,
        ),
        Gaussian(2.0),
        PoissonSubsampled(sampling_probability=1.0, noise_multiplier=4.0, n_steps=1),
        PoissonSubsampled(
            sampling_probability=1.0, noise_multiplier=2.0, n_steps=1, adjacency="add_remove"
        ),
        OnePass(n_samples=1, noise=4.0, step_size=0.5, lipschitz=1.0, smoothness=1.0, diameter=1e9),
    ):
        best = tightest(m)
        assert best.guarantee.epsilon(1e-6) == approx(GaussianDP(0.5).epsilon(1e-6), rel=1e-12)
        for other in (a for a in best.alternatives.values() if not isinstance(a, Exception)):
            assert other.epsilon(1e-6) >= best.guarantee.epsilon(1e-6) * (1 - 1e-12)


@pytest.mark.system
def test_importing_privacy_loads_no_heavy_library():
    code = (
        "import sys, skdpdyn.privacy; heavy = 'numba', 'sklearn', 'dp_accounting', 'matplotlib'; "
        "print([m for m in heavy if m in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert loaded == "[]"
