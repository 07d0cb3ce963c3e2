"""The one fit: read, plan, buy, train, and publish all at once."""

from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from skdpdyn.core.noise import check_random_state
from skdpdyn.core.schema import apply_schema, check_relations
from skdpdyn.core.spending import TRAINING, Spending, warn_of_weak_budget
from skdpdyn.data.persons import unit_of
from skdpdyn.data.row_map import RowMap
from skdpdyn.solvers import SOLVERS
from skdpdyn.support.progress import Progress
from skdpdyn.support.threads import threads_of
from skdpdyn.training.base import forget_fit
from skdpdyn.training.conditioning import MEAN, FittedConditioning
from skdpdyn.training.parameters import check_equal_rows, check_persons, checked
from skdpdyn.training.parts import CLASS_COUNTS
from skdpdyn.training.plan import plan_of, request_of
from skdpdyn.training.purchase import Purchase, schema_of
from skdpdyn.training.reading import Beside, Reading, read
from skdpdyn.training.silent import silent_columns, warn_of_silent
from skdpdyn.training.values import Learning, Plan


def fit(model: Any, X: Any, y: Any, beside: Beside) -> None:
    """Read the records, run the plan, and set the released results on the estimator."""
    equal_rows = check_equal_rows(model, beside.equal_rows, beside.groups)
    unit = unit_of(beside.groups, beside.unit)
    check_random_state(model.random_state)
    checked(apply_schema(model))
    check_relations(model, model.adjacency, unit)
    with read(model, X, y, replace(beside, equal_rows=equal_rows)) as reading:
        if beside.groups is not None:
            check_persons(model)
        # Stage 1: what is public of the table, all of it
        purchase = Purchase.of(model, *reading.shape, reading.form, reading.y)
        declared = plan_of(purchase.request)
        _check_run(model, declared, reading)
        warn_of_weak_budget(declared.budget, declared.request.n_samples)
        spending = Spending.seeded(declared.budget, declared.shares, model.random_state)
        facts = purchase.buy(reading, spending)
        # Stage 2: the fit of somebody who has given all facts
        planned = declared
        if purchase.open:
            complete = plan_of(request_of(model, *reading.shape, reading.form, facts))
            planned = replace(complete, guarantee=declared.guarantee)
        learning = learn(model, planned, reading, spending)
        _publish(model, learning, spending, unit)
        model.rows_of_a_person_ = planned.request.most_rows if equal_rows else None
        model._sign()


def learn(model: Any, planned: Plan, reading: Reading, spending: Spending) -> Learning:
    """Run a plan whose facts are complete, and return its results."""
    if model.verbose:
        _print_plan(model, planned)
    learning = _learning(planned, reading, model)
    spending.shares = planned.shares
    spending.n_threads = learning.rows.n_threads
    with Progress(planned.n_before_training, "conditioning", model.verbose) as spending.progress:
        for part in planned.parts:
            part.learn(learning, spending)
    spending.progress = None
    _train(learning, spending, model.verbose, reading.elsewhere)
    return learning


def _check_run(model, planned, reading):
    """Refuse data that the solver cannot learn from, and predictions that nothing buys."""
    request = planned.request
    solver = request.solver
    if request.of_rows and (reading.persons is None or reading.equal_rows):
        raise ValueError(
            "estimand='rows' is of persons whose rows weigh 1/k: pass groups=ids, and no equal_rows"
        )
    if request.of_rows and not request.recipe.after:
        raise ValueError(
            "estimand='rows' needs the default solver, and records that pay for slopes: use "
            "solver='auto', and more records or a larger epsilon"
        )
    if reading.elsewhere and not (solver.streams or (reading.X.draws and solver.draws)):
        raise ValueError(
            f"solver={model.solver!r} needs all rows in memory, and X is a "
            f"{type(reading.X).__name__}. Use solver='auto'"
        )


def _learning(planned: Plan, reading: Reading, model: Any) -> Learning:
    """Return the initial state of a fit: rows in as many threads as they may take."""
    request = planned.request
    facts = planned.request.facts
    target = reading.target(model, facts)
    cells = None if request.expansion is None else reading.X.coded(request.expansion)
    rows: Any = reading.learnt_rows(target, cells)
    width = min(request.n_features, 32) if request.is_sparse else request.n_features
    rows.n_threads = threads_of(model.n_jobs, request.n_samples * width)
    counted = CLASS_COUNTS in planned.shares and facts.counts is None
    labels = rows if counted else None
    if target.codes is not None:
        rows = rows.with_classes(target.codes)
    if facts.total is not None and request.least_weight == 1:
        rows = rows.with_total(facts.total)
    if request.ranges is not None:
        rows = rows.with_ranges(request.ranges)
    return Learning(
        planned,
        rows,
        replace(target, values=None, exposure=None),  # rows have them
        request.recipe,
        labels,
        class_weights=target.class_weights,
        class_counts=facts.counts,
    )


