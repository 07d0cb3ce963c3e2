"""The numba policy: how every kernel of the library is compiled.

Kernels are cached on disk, where a directory can be written: ``NUMBA_CACHE_DIR``, which copies of
the package share that have the same kernels, or else beside the package or in the user's cache.
Code in damaged files is compiled anew, and all code after any kernel's source has changed. Kernels
release the GIL. Floating-point reassociation and contraction are allowed, so that dot products
vectorise; ``nnan`` and ``ninf`` never are, because they make ``isnan`` false in code that bounds
and adds noise. No kernel starts a thread: parallel fits run these kernels from a
``ThreadPoolExecutor``.
"""

import ctypes
import hashlib
import os
import pickle
import warnings
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.types.function_type import CompileResultWAP
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, typeof_impl

from skdpdyn.support.startup import no_collections

FASTMATH = "contract", "reassoc", "nsz", "arcp"
_OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": set(FASTMATH)}
# in the environment, so that worker processes do not repeat it
_SAID = "_SKDPDYN_SAID_THAT_NOTHING_IS_CACHED"
_DIGEST = hashlib.sha256().digest_size


def kernel_files() -> list:
    """Return the files that have kernels."""
    package = files("skdpdyn")
    modules = [package / "core/losses.py", *(package / "kernels").iterdir()]
    return [path for path in modules if path.name.endswith(".py")]


@cache
def _kernel_sources() -> str:
    """Return a digest of the source of all kernels, since compiled code contains its callees."""
    return hashlib.sha256(
        b"".join(sorted(path.read_bytes() for path in kernel_files()))
    ).hexdigest()


@cache
def shared_folder(file: str) -> str | None:
    """Make the directory that all copies of a file with kernels share, if there is one.

    A user's own loss, which the digest does not cover, has numba's place: its path and time.
    """
    if not numba.config.CACHE_DIR or file not in map(str, kernel_files()):
        return None
    folder = os.path.join(numba.config.CACHE_DIR, f"skdpdyn-{_kernel_sources()[:20]}")
    os.makedirs(folder, exist_ok=True)
    return folder


class _CheckedFiles(IndexDataCacheFile):
    """Files of compiled code with their signature and a checksum.

    Two processes that compile at once may write to one file, and one of them then finds the code of
    the other, which is of another signature or an older source.
    """

    def save(self, key, data):
        """Write compiled code, and a digest of its source."""
        super().save(key, (self._source_stamp, key, data))

    def load(self, key):
        """Return compiled code, or None where there is none that was compiled from this."""
        stamp, saved_key, data = super().load(key) or (None, None, None)
        return data if (stamp, saved_key) == (self._source_stamp, key) else None

    def _load_index(self):
        try:
            return super()._load_index()
        except Exception:  # whatever pickle makes of other bytes
            return {}

    def _save_data(self, name, data):
        data = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(data).digest() + data)

    def _load_data(self, name):
        with open(self._data_path(name), "rb") as file:
            digest = file.read(_DIGEST)
            data = file.read()
        return pickle.loads(data) if hashlib.sha256(data).digest() == digest else None


class _Cache(FunctionCache):
    """The disk cache of a function, which also compiles without it."""

    def __init__(self, function):
        super().__init__(function)
        base = self._impl.filename_base
        stamp = _kernel_sources()
        folder = shared_folder(function.__code__.co_filename)
        if folder is None:
            numbas = self._cache_file
            folder = numbas._cache_path
            stamp = (numbas._source_stamp, stamp)
        self._cache_path = folder
        self._cache_file = _CheckedFiles(folder, base, stamp)

    def load_overload(self, signature, target_context):
        """Return the compiled function, or None if no readable one is stored."""
        try:
            # numba's own refreshes all that it compiles with, which takes longer than loading
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(signature, target_context)
        except Exception:  # unreadable files, and what numba cannot make a function of
            return None

    def save_overload(self, signature, data):
        """Write the compiled function, or warn that it cannot be written."""
        try:
            super().save_overload(signature, data)
        except RuntimeError as error:  # no machine code: a callback of LLVM's was interrupted
            raise KeyboardInterrupt from error
        except OSError as error:  # a full disk, a directory that is gone
            _say_that_nothing_iscached(error.strerror)


def _say_that_nothing_iscached(reason: str | None) -> None:
    """Warn once; the warning depends on the file system and not on records."""
    if _SAID in os.environ:
        return
    os.environ[_SAID] = "1"
    warnings.warn(
        f"compiled code cannot be written to disk ({reason}), so that every process compiles for "
        "seconds what it needs. Set the environment variable NUMBA_CACHE_DIR to a directory that "
        "can be written",
        RuntimeWarning,
        stacklevel=2,
    )


def cached(function: Callable, **options) -> Any:
    """Return the function as numba compiles it, with a disk cache where there can be one."""
    compiled = numba.njit(**(_OPTIONS | options))(function)
    if not numba.config.DISABLE_JIT:
        try:
            compiled._cache = _Cache(function)
        except (RuntimeError, OSError):  # "no locator available": no directory can be written
            _say_that_nothing_iscached("no directory for it can be written")
    return compiled


def _compiled(function: Callable, signature: Any, **options) -> Any:
    """Return the function compiled for one signature and no other."""
    compiled = cached(function, **options)
    if not numba.config.DISABLE_JIT:
        with no_collections():
            compiled.compile(signature)
        compiled.disable_compile()
    return compiled


