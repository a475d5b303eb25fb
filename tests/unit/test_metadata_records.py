"""Records of `__remote_log_metadata`: Kafka's own bytes, and what cannot be one of them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.metadata.metadata_records import (
    CorruptMetadataRecordError,
    MetadataRecord,
    PartitionDelete,
    PartitionDeleteState,
    SegmentRecord,
    SegmentUpdate,
    decode,
    encode,
)
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    new_segment_id,
)
from tiersnap.snapshot.formats.flexible_encoding import FlexibleReader, compact_bytes, unsigned_varint

pytestmark = pytest.mark.unit

PARTITION = TopicIdPartition("topic1", "lZ6vvmajTWKDBUTV6SQAtQ", 42)
SEGMENT_ID = RemoteLogSegmentId("topic1", "lZ6vvmajTWKDBUTV6SQAtQ", 42, "adh9f8BMS4anaUnD8KWfWg")
METADATA = RemoteLogSegmentMetadata(
    id=SEGMENT_ID,
    start_offset=0,
    end_offset=1000,
    broker_id=2,
    max_timestamp=1700000000000,
    event_timestamp=1700000000500,
    segment_leader_epochs=((0, 0), (3, 500)),
    segment_size=100500,
    state=SegmentState.COPY_SEGMENT_STARTED,
)
_ID = "07746f70696331 959eafbe66a34d62830544d5e92400b5 0000002a 00 69d87d7fc04c4b86a76949c3f0a59f5a 00"
_SEGMENT = (
    f"01 00 00 {_ID} 0000000000000000 00000000000003e8 00000002 0000018bcfe56800 0000018bcfe569f4"
    " 03 00000000 0000000000000000 00 00000003 00000000000001f4 00 00018894 00 00 "
)
# Printed by Kafka 4.1.1's RemoteLogMetadataSerde.
GOLDEN: dict[str, tuple[MetadataRecord, str]] = {
    "a segment": (SegmentRecord(METADATA), _SEGMENT + "00"),
    "a segment without transaction index": (SegmentRecord(METADATA, txn_index_empty=True), _SEGMENT + "01 00 01 01"),
    "an update": (
        SegmentUpdate(SEGMENT_ID, 2, 1700000000900, SegmentState.COPY_SEGMENT_FINISHED, b"\x01\x02\x03"),
        f"01 01 00 {_ID} 00000002 0000018bcfe56b84 04 010203 01 00",
    ),
    "a partition delete": (
        PartitionDelete(PARTITION, 2, 1700000000900, PartitionDeleteState.DELETE_PARTITION_MARKED),
        "01 02 00 07746f70696331 959eafbe66a34d62830544d5e92400b5 0000002a 00 00000002 0000018bcfe56b84 00 00",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_bytes_are_those_of_kafkas_own_classes(name):
    record, text = GOLDEN[name]
    assert encode(record).hex() == text.replace(" ", "")
    assert decode(bytes.fromhex(text)) == record


uuids = st.builds(new_segment_id)
topics = st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248}", fullmatch=True)
longs = st.integers(0, (1 << 63) - 1)
times = st.integers(-1, (1 << 63) - 1)
ints = st.integers(-1, (1 << 31) - 1)
states = st.sampled_from(SegmentState)
custom = st.none() | st.binary(max_size=200)
ids = st.builds(RemoteLogSegmentId, topics, uuids, st.integers(0, (1 << 31) - 1), uuids)


@st.composite
def segments(draw: st.DrawFn) -> SegmentRecord:
    start, end = sorted(draw(st.tuples(longs, longs)))
    metadata = RemoteLogSegmentMetadata(
        id=draw(ids),
        start_offset=start,
        end_offset=end,
        broker_id=draw(ints),
        max_timestamp=draw(times),
        event_timestamp=draw(times),
        segment_leader_epochs=tuple(draw(st.lists(st.tuples(ints, longs), min_size=1, max_size=300))),
        segment_size=draw(ints),
        state=draw(states),
    )
    return SegmentRecord(metadata, draw(custom), draw(st.booleans()))


records = (
    segments()
    | st.builds(SegmentUpdate, ids, ints, times, states, custom)
    | st.builds(
        PartitionDelete,
        st.builds(TopicIdPartition, topics, uuids, st.integers(0, (1 << 31) - 1)),
        ints,
        times,
        st.sampled_from(PartitionDeleteState),
    )
)


@given(records)
def test_decoding_is_the_inverse_of_encoding(record):
    assert decode(encode(record)) == record


@given(records, st.data())
def test_a_record_that_ends_early_or_late_is_none(record, data):
    value = encode(record)
    with pytest.raises(CorruptMetadataRecordError):
        decode(value[: data.draw(st.integers(0, len(value) - 1))])
    with pytest.raises(CorruptMetadataRecordError):
        decode(value + b"\x00")


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_record_or_an_error_of_ours(value):
    with contextlib.suppress(CorruptMetadataRecordError):
        decode(value)


@given(segments(), st.dictionaries(st.integers(1, 1 << 20), st.binary(max_size=300), max_size=4))
def test_tags_of_a_newer_kafka_are_skipped(record, tags):
    without = encode(SegmentRecord(record.metadata, record.custom_metadata))
    fields = ({0: b"\x01"} if record.txn_index_empty else {}) | dict(sorted(tags.items()))
    tagged = b"".join(unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in fields.items())
    assert decode(without[:-1] + unsigned_varint(len(fields)) + tagged) == record


@pytest.mark.parametrize(
    "head", ["02 00 00", "01 03 00", "01 7f 00", "01 00 01"], ids=["frame", "snapshot", "api key", "version"]
)
def test_frames_keys_and_versions_of_others_are_named(head):
    value = bytes.fromhex(head) + encode(SegmentRecord(METADATA))[3:]
    with pytest.raises(CorruptMetadataRecordError, match="this tiersnap cannot decode the record"):
        decode(value)


def test_numbers_that_do_not_fit_are_refused():
    update = SegmentUpdate(SEGMENT_ID, 1 << 31, 0, SegmentState.COPY_SEGMENT_FINISHED)
    with pytest.raises(InvalidKeyError, match="does not fit"):
        encode(update)


def test_a_partition_without_topic_id_has_no_records():
    record = PartitionDelete(TopicIdPartition("old", None, 0), 1, 0, PartitionDeleteState.DELETE_PARTITION_MARKED)
    with pytest.raises(InvalidKeyError, match="need a topic id"):
        encode(record)


@given(st.integers(0, (1 << 32) - 1))
def test_varints_read_back(number):
    assert FlexibleReader(unsigned_varint(number)).unsigned_varint() == number


@given(st.none() | st.binary(max_size=300))
def test_null_and_empty_are_not_the_same(data):
    assert FlexibleReader(compact_bytes(data)).compact_bytes() == data
