"""Private additive models: a curve for each column, learnt from public expansions."""

from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skdpdyn.core import rules
from skdpdyn.core.expansion import Expansion
from skdpdyn.core.losses import LOG, SOFTMAX
from skdpdyn.core.schema import apply_schema, said_of
from skdpdyn.data.lookups import Lookups, lookups_of, prepare
from skdpdyn.linear_model.base import (
    PrivateLinearClassifier,
    PrivateLinearModel,
    PrivateLinearRegressor,
)
from skdpdyn.linear_model.logistic import PrivateLogisticRegression
from skdpdyn.linear_model.poisson import (
    PrivatePoissonRegressor,
    expected_counts,
    score_of_rates,
)
from skdpdyn.linear_model.quantile import CutRegressor, d2_of_quantiles, family_of_quantiles
from skdpdyn.linear_model.ridge import OF_CENTRES, OF_MEANS
from skdpdyn.linear_model.shapes import Shape, importances_of, kept_parts, shapes_of, usual_rows
from skdpdyn.linear_model.softmax import PrivateSoftmaxRegression
from skdpdyn.privacy.checks import checked_choice, quoted
from skdpdyn.training.additive import expand, monotonic, read_cells
from skdpdyn.training.base import (
    all_or_nothing,
    distinct,
    of_persons,
    remember_rows,
    scored,
    silent_arithmetic,
    warn_of_own_rows,
)
from skdpdyn.training.fit import fit
from skdpdyn.training.parameters import answering, shows_weights, weights_in_fit
from skdpdyn.training.reading import Beside
from skdpdyn.training.targets import Labels, given_or_lent, refuse_lacking
from skdpdyn.training.values import Family

_EXPOSURE = "exposure goes with loss='poisson'"


