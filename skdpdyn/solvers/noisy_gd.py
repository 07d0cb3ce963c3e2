"""Full-batch noisy gradient descent: the algorithm of the Langevin and last-iterate bounds."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.losses import Loss
from skdpdyn.core.noise import Generator
from skdpdyn.core.objective import Objective
from skdpdyn.data.base import Rows
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import Adjacency, Budget, NoisyGradientDescent
from skdpdyn.privacy._types import Public, Released
from skdpdyn.privacy.checks import is_auto, is_named
from skdpdyn.privacy.needs import needs
from skdpdyn.privacy.schedules import (
    cooled,
    curvature_aware_schedule,
    largest_step_size,
    theorem4_schedule,
    worst_case_steps,
)
from skdpdyn.solvers.base import (
    Solver,
    check_stable,
    checked_cooling,
    checked_radius,
    checked_step_size,
    checked_steps,
    cooled_training_time,
    diameter_of,
    run_told,
    step_constants,
)
from skdpdyn.solvers.runs import paid

_MOST_CONVERGING = 100_000  # steps of "theorem4": minutes on 1e5 rows
_STEPS_OF_AUTO = 10_000  # of alpha="auto"


def conditioned_time(objective: Objective, mu: float, adjacency: Adjacency) -> float:
    """Return the training time that pays on conditioned rows: n mu over the sensitivity.

    In units in which the loss of one output has the logistic one's curvature, 1/4, and that of
    several softmax's, 1/2.
    """
    n_outputs = objective.n_together
    unit = math.sqrt((0.25 if n_outputs == 1 else 0.5) / objective.typical)
    strength = rules.strength_of(objective.n_samples, mu, adjacency)
    is_bounded = math.isfinite(objective.loss.lipschitz)
    factor = rules.training_time(strength, objective.n_at_once, n_outputs, is_bounded)
    factor *= _left_to_learn(objective, strength)
    return unit * factor * strength / objective.lipschitz


def _left_to_learn(objective: Objective, strength: float) -> float:
    """Return the part of the training time that is left for a model that starts from another."""
    has_start = objective.start_norm > 0
    return rules.started_time(strength, objective.n_parameters) if has_start else 1.0


@dataclass(frozen=True)
class Learnt:
    """Facts learnt of mapped rows, which steps follow from.

    Parameters
    ----------
    top : float
        About the largest eigenvalue of the second moment of mapped rows with their intercept
        column.
    enough : float, default=inf
        Plain steps that are enough, at the curvature where training starts.
    flatness : float, default=1.0
        Curvature of the loss where training starts, over `Objective.typical`; at most 1.
    steepness : float, default=1.0
        Curvature of the loss that limits steps, over `Objective.typical`.
    time : float, default=1.0
        Factor of the training time.
    are_alike : bool, default=True
        Whether mapped rows are of one scale in all directions.
    kinks : tuple of float, default=()
        Half-widths of the loss's kink, step by step; (): that of the loss in all steps.
    """

    top: Released
    enough: Released = math.inf
    flatness: Released = 1.0
    steepness: Released = 1.0
    time: Released = 1.0
    are_alike: Annotated[bool, "released"] = True
    kinks: tuple[Public, ...] = ()


class NoisyGD(Solver):
    """Full-batch noisy gradient descent that releases its last iterate.

    Chourasia, Ye and Shokri (2021), Algorithm 1, from theta = 0: theta <- Proj(theta - step_size *
    gradient + noise).

    On preprocessed rows, with ``n_steps`` and ``step_size`` "auto", the solver takes at least 16
    steps, of the largest size that a privately learnt curvature allows. If more than 16 are needed,
    steps have momentum (Polyak 1964), and their number grows with the root of n mu. If the loss has
    a kink and there are many records, the kink narrows from step to step, and the step size is
    proportional to its width. Composition is the privacy bound of these steps, whatever the
    curvature and the momentum.

    Parameters
    ----------
    n_steps : "auto", "worst_case", "theorem4" or int, default="auto"
        Number of passes over the data. "auto": as many as are useful with this noise, see
        `skdpdyn.privacy.schedules.curvature_aware_time`. "worst_case": the number with the least
        worst-case error. "theorem4": step size and steps of Chourasia, Ye and Shokri (2021),
        Theorem 4, for the budget that is left for training. The noise is the least that the bound
        allows, with ``bound="langevin"`` at most that of the theorem. ``alpha`` must be > 0 and
        large enough for at most 100,000 steps, and epsilon <= 2 log(1/delta). With ``alpha="auto"``
        the penalty balances its bias with the noise of the theorem, or is larger, to keep the steps
        within 10,000. With ``clip="auto"`` a softmax is not clipped.
    step_size : "auto" or float, default="auto"
        "auto": the largest step that contracts, 2 / (strong_convexity + smoothness), or less if
        that would leave fewer than 16 steps. For a clipped softmax, whose steps never contract:
        twice that. Above 2 / smoothness only composition holds.
    radius : float or None, default=None
        Radius of the ball around 0 that every step projects the parameters onto. The projection
        bounds the privacy loss even without strong convexity. The radius is in units of the
        coefficients, including the intercept divided by ``intercept_scaling``.
    cooling : "auto" or bool, default="auto"
        Whether step sizes fall linearly to 0 over the second half of the run, which lowers the
        noise of the last iterate in directions that the data determine well. "auto": True if
        ``n_steps`` and ``step_size`` are "auto" too, steps contract, and there are many records for
        the budget and the number of parameters, see `skdpdyn.privacy.schedules.cooled_time_factor`.
        But False with a ``radius``, which makes the cost of unequal steps slow to compute, and with
        ``bound="langevin"``, which needs equal steps. Cooled steps train for up to 3 times as long,
        in up to 4 times as many steps, at most 10,000, as without cooling.

    References
    ----------
    R. Chourasia, J. Ye, R. Shokri (2021), Differential privacy dynamics of Langevin diffusion and
    noisy gradient descent, Algorithm 1 and Theorem 4. J. Bok, W. Su, J. Altschuler (2024), Shifted
    interpolation for differential privacy (the cost of the last iterate). B. Polyak (1964), Some
    methods of speeding up the convergence of iteration methods.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.solvers import NoisyGD
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> solver = NoisyGD(n_steps=40, step_size=2.0)
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True], solver=solver)
    >>> model = model.fit(X, X[:, 0] > 0)
    >>> bool(model.score(X, X[:, 0] > 0) > 0.8), model.n_iter_, round(model.noise_multiplier_, 2)
    (True, 40, 30.67)
    """

    maps_rows = True
    gaussian = True
    takes_persons = True
    streams = True
    starts = True

    def __init__(
        self,
        n_steps: int | str = "auto",
        step_size: float | str = "auto",
        radius: float | None = None,
        cooling: bool | str = "auto",
    ) -> None:
        self.n_steps = n_steps
        self.step_size = step_size
        self.radius = radius
        self.cooling = cooling

    def auto_clip(self, loss: Loss, clip: float) -> float:
        """See `Solver.auto_clip`: no clip for a softmax whose steps have to contract."""
        converges = is_named(self.n_steps, "theorem4")
        return loss.lipschitz if converges and loss.n_outputs > 1 else clip

    def auto_alpha(self, objective: Objective, budget: Budget, bound: str) -> float:
        """See `Solver.auto_alpha`."""
        if is_named(self.n_steps, "theorem4"):
            return _converging_alpha(objective, budget)
        return rules.FORGETTING / self._time(objective, budget, bound)[0]

    def mechanism(
        self, objective: Objective, budget: Budget, bound: str
    ) -> Callable[[float], NoisyGradientDescent]:
        """See `Solver.mechanism`."""
        n_steps, step_size = self._schedule(objective, budget, bound)
        check_stable(step_size, objective)
        radius = checked_radius(self.radius)
        sensitivity = objective.sensitivity(budget.adjacency)

        def record(noise_multiplier):
            described = NoisyGradientDescent(
                n_steps=n_steps,
                noise_multiplier=noise_multiplier,
                step_size=step_size,
                strong_convexity=objective.strong_convexity,
                smoothness=objective.smoothness,
                diameter=diameter_of(radius),
                sensitivity=sensitivity,
                adjacency=budget.adjacency,
            )
            return paid(described, objective)

        return record

    @property
    def adapts(self) -> bool:
        """See `Solver.adapts`."""
        return is_auto(self.n_steps) and is_auto(self.step_size) and self.radius is None

    def adapted(
        self,
        objective: Objective,
        mu: Released,
        adjacency: Adjacency,
        learnt: Learnt,
    ) -> Callable[[float], NoisyGradientDescent]:
        """Return the run on conditioned rows: few long steps, paid for by composition.

        Parameters
        ----------
        objective : Objective
            The problem, of mapped rows.
        mu : float
            Budget of training, as mu of Gaussian differential privacy.
        adjacency : Adjacency
            The neighbouring relation.
        learnt : Learnt
            What steps follow from. No guarantee rests on it.

        Returns
        -------
        callable
            ``noise_multiplier -> NoisyGradientDescent``. The record claims no contraction, so that
            nothing but composition holds for it, and the noise of every step is exact.
        """
        time = conditioned_time(objective, mu, adjacency) * learnt.time
        if objective.alpha > 0:
            time = min(time, rules.SETTLED / objective.alpha)
        if learnt.kinks:
            return self._narrowing(objective, adjacency, learnt, time)
        typical = objective.typical * learnt.steepness
        longest = rules.LONG_STEP / (typical * learnt.top + 2 * objective.alpha)
        cooling = checked_cooling(self.cooling) is not False
        mean = 0.75 if cooling else 1.0  # mean factor of the step sizes
        strength = rules.strength_of(objective.n_samples, mu, adjacency)
        most = min(rules.most_steps(strength), learnt.enough)
        plain = min(time / (mean * longest), most * learnt.steepness / learnt.flatness)
        n_steps, momentum, length = rules.with_momentum(plain, strength, learnt.are_alike)
        step_size = longest * min(plain / n_steps, length)
        return lambda noise_multiplier: NoisyGradientDescent(
            n_steps=n_steps,
            noise_multiplier=noise_multiplier,
            step_size=step_size * cooled(n_steps) if cooling else step_size,
            momentum=momentum,
            sensitivity=objective.sensitivity(adjacency),
            adjacency=adjacency,
        )

    @staticmethod
    def _narrowing(objective, adjacency, learnt, time):
        """Return the run in which the kink of the loss narrows: steps as long as it allows.

        A kink of half-width w has a curvature of 1 / (2 w) at the most. No guarantee rests on it.
        """
        kinks = np.array(learnt.kinks)
        step_size = rules.LONG_STEP / (learnt.top / (2 * kinks) + 2 * objective.alpha)
        step_size *= min(1.0, time * rules.TIME_OF_NARROWING / float(step_size.sum()))
        return lambda noise_multiplier: NoisyGradientDescent(
            n_steps=kinks.size,
            noise_multiplier=noise_multiplier,
            step_size=step_size,
            units=(kinks / objective.loss.kink).tolist(),
            sensitivity=objective.sensitivity(adjacency),
            adjacency=adjacency,
        )

    def solve(
        self,
        objective: Objective,
        mechanism: NoisyGradientDescent,
        rows: Rows,
        *,
        generator: Generator,
        start: np.ndarray | None = None,
        verbose: int = 0,
    ) -> np.ndarray:
        """See `Solver.solve`; ``start``: where the first step starts, None: at 0."""
        return run_told(mechanism, objective, rows, generator, verbose, start)

    def fitted_attributes(self, mechanism: NoisyGradientDescent) -> dict[str, Any]:
        """See `Solver.fitted_attributes`: of the first step, where they differ."""
        noise = mechanism.noise_multiplier
        step_size = float(np.max(mechanism.step_size))
        sensitivity = mechanism.sensitivity or math.nan  # every record of this solver has one
        return {
            "noise_multiplier_": noise,
            "sigma_": noise * sensitivity * math.sqrt(step_size / 2),
            "n_iter_": mechanism.n_steps,
            "step_size_": step_size,
        }

    def _time(self, objective, budget, bound):
        """Return the training time, the sum of all step sizes, and whether they are cooled."""
        cooling = checked_cooling(self.cooling)
        undecided = is_auto(self.n_steps) and is_auto(self.step_size) and self.radius is None
        if cooling is None and not (
            undecided and objective.contracts and not needs(bound).equal_steps
        ):
            cooling = False
        time, cooling = cooled_training_time(objective, budget, cooling)
        strength = rules.strength_of(objective.n_samples, budget.mu, budget.adjacency)
        return time * _left_to_learn(objective, strength), cooling

    def _schedule(self, objective, budget, bound):
        """Return the number of steps, and the size of all or of each."""
        time, cooling = self._time(objective, budget, bound)
        constants = step_constants(objective)
        step_size = checked_step_size(self.step_size)
        if is_auto(self.n_steps):
            n_steps, step_size = curvature_aware_schedule(
                time, **constants, bound=bound, step_size=step_size, cooling=cooling
            )
        elif is_named(self.n_steps, "worst_case"):
            step_size = step_size or largest_step_size(**constants, bound=bound)
            steps = worst_case_steps(
                budget.mu,
                n_samples=objective.n_samples,
                n_features=objective.n_parameters,
                lipschitz=objective.lipschitz,
                strong_convexity=objective.strong_convexity,
                step_size=step_size,
                adjacency=budget.adjacency,
            )
            n_steps = max(1, math.ceil(steps))
        elif is_named(self.n_steps, "theorem4"):
            n_steps, step_size = _theorem4(objective, budget, step_size)
        else:
            n_steps = checked_steps(self.n_steps, "n_steps", "'auto', 'worst_case', 'theorem4'")
            step_size = step_size or largest_step_size(**constants, bound=bound)
        return n_steps, step_size * cooled(n_steps) if cooling else step_size


def _theorem4_schedule(objective: Objective, budget: Budget) -> tuple[float, float, float]:
    """Return step size, variance of the noise and steps of the converging theorem."""
    return theorem4_schedule(
        budget.epsilon,
        budget.delta,
        n_samples=objective.n_samples,
        n_features=objective.n_parameters,
        lipschitz=objective.lipschitz,
        **step_constants(objective),
        adjacency=budget.adjacency,
    )


def _alpha_of_steps(objective: Objective, steps: float, fewer: int) -> float:
    """Return the penalty under which there are ``fewer`` steps than those of the objective."""
    # Steps grow with the square of (curvature + alpha) / alpha
    smoothness = objective.curvature + objective.alpha
    ratio = smoothness / objective.alpha * math.sqrt(fewer / steps)
    return 1.005 * objective.curvature / (ratio - 1)


def _converging_alpha(objective: Objective, budget: Budget) -> float:
    """Return the penalty that alpha="auto" stands for in a run of the converging theorem.

    The last iterate is about a draw from exp(-objective / variance), whose excess is variance d / 2
    whatever the curvature, and the theorem's variance falls with 1 / alpha. Coefficients of norm
    1 / row_norm have the bias alpha / (2 row_norm^2).
    """
    penalised = replace(objective, alpha=objective.curvature)
    _, variance, steps = _theorem4_schedule(penalised, budget)
    balanced = math.sqrt(variance * penalised.alpha * objective.n_parameters) * objective.row_norm
    if not steps > 0:  # few records: one step is enough
        return balanced
    return max(balanced, _alpha_of_steps(penalised, steps, _STEPS_OF_AUTO))


def _theorem4(objective: Objective, budget: Budget, step_size: float | None) -> tuple[int, float]:
    """Return steps and step size of the converging theorem, or say why they cannot be had."""
    if step_size is not None:
        raise ValueError(
            f"step_size={step_size:g}: n_steps='theorem4' has one of its own. Use step_size='auto'"
        )
    if not objective.contracts:
        loss = objective.loss
        raise CalibrationError(
            f"n_steps='theorem4' needs steps that contract, and a clipped {loss.name} has none: "
            f"use clip={loss.lipschitz * objective.row_norm:.6g}"
        )
    step_size, _, steps = _theorem4_schedule(objective, budget)
    if steps > _MOST_CONVERGING:
        alpha = _alpha_of_steps(objective, steps, _MOST_CONVERGING)
        raise CalibrationError(
            f"n_steps='theorem4' asks for K* = {math.ceil(steps):,} steps, and at most "
            f"{_MOST_CONVERGING:,} are run. They grow with (smoothness / alpha)^2: use an alpha "
            f"above {alpha:.3g}, a smaller data_norm, or n_steps='worst_case'"
        )
    return max(1, math.ceil(steps)), step_size
