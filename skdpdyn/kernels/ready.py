"""Kernels that plain numpy can stand in for: compiled where that pays."""

from collections.abc import Callable
from typing import Any

import numba

from skdpdyn.kernels.jit import cached
from skdpdyn.support.startup import no_collections


class WhenReady:
    """A kernel that plain numpy can stand in for: compiled only where that pays.

    Its arithmetic is IEEE 754's in the order written, so that numpy can repeat it to the bit.

    Parameters
    ----------
    function : callable
        The kernel.
    signature : numba signature
        Its types.

    Attributes
    ----------
    in_memory : callable or None
        The kernel, once it is compiled or loaded.
    """

    def __init__(self, function: Callable, signature: Any) -> None:
        self.function = function
        self._signature = signature
        self.in_memory: Any = None
        self._was_looked_for = bool(numba.config.DISABLE_JIT)

    def found(self, worthwhile: bool) -> Any:
        """Return the kernel if it is in memory or on disk, or worth a compilation; else None."""
        if self.in_memory is not None or numba.config.DISABLE_JIT:
            return self.in_memory
        if worthwhile or not self._was_looked_for:
            self._was_looked_for = True
            kernel = cached(self.function, fastmath=False)
            if worthwhile or self._is_stored(kernel):
                with no_collections():
                    kernel.compile(self._signature)
                kernel.disable_compile()
                self.in_memory = kernel
        return self.in_memory

    def _is_stored(self, kernel):
        """Return whether compiled code of the kernel is on disk."""
        load = getattr(kernel._cache, "load_overload", None)
        return load is not None and load(self._signature, kernel.targetctx) is not None
