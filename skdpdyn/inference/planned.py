"""A plan of a table before a record is read: what will be answered, and how wide intervals are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from skdpdyn.core.noise import generators
from skdpdyn.inference.regression import private_regression
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
        Part of the coefficients that are expected to be answered.
    width, longest : float
        Expected standard errors over those without privacy, of columns within three standard
        deviations, and of columns of a long tail; NaN if nothing is answered.

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
    n_features: int,
    epsilon: float | Sequence[float] | None = None,
    delta: float | str = "auto",
    adjacency: str = "replace_one",
    robust: bool = False,
    solve_for: str | None = None,
    target: float | None = None,
    **guesses: float,
) -> PlannedTables:
    """Return what `private_regression` will answer on data of this shape, and how precisely.

    It reads no record and spends nothing: it draws rows of normal columns, and of skewed ones of a
    long tail, with targets that they tell a little of, and asks for the table itself. For more than
    50,000 rows, 50,000 under another budget stand, of which noise is the same part of a variance.
    Draws repeat themselves, so that a plan is the same plan tomorrow.

    Real tables lie between both widths as a rule. Of columns that are nearly collinear, and of rare
    levels, fewer coefficients are answered than a plan says.

    Parameters
    ----------
    model : PrivateLogisticRegression, PrivateSoftmaxRegression, PrivatePoissonRegressor or \
PrivateRidge
        Which regression, see `private_regression`. Three classes if it has no ``classes``.
    n_samples : int, sequence of int or None, default=None
        Number of records, or of persons; several make a table. None only with
        ``solve_for="n_samples"``.
    n_features : int
        Number of columns, dummies included.
    epsilon : float, sequence of float or None, default=None
        Budgets; several make a table. None only with ``solve_for="epsilon"``.
    delta : float or "auto", default="auto"
        See `private_regression`.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        See `private_regression`.
    robust : bool, default=False
        See `private_regression`.
    solve_for : {"epsilon", "n_samples"} or None, default=None
        What to look for: the least epsilon, or number of records, at which 0.95 of the coefficients
        are answered, with a width of ``target`` at most. To two digits.
    target : float or None, default=None
        Largest width, above 1. None: any.
    **guesses : float
        Of two classes ``prevalence``, the part of the records in the second; of counts
        ``mean_count``, that of a record.

    Returns
    -------
    PlannedTables

    Raises
    ------
    ValueError
        If a guess is missing or cannot be, or if no epsilon up to 100, or no billion of records,
        is enough.

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
    checked_count(n_features, "n_features", largest=1000)
    checked_flag(robust, "robust")
    valid = "above 1: standard errors over those without privacy"
    width = checked_number(target or 1e300, "target", lambda x: x > 1, valid)
    guess = _table_guess(model, guesses)
    if getattr(model, "weight_bounds", None) is not None:  # of rows that weigh alike
        model = clone(model).set_params(weight_bounds=None)

    def planned(size, epsilon_of_fit):
        budget = Budget.for_samples(epsilon_of_fit, delta, n_samples=size, adjacency=adjacency)
        return PlannedTable(
            size, epsilon_of_fit, *_expected(model, guess, (size, n_features), budget, robust)
        )

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

    def raw(self, X: np.ndarray) -> np.ndarray:
        """Return raw predictions of rows, whose mean target is that of the guess."""
        raw = self.signal / math.sqrt(X.shape[1]) * X.sum(axis=1)
        return raw if self.mean is None else start_of(self.truth, raw, self.mean, 40) + raw


def _table_guess(model: Any, guesses: dict[str, float]) -> _TableGuess:
    """Return the truth that stands for the data, or say which guesses are missing."""
    needs = _GUESSES.get(type(model), [])
    if sorted(guesses) != needs:
        raise ValueError(f"guesses={sorted(guesses)}: {type(model).__name__} needs {needs}")
    if needs == ["prevalence"]:
        part = checked_prevalence(guesses["prevalence"])
        return _TableGuess(TwoClasses({"classes": [False, True]}), part, 0.7)
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
    model: Any, guess: _TableGuess, shape: tuple[int, int], budget: Budget, robust: bool
) -> _ExpectedTable:
    """Return the expectations of tables of simulated data of this shape.

    Without privacy the standard errors are those of all rows at their full weight.
    """
    n_samples, n_features = shape
    truth = guess.truth
    n_drawn = int(min(n_samples, max(_ROWS, 50 * n_features, 500 / guess.rarest)))
    budget = of_more(budget, math.sqrt(n_samples / n_drawn))
    answered = np.zeros((2, _FITS))
    widths = [np.empty(0), np.empty(0)]
    for fit, generator in enumerate(generators(0, _FITS)):
        normals = generator.standard_normal((n_drawn, n_features))
        skewed = (np.exp(normals) - math.exp(0.5)) / math.sqrt(math.e**2 - math.e)
        for k, (X, bound) in enumerate(((normals, 3.0), (skewed, 10.0))):
            X = X.clip(-bound, bound)
            raw = guess.raw(X)
            _, table = private_regression(
                model,
                X,
                truth.drawn(raw, generator),
                epsilon=budget.epsilon,
                delta=budget.delta,
                adjacency=budget.adjacency,
                bounds=(-bound, bound),
                robust=robust,
                random_state=fit,
                **truth.facts,
            )
            rows = np.column_stack([X, np.ones(n_drawn)])
            plain = np.diag(np.linalg.inv((rows.T * truth.curvature(raw)) @ rows)) ** 0.5
            ratios = np.delete(table.std_err.reshape(-1, len(plain)) / plain, -1, axis=1)
            answered[k, fit] = table.answered.mean()
            widths[k] = np.append(widths[k], ratios[np.isfinite(ratios)])
    width, longest = (float(np.median(ratios)) if ratios.size else math.nan for ratios in widths)
    return _ExpectedTable(float(answered[0].mean()), width, longest)
