"""Which open transactions hang, which segments they block, and what is said of them: scenarios T95 to T107."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reference import log_builder as lb
from tests.reference import transaction_state as encoder
from tests.reference.broker_lock import broker
from tests.reference.command import assert_said, tiersnap
from tests.reference.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    batch,
    key,
    value,
    write_states,
)
from tiersnap.snapshot.exactly_once.log_replay import replay_log
from tiersnap.snapshot.exactly_once.transactions.hanging import abort_step, judge_transaction, open_transactions
from tiersnap.snapshot.exactly_once.transactions.hanging_search import HangingSearch
from tiersnap.snapshot.exactly_once.transactions.kinds import PartitionProducer, PartitionTransaction
from tiersnap.snapshot.exactly_once.transactions.transaction_log import read_transaction_log
from tiersnap.snapshot.exactly_once.transactions.transaction_verdict import TransactionVerdict
from tiersnap.snapshot.gate.printed_steps import Place
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import open_log_dir

pytestmark = pytest.mark.unit

MINUTE, DAY = 60_000, 86_400_000
WRITTEN = lb.TIMESTAMP
LATER = WRITTEN + 20 * MINUTE
HERE, ELSEWHERE = [("orders", [0])], [("orders", [1]), ("payments", [0])]
OPEN = PartitionTransaction(PartitionProducer("orders", 0, 7, 2, -1, 3, 102, WRITTEN), 100, (0,), 10)


def verdict(
    log_dir: Path, *records: tuple[bytes | None, bytes | None], as_of: int = LATER, count: int | None = 1
) -> TransactionVerdict:
    write_states(log_dir, 0, *records)
    log = read_transaction_log([open_log_dir(str(log_dir))], partition_count=count)
    return judge_transaction(OPEN, log, as_of=as_of, max_transaction_timeout=15 * MINUTE).verdict


def ongoing(
    producer_id: int = 7,
    partitions=HERE,
    *,
    state: int = ONGOING,
    started: int = WRITTEN,
    timeout: int = MINUTE,
    epoch: int = 2,
):
    return value(producer_id, epoch, state=state, partitions=partitions, started=started, timeout=timeout)


CASES = {
    "T99: no id at all": ([], "HANGING_NO_TID"),
    "another id has another producer": ([("a", ongoing(8))], "HANGING_NO_TID"),
    "the id has another producer by now": ([("a", ongoing(7)), ("a", value(9))], "HANGING_NO_TID"),
    "the id has expired": ([("a", ongoing(7)), ("a", None)], "HANGING_NO_TID"),
    "T100: Ongoing beyond its timeout": ([("a", ongoing())], "OVERDUE"),
    "Ongoing in two phases for 30 days": ([("a", ongoing(timeout=2147483647, started=LATER - 30 * DAY))], "TWO_PHASE"),
    "Ongoing in two phases": ([("a", ongoing(timeout=2147483647))], "TWO_PHASE"),
    "Ongoing with all but the longest timeout": (
        [("a", ongoing(timeout=2147483646, started=WRITTEN - 2147483646))],
        "OVERDUE",
    ),
    "Ongoing beyond its timeout in the last epoch": ([("a", ongoing(epoch=32767))], "HANGING_LAST_EPOCH"),
    "Ongoing beyond its timeout in the last epoch but one": ([("a", ongoing(epoch=32766))], "OVERDUE"),
    "Ongoing within its timeout in the last epoch": ([("a", ongoing(epoch=32767, timeout=60 * MINUTE))], "ONGOING"),
    "prepared in the last epoch": ([("a", ongoing(epoch=32767, state=PREPARE_ABORT))], "EXPECTED_MARKER"),
    "prepared in two phases": ([("a", ongoing(timeout=2147483647, state=PREPARE_COMMIT))], "EXPECTED_MARKER"),
    "Ongoing to the very millisecond": ([("a", ongoing(timeout=LATER - WRITTEN))], "ONGOING"),
    "Ongoing within its timeout": ([("a", ongoing(timeout=60 * MINUTE))], "ONGOING"),
    "Ongoing elsewhere": ([("a", ongoing(partitions=ELSEWHERE))], "HANGING_NOT_IN_TXN"),
    "T101: CompleteAbort": ([("a", ongoing(state=COMPLETE_ABORT, partitions=[]))], "HANGING_NOT_IN_TXN"),
    "CompleteCommit": ([("a", ongoing(state=COMPLETE_COMMIT, partitions=[]))], "HANGING_NOT_IN_TXN"),
    "Empty, whatever it lists": ([("a", ongoing(state=EMPTY))], "HANGING_NOT_IN_TXN"),
    "T102: PrepareAbort": ([("a", ongoing(state=PREPARE_ABORT))], "EXPECTED_MARKER"),
    "PrepareCommit, long ago": ([("a", ongoing(state=PREPARE_COMMIT, started=1))], "EXPECTED_MARKER"),
    "PrepareCommit elsewhere": ([("a", ongoing(state=PREPARE_COMMIT, partitions=ELSEWHERE))], "HANGING_NOT_IN_TXN"),
}


@pytest.mark.parametrize(("records", "expected"), CASES.values(), ids=CASES.keys())
def test_an_open_transaction_hangs_if_no_coordinator_expects_it(records, expected: str, tmp_path: Path) -> None:
    found = verdict(tmp_path, *((key(name), data) for name, data in records))
    assert found == expected
    assert found.is_hanging == expected.startswith("HANGING")


@pytest.mark.parametrize(("after", "expected"), [(15 * MINUTE, "YOUNG"), (15 * MINUTE + 1, "HANGING_NO_TID")])
def test_t98_a_producer_that_wrote_15_minutes_ago_may_still_be_alive(tmp_path: Path, after: int, expected: str) -> None:
    assert verdict(tmp_path, as_of=WRITTEN + after) == expected


def test_a_young_transaction_that_a_coordinator_knows_is_what_it_is(tmp_path: Path) -> None:
    assert verdict(tmp_path, (key("a"), ongoing()), as_of=WRITTEN + 5) == "ONGOING"


def test_t103_without_all_partitions_of_the_state_topic_nobody_is_said_to_have_no_id(tmp_path: Path) -> None:
    assert verdict(tmp_path, count=2) == "UNKNOWN"
    assert verdict(tmp_path / "sure", (key("a"), value(7, state=COMPLETE_ABORT, partitions=[]))) == "HANGING_NOT_IN_TXN"


def test_an_id_whose_newest_record_cannot_be_read_is_no_reason_to_call_anything_hanging(tmp_path: Path) -> None:
    records = [(key("a"), ongoing(partitions=ELSEWHERE)), (key("a"), b"\0\7")]
    assert verdict(tmp_path, *records) == "UNKNOWN"


HOUR = 60 * MINUTE
DEADLINE = WRITTEN + MINUTE


def write_overdue(log_dir: Path, *, other_at: int, partition: int = 0) -> Path:
    """An Ongoing transaction of producer 7, overdue since DEADLINE, and another id's state that was written later."""
    batches = [batch(0, (key("a"), ongoing())), batch(1, (key("b"), value(8)), timestamp=other_at)]
    return lb.write_partition(log_dir, "__transaction_state", partition, {0: batches}, high_watermark=2)


