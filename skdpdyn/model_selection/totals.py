"""What several releases cost together, and the true price of searches that are not private."""

import math
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.model_selection._costs import composed, largest, private_steps, with_parameters
from skdpdyn.model_selection._searches import fits_of, is_fitted_search, is_search
from skdpdyn.model_selection._splits import training_sets
from skdpdyn.model_selection._steps import chooses_by_records, reads_records
from skdpdyn.privacy import Budget, GaussianDP
from skdpdyn.privacy.checks import checked_flag
from skdpdyn.privacy.guarantees import Guarantee

NOT_PRIVATE_SCORES = (
    "scores, and what was chosen by them, were computed from the records without noise"
)
STRATIFIED = (
    "folds were stratified by y: the count is for neighbours that differ in X alone, "
    "since a label moves other records too"
)


@dataclass(frozen=True, repr=False)
class PrivacyTotal:
    """What several releases cost together, the parts that this is made of, and what it does not cover.

    Everything that a guarantee answers can be asked of it (``epsilon(delta)``, ``delta(epsilon)``,
    ``tradeoff(fpr)``); it is shown as a table of the parts.

    Parameters
    ----------
    guarantee : Guarantee
        The total.
    parts : tuple of (str, Guarantee) pairs
        What was released.
    leaks : tuple of str, default=()
        What the total does not cover.

    Examples
    --------
    >>> from skdpdyn.model_selection import total_privacy
    >>> from skdpdyn.privacy import GaussianDP
    >>> total = total_privacy(GaussianDP(0.3), GaussianDP(0.4))
    >>> total.mu, round(total.epsilon(1e-6), 4)
    (0.5, 2.2541)
    """

    guarantee: Guarantee
    parts: tuple
    leaks: tuple = ()

    def __getattr__(self, name):
        if name.startswith("__") or "guarantee" not in self.__dict__:
            raise AttributeError(name)
        if not hasattr(self.guarantee, name):
            raise AttributeError(
                f"{type(self).__name__} of a {type(self.guarantee).__name__} has no attribute {name!r}"
            )
        return getattr(self.guarantee, name)

    def compose(self, other):
        """Return the cost with another release of the same records; what is not covered stays so.

        Parameters
        ----------
        other : Guarantee or PrivacyTotal
            The other release.

        Returns
        -------
        PrivacyTotal
        """
        return total_privacy(self, other)

    def __dir__(self):
        return sorted(
            {
                *super().__dir__(),
                *(name for name in dir(self.guarantee) if not name.startswith("_")),
            }
        )

    def report(self, delta=1e-6):
        """Return the parts and the total as a table.

        Parameters
        ----------
        delta : float, default=1e-6
            Where epsilon is read.

        Returns
        -------
        str
        """
        guarantees = {self.guarantee, *(guarantee for _, guarantee in self.parts)}
        spent = {guarantee: f"{guarantee.epsilon(delta):.6g}" for guarantee in guarantees}
        counted = Counter((name, spent[guarantee]) for name, guarantee in self.parts)
        rows = [
            (f"{count} x {name}" if count > 1 else name, epsilon)
            for (name, epsilon), count in counted.items()
        ]
        rows.append(("together", spent[self.guarantee]))
        width = max(len(name) for name, _ in rows)
        lines = [f"{'':{width}}  epsilon at delta={delta:.3g} ({self.adjacency})"]
        lines += [f"{name:{width}}  {epsilon}" for name, epsilon in rows]
        return "\n".join(lines + [f"NOT PRIVATE: {leak}" for leak in self.leaks])

    def __repr__(self):
        return self.report()


