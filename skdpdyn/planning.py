"""Plans before a fit: the expected score, or the number of rows or the epsilon that it needs.

The loss of accuracy of a private fit depends mostly on one public number, n mu / (f d): the number
of records in standard deviations of the noise, divided by the number of columns. Therefore a plan
needs no record. It simulates typical rows, and targets that are as predictable as you guess, and
fits the estimator on them.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri, xlogy
from sklearn.base import clone, is_classifier

from skdpdyn.core.losses import LOG, LOGIT, SOFTMAX
from skdpdyn.core.noise import Generator, generators
from skdpdyn.core.schema import apply_schema
from skdpdyn.linear_model.base import PrivateLinearModel
from skdpdyn.linear_model.gam import AdditiveModel
from skdpdyn.linear_model.quantile import QuantileUnits
from skdpdyn.privacy import Budget, GaussianDP
from skdpdyn.privacy.checks import checked_choice, checked_count, checked_number, quoted
from skdpdyn.privacy.display import Document, Shown
from skdpdyn.training.foreign import SILENCE
from skdpdyn.training.purchase import Purchase
from skdpdyn.training.targets import listed

__all__ = ["PlannedScore", "PlannedScores", "plan"]

# Rows of norm 1 at most: a mean that all share, and columns whose variances fall as 1/j. The target
# follows one direction. Its weight on column j, of variance 1, falls as j^-0.75: between a target
# that few directions tell (Adult) and one that all tell a little of (flights). The others bound
# what may be expected.
_LENGTH = 0.85  # root mean square norm of a row
_MEAN = 0.8  # of the squared norm
_SHAPES = ((1.0, 0.75), (1.0, 1.0), (0.5, 0.5))  # falls of variances and weights
_ROWS = 10_000  # to train on, at most but for many columns; as many to score
_MOST_COLUMNS = 1000
_LARGEST_MU = 50.0  # of the budget under which they stand for more rows
_MODEL_ERROR = 0.02  # of an expected score, where little is lost to noise
# real rows tell as much as so many times more drawn ones, or so many times fewer
_ALIKE = 4
# So many times fewer of numbers, whose R^2 needs directions in which rows hardly vary, and of
# additive models, whose drawn curves are lines.
_LEAST_ALIKE = 8
_NINE_IN_TEN = 1.645
_RANGE = 5.0  # of a target, in its standard deviations
EPSILONS = [float(f"{x:.2g}") for x in np.geomspace(0.01, 100, 65)]
SAMPLES = [int(float(f"{x:.2g}")) for x in np.geomspace(100, 1e9, 113)]
_QUANTILES = ndtri((np.arange(2000) + 0.5) / 2000)


@dataclass(frozen=True)
class PlannedScore:
    """Expected score of one fit.

    Parameters
    ----------
    n_samples : int
        Number of records.
    epsilon : float
        Budget.
    score : float
        Expected score on new rows.
    low, high : float
        Ends of an interval that should contain the score of one fit nine times in ten.

    Examples
    --------
    >>> from skdpdyn.planning import PlannedScore
    >>> PlannedScore(n_samples=1000, epsilon=1.0, score=0.8, low=0.7, high=0.84).score
    0.8
    """

    n_samples: int
    epsilon: float
    score: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class PlannedScores(Shown):
    """Expected scores of fits, as `plan` returns them; ``print`` shows a table.

    Parameters
    ----------
    name : str
        The score: "auc", "accuracy", "r2" or "d2".
    not_private : float
        The score without privacy: your guess.
    points : tuple of PlannedScore
        One for each number of records and each epsilon.

    Examples
    --------
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.planning import plan
    >>> planned = plan(PrivateRidge(epsilon=1.0), n_samples=20_000, n_features=5, r2=0.5)
    >>> planned.name, round(planned.points[0].score, 1)
    ('r2', 0.5)
    """

    name: str
    not_private: float
    points: tuple[PlannedScore, ...]

    def document(self) -> Document:
        """Return the table of points, for text and HTML.

        Returns
        -------
        Document
        """
        rows = [
            (
                f"{point.n_samples:,}",
                f"{point.epsilon:.3g}",
                f"{point.score:.3f}",
                f"{point.low:.3f} to {point.high:.3f}",
            )
            for point in self.points
        ]
        head = ("records", "epsilon", self.name, "nine in ten")
        return Document(
            "expected scores", [head, *rows, ("not private", "", f"{self.not_private:.3f}", "")]
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw scores against epsilon, a curve for each number of records.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.

        Returns
        -------
        BudgetCurveDisplay
        """
        from skdpdyn.inspection import BudgetCurveDisplay

        return BudgetCurveDisplay.from_plan(self, ax=ax)


