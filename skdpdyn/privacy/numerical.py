"""Numerical composition of privacy loss distributions, discretised on the safe side."""

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache, singledispatch
from numbers import Integral
from typing import Any

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._numerics import by_element, gdp_log_deltas, like
from skdpdyn.privacy._types import Array, Floats, Named
from skdpdyn.privacy.checks import (
    MAX_STEPS,
    checked_count,
    checked_delta,
    checked_epsilon,
    checked_number,
    checked_order,
)
from skdpdyn.privacy.guarantees import (
    Adjacency,
    ApproximateDP,
    GaussianDP,
    Guarantee,
    RenyiDP,
    SummedCurve,
    adjacency_of,
    checked_curves,
    composes_numerically,
)
from skdpdyn.privacy.loss_grids import Direction, Losses, Masses, connect_dots
from skdpdyn.privacy.sampled import SampledCurve, check_step
from skdpdyn.privacy.stored import stored, stored_part


@stored_part
@dataclass(frozen=True)
class SampledGaussian:
    """One step of the Poisson-sampled Gaussian mechanism, by its dominating pair.

    add_remove: (1-q) N(0, z^2) + q N(1, z^2) against N(0, z^2), and the reverse. replace_one:
    against (1-q) N(0, z^2) + q N(-1, z^2), which ``dp_accounting`` has as REPLACE_ONE.

    Parameters
    ----------
    sampling_probability : float
        Probability q that a record is in the batch.
    noise_multiplier : float
        Standard deviation z of the noise over the bound on one record's contribution.
    adjacency : {"replace_one", "add_remove"}
        The neighbouring relation.
    """

    sampling_probability: float
    noise_multiplier: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))
        check_step(self)

    @property
    def _shift(self) -> float:
        return self.adjacency.sum_sensitivity(1.0) / self.noise_multiplier

    def _gaussian_bound(self) -> float | None:
        return self._shift  # joint convexity: sampling never hurts

    def _renyi_curve(self) -> Any:
        return SampledCurve(self.sampling_probability, self.noise_multiplier, self.adjacency)


@stored_part
@dataclass(frozen=True)
class RepeatedCurve:
    """A Renyi curve, ``count`` times."""

    curve: Any
    count: int

    def __post_init__(self) -> None:
        checked_curves(self.curve)
        checked_count(self.count, "count", largest=MAX_STEPS)

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        return self.count * self.curve(order)

    @property
    def adjacency(self) -> Any:
        """Adjacency of the curve, or None."""
        return adjacency_of(self.curve)


ACCURACY = 2e-5  # relative error of epsilon at which the grid is fine enough


