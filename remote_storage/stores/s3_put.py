"""Put an object conditionally, and repeat the request until the writer of the object is known.

If two writers put one key, one writer succeeds and the other gets 412. A successful writer may also get 412: if its
first answer was lost, botocore repeats the request. Therefore each put sends an id, which the server stores in the user
metadata (`tiersnap-put-id`). If the stored object has a writer's id, this writer wrote it, even if the writer's last
answer was 412.

AWS checks the bytes against the CRC-32C that tiersnap sends. Older servers check Content-MD5. botocore computes CRC-32C
only if awscrt is installed, so tiersnap computes it. S3 stores the CRC with the object, and HEAD returns it.
For a multipart upload, S3 stores the CRC of the complete object if the request names FULL_OBJECT.
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
    """A conditional put of one object."""

    uri: str
    bucket: str
    path: str
    key: str
    look: Callable[[str], ObjectInfo | None]  # sends HEAD; the metadata of the result includes the put id
    crc_by_reading: Callable[[str, int], int]  # reads an object for its CRC, if the server stores none
    deadline: Deadline
    put_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def if_absent(self, send: Callable[[], PutResult], size: int, crc: Callable[[], int]) -> PutResult:
        """Call `send`, which creates the object. Raises ObjectExistsError: the object exists with other content."""
        for _ in self._attempts():
            if (done := self._sent(send)) is not None:
                return done
            found = self.look(self.key)
            if found is None:
                continue  # the other writer of a 409 gave up, or the object was deleted meanwhile
            if (same := self._same(found, size, crc)) is not None:
                return same
            more = f" (the object has {count_of(found.size, 'byte')}, tiersnap would write {size})"
            raise other_content(self.uri + self.key, self.key, "prefix", more)
        raise self._busy()

    def if_match(self, send: Callable[[], PutResult], size: int, crc: int, etag: str) -> PutResult:
        """Call `send`, which replaces the object if its ETag is `etag`.

        Raises:
            ObjectChangedError: the object has another ETag.
        """
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
                _log.debug("%s%s: another writer is writing this key, attempt %d", self.uri, self.key, attempt + 1)
                time.sleep(_WAIT * 2 ** (attempt - 1))
            self.deadline.check(f"upload of {self.uri}{self.key}")
            yield attempt

    def _sent(self, send: Callable[[], PutResult]) -> PutResult | None:
        """Return the result of `send`, or None if the server refuses because the condition is false."""
        with translated("s3:PutObject", self.bucket, self.path + self.key):
            try:
                return send()
            except ClientError as error:
                # 412: the object exists. 409: another writer is writing it. NoSuchKey: no object to replace.
                # NoSuchUpload: the answer to the completion was lost, or another process aborted the upload.
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
        outcome = PutOutcome.ALREADY_SAME
        if found.metadata.get(PUT_ID) == self.put_id:
            outcome = PutOutcome.CREATED
        return PutResult(outcome, size, stored, found.etag, proved=True)

    def _busy(self) -> TransientError:
        return TransientError(
            f"{self.uri}{self.key}: other writers wrote this key during all {_ATTEMPTS} attempts",
            hint="run the same command again when the other writer has finished",
            key=self.key,
        )


READ_SIZE = 1 << 20


def extend(crc: int, data: bytes) -> int:
    """Return the CRC-32C of some bytes followed by `data`. `crc` is the CRC of these bytes, 0 if there are none."""
    return int(google_crc32c.extend(crc, data))


def crc_of_source(source: ByteSource, size: int) -> int | None:
    """Return the CRC-32C of the first `size` bytes of `source`, or None if the source has fewer bytes."""
    source.seek(0)
    crc, left = 0, size
    while left and (data := source.read(min(left, READ_SIZE))):
        crc = extend(crc, data)
        left -= len(data)
    return None if left else crc


def request_checksum(checksums: Checksums, data: bytes, crc: int) -> dict[str, str]:
    """Return the checksum arguments for put_object or upload_part. The server uses them to refuse damaged bytes."""
    if checksums is Checksums.COMPAT:
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        return {"ContentMD5": base64.b64encode(digest).decode("ascii")}
    return {"ChecksumAlgorithm": "CRC32C", "ChecksumCRC32C": to_text(crc)}


def is_proved(response: S3Answer, crc: int, sent: Mapping[str, str]) -> bool:
    """Return whether the answer to a put or a part proves that the server has the sent bytes.

    The proof is an equal CRC-32C, or an equal MD5. The ETag is the MD5 unless KMS encrypts the object.

    Args:
        sent: the result of `request_checksum`.
    """
    etag = str(response.get("ETag", "")).strip('"')
    digest = base64.b64decode(sent.get("ContentMD5", ""))
    return of_response(response) == crc or (digest != b"" and digest.hex() == etag)


def etag_of_parts(etags: Iterable[str]) -> str | None:
    """Return the ETag of an object with these parts: the MD5 of the parts' joined MD5s, `-`, the number of parts.

    Return None if the ETag of a part is not an MD5.
    """
    plain = [etag.strip('"') for etag in etags]
    try:
        digests = b"".join(map(bytes.fromhex, plain))
    except ValueError:
        return None
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(plain)}"


def to_text(crc: int) -> str:
    """Return a CRC in S3's form: base64 of four bytes, big-endian."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode("ascii")


def of_response(response: S3Answer) -> int | None:
    """Return the CRC-32C of the complete object; None without one. A CRC of the parts' CRCs (`…-3`) is ignored."""
    text = response.get("ChecksumCRC32C")
    if not isinstance(text, str) or "-" in text:
        return None
    return int.from_bytes(base64.b64decode(text), "big")
