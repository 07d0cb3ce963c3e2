"""Objective perturbation as printed in the papers, for comparison and reproduction."""

import math

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants.perturbation import PerturbedObjectiveDP, TiltedCurve
from skdpdyn.privacy.checks import checked_number
from skdpdyn.privacy.guarantees import Adjacency, ApproximateDP, Guarantee, RenyiDP
from skdpdyn.privacy.mechanisms import ObjectivePerturbation


def chaudhuri(mechanism: Mechanism) -> ApproximateDP:
    """Bound pure objective perturbation as printed: epsilon = S / s + 2 log(1 + curvature).

    Chaudhuri, Monteleoni and Sarwate (2011), Theorem 9. Hypotheses: gamma noise and a single
    output, checked; a convex loss with a bounded curvature, which the record says. There S = 2 L, a
    replaced record; a vanished one moves the gradients by L.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
        Record of the run.

    Returns
    -------
    ApproximateDP

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails.

    Examples
    --------
    >>> from skdpdyn.privacy import ObjectivePerturbation, chaudhuri
    >>> m = ObjectivePerturbation(noise_multiplier=5.0, curvature=0.1, distribution="gamma")
    >>> round(chaudhuri(m).epsilon(0.0), 6)
    0.39062
    """
    _check(mechanism, "chaudhuri", "gamma")
    return ApproximateDP(
        1 / mechanism.noise_multiplier + 2 * mechanism.tilt, adjacency=mechanism.adjacency
    )


def kifer(mechanism: Mechanism, delta: float) -> ApproximateDP:
    """Bound objective perturbation as printed: noise S sqrt(8 log(2/delta) + 4 epsilon) / epsilon.

    Kifer, Smith and Thakurta (2012), Theorem 2, solved for epsilon; it also needs Lambda >= 2
    smoothness / epsilon, so that epsilon is at least twice the curvature. Hypotheses: Gaussian
    noise and a single output, checked. The paper's S = L is a vanished record; for a replaced one S
    = 2 L (with S = L the true delta is up to 20 times the claim).

    Parameters
    ----------
    mechanism : ObjectivePerturbation
        Record of the run.
    delta : float
        Delta of the guarantee, in (0, 1).

    Returns
    -------
    ApproximateDP

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails.

    Examples
    --------
    >>> from skdpdyn.privacy import ObjectivePerturbation, kifer
    >>> round(
    ...     kifer(ObjectivePerturbation(noise_multiplier=20.0, curvature=0.1), 1e-6).at_epsilon, 4
    ... )
    0.5437
    """
    _check(mechanism, "kifer", "gaussian")
    delta = checked_number(delta, "delta", lambda x: 0 < x < 1, "in (0, 1)")
    z = mechanism.noise_multiplier
    root = (2 + math.sqrt(4 + 8 * z * z * math.log(2 / delta))) / (z * z)
    return ApproximateDP(max(root, 2 * mechanism.curvature), delta, mechanism.adjacency)


def redberg(mechanism: Mechanism, renyi: bool = False) -> Guarantee:
    """Bound objective perturbation by the printed analysis of generalised linear models.

    Redberg, Koskela and Wang (2023), Theorem 3.1, the hockey-stick divergence, or Theorem 3.2, the
    Renyi curve, with J = -log(1 - curvature). Hypotheses: Gaussian noise, a single output,
    curvature < 1, and for Theorem 3.1 a vanished record (add_remove), all checked. For a replaced
    record Theorem 3.2 holds with S = 2 L, by Hoelder's inequality.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
        Record of the run.
    renyi : bool, default=False
        Whether the Renyi curve is asked for.

    Returns
    -------
    PerturbedObjectiveDP or RenyiDP

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails.

    Examples
    --------
    >>> from skdpdyn.privacy import ObjectivePerturbation, redberg
    >>> m = ObjectivePerturbation(noise_multiplier=5.0, curvature=0.1, adjacency="add_remove")
    >>> round(redberg(m).epsilon(1e-6), 6), round(redberg(m, renyi=True).epsilon(1e-6), 6)
    (0.969882, 1.0349)
    """
    _check(mechanism, "redberg", "gaussian")
    if not mechanism.curvature < 1:
        raise UnsupportedMechanismError(
            f"redberg needs curvature < 1, not {mechanism.curvature}: raise Lambda"
        )
    mu, tilt, adjacency = (
        1 / mechanism.noise_multiplier,
        -math.log1p(-mechanism.curvature),
        mechanism.adjacency,
    )
    if renyi:
        return RenyiDP(TiltedCurve(mu, tilt), adjacency)
    if adjacency is not Adjacency.ADD_REMOVE:
        raise UnsupportedMechanismError(
            f"redberg needs adjacency='add_remove' for its hockey-stick form, not {adjacency}"
        )
    return PerturbedObjectiveDP(mu, tilt, printed=True, adjacency=adjacency)


def _check(mechanism: Mechanism, name: str, distribution: str) -> None:
    if type(mechanism) is not ObjectivePerturbation:
        raise UnsupportedMechanismError(f"{name} has no theorem for {type(mechanism).__name__}")
    if mechanism.distribution != distribution or mechanism.rank != 1:
        raise UnsupportedMechanismError(
            f"{name} needs distribution={distribution!r} and rank=1, not "
            f"{mechanism.distribution!r} and {mechanism.rank}"
        )
