"""What registers itself, what it needs as data, and how little a calibration asks."""

import inspect
import math
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    ACCOUNTANTS,
    Budget,
    Composition,
    CyclicBatches,
    Gaussian,
    GaussianDP,
    NoisyGradientDescent,
    OnePass,
    PoissonSubsampled,
    Selection,
    budget as budgets,
    calibrate,
    contraction,
    least_noise,
    mechanisms,
    most_steps,
    releases,
    selection,
    tightest,
)
from skdpdyn.privacy.accountants import accountant
from skdpdyn.privacy.calibration import judge as judged
from skdpdyn.privacy.fields import Checked, checks_of
from skdpdyn.privacy.guarantees import composes_numerically
from skdpdyn.privacy.needs import NEEDS, Needs, needs, rewards_unequal_last_steps
from skdpdyn.privacy.schedules import largest_step_size
from skdpdyn.privacy.stored import TYPES, stored

DESCENT = {"n_steps": 500, "step_size": 0.02, "strong_convexity": 1.0, "smoothness": 4.0}
ONE_PASS = OnePass(
    n_samples=40, noise=2.0, step_size=0.5, lipschitz=1.0, smoothness=0.5, diameter=1.0
)

OUTSIDE = '''
from dataclasses import dataclass

from bound_laws import BoundLaws
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import ACCOUNTANTS, Adjacency, GaussianDP, from_json, least_noise, to_json
from skdpdyn.privacy.accountants import accountant
from skdpdyn.privacy.stored import stored


@stored
@dataclass(frozen=True, kw_only=True)
class Twice:
    """A statistic that is released twice, each time with noise of its own."""

    noise_multiplier: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE


@accountant("twice: Dong, Roth and Su (2022), Corollary 3.3, for two")
def twice(mechanism):
    raise UnsupportedMechanismError(f"twice has no theorem for {type(mechanism).__name__}")


@twice.register
def _(mechanism: Twice):
    return GaussianDP(2**0.5 / mechanism.noise_multiplier, mechanism.adjacency)


class TestTwice(BoundLaws):
    accountants = {"twice": twice}
    records = {"twice": Twice(noise_multiplier=3.0)}


def test_the_rest_of_the_package_takes_it():
    record = least_noise(lambda noise: Twice(noise_multiplier=noise), 1.0, 1e-5)
    assert from_json(to_json(record)) == record
    assert twice(record).epsilon(1e-5) <= 1.0 == round(twice(record).epsilon(1e-5), 6)
    assert ACCOUNTANTS["twice"] is twice
'''


@pytest.mark.system
def test_a_package_outside_can_run_the_laws(tmp_path):
    (tmp_path / "test_outside.py").write_text(OUTSIDE)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    command = [sys.executable, *options, tmp_path]
    environment = os.environ | {"PYTHONPATH": path}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "11 passed" in run.stdout


def test_registration_refuses_a_second_of_a_name():
    with pytest.raises(ValueError, match="'langevin' is there already"):
        accountant("another form of it")(ACCOUNTANTS["langevin"])
    already = r"Gaussian is registered already, by skdpdyn\.privacy\.mechanisms"
    with pytest.raises(ValueError, match=already):
        stored(type("Gaussian", (), {}))
    with pytest.raises(ValueError, match="PrivacyLossDP is registered already"):
        composes_numerically(GaussianDP)
    assert TYPES["Gaussian"] is Gaussian


def test_fields_of_records_are_given_by_keyword():
    modules = mechanisms.__name__, releases.__name__
    kinds = [kind for kind in CHECKED if kind.__module__ in modules]
    assert len(kinds) == 12
    of_all = ((kind.__name__, one) for kind in kinds for one in fields(kind))
    by_position = {(kind, one.name) for kind, one in of_all if not one.kw_only}
    assert by_position == {("Gaussian", "noise_multiplier"), ("Composition", "mechanisms")}
    with pytest.raises(TypeError):
        Gaussian(*(1.0, "add_remove"))


# --- needs ----------------------------------------------------------------------------------------


