"""The one fit: a budget and public numbers make a plan, and the plan makes a model."""

import math
import warnings
from abc import ABC, abstractmethod
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from skdpdyn.base import (
    DTYPES,
    PrivateEstimatorMixin,
    all_or_nothing,
    by_blocks,
    check_n_jobs,
    check_verbose,
    forget_fit,
    of_persons,
    quoting_no_records,
    scored,
    silent_arithmetic,
    validated,
    warn_of_weak_budget,
)
from skdpdyn.conditioning import (
    CLASS_COUNTS,
    CURVATURE,
    LARGEST_SPREAD,
    LEAST_STRENGTH,
    NORM_QUANTILE,
    RIDGE_NORM_QUANTILE,
    ROUNDS_DOWN,
    SPARSE_CURVATURE,
    Conditioner,
    Conditioning,
    FittedConditioning,
    Releases,
    can_sum,
    learn_class_weights,
    n_parts_of,
    pays_for_matrix,
    shares_of,
    strength_of,
)
from skdpdyn.data.base import Rows
from skdpdyn.data.cluster import is_collection
from skdpdyn.data.files import TabledRows, table_of
from skdpdyn.data.local import rows_of
from skdpdyn.data.persons import MOST_ROWS, auto_rows, person_codes
from skdpdyn.data.rows import canonical_rows, row_factors, row_norms
from skdpdyn.diagnostics import diagnose, shares_of_diagnostics
from skdpdyn.exceptions import CalibrationError, PrivacyLeakWarning
from skdpdyn.linear_model.answers import answering, refuse_elsewhere, refuse_in_fit
from skdpdyn.linear_model.targets import (
    NO_EXPOSURES,
    Target,
    are_bounds,
    are_labels,
    as_labels,
    numbers_of,
    numbers_of_labels,
    numbers_within,
    outside,
)
from skdpdyn.losses import Loss
from skdpdyn.noise import check_random_state, generators
from skdpdyn.objective import Objective, n_parameters_of, row_norm_of
from skdpdyn.preprocessing import RowMapper
from skdpdyn.privacy import (
    ACCOUNTANTS,
    Adjacency,
    Budget,
    Composition,
    Gaussian,
    GaussianDP,
    composition,
)
from skdpdyn.privacy.calibration import check_shape, judge, least_noise
from skdpdyn.privacy.checks import (
    as_float,
    checked_choice,
    checked_count,
    checked_flag,
    is_auto,
    is_named,
)
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.progress import Progress
from skdpdyn.solvers import SOLVERS, NoisyGD, Solver
from skdpdyn.solvers.base import AUTO_FORGETTING
from skdpdyn.solvers.noisy_gd import conditioned_time

# Defaults in units of data_norm, chosen on public data sets of 160 to 36,000 rows at epsilon 0.1 to
# 10: a small intercept column leaves the norm to the features.
AUTO_INTERCEPT_SCALING = 0.25  # times data_norm
# On conditioned rows, whose largest second moment is 0.02 to 0.4, a column of 0.25 would be the one
# that limits steps (flights' log loss 0.510 at 0.25, 0.507 at 0.15; at 0.1 Adult and MAGIC lose 0.1
# points)
CONDITIONED_INTERCEPT_SCALING = 0.15
# times the clip, for sparse rows with more columns than n mu / f (news at epsilon 0.1)
SPARSE_CLIP = 0.4
# parts of mu^2 if the schedule learns nothing: the rounded sum of the shares
_DENSE_SHARE, _MATRIX_SHARE = 0.1, 0.2


@dataclass(frozen=True)
class Plan:
    """Plan of a fit: what it will do and spend, known before it sees a record."""

    objective: Objective
    solver: Solver
    mechanism: Any
    bound: str
    guarantee: Guarantee
    budget: Budget
    conditioning: "_Conditioned | None" = None


@dataclass(frozen=True)
class _Conditioned:
    """Plan of what a fit learns before training, and of the budget that is left."""

    conditioner: Conditioner
    mu: float
    training_mu: float
    # mu that the guarantee counts: of all that is learnt, and of training if ``record`` is None
    declared_mu: float
    record: Any = None  # record of training; None if its steps follow from what is learnt


