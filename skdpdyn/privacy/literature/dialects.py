"""Composition in other dialects: zCDP, moments, basic and advanced, the subsampling lemma.

They are for comparison and for reading papers; `composition` and `subsampling` are never worse.
"""

import math
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._numerics import like
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants.composition import composition
from skdpdyn.privacy.checks import checked, checked_choice, checked_number
from skdpdyn.privacy.guarantees import (
    Adjacency,
    ApproximateDP,
    GaussianDP,
    Guarantee,
    LinearCurve,
    RenyiDP,
)
from skdpdyn.privacy.mechanisms import (
    CyclicBatches,
    Gaussian,
    NoisyGradientDescent,
    PoissonSubsampled,
    WithoutReplacement,
)


def zcdp(mechanism: Mechanism) -> RenyiDP:
    """Return the zero-concentrated guarantee of the composition: RDP(a) = rho a, rho = mu^2 / 2.

    Wang (2021), Section 12.1.2: T steps of noise sigma on a sum of sensitivity L have rho = T L^2 /
    (2 sigma^2). Moments accountant, RDP and zCDP are the same curve for Gaussian noise;
    `log_moment` reads it.

    Parameters
    ----------
    mechanism : record
        Record of a run whose `composition` is Gaussian.

    Returns
    -------
    RenyiDP

    Raises
    ------
    UnsupportedMechanismError
        If the composition is not Gaussian, or for a record that has none.

    References
    ----------
    Y.-X. Wang (2021), CS292A introduction to differential privacy, lecture 12: NoisyGD and
    NoisySGD, Section 12.1.2.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent
    >>> from skdpdyn.privacy.literature.dialects import zcdp
    >>> zcdp(NoisyGradientDescent(n_steps=100, noise_multiplier=20.0, step_size=1.0)).curve.rate
    0.125
    """
    guarantee = composition(mechanism)
    if type(guarantee) is not GaussianDP or guarantee.failure:
        raise UnsupportedMechanismError(
            f"zcdp needs Gaussian noise; the composition is {guarantee!r}"
        )
    return RenyiDP(
        LinearCurve(guarantee.mu * guarantee.mu / 2), guarantee.adjacency, unit=guarantee.unit
    )


def log_moment(guarantee: Guarantee, moment: Any) -> float:
    """Log of the moment generating function of the privacy loss: moment * RDP(moment + 1).

    Abadi et al. (2016), Theorem 2; Boninsegna, Section IV: log-moments add under composition, and
    delta = min over moments of exp(log_moment - moment * epsilon), which is ``RenyiDP(...,
    conversion="classic")``.

    Parameters
    ----------
    guarantee : Guarantee
        One with a Renyi curve.
    moment : float or array-like
        Order of the moment, > 0.

    Returns
    -------
    float or ndarray

    References
    ----------
    M. Abadi, A. Chu, I. Goodfellow, H. B. McMahan, I. Mironov, K. Talwar, L. Zhang (2016), Deep
    learning with differential privacy, Theorem 2. F. Boninsegna (undated), The privacy analysis of
    the differential private stochastic gradient descent, Section IV.

    Examples
    --------
    >>> from skdpdyn.privacy import GaussianDP
    >>> from skdpdyn.privacy.literature.dialects import log_moment
    >>> log_moment(GaussianDP(1.0), 3.0)
    6.0
    """
    moment = checked(moment, "moment", lambda x: x > 0, "> 0")
    return like(moment, moment * guarantee.rdp(1 + moment))


def basic_composition(step: Any, count: int) -> ApproximateDP:
    """Add epsilon and delta over releases: basic composition.

    Parameters
    ----------
    step : ApproximateDP
        Guarantee of one release.
    count : int
        Number of releases.

    Returns
    -------
    ApproximateDP

    Examples
    --------
    >>> from skdpdyn.privacy import ApproximateDP
    >>> from skdpdyn.privacy.literature.dialects import basic_composition
    >>> basic_composition(ApproximateDP(0.25, 1e-6), 4).at_epsilon
    1.0
    """
    at_delta = min(1.0, count * step.at_delta)
    return replace(step, at_epsilon=count * step.at_epsilon, at_delta=at_delta)


