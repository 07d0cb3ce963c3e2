"""Private ridge regression."""

from importlib import import_module

from skdpdyn.core import rules
from skdpdyn.core.losses import squared
from skdpdyn.linear_model.base import PrivateLinearRegressor
from skdpdyn.training.line import MeanUnits
from skdpdyn.training.targets import Numbers
from skdpdyn.training.values import Family


class PrivateRidge(PrivateLinearRegressor):
    """Ridge regression under (epsilon, delta)-differential privacy.

    Minimises ``mean of Huber losses + (alpha/2) |theta|^2`` by noisy gradient descent and releases
    the last iterate. Huber's loss is the squared loss with its residual clipped, so that every
    privacy bound holds. Inside fit, targets are clipped into ``target_bounds`` and mapped to [-1,
    1]. Rows are scaled into the ball of radius ``data_norm``, in fit and in prediction alike, so
    ``coef_`` applies to scaled rows. Every "auto" follows from the shape of X, the budget and
    ``data_norm``, or is bought.

    ``solver="sufficient_statistics"`` solves one noisy sum of products of rows as they are, see
    `skdpdyn.solvers.SufficientStatistics`. It does not clip residuals, so it is better for targets
    with two peaks or a long tail, of which Huber's loss learns something between mean and median.

    With enough records, a part of the budget first learns a map of rows that gives all directions a
    similar scale, see ``conditioning``. Then ``coef_`` applies to rows that the map does not
    shorten, training takes few and long steps, and only the composition bound holds. With still
    more (`skdpdyn.core.rules.products_strength`), ``solver="auto"`` takes no steps: it releases the
    sum of products of conditioned rows and targets once, and solves that for coefficients, which
    costs a fifth of the time. Targets are clipped then, at the distance from their mean that noisy
    counts of them in octaves show to have the least bias and noise: rare large targets are seen.

    Where rows are mapped and n mu / f is 400 or more, predictions are means: after training 2 to
    10 % of mu^2 buy by how much they are to move for their sum to be that of the targets, which
    ``mean_std_`` says how far it may be off.

    Parameters
    ----------
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, for targets in [-1, 1], in units of
        ``data_norm``. "auto": the gradient at a residual of 2.5/d for d columns, intercept
        included, but at least 1/16; larger if n mu is above 40 d; at most 1/4.
    solver : "auto", str or Solver, default="auto"
        The algorithm. "auto": full-batch noisy gradients, "noisy_gd", or with many records of dense
        rows one noisy sum, see above; ``solver_`` is then "sufficient_statistics". Or a key of
        `skdpdyn.solvers.SOLVERS`, or an instance with its hyperparameters, such as
        ``NoisyGD(n_steps=200)``.

    References
    ----------
    R. Chourasia, J. Ye, R. Shokri (2021), Differential privacy dynamics of Langevin diffusion and
    noisy gradient descent. J. Bok, W. Su, J. Altschuler (2024), Shifted interpolation for
    differential privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [3.0, -2.0] + 10
    >>> model = PrivateRidge(epsilon=1.0, target_bounds=(7.0, 13.0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), round(model.epsilon_, 6)
    (True, 1.0)
    """

    family = Family(
        squared,
        Numbers(),
        clip=rules.ridge_clip,
        conditioned_clip=rules.mapped_ridge_clip,
        units=MeanUnits(),
        twin=lambda: import_module("sklearn.linear_model").Ridge(),
    )
