"""Full-batch noisy gradient descent: the loop over steps and its threads, for all kernels.

These loops sum rows in memory themselves, see `skdpdyn.kernels.passes`. Other sources of rows
return the sum at a point, and the same step follows from it.

Rows are summed in fixed chunks whose sums are added in order, so any number of threads
gives the same bits. Threads share all steps in compiled code: waking one through Python for every
step would cost more than many a step.

X may be float32. Sums over the chunks are double, and so is all other arithmetic wherever a
last-iterate bound may be claimed: parameters rounded to float32 are shared by all rows, so a step
is no longer the contraction that those bounds need (at a million rows it misses by a quarter of the
sensitivity). Composition needs the sensitivity alone: there the kernels of several outputs take
weights of the precision of X, and on dense rows sum blocks in it, for which `LocalRows.bounded`
leaves room, see `LocalRows.allows_single`.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import numpy as np
from numba import types

from skdpdyn.kernels.ball import project_in_place
from skdpdyn.kernels.jit import (
    aligned_empty,
    atomic_increment,
    atomic_load,
    component,
    entry,
    first_class,
    readonly,
    writable,
)
from skdpdyn.kernels.mapped import map_gradient, map_point
from skdpdyn.kernels.normals import check_noise, draw_normals
from skdpdyn.kernels.passes import (
    Gradients,
    affordable_threads,
    chunk_sums,
    compiled_chunk,
    pass_types,
    thread_shares,
)
from skdpdyn.kernels.release import release
from skdpdyn.kernels.sums import add, settle
from skdpdyn.progress import Progress

# looks whether the others are done, about 0.6 ms; seconds of rest after them
_SPINS, _PAUSE = 1_000_000, 5e-5
_HELD = 1_000_000  # normals at a time
_PATIENCE = 0.2  # seconds of compiled steps, during which no signal is answered


def _step(
    theta, gradient, slot, n_samples, alpha, step_size, noise_std, normals, radius, weights,
    intercept, shift, intercept_scaling, matrix, centre, scratch,
):  # fmt: skip
    """Make a step from the summed gradients: descent, noise, projection; then `set_point`."""
    if matrix.size:
        map_gradient(gradient, slot, intercept.size, matrix, centre, scratch)
    for j in range(theta.size):
        t = theta[j]
        t -= step_size * (gradient[slot[j]] / n_samples + alpha * t)
        t += noise_std * normals[j]
        theta[j] = t
    project_in_place(theta, radius)
    n_coefficients = slot.size - intercept.size
    for j in range(theta.size):
        t = theta[j]
        if j < n_coefficients:
            weights[slot[j]] = t
        else:
            intercept[j - n_coefficients] = t * intercept_scaling
    if matrix.size:
        map_point(theta, slot, matrix, centre, weights, shift, scratch)


def set_point(theta, slot, intercept_scaling, weights, intercept, shift, row_map=None):
    """Copy the parameters to their slots in the kernel's arrays."""
    n_coefficients = slot.size - intercept.size
    coefficients = theta[:n_coefficients]
    if row_map is not None:
        coefficients = row_map.coefficients(coefficients.reshape(intercept.size, -1))
        shift[:] = row_map.shift(coefficients)
    weights[slot[:n_coefficients]] = coefficients.ravel()
    intercept[: theta.size - n_coefficients] = theta[n_coefficients:] * intercept_scaling


def _run(
    chunk_gradients, step, residual, X, y, row_scale, row_limit, row_offset, row_weight, weights,
    intercept, shift, intercept_scaling, edges, total, chunk_sum, slot, matrix, centre, scratch,
    n_samples, alpha, step_size, noise_std, radius, theta, normals,
):  # fmt: skip
    """Run all steps on one thread; ``theta`` and the kernel's point become the last iterate."""
    for k in range(step_size.size):
        total[:] = 0
        for c in range(edges.size - 1):
            chunk_sum[0] = np.nan
            chunk_gradients(
                residual, X, y, row_scale, row_limit, row_offset, row_weight, weights, intercept,
                shift, intercept_scaling, edges[c], edges[c + 1], chunk_sum,
            )  # fmt: skip
            add(total, chunk_sum)
        settle(total)
        step(
            theta, total[0], slot, n_samples, alpha, step_size[k], noise_std[k], normals[k],
            radius, weights, intercept, shift, intercept_scaling, matrix, centre, scratch,
        )  # fmt: skip


