"""Fisher scoring with noise: gradients and curvatures of a likelihood, bought step by step."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import null_space

from skdpdyn.core.losses import IDENTITY, LOG, LOGIT, Link
from skdpdyn.core.rules import (
    CURVATURE_SHARES,
    CUT_SHARE,
    DISPERSION_SHARE,
    GRADIENT_SHARES,
    LEFT_OUT_SHARE,
    LIMIT_SHARE,
    LOOK_SHARES,
    MEASURED_CUT_SHARE,
    MOST_BIAS,
    SCORES_SHARE,
    START_SHARE,
    most_row_curvature,
    room_of_curvature,
    room_to_grow,
    strength_of,
)
from skdpdyn.core.sealed import Noisy
from skdpdyn.core.spending import SEARCH_RELEASES, Share, Spending, scaled_to
from skdpdyn.data.local import LocalRows
from skdpdyn.inference.directions import (
    Coordinates,
    Inverse,
    Moment,
    inverted,
)
from skdpdyn.inference.scored import ScoredRows, bounded
from skdpdyn.support.blas import one_blas_thread
from skdpdyn.training.counts import base_rate, shares_of_rate

START = "class counts"
DISPERSION = "mean square"
SCORES = "scores"
LIMIT = "residuals {}"
CUT = "cut {}"
GRADIENT = "gradient {}"
LOST = "weight lost"
LEFT_OUT = "squares left out"
# What rows lose of squared predictions counts up to this many of their variance
MOST_SQUARE = 12.0
CURVATURE = "curvature {}"
# Residuals are cut off at this many times their 95 % quantile, 3.9 standard deviations of normal
# ones; counts at 2 at least
LIMIT_QUANTILE = 0.95
BEYOND = 2.0
DEVIATIONS = 3.9
LEAST_COUNT = 2.0
_SEEN = 4.0  # deviations of the noise from which on a cell is more than noise: 2 in 10,000 looks
_JOINED = 1.5  # the same of a cell that joins those within the limit, as tails do
# A row's curvature counts up to that of as many usual ones; then noise on gradients may have this
# variance over that of what it hides, since curvature no longer tells where noise is small
RARE = 5.0
MOST_NOISE = 5.25
# or may move coordinates of parameters by this, which is as little as where an outcome of 2 % in
# 20,000 records has that variance: residuals of counts that vary much have wide limits
MOST_MOVED = 0.15
# Noise on the covariance of scores over their mean variance, beyond which it adds to errors
LARGEST_VARIANCE_NOISE = 0.25
_MOST_RAW = 700.0  # of which exp is finite


class Likelihood(ABC):
    """Residuals and curvatures of raw predictions, with public bounds of both.

    ``n_outputs`` is the number of raw predictions of a row, ``n_averaged`` that of the last steps
    whose estimates are averaged. ``limits`` and ``measures`` say whether limits of residuals are
    bought, and their mean square; ``link`` which expectations raw predictions of one output stand
    for; ``ratio`` what the exponential of a coefficient is;
    ``start_shares`` what start is bought by. ``gradients`` and ``curvatures`` are parts of mu^2, a
    step each; after the last curvature it is the same.
    """

    n_outputs = 1
    n_averaged = 2
    limits = False
    measures = False
    ratio: str | None = None
    link: ClassVar[Link]
    gradients: tuple[float, ...] = GRADIENT_SHARES
    curvatures: tuple[float, ...] = CURVATURE_SHARES
    start_shares: Mapping[str, Share] = MappingProxyType({})

    def start(self, rows: LocalRows, spending: Spending) -> tuple[np.ndarray, float]:
        """Return raw predictions of shape (n_outputs,) to start from, bought.

        And a row's curvature there; infinite where it is not looked at.
        """
        return np.zeros(self.n_outputs), math.inf

    @abstractmethod
    def limit(self, residuals: np.ndarray, rows: LocalRows, buy: Callable) -> float:
        """Return the bound on the norm of a row's residuals, known or found by ``buy``."""

    @abstractmethod
    def residuals(self, raw: np.ndarray, rows: LocalRows) -> np.ndarray:
        """Return derivatives of the loss by raw predictions, of shape (n_rows, n_outputs)."""

    @abstractmethod
    def curvature(self, raw: np.ndarray, rows: LocalRows) -> Callable:
        """Return a function of two outputs: second derivatives, of shape (n_rows,)."""

    @abstractmethod
    def largest_curvature(self, limit: float) -> float:
        """Return a bound on the Frobenius norm of a row's second derivatives."""

    def usual_part(self, usual: float) -> float:
        """Return the part of the largest curvature that a usual row's is; 0 where not known."""
        return 0.0

    def dispersion(self, mean_square: float | None) -> float:
        """Return the variance of scores over the curvature."""
        return 1.0

    def spread(self, limit: float) -> float:
        """Return how far raw predictions may be moved by noise; infinite where links bound it."""
        return math.inf


