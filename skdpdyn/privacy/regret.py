"""The Gaussian guarantee that covers another one, and what is lost by saying no more than it."""

import math

import numpy as np
from scipy import special

from skdpdyn.privacy._numerics import gdp_log_deltas
from skdpdyn.privacy.checks import checked_number
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee

_COVERED = 801  # epsilons at which a mu must cover a profile
_LARGEST_MU = 1e3


def mu_and_regret(guarantee: Guarantee, failure: float = 1e-10) -> tuple[float, float]:
    """Return the least mu of Gaussian differential privacy that covers a guarantee, and the loss.

    The profile is at most that of ``GaussianDP(mu, failure=failure)``. With f and g the tradeoff
    curves of the guarantee and of mu, the regret is the least r with f(x + r) - r <= g(x) at all x.
    As r adds r (1 + exp(epsilon)) to a profile, it is the largest difference of both profiles over
    1 + exp(epsilon). Near 0, mu says all: it is 0 for a `GaussianDP` that fails no more often.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    failure : float, default=1e-10
        Probability in (0, 0.5) that mu need not cover, since no mu may cover rare huge losses.

    Returns
    -------
    mu : float
        Rounded up; infinite above 1,000.
    regret : float
        In [0, 1].

    References
    ----------
    J. F. Gomez et al. (2026), Gaussian DP for reporting differential privacy guarantees in machine
    learning, arXiv 2503.10945. There mu need not cover error rates below 1e-10. G. Kaissis et al.
    (2024), Beyond the calibration point: the divergence.

    Examples
    --------
    >>> from skdpdyn.privacy import LaplaceDP, mu_and_regret
    >>> mu, regret = mu_and_regret(LaplaceDP(1.0))
    >>> round(mu, 3), round(regret, 4)
    (1.03, 0.037)
    """
    if isinstance(guarantee, GaussianDP) and guarantee.failure <= failure:
        return guarantee.mu, 0.0
    failure = checked_number(failure, "failure", lambda p: 0 < p < 0.5, "in (0, 0.5)")
    largest = min(float(guarantee.epsilon(2 * failure)), -math.log(failure))
    if largest == 0:  # delta is less than what failures add
        return 0.0, 0.0
    epsilon = np.linspace(0.0, largest, _COVERED)
    gamma = np.exp(epsilon)
    delta = np.asarray(guarantee.delta(epsilon))
    least = delta - (1 + gamma) * failure
    middle = (epsilon[1:] + epsilon[:-1]) / 2
    at = (gamma[1:], gamma[:-1])

    # Profiles are convex in gamma: between points this one is below a chord, and one of mu is above
    # a tangent. Lines are compared at the ends
    def covers(mu: float) -> bool:
        top = np.exp(gdp_log_deltas(middle, mu))
        slope = -special.ndtr(-middle / mu - mu / 2)
        tangents = (top + slope * (end - np.exp(middle)) for end in at)
        return all(
            np.all(tangent >= chord)
            for tangent, chord in zip(tangents, (least[1:], least[:-1]), strict=True)
        )

    low = 0.0
    mu = 1e-6
    while not covers(mu):
        low = mu
        mu = 2 * mu
        if mu > _LARGEST_MU:
            return math.inf, 1.0
    while mu - low > 1e-9 * mu:
        between = (low + mu) / 2
        low, mu = (low, between) if covers(between) else (between, mu)
    gaps = (np.exp(gdp_log_deltas(epsilon, mu)) - delta) / (1 + gamma)
    best = int(np.argmax(gaps))
    near = np.linspace(epsilon[max(best - 1, 0)], epsilon[min(best + 1, gaps.size - 1)], 101)
    gaps = (np.exp(gdp_log_deltas(near, mu)) - guarantee.delta(near)) / (1 + np.exp(near))
    return mu, max(0.0, float(np.max(gaps)))
