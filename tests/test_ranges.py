"""Ranges of columns that are bought: what is counted, what is released, and what follows."""

from functools import partial
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core import losses
from skdpdyn.core.noise import generators
from skdpdyn.core.objective import Objective
from skdpdyn.core.rules import strength_of
from skdpdyn.core.sealed import Noisy, opened
from skdpdyn.core.spending import Spending
from skdpdyn.data.local import LocalRows, rows_of
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.privacy import Budget, composition
from skdpdyn.training.ranges import FINER_RANGES, RANGES, bought_ranges, shares_of_ranges

N = 20_000
RNG = np.random.default_rng(0)
# columns, and the ranges that noise cannot hide at epsilon 100
COLUMNS = {
    "uniform": (RNG.uniform(0, 1, N), (0, 1)),
    "flags": (RNG.integers(0, 2, N), (0, 1)),
    "normal": (np.clip(RNG.normal(size=N), -3, 3), (-4, 4)),
    "negative": (-RNG.uniform(0, 100, N), (-128, 0)),
    "zero": (np.zeros(N), (-1, 1)),
    "one": (np.ones(N), (0, 1)),
    "minus one": (-np.ones(N), (-1, 0)),
    "one value": (np.full(N, 5.0), (5, 5.125)),
    "years": (RNG.integers(1990, 2021, N), (1984, 2048)),
    "longitude": (RNG.uniform(-124, -114.1, N), (-124, -114)),
    "nanoseconds": (RNG.uniform(1.60e18, 1.63e18, N), (2.0**60 * 1.375, 2.0**60 * 1.4375)),
    "tiny": (RNG.uniform(0, 1e-300, N), (0, 2.0**-996)),
    "huge": (1e300 * np.clip(RNG.normal(size=N), -1, 1), (-(2.0**997), 2.0**997)),
    "both ends": (np.where(RNG.random(N) < 0.5, -1e-200, 1e200), (-(2.0**-664), 2.0**665)),
    "beyond": (np.full(N, np.finfo(float).max), (2.0**999, 2.0**1000)),
    "int64": (np.full(N, -(2.0**63)), (-(2.0**63), -(2.0**63) * 63 / 64)),
}


def bought(X, epsilon=100.0, codes=None, seed=1):
    """Return ranges of columns, and what was spent on them."""
    budget = Budget(epsilon, 1e-10, adjacency="replace_one")
    shares = shares_of_ranges(strength_of(N, budget.mu, budget.adjacency), X.shape[1])
    spending = Spending(budget, shares, generators(seed)[0])
    rows = rows_of(np.ascontiguousarray(X), None, codes, 4)
    counts = rows.octave_counts(), rows.part_counts
    found = bought_ranges(*counts, spending, len(X), X.dtype.name)
    return found, spending.record()


@pytest.mark.filterwarnings("ignore:random_state")
def test_ranges_hold_their_columns_over_all_numbers():
    """Whatever their scale: false ends have a chance of 1e-2, at this seed there is none."""
    columns, expected = zip(*COLUMNS.values(), strict=True)
    ranges, record = bought(np.column_stack(columns).astype(float))
    assert tuple(map(tuple, ranges)) == expected
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
            moved = (opened(of(rows)) - opened(of(other))).reshape(2, -1)
            assert np.all(np.isin(np.abs(moved), [0.0, unit]))
            assert np.all(np.sum(np.abs(moved), axis=1) <= 2 * unit)


def _parts(rows):
    return rows.part_counts(np.array([[0.25, 0.75], [1984.0, 2032.0]]), np.array([True, True]))


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_noise_alone_gives_ranges_that_numbers_come_to(dtype):
    """Wherever it shows cells, at the ends of what there is too."""
    X = RNG.normal(size=(20, 60)).astype(dtype)
    seen = []
    for seed in range(20):
        ranges = Ranges(*bought(X, epsilon=0.01, seed=seed)[0].T)
        assert np.all(np.isfinite(ranges.mapped(X)))
        seen.append(np.abs(ranges.pairs))
    assert np.max(seen) > 1
    assert np.all(np.diff(np.hstack([ranges.pairs])) > 0)


