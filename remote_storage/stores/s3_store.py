"""Objects in an S3 bucket below a prefix. `s3_put` describes how two writers of one key behave."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from itertools import islice

from botocore.exceptions import ClientError

from tiersnap.remote_storage.stores import probe_s3
from tiersnap.remote_storage.stores.object_store import (
    ByteSource,
    DeleteFailure,
    ObjectInfo,
    PutOutcome,
    PutResult,
    ReadObject,
    UnfinishedUpload,
    too_large,
)
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer
from tiersnap.remote_storage.stores.requests import NO_DEADLINE, Deadline, current, earliest
from tiersnap.remote_storage.stores.s3_answers import S3Answer, S3Client
from tiersnap.remote_storage.stores.s3_call import Call, bounded
from tiersnap.remote_storage.stores.s3_client import client_of, error_code, http_status, is_missing_object, translated
from tiersnap.remote_storage.stores.s3_multipart import MultipartUpload, read_exactly
from tiersnap.remote_storage.stores.s3_put import (
    PUT_ID,
    READ_SIZE,
    ConditionalPut,
    crc_of_source,
    extend,
    is_proved,
    of_response,
    request_checksum,
)
from tiersnap.remote_storage.stores.s3_settings import ENDPOINT_HINT, Checksums, S3Settings
from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError, TiersnapError, TransientError, UsageError

_log = logging.getLogger(__name__)

_DELETE_BATCH = 1000
_METADATA = "tiersnap-"  # prefix of the names of user metadata


@dataclass(frozen=True, slots=True)
class S3Store:
    """ObjectStore over `s3://bucket/prefix`. `prefix` is empty or ends in `/`."""

    bucket: str
    prefix: str = ""
    settings: S3Settings = field(default_factory=S3Settings)

    @property
    def uri(self) -> str:
        """Return `s3://bucket/prefix/`."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def words(self) -> list[str]:
        return self.settings.words

    @property
    def client(self) -> S3Client:
        """Return the client of this process."""
        with translated("connect", self.bucket):
            try:
                return client_of(self.settings)
            except ValueError as error:  # botocore raises it for an endpoint that is not a URL
                raise UsageError(str(error), hint=ENDPOINT_HINT) from error

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        crc, put = extend(0, data), self._conditional(key, current())
        return put.if_absent(
            lambda: self._put(key, data, crc, metadata, put.put_id, IfNoneMatch="*"), len(data), lambda: crc
        )

    def put_file_if_absent(
        self,
        key: str,
        source: ByteSource,
        size: int,
        *,
        metadata: Mapping[str, str] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> PutResult:
        """See ObjectStore. A source larger than the part size is sent as a multipart upload."""
        whole = earliest(deadline, current())
        put = self._conditional(key, whole)
        known: int | None = None

        def crc() -> int:
            nonlocal known
            if known is None and (known := crc_of_source(source, size)) is None:
                raise TransientError(f"{self.uri}{key}: the source has fewer bytes than expected", hint="scan again")
            return known

        def send() -> PutResult:
            source.seek(0)
            if size > self.settings.part_size:
                upload = MultipartUpload(self.client, self.settings, self.bucket, self.prefix + key, whole)
                return upload.run(source, size, metadata=_as_stored(metadata, put.put_id))
            data = read_exactly(source, size, self.uri + key)
            return self._put(key, data, extend(0, data), metadata, put.put_id, deadline=whole, IfNoneMatch="*")

        return put.if_absent(send, size, crc)

    def replace(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        with translated("s3:PutObject", self.bucket, self.prefix + key):
            return self._put(key, data, extend(0, data), metadata)

    def replace_if(self, key: str, data: bytes, etag: str, metadata: Mapping[str, str] | None = None) -> PutResult:
        crc, put = extend(0, data), self._conditional(key, current())
        return put.if_match(lambda: self._put(key, data, crc, metadata, put.put_id, IfMatch=etag), len(data), crc, etag)

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        return self.read(key, limit=limit).data

    def read(self, key: str, *, limit: int | None = None) -> ReadObject:
        """See ObjectStore. `read_at` is the Date header of the answer.

        If the answer has no Date, `read_at` is the object's write time, so the object does not look old.

        Raises:
            CorruptDataError: the CRC of the content differs from the server's CRC, or `limit` is exceeded.
        """
        with self._call("s3:GetObject", key) as call:
            response = self.client.get_object(Bucket=self.bucket, Key=self.prefix + key, **self._ask_for_checksum())
            size = response.get("ContentLength", 0)
            if limit is not None and size > limit:
                response["Body"].close()
                raise too_large(self.uri + key, key, limit)
            call.extend(size)
            data = response["Body"].read()
        found = _described(key, response)
        actual = extend(0, data)
        if found.crc32c is not None and found.crc32c != actual:
            raise CorruptDataError(
                f"{self.uri}{key}: the content has CRC {actual:08x}, but CRC {found.crc32c:08x} was stored with it",
                key=key,
            )
        info = replace(found, metadata=_as_put(found.metadata))
        return ReadObject(data, info, _server_time(response) or found.modified)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length <= 0:
            return b""
        with self._call("s3:GetObject", key, length):
            try:
                response = self.client.get_object(
                    Bucket=self.bucket, Key=self.prefix + key, Range=f"bytes={start}-{start + length - 1}"
                )
            except ClientError as error:
                if http_status(error) == 416:  # begins past the end
                    return b""
                raise
            data = response["Body"].read()
        return data

    def head(self, key: str) -> ObjectInfo | None:
        found = self._look(key)
        return found and replace(found, metadata=_as_put(found.metadata))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        begins: dict[str, str] = {}
        if after:
            begins["StartAfter"] = self.prefix + after
        for page in self._pages("list_objects_v2", "s3:ListBucket", prefix, **begins):
            for found in page.get("Contents", []):
                key = found["Key"].removeprefix(self.prefix)
                if after and key <= after:
                    continue  # some servers ignore StartAfter
                yield ObjectInfo(key, found["Size"], None, _ms(found["LastModified"]), found["ETag"])

    def list_keys(self, prefix: str, keys: Collection[str]) -> Iterator[ObjectInfo]:
        for found in self.list(prefix):
            if found.key in keys:
                yield found

    def folders(self, prefix: str = "") -> Iterator[str]:
        for page in self._pages("list_objects_v2", "s3:ListBucket", prefix, Delimiter="/"):
            for found in page.get("CommonPrefixes", []):
                yield found["Prefix"].removeprefix(self.prefix)

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        failures: list[DeleteFailure] = []
        remaining = iter(keys)
        # DeleteObjects needs a checksum header that COMPAT servers refuse. DeleteObject needs none.
        size = _DELETE_BATCH
        if self.settings.checksums is Checksums.COMPAT:
            size = 1
        while batch := list(islice(remaining, size)):
            try:
                failures += self._delete(batch)
            except TiersnapError as error:
                failures += [DeleteFailure(key, error.message) for key in batch]
        return tuple(failures)

    def now(self) -> int:
        """See ObjectStore. The time is the Date header of a listing."""
        with self._call("s3:ListBucket", ""):
            response = self.client.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix, MaxKeys=1)
        return _server_time(response) or 0

    def unfinished_uploads(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """See ObjectStore. The result includes the running uploads of Kafka's plugin."""
        for page in self._pages("list_multipart_uploads", "s3:ListBucketMultipartUploads", prefix):
            for found in page.get("Uploads", []):
                key, started = found["Key"].removeprefix(self.prefix), _ms(found["Initiated"])
                age = max(0, (_server_time(page) or started) - started)
                yield UnfinishedUpload(key, found["UploadId"], started, age)

    def abort_upload(self, upload: UnfinishedUpload) -> None:
        _log.debug("aborting an upload of %s%s", self.uri, upload.key)
        with self._call("s3:AbortMultipartUpload", upload.key):
            try:
                self.client.abort_multipart_upload(
                    Bucket=self.bucket, Key=self.prefix + upload.key, UploadId=upload.upload_id
                )
            except ClientError as error:
                if error_code(error) != "NoSuchUpload":
                    raise

    def probes(self) -> Iterator[ProbeAnswer]:
        return probe_s3.probe_bucket(self)

    def refuses_damage(self, key: str) -> bool:
        return probe_s3.refuses_damage(self, key)

    def old_versions(self) -> str:
        return probe_s3.old_versions(self)

    @contextmanager
    def _call(self, action: str, key: str, size: int = 0) -> Iterator[Call]:
        """Limit the time of one request, and translate its errors. `action` is the S3 permission of the request."""
        assert self.client  # create the client first: its creation is slow, and must not use up the server's time
        with (
            translated(action, self.bucket, self.prefix + key),
            bounded(self.settings.call_timeout, f"{action} of {self.uri}{key}", size=size) as call,
        ):
            yield call

    def _pages(self, operation: str, action: str, prefix: str, **more: str) -> Iterator[S3Answer]:
        paginator = self.client.get_paginator(operation)
        pages = iter(paginator.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix, **more))
        while True:
            with self._call(action, prefix):
                page = next(pages, None)
            if page is None:
                return
            yield page

    def _conditional(self, key: str, deadline: Deadline) -> ConditionalPut:
        return ConditionalPut(self.uri, self.bucket, self.prefix, key, self._look, self._crc_by_reading, deadline)

    def _look(self, key: str) -> ObjectInfo | None:
        with self._call("s3:GetObject", key):
            try:
                response = self.client.head_object(
                    Bucket=self.bucket, Key=self.prefix + key, **self._ask_for_checksum()
                )
            except ClientError as error:
                if is_missing_object(error):
                    return None
                raise
        return _described(key, response)

    def _ask_for_checksum(self) -> dict[str, str]:
        if self.settings.checksums is Checksums.AWS:
            return {"ChecksumMode": "ENABLED"}
        return {}

    def _put(
        self,
        key: str,
        data: bytes,
        crc: int,
        metadata: Mapping[str, str] | None,
        put_id: str | None = None,
        *,
        deadline: Deadline | None = None,
        **condition: str,
    ) -> PutResult:
        doing = f"upload of {self.uri}{key}"
        client, kept = self.client, _as_stored(metadata, put_id)
        sent = request_checksum(self.settings.checksums, data, crc)
        with bounded(self.settings.call_timeout, doing, size=len(data), deadline=deadline):
            response = client.put_object(
                Bucket=self.bucket, Key=self.prefix + key, Body=data, Metadata=kept, **sent, **condition
            )
        stored = of_response(response)
        if stored is not None and stored != crc:
            raise RemoteStorageError(
                f"{self.uri}{key}: tiersnap sent CRC {crc:08x}, but the server stored {stored:08x}"
            )
        _log.debug("put %s%s, %d bytes", self.uri, key, len(data))
        proved = is_proved(response, crc, sent)
        return PutResult(PutOutcome.CREATED, len(data), crc, response.get("ETag", ""), proved=proved)

    def _crc_by_reading(self, key: str, size: int) -> int:
        crc = 0
        with self._call("s3:GetObject", key, size):
            body = self.client.get_object(Bucket=self.bucket, Key=self.prefix + key)["Body"]
            while data := body.read(READ_SIZE):
                crc = extend(crc, data)
        return crc

    def _delete(self, batch: Sequence[str]) -> Iterator[DeleteFailure]:
        if len(batch) == 1:
            with self._call("s3:DeleteObject", batch[0]):
                self.client.delete_object(Bucket=self.bucket, Key=self.prefix + batch[0])
            _log.debug("deleted %s%s", self.uri, batch[0])
            return
        with self._call("s3:DeleteObject", ""):
            objects = [{"Key": self.prefix + key} for key in batch]
            response = self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True})
        _log.debug("asked for the deletion of %d objects below %s", len(batch), self.uri)
        for failed in response.get("Errors", []):
            reason = f"{failed.get('Code', '')}: {failed.get('Message', '')}"
            yield DeleteFailure(failed["Key"].removeprefix(self.prefix), reason)


def _described(key: str, response: S3Answer) -> ObjectInfo:
    if "LastModified" not in response or "ContentLength" not in response:
        raise RemoteStorageError(
            f"{key}: the answer of the server lacks Last-Modified or Content-Length",
            hint="check that the endpoint is an S3 server",
        )
    size, modified, etag = response["ContentLength"], _ms(response["LastModified"]), response.get("ETag", "")
    is_replica = response.get("ReplicationStatus") == "REPLICA"
    return ObjectInfo(key, size, of_response(response), modified, etag, response["Metadata"], is_replica)


def _as_stored(metadata: Mapping[str, str] | None, put_id: str | None) -> dict[str, str]:
    named = {_METADATA + name: value for name, value in (metadata or {}).items()}
    return named if put_id is None else named | {PUT_ID: put_id}


def _as_put(stored: Mapping[str, str]) -> dict[str, str]:
    put: dict[str, str] = {}
    for name, value in stored.items():
        if name.startswith(_METADATA) and name != PUT_ID:
            put[name.removeprefix(_METADATA)] = value
    return put


def _server_time(response: S3Answer) -> int | None:
    try:
        return _ms(parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"]))
    except (KeyError, TypeError, ValueError):
        return None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
