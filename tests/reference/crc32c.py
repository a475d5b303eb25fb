"""CRC-32C (Castagnoli) by a table of 256 remainders."""

from __future__ import annotations


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_remainder(byte) for byte in range(256)]


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C (Castagnoli), unsigned."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def behind_zeros(crc: int, length: int) -> int:
    """What becomes of a CRC's share when `length` more bytes follow: that of zeros, one byte after the other."""
    for _ in range(length):
        crc = (crc >> 8) ^ _TABLE[crc & 0xFF]
    return crc
