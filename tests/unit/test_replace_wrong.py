"""Wrong segments of a tier that brokers read are replaced by right ones, published, and deleted if that is asked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from tests.protocol.memory_store import MemoryStore
from tests.reference.command import assert_said, tiersnap
from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.model_cluster import CLUSTER_ID, ModelCluster
from tests.reference.poisoned_tier import NOW as REPLICA_NOW
from tests.reference.poisoned_tier import PoisonedTier, poisoned_tier
from tests.unit.test_make_again import DAY, NOW
from tests.unit.test_mend import code_of
from tests.unit.test_poisoned_tier import LAYOUTS, state
from tiersnap.jobs.cli import options
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.cluster.missing_objects import ReadByBrokers, read_by_brokers
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment
from tiersnap.remote_storage.mend.actions import MendOutcome
from tiersnap.remote_storage.mend.make_again import RemoteLogs
from tiersnap.remote_storage.mend.mend import MendRequest, MendTier
from tiersnap.remote_storage.mend.mend_rules import MendRules
from tiersnap.remote_storage.mend.replace_wrong import upload_right
from tiersnap.remote_storage.mend.segments_to_mend import Mending
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    new_segment_id,
)
from tiersnap.remote_storage.publish.location_proof import EvidenceKind, PlaceProof
from tiersnap.remote_storage.remote_log.cluster_record import read_cluster_id
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_indexes, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import list_segments
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore, PutResult
from tiersnap.remote_storage.upload.tier_job import Tierer, TierJob
from tiersnap.remote_storage.verify.local_log import LocalLogs, local_logs
from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.snapshot.errors import ExitCode, RemoteStorageError, TiersnapError, TransientError
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.replay_start import Beginnings

pytestmark = pytest.mark.unit

PROOF = PlaceProof(EvidenceKind.UNPROVEN, "by a test")
STARTED, FINISHED, DELETING, DELETED = SegmentState


class Brokers:
    """A tier that brokers wrote and a cluster that knows it."""

    def __init__(self, at: PoisonedTier, layout: str) -> None:
        self.at, self.layout = at, open_layout(layout)
        self.store = DirectoryStore(at.remote)
        name, _, number = at.name.rpartition("-")
        self.partition = TopicIdPartition(name, "lZ6vvmajTWKDBUTV6SQAtQ", int(number))
        self.failures: list[TiersnapError] = []
        self.records = [each.metadata for each in self.complete()]
        self.publish(self.records)

    def publish(self, records: Sequence[RemoteLogSegmentMetadata]) -> None:
        """Make a cluster that knows these segments and no others."""
        self.cluster = ModelCluster()
        self.cluster.create(self.partition, end=max(self.at.expected))
        for each in records:
            self.cluster.append(SegmentRecord(replace(each, state=STARTED)))
            self.cluster.append(SegmentUpdate(each.id, 1, 5, FINISHED))

    @property
    def whole(self) -> Path:
        """A replica with the whole log, which leads."""
        return self.at.logs.with_name("whole")

    @property
    def location(self) -> RemoteLocation:
        return RemoteLocation(self.store, self.layout)

    def complete(self) -> Iterator[RemoteSegment]:
        listed = list_segments(self.location, self.partition)
        found = (read_segment(self.store, each) for each in listed)
        return (each for each in found if isinstance(each, RemoteSegment))

    def index(self) -> RemoteIndex:
        index = RemoteIndex()
        for record in self.cluster.records(self.partition):
            index.apply(record)
        return index

    def read(self) -> list[RemoteSegment]:
        """The segments that brokers find, in offset order."""
        found = dict.fromkeys(copy.id for epoch in self.index().epochs.values() for copy, _ in epoch.copies)
        there = {each.metadata.id: each for each in self.complete()}
        return sorted((there[each] for each in found), key=lambda each: each.start_offset)

    def snapshots(self) -> list[object]:
        """What brokers read, as entries."""
        wanted = (IndexType.PRODUCER_SNAPSHOT,)
        return [
            state(read_indexes(self.store, each, wanted)[IndexType.PRODUCER_SNAPSHOT] or b"") for each in self.read()
        ]

    def expected(self) -> list[object]:
        return [state(self.at.expected[each.end_offset + 1]) for each in self.records]

    def verdicts(self) -> dict[str, str]:
        """What `verify --depth full` says of the segments that brokers read."""
        asked = CheckRequest(CheckDepth.FULL, NOW, DAY)
        found = PartitionCheck(self.location, self.partition, asked).checks()
        read = {each.segment_id for each in self.read()}
        return {each.segment_id: each.verdict for each in found if each.segment_id in read}

    def mend(
        self,
        *,
        log: bool = False,
        depth: CheckDepth | None = CheckDepth.SNAPSHOTS,
        delete_bad: bool = False,
        apply: bool = True,
        store: ObjectStore | None = None,
        cluster: ModelCluster | None = None,
        source: ObjectStore | None = None,
    ) -> list[Mending]:
        asked = cluster or self.cluster
        local = local_logs([str(self.whole)], Selection(), Beginnings(), check_crc=True) if log else LocalLogs()
        location = replace(self.location, store=store or self.store)
        logs = RemoteLogs(location, MendRules(Expiry(None, NOW), DAY), local, {})
        topic = MetadataTopic.of(asked)
        lies = None if source is None else RemoteLocation(source, self.layout)
        request = MendRequest(lies, depth, [str(self.whole)], delete_bad, False, apply)
        with topic.read_all() as reader:
            tier = Tierer("run", NOW, timeout=None)

            def ask() -> ReadByBrokers:
                return read_by_brokers(asked, reader, lambda _: True)

            mended = MendTier(asked, topic, reader, logs, tier, ask(), ask, lambda: PROOF, request).run()
        self.failures = mended.failures
        return mended.done


def told(done: Sequence[Mending]) -> list[tuple[str, str]]:
    return [(str(each.action), str(each.outcome) if each.error is None else each.error.message) for each in done]


@pytest.fixture(name="poisoned", params=LAYOUTS)
def fixture_poisoned(tmp_path: Path, request: pytest.FixtureRequest) -> Brokers:
    """A replica was rebuilt at the sixth segment; the snapshots of the sixth and seventh know nobody from before."""
    return Brokers(poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7, layout=request.param), request.param)


@pytest.mark.parametrize("has_log", [False, True], ids=["tier", "log"])
def test_poisoned_snapshots_are_replaced_and_brokers_read_what_kafka_says(poisoned, has_log):
    objects = {info.key for info in poisoned.store.list()}
    records = list(poisoned.cluster.records(poisoned.partition))
    assert told(poisoned.mend(log=has_log, apply=False)) == [("REPLACE", "PLANNED")] * 2
    assert ({info.key for info in poisoned.store.list()}, list(poisoned.cluster.records(poisoned.partition))) == (
        objects,
        records,
    ), "a plan"
    assert told(poisoned.mend(log=has_log)) == [("REPLACE", "MENDED")] * 2
    assert poisoned.snapshots() == poisoned.expected()
    assert {info.key for info in poisoned.store.list()} > objects, "nothing was deleted"
    assert set(poisoned.verdicts().values()) <= {"MATCHES", "EXTENDS"}
    again = list(poisoned.cluster.records(poisoned.partition))
    assert told(poisoned.mend(log=has_log)) == []
    assert list(poisoned.cluster.records(poisoned.partition)) == again

    assert told(poisoned.mend(delete_bad=True, apply=False)) == [("DELETE", "PLANNED")] * 2
    assert told(poisoned.mend(delete_bad=True)) == [("DELETE", "MENDED")] * 2
    assert poisoned.snapshots() == poisoned.expected()
    assert len(list(poisoned.complete())) == len(poisoned.records)
    assert told(poisoned.mend(delete_bad=True)) == []


def test_the_claim_of_a_replaced_segment_keeps_it_until_brokers_know_the_other(poisoned):
    """tiersnap uploaded it, so another attempt might take it for its own leftover."""
    record = poisoned.records[5]
    claimed = ClaimedSegment(poisoned.partition, record.start_offset, record.segment_leader_epochs[-1][0])
    held = claim_protocol.claim(poisoned.store, claimed, Attempt.of(record.id.segment_id, "run-1"))
    claim_protocol.finish(poisoned.store, held)
    objects = {info.key for info in poisoned.store.list()}
    done = poisoned.mend()
    assert told(done) == [("REPLACE", "MENDED")] * 2
    assert {info.key for info in poisoned.store.list()} > objects
    claim = claim_protocol.read_claim(poisoned.store, claimed)
    assert claim is not None
    assert (claim.finished, claim.kept) == (done[0].replaced_by, (record.id.segment_id,))


def test_mend_says_whose_a_new_segment_is_before_it_sends_it(poisoned):
    """Else nothing of it may be deleted if its topic is deleted meanwhile; another cluster's place is refused."""
    assert read_cluster_id(poisoned.store, poisoned.partition) is None
    poisoned.mend(apply=False)
    assert read_cluster_id(poisoned.store, poisoned.partition) is None
    poisoned.mend()
    assert read_cluster_id(poisoned.store, poisoned.partition) == CLUSTER_ID


