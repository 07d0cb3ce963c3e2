"""Speed of two commits on the same machine, by turns: first fits, fits, single steps and costs.

Run ``python -m benchmarks compare REV1 REV2``. Either commit is checked out in a temporary
directory; they run by turns, in a new process every time, with the packages of this environment. A
case prints the least and the median time of either, the median of REV2's time over REV1's in the
same round, and whether the same seed gave the same bits. The first round, which compiles, does not
count.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]

# Public names alone, so that older commits run it too
PROGRAM = """
import time
start = time.perf_counter()
import sys, warnings, zlib
from pathlib import Path
import numpy as np
from scipy import sparse
import skdpdyn
from skdpdyn import PrivateLogisticRegression, PrivateRidge, PrivateSoftmaxRegression
from skdpdyn.solvers import DPSGD, NoisyGD

warnings.simplefilter("ignore")
tree, kind = sys.argv[1:]
where = Path(skdpdyn.__file__).parents[1]
assert where == Path(tree), f"{where} runs in place of {tree}"
rng = np.random.default_rng(0)

def logistic(**parameters):
    return PrivateLogisticRegression(classes=[0, 1], random_state=0, **parameters)

def rows(n_samples, n_features):
    X = rng.uniform(-1, 1, (n_samples, n_features)) / np.sqrt(n_features)
    return X, (X[:, 0] > 0).astype(int)

def report(name, estimator, X, y):
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        estimator.fit(X, y)
        times.append(time.perf_counter() - begun)
    print(name, min(times), zlib.crc32(estimator.coef_.tobytes()), sep=",")

X, y = rows(1000, 20)
fitted = logistic().fit(X, y)
if kind in ("start", "all"):
    seconds, bits = time.perf_counter() - start, zlib.crc32(fitted.coef_.tobytes())
    print("start: import and first fit", seconds, bits, sep=",")
if kind in ("fit", "all"):
    X, y = rows(10_000, 50)
    report("fit: logistic", logistic(), X, y)
    csr = sparse.random_array((10_000, 200), density=0.05, format="csr", rng=0)
    report("fit: logistic on CSR rows", logistic(), csr, y)
    softmax = PrivateSoftmaxRegression(classes=[0, 1, 2], random_state=0)
    report("fit: softmax", softmax, X, y + (X[:, 1] > 0))
    report("fit: ridge", PrivateRidge(target_bounds=(0, 1), random_state=0), X, y)
if kind in ("step", "all"):
    X, y = rows(45_000, 104)
    report("step: 50 of noisy_gd", logistic(solver=NoisyGD(n_steps=50)), X, y)
    report("step: 500 of dp_sgd", logistic(solver=DPSGD(batch_size=450, n_steps=500)), X, y)
if kind in ("cost", "all"):
    times = []
    for n_samples in (1_000, 1_001, 100_000):
        begun = time.perf_counter()
        cost = logistic().privacy_cost(n_samples, 20)
        times.append(time.perf_counter() - begun)
    print("cost: of a default fit", min(times), cost.mu, sep=",")
"""


@contextmanager
def worktrees(revisions):
    """Yield directories with the commits checked out."""
    with tempfile.TemporaryDirectory() as directory:
        trees = [Path(directory).resolve() / str(place) for place in range(len(revisions))]
        try:
            for tree, revision in zip(trees, revisions, strict=True):
                subprocess.run(
                    ["git", "worktree", "add", "--quiet", "--detach", tree, revision],
                    cwd=ROOT,
                    check=True,
                )
            yield trees
        finally:
            for tree in filter(Path.exists, trees):
                subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def run(tree, kind):
    """Return pairs (seconds, digest of the result) by the name of a case."""
    options = {
        "cwd": tree,
        "env": {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""},
    }
    out = subprocess.check_output(
        [sys.executable, "-c", PROGRAM, str(tree), kind], text=True, **options
    )
    return {
        name: (float(seconds), digest)
        for name, seconds, digest in (line.split(",") for line in out.splitlines())
    }


def in_turn(trees, kind, turn):
    """Return what both gave, the one first in even rounds, the other in odd ones."""
    first = turn % 2
    results = {place: run(trees[place], kind) for place in (first, 1 - first)}
    return results[0], results[1]


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revisions", nargs=2, metavar="REV")
    parser.add_argument(
        "--benchmark", choices=["all", "start", "fit", "step", "cost"], default="all"
    )
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args(argv)
    with worktrees(arguments.revisions) as trees:
        rounds = [
            in_turn(trees, arguments.benchmark, turn) for turn in range(arguments.rounds + 1)
        ][1:]
    print(
        f"{'least and median of':<30}"
        + "".join(f"{revision[-22:]:>24}" for revision in arguments.revisions)
        + "    ratio  bits"
    )
    for name in rounds[0][0]:
        times = 1e3 * np.array([[one[name][0] for one in both] for both in rounds])
        same = len({one[name][1] for both in rounds for one in both}) == 1
        columns = "".join(f"{np.min(own):13.2f}{np.median(own):8.2f} ms" for own in times.T)
        print(
            f"{name:<30}{columns}{np.median(times[:, 1] / times[:, 0]):9.3f}  "
            f"{'same' if same else 'differ'}"
        )
