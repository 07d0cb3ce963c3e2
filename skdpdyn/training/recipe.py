"""Recipes: the ways in which a fit learns, and the one that a request takes.

- `AS_IS`: the solver's own record, of rows as they are.
- `PLANNED`: a map of rows for a fixed share, then the solver's own record.
- `MAPPED`: a map of rows, then steps that follow from what it says.
- `SOLVED`: a map of rows, then `SufficientStatistics` of them.
- `CONSTANT`: the base rate alone, where records pay for no more.
"""

import math
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.spending import scaled_to, total_of
from skdpdyn.exceptions import CalibrationError, PrivacyUtilityWarning, warn
from skdpdyn.privacy import least_noise
from skdpdyn.privacy.checks import is_auto, is_named, quoted
from skdpdyn.solvers import SufficientStatistics
from skdpdyn.solvers.noisy_gd import conditioned_time
from skdpdyn.training.conditioning import can_sum
from skdpdyn.training.line import LINE
from skdpdyn.training.look import LOOK
from skdpdyn.training.parts import (
    CELLS,
    CLASS_WEIGHTS,
    RESIDUAL,
    ROWS_CURVATURE,
    ROWS_MAP,
    START,
    TOTAL,
)
from skdpdyn.training.residuals import QUANTILE
from skdpdyn.training.slope import MEAN_ROW, SLOPE
from skdpdyn.training.values import BASE_RATE_DROWNS, Part, Recipe, Request


def _where(condition, *parts):
    """Return the parts, if they are wanted."""
    return parts if condition else ()


class AsIs(Recipe):
    """The solver's own record, of rows as they are."""

    def parts(self, request):
        """See `Recipe.parts`."""
        return (
            *_where(request.least_weight < 1 and (self.maps or self.composes), TOTAL),
            *self.bought(request),
            *_where(request.start is not None, START),
        )

    def bought(self, request: Request) -> tuple[Part, ...]:
        """Return the parts that are bought after facts and the sum of weights."""
        return _where(request.buys_weights, CLASS_WEIGHTS)

    def divided(self, request, shares):
        """See `Recipe.divided`."""
        total = self.total_share(request)
        if total is not None:
            shares = scaled_to(shares, total)
        left = 1 - total_of([*request.facts.spent.values(), *shares.values()])
        if not left > 0:
            raise ValueError(
                "what is bought beside training leaves nothing of the budget for it: the parts' "
                f"shares of mu^2 add up to {1 - left:.3g}"
            )
        return shares, left

    def total_share(self, request: Request) -> float | None:
        """Return the share of mu^2 of all parts together; None: the sum of their shares."""
        return None

    def loss(self, request):
        """See `Recipe.loss`."""
        return request.loss

    def clip(self, request, n_parameters, strength):
        """See `Recipe.clip`."""
        return request.family.clip(n_parameters, strength)

    def alpha(self, request, objective, training):
        """See `Recipe.alpha`."""
        return request.solver.auto_alpha(objective, training, request.bound)

    def record(self, learning, spending):
        """See `Recipe.record`: the one that was planned."""
        return learning.plan.record

    def settle(self, learning):
        """See `Recipe.settle`: nothing."""

    def attributes(self, request, record, spending):
        """See `Recipe.attributes`."""
        return {"n_iter_": 0} if record is None else request.solver.fitted_attributes(record)

    def announced(self, planned):
        """See `Recipe.announced`."""
        name = type(planned.record).__name__
        if planned.shares:
            return f"conditioning and {name}"
        n_steps = getattr(planned.record, "n_steps", None)
        return name if n_steps is None else f"{name} of {n_steps} steps"


def _times_as_much(request: Request, missing: float) -> float:
    """Return how many times as many records are that much stronger, and as large an epsilon, too.

    A delta of 1/n^2 is another one for other records, and mu does not grow as epsilon does. In two
    digits, rounded up; infinite if it is beyond a million.
    """
    budget = request.budget
    moves = math.isclose(budget.delta, 1 / request.n_samples**2)

    def is_enough(times: float) -> bool:
        part = times**-2 if moves else 1.0  # of delta
        of_more = replace(budget, delta=budget.delta * part, reserved=budget.reserved * part)
        dearer = replace(budget, epsilon=budget.epsilon * times)
        return min(of_more.mu * times, dearer.mu) >= missing * budget.mu

    times = missing
    while times < 1e6:
        digit = 10.0 ** (math.floor(math.log10(times)) - 1)
        times = round(math.ceil(times / digit - 1e-9) * digit, 9)
        try:
            if is_enough(times):
                return times
        except CalibrationError:  # beyond floating point
            break
        times += digit
    return math.inf


