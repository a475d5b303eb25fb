"""What the carry stage is asked and answers: rows of its plan and of its result, and its settings."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot import tables
from tiersnap.snapshot.partition_rows import PARTITIONS, fingerprint
from tiersnap.snapshot.stages.decoded_segments import DECODED_SEGMENT
from tiersnap.snapshot.table_file import WRITTEN_FILE

KNOWN_SNAPSHOT = pa.struct(
    [
        ("end_offset", pa.int64()),
        ("found", pa.string()),
        ("found_reason", pa.string()),
        ("provenance", pa.string()),
        ("object_key", pa.string()),
    ]
)
TIERED_SEGMENT = pa.struct([("base_offset", pa.int64()), ("end_offset", pa.int64())])  # both inclusive
# Null as a whole for a partition that was never carried, so each field must be nullable as well.
PREVIOUS_STATE = pa.struct([field.with_nullable(True) for field in tables.PARTITION_STATES])
PARTITION_PLAN = pa.struct(
    [
        *PARTITIONS,
        ("decoded", pa.list_(DECODED_SEGMENT)),
        ("previous", PREVIOUS_STATE),
        ("known", pa.list_(KNOWN_SNAPSHOT)),
        ("tiered", pa.list_(TIERED_SEGMENT)),
    ]
)
PLAN = pa.schema([("partitions", pa.list_(PARTITION_PLAN))])
CARRIED = pa.schema(
    [
        ("state", pa.struct(list(tables.PARTITION_STATES))),
        ("snapshots", pa.list_(pa.struct(list(tables.SNAPSHOTS)))),
        ("readiness", pa.list_(pa.struct(list(tables.READINESS)))),
        ("findings", pa.list_(PARTITIONS.field("findings").type.value_type)),
        ("errors", pa.list_(pa.string())),
        ("is_transient", pa.bool_()),  # all errors may pass
        ("written", pa.int64()),
        ("files", pa.list_(WRITTEN_FILE)),
    ]
)


@dataclass(frozen=True)
class CarryOptions:
    """Settings of the stage; all but `as_of` change what a partition's outcome is; None reckons at each boundary.

    Attributes:
        expiration: ms, producers idle that long at `as_of` (ms) are left out of what is written; None keeps all.
        every_boundary: write every aligned boundary, not only those that lack a snapshot.
        replace: also write where the broker's file is CORRUPT or SUSPECT, and tier with what was written.
    """

    expiration: int | None
    as_of: int | None
    producer_expiration: int | None
    every_boundary: bool
    replace: bool

    def digest(self, *, writes: bool) -> str:
        """Part of a partition's fingerprint."""
        return fingerprint(self.expiration, self.producer_expiration, self.every_boundary, self.replace, writes)


def outcome_fingerprint(
    listing: str, topic_id: str | None, decoded_at: int | None, options: CarryOptions, *, writes: bool
) -> str:
    """Equal for two runs that would say and write the same of a partition.

    Args:
        listing: PARTITIONS.fingerprint.
        decoded_at: ms, when the last of its segments was decoded; None without segments.
    """
    return fingerprint(listing, topic_id, decoded_at, options.digest(writes=writes))
