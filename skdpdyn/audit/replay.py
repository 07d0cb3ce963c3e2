"""Replays: each release on a data set, and how far it moves on neighbours at the same outcomes."""

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache, singledispatch
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaincinv
from sklearn.base import clone

from skdpdyn.audit.one_fit import outer_targets
from skdpdyn.audit.results import Audit, Finding, audited
from skdpdyn.core.noise import generators, release
from skdpdyn.core.schema import apply_schema
from skdpdyn.data.local import rows_of
from skdpdyn.exceptions import (
    PrivacyLeakWarning,
    UnsupportedMechanismError,
)
from skdpdyn.privacy import (
    Composition,
    CyclicBatches,
    Gaussian,
    NoisyGradientDescent,
    OnePass,
    PerturbedObjective,
    PerturbedOutput,
    PoissonSubsampled,
    Selection,
    Vocabulary,
    WithoutReplacement,
)
from skdpdyn.training.targets import listed

__all__ = ["Call", "Listener", "allowed", "listened", "over_drawn", "replay", "replayed"]

_PACKAGE = Path(__file__).parents[1]
_NOISE_DRAWS = 10_000  # of each scale, to hold noise against what it says
_FAR = 10.0  # length of a row that has to be shortened, over the norm that it is shortened to


# --- releases, listened to ------------------------------------------------------------------------


@dataclass
class Call:
    """A call of `release`: its place in the code, the point, the output, and who asked for it."""

    line: tuple[str, int]
    point: np.ndarray
    scale: np.ndarray
    distribution: str
    outcome: np.ndarray
    asked_by: tuple[tuple[str, int], ...]


class Listener:
    """Stands for `release`: notes points and noise, and repeats the outputs of another run.

    An attacker is given all but the noise of each release, earlier ones and all batches included:
    so the noise has a generator of its own, and the fit's goes on alike on both data sets.

    Parameters
    ----------
    heard : list of Call or None, default=None
        Releases on the neighbour, whose outcomes are repeated. None: outcomes are drawn.
    seed : int or None, default=None
        Seed of the outcomes.
    """

    def __init__(self, heard: list[Call] | None = None, seed: int | None = None) -> None:
        self.calls: list[Call] = []
        self.lines: set[tuple[str, int]] = set()
        self._heard = heard
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)  # made-up data
            (self._noise,) = generators(seed)

    def __call__(
        self,
        point: Any,
        scale: Any,
        generator: Any,
        distribution: str = "gaussian",
        n_threads: int = 1,
    ) -> Any:
        """Release a point, or repeat the outcome of the same release of the neighbour."""
        point = np.array(point, dtype=np.float64)
        if self._heard is None:
            outcome = release(point, scale, self._noise, distribution, n_threads)
        else:
            outcome = self._heard[len(self.calls)].outcome
        lines = tuple(_lines(sys._getframe(1)))
        self.lines |= set(lines)
        scale = np.broadcast_to(np.asarray(scale, np.float64), point.shape)
        self.calls.append(Call(lines[0], point, scale, distribution, outcome, lines))
        return np.array(outcome) if np.ndim(outcome) else outcome


def _lines(frame: Any) -> Iterator[tuple[str, int]]:
    """Yield the lines of the package that a call came through, the last one first."""
    while frame is not None:
        name = _in_package(frame.f_code.co_filename)
        if name is not None:
            yield name, frame.f_lineno
        frame = frame.f_back


@cache
def _in_package(name: str) -> str | None:
    """Return the path of a file within the package, or None."""
    path = Path(name)
    return path.relative_to(_PACKAGE).as_posix() if path.is_relative_to(_PACKAGE) else None


@contextmanager
def _in_place_of(function: Callable[..., Any], placeholder: Any) -> Iterator[None]:
    """Have a placeholder called wherever a module calls a function by its own name."""
    name = function.__name__
    here = sys.modules[__name__]
    calling = [
        module
        for module in list(sys.modules.values())
        if getattr(module, "__dict__", {}).get(name) is function and module is not here
    ]
    try:
        for module in calling:
            setattr(module, name, placeholder)
        yield
    finally:
        for module in calling:
            setattr(module, name, function)


