"""Values of a fit: a family of models, its request, its plan, its results. None knows an estimator.

They go down: `skdpdyn.training.plan` makes a `Request` of an estimator's parameters and public
facts, and a `Plan` of a request; each part of a plan adds to `Learning`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from skdpdyn.core import rules
from skdpdyn.core.expansion import Expansion
from skdpdyn.core.losses import Loss
from skdpdyn.core.objective import Objective
from skdpdyn.core.spending import ROUNDS_DOWN, Share, Spending, Spent, total_of
from skdpdyn.data.base import Rows
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import Budget
from skdpdyn.privacy._types import Mechanism
from skdpdyn.solvers import Solver
from skdpdyn.solvers.noisy_gd import Learnt
from skdpdyn.training.cells import TargetCells
from skdpdyn.training.conditioning import FittedConditioning, pays_for_matrix
from skdpdyn.training.start import Start
from skdpdyn.training.targets import Target, Targets

BASE_RATE_DROWNS = "the base rate drowns"
"""Why a fit hands over to a recipe without slopes."""

FIRST_FACTS = Learnt(top=1.0, enough=rules.ENOUGH_STEPS)


class Part(ABC):
    """Something that is bought of the records beside training.

    To add one, write both methods, and name the part in a recipe of `skdpdyn.training.recipe`,
    or as ``units`` of a `Family`. ``request`` is a `Request` and ``learning`` a `Learning`.
    """

    @abstractmethod
    def share(self, request: Any) -> dict[str, Share]:
        """Return its shares by name, from public facts alone; none if it is not wanted."""

    @abstractmethod
    def learn(self, learning: Any, spending: Spending) -> None:
        """Buy it, if ``spending`` has its share, and note the result."""


class TargetUnits(Part):
    """A number of the targets that a family buys: a base rate to start from, or units.

    Attributes
    ----------
    has_probabilities : bool
        Whether raw predictions are log odds.
    quantiles : tuple of float
        For each output the part of the targets that is to lie below it; (): outputs are others.
    """

    has_probabilities = False
    quantiles: tuple[float, ...] = ()

    def loss(self, request: Any) -> Loss:
        """Return the loss of targets in these units, which may be far from 0."""
        return replace(request.loss, at_zero=math.inf)

    def calibration_share(self, request: Any) -> float:
        """Return the share of mu^2 of the mean residual after training; 0: it is not bought."""
        return rules.calibration_share(request.strength)

    def moved(self, learning: Any, spending: Spending, residual: np.ndarray) -> np.ndarray:
        """Return the shift of raw predictions that makes this mean residual 0."""
        return -residual

    def attributes(self, learning: Any) -> dict[str, float]:
        """Return fitted attributes that describe predictions, in units of targets."""
        return {}


@dataclass(frozen=True)
class Family:
    """The loss, targets and defaults of an estimator.

    An estimator names one as its class attribute ``family``. All else that a fit does is the same
    for all estimators.

    Parameters
    ----------
    loss : Loss or callable
        The loss; or a function that returns it, of what is public of targets: of ``classes``, or of
        ``target_bounds``. They are None where they were not passed: raise an error then, if the
        cost depends on them.
    targets : Targets
        How targets are read: `Labels` or `Numbers` of `skdpdyn.linear_model`.
    clip : callable
        ``clip(n_parameters, strength) -> float``: the bound on the norm of a residual that
        clip="auto" stands for. ``n_parameters`` includes intercepts; ``strength`` is n mu / f, see
        `skdpdyn.core.rules`. A smaller clip means less noise and another loss.
    conditioned_clip : callable or None, default=None
        The same on conditioned rows; None: ``clip``.
    kept_length : callable or None, default=None
        ``kept_length(strength, n_features) -> float``: the part of conditioned rows that are not
        shortened. None: what served losses with, or without, a bound on their slope.
    units : TargetUnits or None, default=None
        What is bought of targets before training on conditioned rows; None: nothing.
    expand : callable or None, default=None
        ``expand(model, columns, n_features, strength) -> Expansion``: the public features that
        columns become, for additive models; None: rows are trained on as they are.
    twin : callable or None, default=None
        ``twin()`` returns the unfitted model of scikit-learn that predicts alike, for
        ``to_sklearn``; None: there is none.

    Examples
    --------
    >>> from skdpdyn.linear_model import Family, Labels
    >>> from skdpdyn.core.losses import hinge
    >>> family = Family(hinge, Labels(most=2), clip=lambda n_parameters, strength: 1.0)
    >>> family.loss_of(None).lipschitz
    1.0
    """

    loss: Loss | Callable[[Any], Loss]
    targets: Targets
    clip: Callable[[int, float], float]
    conditioned_clip: Callable[[int, float], float] | None = None
    kept_length: Callable[[float, int], float] | None = None
    units: TargetUnits | None = None
    expand: Callable[..., Any] | None = None
    twin: Callable[[], Any] | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts bought of targets, in this order."""
        return () if self.units is None else (self.units,)

    def loss_of(self, public: Any) -> Loss:
        """Return the loss, given the public facts of targets."""
        return self.loss if isinstance(self.loss, Loss) else self.loss(public)


