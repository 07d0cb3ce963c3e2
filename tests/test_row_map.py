"""Rows that go through a public map, and rows with weights."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from problems import descend, descend_on_batches, generator, threaded
from reference import gradients
from scipy import sparse

from skdpdyn.core.losses import logistic, softmax, squared
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import opened
from skdpdyn.data import local
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.kernels.draws import FixedBatches
from skdpdyn.solvers import minimise as minimise_module
from skdpdyn.solvers.minimise import largest_rounding

D = 7
RADIUS = 3.0
LAYOUTS = {"dense": np.ascontiguousarray, "csr": sparse.csr_array}
CENTRE = np.linspace(-0.5, 1.0, D)
DIAGONAL = np.geomspace(0.2, 2.0, D)
FULL = np.random.default_rng(5).standard_normal((D, D)) / 3
MAPS = {
    "none": None,
    "diagonal": RowMap(None, DIAGONAL, 1.5, RADIUS),
    "full": RowMap(None, FULL, 1.5, RADIUS),
    "unit": RowMap(None, DIAGONAL, 1.5, RADIUS, unit=True),
    "centred": RowMap(CENTRE, DIAGONAL, 1.5, RADIUS),
    "centred full": RowMap(CENTRE, FULL, 1.5, RADIUS),
}
CASES = [
    (layout, name, loss, dtype)
    for layout, name in product(LAYOUTS, MAPS)
    for loss, dtype in product((logistic, squared, softmax(3)), ("float64", "float32"))
    if not (layout == "csr" and "centred" in name)
    and not (dtype == "float32" and name in ("unit", "full"))
]
each_case = pytest.mark.parametrize(("layout", "name", "loss", "dtype"), CASES)


def data(n_samples=620, dtype="float64", n_classes=2, n_features=D):
    """Rows with zeros, some of them empty, shorter and longer than the radius."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features)) * (rng.random((n_samples, n_features)) < 0.7)
    X[::50] = 0
    y = rng.integers(0, n_classes, n_samples).astype(float)
    return X.astype(dtype), y, rng.random(n_samples)


def mapped(X, row_map, data_norm=1.0):
    """What training sees, by the definition of the map."""
    X = X.astype(np.float64)
    radius = data_norm if row_map is None else row_map.radius
    X = X * (radius / np.maximum(np.linalg.norm(X, axis=1), radius))[:, None]
    if row_map is None:
        return X
    Z = X if row_map.centre is None else X - row_map.centre
    Z = Z * row_map.weights if row_map.is_diagonal else Z @ row_map.weights.T
    norms = np.linalg.norm(Z, axis=1)
    divisor = np.where(norms > 0, norms, 1.0) if row_map.unit else np.maximum(norms, row_map.norm)
    return Z / divisor[:, None]


def problem(loss, n_samples, **changes):
    defaults = {"data_norm": 1.0, "alpha": 0.1, "clip": 0.3, "intercept_scaling": 0.5}
    return Objective(loss, n_samples, D, **{**defaults, **changes})


def by_numpy(objective, Z, y, weight, steps=(0.3, 0.6, 0.2), chosen=None, divisor=None):
    theta = np.zeros(objective.n_parameters)
    for k, step in enumerate(steps):
        batch = slice(None) if chosen is None else chosen[k]
        each = gradients(objective, Z[batch], y[batch], theta) * weight[batch][:, None]
        theta = theta - step * (each.sum(axis=0) / (divisor or len(Z)) + objective.alpha * theta)
    return theta


def run(objective, rows, n_threads=1, steps=(0.3, 0.6, 0.2)):
    theta = np.zeros(objective.n_parameters)
    steps = np.array(steps)
    descend(theta, objective, rows, steps, np.zeros(steps.size), math.inf, generator(), n_threads)
    return theta


def tolerances(dtype):
    return {"rtol": 1e-8, "atol": 1e-10} if dtype == "float64" else {"rtol": 2e-3, "atol": 3e-6}


# --- training -------------------------------------------------------------------------------------


