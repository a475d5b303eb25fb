"""The Delta tables of a warehouse, read and appended by delta-spark on whatever session is given.

The format version lies in the metadata of each table's first column, where every reader of Delta tables finds it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

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
from tiersnap.snapshot.tables.spark_made_tables import FORMAT_VERSION, PARTITION_KEY, VERSION_KEY, comment_of
from tiersnap.snapshot.tables.table_format import refuse_newer, refuse_other, refuse_unversioned

_log = logging.getLogger(__name__)

_NUMBERED = ("segments", "partitions", "remote_log_segments")
_READ_BY_RUNS = (*_NUMBERED, "readiness")
# Of the tables that every run reads: it leaves out files by these alone. Delta's own choice is the first 32 columns,
# each computed at every commit.
_STATISTICS = ("run", *PARTITION_KEY)
_MOST_COMMITS = 100  # of each table, where its history is asked for
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_IN_THE_WAY = ("TABLE_OR_VIEW_ALREADY_EXISTS", "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION")
_ABSENT = ("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST")


@dataclass
class Warehouse:
    """The tables below one URI."""

    spark: SparkSession
    uri: str
    # asked before each commit; raises where another writer has taken over
    may_commit: Callable[[], None] = lambda: None
    writes: bool = True  # False of a plan: `cache` keeps what it would append, and `read` adds that to the stored rows
    cache: Keep = lambda rows: rows
    number: int = field(default=0, init=False)  # of the run, which the metadata of its commits names; 0 for none
    commits: int = field(default=0, init=False)  # versions committed through this object
    has_rows: bool = field(default=False, init=False)  # rows were appended; of a plan, rows that it would append
    _read: dict[str, DataFrame | None] = field(default_factory=dict, init=False)

    def path(self, table: str) -> str:
        """Return the path of a table, as Hadoop's file systems name it."""
        uri = "s3a://" + self.uri.removeprefix("s3://") if self.uri.startswith("s3://") else self.uri
        return f"{uri.rstrip('/')}/{table}"

    def read(self, table: str) -> DataFrame:
        """All rows of a table, no rows before its first commit.

        Raises:
            UsageError: a newer tiersnap made it.
            CorruptDataError: what lies there is no Delta table, or one with other columns.
            TransientError: the place does not answer.
            RemoteStorageError: it refuses, or gives something that nobody knows.
        """
        self.exists(table)
        if (rows := self._read[table]) is not None:
            return rows
        # Of Arrow, because Spark then knows that there are no rows, and drops the joins with them.
        return self.spark.createDataFrame(ARROW_TABLES[table].empty_table(), schemas.TABLES[table])

    def exists(self, table: str) -> bool:
        """Return whether the table has a commit; raises as `read`."""
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
                # Its class is py4j's, or on Connect another one.
                raise of_table(self.path(table), str(error)) from None
            check_format(self.path(table), table, found)
            self._read[table] = rows
        return self._read[table] is not None

    def _lacks(self, table: str) -> bool:
        """Return whether this host's files show other tables and not this one, so that Spark need not look.

        Where they show none, the warehouse may lie on the host of a Connect server.
        """
        return lacks_table(self.uri, table) and not _lacks_all(self.uri)

    def keep(self, name: str, rows: DataFrame, schema: StructType) -> DataFrame:
        """Return the rows, computed once: their tasks look at files and stores, which change.

        They lie below the warehouse, in the place of those of an earlier run. Spark's cache would do, but a serverless
        session has none; a plan, which writes nothing, computes its rows again there.
        """
        if not self.writes:
            return self.cache(rows)
        self.may_commit()
        path = self.path(f"scratch/{name}")
        rows.write.mode("overwrite").parquet(path)
        return self.spark.read.schema(schema).parquet(path)

    def commits_of(self, numbers: Collection[int]) -> dict[int, Row]:
        """Return `run_id`, `first` and `last` (ms) of the newest commits to the tables, by run; none of older ones."""
        run = F.get_json_object("userMetadata", "$.run").cast("long").alias("run")
        run_id = F.get_json_object("userMetadata", "$.tiersnap_run_id").alias("run_id")
        histories = [
            self.spark.sql(f"DESCRIBE HISTORY delta.`{_quoted(self.path(table))}` LIMIT {_MOST_COMMITS}").select(
                run, run_id, F.unix_millis("timestamp").alias("at")
            )
            for table in _NUMBERED
            if self.exists(table)
        ]
        rows = reduce(DataFrame.unionByName, histories).where(F.col("run").isin(list(numbers))).groupBy("run", "run_id")
        return {row.run: row for row in rows.agg(F.min("at").alias("first"), F.max("at").alias("last")).collect()}

    def append(self, table: str, rows: DataFrame, *, run_id: str) -> None:
        """Commit rows as one version; the only action on `rows`."""
        self.has_rows = True
        if not self.writes:
            mine = self.cache(rows.select(*schemas.TABLES[table].names))
            self._read[table] = self.read(table).unionByName(mine)
            return
        self.may_commit()
        found = {"tiersnap_run_id": run_id, **({"run": self.number} if self.number else {})}
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
        """Commit the first rows of a table, with its comments and those of its columns."""
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
            # A run that was killed left files, and no table. Nothing of `rows` was computed yet.
            described.write.format("delta").mode("append").options(**_own(properties)).save(self.path(table))
            comment = properties["comment"].replace("'", "\\'")
            self.spark.sql(f"COMMENT ON TABLE {name} IS '{comment}'")

    def delete(self, table: str, key: Sequence[str], doomed: DataFrame) -> None:
        """Commit one version without the rows that have a key of `doomed`, whose keys are distinct."""
        self.may_commit()
        # In SQL, because a Connect server knows delta.tables only with a plugin of Delta's.
        quoted = _quoted(self.path(table)).replace("{", "{{").replace("}", "}}")
        merge = f"MERGE INTO delta.`{quoted}` AS t USING {{doomed}} AS d ON {same_key(key)} WHEN MATCHED THEN DELETE"
        self.spark.sql(merge, doomed=doomed)
        self._read.pop(table, None)
        self.commits += 1
        _log.info("deleted from %s", self.path(table))


