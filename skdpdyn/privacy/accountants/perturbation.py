"""Noise once: on the minimiser, or on the objective that is minimised."""

import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from scipy import special

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._numerics import (
    convex_profiles,
    gauss_legendre,
    gdp_log_deltas,
)
from skdpdyn.privacy._types import Array, Floats, Mechanism
from skdpdyn.privacy.accountants.registry import accountant
from skdpdyn.privacy.fields import Checked, Cost, Count, Flag, Tame
from skdpdyn.privacy.guarantees import Adjacency, GaussianDP, Guarantee, Neighbours, Unit
from skdpdyn.privacy.laplace import LaplaceDP
from skdpdyn.privacy.mechanisms import check_computable
from skdpdyn.privacy.releases import Laplace, PerturbedObjective, PerturbedOutput
from skdpdyn.privacy.renyi import ApproximateDP, RenyiDP
from skdpdyn.privacy.stored import stored, stored_part


@accountant(
    "perturbation: Dong, Roth and Su (2022), Theorem 2.7; Chaudhuri et al. (2011), Theorem 6; "
    "the profile proved in "
    "PerturbedObjectiveDP"
)
def perturbation(mechanism: Mechanism) -> NoReturn:
    """Bound a release whose noise is added once, to the output or to the objective.

    - `PerturbedOutput` with Gaussian noise is mu-GDP, mu = sensitivity / noise (Dong, Roth and
      Su 2022, Theorem 2.7); with the density proportional to exp(-norm(b) / s) it is pure, epsilon
      = sensitivity / s (Chaudhuri, Monteleoni and Sarwate 2011, Theorem 6).
    - `Laplace`: the exact profile, `LaplaceDP`.
    - `PerturbedObjective` with that density is pure, epsilon = S / s + J (their Theorem 9 prints
      2 J; the Jacobian costs it once). J is the record's ``tilt``.
    - With Gaussian noise and one output it has the profile `PerturbedObjectiveDP`, below the
      published forms: Kifer, Smith and Thakurta (2012), Redberg, Koskela and Wang (2023).
    - With Gaussian noise and several outputs, RDP(a) = J + mu^2/2 + log E exp((a - 1) mu chi) / (a
      - 1), mu = S / noise and chi the norm of ``rank`` standard normals: what one record adds to b
      @ theta it adds inside its own subspace (the proof of Redberg's Theorem 3.2, with that
      subspace in place of a line; Hoelder's inequality where a record is replaced).

    All speak of theta's density: b is a function of theta, strongly monotone and Lipschitz, hence
    differentiable almost everywhere (Rademacher) and open to the change of variables (area formula)
    for clipped losses too, whose curvature jumps.

    Hypotheses: the sensitivity and the curvature that the record states are true bounds on convex
    losses, and the minimiser is exact (or certified and composed with noise of its own), as the
    record types say.

    Parameters
    ----------
    mechanism : record
        Record of the run: of noise that is added once.

    Returns
    -------
    GaussianDP, LaplaceDP, ApproximateDP, PerturbedObjectiveDP or RenyiDP

    Raises
    ------
    UnsupportedMechanismError
        For any other record.

    Examples
    --------
    >>> from skdpdyn.privacy import PerturbedObjective, PerturbedOutput, perturbation
    >>> perturbation(PerturbedOutput(noise_multiplier=2.0)).mu
    0.5
    >>> m = PerturbedObjective(noise_multiplier=5.0, curvature=0.1, distribution="gamma")
    >>> round(perturbation(m).epsilon(0.0), 6)
    0.29531
    """
    raise UnsupportedMechanismError(f"perturbation has no theorem for {type(mechanism).__name__}")


@perturbation.register
def _(mechanism: PerturbedOutput) -> Guarantee:
    guarantee = GaussianDP if mechanism.distribution == "gaussian" else ApproximateDP
    return guarantee(1 / mechanism.noise_multiplier, adjacency=mechanism.adjacency)


@perturbation.register
def _(mechanism: Laplace) -> LaplaceDP:
    return LaplaceDP(1 / mechanism.noise_multiplier, mechanism.adjacency)


@perturbation.register
def _(mechanism: PerturbedObjective) -> Guarantee:
    mu = 1 / mechanism.noise_multiplier
    tilt = mechanism.tilt
    adjacency = mechanism.adjacency
    if mechanism.distribution == "gamma":
        return ApproximateDP(mu + tilt, adjacency=adjacency)
    check_computable("perturbation", noise_multiplier=mechanism.noise_multiplier)
    if mechanism.rank == 1:
        return PerturbedObjectiveDP(mu, tilt, adjacency=adjacency)
    return RenyiDP(TiltedCurve(mu, tilt, mechanism.rank), adjacency)


