"""`publish` beside brokers that copy: a topic is paused while it is published, and never left paused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reference import log_builder as lb
from tests.reference.model_cluster import CLUSTER_ID, ENDLESS, ModelCluster
from tests.reference.remote_segments import PARTITION, remote_segment
from tests.reference.tiered import aiven
from tiersnap.remote_storage.cluster import copy_progress
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.errors import (
    BrokerUnavailableError,
    ClusterRefusedError,
    LostCopyError,
    MetadataTopicCompactedError,
    SettingsAsideError,
    StillStuckError,
    UnblockHeldError,
)
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.locks import saved_configs
from tiersnap.remote_storage.locks.process import Process
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.metadata.metadata_records import METADATA_TOPIC, SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE, MARK, RETENTION_MS
from tiersnap.remote_storage.publish import pause_copying, paused_topics
from tiersnap.remote_storage.publish.location_proof import EvidenceKind, PlaceProof
from tiersnap.remote_storage.publish.paused_topics import PausedTopics
from tiersnap.remote_storage.publish.publish import Publish, Published
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.gate.exit_code import OtherProblem

pytestmark = pytest.mark.unit

STARTED, FINISHED, _, _ = SegmentState
LATER = TopicIdPartition("payments", PARTITION.topic_id, 0)
PROOF = PlaceProof(EvidenceKind.UNPROVEN, "for a test")
A, B = (remote_segment(start, start + 99, [(0, start)]) for start in (0, 100))
OWN = {RETENTION_MS: "86400000", "local.retention.ms": "1000"}


class Killed(BaseException):
    """The process has ended; no handler of it does anything any more."""


def of_later(segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    return replace(segment, id=replace(segment.id, topic=LATER.topic, partition=0))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ModelCluster:
    """Two topics whose segments brokers do not know; brokers copy both."""
    monkeypatch.setattr(pause_copying, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(copy_progress, "_MARGIN_SECONDS", 0)
    monkeypatch.setattr(copy_progress, "_POLL_SECONDS", 0.001)
    made = ModelCluster()
    made.of_brokers = {"remote.log.manager.task.interval.ms": "1"}
    for partition in (PARTITION, LATER):
        made.create(partition, end=400, settings=OWN)
    return made


@pytest.fixture
def publish(tmp_path: Path) -> Callable[..., Published]:
    """Publish A and B of both topics."""
    for each in (PARTITION, LATER):
        lb.write_partition(tmp_path / "disk", each.topic, each.partition, {0: [lb.data_batch(0, 400, 7, 0, 0)]})
    location, log_dirs = aiven(DirectoryStore(tmp_path)), (str(tmp_path / "disk"),)
    uploaded = frozenset(each.id.segment_id for each in (A, B))

    def run(cluster: ModelCluster, *, apply: bool = True, prove: Callable[[], PlaceProof] = lambda: PROOF) -> Published:
        job = Publish(cluster, MetadataTopic.of(cluster), location, prove, log_dirs, uploaded=uploaded)
        return job.run([A, B, of_later(A), of_later(B)], apply=apply)

    return run


def finished(cluster: ModelCluster, partition: TopicIdPartition) -> list[str]:
    records = cluster.records(partition)
    return [each.id.segment_id for each in records if isinstance(each, SegmentUpdate) and each.state is FINISHED]


def own(cluster: ModelCluster) -> list[dict[str, str]]:
    return [cluster.there[each.topic].own for each in (PARTITION, LATER)]


def is_saved(tmp_path: Path) -> list[bool]:
    store = DirectoryStore(tmp_path)
    return [store.head(keys.unblock(each.topic, each.topic_id or "")) is not None for each in (PARTITION, LATER)]


def of_both(segments: tuple[RemoteLogSegmentMetadata, ...] = (A, B)) -> list[list[str]]:
    return [[each.id.segment_id for each in segments]] * 2


def test_each_topic_is_paused_alone_while_its_records_are_written_and_has_its_configs_again(cluster, publish, tmp_path):
    seen: list[tuple[str, str | None, list[bool]]] = []

    def look(record: SegmentRecord | SegmentUpdate) -> None:
        of = record.metadata if isinstance(record, SegmentRecord) else record
        paused = [each.topic for each in (PARTITION, LATER) if cluster.there[each.topic].own.get(COPY_DISABLE)]
        seen.append((of.id.topic, cluster.there[of.id.topic].own[RETENTION_MS], is_saved(tmp_path)))
        assert paused == [of.id.topic]

    cluster.before_append = look
    done = publish(cluster)

    assert (done.errors, done.records, list(done.problems())) == ([], 8, [])
    assert [(topic, retention) for topic, retention, _ in seen] == [
        (each.topic, MARK) for each in (PARTITION, LATER) for _ in range(4)
    ]
    assert [finished(cluster, each) for each in (PARTITION, LATER)] == of_both()
    assert own(cluster) == [OWN, OWN]
    assert is_saved(tmp_path) == [False, False]


def test_a_plan_changes_nothing_and_a_topic_with_nothing_to_publish_is_not_paused(cluster, publish):
    changed: list[str] = []

    def note(topic: str, values: Any, *, validate_only: bool = False) -> None:
        if not validate_only:
            changed.append(topic)
        ModelCluster.change_settings(cluster, topic, values, validate_only=validate_only)

    cluster.change_settings = note  # type: ignore[method-assign]
    assert [plan.is_open for plan in publish(cluster, apply=False).plans] == [True, True]
    assert changed == []
    publish(cluster)
    assert {*changed} == {PARTITION.topic, LATER.topic}
    changed.clear()
    assert publish(cluster).records == 0
    assert changed == []


def test_a_topic_that_somebody_else_has_paused_stays_paused(cluster, publish):
    cluster.there[LATER.topic].own = dict(ENDLESS)
    assert publish(cluster).errors == []
    assert own(cluster) == [OWN, ENDLESS]
    assert [finished(cluster, each) for each in (PARTITION, LATER)] == of_both()


def test_a_partition_is_planned_again_before_its_records_are_written(cluster, publish):
    """A broker finished a copy since the plan, and its objects are lost: nothing is published beside it."""
    theirs = remote_segment(0, 99, [(0, 0)])

    def prove() -> PlaceProof:
        cluster.append(SegmentRecord(replace(theirs, state=STARTED)))
        cluster.append(SegmentUpdate(theirs.id, 1, 9, FINISHED))
        return PROOF

    done = publish(cluster, prove=prove)
    assert ([type(each) for each in done.errors], done.records) == ([LostCopyError], 4)
    assert finished(cluster, PARTITION) == [theirs.id.segment_id]
    assert finished(cluster, LATER) == [each.id.segment_id for each in (A, B)]


def test_a_topic_that_another_run_began_to_pause_since_the_check_is_refused_and_the_other_is_published(
    cluster, publish, tmp_path, monkeypatch
):
    monkeypatch.setattr(saved_configs, "_OTHERS_SECONDS", 0)
    before = {COPY_DISABLE: None, RETENTION_MS: OWN[RETENTION_MS]}
    saved = SavedConfigs.of(CLUSTER_ID, PARTITION.topic, PARTITION.topic_id or "", (PARTITION.partition,), before)

    def prove() -> PlaceProof:
        SavedConfigsStore(DirectoryStore(tmp_path), process=Process("another-host", 7, "")).put(saved)
        return PROOF

    done = publish(cluster, prove=prove)
    assert [type(plan.refusal) for plan in done.plans] == [UnblockHeldError, type(None)]
    assert [finished(cluster, each) for each in (PARTITION, LATER)] == [[], [A.id.segment_id, B.id.segment_id]]
    assert own(cluster) == [OWN, OWN]


def test_while_paused_waits_for_a_run_that_took_the_topic_after_the_check(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_configs, "_POLL_SECONDS", 0.001)
    store, said, paused = DirectoryStore(tmp_path), list[str](), list[str]()
    before: dict[str, str | None] = {RETENTION_MS: OWN[RETENTION_MS], COPY_DISABLE: None}
    saved = SavedConfigs.of(CLUSTER_ID, PARTITION.topic, PARTITION.topic_id or "", (PARTITION.partition,), before)
    other = SavedConfigsStore(store, process=Process("another-host", 7, ""))

    def talk(line: str) -> None:
        said.append(line)
        if "waiting for that run" in line:
            other.drop(saved)

    topics = PausedTopics(cluster, SavedConfigsStore(store), talk)
    topics.check([PARTITION])
    other.put(saved)
    topics.while_paused([PARTITION], lambda: paused.append(cluster.there[PARTITION.topic].own[COPY_DISABLE]))
    assert (paused, own(cluster)) == (["true"], [OWN, OWN])
    assert [line.rpartition(": ")[2] for line in said] == [
        "waiting for that run",
        "tiersnap paused copying and resumed it",
    ]


def test_a_topic_whose_configs_may_not_be_changed_is_refused_and_the_other_is_published(cluster, publish):
    def refuse(topic: str, values: Any, *, validate_only: bool = False) -> None:
        if topic == PARTITION.topic:
            raise ClusterRefusedError(f"{topic}: TOPIC_AUTHORIZATION_FAILED", code="TOPIC_AUTHORIZATION_FAILED")
        ModelCluster.change_settings(cluster, topic, values, validate_only=validate_only)

    cluster.change_settings = refuse  # type: ignore[method-assign]
    done = publish(cluster)
    assert [type(plan.refusal) for plan in done.plans] == [ClusterRefusedError, type(None)]
    assert [finished(cluster, each) for each in (PARTITION, LATER)] == [[], of_both()[1]]
    assert own(cluster) == [OWN, OWN]


def test_a_compacted_topic_of_records_is_refused_before_any_topic_is_paused(cluster, publish):
    cluster.of_records.own["cleanup.policy"] = "compact"
    with pytest.raises(MetadataTopicCompactedError, match=METADATA_TOPIC):
        publish(cluster)
    assert own(cluster) == [OWN, OWN]
    assert [finished(cluster, each) for each in (PARTITION, LATER)] == [[], []]


def test_publish_pauses_no_topic_when_this_user_may_write_no_record(cluster, publish):
    cluster.read_only.add(METADATA_TOPIC)
    with pytest.raises(ClusterRefusedError, match=METADATA_TOPIC):
        publish(cluster)
    assert own(cluster) == [OWN, OWN]
    assert [finished(cluster, each) for each in (PARTITION, LATER)] == [[], []]


def test_publish_needs_no_permission_for_a_consumer_group(cluster, publish):
    publish(cluster)
    cluster.refuses_groups = True
    assert publish(cluster).records == 0
    assert [finished(cluster, each) for each in (PARTITION, LATER)] == of_both()


def kills(cluster: ModelCluster, number: int) -> ModelCluster:
    """A client that is dead from its request `number` on."""
    count = 0

    def request(_: str, action: Callable[[], Any]) -> Any:
        nonlocal count
        count += 1
        if count > number:
            raise Killed
        return action()

    return cluster.view(request)


def test_a_run_that_is_killed_at_any_request_is_finished_by_the_next(publish, tmp_path, monkeypatch):
    """Both topics have their configs again, and each segment is published once."""
    monkeypatch.setattr(pause_copying, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(copy_progress, "_MARGIN_SECONDS", 0)
    monkeypatch.setattr(copy_progress, "_POLL_SECONDS", 0.001)
    left_paused = kill_count = 0
    for number in range(200):
        cluster = ModelCluster()
        cluster.of_brokers = {"remote.log.manager.task.interval.ms": "1"}
        for partition in (PARTITION, LATER):
            cluster.create(partition, end=400, settings=OWN)
        try:
            publish(kills(cluster, number))
        except Killed:
            kill_count += 1
        else:
            break
        left_paused += any(COPY_DISABLE in each for each in own(cluster))
        done = publish(cluster)
        assert done.errors == [], number
        assert own(cluster) == [OWN, OWN], number
        assert is_saved(tmp_path) == [False, False], number
        assert [finished(cluster, each) for each in (PARTITION, LATER)] == of_both(), number
    assert kill_count > 40
    assert left_paused > 10


def test_configs_that_an_operator_changes_while_another_topic_is_restored_are_not_forgotten(
    cluster, publish, tmp_path, monkeypatch
):
    """A killed run left both topics paused. The mark of the second one goes while the first one is restored."""
    store = SavedConfigsStore(DirectoryStore(tmp_path))
    before: dict[str, str | None] = {RETENTION_MS: OWN[RETENTION_MS], COPY_DISABLE: None}
    for each in (PARTITION, LATER):
        store.put(SavedConfigs.of(CLUSTER_ID, each.topic, each.topic_id or "", (each.partition,), before))
        cluster.there[each.topic].own = {**OWN, COPY_DISABLE: "true", RETENTION_MS: MARK}
    first, second = sorted((PARTITION, LATER), key=lambda each: each.topic)
    real = paused_topics.restore

    def restore(cluster: Any, saved: SavedConfigs) -> bool:
        if saved.topic == first.topic:
            cluster.there[second.topic].own[RETENTION_MS] = "5000"
        return real(cluster, saved)

    monkeypatch.setattr(paused_topics, "restore", restore)
    done = publish(cluster)
    assert SettingsAsideError in map(type, done.errors)
    assert dict(zip((PARTITION, LATER), is_saved(tmp_path), strict=True)) == {first: False, second: True}
    assert finished(cluster, second) == []


def test_a_topic_is_refused_if_its_saved_configs_are_gone(cluster, publish):
    cluster.there[PARTITION.topic].own = {COPY_DISABLE: "true", RETENTION_MS: MARK}
    done = publish(cluster)
    assert [type(plan.refusal) for plan in done.plans] == [SettingsAsideError, type(None)]
    assert finished(cluster, PARTITION) == []


@pytest.mark.parametrize(("rounds", "error"), [(1, None), (9, StillStuckError)])
def test_a_copy_task_that_has_not_looked_is_paused_again(cluster, publish, rounds, error):
    """It begins what is published, so many times."""
    left = rounds

    def request(name: str, action: Callable[[], Any]) -> Any:
        nonlocal left
        found = action()
        is_resumed = cluster.there[PARTITION.topic].own == OWN and len(finished(cluster, PARTITION)) == 2
        if name == "ends of a topic" and is_resumed and left and finished(cluster, LATER):
            left -= 1
            again = remote_segment(0, 99, [(0, 0)])
            cluster.append(SegmentRecord(replace(again, state=STARTED)))
        return found

    done = publish(cluster.view(request))
    assert [type(each) for each in done.errors] == ([] if error is None else [error])
    assert own(cluster) == [OWN, OWN]


def test_records_count_although_a_topic_cannot_be_paused_again(cluster, publish, tmp_path, monkeypatch):
    """The error of the second pause ended the run, and its counts were lost."""
    pauses: list[str] = []
    real = PausedTopics.while_paused

    def pause(self: PausedTopics, partitions: Any, act: Callable[[], object]) -> None:
        pauses.append(next(iter(partitions)).topic)
        if pauses.count(PARTITION.topic) > 1:
            raise UnblockHeldError("another run is at it")
        real(self, partitions, act)

    def request(name: str, action: Callable[[], Any]) -> Any:
        found = action()
        if name == "ends of a topic" and len(finished(cluster, LATER)) == 2 and own(cluster) == [OWN, OWN]:
            cluster.append(SegmentRecord(replace(remote_segment(0, 99, [(0, 0)]), state=STARTED)))
        return found

    monkeypatch.setattr(PausedTopics, "while_paused", pause)
    done = publish(cluster.view(request))
    assert ([type(each) for each in done.errors], done.records, len(done.segment_ids)) == ([UnblockHeldError], 8, 4)
    assert pauses == [PARTITION.topic, LATER.topic, PARTITION.topic]
    assert is_saved(tmp_path) == [True, False]


@pytest.mark.parametrize("number", [5, 10, 15, 20, 30])
def test_records_count_although_a_broker_goes_away_behind_them(cluster, publish, monkeypatch, number):
    monkeypatch.setattr(pause_copying, "_RESTORE_SECONDS", 0)
    monkeypatch.setattr(pause_copying, "_APPLIED_SECONDS", 0)
    count = 0

    def request(_: str, action: Callable[[], Any]) -> Any:
        nonlocal count
        count += bool(finished(cluster, PARTITION))
        if count >= number:
            raise BrokerUnavailableError("no answer")
        return action()

    try:
        done = publish(cluster.view(request))
    except BrokerUnavailableError:
        assert finished(cluster, LATER) == [], "no answer to the first records"
        return
    published = sum(len(finished(cluster, each)) for each in (PARTITION, LATER))
    assert (len(done.segment_ids), done.records) == (published, 2 * published)
    assert all(isinstance(each, BrokerUnavailableError) for each in done.errors)


def test_a_copy_task_that_fails_behind_what_is_published_is_a_problem(cluster, publish):
    def request(name: str, action: Callable[[], Any]) -> Any:
        found = action()
        if name == "ends of a topic" and finished(cluster, LATER) and own(cluster) == [OWN, OWN]:
            for _ in range(2):
                cluster.append(SegmentRecord(replace(remote_segment(200, 299, [(0, 200)]), state=STARTED)))
        return found

    done = publish(cluster.view(request))
    assert (done.errors, list(done.problems())) == ([], [OtherProblem.STUCK_COPY_AHEAD])
