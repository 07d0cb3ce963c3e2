"""Time against other libraries, each in a virtual environment of its own.

Run ``python -m benchmarks rivals --directory DIR``: makes the environments in DIR if they are not
there (diffprivlib cannot be imported with today's scikit-learn), then times, on unit rows of 45,000
x 104 in float64, one process after the other:

- 200 of our steps against a whole fit of diffprivlib's LogisticRegression: each with its defaults,
  which are one thread for ours and one on every core for its products; and each on one thread;
- our step against JAX's: closed-form clipped logistic gradient, jitted;
- our step of DP-SGD at an expected batch of 450 against Opacus' PrivacyEngine and against JAX,
  whose batches numpy draws and pads to 600 rows.
"""

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np

DATA = """
import time
import numpy as np
rng = np.random.default_rng(0)
X = rng.standard_normal((45_000, 104))
X /= np.linalg.norm(X, axis=1, keepdims=True)
y = (X[:, 0] + 0.3 * rng.standard_normal(45_000) > 0).astype(int)
"""

OURS = """
from skdpdyn import PrivateLogisticRegression
from skdpdyn.solvers import NoisyGD

def fit(n_steps):
    start = time.perf_counter()
    PrivateLogisticRegression(classes=[0, 1], solver=NoisyGD(n_steps=n_steps)).fit(X, y)
    return time.perf_counter() - start

fit(1)
whole, short = fit(200), fit(1)
print(whole, (whole - short) / 199)
"""

OUR_SGD = """
from skdpdyn import PrivateLogisticRegression
from skdpdyn.solvers import DPSGD

def fit(n_steps):
    start = time.perf_counter()
    solver = DPSGD(n_steps=n_steps, batch_size=450)
    PrivateLogisticRegression(classes=[0, 1], alpha=0.0, solver=solver).fit(X, y)
    return time.perf_counter() - start

fit(2_000), fit(22_000)
print((fit(22_000) - fit(2_000)) / 20_000)
"""

DIFFPRIVLIB = """
import warnings
warnings.simplefilter("ignore")
from diffprivlib.models import LogisticRegression
LogisticRegression(epsilon=1.0, data_norm=1.0).fit(X[:1000], y[:1000])
start = time.perf_counter()
LogisticRegression(epsilon=1.0, data_norm=1.0).fit(X, y)
print(time.perf_counter() - start)
"""

JAX = """
import jax
import jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
rows, target = jnp.asarray(X), jnp.asarray(y, dtype=float)

@jax.jit
def step(weights, key):
    residual = jnp.clip(jax.nn.sigmoid(rows @ weights) - target, -0.5, 0.5)
    noise = jax.random.normal(key, weights.shape)
    return weights - 4.0 * (residual @ rows / len(rows) + 1e-4 * weights) + 1e-3 * noise

keys = jax.random.split(jax.random.key(0), 101)
weights = step(jnp.zeros(104), keys[0]).block_until_ready()
start = time.perf_counter()
for key in keys[1:]:
    weights = step(weights, key)
weights.block_until_ready()
print((time.perf_counter() - start) / 100)
"""

OPACUS = """
import warnings
warnings.simplefilter("ignore")
import torch
from opacus import PrivacyEngine
torch.set_num_threads(1)
rows, target = (torch.tensor(values, dtype=torch.float32) for values in (X, y))
data = torch.utils.data.TensorDataset(rows, target)
loader = torch.utils.data.DataLoader(data, batch_size=450)
model = torch.nn.Linear(104, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=0.5
)
loss = torch.nn.BCEWithLogitsLoss()
for epoch in range(2):
    start = time.perf_counter()
    for rows, target in loader:
        optimizer.zero_grad()
        loss(model(rows).squeeze(1), target).backward()
        optimizer.step()
    duration = time.perf_counter() - start
print(duration / len(loader))
"""

