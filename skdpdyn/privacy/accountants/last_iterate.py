"""The exact price of the last iterate: shifted interpolation, solved as an isotonic regression."""

import math
from typing import Any, NoReturn

import numpy as np
from scipy.optimize import isotonic_regression

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Array, Floats, Mechanism
from skdpdyn.privacy.accountants.registry import accountant
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import (
    CyclicBatches,
    NoisyGradientDescent,
    OnePass,
    check_computable,
    check_index,
    check_positions,
)
from skdpdyn.privacy.mixtures import ProfileMixture
from skdpdyn.privacy.needs import Needs


@accountant(
    "last_iterate: Bok, Su and Altschuler (2024), shifted interpolation",
    needs=Needs(contraction=True, last_iterate_only=True),
)
def last_iterate(mechanism: Mechanism, index: int | None = None) -> NoReturn:
    """Return the smallest mu-GDP guarantee of the last iterate.

    Shifted interpolation (Bok, Su and Altschuler 2024, Shifted interpolation for differential
    privacy), for any schedule of steps and noise, see `last_iterate_mu`. For a constant schedule
    with contraction c it is mu_1 sqrt((1 - c^K)/(1 + c^K) (1 + c)/(1 - c)), attained by a
    quadratic. With a projection, the noise of the last m steps alone hides a start anywhere in the
    set, so the smallest value over m is taken too.

    Hypotheses, each checked on the record: only the last iterate is released; smoothness known;
    every step_size <= 2 / smoothness, so that a step is Lipschitz with constant ``max(|1 -
    step_size strong_convexity|, |1 - step_size smoothness|) <= 1``. Any start chosen without the
    data is allowed. A convex objective (strong_convexity = 0) is covered: its cost is then that of
    `composition`, or of the bounded domain if there is one.

    `CyclicBatches`: a record is in one batch an epoch, so its sensitivity is 0 in all other steps;
    the worst position decides (the last, for equal steps). If the records were shuffled once by a
    secret permutation, the profile is the mean over positions, because the hockey-stick divergence
    is jointly convex: a `ProfileMixture`. `OnePass` with Gaussian noise is like batches of one
    record; with a random stop, the profile is the mean over the stopping times.

    Parameters
    ----------
    mechanism : NoisyGradientDescent, CyclicBatches or OnePass
        Record of the run.
    index : int or None, default=None
        Position of the record in a known order, from 1: of its batch, or of itself in one pass.
        None: the worst position, or the mean over positions if they were shuffled.

    Returns
    -------
    GaussianDP or ProfileMixture

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails, naming it, or for any other record.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent, last_iterate
    >>> m = NoisyGradientDescent(
    ...     n_steps=500,
    ...     noise_multiplier=250.0,
    ...     step_size=0.02,
    ...     strong_convexity=1.0,
    ...     smoothness=4.0,
    ... )
    >>> round(last_iterate(m).mu, 8)
    0.03979786
    """
    raise UnsupportedMechanismError(f"last_iterate has no theorem for {type(mechanism).__name__}")


@last_iterate.register
def _(mechanism: NoisyGradientDescent, index: int | None = None) -> GaussianDP:
    if index is not None:
        raise ValueError(f"index={index!r} must be None: every step takes all records")
    log_contraction, sensitivity, noise_std, diameter = _steps(mechanism)
    steps = log_contraction, sensitivity, noise_std
    if all(value.ndim == 0 for value in steps):
        step = [float(value) for value in steps]
        mu = _constant_mu(mechanism.n_steps, step[0], step[1], step[2], diameter)
    else:
        each = [np.broadcast_to(value, mechanism.n_steps) for value in steps]
        mu = schedule_mu(each[0], each[1], each[2], diameter)
    return GaussianDP(mu, mechanism.adjacency)


@last_iterate.register
def _(mechanism: CyclicBatches, index: int | None = None) -> Guarantee:
    n_batches = mechanism.n_batches
    shuffled = mechanism.order == "shuffled_once"
    *steps, diameter = _steps(mechanism)
    check_positions("last_iterate", n_batches)
    positions = np.arange(1, n_batches + 1)
    if index is not None:
        if shuffled:
            raise ValueError(
                f"index={index!r} must be None: the records were shuffled, nobody's position is "
                "known"
            )
        positions = positions[check_index(index, n_batches, n_batches) - 1 :][:1]
    if diameter is None and all(value.ndim == 0 for value in steps):
        if not shuffled:
            positions = positions[-1:]
        mus = [
            _cyclic_mu(int(j), n_batches, mechanism.n_epochs, *map(float, steps)) for j in positions
        ]
    else:
        each: Any = [np.broadcast_to(value, mechanism.n_steps) for value in steps]
        mus = _position_mus(each[0], each[1], each[2], diameter, n_batches, positions)
    if not shuffled:
        return GaussianDP(max(mus), mechanism.adjacency)
    sizes = np.diff(
        np.append(np.arange(0, mechanism.n_samples, mechanism.batch_size), mechanism.n_samples)
    )
    return ProfileMixture(mus, sizes / mechanism.n_samples, mechanism.adjacency)


