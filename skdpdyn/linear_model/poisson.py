"""Private Poisson regression."""

import math
from importlib import import_module
from typing import Any, Self

import numpy as np

from skdpdyn import rules
from skdpdyn.base import (
    all_or_nothing,
    by_blocks,
    remember_rows,
    scored,
    silent_arithmetic,
    warn_of_own_rows,
)
from skdpdyn.data.cluster import is_collection
from skdpdyn.data.gpu import like, on_device, on_host
from skdpdyn.linear_model.answers import refuse_in_fit
from skdpdyn.linear_model.base import PrivateLinearRegressor
from skdpdyn.linear_model.counts import CountUnits, loss_of_counts
from skdpdyn.linear_model.family import Family
from skdpdyn.linear_model.fit import fit
from skdpdyn.linear_model.targets import (
    Counts,
    exposures,
)


def rates_of_logarithms(raw: np.ndarray) -> np.ndarray:
    """Return rates, finite numbers > 0, of their logarithms."""
    largest = math.log(np.finfo(raw.dtype).max) - 1
    return np.exp(np.clip(raw, -largest, largest))


def score_of_rates(y: Any, rates: np.ndarray, sample_weight: Any, exposure: Any) -> float:
    """Return D^2 of predicted rates, see `PrivatePoissonRegressor.score`."""
    from sklearn.metrics import d2_tweedie_score  # slow to load

    def d2_of_counts(y, rates, sample_weight):
        if exposure is not None:
            of_rows = exposures(exposure, y)
            y = np.asarray(y, dtype=np.float64) / of_rows
            sample_weight = of_rows * (1 if sample_weight is None else sample_weight)
        return d2_tweedie_score(y, rates, sample_weight=sample_weight, power=1)

    exposure = on_host(exposure)
    return scored(d2_of_counts, y, rates, sample_weight)


