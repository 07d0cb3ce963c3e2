"""Targets as losses take them: labels and numbers, refused without being quoted."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from skdpdyn.core.columns import FLAG, NUMBER, kind_of, numbers_in, spans_in
from skdpdyn.exceptions import PrivacyLeakWarning, warn
from skdpdyn.privacy.arguments import checked_pair
from skdpdyn.privacy.checks import checked_number, is_auto, is_named, quoted
from skdpdyn.training.base import FILL_TARGETS, quoting_no_records, refuse_unreadable

FROM_Y = "from_y"
LARGEST = 1e150
N_CELLS = 258
"""Number of cells that labels are counted in: -1, 0, 1, ..., 255, and all others."""
NO_EXPOSURES = "exposure must hold one finite number > 0 for each row of X"
_LARGEST_EXPOSURE = 1e30  # larger ones count as that, those below its reciprocal as that


@dataclass(frozen=True, eq=False)
class Target:
    """Targets as the loss takes them, and the fitted attributes that describe them.

    ``exposure`` is that of `skdpdyn.data.local.LocalRows`. Where targets are read with the rows,
    ``values`` is None and ``encode`` makes them of some targets. ``class_weights`` are public
    weights of classes, the largest 1; ``largest`` is the largest rate of an exposure of 1.

    ``values`` of labels are cells of a public list, of which the last is of all others, and
    ``codes`` the class of each cell, -1 of those that are no class.
    """

    values: np.ndarray | None
    attributes: dict[str, Any]
    encode: Callable[[np.ndarray], np.ndarray]
    exposure: np.ndarray | float | None = None
    class_weights: np.ndarray | None = None
    largest: float = math.inf
    codes: np.ndarray | None = None


class Targets(ABC):
    """How a `Family` reads targets, and the units of its results."""

    takes_exposure = False
    clips = False  # whether public bounds clip targets
    most: float = math.inf  # most classes that can be told apart
    parameter = ""  # of estimators, which says what is public of targets
    placeholder: Any = None  # for what is public, in plans before it is bought

    @abstractmethod
    def public(self, model: Any, of_y: str = "") -> Any:
        """Return the public facts of targets, checked, by the parameters, a start and y's kind.

        None: there are none.
        """

    def may_buy(self, model: Any, of_y: str) -> bool:
        """Return whether facts that are not public can be bought of targets of such a kind."""
        return is_auto(getattr(model, self.parameter, None))

    def read(self, y: np.ndarray) -> np.ndarray:
        """Return targets that can be used, or raise an error that quotes none."""
        return y

    @abstractmethod
    def from_y(self, model: Any, y: np.ndarray | None) -> tuple[Any, tuple[str, ...]]:
        """Return facts that are taken from y, with a warning, and the leaks by them."""

    @abstractmethod
    def encoded(self, model: Any, y: np.ndarray | None, exposure: Any, facts: Any) -> Target:
        """Return the targets as the loss takes them, or raise an error that quotes none.

        ``y`` is None where targets are read with the rows. ``facts`` is a
        `skdpdyn.training.values.Facts`.
        """

    @abstractmethod
    def published(
        self, attributes: dict[str, Any], coef: np.ndarray, intercept: np.ndarray, centred: bool
    ) -> dict[str, Any]:
        """Return ``coef_`` and ``intercept_`` in units of y, of parameters an output a row."""


@dataclass(frozen=True)
class Labels(Targets):
    """Labels of classes: public, or taken from y with a warning.

    Parameters
    ----------
    most : float, default=inf
        Largest number of classes that the loss can tell apart.

    Examples
    --------
    >>> from skdpdyn import PrivateLinearSVC
    >>> from skdpdyn.linear_model import Labels
    >>> Labels(most=2).public(PrivateLinearSVC(classes=[3, 1])).tolist()
    [1, 3]
    """

    most: float = math.inf
    parameter = "classes"
    placeholder = np.array([0, 1])

    def public(self, model, of_y=""):
        """See `Targets.public`: the sorted classes."""
        stated = given_or_lent(model, "classes")
        if stated is None and model.classes is not None:
            return np.array([False, True]) if of_y == "b" else None
        labels = np.asarray(stated)
        if not are_labels(labels, stated):
            raise ValueError(
                f"classes={quoted(stated)} must be an array-like of labels, at least two, all "
                "finite numbers or all strings; or 'auto' or 'from_y'"
            )
        try:
            classes = np.unique(labels)
        except TypeError:
            raise ValueError(
                f"classes={quoted(stated)} must be labels that can be sorted"
            ) from None
        self._check(classes, classes)
        return classes

    def may_buy(self, model, of_y):
        """See `Targets.may_buy`: of numbers."""
        return super().may_buy(model, of_y) and of_y in ("", *"iuf")

    def from_y(self, model, y):
        """See `Targets.from_y`: the labels that occur."""
        if y is None:
            raise ValueError(
                f"classes={quoted(model.classes)}: labels are not looked for in rows that are read "
                "in order, unless they are bought. Pass classes=[...]"
            )
        classes = self._classes_from_y(y)
        bought = ". (Labels that are whole numbers are bought, if records are enough)"
        warn(
            f"classes={quoted(model.classes)}: the labels were taken from y, so which labels occur "
            "is released without noise. Pass classes=[...], or flags, which are False and True"
            f"{bought * (model.classes == 'auto')}",
            PrivacyLeakWarning,
        )
        return classes, ("classes were taken from y",)

    def encoded(self, model, y, exposure, facts):
        """See `Targets.encoded`: the cells of labels are the classes, and that of all others."""
        classes = facts.target
        encode = partial(cells_of_classes, classes=classes)
        return Target(
            None if y is None else encode(y),
            {"classes_": classes},
            encode,
            codes=np.append(np.arange(classes.size), -1),
            class_weights=_class_weights(model.class_weight, classes, listed(model.classes)),
        )

    def _classes_from_y(self, y):
        """Return the labels that occur; errors quote none."""
        quoting_no_records(check_classification_targets, y)
        classes = quoting_no_records(np.unique, y)
        if not are_labels(classes):
            raise ValueError(
                "classes: y must hold finite numbers only, or strings only. Number the "
                "labels, and pass classes=[...]"
            )
        self._check(classes, y)
        return classes

    def _check(self, classes, target):
        """Refuse a number of classes that the model cannot learn."""
        if classes.size > self.most:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(target, input_name='y')}; use PrivateSoftmaxRegression"
            )
        if classes.size < 2:
            raise ValueError(
                "two classes are needed, and there is only one class: pass classes=[...] with "
                "all labels that can occur, at least two"
            )

    def published(self, attributes, coef, intercept, centred):
        """See `Targets.published`: of several outputs less their mean, which is noise.

        Probabilities do not depend on it. The coefficients of a column then add up to 0.
        """
        if len(coef) > 1:
            coef = coef - coef.mean(axis=0)
            intercept = intercept - intercept.mean()
        return {"coef_": coef, "intercept_": intercept}


class Numbers(Targets):
    """Numbers within public bounds, or those that y has, with a warning; mapped to [-1, 1].

    Examples
    --------
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.linear_model import Numbers
    >>> Numbers().public(PrivateRidge(target_bounds=[-3, 5]))
    (-3.0, 5.0)
    """

    clips = True
    parameter = "target_bounds"
    placeholder = 0.0, 1.0

    def public(self, model, of_y=""):
        """See `Targets.public`: the bounds."""
        bounds = given_or_lent(model, "target_bounds")
        if bounds is None and model.target_bounds is not None:
            return None
        meaning = "'auto', 'from_y' or "
        low, high = checked_pair(bounds, "target_bounds", meaning, largest=LARGEST)
        if not are_bounds(low, high):
            raise ValueError(
                f"target_bounds={quoted(bounds)} are too close to each other: rescale y"
            )
        return low, high

    def read(self, y):
        """See `Targets.read`: as they are, for a copy would stay until training ends."""
        numbers_of(y)
        return y

    def encoded(self, model, y, exposure, facts):
        """See `Targets.encoded`."""
        bounds = facts.target
        encode = partial(numbers_within, bounds=bounds, units=scaling(*bounds, model.fit_intercept))
        return Target(
            None if y is None else encode(y),
            {"target_bounds_": bounds},
            encode,
        )

    def usable(self, low: float, high: float) -> tuple[float, float]:
        """Return bounds that can be computed with, from ends that were bought."""
        low = max(low, -LARGEST / 2)
        high = min(high, LARGEST / 2)
        return (low, high) if are_bounds(low, high) else (low, low + max(1.0, abs(low)))

    def from_y(self, model, y):
        """See `Targets.from_y`: the least and the largest target."""
        shown = f"target_bounds={quoted(model.target_bounds)}"
        if y is None:
            raise ValueError(
                f"{shown}: bounds are not looked for in rows that are read in order, unless they "
                "are bought, which takes more records. Pass target_bounds=(low, high)"
            )
        low = float(np.min(y))
        high = float(np.max(y))
        high = high if high > low else low + max(1.0, abs(low))
        if not are_bounds(low, high):
            raise ValueError(
                "target_bounds: targets of such a size, or so close to each other, cannot be "
                "computed with. Rescale y, or pass target_bounds=(low, high)"
            )
        warn(
            f"{shown}: the bounds were taken from y, so its extremes are released without noise. "
            "Pass target_bounds=(low, high)"
            f"{'. (They are bought, if records are enough)' * (model.target_bounds == 'auto')}",
            PrivacyLeakWarning,
        )
        return (low, high), ("target_bounds were taken from y",)

    def published(self, attributes, coef, intercept, centred):
        """See `Targets.published`."""
        centre, half_range = scaling(*attributes["target_bounds_"], centred)
        coef = coef * coef.dtype.type(half_range)
        intercept = intercept.astype(np.float64) * half_range + centre
        if len(coef) > 1:
            return {"coef_": coef, "intercept_": intercept}
        return {"coef_": coef[0], "intercept_": float(intercept[0])}


class Counts(Numbers):
    """Counts within public bounds, with exposures: rates in units of the bound on residuals."""

    takes_exposure = True

    def public(self, model, of_y=""):
        """See `Targets.public`: the bounds."""
        bounds = super().public(model, of_y)
        if bounds is not None and not bounds[0] >= 0:
            raise ValueError(
                f"target_bounds={quoted(model.target_bounds)} must not begin below 0: counts "
                "are at least 0"
            )
        return bounds

    def usable(self, low, high):
        """See `Numbers.usable`: from 0 on, to a count of 1 at least."""
        return 0.0, min(max(high, 1.0), LARGEST / 2)

    def from_y(self, model, y):
        """See `Targets.from_y`."""
        return super().from_y(model, None if y is None else np.maximum(y, 0.0))

    def encoded(self, model, y, exposure, facts):
        """See `Targets.encoded`."""
        bounds = facts.target
        unit = residual_limit(facts.target[1])
        # with an intercept, a raw prediction of 0 is the rate that is one unit
        units = unit, 1.0 if model.fit_intercept else unit
        y = None if y is None else numbers_of(y)
        rates, exposure = rates_of(y, exposure, bounds, units)
        return Target(
            rates,
            {"target_bounds_": bounds},
            partial(rates_beside_exposures, bounds=bounds, units=units),
            exposure,
            largest=bounds[1] / unit,
        )

    def published(self, attributes, coef, intercept, centred):
        """See `Targets.published`."""
        start = math.log(residual_limit(attributes["target_bounds_"][1])) if centred else 0.0
        return {"coef_": coef[0], "intercept_": float(intercept[0]) + start}


def residual_limit(high):
    """Return the public bound on residuals: the standard deviation of the largest count."""
    return min(high, math.sqrt(high))


def scaling(low, high, centred):
    """Return the centre and half-range that map the target's bounds to [-1, 1]."""
    return ((low + high) / 2, (high - low) / 2) if centred else (0.0, max(abs(low), abs(high)))


