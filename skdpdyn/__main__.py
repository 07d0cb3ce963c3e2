"""``python -m skdpdyn``: what a report of a bug should say of an installation."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import joblib

import skdpdyn
from skdpdyn.losses import _exp  # any kernel: they all are stored in one way

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
    """Return what depends on the installation and the machine, by name, as text."""
    folder = getattr(_exp, "stats", None)
    return {
        "skdpdyn": skdpdyn.__version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: installed(name) for name in NEEDED + OPTIONAL},
        "threads": f"{joblib.cpu_count()} of {os.cpu_count()} processors",
        "compiled kernels": str(folder.cache_path if folder else "none: no JIT compiler"),
    }


def main() -> None:
    """Print them, one a line."""
    for name, value in facts().items():
        print(f"{name + ':':18}{value}")


if __name__ == "__main__":
    main()
