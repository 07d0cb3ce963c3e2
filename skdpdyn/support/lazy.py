"""Packages whose modules are loaded when a name of them is used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from skdpdyn.support.startup import no_collections


def on_first_use(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, which loads names from its modules as they are used."""

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with no_collections():
            return getattr(import_module(f"{package}.{places[name]}"), name)

    return load
