"""The probes for an S3 bucket: TLS, Object Lock, lifecycle rules, versioning, and comparison of checksums."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer, ProbeVerdict
from tiersnap.remote_storage.stores.s3_answers import LifecycleRule, Period, RuleFilter, S3Answer, S3Client
from tiersnap.remote_storage.stores.s3_call import bounded
from tiersnap.remote_storage.stores.s3_client import error_code, http_status, translated
from tiersnap.remote_storage.stores.s3_put import extend, request_checksum
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.remote_storage.stores.s3_store import S3Store

_log = logging.getLogger(__name__)

_NOT_SET = frozenset(
    {"ObjectLockConfigurationNotFoundError", "NoSuchObjectLockConfiguration", "NoSuchLifecycleConfiguration"}
)
_THIS_HOST = frozenset({"127.0.0.1", "localhost", "::1"})
_SENT, _SAID = b"tiersnap asks: is this compared?", b"tiersnap asks: this is another text"


def probe_bucket(store: S3Store) -> Iterator[ProbeAnswer]:
    """Yield answers about TLS, Object Lock and lifecycle rules. Without permission the answer is UNKNOWN."""
    client = store.client
    yield encryption(client.meta.endpoint_url)
    yield from _asked(store, "object lock", "s3:GetBucketObjectLockConfiguration", _lock(store, client))
    yield from _asked(store, "lifecycle rules", "s3:GetLifecycleConfiguration", _rules(store, client))


def encryption(endpoint: str) -> ProbeAnswer:
    """Return whether requests use TLS. Without TLS, others on the network can read and change records."""
    address = urlsplit(endpoint)
    if address.scheme == "https":
        return ProbeAnswer("encryption", ProbeVerdict.OK, "requests use TLS")
    if address.hostname in _THIS_HOST:
        return ProbeAnswer("encryption", ProbeVerdict.OK, "the server runs on this host")
    said = f"{endpoint} uses HTTP without TLS: others on the network can read and change segments"
    return ProbeAnswer("encryption", ProbeVerdict.WARN, said, f"use --endpoint-url https://{address.netloc}")


def refuses_damage(store: S3Store, key: str) -> bool:
    """Return whether the server refuses content that differs from the checksum in the request."""
    client = store.client
    sent = request_checksum(store.settings.checksums, _SAID, extend(0, _SAID))
    doing = f"probe of {store.uri}"
    _log.debug("sending %s%s with the checksum of another text", store.uri, key)
    with translated("s3:PutObject", store.bucket, store.prefix + key), bounded(store.settings.call_timeout, doing):
        try:
            client.put_object(Bucket=store.bucket, Key=store.prefix + key, Body=_SENT, **sent)
        except ClientError as error:
            if http_status(error) in (400, 412):
                return True
            raise
    return False


def _asked(store: S3Store, probe: str, action: str, ask: Callable[[], Iterator[ProbeAnswer]]) -> Iterator[ProbeAnswer]:
    """Yield the bucket's answers. If the server does not support the question or refuses it, yield UNKNOWN."""
    try:
        with translated(action, store.bucket), bounded(store.settings.call_timeout, f"{action} of {store.uri}"):
            yield from list(ask())
    except TiersnapError as error:
        _log.debug("%s: no answer about its %s: %s", store.uri, probe, error.message)
        if error.attrs.get("status") == 403:
            step = f"grant {action} on arn:aws:s3:::{store.bucket}"
            yield ProbeAnswer(probe, ProbeVerdict.UNKNOWN, f"this user lacks the permission {action}", step)
        elif error.attrs.get("status") in (400, 404, 405, 501):
            yield ProbeAnswer(probe, ProbeVerdict.UNKNOWN, f"the server does not support the request {action}")
        else:
            raise


def _lock(store: S3Store, client: S3Client) -> Callable[[], Iterator[ProbeAnswer]]:
    def ask() -> Iterator[ProbeAnswer]:
        found = _or_nothing(lambda: client.get_object_lock_configuration(Bucket=store.bucket))
        retention = found.get("ObjectLockConfiguration", {}).get("Rule", {}).get("DefaultRetention")
        if retention is None:
            yield ProbeAnswer(
                "object lock", ProbeVerdict.OK, "the bucket has no default retention: new objects are not locked"
            )
            return
        length = count_of(retention.get("Years", 0), "year")
        if "Days" in retention:
            length = count_of(retention["Days"], "day")
        said = f"the bucket locks every object for {length} ({retention.get('Mode')})"
        step = (
            f"replaced and deleted objects remain as old versions for {length}; add a lifecycle rule that removes "
            "noncurrent versions"
        )
        yield ProbeAnswer("object lock", ProbeVerdict.WARN, said, step)

    return ask


