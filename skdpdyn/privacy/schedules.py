"""Step sizes, training time and numbers of steps, from public numbers alone."""

import math
from typing import Any

import numpy as np

from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy._types import Array
from skdpdyn.privacy.checks import checked_count
from skdpdyn.privacy.guarantees import Adjacency, gdp_mu
from skdpdyn.privacy.needs import needs

MIN_STEPS = 16
MAX_STEPS = 10_000
_MEAN_COOLED = 3 / 4  # mean factor of cooled step sizes
_MOST_COOLED = 10**7  # steps, each with a size of its own


def largest_step_size(strong_convexity: float, smoothness: float, bound: str = "tightest") -> float:
    """Return the largest step that contracts and that the bound allows."""
    largest = 2 / (strong_convexity + smoothness)
    return (
        min(largest, (1 - 1e-9) / smoothness)
        if needs(bound).step_below_inverse_smoothness
        else largest
    )


def curvature_aware_time(
    epsilon: Any = None,
    delta: Any = None,
    *,
    n_samples: int,
    lipschitz: float,
    curvature: float,
    adjacency: Adjacency | str = "replace_one",
    mu: float | None = None,
    tolerable_noise: float = 1.0,
) -> float:
    """Return the training time (steps x step size) at which noise starts to drown the signal.

    Whatever the step size, noise calibrated to mu-GDP over time T has piled up to standard
    deviation T S / (n mu) along every direction that the data leave flat. T is where that moves the
    raw prediction of a row of the largest norm by ``tolerable_noise`` standard units: T =
    tolerable_noise n mu / (S sqrt(4 curvature)), since a logistic loss, whose unit is 1, has
    curvature B^2/4 along a row of norm B. Beyond it more training adds more noise than signal; the
    true curvature along the path is far above the strong convexity (Yu et al. 2020), so that the
    worst-case number of steps, which waits for the flattest direction, is far too large.

    Parameters
    ----------
    epsilon, delta : float or None, default=None
        The budget; None where ``mu`` is given.
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
    return (
        tolerable_noise
        * n_samples
        * mu
        / (Adjacency(adjacency).sum_sensitivity(lipschitz) * 2 * math.sqrt(curvature))
    )


def curvature_aware_schedule(
    time: float,
    *,
    strong_convexity: float,
    smoothness: float,
    bound: str = "tightest",
    step_size: float | None = None,
    cooling: bool = False,
    max_steps: int = MAX_STEPS,
) -> Any:
    """Return steps and step size that train for ``time``, less the regulariser's forgetting.

    Under a strong convexity alpha, noise piles up to (1 - exp(-alpha t)) / alpha instead of t, so
    the target is reached later, or, from 0.9 / alpha on, never: then training stops when 90 % of
    the start is forgotten.

    Returns
    -------
    n_steps : int
    step_size : float
        Size of every step; with ``cooling``, the factors of `cooled` multiply it.
    """
    forgotten = min(strong_convexity * time, 0.9)
    if forgotten > 0:
        time = -math.log1p(-forgotten) / strong_convexity
    if cooling:
        time /= _MEAN_COOLED
    step_size = step_size or min(
        largest_step_size(strong_convexity, smoothness, bound), time / MIN_STEPS
    )
    return max(1, math.ceil(min(time / step_size * (1 - 1e-12), max_steps))), step_size


def cooled(n_steps: int) -> Array:
    """Return factors of step sizes that fall linearly to 0 over the second half of a run.

    In directions that the data determine well, the noise of the last iterate comes from the last
    steps, and falls with their size. In flat directions all steps count alike, and for the same
    training time the noise grows by 9 %.

    Returns
    -------
    ndarray of shape (n_steps,)
    """
    n_steps = checked_count(n_steps, "n_steps", largest=_MOST_COOLED)
    return np.minimum(2 * np.arange(n_steps, 0, -1) / n_steps, 1.0)


def cooled_time_factor(
    mu: float, *, n_samples: int, n_parameters: int, adjacency: Adjacency | str = "replace_one"
) -> float:
    """Return how many times `curvature_aware_time` cooled steps should train; below 1: not at all.

    At that time T, a row in directions that the data leave flat has noise of 1 standard unit.
    In a direction of curvature h noise stops growing at time 1 / (2h): the rows that make the
    curvature have noise of variance t d (S / (n mu))^2 / (2 c) after time t, c the curvature along
    a row of norm 1. For a logistic loss, unclipped, under replace_one that is 1/8 of a squared unit
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
    >>> from skdpdyn.privacy.schedules import cooled_time_factor
    >>> round(cooled_time_factor(0.18, n_samples=36_000, n_parameters=106), 3)
    1.382
    """
    strength = 2 * n_samples * mu / Adjacency(adjacency).sum_sensitivity(1.0)
    return math.sqrt(strength / (32 * n_parameters))


def worst_case_steps(
    mu: float,
    *,
    n_samples: int,
    n_features: int,
    lipschitz: float,
    strong_convexity: float,
    step_size: float,
    adjacency: Adjacency | str = "replace_one",
) -> float:
    """Return the number of steps with the least worst-case error under the exact bound.

    The curvature is ``strong_convexity`` everywhere and the start, 0, is lipschitz /
    strong_convexity from the minimiser: the squared error x^2 R^2 + (1 - x)^2 A^2, x = c^K, is
    least at K = log(1 + R^2 / A^2) / log(1 / c).

    Returns
    -------
    n_steps : float
        The minimiser as a real number; round it up.
    """
    forgotten = min(step_size * strong_convexity, 1 - 1e-16)
    if not forgotten > 1e-300:
        raise CalibrationError(
            f"strong_convexity={strong_convexity}: the worst-case number of steps is finite "
            "only above 0"
        )
    # R / A, of which both are over the strong convexity
    ratio = n_samples * mu * lipschitz / Adjacency(adjacency).sum_sensitivity(lipschitz)
    return math.log1p(min(ratio, 1e150) ** 2 / n_features) / -math.log1p(-forgotten)


def theorem4_schedule(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    n_features: int,
    lipschitz: float,
    strong_convexity: float,
    smoothness: float,
    adjacency: Adjacency | str = "replace_one",
) -> Any:
    """Return step size, noise and steps of Chourasia, Ye and Shokri (2021), Theorem 4.

    Hypotheses: epsilon <= 2 log(1/delta), strong_convexity > 0. The paper's S = 2L is replace_one;
    under add_remove S = L, the same as twice the records.

    Returns
    -------
    step_size : float
    sigma2 : float
        Variance of the Langevin noise: a step adds N(0, 2 step_size sigma2 I).
    n_steps : float
        As a real number; round it up.
    """
    if not strong_convexity > 0:
        raise CalibrationError(
            f"strong_convexity={strong_convexity}: Theorem 4 needs strong_convexity > 0"
        )
    log_term = math.log(1 / delta)
    if not epsilon <= 2 * log_term:
        raise CalibrationError(
            f"epsilon={epsilon}: Theorem 4 needs epsilon <= 2 log(1/delta) = {2 * log_term:.6g}"
        )
    n = n_samples * 2 * lipschitz / Adjacency(adjacency).sum_sensitivity(lipschitz)
    step_size = strong_convexity / (2 * smoothness**2)
    try:
        sigma2 = (
            8 * lipschitz**2 * (epsilon + 2 * log_term) / (strong_convexity * (epsilon * n) ** 2)
        )
        n_steps = (
            2
            * (smoothness / strong_convexity) ** 2
            * math.log((n * epsilon) ** 2 / (4 * log_term * n_features))
        )
        if not (step_size > 0 and n_steps < math.inf):
            raise ArithmeticError("a number is beyond the doubles")
    except (ArithmeticError, ValueError) as error:
        raise CalibrationError(
            f"epsilon={epsilon}, strong_convexity={strong_convexity}, smoothness={smoothness}: "
            "Theorem 4 cannot be computed "
            "for so extreme a problem"
        ) from error
    return step_size, sigma2, n_steps
