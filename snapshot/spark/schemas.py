"""Spark schemas as constants, each derived from its Arrow twin in snapshot.tables."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tiersnap.snapshot import tables
from tiersnap.snapshot.partition_rows import PARTITIONS as PARTITIONS_ARROW

RECORD_BATCHES: StructType = from_arrow_schema(tables.RECORD_BATCHES)
PRODUCER_DELTAS: StructType = from_arrow_schema(tables.PRODUCER_DELTAS)
SEGMENTS: StructType = from_arrow_schema(tables.SEGMENTS)
SNAPSHOTS: StructType = from_arrow_schema(tables.SNAPSHOTS)
REMOTE_LOG_SEGMENTS: StructType = from_arrow_schema(tables.REMOTE_LOG_SEGMENTS)
READINESS: StructType = from_arrow_schema(tables.READINESS)
PARTITIONS: StructType = from_arrow_schema(PARTITIONS_ARROW)
