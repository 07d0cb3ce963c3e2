"""Where rows come from: arrays and sparse matrices in memory, files that are larger than it."""

from importlib import import_module
from typing import TYPE_CHECKING

# what editors and type checkers see of the name below, which is loaded when it is asked for
if TYPE_CHECKING:
    from skdpdyn.data.parquet import ParquetRows as ParquetRows

__all__ = ["ParquetRows"]


def __getattr__(name):
    """Load names on first use: what imports a file of this folder needs no kernels."""
    if name in __all__:
        return getattr(import_module("skdpdyn.data.parquet"), name)
    raise AttributeError(f"module 'skdpdyn.data' has no attribute {name!r}")
