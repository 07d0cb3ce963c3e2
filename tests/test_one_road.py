"""One road for a fit: what is written outside of the package takes it, and the docs describe it."""

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest
from scipy import sparse

import skdpdyn
from skdpdyn import PrivateGAMClassifier, PrivateLogisticRegression
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import Sealed
from skdpdyn.core.spending import TRAINING, Share, Spending
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import (
    Adjacency,
    Budget,
    Composition,
    Gaussian,
    ProfileMixture,
    Vocabulary,
    composition,
)
from skdpdyn.privacy.proofs import costs_no_more
from skdpdyn.solvers import NoisyGD, NoisySGD, Solver
from skdpdyn.solvers.noisy_gd import Learnt
from skdpdyn.training.plan import plan_of
from skdpdyn.training.purchase import Purchase
from skdpdyn.training.values import Learning

pytestmark = pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "extension"))  # where worker processes find it too
LogisticAgain = importlib.import_module("logistic_again").LogisticAgain
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (3000, 4)) * [1.0, 0.3, 0.1, 0.05]
Y = X[:, 1] + 3 * X[:, 3] > 0
PERSONS = np.arange(len(X)) // 2
SHARED = {"classes": [False, True], "random_state": 0}
MAP = PrivateLogisticRegression(**SHARED, bounds=None).fit(X, Y).conditioning_


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"solver": "noisy_sgd"},
        {"solver": "dp_sgd"},
        {"solver": "noisy_sgd", "conditioning": MAP},
        {"class_weight": "private"},
        {"conditioning": None},
        {"solver": "objective_perturbation"},
    ],
    ids=repr,
)
def test_an_estimator_from_outside_has_the_bits_of_the_built_in(options, adjacency):
    options = SHARED | {"adjacency": adjacency} | options
    shapes = [(X, {}), (sparse.csr_array(X), {}), (X.astype(np.float32), {"groups": PERSONS})]
    for rows, given in shapes[: 1 if "solver" in options else 3]:
        ours = PrivateLogisticRegression(**options).fit(rows, Y, **given)
        theirs = LogisticAgain(**options).fit(rows, Y, **given)
        assert ours.coef_.tobytes() == theirs.coef_.tobytes()
        assert ours.intercept_.tobytes() == theirs.intercept_.tobytes()
        assert ours.mechanism_ == theirs.mechanism_
        assert ours.privacy_ == theirs.privacy_
        assert ours.privacy_.with_unit("record") == theirs.privacy_cost(ours.n_samples_, 4)


def test_it_takes_forty_lines():
    text = (ROOT / "examples" / "extension" / "logistic_again.py").read_text()
    assert len(text.splitlines()) <= 40


def test_a_plan_needs_no_data():
    """It is a pure function of a frozen request: the same plan, and what is bought has names."""
    request = Purchase.of(PrivateLogisticRegression(classes=[0, 1]), 10_000, 20).request
    first = plan_of(request)
    again = plan_of(request)
    assert first == again
    assert first.guarantee == PrivateLogisticRegression(classes=[0, 1]).privacy_cost(10_000, 20)
    assert "column means" in first.shares
    with pytest.raises(AttributeError):
        request.n_samples = 3


def test_parts_of_a_record_have_names():
    model = PrivateLogisticRegression(bounds=None, **SHARED).fit(X, Y)
    record = model.mechanism_
    assert len(record.names) == len(record.mechanisms)
    assert {"column means", "second moments", "mapped lengths"} <= set(record.names)
    assert record[TRAINING].n_steps == model.n_iter_
    assert composition(record["row norms"]).mu < composition(record).mu
    with pytest.raises(KeyError, match="'weather' is no part of this record"):
        record["weather"]


def described():
    """Return the functions of the page, in order, with their files."""
    page = (ROOT / "doc" / "architecture.rst").read_text()
    _, heading, rest = page.partition("How a fit goes\n----")
    section, end, _ = rest.partition("\nFiles\n----")
    assert heading, "doc/architecture.rst has no section on how a fit goes"
    assert end, "the section on files must follow"
    return re.findall(r"^ +(\w+) +([\w/]+\.py)  ", section, flags=re.MULTILINE)


def test_the_page_on_how_a_fit_goes_holds_of_a_trace():
    """Every function of the page is entered, for the first time in the order of the page."""
    package = Path(skdpdyn.__file__).parent
    entered = []

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(package):
            entered.append((frame.f_code.co_name, path.relative_to(package).as_posix()))

    model = PrivateLogisticRegression(**SHARED).fit(X, Y)
    sys.setprofile(note)
    try:
        model.fit(X, Y)
    finally:
        sys.setprofile(None)
    names = described()
    assert len(names) >= 12
    places = [entered.index(name) for name in names]
    assert places == sorted(places)


