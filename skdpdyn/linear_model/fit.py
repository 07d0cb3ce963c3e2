"""The one fit: read, plan, buy, train, and publish all at once."""

import math
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpdyn import rules
from skdpdyn.base import forget_fit
from skdpdyn.blas import threads_of
from skdpdyn.conditioning import FittedConditioning
from skdpdyn.data.persons import unit_of
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import CalibrationError, PrivacyUtilityWarning, warn
from skdpdyn.linear_model.parts import AFTER, COLUMN_LEVELS, DIAGNOSTICS, LEVELS, PARTS, Learning
from skdpdyn.linear_model.plan import Plan, plan
from skdpdyn.linear_model.reading import read
from skdpdyn.linear_model.request import check_persons, checked, request_of
from skdpdyn.noise import check_random_state, generators
from skdpdyn.privacy import composition, least_noise
from skdpdyn.privacy._types import Mechanism
from skdpdyn.progress import Progress
from skdpdyn.solvers import SOLVERS
from skdpdyn.solvers.noisy_gd import Learnt
from skdpdyn.spending import TRAINING, Spending, warn_of_weak_budget

if TYPE_CHECKING:
    from skdpdyn.linear_model.base import PrivateLinearModel


def fit(
    model: "PrivateLinearModel",
    X: Any,
    y: Any,
    groups: Any,
    unit: str | None,
    exposure: Any = None,
    most_rows: int | None = None,
) -> None:
    """Read the records, run what the plan says, and set what was learnt on the estimator."""
    unit = unit_of(groups, unit)
    if most_rows is not None and groups is None:
        raise ValueError(f"max_rows_per_person={most_rows!r} is of persons: pass groups")
    check_random_state(model.random_state)
    checked(model)
    with read(model, X, y, groups, exposure) as reading:
        reading = replace(reading, equal=most_rows is not None)
        if groups is not None:
            check_persons(model, most_rows)
        planned = _planned(model, reading, most_rows)
        solver = planned.request.solver
        if reading.elsewhere and not (solver.streams or (reading.X.draws and solver.draws)):
            raise ValueError(
                f"solver={model.solver!r} needs all rows in memory, and X is a "
                f"{type(reading.X).__name__}. Use solver='auto'"
            )
        (generator,) = generators(model.random_state)
        warn_of_weak_budget(planned.budget, planned.request.n_samples)
        spending = Spending(planned.budget, planned.shares, generator)
        if LEVELS in planned.shares:
            reading = COLUMN_LEVELS.bought(reading, planned.request, spending)
            planned = _planned(model, reading, most_rows)  # of the columns that there are now
        if model.verbose:
            _tell(model, planned)
        _run(model, planned, reading, spending, unit)


def _planned(model, reading, most_rows):
    """Return the plan for what was read."""
    return plan(request_of(model, *reading.shape, reading.seen(most_rows)))


def _run(model, planned, reading, spending, unit):
    """Buy what is bought first, train, and publish."""
    request, spending.shares = planned.request, planned.shares
    learning = _learning(planned, reading, model.n_jobs)
    spending.n_threads = learning.rows.n_threads
    record = learn(learning, spending, model.verbose)
    if request.start is not None:
        learning.start = request.start.parameters(learning)
    if learning.class_weights is not None:
        learning.rows = learning.rows.weighted_by_class(learning.class_weights)
    with nullcontext() if reading.elsewhere else closing(learning.rows):  # `read` closes sources
        if record is not None:
            start = {} if learning.start is None else {"start": learning.start}
            learning.theta = request.solver.solve(
                planned.objective,
                record,
                learning.rows,
                generator=spending.generator,
                verbose=model.verbose,
                **start,
            )
            spending.note(TRAINING, record)
        for part in AFTER:
            part.learn(learning, spending)
    if request.constant or learning.hopeless:
        _settle_for_constant(learning)
    ran = spending.record()
    if planned.record is None:
        _check_spent(ran, planned)
    forget_fit(model)
    model._publish_plan(replace(planned, mechanism=ran), reading.target.leaks, unit)
    for name, value in (_public(model, learning) | _ran(request, record, spending)).items():
        setattr(model, name, value)
    _publish_parameters(model, learning)
    model._sign()


def _ran(request, record, spending):
    """Return attributes that say how training ran: by steps, or by one release that was solved."""
    if request.solves:
        noise_multiplier = spending.noise_multiplier(TRAINING)
        return {"noise_multiplier_": noise_multiplier, "solver_": "sufficient_statistics"}
    return {"n_iter_": 0} if record is None else request.solver.fitted_attributes(record)


def _learning(planned, reading, n_jobs):
    """Return what is known before anything is bought: rows in as many threads as they may take."""
    request, target = planned.request, reading.target
    flags = request.diagnostics and request.family.targets.clips
    rows = reading.rows(request.most_rows)
    if request.expansion is not None:
        rows = rows.with_expansion(request.expansion)
    held = min(request.n_features, 32) if request.is_sparse else request.n_features
    rows.n_threads = threads_of(n_jobs, request.n_samples * held)
    told = reading.flags(request.most_rows) if flags else None
    target.forget_numbers()  # rows have them, and have them in learnt units soon
    return Learning(planned, rows, target, told, class_weights=target.class_weights)


