"""Spark schemas as constants, each derived from its Arrow twin."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tiersnap.snapshot.tables import spark_made_tables
from tiersnap.snapshot.tables.all_tables import TABLES as ARROW_TABLES
from tiersnap.snapshot.tables.listed import LISTED as LISTED_ARROW


def of_arrow(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow one."""
    found: StructType = from_arrow_schema(schema)
    return found


def in_columns(rows: DataFrame, schema: StructType, values: Mapping[str, Column]) -> DataFrame:
    """Return rows in the columns of a schema: those that they have, then `values`, and null in all others."""
    there = {name: F.col(name) for name in rows.columns} | dict(values)
    columns = ((each, there.get(each.name, F.lit(None))) for each in schema)
    return rows.select(*(column.cast(each.dataType).alias(each.name) for each, column in columns))


LISTED = of_arrow(LISTED_ARROW)
TABLES = {name: of_arrow(schema) for name, schema in ARROW_TABLES.items()}
SEGMENTS, PARTITIONS, REMOTE_LOG_SEGMENTS = (TABLES[name] for name in ("segments", "partitions", "remote_log_segments"))
RECORD_BATCHES = of_arrow(spark_made_tables.RECORD_BATCHES)
