"""Requests: an estimator's parameters and public numbers, checked, as one frozen value."""

from dataclasses import replace
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.data.row_map import RowMap
from skdpdyn.privacy import Adjacency, Budget
from skdpdyn.privacy.calibration import check_shape
from skdpdyn.privacy.checks import is_auto, is_named
from skdpdyn.training.conditioning import FittedConditioning
from skdpdyn.training.parameters import buys_weights, checked, most_rows_of, solver_of
from skdpdyn.training.recipe import AS_IS, may_map, recipe_of
from skdpdyn.training.start import start_of
from skdpdyn.training.values import Facts, Form, Request


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
    expansion = None
    conditioning = model.conditioning
    if family.expand is not None:
        strength = rules.strength_of(n_samples, budget.mu, budget.adjacency)
        expansion = family.expand(model, facts.columns, form.columns is not None, strength)
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
    recipe = recipe_of(request)
    request = replace(request, recipe=recipe, solver=recipe.solver or request.solver)
    return _with_data_norm(request) if is_auto(model.data_norm) else request


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