def _warn_of_few(request, missing, what):
    """Warn that a model lacks something, and how many times as many records it needs."""
    times = _times_as_much(request, missing) if missing >= 1.05 else math.inf
    remedy = (
        f"{times:g} times as many records, or that much of a larger epsilon, at most"
        if times < math.inf
        else "more records, or a larger epsilon"
    )
    warn(
        f"{what} need {remedy}; skdpdyn.planning.plan says what models of that size score",
        PrivacyUtilityWarning,
    )


class Constant(AsIs):
    """The base rate alone, which takes the whole budget where it is chosen before a fit."""

    composes = True

    def bought(self, request):
        """See `AsIs.bought`."""
        return *request.family.parts, *super().bought(request)

    def times_facts(self, request):
        """See `Recipe.times_facts`: all that is bought takes all of the budget."""
        shares = request.facts.spent
        for part in self.parts(request):
            shares = part.share(request) | shares
        return 1 / total_of(shares.values())

    def divided(self, request, shares):
        """See `Recipe.divided`: all of it."""
        left = 1 - total_of(request.facts.spent.values())
        return scaled_to(shares, left) if shares else shares, 0.0

    def settle(self, learning):
        """See `Recipe.settle`: the model that training would have started from."""
        request = learning.plan.request
        drowned = learning.plan.request.recipe is not self
        missing = max(1.0, rules.LEAST_STRENGTH / request.strength)
        why = (
            f"n_samples={request.n_samples} at epsilon={request.budget.epsilon:g} pays for a base "
        )
        why += "rate alone:"
        if drowned:
            flat = request.strength * learning.facts.flatness
            missing = max(missing, rules.LEAST_FLAT_STRENGTH / flat)
            why = "the base rate, or what depends on it, drowns in its own noise, so that"
        _warn_of_few(request, missing, f"{why} predictions are the same for all rows. Slopes")
        start = np.zeros(learning.plan.objective.n_parameters)
        learning.theta = start if learning.start is None else learning.start

    def announced(self, planned):
        """See `Recipe.announced`."""
        return "the base rate"


CONSTANT = Constant()


class Planned(AsIs):
    """A map of rows for a fixed share, then the solver's own record."""

    maps = True
    hands_over = MappingProxyType({BASE_RATE_DROWNS: CONSTANT})

    def bought(self, request):
        """See `AsIs.bought`."""
        columns = _where(request.expansion is not None, CELLS)
        return *columns, ROWS_MAP, *request.family.parts, *super().bought(request)

    def total_share(self, request):
        """See `AsIs.total_share`."""
        if request.public_map is not None:
            return None
        return rules.map_share(request.pays_for_matrix)

    def loss(self, request):
        """See `Recipe.loss`: of targets in the units that are bought."""
        units = request.family.units
        return request.loss if units is None else units.loss(request)

    def clip(self, request, n_parameters, strength):
        """See `Recipe.clip`."""
        family = request.family
        return (family.conditioned_clip or family.clip)(n_parameters, strength)

    def announced(self, planned):
        """See `Recipe.announced`."""
        runs = planned.request.solver if planned.record is None else planned.record
        return f"conditioning and {type(runs).__name__}"


class Mapped(Planned):
    """A map of rows, then steps that follow from the map."""

    adapts = composes = True
    after: tuple[Part, ...] = (RESIDUAL, QUANTILE, SLOPE, MEAN_ROW, LINE)

    def bought(self, request):
        """See `AsIs.bought`."""
        targets = *request.family.parts, *AsIs.bought(self, request)
        if request.candidates is not None:
            return CELLS, *targets, LOOK, ROWS_MAP, ROWS_CURVATURE
        if request.tables is not None:  # which follow from the base rate
            return *targets, CELLS, ROWS_MAP, ROWS_CURVATURE
        return *super().bought(request), ROWS_CURVATURE

    def total_share(self, request):
        """See `AsIs.total_share`: none, since steps take the rest of the budget."""

    def clip(self, request, n_parameters, strength):
        """See `Recipe.clip`."""
        clip = super().clip(request, n_parameters, strength)
        if not request.is_sparse:
            return clip
        return clip * rules.sparse_clip(request.strength, request.n_features)

    def settle(self, learning):
        """See `Recipe.settle`: warn where curves are made of noise."""
        request = learning.plan.request
        missing = rules.LEAST_STRENGTH / request.strength
        if request.expansion is not None and request.start is None and missing > 1:
            few = f"n_samples={request.n_samples} at epsilon={request.budget.epsilon:g}"
            _warn_of_few(request, missing, f"{few} are few: most of each curve is noise. Curves")

    def alpha(self, request, objective, training):
        """See `Recipe.alpha`."""
        return rules.FORGETTING / conditioned_time(objective, training.mu, training.adjacency)

    def record(self, learning, spending):
        """See `Recipe.record`."""
        planned = learning.plan
        facts = learning.facts
        if not (learning.rows.map.alike and planned.objective.n_together == 1):
            facts = replace(facts, enough=math.inf)
        if facts.enough == math.inf or planned.request.expansion is not None:
            facts = replace(facts, are_alike=False)
        training = learning.training
        objective = planned.objective
        if objective.loss.kink is not None:
            strength = rules.strength_of(objective.n_samples, training.mu, training.adjacency)
            facts = replace(facts, kinks=rules.kinks(strength, objective.n_at_once))
        learning.facts = facts
        with_noise = planned.request.solver.adapted(
            objective, training.mu, training.adjacency, facts
        )
        return least_noise(with_noise, training, bound=planned.bound)