@pytest.mark.parametrize("n_features", [1, 3, 17, 70])
@pytest.mark.parametrize("loss", [losses.logistic, losses.softmax(3)], ids=["one", "several"])
def test_rows_come_into_ranges_as_kernels_load_them(loss, n_features):
    """With the bits of a copy that was mapped before: gradients, batches, and all statistics."""
    X = RNG.normal(size=(700, n_features)) * 10.0 ** RNG.uniform(-9, 9, n_features)
    y = RNG.integers(0, 2, 700).astype(float)
    high = np.abs(X).max(axis=0) / 2
    ranges = Ranges(-high * RNG.uniform(0.3, 1, n_features), high)
    pair = [LocalRows(X, y).with_ranges(ranges), LocalRows(ranges.mapped(X), y)]
    weights = np.eye(n_features) + 0.1
    row_map = RowMap(np.full(n_features, 0.1), weights, norm=1.0, radius=n_features**0.5)
    objective = Objective(loss, 700, n_features, 1.0, clip=0.5, spread=1024.0)
    point = RNG.normal(size=objective.n_parameters)
    for same in (
        lambda rows: opened(rows.gradient(objective, point)),
        lambda rows: opened(rows.gradient(objective, point, np.arange(5, 300))),
        lambda rows: opened(rows.second_moment(0.1)),
        lambda rows: opened(rows.column_squares()),
        lambda rows: opened(rows.column_sums(0.5)),
        lambda rows: opened(rows.counts("lengths", [0.5, 1.0])),
        lambda rows: np.vstack([mapped for _, mapped in rows.mapped_blocks()]),
    ):
        one, other = (same(rows.with_map(row_map)) for rows in pair)
        np.testing.assert_array_equal(one, other)


# --- models ---------------------------------------------------------------------------------------

UNITS = np.array([2.0**30, 2.0**-40, 4.0, 1.0])
Z = RNG.normal(size=(4000, 4))
RAW = np.column_stack([1e6 * np.exp(Z[:, 0]), 1e-5 * Z[:, 1], 2000 + 10 * Z[:, 2], Z[:, 3] > 0])
TARGET = np.clip(Z @ [1.0, -1.0, 0.5, 0.0], -3, 3)
LABELS = (TARGET + RNG.logistic(size=4000) > 0).astype(int)
SEEDED = {"epsilon": 3.0, "random_state": 0}
FAMILIES = {
    "logistic": (PrivateLogisticRegression, {"classes": [0, 1]}, LABELS),
    "softmax": (PrivateSoftmaxRegression, {"classes": [0, 1, 2]}, LABELS + (TARGET > 1)),
    "svc": (PrivateLinearSVC, {"classes": [0, 1]}, LABELS),
    "ridge": (PrivateRidge, {"target_bounds": (-3, 3)}, TARGET),
    "quantile": (PrivateQuantileRegressor, {"target_bounds": (-3, 3)}, TARGET),
    "poisson": (PrivatePoissonRegressor, {"target_bounds": (0, 9)}, np.round(TARGET + 3)),
}


class Streamed(StreamedRows):
    """Rows that are read in order."""

    def __init__(self, X, y):
        super().__init__(X.shape, X.dtype)
        self._data = X, y

    def read(self):
        """Give out 999 rows at a time."""
        for first in range(0, len(self._data[0]), 999):
            yield tuple(of[first : first + 999] for of in self._data)


