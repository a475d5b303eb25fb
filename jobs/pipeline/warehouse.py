"""The Delta tables of a warehouse, read and written with delta-spark on any Spark session.

The metadata of each table's first column contains the format version, so that every Delta reader can check it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tiersnap.jobs.pipeline import counts, schemas
from tiersnap.jobs.pipeline.cached import Keep
from tiersnap.jobs.pipeline.one_writer import LEASE_KEY
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.session_settings import with_settings
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot.log.places import resolve
from tiersnap.snapshot.tables.all_tables import TABLES as ARROW_TABLES
from tiersnap.snapshot.tables.reader_errors import of_table
from tiersnap.snapshot.tables.schema_parts import FORMAT_VERSION, PARTITION_KEY, VERSION_KEY, comment_of
from tiersnap.snapshot.tables.table_format import refuse_newer, refuse_other, refuse_unversioned

_log = logging.getLogger(__name__)

_NUMBERED = ("segments", "partitions", "remote_log_segments")
_READ_BY_RUNS = (*_NUMBERED, "readiness")
# The columns with statistics in the tables that every run reads. Runs use no others to skip files. By default Delta
# would compute statistics of the first 32 columns at every commit.
_STATISTICS = ("run", *PARTITION_KEY)
_MOST_COMMITS = 100  # number of commits to read from each table's history
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_IN_THE_WAY = ("TABLE_OR_VIEW_ALREADY_EXISTS", "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION")
_ABSENT = ("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST")


@dataclass
class Warehouse:
    """The tables in the folder of one URI."""

    spark: SparkSession
    uri: str
    # Called before each commit; raises if another writer took the lease.
    may_commit: Callable[[], None] = lambda: None
    writes: bool = True  # False for a plan: rows to append go to `cache`, and `read` adds them to the stored rows
    cache: Keep = lambda rows: rows
    number: int = field(default=0, init=False)  # number of the run, for the metadata of its commits; 0 for none
    commits: int = field(default=0, init=False)  # number of versions committed through this object
    has_rows: bool = field(default=False, init=False)  # rows were appended; in a plan: rows would be appended
    _read: dict[str, DataFrame | None] = field(default_factory=dict, init=False)

    def path(self, table: str) -> str:
        """Return the path of a table for Hadoop's file systems, which use s3a: instead of s3:."""
        uri = self.uri
        if uri.startswith("s3://"):
            uri = f"s3a://{uri.removeprefix('s3://')}"
        return f"{uri.rstrip('/')}/{table}"

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table; no rows before its first commit.

        Raises:
            UsageError: a newer tiersnap wrote the table.
            CorruptDataError: the folder is no Delta table, or has other columns.
            TransientError: the storage does not answer.
            RemoteStorageError: the storage refuses the request, or fails with an unknown error.
        """
        self.exists(table)
        if (rows := self._read[table]) is not None:
            return rows
        # Create the DataFrame from Arrow: Spark's optimizer then sees that it is empty, and drops the joins with it.
        return self.spark.createDataFrame(ARROW_TABLES[table].empty_table(), schemas.TABLES[table])

    def exists(self, table: str) -> bool:
        """Return whether the table has a commit. The errors are those of `read`."""
        if table not in self._read and self._lacks(table):
            self._read[table] = None
        if table not in self._read:
            try:
                rows = self.spark.read.format("delta").load(self.path(table))
                found = rows.schema
            except AnalysisException as error:
                if (error.getCondition() or "") not in _ABSENT:
                    raise of_table(self.path(table), str(error)) from None
                self._read[table] = None
                return False
            except Exception as error:
                # The class of the error differs between py4j and Spark Connect, so catch all.
                raise of_table(self.path(table), str(error)) from None
            check_format(self.path(table), table, found)
            self._read[table] = rows
        return self._read[table] is not None

    def _lacks(self, table: str) -> bool:
        """Return whether the warehouse's folder on this host has other tables, but not this one.

        If so, Spark need not search the table. A folder without tables proves nothing, because the warehouse may be on
        the host of a Connect server.
        """
        return lacks_table(self.uri, table) and not _lacks_all(self.uri)

    def keep(self, name: str, rows: DataFrame, schema: StructType) -> DataFrame:
        """Compute the rows once, and return the stored rows. A second computation could have another result.

        The rows are stored in the folder `scratch` of the warehouse, where they replace the rows of an earlier run. A
        cache would not suffice, because a serverless session has none. A plan writes nothing, and uses the cache.

        Args:
            name: name of the folder below `scratch`.
            rows: the rows to compute.
            schema: their schema.
        """
        if not self.writes:
            return self.cache(rows)
        self.may_commit()
        path = self.path(f"scratch/{name}")
        rows.write.mode("overwrite").parquet(path)
        return self.spark.read.schema(schema).parquet(path)

    def commits_of(self, numbers: Collection[int]) -> dict[int, Row]:
        """Return one row per run, by run number: `run_id`, and the times of its `first` and `last` commit (epoch ms).

        A run is absent if its commits are older than the last _MOST_COMMITS commits of each table.
        """
        run = F.get_json_object("userMetadata", "$.run").cast("long").alias("run")
        run_id = F.get_json_object("userMetadata", "$.tiersnap_run_id").alias("run_id")
        at = F.unix_millis("timestamp").alias("at")
        histories: list[DataFrame] = []
        for table in filter(self.exists, _NUMBERED):
            query = f"DESCRIBE HISTORY delta.`{_quoted(self.path(table))}` LIMIT {_MOST_COMMITS}"
            histories.append(self.spark.sql(query).select(run, run_id, at))
        rows = reduce(DataFrame.unionByName, histories).where(F.col("run").isin(list(numbers))).groupBy("run", "run_id")
        return {row.run: row for row in rows.agg(F.min("at").alias("first"), F.max("at").alias("last")).collect()}

    def append(self, table: str, rows: DataFrame, *, run_id: str) -> None:
        """Commit rows as one version of a table. Spark computes `rows` once. A plan caches them instead."""
        self.has_rows = True
        if not self.writes:
            mine = self.cache(rows.select(*schemas.TABLES[table].names))
            self._read[table] = self.read(table).unionByName(mine)
            return
        self.may_commit()
        found: dict[str, object] = {"tiersnap_run_id": run_id}
        if self.number:
            found["run"] = self.number
        metadata = json.dumps(found, separators=(",", ":"))
        if self.exists(table):
            writer = rows.select(*schemas.TABLES[table].names).write.format("delta").mode("append")
            writer.option("userMetadata", metadata).save(self.path(table))
        else:
            with with_settings(self.spark, {_METADATA: metadata}):
                self._create(table, rows)
        self._read.pop(table, None)
        self.commits += 1
        _log.info("committed to %s", self.path(table))

    def _create(self, table: str, rows: DataFrame) -> None:
        """Create a table with its first rows and the comments of the table and its columns."""
        schema, name = ARROW_TABLES[table], f"delta.`{_quoted(self.path(table))}`"
        described = rows.select(*_described(schema))
        properties = {"comment": comment_of(schema)}
        if table in _READ_BY_RUNS:
            columns = [each for each in _STATISTICS if each in schema.names]
            properties["delta.dataSkippingStatsColumns"] = ",".join(columns)
        writer = described.writeTo(name).using("delta")
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        try:
            writer.create()
        except AnalysisException as error:
            if (error.getCondition() or "") not in _IN_THE_WAY:
                raise
            # A killed run left files without a table. Spark fails before it computes `rows`, so append them now.
            described.write.format("delta").mode("append").options(**_own(properties)).save(self.path(table))
            comment = properties["comment"].replace("'", "\\'")
            self.spark.sql(f"COMMENT ON TABLE {name} IS '{comment}'")

    def delete(self, table: str, key: Sequence[str], doomed: DataFrame) -> None:
        """Delete rows of a table in one commit.

        Args:
            table: name of the table.
            key: columns of the key.
            doomed: distinct keys of the rows to delete.
        """
        self.may_commit()
        # Use SQL: a Connect server supports the module delta.tables only with a plugin.
        quoted = _quoted(self.path(table)).replace("{", "{{").replace("}", "}}")
        merge = f"MERGE INTO delta.`{quoted}` AS t USING {{doomed}} AS d ON {same_key(key)} WHEN MATCHED THEN DELETE"
        self.spark.sql(merge, doomed=doomed)
        self._read.pop(table, None)
        self.commits += 1
        _log.info("deleted from %s", self.path(table))


def same_key(key: Sequence[str]) -> str:
    """Return the SQL condition that the tables aliased `t` and `d` have equal key columns; nulls are equal."""
    return " and ".join(f"t.{name} <=> d.{name}" for name in key)


def _described(schema: pa.Schema) -> list[Column]:
    """Return the columns of a table with their comments. The first column also has the format version."""
    columns: list[Column] = []
    for each in schema:
        metadata: dict[str, Any] = {"comment": comment_of(each)}
        if not columns:
            metadata[VERSION_KEY] = FORMAT_VERSION
        columns.append(F.col(each.name).alias(each.name, metadata=metadata))
    return columns


def _own(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that Delta Lake defines; their names start with `delta.`."""
    return {name: value for name, value in properties.items() if name.startswith("delta.")}


