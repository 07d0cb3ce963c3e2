"""The accountants turned around: noise and number of steps from a budget, always on the safe side."""

import math
from collections.abc import Iterable
from functools import cache
from numbers import Integral

import numpy as np
from scipy import optimize, special

from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy._numerics import as_float, checked_count, smallest_safe
from skdpdyn.privacy.accountants import ACCOUNTANTS, tightest
from skdpdyn.privacy.guarantees import Adjacency, GaussianDP, gdp_mu
from skdpdyn.privacy.mechanisms import NoisyGradientDescent
from skdpdyn.privacy.privacy_loss import ACCURACY, roughly

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
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r} must be an integer >= 1")
        if value > 2**63 - 1:
            raise ValueError(f"{name} must be below 2**63: no data have more")
    return int(n_samples), int(n_features)


def largest_step_size(strong_convexity, smoothness, bound="tightest"):
    """Largest step under which a gradient step contracts at the rate of the strong convexity (and `langevin` holds, if asked)."""
    largest = 2 / (strong_convexity + smoothness)
    return min(largest, (1 - 1e-9) / smoothness) if bound == "langevin" else largest


def curvature_aware_time(
    epsilon, delta, *, n_samples, lipschitz, curvature, adjacency="replace_one", mu=None, tolerable_noise=1.0
):
    """Training time (number of steps x step size) at which the noise starts to drown the signal.

    Whatever the step size, noise calibrated to mu-GDP over time T has piled up to standard deviation T S / (n mu) along every
    direction that the data leave flat. T is where that moves the raw prediction of a row of the largest norm by
    ``tolerable_noise`` standard units: T = tolerable_noise n mu / (S sqrt(4 curvature)), since a logistic loss, whose unit is 1,
    has curvature B^2/4 along a row of norm B. Beyond it more training adds more noise than signal; the true curvature along the
    path is far above the strong convexity (Yu et al. 2020), so that the worst-case number of steps, which waits for the flattest
    direction, is far too large.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    n_samples : int
        Number of records.
    lipschitz : float
        Bound L on one record's loss gradient.
    curvature : float
        Bound on the curvature of one record's loss, without the regulariser.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation.
    mu : float or None, default=None
        The budget as a Gaussian guarantee, in place of (epsilon, delta).
    tolerable_noise : float, default=1.0
        Noise in raw predictions that training may end with, in standard units.

    Returns
    -------
    time : float
    """
    mu = gdp_mu(epsilon, delta) if mu is None else mu
    return tolerable_noise * n_samples * mu / (Adjacency(adjacency).sum_sensitivity(lipschitz) * 2 * math.sqrt(curvature))


MIN_STEPS, MAX_STEPS = 16, 10_000
_MEAN_COOLED = 3 / 4  # of the factors of step sizes that are cooled
_MOST_COOLED = 10**7  # steps, each with a size of its own


def curvature_aware_schedule(
    time, *, strong_convexity, smoothness, bound="tightest", step_size=None, cooling=False, max_steps=MAX_STEPS
):
    """Steps and step size that train for ``time``, discounted by what the regulariser forgets.

    Under a strong convexity alpha, noise piles up to (1 - exp(-alpha t)) / alpha instead of t, so the target is reached later,
    or, from 0.9 / alpha on, never: then training stops when 90 % of the start is forgotten.

    Returns
    -------
    n_steps : int
    step_size : float
        Of every step, or, with ``cooling``, what the factors of `cooled` multiply.
    """
    forgotten = min(strong_convexity * time, 0.9)
    if forgotten > 0:
        time = -math.log1p(-forgotten) / strong_convexity
    if cooling:
        time /= _MEAN_COOLED
    step_size = step_size or min(largest_step_size(strong_convexity, smoothness, bound), time / MIN_STEPS)
    return max(1, min(math.ceil(time / step_size * (1 - 1e-12)), max_steps)), step_size


def cooled(n_steps):
    """Factors of step sizes that fall linearly to 0 over the second half of a run.

    In directions that the data determine well, the noise of the last iterate is that of the last steps, and falls with their
    size. In those that they leave flat all steps count alike, and for the same training time the noise grows by 9 %.

    Returns
    -------
    ndarray of shape (n_steps,)
    """
    n_steps = checked_count(n_steps, "n_steps", largest=_MOST_COOLED)
    return np.minimum(2 * np.arange(n_steps, 0, -1) / n_steps, 1.0)


def cooled_time_factor(mu, *, n_samples, n_parameters, adjacency="replace_one"):
    """How many times as long as `curvature_aware_time` it pays to train if steps are cooled; below 1: neither pays.

    That time T is where a row in directions that the data leave flat has noise of 1 standard unit. In a direction of curvature h
    noise stops growing at time 1 / (2h): the rows that make the curvature have noise of variance t d (S / (n mu))^2 / (2 c) after
    time t, c the curvature along a row of norm 1. For a logistic loss, unclipped, under replace_one that is 1/8 of a squared unit
    at t = T n mu / (32 d). The geometric mean of both times is T times this.

    Parameters
    ----------
    mu : float
        The budget, as a Gaussian guarantee.
    n_samples, n_parameters : int
        Numbers of records and of parameters.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation.

    Returns
    -------
    factor : float

    Examples
    --------
    >>> from skdpdyn.privacy.calibration import cooled_time_factor
    >>> round(cooled_time_factor(0.18, n_samples=36_000, n_parameters=106), 3)
    1.382
    """
    strength = 2 * n_samples * mu / Adjacency(adjacency).sum_sensitivity(1.0)
    return math.sqrt(strength / (32 * n_parameters))