def same_key(key: Sequence[str]) -> str:
    """Return the SQL condition that rows `t` and `d` have one key."""
    return " and ".join(f"t.{name} <=> d.{name}" for name in key)


def _described(schema: pa.Schema) -> list[Column]:
    """Return the columns of a table with their comments; the first one has the version of the format, too."""
    version = {VERSION_KEY: FORMAT_VERSION}
    return [
        F.col(each.name).alias(each.name, metadata={"comment": comment_of(each)} | (version if place == 0 else {}))
        for place, each in enumerate(schema)
    ]


def _own(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that are Delta Lake's own."""
    return {name: value for name, value in properties.items() if name.startswith("delta.")}


def _quoted(path: str) -> str:
    """As SQL has it between backquotes."""
    return path.replace("`", "``")


def lacks_table(warehouse: str, table: str) -> bool:
    """Return whether a warehouse on this host has no such table; of another place Spark has to be asked."""
    filesystem, path = resolve(warehouse) if warehouse.startswith(("/", "file:")) else (None, "")
    return filesystem is not None and filesystem.is_local and not Path(path, table, "_delta_log").is_dir()


def is_no_warehouse(place: str) -> bool:
    """Return whether a place on this host has no table, nor the lock of a run that is to make the first."""
    return _lacks_all(place) and not Path(resolve(place)[1], LEASE_KEY).exists()


def _lacks_all(warehouse: str) -> bool:
    return all(lacks_table(warehouse, each) for each in ARROW_TABLES)


def check_format(path: str, table: str, found: StructType) -> None:
    """Refuse a table of a newer tiersnap (UsageError), and of an earlier one that lacks columns (CorruptDataError)."""
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
    """Yield a row of `runs` for each of the runs `numbers`, counted in the rows that it committed.

    Their ids and times are those of their commits. Their settings are lost: the row holds those of the run that writes
    it, and that run's id as `recorded_by`.

    Args:
        settings, kept: of the run that writes the rows; see counts.row_of_runs. Sources in `collected` were not read.
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
