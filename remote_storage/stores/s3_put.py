"""Put an object conditionally, and repeat the request until the writer of the object is known.

One of two writers wins, and the other gets 412. The winner gets 412, too, if its answer was lost and botocore repeated
the request. So each put has an id, which the server stores with the object (`tiersnap-put-id` of its user metadata). If
a writer finds its own id, it wrote the object, even if its last answer was 412.

AWS checks the bytes against the CRC-32C that tiersnap sends; older servers check Content-MD5. botocore computes CRC-32C
only if awscrt is installed, but sends a given one. S3 stores it with the object, and HEAD returns it. For multipart
uploads S3 stores the CRC of the complete object if FULL_OBJECT is requested.
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
    """One conditional put of one object."""

    uri: str
    bucket: str
    path: str
    key: str
    look: Callable[[str], ObjectInfo | None]  # HEAD; its metadata includes the put id
    crc_by_reading: Callable[[str, int], int]  # of the stored object; for servers that store no CRC
    deadline: Deadline
    put_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def if_absent(self, send: Callable[[], PutResult], size: int, crc: Callable[[], int]) -> PutResult:
        """Call `send`, which puts if absent. Raises ObjectExistsError: an object with other content exists."""
        for _ in self._attempts():
            if (done := self._sent(send)) is not None:
                return done
            found = self.look(self.key)
            if found is None:
                continue  # 409 and the other writer gave up, or the object was deleted since
            if (same := self._same(found, size, crc)) is not None:
                return same
            more = f" ({count_of(found.size, 'byte')}, {size} were to be written)"
            raise other_content(self.uri + self.key, self.key, "prefix", more)
        raise self._busy()

    def if_match(self, send: Callable[[], PutResult], size: int, crc: int, etag: str) -> PutResult:
        """Call `send`, which replaces the version with this `etag`. Raises ObjectChangedError: it is another one."""
        for _ in self._attempts():
            if (done := self._sent(send)) is not None:
                return done
            found = self.look(self.key)
            if found is None:
                raise changed_since_read(self.uri + self.key, self.key, "gone")
            same = self._same(found, size, lambda: crc)
            if same is not None:
                return same
            if found.etag != etag:
                raise changed_since_read(self.uri + self.key, self.key, "changed")
        raise self._busy()

    def _attempts(self) -> Iterator[int]:
        for attempt in range(_ATTEMPTS):
            if attempt:
                _log.debug("%s%s: another writer is at it, attempt %d", self.uri, self.key, attempt + 1)
                time.sleep(_WAIT * 2 ** (attempt - 1))
            self.deadline.check(f"upload of {self.uri}{self.key}")
            yield attempt

    def _sent(self, send: Callable[[], PutResult]) -> PutResult | None:
        """Return the result of `send`; None if the server reports that the condition does not hold."""
        with translated("s3:PutObject", self.bucket, self.path + self.key):
            try:
                return send()
            except ClientError as error:
                # 412: the object exists; 409: another writer is writing it; NoSuchKey: nothing to replace;
                # NoSuchUpload: the completion happened and its answer was lost, or another process aborted the upload.
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
    """Return the CRC-32C of bytes with `crc` followed by `data`; begin with 0."""
    return int(google_crc32c.extend(crc, data))


def crc_of_source(source: ByteSource, size: int) -> int | None:
    """Return the CRC-32C of the first `size` bytes of `source`, None if it has fewer."""
    source.seek(0)
    crc, left = 0, size
    while left and (data := source.read(min(left, READ_SIZE))):
        crc = extend(crc, data)
        left -= len(data)
    return None if left else crc


def request_checksum(checksums: Checksums, data: bytes, crc: int) -> dict[str, str]:
    """Return the arguments of a put, or of a part, by which the server refuses damaged bytes."""
    if checksums is Checksums.COMPAT:
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        return {"ContentMD5": base64.b64encode(digest).decode("ascii")}
    return {"ChecksumAlgorithm": "CRC32C", "ChecksumCRC32C": to_text(crc)}


def is_proved(response: S3Answer, crc: int, sent: Mapping[str, str]) -> bool:
    """Return whether the answer to a put or a part proves that the server has these bytes.

    The proof is their CRC-32C, or their MD5, which is the ETag unless KMS encrypts; `sent` is `request_checksum`.
    """
    etag = str(response.get("ETag", "")).strip('"')
    digest = base64.b64decode(sent.get("ContentMD5", ""))
    return of_response(response) == crc or (digest != b"" and digest.hex() == etag)


def etag_of_parts(etags: Iterable[str]) -> str | None:
    """Return the ETag of an object of these parts, the MD5 of their MD5s and their number; None without MD5s."""
    plain = [etag.strip('"') for etag in etags]
    try:
        digests = b"".join(map(bytes.fromhex, plain))
    except ValueError:
        return None
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(plain)}"


def to_text(crc: int) -> str:
    """Return S3's form: base64 of the four bytes, big-endian."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode("ascii")


def of_response(response: S3Answer) -> int | None:
    """Return the CRC-32C of the complete object; None if the answer has none, or a CRC of parts (`…-3`)."""
    text = response.get("ChecksumCRC32C")
    if not isinstance(text, str) or "-" in text:
        return None
    return int.from_bytes(base64.b64decode(text), "big")
