"""The one reader of columns: a dtype decides the type, and cells become numbers or level keys.

A column's type decides, which is public, or what a schema says of it. No cell is looked at to
decide what a column is. A cell becomes a number, or the key of its level, by itself alone.
"""

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np

NUMBER = "number"
FLAG = "flag"
DATE = "date"
TEXT = "text"
OBJECTS = "objects"  # of Python: text, unless a schema says otherwise
INTERVALS = "intervals"  # whose edges come from all records, unless levels are given
REFUSED = "refused"
TYPES = NUMBER, FLAG, DATE, TEXT
"""What a schema may say of a column."""

_OF_NUMPY = dict.fromkeys("iufm", NUMBER) | {"b": FLAG, "M": DATE, "U": TEXT, "T": TEXT}
_OF_POLARS = {
    "Boolean": FLAG,
    "String": TEXT,
    "Categorical": TEXT,
    "Enum": TEXT,
    "Date": DATE,
    "Datetime": DATE,
    "Duration": NUMBER,
    "Object": OBJECTS,
    "Null": OBJECTS,
}
_SINGLE = re.compile(r"bool.*|u?int(8|16)\b.*|halffloat.*|float16.*", re.IGNORECASE).fullmatch
_IS_NUMERIC = re.compile(  # numpy's names, and what scikit-learn keeps sparse
    r"bool|u?int\d+|float\d+|Sparse\[.*, (0|0\.0)\]"
).fullmatch
_FLOATS = "float32", "float", "float[pyarrow]"  # names of single precision
_LARGEST = 2**53  # floats hold all smaller integers
_MOST_DIGITS = 17
_FEW = 16  # cells that Python looks at as soon as pandas does
_LAST_DAY = 1e8  # which microseconds in 64 bits reach
_IS_PLAIN = re.compile(r"-?[0-9]+\.[0-9]+").fullmatch
_FAR = re.compile(  # dates that Python's own end before; with a time, and its distance from UTC
    r"([+-]?\d{4,}-\d\d-\d\d)(?:([T ][\d:.]*)(?:Z|([+-]\d\d):?(\d\d)?)?)?"
).fullmatch
_PLAIN_TYPES = {str, int, float, bool, type(None)}  # of which equal values have equal keys


def kind_of(dtype: Any) -> str:
    """Return the kind of columns of a type of numpy, pandas, pyarrow or polars.

    Parameters
    ----------
    dtype : dtype
        The type.

    Returns
    -------
    str
        "number", also of durations, "flag", "date", "text", also of categories, or for types that
        nothing is known of without a schema "objects" and "intervals"; "refused" for all others.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.core.columns import kind_of
    >>> [kind_of(np.dtype(name)) for name in ("int8", "bool", "M8[s]", "O", "complex64")]
    ['number', 'flag', 'date', 'objects', 'refused']
    """
    dtype = getattr(dtype, "pyarrow_dtype", dtype)  # of pandas
    library = _library_of(dtype)
    if library == "pyarrow":
        return _kind_of_arrow(dtype)
    if library == "polars":
        name = dtype.base_type().__name__
        return NUMBER if dtype.is_numeric() else _OF_POLARS.get(name, REFUSED)
    name = type(dtype).__name__
    if name == "CategoricalDtype":
        values = getattr(dtype.categories, "dtype", None)
        return INTERVALS if type(values).__name__ == "IntervalDtype" else TEXT
    if name == "SparseDtype":
        return kind_of(dtype.subtype)
    named = {"IntervalDtype": INTERVALS, "PeriodDtype": DATE, "StringDtype": TEXT}
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        return OBJECTS
    return named.get(name) or _OF_NUMPY.get(getattr(dtype, "kind", ""), REFUSED)


def _library_of(thing):
    """Return the name of the library that a type, a column or a class is of."""
    kind = thing if isinstance(thing, type) else type(thing)
    return kind.__module__.partition(".")[0]


def _kind_of_arrow(dtype):
    types = import_module("pyarrow.types")
    if types.is_dictionary(dtype):
        return TEXT if _kind_of_arrow(dtype.value_type) != REFUSED else REFUSED
    kinds = {
        NUMBER: (types.is_integer, types.is_floating, types.is_decimal, types.is_duration),
        FLAG: (types.is_boolean,),
        DATE: (types.is_date, types.is_timestamp),
        TEXT: (types.is_string, types.is_large_string, getattr(types, "is_string_view", bool)),
        OBJECTS: (types.is_null,),
    }
    return next(
        (kind for kind, tests in kinds.items() if any(test(dtype) is True for test in tests)),
        REFUSED,
    )


