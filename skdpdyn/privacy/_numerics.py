"""Special functions that privacy profiles are computed with, accurate to the last digits."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import special

from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy._types import Array, Floats

_EPS = float(np.finfo(np.float64).eps)
_EVALUATIONS = 8000  # halves of an interval from the largest double to the least are 2,000
_LINES = 8  # steps along a line, before steps that double
_FAR = 10.0  # value from which on they do at once


def gdp_log_delta(epsilon: float, mu: float) -> float:
    """Return the logarithm of the delta of mu-GDP at one ``epsilon`` >= 0.

    With x = epsilon/mu - mu/2 and M the Mills ratio, delta = phi(x) (M(x) - M(x + mu)): no
    cancellation of e^epsilon against a tiny tail, and for small mu the difference is integrated
    from M' so that it keeps its digits too.
    """
    if mu == 0 or math.isinf(epsilon):
        return -math.inf
    if math.isinf(mu):
        return 0.0
    x = epsilon / mu - mu / 2
    log_density = -x * x / 2 - math.log(2 * math.pi) / 2
    if x < -5.0:
        return math.log1p(-float(special.ndtr(x)) - math.exp(log_density) * _mills(x + mu))
    drop = _mills_drop(x, mu) if mu < 0.5 else _mills(x) - _mills(x + mu)
    return min(0.0, log_density + math.log(drop)) if drop > 0 else -math.inf


def gdp_log_deltas(epsilon: Floats, mu: Floats) -> Array:
    """Return `gdp_log_delta` of arrays that broadcast."""
    epsilon, mu = np.broadcast_arrays(np.asarray(epsilon, dtype=float), np.asarray(mu, dtype=float))
    with np.errstate(all="ignore"):
        x = epsilon / mu - mu / 2
        log_density = -x * x / 2 - math.log(2 * math.pi) / 2
        value = np.full(epsilon.shape, np.nan)
        short = mu < 0.5
        near = x < -5.0
        mask = near
        value[mask] = np.log1p(
            -special.ndtr(x[mask]) - np.exp(log_density[mask]) * _mills((x + mu)[mask])
        )
        for mask, drop in (
            (short & ~near, _mills_drop),
            (~short & ~near, lambda x, mu: _mills(x) - _mills(x + mu)),
        ):
            drops = np.maximum(drop(x[mask], mu[mask]), 0.0)
            value[mask] = np.minimum(0.0, log_density[mask] + np.log(drops))
    value[(mu == 0) | np.isposinf(epsilon)] = -math.inf
    value[np.isposinf(mu) & ~np.isposinf(epsilon)] = 0.0
    if np.any(np.isnan(value)):
        raise FloatingPointError("delta is not a number: epsilon or mu is beyond floating point")
    return value


_FINE = 1e-9  # epsilons above it are much larger than the rounding of sums they are made of


def safe_root(
    increasing: Callable[[float], float],
    start: float,
    step: float,
    least: float = -math.inf,
    most: float = math.inf,
    *,
    near: float = 0.0,
    xtol: float = 0.0,
    rtol: float = 4 * _EPS,
    slope: float = 0.0,
) -> float:
    """Return an argument next to the root of an increasing function, where it is at least 0.

    It was seen to be that there: the answer is on the safe side, whatever the function does in
    between. It is next to an argument where it is below 0, unless it is ``near`` 0 or ``least``.
    Only where it is below 0 at ``most``, that is the answer.

    Parameters
    ----------
    increasing : callable
        The function; NaN counts as below 0.
    start : float
        Where the search starts.
    step : float
        First of the steps that double until the root is between two of them.
    least : float, default=-inf
        Where the search ends below.
    most : float, default=inf
        Where it ends above.
    near : float, default=0.0
        A value that is close enough to 0.
    xtol : float, default=0.0
        How far the answer may be from an argument at which the function is below 0.
    rtol : float, default=8.881784197001252e-16
        What is added to that, over the size of the answer.
    slope : float, default=0.0
        About the slope of a function that is nearly a line; 0: not known.
    """
    low = -math.inf
    high = math.inf
    argument = min(max(start, least), most)
    points: list[tuple[float, float]] = []
    width = math.inf  # of the bracket, some evaluations ago
    for turn in range(_EVALUATIONS):
        value = increasing(argument)
        points = [*points[-1:], (argument, value)]
        low, high = (low, argument) if value >= 0 else (argument, high)
        if 0 <= value <= near or high <= least or argument == high == math.inf:
            return high
        if low >= most:
            return most
        if math.inf in (high, -low):
            is_line = slope and turn < _LINES and abs(value) < _FAR
            towards = _on_line(points, slope, near) if is_line else math.nan
            by_step = argument - step if value >= 0 else argument + step
            argument = min(max(towards if math.isfinite(towards) else by_step, least), most)
            step *= 2
            continue
        edge = (xtol + rtol * abs(high)) / 2
        middle = low + (high - low) / 2
        if high - low <= 2 * edge or not low < middle < high:
            return high
        is_slow = turn % 3 == 0 and high - low > width / 2
        width = high - low if turn % 3 == 0 else width
        argument = middle if is_slow else _on_line(points, 0.0, near)
        if not low < argument < high:
            argument = middle
        # next to an end, on its other side: so that both ends close in on the root
        argument = min(max(argument, min(low + edge, middle)), max(high - edge, middle))
    return high


def _on_line(points: list[tuple[float, float]], about: float, near: float) -> float:
    """Return where the line through the last two points is ``near / 2``; NaN: nowhere."""
    slope = slope_of(points, about)
    last, at_last = points[-1]
    return last - (at_last - near / 2) / slope if slope else math.nan


def slope_of(points: list[tuple[float, float]], about: float = 0.0) -> float:
    """Return the slope between the first and the last point, about that of a line if one is known.

    That of a single point is ``about``.
    """
    first, at_first = points[0]
    last, at_last = points[-1]
    if last == first:
        return about
    found = (at_last - at_first) / (last - first)
    return min(max(found, 0.3 * about), 8 * about) if about else found


def solve_epsilon(
    log_delta: Any,
    delta: float,
    start: float,
    step: float = 0.0,
    largest: float = math.inf,
    scale: float = _FINE,
) -> float:
    """Return the least epsilon, rounded up, at which ``log_delta`` allows ``delta``.

    Parameters
    ----------
    log_delta : callable
        Logarithm of delta at an epsilon, which it does not rise with.
    delta : float
        In [0, 1].
    start : float
        Where the search starts.
    step : float, default=0.0
        Its first step; 0: as long as ``start``.
    largest : float, default=inf
        An epsilon beyond which delta falls no more.
    scale : float, default=1e-9
        Size of differences of epsilon that ``log_delta`` may not see.
    """
    target = math.log(delta) if delta > 0 else -math.inf

    def safe(epsilon: float) -> bool:
        computed = log_delta(epsilon)
        return bool(computed <= target and math.exp(computed) <= delta)

    # far below the target its value does not matter, and must be finite
    def missed(epsilon: float) -> float:
        return min(target - log_delta(epsilon), 1e3)

    if delta == 1 or (delta == 0 and safe(0.0)):
        return 0.0
    start = max(min(start, largest), 0.0) if start < math.inf else 1.0
    if not safe(start) and not safe(math.inf):
        return math.inf
    root = largest
    if delta > 0:
        root = safe_root(missed, start, step or start or 1.0, 0.0, largest, xtol=1e-300)
    if math.isinf(root):
        return root
    return smallest_safe(root, safe, math.inf, scale)


def _mills(x: Floats) -> Any:
    """Return the Mills ratio of the normal law, (1 - Phi(x)) / phi(x)."""
    return math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2))


@cache
def gauss_legendre(count: int) -> Any:
    """Return nodes and weights on [-1, 1]; they are computed on first use, which takes a while."""
    return np.polynomial.legendre.leggauss(count)


_MILLS_SERIES = [(-1) ** k * math.prod(range(1, 2 * k + 2, 2)) for k in range(14)]


def _mills_drop(x: Floats, width: Floats) -> Any:
    """Return M(x) - M(x + width) for a short width: the integral of -M'(t) = 1 - t M(t)."""
    x = np.asarray(x)
    width = np.asarray(width)
    nodes, weights = gauss_legendre(10)
    t = x[..., None] + width[..., None] * (nodes + 1) / 2
    slope = 1 - t * _mills(t)
    if np.any(t > 20.0):
        far = np.maximum(t, 20.0) ** -2.0  # 1/t^2 - 3/t^4 + 15/t^6 - ...
        slope = np.where(
            t > 20.0, far * np.polynomial.polynomial.polyval(far, _MILLS_SERIES), slope
        )
    return slope @ weights * width / 2


