"""Conditioning: a map of rows that makes all directions alike, learnt for a part of the budget.

Noise on a gradient has the same size in every direction, but data do not. So rows are centred,
their columns (or, with many records, all directions) are brought to one scale, and long rows are
shortened, before a model is trained. Gaussian mechanisms release all that is learnt of the records,
each adaptive on those before it. Together they cost exactly mu^2 = sum of mu_p^2. The shares of
mu^2 are public numbers.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skdpdyn.core import rules
from skdpdyn.core.spending import SEARCH_OCTAVES, SEARCH_RELEASES, Share, Spending
from skdpdyn.data.base import Rows, sum_rounding
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap, mapping_error
from skdpdyn.privacy.guarantees import Adjacency
from skdpdyn.support.blas import one_blas_thread
from skdpdyn.training.sources import Source

__all__ = [
    "LARGEST_SPREAD",
    "Conditioner",
    "FittedConditioning",
    "bounded_spread",
    "learn_curvature",
    "moments_of",
    "private_mean",
    "shares_of",
    "shrunk",
]

RADIUS = "row norms"
MEAN = "column means"
SPREAD = "centred lengths"
DIAGONAL = "column variances"
NORM = "scaled lengths"
MATRIX = "second moments"
MATRIX_NORM = "mapped lengths"
CURVATURE = "curvature"
# relative to the largest variance: scales of columns change by a factor of at most 10,000
_LEAST_VARIANCE = 1e-8
# Largest spread of both stages of a map, which scales follow: a column that is constant, or a
# repeated one, is scaled up no further, for rows would have to be divided by what is beyond
# `LARGEST_SPREAD`
_USEFUL_SPREAD = 256.0
# Largest spread of a map. The norm is raised to keep it, so that sums round little
LARGEST_SPREAD = 1024.0
# Public buckets of columns, for the curvature of sparse and of dense rows. Rows of which all
# directions are alike have a sketch of curvature 1/256, below what noise of the release adds
_SKETCH = 64
_DENSE_SKETCH = 256
_EPS = np.finfo(np.float64).eps
_MEAN_SQUARE = 0.8  # of the length of mapped rows, half of which are shorter than 1


def moments_of(row_map: RowMap) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the released second moments of mapped rows, and their directions; None: columns.

    A map was made of them: w^2 = t / (moment + t).
    """
    if row_map.is_diagonal:
        values = row_map.weights**2
        vectors = None
    else:
        values = np.empty(row_map.n_features)
        vectors = np.zeros((row_map.n_features,) * 2)
        for places in row_map.blocks:
            block = row_map.block(places)
            values[places], vectors[np.ix_(places, places)] = np.linalg.eigh(block @ block.T)
    left = np.clip(1 - values * row_map.radius**2, 0.0, None)
    total = float(np.sum(left))
    return (_MEAN_SQUARE * left / total if total > 0 else left), vectors


@dataclass(frozen=True, eq=False)
class FittedConditioning:
    """The map of rows that a fit used, public once the fit is: all of it was released.

    Rows of norm at most ``radius`` (longer ones are scaled down to it) become ``weights * (x -
    mean)``, or ``weights @ (x - mean)`` for a matrix, and are divided by ``norm``, or by their own
    length if that is more, or if ``unit``.

    It is what was released, so another fit may have it as its ``conditioning``, and buys no map. It
    says by which model, so that the other fit's report and total do.
    """

    row_map: RowMap
    shortened: float | None = None  # part of the rows that is longer, by rule; None: not by rule
    sources: tuple[Source, ...] = field(default=(), repr=False)  # its model, and that one's
    ranges: Ranges | None = None  # that columns come to [-1, 1] by before; None: rows as they are
    mean_std: float | None = None  # noise of each number of `mean`; None: this fit bought none

    @property
    def mean(self) -> np.ndarray | None:
        """Centre that is subtracted from rows, of shape (n_features,); None for nothing."""
        return self.row_map.centre

    @property
    def weights(self) -> np.ndarray:
        """Return weights of columns (n_features,), or a matrix (n_features, n_features)."""
        return self.row_map.weights

    @property
    def norm(self) -> float:
        """Length of weighted rows beyond which they are scaled down."""
        return self.row_map.norm

    @property
    def radius(self) -> float:
        """Largest norm of a row before the map; longer rows are scaled down to it first."""
        return self.row_map.radius

    @property
    def unit(self) -> bool:
        """Whether every weighted row is brought to norm 1, as sparse ones are."""
        return self.row_map.unit