class Recipe(ABC):
    """A way to learn: the parts it buys, the objective, and the steps or sums that run.

    One is chosen for a request, from public numbers alone, and all that follows asks it. A fit may
    hand over once to another one, for a reason that is declared before any record is seen: see
    `Learning.hand_over`. Until then both take the same shares of the budget.

    Attributes
    ----------
    maps : bool
        Whether rows go through a map that is bought, or given.
    adapts : bool
        Whether steps follow from what is bought of the rows.
    composes : bool
        Whether the cost is that of composition, whatever runs, and known before it.
    after : tuple of Part
        What is bought after training, in this order.
    solver : Solver or None
        What runs in place of the solver of the request; None: that one.
    hands_over : mapping of str to Recipe
        Recipes that may take its place, by the reason.
    """

    maps = adapts = composes = False
    after: tuple[Part, ...] = ()
    solver: Solver | None = None
    hands_over: Mapping[str, "Recipe"] = MappingProxyType({})

    @abstractmethod
    def parts(self, request: "Request") -> tuple[Part, ...]:
        """Return the parts that are bought before training, in this order."""

    def times_facts(self, request: "Request") -> float:
        """Return how many times their shares the facts take that are bought first."""
        return 1.0

    @abstractmethod
    def divided(
        self, request: "Request", shares: dict[str, Share]
    ) -> tuple[dict[str, Share], float]:
        """Return the shares of all parts, and the rest of mu^2, for training.

        Raises
        ------
        ValueError
            If nothing is left for training.
        """

    @abstractmethod
    def loss(self, request: "Request") -> Loss:
        """Return the loss of targets as training has them."""

    @abstractmethod
    def clip(self, request: "Request", n_parameters: int, strength: float) -> float:
        """Return the bound on residuals that clip="auto" stands for."""

    @abstractmethod
    def alpha(self, request: "Request", objective: Objective, training: Budget) -> float:
        """Return the penalty that alpha="auto" stands for."""

    @abstractmethod
    def record(self, learning: "Learning", spending: Spending) -> Mechanism | None:
        """Return the record of the steps that run after the released map; None: none run."""

    @abstractmethod
    def settle(self, learning: "Learning") -> None:
        """Set the result where no steps ran, and say so."""

    @abstractmethod
    def attributes(
        self, request: "Request", record: Mechanism | None, spending: Spending
    ) -> dict[str, Any]:
        """Return the fitted attributes that say how training ran."""

    @abstractmethod
    def announced(self, planned: "Plan") -> str:
        """Describe the planned run."""


@dataclass(frozen=True)
class Form:
    """Public facts of data by their form alone, beside their shape: no value of a record.

    Attributes
    ----------
    is_sparse : bool
        Whether rows are CSR arrays.
    has_exposure : bool
        Whether counts have exposures.
    in_order : bool
        Whether rows are read in their order.
    columns : tuple or None
        Columns of an additive model, of which some are open. None: those of the parameters.
    of_y : str
        Kind of the targets, as numpy names it. "": nothing was read.
    equal_rows : bool
        Whether all rows of persons weigh the same, not 1/k.
    kinds : tuple of str or None
        What columns hold, see `skdpdyn.core.columns`; None: numbers, or what ``columns`` say.
    room : float
        How many times as wide as what is seen ranges are that are bought.
    """

    is_sparse: bool = False
    has_exposure: bool = False
    in_order: bool = False
    columns: Any = None
    of_y: str = ""
    equal_rows: bool = False
    kinds: tuple[str, ...] | None = None
    room: float = 1.0