@dataclass(frozen=True)
class ClassLikelihood(Likelihood):
    """Labels of ``n_classes`` classes; raw predictions are log odds against the first.

    ``counts`` are noisy counts of them, where they were bought with the labels. Otherwise ``count``
    buys them.
    """

    n_classes: int
    counts: Noisy | None = field(default=None, compare=False)
    count: Callable[[Spending], Noisy] | None = field(default=None, compare=False)

    @property
    def n_outputs(self):
        """One less than the classes."""
        return self.n_classes - 1

    ratio = "odds ratio"
    link = LOGIT

    @property
    def start_shares(self):
        """See `Likelihood`: counts of classes are bought once."""
        return {} if self.counts is not None else {START: Share(START_SHARE)}

    def start(self, rows, spending):
        """See `Likelihood.start`: of noisy counts, none below the noise."""
        counts, std = self.count(spending) if self.counts is None else self.counts
        noisy = np.maximum(counts, std)
        shares = noisy / noisy.sum()
        usual = shares[0] * shares[1] if self.n_outputs == 1 else math.inf
        return np.log(noisy[1:] / noisy[0]), usual

    def limit(self, residuals, rows, buy):
        """See `Likelihood.limit`."""
        return 1.0 if self.n_outputs == 1 else math.sqrt(2)

    def _probabilities(self, raw, rows):
        top = np.maximum(raw.max(axis=1), 0)[:, None]
        odds = exponentials(raw - top, rows)
        return odds / (odds.sum(axis=1)[:, None] + exponentials(-top, rows))

    def residuals(self, raw, rows):
        """See `Likelihood.residuals`."""
        return self._probabilities(raw, rows) - (rows.y[:, None] == np.arange(1, self.n_classes))

    def curvature(self, raw, rows):
        """See `Likelihood.curvature`."""
        p = self._probabilities(raw, rows)
        return lambda a, b: p[:, a] * ((a == b) - p[:, b])

    def largest_curvature(self, limit):
        """See `Likelihood.largest_curvature`.

        With s = sum p^2, the squared norm of diag(p) - pp' is s - 2 sum p^3 + s^2, at most s (1 -
        s) since sum p^3 >= s^2 (Jensen). The rows of other classes are a part of it.
        """
        return 0.25 if self.n_outputs == 1 else 0.5

    def usual_part(self, usual):
        """See `Likelihood.usual_part`: of two classes, of which rows are cut at a multiple."""
        return min(max(4 * usual, 1 / RARE), 1.0) if self.n_outputs == 1 else 0.0


@dataclass(frozen=True)
class CutLikelihood(Likelihood):
    """Residuals without a bound, which are cut off at a multiple of a private quantile."""

    least: float
    largest: float

    limits = True

    def limit(self, residuals, rows, buy):
        """See `Likelihood.limit`."""
        distances = rows.with_numbers(np.abs(residuals[:, 0]))
        distances.exposure = np.empty(0)
        distances.common = 1.0
        counts = partial(distances.counts, "distances")
        quantile = buy(counts, self.largest / BEYOND, LIMIT_QUANTILE, rows.mass, octaves=10)
        return max(BEYOND * quantile, self.least)


def exponentials(numbers: np.ndarray, rows: LocalRows) -> np.ndarray:
    """Return exponentials, of persons' rows one by one: numpy may round by an element's place."""
    if rows.persons is None:
        return np.exp(numbers)
    each = map(math.exp, numbers.ravel().tolist())
    return np.fromiter(each, np.float64, numbers.size).reshape(numbers.shape)


def _exposure(rows):
    return rows.exposure if rows.exposure.size else rows.common