def total_privacy(*fitted, disjoint=False):
    """Return what several releases cost together.

    Parameters
    ----------
    *fitted : fitted estimators, pipelines, searches and guarantees
        What was released of the records: anything with ``privacy_``, pipelines (the sum of their
        steps), searches of scikit-learn (as `search_privacy` counts them), guarantees and totals.
        Which records each was given must not depend on their values, as it does in
        OneVsOneClassifier and SelfTrainingClassifier: their numbers of records are released too.
        And none may be given copies of a record, as BaggingClassifier does: k copies count as k
        records.
    disjoint : bool, default=False
        Whether each of them was given other records than all the rest. Then a record costs what the
        worst of them costs. Who is in which part must not depend on the records' values: under
        "replace_one" a record that is replaced must stay in its part.

    Returns
    -------
    PrivacyTotal

    Raises
    ------
    ValueError
        If something learnt from the records without privacy, is not fitted, or has another
        adjacency.

    Examples
    --------
    >>> from skdpdyn.model_selection import total_privacy
    >>> from skdpdyn.privacy import GaussianDP
    >>> total_privacy(GaussianDP(0.3), GaussianDP(0.4), disjoint=True).mu
    0.4
    """
    checked_flag(disjoint, "disjoint")
    releases = [tuple(_releases(item)) for item in fitted]
    parts = tuple((name, guarantee) for release in releases for name, guarantee, _ in release)
    leaks = tuple(
        dict.fromkeys(leak for release in releases for *_, leaks in release for leak in leaks)
    )
    if not parts:
        return PrivacyTotal(GaussianDP(0.0), (), leaks)
    sums = [composed([guarantee for _, guarantee, _ in release]) for release in releases if release]
    if len({guarantee.adjacency for guarantee in sums}) > 1:
        raise ValueError("releases of unlike adjacency have no total: account all under one")
    return PrivacyTotal(largest(sums) if disjoint else composed(sums), parts, leaks)