class PrivatePoissonRegressor(PrivateLinearRegressor):
    """Poisson regression of counts and rates under (epsilon, delta)-differential privacy.

    The expected count of a row is its exposure times ``exp(X @ coef_ + intercept_)``. Minimises
    ``mean of (expected count - count * its logarithm) + (alpha/2) |theta|^2`` by noisy gradient
    descent and releases the last iterate. Inside fit, counts are clipped into ``target_bounds``,
    and the residual of a record, expected count less count, is clipped to a fixed bound. That is
    another convex loss, so every privacy bound stays. Rows are scaled into the ball of radius
    ``data_norm``, in fit and in prediction alike, so ``coef_`` applies to scaled rows. Every "auto"
    is a function of the shape of X, the budget, ``data_norm`` and ``target_bounds`` alone.

    Residuals are clipped to the square root of the largest count (or to the largest count, if it is
    below 1). With enough records, a part of the budget first learns a map of rows that gives all
    directions a similar scale, see ``conditioning``. A further 1 % of mu^2 each buys the rate that
    training starts from and a better bound on residuals: the 95 % quantile of the distance between
    a count and that rate, at least 1. Then ``coef_`` applies to rows that the map does not shorten,
    training takes few and long steps, and only the composition bound holds.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float or "auto", default="auto"
        Probability of a larger loss, in (0, 1). "auto": 1/n^2.
    alpha : float or "auto", default="auto"
        Strength of the L2 penalty on the mean loss, >= 0, in units of the residuals' bound:
        scikit-learn's alpha is that bound times this one. The intercept is penalised too. "auto":
        too weak to be felt within the training time.
    data_norm : float or "auto", default="auto"
        Public bound on the Euclidean norm of a row: longer rows are scaled down to it. Do not take
        it from the data. "auto": the root of the number of columns where a typical length is bought
        of the rows (dense rows with ``conditioning``), which suits columns in [0, 1] or [-1, 1];
        elsewhere 1. There the noise is in proportion to it, so a typical norm serves better than
        the largest.
    start : fitted linear model, tuple (coef, intercept) or None, default=None
        Where training starts, in units of X and y: a private model, one of scikit-learn, or
        coefficients of the shape of ``coef_``. It must be public, or paid for by a guarantee of its
        own: of a model of the same records, both are charged (`total_privacy` adds them up).
        Training is then shorter, and the penalty pulls towards it. None: the base rate, where it is
        bought, or 0.
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, in units of ``data_norm`` times the bound
        on residuals. Values below 1 clip the residuals of the longest rows further. "auto": no
        further clipping.
    target_bounds : tuple (low, high), default=None
        Public bounds of the counts, 0 <= low < high: those outside are clipped. None: taken from y,
        with a PrivacyLeakWarning.
    fit_intercept : bool, default=True
        Whether to learn an intercept.
    intercept_scaling : float or "auto", default="auto"
        Constant of the column that carries the intercept; it counts in the norm of a row. "auto": a
        quarter of ``data_norm``.
    conditioning : "auto", None, float or Conditioning, default="auto"
        Whether to spend a part of the budget first on a centre, column weights (with many records a
        matrix) and a bound on norms. They give all directions of the rows a similar scale.
        ``alpha``, ``clip`` and ``intercept_scaling`` are then in units of mapped rows of norm 1
        (the latter two divided by ``data_norm``). A number is the share of mu^2 to spend. A
        `skdpdyn.preprocessing.Conditioning` of public moments, or the ``conditioning_`` of an
        earlier fit, costs nothing. None: train on the rows as they are. "auto": spend a tenth to a
        fifth if ``solver`` leaves its steps to "auto" and n mu is at least 20 (40 under
        "replace_one"); see `skdpdyn.conditioning`.
    solver : "auto", str or Solver, default="auto"
        The algorithm. "auto": full-batch noisy gradients, "noisy_gd". Or a key of
        `skdpdyn.solvers.SOLVERS`, or an instance with its hyperparameters, such as
        ``NoisyGD(n_steps=200)``.
    bound : str, default="tightest"
        The privacy bound to calibrate by: "tightest" of all that hold, or a key of
        `skdpdyn.privacy.ACCOUNTANTS`, such as "last_iterate". One whose hypotheses fail is refused.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours, see `skdpdyn.privacy.Adjacency`.
    max_rows_per_person : int or "auto", default="auto"
        Public limit on the rows of one person that a fit with ``groups`` uses. From a person with
        more rows, it takes so many, evenly spaced. "auto": 100, or fewer for more than 100 million
        persons. "objective_perturbation" costs more the higher the limit is, and needs a number.
    diagnostics : bool, default=False
        Whether to spend 1 % of mu^2 on diagnostics: the share of rows longer than ``data_norm``,
        and of targets outside of their bounds. See ``diagnostics_`` and the report.
    random_state : None or int, default=None
        None: the noise comes from fresh entropy and a cryptographic generator. An int repeats the
        noise, so the fit is not private: use it for tests.
    n_jobs : int, default=None
        Number of threads. None: as many as scikit-learn's OpenMP would take, see
        ``OMP_NUM_THREADS``, each with a million numbers of X at least. -1: all processors. The
        result does not depend on it.
    verbose : int, default=0
        Whether to print the plan before training, then progress and the time left, with tqdm if it
        is installed. Nothing printed is computed from the records. The time of a step may depend on
        them, and no guarantee covers it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the logarithm of the rate, for rows within ``data_norm``.
    intercept_ : float
        Intercept.
    target_bounds_ : tuple (low, high)
        The bounds used.
    privacy_ : Guarantee
        Guarantee of the fit: ``epsilon(delta)``, ``delta(epsilon)``, ``tradeoff(fpr)``, and ``mu``
        where it is Gaussian.
    mechanism_ : record
        Record of the run.
    bound_ : str
        The bound that ``privacy_`` comes from.
    epsilon_, delta_ : float
        The budget spent.
    noise_multiplier_ : float or ndarray of shape (n_steps,)
        Standard deviation of the noise on the gradient sum, over its sensitivity; an array if it
        varies by step, as in "noisy_sgd". For a solver without steps: of the noise that is added
        once.
    sigma_ : float or ndarray of shape (n_steps,)
        Noise in the units of Langevin dynamics: a step adds N(0, 2 step_size sigma^2 I). "noisy_gd"
        has it (the value of the first step), and so does "noisy_sgd" unless it draws batches
        afresh.
    n_iter_ : int
        Number of steps; absent for a solver without steps, such as "objective_perturbation", and
        where the number is not released.
    step_size_ : float or ndarray of shape (n_steps,)
        Step size; an array if it varies by step, as in "noisy_sgd"; absent for a solver without
        steps and for "bassily_sgd". "noisy_gd" cools its last steps: this is the first step size,
        and ``mechanism_.step_size`` has all.
    alpha_, clip_, intercept_scaling_, data_norm_ : float
        The values used.
    solver_ : str
        Name of the solver that ran.
    conditioning_ : FittedConditioning or None
        The released map of rows: ``mean``, ``weights``, ``norm``, ``radius``. Logarithms of rates
        are ``X @ coef_ + intercept_`` for rows that the map does not shorten: those of norm at most
        ``radius`` whose norm after ``weights`` is at most ``norm``. Longer rows, and all sparse
        rows, are scaled to that norm. None: rows are scaled into the ball of radius ``data_norm``.
    diagnostics_ : dict
        With ``diagnostics=True``: the part of the rows that is shortened and of the targets that is
        clipped, released with noise, each as a dict of ``share`` and of the ends ``low`` and
        ``high`` of an interval that holds the share without noise with a probability of 95 %.
    n_samples_ : int
        Number of records, or of persons after a fit with ``groups``, public.
    privacy_unit_ : str
        Whom ``privacy_`` is for, its unit: "record", or "person" after a fit with ``groups``.
    leaks_ : tuple of str
        Leaks that ``privacy_`` does not cover, such as a seed or bounds taken from y; empty if
        there are none.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, where X had string names.

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
        clip=lambda n_parameters, strength: rules.rate_clip(),
        kept_length=rules.kept_length_of_rates,
        units=CountUnits(),
        twin=lambda: import_module("sklearn.linear_model").PoissonRegressor(),
    )

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        exposure: Any = None,
        groups: Any = None,
        unit: str | None = None,
        max_rows_per_person: int | None = None,
        **not_taken: Any,
    ) -> Self:
        """Train on the records, spending at most (epsilon, delta).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows. Those longer than ``data_norm`` are scaled down to it.
        y : array-like of shape (n_samples,) or None, default=None
            Counts, not rates. None where ``X`` is a source of rows, which has them.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each count, such as years insured or thousands of persons: finite numbers >
            0. It is a part of the record, as private as the count; it need not be bounded, for it
            only says where the residual is 0. None: 1 for each, or what a source of rows has.
        groups : array-like of shape (n_samples,), default=None
            Id of the person that each row belongs to: integers or strings. The guarantee is then
            for a whole person with all rows, see `PrivateRidge.fit`. None: every row is a record.
        unit : str or None, default=None
            What ``groups`` holds the ids of, as the guarantee names it: "household", say. None:
            "person", or without ``groups`` "record".
        max_rows_per_person : int or None, default=None
            Public number of rows that a person may have at most: each row then has the weight
            1/max_rows_per_person, where 1/k would bend what differs by the number of rows, such as
            hazards (`skdpdyn.inference.person_periods`). A person with more rows is an error. None:
            rows weigh 1/k, and the parameter of that name limits them.
        **not_taken : dict
            Nothing else is taken. ``sample_weight`` raises an error that says what to do instead.

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
        refuse_in_fit(self, not_taken)
        with all_or_nothing(self) as model, silent_arithmetic():
            fit(model, X, y, groups, unit, exposure, max_rows_per_person)
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
        rates = self._rates(X)
        if exposure is None:
            return rates
        if is_collection(X):
            raise ValueError("exposure=...: X is a Dask collection. Multiply predict(X) by it")
        of_rows = exposures(exposure, rates)
        return rates * (like(of_rows, X) if on_device(X) else of_rows)

    @by_blocks
    def _rates(self, X):
        """Return expected counts for an exposure of 1."""
        return rates_of_logarithms(self._raw_predictions(X))

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
            Exposure of each count. None: 1 for each.

        Returns
        -------
        float
        """
        warn_of_own_rows(self, X)
        return score_of_rates(y, self.predict(X), sample_weight, exposure)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
