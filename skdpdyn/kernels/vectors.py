"""Vectors of numbers, for kernels that have to say which products and sums happen when.

The compiler turns plain loops into vectors too, but of every loop it makes several versions, for
arrays that overlap and for what is left over, and it does not see that several rows can share what
is loaded: `store_dots` and `add_rows` do that, for places of rows in an array, which come as
tuples. Rows are an array, or a tuple of an array, the middle of the range of each column and the
inverse of half its width: then numbers come to [-1, 1] as they are loaded. An index counts elements
of the flattened C-ordered array, and is not checked.

Elsewhere a vector is eight doubles, which numbers of single precision become when they are loaded.
"""

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, codegen
from numba.extending import intrinsic, models, register_model

from skdpdyn.kernels.jit import FASTMATH, element_pointer, prefetch_line

WIDTH = 8


def _processor():
    """Return LLVM's name of the processor that numba compiles for."""
    return numba.config.CPU_NAME or binding.get_host_cpu_name()


def _register_bytes():
    """Return the bytes of a register of that processor."""
    features = (
        codegen.get_host_cpu_features()
        if numba.config.CPU_FEATURES is None
        else numba.config.CPU_FEATURES
    )
    return 64 if "+avx512f" in features else 32 if "+avx" in features else 16


REGISTER_BYTES = _register_bytes()
PREFETCHES = REGISTER_BYTES == 64
"""Whether kernels prefetch rows: a Zen 4 and a Xeon with AVX-512 gain from it, a Zen 3 loses."""
ZEN = _processor().startswith("znver")
"""Whether it is an AMD Zen."""
PREFETCHES_COLUMNS = ZEN
"""Whether kernels prefetch scattered columns: a Zen 4 takes half the time, a Xeon 1.2 times it."""

_CACHE_LINE = 64

if numba.config.DISABLE_JIT:

    def filled(number):
        """Return a vector with eight copies of a number."""
        return np.full(WIDTH, number, np.float64)

    def load(array, index):
        """Return the vector of the eight elements from ``index`` on."""
        return array.reshape(-1)[index : index + WIDTH].astype(np.float64)

    def load_part(array, index, count):
        """Load the first ``count`` of eight values, then zeros; ``count`` may be outside 1 to 8."""
        count = min(max(count, 0), WIDTH)
        vector = np.zeros(WIDTH)
        vector[:count] = array.reshape(-1)[index : index + count]
        return vector

    def store(array, index, vector):
        """Write the vector to the elements from ``index`` on, which are of its precision."""
        array.reshape(-1)[index : index + vector.size] = vector

    def multiply_add(a, b, c):
        """Return ``a * b + c``, element by element."""
        return a * b + c

    def clamp(a, limit):
        """Clip elements of ``a`` to plus or minus ``limit``; NaN becomes ``limit``."""
        a = np.where(a <= limit, a, limit)
        return np.where(a >= -limit, a, -limit)

    def total(a):
        """Sum of the elements."""
        return a.sum()

    def places(first, stride, count, apart, of_each):
        """Return ``count`` places, ``stride`` apart, and ``of_each`` from each on, ``apart``."""
        return tuple(first + k * stride + i * apart for k in range(count) for i in range(of_each))

    def load_numbers(array, starts, count):
        """Return the ``count`` elements from each of ``starts`` on, as a tuple."""
        return tuple(array.reshape(-1)[start + k] for start in starts for k in range(count))

    def _rows(X, starts, size):
        return np.stack([_row(X, start, 0, size) for start in starts])

    def _row(X, start, place, size):
        values, *of_ranges = X if isinstance(X, tuple) else (X,)
        row = values.reshape(-1)[start + place : start + place + size].astype(np.float64)
        if of_ranges:
            middle, factor = (numbers[place : place + size] for numbers in of_ranges)
            row = np.clip((row - middle) * factor, -1, 1)
        return row

    def load_row(X, start, place, count):
        """Return eight numbers from ``place`` on of the row of X that begins at ``start``.

        The first ``count``, then zeros; ``count`` may be outside 1 to 8.
        """
        vector = np.zeros(WIDTH)
        count = min(max(count, 0), WIDTH)
        vector[:count] = _row(X, start, place, count)
        return vector

    def store_dots(out, starts, weights, outputs, X, rows, size, prefetched, ahead):
        """Write the dot products of rows of the weights with rows of X."""
        products = _rows(weights, outputs, size) @ _rows(X, rows, size).T
        for start, products_there in zip(starts, products.reshape(len(starts), -1), strict=True):
            out.reshape(-1)[start : start + products_there.size] = products_there

    def add_rows(out, starts, factors, X, rows, size, prefetched, ahead):
        """Add rows of X, multiplied by factors, to each row of ``out``."""
        sums = np.reshape(factors, (len(starts), -1)) @ _rows(X, rows, size)
        for start, sum_ in zip(starts, sums, strict=True):
            out.reshape(-1)[start : start + size] += sum_

    def zeros_on_stack(capacity, size):
        """Return a vector of ``size`` zeros, at most ``capacity``."""
        return np.zeros(size)

