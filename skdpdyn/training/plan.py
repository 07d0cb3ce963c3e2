"""The request of an estimator with its public facts, and its plan: neither sees a record."""

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.objective import Objective
from skdpdyn.core.spending import ROUNDS_DOWN, TRAINING, Share
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import Adjacency, Budget, Composition, Gaussian, GaussianDP
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.calibration import check_shape, judge, least_noise
from skdpdyn.privacy.checks import is_auto, is_named, quoted
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.training.additive import candidates_of, check_monotonic, is_number_of, names_pairs
from skdpdyn.training.conditioning import FittedConditioning
from skdpdyn.training.parameters import buys_weights, checked, most_rows_of, solver_of
from skdpdyn.training.problem import objective_of
from skdpdyn.training.recipe import AS_IS, may_map, recipe_of
from skdpdyn.training.start import start_of
from skdpdyn.training.values import Facts, Form, Part, Plan, Request

_GIVEN = {
    "classes": "classes=[...]",
    "target_bounds": "target_bounds=(low, high)",
    "bounds": "bounds=[(low, high), ...]",
    "categories": "categories={column: [levels]}",
}
_LARGEST_STRENGTH = 2.0**39  # sums of all records are beyond what `largest_point` takes from here


def request_of(model: Any, n_samples: int, n_features: int, form: Form, facts: Facts) -> Request:
    """Return the request of an estimator on data of this shape, or raise for wrong parameters.

    Parameters
    ----------
    model : PrivateLinearModel
        The estimator.
    n_samples, n_features : int
        Numbers of records, or of persons, and of columns.
    form : Form
        What is public by the form of data.
    facts : Facts
        All that is public of their values, or what stands for it.

    Returns
    -------
    Request
    """
    n_samples, n_features = check_shape(n_samples, n_features)
    parameters = checked(model)
    most_rows = most_rows_of(model, n_samples)
    if form.equal_rows:  # a person may have one row
        parameters["least_weight"] /= most_rows
    solver = solver_of(model)
    solver = solver.in_order() if form.in_order else solver
    budget = budget_of(model, n_samples, form, facts)
    family = model.family_of(facts.target)
    loss = family.loss_of(facts.target)
    solver.check_loss(loss)
    expansion = candidates = tables = None
    conditioning = model.conditioning
    if family.expand is not None:
        is_named = form.columns is not None
        check_monotonic(model, facts.columns, is_named, loss.n_outputs)
        expand = partial(family.expand, model, facts.columns, is_named)
        strength = rules.strength_of(n_samples, budget.mu, budget.adjacency)
        expansion = expand(strength)
        is_bounded = math.isfinite(loss.lipschitz)
        candidates = candidates_of(model, expansion, strength, n_samples, is_bounded)
        has_rates = family.units is not None and family.units.has_probabilities
        is_open = model.start is None and not names_pairs(model.interactions)
        if candidates is None and is_open and has_rates:
            tables = expand  # where a look chooses, records are many
        n_features = expansion.n_features
        if strength < rules.LEAST_STRENGTH and model.start is None:  # all learnt would be noise
            conditioning = FittedConditioning(_as_they_are(n_features, expansion.row_norm))
    has_start = getattr(model, "start", None) is not None  # an older class outside may lack it
    start = _start_of(model, solver, n_features, loss) if has_start else None
    request = Request(
        family,
        loss,
        n_samples,
        n_features,
        budget,
        model.bound,
        solver,
        AS_IS,
        **parameters,
        conditioning=conditioning,
        buys_weights=buys_weights(getattr(model, "class_weight", None)),
        most_rows=most_rows,
        is_sparse=form.is_sparse,
        has_exposure=form.has_exposure,
        expansion=expansion,
        candidates=candidates,
        tables=tables,
        start=start,
        picks=is_auto(model.solver),
        facts=facts,
    )
    if facts.ranges is not None:
        around_zero = not request.fit_intercept
        ranges = facts.ranges.around_zero() if around_zero else facts.ranges
        request = replace(request, ranges=ranges)
    if start is not None:
        request = _with_map_of_start(request, model.start)
    request = _with_recipe(request, model)
    return _with_data_norm(request) if is_auto(model.data_norm) else request