@contextmanager
def listened(listener: Listener) -> Iterator[None]:
    """Have a listener stand for `release` wherever a module calls it; of the whole process."""
    with _in_place_of(release, listener):
        yield


def replayed(
    run: Callable[[Any], Any], tables: Sequence[Any], seed: int | None = None
) -> tuple[Any, list[tuple[Call, np.ndarray]]]:
    """Run on a data set, and on its neighbours with the same outcomes.

    Parameters
    ----------
    run : callable
        Takes a data set and returns what has ``mechanism_``. It must draw alike on all data sets.
    tables : sequence
        The data set, and its neighbours.
    seed : int or None, default=None
        Seed of the outcomes.

    Returns
    -------
    record
        The record of the run on the first data set.
    list of (Call, ndarray of shape (n_neighbours, n_coordinates)) pairs
        Each release, and how far it moves on each neighbour, in units of its noise.

    Raises
    ------
    ValueError
        If a neighbour releases something else, or with other noise: a scale is public.
    """
    first, *others = tables
    heard = Listener(seed=seed)
    with listened(heard):
        result = run(first)
    neighbours = []
    for other in others:
        neighbours.append(Listener(heard.calls))
        with listened(neighbours[-1]):
            run(other)
    moved = []
    for place, call in enumerate(heard.calls):
        calls = [
            neighbour.calls[place] if place < len(neighbour.calls) else None
            for neighbour in neighbours
        ]
        for other in calls:
            if (
                other is None
                or other.distribution != call.distribution
                or not np.array_equal(other.scale, call.scale)
            ):
                raise ValueError(
                    f"{call.line[0]}:{call.line[1]} releases something else, or with other noise, "
                    "on a neighbour: what is released and its scale must be public"
                )
        far = [
            np.ravel((call.point - other.point) / call.scale)
            for other in calls
            if other is not None
        ]
        moved.append((call, np.array(far)))
    return (result[0] if isinstance(result, tuple) else result).mechanism_, moved


# --- what a record allows -------------------------------------------------------------------------


@singledispatch
def allowed(record: Any, n_calls: int) -> list[float]:
    """Return how far each release of a record may move, in units of its noise.

    To audit a record of your own, register a function of it: ``@allowed.register``.

    Parameters
    ----------
    record : record
        What ran.
    n_calls : int
        The number of releases that are left to be explained.

    Returns
    -------
    list of float

    Raises
    ------
    UnsupportedMechanismError
        If nothing is known of such a record.
    """
    raise UnsupportedMechanismError(
        f"{type(record).__name__} is no record whose releases can be replayed: use kind='one_fit'"
    )


@allowed.register(Gaussian)
@allowed.register(Vocabulary)
def _(record: Gaussian | Vocabulary, n_calls: int) -> list[float]:
    return [1 / record.noise_multiplier]


@allowed.register
def _(record: PerturbedOutput, n_calls: int) -> list[float]:
    return [1 / record.noise_multiplier]  # of gamma noise too: its density falls with the norm


@allowed.register
def _(record: PerturbedObjective, n_calls: int) -> list[float]:
    return []  # its linear term is not released


@allowed.register
def _(record: Selection, n_calls: int) -> list[float]:
    return [math.inf] * (n_calls - 1) + [record.trial.mu]  # trials, each seen alone, then scores


