"""A pass over rows in memory: sums of clipped gradients by chunk, for every family of kernels.

`skdpdyn.kernels.gradients` sums the gradients of a chunk of rows. It is compiled for a kind of rows
when it is first used; weights where the layout has no parameter are zero.

Rows are summed in fixed chunks whose sums are added in order, so any number of threads gives the
same bits.

numba drops the errors of functions that enter others as values, as kernels do. One that fails, for
want of memory, must not leave the sum of other rows in place of its own: so whoever calls it puts
NaN there first, and the fit is refused.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numba import types

from skdpdyn.kernels.gradients import Cells, Csr, Dense, Ranged
from skdpdyn.kernels.jit import (
    component,
    entry,
    first_class,
    function_type,
    readonly,
    writable,
)
from skdpdyn.kernels.later import aligned_empty
from skdpdyn.kernels.statistics import pieces
from skdpdyn.kernels.sums import Total, add
from skdpdyn.support.chunks import LARGEST_PART, MOST_GATHERED

# products of a row's number and a parameter between two looks at interrupts: a tenth of a second
_PIECE = 10**8

_f64 = types.float64
_i64 = types.int64
_vector = readonly(np.float64)
_output = writable(np.float64)


def types_of_rows(dtype):
    """Return the types of targets, factors, limits, offsets and weights of rows of ``dtype``."""
    in_their_precision = readonly(dtype)
    return in_their_precision, _vector, in_their_precision, _vector, _vector


def pass_types(family, dtype, precision="float64"):
    """Return the types of a pass: of the chunk kernel, of the problem, of the point."""
    problem = family.residual_type, family.rows_type(dtype), *types_of_rows(dtype)
    point = readonly(precision), _vector, _vector, _f64
    return types.void(*problem, *point, _i64, _i64, _output), problem, point


@cache
def compiled_chunk(family, dtype, precision="float64"):
    """Compile the gradients of a chunk, for rows of ``dtype`` and weights of ``precision``."""
    return component(pass_types(family, dtype, precision)[0])(family.chunk_gradients)


def _some_chunks(
    chunk_gradients, residual, X, y, row_scale, row_limit, row_offset, row_weight, weights,
    intercept, shift, intercept_scaling, edges, first, last, sums, total,
):  # fmt: skip
    """Sum chunks first..last, one thread's share of a pass, each in its own row of ``sums``.

    If there is room for a single sum, chunks are added to ``total`` one after the other.
    """
    several = sums.shape[0] > 1
    for c in range(first, last):
        row = c if several else 0
        sums[row, 0] = np.nan
        chunk_gradients(
            residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
            intercept_scaling, edges[c], edges[c + 1], sums[row],
        )  # fmt: skip
        if not several:
            add(total, sums[0, : total.shape[1]])


@cache
def compiled_some_chunks(family, dtype, precision="float64"):
    """Compile a thread's share of a pass, for rows of ``dtype`` and weights of ``precision``."""
    chunk, problem, point = pass_types(family, dtype, precision)
    share = readonly(np.int64), _i64, _i64, *(writable(np.float64, 2),) * 2
    some_chunks = entry(types.void(function_type(chunk), *problem, *point, *share))(_some_chunks)
    return partial(some_chunks, compiled_chunk(family, dtype, precision))


def _some_batches(
    chunk_gradients, gather, residual, X, y, row_scale, row_limit, row_offset, row_weight, weights,
    intercept, shift, intercept_scaling, index, room, own_y, own_scale, own_limit, own_offset,
    own_weight, sums, total,
):  # fmt: skip
    """Add the sums over the rows at some places to ``total``, as many at a time as have room."""
    size = own_y.size
    for first in range(0, index.size, size):
        count = size if index.size - first > size else index.size - first
        gather(X, index, first, count, room)
        for i in range(count):
            row = np.uintp(index[first + i])
            own_y[i] = y[row]
            own_scale[i] = row_scale[row]
            own_limit[i] = row_limit[row]
            if own_offset.size:
                own_offset[i] = row_offset[row]
            if own_weight.size:
                own_weight[i] = row_weight[row]
        sums[0, 0] = np.nan
        chunk_gradients(
            residual, room, own_y, own_scale, own_limit, own_offset, own_weight, weights, intercept,
            shift, intercept_scaling, 0, count, sums[0],
        )  # fmt: skip
        add(total, sums[0, : total.shape[1]])