def _with_recipe(request, model):
    """Return a request with its recipe, or raise if a number of pairs is asked of one without."""
    recipe = recipe_of(request)
    request = replace(request, recipe=recipe, solver=recipe.solver or request.solver)
    if request.expansion is None or recipe.adapts:
        return request
    if is_number_of(model.interactions):
        raise ValueError(
            f"interactions={model.interactions!r}: {request.spent_by} does not choose pairs, "
            "which takes two runs under composition. Name them, or use solver='auto' and "
            "bound='tightest'"
        )
    return replace(request, candidates=None)


def _as_they_are(n_columns, norm):
    """Return the map of rows that shortens those beyond a norm, and changes nothing else."""
    return RowMap(np.zeros(n_columns), np.ones(n_columns), norm=norm, radius=norm)


def _with_data_norm(request):
    """Return a request with the norm of rows that "auto" stands for."""
    bought = request.recipe.maps and request.public_map is None and not request.is_sparse
    ranged = request.ranges is not None
    norm = rules.data_norm(request.n_features, bought or ranged)
    searched = bought and not ranged and request.expansion is None
    room = rules.room_of_rows(request.strength) if searched else 1.0
    return replace(request, data_norm=norm, room=room)


def budget_of(model: Any, n_samples: int, form: Form, facts: Facts) -> Budget:
    """Return the budget of a fit, with a part of delta reserved where levels may be bought."""
    solver = solver_of(model)
    solver = solver.in_order() if form.in_order else solver
    budget = Budget.for_samples(
        model.epsilon, model.delta, n_samples=n_samples, adjacency=Adjacency(model.adjacency)
    )
    if budget.delta == 0 and not solver.pure:
        raise ValueError(
            f"delta={model.delta!r} must be in (0, 1): Gaussian noise has no pure-epsilon "
            f"guarantee; 1/n^2 is customary. solver={model.solver!r} has no other noise. What has: "
            "solver=ObjectivePerturbation(noise='gamma') or "
            "OutputPerturbation(noise='gamma') of skdpdyn.solvers"
        )
    adapts = solver.adapts and is_named(model.bound, "tightest", "composition")
    if adapts and facts.reserves:
        return replace(budget, reserved=rules.FAILURE_SHARE * budget.delta)
    return budget


def _with_map_of_start(request, start):
    """Return a request that trains on the start's map of rows, where it has one that suits.

    A map that is learnt anew measures rows by other units, in which what the start has of noise can
    be huge: of twelve months, each from the last, California's log loss went to 11.
    """
    row_map = getattr(start, "conditioning_", None)
    may_take = is_auto(request.conditioning) and may_map(request)
    if not (may_take and isinstance(row_map, FittedConditioning)):
        return request
    suits = row_map.unit == request.is_sparse and (request.fit_intercept or row_map.mean is None)
    suits &= _alike(row_map.ranges, request.ranges)
    return replace(request, conditioning=row_map) if suits else request


def _alike(ranges, others):
    return ranges is others or (
        None not in (ranges, others) and np.array_equal(ranges.pairs, others.pairs)
    )


def _start_of(model, solver, n_features, loss):
    """Return where training starts, if the solver can start there."""
    start = start_of(model, n_features, loss.n_outputs)
    if not solver.starts:
        raise ValueError(
            f"start: {type(model).__name__} with solver={model.solver!r} cannot train from it. "
            "Use solver='noisy_gd', or start=None"
        )
    return start


