"""Audits: the largest leak that a fit claims, beside the leak its worst neighbours show.

Two kinds, which see different faults. A replay records what is handed to
`skdpdyn.core.noise.release` on one data set, repeats the outcomes on its neighbours, and compares
how far each release moves, in units of its noise, with what its part of the record allows. It is
exact, and finds where a fault is; it does not see noise of steps that are not shown. A canary is a
black box: it fits one record in and out many times, attacks what was published, and needs many
fits.

Audits look at records without noise. They make up data of their own, and are given none.
"""

import math
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import betaincinv, gammaincinv, ndtri
from sklearn.base import clone

from skdpdyn.core.noise import generators, release
from skdpdyn.core.schema import apply_schema
from skdpdyn.data.local import rows_of
from skdpdyn.exceptions import (
    PrivacyLeakWarning,
    PrivacyWeakWarning,
    UnsupportedMechanismError,
    optional,
)
from skdpdyn.privacy import (
    Composition,
    CyclicBatches,
    Gaussian,
    GaussianDP,
    NoisyGradientDescent,
    OnePass,
    PerturbedObjective,
    PerturbedOutput,
    PoissonSubsampled,
    Selection,
    Vocabulary,
    WithoutReplacement,
)
from skdpdyn.privacy.checks import checked_choice, has_own
from skdpdyn.privacy.display import Document, Shown
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.training.targets import listed

__all__ = ["Audit", "Call", "Finding", "Listener", "allowed", "audit", "listened", "replayed"]

_PACKAGE = Path(__file__).parent
_ROUNDING = 1e-6  # part of a distance that the rounding of sums may add
_NOISE_DRAWS = 10_000  # of each scale, to hold noise against what it says
_CANARY = 3  # seed of the data: the last record is the canary, and the others are empty
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
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(_PACKAGE):
            yield path.relative_to(_PACKAGE).as_posix(), frame.f_lineno
        frame = frame.f_back


@contextmanager
def _in_place_of(function: Callable[..., Any], placeholder: Any) -> Iterator[None]:
    """Have a placeholder called wherever a module calls a function by its own name."""
    name = function.__name__
    here = sys.modules[__name__]
    with ExitStack() as patches:
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is function and module is not here:
                patches.enter_context(patch.object(module, name, placeholder))
        yield


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
        calls = [one.calls[place] if place < len(one.calls) else None for one in neighbours]
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
        far = [np.ravel((call.point - one.point) / call.scale) for one in calls if one is not None]
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
        f"{type(record).__name__} is no record whose releases can be replayed: use kind='canary'"
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
        return [1 / float(one) for one in noise]
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
            "iterate by any distance: use kind='canary'"
        )
    step_size = np.broadcast_to(record.step_size, record.n_steps)
    factor = np.maximum(
        np.abs(1 - step_size * record.strong_convexity), np.abs(1 - step_size * record.smoothness)
    )
    moved = sum(step_size[k] * float(np.prod(factor[k + 1 :])) for k in steps)
    return float(moved / (step_size[-1] * noise_multiplier))


# --- the audit ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """Claim of one part, and its measured value.

    Attributes
    ----------
    name : str
        Name of the part in the record.
    claimed : float
        Largest value that the claim allows.
    measured : float
        What was measured: exact in a replay, a lower bound for a canary.
    """

    name: str
    claimed: float
    measured: float

    @property
    def ratio(self) -> float:
        """Measured value over the claimed one."""
        return self.measured / self.claimed

    @property
    def holds(self) -> bool:
        """Whether no more was measured than is claimed."""
        return self.ratio <= 1 + _ROUNDING


@dataclass(frozen=True, repr=False)
class Audit(Shown):
    """Claims of a configuration, beside measured values.

    Attributes
    ----------
    kind : str
        "replay" or "canary".
    what : str
        The configuration.
    measure : str
        What the numbers of the findings are.
    findings : tuple of Finding
        The parts.
    epsilon, delta : float
        The claim of the whole fit.
    """

    kind: str
    what: str
    measure: str
    findings: tuple[Finding, ...]
    epsilon: float
    delta: float

    @property
    def passed(self) -> bool:
        """Whether nothing showed more than it claims. A canary can only fail to find a fault."""
        return all(finding.holds for finding in self.findings)

    def document(self) -> Document:
        """Return claims and measures, for text and HTML.

        Returns
        -------
        Document
        """
        rows = [
            (one.name, f"{one.claimed:.4f}", f"{one.measured:.4f}{'' if one.holds else ' MORE'}")
            for one in self.findings
        ]
        verdict = "no more than claimed" if self.passed else "MORE THAN CLAIMED: report this"
        return Document(
            f"{self.kind} of {self.what}",
            [("", "claimed", "measured"), *rows],
            [
                f"measured: {self.measure}",
                f"claimed: epsilon={self.epsilon:.6g} at delta={self.delta:.3g}",
                verdict,
            ],
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw claimed against measured, a pair of bars for each part.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on; None: new ones.

        Returns
        -------
        matplotlib axes
        """
        ax = (
            optional("matplotlib.pyplot", "plot").subplots(layout="constrained")[1]
            if ax is None
            else ax
        )
        places = np.arange(len(self.findings))
        for shift, name in ((-0.2, "claimed"), (0.2, "measured")):
            values = [getattr(finding, name) for finding in self.findings]
            ax.barh(places + shift, values, height=0.4, label=name)
        ax.set(yticks=places, yticklabels=[finding.name for finding in self.findings])
        ax.set(xlabel=self.measure, title=textwrap.fill(f"{self.kind} of {self.what}", 38))
        ax.invert_yaxis()
        ax.legend()
        return ax