def judged(log_dir: Path, as_of: int) -> tuple[str, str]:
    log = read_transaction_log([open_log_dir(str(log_dir))], partition_count=1)
    found = judge_transaction(OPEN, log, as_of=as_of, max_transaction_timeout=15 * MINUTE)
    return str(found.verdict), found.reason


@pytest.mark.parametrize(
    ("other_at", "expected"),
    [(DEADLINE + HOUR, "HANGING_OVERDUE"), (DEADLINE + HOUR - 1, "OVERDUE"), (DEADLINE - HOUR, "OVERDUE")],
)
def test_overdue_hangs_if_its_coordinator_wrote_an_hour_later(tmp_path: Path, other_at: int, expected: str) -> None:
    write_overdue(tmp_path, other_at=other_at)
    verdict, reason = judged(tmp_path, WRITTEN + 30 * DAY)
    assert verdict == expected
    assert ("has run for 1.0 h since the timeout and did not abort" in reason) == (expected == "HANGING_OVERDUE")


def test_overdue_hangs_if_a_broker_has_run_beside_it_for_an_hour(tmp_path: Path) -> None:
    write_overdue(tmp_path, other_at=WRITTEN)
    (tmp_path / ".lock").touch()
    now = time.time_ns() // 1_000_000
    assert judged(tmp_path, now + 2 * HOUR)[0] == "OVERDUE"
    with broker(tmp_path):
        assert judged(tmp_path, now + HOUR - 2 * MINUTE)[0] == "OVERDUE", "it started a moment ago"
        assert judged(tmp_path, now + HOUR + 2 * MINUTE)[0] == "HANGING_OVERDUE"


