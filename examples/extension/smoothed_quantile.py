"""Private 90 % quantile of a target: a loss and an estimator that live outside of skdpdyn."""

from skdpdyn.core.losses import Loss
from skdpdyn.linear_model import Family, Numbers, PrivateLinearRegressor

QUANTILE = 0.9
WIDTH = 0.05  # of the part where the kink is smoothed, to either side, in half-ranges of the target


def _derivative(raw_prediction, y, out):
    """Write -QUANTILE below the target, 1 - QUANTILE above it, and a line in between."""
    for i in range(out.size):
        share = (raw_prediction[i] - y[i] + WIDTH) / (2 * WIDTH)
        share = share if share > 0.0 else 0.0  # also NaN
        out[i] = (share if share < 1.0 else 1.0) - QUANTILE


smoothed_quantile = Loss(
    "smoothed quantile",
    _derivative,
    lipschitz=max(QUANTILE, 1 - QUANTILE),
    smoothness=1 / (2 * WIDTH),
    # of a target of 1, the worst where QUANTILE >= 1/2
    at_zero=QUANTILE * (1 - WIDTH) + QUANTILE**2 * WIDTH,
    # steps that the kink alone would allow are ten times too short elsewhere
    typical=1.0,
)
"""Pinball loss, its kink smoothed as Huber's, for y in [-1, 1]."""


class PrivateQuantileRegressor(PrivateLinearRegressor):
    """Linear regression of the 90 % quantile under (epsilon, delta)-differential privacy.

    Parameters, attributes and methods are those of `skdpdyn.PrivateRidge`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (20_000, 2))
    >>> y = X @ [3.0, -2.0] + rng.normal(size=20_000)
    >>> model = PrivateQuantileRegressor(target_bounds=(-5.0, 5.0)).fit(X, y)
    >>> bool(0.85 < np.mean(y <= model.predict(X)) < 0.95)
    True
    """

    family = Family(
        smoothed_quantile,
        Numbers(),
        # clipping would move the quantile
        clip=lambda n_parameters, strength: smoothed_quantile.lipschitz,
    )
