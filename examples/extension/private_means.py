"""Private means of the columns of a table: a statistic that lives outside of skdpdyn."""

from dataclasses import dataclass

import numpy as np

from skdpdyn.core.noise import seed_leaks
from skdpdyn.core.spending import Share, Spending, buying
from skdpdyn.data.tally import RowTally
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
    n = len(X)
    budget = Budget.for_samples(epsilon, delta, n_samples=n, adjacency=adjacency)
    cells = 2 * (np.clip(X, low, high) - low) / (high - low) - 1  # NaN counts as low
    totals = RowTally(n).columns(cells)
    shares = {MEANS: Share(1.0)}
    spending = Spending.seeded(budget, shares, random_state)
    with buying(spending, shares, n) as plan:
        noisy, _ = spending.release(MEANS, totals)
    means = low + (high - low) * (noisy / n + 1) / 2
    return PrivateMeans(
        means, plan.mechanism, plan.guarantee, budget.delta, seed_leaks(random_state)
    )
