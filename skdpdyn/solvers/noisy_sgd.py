"""Noisy gradient descent on batches that releases its last iterate."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from skdpdyn.core import rules
from skdpdyn.core.losses import Loss
from skdpdyn.core.objective import Objective
from skdpdyn.privacy import Adjacency, Budget, CyclicBatches, OnePass, WithoutReplacement
from skdpdyn.privacy.checks import checked_choice, is_auto, is_named
from skdpdyn.privacy.needs import rewards_unequal_last_steps
from skdpdyn.privacy.schedules import MAX_STEPS, cooled, curvature_aware_schedule, largest_step_size
from skdpdyn.solvers.base import (
    StepSolver,
    check_stable,
    checked_cooling,
    checked_radius,
    checked_step_size,
    checked_steps,
    cooled_training_time,
    step_constants,
    training_time,
)
from skdpdyn.solvers.batches import ELSE, TAKES, Disjoint, Fresh, OneByOne, Run

Record = OnePass | CyclicBatches | WithoutReplacement
_STRICTLY = 1 - 1e-9  # below the largest step: three of the theorems exclude it
# most batches of an epoch; longer runs take more epochs, because the privacy loss of every
# position must be computed
_BATCHES = 128
# most steps on cooled batches, which are small: four times as many as full-batch steps take a
# tenth of their time
_MAX_STEPS = 40_000


class _Batches(NamedTuple):
    """How many records a batch has, batches an epoch has, and epochs there are."""

    batch_size: int
    n_batches: int
    n_epochs: int


class NoisySGD(StepSolver):
    """Noisy gradient descent on batches that releases its last iterate.

    From theta = 0: theta <- Proj(theta - step_size * (sum of the batch's gradients / batch_size +
    penalty's gradient) + noise). A short last batch is divided by ``batch_size`` too. Where the
    steps contract, later batches hide earlier ones, so that a few passes over the data are worth as
    much as a hundred of full batches. Only the last iterate leaves the solver; all bounds but
    `skdpdyn.privacy.composition` and `skdpdyn.privacy.subsampling` rest on that.

    In a known order ``privacy_`` is that of the worst place, and others are protected better: of a
    fitted model with sampling="cyclic", ``last_iterate(model.mechanism_, index=j)`` is for the
    records in batch j, from 1; with sampling="one_pass", ``last_iterate`` and
    ``contraction(model.mechanism_, index=i)`` are for row i.

    Parameters
    ----------
    sampling : str, default="auto"
        How records come into batches: "shuffled_once", "cyclic", "without_replacement" or
        "one_pass". "auto": "shuffled_once"; of a softmax, which is better clipped than contracting,
        "without_replacement", unless there is a ``radius`` or ``cooling``.

        - "shuffled_once": disjoint batches of one uniform permutation, drawn securely and never
          told, in the same order in every epoch; a record's place is unknown, so that its
          protection is the mean over places.
        - "cyclic": the same in the order of the rows (Boninsegna, Algorithm 2), which anyone may
          know.
        - "without_replacement": every step draws ``batch_size`` records afresh, `subsampling` or
          `recursion` judging them (Ye and Shokri 2022). No projection. Needs the fewest epochs, but
          takes seconds to calibrate, and costs under add_remove as much as under replace_one. There
          are ``n_epochs * (n_samples // batch_size)`` steps, rounded down.
        - "one_pass": a record a step, in the order of the rows (Asoodeh, Diaz and Calmon 2020,
          Algorithm 1), the noise inside the step's gradient. As noisy as if nobody trusted the one
          who trains.

        A clipped softmax is no contraction, so that only `composition` and `subsampling` apply to
        it: clip="auto" leaves the softmax unclipped for all but "without_replacement".
    batch_size : "auto" or int, default="auto"
        Records in a batch. "auto": as follow from ``n_epochs`` and the training time, see
        `skdpdyn.privacy.schedules.curvature_aware_time`.
    n_epochs : "auto" or int, default="auto"
        Passes over the data. "auto": 16, or more where an epoch would have more than 128 batches,
        or fresh batches too little noise for the draw to amplify; where ``batch_size`` is given, as
        many as the training time asks for.
    step_size : "auto" or float, default="auto"
        "auto": the largest step that contracts, 2 / (strong_convexity + smoothness), or less where
        that would train for longer than the noise lets pay; twice that where a step is no
        contraction anyway. Beyond 2 / smoothness only `composition` and `subsampling` hold.
    cooling : "auto" or bool, default="auto"
        Whether the step sizes of the last epoch fall with the square root of the number of batches
        left, under the same noise. With disjoint batches, the noise of one step alone hides the
        last batch, the noise of two steps the one before, and so on. With cooling all batches cost
        the same, and the run needs little more noise than one on full batches. "auto": if
        `last_iterate` may judge disjoint batches. Then all step sizes of the second half also fall
        linearly to 0, and training lasts longer, if ``batch_size``, ``n_epochs`` and ``step_size``
        are "auto" too, no ``radius`` is given, and records are many for the budget and the number
        of parameters: see `NoisyGD` and `skdpdyn.privacy.schedules.cooled_time_factor`.
    radius : float or None, default=None
        Radius of the ball around 0 that every step projects the parameters onto. None: none; for
        "one_pass", whose bounds need one, lipschitz / alpha, since the minimiser lies within.
    distribution : {"gaussian", "laplace"}, default="gaussian"
        The noise. Laplace noise is for "one_pass" and a single parameter; delta = 0 is possible
        then.
    stopping : {"last", "random"}, default="last"
        "random", for "one_pass": release the iterate after a step drawn uniformly and never told,
        which protects all records alike. The fitted model has no ``n_iter_`` then; how long fit
        takes may tell it.

    References
    ----------
    F. Boninsegna (undated), The privacy analysis of the differential private stochastic gradient
    descent, Algorithm 2. J. Ye, R. Shokri (2022), Differentially private learning needs hidden
    state (or much faster convergence). S. Asoodeh, M. Diaz, F. Calmon (2020), Privacy amplification
    of iterative algorithms via contraction coefficients, Algorithm 1 and Theorems 3 to 5. V.
    Feldman, T. Koren, K. Talwar (2020), Private stochastic convex optimization: optimal rates in
    linear time: batches that grow towards the end, for the reason that steps shrink here. J. Bok,
    W. Su, J. Altschuler (2024), Shifted interpolation for differential privacy: the exact cost of
    any such schedule.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.privacy import last_iterate
    >>> from skdpdyn.solvers import NoisySGD
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> solver = NoisySGD(sampling="cyclic", batch_size=1000, n_epochs=3, cooling=False)
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True], solver=solver)
    >>> model = model.fit(X, X[:, 0] > 0)
    >>> (
    ...     model.n_iter_,
    ...     round(model.privacy_.mu, 4),
    ...     round(last_iterate(model.mechanism_, index=1).mu, 4),
    ... )
    (15, 0.2062, 0.1347)
    """

    maps_rows = True
    draws = True

    def __init__(
        self,
        sampling: str = "auto",
        batch_size: int | str = "auto",
        n_epochs: int | str = "auto",
        step_size: float | str = "auto",
        cooling: bool | str = "auto",
        radius: float | None = None,
        distribution: str = "gaussian",
        stopping: str = "last",
    ) -> None:
        self.sampling = sampling
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.step_size = step_size
        self.cooling = cooling
        self.radius = radius
        self.distribution = distribution
        self.stopping = stopping

    @property
    def takes_persons(self) -> bool:
        """Whether records may be persons: batches must not follow the order of the rows."""
        return not is_named(self.sampling, "cyclic", "one_pass")

    @property
    def streams(self) -> bool:
        """Whether batches may be in the order of the rows, in which these can be read."""
        return is_auto(self.sampling) or is_named(self.sampling, "cyclic")

    def in_order(self) -> Self:
        """See `Solver.in_order`: "auto" becomes "cyclic"."""
        return clone(self).set_params(sampling="cyclic") if is_auto(self.sampling) else self

    @property
    def pure(self) -> bool:
        """Whether its release has a guarantee with delta = 0."""
        return is_named(self.distribution, "laplace")

    def auto_clip(self, loss: Loss, clip: float) -> float:
        """See `Solver.auto_clip`: no clip for a softmax, unless batches are drawn afresh."""
        fresh = isinstance(self._kind(loss), Fresh)
        return clip if loss.n_outputs == 1 or fresh else loss.lipschitz

    def auto_alpha(self, objective: Objective, budget: Budget, bound: str) -> float:
        """See `Solver.auto_alpha`."""
        return rules.FORGETTING / self._time(objective, budget, bound)[0]

    def mechanism(
        self, objective: Objective, budget: Budget, bound: str
    ) -> Callable[[float], Record]:
        """See `Solver.mechanism`."""
        kind = self._kind(objective.loss)
        self._check(kind, objective)
        run = self._one_pass if isinstance(kind, OneByOne) else self._in_batches
        return kind.records(objective, run(objective, budget, bound))

    def fitted_attributes(self, mechanism: Any) -> dict[str, Any]:
        """See `Solver.fitted_attributes`: arrays with a number a step where the steps differ."""
        one_pass = isinstance(mechanism, OnePass)
        noise = mechanism.noise / mechanism.sensitivity if one_pass else mechanism.noise_multiplier
        attributes = {"step_size_": mechanism.step_size, "noise_multiplier_": noise}
        if not one_pass or mechanism.stopping == "last":
            attributes["n_iter_"] = mechanism.n_samples if one_pass else mechanism.n_steps
        if mechanism.sensitivity is not None:
            attributes["sigma_"] = noise * mechanism.sensitivity * np.sqrt(mechanism.step_size / 2)
        return attributes

    def _sampling(self, loss):
        """Return how records come into batches; "auto" prefers clipping to a contraction."""
        if is_auto(self.sampling):
            disjoint = (
                loss.n_outputs == 1 or self.radius is not None or checked_cooling(self.cooling)
            )
            return "shuffled_once" if disjoint else "without_replacement"
        return checked_choice(self.sampling, "sampling", tuple(TAKES), others="'auto', ")

    def _kind(self, loss):
        """Return the batches that this solver takes."""
        return {
            "shuffled_once": Disjoint("shuffled_once"),
            "cyclic": Disjoint("fixed"),
            "without_replacement": Fresh(),
            "one_pass": OneByOne(self.distribution, self.stopping),
        }[self._sampling(loss)]

    def _check(self, kind, objective):
        """Refuse values that are no parameter, or not for this problem or these batches."""
        checked_choice(self.distribution, "distribution", ("gaussian", "laplace"))
        checked_choice(self.stopping, "stopping", ("last", "random"))
        checked_radius(self.radius)
        checked_cooling(self.cooling)
        for name in ("batch_size", "n_epochs"):
            checked_steps(getattr(self, name), name)
        if not is_auto(self.batch_size) and self.batch_size > objective.n_samples:
            raise ValueError(
                f"batch_size={self.batch_size} must be at most n_samples={objective.n_samples}"
            )
        sampling = self._sampling(objective.loss)
        for name, (values, why) in ELSE.items():
            if name not in TAKES[sampling] and getattr(self, name) not in values:
                raise ValueError(f"{name}={getattr(self, name)!r}: sampling={sampling!r} {why}")
        if self.distribution == "laplace" and objective.n_parameters > 1:
            raise ValueError(
                "distribution='laplace' is for a single parameter, not "
                f"{objective.n_parameters}: Theorem 3 of Asoodeh, Diaz "
                "and Calmon (2020) is about an interval"
            )
        if isinstance(kind, OneByOne):
            self._check_pass(objective)

    def _check_pass(self, objective):
        """Refuse problems that the bounds on one pass do not cover."""
        if not objective.contracts:
            raise ValueError(
                f"clip={objective.clip:.6g}: a clipped {objective.loss.name} is no contraction, "
                "which the bounds on one pass need. Use clip='auto', or at least "
                f"{objective.loss.lipschitz * objective.row_norm:.6g}, or solver='noisy_gd'"
            )
        if self.radius is None and not objective.alpha > 0:
            raise ValueError(
                "radius=None, alpha=0: sampling='one_pass' needs a bounded domain. Give a "
                "radius, or alpha > 0"
            )

    def _time(self, objective, budget, bound):
        """Return the training time, and whether step sizes of the second half fall linearly."""
        kind = self._kind(objective.loss)
        if isinstance(kind, Disjoint):
            undecided = (
                all(map(is_auto, (self.cooling, self.batch_size, self.n_epochs, self.step_size)))
                and self.radius is None
            )
            pays = (
                None
                if undecided and objective.contracts and rewards_unequal_last_steps(bound)
                else False
            )
            return cooled_training_time(objective, budget, pays)
        n = objective.n_samples
        fresh = isinstance(kind, Fresh)
        time = training_time(
            objective,
            budget,
            # A step that hides one record by itself: n of them pile up root n times the noise
            n_samples=n if fresh else math.sqrt(n),
            # another record is drawn instead of the one that vanishes
            adjacency=Adjacency.REPLACE_ONE if fresh else budget.adjacency,
            mu=self.gaussian_mu(budget, objective.n_parameters),
        )
        return time, False

    def _one_pass(self, objective, budget, bound):
        """Return the public numbers of a pass that takes a record a step."""
        step_size = checked_step_size(self.step_size)
        n = objective.n_samples
        if step_size is None:
            largest = largest_step_size(**step_constants(objective), bound=bound) * _STRICTLY
            step_size = min(largest, self._time(objective, budget, bound)[0] / n)
        radius = checked_radius(self.radius)
        if math.isinf(radius):  # the minimiser lies within
            radius = objective.lipschitz / objective.alpha
        return Run(1, 1, n, step_size, 1.0, radius, budget.adjacency)

    def _in_batches(self, objective, budget, bound):
        """Return the public numbers of a run of several passes."""
        kind = self._kind(objective.loss)
        constants = step_constants(objective)
        time, falls = self._time(objective, budget, bound)
        chosen = checked_step_size(self.step_size)
        n_steps, planned = curvature_aware_schedule(
            time,
            **constants,
            bound=bound,
            step_size=chosen,
            cooling=falls,
            max_steps=_MAX_STEPS if falls else MAX_STEPS,
        )
        batch_size, n_batches, n_epochs = self._batches(kind, objective.n_samples, n_steps, budget)
        n_run = n_epochs * n_batches
        largest = largest_step_size(**constants, bound=bound) * _STRICTLY
        step_size = chosen or min(largest, n_steps * planned / n_run)
        check_stable(step_size, objective)
        slowdown: Any = 1.0
        if (
            n_batches > 1
            and isinstance(kind, Disjoint)
            and self._cools(objective, step_size, bound)
        ):
            slowdown = np.sqrt(np.minimum(np.arange(n_run, 0, -1) / n_batches, 1))
        return Run(
            batch_size,
            n_epochs,
            n_run,
            step_size * cooled(n_run) if falls else step_size,
            slowdown,
            checked_radius(self.radius),
            budget.adjacency,
        )

    def _batches(self, kind, n_samples, n_steps, budget):
        """Return batch size, batches per epoch and epochs, for about ``n_steps`` steps."""
        least_epochs = max(rules.LEAST_EPOCHS, math.ceil(n_steps / _BATCHES))
        if isinstance(kind, Fresh):  # so noisy that drawing them amplifies nearly in full
            noise = rules.batch_noise(is_poisson=False) * budget.mu * math.sqrt(n_steps)
            least_epochs = max(least_epochs, math.ceil(noise))
        n_epochs = min(n_steps, least_epochs) if is_auto(self.n_epochs) else int(self.n_epochs)

        def parts(size):
            return n_samples // size if isinstance(kind, Fresh) else -(-n_samples // size)

        if is_auto(self.batch_size):
            batch_size = parts(min(max(1, round(n_steps / n_epochs)), n_samples))
        else:
            batch_size = int(self.batch_size)
        n_batches = parts(batch_size)
        if is_auto(self.n_epochs) and not is_auto(self.batch_size):
            n_epochs = max(1, round(n_steps / n_batches))
        return _Batches(batch_size, n_batches, n_epochs)

    def _cools(self, objective, step_size, bound):
        cooling = checked_cooling(self.cooling)
        if cooling is not None:
            return cooling
        return (
            rewards_unequal_last_steps(bound)
            and objective.contracts
            and step_size * objective.smoothness <= 2
        )
