"""The one fit: read, plan, buy, train, and publish all at once."""

from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from skdpdyn.core.noise import check_random_state, generators
from skdpdyn.core.schema import apply_schema
from skdpdyn.core.spending import TRAINING, Spending, warn_of_weak_budget
from skdpdyn.data.persons import unit_of
from skdpdyn.data.row_map import RowMap
from skdpdyn.solvers import SOLVERS
from skdpdyn.support.blas import threads_of
from skdpdyn.support.progress import Progress
from skdpdyn.training.base import forget_fit
from skdpdyn.training.conditioning import FittedConditioning
from skdpdyn.training.parameters import check_equal_rows, check_persons, checked, weights_of
from skdpdyn.training.parts import CLASS_COUNTS
from skdpdyn.training.plan import plan
from skdpdyn.training.preparation import bought_facts, resolved
from skdpdyn.training.reading import Beside, Reading, read
from skdpdyn.training.values import Learning, Plan


def fit(model: Any, X: Any, y: Any, beside: Beside) -> None:
    """Read the records, run the plan, and set the released results on the estimator."""
    groups = beside.groups
    equal_rows = check_equal_rows(model, beside.equal_rows, beside.groups)
    unit = unit_of(groups, beside.unit)
    check_random_state(model.random_state)
    checked(apply_schema(model))
    with read(model, X, y, groups, beside.exposure, beside.weight) as reading:
        weights = weights_of(model, beside.weight, reading.X.shape[0])
        if weights is not None and reading.elsewhere:
            raise ValueError("sample_weight needs all rows in memory: pass arrays, or no weights")
        reading = replace(reading, equal_rows=equal_rows, weights=weights)
        if groups is not None:
            check_persons(model)
        reading, request = resolved(model, reading)
        planned = plan(request)
        _check_estimand(planned.request, groups, equal_rows)
        _check_source(model, planned, reading)
        (generator,) = generators(model.random_state)
        warn_of_weak_budget(planned.budget, planned.request.n_samples)
        spending = Spending(planned.budget, planned.shares, generator)
        for part in planned.parts:
            before = reading
            reading = part.first(model, reading, planned.request, spending)
            if reading is not before:  # the plan rests on it
                declared = planned
                planned = plan(resolved(model, reading)[1])
                declared.check_same_cost(planned)
        if model.verbose:
            _print_plan(model, planned)
        learning = _learning(planned, reading, model.n_jobs)
        spending.shares = planned.shares
        spending.n_threads = learning.rows.n_threads
        with Progress(
            planned.n_before_training, "conditioning", model.verbose
        ) as spending.progress:
            for part in planned.parts:
                part.learn(learning, spending)
        spending.progress = None
        _train(learning, spending, model.verbose, reading.elsewhere)
        _publish(model, learning, spending, unit)
        model.rows_of_a_person_ = planned.request.most_rows if equal_rows else None


def _check_estimand(request, groups, equal_rows):
    """Refuse predictions of a mean row where there are none, or where nothing buys them."""
    if not request.of_rows:
        return
    if groups is None or equal_rows:
        raise ValueError(
            "estimand='rows' is of persons whose rows weigh 1/k: pass groups=ids, and no equal_rows"
        )
    if not request.recipe.after:
        raise ValueError(
            "estimand='rows' needs the default solver, and records that pay for slopes: use "
            "solver='auto', and more records or a larger epsilon"
        )


def _check_source(model, planned, reading):
    """Refuse rows from a source that the solver cannot learn from."""
    solver = planned.request.solver
    if reading.elsewhere and not (solver.streams or (reading.X.draws and solver.draws)):
        raise ValueError(
            f"solver={model.solver!r} needs all rows in memory, and X is a "
            f"{type(reading.X).__name__}. Use solver='auto'"
        )


def _learning(planned: Plan, reading: Reading, n_jobs: Any) -> Learning:
    """Return the initial state of a fit: rows in as many threads as they may take."""
    request = planned.request
    target = reading.target
    rows: Any = reading.rows(request.most_rows)
    if request.expansion is not None:
        rows = rows.with_expansion(request.expansion)
    width = min(request.n_features, 32) if request.is_sparse else request.n_features
    rows.n_threads = threads_of(n_jobs, request.n_samples * width)
    cells = rows if CLASS_COUNTS in planned.shares and target.class_counts is None else None
    if target.codes is not None:
        rows = rows.with_classes(target.codes)
    if target.total is not None and request.least_weight == 1:
        rows = rows.with_total(target.total)
    target.forget_numbers()  # rows have them, and have them in learnt units soon
    return Learning(
        planned, rows, target, request.recipe, cells, class_weights=target.class_weights
    )


def _train(learning: Learning, spending: Spending, verbose: Any, elsewhere: bool) -> None:
    """Train by the recipe's record, then buy the parts that follow training."""
    planned = learning.plan
    record = learning.recipe.record(learning, spending)
    if learning.class_weights is not None:
        learning.rows = learning.rows.weighted_by_class(learning.class_weights)
    with nullcontext() if elsewhere else closing(learning.rows):  # `read` closes sources
        if record is not None:
            start = {} if learning.start is None else {"start": learning.start}
            learning.theta = planned.request.solver.solve(
                planned.objective,
                record,
                learning.rows,
                generator=spending.generator,
                verbose=verbose,
                **start,
            )
            spending.note(TRAINING, record)
        for part in learning.recipe.after:
            part.learn(learning, spending)
    learning.recipe.settle(learning)
    learning.record = record


def _publish(model: Any, learning: Learning, spending: Spending, unit: str) -> None:
    """Set the released results on the estimator, and nothing else."""
    planned = learning.plan
    request = learning.plan.request
    record = spending.record()
    if planned.record is None:
        planned.check_spent(record)
    forget_fit(model)
    model._publish_plan(replace(planned, mechanism=record), learning.target.leaks, unit)
    ran = learning.recipe.attributes(request, learning.record, spending)
    for name, value in (_public(learning) | ran).items():
        setattr(model, name, value)
    _publish_parameters(model, learning)
    model._sign()


def _public(learning):
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
        "bought_": bought_facts(learning.plan.parts, request, learning.plan.shares),
        "start_": None if request.start is None else request.start.label,
        "conditioning_": None
        if row_map is None
        else FittedConditioning(row_map, learning.shortened, ranges=learning.rows.ranges),
        "ranges_": None if learning.rows.ranges is None else learning.rows.ranges.pairs,
        **target.attributes,
    }
    if request.expansion is not None:
        attributes["expansion_"] = learning.rows.expansion
        attributes["units_"] = learning.units
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
