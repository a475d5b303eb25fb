"""Tasks on Spark executors: one plan row a Spark task, Arrow in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def run_tasks(plan: DataFrame, *, task: Task, schema: pa.Schema, tasks: int) -> DataFrame:
    """Each row of `plan` through `task` in a Spark task of its own; rows of `schema` come back.

    Round robin from a single input partition puts exactly one row into each output partition; from several it would
    start at a random place in each.
    """
    spread = plan.coalesce(1).repartition(tasks)
    return spread.mapInArrow(_Typed(task, schema), from_arrow_schema(schema))


class _Typed:
    """Gives Spark batches of exactly the promised schema, as it does not cast them."""

    def __init__(self, task: Task, schema: pa.Schema) -> None:
        self._task, self._schema = task, schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self._task(iter(batches)):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)


class SparkEngine:
    """Runs tasks on the session it is given."""

    def __init__(self, spark: SparkSession, parallelism: int) -> None:
        """`parallelism`: how many tasks the cluster runs at once."""
        self._spark = spark
        self.parallelism = parallelism

    def map(self, name: str, plan: pa.Table, task: Task, schema: pa.Schema) -> pa.Table:
        """Result rows of all plan rows, in no particular order."""
        if plan.num_rows == 0:
            return schema.empty_table()
        rows = self._spark.createDataFrame(plan)
        result = run_tasks(rows, task=task, schema=schema, tasks=plan.num_rows)
        return result.toArrow().cast(schema)
