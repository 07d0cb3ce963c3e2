"""Parts of an evaluation: sums to release, and functions that make results of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from skdpdyn.core.sealed import Sealed
from skdpdyn.core.spending import Share, Spending
from skdpdyn.evaluation.estimates import Covariance, NoisyNumbers
from skdpdyn.evaluation.results import PrivateEvaluation


@dataclass(frozen=True, eq=False)
class NoisyPart:
    """Numbers to release together.

    Row i of ``strategy`` says which of the wanted numbers the one at i sums; a vector: the one at i
    is ``strategy[i]`` times the wanted number. ``known`` are pairs of weights of the wanted numbers
    and their weighted sum, if that is public.
    """

    name: str
    sums: Sealed
    share: float = 1.0
    strategy: np.ndarray = field(default_factory=partial(np.ones, 1))
    known: tuple[tuple[np.ndarray, float], ...] = ()

    def released(self, spending: Spending, quantile: float) -> NoisyNumbers:
        """Release the values, and return the least-squares estimate of the wanted numbers."""
        sums, std = spending.release(self.name, self.sums)
        noisy = np.atleast_1d(sums)
        if self.strategy.ndim == 1:
            values = noisy / self.strategy
            covariance = Covariance.apart(np.broadcast_to(std / self.strategy, noisy.shape) ** 2)
        else:
            information = np.linalg.inv(self.strategy.T @ self.strategy)
            values = information @ (self.strategy.T @ noisy)
            covariance = Covariance.shared(std**2 * information)
        numbers = NoisyNumbers(values, covariance, quantile)
        for weights, total in self.known:
            numbers = numbers.given(weights, total)
        return numbers


@dataclass(frozen=True, eq=False)
class Counted:
    """Shares of a budget, and functions that buy by them and make an evaluation.

    ``release`` buys, of records of a total weight, and returns noisy numbers whose intervals are a
    quantile wide.
    """

    shares: dict[str, Share]
    release: Callable[[Spending, float, float], list[NoisyNumbers]]
    evaluation: Callable[..., PrivateEvaluation]

    @classmethod
    def of(
        cls, parts: Sequence[NoisyPart], evaluation: Callable[..., PrivateEvaluation]
    ) -> "Counted":
        """Return the parts of an evaluation, none of which follows from another."""

        def release(spending, total, quantile):
            return [part.released(spending, quantile) for part in parts]

        return cls({part.name: Share(part.share) for part in parts}, release, evaluation)
