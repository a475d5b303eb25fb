"""Proof that bytes arrived: CRC-32C of our own for AWS, Content-MD5 for servers that know nothing newer.

botocore computes CRC-32C only with awscrt installed, but sends one that it is given; and S3 keeps it with the object,
where HEAD shows it. For multipart uploads S3 keeps the CRC of the whole object when asked for FULL_OBJECT.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

import google_crc32c

from tiersnap.remote_storage.stores.object_store import ByteSource
from tiersnap.remote_storage.stores.s3_settings import Checksums

READ_SIZE = 1 << 20


def extend(crc: int, data: bytes) -> int:
    """CRC-32C of what had `crc` followed by `data`; begin with 0."""
    return int(google_crc32c.extend(crc, data))


def crc_of_source(source: ByteSource, size: int) -> int | None:
    """CRC-32C of the first `size` bytes of `source`, None if it has fewer."""
    source.seek(0)
    crc, left = 0, size
    while left and (data := source.read(min(left, READ_SIZE))):
        crc = extend(crc, data)
        left -= len(data)
    return None if left else crc


def request_checksum(checksums: Checksums, data: bytes, crc: int) -> dict[str, str]:
    """Arguments of a put or an upload of a part that let the server refuse damaged bytes."""
    if checksums is Checksums.COMPAT:
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        return {"ContentMD5": base64.b64encode(digest).decode("ascii")}
    return {"ChecksumAlgorithm": "CRC32C", "ChecksumCRC32C": to_text(crc)}


def is_md5(etag: str, data: bytes) -> bool:
    """Whether an ETag is the MD5 of the content, which it is for a single put without encryption by KMS."""
    return etag.strip('"') == hashlib.md5(data, usedforsecurity=False).hexdigest()


def to_text(crc: int) -> str:
    """S3's form: base64 of the four bytes, big-endian."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode("ascii")


def of_response(response: Mapping[str, object]) -> int | None:
    """CRC-32C of the whole object, None where S3 does not say it or has one made of parts (`…-3`)."""
    text = response.get("ChecksumCRC32C")
    if not isinstance(text, str) or "-" in text:
        return None
    return int.from_bytes(base64.b64decode(text), "big")