@last_iterate.register
def _(mechanism: OnePass, index: int | None = None) -> Guarantee:
    if mechanism.distribution != "gaussian":
        _refuse(f"distribution='gaussian', not {mechanism.distribution!r}")
    if not mechanism.strong_convexity <= mechanism.smoothness:
        _refuse(
            f"strong_convexity <= smoothness, not {mechanism.strong_convexity} > "
            f"{mechanism.smoothness}: no such function"
        )
    _check_step(mechanism.step_size, mechanism.smoothness)
    decay = -float(
        _log_contraction(mechanism.step_size, mechanism.strong_convexity, mechanism.smoothness)
    )
    # Cap the decay (e^-1000 is 0) so that 0 * inf is not NaN
    decay = min(decay, 1000.0)
    check_computable("last_iterate", noise=mechanism.noise, step_size=mechanism.step_size)
    cost = mechanism.sensitivity / mechanism.noise
    reach = mechanism.diameter / (mechanism.step_size * mechanism.noise)
    n = mechanism.n_samples
    random = mechanism.stopping == "random"
    index = check_index(index, n, 1 if random else n)

    # mu of a record with ``later`` steps after its own: forgetting starts there or later
    def mus(later: Array) -> Any:
        by_itself = cost / np.sqrt(_noise_left(later + 1, decay)) * np.exp(-later * decay)
        with np.errstate(divide="ignore"):
            after = np.where(
                later > 0,
                reach * np.exp(-later * decay) / np.sqrt(_noise_left(later, decay)),
                math.inf,
            )
        return np.minimum(by_itself, after)

    if not random:
        return GaussianDP(float(mus(np.array(n - index, dtype=float))), mechanism.adjacency)
    check_positions("last_iterate", n)
    # later and later stops; a run that stops before the record has not read it
    values = mus(np.arange(n - index + 1, dtype=float))
    weights = np.full(values.size, 1 / n)
    if index > 1:
        values = np.append(values, 0.0)
        weights = np.append(weights, (index - 1) / n)
    return ProfileMixture(values, weights, mechanism.adjacency)


def _noise_left(n_steps: Any, decay: float) -> Any:
    """Return the sum of c^(2i), i < n_steps, c = exp(-decay): the noise of the last steps."""
    if decay == 0:
        return np.asarray(n_steps, dtype=float)
    return (
        np.expm1(-2 * decay * np.asarray(n_steps)) / math.expm1(-2 * decay)
        if math.isfinite(decay)
        else np.ones_like(n_steps)
    )


def _cyclic_mu(
    position: int,
    n_batches: int,
    n_epochs: int,
    log_contraction: float,
    sensitivity: float,
    noise_std: float,
) -> float:
    """Return mu for equal steps and the record in batch ``position`` of every epoch.

    The isotonic regression pools all epochs but the tail after the record's last step into one
    block: their slopes fall by c from one to the next. The tail is the second block, unless its
    slope is lower: then there is one.
    """
    decay = -log_contraction
    later = n_batches - position
    if math.isinf(decay):
        return sensitivity / noise_std if later == 0 else 0.0
    period = n_batches * decay
    before = n_epochs - 1
    tail_supply = math.exp(-later * decay)
    tail_weight = float(_noise_left(later + 1, decay))
    if before == 0:
        return sensitivity / noise_std * tail_supply / math.sqrt(tail_weight)
    # the part that is left at the end of the last epoch but one
    past = math.exp(-(later + n_batches) * decay)
    supply = past * (math.expm1(-before * period) / math.expm1(-period) if decay else before)
    weight = math.exp(-2 * (later + 1) * decay) * float(_noise_left(before * n_batches, decay))
    if supply * tail_weight <= tail_supply * weight:
        energy = tail_supply**2 / tail_weight + (supply**2 / weight if weight > 0 else 0.0)
    else:
        energy = (supply + tail_supply) ** 2 / (weight + tail_weight)
    return sensitivity / noise_std * math.sqrt(energy)


