"""Memory maps: rows of a file that are read in order, and of which no array is made."""

import mmap
import os
import weakref
from itertools import pairwise
from typing import Any

import numpy as np

from skdpdyn.data.streamed import StreamedRows, refuse

_SHORTER = "the file of X or y is shorter than it was"


class ArrayFile:
    """An array in a file. Some rows are read at a time, by their place in the file.

    Reading a memory map of a file that was cut short would end the process. Here it is an error.

    Parameters
    ----------
    path : str or int
        The file, or the descriptor of an open one.
    offset : int
        Position of the first row in the file.
    shape : tuple of int
        Shape of the array, in C order.
    dtype : dtype
        What the file holds.

    Attributes
    ----------
    least_bytes : int
        Files of fewer bytes become an array: a fit is then faster, and the array small.
    """

    least_bytes = 1 << 26

    def __init__(self, path, offset, shape, dtype):
        self.shape = shape
        self.dtype = dtype
        self._offset = offset
        self._row = dtype.itemsize * int(np.prod(shape[1:]))
        self._file = os.dup(path) if isinstance(path, int) else os.open(path, os.O_RDONLY)
        self._finish = weakref.finalize(self, os.close, self._file)
        self._state = self._stat()

    @classmethod
    def of(cls, array: Any) -> "ArrayFile | None":
        """Return the file of a memory map in C order; None for other arrays."""
        if not isinstance(array, np.memmap) or not hasattr(os, "preadv"):
            return None
        # a copy on write may differ from its file
        if array.filename is None or array.mode == "c" or not array.flags.c_contiguous:
            return None
        base: Any = array
        while not isinstance(base, mmap.mmap):
            base = getattr(base, "base", None)
            if base is None:
                return None
        start = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
        offset = start + array.ctypes.data - np.frombuffer(base, np.uint8).ctypes.data
        try:
            opened = cls(os.fspath(array.filename), offset, array.shape, array.dtype)
        except OSError:  # a file that is gone is still mapped
            return None
        if opened._state[0] < offset + array.nbytes:
            raise ValueError(f"{_SHORTER}: open it anew")
        return opened

    def _stat(self):
        state = os.fstat(self._file)
        return state.st_size, state.st_mtime_ns

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self.shape[0] * self._row

    def part(self, first: int, last: int) -> np.ndarray:
        """Return rows first, ..., last - 1."""
        rows: Any = np.empty((last - first, *self.shape[1:]), self.dtype)
        todo = memoryview(rows).cast("B")
        place = self._offset + first * self._row
        while todo:
            done = os.preadv(self._file, [todo], place)
            if not done:
                raise refuse(_SHORTER)
            todo = todo[done:]
            place = place + done
        return rows

    def check(self) -> None:
        """Refuse a file that has changed since it was opened."""
        if self._stat() != self._state:
            raise refuse("the file of X or y changed while it was read: fit again")

    def close(self) -> None:
        """Close the file."""
        self._finish()


class MappedRows(StreamedRows):
    """Rows of a memory map, whose targets are in memory or in a memory map.

    Parameters
    ----------
    X : ArrayFile
        Rows, of any numbers.
    y : ndarray of shape (n_samples,)
        Targets, as a user has them.
    exposure : ndarray of shape (n_samples,) or None, default=None
        Exposures of counts.
    """

    def __init__(self, X, y, exposure=None):
        dtype = "float32" if X.dtype == np.float32 else "float64"
        super().__init__(X.shape, dtype)
        self.has_exposure = exposure is not None
        self._X = X
        self._targets = [_Column(part) for part in (y, exposure) if part is not None]
        files = [column.file for column in self._targets if column.file is not None]
        self._files = [X, *files]

    def read(self):
        """See `StreamedRows.read`."""
        n_rows = self.shape[0]
        return self._source([*range(0, n_rows, self._rows_at_a_time()), n_rows])

    def _source(self, edges):
        for file in self._files:
            file.check()
        for first, last in pairwise(edges):
            X = self._X.part(first, last).astype(self.dtype, copy=False)
            y = [column.part(first, last) for column in self._targets]
            yield X, np.column_stack(y) if self.has_exposure else y[0]
        for file in self._files:
            file.check()

    def close(self):
        """Close the files."""
        for file in self._files:
            file.close()


class _Column:
    """A number of each row, in memory or in a file."""

    def __init__(self, values):
        self.file = ArrayFile.of(values)
        self._values = values[:] if self.file is None else None

    def part(self, first, last):
        """Return those of rows first, ..., last - 1."""
        return self._values[first:last] if self.file is None else self.file.part(first, last)


def file_of_rows(X: Any) -> ArrayFile | None:
    """Return the file of a memory map of rows; None of anything else."""
    is_map = isinstance(X, np.memmap) and X.ndim == 2 and X.size and X.dtype.kind in "biuf"
    return ArrayFile.of(X) if is_map else None
