"""Composition: the budget pays for every step, so any part of the path may be released."""

import math
from typing import Any, NoReturn

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants.registry import accountant
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.laplace import LaplaceDP
from skdpdyn.privacy.mechanisms import (
    CyclicBatches,
    Gaussian,
    NoisyGradientDescent,
    OnePass,
    PoissonSubsampled,
    Vocabulary,
    WithoutReplacement,
)
from skdpdyn.privacy.numerical import most_cut


@accountant("composition: Dong, Roth and Su (2022), Corollary 3.3")
def composition(mechanism: Mechanism) -> NoReturn:
    """Compose the steps, as if every iterate were released and no batch were secret.

    Each step that a record takes part in is a Gaussian mechanism with mu_k = sensitivity / noise;
    together mu^2 = sum of mu_k^2 (Dong, Roth and Su 2022, Corollary 3.3), exactly. It only needs a
    bounded sensitivity: no convexity, any step size, any release. With disjoint
    batches, a record is in one batch per epoch (the worst position counts); with sampled batches
    it may be in all. One pass with Laplace noise has its profile, pure with epsilon = sensitivity /
    scale.

    Parameters
    ----------
    mechanism : record
        Record of the run.

    Returns
    -------
    GaussianDP
        `LaplaceDP` for Laplace noise.

    Raises
    ------
    UnsupportedMechanismError
        For any other record.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent, composition
    >>> composition(NoisyGradientDescent(n_steps=100, noise_multiplier=20.0, step_size=1.0)).mu
    0.5
    """
    raise UnsupportedMechanismError(f"composition has no theorem for {type(mechanism).__name__}")


def _norm(rate: Any, axis: int | None = None) -> Any:
    """Return norms of rates, whose squares may be beyond double precision."""
    unit = 2.0 ** (math.frexp(rate.max())[1] - 1)
    return unit * np.linalg.norm(rate / unit, axis=axis)


@composition.register
def _(mechanism: NoisyGradientDescent) -> GaussianDP:
    rate = 1 / np.asarray(mechanism.noise_multiplier)
    mu = float(_norm(rate)) if rate.ndim else float(rate * np.sqrt(mechanism.n_steps))
    return GaussianDP(mu, mechanism.adjacency)


@composition.register
def _(mechanism: Gaussian) -> GaussianDP:
    return GaussianDP(1 / mechanism.noise_multiplier, mechanism.adjacency)


@composition.register
def _(mechanism: Vocabulary) -> GaussianDP:
    # Of two neighbours, levels that both have are one Gaussian release; others may fail to hide
    return GaussianDP(1 / mechanism.noise_multiplier, mechanism.adjacency, mechanism.failure)


@composition.register
def _(mechanism: CyclicBatches) -> GaussianDP:
    rate = 1 / np.asarray(mechanism.noise_multiplier)
    if rate.ndim == 0:
        return GaussianDP(rate * np.sqrt(mechanism.n_epochs), mechanism.adjacency)
    by_position = rate.reshape(mechanism.n_epochs, mechanism.n_batches)
    return GaussianDP(_norm(by_position, axis=0).max(), mechanism.adjacency)


@composition.register
def _(mechanism: WithoutReplacement) -> GaussianDP:
    # For any assignment to batches, the record moves every step by at most S
    return GaussianDP(np.sqrt(mechanism.n_steps) / mechanism.noise_multiplier, mechanism.adjacency)


@composition.register
def _(mechanism: PoissonSubsampled) -> GaussianDP:
    moved = mechanism.adjacency.sum_sensitivity(1.0)  # in units of C
    failure = 0.0  # a run that cuts no batch is another with that probability
    n = mechanism.n_samples
    largest = mechanism.largest_batch
    if n is not None and largest is not None:
        failure = mechanism.n_steps * most_cut(n, largest, mechanism.sampling_probability)
    return GaussianDP(
        moved * np.sqrt(mechanism.n_steps) / mechanism.noise_multiplier,
        mechanism.adjacency,
        min(failure, 1 - 2**-53),
    )


@composition.register
def _(mechanism: OnePass) -> Guarantee:
    cost = mechanism.sensitivity / mechanism.noise
    guarantee = GaussianDP if mechanism.distribution == "gaussian" else LaplaceDP
    return guarantee(cost, adjacency=mechanism.adjacency)