def bounded_spread(rows: Rows) -> Rows:
    """Return the rows with a ``norm`` that keeps the map's spread within `LARGEST_SPREAD`."""
    excess = rows.map.spread / LARGEST_SPREAD
    return rows if excess <= 1 else rows.with_norm(rows.map.norm * excess * (1 + 1e-9))


def can_sum(n_samples: int, n_features: int, most_rows: int = 1) -> bool:
    """Return whether sums over mapped rows can tell one record among so many."""
    try:
        of_terms = 4 * mapping_error(n_features, LARGEST_SPREAD)
        sum_rounding(n_samples, n_features, of_terms, most_rows)
    except ValueError:
        return False
    return True


def shares_of(
    n_samples: int,
    n_features: int,
    mu: float,
    adjacency: Adjacency,
    *,
    is_sparse: bool,
    centred: bool,
    matrix: bool = True,
    smooth: bool = False,
) -> dict[str, Share]:
    """Return the shares of conditioning, from public numbers alone.

    ``smooth``: of expanded rows that are mapped by blocks; they are of public lengths.
    """
    if is_sparse:
        return {DIAGONAL: Share(rules.variances_share(is_sparse))}
    strength = rules.strength_of(n_samples, mu, adjacency)
    lengths = Share(rules.length_share(strength), SEARCH_RELEASES)
    if smooth:
        moments = {MATRIX: Share(rules.MOMENTS_SHARE), MATRIX_NORM: lengths}
        return {MEAN: Share(rules.MEAN_SHARE), SPREAD: lengths, **moments}
    shares = {RADIUS: Share(rules.radius_share(strength), SEARCH_RELEASES)}
    if centred:
        shares |= {MEAN: Share(rules.MEAN_SHARE), SPREAD: lengths}
    shares |= {DIAGONAL: Share(rules.variances_share(is_sparse)), NORM: lengths}
    if matrix and pays_for_matrix(n_samples, n_features, mu, adjacency):
        shares |= {MATRIX: Share(rules.MOMENTS_SHARE), MATRIX_NORM: lengths}
    return shares


def pays_for_matrix(n_samples: int, n_features: int, mu: float, adjacency: Adjacency) -> bool:
    """Return whether records are many enough, and columns few enough, for a full second moment."""
    return rules.strength_of(n_samples, mu, adjacency) >= rules.matrix_strength(n_features)


class _Whitening(NamedTuple):
    """A triangular inverse root of a second moment, and bounds of the rows under it."""

    matrix: np.ndarray
    high: float  # bound on the norm of rows
    moment: float  # about their largest second moment
    alike: float  # that of almost all directions if these are alike, else 0
    least: float | None  # the least that the quantile of norms can be; None: not known


