"""The estimators, and the bases that others can be derived from."""

from skdpdyn.linear_model.base import (
    PrivateLinearClassifier,
    PrivateLinearModel,
    PrivateLinearRegressor,
)
from skdpdyn.linear_model.family import Family
from skdpdyn.linear_model.gam import PrivateGAMClassifier, PrivateGAMRegressor
from skdpdyn.linear_model.logistic import PrivateLogisticRegression
from skdpdyn.linear_model.parts import ClassShares
from skdpdyn.linear_model.poisson import PrivatePoissonRegressor
from skdpdyn.linear_model.quantile import PrivateQuantileRegressor
from skdpdyn.linear_model.ridge import PrivateRidge
from skdpdyn.linear_model.softmax import PrivateSoftmaxRegression
from skdpdyn.linear_model.svc import PrivateLinearSVC
from skdpdyn.linear_model.targets import Labels, Numbers

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