_NARROW = 1e-9  # of a value: steps up to this size are not halved


def smallest_safe(
    value: Any, is_safe: Callable[[float], Any], towards: float, scale: float = 0.0
) -> float:
    """Return the first value, from ``value`` ``towards`` a limit, for which ``is_safe`` holds.

    The steps double from the rounding of ``value``, or of ``scale`` where the value came out of a
    cancellation at that scale. Where they grow large, as at a jump, the last of them is halved: its
    far end stays the one that is known to be safe.
    """
    step = np.finfo(float).eps
    last = value
    candidate = value
    while not is_safe(candidate):
        last = candidate
        candidate = value + math.copysign(step * max(abs(value), scale), towards - value)
        step *= 2
        if step > 1.0:
            raise CalibrationError(
                f"no safe value near {value}: the budget is beyond floating point"
            )
    while abs(candidate - last) > _NARROW * max(abs(value), scale):
        middle = (candidate + last) / 2
        last, candidate = (last, middle) if is_safe(middle) else (middle, candidate)
    return candidate


_TRIED = np.geomspace(1e-3, 700.0, 48)  # epsilons, from the smallest on
_MOST_LINES = 3000  # of which many rates take the highest


def highest_lines(missed: Callable[[Array], Array], rates: Array) -> Array:
    """Return the highest line at each rate x, of 1 - delta - e^epsilon x and its mirror image.

    ``missed`` is 1 - delta at epsilons. Delta is convex in e^epsilon, so that each kind of line has
    a single best epsilon at a rate: it is between the neighbours of the best of a few, which halve.
    """
    inside = rates[(rates > 0) & (rates < 1)]
    curve = np.zeros(rates.shape)
    if np.any(rates == 0):
        curve[rates == 0] = missed(np.array([math.inf]))
    if not inside.size:
        return curve

    def lines(epsilon: Array) -> Array:
        miss = missed(epsilon)
        x = inside[:, None]
        gamma = np.exp(epsilon)
        return np.stack([miss - gamma * x, (miss - x) / gamma])

    epsilons = np.zeros(1)
    values = lines(np.zeros(1))
    for epsilon in _TRIED:
        after = lines(np.array([epsilon]))
        falls = after < values[:, :, -1:]
        epsilons = np.append(epsilons, epsilon)
        values = np.append(values, after, axis=2)
        if np.all(falls) or (np.all(falls[0]) and epsilon > 36):
            break
    while epsilons.size < _MOST_LINES:
        best = np.unique(values.argmax(axis=2))
        ends = epsilons[np.clip([best - 1, best + 1], 0, epsilons.size - 1)]
        middle = (ends + epsilons[best]) / 2
        middle = np.unique(middle[np.abs(ends - epsilons[best]) > 1e-8 * (1e-3 + ends)])
        if not middle.size:
            break
        order = np.argsort(np.append(epsilons, middle), kind="stable")
        epsilons = np.append(epsilons, middle)[order]
        values = np.append(values, lines(middle), axis=2)[:, :, order]
    best = values.max(axis=(0, 2)) - 2e-15  # what rounding may have added
    curve[(rates > 0) & (rates < 1)] = np.maximum(best, 0.0)
    return curve


