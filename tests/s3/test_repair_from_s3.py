"""`repair --remote` a bucket: what it asks for, and what it does when the server answers for a part only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.s3_permissions import permission

pytestmark = pytest.mark.s3

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
WORDS = {"indexes": True, "high_watermark": 30, "log_start_offset": 0, "leader_epochs": [(0, 0)], "topic_id": TOPIC_ID}
NAME = "00000000000000000020.snapshot"


def write(folder: Path, partition: int, *bases: int) -> Path:
    segments = {base: [data_batch(base, 10, 7 + base, 0, 0)] for base in bases}
    return write_partition(folder, "orders", partition, segments, **WORDS)


@pytest.fixture(name="place")
def fixture_place(proxy, bucket) -> list[str]:
    """Words that say where remote storage is, behind `--remote`."""
    return [f"s3://{bucket}/tiers", "--endpoint-url", proxy.url, "--path-style"]


@pytest.fixture(name="whole")
def fixture_whole(tmp_path: Path, place: list[str]) -> bytes:
    """The snapshot at 20 of the whole log; its first two segments are tiered for three partitions."""
    for partition in range(3):
        write(tmp_path / "whole", partition, 0, 10, 20)
    assert tiersnap("tier", tmp_path / "whole", "--remote", *place, "--apply").exit_code == 0
    assert tiersnap("repair", tmp_path / "whole", "--all", "--out", tmp_path / "out").exit_code == 0
    return (tmp_path / "out/orders-0" / NAME).read_bytes()


def test_it_lists_and_reads_and_no_more(proxy, place, whole, tmp_path):
    short = write(tmp_path / "short", 0, 10, 20)
    proxy.requests.clear()
    ran = tiersnap("repair", tmp_path / "short", "--remote", *place, "--above-newest", "--apply")
    assert ran.exit_code == 0, ran.err
    assert {permission(request) for request in proxy.requests} == {"s3:ListBucket", "s3:GetObject"}
    assert (short / NAME).read_bytes() == whole


def test_where_the_server_stops_answering_the_rest_is_repaired_and_the_next_run_finishes(proxy, place, whole, tmp_path):
    short = [write(tmp_path / "short", partition, 10, 20) for partition in (0, 1)]
    short.append(write(tmp_path / "short", 2, 0, 10, 20))
    words = ("repair", tmp_path / "short", "--remote", *place, "--above-newest", "--apply")
    proxy.when(lambda _, path: (f"orders-{TOPIC_ID}" in path and "1%2F" in path) or "/1/" in path, "answer", status=503)
    ran = tiersnap(*words)
    assert ran.exit_code == 3, ran.err
    assert [(folder / NAME).exists() for folder in short] == [True, False, True]
    assert "orders-1: " in ran.err
    assert f"next: tiersnap repair {tmp_path / 'short'}" in ran.err
    proxy.rules.clear()
    assert tiersnap(*words).exit_code == 0
    assert {(folder / NAME).read_bytes() for folder in short} == {whole}


def test_a_server_that_refuses_is_named_before_anything_is_written(proxy, place, whole, tmp_path):
    short = write(tmp_path / "short", 0, 10, 20)
    proxy.when(lambda *_: True, "answer", status=403, code="AccessDenied")
    ran = tiersnap("repair", tmp_path / "short", "--remote", *place, "--above-newest", "--apply")
    assert (ran.exit_code, (short / NAME).exists()) == (2, False)