def test_needs_are_those_that_the_theorems_check():
    """Each accountant refuses, by name, what it says that it needs, and takes all else."""
    assert {name: judge.needs for name, judge in ACCOUNTANTS.items()} == NEEDS
    good = NoisyGradientDescent(noise_multiplier=250.0, **DESCENT)
    broken = {
        "contraction": replace(good, smoothness=None),
        "equal_steps": replace(good, step_size=[0.02] * 499 + [0.01]),
        "last_iterate_only": replace(good, release="all"),
        "step_below_inverse_smoothness": replace(good, step_size=0.3),
    }
    assert set(broken) == {one.name for one in fields(Needs)}
    for name in ("composition", "langevin", "last_iterate"):
        ACCOUNTANTS[name](good)
        for need, record in broken.items():
            if getattr(needs(name), need):
                with pytest.raises(UnsupportedMechanismError, match=f"{name} .* needs"):
                    ACCOUNTANTS[name](record)
            else:
                ACCOUNTANTS[name](record)
    sizes = {"n_samples": 10, "batch_size": 5, "n_epochs": 2, "noise_multiplier": [1, 2, 3, 4]}
    cyclic = CyclicBatches(step_size=0.1, smoothness=1.0, **sizes)
    for name in ("composition", "iteration", "last_iterate"):
        if needs(name).equal_steps:
            with pytest.raises(UnsupportedMechanismError, match="the same step_size"):
                ACCOUNTANTS[name](cyclic)
        else:
            ACCOUNTANTS[name](cyclic)


def test_what_solvers_read_from_needs():
    assert needs("tightest") == Needs()
    rewarded = set(filter(rewards_unequal_last_steps, (*ACCOUNTANTS, "tightest")))
    assert rewarded == {"last_iterate", "tightest"}
    steps = {name: largest_step_size(0.1, 1.0, name) for name in (*ACCOUNTANTS, "tightest")}
    assert {name for name, step in steps.items() if step < 1.0} == {"langevin"}
    assert {step for name, step in steps.items() if name != "langevin"} == {2 / 1.1}
    for question in (needs, rewards_unequal_last_steps):
        with pytest.raises(ValueError, match="bound='magic' must be 'tightest' or one of"):
            question("magic")


# --- the tightest bound ---------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """Return the accountants that are asked, in order, and what they are asked about."""
    calls = []
    for name, judge in ACCOUNTANTS.items():

        def counted(mechanism, *options, _judge=judge, _name=name, **named):
            calls.append((_name, mechanism))
            return _judge(mechanism, *options, **named)

        vars(counted).update(vars(judge))
        counted.dispatch = judge.dispatch
        monkeypatch.setitem(ACCOUNTANTS, name, counted)
    return calls


def test_tightest_asks_only_who_can_win(asked):
    best = tightest(NoisyGradientDescent(noise_multiplier=250.0, **DESCENT))
    assert {name for name, _ in asked} == {"composition", "last_iterate"}
    assert best.alternatives["langevin"].epsilon(1e-6) > best.guarantee.epsilon(1e-6)
    assert "no theorem" in str(best.alternatives["selection"])
    asked.clear()
    # Where last_iterate does not hold, whoever is never below it may win
    odd = replace(ONE_PASS, smoothness=0.3, strong_convexity=0.4)
    tightest(odd)
    names = {name for name, _ in asked}
    assert names == {"composition", "contraction", "iteration", "last_iterate"}
    asked.clear()
    batches = PoissonSubsampled(sampling_probability=0.1, noise_multiplier=4.0, n_steps=10)
    tightest(Composition((Gaussian(2.0), batches)))
    assert "subsampling" not in {name for name, record in asked if isinstance(record, Composition)}


def test_tightest_says_which_form_it_used():
    stopped = tightest(replace(ONE_PASS, stopping="random", diameter=0.1))
    if stopped.bound == "contraction":
        assert stopped.guarantee == contraction(stopped.mechanism, tight=True)
    best = tightest(Selection(trial=GaussianDP(1.0), expected_trials=4.0, shape=math.inf))
    assert best.theorem.startswith("selection(tight=True): Papernot and Steinke (2022)")
    assert best.bound == "selection"
    assert best.guarantee == selection(best.mechanism, tight=True)
    assert best.guarantee.epsilon(1e-6) < selection(best.mechanism).epsilon(1e-6)
    for record in (Gaussian(2.0), ONE_PASS, NoisyGradientDescent(noise_multiplier=9.0, **DESCENT)):
        best = tightest(record)
        assert best.theorem.startswith(best.bound)
        assert best.bound in ACCOUNTANTS