class AdditiveModel(PrivateLinearModel):
    """Base of additive models, whose raw predictions are sums of terms of columns and pairs.

    Attributes
    ----------
    expansion_ : Expansion
        Public tables of the expanded features, and the bought distributions of the columns.
    coef_ : ndarray of shape (n_features_out,), for classifiers (n_outputs, n_features_out)
        Coefficients of the expanded features.
    intercept_ : float, for classifiers ndarray of shape (n_outputs,)
        Raw prediction of an expanded row of zeros.
    conditioning_ : FittedConditioning
        The released preprocessing of the expanded rows.
    kept_parts_ : ndarray of shape (n_cells,)
        Shrinkage factor of each cell of the tables in predictions, in [0, 1]. It is below 1 for
        categories and missing values that are rare according to released numbers. If released
        numbers show no record, it is 0 for missing values, and for "other" beside a given list. A
        listed category that noise hides is shrunk more, to 0 if even a rare one would show. Where
        categories are bought, "other" is kept as a listed one is.
    chosen_pairs_ : tuple of (int, int) or None
        Column numbers of the pairs that were selected privately, the strongest pair first. None: no
        pairs were selected.
    """

    expansion_: Expansion
    chosen_pairs_: tuple[tuple[int, int], ...] | None
    bounds: Any
    categories: Any
    interactions: Any
    monotonic_cst: Any

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        bounds: Any = "auto",
        categories: Any = "auto",
        interactions: Any = "auto",
        monotonic_cst: Any = None,
        **others: Any,
    ) -> None:
        """Keep the parameters.

        Parameters
        ----------
        epsilon : float, default=1.0
            Privacy budget, > 0. Shares of it are stated as parts of mu^2, where mu is the parameter
            of Gaussian differential privacy, see `skdpdyn.privacy.GaussianDP`.
        delta : float or "auto", default="auto"
            Additive term of the (epsilon, delta) guarantee, in (0, 1). "auto": 1/n^2.
        bounds : "auto", dict, tuple (low, high) or array-like, default="auto"
            Bounds of the numeric columns. "auto": up to 14 % of mu^2 buys them. Public bounds cost
            nothing: a dict ``{column: (low, high)}``, or bounds as for `BoundsScaler
            <skdpdyn.preprocessing.BoundsScaler>`. The columns that a dict leaves out are bought.
            Values outside are clipped. Bounds of dates are dates. If bounds name a column of text
            or objects, its cells are read as numbers, and cells that are not numbers are missing.
            Do not take bounds from the data.
        categories : dict, "auto" or None, default="auto"
            Public categories of the other columns: a dict ``{column: categories}``, where the
            categories are a list, a dtype with explicit categories such as
            ``pandas.CategoricalDtype``, or "auto". Columns of an array are named by their number.
            "auto" for a column, or instead of the dict: 5 to 20 % of mu^2 and a tenth of delta buy
            the categories that are not rare. This applies to all columns that are not numbers,
            booleans or dates and that a dict leaves out. Only the dtype of a column decides, which
            is public. The categories of a pandas column are not used, because
            ``astype("category")`` collects them from the records. None: such columns are refused,
            and no part of delta is reserved for them. Nothing is reserved either if bounds,
            categories and the types in ``schema`` cover all columns. Dates count as days since
            1970. ``{column: "shared"}`` for a numeric column buys up to 40 values that many records
            share, such as an amount of 0. Each of them gets an effect of its own beside the curve.
            ``{column: {"shared": values}}`` gives them if they are public. On Adult at epsilon 10,
            those of capital gains and losses raise the AUC from .912 to .921.
        interactions : "auto", int, None or sequence of pairs, default="auto"
            Pairs of columns whose curves, or categories, are multiplied. "auto": with enough
            records, all pairs of numeric columns. From 500 records per column on (2,000 for
            classifiers, and more at a small epsilon), up to ten pairs of any columns are also
            selected privately and get a finer resolution: the pairs where the residuals of a model
            without pairs exceed noise and chance most, see ``chosen_pairs_``. The selection costs
            13 % of mu^2. An integer: at most this number of selected pairs, and no others. A
            sequence of pairs: these pairs. The fewer pairs, the finer their resolution: for the
            California house values at epsilon 10, the pair of longitude and latitude alone gives an
            R^2 of .79.
        monotonic_cst : dict, array-like or None, default=None
            1 for a column whose curve must not fall, -1 for a column whose curve must not rise, 0
            for others: a dict ``{column: 1}``, or one number for each column. The columns hold
            numbers or dates, and there are at most two classes. Isotonic regression
            of the released curves enforces it, at no cost. With "auto" interactions, these columns
            are in no pair.
        start : fitted additive model or None, default=None
            Where training starts: a released model with the same columns, bounds and categories.
            Its expansion and preprocessing are reused, including bought categories and
            distributions, so only the training steps cost more. `total_privacy` lists it, and adds
            its cost if it was trained on the same records.
        alpha : float or "auto", default="auto"
            Strength of the L2 penalty on the coefficients of preprocessed rows, >= 0. "auto": so
            weak that it has no effect within the training time.
        clip : float or "auto", default="auto"
            Bound on the norm of one record's loss gradient, in units of preprocessed rows of norm
            1.
        solver : "auto", str or Solver, default="auto"
            The algorithm: "auto", "noisy_gd" or "noisy_sgd", or an instance of one of these
            classes. Other solvers cannot train on preprocessed rows.
        **others : dict
            Other parameters of `PrivateLinearClassifier` or `PrivateLinearRegressor`, except those
            that limit the norm of rows: the limits of expanded rows are public.
        """
        super().__init__(epsilon, delta, data_norm=1.0, **others)
        self.bounds = bounds
        self.categories = categories
        self.interactions = interactions
        self.monotonic_cst = monotonic_cst

    def _public_facts(self):
        facts = apply_schema(copy(self))
        return (
            f"n_samples={self.n_samples_}" + of_persons(self),
            f"n_features={self.n_features_in_}",
            "the types of columns: which are numbers, dates, flags or text",
            *said_of("bounds", facts.bounds),
            *said_of("categories", facts.categories),
            "every parameter of the estimator",
            *self._public_targets(),
            *self._estimand(),
        )

    def _bought_facts(self):
        free = "shapes, their displays and their edits, which cost nothing: they follow from it"
        chosen = ()
        if self.chosen_pairs_ is not None:
            terms = self.terms_[1 + self.n_features_in_ :]
            names = dict(zip(self.expansion_.pairs, terms, strict=True))
            chosen = (
                "pairs chosen: "
                + (", ".join(names[pair] for pair in self.chosen_pairs_) or "none"),
            )
        return (*super()._bought_facts(), *chosen, "coefficients", free)

    def _weights(self):
        """Return each output's number for each cell and product, from the released coefficients."""
        expansion = self.expansion_
        weights = np.array([expansion.cells(coef) for coef in np.atleast_2d(self.coef_)])
        for j, sign in monotonic(self, len(expansion.columns)).items():
            if len(weights) > 1:
                raise ValueError("monotonic_cst needs two classes, or a regression")
            curve = slice(expansion.starts[j], expansion.starts[j + 1] - 1)
            weights[0, curve] = _isotonic(weights[0, curve], sign)
        sizes = np.diff(expansion.starts)
        usual, listed = (
            np.repeat(contributions[:, : sizes.size], sizes, axis=1)
            for contributions in (self._at(usual_rows(self)), self._centres())
        )
        usual = np.where(expansion.unlisted, usual, listed)
        numbers = weights[:, : expansion.n_cells]
        numbers[:] = usual + (numbers - usual) * self.kept_parts_
        return weights

    def _counted(self):
        """Return whether each cell can shorten a row: none of monotone columns, nor empty ones."""
        starts = self.expansion_.starts
        counts = self.kept_parts_ > 0
        for j in monotonic(self, len(self.expansion_.columns)):
            counts[starts[j] : starts[j + 1]] = False
        return counts

    def _settle(self):
        """Set the numbers that follow from the released ones."""
        self.kept_parts_ = kept_parts(self)

    def _explainer(self):
        """Return the step that turns rows into the contribution of each term."""
        check_is_fitted(self)
        return Explainer(
            self.expansion_,
            self.conditioning_.row_map,
            self._weights(),
            self._centres(),
            self._counted(),
            self.bounds,
            self.categories,
        )

    def _prepare(self, dtype):
        """Compile the kernels of predictions."""
        prepare(self)

    def _scaled_products(self, X):
        """Return raw predictions without intercepts: the sums of all contributions."""
        tables = self._lookups()
        products = tables.raw(cells_of(self, X, tables), self.n_jobs)
        return products if self.coef_.ndim == 2 else products[:, 0]

    def _lookups(self):
        """Return the tables of this model."""
        check_is_fitted(self)
        objects = self.expansion_, self.conditioning_
        values = repr(self.monotonic_cst), self.coef_
        return lookups_of(self, objects, values, self._explainer)

    # --- shapes -----------------------------------------------------------------------------------

    @property
    def terms_(self) -> list[str]:
        """Names of the columns of `explain`: "intercept", the columns, and pairs as "a * b".

        If a column already has such a name, the name of the intercept or pair is in parentheses.
        """
        check_is_fitted(self)
        columns = getattr(self, "feature_names_in_", None)
        if columns is None:
            columns = [f"x{j}" for j in range(self.n_features_in_)]
        pairs = [f"{columns[i]} * {columns[j]}" for i, j in self.expansion_.pairs]
        constant, *pairs = distinct(["intercept", *pairs], columns)
        return [constant, *columns, *pairs]

    @property
    def term_importances_(self) -> dict[str, float]:
        """Mean absolute contribution of each term, by name, the most important first; at no cost.

        It is estimated for normally distributed rows with the released second moments, and averaged
        over outputs. The estimated effect of the training noise is subtracted from its square, so
        columns without effect are near 0.
        """
        check_is_fitted(self)
        return importances_of(self)

    @property
    def shapes_(self) -> dict[str, Shape]:
        """Curve of each column and pair, with the standard error due to noise; at no cost.

        The curves apply to rows that are not scaled down. All terms of longer rows are multiplied
        by one factor below 1, see `explain`. They are computed at each access: with many columns,
        store them in a variable.
        """
        check_is_fitted(self)
        return shapes_of(self)

    def _centres(self):
        """Return each term's contribution at the released mean of the rows."""
        return self._at(self.conditioning_.mean)

    def _at(self, mean):
        """Return each term's contribution at a mean of expanded rows."""
        coef = np.atleast_2d(self.coef_)
        terms = self.expansion_.slices
        return np.column_stack([coef[:, part] @ mean[part] for part in terms])

    def _scale(self):
        """Return the unit of outputs in raw predictions, and the curvature of the loss in it."""
        if hasattr(self, "classes_"):
            loss = self.family.loss_of(self.classes_)
            return 1.0, loss.typical or loss.smoothness
        low, high = self.target_bounds_
        return (self.units_[1] * (high - low) / 2, 1.0) if self.loss == "squared" else None

    def explain(self, X: Any) -> np.ndarray:
        """Return the contribution of each term to the raw prediction of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_terms), for several outputs (n_samples, n_terms, n_outputs)
            Contributions, in the order of ``terms_``. The first is the same for all rows: the raw
            prediction at the released mean of the expanded rows. The others are differences from
            it, times the factor by which the row is scaled down (1 for most rows). They add up to
            the raw prediction. For a regressor, this is `predict` before it is clipped to
            ``target_bounds`` (its logarithm with ``loss="poisson"``). For a classifier, it is the
            score from which probabilities are computed.
        """
        tables = self._lookups()
        same = self._centres().sum(axis=1) + self.intercept_
        explained = tables.each(cells_of(self, X, tables), same).transpose(0, 2, 1)
        return explained if explained.shape[2] > 1 else explained[:, :, 0]

    def to_sklearn(self) -> Any:
        """Return a fitted pipeline of scikit-learn with the same predictions.

        Its first step returns the contributions of `explain`. Its second step is a linear model of
        scikit-learn, which adds them up. The pipeline has no record of the privacy cost.

        Returns
        -------
        Pipeline

        Examples
        --------
        >>> import numpy as np
        >>> from skdpdyn import PrivateGAMRegressor
        >>> X = np.random.default_rng(0).uniform(0, 1, (2000, 2))
        >>> model = PrivateGAMRegressor(bounds=(0, 1), target_bounds=(0, 1)).fit(X, X[:, 0] ** 2)
        >>> round(float(abs(model.to_sklearn().predict(X) - model.predict(X)).max()), 12)
        0.0
        """
        explainer = self._explainer()
        terms = len(self.terms_) - 1
        intercept = np.atleast_1d(self.intercept_ + explainer.centres.sum(axis=1))
        model = self._twin()
        targets = np.asarray(getattr(self, "classes_", np.ones(2)))
        pipeline = Pipeline([("terms", explainer), ("model", model)])
        # zeros, so that scikit-learn sets its attributes
        model.fit(np.zeros((len(targets), len(intercept) * terms)), targets)
        explainer.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            explainer.feature_names_in_ = self.feature_names_in_
        coef = np.kron(np.eye(len(intercept)), np.ones(terms))
        if len(intercept) == 1 and not hasattr(self, "classes_"):
            coef = coef[0]
            intercept = intercept[0]
        model.coef_ = coef
        model.intercept_ = intercept
        return pipeline

    def _twin(self):
        twin: Any = self.family.twin
        return twin()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