@composes_numerically
@stored
@dataclass(frozen=True)
class PrivacyLossDP(Guarantee):
    """Composition of independent parts by their privacy loss distributions.

    Every part is discretised by connecting the dots of its profile and convolved by FFT
    under a tilt (`skdpdyn.privacy.loss_grids`). This is an upper bound on every grid, and grids are
    refined until epsilon settles. The possible cost of rounding and truncation is added: a small
    part of delta, however small that is. If all parts have a Gaussian or a Renyi bound, `delta` and
    `epsilon` are the least of all bounds.

    Parameters
    ----------
    parts : sequence of (Guarantee or SampledGaussian, int)
        The parts, each with its number of repetitions.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation that all parts hold for.
    accuracy : float, default=2e-5
        Relative error of epsilon at which the grid is fine enough, in (0, 1). A coarser grid is
        faster, and a bound all the same.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.

    References
    ----------
    V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi (2022), Connect the dots: tighter
    discrete approximations of privacy loss distributions. Y. Zhu, J. Dong, Y.-X. Wang (2022),
    Optimal accounting of differential privacy via characteristic function, Theorem 10: dominating
    pairs compose.

    Examples
    --------
    >>> from skdpdyn.privacy import ApproximateDP, GaussianDP
    >>> round(GaussianDP(1.0).compose(ApproximateDP(0.5)).epsilon(1e-5), 3)
    4.767
    """

    parts: tuple[tuple[Any, int], ...]
    adjacency: Named = Adjacency.REPLACE_ONE
    accuracy: float = field(default=ACCURACY, metadata={"optional": True})
    unit: str = "record"

    def __post_init__(self) -> None:
        self._check_neighbours()
        accuracy = checked_number(
            self.accuracy, "accuracy", lambda x: 0 < x < 1, "a number in (0, 1)"
        )
        object.__setattr__(self, "accuracy", accuracy)
        if not self.parts:
            raise ValueError("parts=() must hold at least one release")
        counts: dict[Any, int] = {}
        gaussian = GaussianDP(0.0, self.adjacency, unit=self.unit)
        for part, count in self.parts:
            if not isinstance(part, (Guarantee, SampledGaussian)):
                raise ValueError(f"part {part!r} must be a guarantee")
            if getattr(part, "failure", 0.0):
                raise UnsupportedMechanismError(
                    f"part {part!r} fails with some probability, which numerical composition "
                    "does not know"
                )
            if part.adjacency != self.adjacency:
                raise ValueError(
                    f"part {part!r} is {part.adjacency}, the composition {self.adjacency}: they "
                    "must agree"
                )
            if isinstance(part, Guarantee) and part.unit != self.unit:
                raise ValueError(
                    f"part {part!r} protects one {part.unit}, the composition one {self.unit}: "
                    "they must agree"
                )
            if (
                isinstance(count, bool)
                or not isinstance(count, Integral)
                or not 1 <= count <= MAX_STEPS
            ):
                raise ValueError(
                    f"count={count!r} of {part!r} must be an integer >= 1 and at most {MAX_STEPS:g}"
                )
            if type(part) is GaussianDP:
                gaussian = gaussian.compose(replace(part, mu=part.mu * math.sqrt(count)))
            else:
                counts[part] = counts.get(part, 0) + count
        if gaussian.mu > 0:
            counts[gaussian] = 1
        object.__setattr__(self, "parts", tuple(counts.items()))

    def delta(self, epsilon: Floats) -> Any:
        """Return delta at ``epsilon`` >= 0 (float or array)."""
        epsilon = checked_epsilon(epsilon)
        return like(epsilon, np.min([each.delta(epsilon) for each in self._bounds()], axis=0))

    def epsilon(self, delta: Floats) -> Any:
        """Return epsilon at ``delta`` (float or array)."""
        delta = checked_delta(delta)
        return like(
            delta,
            np.min([by_element(each.epsilon, delta) for each in self._bounds()], axis=0),
        )

    def with_unit(self, unit: str) -> Any:
        """See `Guarantee.with_unit`."""
        parts = tuple(
            (part.with_unit(unit) if isinstance(part, Guarantee) else part, count)
            for part, count in self.parts
        )
        return replace(self, parts=parts, unit=unit)

    def with_accuracy(self, accuracy: Any) -> Any:
        """See `Guarantee.with_accuracy`: on another grid."""
        parts = (
            (part.with_accuracy(accuracy) if isinstance(part, Guarantee) else part, count)
            for part, count in self.parts
        )
        return replace(self, parts=tuple(parts), accuracy=accuracy)

    def _bounds(self) -> Any:
        """Return the numerical, Gaussian and Renyi bounds that exist; all hold."""
        if any(isinstance(part, Guarantee) and part.delta(math.inf) >= 1 for part, _ in self.parts):
            return [ApproximateDP(0.0, 1.0, self.adjacency)]  # a part that promises nothing
        losses, curve, mu = (
            discretised(self.parts, self.accuracy),
            self._renyi_curve(),
            self._gaussian_bound(),
        )
        bounds: list[Any] = [losses] if losses else []
        if mu is not None:
            bounds.append(GaussianDP(mu, self.adjacency))
        if curve is not None:
            bounds.append(RenyiDP(curve, self.adjacency))
        if not bounds:
            raise UnsupportedMechanismError(
                f"composition of {[type(part).__name__ for part, _ in self.parts]}: the privacy "
                "losses are too large to be "
                "discretised, and no closed form is known. Use more noise, or account the parts "
                "in one family"
            )
        return bounds

    def rdp(self, order: Floats) -> Any:
        """Sum of the parts' Renyi divergences of ``order``, where all have one."""
        curve = self._renyi_curve()
        return super().rdp(order) if curve is None else like(order, curve(checked_order(order)))

    @property
    def dp_event(self) -> Any:
        """The parts as events, composed; of Gaussian and Poisson-sampled parts."""
        import dp_accounting

        # PLDAccountant(REPLACE_ONE) reads a GaussianDpEvent as sensitivity 1 for adding, hence 2
        # for replacing
        unit = self.adjacency.sum_sensitivity(1.0)
        events = []
        for part, count in self.parts:
            if type(part) is GaussianDP:
                events.append(dp_accounting.GaussianDpEvent(unit / part.mu))
            elif type(part) is SampledGaussian:
                event = _sampled_event(part.sampling_probability, part.noise_multiplier)
                events.append(dp_accounting.SelfComposedDpEvent(event, count))
            else:
                raise UnsupportedMechanismError(f"{type(part).__name__} has no dp_accounting event")
        return events[0] if len(events) == 1 else dp_accounting.ComposedDpEvent(events)

    @property
    def neighboring_relation(self) -> Any:
        """REPLACE_ONE or ADD_OR_REMOVE_ONE, as our adjacency says."""
        import dp_accounting

        relations = dp_accounting.NeighboringRelation
        return (
            relations.REPLACE_ONE
            if self.adjacency is Adjacency.REPLACE_ONE
            else relations.ADD_OR_REMOVE_ONE
        )

    def _renyi_curve(self) -> Any:
        curves = [(part._renyi_curve(), count) for part, count in self.parts]
        if any(curve is None for curve, _ in curves):
            return None
        return SummedCurve(tuple(RepeatedCurve(curve, count) for curve, count in curves))

    def _gaussian_bound(self) -> float | None:
        mus = [(part._gaussian_bound(), count) for part, count in self.parts]
        if any(mu is None for mu, _ in mus):
            return None
        return math.hypot(*(mu * math.sqrt(count) for mu, count in mus))

    def _parts(self) -> Any:
        return self.parts


