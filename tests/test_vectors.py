"""Vectors of eight doubles do what the same sums on numpy arrays do, compiled and in plain Python."""

import numba
import numpy as np
import pytest

from skdpdyn._vectors import WIDTH, clamp, filled, load, load_part, multiply_add, prefetch_two, store, total

each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@numba.njit
def _multiply(array, factor, term, out):
    prefetch_two(array, 1000)
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
