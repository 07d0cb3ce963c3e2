"""Calibration: noise and number of steps from a budget, always on the safe side."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, TypeAlias

from scipy import special

from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy._numerics import safe_root, slope_of, smallest_safe
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants import ACCOUNTANTS, tightest, weigh
from skdpdyn.privacy.budget import Budget
from skdpdyn.privacy.checks import (
    MAX_STEPS,
    as_float,
    checked_count,
    checked_number,
    is_named,
    quoted,
)
from skdpdyn.privacy.fields import Checked, number
from skdpdyn.privacy.guarantees import Adjacency, GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import NoisyGradientDescent
from skdpdyn.privacy.needs import checked_bound
from skdpdyn.privacy.numerical import ACCURACY
from skdpdyn.privacy.schedules import (
    curvature_aware_schedule,
    curvature_aware_time,
    largest_step_size,
    theorem4_schedule,
    worst_case_steps,
)

_CORRECTIONS = 8
SLACK = 1e-6  # largest relative part of epsilon that calibration may leave unspent
NUMERICAL_SLACK = 1e-4  # for numerical composition, which is computed to a twentieth of it
ROUGH = 2e-3  # relative error of epsilon during most of a search
_LARGEST_LOG = 700.0  # of noise, or of its inverse: e to that power is a double


def check_shape(n_samples: int, n_features: int) -> Any:
    """Return the shape of data as Python's integers, for numpy's overflow when they are squared."""
    for name, value in (("n_samples", n_samples), ("n_features", n_features)):
        if checked_count(value, name) > 2**63 - 1:
            raise ValueError(f"{name} must be below 2**63: no data have more")
    return int(n_samples), int(n_features)


def as_budget(epsilon: Any, delta: Any = None) -> Budget:
    """Return the budget: given in place of epsilon, or as the pair (epsilon, delta)."""
    if isinstance(epsilon, Budget):
        if delta is not None:
            raise ValueError(
                f"delta={quoted(delta)} must not be given beside a Budget, which has its own: "
                f"{epsilon.delta!r}"
            )
        return epsilon
    return Budget(epsilon, delta)


def check_target(
    epsilon: Any, delta: float | None, mu: float | None, advantage: float | None
) -> Any:
    """Return the mu of a budget that is stated in exactly one way, and the budget.

    The budget is None where mu or the advantage is stated.
    """
    stated = [
        name
        for name, value in (("epsilon", epsilon), ("mu", mu), ("advantage", advantage))
        if value is not None
    ]
    paired = isinstance(epsilon, Budget) or (epsilon is None) == (delta is None)
    if len(stated) != 1 or not paired:
        raise ValueError(
            f"epsilon={quoted(epsilon)}, delta={quoted(delta)}, mu={quoted(mu)}, "
            f"advantage={quoted(advantage)}: give epsilon and delta, or mu, or advantage"
        )
    if epsilon is not None:
        budget = as_budget(epsilon, delta)
        return budget.mu, budget
    return _stated_mu(mu, advantage), None


def _stated_mu(mu: Any, advantage: Any) -> float:
    if mu is not None:
        mu = checked_number(mu, "mu", lambda x: 0 < x < math.inf, "a finite number > 0")
        if not 1e-150 < mu < 1e150:
            raise CalibrationError(
                f"mu={quoted(mu)}: no noise can be computed for so extreme a budget"
            )
        return mu
    requirement = "in (0, 1): true positive rate minus false positive rate"
    advantage = checked_number(advantage, "advantage", lambda x: 0 < x < 1, requirement)
    # The best attack on N(0, 1) against N(mu, 1) has 2 Phi(mu/2) - 1 = erf(mu / sqrt 8)
    root = math.sqrt(8) * float(special.erfinv(advantage))
    if root < 1e-150:
        raise CalibrationError(
            f"advantage={quoted(advantage)}: no noise can be computed for so extreme a budget"
        )
    return smallest_safe(root, lambda value: GaussianDP(value).advantage <= advantage, towards=0.0)


def calibrate(
    epsilon: Any = None,
    delta: float | None = None,
    *,
    mu: float | None = None,
    advantage: float | None = None,
    n_samples: int,
    n_features: int,
    lipschitz: float,
    strong_convexity: float,
    smoothness: float,
    n_steps: int | str = "curvature",
    adjacency: Adjacency | str = "replace_one",
    group_size: int = 1,
) -> Mechanism:
    """Return the noisy gradient descent that a budget pays for.

    Parameters
    ----------
    epsilon : float, Budget or None, default=None
        Target epsilon, > 0, with ``delta``; or both as a `Budget`, of this ``adjacency``.
    delta : float or None, default=None
        Target delta, in (0, 1).
    mu : float or None, default=None
        Target mu of Gaussian differential privacy, in place of (epsilon, delta).
    advantage : float or None, default=None
        Target for the best attack's true positive rate minus false positive rate, in (0, 1), in
        place of (epsilon, delta).
    n_samples : int
        Number of records n.
    n_features : int
        Number of parameters d.
    lipschitz : float
        Bound L on the norm of one record's loss gradient.
    strong_convexity : float
        Lower bound on the curvature of one record's regularised loss, >= 0.
    smoothness : float
        Upper bound on that curvature, above ``strong_convexity``.
    n_steps : {"curvature", "worst_case", "theorem4"} or int, default="curvature"
        "curvature": where noise starts to drown signal, see
        `skdpdyn.privacy.schedules.curvature_aware_time`. "worst_case": the minimiser of the
        worst-case error under the exact bound. "theorem4": step size, noise and steps as printed in
        Chourasia, Ye and Shokri (2021), Theorem 4, which spends more noise and far more steps. An
        int: that many. Except for "theorem4", the step size is at most 2 / (strong_convexity +
        smoothness), and the noise is the least that the exact last-iterate bound allows.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation.
    group_size : int, default=1
        Largest number of records of one group, such as a person, that the budget covers. The noise
        grows with it. See `GaussianDP.group`.

    Returns
    -------
    NoisyGradientDescent
        Its tightest guarantee meets (epsilon, delta), for ``group_size`` records at once. Except
        for "theorem4", its epsilon is within 1e-6 of the one asked for.

    Raises
    ------
    ValueError
        If a number is out of its range.
    CalibrationError
        If no noise meets the budget, or a hypothesis of the rule fails.

    Examples
    --------
    >>> from skdpdyn.privacy import calibrate, tightest
    >>> m = calibrate(
    ...     1.0,
    ...     1e-5,
    ...     n_samples=10_000,
    ...     n_features=50,
    ...     lipschitz=1.0,
    ...     strong_convexity=0.01,
    ...     smoothness=0.26,
    ...     n_steps="worst_case",
    ... )
    >>> m.n_steps, round(m.noise_multiplier, 6)
    (137, 19.022062)
    >>> m = calibrate(
    ...     advantage=0.1,
    ...     n_samples=10_000,
    ...     n_features=50,
    ...     lipschitz=1.0,
    ...     strong_convexity=0.01,
    ...     smoothness=0.26,
    ... )
    >>> round(tightest(m).guarantee.advantage, 8)
    0.1
    >>> m = calibrate(
    ...     mu=0.3,
    ...     n_samples=10_000,
    ...     n_features=50,
    ...     lipschitz=1.0,
    ...     strong_convexity=0.01,
    ...     smoothness=0.26,
    ...     group_size=3,
    ... )
    >>> round(tightest(m).guarantee.group(3).mu, 8)
    0.3
    """
    target, budget = check_target(epsilon, delta, mu, advantage)
    if isinstance(epsilon, Budget) and epsilon.adjacency != Adjacency(adjacency):
        raise ValueError(
            f"adjacency={str(adjacency)!r} must be that of the budget, {str(epsilon.adjacency)!r}"
        )
    adjacency = Adjacency(adjacency)
    if checked_count(group_size, "group_size", largest=MAX_STEPS) > 1:
        if is_named(n_steps, "theorem4"):
            raise ValueError("n_steps='theorem4' is printed for one record, not for group_size > 1")
        target = target / group_size * (1 - 1e-15)
        budget = None  # mu grows with the group
    n_samples, n_features = check_shape(n_samples, n_features)
    problem = _Problem(n_samples, n_features, lipschitz, strong_convexity, smoothness, adjacency)
    if is_named(n_steps, "theorem4"):
        if budget is None:
            raise ValueError(
                "n_steps='theorem4' needs epsilon and delta: the theorem knows no other target"
            )
        return problem.of_theorem4(budget)
    steps, step_size = problem.schedule(n_steps, target)

    def mechanism_for(noise_multiplier: float) -> Mechanism:
        return problem.descent(steps, noise_multiplier, step_size)

    if budget is not None:
        return least_noise(mechanism_for, budget.epsilon, budget.delta)

    def mu_at(noise: float) -> float:
        return float(tightest(mechanism_for(noise)).guarantee.mu)

    noise = mu_at(1.0) / target  # mu is proportional to 1/noise
    return mechanism_for(smallest_safe(noise, lambda value: mu_at(value) <= target, math.inf))


Moderate: TypeAlias = Annotated[
    float, number(lambda x: 1e-100 <= x <= 1e100, "a number between 1e-100 and 1e100")
]


@dataclass(frozen=True)
class _Problem(Checked):
    """The public numbers of a problem that gradient descent is planned for."""

    n_samples: int
    n_features: int
    lipschitz: Moderate
    strong_convexity: float
    smoothness: Moderate
    adjacency: Adjacency

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= as_float(self.strong_convexity) < self.smoothness:
            raise ValueError(
                f"strong_convexity={self.strong_convexity!r} must be >= 0 and below "
                f"smoothness={self.smoothness!r}"
            )

    def descent(self, n_steps: int, noise_multiplier: float, step_size: float) -> Mechanism:
        """Return the record of so many equal steps."""
        return NoisyGradientDescent(
            n_steps=n_steps,
            noise_multiplier=noise_multiplier,
            step_size=step_size,
            strong_convexity=self.strong_convexity,
            smoothness=self.smoothness,
            adjacency=self.adjacency,
        )

    def of_theorem4(self, budget: Budget) -> Mechanism:
        """Return the record as printed in Chourasia, Ye and Shokri (2021), Theorem 4."""
        step_size, sigma2, steps = theorem4_schedule(budget.epsilon, budget.delta, **vars(self))
        sensitivity = self.adjacency.sum_sensitivity(self.lipschitz)
        noise = self.n_samples * math.sqrt(2 * sigma2 / step_size) / sensitivity
        return self.descent(max(1, math.ceil(steps)), noise, step_size)

    def schedule(self, n_steps: int | str, mu: float) -> tuple[int, float]:
        """Return the number of steps that a rule or an int stands for, and their size."""
        step_size = largest_step_size(self.strong_convexity, self.smoothness)
        if is_named(n_steps, "worst_case"):
            public = {name: value for name, value in vars(self).items() if name != "smoothness"}
            steps = worst_case_steps(mu, step_size=step_size, **public)
            return max(1, math.ceil(steps)), step_size
        if is_named(n_steps, "curvature"):
            time = curvature_aware_time(
                n_samples=self.n_samples,
                lipschitz=self.lipschitz,
                curvature=self.smoothness - self.strong_convexity,
                adjacency=self.adjacency,
                mu=mu,
            )
            return curvature_aware_schedule(
                time, strong_convexity=self.strong_convexity, smoothness=self.smoothness
            )
        names = "'curvature', 'worst_case', 'theorem4' or "
        return checked_count(n_steps, "n_steps", others=names), step_size


def judge(
    mechanism: Mechanism, delta: float, bound: str = "tightest", accuracy: float | None = None
) -> Any:
    """Return name and guarantee of a bound on a record; "tightest" compares all at ``delta``.

    ``accuracy`` is the relative error of epsilon up to which numerical guarantees are computed;
    None: the usual one.
    """
    if checked_bound(bound) == "tightest":
        best = weigh(mechanism, delta, accuracy)
        return best.bound, best.guarantee
    guarantee = ACCOUNTANTS[bound](mechanism)
    return bound, guarantee if accuracy is None else guarantee.with_accuracy(accuracy)


def least_noise(
    mechanism_for: Callable[[float], Mechanism],
    epsilon: Any,
    delta: float | None = None,
    bound: str = "tightest",
) -> Mechanism:
    """Return the record with the least noise whose guarantee meets a budget.

    Parameters
    ----------
    mechanism_for : callable
        ``mechanism_for(noise_multiplier)``: the record, more private the more noise.
    epsilon : float or Budget
        The largest epsilon, > 0; or the whole `Budget`, whose adjacency must be the record's.
    delta : float or None, default=None
        The largest delta, in [0, 1); None where a `Budget` is given.
    bound : str, default="tightest"
        Name of the accountant that judges the record.

    Returns
    -------
    record
        Judged again at the end: its epsilon at ``delta`` is at most ``epsilon``, and above
        ``epsilon (1 - SLACK)``, or ``epsilon (1 - NUMERICAL_SLACK)`` where privacy loss
        distributions are composed numerically.

    Raises
    ------
    ValueError
        If the budget is none, or of another adjacency than the record.
    CalibrationError
        If no noise meets the budget.

    Examples
    --------
    >>> from skdpdyn.privacy import Budget, Gaussian, PoissonSubsampled, least_noise
    >>> round(least_noise(Gaussian, Budget(1.0, 1e-5)).noise_multiplier, 6)
    3.730632
    >>> def mechanism_for(noise):
    ...     run = {"sampling_probability": 0.01, "n_steps": 1000, "adjacency": "add_remove"}
    ...     return PoissonSubsampled(noise_multiplier=noise, **run)
    >>> m = least_noise(mechanism_for, 1.0, 1e-5)
    >>> round(m.noise_multiplier, 2)
    1.41
    """
    budget = as_budget(epsilon, delta)
    _check_callable(mechanism_for, "noise_multiplier")

    @cache
    def judged(noise_multiplier: float, accuracy: float | None) -> tuple[Mechanism, Guarantee]:
        mechanism = mechanism_for(noise_multiplier)
        if isinstance(epsilon, Budget):
            _check_adjacency(mechanism, budget)
        return mechanism, judge(mechanism, budget.delta, bound, accuracy)[1]

    def spent(noise_multiplier: float, accuracy: float | None = None) -> float:
        return judged(noise_multiplier, accuracy)[1].epsilon(budget.delta)

    def excess(log_noise: float, accuracy: float | None = None) -> float:
        if not abs(log_noise) < _LARGEST_LOG:
            raise CalibrationError(extreme)
        noise = math.exp(log_noise)
        return math.log(max(spent(noise, accuracy) / budget.epsilon, 1e-9))

    stated = f"epsilon={budget.epsilon}, delta={budget.delta}"
    extreme = f"{stated}: no noise can be computed for so extreme a budget"
    unit = judged(1.0, ROUGH)[1]
    _check_pure(unit, budget.delta)
    # Gaussian noise: mu is proportional to 1/noise, so that one evaluation solves it
    target: Any = budget.mu if isinstance(unit, GaussianDP) else None
    noise = unit.mu / target if target else 1.0
    if not 1e-150 < noise < 1e150:
        raise CalibrationError(extreme)
    if target:
        noise = _proportional(lambda noise: judged(noise, None)[1], noise, target)
    if not target or not _is_gaussian(judged(noise, None)[1], target):
        slack, tolerance = (
            (NUMERICAL_SLACK, ROUGH / 4)
            if unit.accuracy and budget.delta  # at 0, costs add up exactly
            else (SLACK / 1000, SLACK / 10_000)
        )
        log_noise = _root(excess, math.log(noise), slack, tolerance)
        if log_noise is None:
            raise CalibrationError(
                f"{stated}: no noise meets this budget under bound={quoted(bound)}"
            )
        noise = math.exp(log_noise)
    try:
        noise = smallest_safe(noise, lambda value: spent(value) <= budget.epsilon, towards=math.inf)
    except CalibrationError:
        raise CalibrationError(extreme) from None
    return judged(noise, None)[0]


def _check_pure(guarantee: Guarantee, delta: float) -> None:
    """Refuse delta=0 where no noise meets it."""
    if delta == 0 and guarantee.epsilon(0.0) == math.inf:
        raise CalibrationError(
            "delta=0: this mechanism has no pure-epsilon guarantee, whatever its noise; 1/n^2 "
            "is customary"
        )


def _proportional(guarantee_of: Callable[[float], Guarantee], noise: float, mu: float) -> float:
    """Return the noise that costs ``mu``: the cost of rounding is not quite in proportion."""
    for _ in range(_CORRECTIONS):
        guarantee = guarantee_of(noise)
        if not isinstance(guarantee, GaussianDP) or not guarantee.mu < math.inf:
            break
        if _is_gaussian(guarantee, mu) and guarantee.mu <= mu * (1 + 1e-14):
            break
        noise *= guarantee.mu / mu * (1 + 1e-15)
    return noise


def _check_callable(mechanism_for: Callable[[float], Mechanism], argument: Any) -> None:
    if not callable(mechanism_for):
        raise ValueError(
            f"mechanism_for={quoted(mechanism_for)} must be a function of {argument} that returns "
            "a record"
        )


def _check_adjacency(mechanism: Mechanism, budget: Budget) -> None:
    """Refuse a record of another adjacency than the budget that was given."""
    # without one, accountants refuse it
    adjacency = getattr(mechanism, "adjacency", budget.adjacency)
    if adjacency != budget.adjacency:
        raise ValueError(
            f"adjacency={str(budget.adjacency)!r} of the budget must be that of the record, "
            f"{str(adjacency)!r}: the same epsilon "
            "means something else under each"
        )


def _is_gaussian(guarantee: Guarantee, mu: float) -> bool:
    return isinstance(guarantee, GaussianDP) and abs(guarantee.mu / mu - 1) < SLACK / 2


def _root(excess: Callable[..., Any], start: float, slack: float, tolerance: float) -> Any:
    """Return where the decreasing ``excess`` is in [-slack, 0], searched from ``start``, or None.

    The search asks for rough values first. Those are off by nearly the same everywhere, so that a
    fine value at their root says how far it is to the root of the fine ones. Epsilon falls about
    like a power of noise, mostly the first.
    """
    tried = dict[float, float]()

    def rough(log_noise: float) -> float:
        tried[log_noise] = -excess(log_noise, ROUGH)
        return tried[log_noise]

    root = safe_root(rough, start, 1.0, most=350.0, near=tolerance, slope=1.0)
    if root >= 350:
        return None
    slope = slope_of(list(tried.items())[-2:], 1.0)
    return safe_root(
        lambda x: -excess(x), root, slack, most=350.0, near=slack, xtol=1e-12, slope=slope
    )


def most_steps(
    mechanism_for: Callable[[float], Mechanism],
    epsilon: float,
    delta: float | None = None,
    bound: str = "tightest",
    largest: int = 1_000_000,
) -> Mechanism:
    """Return the record with the most steps whose guarantee meets a budget.

    Parameters
    ----------
    mechanism_for : callable
        ``mechanism_for(n_steps)``: the record, less private the more steps.
    epsilon : float or Budget
        The largest epsilon, > 0; or the whole `Budget`, whose adjacency must be the record's.
    delta : float or None, default=None
        The largest delta, in (0, 1); None where a `Budget` is given.
    bound : str, default="tightest"
        Name of the accountant that judges the record.
    largest : int, default=1_000_000
        Number of steps that is not exceeded; some bounds allow for any.

    Returns
    -------
    record
        Its epsilon at ``delta`` is at most ``epsilon``; with one step more it would not be, or
        there are ``largest`` steps.

    Raises
    ------
    ValueError
        If a number is out of its range.
    CalibrationError
        If a single step is too much.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent, most_steps
    >>> def mechanism(n_steps):
    ...     return NoisyGradientDescent(n_steps=n_steps, noise_multiplier=20.0, step_size=1.0)
    >>> most_steps(mechanism, 1.0, 1e-5).n_steps
    28
    """
    budget = as_budget(epsilon, delta)
    _check_callable(mechanism_for, "n_steps")
    checked_count(largest, "largest")

    @cache
    def meets(n_steps: int, accuracy: float | None = ACCURACY) -> bool:
        mechanism = mechanism_for(n_steps)
        if isinstance(epsilon, Budget):
            _check_adjacency(mechanism, budget)
        return (
            judge(mechanism, budget.delta, bound, accuracy)[1].epsilon(budget.delta)
            <= budget.epsilon
        )

    n_steps = 1
    if not meets(n_steps):
        raise CalibrationError(
            f"epsilon={budget.epsilon}, delta={budget.delta}: a single step exceeds this budget "
            f"under bound={quoted(bound)}"
        )
    # a record that meets the budget on a coarse grid also does on a finer one
    for accuracy in (5 * ROUGH, ROUGH / 5, ACCURACY):
        n_steps = _last(partial(meets, accuracy=accuracy), n_steps, largest)
    while not meets(n_steps):
        n_steps -= 1
    return mechanism_for(n_steps)


def _last(holds: Callable[[int], bool], low: int, largest: int) -> int:
    """Return the last integer up to ``largest`` that has a decreasing property, from ``low`` on."""
    width = 1
    while low < largest and holds(min(low + width, largest)):
        low = min(low + width, largest)
        width = 2 * width
    high = min(low + width, largest + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