@dataclass(frozen=True, eq=False)
class Facts:
    """Public facts of a table's values: given, lent, bought, or taken from y by name.

    Until a fact is bought, something stands for it, see `skdpdyn.training.purchase.Purchase`.

    Attributes
    ----------
    target : ndarray or tuple (low, high)
        The classes, or the bounds of numbers.
    columns : tuple or None
        Columns of an additive model.
    ranges : Ranges or None
        Ranges of the columns of other models; None: rows are taken as they are.
    bought : mapping of str to dict of str to Share
        By fact, the shares that buy it, or have bought it.
    counts : tuple (ndarray, float) or None
        Noisy counts of the classes, where these were bought, and the deviation of their noise.
    total : float or None
        Their sum, where other labels stand out.
    leaks : tuple of str
        What was taken from y.
    reserves : bool
        Whether delta has a part for levels that may be bought.
    kinds : tuple of str or None
        See `Form`.
    """

    target: Any
    columns: Any = None
    ranges: Ranges | None = None
    bought: Mapping[str, Mapping[str, Share]] = field(default_factory=dict)
    counts: tuple[np.ndarray, float] | None = None
    total: float | None = None
    leaks: tuple[str, ...] = ()
    reserves: bool = False
    kinds: tuple[str, ...] | None = None

    @property
    def spent(self) -> dict[str, Share]:
        """The shares by name."""
        return {name: share for shares in self.bought.values() for name, share in shares.items()}

    @property
    def parts_of_mu(self) -> dict[str, float]:
        """The part of mu^2 that each fact takes."""
        return {fact: total_of(shares.values()) for fact, shares in self.bought.items()}


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
    recipe: Recipe
    data_norm: float
    alpha: float | None
    clip: float | None
    fit_intercept: bool
    intercept_scaling: float | None
    conditioning: Any
    buys_weights: bool
    most_rows: int
    is_sparse: bool = False
    has_exposure: bool = False
    expansion: Expansion | None = None
    candidates: Any = None  # pairs of columns that a look chooses from
    # the expansion as a function of a strength, where it follows from the base rate
    tables: Any = field(default=None, compare=False)
    start: Start | None = None
    ranges: Ranges | None = None  # of the columns
    room: float = 1.0  # the longest row over ``data_norm``, where a typical length is looked for
    of_rows: bool = False  # whether predictions are those of a mean row, not of a mean person
    least_weight: float = 1.0  # public, of weights divided by their largest
    picks: bool = False  # whether the solver is not asked for by name
    facts: Facts = field(default_factory=lambda: Facts(None), compare=False)  # it rests on

    @property
    def radius(self) -> float:
        """Public bound on the norm of a row before the map."""
        norm = self.data_norm if self.expansion is None else self.expansion.row_norm
        return norm * self.room

    @cached_property
    def mu(self) -> float:
        """The budget of all that is bought, as mu of Gaussian differential privacy."""
        return self.budget.mu * ROUNDS_DOWN

    @cached_property
    def strength(self) -> float:
        """N mu / f, see `skdpdyn.core.rules.strength_of`."""
        return rules.strength_of(self.n_samples, self.mu, self.budget.adjacency)

    @property
    def public_map(self) -> RowMap | None:
        """A map of rows that is public already."""
        given = self.conditioning
        return given.row_map if isinstance(given, FittedConditioning) else None

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
            return self.expansion.is_mixed
        return self.may_have_matrix and pays_for_matrix(*shape, self.mu, self.budget.adjacency)

    @property
    def scaling(self) -> float:
        """Constant of the intercept column; in units of ``data_norm`` for mapped rows."""
        if not self.fit_intercept:
            return 0.0
        maps = self.recipe.maps
        if self.intercept_scaling is None:
            return rules.intercept_scaling(maps) * (1.0 if maps else self.data_norm)
        return self.intercept_scaling / (self.data_norm if maps else 1.0)

    @property
    def spent_by(self) -> str:
        """Name of the spender of the budget in errors."""
        return f"solver={self.solver!r} under bound={self.bound!r} and delta={self.budget.delta:g}"

    @property
    def is_gaussian(self) -> bool:
        """Whether the budget has a part for Gaussian noise."""
        return self.budget.delta > 0 and not self.solver.pure

    def check_buys(self, parameter: str, instead: str) -> None:
        """Refuse to buy anything where noise is not Gaussian."""
        if not self.is_gaussian:
            raise ValueError(
                f"{parameter}: {self.spent_by} leaves no part of the budget for Gaussian noise "
                f"on counts. {instead}"
            )


