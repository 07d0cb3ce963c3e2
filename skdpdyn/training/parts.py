"""Parts that a fit buys before it trains: each names its shares, and learns from the rows."""

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from skdpdyn.core import rules
from skdpdyn.core.expansion import Expansion
from skdpdyn.core.losses import LOG, Loss, huber
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import Noisy
from skdpdyn.core.spending import SEARCH_OCTAVES, Share, Spending, total_of
from skdpdyn.data.base import Rows
from skdpdyn.exceptions import PrivacyUtilityWarning, warn
from skdpdyn.training.cells import TargetCells
from skdpdyn.training.conditioning import (
    CURVATURE,
    MATRIX,
    Conditioner,
    learn_curvature,
    moments_of,
    shares_of,
)
from skdpdyn.training.problem import objective_of
from skdpdyn.training.start import encoded
from skdpdyn.training.targets import scaling
from skdpdyn.training.values import BASE_RATE_DROWNS, Learning, Part, TargetUnits

DISTRIBUTIONS = "column distributions"
LEVELS = "levels of columns"
WEIGHTS = "sum of weights"
CLASS_COUNTS = "class counts"
TARGET_MEAN = "target mean"
TARGET_SCALE = "target scale"
SECOND_RATE = "second base rate"
MEAN_RESIDUAL = "mean residual"
FALSE = 1e-4  # probability that an empty cell of labels stands out


class RowsMap(Part):
    """The map of rows."""

    def share(self, request):
        """See `Part.share`."""
        if request.public_map is not None:
            return {}
        return shares_of(
            request.n_samples,
            request.n_features,
            request.mu,
            request.budget.adjacency,
            is_sparse=request.is_sparse,
            centred=request.fit_intercept,
            matrix=request.may_have_matrix,
            smooth=request.expansion is not None and request.expansion.is_mixed,
        )

    def learn(self, learning, spending):
        """See `Part.learn`."""
        plan = learning.plan
        request = learning.plan.request
        rule = request.family.kept_length or partial(rules.kept_length, is_bounded=request.bounded)
        length = rule(request.strength, request.n_features)
        if request.public_map is None and not request.is_sparse:
            learning.shortened = 1 - length
        conditioner = Conditioner(
            n_samples=request.n_samples,
            data_norm=request.radius,
            octaves=SEARCH_OCTAVES + math.log2(request.room),
            shares=dict(spending.shares),
            quantile=length,
            threshold=1.0 if request.bounded else 0.5,
            public_map=request.public_map,
            softness=rules.softness(request.strength) if request.expansion else None,
            nothing=rules.NOTHING,
        )
        learning.rows = conditioner.learn(learning.rows, spending)
        if not learning.rows.map.spread <= plan.objective.spread:
            raise ValueError(
                "the map of rows rounds more than the plan allows: use another model's "
                "conditioning_, or fit an intercept"
            )


class Distributions(Part):
    """The distribution of the values of each column of numbers, a further scale of its curve.

    One noisy count a cell.
    """

    def share(self, request):
        """See `Part.share`."""
        if request.expansion.distributions is None or request.start is not None:
            return {}
        return {DISTRIBUTIONS: Share(rules.DISTRIBUTIONS_SHARE)}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if DISTRIBUTIONS not in spending.shares:
            return
        rows = learning.rows
        expansion = learning.rows.expansion
        cells = expansion.cells_of_numbers
        counts, std = spending.release(DISTRIBUTIONS, rows.cell_counts().only(cells))
        n_samples = rows.mass
        steps = rules.DISTRIBUTION_STEPS
        parts = np.zeros(expansion.n_cells)
        parts[cells] = counts / n_samples
        learning.rows = rows.with_expansion(
            expansion.with_distributions(parts, std / n_samples, *steps)
        )


def moved_start(learning: Learning, objective: Objective) -> np.ndarray | None:
    """Return the intercepts that training starts from, beside other coefficients."""
    if learning.start is None:
        return None
    start = np.zeros(objective.n_parameters)
    n = objective.n_outputs
    start[-n:] = learning.start[-n:]
    return start


def take_tables(expansion: Expansion, learning: Learning) -> None:
    """Go on with other tables of an additive model, before rows are mapped."""
    plan = learning.plan
    request = replace(plan.request, expansion=expansion, n_features=expansion.n_features)
    objective = objective_of(request, learning.training)
    learning.start = moved_start(learning, objective)
    learning.plan = replace(plan, request=request, objective=objective)
    rows: Any = learning.rows
    learning.rows = rows.with_expansion(expansion)


