"""Shared by all estimators: all-or-nothing fits, validation that quotes no record, displays."""

import html
import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary, ref

import numpy as np
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from skdpdyn.core.columns import NUMBER, Frame, said_types
from skdpdyn.core.noise import seed_leaks, source_of
from skdpdyn.core.schema import Schema, Source, released
from skdpdyn.data.base import Rows
from skdpdyn.data.cluster import is_collection
from skdpdyn.data.files import UnchangedFiles
from skdpdyn.data.rows import check_indices
from skdpdyn.exceptions import (
    CalibrationError,
    ConvergenceError,
    PrivacyLeakWarning,
    UnsupportedMechanismError,
    warn,
)
from skdpdyn.privacy import privacy_report, tightest
from skdpdyn.privacy.checks import quoted
from skdpdyn.privacy.display import code_span
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.report import Assumed, PrivacyReport
from skdpdyn.training.sources import facts_of, given_to, leaks_of, sources_of

DTYPES: list[Any] = [np.float64, np.float32]
_OURS = (CalibrationError, ConvergenceError, UnsupportedMechanismError, NotFittedError)
_MOST_JOBS = 2**20  # processes or threads that any machine may have

_RESHAPE = (
    "Reshape your data: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one row; "
    "of a series, X.to_frame()"
)
_FILL_ROWS = (
    "Fill missing values with a public one, for example by "
    "SimpleImputer(strategy='constant', fill_value=..., keep_empty_features=True), or use "
    "PrivateGAMClassifier or PrivateGAMRegressor, which take missing values as they are, or "
    "private_regression with missing=[...]"
)
FILL_TARGETS = "Give records without a target a public value"
_MISSING = f"X or y contains missing values. {_FILL_ROWS}. {FILL_TARGETS}"
# for errors of scikit-learn and numpy that go on to quote cells of X or y, or advise what is not
# private
_ON_DEVICE = "Rows are summed in the host's memory: pass X.cpu() or cupy.asnumpy(X)"
_SPARSE_FLAGS = "Sparse[bool, False]"
_ADVICE = {
    "Expected 2D array, got 1D array instead": _RESHAPE,
    "Expected 2D array, got scalar array instead": _RESHAPE,
    "Input should have at least 1 dimension": _RESHAPE,
    "Expected a 2-dimensional container": "Pass one column as a frame: X.to_frame()",
    "Expected unique column names": "Give each column of X a name of its own",
    "Complex data not supported": "Real numbers are needed",
    "could not convert string to float": "X, and the target of a regression, must be numbers. "
    "Columns of text "
    "can be encoded, for example by OneHotEncoder(categories=...)",
    "Found unknown categories": "Pass every category that can occur, or handle_unknown='ignore'",
    "Input y contains NaN": FILL_TARGETS,
    "Input X contains NaN": _FILL_ROWS,
    "Input contains NaN": f"{_FILL_ROWS}. {FILL_TARGETS}",
    "boolean value of NA is ambiguous": _MISSING,
    "float() argument must be a string or a real number, not 'NAType'": _MISSING,
    "can't convert cuda": _ON_DEVICE,
    "Implicit conversion to a NumPy array is not allowed": _ON_DEVICE,
    "setting an array element with a sequence": (
        "X must be a 2D array of numbers, and y an array of labels or of numbers"
    ),
    "int too large to convert to float": (
        "X, and the target of a regression, must be numbers that a float can hold"
    ),
}


# Texts of scikit-learn, and of ours on what X or y is, that hold shapes, types and names of columns
# but no cell
_HARMLESS = (
    "X holds columns of intervals",
    "X or y is a structured array",
    "X or y is a dict",
    "Found array with",
    "Found input variables with inconsistent numbers of samples",
    "Expected 2D input, got input with shape",
    "Expected sequence or array-like, got <class",
    "Input X contains infinity",
    "Input y contains infinity",
    "Input contains infinity",
    "Sparse data was passed",
    "dtype='numeric' is not compatible with arrays of bytes/strings",
    "Only sparse matrices with 32-bit integer indices are accepted",
    "np.matrix is not supported",
    "y should be a 1d array, got an array of shape",
    "Feature names are only supported if all input features have string names",
    "The feature names should match those that were passed during fit",
    "Unknown label type: ",
    "Classification metrics can't handle a mix of",
    "Sample weights must be 1D array or scalar",
    "sample_weight.shape == ",
    "X is a list of",
    "X holds columns that are not numbers",
    "X is a malformed sparse array",
    "X is sparse, and",
    "X or y is a LazyFrame",
    "X or y is a relation of DuckDB",
    "X or y is a masked array",
    "X or y could not be read",
    "dates are no durations",
    "y holds labels that are not in",
    "y holds strings and other labels",
    "y holds no numbers",
)
_HARMLESS_WHOLE = re.compile(
    r"X has \d+ features, but \w+ is expecting \d+ features as input\.?"
    r"|(This )?\w+( estimator)? requires y to be passed, but the target y is None\.?"
    r"|float\(\) argument must be a string or a real number, not '\w+'"  # the name of a type
)


