"""Fixed chunks of rows that are summed together, from public numbers alone."""

import numpy as np

_MIN_CHUNK = 256
_MAX_CHUNKS = 64  # or more where a chunk would have more rows than _MAX_CHUNK
_MAX_CHUNK = 4096  # rows that are summed one after the other
_CHUNK_MULTIPLE = 16
_ASSUMED_LENGTH = 32  # values that a CSR row is taken to store
_EPS = np.finfo(np.float64).eps
MOST_GATHERED = 4096
"""Most rows of a batch that are summed one after the other."""
LEAST_SUMMED = 8
"""Fewest rows in a chunk, or of a batch in a sum, but for the last one."""
LARGEST_PART = 1 / 4
"""Part of X that the sums of all chunks may take in memory."""


def count_chunks(shape: tuple[int, int], dtype: np.dtype, is_sparse: bool, n_sums: int) -> int:
    """Return the largest number of chunks: of 256 rows or more, their sums at most a quarter of X.

    There are 64, or more where that keeps a chunk to 4,096 rows.

    The number of stored values of CSR rows is not public: with one more value in a record, all
    other records would be summed in other chunks, and have other room for rounding. So 32 values
    per row are assumed; `skdpdyn.kernels.descent.descend` uses one thread if that is far too many.
    """
    width = min(shape[1], _ASSUMED_LENGTH)
    size = np.dtype(dtype).itemsize
    return _count_chunks(shape[0], 8 * width if is_sparse else size * shape[1], n_sums)


def _count_chunks(n_samples, row_bytes, n_sums):
    of_memory = n_samples * row_bytes * LARGEST_PART // (8 * n_sums)
    enough = max(_MAX_CHUNKS, n_samples // _MAX_CHUNK)
    return int(max(1, min(enough, n_samples // _MIN_CHUNK, of_memory)))


def in_order(n_rows: float, n_chunks: float) -> float:
    """Return how many vectors, summed one after the other, round as much as chunks that are added.

    The sums of chunks of ``n_rows`` rows round as their rows one after the other. Adding up c of
    them as `skdpdyn.kernels.sums` does rounds by (2 + c^2 eps) eps/2 of the sum of norms more: the
    theorem is in doc/theory/bits.rst.
    """
    return n_rows + 2 + _EPS * n_chunks**2


def largest_number_in_order(objective) -> float:
    """Return `in_order` of a pass over all rows at most, whatever the kind of rows.

    There are more chunks where a record has more rows.
    """
    row_bytes = 4 * min(objective.n_features, _ASSUMED_LENGTH)
    n_sums = objective.n_outputs * (objective.n_features + 17) + 16  # with all that a family pads
    n_chunks = _count_chunks(objective.n_samples, row_bytes, n_sums)
    most_chunks = objective.most_rows * max(_MAX_CHUNKS, objective.n_samples // _MAX_CHUNK)
    return in_order(objective.n_samples / n_chunks + _CHUNK_MULTIPLE, most_chunks)


def gathered_in_order(n_rows: float) -> float:
    """Return `in_order` of a batch of at most ``n_rows`` rows, some of them summed at a time."""
    return in_order(min(n_rows, MOST_GATHERED), n_rows / LEAST_SUMMED + 1)


def chunk_edges(n_samples: int, n_chunks: int, n_rows: int | None = None) -> np.ndarray:
    """Return where chunks begin and end: multiples of 16 rows, whatever the number of threads.

    The size of a chunk follows from the public number of records alone. Where these have several
    rows each (``n_rows`` in all) there are more chunks, up to as many times as the most rows of a
    record.
    """
    n_rows = n_samples if n_rows is None else n_rows
    return edges_of(n_rows, -(-n_samples // (n_chunks * _CHUNK_MULTIPLE)) * _CHUNK_MULTIPLE)


def edges_of(n_rows: int, size: int) -> np.ndarray:
    """Return where chunks of equal size begin and end; the last one may be shorter."""
    return np.minimum(np.arange(0, n_rows + size, size), n_rows)