def _class_weights(class_weight, classes, public):
    """Return public weights of the classes, the largest 1; None where none are given.

    A label that is no class is refused, but where classes are not ``public``: they were paid for.
    """
    if not isinstance(class_weight, dict):
        return None
    position = {label: code for code, label in enumerate(classes.tolist())}
    weights = np.ones(classes.size)
    for label, weight in class_weight.items():
        if label not in position and public is None:
            continue
        if label not in position:
            raise ValueError(f"class_weight has the label {label!r}, which is not one of classes")
        name = f"class_weight of {label!r}"
        weights[position[label]] = checked_number(
            weight, name, lambda x: 0 <= x < math.inf, "a number >= 0"
        )
    if not weights.max() > 0:
        raise ValueError("class_weight must be above 0 for one class at least")
    return weights / weights.max()


def listed(value: Any) -> Any:
    """Return the facts of targets that a parameter lists; None for "auto" or "from_y"."""
    return None if is_auto(value) or is_named(value, FROM_Y) else value


def given_or_lent(model: Any, parameter: str) -> Any:
    """Return the listed facts of targets, or those that a start lends; None without both."""
    value = getattr(model, parameter)
    lent = getattr(getattr(model, "start", None), f"{parameter}_", None)
    return lent if is_auto(value) else listed(value)


