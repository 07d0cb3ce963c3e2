"""Vectors of eight doubles, for kernels that have to say which loads, products and prefetches happen when.

The compiler turns plain loops into vectors too, but not loops that prefetch, and of every loop it makes several versions: for
arrays that overlap, for what is left over. Numbers of single precision become doubles when they are loaded. An index counts
elements of the flattened C-ordered array, and is not checked.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
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

    def load_rows(array, starts, offset):
        """Tuple of the vectors that start ``offset`` elements after each of the tuple ``starts``."""
        return tuple(load(array, start + offset) for start in starts)

    def load_part_of_rows(array, starts, offset, count):
        """The same of the first ``count`` elements of each vector, and zeros, as `load_part`."""
        return tuple(load_part(array, start + offset, count) for start in starts)

    def filled_four(array, index):
        """Tuple of four vectors, each of eight times the same number: of the four elements from ``index`` on."""
        return tuple(filled(number) for number in array.reshape(-1)[index : index + 4])

    def store(array, index, vector):
        """Write the vector to the eight elements from ``index`` on, doubles."""
        array.reshape(-1)[index : index + WIDTH] = vector

    def store_totals(array, index, vectors):
        """Write the sum of the elements of each vector of a tuple to the elements from ``index`` on, doubles."""
        for k, vector in enumerate(vectors):
            array.reshape(-1)[index + k] = vector.sum()

    def multiply_add(a, b, c):
        """``a * b + c``, element by element."""
        return a * b + c

    def multiply_add_each(rows, factor, sums):
        """Tuple of ``row * factor + sum`` for each row and each sum of two tuples."""
        return tuple(multiply_add(row, factor, sum_) for row, sum_ in zip(rows, sums, strict=True))

    def multiply_add_all(rows, factors, sum_):
        """``sum_`` and ``row * factor`` for each row and each factor of two tuples, all added up."""
        for row, factor in zip(rows, factors, strict=True):
            sum_ = multiply_add(row, factor, sum_)
        return sum_

    def clamp(a, limit):
        """Elements of ``a`` that are beyond plus or minus ``limit`` moved there; NaN becomes ``limit``."""
        a = np.where(a <= limit, a, limit)
        return np.where(a >= -limit, a, -limit)

    def total(a):
        """Sum of the elements."""
        return a.sum()

    def prefetch_rows(array, starts, offset):
        """Nothing: plain Python has no cache to fill."""

    def zeros_on_stack(capacity, size):
        """Vector of ``size`` zeros, at most ``capacity``."""
        return np.zeros(size)

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

    def _load(context, builder, array_type, array, index):
        pointer, _ = _pointer(context, builder, array_type, array, index)
        return _widened(builder, builder.load(pointer, align=_alignment(array_type)))

    def _mask(builder, count):
        """Which of eight lanes are among the first ``count``."""
        numbers = ir.Constant(ir.VectorType(_INT64, WIDTH), [_INT64(k) for k in range(WIDTH)])
        return builder.icmp_signed("<", numbers, _filled(builder, count))

    def _load_masked(context, builder, array_type, array, index, mask):
        pointer, kind = _pointer(context, builder, array_type, array, index)
        arguments = [pointer, _INT32(_alignment(array_type)), mask, ir.Constant(kind, [0.0] * WIDTH)]
        function_type = ir.FunctionType(kind, [argument.type for argument in arguments])
        name = f"llvm.masked.load.v{WIDTH}f{array_type.dtype.bitwidth}.p0"
        return _widened(builder, builder.call(builder.module.declare_intrinsic(name, (), function_type), arguments))

    def _multiply_add(builder, a, b, c):
        return builder.fadd(builder.fmul(a, b, flags=FASTMATH), c, flags=FASTMATH)

    def _total(builder, vector):
        width = WIDTH
        while width > 1:
            width //= 2
            halves = _pick(builder, vector, range(width)), _pick(builder, vector, range(width, 2 * width))
            vector = builder.fadd(*halves, flags=FASTMATH)
        return builder.extract_element(vector, _INT32(0))

    def _places(builder, starts, offset):
        return [builder.add(start, offset) for start in cgutils.unpack_tuple(builder, starts)]

    @intrinsic
    def load(typing_context, array, index):
        """Vector of the eight elements from ``index`` on."""

        def codegen(context, builder, signature, args):
            return _load(context, builder, array, *args)

        return _vector(array, types.intp), codegen

    @intrinsic
    def load_part(typing_context, array, index, count):
        """The same of the first ``count`` of them, and zeros; all or none where ``count`` is beyond eight or below one."""

        def codegen(context, builder, signature, args):
            *place, count = args
            return _load_masked(context, builder, array, *place, _mask(builder, count))

        return _vector(array, types.intp, types.intp), codegen

    @intrinsic
    def load_rows(typing_context, array, starts, offset):
        """Tuple of the vectors that start ``offset`` elements after each of the tuple ``starts``."""

        def codegen(context, builder, signature, args):
            array_, *places = args
            loaded = [_load(context, builder, array, array_, place) for place in _places(builder, *places)]
            return cgutils.pack_array(builder, loaded)

        return types.UniTuple(_vector, len(starts))(array, starts, types.intp), codegen

    @intrinsic
    def load_part_of_rows(typing_context, array, starts, offset, count):
        """The same of the first ``count`` elements of each vector, and zeros, as `load_part`."""

        def codegen(context, builder, signature, args):
            array_, *places, count = args
            mask = _mask(builder, count)
            loaded = [_load_masked(context, builder, array, array_, place, mask) for place in _places(builder, *places)]
            return cgutils.pack_array(builder, loaded)

        return types.UniTuple(_vector, len(starts))(array, starts, types.intp, types.intp), codegen

    @intrinsic
    def filled_four(typing_context, array, index):
        """Tuple of four vectors, each of eight times the same number: of the four elements from ``index`` on."""

        def codegen(context, builder, signature, args):
            pointer = element_pointer(context, builder, array, *args)
            numbers = [builder.load(builder.gep(pointer, [_INT32(k)])) for k in range(4)]
            return cgutils.pack_array(builder, [_filled(builder, number) for number in numbers])

        return types.UniTuple(_vector, 4)(array, types.intp), codegen

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
    def store_totals(typing_context, array, index, vectors):
        """Write the sum of the elements of each vector of a tuple to the elements from ``index`` on, doubles."""

        def codegen(context, builder, signature, args):
            *place, vectors = args
            pointer = element_pointer(context, builder, array, *place)
            for k, vector in enumerate(cgutils.unpack_tuple(builder, vectors)):
                builder.store(_total(builder, vector), builder.gep(pointer, [_INT32(k)]))
            return context.get_dummy_value()

        return types.void(array, types.intp, vectors), codegen

    @intrinsic
    def multiply_add(typing_context, a, b, c):
        """``a * b + c``, element by element."""

        def codegen(context, builder, signature, args):
            return _multiply_add(builder, *args)

        return _vector(_vector, _vector, _vector), codegen

    @intrinsic
    def multiply_add_each(typing_context, rows, factor, sums):
        """Tuple of ``row * factor + sum`` for each row and each sum of two tuples."""

        def codegen(context, builder, signature, args):
            rows, factor, sums = args
            pairs = zip(cgutils.unpack_tuple(builder, rows), cgutils.unpack_tuple(builder, sums), strict=True)
            return cgutils.pack_array(builder, [_multiply_add(builder, row, factor, sum_) for row, sum_ in pairs])

        return rows(rows, _vector, rows), codegen

    @intrinsic
    def multiply_add_all(typing_context, rows, factors, sum_):
        """``sum_`` and ``row * factor`` for each row and each factor of two tuples, all added up."""

        def codegen(context, builder, signature, args):
            rows, factors, sum_ = args
            for row, factor in zip(cgutils.unpack_tuple(builder, rows), cgutils.unpack_tuple(builder, factors), strict=True):
                sum_ = _multiply_add(builder, row, factor, sum_)
            return sum_

        return _vector(rows, rows, _vector), codegen

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
            return _total(builder, *args)

        return types.float64(_vector), codegen

    @intrinsic
    def prefetch_rows(typing_context, array, starts, offset):
        """Start loading two vectors of each row, from ``offset`` elements after its start, as `prefetch` does one line."""

        def codegen(context, builder, signature, args):
            array_, *places = args
            for place in _places(builder, *places):
                pointer = builder.bitcast(element_pointer(context, builder, array, array_, place), ir.IntType(8).as_pointer())
                for line in range(2 * WIDTH * _alignment(array) // 64):
                    prefetch_line(builder, builder.gep(pointer, [_INT32(64 * line)]))
            return context.get_dummy_value()

        return types.void(array, starts, types.intp), codegen

    @intrinsic(prefer_literal=True)
    def zeros_on_stack(typing_context, capacity, size):
        """Vector of ``size`` zeros, at most ``capacity``, a number in the code; gone when the function returns.

        Unlike np.zeros it cannot fail, and takes a tenth of a second less to compile.
        """
        kind = types.Array(types.float64, 1, "C")

        def codegen(context, builder, signature, args):
            memory = cgutils.alloca_once(builder, ir.DoubleType(), capacity.literal_value)
            memory.align = 64
            cgutils.memset(builder, memory, context.get_constant(types.intp, 8 * capacity.literal_value), 0)
            vector, (_, size) = context.make_array(kind)(context, builder), args
            eight = context.get_constant(types.intp, 8)
            context.populate_array(vector, data=memory, shape=[size], strides=[eight], itemsize=eight, meminfo=None)
            return vector._getvalue()

        return kind(capacity, types.intp), codegen
