"""Tables inside the package: read from their file, and given as scikit-learn gives data sets."""

import csv
import gzip
import io
from collections.abc import Collection, Mapping
from importlib import resources
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skdpdyn.exceptions import optional


def columns_of(file: str, text: Collection[str]) -> dict[str, np.ndarray]:
    """Return the columns of a packed table: numbers as floats, but for those that are text."""
    packed = resources.files("skdpdyn.datasets").joinpath("data", file).read_bytes()
    header, *rows = csv.reader(io.StringIO(gzip.decompress(packed).decode()))
    columns = zip(header, map(np.array, zip(*rows, strict=True)), strict=True)
    return {name: values if name in text else values.astype(np.float64) for name, values in columns}


def bunch(
    columns: Mapping[str, np.ndarray],
    target: tuple[str, np.ndarray],
    beside: Mapping[str, np.ndarray],
    *,
    as_frame: bool,
    return_X_y: bool,
    **public: Any,
) -> Any:
    """Return a data set, or its rows and targets; frames have the columns ``beside`` too."""
    names = list(columns)
    (name, y) = target
    frame = None
    if as_frame:
        frame = optional("pandas", "plot").DataFrame({**columns, **beside, name: y})
        X = frame[names]
        y = frame[name]
        beside = {name: frame[name] for name in beside}
    else:
        X = np.column_stack([values.astype(object) for values in columns.values()])
    if return_X_y:
        return X, y
    return Bunch(data=X, target=y, frame=frame, feature_names=names, **beside, **public)
