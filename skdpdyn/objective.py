"""The regularised empirical risk as public constants: what privacy needs to know of a problem, and nothing measured on it."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from skdpdyn.losses import Loss

_EPS = np.finfo(np.float64).eps
_LEAST_SINGLE = 1e-18  # bound of gradients: times eps it is more than what a row of norm 2e19 makes of the least float32, 1e-45


@dataclass(frozen=True)
class Objective:
    """``(1/n) sum_i loss(raw prediction of row i, y_i) + (alpha/2) |theta|^2``, the intercept included in theta.

    Rows are scaled into the ball of radius ``data_norm``; with an intercept, a column of constant ``intercept_scaling`` is
    appended (never materialised), so that every row has norm at most ``row_norm``. A clipped loss gradient is that of another
    convex loss with the same smoothness, as long as the loss has a single output.

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
    """

    loss: Loss
    n_samples: int
    n_features: int
    data_norm: float
    alpha: float = 0.0
    clip: float = math.inf
    intercept_scaling: float = 0.0

    @property
    def row_norm(self):
        """Bound B on the norm of a row with its intercept column."""
        return math.hypot(self.data_norm, self.intercept_scaling)

    @property
    def n_outputs(self):
        """Number of raw predictions of a row."""
        return self.loss.n_outputs

    @property
    def n_parameters(self):
        """Number of coefficients, with the intercepts: all coefficients of the first output, of the next, then the intercepts."""
        return self.n_outputs * (self.n_features + (self.intercept_scaling > 0))

    @property
    def lipschitz(self):
        """Bound L on the norm of one record's loss gradient."""
        return min(self.loss.lipschitz * self.row_norm, self.clip)

    @property
    def curvature(self):
        """Bound on the curvature of one record's loss, without the regulariser."""
        return self.loss.smoothness * self.row_norm**2

    @property
    def tolerable_noise(self):
        """Noise in raw predictions that training may end with, see `skdpdyn.privacy.schedules.curvature_aware_time`.

        Where only clipping bounds a residual, by c in half-ranges of the target, sqrt(c): between the scale of the residuals that
        count in full and that of the targets.
        """
        bounded = math.isfinite(self.loss.lipschitz)
        return 1.0 if bounded else min(1.0, math.sqrt(self.clip / self.row_norm))

    @property
    def contracts(self):
        """Whether a short gradient step is a contraction: clipping several outputs at once is the gradient of no convex loss."""
        return self.n_outputs == 1 or self.clip >= self.loss.lipschitz * self.row_norm

    @property
    def smoothness(self):
        """Bound beta on the curvature of one record's regularised loss; None where a step is not known to contract."""
        return self.curvature + self.alpha if self.contracts else None

    @property
    def strong_convexity(self):
        """Curvature that every record's regularised loss has at least."""
        return self.alpha

    def minimiser_norm(self, slope=0.0):
        """Bound on the norm of the minimiser of this risk plus a linear term of at most this slope; needs ``alpha`` > 0.

        There the gradient is 0, so that alpha norm is at most L + slope. And the risk, strongly convex, is at least
        alpha norm^2 / 2 below that at 0, of which the penalty takes as much again: alpha norm^2 is at most the loss at zero +
        slope norm. Clipping, which makes derivatives smaller, makes no loss fall further.
        """
        falls = math.sqrt(slope**2 + 4 * self.alpha * self.loss.at_zero)
        return min(self.lipschitz + slope, (slope + falls) / 2) / self.alpha

    def split(self, theta):
        """Coefficients (n_outputs, n_features) and intercepts (n_outputs,) of a parameter vector."""
        n_outputs = self.loss.n_outputs
        coef, column = np.split(theta, [n_outputs * self.n_features])
        intercept = column * self.intercept_scaling if column.size else np.zeros(n_outputs)
        return coef.reshape(n_outputs, self.n_features), intercept

    def sensitivity(self, adjacency):
        """S/n: how far one record moves the gradient of the empirical risk."""
        return adjacency.sum_sensitivity(self.lipschitz) / self.n_samples

    def unclamped(self):
        """The same problem for kernels that must follow it to the last digit, with another way to allow for rounding.

        `bound_rows` keeps back a part of every residual's bound. For a single output that makes another convex loss of it, but a
        softmax clamped even a little is the derivative of none. A bound far from the supremum never clamps.
        """
        if self.n_outputs == 1:
            return self
        return replace(self, loss=replace(self.loss, lipschitz=2 * self.loss.lipschitz), clip=math.inf)

    @property
    def allows_single(self):
        """Whether a descent may sum gradients of float32 rows in that precision.

        Not where a bound needs the contraction, see `skdpdyn.solvers._descent`, and not gradients so small that what the longest
        rows, of norm 2e19, are multiplied by could fall below the normal numbers, where rounding is no longer relative. Nor
        where clipping alone bounds a residual: that of a tiny row could be beyond the largest number.
        """
        return not self.contracts and self.lipschitz >= _LEAST_SINGLE and math.isfinite(self.loss.lipschitz)

    def bound_rows(self, X, n_chunks=64, dtype=None, aligned=True):
        """Factor of each row that brings it into the ball, and bound of (the norm of) each row's residual.

        Both leave room for rounding, so that the sensitivity of the *computed* sum of gradients stays within `sensitivity`. A sum
        of gradients of norm at most L rounds by its own norm times eps/2 at most, and so does each product and what it multiplies
        a row by: a block of 32 rows, in any order, by less than 300 eps L, a chunk of m rows by m^2/4 eps L, the sum of c chunks
        of n rows by (c + 1) n/4 eps L; two runs, by twice that. Partial sums of one output or of several round alike. Changing a
        row changes the rounding of its own block, of the float64 sums of its chunk, and of the sum of the chunks, nothing else.
        But a record that joins a batch moves the rows that follow, and every block and every chunk rounds anew.

        Parameters
        ----------
        X : ndarray or CSR array of shape (n_samples, n_features)
            The rows.
        n_chunks : int, default=64
            Largest number of chunks of equal size, each of its rows summed one after the other.
        dtype : dtype, default=None
            Precision that blocks are summed in; None for that of X.
        aligned : bool, default=True
            Whether every row is summed at the same place with a record and without it.

        Returns
        -------
        row_scale, residual_bound : ndarray of shape (n_samples,)
        """
        norms = row_norms(X)
        row_scale = row_factors(norms, self.data_norm, X)
        with np.errstate(divide="ignore"):
            residual_bound = np.minimum(self.clip / np.hypot(row_scale * norms, self.intercept_scaling), self.loss.lipschitz)
        return row_scale, residual_bound * (1 - self._allowance(dtype or X.dtype, n_chunks, aligned))

    def make_room(self, X, noise_std, n_chunks=64, dtype=None, aligned=True):
        """What `bound_rows` returns, and noise, with room for rounding where it does no harm.

        In the residual's bound, or where a clamped residual would be no contraction, in the noise.

        Parameters
        ----------
        X : ndarray or CSR array of shape (n_samples, n_features)
            The rows.
        noise_std : ndarray of shape (n_steps,)
            Standard deviation of the noise of each step.
        n_chunks : int, default=64
            Largest number of chunks of equal size, each of its rows summed one after the other.
        dtype : dtype, default=None
            Precision that blocks are summed in; None for that of X.
        aligned : bool, default=True
            Whether every row is summed at the same place with a record and without it.

        Returns
        -------
        bounded_rows : tuple of ndarray of shape (n_samples,)
        noise_std : ndarray of shape (n_steps,)
        """
        if self.n_outputs > 1 and self.contracts:
            more_noise = noise_std * (1 + self._allowance(dtype or X.dtype, n_chunks, aligned))
            return self.unclamped().bound_rows(X, n_chunks, dtype, aligned), more_noise
        return self.bound_rows(X, n_chunks, dtype, aligned), noise_std

    def _allowance(self, dtype, n_chunks, aligned):
        """Part of the sensitivity that rounding may add, see `bound_rows`."""
        chunk = self.n_samples / n_chunks + 16
        n_blocks, n_moved = (1, chunk) if aligned else (self.n_samples / 32 + n_chunks, self.n_samples)
        double_sums = n_moved * chunk + n_chunks * self.n_samples
        allowance = 640 * np.finfo(dtype).eps * n_blocks + double_sums * _EPS
        if not allowance < 0.5:
            raise ValueError(f"n_samples={self.n_samples}: sums in float64 cannot tell one record among so many")
        return float(allowance)

    def gradient_rounding(self, norm, n_terms, n_summed):
        """Bound on the distance between a mean of loss gradients computed in float64 and the exact one.

        A raw prediction rounds by the number of its terms times eps norm(row) norm(theta) at the most, in whatever order they are
        added; a residual by its curvature times that, and by its own evaluation. A sum of m vectors rounds by m^2/4 eps L, as in
        `bound_rows`, and each of them by a few eps L.

        Parameters
        ----------
        norm : float
            Norm of theta.
        n_terms : int
            Largest number of terms of a raw prediction.
        n_summed : int
            Number of vectors that are summed in order.

        Returns
        -------
        float
        """
        largest = self.row_norm * norm
        raw = (n_terms + 8) * largest
        residual = self.loss.smoothness * raw + (16 + 2 * self.n_outputs) * (1 + largest)
        return _EPS * (residual * self.row_norm + (8 + n_summed / 4) * self.lipschitz)


