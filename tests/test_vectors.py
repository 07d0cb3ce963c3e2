"""Vectors do what the same sums on numpy arrays do, compiled and in plain Python."""

import numba
import numpy as np
import pytest

from skdpdyn.kernels.vectors import (
    WIDTH,
    add_rows,
    clamp,
    filled,
    load,
    load_numbers,
    load_part,
    places,
    store,
    store_dots,
)

each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@numba.njit
def _copy(array, index, count, out):
    store(out, 1, load_part(array, index, count))


@numba.njit
def _clamp(array, limit, out):
    store(out, 0, clamp(load(array, 0), load(limit, 0)))


@numba.njit
def _dots(rows, starts, factors, size, out, first, stride):
    to = places(first, stride, 4, 0, 1)
    store_dots(out, to, factors, (1,), rows, starts, size, starts[:2], 5)


@numba.njit
def _dots_of_three(a, starts_of_a, b, starts_of_b, size, out):
    store_dots(out, (1, 10, 6), a, starts_of_a, b, starts_of_b, size, (), 0)


@numba.njit
def _weighted_sum(rows, starts, factors, size, out):
    add_rows(out, (2,), load_numbers(factors, (1, 4), 2), rows, starts, size, starts, 7)


@numba.njit
def _weighted_sums(rows, starts, factors, size, out, starts_of_out):
    add_rows(
        out, starts_of_out, load_numbers(factors, (5, 0), 3), rows, starts, size, starts[2:], 0
    )


@each_dtype
@pytest.mark.parametrize("index", [0, 3, 4, 5, 11, 12, 40])
@pytest.mark.parametrize("count", [-9, -1, 0, 1, 5, 7, 8, 9, 100])
def test_parts_are_the_first_elements_and_zeros(dtype, index, count):
    """Also at the end of the array, and where what follows is no number."""
    array = np.arange(1, 13, dtype=dtype) / 3
    out = np.full(10, -1.0)
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


each_size = pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40])


@each_dtype
@each_size
@pytest.mark.parametrize("stride", [1, 3])
def test_dot_products_of_four_rows(dtype, size, stride):
    """In double, two rows the same; nothing of what follows is used, not even times zero."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((4, 41)).astype(dtype)
    factors = rng.standard_normal(41)
    out = np.full(12, 9.0)
    rows[:, size:] = np.nan
    factors[1 + size :] = np.nan
    _dots(rows, (0, 41, 123, 123), factors, size, out, 1, stride)
    expected = np.full(12, 9.0)
    expected[1 + stride * np.arange(4)] = (
        rows[[0, 1, 3, 3], :size].astype(float) @ factors[1 : 1 + size]
    )
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-13)


@each_dtype
@each_size
def test_dot_products_of_rows_with_rows(dtype, size):
    """In their own precision, of three rows with four."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal((3, 48)).astype(dtype)
    b = rng.standard_normal((4, 48)).astype(dtype)
    a[:, size:] = np.nan
    b[:, size:] = np.nan
    out = np.full(15, 9, dtype)
    _dots_of_three(a, (96, 0, 48), b, (48, 0, 96, 144), size, out)
    expected = np.full(15, 9, dtype)
    expected[[1, 2, 3, 4, 10, 11, 12, 13, 6, 7, 8, 9]] = (
        a[[2, 0, 1], :size].astype(float) @ b[[1, 0, 2, 3], :size].T.astype(float)
    ).ravel()
    np.testing.assert_allclose(out, expected, rtol=0, atol=40 * np.finfo(dtype).eps)


@each_dtype
@each_size
def test_weighted_sum_of_four_rows(dtype, size):
    """In double; nothing of what follows a row is used."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((4, 41)).astype(dtype)
    factors = rng.standard_normal(6)
    out = np.arange(52.0)
    rows[:, size:] = np.nan
    expected = out.copy()
    expected[2 : 2 + size] += factors[[1, 2, 4, 5]] @ rows[[3, 0, 1, 2], :size].astype(float)
    _weighted_sum(rows, (123, 0, 41, 82), factors, size, out)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-13)


@each_dtype
@each_size
def test_weighted_sums_of_rows(dtype, size):
    """In their own precision: two sums, each of three rows with factors of its own."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((3, 41)).astype(dtype)
    factors = rng.standard_normal(9).astype(dtype)
    out = rng.standard_normal((2, 60)).astype(dtype)
    rows[:, size:] = np.nan
    expected = out.copy()
    expected[[1, 0], 1 : 1 + size] += factors[[[5, 6, 7], [0, 1, 2]]] @ rows[[2, 0, 1], :size]
    _weighted_sums(rows, (82, 0, 41), factors, size, out, (61, 1))
    np.testing.assert_allclose(out, expected, rtol=0, atol=20 * np.finfo(dtype).eps)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="plain Python converts what it stores")
def test_stores_of_another_precision_are_refused():
    """They would write twice as many bytes as the elements have."""

    @numba.njit
    def mixed(out):
        store(out, 0, filled(1.0))

    with pytest.raises(numba.TypingError, match="cannot be stored"):
        mixed(np.zeros(16, np.float32))
    single = np.zeros(5, np.float32)
    with pytest.raises(numba.TypingError, match="cannot be stored"):
        _dots(np.zeros((4, 4)), (0, 4, 8, 12), single, 4, single[:4], 0, 1)