@pytest.mark.parametrize(
    ("epoch", "other_at", "verdict"),
    [(32767, WRITTEN, "HANGING_LAST_EPOCH"), (2, DEADLINE + 3 * HOUR, "HANGING_OVERDUE")],
)
def test_command_prints_how_to_abort_what_no_coordinator_will(
    tmp_path: Path, epoch: int, other_at: int, verdict: str
) -> None:
    write_open(tmp_path, 150)
    states = [batch(0, (key("a"), ongoing(epoch=epoch))), batch(1, (key("b"), value(8)), timestamp=other_at)]
    lb.write_partition(tmp_path, "__transaction_state", 0, {0: states}, high_watermark=2)
    words = ("--partition-count", "1", "--as-of", str(WRITTEN + 4 * HOUR))
    ran = tiersnap("transactions", "find-hanging", tmp_path, *words)
    (row,) = ran.rows
    assert (row["verdict"], row["blocked_segments"]) == (verdict, [100, 200])
    command = "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic orders --partition 0 --start-offset 150"
    assert row["abort_command"] == command
    assert_said(ran, 4, f"next: {command}")
    assert "will abort the transaction" not in row["reason"] + ran.err


def test_the_abort_command_is_that_of_kafka_transactions() -> None:
    assert Place().text(abort_step(OPEN)) == (
        "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic orders --partition 0 --start-offset 100"
    )
    assert (
        Place()
        .text(abort_step(OPEN, before_3_0=True))
        .endswith("abort --topic orders --partition 0 --producer-id 7 --producer-epoch 2 --coordinator-epoch 0")
    )


def transaction(offset: int, producer_id: int, count: int = 1, sequence: int = 0, timestamp: int = WRITTEN) -> bytes:
    return lb.data_batch(offset, count, producer_id, 0, sequence, transactional=True, timestamp=timestamp)


def write_open(log_dir: Path, at: int, topic: str = "orders", **options) -> None:
    """Segments at 0, 100, 200 and 300, the last of them active; producer 7 opens a transaction at offset `at`."""
    segments = {}
    for base in (0, 100, 200, 300):
        is_here = base <= at < base + 100
        before = [lb.data_batch(base, at - base, 8, 0, base)] if is_here and at > base else []
        here = [transaction(at, 7)] if is_here else []
        left = base + 100 - at - 1 if is_here else 100
        start = at + 1 if is_here else base
        segments[base] = [*before, *here, *([lb.data_batch(start, left, 9, 0, start)] if left else [])]
    lb.write_partition(log_dir, topic, 0, segments, high_watermark=400, indexes=True, **options)


def opened_in(log_dir: Path) -> list[PartitionTransaction]:
    (partition,) = open_log_dir(str(log_dir)).partitions()
    return list(open_transactions(replay_log(LOCAL, partition)))


@pytest.mark.parametrize(
    ("at", "blocked"),
    [(150, (100, 200)), (100, (100, 200)), (99, (0, 100, 200)), (0, (0, 100, 200)), (299, (200,)), (300, ())],
)
def test_t104_a_segment_is_blocked_that_ends_above_the_first_offset(tmp_path: Path, at: int, blocked) -> None:
    write_open(tmp_path, at)
    (found,) = opened_in(tmp_path)
    assert (found.transaction_start_offset, found.blocked_segments) == (at, blocked)
    files = [tmp_path / f"orders-0/{base:020d}.log" for base in blocked]
    assert found.blocked_bytes == sum(path.stat().st_size for path in files)
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0
    verdicts = {row["base_offset"]: row["verdict"] for row in tiersnap("scan", tmp_path, "--segments").rows}
    closed = (0, 100, 200)
    expected = ["READY"] * (3 - len(blocked)) + ["ABOVE_LSO", "GAP_BEFORE", "GAP_BEFORE"][: len(blocked)]
    assert [verdicts[base] for base in closed] == expected


