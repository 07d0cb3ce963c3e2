"""Objective perturbation: the certified minimiser of the risk plus a random linear term."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.losses import Loss
from skdpdyn.core.noise import NOISE_ERROR, Generator, largest_norm, release, standard_noise
from skdpdyn.core.objective import Objective
from skdpdyn.data.base import Rows
from skdpdyn.privacy import Budget, Composition, PerturbedObjective, PerturbedOutput
from skdpdyn.privacy.checks import checked_choice, is_named
from skdpdyn.solvers.base import Solver, training_time
from skdpdyn.solvers.minimise import (
    certifiable,
    check_condition,
    checked_tolerance,
    largest_rounding,
    minimise,
)

# times 1/sqrt(n): standard deviation of a raw prediction caused by the noise on the output
_NEGLIGIBLE = 0.01
_LEAST_ALPHA = 1e-9  # times the curvature, for alpha="auto"


class ObjectivePerturbation(Solver):
    """Objective perturbation with approximate minima.

    Minimises the regularised empirical risk plus ``b @ theta / n`` for one random b. The gradient
    at the result has a norm of at most ``tolerance``, certified in exact arithmetic, so the result
    is within tolerance / alpha of the exact minimiser. Further noise hides that distance, and takes
    a hundredth of the budget (of mu^2, or of epsilon if the noise is pure). A minimiser that misses
    the tolerance is an error, and the noise is never drawn again.

    Single outputs may be clipped (a clipped squared loss is Huber's); softmax is learnt unclipped.
    The clipped loss, the penalty and the noise are all known before a record is seen.

    Parameters
    ----------
    noise : {"gaussian", "gamma"}, default="gaussian"
        The distribution of b. "gamma": a density proportional to exp(-norm(b) / s), which allows
        delta = 0. The norm of gamma noise grows with the number of parameters, that of Gaussian
        noise with its square root.
    tolerance : "auto" or float, default="auto"
        Largest norm of the gradient of the empirical risk; it is reached whatever the records.
        "auto": small enough that the noise on the output moves a raw prediction by a hundredth of
        1/sqrt(n_samples), or the least that double precision can certify. (With millions of rows
        and a large budget the latter costs accuracy: use noisy gradients there.)

    References
    ----------
    K. Chaudhuri, C. Monteleoni, A. Sarwate (2011), Differentially private empirical risk
    minimization, Algorithm 2. D. Kifer, A. Smith, A. Thakurta (2012), Private convex empirical risk
    minimization and high-dimensional regression, Algorithm 1. R. Iyengar, J. Near, D. Song, O.
    Thakkar, A. Thakurta, L. Wang (2019), Towards practical differentially private convex
    optimization, Algorithm 1: approximate minima. R. Redberg, A. Koskela, Y.-X. Wang (2023),
    Improving the privacy and practicality of objective perturbation for differentially private
    linear learners. What it costs: `skdpdyn.privacy.perturbation`.

    Examples
    --------
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.solvers import ObjectivePerturbation
    >>> solver = ObjectivePerturbation(noise="gamma")
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=0, classes=[0, 1], solver=solver)
    >>> round(model.privacy_cost(n_samples=1000, n_features=5).epsilon(0.0), 3)
    1.0
    """

    takes_persons = True
    pays_for_rows = True
    streams = True

    def __init__(self, noise: str = "gaussian", tolerance: float | str = "auto") -> None:
        self.noise = noise
        self.tolerance = tolerance

    @property
    def pure(self) -> bool:
        """See `Solver`."""
        return is_named(self.noise, "gamma")

    def auto_clip(self, loss: Loss, clip: float) -> float:
        """See `Solver.auto_clip`: none for softmax; twice the bound for Huber's loss."""
        if loss.n_outputs > 1:
            return loss.lipschitz
        return clip if math.isfinite(loss.lipschitz) else 2 * clip

    def auto_alpha(self, objective: Objective, budget: Budget, bound: str) -> float:
        """See `Solver.auto_alpha`: the noise moves a raw prediction of the longest row by about 1.

        With the training time T of `skdpdyn.privacy.schedules.curvature_aware_time`, 1/T would be
        just there. More parameters ask for more, a stronger signal (T times the curvature) for
        less. At least what leaves the Jacobian a quarter of epsilon.
        """
        mu = self.gaussian_mu(budget, objective.n_parameters)
        time = training_time(objective, budget, mu=mu, tolerable_noise=1.0)
        shrinkage = rules.shrinkage(objective.n_parameters, time * objective.curvature)
        trace = objective.trace
        rank = _rank(objective)
        # curvature of the record
        largest = rank * math.expm1(min(rules.TILT * budget.epsilon / rank, 700.0))
        return max(
            shrinkage / time,
            trace / (largest * objective.n_samples),
            _LEAST_ALPHA * objective.curvature,
        )

    def mechanism(
        self, objective: Objective, budget: Budget, bound: str
    ) -> Callable[[float], Composition]:
        """See `Solver.mechanism`."""
        checked_choice(self.noise, "noise", ("gaussian", "gamma"))
        if not objective.contracts:
            raise ValueError(
                f"clip={objective.clip:.6g}: a clipped {objective.loss.name} is the gradient of no "
                "convex loss, and objective perturbation needs one. Use clip='auto', or "
                "solver='noisy_gd'"
            )
        if not objective.alpha > 0:
            raise ValueError(
                "alpha=0: objective perturbation needs a penalty. Use alpha='auto' or alpha > 0"
            )
        check_condition(objective)
        constants = {
            "curvature": objective.trace / (objective.n_samples * objective.alpha),
            "rank": _rank(objective),
            "distribution": self.noise,
            "adjacency": budget.adjacency,
        }
        tilt = PerturbedObjective(noise_multiplier=1.0, **constants).tilt
        if not tilt < budget.epsilon:
            raise ValueError(
                f"alpha={objective.alpha:.6g}: the Jacobian alone costs {tilt:.6g}, more than "
                f"epsilon={budget.epsilon:.6g}. Raise alpha"
            )
        hidden = 100.0 if self.pure else 10.0  # a hundredth of epsilon, or of mu^2

        chosen = checked_tolerance(self.tolerance)

        def record(noise_multiplier):
            shared = {"distribution": self.noise, "adjacency": budget.adjacency}
            linear = PerturbedObjective(noise_multiplier=noise_multiplier, **constants)
            output = PerturbedOutput(
                noise_multiplier=hidden * noise_multiplier, statistic="minimiser", **shared
            )
            mechanism = Composition((linear, output))
            unit, least = self._limits(objective, mechanism)
            tolerance = (
                max(_NEGLIGIBLE / math.sqrt(objective.n_samples) * unit, least)
                if chosen is None
                else chosen
            )
            return Composition((linear, replace(output, tolerance=tolerance)))

        return record

    def solve(
        self,
        objective: Objective,
        mechanism: Composition,
        rows: Rows,
        *,
        generator: Generator,
        verbose: int = 0,
    ) -> np.ndarray:
        """See `Solver.solve`."""
        linear, output = mechanism.mechanisms
        sensitivity = objective.sensitivity(mechanism.adjacency)
        linear_scale = linear.noise_multiplier * sensitivity
        term = linear_scale * standard_noise(linear.distribution, objective.n_parameters, generator)
        output_scale = output.noise_multiplier * 2 * output.tolerance / objective.alpha
        certified = output.tolerance - _term_error(objective, linear_scale)
        theta = minimise(objective, rows, tolerance=certified, linear=term, verbose=verbose)
        return release(theta, output_scale, generator, output.distribution)

    def fitted_attributes(self, mechanism: Composition) -> dict[str, Any]:
        """See `Solver.fitted_attributes`: there are no steps."""
        return {"noise_multiplier_": mechanism.mechanisms[0].noise_multiplier}

    def check_mechanism(self, objective: Objective, mechanism: Composition) -> None:
        """See `Solver.check_mechanism`: the certificate must be within reach."""
        output = mechanism.mechanisms[1]
        unit, least = self._limits(objective, mechanism)
        if least > unit:
            raise ValueError(
                f"n_samples={objective.n_samples}, alpha={objective.alpha:.6g}: double "
                "precision cannot certify a minimiser so "
                "well that the noise which hides the rest would not drown the model. Raise "
                "alpha, or use solver='noisy_gd'"
            )
        certifiable(output.tolerance, None, least)

    def _limits(self, objective, mechanism):
        """Return the tolerance whose noise moves a raw prediction by 1, and the least one."""
        linear, output = mechanism.mechanisms
        linear_scale = linear.noise_multiplier * objective.sensitivity(mechanism.adjacency)
        # deviation over scale
        per_coordinate = (
            math.sqrt(objective.n_parameters) if linear.distribution == "gamma" else 1.0
        )
        unit = objective.alpha / (2 * output.noise_multiplier * objective.row_norm * per_coordinate)
        # The rounding of a gradient at any minimiser: an error for some records and not for others
        # would be a release
        slope = linear_scale * largest_norm(linear.distribution, objective.n_parameters)
        least = 4 * largest_rounding(objective, objective.minimiser_norm(slope), slope=slope)
        return unit, least + 2 * _term_error(objective, linear_scale)


def _rank(objective):
    """Return the largest rank of a record's Hessian, which grows with its number of rows."""
    return min(objective.loss.rank * objective.most_rows, objective.n_parameters)


def _term_error(objective, linear_scale):
    """Return how far the random linear term may be from an ideal one."""
    return math.sqrt(objective.n_parameters) * NOISE_ERROR * linear_scale
