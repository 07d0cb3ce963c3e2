"""Files that arrays are in: pages that must stay as they were, and rows that are read by place."""

import mmap
import os
import weakref
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from scipy import sparse

from skdpdyn.data.streamed import refuse


class ArrayFile:
    """An array in an open file. Some rows are read at a time, by their place in the file.

    Parameters
    ----------
    descriptor : int
        The open file, which holds nothing else.
    shape : tuple of int
        Shape of the array, in C order.
    dtype : dtype
        What the file holds.
    """

    def __init__(self, descriptor, shape, dtype):
        self.shape = shape
        self.dtype = dtype
        self._row = dtype.itemsize * int(np.prod(shape[1:]))
        self._file = os.dup(descriptor)
        weakref.finalize(self, os.close, self._file)

    def part(self, first: int, last: int) -> np.ndarray:
        """Return rows first, ..., last - 1."""
        rows: Any = np.empty((last - first, *self.shape[1:]), self.dtype)
        todo = memoryview(rows).cast("B")
        place = first * self._row
        while todo:
            done = os.preadv(self._file, [todo], place)
            if not done:
                raise refuse("a file of decoded rows is shorter than it was")
            todo = todo[done:]
            place = place + done
        return rows


class _Pages:
    """The file that pages of memory are of.

    Reading a page that is not in its file any more ends the process, and no code can make an error
    of that. So a file that is too short is refused before it is read.

    Parameters
    ----------
    pages : mmap
        The pages.
    start : int
        Place of the first one in the file.
    path : path-like or None
        Name of the file, where it is known.

    Raises
    ------
    ValueError
        If the file is shorter than it was when it was opened.
    """

    def __init__(self, pages: mmap.mmap, start: int, path: Any) -> None:
        self._pages = pages
        self._path = path
        self._state = self._seen()
        if pages.size() < start + len(pages):
            raise refuse("a file that an array is in is shorter than it was: open it anew")

    def _seen(self):
        """Return the size of the file; and device, inode, size and time of change by its name."""
        size = self._pages.size()
        try:
            named = None if self._path is None else os.stat(self._path)
        except OSError:  # a file that is gone is still mapped
            named = None
        if named is None:
            return size, None
        return size, (named.st_dev, named.st_ino, named.st_size, named.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that has changed since it was looked at first."""
        if self._seen() != self._state:
            raise refuse("a file that an array is in changed while it was read: start again")


class UnchangedFiles(AbstractContextManager):
    """Refuse arrays in files that are too short, or that change before the block ends.

    Parameters
    ----------
    *data : object
        Arrays and sparse arrays, whatever they are views of; others have no file that is known.

    Raises
    ------
    ValueError
        If a file is shorter than it was when it was opened. At the end of the block, if one is
        another than it was.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.data.files import UnchangedFiles
    >>> with UnchangedFiles(np.zeros(3)):  # in no file
    ...     pass
    """

    def __init__(self, *data: Any) -> None:
        arrays = [array for values in data for array in _arrays_in(values)]
        self._files = [file for array in arrays if (file := _pages_of(array)) is not None]

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        """Look at the files again, unless there is another error."""
        if error is None:
            for file in self._files:
                file.check()


def _arrays_in(values):
    """Return the arrays that values are made of."""
    if isinstance(values, np.ndarray):
        return [values]
    if not sparse.issparse(values):
        return []
    coords = values.coords if values.format == "coo" else ()
    return [part for part in (*vars(values).values(), *coords) if isinstance(part, np.ndarray)]


def _pages_of(array: np.ndarray) -> _Pages | None:
    """Return the file that an array is a view of; None where it is in no file."""
    start = 0
    path = None
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        if isinstance(base, np.memmap) and base.offset is not None:
            path = base.filename
            start = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    if base is None:
        return None
    try:
        base.size()
    except (OSError, ValueError):  # pages without a file
        return None
    return _Pages(base, start, path)
