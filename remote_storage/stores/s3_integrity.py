"""Proof that bytes arrived: CRC-32C of our own for AWS, Content-MD5 for servers that know nothing newer.

botocore computes CRC-32C only with awscrt installed, but sends one that it is given; and S3 keeps it with the object,
where HEAD shows it. For multipart uploads S3 keeps the CRC of the whole object when asked for FULL_OBJECT.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping

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


def is_proved(response: Mapping[str, object], crc: int, sent: Mapping[str, str]) -> bool:
    """Return whether the answer to a put or a part says that the server has these bytes.

    By their CRC-32C, or by their MD5, which the ETag is where KMS encrypts nothing; `sent` is `request_checksum`.
    """
    etag = str(response.get("ETag", "")).strip('"')
    digest = base64.b64decode(sent.get("ContentMD5", ""))
    return of_response(response) == crc or (digest != b"" and digest.hex() == etag)


def etag_of_parts(etags: Iterable[str]) -> str | None:
    """ETag of an object of these parts: the MD5 of their MD5s, and how many; None where theirs are no MD5s."""
    plain = [etag.strip('"') for etag in etags]
    try:
        digests = b"".join(map(bytes.fromhex, plain))
    except ValueError:
        return None
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(plain)}"


def to_text(crc: int) -> str:
    """S3's form: base64 of the four bytes, big-endian."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode("ascii")


def of_response(response: Mapping[str, object]) -> int | None:
    """CRC-32C of the whole object, None where S3 does not say it or has one made of parts (`…-3`)."""
    text = response.get("ChecksumCRC32C")
    if not isinstance(text, str) or "-" in text:
        return None
    return int.from_bytes(base64.b64decode(text), "big")
