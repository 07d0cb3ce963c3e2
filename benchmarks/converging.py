"""Epsilon against steps, by composition and by the bounds that converge; and what they buy.

``python -m benchmarks converging --data DIR --figure converging.png`` trains Adult, 10,000
digits of MNIST and a strongly regularised Adult by plain noisy gradient descent, with the noise for
which the exact bound has converged at the budget. It prints epsilon after K steps under each bound,
the K* from which on a bound stays within 1 % of its limit, the noise that the budget buys at the
exact bound's K* under each and the accuracy it leaves, and Theorem 4's K*; then the accuracy of
each bound's own training on conditioned rows and on rows as they are.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.accuracy import DATA, DATASETS, splits
from skdpdyn.exceptions import CalibrationError
from skdpdyn.inspection import PrivacyDynamicsDisplay
from skdpdyn.privacy import ACCOUNTANTS
from skdpdyn.solvers import NoisyGD
from skdpdyn.training.plan import plan
from skdpdyn.training.request import request_of

BOUNDS = ("composition", "langevin", "last_iterate")
PROBLEMS = {  # data, rows, alpha, further parameters
    "Adult": ("adult", None, 1e-3, {}),
    "MNIST": ("mnist", 10_000, 0.05, {"clip": 2.0}),
    "Adult, strongly regularised": ("adult", None, 0.1, {}),
}
FAR = 10**7  # steps: every bound that converges has


def epsilon(record, bound, n_steps, delta):
    """Return what a run costs that stops after so many steps."""
    return ACCOUNTANTS[bound](replace(record, n_steps=n_steps)).epsilon(delta)


def converged_at(record, bound, delta):
    """Return the steps from which on epsilon is within 1 % of its limit; None: it has none."""
    limit = epsilon(record, bound, FAR, delta)
    low, high = 0, FAR
    while high - low > 1:
        middle = (low + high) // 2
        near = epsilon(record, bound, middle, delta) >= 0.99 * limit
        low, high = (low, middle) if near else (middle, high)
    return high if high < FAR / 2 else None


def scored(model, pairs, X, y):
    """Return the mean accuracy with its standard error; ``model`` is trained."""
    scores = [model.fit(X[train], y[train]).score(X[test], y[test]) for train, test in pairs]
    return f"{np.mean(scores):.4f} +- {np.std(scores) / np.sqrt(len(scores)):.4f}"


def show(title, asked):
    """Print the tables of a problem; return its curves."""
    name, n_rows, alpha, options = PROBLEMS[title]
    problem = DATASETS[name](asked.data)
    X, y = problem.X[:n_rows], problem.y[:n_rows]
    pairs = list(splits(len(y), asked.splits))
    shape = len(pairs[0][0]), X.shape[1]
    options = {"epsilon": asked.epsilon, "alpha": alpha, "conditioning": None} | options
    model = problem.private(bound="langevin", solver=NoisyGD(n_steps=1), **options)
    delta = 1 / shape[0] ** 2
    step_size = planned(model, shape).step_size  # the largest that all bounds allow
    model.set_params(bound="last_iterate", solver__step_size=step_size)
    n_steps = 10**5
    for _ in range(2):  # noise for many steps, then for those that come near it
        record = planned(model.set_params(solver__n_steps=n_steps), shape)
        n_steps = converged_at(record, "last_iterate", delta)
    print(f"\n{title}: n = {shape[0]}, d = {shape[1]}, alpha = {alpha:g}, step {step_size:.3g}")
    print(f"noise for epsilon {asked.epsilon:g} by the exact bound; epsilon after")
    print(f"{'steps':>12} " + " ".join(f"{name:>13}" for name in BOUNDS))
    for k in (1, 10, 100, 1_000, 10_000, 100_000, 10**6):
        print(f"{k:>12} " + " ".join(f"{epsilon(record, b, k, delta):>13.4g}" for b in BOUNDS))
    print(f"what epsilon {asked.epsilon:g} buys at {n_steps} steps, the exact bound's K*")
    for bound in BOUNDS:
        score = scored(model.set_params(bound=bound, solver__n_steps=n_steps), pairs, X, y)
        k = converged_at(model.mechanism_, bound, delta)
        print(
            f"  {bound:<13} K* = {k or 'none':>7} sigma {model.sigma_:.4g} accuracy {score}",
            flush=True,
        )
    model.set_params(bound="langevin", solver=NoisyGD(n_steps="theorem4"))
    try:
        score = scored(model, pairs, X, y)
        print(f"  Theorem 4     K* = {model.n_iter_:>7} sigma {model.sigma_:.4g} accuracy {score}")
    except CalibrationError as error:
        print(f"  {error}")
    return PrivacyDynamicsDisplay.from_mechanism(
        record, delta=delta, n_points=30, max_steps=10**6, target=asked.epsilon, plot=False
    )


def planned(model, shape):
    """Return the record that a fit of this shape would run."""
    return plan(request_of(model, *shape)).mechanism


def compare(title, asked):
    """Print the accuracy of every bound's own training, on rows as they are and conditioned."""
    name, n_rows, _, options = PROBLEMS[title]
    problem = DATASETS[name](asked.data)
    X, y = problem.X[:n_rows], problem.y[:n_rows]
    print(f"\n{title}, everything 'auto':")
    for bound in ("tightest", "last_iterate", "langevin"):
        for conditioning in (None, "auto"):
            model = problem.private(
                epsilon=asked.epsilon, bound=bound, conditioning=conditioning, **options
            )
            score = scored(model, list(splits(len(y), asked.splits)), X, y)
            rows = "mapped" if model.conditioning_ is not None else "as they are"
            print(
                f"  {bound:<13} rows {rows:<11} {model.n_iter_:>5} steps, accuracy {score}, "
                f"bound_ {model.bound_}",
                flush=True,
            )


def draw(found, file):
    """Draw epsilon over steps, a panel for each problem."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(4.2 * len(found), 3.6), squeeze=False)
    for axis, (title, display) in zip(axes.flat, found.items(), strict=True):
        kept = {name: display.curves[name] for name in BOUNDS}
        display.curves, display.n_steps = kept, None
        display.plot(ax=axis)
        axis.set(title=title)
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the data sets")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--figure", type=Path, help="draw epsilon over steps into this file")
    asked = parser.parse_args(arguments)
    found = {}
    for title in asked.only:
        if not (asked.data / "mnist.npz").exists() and PROBLEMS[title][0] == "mnist":
            print(f"\n{title}: no mnist.npz in {asked.data}, left out", flush=True)
            continue
        found[title] = show(title, asked)
    if "Adult" in found:
        compare("Adult", asked)
    if asked.figure:
        draw(found, asked.figure)
