"""Clipped loss gradients of rows, summed: one kernel for every kind of rows, one output or several.

Rows go through three stages, a block at a time: `_dots` writes their products with the weights of
each output, the middle makes steps of them, by the loss, the limits and the weights of rows, and
`_add` adds rows times steps. The first and the last are chosen by the type of X when the kernel is
compiled (dense rows, CSR rows, or cells of public tables), the clip by the number of outputs.

A chunk is read as four streams, its quarters, of which a block has some neighbouring rows each.
Each is one long stretch of memory, which processors load ahead by themselves, and four of them
faster than one: on a Zen 3 a step takes 0.6 to 0.8 of the time that neighbours take, with
prefetches of our own. With AVX-512 arithmetic is so fast that memory must not idle while a block is
in cache: both loops over dense rows ask for the next one then, each for two of the streams.

For several outputs, weights of dense rows stand output by output: tiles of four rows and five or
three outputs use what they read from cache most often, as many as registers hold the products of.
Weights of CSR rows stand column by column, so that a stored value touches one stretch of memory.
Vectors are whole there: products with the next column's outputs are not used, and zero is added to
them.

A row's products have nothing of another row in them, not even times zero: a record touches its own
residual alone. Sums are double, but for those of blocks of dense rows of single precision with
several outputs: 32 rows, `skdpdyn.data.local.LocalRows.bounded` counts on no more.
"""

from dataclasses import dataclass

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from skdpdyn.kernels.asked import InRanges
from skdpdyn.kernels.jit import (
    prefetch,
    readonly,
    residual_function,
    residual_matrix_function,
    writable,
)
from skdpdyn.kernels.vectors import (
    PREFETCHES,
    PREFETCHES_COLUMNS,
    REGISTER_BYTES,
    ZEN,
    add_rows,
    clamp,
    filled,
    load,
    load_numbers,
    load_part,
    multiply_add,
    places,
    store,
    store_dots,
    total,
    zeros_on_stack,
)
from skdpdyn.support.chunks import MOST_GATHERED

# Bytes of a block of dense rows, which is read twice, from the first or from the second cache; rows
# of each stream. As measured on a Zen 3, a Zen 4 and a Xeon: on the Zen 4, the Xeon's blocks take
# up to 1.15 times as long.
_BLOCK_BYTES, _MAX_ROWS = (260_000, 16) if not PREFETCHES else (54_000, 16) if ZEN else (27_000, 8)
_ROWS = 8  # of each stream where there are several outputs
# of each stream at most: no power of 2, or the numbers of a row share few sets of a cache
_CSR_ROWS = 56
_ON_STACK = 4 * _CSR_ROWS
_CACHED_BYTES = 2_000_000  # an X up to here is not prefetched
_GATHERED_BYTES = 64_000  # of a batch's dense rows at a time
# bytes of sums that stay in cache while a block is added; least number of columns
_PANEL_BYTES = 16_000
_MIN_PANEL = 64
_PADDING = 16  # the largest register of single precision
_FIVES = REGISTER_BYTES == 64  # whether five outputs have registers for their products
_AHEAD = 32  # stored values to prefetch by
_CACHED_WEIGHTS = 300_000 if PREFETCHES_COLUMNS else np.inf  # up to here they are not prefetched
_EPS = 2.3e-16
_ORIGIN = (0,)


# --- what types choose ----------------------------------------------------------------------------


def _kind(X):
    """Return whether rows, or their numba type, are dense, CSR or cells."""
    if not isinstance(X, (tuple, types.BaseTuple)) or len(X) == len(InRanges._fields):
        return "dense"
    return "csr" if X[0].ndim == 1 else "cells"


def _by_outputs(of_one, of_several):
    """Return a function that is one of two, by the type of a loss's derivative."""

    def plain(residual, n_outputs, *arguments):
        return (of_several if n_outputs > 1 else of_one)(residual, n_outputs, *arguments)

    @overload(plain, strict=False)
    def _(residual, n_outputs, *arguments):
        return of_several if residual.signature.args[0].ndim > 1 else of_one

    return plain


def _by_rows(**ways):
    """Return a function that is one of several, by the types of a loss's derivative and of rows."""

    def plain(residual, X, n_outputs, *arguments):
        return ways[_kind(X)][n_outputs > 1](residual, X, n_outputs, *arguments)

    @overload(plain, strict=False)
    def _(residual, X, n_outputs, *arguments):
        return ways[_kind(X)][residual.signature.args[0].ndim > 1]

    return plain


