"""A look at residuals, which chooses the pairs of columns whose products are learnt.

Curves alone are learnt first, for a small part of the budget. Their residuals are summed in the
cells of each pair of columns, in one release. Pairs whose sums stand out of its noise are kept, and
drawn finely; then training begins. All that is bought on the way is Gaussian, and both runs are
charged by their steps: no bound spans the look.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincc

from skdpdyn.core import rules
from skdpdyn.core.expansion import Expansion, Levels
from skdpdyn.core.sealed import Noisy
from skdpdyn.core.spending import ROUNDS_DOWN, TRAINING, Share, Spending, total_of
from skdpdyn.data.lookups import Lookups
from skdpdyn.data.tally import RowTally
from skdpdyn.training.additive import drawn_finely
from skdpdyn.training.parts import (
    ROWS_CURVATURE,
    ROWS_MAP,
    moved_start,
    residual_bound,
    take_tables,
)
from skdpdyn.training.problem import objective_of
from skdpdyn.training.values import Learning, Part, Request

FIRST_RUN = "curves before a look"
RESIDUALS = "look at residuals"
_ALIKE = 0.8  # correlation from which on two columns count as one


class Look(Part):
    """The pairs that are kept: see the module."""

    def share(self, request):
        """See `Part.share`."""
        shares = _shares(_before(request))
        n_releases = sum(share.n_releases for share in shares.values())
        return {
            FIRST_RUN: Share(rules.FIRST_RUN_SHARE, n_releases + 1),
            RESIDUALS: Share(rules.LOOK_SHARE),
        }

    def learn(self, learning, spending):
        """See `Part.learn`."""
        request = learning.plan.request
        if learning.recipe is not request.recipe:  # a base rate takes what is left
            return
        first = _curves(learning, spending)
        sides = [_Side.of(first, j) for j in range(len(first.rows.expansion.columns))]
        pairs = [
            pair
            for pair in request.candidates.pairs
            if sides[pair[0]].parts.size * sides[pair[1]].parts.size <= rules.MOST_LOOKED_AT
        ]
        gains = []
        if pairs:
            sums = _bought_sums(first, [(sides[i], sides[j]) for i, j in pairs], spending)
            spread = request.n_samples * _mean_square(first)
            for total, (i, j) in zip(sums.value, pairs, strict=True):
                chance, gain = energy(total, sums.std, sides[i].parts, sides[j].parts, spread)
                gains.append(gain * (chance * len(pairs) < rules.FALSE_PAIRS))
        _take(_strongest(first, pairs, np.array(gains)), learning)


def _before(request: Request) -> Request:
    """Return the request of the curves before a look: of their part of the budget."""
    tables: Any = request.expansion
    expansion = replace(tables, pairs=(), fine=())
    return replace(
        request,
        expansion=expansion,
        n_features=expansion.n_features,
        budget=request.budget.part(rules.FIRST_RUN_SHARE * ROUNDS_DOWN**2),
    )


def _shares(first: Request) -> dict[str, Share]:
    """Return the shares that curves buy before they are trained."""
    return ROWS_MAP.share(first) | ROWS_CURVATURE.share(first)


def _curves(learning: Learning, spending: Spending) -> Learning:
    """Return curves that were trained for their part of the budget, which is noted."""
    request = _before(learning.plan.request)
    shares = _shares(request)
    training = request.budget.part((1 - total_of(shares.values())) * ROUNDS_DOWN**2)
    plan = replace(
        learning.plan,
        request=request,
        budget=request.budget,
        objective=objective_of(request, training),
        shares=shares,
        training=training,
    )
    first = replace(learning, plan=plan)
    rows: Any = learning.rows
    first.rows = rows.with_expansion(replace(rows.expansion, pairs=(), fine=()))
    first.start = moved_start(learning, plan.objective)
    own = Spending(request.budget, shares, spending.generator)
    own.n_threads = spending.n_threads
    for part in (ROWS_MAP, ROWS_CURVATURE):
        part.learn(first, own)
    record = first.recipe.record(first, own)
    own.note(TRAINING, record)
    first.weigh_classes()
    with closing(first.rows):
        first.train(record, own)
    spent: Any = own.record()
    for name, part in zip(spent.names, spent.mechanisms, strict=True):
        spending.note(f"{FIRST_RUN}: {name}", part)
    return first


class _Side(NamedTuple):
    """A column of a pair: the group of each row, and the part of the records in each group."""

    places: np.ndarray
    parts: np.ndarray

    @classmethod
    def of(cls, first: Learning, j: int) -> "_Side":
        """Return levels as they are, and numbers in groups of about as many records each."""
        rows: Any = first.rows
        expansion = rows.expansion
        parts = np.clip(rows.map.centre[expansion.slices[j]] / expansion.flag(j), 0.0, 1.0)
        groups = np.arange(parts.size)
        if not isinstance(expansion.columns[j], Levels):
            n = rules.GROUPS
            scale = expansion.last_scale(j)
            groups = np.append(np.minimum((scale * n).astype(np.intp), n - 1), n)
            parts = np.append(np.full(n, (1 - parts[-1]) / n), parts[-1])
        return cls(groups[rows.X.codes[:, j]], parts)


def _bought_sums(
    first: Learning, sides: Sequence[tuple[_Side, _Side]], spending: Spending
) -> Noisy:
    """Buy the sums of residuals in the cells of each pair: a list of (n_outputs, size, size)."""
    objective = first.plan.objective
    shapes = [(one.parts.size, other.parts.size) for one, other in sides]
    sizes = [n * m for n, m in shapes]
    places = [
        one.places * m + other.places for (one, other), (_, m) in zip(sides, shapes, strict=True)
    ]
    rows: Any = first.rows
    sealed = RowTally.of(rows).signed(_residuals(first), _limit(first), places, sizes)
    value, std = spending.release(RESIDUALS, sealed)
    by_pair = np.split(value.reshape(objective.n_outputs, -1), np.cumsum(sizes)[:-1], axis=1)
    return Noisy(
        [sums.reshape(-1, *shape) for sums, shape in zip(by_pair, shapes, strict=True)], std
    )


def _limit(first: Learning) -> float:
    """Return the bound on residuals."""
    request = first.plan.request
    return residual_bound(first.plan.objective) if request.bounded else rules.LOOK_LIMIT


def _mean_square(first: Learning) -> float:
    """Return the largest mean square of residuals within their bound: of classes p (1 - p)."""
    return _limit(first) ** 2 * (0.25 if first.plan.request.bounded else 1.0)


def _residuals(first: Learning) -> np.ndarray:
    """Return derivatives of the loss at each row, which follow from it and from public numbers."""
    rows: Any = first.rows
    expansion = rows.expansion
    loss = first.plan.objective.loss
    coef, intercept = first.plan.objective.split(first.theta)
    coef = rows.map.coefficients(coef) / rows.map.norm
    centres = np.column_stack([coef[:, part] @ rows.map.centre[part] for part in expansion.slices])
    weights = np.array([expansion.cells(of_output) for of_output in coef])
    counts = np.ones(expansion.n_cells, dtype=bool)
    tables = Lookups(expansion, rows.map, weights, centres, counts)
    raw = (tables.raw(rows.X.codes.T) + (intercept - tables.constants)).T
    out = np.empty(raw.shape)
    parts = (raw, out) if loss.n_outputs > 1 else (raw[0], out[0])
    loss.residual(np.ascontiguousarray(parts[0]), rows.y, parts[1])
    return (out * rows.common * (rows.exposure if rows.exposure.size else 1.0)).T


class Energy(NamedTuple):
    """How likely noise and chance have so much, and how much a term for each cell gains, about."""

    chance: float
    gain: float


def energy(
    sums: np.ndarray, std: float, parts: np.ndarray, others: np.ndarray, spread: float = 0.0
) -> Energy:
    """Return how much noisy sums in the cells of two columns say beyond each of them.

    Parameters
    ----------
    sums : ndarray of shape (n_outputs, n_cells, n_other_cells)
        The sums.
    std : float
        Deviation of their noise.
    parts, others : ndarray
        Parts of the records in the cells of both columns; rare cells count nowhere.
    spread : float, default=0.0
        Variance that the chance of the sample gives to the sum over all records.

    Returns
    -------
    Energy

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.training.look import energy
    >>> half = np.array([0.5, 0.5])
    >>> crossed = np.array([[[9.0, -9.0], [-9.0, 9.0]]])
    >>> energy(crossed, 1.0, half, half).chance < 1e-9, energy(crossed + 9, 9.0, half, half).gain
    (True, 972.0)
    """
    turned = []
    of_sides = []
    for part in (parts, others):
        seen = part * (part > rules.LEAST_PART)
        seen = seen / max(float(seen.sum()), rules.LEAST_PART)
        turned.append(((seen > 0) * np.eye(part.size)) - np.outer(seen, seen > 0))
        of_sides.append((turned[-1] @ turned[-1].T, turned[-1] * seen @ turned[-1].T))
    # covariances of noise and of chance: each is the product of one of each side
    kinds = [*zip((std**2, spread), *of_sides, strict=True)]
    expected = len(sums) * sum(size * np.trace(a) * np.trace(b) for size, a, b in kinds)
    if not expected > 0:
        return Energy(1.0, 0.0)
    variance = (
        2
        * len(sums)
        * sum(
            size * other * np.sum(a * c) * np.sum(b * d)
            for (size, a, b), (other, c, d) in product(kinds, repeat=2)
        )
    )
    left = float(np.sum((turned[0] @ sums @ turned[1].T) ** 2))
    # a sum of squares of normals, about a gamma law
    chance = gammaincc(expected**2 / variance, left * expected / variance)
    gain = (left - expected) / (np.sum(parts**2) * np.sum(others**2))
    return Energy(float(chance), max(float(gain), 0.0))


def _strongest(
    first: Learning, pairs: Sequence[tuple[int, int]], gains: np.ndarray
) -> dict[tuple[int, int], float]:
    """Return the pairs that gain most, without those that say the same; and their gains."""
    alike = _alike(first)
    kept: dict[tuple[int, int], float] = {}
    for k in np.argsort(-gains, kind="stable"):
        (i, j) = pairs[k]
        if gains[k] > 0 and not any(
            (alike[i, a] and alike[j, b]) or (alike[i, b] and alike[j, a]) for a, b in kept
        ):
            kept[i, j] = float(gains[k])
    return dict(list(kept.items())[: first.plan.request.candidates.most])


def _alike(first: Learning) -> np.ndarray:
    """Return which two columns say about the same, by the released moments of low cosines."""
    expansion = first.rows.expansion
    row_map = first.rows.map
    alike = np.eye(len(expansion.columns), dtype=bool)
    if row_map.is_diagonal:
        return alike
    values, vectors = np.linalg.eigh(row_map.weights.T @ row_map.weights * row_map.radius**2)
    moment = (vectors * np.maximum(1 / values - 1, 0.0)) @ vectors.T
    lowest = {
        j: expansion.slices[j].stop - column.n_flags - max(expansion.n_terms, 1)
        for j, column in enumerate(expansion.columns)
        if not isinstance(column, Levels)
    }
    for (i, a), (j, b) in product(lowest.items(), repeat=2):
        alike[i, j] |= abs(moment[a, b]) > _ALIKE * np.sqrt(moment[a, a] * moment[b, b])
    return alike


def _take(kept: dict[tuple[int, int], float], learning: Learning) -> None:
    """Go on with the products of pairs, in so far as they are not too many."""
    request = learning.plan.request
    # a curve that is finer than records tell is as wrong as one that is finer than noise does
    strength = min(request.strength, request.n_samples / 2)
    expansion = _with_pairs(learning.rows.expansion, kept, strength)
    take_tables(expansion, learning)
    learning.pairs = tuple(pair for pair in kept if pair in expansion.pairs)


def _with_pairs(
    expansion: Expansion, kept: dict[tuple[int, int], float], strength: float
) -> Expansion:
    """Return tables with the products of some pairs more, the strongest of them the finest."""
    orders = rules.orders_of_products(strength, expansion.n_numbers)
    order = expansion.order if expansion.pairs else max(orders, default=expansion.order)
    for n in range(len(kept), 0, -1):
        gains = dict(list(kept.items())[:n])
        pairs = (*gains, *(pair for pair in expansion.pairs if pair not in gains))
        parts = [gains.get(pair, 0.0) / sum(gains.values()) for pair in pairs]
        richer = drawn_finely(replace(expansion, pairs=pairs, order=order), strength, parts)
        if richer.is_mixed:
            return richer
    return expansion


LOOK = Look()
