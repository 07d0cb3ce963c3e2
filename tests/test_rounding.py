"""Room for rounding: a chain of coarse roundings stays within its guarantee, and does not
without the room.
"""

import math

import numpy as np
import pytest
from scipy import special

from skdpdyn.privacy import GaussianDP, last_iterate_mu


def hockey_stick(means, weights, other_means, other_weights, std, epsilon):
    """Return the hockey-stick divergence of two mixtures of normals with one standard deviation,
    by quadrature.
    """
    low, high = (
        min(means.min(), other_means.min()) - 9 * std,
        max(means.max(), other_means.max()) + 9 * std,
    )
    x = np.linspace(low, high, 20_001)
    densities = [
        sum(
            weight * np.exp(-(((x - mean) / std) ** 2) / 2)
            for mean, weight in zip(centres, parts, strict=True)
        )
        for centres, parts in ((means, weights), (other_means, other_weights))
    ]
    scale = (x[1] - x[0]) / (std * math.sqrt(2 * math.pi))
    return max(
        float(np.sum(np.maximum(one - math.exp(epsilon) * other, 0))) * scale
        for one, other in (densities, densities[::-1])
    )


def last_point(steps, offset, grid, shift):
    """Return the law of the last point before its noise: all earlier states are rounded to a
    grid with this offset.
    """
    means, weights = np.array([0.0]), np.array([1.0])
    *earlier, last = steps
    for contraction, sensitivity, std in earlier:
        moved = contraction * means + shift * sensitivity
        cells = np.arange(
            math.floor((moved.min() - 8 * std) / grid),
            math.ceil((moved.max() + 8 * std) / grid) + 1,
        )
        centres = offset + grid * cells
        edges = np.append(centres - grid / 2, centres[-1] + grid / 2)
        law = np.diff(special.ndtr((edges[:, None] - moved) / std), axis=0) @ weights
        means, weights = centres[law > 1e-18], law[law > 1e-18]
    contraction, sensitivity, _ = last
    return grid * np.round((contraction * means + shift * sensitivity) / grid) + offset, weights


@pytest.mark.parametrize("seed", range(6))
def test_coarse_roundings_stay_within_the_declared_loss(seed):
    """States are rounded to grids that differ between the data sets. The law is exact, so
    nothing is left to chance.
    """
    rng = np.random.default_rng(seed)
    n_steps, grid = 4, 0.6
    steps = [(rng.uniform(0.6, 1.0), 0.02, rng.uniform(0.5, 1.0)) for _ in range(n_steps)]
    std = steps[-1][2]
    laws = [
        last_point(steps, offset, grid, shift) for offset, shift in ((0.0, 0.5), (grid / 2, -0.5))
    ]
    columns = [np.array(column) for column in zip(*steps, strict=True)]
    without = last_iterate_mu(*columns)
    room = math.sqrt(sum(((1 + c) * grid / s) ** 2 for c, _, s in steps))  # E = grid / 2
    true = hockey_stick(*laws[0], *laws[1], std, 0.1)
    assert true <= GaussianDP(without + room).delta(0.1)
    assert true > 2 * GaussianDP(without).delta(0.1)
