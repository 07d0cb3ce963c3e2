"""Searches of scikit-learn: which objects are one, and all that each has fitted."""

from numbers import Integral

from sklearn.base import BaseEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    ParameterGrid,
    RandomizedSearchCV,
)
from sklearn.pipeline import Pipeline

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.model_selection._splits import knows_its_splits
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy.arguments import has_own
from skdpdyn.privacy.checks import quoted

_COUNTED = GridSearchCV, RandomizedSearchCV  # one fit for each candidate and split, and the refit


def is_search(item):
    """Return whether it is a search of scikit-learn, or made like one."""
    parts = "estimator", "cv", "refit", "scoring", "error_score"
    return isinstance(item, BaseEstimator) and all(has_own(item, part) for part in parts)


def is_fitted_search(item):
    """Return whether it is a fitted search with the candidates that it tried."""
    return is_search(item) and "params" in (getattr(item, "cv_results_", None) or ())


def candidates_of(search):
    """Return the parameters of each candidate of a search, if all that it fits is known."""
    if type(search) not in _COUNTED:  # a subclass may fit more, or on parts of the splits
        raise ValueError(
            f"{quoted(search)}: how many fits it makes, and of how many records each, is not "
            "known. Only those of a GridSearchCV and of a RandomizedSearchCV are"
        )
    if is_fitted_search(search):
        return search.cv_results_["params"]
    if type(search) is not GridSearchCV:
        raise ValueError(
            f"{quoted(search)}: its candidates are not known, since it is not fitted or its "
            "cv_results_ do not say them. Only those of a GridSearchCV are known before"
        )
    candidates = list(ParameterGrid(search.param_grid))
    if not candidates:
        raise ValueError(f"param_grid={quoted(search.param_grid)} has no candidates")
    return candidates


def splits_of(search, cv):
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


def shape_of(refitted, n_samples, n_features):
    """Return the numbers of records and columns, as given unless a refitted model says them."""
    if refitted:
        model = refitted[-1]
        n_samples = model.n_samples_ if n_samples is None else n_samples
        n_features = model.n_features_in_ if n_features is None else n_features
        if (n_samples, n_features) != (model.n_samples_, model.n_features_in_):
            raise ValueError(
                f"n_samples={n_samples!r}, n_features={n_features!r}: the refitted model saw "
                f"{model.n_samples_} records of {model.n_features_in_} columns"
            )
    for name, value in (("n_samples", n_samples), ("n_features", n_features)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(
                f"{name}={value!r} must be given, an integer >= 1: no refitted model says it"
            )
    return int(n_samples), int(n_features)


def check_unit(steps, refitted):
    """Refuse fits that protect persons: splits of rows know nothing of them."""
    units = {step.privacy_.unit for step in refitted} or {"record"}
    if units != {"record"} or (not refitted and any(map(_requests_groups, steps))):
        raise UnsupportedMechanismError(
            "fits by person: a search of scikit-learn splits rows, and balances by how many a "
            "person has. Use PrivateSearchCV, whose fit takes groups"
        )


def keeps_columns(estimator, candidate):
    """Return whether a candidate changes private steps alone, so that these see as many columns."""
    if type(estimator) is FixedThresholdClassifier:
        inside = [name.removeprefix("estimator__") for name in candidate]
        return keeps_columns(
            estimator.estimator, dict(zip(inside, candidate.values(), strict=True))
        )
    if not isinstance(estimator, Pipeline):
        return True
    *before, (last_name, last) = estimator.steps
    scalers = {name for name, step in before if isinstance(step, PrivateScaler)}
    of_last = {}
    for name, value in candidate.items():
        step, _, rest = name.partition("__")
        if not rest or step not in {*scalers, last_name}:
            return False
        if step == last_name:
            of_last[rest] = value
    return keeps_columns(last, of_last)


def _requests_groups(step):
    """Return whether a step asks scikit-learn's metadata routing for groups."""
    return step.get_metadata_routing().fit.requests.get("groups") not in (None, False)