def take_tables_of_rare(flatness: float, learning: Learning, spending: Spending) -> None:
    """Go on with curves as fine as a rare class pays for; what buys no more goes to training."""
    request = learning.plan.request
    strength = rules.strength_of_curves(request.strength, flatness)
    fixed = request.tables is None or request.public_map is not None
    if fixed or strength == request.strength:
        return
    expansion = request.tables(strength)
    if expansion.distributions is None and DISTRIBUTIONS in spending.shares:
        learning.change_shares(spending, {DISTRIBUTIONS: 0.0})
    take_tables(expansion, learning)


def takes_what_is_left(flatness: float, learning: Learning, spending: Spending) -> bool:
    """Return whether a base rate so flat pays for no slopes, and takes their part of the budget."""
    request = learning.plan.request
    weak = request.strength * flatness < rules.LEAST_FLAT_STRENGTH
    if not weak or request.start or BASE_RATE_DROWNS not in learning.recipe.hands_over:
        return False
    learning.hand_over(BASE_RATE_DROWNS)
    if not request.recipe.adapts:
        return False
    later = {name for part in request.recipe.after for name in part.share(request)}
    earlier = {name: share for name, share in spending.shares.items() if name not in later}
    spending.shares = earlier | {SECOND_RATE: Share(1 - total_of(earlier.values()))}
    return True


def combined(first: Any, first_std: float, second: Any, second_std: float) -> tuple[Any, float]:
    """Return the best mean of two noisy numbers, or arrays, and its standard deviation."""
    part = first_std**2 / (first_std**2 + second_std**2)
    return first + part * (second - first), math.sqrt(part) * second_std


class ClassShares(TargetUnits):
    """Shares of the classes: training starts at the best constant model's raw predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.linear_model import ClassShares
    >>> ClassShares().raw(np.array([0.9, 0.1]), n_outputs=1).round(3).tolist()
    [-2.197]
    """

    has_probabilities = True

    def loss(self, request):
        """See `TargetUnits.loss`: labels have no units."""
        return request.loss

    def share(self, request):
        """See `Part.share`."""
        if not (request.recipe.composes and request.fit_intercept):
            return {}
        has_start = request.start is not None  # the base rate serves the speed of training alone
        size = rules.class_share(
            math.inf if has_start else request.strength, request.loss.n_outputs
        )
        size = max(size, rules.CLASS_COUNTS_SHARE)
        return {CLASS_COUNTS: Share(size)}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if CLASS_COUNTS not in self.share(learning.plan.request):
            return
        shares = self.weighted(learning, spending)
        unweighted = 4 * float(class_shares(learning, spending).prod())
        if shares.size == 2:
            take_tables_of_rare(unweighted, learning, spending)
        objective = learning.plan.objective
        raw = self.raw(shares / shares.sum(), objective.n_outputs)
        learning.start = np.zeros(objective.n_parameters)
        learning.start[-raw.size :] = raw / objective.intercept_scaling
        if objective.n_outputs == 1:
            flatness = 4 * float(shares.prod() / shares.sum() ** 2)
            time = 1.0
            if self.has_probabilities:
                strength = learning.plan.request.strength
                time = rules.time_of_rare(strength, unweighted, objective.n_parameters)
                time = max(time, rules.LEAST_TIME_OF_RARE)
            learning.facts = replace(learning.facts, flatness=flatness, time=time)

    def weighted(self, learning: Learning, spending: Spending) -> np.ndarray:
        """Return the noisy shares of the classes, times their weights."""
        shares = class_shares(learning, spending)
        if learning.plan.request.buys_weights:
            return np.full(shares.size, shares.min())
        weights = learning.class_weights
        # a class of weight 0 is no class of the constant model; half a record stands for it
        least = 0.5 / learning.plan.request.n_samples
        return shares if weights is None else np.maximum(shares * weights, least)

    def raw(self, shares: np.ndarray, n_outputs: int) -> np.ndarray:
        """Return the raw predictions of the best constant model, of shares that add up to 1."""
        logs = np.log(shares)
        return logs[1:] - logs[:1] if n_outputs == 1 else logs - logs.mean()

    def moved(self, learning, spending, residual):
        """See `TargetUnits.moved`: by the log odds that mean predictions are away.

        The bought shares stand between both, so that their noise moves neither end far. Nothing is
        moved where the noise is not well below the share of the rarest class.
        """
        n_outputs = learning.plan.objective.n_outputs
        shares = self.weighted(learning, spending)
        std = spending.noise_on_sum(MEAN_RESIDUAL)
        if rules.LEAST_RATE * std > shares.min() * learning.rows.mass:
            return np.zeros(n_outputs)
        half = np.array([-residual[0], residual[0]]) / 2 if n_outputs == 1 else residual / 2
        observed, predicted = (np.maximum(shares + away, shares / 8) for away in (-half, half))
        return self.raw(observed / observed.sum(), n_outputs) - self.raw(
            predicted / predicted.sum(), n_outputs
        )