def test_a_fit_hands_over_once_and_only_as_declared():
    request = Purchase.of(PrivateLogisticRegression(classes=[0, 1]), 10_000, 20).request
    (reason,) = request.recipe.hands_over
    for wrong in ("it is Monday", reason):
        learning = Learning(plan_of(request), None, None, request.recipe)
        if wrong == reason:
            learning.hand_over(reason)
            assert learning.recipe is request.recipe.hands_over[reason]
        with pytest.raises(CalibrationError, match="please report this"):
            learning.hand_over(wrong)


PLANNED = {
    "steps": {"conditioning": None, "bounds": None},
    "batches": {"conditioning": None, "bounds": None, "solver": "noisy_sgd"},
    "random batches": {"solver": "dp_sgd"},
    "a map": {"bounds": None},
}
"""Fits of which training is planned, or follows from what is bought."""


def test_a_fit_whose_cost_is_a_mixture_beside_what_is_bought_is_proved():
    """Gaussian parts enter all components of the mixture, of which none is the declared one."""
    model = PrivateGAMClassifier(classes=[False, True], bounds=(-1, 1))
    model.set_params(solver=NoisySGD(batch_size=500, n_epochs=2, sampling="shuffled_once"))
    model.fit(X[:, :2], Y)
    assert len(model.mechanism_.mechanisms) > 2
    assert isinstance(model.privacy_, ProfileMixture)
    assert model.privacy_ == model.privacy_cost(3000, 2)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", [*PLANNED, "curves"])
def test_a_fit_that_ran_another_record_publishes_nothing(name, late, monkeypatch):
    """Whoever calibrated it: here the last part of what ran had less noise than was planned, and
    that of training, which is judged before it runs, or only what is judged at the end.
    """
    record = Spending.record
    judged = []

    def louder(spending):
        ran = record(spending)
        judged.append(ran)
        if late and len(judged) == 1:
            return ran
        parts = ran.mechanisms if isinstance(ran, Composition) else (ran,)
        last = replace(parts[-1], noise_multiplier=0.9 * parts[-1].noise_multiplier)
        return Composition((*parts[:-1], last), names=getattr(ran, "names", None))

    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (300, 2))
    made = PrivateGAMClassifier(bounds=(-1, 1)) if name == "curves" else None
    model = made or PrivateLogisticRegression(**PLANNED[name])
    model.set_params(classes=[False, True])
    monkeypatch.setattr(Spending, "record", louder)
    with pytest.raises(CalibrationError, match="cost more than it declares"):
        model.fit(X, X[:, 0] > 0)
    assert not hasattr(model, "privacy_")


def test_less_gaussian_noise_than_was_planned_costs_more():
    """Beside other parts, too, which are the same: then the record itself is judged."""
    levels = Vocabulary(
        noise_multiplier=5.0, threshold=40.0, n_columns=1, most_levels=1, adjacency="replace_one"
    )
    planned = Composition((Gaussian(2.0), levels, Gaussian(3.0)))
    for noise in (1.99, 2.0, 2.01):
        ran = Composition((Gaussian(noise), levels, Gaussian(3.0)))
        assert costs_no_more(ran, planned) == (noise >= 2)
    assert not costs_no_more(Composition((Gaussian(9.0), Gaussian(9.0))), planned)


PUBLIC = {Objective, Budget, Adjacency, str}
"""Values of which all numbers are public, as their classes say."""


@pytest.mark.parametrize(
    "describe",
    [Solver.mechanism, NoisyGD.adapted, Learnt],
    ids=["mechanism", "adapted", "Learnt"],
)
def test_numbers_that_a_record_follows_from_are_public_or_released(describe):
    """By their types; that they are what these say, `test_spent` holds by replays."""
    hints = get_type_hints(describe, include_extras=True)
    for name, hint in hints.items():
        (kind, *_) = get_args(hint) if get_origin(hint) is tuple else (hint,)
        said = getattr(kind, "__metadata__", (None,))[0] in ("public", "released")
        assert said or kind in PUBLIC | {Learnt} or name == "return", name


def test_shares_beyond_the_budget_release_nothing():
    shares = {"one": Share(0.6), "other": Share(0.5)}
    spending = Spending.seeded(Budget(1.0, 1e-6), shares, None)
    with pytest.raises(CalibrationError, match=r"add up to 1\.1"):
        spending.release("one", Sealed(1.0))
    assert spending.record() is None
