"""TIERED, UPLOADED and IN_REMOTE: what remote storage holds, against what records of `__remote_log_metadata` say."""

from __future__ import annotations

import io
import json
import re
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.protocol.situations import Place, found
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.metadata_replica import finished_in, published, records_of, write_replica
from tests.reference.small_log import write_small_log
from tests.unit.test_readiness_gate import DAY, NOW, PARTITION, SEGMENTS
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.snapshot.gate.judge import judge
from tiersnap.snapshot.gate.printed_steps import NEXT_STEP
from tiersnap.snapshot.gate.verdict import LEVEL, Level, Verdict
from tiersnap.snapshot.log.coverage import CopyFacts, coverage_of
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.remote_listing import ListedCopy
from tiersnap.snapshot.replay.remote_records import PartitionRecords
from tiersnap.snapshot.tables.remote_log_segments import COPY_FINISHED

pytestmark = pytest.mark.unit

EPOCH, OTHER = ((0, 0),), ((7, 0),)  # of the log; of another one
READ = "the records of __remote_log_metadata were read, and no COPY"
UNREAD, FAILED = "not all records of __remote_log_metadata were read", "a failed copy attempt"


def copy(start: int = 0, end: int = 10, epochs=EPOCH, *, ours: bool = False, published=None, complete: bool = True):
    return CopyFacts(start, end, epochs, complete, ours, published)


