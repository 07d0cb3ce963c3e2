"""Parameters of estimators, checked; and answers to users of scikit-learn on those they lack."""

import math
from collections.abc import Callable
from functools import update_wrapper, wraps
from inspect import Parameter, Signature, signature
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from skdpdyn.data.persons import checked_most_rows
from skdpdyn.privacy import Adjacency
from skdpdyn.privacy.arguments import checked_pair
from skdpdyn.privacy.checks import as_float, checked_choice, checked_flag, is_auto, is_named, quoted
from skdpdyn.privacy.needs import checked_bound
from skdpdyn.solvers import SOLVERS, NoisyGD, Solver
from skdpdyn.training.base import check_n_jobs, check_verbose

# floating point can square these, and multiply them by the shape of any data
_SMALLEST = 1e-50
_LARGEST = 1e50


def checked(model: Any) -> dict[str, Any]:
    """Check the parameters that need no shape; return those that a `Request` has."""
    fit_intercept = checked_flag(model.fit_intercept, "fit_intercept")
    data_norm = _positive("data_norm", model.data_norm, "a public bound on the norm of a row")
    alpha = 0.0
    scaling = None
    if is_auto(model.alpha) or as_float(model.alpha) != 0:
        alpha = _positive("alpha", model.alpha, "'auto' or the strength of the penalty", ">= 0")
    clip = _positive("clip", model.clip, "'auto' or a bound on the norm of a record's gradient")
    if fit_intercept:
        meaning = "'auto' or the intercept column's constant"
        scaling = _positive("intercept_scaling", model.intercept_scaling, meaning)
    checked_choice(model.adjacency, "adjacency", list(Adjacency))
    solver_of(model)
    checked_bound(model.bound)
    check_n_jobs(model.n_jobs)
    check_verbose(model.verbose)
    return {
        "data_norm": data_norm or 1.0,
        "alpha": alpha,
        "clip": clip,
        "fit_intercept": fit_intercept,
        "intercept_scaling": scaling,
        "of_rows": _of_rows(model),
        "least_weight": _least_weight(getattr(model, "weight_bounds", None)),
    }


def _of_rows(model):
    """Return whether predictions are those of a mean row, or raise for a missing parameter."""
    estimand = getattr(model, "estimand", "persons")
    if checked_choice(estimand, "estimand", ["persons", "rows"]) == "persons":
        return False
    if is_auto(model.max_rows_per_person):
        raise ValueError(
            "estimand='rows' needs max_rows_per_person, a public number: noise grows with it"
        )
    classes = model.family.targets.public(model)
    loss = None if classes is None else model.family.loss_of(classes)
    bought = getattr(model.family.units, "has_probabilities", False) and model.fit_intercept
    if not bought or loss is None or loss.n_outputs > 1:
        raise ValueError(
            "estimand='rows' is for two classes that are given, classes=[...], with an intercept. "
            "Other models have fit(..., equal_rows=True), where all rows weigh the same"
        )
    return True


def _least_weight(bounds):
    """Return the least weight of a row over the largest; 1 where none are given."""
    if bounds is None:
        return 1.0
    low, high = checked_pair(bounds, "weight_bounds")
    if not 0 <= low < high:
        raise ValueError(
            f"weight_bounds={quoted(bounds)} must be two numbers >= 0, the lower first"
        )
    return low / high


def weights_of(model: Any, sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Return weights of rows over the largest that there may be, or an error that quotes none."""
    bounds: Any = getattr(model, "weight_bounds", None)
    return (
        None if sample_weight is None and bounds is None else within(bounds, sample_weight, n_rows)
    )


def within(bounds: Any, sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return weights of rows, clipped to their public bounds, over the largest of these."""
    _least_weight(bounds)
    try:
        weights = np.asarray(() if sample_weight is None else sample_weight, dtype=np.float64)
    except Exception:  # whatever a cell raises: it may quote itself
        weights = np.empty(0)
    if bounds is None or weights.shape != (n_rows,) or np.any(np.isnan(weights)):
        raise ValueError(
            f"weight_bounds={quoted(bounds)}: pass sample_weight, a number within these public "
            "bounds for each row of X"
        )
    low, high = bounds
    return np.clip(weights, low, high) / high


def solver_of(model: Any) -> Solver:
    """Return the solver that an estimator names, or raise an error that lists the names."""
    solver = model.solver
    if is_auto(solver):
        return NoisyGD()
    if isinstance(solver, str) and solver in SOLVERS:
        return SOLVERS[solver]()
    if not isinstance(solver, Solver):
        raise ValueError(
            f"solver={quoted(solver)} must be 'auto', one of {sorted(SOLVERS)} or an instance of "
            "a class of skdpdyn.solvers"
        )
    return solver


def check_equal_rows(model: Any, equal_rows: Any, groups: Any) -> bool:
    """Return whether rows of persons weigh the same, which needs a public number of them."""
    if not checked_flag(equal_rows, "equal_rows"):
        return False
    if groups is None or is_auto(model.max_rows_per_person):
        raise ValueError(
            "equal_rows=True is of persons' rows, each of which weighs 1/max_rows_per_person: pass "
            "groups=ids to fit, and max_rows_per_person, a public number, to the estimator"
        )
    return True


def check_persons(model: Any) -> None:
    """Refuse groups if the solver has no proof for persons."""
    solver = solver_of(model)
    if not solver.takes_persons:
        raise ValueError(
            f"groups: solver={quoted(model.solver)} has no proof for persons with several rows. "
            "Use solver='noisy_gd' or 'dp_sgd', or NoisySGD with a random order of the rows"
        )
    if solver.pays_for_rows and is_auto(model.max_rows_per_person):
        raise ValueError(
            f"groups: solver={quoted(model.solver)} costs more the more rows a person may have. "
            "Give max_rows_per_person, a public number"
        )


def most_rows_of(model: Any, n_samples: int) -> int:
    """Return the public bound on the rows of a record, which sums leave room for."""
    limit = model.max_rows_per_person
    pays = is_auto(limit) and solver_of(model).pays_for_rows
    return 1 if pays else checked_most_rows(limit, n_samples)


def buys_weights(class_weight):
    """Return whether weights of classes are bought, or raise for a value without a meaning."""
    if class_weight is None or (isinstance(class_weight, dict) and class_weight):
        return False
    if is_named(class_weight, "balanced"):
        raise ValueError(
            "class_weight='balanced' weighs by the number of records of each class, and these are "
            "private. Pass {label: weight} of public numbers, or 'private', which buys noisy "
            "counts with a part of the budget"
        )
    if not is_named(class_weight, "private"):
        raise ValueError(
            f"class_weight={quoted(class_weight)} must be None, a dict of labels and weights that "
            "is not empty, or 'private'"
        )
    return True


def _positive(name, value, meaning, least="> 0"):
    """Return a number whose square floating point holds; None for "auto"."""
    if is_auto(value):
        return None
    number = as_float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name}={quoted(value)} must be a finite number {least}: {meaning}")
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(
            f"{name}={quoted(value)} is not between {_SMALLEST:g} and {_LARGEST:g}: rescale "
            "the data"
        )
    return number