def test_a_topic_that_is_never_tiered_has_open_transactions_and_no_blocked_segment(tmp_path: Path) -> None:
    write_open(tmp_path, 150, topic="__consumer_offsets")
    (found,) = opened_in(tmp_path)
    assert (found.transaction_start_offset, found.blocked_segments, found.blocked_bytes) == (150, (), 0)


def test_t95_open_transactions_come_by_start_offset_and_end_with_their_markers(tmp_path: Path) -> None:
    batches = [lb.data_batch(0, 10), transaction(10, 2), lb.data_batch(11, 9), transaction(20, 1), transaction(21, 3)]
    lb.write_partition(tmp_path / "open", "t", 0, {0: batches})
    assert [(each.producer.producer_id, each.transaction_start_offset) for each in opened_in(tmp_path / "open")] == [
        (2, 10),
        (1, 20),
        (3, 21),
    ]
    batches.append(lb.marker(22, 2, 0, 5, commit=False))
    lb.write_partition(tmp_path / "ended", "t", 0, {0: batches})
    assert [each.producer.producer_id for each in opened_in(tmp_path / "ended")] == [1, 3]


def test_t106_an_open_transaction_is_listed_however_old_it_is(tmp_path: Path) -> None:
    write_open(tmp_path, 150)
    ran = tiersnap("producers", tmp_path, "--as-of", str(WRITTEN + 10 * 24 * 60 * MINUTE))
    assert [row["producer_id"] for row in ran.rows] == [7]
    assert "not listed: 2 producers" in ran.err


def test_a_transaction_in_two_phases_is_left_to_its_application(tmp_path: Path) -> None:
    write_open(tmp_path, 150)
    write_states(tmp_path, 0, (key("pay 1"), ongoing(timeout=2147483647, started=WRITTEN - 30 * DAY)))
    ran = tiersnap("transactions", "find-hanging", tmp_path, "--partition-count", "1", "--all", "--as-of", str(LATER))
    assert ran.exit_code == 0
    (row,) = ran.rows
    assert (row["verdict"], row["abort_command"]) == ("TWO_PHASE", None)
    command = "kafka-transactions.sh --bootstrap-server HOST:PORT forceTerminateTransaction --transactionalId 'pay 1'"
    assert row["terminate_command"] == command
    assert f"to abort by force: {command}" in ran.err
    assert "will abort the transaction" not in row["reason"] + ran.err
    assert "no timeout ends the transaction" in ran.err


def test_a_hanging_transaction_is_shown_with_what_it_blocks_and_the_command_that_aborts_it(tmp_path: Path) -> None:
    write_open(tmp_path, 150)
    write_states(tmp_path, 0, (key("a"), ongoing(8)))
    words = ("transactions", "find-hanging", tmp_path, "--partition-count", "1", "--as-of", str(LATER))
    ran = tiersnap(*words)
    (row,) = ran.rows
    assert row["verdict"] == "HANGING_NO_TID"
    assert row["duration_minutes"] == 20
    assert row["blocked_segments"] == [100, 200]
    assert row["abort_command"].endswith("--topic orders --partition 0 --start-offset 150")
    assert row["abort_command_before_3_0"].endswith("--producer-id 7 --producer-epoch 0 --coordinator-epoch 0")
    assert_said(ran, 4, "open transactions: 1 HANGING_NO_TID", f"next: {row['abort_command']}")
    young = tiersnap(*words, "--max-transaction-timeout", "20m")
    assert (young.exit_code, young.rows) == (0, [])
    assert_said(young, 0, "not shown: 1 open", "next for YOUNG: look again later")


def test_without_the_state_topic_the_command_says_what_is_missing_and_calls_nothing_hanging(tmp_path: Path) -> None:
    write_open(tmp_path, 150)
    ran = tiersnap("transactions", "find-hanging", tmp_path, "--all", "--as-of", str(LATER))
    assert_said(
        ran, 6, "MISSING_PARTITION", "the log directories have no partition of __transaction_state", "next for UNKNOWN"
    )
    assert ran.row(verdict="UNKNOWN")["abort_command"] is None


