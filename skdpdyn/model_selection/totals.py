"""Total cost of several releases, and the true price of searches that are not private."""

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import FeatureUnion, Pipeline

from skdpdyn.exceptions import PrivacyLeakWarning, UnsupportedMechanismError
from skdpdyn.model_selection._searches import (
    candidates_of,
    check_unit,
    is_fitted_search,
    is_search,
    keeps_columns,
    shape_of,
    splits_of,
)
from skdpdyn.model_selection._splits import record_splits, stratifies
from skdpdyn.model_selection._steps import (
    changes_target,
    chooses_by_records,
    joined,
    lines_of,
    private_steps,
    verdict,
    with_parameters,
)
from skdpdyn.privacy import Budget, GaussianDP
from skdpdyn.privacy.arguments import has_own
from skdpdyn.privacy.checks import checked_flag, is_auto
from skdpdyn.privacy.display import Document, Shown, whose
from skdpdyn.privacy.guarantees import Adjacency, Guarantee, checked_unit, composed
from skdpdyn.privacy.ledger import plans_pipelines
from skdpdyn.privacy.renyi import largest
from skdpdyn.privacy.report import attackers_reach
from skdpdyn.training.sources import Source, given_to, key_of, leaks_of
from skdpdyn.training.targets import listed

NOT_PRIVATE_SCORES = (
    "scores, and what was chosen by them, were computed from the records without noise"
)
_NEITHER = (
    "a {} is neither a fitted estimator nor a guarantee: of a record, pass tightest(record); "
    "unpack a list, total_privacy(*releases)"
)
_NOT_KNOWN = (
    "{} is not known: it may fit several models, and learn from the records itself. Of the former, "
    "pass each model that it fitted, or model.privacy_cost(n_samples, n_features) once for each "
    "fit, total_privacy(*[cost] * n_fits)"
)
STRATIFIED = (
    "folds were stratified by y: the count is for neighbours that differ in X alone, "
    "since a label moves other records too"
)


@dataclass(frozen=True, repr=False)
class PrivacyTotal(Shown):
    """Total cost of several releases, with its parts and the leaks it does not cover.

    Ask its ``guarantee`` (``epsilon(delta)``, ``delta(epsilon)``, ``tradeoff(fpr)``); it is shown
    as a table of the parts.

    Parameters
    ----------
    guarantee : Guarantee
        The total.
    parts : tuple of (str, Guarantee) pairs
        Name and guarantee of each release.
    leaks : tuple of str, default=()
        Leaks that the total does not cover.
    free : tuple of (str, str) pairs, default=()
        Steps that cost nothing, and why.
    asked : float or None, default=None
        Delta at which epsilon is shown: the largest at which a part was asked for. None: 1e-6.
    sources : tuple of Source, default=()
        Released models that parts were given, such as a ``start``, and that are not among them.

    Examples
    --------
    >>> from skdpdyn.model_selection import total_privacy
    >>> from skdpdyn.privacy import GaussianDP
    >>> total = total_privacy(GaussianDP(0.3), GaussianDP(0.4))
    >>> total.guarantee.mu, round(total.guarantee.epsilon(1e-6), 4)
    (0.5, 2.2541)
    """

    guarantee: Guarantee
    parts: tuple[tuple[str, Guarantee], ...]
    leaks: tuple[str, ...] = ()
    free: tuple[tuple[str, str], ...] = ()
    asked: float | None = None
    sources: tuple[Source, ...] = ()

    def compose(self, other: Any) -> Any:
        """Return the cost with another release of the same records; leaks stay.

        Parameters
        ----------
        other : Guarantee or PrivacyTotal
            The other release.

        Returns
        -------
        PrivacyTotal
        """
        return total_privacy(self, other)

    def for_unit(self, unit: str) -> Any:
        """Return the total that this one implies for another unit, see `total_privacy`.

        Parameters
        ----------
        unit : str
            The unit.

        Returns
        -------
        PrivacyTotal
        """
        return total_privacy(self, unit=unit)

    def report(self, delta: float | None = None) -> str:
        """Return the parts and the total as a table.

        Parameters
        ----------
        delta : float or None, default=None
            Delta at which epsilon is read. None: ``asked``, or 1e-6 if no part was asked for one.

        Returns
        -------
        str
        """
        return self.document(delta).text()

    def document(self, delta: float | None = None) -> Document:
        """Return the table of parts, for text and HTML.

        Parameters
        ----------
        delta : float or None, default=None
            Delta at which epsilon is read, as in `report`.

        Returns
        -------
        Document
        """
        default = 1e-6 if self.asked is None else self.asked
        delta = default if delta is None else delta
        guarantee = self.guarantee
        spent = {part: f"{part.epsilon(delta):.6g}" for part in {part for _, part in self.parts}}
        counted = Counter((name, spent[part]) for name, part in self.parts)
        together = f"{guarantee.epsilon(delta):.6g}"
        started = Counter(f"{source.label} of {source.guarantee}" for source in self.sources)
        return Document(
            f"epsilon at delta={delta:.3g} ({whose(guarantee)})",
            [
                ("part", "epsilon"),
                *((f"{name}: {why}" if name else why, "0") for name, why in self.free),
                *(
                    (f"{n} x {name}" if n > 1 else name, cost)
                    for (name, cost), n in counted.items()
                ),
                ("together", together),
            ],
            [
                f"{n} x " * (n > 1) + f"{line}: add it if it is of the same people"
                for line, n in started.items()
            ],
            self.leaks,
            [(f"ε={together}", f"together, at δ = {delta:g}"), *attackers_reach(guarantee)],
        )


