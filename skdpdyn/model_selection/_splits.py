"""Who trains in which split of a cross-validation, as far as public numbers say it."""

from numbers import Integral

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    check_cv,
)

from skdpdyn.exceptions import UnsupportedMechanismError


def stratifies(cv):
    """Return whether a cross-validator looks at labels to choose the splits."""
    return isinstance(
        cv, (StratifiedKFold, RepeatedStratifiedKFold, StratifiedShuffleSplit, StratifiedGroupKFold)
    )


def knows_its_splits(cv):
    """Return whether the splits follow from the number of records alone."""
    if cv is None or isinstance(cv, (Integral, list, tuple, np.ndarray)):
        # a number of folds, or a list of pairs; other iterables may change each time
        return True
    known = [KFold, RepeatedKFold, LeaveOneOut, PredefinedSplit, ShuffleSplit, TimeSeriesSplit]
    known += [StratifiedKFold, RepeatedStratifiedKFold, StratifiedShuffleSplit]
    return type(cv) in known


def training_sets(cv, n_samples, classifier):
    """Return whether splits are stratified, and each training set's size and members."""
    if not knows_its_splits(cv):
        raise ValueError(
            f"cv={cv!r}: who trains in which split is not known. Pass cv as a list of (train, "
            "test) pairs; to split by person, give groups to the fits too, by metadata routing"
        )
    # labels with which check_cv makes its usual choice to stratify
    labels = np.arange(n_samples) % 2 if classifier else None
    cv = check_cv(cv, labels, classifier=classifier)
    stratified = stratifies(cv)
    # Stratified splits have the sizes of those that are not
    if type(cv) is StratifiedKFold:
        cv = KFold(cv.n_splits)
    elif type(cv) is RepeatedStratifiedKFold:
        cv = RepeatedKFold(**cv.cvargs, n_repeats=cv.n_repeats)
    elif type(cv) is StratifiedShuffleSplit:
        cv = ShuffleSplit(cv.n_splits, test_size=cv.test_size, train_size=cv.train_size)
    rows = np.zeros((n_samples, 1))
    if type(cv) is RepeatedKFold and not isinstance(cv.random_state, Integral):
        # someone may always have been left out of the cheapest fit
        pairs = list(KFold(**cv.cvargs).split(rows)) * cv.n_repeats
    else:
        pairs = cv.split(rows)
    splits = []
    for times in _times_trained_on(pairs, cv, n_samples):
        if times.max(initial=0) > 1:
            raise ValueError(
                f"cv={cv!r} trains on a record more than once in a split: copies count as "
                "several records"
            )
        who = times > 0
        # Random splits are drawn anew: anyone may be in all of them. Folds hold everyone once,
        # however they are drawn
        splits.append(
            (int(np.count_nonzero(who)), np.ones_like(who) if type(cv) is ShuffleSplit else who)
        )
    if not splits:
        raise ValueError(f"cv={cv!r} makes no splits: pass a list of (train, test) pairs")
    return stratified, splits


def training_persons(cv, n_persons, codes):
    """Return each training set's size and members, where fits and splits are by person.

    Splits must be drawn over the list of persons, in which each is one entry: how many rows a
    person has is private, and must move no other. ``codes`` is the number of each row's person,
    or None where it is not known.
    """
    drawn = type(cv) is GroupShuffleSplit
    if drawn or (type(cv) is GroupKFold and cv.shuffle):
        rows = np.zeros((n_persons, 1))
        pairs = cv.split(rows, groups=np.arange(n_persons))
        trains = [np.bincount(train, minlength=n_persons) for train, _ in pairs]
    elif type(cv) in (PredefinedSplit, list, tuple):
        if codes is None:
            raise UnsupportedMechanismError(
                f"a {type(cv).__name__} of rows does not say which persons train in which split: "
                "pass search_privacy(search, groups=...), the id of each row's person"
            )
        pairs = list(cv.split() if type(cv) is PredefinedSplit else cv)
        rows_of = np.bincount(codes, minlength=n_persons)
        trains = []
        for times in _times_trained_on(pairs, cv, codes.size):
            trains.append(np.bincount(codes, weights=times, minlength=n_persons))
            if np.any((trains[-1] > 0) & (trains[-1] != rows_of)):
                raise UnsupportedMechanismError(
                    f"a {type(cv).__name__} splits the rows of a person: all of them must train, "
                    "or none"
                )
    else:
        raise UnsupportedMechanismError(
            f"cv={cv!r} does not draw splits over the list of persons: it splits or balances by "
            "rows or labels, which are private, and a person may train in all splits. Use "
            "GroupKFold(shuffle=True) or GroupShuffleSplit"
        )
    who = [times > 0 for times in trains]
    # drawn anew, anyone may be in all splits; folds hold everyone once
    return [(int(inside.sum()), np.ones_like(inside) if drawn else inside) for inside in who]


def _times_trained_on(pairs, cv, n_samples):
    """Return, for each split, how many times each record is trained on."""
    try:
        for train, _ in pairs:
            yield np.bincount(np.arange(n_samples)[train], minlength=n_samples)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"cv={cv!r} does not split {n_samples} records into pairs (train, test) of indices: "
            f"{error}"
        ) from None
