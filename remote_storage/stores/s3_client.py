"""One boto3 client per process and settings, and the translation of botocore's errors.

Stores hold only the settings.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TypedDict
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore import exceptions as boto
from botocore.config import Config
from botocore.model import OperationModel
from botocore.utils import determine_content_length, parse_timestamp

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.stores.requests import MOST_AT_ONCE
from tiersnap.remote_storage.stores.s3_answers import S3Answer, S3Client
from tiersnap.remote_storage.stores.s3_call import obey_deadlines
from tiersnap.remote_storage.stores.s3_settings import Checksums, S3Settings
from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError, TiersnapError, TransientError

_TRANSIENT_CODES = frozenset(
    {
        "InternalError",
        "OperationAborted",
        "ConditionalRequestConflict",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
    }
)
_CREDENTIAL_CODES = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
)
_BUCKET_CODES = {"NoSuchBucket": "does not exist", "InvalidBucketName": "has a name that the server does not accept"}
_CHECKSUM_CODES = frozenset({"BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch"})
_UNSUPPORTED_CODES = frozenset(
    {"InvalidArgument", "InvalidRequest", "MalformedXML", "MissingContentMD5", "NotImplemented", "XNotImplemented"}
)
_REGION_CODES = frozenset({"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"})
_COMPAT_HINT = "if the server is not AWS, set `checksums: compat`"
_CREDENTIALS_HINT = (
    "set AWS_PROFILE, or both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run on a machine with an attached role"
)


def _answer_of(error: boto.ClientError) -> S3Answer:
    answer: S3Answer = error.response
    return answer


def http_status(error: boto.ClientError) -> int:
    """Return the HTTP status of the answer, or 0 if the error has none."""
    return int(_answer_of(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def error_code(error: boto.ClientError) -> str:
    """Return S3's error code, such as NoSuchKey. For an answer to HEAD, this is the HTTP status as text."""
    return str(_answer_of(error).get("Error", {}).get("Code", ""))


def is_missing_object(error: boto.ClientError) -> bool:
    """Return whether the object does not exist. An answer to HEAD looks the same if the bucket does not exist."""
    return http_status(error) == 404 and error_code(error) in {"404", "NoSuchKey", "NotFound"}


@contextmanager
def translated(action: str, bucket: str, key: str = "") -> Iterator[None]:
    """Translate botocore's errors into tiersnap's.

    `action` is the S3 permission of the request, such as s3:PutObject.
    """
    try:
        yield
    except boto.ClientError as error:
        raise _of_answer(error, action, bucket, key) from error
    except boto.BotoCoreError as error:
        raise _of_client(error, action, bucket, key) from error


_REDIRECTS = frozenset({301, 302, 307, 308})


def names_no_region(answer: S3Answer) -> bool:
    """Return whether an answer is a redirect that does not name the region. AWS always names the region.

    botocore would ask HeadBucket for the region, and get the same redirect again, until Python's stack overflows.
    """
    metadata = answer.get("ResponseMetadata", {})
    has_region = "x-amz-bucket-region" in metadata.get("HTTPHeaders", {}) or "Region" in answer.get("Error", {})
    return metadata.get("HTTPStatusCode") in _REDIRECTS and not has_region


def _of_redirect(error: boto.ClientError, where: str, attrs: Mapping[str, object]) -> TiersnapError | None:
    answer = _answer_of(error)
    location = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("location", "")
    if not names_no_region(answer) or not location:
        return None
    place = urlsplit(location)
    hint = "check --endpoint-url"
    if place.netloc:
        hint = f"--endpoint-url {place.scheme}://{place.netloc}"
    return RemoteStorageError(
        f"{where}: the endpoint redirects to {location}, but names no region, unlike S3", hint=hint, **attrs
    )


def _of_answer(error: boto.ClientError, action: str, bucket: str, key: str) -> TiersnapError:
    code, status = error_code(error), http_status(error)
    where = f"s3://{bucket}/{key}"
    attrs: dict[str, object] = {"action": action, "bucket": bucket, "key": key, "code": code, "status": status}
    said = _answer_of(error).get("Error", {}).get("Message") or code
    if (redirect := _of_redirect(error, where, attrs)) is not None:
        return redirect
    if code in _BUCKET_CODES:
        return RemoteStorageError(
            f"bucket {bucket!r} {_BUCKET_CODES[code]}",
            hint="create the bucket; or correct the s3:// URI, the endpoint or the account",
            **attrs,
        )
    if _is_transient(code, status):
        return TransientError(
            f"{where}: the server answered {action} with {status} {code}",
            hint="the server is busy: run the same command again",
            **attrs,
        )
    if is_missing_object(error):
        return ObjectNotFoundError(f"{where}: the object does not exist", hint="", **attrs)
    refusal, hint = _refusal(action, bucket, code, status, said)
    return RemoteStorageError(f"{where}: {refusal}", hint=hint, **attrs)


def _is_transient(code: str, status: int) -> bool:
    return code in _TRANSIENT_CODES or (status >= 500 and status != 501) or status == 429


