"""A request: everything public that a fit is asked for, checked, as one frozen value."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from skdpdyn import rules
from skdpdyn.base import check_n_jobs, check_verbose
from skdpdyn.conditioning import Conditioning, FittedConditioning, can_sum, pays_for_matrix
from skdpdyn.data.persons import checked_most_rows
from skdpdyn.expansion import Expansion
from skdpdyn.linear_model.additive import learns_levels
from skdpdyn.linear_model.family import Family
from skdpdyn.linear_model.start import Start, start_of
from skdpdyn.losses import Loss
from skdpdyn.privacy import ACCOUNTANTS, Adjacency, Budget
from skdpdyn.privacy.calibration import check_shape
from skdpdyn.privacy.checks import (
    as_float,
    checked_choice,
    checked_flag,
    is_auto,
    is_named,
)
from skdpdyn.solvers import SOLVERS, NoisyGD, Solver
from skdpdyn.spending import ROUNDS_DOWN

if TYPE_CHECKING:
    from skdpdyn.linear_model.base import PrivateLinearModel

# floating point can square these, and multiply them by the shape of any data
_SMALLEST, _LARGEST = 1e-50, 1e50


@dataclass(frozen=True)
class Request:
    """Everything public that a fit is asked for: checked parameters and the shape of the data.

    ``alpha``, ``clip`` and ``intercept_scaling`` are None for "auto".
    """

    family: Family
    loss: Loss
    n_samples: int
    n_features: int
    budget: Budget
    bound: str
    solver: Solver
    data_norm: float
    alpha: float | None
    clip: float | None
    fit_intercept: bool
    intercept_scaling: float | None
    conditioning: Any
    buys_weights: bool
    diagnostics: bool
    most_rows: int
    is_sparse: bool = False
    has_exposure: bool = False
    expansion: Expansion | None = None
    start: Start | None = None
    picks: bool = False  # whether the solver is not asked for by name

    @property
    def radius(self) -> float:
        """Public bound on the norm of a row before the map."""
        return self.data_norm if self.expansion is None else self.expansion.row_norm

    @cached_property
    def mu(self) -> float:
        """The budget of all that is bought, as mu of Gaussian differential privacy."""
        return self.budget.mu * ROUNDS_DOWN

    @cached_property
    def strength(self) -> float:
        """N mu / f, see `skdpdyn.rules.strength_of`."""
        return rules.strength_of(self.n_samples, self.mu, self.budget.adjacency)

    @property
    def given(self) -> Conditioning | FittedConditioning | None:
        """Moments of rows, or a map of them, that are public already."""
        kinds = Conditioning | FittedConditioning
        return self.conditioning if isinstance(self.conditioning, kinds) else None

    @property
    def bounded(self) -> bool:
        """Whether the loss has a bound on its slope."""
        return math.isfinite(self.loss.lipschitz)

    @property
    def may_have_matrix(self) -> bool:
        """Whether rows may be mapped by a full matrix: products alone may round without bounds."""
        return self.bounded or self.fit_intercept

    @property
    def pays_for_matrix(self) -> bool:
        """Whether records are enough for a full second moment."""
        shape = self.n_samples, self.n_features
        if self.expansion is not None:
            return self.n_features <= rules.MOST_MATRIX_COLUMNS
        return self.may_have_matrix and pays_for_matrix(*shape, self.mu, self.budget.adjacency)

    @cached_property
    def maps(self) -> bool:
        """Whether the fit trains on rows under a map that is learnt or given first.

        Raises
        ------
        ValueError
            If that is asked for, and cannot be had.
        """
        if self.conditioning is None:
            return False
        if self.expansion is not None:
            if not (self._can_map and self._can_sum):
                raise ValueError(
                    f"{self._spent_by} cannot train an additive model. Use solver='auto' or "
                    "'noisy_sgd', and bound='tightest'"
                )
            return True
        if not is_auto(self.conditioning):
            self._check_conditioning()
            return True
        return self._may_map and not self._is_weak

    @cached_property
    def constant(self) -> bool:
        """Whether the budget pays for the base rate alone, so that no slopes are learnt."""
        starts = self.fit_intercept and self.family.units is not None and self.start is None
        free = is_auto(self.conditioning) and self.alpha is None and self.clip is None
        return starts and free and self._may_map and self._composes and self._is_weak

    @cached_property
    def _may_map(self):
        return self._can_map and self.solver.adapts and self._can_sum

    @property
    def _composes(self):
        return is_named(self.bound, "tightest", "composition")

    @property
    def _is_weak(self):
        strength = rules.strength_of(self.n_samples, self.budget.mu, self.budget.adjacency)
        return strength < rules.LEAST_STRENGTH

    @property
    def _can_map(self):
        return self.budget.delta > 0 and self.solver.maps_rows and not self.solver.pure

    @property
    def _can_sum(self):
        return can_sum(self.n_samples, self.n_features, self.most_rows)

    def _check_conditioning(self):
        """Refuse conditioning that was asked for and cannot be had."""
        asked = f"conditioning={self.conditioning!r}"
        if self.given is None and not 0 < as_float(self.conditioning) < 1:
            raise ValueError(
                f"{asked} must be 'auto', None, a share of mu^2 in (0, 1), a Conditioning or a "
                "conditioning_ that was released"
            )
        if not self._can_map:
            raise ValueError(
                f"{asked}: {self._spent_by} cannot train on conditioned "
                "rows. Use conditioning=None, or solver='auto' and bound='tightest'"
            )
        if not self._can_sum:
            raise ValueError(
                f"{asked}: n_samples={self.n_samples} are too many to sum. Use conditioning=None"
            )
        if self.given is not None and self.given.mean is not None and not self.fit_intercept:
            raise ValueError(
                "conditioning's mean centres rows, which fit_intercept=False does not allow: "
                "pass mean=None"
            )

    @cached_property
    def adapts(self) -> bool:
        """Whether the steps of training follow from what is learnt of the rows."""
        return self.maps and self.solver.adapts and self._composes

    @cached_property
    def solves(self) -> bool:
        """Whether one release of sums of products takes the place of steps."""
        known = self.is_sparse or self.clip is not None or self.start is not None
        free = self.picks and self.given is None and self.expansion is None and not known
        if not (self.loss.quadratic and free and self.adapts):  # without a delta there is no mu
            return False
        return self.strength >= rules.products_strength(self.n_features)

    @cached_property
    def kept_length(self) -> float:
        """Part of mapped rows that keep their length."""
        if self.solves:
            return rules.kept_length_of_products(self.strength, self.n_features)
        if self.family.kept_length is not None:
            return self.family.kept_length(self.strength, self.n_features)
        return rules.kept_length(self.strength, self.n_features, self.bounded)

    @property
    def shortened(self) -> float | None:
        """Part of the rows that the rule of a map shortens; None where none is meant to be."""
        bought = self.maps and self.given is None and not self.is_sparse
        return 1 - self.kept_length if bought else None

    def auto_clip(self, n_parameters: int, strength: float) -> float:
        """Return the bound on residuals that clip="auto" stands for."""
        family = self.family
        if not self.maps:
            return family.clip(n_parameters, strength)
        clip = (family.conditioned_clip or family.clip)(n_parameters, strength)
        if self.is_sparse and self.adapts:
            clip *= rules.sparse_clip(self.strength, self.n_features)
        return clip

    @property
    def scaling(self) -> float:
        """Constant of the intercept column; in units of ``data_norm`` for mapped rows."""
        if not self.fit_intercept:
            return 0.0
        if self.intercept_scaling is None:
            return rules.intercept_scaling(self.maps) * (1.0 if self.maps else self.data_norm)
        return self.intercept_scaling / (self.data_norm if self.maps else 1.0)

    @property
    def _spent_by(self):
        return f"solver={self.solver!r} under bound={self.bound!r} and delta={self.budget.delta:g}"

    def check_buys(self, parameter: str, instead: str) -> None:
        """Refuse to buy anything where noise is not Gaussian."""
        if self.solver.pure or not self.budget.delta > 0:
            raise ValueError(
                f"{parameter}: {self._spent_by} leaves no part of the budget for Gaussian noise "
                f"on counts. {instead}"
            )


@dataclass(frozen=True)
class Seen:
    """What is public of data that were read, beside their shape; the cost depends on the loss.

    Attributes
    ----------
    loss : Loss or None
        The loss of the targets. None: that of the parameters.
    is_sparse : bool
        Whether rows are CSR arrays.
    has_exposure : bool
        Whether counts have exposures.
    in_order : bool
        Whether rows are read in their order.
    columns : tuple or None
        Public columns of an additive model, as they were read. None: those of the parameters.
    most_rows : int or None
        Most rows of a person, where a fit was given it. None: that of the parameters.
    """

    loss: Loss | None = None
    is_sparse: bool = False
    has_exposure: bool = False
    in_order: bool = False
    columns: Any = None
    most_rows: int | None = None


def request_of(
    model: "PrivateLinearModel", n_samples: int, n_features: int, seen: Seen | None = None
) -> Request:
    """Return what an estimator asks for on data of this shape, or an error that says what is wrong.

    Parameters
    ----------
    model : PrivateLinearModel
        The estimator.
    n_samples, n_features : int
        Numbers of records, or of persons, and of columns.
    seen : Seen or None, default=None
        What else is public of data that were read; None: nothing was.

    Returns
    -------
    Request
    """
    seen = Seen() if seen is None else seen
    loss = seen.loss or model.family.loss_of(model.family.targets.public(model))
    n_samples, n_features = check_shape(n_samples, n_features)
    parameters, solver = checked(model), solver_of(model)
    solver = solver.in_order() if seen.in_order else solver
    budget = _budget(model, n_samples, solver)
    solver.check_loss(loss)
    known = getattr(model, "start", None) is not None  # an older class outside may lack it
    start = _start_of(model, solver, n_features, loss) if known else None
    expansion, conditioning = None, model.conditioning
    if model.family.expand is not None:
        strength = rules.strength_of(n_samples, budget.mu, budget.adjacency)
        expansion = model.family.expand(model, seen.columns, n_features, strength)
        n_features = expansion.n_features
        if strength < rules.LEAST_STRENGTH:  # what would be learnt is noise
            conditioning = Conditioning(mean=[0.0] * n_features)
    request = Request(
        model.family,
        loss,
        n_samples,
        n_features,
        budget,
        model.bound,
        solver,
        **parameters,
        conditioning=conditioning,
        buys_weights=_buys_weights(getattr(model, "class_weight", None)),
        most_rows=most_rows_of(model, n_samples, seen.most_rows),
        is_sparse=seen.is_sparse,
        has_exposure=seen.has_exposure,
        expansion=expansion,
        start=start,
        picks=is_auto(model.solver),
    )
    if start is not None:
        request = _with_map_of_start(request, model.start)
    if not is_auto(model.data_norm):
        return request
    bought = request.maps and request.given is None and not request.is_sparse
    return replace(request, data_norm=rules.data_norm(n_features, bought))


def _budget(model, n_samples, solver):
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
    if model.family.expand is not None and learns_levels(model):
        return replace(budget, reserved=rules.FAILURE_SHARE * budget.delta)
    return budget


def _with_map_of_start(request, start):
    """Return a request that trains on the start's map of rows, where it has one that suits.

    A map that is learnt anew measures rows by other units, in which what the start has of noise can
    be huge: of twelve months, each from the last, California's log loss went to 11.
    """
    found = getattr(start, "conditioning_", None)
    wanted = is_auto(request.conditioning) and request._may_map
    if not (wanted and isinstance(found, FittedConditioning)):
        return request
    suits = found.unit == request.is_sparse and (request.fit_intercept or found.mean is None)
    return replace(request, conditioning=found) if suits else request


def _start_of(model, solver, n_features, loss):
    """Return where training starts, if the solver can start there."""
    start = start_of(model, n_features, loss.n_outputs)
    if not (solver.starts and model.family.expand is None):
        raise ValueError(
            f"start: {type(model).__name__} with solver={model.solver!r} starts at 0, or nowhere. "
            "Use a linear model and solver='noisy_gd'"
        )
    return start


def checked(model: "PrivateLinearModel") -> dict[str, Any]:
    """Check the parameters that need no shape; return those that a `Request` has."""
    norm = 1.0 if is_auto(model.data_norm) else model.data_norm
    _positive("data_norm", norm, "a public bound on the norm of a row")
    meanings = {
        "alpha": (
            lambda of, x, means: 0.0 if as_float(x) == 0 else _positive(of, x, means, ">= 0"),
            "'auto' or the strength of the penalty",
        ),
        "clip": (_positive, "'auto' or a bound on the norm of a record's gradient"),
        "intercept_scaling": (_positive, "'auto' or the intercept column's constant"),
    }
    checked_flag(model.fit_intercept, "fit_intercept")
    checked_flag(model.diagnostics, "diagnostics")
    if not model.fit_intercept:
        del meanings["intercept_scaling"]
    numbers = {
        name: None if is_auto(getattr(model, name)) else check(name, getattr(model, name), meaning)
        for name, (check, meaning) in meanings.items()
    }
    checked_choice(model.adjacency, "adjacency", list(Adjacency))
    solver_of(model)
    if not is_named(model.bound, "tightest", *ACCOUNTANTS):
        raise ValueError(
            f"bound={model.bound!r} must be 'tightest' or one of {sorted(ACCOUNTANTS)}"
        )
    check_n_jobs(model.n_jobs)
    check_verbose(model.verbose)
    return (
        {"intercept_scaling": None}
        | numbers
        | {
            "data_norm": float(norm),
            "fit_intercept": bool(model.fit_intercept),
            "diagnostics": bool(model.diagnostics),
        }
    )


def solver_of(model: "PrivateLinearModel") -> Solver:
    """Return the solver that an estimator names, or an error that says what can be named."""
    solver = model.solver
    if is_auto(solver):
        return NoisyGD()
    if isinstance(solver, str) and solver in SOLVERS:
        return SOLVERS[solver]()
    if not isinstance(solver, Solver):
        raise ValueError(
            f"solver={solver!r} must be 'auto', one of {sorted(SOLVERS)} or an instance of "
            "a class of skdpdyn.solvers"
        )
    return solver


def check_persons(model: "PrivateLinearModel", most_rows: int | None = None) -> None:
    """Refuse groups if the solver has no proof for persons."""
    solver = solver_of(model)
    if not solver.takes_persons:
        raise ValueError(
            f"groups: solver={model.solver!r} has no proof for persons with several rows. "
            "Use solver='noisy_gd', 'noisy_sgd' but in the order of the rows, or 'dp_sgd'"
        )
    if solver.pays_for_rows and most_rows is None and is_auto(model.max_rows_per_person):
        raise ValueError(
            f"groups: solver={model.solver!r} costs more the more rows a person may have. "
            "Give max_rows_per_person, a public number"
        )


def most_rows_of(model: "PrivateLinearModel", n_samples: int, given: int | None = None) -> int:
    """Return the public bound on the rows of a record, which sums leave room for.

    ``given`` is what a fit was given in place of the parameter.
    """
    limit = model.max_rows_per_person if given is None else given
    pays = is_auto(limit) and solver_of(model).pays_for_rows
    return 1 if pays else checked_most_rows(limit, n_samples)


def _buys_weights(class_weight):
    """Return whether weights of classes are bought, or raise for what none stands for."""
    if class_weight is None or (isinstance(class_weight, dict) and class_weight):
        return False
    if is_named(class_weight, "balanced"):
        raise ValueError(
            "class_weight='balanced' weighs by the number of records of each class, and these are "
            "private. Pass {label: weight} of public numbers, or 'private', which buys noisy "
            "counts with a part of the budget"
        )
    if not is_named(class_weight, "private"):
        raise ValueError(
            f"class_weight={class_weight!r} must be None, a dict of labels and weights that is "
            "not empty, or 'private'"
        )
    return True


def _positive(name, value, meaning, least="> 0"):
    number = as_float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name}={value!r} must be a finite number {least}: {meaning}")
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(
            f"{name}={value!r} is not between {_SMALLEST:g} and {_LARGEST:g}: rescale the data"
        )
    return number
