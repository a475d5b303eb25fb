"""`mend` deletes and publishes nothing that it did not read and compare: doubled, damaged and diverged segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from tests.reference.mended_history import ModelCheck
from tests.reference.poisoned_tier import poisoned_tier
from tests.reference.remote_segments import remote_segment
from tests.unit.test_make_again import DAY, NOW
from tests.unit.test_poisoned_tier import LAYOUTS
from tests.unit.test_replace_wrong import (
    DELETED,
    DELETING,
    FINISHED,
    STARTED,
    Brokers,
    copy_objects,
    damage,
    flipped,
    told,
)
from tiersnap.jobs.commands.doctor.cluster import CopiedTwice, CopyProblems, steps_of_cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.errors import NotDeletedError
from tiersnap.remote_storage.mend.actions import MendOutcome
from tiersnap.remote_storage.mend.make_again import RemoteLogs
from tiersnap.remote_storage.mend.mend_plan import NO_BROKER, may_be_deleted, to_be_deleted, wrong_and_read
from tiersnap.remote_storage.mend.replace_wrong import DeleteUnread
from tiersnap.remote_storage.mend.right_segments import MendRules
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore
from tiersnap.remote_storage.verify.local_log import LocalLogs
from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.remote_storage.verify.read_whole import ReadWhole
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.gate.printed_steps import Place
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest
from tiersnap.snapshot.replay.expiry import Expiry

pytestmark = pytest.mark.unit

TWIN = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture(name="at")
def fixture_at(tmp_path: Path) -> Brokers:
    return Brokers(poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7), "aiven")


def finish_twice(at: Brokers, number: int) -> tuple[RemoteLogSegmentMetadata, RemoteLogSegmentMetadata]:
    """Finish a segment a second time; return the one that brokers do not read, and the one that they read."""
    first = at.records[number]
    second = replace(first, id=replace(first.id, segment_id=TWIN))
    copy_objects(at, first, second)
    at.cluster.append(SegmentRecord(replace(second, state=STARTED)))
    at.cluster.append(SegmentUpdate(second.id, 1, 5, FINISHED))
    return first, second


def spoil(at: Brokers, record: RemoteLogSegmentMetadata, how=flipped) -> None:
    path = at.store.root / at.layout.log_key(record)
    path.write_bytes(how(path.read_bytes()))


def logs(at: Brokers) -> list[bytes]:
    """The logs that brokers read."""
    return [at.store.get(at.layout.log_key(each.metadata)) for each in at.read()]


def forged(data: bytes) -> bytes:
    """Change a byte of the first batch, and its CRC."""
    length = 12 + int.from_bytes(data[8:12], "big")
    batch = data[21 : length - 2] + bytes([data[length - 2] ^ 1]) + data[length - 1 : length]
    return data[:17] + google_crc32c.value(batch).to_bytes(4, "big") + batch + data[length:]


def test_the_last_good_copy_replaces_the_wrong_one_that_brokers_read(at):
    """The good one was deleted, because brokers did not read it."""
    before = logs(at)
    _, read = finish_twice(at, 3)
    spoil(at, read)
    assert told(at.mend(delete_bad=True, apply=False)) == [("REPLACE", "PLANNED")]
    done = told(at.mend(delete_bad=True))
    assert done == [("REPLACE", "MENDED"), ("DELETE", "MENDED"), ("DELETE", "MENDED")]
    assert logs(at) == before
    assert at.snapshots() == at.expected()


def test_verify_and_doctor_recommend_nothing_over_two_sound_copies(at):
    """`doctor` recommended to delete one, whatever was in the other."""
    unread, read = finish_twice(at, 3)
    for depth in CheckDepth:
        found = PartitionCheck(at.location, at.partition, CheckRequest(depth, NOW, DAY)).checks()
        assert exit_code_of(each.verdict for each in found) is ExitCode.OK
    twice = CopiedTwice(str(at.partition), unread.id.segment_id, read.id.segment_id)
    assert list(steps_of_cluster(Place(), None, CopyProblems(twice=(twice,)), ())) == []


def test_no_copy_is_deleted_while_the_one_that_brokers_read_is_wrong(at):
    unread, read = finish_twice(at, 3)
    for each in (unread, read):
        spoil(at, each)
    objects = {info.key for info in at.store.list()}
    for apply in (False, True):
        done = told(at.mend(delete_bad=True, apply=apply))
        assert [action for action, _ in done] == ["NONE", "NONE"]
        assert (
            f"not deleted: brokers would read segment {TWIN} instead, which is not proven to be right: CORRUPT"
            in done[1][1]
        )
    assert {info.key for info in at.store.list()} == objects


def test_no_copy_is_deleted_if_both_are_whole_and_differ(at):
    unread, _ = finish_twice(at, 3)
    spoil(at, unread, forged)
    done = told(at.mend(delete_bad=True))
    assert [action for action, _ in done] == ["NONE"]
    assert "and nothing shows which log is right" in done[0][1]
    assert at.store.head(at.layout.log_key(unread)) is not None


def incomplete_twin(at: Brokers, record: RemoteLogSegmentMetadata, suffix: str) -> RemoteLogSegmentMetadata:
    """Another copy of a segment, without a record, that lost the objects with a suffix."""
    twin = replace(record, id=replace(record.id, segment_id=TWIN))
    copy_objects(at, record, twin)
    at.store.delete([key for key in at.layout.object_keys(twin) if key.endswith(suffix)])
    return twin


@pytest.mark.parametrize("suffix", ["index", "indexes", "rsm-manifest", "leader_epoch_checkpoint"])
def test_the_log_of_an_incomplete_copy_replaces_a_wrong_one(tmp_path, suffix):
    """It was no source, because its segment had lost another object."""
    layout = "aiven" if suffix in ("indexes", "rsm-manifest") else "local-tiered-storage"
    at = Brokers(poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7, layout=layout), layout)
    before, record = logs(at), at.records[3]
    incomplete_twin(at, record, suffix)
    spoil(at, record)
    assert told(at.mend(depth=CheckDepth.FULL)) == [("REPLACE", "MENDED")]
    assert (logs(at), at.snapshots()) == (before, at.expected())


def test_the_log_of_a_copy_with_a_damaged_manifest_replaces_one_that_was_cut(at):
    before, record = logs(at), at.records[3]
    twin = incomplete_twin(at, record, "nothing")
    manifest = at.store.root / at.layout.object_keys(twin)[-1]
    manifest.write_bytes(manifest.read_bytes()[:30])
    spoil(at, record, lambda data: data[: len(data) // 2])
    assert told(at.mend()) == [("REPLACE", "MENDED")]
    assert (logs(at), at.snapshots()) == (before, at.expected())


def test_no_log_of_an_incomplete_copy_is_taken_if_it_is_another_segment(at):
    """Its size and offsets fit, its batches are of another leader epoch."""
    record = at.records[3]
    twin = incomplete_twin(at, record, "indexes")
    spoil(at, twin, lambda data: data[:12] + (99).to_bytes(4, "big") + data[16:])
    spoil(at, record)
    objects = {info.key for info in at.store.list()}
    assert [action for action, _ in told(at.mend(depth=CheckDepth.FULL))] == ["NONE"]
    assert {info.key for info in at.store.list()} == objects


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_lost_log_is_made_again_from_another_copy(tmp_path, layout):
    at = Brokers(poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7, layout=layout), layout)
    before = logs(at)
    _, read = finish_twice(at, 3)
    at.store.delete([at.layout.log_key(read)])
    assert told(at.mend(apply=False)) == [("REBUILD", "PLANNED")]
    assert told(at.mend()) == [("REBUILD", "MENDED")]
    assert logs(at) == before
    assert set(at.verdicts().values()) <= {"MATCHES", "EXTENDS"}


def timestamps(log: bytes) -> Iterator[int]:
    """The maxTimestamp of each batch."""
    while log:
        yield int.from_bytes(log[35:43], "big")
        log = log[12 + int.from_bytes(log[8:12], "big") :]


# The log of a clone that diverged.


def clone(at: Brokers, numbers: Sequence[int]) -> None:
    """Let the local log have other records of the same sizes from a segment on."""
    for number in numbers:
        path = at.whole / "churn-0" / f"{at.records[number].start_offset:020d}.log"
        path.write_bytes(forged(path.read_bytes()))


@pytest.mark.parametrize(("numbers", "lost"), [((3, 4, 5, 6), 3), ((0, 1, 2, 3), 3), ((5, 6), 6)])
def test_the_log_of_a_diverged_clone_is_refused(at, numbers, lost):
    """Its log was put between another log's snapshot and manifest."""
    clone(at, numbers)
    at.store.delete([at.layout.log_key(at.records[lost])])
    objects = {info.key for info in at.store.list() if "claims/" not in info.key}
    done = told(at.mend(log=True))
    assert [action for action, _ in done] == ["NONE"]
    assert "has other batches than the log in remote storage" in done[0][1]
    assert {info.key for info in at.store.list() if "claims/" not in info.key} == objects


