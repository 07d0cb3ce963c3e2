"""A plan of a table before a record is read: the share answered, and the width of intervals."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import resample

from skdpdyn.core.columns import OBJECTS, TEXT, Frame, numbers_in
from skdpdyn.core.expansion import Levels
from skdpdyn.core.noise import Generator, generators
from skdpdyn.core.schema import types_of
from skdpdyn.inference.levels import names_of_cells
from skdpdyn.inference.regression import private_regression
from skdpdyn.inference.table import names_of
from skdpdyn.linear_model import PrivateLogisticRegression, PrivatePoissonRegressor
from skdpdyn.planning import (
    EPSILONS,
    SAMPLES,
    ManyClasses,
    NormalNumbers,
    PoissonCounts,
    Truth,
    TwoClasses,
    checked_mean_count,
    checked_prevalence,
    least,
    of_more,
    several,
    slope_of_auc,
    start_of,
)
from skdpdyn.privacy import Budget
from skdpdyn.privacy.checks import checked_choice, checked_count, checked_flag, checked_number
from skdpdyn.privacy.display import Document, Shown
from skdpdyn.training.foreign import SILENCE
from skdpdyn.training.targets import listed

_ROWS = 50_000  # rows to draw, at most but for many columns and rare outcomes
_FITS = 4
_TARGET_BOUND = 5.0  # in standard deviations
_AUC = 0.69  # of a model without privacy, unless it is guessed
_ENOUGH = 0.95  # part of the coefficients that are answered, where they are said to be
_GUESSES: dict[type, list[str]] = {
    PrivateLogisticRegression: ["prevalence"],
    PrivatePoissonRegressor: ["mean_count"],
}


@dataclass(frozen=True)
class PlannedTable:
    """The expected table of one fit.

    Parameters
    ----------
    n_samples : int
        Number of records.
    epsilon : float
        Budget.
    answered : float
        Expected share of the coefficients with an estimate.
    width, longest : float
        Expected ratio of standard errors to those without privacy: for columns within three
        standard deviations, and for columns with a long tail. NaN if nothing is answered.

    Examples
    --------
    >>> from skdpdyn.inference import PlannedTable
    >>> PlannedTable(1000, epsilon=1.0, answered=1.0, width=1.4, longest=1.7).width
    1.4
    """

    n_samples: int
    epsilon: float
    answered: float
    width: float
    longest: float


@dataclass(frozen=True, repr=False)
class PlannedTables(Shown):
    """Expected tables, as `plan_table` returns them; ``print`` shows them.

    Parameters
    ----------
    points : tuple of PlannedTable
        One for each number of records and each epsilon.

    Examples
    --------
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.inference import plan_table
    >>> planned = plan_table(PrivateRidge(), n_samples=20_000, n_features=5, epsilon=4.0)
    >>> planned.points[0].answered, 1.0 < planned.points[0].width < 1.5
    (1.0, True)
    """

    points: tuple[PlannedTable, ...]

    def document(self) -> Document:
        """Return the table of points, for text and HTML.

        Returns
        -------
        Document
        """
        rows = [
            (
                f"{point.n_samples:,}",
                *(f"{x:.3g}" for x in (point.epsilon, point.answered, point.width, point.longest)),
            )
            for point in self.points
        ]
        head = ("records", "epsilon", "answered", "width", "of long tails")
        notes = ["width: standard errors over those without privacy"]
        return Document("expected tables", [head, *rows], notes)


def plan_table(
    model: Any,
    *,
    n_samples: int | Sequence[int] | None = None,
    n_features: int | None = None,
    like: Any = None,
    bounds: Any = None,
    categories: Any = None,
    one_hot: Any = (),
    epsilon: float | Sequence[float] | None = None,
    delta: float | str = "auto",
    adjacency: str = "replace_one",
    robust: bool = False,
    solve_for: str | None = None,
    target: float | None = None,
    **guesses: float,
) -> PlannedTables:
    """Predict the share of coefficients with an estimate, and the width of their intervals.

    `plan_table` reads no record and spends nothing. It runs `private_regression` on simulated rows:
    once with normal columns and once with skewed columns that have a long tail, with targets that
    depend weakly on each column. More than 50,000 rows are represented by 50,000 rows (more with
    many columns or rare outcomes) with a larger budget, at which the noise is the same share of the
    variance. The simulation is seeded, so plans are reproducible.

    A coefficient is answered if the noise does not hide it, so that the table has an estimate.
    Fewer coefficients are answered if columns are nearly collinear, categories are rare, or bounds
    are far wider than the data. To account for this, pass ``like``: a few hundred public rows, such
    as rows of last year, of another country, or simulated rows. Rows are then sampled from them.

    Parameters
    ----------
    model : PrivateLogisticRegression, PrivateSoftmaxRegression, PrivatePoissonRegressor or \
