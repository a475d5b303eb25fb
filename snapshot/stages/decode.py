"""Stage 2: decode and fold segments. Headers and deltas go to files of the warehouse, one row a segment comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from tiersnap.snapshot import tables
from tiersnap.snapshot.delta_rows import BatchColumns, deltas_to_table, writable
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import FileRef, Segment, resolve
from tiersnap.snapshot.partition_rows import to_table
from tiersnap.snapshot.state.replay import fold_segment
from tiersnap.snapshot.table_file import WRITTEN_FILE, TableFile

SEGMENT_PLAN = pa.struct(
    [
        ("log_dir", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("next_base_offset", pa.int64()),
        ("size_bytes", pa.int64()),
        ("modified_ns", pa.int64()),
        ("cuts", pa.list_(pa.int64())),
        # Files with rows of this segment are replaced whole when it changes, so it must not share them.
        ("is_settled", pa.bool_()),
    ]
)
PLAN = pa.schema([("segments", pa.list_(SEGMENT_PLAN))])
DECODED = pa.schema([*tables.SEGMENTS, pa.field("files", pa.list_(WRITTEN_FILE))])

_ROW_GROUP_ROWS = 131_072
_FILE_ROWS = 8_000_000


@dataclass(frozen=True)
class DecodeSegments:
    """PLAN rows -> DECODED rows.

    Attributes:
        warehouse: URI of the folder that holds the tables.
        keep_headers: also write record_batches.
        decoded_at: ms, the run's time.
    """

    warehouse: str
    keep_headers: bool
    check_crc: bool
    decoded_at: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode the segments of each plan row; settled ones share files."""
        filesystem, folder = resolve(self.warehouse)
        for batch in batches:
            for plan in batch.to_pylist():
                shared = SegmentFiles(filesystem, folder, self.keep_headers)
                rows: list[dict[str, Any]] = []
                for segment in plan["segments"]:
                    if not segment["is_settled"]:
                        own = SegmentFiles(filesystem, folder, self.keep_headers)
                        rows.append(self._decode(segment, own) | {"files": own.close()})
                        continue
                    rows.append(self._decode(segment, shared) | {"files": []})
                    if shared.is_full:
                        rows[-1]["files"] = shared.close()
                        shared = SegmentFiles(filesystem, folder, self.keep_headers)
                if rows:
                    rows[-1]["files"] = [*rows[-1]["files"], *shared.close()]
                yield from to_table(rows, DECODED).to_batches()

    def _decode(self, plan: Mapping[str, Any], files: SegmentFiles) -> dict[str, Any]:
        filesystem, path = resolve(plan["log_dir"])
        name = f"{path.rstrip('/')}/{plan['topic']}-{plan['partition']}/{plan['base_offset']:020d}.log"
        segment = Segment(
            plan["base_offset"], plan["next_base_offset"], FileRef(name, plan["size_bytes"], plan["modified_ns"])
        )
        identity = {
            "log_dir": plan["log_dir"],
            "topic": plan["topic"],
            "partition": plan["partition"],
            "segment_base_offset": plan["base_offset"],
        }
        files.begin(identity)
        runs, end = fold_segment(
            filesystem,
            segment,
            cuts=plan["cuts"],
            check_crc=self.check_crc,
            on_rows=files.add_rows if self.keep_headers else None,
        )
        written = [
            {"start_offset": run.start_offset, "row_group": files.add_deltas(run.start_offset, run.deltas)}
            for run in runs
        ]
        files.end()
        finding = end.finding
        # What could not be read will be tried again, and that must not drag along those it would share files with.
        nothing_read = finding is not None and finding.kind is FindingKind.UNREADABLE_FILE and not end.batch_count
        return {
            **{name: plan[name] for name in ("log_dir", "topic", "partition", "base_offset", "next_base_offset")},
            # What was read, not what was listed: an active segment may have grown in between.
            "size_bytes": plan["size_bytes"],
            "modified_ns": plan["modified_ns"],
            "cuts": plan["cuts"],
            "crc_checked": self.check_crc,
            "valid_bytes": end.valid_bytes,
            "batch_count": end.batch_count,
            "legacy_count": end.legacy_count,
            "log_end_offset": end.last_offset + 1,
            "first_timestamp": end.first_timestamp,
            "max_timestamp": end.max_timestamp,
            "has_gaps": end.has_gaps,
            "finding_kind": None if finding is None else str(finding.kind),
            "finding_position": None if finding is None else finding.position,
            "finding_message": None if finding is None else finding.message,
            "runs": written,
            "deltas_file": None if nothing_read else files.deltas.name,
            "batches_file": files.batches.name if self.keep_headers and not nothing_read else None,
            "decoded_at": self.decoded_at,
        }


class SegmentFiles:
    """The pair of files that the segments of one task share."""

    def __init__(self, filesystem: fs.FileSystem, folder: str, keep_headers: bool) -> None:
        self.deltas = TableFile(filesystem, folder, "producer_deltas", writable(tables.PRODUCER_DELTAS))
        self.batches = TableFile(filesystem, folder, "record_batches", writable(tables.RECORD_BATCHES))
        self._headers = BatchColumns(_ROW_GROUP_ROWS if keep_headers else 0)
        self._identity: dict[str, object] = {}

    @property
    def is_full(self) -> bool:
        """Whether the next segment should go to new files."""
        return max(self.deltas.row_count, self.batches.row_count) >= _FILE_ROWS

    def begin(self, identity: dict[str, object]) -> None:
        """The segment that the next rows belong to."""
        self._identity = identity

    def add_rows(self, rows: np.ndarray) -> None:
        """Keep decoded rows (valid during the call only) for record_batches."""
        while rows.size:
            rows = rows[self._headers.add(rows) :]
            if self._headers.is_full:
                self._flush()

    def add_deltas(self, run_offset: int, deltas: np.ndarray) -> int:
        """Write the deltas of one run as a row group; its index, -1 without producers."""
        identity = {**self._identity, "run_offset": run_offset}
        return self.deltas.write(deltas_to_table(deltas, identity, tables.PRODUCER_DELTAS))

    def end(self) -> None:
        """Finish the segment's rows."""
        self._flush()

    def _flush(self) -> None:
        if len(self._headers):
            self.batches.write(self._headers.take(self._identity, tables.RECORD_BATCHES))

    def close(self) -> list[dict[str, object]]:
        """Finish the files: rows of WRITTEN_FILE."""
        return [row for row in (self.deltas.close(), self.batches.close()) if row is not None]
