"""Many runs over the same tables: other topics, other sources, other settings, other places, a clock that jumps."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.reference.fleet_joins import input_batches, judge_input, key_of
from tests.reference.fleet_run import Ran, Runner
from tests.reference.log_builder import TIMESTAMP, data_batch, leader_epochs_text, write_partition
from tests.reference.logs import DAY
from tests.reference.retention_meanwhile import delete_when_read
from tiersnap.jobs.pipeline.before_spark import discover
from tiersnap.jobs.pipeline.one_writer import only_run
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.snapshot_objects import SnapshotManifest
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import TransientError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.log import segment_scan
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.replay.expiry import BrokerExpiry

pytestmark = pytest.mark.unit

ID = "lZ6vvmajTWKDBUTV6SQAtQ"
OTHER_ID = "5GXaOJXiRzOuReKRIUWzvw"
HOUR = DAY // 24


def segments(*bases: int) -> dict[int, list[bytes]]:
    """One log of batches of five, each of a producer of its own, rolled at multiples of five."""
    ends = [*bases[1:], bases[-1] + 5]
    return {
        base: [data_batch(offset, 5, offset // 5, 0, 0) for offset in range(base, end, 5)]
        for base, end in zip(bases, ends, strict=True)
    }


def write(source: Path, topic: str = "orders", topic_id: str = ID, *, bases: tuple[int, ...] = (0, 10, 20, 30)) -> Path:
    return write_partition(
        source, topic, 0, segments(*bases), topic_id=topic_id, high_watermark=bases[-1] + 5, indexes=True
    )


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    write(tmp_path / "logs")
    return Runner(tmp_path, tmp_path / "logs")


def verdicts(runner: Runner) -> dict[str, int]:
    """Verdicts of everything that the tables know."""
    judge, tables = JudgePartition(False, BrokerExpiry(1, DAY)), runner.tables
    found: list[str] = []
    for key in sorted({key_of(row) for row in tables.partitions}):
        batches = judge(input_batches(judge_input(key, tables)))
        found += [row["verdict"] for batch in batches for row in batch.to_pylist()]
    return {verdict: found.count(verdict) for verdict in sorted(set(found))}


def facts_at(runner: Runner) -> list[int]:
    facts = runner.tables.facts((str(runner.source), "orders", 0))
    return [row["snapshot_offset"] for row in facts if row["kind"] == "BOUNDARY"]


def snapshots(runner: Runner) -> dict[str, bytes]:
    return {key: data for key, data in runner.objects().items() if key.endswith(".snapshot")}


def test_a_run_of_one_topic_keeps_what_is_known_of_the_others(runner: Runner) -> None:
    write(runner.source, "payments", OTHER_ID)
    runner(apply=False)
    before = verdicts(runner)
    assert sum(before.values()) == 8
    only = runner(apply=False, topic=re.compile("orders"))
    assert len(only.readiness) == 4
    assert verdicts(runner) == before
    assert runner().segments_uploaded == 6


def test_a_run_of_another_source_keeps_what_is_known_of_the_first(runner: Runner, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other, "payments", OTHER_ID)
    runner(apply=False)
    runner(apply=False, sources=(str(other),))
    assert sum(verdicts(runner).values()) == 8
    assert runner().segments_uploaded == 3


def test_a_partition_that_is_gone_leaves_the_verdicts(runner: Runner) -> None:
    folder = write(runner.source, "payments", OTHER_ID)
    runner(apply=False)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert runner(apply=False).verdicts == {"ACTIVE_SEGMENT": 1, "GAP_BEFORE": 2, "MISSING_SNAPSHOT": 1}


class UnlistedStore:
    """A server that does not say what is there."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def list(self, *_args: object, **_kwargs: object) -> object:
        raise TransientError("time-out")


@pytest.mark.parametrize("checkpoint", [0, None])
@pytest.mark.parametrize("is_away", [False, True])
def test_after_local_retention_the_state_goes_on_from_remote_storage(
    runner: Runner, tmp_path: Path, checkpoint: int | None, is_away: bool
) -> None:
    runner()
    folder = runner.source / "orders-0"
    for base in (0, 10):
        for path in folder.glob(f"{base:020d}.*"):
            path.unlink()
    shorter = {
        "topic_id": ID,
        "high_watermark": 45,
        "log_start_offset": checkpoint,
        "leader_epochs": [(0, 0)],
        "indexes": True,
    }
    write_partition(runner.source, "orders", 0, segments(20, 30, 40), **shorter)
    if is_away:
        before = snapshots(runner)
        assert runner(store=UnlistedStore(runner.store)).is_transient  # type: ignore[arg-type]
        assert snapshots(runner) == before, "nothing is made while nobody knows what it begins with"
    assert runner().segments_uploaded == 1

    write(tmp_path / "whole" / "logs", bases=(0, 10, 20, 30, 40))
    whole = Runner(tmp_path / "whole", tmp_path / "whole" / "logs")
    assert whole().segments_uploaded == 4
    assert snapshots(runner) == snapshots(whole)


