"""Columns of numbers as splines in a table, and their curves with bands."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from scipy.optimize import brentq
from scipy.special import ndtr

from skdpdyn.inference.directions import row_by_row
from skdpdyn.privacy.checks import quoted
from skdpdyn.privacy.display import axes_or_new, draw_band, label_of

_DEGREE = 3
_N_POINTS = 201  # of a curve's grid


@dataclass(frozen=True, eq=False)
class Spline:
    """Cubic splines of a column of numbers that are lines before the first knot and after the last.

    They are sums of B-splines, at least 0, and with the first, which is left out, they add up to 1:
    a row of them lies within the simplex whose corners are dummies of as many levels, and is no
    longer than of one column.

    Parameters
    ----------
    name : str
        Name of the column.
    knots : tuple of float
        The lower bound of the column, three or more knots, and its upper bound.
    centre : ndarray of shape (n_columns,) or float, default=0.0
        Released means of the columns.

    Examples
    --------
    >>> from skdpdyn.inference.splines import Spline
    >>> spline = Spline("x", (0.0, 1.0, 2.0, 3.0, 4.0))
    >>> spline.columns([0.0, 0.5, 1.0, 2.0]).round(3).tolist()
    [[0.0, 0.0], [0.25, 0.0], [0.5, 0.0], [0.833, 0.083]]
    """

    name: str
    knots: tuple[float, ...]
    centre: np.ndarray | float = 0.0

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.knots) - 3

    @property
    def grid(self) -> np.ndarray:
        """Numbers at equal distances between the bounds."""
        return np.linspace(self.knots[0], self.knots[-1], _N_POINTS)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [f"B{k}({self.name})" for k in range(1, self.n_columns + 1)]

    def columns(self, values: Any) -> np.ndarray:
        """Return the splines at numbers, each of which follows from its own number alone."""
        low, *_, high = self.knots
        knots = np.array([*[low] * _DEGREE, *self.knots, *[high] * _DEGREE])
        values = np.clip(np.asarray(values, dtype=np.float64), low, high)
        plain = BSpline.design_matrix(values, knots, _DEGREE).toarray()
        # a spline is a line where the four coefficients that are felt there are on one
        places = np.convolve(knots[1:-1], np.full(_DEGREE, 1 / _DEGREE), "valid")
        joined = np.eye(len(places))
        for end, far in ((0, 3), (-1, -4)):
            for k in (1, 2) if end == 0 else (-2, -3):
                part = (places[k] - places[end]) / (places[far] - places[end])
                joined[k] = (1 - part) * joined[end] + part * joined[far]
        return row_by_row(plain, np.delete(joined, [1, 2, -2, -3], axis=1)[:, 1:].T)


@dataclass(frozen=True)
class Knots:
    """A wish for a spline of a column: a number of columns, or knots within its bounds."""

    key: Hashable
    n_columns: int  # at most
    inner: tuple[float, ...] | None = None

    @classmethod
    def of(cls, key: Hashable, asked: Any) -> "Knots":
        """Return the wish, or an error that says how to state it."""
        if isinstance(asked, int | np.integer) and not isinstance(asked, bool) and asked > 1:
            return cls(key, int(asked))
        try:
            inner = np.asarray(asked, dtype=np.float64)
        except (TypeError, ValueError):
            inner = np.empty(0)
        if inner.ndim == 1 and np.unique(inner).size > 2 and np.isfinite(inner).all():
            knots = tuple(np.unique(inner).tolist())
            return cls(key, len(knots) - 1, knots)
        raise ValueError(
            f"splines[{key!r}]={quoted(asked)} must be a number of columns, 2 or more, or a list "
            "of 3 or more public knots within the bounds"
        )

    def spline(self, low: float, high: float, seen: tuple[float, float]) -> Spline:
        """Return the spline within bounds; fewer than 3 knots within them give way to 3 others.

        Knots at equal distances are in the range ``seen``: most of bought bounds is empty.
        """
        name = self.key if isinstance(self.key, str) else f"x{self.key}"
        inner = [knot for knot in self.inner or () if low < knot < high]
        if len(inner) < 3:
            low, high = seen
            n_knots = self.n_columns + 1 if self.inner is None else 3
            inner = np.linspace(low, high, n_knots + 2)[1:-1].tolist()
        return Spline(name, (low, *inner, high))


def checked_splines(splines: Any, numbers: Sequence[Hashable]) -> dict[int, Knots]:
    """Return the wishes for splines of columns of numbers, by their place."""
    splines = {} if splines is None else splines
    if not isinstance(splines, Mapping) or not {*splines} <= {*numbers}:
        raise ValueError(
            f"splines={quoted(splines)} must be a dict of columns of numbers, by name or number, "
            "and of how many columns each becomes"
        )
    return {numbers.index(key): Knots.of(key, asked) for key, asked in splines.items()}


def spread(
    X: np.ndarray, bounds: np.ndarray, splines: Mapping[int, Spline]
) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Return columns of which some become splines, their bounds, and the places of each."""
    if not splines:
        return X, bounds, [[j] for j in range(len(bounds))]
    blocks = [
        splines[j].columns(column) if j in splines else column[:, None]
        for j, column in enumerate(X.T)
    ]
    widths = [block.shape[1] for block in blocks]
    bounds = np.repeat(bounds, widths, axis=0)
    ends = np.cumsum([0, *widths]).tolist()
    places = [list(range(first, end)) for first, end in pairwise(ends)]
    for j in splines:
        bounds[places[j]] = 0.0, 1.0
    return np.hstack([X[:, :0], *blocks]), bounds, places