def total_privacy(*fitted: Any, disjoint: bool = False, unit: str | None = None) -> Any:
    """Return the cost of several releases together, with a line for each step of a pipeline.

    Call it for every pipeline, because a model knows only what it spent itself, and nothing of the
    steps before. Released models that a fit was given, such as a ``start``, are listed but not
    included: also pass those that were trained on the same people.

    Parameters
    ----------
    *fitted : fitted estimators, pipelines, searches and guarantees
        The releases: anything with ``privacy_``, pipelines (the sum of their steps), searches of
        scikit-learn (as `search_privacy` counts them), guarantees and totals. The function of a
        ``FunctionTransformer`` must be an elementwise numpy function. For any other function,
        declare that it treats each row separately by setting its attribute ``row_wise = True``. A
        private model may be in a ``FixedThresholdClassifier``, and in a
        ``TransformedTargetRegressor`` with numpy's functions and ``check_inverse=False``. The
        records of a release must not be selected by their values, which OneVsOneClassifier and
        SelfTrainingClassifier do, because the number of selected records is released too. A release
        must not be given copies of a record, which BaggingClassifier does: k copies count as k
        records.
    disjoint : bool, default=False
        Whether the releases, and models that they were given (for example as a ``start``), were
        computed from disjoint sets of records. The total is then the cost of the most expensive
        one. The assignment of records to parts must not depend on their values: under "replace_one"
        a replaced record must stay in its part. If persons are protected, nobody may have rows in
        two parts. For example, a model and its `skdpdyn.evaluation.evaluate` on held-out records
        together cost as much as the more expensive one.
    unit : str or None, default=None
        The unit that the total protects. None: the common unit of all releases. "record": a release
        that protects persons also protects a record, because it belongs to one person. Under
        "replace_one" it counts as it is: a record that is replaced keeps its owner, so one person's
        rows change. Under "add_remove" it counts twice, 2 mu: to remove a record, the person leaves
        with all rows and comes back without this one. See `Guarantee.for_unit` for the proof.

    Returns
    -------
    PrivacyTotal

    Raises
    ------
    ValueError
        If a release or step learnt from the records without privacy, is not fitted, or has another
        adjacency. The message has one line for each such step, with the remedy.
    UnsupportedMechanismError
        If the releases protect different units, and ``unit`` cannot convert them to one.

    Examples
    --------
    >>> from skdpdyn.model_selection import total_privacy
    >>> from skdpdyn.privacy import GaussianDP
    >>> total_privacy(GaussianDP(0.3), GaussianDP(0.4), disjoint=True).guarantee.mu
    0.4
    """
    checked_flag(disjoint, "disjoint")
    unit = None if unit is None else checked_unit(unit)
    by_release = [tuple(_top(item)) for item in fitted]
    everything = [part for parts in by_release for part in parts]
    refused = [(part.name, part.why) for part in everything if part.refused]
    if refused:
        raise ValueError(lines_of(refused, "no total is known"))
    released = [
        [part.of(unit) for part in parts if part.guarantee is not None] for parts in by_release
    ]
    parts = tuple((part.name, part.guarantee) for release in released for part in release)
    leaks = tuple(dict.fromkeys(leak for part in everything for leak in part.leaks))
    free = tuple(
        dict.fromkeys((part.name, part.why) for part in everything if part.guarantee is None)
    )
    delta = max((part.asked for part in everything if part.asked is not None), default=None)
    counted = {part.key for part in everything} - {""}
    sources = tuple(
        source
        for source in dict.fromkeys(source for part in everything for source in part.sources)
        if source.guarantee is not None and source.key not in counted and not disjoint
    )
    if not parts:
        return PrivacyTotal(GaussianDP(0.0, unit=unit or "record"), (), leaks, free, delta)
    sums = [composed([part.guarantee for part in release]) for release in released if release]
    if len({guarantee.adjacency for guarantee in sums}) > 1:
        raise ValueError("releases of unlike adjacency have no total: account all under one")
    total = largest(sums) if disjoint else composed(sums)
    return PrivacyTotal(total, parts, leaks, free, delta, sources)


