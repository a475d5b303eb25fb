"""T01 to T14: records of `__transaction_state`, and where they belong."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.reference import transaction_state as encoder
from tests.reference.transaction_state import COMPLETE_COMMIT, EMPTY, ONGOING, PREPARE_COMMIT, key, value, write_states
from tests.reference.transitions import illegal_transition
from tests.unit.exactly_once.scenarios.registry import scenario
from tiersnap.snapshot.errors import CorruptTransactionStateError, UnknownVersionError
from tiersnap.snapshot.exactly_once.transactions.coordinator import partition_of
from tiersnap.snapshot.exactly_once.transactions.transaction_log import TransactionLog, read_transaction_log
from tiersnap.snapshot.formats.transaction_state import TransactionLogValue, TransactionStatus, decode_key, decode_value
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import open_log_dir

STARTED, UPDATED = 1700000000500, 1700000001000
LISTED = (("orders", 0), ("orders", 2), ("__consumer_offsets", 12))


def read(tmp_path: Path, *records: tuple[bytes | None, bytes | None], partition: int = 0, count: int = 1):
    write_states(tmp_path, partition, *records)
    return reread(tmp_path, count)


def reread(tmp_path: Path, count: int = 1, *, stops_at_unknown: bool = False):
    opened = open_log_dir(str(tmp_path))
    return read_transaction_log([opened], partition_count=count, stops_at_unknown=stops_at_unknown)


def kinds(log: TransactionLog) -> list[FindingKind]:
    return [finding.finding_kind for finding in log.findings]


@scenario("T01")
def _(_: Path) -> None:
    assert decode_key(bytes.fromhex("000000066d792d74786e")) == "my-txn"


@scenario("T02")
def _(_: Path) -> None:
    data = "0000 0000000000000fa0 0000 0000ea60 00 ffffffff 0000018bcfe56800 ffffffffffffffff"
    expected = TransactionLogValue(0, 4000, 0, 60000, TransactionStatus.EMPTY, None, 1700000000000, -1)
    assert decode_value(bytes.fromhex(data)) == expected
    assert not expected.has_partition(("orders", 0))


@scenario("T03")
def _(_: Path) -> None:
    old = (
        "0000 0000000000000fa0 0007 0000ea60 01 00000002 0006 6f7264657273 00000002 00000000 00000002 0012"
        "5f5f636f6e73756d65725f6f666673657473 00000001 0000000c 0000018bcfe56be8 0000018bcfe569f4"
    )
    new = (
        "0001 0000000000000fa0 0007 0000ea60 01 03 07 6f7264657273 03 00000000 00000002 00 13"
        "5f5f636f6e73756d65725f6f666673657473 02 0000000c 00 0000018bcfe56be8 0000018bcfe569f4 00"
    )
    for version, data in enumerate((old, new)):
        expected = (version, 4000, 7, 60000, TransactionStatus.ONGOING, LISTED, UPDATED, STARTED)
        assert decode_value(bytes.fromhex(data)) == TransactionLogValue(*expected)


@scenario("T04")
def _(_: Path) -> None:
    data = (
        "0001 0000000000000fa1 0000 0000ea60 02 02 07 6f7264657273 02 00000000 00 0000018bcfe56fd0 0000018bcfe569f4"
        "04 00 08 0000000000000fa0 01 08 0000000000000fa2 02 02 0002 03 02 0005"
    )
    found = decode_value(bytes.fromhex(data))
    assert (found.previous_producer_id, found.next_producer_id) == (4000, 4002)
    assert (found.client_transaction_version, found.next_producer_epoch) == (2, 5)


@scenario("T05")
def _(_: Path) -> None:
    found = decode_value(value(version=1, tags={2: struct.pack(">h", 2), 9: b"abc"}))
    assert (found.client_transaction_version, found.unknown_tags) == (2, {9: b"abc"})


@scenario("T06")
def _(tmp_path: Path) -> None:
    newer = struct.pack(">h", 2) + value()[2:]
    with pytest.raises(UnknownVersionError, match="the version of the value is 2, expected 0 to 1"):
        decode_value(newer)
    log = read(tmp_path, (key("a"), value(1)), (key("a"), newer), (key("b"), value(2)))
    assert kinds(log) == [FindingKind.UNKNOWN_VERSION]
    # Brokers from 4.3 on pass this one record by; what an older one makes of the id nobody can say.
    assert {name: each.value.producer_id for name, each in log.states.known.items()} == {"a": 1, "b": 2}
    assert (log.states.unreadable, log.is_current("a"), log.is_current("b")) == ({"a"}, False, True)
    older = reread(tmp_path, stops_at_unknown=True)
    assert kinds(older) == [FindingKind.UNKNOWN_VERSION]
    assert list(older.states.known) == ["a"], "before 4.3 a coordinator knows nothing of what is behind"


@scenario("T07")
def _(tmp_path: Path) -> None:
    log = read(tmp_path, (key("a", version=1), value(9)), (key("b"), value(2)))
    assert (kinds(log), list(log.states.known)) == ([FindingKind.UNKNOWN_VERSION], ["b"])


@scenario("T08")
def _(tmp_path: Path) -> None:
    log = read(
        tmp_path, (key("a"), value(7, state=ONGOING, started=STARTED, partitions=[("t", [0])])), (key("a"), None)
    )
    assert (log.findings, log.states.known, log.states.of_producer(7)) == ((), {}, None)


@scenario("T09")
def _(tmp_path: Path) -> None:
    for status in (6, 7, 9):
        with pytest.raises(CorruptTransactionStateError, match=f"{status} is not a valid TransactionStatus"):
            decode_value(value(state=status))
        log = read(tmp_path / str(status), (key("a"), value(state=status)))
        assert kinds(log) == [FindingKind.CORRUPT_TRANSACTION_STATE]


@scenario("T10")
def _(tmp_path: Path) -> None:
    log = read(tmp_path, (key("a"), value(7, state=COMPLETE_COMMIT, partitions=[], started=-1)))
    assert kinds(log) == [FindingKind.CORRUPT_TRANSACTION_STATE]
    assert "'a': a transaction in state CompleteCommit has no start time" in log.findings[0].message
    assert log.states.known["a"].value.producer_id == 7, "a broker loads it"


@scenario("T11")
def _(_: Path) -> None:
    ids = ("my-txn", "", "a", "polygenelubricants", "tx-é", "tx-😀", "app-0_0", "app-1_12")
    assert [partition_of(each, 50) for each in ids] == [45, 0, 47, 0, 4, 0, 29, 49]


@scenario("T12")
def _(tmp_path: Path) -> None:
    log = read(tmp_path, (key("my-txn"), value()), partition=44, count=50)
    assert kinds(log) == [FindingKind.WRONG_PARTITION]
    assert "'my-txn' belongs to __transaction_state-45" in log.findings[0].message


@scenario("T13")
def _(_: Path) -> None:
    empty, committed = value(version=1), value(version=1, state=COMPLETE_COMMIT, partitions=[], started=STARTED)
    assert (empty[17:18], committed[17:18]) == (b"\0", b"\1")
    assert (decode_value(empty).partitions, decode_value(committed).partitions) == (None, ())


@scenario("T14")
def _(_: Path) -> None:
    begun = {"partitions": [("t", [0])], "started": STARTED}
    empty, ongoing, prepared, committed = (
        decode_value(encoder.value(**each))
        for each in (
            {"state": EMPTY},
            {"state": ONGOING, **begun},
            {"state": PREPARE_COMMIT, **begun},
            {"state": COMPLETE_COMMIT, "partitions": [], "started": STARTED},
        )
    )
    assert illegal_transition(ongoing, committed) == ""
    assert illegal_transition(ongoing, committed, is_cleaned=False) == "CompleteCommit after Ongoing"
    for before, after in (
        (None, empty),
        (empty, ongoing),
        (ongoing, ongoing),
        (ongoing, prepared),
        (prepared, committed),
    ):
        assert illegal_transition(before, after, is_cleaned=False) == ""
    assert illegal_transition(committed, prepared, is_cleaned=False) == "PrepareCommit after CompleteCommit"