def advanced_composition(step: Any, count: int, slack: float) -> ApproximateDP:
    """Compose k releases by advanced composition, as printed.

    Dwork and Roth (2014), Theorem 3.20; Boninsegna, Theorem II.3, whose closing remark for epsilon
    < 1 is garbled and not used.

    Parameters
    ----------
    step : ApproximateDP
        Guarantee of one release.
    count : int
        Number of releases k.
    slack : float
        Slack that is added to delta, in (0, 1).

    Returns
    -------
    ApproximateDP

    References
    ----------
    C. Dwork, A. Roth (2014), The algorithmic foundations of differential privacy, Theorem 3.20. F.
    Boninsegna (undated), The privacy analysis of the differential private stochastic gradient
    descent, Theorem II.3.

    Examples
    --------
    >>> from skdpdyn.privacy import ApproximateDP
    >>> from skdpdyn.privacy.literature.dialects import advanced_composition
    >>> round(advanced_composition(ApproximateDP(0.01, 1e-9), 1000, 1e-6).at_epsilon, 6)
    1.76276
    """
    slack = checked_number(slack, "slack", lambda x: 0 < x < 1, "in (0, 1)")
    epsilon = step.at_epsilon
    # Far beyond any use of it, k epsilon (e^epsilon - 1) overflows: there the promise is empty
    excess = count * epsilon * math.expm1(epsilon) if epsilon < 700 else math.inf
    total = math.sqrt(2 * count * math.log(1 / slack)) * epsilon + excess
    return replace(step, at_epsilon=total, at_delta=min(1.0, count * step.at_delta + slack))


def subsampling_lemma(step: Any, sampling_probability: float, sampling: str) -> ApproximateDP:
    """Apply the subsampling lemma: epsilon' = log(1 + q (e^epsilon - 1)), delta' = q delta.

    Balle, Barthe and Gaboardi (2018); Boninsegna, Theorem II.4; Wang (2021), Lemma 12.2. It holds
    for Poisson batches under add_remove and for batches of fixed size under replace_one, and for no
    other pair.

    Parameters
    ----------
    step : ApproximateDP
        Guarantee of the mechanism on a batch.
    sampling_probability : float
        Probability q that a record is in the batch.
    sampling : {"poisson", "fixed_size"}
        How batches are drawn.

    Returns
    -------
    ApproximateDP

    Raises
    ------
    UnsupportedMechanismError
        If the lemma does not hold for this sampling under the step's adjacency.

    References
    ----------
    B. Balle, G. Barthe, M. Gaboardi (2018), Privacy amplification by subsampling, Theorems 8 and 9.
    F. Boninsegna (undated), The privacy analysis of the differential private stochastic gradient
    descent, Theorem II.4. Y.-X. Wang (2021), CS292A introduction to differential privacy, lecture
    12: NoisyGD and NoisySGD, Lemma 12.2.

    Examples
    --------
    >>> from skdpdyn.privacy import ApproximateDP
    >>> from skdpdyn.privacy.literature.dialects import subsampling_lemma
    >>> round(subsampling_lemma(ApproximateDP(1.0, 1e-5), 0.01, "fixed_size").at_epsilon, 8)
    0.01703686
    """
    needed = {"poisson": Adjacency.ADD_REMOVE, "fixed_size": Adjacency.REPLACE_ONE}
    checked_choice(sampling, "sampling", needed)
    if step.adjacency is not needed[sampling]:
        raise UnsupportedMechanismError(
            f"the subsampling lemma for sampling={sampling!r} needs "
            f"adjacency={needed[sampling]!r}, not {step.adjacency!r}"
        )
    name = "sampling_probability"
    q = checked_number(sampling_probability, name, lambda x: 0 < x <= 1, "in (0, 1]")
    epsilon = step.at_epsilon
    amplified = math.log1p(q * math.expm1(epsilon)) if epsilon < 700 else epsilon + math.log(q)
    return replace(step, at_epsilon=amplified, at_delta=q * step.at_delta)


