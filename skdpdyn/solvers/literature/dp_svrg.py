"""Stochastic variance-reduced gradient descent with noisy gradients, for comparison."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdpdyn.blas import one_blas_thread
from skdpdyn.noise import release
from skdpdyn.privacy import Composition, PoissonSubsampled
from skdpdyn.privacy.checks import is_auto
from skdpdyn.privacy.schedules import curvature_aware_schedule
from skdpdyn.progress import Progress
from skdpdyn.solvers.base import (
    Solver,
    checked_batch_size,
    checked_step_size,
    checked_steps,
    training_time,
)

_ROWS = 4096  # rows of X that are processed together
_MOST_INNER = 10


class DPSVRG(Solver):
    """DP-SVRG: noisy full gradients at snapshots, noisy corrections in between.

    Rounds of Wang, Ye and Xu (2017), Algorithm 1. A round takes the gradient g of the empirical
    loss at its snapshot s from all records, with noise, then makes ``n_inner`` steps theta <- theta
    - step_size (v + g + alpha theta), v the mean of grad_i(theta) - grad_i(s) over a batch, with
    noise. The mean of its iterates is the next snapshot, and that of the last round the result.

    Privacy is by composition: every gradient below is released, so that whatever follows from them,
    iterates and snapshots, is known to everybody.

    - A snapshot's gradient sums contributions of norm at most L over all records: a Gaussian
      mechanism, stored as a sample of everybody (probability 1).
    - A step's batch takes every record with the same probability, independently, and is never told,
      so the sum over it is a Poisson-subsampled Gaussian mechanism. A record contributes
      grad_i(theta) - grad_i(s) to it: at most 2 L, the norms of two clipped gradients, and at most
      beta norm(theta - s) by the smoothness beta of its loss. As theta and s are both public, so is
      the smaller of these numbers, h. Contributions are scaled down to h where clipping or rounding
      exceeds it, and noise of ``noise_multiplier`` times h is added. Given what was released
      before, each step is thus dominated by the same pair of distributions, and dominating pairs
      compose adaptively. (In a round's first step h = 0: the sum is 0, whatever the records.)
    - The sum is divided by the public mean size of a batch. The penalty is no function of the
      records.

    The paper draws one record a step, adds one noise for both parts of a step's gradient, of the
    size that 2 L asks for, and accounts by moments; batches, the split of the noise, h and the
    accounting make it stronger here.

    Parameters
    ----------
    n_rounds : "auto" or int, default="auto"
        Number of snapshots. "auto": as many as the noise lets pay, see
        `skdpdyn.privacy.schedules.curvature_aware_time`.
    n_inner : "auto" or int, default="auto"
        Steps in a round. "auto": as many as read all records once, or 10: farther from its snapshot
        a record's correction is as large as its gradient.
    batch_size : "auto" or float, default="auto"
        Mean number of records in a batch. "auto": the smallest for which sampling costs hardly more
        noise than all records would.
    step_size : "auto" or float, default="auto"
        "auto": 1 / smoothness.

    References
    ----------
    D. Wang, M. Ye, J. Xu (2017), Differentially private empirical risk minimization revisited:
    faster and more general, Algorithm 1 and Theorems 4.1 and 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.solvers import DPSVRG
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> solver = DPSVRG(n_rounds=5, n_inner=10)
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True], solver=solver)
    >>> model = model.fit(X, X[:, 0] > 0)
    >>> bool(model.score(X, X[:, 0] > 0) > 0.8), model.n_iter_, round(model.noise_multiplier_, 1)
    (True, 50, 2.5)
    """

    _snapshot_share = 0.5  # part of mu^2, if sampling is near its Gaussian limit

    def __init__(
        self,
        n_rounds: int | str = "auto",
        n_inner: int | str = "auto",
        batch_size: int | str = "auto",
        step_size: float | str = "auto",
    ) -> None:
        self.n_rounds = n_rounds
        self.n_inner = n_inner
        self.batch_size = batch_size
        self.step_size = step_size

    def mechanism(self, objective: Any, budget: Any, bound: Any) -> Any:
        """See `Solver.mechanism`."""
        n_rounds, n_inner, probability = self._schedule(objective, budget)
        step_size = self._step_size(objective)
        odds = (1 - self._snapshot_share) / self._snapshot_share
        snapshot_noise = math.sqrt(odds / n_inner) / probability  # in units of a step's

        def record(noise_multiplier):
            snapshots = PoissonSubsampled(
                sampling_probability=1.0,
                noise_multiplier=snapshot_noise * noise_multiplier,
                n_steps=n_rounds,
                adjacency=budget.adjacency,
            )
            steps = PoissonSubsampled(
                sampling_probability=probability,
                noise_multiplier=noise_multiplier,
                n_steps=n_rounds * n_inner,
                adjacency=budget.adjacency,
                step_size=step_size,
            )
            return Composition((snapshots, steps))

        return record

    def solve(
        self,
        objective: Any,
        mechanism: Any,
        rows: Any,
        *,
        generator: Any,
        n_threads: Any = 1,
        verbose: Any = 0,
    ) -> Any:
        """See `Solver.solve`."""
        snapshots, steps = mechanism.mechanisms
        n_rounds, n_inner = snapshots.n_steps, steps.n_steps // snapshots.n_steps
        step_size, batch_size = steps.step_size, steps.sampling_probability * objective.n_samples
        records = _Records(objective, rows)
        snapshot = np.zeros(objective.n_parameters)
        with one_blas_thread(), Progress(n_rounds, "round", verbose) as told:
            for number in range(1, n_rounds + 1):
                snapshot_std = snapshots.noise_multiplier * (
                    objective.lipschitz + records.rounding(snapshot)
                )
                gradient = release(records.gradient(snapshot), snapshot_std, generator)
                gradient /= objective.n_samples
                theta, total = snapshot.copy(), np.zeros_like(snapshot)
                for _ in range(n_inner):
                    limit = min(
                        2 * objective.lipschitz,
                        objective.curvature * np.linalg.norm(theta - snapshot),
                    )
                    batch = np.flatnonzero(
                        generator.random(objective.n_samples) < steps.sampling_probability
                    )
                    correction = records.correction(theta, snapshot, batch, limit)
                    sensitivity = limit + records.rounding(theta) + records.rounding(snapshot)
                    correction = release(
                        correction, steps.noise_multiplier * sensitivity, generator
                    )
                    theta -= step_size * (
                        correction / batch_size + gradient + objective.alpha * theta
                    )
                    total += theta
                snapshot = total / n_inner
                told(number)
        return snapshot

    def fitted_attributes(self, mechanism: Any) -> Any:
        """See `Solver.fitted_attributes`: the noise on steps, and their number in all rounds."""
        _, steps = mechanism.mechanisms
        return {
            "noise_multiplier_": steps.noise_multiplier,
            "n_iter_": steps.n_steps,
            "step_size_": steps.step_size,
        }

    def _schedule(self, objective, budget):
        """Return rounds, steps in a round, and the probability that a batch takes a record."""
        n_samples = objective.n_samples
        time = training_time(objective, budget)
        # The mean of a round's iterates is half a round behind, so that this trains for half the
        # time: the noise is larger
        wanted, _ = curvature_aware_schedule(
            time,
            strong_convexity=objective.strong_convexity,
            smoothness=objective.curvature + objective.alpha,
            step_size=self._step_size(objective),
        )
        batch_size = self.batch_size
        if is_auto(batch_size):
            # in units of one contribution, from which on batches of any size cost alike
            noise = 4.0
            batch_size = min(
                n_samples, math.ceil(noise * n_samples * budget.mu / math.sqrt(4 * wanted))
            )
        else:
            batch_size = checked_batch_size(batch_size, n_samples)
        n_inner = checked_steps(self.n_inner, "n_inner") or max(
            2, math.ceil(min(n_samples / batch_size, _MOST_INNER))
        )
        n_rounds = checked_steps(self.n_rounds, "n_rounds") or max(2, math.ceil(wanted / n_inner))
        # a multiple of 2^-53, as uniform numbers are: one is below it with exactly this probability
        return n_rounds, n_inner, math.floor(batch_size / n_samples * 2.0**53) / 2.0**53

    def _step_size(self, objective):
        return checked_step_size(self.step_size) or 1 / (objective.curvature + objective.alpha)


class _Records:
    """Sums of bounded gradients over some records."""

    def __init__(self, objective, rows):
        self.objective, self.X, self.y = objective, rows.X, rows.y.astype(np.float64)
        bounded = rows.bounded(objective, n_chunks=1, dtype=np.float64)
        self.row_scale, self.residual_limit = bounded.scale, bounded.limit.astype(np.float64)
        self.weight = bounded.weight if bounded.weight.size else np.ones(objective.n_samples)
        unit = replace(objective, clip=1.0, loss=replace(objective.loss, lipschitz=math.inf))
        unit_limit = rows.bounded(unit, n_chunks=1, dtype=np.float64, aligned=False).limit
        # residuals of contributions of norm 1
        self.unit_limit = np.minimum(unit_limit.astype(np.float64), 1e300) * self.weight

    def gradient(self, theta):
        """Sum of all records' clipped gradients."""
        parts = (slice(first, first + _ROWS) for first in range(0, self.objective.n_samples, _ROWS))
        return sum(self._sum(self._residuals(theta, part), part) for part in parts)

    def correction(self, theta, snapshot, batch, limit):
        """Sum differences of clipped gradients at two points over a batch."""
        difference = self._residuals(theta, batch) - self._residuals(snapshot, batch)
        return self._sum(_bounded(difference, limit * self.unit_limit[batch]), batch)

    def rounding(self, theta):
        """Return how far one record can move the sum over a batch at ``theta`` by rounding alone.

        BLAS may add up the products of all other rows in another order if there is one row more.
        """
        objective = self.objective
        return (
            2
            * objective.n_samples
            * objective.gradient_rounding(np.linalg.norm(theta), objective.n_features, 0)
        )

    def _residuals(self, theta, part):
        coef, intercept = self.objective.split(theta)
        raw = np.ascontiguousarray(
            ((self.X[part] @ coef.T) * self.row_scale[part, None] + intercept).T
        )
        out = np.empty_like(raw)
        if self.objective.n_outputs == 1:
            self.objective.loss.residual(raw[0], self.y[part], out[0])
        else:
            self.objective.loss.residual(raw, self.y[part], out)
        return _bounded(out.T, self.residual_limit[part]) * self.weight[part, None]

    def _sum(self, residuals, part):
        coef = (self.X[part].T @ (residuals * self.row_scale[part, None])).T
        if self.objective.intercept_scaling == 0:
            return coef.ravel()
        return np.append(coef, self.objective.intercept_scaling * residuals.sum(axis=0))


def _bounded(residuals, limit):
    """Return rows scaled down to norm ``limit``; values that are not finite count as 0."""
    residuals = np.nan_to_num(residuals, posinf=0.0, neginf=0.0)
    if residuals.shape[1] == 1:  # the factor below could be subnormal
        return np.clip(residuals, -limit[:, None], limit[:, None])
    norms = np.linalg.norm(residuals, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return residuals * np.where(norms <= limit, 1.0, limit / norms)[:, None]
