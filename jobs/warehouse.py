"""The Delta tables of a run: read as Arrow, committed in one atomic version a change.

Tasks write Parquet files into a table's folder; nothing of it counts until its add action is committed here, by
delta-rs, so a run that dies leaves files that no version names. Spark reads the same tables with delta-spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from tiersnap.snapshot import tables
from tiersnap.snapshot.errors import CorruptDataError, TransientError
from tiersnap.snapshot.log.log_dir import resolve
from tiersnap.snapshot.table_file import TableFile

TABLES: dict[str, pa.Schema] = {
    "segments": tables.SEGMENTS,
    "record_batches": tables.RECORD_BATCHES,
    "producer_deltas": tables.PRODUCER_DELTAS,
    "producer_states": tables.PRODUCER_STATES,
    "partition_states": tables.PARTITION_STATES,
    "snapshots": tables.SNAPSHOTS,
    "remote_log_segments": tables.REMOTE_LOG_SEGMENTS,
    "readiness": tables.READINESS,
}


@dataclass
class Warehouse:
    """The tables below one URI.

    Attributes:
        commits: versions committed through this object, for the report.
    """

    uri: str
    run_id: str = ""
    commits: int = field(default=0, init=False)

    def table_uri(self, name: str) -> str:
        """URI of a table's folder."""
        return f"{self.uri.rstrip('/')}/{name}"

    def _open(self, name: str) -> DeltaTable | None:
        uri = self.table_uri(name)
        try:
            return DeltaTable(uri)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise CorruptDataError(
                f"{uri}: not readable as a Delta table: {str(error).splitlines()[0]}",
                hint="bring the warehouse back from a copy; without it a run cannot tell what is tiered already",
            ) from error

    def read(self, name: str) -> pa.Table:
        """All rows of a small table, in no particular order; empty before its first commit."""
        table = self._open(name)
        if table is None:
            return TABLES[name].empty_table()
        found = table.to_pyarrow_dataset().to_table()
        return found.select(TABLES[name].names).cast(TABLES[name])

    def newest(self, name: str, key: Sequence[str], order: str) -> pa.Table:
        """The rows of a table that is only appended to, the greatest `order` of each key."""
        return newest(self.read(name), key, order)

    def files(self, name: str) -> dict[str, int]:
        """Paths (inside the table's folder) and sizes of the files of the current version."""
        table = self._open(name)
        if table is None:
            return {}
        actions = pa.table(table.get_add_actions(flatten=True))
        return dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))

    def append(self, name: str, rows: pa.Table) -> None:
        """Commit rows as one new file."""
        if rows.num_rows:
            self.commit(name, [self._write(name, rows)])

    def overwrite(self, name: str, rows: pa.Table) -> None:
        """Commit rows in place of all that is there."""
        added = [self._write(name, rows)] if rows.num_rows else []
        self.commit(name, added, remove=list(self.files(name)))

    def description(self, name: str) -> str | None:
        """What `describe` said of a table, None where nothing was said."""
        table = self._open(name)
        return None if table is None else table.metadata().description or None

    def describe(self, name: str, text: str) -> None:
        """Note something for good about a table, which is made if it is not there."""
        table = self._open(name)
        if table is None:
            schema = Schema.from_arrow(TABLES[name])
            create_table_with_add_actions(self.table_uri(name), schema, [], mode="error", description=text)
        else:
            table.alter.set_table_description(text)
        self.commits += 1

    def _write(self, name: str, rows: pa.Table) -> Mapping[str, Any]:
        filesystem, folder = resolve(self.uri)
        file = TableFile(filesystem, folder.rstrip("/"), name, TABLES[name])
        file.write(rows.select(TABLES[name].names).cast(TABLES[name]))
        written = file.close()
        assert written is not None
        return written

    def commit(self, name: str, files: Iterable[Mapping[str, Any]], *, remove: Iterable[str] = ()) -> None:
        """Commit written files (rows of table_file.WRITTEN_FILE), and take others out, in one version."""
        now = int(time.time() * 1000)
        adds = [
            AddAction(
                file["path"], file["size_bytes"], {}, modification_time=now, data_change=True, stats=file["stats"]
            )
            for file in files
        ]
        removed = list(remove)
        if not adds and not removed:
            return
        schema = Schema.from_arrow(TABLES[name])
        properties = CommitProperties(custom_metadata={"userMetadata": json.dumps({"tiersnap_run_id": self.run_id})})
        table = self._open(name)
        removes = [RemoveAction(path, data_change=True, deletion_timestamp=now) for path in removed]
        actions: list[AddAction | RemoveAction] = [*adds, *removes]
        try:
            if table is None:
                uri = self.table_uri(name)
                create_table_with_add_actions(uri, schema, adds, mode="error", commit_properties=properties)
            else:
                table.create_write_transaction(actions, mode="append", schema=schema, commit_properties=properties)
        except CommitFailedError as error:
            raise TransientError(
                f"{self.table_uri(name)}: another run has committed at the same time",
                hint="let runs on one warehouse follow each other, and run this again",
            ) from error
        self.commits += 1


def after(rows: pa.Table, order: str) -> int:
    """A time (ms) above all in the table, so that what is appended next counts as newest whatever the clock says."""
    greatest = pc.max(rows[order]).as_py()
    return 0 if greatest is None else int(greatest) + 1


def newest(rows: pa.Table, key: Sequence[str], order: str) -> pa.Table:
    """The row with the greatest `order` of each key; a later row wins among equals."""
    if rows.num_rows == 0:
        return rows
    indexed = rows.append_column("__row", pa.array(np.arange(rows.num_rows)))
    ordered = indexed.sort_by([(order, "ascending"), ("__row", "ascending")])
    last = ordered.group_by(list(key), use_threads=False).aggregate([("__row", "last")])
    return rows.take(last["__row_last"].combine_chunks())