def audit(
    estimator: Any,
    X_shape: tuple[int, int] | None = None,
    *,
    n_trials: int | None = None,
    kind: str = "replay",
    confidence: float = 0.999,
) -> Audit:
    """Audit a fitted model or a configuration on made-up neighbours.

    Replaces a function of this package while it runs: fit nothing else in the process meanwhile.

    Parameters
    ----------
    estimator : estimator
        An estimator or a scaler of skdpdyn, or of yours; its parameters are audited, and nothing
        that a fit learnt.
    X_shape : (int, int) or None, default=None
        Number of records and of columns. None: those of the fit.
    n_trials : int or None, default=None
        "replay": number of data sets, each with its neighbours; None: 4. "canary": number of fits
        with the record, and without; None: 1,000. To find that a mu is twice what it claims takes
        about ``40 / mu**2`` fits.
    kind : {"replay", "canary"}, default="replay"
        See above.
    confidence : float, default=0.999
        Probability that a true claim passes, at least: of a canary, and of the noise in a replay.

    Returns
    -------
    Audit
        Print it, ask ``passed``, or ``plot()`` it.

    Raises
    ------
    ValueError
        If a parameter is invalid.
    UnsupportedMechanismError
        If a replay knows nothing of what runs, as of objective perturbation.

    Examples
    --------
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.audit import audit
    >>> found = audit(PrivateLogisticRegression(1.0, 1e-2, classes=[0, 1]), (50, 3))
    >>> found.passed, found.epsilon
    (True, 1.0)
    """
    checked_choice(kind, "kind", ("replay", "canary"))
    if not has_own(estimator, "privacy_cost"):
        raise ValueError(f"a {type(estimator).__name__} has no privacy_cost: pass an estimator")
    if X_shape is None:
        if not hasattr(estimator, "n_samples_"):
            raise ValueError("X_shape=None is for fitted models: give (n_samples, n_features)")
        X_shape = estimator.n_samples_, estimator.n_features_in_
    if n_trials is None:
        n_trials = 4 if kind == "replay" else 1000
    judge = _replay if kind == "replay" else _canary
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # made-up data
        warnings.simplefilter("ignore", PrivacyWeakWarning)
        return judge(clone(estimator), X_shape, n_trials, confidence)


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
    low, high, middle, kind = _targets(apply_schema(copy(estimator)))
    y = None if kind is None else generator.choice(np.array([low, high]), n)

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


