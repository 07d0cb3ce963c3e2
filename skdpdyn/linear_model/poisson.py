"""Private Poisson regression."""

from importlib import import_module
from typing import Any, Self

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.losses import LOG
from skdpdyn.data.cluster import is_collection
from skdpdyn.linear_model.base import PrivateLinearRegressor
from skdpdyn.training.base import (
    all_or_nothing,
    by_blocks,
    remember_rows,
    scored,
    silent_arithmetic,
    warn_of_own_rows,
)
from skdpdyn.training.counts import CountUnits, loss_of_counts
from skdpdyn.training.fit import fit
from skdpdyn.training.parameters import shows_weights, weights_in_fit
from skdpdyn.training.reading import Beside
from skdpdyn.training.targets import (
    Counts,
    exposures,
    refuse_lacking,
)
from skdpdyn.training.values import Family


def expected_counts(rates: Any, X: Any, exposure: Any) -> Any:
    """Return rates times exposures, see `PrivatePoissonRegressor.predict`."""
    if exposure is None:
        return rates
    if is_collection(X):
        raise ValueError("exposure=...: X is a Dask collection. Multiply predict(X) by it")
    return rates * exposures(exposure, rates)


def score_of_rates(y: Any, rates: np.ndarray, sample_weight: Any, exposure: Any) -> float:
    """Return D^2 of predicted rates, see `PrivatePoissonRegressor.score`."""
    from sklearn.metrics import d2_tweedie_score  # slow to load

    def d2_of_counts(y, rates, sample_weight):
        if exposure is not None:
            of_rows = exposures(exposure, y)
            y = np.asarray(y, dtype=np.float64) / of_rows
            sample_weight = of_rows * (1 if sample_weight is None else sample_weight)
        return d2_tweedie_score(y, rates, sample_weight=sample_weight, power=1)

    return scored(d2_of_counts, y, rates, sample_weight)


