"""scikit-learn's own contract: every check, none expected to fail."""

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    parametrize_with_checks,
)

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper

pytestmark = pytest.mark.every_case

SEARCHES = [
    PrivateSearchCV(PrivateLogisticRegression(), {"clip": [0.5, 1.0]}, expected_trials=2),
    PrivateSearchCV(PrivateRidge(), {"alpha": [1e-3, 1e-1]}, expected_trials=2),
    PrivateSearchCV(
        make_pipeline(BoundsScaler((-10, 10)), PrivateSoftmaxRegression()),
        {"privatesoftmaxregression__clip": [0.5, 1.0]},
        expected_trials=2,
    ),
]

ESTIMATORS = [
    PrivateLogisticRegression(),
    PrivateSoftmaxRegression(),
    PrivateRidge(),
    PrivateLinearSVC(),
    PrivatePoissonRegressor(),
    PrivateQuantileRegressor(),
    PrivateGAMClassifier(bounds=(-10, 10)),
    PrivateGAMRegressor(bounds=(-10, 10)),
    BoundsScaler((0, 1)),
    PrivateScaler(),
    RowMapper(),
]


FIRST = [PrivateLogisticRegression(), PrivateGAMRegressor(bounds=(-10, 10)), SEARCHES[1]]
"""A classifier, a regressor of curves, and a search."""


@parametrize_with_checks(FIRST)
def test_estimator(estimator, check):
    check(estimator)


@pytest.mark.system
@parametrize_with_checks(ESTIMATORS + SEARCHES)
def test_every_estimator(estimator, check):
    check(estimator)