def _train(learning: Learning, spending: Spending, verbose: Any, elsewhere: bool) -> None:
    """Train by the recipe's record, then buy the parts that follow training."""
    planned = learning.plan
    record = learning.recipe.record(learning, spending)
    learning.weigh_classes()
    with nullcontext() if elsewhere else closing(learning.rows):  # `read` closes sources
        if record is not None:
            spending.note(TRAINING, record)
            spending.proved(planned)
            learning.train(record, spending, verbose)
        for part in learning.recipe.after:
            part.learn(learning, spending)
    learning.recipe.settle(learning)
    learning.record = record


def _publish(model: Any, learning: Learning, spending: Spending, unit: str) -> None:
    """Set the released results on the estimator, and nothing else."""
    planned = learning.plan
    request = learning.plan.request
    record = spending.proved(planned)
    forget_fit(model)
    model._publish_plan(replace(planned, mechanism=record), request.facts.leaks, unit)
    ran = learning.recipe.attributes(request, learning.record, spending)
    for name, value in (_public(learning, spending) | ran).items():
        setattr(model, name, value)
    _publish_parameters(model, learning)
    model.schema_ = schema_of(model, request.facts, request.family.targets.parameter)
    model.silent_columns_ = silent_columns(model)
    warn_of_silent(model.silent_columns_)


def _conditioning(learning, spending):
    """Return the map of rows, and the noise of its centre where this fit has bought it."""
    rows = learning.rows
    std = None
    if MEAN in spending.shares:
        std = spending.noise_on_sum(MEAN) * rows.map.radius / rows.mass
    return FittedConditioning(rows.map, learning.shortened, ranges=rows.ranges, mean_std=std)


def _public(learning, spending):
    """Return the fitted attributes that describe the training data, besides parameters."""
    objective = learning.plan.objective
    request = learning.plan.request
    names = [name for name, solver in SOLVERS.items() if type(request.solver) is solver]
    row_map = learning.rows.map
    target = learning.target
    attributes = {
        "n_samples_": objective.n_samples,
        "alpha_": objective.alpha,
        "clip_": objective.lipschitz,
        "data_norm_": request.data_norm * request.room,
        "intercept_scaling_": objective.intercept_scaling,
        "solver_": names[0] if names else type(request.solver).__name__,
        "bought_": request.facts.parts_of_mu,
        "start_": None if request.start is None else request.start.label,
        "conditioning_": None if row_map is None else _conditioning(learning, spending),
        "ranges_": None if learning.rows.ranges is None else learning.rows.ranges.pairs,
        **target.attributes,
    }
    if request.expansion is not None:
        attributes["expansion_"] = learning.rows.expansion
        attributes["units_"] = learning.units
        attributes["chosen_pairs_"] = learning.pairs
    if request.family.targets.takes_exposure:
        attributes["has_exposure_"] = request.has_exposure
    if request.family.units is not None:
        attributes |= request.family.units.attributes(learning)
    if learning.class_weights is not None:
        labels = target.attributes["classes_"].tolist()
        attributes["class_weight_"] = dict(
            zip(labels, learning.class_weights.tolist(), strict=True)
        )
    return attributes


def _publish_parameters(model, learning: Learning) -> None:
    """Set coefficients and intercept in units of X and y, in the precision of X."""
    rows = learning.rows
    request = learning.plan.request
    parameters = learning.plan.objective.split(learning.theta)
    coef, intercept = _in_units_of_x(*parameters, rows.map, *learning.units)
    if rows.ranges is not None:
        coef, intercept = rows.ranges.of_values(coef, intercept)
    published = request.family.targets.published(
        learning.target.attributes,
        coef.astype(rows.dtype),
        intercept.astype(rows.dtype),
        request.fit_intercept,
    )
    for name, value in published.items():
        if not np.all(np.isfinite(np.asarray(value, dtype=rows.dtype))):
            raise FloatingPointError(
                "the parameters overflowed: noise, steps or target_bounds are beyond X's "
                "precision. Rescale"
            )
        setattr(model, name, value)


def _in_units_of_x(
    coef: np.ndarray, intercept: np.ndarray, row_map: RowMap | None, centre: float, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Turn parameters for mapped rows into those for rows of X and the target's own units."""
    if row_map is not None:
        coef = row_map.coefficients(coef)
        intercept = intercept + row_map.shift(coef) / row_map.norm
        coef = coef / row_map.norm
    return coef * scale, intercept * scale + centre


def _print_plan(model, planned: Plan) -> None:
    """Print the planned run and its cost: public numbers."""
    delta = planned.budget.delta
    runs = planned.request.recipe.announced(planned)
    spent = (
        f"epsilon={planned.guarantee.epsilon(delta):.6g} at delta={delta:.3g} by {planned.bound}"
    )
    print(f"[{type(model).__name__}] {spent} for {runs}")
