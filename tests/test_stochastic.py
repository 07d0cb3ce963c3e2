"""Batches are drawn by the law that is accounted, and steps are those of the record."""

import math
from fractions import Fraction
from itertools import combinations, product

import numba
import numpy as np
import pytest
from problems import StepNoise, data, descend_on_batches, descended, generator, pairwise, problem
from scipy import sparse, stats

from skdpdyn.core.losses import LOSSES, squared
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.kernels import draws as kernel
from skdpdyn.kernels.draws import FixedBatches, FreshBatches, PoissonBatches, law_of_block
from skdpdyn.privacy import PoissonSubsampled, subsampling

LAYOUTS = {"dense": np.ascontiguousarray, "csr": sparse.csr_array}
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}{loss.n_outputs}")
each_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
SAMPLERS = [PoissonBatches(0.3), PoissonBatches(1.0), FreshBatches(5), FixedBatches(8)]
each_sampler = pytest.mark.parametrize("batches", SAMPLERS, ids=str)

# Statistics are z-scores of counts; seeds are fixed, and over seeds each test fails with a
# probability below 1e-6.


def draws(batches, n_samples, n_steps, rng=None):
    """The batch of each step, as arrays of rows."""
    rng = rng or generator()
    chosen = batches.drawn(n_samples, rng)
    for step in range(n_steps):
        yield chosen(step).copy()


def inclusions(batches, n_samples, n_steps):
    """Matrix (n_steps, n_samples) of who is in."""
    inside = np.zeros((n_steps, n_samples), dtype=bool)
    for row, batch in zip(inside, draws(batches, n_samples, n_steps), strict=True):
        row[batch] = True
    return inside


def check_counts(counts, n_trials, probability, n_tests):
    """Every count is binomial; n_tests together fail with a probability below 1e-6."""
    deviation = np.abs(np.asarray(counts) - n_trials * probability) / math.sqrt(
        n_trials * probability * (1 - probability)
    )
    assert deviation.max() < stats.norm.isf(0.25e-6 / n_tests)


class Scripted:
    """Uniform numbers of 53 bits that were chosen beforehand."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers) / 2.0**53


@pytest.fixture
def in_python(monkeypatch):
    """Have samplers take any generator."""
    for name in ("_number_in_block", "_number_by_all_digits"):
        compiled = getattr(kernel, name)
        monkeypatch.setattr(kernel, name, getattr(compiled, "py_func", compiled))


# --- samplers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.03, 0.3, 0.8])
def test_poisson_batches_are_independent_coins(q):
    n_samples = 25
    n_steps = 20_000
    inside = inclusions(PoissonBatches(q), n_samples, n_steps)
    check_counts(inside.sum(axis=0), n_steps, q, 25)
    both = [np.sum(inside[:, i] & inside[:, j]) for i, j in combinations(range(n_samples), 2)]
    check_counts(both, n_steps, q * q, 300)
    again = [np.sum(inside[:-1, i] & inside[1:, j]) for i, j in product(range(n_samples), repeat=2)]
    check_counts(again, n_steps - 1, q * q, 2 * 625)  # of steps that follow each other
    sizes = np.bincount(inside.sum(axis=1), minlength=n_samples + 1)
    expected = stats.binom.pmf(np.arange(n_samples + 1), n_samples, q) * n_steps
    rare = expected < 10
    chi2 = np.sum((sizes - expected)[~rare] ** 2 / expected[~rare])
    if expected[rare].sum() > 1:
        chi2 += (sizes[rare].sum() - expected[rare].sum()) ** 2 / expected[rare].sum()
    assert chi2 < stats.chi2.isf(1e-7, np.sum(~rare))


@pytest.mark.parametrize(("q", "sizes"), [(0.4, range(31)), (1.0, [30]), (1e-300, [0])])
def test_poisson_batches_hold_each_row_at_most_once_and_in_order(q, sizes):
    for batch in draws(PoissonBatches(q), 30, 200):
        assert batch.size in sizes
        assert np.all(np.diff(batch) > 0)
        assert np.all(batch < 30)


@pytest.mark.parametrize("k", range(5))
def test_numbers_of_candidates_have_their_exact_law(k):
    """The digits of the distribution function of Binomial(2^k, 2^-k), cut off."""
    n_digits = 20
    rest = 0
    values = law_of_block(k).reshape(-1, n_digits)
    assert len(values) == 2**k
    for number, digits in enumerate(values):
        p = Fraction(1, 2**k)
        rest += math.comb(2**k, number) * p**number * (1 - p) ** (2**k - number)
        value = sum(int(digit) << 53 * (n_digits - 1 - i) for i, digit in enumerate(digits))
        assert 0 <= rest * 2 ** (53 * n_digits) - value < 2


@pytest.mark.parametrize(("last", "size"), [(3, 1), (4, 0)])
def test_the_end_of_a_number_decides_whether_a_candidate_stays(in_python, last, size):
    """One candidate of a block of eight stays with the probability that its digits say."""
    numbers = PoissonBatches(0.75 / 8).numbers
    assert numbers[:2].tolist() == [8.0, 0.75]
    numbers[1] += 4 * 2.0**-53  # half of the last unit that its place leaves
    digits = [numbers[2 + 20] - 1, (5 << 50) + (3 << 48), last << 50]
    index = np.empty(8, np.uintp)
    batch = np.empty(2, np.int64)
    kernel.draw_poisson(Scripted(digits), 0, numbers, index, batch)
    assert batch[1] == size
    assert size == 0 or index[0] == 5


def test_a_block_of_any_size_has_a_law():
    """Poisson's in the end: means and the last value are those of one candidate in a block."""
    for k in (10, 30, 52):
        first = law_of_block(k)[::20] * 2.0**-53
        np.testing.assert_allclose(first, stats.binom.cdf(range(len(first)), 2**k, 2.0**-k), 1e-9)
        assert 150 < len(first) < 250


