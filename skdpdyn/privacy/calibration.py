"""The accountants turned around: noise and number of steps from a budget, always on the safe side."""

import math
from functools import cache
from numbers import Integral

from scipy import optimize, special

from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy._numerics import smallest_safe
from skdpdyn.privacy.accountants import ACCOUNTANTS, tightest
from skdpdyn.privacy.budget import Budget
from skdpdyn.privacy.checks import as_float, checked_count, is_named
from skdpdyn.privacy.guarantees import Adjacency, GaussianDP, gdp_mu
from skdpdyn.privacy.mechanisms import NoisyGradientDescent
from skdpdyn.privacy.numerical import ACCURACY, roughly
from skdpdyn.privacy.schedules import (
    curvature_aware_schedule,
    curvature_aware_time,
    largest_step_size,
    theorem4_schedule,
    worst_case_steps,
)

SLACK = 1e-6  # largest relative part of epsilon that calibration may leave unspent
NUMERICAL_SLACK = 2e-4  # the same where privacy losses are composed numerically, to a tenth of it
ROUGH, _STEP = 2e-3, 0.02  # relative error of epsilon during most of a search; step of a slope that such errors do not blur


def check_budget(epsilon, delta, pure=False):
    """The budget as floats, or an error that says what is wrong with it; ``pure``: whether delta may be 0."""
    if not 0 < as_float(epsilon) < math.inf:
        raise ValueError(f"epsilon={epsilon!r} must be a finite number > 0: the privacy budget")
    if isinstance(delta, str):
        raise ValueError(f"delta={delta!r} must be a number in (0, 1), or 'auto' where the number of records is known: 1/n^2")
    if not (0 < as_float(delta) < 1 or (pure and as_float(delta) == 0)):
        zero = ": Gaussian noise has no pure-epsilon guarantee; 1/n^2 is customary" if as_float(delta) == 0 else ""
        raise ValueError(f"delta={delta!r} must be in {'[' if pure else '('}0, 1){zero}")
    return float(epsilon), float(delta)


def check_shape(n_samples, n_features):
    """The shape of data as Python's integers, for numpy's overflow when they are squared."""
    for name, value in (("n_samples", n_samples), ("n_features", n_features)):
        if checked_count(value, name) > 2**63 - 1:
            raise ValueError(f"{name} must be below 2**63: no data have more")
    return int(n_samples), int(n_features)


def check_target(epsilon, delta, mu, advantage):
    """The budget as a mu of Gaussian differential privacy, from exactly one of the ways to state it."""
    stated = [name for name, value in (("epsilon", epsilon), ("mu", mu), ("advantage", advantage)) if value is not None]
    if len(stated) != 1 or (epsilon is None) != (delta is None):
        raise ValueError(
            f"epsilon={epsilon!r}, delta={delta!r}, mu={mu!r}, advantage={advantage!r}: give "
            "epsilon and delta, or mu, or advantage"
        )
    if epsilon is not None:
        return gdp_mu(*check_budget(epsilon, delta))
    if mu is not None:
        if not 0 < as_float(mu) < math.inf:
            raise ValueError(f"mu={mu!r} must be a finite number > 0")
        if not 1e-150 < float(mu) < 1e150:
            raise CalibrationError(f"mu={mu!r}: no noise can be computed for so extreme a budget")
        return float(mu)
    if not 0 < as_float(advantage) < 1:
        raise ValueError(f"advantage={advantage!r} must be in (0, 1): true positive rate minus false positive rate")
    # The best attack on N(0, 1) against N(mu, 1) has 2 Phi(mu/2) - 1 = erf(mu / sqrt 8)
    root = math.sqrt(8) * float(special.erfinv(float(advantage)))
    if root < 1e-150:
        raise CalibrationError(f"advantage={advantage!r}: no noise can be computed for so extreme a budget")
    return smallest_safe(root, lambda value: GaussianDP(value).advantage <= advantage, towards=0.0)


