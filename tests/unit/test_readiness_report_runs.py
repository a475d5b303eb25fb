"""Runs compared, forecasts, confidence, and the pages of the other two questions."""

from __future__ import annotations

import copy
import gzip
import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.readiness_tables import GIB, LOG_DIR, RUN, row, sample_table, segments_of, table
from tests.reference.small_log import write_small_log
from tiersnap.jobs.cli.option_types import parse_time
from tiersnap.snapshot.report.changes import PartitionKey, compare_states, states_of, states_of_json
from tiersnap.snapshot.report.exactly_once import Audit, AuditCount, AuditRow, ExactlyOnce, Failover, NewestSnapshot
from tiersnap.snapshot.report.files import json_chunks
from tiersnap.snapshot.report.html_page import failover_html, lost_html, to_html
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.partitions import DAY_MS
from tiersnap.snapshot.report.run_history import Beside
from tiersnap.snapshot.report.run_info import Disk, RunInfo
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.verified_in_words import snapshot_counts
from tiersnap.snapshot.report.write import write_report

pytestmark = pytest.mark.unit

LATER = replace(RUN, run_id="later", started_at=RUN.started_at + DAY_MS, finished_at=RUN.finished_at + DAY_MS)


def report_of(run: RunInfo = RUN, **verdicts: str) -> Report:
    """`report_of(a="READY ACTIVE_SEGMENT")`: topics of one partition each."""
    return summarise(table([each for topic, words in verdicts.items() for each in segments_of(topic, 0, words)]), run)


BEFORE = {"a": "MISSING_SNAPSHOT GAP_BEFORE ACTIVE_SEGMENT", "b": "READY ACTIVE_SEGMENT", "c": "READY ACTIVE_SEGMENT"}
AFTER = {"a": "TIERED TIERED ACTIVE_SEGMENT", "b": "CORRUPT_SNAPSHOT ACTIVE_SEGMENT",
         "d": "ACTIVE_SEGMENT"}  # fmt: skip


def test_changes_name_what_became_worse_first_and_count_what_came_and_went() -> None:
    changes = compare_states(states_of(report_of(**BEFORE)), states_of(report_of(**AFTER)))
    assert [(each.key.topic, each.is_worse, each.waiting_bytes) for each in changes.partitions] == [
        ("b", True, GIB),
        ("a", False, -2 * GIB),
        ("c", False, 0),
        ("d", False, 0),
    ]
    assert (changes.appeared, changes.gone, changes.unchanged) == (1, 1, 0)
    assert ("MISSING_SNAPSHOT", "TIERED", 1) in changes.moves


def test_a_run_compared_with_itself_has_no_changes() -> None:
    states = states_of(summarise(sample_table(), RUN))
    changes = compare_states(states, states)
    assert (changes.partitions, changes.moves, changes.unchanged) == ((), (), len(states))


def test_states_of_a_report_and_of_its_json_are_one() -> None:
    report = summarise(sample_table(), RUN)
    assert states_of_json("".join(json_chunks(report)).encode()) == states_of(report)
    with pytest.raises(ValueError, match="schema_version"):
        states_of_json(b'{"schema_version": 99, "topics": []}')


def test_a_folder_remembers_its_runs_and_the_page_says_what_changed(tmp_path: Path) -> None:
    write_report(report_of(**BEFORE), tmp_path)
    assert "Since the run before" not in (tmp_path / "index.html").read_text()
    write_report(report_of(LATER, **AFTER), tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "Since the run before" in page
    heads = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert [(head["run_id"], head["waiting_bytes"]) for head in heads] == [(RUN.run_id, 2 * GIB), ("later", GIB)]
    kept = json.loads(gzip.decompress((tmp_path / "runs" / f"{RUN.run_id}.json.gz").read_bytes()))
    assert {topic["topic"] for topic in kept["topics"]} == {"a", "b", "c"}
    again = (tmp_path / "index.html").read_bytes()
    write_report(report_of(LATER, **AFTER), tmp_path)
    assert (tmp_path / "index.html").read_bytes() == again


def test_an_index_of_runs_that_cannot_be_read_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text('{"schema_version": 99, "runs": []}')
    write_report(report_of(**BEFORE), tmp_path)
    assert len(json.loads((tmp_path / "runs.json").read_text())["runs"]) == 1


def test_a_fifo_in_place_of_the_index_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "runs.json")
    write_report(report_of(**BEFORE), tmp_path)
    assert len(json.loads((tmp_path / "runs.json").read_text())["runs"]) == 1


