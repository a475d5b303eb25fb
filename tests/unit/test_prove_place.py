"""The evidence for a location, asked of a cluster in memory, and what publish makes of it; see test_read_back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.reference.model_cluster import ENDLESS, ModelCluster
from tests.reference.planned import PARTITION, write_log
from tests.reference.remote_segments import remote_segment
from tests.reference.tiered import aiven, tier
from tiersnap.remote_storage.cluster.metadata_topic import OUR_HEADER, MetadataTopic
from tiersnap.remote_storage.errors import UnprovenPlaceError, WrongPlaceError
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord, SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.publish.broker_segments import NEWEST_RECORDS
from tiersnap.remote_storage.publish.location_evidence import ProvePlace
from tiersnap.remote_storage.publish.location_proof import EvidenceOutcome, LocationState, LocationVerdict
from tiersnap.remote_storage.publish.publish import Publish
from tiersnap.remote_storage.remote_log.finished import finished_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import UsageError

pytestmark = pytest.mark.unit

STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
AIVEN = AivenLayout()


@pytest.fixture
def cluster() -> ModelCluster:
    made = ModelCluster()
    made.create(PARTITION, end=20, settings=ENDLESS)
    return made


@pytest.fixture
def disk(tmp_path) -> Path:
    write_log(tmp_path / "disk")
    return tmp_path / "disk"


def records(*segments: RemoteLogSegmentMetadata) -> Iterator[MetadataRecord]:
    for each in segments:
        yield SegmentRecord(replace(each, state=STARTED))
        yield SegmentUpdate(each.id, 1, each.event_timestamp, FINISHED)


def prover(cluster: ModelCluster, store: DirectoryStore, *, said: list[str] | None = None) -> ProvePlace:
    talk = ([] if said is None else said).append
    return ProvePlace(cluster, MetadataTopic.of(cluster), store, (), False, False, apply=True, talk=talk)


def test_newest_segment_that_brokers_uploaded_is_a_hint_and_no_proof(cluster, disk, store):
    segments = [replace(each, event_timestamp=at) for at, each in enumerate(tier(disk / "orders-0", store))]
    for record in records(segments[2], *segments[:2]):
        cluster.append(record)
    said: list[str] = []
    verdict = prover(cluster, store, said=said).verdict(aiven(store))
    assert verdict.state is LocationState.UNPROVEN
    assert hints(verdict) == [f"brokers uploaded {store.uri}{AIVEN.log_key(segments[2])} at 1970-01-01T00:00:00+00:00"]
    assert said == [], "the topic is short: its end is all of it"
    with pytest.raises(WrongPlaceError, match="does not have the newest segments"):
        wrong = DirectoryStore(store.root.parent / "wrong")
        prover(cluster, wrong).prove(aiven(wrong))


def hints(verdict: LocationVerdict) -> list[str]:
    """What hints at the location, without what is always said."""
    return [
        each.sentence.split(". This is no proof")[0]
        for each in verdict.evidence
        if each.outcome is EvidenceOutcome.HINTS
    ]


def test_prove_counts_no_segment_that_tiersnap_published(cluster, disk, store):
    topic = MetadataTopic.of(cluster)
    topic.publish((PARTITION, record) for record in records(*tier(disk / "orders-0", store)))
    assert {headers for log in cluster.log.values() for _, headers in log} == {(OUR_HEADER,)}
    with pytest.raises(UnprovenPlaceError, match="remote storage has no segment that a broker uploaded"):
        prover(cluster, store).prove(aiven(store))


def test_prove_counts_no_segment_of_a_topic_that_is_gone(cluster, disk, store):
    for record in records(*tier(disk / "orders-0", store)):
        cluster.append(record)
    cluster.there[PARTITION.topic].topic_id = "MWJ6FHTfRYy67jzwZdeqSQ"
    with pytest.raises(UnprovenPlaceError):
        prover(cluster, store).prove(aiven(store))


def test_prove_reads_all_records_when_the_newest_are_of_failing_copiers(cluster, disk, store):
    for record in records(*tier(disk / "orders-0", store)):
        cluster.append(record)
    failing = remote_segment(20, 29, ((0, 20),), STARTED)
    attempt = SegmentRecord(replace(failing, id=replace(failing.id, partition=PARTITION.partition)))
    for _ in range(NEWEST_RECORDS + 1):
        cluster.append(attempt)
    said: list[str] = []
    assert len(hints(prover(cluster, store, said=said).verdict(aiven(store)))) == 1
    assert said == [
        "reading all records of remote segments, because the newest records name no segment that a broker uploaded"
    ]


@pytest.mark.parametrize("is_told", [False, True])
def test_layout_is_that_of_the_segments_when_brokers_do_not_say_it(cluster, disk, store, is_told):
    if is_told:
        for record in records(*tier(disk / "orders-0", store)):
            cluster.append(record)
        assert prover(cluster, store).location(None).layout.name == "aiven"
    else:
        with pytest.raises(UsageError, match="the layout is unknown") as caught:
            prover(cluster, store).location(None)
        assert "--layout" in caught.value.hint
    assert prover(cluster, store).location("local-tiered-storage").layout.name == "local-tiered-storage"


def publish(cluster: ModelCluster, disk: Path, store: DirectoryStore) -> Publish:
    prove = partial(prover(cluster, store).prove, aiven(store))
    return Publish(cluster, MetadataTopic.of(cluster), aiven(store), prove, (str(disk),))


def test_publish_writes_nothing_without_a_proof_and_needs_none_for_nothing(cluster, disk, store):
    tier(disk / "orders-0", store)
    finished = finished_segments(aiven(store), lambda _: True)
    for apply in (False, True):
        with pytest.raises(UnprovenPlaceError):
            publish(cluster, disk, store).run(finished, apply=apply)
    assert not any(cluster.log.values())
    MetadataTopic.of(cluster).publish((PARTITION, record) for record in records(*finished))
    done = publish(cluster, disk, store).run(finished, apply=True)
    assert (done.errors, done.records, done.proof) == ([], 0, None)
