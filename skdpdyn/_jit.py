"""The numba policy, said once: how every kernel of the library is compiled.

Kernels are cached on disk and release the GIL. Floating-point reassociation and contraction are allowed, so that dot
products vectorise; ``nnan`` and ``ninf`` never are, because they make ``isnan`` false in code that bounds and adds noise.
No kernel starts a thread: parallel fits run these kernels from a ``ThreadPoolExecutor``.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.types.function_type import CompileResultWAP
from numba.extending import intrinsic

_OPTIONS = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
}

inner = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)
"""Decorator of functions that only other kernels call: typed where they are used."""


def entry(signature):
    """Decorator of functions that Python calls: compiled for one explicit signature.

    The explicit signature is what lets a loss enter as a first-class function and still hit the disk cache.
    """
    return numba.njit(signature, **_OPTIONS)


def first_class(function):
    """A function compiled by `entry` as the value that a ``FunctionType`` argument is: converting it costs 20 us a call."""
    if numba.config.DISABLE_JIT:
        return function
    (compiled,) = function.overloads.values()
    return CompileResultWAP(compiled)


def direct(function):
    """A function compiled by `entry`, to be called with arguments of exactly its types: call the function itself with them first.

    It would look at their types every time, which for functions among them takes longer than a thread's share of a small pass.
    """
    if numba.config.DISABLE_JIT:
        return function
    (compiled,) = function.overloads.values()
    return compiled.entry_point


if numba.config.DISABLE_JIT:

    def prefetch(array, index):
        """Nothing: plain Python has no cache to fill."""

else:

    @intrinsic
    def prefetch(typing_context, array, index):
        """Start loading element ``index`` of the flattened C-ordered ``array``; may point past its end.

        Into the second level: a core has a few loads into the first under way at a time, which the kernels' own would wait for.
        On a Zen 4 a step takes 0.6 of the time that it takes with prefetches into the first.
        """

        def codegen(context, builder, signature, args):
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            function = builder.module.declare_intrinsic(
                "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
            )
            address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
            builder.call(function, [address, word(0), word(2), word(1)])  # for reading, into level 2, data
            return context.get_dummy_value()

        return types.void(array, types.intp), codegen


def aligned_empty(size, dtype=np.float64):
    """Vector that starts on a cache line: 1 to 9 % of a step faster than one 16 bytes further on."""
    n_bytes = size * np.dtype(dtype).itemsize
    buffer = np.empty(n_bytes + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + n_bytes].view(dtype)


def readonly(dtype, ndim=1):
    """C-ordered array type that takes read-only arrays (memory maps) and writable ones alike."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C", readonly=True)


def writable(dtype, ndim=1):
    """C-ordered array type that the kernel may write to."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C")


generator = numba.typeof(np.random.Generator(np.random.PCG64(0)))
"""Type of a ``numpy.random.Generator``, whatever bit generator it wraps."""

residual_signature = types.void(writable(np.float64), readonly(np.float64), writable(np.float64))
residual_function = types.FunctionType(residual_signature)
"""Type of a loss inside a kernel: ``residual(raw_prediction, y, out)`` on a block of rows."""

residual_matrix_signature = types.void(writable(np.float64, 2), readonly(np.float64), writable(np.float64, 2))
residual_matrix_function = types.FunctionType(residual_matrix_signature)
"""The same of a loss with several outputs: a row of raw predictions for each row of the block."""