def search_privacy(
    search: Any,
    n_samples: int | None = None,
    *,
    cv: Any = None,
    n_features: int | None = None,
) -> Any:
    """Return the cost of all fits of a search or of a cross-validation together.

    Each fit costs what a fit of as many records costs, the refit too, and all of them compose: as
    if a record were in every split, which holds whatever the splits are. The scores are not
    covered: scikit-learn computes them from the records, without noise, and chooses by them.
    (`PrivateSearchCV` is private as a whole.)

    Fits that were given ``groups``, by metadata routing, are refused: splits balance by rows and
    labels, which are private, so that one person would move others.

    Parameters
    ----------
    search : search of scikit-learn or estimator
        A ``GridSearchCV``, fitted or not; or a fitted ``RandomizedSearchCV``. Others are refused:
        how many fits they make, or of how many records, is not known. Or the estimator that
        ``cross_validate``, ``cross_val_score`` or ``cross_val_predict`` was given, fitted or not:
        one fit a split. Pipelines may hold a `PrivateScaler`, which is counted too.
        ``permutation_test_score`` makes ``n_permutations + 1`` times as many fits,
        ``validation_curve`` one for each value and ``learning_curve`` one for each size: pass the
        cost as often,
        ``total_privacy(*[search_privacy(model, n_samples, n_features=d)] * times)``.
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
        nothing is known of how many train in a split, a split trains on a record more than once,
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
    >>> round(model.privacy_cost(800, 10).mu, 6), round(total.guarantee.mu, 6)
    (0.236704, 0.529287)
    """
    searches = is_search(search)
    estimator = search.estimator if searches else search
    steps = private_steps(estimator)  # raises if a step is not private
    candidates = candidates_of(search) if searches else [{}]
    refits = searches and bool(search.refit)
    best = getattr(search, "best_estimator_", None) if refits else None
    refitted = [] if best is None else private_steps(best)
    check_unit(steps, refitted)
    n_samples, n_features = shape_of(refitted, n_samples, n_features)
    cv = splits_of(search, cv) if searches else 5 if cv is None else cv
    stratified, sizes = record_splits(cv, n_samples, is_classifier(estimator))
    if getattr(search, "n_splits_", len(sizes)) != len(sizes):
        raise ValueError(f"cv makes {len(sizes)} splits, and the search made {search.n_splits_}")

    @cache
    def cost(index, size):
        return _cost_of_fit(estimator, candidates[index], size, n_features)

    indices = range(len(candidates))
    parts = [(f"fit on {size} records", cost(index, size)) for index in indices for size in sizes]
    if refitted:
        refit = cost(search.best_index_, n_samples)
        if refit != composed([step.privacy_ for step in refitted]):
            raise ValueError(
                "the search's estimator was changed after the fit: what its fits have cost is "
                "not known any more"
            )
        parts.append(("refit", refit))
    elif refits:  # whichever is the best
        parts.append(("refit", largest([cost(index, n_samples) for index in indices])))
    stratified |= searches and stratifies(search.cv)
    changed = [with_parameters(estimator, candidate) for candidate in candidates]
    return _total_of_fits(parts, changed, n_samples, stratified)


