"""What all estimators share: fits that are all or nothing, validation that quotes no record, and what is shown of a fit."""

import html
from contextlib import contextmanager
from numbers import Integral

import numpy as np
from sklearn import get_config
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpdyn.noise import seed_leaks, source_of
from skdpdyn.privacy import privacy_report, tightest

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
    """Fit a copy and publish what it learnt at once: an error, an interrupt or another thread leaves no mixture behind.

    Yields the copy. Its fitted attributes (names that end in an underscore) replace those of the estimator at the end.
    """
    copy = object.__new__(type(estimator))
    copy.__dict__ = dict(vars(estimator))
    yield copy
    published = {name: value for name, value in vars(estimator).items() if not name.endswith("_")}
    published |= {name: value for name, value in vars(copy).items() if name.endswith("_")}
    estimator.__dict__ = published  # a single assignment, which no other thread sees half done


def forget_fit(estimator):
    """Remove what earlier fits learnt, but for the number and the names of columns."""
    kept = "n_features_in_", "feature_names_in_"
    for name in [name for name in vars(estimator) if name.endswith("_") and name not in kept]:
        delattr(estimator, name)


def silent_arithmetic():
    """Context in which numpy neither warns nor raises: a warning of records that overflow would tell of them."""
    return np.errstate(all="ignore")


def quoting_no_records(function, *arguments, **options):
    """Call a function; replace errors that quote cells by what is wrong with them.

    The new error is raised outside of the handler, so that neither its ``__cause__`` nor its ``__context__`` is the old one.
    """
    try:
        return function(*arguments, **options)
    except (ValueError, TypeError, OverflowError) as error:
        start = next((start for start in _ADVICE if str(error).startswith(start)), None)
        if start is None:
            raise
    raise ValueError(f"{start}. {_ADVICE[start]}")


def refuse_dates(X):
    """Dates are no numbers, though numpy makes integers of them, and of a missing one the most negative."""
    dtypes = np.ravel(np.asarray(getattr(X, "dtypes", getattr(X, "dtype", None)), dtype=object))  # of a frame, of an array
    if any(str(dtype).lower().startswith(("date", "time", "duration")) for dtype in dtypes):
        raise ValueError("X holds dates or times: pass numbers, such as days since a public date")


def validated(estimator, X, *y, **options):
    """What `validate_data` returns, or an error that quotes nothing of it."""
    refuse_dates(X)
    return quoting_no_records(validate_data, estimator, X, *y, **options)


def check_n_jobs(n_jobs):
    """Refuse what joblib would choke on, or not, depending on how large the data are."""
    number = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and 0 < abs(n_jobs) <= _MOST_JOBS
    if n_jobs is not None and not number:
        raise ValueError(
            f"n_jobs={n_jobs!r} must be None or an integer, not 0 nor beyond {_MOST_JOBS}: -1 is one thread for every core"
        )


class PrivateEstimatorMixin:
    """What every estimator shows of a fit: the report, and a line on the budget below its representation.

    The estimator has ``mechanism_``, ``privacy_``, ``bound_``, ``epsilon_``, ``delta_`` and ``leaks_`` after fit, and says by
    ``_public_facts()`` what its guarantee takes as public.
    """

    def privacy_report(self):
        """Return what the fit spent, under which theorem, what an attacker can reach, and what is not covered.

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
            public=self._public_facts(),
            randomness=source_of(self.leaks_),
            leaks=self.leaks_,
        )

    def _publish_plan(self, plan, leaks):
        """Set the attributes that say what a fit spent."""
        self.mechanism_, self.privacy_, self.bound_ = plan.mechanism, plan.guarantee, plan.bound
        self.delta_, self.epsilon_ = plan.budget.delta, plan.guarantee.epsilon(plan.budget.delta)
        self.leaks_ = leaks + seed_leaks(self.random_state)

    def _spent(self):
        """Say in one line what the fit spent, and on what it does not hold."""
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
