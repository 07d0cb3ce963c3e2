"""Who trains in which split of a cross-validation, as far as public numbers say it."""

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

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
from skdpdyn.privacy.checks import as_float


@dataclass(frozen=True)
class HeldOut:
    """The records that a search scores by: some of all, by position or drawn, or all of them."""

    n_samples: int
    number: int
    positions: Any = None  # None: drawn

    @classmethod
    def of(cls, holdout, test_size, n_samples):
        """Return what parameters of a search say."""
        if holdout is not None:
            positions = _positions(holdout, n_samples)
            return cls(n_samples, positions.size, positions)
        return cls(n_samples, n_samples if test_size is None else _number(test_size, n_samples))

    @property
    def shared(self):
        """Whether the same records train and score."""
        return self.number == self.n_samples

    @property
    def n_trained(self):
        """Number of records that train."""
        return self.n_samples if self.shared else self.n_samples - self.number

    def split(self, generator):
        """Return the positions of held-out and of training records."""
        if self.shared:
            return np.arange(self.n_samples), np.arange(self.n_samples)
        drawn = self.positions is None
        held = generator.permutation(self.n_samples)[: self.number] if drawn else self.positions
        is_held = np.zeros(self.n_samples, dtype=bool)
        is_held[held] = True
        return np.flatnonzero(is_held), np.flatnonzero(~is_held)


def _positions(holdout, n_samples):
    """Return the positions of held-out records, checked."""
    held = np.asarray(holdout)
    if held.dtype == bool and held.shape == (n_samples,):
        held = np.flatnonzero(held)
    if (
        held.ndim != 1
        or held.dtype.kind not in "iu"
        or np.unique(held).size != held.size
        or not held.size
    ):
        raise ValueError(
            f"holdout={holdout!r} must be different positions, or a mask of {n_samples} records"
        )
    if held.min() < 0 or held.max() >= n_samples or held.size >= n_samples:
        raise ValueError(
            f"holdout={holdout!r} must be positions below n_samples={n_samples}, and not all of "
            "them"
        )
    return held


def _number(test_size, n_samples):
    """Return the number of held-out records, checked."""
    whole = isinstance(test_size, Integral) and not isinstance(test_size, bool)
    if not (whole or 0 < as_float(test_size) < 1):
        raise ValueError(f"test_size={test_size!r} must be in (0, 1), or a number of records")
    number = int(test_size) if whole else math.ceil(test_size * n_samples)
    if not 1 <= number < n_samples:
        raise ValueError(
            f"test_size={test_size!r} of n_samples={n_samples} must leave records on both sides"
        )
    return number


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