@singledispatch
def gaussian_steps(mechanism: Mechanism) -> Any:
    """Return mu, number, sampling probability and kind of sampling of equal Gaussian steps."""
    raise UnsupportedMechanismError(
        f"no run of equal Gaussian steps is known for {type(mechanism).__name__}"
    )


def _constant(mechanism: Mechanism) -> float:
    if np.ndim(mechanism.noise_multiplier):
        raise UnsupportedMechanismError(
            "composition theorems for equal steps need one noise_multiplier for all steps"
        )
    return 1 / mechanism.noise_multiplier


@gaussian_steps.register
def _(mechanism: Gaussian) -> Any:
    return 1 / mechanism.noise_multiplier, 1, 1.0, None


@gaussian_steps.register
def _(mechanism: NoisyGradientDescent) -> Any:
    return _constant(mechanism), mechanism.n_steps, 1.0, None


@gaussian_steps.register
def _(mechanism: CyclicBatches) -> Any:
    return _constant(mechanism), mechanism.n_epochs, 1.0, None


@gaussian_steps.register
def _(mechanism: PoissonSubsampled) -> Any:
    moved = mechanism.adjacency.sum_sensitivity(1.0)
    return (
        moved / mechanism.noise_multiplier,
        mechanism.n_steps,
        mechanism.sampling_probability,
        "poisson",
    )


@gaussian_steps.register
def _(mechanism: WithoutReplacement) -> Any:
    return (
        1 / mechanism.noise_multiplier,
        mechanism.n_steps,
        mechanism.batch_size / mechanism.n_samples,
        "fixed_size",
    )


def naive_epsilon(mechanism: Mechanism, delta: float, theorem: str = "advanced") -> float:
    """Return epsilon of Gaussian steps by the textbook: one step, subsampling, composition.

    Boninsegna, Section III.A. Half of delta goes to the steps, half to the slack of advanced
    composition (all of it to the steps under basic). The single Gaussian step is exact
    (`GaussianDP`), not the 1.25 formula, which holds for epsilon < 1 only.

    Parameters
    ----------
    mechanism : record
        A run of equal Gaussian steps.
    delta : float
        Total delta, in (0, 1).
    theorem : {"basic", "advanced"}, default="advanced"
        How the steps compose.

    Returns
    -------
    float

    References
    ----------
    F. Boninsegna (undated), The privacy analysis of the differential private stochastic gradient
    descent, Section III.A.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent
    >>> from skdpdyn.privacy.literature.dialects import naive_epsilon
    >>> m = NoisyGradientDescent(n_steps=100, noise_multiplier=100.0, step_size=1.0)
    >>> round(naive_epsilon(m, 1e-5), 6), round(naive_epsilon(m, 1e-5, "basic"), 6)
    (2.18833, 3.928059)
    """
    checked_choice(theorem, "theorem", ("basic", "advanced"))
    delta = checked_number(delta, "delta", lambda x: 0 < x < 1, "in (0, 1)")
    mu, count, q, sampling = gaussian_steps(mechanism)
    spent = delta if theorem == "basic" else delta / 2
    at_delta = min(spent / (count * q), 1.0)
    step = ApproximateDP(
        GaussianDP(mu, mechanism.adjacency).epsilon(at_delta), at_delta, mechanism.adjacency
    )
    if sampling:
        step = subsampling_lemma(step, q, sampling)
    total = (
        basic_composition(step, count)
        if theorem == "basic"
        else advanced_composition(step, count, delta / 2)
    )
    return total.at_epsilon