LARGEST_LOSS = 600.0  # e^loss of larger losses could overflow
COARSEST, FEWEST = 512, 16  # points from 0 to the largest loss of a part: of the first grid, of any
MAX_POINTS = 2**20  # largest number of points of a grid, before or after composition
MAX_RELEASES = 10**10  # composed numerically


@lru_cache(maxsize=64)
def discretised(parts: tuple[tuple[Any, int], ...], accuracy: Any = ACCURACY) -> Losses | None:
    """Compose losses on a grid fine enough for ``accuracy``; None if they are too large."""
    if sum(count for _, count in parts) > MAX_RELEASES:
        return None
    span = max(largest_loss(part) for part, _ in parts)
    if not span <= LARGEST_LOSS:
        return None
    span = max(span, 1e-12)
    limit = int(MAX_POINTS * min(1.0, span / _reach(parts, span)))
    best: Any = None
    before, points, factor = math.inf, min(COARSEST, limit), 4.0
    while FEWEST <= points <= limit:
        try:
            losses = _composed(parts, span / points)
            after = _size(losses)
        except (ZeroDivisionError, OverflowError):
            # losses that are too small for a grid in double precision, or too many
            break
        if not after < before:  # rounding has taken over
            break
        best = losses
        # The error falls with the square of the interval, so that two grids tell how fine the next
        # must be
        error = (before - after) / (factor**2 - 1) / (accuracy * after)
        before = after
        if error <= 1:
            break
        factor = min(1.1 * math.sqrt(error), 32.0, limit / points)
        if factor < 1.1:
            break
        points = int(points * factor)
    return best


def _reach(parts: tuple[tuple[Any, int], ...], span: float) -> float:
    """Estimate the length of the composed grid, by Chernoff bounds."""
    second_moment = 0.0
    # E[L^2] = 2 int (t + 1) delta(t) dt on the positive side, about the same on the other
    for part, count in parts:
        losses = np.append(0.0, np.geomspace(1e-6 * span, span, 400))
        second_moment += 4 * count * np.trapezoid((losses + 1) * profile(part, losses), losses)
    return 2 * span + (
        _spread(second_moment, span) if sum(count for _, count in parts) > 1 else 0.0
    )


def _spread(second_moment: float, span: float) -> float:
    tilt = min(max(math.sqrt(69 / max(second_moment, 1e-300)), 0.5 / span), 10 / span)
    return tilt * second_moment + 69 / tilt


@singledispatch
def profile(part: Any, epsilon: Array) -> Array:
    """Return delta of one part at epsilons >= 0, the larger of both directions."""
    return part.delta(epsilon)


@profile.register
def _(part: SampledGaussian, epsilon: Array) -> Array:
    return np.max([_hockey_stick(one, part, epsilon) for one in _directions(part)], axis=0)


def _size(losses: Any) -> float:
    """Return epsilon at a small and at a large delta: a grid is judged by both."""
    top, least = float(losses.delta(0.0)), 2 * float(losses.delta(math.inf))
    return sum(losses.epsilon(max(delta, least)) for delta in (1e-6, top / 2)) or top


def _composed(parts: tuple[tuple[Any, int], ...], interval: float) -> Losses:
    masses = [loss_masses(part, interval) for part, _ in parts]
    n_directions = max(len(both) for both in masses)
    directions = []
    for i in range(n_directions):
        repeated = zip(masses, parts, strict=True)
        direction = tuple((both[i % len(both)], count) for both, (_, count) in repeated)
        directions.append(Direction(interval, direction))
    return Losses(tuple(directions))


@singledispatch
def largest_loss(part: Any) -> float:
    """Return the loss beyond which a part's grid ends."""
    tail = max(1e-25, float(part.delta(math.inf)) * (1 + 1e-12))
    return part.epsilon(min(tail, 1.0))


@largest_loss.register
def _(part: SampledGaussian) -> float:
    shift, q = part._shift, part.sampling_probability
    unsampled = shift * shift / 2 + 11 * shift
    if not 1e-300 < q < 1 or unsampled > LARGEST_LOSS:
        return unsampled
    # densities of mixtures have ratios of at most (1 - q + q e^unsampled) / (1 - q)
    return min(unsampled, math.log1p(q * math.expm1(unsampled) / (1 - q)))


