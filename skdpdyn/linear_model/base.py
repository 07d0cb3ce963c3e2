"""Bases of the estimators: parameters, the fit, predictions, and exports."""

from abc import ABC
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skdpdyn.core.schema import apply_schema, said_of
from skdpdyn.data.products import prepare, products_of
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.rows import canonical_rows, in_reach, row_factors, row_norms
from skdpdyn.privacy.checks import is_auto, quoted
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.solvers import SOLVERS
from skdpdyn.training.base import (
    DTYPES,
    PrivateEstimatorMixin,
    all_or_nothing,
    by_blocks,
    of_persons,
    remember_rows,
    scored,
    silent_arithmetic,
    validated,
    warn_of_own_rows,
)
from skdpdyn.training.fit import fit
from skdpdyn.training.parameters import answering, refuse_elsewhere, shows_weights, weights_in_fit
from skdpdyn.training.plan import plan_of
from skdpdyn.training.purchase import Purchase
from skdpdyn.training.reading import Beside
from skdpdyn.training.start import NUMBERS
from skdpdyn.training.values import Family


def _is_plain(model, X):
    """Return whether validation leaves rows as they are, unless they are not finite."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in DTYPES
        and len(X) > 0
        and "coef_" in vars(model)
        and X.shape[1] == model.n_features_in_
        and "feature_names_in_" not in vars(model)
    )


class PrivateLinearModel(PrivateEstimatorMixin, BaseEstimator, ABC):
    """Base of all estimators: fit, raw predictions and display.

    To add an estimator, derive from `PrivateLinearClassifier` or `PrivateLinearRegressor`, and name
    its `Family` as the class attribute ``family``.

    A fit has three steps: ``read`` checks X and y, `plan` decides what the budget pays for, and
    `fit` buys it, lets the solver run its record, and publishes the result.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, for rows within ``data_norm``.
    intercept_ : float
        Intercept.
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
        steps. "noisy_gd" cools its last steps: this is the first step size, and
        ``mechanism_.step_size`` has all.
    alpha_, clip_, intercept_scaling_, data_norm_ : float
        The values used.
    solver_ : str
        Name of the solver that ran.
    conditioning_ : FittedConditioning or None
        The released preprocessing: ``mean``, ``weights``, ``norm``, ``radius``. Raw predictions are
        ``X @ coef_.T + intercept_`` for rows that are not scaled down: those of norm at most
        ``radius`` whose norm after ``weights`` is at most ``norm``. Longer rows, and all sparse
        rows, are scaled to that norm. None: rows are scaled into the ball of radius ``data_norm``.
    silent_columns_ : dict
        Columns without information, by name, with what shows it among the released numbers.
    ranges_ : ndarray of shape (n_features, 2) or None
        Ranges of the columns, public once they are bought. ``coef_`` is in units of X inside them,
        predictions clip to them, and ``conditioning_`` applies to columns scaled to [-1, 1] by
        them. None: rows are used as they are.
    n_samples_ : int
        Number of records, or of persons after a fit with ``groups``, public.
    rows_of_a_person_ : int or None
        After ``fit(equal_rows=True)``, the ``max_rows_per_person`` that weights of rows are the
        inverse of. None: rows weigh 1/k.
    privacy_unit_ : str
        The unit of ``privacy_``: "record", or "person" after a fit with ``groups``.
    bought_ : dict of str to float
        Facts that were bought because they were not given, such as "classes", and the part of mu^2
        that each took.
    schema_ : Schema
        All facts of the table, given or bought, with the releases that they came from. A fit with
        it as ``schema`` buys none.
    leaks_ : tuple of str
        What ``privacy_`` does not cover, such as a seed, or labels or bounds taken from y, also in
        models passed as parameters; empty if there is nothing.
    sources_ : tuple of Source
        Models that were passed as parameters, such as ``start``, and releases that the facts of
        ``schema`` came from. Each has its own guarantee, which ``privacy_`` does not include.
        `total_privacy` names them.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, where X had string names.

    Examples
    --------
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.linear_model import PrivateLinearModel
    >>> issubclass(PrivateRidge, PrivateLinearModel)
    True
    >>> round(PrivateRidge(target_bounds=(0, 1)).privacy_cost(1000, 3).epsilon(1e-6), 6)
    1.0
    """

    family: ClassVar[Family]
    __metadata_request__fit: ClassVar = {"sample_weight": None}  # not in the signature

    # attributes that a fit sets, for editors and type checkers
    coef_: np.ndarray
    intercept_: Any
    conditioning_: Any
    solver_: str
    sigma_: Any
    noise_multiplier_: Any
    step_size_: Any
    n_iter_: int
    n_samples_: int
    silent_columns_: dict[Any, str]
    n_features_in_: int
    rows_of_a_person_: int | None = None
    alpha_: float
    clip_: float
    intercept_scaling_: float
    data_norm_: float
    class_weight_: dict[Any, float]
    bought_: dict[str, float]
    start_: str | None = None
    ranges_: np.ndarray | None = None
    _public_columns_: tuple[str, ...] | None = None  # of a table
    feature_names_in_: np.ndarray

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        alpha: float | str = "auto",
        bounds: Any = "auto",
        data_norm: float | str = "auto",
        start: Any = None,
        clip: float | str | None = "auto",
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
        """Keep the parameters.

        Parameters
        ----------
        epsilon : float, default=1.0
            Privacy budget, > 0.
        delta : float or "auto", default="auto"
            Additive term of the (epsilon, delta) guarantee, in (0, 1). "auto": 1/n^2.
        alpha : float or "auto", default="auto"
            Strength of the L2 penalty on the mean loss, >= 0; the intercept is penalized, too.
            Without conditioning (``conditioning=None``), scikit-learn's ``alpha`` is n times this
            one, and its ``C`` is 1/(n alpha). With conditioning the penalty applies to preprocessed
            rows, and has no counterpart in scikit-learn. "auto": so weak that it has no effect
            within the training time.
        bounds : "auto", pairs, dict or None, default="auto"
            Ranges of the columns of dense rows. Values outside are clipped, and columns are scaled
            to [-1, 1] for training. Public bounds cost nothing: one pair for all columns, one for
            each column, or a dict by column name. A dict's missing columns are bought. Do not take
            bounds from the data. "auto": up to 14 % of the budget buys them, if it also buys
            ``conditioning`` and there are enough records; ``start`` passes on its own. "auto" means
            None if ``data_norm`` or ``conditioning`` is given, for sparse rows, and for solvers
            without conditioning. Without an intercept ranges are widened to be symmetric around 0.
            None: rows are used as they are, within ``data_norm``.
        data_norm : float or "auto", default="auto"
            Public bound on the Euclidean norm of a row. Longer rows are scaled down to it. Do not
            take it from the data. "auto": the square root of the number of columns with ``bounds``,
            which rows in [-1, 1] never exceed. Without bounds: if a typical norm is bought (dense
            rows with ``conditioning``), the larger of this root and s/50 times the root, where s is
            the strength of `skdpdyn.core.rules`, while ``clip`` and ``intercept_scaling`` stay in
            units of the root; otherwise 1. In the last case noise is proportional to it, so a
            typical norm is better than the largest.
        start : fitted linear model, tuple (coef, intercept) or None, default=None
            Where training starts, in units of X and y. A private model is covered by its own
            guarantee: `total_privacy` names it, and adds it for the same records. Coefficients of
            the shape of ``coef_`` count as public on your word. A model that is not private is a
            leak, with a warning. With few records, training from a start is shorter, and the
            penalty pulls towards it. None: the base rate, if it is bought, or 0.
        clip : float or "auto", default="auto"
            Bound on the norm of one record's loss gradient, in units of ``data_norm``. The clipped
            gradient is the gradient of another convex loss, so every privacy bound holds. "auto": a
            function of the shape of X and the budget, defined by the estimator's family.
        fit_intercept : bool, default=True
            Whether to learn an intercept. Without one, numeric targets are scaled but not centred.
        intercept_scaling : float or "auto", default="auto"
            Value of the constant column for the intercept. It counts in the norm of a row. "auto":
            a quarter of ``data_norm``.
        conditioning : "auto", None or FittedConditioning, default="auto"
            Private preprocessing: a part of the budget buys a centre, column weights (with many
            records a matrix) and a bound on norms, which bring all directions of the rows to a
            similar scale. ``alpha``, ``clip`` and ``intercept_scaling`` are then in units of
            preprocessed rows of norm 1 (the latter two divided by ``data_norm``). "auto": spend a
            tenth to a fifth of mu^2 if ``solver`` has ``n_steps="auto"`` and there are enough
            records: 134 at epsilon 1 and 1,529 at 0.1 (59 and 692 under "add_remove"). The
            ``conditioning_`` of an earlier fit costs nothing, and a ``start`` passes on its own.
            None: train on the rows as they are.
        solver : "auto", str or Solver, default="auto"
            The algorithm. "auto": full-batch noisy gradient descent, "noisy_gd". Otherwise a key of
            `skdpdyn.solvers.SOLVERS`, or an instance with its hyperparameters, such as
            ``NoisyGD(n_steps=200)``.
        bound : str, default="tightest"
            The privacy bound that noise is calibrated by: "tightest" for the smallest that holds,
            or a key of `skdpdyn.privacy.ACCOUNTANTS`, such as "last_iterate". A bound whose
            hypotheses fail is refused.
        adjacency : {"replace_one", "add_remove"}, default="replace_one"
            Which data sets are neighbours, see `skdpdyn.privacy.Adjacency`.
        max_rows_per_person : int or "auto", default="auto"
            Public limit on the rows of one person that a fit with ``groups`` uses. If a person has
            more rows, that many are used, evenly spaced. "auto": 100, or fewer for more than 100
            million persons. "objective_perturbation" costs more for a higher limit, and needs a
            number.
        weight_bounds : tuple (low, high) or None, default=None
            Public bounds of the ``sample_weight`` that is passed to ``fit``, such as inverse
            sampling probabilities of a survey. A weight must follow from its own record: weights
            that were raked, normalized or fitted depend on other records, which no guarantee
            covers. Weights are clipped to the bounds and divided by ``high``; 0.5 % of mu^2 buys
            their sum. The larger ``high`` is relative to the mean weight, the more noise. None:
            ``sample_weight`` is refused.
        schema : Schema or None, default=None
            Public facts in one `skdpdyn.Schema`. It replaces the parameters of the same names that
            are "auto" or None.
        random_state : None or int, default=None
            None: noise comes from fresh entropy and a cryptographic generator. An int repeats the
            noise, so the fit is not private: for tests only.
        n_jobs : int, default=None
            Number of threads. None: as many as scikit-learn's OpenMP would use, see
            ``OMP_NUM_THREADS``, each with at least a million numbers of X. -1: all processors. The
            result does not depend on it.
        verbose : int, default=0
            Whether to print the plan before training, then progress and the remaining time, with
            tqdm if it is installed. Nothing that is printed is computed from the records, but the
            time of a step may depend on them, and no guarantee covers it.
        """
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.bounds = bounds
        self.data_norm = data_norm
        self.start = start
        self.clip = clip
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.conditioning = conditioning
        self.solver = solver
        self.bound = bound
        self.adjacency = adjacency
        self.max_rows_per_person = max_rows_per_person
        self.weight_bounds = weight_bounds
        self.schema = schema
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator and, as ``solver__...``, of its solver.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        self : object
            The estimator.

        Raises
        ------
        ValueError
            For the name of a parameter that does not exist, or one of the solver's where ``solver``
            is a name.
        """
        unknown = params.keys() - vars(self).keys()
        if unknown:
            refuse_elsewhere(unknown - self.get_params().keys())
        solver = params.get("solver", self.solver)
        nested = next((name for name in params if name.startswith("solver__")), None)
        if (
            nested is not None
            and isinstance(solver, str)
            and (is_auto(solver) or solver in SOLVERS)
        ):
            name = "NoisyGD" if is_auto(solver) else SOLVERS[solver].__name__
            raise ValueError(
                f"{nested} is a parameter of an instance: pass solver={name}(), not "
                f"{quoted(solver)}"
            )
        return super().set_params(**params)

    def privacy_cost(self, n_samples: int, n_features: int) -> Guarantee:
        """Return the cost of a fit on data of this shape, from public numbers alone.

        Parameters
        ----------
        n_samples : int
            Number of records; of persons, for a fit with ``groups``.
        n_features : int
            Number of columns of X.

        Returns
        -------
        Guarantee
            Equal to ``privacy_`` after such a fit, except for the unit of a fit with ``groups``.
            Labels with ``classes="auto"`` count as whole numbers, which are bought.

        Raises
        ------
        ValueError
            If a parameter or the shape is invalid, or what is public of the target is not given.
        UnsupportedMechanismError
            If ``bound`` does not apply to what the solver would run.
        CalibrationError
            If no noise is known to meet the budget.
        """
        request = Purchase.of(apply_schema(copy(self)), n_samples, n_features).request
        return plan_of(request).guarantee

    def family_of(self, public: Any) -> Family:
        """Return the family, given the public facts of targets.

        Parameters
        ----------
        public : ndarray, tuple or None
            The classes, or the bounds of numbers.

        Returns
        -------
        Family
        """
        return self.family

    def _public_facts(self):
        facts = apply_schema(copy(self))
        begun = "that training started from coefficients, public by the word of who passed them"
        return (
            f"n_samples={self.n_samples_}" + of_persons(self),
            f"n_features={self.n_features_in_}",
            *[f"data_norm={self.data_norm_:.6g}"] * (self._public_columns_ is None),
            *(self._public_columns_ or ()),
            *said_of("bounds", facts.bounds) * (self.ranges_ is not None),
            *self._shortening(),
            "every parameter of the estimator",
            *self._public_targets(),
            *[begun] * (self.start_ == NUMBERS),
            *self._estimand(),
        )

    def _estimand(self):
        """Say whose predictions are right, and which facts weights of rows may follow from."""
        unit = self.privacy_.unit
        weighted = getattr(self, "weight_bounds", None) is not None
        of_weights = [f"that each weight follows from its own {unit} alone"] * weighted
        if unit == "record":
            return tuple(of_weights)
        if self.rows_of_a_person_ is not None:
            alike = f"each row weighs 1/{self.rows_of_a_person_}, and predictions are a mean row's"
            return (f"the estimand: {alike}", *of_weights)
        if getattr(self, "estimand", "persons") == "rows":
            most = f"at most {self.max_rows_per_person} a {unit}"
            return (f"the estimand: predictions are those of a mean row, of {most}", *of_weights)
        within = f"{'by their weights' if weighted else 'alike'} within a {unit}"
        return (
            f"the estimand: rows weigh {within}, and predictions are a mean {unit}'s",
            *of_weights,
        )

    def _public_targets(self):
        """Name the labels or bounds of targets, unless they were taken from the records."""
        is_private = any(leak.endswith("taken from y") for leak in self.leaks_)
        is_private = is_private or self.family.targets.parameter in getattr(self, "bought_", ())
        return () if is_private else ("the sets of possible labels or target bounds",)

    def _shortening(self):
        """Say by which rule rows are shortened, and its effect on coefficients."""
        shortened = getattr(getattr(self, "conditioning_", None), "shortened", None)
        if shortened is None:
            return ()
        part = f"about {100 * shortened:.2g} % of the rows within data_norm are shortened"
        meaning = "and all longer ones: coefficients are those of the shortened rows"
        return (f"the rule that {part}, {meaning}",)

    @shows_weights
    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        unit: str | None = None,
        equal_rows: bool = False,
        **not_taken: Any,
    ) -> Self:
        """Train on the records, spending at most (epsilon, delta).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Rows
            Finite rows. Rows longer than ``data_norm`` are scaled down to it. A memory map in C
            order, of float64 or float32, is not copied.
        y : array-like of shape (n_samples,) or None, default=None
            Targets. None if ``X`` is a source of rows, which contains them.
        groups : array-like of shape (n_samples,), default=None
            Id of the person that each row belongs to: integers or strings. The guarantee then holds
            for a whole person, whatever the number of their rows and labels (user-level privacy). A
            row of a person with k rows has weight 1/k, and at most ``max_rows_per_person`` of them
            are used. So predictions are those of an average person, not of an average row (see
            ``estimand`` of classifiers). ``n_samples_``, the number of persons, is public; the
            number of rows is not. None: every row is a record. A source of rows accepts no groups.
        unit : str or None, default=None
            Name of the unit that the ids in ``groups`` stand for, such as "household". None:
            "person", or "record" without ``groups``.
        equal_rows : bool, default=False
            Whether each row has weight 1/``max_rows_per_person``, which then has to be a number,
            instead of 1/k. Weights of 1/k bias what depends on the number of rows.
        **not_taken : dict
            ``sample_weight``, a number for each row, with ``weight_bounds``. Nothing else.

        Returns
        -------
        self : object
            The fitted estimator. After an error the estimator is as it was before.

        Raises
        ------
        ValueError, TypeError
            If a parameter, X, y or groups is invalid, or ``solver`` cannot learn by person; or for
            ``sample_weight``.
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
            If labels or target bounds are taken from y, or ``random_state`` is an int.
        """
        weight = weights_in_fit(self, not_taken)
        with all_or_nothing(self, X, y, groups, weight) as model, silent_arithmetic():
            fit(model, X, y, Beside(groups, unit, equal_rows, weight=weight))
            model._settle()
        if isinstance(X, np.ndarray) or hasattr(X, "iloc"):
            self._prepare(np.dtype(getattr(X, "dtype", np.float64)))
        remember_rows(self, X)
        return self

    def _settle(self):
        """Set the numbers that follow from the released ones: none of linear models."""

    @staticmethod
    def _prepare(dtype):
        """Compile the kernels of predictions of rows of this precision."""
        prepare(np.dtype(np.float32 if dtype == np.float32 else np.float64))

    def _scaled_products(self, X):
        """Return the products of rows, mapped as in fit, with the coefficients.

        A row has one value in every place and among any number of rows: evaluations by person count
        on it, since how many rows a person has is private.
        """
        is_plain = _is_plain(self, X)
        if not is_plain:
            check_is_fitted(self)
            X = validated(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)
        with silent_arithmetic():
            if sparse.issparse(X):
                products = self._of_sparse(X)
            else:
                products, is_finite = products_of(self, X.dtype).raw(X, self.n_jobs)
                if is_plain and not is_finite:
                    validated(self, X, dtype=DTYPES, reset=False)  # raises
        products = products.astype(X.dtype, copy=False)
        return products if self.coef_.ndim == 2 else products[:, 0]

    def _of_sparse(self, X):
        """Return the products of CSR rows, which scipy adds up row by row."""
        if self.ranges_ is not None:
            raise ValueError("X is sparse, and this model has bounds: pass X.toarray()")
        X = canonical_rows(X)
        if self.conditioning_ is None:
            norms, X = in_reach(row_norms, X)
            scale = row_factors(norms, self.data_norm_, X)
        else:
            row_map = self.conditioning_.row_map
            if row_map.centre is not None:
                raise ValueError(
                    "X is sparse, and this model was fitted on dense rows, which it centres: pass "
                    "X.toarray()"
                )
            (scale, _, _), X = in_reach(row_map.factors, X)
            scale = scale * row_map.norm
        products = X @ np.atleast_2d(self.coef_).T.astype(X.dtype)
        return products * scale.astype(X.dtype)[:, None]

    def to_sklearn(self) -> Any:
        """Return a fitted pipeline of scikit-learn with the same predictions.

        Its steps are the ranges of the columns, if there are any, as a
        `skdpdyn.preprocessing.BoundsScaler`, the public map of rows, a
        `skdpdyn.preprocessing.RowMapper`, and a linear model of scikit-learn with this model's
        coefficients, in units of what the ranges make of X. (To copy ``coef_`` alone is not
        enough: long rows are shortened before.) In double precision predictions agree to 1e-12.
        The pipeline does not know what was spent: keep ``privacy_report()`` beside it.

        Returns
        -------
        Pipeline

        Examples
        --------
        >>> import numpy as np
        >>> from skdpdyn import PrivateRidge
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
        >>> model = PrivateRidge(target_bounds=(-1, 1)).fit(X, X[:, 0])
        >>> round(float(abs(model.to_sklearn().predict(X) - model.predict(X)).max()), 12)
        0.0
        """
        from sklearn.pipeline import Pipeline

        from skdpdyn.preprocessing import BoundsScaler, RowMapper  # slow to load

        check_is_fitted(self)
        conditioning = getattr(self, "conditioning_", None)
        mapper = RowMapper(self.data_norm_)
        if conditioning is not None:
            row_map = conditioning.row_map
            mapper = RowMapper(
                row_map.radius,
                norm=row_map.norm,
                centre=row_map.centre,
                weights=row_map.weights,
                unit=row_map.unit,
            )
        model = self._twin()
        targets = np.asarray(getattr(self, "classes_", np.ones(2)))
        # Fit on zeros, so that scikit-learn sets its attributes; then overwrite the learnt ones
        rows = np.zeros((len(targets), self.n_features_in_))
        steps = [("rows", mapper), ("model", model)]
        coef = self.coef_
        intercept = self.intercept_
        if self.ranges_ is not None:
            ranges = np.asarray(self.ranges_)  # without what only skdpdyn knows of it
            steps.insert(0, ("ranges", BoundsScaler(ranges, (-1.0, 1.0))))
            coef, intercept = Ranges(*ranges.T).of_mapped(coef, intercept)
        pipeline = Pipeline(steps).fit(rows, targets)
        if hasattr(self, "feature_names_in_"):
            steps[0][1].feature_names_in_ = self.feature_names_in_
        if coef.ndim == 2 and len(coef) == 2:  # for two classes scikit-learn keeps the difference
            coef = np.diff(coef, axis=0)
            intercept = np.diff(intercept)
        model.coef_ = coef
        model.intercept_ = intercept if np.ndim(intercept) else np.float64(intercept)
        return pipeline

    def _twin(self):
        """Return the unfitted model of scikit-learn, or one like it, that predicts alike."""
        if self.family.twin is None:
            raise NotImplementedError(f"{type(self).__name__} has no counterpart in scikit-learn")
        return self.family.twin()

    def export(
        self, folder: Any, formats: Any = ("skops",), audit: Any = None, **deployment: Any
    ) -> Any:
        """Write a release folder: the model without its data, and its promise with its checks.

        It holds the model, the report as JSON, the model card, with ``deployment`` a record for
        the registry of deployments, and checksums. ``python -m skdpdyn check folder`` is
        for who receives it.

        Parameters
        ----------
        folder : str or path-like
            A folder that does not exist yet, or is empty.
        formats : sequence of {"skops", "onnx", "pickle"}, default=("skops",)
            Forms of the model. "skops" is always there. "pickle" is of ``to_sklearn()``.
        audit : skdpdyn.audit.Audit or None, default=None
            An audit of the configuration, which the folder shows as audit.json.
        **deployment : dict
            Fields of ``privacy_report().to_registry``.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        ValueError
            If the model is not private, the folder holds files, a field is missing or wrong, or the
            audit found more than is claimed.
        ImportError
            If skops, or skl2onnx for "onnx", is not installed.
        """
        from skdpdyn.export.io import export  # slow to load

        check_is_fitted(self)
        return export(self, folder, formats, deployment or None, audit)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # bounds would make sparse rows dense
        tags.input_tags.sparse = self.bounds is None or is_auto(self.bounds)
        return tags


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):
    """Base of the classifiers.

    Parameters
    ----------
    classes : "auto", "from_y" or array-like of shape (n_classes,), default="auto"
        The labels that can occur; 0, 1, ... inside meta-estimators that encode them, such as
        ``VotingClassifier``. Records with other labels have weight 0; if the base rate is bought,
        noisy counts warn of them. "auto": the classes of booleans are False and True. Whole-number
        labels are found by noisy counts, which also give the base rate: [0, 1], [-1, 1] or [1, 2]
        if no other label stands out of the noise, otherwise the labels from -1 to 255 that do (the
        two most common ones in models of two classes). ``start`` passes on its own. Text labels,
        and labels of too few records (below 830 at epsilon 1 and 9,117 at 0.1), are taken from y
        with a PrivacyLeakWarning, as with "from_y".
    class_weight : dict, "private" or None, default=None
        Public weights of the classes by label; classes without an entry weigh 1. Weights are
        divided by the largest, so no record counts more than 1. The noise stays the same: raise the
        budget if it hides the classes with small weights. "private": weights in inverse proportion
        to noisy counts, which cost 0.01 of mu^2. "balanced" is refused, because it counts private
        labels without noise.

    estimand : {"persons", "rows"}, default="persons"
        What predictions estimate after a fit with ``groups``. "persons": the risk of an average
        person, whose k rows weigh 1/k. Risks of all rows then do not add up to the number of events
        if persons with many rows have another rate. "rows": the risk of an average row, of at most
        ``max_rows_per_person`` per person, which has to be a number. A further 5 % of mu^2 moves
        the intercept.

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
        Coefficients, for rows within ``data_norm``. Two classes have one row.
    intercept_ : ndarray of shape (n_outputs,)
        Intercept.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    class_weight_ : dict
        Weights of the classes, the largest 1; absent without ``class_weight``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.linear_model import Family, Labels, PrivateLinearClassifier
    >>> from skdpdyn.core.losses import hinge
    >>> class Classifier(PrivateLinearClassifier):
    ...     family = Family(hinge, Labels(most=2), clip=lambda n_parameters, strength: 1.0)
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> model = Classifier(classes=[False, True]).fit(X, X[:, 0] > 0)
    >>> bool(model.score(X, X[:, 0] > 0) > 0.95)
    True
    """

    classes_: np.ndarray

    @answering
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        alpha: float | str = "auto",
        bounds: Any = "auto",
        data_norm: float | str = "auto",
        start: Any = None,
        clip: float | str | None = "auto",
        classes: Any = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float | str = "auto",
        conditioning: Any = "auto",
        solver: Any = "auto",
        bound: str = "tightest",
        adjacency: str = "replace_one",
        max_rows_per_person: Any = "auto",
        weight_bounds: Any = None,
        class_weight: Any = None,
        estimand: str = "persons",
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
        self.classes = classes
        self.class_weight = class_weight
        self.estimand = estimand

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # the check of class weights trains on 50 very noisy rows, at the default budget of 1
        tags.classifier_tags.poor_score = True
        tags.classifier_tags.multi_class = self.family.targets.most > 2
        return tags

    def _raw_predictions(self, X):
        return self._scaled_products(X) + self.intercept_

    @by_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the raw predictions of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, preprocessed as in fit.

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, or (n_samples, n_classes)
            For two classes positive for the second one, as in scikit-learn.
        """
        raw = self._raw_predictions(X)
        if raw.shape[1] == 1:
            return raw.ravel()
        return raw[:, 1] - raw[:, 0] if self.classes_.size == 2 else raw

    @by_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, preprocessed as in fit.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        raw = self._raw_predictions(X)
        codes = np.argmax(raw, axis=1) if raw.shape[1] > 1 else (raw[:, 0] > 0).astype(np.intp)
        return np.asarray(self.classes_)[codes]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, without noise: for data that need no privacy.

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
        from sklearn.metrics import accuracy_score  # slow to load

        warn_of_own_rows(self, X)
        return scored(accuracy_score, y, self.predict(X), sample_weight)


class PrivateLinearRegressor(RegressorMixin, PrivateLinearModel):
    """Base of the regressors.

    Parameters
    ----------
    target_bounds : tuple (low, high), "auto" or "from_y", default="auto"
        Public bounds of the target; targets outside are clipped. "auto": 0.2 to 1 % of mu^2, up to
        10 % with few records, buy a range that contains nearly all targets; ``start`` passes on its
        own. With too few records (below 830 at epsilon 1 and 9,117 at 0.1) they are taken from y
        with a PrivacyLeakWarning, as with "from_y".

    Attributes
    ----------
    target_bounds_ : tuple (low, high)
        The bounds used.
    mean_std_ : float
        How far the mean prediction of the training rows may be from the mean of their targets
        within ``target_bounds_``, because of noise and of targets that training clips further; only
        for models of means with conditioning and an intercept. A warning says if it is above a
        tenth of the distance of that mean to the nearer of ``target_bounds_``. What lies beyond
        bounds that were bought is not in it: another warning says where these show only zeros.
    huber_width_ : float
        With ``loss="huber"``: the residual, in units of y, from which on the loss is linear.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.linear_model import Family, Numbers, PrivateLinearRegressor
    >>> from skdpdyn.core.losses import squared
    >>> class Regressor(PrivateLinearRegressor):
    ...     family = Family(squared, Numbers(), clip=lambda n_parameters, strength: 1.0)
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> model = Regressor(target_bounds=(-0.5, 0.5)).fit(X, X[:, 0])
    >>> bool(model.score(X, X[:, 0]) > 0.8)
    True
    """

    target_bounds_: tuple[float, float]

    @answering
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
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
        self.target_bounds = target_bounds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # the checks train on 200 rows, at the default budget of 1
        tags.regressor_tags.poor_score = True
        return tags

    def _bought_facts(self):
        facts = super()._bought_facts()
        if (width := getattr(self, "huber_width_", None)) is not None:
            meaning = "of skewed targets centres between mean and median"
            facts = (*facts, f"the estimand: by Huber's loss of width {width:.3g}, {meaning}")
        if getattr(self, "mean_std_", None) is None:
            return facts
        total = self.n_samples_ * self.mean_std_
        told = (
            f"sum of predictions +- {total:.3g}, about that of the targets (n_samples times means)"
        )
        return (*facts, told)

    def _raw_predictions(self, X):
        products = self._scaled_products(X)
        return products + products.dtype.type(self.intercept_)

    @by_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, preprocessed as in fit.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._raw_predictions(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2, without noise: for data that need no privacy.

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
        from sklearn.metrics import r2_score  # slow to load

        warn_of_own_rows(self, X)
        return scored(r2_score, y, self.predict(X), sample_weight)