class MarginShares(ClassShares):
    """Shares of classes for margins, which are within 1 of 0 and are no probabilities."""

    has_probabilities = False

    def learn(self, learning, spending):
        """See `Part.learn`."""
        super().learn(learning, spending)
        enough = rules.enough_steps_of_margins(learning.plan.request.strength)
        learning.facts = replace(learning.facts, enough=enough)

    def raw(self, shares, n_outputs):
        """See `ClassShares.raw`."""
        return np.clip(super().raw(shares, n_outputs), -1.0, 1.0)

    def calibration_share(self, request):
        """See `TargetUnits.calibration_share`: nothing."""
        return 0.0


class NumberUnits(TargetUnits):
    """A centre and a scale of targets: their mean, and a quantile of distances from it."""

    def share(self, request):
        """See `Part.share`."""
        sizes = rules.mean_target_share(request.strength), rules.scale_share(request.strength)
        mean = {TARGET_MEAN: Share(sizes[0])} if request.fit_intercept else {}
        return mean | ({TARGET_SCALE: Share(sizes[1])} if request.recipe.maps else {})

    def learn(self, learning, spending):
        """See `Part.learn`."""
        rows = learning.rows
        mean = 0.0
        if TARGET_MEAN in spending.shares:
            total = spending.release(TARGET_MEAN, rows.target_sum()).value
            mean = min(max(total / rows.mass, -1.0), 1.0)
        scale = 1.0
        if TARGET_SCALE in spending.shares:
            cells = TargetCells.bought(TARGET_SCALE, rows, mean, spending)
            scale = self.scale(cells, learning, spending)
        learning.rows = rows.with_target(mean, scale)
        learning.units = (mean, scale)

    def scale(self, cells: TargetCells, learning: Learning, spending: Spending) -> float:
        """Return the unit of residuals, and note the other facts that cells of targets tell."""
        return cells.distance_of(rules.target_quantile(learning.plan.request.strength))


class HuberUnits(NumberUnits):
    """The units of numbers whose residuals are cut at a width, which is no accident of noise."""

    def loss(self, request):
        """See `TargetUnits.loss`."""
        return replace(huber(rules.MAPPED_HUBER_WIDTH), at_zero=math.inf)

    def attributes(self, learning):
        """See `TargetUnits.attributes`: of a base rate alone, which is a mean, none."""
        if learning.record is None:
            return {}
        width = learning.plan.objective.loss.lipschitz * learning.units[1]
        return {"huber_width_": width * half_range_of(learning)}


def half_range_of(learning: Learning) -> float:
    """Return half of the range of targets, which is 1 of them in [-1, 1]."""
    low, high = learning.target.attributes["target_bounds_"]
    return scaling(low, high, learning.plan.request.fit_intercept)[1]


class WeightTotal(Part):
    """The sum of the weights of rows, by which means of weighted rows are divided."""

    def share(self, request):
        """See `Part.share`."""
        request.check_buys("weight_bounds", "Use the default solver")
        return {WEIGHTS: Share(rules.WEIGHTS_SHARE)}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        rows = learning.rows
        least = max(learning.plan.request.least_weight, 1 / rows.n_records)
        total = spending.release(WEIGHTS, rows.weight_total()).value
        learning.rows = rows.with_total(rows.n_records * min(max(total / rows.n_records, least), 1))


class ClassWeights(Part):
    """Weights of classes in inverse proportion to private counts; the largest is 1."""

    def share(self, request):
        """See `Part.share`: of counts that training starts from, theirs serves for both."""
        request.check_buys("class_weight='private'", "Pass {label: weight}")
        return {CLASS_COUNTS: Share(rules.CLASS_COUNTS_SHARE)}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        shares = class_shares(learning, spending)
        learning.class_weights = shares.min() / shares


