"""Numerical composition of privacy loss distributions, discretised on the safe side."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, reduce
from typing import Annotated, Any, TypeAlias

import numpy as np
from scipy import optimize, special

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._numerics import by_element, gdp_log_deltas
from skdpdyn.privacy._types import Array, Floats
from skdpdyn.privacy.checks import MAX_STEPS, checked_count, checked_number, quoted
from skdpdyn.privacy.fields import Checked, Count, Failure, number
from skdpdyn.privacy.guarantees import (
    Adjacency,
    GaussianDP,
    Guarantee,
    Neighbours,
    Unit,
    Wrapped,
    check_alike,
    composes_numerically,
    dp_accounting,
)
from skdpdyn.privacy.loss_grids import (
    MOST_COMPOSED,
    Direction,
    Goal,
    Losses,
    Masses,
    best_seen,
    best_tilt,
    connect_dots,
    events,
    rare_from,
    split,
    tilted,
)
from skdpdyn.privacy.renyi import ApproximateDP, Curve, RenyiDP, SummedCurve, adjacency_of
from skdpdyn.privacy.sampled import Noise, Sampled, SampledCurve
from skdpdyn.privacy.stored import stored, stored_part


class Pair(Guarantee):
    """A guarantee by a dominating pair of laws, whose profiles in both directions are known."""

    _of_pair = True

    def _delta(self, epsilon: Array) -> Any:
        flat = np.minimum(epsilon.ravel(), LARGEST_LOSS)  # delta is no larger beyond
        return np.max(self._profiles(flat), axis=0).reshape(epsilon.shape)

    @property
    def neighboring_relation(self) -> Any:
        """REPLACE_ONE or ADD_OR_REMOVE_ONE, as our adjacency says."""
        return _relation(self.adjacency)


def _relation(adjacency: Any) -> Any:
    relations = dp_accounting().NeighboringRelation
    replaced = adjacency is Adjacency.REPLACE_ONE
    return relations.REPLACE_ONE if replaced else relations.ADD_OR_REMOVE_ONE


@stored
@dataclass(frozen=True)
class SampledGaussian(Pair):
    """One step of the Poisson-sampled Gaussian mechanism, by its dominating pair.

    add_remove: (1-q) N(0, z^2) + q N(1, z^2) against N(0, z^2), and the reverse. replace_one:
    against (1-q) N(0, z^2) + q N(-1, z^2).

    Parameters
    ----------
    sampling_probability : float
        Probability q that a record is in the batch.
    noise_multiplier : float
        Standard deviation z of the noise over the bound on one record's contribution.
    adjacency : {"replace_one", "add_remove"}
        The neighbouring relation.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.
    """

    sampling_probability: Sampled
    noise_multiplier: Noise
    adjacency: Neighbours
    unit: Unit = field(default="record", metadata={"optional": True})

    def _profiles(self, epsilon: Array) -> tuple[Array, ...]:
        replaced = self.adjacency is Adjacency.REPLACE_ONE
        names = ("replace",) if replaced else ("remove", "add")
        return tuple(sampled_profile(name, self, epsilon) for name in names)

    def _reach(self, tail: float) -> float:
        # N(m, 1) and N(0, 1), and so their mixture, exceed the edge with at most that probability
        q = self.sampling_probability
        m = 1 / self.noise_multiplier
        edge = m - float(special.ndtri_exp(math.log(tail)))
        with np.errstate(divide="ignore"):
            log_q = np.log(q)
            log_rest = np.log1p(-q)
            up = float(np.logaddexp(log_rest, log_q + m * edge - m * m / 2))
            down = float(np.logaddexp(log_rest, log_q - m * edge - m * m / 2))
        return up - down if self.adjacency is Adjacency.REPLACE_ONE else max(up, -down)

    @property
    def dp_event(self) -> Any:
        """``PoissonSampledDpEvent`` of a Gaussian one."""
        library = dp_accounting()
        noise = library.GaussianDpEvent(self.noise_multiplier)
        return library.PoissonSampledDpEvent(self.sampling_probability, noise)

    def _gaussian_bound(self) -> float:
        # joint convexity: sampling never hurts
        return self.adjacency.sum_sensitivity(1.0) / self.noise_multiplier

    def _renyi_curve(self) -> Any:
        return SampledCurve(self.sampling_probability, self.noise_multiplier, self.adjacency)


def sampled_profile(direction: str, part: Any, epsilon: Array) -> Array:
    """Return P(A) - e^epsilon Q(A) at many epsilons >= 0, A where P > e^epsilon Q.

    It is made of positive terms, profiles of Gaussians without sampling, so that it has its digits
    in the tails too. Under replace_one, with e the edge of A, phi(x) M(x) the tail of the normal
    law, and both densities equal at e, it is

        q e^epsilon phi(e + m) (M(e - m) - M(e + m)) + (1 - q) (e^epsilon - 1) phi(e) (M(e - m) -
        M(e)).
    """
    q = part.sampling_probability
    m = 1 / part.noise_multiplier
    if direction == "replace":  # the edge is a root of a quadratic equation in e^(m x)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            root = np.arcsinh((1 - q) / q * np.exp(m * m / 2) * np.sinh(epsilon / 2))
            root = np.where(epsilon > 0, root, 0.0)  # no product of 0 and an infinity
            # arcsinh(x) of huge x is log(2 x), where x itself overflows
            log_double = np.log1p(-q) - np.log(q) + (m * m + epsilon) / 2
            log_double = log_double + np.log(-np.expm1(-epsilon))
        edge = (epsilon / 2 + np.where(np.isfinite(root), root, log_double)) / m
        log_ratio = m * edge - m * m / 2  # of densities of N(m, 1) and N(0, 1) on the edge
        both = q * np.exp(epsilon - 2 * m * edge + gdp_log_deltas(2 * m * edge, 2 * m))
        sampled_once = np.exp(epsilon - log_ratio + gdp_log_deltas(np.maximum(log_ratio, 0.0), m))
        swapped = np.exp(epsilon + gdp_log_deltas(np.maximum(-log_ratio, 0.0), m))
        swapped += np.exp(epsilon) * np.expm1(np.clip(-log_ratio, 0.0, 700.0))
        sampled_once = np.where(log_ratio >= 0, sampled_once, swapped)
        delta = both + (1 - q) * -np.expm1(-epsilon) * sampled_once
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


@stored
@dataclass(frozen=True)
class TruncatedGaussian(Wrapped, Pair):
    """One step of Poisson batches that are cut, by a dominating pair (arXiv 2508.15089).

    Fix the other records, and let O be how many of them the step draws. With O < B, the step is a
    `SampledGaussian`. Given O >= B, the batch without the record is a uniform subset S of B others,
    whatever O is. With probability q B / (O + 1), on average q', the record takes the place of a
    uniformly random one of S: then the sum moves by at most 2 C, and for either neighbour. So the
    sums are mixtures with shifts of at most 2 / z, of which opposite ones are worst, under both
    adjacencies (whether or not a record that vanishes would still push another out). Which of
    O < B and O >= B it was is taken to be known: convexity. O + 1 of n is binomial, and q' P(O >=
    B) = B/n P(Binomial(n, q) > B).

    Parameters
    ----------
    n_samples, batch_size : int
        Number n of records, and most B of a batch.
    sampled : SampledGaussian
        The step without a bound on batches.
    """

    n_samples: Count
    batch_size: Count
    sampled: SampledGaussian

    _inside = "sampled"

    def _profiles(self, epsilon: Array) -> tuple[Array, ...]:
        cut, pushed = self.pushed
        profiles = self.sampled._profiles(epsilon)
        if cut < _HARDLY:
            return tuple(np.minimum(profile + cut, 1.0) for profile in profiles)
        more = cut * sampled_profile("replace", pushed, epsilon)
        return tuple((1 - cut / _ROOM**2) * profile + more for profile in profiles)

    def _reach(self, tail: float) -> float:
        return max(direction._reach(tail) for direction in {self.sampled, self.pushed[1]})

    @cached_property
    def pushed(self) -> tuple[float, SampledGaussian]:
        """P(O >= B), and the step given that."""
        n = self.n_samples
        size = self.batch_size
        q = self.sampled.sampling_probability
        cut = most_cut(n, size, q)
        if size >= n or cut < _HARDLY:
            return cut, self.sampled
        larger = special.betainc(size + 1, n - size, q) * _ROOM**3
        within = min(size / n * larger / cut, q) or q  # 0: of no double
        noise = self.sampled.noise_multiplier / 2
        return cut, SampledGaussian(float(within), noise, Adjacency.REPLACE_ONE)

    @property
    def dp_event(self) -> Any:
        """``TruncatedSubsampledGaussianDpEvent``."""
        return dp_accounting().dp_event.TruncatedSubsampledGaussianDpEvent(
            self.n_samples,
            self.sampled.sampling_probability,
            self.batch_size,
            self.sampled.noise_multiplier,
        )

    def _gaussian_bound(self) -> float | None:
        return 4 / self.sampled.noise_multiplier

    def _renyi_curve(self) -> Any:
        return TruncatedCurve(self)


_ROOM = 1 + 1e-6  # for errors of incomplete beta functions
_HARDLY = 1e-60  # probability of a cut below which it may cost all


def most_cut(n_samples: int, batch_size: int, sampling_probability: float) -> float:
    """Return the probability that a step cuts its batch, with a record or without it, rounded up.

    0 only where no batch has more records.
    """
    if batch_size >= n_samples:
        return 0.0
    cut = special.betainc(batch_size, n_samples - batch_size, sampling_probability)
    return float(min(max(cut, 1e-300) * _ROOM, 1.0))


@stored_part
@dataclass(frozen=True)
class TruncatedCurve:
    """The Renyi curve of a `TruncatedGaussian`: that of the pair of both steps, told which it was.

    Of the one in which the record may push out another, the curve without sampling is taken.
    """

    part: TruncatedGaussian

    @property
    def adjacency(self) -> Any:
        """The neighbouring relation."""
        return self.part.adjacency

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        order = np.asarray(order, dtype=float)
        (cut, _) = self.part.pushed
        log_moment = (order - 1) * self.part.sampled._renyi_curve()(order)
        pushed = (order - 1) * order * 8 / self.part.sampled.noise_multiplier**2
        with np.errstate(divide="ignore"):
            return (np.logaddexp(log_moment, np.log(cut) + pushed) / (order - 1))[()]


@stored_part
@dataclass(frozen=True)
class RepeatedCurve(Checked):
    """A Renyi curve, ``count`` times."""

    curve: Curve
    count: Count

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        return self.count * self.curve(order)

    @property
    def adjacency(self) -> Any:
        """Adjacency of the curve, or None."""
        return adjacency_of(self.curve)


ACCURACY = 5e-6  # relative error of epsilon at which the grid is fine enough
Accuracy: TypeAlias = Annotated[float, number(lambda x: 0 < x < 1, "a number in (0, 1)")]


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
    parts : sequence of (Guarantee, int)
        The parts, each with its number of repetitions.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation that all parts hold for.
    accuracy : float, default=5e-6
        Relative error of epsilon at which the grid is fine enough, in (0, 1). A coarser grid is
        faster, and a bound all the same.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.
    failure : float, default=0.0
        Probability in [0, 1) of an event in which the guarantee does not hold, those of Gaussian
        parts included, see `GaussianDP`: at the end it adds (1 + exp(epsilon)) times this to delta.

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
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    accuracy: Accuracy = field(default=ACCURACY, metadata={"optional": True})
    unit: Unit = "record"
    failure: Failure = field(default=0.0, metadata={"optional": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parts:
            raise ValueError("parts=() must hold at least one release")
        counts: dict[Any, int] = {}
        curves: list[Guarantee] = []
        gaussian: Any = GaussianDP(0.0, self.adjacency, self.failure, self.unit)
        for part, count in self.parts:
            self._check_part(part)
            checked_count(count, f"{quoted(part)}: count", largest=MAX_STEPS)
            if type(part) is GaussianDP:
                failure = min(count * part.failure, 1 - 2**-53)
                gaussian = gaussian.compose(
                    replace(part, mu=part.mu * math.sqrt(count), failure=failure)
                )
            elif type(part) is RenyiDP:  # their sum says more than a grid of each
                curve = part.curve if count == 1 else RepeatedCurve(part.curve, count)
                curves.append(replace(part, curve=curve))
            else:
                counts[part] = counts.get(part, 0) + count
        if curves:
            counts[reduce(Guarantee.compose, curves)] = 1
        if gaussian.mu > 0 or not counts:
            counts[replace(gaussian, failure=0.0)] = 1
        object.__setattr__(self, "parts", tuple(counts.items()))
        object.__setattr__(self, "failure", gaussian.failure)

    def _check_part(self, part: Any) -> None:
        """Refuse costs that cannot be composed, or that protect another unit."""
        if not isinstance(part, Guarantee):
            raise ValueError(f"a part of parts is a {type(part).__name__}: all must be guarantees")
        if getattr(part, "failure", 0.0) and type(part) is not GaussianDP:
            raise UnsupportedMechanismError(
                f"part {quoted(part)} fails with some probability, which numerical composition "
                "does not know"
            )
        check_alike(self, part)

    def _delta(self, epsilon: Array) -> Any:
        if self.failure:
            return by_element(self._failing_delta, epsilon)
        others = self._others()
        renyi = self._renyi()
        delta = np.min([np.ones(epsilon.shape), *(each.delta(epsilon) for each in others)], axis=0)
        if not np.any(delta):
            return delta
        if renyi is not None:  # at few orders, to say where to look
            delta = np.minimum(delta, renyi._deltas(epsilon, rough=True))
        losses = self._losses([*others, renyi], float(np.max(delta, initial=0.0)))
        if losses is not None:
            delta = np.minimum(delta, losses.delta(epsilon, delta))
        if renyi is not None and (losses is None or not losses.holds(float(np.min(delta)))):
            delta = np.minimum(delta, renyi.delta(epsilon))
        largest = self._largest_loss
        return delta if largest == math.inf else np.where(epsilon >= largest, 0.0, delta)

    def _epsilon(self, delta: float) -> float:
        if self.failure:
            return super()._epsilon(delta)
        bounds: list[Any] = []
        if delta > 0:  # at 0 nothing is less than the largest loss
            bounds = self._others()
            renyi = self._renyi()
            losses = self._losses([*bounds, renyi], delta)
            if renyi is not None and (losses is None or not losses.holds(delta)):
                bounds.append(renyi)
            bounds = bounds if losses is None else [losses, *bounds]
        return min(self._largest_loss, *(each.epsilon(delta) for each in bounds), math.inf)

    @cached_property
    def _largest_loss(self) -> float:
        if self.failure:
            return math.inf
        largest = math.fsum(count * part.epsilon(0.0) for part, count in self.parts)
        return largest * (1 + 1e-15)  # fsum and products round

    def _start(self, delta: float) -> tuple[float, float]:
        start = replace(self, failure=0.0).epsilon(max(delta - 2 * self.failure, delta / 1e3))
        return start, start / 10

    def _failing_delta(self, epsilon: float) -> float:
        """Return delta, failures included, at ``epsilon`` or at a smaller one where it is less."""
        surely = replace(self, failure=0.0)
        best = min(epsilon, _least_failing(surely, self.failure))
        return min(1.0, surely.delta(best) + (1 + math.exp(best)) * self.failure)

    def with_unit(self, unit: str) -> Any:
        """See `Guarantee.with_unit`."""
        parts = tuple((part.with_unit(unit), count) for part, count in self.parts)
        return replace(self, parts=parts, unit=unit)

    def with_accuracy(self, accuracy: Any) -> Any:
        """See `Guarantee.with_accuracy`: on another grid."""
        parts = ((part.with_accuracy(accuracy), count) for part, count in self.parts)
        return replace(self, parts=tuple(parts), accuracy=accuracy)

    def error(self, delta: float) -> float:
        """Return the relative error of the numerical epsilon, as far as its last two grids tell.

        It is on the safe side.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            At most ``accuracy`` where a grid was fine enough; infinite where none was.

        Examples
        --------
        >>> from skdpdyn.privacy import LaplaceDP, PrivacyLossDP
        >>> PrivacyLossDP(((LaplaceDP(0.1), 100),)).error(1e-6) < 5e-6
        True
        """
        delta = checked_number(delta, "delta", lambda x: 0 < x < 1, "in (0, 1)")
        losses = ComposedLosses(self.parts, self.accuracy).band(band_number(delta))
        return math.inf if losses is None else losses.error

    @cached_property
    def _is_void(self) -> bool:
        """Whether some part promises nothing."""
        return any(part.delta(math.inf) >= 1 for part, _ in self.parts)

    def _others(self) -> list[Guarantee]:
        """Return the Gaussian bound and the pure one; those that exist."""
        if self._is_void:
            return [ApproximateDP(0.0, 1.0, self.adjacency)]
        mu = self._gaussian_bound()
        others: list[Guarantee] = []
        if mu is not None:
            others.append(GaussianDP(mu, self.adjacency))
        if all(hasattr(part, "at_epsilon") for part, _ in self.parts):  # the sum, at delta = 0
            points = [(n * part.at_epsilon, n * part.at_delta) for part, n in self.parts]
            total, failure = (math.fsum(numbers) for numbers in zip(*points, strict=True))
            others.append(ApproximateDP(total * (1 + 1e-15), min(failure, 1.0), self.adjacency))
        return others

    def _renyi(self) -> RenyiDP | None:
        """Return the Renyi bound."""
        curve = None if self._is_void else self._renyi_curve()
        return None if curve is None else RenyiDP(curve, self.adjacency)

    def _losses(self, others: list[Any], delta: float) -> "ComposedLosses | None":
        """Return the numerical bound for deltas up to one, where there is any."""
        if self._is_void or delta <= EDGES[-1]:
            return None
        losses = ComposedLosses(self.parts, self.accuracy)
        if losses.band(band_number(delta)) is not None:
            return losses
        if not any(others):
            raise UnsupportedMechanismError(
                f"composition of {[type(part).__name__ for part, _ in self.parts]}: the privacy "
                "losses are too large to be "
                "discretised, and no closed form is known. Use more noise, or account the parts "
                "in one family"
            )
        return None

    @property
    def dp_event(self) -> Any:
        """The parts as events, composed; of Gaussian and Poisson-sampled parts."""
        # PLDAccountant(REPLACE_ONE) reads a GaussianDpEvent as sensitivity 1 for adding, hence 2
        # for replacing
        if self.failure:
            raise UnsupportedMechanismError(
                f"failure={self.failure!r}: no dp_accounting event says that a guarantee may fail "
                "with some probability. Use its epsilon and delta"
            )
        unit = self.adjacency.sum_sensitivity(1.0)
        library = dp_accounting()
        events = []
        for part, count in self.parts:
            if type(part) is GaussianDP:
                events.append(library.GaussianDpEvent(unit / part.mu))
                continue
            if part.neighboring_relation != self.neighboring_relation:
                raise UnsupportedMechanismError(
                    f"{type(part).__name__} has no dp_accounting event for {self.adjacency}"
                )
            events.append(library.SelfComposedDpEvent(part.dp_event, count))
        return events[0] if len(events) == 1 else library.ComposedDpEvent(events)

    @property
    def neighboring_relation(self) -> Any:
        """REPLACE_ONE or ADD_OR_REMOVE_ONE, as our adjacency says."""
        return _relation(self.adjacency)

    def _renyi_curve(self) -> Any:
        curves = [(part._renyi_curve(), count) for part, count in self.parts]
        if self.failure or any(curve is None for curve, _ in curves):
            return None
        return SummedCurve(tuple(RepeatedCurve(curve, count) for curve, count in curves))

    def _gaussian_bound(self) -> float | None:
        mus = [(part._gaussian_bound(), count) for part, count in self.parts]
        if self.failure or any(mu is None for mu, _ in mus):
            return None
        return math.hypot(*(mu * math.sqrt(count) for mu, count in mus))

    def _parts(self) -> Any:
        failing = GaussianDP(0.0, self.adjacency, self.failure, self.unit)
        return (*self.parts, (failing, 1)) if self.failure else self.parts


@lru_cache(maxsize=64)
def _least_failing(guarantee: PrivacyLossDP, failure: float) -> float:
    """Return about where delta plus (1 + e^epsilon) failure is least, from below.

    It is convex in e^epsilon, so that it falls up to there.
    """
    high = min(guarantee.epsilon(failure / 2), LARGEST_LOSS)

    def cost(epsilon: float) -> float:
        return guarantee.delta(epsilon) + (1 + math.exp(epsilon)) * failure

    least = optimize.minimize_scalar(
        cost, bounds=(0.0, high), method="bounded", options={"xatol": 1e-4 * high}
    )
    return max(least.x - 2e-4 * high, 0.0)


LARGEST_LOSS = 600.0  # e^loss of larger losses could overflow
COARSEST = 512
FEWEST = 16  # points from 0 to the largest loss of a part: of the first grid, of any
MAX_POINTS = 2**20  # largest number of points of a part's grid
FINEST = 2**16  # and of its fine part
MAX_RELEASES = 10**10  # composed numerically
CUT = 1e-6  # part of delta that the losses beyond the grids may have
# no delta that is often asked for is near to an edge
_DECADES = (0, *(decade + 0.55 for decade in range(31)), 35, 40, 50, 60, 80, 100, 150, 200, 290)
EDGES = tuple(10.0**-decade for decade in _DECADES)
"""Deltas between which one grid serves, from 1 down: each has its own largest losses and tilt."""
_NEAR_EDGE = 1.05  # deltas this near to an edge are compared with what the next grid says there
_SETTLED = 2e-4  # relative errors of epsilon below which answers fall across such an edge
_OFTEN = 30  # repetitions from which on a grid must see usual losses


@dataclass(frozen=True)
class ComposedLosses:
    """Losses of parts, each delta by the grid of its band: between two of `EDGES`.

    A bound at a smaller delta, or at a smaller epsilon, is one too. With it both answers are
    monotone across an edge, where grids differ by up to the ``accuracy``.
    """

    parts: tuple[tuple[Any, int], ...]
    accuracy: float

    def band(self, number: int) -> Any:
        """Return the losses on the grid of a band, or of the nearest of larger deltas with one.

        None where there is none: `PrivacyLossDP` asks no further then.
        """
        losses = discretised(self.parts, self.accuracy, number)
        return self.band(number - 1) if losses is None and number else losses

    def delta(self, epsilon: Floats, bound: Floats = 1.0) -> Any:
        """Return delta at ``epsilon``; a known ``bound`` says where to look first."""
        return by_element(self._delta, epsilon, bound)

    def _delta(self, epsilon: float, bound: float) -> float:
        before = bound
        number = band_number(bound)
        while True:
            losses = self.band(number)
            edge = EDGES[number]
            delta = losses.delta(epsilon)
            if self._is_rough(number):
                delta = min(delta, self.band(number + 1).delta(epsilon))
            if delta > edge:  # `epsilon` asks this band no more than what holds at its edge
                return before if before > edge else math.nextafter(edge, 1.0)
            after = max(band_number(delta / _NEAR_EDGE), number)
            if after == number:
                return delta
            before = delta
            number = after

    def epsilon(self, delta: float) -> float:
        """Return epsilon at ``delta``."""
        number = band_number(delta)
        epsilon = self.band(number).epsilon(delta)
        after = band_number(delta / _NEAR_EDGE)
        if after > number or self._is_rough(number):
            epsilon = min(epsilon, self.band(number + 1).epsilon(EDGES[number + 1]))
        return epsilon

    def holds(self, delta: float) -> bool:
        """Return whether a Renyi bound says no more than the grid of a delta: that of its pairs."""
        pairs = all(part._of_pair for part, _ in self.parts)
        return pairs and self.band(band_number(delta)).error <= self.accuracy

    def _is_rough(self, number: int) -> bool:
        """Return whether the next band may say less than this one."""
        return self.band(number).error > _SETTLED and number + 2 < len(EDGES)


def band_number(delta: float) -> int:
    """Return the number of the band of a delta."""
    return sum(delta <= edge for edge in EDGES[1:-1])


@lru_cache(maxsize=8)  # a composed grid may take 100 MB
def discretised(
    parts: tuple[tuple[Any, int], ...], accuracy: Any = ACCURACY, band: int = 0
) -> Losses | None:
    """Compose losses on a grid fine enough for ``accuracy``; None if they are too large.

    Parameters
    ----------
    parts : sequence of (Guarantee, int)
        The parts, each with its number of repetitions.
    accuracy : float, default=5e-06
        Relative error of epsilon at which the grid is fine enough.
    band : int, default=0
        Where delta is: between which two of `EDGES`. Larger losses than it needs are put at
        infinity.
    """
    releases = sum(count for _, count in parts)
    if releases > MAX_RELEASES:
        return None
    tail = max(CUT * EDGES[band + 1] / releases, 1e-300)
    span = max(part._reach(tail) for part, _ in parts)
    if not span <= LARGEST_LOSS:
        return None
    span = max(span, 1e-12)
    log_delta = -math.log(10) * (_DECADES[band] + _DECADES[band + 1]) / 2
    refined = [_refined(_Grid(parts, span, tail, log_delta), accuracy)]
    if not refined[0].error <= accuracy:  # losses that no single grid holds
        if math.isfinite(refined[0].size):  # many releases: a loss is far below epsilon
            span = min(max(span, 8 * refined[0].size), LARGEST_LOSS)
        refined.append(_refined(_Grid(parts, span, tail, log_delta, 0.3 * accuracy), accuracy))
    best = min(refined, key=lambda grid: grid.size)
    error = min(grid.error for grid in refined)
    return None if best.losses is None else replace(best.losses, error=error)


@dataclass(frozen=True)
class _Refined:
    """Losses on the finest grid that was tried, their epsilon, and its relative error."""

    losses: Losses | None
    size: float
    error: float


def _refined(grid: "_Grid", accuracy: float) -> _Refined:
    """Return losses on grids that are refined until they are accurate, or as fine as can be."""
    best = None
    error = math.inf
    before = math.inf
    points = COARSEST
    factor = 4.0
    limit = MAX_POINTS // 4 if grid.rare else MAX_POINTS
    while FEWEST <= points <= limit:
        try:
            losses = grid.composed(points, before)
            after = _size(losses, grid.log_delta)
        except OverflowError:  # too many losses for the grid
            if best is not None:
                break
            limit = points // 2
            points = points // 4
            continue
        except ZeroDivisionError:  # losses that are too small for a grid in double precision
            break
        if not after < before:  # rounding has taken over
            break
        best = losses
        longest = max(event.probs.size for side in losses.directions for event in side.events)
        limit = min(limit, int(0.8 * points * MOST_COMPOSED / longest))
        # The error falls with the square of the interval, so that two grids tell how fine the next
        # must be
        error = (before - after) / grid.gained(factor) / after
        before = after
        if error <= accuracy:
            break
        refined = 1.1 * math.sqrt(error / accuracy) if error < math.inf else 16.0
        factor = min(refined, 32.0, limit / points)
        out_of_reach = not grid.rare and refined > 4 * limit / points  # two grids are nearer
        if out_of_reach or factor < (2.0 if grid.rare else 1.1):  # not worth its time
            break
        points = int(points * factor)
    return _Refined(best, before, error if grid.sees_usual_losses(best) else math.inf)


def _size(losses: Losses, log_delta: float) -> float:
    """Return the epsilon by which a grid is judged: at a delta, or at half of delta(0)."""
    top = losses.delta(0.0)
    least = 2 * losses.delta(math.inf)
    return losses.epsilon(max(min(math.exp(log_delta), top / 2), least)) or top


@dataclass(frozen=True)
class _Grid:
    """Parts on grids from 0 to a largest loss, for deltas near one.

    Attributes
    ----------
    parts : tuple of (Guarantee, int)
        The parts, each with its number of repetitions.
    span, tail : float
        The largest loss, and the probability of what lies beyond.
    log_delta : float
        Logarithm of the delta.
    rare : float
        Largest probability of losses that have a coarse grid of their own, under the tilt; 0: all
        are on one grid.
    """

    parts: tuple[tuple[Any, int], ...]
    span: float
    tail: float
    log_delta: float
    rare: float = 0.0

    @property
    def usual(self) -> float:
        """The least usual loss of a part that is repeated often: about its mean size, halved."""
        often = (part for part, count in self.parts if count >= _OFTEN)
        return min((part.advantage for part in often), default=math.inf)

    def gained(self, factor: float) -> float:
        """Return how many errors of the finer of two grids lie between both."""
        return min(factor**2 - 1, 63) if self.rare else factor**2 - 1

    def sees_usual_losses(self, losses: Losses | None) -> bool:
        """Return whether a grid sees usual losses: others may agree and be wrong."""
        if self.rare or losses is None:
            return True
        return losses.directions[0].events[0].interval <= self.usual / 4

    def composed(self, points: int, epsilon: float) -> Losses:
        """Return the losses on a grid of so many points; OverflowError if those are too many.

        ``epsilon`` is nearly the answer, or infinite.
        """
        interval = self.span / points
        cells = [max(1, math.ceil(p._reach(self.tail) / interval)) for p, _ in self.parts]
        masses = [
            loss_masses(part, interval * np.arange(n + 1))
            for (part, _), n in zip(self.parts, cells, strict=True)
        ]
        counts = [count for _, count in self.parts]
        directions = range(max(len(both) for both in masses))
        each: Any = [
            [(both[i % len(both)], count) for both, count in zip(masses, counts, strict=True)]
            for i in directions
        ]
        goal = Goal(self.log_delta, epsilon)
        if self.rare:
            tilts = [best_tilt(parts, interval, Goal(self.log_delta)) for parts in each]
            for k, (part, count) in enumerate(self.parts):
                rare = max(self.rare, min(8 / count, 0.02))
                first = max(
                    rare_from(parts[k][0], tilt * interval, rare)
                    for parts, tilt in zip(each, tilts, strict=True)
                )
                first = min(first, cells[k])
                if epsilon < math.inf:
                    first = best_seen(each, k, first, interval, goal)
                ratio = 2 ** min(round(math.log2(count) / 2), int(math.log2(FINEST / first)))
                if ratio < 2:
                    continue
                fine = interval / ratio * np.arange(first * ratio)
                both = loss_masses(part, np.append(fine, interval * np.arange(first, cells[k] + 1)))
                for i in directions:
                    masses_and_count = both[i % len(both)], count
                    each[i][k] = (
                        split(masses_and_count, first * ratio, ratio, interval, self.log_delta),
                        count,
                    )
        return Losses(
            tuple(
                Direction(
                    tuple(
                        tilted(parts, interval, best_tilt(parts, interval, goal, event), event)
                        for event in events(parts)
                    )
                )
                for parts in each
            )
        )


def loss_masses(part: Guarantee, epsilon: Array) -> tuple[Masses, ...]:
    """Return a part's losses on a grid: one if both directions are alike, else (remove, add)."""
    delta = part._profiles(epsilon)
    for profile in delta:  # both are P(A) - Q(A) at 0: `connect_dots` takes them to agree
        profile[0] = max(each[0] for each in delta)
    return tuple(
        connect_dots(above, swapped, epsilon)
        for above, swapped in zip(delta, delta[::-1], strict=True)
    )