@allowed.register
def _(record: Composition, n_calls: int) -> list[float]:
    parts = record.mechanisms
    if all(isinstance(part, PoissonSubsampled) for part in parts):  # rounds of a few steps each
        snapshots, steps = parts
        a_round = [0, *[1] * (steps.n_steps // snapshots.n_steps)]
        return [_of_batch(parts[which]) for which in a_round * snapshots.n_steps]
    limits: list[float] = []
    for part in parts:
        limits += allowed(part, n_calls - len(limits))
    return limits


@allowed.register
def _(record: NoisyGradientDescent, n_calls: int) -> list[float]:
    noise = np.broadcast_to(record.noise_multiplier, record.n_steps)
    if record.smoothness is None:
        return [1 / float(std) for std in noise]
    return [_of_last_iterate(record, noise[-1], range(record.n_steps))]


@allowed.register
def _(record: CyclicBatches, n_calls: int) -> list[float]:
    noise = np.broadcast_to(record.noise_multiplier, record.n_steps)
    n_batches = record.n_steps // record.n_epochs
    places = (range(place, record.n_steps, n_batches) for place in range(n_batches))
    return [max(_of_last_iterate(record, noise[-1], steps) for steps in places)]


@allowed.register
def _(record: WithoutReplacement, n_calls: int) -> list[float]:
    return [_of_last_iterate(record, record.noise_multiplier, range(record.n_steps))]


@allowed.register
def _(record: OnePass, n_calls: int) -> list[float]:
    return [record.adjacency.sum_sensitivity(record.lipschitz) / record.noise] * n_calls


@allowed.register
def _(record: PoissonSubsampled, n_calls: int) -> list[float]:
    if n_calls == record.n_steps:
        return [_of_batch(record)] * n_calls
    # only the last iterate is released; step sizes that are not told fall like 1/sqrt(k)
    step_size = 1 / np.sqrt(1 + np.arange(record.n_steps))
    if record.step_size is not None:
        step_size = np.broadcast_to(record.step_size, record.n_steps)
    return [_of_batch(record) * float(np.sum(step_size)) / step_size[-1]]


def _of_batch(record: PoissonSubsampled) -> float:
    """Return how far a record in the batch of a step moves its sum: C, or 2 C."""
    return float(record.adjacency.sum_sensitivity(1.0) / record.noise_multiplier)


def _of_last_iterate(record: Any, noise_multiplier: float, steps: range) -> float:
    """Return how far these steps move the last iterate, where every step contracts."""
    if record.smoothness is None:
        raise UnsupportedMechanismError(
            f"steps of a {type(record).__name__} without a known smoothness may move the last "
            "iterate by any distance: use kind='one_fit'"
        )
    step_size = np.broadcast_to(record.step_size, record.n_steps)
    factor = np.maximum(
        np.abs(1 - step_size * record.strong_convexity), np.abs(1 - step_size * record.smoothness)
    )
    moved = math.fsum(step_size[k] * float(np.prod(factor[k + 1 :])) for k in steps)
    return float(moved / (step_size[-1] * noise_multiplier))


# --- neighbours, and the limit of each release ---------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """Made-up records, one of which may be left out."""

    X: np.ndarray
    y: np.ndarray | None
    left_out: int | None = None

    def fit(self, estimator: Any) -> Any:
        """Fit a copy of an estimator."""
        arrays = (self.X,) if self.y is None else (self.X, self.y)
        model = clone(estimator)
        if self.left_out is None:
            return model.fit(*arrays)
        weight = np.ones(len(self.X))
        weight[self.left_out] = 0.0  # the public normaliser stays

        def weighted(*arguments: Any, **options: Any) -> Any:
            return rows_of(*arguments, **options).weighted_by(weight)

        with _in_place_of(rows_of, weighted):
            return model.fit(*arrays)


def _tables(estimator: Any, shape: tuple[int, int], seed: int) -> list[_Table]:
    """Return a data set, and neighbours whose first or last record is as far away as can be."""
    n, d = shape
    (generator,) = generators(seed)
    norm = getattr(estimator, "data_norm", 1.0)
    norm = norm if isinstance(norm, (int, float)) else 1.0
    place = (0, n - 1)[seed % 2]
    spread = (1.0, 0.0)[seed // 2 % 2]  # records like each other, or none at all
    X = generator.uniform(-1, 1, (n, d)) * norm * spread / math.sqrt(d)
    X[place] = 0.0
    X[place, 0] = norm * (1.0, _FAR)[seed % 2]
    asked = apply_schema(copy(estimator))
    low, high = outer_targets(asked) or (None, None)
    middle = _middle_target(asked)
    y = None if low is None else generator.choice(np.array([low, high]), n)

    def but(row: Any = None, target: Any = None) -> _Table:
        rows = X.copy()
        targets = None if y is None else y.copy()
        if row is not None:
            rows[place] = row
        if targets is not None:
            targets[place] = high if target is None else target
        return _Table(rows, targets)

    here = but()
    if str(getattr(estimator, "adjacency", "replace_one")) == "add_remove":
        return [here, _Table(here.X, here.y, left_out=place)]
    far = X[place]
    across = np.roll(X[place], 1)
    return [
        here,
        but(target=low),
        but(target=middle),
        but(-far, low),
        but(-far),
        but(0.0),
        but(across, low),
        but(-0.03 * far, low),
    ]


def _middle_target(estimator: Any) -> Any:
    """Return a target between the outer ones, or None for an estimator without targets."""
    labels = listed(getattr(estimator, "classes", None))
    if labels is not None:
        return list(labels)[len(labels) // 2]
    low, high = outer_targets(estimator) or (0, 0)
    return high if hasattr(estimator, "classes") else math.floor((low + high) / 2)


def replay(estimator: Any, shape: tuple[int, int], n_trials: int, confidence: float) -> Audit:
    """Compare how far each release moves with the limit of its part of the record."""
    estimator.set_params(random_state=0)  # batches are alike on neighbours
    nearest: dict[str, Finding] = {}
    scales: dict[str, float] = {}
    fitted: list[Any] = []

    def run(table: _Table) -> Any:
        fitted.append(table.fit(estimator))
        return fitted[-1]

    for seed in range(n_trials):
        record, moved = replayed(run, _tables(estimator, shape, seed), seed=seed)
        limits = _named_limits(record, len(moved))
        if len(limits) != len(moved):
            raise UnsupportedMechanismError(
                f"{type(record).__name__} explains {len(limits)} of {len(moved)} releases: use "
                "kind='one_fit'"
            )
        for (name, limit), (call, far) in zip(limits, moved, strict=True):
            finding = Finding(name, limit, float(np.max(np.linalg.norm(far, axis=1))))
            if name not in nearest or finding.ratio > nearest[name].ratio:
                nearest[name] = finding
            if call.distribution == "gaussian":
                scales[name] = float(np.ravel(call.scale)[0])
    findings = list(nearest.values())
    if scales:
        risk = (1 - confidence) / len(scales)
        short = max(over_drawn(scale, risk) for scale in scales.values())
        findings.append(Finding("noise that is drawn", 1.0, short))
    return audited("replay", "distance over noise; noise over what is drawn", fitted[0], findings)


def _named_limits(record: Any, n_calls: int) -> list[tuple[str, float]]:
    """Return the name of the part and the largest distance of each release of a record."""
    names = getattr(record, "names", None)
    if any(isinstance(part, PerturbedObjective) for part in getattr(record, "mechanisms", ())):
        raise UnsupportedMechanismError(
            "objective perturbation does not release its linear term, so that no replay sees it: "
            "use kind='one_fit'"
        )
    if names is None:
        return [(type(record).__name__, limit) for limit in allowed(record, n_calls)]
    limits: list[tuple[str, float]] = []
    for name, part in zip(names, record.mechanisms, strict=True):
        limits += [(name, limit) for limit in allowed(part, n_calls - len(limits))]
    return limits


def over_drawn(scale: float, risk: float) -> float:
    """Return by how much, at least, a scale is larger than the noise that `release` draws of it.

    Parameters
    ----------
    scale : float
        Scale of Gaussian noise.
    risk : float
        Probability that a true scale is said to be too large.

    Returns
    -------
    float
        Above 1 if noise is smaller than it says.
    """
    (generator,) = generators(None)
    drawn = release(np.zeros(_NOISE_DRAWS), scale, generator) / scale
    return math.sqrt(2 * gammaincinv(_NOISE_DRAWS / 2, risk) / float(np.sum(np.square(drawn))))
