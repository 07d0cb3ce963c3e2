"""What makes the first fit start sooner."""

import gc
from contextlib import contextmanager


@contextmanager
def no_collections():
    """No garbage collections meanwhile: importing and compiling build much that stays, and each would look at all of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