def search_privacy(search, n_samples=None, *, cv=None, n_features=None):
    """Return what the fits of a search or of a cross-validation cost together.

    A record is among the training records of all folds but its own, once for each candidate, and in
    the refit. That is composed as it was spent: candidate by candidate, with the training sizes of
    the folds. The scores are not covered: scikit-learn computes them from the records, without
    noise, and chooses by them. (`PrivateSearchCV` is private as a whole.)

    Parameters
    ----------
    search : GridSearchCV, fitted RandomizedSearchCV, HalvingGridSearchCV or HalvingRandomSearchCV, or an estimator
        The search; a `GridSearchCV` may be asked before it is fitted. Or the estimator that
        ``cross_validate``, ``cross_val_score`` or ``cross_val_predict`` was given, fitted or not:
        one fit a split, where ``learning_curve`` makes several. Pipelines may hold a
        `PrivateScaler`, which is counted too.
    n_samples : int or None, default=None
        Number of records. None: that of a search's refitted model.
    cv : int, cross-validator of scikit-learn, list of (train, test) pairs or None, default=None
        How an estimator was cross-validated; None: in five folds. A search knows its own: it may be
        given the list of the splits that it made, where these depended on ``groups`` or the like.
        Who is in which split must not depend on the records.
    n_features : int or None, default=None
        Number of columns that reach the private model. None: that of a search's refitted model.

    Returns
    -------
    PrivacyTotal
        Its ``leaks`` say what was not private.

    Raises
    ------
    ValueError
        If a part learns without privacy, a number is missing or not that of the refitted model,
        nothing is known of who trains in which split, a split trains on a record more than once,
        candidates of unlike numbers of columns cost differently, or the refit has not cost what the
        search's estimator says now. (Other changes after the fit are not seen: the search, its cv
        and its ``best_estimator_`` must be as the fit left them.)

    Warns
    -----
    PrivacyLeakWarning
        Always: for the scores.

    Examples
    --------
    >>> import warnings
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.model_selection import search_privacy
    >>> model = PrivateRidge(epsilon=1.0, delta=1e-6, target_bounds=(0, 1))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     total = search_privacy(model, cv=5, n_samples=1000, n_features=10)
    >>> round(model.privacy_cost(800, 10).mu, 6), round(total.mu, 6)
    (0.236704, 0.473409)
    """
    fits = fits_of(search)
    private_steps(fits.estimator)  # or an error
    n_samples, n_features = fits.shape(n_samples, n_features)
    for name, value in (("n_samples", n_samples), ("n_features", n_features)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(
                f"{name}={value!r} must be given, an integer >= 1: no refitted model says it"
            )
    n_samples, n_features = int(n_samples), int(n_features)
    cv = fits.cross_validator(cv)
    stratified, splits = training_sets(cv, n_samples, is_classifier(fits.estimator))
    if fits.n_splits not in (None, len(splits)):
        raise ValueError(
            f"cv={cv!r} made {fits.n_splits} splits in the search, not {len(splits)}: pass a cross-validator or a list"
        )

    @cache
    def cost(index, size):
        return _cost_of_fit(fits.estimator, fits.candidates[index], size, n_features)

    sizes = [[int(share * size) for size, _ in splits] for share in fits.shares(n_samples)]
    spent = [[cost(index, size) for size in row] for index, row in enumerate(sizes)]
    refit = fits.refit(partial(cost, size=n_samples))
    total = _most_spent(spent, [trains for _, trains in splits], refit)
    leaks = [NOT_PRIVATE_SCORES] + [STRATIFIED] * (stratified or fits.stratified)
    for candidate in fits.candidates:
        leaks += [
            leak
            for step in private_steps(with_parameters(fits.estimator, candidate))
            for leak in _leaks(step)
        ]
    warnings.warn(
        f"the fits are counted, but {NOT_PRIVATE_SCORES}", PrivacyLeakWarning, stacklevel=2
    )
    parts = [
        (f"fit on {size} records", guarantee)
        for row in zip(sizes, spent, strict=True)
        for size, guarantee in zip(*row, strict=True)
    ]
    return PrivacyTotal(
        total, (*parts, *(("refit", guarantee) for guarantee in refit)), tuple(dict.fromkeys(leaks))
    )


def _cost_of_fit(estimator, candidate, n_samples, n_features):
    """Return what a fit of one candidate costs."""
    steps = private_steps(with_parameters(estimator, candidate))

    def with_columns(number):
        return composed([step.privacy_cost(n_samples, number) for step in steps])

    guarantee = with_columns(n_features)
    if not _changes_columns(estimator, candidate):
        return guarantee
    other = with_columns(10 * n_features)
    if other == guarantee:
        return guarantee
    # Room for rounding takes another last digit of mu with every number of columns, but never more
    # than the budget
    gaussian = isinstance(guarantee, GaussianDP) and isinstance(other, GaussianDP)
    if not (gaussian and math.isclose(guarantee.mu, other.mu, rel_tol=1e-6)):
        raise ValueError(
            f"{candidate}: what a fit costs depends on the number of columns, which candidates may change"
        )
    return composed([_whole_budget(step, n_samples) for step in steps])


def _whole_budget(step, n_samples):
    """Return the whole budget of a step as a guarantee."""
    budget = Budget.for_samples(
        step.epsilon, step.delta, n_samples=n_samples, adjacency=step.adjacency
    )
    return GaussianDP(budget.mu, budget.adjacency)


def _most_spent(spent, who_trains, refit):
    """Return what all fits cost any one record; ``spent``: the cost of each split by candidate."""
    patterns = np.unique(np.stack(who_trains), axis=1).T  # in which splits someone trains
    by_pattern = [
        [guarantee for row in spent for guarantee, inside in zip(row, who, strict=True) if inside]
        for who in patterns
    ]
    distinct = {
        frozenset(Counter(guarantees).items()): guarantees for guarantees in by_pattern
    }.values()
    return largest(
        [composed([*guarantees, *refit]) for guarantees in distinct if guarantees or refit]
    )


def _releases(item):
    """Triples (name, guarantee, leaks) of all that an object released."""
    if isinstance(item, Guarantee):
        return [(type(item).__name__, item, ())]
    if isinstance(item, PrivacyTotal):
        return [("a total", item.guarantee, item.leaks)]
    if isinstance(getattr(item, "guarantee", None), Guarantee):  # of `tightest`
        return [(type(item.guarantee).__name__, item.guarantee, ())]
    if hasattr(item, "privacy_"):
        return [(type(item).__name__, item.privacy_, tuple(getattr(item, "leaks_", ())))]
    if is_fitted_search(item):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)  # the total's leaks say it
            try:
                total = search_privacy(item)
            except ValueError as error:
                raise ValueError(
                    f"{error}. (Of this search pass total_privacy(search_privacy(search, ...)))"
                ) from None
        return [(type(item).__name__, total.guarantee, total.leaks)]
    if hasattr(item, "privacy_cost"):
        raise ValueError(
            f"{item!r} is not fitted: it has released nothing yet; its privacy_cost says what it would"
        )
    if type(item) in (Pipeline, ColumnTransformer, FeatureUnion):
        return [release for step in _steps(item) for release in _releases_of_step(step)]
    if not isinstance(item, BaseEstimator):
        hint = ": of a record, pass tightest(record)" if hasattr(item, "adjacency") else ""
        hint = ": unpack it, total_privacy(*releases)" if isinstance(item, (list, tuple)) else hint
        raise ValueError(f"{item!r} is neither a fitted estimator nor a guarantee{hint}")
    if is_search(item):
        raise ValueError(
            f"{item!r}: what it released is not known, since it is not fitted or its cv_results_ do not say it"
        )
    reason = reads_records(item)
    if reason is not None:
        raise ValueError(f"no total is known: {reason}{_hint(item)}")
    return []


