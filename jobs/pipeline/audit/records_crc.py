"""The CRC of the records of each batch, computed from the batch header only (see formats.records)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.formats.records import COVERED, records_crc
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, schema_of
from tiersnap.snapshot.tables.spark_made_tables import RECORD_BATCHES

HEADERS = ("batch_length", "crc", *(COVERED.names or ()))
# `content` is a hash of the header fields that candidates for a duplicate share.
ALIKE = schema_of(
    *(RECORD_BATCHES.field(name) for name in (*PARTITION_KEY, "base_offset", *HEADERS)), ("content", pa.int64())
)
WITH_RECORDS_CRC = schema_of(
    *(RECORD_BATCHES.field(name) for name in (*PARTITION_KEY, "base_offset", "producer_id", "producer_epoch")),
    ("content", pa.int64()),
    ("records_crc", pa.int64()),
)


def add_records_crc(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of schema ALIKE with the CRC of their records added (schema WITH_RECORDS_CRC)."""
    for batch in batches:
        headers = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in HEADERS}
        kept = [batch.column(name) for name in WITH_RECORDS_CRC.names[:-1]]
        crcs = pa.array(records_crc(headers).astype(np.int64))
        yield pa.RecordBatch.from_arrays([*kept, crcs], schema=WITH_RECORDS_CRC)
