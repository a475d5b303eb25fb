"""`doctor --remote` against a server, and what it makes of a bucket's rules."""

from __future__ import annotations

import uuid

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.s3.conftest import settings_for
from tiersnap.remote_storage.stores.probe import probe_store
from tiersnap.remote_storage.stores.s3_client import client_of
from tiersnap.remote_storage.stores.s3_store import S3Store

pytestmark = pytest.mark.s3


def answers(store) -> dict[str, tuple[str, str]]:
    return {each.probe: (str(each.verdict), each.message) for each in probe_store(store)}


def test_a_bucket_with_nothing_set_leaves_nothing_behind(s3_store):
    found = answers(s3_store)
    assert [found[name][0] for name in ("clock", "conditional writes", "encryption", "object lock")] == ["OK"] * 4
    assert found["lifecycle rules"][0] == "WARN"
    assert "unfinished uploads" in found["lifecycle rules"][1]
    assert list(s3_store.list()) == []


def test_a_server_that_takes_damaged_content_is_told_from_one_that_does_not(proxy, bucket):
    store = S3Store(bucket, "some/prefix/", settings_for(proxy.url))
    assert answers(store)["checksums"][0] == "WARN", "moto takes what it is sent"
    puts: list[str] = []

    def is_damaged(method: str, path: str) -> bool:
        """The second put of the second probe."""
        puts.extend([path] if method == "PUT" else [])
        return method == "PUT" and len(set(puts)) == 2 and puts.count(path) == 2

    proxy.when(is_damaged, "answer", status=400, code="BadDigest")
    assert answers(store)["checksums"][0] == "OK"
    assert list(store.list()) == []


def test_a_server_that_compares_checksums_passes(comparing_store):
    found = answers(comparing_store)
    assert found["checksums"] == ("OK", "the store refuses damaged content, and stores CRC-32C with objects")
    assert found["conditional writes"][0] == "OK"
    assert found["lifecycle rules"][0] == "UNKNOWN", "it has none"
    assert list(comparing_store.list()) == []


def test_locks_and_rules_of_a_bucket_are_said_with_what_to_do(endpoint):
    settings, bucket = settings_for(endpoint), f"locked-{uuid.uuid4().hex}"
    client = client_of(settings)
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 3}}
    client.put_object_lock_configuration(
        Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    expire = {"ID": "tidy", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}
    client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [expire]})
    place = ("--remote", f"s3://{bucket}/tiers", "--endpoint-url", endpoint, "--path-style")
    ran = tiersnap("doctor", *place, output="table")
    assert_said(ran, 2)
    assert "object lock: WARN, the bucket locks every object for 3 days (GOVERNANCE)" in ran.out
    printed = " ".join(ran.out.split())
    assert "lifecycle rules: FAIL, the lifecycle rule 'tidy' deletes segments after 30 days" in printed
    assert tiersnap("doctor", *place).exit_code == 2


def test_who_may_not_ask_is_told_what_to_grant(proxy, bucket):
    proxy.when(lambda _, path: "lifecycle" in path, "answer", status=403, code="AccessDenied")
    proxy.when(lambda _, path: "object-lock" in path, "answer", status=501, code="NotImplemented")
    found = answers(S3Store(bucket, "", settings_for(proxy.url)))
    assert found["lifecycle rules"] == ("UNKNOWN", "this user lacks the permission s3:GetLifecycleConfiguration")
    assert found["object lock"] == (
        "UNKNOWN",
        "the server does not support the request s3:GetBucketObjectLockConfiguration",
    )
