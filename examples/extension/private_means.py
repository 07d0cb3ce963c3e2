"""Private means of the columns of a table: a statistic that lives outside of skdpdyn."""

import math
from dataclasses import dataclass

import numpy as np

from skdpdyn.core.noise import seed_leaks
from skdpdyn.core.spending import Share, Spending, buying
from skdpdyn.privacy import Budget, Composition
from skdpdyn.privacy.guarantees import Guarantee

MEANS = "column means"


@dataclass(frozen=True, eq=False)
class PrivateMeans:
    """Means of columns, and what they cost."""

    means: np.ndarray
    mechanism_: Composition
    privacy_: Guarantee
    delta_: float
    leaks_: tuple[str, ...]


def private_means(X, bounds, *, epsilon, delta="auto", adjacency="replace_one", random_state=None):
    """Return the means of columns, of cells cut to public bounds (low, high).

    >>> found = private_means([[30.0], [50.0]] * 500, (0, 100), epsilon=1.0)
    >>> round(found.privacy_.epsilon(found.delta_), 6)
    1.0
    """
    X = np.asarray(X, dtype=np.float64)
    (low, high) = bounds
    n, n_columns = X.shape
    budget = Budget.for_samples(epsilon, delta, n_samples=n, adjacency=adjacency)
    inside = np.minimum(np.where(np.isnan(X), low, np.maximum(X, low)), high)
    cells = 2 * (inside - low) / (high - low) - 1
    totals = np.array([math.fsum(column) for column in np.clip(cells, -1, 1).T])
    room = 1 + 4 * n * np.finfo(float).eps  # of rounded sums
    shares = {MEANS: Share(1.0)}
    spending = Spending.seeded(budget, shares, random_state)
    with buying(spending, shares, n) as plan:
        noisy = spending.release(MEANS, totals, spending.per_record * math.sqrt(n_columns) * room)
    means = low + (high - low) * (noisy / n + 1) / 2
    return PrivateMeans(
        means, plan.mechanism, plan.guarantee, budget.delta, seed_leaks(random_state)
    )
