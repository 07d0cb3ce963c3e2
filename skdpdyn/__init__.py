"""Private linear models for scikit-learn users: a budget in, a model out that says its cost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skdpdyn.support.startup import no_collections

# for editors and type checkers, because the names below are loaded on first use
if TYPE_CHECKING:
    from skdpdyn import (
        audit as audit,
        data as data,
        datasets as datasets,
        evaluation as evaluation,
        exceptions as exceptions,
        export as export,
        inference as inference,
        inspection as inspection,
        linear_model as linear_model,
        model_selection as model_selection,
        planning as planning,
        preprocessing as preprocessing,
        privacy as privacy,
        solvers as solvers,
    )
    from skdpdyn.core.schema import Schema
    from skdpdyn.linear_model import (
        PrivateGAMClassifier,
        PrivateGAMRegressor,
        PrivateLinearSVC,
        PrivateLogisticRegression,
        PrivatePoissonRegressor,
        PrivateQuantileRegressor,
        PrivateRidge,
        PrivateSoftmaxRegression,
    )
    from skdpdyn.training.completion import complete_schema

__version__ = "0.6.0"

__all__ = [
    "PrivateGAMClassifier",
    "PrivateGAMRegressor",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivatePoissonRegressor",
    "PrivateQuantileRegressor",
    "PrivateRidge",
    "PrivateSoftmaxRegression",
    "Schema",
    "__version__",
    "complete_schema",
]


_ROOMS = {"Schema": "core.schema", "complete_schema": "training.completion"}
_MODULES = [
    "audit",
    "data",
    "datasets",
    "evaluation",
    "exceptions",
    "export",
    "inference",
    "inspection",
    "linear_model",
    "model_selection",
    "planning",
    "preprocessing",
    "privacy",
    "solvers",
]


def __getattr__(name: str) -> Any:
    """Load names on first use: `skdpdyn.privacy` needs no numba or scikit-learn."""
    if name in __all__:
        with no_collections():
            room = _ROOMS.get(name, "linear_model")
            return getattr(import_module(f"skdpdyn.{room}"), name)
    if name in _MODULES:
        return import_module(f"skdpdyn.{name}")
    raise AttributeError(f"module 'skdpdyn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__ + _MODULES)
