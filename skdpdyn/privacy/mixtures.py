"""Guarantees that are mixtures: of several Gaussian guarantees, and over random subsets."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from scipy import special

from skdpdyn.privacy._logarithms import log_mixture
from skdpdyn.privacy._numerics import gdp_log_deltas
from skdpdyn.privacy._types import Array, Floats
from skdpdyn.privacy.checks import checked_array
from skdpdyn.privacy.fields import Probability, choice
from skdpdyn.privacy.guarantees import Adjacency, Guarantee, Neighbours, Unit, Whole, Wrapped
from skdpdyn.privacy.stored import stored, stored_part


@stored_part
@dataclass(frozen=True)
class MixtureCurve:
    """The Renyi curve of a mixture of Gaussian guarantees whose component is told."""

    weights: tuple[float, ...]
    mus: tuple[float, ...]

    def __post_init__(self) -> None:
        weights = checked_array(self.weights, "weights", lambda x: x > 0, "numbers > 0")
        mus = checked_array(self.mus, "mus", lambda x: x >= 0, "numbers >= 0")
        if weights.shape != mus.shape or not abs(weights.sum() - 1) < 1e-9:
            raise ValueError("weights must sum to 1, one for each of mus")

    def __call__(self, order: Floats) -> Any:
        """Return the Renyi divergence of ``order``."""
        order = np.asarray(order, dtype=float)[..., None]
        exponents = np.log(self.weights) + order * (order - 1) * np.square(self.mus) / 2
        return (special.logsumexp(exponents, axis=-1) / (order[..., 0] - 1))[()]


MAX_COMPONENTS = 512


@stored
@dataclass(frozen=True)
class ProfileMixture(Guarantee):
    """Mean of Gaussian guarantees' profiles: one of several releases happened, drawn at random.

    The profile is that of the release together with which of them it was, so mixtures compose as
    that pair does. Above ``MAX_COMPONENTS`` components, neighbours are pooled at the larger mu.

    Parameters
    ----------
    mus : array-like of float
        Privacy parameters of the components, >= 0.
    weights : array-like of float or None, default=None
        Their probabilities; None: all equal.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation that all hold for.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.

    References
    ----------
    B. Balle, G. Barthe, M. Gaboardi (2018), Privacy amplification by subsampling: the hockey-stick
    divergence is jointly convex.

    Examples
    --------
    >>> from skdpdyn.privacy import ProfileMixture
    >>> round(ProfileMixture([0.1, 1.0]).epsilon(1e-5), 6)
    4.212444
    """

    mus: Any
    weights: Any = None
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    unit: Unit = "record"

    _of_pair = True

    def __post_init__(self) -> None:
        mus = checked_array(self.mus, "mus", lambda x: x >= 0, "numbers >= 0").ravel()
        if mus.size == 0:
            raise ValueError(f"mus={self.mus!r} must hold at least one component")
        weights = (
            np.full(mus.shape, 1 / mus.size)
            if self.weights is None
            else checked_array(self.weights, "weights", lambda x: x > 0, "numbers > 0")
        )
        if weights.shape != mus.shape or not (
            np.all((weights > 0) & (weights < 2)) and abs(weights.sum() - 1) < 1e-9
        ):
            raise ValueError("weights must be positive, one for each of mus, and sum to 1")
        mus, index = np.unique(mus, return_inverse=True)
        weights = np.bincount(index, weights=weights)
        if mus.size > MAX_COMPONENTS:  # the worst are not merged: they decide the tails
            first = np.append(
                np.arange(0, mus.size - MAX_COMPONENTS // 2, 2 * mus.size // MAX_COMPONENTS + 1),
                mus.size,
            )
            first = np.union1d(first, np.arange(mus.size - MAX_COMPONENTS // 2, mus.size))
            mus = np.maximum.reduceat(mus, first[:-1])
            weights = np.add.reduceat(weights, first[:-1])
        # rounding may cost, never gain; and nothing is left to do when this is read back
        while (total := weights.sum()) < 1:
            weights = weights / np.nextafter(total, 0.0)
        super().__post_init__()
        object.__setattr__(self, "mus", tuple(mus.tolist()))
        object.__setattr__(self, "weights", tuple(weights.tolist()))

    def _delta(self, epsilon: Array) -> Any:  # the mean of those of the components
        total = np.full(epsilon.shape, -math.inf)
        n_blocks = len(self.mus) * epsilon.size // 2**20 + 1  # which keep memory small
        blocks = (np.array_split(each, n_blocks) for each in (self.weights, self.mus))
        for weight, mu in zip(*blocks, strict=True):
            terms = np.log(weight) + gdp_log_deltas(epsilon[..., None], mu)
            total = np.logaddexp(total, np.logaddexp.reduce(terms, axis=-1))
        return np.exp(np.minimum(total, 0.0))

    def _closed_form(self, other: Guarantee) -> Guarantee | None:
        components = other._gaussian_components()
        if components is None or len(components[1]) * len(self.mus) > MAX_COMPONENTS:
            return None
        weights, mus = (np.array(values) for values in components)
        return ProfileMixture(
            np.hypot.outer(self.mus, mus).ravel(),
            np.multiply.outer(self.weights, weights).ravel(),
            self.adjacency,
            self.unit,
        )

    def _gaussian_components(self) -> Any:
        return self.weights, self.mus

    def _renyi_curve(self) -> Any:
        return MixtureCurve(self.weights, self.mus)

    def _gaussian_bound(self) -> float | None:
        return self.mus[-1]


@stored
@dataclass(frozen=True)
class SubsampledDP(Wrapped):
    """A guarantee whose mechanism sees a random subset, by advanced joint convexity.

    delta'(epsilon') = q delta(epsilon) with epsilon' = log(1 + q (e^epsilon - 1)), for every
    epsilon: the whole profile, not one point of it.

    Where each record is drawn by itself and one vanishes, laws P with it and Q without it become
    (1 - q) Q + q P and Q. With r = 1 - (1 - q) e^epsilon, the delta of Q against the mixture is r
    times that of Q against P at e^epsilon q / r, never larger: compositions take both.

    Parameters
    ----------
    base : Guarantee
        Guarantee of the mechanism on the subset. Of subsets of fixed size, both when a record is
        replaced and when its contribution vanishes, it must hold for a record *replaced* in it.
    sampling_probability : float
        Probability q in (0, 1] that a record is in the subset.
    sampling : {"fixed", "poisson"}, default="fixed"
        Whether subsets have a fixed size, or each record is drawn by itself (under add_remove).

    References
    ----------
    B. Balle, G. Barthe, M. Gaboardi (2018), Privacy amplification by subsampling, Theorems 2 and 9.

    Examples
    --------
    >>> from skdpdyn.privacy import GaussianDP, SubsampledDP
    >>> round(SubsampledDP(GaussianDP(1.0), 0.01).epsilon(1e-6), 6)
    0.363948
    """

    base: Whole
    sampling_probability: Probability
    sampling: Annotated[str, choice("fixed", "poisson")] = field(
        default="fixed", metadata={"optional": True}
    )

    _inside = "base"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling == "poisson" and self.adjacency is not Adjacency.ADD_REMOVE:
            raise ValueError(
                f"sampling={self.sampling!r} is proven for 'add_remove', not {self.adjacency!r}"
            )

    def _delta(self, epsilon: Array) -> Any:
        q = self.sampling_probability
        with np.errstate(over="ignore"):
            inner = log_mixture(1.0, epsilon, q)
        return q * self.base.delta(np.maximum(inner, 0.0))

    def _profiles(self, epsilon: Array) -> tuple[Array, ...]:
        if self.sampling == "fixed":
            return super()._profiles(epsilon)
        q = self.sampling_probability
        slack = q - (1 - q) * np.expm1(epsilon)
        remove = q * self.base._profiles(log_mixture(1.0, epsilon, q))[0]
        add = np.zeros(slack.shape)
        near = epsilon[slack > 0]
        slack = slack[slack > 0]  # beyond, no loss
        add[: near.size] = slack * self.base._profiles(near - np.log(slack / q))[-1]
        return remove, add

    def _start(self, delta: float) -> tuple[float, float]:
        start = self._amplified(self.base.epsilon(min(delta / self.sampling_probability, 1.0)))
        return start, start * 1e-6

    @property
    def _largest_loss(self) -> float:
        return self._amplified(self.base._largest_loss)

    def _amplified(self, epsilon: float) -> float:
        return float(log_mixture(self.sampling_probability, np.asarray(epsilon)))

    def _gaussian_bound(self) -> float | None:
        return self.base._gaussian_bound()
