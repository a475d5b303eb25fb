"""A class-data archive of Spark and Delta Lake (JEP 350): the JVM maps one file instead of loading 20,000 classes.

`python -m tiersnap.jobs.pipeline.class_archive` creates the archive (170 MB) in the user's cache; `make install` runs
this command. Without an archive, or with one from another Java, a session needs some more seconds of CPU to start.
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

# Keep the JVM from printing a warning about an archive that it cannot use.
_QUIET = "-Xshare:auto -Xlog:disable"


def archive() -> Path:
    """Return the path of the archive: next to the folder of Delta's jars, with the same name and the suffix .jsa."""
    return delta_jars.folder().with_name(f"{delta_jars.folder().name}.jsa")


def options() -> str:
    """Return the Java options that use the archive; an empty string if no archive exists."""
    if not archive().is_file():
        return ""
    return f"-XX:SharedArchiveFile={archive()} {_QUIET}"


def make_archive(settings: dict[str, str]) -> Path:
    """Run small queries in a new JVM, archive the classes that the queries loaded, and return the archive's path.

    If the archive exists already, do nothing but return its path.

    Args:
        settings: Spark settings of a session on this host (session.local_settings).

    Raises:
        RuntimeError: pyspark or Delta's jars are missing, or the queries fail.
    """
    spec, target = importlib.util.find_spec("pyspark"), archive()
    if target.is_file():
        return target
    if spec is None or spec.origin is None or not delta_jars.jars():
        raise RuntimeError("pyspark or Delta's jars are not installed")
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        made = Path(work) / target.name
        java = f"{settings['spark.driver.extraJavaOptions']} -XX:ArchiveClassesAtExit={made} {_QUIET}"
        conf = settings | {"spark.driver.extraJavaOptions": java}
        command = [str(Path(spec.origin).parent / "bin/spark-submit"), "--master", "local[1]"]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        command += [__file__, work]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode or not made.is_file():
            raise RuntimeError(f"spark-submit ended with exit code {done.returncode}: {done.stderr[-500:]}")
        made.rename(target)
    _log.info("archived the classes of Spark in %s", target)
    return target


def _use(work: str) -> None:
    """Run one small query of each kind that a run uses: Delta commits, Arrow tasks, joins and windows."""
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
