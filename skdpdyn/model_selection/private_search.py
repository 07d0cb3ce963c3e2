"""A private search for hyperparameters: the best of a random number of trials, for one budget."""

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_regressor
from sklearn.utils import column_or_1d, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from skdpdyn.core.noise import check_random_state, generators
from skdpdyn.core.schema import check_relations
from skdpdyn.core.spending import TRAINING, Share, Spending, warn_of_weak_budget
from skdpdyn.data.persons import persons_of, unit_of
from skdpdyn.data.tally import means
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.model_selection._candidates import (
    Candidates,
    last_step,
    n_columns,
    public_model,
    reaching,
)
from skdpdyn.model_selection._scores import CONSTANTS, score_of
from skdpdyn.model_selection._splits import HeldOut
from skdpdyn.model_selection._steps import believed, forget_rows
from skdpdyn.model_selection._trials import largest_mu, number_of_trials, run_trial, trial_budget
from skdpdyn.privacy import Budget, Composition, GaussianDP, Selection
from skdpdyn.privacy.calibration import check_shape, judge, least_noise
from skdpdyn.privacy.checks import checked_choice, checked_number
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.renyi import largest
from skdpdyn.training.base import (
    PrivateEstimatorMixin,
    all_or_nothing,
    check_n_jobs,
    check_verbose,
    forget_fit,
    of_persons,
    quoting_no_records,
    refuse_collections,
    refuse_rows,
    refuse_unreadable,
    remember_rows,
    silent_arithmetic,
    warn_of_own_rows,
)
from skdpdyn.training.foreign import rows_at
from skdpdyn.training.parameters import (
    check_persons,
    shows_weights,
    weights_in_fit,
    weights_of,
)
from skdpdyn.training.plan import check_levels, refuse_to_buy
from skdpdyn.training.purchase import (
    Purchase,
    most_of_facts,
    parameters_of,
    record_of_most,
    schema_of,
)
from skdpdyn.training.reading import Beside, read
from skdpdyn.training.silent import columns_without_levels, warn_of_silent
from skdpdyn.training.targets import as_labels, exposures, refuse_lacking


def _can(method):
    """Return whether the searched estimator has a method."""
    return lambda search: hasattr(search.estimator, method)


SCORE = "score"
TRIALS = "trials"
# what a search spent, which its winner says of itself
_OF_ALL_TRIALS = ["mechanism_", "privacy_", "bound_", "delta_", "epsilon_", "leaks_"]
_OF_ALL_TRIALS += ["sources_", "bought_"]
# of a trial's mu^2: if the same records train and score, and if others do
SHARED = {TRAINING: Share(0.84), SCORE: Share(0.16)}
APART = {TRAINING: Share(1.0), SCORE: Share(1.0)}


def _outcomes(trials, records, options, n_jobs):
    """Return the outcome of each trial on copies of records, which it may write into."""
    # output of each trial would reveal the number of trials
    parallel = Parallel(n_jobs=n_jobs, verbose=0)
    return parallel(delayed(_outcome)(trial, records, options) for trial in trials)


def _outcome(trial, records, options):
    return trial(*(quoting_no_records(deepcopy, part) for part in records), options)


