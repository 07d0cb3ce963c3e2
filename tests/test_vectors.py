"""Vectors do what the same sums on numpy arrays do, compiled and in plain Python."""

import numba
import numpy as np
import pytest

from skdpdyn._vectors import (
    REGISTER_BYTES,
    WIDTH,
    add_inner,
    add_outer,
    clamp,
    filled,
    load,
    load_numbers,
    load_part,
    load_part_of_registers,
    load_part_of_rows,
    load_registers,
    load_rows,
    multiply_add,
    prefetch_rows,
    register_size,
    store,
    store_rows,
    store_totals,
    total,
    zero_registers,
    zeros_on_stack,
)

each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@numba.njit
def _multiply(array, factor, term, out):
    store(out, 1, multiply_add(load(array, 2), filled(factor), load(term, 0)))


@numba.njit
def _copy(array, index, count, out):
    store(out, 1, load_part(array, index, count))


@numba.njit
def _clamp(array, limit, out):
    store(out, 0, clamp(load(array, 0), load(limit, 0)))


@numba.njit
def _total(array, start):
    return total(load(array, start))


@numba.njit
def _dots(array, starts, factors, count, out):
    zero, origin = filled(0.0), (0,)
    dots = add_outer(load_rows(array, starts, 1), load_rows(factors, origin, 0), (zero, zero, zero, filled(0.125)))
    prefetch_rows(array, starts, 1000, 24)
    store_totals(out, (1,), add_outer(load_part_of_rows(array, starts, 9, count), load_rows(factors, origin, 8), dots))


@numba.njit
def _many_totals(array, out):
    starts = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    store_totals(out, (1,), load_rows(array, starts, 0))


@numba.njit
def _weighted_sum(array, starts, steps, out):
    store_rows(out, (2,), 1, add_inner(load_numbers(steps, (1,), 4), load_rows(array, starts, 1), load_rows(out, (0,), 3)))


@numba.njit
def _outer_dots(a, starts_a, b, starts_b, n_columns, out):
    dots, width, j = zero_registers(a, 6), register_size(a), 0
    while n_columns - j >= width:
        dots = add_outer(load_registers(a, starts_a, j), load_registers(b, starts_b, j), dots)
        j += width
    dots = add_outer(
        load_part_of_registers(a, starts_a, j, n_columns - j), load_part_of_registers(b, starts_b, j, n_columns - j), dots
    )  # fmt: skip
    store_totals(out, (0, 4, 8), dots)


@numba.njit
def _weighted_sums(array, starts, numbers, number_starts, out, out_starts):
    steps = load_numbers(numbers, number_starts, 3)
    store_rows(out, out_starts, 1, add_inner(steps, load_registers(array, starts, 2), load_registers(out, out_starts, 1)))


@numba.njit
def _scratch(size, numbers):
    first, second = zeros_on_stack(24, size), zeros_on_stack(24, size)
    before = first.sum() + second.sum()
    for i in range(size):
        first[i], second[i] = numbers[i], -2 * numbers[i]
    return before, first.size, first.sum(), second.sum()


@each_dtype
def test_multiply_add_on_flattened_rows(dtype):
    array, term, out = np.arange(12, dtype=dtype).reshape(3, 4) / 7, np.linspace(-1, 1, WIDTH), np.full(10, 9.0)
    _multiply(array, 0.3, term, out)
    expected = array.ravel()[2:10].astype(float) * 0.3 + term
    np.testing.assert_allclose(out, [9, *expected, 9], rtol=1e-15, atol=1e-16)


@each_dtype
@pytest.mark.parametrize("index", [0, 3, 4, 5, 11, 12, 40])
@pytest.mark.parametrize("count", [-9, -1, 0, 1, 5, 7, 8, 9, 100])
def test_parts_are_the_first_elements_and_zeros(dtype, index, count):
    """Also at the end of the array, and where what follows is no number."""
    array, out = np.arange(1, 13, dtype=dtype) / 3, np.full(10, -1.0)
    count = min(count, 12 - index)
    n_elements = min(max(count, 0), WIDTH)
    array[index + n_elements :] = np.nan
    expected = np.zeros(WIDTH)
    expected[:n_elements] = array[index : index + n_elements]
    _copy(array, index, count, out)
    np.testing.assert_array_equal(out, [-1, *expected, -1])


