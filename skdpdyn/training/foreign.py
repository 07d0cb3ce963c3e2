"""Code of others that runs beside a guarantee: steps of a pipeline, models that are scored.

It may write in place, keep what it is given, count its calls or warn of a value. So it is given
copies of its own, and runs as a copy that is thrown away; what it warns of is silenced. Code that
means harm can get around all this: it can write files, too.

What a model answers for a row must not depend on other rows: how many a person has is private, and
counts of answers are released whose noise hides one person's. Products of many rows are rounded by
the place of a row; batch statistics, codings of what occurs and random draws follow all rows. So
the models and steps of a closed list, `BY_ROW`, see many rows at a time, and any other sees one: a
fresh copy for each row, with the state of public random generators that all rows begin with.
"""

import sys
import threading
import warnings
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from scipy import sparse

from skdpdyn.core.noise import same_draws
from skdpdyn.privacy.checks import as_float, quoted
from skdpdyn.training.base import quoting_no_records

_BLOCK = 1 << 22  # cells of a copy

BY_ROW = {
    "skdpdyn": (
        "PrivateGAMClassifier",
        "PrivateGAMRegressor",
        "PrivateLinearSVC",
        "PrivateLogisticRegression",
        "PrivatePoissonRegressor",
        "PrivateQuantileRegressor",
        "PrivateRidge",
        "PrivateSoftmaxRegression",
    ),
    "skdpdyn.model_selection": ("PrivateSearchCV",),
    "skdpdyn.model_selection._scores": ("ConstantClassifier",),
    "skdpdyn.preprocessing": ("BoundsScaler", "PrivateScaler", "RowMapper"),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.dummy": ("DummyRegressor",),
    "sklearn.impute": ("SimpleImputer",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": (
        "Binarizer",
        "FunctionTransformer",  # without a function: what a step that passes columns on becomes
        "KBinsDiscretizer",
        "MaxAbsScaler",
        "MinMaxScaler",
        "OneHotEncoder",
        "OrdinalEncoder",
        "RobustScaler",
        "StandardScaler",
    ),
}
"""What is known to answer each row by itself, to the last bit, if its own steps do: by modules."""


class _Silence:
    """Silence warnings: `warnings.catch_warnings` restores a wrong state where threads overlap."""

    def __init__(self):
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self):
        with self._lock:
            if self._inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *error):
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._filters.__exit__(*error)


SILENCE = _Silence()


def predicted(
    model: Any, method: str, X: Any, n_samples: int, n_outputs: int | None = None
) -> np.ndarray:
    """Return a model's answers for rows, each of which depends on its row alone.

    Copies of the model see copies of the rows: one row each, or many at a time where the model is
    known to answer row by row, see `answers_by_row`. An answer is one number, or ``n_outputs``.

    Raises
    ------
    TypeError, ValueError
        If the model has no such method or cannot be copied, or does not say one thing, or one row
        of numbers, of each row. No row is quoted.
    """
    if not hasattr(model, method):
        raise ValueError(f"{type(model).__name__} has no {method}: evaluate a model that has one")
    n_rows = quoting_no_records(_n_rows, X)
    if n_rows != n_samples:
        raise ValueError(f"X has {n_rows} rows and y has {n_samples} targets")
    # the type of an array of a list's rows follows all of them
    has_types = hasattr(X, "dtype") or hasattr(X, "dtypes")
    size = _BLOCK if has_types and answers_by_row(model) else 1
    answers = []
    with SILENCE:
        for block in _blocks(X, n_samples, size):
            with same_draws():
                answers.append(_predictions(model, method, block, n_outputs))
    return np.concatenate(answers)


def answers_by_row(model: Any) -> bool:
    """Return whether a model is known to answer each row by itself, to the last bit.

    It and all its steps are of `BY_ROW`, and no subclasses, and no method of theirs was replaced.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdpdyn import PrivateLogisticRegression
    >>> answers_by_row(make_pipeline(StandardScaler(), PrivateLogisticRegression()))
    True
    >>> answers_by_row(make_pipeline(StandardScaler(), LogisticRegression()))
    False
    """
    kind = type(model)
    if model is None or isinstance(model, str):  # steps that pass columns on, or drop them
        return True
    known = any(
        kind.__name__ in names and getattr(sys.modules.get(module), kind.__name__, None) is kind
        for module, names in BY_ROW.items()
    )
    return known and _is_plain(model) and all(map(answers_by_row, _steps_of(model)))


