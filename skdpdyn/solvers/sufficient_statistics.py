"""Ridge regression from noisy sufficient statistics (AdaSSP)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh

from skdpdyn.core.losses import Loss
from skdpdyn.core.noise import Generator, release
from skdpdyn.core.objective import Objective
from skdpdyn.data.base import Rows, largest_number_of_terms
from skdpdyn.privacy import Adjacency, Budget, Composition, Gaussian
from skdpdyn.solvers.base import Solver
from skdpdyn.support.blas import one_blas_thread
from skdpdyn.support.progress import Progress

_LARGEST = 20_000  # largest number of parameters: memory must hold a square matrix of them


class SufficientStatistics(Solver):
    """Adaptive sufficient statistics perturbation (AdaSSP) for ridge regression.

    Three Gaussian mechanisms release the least eigenvalue of X'X, X'X, and X'y, on rows of norm at
    most B and targets in [-1, 1]. The coefficients follow from them, with as much ridge as the
    noise on X'X requires beyond its least eigenvalue. It needs memory for d x d numbers, and is
    most accurate for few columns and large budgets.

    Sensitivities: B^2 (Weyl's inequality, either adjacency); B^2, or sqrt(2) B^2 in the Frobenius
    norm when a record is replaced; B, or 2 B. They compose exactly, mu^2 = mu_1^2 + mu_2^2 +
    mu_3^2.

    References
    ----------
    Y.-X. Wang (2018), Revisiting differentially private linear regression: optimal and adaptive
    prediction and estimation in unbounded domain, Algorithm 2. There the budget is split evenly and
    the noise's operator norm bounded by sqrt(d log(2 d^2 / rho)) standard deviations; here the
    least eigenvalue gets a twentieth, and the norm is the expected one of a symmetric Gaussian
    matrix, 2 sqrt(d).

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

    takes_persons = True
    streams = True

    _shares = (0.05, 0.55, 0.4)  # parts of mu^2 for the least eigenvalue, X'X and X'y

    def check_loss(self, loss: Loss) -> None:
        """See `Solver.check_loss`: products of rows say all of a squared loss, and of no other."""
        if not loss.quadratic:
            raise ValueError(
                "solver='sufficient_statistics' learns quadratic losses only, not the "
                f"{loss.name} loss"
            )

    def mechanism(
        self, objective: Objective, budget: Budget, bound: str
    ) -> Callable[[float], Composition]:
        """See `Solver.mechanism`."""
        if objective.n_parameters > _LARGEST:
            raise ValueError(
                f"n_features={objective.n_features}: sufficient statistics of more than "
                f"{_LARGEST} columns do not fit in memory. "
                "Use solver='noisy_gd'"
            )
        _rounding(objective)  # raises if there are too many records

        def record(noise_multiplier):
            return Composition(
                tuple(
                    Gaussian(noise_multiplier / math.sqrt(share), adjacency=budget.adjacency)
                    for share in self._shares
                )
            )

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
        eigenvalue_noise, gram_noise, moment_noise = (
            part.noise_multiplier for part in mechanism.mechanisms
        )
        replaced = mechanism.adjacency is Adjacency.REPLACE_ONE
        room = 1 + _rounding(objective)
        square = objective.row_norm**2 * room
        eigenvalue_std = eigenvalue_noise * square
        gram_std = gram_noise * square * (math.sqrt(2) if replaced else 1)
        moment_std = moment_noise * mechanism.adjacency.sum_sensitivity(objective.row_norm) * room

        with Progress(1, "pass", verbose) as progress:
            gram, moment = self._statistics(objective, rows)
            progress(1)
        size = objective.n_parameters
        with one_blas_thread():
            least = eigh(gram, eigvals_only=True, subset_by_index=[0, 0])[0]
            least = release(np.array([least]), eigenvalue_std, generator)[0]
            least = max(0.0, least - 1.64 * eigenvalue_std)  # below the truth 19 times of 20
            places = np.triu_indices(size)
            gram[places] = release(gram[places], gram_std, generator)
            gram.T[places] = gram[places]
            moment = release(moment, moment_std, generator)
            ridge = (
                max(0.0, gram_std * 2 * math.sqrt(size) - least)
                + objective.n_samples * objective.alpha
            )
            values, vectors = eigh(gram)
            return vectors @ ((vectors.T @ moment) / np.maximum(values + ridge, gram_std))

    def fitted_attributes(self, mechanism: Composition) -> dict[str, Any]:
        """See `Solver.fitted_attributes`: none, since there are no steps."""
        return {}

    def _statistics(self, objective, rows):
        """Return X'X and X'y of the scaled rows with their intercept column."""
        products = rows.products(objective.data_norm, objective.intercept_scaling)
        return np.ascontiguousarray(products[:, :-1]), products[:, -1].copy()


def _rounding(objective):
    """Return the part of the sensitivities that rounding in two runs together may add.

    A sum over a block of m of the n rows rounds by m eps/2 times the sum of its terms' norms at the
    most, in whatever order, and the sum of the blocks by their number times that; an eigenvalue of
    a matrix of d columns and norm n B^2 by a few d eps n B^2.
    """
    in_order = largest_number_of_terms(
        objective.n_samples, objective.n_features, objective.most_rows
    )
    rounding = (
        (in_order + 16 * objective.n_parameters) * objective.n_samples * np.finfo(np.float64).eps
    )
    if not rounding < 0.5:
        raise ValueError(
            f"n_samples={objective.n_samples}: sums in float64 cannot tell one record among so many"
        )
    return rounding