def _settle_for_constant(learning):
    """Take the model that training would have started from, and say so."""
    request, missing = learning.plan.request, 1.0
    if learning.hopeless:
        missing = rules.LEAST_FLAT_STRENGTH / (request.strength * learning.flatness)
    missing = max(missing, rules.LEAST_STRENGTH / request.strength, 1.0)
    why = (
        "the base rate, or what depends on it, drowns in its own noise, so that"
        if learning.hopeless
        else f"n_samples={request.n_samples} times mu={request.mu:.3g} pays for no more than a "
        "base rate:"
    )
    needed = (
        f"{missing:.2g} times as many records, or that much of a larger epsilon, at least"
        if missing >= 1.05
        else "more records, or a larger epsilon"
    )
    warn(
        f"{why} predictions are the same for all rows. Slopes need {needed}; "
        "skdpdyn.planning.plan says what models of that size score",
        PrivacyUtilityWarning,
    )
    start = np.zeros(learning.plan.objective.n_parameters)
    learning.theta = start if learning.start is None else learning.start


def learn(learning: Learning, spending: Spending, verbose: int = 0) -> Mechanism | None:
    """Learn all parts of a plan, and return the record of training; None where there is none.

    Learnt values choose maps and steps, never the amount that is spent.

    Raises
    ------
    CalibrationError
        If what was bought costs more than the plan declares.
    """
    planned = learning.plan
    if not spending.shares and planned.record is not None and not planned.request.maps:
        return planned.record
    later = [share for part in AFTER for share in part.share(planned.request).values()]
    n_first = spending.n_releases - sum(share.n_releases for share in later)
    with Progress(n_first, "conditioning", verbose) as spending.told:
        for part in (DIAGNOSTICS, *PARTS):
            part.learn(learning, spending)
    spending.told = None
    record = planned.record
    solved = planned.request.constant or planned.request.solves
    if solved or (learning.hopeless and record is None):
        return None
    if record is None:
        training = planned.training
        alike = learning.rows.map.equal and planned.objective.n_outputs == 1
        with_noise = planned.request.solver.adapted(
            planned.objective,
            training.mu,
            training.adjacency,
            Learnt(
                learning.top,
                learning.enough if alike else math.inf,
                learning.flatness,
                learning.steepness,
                learning.time,
            ),
        )
        return least_noise(with_noise, training, bound=planned.bound)
    _check_spent(spending.record(), planned)  # the plan has judged training already
    return record


def _check_spent(ran: Mechanism | None, planned: Plan) -> None:
    """Raise unless all that was bought is within what the plan declares."""
    cost = None if ran is None else composition(ran)
    known = planned.declared_mu, planned.budget.failure
    if cost and not (cost.mu <= known[0] and cost.failure <= known[1]):
        raise CalibrationError(
            "the parts of this fit cost more than it declares: please report this"
        )


def _public(model, learning):
    """Return the fitted attributes that say what was trained on, besides parameters."""
    objective, request = learning.plan.objective, learning.plan.request
    names = [name for name, solver in SOLVERS.items() if type(request.solver) is solver]
    row_map, target = learning.rows.map, learning.target
    found = {
        "n_samples_": objective.n_samples,
        "alpha_": objective.alpha,
        "clip_": objective.lipschitz,
        "data_norm_": request.data_norm,
        "intercept_scaling_": objective.intercept_scaling,
        "solver_": names[0] if names else type(request.solver).__name__,
        "start_": None if request.start is None else request.start.what,
        "conditioning_": None
        if row_map is None
        else FittedConditioning(row_map, request.shortened),
        **target.attributes,
    }
    if request.expansion is not None:
        found["expansion_"], found["units_"] = learning.rows.expansion, learning.units
    if learning.diagnostics:
        found["diagnostics_"] = learning.diagnostics
    if learning.class_weights is not None:
        labels = target.attributes["classes_"].tolist()
        found["class_weight_"] = dict(zip(labels, learning.class_weights.tolist(), strict=True))
    return found


def _publish_parameters(model, learning: Learning) -> None:
    """Set coefficients and intercept in units of X and y, in the precision of X."""
    rows, request = learning.rows, learning.plan.request
    parameters = learning.plan.objective.split(learning.theta)
    coef, intercept = _in_units_of_x(*parameters, rows.map, *learning.units)
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


def _tell(model, planned: Plan) -> None:
    """Print what will run and what it spends: public numbers."""
    record = planned.record
    what = type(planned.request.solver if record is None else record).__name__
    if planned.request.constant or planned.request.solves:
        what = "the base rate" if planned.request.constant else "conditioning and sums of products"
    elif planned.shares or planned.request.maps:
        what = f"conditioning and {what}"
    elif (n_steps := getattr(record, "n_steps", None)) is not None:
        what += f" of {n_steps} steps"
    delta = planned.budget.delta
    spent = (
        f"epsilon={planned.guarantee.epsilon(delta):.6g} at delta={delta:.3g} by {planned.bound}"
    )
    print(f"[{type(model).__name__}] {spent} for {what}")