def cells_of_labels(y: Any) -> np.ndarray:
    """Return the cells of labels that are numbers: -1, 0, 1, ..., the last is of all others."""
    if y.dtype.kind not in "biuf":
        raise ValueError("y holds labels that are no numbers: pass classes=[...]")
    if y.dtype.kind == "f" and not np.all(y == np.floor(y)):  # of one record alone
        raise ValueError("Unknown label type: continuous. Labels that are numbers must be whole")
    inside = (y >= -1) & (y <= N_CELLS - 3)
    return np.where(inside, y, N_CELLS - 2).astype(np.float64) + 1


def as_labels(y: Any, classes: Any) -> Any:
    """Return labels as objects if there are ``classes``; raise if strings and others are mixed.

    numpy would take all of them for strings, or for floats, which large integers share, as soon as
    one is one. Arrays and columns that cannot match the classes, by their type, are refused.
    """
    classes = listed(classes)
    y = _of_type(y)
    if not isinstance(y, (list, tuple)):
        if classes is not None and np.size(classes):
            refuse_other_type(y, np.ravel(np.asarray(classes, dtype=object)))
        return y
    if classes is not None:
        return np.array(y, dtype=object)
    if len({isinstance(label, str) for label in y}) > 1:
        raise ValueError("y holds strings and other labels: pass labels of one kind")
    return y


