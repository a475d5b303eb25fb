"""Read the Delta tables of a warehouse with delta-rs, which needs no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from tiersnap.snapshot.errors import MissingExtraError, SourceNotFoundError, UnfinishedError
from tiersnap.snapshot.gate.remote_check import CHECKS
from tiersnap.snapshot.installed import with_extra
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.places import located
from tiersnap.snapshot.replay.facts import PartitionFacts
from tiersnap.snapshot.report.exactly_once import Audit, Failover
from tiersnap.snapshot.report.from_tables import (
    AUDIT_COLUMNS,
    AUDITS_COLUMNS,
    FAILOVER_COLUMNS,
    FAILOVER_KINDS,
    LastRun,
    LastSettings,
    audit_of_tables,
    failover_of,
)
from tiersnap.snapshot.report.remote_checks import Key, RemoteChecked, remote_checked
from tiersnap.snapshot.report.run_info import WaitingAt
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.all_tables import TABLES
from tiersnap.snapshot.tables.facts import DELTAS, FACT_COLUMNS, PARTITIONS, FactKind, StoredResults, newest_results
from tiersnap.snapshot.tables.reader_errors import of_table
from tiersnap.snapshot.tables.readiness import VERDICT_COLUMNS, VERDICTS, SegmentKey, current_verdicts
from tiersnap.snapshot.tables.remote_log_segments import STATE_COLUMNS, AttemptState, newest_states, read_states
from tiersnap.snapshot.tables.schema_parts import VERSION_KEY
from tiersnap.snapshot.tables.segment_verdict import GivenVerdict, SegmentVerdict
from tiersnap.snapshot.tables.spark_made_tables import RUNS
from tiersnap.snapshot.tables.table_format import filled_by, refuse_newer, refuse_other

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Limits for requests to object stores. By default delta-rs retries for three minutes.
_IMPATIENT = {"max_retries": "2", "retry_timeout": "10s", "connect_timeout": "5s", "timeout": "30s"}
# DataFusion is the query engine of delta-rs. With one partition per query, it returns rows in the order of the files.
_QUERY = {"datafusion.execution.target_partitions": "1"}
# The columns of `partitions` without the producer states, which are most of its bytes. This module needs none of them.
_FACTS = list(PARTITIONS.names)
_FACTS.remove(DELTAS)
_FINDING_COLUMNS = (*FACT_COLUMNS, *Rows(Finding).names)


def read_table(warehouse: str, name: str, columns: list[str], kinds: list[str] | None = None) -> pa.Table:
    """Return columns of a table. The result has no rows if the table has no commit.

    Args:
        warehouse: folder or URI of the warehouse.
        name: name of the table.
        columns: names of the columns.
        kinds: return only rows with one of these values in the column `kind`; None for all rows.

    Raises:
        MissingExtraError: deltalake is not installed.
        UsageError: a newer release of tiersnap wrote the table.
        CorruptDataError: the folder contains no valid Delta table.
        TransientError: the store does not answer.
        RemoteStorageError: the store refuses the request.
    """
    found = _open(warehouse, name)
    if found is None:
        return pa.schema(map(TABLES[name].field, columns)).empty_table()
    return _rows(f"{warehouse}/{name}", found, columns, kinds)


def _open(warehouse: str, name: str) -> DeltaTable | None:
    """Return a Delta table; None if it has no commit."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{warehouse}: the Python package deltalake, which reads the warehouse, is not installed",
            hint=with_extra("spark"),
        ) from error
    uri = f"{located(warehouse)}/{name}"
    try:
        table = DeltaTable(uri, storage_options=_IMPATIENT)
        version = (table.schema().fields[0].metadata or {}).get(VERSION_KEY)
        refuse_newer(uri, None if version is None else int(version))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise of_table(uri, str(error)) from error
    return table


def _rows(uri: str, found: DeltaTable, columns: list[str], kinds: list[str] | None) -> pa.Table:
    arrow: Any = found.schema().to_arrow()  # the type stubs lack __arrow_c_schema__
    schema = pa.schema(arrow)
    refuse_other(uri, columns, schema.names)
    wanted = ", ".join(f'"{column}"' for column in columns)
    sql = f"SELECT {wanted} FROM found"
    if kinds is not None:
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        sql += f" WHERE kind IN ({listed})"
    rows = _query(uri, found, sql)
    # DataFusion returns columns of type string_view, which many Arrow functions do not accept.
    return rows.cast(pa.schema(map(schema.field, columns)))


def _query(uri: str, found: DeltaTable, sql: str) -> pa.Table:
    """Return the result of an SQL query over the table `found`."""
    # A pyarrow dataset would read through Python. If Python ends while one of its threads still reads a file, the
    # process aborts (apache/arrow#34314).
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    try:
        return pa.table(QueryBuilder(_QUERY).register("found", found).execute(sql))
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise of_table(uri, str(error)) from error


# For each run, the change of the bytes in BLOCKED and PENDING segments. A row is valid until the next run that writes a
# row for the segment.
_WAITING = """
select run, max(judged_at) as at, sum(waiting - before) as change
from (
    select run, judged_at, waiting,
           lag(waiting, 1, 0) over (partition by log_dir, topic, partition, base_offset order by run) as before
    from (select *, case when level in ('BLOCKED', 'PENDING') then size_bytes else 0 end as waiting from found)
)
group by run
order by run
"""


