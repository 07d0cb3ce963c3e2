"""DP-SGD: noisy gradient descent on Poisson batches, paid for step by step."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.objective import Objective
from skdpdyn.core.rounding import largest_batch
from skdpdyn.privacy import Budget, PoissonSubsampled
from skdpdyn.privacy.checks import checked_choice, checked_number, is_auto, is_named
from skdpdyn.privacy.schedules import curvature_aware_schedule, largest_step_size
from skdpdyn.solvers.base import (
    StepSolver,
    check_stable,
    checked_batch_size,
    checked_radius,
    checked_step_size,
    checked_steps,
    diameter_of,
    step_constants,
    training_time,
)
from skdpdyn.solvers.runs import paid


class DPSGD(StepSolver):
    """Differentially private stochastic gradient descent.

    Every step draws each record independently with probability q, sums the clipped gradients of the
    drawn records, adds Gaussian noise, divides by the public number q n, and updates the
    parameters: Algorithm 1 of Boninsegna, Algorithm 2 of Yu et al. (2020). Every iterate is
    charged. So momentum, averages of iterates and any step sizes cost nothing, but keeping the
    iterates before the last secret gains nothing.

    Parameters
    ----------
    n_steps : "auto" or int, default="auto"
        Number of steps. "auto": as many as are useful with this noise at the largest useful step
        size, see `skdpdyn.privacy.schedules.curvature_aware_time`.
    batch_size : "auto" or float, default="auto"
        Expected number of records in a batch, q n. "auto": the least number, at least 64, for which
        the noise on the sum allows nearly full privacy amplification by subsampling. All records if
        it is at least half of them. A smaller batch needs more noise; a larger one takes longer and
        gains little.
    step_size : "auto", "halved", "inverse" or float, default="auto"
        "auto": as for gradient descent, 2 / (strong_convexity + smoothness), twice that for a
        clipped softmax, or less if the training time divided by ``n_steps`` is less. "halved": the
        same in the first half of the steps, and half of it in the second. "inverse": 1 / (alpha t)
        in step t.
    momentum : float, default=0.0
        In [0, 1): the part of the last move, relative to its step size, that the next step repeats
        before the penalty is applied.
    average : {None, "uniform", "weighted"}, default=None
        The result: the last iterate, the mean of all T iterates, or their mean with weights 2
        t / (T (T + 1)).
    radius : float or None, default=None
        Radius of the ball around 0 that every step projects the parameters onto.

    References
    ----------
    M. Abadi, A. Chu, I. Goodfellow, H. B. McMahan, I. Mironov, K. Talwar, L. Zhang (2016), Deep
    learning with differential privacy, Algorithm 1. D. Yu, H. Zhang, W. Chen, J. Yin, T.-Y. Liu
    (2020), Gradient perturbation is underrated for differentially private convex optimization,
    Algorithm 2. F. Boninsegna (undated), The privacy analysis of the differential private
    stochastic gradient descent, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.solvers import DPSGD
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> solver = DPSGD(n_steps=200, batch_size=256)
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True], solver=solver)
    >>> model = model.fit(X, X[:, 0] > 0)
    >>> bool(model.score(X, X[:, 0] > 0) > 0.8), model.n_iter_, round(model.noise_multiplier_, 1)
    (True, 200, 7.0)
    """

    draws = True
    takes_persons = True

    def __init__(
        self,
        n_steps: int | str = "auto",
        batch_size: int | str = "auto",
        step_size: float | str = "auto",
        momentum: float = 0.0,
        average: str | None = None,
        radius: float | None = None,
    ) -> None:
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.step_size = step_size
        self.momentum = momentum
        self.average = average
        self.radius = radius

    def mechanism(
        self, objective: Objective, budget: Budget, bound: str
    ) -> Callable[[float], PoissonSubsampled]:
        """See `Solver.mechanism`."""
        self._check()
        n_steps, step_size = self._schedule(objective, budget)
        sampling_probability = self._sampling_probability(objective.n_samples, n_steps, budget)

        check_stable(step_size, objective)
        radius = checked_radius(self.radius)
        cut = {}
        if not (self.momentum > 0 or self.average is not None):  # or else all noise is exact
            largest = largest_batch(objective.n_samples, sampling_probability, n_steps)
            if largest < objective.n_samples:
                cut = {"n_samples": objective.n_samples, "largest_batch": largest}

        def record(noise_multiplier):
            described = PoissonSubsampled(
                sampling_probability=sampling_probability,
                noise_multiplier=noise_multiplier,
                n_steps=n_steps,
                adjacency=budget.adjacency,
                step_size=step_size,
                momentum=self.momentum,
                average=self.average,
                diameter=diameter_of(radius),
                **cut,
            )
            return paid(described, objective)

        return record

    def fitted_attributes(self, mechanism: PoissonSubsampled) -> dict[str, Any]:
        """See `Solver.fitted_attributes`."""
        return {
            "noise_multiplier_": mechanism.noise_multiplier,
            "n_iter_": mechanism.n_steps,
            "step_size_": mechanism.step_size,
        }

    def _check(self):
        checked_number(self.momentum, "momentum", lambda x: 0 <= x < 1, "a number in [0, 1)")
        if self.average is not None:
            checked_choice(self.average, "average", ("uniform", "weighted"), others="None, ")
        checked_radius(self.radius)

    def _schedule(self, objective, budget):
        """Return the number of steps and the size of each."""
        time = training_time(objective, budget)
        constants = step_constants(objective)
        step_size = self.step_size
        named = is_named(step_size, "halved", "inverse")
        constant = None if named else checked_step_size(step_size, "'auto', 'halved', 'inverse'")
        n_steps = checked_steps(self.n_steps, "n_steps")
        if n_steps is None:
            n_steps, constant = curvature_aware_schedule(time, **constants, step_size=constant)
        else:
            constant = constant or min(largest_step_size(**constants), time / n_steps)
        if step_size == "halved":
            return n_steps, np.where(np.arange(n_steps) < n_steps / 2, constant, constant / 2)
        if step_size == "inverse":
            if not objective.strong_convexity > 0:
                raise ValueError(
                    "step_size='inverse' is 1 / (alpha t): it needs alpha > 0, or use 'auto'"
                )
            return n_steps, 1 / (objective.strong_convexity * np.arange(1, n_steps + 1))
        return n_steps, constant

    def _sampling_probability(self, n_samples, n_steps, budget):
        if is_auto(self.batch_size):
            # With little amplification lost, mu = (S / C) q sqrt(n_steps) / noise_multiplier
            batch_size = (
                n_samples
                * rules.batch_noise(is_poisson=True)
                * budget.mu
                / (budget.adjacency.sum_sensitivity(1.0) * math.sqrt(n_steps))
            )
            batch_size = max(batch_size, rules.LEAST_BATCH)
            # with all records the guarantee has an exact closed form
            return batch_size / n_samples if batch_size < n_samples / 2 else 1.0
        return checked_batch_size(self.batch_size, n_samples) / n_samples
