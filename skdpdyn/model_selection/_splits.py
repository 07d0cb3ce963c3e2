"""How many records are held out, and how many train in each split of a cross-validation."""

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import (
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
from skdpdyn.privacy.checks import as_float, quoted


@dataclass(frozen=True)
class HeldOut:
    """The records that a search scores by: some of all, by position or drawn, or all of them."""

    n_samples: int
    number: int
    positions: Any = None  # None: drawn

    @classmethod
    def of(cls, holdout, test_size, n_samples):
        """Return the records that parameters of a search hold out."""
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
        positions = (
            generator.permutation(self.n_samples)[: self.number] if drawn else self.positions
        )
        is_held = np.zeros(self.n_samples, dtype=bool)
        is_held[positions] = True
        return np.flatnonzero(is_held), np.flatnonzero(~is_held)


def _positions(holdout, n_samples):
    """Return the positions of held-out records, checked."""
    positions = np.asarray(holdout)
    if positions.dtype == bool and positions.shape == (n_samples,):
        positions = np.flatnonzero(positions)
    if (
        positions.ndim != 1
        or positions.dtype.kind not in "iu"
        or np.unique(positions).size != positions.size
        or not positions.size
    ):
        raise ValueError(
            f"holdout={quoted(holdout)} must be different positions, or a mask of {n_samples} "
            "records"
        )
    if positions.min() < 0 or positions.max() >= n_samples or positions.size >= n_samples:
        raise ValueError(
            f"holdout={quoted(holdout)} must be positions below n_samples={n_samples}, and not "
            "all of them"
        )
    return positions


def _number(test_size, n_samples):
    """Return the number of held-out records, checked."""
    is_count = isinstance(test_size, Integral) and not isinstance(test_size, bool)
    if not (is_count or 0 < as_float(test_size) < 1):
        raise ValueError(f"test_size={quoted(test_size)} must be in (0, 1), or a number of records")
    number = int(test_size) if is_count else math.ceil(test_size * n_samples)
    if not 1 <= number < n_samples:
        raise ValueError(
            f"test_size={quoted(test_size)} of n_samples={n_samples} must leave records on "
            "both sides"
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
    by_number = [KFold, RepeatedKFold, LeaveOneOut, PredefinedSplit, ShuffleSplit, TimeSeriesSplit]
    by_number += [StratifiedKFold, RepeatedStratifiedKFold, StratifiedShuffleSplit]
    return type(cv) in by_number


def record_splits(cv, n_samples, classifier):
    """Return whether splits are stratified, and the number of records that train in each."""
    if not knows_its_splits(cv):
        raise ValueError(
            f"cv={quoted(cv)}: how many train in a split is not known. Pass cv as a list of "
            "(train, test) pairs; to search by person, use PrivateSearchCV"
        )
    rows = np.zeros((n_samples, 1))
    labels = np.zeros(n_samples, dtype=int)
    cv = check_cv(cv, labels, classifier=classifier)
    # stratified splits have these sizes whatever the labels are: those of one class, of which
    # there are enough for any number of folds
    return stratifies(cv), _sizes(cv.split(rows, labels), cv, n_samples)


def _sizes(pairs, cv, n_samples):
    """Return how many records train in each split: each once, or not at all."""
    sizes = []
    try:
        for train, _ in pairs:
            trained = np.bincount(np.arange(n_samples)[train], minlength=n_samples)
            if np.any(trained > 1):
                break
            sizes.append(np.count_nonzero(trained))
        else:
            if sizes:
                return sizes
            raise ValueError("it makes none")
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"cv={quoted(cv)} does not split {n_samples} records into pairs (train, test) of "
            f"indices: {error}"
        ) from None
    raise UnsupportedMechanismError(
        f"cv={quoted(cv)} trains on a record more than once in a split: copies count as "
        "several records"
    )
