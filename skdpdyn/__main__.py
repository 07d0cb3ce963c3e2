"""``python -m skdpdyn``: facts for a bug report, checks of release folders, compiled kernels.

``check PATH`` checks a release, and with ``--audit`` fits its configuration on made-up data;
``compile`` compiles the kernels of every estimator.
"""

import argparse
import os
import platform
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import skdpdyn
from skdpdyn.privacy.display import printable
from skdpdyn.privacy.report import check_report

NEEDED = ("numpy", "scipy", "numba", "scikit-learn")
OPTIONAL = (
    "dask",
    "distributed",
    "matplotlib",
    "onnx",
    "pandas",
    "polars",
    "pyarrow",
    "skl2onnx",
    "skops",
    "tqdm",
)


def installed(name: str) -> str:
    """Return the version of a distribution, or that there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def facts() -> dict[str, str]:
    """Return facts about the installation and the machine, by name, as text."""
    import joblib  # slow to load, as all kernels

    from skdpdyn.core.losses import _exp  # any kernel: they all are stored in one way

    folder = getattr(_exp, "stats", None)
    return {
        "skdpdyn": skdpdyn.__version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: installed(name) for name in NEEDED + OPTIONAL},
        "threads": f"{joblib.cpu_count()} of {os.cpu_count()} processors",
        "compiled kernels": str(folder.cache_path if folder else "none: no JIT compiler"),
    }


def check(path: Path, with_audit: bool = False) -> int:
    """Check a stored report or a release folder, and print the result; return 0 if all agrees."""
    is_folder = path.is_dir()
    if with_audit and not is_folder:
        print("--audit is for release folders: a report has no configuration", file=sys.stderr)
        return 1
    try:
        if is_folder:
            from skdpdyn.export.io import checked_folder  # needs scikit-learn

            report, model = checked_folder(path)
        else:
            report = check_report(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, ImportError) as error:
        print(printable(f"{path}: {error}"), file=sys.stderr)
        return 1
    spent = report["spent"]
    leaks = report["assumed"]["not private in this run"]
    line = (
        f"{path}: every number agrees: epsilon={spent['epsilon']} at delta={spent['delta']} "
        f"by {report['theorem']['bound']}"
    )
    print(printable(line + "".join(f"; NOT PRIVATE: {leak}" for leak in leaks)))
    if is_folder:
        print(
            printable(f"protected: {spent.get('protected', 'one record')}, {spent['neighbours']}")
        )
        limits = [printable(str(limit)) for limit in report["not protected against"].values()]
        print("not protected against:", *limits, sep="\n- ")
        print("files are those that were written, and the model has this record and this report")
        if (path / "model.pkl").exists():
            print("model.pkl was not opened: a pickle runs code of whoever wrote it")
        if with_audit:
            return audited(model)
    return 0


def audited(model: Any) -> int:
    """Fit a model's configuration on made-up data and print claim and limits; 0 if they agree."""
    from skdpdyn.audit import audit  # slow to load

    try:
        found = audit(model.set_params(delta=model.delta_), kind="one_fit")
    except ValueError as error:
        print(printable(f"not audited: {error}"), file=sys.stderr)
        return 1
    print(found)
    return 0 if found.passed else 1


def compile_kernels() -> None:
    """Fit every estimator to made-up rows, so that later processes find its kernels on disk."""
    import numpy as np
    from scipy.sparse import csr_array

    from skdpdyn.solvers import NoisySGD

    dense = np.cos(np.arange(8000.0)).reshape(2000, 4)
    number = dense[:, 0]
    classes = np.digitize(dense[:, 0], [-0.5, 0.5])
    target: dict[str, Any] = {"target_bounds": (-1, 1)}
    columns: dict[str, Any] = {"bounds": (-1, 1)}
    models = (
        (skdpdyn.PrivateLogisticRegression(classes=[False, True]), number > 0),
        (skdpdyn.PrivateSoftmaxRegression(classes=[0, 1, 2]), classes),
        (skdpdyn.PrivateLinearSVC(classes=[False, True]), number > 0),
        (skdpdyn.PrivatePoissonRegressor(), classes),
        (skdpdyn.PrivateQuantileRegressor(**target), number),
        (skdpdyn.PrivateRidge(**target), number),
    )
    of_numbers = (
        (skdpdyn.PrivateLogisticRegression(classes=[False, True], solver=NoisySGD()), number > 0),
        (skdpdyn.PrivateGAMClassifier(classes=[False, True], **columns), number > 0),
        (skdpdyn.PrivateGAMClassifier(classes=[0, 1, 2], **columns), classes),
        (skdpdyn.PrivateGAMRegressor(**target, **columns), number),
    )
    rows = [
        kind(dense.astype(dtype)) for dtype in (float, np.float32) for kind in (np.array, csr_array)
    ]
    fits = [(model, y, X) for X in rows for model, y in models]
    fits += [(model, y, dense) for model, y in of_numbers]
    fits.append((of_numbers[1][0], number[:500] > 0, dense.reshape(500, 16)))  # too wide for tables
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a budget of noise that hides nothing
        for model, targets, X in fits:
            model.set_params(epsilon=100.0).fit(X, targets).predict(X)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print versions and threads, check a release, or compile all kernels.

    Parameters
    ----------
    arguments : sequence of str or None, default=None
        The command line; None: that of the process.

    Returns
    -------
    int
        1 if a release does not agree with its record, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m skdpdyn", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    checks = commands.add_parser(
        "check", help="recompute a stored report, or all of a release folder, from what ran"
    )
    checks.add_argument("path", type=Path, help="report.json, or the folder of model.export")
    checks.add_argument(
        "--audit",
        action="store_true",
        help="fit the configuration of a folder on made-up data too, and print claim and limits",
    )
    commands.add_parser(
        "compile", help="compile all kernels now, for half a minute, and store them"
    )
    options = parser.parse_args(arguments)
    if options.command == "check":
        return check(options.path, options.audit)
    if options.command == "compile":
        compile_kernels()
    for name, value in facts().items():
        print(f"{name + ':':18}{value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
