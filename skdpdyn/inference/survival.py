"""Time to event in discrete time: a row for each person and period, and survival curves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpdyn.core.columns import spans_in, values_of
from skdpdyn.core.losses import LOGIT
from skdpdyn.inference.table import PrivateSummary
from skdpdyn.privacy.checks import checked_number, quoted
from skdpdyn.training.base import of_list, quoting_no_records
from skdpdyn.training.targets import as_labels, codes_of


def person_periods(
    durations: Any, events: Any, times: Any, X: Any = None, *, entries: Any = None, event: int = 1
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Return a row for each person and period at risk, for a regression of hazards.

    The hazard of a period is the probability that the event happens in it, if it has not before.
    Its log odds are modelled as an intercept for each period plus a linear function of the columns.
    This is a logistic regression of the rows returned here: use `private_regression` with
    ``groups``, ``at_risk``, ``equal_rows=True`` and a model with
    ``max_rows_per_person=len(times)``. All rows then have the same weight, whatever happens, and
    the guarantee is for a person with all of their rows. (Weights of 1/k for a person with k rows
    would bias hazards: persons who leave early would count more in each period.) If persons have
    several spells, each spell is one of the durations. Pass ``groups=ids[groups]``, where ``ids``
    has the person's id for each spell, and multiply ``max_rows_per_person`` by the largest number
    of spells of a person, a public number. If a person had more rows, some would not be used, which
    biases hazards. Without ids the guarantee would be for a spell.

    Parameters
    ----------
    durations : array-like of shape (n_persons,)
        Time of each person's event, or until when there was none: finite, above 0. Durations by
        their type (``timedelta64``) count in days, here and in ``times``.
    events : array-like of shape (n_persons,)
        Which event happened: 0 for none, or ``event``. Another number is another event, such as a
        death of another cause: a person who had it was at risk until the end of its period.
    times : array-like of shape (n_periods,)
        Ends of the periods, public: increasing numbers above 0. A person whose duration is beyond
        the last period counts as censored at its end. A person who is censored in the first half of
        a period counts as censored at its start, and in the second half as censored at its end. The
        resulting bias of a hazard is about a twelfth of its square, times the proportion of persons
        who are censored.
    X : array-like of shape (n_persons, n_features), default=None
        Columns of each person, which are repeated. None: none.
    entries : array-like of shape (n_persons,), default=None
        Time from which each person is observed, before that of ``durations`` (delayed entry). A
        person who enters in the first half of a period is at risk from its start. A person who
        enters in the second half is at risk from its end, or from its start if they have an event
        in the same period. None: 0.
    event : int, default=1
        The event whose hazard it is: a regression of each of several events, see `IncidenceCurve`.

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
        False in the row of a person who is at risk in no period, such as one who is censored in the
        first half of the first. This row is not used, but the person counts towards the number of
        persons, which is public.

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
    entries = np.zeros(durations.shape) if entries is None else entries
    entries = quoting_no_records(spans_in, entries)
    checked_number(
        event, "event", lambda x: x != 0 and x == round(x), "a whole number other than 0"
    )
    events = quoting_no_records(as_labels, events, [0, event])
    events = quoting_no_records(np.asarray, events)
    if hasattr(X, "to_pandas"):  # frames of other libraries
        X = quoting_no_records(X.to_pandas)
    if X is not None and not hasattr(X, "iloc"):
        X = of_list(X) if isinstance(X, list | tuple) else quoting_no_records(np.asarray, X)
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
        (entries.shape == durations.shape, "entries must hold one number for each person"),
        ((entries >= 0) & (entries < durations), "entries must hold numbers in [0, durations)"),
    ):
        if not np.all(holds):
            raise ValueError(message)
    codes = quoting_no_records(codes_of, events, np.array(sorted((0, event))))
    happens = codes == int(event > 0)
    first, last = _periods_at_risk(entries, durations, codes == int(event < 0), times)
    at_risk = first <= last
    last = np.maximum(last, 0)
    first = np.minimum(first, last)
    n_rows = last - first + 1
    groups = np.repeat(np.arange(durations.size), n_rows)
    period = np.arange(groups.size) - np.repeat(np.cumsum(n_rows) - n_rows - first, n_rows)
    happens &= durations <= times[-1]
    y = (happens[groups] & at_risk[groups] & (period == last[groups])).astype(np.int64)
    rows = (period[:, None] == np.arange(1, times.size)).astype(np.float64)
    if hasattr(X, "iloc"):
        frame = X.iloc[groups].reset_index(drop=True)
        for k, end in list(enumerate(times.tolist()))[:0:-1]:
            frame.insert(0, f"period to {end:g}", rows[:, k - 1])
        return frame, y, groups, at_risk[groups]
    rows = rows if X is None else np.column_stack([rows, X[groups]])
    return rows, y, groups, at_risk[groups]


def _periods_at_risk(entries, durations, is_censored, times):
    """Return the first and the last period at risk of each person; the first may be behind it."""
    starts = np.append(0.0, times[:-1])
    middles = np.append((starts + times) / 2, math.inf)
    first = np.searchsorted(times, entries, side="right")
    last = np.minimum(np.searchsorted(times, durations), times.size - 1)
    # events in the period of entry count whenever that was, as those of persons who were there
    is_late = (entries >= middles[first]) & (is_censored | (last > first))
    return first + is_late, last - (is_censored & (durations < middles[last]))


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
        x : array-like of shape (n_features,), dict or frame of one row, default=()
            Columns of the person whose curve it is, in the order of the table, or by name, which
            may be columns of levels in place of their dummies.

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
        rows = _rows_of_periods(table, times, x)
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


def _rows_of_periods(table, times, x):
    """Return a row of the table's columns for each period of a person, with the constant."""
    n_periods = times.size
    names = table.names[n_periods - 1 : -1]
    if hasattr(x, "items"):
        of_levels = [key for key, cells in table.levels.items() if not cells.is_numeric]
        values = dict.fromkeys(table.names[: n_periods - 1], np.zeros(1))
        for key, of_one in x.items():
            kind = object if str(key) in of_levels else np.float64
            values[str(key)] = np.array([getattr(of_one, "iloc", [of_one])[0]], dtype=kind)
        made = table.columns_by_name(values)
        x = np.concatenate([made[name] for name in names])
    else:
        x = np.asarray(values_of(x), dtype=np.float64)
    if n_periods + x.size != len(table.names):
        raise ValueError(
            f"times={times.tolist()!r} and x have {n_periods + x.size} numbers, but the table "
            f"has {len(table.names)} coefficients"
        )
    rows = np.column_stack([np.eye(n_periods, n_periods - 1, -1), np.tile(x, (n_periods, 1))])
    return np.column_stack([rows, np.ones(n_periods)])