@pytest.mark.parametrize("q", [1e-300, 1e-18, 1e-9, 0.1, 0.3, 0.5, 0.7, 1 - 2**-53, 1.0])
def test_poisson_probabilities_are_exact(q):
    block, kept = PoissonBatches(q).numbers[:2]
    assert kept * 2**53 == math.floor(kept * 2**53)
    exact = Fraction(float(kept)) / int(block)
    assert exact <= Fraction(q)
    assert exact == Fraction(q) or (q < 2**-52 and Fraction(q) - exact < Fraction(1, 2**105))


def test_digits_decide_where_the_first_ones_are_equal(in_python):
    """Two candidates where the digits that follow are larger, one where they are smaller."""
    numbers = PoissonBatches(0.2).numbers  # of a block of four
    first, second = numbers[2 + 20 : 2 + 22]  # of the probability of at most one candidate
    for after, size in ((second - 1, 1), (second + 1, 2)):
        digits = [first, after, *[0] * 18, 0, 2**52]
        index = np.empty(4, np.uintp)
        batch = np.empty(2, np.int64)
        kept = numbers.copy()
        kept[1] = 1.0
        kernel.draw_poisson(Scripted(digits), 0, kept, index, batch)
        assert batch[1] == size


@pytest.mark.parametrize("size", [1, 3, 7, 10])
def test_fresh_batches_are_uniform_sets(size):
    n_samples = 10
    n_steps = 20_000
    inside = inclusions(FreshBatches(size), n_samples, n_steps)
    assert np.all(inside.sum(axis=1) == size)
    if size == n_samples:
        return
    check_counts(inside.sum(axis=0), n_steps, size / n_samples, 10)
    if size > 1:
        both = [np.sum(inside[:, i] & inside[:, j]) for i, j in combinations(range(n_samples), 2)]
        check_counts(both, n_steps, size * (size - 1) / (n_samples * (n_samples - 1)), 45)
    again = [np.sum(inside[:-1, i] & inside[1:, j]) for i, j in product(range(n_samples), repeat=2)]
    check_counts(again, n_steps - 1, (size / n_samples) ** 2, 2 * 100)


def test_fresh_batches_have_no_modulo_bias():
    """2^53 is 2 modulo 3: the two largest numbers are drawn again."""
    for rejected in (2**53 - 1, 2**53 - 2):
        index = np.arange(3, dtype=np.uintp)
        batch = np.empty(2, np.int64)
        kernel.draw_fresh(Scripted([rejected, 1]), 0, np.ones(1), index, batch)
        assert index[0] == 1
    index = np.arange(3, dtype=np.uintp)
    kernel.draw_fresh(Scripted([2**53 - 3]), 0, np.ones(1), index, batch)
    assert index[0] == (2**53 - 3) % 3


