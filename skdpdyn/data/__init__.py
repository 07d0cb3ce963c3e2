"""Sources of rows: arrays and sparse matrices in memory, and files that exceed it."""

from importlib import import_module
from typing import TYPE_CHECKING

# for editors and type checkers, because the name below is loaded on first use
if TYPE_CHECKING:
    from skdpdyn.data.parquet import ParquetRows as ParquetRows

__all__ = ["ParquetRows"]


def __getattr__(name):
    """Load names on first use, so that importing a file of this folder loads no kernels."""
    if name in __all__:
        return getattr(import_module("skdpdyn.data.parquet"), name)
    raise AttributeError(f"module 'skdpdyn.data' has no attribute {name!r}")