@dataclass(frozen=True)
class Truth(ABC):
    """Law of the targets of drawn rows, given raw predictions.

    Parameters
    ----------
    facts : dict
        What is public of the targets, as parameters.
    """

    facts: dict[str, Any]

    @property
    def n_outputs(self) -> int:
        """Number of raw predictions of a row."""
        return 1

    @abstractmethod
    def drawn(self, raw: np.ndarray, generator: Generator) -> np.ndarray:
        """Return targets of rows with these raw predictions, one or several of each row."""

    def mean(self, raw: np.ndarray) -> np.ndarray:
        """Return expected targets."""
        return raw

    def curvature(self, raw: np.ndarray) -> np.ndarray:
        """Return second derivatives of the loss by raw predictions, one of each row."""
        return np.ones_like(raw)


@dataclass(frozen=True)
class TwoClasses(Truth):
    """Two classes; raw predictions are log odds."""

    def mean(self, raw: np.ndarray) -> np.ndarray:
        """See `Truth.mean`: probabilities of the second class."""
        return LOGIT.mean(raw)

    def drawn(self, raw: np.ndarray, generator: Generator) -> np.ndarray:
        """See `Truth.drawn`."""
        is_second = generator.random(len(raw)) < self.mean(raw)
        return np.asarray(self.facts["classes"])[is_second.astype(int)]

    def curvature(self, raw: np.ndarray) -> np.ndarray:
        """See `Truth.curvature`."""
        probabilities = self.mean(raw)
        return probabilities * (1 - probabilities)


@dataclass(frozen=True)
class ManyClasses(Truth):
    """Classes, with a raw prediction each."""

    @property
    def n_outputs(self) -> int:
        """Number of classes."""
        return len(self.facts["classes"])

    def drawn(self, raw: np.ndarray, generator: Generator) -> np.ndarray:
        """See `Truth.drawn`."""
        noisy = raw.reshape(len(raw), -1) + generator.gumbel(size=(len(raw), self.n_outputs))
        return np.asarray(self.facts["classes"])[np.argmax(noisy, axis=1)]

    def curvature(self, raw: np.ndarray) -> np.ndarray:
        """See `Truth.curvature`: of equally frequent classes."""
        return np.full_like(raw, 0.5 / self.n_outputs)


@dataclass(frozen=True)
class PoissonCounts(Truth):
    """Poisson counts; raw predictions are logarithms of rates in a unit."""

    unit: float = 1.0

    def mean(self, raw: np.ndarray) -> np.ndarray:
        """See `Truth.mean`."""
        return self.unit * LOG.mean(raw)

    def drawn(self, raw: np.ndarray, generator: Generator) -> np.ndarray:
        """See `Truth.drawn`."""
        return generator.poisson(self.mean(raw))

    def curvature(self, raw: np.ndarray) -> np.ndarray:
        """See `Truth.curvature`: the mean."""
        return self.mean(raw)


@dataclass(frozen=True)
class NormalNumbers(Truth):
    """Normal numbers about raw predictions, in a unit and from a centre."""

    noise: float = 1.0  # standard deviation
    centre: float = 0.0
    unit: float = 1.0

    def drawn(self, raw: np.ndarray, generator: Generator) -> np.ndarray:
        """See `Truth.drawn`."""
        numbers = raw + self.noise * generator.standard_normal(len(raw))
        return self.centre + self.unit * numbers.astype(raw.dtype)


@dataclass(frozen=True)
class _Guess:
    """The score of a model without privacy, and a truth of which it reaches it.

    Parameters
    ----------
    name : str
        The score.
    best : float
        What it would be.
    truth : Truth
        Law of targets.
    raw : callable
        Returns raw predictions of the best model, of linear scores with variance 1.
    """

    name: str
    best: float
    truth: Truth
    raw: Callable[[np.ndarray], np.ndarray]

    def score(self, model: Any, X: np.ndarray, y: np.ndarray) -> float:
        """Return the score of a fitted model."""
        if self.name != "auc":
            return float(model.score(X, y))
        return auc_of(model.decision_function(X), y == model.classes_[1])


