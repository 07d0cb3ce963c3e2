"""Noisy gradient descent on batches: the samplers, and the loop over steps for all kernels.

A step draws its batch, copies the batch's rows side by side, some at a time (for CSR rows, only
their places), and lets the family's kernel sum their clipped gradients, as in
`skdpdyn.kernels.descent`. Copying costs little compared with loading from scattered places, and the
kernel reads the copy from cache. Sums are in double precision, for float32 rows too: a record that
joins a batch moves the others to other blocks, and blocks of single precision would round anew.

The sum of a batch is divided by a public number, never by the actual number of rows. Batches are
drawn inside the loop, from the same generator as the noise.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import types

from skdpdyn.chunks import MOST_GATHERED
from skdpdyn.kernels.ball import compiled_projection, project_in_place
from skdpdyn.kernels.descent import map_arguments, map_types, project
from skdpdyn.kernels.jit import (
    aligned_empty,
    component,
    entry,
    first_class,
    generator_type,
    inner,
    readonly,
    writable,
)
from skdpdyn.kernels.mapped import map_gradient, map_point
from skdpdyn.kernels.normals import check_noise, draw_normals
from skdpdyn.kernels.passes import compiled_chunk, kernel_family, pass_types, types_of_rows
from skdpdyn.kernels.release import release
from skdpdyn.kernels.sums import add, settle
from skdpdyn.progress import Progress

_HELD = 131_072  # normals at a time
_PIECES = 10  # parts of a run, after each of which progress is shown
_MOST_COLUMNS = 1000  # assumed upper limit on the stored values of a row
_PATIENCE = 2e8  # products of compiled steps, during which no signal is answered
_UNIFORM = 2.0**53  # a generator's uniform numbers are the multiples of its inverse
_DIGITS = 20  # of 53 bits
_MOST_BITS = 52  # of the number of rows in a block


@inner
def _number_in_block(generator, law):
    """Draw the number of candidates in a block, from the digits of its distribution function.

    The first number that exceeds a uniform one is looked for.
    """
    digit, c = generator.random() * _UNIFORM, 0
    while c < law.size and digit > law[c]:
        c += _DIGITS
    if c < law.size and digit == law[c]:
        return _number_by_all_digits(generator, law, digit, c)
    return c // _DIGITS


@inner
def _number_by_all_digits(generator, law, first, c):
    """Go on where the first digit does not decide: nearly never."""
    digits = np.empty(_DIGITS)
    digits[0] = first
    for i in range(1, _DIGITS):
        digits[i] = generator.random() * _UNIFORM
    while c < law.size:
        i = 0
        while i + 1 < _DIGITS and digits[i] == law[c + i]:
            i += 1
        if digits[i] < law[c + i]:
            break
        c += _DIGITS
    return c // _DIGITS


def _draw_poisson(generator, step, numbers, index, batch):
    """Draw each row with exactly the same probability, independently; see `PoissonBatches`."""
    block, kept, law = np.int64(numbers[0]), numbers[1], numbers[2:]
    unit = block / _UNIFORM
    places, size = np.empty(law.size // _DIGITS + 1, np.int64), 0
    for start in range(0, index.size, block):
        before = size
        for c in range(_number_in_block(generator, law)):
            i, rest = -1, 0.0
            while i < c:  # another place than those before
                number = generator.random() * block
                places[c], i = np.int64(number), 0
                rest = number - places[c]
                while i < c and places[i] != places[c]:
                    i += 1
            # the rest is the beginning of another uniform number, whose end nearly never counts
            stays = rest + unit <= kept
            if not stays and rest < kept:
                stays = generator.random() * unit < kept - rest
            row = start + places[c]
            if stays and row < index.size:
                j = size  # rows of a block are put in order
                while j > before and index[j - 1] > np.uintp(row):
                    index[j] = index[j - 1]
                    j -= 1
                index[j] = np.uintp(row)
                size += 1
    batch[0], batch[1] = 0, size


def _draw_fresh(generator, step, numbers, index, batch):
    """Draw a uniform set of rows: the start of a shuffle of any permutation."""
    size = np.int64(numbers[0])
    for i in range(size):
        left = index.size - i
        number = np.int64(generator.random() * _UNIFORM)
        # reject, so that all remainders are equally likely
        while number >= np.int64(_UNIFORM) - np.int64(_UNIFORM) % left:
            number = np.int64(generator.random() * _UNIFORM)
        j = i + number % left
        index[i], index[j] = index[j], index[i]
    batch[0], batch[1] = 0, size


def _draw_fixed(generator, step, numbers, index, batch):
    """Take the next batch of a fixed order; the last one of an epoch may be short."""
    size = np.int64(numbers[0])
    first = step % ((index.size + size - 1) // size) * size
    batch[0], batch[1] = first, first + size if first + size < index.size else index.size


@cache
def _law_of_block(k):
    """Return the distribution function of the number of candidates among 2^k, in digits.

    Numbers are Binomial(2^k, 2^-k). Each value of the function has 20 digits of 53 bits, the most
    significant first. It is rounded down, by at most 2^-1060; a last value of 1 is left out.
    """
    bits = 53 * _DIGITS
    more = 128  # for what is rounded away on the way
    one, block = 1 << (bits + more), 1 << k
    part = one - (one >> k)  # (1 - 2^-k) ** (2^k), by squares
    for _ in range(k):
        part = part * part >> (bits + more)
    if k == 0:  # one candidate
        return np.zeros(_DIGITS)
    law, total = [], 0
    for number in range(block):
        total += part
        if total >> more >= (1 << bits) - 1:
            break
        law += [
            float((total >> (more + bits - 53 * (i + 1))) & ((1 << 53) - 1)) for i in range(_DIGITS)
        ]
        part = part * (block - number) // ((number + 1) * (block - 1))
    return np.array(law)


@dataclass(frozen=True)
class PoissonBatches:
    """Poisson batches: each row independently with probability ``sampling_probability``.

    The probability is exact. It is 2^-k times a number above 1/2 that a uniform number of 53 bits
    is below with exactly that probability. Candidates, each row with probability 2^-k, are drawn in
    blocks of 2^k rows: their number by its distribution function, whose digits are known up to
    2^-1060, and then as many different places. So a batch takes a few uniform
    numbers for each of its rows. (A probability below 2^-52 is rounded down to a multiple of
    2^-105.)
    """

    sampling_probability: float

    draw = staticmethod(_draw_poisson)

    @property
    def numbers(self):
        """Return what the sampler knows: block, probability of a candidate, and their law."""
        k = min(max(0, -math.frexp(self.sampling_probability)[1]), _MOST_BITS)
        kept = math.floor(math.ldexp(self.sampling_probability, k) * _UNIFORM) / _UNIFORM
        return np.concatenate([[2.0**k, kept], _law_of_block(k)])

    def expected(self, n_samples):
        """Return the mean number of rows of a batch."""
        return max(1.0, self.sampling_probability * n_samples)

    def index(self, n_samples):
        """Return the array in which the sampler keeps its rows."""
        return np.empty(n_samples, np.uintp)


@dataclass(frozen=True)
class FreshBatches:
    """Fresh batches: a uniform set of ``size`` rows in every step, independent of other steps."""

    size: int

    draw = staticmethod(_draw_fresh)

    @property
    def numbers(self):
        """Return what the sampler knows: the size."""
        return np.array([float(self.size)])

    def expected(self, n_samples):
        """Return the number of rows of a batch."""
        return self.size

    def index(self, n_samples):
        """Return the array in which the sampler keeps its rows."""
        return np.arange(n_samples, dtype=np.uintp)


@dataclass(frozen=True, eq=False)
class FixedBatches:
    """Take ``size`` rows at a time in the same order in every epoch; the last batch may be short.

    ``permutation`` is the order of the rows; None: as they are.
    """

    size: int
    permutation: np.ndarray | None = None

    draw = staticmethod(_draw_fixed)

    @property
    def numbers(self):
        """Return what the sampler knows: the size."""
        return np.array([float(self.size)])

    def expected(self, n_samples):
        """Return the number of rows of a batch."""
        return self.size

    def index(self, n_samples):
        """Return the array in which the sampler keeps its rows."""
        permutation = np.arange(n_samples) if self.permutation is None else self.permutation
        return np.array(permutation, dtype=np.uintp)


def _run(
    draw, gather, chunk_gradients, residual, generator, numbers, index, row_of, first_of, drawn,
    X, y, row_scale, row_limit, row_offset, row_weight, rows, target, scale, limit, offset,
    weight, weights, intercept, shift, intercept_scaling, chunk_sum, slot, matrix, centre,
    scratch, alpha, divisor, first_step, step_size, noise_std, noise, momentum, radius, theta,
    velocity,
):  # fmt: skip
    """Run some steps: ``theta`` holds the start, then the last iterate, ``velocity`` the direction.

    Where records have several rows, ``drawn`` receives those of a batch: of record i they are
    ``row_of[first_of[i]:first_of[i + 1]]``.
    """
    total, batch = np.empty((2, chunk_sum.size)), np.empty(2, np.int64)
    gradient = total[0]
    n_coefficients, n_rows = slot.size - intercept.size, target.size
    for k in range(step_size.size):
        for j in range(n_coefficients):  # weights[order] = theta compiles error messages
            weights[slot[j]] = theta[j]
        for j in range(n_coefficients, theta.size):
            intercept[j - n_coefficients] = theta[j] * intercept_scaling
        if matrix.size:
            map_point(theta, slot, matrix, centre, weights, shift, scratch)
        draw(generator, first_step + k, numbers, index, batch)
        chosen = index
        if first_of.size:
            chosen, last = drawn, 0
            for i in range(batch[0], batch[1]):
                for row in range(first_of[index[i]], first_of[index[i] + 1]):
                    drawn[last] = row_of[row]
                    last += 1
            batch[0], batch[1] = 0, last
        total[:] = 0
        for first in range(batch[0], batch[1], n_rows):
            last = first + n_rows if first + n_rows < batch[1] else batch[1]
            gather(
                X, y, row_scale, row_limit, row_offset, row_weight, chosen[: batch[1]], first, last,
                rows, target, scale, limit, offset, weight,
            )  # fmt: skip
            chunk_sum[0] = np.nan
            chunk_gradients(
                residual, rows, target, scale, limit, offset, weight, weights, intercept, shift,
                intercept_scaling, 0, last - first, chunk_sum,
            )  # fmt: skip
            add(total, chunk_sum)
        settle(total)
        if matrix.size:
            map_gradient(gradient, slot, intercept.size, matrix, centre, scratch)
        for j in range(theta.size):
            velocity[j] = momentum * velocity[j] + (gradient[slot[j]] / divisor + alpha * theta[j])
            velocity[j] -= noise_std[k] / step_size[k] * noise[k, j]
            theta[j] -= step_size[k] * velocity[j]
        project_in_place(theta, radius)


_f64, _i64 = types.float64, types.int64
_vector, _output, _index = readonly(np.float64), writable(np.float64), writable(np.uintp)
_draw_type = types.void(generator_type, _i64, _vector, _index, writable(np.int64))


@cache
def compiled_draw(draw):
    """Compile a sampler."""
    return entry(_draw_type)(draw)


def _gather_type(family, dtype):
    of_rows, gathered = types_of_rows(dtype), _gathered_types(family, dtype)
    return types.void(family.rows_type(dtype), *of_rows, _index, _i64, _i64, *gathered)


def _gathered_types(family, dtype):
    in_their_precision = writable(family.gathered_dtype(dtype))
    of_rows = in_their_precision, _output, in_their_precision, _output, _output
    return family.room_type(dtype), *of_rows


@cache
def compiled_gather(family, dtype):
    """Compile the copy of a batch's rows of ``dtype`` to where the kernel reads them."""
    return component(_gather_type(family, dtype))(family.gather)


