"""Noisy stochastic gradient descent on single records: a rival in the literature's tables."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.noise import Generator
from skdpdyn.core.objective import Objective
from skdpdyn.core.rounding import largest_batch, rounding_mu, step_lipschitz
from skdpdyn.data.base import Rows
from skdpdyn.kernels.draws import PoissonBatches
from skdpdyn.privacy import Budget, PoissonSubsampled
from skdpdyn.privacy.checks import checked_number, is_auto
from skdpdyn.solvers.base import Solver, checked_steps
from skdpdyn.solvers.steps import Steps, descend
from skdpdyn.support.chunks import gathered_in_order
from skdpdyn.support.progress import Progress

_MOST_STEPS = 100_000  # limit of "auto": a few seconds
_COUNTABLE = 3e14  # times delta: the most steps that numerical accounting can count


def poisson_rounding(
    objective: Any,
    step_size: Any,
    noise_std: Any,
    n_steps: int,
    sampling_probability: float,
    radius: float,
) -> tuple[float, dict[str, int]]:
    """Return `rounding_mu` of steps on Poisson batches, and where the record says they are cut.

    Parameters
    ----------
    objective : Objective
        The problem.
    step_size, noise_std : float or ndarray of shape (n_steps,)
        The schedule.
    n_steps : int
        Number of steps.
    sampling_probability : float
        Probability that a batch takes a record.
    radius : float
        Radius of the ball that every step projects onto.
    """
    n_samples = objective.n_samples
    largest = largest_batch(n_samples, sampling_probability, n_steps)
    repeats = largest / (sampling_probability * n_samples)
    steepest = repeats * objective.curvature + objective.alpha
    rounding = rounding_mu(
        objective,
        step_size,
        noise_std,
        n_steps,
        radius=radius,
        lipschitz=step_lipschitz(step_size, objective.alpha, steepest),
        n_summed=gathered_in_order(largest * objective.most_rows),
        repeats=repeats,
    )
    is_cut = largest < n_samples
    return rounding, {"n_samples": n_samples, "largest_batch": largest} if is_cut else {}


class BassilySGD(Solver):
    """Noisy SGD on one record a step, with steps of Bassily, Smith and Thakurta (2014).

    Their Algorithm 1: theta <- Proj(theta - step (grad_i(theta) + alpha theta + noise)), with step
    1 / (alpha t) at step t for a strongly convex objective and 2 radius / sqrt(t (L^2 + d sigma^2))
    for alpha = 0, sigma the deviation of the noise. Here every record comes with probability 1/n,
    independently: one a step in the mean instead of exactly one, with a tighter theorem. Accounted
    by today's composition of Poisson-subsampled Gaussians in place of their strong composition, so
    with far less noise.

    Parameters
    ----------
    n_steps : "auto" or int, default="auto"
        Number of steps. "auto": n^2 as in the paper, or as many as 100,000 and the numerical
        accounting allow, delta 3e14.
    radius : "auto" or float, default="auto"
        Radius of the ball around 0 that every step projects onto. "auto": L / alpha, which holds
        the minimiser.

    References
    ----------
    R. Bassily, A. Smith, A. Thakurta (2014), Private empirical risk minimization: efficient
    algorithms and tight error bounds, Algorithm 1 and Theorem 2.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from benchmarks.rivals.bassily_sgd import BassilySGD
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> solver = BassilySGD(n_steps=2000)
    >>> model = PrivateLogisticRegression(8.0, alpha=0.1, classes=[False, True], solver=solver)
    >>> model = model.fit(X, X[:, 0] > 0)
    >>> bool(model.score(X, X[:, 0] > 0) > 0.8), model.n_iter_, round(model.noise_multiplier_, 1)
    (True, 2000, 0.4)
    """

    def __init__(self, n_steps: int | str = "auto", radius: Any = "auto") -> None:
        self.n_steps = n_steps
        self.radius = radius

    def auto_alpha(self, objective: Objective, budget: Budget, bound: str) -> float:
        """See `Solver.auto_alpha`: the penalty alone limits the noise."""
        return super().auto_alpha(objective, budget, bound) / rules.FORGETTING

    def mechanism(
        self, objective: Objective, budget: Budget, bound: str
    ) -> Callable[[float], PoissonSubsampled]:
        """See `Solver.mechanism`."""
        n_steps = checked_steps(self.n_steps, "n_steps")
        if n_steps is None:
            n_steps = max(
                1, min(objective.n_samples**2, _MOST_STEPS, int(_COUNTABLE * budget.delta))
            )
        radius = self._radius(objective)
        q = 1 / objective.n_samples

        def record(noise_multiplier):
            noise_std = noise_multiplier * objective.lipschitz
            last = _step_size(objective, radius, noise_std, n_steps)  # the least
            rounding, cut = poisson_rounding(objective, last, last * noise_std, n_steps, q, radius)
            return PoissonSubsampled(
                sampling_probability=q,
                noise_multiplier=noise_multiplier,
                n_steps=n_steps,
                adjacency=budget.adjacency,
                diameter=2 * radius,
                rounding=2 * rounding,  # falls as the noise of a step does
                **cut,
            )

        return record

    def solve(
        self,
        objective: Objective,
        mechanism: PoissonSubsampled,
        rows: Rows,
        *,
        generator: Generator,
        verbose: int = 0,
    ) -> np.ndarray:
        """See `Solver.solve`."""
        radius = mechanism.diameter / 2
        noise_std = mechanism.noise_multiplier * objective.lipschitz
        step_size = _step_size(objective, radius, noise_std, np.arange(1.0, mechanism.n_steps + 1))
        divisor = mechanism.sampling_probability * objective.n_samples
        steps = Steps(step_size, step_size * noise_std, divisor, radius)
        batches = PoissonBatches(mechanism.sampling_probability, mechanism.largest_batch)
        with Progress(mechanism.n_steps, verbose=verbose) as progress:
            return descend(objective, rows, steps, generator, batches=batches, progress=progress)

    def fitted_attributes(self, mechanism: PoissonSubsampled) -> dict[str, Any]:
        """See `Solver.fitted_attributes`: step sizes decrease."""
        return {"noise_multiplier_": mechanism.noise_multiplier, "n_iter_": mechanism.n_steps}

    def _radius(self, objective):
        if is_auto(self.radius):
            if objective.alpha == 0:
                raise ValueError(
                    "alpha=0: radius='auto' is L / alpha. Give the radius of a ball to search, "
                    "or a penalty"
                )
            return objective.lipschitz / objective.alpha
        requirement = "'auto' or a finite number > 0"
        return checked_number(self.radius, "radius", lambda x: 0 < x < math.inf, requirement)


def _step_size(objective, radius, noise_std, step):
    """Return the size of a step, by its number from 1."""
    if objective.alpha > 0:
        return 1 / (objective.alpha * step)
    return (
        2
        * radius
        / np.sqrt(step * (objective.lipschitz**2 + objective.n_parameters * noise_std**2))
    )