def _run_shared(
    chunk_gradients, step, residual, X, y, row_scale, row_limit, row_offset, row_weight, weights,
    intercept, shift, intercept_scaling, edges, total, sums, slot, matrix, centre, scratch,
    n_samples, alpha, step_size, noise_std, radius, theta, normals, shares, thread, taken, finished,
    done,
):  # fmt: skip
    """Run one thread's part of the steps of `_run`, with chunks added in the same order.

    A thread sums its own share of a step's chunks, neighbours one after the other, then what is
    left of other threads' shares, and the one that finishes the last chunk makes the step:
    ``taken[k, t]`` counts chunks of step k from the share of thread t, ``finished[k]`` all chunks,
    ``done[0]`` steps. A thread waits only with no chunk in hand, so nobody waits for one that
    waits; and not long: it returns the number of steps that it has seen through, if fewer than all,
    for the caller to pause. All share ``total``, the point and ``theta``: only who finishes a
    step's last chunk touches them, and ``done`` lets the others go on.
    """
    n_chunks, n_threads = edges.size - 1, shares.size - 1
    k = atomic_load(done, 0)
    while k < step_size.size:
        for other in range(thread, thread + n_threads):
            share = other % n_threads
            chunk = shares[share] + atomic_increment(taken, k * n_threads + share)
            while chunk < shares[share + 1]:
                first, last = edges[chunk], edges[chunk + 1]
                sums[chunk, 0] = np.nan
                chunk_gradients(
                    residual, X, y, row_scale, row_limit, row_offset, row_weight, weights,
                    intercept, shift, intercept_scaling, first, last, sums[chunk],
                )  # fmt: skip
                if atomic_increment(finished, k) == n_chunks - 1:
                    total[:] = 0
                    for c in range(n_chunks):
                        add(total, sums[c, : total.shape[1]])
                    settle(total)
                    step(
                        theta, total[0], slot, n_samples, alpha, step_size[k], noise_std[k],
                        normals[k], radius, weights, intercept, shift, intercept_scaling, matrix,
                        centre, scratch,
                    )  # fmt: skip
                    atomic_increment(done, 0)
                chunk = shares[share] + atomic_increment(taken, k * n_threads + share)
        spins = 0
        while k + 1 < step_size.size and atomic_load(done, 0) == k:
            if spins == _SPINS:
                return k
            spins += 1
        k += 1
    return k


_f64, _i64, _order = types.float64, types.int64, readonly(np.uintp)
_vector, _output = readonly(np.float64), writable(np.float64)
map_types = readonly(np.float64, 2), _vector, _output
"""Types of the public map of rows, and of room for its sums."""


def _step_type(precision):
    """Return the type of a step, for weights of ``precision``."""
    point = writable(precision), _output, _output, _f64
    return types.void(_output, _output, _order, *(_f64,) * 4, _vector, _f64, *point, *map_types)


@cache
def _compiled_step(precision):
    """Compile a step: the same code for any number of threads, and so the same bits."""
    return component(_step_type(precision))(_step)


def _step_from(
    step, weights, intercept, shift, intercept_scaling, gradient, slot, matrix, centre, scratch,
    n_samples, alpha, step_size, noise_std, radius, theta, normals,
):  # fmt: skip
    """Run one step from gradients that others have summed."""
    step(
        theta, gradient, slot, n_samples, alpha, step_size[0], noise_std[0], normals[0], radius,
        weights, intercept, shift, intercept_scaling, matrix, centre, scratch,
    )  # fmt: skip


@cache
def compiled_step_from(precision):
    """Compile `_step_from` for weights of ``precision``."""
    point = writable(precision), _output, _output, _f64
    schedule = *map_types, _f64, _f64, _vector, _vector, _f64, _output, readonly(np.float64, 2)
    step = types.FunctionType(_step_type(precision))
    compiled = entry(types.void(step, *point, _output, _order, *schedule))(_step_from)
    return partial(compiled, _compiled_step(precision))


def _compiled(run, result, family, dtype, precision, sums, *work):
    """Compile ``run`` for rows of ``dtype`` and weights of ``precision``, with what it calls."""
    chunk, problem, _ = pass_types(family, dtype, precision)
    functions = types.FunctionType(chunk), types.FunctionType(_step_type(precision))
    point = writable(precision), _output, _output, _f64
    schedule = *map_types, _f64, _f64, _vector, _vector, _f64, _output, readonly(np.float64, 2)
    compiled = entry(
        result(
            *functions,
            *problem,
            *point,
            readonly(np.int64),
            writable(np.float64, 2),
            sums,
            _order,
            *schedule,
            *work,
        )
    )(run)
    return partial(compiled, compiled_chunk(family, dtype, precision), _compiled_step(precision))