class Explainer(TransformerMixin, BaseEstimator):
    """Turn rows into the contribution of each term of a fitted additive model.

    `PrivateGAMClassifier.to_sklearn` and `PrivateGAMRegressor.to_sklearn` make such steps.

    Parameters
    ----------
    expansion_ : Expansion
        Tables of the model.
    row_map : RowMap
        The released preprocessing of expanded rows, which scales long rows down.
    weights : ndarray of shape (n_outputs, n_weights)
        Number of each output for each cell and product.
    centres : ndarray of shape (n_outputs, n_terms)
        Contribution of each term at the centre of the preprocessing.
    counts : ndarray of bool of shape (n_cells,)
        Whether a cell counts in the norm of a row. Cells of monotone columns and cells without
        records do not.
    bounds, categories : object
        Parameters of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateGAMRegressor
    >>> X = np.random.default_rng(0).uniform(0, 1, (2000, 2))
    >>> model = PrivateGAMRegressor(bounds=(0, 1), target_bounds=(0, 1)).fit(X, X[:, 0])
    >>> model.to_sklearn()[0].transform(X[:3]).shape[0]
    3
    """

    def __init__(
        self,
        expansion_: Any,
        row_map: Any,
        weights: Any,
        centres: Any,
        counts: Any,
        bounds: Any,
        categories: Any,
    ) -> None:
        self.expansion_ = expansion_
        self.row_map = row_map
        self.weights = weights
        self.centres = centres
        self.counts = counts
        self.bounds = bounds
        self.categories = categories

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn nothing.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None, default=None
            Ignored.

        Returns
        -------
        self : object
        """
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the contribution of each term.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs * n_terms)
        """
        objects = self.expansion_, self.row_map
        values = self.weights, self.centres, self.counts
        tables = lookups_of(self, objects, values, lambda: self)
        terms = tables.each(cells_of(self, X, tables))
        return terms.reshape(len(terms), -1)