def waiting_trend(warehouse: str) -> tuple[WaitingAt, ...]:
    """Return the bytes of BLOCKED and PENDING segments after each run that changed a verdict, in order of time."""
    found = _open(warehouse, "readiness")
    if found is None:
        return ()
    trend, waiting = [], 0
    for row in _query(f"{warehouse}/readiness", found, _WAITING).to_pylist():
        waiting += row["change"]
        trend.append(WaitingAt(row["at"], waiting))
    return tuple(sorted(trend, key=attrgetter("at")))


def no_rows(warehouse: str, lacks: str) -> SourceNotFoundError:
    """Return an error for a location without a warehouse, or for a warehouse without rows.

    Args:
        warehouse: folder or URI.
        lacks: message for a warehouse without rows.
    """
    return SourceNotFoundError(
        f"{warehouse}: {_why_no_warehouse(warehouse) or lacks}",
        hint=f"give --warehouse the folder that `tiersnap run` filled; {filled_by(warehouse)}",
    )


def _why_no_warehouse(warehouse: str) -> str:
    """Return the reason why a location is no warehouse; "" if it is a warehouse."""
    place = located(warehouse)
    folder = Path(place)
    if place.startswith("/") and not folder.is_dir():
        if folder.exists():
            return "a file, but a warehouse is a folder"
        return "the folder does not exist"
    if all(_open(warehouse, name) is None for name in TABLES):
        return "not a warehouse: the folder has no table of tiersnap"
    return ""


def readiness(warehouse: str) -> Iterator[pa.RecordBatch]:
    """Yield one record batch per partition, with the schema VERDICTS. Leave out partitions that no longer exist.

    Raises:
        SourceNotFoundError: the warehouse has no replayed partition.
        UnfinishedError: a run was killed after it replayed a partition and before it wrote the verdicts.
    """
    kinds: list[str] = [FactKind.REPLAYED, FactKind.SEGMENT, FactKind.GONE]
    facts = read_table(warehouse, "partitions", _FACTS, kinds)
    if facts.num_rows == 0:
        raise no_rows(warehouse, "no run has replayed a partition in this warehouse")
    verdicts = current_verdicts(read_table(warehouse, "readiness", VERDICT_COLUMNS).to_batches())
    for found in newest_results(facts):
        if found.replayed is not None:
            yield VERDICTS.batch(_verdicts(warehouse, found, found.replayed.facts, verdicts))


def _verdicts(
    warehouse: str, found: StoredResults, facts: PartitionFacts, verdicts: Mapping[SegmentKey, GivenVerdict]
) -> Iterator[SegmentVerdict]:
    key = found.log_dir, found.topic, found.partition
    for offset, segment in found.segments.items():
        judgement = verdicts.get((*key, offset))
        if judgement is None:
            raise UnfinishedError(
                f"{warehouse}: {found.topic}-{found.partition}: the segment at offset {offset} has no verdict, "
                "because a run was killed before it wrote one",
                hint="run the same `tiersnap run` command again",
            )
        yield SegmentVerdict(
            log_dir=found.log_dir,
            topic=found.topic,
            partition=found.partition,
            facts=facts,
            segment=segment,
            judgement=judgement,
        )


def findings(warehouse: str) -> Iterator[Finding]:
    """Yield the findings of the newest replay of each partition."""
    kinds: list[str] = [FactKind.REPLAYED, FactKind.FINDING, FactKind.GONE]
    for each in newest_results(read_table(warehouse, "partitions", list(_FINDING_COLUMNS), kinds)):
        yield from each.findings


def failover(warehouse: str) -> Failover:
    """Return the verdicts on the newest snapshot file of every partition; see `failover_of`."""
    return failover_of(read_table(warehouse, "partitions", list(FAILOVER_COLUMNS), list(map(str, FAILOVER_KINDS))))


def audit(warehouse: str) -> Audit | None:
    """Return the findings that `tiersnap audit --to` wrote (`audit_of_tables`); None if the warehouse has no audit."""
    findings = read_table(warehouse, "audit_findings", list(AUDIT_COLUMNS))
    audits = read_table(warehouse, "audits", list(AUDITS_COLUMNS))
    return audit_of_tables(findings, audits) if findings.num_rows or audits.num_rows else None


def remote_checks(warehouse: str) -> dict[Key, RemoteChecked]:
    """Return, by partition, how much of the remote log `tiersnap verify --warehouse` verified."""
    return remote_checked(CHECKS.read(read_table(warehouse, "remote_checks", list(CHECKS.names)).to_batches()))


def copies(warehouse: str) -> list[AttemptState]:
    """Return the newest state of every copy attempt, from the table `remote_log_segments`."""
    rows = read_table(warehouse, "remote_log_segments", list(STATE_COLUMNS))
    return newest_states(chain.from_iterable(map(read_states, rows.to_batches())))


def last_run(warehouse: str) -> LastRun:
    """Return the newest row of the table `runs`; a LastRun with default values if the table is empty.

    The errors are those of `read_table`.
    """
    rows = read_table(warehouse, "runs", RUNS.names).sort_by([("run", "descending")])
    for row in rows.slice(0, 1).to_pylist():
        settings = LastSettings.decode(row.pop("settings"), warehouse)
        return replace(msgspec.convert(row, LastRun), settings=settings)
    return LastRun()