def damage(at: Brokers, number: int, suffix: str, how) -> None:
    key = next(key for key in at.layout.object_keys(at.records[number]) if key.endswith(suffix))
    path = at.store.root / key
    path.write_bytes(how(path.read_bytes()))


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.fixture(name="right", params=LAYOUTS)
def fixture_right(tmp_path: Path, request: pytest.FixtureRequest) -> Brokers:
    return Brokers(poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7, layout=request.param), request.param)


def test_a_damaged_log_is_replaced_from_a_replica_and_by_nothing_else(right):
    damage(right, 2, ".log", flipped)
    refused = told(right.mend(depth=CheckDepth.FULL))
    assert [action for action, _ in refused] == ["NONE"] and "log: BAD_CRC" in refused[0][1]
    assert told(right.mend(depth=CheckDepth.FULL, log=True)) == [("REPLACE", "MENDED")]
    assert right.snapshots() == right.expected()
    assert set(right.verdicts().values()) <= {"MATCHES", "EXTENDS"}
    log = right.store.get(right.layout.log_key(right.read()[2].metadata))
    assert log == (right.whole / f"churn-0/{right.records[2].start_offset:020d}.log").read_bytes()


CUTS = {
    "empty": lambda data: b"",
    "inside the first header": lambda data: data[:30],
    "behind the first batch": lambda data: data[: 12 + int.from_bytes(data[8:12], "big")],
    "half": lambda data: data[: len(data) // 2],
    "a byte": lambda data: data[:-1],
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("number", [0, 2, -1])
def test_a_cut_log_is_replaced_from_a_replica_and_by_nothing_else(right, number, cut):
    damage(right, number, ".log", cut)
    before = {info.key: right.store.get(info.key) for info in right.store.list()}
    refused = told(right.mend(depth=CheckDepth.FULL))
    assert [action for action, _ in refused] == ["NONE"], refused
    assert {info.key: right.store.get(info.key) for info in right.store.list()} == before
    assert told(right.mend(depth=CheckDepth.FULL, log=True)) == [("REPLACE", "MENDED")]
    assert right.snapshots() == right.expected()
    assert set(right.verdicts().values()) <= {"MATCHES", "EXTENDS"}
    record = right.read()[number].metadata
    whole = right.whole / f"churn-0/{record.start_offset:020d}.log"
    assert right.store.get(right.layout.log_key(record)) == whole.read_bytes()


@pytest.mark.parametrize("numbers", [[2], range(10)], ids=["one", "all"])
def test_segments_whose_manifest_is_damaged_are_replaced(numbers, tmp_path):
    """None of the partition may be complete any more: the place was proven."""
    right = Brokers(poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7), "aiven")
    for number in numbers[: len(right.records)]:
        damage(right, number, ".rsm-manifest", lambda data: data[:-2])
    done = told(right.mend(log=len(numbers) > 1))
    assert done == [("REPLACE", "MENDED")] * len(numbers[: len(right.records)])
    assert right.snapshots() == right.expected()


def test_a_segment_that_is_nowhere_is_replaced_by_one_that_tier_uploaded(right):
    """tier copied it under a new id when it was lost, and no broker knows that one."""
    lost = right.records[3]
    other = replace(lost, id=replace(lost.id, segment_id=new_segment_id()))
    copy_objects(right, lost, other)
    right.store.delete(right.layout.object_keys(lost))
    assert told(right.mend(apply=False)) == [("REPLACE", "PLANNED")]
    assert told(right.mend()) == [("REPLACE", "MENDED")]
    assert right.read()[3].metadata.id == other.id
    assert told(right.mend(delete_bad=True)) == [("DELETE", "MENDED")]


def copy_objects(at: Brokers, record: RemoteLogSegmentMetadata, other: RemoteLogSegmentMetadata) -> None:
    for key, new in zip(at.layout.object_keys(record), at.layout.object_keys(other), strict=True):
        if (at.store.root / key).exists():
            content = at.store.get(key).replace(record.id.segment_id.encode(), other.id.segment_id.encode())
            at.store.put_if_absent(new, content)


def test_a_log_that_differs_from_that_of_a_replica_is_refused(right):
    """A batch whose CRC was made anew: nobody knows which of the two is right."""

    def forged(data: bytes) -> bytes:
        length = 12 + int.from_bytes(data[8:12], "big")
        batch = data[21 : length - 2] + bytes([data[length - 2] ^ 1]) + data[length - 1 : length]
        return data[:17] + google_crc32c.value(batch).to_bytes(4, "big") + batch + data[length:]

    damage(right, 2, ".log", forged)
    done = told(right.mend(depth=CheckDepth.FULL, log=True))
    assert [action for action, _ in done] == ["NONE"] and done[0][1].endswith("nothing shows which log is right")


def test_an_object_that_does_not_fit_is_replaced_with_its_segment(right):
    """An index, or the indexes object, is damaged, and the snapshot or the manifest is lost."""
    is_local = right.layout.is_local
    damage(right, 1, ".timeindex" if is_local else ".indexes", flipped)
    keys = right.layout.object_keys(right.records[1])
    right.store.delete([keys[-1]])
    assert told(right.mend()) == [("REPLACE", "MENDED")]
    assert right.snapshots() == right.expected()
    assert told(right.mend(delete_bad=True)) == [("DELETE", "MENDED")]
    assert not set(keys) & {info.key for info in right.store.list()}


class NoPut:
    """A store that does not answer when a key that ends so is put."""

    def __init__(self, inner: ObjectStore, suffix: str) -> None:
        self._inner, self._suffix = inner, suffix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        if key.endswith(self._suffix):
            raise TransientError(f"{key}: no answer")
        return self._inner.put_if_absent(key, data, metadata)


@pytest.mark.parametrize("has_source", [False, True])
def test_a_segment_whose_object_does_not_come_back_now_is_left_to_the_next_run(right, has_source):
    """It is right: a second one would be there for ever."""
    lost = right.layout.object_keys(right.records[3])[-1]
    right.store.delete([lost])
    objects = {info.key for info in right.store.list()}
    store, source = NoPut(right.store, lost), MemoryStore() if has_source else None
    done = right.mend(store=store, source=source, depth=CheckDepth.METADATA)
    assert [each.outcome for each in done] == [MendOutcome.FAILED]
    assert code_of(done, right.failures) is ExitCode.TRANSIENT
    assert {info.key for info in right.store.list() if "/claims/" not in info.key} == objects
    assert told(right.mend(source=source)) == [("REBUILD", "MENDED")]
    assert {info.key for info in right.store.list()} == {*objects, lost}


class Twice(NoPut):
    """A store where another run puts an object that ends so, right before."""

    def put_if_absent(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
        if key.endswith(self._suffix):
            self._inner.put_if_absent(key, data + b" ", metadata)
        return self._inner.put_if_absent(key, data, metadata)


def test_a_segment_of_which_another_run_puts_an_object_back_is_left_to_the_next_run(right):
    lost = right.layout.object_keys(right.records[3])[-1]
    right.store.delete([lost])
    objects = {info.key for info in right.store.list()}
    done = right.mend(store=Twice(right.store, lost), depth=CheckDepth.METADATA)
    assert code_of(done, right.failures) is ExitCode.TRANSIENT
    assert {info.key for info in right.store.list() if "/claims/" not in info.key} == {*objects, lost}


class NoList:
    """A store that lists the segments of partitions so many times, and does not answer the last time."""

    def __init__(self, inner: ObjectStore, number: int) -> None:
        self._inner, self._left = inner, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        is_asked = prefix.endswith("/") and not prefix.startswith("claims/")
        self._left -= is_asked
        if is_asked and not self._left:
            raise TransientError(f"{prefix}: no answer")
        return self._inner.list(prefix, after=after)


@pytest.mark.parametrize("number", range(2, 7))
def test_a_segment_that_is_not_in_from_is_not_replaced_if_the_store_does_not_answer_now(right, number):
    lost = right.layout.object_keys(right.records[3])[-1]
    right.store.delete([lost])
    objects = {info.key for info in right.store.list()}
    right.mend(store=NoList(right.store, number), source=MemoryStore(), depth=CheckDepth.METADATA)
    assert {info.key for info in right.store.list() if "/claims/" not in info.key} <= {*objects, lost}


def lose_and_back_up(at: Brokers, folder: Path, *numbers: int, spoilt: Sequence[int] = ()) -> DirectoryStore:
    """Lose all objects of segments; return a backup that has them, the log of some with another last byte."""
    backup = DirectoryStore(folder / "backup")
    for number in numbers:
        for key in at.layout.object_keys(at.records[number]):
            if at.store.head(key) is not None:
                data = at.store.get(key)
                is_spoilt = number in spoilt and key.endswith(".log")
                backup.put_if_absent(key, flipped(data) if is_spoilt else data)
                at.store.delete([key])
    return backup


def log_of(at: Brokers, number: int) -> Path:
    """The local log file of a segment."""
    return at.whole / "churn-0" / f"{at.records[number].start_offset:020d}.log"


def test_a_right_local_log_is_used_before_a_backup(right, tmp_path):
    """The backup was used first, and its bytes went to brokers."""
    backup = lose_and_back_up(right, tmp_path, 2, 3, spoilt=(3,))
    for apply, outcome in ((False, "PLANNED"), (True, "MENDED")):
        done = right.mend(source=backup, log=True, depth=None, apply=apply)
        assert told(done) == [("REBUILD", outcome)] * 2
    for number in (2, 3):
        assert right.store.get(right.layout.log_key(right.records[number])) == log_of(right, number).read_bytes()
    assert set(right.verdicts().values()) <= {"MATCHES", "EXTENDS"}


@pytest.mark.parametrize("how", [Path.unlink, lambda path: path.write_bytes(flipped(path.read_bytes()))])
def test_a_backup_has_what_no_right_local_log_holds(right, tmp_path, how):
    """A segment is lost or damaged on the disk, too; the tier tells the state of a segment behind the damage."""
    backup = lose_and_back_up(right, tmp_path, 3, 5)
    how(log_of(right, 3))
    for apply, outcome in ((False, "PLANNED"), (True, "MENDED")):
        done = right.mend(source=backup, log=True, depth=None, apply=apply)
        assert told(done) == [("COPY", outcome), ("REBUILD", outcome)]
    assert set(right.verdicts().values()) <= {"MATCHES", "EXTENDS"}


def test_a_log_that_begins_behind_the_log_start_loses_no_producers(right, tmp_path):
    """Its first segment is lost everywhere; the log alone seemed to begin with nobody."""
    lose_and_back_up(right, tmp_path, 0, 3)
    log_of(right, 0).unlink()
    assert [action for action, _ in told(right.mend(log=True, depth=None))] == ["REBUILD", "NONE"]
    (made,) = (each for each in right.complete() if each.metadata.id == right.records[3].id)
    snapshot = read_indexes(right.store, made)[IndexType.PRODUCER_SNAPSHOT] or b""
    assert state(snapshot) == state(right.at.expected[made.end_offset])


def test_a_segment_without_a_right_source_names_what_is_wrong_with_each(right, tmp_path):
    lose_and_back_up(right, tmp_path, 3)
    log_of(right, 3).write_bytes(flipped(log_of(right, 3).read_bytes()))
    done = right.mend(source=MemoryStore(), log=True, depth=None)
    ((action, why),) = told(done)
    assert action == "NONE"
    assert "memory" in why and "the location has no objects of the segment; log: BAD_CRC" in why


def test_a_segment_that_was_copied_twice_loses_its_second_copy(right):
    first = right.records[3]
    second = replace(first, id=replace(first.id, segment_id="AAAAAAAAAAAAAAAAAAAAAA"))
    copy_objects(right, first, second)
    right.cluster.append(SegmentRecord(replace(second, state=STARTED)))
    right.cluster.append(SegmentUpdate(second.id, 1, 5, FINISHED))
    assert right.read()[3].metadata.id == second.id
    assert told(right.mend()) == []
    done = right.mend(delete_bad=True)
    assert [(each.action, each.outcome, each.metadata.id) for each in done] == [("DELETE", "MENDED", first.id)]
    assert right.snapshots() == right.expected()


def test_a_complete_attempt_that_no_record_finished_does_not_count_as_uploaded(right):
    """Of a broker that died: the attempt has all objects of the damaged segment, and brokers do not read it."""
    first = right.records[3]
    attempt = replace(first, id=replace(first.id, segment_id="AAAAAAAAAAAAAAAAAAAAAA"))
    copy_objects(right, first, attempt)
    right.cluster.append(SegmentRecord(replace(attempt, state=STARTED)))
    damage(right, 3, ".log", flipped)
    assert told(right.mend(depth=CheckDepth.FULL, log=True)) == [("REPLACE", "MENDED")]
    assert (right.failures, right.snapshots()) == ([], right.expected())
    assert set(right.verdicts().values()) <= {"MATCHES", "EXTENDS"}


def test_a_segment_of_tiersnap_that_ends_above_the_last_published_one_does_not_count_as_uploaded(right):
    """mend does not publish it, because the copy task continues at the end of the last published segment."""
    *right.records, above = right.records
    last = right.records[-1]
    epochs = dict(above.segment_leader_epochs) | dict(last.segment_leader_epochs)
    longer = replace(last, end_offset=above.end_offset, segment_leader_epochs=tuple(sorted(epochs.items())))
    local = local_logs([str(right.whole)], Selection(), Beginnings(), check_crc=True)
    logs = RemoteLogs(right.location, MendRules(Expiry(None, NOW), DAY), local, {})
    with logs.right_segments(right.partition, [longer]) as segments, segments.of(longer, prefers_local=True) as segment:
        longer_id = upload_right(TierJob(right.location, right.partition, Tierer("run", NOW, timeout=None)), segment)
    right.store.delete(right.layout.object_keys(above))
    right.publish(right.records)
    damage(right, len(right.records) - 1, ".log", flipped)
    assert told(right.mend(depth=CheckDepth.FULL, log=True)) == [("REPLACE", "MENDED")]
    assert (right.failures, right.snapshots()) == ([], right.expected())
    assert set(right.verdicts().values()) <= {"MATCHES", "EXTENDS"}
    assert longer_id not in {each.segment_id for each in right.read()}


def test_a_topic_that_is_compacted_now_is_refused_before_a_byte_is_sent(poisoned):
    poisoned.cluster.change_settings("churn", {"cleanup.policy": "compact"})
    objects = {info.key for info in poisoned.store.list()}
    assert {message for _, message in told(poisoned.mend())} == {
        "churn is compacted, and Kafka does not tier compacted topics"
    }
    assert {info.key for info in poisoned.store.list()} == objects


def test_mend_killed_at_any_request_or_record_ends_as_one_that_was_not(poisoned):
    """Whatever was read is read after each kill, and the next runs end as if nobody had been killed."""
    step = 0
    while True:
        step += 1
        calls = 0

        def request(_, action, step=step):
            nonlocal calls
            calls += 1
            if calls == step:
                action()
                raise Crash
            return action()

        store = FlakyStore(poisoned.store, {step: Fault.CRASH_AFTER})
        ended = 0
        for broken in ({"store": store}, {"cluster": poisoned.cluster.view(request)}):
            try:
                poisoned.mend(delete_bad=True, **broken)
                ended += 1
            except Crash:
                pass
            assert len(poisoned.read()) == len(poisoned.records)
        if ended == 2:
            break
    assert step > 3
    assert poisoned.snapshots() == poisoned.expected()
    assert len(list(poisoned.complete())) == len(poisoned.records)
    assert told(poisoned.mend(delete_bad=True)) == []


class NoListing:
    """A store that lists nothing of one topic."""

    def __init__(self, inner: ObjectStore, topic: str, error: TiersnapError) -> None:
        self._inner, self._topic, self._error = inner, topic, error
        self.listed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list(self, prefix: str = "", **more: str) -> Iterator[ObjectInfo]:
        self.listed.append(prefix)
        if self._topic in prefix:
            raise self._error
        return self._inner.list(prefix, **more)


def add_lost(poisoned: Brokers) -> TopicIdPartition:
    """Another partition, which brokers know and whose segments are nowhere."""
    other = replace(poisoned.partition, topic="a-other")
    poisoned.cluster.create(other, end=max(poisoned.at.expected))
    for each in poisoned.records[:2]:
        record = replace(each, id=replace(each.id, topic=other.topic, segment_id=new_segment_id()), state=STARTED)
        poisoned.cluster.append(SegmentRecord(record))
        poisoned.cluster.append(SegmentUpdate(record.id, 1, 5, FINISHED))
    return other


BOTH = [*[("a-other", "FAILED")] * 2, *[("churn", "MENDED")] * 2]


def outcomes(done: Sequence[Mending]) -> list[tuple[str, str]]:
    return sorted((each.metadata.id.topic, str(each.outcome)) for each in done)


def test_mend_goes_on_if_one_partition_cannot_be_checked(poisoned):
    add_lost(poisoned)
    done = poisoned.mend(store=NoListing(poisoned.store, "claims/a-other", RemoteStorageError("a-other: AccessDenied")))
    assert outcomes(done) == BOTH
    (failure,) = poisoned.failures
    assert failure.message == "a-other: AccessDenied"
    assert code_of(done, poisoned.failures) is failure.exit_code


def test_mend_goes_on_if_the_plan_of_one_partition_fails(poisoned):
    add_lost(poisoned)
    source = NoListing(MemoryStore(), "a-other", RemoteStorageError("a-other: AccessDenied"))
    done = poisoned.mend(source=source)
    assert outcomes(done) == BOTH
    assert [each.message for each in poisoned.failures] == ["a-other: AccessDenied"]
    assert code_of(done, poisoned.failures) is ExitCode.USAGE


def test_mend_asks_no_further_partition_of_a_store_that_does_not_answer(poisoned):
    add_lost(poisoned)
    store = NoListing(poisoned.store, "claims/a-other", TransientError("no answer within 60 s"))
    done = poisoned.mend(store=store)
    assert outcomes(done) == BOTH[:2]
    assert [each.message for each in poisoned.failures] == ["no answer within 60 s"]
    assert not [prefix for prefix in store.listed if prefix.startswith("claims/churn")]
    assert outcomes(poisoned.mend())[2:] == BOTH[2:]


def test_mend_with_a_cluster_refuses_a_topic_that_it_does_not_have(poisoned, monkeypatch):
    monkeypatch.setattr(options, "Cluster", lambda *_: poisoned.cluster)
    poisoned.cluster.create(TopicIdPartition("untiered", new_segment_id(), 0), end=7)
    place = ("--bootstrap-server", "model:9092", "--remote", poisoned.at.remote, "--layout", poisoned.layout.name)
    mend = ("mend", *place, "--unproven", *REPLICA_NOW, "--topic")
    for apply in ((), ("--apply",)):
        assert_said(tiersnap(*mend, "chur", *apply), 2, "no topic name matches 'chur'", "--topic must match")
    assert_said(tiersnap(*mend, "untiered"), 0, "brokers have tiered nothing yet")
    planned = tiersnap(*mend, "chur.*", poisoned.whole)
    assert_said(planned, 0, f"all {len(poisoned.records)} segments", "nothing was changed; next: tiersnap mend ")
    min(poisoned.at.remote.rglob("*.log")).unlink()
    assert_said(tiersnap(*mend, "chur.*", poisoned.whole), 0, "1 of 7 segments that brokers know is not at")
    mended = tiersnap(*mend, "chur.*", poisoned.whole, "--apply")
    assert re.search(r"(\d) of \1 segments were mended at", mended.err.splitlines()[-1]), mended.err
    assert "that brokers know" not in mended.err
    left = tiersnap(*mend, "chur.*", poisoned.whole)
    assert_said(left, 0, "to delete 2 wrong segments that brokers no longer read: tiersnap mend ")
    line = next(each for each in left.err.splitlines() if "no longer read" in each)
    deleted = tiersnap(*shlex.split(line.partition(": tiersnap ")[2]), "--apply")
    assert_said(deleted, 0)
    assert "no longer read" not in deleted.err + tiersnap(*mend, "chur.*", poisoned.whole).err
