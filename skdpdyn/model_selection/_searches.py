"""Fits of a search or a cross-validation: an estimator, candidates, splits, perhaps a refit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, ParameterGrid

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.model_selection._splits import knows_its_splits, stratifies
from skdpdyn.model_selection._steps import private_steps, with_parameters
from skdpdyn.privacy.checks import has_own
from skdpdyn.privacy.guarantees import composed, largest


@dataclass(frozen=True, eq=False)
class Fits:
    """The fits that a search makes, or the cross-validation of an estimator.

    Parameters
    ----------
    estimator : estimator
        What is fitted.
    candidates : sequence of dict
        Parameters of each candidate.
    cv : int, cross-validator of scikit-learn or list of pairs
        What makes the splits.
    search : search of scikit-learn or None, default=None
        The search; None: a cross-validation.
    refitted : tuple of estimators, default=()
        Private steps of a fitted search's refitted model.
    """

    estimator: Any
    candidates: Sequence[dict[str, Any]]
    cv: Any
    search: Any = None
    refitted: tuple[Any, ...] = ()

    @property
    def is_stratified(self):
        """Whether the search's own splits looked at labels."""
        return self.search is not None and stratifies(self.search.cv)

    @property
    def draws_rows(self):
        """Whether candidates are trained on parts of the splits, as halving searches do."""
        return getattr(self.search, "resource", None) == "n_samples"

    def check_unit(self):
        """Refuse fits that protect persons: splits of rows know nothing of them."""
        steps = private_steps(self.estimator)
        units = {step.privacy_.unit for step in self.refitted} or {"record"}
        if units != {"record"} or (not self.refitted and any(map(_requests_groups, steps))):
            raise UnsupportedMechanismError(
                "fits by person: a search of scikit-learn splits rows, and balances by how many a "
                "person has. Use PrivateSearchCV, whose fit takes groups"
            )

    def shape(self, n_samples, n_features):
        """Return the numbers of records and columns, as given unless the refitted model says."""
        if not self.refitted:
            return n_samples, n_features
        model = self.refitted[-1]
        n_samples = model.n_samples_ if n_samples is None else n_samples
        n_features = model.n_features_in_ if n_features is None else n_features
        if (n_samples, n_features) != (model.n_samples_, model.n_features_in_):
            raise ValueError(
                f"n_samples={n_samples!r}, n_features={n_features!r}: the refitted model saw "
                f"{model.n_samples_} records of "
                f"{model.n_features_in_} columns"
            )
        return n_samples, n_features

    def sizes(self, split_sizes, n_samples):
        """Return the number of units in each fit of each candidate."""
        n_splits = getattr(self.search, "n_splits_", len(split_sizes))
        if n_splits != len(split_sizes):
            raise ValueError(
                f"cv={self.cv!r} made {n_splits} splits in the search, not {len(split_sizes)}: "
                "pass a cross-validator or a list"
            )
        if not self.draws_rows:
            return [split_sizes] * len(self.candidates)
        resources = self.search.cv_results_["n_resources"]
        return [[int(rows / n_samples * size) for size in split_sizes] for rows in resources]

    def refit(self, costs):
        """Return the cost of a refit, if there is one; ``costs``: that of each candidate."""
        if not self.refitted:  # of a plan, the best, whichever that will be
            planned = self.search is not None and not is_fitted_search(self.search)
            return [largest(costs())] if planned and self.search.refit else []
        best = self.candidates[self.search.best_index_]
        planned = private_steps(with_parameters(self.estimator, best))
        costs = [
            step.privacy_cost(fitted.n_samples_, fitted.n_features_in_)
            for step, fitted in zip(planned, self.refitted, strict=True)
        ]
        if costs != [step.privacy_ for step in self.refitted]:
            raise ValueError(
                "the search's estimator was changed after the fit: what its fits have cost is "
                "not known any more"
            )
        return [composed(costs)]


def is_search(item):
    """Return whether it is a search of scikit-learn, or made like one."""
    parts = "estimator", "cv", "refit", "scoring", "error_score"
    return isinstance(item, BaseEstimator) and all(has_own(item, part) for part in parts)


def is_fitted_search(item):
    """Return whether it is a fitted search with the candidates that it tried."""
    return is_search(item) and "params" in (getattr(item, "cv_results_", None) or ())


def fits_of(search, cv=None):
    """Return the fits of a search; of any other estimator, those of its cross-validation."""
    if not is_search(search):
        return Fits(search, [{}], 5 if cv is None else cv)
    is_fitted = is_fitted_search(search)
    if not is_fitted and type(search) is not GridSearchCV:  # a subclass may try other candidates
        raise ValueError(
            f"{search!r}: its candidates are not known, since it is not fitted or its "
            "cv_results_ do not say them. Only those of "
            "a GridSearchCV are known before"
        )
    cv = _cv_of(search, cv)
    if is_fitted:
        best = getattr(search, "best_estimator_", None)
        refitted = () if best is None else tuple(private_steps(best))
        return Fits(search.estimator, search.cv_results_["params"], cv, search, refitted)
    candidates = list(ParameterGrid(search.param_grid))
    if not candidates:
        raise ValueError(f"param_grid={search.param_grid!r} has no candidates")
    return Fits(search.estimator, candidates, cv, search)


def _cv_of(search, cv):
    """Return the source of a search's splits; ``cv``: the list of them, or None."""
    if cv is None:
        return 5 if search.cv is None else search.cv
    if (
        not is_fitted_search(search)
        or not isinstance(cv, (list, tuple))
        or knows_its_splits(search.cv)
    ):
        raise ValueError(
            "cv: a search knows its own. Only where that depends on groups or the like, the list "
            "of its splits can be passed once it is fitted; before, set the search's cv to that "
            "list"
        )
    return cv


def _requests_groups(step):
    """Return whether a step asks scikit-learn's metadata routing for groups."""
    return step.get_metadata_routing().fit.requests.get("groups") not in (None, False)
