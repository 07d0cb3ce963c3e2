"""Private quantile regression."""

from typing import Any

from skdpdyn.base import scored
from skdpdyn.linear_model.answers import answering
from skdpdyn.linear_model.base import PrivateLinearRegressor
from skdpdyn.linear_model.family import Family
from skdpdyn.linear_model.parts import NumberUnits
from skdpdyn.linear_model.targets import Numbers
from skdpdyn.losses import pinball
from skdpdyn.privacy import Budget

_SPREAD = 2.0  # 1 / density of targets about a quantile, in units of their scale


class QuantileUnits(NumberUnits):
    """The units of numbers; the mean residual is how far the part below a prediction is off."""

    def moved(self, learning, spending, residual):
        """See `TargetUnits.moved`."""
        return -_SPREAD * residual


class _FamilyOfQuantile:
    """The family of an estimator's own quantile; of a class, that of the median."""

    def __get__(self, model, owner):
        loss = pinball(0.5 if model is None else model.quantile)
        return Family(
            loss, Numbers(), clip=lambda strength, *_: loss.lipschitz, units=QuantileUnits()
        )


class PrivateQuantileRegressor(PrivateLinearRegressor):
    """Linear regression of a quantile under (epsilon, delta)-differential privacy.

    Minimises ``mean of pinball losses + (alpha/2) |theta|^2`` by noisy gradient descent and
    releases the last iterate. The kink of the loss is smoothed over a twentieth of the targets'
    scale to either side, so that gradients have a slope that is known, and predictions are between
    those of neighbouring quantiles. No table of standard errors is known for it: the curvature of
    its loss is the density of targets at the quantile.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float or "auto", default="auto"
        Probability of a larger loss, in (0, 1). "auto": 1/n^2.
    quantile : float, default=0.5
        The part of the targets that is to lie below the prediction, in (0, 1). 0.5: the median.
    alpha : float or "auto", default="auto"
        Strength of the L2 penalty on the mean loss, >= 0: scikit-learn's alpha is n times this one.
        The intercept is penalised too. "auto": too weak to be felt within the training time.
    data_norm : float or "auto", default="auto"
        Public bound on the Euclidean norm of a row: longer rows are scaled down to it. Do not take
        it from the data. "auto": the root of the number of columns where a typical length is bought
        of the rows (dense rows with ``conditioning``), which suits columns in [0, 1] or [-1, 1];
        elsewhere 1. There the noise is in proportion to it, so a typical norm serves better than
        the largest.
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, for targets in [-1, 1], in units of
        ``data_norm``. "auto": the largest gradient; a smaller one would move the quantile.
    target_bounds : tuple (low, high), default=None
        Public bounds of the target. None: taken from y, with a PrivacyLeakWarning.
    fit_intercept : bool, default=True
        Whether to learn an intercept. Without one targets are scaled but not centred.
    intercept_scaling : float or "auto", default="auto"
        Constant of the column that carries the intercept; it counts in the norm of a row. "auto": a
        quarter of ``data_norm``.
    conditioning : "auto", None, float or Conditioning, default="auto"
        Whether to spend a part of the budget first on a centre, column weights (with many records a
        matrix) and a bound on norms. They give all directions of the rows a similar scale.
        ``alpha``, ``clip`` and ``intercept_scaling`` are then in units of mapped rows of norm 1
        (the latter two divided by ``data_norm``). A number is the share of mu^2 to spend. A
        `skdpdyn.preprocessing.Conditioning` of public moments costs nothing. None: train on the
        rows as they are. "auto": spend a tenth to a fifth if ``solver`` leaves its steps to "auto"
        and n mu is at least 20 (40 under "replace_one"); see `skdpdyn.conditioning`.
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
        Coefficients, for rows within ``data_norm``, in units of the target.
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
        once; absent if noise is added several times, as in "sufficient_statistics".
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
        The released map of rows: ``mean``, ``weights``, ``norm``, ``radius``. Predictions are ``X @
        coef_ + intercept_`` for rows that the map does not shorten: those of norm at most
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
    >>> bool(0.87 < np.mean(y <= model.predict(X)) < 0.93), round(model.epsilon_, 6)
    (True, 1.0)
    """

    family = _FamilyOfQuantile()  # type: ignore[assignment]

    @answering
    def __init__(
        self,
        epsilon: float | Budget = 1.0,
        delta: float | str = "auto",
        *,
        quantile: float = 0.5,
        alpha: float | str = "auto",
        data_norm: float | str = "auto",
        clip: float | str | None = "auto",
        target_bounds: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float | str = "auto",
        conditioning: Any = "auto",
        solver: Any = "auto",
        bound: str = "tightest",
        adjacency: str = "replace_one",
        max_rows_per_person: Any = "auto",
        diagnostics: bool = False,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            alpha=alpha,
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
            diagnostics=diagnostics,
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
