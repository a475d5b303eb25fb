"""What publish wrote is read back: the first surprise ends it, and what was not begun is not written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference import log_builder as lb
from tests.reference.model_cluster import CLUSTER_ID, ENDLESS, ModelCluster
from tests.reference.remote_segments import PARTITION, remote_segment
from tests.reference.tiered import aiven
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.errors import DeliveryFailedError, LostCopyError, UnblockHeldError
from tiersnap.remote_storage.locks import saved_configs
from tiersnap.remote_storage.locks.process import Process
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
from tiersnap.remote_storage.publish import pause_copying, write_records
from tiersnap.remote_storage.publish.location_proof import EvidenceKind, PlaceProof
from tiersnap.remote_storage.publish.publish import Publish, Published
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

STARTED, FINISHED, DELETING, _ = SegmentState
LATER = TopicIdPartition("payments", PARTITION.topic_id, 0)
PROOF = PlaceProof(EvidenceKind.UNPROVEN, "for a test")
A, B, C = (remote_segment(start, start + 99, [(0, start)]) for start in (0, 100, 200))


def of(segment: RemoteLogSegmentMetadata, partition: TopicIdPartition) -> RemoteLogSegmentMetadata:
    moved = replace(segment.id, topic=partition.topic, partition=partition.partition)
    return replace(segment, id=moved)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ModelCluster:
    """One whose brokers know A and B of the first of two topics."""
    monkeypatch.setattr(write_records, "_PATIENCE_SECONDS", -1)
    monkeypatch.setattr(pause_copying, "SETTLE_SECONDS", 0)
    made = ModelCluster()
    for partition in (PARTITION, LATER):
        made.create(partition, end=400, settings=ENDLESS)
    for each in (A, B):
        made.append(SegmentRecord(replace(each, state=STARTED)))
        made.append(SegmentUpdate(each.id, 1, 8, FINISHED))
    return made


@pytest.fixture
def publish(cluster: ModelCluster, tmp_path: Path) -> Callable[[], Published]:
    """Publish C of the first topic, and A of the second."""
    return publish_with(cluster, tmp_path, lambda: PROOF)


def publish_with(cluster: ModelCluster, tmp_path: Path, prove: Callable[[], PlaceProof]) -> Callable[[], Published]:
    for partition in (PARTITION, LATER):
        lb.write_partition(
            tmp_path / "disk", partition.topic, partition.partition, {0: [lb.data_batch(0, 400, 7, 0, 0)]}
        )
    topic, store, log_dirs = MetadataTopic.of(cluster), DirectoryStore(tmp_path), (str(tmp_path / "disk"),)
    run = Publish(cluster, topic, aiven(store), prove, log_dirs)
    return lambda: run.run([A, B, C, of(A, LATER)], apply=True)


def states(cluster: ModelCluster, partition: TopicIdPartition) -> list[tuple[str, SegmentState]]:
    """(segment id, state) of each record behind those of A and B."""
    pairs = [
        (each.metadata.id.segment_id, STARTED) if isinstance(each, SegmentRecord) else (each.id.segment_id, each.state)
        for each in cluster.records(partition)
    ]
    return pairs[4 if partition == PARTITION else 0 :]


def test_publish_reads_back_what_it_wrote(cluster, publish):
    published = publish()
    assert (published.errors, published.records) == ([], 4)
    assert states(cluster, PARTITION) == [(C.id.segment_id, STARTED), (C.id.segment_id, FINISHED)]
    assert states(cluster, LATER) == [(A.id.segment_id, STARTED), (A.id.segment_id, FINISHED)]
    assert publish().records == 0


@pytest.mark.parametrize("lost", [SegmentUpdate, SegmentUpdate | SegmentRecord])
def test_publish_stops_when_an_acknowledged_record_is_lost(cluster, publish, lost):
    cluster.swallow = lambda record: isinstance(record, lost)
    with pytest.raises(DeliveryFailedError, match=C.id.segment_id):
        publish()
    assert states(cluster, LATER) == [], "tiersnap publishes nothing more"
    cluster.swallow = lambda _: False
    assert publish().errors == []
    assert states(cluster, PARTITION)[-1] == (C.id.segment_id, FINISHED)


def test_publish_waits_for_records_that_show_a_moment_later(cluster, publish, monkeypatch):
    monkeypatch.setattr(write_records, "_PATIENCE_SECONDS", 30)
    monkeypatch.setattr(write_records, "_POLL_SECONDS", 0.001)
    cluster.hides_newest = 3
    assert publish().errors == []
    assert cluster.hides_newest == 0


def test_publish_stops_when_another_writer_hides_offsets_meanwhile(cluster, publish):
    hides = remote_segment(0, 49, [(0, 0)])

    def write(record: object) -> None:
        cluster.before_append = lambda _: None
        cluster.append(SegmentRecord(replace(hides, state=STARTED)))
        cluster.append(SegmentUpdate(hides.id, 1, 8, FINISHED))

    cluster.before_append = write
    with pytest.raises(LostCopyError, match="brokers do not find the offsets 50 to 99 of leader epoch 0"):
        publish()
    assert states(cluster, LATER) == [], "tiersnap publishes nothing more"


def test_publish_goes_on_when_brokers_delete_what_it_told_of(cluster, publish):
    def delete(record: object) -> None:
        if isinstance(record, SegmentUpdate) and record.id == C.id:
            cluster.append(record)
            cluster.append(SegmentUpdate(A.id, 1, 9, DELETING))
            cluster.append(SegmentUpdate(C.id, 1, 9, DELETING))

    cluster.before_append = delete
    assert publish().errors == []
    assert states(cluster, LATER)[-1] == (A.id.segment_id, FINISHED)


def test_publish_pauses_a_topic_whose_copying_is_enabled_after_its_plan(cluster, tmp_path):
    def prove() -> PlaceProof:
        cluster.change_settings(LATER.topic, {COPY_DISABLE: "false"})
        return PROOF

    done = publish_with(cluster, tmp_path, prove)()
    assert states(cluster, LATER) == [(A.id.segment_id, STARTED), (A.id.segment_id, FINISHED)]
    assert (done.errors, done.records) == ([], 4)
    assert cluster.there[LATER.topic].own == ENDLESS | {COPY_DISABLE: "false"}


def test_publish_writes_nothing_of_a_topic_that_another_run_is_at(cluster, tmp_path, publish, monkeypatch):
    saved = SavedConfigs.of(CLUSTER_ID, LATER.topic, LATER.topic_id or "", (0,), {COPY_DISABLE: None})
    SavedConfigsStore(DirectoryStore(tmp_path), process=Process("another-host", 7, "")).put(saved)
    monkeypatch.setattr(saved_configs, "_OTHERS_SECONDS", 0)
    done = publish()
    assert states(cluster, PARTITION) == [(C.id.segment_id, STARTED), (C.id.segment_id, FINISHED)]
    assert states(cluster, LATER) == []
    assert [type(plan.refusal) for plan in done.plans if plan.partition == LATER] == [UnblockHeldError]
