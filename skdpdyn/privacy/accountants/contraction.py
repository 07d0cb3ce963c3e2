"""Contraction of the hockey-stick divergence: the bound of Asoodeh, Diaz and Calmon (2020)."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._numerics import gdp_log_deltas
from skdpdyn.privacy._types import Array, Floats, Mechanism
from skdpdyn.privacy.accountants.registry import Sharper, accountant
from skdpdyn.privacy.fields import Cost, Count, Flag, choice, count
from skdpdyn.privacy.guarantees import Adjacency, Guarantee, Neighbours, Unit
from skdpdyn.privacy.mechanisms import OnePass, check_computable, check_index
from skdpdyn.privacy.needs import Needs
from skdpdyn.privacy.stored import stored


@accountant(
    "contraction: Asoodeh, Diaz and Calmon (2020), Theorems 3 to 5",
    needs=Needs(contraction=True, equal_steps=True, last_iterate_only=True),
    sharper=Sharper(
        (
            "contraction(tight=True): Asoodeh, Diaz and Calmon (2020), Theorems 3 and 4, and "
            "Theorem 5 with its series summed"
        ),
        {"tight": True},
    ),
)
def contraction(mechanism: Mechanism, index: int | None = None, tight: bool = False) -> NoReturn:
    """Bound one pass of projected noisy SGD by the contraction of E_gamma on a bounded domain.

    Asoodeh, Diaz and Calmon (2020), Privacy amplification of iterative algorithms via contraction
    coefficients. With theta(r) the E_gamma of two noise laws r standard units apart, S the
    sensitivity (2 lipschitz; lipschitz under add_remove) and M = sqrt(1 - 2 step_size beta rho /
    (beta + rho)), the record in step i has

    - Theorem 4 (Gaussian) and Theorem 3 (Laplace, on an interval): delta = theta(S/noise) t^(n-i),
      t = theta(M diameter / (step_size noise));
    - Theorem 5, stopped at a uniform step (by joint convexity, for either noise): delta =
      theta(S/noise) / (n (1 - t)), for every record.

    Hypotheses: step_size < 2 / (smoothness + strong_convexity), checked (beyond it M is below the
    true Lipschitz constant). The record type guarantees a bounded domain, one record per step and
    one pass. Figure 3 of the paper has smoothness < strong_convexity, which is impossible for a
    function; it is computed all the same.

    Parameters
    ----------
    mechanism : OnePass
        Record of the run.
    index : int or None, default=None
        Step of the record, from 1; None: the worst record (the last one).
    tight : bool, default=False
        With stopping="random", sum the geometric series that Theorem 5 bounds: theta(S/noise) (1 -
        t^m) / (n (1 - t)), m = n - index + 1, never above the printed form.

    Returns
    -------
    ContractedDP

    Raises
    ------
    UnsupportedMechanismError
        If a hypothesis fails, naming it, or for any other record.

    Examples
    --------
    >>> from skdpdyn.privacy import OnePass, contraction
    >>> m = OnePass(
    ...     n_samples=40, noise=2.0, step_size=0.5, lipschitz=1.0, smoothness=0.5, diameter=1.0
    ... )
    >>> round(contraction(m, index=39).delta(0.5), 8)
    0.05684491
    """
    raise UnsupportedMechanismError(f"contraction has no theorem for {type(mechanism).__name__}")


@contraction.register
def _(mechanism: OnePass, index: int | None = None, tight: bool = False) -> Guarantee:
    largest = 2 / (mechanism.smoothness + mechanism.strong_convexity)
    if not mechanism.step_size < largest:
        raise UnsupportedMechanismError(
            "contraction (Asoodeh, Diaz and Calmon 2020) needs step_size < 2/(smoothness + "
            "strong_convexity) = "
            f"{largest:.6g}, not {mechanism.step_size:.6g}"
        )
    check_computable("contraction", noise=mechanism.noise, step_size=mechanism.step_size)
    n = mechanism.n_samples
    random = mechanism.stopping == "random"
    later = n - check_index(index, n, 1 if random else n)
    return ContractedDP(
        own_shift=mechanism.sensitivity / mechanism.noise,
        later_shift=mechanism.paper_contraction
        * mechanism.diameter
        / (mechanism.step_size * mechanism.noise),
        later_steps=later,
        n_stops=n if random else None,
        tight=tight,
        distribution=mechanism.distribution,
        adjacency=mechanism.adjacency,
    )


@stored
@dataclass(frozen=True)
class ContractedDP(Guarantee):
    """Profile theta(own_shift) theta(later_shift)^later_steps, or its mean over stopping times.

    Parameters
    ----------
    own_shift : float
        Sensitivity of the record's own step over its noise.
    later_shift : float
        Reach of the domain after a later step's contraction, over its noise.
    later_steps : int
        Steps after the record's own.
    n_stops : int or None, default=None
        Number of equally likely stopping times; None: the last.
    tight : bool, default=False
        For a random stop: the finite sum rather than the printed geometric bound.
    distribution : {"gaussian", "laplace"}, default="gaussian"
        The noise.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation that ``own_shift`` is for.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.
    """

    own_shift: Cost
    later_shift: Cost
    later_steps: Annotated[int, count(least=0)]
    n_stops: Count | None = None
    tight: Flag = False
    distribution: Annotated[str, choice("gaussian", "laplace")] = "gaussian"
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    unit: Unit = "record"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_stops is not None and self.n_stops <= self.later_steps:
            raise ValueError(
                f"n_stops={self.n_stops} must be at least later_steps + 1 = {self.later_steps + 1}"
            )

    def _delta(self, epsilon: Array) -> Any:
        first = _log_hockey_stick(epsilon, self.own_shift, self.distribution)
        later = _log_hockey_stick(epsilon, self.later_shift, self.distribution)
        if self.n_stops is None:
            return np.exp(first + self.later_steps * later if self.later_steps else first)
        with np.errstate(divide="ignore", invalid="ignore"):
            stays = np.log(-np.expm1(later))  # log(1 - t)
            terms = np.log(-np.expm1((self.later_steps + 1) * later)) if self.tight else 0.0
            limit = math.log(self.later_steps + 1) if self.tight else math.inf  # the limit t = 1
            value = first - math.log(self.n_stops) + np.where(later == 0, limit, terms - stays)
        return np.exp(np.minimum(np.where(np.isneginf(first), -math.inf, value), 0.0))

    @property
    def _largest_loss(self) -> float:
        if self.distribution == "gaussian":
            return math.inf
        later = self.n_stops is None and self.later_steps > 0
        return min(self.own_shift, self.later_shift) if later else self.own_shift

    def _gaussian_bound(self) -> float | None:
        return self.own_shift if self.distribution == "gaussian" else None


def _log_hockey_stick(epsilon: Array, shift: Floats, distribution: str) -> Any:
    if distribution == "gaussian":
        return gdp_log_deltas(epsilon, shift)
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(np.minimum(np.asarray(epsilon) - shift, 0.0) / 2))
