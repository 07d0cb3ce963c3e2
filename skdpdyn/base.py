"""What all estimators share: fits that are all or nothing, validation that quotes no record, and what is shown of a fit."""

import html
from contextlib import contextmanager
from numbers import Integral

import numpy as np
from sklearn import get_config
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import validate_data

DTYPES = [np.float64, np.float32]
_MOST_JOBS = 2**20  # processes or threads that any machine may have

_RESHAPE = "Reshape your data: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one row"
_FILL_ROWS = (
    "Fill missing values with a public one, by "
    "SimpleImputer(strategy='constant', fill_value=..., keep_empty_features=True) for one"
)
_FILL_TARGETS = "Give records without a target a public value"
_MISSING = f"X or y contains missing values. {_FILL_ROWS}. {_FILL_TARGETS}"
_ADVICE = {  # for errors of scikit-learn and numpy that go on to quote cells of X or y, or advise what is not private
    "Expected 2D array, got 1D array instead": _RESHAPE,
    "Expected 2D array, got scalar array instead": _RESHAPE,
    "Input should have at least 1 dimension": _RESHAPE,
    "Complex data not supported": "Real numbers are needed",
    "could not convert string to float": "X, and the target of a regression, must be numbers. Columns of text "
    "can be encoded, by OneHotEncoder(categories=...) for one",
    "Found unknown categories": "Pass every category that can occur, or handle_unknown='ignore'",
    "Input y contains NaN": _FILL_TARGETS,
    "Input X contains NaN": _FILL_ROWS,
    "Input contains NaN": f"{_FILL_ROWS}. {_FILL_TARGETS}",
    "boolean value of NA is ambiguous": _MISSING,
    "float() argument must be a string or a real number, not 'NAType'": _MISSING,
    "setting an array element with a sequence": "X must be a 2D array of numbers, and y an array of labels or of numbers",
    "int too large to convert to float": "X, and the target of a regression, must be numbers that a float can hold",
}


@contextmanager
def all_or_nothing(estimator):
    """Leave the estimator as it was before if an error, or an interrupt, ends what is done to it."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def silent_arithmetic():
    """Context in which numpy neither warns nor raises: a warning of records that overflow would tell of them."""
    return np.errstate(all="ignore")


@contextmanager
def quoting_no_records():
    """Tell such errors without the records that they quote."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        for start, advice in _ADVICE.items():
            if str(error).startswith(start):
                raise ValueError(f"{start}. {advice}") from None
        raise


def refuse_dates(X):
    """Dates are no numbers, though numpy makes integers of them, and of a missing one the most negative."""
    dtypes = np.ravel(np.asarray(getattr(X, "dtypes", getattr(X, "dtype", None)), dtype=object))  # of a frame, of an array
    if any(str(dtype).lower().startswith(("date", "time", "duration")) for dtype in dtypes):
        raise ValueError("X holds dates or times: pass numbers, such as days since a public date")


def validated(estimator, X, *y, **options):
    """What `validate_data` returns, or an error that quotes nothing of it."""
    refuse_dates(X)
    with quoting_no_records():
        return validate_data(estimator, X, *y, **options)


def check_n_jobs(n_jobs):
    """Refuse what joblib would choke on, or not, depending on how large the data are."""
    number = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and 0 < abs(n_jobs) <= _MOST_JOBS
    if n_jobs is not None and not number:
        raise ValueError(
            f"n_jobs={n_jobs!r} must be None or an integer, not 0 nor beyond {_MOST_JOBS}: -1 is one thread for every core"
        )


class SpentReprMixin:
    """Representations with a line on the budget below them, once there is a ``privacy_``."""

    def _spent(self):
        """One line: what the fit spent, and on what it does not hold."""
        line = f"spent: epsilon={self.epsilon_:.6g}, delta={self.delta_:.3g} ({self.privacy_.adjacency}, bound {self.bound_})"
        return line + "".join(f"; NOT PRIVATE: {leak}" for leak in self.leaks_)

    def _repr_html_(self):
        diagram = estimator_html_repr(self)
        return f"{diagram}<pre>{html.escape(self._spent())}</pre>" if hasattr(self, "privacy_") else diagram

    def _repr_mimebundle_(self, **kwargs):
        bundle = {"text/plain": f"{self!r}\n{self._spent()}" if hasattr(self, "privacy_") else repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._repr_html_()
        return bundle
