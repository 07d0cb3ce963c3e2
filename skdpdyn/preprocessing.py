"""Scaling by public bounds, free of charge, and by a private mean, at a cost."""

import math
from contextlib import closing, nullcontext
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdpdyn.core import rules
from skdpdyn.core.expansion import bounds_by_column
from skdpdyn.core.noise import check_random_state
from skdpdyn.core.schema import apply_schema
from skdpdyn.core.spending import (
    COUNTS,
    Share,
    buying,
    planned,
    scaled_to,
    total_of,
)
from skdpdyn.data.base import Rows, sum_rounding
from skdpdyn.data.cluster import is_collection
from skdpdyn.data.local import LocalRows, rows_of
from skdpdyn.data.persons import checked_most_rows, persons_of, unit_of
from skdpdyn.data.row_map import RowMap, scaled_csr
from skdpdyn.data.rows import canonical_rows, row_factors, row_norms
from skdpdyn.privacy import Adjacency, Budget
from skdpdyn.privacy.calibration import check_shape
from skdpdyn.privacy.checks import (
    checked_choice,
    checked_flag,
    checked_number,
    checked_pair,
    is_named,
)
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
from skdpdyn.training.conditioning import (
    MEAN,
    NORM,
    RANGES,
    Conditioner,
    Conditioning,
    can_sum,
    learn_ranges,
    private_mean,
    shares_of,
)

_BLOCK = 4096  # rows that are looked at together
_OCTAVES = 63 / 8  # that candidates for the bound on centred rows are in

__all__ = ["BoundsScaler", "Conditioning", "PrivateScaler", "RowMapper"]


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
        with all_or_nothing(self) as scaler:
            validated(scaler, form_of(X), dtype=DTYPES, ensure_all_finite=_finite(self.missing))
            given = apply_schema(copy(self)).bounds
            scaler.bounds_ = _bounds_of(scaler, "bounds", given)
            scaler.feature_range_, scaler.missing_ = (low, high), self.missing
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
        low, high = self.bounds_.T  # float64: bounds that are close together stay apart
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