@dataclass(frozen=True)
class Conditioner:
    """Public plan of conditioning, known before it sees a record.

    Parameters
    ----------
    n_samples : int
        Number of records.
    data_norm : float
        Public bound on the norm of a row.
    shares : dict of str to Share
        What each part may take, by its name; parts that are missing are not released.
    quantile : float
        Part of the rows that keep their length.
    threshold : float, default=1.0
        Least second moment of a direction, in standard deviations of the noise (operator norm).
    public_map : RowMap or None, default=None
        A map that is public already.
    softness : float or None, default=None
        What is added to the second moment of each direction, in place of a threshold.
    octaves : float, default=7
        Octaves below ``data_norm`` in which a typical length of rows is looked for.
    nothing : float, default=0.0
        Noise on a second moment, over the mean of all directions, up to which directions that show
        no more than noise are left out of the map: no more could be learnt there.
    """

    n_samples: int
    data_norm: float
    shares: dict[str, Share]
    quantile: float
    threshold: float = 1.0
    public_map: RowMap | None = None
    softness: float | None = None
    octaves: float = SEARCH_OCTAVES
    nothing: float = 0.0

    def learn(self, rows: Rows, spending: Spending) -> Rows:
        """Learn the map of the rows and return them under it; ``spending`` records the cost.

        X is not copied.

        Parameters
        ----------
        rows : Rows
            The rows, without a map.
        spending : Spending
            Buys the statistics and keeps their records.

        Returns
        -------
        Rows
        """
        if self.public_map is not None:
            return bounded_spread(rows.with_map(self.public_map))
        if rows.is_sparse:
            return self._learn_sparse(rows, spending)
        n_features = rows.shape[1]
        radius = self.data_norm
        if RADIUS in self.shares:
            strength = rules.strength_of(self.n_samples, spending.mu, spending.adjacency)
            part = rules.radius_quantile(strength)
            quantile = self._quantile(RADIUS, rows, radius, spending, part, octaves=self.octaves)
            radius = max(quantile, 1e-50)  # the least radius of a map
        mean = None
        unit_weights = np.full(n_features, 1 / radius)
        if MEAN in self.shares:
            mean = private_mean(rows, radius, rows.mass, spending)
        # Lengths in units of the radius from here on, so that they are neither tiny nor huge
        centred = rows.with_map(RowMap(mean, unit_weights, norm=2.0, radius=radius))
        spread = 1.0
        if SPREAD in self.shares:
            least = rules.LEAST_SPREAD if self.softness else None
            spread = self._quantile(SPREAD, centred, 2.0, spending, 0.5, least)
        weighted = centred.with_norm(spread)
        scales = np.ones(n_features)
        norm = spread
        if DIAGONAL in self.shares:
            scales, rms = self._scales(weighted, spending, spread, _USEFUL_SPREAD**-2)
            largest = 2.0 if mean is not None else 1.0
            weighted = rows.with_map(RowMap(mean, scales / radius, norm=largest, radius=radius))
            high = min(largest * float(scales.max()), rules.longest_kept(self.quantile) * rms)
            octaves = _octaves_below(high, rms)
            norm = self._quantile(NORM, weighted, high, spending, self.quantile, octaves=octaves)
            weighted = weighted.with_norm(norm)
        if MATRIX not in self.shares:
            return bounded_spread(weighted)
        whitening = self._matrix(weighted, spending, scales)
        weights = whitening.matrix * (scales / radius)
        high = whitening.high * norm
        moment = whitening.moment * norm**2
        alike = whitening.alike * norm**2
        mapped = rows.with_map(RowMap(mean, weights, high, radius, moment=moment, alike=alike))
        least = None if whitening.least is None else whitening.least * norm
        norm = self._quantile(MATRIX_NORM, mapped, high, spending, self.quantile, least)
        return bounded_spread(mapped.with_norm(norm))

    def _quantile(self, name, rows, high, spending, quantile, least=None, octaves=SEARCH_OCTAVES):
        """Return a quantile of lengths of rows, or of norms without a map, from ``least`` on.

        A sample is enough on the way to the last map, of which steps need all lengths. One
        record moves a count of public places by 1, as it does one of all rows.
        """
        order = MATRIX_NORM, NORM, SPREAD, RADIUS
        last = next(bought for bought in order if bought in self.shares)
        part = math.inf
        n_rows = rows.mass
        if name != last:
            enough = rules.sampled_lengths(spending.noise_multiplier(name), quantile)
            part, n_sampled = rows.sample(enough)
            n_rows *= min(n_sampled / self.n_samples, 1.0)
        quantity = "norms" if rows.map is None else "lengths"
        keep = name == last and rows.map is not None
        counts = partial(rows.counts, quantity, part=part, keep=keep)
        if least is not None:
            octaves = min(max(math.log2(high / least), 0.25), octaves)
        return spending.quantile(name, counts, high, quantile, n_rows, octaves)

    def _scales(self, rows, spending, length=1.0, smallest=_LEAST_VARIANCE):
        """Return column weights, and about the root mean square norm of weighted rows.

        ``length`` is that of the longest row, whose squares the map divides by its own;
        ``smallest`` is the least variance that counts, over the largest.
        """
        squares, noise = spending.release(DIAGONAL, rows.column_squares())
        variances = squares / rows.mass
        std = noise / rows.mass
        least = max(std, smallest * float(variances.max()))
        scales = np.sqrt(least / np.maximum(variances, least))
        return scales, length * math.sqrt(variances.size * least)

    def _matrix(self, rows, spending, scales):
        """Return a triangular inverse root of the second moment, and bounds of its rows.

        ``scales`` are those that columns have already.
        """
        n_features = rows.shape[1]
        inside = True if self.softness is None else rows.expansion.mixed
        total, noise = spending.symmetric(MATRIX, rows.second_moment(), inside)
        moment = total / rows.mass
        std = noise / rows.mass
        if self.softness is not None:
            return self._softened(moment, rows.expansion)
        with one_blas_thread():
            variances, vectors = np.linalg.eigh(moment)
            noise = std * math.sqrt(2 * n_features)  # about its operator norm
            stretched = np.linalg.norm(vectors * scales[:, None], axis=0)  # by columns already
            of_spread = variances.max() * (stretched / scales.min() / _USEFUL_SPREAD) ** 2
            floors = np.maximum(self.threshold * noise, of_spread)
            shown = np.full(n_features, True)
            if noise <= self.nothing * variances.mean():
                shown = variances > noise + (3 * stretched * self._of_centre(rows, spending)) ** 2
            least = float((floors[shown] if shown.any() else floors).min())
            weights = np.where(shown, np.sqrt(least / np.maximum(variances, floors)), 0.0)
            # as good as the symmetric root: noise is the same in every direction
            matrix = np.linalg.qr((vectors * weights).T, mode="r")
        rms = math.sqrt(n_features * least)
        high = min(float(weights.max()) or 1.0, rules.longest_kept(self.quantile) * rms)
        # true without the noise, too; of columns that are all constant no direction is shown
        alike = least * float(shown.any() and np.all((variances >= 2 * floors)[shown]))
        return _Whitening(matrix, high, least, alike, None)

    def _of_centre(self, rows, spending):
        """Return the noise of the rows' centre, in units of their length, which moments have."""
        bought = MEAN in self.shares
        return spending.noise_on_sum(MEAN) / (rows.mass * rows.map.norm) if bought else 0.0

    def _softened(self, moment, expansion):
        """Return the result of `_matrix`, with soft weights in place of a threshold, by block.

        Other products add up over pairs of columns as their lowest ones do.
        """
        matrix = np.zeros_like(moment)
        left = []
        signed = []
        blocks = expansion.blocks
        added = 1.0
        if len(blocks) > 1:
            of_lowest = moment[np.ix_(blocks[1], blocks[1])]
            sizes = np.sqrt(np.maximum(np.diag(of_lowest), 0.0) + self.softness)
            with one_blas_thread():
                together = np.linalg.eigvalsh(of_lowest / np.outer(sizes, sizes))[-1]
            added += max(float(together), 1.0)
        for block in blocks:
            cells = np.ix_(block, block)
            with one_blas_thread():
                eigenvalues, vectors = np.linalg.eigh(moment[cells])
                scales = np.sqrt(self.softness / (np.maximum(eigenvalues, 0.0) + self.softness))
                matrix[cells] = np.linalg.qr((vectors * scales).T, mode="r")
            left.append(np.maximum(eigenvalues, 0.0) * scales**2)
            signed.append(eigenvalues * scales**2)  # noise adds up to nothing
        variances = np.concatenate(left)
        largest = float(variances.max())
        alike = max(float(np.median(variances)), rules.LEAST_ALIKE * largest)
        # Noise may hide all that there is, and rows need a length above 0
        rms = math.sqrt(max(float(np.sum(variances)), self.softness))
        high = min(1.0, rules.longest_kept(self.quantile) * rms)
        surely = rules.LEAST_LENGTH * math.sqrt(max(float(np.sum(np.concatenate(signed))), 1e-12))
        return _Whitening(matrix, high, added * largest, alike, surely)

    def _learn_sparse(self, rows, spending):
        n_features = rows.shape[1]
        radius = self.data_norm
        plain = rows.with_map(
            RowMap(None, np.full(n_features, 1 / radius), norm=1.0, radius=radius)
        )
        scales, _ = self._scales(plain, spending)
        return rows.with_map(RowMap(None, scales / radius, norm=1.0, radius=radius, unit=True))


