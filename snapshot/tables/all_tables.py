"""The tables of a warehouse by name, each with a comment, as each of their columns.

All are only appended to, but for stale rows of record_batches. `run` is the number of the run that wrote a row,
ascending; of the rows with one key those with the greatest count. Offsets named `next_...` are exclusive; times are
epoch milliseconds unless named `_ns`. No array grows with segments or producers: deltas lie in parts of at most
PART_DELTAS.
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
from tiersnap.snapshot.tables.spark_made_tables import AUDIT_FINDINGS, AUDITS, RECORD_BATCHES_TABLE, RUNS, with_comment


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """A row of `remote_checks`. Of the rows of one segment id those with the greatest `run` count.

    A row without a segment id is of offsets that no complete segment holds, and counts while no later run verified that
    partition.
    """

    check: RemoteCheck
    run: Annotated[int, Meta(description="number of the check, ascending; not that of a run of the pipeline")]


TABLES: dict[str, pa.Schema] = {
    "segments": with_comment(SEGMENTS, "Decodes of segment files: how each ended, and its producer deltas in parts"),
    "partitions": with_comment(PARTITIONS, "Facts that a replay found of a partition, a row each, by kind"),
    "readiness": with_comment(STORED_VERDICTS, "The verdict of each segment from a run on, until its next row"),
    "remote_log_segments": with_comment(
        REMOTE_LOG_SEGMENTS, "KIP-405 states of remote segments: of our copy attempts, and those that were found"
    ),
    "runs": with_comment(RUNS, "Runs that changed something: version, settings and counts"),
    "record_batches": with_comment(RECORD_BATCHES_TABLE, "Headers of record batches, written by tiersnap decode"),
    "audits": with_comment(AUDITS, "Partitions that tiersnap audit --to read, also if it found nothing"),
    "audit_findings": with_comment(AUDIT_FINDINGS, "Findings of tiersnap audit --to"),
    "remote_checks": with_comment(
        Rows(StoredCheck).schema,
        "Results of tiersnap verify --warehouse, of a remote segment or of offsets without one",
    ),
}