def _rules(store: S3Store, client: S3Client) -> Callable[[], Iterator[ProbeAnswer]]:
    def ask() -> Iterator[ProbeAnswer]:
        found = _or_nothing(lambda: client.get_bucket_lifecycle_configuration(Bucket=store.bucket))
        yield from judge_rules(found.get("Rules", []), store.prefix)

    return ask


def old_versions(store: S3Store) -> str:
    """See `ObjectStore.old_versions`."""

    def ask() -> Iterator[ProbeAnswer]:
        status = store.client.get_bucket_versioning(Bucket=store.bucket).get("Status")
        if status is not None:  # Enabled, or Suspended: a suspended bucket keeps its earlier versions
            said = "the bucket keeps old versions of deleted objects, which cost storage"
            step = "to remove old versions, add a lifecycle rule with NoncurrentVersionExpiration"
            yield ProbeAnswer("versioning", ProbeVerdict.WARN, said, step)

    answers = list(_asked(store, "versioning", "s3:GetBucketVersioning", ask))
    return "; ".join(f"{store.uri}: {each.message}: {each.next_step}".removesuffix(": ") for each in answers)


def _or_nothing(call: Callable[[], S3Answer]) -> S3Answer:
    try:
        return call()
    except ClientError as error:
        if error_code(error) in _NOT_SET:
            return {}
        raise


_NAME = "lifecycle rules"
_OFFLINE = frozenset({"GLACIER", "DEEP_ARCHIVE"})  # S3 must restore an object of these classes before a read
_NO_ABORT = "no lifecycle rule aborts unfinished uploads, which cost money"
_ADD_ABORT = (
    "add a rule with AbortIncompleteMultipartUpload of 7 days; tiersnap's own unfinished uploads are aborted by "
    "tiersnap maintain remove-orphans"
)


def judge_rules(rules: Sequence[LifecycleRule], prefix: str) -> Iterator[ProbeAnswer]:
    """Yield at least one answer about the rules for untagged objects whose keys begin with `prefix`.

    Args:
        rules: the rules from S3's GetBucketLifecycleConfiguration.
    """
    does_harm, aborts_uploads = False, False
    for rule in rules:
        if rule.get("Status") != "Enabled" or not _reaches(rule, prefix):
            continue
        for answer in _harm(rule):
            does_harm = True
            yield answer
        if "AbortIncompleteMultipartUpload" in rule:
            aborts_uploads = True
    if not aborts_uploads:
        yield ProbeAnswer(_NAME, ProbeVerdict.WARN, _NO_ABORT, _ADD_ABORT)
    elif not does_harm:
        yield ProbeAnswer(
            _NAME, ProbeVerdict.OK, "no lifecycle rule deletes segments, or moves them to an offline storage class"
        )


def _harm(rule: LifecycleRule) -> Iterator[ProbeAnswer]:
    name = f"the lifecycle rule {rule.get('ID', '')!r}"
    expiration = rule.get("Expiration", {})
    if "Days" in expiration or "Date" in expiration:
        said = f"{name} deletes segments {_when(expiration)} without the knowledge of brokers"
        step = "exclude the prefix from the rule: brokers delete segments by retention.ms"
        yield ProbeAnswer(_NAME, ProbeVerdict.FAIL, said, step)
    for transition in rule.get("Transitions", []):
        if transition.get("StorageClass") in _OFFLINE:
            said = (
                f"{name} moves segments to {transition['StorageClass']} {_when(transition)}, and brokers cannot "
                "read segments there"
            )
            yield ProbeAnswer(_NAME, ProbeVerdict.FAIL, said, "use STANDARD_IA or GLACIER_IR, which brokers can read")


def _when(action: Period) -> str:
    if "Days" in action:
        return f"after {count_of(action['Days'], 'day')}"
    return f"on {action.get('Date')}"


def _reaches(rule: LifecycleRule, prefix: str) -> bool:
    given = rule.get("Filter", {})
    wanted: RuleFilter = {**given, **given.get("And", {})}
    if "Tag" in wanted or wanted.get("Tags"):
        return False
    of_rule = str(wanted.get("Prefix") or rule.get("Prefix") or "")
    return of_rule.startswith(prefix) or prefix.startswith(of_rule)
