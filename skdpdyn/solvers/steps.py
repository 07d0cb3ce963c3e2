"""The one loop over noisy gradient steps: on all rows or on batches, wherever the rows are.

A step asks the rows for the sum of clipped gradients at a public or a secret point and follows it:
`skdpdyn.data.base.Rows.gradient`. Where ``objective.exact``, every move by a gradient is released,
and all else follows from earlier releases. Otherwise the last iterate alone is: the noise of the
steps before it is within a known distance of an exact one, for which the record's ``rounding``
pays.

X may be float32. Sums over chunks are double, and so is all other arithmetic wherever a
last-iterate bound may be claimed: parameters rounded to float32 are shared by all rows, so a step
is no longer the contraction that those bounds need (at a million rows it misses by a quarter of the
sensitivity). Composition needs the sensitivity alone: there kernels of several outputs take weights
of the precision of X, and on dense rows sum blocks in it, for which `LocalRows.bounded` leaves
room, see `Rows.allows_single`. Batches are summed in double: a record that joins one moves the
others to other blocks, and blocks of single precision would round anew.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skdpdyn.core.noise import Generator, release
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import Sealed, opened
from skdpdyn.data.base import Rows
from skdpdyn.kernels.ball import project
from skdpdyn.kernels.draws import Batches, FixedBatches
from skdpdyn.kernels.normals import check_noise, draw_normals

_HELD = 1_000_000  # normals at a time


@dataclass(frozen=True, eq=False)
class Steps:
    """Public schedule of a run.

    Parameters
    ----------
    step_size, noise_std : ndarray of shape (n_steps,)
        Length of each step, and the standard deviation (scale, of Laplace noise) that it adds to
        each coordinate. All 0: nothing is released.
    divisor : float
        Public number that sums of gradients are divided by, whatever the batch.
    radius : float, default=inf
        Radius of the ball to project onto after each step.
    momentum : float or ndarray of shape (n_steps,), default=0.0
        Part of the last move that a step repeats (Polyak's heavy ball); only where noise is exact.
    average : ndarray of shape (n_steps,) or None, default=None
        Weights of the iterates in the average that is the result; None: the last one is.
    units : sequence of float of shape (n_steps,) or None, default=None
        What raw predictions and targets are divided by in each step; None: they are not.
    distribution : {"gaussian", "laplace"}, default="gaussian"
        The noise; "laplace" only where it is exact.
    """

    step_size: np.ndarray
    noise_std: np.ndarray
    divisor: float
    radius: float = math.inf
    momentum: float | np.ndarray = 0.0
    average: np.ndarray | None = None
    units: Sequence[float] | None = None
    distribution: str = "gaussian"

    def __post_init__(self):
        check_noise(self.noise_std)

    @property
    def needs_exact(self) -> bool:
        """Whether only noise that is exact in every step allows for it."""
        return bool(
            np.any(self.momentum) or self.average is not None or self.distribution != "gaussian"
        )


def descend(
    objective: Objective,
    rows: Rows,
    steps: Steps,
    generator: Generator,
    *,
    batches: Batches | None = None,
    start: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Run noisy gradient descent and return its release.

    A step is theta <- Proj(theta - step_size (sum of gradients / divisor + alpha theta) + noise),
    with momentum from theta plus a part of the last move.

    Parameters
    ----------
    objective : Objective
        The problem. ``exact``: the noise of every step is exact, see `skdpdyn.core.noise.release`,
        not of the last alone.
    rows : Rows
        The rows and targets, with the public map that rows go through.
    steps : Steps
        The schedule.
    generator : numpy.random.Generator
        The source of the batches and of the noise.
    batches : PoissonBatches, FreshBatches or FixedBatches or None, default=None
        Who is in a step; None: everybody. Rows that are read in order come in batches of that
        order.
    start : ndarray of shape (n_parameters,) or None, default=None
        Where to start, which is public or released; None: at 0. Penalty and ball are around it.
    progress : callable or None, default=None
        Called with the number of steps after each of them.

    Returns
    -------
    theta : ndarray of shape (n_parameters,)
        The last iterate, or the average.

    Raises
    ------
    ValueError
        If the rows are not those of the objective, or the schedule needs exact noise.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.data.local import LocalRows
    >>> from skdpdyn.core.losses import squared
    >>> from skdpdyn.core.objective import Objective
    >>> from skdpdyn.solvers.steps import Steps, descend
    >>> rows = LocalRows(np.array([[1.0], [-1.0]]), np.array([0.5, -0.5]))
    >>> objective = Objective(squared, n_samples=2, n_features=1, data_norm=1.0, clip=1.0)
    >>> quiet = Steps(np.full(40, 0.5), np.zeros(40), divisor=2.0)
    >>> descend(objective, rows, quiet, np.random.default_rng()).round(6).tolist()
    [0.5]
    """
    rows.check(objective)
    if steps.needs_exact and not objective.exact:
        raise ValueError("momentum, averages and Laplace noise need exact noise in every step")
    n_steps = steps.step_size.size
    alpha = objective.alpha
    move = theta = np.zeros(objective.n_parameters)  # from the start
    momentum = np.broadcast_to(steps.momentum, n_steps)
    average = np.zeros(theta.size)
    n_quiet = _unreleased(steps, objective.exact)
    noise = _noise(generator, steps.noise_std[:n_quiet], theta.size, batches)
    if steps.units is None:
        of_rows = _gradients(objective, rows, batches, n_steps, generator)
    else:
        of_rows = _in_units(objective, rows, steps.units)
    gradient_at = of_rows if start is None else lambda k, theta: of_rows(k, start + theta)
    for k in range(n_steps):
        before = theta
        step_size = steps.step_size[k]
        std = steps.noise_std[k]
        added = next(noise, 0.0)
        gradient = opened(gradient_at(k, theta)) / steps.divisor
        if k < n_quiet:
            theta = theta - step_size * (gradient + alpha * theta) + added
        elif objective.exact:
            # Release the move by the gradient. All else follows from earlier releases, so no
            # rounding of theta counts.
            by = -step_size * gradient
            moved = _released(by, std, generator, steps.distribution, rows.n_threads)
            point = theta + momentum[k] * move
            theta = point - step_size * alpha * point + moved
        else:
            theta = release(theta - step_size * (gradient + alpha * theta), std, generator)
        project(theta, steps.radius)
        move = theta - before
        if steps.average is not None:
            average += steps.average[k] * theta
        if progress is not None:
            progress(k + 1)
    released = theta if steps.average is None else average
    return released if start is None else start + released


def _noise(generator, noise_std, size, batches):
    """Yield the noise of each step whose noise is not exact, drawn many steps at a time."""
    if not np.any(noise_std):
        return
    at_once = max(1, _HELD // size)
    if batches is not None:
        at_once = max(1, min(math.ceil((noise_std.size + 1) / 10), 131_072 // size))
    for first in range(0, noise_std.size, at_once):
        part = noise_std[first : first + at_once]
        normals = np.empty((part.size, size))
        draw_normals(generator, normals)
        yield from part[:, None] * normals


def _unreleased(steps, exact):
    """Return the number of first steps whose noise is not released: all where the last has none."""
    if not steps.noise_std[-1] > 0:
        return steps.step_size.size
    return 0 if exact else steps.step_size.size - 1


def _gradients(
    objective: Objective,
    rows: Rows,
    batches: Batches | None,
    n_steps: int,
    generator: Generator,
) -> Callable[[int, np.ndarray], Sealed]:
    """Return the sum of gradients in a step at a point."""
    if batches is None:
        return lambda k, theta: rows.gradient(objective, theta)
    if rows.draws:
        chosen = batches.drawn(objective.n_samples, generator)
        return lambda k, theta: rows.gradient(objective, theta, chosen(k))
    if not isinstance(batches, FixedBatches) or batches.permutation is not None:
        raise ValueError(f"{type(rows).__name__} are read in order: use a solver for such rows")
    parts = _in_order(rows, batches.size, n_steps)
    places = np.arange(batches.size)
    return lambda k, theta: (part := next(parts)).gradient(
        objective, theta, places[: part.shape[0]]
    )


def _in_units(
    objective: Objective, rows: Rows, units: Sequence[float]
) -> Callable[[int, np.ndarray], Sealed]:
    """Return the sum of gradients in a step at a point, of targets in the units of that step."""
    now: dict[float, Rows] = {}

    def gradient_at(k, theta):
        unit = units[k]
        if unit not in now:
            for before in now.values():
                before.close_sums()
            now.clear()
            now[unit] = rows.with_target(0.0, unit)
        return now[unit].gradient(objective, theta / unit)

    return gradient_at


def _in_order(rows: Rows, size: int, n_steps: int) -> Iterator[Rows]:
    """Yield batches in the order of the rows, the last one after the end of the last epoch."""
    parts = rows.batches(size, n_steps // -(-rows.n_records // size))
    for k in range(n_steps):
        part = next(parts)
        if k == n_steps - 1:
            next(parts, None)  # which may refuse it
        yield part


def _released(move, std, generator, distribution, n_threads):
    """Return the move with exact noise."""
    if distribution == "laplace":  # the gamma law of a single coordinate
        return np.concatenate([release([x], std, generator, "gamma") for x in move])
    return release(move, std, generator, n_threads=n_threads)
