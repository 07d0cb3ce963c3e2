"""Faults that would break a promise of privacy, planted one at a time: the suite without `slow`
sees each.

Run it by hand: ``python tests/mutations.py [part of a name ...]``. Each fault is planted in a copy
of the project, where its tests run without a JIT compiler. A fault that survives, and one whose
place in the source has moved, end the run with an error: give the new text here.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutation(NamedTuple):
    """A text that stands once in the package, what is put in its place, and the tests that fail
    then.
    """

    name: str
    old: str
    new: str
    tests: str


MUTATIONS = [
    Mutation(
        "factor 2 dropped in sum_sensitivity",
        "return 2 * norm if self is Adjacency.REPLACE_ONE else norm",
        "return norm",
        "tests/test_noisy_gd.py -k neighbours",
    ),
    Mutation(
        "intercept left out of the norm of a row",
        "return math.hypot(data_norm, intercept_scaling)",
        "return data_norm",
        "tests/test_objective.py tests/test_noisy_gd.py",
    ),
    Mutation(
        "intercept left out of the limit of a residual",
        "limit = clip / np.sqrt(norms[i] * norms[i] + scaling * scaling)",
        "limit = clip / norms[i]",
        "tests/test_objective.py tests/test_noisy_gd.py",
    ),
    Mutation(
        "clip by max",
        "norms[i] = limit if limit < largest else largest",
        "norms[i] = limit if limit > largest else largest",
        "tests/test_objective.py tests/test_noisy_gd.py",
    ),
    Mutation(
        "noise of steps halved",
        "yield from part[:, None] * normals",
        "yield from 0.5 * part[:, None] * normals",
        "tests/test_stochastic.py -k numpy",
    ),
    Mutation(
        "projection skipped",
        "project(theta, steps.radius)",
        "project(theta, math.inf)",
        "tests/test_noisy_gd.py -k projected",
    ),
    Mutation(
        "projection leaves the norm",
        "shrink = radius / np.sqrt(square)",
        "shrink = 1.0",
        "tests/test_stochastic.py -k numpy",
    ),
    Mutation(
        "calibration returns the unsafe side",
        (
            "noise = smallest_safe(noise, lambda value: spent(value) <= budget.epsilon, "
            "towards=math.inf)"
        ),
        "noise = noise * (1 - 1e-6)",
        "tests/test_dp_sgd.py tests/test_privacy_calibration.py -k least_noise",
    ),
    Mutation(
        "one seed for two streams",
        "keys = [int.from_bytes(os.urandom(16)) for _ in range(n_streams)]",
        "keys = [int.from_bytes(os.urandom(16))] * n_streams",
        "tests/test_noise.py",
    ),
    Mutation(
        "one seed for two streams that repeat",
        ".spawn(n_streams)",
        ".spawn(1) * n_streams",
        "tests/test_noise.py",
    ),
    Mutation(
        "room for rounding 0",
        "return 2 * math.sqrt(_total(np.square((before",
        "return 0 * math.sqrt(_total(np.square((before",
        "tests/test_noisy_gd.py -k complete",
    ),
    Mutation(
        "Poisson divisor realised",
        "return lambda k, theta: rows.gradient(objective, theta, chosen(k))",
        "return lambda k, theta: rows.gradient(objective, theta, n := chosen(k)) / max(n.size, 1)",
        "tests/test_stochastic.py -k numpy",
    ),
    Mutation(
        "certificate skipped",
        "if np.linalg.norm(point.slope) + gradient.rounding(point.theta) <= tolerance:",
        "if True:",
        "tests/test_minimise.py",
    ),
    Mutation(
        "a score's sensitivity halved",
        "(n_held * plan.score_mu)",
        "(2 * n_held * plan.score_mu)",
        "tests/test_model_selection.py -k score",
    ),
    Mutation(
        "JSON written without adjacency",
        "stored = {name: to_dict(getattr(value, name)) for name in kept}",
        'stored = {name: to_dict(getattr(value, name)) for name in kept if name != "adjacency"}',
        "tests/test_bounds_travel.py",
    ),
    Mutation(
        "JSON read without adjacency",
        "if not set(names) - optional <= set(values) <= set(names):",
        "if not set(values) <= set(names):",
        "tests/test_bounds_travel.py",
    ),
    Mutation(
        "judge without its delta",
        "best = weigh(mechanism, delta, accuracy)\n        return Verdict",
        "best = weigh(mechanism, 1e-6, accuracy)\n        return Verdict",
        "tests/test_privacy_calibration.py -k delta",
    ),
    Mutation(
        "chunks of CSR rows follow what they store",
        "return chunks.count_chunks(shape, self.dtype, self.is_sparse, n_sums)",
        "return max(1, self.X.nnz // 40_000) if self.is_sparse else 1",
        "tests/test_kernels.py -k chunk",
    ),
    Mutation(
        "half of what a record moves a diagnostic by",
        "_estimate(long, 1.0, conditioner",
        "_estimate(long, 0.5, conditioner",
        "tests/test_diagnostics.py -k one_person",
    ),
    Mutation(
        "diagnostics for nothing",
        "left -= math.fsum(diagnostics.values())",
        "left -= 0.0 * math.fsum(diagnostics.values())",
        "tests/test_diagnostics.py -k every_solver",
    ),
    Mutation(
        "the trials of a search print",
        'quiet = {"verbose": False, "memory": None}',
        'quiet = {"memory": None}',
        "tests/test_progress.py -k trials",
    ),
]


def place(mutation, package):
    """Return the one file that holds the text, and what the file holds."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    holders = {path: text for path, text in texts.items() if mutation.old in text}
    if sum(text.count(mutation.old) for text in holders.values()) != 1:
        places = [path.relative_to(package).as_posix() for path in holders]
        raise LookupError(
            f"{mutation.name}: {mutation.old!r} must stand once in the package, not in {places}"
        )
    ((path, text),) = holders.items()
    return path, text


def is_caught(mutation, copy):
    """Whether tests fail in the copy, and not for want of tests."""
    tests, _, chosen = mutation.tests.partition(" -k ")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not system",
        *tests.split(),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command += ["-k", chosen] if chosen else []
    run = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode not in (0, 1):  # 1: tests ran, and some failed
        raise SystemExit(
            f"{mutation.name}: pytest ended with "
            f"{run.returncode}\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
        )
    return run.returncode == 1


def main(wanted):
    """Plant the faults whose names hold one of the wanted words, or all; return how many
    survive.
    """
    chosen = [
        mutation
        for mutation in MUTATIONS
        if not wanted or any(word in mutation.name for word in wanted)
    ]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("skdpdyn", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for mutation in chosen:
            path, text = place(mutation, copy / "skdpdyn")
            path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
            caught = is_caught(mutation, copy)
            path.write_text(text, encoding="utf-8")
            survivors += not caught
            print(f"{'caught' if caught else 'SURVIVED':9}{mutation.name}", flush=True)
    return survivors


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
