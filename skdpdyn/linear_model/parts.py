"""What a fit buys before it trains: each part says what it takes, and learns it from the rows."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from skdpdyn import rules
from skdpdyn.conditioning import CURVATURE, Conditioner, learn_curvature, shares_of
from skdpdyn.data.base import Rows, target_rounding
from skdpdyn.diagnostics import diagnose, shares_of_diagnostics
from skdpdyn.linear_model.request import Request
from skdpdyn.losses import Loss
from skdpdyn.spending import COUNTS, Share, Spending

if TYPE_CHECKING:
    from skdpdyn.linear_model.plan import Plan
    from skdpdyn.linear_model.targets import Target

CLASS_COUNTS, TARGET_MEAN, TARGET_SCALE = "class counts", "target mean", "target scale"


@dataclass
class Learning:
    """What a fit has learnt so far, by what it bought."""

    plan: "Plan"
    rows: Rows
    target: "Target"
    flags: Rows | None = None  # rows whose target is 1 where public bounds clip that of a row
    units: tuple[float, float] = (0.0, 1.0)  # shift and factor of the units that training has
    class_weights: np.ndarray | None = None
    diagnostics: dict[str, dict[str, float]] = field(default_factory=dict)
    top: float | None = None  # about the largest eigenvalue of mapped rows


class Part(ABC):
    """Something that is bought of the records before training.

    To add one, write both methods, and name the part in `PARTS`, or as ``units`` of a `Family`.
    """

    @abstractmethod
    def share(self, request: Request) -> dict[str, Share]:
        """Return what it takes, by name, from public facts alone; nothing if it is not wanted."""

    @abstractmethod
    def learn(self, learning: Learning, spending: Spending) -> None:
        """Buy it, if ``spending`` has its share, and note what was learnt."""


class Diagnostics(Part):
    """Shares of the rows that are shortened, and of the targets that are clipped."""

    def share(self, request):
        """See `Part.share`."""
        if not request.diagnostics:
            return {}
        request.check_buys("diagnostics=True", "Use diagnostics=False")
        return shares_of_diagnostics(request.family.targets.clips)

    def learn(self, learning, spending):
        """See `Part.learn`."""
        data_norm = learning.plan.request.data_norm
        learning.diagnostics = diagnose(learning.rows, learning.flags, data_norm, spending)


class RowsMap(Part):
    """The map of rows."""

    def share(self, request):
        """See `Part.share`."""
        if not request.maps or request.given is not None:
            return {}
        return shares_of(
            request.n_samples,
            request.n_features,
            request.mu,
            request.budget.adjacency,
            is_sparse=request.is_sparse,
            centred=request.fit_intercept,
            matrix=request.may_have_matrix,
        )

    def learn(self, learning, spending):
        """See `Part.learn`."""
        plan, request = learning.plan, learning.plan.request
        if not request.maps:
            return
        conditioner = Conditioner(
            n_samples=request.n_samples,
            data_norm=request.data_norm,
            shares=dict(spending.shares),
            quantile=request.kept_length,
            threshold=1.0 if request.bounded else 0.5,
            given=request.given,
        )
        learning.rows = conditioner.learn(learning.rows, spending)
        if not learning.rows.map.spread <= plan.objective.spread:
            raise ValueError(
                "the map of rows rounds more than the plan allows: give another Conditioning, "
                "or fit an intercept"
            )


class Units(Part):
    """What the family buys of targets."""

    def share(self, request):
        """See `Part.share`."""
        units = request.family.units
        return units.share(request) if units is not None and request.maps else {}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        units = learning.plan.request.family.units
        if units is not None and learning.plan.request.maps:
            units.learn(learning, spending)


class TargetUnits(Part):
    """What a family buys of targets, to train in units that they have."""

    def loss(self, request: Request) -> Loss:
        """Return the loss of targets in these units, which may be far from 0."""
        return replace(request.loss, at_zero=math.inf)


class NumberUnits(TargetUnits):
    """A centre and a scale of targets: their mean, and a 95 % quantile of distances from it."""

    def share(self, request):
        """See `Part.share`."""
        size = rules.target_share()
        mean = {TARGET_MEAN: Share(size)} if request.fit_intercept else {}
        return mean | {TARGET_SCALE: Share(size, COUNTS)}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        rows, n_samples, mean = learning.rows, learning.plan.request.n_samples, 0.0
        if TARGET_MEAN in spending.shares:
            sensitivity = spending.per_record + target_rounding(n_samples, rows.most_rows)
            total = float(spending.release(TARGET_MEAN, rows.target_sum(), sensitivity))
            mean = min(max(total / n_samples, -1.0), 1.0)
        distances = partial(rows.counts, "distances", centre=mean)
        part = rules.target_quantile()
        scale = spending.quantile(TARGET_SCALE, distances, 2.0, part, n_samples)
        learning.rows, learning.units = rows.with_target(mean, scale), (mean, scale)


class ClassWeights(Part):
    """Weights of classes in inverse proportion to private counts; the largest is 1.

    A count below the standard deviation of the noise is raised to it. A record adds a vector of
    norm at most 1: a person adds the share of their rows that is in each class.
    """

    def share(self, request):
        """See `Part.share`."""
        if not request.buys_weights:
            return {}
        request.check_buys("class_weight='private'", "Pass {label: weight}")
        return {CLASS_COUNTS: Share(rules.class_counts_share())}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if CLASS_COUNTS not in spending.shares:
            return
        counts = learning.rows.class_counts(max(2, learning.plan.objective.n_outputs))
        sensitivity = spending.per_square
        noisy = spending.release(CLASS_COUNTS, counts, sensitivity)
        noisy = np.maximum(noisy, sensitivity * spending.noise_multiplier(CLASS_COUNTS))
        learning.class_weights = noisy.min() / noisy


class Curvature(Part):
    """The largest eigenvalue of mapped rows, which steps follow from."""

    def share(self, request):
        """See `Part.share`."""
        if not request.adapts:
            return {}
        return {CURVATURE: Share(rules.curvature_share(request.is_sparse))}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if CURVATURE in spending.shares:
            scaling = learning.plan.objective.intercept_scaling
            learning.top = learn_curvature(learning.rows, scaling, spending)


DIAGNOSTICS = Diagnostics()
PARTS: tuple[Part, ...] = (RowsMap(), Units(), ClassWeights(), Curvature())
"""What is bought, in this order, after diagnostics."""
