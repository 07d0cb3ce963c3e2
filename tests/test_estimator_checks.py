"""scikit-learn's own contract: every check, on every estimator, none expected to fail."""

from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpdyn import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper

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
    BoundsScaler((0, 1)),
    PrivateScaler(),
    PrivateScaler(bounds="private", crude_bounds=(-100, 100)),
    RowMapper(),
]


@parametrize_with_checks(ESTIMATORS + SEARCHES)
def test_estimator(estimator, check):
    check(estimator)
