"""Guarantees: the cost of a release in terms of differential privacy, as values.

A guarantee answers two questions, ``delta(epsilon)`` and ``epsilon(delta)``, for one notion of
neighbouring data sets, and composes with others of the same notion. `GaussianDP` is exact for
Gaussian noise and is what most accountants return.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache, partial, reduce
from typing import Annotated, Any, NoReturn, TypeAlias

import numpy as np
from scipy import special

from skdpdyn.exceptions import CalibrationError, UnsupportedMechanismError, optional
from skdpdyn.privacy._numerics import (
    by_element,
    convex_profiles,
    gdp_log_delta,
    gdp_log_deltas,
    highest_lines,
    like,
    safe_root,
    smallest_safe,
    solve_epsilon,
)
from skdpdyn.privacy._types import Array, Floats, Named
from skdpdyn.privacy.checks import (
    MAX_STEPS,
    checked_count,
    checked_delta,
    checked_epsilon,
    checked_order,
    checked_rate,
    quoted,
)
from skdpdyn.privacy.fields import Check, Checked, Cost, Failure
from skdpdyn.privacy.stored import stored, stored_part

_KEPT = 4096  # budgets and costs that were computed before, all public


class Adjacency(StrEnum):
    """Neighbouring relation: the pairs of data sets that a guarantee makes hard to tell apart.

    ``REPLACE_ONE``: the same number of records, one of them changed at will. ``ADD_REMOVE``: one
    record's contribution appears or vanishes while the public normaliser 1/n stays (also called
    zero-out).

    Examples
    --------
    >>> from skdpdyn.privacy import Adjacency
    >>> Adjacency.REPLACE_ONE.sum_sensitivity(0.5), Adjacency("add_remove").sum_sensitivity(0.5)
    (1.0, 0.5)
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"

    @classmethod
    def _missing_(cls, value: Any) -> NoReturn:
        raise ValueError(
            f"adjacency={quoted(value)} is not a valid {cls.__name__}: it must be one of "
            f"{[str(member) for member in cls]}"
        )

    def sum_sensitivity(self, norm: float) -> float:
        """Return the sensitivity of a sum of vectors of norm at most ``norm``."""
        return 2 * norm if self is Adjacency.REPLACE_ONE else norm

    def __repr__(self) -> str:
        return repr(self.value)


Neighbours: TypeAlias = Annotated[
    Named, Check(lambda value, name: Adjacency(value), "'add_remove' or 'replace_one'")
]


def dp_accounting() -> Any:
    """Return the package ``dp_accounting``, whose events describe releases to other libraries."""
    return optional("dp_accounting", "events")


def checked_unit(unit: Any, name: str = "unit") -> str:
    """Return the name of a unit of privacy: a word, such as "record", "person", "household"."""
    if not isinstance(unit, str) or not unit.isidentifier():
        raise ValueError(
            f"{name}={quoted(unit)} must be a word: 'record', 'person', 'household', ..."
        )
    return unit


Unit: TypeAlias = Annotated[str, Check(checked_unit, "a word")]


_NUMERICAL: list[type] = []


def composes_numerically(kind: type) -> Any:
    """Register ``kind(parts, adjacency)``, the composition of parts without a closed form."""
    if _NUMERICAL:
        raise ValueError(
            f"{_NUMERICAL[0].__name__} is registered already: there is one numerical composition"
        )
    _NUMERICAL.append(kind)
    return kind


