"""Short passes over rows: counts, sums, squares and products of mapped rows, chunk by chunk.

A mapped row is z = v / max(norm, |v|) with v = W (f x - c) and f = radius / max(|x|, radius). Some
rows at a time are mapped, in double precision, and stay in the cache while they are counted,
summed, squared or multiplied by one another. So a statistic reads X once, and holds nothing of a
row unless it is asked to.

The bits of f, |v| and z depend on nothing but the row: each is computed in the same order wherever
it stands, so that a record moves a count by its own weight, exactly.

Theorem. A computed sum of a chunk of m terms t_i, rounded to what they are computed as, differs
from the exact one by at most (m + 2) eps/2 times the sum of |t_i| to first order. Proof. Each
coordinate is a tree of additions in which a term has m - 1 ancestors at the most, whatever rows
are added up in registers first, and a product of two numbers and a weight rounds three times, or
once less where it is contracted into an addition. Chunks are added up as `skdpdyn.kernels.sums`
says. Counts are exact: weights are multiples of a public power of two, see `Statistic.grain` in
`skdpdyn.kernels.asked`.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import types

from skdpdyn.kernels.asked import (
    APART,
    COUNTS,
    NOTHING,
    OCTAVES,
    OUTER,
    PARTS,
    ROWS,
    SPLIT,
    SQUARES,
    SUM,
    Ball,
    InRanges,
    LongRows,
    padded,
)
from skdpdyn.kernels.gradients import Csr, Dense, Ranged, csr_views, values_of
from skdpdyn.kernels.jit import entry, inner, readonly, strict, writable
from skdpdyn.kernels.later import aligned_empty
from skdpdyn.kernels.sums import Total, add
from skdpdyn.kernels.vectors import (
    add_rows,
    filled,
    load,
    load_numbers,
    load_row,
    multiply_add,
    store,
    total,
    zeros_on_stack,
)
from skdpdyn.support.blas import in_threads

_BLOCK = 64  # rows that are mapped at a time
_ORIGIN = (0,)
_PIECE = 10**8  # products between two looks at interrupts: a tenth of a second
_TASKS = 8  # tasks of each thread, which take them as they come
_NONE = np.empty(0)
_LARGEST_SINGLE = float(np.finfo(np.float32).max)

_f64 = types.float64
_i64 = types.int64
_flag = types.boolean
_vector = readonly(np.float64)
_output = writable(np.float64)


_ball = types.NamedUniTuple(_f64, len(Ball._fields), Ball)


# --- kernels ------------------------------------------------------------------------------------


@inner
def _factor(square, radius, most):
    """Return the factor that brings a row with this squared norm into the ball; NaN: too long."""
    if not square <= most:
        return np.nan
    norm = np.sqrt(square)
    return radius / (norm if norm > radius else radius) if radius < np.inf else 1.0


@inner
def _divided(length, ball):
    """Return the factor of a row of this length."""
    if ball.norm == 0.0:
        return 1.0
    if ball.unit > 0.0:
        return ball.shrink / length if length >= ball.unit else 0.0
    return ball.shrink / (length if length > ball.norm else ball.norm)


@inner
def _clipped(number):
    number = number if number <= 1.0 else 1.0
    return number if number >= -1.0 else -1.0


@inner
def _place(grid, number):
    """Return how many of the thresholds are smaller: no branch depends on a row."""
    k = np.int64(0)
    for i in range(grid.size):
        k += np.int64(grid[i] < number)
    return k


@inner
def _counted(row_weight, i, grain):
    return np.floor(row_weight[i] * grain) / grain if row_weight.size else 1.0


@inner
def _octave(number):
    """Return the place of the octave (2^(k - 1), 2^k] of a number, by sign and exponent."""
    bits = np.float64(number).view(np.uint64)
    size = bits << np.uint64(1)
    sign = bits >> np.uint64(63)
    return ((size - np.uint64(size != 0)) >> np.uint64(53)) | (sign << np.uint64(11))


@inner
def _count_octaves(X, first, last, row_weight, ball, out):
    """Count the octaves of some rows, row by row: additions to one cell would wait for another."""
    values = values_of(X)
    for i in range(first, last):
        weight = _counted(row_weight, i, ball.grain)
        at = np.uint64(0)
        for j in range(values.shape[1]):
            out[at + _octave(values[i, j])] += weight
            at += np.uint64(APART)


@inner
def _count_parts(X, first, last, row_weight, ball, lows, factors, out):
    """Count the parts of ranges that some rows are in, column by column."""
    values = values_of(X)
    for j in range(values.shape[1]):
        if factors[j] > 0.0:
            for i in range(first, last):
                place = (np.float64(values[i, j]) - lows[j]) * factors[j]
                if 0.0 <= place <= PARTS:
                    at = np.uint64(j * PARTS) + np.uint64(min(place, PARTS - 1.0))
                    out[at] += _counted(row_weight, i, ball.grain)


@inner
def _norms(X, first, size, ball, scale):
    """Write squares of norms of some rows; return whether all are allowed."""
    n_features = values_of(X).shape[1]
    within = True
    full = np.int64(n_features) // 8 * 8
    zero = filled(0.0)
    for r in range(size):
        at = (first + r) * n_features
        squares = zero
        for j in range(0, full, 8):
            row = load_row(X, at, j, 8)
            squares = multiply_add(row, row, squares)
        row = load_row(X, at, full, n_features - full)
        scale[r] = total(multiply_add(row, row, squares))
    for r in range(size):
        within &= scale[r] <= ball.most
    return within


@inner
def _map_rows(X, first, size, shift, scales, z, scale, length):
    """Write D (f x - c) of some rows into z, and squares of lengths; other rows are zero."""
    n_features = values_of(X).shape[1]
    width = shift.size
    zero = filled(0.0)
    full = np.int64(n_features) // 8 * 8
    for r in range(size):
        at = (first + r) * n_features
        to = r * width
        squares = zero
        f = filled(scale[r])
        for j in range(0, full, 8):
            row = multiply_add(load_row(X, at, j, 8), f, load(shift, j))
            row = multiply_add(row, load(scales, j), zero)
            store(z, to + j, row)
            squares = multiply_add(row, row, squares)
        for j in range(full, width, 8):  # what is left of the row, and room for more columns
            row = multiply_add(load_row(X, at, j, n_features - j), f, load(shift, j))
            row = multiply_add(row, load(scales, j), zero)
            store(z, to + j, row)
            squares = multiply_add(row, row, squares)
        length[r] = total(squares)
    z[size * width :] = 0.0


@inner
def _four_sums(left, at, along, across, right, place, stride, count):
    """Return the sums of ``count`` vectors of ``right``, each times four numbers of ``left``."""
    a = filled(0.0)
    b = filled(0.0)
    c = filled(0.0)
    d = filled(0.0)
    for k in range(count):
        v = load(right, place + k * stride)
        p = np.uintp(at + k * along)
        q = p + np.uintp(across)
        u = p + np.uintp(2 * across)
        a = multiply_add(filled(left[p]), v, a)
        b = multiply_add(filled(left[q]), v, b)
        c = multiply_add(filled(left[u]), v, c)
        d = multiply_add(filled(left[u + np.uintp(across)]), v, d)
    return a, b, c, d


@inner
def _turn(z, width, n_features, matrix, full, turned, length):
    """Write W z and squares of lengths: four rows and eight columns at a time.

    Eight columns of the transpose of W lie side by side in ``matrix``, as all rows read them.
    """
    for i in range(0, width, 8):
        j = 0 if full else i  # W is an upper triangle
        for r in range(0, _BLOCK, 4):
            at = r * width
            of_eight = i * width + j * 8
            a, b, c, d = _four_sums(z, at + j, 1, width, matrix, of_eight, 8, n_features - j)
            store(turned, at + i, a)
            store(turned, at + width + i, b)
            store(turned, at + 2 * width + i, c)
            store(turned, at + 3 * width + i, d)
    for r in range(_BLOCK):
        squares = filled(0.0)
        for i in range(0, width, 8):
            v = load(turned, r * width + i)
            squares = multiply_add(v, v, squares)
        length[r] = total(squares)


@inner
def _side_by_side(column):
    """Return where eight columns of all rows of a block begin, for one that is among them."""
    return np.int64(column) // 8 * 8 * _BLOCK + np.int64(column) % 8


@inner
def _append(number, r, column, packed):
    """Write a number into a column of a packed row."""
    packed[_side_by_side(column) + r * 8] = number


@inner
def _add_products(left, packed, width, n_columns, out):
    """Add the products of rows to the upper triangle of ``out``: four of its rows at a time."""
    ones = filled(1.0)
    for i in range(0, n_columns, 4):
        for j in range(np.int64(i) // 8 * 8, width, 8):
            a, b, c, d = _four_sums(left, _side_by_side(i), 8, 1, packed, j * _BLOCK, 8, _BLOCK)
            to = i * width + j
            store(out, to, multiply_add(a, ones, load(out, to)))
            to += width
            store(out, to, multiply_add(b, ones, load(out, to)))
            to += width
            store(out, to, multiply_add(c, ones, load(out, to)))
            to += width
            store(out, to, multiply_add(d, ones, load(out, to)))


@inner
def _pack(mapped, width, ball, length, packed):
    """Write all rows of a block, divided as the map says, eight columns after the other."""
    zero = filled(0.0)
    for r in range(_BLOCK):
        g = filled(_divided(length[r], ball))
        for j in range(0, width, 8):
            store(packed, j * _BLOCK + r * 8, multiply_add(load(mapped, r * width + j), g, zero))


@inner
def _add_sum(X, first, size, scale, weight, out):
    """Add rows in the ball times their weights: four rows at a time, the last one again by 0."""
    n_features = values_of(X).shape[1]
    for r in range(_BLOCK):
        weight[r] = weight[r] * scale[r] if r < size else 0.0
    last = first + size - 1
    for r in range(0, size, 4):
        a = first + r
        b = first + r + 1
        c = first + r + 2
        d = first + r + 3
        b = b if b < last else last
        c = c if c < last else last
        d = d if d < last else last
        rows = a * n_features, b * n_features, c * n_features, d * n_features
        add_rows(out, _ORIGIN, load_numbers(weight, (r,), 4), X, rows, n_features, _ORIGIN, 0)


@inner
def _add_squares(mapped, width, size, ball, length, weight, out):
    """Add the squares of rows, divided as the map says, times their weights."""
    zero = filled(0.0)
    for r in range(size):
        w = filled(weight[r])
        g = filled(_divided(length[r], ball))
        at = r * width
        for j in range(0, width, 8):
            row = multiply_add(load(mapped, at + j), g, zero)
            row = multiply_add(row, row, zero)
            store(out, j, multiply_add(row, w, load(out, j)))


def _of_dense(
    X, row_weight, y, ball, shift, scales, matrix, kind, grid, edges, first_chunk, last_chunk,
    factors, lengths, sums, totals, z, turned,
):  # fmt: skip
    """Add up a statistic of dense rows, each chunk in a row of ``sums``, or all in ``totals``.

    Where there is room for them, ``factors`` and ``lengths`` of rows are written; mapped rows
    themselves (ROWS) into ``sums``. Returns whether all squares of norms are allowed.
    """
    n_features = values_of(X).shape[1]
    width = shift.size
    within = True
    zero = filled(0.0)
    scale = zeros_on_stack(64, _BLOCK)
    length = zeros_on_stack(64, _BLOCK)
    weight = zeros_on_stack(64, _BLOCK)
    counts = kind in (COUNTS, NOTHING)
    n_columns = n_features + np.int64(ball.constant > 0.0) + np.int64(y.size > 0)
    for c in range(first_chunk, last_chunk):
        out = sums[0 if totals.size else c - first_chunk]
        if kind != ROWS:
            out[:] = 0.0
        stop = edges[c + 1]
        if stop - edges[c] > ball.part:
            stop = edges[c] + np.int64(ball.part)
        for first in range(edges[c], stop, _BLOCK):
            size = _BLOCK if stop - first > _BLOCK else stop - first
            if kind == OCTAVES:
                _count_octaves(X, first, first + size, row_weight, ball, out)
                continue
            if kind == SPLIT:
                _count_parts(X, first, first + size, row_weight, ball, shift, scales, out)
                continue
            within &= _norms(X, first, size, ball, scale)
            for r in range(size):
                weight[r] = row_weight[first + r] if row_weight.size else 1.0
                length[r] = scale[r]
                scale[r] = _factor(scale[r], ball.radius, ball.most)
            if kind == SUM:
                _add_sum(X, first, size, scale, weight, out)
                continue
            if ball.radius < np.inf or ball.mapped > 0.0 or not counts:  # not rows as they are
                _map_rows(X, first, size, shift, scales, z, scale, length)
                if matrix.size:
                    _turn(z, width, n_features, matrix, ball.full > 0.0, turned, length)
            for r in range(size):
                length[r] = np.sqrt(length[r])
            if factors.size:
                for r in range(size):
                    factors[first + r] = scale[r]
                    lengths[first + r] = length[r]
            if kind == COUNTS:
                for r in range(size):
                    out[_place(grid, length[r])] += _counted(row_weight, first + r, ball.grain)
            if counts:
                continue
            mapped, packed = (turned, z) if matrix.size else (z, turned)
            if kind == SQUARES:
                _add_squares(mapped, width, size, ball, length, weight, out)
                continue
            if kind == ROWS:
                for r in range(size):
                    g = _divided(length[r], ball)
                    for j in range(n_features):
                        out[(first + r) * n_features + j] = mapped[r * width + j] * g
                continue
            _pack(mapped, width, ball, length, packed)
            for r in range(size):
                if ball.constant > 0.0:
                    _append(ball.constant, r, n_features, packed)
                if y.size:
                    _append(ball.target * _clipped(y[first + r]), r, n_columns - 1, packed)
            if row_weight.size:
                for r in range(_BLOCK):
                    for j in range(r * 8, width * _BLOCK, 8 * _BLOCK):
                        row = multiply_add(load(packed, j), filled(weight[r]), zero)
                        store(mapped, j, row)
            _add_products(mapped if row_weight.size else packed, packed, width, n_columns, out)
        if totals.size:
            add(totals, out[: totals.shape[1]])
    return within


def _of_csr(
    X, row_weight, y, ball, shift, scales, matrix, kind, grid, edges, first_chunk, last_chunk,
    factors, lengths, sums, totals, z, turned,
):  # fmt: skip
    """Do the sums of `_of_dense` for CSR rows, which have no centre and a diagonal W."""
    values, columns, starts, ends = X
    width = shift.size
    within = True
    n_features = np.int64(ball.columns)
    for c in range(first_chunk, last_chunk):
        out = sums[0 if totals.size else c - first_chunk]
        out[:] = 0.0
        stop = edges[c + 1]
        if stop - edges[c] > ball.part:
            stop = edges[c] + np.int64(ball.part)
        for i in range(edges[c], stop):
            first = np.uintp(starts[i])
            last = np.uintp(ends[i])
            square = 0.0
            for p in range(first, last):
                v = np.float64(values[p])
                square += v * v
            within &= square <= ball.most
            factor = _factor(square, ball.radius, ball.most)
            square = 0.0
            for p in range(first, last):
                v = values[p] * factor * scales[columns[p]]
                square += v * v
            length = np.sqrt(square)
            if factors.size:
                factors[i] = factor
                lengths[i] = length
            if kind == COUNTS:
                out[_place(grid, length)] += _counted(row_weight, i, ball.grain)
            if kind in (COUNTS, NOTHING):
                continue
            g = factor * _divided(length, ball)
            w = row_weight[i] if row_weight.size else 1.0
            for p in range(first, last):
                j = np.uintp(columns[p])
                v = values[p] * scales[j] * g
                if kind == SUM:
                    out[j] += w * v
                elif kind == SQUARES:
                    out[j] += w * (v * v)
                else:
                    at = j * np.uintp(width)
                    for q in range(p, last):
                        k = np.uintp(columns[q])
                        out[at + k] += w * v * (values[q] * scales[k] * g)
                    at += np.uintp(n_features)
                    if ball.constant > 0.0:
                        out[at] += w * v * ball.constant
                        at += np.uintp(1)
                    if y.size:
                        out[at] += w * v * (ball.target * _clipped(y[i]))
            if kind == OUTER and (ball.constant > 0.0 or y.size):
                at = n_features * width + n_features
                k = np.int64(ball.constant > 0.0)
                out[at] += w * ball.constant * ball.constant
                if y.size:
                    target = ball.target * _clipped(y[i])
                    out[at + k] += w * ball.constant * target * k
                    out[at + k * width + k] += w * target * target
        if totals.size:
            add(totals, out[: totals.shape[1]])
    return within


@strict
def _targets_of_chunk(y, exposure, row_weight, ball, centre, kind, grid, start, stop, out):
    lost = 0.0
    for i in range(start, stop):
        number = (np.float64(y[i]) - centre) * ball.norm
        if exposure.size:
            number *= exposure[i]
        if kind == COUNTS:
            out[_place(grid, abs(number))] += _counted(row_weight, i, ball.grain)
        else:
            clipped = _clipped(number)
            clipped = clipped if clipped >= ball.target else ball.target
            clipped *= row_weight[i] if row_weight.size else 1.0
            before = out[0]
            after = before + clipped
            added = after - before
            out[0] = after
            lost += (before - (after - added)) + (clipped - added)
    out[0] += lost


def _of_targets(
    y, exposure, row_weight, ball, centre, kind, grid, edges, first_chunk, last_chunk, sums, totals
):
    """Count distances of targets from a centre, times their exposure, or add them up, clipped.

    A sum of a chunk of m terms rounds by (1 + m^2 eps) eps/2 of the sum of their sizes at most:
    what additions round away is added up beside it, as in `skdpdyn.kernels.sums`.
    """
    for c in range(first_chunk, last_chunk):
        out = sums[0 if totals.size else c - first_chunk]
        out[:] = 0.0
        _targets_of_chunk(
            y, exposure, row_weight, ball, centre, kind, grid, edges[c], edges[c + 1], out
        )
        if totals.size:
            add(totals, out[: totals.shape[1]])


def _divide(factors, lengths, bounds, norm, shrink, error, exact, unit):
    """Replace factors by scales, and lengths by offsets; write norms, as `RowMap.factors` does."""
    of_norm, added = (error, 0.0) if exact else (0.0, error)
    for i in range(factors.size):
        length = lengths[i]
        least = length if unit > 0.0 else norm
        divisor = (length if length > least else least) / shrink
        of_row = length / divisor
        of_row += of_norm * of_row + added
        scale = factors[i] / divisor
        if length < unit:
            scale = of_row = 0.0
        factors[i] = scale
        lengths[i] = 1 / divisor
        bounds[i] = of_row if of_row < 1.0 else 1.0


def _limit(norms, exposure, limits, clip, scaling, largest, left):
    """Write limits of residuals: of a gradient of norm ``clip``, and the largest; rounded down."""
    for i in range(norms.size):
        norm = np.sqrt(norms[i] * norms[i] + scaling * scaling)
        limit = clip / norm if norm > 0.0 else largest
        limit = limit if limit < largest else largest
        limit = (limit / exposure[i] if exposure.size else limit) * left
        limits[i] = limit
        if limits[i] > limit:  # rounded up, by half a unit in the last place at most
            limits[i] *= 1 - 2.0**-24
            if limits[i] > limit:  # beyond the normal numbers of single precision
                limits[i] = 0.0 if limit < 1.0 else _LARGEST_SINGLE


@cache
def _compiled(kernel, dtype, family=Dense):
    """Compile a kernel for rows of a kind and a precision."""
    of_chunks = _i64, _vector, readonly(np.int64), _i64, _i64
    to = writable(np.float64, 2), writable(np.float64, 2)
    if kernel is _of_targets:
        return entry(types.void(readonly(dtype), _vector, _vector, _ball, _f64, *of_chunks, *to))(
            kernel
        )
    X = family(False).rows_type(dtype)
    of_map = X, _vector, readonly(dtype), _ball, *(_vector,) * 3
    return entry(types.boolean(*of_map, *of_chunks, *(_output,) * 2, *to, *(_output,) * 2))(kernel)


@cache
def compiled_divide():
    """Compile `_divide`."""
    return entry(types.void(*(_output,) * 3, *(_f64,) * 3, _flag, _f64))(_divide)


@cache
def compiled_limit(dtype):
    """Compile `_limit`."""
    return entry(types.void(_vector, _vector, writable(dtype), *(_f64,) * 4))(_limit)


# --- passes -------------------------------------------------------------------------------------


class RowPass:
    """A pass over rows in memory; call it for some chunks.

    Parameters
    ----------
    X : ndarray, InRanges or CSR array of shape (n_samples, n_features)
        Rows. CSR rows are canonical.
    ball : Ball
        Numbers of the map and of the statistic.
    kind : int
        What is added up, or NOTHING; ROWS: mapped dense rows are written into ``out``.
    centre : ndarray of shape (n_features,) or None, default=None
        What is subtracted from rows.
    weights : ndarray of shape (n_features,) or (n_features, n_features) or None, default=None
        Diagonal of W, or W itself, which CSR rows do not have; None: one everywhere.
    thresholds : sequence of float, default=()
        What norms are compared with.
    y : ndarray of shape (n_samples,) or None, default=None
        Targets in the precision of X, which are appended to rows.
    row_weight : ndarray of shape (n_samples,) or None, default=None
        Weights of rows; empty or None for 1.
    numbers : tuple of ndarray of shape (n_samples,) or None, default=None
        Where factors and lengths of rows are written; the factor of a row that is too long is NaN.
    any_length : bool, default=False
        Whether such rows may be there.
    """

    def __init__(
        self, X, ball, kind, *, centre=None, weights=None, thresholds=(), y=None, row_weight=None,
        numbers=None, any_length=False,
    ):  # fmt: skip
        n_features = X.shape[1]
        family = Ranged if isinstance(X, InRanges) else Dense if isinstance(X, np.ndarray) else Csr
        is_sparse = family is Csr
        self._kernel = _compiled(_of_csr if is_sparse else _of_dense, X.dtype.char, family)
        y = np.empty(0, X.dtype) if y is None else y
        row_weight = _NONE if row_weight is None else row_weight
        width = padded(n_features + (ball.constant > 0) + (y.size > 0))
        shift = np.zeros(width)
        scales = np.zeros(width)
        matrix = _NONE
        if centre is not None:
            shift[:n_features] = -centre
        scales[:n_features] = 1.0 if weights is None or weights.ndim == 2 else weights
        if weights is not None and weights.ndim == 2:
            matrix = np.zeros((width, width))
            matrix[:n_features, :n_features] = weights.T
            matrix = matrix.reshape(width, -1, 8).swapaxes(0, 1)
        rows = csr_views(X) if is_sparse else np.require(values_of(X), requirements="CA")
        rows = (rows, *X[1:]) if family is Ranged else rows
        mapped = float(centre is not None or weights is not None)
        if mapped and kind == SUM and not is_sparse:
            raise ValueError("rows are added up without a map")
        ball = ball._replace(columns=float(n_features), mapped=mapped)
        self._arguments = rows, row_weight, y, ball, shift, scales, matrix.ravel()
        self._kind = kind
        self._any_length = any_length
        self._grid = np.array(thresholds, np.float64)
        self._numbers = numbers or (_NONE, _NONE)
        self._room = 0 if is_sparse else _BLOCK * width
        self.work = width * (width if matrix.size or kind == OUTER else 1)

    def __call__(self, edges, first, last, sums, totals):
        """Add up chunks first, ..., last - 1, as kernels do.

        Raises
        ------
        LongRows
            If a row is too long for its norm to be squared.
        """
        room = aligned_empty(self._room), aligned_empty(self._room)
        chunks = self._kind, self._grid, edges, first, last
        within = self._kernel(*self._arguments, *chunks, *self._numbers, sums, totals, *room)
        if not (within or self._any_length):
            raise LongRows("rows are too long: shorten them, see `skdpdyn.data.rows.in_reach`")


class TargetPass:
    """A pass over targets in memory, as `RowPass` is over rows."""

    work = 1

    def __init__(self, y, exposure, row_weight, statistic, common=1.0):
        kernel = _compiled(_of_targets, y.dtype.char)
        ball = Ball(1.0, 1.0, norm=common, grain=statistic.grain, target=statistic.least)
        grid = np.array(statistic.thresholds, np.float64)
        self._run = lambda *chunks: kernel(
            y, exposure, row_weight, ball, statistic.centre, statistic.kind, grid, *chunks
        )

    def __call__(self, edges, first, last, sums, totals):
        """Add up chunks first, ..., last - 1, as kernels do."""
        self._run(edges, first, last, sums, totals)


def add_up(run: Any, edges: np.ndarray, total: Total, n_threads: int = 1) -> None:
    """Add the sums of all chunks to ``total``, one after the other in order.

    Threads take tasks of some chunks as they come; few wait to be added at any time.

    Parameters
    ----------
    run : RowPass or TargetPass
        What adds up some chunks.
    edges : ndarray of int64
        Where chunks begin and end.
    total : Total
        What is added to.
    n_threads : int, default=1
        Number of threads; the bits do not depend on it.
    """
    n_chunks = edges.size - 1
    n_sums = total.parts.shape[1]
    if min(n_threads, n_chunks) <= 1:
        sums = np.empty((1, n_sums))
        work = run.work * max(1, int(edges[-1]) // max(1, n_chunks))
        for first, last in pieces(0, n_chunks, max(1, _PIECE // work)):
            run(edges, first, last, sums, total.parts)
        return

    def task(piece):
        sums = np.empty((piece[1] - piece[0], n_sums))
        run(edges, *piece, sums, np.empty((0, 0)))
        return sums

    size = -(-n_chunks // (_TASKS * n_threads))
    for sums in in_threads(task, pieces(0, n_chunks, size), n_threads):
        total.add_rows(sums)


def pieces(first, last, size):
    """Return (first, last) pairs that cover the chunks, ``size`` at a time."""
    return [(start, min(start + size, last)) for start in range(first, last, size)]
