"""Compiled access to the bytes of a uint8 array: big-endian integers in one load each, addresses, prefetching.

Put together from single bytes, the integers of one header cost as much time as all the rest of its decoding.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _pointer(context, builder, array_type, array, position):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [position])


def _big_endian(kind):
    """A loader of unsigned integers of numba's type `kind`, for hosts that are little-endian, as all of numba's are."""

    @intrinsic
    def load(_typing, array, _position):
        def generate(context, builder, signature, arguments):
            pointer = _pointer(context, builder, signature.args[0], *arguments)
            pointer = builder.bitcast(pointer, ir.IntType(kind.bitwidth).as_pointer())
            return builder.bswap(builder.load(pointer, align=1))

        return kind(array, types.int64), generate

    return load


_load_uint16 = _big_endian(types.uint16)
_load_uint32 = _big_endian(types.uint32)
_load_uint64 = _big_endian(types.uint64)


@numba.njit(inline="always")
def read_int16(b, p):
    """A big-endian int16 at `p`."""
    return np.int16(_load_uint16(b, p))


@numba.njit(inline="always")
def read_uint32(b, p):
    """A big-endian uint32 at `p`."""
    return _load_uint32(b, p)


@numba.njit(inline="always")
def read_int32(b, p):
    """A big-endian int32 at `p`."""
    return np.int32(_load_uint32(b, p))


@numba.njit(inline="always")
def read_int64(b, p):
    """A big-endian int64 at `p`."""
    return np.int64(_load_uint64(b, p))


@intrinsic
def read_word(_typing, array, _position):
    """The 8 bytes at a position as they lie: a little-endian uint64."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        return builder.load(builder.bitcast(pointer, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(array, types.int64), generate


@intrinsic
def address_of(_typing, array, _position):
    """Address of the byte at `position` (int64), for C functions; the array must live until they are done."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        return builder.ptrtoint(pointer, context.get_value_type(types.uintp))

    return types.uintp(array, types.int64), generate


@intrinsic
def prefetch(_typing, _address):
    """Ask for the cache line at an address, which may lie outside of any buffer."""

    def generate(context, builder, _signature, arguments):
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        read, keep_close, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, keep_close, data])
        return context.get_dummy_value()

    return types.void(types.uintp), generate
