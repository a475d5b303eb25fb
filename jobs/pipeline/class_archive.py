"""A class-data archive of Spark and Delta Lake (JEP 350): a JVM maps it instead of loading 20,000 classes.

`python -m tiersnap.jobs.pipeline.class_archive` makes it in the user's cache (170 MB); `make install` calls it. If
there is none, or another Java made it, a session starts as before, some seconds of CPU later.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tiersnap.jobs.pipeline import delta_jars
from tiersnap.snapshot.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

# A JVM says of each archive that it cannot use why.
_QUIET = "-Xshare:auto -Xlog:disable"


def archive() -> Path:
    """Return the path of the archive: beside Delta's jars, named by their versions."""
    return delta_jars.folder().with_name(f"{delta_jars.folder().name}.jsa")


def options() -> str:
    """Return the Java options that use the archive; none where there is none."""
    return f"-XX:SharedArchiveFile={archive()} {_QUIET}" if archive().is_file() else ""


def make_archive(settings: dict[str, str]) -> Path:
    """Run a few small queries in a JVM of their own, and archive the classes that they needed.

    `settings` are those of a session of this host (session.local_settings). RuntimeError if the queries fail.
    """
    spec, target = importlib.util.find_spec("pyspark"), archive()
    if target.is_file():
        return target
    if spec is None or spec.origin is None or not delta_jars.jars():
        raise RuntimeError("needs pyspark and Delta's jars")
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        made = Path(work) / target.name
        java = f"{settings['spark.driver.extraJavaOptions']} -XX:ArchiveClassesAtExit={made} {_QUIET}"
        conf = settings | {"spark.driver.extraJavaOptions": java}
        words = [word for each in conf.items() for word in ("--conf", "=".join(each))]
        command = [str(Path(spec.origin).parent / "bin/spark-submit"), "--master", "local[1]", *words, __file__, work]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode or not made.is_file():
            raise RuntimeError(f"spark-submit ended with {done.returncode}: {done.stderr[-500:]}")
        made.rename(target)
    _log.info("archived the classes of Spark in %s", target)
    return target


def _use(work: str) -> None:
    """Do in small what a run does: Delta's commits, Arrow's tasks, joins and windows."""
    from pyspark.sql import SparkSession, Window
    from pyspark.sql import functions as F

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    spark = SparkSession.builder.getOrCreate()
    rows = spark.range(10).withColumn("struct", F.struct("id")).mapInArrow(same, "id long, struct struct<id: long>")
    rows.write.format("delta").save(f"{work}/table")
    rows.write.parquet(f"{work}/files")
    table = spark.read.format("delta").load(f"{work}/table")
    newest = table.withColumn("last", F.max("id").over(Window.partitionBy("id"))).where("id = last")
    joined = newest.join(spark.read.parquet(f"{work}/files"), on="id", how="left")
    joined.groupBy("id").agg(F.count("*").alias("count"), F.collect_list("last")).unionByName(
        table.selectExpr("id", "id as count"), allowMissingColumns=True
    ).toArrow()


if __name__ == "__main__":
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        _use(sys.argv[1])
    else:
        from tiersnap.jobs.pipeline.session import QUICK_START, local_settings

        try:
            print(f"class archive: {make_archive(local_settings({}, QUICK_START))}")  # noqa: T201
        except (MissingExtraError, RuntimeError) as error:
            sys.exit(f"class archive: {error}")