@each_case
def test_descent_on_mapped_and_weighted_rows(layout, name, loss, dtype):
    """Against numpy on copies of the mapped rows, and to the same bits on two threads."""
    X, y, weight = data(dtype=dtype, n_classes=loss.n_outputs)
    objective = problem(loss, len(X))
    rows = LocalRows(LAYOUTS[layout](X), y, weight, MAPS[name])
    ours = run(objective, rows)
    expected = by_numpy(objective, mapped(X, MAPS[name]), y, weight)
    np.testing.assert_allclose(ours, expected, **tolerances(dtype))
    np.testing.assert_array_equal(run(objective, rows, n_threads=2), ours)


@each_case
def test_batches_of_mapped_and_weighted_rows(layout, name, loss, dtype):
    X, y, weight = data(150, dtype, loss.n_outputs)
    objective = problem(loss, len(X))
    theta = np.zeros(objective.n_parameters)
    order = np.random.default_rng(1).permutation(len(X))
    schedule = {"step_size": np.array([0.3, 0.6, 0.2]), "noise_std": np.zeros(3), "divisor": 50.0}
    schedule |= {"radius": math.inf, "generator": generator(), "batches": FixedBatches(50, order)}
    rows = LocalRows(LAYOUTS[layout](X), y, weight, MAPS[name])
    descend_on_batches(theta, objective, rows, **schedule)
    chosen = [order[first : first + 50] for first in (0, 50, 100)]
    expected = by_numpy(objective, mapped(X, MAPS[name]), y, weight, chosen=chosen, divisor=50.0)
    rtol = 1e-6 if dtype == "float32" else 1e-8
    np.testing.assert_allclose(theta, expected, rtol=rtol, atol=1e-9)


# --- what the map and the weights bound -----------------------------------------------------------


def extended(X, row_map, rows):
    """Return mapped rows in extended precision, with the factors as they are."""
    scale, offset, _ = rows.factors()
    Z = X.astype(np.longdouble) * scale[:, None]
    if row_map is None:
        return Z
    if row_map.centre is not None:
        Z -= row_map.centre * offset.astype(np.longdouble)[:, None]
    W = np.diag(row_map.weights) if row_map.is_diagonal else row_map.weights
    return np.array([(W * row).sum(axis=1) for row in Z])


