"""Records of releases, complete enough that a theorem needs nothing else.

A record, or *mechanism*, describes a run and never its cost. Accountants read records and nothing
else. The meaning of a record never changes. Fields are given by keyword, except that
``Gaussian(noise_multiplier)`` and ``Composition(mechanisms)`` also take the first by position.

To add a kind of release, write a frozen dataclass here and register the theorems that cover it with
their accountants.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self, TypeAlias

from scipy import special

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.checks import EXTREME, MAX_STEPS, checked_count, quoted
from skdpdyn.privacy.fields import (
    BySteps,
    Checked,
    Count,
    NonNegative,
    Positive,
    Probability,
    Stepwise,
    Tame,
    Units,
    choice,
    number,
)
from skdpdyn.privacy.guarantees import Adjacency, Guarantee, Neighbours
from skdpdyn.privacy.stored import stored

Momentum: TypeAlias = Annotated[float, number(lambda x: 0 <= x < 1, "a number in [0, 1)")]
Release: TypeAlias = Annotated[str, choice("last", "all")]


@stored
@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyGradientDescent(Stepwise):
    """Full-batch noisy gradient descent from a start chosen without the data.

    Each step is theta <- Proj(theta - step_size * gradient + noise), where one record moves the
    gradient of the empirical risk by at most S/n and the noise has standard deviation
    ``noise_multiplier * step_size * S/n`` per coordinate.

    Parameters
    ----------
    n_steps : int
        Number of steps K >= 1.
    noise_multiplier : float or array-like of shape (n_steps,)
        Standard deviation of the noise on the gradient sum, over its sensitivity S. Positive.
    step_size : float or array-like of shape (n_steps,)
        Step sizes, positive.
    strong_convexity : float, default=0.0
        A lower bound on the curvature of every record's regularised loss.
    smoothness : float or None, default=None
        An upper bound on that curvature. None: the step is not known to be a contraction (a clipped
        softmax gradient, say).
    diameter : float or None, default=None
        Diameter of the convex set that every step projects onto. None: no projection.
    sensitivity : float or None, default=None
        S/n in the units of ``diameter``; needed with it.
    release : {"last", "all"}, default="last"
        Whether only the last iterate is released, or any of them (an average of iterates, say).
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation in which S was computed.
    rounding : float, default=0.0
        Largest cost of the rounding of all steps, as a mu that every accountant adds, see
        `skdpdyn.core.rounding`. 0: exact arithmetic.
    momentum : float, default=0.0
        Part of the last move that a step repeats, in [0, 1). Free where every iterate is paid for.
        Beyond 0 it needs ``smoothness=None``: no step is known to be a contraction.
    units : sequence of float of shape (n_steps,) or None, default=None
        What each step divides raw predictions and targets by, positive, where a kink of the loss
        narrows. No bound depends on it. None: nothing.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent, last_iterate
    >>> m = NoisyGradientDescent(
    ...     n_steps=892,
    ...     noise_multiplier=802.6,
    ...     step_size=3.9,
    ...     strong_convexity=1e-3,
    ...     smoothness=0.251,
    ... )
    >>> round(last_iterate(m).mu, 6)
    0.027337
    """

    n_steps: Count
    noise_multiplier: BySteps
    step_size: BySteps
    strong_convexity: NonNegative = 0.0
    smoothness: Positive | None = None
    diameter: Positive | None = None
    sensitivity: Positive | None = None
    release: Release = "last"
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    rounding: Tame = 0.0
    momentum: Momentum = 0.0
    units: Units | None = field(default=None, metadata={"optional": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_descent(self)
        if self.units is not None and len(self.units) != self.n_steps:
            raise ValueError(
                f"units has {len(self.units)} numbers: give one for each of the n_steps="
                f"{self.n_steps} steps"
            )
        if self.momentum and self.smoothness is not None:
            raise ValueError(
                f"momentum={self.momentum} needs smoothness=None, not {self.smoothness}: a step "
                "that repeats the last move is not known to be a contraction"
            )

    @property
    def sigma(self) -> float:
        """Scale of the Langevin noise: each step adds N(0, 2 step_size sigma^2 I).

        Needs ``sensitivity``, and steps that are all alike.
        """
        noise = self.noise_multiplier
        alike = isinstance(self.step_size, float)
        if self.sensitivity is None or not alike or not isinstance(noise, float):
            raise ValueError("sigma is of a record with a sensitivity, whose steps are all alike")
        return noise * self.sensitivity * math.sqrt(self.step_size / 2)


@stored
@dataclass(frozen=True, kw_only=True)
class Gaussian(Checked):
    """One Gaussian mechanism: a statistic of bounded sensitivity plus Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise per coordinate over the statistic's Euclidean sensitivity.
        Positive.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation of that sensitivity.

    Examples
    --------
    >>> from skdpdyn.privacy import Gaussian, composition
    >>> composition(Gaussian(4.0)).mu
    0.25
    """

    noise_multiplier: Positive = field(kw_only=False)
    adjacency: Neighbours = Adjacency.REPLACE_ONE


@stored
@dataclass(frozen=True, kw_only=True)
class Vocabulary(Checked):
    """Levels of columns that occur: those whose count with Gaussian noise reaches a threshold.

    A record counts once in each column, for one level; several rows of a person count for weights
    that add up to at most 1. Only levels that occur have counts, and noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise on a count over the Euclidean sensitivity of all counts,
        sqrt(f n_columns): f is 1 under "add_remove", 2 under "replace_one". Positive.
    threshold : float
        Least noisy count that shows a level, >= 1.
    n_columns : int, default=1
        Number of columns.
    most_levels : int, default=1
        Most levels that a record, or a person, has in a column.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation.

    Examples
    --------
    >>> from skdpdyn.privacy import Vocabulary, composition
    >>> levels = Vocabulary(noise_multiplier=20.0, threshold=150.0, adjacency="add_remove")
    >>> composition(levels).mu, round(1e14 * levels.failure, 4)
    (0.05, 4.667)
    """

    noise_multiplier: Positive
    threshold: Annotated[
        float, number(lambda x: 1 <= x < math.inf, "a finite number >= 1: a record counts as much")
    ]
    n_columns: Count = 1
    most_levels: Count = 1
    adjacency: Neighbours = Adjacency.REPLACE_ONE

    @property
    def failure(self) -> float:
        """Largest probability that a level shows which one record, or person, alone has.

        In a column it has one such level with a count of at most 1, or m with counts that add up to
        at most that. Normal tails are convex there, so that (1, 0, ..., 0) is the worst.
        """
        std = self.noise_multiplier * math.sqrt(
            self.adjacency.sum_sensitivity(1.0) * self.n_columns
        )
        p, empty = special.ndtr([(1 - self.threshold) / std, -self.threshold / std]).tolist()
        return min(self.n_columns * (p + (self.most_levels - 1) * empty) * (1 + 1e-9), 1 - 2**-53)


@stored
@dataclass(frozen=True, eq=False, kw_only=True)
class CyclicBatches(Stepwise):
    """Noisy gradient descent over disjoint batches, visited in the same order in every epoch.

    Each step is theta <- Proj(theta - step_size * (gradient sum of the batch / batch_size +
    regulariser's gradient) + noise), noise of standard deviation ``noise_multiplier * step_size * S
    / batch_size`` per coordinate. Every batch is divided by the same public ``batch_size``, the
    short last one too.

    Parameters
    ----------
    n_samples : int
        Number of records n.
    batch_size : int
        Records in a batch; there are ceil(n / batch_size) batches.
    n_epochs : int
        Passes over the batches.
    noise_multiplier : float or array-like of shape (n_steps,)
        Standard deviation of the noise on a batch's gradient sum, over its sensitivity S. Positive.
    step_size : float or array-like of shape (n_steps,)
        Step sizes, positive.
    strong_convexity : float, default=0.0
        A lower bound on the curvature of every step's objective, that of the short last batch
        included.
    smoothness : float or None, default=None
        An upper bound on that curvature. None: the step is not known to be a contraction.
    diameter : float or None, default=None
        Diameter of the convex set that every step projects onto. None: no projection.
    sensitivity : float or None, default=None
        S / batch_size in the units of ``diameter``; needed with it.
    order : {"fixed", "shuffled_once"}, default="fixed"
        Whether the records were put into batches in a known order, or by one uniform permutation
        that is never released.
    release : {"last", "all"}, default="last"
        Whether only the last iterate is released, or any of them.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation in which S was computed.
    rounding : float, default=0.0
        Largest cost of the rounding of all steps, as a mu that every accountant adds, see
        `skdpdyn.core.rounding`. 0: exact arithmetic.

    Examples
    --------
    >>> from skdpdyn.privacy import CyclicBatches, last_iterate
    >>> m = CyclicBatches(
    ...     n_samples=100,
    ...     batch_size=20,
    ...     n_epochs=6,
    ...     noise_multiplier=2.0,
    ...     step_size=0.5,
    ...     strong_convexity=0.06,
    ...     smoothness=1.0,
    ... )
    >>> m.n_batches, m.n_steps, round(last_iterate(m).mu, 8)
    (5, 30, 0.6788514)
    """

    n_samples: Count
    batch_size: Count
    n_epochs: Count
    noise_multiplier: BySteps
    step_size: BySteps
    strong_convexity: NonNegative = 0.0
    smoothness: Positive | None = None
    diameter: Positive | None = None
    sensitivity: Positive | None = None
    order: Annotated[str, choice("fixed", "shuffled_once")] = "fixed"
    release: Release = "last"
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    rounding: Tame = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_batches(self)
        _check_descent(self)

    @property
    def n_batches(self) -> int:
        """Batches in an epoch."""
        return -(-self.n_samples // self.batch_size)

    @property
    def n_steps(self) -> int:
        """Steps in all."""
        return self.n_epochs * self.n_batches


@stored
@dataclass(frozen=True, kw_only=True)
class WithoutReplacement(Checked):
    """Noisy gradient descent on a fresh batch, drawn without replacement, in every step.

    A step draws ``batch_size`` different records uniformly, independently of all other steps, and
    divides the noisy sum of their gradients by ``batch_size``. There are ``n_epochs * (n_samples //
    batch_size)`` steps: rounded down where ``batch_size`` does not divide ``n_samples``. Not for a
    partition of the records, nor for Poisson batches.

    Parameters
    ----------
    n_samples : int
        Number of records n.
    batch_size : int
        Records in a batch.
    n_epochs : int
        Number of times that n_samples // batch_size steps are made.
    noise_multiplier : float
        Standard deviation of the noise on a batch's gradient sum, over its sensitivity S. Positive.
    step_size : float
        Step size, positive.
    strong_convexity : float
        A lower bound on the curvature of every record's regularised loss.
    smoothness : float or None
        An upper bound on that curvature. None: the step is not known to be a contraction.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation in which S was computed.
    release : {"last", "all"}, default="last"
        Whether only the last iterate is released, or any of them.
    rounding : float, default=0.0
        Largest cost of the rounding of all steps, as a mu that every accountant adds, see
        `skdpdyn.core.rounding`. 0: exact arithmetic.

    Examples
    --------
    >>> from skdpdyn.privacy import WithoutReplacement, recursion
    >>> m = WithoutReplacement(
    ...     n_samples=1000,
    ...     batch_size=50,
    ...     n_epochs=30,
    ...     noise_multiplier=4.0,
    ...     step_size=0.5,
    ...     strong_convexity=0.05,
    ...     smoothness=1.0,
    ... )
    >>> m.n_steps, round(recursion(m).rdp(8), 6)
    (600, 0.833288)
    """

    n_samples: Count
    batch_size: Count
    n_epochs: Count
    noise_multiplier: Positive
    step_size: Positive
    strong_convexity: NonNegative
    smoothness: Positive | None
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    release: Release = "last"
    rounding: Tame = 0.0

    diameter = sensitivity = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_batches(self)
        _check_descent(self)

    @property
    def n_steps(self) -> int:
        """Steps in all."""
        return self.n_epochs * (self.n_samples // self.batch_size)


@stored
@dataclass(frozen=True, eq=False, kw_only=True)
class PoissonSubsampled(Stepwise):
    """DP-SGD: steps draw each record independently, clip its gradient, and add noise to the sum.

    The noisy sum is divided by a public number, never by the realised size of the batch; an empty
    batch adds its noise too. Any iterate may be released.

    Parameters
    ----------
    sampling_probability : float
        Probability q in (0, 1] that a step takes a record, independently of all else.
    noise_multiplier : float
        Standard deviation of the noise on the sum, over the bound C on one record's gradient.
        Positive. It is over C under both adjacencies.
    n_steps : int
        Number of steps.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation.
    step_size : float, array-like of shape (n_steps,) or None, default=None
        Step sizes, positive, if they are known. No bound depends on them: every noisy sum may be
        released, and computing with it is post-processing.
    momentum : float, default=0.0
        Part of the last direction that is kept, in [0, 1). It costs nothing.
    average : {None, "uniform", "weighted"}, default=None
        The release: the last iterate, the mean of all T iterates, or their mean with weights 2
        t / (T (T + 1)).
    diameter : float or None, default=None
        Diameter of the ball that every step projects onto. None: no projection.
    rounding : float, default=0.0
        Largest cost of the rounding of all steps, as a mu that every accountant adds, see
        `skdpdyn.core.rounding`. 0: exact arithmetic.
    n_samples, largest_batch : int or None, default=None
        Number of records, and the most of a batch: of a larger one, so many are drawn uniformly,
        and a record may push out another. None: no batch is cut.

    Examples
    --------
    >>> from skdpdyn.privacy import PoissonSubsampled, subsampling
    >>> m = PoissonSubsampled(sampling_probability=0.01, noise_multiplier=1.0, n_steps=1000)
    >>> round(subsampling(m).epsilon(1e-5), 3)
    2.843
    """

    sampling_probability: Probability
    noise_multiplier: Positive
    n_steps: Count
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    step_size: BySteps | None = None
    momentum: Momentum = 0.0
    average: Annotated[str, choice("uniform", "weighted", others="None, ")] | None = None
    diameter: Positive | None = None
    rounding: Tame = 0.0
    n_samples: Count | None = field(default=None, metadata={"optional": True})
    largest_batch: Count | None = field(default=None, metadata={"optional": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.n_samples is None) != (self.largest_batch is None):
            raise ValueError(
                f"n_samples={self.n_samples!r}, largest_batch={self.largest_batch!r}: give both, "
                "where batches are cut, or neither"
            )


@stored
@dataclass(frozen=True, kw_only=True)
class OnePass(Checked):
    """Projected noisy stochastic gradient descent: one pass in a known order, one record a step.

    Each step is theta <- Proj(theta - step_size * (gradient of the record's loss + noise)). A start
    chosen without the data.

    Parameters
    ----------
    n_samples : int
        Number of records, and of steps.
    noise : float
        Standard deviation sigma per coordinate of Gaussian noise, or the scale v of Laplace noise.
        Positive.
    step_size : float
        Step size, positive.
    lipschitz : float
        Bound L on the norm of one record's gradient, without terms that all records share, such as
        a penalty.
    smoothness : float
        An upper bound beta on the curvature of every record's loss. (Theorems that need it to be at
        least ``strong_convexity`` check that: one example of the literature has it smaller.)
    diameter : float
        Diameter of the compact convex set that every step projects onto.
    strong_convexity : float, default=0.0
        A lower bound rho on that curvature.
    distribution : {"gaussian", "laplace"}, default="gaussian"
        The noise. Laplace noise is for a single parameter, on an interval.
    stopping : {"last", "random"}, default="last"
        Whether the iterate after the last record is released, or the one after a step that is drawn
        uniformly and kept secret.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation.
    rounding : float, default=0.0
        Largest cost of the rounding of all steps, as a mu that every accountant adds, see
        `skdpdyn.core.rounding`. 0: exact arithmetic.

    Examples
    --------
    >>> from skdpdyn.privacy import OnePass, contraction
    >>> m = OnePass(
    ...     n_samples=40, noise=2.0, step_size=0.5, lipschitz=1.0, smoothness=0.5, diameter=1.0
    ... )
    >>> f"{contraction(m, index=20).delta(0.5):.6e}"
    '8.399660e-14'
    """

    n_samples: Count
    noise: Positive
    step_size: Positive
    lipschitz: Positive
    smoothness: Positive
    diameter: Positive
    strong_convexity: NonNegative = 0.0
    distribution: Annotated[str, choice("gaussian", "laplace")] = "gaussian"
    stopping: Annotated[str, choice("last", "random")] = "last"
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    rounding: Tame = 0.0

    @property
    def sensitivity(self) -> float:
        """Largest change of a gradient by its record: 2 L if replaced, L if it vanishes."""
        return self.adjacency.sum_sensitivity(self.lipschitz)

    @classmethod
    def of_multiplier(cls, noise_multiplier: float, **facts: Any) -> Self:
        """Return the record whose noise is that many times its ``sensitivity``."""
        one = cls(noise=1.0, **facts)
        return replace(one, noise=noise_multiplier * one.sensitivity)

    @property
    def paper_contraction(self) -> float:
        """The papers' contraction: sqrt(1 - 2 step_size beta rho / (beta + rho))."""
        beta = self.smoothness
        rho = self.strong_convexity
        return math.sqrt(max(0.0, 1 - 2 * self.step_size * rho * (beta / (beta + rho))))


@stored
@dataclass(frozen=True, kw_only=True)
class Composition:
    """Several releases from the same records, each chosen with knowledge of the outcomes before it.

    Parameters
    ----------
    mechanisms : sequence of records
        Records of the releases; at least one, all of the same adjacency.
    names : sequence of str or None, default=None
        What each release was of, for whoever reads the record; several may have one name. None:
        nothing is said.

    Examples
    --------
    >>> from skdpdyn.privacy import Composition, Gaussian, composition
    >>> composition(Composition((Gaussian(2.0),) * 4)).mu
    1.0
    >>> parts = Composition((Gaussian(20.0), Gaussian(2.0)), names=("column means", "training"))
    >>> parts["training"].noise_multiplier
    2.0
    """

    mechanisms: tuple[Any, ...] = field(kw_only=False)
    names: tuple[str, ...] | None = field(default=None, metadata={"optional": True})

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))
        if self.names is not None:
            object.__setattr__(self, "names", tuple(self.names))
            if len(self.names) != len(self.mechanisms) or not all(
                isinstance(name, str) for name in self.names
            ):
                raise ValueError(
                    f"names={quoted(self.names)} must be one text for each of mechanisms"
                )
        distinct = {id(mechanism): mechanism for mechanism in self.mechanisms}.values()
        for mechanism in distinct:
            if isinstance(mechanism, Guarantee) or not hasattr(mechanism, "adjacency"):
                raise ValueError(
                    f"mechanisms holds a {type(mechanism).__name__}, which is no record: "
                    "guarantees have compose()"
                )
        adjacencies = sorted({str(mechanism.adjacency) for mechanism in distinct})
        if len(adjacencies) != 1:
            raise ValueError(
                "mechanisms must hold at least one record, and all of one adjacency, not "
                f"{adjacencies}"
            )

    @property
    def adjacency(self) -> Any:
        """The neighbouring relation of all parts."""
        return self.mechanisms[0].adjacency

    def __getitem__(self, name: str) -> Any:
        """Return the part with this name, or a `Composition` of several."""
        parts = [
            part
            for part, part_name in zip(self.mechanisms, self.names or (), strict=False)
            if part_name == name
        ]
        if not parts:
            raise KeyError(
                f"{quoted(name)} is no part of this record: {sorted(set(self.names or ()))}"
            )
        return (
            parts[0] if len(parts) == 1 else Composition(tuple(parts), names=(name,) * len(parts))
        )


MAX_POSITIONS = 10**8  # a bound keeps one number for each position of a record


def check_computable(accountant: str, **numbers: Any) -> None:
    """Refuse numbers for which ``accountant`` leaves the range of double precision."""
    for name, value in numbers.items():
        if not 1 / EXTREME < value < EXTREME:
            raise UnsupportedMechanismError(
                f"{accountant} cannot be computed for {name}={value!r}: take a less extreme one"
            )


def check_positions(accountant: str, count: int) -> None:
    """Refuse a bound that would need more than `MAX_POSITIONS` numbers."""
    if count > MAX_POSITIONS:
        raise UnsupportedMechanismError(
            f"{accountant} needs at most {MAX_POSITIONS:g} positions of a record, not {count}"
        )


def check_index(index: int | None, n: int, worst: Any) -> Any:
    """Return the position of a record, from 1 to n; the worst one for None."""
    if index is None:
        return worst
    if index not in range(1, n + 1):
        raise ValueError(
            f"index={quoted(index)} must be an integer from 1 to {n}, or None for the worst record"
        )
    return int(index)


def _check_batches(record: Mechanism) -> None:
    if record.batch_size > record.n_samples:
        raise ValueError(
            f"batch_size={record.batch_size} must be at most n_samples={record.n_samples}"
        )
    checked_count(record.n_steps, "n_epochs times the steps of one", largest=MAX_STEPS)


def _check_descent(record: Mechanism) -> None:
    """Check the fields of all kinds of noisy gradient descent against one another."""
    if record.smoothness is not None and record.smoothness < record.strong_convexity:
        raise ValueError(
            f"smoothness={record.smoothness} must be >= strong_convexity={record.strong_convexity}"
        )
    if record.diameter is not None and record.sensitivity is None:
        raise ValueError(
            "sensitivity=None must be given with a diameter: how far one record moves the gradient"
        )
