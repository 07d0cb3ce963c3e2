"""Bins of predicted probabilities: where they end, which probabilities they hold, their losses."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from skdpdyn.evaluation.estimates import NoisyNumbers

# Cells of log odds, from the least to the largest that a probability of 64 bits has: finest, .38
# wide, around 0
CELL_EDGES = 6.0 * np.sinh(np.linspace(math.asinh(-745 / 6), math.asinh(37 / 6), 129))
N_CELLS = CELL_EDGES.size - 1
_USUAL = 12.4  # log odds beyond which cells have to stand out
_STANDS_OUT = 4.0  # standard deviations
_INSIDE = (np.arange(9) + 0.5) / 9  # parts of a bin's records below points that stand for them
# Prior deviations of what log odds are off by, and of the factor on them
_PRIOR = np.diag([0.5, 0.5]) ** 2
_N_STEPS = 8


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of probabilities, and log odds of as many records each that stand for a bin.

    Parameters
    ----------
    edges : ndarray of shape (n_bins - 1,)
        Probabilities between the bins.
    points : ndarray of shape (n_bins, n_points)
        Log odds in each bin.
    """

    edges: np.ndarray
    points: np.ndarray

    @classmethod
    def of(cls, cells: NoisyNumbers, total: float, strength: float, thresholds: Any) -> "Bins":
        """Return bins of about equal numbers of records, of noisy counts by cell.

        The ``thresholds``, or 1/2 if they are None, are edges too. What ties within a bin bend
        falls with the square of the number of bins, and noise with ``strength``: there are 32
        bins, or as many as its root.
        """
        n_bins = 1 << int(np.clip(round(math.log2(strength) / 2), 5, 8))
        below = _parts_below(cells, total)
        between = np.interp(np.arange(1, n_bins - 1) / (n_bins - 1), below, CELL_EDGES)
        edges = np.append(0.5 if thresholds is None else thresholds, special.expit(between))
        edges.sort()
        inside = np.clip(special.logit(edges), CELL_EDGES[0], CELL_EDGES[-1])
        ends = np.concatenate([CELL_EDGES[:1], inside, CELL_EDGES[-1:]])
        reached = np.interp(ends, CELL_EDGES, below)
        parts = reached[:-1, None] + np.diff(reached)[:, None] * _INSIDE
        return cls(edges, np.interp(parts, below, CELL_EDGES))

    @property
    def middles(self) -> np.ndarray:
        """The median probability of each bin, of shape (n_bins,)."""
        return special.expit(np.median(self.points, axis=1))

    def losses(self, noisy: NoisyNumbers) -> np.ndarray:
        """Return the mean log loss and squared error of each label in each bin.

        Parameters
        ----------
        noisy : NoisyNumbers
            Counts of the first label by bin, of the second, and of all others. They say how sure
            probabilities are that should be as sure as the outcomes: which of the records in a bin
            have which label follows from it.

        Returns
        -------
        ndarray of shape (2, 2, n_bins)
            By loss, label and bin.
        """
        offset, factor = recalibration(np.median(self.points, axis=1), noisy)
        raw = offset + factor * self.points
        predicted = special.expit(self.points)
        weights = special.softmax(special.log_expit(np.array([-raw, raw])), axis=2)
        logs = np.logaddexp(0.0, np.array([self.points, -self.points]))
        squares = np.array([predicted, special.expit(-self.points)]) ** 2
        return np.array([(weights * logs).sum(axis=2), (weights * squares).sum(axis=2)])


def joined_bins(edges: np.ndarray, thresholds: np.ndarray | None) -> np.ndarray | None:
    """Return which bin between ``thresholds`` each of the bins between ``edges`` is in."""
    if thresholds is None:
        return None
    return np.searchsorted(thresholds, np.append(edges, np.inf))


def recalibration(raw: np.ndarray, noisy: NoisyNumbers) -> np.ndarray:
    """Return (a, b), so that outcomes have the log odds a + b * raw, about; (0, 1) without data.

    The mean of their posterior distribution, to first order: what noise could be moves them little.
    """
    counts = noisy.values[:-1].reshape(2, -1)
    both = np.maximum(counts.sum(axis=0), 0.0)
    raw = np.clip(raw, -_USUAL, _USUAL)
    u = np.vstack([np.ones_like(raw), raw])
    found = np.array([0.0, 1.0])
    for _ in range(_N_STEPS):
        p = special.expit(found @ u)
        of_counts = np.hstack([-p * u, (1 - p) * u])
        gradient = of_counts @ counts.ravel()
        noise = noisy.covariances(np.pad(of_counts, ((0, 0), (0, 1))))
        curvature = (both * p * (1 - p) * u) @ u.T
        spread = curvature @ _PRIOR @ curvature + noise + curvature
        step = gradient + curvature @ (found - [0.0, 1.0])
        found = [0.0, 1.0] + _PRIOR @ curvature @ np.linalg.pinv(spread, hermitian=True) @ step
        found = np.clip(found, [-3.0, 0.05], [3.0, 3.0])
    return found


def _parts_below(cells, total):
    """Return the part of all records below each edge of a cell, rising.

    Far cells hold records where their noisy sums stand out: a loss there is large.
    """
    sums = np.tri(N_CELLS)
    below = sums @ cells.values
    std = np.sqrt(np.maximum(np.diag(cells.covariances(sums)), 0.0))
    parts = np.clip(below / total, 0.0, 1.0)
    upper = CELL_EDGES[1:]
    parts[(upper < -_USUAL) & np.logical_and.accumulate(below < _STANDS_OUT * std)] = 0.0
    hidden = total - below < _STANDS_OUT * std
    parts[(upper > _USUAL) & np.logical_and.accumulate(hidden[::-1])[::-1]] = 1.0
    below = np.append(0.0, np.maximum.accumulate(parts))
    return below + 1e-9 * np.arange(below.size)  # each is above the last, so it has an inverse