def _bounds_of(estimator, parameter, given):
    """Return the bounds that are given for the columns of an estimator."""
    names = getattr(estimator, "feature_names_in_", None)
    return bounds_by_column(given, parameter, estimator.n_features_in_, names)


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
        with all_or_nothing(self) as mapper:
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
                scale, offset = row_factors(row_norms(X), row_map.radius, X), None
            else:
                scale, offset, _ = row_map.factors(X)
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
    """Centre rows by a private mean and scale them into the unit ball.

    The noise of a private model is proportional to the largest norm of a row. Rows that all lie on
    one side of the origin spend most of that norm on their mean. This scaler first scales rows into
    the ball of radius ``data_norm``, then centres them by their noisy mean, divides them by a noisy
    quantile of their centred norms, and shortens rows that are still longer than 1. The next step
    of the pipeline then needs no bound from its user: the default ``data_norm=1.0`` of the
    estimators is right.

    The fit spends a budget of its own, in addition to that of the model.
    `skdpdyn.privacy.split_budget` divides a total among the two. A tenth for the scaler is a good
    share.

    The mean of n rows of norm R is released with Gaussian noise: replacing a row moves it by 2R/n,
    dropping one by R/n. The quantile is found by a binary search over 64 thresholds, with six noisy
    counts, each of which one record changes by at most 1. All releases compose exactly, mu^2 = sum
    of mu_i^2. `transform` uses nothing else that was computed from records.

    With ``bounds="private"`` each column is first brought to [-1, 1] / sqrt(n_features), by a range
    that contains 95 % of its values. Use it for columns with long tails, if only crude bounds are
    public. A range begins at 0, or at the crude bound nearest to it. Its length is found on a log
    scale, down to a millionth of the crude one, by six noisy counts for each column, which take 0.3
    of mu^2. Values beyond a range count as its end.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the scaler alone, > 0.
    delta : float or "auto", default="auto"
        Probability of a larger loss, in (0, 1). "auto": 1/n^2.
    data_norm : float, default=1.0
        Public bound on the Euclidean norm of a row. Do not take it from the data. Longer rows are
        scaled down to it. With ``bounds="private"`` rows come within norm 1, and it must be 1.0.
    bounds : "private" or None, default=None
        "private": bring dense columns to private ranges first. None: do not.
    crude_bounds : tuple (low, high), array-like of shape (n_features, 2) or dict, default=None
        With ``bounds="private"``: public bounds that are certain to hold, however wide: one pair
        for all columns, one a column, or one for each column name.
    with_mean : bool, default=True
        Whether to centre. Sparse rows would become dense: for them it must be False.
    quantile : float, default=0.5
        Part of the rows whose centred norm the bound covers, in (0, 1). The others are scaled down.
    equalize : bool, default=False
        Whether to bring the columns of dense rows to one scale too, or all directions where records
        are many for their number: what the estimators do by ``conditioning="auto"``, as a step of a
        pipeline. Give the model after it ``conditioning=None``.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours, see `skdpdyn.privacy.Adjacency`.
    max_rows_per_person : int or "auto", default="auto"
        Public limit on the rows of one person that a fit with ``groups`` uses. From a person with
        more rows, it takes so many, evenly spaced. "auto": 100, or fewer for more than 100 million
        persons.
    random_state : None or int, default=None
        None: fresh entropy and a cryptographic generator. An int repeats the noise, which is not
        private: for tests.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,) or None
        The noisy mean, shrunk towards 0 as far as it may be noise (James and Stein 1961); None
        without centring.
    scale_ : float
        The bound that centred rows are divided by.
    weights_ : ndarray of shape (n_features,) or (n_features, n_features)
        With ``equalize``: what centred rows are multiplied by before.
    radius_ : float
        With ``equalize``: norm beyond which rows are scaled down first.
    bounds_ : ndarray of shape (n_features, 2)
        With ``bounds="private"``: the range of each column.
    privacy_ : Guarantee
        Guarantee of the fit: ``epsilon(delta)``, ``delta(epsilon)``, ``mu``, ``tradeoff(fpr)``.
    mechanism_ : Composition
        Record of the run: the counts that found the ranges, the mean, and the counts of rows within
        a threshold that found the bound on their norm.
    bound_ : str
        The bound that ``privacy_`` comes from.
    epsilon_, delta_ : float
        The budget spent.
    n_samples_ : int
        Number of records, or of persons after a fit with ``groups``, public.
    privacy_unit_ : str
        Whom ``privacy_`` is for, its unit: "record", or "person" after a fit with ``groups``.
    data_norm_ : float
        The bound used.
    leaks_ : tuple of str
        Leaks that ``privacy_`` does not cover: a seed. Empty for a private fit.
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
    >>> from skdpdyn.privacy import split_budget
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([0.8, 0.0, 0.0], 0.05, (10_000, 3))
    >>> y = X[:, 1] > 0
    >>> centring, training = split_budget(1.0, 1e-8, shares=(0.1, 0.9))
    >>> model = PrivateLogisticRegression(*training, classes=[False, True])
    >>> model = make_pipeline(PrivateScaler(*centring), model).fit(X, y)
    >>> round(model[0].privacy_.compose(model[1].privacy_).epsilon(1e-8), 6)
    1.0

    Incomes, if it is only public that they are below 10 million:

    >>> incomes = rng.lognormal(np.log(30_000), 1.0, (10_000, 1))
    >>> scaler = PrivateScaler(bounds="private", crude_bounds=(0, 10_000_000)).fit(incomes)
    >>> low, high = scaler.bounds_[0]
    >>> bool(low == 0), bool(100_000 < high < 300_000)
    (True, True)
    """

    # set by a fit, for editors and type checkers
    mean_: np.ndarray
    scale_: float
    n_samples_: int
    data_norm_: float
    bounds_: Any
    weights_: Any
    radius_: float

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        data_norm: float = 1.0,
        bounds: Any = None,
        crude_bounds: Any = None,
        with_mean: bool = True,
        quantile: float = 0.5,
        equalize: bool = False,
        adjacency: str = "replace_one",
        max_rows_per_person: Any = "auto",
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.bounds = bounds
        self.crude_bounds = crude_bounds
        self.with_mean = with_mean
        self.quantile = quantile
        self.equalize = equalize
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
            f"data_norm={self.data_norm_:.6g}",
            "every parameter of the scaler",
        )

    def fit(self, X: Any, y: Any = None, groups: Any = None, unit: str | None = None) -> Self:
        """Learn the mean and the bound, spending at most (epsilon, delta).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows. Those longer than ``data_norm`` are scaled down to it.
        y : None, default=None
            Ignored.
        groups : array-like of shape (n_samples,), default=None
            Id of the person that each row belongs to: integers or strings. The guarantee is then
            for a whole person with all rows, and ``n_samples_`` is the number of persons. None:
            every row is a record by itself.
        unit : str or None, default=None
            What ``groups`` holds the ids of, as the guarantee names it: "household", say. None:
            "person", or without ``groups`` "record".

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
        checked_flag(self.with_mean, "with_mean")
        with all_or_nothing(self) as scaler, silent_arithmetic():
            scaler._fit(X, groups, unit_of(groups, unit))
        return self

    def _fit(self, X, groups, unit):
        X = self._rows(X, reset=True)
        if isinstance(X, Rows) and groups is not None:
            raise ValueError("groups needs all rows in memory, and X is a Dask collection")
        with closing(X) if isinstance(X, Rows) else nullcontext():
            self._learn(X, groups, unit)

    def _learn(self, X, groups, unit):
        n_rows, n_features = X.shape
        codes, n_samples = persons_of(groups, n_rows)
        most_rows = checked_most_rows(self.max_rows_per_person, n_samples)
        rows = X if isinstance(X, Rows) else rows_of(X, None, codes, most_rows)
        rows.most_rows = most_rows
        learnt = {"n_samples_": n_samples, "data_norm_": float(self.data_norm)}
        shares, budget = self._plan(n_samples, n_features)
        with buying(shares, budget, n_samples, self.random_state) as (spending, plan):
            if self.bounds is not None:
                crude = _bounds_of(self, "crude_bounds", self.crude_bounds)
                learnt["bounds_"] = ranges = learn_ranges(rows, crude, spending)
                rows = rows_of(_within_ranges(X, ranges), None, codes, most_rows)
            learnt |= (self._map if self.equalize else self._centre)(rows, spending)
        forget_fit(self)
        vars(self).update(learnt)
        self._publish_plan(plan, (), unit)

    def _centre(self, rows, spending):
        """Return a private mean, and a bound on the norms of centred rows."""
        n_samples, radius, mean = rows.n_records, float(self.data_norm), None
        if self.with_mean:
            mean = private_mean(rows, radius, n_samples, spending)
        high = radius + (0.0 if mean is None else float(np.linalg.norm(mean)))
        centred = RowMap(mean, np.ones(rows.shape[1]), norm=2 * radius, radius=radius)
        lengths = partial(rows.with_map(centred).counts, "lengths")
        scale = spending.quantile(NORM, lengths, high, self.quantile, n_samples, _OCTAVES)
        return {"mean_": mean, "scale_": scale}

    def _map(self, rows, spending):
        """Return a map that makes all directions alike."""
        conditioner = Conditioner(
            rows.n_records, float(self.data_norm), dict(spending.shares), self.quantile
        )
        row_map = conditioner.learn(rows, spending).map
        return {
            "mean_": row_map.centre,
            "scale_": row_map.norm,
            "weights_": row_map.weights,
            "radius_": row_map.radius,
        }

    def _shares(self, n_samples, n_features, budget):
        """Return the share of mu^2 of each part; together they take all of it."""
        ranges = {}
        if self.bounds is not None:
            ranges[RANGES] = Share(rules.RANGE_SHARE, COUNTS * n_features)
        left = 1 - total_of(ranges.values())
        if not self.equalize:
            norm = rules.NORM_SHARE if self.with_mean else 1.0
            shares = {MEAN: Share(1 - norm)} if self.with_mean else {}
            shares[NORM] = Share(norm, COUNTS)
        else:
            shares = shares_of(
                n_samples,
                n_features,
                budget.mu,
                budget.adjacency,
                is_sparse=False,
                centred=self.with_mean,
            )
        return ranges | scaled_to(shares, left)

    @by_blocks
    def transform(self, X: Any) -> Any:
        """Centre and scale rows into the unit ball, each by itself.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        {ndarray, CSR array} of shape (n_samples, n_features)
            Rows of norm at most 1, but for rounding, in the precision of X.
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        if hasattr(self, "bounds_"):
            X = _within_ranges(X, self.bounds_)
        weights = getattr(self, "weights_", np.ones(X.shape[1])) / self.scale_
        radius = getattr(self, "radius_", self.data_norm_)
        rows = LocalRows(X, map=RowMap(self.mean_, weights, norm=1.0, radius=radius))
        blocks = [block.astype(X.dtype) for _, block in rows.mapped_blocks()]
        return type(X)(sparse.vstack(blocks)) if rows.is_sparse else np.concatenate(blocks)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not (self.with_mean or self.equalize or self.bounds is not None)
        return tags

    def _rows(self, X, reset):
        """Return finite rows in C order or CSR; refuse sparse rows that would become dense."""
        if is_collection(X):
            return self._rows_on_cluster(X)
        if sparse.issparse(X) and (self.with_mean if reset else self.mean_ is not None):
            raise ValueError("X is sparse, and centring would make it dense: pass with_mean=False")
        if sparse.issparse(X) and (self.equalize if reset else hasattr(self, "weights_")):
            raise ValueError(
                "X is sparse: equalize=True takes dense rows. Let the estimator condition "
                "sparse ones"
            )
        if sparse.issparse(X) and (self.bounds is not None if reset else hasattr(self, "bounds_")):
            raise ValueError("X is sparse: bounds='private' takes dense rows. Pass X.toarray()")
        X = validated(self, X, accept_sparse="csr", dtype=DTYPES, order="C", reset=reset)
        return canonical_rows(X)

    def _rows_on_cluster(self, X):
        """Return the rows of a Dask collection; refuse options that need them in memory."""
        from skdpdyn.data.cluster.dask import cluster_rows  # an extra, and slow to load

        if self.bounds is not None:
            raise ValueError(
                "bounds='private' needs all rows in memory, and X is a Dask collection. Give "
                "BoundsScaler public bounds"
            )
        self._rows(form_of(X), reset=True)
        return cluster_rows(X, None, numeric=False, has_target=False)

    def _plan(self, n_samples, n_features):
        """Return the shares that are spent, and the budget."""
        requirement = "a number from 1e-50 to 1e50: a public bound on the norm of a row"
        checked_number(self.data_norm, "data_norm", lambda x: 1e-50 <= x <= 1e50, requirement)
        checked_flag(self.with_mean, "with_mean")
        requirement = "in (0, 1): the part of the rows within the bound"
        checked_number(self.quantile, "quantile", lambda x: 0 < x < 1, requirement)
        checked_choice(self.adjacency, "adjacency", list(Adjacency))
        budget = Budget.for_samples(
            self.epsilon, self.delta, n_samples=n_samples, adjacency=self.adjacency
        )
        _ = budget.mu  # raises where no Gaussian noise keeps it
        checked_flag(self.equalize, "equalize")
        self._check_bounds()
        most_rows = checked_most_rows(self.max_rows_per_person, n_samples)
        if self.equalize and not can_sum(n_samples, n_features, most_rows):
            raise ValueError(
                f"equalize=True: n_samples={n_samples} are too many to sum. Use equalize=False"
            )
        # refuses more records than a sum can tell one among
        sum_rounding(n_samples, n_features, most_rows=most_rows)
        return self._shares(n_samples, n_features, budget), budget

    def _check_bounds(self):
        """Refuse bounds that are not "private", and options that do not go with them."""
        if self.bounds is None:
            if self.crude_bounds is not None:
                raise ValueError(
                    "crude_bounds are of no use with bounds=None: pass bounds='private'"
                )
            return
        if not is_named(self.bounds, "private"):
            raise ValueError(
                f"bounds={self.bounds!r} must be 'private', or None. For public bounds use "
                "BoundsScaler"
            )
        if self.data_norm != 1:
            raise ValueError(
                f"data_norm={self.data_norm!r}: bounds='private' brings rows within norm 1. "
                "Leave it at 1.0"
            )


def _within_ranges(X, ranges):
    """Bring columns to [-1, 1] / sqrt(n_features); the value nearest to 0 becomes 0."""
    low, high = ranges.T
    origin = np.clip(0.0, low, high)
    reach = np.maximum(high - origin, origin - low) * math.sqrt(len(ranges))
    scaled = np.empty_like(X)
    for part in _blocks(X):
        scaled[part] = (np.clip(X[part].astype(np.float64), low, high) - origin) / reach
    return scaled


def _blocks(X):
    """Return slices of a few rows."""
    return (slice(first, first + _BLOCK) for first in range(0, X.shape[0], _BLOCK))
