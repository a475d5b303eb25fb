"""readiness.json, readiness.csv, rows for the terminal, and the folder they are written to."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.published_docs import readiness_schema
from tests.reference.readiness_tables import GIB, RUN, TIMESTAMP, fleet_table, row, sample_table, segments_of, table
from tiersnap.jobs.commands.report import (
    SEGMENT_COLUMNS,
    ReportedPartition,
    ReportedTopic,
    partition_row,
    shown_segment,
    topic_row,
)
from tiersnap.snapshot.errors import NoSpaceError, UsageError
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.members import members
from tiersnap.snapshot.report.files import CSV_COLUMNS, csv_cell, csv_chunks, json_chunks
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.run_info import Disk
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.write import write_report
from tiersnap.snapshot.tables.readiness import VERDICTS
from tiersnap.snapshot.tables.segment_verdict import SegmentVerdict
from tiersnap.snapshot.units import escaped

pytestmark = pytest.mark.unit

TOTALS = [
    *(
        f"{group}{unit}"
        for group in ("", "tiered_", "uploaded_", "in_remote_", "ready_", "waiting_", "never_tiered_")
        for unit in ("segments", "bytes")
    ),
    "findings",
    "waiting_since",
    "recent_bytes",
    "verdicts",
]
KNOWN = ["compared", "forecast", "replicas_without_producers", "trend"]
LISTS = ["blocking", "snapshots", "remote_checked"]


@pytest.fixture(scope="module")
def report() -> Report:
    return summarise(sample_table(), RUN)


def json_of(report: Report) -> dict[str, Any]:
    return json.loads("".join(json_chunks(report)))


def to_csv(report: Report) -> str:
    return "".join(csv_chunks(report))


def test_json_has_the_documented_keys_in_their_order(report: Report) -> None:
    data = json_of(report)
    assert list(data) == ["schema_version", "run", "log_dirs", "cluster", "causes", "snapshots", *KNOWN, "topics"]
    assert data["schema_version"] == 1
    assert list(data["cluster"]) == ["worst", "level", *TOTALS, "topics", "partitions"]
    topic = data["topics"][0]
    assert list(topic) == ["topic", "worst", "level", *TOTALS, "partitions"]
    offsets = ["log_start_offset", "last_stable_offset", "high_watermark"]
    partition = topic["partitions"][0]
    assert list(partition) == ["log_dir", "partition", "topic_id", "worst", "level", *TOTALS, *offsets, *LISTS]
    blocking = ["verdict", "base_offset", "segments", "bytes", "reason", "next_step", "commands"]
    assert list(partition["blocking"][0]) == blocking


def test_json_of_no_segments_has_no_topics_and_no_verdict() -> None:
    empty = json_of(summarise([], RUN))
    assert (empty["topics"], empty["cluster"]["worst"]) == ([], None)


def test_json_says_what_to_do_first_with_commands_that_are_complete(report: Report) -> None:
    ledger = next(topic for topic in json_of(report)["topics"] if topic["topic"] == "ledger.v1")
    first = ledger["partitions"][0]["blocking"][0]
    assert (first["verdict"], first["base_offset"], first["segments"]) == ("TOPIC_ID_UNKNOWN", 0, 7)
    assert first["next_step"].endswith("--topic-ids FILE --apply")
    assert first["commands"] == []


def test_csv_has_a_row_a_partition_that_adds_up(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(report))))
    assert list(rows[0]) == list(CSV_COLUMNS)
    assert len(rows) == 11
    assert sum(int(each["waiting_bytes"]) for each in rows) == 35 * GIB
    verdict_bytes = [f"{verdict.lower()}_bytes" for verdict in Verdict]
    assert sum(int(each[name]) for each in rows for name in verdict_bytes) == 101 * GIB
    clicks = next(each for each in rows if each["topic"] == "clicks")
    assert (clicks["blocking_verdict"], clicks["blocking_base_offset"]) == ("MISSING_INDEX", "0")
    assert clicks["waiting_since"] == str(TIMESTAMP)


def test_names_with_commas_quotes_and_line_ends_survive_json_and_are_shown_in_csv() -> None:
    name = 'a,"b"\n<c>\u202e\u00e9'
    report = summarise(table(segments_of(name, 0, "READY ACTIVE_SEGMENT")), RUN)
    (only,) = csv.DictReader(io.StringIO(to_csv(report), newline=""))
    assert only["topic"] == 'a,"b"\\n<c>\\u202e\u00e9'
    assert json_of(report)["topics"][0]["topic"] == name


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\rb", "a\x9bb", "a\u2028b"])
def test_a_name_in_the_csv_moves_no_cursor(name: str) -> None:
    rows = segments_of(name, 0, "READY ACTIVE_SEGMENT")
    text = to_csv(summarise(table([{**row, "log_dir": f"/{name}"} for row in rows]), RUN))
    (only,) = csv.DictReader(io.StringIO(text))
    assert (only["topic"], only["log_dir"]) == (escaped(name), f"/{escaped(name)}")
    assert all(each.isprintable() for each in text.splitlines())


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1-a", "@SUM(A1)", " =1", "\t=1"])
def test_no_text_of_the_csv_is_a_formula_and_numbers_stay_numbers(name: str) -> None:
    report = summarise(table(segments_of(name, 0, "READY ACTIVE_SEGMENT")), RUN)
    (only,) = csv.DictReader(io.StringIO(to_csv(report)))
    shown = escaped(name)
    assert only["topic"] == (shown if shown.startswith("\\") else f"'{shown}")
    assert csv_cell(-1) == -1
    assert [csv_cell(each) for each in ("a-1", "a=1", "", None)] == ["a-1", "a=1", "", None]


NOTHING: dict[str, Any] = dict.fromkeys(VERDICTS.names)


def shown(rows: list[dict[str, Any]]) -> list[SegmentVerdict]:
    return [shown_segment(each, RUN) for each in VERDICTS.read_dicts(rows)]


@pytest.mark.parametrize(("kind", "count"), [(ReportedTopic, 7), (ReportedPartition, 11), (SegmentVerdict, 101)])
def test_rows_have_every_column_of_the_table_form(kind: type, count: int, report: Report) -> None:
    partitions = [each for topic in report.topics for each in topic.partitions]
    segments = shown([NOTHING | each for each in sample_table().to_pylist()])
    topics = [*map(topic_row, report.topics)]
    rows = [each for each in (*topics, *map(partition_row, partitions), *segments) if isinstance(each, kind)]
    assert len(rows) == count
    columns = SEGMENT_COLUMNS if kind is SegmentVerdict else kind.COLUMNS
    for each in rows:
        found = members(each)
        assert all(name in found or hasattr(each, name) for name in columns)


def test_partition_rows_say_where_and_why_in_plain_numbers_and_for_people(report: Report) -> None:
    found = [partition_row(each) for topic in report.topics for each in topic.partitions]
    rows = {each.name: each for each in found}
    blocked = rows["payments-0"]
    assert (blocked.blocked_at, blocked.blocked_by) == (2_000_000, "MISSING_SNAPSHOT")
    assert (blocked.waiting, blocked.waiting_bytes) == ("10.0 GiB", 10 * GIB)
    assert "tiersnap repair /var/lib/kafka/data --apply" in blocked.next_step
    assert rows["metrics-0"].blocked_at is None


def test_segment_row_names_its_file_in_the_command() -> None:
    (found,) = shown([NOTHING | row("t", 0, 10, 20, "CORRUPT_SEGMENT")])
    assert found.judgement.next_step.startswith("tiersnap dump /var/lib/kafka/data/t-0/00000000000000000010.log")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_holds_the_pages_their_data_and_the_run_and_a_second_write_changes_no_byte(
    report: Report, tmp_path: Path
) -> None:
    folder = tmp_path / "deep" / "report"
    paths = write_report(report, folder)
    assert paths[-1] == folder / "index.html"
    before = files_of(folder)
    data, pages = {"readiness.json", "readiness.csv", "runs.json"}, {"index.html", "lost.html", "failover.html"}
    kept = {f"runs/{RUN.run_id}.html", f"runs/{RUN.run_id}.json.gz"}
    assert set(before) == {*data, *pages, "runs.html", *kept} == {str(path.relative_to(folder)) for path in paths}
    write_report(summarise(sample_table(), RUN), str(folder))
    assert files_of(folder) == before


def test_readiness_json_follows_its_schema_which_is_that_in_the_documentation(report: Report) -> None:
    published = (Path(__file__).parents[2] / "docs" / "readiness.schema.json").read_text()
    assert json.loads(published) == readiness_schema(), "make schemas"
    disk = Disk("/", 100 * GIB, 7 * GIB, ("/var/lib/kafka/data",))
    run = replace(RUN, disks=(disk,), sources=("/a", "/b"), collected={"s3://x": "/c"}, options={"run": ("--all",)})
    validator = Draft202012Validator(json.loads(published))
    validator.check_schema(json.loads(published))
    for each in (report, summarise([], RUN), summarise(sample_table(), run), summarise(sample_table(), RUN, details=0)):
        found = json_of(each)
        assert [error.message for error in validator.iter_errors(found)] == []
        assert list(validator.iter_errors({**found, "unheard_of": 1}))


def test_details_that_a_smaller_fleet_has_no_use_for_go_and_nothing_else_does(tmp_path: Path) -> None:
    write_report(summarise(fleet_table(1, 270, 2), RUN), tmp_path)
    assert {path.name for path in (tmp_path / "details").iterdir()} == {"partitions-0.js", "partitions-1.js"}
    (tmp_path / "details" / "mine.js").write_text("")
    write_report(summarise(fleet_table(1, 210, 2), RUN), tmp_path)
    assert {path.name for path in (tmp_path / "details").iterdir()} == {"partitions-0.js", "mine.js"}


def test_write_report_on_a_full_disk_is_transient(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoSpaceError, match="No space left on device"):
        write_report(report, tmp_path)


def test_a_new_report_replaces_the_old_one_and_leaves_other_files_alone(report: Report, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    write_report(report, tmp_path)
    write_report(replace(report, run=replace(RUN, run_id="second")), tmp_path)
    assert json.loads((tmp_path / "readiness.json").read_text())["run"]["run_id"] == "second"
    assert "second" in (tmp_path / "index.html").read_text()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_file_that_cannot_be_replaced_leaves_no_half_of_it(report: Report, tmp_path: Path) -> None:
    (tmp_path / "readiness.json").mkdir()
    with pytest.raises(UsageError, match="cannot write the report"):
        write_report(report, tmp_path)
    assert list(files_of(tmp_path)) == []


def test_a_file_in_the_folders_place_is_a_usage_error(report: Report, tmp_path: Path) -> None:
    (tmp_path / "report").write_text("")
    with pytest.raises(UsageError) as caught:
        write_report(report, tmp_path / "report")
    assert caught.value.hint