class PrivatePoissonRegressor(PrivateLinearRegressor):
    """Poisson regression of counts and rates under (epsilon, delta)-differential privacy.

    The expected count of a row is its exposure times ``exp(X @ coef_ + intercept_)``. Minimises
    ``mean of (expected count - count * its logarithm) + (alpha/2) |theta|^2`` by noisy gradient
    descent and releases the last iterate. Inside fit, counts are clipped to ``target_bounds``, and
    the residual of a record (expected minus observed count) is clipped to a fixed bound. The
    clipped residual is the derivative of another convex loss, so every privacy bound holds. Rows
    are scaled into the ball of radius ``data_norm``, in fit and in prediction alike, so ``coef_``
    applies to scaled rows. Every "auto" follows from the shape of X, the budget, ``data_norm`` and
    ``target_bounds``, or is bought.

    Residuals are clipped to the square root of the largest count (or to the largest count, if it is
    below 1). With enough records, a part of the budget first buys a preprocessing after which all
    directions of the rows have a similar scale, see ``conditioning``. A further 2 to 15 % of mu^2
    buys the rate that training starts from (twice as much with exposures), and 2 % buys limits on
    counts and on residuals. The limit on residuals is a quantile (95 %, or higher with many
    records) of the distance between a count and its expectation at that rate, and at least 1. With
    preprocessing, ``coef_`` applies to rows that it does not scale down, training takes few and
    long steps, and only the composition bound holds.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Strength of the L2 penalty on the mean loss, >= 0, with residuals in units of their bound:
        scikit-learn's ``alpha`` is this one times that bound. The intercept is penalized, too.
        "auto": so weak that it has no effect within the training time.
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, in units of ``data_norm`` times the bound
        on residuals. Values below 1 clip the residuals of the longest rows further. "auto": no
        further clipping.
    target_bounds : tuple (low, high), "auto" or "from_y", default="auto"
        Public bounds of the counts, 0 <= low < high; counts outside are clipped. "auto": 0.2 to 1 %
        of mu^2 (up to 10 % with few records) buys an upper bound that nearly all counts are below.
        With very few records it is taken from y, with a PrivacyLeakWarning, as with "from_y".

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the logarithm of the rate, for rows within ``data_norm``.
    has_exposure_ : bool
        Whether the fit was given exposures, by ``exposure`` or by a source of rows. ``score`` and
        `skdpdyn.evaluation.evaluate` then need them, too.

    References
    ----------
    R. Chourasia, J. Ye, R. Shokri (2021), Differential privacy dynamics of Langevin diffusion and
    noisy gradient descent. J. Bok, W. Su, J. Altschuler (2024), Shifted interpolation for
    differential privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivatePoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, years = rng.uniform(-0.5, 0.5, (20_000, 2)), rng.uniform(0.1, 1.0, 20_000)
    >>> claims = rng.poisson(years * np.exp(X @ [2.0, -1.0]))
    >>> model = PrivatePoissonRegressor(epsilon=1.0, target_bounds=(0, 10))
    >>> model = model.fit(X, claims, exposure=years)
    >>> bool(abs(model.predict([[0.0, 0.0]])[0] - 1) < 0.2), round(model.epsilon_, 6)
    (True, 1.0)
    """

    family = Family(
        loss_of_counts,
        Counts(),
        clip=lambda n_parameters, strength: rules.RATE_CLIP,
        kept_length=rules.kept_length_of_rates,
        units=CountUnits(),
        twin=lambda: import_module("sklearn.linear_model").PoissonRegressor(),
    )

    has_exposure_: bool = False

    @shows_weights
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        exposure: Any = None,
        groups: Any = None,
        unit: str | None = None,
        equal_rows: bool = False,
        **not_taken: Any,
    ) -> Self:
        """Train on the records, spending at most (epsilon, delta).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows. Those longer than ``data_norm`` are scaled down to it.
        y : array-like of shape (n_samples,) or None, default=None
            Counts, not rates. None if ``X`` is a source of rows, which contains them.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each count, such as years insured or thousands of persons: finite and above
            zero. An exposure is part of the record and as private as the count. It needs no bound,
            because it only shifts the raw prediction at which the residual is 0. None: 1 for each,
            or the exposures that a source of rows contains.
        groups : array-like of shape (n_samples,), default=None
            Id of the person that each row belongs to: integers or strings. The guarantee is then
            for a whole person with all rows, see `PrivateRidge.fit`. None: every row is a record.
        unit : str or None, default=None
            Name of the unit that the ids in ``groups`` stand for, such as "household". None:
            "person", or "record" without ``groups``.
        equal_rows : bool, default=False
            Whether each row has weight 1/``max_rows_per_person``, which then has to be a number,
            instead of 1/k. Weights of 1/k bias effects that depend on the number of rows.
        **not_taken : dict
            ``sample_weight``, a number for each row, with ``weight_bounds``; nothing else is taken.

        Returns
        -------
        self : object
            The fitted estimator. If an error is raised, the estimator is left as it was before.

        Raises
        ------
        ValueError, TypeError
            If a parameter, X, y, groups or an exposure is invalid, or for ``sample_weight``.
        UnsupportedMechanismError
            If ``bound`` does not apply to what the solver would run.
        CalibrationError
            If no noise is known to meet the budget.
        FloatingPointError
            If the parameters overflow.

        Warns
        -----
        PrivacyWeakWarning
            If ``epsilon`` is above 20, or ``delta`` above 1/n.
        PrivacyLeakWarning
            If target bounds are taken from y, or ``random_state`` is an int.
        """
        weight = weights_in_fit(self, not_taken)
        with all_or_nothing(self, X, y, groups, exposure, weight) as model, silent_arithmetic():
            fit(model, X, y, Beside(groups, unit, equal_rows, exposure, weight))
        remember_rows(self, X)
        return self

    def predict(self, X: Any, exposure: Any = None) -> np.ndarray:
        """Predict expected counts, or rates without an exposure.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; mapped into the ball of radius ``data_norm`` as they were in fit.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each row. None: 1.

        Returns
        -------
        ndarray of shape (n_samples,)
            Finite numbers > 0.

        Raises
        ------
        ValueError
            If there is not one exposure > 0 for each row, or X is a Dask collection and there are
            exposures: multiply its rates by them.
        """
        return expected_counts(self._rates(X), X, exposure)

    @by_blocks
    def _rates(self, X):
        """Return expected counts for an exposure of 1."""
        return LOG.mean(self._raw_predictions(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """Return D^2, the explained part of the deviance, without noise.

        The reference is the best rate that is the same for all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Counts.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the score.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each count. None: 1 for each, which is refused after a fit with exposures.
            To score rates, pass ones.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the model was fitted with exposures, and ``exposure`` is None.
        """
        refuse_lacking(exposure, self)
        warn_of_own_rows(self, X)
        return score_of_rates(y, self.predict(X), sample_weight, exposure)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
