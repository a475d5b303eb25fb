"""`tiersnap scan` on logs that are whole, and on everything else that may lie where a log should be."""

from __future__ import annotations

import fcntl
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reference.command import assert_said, counted, tiersnap
from tests.reference.privileges import run_obeying_modes
from tests.reference.small_log import BASES, LOG_END, file_of, write_small_log

pytestmark = pytest.mark.unit


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "log dir"
    folder.mkdir()
    return folder


def test_a_whole_log_is_ready_up_to_its_active_segment(log_dir):
    write_small_log(log_dir)

    ran = tiersnap("scan", log_dir)

    assert_said(ran, 0)
    assert ran.row(partition="orders-0") | {"findings": 0} == {
        "log_dir": str(log_dir),
        "partition": "orders-0",
        "topic": "orders",
        "topic_id": "lZ6vvmajTWKDBUTV6SQAtQ",
        "segments": 4,
        "bytes": sum(file_of(log_dir / "orders-0", base, ".log").stat().st_size for base in BASES),
        "log_start_offset": 0,
        "deleted_segments": 0,
        "log_end_offset": LOG_END,
        "high_watermark": LOG_END,
        "last_stable_offset": LOG_END,
        "snapshots": {"MATCHES": 3},
        "verdicts": {"READY": 3, "ACTIVE_SEGMENT": 1},
        "findings": 0,
        **dict.fromkeys(("known", "living", "meets")),
        **dict.fromkeys(("internal", "compacted", "log_start_unknown", "transactions_unknown"), ""),
        "log_start": 0,
        "unstable_because": ran.rows[0]["unstable_because"],
    }


def test_a_running_broker_has_no_snapshot_at_its_log_end_and_that_is_no_news(log_dir):
    write_small_log(log_dir)
    assert not file_of(log_dir / "orders-0", LOG_END, ".snapshot").exists()
    with (log_dir / ".lock").open("r+") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        assert_said(tiersnap("scan", log_dir), 0, "snapshots by verdict: 3 MATCHES")


# What it is that scan was given instead of an entry of log.dirs, and what it says.
def _parent(log_dir: Path) -> Path:
    write_small_log(log_dir)
    return log_dir.parent


def _parent_of_numbered(log_dir: Path) -> Path:
    (log_dir / "disk-1").mkdir()
    write_small_log(log_dir / "disk-1")
    return log_dir


def _file(log_dir: Path) -> Path:
    (log_dir / "file").write_text("")
    return log_dir / "file"


def test_a_topic_that_was_mistyped_is_answered_with_those_there_are(log_dir):
    write_small_log(log_dir)
    write_small_log(log_dir, "payments")
    ran = tiersnap("scan", log_dir, "--topic", "order")
    assert_said(ran, 2, "no topic matches 'order'", "the log directories have orders, payments")
    assert_said(
        tiersnap("scan", log_dir, "--partition", "orders-1"), 2, "the log directories have orders-0, payments-0"
    )


NOT_LOG_DIRS: dict[str, tuple[Callable[[Path], Path | str], str]] = {
    "nothing": (lambda log_dir: log_dir / "nothing", "no such directory"),
    "a file": (_file, "the path is not a directory"),
    "an empty folder": (lambda log_dir: log_dir, "is its disk mounted?"),
    "the folder above log directories": (_parent, "the directory is not a log directory: give "),
    "the folder above log directories with numbers": (_parent_of_numbered, "not the folder above it"),
    "one partition": (write_small_log, "give the folder above it, and --partition orders-0"),
    "a scheme nobody knows": (lambda log_dir: "nope://somewhere", "s3://"),
}


@pytest.mark.parametrize("name", NOT_LOG_DIRS)
@pytest.mark.parametrize("command", ["scan", "repair"])
def test_what_is_no_log_directory_is_named_with_a_hint(log_dir, name, command):
    give, words = NOT_LOG_DIRS[name]
    source = give(log_dir)

    ran = tiersnap(command, source)

    assert_said(ran, 2, words, str(source))
    (error,) = json.loads(ran.out)["errors"]
    assert error["hint"]


def test_a_log_directory_that_may_not_be_read_is_not_called_absent(log_dir):
    write_small_log(log_dir)
    log_dir.chmod(0o000)
    try:
        done = run_obeying_modes("-m", "tests.reference.tiersnap", "scan", str(log_dir))
    finally:
        log_dir.chmod(0o755)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ermission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_segment_and_a_snapshot_that_may_not_be_read_are_not_called_corrupt(log_dir):
    folder = write_small_log(log_dir)
    unreadable = (file_of(folder, 10, ".log"), file_of(folder, 5, ".snapshot"))
    for path in unreadable:
        path.chmod(0o000)

    done = run_obeying_modes("-m", "tests.reference.tiersnap", "scan", "--output", "json", str(log_dir))

    assert done.returncode == 6
    assert "Traceback" not in done.stderr
    assert f"PERMISSION_DENIED: {unreadable[0]}" in done.stderr
    assert "CORRUPT" not in done.stderr + done.stdout
    result = json.loads(done.stdout)["result"]
    (row,) = result["rows"]
    assert row["snapshots"] == {"UNVERIFIED": 2, "MATCHES": 1}
    assert row["verdicts"] == {"UNVERIFIED_SNAPSHOT": 1, "GAP_BEFORE": 1, "UNREADABLE_SEGMENT": 1, "ACTIVE_SEGMENT": 1}
    assert [finding["finding_kind"] for finding in result["findings"]] == ["PERMISSION_DENIED"]
    assert "run the command as the user that runs the broker" in done.stderr


