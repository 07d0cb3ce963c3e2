"""Where public numbers say that no slopes can be learnt: the best constant, and a word of it."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skdpdyn import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.exceptions import PrivacyLeakWarning, PrivacyUtilityWarning

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (4000, 3))
Y = X[:, 0] - X[:, 1] + 0.1 * RNG.normal(size=4000) > 0.2
COUNTS = RNG.poisson(np.exp(2 * X[:, 0]))
ESTIMATORS = [
    (PrivateLogisticRegression(classes=[False, True]), Y),
    (PrivateLinearSVC(classes=[False, True]), Y),
    (PrivateSoftmaxRegression(classes=[0, 1, 2]), np.minimum(COUNTS, 2)),
    (PrivateRidge(target_bounds=(-1.0, 1.0)), X[:, 0]),
    (PrivatePoissonRegressor(target_bounds=(0, 20)), COUNTS),
]
each = pytest.mark.parametrize(("model", "y"), ESTIMATORS, ids=lambda x: type(x).__name__)


@each
def test_few_records_give_a_constant_and_a_warning_of_public_numbers(model, y):
    """The text is the same on other records: only n and mu are in it."""
    texts = set()
    for rows in (slice(0, 100), slice(100, 200)):
        few = clone(model).set_params(epsilon=0.1)
        with pytest.warns(PrivacyUtilityWarning, match="Slopes need") as heard:
            few.fit(X[rows], y[rows])
        assert not np.any(few.coef_)
        assert few.privacy_ == few.privacy_cost(100, 3)
        texts |= {str(warning.message) for warning in heard}
    (text,) = texts
    assert "skdpdyn.planning.plan" in text


@each
def test_enough_records_give_slopes_and_no_warning(model, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyUtilityWarning)
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        enough = clone(model).set_params(random_state=0).fit(X, y)
    assert np.any(enough.coef_)
    constant = clone(model).set_params(epsilon=1e-3, random_state=0)
    with pytest.warns((PrivacyUtilityWarning, PrivacyLeakWarning)):
        constant.fit(X, y)
    assert enough.score(X, y) > constant.score(X, y) - 0.02


def test_where_noise_is_as_large_as_a_share_all_shares_are_equal():
    with pytest.warns(PrivacyUtilityWarning):
        model = PrivateLogisticRegression(epsilon=0.02, classes=[False, True]).fit(X[:50], Y[:50])
    np.testing.assert_allclose(model.predict_proba(X[:1]), 0.5, atol=1e-12)


@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
def test_rates_that_drown_in_noise_are_told_of_too():
    rare = (RNG.random(4000) < 0.0005).astype(float)
    model = PrivatePoissonRegressor(epsilon=0.1, target_bounds=(0, 1), random_state=0)
    with pytest.warns(PrivacyUtilityWarning, match="drowns in its own noise"):
        model.fit(X, rare)
    assert not np.any(model.coef_)


@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
def test_no_warning_asks_for_once_as_many_records():
    """A rate may drown in its noise though it is large in its own unit: then no factor is known."""
    counts, texts = COUNTS[:500] * (np.arange(500) % 6 == 0), set()
    for seed in range(60):
        model = PrivatePoissonRegressor(target_bounds=(0, 8), random_state=seed)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", PrivacyUtilityWarning)
            model.fit(X[:500], counts)
        texts |= {str(warning.message).partition("Slopes need ")[2] for warning in heard}
    assert any(text.startswith("more records, or a larger epsilon") for text in texts)
    assert not any(text.startswith("1 times") for text in texts)