PrivateRidge
        The regression, see `private_regression`. A multinomial model without ``classes`` is planned
        with three classes.
    n_samples : int, sequence of int or None, default=None
        Number of records, or of persons. A sequence plans for each number. None is allowed only
        with ``solve_for="n_samples"``.
    n_features : int or None, default=None
        Number of simulated columns, including dummies. They are uncorrelated and fill their bounds.
        None is allowed only with ``like``.
    like : array-like or frame of shape (n_rows, n_features), default=None
        Public rows that resemble the rows of the future table.
    bounds : tuple (low, high), array-like of shape (n_features, 2) or dict, default=None
        Bounds of the columns of ``like``, see `private_regression`.
    categories : dict, "auto" or None, default=None
        Categories of the columns of ``like``, see `private_regression`.
    one_hot : sequence of sequences of int or str, default=()
        Groups of dummies among the columns of ``like``, see `private_regression`.
    epsilon : float, sequence of float or None, default=None
        Privacy budget. A sequence plans for each budget. None is allowed only with
        ``solve_for="epsilon"``.
    delta : float or "auto", default="auto"
        See `private_regression`.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        See `private_regression`.
    robust : bool, default=False
        See `private_regression`.
    solve_for : {"epsilon", "n_samples"} or None, default=None
        Find the smallest epsilon, or number of records, at which a share of 0.95 of the
        coefficients is answered and the width is at most ``target``, rounded to two digits. None:
        plan for the given numbers.
    target : float or None, default=None
        Largest width with ``solve_for``, above 1: the ratio of standard errors to those without
        privacy. None: no limit.
    **guesses : float
        For two classes ``prevalence``, the share of the records in the second class, and, if it is
        not about 0.7, ``auc``, the AUC of a model without privacy. A higher AUC means less
        information per row. For counts ``mean_count``, the mean count of a record.

    Returns
    -------
    PlannedTables

    Raises
    ------
    ValueError
        If a guess is missing or impossible, or if an epsilon of 100, or a billion records, is not
        enough.

    Examples
    --------
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.inference import plan_table
    >>> shape = {"n_samples": 5000, "n_features": 4, "prevalence": 0.3}
    >>> planned = plan_table(PrivateLogisticRegression(), epsilon=[0.1, 4.0], **shape)
    >>> [point.answered for point in planned.points]
    [0.0, 1.0]
    >>> needed = plan_table(
    ...     PrivateLogisticRegression(), solve_for="epsilon", target=1.5, **shape
    ... )
    >>> 1 < needed.points[0].epsilon < 4
    True
    """
    if (like is None) == (n_features is None):
        raise ValueError("give n_features, or rows that the table will be like: like=rows")
    types = types_of(getattr(model, "schema", None))
    n_features = checked_count(
        len(_cells(like, types)) if n_features is None else n_features, "n_features", largest=1000
    )
    checked_flag(robust, "robust")
    valid = "above 1: standard errors over those without privacy"
    width = checked_number(target or 1e300, "target", lambda x: x > 1, valid)
    guess = _table_guess(model, guesses)
    if getattr(model, "weight_bounds", None) is not None:  # of rows that weigh alike
        model = clone(model).set_params(weight_bounds=None)
    facts = {"bounds": bounds, "categories": categories, "one_hot": one_hot}

    def planned(size, epsilon_of_fit):
        budget = Budget.for_samples(epsilon_of_fit, delta, n_samples=size, adjacency=adjacency)
        shape = _Shape(size, n_features, like, facts, types)
        return PlannedTable(size, epsilon_of_fit, *_expected(model, guess, shape, budget, robust))

    def reached(size, epsilon_of_fit):
        expected = planned(size, epsilon_of_fit)
        return -expected.width if expected.answered >= _ENOUGH else -math.inf

    with SILENCE:  # of seeds and large budgets: no record is read
        sizes = several(n_samples, "biu")
        epsilons = several(epsilon)
        if solve_for is not None:
            checked_choice(solve_for, "solve_for", ["epsilon", "n_samples"])
        if solve_for == "epsilon":
            epsilons = [
                least(lambda epsilon_of_fit: reached(sizes[0], epsilon_of_fit), -width, EPSILONS)
            ]
        elif solve_for:
            sizes = [least(lambda size: reached(size, epsilons[0]), -width, SAMPLES)]
        return PlannedTables(
            tuple(planned(size, epsilon_of_fit) for size in sizes for epsilon_of_fit in epsilons)
        )


@dataclass(frozen=True)
class _TableGuess:
    """A truth, its mean target where it is no middle, and the deviation of raw predictions."""

    truth: Truth
    mean: float | None = None
    signal: float = 0.0

    @property
    def rarest(self) -> float:
        """Part of the records that have the rarer of two outcomes; 1 where there are not two."""
        if self.mean is None or not 0 < self.mean < 1:
            return 1.0
        return min(self.mean, 1 - self.mean)

    def raw(self, linear: np.ndarray) -> np.ndarray:
        """Return raw predictions of sums of columns; their mean target is that of the guess."""
        raw = self.signal * linear
        return raw if self.mean is None else start_of(self.truth, raw, self.mean, 500) + raw


def _table_guess(model: Any, guesses: dict[str, float]) -> _TableGuess:
    """Return the truth that stands for the data, or say which guesses are missing."""
    needs = _GUESSES.get(type(model), [])
    auc = guesses.pop("auc", _AUC) if needs == ["prevalence"] else _AUC
    if sorted(guesses) != needs:
        raise ValueError(f"guesses={sorted(guesses)}: {type(model).__name__} needs {needs}")
    if needs == ["prevalence"]:
        part = checked_prevalence(guesses["prevalence"])
        truth = TwoClasses({"classes": [False, True]})
        return _TableGuess(truth, part, slope_of_auc(auc, part))
    if needs == ["mean_count"]:
        mean = checked_mean_count(guesses["mean_count"])
        bounds = listed(model.target_bounds) or (0, 20 * mean + 4)
        return _TableGuess(PoissonCounts({"target_bounds": bounds}), mean, 0.4)
    if hasattr(model, "classes"):
        labels = listed(model.classes)
        n_classes = 3 if labels is None else len(labels)
        return _TableGuess(ManyClasses({"classes": list(range(n_classes))}))
    return _TableGuess(NormalNumbers({"target_bounds": (-_TARGET_BOUND, _TARGET_BOUND)}))


class _ExpectedTable(NamedTuple):
    """Expectations of a table: coefficients that are answered, and widths of intervals."""

    answered: float  # part of all
    width: float
    longest: float  # width in columns of long tails


def _expected(
    model: Any, guess: _TableGuess, shape: "_Shape", budget: Budget, robust: bool
) -> _ExpectedTable:
    """Return the expectations of tables of simulated data of this shape.

    Without privacy the standard errors are those of all rows at their full weight.
    """
    n_drawn = int(min(shape.n_samples, max(_ROWS, 50 * shape.n_features, 500 / guess.rarest)))
    budget = of_more(budget, math.sqrt(shape.n_samples / n_drawn))
    answered = []
    widths: list[list[np.ndarray]] = []
    for fit, generator in enumerate(generators(0, _FITS)):
        for k, drawn in enumerate(shape.drawn(n_drawn, generator)):
            raw = guess.raw(drawn.linear)
            fitted, table = private_regression(
                model,
                drawn.X,
                guess.truth.drawn(raw, generator),
                epsilon=budget.epsilon,
                delta=budget.delta,
                adjacency=budget.adjacency,
                robust=robust,
                random_state=fit,
                **drawn.facts,
                **guess.truth.facts,
            )
            columns = drawn.columns(names_of(fitted), fitted.schema_.categories or {})
            plain = _std_err(columns, guess.truth.curvature(raw))
            ratios = table.std_err.reshape(-1, len(plain)) / plain
            ratios = np.delete(ratios, -1, axis=1) if model.fit_intercept else ratios
            answered += [table.answered.mean()] * (k == 0)
            widths = widths if k < len(widths) else [*widths, []]
            widths[k].append(ratios[np.isfinite(ratios)])
    medians = [float(np.median(of)) if of.size else math.nan for of in map(np.hstack, widths)]
    return _ExpectedTable(float(np.mean(answered)), medians[0], medians[-1])


def _std_err(rows: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Return standard errors without privacy; columns may follow from one another."""
    scale = np.maximum(np.sqrt(np.mean(rows**2, axis=0)), 1e-300)
    rows = rows / scale
    return np.diag(np.linalg.pinv((rows.T * curvature) @ rows, hermitian=True)) ** 0.5 / scale