@dataclass(frozen=True)
class Plan(Spent):
    """The parts that a fit will buy, the record that will run, and its cost.

    Attributes
    ----------
    request : Request
        What was asked for.
    objective : Objective
        The problem to train on.
    shares : dict of str to Share
        What is bought before training.
    parts : tuple of Part
        What is bought before training, in this order.
    n_before_training : int
        Number of releases before training that they pay for.
    training : Budget
        What is left for training; the whole budget where nothing is trained.
    record : record or None
        Record of training; None if its steps follow from what is learnt.
    """

    request: Request
    objective: Objective
    shares: dict[str, Share]
    parts: tuple[Part, ...]
    n_before_training: int
    training: Budget
    record: Mechanism | None


@dataclass
class Learning:
    """The results of a fit so far."""

    plan: Plan
    rows: Rows
    target: Target
    recipe: Recipe
    labels: Rows | None = None  # rows whose targets are cells of labels, until these are counted
    units: tuple[float, float] = (0.0, 1.0)  # shift and factor of the units that training has
    class_weights: np.ndarray | None = None
    class_counts: tuple[np.ndarray, float] | None = None  # and the deviation of their noise
    shortened: float | None = None  # part of the rows that the map shortens, by rule
    class_shares: np.ndarray | None = None
    start: np.ndarray | None = None  # parameters that training starts from; None: 0
    relative: float = 1.0  # residuals' unit over the base rate of counts
    facts: Learnt = FIRST_FACTS  # what steps follow from
    cells: TargetCells | None = None  # of a model of means
    spread: float = 1.0  # deviation of targets, in units in which their bounds are [-1, 1]
    pairs: tuple[tuple[int, int], ...] | None = None  # that a look has kept; None: none was taken
    mean_std: float | None = None  # of the mean of predictions about that of targets, in these
    record: Mechanism | None = None  # of the steps that ran
    theta: np.ndarray = field(default_factory=lambda: np.zeros(0))  # what training learnt

    def __post_init__(self) -> None:
        self.training = self.plan.training

    def change_shares(self, spending: Spending, sizes: Mapping[str, float]) -> None:
        """Change shares of parts that are not bought yet; training takes the rest.

        That follows from released numbers. Gaussian releases compose though each follows from those
        before it, as long as all mu^2 add up to no more: what training takes is fixed before it.

        Raises
        ------
        CalibrationError
            If nothing is left for training.
        """
        kept = {name: share for name, share in spending.shares.items() if name not in sizes}
        spending.shares = kept | {name: Share(size) for name, size in sizes.items() if size}
        left = 1 - total_of(spending.shares.values())
        if not left > 0:
            raise CalibrationError("parts after training leave nothing for it: please report this")
        self.training = self.plan.budget.part(left * ROUNDS_DOWN**2)

    def weigh_classes(self) -> None:
        """Give rows the weights of their classes, if there are any."""
        if self.class_weights is not None:
            self.rows = self.rows.weighted_by_class(self.class_weights)

    def train(self, record: Mechanism, spending: Spending, verbose: Any = 0) -> None:
        """Run the steps of a record."""
        options: dict[str, Any] = {} if self.start is None else {"start": self.start}
        self.theta = self.plan.request.solver.solve(
            self.plan.objective,
            record,
            self.rows,
            generator=spending.generator,
            verbose=verbose,
            **options,
        )

    def hand_over(self, reason: str) -> None:
        """Go on by another recipe, which that of the plan has declared for this reason.

        Raises
        ------
        CalibrationError
            If it has not, or has handed over before.
        """
        if self.recipe is not self.plan.request.recipe or reason not in self.recipe.hands_over:
            raise CalibrationError(f"no recipe is declared where {reason}: please report this")
        self.recipe = self.recipe.hands_over[reason]