def learn_curvature(rows: Rows, intercept_scaling: float, spending: Spending) -> float:
    """Estimate the largest eigenvalue of the mean of outer(z, z) over mapped rows.

    Only step sizes depend on it, and no guarantee. With sparse rows, and with more columns than a
    matrix is bought of, it is the eigenvalue of a sketch, in the unit ball too, whose columns are
    sums of columns with public signs. Two standard deviations are added.

    Parameters
    ----------
    rows : Rows
        The rows, with their map.
    intercept_scaling : float
        Constant of the intercept column; 0 for none.
    spending : Spending
        Buys the eigenvalue and keeps its record.

    Returns
    -------
    float
    """
    largest = 1 + intercept_scaling**2
    n_samples = rows.n_records
    moment = (
        rows.sketched_moment(projection(rows.shape[1], rows.is_sparse), intercept_scaling)
        if rows.is_sparse or rows.shape[1] > rules.MOST_MATRIX_COLUMNS
        else rows.second_moment(intercept_scaling)
    )
    top, std = spending.release(CURVATURE, moment.largest_eigenvalue(n_samples))
    estimate = top / n_samples + 2 * std / n_samples
    # the intercept column's own curvature
    least = max(intercept_scaling**2 * rows.mass / n_samples, 1 / n_samples)
    return float(min(largest, max(estimate, least)))


