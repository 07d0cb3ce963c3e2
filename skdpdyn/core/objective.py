"""The regularised empirical risk as public constants: nothing in it was measured on the data."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from skdpdyn.core.losses import Loss
from skdpdyn.privacy import Adjacency

_EPS = np.finfo(np.float64).eps
# bound of gradients: times eps it is more than what a row of norm 2e19 makes of the least float32,
# 1e-45
_LEAST_SINGLE = 1e-18


def row_norm_of(data_norm: float, intercept_scaling: float) -> float:
    """Return the bound on the norm of a row with its intercept column."""
    return math.hypot(data_norm, intercept_scaling)


def n_parameters_of(loss: Loss, n_features: int, intercept_scaling: float) -> int:
    """Return the number of coefficients, with the intercepts."""
    return loss.n_outputs * (n_features + (intercept_scaling > 0))


@dataclass(frozen=True)
class Objective:
    """The regularised empirical risk: ``mean loss + (alpha/2) |theta|^2``, intercept included.

    Rows are scaled into the ball of radius ``data_norm``; with an intercept, a column of constant
    ``intercept_scaling`` is appended (never materialised), so that every row has norm at most
    ``row_norm``. A clipped loss gradient is that of another convex loss with the same smoothness,
    as long as the loss has a single output.

    Parameters
    ----------
    loss : Loss
        The loss.
    n_samples, n_features : int
        Public numbers of records and columns.
    data_norm : float
        Bound on the norm of a row.
    alpha : float, default=0.0
        Strength of the regulariser, the strong convexity.
    clip : float, default=inf
        Bound on the norm of one record's loss gradient; ``inf`` for none.
    intercept_scaling : float, default=0.0
        Constant of the appended column; 0 for no intercept.
    spread : float, default=1.0
        Public bound on `RowMap.spread` of the map that rows go through, by which sums round more.
        1: none.
    most_rows : int, default=1
        Public bound on the number of rows of one record. More than one where a record is a person,
        whose rows have weights that add up to at most 1.
    exact : bool, default=False
        Whether each sum of gradients pays for itself: then rows leave room for its rounding, see
        `LocalRows.bounded`. Otherwise the budget pays for rounding.
    start_norm : float, default=0.0
        Public bound on the norm of where training starts, which penalty and projection are around.
        0: training starts at 0.
    residuals : bool, default=False
        Whether sums are of derivatives of the loss alone: a row then counts as its intercept
        column.
    """

    loss: Loss
    n_samples: int
    n_features: int
    data_norm: float
    alpha: float = 0.0
    clip: float = math.inf
    intercept_scaling: float = 0.0
    spread: float = 1.0
    most_rows: int = 1
    exact: bool = False
    start_norm: float = 0.0
    residuals: bool = False

    @cached_property
    def row_norm(self) -> float:
        """Bound B on the norm of a row with its intercept column."""
        return row_norm_of(0.0 if self.residuals else self.data_norm, self.intercept_scaling)

    @property
    def n_outputs(self) -> int:
        """Number of raw predictions of a row."""
        return self.loss.n_outputs

    @cached_property
    def n_parameters(self) -> int:
        """Number of parameters: coefficients of each output in turn, then the intercepts."""
        return n_parameters_of(self.loss, self.n_features, self.intercept_scaling)

    @cached_property
    def lipschitz(self) -> float:
        """Bound L on the norm of one record's loss gradient."""
        return min(self.loss.lipschitz * self.row_norm, self.clip)

    @property
    def curvature(self) -> float:
        """Bound on the curvature of one record's loss, without the regulariser."""
        return self.loss.smoothness * self.row_norm**2

    @property
    def trace(self) -> float:
        """Bound on the trace of one record's Hessian, without the regulariser."""
        return self.loss.trace * self.row_norm**2  # type: ignore[operator]  # Loss has set it

    @property
    def typical(self) -> float:
        """Curvature of the loss of a raw prediction that training times are reckoned by."""
        return self.loss.typical or self.loss.smoothness

    @property
    def tolerable_noise(self) -> float:
        """Noise in raw predictions that training may end with, see `curvature_aware_time`.

        If only clipping bounds a residual, by c half-ranges of the target, it is sqrt(c): between
        the scale of unclipped residuals and the scale of the targets.
        """
        bounded = math.isfinite(self.loss.lipschitz)
        return 1.0 if bounded else min(1.0, math.sqrt(self.clip / self.row_norm))

    @property
    def contracts(self) -> bool:
        """Whether a short gradient step is a contraction."""
        is_whole = self.clip >= self.loss.lipschitz * self.row_norm
        return self.n_outputs == 1 or (is_whole and not self.loss.clipped)

    @property
    def n_together(self) -> int:
        """Number of outputs that are learnt together."""
        return 1 if self.loss.separate else self.n_outputs

    @property
    def n_at_once(self) -> int:
        """Number of parameters that are learnt together."""
        return self.n_parameters * self.n_together // self.n_outputs

    @property
    def smoothness(self) -> float | None:
        """Bound on the curvature of one record's loss; None if no contraction is known."""
        return self.curvature + self.alpha if self.contracts else None

    @property
    def strong_convexity(self) -> float:
        """Curvature that every record's regularised loss has at least."""
        return self.alpha

    def minimiser_norm(self, slope: float = 0.0) -> float:
        """Bound the norm of the minimiser with a linear term of this slope; needs ``alpha`` > 0.

        The gradient there is 0, so alpha norm is at most L + slope. By strong convexity the risk
        there is at least alpha norm^2 / 2 below the risk at 0, and the penalty is alpha norm^2 / 2:
        so alpha norm^2 is at most the loss at zero + slope norm. Clipping makes derivatives
        smaller, so no loss falls further.
        """
        falls = math.sqrt(slope**2 + 4 * self.alpha * self.loss.at_zero)
        return min(self.lipschitz + slope, (slope + falls) / 2) / self.alpha

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split a parameter vector into coefficients and intercepts."""
        n_outputs = self.loss.n_outputs
        coef, column = np.split(theta, [n_outputs * self.n_features])
        intercept = column * self.intercept_scaling if column.size else np.zeros(n_outputs)
        return coef.reshape(n_outputs, self.n_features), intercept

    def sensitivity(self, adjacency: Adjacency, divisor: int | None = None) -> float:
        """Return S/n, the largest change of the gradient of the empirical risk by one record.

        ``divisor``: what sums of gradients are divided by, in place of n.
        """
        return adjacency.sum_sensitivity(self.lipschitz) / (divisor or self.n_samples)

    def unclamped(self) -> Self:
        """Return a copy without clipping; extra noise covers rounding.

        `LocalRows.bounded` keeps back a part of every residual's bound. For a single output that
        makes another convex loss of it, but a softmax clamped even a little is the derivative of
        none. A bound far from the supremum never clamps.
        """
        if self.n_outputs == 1:
            return self
        return replace(
            self, loss=replace(self.loss, lipschitz=2 * self.loss.lipschitz), clip=math.inf
        )

    @property
    def allows_single(self) -> bool:
        """Whether a descent may sum gradients of float32 rows in that precision.

        No, if a bound needs the contraction, see `skdpdyn.solvers.steps`. No, if gradients are so
        small that factors of the longest rows, of norm 2e19, could be subnormal, where rounding is
        not relative. No, if only clipping bounds a residual: the residual of a tiny row could
        overflow.
        """
        return (
            not self.contracts
            and self.lipschitz >= _LEAST_SINGLE
            and math.isfinite(self.loss.lipschitz)
        )

    def gradient_rounding(self, norm: float, n_terms: float, n_summed: float) -> float:
        """Bound the distance of a mean of loss gradients in float64 from the exact one.

        A raw prediction rounds by the number of its terms times eps norm(row) norm(theta) at the
        most, in whatever order they are added; a residual by its curvature times that, and by its
        own evaluation, see ``Loss.rounding``. A sum of m vectors whose weights add up to w rounds
        by m w eps/2 L at the most, and each of them by a few eps L.

        Parameters
        ----------
        norm : float
            Norm of theta, less where training starts.
        n_terms : int
            Largest number of terms of a raw prediction.
        n_summed : int
            Number of vectors that are summed in order.

        Returns
        -------
        float
        """
        if self.spread > 1:
            largest = self.loss.lipschitz
            if self.intercept_scaling:
                largest = min(largest, self.clip / self.intercept_scaling)
            parts = replace(
                self, spread=1.0, data_norm=self.data_norm * self.spread, clip=largest * self.spread
            )
            return parts.gradient_rounding(norm, n_terms + 3 * self.n_features, n_summed)
        largest = self.row_norm * (norm + self.start_norm)
        raw = (n_terms / 2 + 8 + (self.start_norm > 0)) * largest  # the start is added
        evaluation = self.loss.rounding
        if evaluation is None:
            evaluation = (16 + 2 * self.n_outputs) * max(1.0, self.loss.smoothness) * (1 + largest)
        residual = self.loss.smoothness * raw + evaluation
        return _EPS * (residual * self.row_norm + (9 + n_summed / 2) * self.lipschitz)
