"""The estimators, and the bases that others can be derived from."""

from typing import TYPE_CHECKING

from skdpdyn.linear_model.base import (
    PrivateLinearClassifier,
    PrivateLinearModel,
    PrivateLinearRegressor,
)
from skdpdyn.support.lazy import on_first_use
from skdpdyn.training.parts import ClassShares
from skdpdyn.training.targets import Labels, Numbers
from skdpdyn.training.values import Family

if TYPE_CHECKING:  # estimators are loaded on first use
    from skdpdyn.linear_model.gam import PrivateGAMClassifier, PrivateGAMRegressor
    from skdpdyn.linear_model.logistic import PrivateLogisticRegression
    from skdpdyn.linear_model.poisson import PrivatePoissonRegressor
    from skdpdyn.linear_model.quantile import PrivateQuantileRegressor
    from skdpdyn.linear_model.ridge import PrivateRidge
    from skdpdyn.linear_model.softmax import PrivateSoftmaxRegression
    from skdpdyn.linear_model.svc import PrivateLinearSVC

__all__ = [
    "ClassShares",
    "Family",
    "Labels",
    "Numbers",
    "PrivateGAMClassifier",
    "PrivateGAMRegressor",
    "PrivateLinearClassifier",
    "PrivateLinearModel",
    "PrivateLinearRegressor",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivatePoissonRegressor",
    "PrivateQuantileRegressor",
    "PrivateRidge",
    "PrivateSoftmaxRegression",
]

__getattr__ = on_first_use(
    __name__,
    {
        "PrivateGAMClassifier": "gam",
        "PrivateGAMRegressor": "gam",
        "PrivateLinearSVC": "svc",
        "PrivateLogisticRegression": "logistic",
        "PrivatePoissonRegressor": "poisson",
        "PrivateQuantileRegressor": "quantile",
        "PrivateRidge": "ridge",
        "PrivateSoftmaxRegression": "softmax",
    },
)
