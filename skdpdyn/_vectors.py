"""Vectors of eight doubles, for kernels that have to say which loads, products and prefetches happen when.

The compiler turns plain loops into vectors too, but not loops that prefetch, and of every loop it makes several versions: for
arrays that overlap, for what is left over. Numbers of single precision become doubles when they are loaded. An index counts
elements of the flattened C-ordered array, and is not checked.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from skdpdyn._jit import FASTMATH, element_pointer, prefetch_line

WIDTH = 8

if numba.config.DISABLE_JIT:

    def filled(number):
        """Vector of eight times the same number."""
        return np.full(WIDTH, number, np.float64)

    def load(array, index):
        """Vector of the eight elements from ``index`` on."""
        return array.reshape(-1)[index : index + WIDTH].astype(np.float64)

    def load_part(array, index, count):
        """The same of the first ``count`` of them, and zeros; all or none where ``count`` is beyond eight or below one."""
        vector, count = np.zeros(WIDTH), min(max(count, 0), WIDTH)
        vector[:count] = array.reshape(-1)[index : index + count]
        return vector

    def store(array, index, vector):
        """Write the vector to the eight elements from ``index`` on, doubles."""
        array.reshape(-1)[index : index + WIDTH] = vector

    def multiply_add(a, b, c):
        """``a * b + c``, element by element."""
        return a * b + c

    def clamp(a, limit):
        """Elements of ``a`` that are beyond plus or minus ``limit`` moved there; NaN becomes ``limit``."""
        a = np.where(a <= limit, a, limit)
        return np.where(a >= -limit, a, -limit)

    def total(a):
        """Sum of the elements."""
        return a.sum()

    def prefetch_two(array, index):
        """Nothing: plain Python has no cache to fill."""

else:
    _DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
    _INT32, _INT64 = ir.IntType(32), ir.IntType(64)

    class _Vector(types.Type):
        """Type of a vector of eight doubles."""

        def __init__(self):
            super().__init__(name="vector of eight doubles")

    @register_model(_Vector)
    class _VectorModel(models.PrimitiveModel):
        """In LLVM a vector, which lives in registers."""

        def __init__(self, manager, kind):
            super().__init__(manager, kind, _DOUBLES)

    _vector = _Vector()

    def _pick(builder, vector, lanes):
        """Vector of these lanes of ``vector``."""
        return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_INT32, len(lanes)), [_INT32(k) for k in lanes]))

    def _filled(builder, number):
        """Vector of eight times the same number."""
        undefined = ir.Constant(ir.VectorType(number.type, WIDTH), ir.Undefined)
        return _pick(builder, builder.insert_element(undefined, number, _INT32(0)), [0] * WIDTH)

    def _pointer(context, builder, array_type, array, index):
        """Pointer to the eight elements from ``index`` on, and their type."""
        pointer = element_pointer(context, builder, array_type, array, index)
        kind = ir.VectorType(context.get_data_type(array_type.dtype), WIDTH)
        return builder.bitcast(pointer, kind.as_pointer()), kind

    def _alignment(array):
        return array.dtype.bitwidth // 8

    def _widened(builder, vector):
        return vector if vector.type == _DOUBLES else builder.fpext(vector, _DOUBLES)

    @intrinsic
    def filled(typing_context, number):
        """Vector of eight times the same number."""

        def codegen(context, builder, signature, args):
            return _filled(builder, *args)

        return _vector(types.float64), codegen

    @intrinsic
    def load(typing_context, array, index):
        """Vector of the eight elements from ``index`` on."""

        def codegen(context, builder, signature, args):
            pointer, _ = _pointer(context, builder, array, *args)
            return _widened(builder, builder.load(pointer, align=_alignment(array)))

        return _vector(array, types.intp), codegen

    @intrinsic
    def load_part(typing_context, array, index, count):
        """The same of the first ``count`` of them, and zeros; all or none where ``count`` is beyond eight or below one."""

        def codegen(context, builder, signature, args):
            *place, count = args
            pointer, kind = _pointer(context, builder, array, *place)
            numbers = ir.Constant(ir.VectorType(_INT64, WIDTH), [_INT64(k) for k in range(WIDTH)])
            mask = builder.icmp_signed("<", numbers, _filled(builder, count))
            arguments = [pointer, _INT32(_alignment(array)), mask, ir.Constant(kind, [0.0] * WIDTH)]
            function_type = ir.FunctionType(kind, [argument.type for argument in arguments])
            name = f"llvm.masked.load.v8f{array.dtype.bitwidth}.p0"
            return _widened(builder, builder.call(builder.module.declare_intrinsic(name, (), function_type), arguments))

        return _vector(array, types.intp, types.intp), codegen

    @intrinsic
    def store(typing_context, array, index, vector):
        """Write the vector to the eight elements from ``index`` on, doubles."""

        def codegen(context, builder, signature, args):
            *place, vector = args
            pointer, _ = _pointer(context, builder, array, *place)
            builder.store(vector, pointer, align=_alignment(array))
            return context.get_dummy_value()

        return types.void(array, types.intp, vector), codegen

    @intrinsic
    def multiply_add(typing_context, a, b, c):
        """``a * b + c``, element by element."""

        def codegen(context, builder, signature, args):
            a, b, c = args
            return builder.fadd(builder.fmul(a, b, flags=FASTMATH), c, flags=FASTMATH)

        return _vector(_vector, _vector, _vector), codegen

    @intrinsic
    def clamp(typing_context, a, limit):
        """Elements of ``a`` that are beyond plus or minus ``limit`` moved there; NaN becomes ``limit``."""

        def codegen(context, builder, signature, args):
            a, limit = args
            a = builder.select(builder.fcmp_ordered("<=", a, limit), a, limit)
            opposite = builder.fneg(limit)
            return builder.select(builder.fcmp_ordered(">=", a, opposite), a, opposite)

        return _vector(_vector, _vector), codegen

    @intrinsic
    def total(typing_context, a):
        """Sum of the elements."""

        def codegen(context, builder, signature, args):
            (a,), width = args, WIDTH
            while width > 1:
                width //= 2
                a = builder.fadd(_pick(builder, a, range(width)), _pick(builder, a, range(width, 2 * width)), flags=FASTMATH)
            return builder.extract_element(a, _INT32(0))

        return types.float64(_vector), codegen

    @intrinsic
    def prefetch_two(typing_context, array, index):
        """Start loading two vectors: the sixteen elements from ``index`` on, as `skdpdyn._jit.prefetch` does one line."""

        def codegen(context, builder, signature, args):
            pointer = builder.bitcast(element_pointer(context, builder, array, *args), ir.IntType(8).as_pointer())
            for line in range(2 * WIDTH * _alignment(array) // 64):
                prefetch_line(builder, builder.gep(pointer, [_INT32(64 * line)]))
            return context.get_dummy_value()

        return types.void(array, types.intp), codegen