@cache
def compiled_run(family, dtype):
    """Compile the loop over steps."""
    chunk_type = pass_types(family, family.gathered_dtype(dtype))[0]
    functions = _draw_type, _gather_type(family, dtype), chunk_type
    problem = family.rows_type(dtype), *types_of_rows(dtype), *_gathered_types(family, dtype)
    point = _output, _output, _output, _f64, _output, readonly(np.uintp), *map_types, _f64, _f64
    schedule = _i64, _vector, _vector, readonly(np.float64, 2), _f64, _f64
    of_records = readonly(np.uintp), readonly(np.int64), _index
    signature = types.void(
        *map(types.FunctionType, functions), family.residual_type, generator_type, _vector, _index,
        *of_records, *problem, *point, *schedule, _output, _output,
    )  # fmt: skip
    return entry(signature)(_run)


def descend_on_batches(
    theta,
    objective,
    rows,
    *,
    batches,
    divisor,
    step_size,
    noise_std,
    radius,
    generator,
    momentum=0.0,
    average_weights=None,
    distribution="gaussian",
    stop=None,
    exact=False,
    verbose=0,
):
    """Run noisy gradient descent on batches from ``theta``, in place, to an iterate or an average.

    A step is v <- momentum v + (sum of the batch's clipped gradients / divisor + alpha theta) -
    (noise_std / step_size) Z and theta <- Proj(theta - step_size v), Z standard Gaussian or
    Laplace, whatever the batch, empty or not.

    Parameters
    ----------
    theta : ndarray of shape (n_parameters,)
        The start, chosen without the data. Receives the result.
    objective : Objective
        The problem.
    rows : Rows
        The rows and targets, with the public map that rows go through. Rows that are read in order
        come in batches of that order; those on a cluster are told who is in a batch.
    batches : PoissonBatches, FreshBatches or FixedBatches
        The sampler.
    divisor : float
        Public number that the sum over a batch is divided by, whatever the batch.
    step_size, noise_std : ndarray of shape (n_steps,)
        The schedule: each step adds noise of this standard deviation (scale, of Laplace noise) per
        coordinate.
    radius : float
        Radius of the ball to project onto; ``inf`` for none.
    generator : numpy.random.Generator
        The source of the batches and of the noise.
    momentum : float, default=0.0
        Part of the last direction that is kept.
    average_weights : ndarray of shape (n_steps,) or None, default=None
        Weights of the iterates after each step in the average that is the result; None: the last
        iterate is.
    distribution : {"gaussian", "laplace"}, default="gaussian"
        The noise.
    stop : int or None, default=None
        Number of steps after which to stop; None: all.
    exact : bool, default=False
        Whether the noise of every step is exact, see `skdpdyn.noise.release`, not of the last
        alone. Momentum and averages need it, and Laplace noise.
    verbose : int, default=0
        Whether to tell how many steps are done.
    """
    rows.check(objective)
    exact = exact or momentum > 0 or average_weights is not None or distribution != "gaussian"
    check_noise(noise_std)
    step_size, noise_std = (
        np.ascontiguousarray(step_size[:stop]),
        np.ascontiguousarray(noise_std[:stop]),
    )
    n_steps = step_size.size
    average, velocity = np.zeros(theta.size), np.zeros(theta.size)
    work = (
        batches.expected(objective.n_samples)
        * (rows.shape[0] / objective.n_samples)
        * min(objective.n_features, _MOST_COLUMNS)
        * objective.n_outputs
    )
    # the bits depend on it
    piece = max(1, min(math.ceil(n_steps / _PIECES), _HELD // theta.size, int(_PATIENCE / work)))
    noise = np.empty((piece, theta.size))

    source = _InMemory
    if not rows.in_memory:
        source = _OnWorkers if rows.draws else _InOrder
    run = source(objective, rows, exact, batches, generator, n_steps)

    def steps(first, last, radius, alpha=objective.alpha):
        now = slice(first, last)
        schedule = step_size[now], noise_std[now], noise[: last - first]
        run(alpha, divisor, first, *schedule, momentum, radius, theta, velocity)

    released = (
        range(0 if exact else n_steps - 1, n_steps)
        if noise_std[-1] > 0
        else range(n_steps, n_steps)
    )
    with run, Progress(n_steps, verbose=verbose) as told:
        for first in range(0, released.start, piece):
            last = min(first + piece, released.start)
            if noise_std[-1] > 0:
                draw_normals(generator, noise[: last - first])
            else:
                noise[: last - first] = 0
            steps(first, last, radius)
            told(last)
        noise[0] = 0
        for k in released:
            before, direction = theta.copy(), velocity.copy()
            if exact:
                # Release the move by the gradient. All else follows from earlier releases, so no
                # rounding of theta counts.
                velocity[:] = 0
                steps(k, k + 1, math.inf, alpha=0.0)
                moved = -step_size[k] * velocity
                if distribution == "laplace":  # the gamma law of a single coordinate
                    one_by_one = [release([x], noise_std[k], generator, "gamma") for x in moved]
                    moved = np.concatenate(one_by_one)
                else:
                    moved = release(moved, noise_std[k], generator)
                velocity[:] = momentum * direction - moved / step_size[k] + objective.alpha * before
                theta[:] = before - step_size[k] * velocity
            else:
                steps(k, k + 1, math.inf)
                theta[:] = release(theta, noise_std[k], generator)
            theta[:] = project(theta, radius)
            if average_weights is not None:
                average += average_weights[k] * theta
            told(k + 1)
    if average_weights is not None:
        theta[:] = average


class _Steps:
    """Steps on batches of rows in memory, in compiled code."""

    def __init__(self, objective, rows, exact, batches, generator):
        dtype, self._objective, self._exact = rows.dtype.name, objective, exact
        self._family = family = kernel_family(rows.is_sparse, objective.n_outputs)
        slot, n_weights = family.layout(objective.n_outputs, objective.n_features)
        weights, (intercept, shift) = aligned_empty(n_weights), np.zeros((2, objective.n_outputs))
        weights[:] = 0
        chunk = compiled_chunk(family, family.gathered_dtype(dtype))
        draw = first_class(compiled_draw(batches.draw))
        residual = first_class(objective.loss.residual)
        self._functions = draw, compiled_gather(family, dtype), chunk, residual, generator
        self._point = (
            weights, intercept, shift, objective.intercept_scaling,
            aligned_empty(n_weights + 2 * objective.n_outputs), slot.astype(np.uintp),
            *map_arguments(rows.map),
        )  # fmt: skip
        self._run = compiled_run(family, dtype)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def problem_of(self, rows):
        """Return what the loop knows of some rows."""
        data = self._family.rows(rows.X)
        n_rows, gathered = self._family.room(data)
        if self._exact:
            n_chunks = max(1.0, self._objective.n_samples / MOST_GATHERED)
            bounded_rows = rows.bounded(self._objective, n_chunks, np.float64, aligned=False)
        else:
            bounded_rows = rows.bounded_without_room(self._objective)
        dtype = self._family.gathered_dtype(rows.dtype.name)
        of_gathered = (
            *(np.zeros(n_rows, kind) for kind in (dtype, np.float64, dtype)),
            *(np.zeros(n_rows if numbers.size else 0) for numbers in bounded_rows[2:]),
        )
        return *_rows_of_records(rows), data, rows.y, *bounded_rows, gathered, *of_gathered

    def take(self, numbers, index, problem, *schedule):
        """Make steps on batches of some rows: ``numbers`` and ``index`` are the sampler's."""
        self._run(*self._functions, numbers, index, *problem, *self._point, *schedule)


class _InMemory(_Steps):
    """Steps on batches that are drawn in compiled code."""

    def __init__(self, objective, rows, exact, batches, generator, n_steps):
        super().__init__(objective, rows, exact, batches, generator)
        self._of = batches.numbers, batches.index(objective.n_samples), self.problem_of(rows)

    def __call__(self, *schedule):
        """Make some steps."""
        self.take(*self._of, *schedule)


class _InOrder(_Steps):
    """Steps on batches in the order of the rows, which are read a batch at a time."""

    def __init__(self, objective, rows, exact, batches, generator, n_steps):
        super().__init__(objective, rows, exact, batches, generator)
        n_batches, self._numbers = -(-objective.n_samples // batches.size), batches.numbers
        self._parts = rows.batches(batches.size, n_steps // n_batches)

    def __exit__(self, kind, *error):
        if kind is None:
            next(self._parts, None)  # the end of the last epoch, which may refuse it

    def __call__(self, alpha, divisor, first, step_size, noise_std, noise, *rest):
        """Make some steps."""
        for k in range(step_size.size):
            part = next(self._parts)
            index, problem = np.arange(part.shape[0], dtype=np.uintp), self.problem_of(part)
            now = (numbers[k : k + 1] for numbers in (step_size, noise_std, noise))
            self.take(self._numbers, index, problem, alpha, divisor, first + k, *now, *rest)


class BatchSums:
    """Sums of gradients over chosen rows in memory, at one point after the other.

    Parameters
    ----------
    objective : Objective
        The problem of all rows.
    rows : LocalRows
        Some of the rows.
    exact : bool
        Whether rows leave room for the rounding of the sums.
    generator : numpy.random.Generator
        Any: nothing is drawn here.
    """

    def __init__(self, objective, rows, exact, generator):
        self._steps = _Steps(objective, rows, exact, FixedBatches(1), generator)
        self._problem = self._steps.problem_of(rows)
        self._none = np.zeros((1, objective.n_parameters))

    def __call__(self, theta, chosen):
        """Return the sum at ``theta`` over the rows at some places, in theta's own coordinates."""
        gradient = np.zeros(theta.size)
        if len(chosen):  # one long step from theta, whose direction is the sum
            index, one = np.ascontiguousarray(chosen, dtype=np.uintp), np.ones(1)
            schedule = 0.0, 1.0, 0, one, 0 * one, self._none, 0.0, math.inf
            size = FixedBatches(len(chosen)).numbers
            self._steps.take(size, index, self._problem, *schedule, theta.copy(), gradient)
        return gradient


class _OnWorkers:
    """Steps on batches of rows that say what the sum over chosen rows is."""

    def __init__(self, objective, rows, exact, batches, generator, n_steps):
        self._sums = rows.batch_sums(objective, exact)
        self._draw, self._generator = compiled_draw(batches.draw), generator
        self._numbers, self._index = batches.numbers, batches.index(objective.n_samples)

    def __enter__(self):
        self._sums.__enter__()
        return self

    def __exit__(self, *error):
        self._sums.__exit__(*error)

    def __call__(self, alpha, divisor, first, step_size, noise_std, noise, *rest):
        """Make some steps: of as much randomness, in the same order, as in memory."""
        (momentum, radius, theta, velocity), batch = rest, np.empty(2, np.int64)
        for k in range(step_size.size):
            self._draw(self._generator, first + k, self._numbers, self._index, batch)
            gradient = self._sums(theta, self._index[batch[0] : batch[1]])
            velocity *= momentum
            velocity += gradient / divisor + alpha * theta
            velocity -= noise_std[k] / step_size[k] * noise[k]
            theta -= step_size[k] * velocity
            compiled_projection()(theta, radius)


def _rows_of_records(rows):
    """Return the rows of each record, and room for a batch's; empty where every row is a record."""
    if rows.persons is None or rows.persons.largest == 1:
        return np.empty(0, np.uintp), np.empty(0, np.int64), np.empty(0, np.uintp)
    return rows.persons.rows, rows.persons.first, np.empty(rows.shape[0], np.uintp)