def _total_of_fits(parts, estimators, n_samples, stratified):
    """Return the total of all fits of some estimators, with the leaks that it does not cover."""
    steps = [step for estimator in estimators for step in private_steps(estimator)]
    of_steps = [source for step in steps for source in step._sources()]
    of_others = _paid(source for estimator in estimators for source in given_to(estimator))
    sources = tuple(dict.fromkeys((*of_steps, *of_others)))
    leaks = [NOT_PRIVATE_SCORES] + [STRATIFIED] * stratified
    leaks += [*(leak for step in steps for leak in _leaks(step)), *leaks_of(sources)]
    warnings.warn(
        f"the fits are counted, but {NOT_PRIVATE_SCORES}", PrivacyLeakWarning, stacklevel=3
    )
    return PrivacyTotal(
        composed(guarantee for _, guarantee in parts),
        tuple(parts),
        tuple(dict.fromkeys(leaks)),
        asked=max(_delta(step, n_samples) for step in steps),
        sources=_paid(sources),
    )


def _cost_of_fit(estimator, candidate, n_samples, n_features):
    """Return the cost of a fit of one candidate, if it is that of any number of columns it has."""
    steps = private_steps(with_parameters(estimator, candidate))
    columns = [n_features]
    if not keeps_columns(estimator, candidate):
        columns.append(10 * n_features)
    costs = [composed([step.privacy_cost(n_samples, d) for step in steps]) for d in columns]
    if costs[0] != costs[-1]:
        raise ValueError(
            f"{candidate}: what a fit costs depends on the number of columns, which candidates "
            "may change: search candidates that keep the columns"
        )
    return costs[0]


@plans_pipelines
def _planned(estimator, n_samples, n_features):
    """Return the cost of a fit of an estimator or a pipeline."""
    private_steps(estimator)  # raises for a wrapper, of which clone may return what is inside
    return _cost_of_fit(estimator, {}, n_samples, n_features)


def _delta(step, n_samples):
    """Return the delta of a step, or of a private search; adjacency does not change it."""
    either = Adjacency.REPLACE_ONE
    return Budget.for_samples(step.epsilon, step.delta, n_samples=n_samples, adjacency=either).delta


@dataclass(frozen=True)
class _Part:
    """Verdict on one part: its release, or why it has none, or why that is unknown."""

    name: str
    guarantee: Guarantee | None = None
    leaks: tuple = ()
    why: str = ""
    refused: bool = False
    asked: float | None = None
    sources: tuple = ()
    key: str = ""

    def of(self, unit):
        """Return the release as it counts for a unit; None: for its own."""
        return self if unit is None else replace(self, guarantee=self.guarantee.for_unit(unit))


def _parts_of(item, name=""):
    """Yield the verdicts on an object and on all its parts."""
    kind = type(item).__name__
    if isinstance(item, Guarantee):
        yield _Part(_named(name, kind), item)
    elif isinstance(item, PrivacyTotal):
        yield _Part(
            _named(name, "a total"),
            item.guarantee,
            item.leaks,
            asked=item.asked,
            sources=item.sources,
        )
        yield from (_Part(step, why=why) for step, why in item.free)
    elif has_own(item, "guarantee") and isinstance(item.guarantee, Guarantee):  # of `tightest`
        yield _Part(_named(name, type(item.guarantee).__name__), item.guarantee)
    elif has_own(item, "privacy_"):
        leaks = tuple(getattr(item, "leaks_", ()))
        yield _Part(
            _named(name, kind),
            item.privacy_,
            leaks,
            asked=getattr(item, "delta_", None),
            sources=getattr(item, "sources_", ()),
            key=key_of(item),
        )
    elif is_fitted_search(item):
        yield _of_search(item, name)
    elif has_own(item, "privacy_cost"):
        yield _unfitted(name, kind, "its privacy_cost says what it would")
    elif type(item) in _PARTS:
        yield from _PARTS[type(item)](item, name)
    elif not isinstance(item, BaseEstimator | str | None):
        raise ValueError((_NOT_KNOWN if has_own(item, "fit") else _NEITHER).format(kind))
    elif is_search(item):
        why = (
            f"{kind}: what it released is not known, since it is not fitted or its cv_results_ do "
            "not say it"
        )
        yield _Part(name, why=why, refused=True)
    else:
        why, leaks = verdict(item)  # of a step that does not say what it spent
        sources = _paid(given_to(item)) if isinstance(item, BaseEstimator) else ()
        yield _Part(name, why=why, refused=leaks, sources=sources, leaks=leaks_of(sources))


