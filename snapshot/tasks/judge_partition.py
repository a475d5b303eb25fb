"""One partition judged: facts, what remote storage holds and now in, JUDGED rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.readiness.copy_task import NO_BROKERS, BesideBrokers
from tiersnap.snapshot.readiness.coverage import RemoteCoverage, coverage_of
from tiersnap.snapshot.readiness.judge import Verdict, judge
from tiersnap.snapshot.replay.trust import COMPARED, Comparison, Provenance, SnapshotVerdict, computed
from tiersnap.snapshot.tables.facts import FactKind, Row, to_comparison, to_partition, to_segment
from tiersnap.snapshot.tables.remote_log_segments import COPY_FINISHED, COPY_STARTED, finished_copies, to_leader_epochs
from tiersnap.snapshot.tables.schemas import JUDGED, PARTITION_KEY
from tiersnap.snapshot.tasks.partition_input import PartitionInput

_OF_PARTITION = (*PARTITION_KEY, "topic_id", "high_watermark", "last_stable_offset")
_NOT_REACHED = Comparison(SnapshotVerdict.UNVERIFIED, "not reached: the log is damaged below it")


@dataclass(frozen=True)
class JudgePartition:
    """INPUT rows (FACTS and COPIES) of one partition -> JUDGED rows.

    Attributes:
        replace: a computed object takes the place of a file that is not to be trusted.
        now: ms.
        producer_expiration: ms.
        is_bounded: the scan left out what lies before a window: a broker's file there is taken without a comparison.
        beside: how to tell that a broker is at work, to which segments are left.
    """

    replace: bool
    now: int
    producer_expiration: int | None
    is_bounded: bool = False
    beside: BesideBrokers = NO_BROKERS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge the partition."""
        rows = PartitionInput(batches)
        yield pa.RecordBatch.from_pylist(list(self.verdicts(rows.facts, rows.copies)), schema=JUDGED)

    def verdicts(
        self, facts: Iterable[Mapping[str, Any]], copies: Iterable[Mapping[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Rows of JUDGED of a partition that was carried; none before."""
        kinds: dict[str, dict[int, Row]] = {kind: {} for kind in FactKind}
        for row in facts:
            kinds[row["kind"]][row["offset"]] = dict(row)
        carried = kinds[FactKind.CARRIED].get(0)
        if carried is None:
            if kinds[FactKind.SEGMENT] or kinds[FactKind.BOUNDARY] or any(True for _ in copies):
                raise ValueError("segments and no carry of their partition: Spark did not bring its rows together")
            return
        boundaries, segments = kinds[FactKind.BOUNDARY], kinds[FactKind.SEGMENT]
        partition = to_partition(carried)
        ends = {base: boundaries.get(_end(row, partition.log_end_offset)) for base, row in segments.items()}
        known = [to_segment(row, self._as_tiered(ends[base])) for base, row in sorted(segments.items())]
        remote = coverage(carried, copies)
        judged = judge(
            partition,
            known,
            now=self.now,
            producer_expiration=self.producer_expiration,
            coverage=remote,
            unverified={base for base, end in ends.items() if end is not None and self._is_taken(end)},
            broker=self.beside.broker_at(carried["topic_id"], carried["partition"], remote.broker_wrote_at),
            beyond_broker={base for base, end in ends.items() if end is not None and _is_missing(end)},
        )
        for segment, readiness in zip(known, judged, strict=True):
            boundary = ends[segment.base_offset]
            yield {
                **{
                    name: carried[name] for name in (*PARTITION_KEY, "topic_id", "high_watermark", "last_stable_offset")
                },
                "base_offset": segment.base_offset,
                "next_base_offset": segment.next_base_offset,
                "size_bytes": segment.size,
                "max_timestamp": segment.largest_timestamp,
                "verdict": str(readiness.verdict),
                "reason": readiness.reason,
                "next_step": readiness.next_step,
                "snapshot": str(segment.snapshot.verdict(self.now, self.producer_expiration)),
                "snapshot_provenance": self._provenance(boundary),
                "compared": None if boundary is None or segment.next_base_offset is None else _compared(boundary),
                "log_start_offset": partition.log_start_offset,
                "finding_count": 0 if segment.damage_kind is None else 1,
                "copy": self._copy(carried, segments[segment.base_offset], boundaries)
                if readiness.verdict is Verdict.READY
                else None,
            }

    def _copy(self, carried: Row, segment: Row, boundaries: Mapping[int, Row]) -> Row:
        """A row of COPY_PLAN."""
        base, end = segment["offset"], boundaries[segment["next_base_offset"]]
        before = boundaries.get(base)
        is_object = self.uses_object(end)
        return {
            "cluster_id": carried["cluster_id"],
            "digest": segment["digest"],
            "leader_epochs": carried["leader_epochs"],
            # Before the first record of a topic nothing was open.
            "open_transactions": ([] if base == 0 else None) if before is None else before["open_transactions"],
            "provenance": end["provenance"] if is_object else self._provenance(end),
            "file_bytes": end["file_bytes"],
            "file_crc": end["file_crc"],
            "comparison": None if is_object else end["found"],
            "object_key": end["object_key"] if is_object else None,
            "object_crc": end["object_crc"] if is_object else None,
        }

    def uses_object(self, boundary: Mapping[str, Any]) -> bool:
        """Whether a segment is tiered with the computed object and not with the broker's file."""
        found = to_comparison(boundary).verdict(self.now, self.producer_expiration)
        is_instead = found is SnapshotVerdict.MISSING or (self.replace and not found.is_trusted)
        return boundary["object_key"] is not None and is_instead

    def _as_tiered(self, boundary: Mapping[str, Any] | None) -> Comparison:
        """Of what a bundle would carry: the broker's file, or the object written in its place."""
        if boundary is None:
            return _NOT_REACHED
        return computed(Provenance(boundary["provenance"])) if self.uses_object(boundary) else to_comparison(boundary)

    def _is_taken(self, boundary: Mapping[str, Any]) -> bool:
        """Whether the broker's file is tiered without a comparison: it was read, and it lies before the window.

        Not of a log that begins in remote storage and nobody knows how: it may be of a replica that was rebuilt.
        """
        is_read = boundary["file_crc"] is not None and boundary["found"] == SnapshotVerdict.UNVERIFIED
        return self.is_bounded and is_read and not Provenance(boundary["provenance"]).lacks_start

    def _provenance(self, boundary: Mapping[str, Any] | None) -> str | None:
        if boundary is None:
            return None
        if self.uses_object(boundary):
            return str(boundary["provenance"])
        if self._is_taken(boundary):
            return str(Provenance.BROKER_UNVERIFIED)
        found = to_comparison(boundary).verdict(self.now, self.producer_expiration)
        return str(Provenance.BROKER) if found.is_trusted else None


def _compared(boundary: Mapping[str, Any]) -> str | None:
    """What the strict comparison said of the file at a boundary; None where none was compared."""
    return str(boundary["found"]) if boundary["found"] in COMPARED else None


def _is_missing(boundary: Mapping[str, Any]) -> bool:
    """Whether there is no snapshot file: a broker's copy task fails there."""
    return bool(boundary["found"] == SnapshotVerdict.MISSING)


def _end(segment: Mapping[str, Any], log_end_offset: int) -> int:
    end = segment["next_base_offset"]
    return log_end_offset if end is None else int(end)


def coverage(carried: Mapping[str, Any], copies: Iterable[Mapping[str, Any]]) -> RemoteCoverage:
    """What remote storage holds of the partition's lineage.

    Args:
        carried: its row of CARRIED.
        copies: rows of `remote_log_segments`.
    """
    looked = {"copies": list(copies), **{name: carried[name] for name in ("expired_to", "encrypted_by")}}
    return coverage_of_copies(looked, to_leader_epochs(carried["leader_epochs"]), carried["log_end_offset"])


def coverage_of_copies(looked: Mapping[str, Any], lineage: LeaderEpochs, log_end_offset: int) -> RemoteCoverage:
    """The same of what a RemoteLook found.

    Args:
        looked: `copies`, `expired_to` and `encrypted_by`.
        lineage: (epoch, start offset) of the local log, ascending.
    """
    begun = [row for row in looked["copies"] if row["state"] == COPY_STARTED]
    return coverage_of(
        finished_copies(looked["copies"]),
        lineage,
        log_end_offset,
        in_flight=[row["start_offset"] for row in begun if not row["is_ours"]],
        expired_to=looked["expired_to"] or 0,
        unfinished=[(row["start_offset"], row["end_offset"] + 1) for row in begun if row["is_ours"]],
        broker_wrote_at=max((row["event_timestamp"] for row in looked["copies"] if _is_by_broker(row)), default=None),
        encrypted_by=looked["encrypted_by"] or "",
    )


def _is_by_broker(copy: Mapping[str, Any]) -> bool:
    return bool(copy["is_brokers"]) and copy["state"] in (COPY_STARTED, COPY_FINISHED)
