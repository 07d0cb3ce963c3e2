"""A plan: what a fit will buy, run and spend, known from a `Request` before it sees a record."""

import math
from dataclasses import dataclass, replace

from skdpdyn import rules
from skdpdyn.conditioning import LARGEST_SPREAD
from skdpdyn.exceptions import CalibrationError
from skdpdyn.linear_model.parts import AFTER, DIAGNOSTICS, PARTS
from skdpdyn.linear_model.request import Request
from skdpdyn.linear_model.start import largest_start
from skdpdyn.objective import Objective, n_parameters_of, row_norm_of
from skdpdyn.privacy import Budget, Composition, Gaussian, GaussianDP
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.calibration import judge, least_noise
from skdpdyn.privacy.checks import is_auto
from skdpdyn.solvers.noisy_gd import conditioned_time
from skdpdyn.spending import ROUNDS_DOWN, TRAINING, Share, Spent, scaled_to, total_of

_LARGEST_STRENGTH = 2.0**39  # sums of all records are beyond what `largest_point` takes from here


@dataclass(frozen=True)
class Plan(Spent):
    """What a fit will buy, run and spend.

    Attributes
    ----------
    request : Request
        What was asked for.
    objective : Objective
        The problem to train on.
    shares : dict of str to Share
        What is bought before training.
    training : Budget
        What is left for training; the whole budget where nothing is trained.
    record : record or None
        Record of training; None if its steps follow from what is learnt.
    declared_mu : float
        What may be spent on all that is bought, and on training where ``record`` is None.
    """

    request: Request
    objective: Objective
    shares: dict[str, Share]
    training: Budget
    record: Mechanism | None
    declared_mu: float


def plan(request: Request) -> Plan:
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
    shares, left = _shares(request)
    budget, adjacency = request.budget, request.budget.adjacency
    if shares and not request.strength < _LARGEST_STRENGTH:
        raise CalibrationError(
            f"epsilon={budget.epsilon}: no noise can be computed for so extreme a budget"
        )
    training = budget.part(left * ROUNDS_DOWN**2) if shares and left else budget
    objective = _objective(request, training)
    if request.adapts or request.constant:
        guarantee = GaussianDP(budget.mu, adjacency, budget.failure)
        known = None, "composition", guarantee, budget, request, objective
        return Plan(*known, shares, training, None, budget.mu)
    # more than the parts add up to, by their rounding: less than a report's check allows for
    declared_mu = request.mu * math.sqrt(1 - left) * (1 + 1e-12) if shares else 0.0
    bought = Gaussian(1 / declared_mu, adjacency=adjacency) if shares else None
    record = _trained(request, objective, training, bought)
    mechanism = _declared(bought, record)
    bound, guarantee = judge(mechanism, budget.delta, request.bound)
    if not guarantee.epsilon(budget.delta) <= budget.epsilon:
        raise CalibrationError(
            f"conditioning={request.conditioning!r}: no noise is known to meet the budget with it"
        )
    known = mechanism, bound, guarantee, budget, request, objective
    return Plan(*known, shares, training, record, declared_mu)


def _shares(request: Request) -> tuple[dict[str, Share], float]:
    """Return what is bought, by name, and the part of mu^2 that is left for training."""
    shares: dict[str, Share] = {}
    for part in (*PARTS, *AFTER):
        shares |= part.share(request)
    wanted = _wanted(request)
    taken = total_of(shares.values())
    if wanted is not None:
        shares, taken = scaled_to(shares, wanted), wanted
    diagnostics = DIAGNOSTICS.share(request)
    if request.constant:
        return {**diagnostics, **scaled_to(shares, 1 - total_of(diagnostics.values()))}, 0.0
    left = 1 - taken - total_of(diagnostics.values())
    if not left > 0:
        raise ValueError(
            f"conditioning={request.conditioning!r} and diagnostics leave nothing of the budget "
            "for training. Use a smaller share"
        )
    if request.solves:
        return {**diagnostics, **shares, TRAINING: Share(left)}, 0.0
    return {**diagnostics, **shares}, left


def _wanted(request: Request) -> float | None:
    """Return what all parts together take of mu^2; None: the sum of their shares."""
    if not request.maps or request.given is not None:
        return None
    if not is_auto(request.conditioning):
        return float(request.conditioning)
    if request.adapts:
        return None
    return rules.map_share(request.pays_for_matrix)


def _objective(request: Request, training: Budget) -> Objective:
    """Return the problem, with what "auto" stands for."""
    solver, maps, loss = request.solver, request.maps, request.loss
    if request.family.units is not None and maps:
        loss = request.family.units.loss(request)
    data_norm, scaling = 1.0 if maps else request.data_norm, request.scaling
    if request.clip is not None:
        clip = request.clip / request.data_norm if maps else request.clip
    else:
        n_parameters = n_parameters_of(loss, request.n_features, scaling)
        mu = solver.gaussian_mu(training, n_parameters)
        strength = rules.strength_of(request.n_samples, mu, training.adjacency)
        clip = solver.auto_clip(loss, request.auto_clip(n_parameters, strength))
        clip *= row_norm_of(data_norm, scaling)
    objective = Objective(
        loss,
        request.n_samples,
        request.n_features,
        data_norm,
        alpha=request.alpha or 0.0,
        clip=clip,
        intercept_scaling=scaling,
        spread=LARGEST_SPREAD if maps and request.may_have_matrix else 1.0,
        most_rows=request.most_rows,
        start_norm=largest_start(data_norm, scaling) if request.start else 0.0,
    )
    if request.alpha is not None:
        return objective
    if request.adapts:
        alpha = rules.FORGETTING / conditioned_time(objective, training.mu, training.adjacency)
    else:
        alpha = solver.auto_alpha(objective, training, request.bound)
    return replace(objective, alpha=alpha)


def _trained(
    request: Request, objective: Objective, training: Budget, bought: Gaussian | None
) -> Mechanism:
    """Return the record of training with the least noise, beside what is bought."""
    solver, budget = request.solver, request.budget
    with_noise = solver.mechanism(objective, training, request.bound)
    record = least_noise(with_noise, training, bound=request.bound)
    if bought and not isinstance(judge(record, budget.delta, request.bound)[1], GaussianDP):
        whole = least_noise(
            lambda noise: _declared(bought, with_noise(noise)), budget, bound=request.bound
        )
        record = whole.mechanisms[-1]
    solver.check_mechanism(objective, record)
    return record


def _declared(bought: Gaussian | None, record: Mechanism) -> Mechanism:
    """Return the record of training, and of what is bought before it."""
    if bought is None:
        return record
    return Composition((bought, record), names=("bought before training", TRAINING))