def plan_of(request: Request) -> Plan:
    """Return the plan of a fit, from public numbers alone.

    What is spent depends neither on ``is_sparse`` nor on any value of a record.

    Raises
    ------
    ValueError
        If the request cannot be met.
    UnsupportedMechanismError
        If ``bound`` does not apply to what the solver would run.
    CalibrationError
        If no noise is known to meet the budget.
    """
    parts = request.recipe.parts(request)
    shares, left, n_before_training = _shares(request, parts)
    budget = request.budget
    adjacency = request.budget.adjacency
    if shares and not request.strength < _LARGEST_STRENGTH:
        raise CalibrationError(
            f"epsilon={budget.epsilon}: no noise can be computed for so extreme a budget"
        )
    training = budget.part(left * ROUNDS_DOWN**2) if shares and left else budget
    objective = objective_of(request, training)
    if request.recipe.composes:
        mechanism = record = None
        bound = "composition"
        guarantee: Guarantee = GaussianDP(budget.mu, adjacency, budget.failure)
    else:
        # more than the parts add up to, by their rounding: less than a report's check allows for
        bought = None
        if shares:
            mu = request.mu * math.sqrt(1 - left) * (1 + 1e-12)
            bought = Gaussian(1 / mu, adjacency=adjacency)
        record = _trained(request, objective, training, bought)
        mechanism = _declared(bought, record)
        bound, guarantee = judge(mechanism, budget.delta, request.bound)
        if not guarantee.epsilon(budget.delta) <= budget.epsilon:
            raise CalibrationError(
                f"conditioning={quoted(request.conditioning)}: no noise is known to meet the "
                "budget with it"
            )
        if request.facts.bought:
            guarantee = _of_whole_budget(request, guarantee)
    return Plan(
        mechanism=mechanism,
        bound=bound,
        guarantee=guarantee,
        budget=budget,
        request=request,
        objective=objective,
        shares=shares,
        parts=parts,
        n_before_training=n_before_training,
        training=training,
        record=record,
    )


def _of_whole_budget(request: Request, guarantee: Guarantee) -> Guarantee:
    """Return the cost where facts are bought first: the whole budget, whatever they will be.

    Gaussian releases compose though each follows from those before it, as long as all mu^2 add up
    to no more. Of other costs this is not proven here.
    """
    if not (request.solver.gaussian and isinstance(guarantee, GaussianDP)):
        refuse_to_buy(request)
    check_levels(request)
    budget = request.budget
    return GaussianDP(budget.mu, budget.adjacency, budget.failure)


def check_levels(request: Request) -> None:
    """Refuse to buy levels where no part of delta is reserved for their failure."""
    if "categories" in request.facts.bought and not request.budget.reserved:
        raise ValueError(
            f"categories: {request.spent_by} leaves no part of delta to buy levels of text with. "
            f"Pass {_GIVEN['categories']}; or use solver='auto' and bound='tightest'"
        )


def refuse_to_buy(request: Request, spender: str = "") -> NoReturn:
    """Raise an error that names the facts that are open, and how to give them.

    ``spender`` is what takes the rest of the budget; "": the solver.
    """
    given = ", ".join(_GIVEN[fact] for fact in request.facts.bought)
    raise ValueError(
        f"{', '.join(request.facts.bought)}: {spender or request.spent_by} is no Gaussian release, "
        f"beside which facts of a table can be bought. Pass {given}; or use solver='auto' and "
        "bound='tightest', which buy what is not given"
    )


class _DividedBudget(NamedTuple):
    """Shares of mu^2 by name, the part that is left for training, and releases before it."""

    shares: dict[str, Share]
    left: float
    n_before_training: int


def _shares(request: Request, parts: tuple[Part, ...]) -> _DividedBudget:
    """Return the shares of all parts, and the rest."""
    recipe = request.recipe
    spent = request.facts.spent
    shares = dict[str, Share]()
    for part in (*parts, *recipe.after):
        for name, share in part.share(request).items():
            if name not in spent:  # counts that told classes serve for them, too
                shares.setdefault(name, share)
    shares, left = recipe.divided(request, shares)
    shares = spent | shares
    after = {name for part in recipe.after for name in part.share(request)}
    n_before = sum(share.n_releases for name, share in shares.items() if name not in after)
    return _DividedBudget(shares, left, n_before)


def _trained(
    request: Request, objective: Objective, training: Budget, bought: Gaussian | None
) -> Mechanism:
    """Return the record of training with the least noise, beside the parts that are bought."""
    solver = request.solver
    budget = request.budget
    with_noise = solver.mechanism(objective, training, request.bound)
    record = least_noise(with_noise, training, bound=request.bound)
    if bought and not isinstance(judge(record, budget.delta, request.bound)[1], GaussianDP):
        composition = least_noise(
            lambda noise: _declared(bought, with_noise(noise)), budget, bound=request.bound
        )
        record = composition.mechanisms[-1]
    solver.check_mechanism(objective, record)
    return record


def _declared(bought: Gaussian | None, record: Mechanism) -> Mechanism:
    """Return the record of training, and of the parts bought before it."""
    if bought is None:
        return record
    return Composition((bought, record), names=("bought before training", TRAINING))
