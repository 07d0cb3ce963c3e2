"""Output perturbation: learn without noise, then add noise once to the coefficients."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpdyn.core.losses import Loss
from skdpdyn.core.noise import Generator, release
from skdpdyn.core.objective import Objective
from skdpdyn.data.base import Rows
from skdpdyn.kernels.draws import FixedBatches
from skdpdyn.privacy import Adjacency, Budget, PerturbedOutput
from skdpdyn.privacy.checks import checked_choice, checked_count, is_named
from skdpdyn.solvers.base import Solver, checked_steps
from skdpdyn.solvers.minimise import (
    certifiable,
    check_condition,
    checked_tolerance,
    largest_rounding,
    minimise,
)
from skdpdyn.solvers.steps import Steps, descend
from skdpdyn.support.chunks import gathered_in_order, largest_number_in_order
from skdpdyn.support.progress import Progress

_EPS = np.finfo(np.float64).eps
_NEGLIGIBLE = 1e-6  # "auto" tolerance, times the gradient's sensitivity
_MAX_EPOCHS = 10_000


@dataclass(frozen=True)
class Minimiser:
    """The minimiser of a strongly convex objective, its gradient certified to ``tolerance``.

    Two objectives that differ in one record have gradients that differ by at most S/n, so that
    their minimisers are at most S / (n alpha) apart (Chaudhuri, Monteleoni and Sarwate 2011, Lemma
    7; Corollary 8 has S = 2L), and a point with a gradient of norm ``tolerance`` is within
    tolerance / alpha of the minimiser.
    """

    tolerance: float

    def sensitivity(self, objective: Objective, adjacency: Adjacency) -> float:
        """Return the largest change of the result by one record."""
        return (objective.sensitivity(adjacency) + 2 * self.tolerance) / objective.alpha

    def run(
        self, objective: Objective, rows: Rows, generator: Generator, verbose: int
    ) -> np.ndarray:
        """Return the result, without noise."""
        return minimise(objective, rows, tolerance=self.tolerance, verbose=verbose)


@dataclass(frozen=True, eq=False)
class Descent:
    """Descend from 0 without noise over the batches of one permutation, the same in every epoch.

    Every batch is divided by the same ``batch_size``, the short last one too. A step is
    c_t-Lipschitz, c_t = max(abs(1 - eta_t alpha), abs(1 - eta_t beta)), and one record moves the
    steps t that see it by at most eta_t S / b, so it moves the result by at most the sum of eta_t S
    / b times the product of all later c. With eta_t = min(1/beta, 1/(alpha t)) every term is at
    most S / (alpha b T), whatever the permutation and the place in it: S / (n alpha) in all, not
    divided by the batch size (Wu et al. 2017, Lemma 8). With a single batch and steps of 1/beta the
    sum is (S / (n alpha)) (1 - c^K) (Zhang et al. 2017).
    """

    step_size: np.ndarray
    batch_size: int
    n_batches: int

    def sensitivity(self, objective: Objective, adjacency: Adjacency) -> float:
        """Return how far one record moves the result, the rounding of both runs included."""
        eta = self.step_size
        alpha = objective.alpha
        beta = objective.curvature + alpha
        contraction = np.maximum(np.abs(1 - eta * alpha), np.abs(1 - eta * beta))
        survives = np.append(np.cumprod(contraction[:0:-1])[::-1], 1.0)
        moved = eta * survives * adjacency.sum_sensitivity(objective.lipschitz) / self.batch_size
        # radius of a ball that no iterate leaves
        radius = objective.lipschitz * min(np.sum(eta), 1 / alpha if alpha else math.inf)
        if self.n_batches == 1:
            in_order = largest_number_in_order(objective)
        else:
            in_order = gathered_in_order(self.batch_size * objective.most_rows)
        rounding = objective.gradient_rounding(radius, objective.n_features, in_order)
        rounded = 2 * np.sum(survives * (eta * rounding + 8 * _EPS * radius))
        return (np.max(np.sum(moved.reshape(-1, self.n_batches), axis=0)) + rounded) * (
            1 + 4 * _EPS * eta.size
        )

    def run(
        self, objective: Objective, rows: Rows, generator: Generator, verbose: int
    ) -> np.ndarray:
        """Return the result, without noise."""
        batches = None
        if self.n_batches > 1:
            batches = FixedBatches(self.batch_size, generator.permutation(objective.n_samples))
        steps = Steps(self.step_size, np.zeros(self.step_size.size), self.batch_size)
        with Progress(self.step_size.size, verbose=verbose) as progress:
            return descend(objective, rows, steps, generator, batches=batches, progress=progress)


class OutputPerturbation(Solver):
    """Train without noise and add noise once to the result, as much as one record can move it.

    Parameters
    ----------
    method : {"minimiser", "permutation_sgd", "gradient_descent"}, default="minimiser"
        The statistic that is released with noise. "minimiser": the minimiser of the objective,
        certified; one record moves it by S / (n alpha) (Chaudhuri, Monteleoni and Sarwate 2011).
        "permutation_sgd": stochastic gradient descent over the batches of one random permutation,
        with steps min(1/beta, 1/(alpha t)); also S / (n alpha) (Wu et al. 2017).
        "gradient_descent": K full steps of 1/beta; (S / (n alpha)) (1 - (1 - alpha/beta)^K) (Zhang
        et al. 2017).
    noise : {"gaussian", "gamma"}, default="gaussian"
        "gamma" has density proportional to exp(-norm(b) / s): a guarantee with delta = 0, and more
        noise the more parameters.
    n_epochs : "auto" or int, default="auto"
        Passes over the records, of the two methods that descend. "auto": 10 of "permutation_sgd";
        beta / alpha of "gradient_descent", at most 10,000: until the penalty has forgotten the
        start.
    batch_size : int, default=50
        Records in a batch of "permutation_sgd".
    tolerance : "auto" or float, default="auto"
        Norm of the gradient up to which the minimiser is certified; 2 tolerance / alpha is added to
        the sensitivity. "auto": 1e-6 S/n, or what floating point can certify whatever the records,
        below which a number is refused.

    Notes
    -----
    Clipping works as in gradient descent for a single output. With several outputs there is none: a
    clipped softmax gradient is that of no convex function, so that nothing here would bound the
    sensitivity.

    ``alpha="auto"`` balances the excess risk of the noise against that of the penalty, from public
    numbers alone. With noise of standard deviation w S / (n alpha) per coordinate, that of the raw
    prediction of a row of norm B is kappa = B w S / (n alpha). Its excess risk h kappa^2 / 2, for a
    loss of smoothness h, plus (alpha / 2) norm(theta)^2 at an assumed norm(theta)^2 = 10 / (h B^2)
    is least at kappa^3 = 5 w S / (n B h^2).

    References
    ----------
    K. Chaudhuri, C. Monteleoni, A. Sarwate (2011), Differentially private empirical risk
    minimization, Algorithm 1. X. Wu, F. Li, A. Kumar, K. Chaudhuri, S. Jha, J. Naughton (2017),
    Bolt-on differential privacy for scalable stochastic gradient descent-based analytics, Algorithm
    2. J. Zhang, K. Zheng, W. Mou, L. Wang (2017), Efficient private ERM for smooth objectives,
    Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.solvers import OutputPerturbation
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [1.0, -2.0] > 0
    >>> solver = OutputPerturbation(noise="gamma")
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=0, classes=[0, 1], solver=solver)
    >>> model = model.fit(X, y)
    >>> bool(model.score(X, y) > 0.8), round(model.epsilon_, 4)
    (True, 1.0)
    """

    draws = True
    takes_persons = True

    def __init__(
        self,
        method: str = "minimiser",
        noise: str = "gaussian",
        n_epochs: int | str = "auto",
        batch_size: int | str = 50,
        tolerance: float | str = "auto",
    ) -> None:
        self.method = method
        self.noise = noise
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.tolerance = tolerance

    @property
    def pure(self) -> bool:
        """Whether its release has a guarantee with delta = 0: with gamma noise."""
        return is_named(self.noise, "gamma")

    @property
    def gaussian(self) -> bool:
        """See `Solver`: with Gaussian noise."""
        return not self.pure

    @property
    def streams(self) -> bool:
        """See `Solver`: not where batches are drawn."""
        return not is_named(self.method, "permutation_sgd")

    def auto_clip(self, loss: Loss, clip: float) -> float:
        """See `Solver.auto_clip`: none for several outputs."""
        return clip if loss.n_outputs == 1 else loss.lipschitz

    def auto_alpha(self, objective: Objective, budget: Budget, bound: str) -> float:
        """See `Solver.auto_alpha`, and the notes of the class."""
        mu = self.gaussian_mu(budget, objective.n_parameters)
        spread = objective.sensitivity(budget.adjacency) * objective.row_norm / mu  # kappa alpha
        kappa = (5 * spread / (objective.row_norm * objective.loss.smoothness) ** 2) ** (1 / 3)
        return spread / kappa

    def mechanism(
        self, objective: Objective, budget: Budget, bound: str
    ) -> Callable[[float], PerturbedOutput]:
        """See `Solver.mechanism`."""
        self._check(objective)
        ran: dict[str, str | float] = {"statistic": self.method}
        if self.method == "minimiser":
            ran["tolerance"] = self._tolerance(objective)
        else:
            ran["n_epochs"] = self._epochs(objective)
        if self.method == "permutation_sgd":
            ran["batch_size"] = min(int(self.batch_size), objective.n_samples)

        def record(noise_multiplier):
            return PerturbedOutput(
                noise_multiplier=noise_multiplier,
                distribution=self.noise,
                adjacency=budget.adjacency,
                **ran,
            )

        return record

    def solve(
        self,
        objective: Objective,
        mechanism: PerturbedOutput,
        rows: Rows,
        *,
        generator: Generator,
        verbose: int = 0,
    ) -> np.ndarray:
        """See `Solver.solve`."""
        statistic = statistic_of(objective, mechanism)
        scale = mechanism.noise_multiplier * statistic.sensitivity(objective, mechanism.adjacency)
        theta = statistic.run(objective, rows, generator, verbose)
        return release(theta, scale, generator, mechanism.distribution)

    def fitted_attributes(self, mechanism: PerturbedOutput) -> dict[str, Any]:
        """See `Solver.fitted_attributes`: the noise over the sensitivity of the result."""
        return {"noise_multiplier_": mechanism.noise_multiplier}

    def _check(self, objective):
        """Refuse problems that it cannot learn."""
        checked_choice(self.method, "method", ("minimiser", "permutation_sgd", "gradient_descent"))
        checked_choice(self.noise, "noise", ("gaussian", "gamma"))
        if not objective.contracts:
            raise ValueError(
                f"clip={objective.clip!r}: a clipped {objective.loss.name} gradient is that of "
                "no convex loss, so that nothing "
                "bounds how far a record moves the result. Use clip='auto', or solver='noisy_gd'"
            )
        self._epochs(objective)
        checked_count(self.batch_size, "batch_size", largest=10**18)
        if self.method == "minimiser":
            if not objective.alpha > 0:
                raise ValueError(
                    f"alpha={objective.alpha!r}: without a penalty the minimiser has no bounded "
                    "sensitivity. Give alpha > 0"
                )
            check_condition(objective)
            self._tolerance(objective)

    def _tolerance(self, objective):
        least = 4 * (
            largest_rounding(objective, objective.minimiser_norm()) + 8 * _EPS * objective.lipschitz
        )
        tolerance = checked_tolerance(self.tolerance)
        return certifiable(
            tolerance, _NEGLIGIBLE * objective.lipschitz / objective.n_samples, least
        )

    def _epochs(self, objective):
        n_epochs = checked_steps(self.n_epochs, "n_epochs")
        if n_epochs is not None:
            return n_epochs
        if self.method == "permutation_sgd":
            return 10
        return (
            min(math.ceil(objective.smoothness / objective.alpha), _MAX_EPOCHS)
            if objective.alpha > 0
            else _MAX_EPOCHS
        )


def statistic_of(objective: Objective, mechanism: PerturbedOutput) -> Minimiser | Descent:
    """Return the statistic before noise, which knows how far one record moves it."""
    n_epochs = mechanism.n_epochs
    n_samples = objective.n_samples
    smoothness = objective.curvature + objective.alpha
    if mechanism.statistic == "minimiser" and mechanism.tolerance is not None:
        return Minimiser(mechanism.tolerance)
    if mechanism.statistic == "gradient_descent" and n_epochs is not None:
        return Descent(np.full(n_epochs, 1 / smoothness), n_samples, 1)
    if n_epochs is None or mechanism.batch_size is None:
        raise TypeError(f"statistic={mechanism.statistic!r} lacks the numbers that say what to run")
    n_batches = -(-n_samples // mechanism.batch_size)
    times = 1 + np.arange(n_epochs * n_batches)
    step_size = 1 / np.maximum(smoothness, objective.alpha * times)
    return Descent(step_size, mechanism.batch_size, n_batches)