@dataclass(frozen=True)
class CountLikelihood(CutLikelihood):
    """Counts beside exposures, in units of ``unit``; raw predictions are logarithms of rates."""

    unit: float
    has_exposure: bool

    ratio = "rate ratio"
    link = LOG

    @property
    def start_shares(self):
        """See `Likelihood`."""
        scale = Share(START_SHARE, SEARCH_RELEASES)
        return shares_of_rate(START_SHARE, scale, self.has_exposure)

    def start(self, rows, spending):
        """See `Likelihood.start`."""
        exposure = None if self.has_exposure else rows.common
        rate, mean = base_rate(rows, rows.mass, self.largest, spending, exposure)
        return np.log([rate]), mean

    def _means(self, raw, rows):
        return _exposure(rows) * exponentials(np.minimum(raw[:, 0], _MOST_RAW), rows)

    def residuals(self, raw, rows):
        """See `Likelihood.residuals`."""
        return (self._means(raw, rows) - rows.y * _exposure(rows))[:, None]

    def curvature(self, raw, rows):
        """See `Likelihood.curvature`: the mean."""
        means = self._means(raw, rows)
        return lambda a, b: means

    def largest_curvature(self, limit):
        """See `Likelihood.largest_curvature`: of counts the mean is the squared deviation."""
        return (limit / 2) ** 2 * self.unit

    def dispersion(self, mean_square):
        """See `Likelihood.dispersion`."""
        return 1 / self.unit


@dataclass(frozen=True)
class NumberLikelihood(CutLikelihood):
    """Numbers in [-1, 1]; the loss is half of the squared error."""

    n_averaged = 3
    measures = True
    link = IDENTITY
    gradients = (0.04, 0.1, 0.25, 0.5)
    curvatures = (0.1,)  # the curvature is the same everywhere

    def residuals(self, raw, rows):
        """See `Likelihood.residuals`."""
        return raw - rows.y[:, None]

    def curvature(self, raw, rows):
        """See `Likelihood.curvature`."""
        ones = np.ones(len(raw))
        return lambda a, b: ones

    def largest_curvature(self, limit):
        """See `Likelihood.largest_curvature`."""
        return 1.0

    def usual_part(self, usual):
        """See `Likelihood.usual_part`: it is the same for all rows."""
        return 1.0

    def spread(self, limit):
        """See `Likelihood.spread`: a deviation of normal residuals."""
        return limit / DEVIATIONS

    def dispersion(self, mean_square):
        """See `Likelihood.dispersion`."""
        return mean_square


def shares_of_scoring(
    likelihood: Likelihood, left: float, intercept: bool, robust: bool
) -> dict[str, Share]:
    """Return the shares of scoring within the part ``left`` of mu^2."""
    parts = dict(likelihood.start_shares) if intercept else {}
    last = len(likelihood.gradients) - 1
    cuts = LOOK_SHARES | {last: MEASURED_CUT_SHARE if likelihood.measures else CUT_SHARE}
    for k, gradient in enumerate(likelihood.gradients):
        if likelihood.limits:
            parts |= {LIMIT.format(k): Share(LIMIT_SHARE, SEARCH_RELEASES)}
            parts |= {CUT.format(k): Share(cuts[k])} if k in cuts else {}
        parts |= {GRADIENT.format(k): Share(gradient)}
        parts |= {
            CURVATURE.format(k): Share(curvature) for curvature in likelihood.curvatures[k : k + 1]
        }
    parts |= {LOST: Share(CUT_SHARE)}
    parts |= {LEFT_OUT: Share(LEFT_OUT_SHARE)} if likelihood.measures and intercept else {}
    parts |= {DISPERSION: Share(DISPERSION_SHARE)} if likelihood.measures else {}
    parts |= {SCORES: Share(SCORES_SHARE)} if robust else {}
    return scaled_to(parts, left)


def _times(weights, of_outputs, a, b):
    return weights * of_outputs(a, b)