def values_of(X):
    """Return the array of dense rows, in ranges or not."""
    return X[0] if isinstance(X, tuple) else X


def _from_column(X, left):
    """Return dense rows of which a row begins at a later column."""
    return (X[0], X[1][left:], X[2][left:]) if isinstance(X, tuple) else X


@overload(values_of)
def _(X):
    return (lambda X: X[0]) if isinstance(X, types.BaseTuple) else (lambda X: X)


@overload(_from_column)
def _(X, left):
    if isinstance(X, types.BaseTuple):
        return lambda X, left: (X[0], X[1][left:], X[2][left:])
    return lambda X, left: X


def _narrowed(X, array, weights):
    """Return the array, or zeros in the precision of weights of dense rows, where that is less."""
    same = _kind(X) != "dense" or weights.dtype == array.dtype
    return array if same else np.zeros(array.size, weights.dtype)


@overload(_narrowed)
def _(X, array, weights):
    if _kind(X) != "dense" or weights.dtype == array.dtype:
        return lambda X, array, weights: array
    return lambda X, array, weights: np.zeros(array.size, weights.dtype)


# --- one output, or several -----------------------------------------------------------------------


def _zeros_of_one(residual, n_outputs, zeros):
    """Return zeros for all outputs: those of the caller, whose stack outlives this function."""
    return zeros


def _zeros_of_several(residual, n_outputs, zeros):
    return np.zeros(n_outputs * zeros.size)


def _slopes_of_one(residual, n_outputs, raw, target, slope):
    residual(raw, target, slope)


def _slopes_of_several(residual, n_outputs, raw, target, slope):
    residual(raw.reshape((n_outputs, -1)), target, slope.reshape((n_outputs, -1)))


def _clip_one(residual, n_outputs, slope, limit, factor):
    """Clip residuals to their limits; NaN counts as the limit."""
    for i in range(0, limit.size, 8):
        store(slope, i, clamp(load(slope, i), load(limit, i)))


def _clip_several(residual, n_outputs, slope, limit, factor):
    """Bring norms of residuals within their limits, by the factor of rows; those of NaN are 0."""
    within = 1 - (n_outputs + 8) * _EPS  # the rounding of a norm and of what is scaled by it
    block = limit.size
    square = zeros_on_stack(_ON_STACK, block)
    for k in range(n_outputs):
        for i in range(block):
            square[i] += slope[k * block + i] * slope[k * block + i]
    for i in range(block):
        most = limit[i] * within
        scale = 1.0 if square[i] <= most * most else most / np.sqrt(square[i])
        factor[i] = factor[i] * scale if square[i] < np.inf else 0.0
    for k in range(n_outputs):
        for i in range(block):
            slope[k * block + i] = slope[k * block + i] if square[i] < np.inf else 0.0


# --- dense rows -----------------------------------------------------------------------------------


@register_jitable
def _four(place, i, n_features, column):
    """Return where a row of each stream has a column in X; beyond ``stop`` the last row."""
    first, quarter, _, stop = place
    a = first + i
    last = stop - 1
    b = a + quarter
    c = b + quarter
    d = c + quarter
    b = b if b < last else last
    c = c if c < last else last
    d = d if d < last else last
    return (
        a * n_features + column,
        b * n_features + column,
        c * n_features + column,
        d * n_features + column,
    )


@register_jitable
def _ahead(X, place):
    """Return how many numbers further on the rows of the next block begin; 0: all are cached."""
    values = values_of(X)
    return place[2] * values.shape[1] if values.nbytes > _CACHED_BYTES else 0


@register_jitable
def _quarters(n_rows, size):
    quarter = (n_rows + 3) // 4
    return size, quarter, size, quarter


def _dense_streams_of_one(residual, X, n_outputs, n_weights, n_rows):
    """Return rows of a stream in a block, and how far streams and blocks are apart and reach."""
    values = values_of(X)
    size = _BLOCK_BYTES // (4 * values.shape[1] * values.itemsize + 1)
    return _quarters(n_rows, 1 if size < 1 else _MAX_ROWS if size > _MAX_ROWS else size)


