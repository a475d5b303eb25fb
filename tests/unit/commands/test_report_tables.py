"""The tables of a warehouse read without a JVM: verdicts of the newest replay."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.reference.command import assert_said, tiersnap
from tests.reference.local_facts import local_facts, write_tables
from tests.reference.recovered import DATA
from tiersnap.jobs.cli.delta_tables import readiness
from tiersnap.snapshot.errors import ExitCode, SourceNotFoundError
from tiersnap.snapshot.tables.facts import PARTITIONS
from tiersnap.snapshot.tables.remote_log_segments import (
    REMOTE_LOG_SEGMENTS,
    STATES,
    AttemptState,
    newest_states,
    read_states,
    unneeded,
)
from tiersnap.snapshot.tables.spark_made_tables import AUDIT_FINDINGS, AUDITS

pytestmark = pytest.mark.unit

LOGS = DATA / "kafka-3.9.1" / "logs"
NOW = 1_795_270_000_000


def warehouse_of(tmp_path: Path, runs: int) -> Path:
    for run in range(1, runs + 1):
        write_tables(tmp_path, LOGS, run=run, now=NOW)
    return tmp_path


@pytest.mark.parametrize("runs", [1, 2])
def test_a_report_of_the_tables_counts_each_segment_once_and_says_what_scan_says(tmp_path: Path, runs: int) -> None:
    ran = tiersnap("report", "--warehouse", warehouse_of(tmp_path, runs), "--now", str(NOW), "--by", "segment")
    assert ran.exit_code == 0, ran.err
    scanned = tiersnap("scan", LOGS, "--segments", "--now", str(NOW))
    assert len(scanned.rows) == 37
    told = sorted((f"{row['topic']}-{row['partition']}", row["base_offset"], row["verdict"]) for row in ran.rows)
    assert told == sorted((row["partition"], row["base_offset"], row["verdict"]) for row in scanned.rows)


@pytest.mark.parametrize("harm", ["gone", "cut", "no Parquet"])
def test_a_table_whose_file_is_damaged_is_told_as_damage(harm: str, tmp_path: Path) -> None:
    (file,) = (warehouse_of(tmp_path, 1) / "partitions").glob("*.parquet")
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-20] if harm == "cut" else b"no Parquet")
    ran = tiersnap("report", "--warehouse", tmp_path)
    assert_said(ran, ExitCode.DATA_CORRUPT, f"{tmp_path}/partitions", file.name)


def test_a_folder_without_facts_is_no_warehouse_to_report_of(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="not a warehouse"):
        list(readiness(str(tmp_path)))


def copy_row(
    segment_id: str, start: int, end: int, state: str, *, ours: bool = True, epoch: int = 0
) -> dict[str, object]:
    return {
        "topic": "orders",
        "topic_id": "lZ6vvmajTWKDBUTV6SQAtQ",
        "partition": 0,
        "segment_id": segment_id,
        "base_offset": start,
        "next_base_offset": end + 1,
        "size_bytes": 1,
        "largest_timestamp": 1,
        "leader_epochs": [{"epoch": epoch, "start_offset": start}],
        "state": state,
        "is_ours": ours,
        "written_at": 1,
        "object_bytes": 1,
        "rebuilt_indexes": {},
        "run": 1,
    }


def states(*rows: dict[str, object]) -> list[AttemptState]:
    return list(read_states(pa.RecordBatch.from_pylist(list(rows), schema=REMOTE_LOG_SEGMENTS)))


STARTED, FINISHED, DELETING, DELETED = STATES
COPIES = [
    copy_row("kept", 0, 9, STARTED),
    copy_row("kept", 0, 9, FINISHED),
    copy_row("twice", 0, 9, FINISHED, ours=False),
    copy_row("longer", 10, 29, FINISHED),
    copy_row("inside", 15, 19, FINISHED),
    copy_row("overlapping", 25, 39, FINISHED),
    copy_row("killed", 40, 49, STARTED),
    copy_row("half-deleted", 40, 49, DELETING),
    copy_row("theirs", 50, 59, STARTED, ours=False),
    copy_row("deleted", 0, 9, DELETED),
]


def test_copies_that_never_finished_or_hold_what_others_hold_are_those_that_nobody_needs() -> None:
    found = {each.attempt.segment_id for each in unneeded(newest_states(states(*COPIES)))}
    assert found == {"twice", "inside", "killed", "half-deleted"}


def test_a_copy_of_a_newer_lineage_is_needed_whatever_an_older_one_holds() -> None:
    lost, led = copy_row("lost", 150, 179, FINISHED), copy_row("led", 150, 169, FINISHED, epoch=1)
    assert list(unneeded(states(lost, led))) == []
    longer = copy_row("longer", 150, 189, FINISHED, epoch=1)
    assert {each.attempt.segment_id for each in unneeded(states(lost, led, longer))} == {"lost", "led"}
    same = copy_row("again", 150, 179, FINISHED, epoch=1)
    assert [each.attempt.segment_id for each in unneeded(states(lost, same))] == ["lost"]


def test_the_report_names_copies_that_nobody_needs_with_the_command(tmp_path: Path) -> None:
    warehouse = warehouse_of(tmp_path, 1)
    table = pa.Table.from_pylist(COPIES, schema=REMOTE_LOG_SEGMENTS)
    write_deltalake(warehouse / "remote_log_segments", table)
    ran = tiersnap("report", "--warehouse", warehouse, "--now", str(NOW), "--remote", "s3://bucket/a b")
    assert ran.exit_code == 0, ran.err
    assert "4 remote segments are incomplete or redundant" in ran.err
    assert "tiersnap maintain remove-orphans --remote 's3://bucket/a b' --bootstrap-server HOST:PORT" in ran.err
    named = json.loads(ran.out)["result"]["unneeded_copies"]
    assert "orders-0 at 15: inside" in named
    assert len(named) == 4


def test_a_partition_that_was_found_gone_is_not_reported_until_it_is_replayed_again(tmp_path: Path) -> None:
    warehouse = warehouse_of(tmp_path, 1)
    before = {row["name"] for row in tiersnap("report", "--warehouse", warehouse, "--now", str(NOW)).rows}
    key = {"log_dir": str(LOGS), "topic": "orders", "partition": 0}
    table = DeltaTable(warehouse / "partitions").to_pyarrow_table().to_pylist()
    ended = [{**row, "run": 2, "has_ended": True} for row in table if row.items() >= key.items()]
    gone = [{**key, "kind": "GONE", "part": 0, "run": 2, "has_ended": False}, *ended]
    write_deltalake(warehouse / "partitions", pa.Table.from_pylist(gone, schema=PARTITIONS), mode="append")
    after = {row["name"] for row in tiersnap("report", "--warehouse", warehouse, "--now", str(NOW)).rows}
    assert before - after == {"orders-0"}
    write_deltalake(
        warehouse / "partitions",
        pa.RecordBatchReader.from_batches(PARTITIONS, local_facts(LOGS, run=3, now=NOW)),
        mode="append",
    )
    assert {row["name"] for row in tiersnap("report", "--warehouse", warehouse, "--now", str(NOW)).rows} == before


def test_the_page_of_a_warehouse_answers_all_three_questions(tmp_path: Path) -> None:
    warehouse = warehouse_of(tmp_path / "tables", 2)
    gone = {"kind": "DUPLICATE_EXACT", "rule": "0.3", "judgement": "", "harm": "DUPLICATE", "batches": 1}
    place = {"log_dir": "/d", "topic": "payments", "partition": 0, "producer_id": 7, "first_offset": 10}
    rows = [{**gone, **place, "run": 1, "kind": "GAP"}, {**gone, **place, "run": 2}]
    rows.append({**gone, **place, "run": 1, "kind": "OFFSET_GAP", "harm": "LOSS", "topic": "orders"})
    write_deltalake(warehouse / "audit_findings", pa.Table.from_pylist(rows, schema=AUDIT_FINDINGS))
    looked = {"log_dir": "/d", "topic": "payments", "partition": 0, "run": 2, "audited_at": NOW, "batches": 1}
    write_deltalake(warehouse / "audits", pa.Table.from_pylist([looked], schema=AUDITS))
    ran = tiersnap("report", "--warehouse", warehouse, "--now", str(NOW), "--to", tmp_path / "page")
    assert ran.exit_code == 0, ran.err
    lost = (tmp_path / "page" / "lost.html").read_text()
    assert "2 findings of records lost, doubled" in lost
    assert "<td>OFFSET_GAP</td>" in lost  # the second audit may not have looked at that topic
    assert "DUPLICATE_EXACT" in lost
    assert "<td>GAP</td>" not in lost  # of an audit before
    scanned = tiersnap("scan", LOGS, "--now", str(NOW))
    failover = (tmp_path / "page" / "failover.html").read_text()
    assert f"None of {len(scanned.rows)} partitions would start from a snapshot that contradicts the log" in failover
    found = json.loads((tmp_path / "page" / "readiness.json").read_text())
    # Each of them equals the log: tests/data says so of every snapshot that Kafka left in these logs.
    assert set(found["compared"]) == {"MATCHES"}
    assert sum(found["compared"].values()) > 10


def test_what_a_later_audit_of_the_same_log_did_not_find_again_is_not_shown(tmp_path: Path) -> None:
    warehouse = warehouse_of(tmp_path / "tables", 1)
    finding = {"kind": "GAP", "rule": "3.1", "judgement": "HOLE", "harm": "LOSS", "batches": 1, "run": 1}
    places = [
        {"log_dir": f"/{name}", "topic": name[0], "partition": 0} for name in ("mended", "wrong", "west", "other")
    ]
    write_deltalake(
        warehouse / "audit_findings",
        pa.Table.from_pylist([{**finding, **place} for place in places], schema=AUDIT_FINDINGS),
    )
    looked = [{"run": 2, "audited_at": NOW, "batches": 1, **place} for place in places if place["log_dir"] != "/west"]
    write_deltalake(
        warehouse / "audits", pa.Table.from_pylist([row for row in looked if row["topic"] != "o"], schema=AUDITS)
    )
    again = {**finding, **places[1], "run": 2}
    write_deltalake(warehouse / "audit_findings", pa.Table.from_pylist([again], schema=AUDIT_FINDINGS), mode="append")
    assert tiersnap("report", "--warehouse", warehouse, "--now", str(NOW), "--to", tmp_path / "page").exit_code == 0
    # One was found again; of one only another replica was looked at since, and of one nothing was.
    assert "3 findings of records lost" in (tmp_path / "page" / "lost.html").read_text()
    write_deltalake(
        warehouse / "audits",
        pa.Table.from_pylist([{**row, **place, "run": 3} for row in looked[:1] for place in places], schema=AUDITS),
        mode="append",
    )
    tiersnap("report", "--warehouse", warehouse, "--now", str(NOW), "--to", tmp_path / "page")
    assert "found nothing lost and nothing doubled" in (tmp_path / "page" / "lost.html").read_text()


def test_what_an_audit_found_stays_where_a_later_one_met_damage_before_it(tmp_path: Path) -> None:
    place = {"log_dir": "/logs", "topic": "orders", "partition": 0}
    finding = {**place, "rule": "3.1", "judgement": "HOLE", "harm": "LOSS", "batches": 1}
    seen_first = {**finding, "run": 1, "kind": "GAP", "producer_id": 7, "first_offset": 90}
    seen_always = {**finding, "kind": "OFFSET_GAP", "first_offset": 5}
    tables = tmp_path / "tables"

    def tell(run: int, *found: dict[str, object]) -> None:
        rows = [{**each, "run": run} for each in found]
        write_deltalake(tables / "audit_findings", pa.Table.from_pylist(rows, schema=AUDIT_FINDINGS), mode="append")

    def look(run: int, damage: int, *found: dict[str, object]) -> str:
        tell(run, *found)
        row = {**place, "run": run, "audited_at": NOW, "batches": 1, "damage_count": damage}
        audited = pa.Table.from_pylist([row], schema=AUDITS)
        write_deltalake(tables / "audits", audited, mode="append")
        page = tmp_path / f"page{run}"
        assert tiersnap("report", "--warehouse", tables, "--now", str(NOW), "--to", page).exit_code == 0
        return (page / "lost.html").read_text()

    warehouse_of(tables, 1)
    assert "2 findings of records lost" in look(1, 0, seen_first, seen_always)
    # No audit of the three is whole but the first, and each tells of what lies in front.
    for run in (2, 3):
        page = look(run, 2, seen_always)
        assert "2 findings of records lost" in page
        assert "<td>GAP</td>" in page
    assert "3 findings of records lost" in look(4, 1, {**seen_always, "first_offset": 7})
    tell(5, seen_always)  # killed before it said where it had looked
    assert "3 findings of records lost" in look(6, 1, seen_always)
    mended = look(7, 0, seen_always)
    assert "1 finding of records lost" in mended
    assert "<td>GAP</td>" not in mended


def test_a_warehouse_without_an_audit_says_which_command_makes_one(tmp_path: Path) -> None:
    warehouse = warehouse_of(tmp_path / "tables", 1)
    tiersnap("report", "--warehouse", warehouse, "--now", str(NOW), "--to", tmp_path / "page", "--source", "/data")
    page = (tmp_path / "page" / "lost.html").read_text().replace("</span> <span>", " ")
    assert f"tiersnap audit --source /data --to {warehouse}" in page


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_place_that_is_no_warehouse_is_named_with_what_comes_next(tmp_path: Path, output: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("no table")
    said = {
        "nowhere": "the folder does not exist",
        "full": "not a warehouse: the folder has no table of tiersnap",
        "full/notes.txt": "a file, but a warehouse is a folder",
    }
    for name, words_said in said.items():
        ran = tiersnap("report", "--warehouse", tmp_path / name, output=output)
        assert_said(ran, 2, f"{tmp_path / name}: {words_said}", "tiersnap run --source LOGDIR")
        assert "Traceback" not in ran.err
        if output == "json":
            assert [each["type"] for each in json.loads(ran.out)["errors"]] == ["SourceNotFoundError"]
    assert not (tmp_path / "nowhere").exists(), "looking makes no folder"