class _Drawn(NamedTuple):
    """Rows that stand for those of a table, and public facts about them.

    ``linear`` are sums of their columns, of mean 0 and variance 1; ``cells`` are those of each
    column: numbers, or levels.
    """

    X: Any
    facts: dict[str, Any]
    linear: np.ndarray
    cells: dict[Hashable, np.ndarray]

    def columns(
        self, names: Sequence[str], categories: Mapping[Hashable, Sequence[Any]]
    ) -> np.ndarray:
        """Return the columns of a table by their names, from the levels that it knows."""
        columns = {"intercept": np.ones(len(self.linear))}
        for key, cells in self.cells.items():
            if key not in categories:
                columns |= dict.fromkeys([str(key), *_of_number(key)], cells)
                continue
            *labels, rest = names_of_cells(key, categories[key])
            codes = Levels(tuple(categories[key])).codes(cells)
            dummies = {name: codes == k for k, name in enumerate(labels)}
            of_reference = codes == np.argmax(np.bincount(codes))
            told = [dummy for name, dummy in dummies.items() if name in names]
            columns |= dummies | {rest: ~np.any([of_reference, *told], axis=0)}
        return np.column_stack([columns[name] for name in names]).astype(np.float64)


@dataclass(frozen=True)
class _Shape:
    """Number of records and columns, and rows that the table will be like, if any are known."""

    n_samples: int
    n_features: int
    like: Any
    facts: dict[str, Any]
    types: dict[Any, str]

    def drawn(self, n_drawn: int, generator: Generator) -> list[_Drawn]:
        """Return rows like those that are known, or normal ones and ones of long tails."""
        if self.like is not None:
            return [_resampled(self, n_drawn, generator)]
        normals = generator.standard_normal((n_drawn, self.n_features))
        skewed = (np.exp(normals) - math.exp(0.5)) / math.sqrt(math.e**2 - math.e)
        found = []
        for X, bound in ((normals, 3.0), (skewed, 10.0)):
            X = X.clip(-bound, bound)
            linear = X.sum(axis=1) / math.sqrt(self.n_features)
            found.append(_Drawn(X, {"bounds": (-bound, bound)}, linear, _cells(X, {})))
        return found


