"""Private linear models for scikit-learn users: a budget in, a model out, and the model says what was spent."""

from importlib import import_module

from skdpdyn._startup import no_collections

__version__ = "0.1.0"

__all__ = ["PrivateLogisticRegression", "PrivateRidge", "PrivateSoftmaxRegression", "__version__"]


def __getattr__(name):
    """Load the estimators when they are asked for: ``skdpdyn.privacy`` needs neither numba nor scikit-learn."""
    if name in __all__:
        with no_collections():
            return getattr(import_module("skdpdyn.linear_model"), name)
    raise AttributeError(f"module 'skdpdyn' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