def test_the_log_of_a_clone_is_refused_if_only_the_snapshot_contradicts_it(at):
    """It diverged in the last segment of the tier, so no later one tells; its first batch has another producer."""
    path = at.whole / "churn-0" / f"{at.records[6].start_offset:020d}.log"
    log = path.read_bytes()
    producer = (int.from_bytes(log[43:51], "big") + 1_000_000).to_bytes(8, "big")
    path.write_bytes(forged(log[:43] + producer + log[51:]))
    at.store.delete([at.layout.log_key(at.records[6])])
    done = told(at.mend(log=True))
    assert [action for action, _ in done] == ["NONE"]
    assert "the segment's remote snapshot contradicts the log in LOGDIR" in done[0][1]


# The largest timestamp.


def test_a_replaced_segment_is_published_with_its_largest_timestamp(at):
    """Its broker had an empty time index: seeks by time skipped the segment."""
    right = max(timestamps(logs(at)[3]))
    at.records[3] = replace(at.records[3], max_timestamp=0)
    at.cluster.append(SegmentUpdate(at.records[3].id, 1, 5, SegmentState.DELETE_SEGMENT_STARTED))
    again = replace(at.records[3], id=replace(at.records[3].id, segment_id=TWIN))
    copy_objects(at, at.records[3], again)
    at.cluster.append(SegmentRecord(replace(again, state=STARTED)))
    at.cluster.append(SegmentUpdate(again.id, 1, 5, FINISHED))
    at.records[3] = again
    damage(at, 3, ".indexes", lambda data: bytes([data[0] ^ 1]) + data[1:])
    assert told(at.mend(depth=CheckDepth.FULL)) == [("REPLACE", "MENDED")]
    (found,) = (
        each for each in at.index().finished() if each.start_offset == again.start_offset and each.id != again.id
    )
    assert found.max_timestamp == right


