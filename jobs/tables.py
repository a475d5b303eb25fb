"""The tables of a warehouse read without a JVM, by delta-rs: for reports, and for whoever has no Java."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tiersnap.snapshot.errors import MissingExtraError, SourceNotFoundError
from tiersnap.snapshot.report.exactly_once import (
    MOST_ROWS,
    NO_FILE,
    Audit,
    AuditRow,
    Failover,
    NewestSnapshot,
    audit_of,
)
from tiersnap.snapshot.state.trust import SnapshotVerdict
from tiersnap.snapshot.tables.facts import JUDGED, FactKind
from tiersnap.snapshot.tables.remote_log_segments import Row, newest_states
from tiersnap.snapshot.tables.schemas import (
    PARTITION_KEY,
    PARTITIONS,
    READINESS,
    RUNS,
    TABLES,
    VERSION_KEY,
)
from tiersnap.snapshot.tables.table_format import refuse_newer, refuse_other
from tiersnap.snapshot.tables.trouble import of_table
from tiersnap.snapshot.tasks.judge_partition import JudgePartition

# Of the servers of object stores; delta-rs would try for three minutes.
_IMPATIENT = {"max_retries": "2", "retry_timeout": "10s", "connect_timeout": "5s", "timeout": "30s"}
# Written by `tiersnap audit`.
AUDIT_TABLE = "audit_findings"
AUDIT_KEY = ("harm", "kind", "judgement")
# Readers need none of the deltas, which are most of the bytes.
_FACTS = [name for name in PARTITIONS.names if name != "deltas"]


def read_table(warehouse: str, name: str, columns: list[str], kinds: list[str] | None = None) -> pa.Table:
    """Columns of a table; no rows before its first commit.

    Raises:
        MissingExtraError: deltalake is not installed.
        UsageError: a newer tiersnap made it.
        CorruptDataError: it is no Delta table.
        TransientError, RemoteStorageError: the place does not answer, or refuses.
    """
    found = _open(warehouse, name)
    if found is None:
        return pa.schema([TABLES[name].field(column) for column in columns]).empty_table()
    return _rows(f"{warehouse}/{name}", found, columns, kinds)


def _open(warehouse: str, name: str) -> ds.Dataset | None:
    """A table, None before its first commit."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{warehouse}: tables need deltalake", hint="pip install 'tiersnap[spark]'") from error
    uri = f"{warehouse.rstrip('/')}/{name}"
    try:
        table = DeltaTable(uri, storage_options=_IMPATIENT)
        version = (table.schema().fields[0].metadata or {}).get(VERSION_KEY)
        refuse_newer(uri, None if version is None else int(version))
        return table.to_pyarrow_dataset()
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise of_table(uri, str(error)) from error


def _rows(uri: str, found: ds.Dataset, columns: list[str], kinds: list[str] | None) -> pa.Table:
    refuse_other(uri, columns, found.schema.names)
    try:
        return found.to_table(columns=columns, filter=None if kinds is None else pc.field("kind").isin(kinds))
    except OSError as error:
        raise of_table(uri, str(error)) from error


def readiness(warehouse: str, judge: JudgePartition) -> Iterator[pa.RecordBatch]:
    """READINESS of every partition that was carried and is still there, as it is now.

    Raises:
        SourceNotFoundError: there are no facts in the warehouse.
    """
    facts = read_table(warehouse, "partitions", _FACTS, [str(kind) for kind in (*JUDGED, FactKind.GONE)])
    if facts.num_rows == 0:
        raise SourceNotFoundError(
            f"{warehouse}: no partition was carried in this warehouse",
            hint="tiersnap run --source LOGDIR --remote URI fills it",
        )
    found_copies = _by_place(copies(warehouse))
    for rows in _by_partition(_newest_carries(facts)):
        topic_id = next((row["topic_id"] for row in rows if row["kind"] == "CARRIED"), None)
        found = found_copies.get((topic_id, rows[0]["partition"]), ())
        yield pa.RecordBatch.from_pylist(list(judge.verdicts(rows, found)), schema=READINESS)


def failover(warehouse: str) -> Failover:
    """What the newest snapshot file of every partition is worth, as the last carry of each compared it."""
    kinds = [str(kind) for kind in (FactKind.CARRIED, FactKind.BOUNDARY, FactKind.GONE)]
    names = ("kind", "offset", "run", "found", "lacking", "differing", "unexplained", "says")
    facts = read_table(warehouse, "partitions", [*PARTITION_KEY, *names], kinds)
    return Failover.of(each for rows in _by_partition(_newest_carries(facts)) if (each := _newest_snapshot(rows)))