def _is_plain(dtype):
    """Return whether a type is one of numpy's, of flags and numbers."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def _shown(dtype):
    """Return a type's name, without the levels that an enumeration of polars shows."""
    return dtype.base_type().__name__ if _library_of(dtype) == "polars" else str(dtype)


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Frame:
    """The columns of a frame, or of an array, in their order.

    Parameters
    ----------
    names : list or None
        Names of the columns; None: an array's, which are known by their number.
    types : list of str
        Their types, as errors name them.
    kinds : list of str
        What they hold, see `kind_of`.
    n_rows : int
        Number of rows.
    take : callable
        Returns a column's cells in some rows, of a slice and the number of the column.
    may_be_single : bool, default=False
        Whether columns of single precision stay so: those of pandas do, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.core.columns import Frame
    >>> frame = Frame.of(np.array([["1", "x"], ["2", "y"]], dtype=object))
    >>> frame.kinds, frame.said({0: "number"}).kinds
    (['objects', 'objects'], ['number', 'objects'])
    """

    names: list[Any] | None
    types: list[str]
    kinds: list[str]
    n_rows: int
    take: Callable[[slice, int], Any]
    may_be_single: bool = False

    @classmethod
    def of(cls, X: Any) -> "Frame | None":
        """Return the columns of a frame of pandas, pyarrow or polars, or of an array.

        None: it is neither.
        """
        if isinstance(X, np.ndarray):
            if X.ndim != 2:
                return None
            names_of_types = [str(X.dtype)] * X.shape[1]
            kinds = [kind_of(X.dtype)] * X.shape[1]
            return cls(None, names_of_types, kinds, len(X), lambda part, j: X[part, j])
        dtypes = getattr(X, "dtypes", None)
        if dtypes is None and hasattr(X, "schema"):  # of pyarrow
            dtypes = X.schema.types
        if dtypes is None or not hasattr(X, "columns"):
            return None
        if hasattr(X, "iloc"):
            of_each = cache(lambda: [column for _, column in X.items()])  # at a fifth of `iloc`
            of_pandas = cls._of(
                list(X.columns), dtypes, len(X), lambda part, j: _part_of(of_each()[j], part)
            )
            return replace(of_pandas, may_be_single=True)
        names = list(X.columns if hasattr(X, "get_columns") else X.schema.names)
        columns = X.get_columns() if hasattr(X, "get_columns") else X.columns
        return cls._of(names, dtypes, X.shape[0], lambda part, j: columns[j][part])

    @classmethod
    def _of(cls, names, dtypes, n_rows, take):
        dtypes = list(dtypes)
        return cls(names, [*map(_shown, dtypes)], [*map(kind_of, dtypes)], n_rows, take)

    @property
    def keys(self) -> list[Any]:
        """Names of the columns, or their numbers."""
        return list(range(len(self.kinds))) if self.names is None else self.names

    def said(self, types: Mapping[Any, str]) -> "Frame":
        """Return the same columns with the kinds that a schema says; dates are numbers, too.

        Parameters
        ----------
        types : mapping
            Columns and what they hold, of `TYPES`.
        """
        kinds = zip(self.keys, self.kinds, strict=True)
        return replace(self, kinds=[_said(types.get(key, own), own) for key, own in kinds])

    def named(self, *kinds: str) -> str:
        """Return the columns of some kinds with their types, as errors name them."""
        every = zip(self.keys, self.types, self.kinds, strict=True)
        return ", ".join(f"{key!r} ({type_})" for key, type_, kind in every if kind in kinds)

    @property
    def is_sparse(self) -> bool:
        """Whether columns are sparse ones of pandas."""
        return any(type_.startswith("Sparse[") for type_ in self.types)

    @property
    def is_plain(self) -> bool:
        """Whether numpy makes numbers of all columns as they are: no dates, spans or decimals."""
        return all(kind in (NUMBER, FLAG) for kind in self.kinds) and all(
            map(_IS_NUMERIC, self.types)
        )

    def refuse_unreadable(self) -> None:
        """Refuse columns of types that are neither numbers, flags, dates nor levels."""
        if unreadable := self.named(REFUSED):
            is_complex = any("complex" in str(type_) for type_ in self.types)
            raise ValueError(
                f"X holds columns that are not numbers, dates, flags or text: {unreadable}. "
                + "Complex data not supported. " * is_complex  # scikit-learn's words
                + "Cast them to one of these, or leave them out"
            )

    def matrix(self) -> np.ndarray:
        """Return columns of numbers, dates and flags as an array of floats, NaN where missing.

        Raises
        ------
        ValueError
            If other columns are among them; the error names them, with what to do.
        """
        self.refuse_unreadable()
        if intervals := self.named(INTERVALS):
            raise ValueError(intervals_of(intervals))
        if others := self.named(TEXT, OBJECTS):
            raise ValueError(
                f"X holds columns that are not numbers: {others}. Where their cells are numbers or "
                "dates, say so, by schema=Schema(types={column: 'number'}) or 'date', or convert "
                "them. PrivateGAMClassifier and PrivateGAMRegressor take text as it is, and "
                "private_regression with categories='auto'. Or encode it, for example by "
                "OneHotEncoder(categories=...) in a ColumnTransformer"
            )
        every = slice(0, self.n_rows)
        rows = np.empty((self.n_rows, len(self.kinds)), self._precision())
        for j, kind in enumerate(self.kinds):
            rows[:, j] = numbers_in(self.take(every, j), kind)
        return rows

    def _precision(self):
        """Return single precision where numpy would take it for all columns together."""
        others = [type_ for type_ in self.types if not _SINGLE(type_)]
        is_single = others and all(type_.lower() in _FLOATS for type_ in others)
        return np.float32 if self.may_be_single and is_single else np.float64


