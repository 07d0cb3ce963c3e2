"""Scaling by public bounds, free of charge, and by bought ranges, at a cost."""

from contextlib import closing, nullcontext
from copy import copy
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdpdyn.core import rules
from skdpdyn.core.expansion import bounds_by_column
from skdpdyn.core.noise import check_random_state, mark_of_release
from skdpdyn.core.schema import apply_schema, released, sources_in
from skdpdyn.core.spending import Share, Spending, buying, planned
from skdpdyn.data.base import Rows, sum_rounding
from skdpdyn.data.cluster import is_collection
from skdpdyn.data.persons import checked_most_rows, persons_of, unit_of
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap, scaled_csr
from skdpdyn.data.rows import canonical_rows, in_reach, row_factors, row_norms
from skdpdyn.privacy import Adjacency, Budget
from skdpdyn.privacy.arguments import checked_pair
from skdpdyn.privacy.calibration import check_shape
from skdpdyn.privacy.checks import checked_choice
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.training.base import (
    DTYPES,
    PrivateEstimatorMixin,
    all_or_nothing,
    by_blocks,
    distinct,
    forget_fit,
    form_of,
    of_persons,
    silent_arithmetic,
    validated,
)
from skdpdyn.training.facts import ColumnRanges
from skdpdyn.training.purchase import schema_of
from skdpdyn.training.ranges import FINER_RANGES, RANGES
from skdpdyn.training.reading import Reading
from skdpdyn.training.values import Facts

__all__ = ["BoundsScaler", "PrivateScaler", "RowMapper"]


class BoundsScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scale columns from public bounds to [0, 1] (or another range), clipping values outside.

    Unlike `sklearn.preprocessing.MinMaxScaler` it learns nothing from the data: the map is fixed by
    ``bounds``, acts on each record alone, and so is free under any notion of neighbouring data
    sets. Missing values are refused, unless ``missing`` says what to do with them.

    Parameters
    ----------
    bounds : tuple (low, high), array-like of shape (n_features, 2) or dict, default=None
        Public bounds: one pair for all columns, one a column, or one for each column name. Where X
        has no names, as behind `sklearn.impute.SimpleImputer`, a dict has one pair a column, in the
        order of the columns. Do not take bounds from the data. None: those of ``schema``; without
        one it is an error in `fit`, for there are no bounds that serve all.
    feature_range : tuple (low, high), default=(0.0, 1.0)
        Range that the bounds are mapped to.
    missing : {"error", "pass", "indicator"}, default="error"
        What to do with NaN. "error": refuse it. "pass": hand it on, to a later step that fills it
        with a public value. "indicator": make it the number of ``feature_range`` that is nearest to
        0, and append a column for each column that says where it was missing, with or without any
        NaN in it: which columns have some is private.
    schema : Schema or None, default=None
        Public facts of the table, a `skdpdyn.Schema`, whose bounds are taken.

    Attributes
    ----------
    bounds_ : ndarray of shape (n_features, 2)
        Bounds of each column.
    feature_range_ : tuple (low, high)
        Range that they are mapped to.
    missing_ : str
        What is done with NaN.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, where X had string names.

    Examples
    --------
    >>> from skdpdyn.preprocessing import BoundsScaler
    >>> BoundsScaler(bounds=[(0, 10), (-1, 1)]).fit_transform([[5.0, 1.0], [20.0, 0.0]]).tolist()
    [[0.5, 1.0], [1.0, 0.5]]
    """

    def __init__(
        self,
        bounds: Any = None,
        feature_range: tuple[float, float] = (0.0, 1.0),
        missing: str = "error",
        schema: Any = None,
    ) -> None:
        self.bounds = bounds
        self.schema = schema
        self.feature_range = feature_range
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the bounds against the columns' number and names; the values of X are not used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None, default=None
            Ignored.

        Returns
        -------
        self : object
            The scaler. If an error is raised, it is left as it was before.

        Raises
        ------
        ValueError
            If the bounds are not those of the columns of X, or a pair is not two finite numbers,
            the lower first.
        """
        low, high = checked_pair(self.feature_range, "feature_range")
        checked_choice(self.missing, "missing", ["error", "pass", "indicator"])
        with all_or_nothing(self, X) as scaler:
            validated(scaler, form_of(X), dtype=DTYPES, ensure_all_finite=_finite(self.missing))
            bounds = apply_schema(copy(self)).bounds
            sources = tuple(dict.fromkeys(sources_in(bounds)))
            scaler.bounds_ = released(_bounds_of(scaler, "bounds", bounds), sources)
            scaler.feature_range_ = (low, high)
            scaler.missing_ = self.missing
        return self

    @by_blocks
    def transform(self, X: Any) -> Any:
        """Scale and clip.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            With ``missing="indicator"`` of twice as many columns: the scaled ones come first.
        """
        check_is_fitted(self, "bounds_")
        finite = _finite(self.missing_)
        X = validated(self, X, dtype=DTYPES, reset=False, ensure_all_finite=finite)
        low, high = np.asarray(self.bounds_).T  # float64: bounds that are close together stay apart
        start, stop = self.feature_range_
        scaled = (np.clip(X, low, high) - low) * ((stop - start) / (high - low)) + start
        if self.missing_ == "indicator":
            absent = np.isnan(X)
            scaled = np.hstack([np.where(absent, min(max(0.0, start), stop), scaled), absent])
        return scaled.astype(X.dtype, copy=False)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of the output.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X; None: ``feature_names_in_``, or x0, x1, ...

        Returns
        -------
        ndarray of str objects
            With ``missing="indicator"``, those of indicators end in "_missing".
        """
        names = super().get_feature_names_out(input_features)
        if self.missing_ != "indicator":
            return names
        return np.array([*names, *distinct((f"{name}_missing" for name in names), names)], object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


def _finite(missing):
    """Return the value of scikit-learn's ``ensure_all_finite``."""
    return True if missing == "error" else "allow-nan"