def _hint(item):
    """Return a hint on the private fits inside an estimator that is not private itself."""
    from sklearn.ensemble import VotingClassifier, VotingRegressor  # slow to load
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor

    give_all_records = (
        OneVsRestClassifier,
        MultiOutputClassifier,
        MultiOutputRegressor,
        VotingClassifier,
        VotingRegressor,
    )
    if isinstance(item, give_all_records):
        labels = (
            " (which labels occur it has taken from y itself: that leaks, and is not in the total)"
        )
        encodes = isinstance(item, (OneVsRestClassifier, VotingClassifier))
        return f". Pass what was fitted in it: total_privacy(*fitted.estimators_){labels if encodes else ''}"
    if hasattr(item, "estimator") or hasattr(item, "estimators"):
        return (
            ". Nor is one known of the private fits inside it, if it draws copies of records, chooses records by their labels, "
            "fits more than it keeps, or learns itself"
        )
    return ""


def _steps(item):
    """Return the steps of a composite."""
    if isinstance(item, ColumnTransformer):
        reason = chooses_by_records(item)
        if reason is not None:
            raise ValueError(f"no total is known: {reason}")
        fitted = getattr(item, "transformers_", None)  # the remainder is one of them
        steps = fitted or [*item.transformers, ("remainder", item.remainder, None)]
        return [step for _, step, columns in steps if not _is_empty(columns)]
    return [
        step for _, step in (item.steps if isinstance(item, Pipeline) else item.transformer_list)
    ]


def _is_empty(columns):
    """Whether a ColumnTransformer's selection holds no column, so that its step was never fitted."""
    chosen = np.asarray(columns) if isinstance(columns, (list, tuple, np.ndarray)) else None
    return chosen is not None and not (np.any(chosen) if chosen.dtype == bool else chosen.size)


def _releases_of_step(step):
    return [] if step is None or isinstance(step, str) else _releases(step)


def _changes_columns(estimator, candidate):
    """Whether a candidate changes more than parameters of the model: steps, which may pass on other columns."""
    prefix = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    return not all(name.startswith(prefix) for name in candidate)


def _leaks(model):
    """Return what a fit with these parameters would leak."""
    seed = getattr(model, "random_state", None)
    # of a private search
    model = private_steps(model.estimator)[-1] if hasattr(model, "estimator") else model
    names = [name for name in ("classes", "target_bounds") if getattr(model, name, "given") is None]
    return tuple(f"{name} were taken from y" for name in names) + (
        ()
        if seed is None
        else (f"random_state={seed} lets anyone recompute the noise, the same in every fit",)
    )
