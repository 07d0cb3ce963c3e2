"""What the site is built with: scikit-learn's names without a download, and the gallery's order."""

import importlib
import inspect
import zlib
from pathlib import Path

import sklearn

HEADER = f"""# Sphinx inventory version 2
# Project: scikit-learn
# Version: {sklearn.__version__}
# The remainder of this file is compressed using zlib.
"""


def public_names():
    """Yield pairs (dotted name, role) of all that scikit-learn's modules export."""
    for module in sorted({"sklearn.base", *(f"sklearn.{name}" for name in sklearn.__all__)}):
        try:
            exported = importlib.import_module(module)
        except ImportError:
            continue  # a function of sklearn itself, such as clone
        for name in sorted(getattr(exported, "__all__", [])):
            try:
                value = getattr(exported, name)
            except ImportError:
                continue  # experimental
            if inspect.isclass(value):
                yield f"{module}.{name}", "class"
            elif inspect.isroutine(value):
                yield f"{module}.{name}", "function"


def write_inventory(path: Path):
    """Write the inventory, by the rule that scikit-learn's site gives addresses to its names."""
    lines = [
        f"{name} py:{role} 1 modules/generated/{name}.html#$ -\n" for name, role in public_names()
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(HEADER.encode() + zlib.compress("".join(lines).encode()))


# Examples of a section of the gallery, easiest first; others follow by name
EASIEST_FIRST = [
    "plot_attacker.py",
    "plot_counts_exposure.py",
    "plot_persons.py",
    "plot_rare_classes.py",
    "plot_ledger.py",
    "plot_private_evaluation.py",
    "plot_intervals.py",
    "plot_private_search.py",
    "plot_solvers.py",
    "plot_last_iterate.py",
    "plot_low_bits.py",
    "plot_number_of_steps.py",
    "plot_stochastic_tradeoff.py",
    "plot_privacy_dynamics.py",
    "plot_lower_bound.py",
    "plot_expected_curvature.py",
    "plot_contraction.py",
    "plot_survey_table.py",
]


def easiest_first(name: str) -> tuple[int, str]:
    """Return what the gallery sorts the examples of a section by."""
    known = name in EASIEST_FIRST
    return (EASIEST_FIRST.index(name) if known else len(EASIEST_FIRST)), name