def factor_of_all(covariance: np.ndarray, alpha: float, alone: float) -> float:
    """Return how many standard errors wide bands are that hold a whole curve.

    Parameters
    ----------
    covariance : ndarray of shape (n_points, n_points)
        Covariance of the errors along the curve.
    alpha : float
        Probability that the curve leaves the band.
    alone : float
        How many standard errors wide the interval of a single point is.

    Returns
    -------
    float
        By the tube around the path of standardized errors on the sphere (Hotelling 1939, Naiman
        1986): the largest of them is beyond c with a probability of at most
        length / pi exp(-c^2 / 2) + P(|N(0, 1)| > c).
    """
    errors = np.sqrt(np.diag(covariance))
    varies = errors > 1e-9 * errors.max(initial=0.0)
    errors = errors[varies]
    steps = np.diag(covariance[np.ix_(varies, varies)], 1) / (errors[:-1] * errors[1:])
    length = float(np.sum(np.arccos(np.clip(steps, -1.0, 1.0))))

    def beyond(c):
        return length / math.pi * math.exp(-(c**2) / 2) + 2 * ndtr(-c) - alpha

    return alone if beyond(alone) <= 0 else float(brentq(beyond, alone, 40.0))


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve of a column in a table with its band, which holds sampling and all noise.

    `PrivateSummary.curve` makes it, from released numbers.

    Parameters
    ----------
    name : str
        Name of the column.
    grid : ndarray of shape (n_points,)
        Numbers of the column.
    value, low, high : ndarray of shape (n_points,)
        The curve, and the ends of its band; NaN where there is not enough information.
    meaning : str
        What the band means, as a picture says it.
    scale : str
        What the curve is in units of.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.inference import private_regression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (20_000, 1))
    >>> y = np.sin(X[:, 0]) + rng.normal(0, 0.5, 20_000)
    >>> model = PrivateRidge(target_bounds=(-3, 3))
    >>> _, table = private_regression(model, X, y, epsilon=1.0, bounds=(0, 10), splines={0: 8})
    >>> high, low = table.curve("x0", [np.pi / 2, 3 * np.pi / 2]).value
    >>> bool(1.7 < high - low < 2.3)
    True
    """

    name: str
    grid: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    meaning: str
    scale: str

    def plot(self, ax: Any = None, *, shift: float = 0.0, **kwargs: Any) -> Any:
        """Draw the curve and its band, which costs nothing.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: those of a new figure.
        shift : float, default=0.0
            Is added: curves are known up to a constant.
        **kwargs : dict
            For matplotlib's ``plot``.

        Returns
        -------
        matplotlib Axes
        """
        ends = self.low + shift, self.high + shift
        options = {"label": "table", **kwargs}
        ax = axes_or_new(ax)
        draw_band(ax, self.grid, self.value + shift, ends, self.meaning, **options)
        ax.set(xlabel=label_of(self.name), ylabel=f"contribution to {self.scale}")
        return ax
