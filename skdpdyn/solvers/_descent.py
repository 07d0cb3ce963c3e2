"""Full-batch noisy gradient descent: the loop over steps and its threads, for every family of kernels.

A family is a module that sums the gradients of a chunk of rows: dense or CSR rows, one output or several. It is compiled
when it is first used. It offers ``chunk_gradients``, ``residual_type``, ``rows_type(dtype)``, ``rows(X)``,
``precision(dtype)`` and ``layout(n_outputs, n_features)``. Rows are summed in fixed chunks whose partial sums are reduced in
order, so any number of threads gives the same bits.

X may be float32. Sums over the chunks are double, and so is all other arithmetic wherever a last-iterate bound may be claimed:
parameters rounded to float32 are shared by all rows, so a step is no longer the contraction that those bounds need (at a
million rows it misses by a quarter of the sensitivity). Composition needs the sensitivity alone, for which
`Objective.make_room` leaves room.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib import import_module
from itertools import pairwise

import numpy as np
from numba import types
from scipy import sparse

from skdpdyn._jit import aligned_empty, direct, entry, first_class, generator, readonly, writable
from skdpdyn.objective import canonical_rows

_MIN_CHUNK = 256
_MAX_CHUNKS = 64
_CHUNK_MULTIPLE = 16
_NORMALS = 1_000_000  # of a fit, up to which they are drawn before it: compiling numba's own sampler takes 0.4 s
_LARGEST_PART = 1 / 4  # of X, for the sums of all chunks


def _update(theta, gradient, order, n_samples, alpha, step_size, noise_std, normals, radius):
    """One step from the summed gradients: descent, noise, projection onto the ball of ``radius``."""
    square = 0.0
    for j in range(theta.size):
        theta[j] -= step_size * (gradient[order[j]] / n_samples + alpha * theta[j])
        theta[j] += noise_std * normals[j]
        square += theta[j] * theta[j]
    if not square <= radius * radius:
        shrink = radius / np.sqrt(square)
        for j in range(theta.size):
            theta[j] *= shrink


def _some_chunks(
    chunk_gradients, residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, edges, first, last, sums
):
    """One thread's share of a pass: the sums of chunks first..last, each in its own row of ``sums``."""
    for c in range(first, last):
        chunk_gradients(
            residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, edges[c], edges[c + 1], sums[c]
        )  # fmt: skip


def _run(
    chunk_gradients, update, residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, edges, chunk_sum, order,
    alpha, step_size, noise_std, radius, theta, normals,
):  # fmt: skip
    """All steps of a fit. ``theta`` holds the start and receives the last iterate."""
    gradient = np.empty(chunk_sum.size)
    n_coefficients = order.size - intercept.size
    for k in range(step_size.size):
        for j in range(n_coefficients):  # weights[order] = theta compiles error messages
            weights[order[j]] = theta[j]
        for j in range(n_coefficients, theta.size):
            intercept[j - n_coefficients] = theta[j] * intercept_scaling
        gradient[:] = 0
        for c in range(edges.size - 1):
            chunk_gradients(
                residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, edges[c], edges[c + 1], chunk_sum
            )
            for j in range(gradient.size):
                gradient[j] += chunk_sum[j]
        update(theta, gradient, order, np.float64(y.size), alpha, step_size[k], noise_std[k], normals[k], radius)


def _run_drawing(
    run, chunk_gradients, update, residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, edges, chunk_sum,
    order, alpha, step_size, noise_std, radius, theta, rng,
):  # fmt: skip
    """The same, for more normals than are worth holding at once: those of a step are drawn before it, from the same stream."""
    normals = np.empty((1, theta.size))
    for k in range(step_size.size):
        for j in range(theta.size):
            normals[0, j] = rng.standard_normal()
        run(
            chunk_gradients, update, residual, X, y, row_scale, bound, weights, intercept, intercept_scaling, edges, chunk_sum,
            order, alpha, step_size[k : k + 1], noise_std[k : k + 1], radius, theta, normals,
        )  # fmt: skip


