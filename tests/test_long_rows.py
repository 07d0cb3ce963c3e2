"""Rows that are too long to square: no record decides whether a fit or a prediction answers."""

from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skdpdyn import PrivateLogisticRegression, PrivateRidge, PrivateSoftmaxRegression
from skdpdyn.core.losses import logistic
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import opened
from skdpdyn.data import ParquetRows
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.data.rows import in_reach, row_norms, shortened
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.evaluation import evaluate
from skdpdyn.preprocessing import RowMapper
from skdpdyn.solvers import NoisyGD

N = 600
LONG = 7, 333  # places of long rows
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)) / 2
Y = (X[:, 0] + RNG.normal(size=N) / 4 > 0).astype(int)
# codes for missing in use, and the largest numbers that there are
LARGEST = {"float32": (-3.4028235e38, 9.96921e36, 1e25), "float64": (-1.797e308, 1e200)}
CASES = [(dtype, value) for dtype, values in LARGEST.items() for value in values]
each_value = pytest.mark.parametrize(("dtype", "value"), CASES)
LAYOUTS = {"dense": np.ascontiguousarray, "sparse": sparse.csr_array}
NAMES = [*"abcd"]


def planted(dtype, value):
    """Return rows two of which are too long, and the same with these at a tamer length."""
    long = X.astype(dtype)
    long[LONG, 2] = value
    tame = X.copy()
    tame[LONG, :] = 0.0  # beside such an entry the others are nothing
    tame[LONG, 2] = np.sign(value) * 1e6
    return long, tame.astype(dtype)


def model(kind=PrivateLogisticRegression, **changes):
    if kind is PrivateRidge:
        facts = {"target_bounds": (0, 1)}
    else:
        facts = {"classes": [0, 1, 2] if kind is PrivateSoftmaxRegression else [0, 1]}
    budget = {"epsilon": 30.0, "delta": 1e-6, "bounds": None, "random_state": 0}
    return kind(**budget | facts | changes)


class InOrder(StreamedRows):
    """Rows in portions, as many times as they are asked for."""

    def __init__(self, rows):
        super().__init__(rows.shape, rows.dtype)
        self._rows = rows

    def read(self):
        for first in range(0, N, 250):
            yield self._rows[first : first + 250], Y[first : first + 250].astype(float)


def of_parquet(rows, folder):
    """Return the rows from a file with targets."""
    frame = pd.DataFrame(rows, columns=NAMES)
    frame["y"] = Y
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    frame.to_parquet(path)
    return ParquetRows(path, "y", columns=NAMES)


SOLVERS = {
    "steps": {},
    "no map": {"conditioning": None},
    "a given ball": {"data_norm": 1.0},
    "batches": {"solver": "dp_sgd", "conditioning": None},
    "one pass": {"solver": "noisy_sgd", "conditioning": None},
    "output": {"solver": "output_perturbation", "conditioning": None, "data_norm": 1.0},
    "objective": {"solver": "objective_perturbation", "conditioning": None, "data_norm": 1.0},
}
FEW_STEPS = NoisyGD(n_steps=20)
WAYS = [("dense", PrivateLogisticRegression, changes) for changes in SOLVERS.values()]
WAYS += [("dense", PrivateRidge, {}), ("dense", PrivateSoftmaxRegression, {})]
WAYS += [("dense", PrivateRidge, {"solver": "sufficient_statistics", "data_norm": 1.0})]
WAYS += [(way, PrivateLogisticRegression, {}) for way in ("sparse", "streamed", "parquet")]
WAYS += [
    ("sparse", PrivateRidge, {}),
    ("streamed", PrivateRidge, {"conditioning": None, "solver": FEW_STEPS}),
]
WAYS += [("persons", PrivateLogisticRegression, {}), ("persons", PrivateRidge, {})]


