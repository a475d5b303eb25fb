"""Access of kernels to the bytes of a uint8 array: integers, addresses and prefetching.

These functions run without numba; the module `intrinsics` contains the compiled versions.
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
    """Return the 8 bytes at `p` as a little-endian uint64."""
    return int.from_bytes(b[p : p + 8], "little")


@intrinsic
def address_of(b, p):
    """Return the address of the byte at `p`, for a C function. The array must live until the C function returns."""
    return b.ctypes.data + p


@intrinsic
def prefetch(address):
    """Prefetch the cache line at an address. The address may be outside of any buffer."""


@intrinsic
def crc32c_extend(crc, address, length):
    """Return the CRC-32C `crc` extended by `length` bytes at `address`. Only the compiled version exists."""
    raise NotImplementedError
