"""The output of kafka-dump-log of Kafka 4.1.1 (kafka.tools.DumpLogSegments), byte for byte.

It is the output without the options --deep-iteration and --print-data-log: one line per batch, in file order. If
kafka-dump-log crashes at a batch, the text ends at the byte where the output of kafka-dump-log ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from tiersnap.snapshot.dump.columns import Field, boolean, lines, number, number_or, word
from tiersnap.snapshot.dump.log_entries import is_valid
from tiersnap.snapshot.formats import record_batch as rb

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime", "NoTimestampType")
_DELETE_HORIZON_MASK = 0x40
_NONE = -1
_LARGEST_SEQUENCE = np.int32(2**31 - 1)


def log_entries(rows: np.ndarray) -> Iterator[memoryview]:
    """Yield the lines of log entries (LOG_ENTRY_DTYPE).

    If a codec or magic is unknown, kafka-dump-log crashes in the middle of the line. The lines then end at the byte
    where the output of kafka-dump-log ends.
    """
    unknown = np.flatnonzero(is_fatal(rows))
    whole = rows[: unknown[0]] if unknown.size else rows
    is_legacy = whole["magic"] < 2
    for run in np.split(whole, np.flatnonzero(is_legacy[1:] != is_legacy[:-1]) + 1):
        if run.size:
            yield lines([*_first_part(run), *_second_part(run)])
    if unknown.size:
        yield lines(_first_part(rows[unknown[:1]]))


def is_fatal(rows: np.ndarray) -> np.ndarray:
    """Return a mask of the entries at which kafka-dump-log crashes: codecs 5 to 7 and negative magics."""
    return ((rows["attributes"] & rb.CODEC_MASK) >= len(CODECS)) | (rows["magic"] < 0)


def timestamp_types(rows: np.ndarray) -> np.ndarray:
    """Return the timestamp type of each entry, as an index into TIMESTAMP_TYPES."""
    return np.where(rows["magic"] == 0, 2, (rows["attributes"] & rb.TIMESTAMP_TYPE_MASK) != 0)


def last_sequences(rows: np.ndarray) -> np.ndarray:
    """Return the last sequences, computed like DefaultRecordBatch.incrementSequence with 32-bit overflow."""
    base, delta = rows["base_sequence"].astype(np.int32), rows["last_offset_delta"].astype(np.int32)
    wraps = base > _LARGEST_SEQUENCE - delta
    last = np.where(wraps, delta - (_LARGEST_SEQUENCE - base) - np.int32(1), base + delta)
    return np.where(base == _NONE, _NONE, last)


def _first_part(rows: np.ndarray) -> list[str | Field]:
    last_offsets = rows["base_offset"] + rows["last_offset_delta"]
    if rows["magic"][0] < 2:
        return ["offset: ", number(last_offsets)]
    flags = rows["attributes"]
    numbers = {
        "baseOffset": rows["base_offset"],
        " lastOffset": last_offsets,
        " count": rows["record_count"],
        " baseSequence": rows["base_sequence"],
        " lastSequence": last_sequences(rows),
        " producerId": rows["producer_id"],
        " producerEpoch": rows["producer_epoch"],
        " partitionLeaderEpoch": rows["partition_leader_epoch"],
    }
    return [
        *_labelled(numbers),
        " isTransactional: ",
        boolean((flags & rb.TRANSACTIONAL_MASK) != 0),
        " isControl: ",
        boolean((flags & rb.CONTROL_MASK) != 0),
        " deleteHorizonMs: ",
        *_optional_long(rows["base_timestamp"], (flags & _DELETE_HORIZON_MASK) == 0),
    ]


def _labelled(numbers: Mapping[str, np.ndarray]) -> Iterator[str | Field]:
    """Yield each label with a colon and a space, followed by its numbers."""
    for label, values in numbers.items():
        yield f"{label}: "
        yield number(values)


def _second_part(rows: np.ndarray) -> list[str | Field]:
    sizes = rows["batch_length"].astype(np.int64) + rb.LOG_OVERHEAD
    return [
        *_labelled({" position": rows["position"]}),
        " ",
        word(timestamp_types(rows), TIMESTAMP_TYPES),
        *_labelled({"": rows["max_timestamp"], " size": sizes, " magic": rows["magic"]}),
        " compresscodec: ",
        word(rows["attributes"] & rb.CODEC_MASK, CODECS),
        *_labelled({" crc": rows["crc"]}),
        " isvalid: ",
        boolean(is_valid(rows)),
        "\n",
    ]


def producers(entries: np.ndarray) -> memoryview:
    """Return the lines of snapshot entries (ENTRY_DTYPE)."""
    has_batch = entries["last_offset"] >= 0
    pieces: list[str | Field] = [
        *_labelled({"producerId": entries["producer_id"], " producerEpoch": entries["producer_epoch"]}),
        *_labelled({" coordinatorEpoch": entries["coordinator_epoch"]}),
        " currentTxnFirstOffset: ",
        *_optional_long(entries["current_txn_first_offset"], entries["current_txn_first_offset"] < 0),
        *_labelled({" lastTimestamp": entries["timestamp"]}),
        " ",
    ]
    for label, values in (
        ("firstSequence: ", _first_sequences(entries)),
        (" lastSequence: ", entries["last_sequence"]),
        (" lastOffset: ", entries["last_offset"]),
        (" offsetDelta: ", entries["offset_delta"]),
        (" timestamp: ", entries["timestamp"]),
    ):
        pieces += [word(has_batch, ("", label)), number_or(values, ~has_batch, "")]
    return lines([*pieces, "\n"])


def _first_sequences(entries: np.ndarray) -> np.ndarray:
    """Return the first sequences of the last batches, computed like DefaultRecordBatch.decrementSequence."""
    last, delta = entries["last_sequence"].astype(np.int32), entries["offset_delta"].astype(np.int32)
    return np.where(last < delta, _LARGEST_SEQUENCE - (delta - last) + np.int32(1), last - delta)


def offset_index(offsets: np.ndarray, positions: np.ndarray) -> memoryview:
    """Return the lines of offset index entries. Offsets are absolute."""
    return lines([*_labelled({"offset": offsets, " position": positions}), "\n"])


def time_index(timestamps: np.ndarray, offsets: np.ndarray) -> memoryview:
    """Return the lines of time index entries. Offsets are absolute."""
    return lines([*_labelled({"timestamp": timestamps, " offset": offsets}), "\n"])


def transaction_index(raw: np.ndarray) -> memoryview:
    """Return the lines of transaction index entries (ABORTED_TXN_ON_DISK)."""
    numbers = {
        "version": raw["version"],
        " producerId": raw["producer_id"],
        " firstOffset": raw["first_offset"],
        " lastOffset": raw["last_offset"],
        " lastStableOffset": raw["last_stable_offset"],
    }
    return lines([*_labelled(numbers), "\n"])


def _optional_long(values: np.ndarray, absent: np.ndarray) -> list[str | Field]:
    return [
        word(absent, ("OptionalLong[", "OptionalLong.empty")),
        number_or(values, absent, ""),
        word(absent, ("]", "")),
    ]


def java_path(path: str) -> str:
    """Return a path in the form of java.io.File."""
    return re.sub("/+", "/", path).rstrip("/") or "/"
