"""The tables of a warehouse by name.

    segments             decodes of segment files: how each ended, and its runs of producer deltas in parts
    partitions           facts that a replay found of a partition, one row each
    readiness            the verdict of each segment, a row when it changed
    remote_log_segments  KIP-405 states of remote segments: those of our copy attempts, and those that were found
    runs                 one row a run that changed something
    record_batches       headers of batches, written by `tiersnap decode` alone
    audits               which partitions `tiersnap audit --to` audited, and how far
    audit_findings       the findings of these audits
    remote_checks        remote segments that `tiersnap verify --warehouse` verified

All are only appended to, but for stale rows of record_batches. `run` is the number of the run that wrote a row,
ascending; of the rows with one key those with the greatest count. Offsets named `next_...` are exclusive; times are
epoch milliseconds unless named `_ns`. No array grows with segments or producers: deltas lie in parts of at most
PART_DELTAS.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot.gate.remote_check import RemoteCheck
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.decodes import SEGMENTS
from tiersnap.snapshot.tables.facts import PARTITIONS
from tiersnap.snapshot.tables.readiness import STORED_VERDICTS
from tiersnap.snapshot.tables.remote_log_segments import REMOTE_LOG_SEGMENTS
from tiersnap.snapshot.tables.schemas import AUDIT_FINDINGS, AUDITS, RECORD_BATCHES_TABLE, RUNS


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """A row of `remote_checks`. Of the rows of one segment id those with the greatest `run` count.

    A row without a segment id is of offsets that no complete segment holds, and counts while no later run verified that
    partition.
    """

    check: RemoteCheck
    run: int  # number of the check, ascending; not that of a run of the pipeline


TABLES: dict[str, pa.Schema] = {
    "segments": SEGMENTS,
    "partitions": PARTITIONS,
    "readiness": STORED_VERDICTS,
    "remote_log_segments": REMOTE_LOG_SEGMENTS,
    "runs": RUNS,
    "record_batches": RECORD_BATCHES_TABLE,
    "audits": AUDITS,
    "audit_findings": AUDIT_FINDINGS,
    "remote_checks": Rows(StoredCheck).schema,
}