def _octaves_below(high, rms):
    """Return in how many octaves below ``high`` a length of rows is looked for."""
    return max(SEARCH_OCTAVES, math.log2(2 * high / rms))


def projection(n_features, is_sparse):
    """Return the public map of columns into buckets, by public signs.

    Signs and buckets of neighbours have nothing in common, as a steep direction may have one sign.
    """
    hashed = np.arange(n_features, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashed = (hashed ^ (hashed >> np.uint64(shift))) * np.uint64(factor)
    hashed >>= np.uint64(31)
    n_buckets = _SKETCH if is_sparse else _DENSE_SKETCH
    signs = 1.0 - 2.0 * ((hashed >> np.uint64(8)) & np.uint64(1)).astype(np.float64)
    buckets = (hashed % np.uint64(n_buckets)).astype(np.int64)
    cells = signs, (np.arange(n_features), buckets)
    return sparse.csr_array(cells, shape=(n_features, n_buckets))


def private_mean(rows: Rows, radius: float, n_samples: float, spending: Spending) -> np.ndarray:
    """Return a private mean of rows of norm up to ``radius``, shrunk as `shrunk` says."""
    total, std = spending.release(MEAN, rows.column_sums(radius))
    return shrunk(total / n_samples, std / n_samples, radius)


def shrunk(mean: np.ndarray, noise_std: float, radius: float) -> np.ndarray:
    """Shrink a noisy mean to where a mean can be, and towards 0 the more of it is noise.

    James and Stein (1961).
    """
    square = float(mean @ mean)
    noise = max(0, mean.size - 2) * noise_std**2
    keep = max(0.0, 1 - noise / square) if square > noise else 0.0
    return mean * min(keep, radius / math.sqrt(square)) if keep else np.zeros_like(mean)