def test_retention_after_snapshots_were_written_is_no_conflict(runner: Runner) -> None:
    """What is folded from the later log start knows less than the objects that are there; those stay."""
    folder = runner.source / "orders-0"
    (folder / "leader-epoch-checkpoint").write_text(leader_epochs_text([(0, 30)]))  # so that nothing is tiered yet
    runner()
    before = {key: data for key, data in runner.objects().items() if key.endswith(".snapshot")}
    assert len(before) == 3
    for path in folder.glob(f"{0:020d}.*"):
        path.unlink()
    outcome = runner()
    assert outcome.errors == []
    after = {key: data for key, data in runner.objects().items() if key.endswith(".snapshot")}
    assert after == before
    assert runner().did_nothing


def test_replacing_after_retention_keeps_the_snapshots_that_know_more(runner: Runner) -> None:
    runner()
    before = {key: data for key, data in runner.objects().items() if key.endswith(".snapshot")}
    for path in (runner.source / "orders-0").glob(f"{0:020d}.*"):
        path.unlink()
    assert runner(replace=True).errors == []
    assert {key: data for key, data in runner.objects().items() if key.endswith(".snapshot")} == before


def test_a_manifest_describes_the_objects_that_are_there(runner: Runner, tmp_path: Path) -> None:
    """A new warehouse, a later moment, copies gone: producers have expired, and the snapshots stay as they were."""
    runner(as_of=TIMESTAMP + 100, expiration=7 * DAY)
    runner.store.delete([key for key in runner.objects() if not key.startswith("snapshots/")])
    later = Runner(tmp_path / "later", runner.source, remote=runner.remote)
    later.runs = 10
    assert later(as_of=TIMESTAMP + 8 * DAY, expiration=7 * DAY).errors == []
    objects = runner.objects()
    partition = TopicIdPartition("orders", ID, 0)
    name = keys.snapshot_manifest(partition, "run-11")
    rows = SnapshotManifest.decode(objects[name], name=name).snapshots
    assert [row.offset for row in rows] == [10, 20, 30]
    for row in rows:
        data = objects[keys.snapshot(partition, row.offset)]
        assert (row.size, row.crc32c, row.entries) == (
            len(data),
            f"{crc32c(data):08x}",
            snapshot_file.decode(data).size,
        )


def test_an_object_that_contradicts_the_log_is_refused_and_replaced_only_when_told(runner: Runner) -> None:
    key = keys.snapshot(TopicIdPartition("orders", ID, 0), 20)
    runner.store.put_if_absent(key, snapshot_file.encode(snapshot_file.decode(EMPTY)))
    refused = runner()
    assert not refused.is_transient
    assert len(refused.errors) == 1
    assert "20" in refused.errors[0]
    assert runner(replace=True).errors == []
    assert snapshot_file.decode(runner.store.get(key)).size == 4


EMPTY = bytes.fromhex("000148674bc700000000")


def test_another_producer_expiration_judges_every_file_anew(tmp_path: Path) -> None:
    source = tmp_path / "logs"
    old = data_batch(0, 5, 1, 0, 0, timestamp=TIMESTAMP - 3 * HOUR)
    new = [data_batch(5, 5, 2, 0, 0), data_batch(10, 5, 2, 0, 5)]
    write_partition(source, "orders", 0, {0: [old], 5: new[:1], 10: new[1:]}, high_watermark=15, indexes=True)
    Runner(tmp_path / "oracle", source)(every_boundary=True)
    entries = snapshot_file.decode(next((tmp_path / "oracle/remote").rglob(f"{10:020d}.snapshot")).read_bytes())
    (source / "orders-0" / f"{10:020d}.snapshot").write_bytes(
        snapshot_file.encode(entries[entries["producer_id"] == 2])
    )
    runner = Runner(tmp_path, source)

    def found(ran: Ran) -> str:
        return str(ran.readiness[1]["snapshot"])

    for now, expiration, verdict in ((1, HOUR, "MATCHES"), (2, None, "SUSPECT"), (3, HOUR, "MATCHES")):
        assert found(runner(apply=False, producer_expiration=expiration, now=TIMESTAMP + now)) == verdict


