"""The README's table of peers: each cell from a command against the version that is installed.

The peers live in an environment of their own, for they pin other versions:

    python3 -m venv peers
    peers/bin/pip install diffprivlib opendp jax-privacy scikit-learn
    peers/bin/pip install --no-deps opacus
    python -m benchmarks peers --python peers/bin/python

``--accuracy`` compares scores with those of peers that are installed in this environment instead,
InterpretML among them (``pip install interpret-core diffprivlib opacus``): see ``python -m
benchmarks additive --help`` for the arguments that follow it.
"""

import argparse
import json
import subprocess
import sys

import skdpdyn.linear_model
from benchmarks import additive

PEERS = {
    "diffprivlib": "diffprivlib",
    "Opacus": "opacus",
    "OpenDP": "opendp",
    "JAX Privacy": "jax_privacy",
}

# Run in the peers' environment: the version, and which patterns the package's Python source has.
LOOK = """
import importlib.util, json, re, sys
from importlib.metadata import version
from pathlib import Path
found = {}
for package, patterns in json.load(sys.stdin).items():
    root = Path(importlib.util.find_spec(package).origin).parent
    files = [path for path in root.rglob("*.py") if "test" not in path.relative_to(root).as_posix()]
    text = "\\n".join(path.read_text(errors="ignore") for path in files)
    found[package] = [version(package)] + [bool(re.search(pattern, text)) for pattern in patterns]
print(json.dumps(found))
"""

# What is asked, and the pattern of source that says yes; the last one is asked of skdpdyn.
QUESTIONS = {
    "a logistic regression with `fit` and `predict`": r"class \w*LogisticRegression\w*\(",
    "a linear regression with `fit` and `predict`": (
        r"class "
        r"\w*(LinearRegression|Ridge|TheilSen\w*)\b"
    ),
    "finds noise from (epsilon, delta)": (
        r"target_epsilon|def calibrate_\w+|def binary_search_param|def least_noise"
    ),
    "DP-SGD on batches": r"(?i)class \w*(DPOptimizer|DPSGD|BatchSelection)\w*|def clipped_grad",
    "bounds of the last iterate": r"def last_iterate\b|(?i:shifted interpolation)",
    "says what a grid search, or the steps of a pipeline, cost": r"def (search|total)_privacy",
}


def main(arguments=None):
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="peers/bin/python", help="of the peers' environment")
    parser.add_argument("--accuracy", action="store_true", help="compare scores")
    options, rest = parser.parse_known_args(arguments)
    if options.accuracy:
        additive.main([*rest, "--peers"])
        return
    patterns = list(QUESTIONS.values())
    found = _look(options.python, dict.fromkeys(PEERS.values(), patterns))
    ours = _look(sys.executable, {"skdpdyn": patterns})["skdpdyn"]
    ours[0] = skdpdyn.__version__  # of this clone, installed or not
    columns = [ours, *(found[package] for package in PEERS.values())]
    names = ["skdpdyn", *PEERS]
    heads = [f"{name} {column[0]}" for name, column in zip(names, columns, strict=True)]
    print("| | " + " | ".join(heads) + " |")
    print("|---|" + "---|" * len(heads))
    for number, question in enumerate(QUESTIONS, 1):
        cells = ["yes" if column[number] else "no" for column in columns]
        print(f"| {question} | " + " | ".join(cells) + " |")
    print("| its models import beside scikit-learn | yes | " + _imports(options.python))


def _look(python, asked):
    run = subprocess.run(
        [python, "-c", LOOK], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


def _imports(python):
    """Return a table row that says which peers' models for scikit-learn can be imported."""
    modules = {
        "diffprivlib": "diffprivlib.models",
        "Opacus": None,
        "OpenDP": "opendp.extras.sklearn.linear_model",
        "JAX Privacy": None,
    }
    cells = []
    for module in modules.values():
        code = f"import sklearn, {module}; print(sklearn.__version__)"
        run = module and subprocess.run([python, "-c", code], capture_output=True, check=False)
        code = "import sklearn; print(sklearn.__version__)"
        newest = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        beside = newest.stdout.strip()
        cells.append(
            "has none" if run is None else f"{'yes' if run.returncode == 0 else 'no'} ({beside})"
        )
    return " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