def learnt(family, X=RAW, y=None, **options):
    """Return a fitted model of a family."""
    kind, public, target = FAMILIES[family]
    of_fit = {"groups": options.pop("groups")} if "groups" in options else {}
    y = (None if isinstance(X, StreamedRows) else target) if y is None else y
    return kind(**{"bounds": "auto"} | SEEDED | public | options).fit(X, y, **of_fit)


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("family", FAMILIES)
def test_units_that_are_powers_of_two_do_not_matter(family, dtype):
    """Given the same ranges, to the last digits; predictions clip, as those of scikit-learn do."""
    X = RAW.astype(dtype)
    moved = (RAW * UNITS).astype(dtype)
    model = learnt(family, X)
    assert RANGES in model.mechanism_.names
    public = learnt(family, X, bounds=model.ranges_)
    other = learnt(family, moved, bounds=model.ranges_ * UNITS[:, None])
    predicted = public.predict(X)
    near = {"float64": 1e-10, "float32": 1e-3}[dtype]
    near_to = partial(np.testing.assert_allclose, rtol=near, atol=near)
    near_to(other.predict(moved), predicted)
    near_to(other.coef_ * UNITS * public.ranges_[:, 1], public.coef_ * public.ranges_[:, 1])
    if public.family.twin is not None:
        near_to(public.to_sklearn().predict(X), predicted)
    far = np.array([[1e30, -1e30, -1e30, 1e30]] * 2, dtype)
    ends = model.ranges_
    at_ends = np.array([[ends[0, 1], ends[1, 0], ends[2, 0], ends[3, 1]]] * 2, dtype)
    near_to(model.predict(far), model.predict(at_ends))


@pytest.mark.filterwarnings("ignore:random_state", "ignore:epsilon")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ranges_are_the_same_wherever_rows_are(dtype):
    """Streamed rows have the bits of rows in memory, at any number of threads."""
    X = RAW.astype(dtype)
    y = LABELS
    model = learnt("logistic", X)
    for other in (learnt("logistic", Streamed(X, y)), learnt("logistic", X, n_jobs=3)):
        np.testing.assert_array_equal(other.ranges_, model.ranges_)
        np.testing.assert_array_equal(other.coef_, model.coef_)


@pytest.mark.filterwarnings("ignore:random_state")
def test_what_ranges_cost_is_known_before_and_reported():
    """Bought ones are no public facts; public ones, and those of a start or a map, cost nothing."""
    model = learnt("logistic")
    asked = PrivateLogisticRegression(bounds="auto", classes=[0, 1], **SEEDED)
    assert model.privacy_ == asked.privacy_cost(*RAW.shape)
    assumed = model.privacy_report().as_dict()["assumed"]
    assert "bounds: bought for" in str(assumed["bought, or released before"])
    assert "columns' bounds" not in str(assumed["public"])
    for lends in ({"start": model}, {"conditioning": model.conditioning_}):
        other = learnt("logistic", **lends)
        np.testing.assert_array_equal(other.ranges_, model.ranges_)
        assert RANGES not in other.mechanism_.names
        assert other.sources_
    public = learnt("logistic", bounds=model.ranges_)
    assert "the columns' bounds" in str(public.privacy_report().as_dict()["assumed"]["public"])
    for alone in ({"data_norm": 2.0}, {"conditioning": None}, {"start": ([[0.0] * 4], [0.0])}):
        assert learnt("logistic", **alone).ranges_ is None
    of_sparse = sparse.csr_array(RAW)
    assert learnt("logistic", of_sparse).ranges_ is None
    with pytest.raises(ValueError, match="X is sparse, and this model has bounds"):
        model.predict(of_sparse)
    for message, X, given in (
        ("bounds would make sparse rows dense", of_sparse, {"bounds": (0, 1)}),
        ("of conditioning", RAW, {"conditioning": model.conditioning_, "bounds": (0, 1)}),
        ("too near, for float32", RAW.astype("float32"), {"bounds": (0, 1e-100)}),
    ):
        with pytest.raises(ValueError, match=message):
            learnt("logistic", X, **given)


@pytest.mark.parametrize("law", ["normal", "log-normal"])
def test_units_and_places_of_columns_do_not_matter(law):
    """One column times 1,000, or moved by its width: 20 fits have the same mean AUC to .002.

    They differ by .0001, with a deviation of .00005: chance fails this in less than one run of 1e6.
    """
    normal = np.random.default_rng(0).normal(size=(N, 4))
    X = normal if law == "normal" else np.exp(0.8 * normal)
    y = (X @ [1.0, -1.0, 0.5, 0.0] + RNG.logistic(size=N) > 0).astype(int)
    moves = {"as it is": (1.0, 0.0), "times 1,000": (1000.0, 0.0), "moved": (1.0, 8.0)}
    scores = dict.fromkeys(moves, 0.0)
    for name, (factor, moved) in moves.items():
        rows = X * [factor, 1, 1, 1] + [moved, 0, 0, 0]
        for _ in range(20):
            model = PrivateLogisticRegression(epsilon=3.0, classes=[0, 1]).fit(rows, y)
            scores[name] += roc_auc_score(y, model.decision_function(rows)) / 20
    assert np.ptp(list(scores.values())) <= 0.002