# --- what scikit-learn has and private models have not --------------------------------------------


_ELSEWHERE = {
    "C": (
        "the strength of the penalty is alpha: scikit-learn's C is 1/(n_samples * alpha). "
        "alpha='auto' needs no tuning"
    ),
    "class_weight": (
        "weigh classes by a threshold on decision_function that is chosen without the records"
    ),
    "sample_weight": (
        "a weight is a part of the record, and would change how far one record can move the model. "
        "Give weight_bounds, and sample_weight to fit. For counts of unequal exposure see "
        "PrivatePoissonRegressor's exposure"
    ),
    "max_iter": (
        "the number of steps is a parameter of a solver, which noise depends on: "
        "solver=NoisyGD(n_steps=...)"
    ),
    "tol": (
        "training takes a number of steps that is fixed beforehand: stopping by what the "
        "records say would be a release"
    ),
    "penalty": "it is L2, of strength alpha, which privacy bounds and the noise depend on",
    "warm_start": "every fit spends its own budget and begins anew",
}
"""Where to find what users of scikit-learn look for."""


def refuse_elsewhere(names: Any, kind: type[Exception] = ValueError) -> None:
    """Refuse parameters of scikit-learn's models that private ones lack, naming the remedy."""
    for name in sorted(names & _ELSEWHERE.keys()):
        raise kind(f"{name} is no parameter of private models: {_ELSEWHERE[name]}")


P = ParamSpec("P")
T = TypeVar("T")


def answering(init: Callable[P, None]) -> Callable[P, None]:
    """Return an ``__init__`` whose error names a remedy for parameters of scikit-learn."""
    accepted = signature(init).parameters.keys()

    @wraps(init)
    def answered(*args: P.args, **params: P.kwargs) -> None:
        refuse_elsewhere(params.keys() - accepted, TypeError)
        init(*args, **params)

    return answered


class _ShownWeights:
    """A method ``fit`` whose signature has ``sample_weight`` where a model has ``weight_bounds``.

    scikit-learn's meta-estimators read the signature to know who takes weights. One that weighs
    copies or errors of a model, as bagging does, must find none in a model without bounds.
    """

    def __init__(self, fit: Callable[..., Any]) -> None:
        self._fit = fit
        update_wrapper(cast("Any", self), fit)

    def __get__(self, model: Any, owner: Any = None) -> Callable[..., Any]:
        bound = self._fit.__get__(model, owner)
        if model is None or getattr(model, "weight_bounds", None) is None:
            return bound

        @wraps(bound)
        def fit(*args: Any, **params: Any) -> Any:
            return bound(*args, **params)

        *taken, others = signature(bound).parameters.values()
        weights = Parameter("sample_weight", Parameter.KEYWORD_ONLY, default=None)
        fit.__signature__ = Signature([*taken, weights, others])  # type: ignore[attr-defined]
        return fit


def shows_weights(fit: Callable[P, T]) -> Callable[P, T]:
    """Return a method ``fit`` that shows ``sample_weight`` where ``weight_bounds`` are given."""
    return cast("Callable[P, T]", _ShownWeights(fit))


def weights_in_fit(estimator: Any, not_taken: Any) -> Any:
    """Return the weights of rows; refuse unknown arguments, and weights without bounds."""
    for name in not_taken:
        if name != "sample_weight":
            raise TypeError(f"{type(estimator).__name__}.fit takes no argument {name!r}")
        if getattr(estimator, "weight_bounds", None) is not None:
            return not_taken[name]
        instead = "for several rows of one person pass groups"
        if hasattr(estimator, "class_weight"):
            instead += ", to weigh classes class_weight={label: weight} of public numbers"
        else:
            instead += ", for counts of unequal exposure exposure to PrivatePoissonRegressor.fit"
        raise TypeError(
            "fit takes no sample_weight: a weight is a part of the record, and would change how "
            "far one record can move the model. Give weight_bounds=(low, high) of weights that "
            "follow from their own record alone, as those of a survey's design do. Or, "
            f"{instead}. To repeat records is no way round: "
            "k copies of a record cost as k records"
        )
    return None