@stored
@dataclass(frozen=True)
class PerturbedObjectiveDP(Guarantee):
    """The profile of objective perturbation with Gaussian noise and one output.

    With m = ``shift``, J = ``tilt`` and H the profile of Gaussian differential privacy:

    - add_remove: delta(epsilon) = max(H(epsilon - J; m), D(epsilon; m)), D(epsilon; m) = E (1 -
      exp(epsilon - m^2/2 - m abs(Z)))_+, which is 2 H(epsilon; m) from m^2/2 on. Of Redberg's
      D(epsilon - J; m) each direction needs a half: where the record is in the data that were used,
      the losses lie on one side; where it is not, the Jacobian helps.
    - replace_one: delta(epsilon) = D(epsilon - J; m) from epsilon = J + m sqrt(1 + m^2/4) on.
      Below, the chord to delta = 1 at exp(epsilon) = 0: profiles are convex in exp(epsilon).

    Proof. Let b be the noise as a function of theta with the one data set, b' with the other; the
    ratio of the Jacobians is at most e^J, so delta(epsilon) <= integral of (f(b) - c f(b'))_+ over
    b, c = exp(epsilon - J), f the Gaussian density. *Record x vanishes:* b' = b + g x, g its
    residual. Fix the part of b across x. theta @ x is nonincreasing in the part z along it (theta
    is a monotone function of -b), and so is g, so the integral is that of (phi(z) - c phi(z +
    u(z)))_+ with u nonincreasing and abs(u) <= m. For a step function u, moving a jump between
    levels k > l at t raises the integral, to the right if t > -(k + l)/2, else to the left, and
    goes on doing so until the jump meets another or leaves: constants are worst, and give H(epsilon
    - J; abs(u)). In the other direction the ratio of Jacobians is at most 1, u is nondecreasing,
    and its sign may be that of z: D(epsilon; m). *x is replaced by y:* b' - b = g x - h y lies in a
    rhombus of half diagonals p, q, p^2 + q^2 = m^2, and norm(b') is largest at its corners, so
    delta <= D(epsilon - J; p) + D(epsilon - J; q). D(e; sqrt t) is convex in t up to m^2 where e >=
    m sqrt(1 + m^2/4): (p, q) = (m, 0) is worst.

    The Renyi curve (`rdp`) holds too, and is smaller where epsilon is small: `delta` and `epsilon`
    are the lesser of both forms everywhere.

    Parameters
    ----------
    shift : float
        m: sensitivity of the sum of gradients over the noise's standard deviation, >= 0.
    tilt : float
        J: largest logarithm of the ratio of the Jacobians of two neighbours, >= 0.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation that it holds for.
    unit : str, default="record"
        Whom it protects: one of these is what neighbours differ in.

    Examples
    --------
    >>> from skdpdyn.privacy import GaussianDP, PerturbedObjectiveDP
    >>> guarantee = PerturbedObjectiveDP(0.2, 0.1, adjacency="add_remove")
    >>> round(guarantee.epsilon(1e-6), 6)
    0.934118
    >>> round(guarantee.compose(GaussianDP(0.1, "add_remove")).epsilon(1e-6), 4)
    1.0405
    """

    shift: Tame
    tilt: Tame
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    unit: Unit = "record"

    def _delta(self, epsilon: Array) -> Any:  # accurate down to 1e-300
        return np.max(self._directions(epsilon.ravel()), axis=0).reshape(epsilon.shape)

    def _profiles(self, epsilon: Array) -> tuple[Array, ...]:
        if self.adjacency is Adjacency.REPLACE_ONE:
            return super()._profiles(epsilon)
        return convex_profiles(epsilon, *self._directions(epsilon))

    def _directions(self, epsilon: Array) -> list[Array]:
        """Return delta where the record is in the data that were used, and where it is not."""
        beyond = epsilon - self.tilt
        if self.adjacency is Adjacency.ADD_REMOVE:
            gaussian = gdp_log_deltas(np.abs(beyond), self.shift)  # its chord below 0 is exact
            logs = [
                _log_chord(np.minimum(beyond, 0.0), gaussian),
                _log_two_sided(epsilon, self.shift),
            ]
        else:
            far = _log_two_sided(np.maximum(beyond, self._kink), self.shift)
            logs = [_log_chord(np.minimum(beyond - self._kink, 0.0), far)]
        renyi = RenyiDP(self._renyi_curve(), self.adjacency).delta(epsilon)
        return [np.minimum(np.exp(np.minimum(log_delta, 0.0)), renyi) for log_delta in logs]

    @property
    def _kink(self) -> float:
        """Epsilon - J from which the worst replacement is known to be one of opposite gradients."""
        return self.shift * math.hypot(1.0, self.shift / 2)

    def _start(self, delta: float) -> tuple[float, float]:
        return self._reach(delta), 0.0

    def _reach(self, tail: float) -> float:
        return self.tilt + max(GaussianDP(self.shift).epsilon(tail / 2), self._kink)

    def _renyi_curve(self) -> Any:
        return TiltedCurve(self.shift, self.tilt, apart=self.adjacency is Adjacency.ADD_REMOVE)