_Estimator = TypeVar("_Estimator")


@contextmanager
def all_or_nothing(estimator: _Estimator, *data: Any) -> Iterator[_Estimator]:
    """Fit a copy and publish its attributes at once, so that no error or thread leaves a mixture.

    Yields the copy. Its fitted attributes (names that end in an underscore) replace those of the
    estimator at the end, if no file that an array of ``data`` is in has changed by then.
    """
    copy = object.__new__(type(estimator))
    copy.__dict__ = dict(vars(estimator))
    try:
        with UnchangedFiles(*data):
            yield copy
    except Exception as error:
        # every function that reads X and y in a fit is called by `quoting_no_records`
        error.quotes_no_record = True  # type: ignore[attr-defined]
        raise
    published = {name: value for name, value in vars(estimator).items() if not name.endswith("_")}
    published |= {name: value for name, value in vars(copy).items() if name.endswith("_")}
    estimator.__dict__ = published  # a single assignment, which no other thread sees half done


def forget_fit(estimator: Any) -> None:
    """Remove attributes of earlier fits, except the number and the names of columns."""
    kept = "n_features_in_", "feature_names_in_"
    for name in [name for name in vars(estimator) if name.endswith("_") and name not in kept]:
        delattr(estimator, name)


def silent_arithmetic() -> np.errstate:
    """Silence numpy's warnings: they would reveal which rows overflow."""
    return np.errstate(all="ignore")