def split_budget(epsilon, delta, shares):
    """A budget divided among several releases from the same records.

    Gaussian guarantees compose by mu^2, so a share is a part of mu^2. Every part keeps ``delta``: their epsilons add up to more
    than ``epsilon``, and composed they cost it. That holds where the guarantee of every part is Gaussian (``privacy_`` is a
    `GaussianDP`); of others, such as DP-SGD's, compose the guarantees and look.

    Parameters
    ----------
    epsilon : float
        The whole budget, > 0.
    delta : float
        Its delta, in (0, 1).
    shares : sequence of float
        Sizes of the parts relative to each other, positive.

    Returns
    -------
    list of tuple
        A pair (epsilon, delta) for each part.

    Raises
    ------
    ValueError
        If a number is out of its range.
    CalibrationError
        If a part is so small that no epsilon > 0 stands for it at this delta.

    Examples
    --------
    >>> from skdpdyn.privacy import split_budget
    >>> [(round(epsilon, 6), delta) for epsilon, delta in split_budget(1.0, 1e-9, shares=(0.2, 0.8))]
    [(0.431821, 1e-09), (0.889784, 1e-09)]
    """
    budget = Budget(*check_budget(epsilon, delta))
    return [(part.epsilon, part.delta) for part in budget.split(shares)]


def calibrate(
    epsilon=None,
    delta=None,
    *,
    mu=None,
    advantage=None,
    n_samples,
    n_features,
    lipschitz,
    strong_convexity,
    smoothness,
    n_steps="curvature",
    adjacency="replace_one",
):
    """The noisy gradient descent that a budget pays for.

    Parameters
    ----------
    epsilon : float or None, default=None
        Target epsilon, > 0; with ``delta``.
    delta : float or None, default=None
        Target delta, in (0, 1).
    mu : float or None, default=None
        Target mu of Gaussian differential privacy, in place of (epsilon, delta).
    advantage : float or None, default=None
        Target for the best attack's true positive rate minus false positive rate, in (0, 1), in place of (epsilon, delta).
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
        "curvature": where noise starts to drown signal, see `skdpdyn.privacy.schedules.curvature_aware_time`. "worst_case": the
        minimiser of the worst-case error under the exact bound. "theorem4": step size, noise and steps as printed in Chourasia,
        Ye and Shokri (2021), Theorem 4, which spends more noise and far more steps. An int: that many. But for "theorem4" the
        step size is at most 2 / (strong_convexity + smoothness), and the noise the least that the exact last-iterate bound
        allows.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation.

    Returns
    -------
    NoisyGradientDescent
        Its tightest guarantee meets (epsilon, delta); but for "theorem4", within 1e-6 of epsilon.

    Raises
    ------
    ValueError
        If a number is out of its range.
    CalibrationError
        If no noise meets the budget, or a hypothesis of the rule fails.

    Examples
    --------
    >>> from skdpdyn.privacy import calibrate, tightest
    >>> m = calibrate(1.0, 1e-5, n_samples=10_000, n_features=50, lipschitz=1.0, strong_convexity=0.01, smoothness=0.26,
    ...               n_steps="worst_case")
    >>> m.n_steps, round(m.noise_multiplier, 6)
    (137, 19.022062)
    >>> m = calibrate(advantage=0.1, n_samples=10_000, n_features=50, lipschitz=1.0, strong_convexity=0.01, smoothness=0.26)
    >>> round(tightest(m).advantage, 8)
    0.1
    """
    target = check_target(epsilon, delta, mu, advantage)
    adjacency = Adjacency(adjacency)
    n_samples, n_features = check_shape(n_samples, n_features)
    for name, value in (("lipschitz", lipschitz), ("smoothness", smoothness)):
        if not 1e-100 <= as_float(value) <= 1e100:
            raise ValueError(f"{name}={value!r} must be a number between 1e-100 and 1e100")
    if not 0 <= as_float(strong_convexity) < smoothness:
        raise ValueError(f"strong_convexity={strong_convexity!r} must be >= 0 and below smoothness={smoothness!r}")
    problem = {
        "n_samples": n_samples,
        "n_features": n_features,
        "lipschitz": lipschitz,
        "strong_convexity": strong_convexity,
        "adjacency": adjacency,
    }
    step_size = largest_step_size(strong_convexity, smoothness)
    if is_named(n_steps, "theorem4"):
        if epsilon is None:
            raise ValueError("n_steps='theorem4' needs epsilon and delta: the theorem knows no other target")
        epsilon, delta = check_budget(epsilon, delta)
        step_size, sigma2, real_steps = theorem4_schedule(epsilon, delta, smoothness=smoothness, **problem)
        sensitivity = Adjacency(adjacency).sum_sensitivity(lipschitz)
        return NoisyGradientDescent(
            n_steps=max(1, math.ceil(real_steps)),
            noise_multiplier=n_samples * math.sqrt(2 * sigma2 / step_size) / sensitivity,
            step_size=step_size,
            strong_convexity=strong_convexity,
            smoothness=smoothness,
            adjacency=adjacency,
        )
    if is_named(n_steps, "worst_case"):
        steps = max(1, math.ceil(worst_case_steps(target, step_size=step_size, **problem)))
    elif is_named(n_steps, "curvature"):
        time = curvature_aware_time(
            epsilon,
            delta,
            n_samples=n_samples,
            lipschitz=lipschitz,
            curvature=smoothness - strong_convexity,
            adjacency=adjacency,
            mu=target,
        )
        steps, step_size = curvature_aware_schedule(time, strong_convexity=strong_convexity, smoothness=smoothness)
    elif isinstance(n_steps, Integral) and not isinstance(n_steps, bool) and n_steps >= 1:
        steps = int(n_steps)
    else:
        raise ValueError(f"n_steps={n_steps!r} must be 'curvature', 'worst_case', 'theorem4' or an integer >= 1")

    def mechanism(noise_multiplier):
        return NoisyGradientDescent(
            n_steps=steps,
            noise_multiplier=noise_multiplier,
            step_size=step_size,
            strong_convexity=strong_convexity,
            smoothness=smoothness,
            adjacency=adjacency,
        )

    if epsilon is not None:
        return least_noise(mechanism, *check_budget(epsilon, delta))
    noise = tightest(mechanism(1.0)).mu / target  # mu is proportional to 1/noise
    return mechanism(smallest_safe(noise, lambda value: tightest(mechanism(value)).mu <= target, towards=math.inf))


