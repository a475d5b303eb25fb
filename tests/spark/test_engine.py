"""Plan rows as Spark tasks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.reference.recovered import DATA
from tiersnap.snapshot.spark.engine import SparkEngine

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
    seen = SparkEngine(spark.sparkContext).map("look", PLAN, look_around, SEEN)
    assert sorted(seen["segment"].to_pylist()) == PLAN["segment"].to_pylist()
    assert sorted(seen["task"].to_pylist()) == list(range(PLAN.num_rows))
    assert set(seen["rows"].to_pylist()) == {1}
    assert set(seen["columns"].to_pylist()) == {"segment size"}


def test_a_task_that_fails_fails_the_stage_with_what_it_said(spark: SparkSession) -> None:
    def fail(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no such thing as orders-3")

    with pytest.raises(Py4JJavaError, match="no such thing as orders-3"):
        SparkEngine(spark.sparkContext).map("fail", PLAN, fail, SEEN)


def test_a_plan_of_one_row_is_one_task_and_an_empty_plan_none(spark: SparkSession) -> None:
    engine = SparkEngine(spark.sparkContext)
    assert engine.map("look", PLAN.slice(3, 1), look_around, SEEN)["task"].to_pylist() == [0]
    assert engine.map("look", PLAN.slice(0, 0), look_around, SEEN) == SEEN.empty_table()


LOCAL = """
import pyarrow as pa
from tiersnap.jobs.session import spark_engine

def seen(batches):
    import os, sys
    archives = [entry for entry in [*sys.path, *sys.path_importer_cache] if "spark" in entry and os.path.isfile(entry)]
    ready = {name for name in ("tiersnap.snapshot.kernels.batch", "pyarrow.parquet") if name in sys.modules}
    has_pandas = "pandas" in sys.modules
    yield pa.record_batch([[len(archives)], [len(ready)], [has_pandas]], schema=SEEN)

SEEN = pa.schema([("archives", pa.int64()), ("ready", pa.int64()), ("has_pandas", pa.bool_())])
print(spark_engine("local[1]", ()).map("look", pa.table({"a": [1]}), seen, SEEN).to_pylist())
"""


def test_workers_of_a_local_run_are_forked_ready_and_do_without_archives_and_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", LOCAL], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[{'archives': 0, 'ready': 2, 'has_pandas': False}]", done.stderr


def test_a_run_that_is_interrupted_while_spark_starts_ends_with_130_and_leaves_no_jvm(tmp_path: Path) -> None:
    # The end of stdout is the end of all that inherited it.
    program = "import sys; from tiersnap.jobs.cli import main; sys.exit(main())"
    options = ["--source", str(DATA / "kafka-3.9.1" / "logs"), "--remote", str(tmp_path / "remote")]
    options += ["--warehouse", str(tmp_path / "warehouse"), "--report", str(tmp_path / "report")]
    command = [sys.executable, "-c", program, "--output", "json", "run", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as run:
        assert run.stderr is not None
        assert run.stderr.readline().startswith("listed ")
        time.sleep(0.3)
        os.kill(run.pid, signal.SIGINT)
        said, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    assert said == ""
