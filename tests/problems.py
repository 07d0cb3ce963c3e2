"""Problems, generators and grids that several files of tests share."""

import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np
from reference import gradients

from skdpdyn.core.noise import release
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import Sealed
from skdpdyn.kernels.normals import draw_normals
from skdpdyn.solvers import steps


def generator(seed=0):
    """A numpy generator with a seed."""
    return np.random.Generator(np.random.PCG64(seed))


def problem(loss, X, **changes):
    """An objective of the shape of X: clipped, penalised, with an intercept."""
    defaults = {"data_norm": 1.0, "alpha": 0.1, "clip": 0.4, "intercept_scaling": 0.5}
    return Objective(loss, *X.shape, **{**defaults, **changes})


def data(loss, n_samples=37, n_features=5, dtype=np.float64, seed=0):
    """Rows with zeros, some of them empty, longer and shorter than 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)) * (rng.random((n_samples, n_features)) < 0.6)
    X[rng.random(n_samples) < 0.1] = 0
    return X.astype(dtype), rng.integers(0, max(2, loss.n_outputs), n_samples).astype(float)


def pairwise(*axes):
    """Return few cases of a grid that hold every two values of every two axes together.

    Most faults need two values at once, few need three (Kuhn, Wallace and Gallo, 2004). Greedy:
    the case with the most pairs that are still missing comes next, the first one of equals.
    """
    axes = [list(axis) for axis in axes]
    cells = list(product(*(range(len(axis)) for axis in axes)))
    pairs = {cell: set(combinations(enumerate(cell), 2)) for cell in cells}
    missing = set().union(*pairs.values())
    chosen = []
    while missing:
        best = max(cells, key=lambda cell: len(pairs[cell] & missing))
        missing -= pairs[best]
        chosen.append(tuple(axis[place] for axis, place in zip(axes, best, strict=True)))
    return chosen


class StepNoise:
    """The noise of the steps of a run, in the order in which the solvers draw it.

    All steps but the last take normals of the steps, ``piece`` steps at a time; the last one, or
    every one where ``exact``, is released.
    """

    def __init__(self, rng, n_steps, size, exact=False, piece=None):
        self.rng = rng
        self.left = n_steps
        self.size = size
        self.exact = exact
        self.piece = piece or n_steps
        self.normals = []

    def add(self, kept, moved, std):
        """Return the parameters after the noise of the next step, of this standard deviation.

        ``kept``: what follows from what is known before the step; ``moved``: what the records move.
        """
        self.prepare()
        self.left -= 1
        if std == 0:
            return kept + moved
        if self.exact:
            return kept + release(moved, std, self.rng)
        if self.left == 0:
            return release(kept + moved, std, self.rng)
        return kept + moved + std * self.normals.pop(0)

    def prepare(self):
        """Draw the normals of the next steps, if they come now: before the batch of the step."""
        if not self.normals and not self.exact and self.left > 1:
            block = np.empty((min(self.piece, self.left - 1), self.size))
            draw_normals(self.rng, block)
            self.normals = list(block)


def descended(
    objective,
    X,
    y,
    steps,
    added,
    batch=None,
    *,
    divisor=None,
    radius=math.inf,
    momentum=0.0,
    average=None,
):
    """Return the end of a noisy descent from 0 by its definition, or an average of its iterates.

    ``steps``: sizes and deviations of noise; ``batch``: gives the records of a step, or all.
    """
    theta = velocity = total = np.zeros(objective.n_parameters)
    for k, (step, std) in enumerate(zip(*steps, strict=True)):
        added.prepare()
        rows = slice(None) if batch is None else batch(k)
        sums = gradients(objective, X[rows], y[rows], theta).sum(axis=0)
        before = theta
        ahead = theta - step * momentum * velocity
        moved = -step * sums / (divisor or len(X))
        theta = added.add(ahead - step * objective.alpha * ahead, moved, std)
        theta = theta * min(1.0, radius / max(np.linalg.norm(theta), 1e-300))
        velocity = (before - theta) / step
        total = total + (0 if average is None else average[k] * theta)
    return theta if average is None else total


class Reached:
    """Rows whose first gradient is given."""

    def __init__(self, rows, gradient):
        self._rows = rows
        self._given = [gradient]

    def __getattr__(self, name):
        return getattr(self._rows, name)

    def gradient(self, *arguments):
        if self._given:
            return Sealed(self._given.pop())
        return self._rows.gradient(*arguments)


def descend(
    theta, objective, rows, step_size, noise_std, radius, generator, n_threads=1, exact=None, **rest
):
    """Run `steps.descend` from ``theta``, in place, with exact noise where nothing contracts."""
    exact = not objective.contracts if exact is None else exact
    options = {"batches": rest.pop("batches", None)}
    rows.n_threads = n_threads
    divisor = rest.pop("divisor", objective.n_samples)
    step_size = np.array(step_size)
    noise_std = np.array(noise_std)
    if theta.any():  # a first step without noise comes there: descents start at 0
        assert options["batches"] is None, "of all records"
        rows = Reached(rows, -divisor * theta)
        step_size = np.append(1.0, step_size)
        noise_std = np.append(0.0, noise_std)
        for name in {"momentum", "average"}.intersection(rest):
            rest[name] = np.append(0.0, np.broadcast_to(rest[name], len(step_size) - 1))
    schedule = steps.Steps(step_size, noise_std, divisor, radius, **rest)
    objective = replace(objective, exact=exact or schedule.needs_exact)
    theta[:] = steps.descend(objective, rows, schedule, generator, **options)


def descend_on_batches(theta, *problem, stop=None, step_size, noise_std, momentum=0.0, **rest):
    """Run the same on batches, exact where it must be, with ``momentum`` of directions."""
    few = {"step_size": step_size[:stop], "noise_std": noise_std[:stop]}
    ratios = np.append(0.0, few["step_size"][1:] / few["step_size"][:-1])
    rest = {"exact": False, "momentum": momentum * ratios, **rest}
    descend(theta, *problem, **few, **rest)


def threaded(rows, n_threads):
    """The same rows, to be summed by several threads."""
    rows.n_threads = n_threads
    return rows