@stored_part
@dataclass(frozen=True)
class TiltedCurve(Checked):
    """The Renyi curve of objective perturbation with Gaussian noise.

    J + m^2/2 + log E exp((a - 1) m chi) / (a - 1), m = ``shift``, chi the norm of ``rank`` standard
    normals; ``apart``: the larger of the two directions that a vanished record of a single output
    has, J + a m^2/2 and the above without J.
    """

    shift: Tame
    tilt: Cost
    rank: Count = 1
    apart: Flag = False

    @property
    def adjacency(self) -> Adjacency | None:
        """ADD_REMOVE if the curve only covers a vanished record, or None."""
        return Adjacency.ADD_REMOVE if self.apart else None

    def __call__(self, order: Floats) -> Any:
        """Return the Renyi divergence of ``order``."""
        excess = np.asarray(order, dtype=float) - 1
        sides = _log_radial_moment(excess * self.shift, self.rank) / excess
        gaussian = (1 + excess) * self.shift**2 / 2
        return (gaussian + (np.maximum(self.tilt, sides) if self.apart else self.tilt + sides))[()]


_RADIUS = 14.0
_NODES = 160


def _log_radial_moment(scale: Floats, rank: int) -> Any:
    """Return log E exp(scale chi) - scale^2/2, rounded up; chi: the norm of ``rank`` normals."""
    if rank == 1:
        return np.log1p(special.erf(scale / math.sqrt(2)))
    # The integrand x^(rank-1) exp(scale x - x^2/2) is log-concave and narrower than a normal
    # density around its mode. Its logarithm over scale increases: what rounding would spoil is
    # bounded from a larger scale
    least = np.maximum(scale, 1e-4)
    mode = (least + np.sqrt(least**2 + 4 * (rank - 1))) / 2
    low = np.minimum(_RADIUS, mode)
    nodes, weights = gauss_legendre(_NODES)
    step = (low + _RADIUS)[..., None] * (nodes + 1) / 2 - low[..., None]
    ratio = step / mode[..., None]
    with np.errstate(divide="ignore"):
        exponent = (rank - 1) * (np.log1p(ratio) - ratio) - step**2 / 2
    mass = np.exp(exponent) @ weights * (low + _RADIUS) / 2
    top = (rank - 1) * np.log(mode) - ((rank - 1) / mode) ** 2 / 2
    norming = (rank / 2 - 1) * math.log(2) + special.gammaln(rank / 2)
    moment = top + np.log(mass) - norming + 1e-13 * rank * (1 + np.log1p(mode))
    return moment * (scale / least) + scale * (least - scale) / 2


def _log_two_sided(epsilon: Floats, mu: float) -> Array:
    """Log of E (1 - exp(epsilon - mu^2/2 - mu |Z|))_+, at any real epsilon."""
    near = np.minimum(epsilon, mu * mu / 2)
    with np.errstate(divide="ignore"):
        if mu > 1:
            inside = np.log1p(-2 * np.exp(near + special.log_ndtr(-mu)))
        else:  # keeps its digits for small mu
            inside = np.log(np.exp(near) * special.erf(mu / math.sqrt(2)) - np.expm1(near))
    outside = math.log(2) + gdp_log_deltas(np.maximum(epsilon, mu * mu / 2), mu)
    return np.where(epsilon < mu * mu / 2, inside, outside)


def _log_chord(distance: Floats, log_delta: Any) -> Array:
    """Return the chord in exp(epsilon) from delta = 1 at 0 to ``log_delta``."""
    return np.where(
        distance < 0,
        np.log(np.maximum(np.exp(distance + log_delta) - np.expm1(distance), 1e-300)),
        log_delta,
    )
