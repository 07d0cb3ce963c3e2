"""Arrays that a fit was given, and whether they still hold the rows that were read."""

from typing import Any

import numpy as np

from skdpdyn.kernels.sums import fingerprint, finite_fingerprint


class Originals:
    """Arrays that a fit reads several times, and fingerprints of the first reading.

    Factors and limits bound the rows that they were computed from. If another thread or process
    writes to a row in the middle of a fit, they bound it no more.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.training.originals import Originals
    >>> X = np.zeros((3, 2))
    >>> originals = Originals()
    >>> originals.add(X)
    >>> originals.changed()
    False
    >>> X[2, 1] = 1e6
    >>> originals.changed()
    True
    """

    def __init__(self) -> None:
        self._as_read: list[tuple[np.ndarray, int]] = []

    def add(self, *given: Any) -> None:
        """Take up arrays; others, such as lists and arrays of objects, are read once."""
        for rows in given:
            array = _array_of(rows)
            if array is not None and not array.dtype.hasobject:
                self._as_read.append((array, fingerprint(array)))

    def add_finite(self, *arrays: np.ndarray) -> bool:
        """Take up arrays of floats or integers, if all numbers are finite; return whether so."""
        for array in arrays:
            digest = finite_fingerprint if array.dtype.kind == "f" else fingerprint
            found = digest(array)
            if found is None:
                return False
            self._as_read.append((array, found))
        return True

    def changed(self) -> bool:
        """Return whether an array is not as it was at first; a change undone is not seen."""
        return any(fingerprint(array) != found for array, found in self._as_read)


def _array_of(given):
    """Return a value as an array; None if it cannot be one: whoever reads it says why."""
    try:
        return np.asarray(given) if hasattr(given, "__array__") else None
    except Exception:  # its text may quote a record
        return None
