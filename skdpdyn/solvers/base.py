"""Interface of all solvers."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypedDict

import numpy as np
from sklearn.base import BaseEstimator

from skdpdyn.core import rules
from skdpdyn.core.losses import Loss
from skdpdyn.core.noise import Generator
from skdpdyn.core.objective import Objective
from skdpdyn.data.base import Rows
from skdpdyn.privacy import Budget
from skdpdyn.privacy.checks import checked_count, checked_flag, checked_number, is_auto
from skdpdyn.privacy.schedules import cooled_time_factor, curvature_aware_time
from skdpdyn.solvers.runs import run
from skdpdyn.support.progress import Progress

# Where only composition holds, only the true curvature of the data limits a step. With several
# outputs, which share the probability, it is at most half of the bound: 2 / (half of the bound).
LONG_STEPS = 2.0

_MOST_STEPS = 10**9  # largest number that a user may ask for
_SMALLEST = 1e-50  # step size; the reciprocal of the largest
_LEAST_PROBABILITY = 1e-9  # least probability that a record is in a batch


def training_time(objective: Objective, budget: Budget, **changes: Any) -> float:
    """Return `curvature_aware_time` of an objective, with some ``changes``."""
    constants = {
        name: getattr(objective, name)
        for name in ("n_samples", "lipschitz", "curvature", "tolerable_noise")
    }
    if "mu" not in changes:
        changes["mu"] = budget.mu
    return curvature_aware_time(**({"adjacency": budget.adjacency} | constants | changes))


def cooled_training_time(
    objective: Objective, budget: Budget, cooling: bool | None = None
) -> tuple[float, bool]:
    """Return the training time, and whether steps are cooled; ``cooling`` None: where it pays."""
    sizes = {"n_samples": objective.n_samples, "n_parameters": objective.n_parameters}
    factor = cooled_time_factor(budget.mu, adjacency=budget.adjacency, **sizes)
    cooling = factor > 1 if cooling is None else cooling
    time = training_time(objective, budget)
    return time * min(max(factor, 1.0), rules.LONGEST_COOLED) if cooling else time, cooling


class StepConstants(TypedDict):
    """Constants that limit the size of a step."""

    strong_convexity: float
    smoothness: float


def step_constants(objective: Objective) -> StepConstants:
    """Return strong convexity and smoothness for step sizes; for long ones if none contracts."""
    smoothness = objective.smoothness or objective.curvature / LONG_STEPS
    return {"strong_convexity": objective.strong_convexity, "smoothness": smoothness}


class Solver(BaseEstimator, ABC):
    """A learning algorithm: it describes its release by a record, and runs exactly that.

    A solver is a scikit-learn object without fit, so that ``solver__step_size``, clone and repr
    work. It describes its release and never judges it: what a record costs is for the accountants
    to say.

    Attributes
    ----------
    maps_rows : bool
        Whether a map of rows may be asked for with it: ``solve`` trains on rows under ``rows.map``.
    pays_for_rows : bool
        Whether its release costs more the more rows a record may have. Then their number is one,
        unless a user declares another.
    draws : bool
        Whether ``solve`` asks rows for gradients of chosen records too, see `Rows.gradient`.
    starts : bool
        Whether ``solve`` takes ``start``, where training starts. Others are never given one.
    """

    maps_rows = False
    pays_for_rows = False
    draws = False
    starts = False

    @property
    def pure(self) -> bool:
        """Whether its release has a guarantee with delta = 0."""
        return False

    @property
    def gaussian(self) -> bool:
        """Whether its release is a Gaussian mechanism for every problem.

        Beside such a release facts of a table can be bought, which the problem follows from.
        """
        return False

    @property
    def takes_persons(self) -> bool:
        """Whether a record may be a person with several rows.

        Such a solver reads ``rows.persons``, and weights that add up to at most 1 for each person.
        Others refuse groups.
        """
        return False

    @property
    def streams(self) -> bool:
        """Whether ``solve`` needs no more of rows than `skdpdyn.data.base.Rows` offers.

        Others are only given a `LocalRows`.
        """
        return False

    @property
    def adapts(self) -> bool:
        """Whether size and number of steps follow from the learnt conditioning."""
        return False

    def in_order(self) -> Self:
        """Return the solver for rows that are read in order: this one, if nothing is open."""
        return self

    def check_loss(self, loss: Loss) -> None:
        """Raise a ValueError if the loss lacks a fact that this solver needs.

        Parameters
        ----------
        loss : Loss
            Loss to learn.
        """

    def gaussian_mu(self, budget: Budget, n_parameters: int) -> float:
        """Return the mu of Gaussian noise that is as large as the noise that this budget buys.

        Noise of density proportional to exp(-epsilon norm(b)), which is Laplace's for a single
        parameter, has variance (d + 1) / epsilon^2 in each of d coordinates.
        """
        return budget.epsilon / math.sqrt(n_parameters + 1) if self.pure else budget.mu

    def auto_clip(self, loss: Loss, clip: float) -> float:
        """Return the bound on a gradient that clip="auto" stands for, for rows of norm at most 1.

        Parameters
        ----------
        loss : Loss
            Loss to learn.
        clip : float
            Best clip for gradient descent.
        """
        return clip

    def auto_alpha(self, objective: Objective, budget: Budget, bound: str) -> float:
        """Return the penalty that alpha="auto" stands for, from public numbers alone.

        Parameters
        ----------
        objective : Objective
            The problem, without a penalty.
        budget : Budget
            Budget to spend.
        bound : str
            The bound that will judge it.
        """
        return rules.FORGETTING / training_time(objective, budget)

    @abstractmethod
    def mechanism(self, objective: Objective, budget: Budget, bound: str) -> Callable[[float], Any]:
        """Return the record of a run before it, from public numbers alone.

        Parameters
        ----------
        objective : Objective
            The problem's public constants.
        budget : Budget
            Budget to spend, for hyperparameters that depend on it.
        bound : str
            The bound that will judge it, for hyperparameters that it restricts.

        Returns
        -------
        callable
            ``noise_multiplier -> record``.
        """

    def check_mechanism(self, objective: Objective, mechanism: Any) -> None:
        """Raise a ValueError if double precision cannot run a record, by public numbers alone.

        Parameters
        ----------
        objective : Objective
            The problem's public constants.
        mechanism : record
            Record that ``mechanism`` returned, with its noise.
        """

    @abstractmethod
    def solve(
        self,
        objective: Objective,
        mechanism: Any,
        rows: Rows,
        *,
        generator: Generator,
        verbose: int = 0,
    ) -> np.ndarray:
        """Run the record and return the parameters that it releases, and nothing else.

        Parameters
        ----------
        objective : Objective
            The problem's public constants.
        mechanism : record
            Record that ``mechanism`` returned, with its noise.
        rows : Rows
            The rows and their targets, as the loss takes these.
        generator : numpy.random.Generator
            The source of all randomness.
        verbose : int, default=0
            Whether to tell progress by `skdpdyn.support.progress`: numbers that do not depend on
            the records.

        Returns
        -------
        theta : ndarray of shape (n_parameters,)
            Coefficients, output by output, then those of the intercept column if there is one.
        """

    @abstractmethod
    def fitted_attributes(self, mechanism: Any) -> dict[str, Any]:
        """Return the fitted attributes that describe the run: noise, steps, step size."""


class StepSolver(Solver):
    """A solver whose record says all noisy steps: `skdpdyn.solvers.runs` runs it."""

    def solve(
        self,
        objective: Objective,
        mechanism: Any,
        rows: Rows,
        *,
        generator: Generator,
        verbose: int = 0,
    ) -> np.ndarray:
        """See `Solver.solve`."""
        return run_told(mechanism, objective, rows, generator, verbose)


def run_told(
    mechanism: Any,
    objective: Objective,
    rows: Rows,
    generator: Generator,
    verbose: int,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Run a record, and tell how many steps are done where their number is public."""
    is_hidden = getattr(mechanism, "stopping", "last") == "random"
    n_steps = 0 if is_hidden else getattr(mechanism, "n_steps", objective.n_samples)
    with Progress(n_steps, verbose=verbose) as progress:
        return run(mechanism, objective, rows, generator, start=start, progress=progress)