def test_a_run_whose_details_are_gone_is_compared_by_its_sums(tmp_path: Path) -> None:
    write_report(report_of(**BEFORE), tmp_path)
    (tmp_path / "runs" / f"{RUN.run_id}.json.gz").write_bytes(b"no gzip")
    write_report(report_of(LATER, **AFTER), tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "only sums are compared" in page
    assert "\u22121.0 GiB" in page


def test_a_file_that_is_like_a_report_and_is_none_is_refused_with_the_reason(tmp_path: Path) -> None:
    write_report(report_of(LATER, **AFTER), tmp_path)
    found = json.loads((tmp_path / "readiness.json").read_text())
    for name, wrong in (("waiting_bytes", "1"), ("waiting_bytes", 10**400), ("partition", -1), ("ready_segments", 1.5)):
        spoilt = copy.deepcopy(found)
        spoilt["topics"][0]["partitions"][0][name] = wrong
        with pytest.raises(ValueError, match="Expected `int"):
            states_of_json(json.dumps(spoilt).encode())
    with pytest.raises(ValueError, match="Expected `object`"):
        states_of_json(b"[" * 100_000)


def test_days_that_are_left_follow_from_what_was_written_in_the_last_week() -> None:
    now = RUN.started_at
    rows = [
        row("t", 0, 0, 10, "TIERED", size_bytes=7 * GIB, largest_timestamp=now - 8 * DAY_MS),
        row("t", 0, 10, 20, "READY", size_bytes=3 * GIB, largest_timestamp=now - 2 * DAY_MS),
        row("t", 0, 20, 30, "MISSING_SNAPSHOT", size_bytes=4 * GIB, largest_timestamp=now),
        row("t", 0, 30, None, "ACTIVE_SEGMENT", size_bytes=9 * GIB, largest_timestamp=now + 1),
    ]
    disk = Disk("/var", 100 * GIB, 20 * GIB, (LOG_DIR,))
    found = summarise(table(rows), replace(RUN, disks=(disk,))).forecast
    assert (found.bytes_per_day, found.tiered, found.ready, found.waiting) == (GIB, 7 * GIB, 3 * GIB, 4 * GIB)
    (each,) = found.disks
    assert (each.freeable, each.days, each.days_when_freed) == (10 * GIB, 20.0, 30.0)
    page = to_html(summarise(table(rows), replace(RUN, disks=(disk,))))
    assert "<b>20 days</b>" in page
    assert "<b>30 days</b>" in page
    quiet = summarise(table(rows), replace(RUN, started_at=now - 30 * DAY_MS, disks=(disk,))).forecast
    assert (quiet.bytes_per_day, quiet.disks[0].days) == (0, None)


def test_page_counts_the_snapshot_at_each_closed_segments_end_once() -> None:
    kinds = [
        ("MATCHES", "BROKER", "MATCHES", "identical to the log"),
        ("MATCHES", "BROKER", "MATCHES", "identical to the log"),
        ("MATCHES", "BROKER", "SUSPECT", "differ only in entries that a broker drops or resets when it loads the file"),
        ("EXTENDS", "BROKER", "EXTENDS", "agree with the log, and also have producers from before the log start"),
        ("SUSPECT", None, "SUSPECT", "contradict the log"),
        ("CORRUPT", None, "CORRUPT", "cannot be read"),
        ("MISSING", None, None, "missing"),
        ("MATCHES", "COMPUTED", None, "computed by tiersnap"),
        ("MATCHES", "COMPUTED_FROM_LOG_START", "CORRUPT", "computed by tiersnap"),
        ("UNVERIFIED", "BROKER_UNVERIFIED", None, "not compared with the log"),
        ("MATCHES", "BROKER", None, "not compared with the log"),
    ]
    rows = [
        row("t", 0, base, base + 1, "READY", snapshot=snapshot, snapshot_provenance=provenance, compared=compared)
        for base, (snapshot, provenance, compared, _) in enumerate(kinds)
    ]
    rows.append(row("t", 0, 100, None, "ACTIVE_SEGMENT", snapshot="MATCHES", snapshot_provenance="BROKER"))
    report = summarise(table(rows), RUN)
    assert snapshot_counts(report) == Counter(words for *_, words in kinds)
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", to_html(report)))
    assert "at the ends of 11 closed segments: 2 " in page
    assert " 2 identical to the log, " in page
    assert page.count("identical to the log") == 1


def test_every_snapshot_says_where_it_is_from_neighbours_together() -> None:
    words = "TIERED TIERED READY MISSING_SNAPSHOT ACTIVE_SEGMENT"
    (partition,) = summarise(table(segments_of("t", 0, words, step=10)), RUN).topics[0].partitions
    assert [(each.base_offset, each.end_offset, each.segments, each.snapshot, each.provenance)
            for each in partition.snapshots] == [
        (0, 20, 2, "MATCHES", "BROKER"),
        (20, 30, 1, "MATCHES", "COMPUTED"),
        (30, None, 2, "MISSING", None),
    ]  # fmt: skip


def test_commands_name_every_source_and_the_hosts_directory_where_only_decodes_were_collected() -> None:
    run = replace(RUN, source="s3://lake/1, /data b", sources=("s3://lake/1", "/data b"),
                  collected={"s3://lake/1": "/var/lib/kafka"})  # fmt: skip
    rows = segments_of("t", 0, "MISSING_SNAPSHOT ACTIVE_SEGMENT", log_dir="s3://lake/1")
    (partition,) = summarise(table(rows), run).topics[0].partitions
    by_run, on_host = (step.command for step in partition.blocking[0].steps)
    assert by_run.startswith("tiersnap run --source s3://lake/1 --source '/data b' --remote")
    assert on_host == "tiersnap repair /var/lib/kafka --apply"


def test_the_other_questions_are_answered_with_a_command_where_nobody_looked() -> None:
    report = summarise(sample_table(), RUN)
    assert "These logs have not been audited" in lost_html(report, ExactlyOnce())
    assert "tiersnap audit --source" in lost_html(report, ExactlyOnce()).replace("</span> <span>", " ")
    given = replace(RUN, options={"simulate": ("--topic", "a b"), "transactions find-hanging": ("--topic", "o.*")})
    page = failover_html(summarise(sample_table(), given), ExactlyOnce()).replace("</span> <span>", " ")
    assert f"tiersnap simulate {LOG_DIR} --topic &#39;a b&#39; --from empty" in page
    commands = [step.command for cause in summarise(sample_table(), given).causes for step in cause.steps]
    assert f"tiersnap transactions find-hanging {LOG_DIR} --topic 'o.*' --all" in commands


def test_the_page_of_what_was_lost_shows_the_worst_first() -> None:
    finding = {"topic": "<t>", "partition": 3, "producer_id": 7, "first_offset": 10, "last_offset": 19}
    rows = [{**finding, "harm": harm, "kind": kind, "judgement": ""} for harm, kind in
            (("NONE", "FENCED"), ("DUPLICATE", "DUPLICATE_EXACT"), ("LOSS", "GAP"))]  # fmt: skip
    counts = [AuditCount(each["harm"], each["kind"], "", findings=1, batches=2) for each in rows]
    audit = Audit.of(counts, [AuditRow(**each) for each in rows])
    assert [each.harm for each in audit.rows] == [each.harm for each in audit.counts] == ["LOSS", "DUPLICATE", "NONE"]
    page = lost_html(summarise(sample_table(), RUN), ExactlyOnce(audit))
    assert "2 findings of records lost, doubled" in page
    assert "&lt;t&gt;" in page
    assert "<t>" not in page


def test_the_page_of_a_failover_counts_partitions_whose_newest_file_contradicts_the_log() -> None:
    fine = [NewestSnapshot("/d", "t", number, 100, "MATCHES") for number in range(300)]
    wrong = NewestSnapshot("/d", "u", 0, 50, "SUSPECT", lacking=4, says="lacks 4 producers")
    failover = Failover.of([*fine, wrong, NewestSnapshot("/d", "v", 0, None, "NONE")])
    assert failover.counts == {"SUSPECT": 1, "NONE": 1, "MATCHES": 300}
    assert (failover.rows[0], len(failover.rows)) == (wrong, 200)
    page = failover_html(summarise(sample_table(), RUN), ExactlyOnce(failover=failover))
    assert "1 of 302 partitions would start from a snapshot that contradicts the log" in page
    assert '<header class="BLOCKED">' in page


def test_failover_and_lost_pages_filter_by_the_kinds_that_occur_worst_first() -> None:
    kinds = ("MATCHES", "NONE", "UNVERIFIED", "CORRUPT", "SUSPECT")
    rows = [NewestSnapshot("/d", "t", number, 1, each) for number, each in enumerate(kinds)]
    report = summarise(sample_table(), RUN)
    page = failover_html(report, ExactlyOnce(failover=Failover.of(rows)))
    worst_first = ["SUSPECT", "CORRUPT", "UNVERIFIED", "NONE", "MATCHES"]
    assert re.findall(r'name="snapshots-kind" value="(\w*)"', page) == ["", *worst_first]
    assert re.findall(r'<tr data-kind="(\w+)" data-name="t-\d"', page) == worst_first
    counts = [AuditCount(harm, "GAP", "", findings=1, batches=1) for harm in ("NONE", "LOSS")]
    audit = Audit.of(counts, [AuditRow(each.harm, "GAP", "", "t", 0) for each in counts])
    page = lost_html(report, ExactlyOnce(audit))
    assert re.findall(r'name="findings-kind" value="(\w*)"', page) == ["", "LOSS", "NONE"]
    assert "readers get records twice" not in page, "DUPLICATE does not occur"


def test_page_without_an_answer_is_grey_and_names_a_command_that_can_be_typed(tmp_path: Path) -> None:
    report = summarise(sample_table(), RUN)
    failover, lost = failover_html(report, ExactlyOnce(), "/var/www/page"), lost_html(report, ExactlyOnce())
    assert '<header class="UNKNOWN">' in failover
    assert '<header class="UNKNOWN">' in lost
    typed = re.sub(r"<[^>]+>", "", failover)
    assert "tiersnap report --warehouse s3://lake/tiersnap --to /var/www/page" in typed
    write_report(summarise(sample_table(), replace(RUN, warehouse="")), tmp_path)
    typed = re.sub(r"<[^>]+>", "", (tmp_path / "failover.html").read_text())
    assert f"tiersnap scan {LOG_DIR} --report {tmp_path}" in typed
    unverified = Failover.of([NewestSnapshot("/d", "t", 0, 1, "UNVERIFIED")])
    assert '<header class="UNKNOWN">' in failover_html(report, ExactlyOnce(failover=unverified))


def test_failover_headline_has_the_colour_of_the_worst_snapshot_below_it() -> None:
    def page(*found: str) -> str:
        rows = [NewestSnapshot("/d", "t", number, 1, each) for number, each in enumerate(found)]
        known = ExactlyOnce(failover=Failover.of(rows))
        return failover_html(summarise(sample_table(), RUN), known)

    corrupt = page("MATCHES", "CORRUPT", "CORRUPT")
    assert "2 of 3 partitions would start without their newest snapshot, which cannot be read" in corrupt
    assert '<header class="BLOCKED">' in corrupt
    assert '<header class="READY">' in page("MATCHES", "EXTENDS")
    assert '<header class="SETTLED">' in page("MATCHES", "NONE")


def test_scan_writes_the_same_page(tmp_path: Path) -> None:
    write_small_log(tmp_path / "logs", with_snapshots=False)
    ran = tiersnap("scan", tmp_path / "logs", "--topic", "ord.*", "--report", tmp_path / "page")
    assert "wrote" in ran.err
    found = json.loads((tmp_path / "page" / "readiness.json").read_text())
    told = {row["partition"]: row["verdicts"] for row in ran.rows}
    shown = {
        f"{topic['topic']}-{each['partition']}": {name: count["segments"] for name, count in each["verdicts"].items()}
        for topic in found["topics"]
        for each in topic["partitions"]
    }
    assert shown == told
    (cause,) = [each for each in found["causes"] if each["verdict"] == "MISSING_SNAPSHOT"]
    assert f"tiersnap repair {tmp_path}/logs --topic 'ord.*' --apply" in cause["commands"]
    assert found["forecast"]["disks"][0]["log_dirs"] == [str(tmp_path / "logs")]
    assert "newest snapshot file" in (tmp_path / "page" / "failover.html").read_text()


@pytest.mark.parametrize("now", ["2023-11-14T22:30:00Z", "2999-01-01"])
def test_scan_page_tells_its_own_duration_when_now_is_given(tmp_path: Path, now: str) -> None:
    write_small_log(tmp_path / "logs")
    tiersnap("scan", tmp_path / "logs", "--now", now, "--report", tmp_path / "page")
    run = json.loads((tmp_path / "page" / "readiness.json").read_text())["run"]
    assert 0 <= run["finished_at"] - run["started_at"] < 60_000
    assert run["judged_at"] == parse_time(now)
    assert f"<dt>Judged as of</dt><dd>{now[:10]} " in (tmp_path / "page" / "index.html").read_text()


def test_a_state_is_known_by_log_directory_topic_and_number() -> None:
    rows = [each for place in ("/a", "/b") for each in segments_of("t", 0, "ACTIVE_SEGMENT", log_dir=place)]
    assert set(states_of(summarise(table(rows), RUN))) == {PartitionKey("/a", "t", 0), PartitionKey("/b", "t", 0)}
    assert Beside.of(summarise(table(rows), RUN)).before is None