def _newest_snapshot(rows: Sequence[Row]) -> NewestSnapshot | None:
    """None for a partition that is gone."""
    if not any(row["kind"] == FactKind.CARRIED for row in rows):
        return None
    key = rows[0]["log_dir"], rows[0]["topic"], rows[0]["partition"]
    files = [row for row in rows if row["kind"] == FactKind.BOUNDARY and row["found"] != SnapshotVerdict.MISSING]
    newest = max(files, key=lambda row: int(row["offset"]), default=None)
    if newest is None:
        return NewestSnapshot(*key, offset=None, found=NO_FILE)
    lacking, differing, unexplained = (newest[name] or 0 for name in ("lacking", "differing", "unexplained"))
    return NewestSnapshot(*key, newest["offset"], newest["found"], lacking, differing, unexplained, newest["says"])


def audit(warehouse: str) -> Audit | None:
    """What `tiersnap audit --to` last found in each partition; None before the first.

    An audit of one topic says nothing of the others, so the findings that an earlier one had there stay.
    """
    found = _open(warehouse, AUDIT_TABLE)
    if found is None:
        return None
    names = [name for name in (*AUDIT_KEY, *AuditRow.__slots__, "batches", "run") if name in found.schema.names]
    table = _rows(f"{warehouse}/{AUDIT_TABLE}", found, list(dict.fromkeys(names)), None)
    if "run" in names and table.num_rows:
        newest = table.group_by(["topic", "partition"]).aggregate([("run", "max")])
        joined = table.join(newest, keys=["topic", "partition"], join_type="inner")
        table = joined.filter(pc.equal(joined["run"], joined["run_max"])).drop_columns("run_max")
    for name in AUDIT_KEY:
        if name not in names:
            table = table.append_column(name, pa.repeat("", table.num_rows))
    if "batches" not in names:
        table = table.append_column("batches", pa.repeat(1, table.num_rows))
    groups = table.group_by(list(AUDIT_KEY)).aggregate([("kind", "count"), ("batches", "sum")])
    counts = groups.rename_columns([*AUDIT_KEY, "findings", "batches"]).to_pylist()
    is_harmful = pc.not_equal(table["harm"], "NONE")
    parts = (table.filter(which).slice(0, MOST_ROWS) for which in (is_harmful, pc.invert(is_harmful)))
    worst = pa.concat_tables(parts)
    return audit_of(counts, worst.to_pylist())


def _newest_carries(facts: pa.Table) -> pa.Table:
    """Rows of the newest carry of each partition, partition by partition."""
    key = list(PARTITION_KEY)
    # Numbers of rows are joined and not the rows: Arrow joins no lists.
    numbered = facts.select([*key, "run"]).append_column("number", pa.array(range(facts.num_rows), pa.int64()))
    newest = facts.group_by(key).aggregate([("run", "max")])
    joined = numbered.join(newest, keys=key, join_type="inner")
    kept = joined.filter(pc.equal(joined["run"], joined["run_max"]))
    return facts.take(kept.sort_by([(name, "ascending") for name in (*key, "number")])["number"])


def _by_partition(facts: pa.Table) -> Iterator[list[dict[str, Any]]]:
    current: list[dict[str, Any]] = []
    for batch in facts.to_batches(max_chunksize=8192):
        for row in batch.to_pylist():
            if current and any(row[name] != current[0][name] for name in PARTITION_KEY):
                yield current
                current = []
            current.append(row)
    if current:
        yield current


def copies(warehouse: str) -> list[Row]:
    """The newest state of every attempt at a segment that the tables know."""
    return newest_states(read_table(warehouse, "remote_log_segments", TABLES["remote_log_segments"].names).to_pylist())


def last_run(warehouse: str) -> Row:
    """The newest run that is recorded, a row of `runs` with its settings taken apart; empty before the first."""
    runs = read_table(warehouse, "runs", RUNS.names).sort_by([("run", "descending")]).slice(0, 1).to_pylist()
    return {**runs[0], "settings": json.loads(runs[0]["settings"])} if runs else {}


def _by_place(rows: Iterable[Row]) -> Mapping[tuple[str | None, int], list[Row]]:
    found: defaultdict[tuple[str | None, int], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["topic_id"], row["partition"]].append(row)
    return found
