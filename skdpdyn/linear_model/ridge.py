"""Private ridge regression."""

from importlib import import_module

from skdpdyn import rules
from skdpdyn.linear_model.base import PrivateLinearRegressor
from skdpdyn.linear_model.family import Family
from skdpdyn.linear_model.parts import NumberUnits
from skdpdyn.linear_model.targets import Numbers
from skdpdyn.losses import squared


class PrivateRidge(PrivateLinearRegressor):
    """Ridge regression under (epsilon, delta)-differential privacy.

    Minimises ``mean of Huber losses + (alpha/2) |theta|^2`` by noisy gradient descent and releases
    the last iterate. Huber's loss is the squared loss with its residual clipped, so that every
    privacy bound holds. Inside fit, targets are clipped into ``target_bounds`` and mapped to [-1,
    1]. Rows are scaled into the ball of radius ``data_norm``, in fit and in prediction alike, so
    ``coef_`` applies to scaled rows. Every "auto" is a function of the shape of X, the budget and
    ``data_norm`` alone.

    With enough records, a part of the budget first learns a map of rows that gives all directions a
    similar scale, see ``conditioning``. Then ``coef_`` applies to rows that the map does not
    shorten, training takes few and long steps, and only the composition bound holds.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float or "auto", default="auto"
        Probability of a larger loss, in (0, 1). "auto": 1/n^2.
    alpha : float or "auto", default="auto"
        Strength of the L2 penalty on the mean loss, >= 0: scikit-learn's alpha is n times this one.
        The intercept is penalised too. "auto": too weak to be felt within the training time.
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
        Bound on the norm of one record's loss gradient, for targets in [-1, 1], in units of
        ``data_norm``. "auto": the gradient at a residual of 2.5/d for d columns, intercept
        included, but at least 1/16; larger if n mu is above 40 d; at most 1/4.
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
        `skdpdyn.preprocessing.Conditioning` of public moments, or the ``conditioning_`` of an
        earlier fit, costs nothing. None: train on the rows as they are. "auto": spend a tenth to a
        fifth if ``solver`` leaves its steps to "auto" and n mu is at least 20 (40 under
        "replace_one"); see `skdpdyn.conditioning`.
    solver : "auto", str or Solver, default="auto"
        The algorithm. "auto": full-batch noisy gradients, "noisy_gd". Or a key of
        `skdpdyn.solvers.SOLVERS`, or an instance with its hyperparameters, such as
        ``NoisyGD(n_steps=200)``.
        "sufficient_statistics" is AdaSSP, see `skdpdyn.solvers.SufficientStatistics`. It does not
        clip residuals, so it is better for targets with two peaks or a long tail, of which Huber's
        loss learns something between mean and median.
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
        units=NumberUnits(),
        twin=lambda: import_module("sklearn.linear_model").Ridge(),
    )