@cache
def compiled_run(family, dtype, precision):
    """Compile `_run`: all steps on one thread."""
    return _compiled(_run, types.void, family, dtype, precision, _output)


@cache
def compiled_run_shared(family, dtype, precision):
    """Compile a thread's part of all steps."""
    work = readonly(np.int64), _i64, *(writable(np.int64),) * 3
    return _compiled(
        _run_shared, types.int64, family, dtype, precision, writable(np.float64, 2), *work
    )


def map_arguments(row_map):
    """Return the public row map for the loop over steps, with room for its sums; empty for none."""
    if row_map is None:
        return np.empty((0, 0)), np.empty(0), np.empty(0)
    n_features = row_map.n_features
    centre = np.zeros(n_features) if row_map.centre is None else row_map.centre
    return row_map.matrix, centre, np.empty(n_features)


def descend(
    theta,
    objective,
    rows,
    step_size,
    noise_std,
    radius,
    generator,
    n_threads=1,
    exact=None,
    momentum=0.0,
    verbose=0,
):
    """Run noisy gradient descent from ``theta``, in place, to its last iterate, which is released.

    The last noise is exact, see `skdpdyn.noise.release`. So is that of every step where no step is
    known to contract and each is paid for by itself. The noise of other steps is within a known
    distance of an exact one, for which the record's ``rounding`` pays.

    Parameters
    ----------
    theta : ndarray of shape (n_parameters,)
        The start, chosen without the data. Receives the last iterate.
    objective : Objective
        The problem.
    rows : Rows
        The rows and targets, with the public map that rows go through.
    step_size, noise_std : ndarray of shape (n_steps,)
        The schedule: each step adds N(0, noise_std^2 I). All 0: nothing is released.
    radius : float
        Radius of the ball to project onto; ``inf`` for none.
    generator : numpy.random.Generator
        The source of the noise.
    n_threads : int, default=1
        Number of threads; the bits of the result do not depend on it.
    exact : bool or None, default=None
        Whether the noise of every step is exact, and rows leave room for the rounding of its sum.
        None: where no step is known to contract.
    momentum : float, default=0.0
        Part of the last move that a step repeats (Polyak's heavy ball); only where noise is exact.
    verbose : int, default=0
        Whether to tell how many steps are done.
    """
    rows.check(objective)
    check_noise(noise_std)
    exact = not objective.contracts if exact is None else exact
    if momentum and not exact:
        raise ValueError(f"momentum={momentum} needs exact noise in every step")
    step_size, noise_std = np.ascontiguousarray(step_size), np.ascontiguousarray(noise_std)
    what = Gradients.of(objective, rows, with_room=exact, single=exact)
    steps_on = _Descent if rows.in_memory else _DescentFromSums
    n_steps = step_size.size
    with (
        steps_on(theta, what, rows, n_threads) as run,
        Progress(n_steps, verbose=verbose) as told,
    ):
        released = range(0 if exact else n_steps - 1, n_steps) if noise_std[-1] > 0 else range(0)
        quiet = released.start if released else n_steps
        held = max(1, _HELD // theta.size)
        normals = np.zeros((max(1, min(held, quiet)), theta.size))
        for block in range(0, quiet, held):
            of_block = normals[: min(held, quiet - block)]
            if noise_std[-1] > 0:
                draw_normals(generator, of_block)
            first = 0
            while first < len(of_block):
                most = min(run.steps_at_a_time(), told.steps_until_news(block + first))
                steps = slice(first, min(first + most, len(of_block)))
                now = slice(block + steps.start, block + steps.stop)
                run(step_size[now], noise_std[now], radius, of_block[steps])
                told(now.stop)
                first = steps.stop
        normals[0], move = 0, np.zeros(theta.size)
        for k in released:
            start = theta.copy()
            if exact:
                # Release the move by the gradient. All else follows from earlier releases, so no
                # rounding of theta counts. The kernel has the iterate already.
                theta[:] = 0
                run(step_size[k : k + 1], np.zeros(1), math.inf, normals[:1])
                moved = release(theta, noise_std[k], generator)
                point = start + momentum * move
                theta[:] = point - step_size[k] * objective.alpha * point + moved
            else:
                run(step_size[k : k + 1], np.zeros(1), math.inf, normals[:1])
                theta[:] = release(theta, noise_std[k], generator)
            theta[:] = project(theta, radius)
            move = theta - start
            run.set_point()
            told(k + 1)


def project(theta, radius):
    """Return the closest point in the ball of this radius around 0."""
    norm = np.linalg.norm(theta)
    return theta if norm <= radius else theta * (radius / norm)


class _Point:
    """Parameters as kernels read them."""

    def __init__(self, theta, what, rows):
        self._theta, self._map, self._scaling = theta, rows.map, what.objective.intercept_scaling
        self._order, n_weights = what.layout()
        self._weights = aligned_empty(n_weights, what.precision)
        self._weights[:] = 0
        self._intercept, self._shift = np.zeros((2, what.objective.n_outputs))
        self.set_point()

    @property
    def _point(self):
        return self._weights, self._intercept, self._shift

    def _totals(self, what):
        """Return the arguments of a step other than the sums of gradients."""
        divisor = float(what.objective.n_samples)
        return self._order, *map_arguments(self._map), divisor, what.objective.alpha

    def set_point(self):
        """Copy the parameters to their slots in the kernel's arrays."""
        set_point(self._theta, self._order, self._scaling, *self._point, self._map)


class _DescentFromSums(_Point):
    """Steps on rows that return the sum of gradients at a point, some steps at a time."""

    def __init__(self, theta, what, rows, n_threads):
        super().__init__(theta, what, rows)
        self._sums = rows.gradient_sums(what, n_threads)
        self._step = partial(compiled_step_from(what.precision), *self._point, self._scaling)
        self._after_sums = self._totals(what)

    def __enter__(self):
        self._sums.__enter__()
        return self

    def __exit__(self, *error):
        self._sums.__exit__(*error)

    def steps_at_a_time(self):
        """Return how many steps to make at a time."""
        return 1

    def __call__(self, step_size, noise_std, radius, normals):
        """Make a step."""
        gradient = self._sums(*self._point)
        schedule = step_size, noise_std, radius, self._theta, normals
        self._step(gradient, *self._after_sums, *schedule)


class _Descent(_Point):
    """Run some steps at a time: a signal can only interrupt compiled code between them."""

    def __init__(self, theta, what, rows, n_threads):
        super().__init__(theta, what, rows)
        self._pool = ThreadPoolExecutor(max(1, n_threads - 1))  # no thread before it has a task
        edges = rows.chunk_edges(what.n_chunks)
        self._n_chunks = edges.size - 1
        self._n_threads = affordable_threads(rows, n_threads, self._n_chunks, what.n_sums)
        if self._n_threads > 1:
            compiled, sums = compiled_run_shared, chunk_sums(self._n_chunks, what.n_sums)
        else:
            compiled, sums = compiled_run, aligned_empty(what.n_sums)
        run = compiled(what.family, rows.dtype.name, what.precision)
        residual = first_class(what.objective.loss.residual)
        problem = residual, what.family.rows(rows.X), rows.y, *rows.bounded_for(what)
        to = edges, np.empty((2, what.n_sums)), sums
        self._run = partial(run, *problem, *self._point, self._scaling, *to, *self._totals(what))
        self._seconds = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._pool.shutdown()

    def steps_at_a_time(self):
        """Return how many steps take about a fifth of a second: one, before one has been timed."""
        return 1 if self._seconds is None else int(max(1, _PATIENCE // self._seconds))

    def __call__(self, step_size, noise_std, radius, normals):
        """Make some steps."""
        start = time.perf_counter()
        schedule = step_size, noise_std, radius, self._theta, normals
        if self._n_threads > 1:
            _share(
                self._pool,
                self._n_threads,
                self._n_chunks,
                len(normals),
                partial(self._run, *schedule),
            )
        else:
            self._run(*schedule)
        self._seconds = max((time.perf_counter() - start) / len(normals), 1e-9)


def _share(pool, n_threads, n_chunks, n_steps, run):
    """Have the calling thread and those of the pool run steps together."""
    shares = thread_shares(n_chunks, n_threads)
    counts = (
        np.zeros(n_steps * n_threads, np.int64),
        np.zeros(n_steps, np.int64),
        np.zeros(1, np.int64),
    )
    over = False

    def part(thread):
        nonlocal over
        try:
            while run(shares, thread, *counts) < n_steps and not over:
                time.sleep(_PAUSE)
        finally:
            # no chunk is left, or a thread has failed; one that pauses has no chunk in hand
            over = True

    tasks = [pool.submit(part, thread) for thread in range(1, n_threads)]
    part(0)
    for task in tasks:
        task.result()
