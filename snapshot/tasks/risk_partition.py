"""One partition's risks from the tables: SURVEY_INPUT rows in, PARTITION_RISK or BOUNDARY_RISK rows out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot.codecs import pairs_of
from tiersnap.snapshot.exactly_once.simulate.crossing_transactions import Crossing
from tiersnap.snapshot.exactly_once.simulate.exposure import Exposure
from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings, partition_risk
from tiersnap.snapshot.exactly_once.simulate.replay_cost import ReplayCost
from tiersnap.snapshot.exactly_once.simulate.replica_state import ReplicaState
from tiersnap.snapshot.exactly_once.simulate.retention_wait import Waiting
from tiersnap.snapshot.exactly_once.simulate.risk_rows import boundary_rows, names_of, partition_row
from tiersnap.snapshot.exactly_once.simulate.survey import SnapshotFound, Survey
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict
from tiersnap.snapshot.replay.trust import Comparison
from tiersnap.snapshot.tables.facts import COMPARISON, SEGMENT
from tiersnap.snapshot.tables.schemas import schema_of
from tiersnap.snapshot.tasks.log_tables import LogTables, read_log_tables
from tiersnap.snapshot.tasks.partition_input import PartitionInput

_TEXT, _LONG = pa.string(), pa.int64()
_KEY = (("log_dir", _TEXT), ("topic", _TEXT), ("partition", pa.int32()))
COUNTS = pa.map_(_TEXT, _LONG)


# Of an empty snapshot at an offset, null if the log there was not read; of the transactions open at that offset, all
# but their number null without batch headers; of the replay to an offset.
_AT_OFFSET = tuple((name, _LONG) for kind in (Exposure, Crossing) for name in names_of(kind))
_REPLAY = tuple((name, _LONG) for name in names_of(ReplayCost))

# A row a boundary: the exclusive end offset of a closed segment.
BOUNDARY_RISK = schema_of(*_KEY, ("offset", _LONG), ("snapshot", _TEXT), ("cause", _TEXT), *_AT_OFFSET, *_REPLAY)
# A row a partition. `at` is the boundary without a right snapshot at which an empty one would expose most; what it
# would expose, and the transactions open there, follow. The replay is for the highest such boundary.
PARTITION_RISK = schema_of(
    *_KEY,
    ("segments", _LONG),
    ("bytes", _LONG),
    ("alive", _LONG),  # producers at the log end that a broker still keeps; null if the log cannot be replayed
    ("outlived", _LONG),  # of these, those of which the log holds no record any more
    ("causes", COUNTS),
    ("at", _LONG),
    *_AT_OFFSET,
    ("wait", _TEXT),
    *((name, _LONG) for name in names_of(Waiting) if name != "wait"),
    *_REPLAY,
    ("bounded_mismatches", COUNTS),
    ("bytes_per_second", _LONG),
    ("segment_ms", _LONG),
    ("segments_per_expiration", pa.float64()),
    ("automatic_retry_bytes_per_second", _LONG),
    ("has_headers", pa.bool_()),
)

_NOT_REACHED = Comparison(SnapshotVerdict.UNVERIFIED, "not reached: the log is damaged below it")


@dataclass(frozen=True)
class RiskPartition:
    """One partition; one that is never tiered, or was never replayed, gives no rows."""

    settings: RiskSettings
    boundaries: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return BOUNDARY_RISK if self.boundaries else PARTITION_RISK

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reckon the numbers of the partition."""
        found = read_log_tables(PartitionInput(batches))
        survey = None if found is None else survey_of(found)
        if survey is None or survey.never_tiered:
            return
        risk = partition_risk(survey, self.settings)
        rows = list(boundary_rows(risk)) if self.boundaries else [partition_row(risk)]
        yield pa.RecordBatch.from_pylist(rows, schema=self.schema)


def survey_of(found: LogTables) -> Survey:
    """Return the survey of a partition from its tables, as a pass over its log would make it."""
    replayed, boundaries = found.replayed, found.boundaries
    log_end = replayed["log_end_offset"]
    ends = {base: boundaries.get(row["next_base_offset"] or log_end) for base, row in found.segments.items()}
    return Survey(
        replayed["log_dir"],
        replayed["topic"],
        replayed["partition"],
        replayed["internal"] or replayed["compacted"],
        replayed["log_start_offset"],
        log_end,
        tuple(
            SEGMENT.of_row(row, snapshot=_NOT_REACHED if (end := ends[base]) is None else COMPARISON.of_row(end))
            for base, row in found.segments.items()
        ),
        {offset: SnapshotFound(COMPARISON.of_row(row), row["file_bytes"]) for offset, row in boundaries.items()},
        {offset: pairs_of(row["open_transactions"]) for offset, row in boundaries.items()},
        None if found.end is None else ReplicaState.of(found.end, found.batches),
        found.sightings,
        found.read_from,
        found.has_headers,
    )