def class_shares(learning: Learning, spending: Spending) -> np.ndarray:
    """Return the shares of the classes, bought once: none below its noise, adding up to 1."""
    if learning.class_shares is None:
        shares, std = _noisy_shares(learning, spending)
        n_classes = shares.size
        least = min(std, 1 / n_classes)  # beyond it noise would be taken for certainty
        shares = np.clip(shares, least, 1 - (n_classes - 1) * least)
        learning.class_shares = shares / shares.sum()
    return learning.class_shares


def _noisy_shares(learning, spending):
    """Return noisy shares of the classes, which add up to 1, and the deviation of their noise.

    They are how far the count of each class is from the mean of all, over what records weigh: their
    number, or the sum of the counts where labels that are no class stand out. Where labels were
    bought, their counts are these.
    """
    if learning.class_counts is None:
        _count_classes(learning, spending)
    counts, std = learning.class_counts
    mass = learning.rows.mass
    shares = 1 / counts.size + (counts - counts.mean()) / mass
    return shares, std * math.sqrt(1 - 1 / counts.size) / mass


def _count_classes(learning, spending):
    """Buy the counts of classes; where other labels stand out, their sum is the mass of records."""
    classes = learning.target.attributes["classes_"]
    noisy, others = counted_classes(CLASS_COUNTS, learning.labels, classes, spending)
    learning.labels = None
    learning.class_counts = noisy
    if others and learning.plan.request.least_weight == 1:
        learning.rows = learning.rows.with_total(max(float(noisy.value.sum()), noisy.std))


class CountedClasses(NamedTuple):
    """Noisy counts of classes, and whether other labels stand out."""

    noisy: Noisy
    others: bool


def counted_classes(
    name: str, cells: Rows, classes: np.ndarray, spending: Spending
) -> CountedClasses:
    """Buy the count of each class, and of all other labels, and warn of these if they stand out.

    Parameters
    ----------
    name : str
        Name of the share.
    cells : Rows
        Rows whose targets are cells: the classes, and one of all other labels.
    classes : ndarray of shape (n_classes,)
        The classes.
    spending : Spending
        Pays.

    Returns
    -------
    CountedClasses
    """
    noisy, std = spending.release(name, cells.class_counts(classes.size + 1))
    others = bool(noisy[-1] >= -std * ndtri(FALSE))
    if others:
        warn_of_others(classes)
    return CountedClasses(Noisy(noisy[:-1], std), others)


def warn_of_others(classes: np.ndarray) -> None:
    """Warn that noisy counts show labels that are no class."""
    warn(
        f"noisy counts show labels other than classes={classes.tolist()}, which tell the model "
        "nothing. Pass classes=[...] with all that you mean: of more than two, to "
        "PrivateSoftmaxRegression or PrivateGAMClassifier",
        PrivacyUtilityWarning,
    )


class Curvature(Part):
    """The largest eigenvalue of mapped rows, which steps follow from.

    A full second moment tells it: what the map has made of the largest one.
    """

    def share(self, request):
        """See `Part.share`."""
        if MATRIX in ROWS_MAP.share(request):
            return {}
        return {CURVATURE: Share(rules.curvature_share(request.is_sparse))}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        scaling = learning.plan.objective.intercept_scaling
        enough = learning.facts.enough
        time = learning.facts.time
        if CURVATURE in spending.shares:
            top = learn_curvature(learning.rows, scaling, spending)
        else:
            row_map = learning.rows.map
            largest = 1 + scaling**2
            of_rows = np.array([row_map.moment, row_map.alike or row_map.moment]) / row_map.norm**2
            top, of_most = np.clip(of_rows, scaling**2, largest).tolist()
            if learning.plan.request.expansion is not None:
                time *= self._time_of_curves(learning)
                enough = _enough_of_curves(enough)
                of_most = top
            # shorter steps where a few directions are steeper than most
            enough = max(enough * top / of_most, rules.STEPS_OF_SLOW * top / of_rows[1])
            top *= learning.rows.mass / learning.rows.n_records  # which gradients are divided by
        learning.facts = replace(learning.facts, top=top, enough=enough, time=time)

    @staticmethod
    def _time_of_curves(learning):
        """Return the factor of the time of training that curves leave."""
        moments, _ = moments_of(learning.rows.map)
        training = learning.training
        n_samples = learning.plan.request.n_samples
        strength = rules.strength_of(n_samples, training.mu, training.adjacency)
        mean = float(moments @ moments) / max(float(moments.sum()), 1e-12)
        loss = learning.plan.request.loss
        factor = rules.TIME_OF_SQUARES if loss.quadratic else 1.0
        # the unit of counts is small where they are
        flatness = 1.0 if loss.link is LOG else learning.facts.flatness
        return factor * rules.time_of_sample(strength, n_samples, mean, flatness)


