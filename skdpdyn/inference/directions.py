"""Coordinates in which rows are alike in all directions, a noisy matrix there, and its inverse."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpdyn.core.rules import COORDINATES_SHARE, LEAST_STRENGTH, kept_weight, strength_of
from skdpdyn.core.spending import ROUNDS_DOWN, Share, Spending, scaled_to
from skdpdyn.data.base import sum_rounding
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import mapping_error
from skdpdyn.data.tally import RowTally
from skdpdyn.privacy import Budget
from skdpdyn.support.blas import one_blas_thread
from skdpdyn.training.conditioning import LARGEST_SPREAD, Conditioner, shares_of

ABOVE_NOISE = 1.0  # standard deviations above the norm of its noise: an eigenvalue that counts
SEEN = 1.0  # the same above the norm of noise in all directions that do not count
# A coefficient is refused if this part of it, squared, lies in directions that are not carried
LEAST_PART = 0.01
# The weakest direction may have as much less than the mean; and advice errs on the side of more
USUAL = 3.0
LATER = 1.25
TOTAL = "weight of rows"
TOTAL_SHARE = 0.005
_NAMED = 0.3
_MOST_NAMES = 4  # least load of a column over the largest, and how many are named


def row_by_row(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return ``rows @ matrix.T``, the same to the last bit wherever a row stands.

    BLAS may round a row by its place, which other persons' rows move, and numpy's own loops promise
    nothing. Here each product and each sum of two is rounded as IEEE 754 says, in order.
    """
    total = np.zeros((len(rows), len(matrix)))
    for column, coefs in zip(rows.T, matrix.T, strict=True):
        total += column[:, None] * coefs
    return total


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates (weights @ (u - centre), constant) of rows u of the unit ball.

    They are public: chosen without the records, or released before. A row whose squared length is
    above ``square`` has a weight below 1. Such a weight depends on the row alone, not on its target
    (Mallows), so it moves no estimand of a model that is right, while shortening the row would.

    Parameters
    ----------
    centre : ndarray of shape (n_features,)
        What is subtracted; zeros without an intercept.
    weights : ndarray of shape (n_features, n_features)
        The matrix.
    constant : float
        The constant's coordinate; 0 without an intercept.
    """

    centre: np.ndarray
    weights: np.ndarray
    constant: float

    @property
    def square(self) -> float:
        """Largest squared length of a row that has weight 1."""
        return 1 + self.constant**2

    def of_unit(self, constant: float) -> np.ndarray:
        """Return the matrix that makes coordinates of rows (u, constant)."""
        if not self.constant:
            return self.weights
        shift = -(self.weights @ self.centre)[:, None] / constant
        last = np.append(np.zeros(len(shift)), self.constant / constant)
        return np.vstack([np.hstack([self.weights, shift]), last])


def shares_of_coordinates(
    rows: LocalRows, n_features: int, budget: Budget, intercept: bool, adds_up: bool = True
) -> dict[str, Share]:
    """Return the shares of learning coordinates, from public numbers; none for few records.

    Rows will have up to ``n_features`` columns. ``adds_up``: whether their weights add up to the
    number of records.
    """
    n_samples = rows.n_records
    mu = budget.mu * ROUNDS_DOWN
    if rows.is_sparse or strength_of(n_samples, mu, budget.adjacency) < LEAST_STRENGTH:
        return {}
    options = {"is_sparse": False, "centred": intercept}
    shares = shares_of(n_samples, n_features, mu, budget.adjacency, **options)
    shares = scaled_to(shares, COORDINATES_SHARE)
    return shares if adds_up else {TOTAL: Share(TOTAL_SHARE)} | shares


def with_total(rows: LocalRows, spending: Spending) -> Any:
    """Return rows with the bought sum of their weights, where it is not the number of records."""
    if TOTAL not in spending.shares:
        return rows
    total = spending.release(TOTAL, RowTally.of(rows).total()).value
    return rows.with_total(min(max(total, 1.0), rows.n_records))


def learn_coordinates(rows: LocalRows, spending: Spending, intercept: bool) -> Coordinates:
    """Buy coordinates if ``spending`` has shares for them; ``rows`` have a map to the unit ball."""
    n_features = rows.shape[1]
    radius = rows.map.radius
    constant = 1 / math.sqrt(n_features) if intercept else 0.0
    options = {"is_sparse": False, "centred": intercept}
    names = shares_of(rows.n_records, n_features, spending.mu, spending.adjacency, **options)
    shares = {name: share for name, share in spending.shares.items() if name in names}
    if not shares:
        return Coordinates(np.zeros(n_features), np.eye(n_features), constant)
    plain: Any = LocalRows(rows.X, None, rows.weight if rows.weight.size else None, None, None)
    plain.persons = rows.persons
    plain.most_rows = rows.most_rows
    plain.total = rows.total
    strength = strength_of(rows.n_records, spending.mu, spending.adjacency)
    quantile = kept_weight(strength, n_features)
    conditioner = Conditioner(
        n_samples=rows.n_records, data_norm=radius, shares=shares, quantile=quantile
    )
    row_map = conditioner.learn(plain, spending).map
    weights = np.diag(row_map.weights) if row_map.is_diagonal else row_map.weights
    centre = np.zeros(n_features) if row_map.centre is None else row_map.centre
    return Coordinates(centre / radius, weights * (radius / row_map.norm), constant)


def rounding_of(rows: LocalRows, theta: np.ndarray) -> float:
    """Return how much sums over rows in coordinates may round, whose terms depend on ``theta``."""
    n_features = rows.shape[1] + 1
    of_terms = 4 * mapping_error(n_features, LARGEST_SPREAD) * (1 + float(np.linalg.norm(theta)))
    return sum_rounding(rows.n_records, n_features, of_terms, rows.most_rows)


@dataclass(frozen=True, eq=False)
class Moment:
    """A symmetric matrix, and the standard deviation of its noise on the diagonal."""

    matrix: np.ndarray
    std: float

    @property
    def noise_norm(self) -> float:
        """About the norm of the noise, as an operator."""
        return self.std * math.sqrt(2 * len(self.matrix))

    @property
    def positive(self) -> np.ndarray:
        """The nearest matrix without negative eigenvalues."""
        with one_blas_thread():
            values, vectors = np.linalg.eigh(self.matrix)
            return (vectors * np.maximum(values, 0)) @ vectors.T


@dataclass(frozen=True, eq=False)
class Inverse:
    """The inverse of a noisy matrix in the directions that carry, and the other directions.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        The inverse; 0 in other directions.
    weak, blind : ndarray of shape (n_directions, m)
        Directions that do not carry, and those of them in which nothing but noise is seen.
    factor, blind_factor : float
        By how much mu is too small for all directions to carry in which something is seen, and for
        the others; infinite if these would be seen by now, were they like the rest.
    """

    matrix: np.ndarray
    weak: np.ndarray
    blind: np.ndarray
    factor: float
    blind_factor: float

    def of(self, basis: np.ndarray) -> "Inverse":
        """Return it in the coordinates that the orthonormal columns of a basis lie in."""
        return replace(
            self,
            matrix=basis @ self.matrix @ basis.T,
            weak=self.weak @ basis.T,
            blind=self.blind @ basis.T,
        )


def inverted(moment: Moment, least: float = 0.0) -> Inverse:
    """Return the inverse of a noisy matrix, by tests of its eigenvalues against their noise.

    Those below ``least`` do not count either.
    """
    with one_blas_thread():
        values, vectors = np.linalg.eigh(moment.matrix)
    least = max(moment.noise_norm + ABOVE_NOISE * moment.std, least)
    n_weak = int(np.count_nonzero(values < least))
    # of k directions that hold nothing, the largest eigenvalue is about the norm of their noise
    n_blind = n_weak
    while n_blind and values[n_blind - 1] > moment.std * (math.sqrt(2 * n_blind) + SEEN):
        n_blind -= 1
    factor = LATER * least / values[n_blind] if n_blind < n_weak else math.nan
    usual = max(np.trace(moment.matrix), moment.std) / len(values)  # rows are about alike
    blind_factor = math.inf
    if n_blind and usual < USUAL * least:
        # columns that tell much of one another leave less to what is not seen than to the rest
        left = max(values[:n_blind].mean(), moment.std / math.sqrt(n_blind))
        blind_factor = LATER * USUAL * least / min(usual, left)
    strong = vectors[:, n_weak:]
    matrix = (strong / values[n_weak:]) @ strong.T
    weak = vectors[:, :n_weak].T
    blind = vectors[:, :n_blind].T
    return Inverse(matrix, weak, blind, float(factor), float(blind_factor))


@dataclass(frozen=True, eq=False)
class Sums:
    """Weighted sums of parameters: which of them there is enough information on, and their errors.

    A sum may be known though its parts are not, such as that of two collinear columns.

    Parameters
    ----------
    params : ndarray of shape (n_params,)
        Estimates of all parameters, with 0 along directions that do not carry.
    cov : ndarray of shape (n_params, n_params)
        Covariance of their errors along the directions that carry.
    weak : ndarray of shape (n_params, n_directions)
        The parameters' loads on directions that do not carry.
    units : ndarray of shape (n_params, m)
        Each parameter as a sum of coordinates' parameters.
    """

    params: np.ndarray
    cov: np.ndarray
    weak: np.ndarray
    units: np.ndarray

    def are_answered(self, weights: np.ndarray) -> np.ndarray:
        """Return whether there is enough information on each row of weights, (n_sums, n_params)."""
        lost, sizes = self._squares(weights)
        return lost <= LEAST_PART * sizes

    def are_answered_together(self, weights: np.ndarray, parts: np.ndarray) -> bool:
        """Return whether there is enough on rows of weights in their mean, of weights ``parts``."""
        lost, sizes = self._squares(weights)
        return bool(parts @ lost <= LEAST_PART * (parts @ sizes))

    def std_err(self, weights: np.ndarray) -> np.ndarray:
        """Return the standard error of each weighted sum; NaN where it is not answered."""
        variance = np.einsum("ij,jk,ik->i", weights, self.cov, weights)
        return np.where(self.are_answered(weights), np.sqrt(variance), math.nan)

    def _squares(self, weights):
        """Return the squared lengths of sums along directions that do not carry, and along all."""
        lost = np.sum((weights @ self.weak) ** 2, axis=1)
        return lost, np.sum((weights @ self.units) ** 2, axis=1)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Parameters with the covariance of their errors; NaN where there is not enough information.

    ``factor`` says by how much mu is too small for each of these, infinite where nothing is seen,
    and ``hidden`` which columns may be the reason. ``sums`` are weighted sums of them.
    """

    params: np.ndarray
    cov: np.ndarray
    factor: np.ndarray
    hidden: tuple[tuple[str, ...], ...]
    sums: Sums

    def shifted(self, shift: np.ndarray) -> "Estimates":
        """Return them with known parts added."""
        sums = replace(self.sums, params=self.sums.params + shift)
        return replace(self, params=self.params + shift, sums=sums)

    def with_unknown(self, rows: Sequence[int], alone: "Estimates") -> "Estimates":
        """Return them without some that are 0 by a constraint.

        ``alone`` are those without it: with a budget that answers them all, it is not needed.
        """
        params = self.params.copy()
        params[rows] = math.nan
        cov = self.cov.copy()
        cov[rows] = math.nan
        cov[:, rows] = math.nan
        factor = self.factor.copy()
        factor[rows] = np.nanmax(alone.factor)
        hidden = list(self.hidden)
        for row in rows:
            hidden[row] = alone.hidden[row]
        return replace(self, params=params, cov=cov, factor=factor, hidden=tuple(hidden))


