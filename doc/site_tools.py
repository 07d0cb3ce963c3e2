"""What the site is built with: names without a download, short names, the gallery's order."""

import functools
import importlib
import inspect
import pkgutil
import zlib
from pathlib import Path

import sklearn
from docutils.utils import get_source_line

import skdpdyn

HEADER = f"""# Sphinx inventory version 2
# Project: scikit-learn
# Version: {sklearn.__version__}
# The remainder of this file is compressed using zlib.
"""


def is_of(value: object, module: str) -> bool:
    """Return whether a value is defined in a module, which has no list of what it exports."""
    return getattr(value, "__module__", None) == module


def public_names():
    """Yield pairs (dotted name, role) of all that scikit-learn's modules export."""
    text = "sklearn.feature_extraction.text"
    for module in sorted({"sklearn.base", text, *(f"sklearn.{name}" for name in sklearn.__all__)}):
        try:
            exported = importlib.import_module(module)
        except ImportError:
            continue  # a function of sklearn itself, such as clone
        own = [name for name, value in vars(exported).items() if is_of(value, module)]
        for name in sorted(getattr(exported, "__all__", own)):
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


@functools.cache
def own_names() -> dict[str, object]:
    """Return all that the package defines, public or not, by the last part of its name."""
    names: dict[str, object] = {}
    for found in pkgutil.walk_packages(skdpdyn.__path__, "skdpdyn."):
        if not found.name.endswith("__main__"):
            module = importlib.import_module(found.name)
            names |= {**vars(module), found.name.rpartition(".")[2]: module}
    return names


def exists(name: str) -> bool:
    """Return whether the package has this name, in full or without its modules."""
    first, *rest = name.removeprefix("skdpdyn.").split(".")
    value = getattr(skdpdyn, first, None) if name.startswith("skdpdyn.") else None
    value = own_names().get(first) if value is None else value
    for part in rest:
        annotated = getattr(value, "__annotations__", {})
        value = getattr(value, part, annotated.get(part))
    return value is not None


def resolve_short(app, env, node, contnode):
    """Link a name without its modules; show one that has no page, but exists, as it is written.

    What scikit-learn's docstrings mark, of methods that estimators inherit, is theirs.
    """
    if node.get("refdomain") != "py":
        return None
    node["refspecific"] = True
    link = env.get_domain("py").resolve_xref(
        env, node["refdoc"], app.builder, "obj", node["reftarget"], node, contnode
    )
    inherited = "docstring of sklearn" in str(get_source_line(node)[0])
    return link or (contnode if inherited or exists(node["reftarget"]) else None)


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
    "plot_first_paper.py",
    "plot_privacy_dynamics.py",
    "plot_lower_bound.py",
    "plot_expected_curvature.py",
    "plot_contraction.py",
    "plot_survey_table.py",
    "plot_utility_bounds.py",
]


def easiest_first(name: str) -> tuple[int, str]:
    """Return what the gallery sorts the examples of a section by."""
    known = name in EASIEST_FIRST
    return (EASIEST_FIRST.index(name) if known else len(EASIEST_FIRST)), name
