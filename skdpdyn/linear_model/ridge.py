"""Private ridge regression."""

from importlib import import_module
from typing import Any

from skdpdyn.core import rules
from skdpdyn.core.losses import huber, squared
from skdpdyn.linear_model.base import PrivateLinearRegressor
from skdpdyn.privacy.checks import checked_choice
from skdpdyn.training.line import MeanUnits
from skdpdyn.training.parameters import answering
from skdpdyn.training.parts import HuberUnits
from skdpdyn.training.targets import Numbers
from skdpdyn.training.values import Family


def _twin():
    return import_module("sklearn.linear_model").Ridge()


OF_MEANS = Family(
    squared,
    Numbers(),
    clip=rules.ridge_clip,
    conditioned_clip=rules.mapped_ridge_clip,
    units=MeanUnits(),
    twin=_twin,
)
OF_CENTRES = Family(
    huber(rules.HUBER_WIDTH),
    Numbers(),
    clip=lambda n_parameters, strength: rules.HUBER_WIDTH,
    conditioned_clip=lambda n_parameters, strength: rules.MAPPED_HUBER_WIDTH,
    units=HuberUnits(),
    twin=_twin,
)


class _FamilyOfNumbers:
    """The family of an estimator's own loss; of a class, that of means."""

    def __get__(self, model, owner):
        if model is None:
            return OF_MEANS
        checked_choice(model.loss, "loss", ["squared", "huber"])
        return OF_CENTRES if model.loss == "huber" else OF_MEANS


class PrivateRidge(PrivateLinearRegressor):
    """Ridge regression under (epsilon, delta)-differential privacy.

    Minimizes ``mean of losses + (alpha/2) |theta|^2`` by noisy gradient descent and releases the
    last iterate. Residuals are clipped, so that every privacy bound holds. During the fit, targets
    are clipped to ``target_bounds`` and scaled to [-1, 1]. Rows are scaled into the ball of radius
    ``data_norm``, in fit and in prediction, and ``coef_`` applies to scaled rows. Each "auto" is
    computed from the shape of X, the budget and ``data_norm``, or is bought.

    ``solver="sufficient_statistics"`` releases one noisy sum of products of rows and targets,
    without the preprocessing described below, and solves it for the coefficients, see
    `skdpdyn.solvers.SufficientStatistics`. It does not clip residuals. It is therefore better for
    targets with two modes or a long tail, where training on clipped residuals estimates a value
    between mean and median.

    With enough records, a part of the budget buys a linear transformation (preprocessing) that
    gives rows a similar scale in all directions, see ``conditioning``. ``coef_`` then applies to
    the rows of X themselves, except those that are scaled down because they are too long. Training
    takes few, long steps, and only the composition bound holds. With even more records
    (`skdpdyn.core.rules.products_strength`), ``solver="auto"`` takes no steps. It releases the sum
    of products of conditioned rows and targets once and solves it for the coefficients, in a fifth
    of the time. Targets are then clipped at a distance from their mean that minimizes the squared
    bias plus the variance of the noise. The bias is estimated from a noisy histogram of the
    targets, so that rare large targets are taken into account.

    The mean prediction is corrected after training if the sum of products was solved, or if rows
    are conditioned and n mu / f is 400 or more. Here n is the number of records, mu the Gaussian DP
    parameter of the budget, and f is 2 under "replace_one" and 1 under "add_remove". For this, 2 to
    15 % of mu^2 buys a shift of the predictions and, after gradient steps on dense rows, a factor
    for their slope. The sum of the predictions is then about that of the targets. ``mean_std_``
    states how far their means may still differ.

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        The loss. "squared": predictions estimate the mean of targets, as above. "huber":
        predictions minimize the mean of Huber's loss, which is linear for residuals beyond
        ``huber_width_``. They estimate the mean if errors are symmetric, and a value between mean
        and median if errors are skewed, so their sum may differ from that of the targets. With
        conditioning, the width is half of the scale of targets. This scale is the 95 % quantile
        (with few records 90 %) of their distances from the mean, and is bought. Otherwise it is an
        eighth of the range of ``target_bounds``. "huber" always takes gradient steps, and buys
        neither shift nor slope. A smaller ``clip`` reduces the influence of rows with a large norm.
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, for targets in [-1, 1], in units of
        ``data_norm``. "auto" without conditioning: 2.5/d for d columns, intercept included, but at
        least 1/16. It is larger if n mu / f is above 20 d, and at most 1/4. "auto" with
        conditioning: 1/4 of the bought scale of targets, and more if n mu / f is above 10 d.
    solver : "auto", str or Solver, default="auto"
        The algorithm. "auto": full-batch noisy gradient descent, "noisy_gd"; with many records of
        dense rows the sum of products, see above, where ``solver_`` is "sufficient_statistics".
        Otherwise a key of `skdpdyn.solvers.SOLVERS`, or an instance with its hyperparameters, such
        as ``NoisyGD(n_steps=200)``.

    References
    ----------
    R. Chourasia, J. Ye, R. Shokri (2021), Differential privacy dynamics of Langevin diffusion and
    noisy gradient descent. J. Bok, W. Su, J. Altschuler (2024), Shifted interpolation for
    differential privacy. P. Huber (1964), Robust estimation of a location parameter.

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

    family = _FamilyOfNumbers()  # type: ignore[assignment]
    huber_width_: float

    @answering
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        loss: str = "squared",
        alpha: float | str = "auto",
        bounds: Any = "auto",
        data_norm: float | str = "auto",
        start: Any = None,
        clip: float | str | None = "auto",
        target_bounds: Any = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float | str = "auto",
        conditioning: Any = "auto",
        solver: Any = "auto",
        bound: str = "tightest",
        adjacency: str = "replace_one",
        max_rows_per_person: Any = "auto",
        weight_bounds: Any = None,
        schema: Any = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            alpha=alpha,
            bounds=bounds,
            data_norm=data_norm,
            start=start,
            clip=clip,
            target_bounds=target_bounds,
            fit_intercept=fit_intercept,
            intercept_scaling=intercept_scaling,
            conditioning=conditioning,
            solver=solver,
            bound=bound,
            adjacency=adjacency,
            max_rows_per_person=max_rows_per_person,
            weight_bounds=weight_bounds,
            schema=schema,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.loss = loss
