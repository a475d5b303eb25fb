"""`tiersnap transactions` and `tiersnap producers` on the bundled logs of real brokers."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.record_batch import read_segment
from tests.reference.transaction_state import key, value, write_states
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.transaction_state import TOPIC, TransactionStatus, decode_key, decode_value
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.records import SegmentRecords

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[3] / "data"
LOGS = ["kafka-2.7.2", "kafka-3.9.1", "kafka-4.1.1", "ledger-2.7.2"]
AS_OF = "2026-11-21T13:00:00Z"
LIST_KEYS = {"transactional_id", "partition", "producer_id", "transaction_state", "partitions", "unknown_tags"}


def transactions(question: str, name: str, *words: str | Path, output: str = "json"):
    return tiersnap("transactions", question, DATA / name / "logs", "--as-of", AS_OF, *words, output=output)


@pytest.mark.parametrize("name", ["kafka-2.7.2", "kafka-3.9.1", "kafka-4.1.1"])
def test_hanging_shows_its_open_transaction_and_the_segments_it_blocks(name: str) -> None:
    row = transactions("find-hanging", name, "--all", "--topic", "hanging").row(topic="hanging")
    segments = tiersnap("scan", DATA / name / "logs", "--topic", "hanging", "--segments").rows
    closed = [each for each in segments if each["verdict"] != "ACTIVE_SEGMENT"]
    assert row["transactional_id"] == "hang"
    assert row["verdict"] == "OVERDUE"
    assert row["blocked_segments"] == [
        each["base_offset"] for each in closed if each["next_base_offset"] > row["transaction_start_offset"]
    ]
    assert row["blocked_segments"], "the log was written to show just this"
    above = [each["base_offset"] for each in closed if each["verdict"] in ("ABOVE_LSO", "GAP_BEFORE")]
    assert above in ([], row["blocked_segments"])
    assert bool(above) == (name != "kafka-2.7.2"), "before 2.8 there is no topic id, which comes first"


@pytest.mark.parametrize("name", LOGS)
def test_no_transaction_of_the_bundled_logs_hangs_as_their_coordinators_would_abort_them(name: str) -> None:
    ran = transactions("find-hanging", name)
    assert (ran.exit_code, ran.rows) == (0, [])


def test_what_above_lso_sends_people_to_is_a_command_that_answers() -> None:
    source = DATA / "kafka-4.1.1" / "logs"
    said = tiersnap("scan", source, "--topic", "hanging").err
    (command,) = re.findall(r"next for ABOVE_LSO: .*: (tiersnap transactions find-hanging .* --all)$", said, re.M)
    words = command.split()[1:]
    assert words == ["transactions", "find-hanging", str(source), "--all"]
    assert tiersnap(*words).row(topic="hanging")["transaction_start_offset"] == 90


def test_fenced_shows_the_epoch_of_the_last_instance() -> None:
    row = transactions("describe", "kafka-2.7.2", "--transactional-id", "fence-me").rows[0]
    assert (row["producer_epoch"], row["transaction_state"], row["partitions"]) == (25, "Ongoing", [["fenced", 0]])
    producers = tiersnap("producers", DATA / "kafka-2.7.2/logs", "--topic", "fenced", "--as-of", AS_OF)
    assert producers.row(producer_id=row["producer_id"])["producer_epoch"] == 25


@pytest.mark.parametrize("name", LOGS)
def test_the_state_topic_agrees_with_the_markers_found_in_the_topics(name: str) -> None:
    prepared: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    log_dir = open_log_dir(str(DATA / name / "logs"))
    for partition in log_dir.partitions():
        for segment in partition.segments if partition.topic == TOPIC else ():
            for record in SegmentRecords(log_dir.filesystem, segment):
                assert decode_key(record.key)
                state = None if record.value is None else decode_value(record.value)
                if state is not None and state.transaction_state.is_prepared:
                    end = "COMMIT" if state.transaction_state is TransactionStatus.PREPARE_COMMIT else "ABORT"
                    for topic, number in state.partitions or ():
                        prepared[f"{topic}-{number}"].append((state.producer_id, state.producer_epoch, end))
    found: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for partition in log_dir.partitions():
        for segment in partition.segments:
            for batch in read_segment(Path(segment.log.path).read_bytes()).batches:
                if batch.control_type in (0, 1):
                    end = ("ABORT", "COMMIT")[batch.control_type]
                    found[partition.name].append((batch.producer_id, batch.producer_epoch, end))
    cleaned = {each.name for each in log_dir.partitions() if each.cleaner_offset is not None}
    assert found, "nothing to compare"
    for partition in (found.keys() | prepared.keys()) - cleaned:
        assert sorted(found[partition]) == sorted(prepared[partition]), partition
        for producer in {each[0] for each in found[partition]}:
            ours = [each for each in prepared[partition] if each[0] == producer]
            assert [each for each in found[partition] if each[0] == producer] == ours


@pytest.mark.parametrize("name", LOGS)
def test_producers_are_those_of_kafkas_own_fold_at_the_log_end(name: str) -> None:
    rows = tiersnap("producers", DATA / name / "logs", "--producer-expiration", "none").rows
    listed: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for row in rows:
        start = row["transaction_start_offset"]
        numbers = (
            row[each] for each in ("producer_id", "producer_epoch", "last_sequence", "last_offset", "last_timestamp")
        )
        partition = f"{row['topic']}-{row['partition']}"
        listed[partition].append((*numbers, row["coordinator_epoch"], -1 if start is None else start))
    for folder in sorted((DATA / name / "expected").iterdir()):
        last = max(folder.glob("*.snapshot"))
        entries = snapshot_file.decode(last.read_bytes())
        expected = [
            tuple(
                int(entry[each])
                for each in (
                    "producer_id", "producer_epoch", "last_sequence", "last_offset", "timestamp", "coordinator_epoch",
                    "current_txn_first_offset",
                )
            )
            for entry in entries
        ]  # fmt: skip
        assert listed[folder.name] == expected, folder.name


def test_producers_of_one_partition_are_printed_as_the_tool_prints_them() -> None:
    words = ("producers", DATA / "kafka-4.1.1/logs", "--topic", "hanging", "--as-of", AS_OF, "--output", "kafka")
    ran = tiersnap(*words, output="table")
    assert ran.out.splitlines()[0].split("\t") == [
        "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
        "CurrentTransactionStartOffset", "",
    ]  # fmt: skip
    assert "164       \t0            \t-1                    \t5           \t1795264963642\t90" in ran.out
    assert ran.out.count("None") == 3
    several = tiersnap(
        "producers", DATA / "kafka-4.1.1/logs", "--topic", "payments", "--output", "kafka", output="table"
    )
    assert_said(several, 2, "one partition", "--partition TOPIC-PARTITION")


def test_list_shows_every_id_with_all_that_its_record_says() -> None:
    ran = transactions("list", "kafka-4.1.1")
    assert ran.exit_code == 0
    assert [row["transactional_id"] for row in ran.rows] == sorted(row["transactional_id"] for row in ran.rows)
    assert len(ran.rows) == 13
    row = ran.row(transactional_id="java-0")
    assert row.keys() >= LIST_KEYS
    assert (row["partition"], row["transaction_state"]) == (0, "Ongoing")
    assert (row["value_version"], row["client_transaction_version"], row["producer_epoch"]) == (1, 2, 30)
    named = transactions("list", "kafka-4.1.1", "--topic", "tv2|hanging").rows
    assert [row["transactional_id"] for row in named] == ["hang", "java-0"]
    (one,) = transactions("list", "kafka-4.1.1", "--partition", "hanging-0").rows
    assert one["transactional_id"] == "hang"
    assert transactions("list", "kafka-4.1.1", "--partition", "tv2-1").rows == []


def test_tables_have_the_headings_of_kafkas_tool() -> None:
    assert transactions("list", "kafka-4.1.1", output="table").out.splitlines()[0].split() == [
        "TransactionalId", "Coordinator", "ProducerId", "TransactionState",
    ]  # fmt: skip
    described = transactions("describe", "kafka-4.1.1", "--transactional-id", "pay-1", output="table").out
    assert described.splitlines()[0].split() == [
        "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
        "CurrentTransactionStartTime", "TransactionDurationMs", "TopicPartitions",
    ]  # fmt: skip
    hanging = transactions("find-hanging", "kafka-4.1.1", output="table").out
    assert hanging.split()[:8] == [
        "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTime",
        "Duration(min)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [("producers",), ("transactions", "list"), ("transactions", "describe"), ("transactions", "find-hanging")],
    ids=" ".join,
)
def test_times_are_iso_8601_in_tables_and_ms_in_json(words: tuple[str, ...]) -> None:
    options = {"describe": ("--transactional-id", "hang"), "find-hanging": ("--all",)}.get(words[-1], ())
    asked = (*words, DATA / "kafka-4.1.1/logs", *options, "--as-of", AS_OF)
    rows = tiersnap(*asked).rows
    stamp = "last_timestamp" if "last_timestamp" in rows[0] else "start_timestamp"
    table = tiersnap(*asked, output="table").out
    assert not re.search(r"\b1[67]\d{11}\b", table)
    shown = [datetime.fromisoformat(each) for each in re.findall(r"\S+T\S+Z", table)]
    given = [datetime.fromtimestamp(row[stamp] / 1000, UTC) for row in rows if row[stamp] >= 0]
    assert given
    assert shown == ([] if words[-1] == "list" else given)


def test_describe_counts_the_duration_up_to_the_time_that_is_given() -> None:
    (row,) = transactions("describe", "kafka-4.1.1", "--transactional-id", "hang").rows
    assert row["start_timestamp"] == 1795264963645
    assert row["transaction_duration_ms"] == 1795266000000 - 1795264963645


def test_an_id_that_was_never_started_has_no_start_as_the_tool_says(tmp_path: Path) -> None:
    write_states(tmp_path, 0, (key("a"), value(1)))
    words = ("transactions", "describe", tmp_path, "--transactional-id", "a", "--partition-count", "1")
    row = tiersnap(*words).rows[0]
    assert (row["start_timestamp"], row["transaction_duration_ms"]) == (-1, None)
    assert tiersnap(*words, "--output", "kafka", output="table").out.count("None") == 2


def test_an_id_that_is_not_there_is_a_usage_error_that_says_how_sure_that_is(tmp_path: Path) -> None:
    assert_said(transactions("describe", "kafka-4.1.1", "--transactional-id", "x"), 2, "no transactional id 'x'")
    ran = transactions("describe", "kafka-4.1.1", "--transactional-id", "x", "--partition-count", "50")
    assert_said(ran, 2, "'x' was not found, but only a part", "--partition-count")
    write_states(tmp_path, 0)
    ran = tiersnap("transactions", "describe", tmp_path, "--transactional-id", "x")
    assert_said(ran, 2, "'x' was not found, but only a part")


def test_describe_leaves_a_topic_of_the_settings_to_the_other_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERSNAP_TOPIC", "nothing")
    (row,) = transactions("describe", "kafka-4.1.1", "--transactional-id", "hang").rows
    assert row["transactional_id"] == "hang"
    assert transactions("list", "kafka-4.1.1").rows == []


def test_options_that_do_not_fit_the_question_are_refused() -> None:
    assert_said(transactions("describe", "kafka-4.1.1"), 2, "describe needs --transactional-id")
    assert_said(
        transactions("list", "kafka-4.1.1", "--transactional-id", "x"), 2, "list and find-hanging do not take it"
    )
    assert_said(transactions("find-hanging", "kafka-4.1.1", "--topic", "nothing"), 2, "no topic matches 'nothing'")
    assert_said(transactions("find-hanging", "kafka-4.1.1", "--partition", "orders-77"), 2, "no partition orders-77")
    for name, asked in (("--topic", "hanging"), ("--partition", "hanging-0")):
        ran = transactions("describe", "kafka-4.1.1", "--transactional-id", "hang", name, asked)
        assert_said(ran, 2, f"describe does not take {name}", f"leave out {name}")
    none = transactions("find-hanging", "kafka-4.1.1", "--max-transaction-timeout", "none")
    assert_said(none, 2, "--max-transaction-timeout none: a duration is needed")
    assert_said(transactions("abort", "kafka-4.1.1"), 2, "find-hanging")


def test_log_directories_of_several_clusters_are_not_mixed() -> None:
    ran = transactions("list", "kafka-4.1.1", DATA / "kafka-3.9.1/logs")
    assert_said(ran, 2, "belong to 2 clusters")


def test_jsonl_gives_a_line_a_row() -> None:
    assert len(transactions("list", "kafka-4.1.1", output="jsonl").out.splitlines()) == 13
