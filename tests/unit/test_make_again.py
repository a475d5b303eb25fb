"""Missing objects of a tier that a broker wrote are made again as it wrote them, from a log or from the tier alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from tests.reference.flaky_store import Crash, Fault, FlakyStore
from tests.reference.plugin_compressed import compress_copy
from tests.reference.poisoned_tier import PoisonedTier, poisoned_tier
from tests.unit.test_mend import Brokers, code_of
from tests.unit.test_poisoned_tier import LAYOUTS, state
from tiersnap.remote_storage.cluster.missing_objects import find_missing
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks import claim_protocol
from tiersnap.remote_storage.locks.claim import Attempt, ClaimedSegment, ClaimedSnapshot
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.make_again import MakeAgain, RemoteLogs
from tiersnap.remote_storage.mend.put_back import check_known
from tiersnap.remote_storage.mend.right_segments import MendRules
from tiersnap.remote_storage.mend.segments_to_mend import Mending, plan_mending
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    new_segment_id,
)
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_indexes, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import list_segments
from tiersnap.remote_storage.retire.partition_leftovers import sweep_partition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore, PutResult
from tiersnap.remote_storage.verify.local_log import LocalLog, LocalLogs
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.replay.replay_start import Beginnings

pytestmark = pytest.mark.unit

NOW = 1_795_265_100_000  # ms: 2026-11-21T12:45:00Z
DAY = 86_400_000
AIVEN, LOCALLY = LAYOUTS
Contents = dict[int, tuple[bytes, dict[IndexType, object]]]


class Tier:
    """A tier, what brokers know of it, and how it was."""

    def __init__(self, at: PoisonedTier, layout: str) -> None:
        self.at, self.layout = at, open_layout(layout)
        self.store = DirectoryStore(at.remote)
        self.location = RemoteLocation(self.store, self.layout)
        name, _, number = at.name.rpartition("-")
        self.partition = TopicIdPartition(name, "lZ6vvmajTWKDBUTV6SQAtQ", int(number))
        self.records = [each.metadata for each in self.complete()]
        started = SegmentState.COPY_SEGMENT_STARTED
        self.brokers = Brokers([replace(each, state=started) for each in self.records])
        self.before = self.contents()

    def complete(self) -> Iterator[RemoteSegment]:
        listed = list_segments(self.location, self.partition)
        found = (read_segment(self.store, each) for each in listed)
        return (each for each in found if isinstance(each, RemoteSegment))

    def contents(self) -> Contents:
        """Of each complete segment the stored log, and its indexes; the snapshot as its entries."""
        found: Contents = {}
        for each in self.complete():
            indexes: dict[IndexType, object] = dict(read_indexes(self.store, each))
            indexes[IndexType.PRODUCER_SNAPSHOT] = state(
                read_indexes(self.store, each)[IndexType.PRODUCER_SNAPSHOT] or b""
            )
            found[each.start_offset] = self.store.get(self.layout.log_key(each.metadata)), indexes
        return found

    def lose(self, number: int, *suffixes: str) -> None:
        """Objects of a segment, all without suffixes."""
        for key in self.layout.object_keys(self.records[number]):
            if not suffixes or key.endswith(suffixes):
                self.store.delete([key])

    def mend(self, *, log: Path | None = None, store: ObjectStore | None = None, apply: bool = True) -> list[Mending]:
        known = {self.partition: list(self.brokers.cache.in_state(self.partition, SegmentState.COPY_SEGMENT_FINISHED))}
        missing = find_missing(known, lambda: known, (), self.location).segments
        local = {}
        if log is not None:
            (partition,) = open_log_dir(str(log)).partitions()
            local[partition.topic, partition.partition] = LocalLog(LOCAL, partition, Beginnings())
        location = replace(self.location, store=store or self.store)
        logs = RemoteLogs(location, MendRules(Expiry(None, NOW), DAY), LocalLogs(local), {})

        def known_still(record: RemoteLogSegmentMetadata) -> None:
            check_known(self.read, record)

        make = MakeAgain(logs, known_still, False, apply)
        return list(make.each(Mending(each, MendAction.NONE, MendOutcome.FAILED) for each in missing))

    def read(self) -> MetadataCache:
        return self.brokers.cache


def outcomes(done: Sequence[Mending]) -> list[str]:
    return [each.outcome if each.error is None else each.error.message for each in done]


@pytest.fixture(name="at")
def fixture_at(tmp_path: Path) -> Iterator[object]:
    return lambda name="churn-0", layout=AIVEN, rebuilt=None: Tier(
        poisoned_tier(tmp_path, name, rebuilt=rebuilt, local_from=7 if name == "churn-0" else 2, layout=layout), layout
    )


LOST = [
    (AIVEN, (".indexes",)),
    (AIVEN, (".rsm-manifest",)),
    (LOCALLY, (".snapshot",)),
    (LOCALLY, (".index", ".timeindex", ".leader_epoch_checkpoint")),
    (LOCALLY, (".leader_epoch_checkpoint", ".snapshot")),
]


@pytest.mark.parametrize("has_log", [False, True], ids=["tier", "log"])
@pytest.mark.parametrize(("layout", "suffixes"), LOST)
def test_lost_objects_are_made_again_as_the_broker_wrote_them(at, layout, suffixes, has_log):
    """Two neighbours and the first: the state goes from one to the next."""
    tier = at(layout=layout)
    for number in (0, 3, 4):
        tier.lose(number, *suffixes)
    objects = {info.key for info in tier.store.list()}
    log = tier.at.logs.with_name("whole") if has_log else None
    assert outcomes(tier.mend(log=log, apply=False)) == ["PLANNED"] * 3
    assert {info.key for info in tier.store.list()} == objects, "a plan"
    assert outcomes(tier.mend(log=log)) == ["MENDED"] * 3
    assert tier.contents() == tier.before
    assert tier.mend(log=log) == []


@pytest.mark.parametrize("name", ["churn-0", "orders-0", "orders-1", "hanging-0"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_lost_segments_come_back_from_a_log(at, layout, name):
    tier = at(name, layout)
    tier.lose(0)
    tier.lose(1, ".log")
    assert outcomes(tier.mend())[0].endswith("neither remote storage nor LOGDIR has the log with these offsets")
    assert outcomes(tier.mend(log=tier.at.logs.with_name("whole"))) == ["MENDED"] * 2
    assert tier.contents() == tier.before


def test_a_state_comes_from_no_poisoned_snapshot(at):
    """A replica was rebuilt at the sixth segment; the snapshot of the seventh is lost."""
    tier = at(layout=LOCALLY, rebuilt=5)
    tier.lose(6, ".snapshot")
    assert outcomes(tier.mend()) == ["MENDED"]
    made = tier.contents()[tier.records[6].start_offset][1][IndexType.PRODUCER_SNAPSHOT]
    assert made == state(tier.at.expected[tier.records[6].end_offset + 1])


def test_what_nobody_can_tell_is_refused_by_name(at):
    tier = at(layout=LOCALLY)
    (first, snapshot), (second, _) = (tier.layout.object_keys(each)[::5] for each in tier.records[:2])
    tier.store.delete([snapshot, *tier.layout.object_keys(tier.records[1])])
    (tier.store.root / first).write_bytes((tier.store.root / first).read_bytes()[:-1] + b"?")
    tier.lose(2, ".snapshot")
    done = tier.mend()
    assert {each.outcome for each in done} == {MendOutcome.FAILED}
    said = outcomes(done)
    assert (
        "log: " in said[0]
        and "neither remote storage nor LOGDIR" in said[1]
        and "remote storage lacks the producer state at" in said[2]
    )
    assert code_of(done) is ExitCode.GATE_REFUSED
    assert second not in {info.key for info in tier.store.list()}


def test_objects_that_do_not_fit_those_that_are_there_are_refused(at, tmp_path):
    tier = at()
    manifest = tier.layout.object_keys(tier.records[1])[2]
    compress_copy(tier.store.root / manifest, 4096)
    tier.lose(1, ".log")
    tier.lose(2, ".rsm-manifest")
    indexes = tier.store.root / tier.layout.object_keys(tier.records[2])[1]
    indexes.write_bytes(indexes.read_bytes() + b"\0")
    tier.lose(3, ".log")
    indexes = tier.store.root / tier.layout.object_keys(tier.records[3])[1]
    indexes.write_bytes(b"\xff" * 8 + indexes.read_bytes()[8:])
    before = {info.key: tier.store.get(info.key) for info in tier.store.list()}
    done = tier.mend(log=tier.at.logs.with_name("whole"))
    assert "the plugin compressed the segment" in outcomes(done)[0]
    assert "the object with the indexes exists, but differs from the indexes of the log" in outcomes(done)[1]
    assert "offset index in remote storage: " in outcomes(done)[2]
    assert {info.key: tier.store.get(info.key) for info in tier.store.list()} == before


def test_a_segment_that_is_nowhere_is_named_once(at, tmp_path):
    tier = at()
    tier.lose(1)
    known = {tier.partition: list(tier.brokers.cache.in_state(tier.partition, SegmentState.COPY_SEGMENT_FINISHED))}
    missing = find_missing(known, lambda: known, (), tier.location).segments
    planned = plan_mending(replace(tier.location, store=DirectoryStore(tmp_path / "other")), missing, tier.location)
    logs = RemoteLogs(tier.location, MendRules(Expiry(None, NOW), DAY), LocalLogs(), {})
    (done,) = MakeAgain(logs, lambda _: None, False, apply=False).each(planned)
    assert done.error is not None
    for words in (
        "are not mended: ",
        "the location has no objects of the segment; ",
        "neither remote storage nor LOGDIR",
    ):
        assert done.error.message.count(words) == 1, done.error.message


def test_what_came_back_from_elsewhere_is_no_failure_of_its_partition(at):
    """The partition cannot be listed any more when another of its segments is to be made again."""
    tier = at()
    tier.lose(1)
    tier.lose(2)
    known = {tier.partition: list(tier.brokers.cache.in_state(tier.partition, SegmentState.COPY_SEGMENT_FINISHED))}
    missing = find_missing(known, lambda: known, (), tier.location).segments
    back = Mending(missing[0], MendAction.COPY, MendOutcome.MENDED)
    lost = Mending(missing[1], MendAction.NONE, MendOutcome.FAILED)
    store = FlakyStore(tier.store, {1: Fault.FAIL_BEFORE})
    logs = RemoteLogs(replace(tier.location, store=store), MendRules(Expiry(None, NOW), DAY), LocalLogs(), {})
    done = list(MakeAgain(logs, lambda _: None, False, apply=True).each([back, lost]))
    assert done[0] == back and done[1].error is not None
    assert code_of(done) is ExitCode.TRANSIENT


def test_an_index_that_is_there_must_be_right(at):
    tier = at(layout=LOCALLY)
    tier.lose(1, ".snapshot")
    index = tier.store.root / next(
        key for key in tier.layout.object_keys(tier.records[1]) if key.endswith(".timeindex")
    )
    index.write_bytes(index.read_bytes()[:-12])
    assert "time index: the index ends with timestamp" in outcomes(tier.mend())[0]
    tier.store.delete([tier.layout.object_keys(tier.records[1])[2]])
    assert outcomes(tier.mend()) == ["MENDED"]


def test_deleted_meanwhile_is_taken_back(at):
    tier = at(layout=LOCALLY)
    tier.lose(1, ".snapshot", ".index")
    before = {info.key for info in tier.store.list()}
    reads = 0

    def read() -> MetadataCache:
        nonlocal reads
        reads += 1
        if reads == 3:
            tier.brokers.tell(tier.records[1], SegmentState.DELETE_SEGMENT_STARTED)
        return tier.brokers.cache

    tier.read = read
    assert outcomes(tier.mend()) == ["DELETED"]
    assert {info.key for info in tier.store.list()} == before


@pytest.mark.parametrize(("layout", "suffixes"), [LOST[0], LOST[3]])
def test_killed_anywhere_is_finished_by_the_next_run(at, layout, suffixes):
    tier = at(layout=layout)
    for number in (3, 4):
        tier.lose(number, *suffixes)
    for step in range(1, 100):
        try:
            done = tier.mend(store=FlakyStore(tier.store, {step: Fault.CRASH_AFTER}))
        except Crash:
            continue
        break
    assert step > 3 and {each.outcome for each in done} <= {MendOutcome.MENDED}
    assert tier.contents() == tier.before


def test_only_the_snapshot_that_a_claim_vouches_for_is_put_back(at):
    tier = at(layout=LOCALLY)
    record = tier.records[1]
    claimed = ClaimedSegment(tier.partition, record.start_offset, record.segment_leader_epochs[-1][0])
    attempt = Attempt.of(record.id.segment_id, "run")
    held = claim_protocol.claim(tier.store, claimed, attempt)
    claim_protocol.finish(tier.store, held, ClaimedSnapshot.of(7, "COMPUTED", ""))
    tier.lose(1, ".snapshot")
    done = tier.mend()
    assert "the claim of the segment names a snapshot with CRC 00000007" in outcomes(done)[0]
    assert code_of(done) is ExitCode.GATE_REFUSED


def test_no_attempt_deletes_what_came_back_after_another_one_finished(at):
    """The segment was lost, tier copied it under a new id that no broker knows, and then its objects returned."""
    tier = at()
    record = tier.records[1]
    claimed = ClaimedSegment(tier.partition, record.start_offset, record.segment_leader_epochs[-1][0])
    first, other = Attempt.of(record.id.segment_id, "run-1"), Attempt.of(new_segment_id(), "run-2")
    held = claim_protocol.finish(tier.store, claim_protocol.claim(tier.store, claimed, first))
    claim_protocol.finish(tier.store, claim_protocol.reopen(tier.store, held, other))
    there = tier.layout.object_keys(record)
    for key in there:
        data = tier.store.get(key).replace(first.segment_id.encode(), other.segment_id.encode())
        tier.store.put_if_absent(key.replace(first.segment_id, other.segment_id), data)
    tier.lose(1, ".indexes")
    assert outcomes(tier.mend()) == ["MENDED"]
    sweep_partition(tier.store, list_remote_partition(tier.location, tier.partition))
    assert {info.key for info in tier.store.list()}.issuperset(there)


def test_mend_waits_for_an_attempt_that_may_delete_what_comes_back(at):
    tier = at()
    record = tier.records[1]
    claimed = ClaimedSegment(tier.partition, record.start_offset, record.segment_leader_epochs[-1][0])
    first, other = Attempt.of(record.id.segment_id, "run-1"), Attempt.of(new_segment_id(), "run-1")
    claim_protocol.claim(tier.store, claimed, first)
    at_work = claim_protocol.claim(tier.store, claimed, other)
    tier.lose(1, ".indexes")
    done = tier.mend()
    assert "is held by" in outcomes(done)[0] and code_of(done) is ExitCode.TRANSIENT
    claim_protocol.release(tier.store, at_work)
    assert outcomes(tier.mend()) == ["MENDED"]


class Damaging:
    """A store that knows checksums, and whose disk flips a bit of each new object that ends so."""

    def __init__(self, inner: DirectoryStore, suffix: str) -> None:
        self._inner, self._suffix = inner, suffix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def head(self, key: str) -> ObjectInfo | None:
        found = self._inner.head(key)
        return found and replace(found, crc32c=google_crc32c.value(self._inner.get(key)))

    def put_if_absent(self, key: str, *given: Any, **more: Any) -> PutResult:
        return self._spoilt(key, self._inner.put_if_absent(key, *given, **more))

    def put_file_if_absent(self, key: str, *given: Any, **more: Any) -> PutResult:
        return self._spoilt(key, self._inner.put_file_if_absent(key, *given, **more))

    def _spoilt(self, key: str, put: PutResult) -> PutResult:
        path = self._inner.root / key
        if key.endswith(self._suffix):
            path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
        return replace(put, proved=False)


@pytest.mark.parametrize("suffix", [".log", ".indexes"])
def test_an_object_that_the_store_damages_is_taken_back(at, suffix):
    """The next run could not put the right content in its place."""
    tier = at()
    tier.lose(1, suffix)
    before = {info.key for info in tier.store.list()}
    done = tier.mend(store=Damaging(tier.store, suffix), log=tier.at.logs.with_name("whole"))
    assert [each.outcome for each in done] == [MendOutcome.FAILED]
    assert {info.key for info in tier.store.list() if "claims/" not in info.key} == before
    assert outcomes(tier.mend(log=tier.at.logs.with_name("whole"))) == ["MENDED"]
    assert tier.contents() == tier.before


@pytest.mark.parametrize(
    ("lost", "old", "new", "why"),
    [
        (".indexes", '"timestamp":{"position":', '"timestamp":{"position":1', "TIMESTAMP: position and size are"),
        (".log", '"endOffset":', '"endOffset":9', "the manifest of the segment describes another segment"),
    ],
)
def test_an_object_that_the_manifest_does_not_describe_is_not_made(at, lost, old, new, why):
    tier = at()
    manifest = tier.store.root / tier.layout.object_keys(tier.records[1])[2]
    tier.lose(1, lost)
    text = manifest.read_text()
    assert text.count(old) == 1
    manifest.write_text(text.replace(old, new))
    before = {info.key for info in tier.store.list()}
    done = tier.mend(log=tier.at.logs.with_name("whole"))
    assert why in outcomes(done)[0]
    assert {info.key for info in tier.store.list() if "claims/" not in info.key} == before


def test_a_segment_of_another_size_is_not_made_from_a_local_log(at):
    """Its record says more bytes than the local log has."""
    tier = at()
    (record,) = (each for each in tier.records if each is tier.records[1])
    started = replace(record, segment_size=record.segment_size + 1, state=SegmentState.COPY_SEGMENT_STARTED)
    tier.brokers = Brokers([started])
    tier.lose(1, ".log")
    assert "neither remote storage nor LOGDIR" in outcomes(tier.mend(log=tier.at.logs.with_name("whole")))[0]


@pytest.mark.parametrize(("layout", "suffix"), [(AIVEN, ".rsm-manifest"), (LOCALLY, ".snapshot")])
def test_a_segment_whose_log_ends_early_is_not_made_whole(at, layout, suffix):
    """Its log in the tier is cut between two batches: no batch is damaged, and the last ones are lost."""
    tier = at(layout=layout)
    log = tier.store.root / tier.layout.log_key(tier.records[1])
    data, bounds = log.read_bytes(), [0]
    while bounds[-1] < len(data):
        bounds.append(bounds[-1] + 12 + int.from_bytes(data[bounds[-1] + 8 : bounds[-1] + 12], "big"))
    log.write_bytes(data[: bounds[-2]])
    tier.lose(1, suffix)
    before = {info.key for info in tier.store.list()}
    assert f"ends at byte {bounds[-2]} of {bounds[-1]}" in outcomes(tier.mend())[0]
    assert {info.key for info in tier.store.list()} == before


def test_a_segment_of_other_leader_epochs_is_not_made(at):
    """They begin inside the segment, and an earlier epoch reaches into it."""
    tier = at(layout=LOCALLY)
    record = tier.records[1]
    started = replace(
        record, segment_leader_epochs=((7, record.start_offset + 2),), state=SegmentState.COPY_SEGMENT_STARTED
    )
    tier.brokers = Brokers([started])
    tier.lose(1, ".snapshot")
    assert "the segment has the leader epochs" in outcomes(tier.mend())[0]