@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::skdpdyn.exceptions.PrivacyUtilityWarning")
@pytest.mark.every_case
@pytest.mark.parametrize(("way", "kind", "changes"), WAYS)
def test_long_rows_count_as_rows_beyond_the_ball(way, kind, changes, tmp_path):
    """A fit, predictions and an evaluation answer as for the same rows at any other length."""
    for dtype, value in (("float32", -3.4028235e38), ("float64", 1e200)):
        fits = []
        for rows in planted(dtype, value):
            options = {"groups": np.arange(N) // 2} if way == "persons" else {}
            given, y = rows, Y
            if way in LAYOUTS:
                given = LAYOUTS[way](rows)
            elif way in ("streamed", "parquet"):
                given = InOrder(rows) if way == "streamed" else of_parquet(rows, tmp_path)
                y = None
            fits.append(model(kind, **changes).fit(given, y, **options))
        long, tame = fits
        assert np.all(np.isfinite(long.coef_))
        rtol = 1e-4 if dtype == "float32" else 1e-9
        np.testing.assert_allclose(long.coef_, tame.coef_, rtol, atol=rtol)
        named = partial(pd.DataFrame, columns=NAMES)
        layout = named if way == "parquet" else LAYOUTS.get(way, np.asarray)
        of_long, of_tame = (long.predict(layout(rows)) for rows in planted(dtype, value))
        np.testing.assert_allclose(of_long, of_tame, rtol, atol=rtol)
        others = np.delete(np.arange(N), LONG)
        plain = long.predict(layout(X.astype(dtype)))
        np.testing.assert_array_equal(of_long[others], plain[others])
        scores = [
            evaluate(long, layout(rows), Y, epsilon=1.0, delta=1e-6, random_state=0)
            for rows in planted(dtype, value)
        ]
        assert str(scores[0]) == str(scores[1])


@each_value
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_shortened_row_keeps_its_direction_and_no_other_row_changes(dtype, value, layout):
    rows, _ = planted(dtype, value)
    rows[7, 2] = {"float32": 3e19, "float64": 3e155}[dtype] * np.sign(value)
    rows[LONG, 1] = rows[LONG, 2] / 3
    norms, reached = in_reach(row_norms, layout(rows))
    dense = reached if layout is np.ascontiguousarray else reached.toarray()
    others = np.delete(np.arange(N), LONG)
    np.testing.assert_array_equal(dense[others], rows[others])
    most = np.sqrt(float(np.finfo(dtype).max))
    assert np.all((norms[[*LONG]] > 0.99 * most) & (norms[[*LONG]] < most))
    expected = np.array([0.0, 1 / 3, 1.0, 0.0]) * np.sign(value) / np.hypot(1, 1 / 3)
    for row in dense[[*LONG]].astype(np.float64):
        np.testing.assert_allclose(row / np.linalg.norm(row), expected, atol=1e-6)
    for place in LONG:  # a function of the row alone
        alone = shortened(layout(rows[[place]]))
        alone = alone if layout is np.ascontiguousarray else alone.toarray()
        np.testing.assert_array_equal(alone[0], dense[place])
    assert in_reach(row_norms, layout(X.astype(dtype)))[1].dtype == dtype


@each_value
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_gradients_of_long_rows_keep_their_bound(layout, dtype, value):
    """The claim on rounding is of the shortened rows; kept numbers are of these or not at all."""
    rows, _ = planted(dtype, value)
    objective = Objective(logistic, n_samples=N, n_features=4, data_norm=1.0, clip=0.5)
    maps = (None, RowMap(None, np.array([1.0, 2.0, 0.5, 1.0]), norm=0.7, radius=3.0))
    for row_map, kept in product(maps, (False, True)):
        local = LocalRows(layout(rows), Y.astype(float), map=row_map)
        again = local.with_map(row_map)
        if row_map is not None:
            local.counts("lengths", np.array([1.0]), keep=kept)
        for user in (again, local):
            point = RNG.normal(size=4)
            total = opened(user.gradient(objective, point))
            user.close()
            one_less = opened(user.weighted_by(np.arange(N) != 7).gradient(objective, point))
            moved = np.linalg.norm(total - one_less)
            assert 0.1 * objective.lipschitz < moved <= objective.lipschitz * (1 + 1e-6)


@each_value
def test_maps_of_rows_before_a_model_shorten_them_too(dtype, value):
    for options in ({"norm": 0.5}, {"norm": None}, {"norm": 0.5, "centre": np.ones(4)}):
        long, tame = (
            RowMapper(2.0, **options).fit_transform(rows) for rows in planted(dtype, value)
        )
        np.testing.assert_allclose(long, tame, rtol=1e-4, atol=1e-5)
