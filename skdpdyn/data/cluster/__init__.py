"""Rows on the workers of a Dask cluster, which are summed where they are."""

from typing import Any

_LIBRARIES = "dask", "dask_expr"


def is_collection(X: Any) -> bool:
    """Return whether X is an array or a frame of Dask, without importing Dask."""
    return type(X).__module__.partition(".")[0] in _LIBRARIES