def _quoted(path: str) -> str:
    """Return the path escaped for SQL backquotes."""
    return path.replace("`", "``")


def lacks_table(warehouse: str, table: str) -> bool:
    """Return whether a warehouse in a folder of this host lacks a table; False if the warehouse is on other storage."""
    if not warehouse.startswith(("/", "file:")):
        return False
    filesystem, path = resolve(warehouse)
    return filesystem.is_local and not Path(path, table, "_delta_log").is_dir()


def is_no_warehouse(place: str) -> bool:
    """Return whether a folder of this host is no warehouse: it has neither a table nor the lock file of a run."""
    return _lacks_all(place) and not Path(resolve(place)[1], LEASE_KEY).exists()


def _lacks_all(warehouse: str) -> bool:
    return all(lacks_table(warehouse, each) for each in ARROW_TABLES)


def check_format(path: str, table: str, found: StructType) -> None:
    """Check the format version and the columns of a table.

    Raises:
        UsageError: a newer tiersnap wrote the table.
        CorruptDataError: the columns differ, or the version is missing.
    """
    version = found.fields[0].metadata.get(VERSION_KEY)
    refuse_newer(path, version)
    refuse_other(path, schemas.TABLES[table].names, found.names)
    refuse_unversioned(path, version)


def unrecorded_runs(
    warehouse: Warehouse,
    numbers: Collection[int],
    settings: RunSettings,
    kept: Mapping[str, object],
    collected: Collection[str],
) -> Iterator[dict[str, object]]:
    """Yield a row of the table `runs` for each killed run, with counts of the rows that it committed.

    Run id and times come from the run's commits. Its settings are lost. The row has the settings of the current run,
    and the current run's id as `recorded_by`.

    Args:
        warehouse: the tables.
        numbers: numbers of the killed runs.
        settings, kept: values of the current run; see counts.row_of_runs.
        collected: URIs of collected folders; their bytes are not counted.
    """
    known = warehouse.commits_of(numbers) if numbers else {}
    for number in numbers:
        outcome = RunOutcome()
        counts.count_decoded(outcome, warehouse.read("segments"), number, collected)
        counts.count_replayed(outcome, warehouse.read("partitions"), number)
        counts.count_tiered(outcome, warehouse.read("remote_log_segments"), number)
        row = counts.row_of_runs(outcome, settings, number, **kept, recorded_by=settings.run_id)
        if (commits := known.get(number)) is not None:
            row |= {"run_id": commits.run_id, "started_at": commits.first, "finished_at": commits.last}
        else:
            row |= {"run_id": f"unknown-{number}", "started_at": settings.now, "finished_at": settings.now}
        yield row
