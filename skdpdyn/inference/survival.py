"""Time to event in discrete time: a row for each person and period, and survival curves."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpdyn.core.columns import spans_in, values_of
from skdpdyn.core.losses import LOGIT
from skdpdyn.inference.table import PrivateSummary
from skdpdyn.privacy.checks import quoted
from skdpdyn.training.base import quoting_no_records
from skdpdyn.training.targets import as_labels, codes_of


def person_periods(
    durations: Any, events: Any, times: Any, X: Any = None
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Return a row for each person and period at risk, for a regression of hazards.

    The hazard of a period is the probability that the event happens in it, if it has not before.
    Its logarithmic odds are a sum of one number for each period and of coefficients times columns:
    a logistic regression of these rows, by `private_regression` with ``groups``, ``at_risk``,
    ``equal_rows=True`` and a model with ``max_rows_per_person=len(times)``: rows weigh the same,
    whatever happens, and the guarantee is for a person with all rows. (Weights 1/k of a person with
    k rows would bend hazards: those who leave early would count more in each period.) Of persons
    with several spells each spell is one of the durations: pass ``groups=ids[groups]``, with ids of
    persons, and ``max_rows_per_person=len(times) * the most spells of a person``, a public number:
    of more rows, some would not be used, which bends hazards. Without ids the guarantee would be
    for a spell.

    Parameters
    ----------
    durations : array-like of shape (n_persons,)
        Time of each person's event, or until when there was none: finite, above 0. Durations by
        their type (``timedelta64``) count in days, here and in ``times``.
    events : array-like of shape (n_persons,)
        Whether the event happened: 0 or 1. Another number is another event, such as a death of
        another cause: it counts as 0.
    times : array-like of shape (n_periods,)
        Ends of the periods, public: increasing numbers above 0. A person whose duration is beyond
        the last counts as without an event at its end; one who is censored in the first half of a
        period, as without an event at its start, and at its end in the second half. So hazards are
        off by about their square times a twelfth of the part of persons who are censored.
    X : array-like of shape (n_persons, n_features), default=None
        Columns of each person, which are repeated. None: none.

    Returns
    -------
    X : ndarray or DataFrame of shape (n_rows, n_periods - 1 + n_features)
        Whether the row is of the second, third, ... period, then the columns. The intercept is of
        the first period. A frame where X is one.
    y : ndarray of shape (n_rows,)
        1 where the event happens in the period.
    groups : ndarray of shape (n_rows,)
        Number of each row's person.
    at_risk : ndarray of bool of shape (n_rows,)
        False in the row of a person who is censored in the first half of the first period: it does
        not count, but the person does, since their number is public.

    Raises
    ------
    ValueError
        If an array has another shape, ``times`` do not increase, or a duration is not above 0. No
        record is quoted.

    Examples
    --------
    >>> from skdpdyn.inference import person_periods
    >>> X, y, groups, at_risk = person_periods([0.5, 2.0, 0.2], [1, 0, 0], times=[1, 2, 3])
    >>> X.tolist(), y.tolist(), groups.tolist()
    ([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]], [1, 0, 0, 0], [0, 1, 1, 2])
    >>> at_risk.tolist()
    [True, True, True, False]
    """
    times = quoting_no_records(spans_in, times)
    durations = quoting_no_records(spans_in, durations)
    events = quoting_no_records(as_labels, events, [0, 1])
    events = quoting_no_records(np.asarray, events)
    if hasattr(X, "to_pandas"):  # frames of other libraries
        X = quoting_no_records(X.to_pandas)
    if X is not None and not hasattr(X, "iloc"):
        X = quoting_no_records(np.asarray, X)
    if times.ndim != 1 or times.size < 2 or not (times[0] > 0 and np.all(np.diff(times) > 0)):
        raise ValueError(
            f"times={quoted(times.tolist())} must be two or more increasing numbers > 0"
        )
    n_rows = durations.size if X is None else quoting_no_records(len, X)
    alike = durations.ndim == 1 and events.shape == durations.shape
    for holds, message in (
        (alike, "durations and events must hold one number for each person"),
        (np.isfinite(durations) & (durations > 0), "durations must hold finite numbers > 0 only"),
        (n_rows == durations.size, f"X has {n_rows} rows, and durations {durations.size}"),
    ):
        if not np.all(holds):
            raise ValueError(message)
    happens = quoting_no_records(codes_of, events, np.array([0, 1])) == 1
    last = np.minimum(np.searchsorted(times, durations), times.size - 1)
    early = ~happens & (durations < (np.append(0.0, times)[last] + times[last]) / 2)
    at_risk = ~(early & (last == 0))
    last = np.maximum(last - early, 0)
    groups = np.repeat(np.arange(durations.size), last + 1)
    period = np.arange(groups.size) - np.repeat(np.cumsum(last + 1) - last - 1, last + 1)
    happens &= durations <= times[-1]
    y = (happens[groups] & (period == last[groups])).astype(np.int64)
    rows = (period[:, None] == np.arange(1, times.size)).astype(np.float64)
    if hasattr(X, "iloc"):
        frame = X.iloc[groups].reset_index(drop=True)
        for k, end in list(enumerate(times.tolist()))[:0:-1]:
            frame.insert(0, f"period to {end:g}", rows[:, k - 1])
        return frame, y, groups, at_risk[groups]
    rows = rows if X is None else np.column_stack([rows, X[groups]])
    return rows, y, groups, at_risk[groups]


@dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """Probability of no event up to each of some times, with a band.

    Parameters
    ----------
    times : ndarray of shape (n_periods + 1,)
        0, and the ends of the periods.
    survival, low, high : ndarray of shape (n_periods + 1,)
        The probability, and the ends of its interval at each time; NaN from a period on whose
        hazard has no estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.inference import SurvivalCurve, person_periods, private_regression
    >>> rng = np.random.default_rng(0)
    >>> durations, times = rng.exponential(2.0, 50_000), [1, 2, 3]
    >>> X, y, groups, at_risk = person_periods(durations, np.ones(50_000), times)
    >>> _, table = private_regression(
    ...     PrivateLogisticRegression(max_rows_per_person=3),
    ...     X,
    ...     y,
    ...     epsilon=4.0,
    ...     bounds=(0, 1),
    ...     classes=[0, 1],
    ...     groups=groups,
    ...     equal_rows=True,
    ...     at_risk=at_risk,
    ... )
    >>> curve = SurvivalCurve.of(table, times)
    >>> bool(np.all(np.abs(curve.survival - np.exp(-curve.times / 2)) < 0.05))
    True
    """

    times: np.ndarray
    survival: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, table: PrivateSummary, times: Any, x: Any = ()) -> "SurvivalCurve":
        """Return the curve of a table of hazards.

        Parameters
        ----------
        table : PrivateSummary
            Table of a logistic regression of `person_periods`.
        times : array-like of shape (n_periods,)
            The ends of the periods.
        x : array-like of shape (n_features,), default=()
            Columns of the person whose curve it is.

        Returns
        -------
        SurvivalCurve
            The interval is symmetric in log(-log(survival)), to first order in the errors.

        Raises
        ------
        ValueError
            If the table has another number of coefficients.
        """
        times = spans_in(times)
        x = np.asarray(values_of(x), dtype=np.float64)
        n_periods = times.size
        if n_periods + x.size != len(table.names):
            raise ValueError(
                f"times={times.tolist()!r} and x have {n_periods + x.size} numbers, and the table "
                f"{len(table.names)} coefficients"
            )
        rows = np.column_stack([np.eye(n_periods, n_periods - 1, -1), np.tile(x, (n_periods, 1))])
        rows = np.column_stack([rows, np.ones(n_periods)])
        raw = rows @ table.sums.params
        hazards = LOGIT.mean(raw)
        total = np.cumsum(np.log1p(np.exp(raw)))  # minus the logarithm of survival
        slopes = np.cumsum(hazards[:, None] * rows, axis=0)
        # a period on which there is not enough information hides later ones only
        answered = np.logical_and.accumulate(table.sums.are_answered(rows))
        std_err = np.where(answered, table.sums.std_err(slopes), math.nan)
        factor = np.exp(table.quantile() * std_err / total)
        survival = np.where(answered, np.exp(-total), math.nan)
        ends = [survival, np.exp(-total * factor), np.exp(-total / factor)]
        return cls(np.append(0.0, times), *(np.append(1.0, end) for end in ends))
