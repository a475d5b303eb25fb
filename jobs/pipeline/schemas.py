"""Spark schemas as constants, each derived from its Arrow twin."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tiersnap.snapshot.tables import schemas
from tiersnap.snapshot.tables.listed import LISTED as LISTED_ARROW
from tiersnap.snapshot.tasks.decode_segments import WANTED as WANTED_ARROW
from tiersnap.snapshot.tasks.list_partitions import FOLDERS as FOLDERS_ARROW
from tiersnap.snapshot.tasks.look_again import ANSWERED as ANSWERED_ARROW
from tiersnap.snapshot.tasks.look_again import UNREAD as UNREAD_ARROW
from tiersnap.snapshot.tasks.partition_input import INPUT as INPUT_ARROW
from tiersnap.snapshot.tasks.partition_input import SURVEY_INPUT as SURVEY_INPUT_ARROW


def of_arrow(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow one."""
    found: StructType = from_arrow_schema(schema)
    return found


FOLDERS = of_arrow(FOLDERS_ARROW)
LISTED = of_arrow(LISTED_ARROW)
WANTED = of_arrow(WANTED_ARROW)
INPUT = of_arrow(INPUT_ARROW)
UNREAD = of_arrow(UNREAD_ARROW)
ANSWERED = of_arrow(ANSWERED_ARROW)
SURVEY_INPUT = of_arrow(SURVEY_INPUT_ARROW)
SEGMENTS = of_arrow(schemas.SEGMENTS)
PARTITIONS = of_arrow(schemas.PARTITIONS)
REMOTE_LOG_SEGMENTS = of_arrow(schemas.REMOTE_LOG_SEGMENTS)
RUNS = of_arrow(schemas.RUNS)
PRODUCER_DELTAS = of_arrow(schemas.PRODUCER_DELTAS)
READINESS = of_arrow(schemas.READINESS)
JUDGED = of_arrow(schemas.JUDGED)
RECORD_BATCHES = of_arrow(schemas.RECORD_BATCHES)
TABLES = {name: of_arrow(schema) for name, schema in schemas.TABLES.items()}