def _position_mus(
    log_contraction: Array,
    sensitivity: Array,
    noise_std: Array,
    diameter: float | None,
    n_batches: int,
    positions: Array,
) -> Any:
    """Return mu for the record at each of some positions in the epoch, for any schedule.

    Only the record's own steps bring supply. Between two of them the isotonic regression pools all
    noise, and a start from anywhere in the set costs least just before or just after an own step.
    So two numbers per epoch stand for all of its steps.
    """
    reach = 1.0 if diameter is None else diameter  # unused if there is no diameter
    log_supply, log_weight, log_front = (
        values.reshape(-1, n_batches)
        for values in _log_schedule(log_contraction, sensitivity, noise_std, reach)
    )
    nothing = np.full((log_supply.shape[0], 1), -math.inf)
    after = np.logaddexp.accumulate(np.hstack([nothing, log_weight[:, :0:-1]]), axis=1)[:, ::-1]
    before = np.logaddexp.accumulate(np.hstack([nothing, log_weight[:, :-1]]), axis=1)
    log_gap = np.logaddexp(after, np.vstack([before[1:], np.full(n_batches, -math.inf)]))
    front_of_gap = np.append(log_front.ravel()[1:], math.inf).reshape(log_front.shape)
    mus = []
    for j in (position - 1 for position in positions):
        supply = np.column_stack([log_supply[:, j], nothing]).ravel()
        weight = np.column_stack([log_weight[:, j], log_gap[:, j]]).ravel()
        front = np.column_stack([log_front[:, j], front_of_gap[:, j]]).ravel()
        mus.append(_least_mu(supply, weight, None if diameter is None else front))
    return mus


def _steps(mechanism: Mechanism) -> Any:
    """Return log contraction, sensitivity and noise of steps, and diameter, checked."""
    if mechanism.release != "last":
        _refuse(f"release='last', not {mechanism.release!r}")
    if mechanism.smoothness is None:
        _refuse("a known smoothness, not None: the step is not known to be a contraction")
    largest = float(np.max(mechanism.step_size))
    _check_step(largest, mechanism.smoothness)
    step_size = np.asarray(mechanism.step_size)
    log_contraction = _log_contraction(step_size, mechanism.strong_convexity, mechanism.smoothness)
    # in units of the largest update, so that nothing under- or overflows
    sensitivity = step_size / largest
    diameter = (
        None if mechanism.diameter is None else mechanism.diameter / mechanism.sensitivity / largest
    )
    return (
        log_contraction,
        sensitivity,
        sensitivity * np.asarray(mechanism.noise_multiplier),
        diameter,
    )


def _check_step(largest: float, smoothness: float) -> None:
    if not largest <= 2 / smoothness:
        _refuse(
            f"step_size <= 2/smoothness = {2 / smoothness:.6g}, not {largest:.6g}: beyond it a "
            "step does not contract"
        )


def _refuse(hypothesis: str) -> NoReturn:
    raise UnsupportedMechanismError(
        f"last_iterate (Bok, Su and Altschuler 2024) needs {hypothesis}"
    )