def _part_of(column, part):
    """Return some rows of a column of pandas, where slicing takes longer than reading one cell."""
    covers_all = part.start == 0 and part.stop >= len(column)
    return column if covers_all else column.iloc[part]


def intervals_of(columns: str) -> str:
    """Return the error of columns of intervals whose edges nobody has given."""
    return (
        f"X holds columns of intervals: {columns}. pandas.cut takes their edges from all records, "
        "unless it is given them: then list the intervals where categories are taken, "
        "categories={column: ['(0, 10]', ...]}; or pass the numbers themselves"
    )


def _said(said, own):
    """Return the kind of a column, by the one that is said and its own."""
    stays = own == REFUSED or (said, own) == (NUMBER, DATE) or (said != TEXT and own == INTERVALS)
    return own if stays else said


def said_types(types: Mapping[Any, str] | None, bounds: Any) -> dict[Any, str]:
    """Return the types of columns by a schema: its types, and of others their bounds.

    A column that ``bounds`` name holds numbers, or dates where a bound is one.
    """
    named = bounds.items() if isinstance(bounds, Mapping) else ()
    return {key: DATE if _has_date(pair) else NUMBER for key, pair in named} | dict(types or {})


def _has_date(pair):
    ends = pair if isinstance(pair, list | tuple | np.ndarray) else ()
    return any(map(is_date, ends))


# --- numbers --------------------------------------------------------------------------------------


def numbers_in(values: Any, kind: str = NUMBER) -> np.ndarray:
    """Return the numbers of a column, NaN where they are missing.

    Dates are days since 1970, in UTC, and durations are days. Where the column's own type is none
    of numbers, each cell is converted by itself: one that cannot be, or is not finite, is missing.

    Parameters
    ----------
    values : array or column of a frame
        Cells.
    kind : {"number", "flag", "date"}, default="number"
        What they are said to hold.

    Raises
    ------
    ValueError
        If the column is of a type of numbers, and one is infinite.
    """
    values = _floats_in(values, kind)
    if np.any(np.isinf(values)):
        raise ValueError("Input X contains infinity: missing values are NaN")
    return values


def spans_in(values: Any) -> np.ndarray:
    """Return times at risk, or durations, as numbers: durations by their type are days.

    Raises
    ------
    ValueError
        If they are dates by their type.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.core.columns import spans_in
    >>> spans_in(np.array([36, 12], "m8[h]")).tolist()
    [1.5, 0.5]
    """
    if _own_kind(values := _with_type(values)) == DATE:
        raise ValueError("dates are no durations: subtract a public date, or that of each start")
    return _floats_in(values, NUMBER)


