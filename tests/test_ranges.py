"""Ranges of columns that are bought: what is counted, what is released, and what follows."""

from functools import partial

import numpy as np
import pytest

from skdpdyn.core import losses
from skdpdyn.core.noise import generators
from skdpdyn.core.objective import Objective
from skdpdyn.core.rules import strength_of
from skdpdyn.core.spending import Spending
from skdpdyn.data.local import LocalRows, rows_of
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.privacy import Budget
from skdpdyn.training.ranges import FINER_RANGES, RANGES, bought_ranges, shares_of_ranges

N = 20_000
RNG = np.random.default_rng(0)
# columns, and the ranges that noise cannot hide at epsilon 100
COLUMNS = {
    "uniform": (RNG.uniform(0, 1, N), (0, 1)),
    "flags": (RNG.integers(0, 2, N), (0, 1)),
    "normal": (np.clip(RNG.normal(size=N), -3, 3), (-4, 4)),
    "negative": (-RNG.uniform(0, 100, N), (-128, 0)),
    "zero": (np.zeros(N), (0, 2.0**-1000)),
    "one value": (np.full(N, 5.0), (5, 5.0625)),
    "years": (RNG.integers(1990, 2021, N), (1984, 2032)),
    "longitude": (RNG.uniform(-124, -114.1, N), (-124, -114)),
    "nanoseconds": (RNG.uniform(1.60e18, 1.63e18, N), (2.0**60 * 1.375, 2.0**60 * 1.421875)),
    "tiny": (RNG.uniform(0, 1e-300, N), (0, 2.0**-996)),
    "huge": (1e300 * np.clip(RNG.normal(size=N), -1, 1), (-(2.0**997), 2.0**997)),
    "both ends": (np.where(RNG.random(N) < 0.5, -1e-200, 1e200), (-(2.0**-664), 2.0**665)),
    "beyond": (np.full(N, np.finfo(float).max), (2.0**999, 2.0**1000)),
    "int64": (np.full(N, -(2.0**63)), (-(2.0**63), -(2.0**63) * 127 / 128)),
}


def bought(X, epsilon=100.0, codes=None):
    """Return ranges of columns, and what was spent on them."""
    budget = Budget(epsilon, 1e-10, adjacency="replace_one")
    shares = shares_of_ranges(strength_of(N, budget.mu, budget.adjacency))
    spending = Spending(budget, shares, generators(1)[0])
    rows = rows_of(np.ascontiguousarray(X), None, codes, 4)
    found = bought_ranges(rows.octave_counts(), rows.part_counts, spending, X.dtype.name)
    return found, spending.record()


@pytest.mark.filterwarnings("ignore:random_state")
def test_ranges_hold_their_columns_over_all_numbers():
    """Whatever their scale: false ends have a chance of 1e-2, at this seed there is none."""
    ranges, record = bought(
        np.column_stack([column for column, _ in COLUMNS.values()]).astype(float)
    )
    assert dict(zip(COLUMNS, map(tuple, ranges), strict=True)) == {
        name: expected for name, (_, expected) in COLUMNS.items()
    }
    assert record.names == (RANGES, FINER_RANGES)


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize("changed", COLUMNS)
def test_a_record_moves_counts_by_one_in_each_column(changed):
    """Its weight, where it is one of a person's: so do parts of ranges, each of them exactly."""
    X = np.column_stack([COLUMNS["uniform"][0], COLUMNS[changed][0]]).astype(float)
    for weight in (None, np.full(N, 1 / 3)):
        rows = rows_of(X, None, None, 1, weight=weight)
        other = rows_of(np.vstack([X[:-1], [[-7.0, np.nan]]]), None, None, 1, weight=weight)
        unit = 1.0 if weight is None else np.floor(2.0**38 / 3) / 2.0**38
        for of in (lambda rows: rows.octave_counts(), _parts):
            moved = of(rows) - of(other)
            assert np.all(np.isin(np.abs(moved), [0.0, unit]))
            assert np.all(np.sum(np.abs(moved), axis=1) <= 2 * unit)


def _parts(rows):
    return rows.part_counts(np.array([[0.25, 0.75], [1984.0, 2032.0]]), np.array([True, True]))


@pytest.mark.filterwarnings("ignore:random_state")
def test_too_few_records_give_a_range_all_the_same():
    """Of noise alone: an end beyond 2^64 and back is no error."""
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(20, 3))
        ranges, _ = bought(X, epsilon=0.01)
        assert np.all(ranges[:, 0] < ranges[:, 1]), ranges


OBJECTIVES = {
    "one output": partial(Objective, losses.logistic),
    "several": partial(Objective, losses.softmax(3)),
}


@pytest.mark.parametrize("n_features", [1, 3, 17, 70])
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_rows_come_into_ranges_as_kernels_load_them(kind, n_features):
    """With the bits of a copy that was mapped before: gradients, batches, and all statistics."""
    X = RNG.normal(size=(700, n_features)) * 10.0 ** RNG.uniform(-9, 9, n_features)
    y = RNG.integers(0, 2, 700).astype(float)
    high = np.abs(X).max(axis=0) / 2
    ranges = Ranges(-high * RNG.uniform(0.3, 1, n_features), high)
    pair = [LocalRows(X, y).with_ranges(ranges), LocalRows(ranges.mapped(X), y)]
    weights = np.eye(n_features) + 0.1
    row_map = RowMap(np.full(n_features, 0.1), weights, norm=1.0, radius=n_features**0.5)
    objective = OBJECTIVES[kind](700, n_features, 1.0, clip=0.5, spread=1024.0)
    point = RNG.normal(size=objective.n_parameters)
    for same in (
        lambda rows: rows.gradient(objective, point),
        lambda rows: rows.gradient(objective, point, np.arange(5, 300)),
        lambda rows: rows.second_moment(0.1),
        lambda rows: rows.column_squares(),
        lambda rows: rows.column_sums(0.5),
        lambda rows: rows.counts("lengths", [0.5, 1.0]),
        lambda rows: np.vstack([mapped for _, mapped in rows.mapped_blocks()]),
    ):
        one, other = (same(rows.with_map(row_map)) for rows in pair)
        np.testing.assert_array_equal(one, other)