@dataclass(frozen=True, eq=False)
class IncidenceCurve:
    """Probability that one of several events has happened first up to each of some times.

    Parameters
    ----------
    times : ndarray of shape (n_periods + 1,)
        0, and the ends of the periods.
    incidence, low, high : dict of ndarray of shape (n_periods + 1,)
        By event, the probability, and the ends of its interval at each time; NaN from a period on
        whose hazards are not all known.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.inference import IncidenceCurve, person_periods, private_regression
    >>> rng = np.random.default_rng(0)
    >>> durations, times = rng.exponential(2.0, 50_000), [1, 2, 3]
    >>> causes = rng.integers(1, 3, 50_000)
    >>> tables = {}
    >>> for event in (1, 2):
    ...     X, y, groups, at_risk = person_periods(durations, causes, times, event=event)
    ...     _, tables[event] = private_regression(
    ...         PrivateLogisticRegression(max_rows_per_person=3),
    ...         X,
    ...         y,
    ...         epsilon=4.0,
    ...         bounds=(0, 1),
    ...         classes=[0, 1],
    ...         groups=groups,
    ...         equal_rows=True,
    ...         at_risk=at_risk,
    ...     )
    >>> curve = IncidenceCurve.of(tables, times)
    >>> bool(np.all(np.abs(curve.incidence[2] - (1 - np.exp(-curve.times / 2)) / 2) < 0.05))
    True
    """

    times: np.ndarray
    incidence: dict[Any, np.ndarray]
    low: dict[Any, np.ndarray]
    high: dict[Any, np.ndarray]

    @classmethod
    def of(cls, tables: Mapping[Any, PrivateSummary], times: Any, x: Any = ()) -> "IncidenceCurve":
        """Return the curves of tables of hazards, each of which has a release of its own.

        Parameters
        ----------
        tables : dict of PrivateSummary
            By event, the table of a logistic regression of its `person_periods`.
        times : array-like of shape (n_periods,)
            The ends of the periods.
        x : array-like of shape (n_features,), dict or frame of one row, default=()
            Columns of the person whose curves they are, see `SurvivalCurve.of`.

        Returns
        -------
        IncidenceCurve
            Intervals are symmetric in log(-log(1 - incidence)), to first order in the errors, those
            of different tables taken to be uncorrelated.

        Raises
        ------
        ValueError
            If a table has another number of coefficients.
        """
        times = spans_in(times)
        rows = {event: _rows_of_periods(table, times, x) for event, table in tables.items()}
        raw = [rows[event] @ table.sums.params for event, table in tables.items()]
        hazards = np.array([LOGIT.mean(numbers) for numbers in raw])
        left = np.maximum(1 - hazards.sum(axis=0), 1e-12)
        before = np.cumprod(np.append(1.0, left[:-1]))
        known = [table.sums.are_answered(rows[event]) for event, table in tables.items()]
        answered = np.logical_and.accumulate(np.all(known, axis=0))
        curves: tuple[dict, ...] = ({}, {}, {})
        for k, event in enumerate(tables):
            value = np.cumsum(before * hazards[k])
            variance = np.zeros(times.size)
            for j, (other, table) in enumerate(tables.items()):
                # a hazard adds to its own events, and takes from all that come later
                slopes = np.tril(before * (j == k) - (value[:, None] - value) / left)
                bend = hazards[j] * (1 - hazards[j])
                variance += table.sums.std_err((slopes * bend) @ rows[other]) ** 2
            width = table.quantile() * np.sqrt(variance)
            for curve, end in zip(curves, _interval(value, width), strict=True):
                curve[event] = np.append(0.0, np.where(answered, end, math.nan))
        return cls(np.append(0.0, times), *curves)


def _interval(value, width):
    """Return probabilities, and the ends of intervals symmetric in log(-log(1 - value))."""
    total = -np.log1p(-np.clip(value, 1e-12, 1 - 1e-12))
    factor = np.exp(width / (np.exp(-total) * total))
    return value, -np.expm1(-total / factor), -np.expm1(-total * factor)
