"""The Delta tables of a warehouse, read and appended by delta-spark on whatever session is given.

The format version lies in the metadata of each table's first column, where every reader of Delta tables finds it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType
from pyspark.sql.window import Window

from tiersnap.jobs.pipeline import schemas
from tiersnap.snapshot.tables.schemas import FORMAT_VERSION, LATER_COLUMNS, PARTITION_KEY, VERSION_KEY
from tiersnap.snapshot.tables.schemas import TABLES as ARROW_TABLES
from tiersnap.snapshot.tables.table_format import refuse_newer, refuse_other, refuse_unversioned
from tiersnap.snapshot.tables.trouble import of_table

_log = logging.getLogger(__name__)

_NUMBERED = ("segments", "partitions", "remote_log_segments")
# Of the tables that every run reads: it leaves out files by these alone. Delta's own choice is the first 32 columns,
# each computed at every commit.
_STATISTICS = ("run", *PARTITION_KEY)
_MOST_COMMITS = 100  # of each table, where its history is asked for
_ABSENT = ("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST")


@dataclass(frozen=True, slots=True)
class RunCommits:
    """The commits of one run; times are ms."""

    run_id: str
    first: int
    last: int


@dataclass
class Warehouse:
    """The tables below one URI.

    Attributes:
        may_commit: asked before each commit; raises where another writer has taken over.
        number: of the run, which the metadata of its commits names; 0 for none.
        commits: versions committed through this object.
    """

    spark: SparkSession
    uri: str
    may_commit: Callable[[], None] = lambda: None
    number: int = field(default=0, init=False)
    commits: int = field(default=0, init=False)
    _known: dict[str, bool] = field(default_factory=dict, init=False)

    def path(self, table: str) -> str:
        """Where a table lies, as Hadoop's file systems name it."""
        return f"{hadoop_uri(self.uri).rstrip('/')}/{table}"

    def read(self, table: str) -> DataFrame:
        """All rows of a table, no rows before its first commit.

        Raises:
            UsageError: a newer tiersnap made it.
            CorruptDataError: what lies there is no Delta table, or one with other columns.
            TransientError: the place does not answer.
            RemoteStorageError: it refuses, or gives something that nobody knows.
        """
        schema = schemas.TABLES[table]
        if not self.exists(table):
            # Of Arrow, because Spark then knows that there are no rows, and drops the joins with them.
            return self.spark.createDataFrame(ARROW_TABLES[table].empty_table(), schema)
        rows = self.spark.read.format("delta").load(self.path(table))
        for name in LATER_COLUMNS.get(table, ()):
            if name not in rows.columns:
                rows = rows.withColumn(name, F.lit(None).cast(_field(schema, name).dataType))
        return rows.select(*schema.names)

    def exists(self, table: str) -> bool:
        """Whether the table has had a commit; see `read` for what it raises."""
        if table not in self._known:
            try:
                found = self.spark.read.format("delta").load(self.path(table)).schema
            except AnalysisException as error:
                if (error.getCondition() or "") not in _ABSENT:
                    raise of_table(self.path(table), str(error)) from error
                self._known[table] = False
                return False
            except Exception as error:
                # Its class is py4j's, or on Connect another one.
                raise of_table(self.path(table), str(error)) from error
            check_format(self.path(table), table, found)
            self._known[table] = True
        return self._known[table]

    def newest_runs(self) -> tuple[int, int]:
        """Return the greatest number of a run in any table, and in `runs`: less if the last ones were killed half way.

        Both are 0 before the first run.
        """
        is_recorded = {**dict.fromkeys(_NUMBERED, False), "runs": True}
        numbers = [
            self.read(table).agg(F.max("run").alias("run")).withColumn("is_recorded", F.lit(recorded))
            for table, recorded in is_recorded.items()
            if self.exists(table)
        ]
        if not numbers:
            return 0, 0
        newest, recorded = F.max("run"), F.max(F.when(F.col("is_recorded"), F.col("run")))
        found = reduce(DataFrame.unionByName, numbers).agg(newest.alias("newest"), recorded.alias("recorded"))
        row = found.collect()[0]
        return int(row.newest or 0), int(row.recorded or 0)

    def commits_of(self, numbers: Collection[int]) -> dict[int, RunCommits]:
        """Return what the newest commits to the tables say of these runs; nothing of one whose commits are older."""
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
        found = rows.agg(F.min("at").alias("first"), F.max("at").alias("last")).collect()
        return {row.run: RunCommits(row.run_id, row.first, row.last) for row in found}

    def append(self, table: str, rows: DataFrame, *, run_id: str) -> None:
        """Commit rows as one version; the only action on `rows`."""
        self.may_commit()
        schema = schemas.TABLES[table]
        first = schema.fields[0]
        named = [
            F.col(first.name).alias(first.name, metadata={VERSION_KEY: FORMAT_VERSION}),
            *(F.col(name) for name in schema.names[1:]),
        ]
        writer = rows.select(*named).write.format("delta").mode("append")
        if table in LATER_COLUMNS:
            writer = writer.option("mergeSchema", True)
        if table in _NUMBERED and not self.exists(table):
            columns = [name for name in _STATISTICS if name in schema.names]
            writer = writer.option("delta.dataSkippingStatsColumns", ",".join(columns))
        metadata = {"tiersnap_run_id": run_id, **({"run": self.number} if self.number else {})}
        writer.option("userMetadata", json.dumps(metadata, separators=(",", ":"))).save(self.path(table))
        self._known[table] = True
        self.commits += 1
        _log.info("committed to %s", self.path(table))

    def delete(self, table: str, key: Sequence[str], doomed: DataFrame) -> None:
        """Commit one version without the rows that have a key of `doomed`, whose keys are distinct and not null."""
        self.may_commit()
        same = " and ".join(f"t.{name} = d.{name}" for name in key)
        # In SQL, because a Connect server knows delta.tables only with a plugin of Delta's.
        quoted = _quoted(self.path(table)).replace("{", "{{").replace("}", "}}")
        merge = f"MERGE INTO delta.`{quoted}` AS t USING {{doomed}} AS d ON {same} WHEN MATCHED THEN DELETE"
        self.spark.sql(merge, doomed=doomed)
        self.commits += 1
        _log.info("deleted from %s", self.path(table))


def _quoted(path: str) -> str:
    """As SQL has it between backquotes."""
    return path.replace("`", "``")


def check_format(path: str, table: str, found: StructType) -> None:
    """See that a table is one of this version's.

    Raises:
        UsageError: a newer tiersnap made it.
        CorruptDataError: columns are missing.
    """
    version = _field(found, found.names[0]).metadata.get(VERSION_KEY)
    refuse_newer(path, version)
    later = LATER_COLUMNS.get(table, ())
    refuse_other(path, [name for name in schemas.TABLES[table].names if name not in later], found.names)
    refuse_unversioned(path, version)


def _field(schema: StructType, name: str) -> StructField:
    return schema[name]


def newest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Of the rows with one key those of the greatest `run`."""
    window = Window.partitionBy(*key)
    return rows.withColumn("_newest", F.max("run").over(window)).where("run = _newest").drop("_newest")


def hadoop_uri(uri: str) -> str:
    """s3:// as Hadoop has it."""
    return "s3a://" + uri.removeprefix("s3://") if uri.startswith("s3://") else uri