def cells_of(model: Any, X: Any, tables: Lookups) -> np.ndarray:
    """Return the cells of rows, of shape (n_columns, n_rows)."""
    codes = None if hasattr(model, "feature_names_in_") else tables.codes(X)
    return read_cells(model, X).codes.T if codes is None else codes


def _isotonic(curve, sign):
    """Return the nearest curve that only rises, or with sign -1 only falls."""
    from sklearn.isotonic import isotonic_regression  # slow to load

    return isotonic_regression(curve, increasing=sign > 0)


class PrivateGAMClassifier(AdditiveModel, PrivateLinearClassifier):
    """Additive classifier under differential privacy: a curve for each column.

    A raw prediction is the sum of an intercept, a curve for each numeric column and a number for
    each category of the other columns. With enough records, it also has terms for pairs of columns,
    which are products of curves. Columns are expanded into cosines on a linear and a logarithmic
    scale. Their number follows from the number of records and the budget (of two classes also from
    the bought share of the rarer one), and the features themselves cost nothing. `fit` stores one
    small integer for each cell of X, and expands only a block of rows at a time.

    With enough records, the budget buys the distribution of each numeric column, which gives
    its curve an additional scale. Then it buys the mean and the second moment of the expanded rows.
    They give a linear transformation after which all directions that exceed the noise have a
    similar scale. The rest pays for the training steps. Every "auto" follows from public numbers,
    or is bought. Expanded rows with an unusually large norm are scaled down, in training and in
    prediction: all terms of such a row are multiplied by the same factor below 1, and still add up
    to its raw prediction.

    Missing values (NaN, None) are a category of their own in every column, at no cost. Categories
    that are neither given nor bought count as one more, "other".

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpdyn import PrivateGAMClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(
    ...     {"age": rng.uniform(0, 100, 20_000), "ward": rng.choice(["A", "B"], 20_000)}
    ... )
    >>> y = np.abs(X["age"] - 50) + 20 * (X["ward"] == "B") > 35
    >>> X.loc[::10, "age"] = np.nan
    >>> model = PrivateGAMClassifier(
    ...     epsilon=1.0, bounds={"age": (0, 100)}, categories={"ward": ["A", "B"]}, classes=[0, 1]
    ... ).fit(X, y)
    >>> bool(model.score(X, y) > 0.9), round(model.epsilon_, 6)
    (True, 1.0)
    """

    @answering
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        bounds: Any = "auto",
        categories: Any = "auto",
        interactions: Any = "auto",
        monotonic_cst: Any = None,
        start: Any = None,
        alpha: float | str = "auto",
        clip: float | str | None = "auto",
        classes: Any = "auto",
        solver: Any = "auto",
        bound: str = "tightest",
        adjacency: str = "replace_one",
        max_rows_per_person: Any = "auto",
        weight_bounds: Any = None,
        class_weight: Any = None,
        estimand: str = "persons",
        schema: Any = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            bounds=bounds,
            categories=categories,
            interactions=interactions,
            monotonic_cst=monotonic_cst,
            start=start,
            alpha=alpha,
            clip=clip,
            classes=classes,
            solver=solver,
            bound=bound,
            adjacency=adjacency,
            max_rows_per_person=max_rows_per_person,
            weight_bounds=weight_bounds,
            class_weight=class_weight,
            estimand=estimand,
            schema=schema,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    @property
    def family(self) -> Family:  # type: ignore[override]
        """Logistic for two classes, softmax for more."""
        classes = given_or_lent(self, "classes")
        return self.family_of(vars(self).get("classes_") if classes is None else classes)

    def family_of(self, public: Any) -> Family:
        """Return the family, given the classes.

        Parameters
        ----------
        public : ndarray or None
            The classes.

        Returns
        -------
        Family
        """
        several = public is not None and len(public) > 2
        kind = PrivateSoftmaxRegression if several else PrivateLogisticRegression
        return replace(kind.family, targets=Labels(), expand=expand)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return SOFTMAX.mean(self._raw_scores(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return log_softmax(self._raw_scores(X), axis=1)

    def _raw_scores(self, X):
        raw = self._raw_predictions(X)
        return raw if raw.shape[1] > 1 else np.column_stack([np.zeros(len(raw)), raw])


class PrivateGAMRegressor(AdditiveModel, PrivateLinearRegressor):
    """Additive regression under differential privacy: a curve for each column.

    A raw prediction is the sum of an intercept, a curve for each numeric column and a number for
    each category of the other columns. With enough records, it also has terms for pairs of columns,
    which are products of curves. Columns are expanded into cosines on a linear and a logarithmic
    scale. Their number follows from the number of records and the budget (of two classes also from
    the bought share of the rarer one), and the features themselves cost nothing. `fit` stores one
    small integer for each cell of X, and expands only a block of rows at a time.

    With enough records, the budget buys the distribution of each numeric column, which gives
    its curve an additional scale. Then it buys the mean and the second moment of the expanded rows.
    They give a linear transformation after which all directions that exceed the noise have a
    similar scale. The rest pays for the training steps. Every "auto" follows from public numbers,
    or is bought. Expanded rows with an unusually large norm are scaled down, in training and in
    prediction: all terms of such a row are multiplied by the same factor below 1, and still add up
    to its raw prediction.

    Missing values (NaN, None) are a category of their own in every column, at no cost. Categories
    that are neither given nor bought count as one more, "other".

    Parameters
    ----------
    loss : {"squared", "huber", "poisson", "quantile"}, default="squared"
        "squared": targets are numbers, and predictions estimate their means. If n mu / f is at
        least 400, where f is 2 under "replace_one" and 1 under "add_remove", 5 to 15 % of mu^2 buys
        a slope and an offset after training. They calibrate the predictions, so that their mean
        agrees with that of the targets: see ``mean_std_``. "huber": targets are numbers, and
        predictions estimate robust centres, see `PrivateRidge`; the width is ``huber_width_``.
        "poisson": targets are counts, and their rates are the exponentials of raw predictions, as
        in `PrivatePoissonRegressor`. "quantile": targets are numbers, and predictions estimate a
        quantile of them, as in `PrivateQuantileRegressor`.
    quantile : float, default=0.5
        The quantile, in (0, 1), with ``loss="quantile"`` only.

    Attributes
    ----------
    has_exposure_ : bool
        Whether the fit was given exposures, see `PrivatePoissonRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateGAMRegressor
    >>> X = np.random.default_rng(0).uniform(0, 10, (20_000, 2))
    >>> y = np.sin(X[:, 0]) + np.abs(X[:, 1] - 5)
    >>> model = PrivateGAMRegressor(epsilon=1.0, bounds=(0, 10), target_bounds=(-1, 6)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9), round(model.epsilon_, 6)
    (True, 1.0)
    """

    has_exposure_: bool = False

    @answering
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        *,
        loss: str = "squared",
        quantile: float = 0.5,
        bounds: Any = "auto",
        categories: Any = "auto",
        interactions: Any = "auto",
        monotonic_cst: Any = None,
        start: Any = None,
        alpha: float | str = "auto",
        clip: float | str | None = "auto",
        target_bounds: Any = "auto",
        solver: Any = "auto",
        bound: str = "tightest",
        adjacency: str = "replace_one",
        max_rows_per_person: Any = "auto",
        weight_bounds: Any = None,
        schema: Any = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            bounds=bounds,
            categories=categories,
            interactions=interactions,
            monotonic_cst=monotonic_cst,
            start=start,
            alpha=alpha,
            clip=clip,
            target_bounds=target_bounds,
            solver=solver,
            bound=bound,
            adjacency=adjacency,
            max_rows_per_person=max_rows_per_person,
            weight_bounds=weight_bounds,
            schema=schema,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.loss = loss
        self.quantile = quantile

    @property
    def family(self) -> Family:  # type: ignore[override]
        """That of means or centres of numbers, of rates of counts, or of a quantile."""
        checked_choice(self.loss, "loss", ["squared", "huber", "poisson", "quantile"])
        if self.loss == "quantile":
            if np.ndim(self.quantile):
                raise ValueError(f"quantile={quoted(self.quantile)} must be one number in (0, 1)")
            return replace(family_of_quantiles(self.quantile), expand=expand)
        if np.ndim(self.quantile) or self.quantile != 0.5:
            raise ValueError(f"quantile={quoted(self.quantile)} goes with loss='quantile'")
        if self.loss == "poisson":
            return replace(PrivatePoissonRegressor.family, expand=expand)
        of_numbers = OF_CENTRES if self.loss == "huber" else OF_MEANS
        return replace(of_numbers, expand=expand, kept_length=rules.kept_length_of_curves)

    @shows_weights
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        exposure: Any = None,
        groups: Any = None,
        unit: str | None = None,
        equal_rows: bool = False,
        **not_taken: Any,
    ) -> Self:
        """Train on the records, spending at most (epsilon, delta).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN or None where values are missing.
        y : array-like of shape (n_samples,), default=None
            Targets.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each count, see `PrivatePoissonRegressor.fit`. ``loss="poisson"`` only.
        groups : array-like of shape (n_samples,), default=None
            Id of the person that each row belongs to, see `PrivateRidge.fit`.
        unit : str or None, default=None
            Name of the unit that the ids in ``groups`` stand for, such as "household". None:
            "person", or "record" without ``groups``.
        equal_rows : bool, default=False
            Whether all rows have the same weight, see `PrivateRidge.fit`.
        **not_taken : dict
            ``sample_weight``, a number for each row, if ``weight_bounds`` is set. Nothing else is
            accepted.

        Returns
        -------
        self : object
            The fitted estimator. If an error is raised, the estimator is left as it was before.
        """
        weight = weights_in_fit(self, not_taken)
        if exposure is not None and self.loss != "poisson":
            raise ValueError(_EXPOSURE)
        with all_or_nothing(self, X, y, groups, exposure, weight) as model, silent_arithmetic():
            fit(model, X, y, Beside(groups, unit, equal_rows, exposure, weight))
            model._settle()
        remember_rows(self, X)
        return self

    def _twin(self):
        cuts = self.loss != "poisson"
        return CutRegressor(*self.target_bounds_) if cuts else super()._twin()

    def predict(self, X: Any, exposure: Any = None) -> np.ndarray:
        """Predict targets; with ``loss="poisson"`` expected counts, or rates without an exposure.

        Predictions of numbers are clipped to ``target_bounds_``. If these bounds were bought, a few
        targets may be outside.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each row, see `PrivatePoissonRegressor.predict`. ``loss="poisson"`` only.

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If an exposure is passed with another loss, or if the exposures are not one number > 0
            for each row.
        """
        raw = super().predict(X)
        if self.loss == "poisson":
            return expected_counts(LOG.mean(raw), X, exposure)
        if exposure is not None:
            raise ValueError(_EXPOSURE)
        return np.clip(raw, *self.target_bounds_)

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """Return R^2, or D^2 with ``loss="poisson"`` or "quantile", without noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the score.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each count. None: 1 for each, which is refused after a fit with exposures.
            To score rates, pass ones.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the model was fitted with exposures and ``exposure`` is None, or if an exposure is
            passed with another loss.
        """
        refuse_lacking(exposure, self)
        if self.loss != "poisson":
            if exposure is not None:
                raise ValueError(_EXPOSURE)
            if self.loss != "quantile":
                return super().score(X, y, sample_weight)
            warn_of_own_rows(self, X)
            d2 = partial(d2_of_quantiles, self.quantile)
            return scored(d2, y, self.predict(X), sample_weight)
        warn_of_own_rows(self, X)
        return score_of_rates(y, self.predict(X), sample_weight, exposure)
