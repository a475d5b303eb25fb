"""Spark schemas as constants, each derived from its Arrow twin."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tiersnap.snapshot.tables import schemas
from tiersnap.snapshot.tables.all_tables import TABLES as ARROW_TABLES
from tiersnap.snapshot.tables.listed import LISTED as LISTED_ARROW
from tiersnap.snapshot.tables.readiness import JUDGED as JUDGED_ARROW
from tiersnap.snapshot.tasks.decode_segments import WANTED as WANTED_ARROW
from tiersnap.snapshot.tasks.list_partitions import ANSWERED as ANSWERED_ARROW
from tiersnap.snapshot.tasks.list_partitions import UNREAD as UNREAD_ARROW


def of_arrow(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow one."""
    found: StructType = from_arrow_schema(schema)
    return found


def columns_of(schema: StructType, values: Mapping[str, object]) -> list[str]:
    """Return SQL of the columns of a schema, in its order; `values` is SQL by name, and other columns are null."""
    return [
        f"cast({values.get(each.name, 'null')} as {each.dataType.simpleString()}) as {each.name}" for each in schema
    ]


LISTED = of_arrow(LISTED_ARROW)
WANTED = of_arrow(WANTED_ARROW)
UNREAD = of_arrow(UNREAD_ARROW)
ANSWERED = of_arrow(ANSWERED_ARROW)
TABLES = {name: of_arrow(schema) for name, schema in ARROW_TABLES.items()}
SEGMENTS, PARTITIONS, REMOTE_LOG_SEGMENTS = (TABLES[name] for name in ("segments", "partitions", "remote_log_segments"))
# What a run keeps of the partitions that it replays.
CHANGED = of_arrow(pa.schema([*ANSWERED_ARROW, ("start_offset", pa.int64()), ("segment_count", pa.int64())]))
JUDGED = of_arrow(JUDGED_ARROW)
RECORD_BATCHES = of_arrow(schemas.RECORD_BATCHES)
