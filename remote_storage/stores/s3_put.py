"""A put on a condition, carried on until it is known whose object is there.

Of two writers one wins and the other hears 412. So does the one that won, if its answer got lost and botocore repeated
the request. Each put therefore has an id, which the server keeps with the object (`tiersnap-put-id` of its user
metadata): who meets its own id made the object, whatever the last answer said.

That bytes arrived is proven by CRC-32C of our own for AWS, and by Content-MD5 for servers that know nothing newer.
botocore computes CRC-32C only with awscrt installed, but sends one that it is given; S3 keeps it with the object, where
HEAD shows it. For multipart uploads S3 keeps the CRC of the whole object when asked for FULL_OBJECT.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import google_crc32c
from botocore.exceptions import ClientError

from tiersnap.remote_storage.stores.object_store import (
    ByteSource,
    ObjectInfo,
    PutOutcome,
    PutResult,
    changed_since_read,
    other_content,
)
from tiersnap.remote_storage.stores.requests import Deadline
from tiersnap.remote_storage.stores.s3_answers import S3Answer
from tiersnap.remote_storage.stores.s3_client import error_code, http_status, is_missing_object, translated
from tiersnap.remote_storage.stores.s3_settings import Checksums
from tiersnap.snapshot.errors import TransientError
from tiersnap.snapshot.units import count_of

_log = logging.getLogger(__name__)

PUT_ID = "tiersnap-put-id"
_ATTEMPTS = 4
_WAIT = 0.2  # seconds, doubled each time


@dataclass(frozen=True, slots=True)
class ConditionalPut:
    """One object that is to be put, once."""

    uri: str
    bucket: str
    path: str
    key: str
    look: Callable[[str], ObjectInfo | None]  # HEAD; its metadata includes the put id
    crc_by_reading: Callable[[str, int], int]  # of the object that is there; for servers that keep no CRC
    deadline: Deadline
    put_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def if_absent(self, send: Callable[[], PutResult], size: int, crc: Callable[[], int]) -> PutResult:
        """`send`, which puts if absent; `crc` is of the content. Raises ObjectExistsError: there is another object."""
        for _ in self._attempts():
            if (done := self._sent(send)) is not None:
                return done
            found = self.look(self.key)
            if found is None:
                continue  # 409 and the other one gave up, or it was deleted since
            if (same := self._same(found, size, crc)) is not None:
                return same
            more = f" ({count_of(found.size, 'byte')}, {size} were to be written)"
            raise other_content(self.uri + self.key, self.key, "prefix", more)
        raise self._busy()

    def if_match(self, send: Callable[[], PutResult], size: int, crc: int, etag: str) -> PutResult:
        """`send`, which replaces the object of this `etag`. Raises ObjectChangedError: it is another one, or gone."""
        for _ in self._attempts():
            if (done := self._sent(send)) is not None:
                return done
            found = self.look(self.key)
            if found is not None and (same := self._same(found, size, lambda: crc)) is not None:
                return same
            if found is None or found.etag != etag:
                raise changed_since_read(self.uri + self.key, self.key, "gone" if found is None else "changed")
        raise self._busy()

    def _attempts(self) -> Iterator[int]:
        for attempt in range(_ATTEMPTS):
            if attempt:
                _log.debug("%s%s: another writer is at it, attempt %d", self.uri, self.key, attempt + 1)
                time.sleep(_WAIT * 2 ** (attempt - 1))
            self.deadline.check(f"upload of {self.uri}{self.key}")
            yield attempt

    def _sent(self, send: Callable[[], PutResult]) -> PutResult | None:
        """Return what `send` returns; None if the server says that the condition does not hold."""
        with translated("s3:PutObject", self.bucket, self.path + self.key):
            try:
                return send()
            except ClientError as error:
                # 412: there is one; 409: another writer is at it; NoSuchKey: there is none to be replaced;
                # NoSuchUpload: a lost answer to a completion that did happen, or another writer's janitor.
                conditional = http_status(error) in {409, 412} or error_code(error) == "NoSuchUpload"
                if not conditional and not is_missing_object(error):
                    raise
        return None

    def _same(self, found: ObjectInfo, size: int, crc: Callable[[], int]) -> PutResult | None:
        if found.size != size:
            return None
        stored = self.crc_by_reading(self.key, size) if found.crc32c is None else found.crc32c
        if stored != crc():
            return None
        ours = found.metadata.get(PUT_ID) == self.put_id
        outcome = PutOutcome.CREATED if ours else PutOutcome.ALREADY_SAME
        return PutResult(outcome, size, stored, found.etag, proved=True)

    def _busy(self) -> TransientError:
        return TransientError(
            f"{self.uri}{self.key}: other writers were at this key {_ATTEMPTS} times",
            hint="run the same command again when the other one is done",
            key=self.key,
        )


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


def is_proved(response: S3Answer, crc: int, sent: Mapping[str, str]) -> bool:
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


def of_response(response: S3Answer) -> int | None:
    """CRC-32C of the whole object, None where S3 does not say it or has one made of parts (`…-3`)."""
    text = response.get("ChecksumCRC32C")
    if not isinstance(text, str) or "-" in text:
        return None
    return int.from_bytes(base64.b64decode(text), "big")