def _with_type(values):
    """Return a column as it is, or a list as an array."""
    return values if hasattr(values, "dtype") or hasattr(values, "type") else np.asarray(values)


def _own_kind(values):
    return kind_of(values.dtype if hasattr(values, "dtype") else values.type)


def _floats_in(values, kind):
    values = _with_type(values)
    shape = getattr(values, "shape", (-1,))
    if _own_kind(values) in (TEXT, OBJECTS, INTERVALS):
        different, places = apart(values)
        convert = days_of if kind == DATE else number_of
        numbers = read_each(convert, different, math.nan)
        return np.array(numbers, dtype=np.float64)[places].reshape(shape)
    values = _as_array(values)
    if values.dtype.kind in "mM":
        start = np.datetime64(0, "D") if values.dtype.kind == "M" else np.timedelta64(0, "D")
        return (values - start) / np.timedelta64(1, "D")
    return values.astype(np.float64, copy=False)


def _as_array(values):
    """Return a column of numbers, flags, dates or durations as numpy's, in UTC."""
    if isinstance(values, np.ndarray):
        return values
    library = _library_of(values)
    if library == "pandas" and _is_plain(values.dtype):
        return values.to_numpy()
    if library == "polars":
        is_time = values.dtype.is_temporal()
        return values.to_numpy() if is_time else values.cast(float).to_numpy()
    if library == "pandas" and hasattr(values.dtype, "pyarrow_dtype"):
        values = import_module("pyarrow").array(values.array)
        library = "pyarrow"
    if library == "pyarrow":
        return _of_arrow(values)
    if type(values.dtype).__name__ == "PeriodDtype":
        values = values.dt.to_timestamp()
    if getattr(getattr(values, "dt", None), "tz", None) is not None:
        values = values.dt.tz_convert(None)
    if getattr(values.dtype, "kind", "") in "mM":
        return values.to_numpy()
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _of_arrow(values):
    """Return an array of pyarrow as numpy's; nothing is NaN, or no time."""
    pyarrow = import_module("pyarrow")
    kind = _kind_of_arrow(values.type)
    if kind == DATE:
        values = values.cast(pyarrow.timestamp("us"), safe=False)
    elif not pyarrow.types.is_duration(values.type):
        values = values.cast("uint8") if kind == FLAG else values
        values = values.cast("float64", safe=False)
    return values.to_numpy(**({} if hasattr(values, "chunks") else {"zero_copy_only": False}))


def number_of(value: Any) -> float:
    """Return a cell as a finite number, flags as 0 and 1, durations as days; NaN where it is none.

    Examples
    --------
    >>> from decimal import Decimal
    >>> from skdpdyn.core.columns import number_of
    >>> [number_of(value) for value in (Decimal("1.50"), " 2 ", True, "<5", "inf")]
    [1.5, 2.0, 1.0, nan, nan]
    """
    if isinstance(value, dt.timedelta | np.timedelta64):
        return float(_in_days(value))
    if not isinstance(value, Real | str | bool | np.bool_) and type(value).__name__ != "Decimal":
        return math.nan
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def days_of(value: Any) -> float:
    """Return a cell as days since 1970: a date, a text of one in ISO's form, or a number of days.

    NaN where it is none.

    Examples
    --------
    >>> import datetime
    >>> from skdpdyn.core.columns import days_of
    >>> [days_of(value) for value in (datetime.date(1970, 1, 3), "1970-01-02T12:00", 5, "May")]
    [2.0, 1.5, 5.0, nan]
    """
    if isinstance(value, str):
        value = _parsed(value.strip())
    moment = _moment_of(value)
    if moment is None:
        return number_of(value)
    return float(_in_days(moment - np.datetime64(0, "us")))


def _parsed(text):
    """Return the date that a text is in ISO's form, of any year; the text where it is none."""
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        pass
    far = _FAR(text)
    if far is None:
        return text
    date, time, hours, minutes = (part or "" for part in far.groups())
    ahead = 60 * int(hours or 0) + int(f"{hours[:1]}{minutes or 0}")
    try:  # numpy warns of zones, which would tell of this cell
        return np.datetime64(date + time, "us") - np.timedelta64(ahead, "m")
    except ValueError:
        return text