def test_a_partition_whose_end_cannot_be_replayed_is_a_finding(tmp_path: Path) -> None:
    write_open(tmp_path, 150)
    path = tmp_path / "orders-0" / f"{200:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    for command in (("transactions", "find-hanging", tmp_path), ("producers", tmp_path)):
        ran = tiersnap(*command)
        assert_said(ran, 5, "BAD_CRC")
        assert ran.rows == []


def test_damage_of_the_state_topic_is_a_finding_of_every_question(tmp_path: Path) -> None:
    write_states(tmp_path, 0, (key("a"), value(1)), (key("b"), encoder.value(2, state=9)))
    for words in (("list",), ("describe", "--transactional-id", "a"), ("find-hanging",)):
        ran = tiersnap("transactions", words[0], tmp_path, *words[1:], "--partition-count", "1")
        assert_said(ran, 5, "CORRUPT_TRANSACTION_STATE", "offset 1 of 'b'")


def search(log_dir: Path, then: Callable[[], object]) -> list[TransactionVerdict]:
    """Verdicts of a search during which, once the partitions were replayed, `then` happens."""
    opened = open_log_dir(str(log_dir))

    def partitions():
        for partition in opened.partitions():
            yield opened, partition
        then()

    judged, _ = HangingSearch((opened,), 1, 15 * MINUTE, LATER).judged(partitions())
    return [each.verdict for each in judged]


def test_a_transaction_that_ends_while_one_looks_does_not_hang(tmp_path: Path) -> None:
    write_states(tmp_path, 0, (key("a"), value(7, state=COMPLETE_ABORT, partitions=[])))
    write_open(tmp_path, 350)

    def end() -> None:
        with (tmp_path / "orders-0" / f"{300:020d}.log").open("ab") as log:
            log.write(lb.marker(400, 7, 0, 1, commit=False))

    assert search(tmp_path, lambda: None) == ["HANGING_NOT_IN_TXN"]
    assert search(tmp_path, end) == []


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_replica_whose_broker_is_down_calls_nothing_hanging_that_has_ended(tmp_path: Path, has_ended: bool) -> None:
    write_states(tmp_path / "new", 0, (key("a"), ongoing(state=COMPLETE_ABORT, partitions=[])))
    for node, name in enumerate(("old", "new")):
        write_open(tmp_path / name, 350)
        (tmp_path / name / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node}\n")
    with (tmp_path / "new/orders-0" / f"{300:020d}.log").open("ab") as log:
        log.write(lb.marker(400, 7, 0, 1, commit=False) if has_ended else lb.data_batch(400, 10))
    words = ("transactions", "find-hanging", tmp_path / "old", tmp_path / "new", "--partition-count", "1")
    ran = tiersnap(*words, "--as-of", str(LATER))
    assert (ran.exit_code, len(ran.rows)) == ((0, 0) if has_ended else (4, 2))


def test_a_transaction_whose_coordinator_is_read_later_is_known_to_it(tmp_path: Path) -> None:
    folder = write_states(tmp_path, 0, (key("a"), value(7)))
    write_open(tmp_path, 350)

    def name() -> None:
        with (folder / f"{0:020d}.log").open("ab") as log:
            log.write(encoder.batch(1, (key("a"), ongoing(timeout=60 * MINUTE))))

    assert search(tmp_path, name) == ["ONGOING"]


def test_an_id_whose_record_cannot_be_read_is_not_described_by_an_older_one_of_nothing(tmp_path: Path) -> None:
    write_states(tmp_path, 0, (key("a"), value(2, state=9)), (key("b"), value(3)), (key("b"), b"\0\7"))
    words = ("transactions", "describe", tmp_path, "--partition-count", "1", "--transactional-id")
    assert_said(tiersnap(*words, "a"), 5, "the newest record of 'a' cannot be read")
    older = tiersnap(*words, "b")
    assert_said(older, 5, "UNKNOWN_VERSION", "offset 2 of 'b'")
    assert older.rows[0]["producer_id"] == 3