def estimates(
    theta: np.ndarray,
    covariance: np.ndarray,
    inverse: Inverse,
    units: np.ndarray,
    names: Sequence[str],
) -> Estimates:
    """Return estimates of ``units @ theta``, or why there is none.

    Parameters
    ----------
    theta, covariance : ndarray of shape (m,), (m, m)
        Estimates in coordinates, and the covariance of their errors.
    inverse : Inverse
        What carries.
    units : ndarray of shape (n_params, m)
        Each parameter as a sum of coordinates' parameters.
    names : sequence of str
        Names of the parameters.

    Returns
    -------
    Estimates
    """
    params = units @ theta
    cov = units @ covariance @ units.T
    sums = Sums(params, cov.copy(), units @ inverse.weak.T, units)
    sizes = np.maximum(np.sum(units**2, axis=1), np.finfo(np.float64).tiny)
    blind = np.sum((units @ inverse.blind.T) ** 2, axis=1)
    answered = sums.are_answered(np.eye(len(units)))
    factor = np.where(answered, math.nan, inverse.factor)
    factor[blind > LEAST_PART * sizes] = inverse.blind_factor
    hidden = _hidden(units @ inverse.blind.T / np.sqrt(sizes)[:, None], np.isinf(factor), names)
    unknown = ~np.isnan(factor)
    cov[unknown] = math.nan
    cov[:, unknown] = math.nan
    return Estimates(np.where(unknown, math.nan, params), cov, factor, hidden, sums)


def _hidden(directions, unanswered, names) -> tuple[tuple[str, ...], ...]:
    """Return which columns change together, unseen, with each parameter that is asked for.

    ``directions`` are those in which nothing is seen, in units of parameters.
    """
    columns = np.array([not name.rstrip(")").endswith("intercept") for name in names])
    with one_blas_thread():
        basis, _ = np.linalg.qr(directions * columns[:, None])
    loads = np.abs(basis @ basis.T)
    loads[~columns] = np.linalg.norm(basis, axis=1)  # an intercept changes with any of them
    together = []
    for i, is_unanswered in enumerate(unanswered):
        large = [names[j] for j in np.flatnonzero(loads[i] > _NAMED * loads[i].max())]
        large = large[:_MOST_NAMES] + ["..."] * (len(large) > _MOST_NAMES)
        together.append(tuple(large) if is_unanswered else ())
    return tuple(together)
