"""Bases of the estimators: parameters, the fit, predictions, and what others can use."""

from abc import ABC
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skdpdyn.base import (
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
from skdpdyn.data.rows import canonical_rows, row_factors, row_norms
from skdpdyn.io import export as write_folder
from skdpdyn.linear_model.answers import answering, refuse_elsewhere, refuse_in_fit
from skdpdyn.linear_model.family import Family
from skdpdyn.linear_model.fit import fit
from skdpdyn.linear_model.plan import plan
from skdpdyn.linear_model.request import request_of
from skdpdyn.preprocessing import RowMapper
from skdpdyn.privacy import Budget
from skdpdyn.privacy.checks import is_auto
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.solvers import SOLVERS


class PrivateLinearModel(PrivateEstimatorMixin, BaseEstimator, ABC):
    """Base of all estimators: the fit, raw predictions, and the display.

    To add an estimator, derive from `PrivateLinearClassifier` or `PrivateLinearRegressor`, and name
    its `Family` as the class attribute ``family``.

    A fit goes through few hands: ``read`` checks X and y, `plan` finds what the budget pays for,
    and `fit` buys it, has the solver run its record, and publishes what was learnt.

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
    n_features_in_: int
    alpha_: float
    clip_: float
    intercept_scaling_: float
    data_norm_: float
    diagnostics_: dict[str, dict[str, float]]
    class_weight_: dict[Any, float]
    start_: str | None = None
    feature_names_in_: np.ndarray

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
        refuse_elsewhere(params.keys() - self.get_params())
        solver = params.get("solver", self.solver)
        nested = next((name for name in params if name.startswith("solver__")), None)
        if (
            nested is not None
            and isinstance(solver, str)
            and (is_auto(solver) or solver in SOLVERS)
        ):
            name = "NoisyGD" if is_auto(solver) else SOLVERS[solver].__name__
            raise ValueError(
                f"{nested} is a parameter of an instance: pass solver={name}(), not {solver!r}"
            )
        return super().set_params(**params)

    def privacy_cost(self, n_samples: int, n_features: int) -> Guarantee:
        """Return what a fit on data of this shape will spend, from public numbers alone.

        Parameters
        ----------
        n_samples : int
            Number of records; of persons, for a fit with ``groups``.
        n_features : int
            Number of columns of X.

        Returns
        -------
        Guarantee
            Equal to ``privacy_`` after such a fit of records; by persons, but for its unit.

        Raises
        ------
        ValueError
            If a parameter or the shape is invalid, or what is public of the target is not given.
        UnsupportedMechanismError
            If ``bound`` does not apply to what the solver would run.
        CalibrationError
            If no noise is known to meet the budget.
        """
        return plan(request_of(self, n_samples, n_features)).guarantee

    def _public_facts(self):
        trusted = "public, or paid for by a guarantee of its own"
        begun = f"that training started from {self.start_}, {trusted}" if self.start_ else None
        return (
            f"n_samples={self.n_samples_}" + of_persons(self),
            f"n_features={self.n_features_in_}",
            f"data_norm={self.data_norm_:.6g}",
            *self._shortening(),
            "every parameter of the estimator",
            "the sets of possible labels or target bounds",
            *filter(None, [begun]),
        )

    def _shortening(self):
        """Say by which rule rows are shortened, and what that makes of coefficients."""
        shortened = getattr(getattr(self, "conditioning_", None), "shortened", None)
        if shortened is None:
            return ()
        part = f"about {100 * shortened:.2g} % of the rows are shortened"
        return (f"the rule that {part}: coefficients are those of the shortened rows",)

    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        unit: str | None = None,
        max_rows_per_person: int | None = None,
        **not_taken: Any,
    ) -> Self:
        """Train on the records, spending at most (epsilon, delta).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Rows
            Finite rows. Those longer than ``data_norm`` are scaled down to it. Of a memory map, and
            of a frame of 256 MB and more, some rows at a time are read in order: no array is made.
        y : array-like of shape (n_samples,) or None, default=None
            Targets. None where ``X`` is a source of rows, which has them.
        groups : array-like of shape (n_samples,), default=None
            Id of the person that each row belongs to: integers or strings. The guarantee is then
            for a whole person with all rows and labels, whatever their number: a row of a person
            with k rows has weight 1/k, and at most ``max_rows_per_person`` of them are used.
            ``n_samples_`` is the number of persons, which is public; the number of rows is not.
            None: every row is a record by itself. A source of rows takes none.
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
        refuse_in_fit(self, not_taken)
        with all_or_nothing(self) as model, silent_arithmetic():
            fit(model, X, y, groups, unit, None, max_rows_per_person)
        remember_rows(self, X)
        return self

    def _scaled_products(self, X):
        """Return the products of rows, mapped as in fit, with the coefficients."""
        check_is_fitted(self)
        X = canonical_rows(validated(self, X, accept_sparse="csr", dtype=DTYPES, reset=False))
        # models stored by version 0.1 lack it
        conditioning = getattr(self, "conditioning_", None)
        if conditioning is not None:
            return self._conditioned_products(X, conditioning.row_map)
        scale = row_factors(row_norms(X), self.data_norm_, X).astype(X.dtype, copy=False)
        products = X @ self.coef_.T.astype(X.dtype, copy=False)
        return products * (scale[:, None] if products.ndim == 2 else scale)

    def _conditioned_products(self, X, row_map):
        """Return `_scaled_products` under a map, which leaves short rows as they are."""
        if sparse.issparse(X) and row_map.centre is not None:
            raise ValueError(
                "X is sparse, and this model was fitted on dense rows, which it centres: pass "
                "X.toarray()"
            )
        with silent_arithmetic():
            scale, offset, _ = row_map.factors(X)
            products = X @ self.coef_.T.astype(X.dtype, copy=False)
            scale = (scale * row_map.norm).astype(X.dtype)
            products = products * (scale[:, None] if products.ndim == 2 else scale)
            if row_map.centre is not None:
                # the intercept contains the shift by the centre already
                shift = -(self.coef_.astype(np.float64) @ row_map.centre)
                lost = offset * row_map.norm - 1
                products += (np.multiply.outer(lost, shift)).astype(X.dtype)
        return products

    def to_sklearn(self) -> Any:
        """Return a fitted pipeline of scikit-learn that predicts what this model does.

        Its first step is the public map of rows, a `skdpdyn.preprocessing.RowMapper`, its second a
        linear model of scikit-learn with this model's coefficients. (To copy ``coef_`` alone is not
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
        if self.family.twin is None:
            raise NotImplementedError(f"{type(self).__name__} has no counterpart in scikit-learn")
        model, targets = self.family.twin(), getattr(self, "classes_", np.ones(2))
        # Fit on zeros, so that scikit-learn sets its attributes; then overwrite the learnt ones
        rows = np.zeros((len(targets), self.n_features_in_))
        pipeline = Pipeline([("rows", mapper), ("model", model)]).fit(rows, targets)
        if hasattr(self, "feature_names_in_"):
            mapper.feature_names_in_ = self.feature_names_in_
        coef, intercept = self.coef_, self.intercept_
        if coef.ndim == 2 and len(coef) == 2:  # for two classes scikit-learn keeps the difference
            coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
        model.coef_, model.intercept_ = (
            coef,
            intercept if np.ndim(intercept) else np.float64(intercept),
        )
        return pipeline

    def export(self, folder: Any, formats: Any = ("skops",), **deployment: Any) -> Any:
        """Write a release folder: the model without its data, its promise, and what checks it.

        It holds the model, the report as JSON, the model card, with ``deployment`` a record for
        the registry of deployments, and checksums. ``python -m skdpdyn.privacy check folder`` is
        for who receives it.

        Parameters
        ----------
        folder : str or path-like
            A folder that does not exist yet, or is empty.
        formats : sequence of {"skops", "onnx", "pickle"}, default=("skops",)
            Forms of the model. "skops" is always there. "pickle" is of ``to_sklearn()``.
        **deployment : dict
            Fields of ``privacy_report().to_registry``.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        ValueError
            If the model is not private, the folder holds files, or a field is missing or wrong.
        ImportError
            If skops, or skl2onnx for "onnx", is not installed.
        """
        check_is_fitted(self)
        return write_folder(self, folder, formats, deployment or None)

    def __setstate__(self, state: Any) -> None:
        # version 0.1 lacked these parameters and what they do
        new = {
            "conditioning": None,
            "start": None,
            "max_rows_per_person": "auto",
            "diagnostics": False,
        }
        super().__setstate__(new | state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):
    """Base of the classifiers: class labels, public or taken from y with a warning.

    Parameters are those of `PrivateLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.linear_model import Family, Labels, PrivateLinearClassifier
    >>> from skdpdyn.losses import hinge
    >>> class Classifier(PrivateLinearClassifier):
    ...     family = Family(hinge, Labels(most=2), clip=lambda n_parameters, strength: 1.0)
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> model = Classifier(classes=[False, True]).fit(X, X[:, 0] > 0)
    >>> bool(model.score(X, X[:, 0] > 0) > 0.95)
    True
    """

    @answering
    def __init__(
        self,
        epsilon: float | Budget = 1.0,
        delta: float | str = "auto",
        *,
        alpha: float | str = "auto",
        data_norm: float | str = "auto",
        start: Any = None,
        clip: float | str | None = "auto",
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float | str = "auto",
        conditioning: Any = "auto",
        solver: Any = "auto",
        bound: str = "tightest",
        adjacency: str = "replace_one",
        max_rows_per_person: Any = "auto",
        class_weight: Any = None,
        diagnostics: bool = False,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.data_norm = data_norm
        self.start = start
        self.clip = clip
        self.classes = classes
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.conditioning = conditioning
        self.solver = solver
        self.bound = bound
        self.adjacency = adjacency
        self.max_rows_per_person = max_rows_per_person
        self.diagnostics = diagnostics
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __setstate__(self, state: Any) -> None:
        super().__setstate__({"class_weight": None} | state)

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
            Rows; mapped into the ball of radius ``data_norm`` as they were in fit.

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, or (n_samples, n_classes)
            For two classes positive for the second one, as scikit-learn has it.
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
            Rows; mapped into the ball of radius ``data_norm`` as they were in fit.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        raw = self._raw_predictions(X)
        codes = np.argmax(raw, axis=1) if raw.shape[1] > 1 else (raw[:, 0] > 0).astype(np.intp)
        return self.classes_[codes]

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
    """Base of the regressors: targets within public bounds, or taken from y with a warning.

    Parameters are those of `PrivateRidge`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.linear_model import Family, Numbers, PrivateLinearRegressor
    >>> from skdpdyn.losses import squared
    >>> class Regressor(PrivateLinearRegressor):
    ...     family = Family(squared, Numbers(), clip=lambda n_parameters, strength: 0.25)
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> model = Regressor(target_bounds=(-0.5, 0.5)).fit(X, X[:, 0])
    >>> bool(model.score(X, X[:, 0]) > 0.8)
    True
    """

    @answering
    def __init__(
        self,
        epsilon: float | Budget = 1.0,
        delta: float | str = "auto",
        *,
        alpha: float | str = "auto",
        data_norm: float | str = "auto",
        start: Any = None,
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
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.data_norm = data_norm
        self.start = start
        self.clip = clip
        self.target_bounds = target_bounds
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.conditioning = conditioning
        self.solver = solver
        self.bound = bound
        self.adjacency = adjacency
        self.max_rows_per_person = max_rows_per_person
        self.diagnostics = diagnostics
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # the checks train on 200 rows, at the default budget of 1
        tags.regressor_tags.poor_score = True
        return tags

    def _raw_predictions(self, X):
        products = self._scaled_products(X)
        return products + products.dtype.type(self.intercept_)

    @by_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; mapped into the ball of radius ``data_norm`` as they were in fit.

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