def _is_plain(model):
    """Return whether an object has no function of a user: a parameter, or instead of a method."""
    kind = type(model)
    replaced = any(callable(held) and hasattr(kind, name) for name, held in vars(model).items())
    return not replaced and getattr(model, "func", None) is None


def _steps_of(model):
    """Return the models and steps that answer in a model's place."""
    if hasattr(model, "transformers_"):
        return [step for _, step, _ in model.transformers_]
    if hasattr(model, "best_estimator_"):
        return [model.best_estimator_]
    return [step for _, step in getattr(model, "steps", ())]


def predictor_of(model: Any) -> Any:
    """Return the model that predicts: the last step of a pipeline, the winner of a search.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpdyn import PrivateRidge
    >>> predictor_of(make_pipeline(None, PrivateRidge()))
    PrivateRidge()
    """
    from sklearn.pipeline import Pipeline  # slow to load

    if hasattr(model, "best_estimator_"):
        return predictor_of(model.best_estimator_)
    return predictor_of(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def quantile_of(model: Any) -> float | None:
    """Return the quantile that a regressor predicts, by its public parameters; None: a mean.

    Raises
    ------
    ValueError
        If it predicts several.
    """
    one = predictor_of(model)
    quantile = getattr(one, "quantile", None)
    if quantile is None or getattr(one, "loss", "quantile") != "quantile":
        return None
    if np.ndim(quantile):
        raise ValueError(
            f"quantile={quoted(quantile)}: a model of several quantiles is not scored. Fit a model "
            "for each"
        )
    quantile = as_float(quantile)
    return quantile if 0 < quantile < 1 else None


def _predictions(model, method, rows, n_outputs):
    n_rows = _n_rows(rows)
    array = np.asarray(quoting_no_records(getattr(own_copy(model), method), rows))
    n_outputs = len(model.classes_) if method.endswith("proba") else n_outputs
    shape = (n_rows,) if n_outputs is None else (n_rows, n_outputs)
    if array.shape != shape:
        raise ValueError(
            f"{type(model).__name__}.{method} returned another shape than {len(shape)} dimensions "
            "of one answer for each row"
        )
    return array


def _n_rows(X):
    return X.shape[0] if hasattr(X, "shape") else len(X)


def own_copy(value: Any) -> Any:
    """Return a copy of a model or a step, with all that it holds."""
    try:
        return deepcopy(value)
    except Exception:  # its text is the other's
        pass
    raise TypeError(
        f"{type(value).__name__} cannot be copied (copy.deepcopy): it would be given records, and "
        "might keep some"
    )


def rows_at(X: Any, positions: Any) -> Any:
    """Return rows of an array, a sparse matrix, a data frame or a list."""
    return quoting_no_records(_rows_at, X, positions)


def _rows_at(X, positions):
    if hasattr(X, "iloc"):
        return X.iloc[positions]
    if hasattr(X, "take") and hasattr(X, "schema") and not hasattr(X, "get_columns"):  # of pyarrow
        return X.take(np.arange(X.shape[0])[positions])
    if isinstance(X, (list, tuple)):
        return X[positions] if isinstance(positions, slice) else [X[index] for index in positions]
    return X[positions]


def _blocks(X: Any, n_rows: int, n_cells: int) -> Iterator[Any]:
    """Yield copies of so many cells at a time, at least of one row, in the order of the rows."""
    X = X.tocsr() if sparse.issparse(X) else X
    width = X.shape[1] if len(getattr(X, "shape", ())) > 1 else 64
    size = max(1, n_cells // max(width, 1))
    for first in range(0, max(n_rows, 1), size):
        yield quoting_no_records(deepcopy, rows_at(X, slice(first, first + size)))
