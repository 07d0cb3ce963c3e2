"""Room for rounding: the cost of computed steps beyond exact ones, from public numbers alone.

Theorem. Let two runs on neighbouring data sets compute theta_k = phi_k(theta_{k-1}) + g_k + N(0,
s_k^2 I) + e_k, k = 1..K, where phi_k is c_k-Lipschitz, one record moves it by at most D_k, the
norms of g_k, the rounding of a gradient, and of e_k, that of an update and of its noise, are at
most G_k and E_k whatever they depend on, and the noise of the last step is added exactly to a
computed point (`skdpdyn.core.noise.release`), so that e_K = 0. Then the last iterate is (mu +
mu_r)-GDP, mu the value of `skdpdyn.privacy.last_iterate_mu` for (c_k, D_k, s_k), and

    mu_r^2 = sum_k (2 (G_k + c_k E_{k-1}) / s_k)^2.

Proof. Measure how far the two runs are apart by the largest distance z that a pair of shifts, one
of each run, bridges. A step makes z at most c_k z + D_k; ideal noise takes any part a <= z of it
away at the price of one Gaussian mechanism of a / s_k, for shifts of both runs in any mixture;
errors on both sides add 2 G_k before the noise and 2 E_k after it. So the shifts that are optimal
without errors, plus 2 (c_k E_{k-1} + G_k) in every step, leave nothing at the end, and prices add
up as norms do. Errors are carried for one step only, so that c_k may exceed 1.

Sums of gradients are arranged so that G_k hardly grows with the number of records, see
`skdpdyn.support.chunks.in_order`; G_k and c_k of a Poisson batch are those of `largest_batch`.

Hypotheses: IEEE 754 arithmetic; the normals of all steps but the last are within
`skdpdyn.kernels.normals.NORMAL_ERROR` of ideal ones that they are coupled to; iterates stay within
the public radius that E_k is computed for, because every step projects onto that ball, which is
1-Lipschitz. Where a bound knows no projection, the radius is one that no iterate reaches.
"""

import math
from typing import Any

import numpy as np

from skdpdyn.core.noise import largest_norm
from skdpdyn.kernels.ball import PROJECTION_ERROR
from skdpdyn.kernels.normals import NORMAL_ERROR

_EPS = np.finfo(np.float64).eps
_LARGEST_PREDICTION = 1000.0  # of the longest row
_LARGEST_NORMAL = 40.0  # that `draw_normals` returns


def farthest_iterate(objective: Any, step_size: Any, noise_std: Any, n_steps: int) -> float:
    """Return a norm that no iterate exceeds where steps contract, whatever the rows and batches.

    Iterates are measured from where training starts, 0 or a point of norm at most ``start_norm``.
    With g the gradient of the mean f of a batch's losses, at least 0, of smoothness beta and at
    most l there, norm(g) is at most L, so that steps of a total length T move by at most T L. A
    penalty holds iterates within L/alpha, or L step/(2 - step alpha) where that is more. And where
    step alpha <= 1, a step makes of norm(theta)^2

        (1 - step alpha)^2 norm(theta)^2 - 2 step (1 - step alpha) g theta + step^2 norm(g)^2.

    g theta is at least f - l, and 2 f at least norm(g)^2/beta. So the square grows by at most step
    G, G = 2 l + max(0, step (alpha + beta) - 1) L^2/beta, and not beyond G/alpha.

    All of that is without noise. Noise moves iterates by no more than the sum of all noise is long,
    in law, because steps contract. It exceeds its bound in a step with the probability
    ``skdpdyn.core.noise.UNCHARGED["iterate"]`` at most.

    Parameters
    ----------
    objective : Objective
        The problem.
    step_size, noise_std : float or ndarray of shape (n_steps,)
        The schedule; no step is longer than 2 / alpha.
    n_steps : int
        Number of steps.

    Returns
    -------
    float
    """
    alpha = objective.alpha
    lipschitz = objective.lipschitz
    largest = float(np.max(step_size))
    drift = _total(step_size, n_steps) * lipschitz
    if 0 < largest * alpha < 2:
        drift = min(drift, lipschitz * max(1 / alpha, largest / (2 - largest * alpha)))
    if largest * alpha <= 1:
        steep = np.maximum(step_size * (alpha + objective.curvature) - 1, 0.0)
        at_start = objective.loss.at_zero
        if objective.start_norm:
            at_start += lipschitz * objective.start_norm
        gained = 2 * at_start + steep * lipschitz**2 / objective.curvature
        drift = min(drift, math.sqrt(_total(step_size * gained, n_steps)))
        if alpha > 0:
            drift = min(drift, math.sqrt(np.max(gained) / alpha))
    return drift + _piled_up(objective, noise_std, n_steps)


