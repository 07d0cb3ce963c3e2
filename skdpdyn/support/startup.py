"""Work that is started early so that the first fit starts sooner."""

import gc
import threading
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_lock = threading.Lock()
_inside = 0
_was_enabled = False


@contextmanager
def no_collections():
    """Pause garbage collection: imports and compilation leave it nothing to free."""
    global _inside, _was_enabled
    with _lock:
        if not _inside:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _was_enabled and not _inside:
                gc.enable()


def on_first_use(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, which loads names from its modules as they are used."""

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with no_collections():
            return getattr(import_module(f"{package}.{places[name]}"), name)

    return load
