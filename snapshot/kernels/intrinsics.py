"""The functions of `memory` as numba intrinsics.

An intrinsic reads an integer with one load. To join single bytes would double the time to decode a header.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _pointer(context, builder, array_type, array, position):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [position])


def _loader(kind, *, swap=True):
    """Return an intrinsic that loads an integer of numba's type `kind`.

    `swap` reverses the bytes to read big-endian data. Hosts are little-endian: numba supports no others.
    """

    @intrinsic
    def load(_typing, array, _position):
        def generate(context, builder, signature, arguments):
            pointer = _pointer(context, builder, signature.args[0], *arguments)
            value = builder.load(builder.bitcast(pointer, ir.IntType(kind.bitwidth).as_pointer()), align=1)
            return builder.bswap(value) if swap else value

        return kind(array, types.int64), generate

    return load


read_int16 = _loader(types.int16)
read_int32 = _loader(types.int32)
read_uint32 = _loader(types.uint32)
read_int64 = _loader(types.int64)
read_word = _loader(types.uint64, swap=False)


@intrinsic
def address_of(_typing, array, _position):
    """See memory.address_of."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        return builder.ptrtoint(pointer, context.get_value_type(types.uintp))

    return types.uintp(array, types.int64), generate


@intrinsic
def prefetch(_typing, _address):
    """See memory.prefetch."""

    def generate(context, builder, _signature, arguments):
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        read, keep_close, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, keep_close, data])
        return context.get_dummy_value()

    return types.void(types.uintp), generate


crc32c_extend = types.ExternalFunction("crc32c_extend", types.uint32(types.uint32, types.uintp, types.uintp))