class PrivateSearchCV(PrivateEstimatorMixin, MetaEstimatorMixin, BaseEstimator):
    """Search for hyperparameters under one (epsilon, delta) for all fits and all scores.

    The search makes a random number of trials. Each trial draws a candidate at random, fits it
    privately, and scores it privately, on the same records or on a held-out part of them. Only the
    best candidate is released, with its noisy score. The other trials and their number stay secret.
    For this reason the whole search costs only two to three times the mu^2 of one trial, however
    many trials were made. With ``test_size``, the training part and the held-out part are disjoint,
    and the split does not depend on the records. A trial then costs as much as the more expensive
    of its two steps.

    Missing facts that the estimator would buy (classes or target bounds, column ranges and levels)
    are bought once, before all trials. All trials treat them as public. Candidates with other
    columns, or with bounds of their own, do not use the bought ranges. The share of the budget for
    these facts is fixed: it is the same if the dtypes of X and y make some of them unnecessary.

    The best candidate is not fitted again on all records, because this would cost more budget.

    Parameters
    ----------
    estimator : private estimator or Pipeline
        A model of `skdpdyn.linear_model`, or a pipeline with such a model as its last step. The
        other steps may only learn public numbers: a `BoundsScaler`, encoders with given categories,
        stateless transformers. The model's ``epsilon`` and ``delta`` are replaced by those of a
        trial. Its ``random_state`` must be None.
    param_grid : dict or list of dicts
        Candidates, as in scikit-learn's ``GridSearchCV``: a dict from names to lists of values. All
        grid points have the same probability. Instead of a distribution, pass a list of draws from
        it. The budget (``epsilon``, ``delta``), ``adjacency``, ``random_state``, ``classes`` and
        ``target_bounds`` cannot be tuned.
    epsilon : float, default=1.0
        Privacy budget of the whole search, > 0.
    delta : float or "auto", default="auto"
        Additive term of the (epsilon, delta) guarantee, in (0, 1). "auto": 1/n^2.
    expected_trials : float, default=6
        Mean of the number of trials, >= 1.
    trials : {"truncated_negative_binomial", "poisson"}, default="truncated_negative_binomial"
        Distribution of the number of trials. With "poisson", the number may be 0, with probability
        exp(-expected_trials). The result is then a constant prediction.
    shape : float, default=0.0
        Shape of the truncated negative binomial distribution, >= 0. 0: logarithmic, at the lowest
        cost. 1: geometric. Larger shapes make very small and very large numbers of trials less
        likely, at a higher cost.
    scoring : str or None, default=None
        Score to maximize: "accuracy" or "neg_log_loss" for classifiers, "neg_mean_squared_error"
        for regressors, and "neg_mean_pinball_loss" for models of a quantile. Log losses are clipped
        at 3 log(number of classes), and errors at the target's bounds. None: accuracy, squared
        error or pinball loss. Pipelines are scored one row at a time, except if
        `skdpdyn.evaluation.evaluate` would score all of their steps on many rows at once.
    test_size : float, int or None, default=None
        Fraction (or number) of the records that are held out, drawn at random. None: all records
        are used for training and for scoring, and the budget of a trial is divided between the two.
        Both then have less noise than with a held-out part of 9 to 40 %. The scores are optimistic
        because of overfitting, but private models with a small budget overfit little.
    holdout : array-like of int or bool, default=None
        Indices of the held-out records, or a mask, instead of ``test_size``. The choice must not
        depend on the data.
    random_state : None or int, default=None
        None: fresh entropy and a cryptographic generator. An int repeats the noise, so the
        search is not private: for tests only.
    n_jobs : int, default=None
        Number of parallel trials, by joblib. The result does not depend on it.
    verbose : int, default=0
        If positive, print the plan before the search. There is no progress output, from the search
        or from the models, because it would reveal the number of trials.

    Attributes
    ----------
    best_estimator_ : estimator
        The best candidate, fitted on the training records. Its ``privacy_`` is the cost of the
        whole search. If there was no trial, a constant prediction, which releases nothing.
    best_params_ : dict
        Its parameters; empty if there was no trial.
    best_score_ : float
        Its noisy score; nan if there was no trial.
    privacy_ : Guarantee
        Guarantee of the search: ``epsilon(delta)``, ``delta(epsilon)``, ``rdp(order)``,
        ``dp_event``.
    mechanism_ : Selection or Composition
        Record of the run: releases of facts that were bought, then the trials. Its cost is slightly
        below that of ``privacy_`` if fewer facts were bought than planned.
    bound_ : str
        The bound that ``privacy_`` comes from.
    epsilon_, delta_ : float
        The budget spent.
    n_samples_ : int
        Number of records, or of persons after a fit with ``groups``. It is public.
    privacy_unit_ : str
        The unit that ``privacy_`` protects: "record", or after a fit with ``groups`` "person" or
        the ``unit`` passed.
    bought_ : dict of str to float
        Facts that were bought before all trials, with their shares of mu^2.
    schema_ : Schema
        All facts of the table, given or bought, for use as ``schema`` of other models.
    leaks_ : tuple of str
        Leaks that ``privacy_`` does not cover. Empty for a private search.
    sources_ : tuple of Source
        Releases on which the candidates are based, see `PrivateLinearModel`.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if all column names of X are strings.
    classes_ : ndarray of shape (n_classes,)
        Class labels, for classifiers.
    has_exposure_ : bool
        Whether the fit was given exposures, so that ``score`` needs them, too.

    See Also
    --------
    skdpdyn.privacy.selection : The theorem, with its hypotheses.

    Notes
    -----
    A search is seldom better than the defaults at the same total budget. The mu of a trial is about
    60 % of that of the whole budget, and candidates must differ by more than this difference costs.
    On Adult, the accuracy after a search is 1.9 percentage points below that of the defaults at
    epsilon 0.1 (ten splits), and 0.6 points at epsilon 1 (three splits). With a fifth of the
    records held out and ten expected trials it is 4.5 and 1.3 points. With ``trials="poisson"``,
    very small numbers of trials are rare, and it is 1.1 and 0.9 points.

    There are no attributes ``n_trials_`` and ``cv_results_``, because the theorem only covers the
    release of the best candidate. If the number of trials k were known, the best of k trials would
    cost about as much as all k together. Anyone who can measure the running time of the search can
    estimate k.

    References
    ----------
    N. Papernot, T. Steinke (2022), Hyperparameter tuning with Renyi differential privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.model_selection import PrivateSearchCV
    >>> from skdpdyn.solvers import NoisyGD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (2000, 2))
    >>> y = X @ [1.0, -2.0] > 0
    >>> model = PrivateLogisticRegression(classes=[False, True], solver=NoisyGD(n_steps=10))
    >>> grid = {"clip": [0.1, 0.3, 0.9], "alpha": [1e-4, 1e-2]}
    >>> search = PrivateSearchCV(model, grid, epsilon=10.0).fit(X, y)
    >>> bool(search.score(X, y) > 0.9), round(search.epsilon_, 6)
    (True, 10.0)
    """

    # set by a fit, for editors and type checkers
    n_samples_: int
    best_estimator_: Any
    best_params_: dict[str, Any]
    best_score_: float
    has_exposure_: bool

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        expected_trials: float | str = 6,
        trials: str = "truncated_negative_binomial",
        shape: Any = 0.0,
        scoring: str | None = None,
        test_size: Any = None,
        holdout: Any = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.expected_trials = expected_trials
        self.trials = trials
        self.shape = shape
        self.scoring = scoring
        self.test_size = test_size
        self.holdout = holdout
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def weight_bounds(self) -> Any:
        """The estimator's public bounds on weights; None if it takes no weights."""
        return getattr(last_step(self.estimator), "weight_bounds", None)

    @shows_weights
    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        exposure: Any = None,
        unit: str | None = None,
        **not_taken: Any,
    ) -> Self:
        """Search, spending at most (epsilon, delta).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, as the estimator takes them.
        y : array-like of shape (n_samples,)
            Targets.
        groups : array-like of shape (n_samples,), default=None
            Id of the person that each row belongs to: integers or strings. Whole persons are then
            held out, the model is fitted by person, the score is a mean over persons, and the
            guarantee is for a person with all of their rows. ``n_samples_`` is the number of
            persons. Use it with ``test_size``, not with ``holdout``.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each count, for `skdpdyn.PrivatePoissonRegressor`: see its ``fit``. The
            score compares counts with predicted counts (rate times exposure).
        unit : str or None, default=None
            Name of the unit that the ids in ``groups`` stand for, such as "household". None:
            "person", or "record" without ``groups``.
        **not_taken : dict
            ``sample_weight``, a number for each row, for an estimator with ``weight_bounds``; no
            other arguments. The score of a record is then 1 - w (1 - score), where w is its weight
            divided by the largest allowed weight. Use ``best_score_`` only to compare candidates:
            `skdpdyn.evaluation.evaluate` estimates weighted means.

        Returns
        -------
        self : object
            The fitted search. If an error is raised, the search is not changed.

        Raises
        ------
        ValueError, TypeError
            If a parameter, X or y is invalid, or a step before the model may learn from the
            records.
        UnsupportedMechanismError
            If no bound applies to the training of a candidate, or if a candidate costs more than
            planned.
        CalibrationError
            If the budget is too small for a trial.

        Warns
        -----
        PrivacyWeakWarning
            If ``epsilon`` is above 20, or ``delta`` above 1/n.
        PrivacyLeakWarning
            If classes or target bounds were taken from y, as a fit of the estimator would do, or if
            ``random_state`` is an int.
        PrivacyUtilityWarning
            If classes are bought and noisy counts show labels outside of them. No trial learns
            these labels, and every score counts them as wrong.
        """
        if X is None:
            raise ValueError(f"{type(self).__name__} requires X to be passed, but X is None")
        refuse_rows(X)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        refuse_collections(self, X, y)
        check_random_state(self.random_state)
        check_n_jobs(self.n_jobs)
        check_verbose(self.verbose)
        data = X, y, groups, exposure, weights_in_fit(self, not_taken)
        with all_or_nothing(self, *data) as search, silent_arithmetic():
            search._fit(*data, unit_of(groups, unit))
        remember_rows(self, X)
        return self

    def _fit(self, X, y, groups, exposure, sample_weight, unit):
        refuse_unreadable(X, y)
        X, y = quoting_no_records(indexable, X, y)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        codes, n_samples = persons_of(groups, n_rows)
        base = self._base()
        check_relations(base, base.adjacency, unit)
        weight = weights_of(base, sample_weight, n_rows)
        beside = Beside(codes, exposure=exposure, weight=sample_weight)
        with read(base, reaching(self.estimator, X), y, beside) as reading:
            y = quoting_no_records(column_or_1d, as_labels(y, getattr(base, "classes", None)))
            y = y.astype(np.float64) if is_regressor(base) else y
            purchase = Purchase.of(base, *reading.shape, reading.form, reading.y)
            part = most_of_facts(base, *reading.shape)
            plan = self._plan(rows_at(X, slice(0, 2)), base, purchase.request, part)
            purchase = purchase.taking(part)
            splitting, drawing, noise, first = generators(self.random_state, 4)
            warn_of_weak_budget(plan.budget, n_samples)
            candidates = Candidates(self.estimator, self.param_grid)
            self._check_beside(candidates, plan, codes, exposure, weight)
            exposure = None if exposure is None else exposures(exposure, y)
            if self.verbose:
                self._print_plan(plan)
            known = purchase.buy_alone(reading, plan.budget, first)
            ran = plan.with_facts(purchase.record(codes is not None))
            facts = parameters_of(base, known)
        score = score_of(self.scoring, facts, base)
        drawn, models = self._drawn(candidates, plan, facts, drawing)
        trials = [partial(run_trial, model, score) for model in models]
        largest = 1.0 if weight is None else base.weight_bounds[1]
        records = _Records(X, y, codes, unit, exposure, weight, largest)
        outcomes = _outcomes(trials, *records.parts(*plan.held_out.split(splitting)), self.n_jobs)
        for winner, _ in outcomes:
            plan.check(last_step(winner).privacy_, unit)
        exact = means([score for _, score in outcomes], plan.held_out.number)
        # each trial's score for the share of one trial: the record counts the trials
        spending = Spending(plan.of_trial, {SCORE: plan.shares[SCORE]}, noise)
        scores = spending.release(SCORE, exact).value
        forget_fit(self)
        self._publish_plan(ran, known.leaks, unit)
        names = getattr(base, "feature_names_in_", range(len(known.columns or ())))
        warn_of_silent(columns_without_levels(known.columns or (), names))
        self.n_samples_ = n_samples
        self.has_exposure_ = exposure is not None
        self.bought_ = known.parts_of_mu
        self.schema_ = schema_of(base, known, base.family.targets.parameter)
        if not drawn:
            self.best_estimator_ = score.constant()
            self.best_params_ = {}
            self.best_score_ = math.nan
            # number and names of columns
            quoting_no_records(validate_data, self.best_estimator_, X, skip_check_array=True)
            self._sign()
            return
        best = int(np.argmax(scores))
        self.best_params_ = drawn[best]
        self.best_score_ = score.in_units(scores[best])
        as_given = candidates.build(drawn[best], plan.trial_budget, {}, None)
        self._publish_winner(outcomes[best][0], as_given, facts)
        self._sign()

    def _drawn(self, candidates, plan, facts, drawing):
        """Return candidates that are drawn, a secret number of them, and their models."""
        number = number_of_trials(_selection_in(plan.mechanism), drawing)
        drawn = [candidates.draw(drawing) for _ in range(number)]
        seeds = [None] * number
        if self.random_state is not None:
            seeds = drawing.integers(2**31, size=number).tolist()
        of_trials = zip(drawn, seeds, strict=True)
        return drawn, [
            candidates.build(candidate, plan.trial_budget, facts, seed)
            for candidate, seed in of_trials
        ]

    def _publish_winner(self, winner, as_given, facts):
        """Set the winner, with parameters as they were given and the cost of all trials."""
        forget_rows(winner, as_given)
        model = last_step(winner)
        unlent = last_step(as_given)
        for name in filter(partial(hasattr, unlent), (*facts, "class_weight")):
            setattr(model, name, getattr(unlent, name))
        for name in _OF_ALL_TRIALS:
            setattr(model, name, getattr(self, name))
        model._sign()
        self.best_estimator_ = winner

    def _sources(self):
        return Candidates(self.estimator, self.param_grid).sources()

    def _print_plan(self, plan):
        """Print the public facts of the search before it runs."""
        delta = plan.budget.delta
        spent = f"epsilon={plan.guarantee.epsilon(delta):.6g} at delta={delta:.3g} by {plan.bound}"
        print(
            f"[{type(self).__name__}] {spent} for {self.expected_trials:g} trials, as is "
            "expected. How many run is a secret, so that progress is not told"
        )

    def privacy_cost(self, n_samples: int, n_features: int) -> Guarantee:
        """Return the cost of a search on data of this shape, from public numbers alone.

        Parameters
        ----------
        n_samples : int
            Number of records.
        n_features : int
            Number of columns of X.

        Returns
        -------
        Guarantee
            Equal to ``privacy_`` after such a search of records, whatever columns and labels hold;
            by persons, but for its unit.

        Raises
        ------
        ValueError
            If a number or a parameter is invalid, or if steps before the model, which are tried on
            rows of zeros, do not take them: columns by name, categories without zero.
        """
        n_samples, n_features = check_shape(n_samples, n_features)
        base = self._base()
        rows = np.zeros((2, n_features))
        try:
            n_features = n_columns(self.estimator, rows)
        except Exception as error:
            raise ValueError(
                "how many columns reach the model is not known: the steps before it do not "
                f"take rows of zeros ({error}). "
                "Ask a search of the model alone, with the number of columns that reach it"
            ) from error
        request = Purchase.of(base, n_samples, n_features).request
        part = most_of_facts(base, n_samples, n_features)
        return self._plan(rows, base, request, part).guarantee

    def _public_facts(self):
        return (
            f"n_samples={self.n_samples_}" + of_persons(self),
            "the candidates",
            "which records are held out",
            "every parameter",
            *believed(self.estimator),
        )

    def _check_beside(self, candidates, plan, codes, exposure, weight):
        """Refuse candidates that do not take weights, groups or exposures that were given."""
        if codes is not None:
            self._check_persons(candidates, plan)
        if exposure is not None:
            self._check_exposure(candidates, plan)
        if weight is not None:
            self._check_weights(candidates, plan, self.weight_bounds)

    def _check_persons(self, candidates, plan):
        """Refuse models and parameters that no search by person takes, whatever is drawn."""
        if self.holdout is not None:
            raise ValueError(
                "groups: holdout holds positions of rows, and whole persons must be held out. "
                "Use test_size"
            )
        for model in _models(candidates, plan):
            check_persons(model)

    def _check_exposure(self, candidates, plan):
        """Refuse models that take no exposure, whichever candidates are drawn."""
        for model in _models(candidates, plan):
            if not has_fit_parameter(model, "exposure"):
                raise TypeError(
                    f"exposure: {type(model).__name__} takes none. Search PrivatePoissonRegressor"
                )

    def _check_weights(self, candidates, plan, bounds):
        """Refuse candidates with bounds on weights of their own."""
        if any(model.weight_bounds != bounds for model in _models(candidates, plan)):
            raise ValueError("weight_bounds must be those of the estimator in every candidate")

    def _base(self):
        """Return the estimator's model under the whole budget, by which facts are bought."""
        model = public_model(self.estimator)
        if model.random_state is not None:
            raise ValueError(
                f"random_state={model.random_state!r} of the estimator would repeat the noise "
                "in every trial: "
                "leave it None there; for tests pass random_state to the search"
            )
        model.epsilon = self.epsilon
        model.delta = self.delta
        return model

    def _plan(self, head, base, request, part):
        """Plan a search from public facts, and the shape of ``head``, a few rows of X.

        Facts that may be open take this part of mu^2, whichever are.
        """
        facts = parameters_of(base, request.facts)
        budget = request.budget
        delta = request.budget.delta
        held_out = HeldOut.of(self.holdout, self.test_size, request.n_samples)
        law = _Trials(
            Candidates(self.estimator, self.param_grid),
            budget,
            SHARED if held_out.shared else APART,
            held_out,
            self._expected_trials(),
            self._shape(),
            record_of_most(part, budget),
        )
        mechanism = least_noise(lambda noise: law.record(1 / noise), budget.epsilon, delta)
        mu = _selection_in(mechanism).trial.mu
        guarantees = ()  # of a trial
        costs = cache(lambda mu: law.costs(mu, head, facts))
        if not all(isinstance(cost, GaussianDP) and not cost.failure for cost in costs(mu)):
            are_gaussian = all(isinstance(cost, GaussianDP) for cost in costs(mu))
            if request.facts.bought and not are_gaussian:
                refuse_to_buy(request, "the fit of a candidate")

            def excess(mu):
                judged = judge(law.record(mu, costs(mu)), delta)[1]
                return judged.epsilon(delta) / budget.epsilon

            mu = largest_mu(excess, mu)
            guarantees = costs(mu)
            mechanism = law.record(mu, guarantees)
        check_levels(request)
        bound, guarantee = judge(mechanism, delta)
        score_of(self.scoring, facts, base)  # refuses other names
        return _SearchPlan(
            mechanism,
            bound,
            guarantee,
            budget,
            law.fit_mu(mu),
            Budget(**trial_budget(mu, delta), adjacency=budget.adjacency),
            law.shares,
            guarantees,
            held_out,
            facts,
        )

    def _expected_trials(self):
        requirement = "a number from 1 to 1000"
        return checked_number(
            self.expected_trials, "expected_trials", lambda x: 1 <= x <= 1000, requirement
        )

    def _shape(self):
        if (
            checked_choice(self.trials, "trials", ("truncated_negative_binomial", "poisson"))
            == "poisson"
        ):
            return math.inf
        requirement = "a number from 0 to 10; trials='poisson' is its limit"
        return checked_number(self.shape, "shape", lambda x: 0 <= x <= 10, requirement)

    @available_if(_can("predict"))
    def predict(self, X: Any) -> np.ndarray:
        """Predict by the winner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._by_winner("predict", X)

    @available_if(_can("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities of the winner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._by_winner("predict_proba", X)

    @available_if(_can("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the class probabilities of the winner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._by_winner("predict_log_proba", X)

    @available_if(_can("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the raw predictions of the winner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._by_winner("decision_function", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """Return the winner's own score, without noise: for data that need no privacy.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the score.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each count, see ``PrivatePoissonRegressor.score``.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the search was fitted with exposures, and ``exposure`` is None.
        """
        refuse_lacking(exposure, self)
        refuse_unreadable(y)
        warn_of_own_rows(self, X)
        options = {"sample_weight": sample_weight, "exposure": exposure}
        present = {name: value for name, value in options.items() if value is not None}
        if exposure is not None and isinstance(getattr(self, "best_estimator_", None), CONSTANTS):
            of_rows = exposures(present.pop("exposure"), y)  # the constant is a rate
            y = np.asarray(y, dtype=np.float64) / of_rows
            present["sample_weight"] = of_rows * (1 if sample_weight is None else sample_weight)
        return self._by_winner("score", X, y, **present)

    @property
    def classes_(self) -> Any:
        """Class labels."""
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> Any:
        """Number of columns."""
        return self.best_estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        """Column names."""
        return self.best_estimator_.feature_names_in_

    def _by_winner(self, method, X, *y, **options):
        """Call a method of the winner; an error quotes no record."""
        check_is_fitted(self)
        refuse_unreadable(X)
        if isinstance(self.best_estimator_, CONSTANTS):  # constants do not look at columns
            quoting_no_records(
                validate_data, self.best_estimator_, X, skip_check_array=True, reset=False
            )
        return quoting_no_records(getattr(self.best_estimator_, method), X, *y, **options)

    def __sklearn_is_fitted__(self) -> bool:
        return "best_estimator_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.target_tags = inner.target_tags
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        for of_kind in filter(None, (tags.classifier_tags, tags.regressor_tags)):
            # the checks train on a few hundred rows, and a trial has a part of the budget
            of_kind.poor_score = True
        return tags


@dataclass(frozen=True, eq=False)
class _Records:
    """Arguments of a search with a value for each record."""

    X: Any
    y: Any
    codes: Any  # the number of each row's person, or None
    unit: str
    exposure: Any
    weight: Any  # over the largest allowed, or None
    largest: float

    def parts(self, held_out, train):
        """Return rows and targets to train by, and to score by; and other arguments of trials."""
        of_rows = {}
        of_held = {}
        if self.codes is not None:
            held_out, train = (
                np.flatnonzero(np.isin(self.codes, who)) for who in (held_out, train)
            )
            of_rows |= {"groups": self.codes[train], "unit": self.unit}
            of_held["part"] = 1 / np.bincount(self.codes)[self.codes[held_out]]
        if self.exposure is not None:
            of_rows["exposure"] = self.exposure[train]
            of_held["exposure"] = self.exposure[held_out]
        if self.weight is not None:
            of_rows["sample_weight"] = self.weight[train] * self.largest
            of_held["weight"] = self.weight[held_out]
        shared = np.array_equal(train, held_out)
        parts = [
            rows_at(array, part)
            for part in (train, held_out)[shared:]
            for array in (self.X, self.y)
        ]
        return parts * (1 + shared), (of_rows, of_held)


@dataclass(frozen=True, eq=False)
class _Trials:
    """Budget of a trial, and cost of the best of a random number of them."""

    candidates: Candidates
    budget: Budget
    shares: dict[str, Share]  # of a trial's mu^2
    held_out: HeldOut
    expected: float
    shape: float
    bought: Composition | None  # before all trials

    def fit_mu(self, mu):
        """Return the part of a trial's mu that its fit may spend."""
        return mu * math.sqrt(self.shares[TRAINING].size)

    def costs(self, mu, head, facts):
        """Return the cost of each candidate's fit, with noise calibrated to ``mu``."""
        of_fit = trial_budget(self.fit_mu(mu), self.budget.delta)
        pooled = [
            self.candidates.build(candidate, of_fit, facts, None)
            for candidate in self.candidates.grid
        ]
        if any(last_step(estimator).adjacency != self.budget.adjacency for estimator in pooled):
            raise ValueError("adjacency must be that of the estimator in every candidate")
        trained = self.held_out.n_trained
        return tuple(
            last_step(estimator).privacy_cost(trained, n_columns(estimator, head))
            for estimator in pooled
        )

    def selection(self, mu, guarantees=()):
        """Return the record of a search whose trials spend ``mu``, or fits these guarantees."""
        adjacency = self.budget.adjacency
        fits = largest([GaussianDP(self.fit_mu(mu), adjacency), *guarantees])
        score = GaussianDP(mu * math.sqrt(self.shares[SCORE].size), adjacency)
        trial = fits.compose(score) if self.held_out.shared else largest([fits, score])
        return Selection(trial=trial, expected_trials=self.expected, shape=self.shape)

    def record(self, mu, guarantees=()):
        """Return the record of all that may be bought, and of the search."""
        return _after(self.bought, self.selection(mu, guarantees))


