"""Records of single releases: Laplace noise, perturbed minimisers, and the best of several trials.

They say what ran, as those of `skdpdyn.privacy.mechanisms` do.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from skdpdyn.privacy._logarithms import log_expm1
from skdpdyn.privacy._numerics import safe_root
from skdpdyn.privacy.fields import (
    Checked,
    Count,
    NonNegative,
    Positive,
    choice,
    number,
)
from skdpdyn.privacy.guarantees import Adjacency, Neighbours, Whole
from skdpdyn.privacy.stored import stored

Noise: TypeAlias = Annotated[str, choice("gaussian", "gamma")]
Statistic: TypeAlias = Annotated[
    str, choice("minimiser", "permutation_sgd", "gradient_descent", others="None, ")
]


@stored
@dataclass(frozen=True, kw_only=True)
class Laplace(Checked):
    """Numbers with Laplace noise, of bounded sensitivity in the L1 norm.

    Parameters
    ----------
    noise_multiplier : float
        Scale b of the noise, of density exp(-abs(x) / b) / (2 b), over that sensitivity. Positive.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation of the sensitivity.

    Examples
    --------
    >>> from skdpdyn.privacy import Laplace, perturbation
    >>> perturbation(Laplace(noise_multiplier=4.0)).epsilon(0.0)
    0.25
    """

    noise_multiplier: Positive
    adjacency: Neighbours = Adjacency.REPLACE_ONE


@stored
@dataclass(frozen=True, kw_only=True)
class PerturbedOutput(Checked):
    """A statistic of bounded sensitivity, computed without noise, plus noise on the result.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise over the statistic's Euclidean sensitivity: the standard deviation per
        coordinate of Gaussian noise, or the s of the density proportional to exp(-norm(b) / s).
        Positive.
    distribution : {"gaussian", "gamma"}, default="gaussian"
        The noise. "gamma": a uniform direction and a norm of the law Gamma(number of parameters,
        s).
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation of that sensitivity.
    statistic : {None, "minimiser", "permutation_sgd", "gradient_descent"}, default=None
        Name of the statistic, if it is known. The sensitivity depends on it, the cost does not.
    n_epochs, batch_size : int or None, default=None
        Passes over the records, and records in a batch, of a statistic that descends.
    tolerance : float or None, default=None
        Norm of the gradient up to which a minimiser is certified.

    Examples
    --------
    >>> from skdpdyn.privacy import PerturbedOutput, perturbation
    >>> perturbation(PerturbedOutput(noise_multiplier=4.0)).mu
    0.25
    >>> perturbation(PerturbedOutput(noise_multiplier=4.0, distribution="gamma")).epsilon(0.0)
    0.25
    """

    noise_multiplier: Positive
    distribution: Noise = "gaussian"
    adjacency: Neighbours = Adjacency.REPLACE_ONE
    statistic: Statistic | None = None
    n_epochs: Count | None = None
    batch_size: Count | None = None
    tolerance: Positive | None = None


@stored
@dataclass(frozen=True, kw_only=True)
class PerturbedObjective(Checked):
    """The exact minimiser of a regularised sum of losses to which a random linear term was added.

    theta minimises ``sum_i loss_i(theta) + (Lambda/2) |theta|^2 + b @ theta`` over the whole space;
    the losses are convex with a Lipschitz gradient, b is drawn once, and only theta is released.
    For a minimiser that is known up to a certified distance, compose this record with an
    `PerturbedOutput` of twice that distance.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise b over the sensitivity S of the sum of gradients (2 L when a record is
        replaced, L when it vanishes): the standard deviation per coordinate of Gaussian noise, or
        the s of the density proportional to exp(-norm(b) / s). Positive.
    curvature : float
        Largest trace of one record's Hessian, over Lambda. For a single output that is its
        smoothness, which scales with the square of the row's norm; for softmax with C classes, the
        row's squared norm times 1 - 1/C.
    rank : int, default=1
        Dimension of the subspace that one record's gradients lie in, whatever theta: 1 for a single
        output, C - 1 for softmax.
    distribution : {"gaussian", "gamma"}, default="gaussian"
        The noise. "gamma": a uniform direction and a norm of the law Gamma(number of parameters,
        s).
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation of S.

    Examples
    --------
    >>> from skdpdyn.privacy import PerturbedObjective, perturbation
    >>> m = PerturbedObjective(noise_multiplier=5.0, curvature=0.1)
    >>> round(m.tilt, 6), round(perturbation(m).epsilon(1e-6), 6)
    (0.09531, 0.959831)
    """

    noise_multiplier: Positive
    curvature: NonNegative
    rank: Count = 1
    distribution: Noise = "gaussian"
    adjacency: Neighbours = Adjacency.REPLACE_ONE

    @property
    def tilt(self) -> float:
        """Largest logarithm of the factor by which one record changes the Jacobian of b in theta.

        det(I + A) for a positive A of that rank and trace is largest where its eigenvalues are
        equal.
        """
        return self.rank * math.log1p(self.curvature / self.rank)


@stored
@dataclass(frozen=True, kw_only=True)
class Selection(Checked):
    """Best of a random number of trials on the same records; nothing else is released.

    The number T of trials is drawn without the data, and is never released. Each of T independent
    trials picks a candidate by a law that does not depend on the data, runs it, and scores it. The
    outcome with the best score is released, with that score. If T = 0, the release is something
    that was chosen without the data.

    Parameters
    ----------
    trial : Guarantee
        Guarantee of one trial, its score included. It must hold for every candidate, because the
        release does not say which candidates ran.
    expected_trials : float
        Mean of T, >= 1.
    shape : float, default=0.0
        Shape of the truncated negative binomial distribution of T, > -1. 1: geometric; 0:
        logarithmic, with more mass on small T and a longer tail; infinity: Poisson, the only one
        that allows T = 0.

    Examples
    --------
    >>> from skdpdyn.privacy import GaussianDP, Selection, selection
    >>> trials = Selection(trial=GaussianDP(0.1), expected_trials=10, shape=1.0)
    >>> round(trials.halting_probability, 6), round(selection(trials).epsilon(1e-6), 6)
    (0.1, 0.898078)
    """

    trial: Whole
    expected_trials: Annotated[float, number(lambda x: 1 <= x <= 1e6, "between 1 and 1e6")]
    shape: Annotated[
        float,
        number(
            lambda x: -1 < x <= 1e3 or x == math.inf,
            "above -1 and at most 1000, or infinite for a Poisson law",
        ),
    ] = 0.0

    @property
    def adjacency(self) -> Any:
        """The neighbouring relation of a trial."""
        return self.trial.adjacency

    @property
    def halting_probability(self) -> float | None:
        """The gamma of the law (1 - gamma)^k Gamma(k + shape) / k!; None for a Poisson law."""
        if self.shape == math.inf:
            return None
        return math.exp(-log_inverse_gamma(self.expected_trials, self.shape))


def log_inverse_gamma(mean: float, shape: float) -> float:
    """Return log(1/gamma) of the truncated negative binomial law with this mean and shape.

    With L = log(1/gamma) the mean is shape (e^L - 1) / (1 - e^(-shape L)), and (e^L - 1) / L at
    shape 0 (Papernot and Steinke 2022, Definition 1); it grows with L from 1.
    """
    if mean == 1:
        return 0.0

    def log_mean(length: float) -> float:
        if abs(shape) * length < 1e-8:  # shape / (1 - e^(-shape L)) -> 1/L
            return log_expm1(length) - math.log(length) + shape * length / 2
        scaled = abs(shape) * length
        denominator = math.log(-math.expm1(-scaled)) if shape > 0 else log_expm1(scaled)
        return math.log(abs(shape)) + log_expm1(length) - denominator

    return safe_root(
        lambda length: log_mean(length) - math.log(mean),
        start=1e-12,
        step=1e-12,
        least=1e-300,
        xtol=1e-300,
        rtol=1e-15,
    )