def _refusal(action: str, bucket: str, code: str, status: int, said: str) -> tuple[str, str]:
    """Return the message and the hint for a request that the server always refuses. `said` is the server's message."""
    if code in _CREDENTIAL_CODES:
        return f"credentials refused: {code}", _CREDENTIALS_HINT
    if code == "RequestTimeTooSkewed":
        return said, "set the clock of this host"
    if code in _REGION_CODES or status == 301:
        return f"bucket {bucket!r} is in another region: {code or status}", "set the bucket's region"
    if code in _CHECKSUM_CODES:
        return f"the server refused the checksum that tiersnap sent: {code}", _COMPAT_HINT
    if status == 403:
        return f"the server denied {action} to this user", _grant(action, bucket)
    refusal = f"the server answered {action} with {status} {code}: {said}"
    if code in _UNSUPPORTED_CODES or status == 501:
        return refusal, _COMPAT_HINT
    return refusal, ""


def _grant(action: str, bucket: str) -> str:
    if action.startswith("s3:List"):
        return f"give this user the permission {action} on arn:aws:s3:::{bucket}"
    grant = f"give this user the permission {action} on arn:aws:s3:::{bucket}/*"
    if action == "s3:GetObject":  # for an absent key, S3 answers 404 only if the user may list the bucket
        grant += f", and s3:ListBucket on arn:aws:s3:::{bucket}"
    return grant


def _of_client(error: Exception, action: str, bucket: str, key: str) -> TiersnapError:
    where = f"s3://{bucket}/{key}"
    attrs: dict[str, object] = {"action": action, "bucket": bucket, "key": key, "code": type(error).__name__}
    if isinstance(error, boto.FlexibleChecksumError):  # the content differs from the checksum that its writer stored
        return CorruptDataError(f"{where}: {error}", hint="", **attrs)
    if isinstance(error, boto.SSLError):
        return RemoteStorageError(
            f"{where}: the TLS connection failed: {error}",
            hint="check that the endpoint begins with https://, and check AWS_CA_BUNDLE",
            **attrs,
        )
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError | boto.CredentialRetrievalError):
        return RemoteStorageError(
            f"{where}: tiersnap found no credentials for S3: {error}", hint=_CREDENTIALS_HINT, **attrs
        )
    if isinstance(error, boto.ProfileNotFound | boto.TokenRetrievalError | boto.SSOError):
        return RemoteStorageError(f"{where}: {error}", hint=_CREDENTIALS_HINT, **attrs)
    if isinstance(error, boto.ConnectionError | boto.HTTPClientError | boto.IncompleteReadError):
        return TransientError(
            f"{where}: {action}: {error}",
            hint="check the endpoint and the network, then run the same command again",
            **attrs,
        )
    return RemoteStorageError(f"{where}: {action}: {error}", hint="", **attrs)


_log = logging.getLogger(__name__)
_SMALL = 1 << 20  # bytes


def client_of(settings: S3Settings) -> S3Client:
    """Return the client for these settings in this process. A forked worker creates its own client."""
    return _client_of_process(settings, os.getpid())


@functools.lru_cache(maxsize=8)
def _client_of_process(settings: S3Settings, _pid: int) -> S3Client:
    # Since 1.36, botocore adds CRC32 trailers to every put and asks for a checksum with every get. Many servers other
    # than AWS refuse these requests. `when_required` disables the trailers and the question.
    when = "when_supported" if settings.checksums is Checksums.AWS else "when_required"
    s3: dict[str, object] = {"addressing_style": "path" if settings.path_style else "auto"}
    if settings.endpoint_url is None or settings.endpoint_url.startswith("https:"):
        # botocore would add the SHA-256 of the body. TLS and the CRC in a signed header are enough.
        s3["payload_signing_enabled"] = False
    config = Config(
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
        retries={"mode": "standard", "total_max_attempts": settings.total_attempts},
        max_pool_connections=max(MOST_AT_ONCE, settings.max_concurrency),
        request_checksum_calculation=when,
        response_checksum_validation=when,
        s3=s3,
        user_agent_extra="tiersnap",
    )
    core = botocore.session.get_session()
    # botocore's own parser accepts any form of a time, and takes half the time of a listing.
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    session = boto3.session.Session(profile_name=settings.profile, region_name=settings.region, botocore_session=core)
    client = session.client("s3", endpoint_url=settings.endpoint_url, config=config)
    obey_deadlines(client)
    client.meta.events.register_first("needs-retry.s3", _stay)
    client.meta.events.register_last("before-call.s3", _send_at_once)
    made: S3Client = client
    _log.debug("a client of %s", made.meta.endpoint_url)
    return made


def _timestamp(text: str) -> datetime:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(TypeError, ValueError):
            moment = parse(text)
            if moment.tzinfo is not None:
                return moment
    found: datetime = parse_timestamp(text)
    return found


class _Params(TypedDict):
    headers: dict[str, str]
    body: object


def _send_at_once(params: _Params, **_: object) -> None:
    """Send a small body together with its request. Waiting for "100 Continue" takes as long as the request itself."""
    if "Expect" in params["headers"] and (determine_content_length(params["body"]) or 0) <= _SMALL:
        del params["headers"]["Expect"]


class _Request(TypedDict):
    context: dict[str, dict[str, object]]


def _stay(
    request_dict: _Request, response: tuple[object, S3Answer] | None, operation: OperationModel, **_: object
) -> None:
    """Stop botocore from asking for the region of a bucket again and again. See `names_no_region`."""
    if response is not None and operation.name == "HeadBucket" and names_no_region(response[1]):
        request_dict["context"]["s3_redirect"]["redirected"] = True
