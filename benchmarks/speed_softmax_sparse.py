"""Speed of a full-batch step of softmax regression and on CSR rows, as ratios inside one run.

Run ``python -m benchmarks speed_softmax_sparse``. Every figure is a median over interleaved rounds
in one process, one thread, BLAS included:

- one read: a jitted sum of X with reassociation, the physical limit of a pass over the data;
- peak: the operations a second of a product of two large square matrices, the physical limit of
  arithmetic;
- numpy: softmax of ``X @ W.T``, minus the labels, then ``residual.T @ X``, all in the precision of
  X, without any clipping;
- scipy: ``X @ weights`` and ``X.T @ residual`` on CSR rows, without any link.

A step of ours clips, links, updates and adds noise. It is the difference of a long and a short fit,
so that what a fit does once is left out.
"""

import argparse
from dataclasses import replace

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.speed import medians, one_read
from skdpdyn.core.losses import logistic, softmax
from skdpdyn.core.noise import generators
from skdpdyn.core.objective import Objective
from skdpdyn.data.local import LocalRows
from skdpdyn.kernels.jit import aligned_empty
from skdpdyn.solvers.steps import Steps, descend

DENSE = [
    (60_000, 784, 10),
    (60_000, 784, 20),
    (60_000, 784, 3),
    (45_000, 104, 10),
    (5_000, 4_000, 10),
]
# rows, columns, stored in a row
CSR = [(45_000, 104, 11), (20_000, 50_000, 97), (100_000, 10_000, 48), (50_000, 20_000, 40)]
SQUARE = 1_500
# 24 of 50,000 columns draw their noise in compiled code, as a whole fit does
N_STEPS = {"dense": 6, "csr": 24}


def step_and(others, objective, X, y, rounds, n_steps):
    """Return the seconds of a step of ours, and of the other variants."""
    (rng,) = generators(None)
    rows, objective = LocalRows(X, y), replace(objective, exact=not objective.contracts)

    def fit(n_steps):
        schedule = Steps(np.full(n_steps, 0.1), np.full(n_steps, 1e-3), len(y))
        return lambda: descend(objective, rows, schedule, rng)

    seconds = medians({"short": fit(1), "long": fit(1 + n_steps), **others}, rounds, quiet=False)
    return (seconds["long"] - seconds["short"]) / n_steps, seconds


def numpy_step(X, weights, labels):
    residual = X @ weights.T
    residual -= residual.max(axis=1, keepdims=True)
    np.exp(residual, out=residual)
    residual /= residual.sum(axis=1, keepdims=True)
    residual -= labels
    return residual.T @ X


def dense(n_samples, n_features, n_classes, dtype, rounds):
    """Return the time of a step in milliseconds, in reads of X, of the peak and of numpy's step."""
    rng = np.random.default_rng(0)
    X = aligned_empty(n_samples * n_features, dtype).reshape(n_samples, n_features)
    X[:] = rng.standard_normal(X.shape, dtype=np.float32)
    y = rng.integers(0, n_classes, n_samples)
    labels = np.eye(n_classes, dtype=dtype)[y]
    weights = rng.standard_normal((n_classes, n_features)).astype(dtype) / n_features
    flat = X.reshape(-1)
    objective = Objective(
        softmax(n_classes), *X.shape, data_norm=1.0, alpha=1e-4, clip=0.7, intercept_scaling=0.25
    )
    square = rng.standard_normal((SQUARE, SQUARE)).astype(dtype)
    others = {
        "read": lambda: one_read(flat),
        "numpy": lambda: numpy_step(X, weights, labels),
        "square": lambda: square @ square,
    }
    step, seconds = step_and(others, objective, X, y.astype(float), rounds, N_STEPS["dense"])
    at_peak = 2 * X.size * n_classes * seconds["square"] / SQUARE**3
    return step * 1e3, step / seconds["read"], at_peak / step, seconds["numpy"] / step


def csr(n_samples, n_features, row_length, n_outputs, dtype, rounds):
    """Return milliseconds of a step, and its ratio to scipy's two products."""
    rng = np.random.default_rng(0)
    size = n_samples * row_length
    columns, starts = rng.integers(0, n_features, size), np.arange(0, size + 1, row_length)
    X = sparse.csr_array(
        (rng.standard_normal(size).astype(dtype), columns, starts), shape=(n_samples, n_features)
    )
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    X.sum_duplicates()
    loss = logistic if n_outputs == 1 else softmax(n_outputs)
    objective = Objective(
        loss, *X.shape, data_norm=1.0, alpha=1e-4, clip=0.5, intercept_scaling=0.25
    )
    shape = () if n_outputs == 1 else (n_outputs,)
    weights, residual = (
        rng.standard_normal((size, *shape)).astype(dtype) for size in (n_features, n_samples)
    )
    transposed = X.T
    products = {"scipy": lambda: (X @ weights, transposed @ residual)}
    y = rng.integers(0, max(2, n_outputs), n_samples).astype(float)
    step, seconds = step_and(products, objective, X, y, rounds, N_STEPS["csr"])
    return step * 1e3, step / seconds["scipy"]


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args(argv).rounds
    with threadpool_limits(1):
        print(f"softmax on dense rows (medians of {rounds} rounds)")
        print(
            f"{'rows x columns x classes':>26} {'dtype':>8} {'ms':>7} {'reads of X':>11} "
            f"{'of peak':>8} {'numpy / ours':>13}"
        )
        steps = {}
        for shape in DENSE:
            for dtype in (np.float64, np.float32):
                steps[*shape, dtype], reads, of_peak, speed_up = dense(*shape, dtype, rounds)
                name = f"{' x '.join(f'{size:,}' for size in shape):>26} {np.dtype(dtype).name:>8}"
                print(
                    (
                        f"{name} {steps[*shape, dtype]:>7.1f} {reads:>11.2f} {of_peak:>8.2f} "
                        f"{speed_up:>13.2f}"
                    ),
                    flush=True,
                )
        for dtype in (np.float64, np.float32):
            ratio = steps[*DENSE[1], dtype] / steps[*DENSE[0], dtype]
            print(f"20 classes / 10 classes, {np.dtype(dtype).name}: {ratio:.2f}")
        print("\nCSR rows")
        print(
            f"{'rows x columns, in a row':>26} {'dtype':>8} {'outputs':>8} {'ms':>7} "
            f"{'ours / scipy':>13}"
        )
        for n_outputs in (1, 10):
            for *shape, row_length in CSR:
                for dtype in (np.float64, np.float32):
                    milliseconds, ratio = csr(*shape, row_length, n_outputs, dtype, rounds)
                    name = " x ".join(f"{size:,}" for size in shape) + f", {row_length}"
                    print(
                        (
                            f"{name:>26} {np.dtype(dtype).name:>8} {n_outputs:>8} "
                            f"{milliseconds:>7.2f} {ratio:>13.2f}"
                        ),
                        flush=True,
                    )
