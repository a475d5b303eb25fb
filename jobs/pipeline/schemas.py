"""The Spark schemas of all tables and stages, derived from their Arrow schemas."""

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
    """Return the Spark schema of an Arrow schema."""
    found: StructType = from_arrow_schema(schema)
    return found


def in_columns(rows: DataFrame, schema: StructType, values: Mapping[str, Column]) -> DataFrame:
    """Return rows with exactly the columns of a schema.

    A column's value comes from `values`, else from `rows`, else it is null.
    """
    found = {name: F.col(name) for name in rows.columns} | dict(values)
    columns: list[Column] = []
    for field in schema:
        column = found.get(field.name, F.lit(None))
        columns.append(column.cast(field.dataType).alias(field.name))
    return rows.select(*columns)


LISTED = of_arrow(LISTED_ARROW)
TABLES = {name: of_arrow(schema) for name, schema in ARROW_TABLES.items()}
SEGMENTS, PARTITIONS, REMOTE_LOG_SEGMENTS = (TABLES[name] for name in ("segments", "partitions", "remote_log_segments"))
RECORD_BATCHES = of_arrow(spark_made_tables.RECORD_BATCHES)
