"""A regression table in one call: a model and its standard errors for one budget."""

import math
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import helmert
from sklearn.base import clone

from skdpdyn.core import rules
from skdpdyn.core.columns import NUMBER, said_types
from skdpdyn.core.expansion import NumberColumn, bounds_by_column
from skdpdyn.core.losses import IDENTITY
from skdpdyn.core.noise import check_random_state
from skdpdyn.core.rules import strength_of
from skdpdyn.core.schema import (
    Schema,
    apply_schema,
    check_relations,
    facts_of,
    is_shared,
    said_of,
    types_of,
)
from skdpdyn.core.spending import Share, Spending, buying, total_of
from skdpdyn.data.base import Rows
from skdpdyn.data.files import UnchangedFiles
from skdpdyn.data.local import LocalRows
from skdpdyn.data.persons import unit_of
from skdpdyn.data.row_map import RowMap
from skdpdyn.evaluation.estimates import checked_confidence
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.inference.directions import (
    Estimates,
    estimates,
    learn_coordinates,
    row_by_row,
    shares_of_coordinates,
    with_total,
)
from skdpdyn.inference.histories import MOST_ROWS
from skdpdyn.inference.levels import (
    COUNTS_OF_LEVELS,
    LEVELS_SHARE,
    ChosenLevels,
    TableCells,
    column_of,
    seen_of,
)
from skdpdyn.inference.scoring import (
    LEAST_COUNT,
    START,
    ClassLikelihood,
    CountLikelihood,
    Likelihood,
    NumberLikelihood,
    Scored,
    Scoring,
    shares_of_scoring,
)
from skdpdyn.inference.splines import Knots, Spline, checked_splines, spread
from skdpdyn.inference.table import PrivateSummary, names_of
from skdpdyn.linear_model import (
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.privacy import Budget
from skdpdyn.privacy.checks import checked_flag, quoted
from skdpdyn.training.additive import Table, is_open, of_memory
from skdpdyn.training.base import quoting_no_records, silent_arithmetic
from skdpdyn.training.parameters import check_equal_rows, weights_in_fit
from skdpdyn.training.parts import LEVELS, counted_classes
from skdpdyn.training.purchase import Purchase, schema_of
from skdpdyn.training.reading import Beside, Reading, read
from skdpdyn.training.silent import columns_without_levels, warn_of_silent
from skdpdyn.training.sources import sources_of
from skdpdyn.training.targets import Target, residual_limit, scaling
from skdpdyn.training.values import Facts

_MATRICES = 50  # of all columns that a table holds at once, measured
_FREE_NUMBERS = 2**27  # that they may have whatever X is: a gigabyte
TITLES: dict[type, str] = {
    PrivateLogisticRegression: "Private logistic regression",
    PrivateSoftmaxRegression: "Private multinomial regression",
    PrivatePoissonRegressor: "Private Poisson regression",
    PrivateRidge: "Private linear regression",
}
"""Models that have a table, and its title."""


def private_regression(
    model: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float | str = "auto",
    adjacency: str = "replace_one",
    bounds: Any = None,
    one_hot: Any = (),
    categories: Any = None,
    missing: Any = (),
    interactions: Any = (),
    splines: Any = None,
    target_bounds: tuple[float, float] | None = None,
    classes: Any = None,
    schema: Any = None,
    groups: Any = None,
    unit: str | None = None,
    exposure: Any = None,
    equal_rows: bool = False,
    at_risk: Any = None,
    sample_weight: Any = None,
    robust: bool = False,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> tuple[Any, PrivateSummary]:
    """Fit a regression and estimate its standard errors under one (epsilon, delta) budget.

    A part of the budget buys a linear transformation (preprocessing) that gives rows a similar
    scale in all directions. Then five steps of Fisher scoring each release a gradient and a matrix
    of second derivatives of the log likelihood, with Gaussian noise. (Linear regression takes four
    steps and releases the matrix once.) The estimate is the precision-weighted mean of the
    estimates of the last steps. Its covariance is computed from the releases, as
    H^-1 (V + s^2 I + N) H^-1. H is the last matrix. V is H, or in linear regression H times the
    mean squared residual. s is the standard deviation of the noise on gradients, and N the
    covariance that the noise on H adds. Coefficients are biased neither by a penalty nor by early
    stopping.

    Columns are scaled by their public bounds, so their units do not matter. Rows far from the
    centre have a smaller weight, which depends on the row alone. The table states the share of the
    total weight that is lost in this way.

    Parameters
    ----------
    model : PrivateLogisticRegression, PrivateSoftmaxRegression, PrivatePoissonRegressor or \
PrivateRidge
        The type of regression. Its parameters ``fit_intercept``, ``max_rows_per_person``,
        ``weight_bounds`` and ``schema`` are used, and ``classes`` and ``target_bounds`` if they are
        not passed to this function. ``class_weight`` must be None. The model is not modified.
    X : array-like of shape (n_samples, n_features)
        Rows. The column names of a frame become the names of the coefficients.
    y : array-like of shape (n_samples,)
        Targets.
    epsilon : float
        Budget of model and table together, > 0.
    delta : float or "auto", default="auto"
        Additive term of the (epsilon, delta) guarantee, in (0, 1). "auto": 1/n^2.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation, see `skdpdyn.privacy.Adjacency`.
    bounds : tuple (low, high), array-like of shape (n_features, 2) or dict, default=None
        Public bounds of the columns; values are clipped to them. None: the bounds of the schema.
        Missing bounds are bought, for up to 14 % of mu^2; those of ``one_hot`` columns are (0, 1).
    one_hot : sequence of sequences of int or str, default=()
        Groups of dummy columns, by number or name. In each row, at most one column of a group
        should be nonzero; rows with more are scaled down. A group has the norm of one column, so
        less noise is needed.
    categories : dict, "auto" or None, default=None
        Categorical columns of a frame X, with the public levels of each. "auto" instead of the
        levels of a column: levels with enough records are bought, for 5 to 20 % of mu^2 and a tenth
        of delta. "auto" instead of the dict: the same for all text columns. Text columns that a
        dict does not contain are bought, too. Another 3 % of mu^2 buys counts of the levels. The
        most frequent level is the reference. Levels that are rare, or that noise hides, are pooled
        as "all other levels", or merged into the reference if noise hides their sum, too. Pooled
        levels are merged into it as well if they leave other coefficients without an estimate. The
        table names the references with the merged levels. Unlisted values ("other") and missing
        ones are levels, too. With ``categories``, ``bounds`` are those of the other columns, and
        the returned model takes the columns of the table (dummy variables) instead of those of X:
        ``table.columns`` makes them.
    missing : str or sequence, default=()
        Numeric columns of a frame X with missing values. Each gets a dummy variable "missing",
        whose coefficient is estimated unless missing values are too rare. The missing values are
        replaced by the midpoint of the bounds. If the bounds are bought and one of them is 0, they
        are replaced by a sixteenth of the other bound, which is closer to most values.
    interactions : sequence of pairs, default=()
        Pairs of columns, by number or name, whose products are added as columns. For a categorical
        column, there is a product for each dummy variable. The returned model takes these columns.
    splines : dict, default=None
        Numeric columns, by number or name, that are expanded into natural cubic splines, which are
        linear beyond the outer knots. The value is the number of spline columns, 2 or more, with
        knots at equal distances within the bounds, or if these are bought, within the range that
        was seen; or it is a list of 3 or more public knots.
        ``table.curve`` returns the curve of such a column with its band. The returned model takes
        the spline columns.
    target_bounds : tuple (low, high), default=None
        Public bounds of the targets of a linear or Poisson regression. None: those of the model,
        or bought if it has none.
    classes : array-like of shape (n_classes,), default=None
        The possible labels. None: those of the model. If it has none, integer labels are bought,
        and the labels of booleans cost nothing, see `skdpdyn.PrivateLogisticRegression`. With more
        than two classes, coefficients are log odds against the first class.
    schema : Schema or None, default=None
        Public facts of the table, which replace those of these parameters that are None. None: the
        schema of the model.
    groups : array-like of shape (n_samples,), default=None
        Id of the person that each row belongs to. The guarantee is then for a person with all of
        their k rows, each of which has the weight 1/k. Standard errors account for the correlation
        of a person's rows. With ``robust`` they are clustered by person, otherwise they are
        conservative.
    unit : str or None, default=None
        Name of the unit that the ids in ``groups`` stand for, such as "household". None: "person",
        or "record" without ``groups``.
    exposure : array-like of shape (n_samples,), default=None
        Exposure of each count.
    equal_rows : bool, default=False
        Whether all rows have the same weight instead of 1/k, and the errors of a person's rows are
        taken to be uncorrelated, as in a model of hazards. The model's ``max_rows_per_person`` must
        then be a number: the largest number of rows of a person that are used. The weight of a row
        is 1/max_rows_per_person. With two classes and at most 200 rows per person it is 1: a
        person's rows must then be in the order of time, and a row is used only if the person's sums
        of gradients and curvatures stay bounded, whatever its target.
    at_risk : array-like of shape (n_samples,), default=None
        Boolean mask of the rows that are used. Persons without such a row are also included in the
        public number of persons. See `person_periods`. None: all rows are used.
    sample_weight : array-like of shape (n_samples,), default=None
        Survey weight of each row, such as the inverse of its sampling probability, within the
        model's public ``weight_bounds``. A weight must be computed from its own record alone. The
        table then describes the weighted population and is always ``robust``: V contains squared
        weights, as for a survey design. The sum of the weights is bought.
    robust : bool, default=False
        Whether V is a noisy covariance of the scores (the "sandwich" of Huber and White). It is
        then valid even if the likelihood is wrong. It takes 15 parts of mu^2, and everything else
        about 100.
    confidence : float, default=0.95
        Coverage probability of the intervals, in (0, 1).
    random_state : None or int, default=None
        None: fresh entropy and a cryptographic generator. An int repeats the noise, so the
        release is not private: for tests only.

    Returns
    -------
    model : object
        A fitted copy of the model, with ``privacy_`` and ``privacy_report()``.
    table : PrivateSummary
        Its coefficients, standard errors and intervals; ``print(table.summary())``.

    Raises
    ------
    ValueError, TypeError
        If a parameter, X or y is invalid.
    UnsupportedMechanismError
        If there is no table for such a model.
    CalibrationError
        If no amount of noise is known to meet the budget.

    Warns
    -----
    PrivacyWeakWarning
        If ``epsilon`` is above 20, or ``delta`` above 1/n.
    PrivacyLeakWarning
        If labels or target bounds are taken from y, which happens for text labels and if there are
        few records, or if ``random_state`` is an int.

    Notes
    -----
    In linear and Poisson regression, residuals are clipped at twice their 95 % quantile, which is
    bought at each step. For normal errors, this limit is 3.9 standard deviations. At two of the
    steps, the residuals beyond the limit are counted in cells whose ends grow by a factor of
    sqrt(2). The limit is then raised until the counted residuals beyond it change the gradient by
    at most a quarter of its standard deviation. Coefficients therefore describe the mean, even if
    most outcomes are zero and the quantile is that of the zeros. The table states the share of
    residuals that are clipped. If records are few and the errors have a long tail on one side,
    clipping biases the intercept.

    References
    ----------
    R. Fisher (1935), The case of zero survivors in probit assays: scoring. C. Mallows (1975), On
    some topics in robustness: the weights of rows. P. Huber (1967), The behavior of maximum
    likelihood estimates under nonstandard conditions: the robust covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.inference import private_regression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (20_000, 2))
    >>> y = rng.uniform(size=20_000) < 1 / (1 + np.exp(-X @ [0.3, -0.2]))
    >>> model, table = private_regression(
    ...     PrivateLogisticRegression(), X, y, epsilon=1.0, bounds=(0, 10), classes=[False, True]
    ... )
    >>> bool(np.all(np.abs(table.params - [0.3, -0.2, 0.0]) < 6 * table.bse))
    True
    >>> round(table.privacy_.epsilon(table.delta_), 6), model.privacy_ == table.privacy_
    (1.0, True)
    """
    check_random_state(random_state)
    checked_flag(robust, "robust")
    equal_rows = check_equal_rows(model, equal_rows, groups)
    confidence = checked_confidence(confidence)
    unit = unit_of(groups, unit)
    model = _regression(model, X, exposure)
    budget = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    model.set_params(**budget, solver="auto", conditioning=None, random_state=random_state)
    facts = {"classes": classes, "target_bounds": target_bounds, "schema": schema}
    bounds, categories = _declared(model, facts, bounds, categories)
    handed = tuple(sources_of([bounds, categories], "bounds"))
    if handed:  # no parameters of the model have them
        schema = Schema(sources=handed)
        model.schema = schema if model.schema is None else model.schema | schema
    if said := said_types(types_of(model.schema), bounds):
        model.schema = replace(model.schema or Schema(), types=said)
    check_relations(model, adjacency, unit)
    robust = robust or getattr(model, "weight_bounds", None) is not None
    weight = {} if sample_weight is None else {"sample_weight": sample_weight}
    files = UnchangedFiles(X, y, groups, exposure, at_risk, sample_weight)
    missing = [missing] if isinstance(missing, str) else missing
    cells = TableCells.of(X, categories, bounds, missing, types_of(model.schema))
    X = X if cells is None else cells.numbers
    beside = Beside(groups, unit, equal_rows, exposure, weights_in_fit(model, weight))
    with silent_arithmetic(), files, read(model, X, y, beside) as reading:
        dense = reading.X.toarray() if sparse.issparse(reading.X) else reading.X
        reading = replace(reading, X=dense, weights=_at_risk(reading, at_risk))
        one_hot = _places(model, one_hot)
        pairs = _checked_pairs(interactions, model, cells)
        curved = _checked_curves(splines, model, cells, one_hot)
        table = _table_of(model, reading, bounds, one_hot) if cells is None else cells.table
        columns = Columns(table, one_hot, cells, pairs, curved)
        fitted = _Fit.of(model, reading, columns, unit, robust)
        model._public_columns_ = (
            *said_of("bounds", bounds),
            *said_of("categories", categories),
            *["the types of columns: which hold text"] * (categories is not None),
        )
        return model, _table(fitted, confidence, *fitted.run())


def _table(fitted, confidence, estimates, notes, beside):
    """Return the table of a regression that ran."""
    model = fitted.model
    robust = ", robust" if fitted.robust else ""
    link = fitted.likelihood.link
    return PrivateSummary.of(
        estimates,
        names=fitted.names,
        confidence=confidence,
        title=f"{TITLES[type(model)]}, {model.n_samples_} {fitted.unit}s{robust}",
        estimand=fitted.estimand + notes,
        n_samples=model.n_samples_,
        privacy_=model.privacy_,
        mechanism_=model.mechanism_,
        delta_=model.delta_,
        leaks_=model.leaks_,
        sources_=model.sources_,
        inverse_link=None if link is IDENTITY else link.mean,
        ratio=fitted.likelihood.ratio,
        **beside,
    )


def _declared(model, declared, bounds, categories):
    """Set the public facts of the target, and return those of the columns; a schema has both."""
    schema = declared["schema"]
    facts = facts_of(model.schema if schema is None else schema)
    declared = {
        name: fact for name, fact in declared.items() if fact is not None and hasattr(model, name)
    }
    apply_schema(model.set_params(**declared)).set_params(bounds=None)
    bounds = facts.get("bounds") if bounds is None else bounds
    if categories is None:
        categories = facts.get("categories")
        if isinstance(categories, dict):
            categories = {key: of for key, of in categories.items() if not is_shared(of)}
    return "auto" if bounds is None else bounds, categories


def _regression(model, X, exposure):
    """Return a copy of the model, or refuse one that has no table."""
    if type(model) not in TITLES:
        kinds = ", ".join(kind.__name__ for kind in TITLES)
        raise UnsupportedMechanismError(
            f"no table is known for a {type(model).__name__}, only for {kinds}: standard errors "
            "need a likelihood. Of a pipeline pass the last step, and X as transformed by the "
            "steps before it"
        )
    if getattr(model, "loss", "squared") != "squared":
        raise UnsupportedMechanismError(
            f"loss={quoted(model.loss)}: no table is known for robust centers, only for means. Use "
            "loss='squared'"
        )
    if getattr(model, "class_weight", None) is not None:
        raise UnsupportedMechanismError(
            f"class_weight={quoted(model.class_weight)} changes the likelihood, so standard "
            "errors would be wrong. Use class_weight=None"
        )
    if getattr(model, "estimand", "persons") != "persons":
        raise UnsupportedMechanismError(
            f"estimand={quoted(model.estimand)} shifts predictions, and a table has only "
            "coefficients. Use estimand='persons', or equal_rows=True, so that rows weigh the same"
        )
    if isinstance(X, Rows) or hasattr(X, "tocsr"):
        raise TypeError(f"X is a {type(X).__name__}: a table needs dense rows in memory")
    if exposure is not None and not model.family.targets.takes_exposure:
        raise ValueError(
            f"exposure: {type(model).__name__} takes none. Use PrivatePoissonRegressor"
        )
    return clone(model)


def _places(model, one_hot):
    """Return the numbers of the columns of each group of dummies."""
    names = list(getattr(model, "feature_names_in_", range(model.n_features_in_)))
    groups = [[names.index(key) if key in names else -1 for key in group] for group in one_hot]
    every = [place for group in groups for place in group]
    if -1 in every or len(set(every)) < len(every):
        raise ValueError(
            f"one_hot={quoted(one_hot)} must hold groups of columns of X, each column once at most"
        )
    return groups


def _table_of(model, reading, bounds, one_hot):
    """Return the columns of an array, with their bounds; those of dummies are 0 and 1."""
    names = getattr(model, "feature_names_in_", None)
    X = reading.X
    pairs = bounds_by_column(bounds, "bounds", X.shape[1], names, partly=True)
    for group in one_hot:
        pairs[group] = np.where(np.isnan(pairs[group]), [0.0, 1.0], pairs[group])
    kinds = [NUMBER] * X.shape[1] if reading.kinds is None else reading.kinds
    portions = partial(of_memory, len(X), lambda part, j: X[part, j])
    return Table(tuple(map(column_of, pairs, kinds)), len(X), portions)


@dataclass(frozen=True, eq=False)
class Units:
    """Units in which columns count, ``x @ slopes + shifts``, in rows of up to ``radius``.

    A column within its bounds becomes a number in [-1, 1]. Of a group of dummies each level becomes
    a corner of a regular simplex, that of no dummy too: so no level is alone, as a reference is.
    Behind them are ``products`` of pairs of columns, of numbers in [-1, 1] and dummies as they are.
    """

    bounds: np.ndarray
    slopes: np.ndarray
    shifts: np.ndarray
    radius: float
    one_hot: list[list[int]]
    products: list[tuple[int, int]]

    @classmethod
    def of(
        cls,
        bounds: np.ndarray,
        one_hot: list[list[int]],
        intercept: bool,
        products: Sequence[list[tuple[int, int]]] = (),
        silent: Sequence[int] = (),
    ) -> "Units":
        """Return units of columns within bounds; without an intercept nothing takes a shift up.

        Columns that are 0 in every row, ``silent``, stay so, and make no row longer.
        """
        if not intercept:
            bounds = np.abs(bounds).max(axis=1)[:, None] * [-1.0, 1.0]
        pairs = [pair for pairs_of_product in products for pair in pairs_of_product]
        size = len(bounds)
        spoken = [group for group in one_hot if not {*group} & {*silent}]
        n_long = size - len(silent) - sum(max(len(group) - 1, 0) for group in spoken)
        ends = [np.outer(bounds[i], bounds[j]) for i, j in pairs]
        bounds = np.vstack([bounds, *([corners.min(), corners.max()] for corners in ends)])
        slopes = np.diag(2 / np.diff(bounds)[:, 0])
        shifts = -bounds.sum(axis=1)
        shifts = shifts / np.diff(bounds)[:, 0]
        shifts[[*silent]] = 0.0
        alone = np.diag(slopes).copy(), shifts.copy()
        for group in spoken if intercept else []:
            alone[0][group] = 1.0
            alone[1][group] = 0.0
            *corners, reference = helmert(len(group) + 1).T
            low, high = bounds[group].T
            slopes[np.ix_(group, group)] = (corners - reference) / (high - low)[:, None]
            shifts[group] = reference - low @ slopes[np.ix_(group, group)]
        for k, (i, j) in enumerate(pairs, size):
            (a, b), (of_a, of_b) = (part[[i, j]] for part in alone)
            slopes[[k, i, j], k] = (a * b, a * of_b, of_a * b)
            shifts[k] = of_a * of_b
        radius = math.sqrt(max(n_long + sum(map(bool, products)), 1))
        return cls(bounds, slopes, shifts, radius, one_hot, pairs)

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Return rows in these units, each by itself: BLAS may round a row by its place."""
        size = X.shape[1]
        X = np.clip(X, *self.bounds[:size].T).astype(np.float64)
        scaled = X * np.diag(self.slopes)[:size]
        for group in self.one_hot:
            scaled[:, group] = row_by_row(X[:, group], self.slopes[np.ix_(group, group)].T)
        of_pairs = [
            self.slopes[k, k] * X[:, i] * X[:, j]
            + (self.slopes[i, k] * X[:, i] + self.slopes[j, k] * X[:, j])
            for k, (i, j) in enumerate(self.products, size)
        ]
        return np.column_stack([scaled, *of_pairs]) + self.shifts


def _checked_pairs(interactions, model, cells):
    """Return pairs of columns to multiply, or an error before anything is bought."""
    columns = [*getattr(model, "feature_names_in_", range(model.n_features_in_))]
    columns = columns if cells is None else [*cells.names, *cells.keys]
    pairs = [tuple(pair) for pair in interactions]
    if not all(len(set(pair) & set(columns)) == len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"interactions={quoted(interactions)} must be pairs of different columns of X, by "
            "number or name"
        )
    return pairs


def _checked_curves(splines, model, cells, one_hot):
    """Return the wishes for columns that become splines, none of which is a dummy."""
    numbers = [*getattr(model, "feature_names_in_", range(model.n_features_in_))]
    asked = checked_splines(splines, numbers if cells is None else cells.names)
    if dummies := {*asked} & {j for group in one_hot for j in group}:
        raise ValueError(f"splines has columns of one_hot, {sorted(dummies)}: leave them out")
    return asked


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns as they were read, groups of dummies, and cells of columns of levels, if any.

    ``knots`` are those of columns of numbers that become splines, by their place.
    """

    table: Table
    one_hot: list[list[int]]
    cells: TableCells | None
    interactions: Sequence[tuple[Hashable, Hashable]]
    knots: dict[int, Knots]

    def keys(self, model: Any) -> list[Hashable]:
        """Return names or numbers of the columns as they were read, before dummies are made."""
        if self.cells is None:
            return [*getattr(model, "feature_names_in_", range(len(self.table.columns)))]
        names = self.cells.names
        return [*names, *(key for key in self.cells.keys if str(key) not in names)]

    def most(self, budget: Budget, n_samples: int, n_columns: int) -> int:
        """Return how many columns there can be, which is public, of so many in X."""
        most = n_columns
        sizes = {}
        if self.cells is not None:
            strength = strength_of(n_samples, budget.mu, budget.adjacency)
            most = self.cells.most_columns(strength)
            sizes = dict.fromkeys(self.cells.keys, most)
            every = zip(self.cells.keys, self.cells.levels, strict=True)
            sizes |= {
                key: min(levels.n_cells, most) for key, levels in every if not is_open(levels)
            }
        for knots in self.knots.values():
            most += knots.n_columns - 1
            sizes[knots.key] = knots.n_columns
        return most + sum(
            math.prod(sizes.get(key, 1) for key in keys) for keys in self.interactions
        )

    def ready(
        self, model: Any, rows: LocalRows, reading: Reading, facts: Facts, spending: Spending
    ) -> "Ready":
        """Return rows in units of their bounds, and the levels, of which counts are bought."""
        rows = copy(rows)
        silent: list[int] = []
        pooled: list[int] = []
        levels = None
        filled = np.empty(0)
        ends = [
            (column.low, column.high)
            for column in facts.columns
            if isinstance(column, NumberColumn)
        ]
        bounds = np.reshape(ends, (-1, 2)).astype(float)
        names = list(getattr(model, "feature_names_in_", range(rows.shape[1])))
        numbers = rows.X
        if self.cells is not None:
            levels, codes = self._buy_levels(rows, reading, facts, spending)
            names = [*self.cells.names]
            missing = self._used(reading)[:, : len(bounds)]
            filled = self.cells.filled(bounds)
            numbers = np.where(missing > 0, filled, rows.X[:, : len(bounds)])
        splines = {}
        for j, knots in self.knots.items():
            low, high = bounds[j].tolist()
            splines[j] = knots.spline(low, high, seen_of((low, high), self.table.columns[j]))
        rows.X, bounds, spans = spread(numbers, bounds, splines)
        places = dict(zip(names, spans, strict=True))
        one_hot = [[j for k in group for j in spans[k]] for group in self.one_hot]
        one_hot += [spans[j] for j in splines]
        names = [name for j, key in enumerate(names) for name in _names(splines.get(j), key)]
        if self.cells is not None and levels is not None:
            dummies = levels.dummies_of(codes)
            names += levels.names
            silent = [len(bounds) + j for j in levels.silent]
            pooled = [len(bounds) + j for j in levels.pooled]
            groups = levels.one_hot(len(bounds))
            one_hot += groups
            bounds = np.vstack([bounds, np.tile([0.0, 1.0], (len(dummies), 1))])
            rows.X = np.column_stack([rows.X, *dummies])
            # a column with missing values is the number alone
            places = dict(zip(self.cells.keys, groups, strict=True)) | places
        pairs = [list(product(places[a], places[b])) for a, b in self.interactions]
        if self.cells is not None or pairs or splines:
            names = [str(name) if isinstance(name, str) else f"x{name}" for name in names]
            names += [f"{names[i]} x {names[j]}" for of_two in pairs for i, j in of_two]
            model.feature_names_in_ = np.array(names, dtype=object)
            model.n_features_in_ = len(names)
        units = Units.of(bounds, one_hot, bool(model.fit_intercept), pairs, silent)
        rows.X = units.scaled(rows.X)
        size = np.full(len(units.bounds), 1 / units.radius)
        rows.map = RowMap(None, size, norm=1.0, radius=units.radius)
        by_place = {spans[j][0]: spline for j, spline in splines.items()}
        fills = dict(zip([*getattr(self.cells, "names", ())], filled.tolist(), strict=True))
        return Ready(rows, units, levels, pooled, by_place, fills)

    def _used(self, reading):
        """Return 1 where numbers are missing, of the rows that are used of each person."""
        rows: Any = reading.rows(X=self.cells.missing * 1.0)
        return rows.X

    def _buy_levels(self, rows, reading, facts, spending):
        """Buy counts of levels."""
        of_rows: Any = reading.rows(X=self.cells.coded(facts.columns))
        columns = of_rows.X.expansion.columns
        codes = of_rows.X.codes
        counts, std = spending.release(COUNTS_OF_LEVELS, of_rows.cell_counts())
        strength = strength_of(rows.n_records, spending.mu, spending.adjacency)
        return self.cells.chosen(columns, counts, rows.n_records, strength, std), codes


def _names(spline, name):
    """Return the names of the columns that a column of numbers becomes."""
    return [name] if spline is None else spline.names


class Ready(NamedTuple):
    """Rows in units of their bounds, levels, and splines by the place of their first column.

    ``pooled`` are the places of dummies of pooled levels, ``filled`` what stands for missing
    numbers of each column, if there are levels.
    """

    rows: LocalRows
    units: Units
    levels: ChosenLevels | None
    pooled: list[int]
    splines: dict[int, Spline]
    filled: dict[str, float]

    def curves(self, centre: np.ndarray) -> dict[str, Spline]:
        """Return the splines with the means of their columns, of released ones of rows."""
        curves = {}
        for first, spline in self.splines.items():
            part = slice(first, first + spline.n_columns)
            means = centre[part] * self.units.radius - self.units.shifts[part]
            means = np.linalg.solve(self.units.slopes[part, part].T, means).clip(min=0.0)
            curves[spline.name] = replace(spline, centre=means / max(means.sum(), 1.0))
        return curves


def _refuse_too_wide(n_records, most):
    """Refuse columns whose matrices take more than a gigabyte, and than eight times X.

    Of persons as if each had one row: how many rows they have is private.
    """
    numbers = _MATRICES * most**2
    if numbers > max(_FREE_NUMBERS, 8 * n_records * most):
        raise ValueError(
            f"X makes {most} columns: the matrices of a table take {numbers * 8 / 1e9:.1f} GB, "
            f"more than eight times X, and {n_records} records tell little of so many. Leave out "
            "columns, or levels"
        )


@dataclass(frozen=True, eq=False)
class _Fit:
    """A regression whose target is known, or bought."""

    model: Any
    reading: Reading
    rows: LocalRows
    likelihood: Likelihood
    columns: Columns
    unit: str
    robust: bool
    target: Target
    facts: Facts
    spending: Spending
    purchase: Purchase

    @classmethod
    def of(cls, model, reading, columns, unit, robust):
        """Return the model to fit, and buy the open facts of its table."""
        n_samples, _ = reading.shape
        budget = Budget.for_samples(
            model.epsilon, model.delta, n_samples=n_samples, adjacency=model.adjacency
        )
        _refuse_too_wide(n_samples, columns.most(budget, *reading.shape))
        room = rules.ROOM_OF_TABLES
        form = replace(reading.form, columns=columns.table.columns, room=room)
        purchase = Purchase.of(model, *reading.shape, form, reading.y)
        shares = purchase.request.facts.spent
        if LEVELS in shares:
            budget = replace(budget, reserved=rules.FAILURE_SHARE * budget.delta)
        spending = Spending.seeded(budget, shares, model.random_state)
        facts = purchase.buy(replace(reading, X=columns.table), spending)
        target = reading.target(model, facts)
        rows: Any = reading.learnt_rows(target)
        likelihood = _likelihood(model, target, facts, rows)
        if target.codes is not None:
            rows = rows.with_classes(target.codes)
        if facts.total is not None and not reading.equal_rows and reading.weights is None:
            rows = rows.with_total(facts.total)
        return cls(
            model,
            reading,
            rows,
            likelihood,
            columns,
            unit,
            robust,
            target,
            facts,
            spending,
            purchase,
        )

    @property
    def attributes(self) -> dict[str, Any]:
        """Facts of the target, as attributes."""
        return self.target.attributes

    def run(self) -> tuple[Estimates, str, dict[str, Any]]:
        """Buy and publish everything; return estimates, their notes, and numbers beside them."""
        model = self.model
        rows = self.rows
        intercept = bool(self.model.fit_intercept)
        budget = self.spending.budget
        n_samples = rows.n_records
        equal = self.reading.equal_rows
        adds_up = not equal and self.reading.weights is None
        shares = self.facts.spent
        most = self.columns.most(budget, n_samples, rows.shape[1])
        if self.columns.cells is not None:
            shares |= {COUNTS_OF_LEVELS: Share(LEVELS_SHARE)}
        records = self.purchase.records(budget, rows.persons is not None)
        shares |= shares_of_coordinates(rows, most, budget, intercept, adds_up)
        left = 1 - total_of(shares.values())
        shares |= shares_of_scoring(self.likelihood, left, intercept, self.robust)
        in_time = (
            equal and self.likelihood == ClassLikelihood(2) and 1 < rows.most_rows <= MOST_ROWS
        )
        spread = 1 / rows.most_rows if equal else 1.0
        spending = self.spending
        with buying(spending, shares, n_samples, records) as plan:
            ready = self.columns.ready(model, rows, self.reading, self.facts, spending)
            columns = ready.units
            rows = with_total(ready.rows, spending)
            coordinates = learn_coordinates(rows, spending, intercept)
            evidence = Scoring(rows, self.likelihood, coordinates, spending, spread, in_time).run()
        model._publish_plan(plan, self.facts.leaks, self.unit)
        model.bought_ = self.facts.parts_of_mu
        model.schema_ = schema_of(
            model, self.facts, model.family.targets.parameter, self.columns.keys(model)
        )
        model.silent_columns_ = columns_without_levels(self.facts.columns, self.columns.keys(model))
        warn_of_silent(model.silent_columns_)
        model.intercept_scaling_ = float(intercept)  # names follow from it
        units, shift = self._units(columns, coordinates)
        scored, table, as_reference = self._estimates(evidence, units, shift, ready.pooled)
        self._publish(scored, columns, units, shift)
        model._sign()
        names = [names_of(model)[j] for j in as_reference]
        notes = "" if ready.levels is None else ready.levels.note(names)
        cells = {} if ready.levels is None else ready.levels.cells(names, ready.filled)
        notes += f" Smaller weights remove about {100 * scored.lost:.2g} % of the total weight."
        if scored.cut is not None:
            notes += f" About {100 * scored.cut:.2g} % of the residuals are clipped."
        beside = self._of_residuals(scored, coordinates.constant)
        return (
            table,
            notes,
            beside
            | {
                "splines": ready.curves(coordinates.centre),
                "levels": cells,
            },
        )

    def _estimates(self, evidence, units, shift, pooled):
        """Return estimates, and the columns of pooled levels that count as the reference in them.

        They do where more other coefficients are known without them, as of columns that nearly
        follow from one another: first those that are unknown themselves, then all of them.
        """
        n_outputs = self.likelihood.n_outputs
        size = len(units)
        many = np.kron(np.eye(n_outputs), units)
        shifts = np.tile(shift, n_outputs)
        scored = evidence.scored()
        alone = self._read(scored, many).shifted(shifts)
        unknown = ~np.isnan(alone.factor)
        best = scored, alone, []
        for columns in ([j for j in pooled if unknown[j::size].any()], pooled):
            rows = [k * size + j for k in range(n_outputs) for j in columns]
            others = np.delete(~np.isnan(best[1].factor), rows)
            if not others.any() or not rows:
                break
            scored = evidence.scored(many[rows])
            joined = self._read(scored, many @ scored.projection).shifted(shifts)
            joined = joined.with_unknown(rows, alone)
            if np.isnan(joined.factor).sum() > np.isnan(best[1].factor).sum():
                best = scored, joined, columns
        return best

    def _read(self, scored, units):
        return estimates(scored.theta, scored.covariance, scored.inverse, units, self.names)

    def _of_residuals(self, scored, constant):
        """Return the deviation of residuals and R^2 of numbers that all directions tell."""
        if not isinstance(self.likelihood, NumberLikelihood) or len(scored.inverse.weak):
            return {}
        _, factor = scaling(*self.attributes["target_bounds_"], bool(constant))
        within = scored.left(max(self.rows.mass, 1.0))
        numbers = {"residual_std": abs(factor) * math.sqrt(within.value)}
        if constant:
            explained, std = scored.explained(constant)
            left = max(within.value + scored.beyond.value, 0.0)
            noise = math.hypot(within.std, scored.beyond.std)
            total = explained + left
            numbers["rsquared"] = explained / total
            # a sample adds to both variances as of normal numbers
            sampled = 4 * (explained * left) ** 2 / max(self.rows.mass, 1.0)
            squares = (left * std) ** 2 + (explained * noise) ** 2 + sampled
            numbers["rsquared_std_err"] = math.sqrt(squares) / total**2
        return numbers

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, by class where there are several outputs."""
        names = names_of(self.model)
        if self.likelihood.n_outputs == 1:
            return names
        classes = self.attributes["classes_"][1:]
        return tuple(f"{label}: {name}" for label in classes for name in names)

    @property
    def estimand(self) -> str:
        """Sentence that names the estimand."""
        attributes = self.attributes
        if isinstance(self.likelihood, ClassLikelihood):
            first, second, *others = attributes["classes_"]
            target = f"log odds of {'classes' if others else f'y == {second}'} against {first}"
        elif isinstance(self.likelihood, CountLikelihood):
            exposed = self.reading.exposure is not None
            target = "rate per unit of exposure" if exposed else "expected count"
            target = f"logarithm of the {target}, of counts up to "
            target += f"{attributes['target_bounds_'][1]:g}"
        else:
            low, high = attributes["target_bounds_"]
            target = f"expectation of y within [{low:g}, {high:g}]"
        by = (
            "least squares"
            if isinstance(self.likelihood, NumberLikelihood)
            else "maximum likelihood"
        )
        return (
            f"Coefficients of the {target}, by {by} without penalty, in the population "
            "that the records were drawn from; values are clipped to their bounds, and rows far "
            "from the centre have a smaller weight."
            + " Records have the weights of sample_weight."
            * (self.model.weight_bounds is not None)
        )

    def _units(self, columns, coordinates):
        """Return the matrix and the shift that make parameters for X of those of coordinates."""
        n_features = len(columns.bounds)
        intercept = bool(self.model.fit_intercept)
        shift = 0.0
        to_x = columns.slopes / columns.radius
        if intercept:
            to_x = np.vstack([to_x, columns.shifts / columns.radius])
            to_x = np.column_stack([to_x, np.append(np.zeros(n_features), 1.0)])
        factor = 1.0
        if isinstance(self.likelihood, NumberLikelihood):
            shift, factor = scaling(*self.attributes["target_bounds_"], intercept)
        elif isinstance(self.likelihood, CountLikelihood) and intercept:
            shift = math.log(self.likelihood.unit)
        shifts = np.append(np.zeros(n_features), [shift] * intercept)
        return factor * to_x @ coordinates.of_unit(1.0).T, shifts

    def _publish(self, scored: Scored, columns: Units, units, shift):
        """Set the attributes of a fitted model; each row is in the ball around all bounds."""
        model = self.model
        likelihood = self.likelihood
        parameters = scored.theta.reshape(likelihood.n_outputs, -1) @ units.T + shift
        intercept = parameters[:, -1] if model.fit_intercept else np.zeros(likelihood.n_outputs)
        coef = parameters[:, : model.n_features_in_]
        if likelihood.n_outputs > 1 or isinstance(model, PrivateSoftmaxRegression):
            coef = np.vstack([np.zeros(coef.shape[1]), coef])  # the reference
            intercept = np.append(0.0, intercept)
        if not isinstance(likelihood, ClassLikelihood):
            coef = coef[0]
            intercept = float(intercept[0])
        if not np.all(np.isfinite(coef)):
            raise FloatingPointError("the parameters overflowed: there are too few records")
        model.coef_ = coef
        model.intercept_ = intercept
        model.n_samples_ = self.rows.n_records
        model.solver_ = "private_regression"
        largest = np.abs(columns.bounds).max(axis=1)
        model.data_norm_ = float(np.linalg.norm(largest)) * (1 + 1e-9)
        model.alpha_ = 0.0
        model.conditioning_ = None
        if isinstance(likelihood, CountLikelihood):
            model.has_exposure_ = likelihood.has_exposure
        for name, value in self.attributes.items():
            setattr(model, name, value)


def _at_risk(reading, at_risk):
    """Return weights of rows, 0 where rows are not at risk, or None."""
    if at_risk is None:
        return reading.weights
    at_risk = quoting_no_records(np.asarray, at_risk)
    if at_risk.shape != (len(reading.X),) or at_risk.dtype != bool:
        raise ValueError("at_risk must hold True or False for each row, of all rows that X has")
    return at_risk * (1.0 if reading.weights is None else reading.weights)


def _likelihood(model, target, facts, rows) -> Likelihood:
    """Return the likelihood of targets, from their public facts; ``rows`` have them as read."""
    attributes = target.attributes
    if "classes_" in attributes:
        classes = attributes["classes_"]
        if facts.counts is not None:
            return ClassLikelihood(classes.size, facts.counts)
        return ClassLikelihood(classes.size, None, partial(_counts, rows, classes))
    if not model.family.targets.takes_exposure:
        return NumberLikelihood(0.0, 4.0)
    high = attributes["target_bounds_"][1]
    unit = residual_limit(high)
    return CountLikelihood(LEAST_COUNT / unit, high / unit, unit, bool(rows.exposure.size))


def _counts(cells, classes, spending):
    """Buy the counts of classes."""
    return counted_classes(START, cells, classes, spending).noisy