else:  # compiled
    _INT32 = ir.IntType(32)
    _INT64 = ir.IntType(64)

    class _Vector(types.Type):
        """Type of a vector of ``size`` numbers of ``dtype``."""

        def __init__(self, dtype, width):
            self.dtype = dtype
            self.width = width
            super().__init__(name=f"vector of {width} {dtype}")

    @register_model(_Vector)
    class _VectorModel(models.PrimitiveModel):
        """In LLVM a vector, which lives in registers."""

        def __init__(self, manager, kind):
            super().__init__(
                manager, kind, ir.VectorType(manager[kind.dtype].get_data_type(), kind.width)
            )

    _doubles = _Vector(types.float64, WIDTH)

    def _alignment(array):
        return array.dtype.bitwidth // 8

    def _constants(kind, numbers):
        return ir.Constant(ir.VectorType(kind, len(numbers)), [kind(number) for number in numbers])

    def _pick(builder, a, b, lanes):
        """Return the vector of these lanes of ``a`` followed by ``b``."""
        return builder.shuffle_vector(a, b, _constants(_INT32, lanes))

    def _filled(builder, number, width):
        undefined = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
        first = builder.insert_element(undefined, number, _INT32(0))
        return _pick(builder, first, first, [0] * width)

    def _mask(builder, count, width):
        """Return a mask of lanes that is set in the first ``count`` of them."""
        return builder.icmp_signed(
            "<", _constants(_INT64, range(width)), _filled(builder, count, width)
        )

    def _load(context, builder, kind, array_type, array, index, mask=None):
        """Return a vector of ``kind`` from ``index`` on, zero where the mask is not set."""
        pointer = element_pointer(context, builder, array_type, array, index)
        number = context.get_data_type(array_type.dtype)
        loaded = ir.VectorType(number, kind.width)
        pointer = builder.bitcast(pointer, loaded.as_pointer())
        if mask is None:
            vector = builder.load(pointer, align=_alignment(array_type))
        else:
            arguments = [
                pointer,
                _INT32(_alignment(array_type)),
                mask,
                ir.Constant(loaded, [0.0] * kind.width),
            ]
            function_type = ir.FunctionType(loaded, [argument.type for argument in arguments])
            name = f"llvm.masked.load.v{kind.width}f{array_type.dtype.bitwidth}.p0"
            vector = builder.call(
                builder.module.declare_intrinsic(name, (), function_type), arguments
            )
        return (
            vector
            if kind.dtype == array_type.dtype
            else builder.fpext(vector, context.get_data_type(kind))
        )

    def _store(context, builder, array_type, array, index, vector):
        pointer = element_pointer(context, builder, array_type, array, index)
        builder.store(
            vector, builder.bitcast(pointer, vector.type.as_pointer()), align=_alignment(array_type)
        )

    def _multiply_add(builder, a, b, c):
        return builder.fadd(builder.fmul(a, b, flags=FASTMATH), c, flags=FASTMATH)

    def _totals(builder, vectors):
        """Return the vector of the sums of several vectors, a power of two of them."""
        left = vectors[0].type.count  # neighbouring elements that belong to one sum
        while left > 1:
            halves = []
            for first in range(0, len(vectors), 2):
                pair = vectors[first : first + 2]
                lanes = [
                    start + k
                    for start in range(0, len(pair) * pair[0].type.count, left)
                    for k in range(left // 2)
                ]
                beside = [lane + left // 2 for lane in lanes]
                terms = (_pick(builder, pair[0], pair[-1], chosen) for chosen in (lanes, beside))
                halves.append(builder.fadd(*terms, flags=FASTMATH))
            vectors = halves
            left = left // 2
        while len(vectors) > 1:  # more sums than a vector has room for
            lanes = range(2 * vectors[0].type.count)
            vectors = [
                _pick(builder, a, b, lanes)
                for a, b in zip(vectors[0::2], vectors[1::2], strict=True)
            ]
        return vectors[0]

    def _unpacked(builder, signature, args):
        """Return the arguments, with tuples as lists of their items."""
        kinds = zip(signature.args, args, strict=True)
        return [
            cgutils.unpack_tuple(builder, arg) if isinstance(kind, types.BaseTuple) else arg
            for kind, arg in kinds
        ]

    @intrinsic
    def filled(typing_context, number):
        """Return a vector with eight copies of a number."""

        def codegen(context, builder, signature, args):
            return _filled(builder, *args, WIDTH)

        return _doubles(types.float64), codegen

    @intrinsic
    def load(typing_context, array, index):
        """Return the vector of the eight elements from ``index`` on."""

        def codegen(context, builder, signature, args):
            return _load(context, builder, _doubles, array, *args)

        return _doubles(array, types.intp), codegen

    @intrinsic
    def load_part(typing_context, array, index, count):
        """Load the first ``count`` of eight values, then zeros; ``count`` may be outside 1 to 8."""

        def codegen(context, builder, signature, args):
            *place, count = args
            return _load(context, builder, _doubles, array, *place, _mask(builder, count, WIDTH))

        return _doubles(array, types.intp, types.intp), codegen

    @intrinsic
    def store(typing_context, array, index, vector):
        """Write the vector to the elements from ``index`` on, which are of its precision."""
        if vector.dtype != array.dtype:  # it would write beside the elements that it means
            raise numba.TypingError(f"{vector} cannot be stored in {array}")

        def codegen(context, builder, signature, args):
            _store(context, builder, array, *args)
            return context.get_dummy_value()

        return types.void(array, types.intp, vector), codegen

    @intrinsic
    def multiply_add(typing_context, a, b, c):
        """Return ``a * b + c``, element by element."""

        def codegen(context, builder, signature, args):
            return _multiply_add(builder, *args)

        return c(a, b, c), codegen

    @intrinsic
    def clamp(typing_context, a, limit):
        """Clip elements of ``a`` to plus or minus ``limit``; NaN becomes ``limit``."""

        def codegen(context, builder, signature, args):
            a, limit = args
            a = builder.select(builder.fcmp_ordered("<=", a, limit), a, limit)
            opposite = builder.fneg(limit)
            return builder.select(builder.fcmp_ordered(">=", a, opposite), a, opposite)

        return a(a, limit), codegen

    @intrinsic
    def load_row(typing_context, X, start, place, count):
        """Return eight numbers from ``place`` on of the row of X that begins at ``start``.

        The first ``count``, then zeros; ``count`` may be outside 1 to 8.
        """

        def codegen(context, builder, signature, args):
            X_, start, place, count = _unpacked(builder, signature, args)
            mask = _mask(builder, count, WIDTH)
            return _load_rows(context, builder, _doubles, X, X_, [start], place, mask)[0]

        return _doubles(X, types.intp, types.intp, types.intp), codegen

    @intrinsic
    def total(typing_context, a):
        """Sum of the elements."""

        def codegen(context, builder, signature, args):
            return builder.extract_element(_totals(builder, args), _INT32(0))

        return a.dtype(a), codegen

    @intrinsic(prefer_literal=True)
    def places(typing_context, first, stride, count, apart, of_each):
        """Return ``count`` places, ``stride`` apart, and ``of_each`` from each on, ``apart``."""
        count = count.literal_value
        of_each = of_each.literal_value

        def codegen(context, builder, signature, args):
            starts, stride, _, apart, _ = args
            first = [starts]
            while len(first) < count:
                first.append(builder.add(first[-1], stride))
            all_places = []
            for place in first:
                all_places.append(place)
                while len(all_places) % of_each:
                    all_places.append(builder.add(all_places[-1], apart))
            return cgutils.pack_array(builder, all_places)

        literals = types.literal(count), types.intp, types.literal(of_each)
        place = types.UniTuple(types.intp, count * of_each)
        return place(types.intp, types.intp, *literals), codegen

    @intrinsic(prefer_literal=True)
    def load_numbers(typing_context, array, starts, count):
        """Return the ``count`` elements from each of ``starts`` on, as a tuple."""

        def codegen(context, builder, signature, args):
            array_, starts, _ = _unpacked(builder, signature, args)
            pointers = [element_pointer(context, builder, array, array_, start) for start in starts]
            numbers = [
                builder.load(builder.gep(first, [_INT32(k)]))
                for first in pointers
                for k in range(count.literal_value)
            ]
            return cgutils.pack_array(builder, numbers)

        return types.UniTuple(array.dtype, len(starts) * count.literal_value)(
            array, starts, count
        ), codegen

    def _several(dtype, count):
        """Return the type of ``count`` vectors of registers."""
        register = 8 * REGISTER_BYTES // dtype.bitwidth
        return _Vector(dtype, WIDTH if count < 8 and register < WIDTH else register)

    def _meet(builder, *ways):
        """Merge vectors where branches meet: pairs of a block and its vectors."""
        met = []
        for vectors in zip(*(vectors for _, vectors in ways), strict=True):
            phi = builder.phi(vectors[0].type)
            for (block, _), vector in zip(ways, vectors, strict=True):
                phi.add_incoming(vector, block)
            met.append(phi)
        return met

    def _along(builder, size, width, step, vectors):
        """Apply ``step(place, mask, vectors)`` to each ``width`` of ``size`` elements."""
        before = builder.block
        (body, loop, part, end) = (builder.append_basic_block() for _ in range(4))
        full = builder.and_(size, _INT64(-width))
        builder.cbranch(builder.icmp_signed("<", _INT64(0), full), body, loop)
        builder.position_at_end(body)
        place, *current = _meet(builder, (before, [_INT64(0), *vectors]))
        following = step(place, None, current)
        next_place = builder.add(place, _INT64(width))
        left = builder.block
        for phi, value in zip([place, *current], [next_place, *following], strict=True):
            phi.add_incoming(value, left)
        builder.cbranch(builder.icmp_signed("<", next_place, full), body, loop)
        builder.position_at_end(loop)
        vectors = _meet(builder, (before, vectors), (left, following))
        builder.cbranch(builder.icmp_signed("<", full, size), part, end)
        builder.position_at_end(part)
        last = step(full, _mask(builder, builder.sub(size, full), width), vectors)
        builder.branch(end)
        part = builder.block
        builder.position_at_end(end)
        return _meet(builder, (loop, vectors), (part, last))

    def _values(X_type, X):
        """Return the type and the array of the values of rows."""
        return (X_type[0], X[0]) if isinstance(X_type, types.BaseTuple) else (X_type, X)

    def _load_rows(context, builder, kind, X_type, X, rows, place, mask):
        """Return vectors of rows of X."""
        values = _values(X_type, X)
        loaded = [
            _load(context, builder, kind, *values, builder.add(row, place), mask) for row in rows
        ]
        if X_type is values[0]:
            return loaded
        middle, factor = (
            _load(context, builder, kind, X_type[k], X[k], place, mask) for k in (1, 2)
        )
        # as written: no flags, so that all kernels see the same bits
        ones = _constants(context.get_data_type(kind.dtype), [1.0] * kind.width)
        moved = [builder.fmul(builder.fsub(vector, middle), factor) for vector in loaded]
        for sign, limit in (("<", ones), (">", builder.fneg(ones))):  # an instruction each
            moved = [
                builder.select(builder.fcmp_ordered(sign, vector, limit), vector, limit)
                for vector in moved
            ]
        return moved

    def _prefetch_rows(context, builder, width, X_type, X, rows, place, ahead):
        """Prefetch rows of X ``ahead`` elements further on, unless that is 0."""
        X_type, X = _values(X_type, X)
        if not (PREFETCHES and rows):
            return
        asks = builder.icmp_signed("!=", ahead, _INT64(0))
        line = _CACHE_LINE // _alignment(X_type)
        if width < line:
            asks = builder.and_(
                asks, builder.icmp_signed("==", builder.and_(place, _INT64(line - 1)), _INT64(0))
            )
        with builder.if_then(asks):
            for row in rows:
                there = builder.add(builder.add(row, place), ahead)
                prefetch_line(builder, element_pointer(context, builder, X_type, X, there))

    @intrinsic
    def store_dots(typing_context, out, starts, weights, outputs, X, rows, size, prefetched, ahead):
        """Write the dot products of rows of the weights with rows of X.

        In the precision of the weights, which is that of ``out`` and not lower than that of X. Four
        rows, or some power of two. Meanwhile prefetch what comes ``ahead`` elements after the rows
        ``prefetched``, if the processor gains from that.
        """
        n_outputs = len(outputs)
        n_rows = len(rows)
        # others would write beside what they mean
        if not _values(X, X)[0].dtype.bitwidth <= weights.dtype.bitwidth == out.dtype.bitwidth:
            raise numba.TypingError(f"dot products of {weights} and {X} cannot be stored in {out}")
        kind = _several(weights.dtype, n_outputs * n_rows)

        def codegen(context, builder, signature, args):
            out_, starts_, weights_, outputs_, X_, rows_, size, prefetched_, ahead = _unpacked(
                builder, signature, args
            )

            def add_products(place, mask, sums):
                of_outputs = [
                    _load(
                        context, builder, kind, weights, weights_, builder.add(output, place), mask
                    )
                    for output in outputs_
                ]
                _prefetch_rows(context, builder, kind.width, X, X_, prefetched_, place, ahead)
                of_rows = _load_rows(context, builder, kind, X, X_, rows_, place, mask)
                products = [(i, k) for i in range(n_outputs) for k in range(n_rows)]
                sums = list(sums)
                if n_outputs < n_rows:  # the fewer stay in registers
                    products.sort(key=lambda product: product[1])
                for i, k in products:
                    sums[i * n_rows + k] = _multiply_add(
                        builder, of_outputs[i], of_rows[k], sums[i * n_rows + k]
                    )
                return sums

            zeros = [context.get_constant_null(kind)] * (n_outputs * n_rows)
            sums = _along(builder, size, kind.width, add_products, zeros)
            totals = [
                _totals(builder, sums[first : first + n_rows])
                for first in range(0, len(sums), n_rows)
            ]
            if len(starts_) == len(sums):
                totals = [
                    builder.extract_element(of_output, _INT32(k))
                    for of_output in totals
                    for k in range(n_rows)
                ]
            for start, to_store in zip(starts_, totals, strict=True):
                _store(context, builder, out, out_, start, to_store)
            return context.get_dummy_value()

        return types.void(
            out, starts, weights, outputs, X, rows, types.intp, prefetched, types.intp
        ), codegen

    @intrinsic
    def add_rows(typing_context, out, starts, factors, X, rows, size, prefetched, ahead):
        """Add rows of X times factors to each row of ``out``; factors of the first row come first.

        In the precision of ``out``, where zeros are added beyond a row up to a whole vector.
        ``prefetched`` and ``ahead`` as in `store_dots`.
        """
        kind = _several(out.dtype, len(rows) * len(starts))

        def codegen(context, builder, signature, args):
            out_, starts_, factors_, X_, rows_, size, prefetched_, ahead = _unpacked(
                builder, signature, args
            )
            factors_ = [_filled(builder, factor, kind.width) for factor in factors_]

            def add_products(place, mask, _):
                _prefetch_rows(context, builder, kind.width, X, X_, prefetched_, place, ahead)
                of_rows = _load_rows(context, builder, kind, X, X_, rows_, place, mask)
                of_starts = iter(factors_)
                for start in starts_:
                    to = builder.add(start, place)
                    sum_ = _load(context, builder, kind, out, out_, to)
                    for of_row in of_rows:
                        sum_ = _multiply_add(builder, next(of_starts), of_row, sum_)
                    _store(context, builder, out, out_, to, sum_)
                return []

            _along(builder, size, kind.width, add_products, [])
            return context.get_dummy_value()

        return types.void(
            out, starts, factors, X, rows, types.intp, prefetched, types.intp
        ), codegen

    @intrinsic(prefer_literal=True)
    def zeros_on_stack(typing_context, capacity, size):
        """Return ``size`` zeros on the stack; at most ``capacity``, which is not checked.

        Unlike np.zeros it cannot fail, and takes a tenth of a second less to compile. A call in a
        loop gives the same memory. It is gone when the function that calls this returns.
        """
        kind = types.Array(types.float64, 1, "C")

        def codegen(context, builder, signature, args):
            memory = cgutils.alloca_once(builder, ir.DoubleType(), capacity.literal_value)
            memory.align = _CACHE_LINE
            vector = context.make_array(kind)(context, builder)
            (_, size) = args
            eight = context.get_constant(types.intp, 8)
            cgutils.memset(builder, memory, builder.mul(eight, size), 0)
            context.populate_array(
                vector, data=memory, shape=[size], strides=[eight], itemsize=eight, meminfo=None
            )
            return vector._getvalue()

        return kind(capacity, types.intp), codegen
