"""Answers to what users get wrong first."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import has_fit_parameter

from skdpdyn import PrivateLogisticRegression, PrivatePoissonRegressor, PrivateRidge
from skdpdyn.evaluation import evaluate
from skdpdyn.exceptions import PrivacyWeakWarning
from skdpdyn.inference import private_regression
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
from skdpdyn.solvers import SOLVERS, NoisyGD, ObjectivePerturbation, OutputPerturbation

X = np.random.default_rng(0).uniform(-0.5, 0.5, (100, 2))
Y = (X[:, 0] > 0).astype(int)
SOLVER = NoisyGD(n_steps=3)
FITS = {
    "logistic": PrivateLogisticRegression(classes=[0, 1], solver=SOLVER),
    "poisson": PrivatePoissonRegressor(target_bounds=(0, 2), solver=SOLVER),
    "scaler": PrivateScaler(),
    "search": PrivateSearchCV(PrivateLogisticRegression(classes=[0, 1]), {"clip": [0.3, 0.5]}),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize(
    ("epsilon", "delta", "said"),
    [
        (20.0, 0.01, []),
        (21.0, 1e-3, ["epsilon=21 is above 20"]),
        (1.0, 0.02, ["delta=0.02 is above 1/n_samples=0.01"]),
        (30.0, 0.5, ["epsilon=30 is above 20", "delta=0.5 is above 1/n_samples=0.01"]),
    ],
)
def test_weak_budgets_are_warned_of_once_at_the_line_of_the_user(name, epsilon, delta, said):
    model = FITS[name].set_params(epsilon=epsilon, delta=delta)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y)
    assert [w.category for w in caught] == [PrivacyWeakWarning] * len(said)
    for warning, start in zip(caught, said, strict=True):
        assert str(warning.message).startswith(start)
        assert warning.filename == __file__


def test_weak_budgets_of_scores_and_tables_are_warned_of():
    options = {"clip": 2.0, "conditioning": None, "solver": "objective_perturbation"}
    model = clone(FITS["logistic"]).set_params(**options)
    model.set_params(epsilon=1.0, delta=1e-4).fit(X, Y)
    for release in (evaluate, partial(private_regression, bounds=(-1, 1))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            release(model, X, Y, epsilon=25.0, delta=0.5)
        assert [w.category for w in caught] == [PrivacyWeakWarning] * 2
        assert {w.filename for w in caught} == {__file__}


def test_a_pure_budget_names_the_solvers_that_can_keep_it():
    model = PrivateLogisticRegression(delta=0, classes=[0, 1])
    with pytest.raises(ValueError, match=r"delta=0 must be .*ObjectivePerturbation") as error:
        model.fit(X, Y)
    named = [kind for kind in set(SOLVERS.values()) if kind.__name__ in str(error.value)]
    assert set(named) == {ObjectivePerturbation, OutputPerturbation}
    for kind in named:
        assert model.set_params(solver=kind(noise="gamma")).fit(X, Y).delta_ == 0


@pytest.mark.parametrize("model", [PrivateRidge(), FITS["logistic"]], ids=["ridge", "logistic"])
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("C", r"scikit-learn's C is 1/\(n_samples \* alpha\)"),
        ("sample_weight", "Give weight_bounds, and sample_weight to fit"),
        ("max_iter", r"solver=NoisyGD\(n_steps=...\)"),
        ("tol", "a number of steps that is fixed beforehand"),
        ("warm_start", "begins anew"),
        ("penalty", "it is L2, of strength alpha"),
        ("class_weight", "a threshold on decision_function"),
    ],
)
def test_parameters_of_scikit_learn_are_answered(model, name, answer):
    """By set_params, and where most are written: in the call that makes the model."""
    if name in model.get_params():
        return
    answer = f"{name} is no parameter of private models: .*{answer}"
    with pytest.raises(ValueError, match=answer):
        model.set_params(**{name: 1.0})
    with pytest.raises(TypeError, match=answer):
        type(model)(**{name: 1.0})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        type(model)(nonsense=1.0)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(nonsense=1.0)


def test_bounds_must_be_given():
    """(0, 1) for all columns by default would make every age 1."""
    with pytest.raises(ValueError, match=r"bounds=None: give the public bounds"):
        BoundsScaler().fit(X)


@pytest.mark.parametrize(
    ("model", "instead"),
    [
        (FITS["logistic"], r"class_weight=\{label: weight\} of public numbers"),
        (PrivateRidge(target_bounds=(-1, 1)), "exposure to PrivatePoissonRegressor.fit"),
        (PrivatePoissonRegressor(target_bounds=(0, 1)), "exposure to PrivatePoissonRegressor.fit"),
    ],
    ids=["logistic", "ridge", "poisson"],
)
def test_weights_of_records_are_answered_by_fit(model, instead):
    model = clone(model)
    weights = np.ones(len(X))
    instead = f"Or, for several rows of one person.*{instead}.*cost as k"
    answer = rf"fit takes no sample_weight: .*weight_bounds=\(low, high\).*{instead}"
    with pytest.raises(TypeError, match=answer):
        model.fit(X, Y, sample_weight=weights)
    step = type(model).__name__.lower()
    with pytest.raises(TypeError, match=answer):
        make_pipeline(BoundsScaler((-1, 1)), model).fit(X, Y, **{f"{step}__sample_weight": weights})
    with pytest.raises(TypeError, match=r"fit takes no argument 'weight'"):
        model.fit(X, Y, weight=weights)
    # nothing is promised to those who ask beforehand, but for routing
    assert not has_fit_parameter(model, "sample_weight")
    assert model.get_metadata_routing().fit.requests["sample_weight"] is None
    assert not hasattr(model, "coef_")