def _after(bought, selection):
    """Return the record of facts that are bought, None of none, and of trials after them."""
    if bought is None:
        return selection
    return Composition((*bought.mechanisms, selection), names=(*bought.names, TRIALS))


def _selection_in(record):
    """Return the record of the trials alone."""
    return record.mechanisms[-1] if isinstance(record, Composition) else record


@dataclass(frozen=True)
class _SearchPlan:
    """All that a search will do and spend, known before it sees a record."""

    mechanism: Selection | Composition
    bound: str
    guarantee: Guarantee
    budget: Budget
    fit_mu: float  # mu of the fit of a Gaussian candidate
    of_trial: Budget
    shares: dict[str, Share]  # of a trial's mu^2
    candidates: tuple  # guarantees of the candidates, if they are not Gaussian
    held_out: HeldOut
    facts: dict[str, Any]  # that stand for those to be bought

    def with_facts(self, bought):
        """Return the plan with the record of the facts that are open, which costs no more."""
        return replace(self, mechanism=_after(bought, _selection_in(self.mechanism)))

    @property
    def score_mu(self):
        """Cost of a trial's score, as mu."""
        return self.of_trial.mu * math.sqrt(self.shares[SCORE].size)

    @cached_property
    def trial_budget(self):
        """Budget of a trial's fit, as parameters."""
        return trial_budget(self.fit_mu, self.budget.delta)

    def check(self, guarantee, unit):
        """Refuse a trial that cost more than the selection declares, or protects another unit."""
        gaussian = (
            isinstance(guarantee, GaussianDP)
            and guarantee.mu <= self.fit_mu
            and not guarantee.failure
        )
        selection = _selection_in(self.mechanism)
        if (guarantee.adjacency, guarantee.unit) != (selection.adjacency, unit) or not (
            gaussian or guarantee.with_unit("record") in self.candidates
        ):
            raise UnsupportedMechanismError(
                f"a candidate costs {type(guarantee).__name__} of more than a trial's "
                f"{selection.trial}: leave it out of the search"
            )


def _models(candidates, plan):
    """Return the models of all candidates."""
    budget = plan.trial_budget
    facts = plan.facts
    return [
        last_step(candidates.build(candidate, budget, facts, None)) for candidate in candidates.grid
    ]