JAX_SGD = """
import jax
import jax.numpy as jnp
rows, target = jnp.asarray(X, dtype=jnp.float32), jnp.asarray(y, dtype=jnp.float32)
loss = lambda weights, row, label: jnp.logaddexp(0.0, row @ weights) - label * (row @ weights)
gradients = jax.vmap(jax.grad(loss), (None, 0, 0))

@jax.jit
def step(weights, batch, taken, key):
    each = gradients(weights, rows[batch], target[batch])
    each *= (taken * jnp.minimum(1.0, 0.5 / (jnp.linalg.norm(each, axis=1) + 1e-12)))[:, None]
    return weights - (each.sum(axis=0) + 0.5 * jax.random.normal(key, weights.shape)) / 450

def sample():
    drawn = np.flatnonzero(rng.random(len(X)) < 0.01)[:600]
    return np.pad(drawn, (0, 600 - drawn.size)), np.arange(600) < drawn.size

keys = jax.random.split(jax.random.key(0), 501)
weights = step(jnp.zeros(104), *sample(), keys[0]).block_until_ready()
start = time.perf_counter()
for key in keys[1:]:
    weights = step(weights, *sample(), key)
weights.block_until_ready()
print((time.perf_counter() - start) / 500)
"""


def environment(directory, name, *packages):
    """Return the Python of a virtual environment with these packages."""
    root = directory / name
    python = root / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        print(f"making {root} with {' '.join(packages)}")
        venv.create(root, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def seconds(python, program, **variables):
    environ = {**os.environ, **variables}
    out = subprocess.run(
        [python, "-c", DATA + program], capture_output=True, text=True, check=True, env=environ
    ).stdout
    return [float(value) for value in out.split()]


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--directory", type=Path, required=True, help="where the environments are, or will be made"
    )
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args(argv)
    diffprivlib = environment(
        arguments.directory, "diffprivlib", "diffprivlib==0.6.6", "scikit-learn==1.5.2"
    )
    jax = environment(arguments.directory, "jax", "jax", "numpy")
    opacus = environment(arguments.directory, "opacus", "opacus")
    runs = {
        "ours": (sys.executable, OURS),
        "diffprivlib": (diffprivlib, DIFFPRIVLIB),
        "jax": (jax, JAX),
        "our_sgd": (sys.executable, OUR_SGD),
        "opacus": (opacus, OPACUS),
        "jax_sgd": (jax, JAX_SGD),
    }
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    rounds = []
    for _ in range(arguments.repeats):
        rounds.append({name: seconds(*run) for name, run in runs.items()})
        rounds[-1]["diffprivlib on one thread"] = seconds(*runs["diffprivlib"], **one_thread)
    median = {name: np.median([one[name] for one in rounds], axis=0) for name in rounds[0]}
    (ours, our_step), (theirs,), (jax_step,) = median["ours"], median["diffprivlib"], median["jax"]
    (theirs_alone,) = median["diffprivlib on one thread"]
    (our_sgd,), (opacus_sgd,), (jax_sgd,) = median["our_sgd"], median["opacus"], median["jax_sgd"]
    print(
        f"200 of our steps {ours:.3f} s, diffprivlib's fit {theirs:.3f} s: ratio "
        f"{ours / theirs:.2f}"
    )
    print(
        f"200 of our steps {ours:.3f} s, diffprivlib's fit on one thread {theirs_alone:.3f} s: "
        f"ratio {ours / theirs_alone:.2f}"
    )
    print(
        f"our step {our_step * 1e3:.2f} ms, JAX's in float64 {jax_step * 1e3:.2f} ms: ratio "
        f"{our_step / jax_step:.2f}"
    )
    print(
        f"our step of DP-SGD {our_sgd * 1e6:.0f} us, Opacus' {opacus_sgd * 1e6:.0f} us: "
        f"{opacus_sgd / our_sgd:.0f} times faster"
    )
    print(
        f"our step of DP-SGD {our_sgd * 1e6:.0f} us, JAX's {jax_sgd * 1e6:.0f} us: "
        f"{jax_sgd / our_sgd:.1f} times faster"
    )
