"""Room for rounding: coarse roundings stay within their guarantee, and not without room."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import add
from types import SimpleNamespace

import numpy as np
import pytest
from problems import threaded
from scipy import sparse, special, stats

from skdpdyn.core.losses import hinge, logistic, squared
from skdpdyn.core.objective import Objective
from skdpdyn.core.rounding import farthest_iterate, largest_batch, rounding_mu
from skdpdyn.core.sealed import Sealed, opened
from skdpdyn.data.local import LocalRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.data.tally import RowTally
from skdpdyn.evaluation.counts import counts_of_bins
from skdpdyn.kernels import sums
from skdpdyn.linear_model import PrivateLogisticRegression, PrivateRidge
from skdpdyn.privacy import GaussianDP, last_iterate_mu
from skdpdyn.solvers import (
    DPSGD,
    NoisyGD,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    steps,
)
from skdpdyn.solvers.steps import Steps, descend
from skdpdyn.support import chunks
from skdpdyn.support.chunks import in_order
from skdpdyn.training.conditioning import FittedConditioning


def hockey_stick(means, weights, other_means, other_weights, std, epsilon):
    """Return the hockey-stick divergence of two mixtures of normals, by quadrature."""
    both = np.append(means, other_means)
    x = np.linspace(both.min() - 9 * std, both.max() + 9 * std, 20_001)
    densities = [
        stats.norm.pdf(x[:, None], centres, std) @ parts
        for centres, parts in ((means, weights), (other_means, other_weights))
    ]
    gaps = (one - math.exp(epsilon) * other for one, other in (densities, densities[::-1]))
    return max(float(np.sum(np.maximum(gap, 0))) for gap in gaps) * (x[1] - x[0])


def last_point(steps, offset, grid, shift):
    """Return the law of the last point before its noise: earlier states are on a grid."""
    means = np.array([0.0])
    weights = np.array([1.0])
    *earlier, last = steps
    for contraction, sensitivity, std in earlier:
        moved = contraction * means + shift * sensitivity
        first = (moved.min() - 8 * std) / grid
        last_cell = (moved.max() + 8 * std) / grid
        centres = offset + grid * np.arange(math.floor(first), math.ceil(last_cell) + 1)
        edges = np.append(centres - grid / 2, centres[-1] + grid / 2)
        law = np.diff(special.ndtr((edges[:, None] - moved) / std), axis=0) @ weights
        means = centres[law > 1e-18]
        weights = law[law > 1e-18]
    contraction, sensitivity, _ = last
    return grid * np.round((contraction * means + shift * sensitivity) / grid) + offset, weights


@pytest.mark.parametrize("seed", range(6))
def test_coarse_roundings_stay_within_the_declared_loss(seed):
    """Grids differ between the data sets. The law is exact: no chance is in it."""
    rng = np.random.default_rng(seed)
    n_steps = 4
    grid = 0.6
    steps = [(rng.uniform(0.6, 1.0), 0.02, rng.uniform(0.5, 1.0)) for _ in range(n_steps)]
    std = steps[-1][2]
    ends = (0.0, 0.5), (grid / 2, -0.5)
    laws = [last_point(steps, offset, grid, shift) for offset, shift in ends]
    columns = [np.array(column) for column in zip(*steps, strict=True)]
    without = last_iterate_mu(*columns)
    room = math.sqrt(sum(((1 + c) * grid / s) ** 2 for c, _, s in steps))  # E = grid / 2
    true = hockey_stick(*laws[0], *laws[1], std, 0.1)
    assert true <= GaussianDP(without + room).delta(0.1)
    assert true > 2 * GaussianDP(without).delta(0.1)


# --- sums -----------------------------------------------------------------------------------------


def lost_half(n_terms, eps):
    """Terms each of which an ordinary sum loses: a little less than half of what 1 can tell."""
    return [1.0] + [0.49 * eps] * (n_terms - 1)


def cancelling(n_terms, eps, seed=0):
    """Large terms of either sign, what is left of which is small."""
    rng = np.random.default_rng(seed)
    large = rng.standard_normal(n_terms // 2) * 2.0 ** rng.integers(0, 8, n_terms // 2)
    turned = -large * (1 + eps * rng.normal(size=large.size))
    return rng.permutation(np.concatenate([large, turned]))


def distance(total, terms):
    """Distance of a sum from the exact one, over u times the sum of magnitudes."""
    exact = sum(map(Fraction, terms))
    return float(abs(Fraction(float(total)) - exact) / sum(abs(Fraction(one)) for one in terms))


@pytest.mark.parametrize("terms", [lost_half, cancelling])
def test_a_sum_keeps_what_additions_round_away(terms):
    """In exact fractions. An ordinary sum of the first kind loses nearly all but the first."""
    eps = np.finfo(np.float64).eps
    numbers = [float(one) for one in terms(2000, eps)]
    total = sums.Total(())
    for one in numbers:
        total.add_rows(np.array([[one]]))
    assert distance(total.value(), numbers) <= in_order(0, 2000) * eps / 2
    if terms is lost_half:
        plain = reduce(add, numbers)  # `sum` keeps what is rounded away, from Python 3.12 on
        assert distance(plain, numbers) > 100 * in_order(0, 2000) * eps / 2


@pytest.mark.parametrize("terms", [lost_half, cancelling])
@pytest.mark.parametrize("n_terms", [4, 30, 300, 1500])
def test_the_bound_holds_where_digits_are_few(terms, n_terms, monkeypatch):
    """In half precision, of eleven bits, what is kept rounds as well: the square of the number."""
    eps = float(np.finfo(np.float16).eps)
    monkeypatch.setattr(chunks, "_EPS", eps)
    add = getattr(sums.add, "py_func", sums.add)
    for seed in range(3):
        drawn = terms(n_terms, eps, seed) if terms is cancelling else terms(n_terms, eps)
        numbers = np.array(drawn).astype(np.float16)
        total = np.zeros((2, 1), np.float16)
        for one in numbers:
            add(total, np.array([one]))
        assert total.dtype == np.float16
        bound = in_order(0, n_terms) * eps / 2
        assert distance(total[0, 0] + total[1, 0], numbers.astype(float)) <= bound


N = 1024
D = 16


class OfArrays(StreamedRows):
    """Rows of arrays, a few at a time."""

    def __init__(self, X, y):
        super().__init__(X.shape)
        self._arrays = X, y

    def read(self):
        X, y = self._arrays
        for first in range(0, N, 100):
            yield X[first : first + 100], y[first : first + 100]


def of_sparse(X, y):
    return LocalRows(sparse.csr_array(X), y)


WHO = {
    "all": (LocalRows,),
    "two threads": (lambda X, y: threaded(LocalRows(X, y), 2),),
    "sparse": (of_sparse,),
    "batches": (LocalRows, np.arange(N)),
    "batches, sparse": (of_sparse, np.arange(N)),
    "streamed": (OfArrays,),
}


@pytest.mark.parametrize("who", WHO)
def test_whoever_adds_up_chunks_keeps_what_is_rounded_away(who, monkeypatch):
    """Each chunk adds what an ordinary sum would lose: 63 chunks, dozens of roundings."""
    monkeypatch.setattr(chunks, "_MIN_CHUNK", 16)
    monkeypatch.setattr("skdpdyn.kernels.gradients.MOST_GATHERED", 16)
    monkeypatch.setattr("skdpdyn.kernels.gradients._GATHERED_BYTES", 16 * D * 8)
    eps = np.finfo(np.float64).eps
    X = np.zeros((N, D))
    X[0] = 0.125
    X[16:] = 0.49 * 0.125 * eps / 16  # of 16 rows, the sum is exact
    terms = [0.125] + [X[-1, 0]] * (N - 16)
    # the gradient at 0 is the sum of the rows
    objective = Objective(squared, N, D, 1.0, clip=10.0)
    (source, *batch) = WHO[who]
    for total in opened(source(X, -np.ones(N)).gradient(objective, np.zeros(D), *batch)):
        assert distance(total, terms) <= in_order(0, 64) * eps / 2


def test_sums_for_conditioning_keep_what_is_rounded_away(monkeypatch):
    """As above, of 64 chunks."""
    monkeypatch.setattr("skdpdyn.data.base.moment_chunk", lambda *public: 16)
    eps = np.finfo(np.float64).eps
    X = np.zeros((N, 2))
    X[0] = 0.125
    X[16:] = 0.49 * 0.125 * eps / 16
    terms = [0.125] + [X[-1, 0]] * (N - 16)
    for total in opened(LocalRows(X).column_sums(math.inf)):
        assert distance(total, terms) <= 2 * in_order(0, 64) * eps / 2


@pytest.mark.parametrize("n_records", [10**6 + 1, 10**6 + 8])
def test_counts_of_other_labels_round_within_their_sensitivity(n_records):
    """A count is exact, but not the root that says how loud it is told."""
    places = np.full(n_records, 8)  # of no label, behind four bins of each of two
    of_one = places.copy()
    of_one[0] = 0
    parts = [
        counts_of_bins("counts", of, (2, 4), RowTally(n_records), others=True).sums
        for of in (places, of_one)
    ]
    moved = [map(Fraction, opened(part).tolist()) for part in parts]
    square = sum((one - other) ** 2 for one, other in zip(*moved, strict=True))
    assert square <= Fraction(parts[0].sensitivity("replace_one")) ** 2


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("seed", range(4))
def test_gradients_round_by_no_more_than_their_bound(layout, seed):
    """In exact fractions: of a squared loss at raw predictions whose large terms cancel."""
    rng = np.random.default_rng(seed)
    d = 8
    n = 64
    theta = rng.standard_normal(d) * 2.0 ** rng.integers(0, 12, d)
    row = rng.standard_normal(d)
    row -= (row @ theta) / (theta @ theta) * theta  # raw predictions cancel
    # all rows alike, so that no errors do
    X = np.tile(row / (1.5 * np.linalg.norm(row)), (n, 1))
    y = np.full(n, rng.uniform(-1, 1))
    objective = Objective(squared, n, d, 1.0, clip=2.0)
    rows = LocalRows(layout(X), y)
    computed = opened(rows.gradient(objective, theta))
    exact = [Fraction(0)] * d
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        residual = sum(Fraction(v) * Fraction(t) for v, t in zip(row, theta.tolist(), strict=True))
        residual -= Fraction(target)
        exact = [e + residual * Fraction(v) for e, v in zip(exact, row, strict=True)]
    lost = [float(Fraction(c) - e) for c, e in zip(computed.tolist(), exact, strict=True)]
    error = np.linalg.norm(lost) / n
    bound = objective.gradient_rounding(np.linalg.norm(theta), d, in_order(n, 1))
    assert 1e-4 * bound < error <= bound


@pytest.mark.parametrize("seed", range(4))
def test_a_step_rounds_by_no_more_than_its_bound(seed, monkeypatch):
    """The update and the projection, in exact fractions; most of what is lost is theta's."""
    rng = np.random.default_rng(seed)
    d = 6
    eps = np.finfo(np.float64).eps
    theta = rng.standard_normal(d) * 100
    radius = (2.0 if seed % 2 else 0.9) * float(np.linalg.norm(theta))
    gradient = rng.standard_normal(d) - theta / 10
    normals = rng.standard_normal(d)
    step_size = 0.37
    noise_std = 1e-3
    alpha = 1e-4
    n = 3.0
    objective = Objective(logistic, 10, d, 1.0, alpha=alpha)

    def descended(step_sizes, noises):
        """A first step of length 1 goes from 0 to about theta, without noise."""
        gradients = map(Sealed, (-n * theta, gradient))
        given = SimpleNamespace(check=lambda _: None, gradient=lambda *_: next(gradients))
        return descend(objective, given, Steps(step_sizes, noises, n, radius), None)

    before = [Fraction(t) for t in descended(np.array([1.0]), np.zeros(1)).tolist()]
    exact = [
        t
        - Fraction(step_size) * (Fraction(g) / Fraction(n) + Fraction(alpha) * t)
        + Fraction(noise_std) * Fraction(z)
        for t, g, z in zip(before, gradient.tolist(), normals.tolist(), strict=True)
    ]
    norm = math.sqrt(sum(e * e for e in exact))
    if norm > radius:
        exact = [e * Fraction(radius) / Fraction(norm) for e in exact]
    monkeypatch.setattr(steps, "draw_normals", lambda _, out: out.fill(0))
    monkeypatch.setattr(steps, "release", lambda point, std, *_, **__: point + std * normals)
    theta = descended(np.array([1.0, step_size]), np.full(2, noise_std))
    lost = [float(Fraction(t) - e) for t, e in zip(theta.tolist(), exact, strict=True)]
    error = np.linalg.norm(lost)
    # rounding_mu of two steps, the second without noise before it: the error is carried once
    moved = step_size * (np.linalg.norm(gradient) / n + alpha * radius) + 40 * math.sqrt(d) * 1e-3
    bound = eps * (radius + 4 * moved + 1.75 * radius)
    objective = Objective(logistic, 10, d, 1.0)
    mu = rounding_mu(objective, step_size, noise_std, 1, radius=radius, n_summed=1)
    assert error <= bound <= mu * noise_std / 2
    assert error > 0.01 * bound