def inner(function: Callable) -> Any:
    """Decorate functions that only other kernels call: typed where they are used."""
    return cached(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Callable) -> Any:
    """Decorate short functions as `inner` does, copied to where they are called."""
    return cached(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def merged(function: Callable) -> Any:
    """Decorate functions that are called in one place: compiled as a part of their caller.

    Every function is compiled whole, with all that it calls: a chain of ten costs ten times.
    """
    return cached(function, inline="always")


def strict(function: Callable) -> Any:
    """Decorate functions as `inner` does, but keep IEEE 754 arithmetic in the order written."""
    return cached(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath=False)


def built_in(function: Callable) -> Any:
    """Return the compiled function that replaces one of plain Python, by its name."""
    return function if numba.config.DISABLE_JIT else globals()[function.__name__]


def type_of(value: Any) -> Any:
    """Return the type that kernels see in a compiled function or an intrinsic."""
    return cpu_target.typing_context.resolve_value_type(value)


def entry(signature: Any, **options: Any) -> Callable:
    """Return a decorator of functions that Python calls: compiled for one explicit signature.

    The explicit signature is what lets a loss enter as a first-class function and still hit the
    disk cache.
    """
    return lambda function: _compiled(function, signature, **options)


def component(signature: Any) -> Callable:
    """Return a decorator of functions that kernels take as values and Python never calls.

    They are compiled without what a call from Python takes.
    """
    return lambda function: first_class(_compiled(function, signature, no_cpython_wrapper=True))


@cache
def first_class(function):
    """Return a compiled `entry` as a value for kernels: converting its type costs 20 us a call."""
    if numba.config.DISABLE_JIT:
        return function
    (compiled,) = function.overloads.values()
    return _FunctionValue(compiled)


class _FunctionValue(CompileResultWAP):
    """A compiled function that knows its type, which costs numba 15 us a call to make."""

    def __init__(self, compiled):
        super().__init__(compiled)
        self.type = function_type(compiled.signature)


class _Precise(Signature):
    """A signature of known types, of which numba makes sure at every call, for 15 us."""

    def is_precise(self):
        """Return True."""
        return True

    def __unliteral__(self):
        return self


def function_type(signature):
    """Return the type of functions that kernels take as values."""
    return types.FunctionType(_Precise(signature.return_type, signature.args, None))


@typeof_impl.register(_FunctionValue)
def _type_of_function_value(value, context):
    return value.type


def element_pointer(context, builder, array_type, array, index):
    """Return a pointer to element ``index`` of the flattened C-ordered ``array``."""
    return builder.gep(context.data_model_manager[array_type].get(builder, array, "data"), [index])


def prefetch_line(builder, pointer):
    """Start loading the cache line that a pointer points to, for reading, into level 2."""
    word = ir.IntType(32)
    arguments = [builder.bitcast(pointer, ir.IntType(8).as_pointer()), word(0), word(2), word(1)]
    function_type = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    builder.call(
        builder.module.declare_intrinsic("llvm.prefetch", [arguments[0].type], function_type),
        arguments,
    )


if numba.config.DISABLE_JIT:

    def prefetch(array, index):
        """Do nothing: plain Python has no cache to fill."""
else:  # compiled

    @intrinsic
    def prefetch(typing_context, array, index):
        """Prefetch element ``index`` of the flattened C-ordered ``array``; it may be past the end.

        Into the second level: a core has a few loads into the first under way at a time, which the
        kernels' own would wait for. On a Zen 4 a step takes 0.6 of the time that it takes with
        prefetches into the first.
        """

        def codegen(context, builder, signature, args):
            prefetch_line(builder, element_pointer(context, builder, signature.args[0], *args))
            return context.get_dummy_value()

        return types.void(array, types.intp), codegen

    @intrinsic
    def double_of_bits(typing_context, bits):
        """Return the double that has the bits of an int64."""

        def codegen(context, builder, signature, args):
            return builder.bitcast(*args, ir.DoubleType())

        return types.float64(types.int64), codegen

    def source_of(generator):
        """Return a generator as kernels take it, for as long as it lives: its state, its function.

        numba would look both up at every call, for 30 us.
        """
        interface = generator.bit_generator.ctypes
        return interface.state_address, ctypes.c_void_p.from_buffer(interface.next_double).value

    @intrinsic
    def uniform(typing_context, source):
        """Draw a uniform double in [0, 1), the one that the generator's ``random()`` would draw."""

        def codegen(context, builder, signature, args):
            state, function = cgutils.unpack_tuple(builder, args[0])
            of_state = ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.DoubleType(), [of_state]).as_pointer()
            state = builder.inttoptr(state, of_state)
            function = builder.inttoptr(function, kind)
            return builder.call(function, [state])

        return types.float64(source_type), codegen


def readonly(dtype, ndim=1):
    """Return a C-ordered array type that takes read-only and writable arrays."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C", readonly=True)


def writable(dtype, ndim=1):
    """Return a C-ordered array type that the kernel may write to."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C")


generator_type = numba.typeof(np.random.Generator(np.random.PCG64(0)))
"""Type of a ``numpy.random.Generator``, whatever bit generator it wraps."""

source_type = types.UniTuple(types.int64, 2)
"""Type of what `source_of` returns."""

residual_signature = types.void(writable(np.float64), readonly(np.float64), writable(np.float64))
residual_function = function_type(residual_signature)
"""Type of a loss inside a kernel: ``residual(raw_prediction, y, out)`` on a block of rows."""

residual_matrix_signature = types.void(
    writable(np.float64, 2), readonly(np.float64), writable(np.float64, 2)
)
residual_matrix_function = function_type(residual_matrix_signature)
"""Return the signature for several outputs: a column of raw predictions for each row of a block."""
