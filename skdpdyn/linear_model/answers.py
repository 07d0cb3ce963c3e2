"""Answers to users of scikit-learn: what private models have in place of what they lack."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

_ELSEWHERE = {
    "C": (
        "the strength of the penalty is alpha: scikit-learn's C is 1/(n_samples * alpha). "
        "alpha='auto' needs no tuning"
    ),
    "class_weight": (
        "weigh classes by a threshold on decision_function that is chosen without the records"
    ),
    "sample_weight": "a weight is a part of the record, and would change how far one record can "
    "move the model: every record "
    "counts once. For counts of unequal exposure see PrivatePoissonRegressor's exposure",
    "max_iter": (
        "the number of steps is a parameter of a solver, which noise depends on: "
        "solver=NoisyGD(n_steps=...)"
    ),
    "tol": (
        "training takes a number of steps that is fixed beforehand: stopping by what the "
        "records say would be a release"
    ),
    "warm_start": "every fit spends its own budget and begins anew",
}
"""Where to find what users of scikit-learn look for."""


def refuse_elsewhere(names: Any, kind: type[Exception] = ValueError) -> None:
    """Refuse parameters of scikit-learn's models that private ones lack, and say what to do."""
    for name in sorted(names & _ELSEWHERE.keys()):
        raise kind(f"{name} is no parameter of private models: {_ELSEWHERE[name]}")


P = ParamSpec("P")


def answering(init: Callable[P, None]) -> Callable[P, None]:
    """Return an ``__init__`` that answers the same parameters, where it would not know them."""
    known = signature(init).parameters.keys()

    @wraps(init)
    def answered(*args: P.args, **params: P.kwargs) -> None:
        refuse_elsewhere(params.keys() - known, TypeError)
        init(*args, **params)

    return answered


def refuse_in_fit(estimator: Any, not_taken: Any) -> Any:
    """Refuse what fit does not take; say of weights what to do instead."""
    for name in not_taken:
        if name != "sample_weight":
            raise TypeError(f"{type(estimator).__name__}.fit takes no argument {name!r}")
        instead = "for several rows of one person pass groups"
        if hasattr(estimator, "class_weight"):
            instead += ", to weigh classes class_weight={label: weight} of public numbers"
        else:
            instead += ", for counts of unequal exposure exposure to PrivatePoissonRegressor.fit"
        raise TypeError(
            "fit takes no sample_weight: a weight is a part of the record, and would change how "
            "far one record can move "
            f"the model, so that every record counts once. Instead, {instead}. To repeat "
            "records is no way round: "
            "k copies of a record cost as k records"
        )