def _of_type(y):
    """Return flags and numbers by the type of another library as numpy's, others as they are."""
    dtype = getattr(y, "dtype", None)
    if dtype is None or isinstance(dtype, np.dtype) or kind_of(dtype) not in (FLAG, NUMBER):
        return y
    array = np.asarray(y)
    if array.dtype.kind in "biuf":
        return array
    numbers = quoting_no_records(numbers_in, y)
    if np.isnan(numbers).any():
        raise ValueError(f"Input y contains NaN. {FILL_TARGETS}")
    return numbers.astype(bool) if kind_of(dtype) == FLAG else numbers


def are_labels(labels: np.ndarray, source: Any = None) -> bool:
    """Return whether labels can be classes: finite numbers only, or strings only.

    ``source`` is what they were made of, where numpy may have made strings of numbers.
    """
    source = np.asarray(labels if source is None else source, dtype=object)
    kinds = {isinstance(label, str) for label in source.ravel()}
    nameless = labels.dtype.kind == "f" and not np.all(np.isfinite(labels))
    return labels.ndim == len(kinds) == 1 and labels.dtype.kind in "biufUO" and not nameless


def are_bounds(low: float, high: float) -> bool:
    """Return whether targets between two numbers can be computed with."""
    return -LARGEST < low < high < LARGEST and high - low > 1e-150


def numbers_of(y: Any) -> Any:
    """Return the targets of a regression as float64, or raise an error that names their kind."""
    if y.dtype.kind not in "biuf":
        raise ValueError("y holds no numbers: regression needs a target of numbers")
    y = y.astype(np.float64, copy=False)
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


def cells_of_classes(y: Any, classes: Any) -> np.ndarray:
    """Return the position of each label in the sorted classes, the one behind them for others."""
    codes = codes_of(y, classes)
    return np.where(codes < 0, classes.size, codes).astype(np.float64)


def codes_of(y: Any, classes: Any) -> np.ndarray:
    """Return the position of each label in the sorted classes, -1 if it is none of them.

    One label decides nothing but its own code. Labels of another type than the classes are refused.
    """
    refuse_other_type(y, classes)
    kinds = {y.dtype.kind, classes.dtype.kind}
    # numpy compares signed with unsigned integers of 64 bits as floating point
    exact = kinds != set("iu") or np.result_type(y, classes).kind != "f"
    if kinds <= set("biuf") and exact:
        if classes.size == 2:  # in a fifth of the time, and of the memory
            second = y == classes[1]
            return np.where(second | (y == classes[0]), second, -1)
        codes = np.minimum(np.searchsorted(classes, y), classes.size - 1)
        return np.where(classes[codes] == y, codes, -1)
    positions = {label: code for code, label in enumerate(classes.tolist())}
    return np.array([_code_of(label, positions) for label in y.tolist()], dtype=np.intp)