class Guarantee(Checked, ABC):
    """A differential privacy guarantee: a bound on the privacy profile of a release.

    Neighbouring data sets differ in one ``unit``, in the way that ``adjacency`` says. A guarantee
    of a "person" is for all rows of one together, one of a "record" for a single row.
    """

    adjacency: Adjacency
    unit: str
    # largest relative error of a numerical epsilon, on the safe side
    accuracy: float = 0.0
    # whether the Renyi curve is that of the pair of the profile, which says more
    _of_pair = False

    def __getattr__(self, name: str) -> Any:
        if name == "mu":
            raise AttributeError(
                f"{type(self).__name__} is no Gaussian guarantee and has no mu: ask its "
                "epsilon(delta)"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def delta(self, epsilon: Floats) -> Any:
        """Return the smallest delta known to hold at an epsilon.

        Parameters
        ----------
        epsilon : float or ndarray
            >= 0.

        Returns
        -------
        float or ndarray
            In [0, 1].
        """
        epsilon = checked_epsilon(epsilon)
        return like(epsilon, self._delta(epsilon))

    @abstractmethod
    def _delta(self, epsilon: Array) -> Any:
        """Return delta at an array of epsilons."""

    def epsilon(self, delta: Floats) -> Any:
        """Return the smallest epsilon known to hold at a delta.

        Parameters
        ----------
        delta : float or ndarray
            In [0, 1].

        Returns
        -------
        float or ndarray
            0 exactly when ``delta >= self.delta(0)``; inf where none is known.
        """
        delta = checked_delta(delta)
        return like(delta, by_element(self._epsilon, delta))

    def _epsilon(self, delta: float) -> float:
        """Return epsilon at one delta, rounded up."""
        start, step = self._start(delta)
        return solve_epsilon(self._log_delta, delta, start, step, self._largest_loss)

    def _log_delta(self, epsilon: float) -> float:
        delta = float(self._delta(np.asarray(epsilon, dtype=float)))
        return math.log(delta) if delta > 0 else -math.inf

    def _start(self, delta: float) -> tuple[float, float]:
        """Return where the search for an epsilon starts, and its first step; 0: that far."""
        return 1.0, 0.0

    @property
    def _largest_loss(self) -> float:
        """Largest privacy loss, but for a probability of delta(infinity); inf: not known."""
        return math.inf

    def rdp(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of an order.

        Parameters
        ----------
        order : float or ndarray
            > 1.

        Returns
        -------
        float or ndarray

        Raises
        ------
        UnsupportedMechanismError
            If no Renyi curve is known.
        FloatingPointError
            If the curve is negative or NaN.
        """
        order = checked_order(order)
        curve = self._renyi_curve()
        if curve is None:
            raise UnsupportedMechanismError(f"{type(self).__name__} has no Renyi curve")
        divergence = curve(order)
        if not np.all(np.asarray(divergence) >= 0):
            raise FloatingPointError(f"the Renyi curve {quoted(curve)} is negative or not a number")
        return like(order, divergence)

    @property
    def dp_event(self) -> Any:
        """The guarantee as a ``dp_accounting`` event, for ``neighboring_relation``.

        It needs the extra ``events``.
        """
        raise UnsupportedMechanismError(f"{type(self).__name__} has no dp_accounting event")

    @property
    def neighboring_relation(self) -> Any:
        """The ``dp_accounting.NeighboringRelation`` for which ``dp_event`` means this guarantee."""
        raise UnsupportedMechanismError(f"{type(self).__name__} has no dp_accounting event")

    def tradeoff(self, fpr: Floats) -> Any:
        """Return a lower bound on an attack's false negative rate at false positive rate ``fpr``.

        The highest supporting line of the profile: 1 - delta - e^epsilon fpr or its mirror image,
        over every epsilon (Dong, Roth and Su 2022, Proposition 2.12).

        Parameters
        ----------
        fpr : float or ndarray
            In [0, 1].

        Returns
        -------
        float or ndarray
        """
        fpr = checked_rate(fpr)
        curve = highest_lines(lambda epsilon: 1.0 - np.asarray(self.delta(epsilon)), fpr.ravel())
        return like(fpr, curve.reshape(fpr.shape))

    @property
    def advantage(self) -> float:
        """Largest true positive minus false positive rate of any attack: delta(0)."""
        return self.delta(0.0)

    def compose(self, other: "Guarantee") -> "Guarantee":
        """Return the guarantee of releasing both, each chosen in view of the other's outcome.

        In closed form where there is one; else numerically, as a `PrivacyLossDP`.

        Parameters
        ----------
        other : Guarantee
            A guarantee of the same adjacency and unit.

        Returns
        -------
        Guarantee

        Raises
        ------
        ValueError
            If the adjacencies differ.
        UnsupportedMechanismError
            If the units differ: what protects records may show all of a person with many.
        """
        other = checked_guarantee(other, "other")
        check_alike(self, other)
        for first, second in ((self, other), (other, self)):
            joint = first._closed_form(second)
            if joint is not None:
                return joint
        (numerically,) = _NUMERICAL
        return numerically(self._parts() + other._parts(), self.adjacency, unit=self.unit)

    def with_unit(self, unit: str) -> Any:
        """Return the same guarantee for another unit; the caller has to prove that it holds.

        Parameters
        ----------
        unit : str
            What neighbouring data sets differ in one of.

        Returns
        -------
        Guarantee

        Examples
        --------
        >>> from skdpdyn.privacy import GaussianDP
        >>> GaussianDP(0.5).with_unit("person").unit
        'person'
        """
        unit = checked_unit(unit)
        return self if unit == self.unit else replace(self, unit=unit)  # type: ignore[type-var]

    def for_unit(self, unit: str) -> Any:
        """Return the guarantee that this one implies for another unit.

        A guarantee of a "person" implies one of a "record", whose owner is one person:

        - replace_one: a record that is replaced keeps its owner, so the data sets differ in what
          one person's rows are, and are neighbours for the person. The guarantee holds as it is.
        - add_remove: where the only row of a person vanishes, so does the person. Of several rows,
          one vanishes in two steps: the person with all rows, and the person comes back with the
          others. That counts twice, 2 mu. (Where rows have weight 1/k, dropping one of k >= 2 moves
          a person's mean of vectors of norm L by at most 2 L/k, which is not more than L. But where
          ``max_rows_per_person`` chooses rows, dropping one may change the choice of all others,
          and how many rows a person has is not public.)

        Parameters
        ----------
        unit : str
            The unit to speak of: this guarantee's own, or "record".

        Returns
        -------
        Guarantee

        Raises
        ------
        UnsupportedMechanismError
            For any other pair of units, or if the guarantee would count twice and has no mu.

        Examples
        --------
        >>> from skdpdyn.privacy import GaussianDP
        >>> GaussianDP(0.5, unit="person").for_unit("record").mu
        0.5
        >>> GaussianDP(0.5, "add_remove", unit="person").for_unit("record").mu
        1.0
        """
        unit = checked_unit(unit)
        if unit == self.unit:
            return self
        if (self.unit, unit) != ("person", "record"):
            raise UnsupportedMechanismError(
                f"unit={quoted(unit)}: what holds for one {self.unit} implies nothing known for "
                f"one {unit}. Fit with the groups of that unit"
            )
        if self.adjacency == Adjacency.REPLACE_ONE:
            return self.with_unit(unit)
        if not isinstance(self, GaussianDP):
            raise UnsupportedMechanismError(
                f"unit={quoted(unit)}: under add_remove a guarantee of persons counts twice for a "
                f"record, which is not known of a {type(self).__name__}. Use "
                "adjacency='replace_one'"
            )
        return self.group(2).with_unit(unit)

    def with_accuracy(self, accuracy: float | None) -> Any:
        """Return the same guarantee, computed up to another relative error of epsilon.

        The error is on the safe side. Only numerical guarantees have one.

        Parameters
        ----------
        accuracy : float
            The relative error, in (0, 1).

        Returns
        -------
        Guarantee
            This one, where epsilon has a closed form.
        """
        return self

    def _closed_form(self, other: "Guarantee") -> "Guarantee | None":
        """Return the composition with ``other`` in closed form, or None; both sides are asked."""

    def _profiles(self, epsilon: Array) -> tuple[Array, ...]:
        """Return delta at epsilons that grow from 0: one where both directions are alike.

        Each point bounds delta(0), too, as that of `ApproximateDP`.
        """
        return convex_profiles(epsilon, np.minimum(self.delta(epsilon), 1.0))

    def _reach(self, tail: float) -> float:
        """Return a loss that is exceeded with a probability of ``tail`` at most, if that can be."""
        tail = max(tail, float(self.delta(math.inf)) * (1 + 1e-12))
        return self.epsilon(min(tail, 1.0))

    # For composition with other guarantees; None: not known

    def _gaussian_components(self) -> Any:
        """Return this guarantee as a mixture of Gaussian ones, or None."""

    def _renyi_curve(self) -> Any:
        """Return the Renyi curve, as a picklable callable."""

    def _gaussian_bound(self) -> float | None:
        """Return some mu for which mu-GDP is implied, however loosely."""

    def _parts(self) -> Any:
        """Return the independent parts and their repetitions, as `PrivacyLossDP` keeps them."""
        return ((self, 1),)


class Wrapped(Guarantee):
    """A guarantee that follows from another, of the same neighbours, in the field ``_inside``."""

    _inside: str

    def _with(self, change: Callable[[Guarantee], Guarantee]) -> Any:
        """Return this guarantee around another."""
        inside = getattr(self, self._inside)
        changed = change(inside)
        if changed is inside:
            return self
        return replace(self, **{self._inside: changed})  # type: ignore[type-var]

    @property
    def adjacency(self) -> Any:  # type: ignore[override]
        """The neighbouring relation."""
        return getattr(self, self._inside).adjacency

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Whom it protects."""
        return getattr(self, self._inside).unit

    @property
    def accuracy(self) -> Any:  # type: ignore[override]
        """Relative error of epsilon up to which a numerical bound is computed."""
        return getattr(self, self._inside).accuracy

    def with_unit(self, unit: str) -> Any:
        """See `Guarantee.with_unit`."""
        return self._with(lambda part: part.with_unit(unit))

    def with_accuracy(self, accuracy: float | None) -> Any:
        """See `Guarantee.with_accuracy`."""
        return self._with(lambda part: part.with_accuracy(accuracy))


def checked_guarantee(value: Any, name: str) -> "Guarantee":
    """Return a guarantee, also that inside an answer of `tightest`; raise if it is none."""
    leaks = getattr(value, "leaks", ())
    if leaks:
        raise ValueError(
            f"a {type(value).__name__} that does not cover all ({'; '.join(leaks)}) would be "
            "taken for a plain guarantee. Add others to it by its own compose"
        )
    value = getattr(value, "guarantee", value)
    if not isinstance(value, Guarantee):
        raise ValueError(
            f"{name}={quoted(value)} must be a guarantee: of a record, tightest(record)"
        )
    return value


Whole: TypeAlias = Annotated[Guarantee, Check(checked_guarantee, "its answers too")]


def check_alike(*costs: Any) -> None:
    """Refuse costs of unlike adjacencies or units: no sum of them means anything."""
    relations = sorted({str(cost.adjacency) for cost in costs})
    if len(relations) > 1:
        raise ValueError(
            f"adjacency={' and '.join(map(repr, relations))}: costs of both cannot be added or "
            "compared. Account all under one adjacency"
        )
    units = list(dict.fromkeys(cost.unit for cost in costs if hasattr(cost, "unit")))
    if len(units) > 1:
        raise UnsupportedMechanismError(
            f"releases that protect one {' and one '.join(units)} have no guarantee together: fit "
            "all with the same groups, or ask total_privacy(..., unit='record') what holds for a "
            "record"
        )


@stored
@dataclass(frozen=True)
class GaussianDP(Guarantee):
    """mu-Gaussian differential privacy: as hard to attack as telling N(0, 1) from N(mu, 1).

    Parameters
    ----------
    mu : float
        Privacy parameter, >= 0.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation that it holds for.
    failure : float, default=0.0
        Probability in [0, 1) of an event in which the guarantee does not hold: for any neighbours,
        both laws of outcomes are within this total variation distance of two that are no easier to
        tell apart than mu-GDP says. It adds (1 + exp(epsilon)) times this probability to delta.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.

    References
    ----------
    J. Dong, A. Roth, W. Su (2022), Gaussian differential privacy, Corollary 2.13 (profile) and
    Corollary 3.3 (composition).

    Examples
    --------
    >>> from skdpdyn.privacy import GaussianDP
    >>> round(GaussianDP(1.0).epsilon(1e-5), 6)
    4.377178
    """

    mu: Cost
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    failure: Failure = 0.0
    unit: Unit = "record"

    _of_pair = True

    def _delta(self, epsilon: Array) -> Any:  # exact, accurate down to 1e-300
        if self.failure:
            epsilon = np.minimum(epsilon, self._last_useful_epsilon)
        exact = (
            np.exp(gdp_log_deltas(epsilon, self.mu))
            if epsilon.ndim
            else math.exp(gdp_log_delta(float(epsilon), self.mu))
        )
        if not self.failure:
            return exact
        return np.minimum(1.0, exact + (1 + np.exp(epsilon)) * self.failure)

    @property
    def _last_useful_epsilon(self) -> float:
        """Epsilon beyond which the failure grows faster than delta falls: delta stays constant."""
        return float(np.clip(-self.mu * (special.ndtri(self.failure) + self.mu / 2), 0.0, 700.0))

    def _epsilon(self, delta: float) -> float:
        return super()._epsilon(delta) if self.failure else _gdp_epsilon(self.mu, delta)

    def group(self, size: int) -> "GaussianDP":
        """Return the guarantee for an exchange of up to ``size`` records at once: size times mu.

        Parameters
        ----------
        size : int
            Largest number of records of one group, >= 1.

        Returns
        -------
        GaussianDP

        Raises
        ------
        UnsupportedMechanismError
            If it may fail: what neighbours hide, larger groups need not.

        References
        ----------
        J. Dong, A. Roth, W. Su (2022), Gaussian differential privacy, Theorem 2.14.

        Examples
        --------
        >>> from skdpdyn.privacy import GaussianDP
        >>> GaussianDP(0.25).group(3).mu
        0.75
        """
        size = checked_count(size, "size", largest=MAX_STEPS)
        if self.failure and size > 1:
            raise UnsupportedMechanismError(
                f"failure={self.failure!r}: a guarantee that may fail says nothing of groups of "
                f"{size}"
            )
        return replace(self, mu=size * self.mu)

    def tradeoff(self, fpr: Floats) -> Any:
        """Return the exact least false negative rate at ``fpr``: Phi(Phi^-1(1 - fpr) - mu)."""
        fpr = checked_rate(fpr)
        if self.failure:
            exact = GaussianDP(self.mu, self.adjacency).tradeoff(
                np.minimum(fpr + self.failure, 1.0)
            )
            return like(fpr, np.maximum(np.asarray(exact) - self.failure, 0.0))
        if math.isinf(self.mu):
            return like(fpr, np.zeros(fpr.shape))
        return like(fpr, special.ndtr(-special.ndtri(fpr) - self.mu) if self.mu > 0 else 1 - fpr)

    @property
    def dp_event(self) -> Any:
        """``GaussianDpEvent(1 / mu)``, for an accountant of ``neighboring_relation``."""
        if self.failure:
            raise UnsupportedMechanismError(
                f"failure={self.failure!r}: no dp_accounting event says that a guarantee may fail "
                "with some probability. Use its epsilon and delta"
            )
        events = dp_accounting()
        return events.GaussianDpEvent(1 / self.mu) if self.mu > 0 else events.NoOpDpEvent()

    @property
    def neighboring_relation(self) -> Any:
        """Always ADD_OR_REMOVE_ONE, under which dp_accounting reads the event as mu."""
        return dp_accounting().NeighboringRelation.ADD_OR_REMOVE_ONE

    def _closed_form(self, other: Guarantee) -> Guarantee | None:
        if type(other) is not GaussianDP:
            return other if self.mu == self.failure == 0 else None
        failure = min(self.failure + other.failure, 1 - 2**-53)
        mu = math.hypot(self.mu, other.mu)
        return GaussianDP(mu, self.adjacency, failure, self.unit)

    def _gaussian_components(self) -> Any:
        return None if self.failure else ((1.0,), (self.mu,))

    def _renyi_curve(self) -> Any:
        return None if self.failure else LinearCurve(self.mu * self.mu / 2)

    def _gaussian_bound(self) -> float | None:
        return None if self.failure else self.mu


@stored_part
@dataclass(frozen=True)
class LinearCurve(Checked):
    """The Renyi curve rate * order of a rate-zCDP mechanism."""

    rate: Cost

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        return self.rate * order

    @property
    def dp_event(self) -> Any:
        """``ZCDpEvent(rate)``."""
        return dp_accounting().ZCDpEvent(self.rate)


def composed(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return the joint cost of several releases, at least one, of the same records.

    Gaussian ones are composed first, in closed form.
    """
    ordered = sorted(guarantees, key=lambda guarantee: not isinstance(guarantee, GaussianDP))
    return reduce(lambda joint, other: joint.compose(other), ordered)


@lru_cache(maxsize=_KEPT)
def _gdp_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon (rounded up) for which mu-GDP implies (epsilon, delta)-DP."""
    # delta(epsilon) < Phi(mu/2 - epsilon/mu), which is solved for epsilon in closed form
    log_delta = math.log(delta) if delta > 0 else -math.inf
    upper = mu * (mu / 2 - float(special.ndtri_exp(log_delta))) if mu > 0 else 0.0
    return solve_epsilon(partial(gdp_log_delta, mu=mu), delta, upper, scale=mu)


@lru_cache(maxsize=_KEPT)
def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu (rounded down) for which mu-GDP implies (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        Target, > 0.
    delta : float
        Target, in (0, 1).

    Raises
    ------
    CalibrationError
        If the budget is so small or so large that mu cannot be represented.
    """
    log_delta = math.log(delta)

    def room(log_noise: float) -> float:
        return log_delta - gdp_log_delta(epsilon, math.exp(-log_noise))

    quantile = -float(special.ndtri_exp(log_delta))
    root = math.hypot(quantile, math.sqrt(2 * epsilon))
    # x with Phi(-x) = delta
    lower = 2 * epsilon / (root + quantile) if quantile > 0 else root - quantile
    lower = max(lower * (1 - 1e-9), 2.5 * delta * (1 - 1e-9))
    if not 1e-150 < lower < 1e150:
        raise CalibrationError(
            f"epsilon={epsilon}, delta={delta}: no noise can be computed for so extreme a budget"
        )
    mu = math.exp(-safe_root(room, -math.log(lower), 0.5, xtol=1e-15))
    return smallest_safe(mu, lambda value: GaussianDP(value).epsilon(delta) <= epsilon, towards=0.0)