def canonical_rows(X):
    """X itself, or for a CSR array with duplicate or unsorted entries, or parts that are not contiguous, a copy without them."""
    if not sparse.issparse(X):
        return X
    parts = X.data, X.indices, X.indptr
    contiguous = all(part.flags.c_contiguous for part in parts)
    # A new array looks at the entries; X itself may remember how they were before someone wrote to them.
    looked_at = sparse.csr_array(tuple(map(np.ascontiguousarray, parts)), shape=X.shape)
    if contiguous and looked_at.has_canonical_format:
        return X
    if not looked_at.has_canonical_format:
        looked_at = looked_at.copy()
        looked_at.sum_duplicates()
    return looked_at


def row_norms(X):
    """Euclidean norm of each row of an array or a CSR array, in float64 and without a copy of X.

    Raises
    ------
    ValueError
        If a row is too large for its norm to be computed. That is a precondition on every single row, like being finite.
    """
    with np.errstate(over="ignore"):
        squares = _squared_norms(canonical_rows(X)) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    if not np.all(squares <= np.finfo(X.dtype).max):
        raise ValueError(
            f"X holds rows whose norm exceeds {math.sqrt(np.finfo(X.dtype).max):.2g}, the largest that {X.dtype} can train on: "
            "rescale X"
        )
    return np.sqrt(squares)


def _squared_norms(X, slab=1 << 14):
    """Squared norms of CSR rows, a slab of rows at a time."""
    squares = np.zeros(X.shape[0])
    for first in range(0, X.shape[0], slab):
        edges = X.indptr[first : first + slab + 1]
        values = X.data[edges[0] : edges[-1]].astype(np.float64)
        filled = np.flatnonzero(np.diff(edges))  # reduceat takes an empty row for one value
        if filled.size:
            squares[first + filled] = np.add.reduceat(values**2, edges[filled] - edges[0])
    return squares


def row_factors(norms, data_norm, X):
    """Factor of each row of X that scales it into the ball of radius ``data_norm``, whatever the rounding of its norm."""
    radius = data_norm * (1 - (X.shape[1] + 16) * _EPS)
    return radius / np.maximum(norms, radius)