def _log_contraction(step_size: Floats, strong_convexity: float, smoothness: float) -> Array:
    """Return the log of a step's contraction factor, exact for tiny steps."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slow = np.log1p(-step_size * strong_convexity)
        fast = np.log(step_size * smoothness - 1)
    return np.where(step_size * (strong_convexity + smoothness) <= 2, slow, np.minimum(fast, 0.0))


def _constant_mu(
    n_steps: int,
    log_contraction: float,
    sensitivity: float,
    noise_std: float,
    diameter: float | None,
) -> float:
    """Return mu for equal steps in closed form, c = exp(log_contraction) <= 1."""
    decay = -log_contraction
    gain = math.tanh(n_steps * decay / 2) / math.tanh(decay / 2) if decay > 0 else n_steps
    mu = sensitivity / noise_std * math.sqrt(gain)
    if diameter is None:
        return mu
    # From anywhere in the set, m steps: (c^m R + sum c^i D) / (s sqrt(sum c^2i)), least at c^m = 1
    # - R (1 - c) / D
    if decay > 0:
        forgotten = diameter * -math.expm1(-decay) / sensitivity
        best = -math.log1p(-forgotten) / decay if forgotten < 1 else math.inf
    else:
        best = diameter / sensitivity
    best = min(best, n_steps)
    candidates = {max(1, math.floor(best)), max(1, math.ceil(best))}
    return min(
        mu, *(_from_anywhere(m, decay, sensitivity, noise_std, diameter) for m in candidates)
    )


def _from_anywhere(
    m: int, decay: float, sensitivity: float, noise_std: float, diameter: float
) -> float:
    if decay == 0:
        shift = diameter + m * sensitivity
        noise = float(m)
    elif math.isinf(decay):
        shift = sensitivity
        noise = 1.0
    else:
        shift = math.exp(-m * decay) * diameter + sensitivity * math.expm1(-m * decay) / math.expm1(
            -decay
        )
        noise = math.expm1(-2 * m * decay) / math.expm1(-2 * decay)
    return shift / (noise_std * math.sqrt(noise))


def schedule_mu(
    log_contraction: Array, sensitivity: Array, noise_std: Array, diameter: float | None
) -> float:
    """Return mu of any schedule, in log space, where products of contractions cannot underflow.

    Step k maps theta to Proj(phi_k(theta) + N(0, noise_std[k]^2 I)), where phi_k is Lipschitz with
    constant exp(log_contraction[k]) and one record moves phi_k by at most sensitivity[k]. With P_k
    the product of the contractions after step k, mu^2 is the least energy sum (a_k /
    noise_std[k])^2 over all shifts. That is the energy of the isotonic (nondecreasing) regression
    of P_k sensitivity[k] / (P_k noise_std[k])^2 with weights (P_k noise_std[k])^2. ``diameter`` is
    that of the convex set that every step projects onto.
    """
    forgotten = np.flatnonzero(np.isneginf(log_contraction))
    if forgotten.size:  # a contraction of 0 forgets all earlier steps
        first = forgotten[-1]
        log_contraction, sensitivity, noise_std = (
            a[first:] for a in (log_contraction, sensitivity, noise_std)
        )
    return _least_mu(*_log_schedule(log_contraction, sensitivity, noise_std, diameter))


def _log_schedule(
    log_contraction: Array, sensitivity: Array, noise_std: Array, diameter: float | None
) -> Any:
    """Return log supplies, log weights and, in a bounded domain, fronts of all steps."""
    # P_k: the product of the contractions after step k
    log_product = np.append(np.cumsum(log_contraction[:0:-1])[::-1], 0.0)
    with np.errstate(divide="ignore"):
        log_supply = log_product + np.log(sensitivity)
        log_weight = 2 * (log_product + np.log(noise_std))
        log_front = (
            log_product + log_contraction + np.log(diameter) if diameter is not None else None
        )
    return log_supply, log_weight, log_front


def _least_mu(log_supply: Array, log_weight: Array, log_front: Array | None) -> float:
    log_energy = _log_energy(log_supply, log_weight)
    if log_front is not None:
        log_energy = min(
            log_energy, _least_log_energy_from_anywhere(log_front, log_supply, log_weight)
        )
    return math.exp(log_energy / 2) if log_energy < 1400 else math.inf


# logarithm of the largest ratio of weights within a segment: far from the ends of a float
_SEGMENT_RANGE = 400.0
_SEGMENT_STEPS = 1 << 14
# slopes this close are pooled: it changes the energy by the square of that, and keeps stacks short
_EQUAL = 1e-12


def _log_energy(log_supply: Array, log_weight: Array) -> float:
    """Return log sum v^2 w, v the isotonic regression of supply/weight, both given as logarithms.

    Segments whose weights fit in a float are regressed by scipy; the blocks that come out are
    pooled across segments in log space. Pooling may go in any order.
    """
    supplies: list[float] = []
    weights: list[float] = []
    log_debt = -math.inf  # supply without noise so far is carried forward, never lost
    start = 0
    n_steps = log_supply.size
    while start < n_steps:
        stop = _segment_end(log_weight, start)
        block_supplies, block_weights, log_debt = _pool_segment(
            log_supply[start:stop], log_weight[start:stop], log_debt
        )
        _append_blocks(supplies, weights, block_supplies, block_weights)
        start = stop
    if log_debt > -math.inf:
        return math.inf
    terms = 2 * np.array(supplies) - np.array(weights)
    return float(np.logaddexp.reduce(terms)) if terms.size else -math.inf


def _segment_end(log_weight: Array, start: int) -> int:
    window = log_weight[start : start + _SEGMENT_STEPS]
    finite = np.where(np.isneginf(window), np.nan, window)
    beyond = np.flatnonzero(
        np.fmax.accumulate(finite) - np.fmin.accumulate(finite) > _SEGMENT_RANGE
    )
    return start + (int(beyond[0]) if beyond.size else window.size)


def _pool_segment(log_supply: Array, log_weight: Array, log_debt: float) -> Any:
    """Return the blocks (log supply, log weight) of a segment, and the supply left at its end."""
    noisy = np.flatnonzero(~np.isneginf(log_weight))
    if noisy.size == 0:
        return (
            np.empty(0),
            np.empty(0),
            float(np.logaddexp(log_debt, np.logaddexp.reduce(log_supply))),
        )
    ends = np.append(0, noisy[:-1] + 1)
    supply = (
        np.logaddexp.reduceat(log_supply[: noisy[-1] + 1], ends)
        if noisy.size < noisy[-1] + 1
        else log_supply[noisy]
    )
    supply = supply.copy()
    supply[0] = np.logaddexp(supply[0], log_debt)
    tail = log_supply[noisy[-1] + 1 :]
    weight = log_weight[noisy]
    slope = supply - weight
    scale = weight.max()
    top = slope.max()
    if np.isneginf(top):
        blocks = np.array([0, noisy.size])
    else:
        with np.errstate(under="ignore"):
            blocks = isotonic_regression(np.exp(slope - top), weights=np.exp(weight - scale)).blocks
    supply, weight = (np.logaddexp.reduceat(a, blocks[:-1]) for a in (supply, weight))
    return supply, weight, float(np.logaddexp.reduce(tail)) if tail.size else -math.inf


def _append_blocks(
    supplies: Any, weights: Any, block_supplies: Array, block_weights: Array
) -> None:
    """Append blocks in order; pool neighbours while the left one has the larger supply/weight."""
    block_supplies = block_supplies.tolist()
    block_weights = block_weights.tolist()
    position = 0
    while position < len(block_supplies) and supplies:
        supply = block_supplies[position]
        weight = block_weights[position]
        if not supplies[-1] - weights[-1] > supply - weight:
            break
        position += 1
        while supplies and supplies[-1] - weights[-1] > supply - weight:
            supply = float(np.logaddexp(supply, supplies.pop()))
            weight = float(np.logaddexp(weight, weights.pop()))
        supplies.append(supply)
        weights.append(weight)
    supplies.extend(block_supplies[position:])
    weights.extend(block_weights[position:])


def _least_log_energy_from_anywhere(
    log_front: Array, log_supply: Array, log_weight: Array
) -> float:
    """Return the least energy, over all m, of the last m steps from anywhere in the set.

    The set's diameter is one more supply, without noise of its own, before step n - m. Blocks of
    the last m steps are kept on a stack, leftmost on top; the front supply spills over them until
    its slope is no longer above the next block's.
    """
    n_steps = log_supply.size
    supplies, weights, tails = np.zeros((3, n_steps + 1))
    tails[0] = -math.inf  # tails[i]: log energy of blocks 1 to i
    top = 0
    best = math.inf  # index 0 is the bottom: no block
    for k in range(n_steps - 1, -1, -1):
        supply = log_supply[k]
        weight = log_weight[k]
        if not (np.isneginf(supply) and np.isneginf(weight)):
            while top and supply - weight > supplies[top] - weights[top] - _EQUAL:
                supply = np.logaddexp(supply, supplies[top])
                weight = np.logaddexp(weight, weights[top])
                top -= 1
            top += 1
            supplies[top] = supply
            weights[top] = weight
            tails[top] = np.logaddexp(tails[top - 1], 2 * supply - weight)
        best = min(best, _energy_with_front(log_front[k], supplies, weights, tails, top))
    return best


def _energy_with_front(
    log_front: float, supplies: Array, weights: Array, tails: Array, top: int
) -> float:
    """Log energy of the stacked blocks after a supply without weight was put in front of them."""
    supply = log_front
    weight = -math.inf
    remaining = top
    while remaining:
        # usually one block takes all supply
        low = max(0, remaining - (1 if remaining == top else 1024))
        run = slice(remaining, low, -1)
        pooled_supply = np.logaddexp.accumulate(np.append(supply, supplies[run]))[1:]
        pooled_weight = np.logaddexp.accumulate(np.append(weight, weights[run]))[1:]
        slopes = supplies[low:remaining] - weights[low:remaining]
        next_slope = np.append(slopes[:0:-1], slopes[0] if low else math.inf)
        settled = np.flatnonzero(pooled_supply - pooled_weight <= next_slope)
        if settled.size:
            index = settled[0]
            return np.logaddexp(
                tails[remaining - 1 - index], 2 * pooled_supply[index] - pooled_weight[index]
            )
        supply = pooled_supply[-1]
        weight = pooled_weight[-1]
        remaining = low
    return math.inf if log_front > -math.inf else -math.inf