@cache
def compiled_some_batches(family, dtype):
    """Compile sums over chosen rows, of X of ``dtype``."""
    gathered = family.gathered_dtype(dtype)
    chunk, _, point = pass_types(family.of_gathered, gathered)
    numbers = types_of_rows(gathered)
    room = family.room_type(gathered)
    gather = types.void(family.rows_type(dtype), readonly(np.int64), _i64, _i64, room)
    of_rows = writable(gathered), _output, writable(gathered), _output, _output
    problem = family.residual_type, family.rows_type(dtype), *numbers, *point
    to = readonly(np.int64), room, *of_rows, *(writable(np.float64, 2),) * 2
    kernels = function_type(chunk), function_type(gather)
    batches = entry(types.void(*kernels, *problem, *to))(_some_batches)
    return partial(
        batches, compiled_chunk(family.of_gathered, gathered), component(gather)(family.gather)
    )


def kernel_family(is_sparse, n_outputs):
    """Return how the kernel takes such rows, for so many outputs."""
    return (Csr if is_sparse else Dense)(n_outputs > 1)


def chunk_sums(n_chunks, n_sums):
    """Return room for the sums of all chunks, no two of which share a cache line."""
    width = -(-n_sums // 8) * 8
    sums = aligned_empty(n_chunks * width).reshape(n_chunks, width)
    sums[:] = 0
    return sums


@dataclass(frozen=True)
class Gradients:
    """Public description of a pass, which sums the clipped gradients of rows.

    Parameters
    ----------
    objective : Objective
        The problem.
    is_sparse : bool
        Whether the rows are CSR arrays.
    n_chunks : float
        Largest number of chunks; of batches, that many of `MOST_GATHERED` rows have all records.
    precision : str
        Precision of the weights, as the name of a dtype.
    aligned : bool
        Whether rows have weight 1 and keep their place in the sums if a record is dropped.
    of_batches : bool
        Whether a sum is over chosen rows.
    expansion : Expansion or None, default=None
        Tables of features, where rows are cells.
    in_ranges : bool, default=False
        Whether dense rows are in ranges.
    """

    objective: Any
    is_sparse: bool
    n_chunks: float
    precision: str
    aligned: bool
    of_batches: bool
    expansion: Any = None
    in_ranges: bool = False

    @classmethod
    def of(cls, objective, rows, of_batches=False):
        """Describe a pass over ``rows``, or over batches of them, for this objective."""
        kind = (objective, rows.is_sparse)
        of_rows = (rows.expansion, rows.ranges is not None)
        if of_batches:
            n_chunks = max(1.0, objective.n_samples / MOST_GATHERED)
            return cls(*kind, n_chunks, "float64", False, True, *of_rows)
        single = objective.exact and rows.allows_single(objective)
        gradients = cls(*kind, 1, "float64", single, False, *of_rows)
        precision = gradients.family.precision(rows.dtype.name) if single else "float64"
        n_chunks = rows.count_chunks(gradients.n_weights + objective.n_outputs)
        return replace(gradients, n_chunks=n_chunks, precision=precision)

    @property
    def family(self) -> Any:
        """How the kernel takes the rows, see `skdpdyn.kernels.gradients.Dense`."""
        if self.expansion is not None:
            return Cells(self.objective.n_outputs > 1, self.expansion.code_dtype.name)
        if self.in_ranges:
            return Ranged(self.objective.n_outputs > 1)
        return kernel_family(self.is_sparse, self.objective.n_outputs)

    @cached_property
    def n_weights(self) -> int:
        """Number of weights, some of which no parameter has."""
        if self.expansion is not None:
            return self.objective.n_outputs * self.expansion.n_weights
        return self.family.layout(self.objective.n_outputs, self.objective.n_features)[1]

    @cached_property
    def n_sums(self) -> int:
        """Number of sums: one a weight, and an intercept and an offset for each output."""
        return self.n_weights + 2 * self.objective.n_outputs


class Point:
    """Parameters as kernels read them, under the public map of rows, and their sums as parameters.

    Parameters
    ----------
    gradients : Gradients
        The pass.
    row_map : RowMap or None
        The map.
    """

    def __init__(self, gradients, row_map):
        self._objective = gradients.objective
        self._map = row_map
        n_outputs = gradients.objective.n_outputs
        n_features = gradients.objective.n_features
        self._slot = None
        self._expansion = gradients.expansion
        if gradients.expansion is None:
            self._slot, _ = gradients.family.layout(n_outputs, n_features)
        self._n_coefficients = n_outputs * n_features
        self._weights = aligned_empty(gradients.n_weights, gradients.precision)
        self._weights[:] = 0
        self._intercept, self._shift = np.zeros((2, n_outputs))

    def at(self, theta):
        """Return ``weights``, ``intercept`` and ``shift`` at ``theta``, valid until the next."""
        size = self._n_coefficients
        n_outputs = self._intercept.size
        coefficients = theta[:size]
        if self._map is not None:
            coefficients = self._map.coefficients(coefficients.reshape(n_outputs, -1))
            self._shift[:] = self._map.shift(coefficients)
        if self._expansion is not None:
            of_outputs = coefficients.reshape(n_outputs, -1)
            self._weights[:] = np.ravel([self._expansion.cells(coef) for coef in of_outputs])
        else:
            self._weights[self._slot[:size]] = coefficients.ravel()
        self._intercept[: theta.size - size] = theta[size:] * self._objective.intercept_scaling
        return self._weights, self._intercept, self._shift

    def pull_back(self, sums):
        """Return the gradient in the parameters, of shape (n_parameters,), from a kernel's sums."""
        size = self._n_coefficients
        n_outputs = self._intercept.size
        if self._expansion is not None:
            of_cells = sums[: self._weights.size].reshape(n_outputs, -1)
            gradient = np.ravel([self._expansion.features(of_output) for of_output in of_cells])
            column = sums[self._weights.size :][: self._objective.n_parameters - size]
            gradient = np.append(gradient, column)
        else:
            gradient = sums[self._slot[: self._objective.n_parameters]]
        if self._map is not None:
            of_rows = gradient[:size].reshape(n_outputs, -1)
            gradient[:size] = self._map.pull_back(of_rows, sums[-n_outputs:]).ravel()
        return gradient


class LocalSums:
    """Sums of the gradients over rows in memory, at one point after the other.

    Parameters
    ----------
    gradients : Gradients
        The sum to compute.
    rows : LocalRows
        The rows, or a part of all rows that begins and ends with a chunk.
    edges : ndarray of int64
        Edges of the chunks of these rows.
    n_threads : int, default=1
        Number of threads; the bits of the result do not depend on it.
    keep : bool, default=False
        Whether the sum of each chunk is kept, for `of_chunks`.
    numbers : BoundedRows or None, default=None
        Factors and limits of these rows; None: they are computed.
    """

    def __init__(self, gradients, rows, edges, n_threads=1, keep=False, numbers=None):
        n_chunks = edges.size - 1
        objective = gradients.objective
        self._kernel = compiled_some_chunks(gradients.family, rows.dtype.name, gradients.precision)
        numbers = rows.bounded_for(gradients) if numbers is None else numbers
        residual = first_class(objective.loss.residual)
        self._problem = residual, gradients.family.rows(rows.in_ranges), rows.y, *numbers
        self._scaling = objective.intercept_scaling
        self._edges = edges
        self._n_sums = gradients.n_sums
        n_bytes = rows.X.data.nbytes + rows.X.indices.nbytes if rows.is_sparse else math.inf
        # sums of all chunks, beside X
        fits = n_chunks * gradients.n_sums * 8 <= LARGEST_PART * n_bytes
        self._n_threads = min(n_threads, n_chunks) if fits else 1
        self._pool = ThreadPoolExecutor(self._n_threads - 1) if self._n_threads > 1 else None
        n_kept = n_chunks if keep or self._n_threads > 1 else 1
        self._sums = chunk_sums(n_kept, gradients.n_sums)
        shares = np.linspace(0, n_chunks, self._n_threads + 1).round().astype(np.int64)
        own_share, *others = pairwise(shares.tolist())
        size = max(1, _PIECE // (int(np.max(np.diff(edges))) * objective.n_parameters))
        self._own_pieces = pieces(*own_share, size)
        self._others = [piece for share in others for piece in pieces(*share, size)]

    def close(self):
        """Let go of the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def __call__(self, weights, intercept, shift):
        """Return the sum over all chunks, added up in order, of shape (n_sums,)."""
        total = Total((self._n_sums,))
        self.add_to(total, weights, intercept, shift)
        return total.value()

    def add_to(self, total, weights, intercept, shift):
        """Add the sum of each chunk to a `Total` of those before them, in order."""
        self._sum(total.parts, weights, intercept, shift)
        if len(self._sums) > 1:
            total.add_rows(self._sums)

    def of_chunks(self, weights, intercept, shift, go_on=None):
        """Return the sum of each chunk, of shape (n_chunks, n_sums), where they are kept.

        ``go_on`` is called now and then, and raises where nobody waits for the sums any more.
        """
        self._sum(np.zeros((2, self._n_sums)), weights, intercept, shift, go_on)
        return self._sums[:, : self._n_sums]

    def _sum(self, total, weights, intercept, shift, go_on=None):
        point = weights, intercept, shift, self._scaling, self._edges
        to = self._sums, total
        tasks = [
            self._pool.submit(self._kernel, *self._problem, *point, *piece, *to)
            for piece in self._others
        ]
        try:
            for piece in self._own_pieces:
                if go_on is not None:
                    go_on()
                self._kernel(*self._problem, *point, *piece, *to)
            for task in tasks:
                task.result()
        except BaseException:  # an interrupt: the pool would go on to the end of the pass
            for task in tasks:
                task.cancel()
            raise


class BatchSums:
    """Sums of the gradients over chosen rows in memory, some of them side by side at a time.

    Parameters
    ----------
    gradients : Gradients
        The sum to compute.
    rows : LocalRows
        Some of the rows.
    """

    def __init__(self, gradients, rows):
        family = gradients.family
        size = gradients.family.rows_at_a_time(rows.shape[1])
        dtype = family.gathered_dtype(rows.dtype.name)
        scale, limit, offset, weight = rows.bounded_for(gradients)
        y = rows.y.astype(dtype, copy=False)
        limit = limit.astype(dtype, copy=False)
        numbers = (y, scale, limit, offset, weight)
        X = family.rows(rows.in_ranges)
        residual = first_class(gradients.objective.loss.residual)
        self._kernel = partial(
            compiled_some_batches(family, rows.dtype.name), residual, X, *numbers
        )
        self._scaling = gradients.objective.intercept_scaling
        self._rows = rows
        gathered = [np.empty(size if values.size else 0, values.dtype) for values in numbers]
        self._room = family.room(X, size), *gathered, np.empty((1, gradients.n_sums))
        self._n_sums = gradients.n_sums

    def close(self):
        """Hold nothing."""

    def __call__(self, weights, intercept, shift, chosen):
        """Return the sum over records at some places, added up in order, of shape (n_sums,)."""
        total = Total((self._n_sums,))
        index = np.ascontiguousarray(self._rows.of_records(chosen), dtype=np.int64)
        self._kernel(weights, intercept, shift, self._scaling, index, *self._room, total.parts)
        return total.value()