def check_stable(step_size: Any, objective: Objective) -> None:
    """Refuse steps that the penalty alone makes diverge: the noise would be rounded away."""
    largest = float(np.max(step_size)) * objective.alpha
    if not largest <= 2:
        raise ValueError(
            f"step_size={float(np.max(step_size)):.6g}, alpha={objective.alpha:.6g}: steps of "
            "more than 2 / alpha diverge. Take "
            "shorter steps, or a smaller alpha"
        )


def checked_step_size(step_size: Any, names: str = "'auto'") -> float | None:
    """Return a positive number, or None for "auto"; ``names``: other values the error allows."""
    if is_auto(step_size):
        return None
    requirement = (
        f"{names} or a number > 0, from {_SMALLEST:g} to {1 / _SMALLEST:g}: beyond them noise "
        "would be rounded away"
    )
    return checked_number(
        step_size, "step_size", lambda x: _SMALLEST <= x <= 1 / _SMALLEST, requirement
    )


def checked_steps(value: Any, name: str, names: str = "'auto'") -> int | None:
    """Return a count of steps, records or passes, or None for "auto"; ``names``: else allowed."""
    if is_auto(value):
        return None
    return checked_count(value, name, largest=_MOST_STEPS, others=f"{names} or ")


def checked_cooling(cooling: bool | str | None) -> bool | None:
    """Return True or False, or None for "auto"."""
    return None if is_auto(cooling) else checked_flag(cooling, "cooling", others="'auto', ")


def checked_batch_size(batch_size: Any, n_samples: int) -> float:
    """Return the expected size of a batch, if 53 random bits can draw each record rightly."""
    least = _LEAST_PROBABILITY * n_samples
    requirement = (
        f"'auto' or a number in (0, n_samples={n_samples}], at least {_LEAST_PROBABILITY:g} of it"
    )
    return checked_number(batch_size, "batch_size", lambda x: least <= x <= n_samples, requirement)


def checked_radius(radius: Any) -> float:
    """Return a positive number; infinity for None."""
    if radius is None:
        return math.inf
    requirement = "None or a finite number > 0"
    return checked_number(radius, "radius", lambda x: 0 < x < math.inf, requirement)


def diameter_of(radius: float) -> float | None:
    """Return the diameter of a ball as records have it; None: there is none."""
    return None if math.isinf(radius) else 2 * radius