def worst_case_steps(mu, *, n_samples, n_features, lipschitz, strong_convexity, step_size, adjacency="replace_one"):
    """Number of steps that minimises the worst-case error of the last iterate under the exact bound.

    The curvature is ``strong_convexity`` everywhere and the start, 0, is lipschitz / strong_convexity from the minimiser: the
    squared error x^2 R^2 + (1 - x)^2 A^2, x = c^K, is least at K = log(1 + R^2 / A^2) / log(1 / c).

    Returns
    -------
    n_steps : float
        The minimiser as a real number; round it up.
    """
    if not strong_convexity > 0:
        raise CalibrationError(f"strong_convexity={strong_convexity}: the worst-case number of steps is finite only above 0")
    distance = lipschitz / strong_convexity
    spread = math.sqrt(n_features) * Adjacency(adjacency).sum_sensitivity(lipschitz) / (n_samples * mu * strong_convexity)
    return math.log1p((distance / spread) ** 2) / -math.log1p(-min(step_size * strong_convexity, 1 - 1e-16))


def theorem4_schedule(epsilon, delta, *, n_samples, n_features, lipschitz, strong_convexity, smoothness, adjacency="replace_one"):
    """Step size, Langevin noise and number of steps of Chourasia, Ye and Shokri (2021), Theorem 4.

    Hypotheses: epsilon <= 2 log(1/delta), strong_convexity > 0. The paper's S = 2L is replace_one; under add_remove S = L, the
    same as twice the records.

    Returns
    -------
    step_size : float
    sigma2 : float
        Variance of the Langevin noise: a step adds N(0, 2 step_size sigma2 I).
    n_steps : float
        As a real number; round it up.
    """
    if not strong_convexity > 0:
        raise CalibrationError(f"strong_convexity={strong_convexity}: Theorem 4 needs strong_convexity > 0")
    log_term = math.log(1 / delta)
    if not epsilon <= 2 * log_term:
        raise CalibrationError(f"epsilon={epsilon}: Theorem 4 needs epsilon <= 2 log(1/delta) = {2 * log_term:.6g}")
    n = n_samples * 2 * lipschitz / Adjacency(adjacency).sum_sensitivity(lipschitz)
    step_size = strong_convexity / (2 * smoothness**2)
    try:
        sigma2 = 8 * lipschitz**2 * (epsilon + 2 * log_term) / (strong_convexity * (epsilon * n) ** 2)
        n_steps = 2 * (smoothness / strong_convexity) ** 2 * math.log((n * epsilon) ** 2 / (4 * log_term * n_features))
    except (ArithmeticError, ValueError) as error:
        raise CalibrationError(
            f"epsilon={epsilon}, strong_convexity={strong_convexity}, smoothness={smoothness}: Theorem 4 cannot be computed "
            "for so extreme a problem"
        ) from error
    return step_size, sigma2, n_steps


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
    mu = gdp_mu(*check_budget(epsilon, delta))
    if not isinstance(shares, Iterable) or isinstance(shares, (str, bytes)):
        raise ValueError(f"shares={shares!r} must be a sequence of numbers > 0, one for each part")
    shares = list(shares)
    parts = [as_float(share) for share in shares]
    if not parts or not all(part > 0 for part in parts) or not sum(parts) < math.inf:
        raise ValueError(f"shares={shares!r} must be finite numbers > 0, one for each part")
    pairs = []
    for part in parts:
        share = GaussianDP(mu * math.sqrt(part / math.fsum(parts)) * (1 - 1e-12)).epsilon(delta)  # rounded up by less than that
        if not share > 0:
            raise CalibrationError(f"shares={shares!r}: a part this small has epsilon=0 at delta={delta!r}. Take a smaller delta")
        pairs.append((share, float(delta)))
    return pairs


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
        "curvature": where noise starts to drown signal, see `curvature_aware_time`. "worst_case": the minimiser of the
        worst-case error under the exact bound. "theorem4": step size, noise and steps as printed in Chourasia, Ye and Shokri
        (2021), Theorem 4, which spends more noise and far more steps. An int: that many. But for "theorem4" the step size is at
        most 2 / (strong_convexity + smoothness), and the noise the least that the exact last-iterate bound allows.
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
    if n_steps == "theorem4":
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
    if n_steps == "worst_case":
        steps = max(1, math.ceil(worst_case_steps(target, step_size=step_size, **problem)))
    elif n_steps == "curvature":
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
    if bound == "tightest":
        best = tightest(mechanism, delta=delta)
        return best.bound, best.guarantee
    if bound not in ACCOUNTANTS:
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
    >>> m = least_noise(lambda noise: PoissonSubsampled(0.01, noise, 1000, "add_remove"), 1.0, 1e-5)
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
    noise = smallest_safe(noise, lambda value: guarantee(value).epsilon(delta) <= epsilon, towards=math.inf)
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
    >>> most_steps(lambda n_steps: NoisyGradientDescent(n_steps, 20.0, 1.0), 1.0, 1e-5).n_steps
    28
    """
    epsilon, delta = check_budget(epsilon, delta)
    _check_callable(mechanism, "n_steps")
    if not isinstance(largest, Integral) or isinstance(largest, bool) or largest < 1:
        raise ValueError(f"largest={largest!r} must be an integer >= 1")

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
