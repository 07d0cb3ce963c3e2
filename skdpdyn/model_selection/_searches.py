"""Fits of a search or a cross-validation: an estimator, candidates, splits, perhaps a refit.

One class for each way that `skdpdyn.model_selection.search_privacy` may be asked.
"""

from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, ParameterGrid

from skdpdyn.model_selection._costs import private_steps, with_parameters
from skdpdyn.model_selection._splits import knows_its_splits, stratifies
from skdpdyn.privacy.guarantees import check_alike, composed, largest


def is_search(item):
    """Return whether it is a search of scikit-learn, or made like one."""
    parts = "estimator", "cv", "refit", "scoring", "error_score"
    return isinstance(item, BaseEstimator) and all(hasattr(item, part) for part in parts)


def is_fitted_search(item):
    """Return whether it is a fitted search that says what it tried."""
    return is_search(item) and "params" in (getattr(item, "cv_results_", None) or ())


def fits_of(search, row_wise=()):
    """Return what a search fits; of any other estimator, what its cross-validation fits."""
    if is_fitted_search(search):
        return _Searched(search, row_wise)
    if type(search) is GridSearchCV:  # a subclass may try what its grid does not say
        return _Planned(search)
    if is_search(search):
        raise ValueError(
            f"{search!r}: its candidates are not known, since it is not fitted or its "
            "cv_results_ do not say them. Only those of "
            "a GridSearchCV are known before"
        )
    return _CrossValidated(search)


class _CrossValidated:
    """Cost of the fits of an estimator in a cross-validation that parameters describe."""

    n_splits = None
    stratified = False

    def __init__(self, estimator):
        self.estimator, self.candidates = estimator, [{}]

    def unit(self, grouped, row_wise):
        """Return whom each fit protects, which was given groups if ``grouped``."""
        if not grouped and any(map(_requests_groups, private_steps(self.estimator, row_wise))):
            raise ValueError(
                f"{self.estimator!r} requests groups, and no refitted model says whether it was "
                "given any: pass groups, the id of each row's person"
            )
        return "person" if grouped else "record"

    def shape(self, n_samples, n_features):
        """Return the numbers of records and columns, as given unless the search knows them."""
        return n_samples, n_features

    def cross_validator(self, cv):
        """Return the cross-validator that made the splits."""
        return 5 if cv is None else cv

    def shares(self, n_samples):
        """Return the part of a split's records that each candidate is trained on."""
        return [1.0] * len(self.candidates)

    def refit(self, cost):
        """Return what a refit costs, if there is one."""
        return []


class _Planned(_CrossValidated):
    """Cost of the fits of a grid search that is not fitted."""

    def __init__(self, search):
        self.estimator, self.candidates = search.estimator, list(ParameterGrid(search.param_grid))
        if not self.candidates:
            raise ValueError(f"param_grid={search.param_grid!r} has no candidates")
        self._search, self.stratified = search, stratifies(search.cv)

    def cross_validator(self, cv):
        if cv is not None:
            raise ValueError(_KNOWS)
        return super().cross_validator(self._search.cv)

    def refit(self, cost):
        indices = range(len(self.candidates) if self._search.refit else 0)
        # the best, whichever that will be
        return [largest([cost(index) for index in indices])] if indices else []


class _Searched(_CrossValidated):
    """Cost of the fits of a fitted search."""

    def __init__(self, search, row_wise):
        self.estimator, self.candidates = search.estimator, search.cv_results_["params"]
        self._row_wise = row_wise
        self._search, self.stratified, self.n_splits = (
            search,
            stratifies(search.cv),
            search.n_splits_,
        )
        best = getattr(search, "best_estimator_", None)
        self._refitted = [] if best is None else private_steps(best, row_wise)

    def unit(self, grouped, row_wise):
        if not self._refitted:
            return super().unit(grouped, row_wise)
        guarantees = [step.privacy_ for step in self._refitted]
        check_alike(*guarantees)
        unit = guarantees[0].unit
        if grouped and unit == "record":
            raise ValueError(
                "groups: the refitted model was not given them, and protects rows. Search with "
                "enable_metadata_routing and set_fit_request(groups=True) on each private step"
            )
        if unit != "record" and getattr(self._search, "resource", None) == "n_samples":
            raise ValueError(
                "resource='n_samples' draws rows, so that how many persons train is private: take "
                "another resource"
            )
        return unit

    def shape(self, n_samples, n_features):
        if not self._refitted:
            return n_samples, n_features
        model = self._refitted[-1]
        n_samples = model.n_samples_ if n_samples is None else n_samples
        n_features = model.n_features_in_ if n_features is None else n_features
        if (n_samples, n_features) != (model.n_samples_, model.n_features_in_):
            raise ValueError(
                f"n_samples={n_samples!r}, n_features={n_features!r}: the refitted model saw "
                f"{model.n_samples_} records of "
                f"{model.n_features_in_} columns"
            )
        return n_samples, n_features

    def cross_validator(self, cv):
        if cv is not None and (
            not isinstance(cv, (list, tuple)) or knows_its_splits(self._search.cv)
        ):
            raise ValueError(_KNOWS)
        return super().cross_validator(self._search.cv if cv is None else cv)

    def shares(self, n_samples):
        if getattr(self._search, "resource", None) != "n_samples":
            return super().shares(n_samples)
        return [resources / n_samples for resources in self._search.cv_results_["n_resources"]]

    def refit(self, cost):
        if not self._refitted:
            return []
        planned = private_steps(
            with_parameters(self.estimator, self.candidates[self._search.best_index_]),
            self._row_wise,
        )
        shapes = [(step.n_samples_, step.n_features_in_) for step in self._refitted]
        costs = [step.privacy_cost(*shape) for step, shape in zip(planned, shapes, strict=True)]
        if costs != [step.privacy_.with_unit("record") for step in self._refitted]:
            raise ValueError(
                "the search's estimator was changed after the fit: what its fits have cost is "
                "not known any more"
            )
        return [composed(costs)]


def _requests_groups(step):
    """Return whether a step asks scikit-learn's metadata routing for groups."""
    return step.get_metadata_routing().fit.requests.get("groups") not in (None, False)


_KNOWS = (
    "cv: a search knows its own. Only where that depends on groups or the like, the list of its "
    "splits can be passed once it is "
    "fitted; before, set the search's cv to that list"
)