def _code_of(label, positions):
    try:
        return positions.get(label, -1)
    except MemoryError:
        raise
    except Exception:  # it is no hashable value, or cannot be compared
        return -1


def refuse_other_type(y: Any, classes: Any) -> None:
    """Raise if labels cannot match the classes, by their type: text for numbers.

    Objects may be anything: what they are is private, as their number is.
    """
    dtype = getattr(y, "dtype", None)
    of_text = isinstance(classes.tolist()[0], str)
    kind = getattr(dtype, "kind", "O")
    is_text = kind == "U" or str(dtype).lower().startswith(("str", "large_string"))
    alike = is_text if of_text else kind in "biuf"
    if alike or (kind == "O" and not is_text):
        return
    labels = classes.tolist()
    remedy = (
        f"In them, paste: classes=range({classes.size})"
        if labels != list(range(classes.size))
        else "Some hand on labels as they are too: number them before, by "
        "y = np.searchsorted(labels, y)"
    )
    raise ValueError(
        f"y holds labels that are not in classes={quoted(labels)}, which are "
        f"{'strings' if of_text else 'numbers'}: its type is another one. Meta-estimators such as "
        "VotingClassifier, and cross_val_predict(method='predict_proba'), replace labels by their "
        f"numbers. {remedy}"
    )


def exposures(exposure: Any, y: Any) -> np.ndarray:
    """Return one exposure for each of the targets, or raise an error that quotes none."""
    if exposure is None:
        return np.ones(len(y))
    refuse_unreadable(exposure)
    exposure = quoting_no_records(spans_in, exposure)
    if exposure.shape != np.shape(y) or not np.all((exposure > 0) & np.isfinite(exposure)):
        raise ValueError(NO_EXPOSURES)
    return np.clip(exposure, 1 / _LARGEST_EXPOSURE, _LARGEST_EXPOSURE)


def most_pinball(quantile: float, low: float, high: float) -> float:
    """Return the largest pinball loss of numbers within bounds."""
    return max(quantile, 1 - quantile) * (high - low)


def pinball_losses(
    predicted: np.ndarray, y: np.ndarray, quantile: float, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pinball loss of each row within bounds, and whether its target is covered."""
    targets = np.clip(numbers_of(y), low, high)
    predicted = np.where(predicted >= low, np.minimum(predicted, high), low)  # no NaN
    losses = np.maximum(quantile * (targets - predicted), (1 - quantile) * (predicted - targets))
    return losses, 1.0 * (targets <= predicted)


def refuse_lacking(exposure: Any, model: Any) -> None:
    """Raise if counts lack exposures, and the model that they are scored by was fitted with some.

    Its predictions are rates, and a count is none unless all exposures are 1.
    """
    if exposure is None and getattr(model, "has_exposure_", False):
        raise ValueError(
            f"exposure=None: the {type(model).__name__} was fitted with exposures, and predicts "
            "rates. Pass exposure=, one number for each row; to score rates, an exposure of 1 for "
            "each: numpy.ones(len(y))"
        )


def rates_of(counts: Any, exposure: Any, bounds: Any, units: Any) -> tuple[Any, Any]:
    """Return rates and exposures as the loss takes them; None where counts are not known.

    Where no exposures are given, all have the same, a number.
    """
    if counts is None:
        return None, None
    of_counts, of_exposures = units
    within = np.clip(counts, *bounds)
    if exposure is None:
        exposure = 1.0
    else:  # of a count beyond the bounds the rate is kept, as far as exposures are so small
        part = np.where(counts > within, within / np.maximum(counts, 1.0), 1.0)
        exposure = np.maximum(exposure * part, 1 / _LARGEST_EXPOSURE)
    exposure = exposure / of_exposures
    return within / of_counts / exposure, exposure


def rates_beside_exposures(y: Any, bounds: Any, units: Any) -> np.ndarray:
    """Return `rates_of` counts, or of counts beside exposures, as two columns."""
    y = numbers_of(y)
    counts, exposure = (y[:, 0], exposures(y[:, 1], y[:, 0])) if y.ndim == 2 else (y, None)
    rates, exposure = rates_of(counts, exposure, bounds, units)
    return np.column_stack([rates, np.broadcast_to(exposure, rates.shape)])
