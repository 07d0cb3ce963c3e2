"""A public map of rows, learnt before training, that acts on each row by itself."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from skdpdyn.data.rows import ball_of, numbers_of_rows
from skdpdyn.kernels.asked import Ball
from skdpdyn.privacy.checks import checked_number
from skdpdyn.support.stored import FieldsAlone

_EPS = np.finfo(np.float64).eps
_LARGEST_ERROR = 1e-3  # largest rounding error of a mapped row
_ZERO = 1e-140  # rows of a smaller norm, whose square may not be a normal number, count as zero


def mapping_error(n_features: int, spread: float) -> float:
    """Return `RowMap.error` for this number of columns and this spread."""
    return (2 * n_features + 32) * _EPS * spread


@dataclass(frozen=True, eq=False)
class RowMap(FieldsAlone):
    """Map each row x into the unit ball: W (factor x - centre), divided by its norm or by ``norm``.

    The factor brings the row into the ball of radius ``radius``. The divisor is the larger of
    ``norm`` and the norm of W (factor x - centre), so that mapped rows have norm at most 1, also
    after rounding. A mapped row is thus ``scale * (W x) - offset * (W centre)`` with two numbers
    for each row, see `factors`, and nothing has to be copied to train on mapped rows.

    The map is public: it is chosen without the data, or is a function of what was released before.

    Parameters
    ----------
    centre : ndarray of shape (n_features,) or None
        Vector that is subtracted from each row; None for nothing. Sparse rows have no centre.
    weights : ndarray of shape (n_features,) or (n_features, n_features)
        Diagonal of W, or W itself.
    norm : float
        Rows that are longer than this after W are divided by their own norm, others by this.
    radius : float
        Radius of the ball that rows are scaled into first: the public ``data_norm``.
    unit : bool, default=False
        Whether to divide every row by its own norm, so that all but zero rows have norm 1.
        Needs a diagonal W and no centre.
    moment : float, default=inf
        About the largest second moment of rows in any direction, after W and before any division,
        where that is known. It decides how long steps are, and no more.
    alike : float, default=0.0
        About the second moment that the rows which the map was learnt from are known to have in all
        directions but few, of expanded rows in half of them, after W and before any division; 0:
        not known. It decides how long training lasts, and no more.

    Raises
    ------
    ValueError
        If a parameter has no such shape, is not finite, or if ``norm`` is so small beside the rows
        that rounding would matter.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.data.row_map import RowMap
    >>> centre, weights = np.array([1.0, 0.0]), np.array([1.0, 0.5])
    >>> row_map = RowMap(centre, weights, norm=2.0, radius=5.0)
    >>> scale, offset, norms = row_map.factors(np.array([[2.0, 2.0], [4.0, 8.0]]))
    >>> scale.round(6).tolist(), offset.round(6).tolist(), norms.round(6).tolist()
    ([0.5, 0.218796], [0.5, 0.391394], [0.707107, 1.0])
    """

    centre: np.ndarray | None
    weights: np.ndarray
    norm: float
    radius: float
    unit: bool = False
    moment: float = math.inf
    alike: float = 0.0

    def __post_init__(self):
        weights = _frozen(self.weights, "weights")
        if weights.ndim not in (1, 2) or weights.size == 0 or len(set(weights.shape)) > 1:
            raise ValueError(
                f"weights has shape {weights.shape}: give a vector, or a square matrix"
            )
        object.__setattr__(self, "weights", weights)
        if self.centre is not None:
            centre = _frozen(self.centre, "centre")
            if centre.shape != (len(weights),):
                raise ValueError(
                    f"centre has shape {centre.shape}: give one number for each of "
                    f"{len(weights)} columns"
                )
            object.__setattr__(self, "centre", centre)
        for name in ("norm", "radius"):
            requirement = "a number from 1e-50 to 1e50"
            checked_number(getattr(self, name), name, lambda x: 1e-50 <= x <= 1e50, requirement)
        if self.unit and (self.centre is not None or weights.ndim == 2):
            raise ValueError("unit=True needs a vector of weights and centre=None")
        if not self.error <= _LARGEST_ERROR:
            raise ValueError(
                f"norm={self.norm!r} is too small beside rows of norm up to {self.radius!r}: "
                "rounding would matter. Raise norm"
            )

    def __getstate__(self):
        """Return the fields, with the numbers of a matrix that are not 0."""
        state = super().__getstate__()
        if not self.is_diagonal:
            is_set = self.weights != 0
            state["weights"] = np.packbits(is_set), self.weights[is_set], len(self.weights)
        return state

    def __setstate__(self, state):
        """Restore the state that `__getstate__` returned."""
        weights = state["weights"]
        if isinstance(weights, tuple):
            places, numbers, size = weights
            weights = np.zeros((size, size))
            weights[np.unpackbits(places, count=size**2).reshape(size, size) == 1] = numbers
            state = state | {"weights": _frozen(weights, "weights")}
        super().__setstate__(state)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.weights)

    @property
    def is_diagonal(self) -> bool:
        """Whether W is diagonal."""
        return self.weights.ndim == 1

    def block(self, places: np.ndarray) -> np.ndarray:
        """Return the part of W, as a matrix, of the features at these places."""
        if self.is_diagonal:
            return np.diag(self.weights[places])
        return self.weights[np.ix_(places, places)]

    @cached_property
    def _parts(self):
        """Places of each block, a slice where they are all, and the block."""
        blocks = self.blocks
        if len(blocks) == 1:
            return [(slice(None), self.weights)]
        return [(places, self.block(places)) for places in blocks]

    @cached_property
    def blocks(self) -> list[np.ndarray]:
        """Places of features that a matrix W mixes with one another, and with no others."""
        if np.all((self.weights[0] != 0) | (self.weights[:, 0] != 0)):  # all with the first
            return [np.arange(self.n_features)]
        n_blocks, of_features = connected_components(sparse.csr_array(self.weights), directed=False)
        places = np.argsort(of_features, kind="stable")
        return np.split(places, np.cumsum(np.bincount(of_features, minlength=n_blocks))[:-1])

    @property
    def is_exact(self) -> bool:
        """Whether numbers are only multiplied, so that each rounds relative to itself."""
        return self.is_diagonal and self.centre is None

    @cached_property
    def spread(self) -> float:
        """Bound on the norm of the parts of a mapped row, whose difference the row is; at least 1.

        The parts are norm(W) norm(scale x) + norm(W) norm(offset centre). Sums over mapped rows are
        differences of sums of the parts, and round as these do. Coordinates that are only
        multiplied round by themselves: there it is 1. As products round by their sizes, the norm is
        that of the matrix of sizes of W, at most the root of its 1-norm times its infinity-norm.
        """
        if self.is_exact:
            return 1.0
        largest = float(np.max(np.abs(self.weights)))
        if not self.is_diagonal:
            sizes = [np.abs(block) for _, block in self._parts]
            of_sums = (max(float(np.max(size.sum(axis=k))) for size in sizes) for k in (0, 1))
            largest = math.sqrt(math.prod(of_sums))
        length = self.radius + (0.0 if self.centre is None else float(np.linalg.norm(self.centre)))
        return max(1.0, largest * length / self.norm) * (1 + 4 * self.n_features * _EPS)

    @property
    def error(self) -> float:
        """Bound on the rounding of a mapped row and of its norm.

        A norm of d terms rounds by d eps/2 at most, a product with a matrix by d eps/2 times
        the norms of what is multiplied, see `spread`, and the few other operations by eps/2 each.
        """
        return mapping_error(self.n_features, self.spread)

    def moves_like(self, other: "RowMap") -> bool:
        """Return whether the other map differs in ``norm`` alone, or not at all."""
        same = np.array_equal(self.weights, other.weights) and self.radius == other.radius
        return same and np.array_equal(self.centre, other.centre)  # type: ignore[arg-type]  # None

    def check(self, n_features: int, is_sparse: bool) -> None:
        """Refuse rows that this map is not of.

        Parameters
        ----------
        n_features : int
            Their number of columns.
        is_sparse : bool
            Whether they are CSR arrays.
        """
        if n_features != self.n_features:
            raise ValueError(f"X has {n_features} columns: the map is of {self.n_features}")
        if is_sparse and self.centre is not None:
            raise ValueError("X is sparse, and a centre would make it dense: use centre=None")

    def ball(self, X) -> Ball:
        """Return the numbers of this map as kernels read them, for rows of the precision of X."""
        below = () if self.is_diagonal else np.tril(self.weights, -1)
        unit = _ZERO if self.unit else 0.0
        full = float(np.any(below))
        ball = ball_of(X, self.radius)
        return ball._replace(norm=self.norm, shrink=1 - self.error, unit=unit, full=full)

    def factors(self, X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the numbers of each row: mapped it is ``scale * (W x) - offset * (W centre)``.

        Parameters
        ----------
        X : ndarray or CSR array of shape (n_samples, n_features)
            The rows, a few of which are mapped at a time. CSR rows are canonical.

        Returns
        -------
        scale : ndarray of shape (n_samples,)
        offset : ndarray of shape (n_samples,) or (0,)
            Empty if there is no centre.
        norms : ndarray of shape (n_samples,)
            Norms of the mapped rows, rounded up; at most 1.

        Raises
        ------
        ValueError
            If X is sparse and there is a centre, or if X has another number of columns.
        LongRows
            If a row is too long for its norm to be squared, see `skdpdyn.data.rows.in_reach`.
        """
        return self.divided(*self.lengths(X))

    def lengths(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return the factor of each row and the norm of W (factor x - centre), before any division.

        A length is a function of its own row alone, to the last bit.

        Parameters
        ----------
        X : ndarray or CSR array of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        factor : ndarray of shape (n_samples,)
        lengths : ndarray of shape (n_samples,)
        """
        self.check(X.shape[1], sparse.issparse(X))
        return numbers_of_rows(X, self.ball(X), self.centre, self.weights)

    def divided(
        self, factor: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return `factors` from the answer of `lengths`, which does not depend on ``norm``.

        Both arrays are written over.
        """
        from skdpdyn.kernels.statistics import compiled_divide

        norms = np.empty(factor.size)
        unit = _ZERO if self.unit else 0.0
        compiled_divide()(
            factor, lengths, norms, self.norm, 1 - self.error, self.error, self.is_exact, unit
        )
        return factor, lengths if self.centre is not None else np.empty(0), norms

    def coefficients(self, coef: np.ndarray) -> np.ndarray:
        """Return W' coef, which multiplies rows of X before ``scale``.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features)
            Coefficients of mapped rows.

        Returns
        -------
        ndarray of shape (n_outputs, n_features)
        """
        if self.is_diagonal:
            return coef * self.weights
        of_rows = np.empty_like(coef)
        for places, block in self._parts:  # BLAS depends on threads
            of_rows[:, places] = np.einsum("kj,jl->kl", coef[:, places], block)
        return of_rows

    def shift(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the constant of raw predictions beside their dot products, before ``offset``.

        Parameters
        ----------
        coefficients : ndarray of shape (n_outputs, n_features)
            Coefficients that `coefficients` returned.

        Returns
        -------
        ndarray of shape (n_outputs,)
        """
        if self.centre is None:
            return np.zeros(len(coefficients))
        return -np.einsum("kj,j->k", coefficients, self.centre)

    def pull_back(self, sums: np.ndarray, offset_sums: np.ndarray) -> np.ndarray:
        """Return the gradient in coefficients of mapped rows, W (sums - centre offset_sums).

        Parameters
        ----------
        sums : ndarray of shape (n_outputs, n_features)
            Sums over rows of residual * scale * x.
        offset_sums : ndarray of shape (n_outputs,)
            Sums over rows of residual * offset.

        Returns
        -------
        ndarray of shape (n_outputs, n_features)
        """
        if self.centre is not None:
            sums = sums - offset_sums[:, None] * self.centre
        if self.is_diagonal:
            return sums * self.weights
        of_coef = np.empty_like(sums)
        for places, block in self._parts:
            of_coef[:, places] = np.einsum("kl,jl->kj", sums[:, places], block)
        return of_coef


def _frozen(array, name):
    """Return a C-ordered float64 copy that nobody can write to."""
    array = np.array(array, dtype=np.float64, order="C")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must hold finite numbers only")
    array.flags.writeable = False
    return array


def scaled_csr(rows, factor, weights=None):
    """Return CSR rows times ``factor``, their columns times ``weights``, in float64."""
    values = rows.data * np.repeat(factor, np.diff(rows.indptr))
    if weights is not None:
        values *= weights[rows.indices]
    return sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