def quoting_no_records(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function that reads X or y; replace errors that may quote cells.

    Errors of this package pass, because only public numbers raise them, and so do errors that left
    one of its fits. Of other errors, the text is kept only if it is known to hold no cell. The new
    error is raised outside of the handler, so that neither its ``__cause__`` nor its
    ``__context__`` is the old one.
    """
    try:
        return function(*arguments, **options)
    except Exception as error:
        replacement = _without_records(error)
    raise replacement


def _without_records(error: Exception) -> Exception:
    """Return the error to raise in place of one that may quote records."""
    if isinstance(error, _OURS) or getattr(error, "quotes_no_record", False):
        error.__cause__ = error.__context__ = None
        return error
    text = str(error)
    advice = next((start for start in _ADVICE if text.startswith(start)), None)
    if advice is not None:
        return ValueError(f"{advice}. {_ADVICE[advice]}")
    if isinstance(error, MemoryError):
        return MemoryError("X or y does not fit into memory")
    if text.startswith(_HARMLESS) or _HARMLESS_WHOLE.fullmatch(text):
        return TypeError(text) if isinstance(error, TypeError) else ValueError(text)
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins").__name__
    return ValueError(
        f"X or y could not be read ({kind}; its text is left out, for it may quote records): "
        "X must be a 2D array of finite numbers, and y an array of labels or of numbers"
    )


def refuse_unreadable(*arrays: Any) -> None:
    """Refuse masked cells, malformed sparse arrays and lazy frames before anyone reads them.

    Raises
    ------
    ValueError
        If one of the arrays is one of these.
    """
    for array in arrays:
        if _has_masked_cells(array):
            raise ValueError(
                f"X or y is a masked array with masked cells. {_FILL_ROWS}. {FILL_TARGETS}"
            )
        if sparse.issparse(array):  # some of which are dicts
            check_indices(array)
        elif isinstance(array, Mapping | Generator) or _holds(array, Mapping):
            raise ValueError(
                "X or y is a dict, a generator or a list of dicts: pass pandas.DataFrame(X)"
            )
        if type(array).__name__ == "LazyFrame":
            raise ValueError(
                "X or y is a LazyFrame: call .collect(), or, if that is too large, .sink_parquet() "
                "and skdpdyn.data.ParquetRows"
            )
        if getattr(getattr(array, "dtype", None), "names", None):
            raise ValueError("X or y is a structured array: pass pandas.DataFrame(X)")
        if type(array).__name__ == "DuckDBPyRelation":
            raise ValueError("X or y is a relation of DuckDB: call .df()")


def _holds(array, kind):
    """Return whether an array is a list, with a row of this type."""
    return isinstance(array, list | tuple) and any(isinstance(row, kind) for row in array)


def _has_masked_cells(array):
    """Return whether numpy would read cells that are masked, in a list of rows too."""
    if _holds(array, np.ma.MaskedArray):
        return any(map(np.ma.is_masked, array))
    return isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array)


_TRAINED_ON: "WeakKeyDictionary[Any, ref[Any]]" = WeakKeyDictionary()
# kept beside the estimators: what is in them is copied, stored and shown


def remember_rows(estimator: Any, X: Any) -> None:
    """Remember the object that a fit was given, by a weak reference."""
    try:
        _TRAINED_ON[estimator] = ref(X)
    except TypeError:  # a list, say
        _TRAINED_ON.pop(estimator, None)


def warn_of_own_rows(estimator: Any, X: Any) -> None:
    """Warn once if X is the data of the last fit: its score is exact, and not private."""
    rows = _TRAINED_ON.get(estimator)
    if rows is not None and rows() is X:
        del _TRAINED_ON[estimator]
        warn(
            "X is what this model was fitted to: its score is computed from private records, and "
            "without noise. Do not show or log it (mlflow.sklearn.autolog does); "
            "skdpdyn.evaluation.evaluate buys scores",
            PrivacyLeakWarning,
        )


def scored(
    metric: Callable[..., Any], y: Any, predictions: Any, sample_weight: Any = None
) -> float:
    """Return a metric of scikit-learn, or an error that quotes no label."""
    refuse_unreadable(y, sample_weight)
    with config_context(array_api_dispatch=False):
        return quoting_no_records(metric, y, predictions, sample_weight=sample_weight)


def refuse_rows(X: Any) -> None:
    """Refuse a source of rows where arrays are needed."""
    if isinstance(X, Rows):
        name = type(X).__name__
        raise TypeError(
            f"X is a {name}, which only fit of a model takes: pass an array or a frame. For "
            "predictions, take some rows at a time, as a frame: for X, y in rows.read(), and "
            "columns=rows.feature_names"
        )


_Method = TypeVar("_Method", bound=Callable[..., Any])


def by_blocks(method: _Method) -> _Method:
    """Make a method that takes rows turn a Dask collection into another, block by block."""

    @wraps(method)
    def answer(self, X: Any, *arguments: Any) -> Any:
        if is_collection(X):
            from skdpdyn.data.cluster.dask import mapped  # an extra, and slow to load

            return mapped(partial(answer, self), X)
        return method(self, X, *arguments)

    return answer  # type: ignore[return-value]


def form_of(X: Any) -> Any:
    """Return X; for a Dask collection, a few rows of the same form, whose values are not used."""
    if not is_collection(X):
        return X
    from skdpdyn.data.cluster.dask import example  # an extra, and slow to load

    return example(X)


def refuse_collections(estimator: Any, *collections: Any) -> None:
    """Refuse Dask collections where arrays are needed: numpy would bring them here in silence."""
    if any(map(is_collection, collections)):
        raise TypeError(
            f"{type(estimator).__name__} takes arrays in memory here, not Dask collections. Fit a "
            "model on the cluster by its own fit, or pass X.compute() where it fits into memory"
        )


def validated(estimator: Any, X: Any, *y: Any, reset: bool = True, **options: Any) -> Any:
    """Return numbers, and targets, as `validate_data` does; errors quote no record.

    Columns of a frame become numbers by `skdpdyn.core.columns`. An array of objects is taken as
    numbers, as in scikit-learn: it has one type for all columns.
    """
    X = _checked_source(estimator, X, *y)
    said = _said_of(estimator, reset)
    keeps_sparse = "accept_sparse" in options
    frame = _frame_of_numbers(X, said)
    if keeps_sparse and frame is not None and {*frame.types} == {_SPARSE_FLAGS}:
        X = X.astype("Sparse[uint8]")  # scikit-learn leaves flags as they are
        frame = _frame_of_numbers(X, said)
    with config_context(array_api_dispatch=False):
        is_plain = frame is None or (frame.is_plain and (keeps_sparse or not frame.is_sparse))
        if is_plain or (_are_objects(X) and not said):
            return quoting_no_records(validate_data, estimator, X, *y, reset=reset, **options)
        quoting_no_records(validate_data, estimator, X, skip_check_array=True, reset=reset)
        rows = quoting_no_records(frame.matrix)
        options["estimator"] = estimator
        if y:
            return quoting_no_records(check_X_y, rows, *y, **options)
        return quoting_no_records(check_array, rows, input_name="X", **options)


def _frame_of_numbers(X, said):
    """Return the columns of a frame, or of an array, whose objects are numbers."""
    frame = Frame.of(X)
    if frame is not None and _are_objects(X):
        frame = frame.said(dict.fromkeys(frame.keys, NUMBER))
    return None if frame is None else frame.said(said)


def kinds_of(estimator: Any, X: Any) -> tuple[str, ...] | None:
    """Return the kinds of columns of rows of numbers in a fit; None: all are plain numbers."""
    frame = _frame_of_numbers(X, _said_of(estimator, True))
    return None if frame is None or frame.is_plain else tuple(frame.kinds)


def read_frame(estimator: Any, X: Any, reset: bool) -> Frame:
    """Return the columns of a table as they are, with their kinds; errors quote no record.

    Parameters
    ----------
    estimator : estimator
        Learns names and number of columns with ``reset``, and is held against them without.
    X : array-like or frame of shape (n_rows, n_features)
        The table.
    reset : bool
        Whether it is a fit.
    """
    X = _checked_source(estimator, X)
    frame: Any = Frame.of(X)
    options: dict[str, Any] = {"dtype": DTYPES, "ensure_all_finite": "allow-nan"}
    if frame is not None and not all(kind == NUMBER for kind in frame.kinds):
        options = {"dtype": None, "ensure_all_finite": False}
    with config_context(array_api_dispatch=False):
        if frame is not None and frame.names is not None:
            if reset or not _are_as_in_fit(estimator, frame.names):
                quoting_no_records(validate_data, estimator, X, skip_check_array=True, reset=reset)
            if not all(X.shape):
                raise ValueError(f"Found array with shape {X.shape}: a row and a column are needed")
        else:
            X = quoting_no_records(validate_data, estimator, X, reset=reset, **options)
            frame = Frame.of(X)
    frame = frame.said(_said_of(estimator, reset))
    frame.refuse_unreadable()
    return frame


def _are_as_in_fit(estimator, names):
    """Return whether columns are those of the fit, which scikit-learn tells in a fifth of a row."""
    of_fit = getattr(estimator, "feature_names_in_", None)
    return of_fit is not None and of_fit.tolist() == names


def _checked_source(estimator, X, *y):
    """Return X, a list of rows as an array, or refuse rows that are read elsewhere."""
    refuse_rows(X)
    refuse_collections(estimator, X, *y)
    refuse_unreadable(X, *y)
    return of_list(X) if isinstance(X, list | tuple) else X


def of_list(X: Any) -> np.ndarray:
    """Return a list of rows as an array of doubles, unless its type hangs on single cells."""
    return quoting_no_records(_of_list, X)


def _of_list(X):
    rows = np.asarray(X)
    types = set()
    if rows.dtype.kind in "USO" and rows.ndim == 2:
        types = {type(cell) for row in X for cell in row}
    of_numbers = all(issubclass(kind, Real | np.bool_) for kind in types)
    if len(types) > 1 and not of_numbers:
        raise ValueError(
            "X is a list of cells of several types: pass a frame, which has a type for each "
            "column, or numpy.array(X, dtype=object)"
        )
    # flags and singles too, if all cells are, and objects, which one large integer makes of all
    is_number = rows.dtype.kind in "biuf" or (bool(types) and of_numbers)
    return rows.astype(np.float64) if is_number else rows


def _are_objects(X):
    return isinstance(X, np.ndarray) and X.dtype.kind == "O"


def _said_of(estimator, reset):
    """Return facts of columns beside their types: by a schema, bounds or an earlier fit."""
    schema = getattr(estimator, "schema", None)
    schema = schema if reset else getattr(estimator, "schema_", schema)
    bounds = getattr(estimator, "bounds", None)
    bounds = bounds if isinstance(bounds, Mapping) else getattr(schema, "bounds", None)
    return said_types(getattr(schema, "types", None), bounds)


def check_n_jobs(n_jobs: Any) -> None:
    """Check n_jobs, whatever the size of the data."""
    number = (
        isinstance(n_jobs, Integral)
        and not isinstance(n_jobs, bool)
        and 0 < abs(int(n_jobs)) <= _MOST_JOBS
    )
    if n_jobs is not None and not number:
        raise ValueError(
            f"n_jobs={quoted(n_jobs)} must be None or an integer, not 0 nor beyond {_MOST_JOBS}: "
            "-1 is one thread for every core"
        )


def check_verbose(verbose: Any) -> None:
    """Raise unless verbose is a flag or an integer >= 0."""
    if not isinstance(verbose, Integral | np.bool_) or int(verbose) < 0:
        raise ValueError(f"verbose={quoted(verbose)} must be True, False or an integer >= 0")


def of_persons(estimator: Any) -> str:
    """Return the words behind a number of records if they are persons."""
    unit = estimator.privacy_.unit
    return "" if unit == "record" else f" {unit}s"


def distinct(names: Iterable[str], reserved: Iterable[Any] = ()) -> list[str]:
    """Return different names, none of them reserved: parentheses set equal ones apart.

    Examples
    --------
    >>> distinct(["other", "other"], reserved=["(other)"])
    ['other', '((other))']
    """
    names_so_far: list[str] = []
    for name in names:
        while name in names_so_far or name in list(reserved):
            name = f"({name})"
        names_so_far.append(name)
    return names_so_far


_ENTRY = r"^\S.* : .*\n(?:(?: .*)?\n)*"


def described(kind: type) -> str | None:
    """Return a class's docstring with the parameters and attributes that its bases describe.

    Parameters come in the order of the signature, from docstrings of classes and constructors;
    where several describe one, the class itself or its nearest base is heard.
    """
    if not vars(kind).get("__doc__"):
        return None
    body = f"{inspect.cleandoc(kind.__doc__ or '')}\n"
    sections = ""
    order = [*inspect.signature(kind).parameters]
    for title in ("Parameters", "Attributes"):
        entry_of: dict[str, str] = {}
        section = re.compile(rf"^{title}\n-+\n((?:{_ENTRY})+)", re.MULTILINE)
        for base in reversed(kind.__mro__):
            for text in (getattr(vars(base).get("__init__"), "__doc__", ""), vars(base)["__doc__"]):
                for entries in section.findall(inspect.cleandoc(text or "") + "\n"):
                    entries = re.findall(_ENTRY, entries, re.MULTILINE)
                    entry_of |= {
                        entry.partition(" : ")[0]: f"{entry.rstrip()}\n" for entry in entries
                    }
        if title == "Parameters":
            names = {name: name.partition(",")[0].lstrip("*") for name in entry_of}
            described_names = [name for name in entry_of if names[name] in order]
            entry_of = {
                n: entry_of[n] for n in sorted(described_names, key=lambda n: order.index(names[n]))
            }
        body = section.sub("", body)
        if entry_of:
            sections += f"{title}\n{'-' * len(title)}\n{''.join(entry_of.values())}\n"
    summary, *others = re.split(r"^(?=\w.*\n---)", body, maxsplit=1, flags=re.MULTILINE)
    return f"{summary.rstrip()}\n\n{sections}{''.join(others)}"


_VERSION = "_skdpdyn_version"


def _version():
    return sys.modules["skdpdyn"].__version__


def lines_of_facts(bought: Mapping[str, float]) -> tuple[str, ...]:
    """Return a report's lines on facts that were bought, and the part of the budget of each."""
    percents = {fact: float(f"{100 * part:.2g}") for fact, part in bought.items()}
    return tuple(f"{fact}: bought for {percent:g} % of mu^2" for fact, percent in percents.items())


class PrivateEstimatorMixin:
    """Show the cost of a fit: by a report, and by a line below the representation.

    The estimator has ``mechanism_``, ``privacy_``, ``bound_``, ``epsilon_``, ``delta_`` and
    ``leaks_`` after fit, and says by ``_public_facts()`` what its guarantee takes as public, before
    parameters are changed again.
    """

    # set by a fit, for editors and type checkers
    mechanism_: Any
    privacy_: Guarantee
    bound_: str
    epsilon_: float
    delta_: float
    leaks_: tuple[str, ...]
    sources_: tuple[Source, ...] = ()
    _assumed_: tuple[str, ...]
    bought_: dict[str, float]
    schema_: Schema

    if TYPE_CHECKING:
        _public_facts: Callable[[], Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = described(cls)

    def privacy_report(self) -> PrivacyReport:
        """Return the report of the fit: its cost, its theorem, and the limits of its promise.

        Returns
        -------
        PrivacyReport
            Text by ``print``, HTML in notebooks, a plain dict by ``as_dict()``.
        """
        check_is_fitted(self)
        others = tightest(self.mechanism_, delta=self.delta_).alternatives
        return privacy_report(
            self.mechanism_,
            self.privacy_,
            delta=self.delta_,
            bound=self.bound_,
            alternatives={name: other for name, other in others.items() if name != self.bound_},
            assumed=Assumed(
                self._assumed_,
                source_of(self.leaks_),
                self.leaks_,
                (*self._bought_facts(), *facts_of(self.sources_)),
            ),
        )

    @property
    def privacy_unit_(self) -> str:
        """Whom ``privacy_`` is for: its unit."""
        return self.privacy_.unit

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()  # type: ignore[misc]
        return state | {_VERSION: _version()}

    def __setstate__(self, state: Any) -> None:
        stored = dict(state)
        version = stored.pop(_VERSION, "another version")
        if version != _version():
            warn(
                f"this {type(self).__name__} was stored by skdpdyn {version}, and this is "
                f"{_version()}: read it with the one that stored it, or fit it again",
                UserWarning,
            )
        super().__setstate__(stored)  # type: ignore[misc]
        if hasattr(self, "schema_"):  # not every format keeps the sources of an array
            self._sign_facts()

    def _publish_plan(self, plan, leaks, unit):
        """Set the attributes of a fit's cost, and whom it protects: a ``unit``."""
        self.mechanism_ = plan.mechanism
        self.bound_ = plan.bound
        self.privacy_ = plan.guarantee.with_unit(unit)
        self.delta_ = plan.budget.delta
        self.epsilon_ = plan.guarantee.epsilon(plan.budget.delta)
        self.sources_ = self._sources()
        lent_leaks = leaks_of(self.sources_)
        if lent_leaks:
            warn(
                f"this fit is not private, for what it was given is not: {'; '.join(lent_leaks)}. "
                "Pass models and maps that were released. (Numbers, as start=(coef, intercept), "
                "are your word that they are public)",
                PrivacyLeakWarning,
            )
        self.leaks_ = tuple(dict.fromkeys((*leaks, *lent_leaks, *seed_leaks(self.random_state))))

    def _bought_facts(self):
        """Name the facts that were bought, and the part of the budget of each."""
        silent = getattr(self, "silent_columns_", {}).items()
        return (
            *lines_of_facts(getattr(self, "bought_", {})),
            *(f"columns that tell nothing: {code_span(name)}, {why}" for name, why in silent),
        )

    def _sources(self):
        """Return the releases that came in by parameters, and models that are not private."""
        return given_to(self)

    def _sign(self):
        """Sign the map of rows and the schema, which other fits may take, as this release.

        Facts that were given keep the sources that they have. The report of the fit keeps what was
        taken as public.
        """
        self._assumed_ = self._public_facts()
        schema = getattr(self, "schema_", None)
        if schema is not None:
            own = self.bought_ or any(leak.endswith("taken from y") for leak in self.leaks_)
            sources = tuple(sources_of(self, "schema")) if own else self.sources_
            self.schema_ = replace(schema, sources=sources)
            self._sign_facts()
        if getattr(self, "conditioning_", None) is not None:
            sources = tuple(sources_of(self, "conditioning"))
            self.conditioning_ = replace(self.conditioning_, sources=sources)

    def _sign_facts(self):
        """Sign attributes that are facts, as the schema is signed."""
        for name in ("classes_", "target_bounds_", "ranges_"):
            if name in vars(self):
                setattr(self, name, released(vars(self)[name], self.schema_.sources))
        if "expansion_" in vars(self):
            columns = self.expansion_.columns
            signed = tuple(released(column, self.schema_.sources) for column in columns)
            self.expansion_ = replace(self.expansion_, columns=signed)

    def _spent(self):
        """Describe the spending of the fit in one line, and where its promise ends."""
        unit = self.privacy_.unit
        unit = f"{self.privacy_.adjacency}, " + (f"of one {unit}, " * (unit != "record"))
        line = (
            f"spent: epsilon={self.epsilon_:.6g}, delta={self.delta_:.3g} ({unit}bound "
            f"{self.bound_})"
        )
        return line + "".join(f"; NOT PRIVATE: {leak}" for leak in self.leaks_)

    def _repr_html_(self):
        diagram = estimator_html_repr(self)
        return (
            f"{diagram}<pre>{html.escape(self._spent())}</pre>"
            if hasattr(self, "privacy_")
            else diagram
        )

    def _repr_mimebundle_(self, **kwargs):
        bundle = {
            "text/plain": f"{self!r}\n{self._spent()}" if hasattr(self, "privacy_") else repr(self)
        }
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._repr_html_()
        return bundle
