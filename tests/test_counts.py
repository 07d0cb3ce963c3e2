"""What a plan does once, it does once: the counts of one default fit."""

import sys
from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone

from skdpdyn import PrivateLogisticRegression, PrivateRidge, PrivateSoftmaxRegression
from skdpdyn.core.objective import Objective
from skdpdyn.privacy import ACCOUNTANTS, Budget
from skdpdyn.privacy.guarantees import gdp_mu
from skdpdyn.privacy.mechanisms import NoisyGradientDescent

THEOREMS = {
    theorem.__code__
    for judge in ACCOUNTANTS.values()
    for theorem in judge.registry.values()
    if hasattr(theorem, "__code__")
}
COUNTED = {
    gdp_mu.__wrapped__.__code__: "inversions",
    Budget.__post_init__.__code__: "budgets",
    Objective.__init__.__code__: "objectives",
    NoisyGradientDescent.__post_init__.__code__: "records",
    **dict.fromkeys(THEOREMS, "theorems"),
}


def counts(function):
    """How often what is counted is called meanwhile."""
    called = Counter()
    gdp_mu.cache_clear()

    def count(frame, event, argument):
        if event == "call" and frame.f_code in COUNTED:
            called[COUNTED[frame.f_code]] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called


X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 20))
MODELS = {
    "logistic": (PrivateLogisticRegression(classes=[0, 1]), (X[:, 0] > 0).astype(int)),
    "softmax": (PrivateSoftmaxRegression(classes=[0, 1, 2]), np.digitize(X[:, 0], [-0.2, 0.2])),
    "ridge": (PrivateRidge(target_bounds=(-1, 1)), X[:, 0]),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_asks_no_cost_twice(name):
    """The budget is checked and inverted once, and few records are judged."""
    model, y = clone(MODELS[name][0]).set_params(conditioning=None), MODELS[name][1]
    called = counts(lambda: model.privacy_cost(*X.shape))
    assert (called["inversions"], called["budgets"]) == (1, 1)
    assert called["objectives"] <= 2  # without the penalty, which is derived from it, and with it
    assert called["records"] <= 4
    # Of nine accountants three have a theorem; langevin is asked only where last_iterate does not
    # hold. The plan is judged again
    assert called["theorems"] <= (3 if name == "softmax" else 2) * (called["records"] + 1)
    # steps that are exact sum another objective: the same problem, with room for rounding
    assert counts(lambda: model.fit(X, y)) - called <= Counter(objectives=1)


@pytest.mark.parametrize("name", MODELS)
def test_a_default_fit_judges_one_record(name):
    """What is left for training is a part of the budget, and is not inverted."""
    model, y = MODELS[name]
    called = counts(lambda: model.privacy_cost(*X.shape))
    assert (called["inversions"], called["budgets"]) == (1, 2)
    assert called["objectives"] <= 2
    assert called["records"] == called["theorems"] == 0
    # what is learnt says how steps are made; their noise is found, and judged, as any other
    assert counts(lambda: model.fit(X, y))["records"] <= 3
