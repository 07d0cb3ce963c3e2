"""Targets as losses take them: labels and numbers, refused without being quoted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpdyn.base import quoting_no_records, refuse_unreadable
from skdpdyn.diagnostics import ROUNDING
from skdpdyn.losses import Loss

NO_EXPOSURES = "exposure must hold one finite number > 0 for each row of X"
_LARGEST_EXPOSURE = 1e30  # larger ones count as that, those below its reciprocal as that


@dataclass
class Target:
    """Targets for the loss, the fitted attributes that describe them, and what is not private.

    ``exposure`` is that of `skdpdyn.data.local.LocalRows`. Where targets are read with the rows,
    ``values`` is None and ``encode`` makes them of some targets. ``flags`` says of targets which
    ones public bounds clip, and ``clipped`` what it says of all; None where nothing is clipped.
    """

    values: np.ndarray | None
    loss: Loss
    attributes: dict[str, Any]
    leaks: tuple[str, ...] = ()
    exposure: np.ndarray | None = None
    encode: Callable[[np.ndarray], np.ndarray] | None = None
    flags: Callable[[np.ndarray], np.ndarray] | None = None
    clipped: np.ndarray | None = None

    def forget_numbers(self) -> None:
        """Free the memory of all that is kept for each row."""
        self.values = self.exposure = self.clipped = None


def as_labels(y: Any, classes: Any) -> Any:
    """Return labels as objects if there are ``classes``; raise if strings and others are mixed.

    numpy would take all of them for strings, or for floats, which large integers share, as soon as
    one is one.
    """
    if not isinstance(y, (list, tuple)):
        return y
    if classes is not None:
        return np.array(y, dtype=object)
    if len({isinstance(label, str) for label in y}) > 1:
        raise ValueError("y holds strings and other labels: pass labels of one kind")
    return y


def are_labels(labels: np.ndarray, given: Any = None) -> bool:
    """Return whether labels can be classes: finite numbers only, or strings only.

    ``given`` is what they were made of, where numpy may have made strings of numbers.
    """
    given = np.asarray(labels if given is None else given, dtype=object)
    kinds = {isinstance(one, str) for one in given.ravel()}
    nameless = labels.dtype.kind == "f" and not np.all(np.isfinite(labels))
    return labels.ndim == len(kinds) == 1 and labels.dtype.kind in "biufUO" and not nameless


def are_bounds(low: float, high: float) -> bool:
    """Return whether targets between two numbers can be computed with."""
    return -1e150 < low < high < 1e150 and high - low > 1e-150


def numbers_of(y: Any) -> Any:
    """Return the targets of a regression as float64, or raise an error that says what they are."""
    if y.dtype.kind not in "biuf":
        raise ValueError("y holds no numbers: regression needs a target of numbers")
    y = y.astype(np.float64)
    if not np.all(np.isfinite(y)):  # None in a column of objects, for one
        raise ValueError(
            "Input y contains NaN or infinity: give records without a target a public value. "
            "(Dropping them makes the number "
            "of the others, which counts as public, depend on the records)"
        )
    return y


def numbers_within(y: Any, bounds: Any, units: Any) -> Any:
    """Return targets clipped to their bounds and mapped to [-1, 1] by (centre, half_range)."""
    centre, half_range = units
    # bounds as close as their rounding
    return np.clip((np.clip(numbers_of(y), *bounds) - centre) / half_range, -1, 1)


def outside(y: Any, bounds: Any) -> Any:
    """Return 1 where a target is outside of its bounds by more than rounding, else 0.

    Targets that are counts may have exposures beside them.
    """
    low, high = bounds
    room, y = ROUNDING * (high - low), numbers_of(y if y.ndim == 1 else y[:, 0])
    return ((y < low - room) | (y > high + room)).astype(np.float64)


def numbers_of_labels(y: Any, classes: Any) -> Any:
    """Return the position of each label in the sorted classes, as losses take it."""
    return codes_of(y, classes).astype(np.float64)


def codes_of(y: Any, classes: Any) -> Any:
    """Return the position of each label in the sorted classes; raise if one is absent."""
    try:
        codes = _codes(y, classes)
    except Exception:  # a label that is no hashable value, or cannot be compared
        codes = np.array([-1])
    # the message does not depend on y: which labels occur is private too
    if np.any(codes < 0):
        labels = classes.tolist()
        kind = "strings" if isinstance(labels[0], str) else "numbers"
        remedy = (
            f"In them, paste: classes=range({classes.size})"
            if labels != list(range(classes.size))
            else "Some hand on labels as they are too: number them before, by "
            "y = np.searchsorted(labels, y)"
        )
        raise ValueError(
            f"y holds labels that are not in classes={labels!r}, which are {kind}: pass every "
            "label "
            "that can occur. Meta-estimators such as VotingClassifier, and "
            "cross_val_predict(method='predict_proba'), replace labels by their numbers. "
            f"{remedy}"
        )
    return codes


def _codes(y, classes):
    """Return the index of each label in ``classes``, -1 if it is absent."""
    kinds = {y.dtype.kind, classes.dtype.kind}
    if kinds <= set("biuf") and kinds != set("iu"):  # numpy compares these as floating point
        if classes.size == 2:  # in a fifth of the time, and of the memory
            second = y == classes[1]
            return np.where(second | (y == classes[0]), second, -1)
        codes = np.minimum(np.searchsorted(classes, y), classes.size - 1)
        return np.where(classes[codes] == y, codes, -1)
    positions = {label: code for code, label in enumerate(classes.tolist())}
    return np.array([positions.get(label, -1) for label in y.tolist()])


def exposures(exposure: Any, y: Any) -> np.ndarray:
    """Return one exposure for each of the targets, or raise an error that quotes none."""
    if exposure is None:
        return np.ones(len(y))
    refuse_unreadable(exposure)
    exposure = quoting_no_records(np.array, exposure, dtype=np.float64)
    if exposure.shape != np.shape(y) or not np.all((exposure > 0) & np.isfinite(exposure)):
        raise ValueError(NO_EXPOSURES)
    return np.clip(exposure, 1 / _LARGEST_EXPOSURE, _LARGEST_EXPOSURE)


def rates_of(counts: Any, exposure: Any, bounds: Any, units: Any) -> tuple[Any, Any]:
    """Return rates and exposures as the loss takes them; None where counts are not known."""
    if counts is None:
        return None, None
    of_counts, of_exposures = units
    exposure = exposures(exposure, counts) / of_exposures
    return np.clip(np.maximum(counts, 0.0), *bounds) / of_counts / exposure, exposure


def rates_beside_exposures(y: Any, bounds: Any, units: Any) -> np.ndarray:
    """Return `rates_of` counts, or of counts beside exposures, as two columns."""
    y = numbers_of(y)
    counts, exposure = y.T if y.ndim == 2 else (y, None)
    return np.column_stack(rates_of(counts, exposure, bounds, units))
