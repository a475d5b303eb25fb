"""Multipart uploads, each of which is completed or aborted.

tiersnap does not use s3transfer, which refuses IfNoneMatch and lets botocore compute a CRC-32C of each part. botocore
can do that only if awscrt is installed. Here, the calling thread reads the parts in order, and other threads send
them. An upload holds `max_concurrency + 1` parts in memory. The CRC of the object is known after the last part was
read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from botocore.exceptions import ClientError

from tiersnap.remote_storage.stores.object_store import ByteSource, PutOutcome, PutResult, ended_early
from tiersnap.remote_storage.stores.requests import NO_DEADLINE, Deadline
from tiersnap.remote_storage.stores.s3_answers import S3Client
from tiersnap.remote_storage.stores.s3_call import Call, bounded
from tiersnap.remote_storage.stores.s3_client import error_code, translated
from tiersnap.remote_storage.stores.s3_put import (
    etag_of_parts,
    extend,
    is_proved,
    of_response,
    request_checksum,
    to_text,
)
from tiersnap.remote_storage.stores.s3_settings import Checksums, S3Settings
from tiersnap.snapshot.context_pool import ContextPool
from tiersnap.snapshot.errors import RemoteStorageError

_ABORT_SECONDS = 10.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class MultipartUpload:
    """A multipart upload of one object. `run` completes or aborts it."""

    client: S3Client
    settings: S3Settings
    bucket: str
    key: str
    deadline: Deadline
    upload_id: str = ""
    parts: list[dict[str, object]] = field(default_factory=list)
    all_proved: bool = True

    def run(self, source: ByteSource, size: int, *, metadata: Mapping[str, str]) -> PutResult:
        """Upload the first `size` bytes of `source`. Never overwrite an existing object.

        Raises:
            ClientError: 412 if the object exists, 409 if another writer is writing it. The upload was aborted.
            TransientError: the source ends early, the deadline has passed, or the server fails.
        """
        self._create(metadata)
        try:
            crc = self._send_parts(source, size)
            return self._complete(crc, size)
        except BaseException:
            self.abort()
            raise

    def _create(self, metadata: Mapping[str, str]) -> None:
        arguments: dict[str, object] = {"Metadata": dict(metadata)}
        if self.settings.checksums is Checksums.AWS:
            arguments |= {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        with translated("s3:PutObject", self.bucket, self.key), self._bounded():
            response = self.client.create_multipart_upload(Bucket=self.bucket, Key=self.key, **arguments)
        self.upload_id = response["UploadId"]

    def _send_parts(self, source: ByteSource, size: int) -> int:
        part_size = self.settings.part_size_for(size)
        crc, left, number = 0, size, 0
        pending: set[Future[dict[str, object]]] = set()
        pool = ContextPool(self.settings.max_concurrency, thread_name_prefix="tiersnap-upload")
        try:
            while left:
                data = read_exactly(source, min(left, part_size), self.key)
                number, left, crc = number + 1, left - len(data), extend(crc, data)
                if len(pending) >= self.settings.max_concurrency:
                    pending = self._collect(pending)
                self.deadline.check(self._doing)
                pending.add(pool.submit(self._send_part, number, data))
            while pending:
                pending = self._collect(pending)
        finally:
            # An abort may leave a part that is still being sent, so wait for running part uploads.
            pool.shutdown(wait=True, cancel_futures=True)
        self.parts.sort(key=lambda part: int(str(part["PartNumber"])))
        return crc

    def _send_part(self, number: int, data: bytes) -> dict[str, object]:
        crc = extend(0, data)
        sent = request_checksum(self.settings.checksums, data, crc)
        with translated("s3:PutObject", self.bucket, self.key), self._bounded(len(data)):
            response = self.client.upload_part(
                Bucket=self.bucket, Key=self.key, UploadId=self.upload_id, PartNumber=number, Body=data, **sent
            )
        stored = of_response(response)
        if stored is not None and stored != crc:
            raise RemoteStorageError(
                f"s3://{self.bucket}/{self.key}: part {number} has CRC {crc:08x}, but the server computed {stored:08x}",
                hint="run the same command again; if this recurs, the network changes bytes",
            )
        if not is_proved(response, crc, sent):
            self.all_proved = False
        part: dict[str, object] = {"PartNumber": number, "ETag": response["ETag"]}
        if self.settings.checksums is Checksums.AWS:
            part["ChecksumCRC32C"] = to_text(crc)
        return part

    def _collect(self, pending: set[Future[dict[str, object]]]) -> set[Future[dict[str, object]]]:
        done, pending = wait(pending, timeout=self.deadline.remaining(), return_when=FIRST_COMPLETED)
        self.parts += [part.result() for part in done]
        self.deadline.check(self._doing)
        return pending

    def _complete(self, crc: int, size: int) -> PutResult:
        arguments: dict[str, object] = {}
        if self.settings.checksums is Checksums.AWS:
            arguments = {"ChecksumCRC32C": to_text(crc), "ChecksumType": "FULL_OBJECT", "MpuObjectSize": size}
        with self._bounded(size):  # the server joins the parts
            response = self.client.complete_multipart_upload(
                Bucket=self.bucket,
                Key=self.key,
                UploadId=self.upload_id,
                MultipartUpload={"Parts": self.parts},
                IfNoneMatch="*",
                **arguments,
            )
        stored = of_response(response)
        if stored is not None and stored != crc:
            raise RemoteStorageError(
                f"s3://{self.bucket}/{self.key}: tiersnap sent CRC {crc:08x}, but the server stored {stored:08x}",
                hint="run the same command again; if this recurs, do not use this server",
            )
        # Some servers do not return the CRC of the object. Then an equal ETag proves the parts.
        etag = str(response.get("ETag", ""))
        of_parts = self.all_proved and etag.strip('"') == etag_of_parts(str(part["ETag"]) for part in self.parts)
        return PutResult(PutOutcome.CREATED, size, crc, etag, proved=stored == crc or of_parts)

    def abort(self) -> None:
        """Abort the upload, so that the server deletes its parts.

        A failure is logged and not raised. `unfinished_uploads` lists the upload later.
        """
        try:
            # The abort must also run after the deadline, but not for long.
            limit = bounded(min(_ABORT_SECONDS, self.settings.call_timeout), self._doing, deadline=NO_DEADLINE)
            with translated("s3:AbortMultipartUpload", self.bucket, self.key), limit:
                self.client.abort_multipart_upload(Bucket=self.bucket, Key=self.key, UploadId=self.upload_id)
        except Exception as error:  # the error that led here matters more
            cause = error.__cause__
            if not (isinstance(cause, ClientError) and error_code(cause) == "NoSuchUpload"):
                _log.warning(
                    "could not abort multipart upload bucket=%s key=%s upload_id=%s error=%s",
                    self.bucket, self.key, self.upload_id, error,
                )  # fmt: skip

    @property
    def _doing(self) -> str:
        return f"upload of s3://{self.bucket}/{self.key}"

    def _bounded(self, size: int = 0) -> AbstractContextManager[Call]:
        return bounded(self.settings.call_timeout, self._doing, size=size, deadline=self.deadline)


def read_exactly(source: ByteSource, size: int, key: str) -> bytes:
    """Return `size` bytes of `source`. Raises TransientError: the source has fewer bytes."""
    data = source.read(size)
    while len(data) < size:
        more = source.read(size - len(data))
        if not more:
            raise ended_early(key, size - len(data))
        data += more
    return data
