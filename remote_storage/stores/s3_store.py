"""Objects in an S3 bucket, below a path.

Writes are conditional (If-None-Match: *), so of two writers one wins and the other learns it. An answer that got lost
is no loss: the repeated request meets the object that the first one made, and the same content is ALREADY_SAME.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from botocore.client import BaseClient
from botocore.exceptions import ClientError

from tiersnap.remote_storage.stores.deadline import NO_DEADLINE, Deadline
from tiersnap.remote_storage.stores.object_store import (
    ByteSource,
    DeleteFailure,
    ObjectInfo,
    PutOutcome,
    PutResult,
    UnfinishedUpload,
)
from tiersnap.remote_storage.stores.s3_client import client_of
from tiersnap.remote_storage.stores.s3_errors import error_code, http_status, is_missing_object, translated
from tiersnap.remote_storage.stores.s3_integrity import (
    READ_SIZE,
    crc_of_source,
    extend,
    of_response,
    request_checksum,
)
from tiersnap.remote_storage.stores.s3_multipart import MultipartUpload, check_crc, read_exactly
from tiersnap.remote_storage.stores.s3_settings import Checksums, S3Settings
from tiersnap.snapshot.errors import (
    CorruptDataError,
    ObjectExistsError,
    RemoteStorageError,
    TiersnapError,
    TransientError,
    UsageError,
)

_CONFLICT_ATTEMPTS = 4
_CONFLICT_WAIT = 0.2  # seconds, doubled each time
_DELETE_BATCH = 1000


@dataclass(frozen=True, slots=True)
class S3Store:
    """ObjectStore over `s3://bucket/prefix`; `prefix` is empty or ends in `/`."""

    bucket: str
    prefix: str = ""
    settings: S3Settings = field(default_factory=S3Settings)

    @property
    def uri(self) -> str:
        """`s3://bucket/prefix/`."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def client(self) -> BaseClient:
        """This process' client."""
        with translated("connect", self.bucket):
            try:
                return client_of(self.settings)
            except ValueError as error:  # botocore's word for an endpoint that is no URL
                raise UsageError(str(error), hint="an endpoint looks like http://host:9000") from error

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """See ObjectStore."""
        crc = extend(0, data)

        def put() -> None:
            self._put(key, data, crc, metadata, IfNoneMatch="*")

        # Servers that know no newer checksums may not know conditions either, and overwrite without a word.
        if self.settings.checksums is Checksums.COMPAT and (found := self._same(key, len(data), lambda: crc)):
            return found
        return self._create(key, put, len(data), lambda: crc)

    def put_file_if_absent(
        self,
        key: str,
        source: ByteSource,
        size: int,
        *,
        crc32c: int | None = None,
        metadata: Mapping[str, str] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> PutResult:
        """See ObjectStore: one put up to the part size, multipart above."""
        known = crc32c

        def crc() -> int:
            nonlocal known
            if known is None and (known := crc_of_source(source, size)) is None:
                raise TransientError(f"{self.uri}{key}: the source ended early", hint="scan again")
            return known

        def put() -> None:
            nonlocal known
            source.seek(0)
            if size > self.settings.part_size:
                upload = MultipartUpload(self.client, self.settings, self.bucket, self.prefix + key)
                known = upload.run(source, size, expected=known, metadata=metadata or {}, deadline=deadline)
                return
            data = read_exactly(source, size, self.uri + key)
            actual = extend(0, data)
            check_crc(self.uri + key, actual, known)
            known = actual
            deadline.check(f"upload of {self.uri}{key}")
            self._put(key, data, known, metadata, IfNoneMatch="*")

        # Large objects are not sent only to hear that they are there.
        return self._same(key, size, crc) or self._create(key, put, size, crc, deadline)

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        """See ObjectStore."""
        crc = extend(0, data)
        with translated("s3:PutObject", self.bucket, self.prefix + key):
            self._put(key, data, crc, metadata)
        return PutResult(PutOutcome.CREATED, len(data), crc)

    def get(self, key: str) -> bytes:
        """See ObjectStore; compared with the CRC that the server has of it.

        Raises:
            CorruptDataError: they differ.
        """
        with translated("s3:GetObject", self.bucket, self.prefix + key):
            response = self.client.get_object(Bucket=self.bucket, Key=self.prefix + key, **self._ask_for_checksum())
            data: bytes = response["Body"].read()
        stored, actual = of_response(response), extend(0, data)
        if stored is not None and stored != actual:
            raise CorruptDataError(
                f"{self.uri}{key}: content has CRC {actual:08x}, {stored:08x} was stored with it", key=key
            )
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ObjectStore."""
        if length <= 0:
            return b""
        with translated("s3:GetObject", self.bucket, self.prefix + key):
            try:
                response = self.client.get_object(
                    Bucket=self.bucket, Key=self.prefix + key, Range=f"bytes={start}-{start + length - 1}"
                )
            except ClientError as error:
                if http_status(error) == 416:  # begins past the end
                    return b""
                raise
            data: bytes = response["Body"].read()
        return data

    def head(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        with translated("s3:GetObject", self.bucket, self.prefix + key):
            try:
                response = self.client.head_object(
                    Bucket=self.bucket, Key=self.prefix + key, **self._ask_for_checksum()
                )
            except ClientError as error:
                if is_missing_object(error):
                    return None
                raise
        return ObjectInfo(
            key, response["ContentLength"], of_response(response), _ms(response["LastModified"]), response["Metadata"]
        )

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """See ObjectStore."""
        with translated("s3:ListBucket", self.bucket, self.prefix + prefix):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix + prefix
            )
            for page in pages:
                for found in page.get("Contents", []):
                    key = found["Key"].removeprefix(self.prefix)
                    yield ObjectInfo(key, found["Size"], None, _ms(found["LastModified"]))

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        """See ObjectStore."""
        failures: list[DeleteFailure] = []
        remaining = iter(keys)
        # DeleteObjects wants a checksum header that servers of the compat kind refuse, DeleteObject wants none.
        size = 1 if self.settings.checksums is Checksums.COMPAT else _DELETE_BATCH
        while batch := list(islice(remaining, size)):
            try:
                failures += self._delete(batch)
            except TiersnapError as error:
                failures += [DeleteFailure(key, error.message) for key in batch]
        return tuple(failures)

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """See ObjectStore."""
        with translated("s3:ListBucketMultipartUploads", self.bucket, self.prefix + prefix):
            pages = self.client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.bucket, Prefix=self.prefix + prefix
            )
            for page in pages:
                for found in page.get("Uploads", []):
                    key = found["Key"].removeprefix(self.prefix)
                    yield UnfinishedUpload(key, found["UploadId"], _ms(found["Initiated"]))

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        """See ObjectStore."""
        with translated("s3:AbortMultipartUpload", self.bucket, self.prefix + upload.key):
            try:
                self.client.abort_multipart_upload(
                    Bucket=self.bucket, Key=self.prefix + upload.key, UploadId=upload.upload_id
                )
            except ClientError as error:
                if error_code(error) != "NoSuchUpload":
                    raise

    def _ask_for_checksum(self) -> dict[str, str]:
        return {"ChecksumMode": "ENABLED"} if self.settings.checksums is Checksums.AWS else {}

    def _put(self, key: str, data: bytes, crc: int, metadata: Mapping[str, str] | None, **condition: str) -> None:
        response = self.client.put_object(
            Bucket=self.bucket,
            Key=self.prefix + key,
            Body=data,
            Metadata=dict(metadata or {}),
            **request_checksum(self.settings.checksums, data, crc),
            **condition,
        )
        stored = of_response(response)
        if stored is not None and stored != crc:
            raise RemoteStorageError(f"{self.uri}{key}: sent CRC {crc:08x}, the server stored {stored:08x}")

    def _create(
        self, key: str, put: Callable[[], None], size: int, crc: Callable[[], int], deadline: Deadline = NO_DEADLINE
    ) -> PutResult:
        """Run a conditional put until it is known which content is there."""
        for attempt in range(_CONFLICT_ATTEMPTS):
            if attempt:
                time.sleep(_CONFLICT_WAIT * 2 ** (attempt - 1))
            deadline.check(f"upload of {self.uri}{key}")
            with translated("s3:PutObject", self.bucket, self.prefix + key):
                try:
                    put()
                    return PutResult(PutOutcome.CREATED, size, crc())
                except ClientError as error:
                    # 412: there is one; 409: another writer is at it; NoSuchUpload: a lost answer to a completion
                    # that did happen, or another writer's janitor.
                    if http_status(error) not in {409, 412} and error_code(error) != "NoSuchUpload":
                        raise
            if found := self._same(key, size, crc):
                return found
        raise TransientError(
            f"{self.uri}{key}: other writers were at this key {_CONFLICT_ATTEMPTS} times",
            hint="run the same command again when the other one is done",
            key=key,
        )

    def _same(self, key: str, size: int, crc: Callable[[], int]) -> PutResult | None:
        """The object if it has this content, None if there is none.

        Raises:
            ObjectExistsError: it has other content.
        """
        found = self.head(key)
        if found is None:
            return None
        if found.size == size:
            stored = self._crc_by_reading(key, size) if found.crc32c is None else found.crc32c
            if stored == crc():
                return PutResult(PutOutcome.ALREADY_SAME, size, stored)
        raise ObjectExistsError(
            f"{self.uri}{key} exists with other content ({found.size} bytes, {size} were to be written)",
            hint="tiersnap overwrites nothing unasked: look at both, then name --replace or another prefix",
            key=key,
        )

    def _crc_by_reading(self, key: str, size: int) -> int:
        crc = 0
        with translated("s3:GetObject", self.bucket, self.prefix + key):
            body = self.client.get_object(Bucket=self.bucket, Key=self.prefix + key)["Body"]
            while data := body.read(READ_SIZE):
                crc = extend(crc, data)
        return crc

    def _delete(self, batch: Sequence[str]) -> Iterator[DeleteFailure]:
        if len(batch) == 1:
            with translated("s3:DeleteObject", self.bucket, self.prefix + batch[0]):
                self.client.delete_object(Bucket=self.bucket, Key=self.prefix + batch[0])
            return
        with translated("s3:DeleteObject", self.bucket, self.prefix):
            objects = [{"Key": self.prefix + key} for key in batch]
            response = self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True})
        for failed in response.get("Errors", []):
            reason = f"{failed.get('Code', '')}: {failed.get('Message', '')}"
            yield DeleteFailure(failed["Key"].removeprefix(self.prefix), reason)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
