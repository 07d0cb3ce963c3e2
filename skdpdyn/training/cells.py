"""Noisy counts of targets in octaves of their distance from a centre, and what follows from them.

All of it is post-processing of one release: limits of residuals, and units.
"""

from dataclasses import dataclass

import numpy as np

from skdpdyn.core.spending import Spending
from skdpdyn.data.base import Rows
from skdpdyn.kernels import statistics

N_OCTAVES = 14
"""Cells on each side of the centre: targets in [-1, 1] are within 2, the first cell ends at 2^-12.
"""
SEEN = 3.0  # deviations of the noise from which on a cell is more than noise
_STEPS = 4  # limits that are tried in an octave
_ENDS = 2.0 ** np.arange(2 - N_OCTAVES, 2)
_STARTS = np.append(0.0, _ENDS[:-1])
_LIMITS = 2.0 ** (np.arange(_STEPS * (N_OCTAVES - 1) + 1) / _STEPS + 2 - N_OCTAVES)


@dataclass(frozen=True, eq=False)
class TargetCells:
    """Noisy counts of targets above a centre and below it, from the nearest to the farthest cell.

    Attributes
    ----------
    counts : ndarray of shape (2, N_OCTAVES)
        Counts above, and below.
    std : float
        Standard deviation of their noise.
    n_samples : float
        Number of all targets, or the sum of their weights.
    """

    counts: np.ndarray
    std: float
    n_samples: float

    @classmethod
    def bought(cls, name: str, rows: Rows, spending: Spending) -> "TargetCells":
        """Buy the counts of targets around 0."""
        octaves = rows.octave_counts("targets")
        counts, std = spending.release(name, octaves.merged(_cells(), 2 * N_OCTAVES))
        return cls(counts.reshape(2, -1), std, rows.mass)

    @property
    def seen(self) -> np.ndarray:
        """Counts that stand out of the noise, as parts of all targets; others are 0."""
        return np.where(self.counts > SEEN * self.std, self.counts, 0.0) / self.n_samples

    def limit(self, strength: float, cost: float) -> float:
        """Return the limit on distances with the least bias and noise; 1 where nothing is seen.

        The bias is the mean distance beyond it, and the noise ``cost`` times the limit over the
        strength. Where nothing lies beyond, a limit may be as large as the bounds of targets.
        """
        seen = self.seen
        if not seen.any():
            return 1.0
        excess = beyond(_LIMITS) @ seen.sum(axis=0)
        return float(_LIMITS[np.argmin(excess**2 + (cost * _LIMITS / strength) ** 2)])

    def quantile(self, part: float) -> float:
        """Return a distance that this part of the targets is within, if spread evenly in cells."""
        outside = (1 - part) * self.n_samples
        sizes = self.counts.sum(axis=0)
        farther = 0.0
        for k in range(N_OCTAVES - 1, 0, -1):
            size = max(float(sizes[k]), 0.0)
            if farther + size >= outside:
                return float(_ENDS[k] - (_ENDS[k] - _STARTS[k]) * (outside - farther) / size)
            farther += size
        return float(_ENDS[0])


def _cells():
    """Return the cell of each octave of `Rows.octave_counts`, those above the centre first."""
    last = statistics.N_OCTAVES // 2 - 1  # of each sign, which is no number
    sign, exponent = np.divmod(np.arange(statistics.N_OCTAVES), last + 1)
    cell = np.clip(exponent - (1024 - N_OCTAVES), 0, N_OCTAVES - 1)
    return np.where(exponent == last, -1, sign * N_OCTAVES + cell)


def beyond(limits: np.ndarray) -> np.ndarray:
    """Return how far distances in each cell are beyond limits, in the mean, if spread evenly.

    Returns
    -------
    ndarray of shape (n_limits, N_OCTAVES)

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.training.cells import beyond
    >>> beyond(np.array([0.5, 1.0, 1.5]))[:, -2:].tolist()
    [[0.25, 1.0], [0.0, 0.5], [0.0, 0.125]]
    """
    end = np.maximum(_ENDS - limits[:, None], 0.0)
    start = np.maximum(_STARTS - limits[:, None], 0.0)
    return (end**2 - start**2) / (2 * (_ENDS - _STARTS))
