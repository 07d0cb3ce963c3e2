"""Which rows are summed together: fixed chunks, from public numbers alone."""

import math

import numpy as np

_MIN_CHUNK = 256
_MAX_CHUNKS = 64  # or more where a chunk would have more rows than _MAX_CHUNK
_MAX_CHUNK = 16384  # rows that are summed one after the other: their rounding grows with the square
_CHUNK_MULTIPLE = 16
_ASSUMED_LENGTH = 32  # values that a CSR row is taken to store
LARGEST_PART = 1 / 4
"""Part of X that the sums of all chunks may take in memory."""


def count_chunks(shape: tuple[int, int], dtype: np.dtype, is_sparse: bool, n_sums: int) -> int:
    """Return the largest number of chunks: of 256 rows or more, their sums at most a quarter of X.

    There are 64, or more where that keeps a chunk to 16,384 rows, or to the root of their number.

    How many values CSR rows store is not public: with one more in a record all other records would
    be summed in other chunks, and have other room for rounding. So rows are taken to store 32 each;
    `skdpdyn.kernels.descent.descend` takes one thread where that is far too many.
    """
    n_samples, n_features = shape
    if is_sparse:
        return _count_chunks(n_samples, 8 * min(n_features, _ASSUMED_LENGTH), n_sums)
    return _count_chunks(n_samples, np.dtype(dtype).itemsize * n_features, n_sums)


def _count_chunks(n_samples, row_bytes, n_sums):
    of_memory = n_samples * row_bytes * LARGEST_PART // (8 * n_sums)
    enough = max(_MAX_CHUNKS, n_samples // max(_MAX_CHUNK, math.isqrt(n_samples)))
    return int(max(1, min(enough, n_samples // _MIN_CHUNK, of_memory)))


def largest_number_in_order(objective) -> float:
    """Return how many vectors are summed one after the other at most, whatever the kind of rows.

    These are the rows of a chunk, and then the chunks, more of them where a record has more rows.
    """
    row_bytes = 4 * min(objective.n_features, _ASSUMED_LENGTH)
    n_sums = objective.n_outputs * (objective.n_features + 17) + 16  # with all that a family pads
    n_chunks = _count_chunks(objective.n_samples, row_bytes, n_sums)
    in_order = objective.most_rows * max(n_chunks, _MAX_CHUNKS)
    return objective.n_samples / n_chunks + _CHUNK_MULTIPLE + in_order


def chunk_edges(n_samples: int, n_chunks: int, n_rows: int | None = None) -> np.ndarray:
    """Return where chunks begin and end: multiples of 16 rows, whatever the number of threads.

    The size of a chunk follows from the public number of records alone. Where these have several
    rows each (``n_rows`` in all) there are more chunks, up to as many times as the most rows of a
    record.
    """
    n_rows = n_samples if n_rows is None else n_rows
    size = -(-n_samples // (n_chunks * _CHUNK_MULTIPLE)) * _CHUNK_MULTIPLE
    return np.append(np.arange(0, n_rows, size), n_rows)