_f64, _i64, _order = types.float64, types.int64, readonly(np.uintp)
_vector, _output = readonly(np.float64), writable(np.float64)
_update_type = types.void(_output, _vector, _order, _f64, _f64, _f64, _f64, _vector, _f64)


def pass_types(family, dtype):
    """Types of a pass over rows of ``dtype``: of the chunk kernel, of the problem, of the point."""
    problem = family.residual_type, family.rows_type(dtype), _vector, _vector, _vector
    point = readonly(family.precision(dtype)), _vector, _f64
    return types.void(*problem, *point, _i64, _i64, _output), problem, point


@cache
def compiled_chunk(family, dtype):
    """The gradients of a chunk of rows of ``dtype`` (a dtype name)."""
    return entry(pass_types(family, dtype)[0])(family.chunk_gradients)


def _run_types(family, dtype):
    """Types of what a run takes, but for where its normals come from."""
    chunk, problem, _ = pass_types(family, dtype)
    state = writable(family.precision(dtype)), _output, _f64, readonly(np.int64), _output, _order
    functions = types.FunctionType(chunk), types.FunctionType(_update_type)
    return *functions, *problem, *state, _f64, _vector, _vector, _f64, _output


@cache
def compiled_run(family, dtype):
    """The whole fit on one thread, compiled for rows of ``dtype``."""
    return partial(_compiled_run(family, dtype), compiled_chunk(family, dtype), compiled_update())


@cache
def _compiled_run(family, dtype):
    return entry(types.void(*_run_types(family, dtype), readonly(np.float64, 2)))(_run)


@cache
def compiled_run_drawing(family, dtype):
    """The same, with a generator in place of the normals; compiled only where a fit needs many."""
    arguments = _run_types(family, dtype)
    run = types.FunctionType(types.void(*arguments, readonly(np.float64, 2)))
    drawing = entry(types.void(run, *arguments, generator))(_run_drawing)
    return partial(drawing, _compiled_run(family, dtype), compiled_chunk(family, dtype), compiled_update())


@cache
def compiled_some_chunks(family, dtype):
    """One thread's share of a pass, compiled for rows of ``dtype``: the same chunk kernel, so the same bits."""
    chunk, problem, point = pass_types(family, dtype)
    signature = types.void(types.FunctionType(chunk), *problem, *point, readonly(np.int64), _i64, _i64, writable(np.float64, 2))
    return partial(entry(signature)(_some_chunks), first_class(compiled_chunk(family, dtype)))


@cache
def compiled_update():
    """One step from the summed gradients: the same code for any number of threads, so the same bits."""
    return entry(_update_type)(_update)


def kernel_family(X, n_outputs):
    """The module with the kernels of these rows and outputs."""
    name = f"_{'csr' if sparse.issparse(X) else 'dense'}{'_multi' if n_outputs > 1 else ''}"
    return import_module(f"skdpdyn.solvers.{name}")


