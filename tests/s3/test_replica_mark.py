"""A bucket that S3 replication has filled: its objects carry a mark, and brokers read the original."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reference.model_cluster import ENDLESS
from tests.reference.planned import PARTITION, write_log
from tests.reference.quick_time import QuickTime
from tests.reference.reading_cluster import ReadingCluster
from tests.reference.tiered import aiven, tier
from tests.s3.fault_proxy import FaultProxy
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.errors import WrongPlaceError
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.publish import read_back, read_back_topic
from tiersnap.remote_storage.publish.location_evidence import ProvePlace
from tiersnap.remote_storage.publish.location_proof import EvidenceKind, LocationState
from tiersnap.remote_storage.stores.s3_store import S3Store

pytestmark = pytest.mark.s3

MARK = "x-amz-replication-status"


@pytest.fixture
def cluster(tmp_path, s3_store: S3Store) -> ReadingCluster:
    """Its brokers have tiered three segments."""
    made = ReadingCluster(aiven(s3_store))
    made.create(PARTITION, end=20, settings=ENDLESS)
    for each in tier(write_log(tmp_path / "disk"), s3_store):
        made.append(SegmentRecord(replace(each, state=SegmentState.COPY_SEGMENT_STARTED)))
        made.append(SegmentUpdate(each.id, 1, each.event_timestamp, SegmentState.COPY_SEGMENT_FINISHED))
    return made


def mark(proxy: FaultProxy, status: str) -> None:
    """Let the server say of each object how it was replicated; moto says nothing of that."""
    proxy.when(lambda method, path: method == "HEAD", "header", header=(MARK, status))


def prover(cluster: ReadingCluster, store: S3Store) -> ProvePlace:
    return ProvePlace(cluster, MetadataTopic.of(cluster), store, (), True, True, apply=True, talk=str)


@pytest.mark.parametrize("has_segments", [True, False], ids=["uploaded", "nothing uploaded"])
def test_mark_of_s3_replication_contradicts_and_nothing_is_written(has_segments, cluster, faulty_store, proxy):
    if not has_segments:
        cluster.log.clear()
    mark(proxy, "REPLICA")
    with pytest.raises(WrongPlaceError, match="S3 replication wrote s3://") as caught:
        prover(cluster, faulty_store).prove(aiven(faulty_store))
    assert f"s3://{faulty_store.bucket}/" in caught.value.message
    assert "unproven" not in caught.value.hint
    assert {each.split(" ")[0] for each in proxy.requests} <= {"GET", "HEAD"}


@pytest.mark.parametrize("status", ["COMPLETED", "PENDING", "FAILED"])
def test_source_of_a_replication_is_no_replica(status, cluster, faulty_store, proxy):
    mark(proxy, status)
    assert prover(cluster, faulty_store).verdict(aiven(faulty_store)).state is LocationState.UNPROVEN


def test_read_back_is_kept_by_bucket_and_server(cluster, s3_store, faulty_store, monkeypatch):
    """Two servers may have a bucket of one name, one of them as a copy."""
    clock = QuickTime()
    for module in (read_back, read_back_topic):
        monkeypatch.setattr(module, "time", clock)
    proof = prover(cluster, s3_store).prove(aiven(s3_store))
    assert proof.evidence is EvidenceKind.READ_BACK
    assert [each.key for each in s3_store.list("tiersnap-read-back-")] == []
    assert prover(cluster, s3_store).verdict(aiven(s3_store)).state is LocationState.PROVEN
    assert prover(cluster, faulty_store).verdict(aiven(faulty_store)).state is LocationState.UNPROVEN


def test_head_tells_a_replica_from_an_original(faulty_store, proxy):
    faulty_store.put_if_absent("a", b"x")
    assert not faulty_store.head("a").is_replica
    mark(proxy, "REPLICA")
    assert faulty_store.head("a").is_replica