def test_calibration_asks_no_more_than_can_win(asked, monkeypatch):
    """Two records of Gaussian noise by two accountants each, and mu is found once."""
    inverted = []
    found = budgets.gdp_mu
    monkeypatch.setattr(budgets, "gdp_mu", lambda *pair: inverted.append(pair) or found(*pair))
    budget = Budget(1.0, 1e-6)
    descent = NoisyGradientDescent(noise_multiplier=1.0, **DESCENT)
    record = least_noise(lambda noise: replace(descent, noise_multiplier=noise), budget)
    assert {name for name, _ in asked} == {"composition", "last_iterate"}
    assert len(asked) == 2 * 2
    bound, guarantee = judged(record, 1e-6)
    assert budget.mu == pytest.approx(guarantee.mu, rel=1e-12)
    assert inverted == [(1.0, 1e-6)]
    assert bound == "last_iterate"
    assert 1 - 1e-6 < guarantee.epsilon(1e-6) <= 1.0


# --- budgets --------------------------------------------------------------------------------------


def test_a_budget_stands_for_its_numbers():
    problem = {"n_samples": 10_000, "n_features": 50, "lipschitz": 1.0}
    problem |= {"strong_convexity": 0.01, "smoothness": 0.26}

    def steps(n_steps):
        return NoisyGradientDescent(n_steps=n_steps, noise_multiplier=20.0, step_size=1.0)

    for adjacency in ("replace_one", "add_remove"):
        budget = Budget(1.0, 1e-5, adjacency)

        def gaussian(noise, adjacency=adjacency):
            return Gaussian(noise, adjacency=adjacency)

        assert least_noise(gaussian, budget) == least_noise(gaussian, 1.0, 1e-5)
        by_composition = least_noise(gaussian, budget, bound="composition")
        assert by_composition == least_noise(gaussian, 1.0, 1e-5, "composition")
        for n_steps in ("curvature", "worst_case", "theorem4", 7):
            options = {"n_steps": n_steps, "adjacency": adjacency, **problem}
            assert calibrate(budget, **options) == calibrate(1.0, 1e-5, **options)
    assert most_steps(steps, Budget(1.0, 1e-5)).n_steps == most_steps(steps, 1.0, 1e-5).n_steps
    other = Budget(1.0, 1e-5, "add_remove")
    for ask in (
        lambda: least_noise(Gaussian, other),
        lambda: most_steps(steps, other),
        lambda: calibrate(other, **problem),
    ):
        with pytest.raises(ValueError, match=r"adjacency=.* must be that of the"):
            ask()
    with pytest.raises(ValueError, match="delta=1e-05 must not be given beside a Budget"):
        least_noise(Gaussian, other, 1e-5)
    with pytest.raises(ValueError, match="mechanism_for=3 must be a function of noise_multiplier"):
        least_noise(3, 1.0, 1e-5)


CHECKED = [kind for kind in TYPES.values() if kind.__module__.startswith("skdpdyn")]


@pytest.mark.parametrize("kind", CHECKED, ids=lambda kind: kind.__name__)
def test_fields_say_what_they_hold_and_refuse_all_else(kind):
    """No number, name or flag is without a check, and no way into a record goes around it."""
    known = {name: check for name, check, _ in checks_of(kind)}
    hints = get_type_hints(kind)
    plain = (float, int, bool, str, float | None, int | None)
    assert {one.name for one in fields(kind) if hints[one.name] in plain} <= known.keys()
    if known:
        assert issubclass(kind, Checked)
        assert " at 0x" not in str(inspect.signature(kind))  # which help shows
        made = inspect.getsource(kind.__post_init__)
        assert kind.__post_init__ is Checked.__post_init__ or "super().__post_init__()" in made
    for name, check in known.items():
        odd = [math.nan, 1j, object(), "no such name", np.array(["a"]), b"1", [None]]
        for value in odd + [True] * (hints[name] is not bool):
            with pytest.raises(ValueError, match=name):
                check(value, name)
