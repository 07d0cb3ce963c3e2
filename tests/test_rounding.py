"""Room for rounding: a chain of coarse roundings stays within its guarantee, and does not
without the room.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse, special

from skdpdyn.data import chunks
from skdpdyn.data.chunks import in_order
from skdpdyn.data.local import LocalRows
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.kernels import batches, descent, sums
from skdpdyn.kernels.passes import Gradients
from skdpdyn.losses import squared
from skdpdyn.objective import Objective
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


# --- sums -----------------------------------------------------------------------------------------


def lost_half(n_terms, eps):
    """Terms each of which an ordinary sum loses: a little less than half of what 1 can tell."""
    return [1.0] + [0.49 * eps] * (n_terms - 1)


def cancelling(n_terms, eps, seed=0):
    """Large terms of either sign, what is left of which is small."""
    rng = np.random.default_rng(seed)
    large = rng.standard_normal(n_terms // 2) * 2.0 ** rng.integers(0, 8, n_terms // 2)
    return rng.permutation(
        np.concatenate([large, -large * (1 + eps * rng.normal(size=large.size))])
    )


def distance(total, terms):
    """Distance of a sum from the exact one, over u times the sum of magnitudes."""
    exact = sum(map(Fraction, terms))
    return float(abs(Fraction(float(total)) - exact) / sum(abs(Fraction(one)) for one in terms))


@pytest.mark.parametrize("terms", [lost_half, cancelling])
def test_a_sum_keeps_what_additions_round_away(terms):
    """In exact fractions. An ordinary sum of the first kind loses nearly all but the first."""
    eps = np.finfo(np.float64).eps
    numbers = [float(one) for one in terms(2000, eps)]
    total = sums.Total(())
    for one in numbers:
        total.add(one)
    assert distance(total.value(), numbers) <= in_order(0, 2000) * eps / 2
    if terms is lost_half:
        assert distance(sum(numbers), numbers) > 100 * in_order(0, 2000) * eps / 2


@pytest.mark.parametrize("terms", [lost_half, cancelling])
@pytest.mark.parametrize("n_terms", [4, 30, 300, 1500])
def test_the_bound_holds_where_digits_are_few(terms, n_terms, monkeypatch):
    """In half precision, of eleven bits, what is kept rounds as well: the square of the number."""
    eps = float(np.finfo(np.float16).eps)
    monkeypatch.setattr(chunks, "_EPS", eps)
    add, settle = (getattr(one, "py_func", one) for one in (sums.add, sums.settle))
    for seed in range(3):
        drawn = terms(n_terms, eps, seed) if terms is cancelling else terms(n_terms, eps)
        numbers = np.array(drawn).astype(np.float16)
        total = np.zeros((2, 1), np.float16)
        for one in numbers:
            add(total, np.array([one]))
        settle(total)
        assert total.dtype == np.float16
        bound = in_order(0, n_terms) * eps / 2
        assert distance(total[0, 0], numbers.astype(float)) <= bound


N, D = 1024, 16


class OfArrays(StreamedRows):
    """Rows of arrays, a few at a time."""

    def __init__(self, X, y):
        super().__init__(X.shape)
        self._arrays = X, y

    def read(self):
        X, y = self._arrays
        for first in range(0, N, 100):
            yield X[first : first + 100], y[first : first + 100]


def descended(layout, n_threads):
    def total(objective, X, y):
        theta, rows = np.zeros(D), LocalRows(layout(X), y)
        schedule = np.ones(1), np.zeros(1), math.inf, np.random.default_rng(0)
        descent.descend(theta, objective, rows, *schedule, n_threads)
        return theta * -N  # a power of 2

    return total


def in_one_batch(layout):
    def total(objective, X, y):
        theta = np.zeros(D)
        batches.descend_on_batches(
            theta,
            objective,
            LocalRows(layout(X), y),
            batches=batches.FixedBatches(N),
            divisor=float(N),
            step_size=np.ones(1),
            noise_std=np.zeros(1),
            radius=math.inf,
            generator=np.random.default_rng(0),
        )
        return theta * -N

    return total


def passed(source, n_threads):
    def total(objective, X, y):
        rows = source(X, y)
        what = Gradients.of(objective, rows, with_room=False)
        with rows.gradient_sums(what, n_threads) as gradient:
            order, n_weights = what.layout()
            zeros = np.zeros(n_weights), np.zeros(1), np.zeros(1)
            return gradient(*zeros)[order[:D]]

    return total


WHO = {
    "descent": descended(np.asarray, 1),
    "two threads": descended(np.asarray, 2),
    "descent, sparse": descended(sparse.csr_array, 1),
    "batches": in_one_batch(np.asarray),
    "batches, sparse": in_one_batch(sparse.csr_array),
    "pass": passed(LocalRows, 1),
    "pass, two threads": passed(LocalRows, 2),
    "streamed": passed(OfArrays, 1),
}


@pytest.mark.parametrize("who", WHO)
def test_whoever_adds_up_chunks_keeps_what_is_rounded_away(who, monkeypatch):
    """Each chunk adds what an ordinary sum would lose: 63 chunks, dozens of roundings."""
    monkeypatch.setattr(chunks, "_MIN_CHUNK", 16)
    monkeypatch.setattr("skdpdyn.kernels.csr.MOST_GATHERED", 16)
    monkeypatch.setattr("skdpdyn.kernels.dense._GATHERED_BYTES", 16 * D * 8)
    eps = np.finfo(np.float64).eps
    X = np.zeros((N, D))
    X[0] = 0.125
    X[16:] = 0.49 * 0.125 * eps / 16  # of 16 rows, the sum is exact
    terms = [0.125] + [X[-1, 0]] * (N - 16)
    # the gradient at 0 is the sum of the rows
    objective = Objective(squared, N, D, 1.0, clip=10.0)
    for total in WHO[who](objective, X, -np.ones(N)):
        assert distance(total, terms) <= in_order(0, 64) * eps / 2


def test_sums_for_conditioning_keep_what_is_rounded_away(monkeypatch):
    """As above, of 64 blocks in four chunks."""
    monkeypatch.setattr("skdpdyn.data.base.block_size", lambda n_features: 64)
    monkeypatch.setattr("skdpdyn.data.base._MOST_MOMENT_CHUNKS", 4)
    monkeypatch.setattr("skdpdyn.data.local.block_size", lambda n_features: 16)
    eps = np.finfo(np.float64).eps
    X = np.zeros((N, 2))
    X[0] = 0.125
    X[16:] = 0.49 * 0.125 * eps / 16
    terms = [0.125] + [X[-1, 0]] * (N - 16)
    for total in LocalRows(X).column_sums():
        assert distance(total, terms) <= 2 * in_order(0, 64) * eps / 2