@pytest.mark.parametrize("probability", [1e-6, 1e-3, 0.2, 1.0])
@pytest.mark.parametrize("n_samples", [10, 10**5, 10**9])
def test_no_poisson_batch_is_larger_than_its_bound(n_samples, probability):
    """But for an event of 1e-100 in a thousand batches; the bound is not far above that."""
    largest = largest_batch(n_samples, probability, 1000)
    assert probability * n_samples <= largest <= n_samples
    log_tail = stats.binom.logsf(math.floor(largest), n_samples, probability)
    assert log_tail <= math.log(1e-103)
    if largest < n_samples and probability * n_samples >= 100:
        # half the excess is likely enough to be charged
        half = (largest + probability * n_samples) / 2
        assert stats.binom.logsf(math.floor(half), n_samples, probability) > math.log(1e-103)


LEARNT = replace(squared, at_zero=math.inf)  # of targets in learnt units


@pytest.mark.parametrize(
    ("loss", "largest", "clip", "used"),
    [
        (logistic, 1, math.inf, 0.01),
        (hinge, 1, math.inf, 0.01),
        (squared, 1, 0.3, 0.1),
        (squared, 1, 100.0, 0.02),
        (LEARNT, 128, 0.3, 0.9),
    ],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("norm", [1.0, 1e-3])
@pytest.mark.parametrize(("alpha", "part"), [(0.0, 0.5), (0.0, 1.0), (1e-4, 1.0), (0.3, 1.0)])
def test_steps_without_noise_stay_within_reach(loss, largest, clip, used, norm, alpha, part):
    """Batches pull in turns, with the longest steps, of short rows; the bound is not idle."""
    rng = np.random.default_rng(0)
    d = 2
    objective = Objective(loss, 4, d, 1.0, alpha=alpha, clip=clip)
    step_size = part * 2 / (2 * alpha + objective.curvature)
    X = rng.standard_normal((4, d))
    X *= norm / np.linalg.norm(X, axis=1, keepdims=True)
    alike = np.tile([norm, 0.0], (4, 1))
    high = float(largest)
    best = 0.0
    low = -high if loss.quadratic else 0.0
    for rows, y in product((X, alike), (np.full(4, high), np.array([low, high, low, high]))):
        theta = np.zeros(d)
        for k in range(400):
            slope = np.empty(1)
            row = rows[k % 4]
            loss.residual(np.array([row @ theta]), y[k % 4 : k % 4 + 1], slope)
            gradient = slope[0] * row
            gradient *= min(1.0, clip / max(np.linalg.norm(gradient), 1e-300))
            theta -= step_size * (gradient + alpha * theta)
            bound = farthest_iterate(objective, step_size, 0.0, k + 1)
            assert np.linalg.norm(theta) <= bound * (1 + 1e-12)
            best = max(best, np.linalg.norm(theta) / bound)
    assert norm < 1 or best > used


@pytest.mark.parametrize(
    ("is_mapped", "bound"),
    # of mapped rows, subsampling searches its noise for 10 s
    [(False, "recursion"), (False, "subsampling"), (True, "recursion")],
)
def test_fresh_batches_never_meet_their_ball(is_mapped, bound, monkeypatch):
    """No bound on fresh batches knows a projection. Targets in learnt units may reach 128."""
    runs = []

    def descend(objective, rows, steps, *_, **run):
        runs.append((objective, rows, steps.radius, float(np.sum(steps.step_size))))
        return np.zeros(objective.n_parameters)

    monkeypatch.setattr("skdpdyn.solvers.runs.descend", descend)
    solver = NoisySGD("without_replacement", batch_size=10, n_epochs=200, step_size=1.8)
    options = {"alpha": 1e-6, "clip": 0.5, "target_bounds": (-1, 1), "solver": solver}
    row_map = RowMap(np.zeros(1), np.ones(1), norm=0.02, radius=1.0)
    conditioning = FittedConditioning(row_map) if is_mapped else None
    model = PrivateRidge(50.0, 1e-5, bound=bound, conditioning=conditioning, **options)
    X = np.full((200, 1), 0.02)
    y = np.full(200, 1e-3)
    y[0] = 1.0
    model.fit(X, y)
    ((objective, rows, radius, time),) = runs
    assert (np.max(np.abs(rows.y)) > 1) == is_mapped
    drift = math.sqrt(time)
    if is_mapped:  # steps all of one way, as long as the clip allows for
        drift = time * objective.lipschitz
        assert drift > 3000
    assert radius > drift


# --- refused by public numbers --------------------------------------------------------------------


SOLVERS = {
    "noisy_gd": lambda u, step: NoisyGD(int(1 + 30 * u) if u < 0.5 else "auto", **step),
    "noisy_sgd": lambda u, step: NoisySGD(**step),
    "dp_sgd": lambda u, step: DPSGD(n_steps=int(1 + 30 * u), **step),
    "objective": lambda u, step: ObjectivePerturbation(noise="gamma" if u < 0.5 else "gaussian"),
    "output": lambda u, step: OutputPerturbation(),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_cost_that_is_quoted_can_be_had(solver):
    """Whatever public numbers: what `fit` refuses, `privacy_cost` refuses with the same error."""
    rng = np.random.default_rng(0)
    quoted = 0
    for _ in range(20):
        n = int(rng.integers(2, 40))
        d = int(10 ** rng.uniform(0, 1.5))
        step = {"step_size": float(10 ** rng.uniform(-3, 2))} if rng.random() < 0.5 else {}
        public = {"epsilon": 10 ** rng.uniform(-4, 1.5), "data_norm": 10 ** rng.uniform(-4, 4)}
        public["alpha"] = 10 ** rng.uniform(-8, 4) if rng.random() < 0.8 else 0.0
        model = PrivateLogisticRegression(classes=[0, 1], conditioning=None, **public)
        model.set_params(solver=SOLVERS[solver](rng.random(), step))
        X = rng.standard_normal((n, d))
        y = rng.integers(0, 2, n)
        try:
            cost = model.privacy_cost(n, d)
        except (ValueError, RuntimeError) as error:
            with pytest.raises(type(error)):
                model.fit(X, y)
        else:
            assert model.fit(X, y).privacy_ == cost
            quoted += 1
    assert quoted > 5


@pytest.mark.parametrize(
    "solver",
    [NoisyGD(n_steps=40, step_size=1.0), NoisySGD(step_size=1.0), DPSGD(step_size=1.0)],
    ids=lambda solver: type(solver).__name__,
)
def test_steps_that_diverge_are_refused_before_the_fit(solver):
    """Once, coefficients of 7e36 were fitted, the last fifteen noises lost."""
    model = PrivateLogisticRegression(1.0, alpha=10, classes=[0, 1], solver=solver)
    with pytest.raises(ValueError, match="step_size=1, alpha=10: steps of more than 2 / alpha"):
        model.privacy_cost(1000, 5)
