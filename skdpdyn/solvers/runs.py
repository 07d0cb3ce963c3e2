"""The runner of noisy steps: batches, step sizes and noise follow from a record alone.

A solver describes a run by a record, and never multiplies a step size, a sensitivity and a noise
multiplier. That is done here, once for each kind of record: for what runs, and for what its
rounding costs. To add a kind of batches, write the `Course` of its record, and list it in
`COURSES`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpdyn.core.noise import Generator
from skdpdyn.core.objective import Objective
from skdpdyn.core.rounding import farthest_iterate, public_radius, rounding_mu, step_lipschitz
from skdpdyn.data.base import Rows
from skdpdyn.kernels.draws import Batches, FixedBatches, FreshBatches, PoissonBatches
from skdpdyn.privacy import (
    CyclicBatches,
    NoisyGradientDescent,
    OnePass,
    PoissonSubsampled,
    WithoutReplacement,
)
from skdpdyn.solvers.steps import Steps, descend
from skdpdyn.support.chunks import gathered_in_order, largest_number_in_order


@dataclass(frozen=True, eq=False)
class Course:
    """The steps that a record stands for.

    Parameters
    ----------
    n_steps : int
        Number of steps.
    step_size, noise_std : float or ndarray of shape (n_steps,)
        Length of each step, and the standard deviation (scale, of Laplace noise) that it adds to
        each coordinate.
    divisor : float
        Public number that sums of gradients are divided by, whatever the batch.
    n_summed : float
        Largest number of gradients that are added in order.
    lipschitz : float
        Lipschitz constant of a step.
    batches : callable, default=None
        Of a generator, who is in which step; None: everybody in each.
    radius : float, default=inf
        Radius of the ball that the record says every step projects onto.
    is_exact : bool, default=False
        Whether the noise of every step is exact, so that rounding costs nothing.
    is_known : bool, default=True
        Whether bounds know of projections; without, the ball is one that no iterate leaves.
    repeats : float, default=1.0
        Largest number of records in a batch, over ``divisor``.
    is_hidden : bool, default=False
        Whether the run ends after a step that is drawn, and never told.
    options : dict or None, default=None
        Momentum, average, units and distribution of `Steps`.
    """

    n_steps: int
    step_size: Any
    noise_std: Any
    divisor: float
    n_summed: float
    lipschitz: float
    batches: Callable[[Generator], Batches] | None = None
    radius: float = math.inf
    is_exact: bool = False
    is_known: bool = True
    repeats: float = 1.0
    is_hidden: bool = False
    options: dict[str, Any] | None = None

    def ball(self, objective: Objective) -> float:
        """Return the radius of the ball that every step projects onto: rounding rests on it."""
        if self.is_exact:
            return self.radius
        largest_norm = public_radius if self.is_known else farthest_iterate
        largest = largest_norm(objective, self.step_size, self.noise_std, self.n_steps)
        return min(self.radius, largest)

    def rounding(self, objective: Objective) -> float:
        """Return the cost of the rounding of all steps."""
        if self.is_exact:
            return 0.0
        return rounding_mu(
            objective,
            self.step_size,
            self.noise_std,
            self.n_steps,
            radius=self.ball(objective),
            lipschitz=self.lipschitz,
            n_summed=self.n_summed,
            repeats=self.repeats,
        )

    def steps(self, objective: Objective) -> Steps:
        """Return the steps, each with its size and noise."""
        step_size = np.broadcast_to(np.asarray(self.step_size), self.n_steps)
        noise_std = np.broadcast_to(np.asarray(self.noise_std), self.n_steps)
        return Steps(
            step_size, noise_std, self.divisor, self.ball(objective), **(self.options or {})
        )


def paid(record: Any, objective: Objective) -> Any:
    """Return a record that pays for the rounding of its steps, too."""
    return replace(record, rounding=_course(record, objective).rounding(objective))


def run(
    record: Any,
    objective: Objective,
    rows: Rows,
    generator: Generator,
    *,
    start: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Run a record of noisy steps and return its release.

    Parameters
    ----------
    record : record
        Of a kind that `COURSES` lists.
    objective : Objective
        The problem's public constants.
    rows : Rows
        The rows and their targets.
    generator : numpy.random.Generator
        The source of batches and noise.
    start : ndarray of shape (n_parameters,) or None, default=None
        Where the first step starts, which is public or released; None: at 0.
    progress : callable or None, default=None
        Called with the number of steps after each of them, where it is public.

    Returns
    -------
    theta : ndarray of shape (n_parameters,)
    """
    course = _course(record, objective)
    _check_facts(record, objective, course)
    if not course.is_exact:
        _check_rounding(objective, rows, start)
    batches = None if course.batches is None else course.batches(generator)
    steps = course.steps(objective)
    if course.is_hidden:
        progress = None
        last = int(generator.integers(1, course.n_steps + 1))
        step_size = steps.step_size[:last]
        steps = replace(steps, step_size=step_size, noise_std=steps.noise_std[:last])
    problem = replace(objective, exact=course.is_exact)
    return descend(problem, rows, steps, generator, batches=batches, start=start, progress=progress)


