"""Plan rows as Spark tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from snapshot.spark.engine import SparkEngine

pytestmark = pytest.mark.spark

PLAN = pa.table({"segment": [f"orders-{number}" for number in range(8)], "size": pa.array(range(8), pa.int32())})
SEEN = pa.schema([("segment", pa.string()), ("columns", pa.string()), ("task", pa.int64()), ("rows", pa.int64())])


def look_around(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches)
    context = TaskContext.get()
    assert context is not None
    for row in table.to_pylist():
        values = [[row["segment"]], [" ".join(table.column_names)], [context.partitionId()], [table.num_rows]]
        yield pa.record_batch(values, schema=SEEN)


def test_each_plan_row_is_a_task_of_its_own_that_sees_the_plans_columns(spark: SparkSession) -> None:
    seen = SparkEngine(spark, 2).map("look", PLAN, look_around, SEEN)
    assert sorted(seen["segment"].to_pylist()) == PLAN["segment"].to_pylist()
    assert sorted(seen["task"].to_pylist()) == list(range(PLAN.num_rows))
    assert set(seen["rows"].to_pylist()) == {1}
    assert set(seen["columns"].to_pylist()) == {"segment size"}


def test_a_plan_of_one_row_is_one_task_and_an_empty_plan_none(spark: SparkSession) -> None:
    engine = SparkEngine(spark, 2)
    assert engine.map("look", PLAN.slice(3, 1), look_around, SEEN)["task"].to_pylist() == [0]
    assert engine.map("look", PLAN.slice(0, 0), look_around, SEEN) == SEEN.empty_table()
