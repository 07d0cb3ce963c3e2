"""Kernels that plain numpy can stand in for: loaded, or compiled, where that pays."""

import sys
from importlib import import_module
from typing import Any

from skdpdyn.kernels.later import is_compiled
from skdpdyn.support.startup import no_collections

MOST_EDGES = 255  # of a column of numbers
WIDE = 16  # rows that loops of predictions turn at a time


class WhenReady:
    """A kernel that plain numpy can stand in for: compiled only where that pays.

    Its arithmetic is IEEE 754's in the order written, so that numpy can repeat it to the bit.

    Parameters
    ----------
    module : str
        Module of `skdpdyn.kernels` that has the kernel and its types.
    name : str
        Its name there.

    Attributes
    ----------
    in_memory : callable or None
        The kernel, once it is compiled or loaded.
    """

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name
        self.in_memory: Any = None
        self._was_looked_for = False

    @property
    def with_signature(self) -> tuple:
        """The kernel as it is written, and its types."""
        module, name = self._place
        with no_collections():
            return import_module(f"skdpdyn.kernels.{module}").WITH_SIGNATURES[name]

    def found(self, worthwhile: bool, loading: bool = True) -> Any:
        """Return the kernel if it is in memory, or on disk, or worth a compilation; else None.

        Parameters
        ----------
        worthwhile : bool
            Whether a second of compilation pays.
        loading : bool, default=True
            Whether half a second pays: that of importing numba, where nobody has.
        """
        if self.in_memory is not None or not (worthwhile or loading or "numba" in sys.modules):
            return self.in_memory
        if (worthwhile or not self._was_looked_for) and is_compiled():
            self._was_looked_for = True
            from skdpdyn.kernels.jit import cached

            function, signature = self.with_signature
            kernel = cached(function, fastmath=False)
            if worthwhile or _is_stored(kernel, signature):
                with no_collections():
                    kernel.compile(signature)
                kernel.disable_compile()
                self.in_memory = kernel
        return self.in_memory


def _is_stored(kernel, signature):
    """Return whether compiled code of a kernel is on disk."""
    load = getattr(kernel._cache, "load_overload", None)
    return load is not None and load(signature, kernel.targetctx) is not None


predict_rows = {dtype: WhenReady("products", dtype) for dtype in ("float64", "float32")}
"""The pass over rows of linear models, by their precision."""

write_codes, add_looked_up, add_products, add_dots, add_features = (
    WhenReady("lookups", name)
    for name in ("write_codes", "add_looked_up", "add_products", "add_dots", "add_features")
)