def _check_facts(record, objective, course):
    """Refuse a record with facts that the problem does not have: what it costs rests on them."""
    size = getattr(record, "batch_size", None)
    facts = {
        "n_samples": lambda number: number == objective.n_samples,
        "lipschitz": lambda norm: norm >= objective.lipschitz,
        "sensitivity": lambda moved: moved >= objective.sensitivity(record.adjacency, size),
        "strong_convexity": lambda least: least <= objective.strong_convexity,
        "smoothness": lambda most: most >= (objective.smoothness or math.inf),
        "rounding": lambda mu: mu >= course.rounding(objective),
    }
    for name, holds in facts.items():
        value = getattr(record, name, None)
        if value is not None and not holds(value):
            hint = "; see skdpdyn.solvers.runs.paid" * (name == "rounding")
            raise ValueError(f"{name}={value!r} of the record is not that of the problem{hint}")


def _check_rounding(objective, rows, start):
    """Refuse a map of rows, and a start, with which steps round more than their record pays for."""
    if not (rows.map is None or rows.map.spread <= objective.spread):
        raise ValueError("the map of rows rounds more than the record of the run pays for")
    if not (start is None or np.linalg.norm(start) <= objective.start_norm):
        raise ValueError("the start is longer than start_norm, for which the record pays")


def _course(record, objective):
    return COURSES[type(record)](record, objective)


def _radius(record):
    return math.inf if record.diameter is None else record.diameter / 2


def _of_all(record: Any, objective: Objective) -> Course:
    """Return steps on all rows; without contraction each step pays for itself, and is exact."""
    convexity = record.strong_convexity
    is_exact = record.smoothness is None
    lipschitz = 1.0 if is_exact else step_lipschitz(record.step_size, convexity, record.smoothness)
    return Course(
        record.n_steps,
        record.step_size,
        record.step_size * objective.sensitivity(record.adjacency) * record.noise_multiplier,
        objective.n_samples,
        largest_number_in_order(objective),
        lipschitz,
        radius=_radius(record),
        is_exact=is_exact,
        options={"momentum": record.momentum, "units": record.units},
    )


def _of_poisson(record: Any, objective: Objective) -> Course:
    """Return steps on batches that take each record with a probability, by itself.

    Multipliers are over the norm of a record's gradient, whatever the relation.
    """
    n_samples = objective.n_samples
    divisor = record.sampling_probability * n_samples
    largest = record.largest_batch or n_samples
    repeats = largest / divisor
    steepest = repeats * objective.curvature + objective.alpha
    sizes = np.broadcast_to(np.asarray(record.step_size), record.n_steps)
    options: dict[str, Any] = {}
    if record.momentum or record.average is not None:
        ratios = np.append(0.0, sizes[1:] / sizes[:-1])
        options = {"momentum": record.momentum * ratios, "average": _average_weights(record)}
    return Course(
        record.n_steps,
        record.step_size,
        record.step_size * (record.noise_multiplier * objective.lipschitz / divisor),
        divisor,
        gathered_in_order(largest * objective.most_rows),
        step_lipschitz(record.step_size, objective.alpha, steepest),
        lambda generator: PoissonBatches(record.sampling_probability, record.largest_batch),
        radius=_radius(record),
        is_exact=bool(options),
        repeats=repeats,
        options=options,
    )


def _average_weights(record):
    """Return the weight of each iterate in the released average; None for the last iterate."""
    n_steps = record.n_steps
    if record.average is None:
        return None
    if record.average == "uniform":
        return np.full(n_steps, 1 / n_steps)
    return 2 * np.arange(1.0, n_steps + 1) / (n_steps * (n_steps + 1))


def _of_batches(record, objective, batches, **more):
    """Return steps on batches of one size."""
    size = record.batch_size
    sensitivity = record.adjacency.sum_sensitivity(objective.lipschitz) / size
    noise_std = record.step_size * record.noise_multiplier * sensitivity
    return Course(
        record.n_steps,
        record.step_size,
        noise_std,
        float(size),
        gathered_in_order(size * objective.most_rows),
        _of_any_batch(record, objective),
        batches,
        **more,
    )


def _of_any_batch(record, objective):
    """Return a Lipschitz constant of steps on few records or none, whatever they contract."""
    smoothness = objective.curvature + objective.alpha
    return max(1.0, step_lipschitz(record.step_size, objective.strong_convexity, smoothness))


def _of_parts(record: Any, objective: Objective) -> Course:
    """Return steps on disjoint batches, in the order of the rows or a permutation of them."""

    def batches(generator):
        shuffled = record.order == "shuffled_once"
        permutation = generator.permutation(objective.n_samples) if shuffled else None
        return FixedBatches(record.batch_size, permutation)

    return _of_batches(record, objective, batches, radius=_radius(record))


def _of_draws(record: Any, objective: Objective) -> Course:
    """Return steps on batches that are drawn afresh, in a ball that no iterate leaves."""

    def batches(generator):
        return FreshBatches(record.batch_size)

    return _of_batches(record, objective, batches, is_known=False)


def _one_by_one(record: Any, objective: Objective) -> Course:
    """Return a step on each record, of which the noise is that of its gradient."""
    return Course(
        record.n_samples,
        record.step_size,
        record.step_size * record.noise,
        1.0,
        gathered_in_order(objective.most_rows),
        _of_any_batch(record, objective),
        lambda generator: FixedBatches(1),
        radius=_radius(record),
        is_exact=record.distribution == "laplace",
        is_hidden=record.stopping == "random",
        options={"distribution": record.distribution},
    )


COURSES: dict[type, Callable[[Any, Objective], Course]] = {
    NoisyGradientDescent: _of_all,
    PoissonSubsampled: _of_poisson,
    CyclicBatches: _of_parts,
    WithoutReplacement: _of_draws,
    OnePass: _one_by_one,
}
"""Who makes the course of a record, by its kind."""
