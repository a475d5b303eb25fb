"""Types of boto3's S3 client, of its calls and their answers. boto3 itself has no types."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol, TypedDict


class Body(Protocol):
    """The content of an object."""

    def read(self, size: int = ..., /) -> bytes:
        """Return at most `size` bytes; without `size` all remaining bytes."""

    def close(self) -> None:
        """Close the connection, or return it to the pool."""


class S3Entry(TypedDict, total=False):
    """An object, an upload or an error in an answer."""

    Key: str
    Prefix: str
    Size: int
    ETag: str
    LastModified: datetime
    UploadId: str
    Initiated: datetime
    Code: str
    Message: str
    Region: str


class ResponseMetadata(TypedDict, total=False):
    """HTTP status and headers of an answer."""

    HTTPStatusCode: int
    HTTPHeaders: dict[str, str]


class Period(TypedDict, total=False):
    """The time of a lifecycle rule or of an Object Lock rule."""

    Days: int
    Years: int
    Date: datetime
    Mode: str
    StorageClass: str


class RuleFilter(TypedDict, total=False):
    """The objects to which a lifecycle rule applies."""

    Prefix: str
    Tag: object
    Tags: list[object]
    And: RuleFilter


class LifecycleRule(TypedDict, total=False):
    """A lifecycle rule of a bucket."""

    ID: str
    Status: str
    Prefix: str
    Filter: RuleFilter
    Expiration: Period
    Transitions: list[Period]
    AbortIncompleteMultipartUpload: Period


class S3Answer(TypedDict, total=False):
    """An answer of S3. The answer to a call has only some of these members."""

    Body: Body
    ChecksumCRC32C: str
    CommonPrefixes: list[S3Entry]
    ContentLength: int
    Contents: list[S3Entry]
    ETag: str
    Error: S3Entry
    Errors: list[S3Entry]
    LastModified: datetime
    Metadata: dict[str, str]
    ObjectLockConfiguration: dict[str, dict[str, Period]]
    ReplicationStatus: str
    ResponseMetadata: ResponseMetadata
    Rules: list[LifecycleRule]
    UploadId: str
    Uploads: list[S3Entry]


class Operation(Protocol):
    """A method of the client."""

    def __call__(self, **arguments: object) -> S3Answer:
        """Send the request, and return the answer."""


class Paginator(Protocol):
    """A listing in pages."""

    def paginate(self, **arguments: object) -> Iterable[S3Answer]:
        """Yield the pages."""


class ClientMeta(Protocol):
    """Facts about a client."""

    endpoint_url: str


class S3Client(Protocol):
    """boto3's client of S3."""

    meta: ClientMeta
    abort_multipart_upload: Operation
    complete_multipart_upload: Operation
    create_multipart_upload: Operation
    delete_object: Operation
    delete_objects: Operation
    get_bucket_lifecycle_configuration: Operation
    get_bucket_versioning: Operation
    get_object: Operation
    get_object_lock_configuration: Operation
    head_object: Operation
    list_objects_v2: Operation
    put_object: Operation
    upload_part: Operation

    def get_paginator(self, operation_name: str, /) -> Paginator:
        """Return the paginator of a listing operation."""
