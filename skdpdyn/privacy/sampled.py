"""The Renyi curve of one Poisson-sampled Gaussian step, by quadrature."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

import numpy as np

from skdpdyn.privacy._logarithms import log_mixture
from skdpdyn.privacy._types import Array, Floats
from skdpdyn.privacy.checks import EXTREME
from skdpdyn.privacy.fields import Checked, number
from skdpdyn.privacy.guarantees import Adjacency, Neighbours
from skdpdyn.privacy.stored import stored_part

REACH = 12.0  # standard deviations beyond the last peak at which the quadrature ends
MAX_NODES = 2**15  # of one quadrature; beyond, the curve without sampling is used


Sampled: TypeAlias = Annotated[
    float, number(lambda q: 1 / EXTREME < q <= 1, f"in (0, 1], and above {1 / EXTREME}")
]
Noise: TypeAlias = Annotated[
    float,
    number(
        lambda z: 1 / EXTREME < z < EXTREME,
        f"a number between {1 / EXTREME} and {EXTREME}: squares beyond leave the range of double "
        "precision",
    ),
]


@stored_part
@dataclass(frozen=True)
class SampledCurve(Checked):
    """The Renyi curve of one Poisson-sampled Gaussian step, from its dominating pair.

    The pair P, Q is (1-q) N(0, 1) + q N(m, 1) with m = 1 / ``noise_multiplier``, against N(0, 1)
    under add_remove and against (1-q) N(0, 1) + q N(-m, 1) under replace_one. A pair that dominates
    for every hockey-stick divergence does so for every f-divergence, so its Renyi divergence, log
    E_Q (P/Q)^a / (a - 1), bounds that of a step. Under add_remove the other direction is never
    larger (Mironov, Talwar and Zhang 2019, Theorem 5); under replace_one both are equal.

    Parameters
    ----------
    sampling_probability : float
        Probability q in (0, 1] that a record is in the batch.
    noise_multiplier : float
        Standard deviation z of the noise over the bound on one record's contribution. Finite and
        positive.
    adjacency : {"replace_one", "add_remove"}
        The neighbouring relation.

    References
    ----------
    I. Mironov, K. Talwar, L. Zhang (2019), Renyi differential privacy of the sampled Gaussian
    mechanism. Y. Zhu, J. Dong, Y.-X. Wang (2022), Optimal accounting of differential privacy via
    characteristic function, Theorem 10.

    Examples
    --------
    >>> from skdpdyn.privacy.sampled import SampledCurve
    >>> kinds = ("replace_one", "add_remove")
    >>> [round(float(SampledCurve(0.01, 1.0, adjacency)(8.0)), 6) for adjacency in kinds]
    [0.001984, 0.000894]
    """

    sampling_probability: Sampled
    noise_multiplier: Noise
    adjacency: Neighbours

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order`` > 1 (float or array)."""
        order = np.asarray(order, dtype=float)
        shift = 1 / self.noise_multiplier
        replaced = self.adjacency is Adjacency.REPLACE_ONE
        values = [
            sampled_divergence(self.sampling_probability, shift, order_of_moment, replaced)
            for order_of_moment in order.ravel().tolist()
        ]
        return np.array(values).reshape(order.shape)[()]