def count_chunks(X, n_sums):
    """Largest number of chunks: at most 64, of at least 256 rows, and all their sums not larger than a quarter of X."""
    n_bytes = X.data.nbytes if sparse.issparse(X) else X.nbytes
    return int(max(1, min(_MAX_CHUNKS, X.shape[0] // _MIN_CHUNK, n_bytes * _LARGEST_PART // (8 * n_sums))))


def chunk_edges(n_samples, n_chunks):
    """Fixed chunks, whatever the number of threads, multiples of 16 rows each."""
    size = -(-n_samples // (n_chunks * _CHUNK_MULTIPLE)) * _CHUNK_MULTIPLE
    return np.append(np.arange(0, n_samples, size), n_samples)


def descend(theta, objective, X, y, step_size, noise_std, radius, rng, n_threads=1):
    """Run noisy gradient descent from ``theta``, in place, to its last iterate.

    Parameters
    ----------
    theta : ndarray of shape (n_parameters,)
        The start, chosen without the data. Receives the last iterate.
    objective : Objective
        The problem.
    X : ndarray or CSR array of shape (n_samples, n_features)
        C-ordered or CSR float64 or float32 rows.
    y : ndarray of shape (n_samples,)
        Targets, float64.
    step_size, noise_std : ndarray of shape (n_steps,)
        The schedule: each step adds N(0, noise_std^2 I).
    radius : float
        Radius of the ball to project onto; ``inf`` for none.
    rng : numpy.random.Generator
        The source of the noise.
    n_threads : int, default=1
        Number of threads; the bits of the result do not depend on it.
    """
    X = canonical_rows(X)
    family = kernel_family(X, objective.n_outputs)
    if objective.contracts and family.precision(X.dtype.name) != "float64":
        X = X.astype(np.float64)
    order, n_weights = family.layout(objective.n_outputs, objective.n_features)
    order = order.astype(np.uintp)  # unsigned, as all indices in kernels: the test for negative ones costs
    n_sums = n_weights + objective.n_outputs
    n_chunks = count_chunks(X, n_sums)
    edges = chunk_edges(objective.n_samples, n_chunks)
    bounded_rows, noise_std = objective.make_room(X, noise_std, n_chunks)
    problem = (objective.loss.residual, family.rows(X), y, *bounded_rows)
    weights, intercept = aligned_empty(n_weights, family.precision(X.dtype.name)), np.zeros(objective.n_outputs)
    weights[:] = 0
    fit = theta, objective, problem, weights, intercept, edges, order
    step_size, noise_std = np.ascontiguousarray(step_size), np.ascontiguousarray(noise_std)
    n_threads = min(n_threads, edges.size - 1)
    if n_threads > 1:
        _descend_on_threads(family, X.dtype.name, *fit, n_sums, step_size, noise_std, radius, rng, n_threads)
        return
    if step_size.size * theta.size <= _NORMALS:
        run, noise = compiled_run(family, X.dtype.name), rng.standard_normal((step_size.size, theta.size))
    else:
        run, noise = compiled_run_drawing(family, X.dtype.name), rng
    run(
        *problem, weights, intercept, objective.intercept_scaling, edges, aligned_empty(n_sums), order, objective.alpha,
        step_size, noise_std, radius, theta, noise,
    )  # fmt: skip


def _descend_on_threads(
    family,
    dtype,
    theta,
    objective,
    problem,
    weights,
    intercept,
    edges,
    order,
    n_sums,
    step_sizes,
    noise_stds,
    radius,
    rng,
    n_threads,
):  # fmt: skip
    """The same steps, each pass shared by a pool of threads: chunks, order of reduction and noise are those of ``_run``."""
    scaling = objective.intercept_scaling
    some_chunks, update = compiled_some_chunks(family, dtype), compiled_update()
    n_coefficients = order.size - intercept.size
    n_chunks, width = edges.size - 1, -(-n_sums // 8) * 8  # a cache line is never shared by two chunks
    sums = aligned_empty(n_chunks * width).reshape(n_chunks, width)
    sums[:] = 0
    own, *others = pairwise(np.linspace(0, n_chunks, n_threads + 1).round().astype(int).tolist())
    problem = (first_class(problem[0]), *problem[1:])
    some_chunks(*problem, weights, intercept, scaling, edges, 0, 0, sums)  # of no chunks: are these its types?
    some_chunks = partial(direct(some_chunks.func), *some_chunks.args)
    with ThreadPoolExecutor(n_threads - 1) as pool:
        for step_size, noise_std in zip(step_sizes, noise_stds, strict=True):
            weights[order[:n_coefficients]] = theta[:n_coefficients]
            intercept[: theta.size - n_coefficients] = theta[n_coefficients:] * scaling
            point = weights, intercept, scaling, edges
            tasks = [pool.submit(some_chunks, *problem, *point, *share, sums) for share in others]
            some_chunks(*problem, *point, *own, sums)
            for task in tasks:
                task.result()
            gradient = np.add.reduce(sums, axis=0)  # row after row
            normals = rng.standard_normal(theta.size)
            update(theta, gradient, order, objective.n_samples, objective.alpha, step_size, noise_std, normals, radius)
