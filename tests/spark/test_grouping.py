"""Rows of one key at a time: each key once, its rows in order, and no more work than one exchange and one sort."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import listing
from tiersnap.jobs.pipeline.grouping import by_key

pytestmark = pytest.mark.spark

ROWS, KEYS = 30_000, 7
COUNTED = "key long, rows long, batches long, is_sorted boolean"


def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = list(batches)
    (key,) = {each for batch in found for each in batch.column("key").to_pylist()}
    places = pa.chunked_array([batch.column("place") for batch in found])
    is_sorted = pc.all(pc.greater(places[1:], places[:-1])).as_py()
    row = {"key": key, "rows": len(places), "batches": len(found), "is_sorted": is_sorted}
    yield pa.RecordBatch.from_pylist([row])


@pytest.mark.parametrize("tasks", [None, pytest.param(3, marks=pytest.mark.nightly)])
def test_by_key_gives_each_key_once_with_its_rows_in_order(spark: SparkSession, tasks: int | None) -> None:
    number = F.col("id")
    rows = spark.range(ROWS).select((number % KEYS).alias("key"), (number * 7919 % ROWS).alias("place"))
    found = by_key(rows, ["key"], ["place"], counted, COUNTED, tasks=tasks).orderBy("key").collect()
    assert [row.key for row in found] == list(range(KEYS))
    assert [row.rows for row in found] == [len(range(key, ROWS, KEYS)) for key in range(KEYS)]
    assert all(row.is_sorted for row in found)
    assert all(row.batches > 1 for row in found), "a group is not held whole"


def test_by_key_needs_one_exchange_and_one_sort(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    rows = spark.range(ROWS).select((F.col("id") % KEYS).alias("key"), F.col("id").alias("place"))
    by_key(rows, ["key"], ["place"], counted, COUNTED).explain()
    plan = capsys.readouterr().out
    assert plan.count("Exchange") == 1, plan
    assert plan.count("Sort ") == 1, plan


@pytest.mark.nightly
def test_folders_gives_each_task_neighbours_in_order(spark: SparkSession) -> None:
    """So that one listing of a topic serves a task (ListingAhead)."""
    found = [("/logs", f"orders-{number}") for number in range(900)]
    rows = listing.folders(spark, found[::-1]).withColumn("task", F.spark_partition_id()).collect()
    by_task: dict[int, list[str]] = {}
    for row in rows:
        by_task.setdefault(row["task"], []).append(row["folder"])
    in_order = [folder for task in sorted(by_task) for folder in by_task[task]]
    assert in_order == sorted(folder for _, folder in found)
    assert len(by_task) == 5
    assert max(map(len, by_task.values())) <= 2 * listing.FOLDERS_PER_TASK
