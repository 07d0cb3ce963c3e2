"""Quantile regression: the part below predictions, the score, and what it lacks."""

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import d2_pinball_score

from skdpdyn import PrivateQuantileRegressor
from skdpdyn.core import rules
from skdpdyn.core.losses import PINBALL_WIDTH, pinball
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.inference import private_regression
from skdpdyn.training.residuals import likely_shift

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (20_000, 3)) / np.sqrt(3)
Y = X @ [1.0, -2.0, 0.5] + RNG.gamma(2.0, 0.5, 20_000)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_part_below_is_the_quantile(quantile):
    """Within 1.5 points, 15 deviations of the noise on counts, and near scikit-learn."""
    model = PrivateQuantileRegressor(10.0, quantile=quantile, target_bounds=(-3, 7)).fit(X, Y)
    assert np.mean(model.predict(X) >= Y) == pytest.approx(quantile, abs=0.015)
    public = QuantileRegressor(quantile=quantile, alpha=0).fit(X[:2000], Y[:2000])
    score = d2_pinball_score(Y, public.predict(X), alpha=quantile)
    assert model.score(X, Y) == pytest.approx(score, abs=0.04)


@pytest.mark.parametrize("quantile", [0.02, 0.3, 0.9])
@pytest.mark.parametrize(("law", "left"), [("normal", 0.001), ("skewed", 0.008)])
def test_counts_find_the_shift(quantile, law, left):
    """Six exact counts, each where the ones before it say, leave a little of one fifth."""
    draws = np.random.default_rng(1).normal(size=20_000)
    residuals = 0.1 * (draws if law == "normal" else np.exp(draws))
    residuals += 0.2 - np.quantile(residuals, quantile)
    places = []
    parts = []
    shift = 0.0
    for _ in range(rules.COUNTS_OF_RESIDUALS):
        places.append(shift)
        parts.append(float(np.mean(residuals <= shift)))
        shift = likely_shift(places, parts, quantile, 1e-4)
    assert np.mean(residuals <= shift) == pytest.approx(quantile, abs=left)


@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.8])
def test_the_loss_is_that_of_the_quantile(quantile):
    """Its slope is the pinball's beyond the kink, and the integral's smoothness is no larger."""
    loss = pinball(quantile)
    raw = np.linspace(-1, 1, 2001)
    out = np.empty(2001)
    loss.derivative(raw.copy(), np.zeros(2001), out)
    np.testing.assert_allclose(out[raw < -PINBALL_WIDTH], -quantile)
    np.testing.assert_allclose(out[raw > PINBALL_WIDTH], 1 - quantile)
    assert np.abs(out).max() == pytest.approx(loss.lipschitz)
    assert np.max(np.diff(out) / np.diff(raw)) == pytest.approx(loss.smoothness)
    # from 0 down to the least loss of a target at either bound
    falls = [-np.trapezoid(np.minimum(out, 0), raw), np.trapezoid(np.maximum(out, 0), raw)]
    assert max(falls) == pytest.approx(loss.at_zero, abs=1e-3)


@pytest.mark.parametrize("quantile", [0.0, 1.0, -0.5, np.nan, "half"])
def test_what_is_no_quantile_is_refused(quantile):
    with pytest.raises(ValueError, match="quantile"):
        PrivateQuantileRegressor(quantile=quantile, target_bounds=(0, 1)).fit(X, Y)


def test_it_has_no_table():
    with pytest.raises(UnsupportedMechanismError, match="a quantile, a margin"):
        private_regression(PrivateQuantileRegressor(), X, Y, epsilon=1.0, bounds=(-1, 1))
