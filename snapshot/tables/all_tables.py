"""The tables of a warehouse by name. Each table and each column has a comment.

Rows are only appended, except that stale rows of `record_batches` are deleted. `run` is the number of the run that
wrote a row, ascending. If several rows have the same key, the row with the greatest `run` is valid. Offsets named
`next_...` are exclusive. Times are epoch milliseconds, or nanoseconds if the name ends in `_ns`. No array in a row
grows with the number of segments or producers: deltas are stored in parts of at most PART_DELTAS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
from msgspec import Meta

from tiersnap.snapshot.gate.remote_check import RemoteCheck
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.decodes import SEGMENTS
from tiersnap.snapshot.tables.facts import PARTITIONS
from tiersnap.snapshot.tables.readiness import STORED_VERDICTS
from tiersnap.snapshot.tables.remote_log_segments import REMOTE_LOG_SEGMENTS
from tiersnap.snapshot.tables.schema_parts import with_comment
from tiersnap.snapshot.tables.spark_made_tables import AUDIT_FINDINGS, AUDITS, RECORD_BATCHES_TABLE, RUNS


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """A row of `remote_checks`. For each segment id, the rows with the greatest `run` are valid.

    A row without a segment id describes offsets that no complete remote segment covers. It is valid until a later run
    verifies the partition.
    """

    check: RemoteCheck
    run: Annotated[int, Meta(description="number of the check, ascending; this is not the number of a run")]


TABLES: dict[str, pa.Schema] = {
    "segments": with_comment(
        SEGMENTS, "Decodes of segment files: where each decode ended, and its producer deltas in parts"
    ),
    "partitions": with_comment(PARTITIONS, "Facts that a replay found, one row per fact"),
    "readiness": with_comment(STORED_VERDICTS, "Verdicts on segments. A verdict is valid until the segment's next row"),
    "remote_log_segments": with_comment(
        REMOTE_LOG_SEGMENTS,
        "KIP-405 states of the remote segments that tiersnap uploaded or that a run found",
    ),
    "runs": with_comment(RUNS, "Runs that changed something: version, settings and counts"),
    "record_batches": with_comment(RECORD_BATCHES_TABLE, "Headers of record batches, written by tiersnap decode"),
    "audits": with_comment(AUDITS, "Partitions that tiersnap audit --to read, with and without findings"),
    "audit_findings": with_comment(AUDIT_FINDINGS, "Findings of tiersnap audit --to"),
    "remote_checks": with_comment(
        Rows(StoredCheck).schema,
        "Results of tiersnap verify --warehouse: one row per remote segment or missing range of offsets",
    ),
}
