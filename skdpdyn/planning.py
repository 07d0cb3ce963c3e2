"""Plans before a fit: how good it will be, how many rows or which epsilon it needs.

Nearly all that a private fit loses turns on one public number, n mu / (f d): the sum over all
records in units of the noise, for each column. So a plan needs no record. It draws rows that look
like real ones, targets that are as predictable as you say, and fits the very estimator on them.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri, softmax, xlogy
from sklearn.base import clone, is_classifier

from skdpdyn.core.noise import Generator, generators
from skdpdyn.core.schema import apply_schema
from skdpdyn.linear_model.base import PrivateLinearModel
from skdpdyn.linear_model.gam import AdditiveModel
from skdpdyn.privacy import Budget, GaussianDP
from skdpdyn.privacy.checks import checked_choice, checked_count, checked_number
from skdpdyn.privacy.display import Document, Shown
from skdpdyn.training.foreign import SILENCE
from skdpdyn.training.request import request_of
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
_MODEL_ERROR = 0.01  # of an expected score, where little is lost to noise
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
        Ends of an interval for the score of one fit, meant to hold it nine times in ten.

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
        What it would be without privacy: the guess that was given.
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
class _Truth:
    """Law of targets given rows, and the score of a model of them."""

    name: str
    best: float
    target: Callable[[np.ndarray, Generator], np.ndarray]
    params: dict[str, Any]
    n_outputs: int = 1

    def score(self, model: Any, X: np.ndarray, y: np.ndarray) -> float:
        """Return the score of a fitted model."""
        if self.name != "auc":
            return float(model.score(X, y))
        from sklearn.metrics import roc_auc_score  # slow to load

        return float(roc_auc_score(y == model.classes_[1], model.decision_function(X)))


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
    """Return how well an estimator will do on data of this shape, before any record is read.

    Some guesses of what a model without privacy would reach stand in for the data. Rows are drawn
    that look like real ones, and the estimator with its own solver and budget is fitted on them.
    More than 10,000 rows are not drawn: as many rows with the same sum of records over noise, n mu,
    stand for them. Draws repeat themselves, so that a plan is the same plan tomorrow. An additive
    model is fitted on columns of numbers alone: ``bounds`` are those of drawn rows, and what it has
    for your columns by name does not count.

    The interval holds what rows of other kinds would do, and 0.01 more: rows where few directions
    tell the target, and rows where many tell a little of it each.

    Parameters
    ----------
    estimator : PrivateLinearModel
        An estimator of this package, unfitted. Of a pipeline pass the last step, with the number of
        columns that reach it.
    n_samples : int, sequence of int or None, default=None
        Number of records, or of persons where ``fit`` will get ``groups``; several make a table.
        None only with ``solve_for="n_samples"``.
    n_features : int
        Number of columns. Of one-hot columns and words, only those that are not rare count.
    epsilon : float, sequence of float or None, default=None
        Budgets; several make a table. None: that of the estimator.
    solve_for : {"epsilon", "n_samples"} or None, default=None
        What to look for: the least epsilon, or number of records, whose expected score reaches
        ``target``. The answer is the one point of what is returned, to two digits.
    target : float or None, default=None
        The score to reach.
    **guesses : float
        For two classes ``auc`` and ``prevalence``, the part of the records in the second class; for
        more classes ``accuracy``; for `PrivateRidge` ``r2``; for counts ``d2`` and ``mean_count``.
        Scores are those of a model without privacy, from the literature, a pilot or a public set.

    Returns
    -------
    PlannedScores

    Raises
    ------
    ValueError
        If a guess is missing or cannot be, or if no epsilon up to 100, or no billion of records,
        reaches the target.

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
        raise TypeError(f"{estimator!r} is no estimator of skdpdyn: of a pipeline pass the last")
    with SILENCE:  # of seeds and large budgets: no record is read
        truth = _truth(apply_schema(copy(estimator)), guesses)
        checked_count(n_features, "n_features", least=truth.n_outputs, largest=_MOST_COLUMNS)
        model = clone(estimator).set_params(schema=None, **truth.params)
        if isinstance(model, AdditiveModel):  # drawn columns are numbers, and have no names
            pairs = None if model.interactions is None else "auto"
            facts = {"bounds": (0.0, 1.0), "categories": None, "monotonic_cst": None}
            model.set_params(**facts, interactions=pairs)  # bounds are those of drawn rows later
        elif hasattr(model, "bounds"):  # those of the records hold for no drawn row
            model.set_params(bounds=None)
        scores = partial(_scores, model, truth, n_features)
        sizes = several(n_samples)
        epsilons = several(model.epsilon if epsilon is None else epsilon)
        if solve_for is not None:
            checked_choice(solve_for, "solve_for", ["epsilon", "n_samples"])
            requirement = f"a number below what is expected without privacy, {truth.best}"
            goal = checked_number(target, "target", lambda x: x < truth.best, requirement)

            def mean(size, of):
                return float(np.mean(scores(_SHAPES[:1], size, of)))

            if solve_for == "epsilon":
                epsilons = [least(lambda x: mean(sizes[0], [x]), goal, EPSILONS)]
            else:
                sizes = [least(lambda x: mean(x, epsilons), goal, SAMPLES)]
        points = [
            PlannedScore(size, of, *_interval(drawn))
            for size in sizes
            for of, drawn in zip(epsilons, scores(_SHAPES, size, epsilons), strict=True)
        ]
    return PlannedScores(truth.name, truth.best, tuple(points))


