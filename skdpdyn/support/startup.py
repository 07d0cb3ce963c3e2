"""Work that is started early so that the first fit starts sooner."""

import gc
import threading
from contextlib import contextmanager

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
