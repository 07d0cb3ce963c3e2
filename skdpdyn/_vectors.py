"""Vectors of numbers, for kernels that have to say which loads, products and prefetches happen when.

The compiler turns plain loops into vectors too, but not loops that prefetch, and of every loop it makes several versions: for
arrays that overlap, for what is left over. An index counts elements of the flattened C-ordered array, and is not checked.

A vector is eight doubles, which numbers of single precision become when they are loaded; or a register, as many numbers of the
array's own precision as one of the processor holds. Where several rows are at work at once, vectors come in tuples.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, codegen
from numba.extending import intrinsic, models, register_model

from skdpdyn._jit import FASTMATH, element_pointer, prefetch_line

WIDTH = 8


def _register_bytes():
    """Bytes of a register of the processor that numba compiles for."""
    features = codegen.get_host_cpu_features() if numba.config.CPU_FEATURES is None else numba.config.CPU_FEATURES
    return 64 if "+avx512f" in features else 32 if "+avx" in features else 16


REGISTER_BYTES = _register_bytes()
_CACHE_LINE = 64

if numba.config.DISABLE_JIT:

    def filled(number):
        """Vector of eight times the same number."""
        return np.full(WIDTH, number, np.float64)

    def load(array, index):
        """Vector of the eight elements from ``index`` on."""
        return array.reshape(-1)[index : index + WIDTH].astype(np.float64)

    def load_part(array, index, count):
        """The same of the first ``count`` of them, and zeros; all or none where ``count`` is beyond eight or below one."""
        return _part(array, index, count, np.zeros(WIDTH))

    def _part(array, index, count, vector):
        count = min(max(count, 0), vector.size)
        vector[:count] = array.reshape(-1)[index : index + count]
        return vector

    def store(array, index, vector):
        """Write the vector to the elements from ``index`` on, which are of its precision."""
        array.reshape(-1)[index : index + vector.size] = vector

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

    def register_size(array):
        """How many elements of the array a register holds."""
        return REGISTER_BYTES // array.itemsize

    def zero_registers(array, count):
        """Tuple of ``count`` registers of zeros."""
        return (np.zeros(register_size(array), array.dtype),) * count

    def load_rows(array, starts, offset):
        """Tuple of the vectors that start ``offset`` elements after each of the tuple ``starts``."""
        return tuple(load(array, start + offset) for start in starts)

    def load_part_of_rows(array, starts, offset, count):
        """The same of the first ``count`` elements of each vector, and zeros, as `load_part`."""
        return tuple(load_part(array, start + offset, count) for start in starts)

    def load_registers(array, starts, offset):
        """Tuple of the registers that start ``offset`` elements after each of the tuple ``starts``."""
        return load_part_of_registers(array, starts, offset, REGISTER_BYTES)

    def load_part_of_registers(array, starts, offset, count):
        """The same of the first ``count`` elements of each register, and zeros."""
        return tuple(_part(array, start + offset, count, *zero_registers(array, 1)) for start in starts)

    def load_numbers(array, starts, count):
        """Tuple of the ``count`` elements from each of the tuple ``starts`` on."""
        return tuple(array.reshape(-1)[start + k] for start in starts for k in range(count))

    def store_rows(array, starts, offset, vectors):
        """Write vectors to the elements that start ``offset`` after each of the tuple ``starts``, and are of their precision."""
        for start, vector in zip(starts, vectors, strict=True):
            store(array, start + offset, vector)

    def store_totals(array, starts, vectors):
        """Write the sum of each vector: for each of the tuple ``starts`` of its share of them, to the elements from there on."""
        count = len(vectors) // len(starts)
        for k, vector in enumerate(vectors):
            array.reshape(-1)[starts[k // count] + k % count] = vector.sum()

    def add_outer(a, b, sums):
        """``sums`` and the products of each vector of ``a`` with each of ``b``: a tuple, those with the first of ``a`` first."""
        products = [(x, y) for x in a for y in b]
        return tuple(multiply_add(x, y, sum_) for (x, y), sum_ in zip(products, sums, strict=True))

    def add_inner(factors, b, sums):
        """To each of ``sums`` add the products of its share of ``factors``, numbers, with ``b``, one vector after the other."""
        factors, sums = iter(factors), list(sums)
        for k in range(len(sums)):
            for y in b:
                sums[k] = multiply_add(next(factors), y, sums[k])
        return tuple(sums)

    def prefetch_rows(array, starts, offset, count):
        """Nothing: plain Python has no cache to fill."""

    def zeros_on_stack(capacity, size):
        """Vector of ``size`` zeros, at most ``capacity``."""
        return np.zeros(size)

else:  # compiled
    _INT32, _INT64 = ir.IntType(32), ir.IntType(64)

    class _Vector(types.Type):
        """Type of a vector of so many numbers of ``dtype``."""

        def __init__(self, dtype, width):
            self.dtype, self.width = dtype, width
            super().__init__(name=f"vector of {width} {dtype}")

    @register_model(_Vector)
    class _VectorModel(models.PrimitiveModel):
        """In LLVM a vector, which lives in registers."""

        def __init__(self, manager, kind):
            super().__init__(manager, kind, ir.VectorType(manager[kind.dtype].get_data_type(), kind.width))

    _doubles = _Vector(types.float64, WIDTH)

    def _register(array):
        return _Vector(array.dtype, 8 * REGISTER_BYTES // array.dtype.bitwidth)

    def _alignment(array):
        return array.dtype.bitwidth // 8

    def _constants(kind, numbers):
        return ir.Constant(ir.VectorType(kind, len(numbers)), [kind(number) for number in numbers])

    def _pick(builder, a, b, lanes):
        """Vector of these lanes of ``a`` and, counted on, of ``b``."""
        return builder.shuffle_vector(a, b, _constants(_INT32, lanes))

    def _filled(builder, number, width):
        undefined = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
        first = builder.insert_element(undefined, number, _INT32(0))
        return _pick(builder, first, first, [0] * width)

    def _mask(builder, count, width):
        """Which of so many lanes are among the first ``count``."""
        return builder.icmp_signed("<", _constants(_INT64, range(width)), _filled(builder, count, width))

    def _load(context, builder, kind, array_type, array, index, mask=None):
        """Vector of ``kind`` from ``index`` on, with zeros where the mask is not set."""
        pointer = element_pointer(context, builder, array_type, array, index)
        number = context.get_data_type(array_type.dtype)
        loaded = ir.VectorType(number, kind.width)
        pointer = builder.bitcast(pointer, loaded.as_pointer())
        if mask is None:
            vector = builder.load(pointer, align=_alignment(array_type))
        else:
            arguments = [pointer, _INT32(_alignment(array_type)), mask, ir.Constant(loaded, [0.0] * kind.width)]
            function_type = ir.FunctionType(loaded, [argument.type for argument in arguments])
            name = f"llvm.masked.load.v{kind.width}f{array_type.dtype.bitwidth}.p0"
            vector = builder.call(builder.module.declare_intrinsic(name, (), function_type), arguments)
        return vector if kind.dtype == array_type.dtype else builder.fpext(vector, context.get_data_type(kind))

    def _check_precision(array, *vectors):
        """Stores of another precision would write beside the elements that they mean."""
        if any(vector.dtype != array.dtype for vector in vectors):
            raise numba.TypingError(f"{vectors} cannot be stored in {array}")

    def _store(context, builder, array_type, array, index, vector):
        pointer = element_pointer(context, builder, array_type, array, index)
        builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer()), align=_alignment(array_type))

    def _multiply_add(builder, a, b, c):
        return builder.fadd(builder.fmul(a, b, flags=FASTMATH), c, flags=FASTMATH)

    def _totals(builder, vectors):
        """Vector of the sums of the elements of so many vectors, a power of two: together, in half as many instructions."""
        left = vectors[0].type.count  # neighbouring elements that belong to one sum
        while left > 1:
            halves = []
            for first in range(0, len(vectors), 2):
                pair = vectors[first : first + 2]
                lanes = [start + k for start in range(0, len(pair) * pair[0].type.count, left) for k in range(left // 2)]
                beside = [lane + left // 2 for lane in lanes]
                terms = (_pick(builder, pair[0], pair[-1], chosen) for chosen in (lanes, beside))
                halves.append(builder.fadd(*terms, flags=FASTMATH))
            vectors, left = halves, left // 2
        while len(vectors) > 1:  # more sums than a vector has room for
            lanes = range(2 * vectors[0].type.count)
            vectors = [_pick(builder, a, b, lanes) for a, b in zip(vectors[0::2], vectors[1::2], strict=True)]
        return vectors[0]

    def _unpacked(builder, signature, args):
        """The arguments, tuples as lists of what is in them."""
        kinds = zip(signature.args, args, strict=True)
        return [cgutils.unpack_tuple(builder, arg) if isinstance(kind, types.BaseTuple) else arg for kind, arg in kinds]

    @intrinsic
    def filled(typing_context, number):
        """Vector of eight times the same number."""

        def codegen(context, builder, signature, args):
            return _filled(builder, *args, WIDTH)

        return _doubles(types.float64), codegen

    @intrinsic
    def load(typing_context, array, index):
        """Vector of the eight elements from ``index`` on."""

        def codegen(context, builder, signature, args):
            return _load(context, builder, _doubles, array, *args)

        return _doubles(array, types.intp), codegen

    @intrinsic
    def load_part(typing_context, array, index, count):
        """The same of the first ``count`` of them, and zeros; all or none where ``count`` is beyond eight or below one."""

        def codegen(context, builder, signature, args):
            *place, count = args
            return _load(context, builder, _doubles, array, *place, _mask(builder, count, WIDTH))

        return _doubles(array, types.intp, types.intp), codegen

    @intrinsic
    def store(typing_context, array, index, vector):
        """Write the vector to the elements from ``index`` on, which are of its precision."""
        _check_precision(array, vector)

        def codegen(context, builder, signature, args):
            _store(context, builder, array, *args)
            return context.get_dummy_value()

        return types.void(array, types.intp, vector), codegen

    @intrinsic
    def multiply_add(typing_context, a, b, c):
        """``a * b + c``, element by element."""

        def codegen(context, builder, signature, args):
            return _multiply_add(builder, *args)

        return c(a, b, c), codegen

    @intrinsic
    def clamp(typing_context, a, limit):
        """Elements of ``a`` that are beyond plus or minus ``limit`` moved there; NaN becomes ``limit``."""

        def codegen(context, builder, signature, args):
            a, limit = args
            a = builder.select(builder.fcmp_ordered("<=", a, limit), a, limit)
            opposite = builder.fneg(limit)
            return builder.select(builder.fcmp_ordered(">=", a, opposite), a, opposite)

        return a(a, limit), codegen

    @intrinsic
    def total(typing_context, a):
        """Sum of the elements."""

        def codegen(context, builder, signature, args):
            return builder.extract_element(_totals(builder, args), _INT32(0))

        return a.dtype(a), codegen

    @intrinsic
    def register_size(typing_context, array):
        """How many elements of the array a register holds."""

        def codegen(context, builder, signature, args):
            return context.get_constant(types.intp, _register(array).width)

        return types.intp(array), codegen

    @intrinsic(prefer_literal=True)
    def zero_registers(typing_context, array, count):
        """Tuple of ``count`` registers of zeros."""
        kind = types.UniTuple(_register(array), count.literal_value)

        def codegen(context, builder, signature, args):
            return context.get_constant_null(kind)

        return kind(array, count), codegen

    def _load_tuple(array, starts, kind, count=()):
        """Signature and code of a load of one vector of ``kind``, perhaps its first ``count`` elements, for each start."""

        def codegen(context, builder, signature, args):
            array_, starts, offset, *count = _unpacked(builder, signature, args)
            mask = _mask(builder, *count, kind.width) if count else None
            places = [builder.add(start, offset) for start in starts]
            return cgutils.pack_array(builder, [_load(context, builder, kind, array, array_, place, mask) for place in places])

        return types.UniTuple(kind, len(starts))(array, starts, types.intp, *count), codegen

    @intrinsic
    def load_rows(typing_context, array, starts, offset):
        """Tuple of the vectors that start ``offset`` elements after each of the tuple ``starts``."""
        return _load_tuple(array, starts, _doubles)

    @intrinsic
    def load_part_of_rows(typing_context, array, starts, offset, count):
        """The same of the first ``count`` elements of each vector, and zeros, as `load_part`."""
        return _load_tuple(array, starts, _doubles, [types.intp])

    @intrinsic
    def load_registers(typing_context, array, starts, offset):
        """Tuple of the registers that start ``offset`` elements after each of the tuple ``starts``."""
        return _load_tuple(array, starts, _register(array))

    @intrinsic
    def load_part_of_registers(typing_context, array, starts, offset, count):
        """The same of the first ``count`` elements of each register, and zeros."""
        return _load_tuple(array, starts, _register(array), [types.intp])

    @intrinsic(prefer_literal=True)
    def load_numbers(typing_context, array, starts, count):
        """Tuple of the ``count`` elements from each of the tuple ``starts`` on."""

        def codegen(context, builder, signature, args):
            array_, starts, _ = _unpacked(builder, signature, args)
            pointers = [element_pointer(context, builder, array, array_, start) for start in starts]
            numbers = [builder.load(builder.gep(first, [_INT32(k)])) for first in pointers for k in range(count.literal_value)]
            return cgutils.pack_array(builder, numbers)

        return types.UniTuple(array.dtype, len(starts) * count.literal_value)(array, starts, count), codegen

    @intrinsic
    def store_rows(typing_context, array, starts, offset, vectors):
        """Write vectors to the elements that start ``offset`` after each of the tuple ``starts``, and are of their precision."""
        _check_precision(array, *vectors)

        def codegen(context, builder, signature, args):
            array_, starts, offset, vectors = _unpacked(builder, signature, args)
            for start, vector in zip(starts, vectors, strict=True):
                _store(context, builder, array, array_, builder.add(start, offset), vector)
            return context.get_dummy_value()

        return types.void(array, starts, types.intp, vectors), codegen

    @intrinsic
    def store_totals(typing_context, array, starts, vectors):
        """Write the sum of each vector: for each of the tuple ``starts`` of its share of them, to the elements from there on."""
        _check_precision(array, *vectors)

        def codegen(context, builder, signature, args):
            array_, starts, vectors = _unpacked(builder, signature, args)
            count = len(vectors) // len(starts)
            for k, start in enumerate(starts):
                _store(context, builder, array, array_, start, _totals(builder, vectors[k * count : (k + 1) * count]))
            return context.get_dummy_value()

        return types.void(array, starts, vectors), codegen

    @intrinsic
    def add_outer(typing_context, a, b, sums):
        """``sums`` and the products of each vector of ``a`` with each of ``b``: a tuple, those with the first of ``a`` first."""

        def codegen(context, builder, signature, args):
            a, b, sums = _unpacked(builder, signature, args)
            products = zip(((x, y) for x in a for y in b), sums, strict=True)
            return cgutils.pack_array(builder, [_multiply_add(builder, x, y, sum_) for (x, y), sum_ in products])

        return sums(a, b, sums), codegen

    @intrinsic
    def add_inner(typing_context, factors, b, sums):
        """To each of ``sums`` add the products of its share of ``factors``, numbers, with ``b``, one vector after the other."""

        def codegen(context, builder, signature, args):
            factors, b, sums = _unpacked(builder, signature, args)
            factors = iter(factors)
            for k in range(len(sums)):
                for y in b:
                    sums[k] = _multiply_add(builder, _filled(builder, next(factors), y.type.count), y, sums[k])
            return cgutils.pack_array(builder, sums)

        return sums(factors, b, sums), codegen

    @intrinsic(prefer_literal=True)
    def prefetch_rows(typing_context, array, starts, offset, count):
        """Start loading ``count`` elements of each row, from ``offset`` after its start, as `prefetch` does one line."""

        def codegen(context, builder, signature, args):
            array_, starts, offset, _ = _unpacked(builder, signature, args)
            for start in starts:
                pointer = element_pointer(context, builder, array, array_, builder.add(start, offset))
                pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
                for byte in range(0, count.literal_value * _alignment(array), _CACHE_LINE):
                    prefetch_line(builder, builder.gep(pointer, [_INT32(byte)]))
            return context.get_dummy_value()

        return types.void(array, starts, types.intp, count), codegen

    @intrinsic(prefer_literal=True)
    def zeros_on_stack(typing_context, capacity, size):
        """Vector of ``size`` zeros, at most ``capacity``, a number in the code: not checked, and gone when the function returns.

        Unlike np.zeros it cannot fail, and takes a tenth of a second less to compile. A call in a loop gives the same memory.
        """
        kind = types.Array(types.float64, 1, "C")

        def codegen(context, builder, signature, args):
            memory = cgutils.alloca_once(builder, ir.DoubleType(), capacity.literal_value)
            memory.align = _CACHE_LINE
            cgutils.memset(builder, memory, context.get_constant(types.intp, 8 * capacity.literal_value), 0)
            vector, (_, size) = context.make_array(kind)(context, builder), args
            eight = context.get_constant(types.intp, 8)
            context.populate_array(vector, data=memory, shape=[size], strides=[eight], itemsize=eight, meminfo=None)
            return vector._getvalue()

        return kind(capacity, types.intp), codegen
