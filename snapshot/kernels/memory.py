"""Access of kernels to the bytes of a uint8 array: integers in one load each, addresses, prefetching.

These functions run without numba; `intrinsics` has the compiled ones.
"""

from __future__ import annotations

from tiersnap.snapshot.kernels.native import intrinsic


@intrinsic
def read_int16(b, p):
    """Return the big-endian int16 at `p`."""
    return int.from_bytes(b[p : p + 2], "big", signed=True)


@intrinsic
def read_int32(b, p):
    """Return the big-endian int32 at `p`."""
    return int.from_bytes(b[p : p + 4], "big", signed=True)


@intrinsic
def read_uint32(b, p):
    """Return the big-endian uint32 at `p`."""
    return int.from_bytes(b[p : p + 4], "big")


@intrinsic
def read_int64(b, p):
    """Return the big-endian int64 at `p`."""
    return int.from_bytes(b[p : p + 8], "big", signed=True)


@intrinsic
def read_word(b, p):
    """Return the 8 bytes at a position as a little-endian uint64."""
    return int.from_bytes(b[p : p + 8], "little")


@intrinsic
def address_of(b, p):
    """Return the address of the byte at `p`, for C functions; the array must live until they return."""
    return b.ctypes.data + p


@intrinsic
def prefetch(address):
    """Prefetch the cache line at an address, which may be outside of any buffer."""


@intrinsic
def crc32c_extend(crc, address, length):
    """Extend a CRC-32C by further bytes, with the C library of google-crc32c; there is no Python version."""
    raise NotImplementedError
