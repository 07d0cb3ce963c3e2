"""Linear regression from one noisy sum of products."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.losses import Loss
from skdpdyn.core.noise import Generator, noisy, symmetric
from skdpdyn.core.objective import Objective
from skdpdyn.data.base import Rows, sum_rounding
from skdpdyn.data.row_map import RowMap
from skdpdyn.privacy import Budget, Gaussian
from skdpdyn.solvers.base import Solver
from skdpdyn.support.blas import one_blas_thread
from skdpdyn.support.progress import Progress

_LARGEST = 20_000  # largest number of parameters: memory must hold square matrices of them
_MANY = 5_000  # parameters whose matrices, some five of 200 MB, may be larger than X


class SufficientStatistics(Solver):
    """Least squares from the products of columns with one another and with targets, plus noise.

    One Gaussian mechanism releases their sum, and coefficients are solved for: directions whose
    noise is larger than what the rows have there are left short. It needs memory for some five
    times d x d numbers, and is most accurate for few columns and large budgets: more columns than
    rows are refused beyond 5,000, and all beyond 20,000.

    `skdpdyn.PrivateRidge` with ``solver="auto"`` takes it where records are many enough, after a
    map of rows. Asked for by name it takes rows as they are, of norm at most ``data_norm``, and
    targets within ``target_bounds``: so it learns the mean, and no residual is clipped.

    A record adds the outer product of one vector with itself: its row divided by ``data_norm``, the
    intercept's constant, and its target, a factor times the largest one.

    References
    ----------
    Y.-X. Wang (2018), Revisiting differentially private linear regression: optimal and adaptive
    prediction and estimation in unbounded domain. There three mechanisms share the budget; here one
    has all of it.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.solvers import SufficientStatistics
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [3.0, -2.0] + 10
    >>> solver = SufficientStatistics()
    >>> model = PrivateRidge(epsilon=1.0, target_bounds=(7.0, 13.0), solver=solver).fit(X, y)
    >>> bool(model.score(X, y) > 0.8), round(model.privacy_.mu, 4)
    (True, 0.2062)
    """

    gaussian = True
    takes_persons = True
    streams = True

    def check_loss(self, loss: Loss) -> None:
        """See `Solver.check_loss`: products of rows say all of a squared loss, and of no other."""
        if not loss.quadratic:
            raise ValueError(
                "solver='sufficient_statistics' learns quadratic losses only, not the "
                f"{loss.name} loss"
            )

    def mechanism(
        self, objective: Objective, budget: Budget, bound: str
    ) -> Callable[[float], Gaussian]:
        """See `Solver.mechanism`."""
        if objective.n_parameters > _LARGEST:
            raise ValueError(
                f"n_features={objective.n_features}: sufficient statistics of more than "
                f"{_LARGEST} columns do not fit in memory. "
                "Use solver='noisy_gd'"
            )
        if objective.n_parameters > max(_MANY, objective.n_samples):
            raise ValueError(
                f"n_features={objective.n_features}: sufficient statistics take five square "
                f"matrices, each larger than X of n_samples={objective.n_samples}. "
                "Use solver='noisy_gd'"
            )
        shape = objective.n_samples, objective.n_features
        sum_rounding(*shape, 4 * _in_ball(objective).error, objective.most_rows)  # or it raises
        return partial(Gaussian, adjacency=budget.adjacency)

    def solve(
        self,
        objective: Objective,
        mechanism: Gaussian,
        rows: Rows,
        *,
        generator: Generator,
        verbose: int = 0,
    ) -> np.ndarray:
        """See `Solver.solve`: directions below the noise are left short."""
        unit = objective.data_norm
        constant = objective.intercept_scaling / unit
        factor = rules.TARGET_FACTOR
        largest = 1.0  # of targets within public bounds
        if rows.map is None:
            rows = rows.with_map(_in_ball(objective))
        else:  # targets are in learnt units
            largest = objective.clip / objective.row_norm
        rows = rows.with_target(0.0, largest)
        with Progress(1, "pass", verbose) as progress:
            products = rows.products_with_targets(constant, factor)
            progress(1)
        released = partial(
            noisy,
            multiplier=mechanism.noise_multiplier,
            adjacency=mechanism.adjacency,
            generator=generator,
            n_threads=rows.n_threads,
        )
        matrix, std = symmetric(products, lambda sums, scale: released(sums, scale=scale))
        with one_blas_thread():
            values, vectors = np.linalg.eigh(matrix[:-1, :-1])
            penalty = objective.n_samples * objective.alpha / unit**2
            of_noise = std * math.sqrt(2 * len(matrix))  # about its operator norm
            hidden = vectors[:, values <= of_noise]
            values = np.maximum(values + penalty, of_noise)
            of_targets = matrix[:-1, -1] * (largest / factor)
            theta = vectors @ (vectors.T @ of_targets / values)
            return _least(theta, hidden, rows.map, objective.n_features) / unit

    def fitted_attributes(self, mechanism: Gaussian) -> dict[str, Any]:
        """See `Solver.fitted_attributes`: the noise; there are no steps."""
        return {"noise_multiplier_": mechanism.noise_multiplier}


def _least(theta, hidden, row_map, n_features):
    """Return parameters with the least coefficients of rows, moved along hidden directions alone.

    Products show nothing of these: two equal columns, say, share one coefficient evenly. A map that
    leaves directions out has done that.
    """
    if not hidden.size:
        return theta
    if not row_map.is_diagonal and np.linalg.matrix_rank(row_map.weights) < n_features:
        return theta
    of_hidden = row_map.coefficients(np.ascontiguousarray(hidden[:n_features].T))
    coef = row_map.coefficients(theta[None, :n_features])[0]
    return theta - hidden @ np.linalg.lstsq(of_hidden.T, coef, rcond=None)[0]


def _in_ball(objective):
    """Return the map that divides rows by ``data_norm``, and longer ones by their own norm."""
    radius = objective.data_norm
    return RowMap(None, np.full(objective.n_features, 1 / radius), norm=1.0, radius=radius)