@pytest.mark.smoke
@pytest.mark.parametrize("size", [1, 4, 10, 7])
def test_fixed_batches_follow_the_order_epoch_after_epoch(size):
    order = generator(3).permutation(10)
    n_batches = -(-10 // size)
    batches = list(draws(FixedBatches(size, order), 10, 3 * n_batches))
    for epoch in range(3):
        visited = batches[epoch * n_batches : (epoch + 1) * n_batches]
        np.testing.assert_array_equal(np.concatenate(visited), order)
        assert [batch.size for batch in visited[:-1]] == [size] * (n_batches - 1)
    np.testing.assert_array_equal(
        np.concatenate(list(draws(FixedBatches(4), 10, 3))), np.arange(10)
    )


# --- a step is the algorithm ----------------------------------------------------------------------


N_STEPS = 23
N_REPLICATES = 5_000 if numba.config.DISABLE_JIT else 100_000
SIZES = np.linspace(0.5, 0.2, N_STEPS)
NOISE = np.linspace(0.01, 0.03, N_STEPS)
SCHEDULE = {"step_size": SIZES, "noise_std": NOISE}


def run(objective, X, y, batches, seed=0, **options):
    theta = np.zeros(objective.n_parameters)
    options = {**SCHEDULE, "divisor": 6.5, "radius": math.inf, **options}
    descend_on_batches(
        theta, objective, LocalRows(X, y), batches=batches, generator=generator(seed), **options
    )
    return theta


def by_numpy(objective, X, y, batches, *, stop=N_STEPS, divisor=6.5, **options):
    """The definition. Noise of some steps comes first, exact noise with each."""
    rng = generator()
    chosen = batches.drawn(len(X), rng)
    exact = bool({"momentum", "average"} & options.keys())
    added = StepNoise(rng, stop, objective.n_parameters, exact, piece=math.ceil(stop / 10))
    steps = [values[:stop] for values in SCHEDULE.values()]
    return descended(objective, X, y, steps, added, chosen, divisor=divisor, **options)


@each_loss
@each_layout
@each_sampler
def test_against_numpy_on_the_same_draws(loss, layout, batches):
    X, y = data(loss)
    for changes in ({}, {"intercept_scaling": 0.0, "clip": 1e3}):
        objective = problem(loss, X, **changes)
        expected = by_numpy(objective, X, y, batches)
        np.testing.assert_allclose(
            run(objective, layout(X), y, batches), expected, rtol=1e-8, atol=1e-9
        )


EXACT = [
    {"momentum": 0.7},
    {"average": np.arange(1.0, N_STEPS + 1) / 100, "momentum": 0.2},
    {"average": np.full(N_STEPS, 0.1), "stop": 7, "divisor": 2.5},
]
"""Options with exact noise, whose bits part with the last digits of what it hides."""
OPTIONS = [(np.float64, options) for options in EXACT]
OPTIONS += product((np.float64, np.float32), ({"radius": 0.05}, {"stop": 11}))


@pytest.mark.parametrize(("loss", "layout", "options"), pairwise(LOSSES, LAYOUTS, OPTIONS))
def test_options_against_numpy(loss, layout, options):
    dtype, options = options
    X, y = data(loss, dtype=dtype)
    objective = problem(loss, X)
    batches = PoissonBatches(0.3)
    rtol, atol = (1e-8, 1e-9) if dtype == np.float64 else (1e-3, 1e-5)
    expected = by_numpy(objective, X.astype(float), y, batches, **options)
    ours = run(objective, LAYOUTS[layout](X), y, batches, **options)
    np.testing.assert_allclose(ours, expected, rtol, atol)


# --- noise ----------------------------------------------------------------------------------------


def columns_of_replicates(records, n_replicates):
    """CSR rows in which every column is its own copy of a problem with one parameter."""
    records = np.tile(records, n_replicates)
    column = np.repeat(np.arange(n_replicates), len(records) // n_replicates)
    return sparse.csr_array(
        (records, (np.arange(len(records)), column)), shape=(len(records), n_replicates)
    )


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("others", [0, 2])
def test_measured_privacy_loss_is_what_is_accounted(others, adjacency):
    """One step, a record that pulls as hard as it can: the hockey-stick divergence of many runs is
    the guarantee's.

    Alone, exactly; among others, which blur it, at most. All measured probabilities are off by less
    than ``error`` with probability 1 - 1e-7 (Dvoretzky, Kiefer, Wolfowitz; Massart).
    """
    q = 0.5
    noise = 0.8
    clip = 0.25
    divisor = 1.5
    step = 0.7
    std = step * noise * clip / divisor
    error = math.sqrt(math.log(4 / 1e-7) / (2 * N_REPLICATES))

    def released(record, target, seed):
        X = columns_of_replicates(np.array([1.0] * others + [record]), N_REPLICATES)
        objective = Objective(squared, *X.shape, 1.0, clip=clip)
        y = np.tile([*[5.0, -5.0][:others], target], N_REPLICATES)
        options = {"divisor": divisor, "step_size": np.array([step]), "noise_std": np.array([std])}
        return np.sort(run(objective, X, y, PoissonBatches(q), seed, **options))

    one = released(1.0, 5.0, 1)
    two = released(1.0, -5.0, 2) if adjacency == "replace_one" else released(0.0, 0.0, 2)
    record = PoissonSubsampled(
        sampling_probability=q, noise_multiplier=noise, n_steps=1, adjacency=adjacency
    )
    guarantee = subsampling(record)
    tails = ((one, two), (-one[::-1], -two[::-1]))
    for epsilon in (0.0, 0.1, 0.3):
        measured = 0.0
        for first, second in (*tails, *(tail[::-1] for tail in tails)):
            points = np.concatenate([first, second])
            above_first, above_second = (
                1 - np.searchsorted(sample, points) / N_REPLICATES for sample in (first, second)
            )
            measured = max(measured, np.max(above_first - math.exp(epsilon) * above_second))
        tolerance = error * (1 + math.exp(epsilon))
        assert measured <= guarantee.delta(epsilon) + tolerance
        assert others or measured >= guarantee.delta(epsilon) - tolerance


def test_a_batch_that_is_cut_is_a_uniform_part():
    """A chi-square test of 30 rows, each equally often in; it fails with a probability of 1e-7."""
    sizes = []
    inside = np.zeros(30, int)
    for batch in draws(PoissonBatches(0.5, 12), 30, 3000):
        assert np.all(np.diff(batch) > 0)
        sizes.append(batch.size)
        inside[batch] += 1
    assert max(sizes) == 12
    assert stats.chisquare(inside).pvalue > 1e-7
