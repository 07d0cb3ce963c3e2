"""Stochastic variance-reduced gradient descent with noisy gradients, for comparison."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skdpdyn.core.noise import Generator, release
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import opened
from skdpdyn.data.base import Rows
from skdpdyn.privacy import Budget, Composition, PoissonSubsampled
from skdpdyn.privacy.checks import is_auto
from skdpdyn.privacy.schedules import curvature_aware_schedule
from skdpdyn.solvers.base import (
    Solver,
    checked_batch_size,
    checked_step_size,
    checked_steps,
    training_time,
)
from skdpdyn.support.chunks import gathered_in_order, largest_number_in_order
from skdpdyn.support.progress import Progress

_EPS = np.finfo(np.float64).eps
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
      the smaller of these numbers, h.
      Noise of ``noise_multiplier`` times h, and of what sums may round, is added. Given what was
      released before, each step is thus dominated by the same pair of distributions, and
      dominating pairs compose adaptively. (In a round's first step h = 0: the sum is 0, whatever
      the records.)
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
    >>> from benchmarks.rivals.dp_svrg import DPSVRG
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> solver = DPSVRG(n_rounds=5, n_inner=10)
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True], solver=solver)
    >>> model = model.fit(X, X[:, 0] > 0)
    >>> bool(model.score(X, X[:, 0] > 0) > 0.8), model.n_iter_, round(model.noise_multiplier_, 1)
    (True, 50, 3.4)
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

    def mechanism(
        self, objective: Objective, budget: Budget, bound: str
    ) -> Callable[[float], Composition]:
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
        objective: Objective,
        mechanism: Composition,
        rows: Rows,
        *,
        generator: Generator,
        verbose: int = 0,
    ) -> np.ndarray:
        """See `Solver.solve`."""
        snapshots, steps = mechanism.mechanisms
        n_rounds = snapshots.n_steps
        n_inner = steps.n_steps // snapshots.n_steps
        step_size = steps.step_size
        batch_size = steps.sampling_probability * objective.n_samples
        snapshot = np.zeros(objective.n_parameters)
        with Progress(n_rounds, "round", verbose) as progress:
            for number in range(1, n_rounds + 1):
                largest = objective.lipschitz + _rounding(objective, snapshot)
                std = snapshots.noise_multiplier * largest
                snapshot_gradient = release(
                    opened(rows.gradient(objective, snapshot)), std, generator
                )
                theta = snapshot.copy()
                total = np.zeros_like(snapshot)
                for _ in range(n_inner):
                    batch = np.flatnonzero(
                        generator.random(objective.n_samples) < steps.sampling_probability
                    )
                    correction = opened(rows.gradient(objective, theta, batch))
                    correction -= opened(rows.gradient(objective, snapshot, batch))
                    largest = _largest_correction(objective, theta, snapshot)
                    correction = release(correction, steps.noise_multiplier * largest, generator)
                    theta -= step_size * (
                        correction / batch_size
                        + snapshot_gradient / objective.n_samples
                        + objective.alpha * theta
                    )
                    total += theta
                snapshot = total / n_inner
                progress(number)
        return snapshot

    def fitted_attributes(self, mechanism: Composition) -> dict[str, Any]:
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
        rounds, _ = curvature_aware_schedule(
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
                n_samples, math.ceil(noise * n_samples * budget.mu / math.sqrt(4 * rounds))
            )
        else:
            batch_size = checked_batch_size(batch_size, n_samples)
        n_inner = checked_steps(self.n_inner, "n_inner") or max(
            2, math.ceil(min(n_samples / batch_size, _MOST_INNER))
        )
        n_rounds = checked_steps(self.n_rounds, "n_rounds") or max(2, math.ceil(rounds / n_inner))
        # a multiple of 2^-53, as uniform numbers are: one is below it with exactly this probability
        return n_rounds, n_inner, math.floor(batch_size / n_samples * 2.0**53) / 2.0**53

    def _step_size(self, objective):
        return checked_step_size(self.step_size) or 1 / (objective.curvature + objective.alpha)


def _rounding(objective, theta):
    """Return how far one record can move a sum of gradients at ``theta`` by rounding alone.

    Each of two runs computes a sum over at most n records, in whatever blocks, and may be off by n
    times the rounding of their mean. A vector more is counted for a difference from another sum: it
    rounds by eps/2 of its norm, at most 2 n L, in each run, and half of that is for either sum.
    """
    n_summed = max(largest_number_in_order(objective), gathered_in_order(objective.n_samples)) + 1
    norm = np.linalg.norm(theta)
    n_terms = objective.n_features + 2
    return 2 * objective.n_samples * objective.gradient_rounding(norm, n_terms, n_summed)


def _largest_correction(objective, theta, snapshot):
    """Return how far one record can move the sum of differences of gradients at two points.

    Theorem. Take the sum of grad_i(theta) - grad_i(s) over a batch, as computed, and the same sum
    without one of its records. They are at most h + R apart, h = min(2 L, beta norm(theta - s)), R
    = _rounding(theta) + _rounding(s). So a record that vanishes moves the sum over its batch by h +
    R, two that replace one another move it by h + R each from the sum without them, and batches
    without them have the same sum: what `PoissonSubsampled` asks for in both neighbouring
    relations.

    Proof. A record's gradient is w P(l'(z theta)) z: z its row, in a ball of radius B, w at most 1
    its weight, l' the derivative of its loss, and P the projection onto a ball around 0 by which
    kernels clip, an interval for one output. The record alone determines z, w and P, not the point.
    Two gradients of norm at most L differ by at most 2 L. P is 1-Lipschitz, clipped softmax or not,
    and P(l') is as smooth as `Loss` says, so that two gradients differ by at most smoothness B^2
    norm(theta - s): that clipped softmax is the gradient of no convex function matters to
    contractions alone. theta and s are released, and the batch is drawn without the record, so all
    of this holds given what came before. `_rounding` bounds how far each of the two sums of both
    runs is from its exact value, whatever the order of the records. The last factor bounds the
    rounding of norm(theta - s): by eps/2 of each difference, each square, and each of their sums.
    """
    distance = np.linalg.norm(theta - snapshot) * (1 + (theta.size + 8) * _EPS)
    largest = min(2 * objective.lipschitz, objective.curvature * distance)
    return largest + _rounding(objective, theta) + _rounding(objective, snapshot)
