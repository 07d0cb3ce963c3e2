"""Sources of rows: arrays and sparse matrices in memory, and files that exceed it."""

from typing import TYPE_CHECKING

from skdpdyn.support.lazy import on_first_use

# for editors and type checkers, because the name below is loaded on first use
if TYPE_CHECKING:
    from skdpdyn.data.parquet import ParquetRows as ParquetRows

__all__ = ["ParquetRows"]

__getattr__ = on_first_use(__name__, {"ParquetRows": "parquet"})
