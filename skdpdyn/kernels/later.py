"""Kernels of modules that predictions import, which mostly need no compiler.

What is decorated or named here is that of `skdpdyn.kernels.jit`, which is imported, and numba with
it, when the first kernel is used.
"""

from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib import import_module
from typing import Any

import numpy as np

from skdpdyn.support.startup import no_collections


def _jit():
    """Return the numba policy."""
    with no_collections():
        return import_module("skdpdyn.kernels.jit")


class Later:
    """A function that `skdpdyn.kernels.jit` decorates when it is first used, by a kernel or Python.

    numba takes it for the decorated one. It is pickled by its name.

    Parameters
    ----------
    decorator : str
        Name of the decorator.
    function : callable
        The function.
    """

    def __init__(self, decorator: str, function: Callable) -> None:
        update_wrapper(self, function)
        self._decorator = decorator
        self._function = function

    @cached_property
    def made(self) -> Any:
        """The decorated function."""
        return getattr(_jit(), self._decorator)(self._function)

    @property
    def _numba_type_(self):
        return _jit().type_of(self.made)

    def __call__(self, *arguments: Any) -> Any:
        """Call the decorated function."""
        return self.made(*arguments)

    def __getattr__(self, name):
        if name.startswith("__"):  # no protocol but that of a function
            raise AttributeError(name)
        return getattr(self.made, name)

    def __reduce__(self):
        return self.__qualname__


def inner(function: Callable) -> Later:
    """Decorate as `skdpdyn.kernels.jit.inner` does."""
    return Later("inner", function)


def inlined(function: Callable) -> Later:
    """Decorate as `skdpdyn.kernels.jit.inlined` does."""
    return Later("inlined", function)


def merged(function: Callable) -> Later:
    """Decorate as `skdpdyn.kernels.jit.merged` does."""
    return Later("merged", function)


def strict(function: Callable) -> Later:
    """Decorate as `skdpdyn.kernels.jit.strict` does."""
    return Later("strict", function)


def built_in(function: Callable) -> Later:
    """Decorate plain Python that `skdpdyn.kernels.jit` compiles to an instruction of its own."""
    return Later("built_in", function)


@built_in
def double_of_bits(bits):
    """Return the double that has the bits of an int64."""
    return np.int64(bits).view(np.float64)


@built_in
def source_of(generator):
    """Return the generator as kernels take it; plain Python takes it as it is."""
    return generator


@built_in
def uniform(source):
    """Draw a uniform double in [0, 1), the one that the generator's ``random()`` would draw."""
    return source.random()


class _Types:
    """Types of numba, by name."""

    def __getattr__(self, name):
        return getattr(_jit().types, name)


types = _Types()


def is_compiled() -> bool:
    """Return whether there is a JIT compiler."""
    return not _jit().numba.config.DISABLE_JIT


def generator_type() -> Any:
    """Return the type of a ``numpy.random.Generator``, whatever bit generator it wraps."""
    return _jit().generator_type


def source_type() -> Any:
    """Return the type of what `source_of` returns."""
    return _jit().source_type


def residual_signature(several: bool) -> Any:
    """Return the signature of the derivative of a loss, of one output or of several."""
    return _jit().residual_matrix_signature if several else _jit().residual_signature


def entry(signature: Any, **options: Any) -> Callable:
    """Return the decorator of `skdpdyn.kernels.jit.entry`."""
    return _jit().entry(signature, **options)


def readonly(dtype: Any, ndim: int = 1) -> Any:
    """Return the type of `skdpdyn.kernels.jit.readonly`."""
    return _jit().readonly(dtype, ndim)


def writable(dtype: Any, ndim: int = 1) -> Any:
    """Return the type of `skdpdyn.kernels.jit.writable`."""
    return _jit().writable(dtype, ndim)


def aligned_empty(size, dtype=np.float64):
    """Return a vector that starts on a cache line: a step is up to 9 % faster."""
    n_bytes = size * np.dtype(dtype).itemsize
    buffer = np.empty(n_bytes + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + n_bytes].view(dtype)
