"""Code of others that runs beside a guarantee: steps of a pipeline, models that are scored.

It may write in place, keep what it is given, count its calls or warn of a value. So it is given
copies of its own, and runs as a copy that is thrown away; what it warns of is silenced. Code that
means harm can get around all this: it can write files, too.
"""

import threading
import warnings
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from scipy import sparse

from skdpdyn.training.base import quoting_no_records

_BLOCK = 1 << 22  # cells of a copy


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


def predicted(model: Any, method: str, X: Any, n_samples: int) -> np.ndarray:
    """Return a model's answers for rows: a copy of it sees copies of them, block by block.

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
    with SILENCE:
        answers = [_predictions(model, method, block) for block in _blocks(X, n_samples)]
    return np.concatenate(answers)


def _predictions(model, method, rows):
    n_rows = _n_rows(rows)
    array = np.asarray(quoting_no_records(getattr(own_copy(model), method), rows))
    shape = (n_rows, len(model.classes_)) if method.endswith("proba") else (n_rows,)
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
    if isinstance(X, (list, tuple)):
        return X[positions] if isinstance(positions, slice) else [X[index] for index in positions]
    return X[positions]


def _blocks(X: Any, n_rows: int) -> Iterator[Any]:
    """Yield copies of some rows at a time, in their order."""
    X = X.tocsr() if sparse.issparse(X) else X
    width = X.shape[1] if len(getattr(X, "shape", ())) > 1 else 64
    size = max(1, _BLOCK // max(width, 1))
    for first in range(0, max(n_rows, 1), size):
        yield quoting_no_records(deepcopy, rows_at(X, slice(first, first + size)))
