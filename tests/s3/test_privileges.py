"""What the commands ask of S3 is what conf/iam-policy.json allows, told by the requests that a server gets."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.s3_permissions import ALLOWED, key_of, permission
from tests.s3.conftest import settings_for
from tests.s3.segments import attempt, make_segment
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.stores.s3_settings import MIN_PART_SIZE
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.upload.send_objects import copy_segment, delete_copy

pytestmark = pytest.mark.s3

ROOT = Path(__file__).parents[2]
# boto3's method -> the permission it needs (Service Authorization Reference, Amazon S3).
OPERATIONS = {
    "put_object": "s3:PutObject",
    "create_multipart_upload": "s3:PutObject",
    "upload_part": "s3:PutObject",
    "complete_multipart_upload": "s3:PutObject",
    "abort_multipart_upload": "s3:AbortMultipartUpload",
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
    "delete_object": "s3:DeleteObject",
    "delete_objects": "s3:DeleteObject",
    "list_objects_v2": "s3:ListBucket",
    "list_multipart_uploads": "s3:ListBucketMultipartUploads",
    "get_object_lock_configuration": "s3:GetBucketObjectLockConfiguration",
    "get_bucket_lifecycle_configuration": "s3:GetLifecycleConfiguration",
    "get_bucket_versioning": "s3:GetBucketVersioning",
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    segments = {base: [data_batch(base, 10, 7, 0, base)] for base in (0, 10, 20)}
    write_partition(folder, "orders", 0, segments, indexes=True, high_watermark=30, topic_id="lZ6vvmajTWKDBUTV6SQAtQ")
    (folder / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=EArE95XTQEqfBLWnpGnLIQ\n")
    return folder


def test_the_commands_of_a_host_need_what_the_policy_allows_and_stay_below_their_prefix(proxy, bucket, logs, tmp_path):
    remote, place = f"s3://{bucket}/tiers", ("--endpoint-url", proxy.url, "--path-style")
    disk = tmp_path / "disk"
    disk.mkdir()
    shutil.copy(logs / "meta.properties", disk)
    said = [
        tiersnap("tier", logs, "--remote", remote, *place, "--apply"),
        tiersnap("tier", logs, "--remote", remote, *place, "--apply"),
        tiersnap("collect", logs, "--to", f"s3://{bucket}/tiers/collected", *place, "--apply"),
        tiersnap("collect", logs, "--to", f"s3://{bucket}/tiers/collected", *place, "--apply"),
    ]
    tiered = list(proxy.requests)
    proxy.requests.clear()
    said += [
        tiersnap("restore", "--remote", remote, "--to", disk, "--topic", "orders", "--unpublished", *place, "--apply"),
        tiersnap("install", disk, "--remote", remote, *place),
    ]
    assert [each.exit_code for each in said[:5]] == [0] * 5, [each.err for each in said]
    assert {permission(request) for request in proxy.requests} == {"s3:ListBucket", "s3:GetObject"}
    asked = {permission(request) for request in tiered}
    assert asked <= ALLOWED, asked - ALLOWED
    assert {"s3:ListBucket", "s3:GetObject", "s3:PutObject"} <= asked
    for request in [*tiered, *proxy.requests]:
        assert (key_of(request) or "").startswith("tiers"), request


def test_large_segments_and_what_is_taken_back_need_nothing_else(proxy, bucket, tmp_path):
    store, layout = S3Store(bucket, "tiers/", settings_for(proxy.url)), AivenLayout()
    segment = make_segment(tmp_path, log_size=2 * MIN_PART_SIZE)
    copy = attempt(segment)
    copy_segment(RemoteLocation(store, layout), segment, copy)
    list(store.unfinished_uploads())
    delete_copy(RemoteLocation(store, layout), copy)
    asked = {permission(request) for request in proxy.requests}
    assert asked <= ALLOWED, asked - ALLOWED
    assert "s3:DeleteObject" in asked


def test_no_store_calls_what_the_policy_does_not_know():
    """Of the code, because errors and races take ways that no test of a command takes."""
    called = set()
    for path in (ROOT / "remote_storage").glob("*/*s3*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr=name, value=ast.Attribute(attr="client") | ast.Name(id="client"))
                ):
                    called.add(name)
                case ast.Constant(value=str() as name) if re.fullmatch("list_[a-z0-9_]+", name):
                    called.add(name)
    assert {"put_object", "get_object", "delete_objects"} <= called
    assert called - {"get_paginator"} <= OPERATIONS.keys(), called
    assert {OPERATIONS[name] for name in called - {"get_paginator"}} == ALLOWED
