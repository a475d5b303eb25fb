"""One partition judged: facts, what remote storage holds and now in, READINESS rows out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.gate.examine import compaction_reason, has_leader_epoch
from tiersnap.snapshot.gate.readiness import PartitionFacts, SegmentFacts, judge
from tiersnap.snapshot.log.log_dir import resolve
from tiersnap.snapshot.state.trust import Comparison, SnapshotVerdict
from tiersnap.snapshot.tables.facts import FactKind
from tiersnap.snapshot.tables.listed import from_row
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, READINESS
from tiersnap.snapshot.tasks.partition_input import PartitionInput

_OF_OBJECT = "computed from the log"


@dataclass(frozen=True)
class JudgePartition:
    """INPUT rows (LISTED and FACTS) of one partition -> READINESS rows.

    Attributes:
        replace: a computed object takes the place of a file that is not to be trusted.
        now: ms.
        producer_expiration: ms.
    """

    replace: bool
    now: int
    producer_expiration: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge the partition."""
        rows = PartitionInput(batches)
        if rows.listed is not None:
            yield pa.RecordBatch.from_pylist(list(self.verdicts(rows.listed, rows.facts)), schema=READINESS)

    def verdicts(self, listed: Mapping[str, Any], facts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows of READINESS of a partition that was carried; none before."""
        carried = next((row for row in facts if row["kind"] == FactKind.CARRIED), None)
        if carried is None:
            return
        path = resolve(listed["log_dir"])[1].rstrip("/")
        partition = from_row(path, listed)
        boundaries = {row["offset"]: row for row in facts if row["kind"] == FactKind.BOUNDARY}
        segments = {row["offset"]: row for row in facts if row["kind"] == FactKind.SEGMENT}
        shown = [segment for segment in partition.segments if segment.base_offset in segments]
        tiered = {segment["base_offset"] for segment in listed["segments"] if segment["is_tiered"]}
        has_gaps = any(row["has_gaps"] for row in segments.values())
        compacted = compaction_reason(partition, has_gaps=has_gaps)
        judged = judge(
            PartitionFacts(
                topic_id=partition.topic_id,
                compacted=compacted,
                last_stable_offset=carried["last_stable_offset"],
                unstable_because=_unstable_because(carried),
            ),
            [
                SegmentFacts(
                    base_offset=segment.base_offset,
                    next_base_offset=segment.next_base_offset,
                    size=segment.log.size,
                    is_tiered=segment.base_offset in tiered,
                    missing_parts=()
                    if has_leader_epoch(partition.leader_epochs, segment.next_base_offset)
                    else ("leader epochs",),
                    damage=segments[segment.base_offset]["damage"] or "",
                    **self._snapshot(
                        boundaries.get(segment.next_base_offset if segment.next_base_offset is not None else -1)
                    ),
                )
                for segment in shown
            ],
        )
        for segment, readiness in zip(shown, judged, strict=True):
            row = segments[segment.base_offset]
            following = carried["log_end_offset"] if segment.next_base_offset is None else segment.next_base_offset
            boundary = boundaries.get(following)
            yield {
                **{name: listed[name] for name in (*PARTITION_KEY, "topic_id")},
                "base_offset": segment.base_offset,
                "next_base_offset": segment.next_base_offset,
                "size_bytes": segment.log.size,
                "max_timestamp": row["max_timestamp"],
                "verdict": str(readiness.verdict),
                "reason": readiness.reason,
                "next_step": readiness.next_step,
                "snapshot": str(self._snapshot(boundary)["snapshot"]),
                "snapshot_provenance": self._provenance(boundary),
                "high_watermark": carried["high_watermark"],
                "last_stable_offset": carried["last_stable_offset"],
                "log_start_offset": partition.log_start_offset,
                "finding_count": 0 if row["finding_kind"] is None else 1,
            }

    def _snapshot(self, boundary: Mapping[str, Any] | None) -> dict[str, Any]:
        """The verdict on what a bundle would carry: the broker's file, or the object written in its place."""
        found = self._as_tiered(boundary)
        return {"snapshot": found.verdict, "snapshot_reason": found.reason}

    def _as_tiered(self, boundary: Mapping[str, Any] | None) -> Comparison:
        if boundary is None:
            return Comparison(SnapshotVerdict.UNKNOWN, "not reached: the log is damaged below it")
        found = SnapshotVerdict(boundary["found"])
        if boundary["object_key"] is not None and (
            found is SnapshotVerdict.MISSING or (self.replace and not found.is_trusted)
        ):
            return Comparison(SnapshotVerdict.MATCHES, f"{_OF_OBJECT} ({boundary['provenance']})")
        return Comparison(found, boundary["reason"])

    def _provenance(self, boundary: Mapping[str, Any] | None) -> str | None:
        if boundary is None:
            return None
        if SnapshotVerdict(boundary["found"]).is_trusted:
            return "BROKER"
        return None if boundary["object_key"] is None else str(boundary["provenance"])


def _unstable_because(carried: Mapping[str, Any]) -> str:
    if carried["high_watermark"] is None:
        return "replication-offset-checkpoint does not name this partition"
    if carried["unstable_from"] is not None:
        return f"a transaction is open since offset {carried['unstable_from']}"
    return f"the high watermark is {carried['high_watermark']}"