def _dense_streams_of_several(residual, X, n_outputs, n_weights, n_rows):
    return _quarters(n_rows, _ROWS)


def _no_room(residual, X, n_outputs, size):
    return 0


def _dense_dots_of_one(residual, X, n_outputs, place, weights, dots, room):
    d = values_of(X).shape[1]
    lanes = dots.size // 4
    ahead = _ahead(X, place)
    for i in range(place[2]):
        four = _four(place, i, d, 0)
        store_dots(dots, places(i, 0, 1, lanes, 4), weights, _ORIGIN, X, four, d, four[:2], ahead)


def _dense_add_of_one(residual, X, n_outputs, place, steps, sums, room):
    d = values_of(X).shape[1]
    lanes = steps.size // 4
    ahead = _ahead(X, place)
    for i in range(place[2]):
        four = _four(place, i, d, 0)
        steps_of_row = load_numbers(steps, places(i, 0, 1, lanes, 4), 1)
        add_rows(sums, _ORIGIN, steps_of_row, X, four, d, four[2:], ahead)


@register_jitable
def _tiles(n_outputs):
    """Return where tiles of five outputs end, and those of three; then come tiles of two."""
    fives = n_outputs - n_outputs % 5 - (5 if n_outputs % 5 == 1 else 0) if _FIVES else 0
    return fives, n_outputs - 2 * (-(n_outputs - fives) % 3)