def _of_number(key: Hashable) -> list[str]:
    """Return the name of a column that has a number in place of a name."""
    return [] if isinstance(key, str) else [f"x{key}"]


def _cells(X: Any, types: Mapping[Any, str]) -> dict[Hashable, np.ndarray]:
    """Return the cells of the columns by their names or numbers: levels, or numbers."""
    frame = Frame.of(X)
    if frame is None:
        raise ValueError("like must be a frame, or an array of shape (n_rows, n_features)")
    frame = frame.said(types)
    frame.refuse_unreadable()
    cells: dict[Hashable, np.ndarray] = {}
    for j, (key, kind) in enumerate(zip(frame.keys, frame.kinds, strict=True)):
        column = frame.take(slice(0, frame.n_rows), j)
        is_text = kind in (TEXT, OBJECTS)
        cells[key] = np.asarray(column, dtype=object) if is_text else numbers_in(column, kind)
    return cells


def _resampled(shape: _Shape, n_drawn: int, generator: Generator) -> _Drawn:
    """Return rows that are drawn from others, with targets that each of their columns tells of."""
    X = resample(shape.like, n_samples=n_drawn, random_state=int(generator.integers(2**31)))
    cells = _cells(X, shape.types)
    linear = np.zeros(n_drawn)
    for of in cells.values():
        if of.dtype.kind == "O":
            levels, codes = np.unique(of.astype(str), return_inverse=True)
            of = generator.standard_normal(len(levels))[codes]
        linear += generator.choice([-1, 1]) * (of - of.mean()) / max(of.std(), 1e-300)
    return _Drawn(X, shape.facts, linear / max(linear.std(), 1e-300), cells)
