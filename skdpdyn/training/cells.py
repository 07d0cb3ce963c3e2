"""Noisy counts of targets in octaves of their distance from a centre, and what follows from them.

All of it is post-processing of one release: limits of residuals, and units.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpdyn.core.spending import Spending
from skdpdyn.data.base import Rows
from skdpdyn.kernels import asked

N_OCTAVES = 14
"""Cells on each side of the centre: targets in [-1, 1] are within 2, the first cell ends at 2^-12.
"""
SEEN = 3.0  # deviations of the noise from which on a cell is more than noise
_NEARLY_ALL = 0.8  # of the targets, which are at one place then
_MOST = 0.6  # part of the mean distance that a scale hides, from which on it is widened
_LEFT_OUT = 0.15  # part of it that a wide unit leaves out, before it has some room
_ROOM = 1.6
_STEPS = 4  # limits that are tried in an octave
_ENDS = 2.0 ** np.arange(2 - N_OCTAVES, 2)
_STARTS = np.append(0.0, _ENDS[:-1])
_MIDDLES = _ENDS / math.sqrt(2)
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
    centre : float
        What distances are from.
    """

    counts: np.ndarray
    std: float
    n_samples: float
    centre: float

    @classmethod
    def bought(cls, name: str, rows: Rows, centre: float, spending: Spending) -> "TargetCells":
        """Buy the counts of targets around a centre."""
        octaves = rows.with_target(centre, 1.0).octave_counts("targets")
        counts, std = spending.release(name, octaves.merged(_cells(), 2 * N_OCTAVES))
        return cls(counts.reshape(2, -1), std, rows.mass, centre)

    @property
    def seen(self) -> np.ndarray:
        """Counts that stand out of the noise, as parts of all targets; others are 0."""
        return np.where(self.counts > SEEN * self.std, self.counts, 0.0) / self.n_samples

    @property
    def farthest(self) -> float:
        """The distance from the centre to the farther bound of targets."""
        return 1 + abs(self.centre)

    @property
    def at_one_place(self) -> bool:
        """Whether nearly all targets are in one cell."""
        return float(self.counts.max()) > _NEARLY_ALL * self.n_samples

    def spread(self) -> float:
        """Return the root mean square of the distances that are seen; 0 of none."""
        sizes = self.seen.sum(axis=0)
        return math.sqrt(float(sizes @ _MIDDLES**2) / max(float(sizes.sum()), 1e-300))

    def unit_of_few(self, scale: float) -> float:
        """Return a unit that holds most targets beyond a scale; 0 where that hides little.

        Distances are from the cell of the median, for nearly all targets are in it.
        """
        sizes = np.concatenate([self.seen[1, ::-1], self.seen[0]])
        places = np.concatenate([-_MIDDLES[::-1], _MIDDLES])
        median = int(np.searchsorted(np.cumsum(sizes), sizes.sum() / 2))
        distances = np.abs(places - places[median])
        distances[median] = 0.0

        def hidden(limit):
            return float(np.maximum(distances - limit, 0.0) @ sizes)

        whole = hidden(0.0)
        if not hidden(scale) > _MOST * whole:
            return 0.0
        return _ROOM * next(float(end) for end in _ENDS if hidden(end) <= _LEFT_OUT * whole)

    def limits(self, noise: float) -> "Limits":
        """Return the limits on targets of which bias and noise are least.

        The bias is what is seen beyond each, with as much as noise may hide; ``noise`` is that of
        a mean, over half of the limits' distance. Beyond the bounds of targets there is nothing.
        """
        most = 1 + self.centre * np.array([-1.0, 1.0])  # above, and below
        ends = np.minimum(_ENDS, most[:, None])
        far = beyond(_ENDS)
        unseen = self.std * np.linalg.norm(far, axis=1)
        bias = (np.maximum(self.counts @ far.T, 0.0) + unseen) / self.n_samples
        bias[ends < _ENDS] = 0.0
        both = bias[0][:, None] + bias[1]
        half = (ends[0][:, None] + ends[1]) / 2
        above, below = np.unravel_index(np.argmin(both**2 + (noise * half) ** 2), half.shape)
        low = -max(float(ends[1, below]), 1e-9)
        high = max(float(ends[0, above]), 1e-9)
        return Limits(low, high, noise * (high - low) / 2, self.hidden(low, high))

    def hidden(self, low: float, high: float) -> float:
        """Return how far the mean of targets cut at these limits may be off, as far as is seen."""
        most = 1 + self.centre * np.array([-1.0, 1.0])
        limits = np.array([high, -low])
        far = np.where(limits[:, None] < most[:, None], beyond(limits), 0.0)
        off = self.std * float(np.linalg.norm(far))
        above, below = np.maximum(np.sum(far * self.counts, axis=1), 0.0)
        return (abs(float(above - below)) + off) / self.n_samples

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

    def distance_of(self, part: float) -> float:
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
    last = asked.N_OCTAVES // 2 - 1  # of each sign, which is no number
    sign, exponent = np.divmod(np.arange(asked.N_OCTAVES), last + 1)
    cell = np.clip(exponent - (1024 - N_OCTAVES), 0, N_OCTAVES - 1)
    return np.where(exponent == last, -1, sign * N_OCTAVES + cell)


class Limits(NamedTuple):
    """Limits on targets less their centre, the noise of a mean, and how far it may be off."""

    low: float
    high: float
    noise: float
    hidden: float


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
