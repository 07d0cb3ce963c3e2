"""Hidden state under sampling without replacement: the recursion of Ye and Shokri (2022)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NoReturn

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Floats, Mechanism
from skdpdyn.privacy.accountants.registry import accountant
from skdpdyn.privacy.fields import Checked, Count, Probability, number
from skdpdyn.privacy.mechanisms import WithoutReplacement, check_computable
from skdpdyn.privacy.needs import Needs
from skdpdyn.privacy.renyi import RenyiDP
from skdpdyn.privacy.sampled import Noise
from skdpdyn.privacy.stored import stored_part


@accountant(
    "recursion: Ye and Shokri (2022)",
    needs=Needs(contraction=True, equal_steps=True, last_iterate_only=True),
)
def recursion(mechanism: Mechanism) -> NoReturn:
    """Bound the last iterate, in Renyi form, where every step draws a fresh batch of fixed size.

    Ye and Shokri (2022); Boninsegna, Theorem VII.2: RDP(a) = log(S_K)/(a-1), S_0 = 1, S <- (b/n)
    exp(a (a-1) / (2 z^2)) S + (1 - b/n) S^((1 - step_size strong_convexity)^2), once for every
    step. (Printed nested by epochs; it is one recursion over all steps.) Under both adjacencies.

    Hypotheses: only the last iterate is released; strong_convexity > 0; smoothness known; step_size
    < 2 / (strong_convexity + smoothness): all checked. A fixed start, a fresh batch of exactly
    batch_size records, divided by batch_size: what `WithoutReplacement` says. Not for Poisson
    batches: a large one is less smooth than smoothness allows.

    Parameters
    ----------
    mechanism : WithoutReplacement
        Record of the run.

    Returns
    -------
    RenyiDP

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails, naming it, or for any other record.

    References
    ----------
    J. Ye, R. Shokri (2022), Differentially private learning needs hidden state (or much faster
    convergence). F. Boninsegna (undated), The privacy analysis of the differential private
    stochastic gradient descent, Theorem VII.2.

    Examples
    --------
    >>> from skdpdyn.privacy import WithoutReplacement, recursion
    >>> m = WithoutReplacement(
    ...     n_samples=1000,
    ...     batch_size=50,
    ...     n_epochs=1,
    ...     noise_multiplier=4.0,
    ...     step_size=0.5,
    ...     strong_convexity=0.05,
    ...     smoothness=1.0,
    ... )
    >>> round(recursion(m).rdp(8), 8)
    0.43456003
    """
    raise UnsupportedMechanismError(f"recursion has no theorem for {type(mechanism).__name__}")


@recursion.register
def _(mechanism: WithoutReplacement) -> RenyiDP:
    def refuse(hypothesis: str) -> NoReturn:
        raise UnsupportedMechanismError(f"recursion (Ye and Shokri 2022) needs {hypothesis}")

    if mechanism.release != "last":
        refuse(f"release='last', not {mechanism.release!r}")
    if not mechanism.strong_convexity > 0:
        refuse(f"strong_convexity > 0, not {mechanism.strong_convexity}")
    if mechanism.smoothness is None:
        refuse("a known smoothness, not None")
    largest = 2 / (mechanism.strong_convexity + mechanism.smoothness)
    check_computable("recursion", noise_multiplier=mechanism.noise_multiplier)
    if not mechanism.step_size < largest:
        refuse(
            f"step_size < 2/(strong_convexity + smoothness) = {largest:.6g}, not "
            f"{mechanism.step_size:.6g}"
        )
    curve = RecursionCurve(
        n_steps=mechanism.n_steps,
        sampling_probability=mechanism.batch_size / mechanism.n_samples,
        noise_multiplier=mechanism.noise_multiplier,
        log_contraction=math.log1p(-mechanism.step_size * mechanism.strong_convexity),
    )
    return RenyiDP(curve, mechanism.adjacency)


EXACT_STEPS = 20_000  # later steps are taken in strides


@stored_part
@dataclass(frozen=True)
class RecursionCurve(Checked):
    """The Renyi curve of the recursion, x = log S: x <- log(q e^(A + x) + (1 - q) e^(c^2 x)).

    The map is convex in x with slopes at most 1, so that increments never grow: a run of r steps
    adds at most r times its first increment. After ``EXACT_STEPS`` steps that is used in strides of
    a thousandth of the steps made.

    Parameters
    ----------
    n_steps : int
        Number of steps.
    sampling_probability : float
        b/n.
    noise_multiplier : float
        z.
    log_contraction : float
        log c.
    """

    n_steps: Count
    sampling_probability: Probability
    noise_multiplier: Noise
    log_contraction: Annotated[float, number(lambda x: x <= 0, "a number <= 0")]

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        order = np.asarray(order, dtype=float)
        if order.ndim == 0:
            return self._one(float(order))
        return np.array([self._one(value) for value in order.ravel().tolist()]).reshape(order.shape)

    def _one(self, order: float) -> float:
        return _recursion(
            self.n_steps,
            self.sampling_probability,
            self.noise_multiplier,
            self.log_contraction,
            order,
        )


# cached, because privacy_cost and the fit ask for the same orders
@lru_cache(maxsize=8192)
def _recursion(
    n_steps: int, q: float, noise_multiplier: float, log_contraction: float, order: float
) -> float:
    """Return a bound on the Renyi divergence of one order."""
    step = order * (order - 1) / (2 * noise_multiplier**2)
    if not math.isfinite(step):
        return math.inf
    if q == 1:
        return n_steps * step / (order - 1)
    odds = (1 - q) / q
    forgets = -math.expm1(2 * log_contraction)
    base = step + math.log(q)
    x = 0.0
    done = 0
    # log(q e^(A+x) + (1-q) e^(c^2 x)) - x = A + log q + log(1 + odds e^(-A - (1-c^2) x)), or its
    # mirror image near 0
    while done < n_steps:
        weight = math.exp(-step - forgets * x)
        if step < 1.0:
            added = math.log1p(q * math.expm1(step) + (1 - q) * math.expm1(-forgets * x))
        else:
            added = base + math.log1p(odds * weight)
        if not added > 0:
            break
        if odds * weight < 1e-17:  # every further increment is the same
            x += (n_steps - done) * added
            break
        stride = 1 if done < EXACT_STEPS else min(max(1, done // 1000), n_steps - done)
        x += stride * added
        done += stride
    return x / (order - 1)
