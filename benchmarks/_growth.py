"""How time and memory of fits, evaluations and ledgers grow with what they are given.

Peers show how scikit-learn's cost grows, and are stopped early where that takes minutes: boosting
after ten trees, and the softmax regression after five iterations.
"""

import math
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdpdyn
from benchmarks._worker import peak_cleared, status
from skdpdyn.evaluation import evaluate
from skdpdyn.privacy import GaussianDP, Ledger

EPSILON = 1.0


def numbers(n_rows, n_columns):
    """Return rows in [-1, 1] and labels of a logistic model."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, n_columns)).astype(np.float32)
    weights = rng.standard_normal(n_columns) / math.sqrt(n_columns)
    return X, X @ weights * 3 + rng.logistic(size=n_rows) > 0


def classes(n_rows, n_classes):
    """Return rows of ten columns and labels of a softmax model, each of which occurs."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, 10)).astype(np.float32)
    weights = 2 * rng.standard_normal((10, n_classes))
    y = np.concatenate(
        [
            np.argmax(part @ weights + rng.gumbel(size=(len(part), n_classes)), axis=1)
            for part in np.array_split(X, 50)
        ]
    )
    y[:n_classes] = np.arange(n_classes)
    return X, y


def levels(n_rows, n_levels):
    """Return a frame of one column of text and labels, and the levels."""
    import pandas as pd

    rng = np.random.default_rng(0)
    names = np.array([f"level {k}" for k in range(n_levels)], dtype=object)
    often = 1 / np.arange(1, n_levels + 1)
    places = rng.choice(n_levels, n_rows, p=often / often.sum())
    y = rng.standard_normal(n_levels)[places] + rng.logistic(size=n_rows) > 0
    return pd.DataFrame({"text": names[places]}), y, names.tolist()


def of_rows(n_rows):
    """Return our run and that of a peer, or None."""
    X, y = numbers(n_rows, 10)
    ours = skdpdyn.PrivateLogisticRegression(EPSILON, classes=[False, True], bounds=(-1, 1))
    return lambda: ours.fit(X, y), lambda: LogisticRegression().fit(X, y)


def of_columns(n_columns):
    """Return our run and that of a peer, or None."""
    X, y = numbers(20_000, n_columns)
    ours = skdpdyn.PrivateLogisticRegression(EPSILON)
    return lambda: ours.fit(X, y), lambda: LogisticRegression().fit(X, y)


def of_curves(n_columns):
    """Return our run and that of a peer, or None."""
    X, y = numbers(20_000, n_columns)
    known = {"classes": [False, True], "bounds": (-1, 1), "interactions": None}
    ours = skdpdyn.PrivateGAMClassifier(EPSILON, **known)
    return lambda: ours.fit(X, y), lambda: HistGradientBoostingClassifier(max_iter=10).fit(X, y)


def of_levels(n_levels):
    """Return our run and that of a peer, or None."""
    frame, y, names = levels(50_000, n_levels)
    known = {"classes": [False, True], "bounds": {}, "categories": {"text": names}}
    ours = skdpdyn.PrivateGAMClassifier(EPSILON, **known)
    theirs = make_pipeline(OneHotEncoder(), LogisticRegression())
    return lambda: ours.fit(frame, y), lambda: theirs.fit(frame, y)


def of_softmax(n_classes):
    """Return our run and that of a peer, or None."""
    X, y = classes(20_000, n_classes)
    ours = skdpdyn.PrivateSoftmaxRegression(EPSILON, classes=range(n_classes), bounds=(-1, 1))
    return lambda: ours.fit(X, y), lambda: LogisticRegression(max_iter=5).fit(X, y)


def of_additive_classes(n_classes):
    """Return our run and that of a peer, or None."""
    X, y = classes(30_000, n_classes)
    known = {"classes": range(n_classes), "bounds": (-1, 1), "interactions": None}
    ours = skdpdyn.PrivateGAMClassifier(EPSILON, **known)
    return lambda: ours.fit(X, y), None


def of_evaluations(n_classes):
    """Return our run and that of a peer, or None."""
    X, y = classes(50_000, n_classes)
    model = skdpdyn.PrivateSoftmaxRegression(10.0, classes=range(n_classes), bounds=(-1, 1))
    model.fit(X[:5000], y[:5000])
    return lambda: str(evaluate(model, X, y, epsilon=EPSILON)), None


def of_entries(n_entries):
    """Return our run and that of a peer, or None."""

    def run():
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder) / "books.json", cap=(1e6, 1e-8))
            for k in range(n_entries):
                ledger.reserve(f"fit {k}", GaussianDP(1e-4)).settle()

    return run, None


AXES = {
    "logistic, rows x 10": (of_rows, (10_000, 100_000, 1_000_000)),
    "logistic, 20,000 x columns": (of_columns, (1000, 2000, 5000)),
    "curves, 20,000 x columns": (of_curves, (100, 300, 1000)),
    "additive, 50,000 rows, given levels": (of_levels, (1000, 10_000, 30_000)),
    "softmax, 20,000 x 10, classes": (of_softmax, (100, 300, 1000)),
    "additive, 30,000 x 10, classes": (of_additive_classes, (100, 300)),
    "evaluate, 50,000 rows, classes": (of_evaluations, (30, 100, 300)),
    "ledger, entries one by one": (of_entries, (100, 1000, 10_000)),
}


def measured(run):
    """Return the seconds of CPU of a run, and the megabytes above what was held before."""
    before = peak_cleared()
    start = time.process_time()
    run()
    seconds = time.process_time() - start
    return seconds, math.nan if before is None else status("VmHWM") - before


def width(asked):
    """Print seconds, megabytes and exponents between the last two sizes, beside scikit-learn's."""
    print(f"{'axis':<40} {'size':>9} {'s':>8} {'MB':>7} {'exponent':>8} {'theirs, s':>9} ratio")
    for name, (axis, sizes) in AXES.items():
        sizes = sizes[:2] if asked.quick else sizes
        last = None
        axis(min(sizes))[0]()  # compiles
        for size in sizes:
            ours, theirs = axis(size)
            seconds, megabytes = measured(ours)
            line = f"{name:<40} {size:>9,} {seconds:>8.3f} {megabytes:>7.0f} "
            line += (
                f"{math.log(seconds / last[1]) / math.log(size / last[0]):>8.2f} " if last else ""
            )
            if theirs is not None:
                of_theirs, _ = measured(theirs)
                line += f"{of_theirs:>{9 if last else 18}.3f} {seconds / of_theirs:.2f}"
            print(line, flush=True)
            last = size, seconds
