"""What `doctor --remote` makes of clocks and lifecycle rules, and of a directory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from botocore.stub import Stubber

from tests.reference.command import assert_said, tiersnap
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.probe import clock
from tiersnap.remote_storage.stores.probe_answer import ProbeVerdict
from tiersnap.remote_storage.stores.probe_s3 import encryption, judge_rules
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store

pytestmark = pytest.mark.unit

ABORT = {"Status": "Enabled", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}
DELETES = {"ID": "x", "Status": "Enabled", "Filter": {"Prefix": "tiers/"}, "Expiration": {"Days": 30}}


def verdicts(*rules: dict[str, object], prefix: str = "tiers/") -> list[str]:
    return [str(each.verdict) for each in judge_rules(rules, prefix)]


def test_rules_that_delete_segments_or_put_them_out_of_reach_fail_and_others_do_not():
    assert verdicts(ABORT) == ["OK"]
    assert verdicts() == ["WARN"]
    assert verdicts(ABORT, DELETES) == ["FAIL"]
    assert verdicts(ABORT, {**DELETES, "Status": "Disabled"}) == ["OK"]
    assert verdicts(ABORT, {**DELETES, "Expiration": {"ExpiredObjectDeleteMarker": True}}) == ["OK"]
    assert verdicts(ABORT, {**DELETES, "Expiration": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}}) == [
        "OK"
    ]
    for storage, verdict in (("DEEP_ARCHIVE", "FAIL"), ("GLACIER", "FAIL"), ("GLACIER_IR", "OK")):
        moves = {**DELETES, "Expiration": {}, "Transitions": [{"Days": 1, "StorageClass": storage}]}
        assert verdicts(ABORT, moves) == [verdict]


@pytest.mark.parametrize(
    ("wanted", "reaches"),
    [
        ({"Prefix": ""}, True),
        ({"Prefix": "tiers/orders-"}, True),
        ({"Prefix": "ti"}, True),
        ({"Prefix": "other/"}, False),
        ({"And": {"Prefix": "tiers/", "ObjectSizeGreaterThan": 1}}, True),
        ({"And": {"Prefix": "tiers/", "Tags": [{"Key": "a", "Value": "b"}]}}, False),
        ({"Tag": {"Key": "a", "Value": "b"}}, False),
    ],
)
def test_a_rule_counts_where_it_may_reach_an_object_of_ours(wanted, reaches):
    assert verdicts(ABORT, {**DELETES, "Filter": wanted}) == (["FAIL"] if reaches else ["OK"])


def test_a_rule_of_the_old_form_has_its_prefix_beside_the_filter():
    old = {"Status": "Enabled", "Prefix": "other/", "Expiration": {"Days": 1}}
    assert verdicts(ABORT, old) == ["OK"]
    assert verdicts(ABORT, {**old, "Prefix": "tiers/"}) == ["FAIL"]


@pytest.mark.parametrize(
    ("there", "verdict"),
    [(1_000_000, "OK"), (1_004_999, "OK"), (1_005_000, "WARN"), (995_000, "WARN"), (1_900_000, "FAIL"), (0, "UNKNOWN")],
)
def test_clocks_are_compared(there, verdict):
    answer = clock(1_000_000, there)
    assert answer.verdict is ProbeVerdict(verdict)
    assert bool(answer.next_step) is (verdict in ("WARN", "FAIL"))


def test_a_directory_is_asked_and_left_as_it_was(tmp_path: Path):
    remote = tmp_path / "remote"
    assert_said(tiersnap("doctor", "--remote", remote), 2, "no such directory")
    assert not remote.exists(), "a mistyped path"
    remote.mkdir()
    ran = tiersnap("doctor", "--remote", remote)
    assert_said(ran, 0)
    answered = json.loads(ran.out)["result"]["remote"]
    assert {each["probe"]: each["verdict"] for each in answered} == {
        "clock": "OK",
        "conditional writes": "OK",
        "checksums": "OK",
    }
    assert [path for path in remote.rglob("*") if path.is_file() and path.name != "lock"] == []


def test_without_anything_to_look_at_it_says_what_it_takes():
    assert_said(tiersnap("doctor"), 2, "no broker runs on this host", "--server-properties")


@pytest.mark.parametrize(
    ("endpoint", "verdict"),
    [
        ("https://minio.example:9000", "OK"),
        ("http://minio.example:9000", "WARN"),
        ("http://10.0.0.9", "WARN"),
        ("http://localhost.example", "WARN"),
        ("http://127.0.0.1:9000", "OK"),
        ("http://[::1]:9000", "OK"),
    ],
)
def test_records_that_travel_in_the_clear_to_another_host_are_told(endpoint: str, verdict: str):
    answer = encryption(endpoint)
    assert (str(answer.verdict), bool(answer.next_step)) == (verdict, verdict == "WARN")
    if verdict == "WARN":
        assert answer.next_step.endswith(endpoint.replace("http://", "https://"))


def test_an_endpoint_without_a_scheme_is_asked_over_tls():
    """A server that speaks no TLS hears the beginning of a TLS handshake (record type 22), and no request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        heard: list[bytes] = []

        def listen() -> None:
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(1))

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        code = "from tests.reference.command import tiersnap; "
        code += f"tiersnap('doctor', '--remote', 's3://b/p', '--endpoint-url', '{endpoint}')"
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **keys}) as asking:
            listening.join(60)
            asking.kill()
    assert heard == [b"\x16"]


def test_an_endpoint_of_another_protocol_is_refused_before_anything_is_asked():
    ran = tiersnap("doctor", "--remote", "s3://b/p", "--endpoint-url", "ftp://host:21")
    assert_said(ran, 2, "ftp:// is not the scheme of an S3 server", "https://host:9000")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({}, ""),
        ({"Status": "Enabled"}, "s3://bucket/tiers/: the bucket keeps old versions of deleted objects"),
        ({"Status": "Suspended"}, "s3://bucket/tiers/: the bucket keeps old versions of deleted objects"),
        ("AccessDenied", "this user lacks the permission s3:GetBucketVersioning: grant s3:GetBucketVersioning"),
    ],
)
def test_old_versions_names_a_bucket_that_keeps_them(answer, said):
    store = S3Store("bucket", "tiers/", S3Settings(endpoint_url="http://127.0.0.1:9", region="us-east-1"))
    with Stubber(store.client) as server:
        if isinstance(answer, str):
            server.add_client_error("get_bucket_versioning", answer, http_status_code=403)
        else:
            server.add_response("get_bucket_versioning", answer, {"Bucket": "bucket"})
        told = store.old_versions()
    assert said in told and bool(told) == bool(said)


def test_old_versions_are_none_in_a_directory(tmp_path: Path):
    assert DirectoryStore(tmp_path).old_versions() == ""
