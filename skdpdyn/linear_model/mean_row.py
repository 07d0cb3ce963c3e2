"""Predictions of a mean row, where rows of persons weigh 1/k: a shift that two bought sums tell.

Training makes a mean person's predictions right. Persons with many rows may have another rate, so
that risks of all rows do not add up to what happens. After training a fit buys sums over the rows,
each with the same weight, of residuals and of what they change by, and moves the intercept: by so
much as would make them 0 if all rows had the rate of a mean person.
"""

import math
from dataclasses import replace

import numpy as np

from skdpdyn import rules
from skdpdyn.linear_model.family import Part
from skdpdyn.linear_model.parts import sums_of_rows
from skdpdyn.losses import Loss, sigmoid
from skdpdyn.spending import Share

SUMS_OF_ROWS = "rate of rows"
FARTHEST = 8.0
"""By which factor the rate of rows may be above or below that of persons."""


def _sums_of_rates(raw_prediction, y, out):
    """Write the residual of a row, and twice its curvature."""
    for i in range(y.size):
        p = sigmoid(raw_prediction[0, i])
        out[0, i] = p - y[i]
        out[1, i] = 2.0 * p * (1.0 - p)


SUMS = Loss("rates", _sums_of_rates, lipschitz=1.0, smoothness=1.0, n_outputs=2)
"""Two numbers of a row: no loss, but bounded like one.

The square of their norm is p^2 + 4 p^2 (1 - p)^2 where y = 0, which is 1 at p = 1 and less
elsewhere, since 1 + p >= 4 p^2 (1 - p). Where y = 1 it is its mirror.
"""


class MeanRow(Part):
    """A shift of raw predictions, after which those of all rows add up to what was observed.

    Rows weigh 1/m, m the public limit on the rows of a person, so that a person's sums are of norm
    `SUMS.lipschitz` at most.
    """

    def share(self, request):
        """See `Part.share`."""
        return {SUMS_OF_ROWS: Share(rules.MEAN_ROW_SHARE)} if request.of_rows else {}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if SUMS_OF_ROWS not in spending.shares:
            return
        objective, request, rows = learning.plan.objective, learning.plan.request, learning.rows
        counts = np.diff(rows.persons.first)[rows.persons.owners()]
        alike = replace(learning, rows=rows.weighted_by(counts / rows.most_rows))
        coef, intercept = objective.split(learning.theta)
        coefs = np.vstack([coef, np.zeros_like(coef)])
        known = SUMS_OF_ROWS, SUMS, SUMS.lipschitz, coefs, np.append(intercept, 0.0)
        (residual, bend), std = sums_of_rows(*known, alike, spending)
        shares = request.family.units.weighted(learning, spending)
        rate = shares[1] / shares.sum()
        seen = rate - residual / max(bend / 2, std) * rate * (1 - rate)
        least, most = rate / FARTHEST, 1 - (1 - rate) / FARTHEST
        seen = min(max(seen, least), most, FARTHEST * rate)
        moved = math.log(seen / (1 - seen)) - math.log(rate / (1 - rate))
        learning.theta[-1] += moved / objective.intercept_scaling


MEAN_ROW = MeanRow()
