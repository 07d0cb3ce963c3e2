"""Private quantile regression."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from skdpdyn.core.losses import pinballs
from skdpdyn.linear_model.base import PrivateLinearRegressor
from skdpdyn.privacy.checks import as_float, quoted
from skdpdyn.training.base import by_blocks, scored
from skdpdyn.training.parameters import answering
from skdpdyn.training.parts import NumberUnits
from skdpdyn.training.targets import Numbers
from skdpdyn.training.values import Family


class QuantileUnits(NumberUnits):
    """The units of numbers, of which quantiles of residuals are bought, no mean."""

    def __init__(self, quantiles: tuple[float, ...]) -> None:
        self.quantiles = quantiles

    def calibration_share(self, request):
        """See `TargetUnits.calibration_share`: nothing."""
        return 0.0


def quantiles_of(quantile: Any) -> tuple[float, ...]:
    """Return the numbers that the parameter names, one or several different ones.

    Raises
    ------
    ValueError
        If they are not in (0, 1), or not different.
    """
    several = isinstance(quantile, list | tuple | np.ndarray)
    found = tuple(map(as_float, quantile)) if several else (as_float(quantile),)
    valid = all(0 < number < 1 for number in found)
    if not valid or (several and not 1 < len(found) == len(set(found))):
        # of a list that may hold records, the length alone is shown
        raise ValueError(
            f"quantile={quoted(quantile)} must be a number in (0, 1), or several different ones"
        )
    return found


def family_of_quantiles(quantile: Any) -> Family:
    """Return the family of a quantile, or of several in one fit."""
    quantiles = quantiles_of(quantile)
    loss = pinballs(quantiles)

    return Family(
        loss,
        Numbers(),
        clip=lambda n_parameters, strength: loss.lipschitz,
        units=QuantileUnits(quantiles),
    )


def in_order(raw: np.ndarray, quantile: Any) -> np.ndarray:
    """Return raw predictions of several quantiles so that none crosses another."""
    if raw.ndim == 1:
        return raw
    return np.sort(raw, axis=1)[:, np.argsort(np.argsort(quantile))]


def d2_of_quantiles(quantile: Any, y: Any, predicted: Any, sample_weight: Any = None) -> float:
    """Return D^2 of the pinball loss, its mean over several quantiles."""
    from sklearn.metrics import d2_pinball_score  # slow to load

    columns = np.reshape(predicted, (len(predicted), -1)).T
    return float(
        np.mean(
            [
                d2_pinball_score(y, column, sample_weight=sample_weight, alpha=one)
                for one, column in zip(quantiles_of(quantile), columns, strict=True)
            ]
        )
    )


class CutRegressor(LinearRegression):
    """Linear regression whose predictions are cut at public bounds.

    `PrivateGAMRegressor.to_sklearn` makes one, and that of `PrivateQuantileRegressor`.

    Parameters
    ----------
    low, high : float
        The least and the largest prediction.

    Examples
    --------
    >>> from skdpdyn.linear_model.quantile import CutRegressor
    >>> float(CutRegressor(0.0, 1.0).fit([[0.0], [1.0]], [0.0, 1.0]).predict([[7.0]])[0])
    1.0
    """

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.low = low
        self.high = high

    def predict(self, X: Any) -> np.ndarray:
        """Predict, within the bounds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.clip(super().predict(X), self.low, self.high)


class _FamilyOfQuantile:
    """The family of an estimator's own quantiles; of a class, that of the median."""

    def __get__(self, model, owner):
        return family_of_quantiles(0.5 if model is None else model.quantile)


class PrivateQuantileRegressor(PrivateLinearRegressor):
    """Linear regression of a quantile under (epsilon, delta)-differential privacy.

    Minimises ``mean of pinball losses + (alpha/2) |theta|^2`` by noisy gradient descent. The
    intercept is then shifted by the quantile of the residuals, which is found with six noisy
    counts. The kink of the loss is smoothed, so that its second derivative has a known bound. Where
    rows are mapped and records are many, this is over half of the targets' scale to either side at
    first, and less and less step by step; elsewhere over a twentieth. No table of standard errors
    is known for it: the curvature of its loss is the density of targets at the quantile.

    Parameters
    ----------
    quantile : float or sequence of float, default=0.5
        The part of the targets that is to lie below the prediction, in (0, 1). 0.5: the median.
        Several different quantiles are learnt in one fit. The joint gradient of a record is clipped
        to a norm c, and the noise is proportional to c. Its square is the largest sum of q^2 over
        the lowest quantiles and (1 - q)^2 over all others: c is 1.034 for .1, .5 and .9, where one
        quantile of .9 has .9. Only the composition bound holds then. Predictions are sorted, so
        that quantiles do not cross, and ``score`` is the mean over quantiles.
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, for targets in [-1, 1], in units of
        ``data_norm``. "auto": the largest gradient; a smaller one would move the quantile.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,), or (n_quantiles, n_features)
        Coefficients, for rows within ``data_norm``, in units of the target.
    intercept_ : float, or ndarray of shape (n_quantiles,)
        Intercept.

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
    >>> model.set_params(quantile=[0.1, 0.5, 0.9]).fit(X, y).predict(X).shape
    (20000, 3)
    """

    family = _FamilyOfQuantile()  # type: ignore[assignment]

    @answering
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        quantile: Any = 0.5,
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

    def _twin(self):
        if len(quantiles_of(self.quantile)) > 1:
            raise NotImplementedError(
                f"quantile={list(self.quantile)}: predictions are sorted, which no model of "
                "scikit-learn does. Fit a model for each"
            )
        return CutRegressor(*self.target_bounds_)

    @by_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Predict quantiles of targets.

        Predictions are cut at ``target_bounds_``, which targets are within, or nearly all of them
        where these bounds were bought.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; mapped into the ball of radius ``data_norm`` as they were in fit.

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_quantiles)
            Of several quantiles in the order that they were given in, sorted by their size.
        """
        return in_order(np.clip(self._raw_predictions(X), *self.target_bounds_), self.quantile)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return D^2 of the pinball loss, without noise: for data that need no privacy.

        The reference is the best prediction that is the same for all rows. Of several quantiles it
        is the mean.

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
        d2 = partial(d2_of_quantiles, self.quantile)
        return scored(d2, y, self.predict(X), sample_weight)
