"""Data frames of numbers: read in order where they are large, so that no array is made of them."""

import sys
from typing import Any

import numpy as np


class Frame:
    """Columns of numbers of a pandas, polars or pyarrow frame, of which some rows are taken.

    Parameters
    ----------
    frame : DataFrame or Table
        The frame, which stays as it is.
    names : list of str
        Names of the columns.
    dtype : dtype
        float32 if all columns go into it without loss, or else float64.
    take : callable
        ``take(first, last)`` returns rows as an array.

    Attributes
    ----------
    least_bytes : int
        Frames of fewer bytes become an array: a fit is then faster, and the array small.
    """

    least_bytes = 1 << 28

    def __init__(self, frame, names, dtype, take):
        self.shape, self.feature_names = (frame.shape[0], len(names)), names
        self.dtype, self._take = dtype, take

    @classmethod
    def of(cls, X: Any) -> "Frame | None":
        """Return the columns of a frame that holds nothing but numbers; None of anything else."""
        kind = type(X).__module__.partition(".")[0], type(X).__name__
        reader = _READERS.get(kind)
        found = None if reader is None or not all(X.shape) else reader(X)
        if found is None:
            return None
        names, dtypes, take = found
        if len(set(names)) < len(names) or any(dtype.kind not in "biuf" for dtype in dtypes):
            return None
        single = np.result_type(*dtypes) == np.float32
        return cls(X, names, np.dtype(np.float32 if single else np.float64), take)

    @property
    def nbytes(self) -> int:
        """Bytes of the frame as an array."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def part(self, first: int, last: int) -> np.ndarray:
        """Return rows first, ..., last - 1."""
        return np.ascontiguousarray(self._take(first, last), self.dtype)

    def whole(self, frame: Any) -> Any:
        """Return what a fit in memory takes: the frame, whose names are validated."""
        return frame

    def check(self) -> None:
        """Do nothing: a frame stays as it is."""

    close = check


def _of_pandas(X):
    dtypes = list(X.dtypes)
    names = list(X.columns)
    if not all(isinstance(name, str) for name in names):
        return None
    if not all(isinstance(dtype, np.dtype) for dtype in dtypes):
        return None
    return names, dtypes, lambda first, last: X.iloc[first:last].to_numpy()


def _of_polars(X):
    polars = sys.modules["polars"]
    if any(kind not in _polars_numbers(polars) for kind in X.dtypes):
        return None
    dtypes = [_polars_numbers(polars)[kind] for kind in X.dtypes]
    return X.columns, dtypes, lambda first, last: X.slice(first, last - first).to_numpy()


def _polars_numbers(polars):
    bits = {"Int": (8, 16, 32, 64), "UInt": (8, 16, 32, 64), "Float": (32, 64)}
    names = [f"{kind}{size}" for kind, sizes in bits.items() for size in sizes]
    numbers = {getattr(polars, name): np.dtype(name.lower()) for name in names}
    return numbers | {polars.Boolean: np.dtype(bool)}


def _of_pyarrow(X):
    numbers = "float", "double", "int", "uint", "bool"
    if not all(str(kind).rstrip("0123456789") in numbers for kind in X.schema.types):
        return None
    dtypes = [np.dtype(kind.to_pandas_dtype()) for kind in X.schema.types]

    def take(first, last):
        columns = X.slice(first, last - first).columns
        return np.column_stack([column.to_numpy() for column in columns])

    return X.schema.names, dtypes, take


_READERS = {
    ("pandas", "DataFrame"): _of_pandas,
    ("polars", "DataFrame"): _of_polars,
    ("pyarrow", "Table"): _of_pyarrow,
}
