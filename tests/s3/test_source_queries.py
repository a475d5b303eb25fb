"""A log directory in S3 whose URI has a query: it is masked in outputs, and opened as the user wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.log_builder import data_batch, write_partition
from tests.reference.model_cluster import ModelCluster
from tests.s3.conftest import settings_for
from tiersnap.remote_storage.cluster.copy_tasks import ask_about_log_dirs
from tiersnap.remote_storage.stores.s3_client import client_of
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.listed_again import listed_again
from tiersnap.snapshot.log.selection import Selection, open_log_dirs, selected_of

pytestmark = pytest.mark.s3


@pytest.fixture(name="source")
def fixture_source(endpoint: str, bucket: str, tmp_path: Path) -> str:
    """The URI of a log directory with one partition of three segments."""
    segments = {base: [data_batch(base, 10, 7, 0, base)] for base in (0, 10, 20)}
    write_partition(tmp_path, "orders", 0, segments, high_watermark=30)
    client = client_of(settings_for(endpoint))
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        client.upload_file(str(path), bucket, f"logs/{path.relative_to(tmp_path)}")
    query = f"endpoint_override={endpoint.removeprefix('http://')}&scheme=http&region=us-east-1"
    return f"s3://{bucket}/logs?{query}"


def test_a_second_look_opens_the_uri_with_its_query(source: str, endpoint: str, bucket: str) -> None:
    opened = open_log_dirs([source])
    ((named, partition),) = selected_of(opened, Selection())
    assert source not in repr(named) and "endpoint_override=***" in named.uri
    client_of(settings_for(endpoint)).delete_object(Bucket=bucket, Key=f"logs/orders-0/{0:020d}.log")
    gone = Finding(FindingKind.DELETED_FILE, partition.segments[0].log.path, -1, "deleted since it was listed")
    again = listed_again(named, partition, [gone])
    assert again is not None and [each.base_offset for each in again.segments] == [10, 20]


def test_leader_epochs_are_read_from_the_uri_with_its_query(source: str) -> None:
    """The model's leaders cannot be asked for their epochs."""
    answer = ask_about_log_dirs(ModelCluster(), open_log_dirs([source]), None, talk=print)
    assert answer.records is not None