# Deletions that go on.


class Undeletable:
    """A store that deletes no log."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def delete(self, keys: Iterable[str]) -> tuple[DeleteFailure, ...]:
        keys = list(keys)
        logs = [key for key in keys if key.endswith(".log")]
        failed = self._inner.delete(key for key in keys if key not in logs)
        return (*failed, *(DeleteFailure(key, "AccessDenied") for key in logs))


def told_of(at: Brokers, segment: RemoteLogSegmentMetadata) -> list[SegmentState]:
    """The states that a segment's records give it."""
    updates = (each for each in at.cluster.records(at.partition) if isinstance(each, SegmentUpdate))
    return [each.state for each in updates if each.id == segment.id]


def test_a_deletion_is_not_finished_while_objects_remain(at):
    unread, _ = finish_twice(at, 3)
    done = at.mend(delete_bad=True, store=Undeletable(at.store))
    assert [each.outcome for each in done] == [MendOutcome.FAILED]
    assert told_of(at, unread)[-1] is DELETING
    assert told(at.mend(delete_bad=True)) == [("DELETE", "MENDED")]
    assert told_of(at, unread)[-1] is DELETED
    assert at.store.head(at.layout.log_key(unread)) is None


def test_a_segment_that_brokers_read_again_is_not_deleted(at):
    """Another one was deleted between the look and the deletion."""
    unread, read = finish_twice(at, 3)
    logs = RemoteLogs(at.location, MendRules(Expiry(None, NOW), DAY), LocalLogs(), {})
    topic = MetadataTopic.of(at.cluster)
    with topic.read_all() as reader:
        job = DeleteUnread(topic, reader, logs, logs.read_whole(at.partition))
        job.check(reader.read_to_end().index(at.partition), unread)
        at.cluster.append(SegmentUpdate(read.id, 1, 6, DELETING))
        with pytest.raises(NotDeletedError):
            job.delete(unread)
    assert at.store.head(at.layout.log_key(unread)) is not None


def test_a_segment_that_brokers_deleted_meanwhile_is_left_to_them(at):
    unread, _ = finish_twice(at, 3)
    logs = RemoteLogs(at.location, MendRules(Expiry(None, NOW), DAY), LocalLogs(), {})
    topic = MetadataTopic.of(at.cluster)
    for state in (DELETING, DELETED):
        at.cluster.append(SegmentUpdate(unread.id, 1, 6, state))
        with topic.read_all() as reader:
            DeleteUnread(topic, reader, logs, logs.read_whole(at.partition)).delete(unread)
        assert told_of(at, unread)[-1] is state
        assert at.store.head(at.layout.log_key(unread)) is not None, "its broker deletes it"


# The rules alone.


def index_of(*segments: RemoteLogSegmentMetadata) -> RemoteIndex:
    index = RemoteIndex()
    for each in segments:
        index.take(each)
    return index


ONE = remote_segment(0, 9, ((0, 0),))
SHORT = remote_segment(0, 4, ((0, 0),))


def named(segment: RemoteLogSegmentMetadata, name: str) -> RemoteLogSegmentMetadata:
    return replace(segment, id=replace(segment.id, segment_id=id_of(name)))


def id_of(name: str) -> str:
    return name.ljust(21, "_") + "A"


