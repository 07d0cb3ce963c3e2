"""A family of models, as a value: its loss, its targets, and the meaning of "auto"."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.losses import Loss
from skdpdyn.core.spending import Share, Spending
from skdpdyn.training.targets import Targets


class Part(ABC):
    """Something that is bought of the records beside training.

    To add one, write both methods, and name the part in a recipe of `skdpdyn.training.recipe`,
    or as ``units`` of a `Family`. ``request`` and ``learning`` are values of
    `skdpdyn.training.values`.
    """

    @abstractmethod
    def share(self, request: Any) -> dict[str, Share]:
        """Return its shares by name, from public facts alone; none if it is not wanted."""

    @abstractmethod
    def learn(self, learning: Any, spending: Spending) -> None:
        """Buy it, if ``spending`` has its share, and note the result."""


class TargetUnits(Part):
    """A number of the targets that a family buys: a base rate to start from, or units.

    Attributes
    ----------
    has_probabilities : bool
        Whether raw predictions are log odds.
    quantiles : tuple of float
        For each output the part of the targets that is to lie below it; (): outputs are others.
    """

    has_probabilities = False
    quantiles: tuple[float, ...] = ()

    def loss(self, request: Any) -> Loss:
        """Return the loss of targets in these units, which may be far from 0."""
        return replace(request.loss, at_zero=math.inf)

    def calibration_share(self, request: Any) -> float:
        """Return the share of mu^2 of the mean residual after training; 0: it is not bought."""
        return rules.calibration_share(request.strength)

    def moved(self, learning: Any, spending: Spending, residual: np.ndarray) -> np.ndarray:
        """Return the shift of raw predictions that makes this mean residual 0."""
        return -residual


@dataclass(frozen=True)
class Family:
    """The loss, targets and defaults of an estimator.

    An estimator names one as its class attribute ``family``. All else that a fit does is the same
    for all estimators.

    Parameters
    ----------
    loss : Loss or callable
        The loss; or a function that returns it, of what is public of targets: of ``classes``, or of
        ``target_bounds``. They are None where they were not passed: raise an error then, if the
        cost depends on them.
    targets : Targets
        How targets are read: `Labels` or `Numbers` of `skdpdyn.linear_model`.
    clip : callable
        ``clip(n_parameters, strength) -> float``: the bound on the norm of a residual that
        clip="auto" stands for. ``n_parameters`` includes intercepts; ``strength`` is n mu / f, see
        `skdpdyn.core.rules`. A smaller clip means less noise and another loss.
    conditioned_clip : callable or None, default=None
        The same on conditioned rows; None: ``clip``.
    kept_length : callable or None, default=None
        ``kept_length(strength, n_features) -> float``: the part of conditioned rows that are not
        shortened. None: what served losses with, or without, a bound on their slope.
    units : TargetUnits or None, default=None
        What is bought of targets before training on conditioned rows; None: nothing.
    expand : callable or None, default=None
        ``expand(model, columns, n_features, strength) -> Expansion``: the public features that
        columns become, for additive models; None: rows are trained on as they are.
    twin : callable or None, default=None
        ``twin()`` returns the unfitted model of scikit-learn that predicts alike, for
        ``to_sklearn``; None: there is none.

    Examples
    --------
    >>> from skdpdyn.linear_model import Family, Labels
    >>> from skdpdyn.core.losses import hinge
    >>> family = Family(hinge, Labels(most=2), clip=lambda n_parameters, strength: 1.0)
    >>> family.loss_of(None).lipschitz
    1.0
    """

    loss: Loss | Callable[[Any], Loss]
    targets: Targets
    clip: Callable[[int, float], float]
    conditioned_clip: Callable[[int, float], float] | None = None
    kept_length: Callable[[float, int], float] | None = None
    units: TargetUnits | None = None
    expand: Callable[..., Any] | None = None
    twin: Callable[[], Any] | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts bought of targets, in this order."""
        return () if self.units is None else (self.units,)

    def loss_of(self, public: Any) -> Loss:
        """Return the loss, given the public facts of targets."""
        return self.loss if isinstance(self.loss, Loss) else self.loss(public)
