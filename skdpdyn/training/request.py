"""Requests: an estimator's parameters and public numbers, checked, as one frozen value."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.expansion import bounds_by_column
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.privacy import Adjacency, Budget
from skdpdyn.privacy.calibration import check_shape
from skdpdyn.privacy.checks import is_auto, is_named
from skdpdyn.training.additive import learns_ranges, may_learn_levels
from skdpdyn.training.conditioning import FittedConditioning
from skdpdyn.training.parameters import buys_weights, checked, most_rows_of, solver_of
from skdpdyn.training.recipe import AS_IS, may_map, recipe_of
from skdpdyn.training.start import start_of
from skdpdyn.training.values import DataFacts, Request


def request_of(
    model: Any, n_samples: int, n_features: int, facts: DataFacts | None = None
) -> Request:
    """Return the request of an estimator on data of this shape, or raise for wrong parameters.

    Parameters
    ----------
    model : PrivateLinearModel
        The estimator.
    n_samples, n_features : int
        Numbers of records, or of persons, and of columns.
    facts : DataFacts or None, default=None
        What else is public of data that were read; None: nothing was.

    Returns
    -------
    Request
    """
    facts = DataFacts() if facts is None else facts
    loss = facts.loss
    bought = facts.buys_targets
    if loss is None:
        loss, bought = _loss_of(model)
    n_samples, n_features = check_shape(n_samples, n_features)
    parameters = checked(model)
    solver = solver_of(model)
    solver = solver.in_order() if facts.in_order else solver
    budget = _budget(model, n_samples, solver, facts.columns)
    solver.check_loss(loss)
    expansion = None
    conditioning = model.conditioning
    if model.family.expand is not None:
        strength = rules.strength_of(n_samples, budget.mu, budget.adjacency)
        expansion = model.family.expand(model, facts.columns, n_features, strength)
        n_features = expansion.n_features
        if strength < rules.LEAST_STRENGTH and model.start is None:  # all learnt would be noise
            conditioning = FittedConditioning(_as_they_are(n_features, expansion.row_norm))
    has_start = getattr(model, "start", None) is not None  # an older class outside may lack it
    start = _start_of(model, solver, n_features, loss) if has_start else None
    request = Request(
        model.family,
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
        most_rows=most_rows_of(model, n_samples),
        is_sparse=facts.is_sparse,
        has_exposure=facts.has_exposure,
        expansion=expansion,
        start=start,
        picks=is_auto(model.solver),
    )
    request = _with_recipe(model, request, bought)
    if facts.loss is None and bought and not request.recipe.composes:
        model.family.loss_of(None)  # refuses where the cost depends on it
    return request


def _as_they_are(n_columns, norm):
    """Return the map of rows that shortens those beyond a norm, and changes nothing else."""
    return RowMap(np.zeros(n_columns), np.ones(n_columns), norm=norm, radius=norm)


def _with_recipe(model, request, bought):
    """Return a request with all that follows from the recipe; ``bought``: facts of the target."""
    if request.expansion is None:
        request = replace(request, ranges=_ranges_of(model, request))
    if request.start is not None:
        request = _with_map_of_start(request, model.start)
    buys = bool(bought) and request.strength >= rules.FACTS_STRENGTH and request.is_gaussian
    recipe = recipe_of(request)
    solver = recipe.solver or request.solver
    request = replace(request, recipe=recipe, solver=solver, buys_targets=buys)
    request = replace(request, buys_ranges=_buys_ranges(model, request))
    return _with_data_norm(request) if is_auto(model.data_norm) else request


def _with_data_norm(request):
    """Return a request with the norm of rows that "auto" stands for."""
    bought = request.recipe.maps and request.public_map is None and not request.is_sparse
    ranged = request.buys_ranges or request.ranges is not None
    norm = rules.data_norm(request.n_features, bought or ranged)
    searched = bought and not ranged and request.expansion is None
    room = rules.room_of_rows(request.strength) if searched else 1.0
    return replace(request, data_norm=norm, room=room)


def _ranges_of(model, request):
    """Return the ranges of columns that are public: given, or lent by a map or a start."""
    bounds: Any = getattr(model, "bounds", None)  # an older class outside may lack it
    lent: Any = getattr(request.conditioning, "ranges", None)
    if bounds is None or (request.is_sparse and is_auto(bounds)):
        return lent
    if request.is_sparse:
        raise ValueError("bounds would make sparse rows dense: use bounds=None, or X.toarray()")
    names = _names_of(model, bounds, request.n_features)
    pairs = bounds_by_column(bounds, "bounds", request.n_features, names, partly=True)
    of_start = getattr(model.start, "ranges_", None) if lent is None else lent.pairs
    if of_start is not None:
        pairs = np.where(np.isnan(pairs), of_start, pairs)
    if lent is not None and not np.array_equal(lent.pairs, pairs):
        raise ValueError("bounds are others than those of conditioning: use bounds='auto'")
    return None if is_auto(bounds) and np.isnan(pairs).all() else Ranges(*pairs.T)


def _names_of(model, bounds, n_features):
    """Return names of columns: those of the model's fit, or before it those that bounds have."""
    if isinstance(bounds, dict) and not hasattr(model, "n_features_in_"):
        return [*bounds, *[None] * n_features][:n_features]
    return getattr(model, "feature_names_in_", None)


def _buys_ranges(model, request):
    """Return whether ranges of columns are bought: of dense rows, on the way to a map of rows."""
    if request.expansion is not None:
        return request.start is None and bool(learns_ranges(request.expansion.columns))
    if request.ranges is not None:
        are_open = bool(np.isnan(request.ranges.low).any())
        if are_open:
            request.check_buys("bounds of some columns alone", "Give those of all")
        return are_open
    free = is_auto(model.data_norm) and is_auto(model.conditioning) and request.start is None
    least = rules.LEAST_RANGES_STRENGTH * math.sqrt(request.n_features)
    pays = request.recipe.maps and not request.is_sparse and request.strength >= least
    return is_auto(getattr(model, "bounds", None)) and free and pays


def _loss_of(model):
    """Return the loss by the parameters, and whether what it depends on is still to be bought."""
    targets = model.family.targets
    public = targets.public(model)
    bought = public is None and is_auto(getattr(model, targets.parameter, None))
    return model.family.loss_of(targets.stand_in if bought else public), bought


def _budget(model, n_samples, solver, columns):
    """Return the budget, with a part of delta reserved where levels of columns are bought."""
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
    if model.family.expand is not None and adapts and may_learn_levels(model, columns):
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


def _alike(one, other):
    return one is other or (None not in (one, other) and np.array_equal(one.pairs, other.pairs))


def _start_of(model, solver, n_features, loss):
    """Return where training starts, if the solver can start there."""
    start = start_of(model, n_features, loss.n_outputs)
    if not solver.starts:
        raise ValueError(
            f"start: {type(model).__name__} with solver={model.solver!r} cannot train from it. "
            "Use solver='noisy_gd', or start=None"
        )
    return start