def _in_days(span):
    return np.timedelta64(span) / np.timedelta64(1, "D")


def _moment_of(value):
    """Return a date or a time of any library as numpy's, in UTC; None: it is none."""
    if type(value).__name__ == "Period":
        value = value.to_timestamp()
    if type(value).__name__ == "NaTType" or not isinstance(value, dt.date | np.datetime64):
        return None
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    moment = np.datetime64(value, "us")
    return None if np.isnat(moment) else moment


def is_date(value: Any) -> bool:
    """Return whether a value that a user gives is a date, or a text of one with dashes."""
    if isinstance(value, str):
        return "-" in value.strip()[1:] and math.isnan(number_of(value)) and _is_iso(value)
    return _moment_of(value) is not None


def _is_iso(text):
    return not math.isnan(days_of(text))


def value_of(value: Any) -> Any:
    """Return a date that a user gives as days since 1970, a duration as days, others as they are.

    Examples
    --------
    >>> from skdpdyn.core.columns import value_of
    >>> value_of("1970-02-01"), value_of(7)
    (31.0, 7)
    """
    if isinstance(value, dt.timedelta | np.timedelta64):
        return number_of(value)
    return days_of(value) if is_date(value) else value


def values_of(values: Any) -> Any:
    """Return numbers that a user gives, one or nested in lists, with dates as days since 1970."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return values
    if isinstance(values, list | tuple | np.ndarray):
        return [values_of(part) for part in values]
    return value_of(values)


def shown_date(days: float) -> str:
    """Return days since 1970 as a date in ISO's form, with the time where they are no whole day.

    Examples
    --------
    >>> from skdpdyn.core.columns import shown_date
    >>> shown_date(18993.0), shown_date(0.5)
    ('2022-01-01', '1970-01-01T12:00:00')
    """
    moment = moments([days])[0]
    text = str(moment.astype("datetime64[s]") if moment == moment.astype("M8[s]") else moment)
    return text.removesuffix("T00:00:00")


def moments(days: Any) -> np.ndarray:
    """Return days since 1970 as dates of numpy, to a microsecond; its last ones for later ones."""
    days = np.clip(np.asarray(days, np.float64), -_LAST_DAY, _LAST_DAY)
    return np.rint(days * 86_400e6).astype("datetime64[us]")


# --- levels ---------------------------------------------------------------------------------------


def apart(values: Any) -> tuple[list[Any], np.ndarray]:
    """Return the different values of a column, and the place of each cell's among them.

    Some may be the same in two forms, but equal cells are together only if they have one key.
    """
    if isinstance(values, list):
        return _apart(values)
    library = _library_of(values)
    if library == "pyarrow":
        return _apart_in_arrow(values)
    if _is_time(values):
        times, places = np.unique(_times_in(values), return_inverse=True)
        return list(times), places
    if library == "polars":
        return _apart(values.to_list())
    if type(getattr(values, "dtype", None)).__name__ == "CategoricalDtype":
        levels = values.cat.categories.to_series()
        different = list(_times_in(levels)) if _is_time(levels) else levels.tolist()
        return _with_missing(different, values.cat.codes.to_numpy())
    if hasattr(getattr(values.dtype, "pyarrow_dtype", None), "index_type"):  # a dictionary
        return _apart_in_arrow(import_module("pyarrow").array(values.array))
    if library == "pandas" and kind_of(values.dtype) == TEXT:
        if len(values) <= _FEW:
            return _apart(values.tolist())
        places, different = values.factorize()
        return _with_missing(different.tolist(), places)
    if library == "pandas":
        is_plain = _is_plain(values.dtype)
        values = values.to_numpy() if is_plain else values.to_numpy(dtype=object)
    values = np.asarray(values)
    if values.dtype.kind in "iuf":
        different, places = np.unique(values, return_inverse=True)
        return list(different), places
    return _apart(values.tolist())


def _is_time(values):
    """Return whether a column is of dates or of durations, by its type."""
    dtype = values.dtype if hasattr(values, "dtype") else values.type
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    if _library_of(dtype) == "pyarrow":
        return import_module("pyarrow.types").is_temporal(dtype)
    if _library_of(dtype) == "polars":
        return dtype.is_temporal()
    return getattr(dtype, "kind", "") in "mM" or type(dtype).__name__ == "PeriodDtype"


def _times_in(values):
    """Return dates, in UTC, and durations as numpy's, which has those that Python has not.

    Other libraries raise errors there, which would tell that a cell is so far away.
    """
    times = _as_array(values)
    return times.astype(f"{times.dtype.kind}8[us]")


def _apart(cells):
    """See `apart`, of a list."""
    keys = cells
    try:
        if not set(map(type, cells)) <= _PLAIN_TYPES:
            # an hour that a clock shows twice equals itself, and intervals those of other numbers
            keys = list(zip(map(type, cells), cells, map(str, cells), strict=True))
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        of_cells = np.fromiter(map(places.__getitem__, keys), np.intp, len(cells))
    except Exception:  # a cell has no hash, too many digits, or code of its own that fails
        return cells, np.arange(len(cells))
    return list(places) if keys is cells else [cell for _, cell, _ in places], of_cells


def read_each(read: Callable[[Any], Any], cells: list[Any], failed: Any) -> list[Any]:
    """Return what each cell is read as: ``failed`` where its own code raises, which tells nobody.

    Examples
    --------
    >>> from skdpdyn.core.columns import read_each
    >>> read_each(int, ["1", "secret"], -1)
    [1, -1]
    """

    def read_one(cell):
        try:
            return read(cell)
        except Exception:
            return failed

    return [*map(read_one, cells)]


def _apart_in_arrow(values):
    """See `apart`, of an array of pyarrow."""
    values = values.combine_chunks() if hasattr(values, "chunks") else values
    if _kind_of_arrow(values.type) == OBJECTS:  # all are missing
        return [None], np.zeros(len(values), np.intp)
    values = values if hasattr(values, "dictionary") else values.dictionary_encode()
    places = values.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    levels = values.dictionary
    return _with_missing(
        list(_times_in(levels)) if _is_time(levels) else levels.to_pylist(), places
    )


def _with_missing(different, places):
    """Return values with a last one for missing cells, whose place is -1."""
    return [*different, None], np.where(places < 0, len(different), places)


def key_of(value: Any) -> str | int | float | tuple[()] | None:
    """Return the one key of a cell's level; () where it can be none, None where it is missing.

    It depends on the cell alone, not on those that made a column text, or floats: 1, 1.0, True and
    "1" are one level. Blanks around a text do not count. Dates are text in ISO's form.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.core.columns import key_of
    >>> [key_of(value) for value in (1.0, "1", "1.0", np.int8(1), True, "01", " a ", 2.5, np.nan)]
    [1, 1, 1, 1, 1, '01', 'a', 2.5, None]
    """
    if isinstance(value, str):
        return _key_of_text(str(value).strip())
    kind = type(value).__name__
    if value is None or kind in ("NAType", "NaTType"):
        return None
    if kind == "Interval":
        return str(value)
    if isinstance(value, dt.timedelta | np.timedelta64):
        return _key_of_number(_in_days(value))
    moment = _moment_of(value)
    if moment is not None:
        return moment.item().isoformat().removesuffix("T00:00:00")
    if isinstance(value, np.datetime64):
        return None
    if isinstance(value, Real | bool | np.bool_) or kind == "Decimal":
        return _key_of_number(value)
    return ()


def _key_of_number(value):
    try:
        # of a short float, the shortest number that it is the nearest to
        number = float(str(value) if isinstance(value, np.float16 | np.float32) else value)
    except (ValueError, OverflowError):
        return ()
    if math.isnan(number):
        return None
    if not number.is_integer():
        return number if math.isfinite(number) else ()
    return int(number) if abs(number) < _LARGEST else str(int(value))


def _key_of_text(text):
    """Return the key of a number in its plain form, else the text."""
    if text.removeprefix("-").isdecimal():
        is_plain = len(text) <= _MOST_DIGITS and str(int(text)) == text
        return int(text) if is_plain and abs(int(text)) < _LARGEST else text
    if _IS_PLAIN(text) and len(text) <= _MOST_DIGITS and str(float(text)) == text:
        return _key_of_number(float(text))
    return text


def other_key(key: Any) -> Any:
    """Return the key of a flag in its other form, text or number; None: it is no flag's."""
    return {0: "False", 1: "True", "False": 0, "True": 1}.get(key)