def public_radius(objective: Any, step_size: Any, noise_std: Any, n_steps: int) -> float:
    """Return the radius of the ball that every step projects onto, from public numbers.

    Any radius is right where bounds allow for projections. This one holds what iterates can
    reach, or, if that is less, makes raw predictions of the longest row 1,000, at which no loss
    asks for more. Parameters are those of `farthest_iterate`.

    Returns
    -------
    float
    """
    ample = _LARGEST_PREDICTION / objective.row_norm + _piled_up(objective, noise_std, n_steps)
    return min(ample, farthest_iterate(objective, step_size, noise_std, n_steps))


def _piled_up(objective, noise_std, n_steps):
    """Return a norm that the sum of the noises of some steps does not exceed."""
    std = math.sqrt(_total(np.square(noise_std), n_steps))
    return std * largest_norm("gaussian", objective.n_parameters)


def rounding_mu(
    objective: Any,
    step_size: Any,
    noise_std: Any,
    n_steps: int,
    *,
    radius: float,
    lipschitz: float = 1.0,
    n_summed: float,
    repeats: float = 1.0,
) -> float:
    """Return mu_r of the module's theorem, the cost of the roundings of all steps.

    Parameters
    ----------
    objective : Objective
        The problem.
    step_size, noise_std : float or ndarray of shape (n_steps,)
        The schedule.
    n_steps : int
        Number of steps.
    radius : float
        Radius of the ball that every step projects onto.
    lipschitz : float, default=1.0
        Lipschitz constant of a step.
    n_summed : float
        Number of vectors that a gradient sums one after the other, see
        `skdpdyn.support.chunks.in_order`.
    repeats : float, default=1.0
        Most records in a step over its public divisor: more than 1 of Poisson batches, see
        `largest_batch`.

    Returns
    -------
    float
    """
    step_size = np.asarray(step_size, dtype=float)
    noise_std = np.asarray(noise_std, dtype=float)
    size = math.sqrt(objective.n_parameters)
    gradient = repeats * objective.gradient_rounding(radius, objective.n_features + 2, n_summed)
    moved = (
        step_size * (repeats * objective.lipschitz + objective.alpha * radius)
        + _LARGEST_NORMAL * size * noise_std
    )
    before = step_size * gradient
    # two sums of about theta; at most four products, quotients and sums on either side of them
    update = _EPS * (radius + 4 * moved)
    after = update + PROJECTION_ERROR * _EPS * radius + size * NORMAL_ERROR * noise_std
    # an update that is followed by exact noise counts by itself, others with the step after them
    carried = max(lipschitz, 1.0) * after
    if after.ndim:
        carried = np.append(0.0, lipschitz * after[:-1])
        carried[-1] += update[-1]
    return 2 * math.sqrt(_total(np.square((before + carried) / noise_std), n_steps))


def _total(values, n_steps):
    """Return the sum over steps of a number, or of one number a step."""
    return float(np.sum(values)) if np.ndim(values) else float(values) * n_steps


def largest_batch(n_samples: int, sampling_probability: float, n_steps: int) -> int:
    """Return how many records no Poisson batch of a run exceeds, but with a probability of 1e-100.

    Larger ones are cut, and that is accounted for, see `skdpdyn.privacy.PoissonSubsampled`. By
    Bernstein's inequality: a batch of mean size b exceeds b + t with a probability of at most
    exp(-t^2 / (2 b + 2 t / 3)).

    Parameters
    ----------
    n_samples : int
        Number of records.
    sampling_probability : float
        Probability that a batch takes a record.
    n_steps : int
        Number of batches.

    Returns
    -------
    int
    """
    mean = sampling_probability * n_samples
    log = math.log(n_steps) + 100 * math.log(10)
    return min(n_samples, int(mean + log / 3 + math.sqrt(log * log / 9 + 2 * mean * log)))


def step_lipschitz(step_size: Any, strong_convexity: float, smoothness: float) -> float:
    """Return a Lipschitz constant of gradient steps: above 1 if they are too long to contract."""
    step_size = np.asarray(step_size)
    return float(
        np.max(
            np.maximum(np.abs(1 - step_size * strong_convexity), np.abs(1 - step_size * smoothness))
        )
    )