class Solved(Mapped):
    """A map of rows, then sums of their products, which are solved for coefficients."""

    after = (LINE,)
    solver = SufficientStatistics()
    hands_over = MappingProxyType({})

    def bought(self, request):
        """See `AsIs.bought`."""
        return ROWS_MAP, *request.family.parts

    def clip(self, request, n_parameters, strength):
        """See `Recipe.clip`: targets are in units of the limit on them."""
        return 1.0

    def record(self, learning, spending):
        """See `Recipe.record`: one release for all that is left."""
        planned = learning.plan
        with_noise = self.solver.mechanism(planned.objective, learning.training, planned.bound)
        return with_noise(1 / learning.training.mu)


AS_IS = AsIs()
PLANNED = Planned()
MAPPED = Mapped()
SOLVED = Solved()


def recipe_of(request: Request) -> Recipe:
    """Return how a request is learnt.

    Raises
    ------
    ValueError
        If rows are to be mapped, and cannot be.
    """
    composes = is_named(request.bound, "tightest", "composition")
    adapts = composes and request.solver.adapts
    if not _maps(request):
        return CONSTANT if composes and _pays_for_a_constant(request) else AS_IS
    if not adapts:
        return PLANNED
    parameters = request.start, request.public_map, request.expansion, request.clip
    free = (
        request.picks
        and not request.is_sparse
        and all(parameter is None for parameter in parameters)
    )
    if not (request.loss.quadratic and free):
        return MAPPED
    pays = request.strength >= rules.products_strength(request.n_features)
    return SOLVED if pays else MAPPED


def may_map(request: Request) -> bool:
    """Return whether a map may be bought, or taken, without being asked for."""
    return _can_map(request) and request.solver.adapts and _can_sum(request)


def _maps(request):
    """Return whether rows are mapped, or raise if that is asked for and cannot be."""
    if request.conditioning is None:
        return False
    if request.expansion is not None:
        if not (_can_map(request) and _can_sum(request)):
            raise ValueError(
                f"{request.spent_by} cannot train an additive model. Use solver='auto' or "
                "'noisy_sgd', and bound='tightest'"
            )
        return True
    if not is_auto(request.conditioning):
        _check_map(request)
        return True
    return may_map(request) and not _is_weak(request)


def _pays_for_a_constant(request):
    """Return whether the budget pays for the base rate alone, so that no slopes are learnt."""
    starts = request.fit_intercept and request.family.units is not None and request.start is None
    free = is_auto(request.conditioning) and request.alpha is None and request.clip is None
    return starts and free and may_map(request) and _is_weak(request)


def _is_weak(request):
    """Return whether training would learn only noise."""
    strength = rules.strength_of(request.n_samples, request.budget.mu, request.budget.adjacency)
    return strength < rules.LEAST_STRENGTH


def _can_map(request):
    return request.budget.delta > 0 and request.solver.maps_rows and not request.solver.pure


def _can_sum(request):
    return can_sum(request.n_samples, request.n_features, request.most_rows)


def _check_map(request):
    """Refuse a map of rows that was given and cannot be taken."""
    if request.public_map is None:
        raise ValueError(
            f"conditioning={quoted(request.conditioning)} must be 'auto', None, or the "
            "conditioning_ of a fitted model"
        )
    if not _can_map(request):
        raise ValueError(
            f"conditioning of a fitted model: {request.spent_by} cannot train on mapped rows. Use "
            "conditioning=None, or solver='auto' and bound='tightest'"
        )
    if not _can_sum(request):
        raise ValueError(
            f"conditioning of a fitted model: n_samples={request.n_samples} are too many to sum. "
            "Use conditioning=None"
        )
    if request.public_map.centre is not None and not request.fit_intercept:
        raise ValueError(
            "conditioning of a fitted model centres rows, which fit_intercept=False does not "
            "allow: give one of a model that was fitted without an intercept"
        )
