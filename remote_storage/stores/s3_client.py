"""One boto3 client a process and settings; stores carry settings, never a client."""

from __future__ import annotations

import functools
import logging
import os
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import boto3
import botocore.session
from botocore.client import BaseClient
from botocore.config import Config
from botocore.model import OperationModel
from botocore.utils import determine_content_length, parse_timestamp

from tiersnap.remote_storage.stores.in_parallel import MOST_AT_ONCE
from tiersnap.remote_storage.stores.s3_call import obey_deadlines
from tiersnap.remote_storage.stores.s3_errors import names_no_region
from tiersnap.remote_storage.stores.s3_settings import Checksums, S3Settings

_log = logging.getLogger(__name__)
_SMALL = 1 << 20  # bytes


def client_of(settings: S3Settings) -> BaseClient:
    """The client for these settings in this process; a forked worker makes its own."""
    return _client_of_process(settings, os.getpid())


@functools.lru_cache(maxsize=8)
def _client_of_process(settings: S3Settings, _pid: int) -> BaseClient:
    # Since 1.36 botocore adds CRC32 trailers to every put and asks for checksums with every get, which many servers
    # other than AWS refuse; `when_required` turns both off.
    when = "when_supported" if settings.checksums is Checksums.AWS else "when_required"
    s3: dict[str, object] = {"addressing_style": "path" if settings.path_style else "auto"}
    if settings.endpoint_url is None or settings.endpoint_url.startswith("https:"):
        # TLS and our CRC in a signed header are enough; not knowing that CRC, botocore would add SHA-256 of the body.
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
    # botocore's own, which takes any form of a time, is half the cost of a listing.
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    session = boto3.session.Session(profile_name=settings.profile, region_name=settings.region, botocore_session=core)
    client = session.client("s3", endpoint_url=settings.endpoint_url, config=config)
    obey_deadlines(client)
    client.meta.events.register_first("needs-retry.s3", _stay)
    client.meta.events.register_last("before-call.s3", _send_at_once)
    _log.debug("a client of %s", client.meta.endpoint_url)
    return client


def _timestamp(text: str) -> datetime:
    """A time as S3 sends it, in a header or in XML."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(TypeError, ValueError):
            moment = parse(text)
            if moment.tzinfo is not None:
                return moment
    found: datetime = parse_timestamp(text)
    return found


def _send_at_once(params: dict[str, Any], **_: object) -> None:
    """Send a small body with its request, not after "100 Continue": to wait for that takes as long as the request."""
    if "Expect" in params["headers"] and (determine_content_length(params["body"]) or 0) <= _SMALL:
        del params["headers"]["Expect"]


def _stay(
    request_dict: dict[str, Any], response: tuple[Any, dict[str, Any]] | None, operation: OperationModel, **_: object
) -> None:
    """Keep botocore from asking for the region of a bucket again and again; see names_no_region."""
    if response is not None and operation.name == "HeadBucket" and names_no_region(response[1]):
        request_dict["context"]["s3_redirect"]["redirected"] = True