def test_clamp_leaves_nothing_beyond_the_limit():
    array = np.array([np.nan, np.inf, -np.inf, 0.5, -0.5, 0.75, -2.0, -0.0])
    limit = np.array([0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 0.0])
    out = np.empty(WIDTH)
    _clamp(array, limit, out)
    np.testing.assert_array_equal(out, [0.75, 0.75, -0.75, 0.5, -0.5, 0.75, -0.75, 0.0])


@each_dtype
def test_total(dtype):
    array = np.random.default_rng(0).standard_normal(11).astype(dtype)
    np.testing.assert_allclose(_total(array, 3), array[3:].astype(float).sum(), rtol=1e-14)


@each_dtype
@pytest.mark.parametrize("count", [-3, 0, 1, 5, 8, 11])
def test_dot_products_of_several_rows(dtype, count):
    """Two of them the same; nothing of what follows a row's first ``count`` elements is used, not even times zero."""
    rng = np.random.default_rng(1)
    array, factors, out = rng.standard_normal((4, 20)).astype(dtype), rng.standard_normal(16), np.full(6, 9.0)
    n_used = 8 + min(max(count, 0), 8)
    array[:, 1 + n_used :] = np.nan
    _dots(array, (0, 20, 60, 60), factors, count, out)
    expected = array[[0, 1, 3, 3], 1 : 1 + n_used].astype(float) @ factors[:n_used] + [0, 0, 0, 1]
    np.testing.assert_allclose(out, [9, *expected, 9], rtol=1e-13)


@each_dtype
def test_weighted_sum_of_several_rows(dtype):
    rng = np.random.default_rng(2)
    array, steps, out = rng.standard_normal((4, 10)).astype(dtype), rng.standard_normal(6), np.arange(12.0)
    expected = out.copy()
    expected[3:11] += steps[1:5] @ array[[3, 0, 1, 2], 1:9].astype(float)
    _weighted_sum(array, (30, 0, 10, 20), steps, out)
    np.testing.assert_allclose(out, expected, rtol=1e-14)


@each_dtype
@pytest.mark.parametrize("n_columns", [0, 1, 7, 8, 15, 16, 17, 40])
def test_dot_products_of_rows_with_rows(dtype, n_columns):
    """In their own precision, of three rows with two; what follows the last column is no number."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((3, 48)).astype(dtype), rng.standard_normal((2, 48)).astype(dtype)
    a[:, n_columns:], b[:, n_columns:] = np.nan, np.nan
    out = np.full(10, 9, dtype)
    _outer_dots(a, (96, 0, 48), b, (48, 0), n_columns, out)
    expected = np.full(10, 9, dtype)
    expected[[0, 1, 4, 5, 8, 9]] = (a[[2, 0, 1], :n_columns].astype(float) @ b[[1, 0], :n_columns].T.astype(float)).ravel()
    np.testing.assert_allclose(out, expected, rtol=0, atol=40 * np.finfo(dtype).eps)


@each_dtype
def test_weighted_sums_of_rows(dtype):
    """In their own precision: two sums, each of three rows with factors of its own."""
    rng = np.random.default_rng(4)
    array, numbers = rng.standard_normal((3, 20)).astype(dtype), rng.standard_normal(9).astype(dtype)
    out = rng.standard_normal((2, 20)).astype(dtype)
    width, expected = REGISTER_BYTES // out.itemsize, out.copy()
    expected[[1, 0], 1 : 1 + width] += numbers[[[5, 6, 7], [0, 1, 2]]] @ array[[2, 0, 1], 2 : 2 + width]
    _weighted_sums(array, (40, 0, 20), numbers, (5, 0), out, (20, 0))
    np.testing.assert_allclose(out, expected, rtol=0, atol=20 * np.finfo(dtype).eps)


def test_more_totals_than_a_vector_has_elements():
    array, out = np.random.default_rng(5).standard_normal(23), np.full(18, 9.0)
    _many_totals(array, out)
    np.testing.assert_allclose(out, [9, *np.convolve(array, np.ones(8), "valid"), 9], rtol=0, atol=1e-14)


def test_scratch_on_the_stack():
    """Zeros at first, also in a second call, and apart from each other."""
    numbers = np.arange(1.0, 25.0)
    for size in (24, 0, 7):
        sum_ = numbers[:size].sum()
        assert _scratch(size, numbers) == (0, size, sum_, -2 * sum_)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="plain Python converts what it stores")
def test_stores_of_another_precision_are_refused():
    """They would write twice as many bytes as the elements have."""

    @numba.njit
    def mixed(out):
        store(out, 0, filled(1.0))

    with pytest.raises(numba.TypingError, match="cannot be stored"):
        mixed(np.zeros(16, np.float32))
