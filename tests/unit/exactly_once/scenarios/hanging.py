"""T95 to T107: last stable offsets, transactions that hang, and what they block."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.reference import log_builder as lb
from tests.reference.command import tiersnap
from tests.reference.transaction_state import COMPLETE_ABORT, ONGOING, PREPARE_ABORT, key, value, write_states
from tests.unit.exactly_once.scenarios.registry import scenario
from tiersnap.snapshot.exactly_once.log_replay import replay_log
from tiersnap.snapshot.exactly_once.transactions.hanging import is_late, judge_transaction, open_transactions
from tiersnap.snapshot.exactly_once.transactions.kinds import PartitionProducer, PartitionTransaction
from tiersnap.snapshot.exactly_once.transactions.transaction_log import read_transaction_log
from tiersnap.snapshot.formats import transaction_index
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.producer_fold import live_entries
from tiersnap.snapshot.replay.examine import examine

MINUTE, DAY = 60_000, 86_400_000
WRITTEN = lb.TIMESTAMP
OPEN = PartitionTransaction(PartitionProducer("orders", 0, 7, 2, -1, 3, 102, WRITTEN), 100, (0,), 10)
LIMIT = {"max_transaction_timeout": 15 * MINUTE}


def opening(offset: int, producer_id: int, count: int = 1) -> bytes:
    return lb.data_batch(offset, count, producer_id, 0, 0, transactional=True)


def partition_of(tmp_path: Path, entries: list[bytes], **options: int):
    lb.write_partition(tmp_path, "t", 0, {0: entries}, **options)
    (partition,) = open_log_dir(str(tmp_path)).partitions()
    return partition


def last_stable_offset(tmp_path: Path, entries: list[bytes], **options: int) -> int | None:
    found = examine(LOCAL, partition_of(tmp_path, entries, **options))
    return found.facts.last_stable_offset


@scenario("T95")
def _(tmp_path: Path) -> None:
    batches = [lb.data_batch(0, 10), opening(10, 1, 10), opening(20, 2, 10), lb.marker(30, 1, 0, 5, commit=False)]
    batches.append(lb.data_batch(31, 5))
    for high_watermark, expected in ((30, 10), (31, 20)):
        assert last_stable_offset(tmp_path / str(high_watermark), batches, high_watermark=high_watermark) == expected
    (segment,) = partition_of(tmp_path, batches).segments
    rows = np.concatenate(list(SegmentScan(LOCAL, segment.log.path, base_offset=0, next_base_offset=None)))
    aborted, still_open = transaction_index.rebuild(rows, np.empty(0, transaction_index.ONGOING_TXN_DTYPE))
    assert aborted.tolist() == [(1, 10, 30, 20)]
    assert still_open.tolist() == [(2, 20)]


@scenario("T96")
def _(tmp_path: Path) -> None:
    assert last_stable_offset(tmp_path, [lb.data_batch(0, 60)], high_watermark=50) == 50


@scenario("T97")
def _(tmp_path: Path) -> None:
    batches = [lb.data_batch(0, 5), opening(5, 1, 10), lb.data_batch(15, 5)]
    assert last_stable_offset(tmp_path, batches, high_watermark=20, log_start_offset=8) == 8


def verdict(
    tmp_path: Path, *records: tuple[bytes | None, bytes | None], idle: int = 20 * MINUTE, count: int = 1
) -> str:
    write_states(tmp_path, 0, *records)
    log = read_transaction_log([open_log_dir(str(tmp_path))], partition_count=count)
    return str(judge_transaction(OPEN, log, as_of=WRITTEN + idle, **LIMIT).verdict)


def of_coordinator(state: int) -> tuple[bytes, bytes]:
    partitions = [] if state == COMPLETE_ABORT else [("orders", [0])]
    return key("a"), value(7, 2, state=state, partitions=partitions, started=WRITTEN, timeout=MINUTE)


@scenario("T98")
def _(tmp_path: Path) -> None:
    assert verdict(tmp_path, idle=15 * MINUTE) == "YOUNG"
    assert verdict(tmp_path, idle=15 * MINUTE + 1) == "HANGING_NO_TID"


@scenario("T99")
def _(tmp_path: Path) -> None:
    assert verdict(tmp_path, (key("a"), value(8, 2))) == "HANGING_NO_TID"


@scenario("T100")
def _(tmp_path: Path) -> None:
    assert verdict(tmp_path, of_coordinator(ONGOING)) == "OVERDUE"


@scenario("T101")
def _(tmp_path: Path) -> None:
    assert verdict(tmp_path, of_coordinator(COMPLETE_ABORT)) == "HANGING_NOT_IN_TXN"


@scenario("T102")
def _(tmp_path: Path) -> None:
    assert verdict(tmp_path, of_coordinator(PREPARE_ABORT)) == "EXPECTED_MARKER"


@scenario("T103")
def _(tmp_path: Path) -> None:
    assert verdict(tmp_path, count=2) == "UNKNOWN"


def opened_at(tmp_path: Path, offset: int) -> dict[int, str]:
    """Verdicts by base offset of a log of four segments in which a transaction is open from `offset` on."""
    segments = {}
    for base in (0, 100, 200, 300):
        segments[base] = [lb.data_batch(base, 100)]
        if base <= offset < base + 100:
            before = [lb.data_batch(base, offset - base)] if offset > base else []
            segments[base] = [*before, opening(offset, 7, base + 100 - offset)]
    lb.write_partition(tmp_path, "orders", 0, segments, high_watermark=400, indexes=True)
    (partition,) = open_log_dir(str(tmp_path)).partitions()
    (found,) = open_transactions(replay_log(LOCAL, partition))
    assert found.transaction_start_offset == offset
    assert tiersnap("repair", tmp_path, "--expiration", "none", "--apply").exit_code == 0
    verdicts = {row["base_offset"]: row["verdict"] for row in tiersnap("scan", tmp_path, "--segments").rows}
    assert {base for base in (0, 100, 200) if verdicts[base] != "READY"} == set(found.blocked_segments)
    return verdicts


@scenario("T104")
def _(tmp_path: Path) -> None:
    assert list(opened_at(tmp_path, 150).values()) == ["READY", "ABOVE_LSO", "GAP_BEFORE", "ACTIVE_SEGMENT"]


@scenario("T105")
def _(tmp_path: Path) -> None:
    assert opened_at(tmp_path, 100)[0] == "READY"


@scenario("T106")
def _(_: Path) -> None:
    now = WRITTEN + 10 * DAY
    entries = np.array([(7, 0, 0, 150, 0, WRITTEN, -1, 150), (8, 0, 0, 150, 0, WRITTEN, -1, -1)], ENTRY_DTYPE)
    assert live_entries(entries, as_of=now, expiration=DAY)["producer_id"].tolist() == [7]


@scenario("T107")
def _(_: Path) -> None:
    assert not is_late(OPEN, as_of=WRITTEN + 20 * MINUTE, **LIMIT)
    assert is_late(OPEN, as_of=WRITTEN + 20 * MINUTE + 1, **LIMIT)