def convex(gamma: Array, delta: Array) -> Array:
    """Return the largest convex nonincreasing minorant of points: profiles are convex in gamma."""
    x = gamma
    y = np.minimum.accumulate(delta)
    if y.size == 1:
        return y
    first = 1 + int(np.argmin((y[1:] - y[0]) / (x[1:] - x[0])))  # where the first chord ends
    x, y = (np.append(coordinate[0], coordinate[first:]) for coordinate in (x, y))
    while True:  # a point above a chord of its neighbours is above the minorant
        slope = np.diff(y) / np.diff(x)
        above = np.diff(slope) < -1e-12 * np.abs(slope[:-1])
        if not np.any(above):
            return y if y.size == delta.size else np.interp(gamma, x, y)
        is_kept = np.concatenate([[True], ~above, [True]])
        x = x[is_kept]
        y = y[is_kept]


def least_advantage(above: Array, swapped: Array, excess: Array) -> float:
    """Return the least delta(0) that a point of each direction's profile imply together.

    A profile is convex in gamma across 1, where swapped delta at gamma stands for 1 - 1/gamma +
    delta/gamma at 1/gamma. Any two points give a bound: the best of one for that of the other, in
    turn. ``excess`` is gamma - 1, from 0 on.
    """

    def implied(above: Array, excess: Array, swapped: Array, other: Array) -> Array:
        weights = excess + other + excess * other
        top = above * other + swapped * excess + excess * other
        return np.where(weights > 0, top / np.where(weights > 0, weights, 1.0), above)

    i = j = int(np.argmin(implied(above, excess, swapped, excess)))
    for _ in range(4):
        i = int(np.argmin(implied(above, excess, swapped[j], excess[j])))
        j = int(np.argmin(implied(above[i], excess[i], swapped, excess)))
    return float(implied(above[i], excess[i], swapped[j], excess[j]))


def convex_profiles(epsilon: Array, *profiles: Array) -> tuple[Array, ...]:
    """Return profiles of both directions, or of one that is both, convex in e^epsilon.

    Their delta(0) is the least that any two points imply. Epsilons grow from 0.
    """
    near = epsilon < 300  # beyond, the square of e^epsilon is no double
    gamma = np.exp(epsilon[near])
    above = profiles[0][near]
    swapped = profiles[-1][near]
    least = least_advantage(above, swapped, np.expm1(epsilon[near]))
    for profile in profiles:
        profile[0] = least
        profile[near] = convex(gamma, profile[near])
    return profiles


def by_element(function: Callable[..., Any], *arrays: Any) -> Array:
    """Apply a scalar function to every element; `np.vectorize` would warn despite ``errstate``."""
    rows = np.broadcast_arrays(*arrays)
    with np.errstate(over="ignore", under="ignore"):
        values = [function(*map(float, row)) for row in zip(*map(np.ravel, rows), strict=True)]
    return np.array(values, dtype=float).reshape(rows[0].shape)


def like(argument: Any, result: Floats) -> Any:
    """Return a float for a scalar argument, an array for an array."""
    return float(np.ravel(result)[0]) if np.ndim(argument) == 0 else result