@singledispatch
def loss_masses(part: Any, interval: float) -> tuple[Masses, ...]:
    """Return a part's discretised losses: one if both directions are alike, else (remove, add)."""
    steps = max(1, math.ceil(largest_loss(part) / interval))
    epsilon = interval * np.arange(steps + 1)
    delta = _convex(np.exp(epsilon), np.minimum(part.delta(epsilon), 1.0))
    return (connect_dots(delta, delta, interval),)


@loss_masses.register
def _(part: SampledGaussian, interval: float) -> tuple[Masses, ...]:
    epsilon = interval * np.arange(math.ceil(largest_loss(part) / interval) + 1)
    delta = [_hockey_stick(direction, part, epsilon) for direction in _directions(part)]
    return tuple(
        connect_dots(above, swapped, interval)
        for above, swapped in zip(delta, delta[::-1], strict=True)
    )


def _directions(part: Any) -> tuple[str, ...]:
    """Return the names of the dominating pairs of a Poisson-sampled Gaussian."""
    return ("replace",) if part.adjacency is Adjacency.REPLACE_ONE else ("remove", "add")


def _hockey_stick(direction: str, part: Any, epsilon: Array) -> Array:
    """Return P(A) - e^epsilon Q(A) at many epsilons >= 0, A where P > e^epsilon Q.

    It is made of positive terms, profiles of Gaussians without sampling, so that it has its digits
    in the tails too. Under replace_one, with e the edge of A, phi(x) M(x) the tail of the normal
    law, and both densities equal at e, it is

        q e^epsilon phi(e + m) (M(e - m) - M(e + m)) + (1 - q) (e^epsilon - 1) phi(e) (M(e - m) -
        M(e)).
    """
    q, m = part.sampling_probability, 1 / part.noise_multiplier
    if direction == "replace":  # the edge is a root of a quadratic equation in e^(m x)
        edge = (
            epsilon / 2 + np.arcsinh((1 - q) / q * np.exp(m * m / 2) * np.sinh(epsilon / 2))
        ) / m
        log_ratio = m * edge - m * m / 2  # of densities of N(m, 1) and N(0, 1) on the edge
        both = q * np.exp(epsilon - 2 * m * edge + gdp_log_deltas(2 * m * edge, 2 * m))
        one = np.exp(epsilon - log_ratio + gdp_log_deltas(np.maximum(log_ratio, 0.0), m))
        swapped = np.exp(epsilon + gdp_log_deltas(np.maximum(-log_ratio, 0.0), m))
        swapped += np.exp(epsilon) * np.expm1(np.maximum(-log_ratio, 0.0))
        one = np.where(log_ratio >= 0, one, swapped)
        delta = both + (1 - q) * -np.expm1(-epsilon) * one
    elif direction == "remove":
        delta = q * np.exp(gdp_log_deltas(np.log1p(np.expm1(epsilon) / q), m))
    else:
        # the ratio of N(m, 1) and N(0, 1) on the edge, so that nothing near 1 cancels
        ratio = np.expm1(-epsilon) + q if q < 0.5 else np.exp(-epsilon) - (1 - q)
        ratio = np.maximum(ratio / q, 0.0)
        with np.errstate(divide="ignore"):
            near_1 = np.log1p(np.maximum(np.expm1(-epsilon) / q, -0.9))
            log_ratio = np.where(ratio < 0.5, np.log(ratio), near_1)
        delta = q * ratio * np.exp(epsilon + gdp_log_deltas(-log_ratio, m))
    return np.clip(delta, 0.0, 1.0)


def _convex(gamma: Array, delta: Array) -> Array:
    """Return the largest convex nonincreasing minorant of points: profiles are convex in gamma."""
    delta = np.minimum.accumulate(delta)
    slope = np.diff(delta) / np.diff(gamma)
    if np.all(np.diff(slope) >= -1e-12 * np.abs(slope[:-1])):
        return delta
    hull: list[tuple[float, float]] = []
    for point in zip(np.append(0.0, gamma).tolist(), np.append(1.0, delta).tolist(), strict=True):
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (point[0] - hull[-2][0]) >= (
            point[1] - hull[-2][1]
        ) * (hull[-1][0] - hull[-2][0]):
            hull.pop()
        hull.append(point)
    return np.interp(gamma, *np.transpose(hull))


def _sampled_event(sampling_probability: float, noise_multiplier: float) -> Any:
    import dp_accounting

    return dp_accounting.PoissonSampledDpEvent(
        sampling_probability, dp_accounting.GaussianDpEvent(noise_multiplier)
    )
