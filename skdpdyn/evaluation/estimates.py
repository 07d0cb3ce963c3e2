"""Estimates with intervals, computed from released numbers and the covariance of their noise."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpdyn.privacy.checks import checked_number


@dataclass(frozen=True)
class Estimate:
    """A number and the interval that holds the one without noise.

    Parameters
    ----------
    value : float
        The estimate; NaN where noise leaves nothing of it.
    low, high : float
        Ends of the interval.

    Examples
    --------
    >>> from skdpdyn.evaluation import Estimate
    >>> Estimate(0.75, 0.74, 0.76), float(Estimate(0.75, 0.74, 0.76))
    (0.75 [0.74, 0.76], 0.75)
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, eq=False)
class Covariance:
    """The sum diag(variances) + matrix - taken' taken, which needs no matrix for apart noise.

    Parameters
    ----------
    variances : ndarray of shape (n_numbers,)
        Variances of noise that each number has for itself.
    taken : ndarray of shape (n_known, n_numbers)
        Its rows are what known sums took away.
    matrix : ndarray of shape (n_numbers, n_numbers) or None, default=None
        Covariance of noise that numbers share; None: they share none.
    """

    variances: np.ndarray
    taken: np.ndarray
    matrix: np.ndarray | None = None

    @classmethod
    def apart(cls, variances: np.ndarray) -> "Covariance":
        """Return the covariance of numbers whose noise is apart."""
        return cls(variances, np.zeros((0, variances.size)))

    @classmethod
    def shared(cls, matrix: np.ndarray) -> "Covariance":
        """Return a covariance that is a matrix."""
        return replace(cls.apart(np.zeros(len(matrix))), matrix=matrix)

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """Return the product with each row of ``vectors``."""
        product = self.variances * vectors - (vectors @ self.taken.T) @ self.taken
        return product if self.matrix is None else product + vectors @ self.matrix

    def given(self, taken: np.ndarray, variances: np.ndarray | float = 0.0) -> "Covariance":
        """Return the covariance less ``outer(taken, taken)``, with further ``variances``."""
        rows = np.vstack([self.taken, taken])
        return replace(self, variances=self.variances + variances, taken=rows)

    def beside(self, variance: float) -> "Covariance":
        """Return the covariance of one more number, whose noise is apart."""
        matrix = None if self.matrix is None else np.pad(self.matrix, (0, 1))
        taken = np.pad(self.taken, ((0, 0), (0, 1)))
        return Covariance(np.append(self.variances, variance), taken, matrix)

    def of(self, places: np.ndarray) -> "Covariance":
        """Return the covariance of the numbers at these places."""
        matrix = None if self.matrix is None else self.matrix[np.ix_(places, places)]
        return Covariance(self.variances[places], self.taken[:, places], matrix)


@dataclass(frozen=True, eq=False)
class NoisyNumbers:
    """Released numbers, the covariance of their noise, and the quantile for intervals.

    Parameters
    ----------
    values : ndarray of shape (n_numbers,)
        The numbers.
    covariance : Covariance
        Covariance of their noise, public.
    quantile : float
        How many standard deviations wide an interval is, to each side.
    """

    values: np.ndarray
    covariance: Covariance
    quantile: float

    def covariances(self, vectors: np.ndarray) -> np.ndarray:
        """Return the covariances of ``vectors @ values``."""
        return self.covariance.times(vectors) @ vectors.T

    def linear(
        self,
        weights: np.ndarray,
        constant: float = 0.0,
        bounds: tuple[float, float] = (-math.inf, math.inf),
    ) -> Estimate:
        """Return the estimate of ``constant + weights @ values``."""
        width = self.quantile * math.sqrt(max(float(self.covariances(weights)), 0.0))
        value = constant + float(weights @ self.values)
        return _within(value, value - width, value + width, bounds)

    def ratio(
        self,
        above: np.ndarray,
        below: np.ndarray,
        bounds: tuple[float, float] = (0.0, 1.0),
        sampled: float = 0.0,
    ) -> Estimate:
        """Return the estimate of a ratio of two sums, ``above @ values / below @ values``.

        The interval is Fieller's (1954), which is exact for normal noise. ``sampled`` is the
        variance that a sample adds to the first sum less the ratio times the second.
        """
        vectors = np.array([above, below])
        (a, b) = vectors @ self.values
        square = self.quantile**2
        (aa, ab), (_, bb) = square * self.covariances(vectors)
        aa += square * sampled
        lead = b * b - bb
        middle = a * b - ab
        last = a * a - aa
        if not (b > 0 and lead > 0):  # the denominator may be 0
            return Estimate(math.nan, *bounds)
        width = math.sqrt(max(middle**2 - lead * last, 0.0))
        return _within(a / b, (middle - width) / lead, (middle + width) / lead, bounds)

    def beside(self, number: float, std: float) -> "NoisyNumbers":
        """Return the numbers and another, whose noise is apart from theirs."""
        values = np.append(self.values, number)
        return replace(self, values=values, covariance=self.covariance.beside(std**2))

    def of(self, places: np.ndarray) -> "NoisyNumbers":
        """Return the numbers at these places."""
        return replace(self, values=self.values[places], covariance=self.covariance.of(places))

    def given(self, weights: np.ndarray, total: float) -> "NoisyNumbers":
        """Return the least-squares estimate where ``weights @ values`` is known to be a total."""
        moved = self.covariance.times(weights)
        variance = moved @ weights
        values = self.values + moved / variance * (total - self.values @ weights)
        left = self.covariance.given(moved / math.sqrt(variance))
        return replace(self, values=values, covariance=left)

    def of_population(self, n_labels: int) -> "NoisyNumbers":
        """Return counts by label with the covariance that a sample adds: a multinomial one.

        The last count is of all other labels. Noise leaves counts below 0: they become 0, and
        others fall so that sums by label stay.
        """
        by_label = self.values[:-1].reshape(n_labels, -1)
        counts = np.maximum(by_label, 0)
        sums = np.maximum(by_label.sum(axis=1), 0) / np.maximum(counts.sum(axis=1), 1e-300)
        counts = np.append(counts * sums[:, None], max(self.values[-1], 0.0))
        shared = counts / math.sqrt(max(counts.sum(), 1e-300))
        return replace(self, covariance=self.covariance.given(shared, counts))

    def smooth(
        self, value: float, gradient: np.ndarray, bounds: tuple[float, float] = (0.0, 1.0)
    ) -> Estimate:
        """Return the estimate of a function of the numbers, to first order in the noise."""
        shifted = self.linear(gradient, value - float(gradient @ self.values))
        return _within(value, shifted.low, shifted.high, bounds)


def _within(value, low, high, bounds):
    return Estimate(
        *(float(min(max(number, bounds[0]), bounds[1])) for number in (value, low, high))
    )


def checked_confidence(confidence: Any) -> float:
    """Return how often intervals cover, or raise an error that names the allowed values."""
    requirement = "in (0, 1): how often intervals cover"
    return checked_number(confidence, "confidence", lambda x: 0 < x < 1, requirement)