@lru_cache(maxsize=4096)
def sampled_divergence(q: float, shift: float, order: float, replaced: bool) -> float:
    """Return the Renyi divergence of ``order`` of the pair of `SampledCurve`, rounded up.

    With r = P/Q, u = log r and e = order - 1, log E_Q r^order = log(1 + I), where I = E_Q h(r) and
    h(r) = r^order - 1 - order (r - 1) = r (psi(e u) + e psi(-u)), psi(v) = exp(v) - 1 - v: terms
    that are never negative, so that nothing cancels, however close to 1 r is. The integrand is
    analytic in a strip around the real line and falls like a normal density at both ends, where the
    trapezoidal rule converges exponentially. Its leading error changes sign when the nodes move by
    half a step: the larger of both sums is a bound, up to the square of that error.
    """
    excess = order - 1
    with np.errstate(over="ignore"):
        unsampled = float(np.float64(order) * np.square(shift * (2 if replaced else 1)) / 2)
    if q == 1 or not excess * shift < MAX_NODES or shift > MAX_NODES:
        return unsampled
    step = min(0.4, 0.3 / shift, 0.5 / (shift * math.sqrt(order)))
    low = -2 * shift - REACH
    high = max(order, 2.0) * shift + REACH + 2
    if replaced:  # beyond it the normal density falls faster than the power of Q grows
        high += excess * shift * _weight(q, shift, high)
    if not high - low < MAX_NODES * step:
        return unsampled
    x = np.arange(low, high + step, step / 2)
    log_p, u = _pair(q, shift, x, replaced)
    with np.errstate(divide="ignore"):
        log_h = np.logaddexp(_log_psi(excess * u), math.log(excess) + _log_psi(-u))
        log_terms = log_p + log_h
        top = float(np.max(log_terms))
        terms = np.exp(log_terms - top)
        tails = _log_tails(q, shift, order, float(x[0]), float(x[-1]), replaced, step)
    total = step * max(terms[::2].sum(), terms[1::2].sum())
    log_moment = np.logaddexp(top + math.log(total), tails) - math.log(2 * math.pi) / 2
    # Rounding: a few ulps of the sum, and of what the exponents were made of
    log_moment += 1e-13 + 1e-15 * (abs(top) + (abs(low) + high) ** 2 / 2)
    small = log_moment < -37  # log(1 + I) is then I, rounded up
    divergence = (
        np.exp(log_moment - math.log(excess)) if small else np.logaddexp(0.0, log_moment) / excess
    )
    return float(min(max(divergence, 5e-324), unsampled))


def _weight(q: float, shift: float, x: float) -> float:
    """Share of the density of Q at x that comes from N(-shift, 1)."""
    exponent = -shift * x - shift * shift / 2 + math.log(q) - math.log1p(-q)
    return math.exp(exponent) / (1 + math.exp(exponent)) if exponent < 0 else 1.0


def _pair(q: float, shift: float, x: Array, replaced: bool) -> Any:
    """Log P + log(2 pi)/2 and log P/Q at x."""
    log_a = log_mixture(q, shift * x - shift * shift / 2)
    log_b = log_mixture(q, -shift * x - shift * shift / 2) if replaced else 0.0
    return log_a - x * x / 2, log_a - log_b


_PSI_SERIES = [2 / math.factorial(k) for k in range(2, 16)]  # coefficients of psi(v) / (v^2 / 2)


def _log_psi(v: Array) -> Array:
    """Return log(e^v - 1 - v) at any real v, relatively precise; -inf at 0."""
    size = np.abs(v)
    small = np.where(size < 0.3, v, 0.0)
    series = np.polynomial.polynomial.polyval(small, _PSI_SERIES)
    middle = np.where((size >= 0.3) & (v < 30.0), np.maximum(v, -1e300), 1.0)
    large = np.maximum(v, 30.0)
    with np.errstate(divide="ignore"):
        near = 2 * np.log(size) - math.log(2) + np.log(series)
    far = large + np.log1p(-(1 + large) * np.exp(-large))
    return np.where(size < 0.3, near, np.where(v < 30.0, np.log(np.expm1(middle) - middle), far))


def _log_tails(
    q: float, shift: float, order: float, low: float, high: float, replaced: bool, step: Any
) -> float:
    """Return the logarithm of a bound on the integral, and its sums, outside of [low, high].

    Above: h(r) <= order e/2 (r - 1)^2 max(1, r^(order - 2)), by its second derivative. Below, where
    r < 1: h(r) <= e max(1, order/2) (1 - r)^2. In both, log |r - 1| grows at most by shift + 1/(|x|
    - shift/2), and by what Q's own fall adds, for each unit that x moves outwards.
    """
    excess = order - 1
    ends = np.array([low, high])
    log_p, u = _pair(q, shift, ends, replaced)
    log_q = log_p - u
    log_gap = np.log(np.abs(np.expm1(np.minimum(u, 700.0)))) + np.maximum(u - 700.0, 0.0)
    pull = shift + 1 / (np.abs(ends) - shift / 2)
    power = max(order - 2, 0.0)
    falling = shift * _weight(q, shift, high) if replaced else 0.0
    below = math.log(excess * max(1.0, order / 2)) + log_q[0] + 2 * log_gap[0]
    above = math.log(order * excess / 2) + log_q[1] + 2 * log_gap[1] + power * max(u[1], 0.0)
    slopes = (-low - 2 * pull[0], high - 2 * (pull[1] + falling) - power * (shift + falling))
    return float(
        np.logaddexp(below + math.log(step + 1 / slopes[0]), above + math.log(step + 1 / slopes[1]))
    )