def _targets(estimator: Any) -> tuple[Any, Any, Any, Any]:
    """Return the least, the largest and a middle target, and their kind; None without targets."""
    if hasattr(estimator, "classes"):
        labels = listed(estimator.classes)
        classes = [0, 1] if labels is None else list(labels)
        return classes[0], classes[-1], classes[len(classes) // 2], "labels"
    if hasattr(estimator, "target_bounds"):
        low, high = listed(estimator.target_bounds) or (0.0, 1.0)
        return low, high, math.floor((low + high) / 2), "numbers"
    return None, None, None, None


def _replay(estimator: Any, shape: tuple[int, int], n_trials: int, confidence: float) -> Audit:
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
                "kind='canary'"
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
    return _audited("replay", "distance over noise; noise over what is drawn", fitted[0], findings)


def _named_limits(record: Any, n_calls: int) -> list[tuple[str, float]]:
    """Return the name of the part and the largest distance of each release of a record."""
    names = getattr(record, "names", None)
    if any(isinstance(one, PerturbedObjective) for one in getattr(record, "mechanisms", ())):
        raise UnsupportedMechanismError(
            "objective perturbation does not release its linear term, so that no replay sees it: "
            "use kind='canary'"
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


def _canary(estimator: Any, shape: tuple[int, int], n_trials: int, confidence: float) -> Audit:
    """Attack published fits by a line that is chosen on some runs and judged on others."""
    estimator.set_params(random_state=None)
    here, *others = _tables(estimator, shape, _CANARY)
    n_first = max(n_trials // 4, 20)
    fitted = here.fit(estimator)
    first = _runs(here, estimator, n_first)
    best: tuple[float, Any, np.ndarray, float] = (-1.0, here, np.zeros(1), 0.0)
    for other in [others[i] for i in (0, 3, 5) if i < len(others)]:
        runs = _runs(other, estimator, n_first)
        spread = np.var(first, axis=0) + np.var(runs, axis=0)
        direction = (first.mean(axis=0) - runs.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        values = np.concatenate([first @ direction, runs @ direction])
        for threshold in np.quantile(values, np.linspace(0.02, 0.98, 49)):
            gained = np.mean(first @ direction > threshold) - np.mean(runs @ direction > threshold)
            best = max(best, (float(gained), other, direction, threshold), key=lambda one: one[0])
    _, other, direction, threshold = best
    hits, alarms = (
        int(np.sum(_runs(table, estimator, n_trials) @ direction > threshold))
        for table in (here, other)
    )
    # Clopper and Pearson (1934), half of the risk each
    risk = (1 - confidence) / 2
    caught = float(betaincinv(hits, n_trials - hits + 1, risk)) if hits else 0.0
    false = float(betaincinv(alarms + 1, n_trials - alarms, 1 - risk)) if alarms < n_trials else 1.0
    guarantee = fitted.privacy_
    delta = fitted.delta_
    findings = [
        Finding(f"true positive rate at {false:.3f}", 1 - float(guarantee.tradeoff(false)), caught),
        Finding("epsilon", fitted.epsilon_, _epsilon_of(guarantee, caught, false, delta)),
    ]
    return _audited("canary", f"lower bounds, at a confidence of {confidence:g}", fitted, findings)


def _runs(table: _Table, estimator: Any, n_runs: int) -> np.ndarray:
    """Return the published numbers of each of several fits."""
    return np.array([_published(table.fit(estimator)) for _ in range(n_runs)])


def _published(value: Any) -> np.ndarray:
    """Return all numbers of a fitted estimator, or of an object it holds."""
    if isinstance(value, (np.ndarray, float, np.floating)):
        array = np.ravel(value)
        return array.astype(float) if array.dtype.kind == "f" else np.empty(0)
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        names = (
            [name for name in vars(value) if name.endswith("_")] if hasattr(value, "fit") else []
        )
    values = [
        getattr(value, name) for name in sorted(names) if name not in ("mechanism_", "privacy_")
    ]
    return np.concatenate([np.empty(0), *map(_published, values)])


def _epsilon_of(guarantee: Guarantee, caught: float, false: float, delta: float) -> float:
    """Return the least epsilon, at delta, of which such rates are possible.

    Of a Gaussian claim, that of the Gaussian curve through them (Nasr et al. 2023).
    """
    if isinstance(guarantee, GaussianDP):
        mu = float(ndtri(caught) - ndtri(false))
        return float(GaussianDP(mu).epsilon(delta)) if mu > 0 else 0.0
    ratios = [(caught - delta, false), (1 - false - delta, 1 - caught)]
    return max([0.0, *(math.log(up / down) for up, down in ratios if up > 0 and down > 0)])


def _audited(kind: str, measure: str, fitted: Any, findings: list[Finding]) -> Audit:
    """Return the audit of a fitted configuration."""
    solver = f", solver {fitted.solver_}" if hasattr(fitted, "solver_") else ""
    shape = f"{fitted.n_samples_} x {fitted.n_features_in_}"
    configuration = f"{type(fitted).__name__} on {shape}{solver}"
    return Audit(kind, configuration, measure, tuple(findings), fitted.epsilon_, fitted.delta_)
