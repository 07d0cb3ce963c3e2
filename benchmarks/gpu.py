"""Fits of rows on a GPU: passes beside copies, whole fits, memory, and fits on the host.

Run ``python -m benchmarks gpu`` where torch has a GPU: rows are float32, uniform within the unit
ball, with labels of a logistic model, made on the device.

- copy, pass: seconds of a copy of X on the device, and of a sum of clipped gradients under a map,
  the best of five.
- fit: seconds of a whole default fit of `PrivateLogisticRegression`, the best of three, and whether
  all three have the same bits.
- memory: peak bytes beside X and y on the device, over those of X.
- host, sklearn: seconds of the same fit of numpy's arrays on all cores, and of scikit-learn's
  ``LogisticRegression`` on the device; left out of sizes above ``--most`` numbers.

``--sizes 1e6x50 1e7x50`` gives sizes; ``--device cpu`` runs it all on the host, where copies and
passes share its memory.
"""

import argparse
import os
import time
import warnings

os.environ["SCIPY_ARRAY_API"] = "1"  # before scipy is imported

import numpy as np
from sklearn import config_context

from skdpdyn import PrivateLogisticRegression
from skdpdyn.data.gpu import DeviceRows
from skdpdyn.data.row_map import RowMap
from skdpdyn.losses import logistic
from skdpdyn.objective import Objective

SIZES = "1e6x50", "1e7x50", "1e8x50", "1e7x500"
BLOCK = 1 << 20


def made(torch, n_rows, n_columns, device):
    """Return rows and labels on a device."""
    torch.manual_seed(0)
    X = torch.empty((n_rows, n_columns), device=device)
    weights = torch.randn(n_columns, device=device) * 8
    y = torch.empty(n_rows, device=device)
    for first in range(0, n_rows, BLOCK):
        part = X[first : first + BLOCK].uniform_(-1, 1).div_(n_columns**0.5)
        noise = torch.rand(len(part), device=device).logit()
        y[first : first + BLOCK] = part @ weights + noise > 0
    return X, y


def best(run, repeats, wait):
    """Return the least seconds of some runs, and what they returned."""
    seconds, found = [], []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        found.append(run())
        wait()
        seconds.append(time.perf_counter() - begin)
    return min(seconds), found


def of_pass(X, y):
    """Return what sums gradients under a map with a centre and a full matrix."""
    n_rows, n_columns = X.shape
    rows = DeviceRows(X, y).with_targets(lambda y: y.double())
    row_map = RowMap(np.full(n_columns, 0.01), np.eye(n_columns) + 0.01, norm=1.0, radius=1.0)
    objective = Objective(
        logistic, n_rows, n_columns, 1.0, clip=1.0, intercept_scaling=1.0, spread=4.0
    )
    rows, point = rows.with_map(row_map), np.full(n_columns + 1, 0.1)
    return lambda: rows.gradient(objective, point)


def fitted(X, y):
    """Return the coefficients of a default fit."""
    model = PrivateLogisticRegression(classes=[0, 1], random_state=0).fit(X, y)
    return np.append(model.coef_, model.intercept_)


def sklearns(X, y):
    """Return scikit-learn's fit of the same rows."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(X, y.long())


def main(arguments):
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--most", type=float, default=5e8)
    options = parser.parse_args(arguments)
    try:
        import torch
    except ImportError:
        return 'torch is not installed: pip install "skdpdyn[gpu-test]"'
    on_gpu = options.device.startswith("cuda")
    if on_gpu and not torch.cuda.is_available():
        return "torch has no GPU here: --device cpu runs on the host"
    warnings.simplefilter("ignore")
    name = torch.cuda.get_device_name() if on_gpu else "the host"
    print(f"torch {torch.__version__} on {name}; seconds\n")
    print("size         copy    pass     fit  same bits  memory    host  sklearn")
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for size in options.sizes:
        n_rows, n_columns = (int(float(number)) for number in size.split("x"))
        X, y = made(torch, n_rows, n_columns, options.device)
        with config_context(array_api_dispatch=True):
            copy, _ = best(X.clone, 5, wait)
            run = of_pass(X, y)
            run()
            of_one, _ = best(run, 5, wait)
            del run
            fitted(X[:5000], y[:5000])
            beside = 0.0
            if on_gpu:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                beside = -torch.cuda.memory_allocated()
            of_fit, thetas = best(lambda X=X, y=y: fitted(X, y), 3, wait)
            if on_gpu:
                beside += torch.cuda.max_memory_allocated()
            same = all(np.array_equal(theta, thetas[0]) for theta in thetas)
            others = ["", ""]
            if n_rows * n_columns <= options.most:
                others[1] = f"{best(lambda X=X, y=y: sklearns(X, y), 1, wait)[0]:.2f}"
        if others[1]:
            here = X.cpu().numpy(), y.cpu().numpy()
            model = PrivateLogisticRegression(classes=[0, 1], random_state=0, n_jobs=-1)
            model.fit(here[0][:5000], here[1][:5000])  # compiles
            others[0] = f"{best(lambda here=here, model=model: model.fit(*here), 1, wait)[0]:.2f}"
        part = f"{beside / (X.numel() * 4):.1%}" if on_gpu else ""
        print(
            f"{size:10}{copy:7.4f}{of_one:8.4f}{of_fit:8.3f}{same!s:>11}{part:>8}"
            f"{others[0]:>8}{others[1]:>9}",
            flush=True,
        )
        del X, y
    return 0