def _enough_of_curves(enough):
    """Return how many plain steps are enough for curves."""
    return rules.ENOUGH_STEPS_OF_CURVES if enough == rules.ENOUGH_STEPS else enough


def sums_of_rows(
    name: str,
    loss: Loss,
    bound: float,
    coef: np.ndarray,
    intercept: np.ndarray,
    learning: Learning,
    spending: Spending,
) -> Noisy:
    """Buy the sums over all rows of a loss's derivatives.

    Parameters
    ----------
    name : str
        Name of the share.
    loss : Loss
        What to add up: its derivative.
    bound : float
        Largest norm of a row's derivative.
    coef : ndarray of shape (n_outputs, n_features)
        Coefficients of mapped rows.
    intercept : ndarray of shape (n_outputs,)
        Intercepts.
    learning : Learning
        Has the rows.
    spending : Spending
        Buys the sums.
    """
    objective = learning.plan.objective
    point = np.append(coef.ravel(), intercept)
    objective = replace(objective, loss=loss)
    return spending.release(name, learning.rows.residual_sum(objective, bound, point))


def residual_bound(objective: Objective) -> float:
    """Return the bound on residuals whose mean is bought: of numbers at least their scale."""
    bound = objective.clip / objective.row_norm
    if objective.n_outputs == 1:
        bound = max(bound, 1.0)
    return min(objective.loss.lipschitz, bound)


class MeanResidual(Part):
    """The mean residual after training, which a move of the intercept makes 0."""

    def share(self, request):
        """See `Part.share`."""
        if not request.fit_intercept or request.family.units is None:
            return {}
        size = request.family.units.calibration_share(request)
        return {MEAN_RESIDUAL: Share(size)} if size else {}

    def learn(self, learning, spending):
        """See `Part.learn`."""
        if MEAN_RESIDUAL not in spending.shares:
            return
        units = learning.plan.request.family.units
        objective = learning.plan.objective
        bound = residual_bound(objective)
        coef, intercept = objective.split(learning.theta)
        total, _ = sums_of_rows(
            MEAN_RESIDUAL, objective.loss, bound, coef, intercept, learning, spending
        )
        move = units.moved(learning, spending, total / learning.rows.mass)
        learning.theta[-intercept.size :] += move / objective.intercept_scaling


class StartingPoint(Part):
    """Where training starts, if a model is given: as parameters of mapped rows and units."""

    def share(self, request):
        """See `Part.share`: nothing, for it is public, or paid for."""
        return {}

    def learn(self, learning, spending):
        """See `Part.learn`: of at most a public norm."""
        objective = learning.plan.objective
        request = learning.plan.request
        row_map = learning.rows.map
        (shift, factor) = learning.units
        targets = request.family.targets
        attributes = learning.target.attributes
        coef, intercept = encoded(targets, attributes, request.start, request.fit_intercept)
        coef = coef / factor
        intercept = (intercept - shift) / factor
        if learning.rows.ranges is not None:
            coef, intercept = learning.rows.ranges.of_mapped(coef, intercept)
        if row_map is not None:
            intercept = intercept - row_map.shift(coef)
            coef = coef * row_map.norm
            if row_map.is_diagonal:
                coef = coef / row_map.weights
            else:
                coef = np.linalg.lstsq(row_map.weights.T, coef.T)[0].T
        theta = coef.ravel()
        if objective.intercept_scaling:
            theta = np.append(theta, intercept / objective.intercept_scaling)
        length = float(np.linalg.norm(theta))
        if not length <= objective.start_norm:  # NaN, too: sums of huge numbers
            theta = theta * (objective.start_norm / length) * (1 - 1e-9)
        learning.start = theta if np.all(np.isfinite(theta)) else np.zeros_like(theta)


CELLS = Distributions()
ROWS_MAP = RowsMap()
CLASS_WEIGHTS = ClassWeights()
ROWS_CURVATURE = Curvature()
START = StartingPoint()
RESIDUAL = MeanResidual()
TOTAL = WeightTotal()