@pytest.mark.parametrize("topic", ["with-dashes", "with.dots", "x-delete-0", "x.y-delete", "-", "a-0.b-stray"])
def test_a_topic_may_be_called_almost_anything(log_dir, topic):
    write_small_log(log_dir, topic)

    ran = tiersnap("scan", log_dir)

    assert_said(ran, 0)
    assert [(row["partition"], row["topic"], row["snapshots"]) for row in ran.rows] == [
        (f"{topic}-0", topic, {"MATCHES": 3})
    ]


def test_folders_that_are_no_live_partition_are_named_and_not_scanned(log_dir):
    write_small_log(log_dir)
    some_id = "0123456789abcdef" * 2
    for name in (f"gone-0.{some_id}-delete", f"lost-0.{some_id}-stray", f"moved-0.{some_id}-future", "lost+found"):
        (log_dir / name).mkdir()
    for name in ("remote-log-index-cache", "__cluster_metadata-0"):
        (log_dir / name).mkdir()

    ran = tiersnap("scan", log_dir)

    assert_said(ran, 5, "(delete)", "(stray)", "(future)", "lost+found (unknown)", "no broker starts while")
    assert [row["partition"] for row in ran.rows] == ["orders-0"]
    assert "__cluster_metadata" not in ran.err


def test_a_compacted_topic_needs_no_snapshots(log_dir):
    internal = ("__consumer_offsets", "__transaction_state", "__remote_log_metadata")
    for topic in internal:
        write_small_log(log_dir, topic, with_snapshots=False)
    write_small_log(log_dir, "cleaned", with_snapshots=False)
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\ncleaned 0 15\n")
    file_of(log_dir / "cleaned-0", 5, ".log").write_bytes(b"")  # no record of it survived the cleaner

    ran = tiersnap("scan", log_dir)

    assert_said(ran, 0)
    found = {row["partition"]: counted(row["verdicts"]) for row in ran.rows}
    assert found.pop("cleaned-0") == "3 COMPACTED_TOPIC, 1 ACTIVE_SEGMENT"
    assert found == {f"{topic}-0": "3 INTERNAL_TOPIC, 1 ACTIVE_SEGMENT" for topic in internal}


def test_segments_below_the_log_start_are_no_part_of_the_log(log_dir):
    folder = write_small_log(log_dir, log_start_offset=12, leader_epochs=[(0, 12)])
    assert not file_of(folder, 5, ".snapshot").exists()
    assert not file_of(folder, 10, ".snapshot").exists()

    ran = tiersnap("scan", log_dir)

    assert_said(ran, 0, "2 segments below the log start offset")
    row = ran.row(partition="orders-0")
    assert (row["log_start_offset"], row["segments"], row["deleted_segments"]) == (12, 2, 2)
    assert (counted(row["snapshots"]), counted(row["verdicts"])) == ("1 MATCHES", "1 READY, 1 ACTIVE_SEGMENT")


def test_a_mistyped_topic_is_not_good_news(log_dir):
    write_small_log(log_dir)

    assert_said(tiersnap("scan", log_dir, "--topic", "order"), 2, "no topic matches 'order'", "whole name")
    assert_said(tiersnap("repair", log_dir, "--topic", "order", "--apply"), 2, "no topic matches 'order'")


def test_words_that_make_no_sense_are_a_usage_error(log_dir):
    assert_said(tiersnap("scan", log_dir, "--topic", "("), 2, "Usage: tiersnap scan")


def test_of_a_damaged_segment_the_command_names_the_file(log_dir):
    path = file_of(write_small_log(log_dir), 5, ".log")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert_said(tiersnap("scan", log_dir), 5, f"next for CORRUPT_SEGMENT: tiersnap dump '{path}' shows where")


def test_each_cause_is_named_with_its_next_command_and_the_options_that_were_given(log_dir):
    folder = write_small_log(log_dir, "orders")
    file_of(folder, 10, ".snapshot").unlink()
    write_small_log(log_dir, "behind", high_watermark=5)
    write_small_log(log_dir, "old", topic_id=None)

    ran = tiersnap("scan", log_dir, "--topic", "orders|behind|old", "--segments")

    topics = "--topic 'orders|behind|old'"
    tier = f"tiersnap tier '{log_dir}' --remote s3://bucket/prefix {topics}"
    assert_said(ran, 4, f"next for missing snapshots: tiersnap repair '{log_dir}' {topics}", tier)
    assert_said(
        ran, 4, "next for ABOVE_LSO: wait until replication", "next for TOPIC_ID_UNKNOWN: in ZooKeeper mode start"
    )
    assert_said(ran, 4, f"tiersnap transactions find-hanging '{log_dir}' --all")
    assert_said(ran, 4, f"give the topic ids: {tier} --topic-ids FILE")
    table = tiersnap("scan", log_dir, "--segments", output="table").out
    assert "next step" in table.splitlines()[0]
    assert "LOGDIR" not in table


def test_the_commands_that_are_named_have_the_options_of_the_scan(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    file_of(folder, 10, ".snapshot").unlink()
    given = ["--topic", "ord.*", "--partition", "orders-0", "--producer-expiration", "2d"]
    ran = tiersnap("scan", tmp_path, *given, output="table")
    assert f"tiersnap repair {tmp_path} --topic 'ord.*' --partition orders-0 --producer-expiration 2d\n" in ran.err
    assert f"tiersnap tier {tmp_path} --remote s3://bucket/prefix --topic 'ord.*' --producer-expiration 2d\n" in ran.err
    (line,) = (line for line in ran.err.splitlines() if "missing snapshots: " in line)
    typed = shlex.split(line.partition("missing snapshots: tiersnap ")[2])
    assert [row["offset"] for row in tiersnap(*typed).rows] == [10]