ODD = {"of 64 bits": np.repeat([[2**63 - 1, -(2**63), 0, 1]], 4000, axis=0), "flags": Z > 0}
ODD |= {"constant": np.full((4000, 4), 7.0), "both": Z * [1e300, 1e-300, 1.0, 0.0]}
ODD |= {"tiny": Z * 1e-300, "huge": np.clip(Z, -1, 1) * 1e300}


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize("kind", ODD)
def test_odd_columns_are_learnt_from_or_are_no_harm(kind):
    model = learnt("logistic", ODD[kind])
    assert np.all(np.isfinite(model.predict_proba(ODD[kind])))
    score = model.score(ODD[kind], LABELS)
    assert score > (0.45 if kind in ("of 64 bits", "constant") else 0.65), score


@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_cells_that_are_no_numbers_are_refused_and_not_quoted(cell):
    X = RAW.copy()
    X[17, 1] = cell
    with pytest.raises(ValueError, match=r"Input X contains|missing values") as error:
        learnt("logistic", X)
    assert "17" not in str(error.value)


@pytest.mark.filterwarnings("ignore:random_state", "ignore:epsilon")
def test_additive_models_have_bounds_of_ranges_wherever_rows_are():
    """Missing values count nowhere; an export predicts the same; a start lends its bounds."""
    X = RAW.copy()
    X[::7, 1] = np.nan
    options = {"bounds": "auto", "classes": [0, 1], "interactions": None} | SEEDED
    model = PrivateGAMClassifier(**options).fit(X, LABELS)
    assert model.privacy_ == PrivateGAMClassifier(**options).privacy_cost(*X.shape)
    assert "bounds" in model.bought_
    assert "columns' bounds" not in str(model.privacy_report().as_dict()["assumed"]["public"])
    ends = np.array([(column.low, column.high) for column in model.expansion_.columns])
    assert 1900 <= ends[2, 0] < ends[2, 1] <= 2100
    predicted = model.predict_proba(X)
    np.testing.assert_allclose(model.to_sklearn().predict_proba(X), predicted, rtol=1e-9)
    other = PrivateGAMClassifier(**options).fit(Streamed(X, LABELS))
    np.testing.assert_array_equal(other.predict_proba(X), predicted)
    frame = pd.DataFrame(X).assign(text=np.where(Z[:, 0] > 0, "a", "b"))
    frame.columns = [*"uvwxy"]
    of_frame = PrivateGAMClassifier(**options | {"categories": {"y": ["a", "b"]}})
    assert of_frame.fit(frame, LABELS).score(frame, LABELS) > 0.6
    started = PrivateGAMClassifier(**options, start=model).fit(X, LABELS)
    lent = [(column.low, column.high) for column in started.expansion_.columns]
    np.testing.assert_array_equal(lent, ends)
    assert RANGES not in started.mechanism_.names
    with pytest.raises(ValueError, match="is no Gaussian release"):
        PrivateGAMClassifier(**options, solver="noisy_sgd").fit(X, LABELS)


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize("columns", ["wide", "narrow"])
def test_what_was_released_is_what_is_declared(columns):
    """Whether or not there is something to split: a report proves the guarantee of the record."""
    X = RAW[:, :2] if columns == "wide" else RAW
    model = learnt("logistic", np.ascontiguousarray(X))
    names = model.mechanism_.names
    assert [names.count(name) for name in (RANGES, FINER_RANGES)] == [1, 1]
    assert composition(model.mechanism_).mu == pytest.approx(model.privacy_.mu, rel=1e-8)