def judge(mechanism, delta, bound="tightest"):
    """Name and guarantee of the chosen bound on a record; "tightest" compares all that apply at ``delta``."""
    if is_named(bound, "tightest"):
        best = tightest(mechanism, delta=delta)
        return best.bound, best.guarantee
    if not is_named(bound, *ACCOUNTANTS):
        raise ValueError(f"bound={bound!r} must be 'tightest' or one of {sorted(ACCOUNTANTS)}")
    return bound, ACCOUNTANTS[bound](mechanism)


def least_noise(mechanism, epsilon, delta, bound="tightest"):
    """The record with the least noise whose guarantee meets a budget.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(noise_multiplier)``: the record, more private the more noise.
    epsilon, delta : float
        The budget.
    bound : str, default="tightest"
        Name of the accountant that judges the record.

    Returns
    -------
    record
        Judged again at the end: its epsilon at ``delta`` is at most ``epsilon``, and above ``epsilon (1 - SLACK)``, or
        ``epsilon (1 - NUMERICAL_SLACK)`` where privacy loss distributions are composed numerically.

    Raises
    ------
    ValueError
        If the budget is none.
    CalibrationError
        If no noise meets the budget.

    Examples
    --------
    >>> from skdpdyn.privacy import PoissonSubsampled, least_noise
    >>> def mechanism_for(noise):
    ...     run = {"sampling_probability": 0.01, "n_steps": 1000, "adjacency": "add_remove"}
    ...     return PoissonSubsampled(noise_multiplier=noise, **run)
    >>> m = least_noise(mechanism_for, 1.0, 1e-5)
    >>> round(m.noise_multiplier, 2)
    1.41
    """
    epsilon, delta = check_budget(epsilon, delta, pure=True)
    _check_callable(mechanism, "noise_multiplier")

    def guarantee(noise_multiplier):
        return judge(mechanism(noise_multiplier), delta, bound)[1]

    def excess(log_noise):
        return math.log(max(guarantee(math.exp(log_noise)).epsilon(delta) / epsilon, 1e-9))

    with roughly(ROUGH):
        unit = guarantee(1.0)
    if delta == 0 and unit.epsilon(0.0) == math.inf:
        raise CalibrationError("delta=0: this mechanism has no pure-epsilon guarantee, whatever its noise; 1/n^2 is customary")
    # Gaussian noise: mu is proportional to 1/noise, so that one evaluation solves it
    target = gdp_mu(epsilon, delta) if isinstance(unit, GaussianDP) else None
    noise = unit.mu / target if target else 1.0
    if not 1e-150 < noise < 1e150:
        raise CalibrationError(f"epsilon={epsilon}, delta={delta}: no noise can be computed for so extreme a budget")
    if not target or not _is_gaussian(guarantee(noise), target):
        slack, tolerance = (NUMERICAL_SLACK, ROUGH / 4) if unit.accuracy else (SLACK / 1000, SLACK / 10_000)
        log_noise = _root(excess, math.log(noise), slack, tolerance)
        if log_noise is None:
            raise CalibrationError(f"epsilon={epsilon}, delta={delta}: no noise meets this budget under bound={bound!r}")
        noise = math.exp(log_noise)
    try:
        noise = smallest_safe(noise, lambda value: guarantee(value).epsilon(delta) <= epsilon, towards=math.inf)
    except CalibrationError:
        raise CalibrationError(f"epsilon={epsilon}, delta={delta}: no noise can be computed for so extreme a budget") from None
    return mechanism(noise)


