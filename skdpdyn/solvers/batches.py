"""Batches of `NoisySGD`: how records come into them, the record of such a run, and its steps.

A value for each way. `TAKES` says which parameters go with which.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpdyn.core.noise import Generator
from skdpdyn.core.objective import Objective
from skdpdyn.core.rounding import farthest_iterate, public_radius, rounding_mu, step_lipschitz
from skdpdyn.kernels.draws import Batches, FixedBatches, FreshBatches
from skdpdyn.privacy import Adjacency, CyclicBatches, OnePass, WithoutReplacement
from skdpdyn.solvers.base import radius_of
from skdpdyn.solvers.steps import Steps
from skdpdyn.support.chunks import gathered_in_order

TAKES = {
    "shuffled_once": ("batch_size", "n_epochs", "cooling", "radius"),
    "cyclic": ("batch_size", "n_epochs", "cooling", "radius"),
    "without_replacement": ("batch_size", "n_epochs"),
    "one_pass": ("radius", "distribution", "stopping"),
}
"""The parameters that go with each sampling."""
ELSE = {
    "batch_size": (("auto", 1), "takes a record a step, once"),
    "n_epochs": (("auto", 1), "takes a record a step, once"),
    "cooling": (("auto", False), "has no disjoint batches, which cooling needs"),
    "radius": ((None,), "has no bound that knows a projection"),
    "distribution": (("gaussian",), "has no bound with Laplace noise: take 'one_pass'"),
    "stopping": (("last",), "has no bound with random stopping: take 'one_pass'"),
}
"""Values of those that do not go with it, and why."""


@dataclass(frozen=True, eq=False)
class Run:
    """Public numbers of a run on batches, whatever its noise.

    Parameters
    ----------
    batch_size, n_epochs, n_steps : int
        Records in a batch, passes and steps.
    step_size : float or ndarray of shape (n_steps,)
        Step sizes without cooling.
    slowdown : float or ndarray of shape (n_steps,)
        Factor of cooling: steps are shorter by it, and their noise is as before.
    radius : float
        Radius of the ball that every step projects onto.
    adjacency : Adjacency
        The neighbouring relation.
    """

    batch_size: int
    n_epochs: int
    n_steps: int
    step_size: Any
    slowdown: Any
    radius: float
    adjacency: Adjacency

    def facts(self, objective: Objective) -> dict[str, Any]:
        """Return the fields that records of batches share."""
        return {
            "n_samples": objective.n_samples,
            "batch_size": self.batch_size,
            "n_epochs": self.n_epochs,
            "strong_convexity": objective.strong_convexity,
            "smoothness": objective.smoothness,
            "adjacency": self.adjacency,
        }

    def rounding(self, objective, step_size, noise_std, largest_norm=public_radius):
        """Return the cost of the rounding of all steps."""
        smoothness = objective.curvature + objective.alpha
        return rounding_mu(
            objective,
            step_size,
            noise_std,
            self.n_steps,
            radius=min(self.radius, largest_norm(objective, step_size, noise_std, self.n_steps)),
            lipschitz=max(1.0, step_lipschitz(step_size, objective.strong_convexity, smoothness)),
            n_summed=gathered_in_order(self.batch_size * objective.most_rows),
        )


@dataclass(frozen=True)
class Disjoint:
    """Disjoint batches in the same order in every epoch, "fixed" or "shuffled_once"."""

    order: str

    def records(self, objective: Objective, run: Run) -> Callable[[float], CyclicBatches]:
        """Return the record of a run, as a function of its noise multiplier."""
        sensitivity = run.adjacency.sum_sensitivity(objective.lipschitz) / run.batch_size
        sizes = run.step_size * run.slowdown
        return lambda noise: CyclicBatches(
            noise_multiplier=noise / run.slowdown,
            step_size=sizes,
            rounding=run.rounding(objective, sizes, run.step_size * noise * sensitivity),
            diameter=None if math.isinf(run.radius) else 2 * run.radius,
            sensitivity=sensitivity,
            order=self.order,
            **run.facts(objective),
        )

    @staticmethod
    def steps(
        mechanism: CyclicBatches, objective: Objective, generator: Generator
    ) -> tuple[Batches, Steps]:
        """Return who is in which step, and the steps."""
        shuffled = mechanism.order == "shuffled_once"
        permutation = generator.permutation(objective.n_samples) if shuffled else None
        steps = _steps_of(mechanism, objective, radius_of(mechanism.diameter))
        return FixedBatches(mechanism.batch_size, permutation), _in_ball(steps, objective)


class Fresh:
    """Batches that are drawn afresh, each of so many records."""

    def records(self, objective: Objective, run: Run) -> Callable[[float], WithoutReplacement]:
        """Return the record of a run, as a function of its noise multiplier."""
        unit = run.step_size * run.adjacency.sum_sensitivity(objective.lipschitz) / run.batch_size
        return lambda noise: WithoutReplacement(
            noise_multiplier=noise,
            step_size=run.step_size,
            rounding=run.rounding(objective, run.step_size, unit * noise, farthest_iterate),
            **run.facts(objective),
        )

    @staticmethod
    def steps(
        mechanism: WithoutReplacement, objective: Objective, generator: Generator
    ) -> tuple[Batches, Steps]:
        """Return who is in which step, and the steps, in a ball that no iterate leaves."""
        steps = _steps_of(mechanism, objective, math.inf)
        return FreshBatches(mechanism.batch_size), _in_ball(steps, objective, farthest_iterate)


@dataclass(frozen=True)
class OneByOne:
    """A record a step, once, in the order of the rows."""

    distribution: str
    stopping: str

    def records(self, objective: Any, run: Run) -> Callable[[float], OnePass]:
        """Return the record of a run, as a function of its noise multiplier."""
        unit = run.adjacency.sum_sensitivity(objective.lipschitz)

        def rounding(noise_std):  # Laplace noise is exact in every step
            is_exact = self.distribution == "laplace"
            return 0.0 if is_exact else run.rounding(objective, run.step_size, noise_std)

        return lambda noise: OnePass(
            n_samples=objective.n_samples,
            noise=noise * unit,
            step_size=run.step_size,
            lipschitz=objective.lipschitz,
            smoothness=objective.smoothness,
            diameter=2 * run.radius,
            strong_convexity=objective.strong_convexity,
            distribution=self.distribution,
            stopping=self.stopping,
            adjacency=run.adjacency,
            rounding=rounding(run.step_size * noise * unit),
        )

    @staticmethod
    def steps(
        mechanism: OnePass, objective: Objective, generator: Generator
    ) -> tuple[Batches, Steps]:
        """Return who is in which step, and the steps, up to one that is drawn if it stops early."""
        step_size = np.full(mechanism.n_samples, mechanism.step_size)
        radius = radius_of(mechanism.diameter)
        law = mechanism.distribution
        steps = Steps(step_size, step_size * mechanism.noise, 1.0, radius, distribution=law)
        steps = _in_ball(steps, objective)
        if mechanism.stopping == "random":
            last = int(generator.integers(1, mechanism.n_samples + 1))
            step_size = steps.step_size[:last]
            noise_std = steps.noise_std[:last]
            steps = replace(steps, step_size=step_size, noise_std=noise_std)
        return FixedBatches(1), steps


STEPS: dict[type, Any] = {
    CyclicBatches: Disjoint.steps,
    WithoutReplacement: Fresh.steps,
    OnePass: OneByOne.steps,
}
"""Who makes the steps of a record."""


def _in_ball(steps, objective, largest_norm=public_radius):
    """Return steps in the ball that the rounding was paid for."""
    ball = largest_norm(objective, steps.step_size, steps.noise_std, steps.step_size.size)
    return replace(steps, radius=min(steps.radius, ball))


def _steps_of(mechanism, objective, radius):
    step_size = np.broadcast_to(np.asarray(mechanism.step_size), mechanism.n_steps)
    sensitivity = mechanism.adjacency.sum_sensitivity(objective.lipschitz) / mechanism.batch_size
    noise_std = step_size * mechanism.noise_multiplier * sensitivity
    return Steps(step_size, noise_std, float(mechanism.batch_size), radius)