@pytest.mark.filterwarnings("ignore:random_state")
def test_no_intercept_leaves_0_at_0():
    model = learnt("logistic", fit_intercept=False)
    assert np.all(model.ranges_.sum(axis=1) == 0)
    assert np.all(model.intercept_ == 0)
    ridge = learnt("ridge", fit_intercept=False, bounds=(-1, 3), target_bounds=(-3, 3))
    assert ridge.ranges_[0].tolist() == [-3, 3]


@pytest.mark.filterwarnings("ignore:random_state")
def test_a_large_cell_is_split_once():
    """What is released of one column moves by 1 for each record, wherever its ends are."""
    counts = []
    told = lambda self, name, of: counts.append(opened(of)) or Noisy(opened(of), 1.0)  # noqa: E731
    with patch.object(Spending, "release", told):
        bought(np.full((N, 1), 1e-200))
    assert [np.sum(of) for of in counts] == [N, N]


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize(("part", "high"), [(0.04, 2.0), (0.01, 1.0)])
def test_an_octave_that_may_have_many_records_is_in(part, high):
    """Also where noise has a deviation of 3 %: there is none here."""
    X = RNG.uniform(0.3, 1, (N, 1))
    X[: int(part * N)] += 1
    told = lambda self, name, of: Noisy(opened(of), self.noise_multiplier(name) * 2**0.5)  # noqa: E731
    with patch.object(Spending, "release", told):
        ranges, _ = bought(X, epsilon=0.05)
    assert ranges.tolist() == [[0.0, high]]


@pytest.mark.filterwarnings("ignore:random_state")
def test_columns_that_do_not_reach_zero_get_no_range_from_it():
    """On both sides of a power of two, and beside an octave in which noise stands out."""
    rng = np.random.default_rng(0)
    pressure = rng.normal(1013, 8, N)
    X = np.column_stack([pressure, rng.uniform(1990, 2010, N), -rng.uniform(44.9, 45.1, N)])
    ranges = np.array([bought(X, epsilon=3.0, seed=seed)[0] for seed in range(40)])
    assert np.all(np.min(np.abs(ranges), axis=2) > [800, 1900, 40])
    assert np.all(np.max(np.abs(ranges), axis=2) < [1150, 2100, 50])
    spread = np.column_stack([rng.lognormal(0, 1, N), rng.uniform(0.3, 0.9, N)])
    for seed in range(20):
        found, _ = bought(spread, epsilon=1.0, seed=seed)
        outside = (spread < found[:, 0]) | (spread > found[:, 1])
        assert np.all(outside.mean(axis=0) < 0.06)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_coefficients_are_those_of_raw_predictions(n_classes):
    """Of columns that are mostly 0, or mostly 1, too: coefficients are no larger than others."""
    rng = np.random.default_rng(0)
    flags = rng.random((4000, 6)) < [0.0, 1e-3, 0.999, 1.0, 0.3, 0.7]
    X = np.column_stack([flags, rng.uniform(-1, 1, 4000)])
    y = np.digitize(X[:, 6] + rng.logistic(size=4000), np.linspace(-1, 1, n_classes + 1)[1:-1])
    kind = PrivateLogisticRegression if n_classes == 2 else PrivateSoftmaxRegression
    model = kind(epsilon=3.0, classes=range(n_classes)).fit(X, y)
    raw = model.decision_function(X)
    linear = np.squeeze(X @ model.coef_.T + model.intercept_)
    low, high = model.ranges_.T
    within = np.all((low <= X) & (high >= X), axis=1)
    assert within.mean() > 0.9
    apart = np.abs(linear - raw)[within].reshape(within.sum(), -1).max(axis=1)
    assert np.mean(apart < 1e-9) > 0.95 * (1 - model.conditioning_.shortened)  # others: long rows
    assert np.max(np.abs(model.coef_)) < 1e3
    if n_classes > 2:
        assert np.max(np.abs(model.coef_.sum(axis=0))) < 1e-9
        assert abs(model.intercept_.sum()) < 1e-9