def least_limit(edges: np.ndarray, noisy: Noisy, mass: float, noise: float) -> float:
    """Return the limit of least bias and noise, of those that bias the last gradient little.

    Parameters
    ----------
    edges : ndarray of shape (n_cells + 1,)
        Ends of cells of residuals, from the limit on.
    noisy : Noisy
        Counts in these cells, and the deviation of their noise.
    mass : float
        Number of all records.
    noise : float
        Deviation of the noise on the last gradient, over the limit.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.core.sealed import Noisy
    >>> from skdpdyn.inference.scoring import least_limit
    >>> edges = 2.0 ** (np.arange(7) / 2)
    >>> round(least_limit(edges, Noisy(np.array([90.0, 20, 80, 60, 3, 0]), 10.0), 1e4, 5.0), 2)
    4.0
    """
    counts, std = noisy
    # a tail goes on: cells between those that stand out count, and what is just behind them
    firm = np.flatnonzero(counts > _SEEN * std)
    n_seen = firm[-1] + 2 if firm.size else 0
    n_seen += np.count_nonzero(np.logical_and.accumulate(counts[n_seen:] > _JOINED * std))
    seen = np.where(np.arange(counts.size) < n_seen, np.maximum(counts, 0.0), 0.0)
    middles = edges[:-1] * 2**0.25
    excess = np.maximum(middles - edges[:, None], 0.0) @ seen
    squares = mass * (edges[0] / 4) ** 2 + seen @ middles**2
    of_noise = (edges * noise) ** 2
    is_small = excess <= MOST_BIAS * np.sqrt(squares + of_noise)
    return float(edges[np.argmin(np.where(is_small, excess**2 + of_noise, np.inf))])


@dataclass(frozen=True, eq=False)
class Scored:
    """Estimates in coordinates, outputs one after the other, and the covariance of their errors.

    ``cut`` is the noisy part of the residuals that are cut off, where they are, ``lost`` that of
    the weight of rows that they lose, ``curvature`` and ``dispersion`` are the last noisy matrix
    and what scores vary by over it, with the deviation of its noise. ``beyond`` is what squares of
    residuals lose where they are cut off. ``projection`` is that on the coordinates in which
    parameters were free. ``moved`` is the way from the estimates to where residuals were squared.
    """

    theta: np.ndarray
    covariance: np.ndarray
    moved: np.ndarray
    inverse: Inverse
    cut: float | None
    lost: float
    curvature: Moment
    dispersion: Noisy
    beyond: Noisy
    left_out: Noisy
    projection: np.ndarray

    def explained(self, constant: float) -> Noisy:
        """Return the variance of raw predictions of the records, without that of estimates' errors.

        Rows count at their full weight. And the standard deviation of its errors, of those of
        estimates and of noise.
        """
        matrix = self.curvature.matrix
        slopes = self.theta[:-1]
        centred = about_mean(matrix)
        variance = slopes @ centred @ slopes - np.sum(centred * self.covariance[:-1, :-1])
        slope = 2 * centred @ slopes
        errors = slope @ self.covariance[:-1, :-1] @ slope
        errors += (self.curvature.std * (slopes @ slopes)) ** 2
        more, std = self.left_out
        factor = 1 - self.lost + more
        errors = errors * factor**2 + (variance * std) ** 2
        mass = matrix[-1, -1] / constant**2
        return Noisy(max(float(variance) * factor, 0.0) / mass, math.sqrt(errors) / mass)

    def left(self, mass: float) -> Noisy:
        """Return the mean square of residuals at the estimates, of this many records.

        It was bought where the last gradient was, with ``moved' curvature moved`` more in the sum;
        of this the errors of estimates are a part. And the standard deviation of its errors.
        """
        turned = self.curvature.matrix @ self.covariance
        along = self.curvature.matrix @ self.moved
        more = float(self.moved @ along - np.trace(turned))
        errors = 4 * along @ self.covariance @ along + 2 * np.sum(turned * turned.T)
        errors += (self.curvature.std * (self.moved @ self.moved)) ** 2
        least = 1e-3 * self.dispersion.value
        value = max(self.dispersion.value - max(more, 0.0) / mass, least)
        return Noisy(value, math.hypot(self.dispersion.std, math.sqrt(max(errors, 0.0)) / mass))


