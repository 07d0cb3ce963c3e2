"""Privacy amplification by iteration in older, closed forms: Feldman, Balle, Boninsegna."""

from typing import NoReturn

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants.registry import accountant
from skdpdyn.privacy.guarantees import LinearCurve
from skdpdyn.privacy.mechanisms import CyclicBatches, OnePass, check_computable, check_index
from skdpdyn.privacy.needs import Needs
from skdpdyn.privacy.renyi import RenyiDP


@accountant(
    (
        "iteration: Feldman et al. (2018), Theorem 23; Balle et al. (2019), Theorem 5; Boninsegna, "
        "Section VI.A"
    ),
    needs=Needs(contraction=True, equal_steps=True, last_iterate_only=True),
    never_below="last_iterate",
)
def iteration(mechanism: Mechanism, index: int | None = None) -> NoReturn:
    """Bound the last iterate by amplification by iteration, as printed.

    - `OnePass` with Gaussian noise, the record in step i of n, S its sensitivity: RDP(a) = a S^2 /
      (2 sigma^2 (n - i + 1)) where nothing contracts (Feldman, Mironov, Talwar and Thakurta 2018,
      Theorem 23), and RDP(a) = a kappa, kappa = S^2 M^(n-i+1) / (2 sigma^2 (n-i)) under strong
      convexity (Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 5; kappa = S^2 / (2 sigma^2) for
      i = n).
    - `CyclicBatches`, position kappa of Q, T epochs: RDP(a) = a / (2 z^2) ((T-1)/Q + 1/(Q - kappa +
      1)) (Boninsegna, Section VI.A; its last line drops the second term's excess over 1/Q and its
      cases of s_t are swapped).

    Hypotheses, checked: only the last iterate is released, at a known step; convex and smooth with
    step_size < 2 / (smoothness + strong_convexity) (one pass) or <= 2 / smoothness (batches);
    Gaussian noise; equal steps.

    Parameters
    ----------
    mechanism : OnePass or CyclicBatches
        Record of the run.
    index : int or None, default=None
        Position of the record (of its batch), from 1; None: the worst, which is the last.

    Returns
    -------
    RenyiDP

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails, naming it, or for any other record.

    References
    ----------
    V. Feldman, I. Mironov, K. Talwar, A. Thakurta (2018), Privacy amplification by iteration,
    Theorem 23. B. Balle, G. Barthe, M. Gaboardi, J. Geumlek (2019), Privacy amplification by mixing
    and diffusion mechanisms, Theorem 5. F. Boninsegna (undated), The privacy analysis of the
    differential private stochastic gradient descent, Section VI.A.

    Examples
    --------
    >>> from skdpdyn.privacy import CyclicBatches
    >>> from skdpdyn.privacy.accountants.iteration import iteration
    >>> m = CyclicBatches(
    ...     n_samples=100,
    ...     batch_size=20,
    ...     n_epochs=6,
    ...     noise_multiplier=2.0,
    ...     step_size=0.5,
    ...     smoothness=1.0,
    ... )
    >>> iteration(m, index=1).rdp(2.0), iteration(m).rdp(2.0)
    (0.3, 0.5)
    """
    raise UnsupportedMechanismError(f"iteration has no theorem for {type(mechanism).__name__}")


def _refuse(hypothesis: str) -> NoReturn:
    raise UnsupportedMechanismError(
        f"iteration (Feldman et al. 2018, Balle et al. 2019) needs {hypothesis}"
    )


@iteration.register
def _(mechanism: OnePass, index: int | None = None) -> RenyiDP:
    if mechanism.distribution != "gaussian":
        _refuse(f"distribution='gaussian', not {mechanism.distribution!r}")
    if mechanism.stopping != "last":
        _refuse(f"stopping='last', not {mechanism.stopping!r}")
    largest = 2 / (mechanism.smoothness + mechanism.strong_convexity)
    if not mechanism.step_size < largest:
        _refuse(
            f"step_size < 2/(smoothness + strong_convexity) = {largest:.6g}, not "
            f"{mechanism.step_size:.6g}"
        )
    later = mechanism.n_samples - check_index(index, mechanism.n_samples, mechanism.n_samples)
    check_computable(
        "iteration", noise=mechanism.noise, sensitivity=mechanism.sensitivity / mechanism.noise
    )
    rate = (mechanism.sensitivity / mechanism.noise) ** 2 / 2
    if later and mechanism.strong_convexity > 0:
        rate *= mechanism.paper_contraction ** (later + 1) / later
    else:
        rate /= later + 1
    return RenyiDP(LinearCurve(rate), mechanism.adjacency)


@iteration.register
def _(mechanism: CyclicBatches, index: int | None = None) -> RenyiDP:
    if mechanism.release != "last":
        _refuse(f"release='last', not {mechanism.release!r}")
    if np.ndim(mechanism.step_size) or np.ndim(mechanism.noise_multiplier):
        _refuse("the same step_size and noise_multiplier in every step")
    if mechanism.smoothness is None:
        _refuse("a known smoothness, not None")
    if not mechanism.step_size <= 2 / mechanism.smoothness:
        _refuse(
            f"step_size <= 2/smoothness = {2 / mechanism.smoothness:.6g}, not "
            f"{mechanism.step_size:.6g}"
        )
    if index is not None and mechanism.order == "shuffled_once":
        raise ValueError(
            f"index={index!r} must be None: the records were shuffled, nobody's position is known"
        )
    check_computable("iteration", noise_multiplier=mechanism.noise_multiplier)
    n_batches = mechanism.n_batches
    position = check_index(index, n_batches, n_batches)
    share = (mechanism.n_epochs - 1) / n_batches + 1 / (n_batches - position + 1)
    return RenyiDP(LinearCurve(share / (2 * mechanism.noise_multiplier**2)), mechanism.adjacency)