def _paid(sources):
    """Return the sources that a guarantee pays for, each once."""
    return tuple(dict.fromkeys(source for source in sources if source.guarantee is not None))


def _unfitted(name, kind, then="what is in it has no budget to tell"):
    why = f"{kind} is not fitted: it has released nothing yet; {then}"
    return _Part(name, why=why, refused=True)


def _named(name, kind):
    """Return the name of a part: its class and, where someone chose one, the name of its step."""
    last = name.rpartition("__")[2]
    return kind if last.rstrip("-0123456789") in ("", kind.lower()) else f"{name} ({kind})"


def _of_steps(item, name):
    for part, step in item.steps if isinstance(item, Pipeline) else item.transformer_list:
        yield from _parts_of(step, joined(name, part))


def _of_columns(item, name):
    fitted = getattr(item, "transformers_", None)  # the remainder is one of them
    steps = fitted or [*item.transformers, ("remainder", item.remainder, None)]
    for part, step, columns in steps:
        if not _is_empty(columns):
            yield from _parts_of(step, joined(name, part))
    reason = chooses_by_records(item)
    if reason is not None:
        yield _Part(name, why=reason, refused=True)


def _of_target(item, name):
    reason = changes_target(item)
    if reason is not None:
        yield _Part(name, why=reason, refused=True)
    yield from _inside(item, name, "regressor_")


def _of_search(item, name):
    """Return the verdict on a fitted search."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)  # the total's leaks say it
            total = search_privacy(item)
    except UnsupportedMechanismError:
        raise
    except ValueError as error:
        why = f"{error}. (Pass total_privacy(search_privacy(search, ...)) of this search)"
        return _Part(name, why=why, refused=True)
    kind = type(item).__name__
    return _Part(
        _named(name, kind),
        total.guarantee,
        total.leaks,
        asked=total.asked,
        sources=total.sources,
    )


def _inside(item, name, attribute):
    """Yield the verdicts on the one model that was fitted inside."""
    if hasattr(item, attribute):
        yield from _parts_of(getattr(item, attribute), name)
    else:
        yield _unfitted(name, type(item).__name__)


# Parts of composites, by exact type, because a subclass may do more
_PARTS = {
    Pipeline: _of_steps,
    FeatureUnion: _of_steps,
    ColumnTransformer: _of_columns,
    TransformedTargetRegressor: _of_target,
    FixedThresholdClassifier: partial(_inside, attribute="estimator_"),
    FrozenEstimator: lambda item, name: _parts_of(item.estimator, name),
}


def _top(item):
    """Return the parts of one argument of `total_privacy`."""
    if item is None or isinstance(item, str):
        raise ValueError(_NEITHER.format(type(item).__name__))
    return _parts_of(item, "")


def _is_empty(columns):
    """Return whether a ColumnTransformer's selection holds no column: its step was never fitted."""
    chosen = np.asarray(columns) if isinstance(columns, (list, tuple, np.ndarray)) else None
    return chosen is not None and not (np.any(chosen) if chosen.dtype == bool else chosen.size)


def _leaks(model):
    """Return the leaks of a fit with these parameters."""
    seed = getattr(model, "random_state", None)
    searches = hasattr(model, "estimator")
    model = private_steps(model.estimator)[-1] if searches else model
    leaks = []
    for name in ("classes", "target_bounds"):
        value = getattr(model, name, ())
        if is_auto(value) and not searches:
            leaks.append(f"{name} are taken from y where they are text, or records are few")
        elif listed(value) is None:
            leaks.append(f"{name} were taken from y")
    return tuple(leaks) + (
        ()
        if seed is None
        else (f"random_state={seed} lets anyone recompute the noise, the same in every fit",)
    )