BROKERS, OURS = copy(), copy(ours=True)
# Situation: the copies that remote storage and records show of a segment [0, 10), and what is said of it.
TABLE = {
    "records not read, a broker's": ([BROKERS], "IN_REMOTE", UNREAD),
    "records not read, ours": ([OURS], "UPLOADED", UNREAD),
    "records name ours": ([copy(ours=True, published=True)], "TIERED", ""),
    "records name a broker's": ([copy(published=True)], "TIERED", ""),
    "records read, ours not among them": ([copy(ours=True, published=False)], "UPLOADED", READ),
    "records read, a broker's failed": ([copy(published=False)], "IN_REMOTE", FAILED),
    "a local replica names it": ([copy(ours=True, published=True)], "TIERED", ""),
    "a local replica lacks it": ([copy(ours=True, published=None)], "UPLOADED", UNREAD),
    "other segment ids cover it": ([copy(0, 6, published=True), copy(6, 14, published=True)], "TIERED", ""),
    "one of two is published": ([copy(0, 6, published=True), copy(6, 14, published=False)], "IN_REMOTE", FAILED),
    "one is published, one ours": ([copy(0, 6, published=True), copy(6, 14, ours=True)], "UPLOADED", UNREAD),
    "a failed attempt, then ours": ([copy(published=False), copy(ours=True, published=False)], "UPLOADED", READ),
    "a failed attempt, then the broker's": ([copy(published=False), copy(published=True)], "TIERED", ""),
    "of another lineage": ([copy(epochs=OTHER, published=True)], "READY", ""),
    "of another lineage, and ours": ([copy(epochs=OTHER, published=True), OURS], "UPLOADED", UNREAD),
    "objects gone": ([copy(published=True, complete=False)], "GAP_IN_REMOTE", "some of its objects are missing"),
    "objects gone, another copy": ([copy(published=True, complete=False), OURS], "UPLOADED", UNREAD),
    "objects gone, no record": ([copy(published=False, complete=False)], "READY", ""),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_records_of_a_segment_decide_its_verdict(name: str) -> None:
    copies, verdict, why = TABLE[name]
    coverage = coverage_of(copies, EPOCH, 10)
    (judged,) = judge(PARTITION, SEGMENTS[:1], BrokerExpiry(NOW, DAY), coverage=coverage)
    assert judged.verdict == verdict
    assert why in judged.reason
    assert ("tiered" in judged.reason) is False


def test_uploaded_and_in_remote_are_settled_by_a_command() -> None:
    assert LEVEL[Verdict.UPLOADED] is LEVEL[Verdict.IN_REMOTE] is Level.IN_REMOTE
    assert NEXT_STEP[Verdict.UPLOADED].startswith("tiersnap publish ")
    assert "--bootstrap-server" in NEXT_STEP[Verdict.IN_REMOTE]
    assert LEVEL[Verdict.TIERED] is Level.SETTLED


@pytest.fixture
def uploaded(tmp_path: Path) -> Path:
    """A log directory whose three closed segments tiersnap has uploaded."""
    folder = write_small_log(tmp_path / "logs")
    ran = tiersnap("tier", tmp_path / "logs", *remote_of(tmp_path), "--apply")
    assert_said(ran, 0)
    assert ran.err.splitlines()[-1].startswith("3 segments UPLOADED: tiersnap publish "), ran.err
    return folder.parent


def remote_of(at: Path) -> tuple[str, ...]:
    return ("--remote", str(at / "remote"))


def verdicts(ran: Ran) -> dict[str, int]:
    found: dict[str, int] = ran.row(partition="orders-0")["verdicts"]
    return found


def said(log_dir: Path, *words: str) -> tuple[dict[str, int], ...]:
    """Closed segments by verdict, as `scan`, `tier` and `doctor` say; each ends with 0."""
    found = []
    for name in ("scan", "tier") if words else ("scan",):
        ran = tiersnap(name, log_dir, *words)
        assert_said(ran, 0)
        found.append({verdict: count for verdict, count in verdicts(ran).items() if verdict != "ACTIVE_SEGMENT"})
    ran = tiersnap("doctor", log_dir, *words)
    assert_said(ran, 0)
    (disk,) = json.loads(ran.out)["result"]["log_dirs"]
    return (*found, disk["in_remote"])


def test_a_local_replica_proves_tiered_and_never_the_absence_of_a_record(uploaded: Path, tmp_path: Path) -> None:
    remote = remote_of(tmp_path)
    assert said(uploaded, *remote) == ({"UPLOADED": 3},) * 3
    segments = finished_in(tmp_path / "remote")
    write_replica(uploaded, published(segments[:2]))
    assert said(uploaded, *remote) == ({"TIERED": 2, "UPLOADED": 1},) * 3
    reason = tiersnap("scan", uploaded, *remote, "--segments").row(base_offset=10)["reason"]
    assert "not all records of __remote_log_metadata were read, so it is unknown whether" in reason


def test_records_at_or_above_the_high_watermark_prove_nothing(uploaded: Path, tmp_path: Path) -> None:
    """The leader of the metadata partition may have other records there."""
    write_replica(uploaded, published(finished_in(tmp_path / "remote")), high_watermark=3)
    assert said(uploaded, *remote_of(tmp_path)) == ({"TIERED": 1, "UPLOADED": 2},) * 3


def test_a_damaged_replica_proves_nothing(uploaded: Path, tmp_path: Path) -> None:
    folder = write_replica(uploaded, published(finished_in(tmp_path / "remote")))
    data = bytearray((folder / f"{0:020d}.log").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / f"{0:020d}.log").write_bytes(data)
    ran = tiersnap("scan", uploaded, *remote_of(tmp_path), "--topic", "orders")
    assert verdicts(ran) == {"UPLOADED": 3, "ACTIVE_SEGMENT": 1}


def test_the_replica_that_reaches_the_furthest_counts(uploaded: Path, tmp_path: Path) -> None:
    records = published(finished_in(tmp_path / "remote"))
    write_replica(uploaded, records[:2])
    other = tmp_path / "other"
    write_replica(other, records)
    ran = tiersnap("scan", uploaded, other, *remote_of(tmp_path), "--topic", "orders")
    assert verdicts(ran) == {"TIERED": 3, "ACTIVE_SEGMENT": 1}, ran.err


def test_segments_that_brokers_began_to_delete_are_not_tiered(uploaded: Path, tmp_path: Path) -> None:
    first, *others = finished_in(tmp_path / "remote")
    states = (SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED)
    write_replica(uploaded, [*records_of(first, *states), *published(others)])
    assert said(uploaded, *remote_of(tmp_path)) == ({"TIERED": 2, "UPLOADED": 1},) * 3


def test_records_alone_say_tiered_if_remote_storage_was_not_asked(uploaded: Path, tmp_path: Path) -> None:
    write_replica(uploaded, published(finished_in(tmp_path / "remote")))
    assert said(uploaded) == ({"TIERED": 3},) * 2


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_published_segment_without_objects_is_a_gap_and_not_uploaded_again(
    is_complete: bool, uploaded: Path, tmp_path: Path
) -> None:
    """`mend` brings it back under the segment id that brokers know; a replica may not know that they deleted it."""
    named = tuple(
        ListedCopy(
            each.id.segment_id,
            each.start_offset,
            each.end_offset + 1,
            COPY_FINISHED,
            leader_epochs=each.segment_leader_epochs,
        )
        for each in finished_in(tmp_path / "remote")
    )
    for path in (tmp_path / "remote").rglob(f"{10:020d}-*.log"):
        path.unlink()
    runner = Runner(tmp_path, uploaded)
    ran = runner(now=NOW, records=(PartitionRecords("lZ6vvmajTWKDBUTV6SQAtQ", named, is_complete),))
    assert ran.verdicts == {"TIERED": 2, "GAP_IN_REMOTE" if is_complete else "UPLOADED": 1, "ACTIVE_SEGMENT": 1}
    assert ran.segments_uploaded == (not is_complete)


def test_a_run_remembers_that_records_name_a_segment_and_not_that_none_does(tmp_path: Path) -> None:
    """By the tables of a warehouse; a run with nothing new commits nothing."""
    write_small_log(tmp_path / "logs")
    runner = Runner(tmp_path, tmp_path / "logs")
    runner(now=NOW)
    assert runner(now=NOW).verdicts == {"UPLOADED": 3, "ACTIVE_SEGMENT": 1}
    folder = write_replica(tmp_path / "logs", published(finished_in(tmp_path / "remote")[:2]))
    topic = re.compile("orders")
    for commits in (2, 0):
        ran = runner(now=NOW, topic=topic)
        assert (ran.verdicts, ran.commits) == ({"TIERED": 2, "UPLOADED": 1, "ACTIVE_SEGMENT": 1}, commits)
    shutil.rmtree(folder)
    assert runner(now=NOW).verdicts == {"TIERED": 2, "UPLOADED": 1, "ACTIVE_SEGMENT": 1}
    absent = PartitionRecords("lZ6vvmajTWKDBUTV6SQAtQ", is_complete=True)
    ran = runner(now=NOW, records=(absent,))
    assert ran.verdicts == {"UPLOADED": 3, "ACTIVE_SEGMENT": 1}
    assert {row["reason"].partition("; ")[2][:16] for row in ran.readiness if row["verdict"] == "UPLOADED"} == {
        "the records of _"
    }
    ran = runner(now=NOW)
    assert {row["reason"].partition("; ")[2][:16] for row in ran.readiness if row["verdict"] == "UPLOADED"} == {
        "not all records "
    }
    unread = PartitionRecords("lZ6vvmajTWKDBUTV6SQAtQ", error="b:9092 does not answer")
    assert "b:9092 does not answer" in runner(now=NOW, records=(unread,)).errors[0]


def rows_of(place: Place, *words: str) -> list[dict[str, str]]:
    """Rows of `scan --segments` beside a cluster; it ends with 0."""
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)) as out:
        words = (*words, "--bootstrap-server", "b:9092", "--segments", "--output", "json")
        assert place.type("scan", place.disk, *words) == 0
        rows: list[dict[str, str]] = json.loads(out.buffer.getvalue())["result"]["rows"]
        return [row for row in rows if row["partition"] == "orders-0"]


def test_the_records_of_a_cluster_prove_that_a_segment_is_not_published(tmp_path: Path) -> None:
    """A broker tiered the first segment, tiersnap uploaded the others."""
    with found("not published", tmp_path) as place:
        rows = rows_of(place, "--remote", place.remote)
        assert [row["verdict"] for row in rows] == ["TIERED", "UPLOADED", "UPLOADED", "ACTIVE_SEGMENT"]
        assert rows[1]["reason"] == (
            "tiersnap uploaded the segment; the records of __remote_log_metadata were read, and no "
            "COPY_SEGMENT_FINISHED record names the segment"
        )


@pytest.mark.parametrize("asks_remote", [True, False])
def test_the_records_of_a_cluster_make_a_segment_tiered(asks_remote: bool, tmp_path: Path) -> None:
    with found("published", tmp_path) as place:
        rows = rows_of(place, *(("--remote", place.remote) if asks_remote else ()))
        assert [row["verdict"] for row in rows] == ["TIERED", "TIERED", "TIERED", "ACTIVE_SEGMENT"]
