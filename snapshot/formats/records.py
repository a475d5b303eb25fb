"""The records inside a batch of magic 2, decompressed.

    varint length         bytes after this field
    int8   attributes
    varint timestampDelta ms, to the batch's base timestamp
    varint offsetDelta    to the batch's base offset
    varint key length     -1 = null; the key
    varint value length   -1 = null; the value
    varint header count   the headers, not decoded here

Varints are zig-zag. Follows org.apache.kafka.common.record.DefaultRecord. Only records of Kafka's own topics are read.
"""

from __future__ import annotations

import numpy as np

# Where a record's parts lie in the bytes that were walked; a negative length is null.
SPAN_DTYPE = np.dtype(
    [
        ("position", "<i8"),  # byte position of its batch in the segment
        ("offset", "<i8"),
        ("timestamp", "<i8"),  # ms
        ("key_start", "<i8"),
        ("key_length", "<i8"),
        ("value_start", "<i8"),
        ("value_length", "<i8"),
    ]
)
