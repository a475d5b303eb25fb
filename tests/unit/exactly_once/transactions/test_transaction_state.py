"""Keys and values of `__transaction_state`: bytes of Kafka 4.1.1, of a plain encoder, and damaged ones."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import transaction_state as encoder
from tiersnap.snapshot.errors import CorruptTransactionStateError, UnknownVersionError
from tiersnap.snapshot.formats.transaction_state import (
    TransactionLogValue,
    TransactionStatus,
    decode_key,
    decode_value,
)

pytestmark = pytest.mark.unit

UPDATED, STARTED = 1700000001000, 1700000000500
ORDERS = (("orders", 0), ("orders", 2), ("__consumer_offsets", 12))
# Written by TransactionLog.valueToBytes of Kafka 4.1.1, but for the one with all tags (a schema's own writer).
GOLDEN = {
    "Empty, version 0": (
        "0000 0000000000000fa0 0000 0000ea60 00 ffffffff 0000018bcfe56800 ffffffffffffffff",
        TransactionLogValue(0, 4000, 0, 60000, TransactionStatus.EMPTY, None, 1700000000000, -1),
    ),
    "Ongoing, version 0": (
        "0000 0000000000000fa0 0007 0000ea60 01 00000002 0006 6f7264657273 00000002 00000000 00000002"
        "0012 5f5f636f6e73756d65725f6f666673657473 00000001 0000000c 0000018bcfe56be8 0000018bcfe569f4",
        TransactionLogValue(0, 4000, 7, 60000, TransactionStatus.ONGOING, ORDERS, UPDATED, STARTED),
    ),
    "CompleteCommit, version 0": (
        "0000 0000000000000fa0 0007 0000ea60 04 00000000 0000018bcfe56fd0 0000018bcfe569f4",
        TransactionLogValue(0, 4000, 7, 60000, TransactionStatus.COMPLETE_COMMIT, (), 1700000002000, STARTED),
    ),
    "Empty, version 1": (
        "0001 0000000000000fa0 0000 0000ea60 00 00 0000018bcfe56800 ffffffffffffffff 00",
        TransactionLogValue(1, 4000, 0, 60000, TransactionStatus.EMPTY, None, 1700000000000, -1),
    ),
    "Ongoing, version 1": (
        "0001 0000000000000fa0 0007 0000ea60 01 03 07 6f7264657273 03 00000000 00000002 00"
        "13 5f5f636f6e73756d65725f6f666673657473 02 0000000c 00 0000018bcfe56be8 0000018bcfe569f4 00",
        TransactionLogValue(1, 4000, 7, 60000, TransactionStatus.ONGOING, ORDERS, UPDATED, STARTED),
    ),
    "CompleteCommit, version 1": (
        "0001 0000000000000fa0 0008 0000ea60 04 01 0000018bcfe56fd0 0000018bcfe569f4 01 02 02 0002",
        TransactionLogValue(
            1, 4000, 8, 60000, TransactionStatus.COMPLETE_COMMIT, (), 1700000002000, STARTED,
            client_transaction_version=2,
        ),
    ),
    "PrepareCommit with all tags": (
        "0001 0000000000000fa1 0000 0000ea60 02 02 07 6f7264657273 02 00000000 00 0000018bcfe56fd0 0000018bcfe569f4"
        "04 00 08 0000000000000fa0 01 08 0000000000000fa2 02 02 0002 03 02 0005",
        TransactionLogValue(
            1, 4001, 0, 60000, TransactionStatus.PREPARE_COMMIT, (("orders", 0),), 1700000002000, STARTED,
            4000, 4002, 2, 5,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("hexadecimal", "expected"), GOLDEN.values(), ids=GOLDEN.keys())
def test_a_value_of_kafka_is_decoded_field_by_field(hexadecimal: str, expected: TransactionLogValue) -> None:
    assert decode_value(bytes.fromhex(hexadecimal)) == expected


def test_the_key_of_kafka_is_decoded() -> None:
    assert decode_key(bytes.fromhex("000000066d792d74786e")) == "my-txn"
    assert decode_key(encoder.key("tx-😀")) == "tx-😀"


int64, int16 = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
lists = st.none() | st.lists(st.tuples(names, st.lists(int32, max_size=4)), max_size=4)
known_tags = st.fixed_dictionaries(
    {},
    optional={
        0: int64.map(lambda number: struct.pack(">q", number)),
        1: int64.map(lambda number: struct.pack(">q", number)),
        2: int16.map(lambda number: struct.pack(">h", number)),
        3: int16.map(lambda number: struct.pack(">h", number)),
    },
)
later_tags = st.dictionaries(st.integers(4, 200), st.binary(max_size=200), max_size=3)


@given(st.data(), st.sampled_from([0, 1]), int64, int16, int32, st.integers(0, 5), lists, int64, int64)
def test_whatever_was_encoded_is_decoded(
    data: st.DataObject,
    version: int,
    producer_id: int,
    epoch: int,
    timeout: int,
    state: int,
    partitions,
    updated,
    started,
) -> None:
    tags = {**data.draw(known_tags), **data.draw(later_tags)} if version else {}
    decoded = decode_value(
        encoder.value(
            producer_id, epoch, timeout=timeout, state=state, partitions=partitions, updated=updated,
            started=started, version=version, tags=tags,
        )
    )  # fmt: skip
    flat = (
        None
        if partitions is None
        else tuple((topic, number) for topic, all_of_it in partitions for number in all_of_it)
    )
    assert decoded == TransactionLogValue(
        version, producer_id, epoch, timeout, TransactionStatus.of_number(state), flat, updated, started,
        *(int.from_bytes(tags[tag], signed=True) if tag in tags else none for tag, none in enumerate((-1, -1, 0, -1))),
        unknown_tags={tag: content for tag, content in tags.items() if tag > 3},
    )  # fmt: skip


def test_a_tag_of_a_later_schema_is_kept_with_its_bytes() -> None:
    decoded = decode_value(encoder.value(version=1, tags={2: b"\0\2", 9: b"abc"}))
    assert (decoded.client_transaction_version, decoded.unknown_tags) == (2, {9: b"abc"})


def test_null_is_told_from_an_empty_list_of_partitions() -> None:
    for version in (0, 1):
        assert decode_value(encoder.value(version=version)).partitions is None
        assert decode_value(encoder.value(version=version, partitions=[])).partitions == ()


def test_the_partitions_of_an_empty_transaction_do_not_count() -> None:
    listed = [("orders", [1])]
    assert not decode_value(encoder.value(partitions=listed)).has_partition(("orders", 1))
    ongoing = decode_value(encoder.value(partitions=listed, state=encoder.ONGOING))
    assert ongoing.has_partition(("orders", 1))
    assert not ongoing.has_partition(("orders", 2))


def test_states_are_named_as_kafka_names_them() -> None:
    assert list(map(str, TransactionStatus)) == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
    ]  # fmt: skip


@pytest.mark.parametrize("version", [2, 3, -1, 32767])
def test_a_value_of_an_unknown_version_is_told_as_such(version: int) -> None:
    with pytest.raises(UnknownVersionError, match=f"version of the value is {version}"):
        decode_value(struct.pack(">h", version) + encoder.value(version=1)[2:])


def test_a_key_of_another_version_is_told_as_such() -> None:
    with pytest.raises(UnknownVersionError, match="the version of the key is 1"):
        decode_key(encoder.key("x", version=1))


@pytest.mark.parametrize("state", [6, 7, 9, -1])
def test_a_state_that_is_never_written_is_damage(state: int) -> None:
    with pytest.raises(CorruptTransactionStateError, match=str(state)):
        decode_value(encoder.value(state=state))


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\0\0\5abc", b"\0\0\0\1ab", b"\0\0\xff\xff", b"\0\0\0\1\xff"])
def test_a_key_that_does_not_follow_its_schema_is_damage(key: bytes | None) -> None:
    with pytest.raises(CorruptTransactionStateError):
        decode_key(key)


@given(st.data(), st.sampled_from([0, 1]))
def test_a_value_cut_anywhere_is_damage(data: st.DataObject, version: int) -> None:
    whole = encoder.value(
        state=1, partitions=[("orders", [0, 2]), ("t", [])], version=version, tags={2: b"\0\2"} if version else None
    )
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptTransactionStateError):
        decode_value(whole[:cut])
    with pytest.raises(CorruptTransactionStateError):
        decode_value(whole + b"\0")


@given(st.binary(max_size=120), st.sampled_from([b"", b"\0\0", b"\0\1"]))
def test_any_bytes_are_a_value_or_a_problem_and_never_a_crash(data: bytes, version: bytes) -> None:
    try:
        assert isinstance(decode_value(version + data), TransactionLogValue)
    except (CorruptTransactionStateError, UnknownVersionError) as error:
        assert error.hint
