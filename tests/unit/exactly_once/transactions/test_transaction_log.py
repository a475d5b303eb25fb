"""`__transaction_state` in log directories: newest states, and a finding for whatever hides one."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import transaction_state as encoder
from tests.reference.transaction_state import COMPLETE_ABORT, COMPLETE_COMMIT, ONGOING, key, value, write_states
from tiersnap.snapshot.exactly_once.transactions.coordinator import TransactionRecord, newest_states, partition_of
from tiersnap.snapshot.exactly_once.transactions.kinds import RecordPlace
from tiersnap.snapshot.exactly_once.transactions.transaction_log import TransactionLog, read_transaction_log
from tiersnap.snapshot.formats.transaction_state import TransactionStatus, decode_value
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import open_log_dir

pytestmark = pytest.mark.unit

UNKNOWN = struct.pack(">h", 2) + value()[2:]
IDS = [f"app-{number}" for number in range(12)]


def read(*log_dirs: Path, count: int | None = None) -> TransactionLog:
    return read_transaction_log([open_log_dir(str(each)) for each in log_dirs], partition_count=count)


def write_everything(log_dir: Path, count: int, ids: list[str] = IDS) -> None:
    """Each id in its partition, producer ids from 100 on."""
    for partition in range(count):
        here = [(number, name) for number, name in enumerate(ids, 100) if partition_of(name, count) == partition]
        write_states(log_dir, partition, *((key(name), value(number)) for number, name in here))


def kinds(log: TransactionLog) -> list[FindingKind]:
    return [finding.finding_kind for finding in log.findings]


records = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.sampled_from("abcd"), st.sampled_from([None, 1, 2, 3])),
    unique_by=lambda record: record[:2],
)


@given(records)
def test_the_last_record_of_an_id_counts_and_a_tombstone_takes_it_away(written) -> None:
    states = newest_states(
        TransactionRecord(
            RecordPlace(partition, offset, 0), name, None if number is None else decode_value(value(number))
        )
        for partition, offset, name, number in written
    )
    last = {name: number for _, _, name, number in sorted(written)}
    assert {name: each.value.producer_id for name, each in states.known.items()} == {
        name: number for name, number in last.items() if number is not None
    }
    assert states.found_in.keys() == last.keys()
    assert list(states.known) == sorted(states.known)


def test_the_newest_state_of_each_id_is_read_from_the_segments(tmp_path: Path) -> None:
    ongoing = value(5, 3, state=ONGOING, partitions=[("orders", [0, 2])], started=7, version=1)
    write_states(
        tmp_path,
        0,
        (key("a"), value(4)),
        (key("a"), ongoing),
        (key("gone"), value(9)),
        (key("gone"), None),
    )
    log = read(tmp_path, count=1)
    assert list(log.states.known) == ["a"]
    known = log.states.known["a"]
    assert (known.record.partition, known.record.offset, known.value) == (0, 1, decode_value(ongoing))
    assert log.states.of_producer(5) is known
    assert log.states.of_producer(4) is None
    assert (log.findings, log.missing_finding, log.is_complete) == ((), None, True)


def test_an_id_that_had_a_producer_id_before_is_found_by_it(tmp_path: Path) -> None:
    tags = {0: struct.pack(">q", 4), 1: struct.pack(">q", 6)}
    write_states(tmp_path, 0, (key("a"), value(5, version=1, tags=tags)))
    states = read(tmp_path, count=1).states
    assert [states.formerly_of(number) is not None for number in (4, 5, 6)] == [True, False, True]


def test_the_number_of_partitions_is_told_from_where_the_ids_are(tmp_path: Path) -> None:
    write_everything(tmp_path, 5)
    log = read(tmp_path)
    assert (log.partition_count, log.is_count_sure, log.is_complete) == (5, True, True)


def test_partitions_on_several_disks_are_one_topic(tmp_path: Path) -> None:
    write_everything(tmp_path / "a", 5)
    (tmp_path / "b").mkdir()
    for number in (1, 4):
        (tmp_path / f"a/__transaction_state-{number}").rename(tmp_path / f"b/__transaction_state-{number}")
    assert read(tmp_path / "a").missing == (1, 4)
    assert read(tmp_path / "a", tmp_path / "b").is_complete


def test_missing_partitions_are_named_once(tmp_path: Path) -> None:
    write_everything(tmp_path, 5)
    for path in sorted((tmp_path / "__transaction_state-3").iterdir()):
        path.unlink()
    (tmp_path / "__transaction_state-3").rmdir()
    log = read(tmp_path)
    assert log.missing == (3,)
    assert not log.is_complete
    assert log.missing_finding is not None
    assert log.missing_finding.finding_kind is FindingKind.MISSING_PARTITION
    assert log.missing_finding.message.endswith("were not read to their end: 3")
    assert all(log.is_current(name) == (partition_of(name, 5) != 3) for name in IDS)


def test_of_a_count_of_millions_the_first_missing_partitions_are_named(tmp_path: Path) -> None:
    write_everything(tmp_path, 5)
    log = read(tmp_path, count=3_000_000)
    assert log.missing == tuple(range(5, 1005))
    (tmp_path / "__transaction_state-2147483647").mkdir()
    assert read(tmp_path).missing == (*range(5, 1005), 2147483647)


def test_without_any_partition_nothing_is_known_and_that_is_said(tmp_path: Path) -> None:
    from tests.reference.small_log import write_small_log

    write_small_log(tmp_path, with_snapshots=False)
    log = read(tmp_path)
    assert (log.partition_count, log.is_complete, log.is_current("a")) == (None, False, False)
    assert log.missing_finding is not None
    assert "no partition" in log.missing_finding.message


def test_a_topic_without_ids_leaves_its_number_of_partitions_open_until_it_is_given(tmp_path: Path) -> None:
    for partition in range(3):
        write_states(tmp_path, partition)
    unsure = read(tmp_path)
    assert not unsure.is_complete
    assert unsure.missing_finding is not None
    assert "--partition-count" in unsure.missing_finding.message
    assert read(tmp_path, count=3).is_complete
    assert read(tmp_path, count=4).missing == (3,)


def test_a_wrong_number_of_partitions_is_a_finding_for_each_partition_with_misplaced_ids(tmp_path: Path) -> None:
    write_everything(tmp_path, 5)
    log = read(tmp_path, count=50)
    wrong = {partition_of(name, 5) for name in IDS if partition_of(name, 50) != partition_of(name, 5)}
    assert Counter(kinds(log)) == {FindingKind.WRONG_PARTITION: len(wrong)}
    assert len(log.missing) == 45


def test_one_id_in_the_wrong_partition_is_a_finding(tmp_path: Path) -> None:
    write_everything(tmp_path, 50)
    folder = tmp_path / f"__transaction_state-{(partition_of('my-txn', 50) + 49) % 50}"
    (folder / f"{0:020d}.log").write_bytes(encoder.batch(0, (key("my-txn"), value(1))))
    log = read(tmp_path)
    assert log.partition_count == 50
    (finding,) = log.findings
    assert finding.finding_kind is FindingKind.WRONG_PARTITION
    assert "'my-txn' belongs to __transaction_state-45" in finding.message


def test_an_unknown_version_or_a_corrupt_value_is_a_finding_and_the_rest_is_read(tmp_path: Path) -> None:
    write_states(
        tmp_path, 0,
        (key("a"), value(1)), (key("a"), UNKNOWN), (key("b"), value(2, state=9)), (key("c"), value(3)),
        (key("d"), UNKNOWN), (key("d"), value(4)),
    )  # fmt: skip
    log = read(tmp_path, count=1)
    assert kinds(log) == [
        FindingKind.UNKNOWN_VERSION,
        FindingKind.CORRUPT_TRANSACTION_STATE,
        FindingKind.UNKNOWN_VERSION,
    ]
    assert "offset 1 of 'a': the version of the value is 2" in log.findings[0].message
    assert log.states.unreadable == {"a", "b"}
    assert {name: each.value.producer_id for name, each in log.states.known.items()} == {"a": 1, "c": 3, "d": 4}
    assert [log.is_current(name) for name in "abcd"] == [False, False, True, True]
    assert not log.is_complete


def test_a_key_of_an_unknown_type_hides_no_state_and_a_missing_key_may(tmp_path: Path) -> None:
    write_states(tmp_path / "type", 0, (key("a"), value(1)), (key("b", version=1), value(2)))
    log = read(tmp_path / "type", count=1)
    assert (kinds(log), log.is_complete) == ([FindingKind.UNKNOWN_VERSION], True)
    write_states(tmp_path / "none", 0, (key("a"), value(1)), (None, value(2)))
    log = read(tmp_path / "none", count=1)
    assert (kinds(log), log.is_complete) == ([FindingKind.CORRUPT_TRANSACTION_STATE], False)


def test_a_partition_whose_log_is_damaged_counts_as_missing_and_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    folder = write_states(tmp_path, 0, (key("a"), value(1)), (key("a"), value(2)))
    path = folder / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    log = read(tmp_path, count=1)
    assert kinds(log) == [FindingKind.BAD_CRC]
    assert (log.missing, log.states.known["a"].value.producer_id, log.is_current("a")) == ((0,), 1, False)


@pytest.mark.parametrize("state", [COMPLETE_COMMIT, COMPLETE_ABORT])
def test_a_complete_state_without_its_prepare_is_taken_as_compaction_leaves_it(tmp_path: Path, state: int) -> None:
    ongoing = value(1, state=ONGOING, partitions=[("t", [0])], started=1)
    write_states(tmp_path, 0, (key("a"), ongoing), (key("a"), value(1, state=state, partitions=[], started=1)))
    log = read(tmp_path, count=1)
    assert log.states.known["a"].value.transaction_state is TransactionStatus.of_number(state)
    assert log.findings == ()
