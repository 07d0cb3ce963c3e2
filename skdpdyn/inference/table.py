"""The table of coefficients with their standard errors, and how it is shown."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from skdpdyn.core.columns import OBJECTS, TEXT, Frame, numbers_in, spans_in, values_of
from skdpdyn.core.noise import source_of
from skdpdyn.evaluation.estimates import Estimate
from skdpdyn.exceptions import optional
from skdpdyn.inference.directions import Estimates, Sums
from skdpdyn.inference.levels import CellNames
from skdpdyn.inference.splines import Curve, Spline, factor_of_all
from skdpdyn.privacy import GaussianDP, privacy_report
from skdpdyn.privacy.checks import as_float, checked_flag, checked_number, quoted
from skdpdyn.privacy.display import Document, Shown, whose
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.report import Assumed, PrivacyReport
from skdpdyn.training.base import distinct
from skdpdyn.training.sources import Source

_STEP = 1e-4  # of raw predictions, for derivatives
_SCALES: dict[str | None, str] = {"odds ratio": "log odds", "rate ratio": "log rate"}


@dataclass(frozen=True)
class WaldTest:
    """A joint test that coefficients are 0, see `PrivateSummary.wald_test`.

    Parameters
    ----------
    statistic : float
        Wald statistic: approximately chi-squared distributed if all coefficients are 0.
    df : int
        Degrees of freedom: the number of coefficients.
    pvalue : float
        Probability of a larger statistic if all coefficients are 0.

    Examples
    --------
    >>> from skdpdyn.inference import WaldTest
    >>> WaldTest(statistic=6.0, df=2, pvalue=0.0498).df
    2
    """

    statistic: float
    df: int
    pvalue: float


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSummary(Shown):
    """A table of coefficients with their standard errors, as `private_regression` returns it.

    All of its attributes were released under ``privacy_``, so the table may be published.

    Parameters
    ----------
    names : tuple of str
        Name of each coefficient; the intercept is the last.
    coef : ndarray of shape (n_coefficients,)
        Estimates, without shrinkage by a penalty. NaN if there is not enough information.
    std_err : ndarray of shape (n_coefficients,)
        Standard errors, from sampling and all noise together. NaN where ``coef`` is.
    cov : ndarray of shape (n_coefficients, n_coefficients)
        Covariance of the errors of the estimates. NaN where ``coef`` is.
    sufficient_epsilon : ndarray of shape (n_coefficients,)
        Approximate epsilon at which a coefficient without an estimate would have one: on the tables
        of the benchmarks from .3 to 14 times the smallest such epsilon, and more with categories or
        where columns repeat others. Infinite if only noise was seen. NaN for coefficients with an
        estimate.
    hidden : tuple of tuple of str
        For each coefficient for which only noise was seen, the columns that may be collinear or
        constant.
    sums : Sums
        Estimates and errors of weighted sums of coefficients. A sum may have an estimate where its
        single coefficients have none.
    confidence : float
        Coverage probability of the intervals.
    title : str
        Title of the table.
    estimand : str
        Sentence that states which quantities the coefficients estimate.
    n_samples : int
        Public number of records, or of persons.
    privacy_ : Guarantee
        Guarantee of the model and this table together, for the unit that the model protects.
    mechanism_ : Composition
        Record of the releases for the table.
    delta_ : float
        Delta at which epsilon is printed.
    splines : dict of str to Spline
        Splines of numeric columns, by column name. `curve` returns their curves.
    levels : dict of str to CellNames
        By column of categories, which coefficient each level has, in ``column.levels`` and
        ``names``. None in place of a name: the reference.
    leaks_ : tuple of str, default=()
        Leaks of the model or the table, which the guarantees do not cover.
    sources_ : tuple of Source, default=()
        Models that were passed as parameters of the model, see `PrivateLinearModel`.
    inverse_link : callable or None, default=None
        Function from raw predictions to expectations. None: the identity.
    ratio : str or None, default=None
        Name of the exponential of a coefficient, such as "odds ratio". None: it has no name.
    residual_std, rsquared, rsquared_std_err : float or None, default=None
        For a linear regression: the standard deviation of the clipped residuals, the explained
        share of the target's variance, and the standard error of this share, from sampling and
        noise. The standard error assumes that residuals and predictions are approximately normal:
        for errors of Student's t with 3 degrees of freedom, intervals of .95 cover .8 to .93. All
        three follow from what was released for the other errors. None without enough
        information; R^2 is also None without an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.inference import private_regression
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [3.0, -2.0] + 10
    >>> model = PrivateRidge(target_bounds=(7.0, 13.0))
    >>> _, summary = private_regression(model, X, y, epsilon=1.0, bounds=(-0.5, 0.5))
    >>> summary.names, summary.conf_int().shape
    (('x0', 'x1', 'intercept'), (3, 2))
    >>> difference = summary.contrast({"x0": 1, "x1": -1})
    >>> bool(abs(difference.value - 5.0) < 3 * (difference.high - difference.low))
    True
    """

    names: tuple[str, ...]
    coef: np.ndarray
    std_err: np.ndarray
    cov: np.ndarray
    sufficient_epsilon: np.ndarray
    hidden: tuple[tuple[str, ...], ...]
    sums: Sums
    confidence: float
    title: str
    estimand: str
    n_samples: int
    privacy_: Guarantee
    mechanism_: Any
    delta_: float
    splines: Mapping[str, Spline]
    levels: Mapping[str, CellNames]
    leaks_: tuple[str, ...] = field(default=())
    sources_: tuple[Source, ...] = field(default=(), repr=False)
    inverse_link: Callable[[np.ndarray], np.ndarray] | None = None
    ratio: str | None = None
    residual_std: float | None = None
    rsquared: float | None = None
    rsquared_std_err: float | None = None

    @classmethod
    def of(cls, estimates: Estimates, **public: Any) -> "PrivateSummary":
        """Return the table of estimates; ``public`` are its other fields."""
        mu = public["privacy_"].mu
        epsilon = [
            factor
            if not math.isfinite(factor)
            else GaussianDP(mu * factor).epsilon(public["delta_"])
            for factor in estimates.factor.tolist()
        ]
        return cls(
            coef=estimates.params,
            std_err=np.sqrt(np.diag(estimates.cov)),
            cov=estimates.cov,
            sufficient_epsilon=np.array(epsilon),
            hidden=estimates.hidden,
            sums=estimates.sums,
            **public,
        )

    @property
    def answered(self) -> np.ndarray:
        """Whether each coefficient has an estimate, of shape (n_coefficients,)."""
        return np.isfinite(self.std_err)

    @property
    def params(self) -> np.ndarray:
        """Estimates, as statsmodels calls them: ``coef``."""
        return self.coef

    @property
    def bse(self) -> np.ndarray:
        """Standard errors, as statsmodels calls them: ``std_err``."""
        return self.std_err

    @property
    def tvalues(self) -> np.ndarray:
        """Coefficients divided by their standard errors."""
        return self.coef / self.std_err

    @property
    def pvalues(self) -> np.ndarray:
        """Probability of a larger absolute value of ``tvalues`` if the coefficient were 0."""
        return 2 * special.ndtr(-np.abs(self.tvalues))

    def conf_int(self, alpha: float | None = None) -> np.ndarray:
        """Return the lower and upper ends of the intervals.

        Parameters
        ----------
        alpha : float or None, default=None
            Probability that an interval does not cover. None: 1 - ``confidence``.

        Returns
        -------
        ndarray of shape (n_coefficients, 2)
        """
        width = self.quantile(alpha) * self.std_err
        return np.column_stack([self.coef - width, self.coef + width])

    @property
    def rsquared_interval(self) -> Estimate | None:
        """R^2 with its interval, clipped to [0, 1]; None if ``rsquared`` is None."""
        if self.rsquared is None or self.rsquared_std_err is None:
            return None
        width = self.quantile() * self.rsquared_std_err
        low = max(self.rsquared - width, 0.0)
        return Estimate(self.rsquared, low, min(self.rsquared + width, 1.0))

    def cov_params(self) -> np.ndarray:
        """Return the covariance matrix of the errors of the estimates, as statsmodels does."""
        return self.cov

    def contrast(self, weights: Mapping[str, float]) -> Estimate:
        """Return a weighted sum of coefficients with its interval, such as a difference.

        Parameters
        ----------
        weights : dict of str to float
            Weight of each coefficient, by its name. Missing names have weight 0.

        Returns
        -------
        Estimate
            NaN if there is not enough information on the sum. A sum may have an estimate where its
            single coefficients have none, such as the sum of two collinear columns.

        Raises
        ------
        ValueError
            If a name is not one of ``names``, or there are no weights.
        """
        if not isinstance(weights, Mapping):
            raise ValueError(
                f"weights={quoted(weights)} must be a dict of names and their weights, such as "
                "{'job: a': 1, 'job: b': -1}"
            )
        row = np.zeros(len(self.names))
        row[self._places(weights)] = [as_float(weight) for weight in weights.values()]
        return self._estimate(row @ self.sums.params, row)

    def wald_test(self, names: str | Sequence[str]) -> "WaldTest":
        """Return a joint test that all of these coefficients are 0, at no cost.

        Parameters
        ----------
        names : str or sequence of str
            Names of the coefficients, such as the dummies of a column.

        Returns
        -------
        WaldTest
            NaN if one of them has no estimate.

        Raises
        ------
        ValueError
            If a name is not one of ``names``, or none is given.
        """
        chosen = self._places(names)
        coef = self.coef[chosen]
        cov = self.cov[np.ix_(chosen, chosen)]
        is_answered = np.isfinite(cov).all()
        statistic = float(coef @ np.linalg.solve(cov, coef)) if is_answered else math.nan
        return WaldTest(statistic, len(chosen), float(special.chdtrc(len(chosen), statistic)))

    def standardized(self, X: Any, *, weights: Any = None, against: Any = None) -> Estimate:
        """Return the mean prediction for a public population, or the difference of two means.

        With rows that have a treatment as X, and the same rows without it as ``against``, this is
        the standardized risk difference. It costs nothing.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Public rows, such as rows of a census.
        weights : array-like of shape (n_rows,), default=None
            Public frequency of each row. None: all are equal.
        against : array-like of shape (n_rows, n_features), default=None
            Rows whose mean is subtracted. None: none.

        Returns
        -------
        Estimate
            Its interval is a first-order approximation (delta method). NaN if there is not enough
            information.

        Raises
        ------
        ValueError
            If X has another number of columns than there are coefficients.
        """
        value, gradient, answered = self._mean(X, weights)
        if against is not None:
            less, of_less, less_answered = self._mean(against, weights)
            value = value - less
            gradient = gradient - of_less
            answered = answered and less_answered
        return self._estimate(value if answered else math.nan, gradient)

    def marginal_effects(self, X: Any, *, weights: Any = None) -> dict[str, Estimate]:
        """Return the average marginal effect of each column, over public rows.

        It is the mean derivative of the prediction. For the effect of a dummy, use `standardized`
        with rows that have it against rows that do not.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Public rows.
        weights : array-like of shape (n_rows,), default=None
            Public frequency of each row. None: all are equal.

        Returns
        -------
        dict of str to Estimate
            Effects, by the name of the column.

        Raises
        ------
        ValueError
            If X has another number of columns than there are coefficients.
        """
        rows, raw = self._raw(X)
        part = _parts(weights, len(rows))
        slope = part @ self._slope(raw) if self._are_answered(rows, part) else math.nan
        bend = (part * self._bend(raw)) @ rows
        coef = self.sums.params
        return {
            name: self._estimate(slope * coef[j], slope * unit_vector + coef[j] * bend)
            for j, (name, unit_vector) in enumerate(
                zip(self.names, np.eye(len(self.names)), strict=True)
            )
            if j < len(self.names) - ("intercept" in self.names)
        }

    def curve(
        self,
        name: str,
        grid: Any = None,
        *,
        against: float | None = None,
        label: Any = None,
        simultaneous: bool = False,
    ) -> Curve:
        """Return the curve of a column that was expanded into splines, with its band, at no cost.

        The band includes sampling error and all noise. It does not include the error of
        approximating the curve by splines.

        Parameters
        ----------
        name : str
            One of ``splines``.
        grid : array-like of shape (n_points,), default=None
            Values of the column. None: 201 values between its bounds.
        against : float or None, default=None
            Value of the column at which the curve is 0. None: the curve has mean 0, by the released
            means of the columns.
        label : object, default=None
            With more than two classes, the class whose log odds against the first are returned.
        simultaneous : bool, default=False
            Whether the band contains the whole curve with the probability ``confidence``, instead
            of the curve at each point.

        Returns
        -------
        Curve
            NaN where there is not enough information.

        Raises
        ------
        ValueError
            If the name is not one of ``splines``.
        """
        if name not in self.splines:
            raise ValueError(
                f"name={quoted(name)} is not one of splines={[*self.splines]}: give "
                "private_regression splines={name: 8}"
            )
        spline = self.splines[name]
        prefix = "" if label is None else f"{label}: "
        places = self._places([prefix + column for column in spline.names])
        checked_flag(simultaneous, "simultaneous")
        grid = spline.grid if grid is None else np.asarray(grid, dtype=np.float64)
        rows = np.zeros((len(grid), len(self.names)))
        middle = spline.centre if against is None else spline.columns([against])
        rows[:, places] = spline.columns(grid) - middle
        std_err = self.sums.std_err(rows)
        known = np.isfinite(std_err)
        factor = self.quantile()
        if simultaneous:
            covariance = rows[known] @ self.sums.cov @ rows[known].T
            factor = factor_of_all(covariance, 1 - self.confidence, factor)
        value = np.where(known, rows @ self.sums.params, math.nan)
        low = value - factor * std_err
        high = value + factor * std_err
        of_all = "the whole curve" if simultaneous else "each point"
        meaning = f"{100 * self.confidence:g} % for {of_all}: sampling and all noise"
        return Curve(name, grid, value, low, high, meaning, _SCALES.get(self.ratio, "y"))

    def _mean(self, X, weights):
        """Return the mean expectation of rows, its gradient, and whether it is answered."""
        rows, raw = self._raw(X)
        part = _parts(weights, len(rows))
        mean = float(part @ self._expected(raw))
        return mean, (part * self._slope(raw)) @ rows, self._are_answered(rows, part)

    def _are_answered(self, rows, part):
        """Return whether there is enough information on raw predictions, if the link is not linear.

        A mean of raw predictions may be known where single ones are not; that of their expectations
        follows from single ones.
        """
        return self.inverse_link is None or self.sums.are_answered_together(rows, part)

    def _expected(self, raw):
        return raw if self.inverse_link is None else self.inverse_link(raw)

    def _slope(self, raw):
        """Return the derivative of expectations, by central differences."""
        return (self._expected(raw + _STEP) - self._expected(raw - _STEP)) / (2 * _STEP)

    def _bend(self, raw):
        return (self._slope(raw + _STEP) - self._slope(raw - _STEP)) / (2 * _STEP)

    def _estimate(self, value, gradient):
        """Return an estimate that errors of coefficients move along ``gradient``, or NaN."""
        width = self.quantile() * self.sums.std_err(gradient[None, :])[0]
        value = value if math.isfinite(width) else math.nan
        return Estimate(float(value), float(value - width), float(value + width))

    def _places(self, names):
        """Return the places of coefficients, by name."""
        names = [names] if isinstance(names, str) else names
        unknown = sorted(set(names) - set(self.names))
        if unknown or not len(names):
            raise ValueError(
                f"{unknown} are not in names={self.names!r}: give some of these. A reference level "
                "counts as 0: leave it out"
            )
        return [self.names.index(name) for name in names]

    def columns(self, X: Any) -> Any:
        """Return public rows with the columns of the table, which the model takes, too.

        Categories become dummies, missing numbers become what stood for them in the fit, and
        splines and products are computed.

        Parameters
        ----------
        X : DataFrame of shape (n_rows, n_features)
            Rows with the columns of the data, or with those of the table, in any order.

        Returns
        -------
        DataFrame of shape (n_rows, n_coefficients without the intercept)

        Raises
        ------
        ValueError
            If X is no frame, or has other columns.
        """
        import pandas  # slow to load

        frame = Frame.of(X)
        if frame is None or frame.names is None:
            raise ValueError("X must be a frame with the names of the columns")
        return pandas.DataFrame(self.columns_by_name(self._values(frame)))

    def _values(self, frame):
        """Return the columns of a frame by name: numbers, or levels."""
        frame.refuse_unreadable()
        values = {}
        for j, (key, kind) in enumerate(zip(frame.keys, frame.kinds, strict=True)):
            column = frame.take(slice(0, frame.n_rows), j)
            if kind in (TEXT, OBJECTS):
                values[str(key)] = np.asarray(column, dtype=object)
            else:
                values[str(key)] = numbers_in(column, kind)
        text = {key for key, cells in values.items() if cells.dtype == object}
        if not text <= {*self.levels}:
            raise ValueError(
                f"X holds text in {sorted(text - {*self.levels})}: the table has no levels of it"
            )
        return values

    def columns_by_name(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the columns of the table by name, of columns of rows by name.

        Parameters
        ----------
        values : dict of str to ndarray of shape (n_rows,)
            Levels, and numbers, NaN where they are missing; or columns of the table.

        Returns
        -------
        dict of str to ndarray of shape (n_rows,)

        Raises
        ------
        ValueError
            If there are other columns.
        """
        names = self.names[: len(self.names) - ("intercept" in self.names)]
        made = dict(values)
        for key, cells in self.levels.items():
            if key in values and cells.is_numeric:
                made[key] = np.where(np.isnan(values[key]), cells.filled, values[key])
            if key in values:
                of_rows = np.array(cells.of(values[key]), dtype=object)
                own = [name for name in names if name.startswith(f"{key}: ")]
                made = {name: of_rows == name for name in own} | made
        for key, spline in self.splines.items():
            if key in made:
                made |= dict(zip(spline.names, spline.columns(made[key]).T, strict=True))
        pairs = {f"{a} x {b}": (a, b) for a in made for b in made if f"{a} x {b}" in names}
        made = {name: made[a] * made[b] for name, (a, b) in pairs.items()} | made
        used = {*names, *self.levels, *self.splines}
        if not ({*names} <= {*made} and {*values} <= used):
            raise ValueError(
                f"X has the columns {sorted(values)}, but the table has {list(names)}: give these, "
                "or the columns that they were made of. For several classes use the model's "
                "predict_proba"
            )
        return {name: np.asarray(made[name], dtype=np.float64) for name in names}

    def _raw(self, X):
        """Return public rows with the constant, and sums of coefficients."""
        frame = None if isinstance(X, list | tuple) else Frame.of(X)
        n_columns = len(self.names) - ("intercept" in self.names)
        has_names = list(self.names[:n_columns]) != [f"x{j}" for j in range(n_columns)]
        if frame is not None and frame.names and has_names:
            X = np.column_stack([*self.columns_by_name(self._values(frame)).values()])
        else:
            X = np.asarray(values_of(X), dtype=np.float64) if frame is None else frame.matrix()
        if X.ndim != 2 or X.shape[1] != n_columns:
            raise ValueError(
                f"X has shape {X.shape}, but the table has {n_columns} coefficients. For several "
                "classes use the model's predict_proba"
            )
        rows = np.column_stack([X, np.ones((len(X), len(self.names) - n_columns))])
        return rows, rows @ self.sums.params

    def predict(self, X: Any, *, exposure: Any = None, interval: bool = False) -> np.ndarray:
        """Return predictions for public rows, from released numbers alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        exposure : array-like of shape (n_samples,), default=None
            Exposure of each row, for counts. None: 1.
        interval : bool, default=False
            Whether to return the ends of confidence intervals too.

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, 3) with the estimate, low and high
            NaN for rows without enough information.

        Raises
        ------
        ValueError
            If X has another number of columns than there are coefficients.
        """
        rows, raw = self._raw(X)
        width = self.quantile() * self.sums.std_err(rows)
        raw = np.where(np.isfinite(width), raw, math.nan)
        expectations = np.column_stack([raw, raw - width, raw + width] if interval else [raw])
        expectations = self._expected(expectations)
        if exposure is not None:
            expectations = expectations * spans_in(exposure)[:, None]
        return expectations if interval else expectations[:, 0]

    def summary(self, *, odds_ratios: bool = False) -> "PrivateSummary | str":
        """Return the table under the name that statsmodels uses; ``print`` shows it.

        Parameters
        ----------
        odds_ratios : bool, default=False
            Whether to return text that includes the exponentials of coefficients and intervals:
            odds ratios, or rate ratios for counts. An error for a linear regression.

        Returns
        -------
        PrivateSummary or str
        """
        return self.as_text(odds_ratios=True) if odds_ratios else self

    def quantile(self, alpha: float | None = None) -> float:
        """Return the half-width of an interval in standard errors.

        Parameters
        ----------
        alpha : float or None, default=None
            Probability that the interval does not cover. None: 1 - ``confidence``.

        Returns
        -------
        float
        """
        alpha = 1 - self.confidence if alpha is None else alpha
        requirement = "in (0, 1): how often intervals do not cover"
        alpha = checked_number(alpha, "alpha", lambda x: 0 < x < 1, requirement)
        return float(special.ndtri(1 - alpha / 2))

    def to_frame(self, *, odds_ratios: bool = False) -> Any:
        """Return the table as a pandas DataFrame.

        Parameters
        ----------
        odds_ratios : bool, default=False
            Whether to add the exponentials of coefficients and intervals: odds ratios, or rate
            ratios for counts. An error for a linear regression.

        Returns
        -------
        DataFrame
            One row for each coefficient, by its name.
        """
        pandas = optional("pandas", "plot")
        return pandas.DataFrame(dict(self._columns(odds_ratios)), index=list(self.names))

    def as_text(self, *, odds_ratios: bool = False) -> str:
        """Return the table as text, as ``print`` shows it.

        Parameters
        ----------
        odds_ratios : bool, default=False
            Whether to add the exponentials of coefficients and intervals: odds ratios, or rate
            ratios for counts. An error for a linear regression.

        Returns
        -------
        str
        """
        return self.document(odds_ratios=odds_ratios).text()

    def document(self, *, odds_ratios: bool = False) -> Document:
        """Return the table that is shown.

        Parameters
        ----------
        odds_ratios : bool, default=False
            As in `as_text`.

        Returns
        -------
        Document
        """
        names, columns = zip(*self._columns(odds_ratios), strict=True)
        rows = [
            (name, *(f"{number:.4g}" for number in numbers)) if answered else (name, why)
            for name, answered, why, *numbers in zip(
                self.names,
                self.answered,
                map(self._why, range(len(self.names))),
                *columns,
                strict=True,
            )
        ]
        return Document(self.title, [("", *names), *rows], self._notes(), self.leaks_)

    def privacy_report(self) -> PrivacyReport:
        """Return the privacy report of the releases for this table; the model has its own.

        Returns
        -------
        PrivacyReport
        """
        return privacy_report(
            self.mechanism_,
            self.privacy_,
            delta=self.delta_,
            bound="composition",
            assumed=Assumed(
                (f"n_samples={self.n_samples}", "the model and its parameters"),
                source_of(self.leaks_),
                self.leaks_,
            ),
        )

    def _columns(self, odds_ratios):
        """Return the pairs (name, values) of the table."""
        ratio = self.ratio_shown(odds_ratios)
        low, high = (f"{end:.4g}" for end in ((1 - self.confidence) / 2, (1 + self.confidence) / 2))
        low_end, high_end = self.conf_int().T
        columns = [
            ("coef", self.coef),
            ("std err", self.std_err),
            ("z", self.tvalues),
            ("P>|z|", self.pvalues),
            (f"[{low}", low_end),
            (f"{high}]", high_end),
        ]
        if ratio:
            short_name = ratio.split()[0]
            with np.errstate(over="ignore"):
                columns += [
                    (ratio, np.exp(self.coef)),
                    (f"{short_name} [{low}", np.exp(low_end)),
                    (f"{short_name} {high}]", np.exp(high_end)),
                ]
        return columns

    def ratio_shown(self, odds_ratios: bool) -> str | None:
        """Return ``ratio`` if it is asked for.

        Raises
        ------
        ValueError
            If it is asked for, and exponentials of these coefficients mean nothing.
        """
        if checked_flag(odds_ratios, "odds_ratios") and self.ratio is None:
            raise ValueError(
                "odds_ratios=True: exponentials of the coefficients of a linear regression are not "
                "ratios. Use odds_ratios=False"
            )
        return self.ratio if odds_ratios else None

    def _why(self, i):
        if math.isinf(self.sufficient_epsilon[i]):
            if not self.hidden[i]:
                return "no information: counts as the reference, so that others have an estimate"
            causes = ["collinear" if len(self.hidden[i]) > 1 else "constant"]
            causes += ["perfectly separating"] * (self.ratio is not None)
            names = ", ".join(self.hidden[i])
            return f"no information: {names} may be {', '.join(causes)}, or hidden by noise"
        enough = f"epsilon={self.sufficient_epsilon[i]:.2g}"
        return f"not enough information; {enough}, often less, could give it"

    def _notes(self):
        spent = f"epsilon={float(self.privacy_.epsilon(self.delta_)):.6g} for model and table"
        where = f"(delta={self.delta_:.3g}, {whose(self.privacy_)})"
        notes = [self.estimand, f"spent: {spent} {where}"]
        if self.residual_std is not None:
            interval = self.rsquared_interval
            rsquared = "" if interval is None else f", R^2 = {interval!r}"
            notes.insert(1, f"standard deviation of residuals = {self.residual_std:.4g}{rsquared}")
        ask = (
            "plan_table says what a budget answers, and how wide intervals are, before it is spent"
        )
        return notes if self.answered.all() else [*notes, ask]


def _parts(weights: Any, n_rows: int) -> np.ndarray:
    """Return weights of public rows that add up to 1."""
    parts = np.ones(n_rows) if weights is None else np.asarray(weights, dtype=np.float64)
    if parts.shape != (n_rows,) or not (np.all(parts >= 0) and 0 < parts.sum() < math.inf):
        raise ValueError(f"weights must hold a number >= 0 for each of the {n_rows} rows of X")
    return parts / parts.sum()


def names_of(model: Any) -> tuple[str, ...]:
    """Return the names of a fitted model's columns, and "intercept" if it has one."""
    names = getattr(model, "feature_names_in_", None)
    names = [f"x{i}" for i in range(model.n_features_in_)] if names is None else list(names)
    return (*names, *distinct(["intercept"] * bool(model.intercept_scaling_), names))