def names(segments: Sequence[RemoteLogSegmentMetadata]) -> list[str]:
    return [each.id.segment_id.rstrip("A").rstrip("_") for each in segments]


def proof(*right: str) -> ReadWhole:
    return ReadWhole(ModelCheck.of(list(map(id_of, right))))


def test_only_a_full_check_of_all_segments_is_a_proof(at):
    for depth, sampled in ((CheckDepth.SNAPSHOTS, None), (CheckDepth.METADATA, None), (CheckDepth.FULL, 7)):
        with pytest.raises(ValueError, match="only a full check"):
            ReadWhole(PartitionCheck(at.location, at.partition, CheckRequest(depth, 0, None, sampled)))
    found = ReadWhole(PartitionCheck(at.location, at.partition, CheckRequest(CheckDepth.FULL, 0, None)))
    assert [found.doubt(each.id.segment_id) for each in at.records] == [""] * len(at.records)
    assert "not complete" in found.doubt(TWIN)


@pytest.mark.parametrize("last", [0, 9])
def test_may_be_deleted_asks_for_a_proof_of_what_remains(last):
    first, second = (named(remote_segment(0, last, ((0, 0),)), name) for name in ("first", "second"))
    index = index_of(first, second)
    assert may_be_deleted(index, second, 0, proof("first", "second")) == "brokers read it"
    assert may_be_deleted(index, first, 0, proof("first", "second")) == ""
    assert "is not proven" in may_be_deleted(index, first, 0, proof("first"))


def test_may_be_deleted_refuses_offsets_that_no_other_segment_holds():
    long, short = named(ONE, "long"), named(SHORT, "short")
    index = index_of(long, short)
    assert not any(each.id == long.id for each in (copy for epoch in index.epochs.values() for copy, _ in epoch.copies))
    for log_start in (0, 5, 100):
        assert "offsets 5 to 9" in may_be_deleted(index, long, log_start, proof("short"))
    begun = replace(long, state=SegmentState.DELETE_SEGMENT_STARTED, broker_id=NO_BROKER)
    index.take(begun)
    assert "offsets 5 to 9" in may_be_deleted(index, begun, 9, proof("short"))
    assert may_be_deleted(index, begun, 10, proof()) == "", "nothing of it is read any more"


@pytest.mark.parametrize(("last", "why"), [(9, "and nothing shows which log is right"), (19, "")])
def test_may_be_deleted_compares_the_logs_of_segments_with_the_same_offsets_alone(last, why):
    old, new = named(ONE, "old"), named(remote_segment(0, last, ((0, 0),)), "new")
    check = ModelCheck.of([id_of("old"), id_of("new")])
    check.digests.update({id_of("old"): "1", id_of("new"): "2"})
    found = may_be_deleted(index_of(old, new), old, 0, ReadWhole(check))
    assert (found.endswith(why), bool(found)) == (True, bool(why))


def test_to_be_deleted_leaves_deletions_of_brokers_and_sound_segments_alone():
    wrong, other, sound = named(ONE, "wrong"), named(SHORT, "other"), named(remote_segment(0, 12, ((0, 0),)), "sound")
    index = index_of(other, wrong, sound)
    deleting = [
        replace(named(ONE, name), state=SegmentState.DELETE_SEGMENT_STARTED, broker_id=broker)
        for name, broker in (("ours", NO_BROKER), ("theirs", 1))
    ]
    found = to_be_deleted(index, deleting, proof("sound", "other"))
    assert names(found) == ["ours", "wrong"]


def test_to_be_deleted_gives_right_segments_that_are_redundant_or_whose_deletion_began():
    sound = proof("first", "second", "begun")
    assert names(to_be_deleted(index_of(named(ONE, "first"), named(ONE, "second")), [], sound)) == ["first"]
    begun = replace(named(SHORT, "begun"), state=SegmentState.DELETE_SEGMENT_STARTED, broker_id=NO_BROKER)
    assert names(to_be_deleted(index_of(named(ONE, "first")), [begun], sound)) == ["begun"]


def test_wrong_and_read_leaves_out_what_ends_below_the_log_start():
    low, high = named(ONE, "low"), named(remote_segment(10, 19, ((0, 10),)), "high")
    index = index_of(low, high)
    for log_start, expected in ((0, ["low", "high"]), (9, ["low", "high"]), (10, ["high"]), (20, [])):
        found = wrong_and_read(index, {id_of("low"), id_of("high")}, log_start)
        assert names(found) == expected, log_start


def test_wrong_and_read_leaves_out_a_segment_whose_offsets_brokers_do_not_find():
    index = index_of(named(ONE, "long"), named(SHORT, "short"))
    assert names(wrong_and_read(index, {id_of("long"), id_of("short")}, 0)) == ["short"]
    assert names(wrong_and_read(index, {id_of("long")}, 0)) == []
