"""Tasks on Spark executors: one plan row a Spark task, Arrow in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


_NUMBER = "task number"  # no column of a plan has a space in its name


def run_tasks(spark: SparkSession, plan: pa.Table, *, task: Task, schema: pa.Schema) -> DataFrame:
    """Each row of `plan`, of which there is at least one, through `task` in a Spark task of its own; rows of `schema`.

    A row names its task by its number, as every other way to spread rows leaves some tasks several and others none:
    `repartition` deals them out from each input partition anew, and the optimizer drops a `coalesce(1)` before it.
    """
    numbered = plan.append_column(_NUMBER, pa.array(range(plan.num_rows), pa.int32()))
    spread = spark.createDataFrame(numbered).repartitionById(plan.num_rows, _NUMBER).drop(_NUMBER)
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
        return run_tasks(self._spark, plan, task=task, schema=schema).toArrow().cast(schema)
