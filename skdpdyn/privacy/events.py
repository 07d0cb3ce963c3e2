"""Events of ``dp_accounting`` as guarantees: the way in; the way out is ``guarantee.dp_event``."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy.accountants import perturbation, selection, subsampling
from skdpdyn.privacy.checks import MAX_STEPS, checked_count
from skdpdyn.privacy.guarantees import (
    Adjacency,
    ApproximateDP,
    GaussianDP,
    Guarantee,
    LinearCurve,
    RenyiDP,
)
from skdpdyn.privacy.mechanisms import (
    DiscreteLaplace,
    Laplace,
    PoissonSubsampled,
    RandomizedResponse,
    Selection,
    TruncatedPoisson,
)
from skdpdyn.privacy.mixtures import SubsampledDP
from skdpdyn.privacy.numerical import MixedGaussian, PrivacyLossDP, RepeatedCurve


def from_dp_event(event: Any, *, relation: Any, adjacency: str) -> Guarantee:
    """Return the guarantee of an event of ``dp_accounting``.

    Events say what a mechanism does with bounded values, and mean different things under different
    relations. So both must be said: ``relation`` is that under which the event would be accounted,
    and ``adjacency`` that for which the guarantee is then said to hold. They may differ for noise
    alone: a noise multiplier over what a *replaced* record changes is an event to be read under
    ADD_OR_REMOVE_ONE, of a guarantee for "replace_one".

    - Gaussian and Laplace noise of multiplier z: mu, or epsilon, is 1/z under ADD_OR_REMOVE_ONE and
      REPLACE_SPECIAL, and 2/z under REPLACE_ONE, where values of norm 1 move by up to 2. Discrete
      Laplace noise: the sensitivity, likewise. Trees of Gaussian noise, each record in one leaf of
      one of them: as one release of the root of the tree's height times the sensitivity.
    - Randomized response, Poisson batches (of Gaussian noise under both relations, of all that has
      a profile under ADD_OR_REMOVE_ONE and REPLACE_SPECIAL), truncated Poisson batches, and batches
      of fixed size (under REPLACE_ONE): where ``relation`` and ``adjacency`` agree.
    - zCDP, which is what it is; repetition and composition; the best of a random number of trials.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        The event.
    relation : dp_accounting.NeighboringRelation
        The relation that it is accounted under. No default.
    adjacency : {"replace_one", "add_remove"}
        The neighbouring relation of the guarantee.

    Returns
    -------
    Guarantee
        ``guarantee.dp_event``, read under ``guarantee.neighboring_relation``, gives it back, where
        there is one.

    Raises
    ------
    UnsupportedMechanismError
        If there is no record for the event, or for one inside it, which is named.
    ValueError
        If a number of an event makes no sense.

    References
    ----------
    B. Balle, G. Barthe, M. Gaboardi (2018), Privacy amplification by subsampling, Theorems 8 and 9.

    Examples
    --------
    >>> from dp_accounting import GaussianDpEvent, NeighboringRelation
    >>> from skdpdyn.privacy import from_dp_event
    >>> event, relations = GaussianDpEvent(4.0), NeighboringRelation
    >>> from_dp_event(event, relation=relations.REPLACE_ONE, adjacency="replace_one").mu
    0.5
    """
    from dp_accounting import NeighboringRelation, dp_event

    if not isinstance(event, dp_event.DpEvent):
        raise ValueError(f"event={event!r} must be a dp_accounting event")
    if not isinstance(relation, NeighboringRelation):
        raise ValueError(f"relation={relation!r} must be one of {[*NeighboringRelation]}")
    reading = _Reading(
        relation is NeighboringRelation.REPLACE_ONE,
        relation is NeighboringRelation.REPLACE_SPECIAL,
        Adjacency(adjacency),
    )
    return reading.of(event)


@dataclass(frozen=True)
class _Reading:
    """Read events under a relation, which ``replaced`` and ``special`` say."""

    replaced: bool
    special: bool
    adjacency: Adjacency

    @property
    def moved(self) -> int:
        """Largest change of a sum of vectors of norm 1."""
        return 2 if self.replaced else 1

    def of(self, event: Any) -> Guarantee:
        """Return the guarantee of an event; types are known by name and where they come from."""
        kind = type(event)
        read = _READERS.get(kind.__name__)
        if read is None or not kind.__module__.startswith("dp_accounting."):
            raise UnsupportedMechanismError(f"{kind.__name__} has no record, and no bound here")
        return read(event, self)

    def nothing(self) -> Guarantee:
        """Return the guarantee of what does not see the records."""
        return GaussianDP(0.0, self.adjacency)

    def all_of(self) -> Guarantee:
        """Return the guarantee of what may show all."""
        return ApproximateDP(0.0, 1.0, self.adjacency)

    def agree(self, event: Any) -> None:
        """Refuse an event that is not only noise, where relation and adjacency differ."""
        if self.replaced != (self.adjacency is Adjacency.REPLACE_ONE):
            raise UnsupportedMechanismError(
                f"{type(event).__name__}: adjacency={self.adjacency!r} must be that of relation, "
                f"which {'replaces' if self.replaced else 'adds or removes'} a record"
            )

    def need(self, event: Any, holds: bool, relations: str) -> None:
        """Refuse an event that means nothing under the relation."""
        if not holds:
            raise UnsupportedMechanismError(
                f"{type(event).__name__} is for relation={relations} alone: take it"
            )
        self.agree(event)


def _noise(make: Callable[..., Any]) -> Callable[[Any, _Reading], Guarantee]:
    """Return the reader of an event with a noise multiplier, whose guarantee ``make`` returns."""

    def read(event: Any, reading: _Reading) -> Guarantee:
        multiplier = _multiplier(event.noise_multiplier)
        if multiplier == 0:
            return reading.all_of()
        return make(multiplier / reading.moved, reading.adjacency)

    return read


def _multiplier(value: Any) -> float:
    if not value >= 0:
        raise ValueError(f"noise_multiplier={value!r} must be a number >= 0")
    return float(value)


def _discrete_laplace(event: Any, reading: _Reading) -> Guarantee:
    if event.noise_parameter == 0:  # as dp_accounting has it
        return reading.all_of()
    return perturbation(
        DiscreteLaplace(
            noise_parameter=event.noise_parameter,
            sensitivity=event.sensitivity * reading.moved,
            adjacency=reading.adjacency,
        )
    )


def _randomized_response(event: Any, reading: _Reading) -> Guarantee:
    holds = reading.replaced or reading.special
    reading.need(event, holds, "REPLACE_ONE or REPLACE_SPECIAL")
    if event.noise_parameter == 0:
        return reading.nothing() if event.num_buckets == 1 else reading.all_of()
    return perturbation(
        RandomizedResponse(
            noise_parameter=event.noise_parameter,
            n_answers=event.num_buckets,
            adjacency=reading.adjacency,
        )
    )


def _tree(event: Any, reading: _Reading) -> Guarantee:
    reading.need(event, reading.special, "REPLACE_SPECIAL")
    steps = event.step_counts if isinstance(event.step_counts, list) else [event.step_counts]
    most = int(max(checked_count(one, "step_counts", largest=MAX_STEPS) for one in steps))
    multiplier = _multiplier(event.noise_multiplier)
    if multiplier == 0:
        return reading.all_of()
    # a leaf is in one complete node of each of so many sizes
    return GaussianDP(math.sqrt(most.bit_length()) / multiplier, reading.adjacency)


def _poisson(event: Any, reading: _Reading) -> Guarantee:
    q = event.sampling_probability
    if not 0 <= q <= 1:
        raise ValueError(f"sampling_probability={q!r} must be in [0, 1]")
    reading.agree(event)
    if q == 0:
        return reading.nothing()
    if q == 1:
        return reading.of(event.event)
    whole = replace(reading, replaced=False).of(event.event)
    if isinstance(whole, GaussianDP) and whole.mu > 0:
        return subsampling(
            PoissonSubsampled(
                sampling_probability=q,
                noise_multiplier=1 / whole.mu,
                n_steps=1,
                adjacency=reading.adjacency,
            )
        )
    if whole.delta(math.inf) >= 1:
        return whole
    reading.need(event, not reading.replaced, "ADD_OR_REMOVE_ONE or REPLACE_SPECIAL")
    return SubsampledDP(whole, q)


def _truncated(event: Any, reading: _Reading) -> Guarantee:
    reading.agree(event)
    if not (event.sampling_probability and event.truncated_batch_size and event.dataset_size):
        return reading.nothing()
    if event.noise_multiplier == 0:
        return reading.all_of()
    return subsampling(
        TruncatedPoisson(
            n_samples=event.dataset_size,
            sampling_probability=event.sampling_probability,
            batch_size=event.truncated_batch_size,
            noise_multiplier=event.noise_multiplier,
            n_steps=1,
            adjacency=reading.adjacency,
        )
    )


def _mixture(event: Any, reading: _Reading) -> Guarantee:
    reading.need(event, not (reading.replaced or reading.special), "ADD_OR_REMOVE_ONE")
    if not any(event.sensitivities):
        return reading.nothing()
    if event.standard_deviation == 0:
        return reading.all_of()
    points = zip(event.sensitivities, event.sampling_probs, strict=True)
    kept = [(size / event.standard_deviation, p) for size, p in points if p > 0]
    mus, weights = zip(*kept, strict=True)
    return PrivacyLossDP(((MixedGaussian(weights, mus), 1),), reading.adjacency)


def _fixed_size(event: Any, reading: _Reading) -> Guarantee:
    reading.need(event, reading.replaced, "REPLACE_ONE")
    n, size = event.source_dataset_size, event.sample_size
    if size == 0:
        return reading.nothing()
    whole = reading.of(event.event)
    return whole if size == n else SubsampledDP(whole, size / n)


def _selection(event: Any, reading: _Reading) -> Guarantee:
    trial = reading.of(event.event)
    return selection(Selection(trial=trial, expected_trials=event.mean, shape=event.shape))


def _composed(event: Any, reading: _Reading) -> Guarantee:
    parts = map(reading.of, event.events)
    return reduce(lambda one, other: one.compose(other), parts, reading.nothing())


def _self_composed(event: Any, reading: _Reading) -> Guarantee:
    count = checked_count(event.count, "count", largest=MAX_STEPS)
    return repeated(reading.of(event.event), count)


def repeated(guarantee: Guarantee, count: int) -> Guarantee:
    """Return what so many releases of one kind cost together.

    Parameters
    ----------
    guarantee : Guarantee
        Guarantee of one of them.
    count : int
        Their number, >= 1.

    Returns
    -------
    Guarantee
    """
    if count == 1 or guarantee.delta(math.inf) >= 1:
        return guarantee
    if type(guarantee) is GaussianDP:
        return replace(guarantee, mu=guarantee.mu * math.sqrt(count))
    if isinstance(guarantee, RenyiDP):
        return replace(guarantee, curve=RepeatedCurve(guarantee.curve, count))
    parts = tuple((part, count * times) for part, times in guarantee._parts())
    return PrivacyLossDP(parts, guarantee.adjacency, unit=guarantee.unit)


_READERS: dict[str, Callable[[Any, _Reading], Guarantee]] = {
    "NoOpDpEvent": lambda event, reading: reading.nothing(),
    "NonPrivateDpEvent": lambda event, reading: reading.all_of(),
    "GaussianDpEvent": _noise(lambda noise, to: GaussianDP(1 / noise, to)),
    "LaplaceDpEvent": _noise(
        lambda noise, to: perturbation(Laplace(noise_multiplier=noise, adjacency=to))
    ),
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "RandomizedResponseDpEvent": _randomized_response,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "PoissonSampledDpEvent": _poisson,
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "SampledWithoutReplacementDpEvent": _fixed_size,
    "MixtureOfGaussiansDpEvent": _mixture,
    "RepeatAndSelectDpEvent": _selection,
    "ZCDpEvent": lambda event, reading: RenyiDP(
        LinearCurve(event.rho, event.xi), reading.adjacency
    ),
    "ComposedDpEvent": _composed,
    "SelfComposedDpEvent": _self_composed,
}