def auc_of(raw: np.ndarray, positive: np.ndarray) -> float:
    """Return the part of pairs of a positive and a negative in which the positive ranks higher.

    Ties count half. scikit-learn's takes ten times as long to check its arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.planning import auc_of
    >>> auc_of(np.array([0.0, 1.0, 1.0, 2.0]), np.array([False, False, True, True]))
    0.875
    """
    below = np.sort(raw[~positive])
    above = np.sort(raw[positive])
    if not (below.size and above.size):
        return math.nan
    ranks = np.searchsorted(below, above) + np.searchsorted(below, above, side="right")
    return float(ranks.mean() / (2 * below.size))


def plan(
    estimator: PrivateLinearModel,
    *,
    n_samples: int | Sequence[int] | None = None,
    n_features: int,
    epsilon: float | Sequence[float] | None = None,
    solve_for: str | None = None,
    target: float | None = None,
    **guesses: float,
) -> PlannedScores:
    """Predict the score of an estimator on data of this shape, before any record is read.

    Instead of data, `plan` uses guesses of the scores of a model without privacy. It simulates
    typical rows and fits the estimator on them, with its own solver and budget. At most 10,000 rows
    are simulated, or 20 per column. More rows are represented by these, with a larger budget, so
    that n mu stays the same (n is the number of records, and mu the parameter of
    `skdpdyn.privacy.GaussianDP`). The simulation is seeded, so plans are reproducible. An additive
    model is fitted on numeric columns with the bounds of the simulated rows. Its facts about your
    columns by name are not used.

    The interval allows for rows of other kinds: rows where few directions predict the target, rows
    where many directions each predict a little of it, and rows that are worth four times as many
    simulated rows, or only a quarter as many (an eighth for numbers, counts and additive models).
    It is widened by 0.02. For an additive model, the guess is the score of an additive model
    without pairs of columns and without privacy, which may be .1 below that of gradient boosting.
    With a large budget, pairs of columns may lift the score above the interval.

    Parameters
    ----------
    estimator : PrivateLinearModel
        An unfitted estimator of this package. For a pipeline, pass its last step, and the number of
        columns that this step receives.
    n_samples : int, sequence of int or None, default=None
        Number of records, or of persons if you will pass ``groups`` to ``fit``. A sequence plans
        for each number. None is allowed only with ``solve_for="n_samples"``.
    n_features : int
        Number of columns. Do not count one-hot columns and words that are rare.
    epsilon : float, sequence of float or None, default=None
        Privacy budget. A sequence plans for each budget. None: that of the estimator.
    solve_for : {"epsilon", "n_samples"} or None, default=None
        Find the smallest epsilon, or number of records, whose expected score reaches ``target``,
        rounded to two digits. The result then has one point. None: plan for the given numbers.
    target : float or None, default=None
        The score to reach, with ``solve_for``.
    **guesses : float
        For two classes ``auc`` and ``prevalence``, the share of the records in the second class.
        For more classes ``accuracy``. For numbers ``r2``, for their quantiles ``d2``, that of the
        pinball loss. For counts ``d2`` and ``mean_count``.
        Scores are those of a model without privacy, from the literature, a pilot study or a public
        data set.

    Returns
    -------
    PlannedScores

    Raises
    ------
    ValueError
        If a guess is missing or impossible, or if an epsilon of 100, or a billion records, does not
        reach the target.

    Examples
    --------
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.planning import plan
    >>> model = PrivateLogisticRegression(epsilon=1.0)
    >>> guesses = {"n_features": 10, "auc": 0.82, "prevalence": 0.3}
    >>> planned = plan(model, n_samples=[1000, 100_000], **guesses)
    >>> [round(point.score, 1) for point in planned.points]
    [0.8, 0.8]
    >>> needed = plan(model, n_samples=10_000, solve_for="epsilon", target=0.8, **guesses)
    >>> 0.01 < needed.points[0].epsilon < 1
    True
    """
    if not isinstance(estimator, PrivateLinearModel):
        raise TypeError(
            f"{quoted(estimator)} is no estimator of skdpdyn: of a pipeline pass the last"
        )
    with SILENCE:  # of seeds and large budgets: no record is read
        guess = _guess(apply_schema(copy(estimator)), guesses)
        truth = guess.truth
        checked_count(n_features, "n_features", least=truth.n_outputs, largest=_MOST_COLUMNS)
        model = clone(estimator).set_params(schema=None, **truth.facts)
        if isinstance(model, AdditiveModel):  # drawn columns are numbers, and have no names
            pairs = None if model.interactions is None else "auto"
            facts = {"bounds": (0.0, 1.0), "categories": None, "monotonic_cst": None}
            model.set_params(**facts, interactions=pairs)  # bounds are those of drawn rows later
        elif hasattr(model, "bounds"):  # those of the records hold for no drawn row
            model.set_params(bounds=None)
        scores = partial(_scores, model, guess, n_features)
        is_easy = is_classifier(model) and not isinstance(model, AdditiveModel)
        fewer = _ALIKE if is_easy else _LEAST_ALIKE
        sizes = several(n_samples, "biu")
        epsilons = several(model.epsilon if epsilon is None else epsilon)
        if solve_for is not None:
            checked_choice(solve_for, "solve_for", ["epsilon", "n_samples"])
            requirement = f"a number below what is expected without privacy, {guess.best}"
            goal = checked_number(target, "target", lambda x: x < guess.best, requirement)

            def mean(size, epsilons_of_fits):
                return float(np.mean(scores(_SHAPES[:1], size, epsilons_of_fits)))

            if solve_for == "epsilon":
                epsilons = [least(lambda x: mean(sizes[0], [x]), goal, EPSILONS)]
            else:
                sizes = [least(lambda x: mean(x, epsilons), goal, SAMPLES)]
        points = [
            PlannedScore(size, epsilon_of_fit, *_interval(*drawn))
            for size in sizes
            for epsilon_of_fit, *drawn in zip(
                epsilons,
                scores(_SHAPES, size, epsilons),
                scores(_SHAPES[:1], max(size // fewer, 2), epsilons),
                scores(_SHAPES[:1], size * _ALIKE, epsilons),
                strict=True,
            )
        ]
    return PlannedScores(guess.name, guess.best, tuple(points))


def several(value: Any, kinds: str = "biuf") -> list[Any]:
    """Return one number, or several of these kinds, as a list."""
    array = np.atleast_1d(value)
    if array.size > 1 and array.dtype.kind not in kinds:  # checks of each would quote them
        whole = "" if "f" in kinds else "whole "
        raise ValueError(f"{quoted(value)} must be a {whole}number, or a list of these")
    return array.tolist()


def least(expected: Callable[[Any], float], goal: float, candidates: list[Any]) -> Any:
    """Return the least candidate whose expected score reaches the goal."""
    at = bisect_left(candidates, goal, key=expected)
    if at == len(candidates):
        raise ValueError(
            f"target={abs(goal)}: not even {candidates[-1]:,} is expected to reach it. Take another"
        )
    return candidates[at]


class _ScoreInterval(NamedTuple):
    """An expected score, and an interval for the score of one fit."""

    score: float
    low: float
    high: float


def _interval(scores: np.ndarray, fewer: np.ndarray, more: np.ndarray) -> _ScoreInterval:
    """Return the mean of the first shape's scores, and an interval for one fit of any shape.

    ``fewer`` and ``more`` are scores of the first shape of other numbers of rows.
    """
    mean = float(scores[0].mean())
    low, high = _nine_in_ten(scores)
    lowest, _ = _nine_in_ten(fewer)
    return _ScoreInterval(mean, min(low, lowest), max(high, float(more.mean()) + _MODEL_ERROR))


def _nine_in_ten(scores: np.ndarray) -> tuple[float, float]:
    """Return the ends of an interval for one fit of any shape."""
    means = scores.mean(axis=1)
    spread = _NINE_IN_TEN * scores.std(axis=1, ddof=1) + _MODEL_ERROR
    high = min(np.max(means + spread), np.max(scores) + _MODEL_ERROR)  # bad fits are not mirrored
    return float(np.min(means - spread)), float(high)


def _scores(
    model: PrivateLinearModel,
    guess: _Guess,
    n_features: int,
    shapes: Sequence[tuple[float, float]],
    n_samples: int,
    epsilons: list[float],
) -> np.ndarray:
    """Return scores of simulated fits, of shape (n_epsilons, n_shapes, n_fits)."""
    n_drawn = min(checked_count(n_samples, "n_samples", least=2), max(_ROWS, 20 * n_features))
    n_fits = min(max(2 * _ROWS // n_drawn, 3), 12)
    requests = (
        Purchase.of(clone(model).set_params(epsilon=epsilon_of_fit), n_samples, n_features).request
        for epsilon_of_fit in epsilons
    )
    budgets = [of_more(request.budget, n_samples / n_drawn) for request in requests]
    score_of = np.empty((len(epsilons), len(shapes), n_fits))
    for fit, generator in enumerate(generators(0, n_fits)):
        normals = generator.standard_normal((n_drawn + _ROWS, n_features), dtype=np.float32)
        for shape, falls in enumerate(shapes):
            X, linear = _rows(normals, falls, guess.truth.n_outputs, generator)
            y = guess.truth.drawn(guess.raw(linear), generator)
            for at, budget in enumerate(budgets):
                budgeted = {"epsilon": budget.epsilon, "delta": budget.delta}
                trained = clone(model).set_params(**budgeted, random_state=fit)
                if isinstance(trained, AdditiveModel):
                    trained.set_params(bounds=np.stack([X.min(axis=0), X.max(axis=0)], axis=1))
                trained.fit(X[:n_drawn], y[:n_drawn])
                score_of[at, shape, fit] = guess.score(trained, X[n_drawn:], y[n_drawn:])
    return score_of


def of_more(budget: Budget, factor: float) -> Budget:
    """Return the budget at which a row is worth ``factor`` rows at this one."""
    if factor == 1:
        return budget
    if budget.delta == 0:
        return replace(budget, epsilon=budget.epsilon * factor)
    mu = max(budget.mu, min(budget.mu * factor, _LARGEST_MU))
    return replace(budget, epsilon=GaussianDP(mu).epsilon(budget.delta))


def _rows(
    normals: np.ndarray, shape: tuple[float, float], n_outputs: int, generator: Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of normal numbers, and a linear score of them with variance 1."""
    fall, weight_fall = shape
    order = np.arange(1, normals.shape[1] + 1, dtype=np.float32)[:, None]
    scales = order ** (-fall / 2)
    scales *= _LENGTH * math.sqrt((1 - _MEAN) / np.sum(scales**2))
    X = normals * scales.T
    X += _LENGTH * math.sqrt(_MEAN / len(order))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    weights = generator.standard_normal((len(order), n_outputs))
    weights = (np.sign(weights) if n_outputs == 1 else weights) * order**-weight_fall
    if n_outputs > 1:
        weights = np.linalg.qr(weights)[0]
    linear = X @ (weights / scales).astype(np.float32)
    return X, (linear - linear.mean(axis=0)) / linear.std(axis=0)


def _guess(estimator: PrivateLinearModel, guesses: dict[str, float]) -> _Guess:
    """Return how targets follow from rows, by the estimator's kind and the user's guesses."""
    targets = estimator.family.targets
    make: Callable[..., _Guess] = _counts if targets.takes_exposure else _numbers
    if is_classifier(estimator):
        labels = targets.public(estimator)
        labels = np.array([0, 1]) if labels is None else labels
        make = partial(_two if len(labels) == 2 else _many, labels)
    elif not targets.takes_exposure:
        if isinstance(estimator.family.units, QuantileUnits):
            make = _quantiles
        make = partial(make, listed(estimator.target_bounds))
    names = list(signature(make).parameters)
    if sorted(names) != sorted(guesses):
        raise ValueError(
            f"guesses={sorted(guesses)}: {type(estimator).__name__} with its targets needs {names}"
        )
    return make(**guesses)


def checked_prevalence(prevalence: Any) -> float:
    """Return a part of the records that can be in the second class."""
    valid = "in [0.001, 0.999]"
    return checked_number(prevalence, "prevalence", lambda x: 0.001 <= x <= 0.999, valid)


def checked_mean_count(mean_count: Any) -> float:
    """Return a mean that counts can have."""
    valid = "above 0 and below 1e9"
    return checked_number(mean_count, "mean_count", lambda x: 0 < x < 1e9, valid)


def _two(labels: np.ndarray, auc: float, prevalence: float) -> _Guess:
    """Return two classes, whose log odds are linear in a normal number."""
    slope = slope_of_auc(auc, checked_prevalence(prevalence))
    truth = TwoClasses({"classes": labels.tolist()})
    first = start_of(truth, slope * _QUANTILES, prevalence, farthest=500)
    return _Guess("auc", auc, truth, lambda linear: first + slope * linear[:, 0])


def slope_of_auc(auc: float, prevalence: float) -> float:
    """Return the standard deviation of normal log odds that have this AUC."""
    checked_number(auc, "auc", lambda x: 0.5 < x <= 0.999, "in (0.5, 0.999]")
    truth = TwoClasses({})

    def reached(slope):
        raw = slope * _QUANTILES
        p = truth.mean(start_of(truth, raw, prevalence, farthest=500) + raw)
        below = np.cumsum(1 - p) - (1 - p) / 2
        return p @ below / (p.sum() * (1 - p).sum())

    return _slope(reached, auc, "auc")


def start_of(truth: Truth, raw: np.ndarray, mean: float, farthest: float) -> float:
    """Return the constant of raw predictions at which the mean target is that of a guess."""
    return brentq(lambda start: np.mean(truth.mean(start + raw)) - mean, -farthest, farthest)


def _many(labels: np.ndarray, accuracy: float) -> _Guess:
    """Return equally frequent classes, each with a direction of its own."""
    n_classes = len(labels)
    valid = f"above 1/{n_classes} and below 1"
    checked_number(accuracy, "accuracy", lambda x: 1 / n_classes < x < 1, valid)
    normals = generators(1)[0].standard_normal((_ROWS, n_classes))

    def reached(slope):
        return SOFTMAX.mean(slope * normals).max(axis=1).mean()

    slope = _slope(reached, accuracy, "accuracy")
    truth = ManyClasses({"classes": labels.tolist()})
    return _Guess("accuracy", accuracy, truth, lambda linear: slope * linear)


def _numbers(bounds: Any, r2: float) -> _Guess:
    """Return normal numbers, of which a part is linear in rows."""
    checked_number(r2, "r2", lambda x: 0 < x < 1, "in (0, 1)")
    return _normal("r2", r2, bounds, math.sqrt(1 - r2))


def _quantiles(bounds: Any, d2: float) -> _Guess:
    """Return normal numbers, whose pinball losses about rows are a part of those about a constant.

    That of the best quantile is in proportion to the standard deviation, whichever it is.
    """
    checked_number(d2, "d2", lambda x: 0 < x < 1, "in (0, 1)")
    return _normal("d2", d2, bounds, 1 - d2)


def _normal(name, best, bounds, noise):
    """Return normal numbers of variance 1, with noise about what is linear in rows."""
    low, high = (-1.0, 1.0) if bounds is None else bounds
    truth = NormalNumbers(
        {"target_bounds": (low, high)}, noise, (low + high) / 2, (high - low) / _RANGE
    )
    slope = math.sqrt(1 - noise**2)
    return _Guess(name, best, truth, lambda linear: slope * linear[:, 0])


def _counts(d2: float, mean_count: float) -> _Guess:
    """Return Poisson counts, the logarithm of whose rate is linear in rows."""
    checked_number(d2, "d2", lambda x: 0 < x < 1, "in (0, 1)")
    truth = PoissonCounts({}, checked_mean_count(mean_count))

    def raw_of(slope, linear):
        return slope * linear - slope**2 / 2

    def reached(slope):
        rates = truth.mean(raw_of(slope, _QUANTILES))
        y = generators(1)[0].poisson(rates)
        deviances = [np.mean(xlogy(y, y / r) - y + r) for r in (rates, np.mean(y))]
        return 1 - deviances[0] / deviances[1]

    slope = _slope(reached, d2, "d2", most=3.0)
    return _Guess("d2", d2, truth, lambda linear: raw_of(slope, linear[:, 0]))


def _slope(
    reached: Callable[[float], float], target: float, name: str, most: float = 50.0
) -> float:
    """Return the slope whose score without privacy equals the user's guess."""
    if not reached(most) > target:
        raise ValueError(f"{name}={target}: no linear model of such a target reaches it")
    return float(brentq(lambda slope: reached(slope) - target, 1e-6, most, xtol=1e-4))