def _tile_dots(X, four, weights, stride, dots, block, i, k, count):
    """Write the products of four rows with the weights of ``count`` outputs from ``k`` on."""
    to = places(k * block + i, block, count, block // 4, 4)
    at = places(k * stride, stride, count, 0, 1)
    store_dots(dots, to, weights, at, X, four, values_of(X).shape[1], (), 0)


def _tile_add(X, four, steps, block, sums, stride, i, k, count, left, size, ahead):
    """Add some columns of four rows times the steps of ``count`` outputs from ``k`` on."""
    steps_of_rows = load_numbers(steps, places(k * block + i, block, count, block // 4, 4), 1)
    to = places(k * stride + left, stride, count, 0, 1)
    add_rows(sums, to, steps_of_rows, _from_column(X, left), four, size, four, ahead)


overload(_tile_dots, strict=False, prefer_literal=True)(lambda *arguments: _tile_dots)
overload(_tile_add, strict=False, prefer_literal=True)(lambda *arguments: _tile_add)


def _dense_dots_of_several(residual, X, n_outputs, place, weights, dots, room):
    stride = weights.size // n_outputs
    block = dots.size // n_outputs
    fives, threes = _tiles(n_outputs)
    for i in range(place[2]):
        four = _four(place, i, values_of(X).shape[1], 0)
        for k in range(0, fives, 5):
            _tile_dots(X, four, weights, stride, dots, block, i, k, 5)
        for k in range(fives, threes, 3):
            _tile_dots(X, four, weights, stride, dots, block, i, k, 3)
        for k in range(threes, n_outputs, 2):
            _tile_dots(X, four, weights, stride, dots, block, i, k, 2)


def _dense_add_of_several(residual, X, n_outputs, place, steps, sums, room):
    stride = sums.size // n_outputs
    block = steps.size // n_outputs
    d = values_of(X).shape[1]
    (fives, threes) = _tiles(n_outputs)
    ahead = place[2] * d
    panel = _PANEL_BYTES // (n_outputs * sums.itemsize) // _PADDING * _PADDING
    panel = _MIN_PANEL if panel < _MIN_PANEL else panel
    for left in range(0, d, panel):
        size = d - left if d - left < panel else panel
        for i in range(place[2]):
            four = _four(place, i, d, left)
            for k in range(0, fives, 5):
                _tile_add(X, four, steps, block, sums, stride, i, k, 5, left, size, ahead)
            for k in range(fives, threes, 3):
                _tile_add(X, four, steps, block, sums, stride, i, k, 3, left, size, ahead)
            for k in range(threes, n_outputs, 2):
                _tile_add(X, four, steps, block, sums, stride, i, k, 2, left, size, ahead)


# --- CSR rows -------------------------------------------------------------------------------------


@register_jitable
def _neighbours(n_rows, size):
    return size, size, 4 * size, n_rows


@register_jitable
def _count(place, block):
    """Return how many rows a block of neighbours has."""
    return block if block < place[3] - place[0] else place[3] - place[0]


def _csr_streams(residual, X, n_outputs, n_weights, n_rows):
    """Return many rows where there are many columns.

    Weights and sums take turns in the cache then, where both would not fit.
    """
    size = n_weights // (512 if n_outputs == 1 else 3200) * 8
    most = 5000 // n_outputs // 8 * 8
    most = most if most < _CSR_ROWS else _CSR_ROWS
    size = size if size < most else most
    return _neighbours(n_rows, size if size > 8 else 8)


def _csr_room(residual, X, n_outputs, size):
    """Return room for the numbers of a row, in whole vectors."""
    return np.zeros((n_outputs + 15) // 16 * 16)


def _csr_dots_of_one(residual, X, n_outputs, place, weights, dots, room):
    values, columns, starts, ends = X
    for i in range(_count(place, dots.size)):
        a = np.uintp(place[0] + i)
        dot = 0.0
        for p in range(np.uintp(starts[a]), np.uintp(ends[a])):
            dot += values[p] * weights[columns[p]]
        dots[i] = dot


def _csr_add_of_one(residual, X, n_outputs, place, steps, sums, room):
    values, columns, starts, ends = X
    for i in range(_count(place, steps.size)):
        a = np.uintp(place[0] + i)
        step = steps[i]
        for p in range(np.uintp(starts[a]), np.uintp(ends[a])):
            sums[columns[p]] += step * values[p]


def _csr_dots_of_several(residual, X, n_outputs, place, weights, dots, room):
    """Write products of sixteen outputs at a time: they stay in registers for a whole row."""
    values, columns, starts, ends = X
    block = dots.size // n_outputs
    zero = filled(0.0)
    ones = filled(1.0)
    # A helper for the prefetches would count references to its arrays: half as slow again.
    last = np.int64(columns.size - _AHEAD - 2 if weights.nbytes > _CACHED_WEIGHTS else 0)
    for i in range(_count(place, block)):
        start = starts[np.uintp(place[0] + i)]
        end = ends[np.uintp(place[0] + i)]
        for k in range(0, n_outputs, 16):
            two = n_outputs - k > 8  # vectors
            edge = 15 if two else 7
            dot_a = dot_b = dot_c = dot_d = zero
            for p in range(start, end - 1, 2):
                if p < last:
                    for q in range(p + _AHEAD, p + _AHEAD + 2):
                        w = np.int64(columns[np.uintp(q)]) * n_outputs + k
                        prefetch(weights, w)
                        prefetch(weights, w + edge)
                        if two:
                            prefetch(weights, w + 8)
                q = np.uintp(p)
                r = np.uintp(p + 1)
                value = filled(values[q])
                w = np.int64(columns[q]) * n_outputs + k
                other = filled(values[r])
                v = np.int64(columns[r]) * n_outputs + k
                dot_a = multiply_add(value, load(weights, w), dot_a)
                dot_b = multiply_add(other, load(weights, v), dot_b)
                if two:
                    dot_c = multiply_add(value, load(weights, w + 8), dot_c)
                    dot_d = multiply_add(other, load(weights, v + 8), dot_d)
            if (end - start) % 2:
                q = np.uintp(end - 1)
                value = filled(values[q])
                w = np.int64(columns[q]) * n_outputs + k
                dot_a = multiply_add(value, load(weights, w), dot_a)
                dot_c = multiply_add(value, load(weights, w + 8), dot_c)
            store(room, k, multiply_add(ones, dot_b, dot_a))
            store(room, k + 8, multiply_add(ones, dot_d, dot_c))
        for k in range(n_outputs):
            dots[k * block + i] = room[k]


def _csr_add_of_several(residual, X, n_outputs, place, steps, sums, room):
    values, columns, starts, ends = X
    block = steps.size // n_outputs
    last = np.int64(columns.size - _AHEAD - 2 if sums.nbytes > _CACHED_WEIGHTS else 0)
    for k in range(n_outputs, room.size):
        room[k] = 0.0
    for i in range(_count(place, block)):
        a = np.uintp(place[0] + i)
        for k in range(n_outputs):
            room[k] = steps[k * block + i]
        for k in range(0, n_outputs, 16):
            two = n_outputs - k > 8
            edge = 15 if two else 7
            step = load(room, k)
            other = load(room, k + 8)
            for p in range(starts[a], ends[a]):
                if p < last:
                    w = np.int64(columns[np.uintp(p + _AHEAD)]) * n_outputs + k
                    prefetch(sums, w)
                    prefetch(sums, w + edge)
                    if two:
                        prefetch(sums, w + 8)
                q = np.uintp(p)
                value = filled(values[q])
                w = np.int64(columns[q]) * n_outputs + k
                store(sums, w, multiply_add(value, step, load(sums, w)))
                if two:
                    store(sums, w + 8, multiply_add(value, other, load(sums, w + 8)))


# --- cells of public tables -----------------------------------------------------------------------
# A row is a small number for each column: the cell that its value is in. What a model says of a row
# is the sum of what it says of its cells, and of products of low cosines of columns. So a pass
# looks up one number a cell, where the expanded row has dozens, and the gradient is what residuals
# add up to in each cell. `skdpdyn.core.expansion.Expansion` turns these sums into those of
# features.


def _cell_streams(residual, X, n_outputs, n_weights, n_rows):
    """Return more rows where all outputs' tables leave the cache between two blocks."""
    return _neighbours(n_rows, 16 if n_outputs < 64 else 48)


def _cell_room(residual, X, n_outputs, size):
    """Return room for the numbers of a block's cells that products multiply."""
    return np.zeros((X[3][-1], size))


def _cell_dots(residual, X, n_outputs, place, weights, dots, room):
    codes, starts, _, _, places = X
    stride = weights.size // n_outputs
    block = dots.size // n_outputs
    for k in range(n_outputs):  # the table of one output stays in the cache
        of_output = weights[k * stride : (k + 1) * stride]
        for i in range(_count(place, block)):
            a = np.uintp(place[0] + i)
            dot = 0.0
            for j in range(codes.shape[1]):
                dot += of_output[np.uintp(starts[j]) + np.uintp(codes[a, j])]
            dots[k * block + i] = dot
    if places.size:
        _look_up(X, place[0], _count(place, block), room)
    for k in range(n_outputs):
        _say_products(room, places, weights[k * stride + starts[-1] :], dots, k * block, block)


@register_jitable
def _look_up(X, start, count, room):
    """Write the numbers that products multiply, column by column: by row it takes three times."""
    codes, starts, low, low_starts, _ = X
    for j in range(codes.shape[1]):
        of_column = np.uintp(j)
        first = np.uintp(low_starts[j])
        for k in range(low_starts[j + 1] - low_starts[j]):
            of_rows = room[first + np.uintp(k)]
            for i in range(count):
                code = codes[np.uintp(start + i), of_column]
                of_rows[i] = low[np.uintp(starts[j]) + np.uintp(code), np.uintp(k)]


@register_jitable
def _say_products(room, places, weights, dots, at, block):
    """Add the products' part of a block's predictions, 32 rows at a time.

    Neighbours with the same first factor are summed before they are multiplied by it.
    """
    for lane in range(0, block, 32):
        to = at + lane
        dot_a = load(dots, to)
        dot_b = load(dots, to + 8)
        dot_c = load(dots, to + 16)
        dot_d = load(dots, to + 24)
        p = 0
        n_products = places.shape[1]
        while p < n_products:
            place = places[0, np.uintp(p)]
            a = b = c = d = filled(0.0)
            while p < n_products and places[0, np.uintp(p)] == place:
                other = places[1, np.uintp(p)] * block + lane
                w = filled(weights[np.uintp(p)])
                a = multiply_add(w, load(room, other), a)
                b = multiply_add(w, load(room, other + 8), b)
                c = multiply_add(w, load(room, other + 16), c)
                d = multiply_add(w, load(room, other + 24), d)
                p += 1
            place = place * block + lane
            dot_a = multiply_add(load(room, place), a, dot_a)
            dot_b = multiply_add(load(room, place + 8), b, dot_b)
            dot_c = multiply_add(load(room, place + 16), c, dot_c)
            dot_d = multiply_add(load(room, place + 24), d, dot_d)
        store(dots, to, dot_a)
        store(dots, to + 8, dot_b)
        store(dots, to + 16, dot_c)
        store(dots, to + 24, dot_d)


def _cell_add(residual, X, n_outputs, place, steps, sums, room):
    codes, starts, _, _, places = X
    stride = sums.size // n_outputs
    block = steps.size // n_outputs
    for k in range(n_outputs):
        of_output = sums[k * stride : (k + 1) * stride]
        for i in range(_count(place, block)):
            a = np.uintp(place[0] + i)
            step = steps[k * block + i]
            for j in range(codes.shape[1]):
                of_output[np.uintp(starts[j]) + np.uintp(codes[a, j])] += step
    for k in range(n_outputs):
        step = steps[k * block : (k + 1) * block]
        out = sums[k * stride + starts[-1] :]
        for p in range(places.shape[1]):
            first = room[places[0, p]]
            second = room[places[1, p]]
            product = 0.0
            for r in range(block):
                product += step[r] * first[r] * second[r]
            out[p] += product


_zeros = _by_outputs(_zeros_of_one, _zeros_of_several)
_slopes = _by_outputs(_slopes_of_one, _slopes_of_several)
_clip = _by_outputs(_clip_one, _clip_several)
_streams = _by_rows(
    dense=(_dense_streams_of_one, _dense_streams_of_several),
    csr=(_csr_streams, _csr_streams),
    cells=(_cell_streams, _cell_streams),
)
_room = _by_rows(
    dense=(_no_room, _no_room), csr=(_no_room, _csr_room), cells=(_cell_room, _cell_room)
)
_dots = _by_rows(
    dense=(_dense_dots_of_one, _dense_dots_of_several),
    csr=(_csr_dots_of_one, _csr_dots_of_several),
    cells=(_cell_dots, _cell_dots),
)
_add = _by_rows(
    dense=(_dense_add_of_one, _dense_add_of_several),
    csr=(_csr_add_of_one, _csr_add_of_several),
    cells=(_cell_add, _cell_add),
)


# --- the kernel -----------------------------------------------------------------------------------


def gradients(
    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept, shift,
    intercept_scaling, start, stop, out,
):  # fmt: skip
    """Write the clipped loss gradients of rows start..stop, summed, into ``out``.

    Coefficients, as the rows' `layout` says, then the intercepts', then the sums of residual *
    offset, see `skdpdyn.data.row_map.RowMap.factors`.
    """
    n_outputs = intercept.size
    n_weights = weights.size
    rows, apart, step, reach = _streams(residual, X, n_outputs, n_weights, stop - start)
    lanes = (rows + 7) // 8 * 8  # of a stream in a block, in whole vectors
    block = 4 * lanes
    raw = _zeros(residual, n_outputs, zeros_on_stack(_ON_STACK, block))
    slope = _zeros(residual, n_outputs, zeros_on_stack(_ON_STACK, block))
    target = zeros_on_stack(_ON_STACK, block)
    scale = zeros_on_stack(_ON_STACK, block)
    limit = zeros_on_stack(_ON_STACK, block)
    factor = zeros_on_stack(_ON_STACK, block)
    offset = zeros_on_stack(_ON_STACK, block)
    room = _room(residual, X, n_outputs, block)
    # the same arrays, unless weights are of lower precision
    dots = _narrowed(X, raw, weights)
    steps = _narrowed(X, slope, weights)
    sums = _narrowed(X, out[:n_weights], weights)
    zero = filled(0.0)
    ones = filled(1.0)
    out[:] = 0  # from here on nothing takes memory: what failed would leave a part of the sum
    for first in range(start, start + reach, step):
        size = start + reach - first if start + reach - first < rows else rows
        place = first, apart, size, stop
        _dots(residual, X, n_outputs, place, weights, dots, room)
        for lane in range(0, block, 8):  # beyond a block's rows all is zero
            stream = lane // lanes
            i = lane - stream * lanes
            row = first + stream * apart + i
            left = size - i if size - i < stop - row else stop - row
            store(target, lane, load_part(y, row, left))
            store(scale, lane, load_part(row_scale, row, left))
            store(limit, lane, load_part(row_limit, row, left))
            store(factor, lane, load_part(row_weight, row, left) if row_weight.size else ones)
            if row_offset.size:
                store(offset, lane, load_part(row_offset, row, left))
            ahead = row + lanes + 7
            prefetch(y, ahead)
            prefetch(row_scale, ahead)
            prefetch(row_limit, ahead)
        for k in range(n_outputs):
            constant = filled(intercept[k])
            moved = filled(shift[k])
            for i in range(0, block, 8):
                lane = k * block + i
                r = multiply_add(load(scale, i), load(dots, lane), constant)
                if row_offset.size:
                    r = multiply_add(load(offset, i), moved, r)
                store(raw, lane, r)
        _slopes(residual, n_outputs, raw, target, slope)
        _clip(residual, n_outputs, slope, limit, factor)
        for k in range(n_outputs):
            residuals = zero
            moved = zero
            for i in range(0, block, 8):
                lane = k * block + i
                r = multiply_add(load(slope, lane), load(factor, i), zero)
                residuals = multiply_add(r, ones, residuals)
                moved = multiply_add(r, load(offset, i), moved)
                store(slope, lane, multiply_add(r, load(scale, i), zero))
            out[n_weights + k] += total(residuals) * intercept_scaling
            out[n_weights + n_outputs + k] += total(moved)
        if sums.itemsize < 8:
            for j in range(slope.size):
                steps[j] = slope[j]
        _add(residual, X, n_outputs, place, steps, sums, room)
        if sums.itemsize < 8:
            for j in range(n_weights):
                out[j] += sums[j]
                sums[j] = 0


# --- rows, as the kernel takes them ---------------------------------------------------------------


def _gather_dense(rows, index, first, count, out):
    """Copy the rows at ``count`` places of ``index``, from ``first`` on, into ``out``."""
    for i in range(count):
        row = np.uintp(index[first + i])
        for j in range(rows.shape[1]):
            out[i, j] = rows[row, j]


def _gather_in_ranges(rows, index, first, count, out):
    """Copy the rows at ``count`` places of ``index``, from ``first`` on, into ``out``, mapped."""
    values, middle, factor = rows
    for i in range(count):
        row = np.uintp(index[first + i])
        for j in range(values.shape[1]):
            moved = (np.float64(values[row, j]) - middle[j]) * factor[j]
            moved = moved if moved <= 1.0 else 1.0
            out[i, j] = moved if moved >= -1.0 else -1.0


def _gather_csr(rows, index, first, count, out):
    """Copy the places of rows at ``count`` places of ``index``, from ``first`` on, into ``out``."""
    for i in range(count):
        row = np.uintp(index[first + i])
        out[2][i] = rows[2][row]
        out[3][i] = rows[3][row]


def _gather_cells(rows, index, first, count, out):
    """Copy the rows at ``count`` places of ``index``, from ``first`` on, into ``out``."""
    for i in range(count):
        row = np.uintp(index[first + i])
        for j in range(out[0].shape[1]):
            out[0][i, j] = rows[0][row, j]


@dataclass(frozen=True)
class Dense:
    """Dense rows, for losses with one output or several.

    Parameters
    ----------
    several : bool
        Whether losses have several outputs.
    """

    several: bool

    chunk_gradients = staticmethod(gradients)
    gather = staticmethod(_gather_dense)

    @property
    def residual_type(self):
        """Type of the loss's derivative."""
        return residual_matrix_function if self.several else residual_function

    def rows_type(self, dtype):
        """Return the numba type of the result of `rows`."""
        return readonly(dtype, 2)

    def rows(self, X):
        """Return X as the kernel takes it."""
        return X

    def precision(self, dtype):
        """Return the lowest precision of the weights, and of sums of blocks of dense rows.

        Of one output it is double, see `skdpdyn.solvers.steps`; of several that of the rows.
        """
        return dtype if self.several else "float64"

    def gathered_dtype(self, dtype):
        """Return the dtype of the rows that `gather` copies."""
        return "float64"

    @property
    def of_gathered(self):
        """How the kernel takes the rows that `gather` copies."""
        return self

    def room_type(self, dtype):
        """Return the numba type of the result of `room`."""
        return writable(np.float64, 2)

    def room(self, rows, size):
        """Return room for some rows side by side, of that dtype."""
        return np.empty((size, rows.shape[1]))

    def rows_at_a_time(self, n_features):
        """Return how many rows of a batch are summed one after the other, as caches hold."""
        return min(max(_GATHERED_BYTES // (n_features * 8) // 8, 1), 16) * 8

    def layout(self, n_outputs, n_features):
        """Return each parameter's place, rows padded to registers, and how many are weights."""
        stride = -(-n_features // _PADDING) * _PADDING
        coefficients = np.add.outer(stride * np.arange(n_outputs), np.arange(n_features))
        n_weights = n_outputs * stride
        return np.append(coefficients, n_weights + np.arange(n_outputs)), n_weights


@dataclass(frozen=True)
class Ranged(Dense):
    """Dense rows in ranges, which come to [-1, 1] as they are loaded, or gathered."""

    gather = staticmethod(_gather_in_ranges)

    @property
    def of_gathered(self):
        """How the kernel takes the rows that `gather` copies."""
        return Dense(self.several)

    def rows_type(self, dtype):
        """Return the numba type of the result of `rows`."""
        return types.Tuple((readonly(dtype, 2), readonly(dtype), readonly(dtype)))

    def rows(self, X):
        """Return the parts of `InRanges` as the kernel takes them."""
        return tuple(X)

    def room(self, rows, size):
        """Return room for some rows side by side."""
        return super().room(rows[0], size)


def csr_views(X):
    """Return values, columns, and each row's start and end, of rows whose indices were checked.

    Columns are unsigned: the test for negative ones would cost more than half as much again.
    """
    indices = X.indices
    indices = indices.view(np.uint32) if indices.dtype == np.int32 else indices.astype(np.uint32)
    edges = X.indptr.astype(np.int64)
    return X.data, indices, edges[:-1], edges[1:]


@dataclass(frozen=True)
class Csr(Dense):
    """CSR rows, which have no centre."""

    gather = staticmethod(_gather_csr)

    def rows_type(self, dtype):
        """Return the numba type of the result of `rows`."""
        places = readonly(np.int64)
        return types.Tuple((readonly(dtype), readonly(np.uint32), places, places))

    def rows(self, X):
        """See `csr_views`."""
        X.check_format(full_check=True)  # the kernel does not check indices
        return csr_views(X)

    def gathered_dtype(self, dtype):
        """Return the dtype of the values of the rows that `gather` copies."""
        return dtype

    def room_type(self, dtype):
        """Return the numba type of the result of `room`."""
        places = writable(np.int64)
        return types.Tuple((readonly(dtype), readonly(np.uint32), places, places))

    def room(self, rows, size):
        """Return room for the places of some rows; their values stay where they are."""
        return *rows[:2], np.empty(size, np.int64), np.empty(size, np.int64)

    def rows_at_a_time(self, n_features):
        """Return how many rows of a batch are summed one after the other."""
        return MOST_GATHERED

    def layout(self, n_outputs, n_features):
        """Return each parameter's place, column by column, and how many places are weights."""
        n_weights = n_outputs * n_features + (16 if self.several else 0)  # whole vectors
        coefficients = np.add.outer(np.arange(n_outputs), n_outputs * np.arange(n_features))
        return np.append(coefficients, n_weights + np.arange(n_outputs)), n_weights


@dataclass(frozen=True)
class Cells(Dense):
    """Rows that are cells of public tables.

    Parameters
    ----------
    several : bool
        Whether losses have several outputs.
    codes : str
        Name of the type of cells.
    """

    codes: str

    gather = staticmethod(_gather_cells)

    def rows_type(self, dtype):
        """Return the numba type of the result of `rows`."""
        return self._type(readonly(self.codes, 2))

    def room_type(self, dtype):
        """Return the numba type of the result of `room`."""
        return self._type(writable(self.codes, 2))

    def _type(self, codes):
        cells = readonly(np.int64)
        places = readonly(np.int64, 2)
        return types.Tuple((codes, cells, readonly(np.float64, 2), cells, places))

    def rows(self, X):
        """Return cells, each column's first one, and tables, as the kernel takes them."""
        expansion = X.expansion
        starts, low_starts = (
            cells.astype(np.int64) for cells in (expansion.starts, expansion.low_starts)
        )
        return X.codes, starts, expansion.low, low_starts, expansion.places

    def precision(self, dtype):
        """Return the precision of the weights."""
        return "float64"

    def gathered_dtype(self, dtype):
        """Return the dtype of targets and limits of the rows that `gather` copies."""
        return dtype

    def room(self, rows, size):
        """Return room for some rows side by side."""
        codes, *tables = rows
        return np.empty((size, codes.shape[1]), codes.dtype), *tables

    def rows_at_a_time(self, n_features):
        """Return how many rows of a batch are summed one after the other."""
        return MOST_GATHERED