def _check_callable(mechanism, argument):
    if not callable(mechanism):
        raise ValueError(f"mechanism={mechanism!r} must be a function of {argument} that returns a record")


def _is_gaussian(guarantee, mu):
    return isinstance(guarantee, GaussianDP) and abs(guarantee.mu / mu - 1) < SLACK / 2


def _root(excess, start, slack, tolerance):
    """Where the decreasing ``excess`` is between -slack and 0, searched from ``start``; None if it is above 0 everywhere.

    The search asks for rough values, up to ``tolerance`` from their root. Those are off by nearly the same everywhere, so that a
    fine value at their root says how far it is to the root of the fine ones.
    """

    @cache
    def rough(argument):
        with roughly(ROUGH):
            return excess(argument) + slack / 2

    low = high = start
    width = 1.0
    while rough(high) > 0:
        low, high, width = high, high + width, 2 * width
        if high > 350:
            return None
    while rough(low) < 0 and low > -350:
        low, high, width = low - width, low, 2 * width
    root = optimize.brentq(rough, low, high, xtol=tolerance)
    miss = excess(root)
    if not -slack <= miss <= 0:
        slope = (rough(root + _STEP) - rough(root)) / _STEP
        for _ in range(8):
            if not slope < 0:
                break
            root -= (miss + slack / 2) / slope
            miss = excess(root)
            if -slack <= miss <= 0:
                break
    return root


def most_steps(mechanism, epsilon, delta, bound="tightest", largest=1_000_000):
    """The record with the most steps whose guarantee meets a budget.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(n_steps)``: the record, less private the more steps.
    epsilon, delta : float
        The budget.
    bound : str, default="tightest"
        Name of the accountant that judges the record.
    largest : int, default=1_000_000
        Number of steps that is not exceeded; some bounds allow for any.

    Returns
    -------
    record
        Its epsilon at ``delta`` is at most ``epsilon``; with one step more it would not be, or there are ``largest`` steps.

    Raises
    ------
    ValueError
        If a number is out of its range.
    CalibrationError
        If a single step is too much.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent, most_steps
    >>> most_steps(lambda n_steps: NoisyGradientDescent(n_steps=n_steps, noise_multiplier=20.0, step_size=1.0), 1.0, 1e-5).n_steps
    28
    """
    epsilon, delta = check_budget(epsilon, delta)
    _check_callable(mechanism, "n_steps")
    checked_count(largest, "largest")

    @cache
    def meets(n_steps, accuracy=ACCURACY):
        with roughly(accuracy):
            return judge(mechanism(n_steps), delta, bound)[1].epsilon(delta) <= epsilon

    n_steps = 1
    if not meets(n_steps):
        raise CalibrationError(f"epsilon={epsilon}, delta={delta}: a single step exceeds this budget under bound={bound!r}")
    for accuracy in (5 * ROUGH, ROUGH / 5, ACCURACY):  # what meets the budget on a coarse grid does so on a finer one
        n_steps = _last(lambda n: meets(n, accuracy), n_steps, largest)  # noqa: B023 (called at once)
    while not meets(n_steps):
        n_steps -= 1
    return mechanism(n_steps)


def _last(holds, low, largest):
    """The last integer up to ``largest`` for which a decreasing property holds, searched from one for which it does."""
    width = 1
    while low < largest and holds(min(low + width, largest)):
        low, width = min(low + width, largest), 2 * width
    high = min(low + width, largest + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
