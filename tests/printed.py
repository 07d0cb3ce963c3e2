"""Bounds as papers print them, and exact losses: ours are held against them."""

import math

import numpy as np
from scipy import special

from skdpdyn.privacy import GaussianDP, RenyiDP
from skdpdyn.privacy.accountants.perturbation import TiltedCurve
from skdpdyn.privacy.guarantees import LinearCurve


def quadratic(run):
    """Exact loss of the last iterate for squared distances on all of R^d: it is Gaussian."""
    decay = run.step_size * run.strong_convexity
    if decay == 1:
        return GaussianDP(1 / run.noise_multiplier)
    log_c = math.log1p(-decay)
    mean = math.expm1(run.n_steps * log_c) / math.expm1(log_c)
    variance = math.expm1(2 * run.n_steps * log_c) / math.expm1(2 * log_c)
    return GaussianDP(mean / (run.noise_multiplier * math.sqrt(variance)))


def theorem_2(run, rate):
    """Chourasia, Ye and Shokri (2021): the Renyi curve with sigma^2 c = ``rate``."""
    time = run.step_size * rate
    return LinearCurve(-math.expm1(-time * run.n_steps) / time / run.noise_multiplier**2)


def corollary_2(run):
    """For squared distances."""
    decay = run.step_size * run.strong_convexity
    return theorem_2(run, run.strong_convexity * (2 - decay) / 2)


def lower_bound(run):
    """Theorem 3: a Renyi curve that some data reach."""
    return LinearCurve(theorem_2(run, run.strong_convexity).rate / 2)


def advanced_composition(epsilon, count, slack):
    """Dwork and Roth (2014), Theorem 3.20: slack is added to delta."""
    return math.sqrt(2 * count * math.log(1 / slack)) * epsilon + count * epsilon * math.expm1(
        epsilon
    )


def textbook(mu, count, q, delta):
    """Subsampling lemma and basic or advanced composition of Gaussian steps: two epsilons."""

    def step(spent):
        epsilon = GaussianDP(mu).epsilon(min(spent / (count * q), 1.0))
        return math.log1p(q * math.expm1(epsilon))

    return count * step(delta), advanced_composition(step(delta / 2), count, delta / 2)


def chaudhuri(record):
    """Chaudhuri, Monteleoni and Sarwate (2011), Theorem 9: epsilon."""
    return 1 / record.noise_multiplier + 2 * record.tilt


def kifer(record, delta):
    """Kifer, Smith and Thakurta (2012), Theorem 2, solved for epsilon."""
    z = record.noise_multiplier
    root = (2 + math.sqrt(4 + 8 * z * z * math.log(2 / delta))) / (z * z)
    return max(root, 2 * record.curvature)


def redberg(record, epsilon):
    """Redberg, Koskela and Wang (2023), Theorem 3.1: delta where a record vanishes, rank 1."""
    mu = 1 / record.noise_multiplier
    beyond = epsilon + math.log1p(-record.curvature)
    inside = 1 - 2 * np.exp(np.minimum(beyond, mu * mu / 2) + special.log_ndtr(-mu))
    outside = 2 * GaussianDP(mu).delta(np.maximum(beyond, mu * mu / 2))
    return np.where(beyond < mu * mu / 2, inside, outside)[()]


def redberg_renyi(record):
    """Theorem 3.2 there: for both adjacencies."""
    tilt = -math.log1p(-record.curvature)
    return RenyiDP(TiltedCurve(1 / record.noise_multiplier, tilt), record.adjacency)
