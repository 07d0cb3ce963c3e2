"""Batches of `NoisySGD`: how records come into them, and the record of such a run.

A value for each way. `TAKES` says which parameters go with which.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skdpdyn.core.objective import Objective
from skdpdyn.privacy import Adjacency, CyclicBatches, OnePass, WithoutReplacement
from skdpdyn.solvers.base import diameter_of
from skdpdyn.solvers.runs import paid

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


@dataclass(frozen=True)
class Disjoint:
    """Disjoint batches in the same order in every epoch, "fixed" or "shuffled_once"."""

    order: str

    def records(self, objective: Objective, run: Run) -> Callable[[float], CyclicBatches]:
        """Return the record of a run, as a function of its noise multiplier."""
        sensitivity = objective.sensitivity(run.adjacency, run.batch_size)

        def record(noise):
            described = CyclicBatches(
                noise_multiplier=noise / run.slowdown,
                step_size=run.step_size * run.slowdown,
                diameter=diameter_of(run.radius),
                sensitivity=sensitivity,
                order=self.order,
                **run.facts(objective),
            )
            return paid(described, objective)

        return record


class Fresh:
    """Batches that are drawn afresh, each of so many records."""

    def records(self, objective: Objective, run: Run) -> Callable[[float], WithoutReplacement]:
        """Return the record of a run, as a function of its noise multiplier."""

        def record(noise):
            described = WithoutReplacement(
                noise_multiplier=noise, step_size=run.step_size, **run.facts(objective)
            )
            return paid(described, objective)

        return record


@dataclass(frozen=True)
class OneByOne:
    """A record a step, once, in the order of the rows."""

    distribution: str
    stopping: str

    def records(self, objective: Any, run: Run) -> Callable[[float], OnePass]:
        """Return the record of a run, as a function of its noise multiplier."""

        def record(noise_multiplier):
            described = OnePass.of_multiplier(
                noise_multiplier,
                n_samples=objective.n_samples,
                step_size=run.step_size,
                lipschitz=objective.lipschitz,
                smoothness=objective.smoothness,
                diameter=2 * run.radius,
                strong_convexity=objective.strong_convexity,
                distribution=self.distribution,
                stopping=self.stopping,
                adjacency=run.adjacency,
            )
            return paid(described, objective)

        return record
