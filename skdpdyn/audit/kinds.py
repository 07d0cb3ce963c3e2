"""The one call of audits, of either kind."""

import warnings
from typing import Any

from sklearn.base import clone

from skdpdyn.audit.one_fit import one_fit
from skdpdyn.audit.replay import replay
from skdpdyn.audit.results import Audit
from skdpdyn.exceptions import PrivacyLeakWarning, PrivacyWeakWarning
from skdpdyn.privacy.arguments import has_own
from skdpdyn.privacy.checks import checked_choice

__all__ = ["audit"]

_N_GAMES = 30_000  # records of one fit
_N_TABLES = 4  # data sets of a replay


def audit(
    estimator: Any,
    shape: tuple[int, int] | int | None = None,
    *,
    kind: str = "replay",
    n_trials: int | None = None,
    n_fits: int | None = None,
    persons: bool = False,
    confidence: float = 0.999,
) -> Audit:
    """Audit the configuration of a model, fitted or not, on simulated data.

    A replay replaces a function of this package while it runs: do not fit anything else in the same
    process at that time.

    Parameters
    ----------
    estimator : estimator
        An estimator or a scaler, of skdpdyn or of your own. Its parameters are audited, but nothing
        that a fit learnt.
    shape : (int, int), int or None, default=None
        "replay": number of records and of columns; None: those of the fit. "one_fit": number of
        records, or persons, each with a column of its own; None: 30,000.
    kind : {"replay", "one_fit"}, default="replay"
        "replay" repeats a fit on neighbouring data sets, with its released values held fixed. It
        compares how far each statistic moves, in units of its noise, with the limit that follows
        from the record of the fit. "one_fit" is a black-box attack on linear models: it guesses the
        label of each record, or with "add_remove" its presence, from the coefficients.
    n_trials : int or None, default=None
        "replay": number of data sets, each with its neighbours; None: 4.
    n_fits : int or None, default=None
        "one_fit": number of fits. None: the smallest number for which the lower limit is, on
        average, four fifths of the claim if a fit leaks as much as it claims. It is computed before
        the first fit, from the number of records and the claim.
    persons : bool, default=False
        "one_fit": whether the unit is a person with one to three rows.
    confidence : float, default=0.999
        Least probability that a true claim passes. It applies to "one_fit", and in a replay to the
        check of the noise.

    Returns
    -------
    Audit
        Print it, ask ``passed``, or ``plot()`` it.

    Raises
    ------
    ValueError
        If a parameter is invalid.
    UnsupportedMechanismError
        If "replay" does not support the mechanism, such as objective perturbation, or "one_fit"
        does not support the estimator, such as an additive model.

    Examples
    --------
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.audit import audit
    >>> found = audit(PrivateLogisticRegression(1.0, 1e-2, classes=[0, 1]), (50, 3))
    >>> found.passed, found.epsilon
    (True, 1.0)
    """
    checked_choice(kind, "kind", ("replay", "one_fit"))
    if not has_own(estimator, "privacy_cost"):
        raise ValueError(f"a {type(estimator).__name__} has no privacy_cost: pass an estimator")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # made-up data
        warnings.simplefilter("ignore", PrivacyWeakWarning)
        if kind == "one_fit":
            n_games = _N_GAMES if shape is None else shape
            if not isinstance(n_games, int):
                raise ValueError("shape must be one number for one_fit: records are columns too")
            return one_fit(clone(estimator), n_games, n_fits, persons, confidence)
        if shape is None:
            if not hasattr(estimator, "n_samples_"):
                raise ValueError("shape=None is for fitted models: give (n_samples, n_features)")
            shape = estimator.n_samples_, estimator.n_features_in_
        if isinstance(shape, int):
            raise ValueError("shape must be (n_samples, n_features) for a replay")
        n_tables = _N_TABLES if n_trials is None else n_trials
        return replay(clone(estimator), shape, n_tables, confidence)
