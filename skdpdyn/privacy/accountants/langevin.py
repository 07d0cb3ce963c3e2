"""Langevin dynamics: the converging bound of Chourasia, Ye and Shokri (2021)."""

import math
from typing import Any, NoReturn

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants.registry import accountant
from skdpdyn.privacy.guarantees import LinearCurve
from skdpdyn.privacy.mechanisms import NoisyGradientDescent
from skdpdyn.privacy.needs import Needs
from skdpdyn.privacy.renyi import RenyiDP


@accountant(
    "langevin: Chourasia, Ye and Shokri (2021), Corollary 1",
    needs=Needs(
        contraction=True,
        equal_steps=True,
        last_iterate_only=True,
        step_below_inverse_smoothness=True,
    ),
    never_below="last_iterate",
)
def langevin(mechanism: Mechanism) -> NoReturn:
    """Bound the last iterate by the Renyi dynamics of Langevin diffusion.

    Corollary 1 of Chourasia, Ye and Shokri (2021), as printed: with gradient noise sigma, RDP(a) =
    a S^2 / (lambda sigma^2 n^2) (1 - exp(-lambda step_size K / 2)). It is implied by `last_iterate`
    (never below 1.57 times its Renyi divergence), so any start chosen without the data will do, and
    for small K it is above `composition`.

    Hypotheses, each checked on the record: only the last iterate is released; strong_convexity > 0;
    smoothness known; step_size < 1 / smoothness; step size and noise the same in every step. A
    projection onto a convex set is allowed.

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
    >>> from skdpdyn.privacy import NoisyGradientDescent, langevin
    >>> m = NoisyGradientDescent(
    ...     n_steps=500,
    ...     noise_multiplier=250.0,
    ...     step_size=0.02,
    ...     strong_convexity=1.0,
    ...     smoothness=4.0,
    ... )
    >>> round(langevin(m).rdp(10), 8)
    0.01589219
    """
    raise UnsupportedMechanismError(f"langevin has no theorem for {type(mechanism).__name__}")


@langevin.register
def _(mechanism: NoisyGradientDescent) -> RenyiDP:
    if mechanism.release != "last":
        _refuse(f"release='last', not {mechanism.release!r}")
    if np.ndim(mechanism.step_size) or np.ndim(mechanism.noise_multiplier):
        _refuse("the same step_size and noise_multiplier in every step")
    if not mechanism.strong_convexity > 0:
        _refuse(f"strong_convexity > 0, not {mechanism.strong_convexity}")
    if mechanism.smoothness is None:
        _refuse("a known smoothness, not None")
    smoothness: Any = mechanism.smoothness
    if not mechanism.step_size < 1 / smoothness:
        _refuse(f"step_size < 1/smoothness = {1 / smoothness:.6g}, not {mechanism.step_size:.6g}")
    # S^2 / (sigma^2 n^2) = 2 / (step_size noise_multiplier^2)
    time = mechanism.strong_convexity / 2 * mechanism.step_size
    steps = -math.expm1(-time * mechanism.n_steps) / time if time > 0 else mechanism.n_steps
    curve = steps / mechanism.noise_multiplier / mechanism.noise_multiplier
    return RenyiDP(LinearCurve(float(curve)), mechanism.adjacency)


def _refuse(hypothesis: str) -> NoReturn:
    raise UnsupportedMechanismError(
        f"langevin (Chourasia, Ye and Shokri 2021, Corollary 1) needs {hypothesis}"
    )
