"""Objects that brokers look for and do not find: named, and put back from where they were uploaded by mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.planned import PARTITION, write_log
from tests.reference.remote_segments import remote_segment
from tests.reference.tiered import aiven, tier
from tests.unit.test_encrypted_remote import encrypt
from tiersnap.remote_storage.cluster.missing_objects import Missing, MissingSegment, find_missing, worst_first
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import IndexType, Layout, StoredState
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.make_again import RemoteLogs
from tiersnap.remote_storage.mend.put_back import PutBack
from tiersnap.remote_storage.mend.right_segments import MendRules
from tiersnap.remote_storage.mend.segments_to_mend import Mending, plan_mending
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiersnap.remote_storage.remote_log.partition_objects import list_topic
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_indexes
from tiersnap.remote_storage.restore.published import read_copies
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo, PutResult
from tiersnap.remote_storage.verify.local_log import LocalLogs
from tiersnap.snapshot.errors import CorruptDataError, ExitCode, TiersnapError, TransientError
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.remote_listing import Encryption

pytestmark = pytest.mark.unit

NOW = 1_800_000_000_000  # ms
AIVEN, LOCAL = AivenLayout(), LocalTieredStorageLayout()
LAYOUTS = pytest.mark.parametrize(
    ("lies_as", "layout"),
    [(AIVEN, AIVEN), (LOCAL, LOCAL), (AIVEN, LOCAL), (LOCAL, AIVEN)],
    ids=["aiven", "local", "aiven-local", "local-aiven"],
)


def code_of(done: Iterable[Mending], failures: Iterable[TiersnapError] = ()) -> ExitCode:
    return exit_code_of([*(each.error for each in done if each.error is not None), *failures])


@pytest.fixture
def folder(tmp_path) -> Path:
    return write_log(tmp_path / "logs", epoch=3)


@pytest.fixture
def wrong(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "wrong")


@pytest.fixture
def right(tmp_path) -> DirectoryStore:
    (tmp_path / "right").mkdir()
    return DirectoryStore(tmp_path / "right")


class Brokers:
    """What brokers were told: all records of a partition."""

    def __init__(self, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
        self.cache = MetadataCache()
        self.reads = 0
        for each in segments:
            self.cache.apply(SegmentRecord(each), is_ours=True)
            self.tell(each, SegmentState.COPY_SEGMENT_FINISHED)

    def tell(self, segment: RemoteLogSegmentMetadata, state: SegmentState) -> None:
        assert self.cache.apply(SegmentUpdate(segment.id, 1, 2, state), is_ours=True)

    def known(self) -> dict[TopicIdPartition, list[RemoteLogSegmentMetadata]]:
        found = list(self.cache.in_state(PARTITION, SegmentState.COPY_SEGMENT_FINISHED))
        return {PARTITION: found} if found else {}

    def read(self) -> MetadataCache:
        self.reads += 1
        return self.cache

    def missing(self, store: DirectoryStore, layout: Layout) -> Missing:
        return find_missing(self.known(), self.known, self.cache.ours, RemoteLocation(store, layout))


def mended(
    brokers: Brokers, wrong: DirectoryStore, right: DirectoryStore, lies_as: Layout, layout: Layout
) -> list[Mending]:
    target = RemoteLocation(right, layout)
    planned = plan_mending(RemoteLocation(wrong, lies_as), brokers.missing(right, layout).segments, target)
    return list(put_back(wrong, target, brokers.read).each(planned))


def put_back(
    source: DirectoryStore, target: RemoteLocation, read: Callable[[], MetadataCache], *, apply: bool = True
) -> PutBack:
    return PutBack(source, RemoteLogs(target, MendRules(Expiry(None, NOW), None), LocalLogs(), {}), read, apply)


def objects(store: DirectoryStore) -> dict[str, bytes]:
    return {info.key: store.get(info.key) for info in store.list()}


@LAYOUTS
def test_mend_makes_the_objects_that_an_upload_there_would_have_made(lies_as, layout, folder, wrong, right, tmp_path):
    segments = tier(folder, wrong, layout=lies_as)
    brokers = Brokers(segments)
    before = objects(wrong)
    missing = brokers.missing(right, layout)
    assert [each.metadata.start_offset for each in missing.segments] == [0, 5, 10]
    assert (missing.known, missing.elsewhere) == (3, None)

    planned = plan_mending(RemoteLocation(wrong, lies_as), missing.segments, RemoteLocation(right, layout))
    action = MendAction.COPY if lies_as is layout else MendAction.REBUILD
    assert {(each.action, each.outcome) for each in planned} == {(action, MendOutcome.PLANNED)}
    assert (objects(right), code_of(planned)) == ({}, ExitCode.OK), "a plan"
    done = mended(brokers, wrong, right, lies_as, layout)

    assert [each.outcome for each in done] == [MendOutcome.MENDED] * 3, [each.error for each in done]
    finished = [replace(each, state=SegmentState.COPY_SEGMENT_FINISHED) for each in segments]
    assert [layout.inspect(right, each) for each in finished] == [StoredState.COMPLETE] * 3
    assert contents(right) == contents(wrong) == expected(folder)
    assert brokers.missing(right, layout).segments == ()
    assert objects(wrong) == before
    if lies_as is layout:
        assert objects(right) == before
    assert mended(brokers, wrong, right, lies_as, layout) == []


def contents(store: DirectoryStore) -> list[tuple[int, bytes, dict[IndexType, bytes | None]]]:
    """Of each segment its log and indexes, whatever the layout."""
    found = []
    for listed in list_topic(store, PARTITION.topic):
        for copy in read_copies(store, listed).segments:
            assert isinstance(copy, RemoteSegment)
            found.append((copy.start_offset, store.get(copy.layout.log_key(copy.metadata)), read_indexes(store, copy)))
    return found


def expected(folder: Path) -> list[tuple[int, bytes, object]]:
    """Logs as they are on the disk; indexes and snapshots are those of an upload to a third place."""
    other = DirectoryStore(folder.parent.parent / "other")
    tier(folder, other)
    logs = {int(path.stem): path.read_bytes() for path in folder.glob("*.log")}
    return [(start, logs[start], indexes) for start, _, indexes in contents(other)]


@LAYOUTS
def test_mend_takes_back_what_brokers_deleted_meanwhile(lies_as, layout, folder, wrong, right):
    segments = tier(folder, wrong, layout=lies_as)
    for reads in (1, 2):
        brokers = Brokers(segments)
        read, left = brokers.read, [reads]

        def and_delete(brokers=brokers, read=read, left=left) -> MetadataCache:
            left[0] -= 1
            if left[0] == 0:
                brokers.tell(segments[0], SegmentState.DELETE_SEGMENT_STARTED)
            return read()

        target = RemoteLocation(right, layout)
        planned = plan_mending(RemoteLocation(wrong, lies_as), brokers.missing(right, layout).segments[:1], target)
        (done,) = put_back(wrong, target, and_delete).each(planned)
        assert (done.outcome, objects(right)) == (MendOutcome.DELETED, {}), reads
        assert code_of([done]) is ExitCode.OK


def test_mend_overwrites_nothing_and_goes_on_with_the_next(folder, wrong, right):
    brokers = Brokers(segments := tier(folder, wrong))
    key = AIVEN.object_keys(segments[0])[1]
    right.put_if_absent(key, b"somebody else's")
    right.put_if_absent(AIVEN.log_key(segments[1]), wrong.get(AIVEN.log_key(segments[1])))
    done = mended(brokers, wrong, right, AIVEN, AIVEN)
    assert [each.outcome for each in done] == [MendOutcome.FAILED, MendOutcome.MENDED, MendOutcome.MENDED]
    assert key in str(done[0].error)
    assert code_of(done) is ExitCode.GATE_REFUSED
    assert AIVEN.object_keys(segments[0])[-1] not in objects(right), "what readers look for comes last"
    assert right.get(key) == b"somebody else's"


def test_mend_refuses_what_is_damaged_or_another_segment(folder, wrong, right):
    brokers = Brokers(segments := tier(folder, wrong))
    wrong.delete([AIVEN.object_keys(segments[0])[1]])
    log = wrong.root / AIVEN.log_key(segments[1])
    log.write_bytes(log.read_bytes()[:-1])
    others = [*brokers.missing(right, AIVEN).segments]
    others[2] = replace(others[2], metadata=replace(segments[2], segment_leader_epochs=((7, 10),)))
    planned = plan_mending(aiven(wrong), others, aiven(right))
    assert {(each.action, each.outcome) for each in planned} == {(MendAction.NONE, MendOutcome.FAILED)}
    said = [str(each.error) for each in planned]
    assert (
        "no .indexes" in said[0]
        and "the manifest of the segment says" in said[1]
        and "differs from the segment that the record describes" in said[2]
    )
    done = list(put_back(wrong, aiven(right), brokers.read).each(planned))
    assert (done, objects(right), code_of(done)) == (planned, {}, ExitCode.DATA_CORRUPT)
    absent = plan_mending(aiven(right), others[:1], aiven(right))
    assert "the location has no objects of the segment" in str(absent[0].error)


@pytest.mark.parametrize("lies_as", [AIVEN, LOCAL], ids=["aiven", "local"])
def test_mend_refuses_plain_text_among_encrypted_segments(lies_as, folder, wrong, right):
    _, *rest = tier(folder, wrong, layout=lies_as)
    tier(folder, right, bases={0})
    (manifest,) = encrypt(right)
    missing = Brokers(rest).missing(right, AIVEN).segments
    planned = plan_mending(RemoteLocation(wrong, lies_as), missing, aiven(right), allow_plaintext=False)
    assert {each.outcome for each in planned} == {MendOutcome.FAILED}
    assert manifest in str(planned[0].error) and "--allow-plaintext" in planned[0].error.hint
    assert code_of(planned) is ExitCode.GATE_REFUSED

    planned = plan_mending(RemoteLocation(wrong, lies_as), missing, aiven(right))
    assert {each.outcome for each in planned} == {MendOutcome.PLANNED}


def test_mend_says_where_nobody_knows_whether_the_plugin_encrypts(folder, wrong, right):
    missing = Brokers(tier(folder, wrong)).missing(right, AIVEN).segments

    def shown(*, allow_plaintext: bool) -> set[Encryption | None]:
        planned = plan_mending(aiven(wrong), missing, aiven(right), allow_plaintext=allow_plaintext)
        return {each.encryption for each in planned}

    assert shown(allow_plaintext=False) == {Encryption.UNKNOWN}
    assert shown(allow_plaintext=True) == {None}, "nobody looked"


def test_mend_puts_back_no_encrypted_segment_because_nothing_compares_it(folder, wrong, right):
    missing = Brokers(tier(folder, wrong)).missing(right, AIVEN).segments
    encrypt(wrong)
    planned = plan_mending(aiven(wrong), missing, aiven(right))
    assert {(each.action, each.outcome) for each in planned} == {(MendAction.NONE, MendOutcome.FAILED)}
    assert "no key to check the segment" in str(planned[0].error)


def zeros(data: bytes) -> bytes:
    return bytes(len(data))


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("number", "how", "why"),
    [
        (0, zeros, "log: "),
        (0, flipped, "log: BAD_CRC"),
        (0, lambda _: b"", "the manifest of the segment says"),
        (1, zeros, "leader epochs"),
        (1, lambda data: b"\xff" * 8 + data[8:], "index: "),
        (2, flipped, "rsm-manifest"),
    ],
    ids=["log-zeros", "log-flipped", "log-empty", "indexes-zeros", "offset-index", "manifest"],
)
def test_mend_puts_back_no_damaged_object_and_says_why(folder, wrong, right, number, how, why):
    """They were put back as they were: MENDED."""
    brokers = Brokers(segments := tier(folder, wrong))
    path = wrong.root / AIVEN.object_keys(segments[1])[number]
    path.write_bytes(how(path.read_bytes()))
    target, missing = aiven(right), brokers.missing(right, AIVEN).segments
    for apply, outcome in ((False, MendOutcome.PLANNED), (True, MendOutcome.MENDED)):
        planned = plan_mending(aiven(wrong), missing, target)
        done = list(put_back(wrong, target, brokers.read, apply=apply).each(planned))
        assert [each.outcome for each in done] == [outcome, MendOutcome.FAILED, outcome]
        assert why in str(done[1].error)
        assert code_of(done) is ExitCode.DATA_CORRUPT
    assert not [name for name in objects(right) if segments[1].id.segment_id in name]


@pytest.mark.parametrize("layout", [AIVEN, LOCAL], ids=["aiven", "local"])
def test_mend_puts_back_no_log_of_another_segment(folder, wrong, right, layout):
    brokers = Brokers(segments := tier(folder, wrong, layout=layout))
    log = wrong.root / layout.log_key(segments[0])
    log.write_bytes((5).to_bytes(8, "big") + log.read_bytes()[8:])
    done = mended(brokers, wrong, right, layout, layout)
    assert [each.outcome for each in done] == [MendOutcome.FAILED, MendOutcome.MENDED, MendOutcome.MENDED]
    assert "log: " in str(done[0].error)


def test_mend_puts_back_no_snapshot_that_the_log_contradicts(folder, wrong, right):
    brokers = Brokers(segments := tier(folder, wrong, layout=LOCAL))
    snapshot, later = (wrong.root / LOCAL.object_keys(each)[-1] for each in segments[1:])
    assert snapshot.read_bytes() != later.read_bytes()
    snapshot.write_bytes(later.read_bytes())
    done = mended(brokers, wrong, right, LOCAL, LOCAL)
    assert [each.outcome for each in done] == [MendOutcome.MENDED, MendOutcome.FAILED, MendOutcome.MENDED]
    assert "snapshot: " in str(done[1].error)


def test_mend_puts_no_log_between_the_other_objects_of_another_one(folder, wrong, right):
    """Its indexes and its manifest are there already, and are others."""
    brokers = Brokers(segments := tier(folder, wrong))
    log, indexes, manifest = AIVEN.object_keys(segments[0])
    right.put_if_absent(indexes, wrong.get(indexes) + b" ")
    right.put_if_absent(manifest, wrong.get(manifest))
    done = mended(brokers, wrong, right, AIVEN, AIVEN)
    assert done[0].outcome is MendOutcome.FAILED and indexes in str(done[0].error)
    assert log not in objects(right)


@LAYOUTS
def test_mend_that_is_killed_anywhere_is_finished_by_the_next_run(lies_as, layout, folder, wrong, right):
    brokers = Brokers(tier(folder, wrong, layout=lies_as))
    calls = 0
    for at in range(1, 100):
        calls, store = at, FlakyStore(right, {at: Fault.CRASH_AFTER})
        target = RemoteLocation(right, layout)
        planned = plan_mending(RemoteLocation(wrong, lies_as), brokers.missing(right, layout).segments, target)
        try:
            done = list(put_back(wrong, replace(target, store=store), brokers.read).each(planned))
        except Crash:
            continue
        assert all(each.outcome is MendOutcome.MENDED for each in done)
        break
    assert calls > 3
    assert contents(right) == contents(wrong)


class Damaging(DirectoryStore):
    """A directory whose disk flips a bit of each new file."""

    def put_file_if_absent(self, key: str, *given: Any, **more: Any) -> PutResult:
        put = super().put_file_if_absent(key, *given, **more)
        path = self.root / key
        path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
        return put


def test_mend_sees_that_the_store_has_other_content(folder, wrong, right):
    brokers = Brokers(tier(folder, wrong))
    done = mended(brokers, wrong, Damaging(right.root), AIVEN, AIVEN)
    assert {each.outcome for each in done} == {MendOutcome.FAILED}
    assert "the store lost or changed the object" in str(done[0].error)
    assert objects(right) == {}
    assert code_of(done) is ExitCode.TRANSIENT
    assert {each.outcome for each in mended(brokers, wrong, right, AIVEN, AIVEN)} == {MendOutcome.MENDED}


def test_a_rebuilt_segment_with_a_damaged_batch_is_not_put_back(folder, wrong, right):
    brokers = Brokers(segments := tier(folder, wrong))
    log = wrong.root / AIVEN.log_key(segments[0])
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    done = mended(brokers, wrong, right, AIVEN, LOCAL)
    assert [each.outcome for each in done] == [MendOutcome.FAILED, MendOutcome.MENDED, MendOutcome.MENDED]
    assert not [name for name in objects(right) if segments[0].id.segment_id in name]


def test_find_missing_names_the_other_layout_of_the_same_place(folder, right):
    segments = tier(folder, right, layout=AIVEN)
    missing = Brokers(segments).missing(right, LOCAL)
    assert missing.elsewhere == "aiven"
    assert {each.lacking for each in missing.segments} == {
        (".log", ".index", ".timeindex", ".leader_epoch_checkpoint", ".snapshot")
    }
    assert all(each.is_ours for each in missing.segments)
    assert "3 of 3 segments that brokers know are not at" in missing.sentence
    assert "orders-0 lacks 3 segments between offsets 0 and 14" in missing.sentence


def test_find_missing_leaves_out_what_brokers_deleted_since(folder, right):
    brokers = Brokers(segments := tier(folder, right, layout=AIVEN))
    for key in AIVEN.object_keys(segments[0])[:2] + AIVEN.object_keys(segments[1])[2:]:
        right.delete([key])
    missing = brokers.missing(right, AIVEN)
    assert [each.lacking for each in missing.segments] == [(".log", ".indexes"), (".rsm-manifest",)]
    answers = [brokers.known(), brokers.known()]
    answers[1] = {PARTITION: answers[1][PARTITION][1:]}
    missing = find_missing(answers.pop(0), partial(answers.pop, 0), (), aiven(right))
    assert [each.metadata.start_offset for each in missing.segments] == [5]
    assert not missing.segments[0].is_ours


def test_find_missing_says_that_all_is_there(folder, right):
    missing = Brokers(tier(folder, right)).missing(right, AIVEN)
    assert missing.sentence == f"all 3 segments that brokers know are complete at {right.uri}"


def test_worst_first_begins_with_the_partition_that_lacks_most():
    few = [remote_segment(at, at, ((0, at),)) for at in (3, 1)]
    many = [
        replace(each, id=replace(each.id, partition=7))
        for each in (remote_segment(at, at, ((0, at),)) for at in (9, 5, 2))
    ]
    found = worst_first(MissingSegment(each, False, ()) for each in (*few, *many))
    assert [(each.metadata.id.partition, each.metadata.start_offset) for each in found] == [
        *((7, at) for at in (2, 5, 9)),
        *((3, at) for at in (1, 3)),
    ]
    assert all(one.metadata.id != other.metadata.id for one, other in pairwise(found))


def test_exit_code_of_a_mending_is_that_of_its_failures():
    missing = MissingSegment(remote_segment(0, 9, ((0, 0),)), True, ())
    done = Mending(missing, MendAction.COPY, MendOutcome.MENDED)
    damaged = Mending(missing, MendAction.NONE, MendOutcome.FAILED, error=CorruptDataError("x"))
    passing = Mending(missing, MendAction.COPY, MendOutcome.FAILED, error=TransientError("x"))
    assert code_of([]) is code_of([done]) is ExitCode.OK
    assert code_of([passing]) is code_of([done, passing]) is ExitCode.TRANSIENT
    assert code_of([passing, damaged]) is ExitCode.DATA_CORRUPT


class Rotten(DirectoryStore):
    """A directory that knows the checksums of what was stored, and gives other bytes of logs."""

    def head(self, key: str) -> ObjectInfo | None:
        found = super().head(key)
        return found and replace(
            found, crc32c=google_crc32c.value((self.root / key).read_bytes()) ^ key.endswith(".log")
        )


def test_mend_puts_nothing_back_whose_stored_checksum_differs(folder, wrong, right):
    brokers = Brokers(tier(folder, wrong))
    done = mended(brokers, Rotten(wrong.root), right, AIVEN, AIVEN)
    assert {each.outcome for each in done} == {MendOutcome.FAILED}
    assert "was stored with it" in str(done[0].error)
    assert objects(right) == {}