def about_mean(matrix: np.ndarray) -> np.ndarray:
    """Return second moments of coordinates about their means, of those with the constant's last."""
    along = matrix[:-1, -1]
    return matrix[:-1, :-1] - np.outer(along, along) / matrix[-1, -1]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The releases of scoring, from which estimates follow, under linear constraints as well.

    Parameters
    ----------
    steps : list of (theta, gradient, std)
        Of the last steps: where they stood, the noisy gradient there, and its noise.
    curvature : Moment
        The last noisy matrix of second derivatives.
    scores : Moment or None
        Noisy covariance of scores, of a robust table.
    spread : float
        Variance of scores where ``scores`` is None, over the curvature times the dispersion.
    dispersion : Noisy
        The dispersion, with the deviation of its noise.
    beyond : Noisy
        What squares of residuals lose in the mean where they are cut off.
    is_rare : bool
        Whether outcomes are rare, so that curvature does not tell where noise is small.
    cut : float or None
        Noisy part of the residuals that are cut off.
    lost : float
        Noisy part of their weight that rows lose.
    left_out : Noisy
        Variance of predictions that rows lose with it, over that of rows as they weigh.
    """

    steps: list[tuple[np.ndarray, np.ndarray, float]]
    curvature: Moment
    scores: Moment | None
    spread: float
    dispersion: Noisy
    beyond: Noisy
    is_rare: bool
    cut: float | None
    lost: float
    left_out: Noisy

    def scored(self, constraints: np.ndarray | None = None) -> Scored:
        """Return the mean of the last steps' estimates, with the covariance of its errors.

        Parameters
        ----------
        constraints : ndarray of shape (n_constraints, m) or None, default=None
            Sums of coordinates' parameters that are 0. None: none.

        Returns
        -------
        Scored
        """
        basis = np.eye(self.steps[-1][0].size)
        if constraints is not None:
            with one_blas_thread():
                basis = null_space(constraints)
        curvature = Moment(basis.T @ self.curvature.matrix @ basis, self.curvature.std)
        precisions = np.array([std**-2 for _, _, std in self.steps])
        noise = 1 / precisions.sum()
        least = min(noise / MOST_NOISE, math.sqrt(noise) / MOST_MOVED)
        inverse = inverted(curvature, least if self.is_rare else 0.0)
        of_steps = np.array([theta for theta, _, _ in self.steps])
        mean = noise * (precisions @ of_steps)
        last = of_steps[-1] @ basis
        outside = mean - basis @ (mean @ basis)  # the way to where the constraints hold
        gradient = noise * sum(p * g for p, (_, g, _) in zip(precisions, self.steps, strict=True))
        pull = inverse.matrix @ ((gradient - self.curvature.matrix @ outside) @ basis)
        # what no step says of other directions stays where the last one led
        inside = mean @ basis
        theta = inside - pull + inverse.weak.T @ (inverse.weak @ (last - inside))
        variance = self.spread * self.dispersion.value * curvature.matrix
        if self.scores is not None:
            scores = Moment(basis.T @ self.scores.matrix @ basis, self.scores.std)
            width = len(scores.matrix)
            beyond = scores.std - LARGEST_VARIANCE_NOISE * np.trace(scores.positive) / width
            variance = scores.positive + max(beyond, 0.0) * np.eye(width)  # on the safe side
        moved = pull @ pull + outside @ outside
        variance = variance + noise * np.eye(len(theta))
        variance += curvature.std**2 / 2 * (moved * np.eye(len(theta)) + np.outer(pull, pull))
        covariance = inverse.matrix @ variance @ inverse.matrix
        loose = noise / curvature.noise_norm**2 + (inverse.weak @ theta) ** 2
        covariance += inverse.weak.T @ (loose[:, None] * inverse.weak)
        return Scored(
            basis @ theta,
            basis @ covariance @ basis.T,
            self.steps[-1][0] - basis @ theta,
            inverse.of(basis),
            self.cut,
            self.lost,
            self.curvature,
            self.dispersion,
            self.beyond,
            self.left_out,
            basis @ basis.T,
        )


class Scoring:
    """Buys gradients and curvatures where the last step led, and reads the estimates from them.

    What is bought to start from, as it is made, tells how much long rows may weigh.

    Parameters
    ----------
    rows : LocalRows
        Rows with targets and a map to the unit ball.
    likelihood : Likelihood
        The likelihood.
    coordinates : Coordinates
        The coordinates of rows.
    spending : Spending
        Pays.
    spread : float, default=1.0
        Variance of scores, in units of the curvature times the dispersion: the weight of rows
        where it is the same for all and their errors are uncorrelated, 1 on the safe side.
    in_time : bool, default=False
        Whether rows of a person are in the order of time and have the same weight 1/most_rows: each
        then weighs 1, and those count that keep the person's sums bounded.
    """

    def __init__(
        self,
        rows: LocalRows,
        likelihood: Likelihood,
        coordinates: Coordinates,
        spending: Spending,
        spread: float = 1.0,
        in_time: bool = False,
    ) -> None:
        self.rows = rows
        self.likelihood = likelihood
        self.spending = spending
        self.spread = 1.0 if in_time else spread
        self.constant = coordinates.constant
        strength = strength_of(rows.n_records, spending.mu, spending.adjacency)
        growth = room_to_grow(strength, rows.shape[1])
        self.usual = math.inf
        start = np.zeros(likelihood.n_outputs)
        if self.constant:
            start, self.usual = likelihood.start(rows, spending)
        n_parameters = likelihood.n_outputs * rows.shape[1]
        part = 0.0 if in_time else likelihood.usual_part(self.usual)
        reach = most_row_curvature(strength, n_parameters, part)
        self.scored = ScoredRows(rows, coordinates, reach, growth, in_time)
        self.start = np.zeros((likelihood.n_outputs, self.scored.n_coordinates))
        if self.constant:
            self.start[:, -1] = start / self.constant
        self.cut = None
        self.beyond = Noisy(0.0, 0.0)
        self.least_limit = 0.0
        self.room = room_of_curvature(strength, n_parameters)

    def run(self) -> "Evidence":
        """Take all steps, and return their releases."""
        steps: list[tuple] = []
        likelihood = self.likelihood
        theta = self.start
        for k in range(len(likelihood.gradients)):
            raw = self.scored.products(theta)
            residuals = likelihood.residuals(raw, self.rows)
            plain = limit = likelihood.limit(
                residuals, self.rows, partial(self.spending.quantile, LIMIT.format(k))
            )
            if likelihood.limits:
                before = self.least_limit
                limit = self._limited(k, np.abs(residuals[:, 0]), limit)
                steps = steps if self.least_limit == before else []  # of the same limit alone
            terms = bounded(residuals, limit)
            weights: Any = 1.0
            of_outputs = likelihood.curvature(raw, self.rows)
            if likelihood.n_outputs == 1:
                most = self._largest(plain)
                weights = self.scored.row_weights(terms[:, 0], of_outputs(0, 0), plain, most)
                terms = terms * weights[:, None]
                of_outputs = partial(_times, weights, of_outputs)
            total = self.scored.gradient(terms, limit, theta)
            gradient, std = self.spending.release(GRADIENT.format(k), total)
            if k < len(likelihood.curvatures):
                total = self.scored.curvature(of_outputs, self._largest(plain), theta)
                curvature = self._symmetric(CURVATURE.format(k), total)
            steps.append((theta.ravel(), gradient, std))
            doubt = std / likelihood.spread(plain)
            theta = theta - self._step(curvature, gradient, doubt).reshape(theta.shape)
        is_rare = self._largest(plain) < likelihood.largest_curvature(plain)
        lost = self.spending.release(LOST, self.scored.lost(weights)).value / self.rows.mass
        steps = steps[-likelihood.n_averaged :]
        left_out = self._left_out(raw[:, 0], steps[-1][0], curvature)
        lost = min(max(lost, 0.0), 1.0)
        return self._evidence(steps, curvature, terms, limit, is_rare, lost, left_out)

    def _evidence(self, steps, curvature, terms, limit, is_rare, lost, left_out):
        """Return all that estimates follow from; squares of residuals and scores are bought."""
        dispersion = self._dispersion(terms, limit)
        scores = None
        if SCORES in self.spending.shares:
            theta = steps[-1][0].reshape(-1, self.scored.n_coordinates)
            scores = self._symmetric(SCORES, self.scored.scores(terms, limit, theta))
        return Evidence(
            steps,
            curvature,
            scores,
            self.spread,
            dispersion,
            self.beyond,
            is_rare,
            self.cut,
            lost,
            left_out,
        )

    def _limited(self, k, distances, limit):
        """Return the limit, no less than before, and buy what is beyond where that has a share."""
        name = CUT.format(k)
        tally = self.scored.tally
        if k in LOOK_SHARES:
            n_cells = max(math.ceil(2 * math.log2(self.likelihood.largest / limit)), 1)
            edges = limit * 2.0 ** (np.arange(n_cells + 1) / 2)
            cells = np.clip(np.searchsorted(edges, distances) - 1, 0, n_cells - 1)
            counts = tally.by_place(distances > limit, cells, n_cells)
            # the last look counts: before, residuals are those of a poor fit
            last = GRADIENT.format(len(self.likelihood.gradients) - 1)
            noise = math.sqrt(self.scored.square) * self.spending.noise_on_sum(last)
            noisy = self.spending.release(name, counts)
            raised = least_limit(edges, noisy, self.rows.mass, noise)
            self.least_limit = raised if raised > limit else 0.0
            return raised
        limit = min(max(limit, self.least_limit), self.likelihood.largest)
        if name not in self.spending.shares:
            return limit
        counted, std = self.spending.release(name, tally.sum(distances > limit))
        cut = counted / self.rows.mass
        self.cut = min(max(cut, 0.0), 1.0)
        # what is cut off adds limit^2 for each where tails are those of Student's t with 4 degrees
        self.beyond = Noisy(cut * limit**2, math.hypot(std / self.rows.mass, cut) * limit**2)
        return limit

    def _largest(self, limit):
        """Return a bound on the curvature of a row: where outcomes are rare, of a usual one's."""
        usual = RARE * self.usual * (1 + self.scored.in_time)  # a person has several rows in time
        return min(self.likelihood.largest_curvature(limit * self.room**0.5), usual * self.room)

    def _symmetric(self, name, products):
        return Moment(*self.spending.symmetric(name, products))

    def _step(self, curvature, gradient, doubt):
        """Return the step to take: short where curvature is within its noise.

        And where predictions would follow the noise on the gradient: ``doubt`` is that over their
        spread. What little curvature a direction has is that of rows that are far along it: of a
        dummy of 1 %, which else led to residuals of 4 to 30 deviations, and limits followed them.
        """
        size = gradient.size - (doubt > 0 < self.constant)  # the constant follows the slopes
        matrix = curvature.matrix
        of_constant = np.maximum(np.diag(matrix)[size:], curvature.noise_norm)
        along = matrix[:size, size:] / of_constant
        with one_blas_thread():
            values, vectors = np.linalg.eigh(matrix[:size, :size] - along @ matrix[size:, :size])
            scales = np.maximum(values, 0) + curvature.noise_norm
            far = 2 * (scales.mean() / scales) ** 2  # of the farthest rows, as a rule
            scales *= np.hypot(1, doubt * far / scales)
            slopes = vectors @ ((vectors.T @ (gradient[:size] - along @ gradient[size:])) / scales)
        return np.append(slopes, gradient[size:] / of_constant - along.T @ slopes)

    def _dispersion(self, terms, limit):
        if DISPERSION not in self.spending.shares:
            return Noisy(self.likelihood.dispersion(None), 0.0)
        squares = self.scored.tally.sum((terms[:, 0] / limit) ** 2)
        noisy, std = self.spending.release(DISPERSION, squares)
        unit = limit**2 / max(self.rows.mass - self.scored.n_coordinates, 1)
        return Noisy(self.likelihood.dispersion(unit * max(noisy, 1.0)), unit * std)

    def _left_out(self, raw, theta, curvature):
        """Buy the squares of predictions about their mean that rows lose with their weight."""
        if LEFT_OUT not in self.spending.shares:
            return Noisy(0.0, 0.0)
        matrix = curvature.matrix
        mass = max(matrix[-1, -1], curvature.noise_norm) / self.constant**2
        mean = float(matrix[-1] @ theta) / mass / self.constant
        slopes = theta[:-1]
        variance = max(
            float(slopes @ about_mean(matrix) @ slopes), curvature.std * float(slopes @ slopes)
        )
        limit = MOST_SQUARE * variance / mass
        squares = (raw - mean) ** 2 / max(limit, 1e-300)
        noisy, std = self.spending.release(LEFT_OUT, self.scored.lost_of(squares))
        unit = MOST_SQUARE / max(self.rows.mass, 1.0)
        return Noisy(unit * noisy, unit * std)