@pytest.mark.parametrize("row_map", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_mapped_row_or_gradient_exceeds_its_bound(row_map, dtype):
    """In extended precision, with the factors as they are; norms that are told are no smaller."""
    X, y, weight = data(300, dtype)
    X[::3] *= 1e5
    X[1::50] = (CENTRE * (1 + 1e-14)).astype(dtype)  # hardly anything is left of it
    objective = problem(logistic, len(X), clip=math.inf)
    rows = LocalRows(X, y, weight, row_map)
    norms = rows.factors()[2]
    exact = np.sqrt((extended(X, row_map, rows) ** 2).sum(axis=1))
    assert np.all(exact <= 1)
    assert np.max(exact) > 0.999
    assert np.all(exact <= norms * (1 + 1e-15 * (row_map is None)))
    bounded = rows.bounded(objective)
    assert np.all(bounded.limit * np.hypot(exact, 0.5) <= objective.lipschitz)


def test_room_for_rounding_grows_with_the_parts_of_rows():
    """Of a mapped row: their difference is small, they are not."""
    X, y, _ = data(100)
    objective = problem(logistic, 100)
    spread = [1e3, 1.0]
    rows = [LocalRows(X, y, map=RowMap(CENTRE, np.ones(D), RADIUS / s, RADIUS)) for s in spread]
    growth = [given.growth(objective) for given in rows]
    room = [local.allowance(objective, np.float64, 1, True, of) for of in growth]
    assert room[0] / room[1] == pytest.approx(1e3, rel=1e-6)
    assert LocalRows(X, y, map=MAPS["diagonal"]).growth(objective) == 1
    with pytest.raises(ValueError, match="squared loss without a bound on its residuals"):
        rows[0].growth(problem(squared, 100, intercept_scaling=0.0))


def test_the_spread_of_a_map_bounds_the_parts_of_rows():
    """Products round by their sizes: whatever the signs of W, and where few of them mix."""
    rng = np.random.default_rng(0)
    signed = rng.choice([-1.0, 1.0], (D, D))
    one_row = 0.1 * np.eye(D)
    one_row[0] = 1.0
    two_blocks = signed * (np.arange(D)[:, None] // 4 == np.arange(D) // 4)
    two_blocks[4:] *= 2
    length = RADIUS + np.linalg.norm(CENTRE)
    for weights in (signed, one_row, one_row.T, two_blocks, np.eye(D)):
        row_map = RowMap(CENTRE, weights, 0.5, RADIUS)
        longest = np.linalg.norm(np.abs(weights), 2) * length / row_map.norm
        assert longest <= row_map.spread <= 1.1 * longest


def test_products_with_a_map_are_those_of_all_its_blocks():
    """Also where features of a block are not side by side."""
    rng = np.random.default_rng(0)
    side = np.array([0, 1, 0, 1, 1, 0, 2])
    row_map = RowMap(CENTRE, rng.normal(size=(D, D)) * (side[:, None] == side), 0.5, RADIUS)
    assert [block.tolist() for block in row_map.blocks] == [[0, 2, 5], [1, 3, 4], [6]]
    coef, sums = rng.normal(size=(2, 3, D))
    offsets = rng.normal(size=3)
    np.testing.assert_allclose(row_map.coefficients(coef), coef @ row_map.weights)
    expected = (sums - np.outer(offsets, CENTRE)) @ row_map.weights.T
    np.testing.assert_allclose(row_map.pull_back(sums, offsets), expected)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="needs extended precision")
@pytest.mark.parametrize("weights", [np.ones(D), FULL], ids=["diagonal", "full"])
def test_the_rounding_of_a_certified_gradient_grows_with_the_parts_of_rows(weights):
    """Long parts, a short difference: what would bound the rounding of plain rows is exceeded."""
    X, y, _ = data(100)
    X = CENTRE + 1e-6 * X
    objective = problem(logistic, 100, clip=1e9)
    row_map = RowMap(CENTRE, weights, 1e-6, RADIUS)
    rows = LocalRows(X, y, map=row_map)
    gradient = minimise_module._Gradient(objective, rows, None)
    theta = np.linspace(-1, 1, D + 1)
    Z = np.column_stack([extended(X, row_map, rows), np.full(100, 0.5)])
    exact = Z.T @ (1 / (1 + np.exp(-(Z @ theta))) - y) / 100 + objective.alpha * theta
    error = np.linalg.norm((gradient(theta) - exact).astype(float))
    norm = np.linalg.norm(theta)
    assert largest_rounding(objective, norm) < error <= gradient.rounding(theta)
    assert gradient.rounding(theta) <= 1.1 * largest_rounding(objective, norm, row_map)


def test_where_single_precision_would_not_do():
    objective = problem(softmax(3), 100)
    X = data(100, np.float32)[0]
    assert LocalRows(X, map=MAPS["centred"]).allows_single(objective)
    others = RowMap(CENTRE, DIAGONAL, 1e-2, RADIUS), RowMap(None, DIAGONAL, 1e40, 1e-5)
    for row_map in (MAPS["unit"], *others):
        assert not LocalRows(X, map=row_map).allows_single(objective)


def test_what_is_refused():
    X, y, weight = data(10)
    objective = problem(logistic, 10)
    with pytest.raises(ValueError, match="a centre would make it dense"):
        LocalRows(sparse.csr_array(X), y, map=MAPS["centred"])
    with pytest.raises(ValueError, match="the map is of 7"):
        LocalRows(X[:, :3], y, map=MAPS["diagonal"])
    for wrong in (weight[:3], weight - 1, 2 * weight + 1, np.full(10, np.nan)):
        with pytest.raises(ValueError, match="weight"):
            LocalRows(X, y, wrong)
    for rows in (LocalRows(X), LocalRows(X[:5], y[:5]), LocalRows(X[:, :3].copy(), y)):
        with pytest.raises(ValueError, match="the objective has n_samples=10"):
            run(objective, rows)
    with pytest.raises(ValueError, match=r"data_norm=2.0: mapped rows are in the unit ball"):
        run(replace(objective, data_norm=2.0), LocalRows(X, y, map=MAPS["diagonal"]))
    with pytest.raises(ValueError, match="these rows have no map"):
        LocalRows(X).column_squares()
    wrong = [("weights", FULL[:2]), ("weights", DIAGONAL * np.inf), ("centre", CENTRE[:2])]
    for name, value in (*wrong, ("norm", 0.0), ("norm", 1e-15), ("radius", np.nan), ("unit", True)):
        with pytest.raises(ValueError, match=r"weights|centre|norm|radius|unit"):
            replace(MAPS["centred"], **{name: value})


# --- sums for conditioning ------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in MAPS if name != "none"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_sums_of_mapped_rows(layout, name):
    if "centred" in name and layout is sparse.csr_array:
        return
    X, _, weight = data(n_samples=4300, dtype=np.float32)  # more than a block
    assert len(LocalRows(X).moment_edges()) > 2
    Z = mapped(X, MAPS[name])
    for given, weights in ((None, np.ones(len(X))), (weight, weight)):
        rows = LocalRows(layout(X), weight=given, map=MAPS[name])
        assert rows.sum_rounding() < 1e-7
        np.testing.assert_allclose(
            opened(rows.column_sums(math.inf)), weights @ X.astype(float), atol=1e-9
        )
        short = 0.5 / np.maximum(0.5, np.linalg.norm(X.astype(float), axis=1))
        within = opened(rows.column_sums(0.5))
        np.testing.assert_allclose(within, (short * weights) @ X.astype(float), atol=1e-9)
        np.testing.assert_allclose(opened(rows.column_squares()), weights @ Z**2, rtol=1e-10)
        np.testing.assert_allclose(
            opened(rows.second_moment()), (Z.T * weights) @ Z, rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(rows.factors()[2], np.linalg.norm(Z, axis=1), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [3, 25, 64])
@pytest.mark.parametrize("shape", ["diagonal", "triangular", "full"])
def test_a_row_is_mapped_by_itself_to_the_last_bit(n_features, dtype, shape):
    """Wherever it is: a record that moves others must move no count of theirs."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, n_features)).astype(dtype)
    weights = rng.standard_normal((n_features,) * 2) / 9
    weights = {"diagonal": weights[0], "triangular": np.triu(weights), "full": weights}[shape]
    row_map = RowMap(rng.standard_normal(n_features) / 9, weights, 0.5, 3.0)
    whole = row_map.factors(X)
    for by in (1, 2, 3, 5, 7, 64):
        moved = row_map.factors(np.roll(X, by, axis=0)[:233].copy())
        for ours, theirs in zip(whole, moved, strict=True):
            np.testing.assert_array_equal(theirs[by:], ours[: 233 - by])


def statistics_of(rows, row_map):
    """Everything that is added up over rows."""
    mapped = rows.with_map(row_map)
    grid = np.geomspace(1e-3, 2, 50)
    return [
        opened(rows.counts("norms", grid)),
        opened(rows.counts("distances", grid, 0.5)),
        opened(rows.target_sum(0.25)),
        opened(rows.column_sums(0.7)),
        opened(mapped.counts("lengths", grid, keep=True)),
        opened(mapped.column_squares()),
        opened(mapped.second_moment()),
        opened(mapped.second_moment(0.5)),
        opened(mapped.products_with_targets(0.5, 0.4)),
        *mapped.bounded(problem(logistic, rows.shape[0])),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_statistics_have_the_same_bits_on_any_number_of_threads(layout):
    X, y, weight = data(n_samples=8300, dtype=np.float32)
    for name in ("diagonal", "full") if layout is sparse.csr_array else ("centred", "full"):
        expected = None
        bare = replace(MAPS[name], centre=None)
        for n_threads in (1, 2, 3, 7):
            rows = threaded(LocalRows(layout(X), y, weight), n_threads)
            found = statistics_of(rows, bare if layout is sparse.csr_array else MAPS[name])
            expected = found if expected is None else expected
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["diagonal", "centred"])
def test_what_is_kept_of_rows_is_what_training_would_compute(name):
    X, y, _ = data(n_samples=300)
    objective = problem(logistic, len(X))
    rows = LocalRows(X, y, map=MAPS[name])
    fresh = rows.with_norm(0.8).bounded(objective)
    rows.counts("lengths", np.ones(1), keep=True)
    kept = rows.with_norm(0.8)
    for _ in range(2):  # what is kept serves once
        for ours, theirs in zip(kept.bounded(objective), fresh, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    rows.counts("lengths", np.ones(1), keep=True)
    other = replace(MAPS[name], weights=2 * MAPS[name].weights)
    fresh = LocalRows(X, y, map=other).bounded(objective)
    for ours, theirs in zip(rows.with_map(other).bounded(objective), fresh, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["diagonal", "full", "unit", "centred full"])
def test_sums_of_residuals_need_no_lengths_again(name, monkeypatch):
    """Their bits are those of rows never trained on, and no residual is beyond its bound."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (90, D))
    y = np.full(90, 1e3)
    public = {"n_samples": 90, "n_features": D, "spread": 99.0, "exact": True}
    objective = Objective(squared, data_norm=1.0, clip=0.5, intercept_scaling=0.2, **public)
    rows = LocalRows(X, y, map=MAPS[name])
    point = rng.uniform(-1, 1, D + 1)
    fresh = opened(LocalRows(X, y, map=MAPS[name]).residual_sum(objective, 0.3, point))
    rows.gradient(objective, point)
    monkeypatch.setattr(RowMap, "lengths", lambda *_: pytest.fail("rows are read once more"))
    np.testing.assert_array_equal(opened(rows.residual_sum(objective, 0.3, point)), fresh)
    monkeypatch.undo()
    assert 0.999 * 90 * 0.3 < abs(fresh.item()) <= 90 * 0.3
    alone = replace(objective, n_samples=1)
    for i in range(9):
        row = LocalRows(X[i : i + 1], y[:1], map=MAPS[name])
        assert 0.999 * 0.3 < abs(opened(row.residual_sum(alone, 0.3, point)).item()) <= 0.3


@pytest.mark.parametrize("bound", [0.1, 10.0])
@pytest.mark.parametrize("loss", [logistic, softmax(3)], ids=["one", "several"])
def test_a_sum_of_residuals_is_that_of_numpy(loss, bound):
    """That of gradients of the intercept column alone, if it is 1."""
    X, y, weight = data(300, n_classes=max(loss.n_outputs, 2))
    objective = problem(loss, 300, intercept_scaling=0.2)
    row_map = MAPS["centred full"]
    point = np.random.default_rng(1).uniform(-1, 1, objective.n_parameters)
    found = opened(LocalRows(X, y, weight, row_map).residual_sum(objective, bound, point))
    column = replace(objective, clip=bound, data_norm=1e-9, intercept_scaling=1.0)
    coef = point[: -loss.n_outputs].reshape(loss.n_outputs, D)
    intercept = point[-loss.n_outputs :]
    raw = mapped(X, row_map) @ coef.T + intercept
    for i, of_row in enumerate(raw):
        at = np.append(np.zeros(loss.n_outputs * D), of_row)
        own = gradients(column, np.zeros((1, D)), y[i : i + 1], at)[0, -of_row.size :]
        found -= weight[i] * own
    np.testing.assert_allclose(found, 0, atol=1e-9)


def test_sums_that_float64_cannot_tell_apart_are_refused():
    rows = LocalRows(np.zeros((1, 3)))
    rows.X = np.broadcast_to(np.zeros((1, 3)), (10**12, 3))
    with pytest.raises(ValueError, match="cannot tell one record"):
        rows.sum_rounding()
