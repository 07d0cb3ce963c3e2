"""Private quantile regression."""

from typing import Any

from skdpdyn.core.losses import pinball
from skdpdyn.linear_model.base import PrivateLinearRegressor
from skdpdyn.training.base import scored
from skdpdyn.training.family import Family
from skdpdyn.training.parameters import answering
from skdpdyn.training.parts import NumberUnits
from skdpdyn.training.targets import Numbers


class QuantileUnits(NumberUnits):
    """The units of numbers, of which a quantile of residuals is bought, no mean."""

    def __init__(self, quantile: float) -> None:
        self.quantile = quantile

    def calibration_share(self, request):
        """See `TargetUnits.calibration_share`: nothing."""
        return 0.0


class _FamilyOfQuantile:
    """The family of an estimator's own quantile; of a class, that of the median."""

    def __get__(self, model, owner):
        quantile = 0.5 if model is None else model.quantile
        loss = pinball(quantile)
        return Family(
            loss, Numbers(), clip=lambda strength, *_: loss.lipschitz, units=QuantileUnits(quantile)
        )


class PrivateQuantileRegressor(PrivateLinearRegressor):
    """Linear regression of a quantile under (epsilon, delta)-differential privacy.

    Minimises ``mean of pinball losses + (alpha/2) |theta|^2`` by noisy gradient descent, and then
    moves the intercept to the quantile of residuals, which six noisy counts find. The kink of the
    loss is smoothed, so that gradients have a slope that is known. Where rows are mapped and
    records are many, this is over half of the targets' scale to either side at first, and less and
    less step by step; elsewhere over a twentieth. No table of standard errors is known for it: the
    curvature of its loss is the density of targets at the quantile.

    Parameters
    ----------
    quantile : float, default=0.5
        The part of the targets that is to lie below the prediction, in (0, 1). 0.5: the median.
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, for targets in [-1, 1], in units of
        ``data_norm``. "auto": the largest gradient; a smaller one would move the quantile.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, for rows within ``data_norm``, in units of the target.

    References
    ----------
    R. Koenker, G. Bassett (1978), Regression quantiles. P. Huber (1964), Robust estimation of a
    location parameter: the parabola at the kink.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (20_000, 2))
    >>> y = X @ [3.0, -2.0] + rng.normal(size=20_000)
    >>> model = PrivateQuantileRegressor(quantile=0.9, target_bounds=(-5.0, 5.0)).fit(X, y)
    >>> bool(0.86 < np.mean(y <= model.predict(X)) < 0.94), round(model.epsilon_, 6)
    (True, 1.0)
    """

    family = _FamilyOfQuantile()  # type: ignore[assignment]

    @answering
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        quantile: float = 0.5,
        alpha: float | str = "auto",
        bounds: Any = "auto",
        data_norm: float | str = "auto",
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
        self.quantile = quantile

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return D^2 of the pinball loss, without noise: for data that need no privacy.

        The reference is the best prediction that is the same for all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the score.

        Returns
        -------
        float
        """
        from sklearn.metrics import d2_pinball_score  # slow to load

        def d2(y, predicted, sample_weight):
            return d2_pinball_score(y, predicted, sample_weight=sample_weight, alpha=self.quantile)

        return scored(d2, y, self.predict(X), sample_weight)