def test_a_clock_that_goes_back_does_not_bring_back_what_was_known_before(runner: Runner) -> None:
    runner(apply=False, now=1_000_000)
    path = runner.source / "orders-0" / f"{30:020d}.log"
    path.write_bytes(path.read_bytes() + data_batch(35, 5, 9, 0, 0))
    runner(apply=False, now=500)
    outcome = runner(apply=False, now=600)
    assert len(outcome.decoded) == 0
    assert outcome.commits == 0
    assert 40 in facts_at(runner)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), PermissionError(13, "Permission denied")])
def test_a_segment_that_could_not_be_read_is_read_again_and_said_once(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    opened = segment_scan.open_windows
    verdict = "UNREADABLE_SEGMENT" if isinstance(error, PermissionError) else "CORRUPT_SEGMENT"

    def refuse(filesystem: FileSystem, path: str, **more: object) -> object:
        if path.endswith(f"{10:020d}.log"):
            raise error
        return opened(filesystem, path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(segment_scan, "open_windows", refuse)
    assert runner(apply=False).verdicts[verdict] == 1
    for _ in range(2):
        again = runner(apply=False)
        assert (again.decoded, again.verdicts[verdict]) == ([("orders", 10)], 1)
        assert again.commits == 0, "nothing has changed"
    monkeypatch.setattr(segment_scan, "open_windows", opened)
    read = runner(apply=False)
    assert (len(read.decoded), read.verdicts.get(verdict)) == (1, None)
    assert runner(apply=False).commits == 0
    assert verdicts(runner) == {"ACTIVE_SEGMENT": 1, "GAP_BEFORE": 2, "MISSING_SNAPSHOT": 1}


def test_a_replica_that_rolled_elsewhere_tiers_only_what_no_copy_holds(runner: Runner, tmp_path: Path) -> None:
    """Copies count by their offsets and epochs, whatever segment they were made of."""
    runner()
    other = tmp_path / "other"
    write(other, bases=(0, 15, 25, 45))
    outcome = runner(sources=(str(other),))
    assert outcome.verdicts == {"UPLOADED": 3, "ACTIVE_SEGMENT": 1}
    offsets = sorted(int(key.split("/")[-1][:20]) for key in runner.objects() if key.endswith(".rsm-manifest"))
    assert offsets == [0, 10, 20, 25]


def test_a_tiered_segment_that_is_active_again_is_active(runner: Runner) -> None:
    """An unclean leader change may truncate a log into what was tiered."""
    runner()
    for base in (20, 30):
        for path in (runner.source / "orders-0").glob(f"{base:020d}.*"):
            path.unlink()
    write_partition(runner.source, "orders", 0, {}, leader_epochs=[(0, 0)], high_watermark=20)
    runner()
    assert verdicts(runner) == {"ACTIVE_SEGMENT": 1, "UPLOADED": 1}


class RefusesOne:
    """A store that refuses the objects of one segment."""

    def __init__(self, store: ObjectStore, base: int) -> None:
        self._store, self._base = store, base

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def put_file_if_absent(self, key: str, *args: object, **kwargs: object) -> object:
        if f"/{self._base:020d}-" in key:
            raise TransientError(f"{key}: the server went away")
        return self._store.put_file_if_absent(key, *args, **kwargs)  # type: ignore[arg-type]


class GoneStore:
    """A server that does not answer any more."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.asked = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def put_if_absent(self, key: str, *args: object, **kwargs: object) -> object:
        self.asked += 1
        raise TransientError(f"{key}: time-out")


def test_a_server_that_went_away_is_not_asked_at_every_boundary_and_the_run_may_be_repeated(runner: Runner) -> None:
    write(runner.source, "payments", OTHER_ID)
    gone = GoneStore(runner.store)
    outcome = runner(store=gone)  # type: ignore[arg-type]
    assert gone.asked == 1
    assert outcome.is_transient
    assert len(outcome.errors) == 2
    assert runner().segments_uploaded == 6


def test_topic_ids_that_come_later_move_the_snapshots_to_their_key(tmp_path: Path) -> None:
    write_partition(tmp_path / "logs", "old", 0, segments(0, 10, 20), topic_id=None, high_watermark=25, indexes=True)
    runner = Runner(tmp_path, tmp_path / "logs")
    runner()
    assert sum("old-no-topic-id/" in key for key in runner.objects()) == 3
    outcome = runner(topic_ids={"old": ID})
    assert (outcome.errors, outcome.segments_uploaded) == ([], 2)
    assert sum(key.startswith(f"snapshots/old-{ID}/") for key in runner.objects()) == 3
    assert runner(topic_ids={"old": ID}).did_nothing


def test_findings_of_a_partition_without_segments_are_heard(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True)
    (folder / "tmp-1.snapshot").touch()
    runner = Runner(tmp_path, tmp_path / "logs")
    outcome = runner()
    assert [row["finding_kind"] for row in outcome.facts if row["kind"] == "FINDING"] == ["BAD_FILE_NAME"]
    assert outcome.readiness == []
    assert runner().did_nothing
    write(tmp_path / "logs", "payments", OTHER_ID)
    assert runner().segments_uploaded == 3


def test_a_compacted_topic_gets_no_snapshots_unless_every_boundary_is_wanted(runner: Runner) -> None:
    (runner.source / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 15\n")
    runner()
    assert runner.objects() == {}
    assert verdicts(runner) == {"ACTIVE_SEGMENT": 1, "COMPACTED_TOPIC": 3}
    assert runner().did_nothing
    runner(every_boundary=True)
    assert sum(key.endswith(".snapshot") for key in runner.objects()) == 4


def test_a_segment_that_retention_deletes_during_the_run_is_no_damage(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_when_read(monkeypatch, 0)
    outcome = runner()
    assert outcome.errors == []
    found = [(row["finding_kind"], row["message"]) for row in outcome.facts if row["kind"] == "FINDING"]
    assert found == [("DELETED_FILE", "deleted since it was listed")]
    again = runner()
    assert (again.errors, again.segments_uploaded) == ([], 2)


def test_no_snapshot_is_written_of_what_may_yet_be_cut_off(tmp_path: Path) -> None:
    """Above the high watermark a new leader may have another log; the object would contradict it for good."""
    source = tmp_path / "logs"
    write_partition(source, "orders", 0, segments(0, 10, 20), high_watermark=12, indexes=True)
    runner = Runner(tmp_path, source)
    runner()
    assert [key[-29:-9] for key in runner.objects() if key.endswith(".snapshot")] == [f"{10:020d}"]
    rewritten = {10: [data_batch(10, 10, 77, 0, 0)], 20: [data_batch(20, 5, 78, 0, 0)]}
    write_partition(source, "orders", 0, rewritten, leader_epochs=[(0, 0)], high_watermark=25, indexes=True)
    outcome = runner()
    assert (outcome.errors, outcome.segments_uploaded) == ([], 1)
    assert runner().did_nothing


def test_a_decode_that_took_checksums_on_trust_is_made_again_when_they_are_to_be_checked(runner: Runner) -> None:
    path = runner.source / "orders-0" / f"{10:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    assert len(runner(apply=False, check_crc=False).decoded) == 4
    outcome = runner(apply=False)
    assert len(outcome.decoded) == 4
    assert verdicts(runner)["CORRUPT_SEGMENT"] == 1
    assert len(runner(apply=False).decoded) == 0


def test_another_remote_storage_gets_all_of_it_at_once(runner: Runner, tmp_path: Path) -> None:
    """What the tables say of objects was said of another place."""
    runner()
    elsewhere = Runner(tmp_path, runner.source, remote=str(tmp_path / "elsewhere"), tables=runner.tables)
    ran = elsewhere()
    assert (ran.errors, ran.segments_uploaded) == ([], 3)
    assert snapshots(elsewhere) == snapshots(runner)
    assert elsewhere().did_nothing
    slash = Runner(tmp_path, runner.source, remote=elsewhere.remote + "/", tables=runner.tables)
    assert slash().did_nothing


def test_another_server_under_the_same_name_gets_all_of_it_as_soon_as_it_is_noticed(runner: Runner) -> None:
    """What is there decides: the tables remember copies, and their place is empty."""
    runner()
    before = snapshots(runner)
    shutil.rmtree(runner.remote)
    noticed = runner()
    assert (noticed.verdicts.get("UPLOADED"), noticed.segments_uploaded) == (None, 0)
    assert "was deleted" in noticed.errors[0]
    assert runner().segments_uploaded == 3
    assert snapshots(runner) == before
    assert runner().did_nothing


def test_looking_at_two_places_before_anything_is_written_is_fine(runner: Runner, tmp_path: Path) -> None:
    runner(apply=False)
    elsewhere = Runner(tmp_path, runner.source, remote=str(tmp_path / "elsewhere"), tables=runner.tables)
    assert elsewhere().segments_uploaded == 3


def test_a_second_run_at_the_same_time_is_told_to_wait(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    told = f"run first on .* \\(pid {os.getpid()}\\) is using this warehouse"
    with only_run(warehouse, "first"), pytest.raises(TransientError, match=told), only_run(warehouse, "second"):
        pass
    with only_run(warehouse, "third"):
        pass


def test_a_copy_behind_a_hole_is_made_when_the_hole_is_closed(runner: Runner) -> None:
    """A reader takes the highest finished segment for the end of what was copied, and skips the hole for good."""
    refusing = RefusesOne(runner.store, 10)
    for _ in range(2):
        ran = runner(store=refusing)  # type: ignore[arg-type]
        assert ran.is_transient
        assert len(ran.errors) == 1
        assert ran.verdicts["UPLOADED"] == 1
    assert runner().segments_uploaded == 2
    logs = sorted(key.split("/")[-1][:20] for key in runner.objects() if key.endswith(".log"))
    assert logs == [f"{base:020d}" for base in (0, 10, 20)]
    assert runner().did_nothing


def test_a_snapshot_object_that_somebody_deleted_is_written_again(runner: Runner) -> None:
    """The tables remember it; the copy finds it gone, and the next run carries the partition from its beginning."""
    epochs = runner.source / "orders-0" / "leader-epoch-checkpoint"
    text = epochs.read_text()
    epochs.write_text(leader_epochs_text([(0, 30)]))  # so that nothing is tiered yet
    assert runner().segments_uploaded == 0
    before = snapshots(runner)
    runner.store.delete([next(key for key in before if f"{20:020d}" in key)])
    epochs.write_text(text)
    lost = runner()
    assert (lost.segments_uploaded, lost.is_transient, len(lost.errors)) == (1, True, 1)
    ran = runner()
    assert (ran.errors, ran.segments_uploaded, ran.decoded) == ([], 2, [])
    assert snapshots(runner) == before
    assert runner().did_nothing


def delete_copy(runner: Runner, base: int) -> None:
    (log,) = (key for key in runner.objects() if f"{base:020d}-" in key and key.endswith(".log"))
    runner.store.delete([log.removesuffix(".log") + suffix for suffix in (".rsm-manifest", ".log", ".indexes")])


def test_a_newest_copy_that_somebody_deleted_is_made_again(runner: Runner) -> None:
    runner()
    delete_copy(runner, 20)
    ran = runner()
    assert (ran.errors, ran.segments_uploaded, ran.verdicts["UPLOADED"]) == ([], 1, 3)
    assert runner().did_nothing


def test_a_lost_first_segment_is_uploaded_again(runner: Runner) -> None:
    runner()
    delete_copy(runner, 0)
    ran = runner()
    assert (ran.errors, ran.segments_uploaded) == ([], 1)
    verdicts = [row["verdict"] for row in ran.readiness]
    assert verdicts == ["UPLOADED", "UPLOADED", "UPLOADED", "ACTIVE_SEGMENT"]
    runner()
    assert runner().did_nothing


def test_only_the_new_segment_is_decoded_and_only_what_it_closed_is_tiered(runner: Runner) -> None:
    runner()
    write_partition(
        runner.source, "orders", 0, {35: [data_batch(35, 5, 9, 0, 0)]}, leader_epochs=[(0, 0)], high_watermark=40,
        indexes=True,
    )  # fmt: skip
    ran = runner()
    assert ran.decoded == [("orders", 35)]
    assert [row["base_offset"] for row in ran.tiered if row["state"] == "COPY_SEGMENT_FINISHED"] == [30]
    assert runner().did_nothing


def test_the_findings_of_the_directory_itself_are_found_with_its_folders(runner: Runner) -> None:
    (runner.source / "replication-offset-checkpoint").write_text("0\n7\n")
    found = discover([str(runner.source)], None)
    assert found.folders == [(str(runner.source), "orders-0")]
    assert [finding.finding_kind for finding in found.findings] == [FindingKind.CORRUPT_CHECKPOINT]
