"""The best of a random number of private trials: Papernot and Steinke (2022)."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NoReturn

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Floats, Mechanism
from skdpdyn.privacy.accountants.registry import Sharper, accountant
from skdpdyn.privacy.fields import Checked, number
from skdpdyn.privacy.guarantees import Whole, dp_accounting
from skdpdyn.privacy.releases import Selection, log_inverse_gamma
from skdpdyn.privacy.renyi import Curve, RenyiDP, adjacency_of, best_order
from skdpdyn.privacy.stored import stored_part


@accountant(
    "selection: Papernot and Steinke (2022), Theorems 2 and 6",
    sharper=Sharper(
        (
            "selection(tight=True): Papernot and Steinke (2022), Theorems 2 and 6, delta of a trial"
            " from its profile"
        ),
        {"tight": True},
    ),
)
def selection(mechanism: Mechanism, tight: bool = False) -> NoReturn:
    """Bound the release of the best of a random number of trials, in Renyi form.

    Papernot and Steinke (2022), Hyperparameter tuning with Renyi differential privacy. With R the
    Renyi curve of one trial, its score included, and m the mean of the number of trials T:

    - truncated negative binomial T, shape e > -1 (Theorem 2): R'(a) = R(a) + (1 + e) min over b > 1
      of ((1 - 1/b) R(b) + log(1/gamma)/b) + log(m)/(a - 1);
    - Poisson T (Theorem 6): R'(a) = R(a) + m d + log(m)/(a - 1), d the delta of a trial at epsilon
      = log(1 + 1/(a - 1)).

    A Renyi bound is nondecreasing in its order, so that the least value at any higher order holds
    too.

    Hypotheses: T and the candidates are drawn without the data, trials are independent, nothing
    else of them is released, T included, which the record type says; m >= 1, checked by the record
    (with T = 0 released as such, m d and log(m) bound a Poisson selection from m = 1 on); the
    guarantee of a trial has a Renyi curve, checked. Given T the theorem does not hold: the best of
    k trials costs about as much as all of them.

    Parameters
    ----------
    mechanism : Selection
        Record of the run.
    tight : bool, default=False
        With a Poisson law, take d from the profile of a trial rather than from its Renyi curve:
        smaller, where the trial knows more than its curve, and more than ``dp_accounting`` can say.

    Returns
    -------
    RenyiDP

    Raises
    ------
    UnsupportedMechanismError
        If the guarantee of a trial has no Renyi curve, or for any other record.

    Examples
    --------
    >>> from skdpdyn.privacy import GaussianDP, Selection, selection
    >>> geometric = Selection(trial=GaussianDP(0.1), expected_trials=10, shape=1.0)
    >>> round(selection(geometric).rdp(20), 8)
    0.63878981
    """
    raise UnsupportedMechanismError(f"selection has no theorem for {type(mechanism).__name__}")


@selection.register
def _(mechanism: Selection, tight: bool = False) -> RenyiDP | None:
    curve = mechanism.trial._renyi_curve()
    if curve is None:
        raise UnsupportedMechanismError(
            "selection (Papernot and Steinke 2022) needs a Renyi curve of one trial, and none "
            "is known of this "
            f"{type(mechanism.trial).__name__} ({mechanism.adjacency})"
        )
    profile = mechanism.trial if tight and mechanism.shape == math.inf else None
    return RenyiDP(
        SelectionCurve(curve, mechanism.expected_trials, mechanism.shape, profile),
        mechanism.adjacency,
        unit=mechanism.trial.unit,
    )


@stored_part
@dataclass(frozen=True)
class SelectionCurve(Checked):
    """Renyi curve of the best of a random number of trials.

    Parameters
    ----------
    trial : callable
        The Renyi curve of one trial.
    expected_trials : float
        Mean of the number of trials.
    shape : float
        Shape of its law, infinite for Poisson.
    profile : Guarantee or None, default=None
        A trial's guarantee, for a Poisson law to take delta from; None: from the curve.
    """

    trial: Curve
    expected_trials: Annotated[float, number(lambda x: 1 <= x < math.inf, "a finite number >= 1")]
    shape: Annotated[float, number(lambda x: x > -1, "a number > -1")]
    profile: Whole | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.profile is not None and self.profile._renyi_curve() != self.trial:
            raise ValueError(
                f"profile={self.profile!r} must be the guarantee that has the curve "
                f"trial={self.trial!r}"
            )

    @property
    def adjacency(self) -> Any:
        """Adjacency of a trial, if it has one, or None."""
        return adjacency_of(self.trial) if self.profile is None else self.profile.adjacency

    def __call__(self, order: Floats) -> Any:
        """Return a bound on the Renyi divergence of ``order``."""
        lowest, least = self._least
        order = np.asarray(order, dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):
            divergence = np.where(order < lowest, least, self._printed(np.maximum(order, lowest)))
        return divergence[()]

    @property
    def dp_event(self) -> Any:
        """``RepeatAndSelectDpEvent``, for a Renyi accountant, if trial and shape have an event."""
        event = getattr(self.trial, "dp_event", None)
        if event is None or self.shape < 0 or self.profile is not None:
            return None
        return dp_accounting().dp_event.RepeatAndSelectDpEvent(
            event, self.expected_trials, self.shape
        )

    def with_accuracy(self, accuracy: float | None) -> Any:
        """Return the curve at another accuracy of the profile, see `Guarantee.with_accuracy`."""
        return (
            self
            if self.profile is None
            else replace(self, profile=self.profile.with_accuracy(accuracy))
        )

    def _printed(self, order: Floats) -> Any:
        divergence = self.trial(order) + math.log(self.expected_trials) / (order - 1)
        if self.shape < math.inf:
            return divergence + self._constant
        return divergence + self.expected_trials * self._delta(np.log1p(1 / (order - 1)))

    @cached_property
    def _constant(self) -> float:
        """(1 + e) min over b of ((1 - 1/b) R(b) + log(1/gamma)/b)."""
        length = log_inverse_gamma(self.expected_trials, self.shape)

        def at(excess: Floats) -> Any:  # b - 1
            return (excess * self.trial(1 + excess) + length) / (1 + excess)

        return (1 + self.shape) * max(0.0, best_order(at)[1])

    def _delta(self, epsilon: Floats) -> Any:
        """Return delta of a trial, one number or an array."""
        if self.profile is not None:
            return self.profile.delta(epsilon)
        # Bretagnolle and Huber 1978
        total_variation = math.sqrt(-math.expm1(-float(self.trial(1 + 1e-9))))
        return np.minimum(RenyiDP(self.trial).delta(epsilon), total_variation)

    @cached_property
    def _least(self) -> Any:
        """Return the order at which the printed bound is least, and that bound."""
        excess, least = best_order(lambda excess: self._printed(1 + excess))
        return 1 + excess, least