def several(value: Any) -> list[Any]:
    """Return one number, or several, as a list."""
    return np.atleast_1d(value).tolist()


def least(expected: Callable[[Any], float], goal: float, candidates: list[Any]) -> Any:
    """Return the least candidate whose expected score reaches the goal."""
    at = bisect_left(candidates, goal, key=expected)
    if at == len(candidates):
        raise ValueError(
            f"target={abs(goal)}: not even {candidates[-1]:,} is expected to reach it. Take another"
        )
    return candidates[at]


def _interval(scores: np.ndarray) -> tuple[float, float, float]:
    """Return the mean of the first shape's scores, and an interval for one fit of any shape."""
    means = scores.mean(axis=1)
    spread = _NINE_IN_TEN * scores.std(axis=1, ddof=1) + _MODEL_ERROR
    high = min(np.max(means + spread), np.max(scores) + _MODEL_ERROR)  # bad fits are not mirrored
    return float(means[0]), float(np.min(means - spread)), float(high)


def _scores(
    model: PrivateLinearModel,
    truth: _Truth,
    n_features: int,
    shapes: Sequence[tuple[float, float]],
    n_samples: int,
    epsilons: list[float],
) -> np.ndarray:
    """Return scores of simulated fits, of shape (n_epsilons, n_shapes, n_fits)."""
    n_drawn = min(checked_count(n_samples, "n_samples", least=2), max(_ROWS, 20 * n_features))
    n_fits = min(max(2 * _ROWS // n_drawn, 3), 12)
    requests = (
        request_of(clone(model).set_params(epsilon=of), n_samples, n_features) for of in epsilons
    )
    budgets = [of_more(request.budget, n_samples / n_drawn) for request in requests]
    score_of = np.empty((len(epsilons), len(shapes), n_fits))
    for fit, generator in enumerate(generators(0, n_fits)):
        normals = generator.standard_normal((n_drawn + _ROWS, n_features), dtype=np.float32)
        for shape, of in enumerate(shapes):
            X, linear = _rows(normals, of, truth.n_outputs, generator)
            y = truth.target(linear, generator)
            for at, budget in enumerate(budgets):
                budgeted = {"epsilon": budget.epsilon, "delta": budget.delta}
                trained = clone(model).set_params(**budgeted, random_state=fit)
                if isinstance(trained, AdditiveModel):
                    trained.set_params(bounds=np.stack([X.min(axis=0), X.max(axis=0)], axis=1))
                trained.fit(X[:n_drawn], y[:n_drawn])
                score_of[at, shape, fit] = truth.score(trained, X[n_drawn:], y[n_drawn:])
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


def _truth(estimator: PrivateLinearModel, guesses: dict[str, float]) -> _Truth:
    """Return how targets follow from rows, by the estimator's kind and the user's guesses."""
    targets = estimator.family.targets
    make: Callable[..., _Truth] = _counts if targets.takes_exposure else _numbers
    if is_classifier(estimator):
        labels = targets.public(estimator)
        labels = np.array([0, 1]) if labels is None else labels
        make = partial(_two if len(labels) == 2 else _many, labels)
    else:
        make = partial(make, listed(estimator.target_bounds))
    names = list(signature(make).parameters)
    if sorted(names) != sorted(guesses):
        raise ValueError(
            f"guesses={sorted(guesses)}: {type(estimator).__name__} with its targets needs {names}"
        )
    return make(**guesses)


def _two(labels: np.ndarray, auc: float, prevalence: float) -> _Truth:
    """Return two classes, whose log odds are linear in a normal number."""
    checked_number(auc, "auc", lambda x: 0.5 < x <= 0.999, "in (0.5, 0.999]")
    checked_number(prevalence, "prevalence", lambda x: 0.001 <= x <= 0.999, "in [0.001, 0.999]")

    def start(slope):
        return brentq(lambda b: np.mean(expit(b + slope * _QUANTILES)) - prevalence, -500, 500)

    def reached(slope):
        p = expit(start(slope) + slope * _QUANTILES)
        below = np.cumsum(1 - p) - (1 - p) / 2
        return p @ below / (p.sum() * (1 - p).sum())

    slope = _slope(reached, auc, "auc")
    first = start(slope)

    def target(linear, generator):
        return labels[
            (generator.random(len(linear)) < expit(first + slope * linear[:, 0])).astype(int)
        ]

    return _Truth("auc", auc, target, {"classes": labels.tolist()})


def _many(labels: np.ndarray, accuracy: float) -> _Truth:
    """Return equally frequent classes, each with a direction of its own."""
    n_classes = len(labels)
    valid = f"above 1/{n_classes} and below 1"
    checked_number(accuracy, "accuracy", lambda x: 1 / n_classes < x < 1, valid)
    normals = generators(1)[0].standard_normal((_ROWS, n_classes))
    slope = _slope(lambda g: softmax(g * normals, axis=1).max(axis=1).mean(), accuracy, "accuracy")

    def target(linear, generator):
        return labels[np.argmax(slope * linear + generator.gumbel(size=linear.shape), axis=1)]

    return _Truth("accuracy", accuracy, target, {"classes": labels.tolist()}, n_classes)


def _numbers(bounds: Any, r2: float) -> _Truth:
    """Return normal numbers, of which a part is linear in rows."""
    checked_number(r2, "r2", lambda x: 0 < x < 1, "in (0, 1)")
    low, high = (-1.0, 1.0) if bounds is None else bounds

    def target(linear, generator):
        numbers = math.sqrt(r2) * linear[:, 0]
        numbers += math.sqrt(1 - r2) * generator.standard_normal(len(linear))
        return (low + high) / 2 + (high - low) / _RANGE * numbers

    return _Truth("r2", r2, target, {"target_bounds": (low, high)})


def _counts(bounds: Any, d2: float, mean_count: float) -> _Truth:
    """Return Poisson counts, the logarithm of whose rate is linear in rows."""
    checked_number(d2, "d2", lambda x: 0 < x < 1, "in (0, 1)")
    checked_number(mean_count, "mean_count", lambda x: 0 < x < 1e9, "above 0 and below 1e9")

    def rate(slope, linear):
        return mean_count * np.exp(slope * linear - slope**2 / 2)

    def reached(slope):
        rates = rate(slope, _QUANTILES)
        y = generators(1)[0].poisson(rates)
        deviances = [np.mean(xlogy(y, y / r) - y + r) for r in (rates, np.mean(y))]
        return 1 - deviances[0] / deviances[1]

    slope = _slope(reached, d2, "d2", most=3.0)

    def target(linear, generator):
        return generator.poisson(rate(slope, linear[:, 0]))

    return _Truth("d2", d2, target, {})


def _slope(
    reached: Callable[[float], float], target: float, name: str, most: float = 50.0
) -> float:
    """Return the slope whose score without privacy equals the user's guess."""
    if not reached(most) > target:
        raise ValueError(f"{name}={target}: no linear model of such a target reaches it")
    return float(brentq(lambda slope: reached(slope) - target, 1e-6, most, xtol=1e-4))
