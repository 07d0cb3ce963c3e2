"""How fine additive models are follows from what is public, and from released base rates."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from skdpdyn import PrivateGAMClassifier, PrivateLogisticRegression
from skdpdyn.core import rules
from skdpdyn.privacy import composition

N_ROWS = 20_000
BOUNDS = (-1, 1)


def table(rate, seed=0):
    """Return rows of four columns, of which one tells log odds, and labels of a rate, about."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N_ROWS, 4))
    y = rng.random(N_ROWS) < rate * np.exp(2 * X[:, 0]) / np.sinh(2) * 2
    return X, y


def curves(**parameters):
    """Return an additive model with given facts."""
    return PrivateGAMClassifier(bounds=BOUNDS, classes=[False, True], **parameters)


def test_curves_of_rare_classes_are_as_fine_as_their_records_pay_for():
    """What they do not buy goes to training: the cost of the fit is the one that was declared."""
    model = curves(random_state=0)
    declared = model.privacy_cost(N_ROWS, 4)
    common, rare = (_told(model.fit(*table(rate))) for rate in (0.3, 0.01))
    assert common["n_terms"] == 8
    assert rare["n_terms"] <= 3
    assert common["pairs"]
    assert not rare["pairs"]
    assert "column distributions" in common["names"]
    assert "column distributions" not in rare["names"]
    for fit in (common, rare):
        assert fit["names"][0] == "class counts"
        assert fit["cost"] == declared
        assert 1 - 1e-6 < fit["spent"] <= 1


def test_pairs_that_are_named_are_kept_where_a_class_is_rare():
    """Terms follow from what was asked for and from public numbers, not from the labels."""
    for rate in (0.3, 0.01):
        model = curves(interactions=[(0, 1)], random_state=0).fit(*table(rate))
        assert "x0 * x1" in model.terms_


def _told(model):
    """Return what a fit tells of its tables, and the part of mu that its releases cost."""
    expansion = model.expansion_
    return {
        "n_terms": expansion.n_terms,
        "pairs": expansion.pairs,
        "names": model.mechanism_.names,
        "cost": model.privacy_,
        "spent": composition(model.mechanism_).mu / model.privacy_.mu,
    }


def test_classes_that_are_not_rare_change_nothing():
    """Of 15 % and more."""
    assert rules.strength_of_curves(1000.0, 4 * 0.15 * 0.85) == 1000.0
    assert rules.strength_of_curves(1000.0, 4 * 0.01 * 0.99) < 80.0


@pytest.mark.slow
def test_an_additive_model_of_few_events_is_near_a_linear_one():
    """Of 200 events whose law is linear: .74 and .70 of AUC, and .63 with curves of all records."""
    X, y = table(0.01)
    X_new, y_new = table(0.01, seed=1)
    scores = []
    for seed in range(4):
        linear = PrivateLogisticRegression(classes=[False, True], random_state=seed)
        fits = curves(random_state=seed).fit(X, y), linear.fit(X, y)
        scores.append([roc_auc_score(y_new, fit.decision_function(X_new)) for fit in fits])
    additive, linear = np.mean(scores, axis=0)
    assert additive > max(linear - 0.06, 0.66)
