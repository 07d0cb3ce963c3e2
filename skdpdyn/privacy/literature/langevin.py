"""Other printed results of Chourasia, Ye and Shokri (2021), for comparison and reproduction."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdpdyn.privacy._types import Array, Mechanism
from skdpdyn.privacy.accountants.langevin import check_run, converging, langevin
from skdpdyn.privacy.checks import checked_number, checked_order
from skdpdyn.privacy.guarantees import GaussianDP, LinearCurve, RenyiDP


def langevin_lsi(mechanism: Mechanism, lsi_constant: float) -> RenyiDP:
    """Bound the last iterate, in Renyi form, under a log-Sobolev inequality that the user grants.

    Theorem 2 of Chourasia, Ye and Shokri (2021): RDP(a) = a S^2 / (2 c sigma^4 n^2) (1 -
    exp(-sigma^2 c step_size K)). The hypothesis that cannot be checked on a record: the law of the
    (tracing) diffusion satisfies c-LSI at all times, for every pair of neighbours. Checked: only
    the last iterate is released; equal steps; ``sensitivity`` = S/n is given, which fixes the unit
    of c.

    Parameters
    ----------
    mechanism : NoisyGradientDescent
        Record of the run, with its ``sensitivity``.
    lsi_constant : float
        c > 0, in the units of 1 / parameter^2.

    Returns
    -------
    RenyiDP

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails, naming it, or for any other record.
    ValueError
        If ``lsi_constant`` is not a finite number > 0.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent
    >>> from skdpdyn.privacy.literature.langevin import langevin_lsi
    >>> m = NoisyGradientDescent(
    ...     n_steps=500, noise_multiplier=250.0, step_size=0.02, sensitivity=8e-4
    ... )
    >>> round(langevin_lsi(m, lsi_constant=1250.0).rdp(10), 8)
    0.01589219
    """
    refuse = check_run(mechanism, "Theorem 2")
    if mechanism.sensitivity is None:
        refuse("sensitivity = S/n, not None: without it the log-Sobolev constant has no unit")
    checked_number(lsi_constant, "lsi_constant", lambda x: 0 < x < math.inf, "a finite number > 0")
    sigma2 = mechanism.step_size * (mechanism.noise_multiplier * mechanism.sensitivity) ** 2 / 2
    return converging(mechanism, sigma2 * lsi_constant)


def langevin_quadratic(mechanism: Mechanism) -> RenyiDP:
    """Bound the last iterate, in Renyi form, for squared distance losses.

    Corollary 2 of Chourasia, Ye and Shokri (2021), for loss lambda |theta - x|^2 / 2 on all of R^d:
    Theorem 2 with sigma^2 c = lambda (2 - step_size lambda) / 2. Within 4 / (2 - step_size
    lambda)^2 of the exact loss (`quadratic`) as steps grow, never below it. Checked:
    strong_convexity = smoothness = lambda, step_size <= 1 / lambda, no projection, equal steps.

    Parameters
    ----------
    mechanism : NoisyGradientDescent
        Record of the run.

    Returns
    -------
    RenyiDP

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails, naming it, or for any other record.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent
    >>> from skdpdyn.privacy.literature.langevin import langevin_quadratic, quadratic
    >>> m = NoisyGradientDescent(
    ...     n_steps=500, noise_multiplier=10.0, step_size=0.1, strong_convexity=1.0, smoothness=1.0
    ... )
    >>> round(langevin_quadratic(m).rdp(2), 6), round(quadratic(m).rdp(2), 6)
    (0.210526, 0.19)
    """
    _check_quadratic(mechanism, "Corollary 2")
    convexity, step_size = mechanism.strong_convexity, mechanism.step_size
    return converging(mechanism, convexity * (2 - step_size * convexity) / 2)


def quadratic(mechanism: Mechanism) -> GaussianDP:
    """Return the exact loss of the last iterate for squared distances, below every bound.

    For loss lambda |theta - x|^2 / 2 on all of R^d the last iterate is Gaussian; data sets whose
    means are S/(n lambda) apart shift it by mu = sum c^i / (noise_multiplier sqrt(sum c^(2i)))
    standard deviations, c = 1 - step_size lambda, i < K. Checked: strong_convexity = smoothness =
    lambda, step_size <= 1 / lambda, no projection, equal steps.

    Parameters
    ----------
    mechanism : NoisyGradientDescent
        Record of the run.

    Returns
    -------
    GaussianDP

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails, naming it, or for any other record.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent
    >>> from skdpdyn.privacy.literature.langevin import quadratic
    >>> m = NoisyGradientDescent(
    ...     n_steps=500, noise_multiplier=10.0, step_size=0.1, strong_convexity=1.0, smoothness=1.0
    ... )
    >>> round(quadratic(m).mu, 6)
    0.43589
    """
    _check_quadratic(mechanism, "the exact loss")
    decay = mechanism.step_size * mechanism.strong_convexity
    if decay == 1:
        return GaussianDP(1 / mechanism.noise_multiplier, mechanism.adjacency)
    log_c, n = math.log1p(-decay), mechanism.n_steps
    mean = math.expm1(n * log_c) / math.expm1(log_c)
    variance = math.expm1(2 * n * log_c) / math.expm1(2 * log_c)
    return GaussianDP(
        mean / (mechanism.noise_multiplier * math.sqrt(variance)), mechanism.adjacency
    )


def lower_bound(mechanism: Mechanism) -> LinearCurve:
    """Return a Renyi curve that some data reach: a lower bound on every guarantee.

    Theorem 3 of Chourasia, Ye and Shokri (2021): RDP(a) >= a S^2 / (4 lambda sigma^2 n^2) (1 -
    exp(-lambda step_size K)), reached by the quadratic of curvature lambda = strong_convexity (the
    paper has lambda = 1). Checked: step_size <= 1/lambda, no projection.

    Parameters
    ----------
    mechanism : NoisyGradientDescent
        Record of the run.

    Returns
    -------
    LinearCurve
        ``curve(order)``.

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails, naming it, or for any other record.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent
    >>> from skdpdyn.privacy.literature.langevin import lower_bound
    >>> m = NoisyGradientDescent(
    ...     n_steps=500, noise_multiplier=10.0, step_size=0.1, strong_convexity=1.0, smoothness=1.0
    ... )
    >>> round(lower_bound(m)(2), 6)
    0.1
    """
    refuse = check_run(mechanism, "Theorem 3")
    if mechanism.diameter is not None:
        refuse(
            f"diameter=None, not {mechanism.diameter}: the quadratic that reaches it lives on "
            "all of R^d"
        )
    time = mechanism.step_size * mechanism.strong_convexity
    if not 0 < time <= 1:
        refuse(f"0 < step_size strong_convexity <= 1, not {time:.6g}")
    return LinearCurve(
        float(-np.expm1(-time * mechanism.n_steps) / (2 * time * mechanism.noise_multiplier**2))
    )


def diffusion(drift_distance: float, duration: float, sigma: float) -> LinearCurve:
    """Return the Renyi curve of two coupled diffusions: RDP(a) = a S_v^2 T / (4 sigma^2).

    Theorem 1 of Chourasia, Ye and Shokri (2021): drifts at most ``drift_distance`` apart
    everywhere, noise sqrt(2) sigma dW, equal starts. No convexity.

    Parameters
    ----------
    drift_distance : float
        S_v, the largest distance of the two vector fields.
    duration : float
        T.
    sigma : float
        Noise.

    Returns
    -------
    LinearCurve

    Examples
    --------
    >>> from skdpdyn.privacy.literature.langevin import diffusion
    >>> diffusion(0.5, 8.0, 2.0)(4)
    0.5
    """
    for name, value in (
        ("drift_distance", drift_distance),
        ("duration", duration),
        ("sigma", sigma),
    ):
        checked_number(value, name, lambda x: 0 < x < math.inf, "a finite number > 0")
    return LinearCurve((drift_distance / sigma) ** 2 * duration / 4)


def contributions(mechanism: Mechanism, order: float, accountant: Any = None) -> Array:
    """Return each step's part of the Renyi divergence of the last iterate.

    Parameters
    ----------
    mechanism : NoisyGradientDescent
        Record of the run, with equal steps.
    order : float
        Order of the Renyi divergence.
    accountant : callable or None, default=None
        The accountant; None: `langevin`.

    Returns
    -------
    ndarray of shape (n_steps,)

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent
    >>> from skdpdyn.privacy.literature.langevin import contributions
    >>> m = NoisyGradientDescent(
    ...     n_steps=3, noise_multiplier=10.0, step_size=0.2, strong_convexity=1.0, smoothness=4.0
    ... )
    >>> contributions(m, 2.0).round(6)
    array([0.019033, 0.017221, 0.015583])
    """
    check_run(mechanism, "the contribution of a step")
    accountant = accountant or langevin
    curve = [
        float(accountant(replace(mechanism, n_steps=k)).rdp(checked_order(order)))
        for k in range(1, mechanism.n_steps + 1)
    ]
    return np.diff(curve, prepend=0.0)


def _check_quadratic(mechanism: Mechanism, theorem: str) -> None:
    refuse = check_run(mechanism, theorem)
    if not 0 < mechanism.strong_convexity == mechanism.smoothness:
        refuse(
            f"strong_convexity = smoothness, not {mechanism.strong_convexity} and "
            f"{mechanism.smoothness}"
        )
    if not mechanism.step_size * mechanism.smoothness <= 1:
        refuse(
            f"step_size <= 1/smoothness = {1 / mechanism.smoothness:.6g}, not "
            f"{mechanism.step_size:.6g}"
        )
    if mechanism.diameter is not None:
        refuse(f"diameter=None, not {mechanism.diameter}: the theorem is for all of R^d")
