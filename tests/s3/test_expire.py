"""`expire` against a server: Object Lock and 403 are rows."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.left_over import finished, tier_ours
from tests.reference.planned import PARTITION
from tests.s3.conftest import settings_for
from tests.s3.test_s3_faults import is_put
from tiersnap.remote_storage.inventory.partition_objects import list_partition_objects
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.stores.s3_client import client_of
from tiersnap.remote_storage.stores.s3_store import S3Store

pytestmark = pytest.mark.s3

LAYOUT = AivenLayout()


def expire(url: str, bucket: str, *words: str):
    place = ("--remote", f"s3://{bucket}", "--endpoint-url", url, "--path-style")
    return tiersnap("expire", *place, "--topic", "orders", "--log-start", "10", "--unmanaged", *words)


def test_a_locked_segment_is_a_row_that_says_until_when_and_the_older_ones_go(endpoint, tmp_path):
    settings, bucket = settings_for(endpoint), f"locked-{uuid.uuid4().hex}"
    client_of(settings).create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    store = S3Store(bucket, "", settings)
    tier_ours(store, LAYOUT, tmp_path / "logs")
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    key = next(info.key for info in store.list() if f"{5:020d}" in info.key and info.key.endswith(".rsm-manifest"))
    client_of(settings).put_object_retention(
        Bucket=bucket, Key=key, Retention={"Mode": "COMPLIANCE", "RetainUntilDate": until}
    )
    ran = expire(endpoint, bucket, "--apply")
    assert_said(ran, 0)
    assert [(row["action"], row["state"]) for row in ran.rows] == [
        ("DELETE", "DELETE_SEGMENT_FINISHED"),
        ("LOCKED", "COPY_SEGMENT_FINISHED"),
    ]
    assert ran.row(action="LOCKED")["reason"] == f"locked until {until.isoformat().replace('+00:00', 'Z')}"
    assert [each.start_offset for each in finished(store, LAYOUT)] == [5, 10]


def test_what_may_not_be_deleted_is_a_row_and_ends_with_6(proxy, bucket, tmp_path):
    store = S3Store(bucket, "", settings_for(proxy.url))
    tier_ours(store, LAYOUT, tmp_path / "logs")
    proxy.when(lambda method, _: method == "DELETE", "answer", status=403, code="AccessDenied")
    # The probe of the store's conditions cannot be deleted either, and that is no reason to stop.
    ran = expire(proxy.url, bucket, "--apply")
    assert_said(ran, 6, "still there")
    assert "s3:DeleteObject" in ran.row(base_offset=0)["reason"]
    left = list_partition_objects(store, PARTITION).attempts
    assert [(each.start_offset, each.missing) for each in left] == [(0, ()), (5, ()), (10, ())]
    proxy.rules.clear()
    assert_said(expire(proxy.url, bucket, "--apply"), 0)
    assert [each.start_offset for each in finished(store, LAYOUT)] == [10]


@pytest.mark.skipif(bool(os.environ.get("S3_ENDPOINT_FOR_TESTS")), reason="it checks signatures")
def test_where_a_server_ignores_a_condition_nothing_is_deleted(proxy, bucket, tmp_path):
    store = S3Store(bucket, "", settings_for(proxy.url))
    tier_ours(store, LAYOUT, tmp_path / "logs")
    proxy.when(is_put, "strip", code="if-match")
    assert_said(expire(proxy.url, bucket, "--apply"), 2, "If-Match", "conditional writes")
    assert [each.start_offset for each in finished(store, LAYOUT)] == [0, 5, 10]
