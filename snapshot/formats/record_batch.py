"""The layout of record batch headers in a log segment, and the dtype of the decoded headers.

A segment file is a sequence of entries. All formats share the first 17 bytes up to the magic:

    off len type    field                  note
      0   8 int64   baseOffset
      8   4 int32   batchLength            bytes after this field; the entry is 12 + batchLength long
     12   4 int32   partitionLeaderEpoch   not covered by the CRC (magic 0 and 1: their CRC is here)
     16   1 int8    magic                  0 and 1: message sets before Kafka 0.11, not decoded
     17   4 uint32  crc                    CRC-32C of bytes 21 .. end
     21   2 int16   attributes             0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
     23   4 int32   lastOffsetDelta        last offset = baseOffset + this
     27   8 int64   baseTimestamp          ms
     35   8 int64   maxTimestamp           ms
     43   8 int64   producerId             -1 = none
     51   2 int16   producerEpoch
     53   4 int32   baseSequence           -1 = none
     57   4 int32   recordCount            0 in a batch that compaction emptied
     61   .         records

Big-endian. Follows org.apache.kafka.common.record.DefaultRecordBatch and FileLogInputStream.

Decoding stops without a finding if fewer than 18 bytes remain, or if the entry is longer than the rest of the file.
Decoding stops with a finding if an entry is too short for its header, or has an unknown magic or a wrong CRC. A
broker's recovery would truncate the segment at such an entry.
"""

from __future__ import annotations

import numpy as np

HEADER_LENGTH = 61
LOG_OVERHEAD = 12
MAGIC_POSITION = 16
SMALLEST_READ = 18
SMALLEST_LEGACY_SIZE = 14
SMALLEST_V2_SIZE = HEADER_LENGTH - LOG_OVERHEAD
CRC_START = 21

TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
CODEC_MASK = 0x07

NO_CONTROL_TYPE = -1
ABORT = 0
COMMIT = 1

RECORD_BATCH_DTYPE = np.dtype(
    [
        ("position", np.int64),  # byte position of the batch in its segment file
        ("base_offset", np.int64),
        ("batch_length", np.int32),
        ("partition_leader_epoch", np.int32),
        ("magic", np.int8),
        ("crc", np.int64),  # unsigned on disk; Spark has no unsigned types
        ("attributes", np.int16),
        ("last_offset_delta", np.int32),
        ("base_timestamp", np.int64),  # ms
        ("max_timestamp", np.int64),  # ms
        ("producer_id", np.int64),
        ("producer_epoch", np.int16),
        ("base_sequence", np.int32),
        ("record_count", np.int32),
        ("control_type", np.int16),  # of the first record of a control batch, else -1
        ("coordinator_epoch", np.int32),  # of a transaction marker, else -1
        ("control_timestamp", np.int64),  # ms, record timestamp of a control record, else -1
    ],
    align=True,
)