def _bounds_of(estimator, parameter, bounds):
    """Return the bounds that are given for the columns of an estimator."""
    names = getattr(estimator, "feature_names_in_", None)
    return bounds_by_column(bounds, parameter, estimator.n_features_in_, names)


class RowMapper(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Map each row by itself, as a fitted model does before it predicts; learn nothing.

    A row is scaled into the ball of radius ``radius``. With ``norm``, a row x that is longer than
    ``norm`` as W (x - centre) is shortened further, towards the centre, until it is not. All others
    stay as they are, so that a linear model with a fitted model's ``coef_`` and ``intercept_``
    predicts what that model does. ``to_sklearn`` of the estimators makes such a pipeline.

    Parameters
    ----------
    radius : float, default=1.0
        Norm beyond which rows are scaled down.
    norm : float, default=None
        Length after W beyond which rows are shortened. None: no row is.
    centre : array-like of shape (n_features,), default=None
        Point that rows are shortened towards. None: 0.
    weights : array-like of shape (n_features,) or (n_features, n_features), default=None
        The diagonal of W, or W. None: 1 for each column.
    unit : bool, default=False
        Whether to bring every row to the length ``norm`` after W, the shorter ones too.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, where X had string names.

    Examples
    --------
    >>> from skdpdyn.preprocessing import RowMapper
    >>> RowMapper(radius=1.0).fit_transform([[3.0, 4.0], [0.3, 0.4]]).round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """

    def __init__(
        self,
        radius: float | None = 1.0,
        *,
        norm: Any = None,
        centre: Any = None,
        weights: Any = None,
        unit: Any = False,
    ) -> None:
        self.radius = radius
        self.norm = norm
        self.centre = centre
        self.weights = weights
        self.unit = unit

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the map against the number of columns; the values of X are not used.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : None, default=None
            Ignored.

        Returns
        -------
        self : object
            The transformer. If an error is raised, it is left as it was before.
        """
        with all_or_nothing(self, X) as mapper:
            validated(mapper, form_of(X), accept_sparse="csr", dtype=DTYPES)
            mapper._row_map(mapper.n_features_in_)
        return self

    @by_blocks
    def transform(self, X: Any) -> Any:
        """Map rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, CSR array} of shape (n_samples, n_features)
            The rows, in the precision of X.
        """
        check_is_fitted(self, "n_features_in_")
        X = canonical_rows(validated(self, X, accept_sparse="csr", dtype=DTYPES, reset=False))
        row_map = self._row_map(X.shape[1])
        with silent_arithmetic():
            if self.norm is None:
                norms, X = in_reach(row_norms, X)
                scale = row_factors(norms, row_map.radius, X)
                offset = None
            else:
                (scale, offset, _), X = in_reach(row_map.factors, X)
                scale = scale * row_map.norm
            if sparse.issparse(X):
                return scaled_csr(X, scale).astype(X.dtype)
            rows = X * scale[:, None]
            if row_map.centre is not None:
                rows -= np.multiply.outer(offset * row_map.norm - 1, row_map.centre)
            return rows.astype(X.dtype, copy=False)

    def _row_map(self, n_features):
        """Return the map, or an error if it is not one of so many columns."""
        if self.norm is None and (self.centre is not None or self.weights is not None):
            raise ValueError("norm=None shortens no row: pass norm with centre and weights")
        weights = np.ones(n_features) if self.weights is None else self.weights
        norm = float(self.radius if self.norm is None else self.norm)
        row_map = RowMap(self.centre, weights, norm=norm, radius=float(self.radius), unit=self.unit)
        if row_map.n_features != n_features:
            raise ValueError(
                f"weights are of {row_map.n_features} columns: X has {n_features} columns"
            )
        return row_map

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.centre is None
        return tags


class PrivateScaler(PrivateEstimatorMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Bring columns to [-1, 1] by ranges that are bought, for a budget of its own.

    It buys the part that estimators buy by ``bounds="auto"``, as a step of a pipeline: for models
    that are not of this package, or for several models on the same columns. Values beyond a range
    count as its end. Give the private model behind it ``bounds=(-1, 1)``, which is free.

    The fit spends its budget in addition to that of the model: `skdpdyn.privacy.Budget.split`
    divides a total among the two. A record adds one to one cell of each column in two vectors of
    noisy counts, see `skdpdyn.training.ranges`. `transform` uses nothing else that was computed
    from records.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the scaler alone, > 0.
    delta : float or "auto", default="auto"
        Additive term of the (epsilon, delta) guarantee, in (0, 1). "auto": 1/n^2.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours, see `skdpdyn.privacy.Adjacency`.
    max_rows_per_person : int or "auto", default="auto"
        Public limit on the rows of one person that a fit with ``groups`` uses. From a person with
        more rows, it takes so many, evenly spaced. "auto": 100, or fewer for more than 100 million
        persons.
    random_state : None or int, default=None
        None: fresh entropy and a cryptographic generator. An int repeats the noise, so the
        release is not private: for tests only.

    Attributes
    ----------
    ranges_ : ndarray of shape (n_features, 2)
        Low and high end of each column.
    privacy_ : Guarantee
        Guarantee of the fit: ``epsilon(delta)``, ``delta(epsilon)``, ``mu``, ``tradeoff(fpr)``.
    mechanism_ : Composition
        Record of the run: two vectors of noisy counts.
    bound_ : str
        The bound that ``privacy_`` comes from.
    epsilon_, delta_ : float
        The budget spent.
    n_samples_ : int
        Number of records, or of persons after a fit with ``groups``, public.
    privacy_unit_ : str
        Whom ``privacy_`` is for, its unit: "record", or "person" after a fit with ``groups``.
    leaks_ : tuple of str
        Leaks that ``privacy_`` does not cover: a seed. Empty for a private fit.
    bought_ : dict of str to float
        The fact that was bought, ``"bounds"``, and its part of mu^2: all of it.
    schema_ : Schema
        The ranges as models take them, with this release as their source; so has ``ranges_``.
    sources_ : tuple of Source
        Releases that the scaler was given: none.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, where X had string names.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.preprocessing import PrivateScaler
    >>> from skdpdyn.privacy import Budget
    >>> incomes = np.random.default_rng(0).lognormal(np.log(30_000), 1.0, (10_000, 1))
    >>> scaling, training = Budget(1.0, 1e-8).split((0.1, 0.9))
    >>> model = make_pipeline(
    ...     PrivateScaler(scaling.epsilon, scaling.delta),
    ...     PrivateLogisticRegression(training.epsilon, training.delta, bounds=(-1, 1)),
    ... ).fit(incomes, incomes[:, 0] > 5e4)
    >>> float(model[0].ranges_[0, 0])
    0.0
    >>> round(model[0].privacy_.compose(model[1].privacy_).epsilon(1e-8), 6)
    1.0
    """

    # set by a fit, for editors and type checkers
    ranges_: np.ndarray
    n_samples_: int

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        adjacency: str = "replace_one",
        max_rows_per_person: Any = "auto",
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_person = max_rows_per_person
        self.random_state = random_state

    def privacy_cost(self, n_samples: int, n_features: int) -> Guarantee:
        """Return the cost of a fit on data of this shape, from public numbers alone.

        Parameters
        ----------
        n_samples : int
            Number of records.
        n_features : int
            Number of columns of X.

        Returns
        -------
        Guarantee
            Equal to ``privacy_`` after such a fit of records; by persons, but for its unit.
        """
        return planned(*self._plan(*check_shape(n_samples, n_features))).guarantee

    def _public_facts(self):
        return (
            f"n_samples={self.n_samples_}" + of_persons(self),
            f"n_features={self.n_features_in_}",
            "every parameter of the scaler",
        )

    def fit(self, X: Any, y: Any = None, groups: Any = None, unit: str | None = None) -> Self:
        """Buy the ranges of the columns, spending at most (epsilon, delta).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite rows.
        y : None, default=None
            Ignored.
        groups : array-like of shape (n_samples,), default=None
            Id of the person that each row belongs to: integers or strings. The guarantee is then
            for a whole person with all rows, and ``n_samples_`` is the number of persons. None:
            every row is a record by itself.
        unit : str or None, default=None
            Name of the unit that the ids in ``groups`` stand for, such as "household". None:
            "person", or "record" without ``groups``.

        Returns
        -------
        self : object
            The fitted scaler. If an error is raised, the scaler is left as it was before.

        Raises
        ------
        ValueError, TypeError
            If a parameter, X or groups is invalid.
        CalibrationError
            If no noise is known to meet the budget.

        Warns
        -----
        PrivacyWeakWarning
            If ``epsilon`` is above 20, or ``delta`` above 1/n.
        PrivacyLeakWarning
            If ``random_state`` is an int.
        """
        check_random_state(self.random_state)
        with all_or_nothing(self, X, groups) as scaler, silent_arithmetic():
            scaler._fit(X, groups, unit_of(groups, unit))
        return self

    def _fit(self, X, groups, unit):
        X = self._rows(X, reset=True)
        if isinstance(X, Rows) and groups is not None:
            raise ValueError("groups needs all rows in memory, and X is a Dask collection")
        with closing(X) if isinstance(X, Rows) else nullcontext():
            codes, n_samples = persons_of(groups, X.shape[0])
            most_rows = checked_most_rows(self.max_rows_per_person, n_samples)
            reading = Reading(X, persons=codes, most_rows=most_rows)
            shares, budget = self._plan(n_samples, X.shape[1])
            spending = Spending.seeded(budget, shares, self.random_state)
            all_open = ColumnRanges(np.full((X.shape[1], 2), np.nan))
            with buying(spending, shares, n_samples) as plan:
                facts = all_open.buy(reading, Facts(None), spending)
            forget_fit(self)
            self.ranges_ = facts.ranges.pairs
            self.bought_ = {all_open.name: 1.0}
            self.n_samples_ = n_samples
            self._mark_ = mark_of_release(self.random_state)
            self._publish_plan(plan, (), unit)
            self.schema_ = schema_of(self, facts, "classes")
            self._sign()
            self._sign()

    @by_blocks
    def transform(self, X: Any) -> Any:
        """Bring each column from its range to [-1, 1], row by row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows in the precision of X.
        """
        check_is_fitted(self)
        return Ranges(*np.asarray(self.ranges_).T).mapped(self._rows(X, reset=False))

    def _rows(self, X, reset):
        """Return finite dense rows in C order, or those of a Dask collection."""
        if is_collection(X):
            from skdpdyn.data.cluster.dask import cluster_rows  # an extra, and slow to load

            self._rows(form_of(X), reset=True)
            return cluster_rows(X, None, numeric=False, has_target=False)
        return validated(self, X, dtype=DTYPES, order="C", reset=reset)

    def _plan(self, n_samples, n_features):
        """Return the shares that are spent, all of mu^2, and the budget."""
        checked_choice(self.adjacency, "adjacency", list(Adjacency))
        budget = Budget.for_samples(
            self.epsilon, self.delta, n_samples=n_samples, adjacency=self.adjacency
        )
        _ = budget.mu  # raises where no Gaussian noise keeps it
        most_rows = checked_most_rows(self.max_rows_per_person, n_samples)
        # refuses more records than a sum can tell one among
        sum_rounding(n_samples, n_features, most_rows=most_rows)
        finer = rules.FINER_PART
        return {RANGES: Share(1 - finer), FINER_RANGES: Share(finer)}, budget