class PrivateLinearModel(PrivateEstimatorMixin, BaseEstimator, ABC):
    """Base of all estimators: the plan, the fit, raw predictions, and the display.

    To add an estimator, derive from `PrivateLinearClassifier` or `PrivateLinearRegressor`, which
    need a loss and what ``clip="auto"`` stands for. To derive from this class, write the four
    methods below as well. They see parameters and public numbers only. ``_encode_target`` also sees
    targets, which never leave the fit.

    A fit goes through few hands: ``fit`` reads and checks X and y, ``_plan`` finds the record that
    the budget pays for, the solver's ``solve`` runs that record in compiled code, and ``_unpack``
    sets what was learnt.
    """

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
    feature_names_in_: np.ndarray

    @abstractmethod
    def _public_loss(self):
        """Return the Loss to learn, from the parameters alone."""

    @abstractmethod
    def _auto_clip(self, n_parameters, strength) -> float:
        """Return the bound on the residual that clip="auto" stands for.

        ``n_parameters`` includes intercepts; ``strength`` is the number of records times mu, twice
        that under add_remove.
        """

    @abstractmethod
    def _encode_target(self, y):
        """Return the Target, or raise an error that says what is wrong with y.

        ``y`` is None where targets are read with the rows: nothing may be taken from them then.
        """

    @abstractmethod
    def _unpack(self, coef, intercept):
        """Set ``coef_`` and ``intercept_`` from what was learnt, an output a row."""

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
            Equal to ``privacy_`` after such a fit.

        Raises
        ------
        ValueError
            If a parameter or the shape is invalid, or what is public of the target is not given.
        UnsupportedMechanismError
            If ``bound`` does not apply to what the solver would run.
        CalibrationError
            If no noise is known to meet the budget.
        """
        return self._plan(n_samples, n_features, self._public_loss()).guarantee

    def _public_facts(self):
        return (
            f"n_samples={self.n_samples_}" + of_persons(self),
            f"n_features={self.n_features_in_}",
            f"data_norm={self.data_norm_:.6g}",
            "every parameter of the estimator",
            "the sets of possible labels or target bounds",
        )

    def fit(self, X: Any, y: Any = None, groups: Any = None, **not_taken: Any) -> Self:
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
            model._fit(X, y, groups)
        return self

    def _fit(self, X, y, groups=None, exposure=None):
        check_random_state(self.random_state)
        self._options()
        X, target = self._checked(X, y, groups, exposure)
        with closing(X) if isinstance(X, Rows) else nullcontext():
            self._learn(X, target, groups)

    def _learn(self, X, target, groups):
        """Plan, run, and set what was learnt."""
        n_samples, codes = X.shape[0], None
        if groups is not None:
            codes = person_codes(groups, n_samples)
            n_samples = int(codes.max()) + 1
        elsewhere = isinstance(X, Rows)
        is_sparse = X.is_sparse if elsewhere else sparse.issparse(X)
        plan = self._plan(n_samples, X.shape[1], target.loss, is_sparse, elsewhere and not X.draws)
        if codes is not None:
            self._check_persons(plan.solver)
        solver = plan.solver
        if elsewhere and not (solver.streams or (X.draws and solver.draws)):
            raise ValueError(
                f"solver={self.solver!r} needs all rows in memory, and X is a {type(X).__name__}. "
                "Use solver='auto'"
            )
        (generator,) = generators(self.random_state, stacklevel=5)
        warn_of_weak_budget(plan.budget, n_samples, stacklevel=4)
        if self.verbose:
            self._tell(plan)
        if elsewhere:
            rows = X.with_targets(target.encode)
            rows.most_rows = plan.objective.most_rows  # leaves as much room as an array: same bits
        else:
            rows = rows_of(X, target.values, codes, plan.objective.most_rows, target.exposure)
        record, units, diagnostics = plan.mechanism, (0.0, 1.0), {}
        weights = self._label_weights(target)
        if plan.conditioning is not None:
            rows, record, parts, units, learnt, diagnostics = _condition(
                plan,
                rows,
                self._flags(X, target, codes, plan.objective.most_rows),
                generator,
                self._learn_target,
                self.verbose,
            )
            target.forget_numbers()  # training needs them in learnt units, as rows have them
            weights = weights if learnt is None else learnt
            plan = replace(plan, mechanism=Composition((*parts, record)) if parts else record)
        if weights is not None:
            rows = rows.weighted_by_class(weights)
        theta = plan.solver.solve(
            plan.objective,
            record,
            rows,
            generator=generator,
            n_threads=effective_n_jobs(self.n_jobs),
            verbose=self.verbose,
        )
        forget_fit(self)
        self._publish_plan(plan, target.leaks)
        objective = plan.objective
        self.privacy_unit_ = "record" if codes is None else "person"
        self.n_samples_, self.alpha_, self.clip_ = (
            objective.n_samples,
            objective.alpha,
            objective.lipschitz,
        )
        self.data_norm_, self.intercept_scaling_ = (
            float(self.data_norm),
            objective.intercept_scaling,
        )
        names = [name for name, solver in SOLVERS.items() if type(plan.solver) is solver]
        self.solver_ = names[0] if names else type(plan.solver).__name__
        self.conditioning_ = None if rows.map is None else FittedConditioning(rows.map)
        if diagnostics:
            self.diagnostics_ = diagnostics
        if weights is not None:
            self.class_weight_ = dict(
                zip(target.attributes["classes_"].tolist(), weights.tolist(), strict=True)
            )
        for name, value in {**target.attributes, **plan.solver.fitted_attributes(record)}.items():
            setattr(self, name, value)
        self._unpack(
            *(
                part.astype(rows.dtype)
                for part in _in_units_of_x(*objective.split(theta), rows.map, *units)
            )
        )
        if not (
            np.all(np.isfinite(self.coef_))
            and np.all(np.isfinite(np.asarray(self.intercept_, dtype=rows.dtype)))
        ):
            raise FloatingPointError(
                "the parameters overflowed: noise, steps or target_bounds are beyond X's "
                "precision. Rescale"
            )

    def _flags(self, X, target, codes, most_rows):
        """Return rows whose target is 1 where public bounds clip that of a row, or None."""
        if not self.diagnostics or not is_regressor(self):
            return None
        if target.flags is None:
            raise ValueError(
                f"diagnostics=True: {type(self).__name__} does not say which targets it clips. "
                "Use diagnostics=False"
            )
        if not isinstance(X, Rows):  # a stand-in of zeros, which takes no memory
            nothing = np.broadcast_to(np.zeros((1, 1)), (len(target.clipped), 1))
            return rows_of(nothing, target.clipped, codes, most_rows)
        flags = X.with_targets(target.flags)
        flags.most_rows = most_rows
        return flags

    _takes_exposure = False

    def _checked(self, X, y, groups, exposure):
        """Return the rows, an array or a source of them, and the Target."""
        if is_collection(X):
            from skdpdyn.data.cluster.dask import cluster_rows  # an extra, and slow to load

            X, y = cluster_rows(X, y, is_regressor(self), exposure=exposure), None
            exposure = None
        if isinstance(X, Rows):
            if y is not None:
                raise ValueError(f"y must be None: X is a {type(X).__name__}, which has targets")
            if groups is not None:
                raise ValueError(
                    f"groups needs all rows in memory, and X is a {type(X).__name__}. Use "
                    "groups=None"
                )
            if exposure is not None:
                raise ValueError(
                    f"exposure must be None: X is a {type(X).__name__}, which has exposures beside "
                    "its targets"
                )
            if X.has_exposure and not self._takes_exposure:
                raise ValueError(
                    f"X has exposures, and {type(self).__name__} takes none. Use "
                    "PrivatePoissonRegressor"
                )
            if X.in_memory:
                raise TypeError(
                    f"X is a {type(X).__name__}: pass arrays that are in memory as X and y"
                )
            target = self._encode_target(None)
            self._know_columns(X.shape[1], getattr(X, "feature_names", None))
            return X, target
        y, numeric = as_labels(y, getattr(self, "classes", None)), is_regressor(self)
        # of every map: reading from a file that has become too short would end the process
        table = table_of(X)
        if table is not None and groups is None and self._options()[-1].streams:
            if table.nbytes >= table.least_bytes:
                return self._tabled(table, y, numeric, exposure)
            X = table.whole(X)
        X, y = validated(
            self, X, y, accept_sparse="csr", dtype=DTYPES, order="C", y_numeric=numeric
        )
        given = {"exposure": exposure} if self._takes_exposure else {}
        target = self._encode_target(y, **given)
        return canonical_rows(X), replace(target, values=target.values.astype(X.dtype, copy=False))

    def _tabled(self, table, y, numeric, exposure):
        """Return rows that are read in order, and the Target, of which nothing is kept."""
        # what stands in for X takes no memory
        stand_in = np.broadcast_to(np.zeros(1), (table.shape[0], 1))
        _, y = validated(self, stand_in, y, dtype=DTYPES, y_numeric=numeric)
        self._know_columns(table.shape[1], table.feature_names)
        public = getattr(self, "classes", None), getattr(self, "target_bounds", None)
        target = self._encode_target(y if public == (None, None) else None)
        exposure = None if exposure is None else np.asanyarray(exposure)
        if exposure is not None and exposure.shape != y.shape:
            raise ValueError(NO_EXPOSURES)
        return TabledRows(table, y, exposure), replace(target, values=None, exposure=None)

    def _know_columns(self, n_features, names):
        """Set what scikit-learn's validation sets of rows in memory."""
        self.n_features_in_ = n_features
        vars(self).pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _tell(self, plan):
        """Print what will run and what it spends: public numbers."""
        record, conditioned = plan.mechanism, plan.conditioning
        steps = f" of {record.n_steps} steps" if hasattr(record, "n_steps") else ""
        what = f"{type(record).__name__}{steps}"
        if conditioned is not None:
            record = conditioned.record
            what = type(plan.solver).__name__ if record is None else type(record).__name__
            what = f"conditioning and {what}"
        delta = plan.budget.delta
        spent = f"epsilon={plan.guarantee.epsilon(delta):.6g} at delta={delta:.3g} by {plan.bound}"
        print(f"[{type(self).__name__}] {spent} for {what}")

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
        model, targets = self._sklearn_model()
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

    def _sklearn_model(self):
        """Return the equivalent model of scikit-learn, and targets to fit it to."""
        raise NotImplementedError(f"{type(self).__name__} has no counterpart in scikit-learn")

    def __setstate__(self, state: Any) -> None:
        # version 0.1 lacked these parameters and what they do
        new = {"conditioning": None, "max_rows_per_person": "auto", "diagnostics": False}
        super().__setstate__(new | state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _options(self):
        """Check the parameters that need no shape, and return them."""
        data_norm = _positive("data_norm", self.data_norm, "a public bound on the norm of a row")
        alpha = (
            None
            if is_auto(self.alpha)
            else _non_negative("alpha", self.alpha, "'auto' or the strength of the penalty")
        )
        clip = (
            None
            if is_auto(self.clip)
            else _positive(
                "clip", self.clip, "'auto' or a bound on the norm of a record's gradient"
            )
        )
        checked_flag(self.fit_intercept, "fit_intercept")
        checked_flag(self.diagnostics, "diagnostics")
        if not self.fit_intercept:
            intercept_scaling = 0.0
        elif is_auto(self.intercept_scaling):
            intercept_scaling = AUTO_INTERCEPT_SCALING * data_norm
        else:
            intercept_scaling = _positive(
                "intercept_scaling",
                self.intercept_scaling,
                "'auto' or the intercept column's constant",
            )
        checked_choice(self.adjacency, "adjacency", list(Adjacency))
        solver = self.solver
        if is_auto(solver):
            solver = NoisyGD()
        elif isinstance(solver, str) and solver in SOLVERS:
            solver = SOLVERS[solver]()
        elif not isinstance(solver, Solver):
            raise ValueError(
                f"solver={solver!r} must be 'auto', one of {sorted(SOLVERS)} or an instance of "
                "a class of skdpdyn.solvers"
            )
        if not is_named(self.bound, "tightest", *ACCOUNTANTS):
            raise ValueError(
                f"bound={self.bound!r} must be 'tightest' or one of {sorted(ACCOUNTANTS)}"
            )
        check_n_jobs(self.n_jobs)
        check_verbose(self.verbose)
        return data_norm, alpha, clip, intercept_scaling, Adjacency(self.adjacency), solver

    def _plan(self, n_samples, n_features, loss, is_sparse=False, in_order=False):
        """Return what a fit on data of this shape will run and spend.

        The cost depends neither on ``is_sparse`` nor on any value of a record.
        """
        n_samples, n_features = check_shape(n_samples, n_features)
        data_norm, alpha, clip, intercept_scaling, adjacency, solver = self._options()
        solver = solver.in_order() if in_order else solver
        budget = Budget.for_samples(
            self.epsilon, self.delta, n_samples=n_samples, adjacency=adjacency
        )
        if budget.delta == 0 and not solver.pure:
            raise ValueError(
                f"delta={self.delta!r} must be in (0, 1): Gaussian noise has no pure-epsilon "
                "guarantee; 1/n^2 is customary. "
                f"solver={self.solver!r} has no other noise. What has: "
                "solver=ObjectivePerturbation(noise='gamma') or "
                "OutputPerturbation(noise='gamma') of skdpdyn.solvers"
            )
        solver.check_loss(loss)
        most_rows = self._most_rows(solver, n_samples)
        maps = self._conditions(solver, budget, n_samples, n_features, most_rows)
        counts = self._buys_counts(solver, budget)
        diagnostics = self._diagnostics(solver, budget)
        if not maps and not counts and not diagnostics:
            objective = self._objective(
                loss,
                n_samples,
                n_features,
                data_norm,
                alpha,
                clip,
                intercept_scaling,
                solver,
                budget,
                self._auto_clip,
                most_rows,
            )
            record = solver.mechanism(objective, budget, self.bound)
            mechanism = least_noise(record, budget, bound=self.bound)
            solver.check_mechanism(objective, mechanism)
            bound, guarantee = judge(mechanism, budget.delta, self.bound)
            return Plan(objective, solver, mechanism, bound, guarantee, budget)
        return self._conditioned_plan(
            loss,
            n_samples,
            n_features,
            is_sparse,
            budget,
            solver,
            most_rows,
            maps,
            counts,
            diagnostics,
        )

    def _objective(
        self,
        loss,
        n_samples,
        n_features,
        data_norm,
        alpha,
        clip,
        intercept_scaling,
        solver,
        budget,
        auto_clip,
        most_rows,
        auto_alpha=None,
        spread=1.0,
    ):
        """Return the problem; None for alpha or clip is replaced by its "auto" value."""
        if clip is None:
            n_parameters = n_parameters_of(loss, n_features, intercept_scaling)
            strength = 2 * strength_of(
                n_samples, solver.gaussian_mu(budget, n_parameters), budget.adjacency
            )
            clip = solver.auto_clip(loss, auto_clip(n_parameters, strength)) * row_norm_of(
                data_norm, intercept_scaling
            )
        objective = Objective(
            loss,
            n_samples,
            n_features,
            data_norm,
            alpha=alpha or 0.0,
            clip=clip,
            intercept_scaling=intercept_scaling,
            spread=spread,
            most_rows=most_rows,
        )
        if alpha is None:
            alpha = (
                solver.auto_alpha(objective, budget, self.bound)
                if auto_alpha is None
                else auto_alpha(objective)
            )
            objective = replace(objective, alpha=alpha)
        return objective

    def _most_rows(self, solver, n_samples):
        """Return the public bound on the rows of a record, which sums leave room for."""
        if is_auto(self.max_rows_per_person):
            return 1 if solver.pays_for_rows else auto_rows(n_samples)
        return checked_count(self.max_rows_per_person, "max_rows_per_person", largest=MOST_ROWS)

    def _check_persons(self, solver):
        """Refuse groups if the solver has no proof for persons."""
        if not solver.takes_persons:
            raise ValueError(
                f"groups: solver={self.solver!r} has no proof for persons with several rows. "
                "Use solver='noisy_gd', "
                "'noisy_sgd' but in the order of the rows, or 'dp_sgd'"
            )
        if solver.pays_for_rows and is_auto(self.max_rows_per_person):
            raise ValueError(
                f"groups: solver={self.solver!r} costs more the more rows a person may have. "
                "Give max_rows_per_person, a "
                "public number"
            )

    def _conditions(self, solver, budget, n_samples, n_features, most_rows):
        """Return whether a fit learns a map of rows first; refuse a request that cannot be met."""
        conditioning = self.conditioning
        if conditioning is None:
            return False
        possible = (
            solver.maps_rows
            and not solver.pure
            and budget.delta > 0
            and not is_named(self.bound, "langevin")
        )
        if is_auto(conditioning):
            if not (possible and solver.adapts and self._schedule_is_known):
                return False
            return strength_of(
                n_samples, budget.mu, budget.adjacency
            ) >= LEAST_STRENGTH and can_sum(n_samples, n_features, most_rows)
        if not isinstance(conditioning, Conditioning) and not 0 < as_float(conditioning) < 1:
            raise ValueError(
                f"conditioning={conditioning!r} must be 'auto', None, a share of mu^2 in (0, 1) "
                "or a Conditioning"
            )
        if not possible:
            raise ValueError(
                f"conditioning={conditioning!r}: solver={self.solver!r} under "
                f"bound={self.bound!r} and delta={budget.delta:g} "
                "cannot train on conditioned rows. Use conditioning=None, or solver='auto' and "
                "bound='tightest'"
            )
        if not can_sum(n_samples, n_features, most_rows):
            raise ValueError(
                f"conditioning={conditioning!r}: n_samples={n_samples} are too many to sum. Use "
                "conditioning=None"
            )
        return True

    def _conditioned_plan(
        self,
        loss,
        n_samples,
        n_features,
        is_sparse,
        budget,
        solver,
        most_rows,
        maps,
        counts,
        diagnostics,
    ):
        """Return the plan of a fit that first learns a map of rows, or counts rows or classes."""
        data_norm, alpha, clip, intercept_scaling, adjacency, _ = self._options()
        centred, bounded = self.fit_intercept, math.isfinite(loss.lipschitz)
        given = self.conditioning if isinstance(self.conditioning, Conditioning) else None
        if given is not None and given.mean is not None and not centred:
            raise ValueError(
                "conditioning's mean centres rows, which fit_intercept=False does not allow: "
                "pass mean=None"
            )
        adapts = (
            maps
            and solver.adapts
            and self._schedule_is_known
            and is_named(self.bound, "tightest", "composition")
        )
        # Without an intercept, residuals of a squared loss have no bound: only products may round
        matrix = bounded or centred
        mu = budget.mu * ROUNDS_DOWN
        if given is None and maps:
            shares = shares_of(
                n_samples,
                n_features,
                mu,
                adjacency,
                is_sparse=is_sparse,
                centred=centred,
                matrix=matrix,
            )
        else:
            shares = {}
        loss = self._adapted_loss(loss) if adapts else loss
        if counts:
            shares["class counts"] = CLASS_COUNTS
        if maps and (of_target := self._target_shares(centred, adapts)):
            shares |= of_target
            loss = replace(loss, at_zero=math.inf)  # targets in learnt units may be far from 0
        if adapts:
            shares["curvature"] = SPARSE_CURVATURE if is_sparse else CURVATURE
        wanted = None  # required sum of the shares
        if not maps:
            pass
        elif given is None and not is_auto(self.conditioning):
            wanted = float(self.conditioning)
        elif given is None and not adapts:
            # sparse rows too, because the spending must not depend on sparsity
            wanted = (
                _MATRIX_SHARE
                if matrix and pays_for_matrix(n_samples, n_features, mu, adjacency)
                else _DENSE_SHARE
            )
        if wanted is not None:
            total = math.fsum(shares.values())
            shares = {name: share * wanted / total for name, share in shares.items()}
        left = 1 - (math.fsum(shares.values()) if wanted is None else wanted)
        left -= math.fsum(diagnostics.values())
        if not left > 0:
            raise ValueError(
                f"conditioning={self.conditioning!r} and diagnostics leave nothing of the budget "
                "for training. Use a smaller share"
            )
        shares = {**diagnostics, **shares}
        conditioner = Conditioner(
            n_samples=n_samples,
            data_norm=data_norm,
            shares=shares,
            quantile=self._norm_quantile(loss, strength_of(n_samples, mu, adjacency), n_features),
            threshold=1.0 if bounded else 0.5,
            given=given,
            maps=maps,
        )
        training = budget.part(left * ROUNDS_DOWN**2)
        if maps and self.fit_intercept:
            intercept_scaling = (
                CONDITIONED_INTERCEPT_SCALING
                if is_auto(self.intercept_scaling)
                else intercept_scaling / data_norm
            )
        few = is_sparse and adapts and n_features > strength_of(n_samples, mu, adjacency)

        def auto_clip(n_parameters, strength):
            return self._conditioned_clip(n_parameters, strength) * (SPARSE_CLIP if few else 1.0)

        def auto_alpha(objective):
            return AUTO_FORGETTING / conditioned_time(objective, training.mu, adjacency)

        objective = self._objective(
            loss,
            n_samples,
            n_features,
            1.0 if maps else data_norm,
            alpha,
            clip if clip is None or not maps else clip / data_norm,
            intercept_scaling,
            solver,
            training,
            auto_clip if maps else self._auto_clip,
            most_rows,
            auto_alpha if adapts else None,
            LARGEST_SPREAD if maps and (centred or matrix) else 1.0,
        )
        conditioned = _Conditioned(conditioner, mu, training.mu, budget.mu)
        if adapts:
            return Plan(
                objective,
                solver,
                None,
                "composition",
                GaussianDP(budget.mu, adjacency),
                budget,
                conditioned,
            )
        # more than the parts add up to, by their rounding: less than a report's check allows for
        declared_mu = mu * math.sqrt(1 - left) * (1 + 1e-12)
        parts = (Gaussian(noise_multiplier=1 / declared_mu, adjacency=adjacency),) if shares else ()
        with_noise = solver.mechanism(objective, training, self.bound)
        record = least_noise(with_noise, training, bound=self.bound)
        if parts and not isinstance(judge(record, budget.delta, self.bound)[1], GaussianDP):
            whole = least_noise(lambda noise: Composition((*parts, with_noise(noise))), budget)
            record = whole.mechanisms[-1]
        solver.check_mechanism(objective, record)
        declared = Composition((*parts, record)) if parts else record
        bound, guarantee = judge(declared, budget.delta, "tightest" if parts else self.bound)
        if not guarantee.epsilon(budget.delta) <= budget.epsilon:
            raise CalibrationError(
                f"conditioning={self.conditioning!r}: no noise is known to meet the budget with it"
            )
        return Plan(
            objective,
            solver,
            declared,
            bound,
            guarantee,
            budget,
            replace(conditioned, declared_mu=declared_mu, record=record),
        )

    def _diagnostics(self, solver, budget):
        """Return the shares of mu^2 of diagnostics, or raise if they cannot be paid for."""
        if not self.diagnostics:
            return {}
        if solver.pure or not budget.delta > 0 or is_named(self.bound, "langevin"):
            raise ValueError(
                f"diagnostics=True: solver={self.solver!r} under bound={self.bound!r} and "
                f"delta={budget.delta:g} leaves no part of the budget for Gaussian noise on "
                "counts. Use diagnostics=False"
            )
        return shares_of_diagnostics(is_regressor(self))

    def _buys_counts(self, solver, budget):
        """Return whether the fit buys class counts, or raise if it needs none but was asked to."""
        return False

    def _label_weights(self, target):
        """Return the public weight of each class, by its code; None for 1."""
        return

    # on conditioned rows, the constants of the schedule were chosen for this package's losses
    _schedule_is_known = False

    def _conditioned_clip(self, n_parameters, strength):
        """Return the bound that clip="auto" puts on the residual of conditioned rows."""
        return self._auto_clip(n_parameters, strength)

    def _norm_quantile(self, loss, strength, n_features):
        """Return the part of mapped rows that keep their length, by public numbers alone."""
        return NORM_QUANTILE if math.isfinite(loss.lipschitz) else RIDGE_NORM_QUANTILE

    def _adapted_loss(self, loss):
        """Return the loss of targets in learnt units, where steps follow from what is learnt."""
        return loss

    def _target_shares(self, centred, adapts):
        """Return the shares of mu^2 for what is learnt of targets before conditioned training."""
        return {}

    def _learn_target(self, rows, conditioner, releases):
        """Return rows with targets in learnt units, and the (shift, factor) of these units."""
        return rows, (0.0, 1.0)


def _condition(plan, rows, flags, generator, learn_target, verbose=0):
    """Return mapped rows, the record of training, and what was learnt of rows and targets."""
    conditioned, adjacency = plan.conditioning, plan.budget.adjacency
    conditioner = conditioned.conditioner
    releases = Releases(conditioned.mu, adjacency, generator)
    with Progress(n_parts_of(conditioner.shares), "conditioning", verbose) as releases.told:
        diagnostics = diagnose(rows, flags, conditioner, releases)
        rows, record, units, weights = _learn(plan, rows, releases, learn_target)
    # Learnt values choose maps and steps, never the amount that is spent
    spent = (*releases.parts, record) if conditioned.record is None else tuple(releases.parts)
    if spent and not composition(Composition(spent)).mu <= conditioned.declared_mu:
        raise CalibrationError(
            "the parts of this fit cost more than it declares: please report this"
        )
    return rows, record, tuple(releases.parts), units, weights, diagnostics


def _learn(plan, rows, releases, learn_target):
    """Return mapped rows, the record of training, and what was learnt of targets and classes."""
    conditioned = plan.conditioning
    conditioner = conditioned.conditioner
    rows, record = conditioner.learn(rows, releases), conditioned.record
    if rows.map is not None and not rows.map.spread <= plan.objective.spread:
        raise ValueError(
            "the map of rows rounds more than the plan allows: give another Conditioning, "
            "or fit an intercept"
        )
    rows, units = (
        learn_target(rows, conditioner, releases) if conditioner.maps else (rows, (0.0, 1.0))
    )
    weights = None
    if "class counts" in conditioner.shares:
        n_classes = max(2, plan.objective.n_outputs)
        weights = learn_class_weights(rows, n_classes, conditioner, releases)
    if record is None:
        top = conditioner.learn_curvature(rows, plan.objective.intercept_scaling, releases)
        record = plan.solver.adapted(
            plan.objective, conditioned.training_mu, releases.adjacency, top, rows.map.equal
        )
    return rows, record, units, weights


def _in_units_of_x(coef, intercept, row_map, centre, scale):
    """Turn parameters for mapped rows into those for rows of X and the target's own units."""
    if row_map is not None:
        coef = row_map.coefficients(coef)
        intercept = intercept + row_map.shift(coef) / row_map.norm
        coef = coef / row_map.norm
    return coef * scale, intercept * scale + centre


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):
    """Base of the classifiers: class labels, public or taken from y with a warning."""

    @answering
    def __init__(
        self,
        epsilon: float | Budget = 1.0,
        delta: float | str = "auto",
        *,
        alpha: float | str = "auto",
        data_norm: float = 1.0,
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
        return tags

    def _encode_target(self, y):
        if self.classes is None and y is None:
            raise ValueError(
                "classes=None: labels are not looked for in rows that are read in order. Pass "
                "classes=[...]"
            )
        if self.classes is None:
            classes = self._classes_in(y)
            warnings.warn(
                (
                    "classes=None: the labels were taken from y, so which labels occur is released "
                    "without noise. Pass classes=[...]"
                ),
                PrivacyLeakWarning,
                stacklevel=5,
            )
            return self._target(y, classes, ("classes were taken from y",))
        return self._target(y, self._public_classes())

    def _buys_counts(self, solver, budget):
        weight = self.class_weight
        if weight is None or (isinstance(weight, dict) and weight):
            return False
        if is_named(weight, "balanced"):
            raise ValueError(
                "class_weight='balanced' weighs by the number of records of each class, and "
                "these are private. Pass "
                "{label: weight} of public numbers, or 'private', which buys noisy counts with "
                "a part of the budget"
            )
        if not is_named(weight, "private"):
            raise ValueError(
                f"class_weight={weight!r} must be None, a dict of labels and weights that is "
                "not empty, or 'private'"
            )
        if solver.pure or not budget.delta > 0 or is_named(self.bound, "langevin"):
            raise ValueError(
                f"class_weight='private': solver={self.solver!r} under bound={self.bound!r} and "
                f"delta={budget.delta:g} leaves "
                "no part of the budget for Gaussian noise on counts. Pass {label: weight}"
            )
        return True

    def _label_weights(self, target):
        if not isinstance(self.class_weight, dict):
            return None
        classes = target.attributes["classes_"]
        position = {label: code for code, label in enumerate(classes.tolist())}
        weights = np.ones(classes.size)
        for label, weight in self.class_weight.items():
            if label not in position:
                raise ValueError(
                    f"class_weight has the label {label!r}, which is not one of classes"
                )
            if not 0 <= as_float(weight) < math.inf:
                raise ValueError(f"class_weight={weight!r} of {label!r} must be a number >= 0")
            weights[position[label]] = weight
        if not weights.max() > 0:
            raise ValueError("class_weight must be above 0 for one class at least")
        return weights / weights.max()

    def _classes_in(self, y):
        """Return the labels that y has, or raise an error that quotes none."""
        quoting_no_records(check_classification_targets, y)
        classes = quoting_no_records(np.unique, y)
        if not are_labels(classes):
            raise ValueError(
                "classes=None: y must hold finite numbers only, or strings only. Number the "
                "labels, and pass classes=[...]"
            )
        self._check_classes(classes, y)
        return classes

    def _public_classes(self):
        """Return the classes that were passed, sorted."""
        labels = np.asarray(self.classes)
        if not are_labels(labels, self.classes):
            raise ValueError(
                f"classes={self.classes!r} must be an array-like of labels, at least two, all "
                "finite numbers or all strings"
            )
        try:
            classes = np.unique(labels)
        except TypeError:
            raise ValueError(
                f"classes={self.classes!r} must be labels that can be sorted"
            ) from None
        self._check_classes(classes, classes)
        return classes

    def _target(self, y, classes, leaks=()):
        encode = partial(numbers_of_labels, classes=classes)
        values = None if y is None else encode(y)
        attributes = {"classes_": classes}
        return Target(values, self._loss_of(classes), attributes, leaks, encode=encode)

    @abstractmethod
    def _loss_of(self, classes) -> Loss:
        """Return the Loss for these classes."""

    def _unpack(self, coef, intercept):
        self.coef_, self.intercept_ = coef, intercept

    @abstractmethod
    def _check_classes(self, classes, target):
        """Refuse a number of classes that the model cannot learn."""

    def _sklearn_model(self):
        from sklearn.linear_model import LogisticRegression  # slow to load

        return LogisticRegression(), self.classes_

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
        codes = self._predicted_codes(X)
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

        return scored(accuracy_score, y, self.predict(X), sample_weight)


class PrivateBinaryClassifier(PrivateLinearClassifier):
    """Base of classifiers of two classes: a subclass names its loss as ``_loss``."""

    def _public_loss(self):
        if self.classes is not None:
            self._public_classes()
        return self._loss

    def _loss_of(self, classes):
        return self._loss

    def _check_classes(self, classes, target):
        if classes.size > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(target, input_name='y')}; use PrivateSoftmaxRegression"
            )
        if classes.size < 2:
            raise ValueError(
                "two classes are needed, and there is only one class: pass classes=[...] with "
                "both labels that can occur"
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @by_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """Return raw predictions: positive for the second class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return (self._scaled_products(X) + self.intercept_).ravel()

    def _predicted_codes(self, X):
        return (self.decision_function(X) > 0).astype(np.intp)


class PrivateLinearRegressor(RegressorMixin, PrivateLinearModel):
    """Base of the regressors: targets within public bounds, mapped to [-1, 1] for the loss.

    A subclass says by ``_loss_of(target_bounds)`` which `Loss` it learns, of targets in [-1, 1],
    and by ``_auto_clip`` what ``clip="auto"`` is. Parameters are those of `PrivateRidge`.
    """

    @answering
    def __init__(
        self,
        epsilon: float | Budget = 1.0,
        delta: float | str = "auto",
        *,
        alpha: float | str = "auto",
        data_norm: float = 1.0,
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

    @abstractmethod
    def _loss_of(self, target_bounds) -> Loss:
        """Return the Loss for these bounds of the target; None for those that y has."""

    def _public_loss(self):
        return self._loss_of(None if self.target_bounds is None else self._public_bounds())

    def _encode_target(self, y):
        y = None if y is None else numbers_of(y)
        *bounds, leaks = self._bounds_of(y)
        units = _scaling(*bounds, self.fit_intercept)
        encode = partial(numbers_within, bounds=bounds, units=units)
        values, bounds = None if y is None else encode(y), tuple(bounds)
        attributes, clipped = {"target_bounds_": bounds}, self._clipped(y, *bounds)
        return Target(values, self._loss_of(bounds), attributes, leaks, encode=encode, **clipped)

    def _clipped(self, y, low, high):
        """Return what a `Target` says of targets outside of their bounds, where it is asked for."""
        flags = partial(outside, bounds=(low, high))
        asked = self.diagnostics and y is not None
        return {"flags": flags, "clipped": flags(y) if asked else None}

    def _bounds_of(self, y):
        """Return the target's bounds, taken from y if none were passed, and what they leak."""
        if self.target_bounds is not None:
            return *self._public_bounds(), ()
        if y is None:
            raise ValueError(
                "target_bounds=None: bounds are not looked for in rows that are read in order. "
                "Pass "
                "target_bounds=(low, high)"
            )
        low, high = self._bounds_in(y)
        warnings.warn(
            "target_bounds=None: the bounds were taken from y, so its extremes are released "
            "without noise. "
            "Pass target_bounds=(low, high)",
            PrivacyLeakWarning,
            stacklevel=6,
        )
        return low, high, ("target_bounds were taken from y",)

    def _bounds_in(self, y):
        """Return the bounds that y has, or raise an error that does not quote them."""
        low, high = float(np.min(y)), float(np.max(y))
        high = high if high > low else low + max(1.0, abs(low))
        if not are_bounds(low, high):
            raise ValueError(
                "target_bounds=None: targets of such a size, or so close to each other, cannot be "
                "computed with. Rescale y, or pass target_bounds=(low, high)"
            )
        return low, high

    def _public_bounds(self):
        bounds = self.target_bounds
        pair = (
            isinstance(bounds, (tuple, list, np.ndarray))
            and np.ndim(bounds) == 1
            and len(bounds) == 2
        )
        low, high = map(as_float, bounds) if pair else (0.0, 0.0)
        if not are_bounds(low, high):
            raise ValueError(
                f"target_bounds={bounds!r} must be a pair (low, high) of finite numbers with "
                "low < high, or None"
            )
        return low, high

    def _unpack(self, coef, intercept):
        centre, half_range = _scaling(*self.target_bounds_, self.fit_intercept)
        self.coef_ = coef[0] * coef.dtype.type(half_range)
        self.intercept_ = float(intercept[0]) * half_range + centre

    def _sklearn_model(self):
        from sklearn.linear_model import Ridge  # slow to load

        return Ridge(), np.zeros(2)

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
        products = self._scaled_products(X)
        return products + products.dtype.type(self.intercept_)

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

        return scored(r2_score, y, self.predict(X), sample_weight)


def _scaling(low, high, centred):
    """Return the centre and half-range that map the target's bounds to [-1, 1]."""
    return ((low + high) / 2, (high - low) / 2) if centred else (0.0, max(abs(low), abs(high)))


# floating point can square these, and multiply them by the shape of any data
_SMALLEST, _LARGEST = 1e-50, 1e50


def _positive(name, value, meaning, least="> 0"):
    number = as_float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name}={value!r} must be a finite number {least}: {meaning}")
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(
            f"{name}={value!r} is not between {_SMALLEST:g} and {_LARGEST:g}: rescale the data"
        )
    return number


def _non_negative(name, value, meaning):
    return 0.0 if as_float(value) == 0 else _positive(name, value, meaning, ">= 0")
