"""Stage 3: carry the state along each partition, write the snapshots that are missing, judge every segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from tiersnap.snapshot import tables
from tiersnap.snapshot.delta_rows import writable
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.coverage import RemoteCoverage
from tiersnap.snapshot.gate.examine import Examination, conclude
from tiersnap.snapshot.gate.topics import never_tiered_reason
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.lineage import joined
from tiersnap.snapshot.log.log_dir import Partition, Segment, resolve
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.partition_rows import from_row, to_table
from tiersnap.snapshot.stages.carry_plan import CARRIED, CarryOptions
from tiersnap.snapshot.stages.decoded_segments import DeltaFiles, segment_end
from tiersnap.snapshot.stages.kept_state import KeptState
from tiersnap.snapshot.stages.snapshot_sink import SnapshotObject, SnapshotSink, StoredSnapshot
from tiersnap.snapshot.state.carry import Boundary, StartState
from tiersnap.snapshot.state.expiry import Expiry
from tiersnap.snapshot.state.partition_replay import Replay, may_be_stored, replay_partition, snapshot_reader
from tiersnap.snapshot.state.replay import Run
from tiersnap.snapshot.state.trust import Comparison, SnapshotVerdict
from tiersnap.snapshot.table_file import TableFile


@dataclass(frozen=True)
class CarryPartitions:
    """PLAN rows -> CARRIED rows; nothing is written to object storage without a sink."""

    warehouse: str
    options: CarryOptions
    sink: SnapshotSink | None
    run_id: str
    now: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Carry the partitions of each plan row; their states share a file."""
        filesystem, folder = resolve(self.warehouse)
        away: list[TransientError] = []
        for batch in batches:
            for plan in batch.to_pylist():
                states = TableFile(filesystem, folder, "producer_states", writable(tables.PRODUCER_STATES))
                deltas = DeltaFiles(filesystem, f"{folder}/producer_deltas")
                rows = [
                    PartitionCarry(self, filesystem, folder, row, deltas, states, away).row()
                    for row in plan["partitions"]
                ]
                written = states.close()
                if rows and written is not None:
                    rows[-1]["files"] = [written]
                yield from to_table(rows, CARRIED).to_batches()


class PartitionCarry:
    """One partition of the stage."""

    def __init__(
        self,
        task: CarryPartitions,
        warehouse: fs.FileSystem,
        folder: str,
        row: Mapping[str, Any],
        deltas: DeltaFiles,
        states: TableFile,
        away: list[TransientError],
    ) -> None:
        """`away` holds the first sign, of any partition of the task, that the sink's server does not answer."""
        self._task, self._warehouse, self._folder, self._row = task, warehouse, folder, row
        self._deltas, self._states, self._away = deltas, states, away
        source, path = resolve(row["log_dir"])
        self._source = source
        self._partition: Partition = from_row(path.rstrip("/"), row)
        # Nothing of a compacted topic is ever tiered, so nobody waits for its snapshots.
        self._is_compacted = bool(never_tiered_reason(self._partition))
        self._snapshot_file = snapshot_reader(source, self._partition)
        self._bases = {segment.base_offset for segment in self._partition.segments}
        self._decoded = {segment["base_offset"]: segment for segment in row["decoded"]}
        self._kept = KeptState(row, self._partition, task.options)
        self._start = self._start_state()
        known = row["known"] if self._start is not None else []
        limit = self._start.offset if self._start is not None else -1
        self._snapshots: dict[int, dict[str, Any]] = {
            entry["end_offset"]: entry for entry in known if entry["end_offset"] <= limit
        }
        self._new: dict[int, dict[str, Any]] = {}
        self._objects: list[StoredSnapshot] = []
        self._errors: list[TiersnapError] = []
        self._is_unread = False

    @property
    def _at(self) -> tuple[int, int | None]:
        return self._task.now, self._task.options.producer_expiration

    def row(self) -> dict[str, Any]:
        """The row of CARRIED."""
        replay, boundaries = replay_partition(
            self._partition,
            self._read_runs,
            self._read_snapshot,
            start=self._start,
        )
        for boundary in boundaries:
            self._settle(boundary)
        self._note_vanished(replay)
        self._commit()
        rows = self._snapshots | self._new
        trusted = {offset: _as_tiered(row, self._task.options.replace) for offset, row in rows.items()}
        examination = conclude(replay, trusted)
        return {
            # Errors leave the partition unfinished, and so does a snapshot file that could not be read: neither its
            # size nor its time will say when it can be.
            "state": self._kept.keep(
                replay.closed_state,
                self._states,
                is_finished=not (self._errors or self._is_unread),
                writes=self._task.sink is not None,
                now=self._task.now,
            ),
            "snapshots": list(self._new.values()),
            "readiness": list(self._readiness(examination, rows)),
            "findings": [finding.as_dict() for finding in examination.findings],
            "errors": [f"{self._partition.name}{error.attrs['at']}: {error.message}" for error in self._errors],
            "is_transient": all(isinstance(error, TransientError) for error in self._errors),
            "written": len(self._objects),
            "files": [],
        }

    def _note_vanished(self, replay: Replay) -> None:
        """Retention deletes segments at any time: one that went after it was listed is no damage but bad luck."""
        for end in replay.ends.values():
            if end.finding is not None and end.finding.kind is FindingKind.UNREADABLE_FILE:
                path = end.finding.path
                if self._source.get_file_info(path).type is fs.FileType.NotFound:
                    message = f"{path} was deleted while the run was at work"
                    self._errors.append(TransientError(message, hint="run the same command again", at=""))

    def _tiered(self) -> RemoteCoverage:
        """The segments that are in remote storage up to their ends, and nothing of what else is."""
        ends: dict[int, int] = {}
        for row in self._row["tiered"]:
            ends[row["base_offset"]] = max(row["end_offset"], ends.get(row["base_offset"], -1))
        nexts = {segment.base_offset: segment.next_base_offset for segment in self._partition.segments}
        covered = [(base, end) for base, end in nexts.items() if end is not None and ends.get(base, -1) + 1 >= end]
        return RemoteCoverage(tuple(joined(covered)), max((end for _, end in covered), default=0))

    def _read_snapshot(self, offset: int) -> bytes | None:
        try:
            return self._snapshot_file(offset)
        except OSError:
            self._is_unread = True
            raise

    def _read_runs(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd]:
        decoded = self._decoded[segment.base_offset]
        return self._deltas.runs(decoded), segment_end(decoded, segment.log.path)

    def _settle(self, boundary: Boundary) -> None:
        """Write the boundary's snapshot if it is wanted, and remember its row."""
        options = self._task.options
        row: dict[str, Any] = {
            **{name: self._row[name] for name in ("log_dir", "topic", "topic_id", "partition")},
            "end_offset": boundary.offset,
            "found": str(boundary.found.verdict(*self._at)),
            "found_reason": boundary.found.reason(*self._at),
            "provenance": str(boundary.provenance),
            "folded_from": boundary.folded_from,
            "entry_count": None,
            "crc": None,
            "object_key": None,
            "run_id": self._task.run_id,
            "recorded_at": self._task.now,
        }
        self._new[boundary.offset] = row
        if self._task.sink is None or not self._is_wanted(boundary.offset, boundary.found.verdict(*self._at)):
            return
        if self._away:
            # Every boundary of every partition would wait for its time-outs; the next run goes on here.
            if not self._errors:
                self._errors.append(TransientError(f"not tried after: {self._away[0].message}", at=""))
            return
        expiry = Expiry(options.expiration, self._task.now, options.as_of)
        entries = expiry.live(boundary.entries, boundary.max_timestamp)
        snapshot = SnapshotObject(
            self._row["topic"],
            self._row["topic_id"],
            self._row["partition"],
            boundary.offset,
            snapshot_file.encode(entries),
            row["provenance"],
            boundary.folded_from,
            int(entries.size),
        )
        try:
            stored = self._task.sink.put(snapshot)
            row |= {"object_key": stored.key, "entry_count": stored.entry_count, "crc": stored.crc}
            self._objects.append(stored)
        except TiersnapError as error:
            error.attrs["at"] = f" {boundary.offset}"
            self._errors.append(error)
            if isinstance(error, TransientError):
                self._away.append(error)

    def _lacks_objects(self, limit: int) -> bool:
        """Whether an earlier run left unwritten what this one is to write, at or below `limit`."""
        return self._task.sink is not None and any(
            row["end_offset"] <= limit
            and row["object_key"] is None
            and self._is_wanted(row["end_offset"], SnapshotVerdict(row["found"]))
            for row in self._row["known"]
        )

    def _is_wanted(self, offset: int, found: SnapshotVerdict) -> bool:
        options = self._task.options
        if not may_be_stored(self._partition, offset):
            return False
        if options.every_boundary:
            return True
        if offset not in self._bases or self._is_compacted:
            return False
        return found is SnapshotVerdict.MISSING or (
            options.replace and found in (SnapshotVerdict.CORRUPT, SnapshotVerdict.SUSPECT)
        )

    def _commit(self) -> None:
        if self._task.sink is None or not self._objects or self._away:
            return
        try:
            self._task.sink.commit(self._row["topic"], self._row["topic_id"], self._row["partition"], self._objects)
        except TiersnapError as error:
            error.attrs["at"] = ""
            self._errors.append(error)

    def _start_state(self) -> StartState | None:
        start = self._kept.start(self._folder, self._deltas)
        return None if start is None or self._lacks_objects(start.offset) else start

    def _readiness(self, examination: Examination, rows: Mapping[int, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        replay, partition = examination.replay, self._partition
        now, producer_expiration = self._at
        verdicts = examination.readiness(now=now, producer_expiration=producer_expiration, coverage=self._tiered())
        for facts, segment, readiness in zip(examination.segments, partition.segments, verdicts, strict=True):
            end = replay.ends.get(segment.base_offset)
            following = replay.log_end if segment.next_base_offset is None else segment.next_base_offset
            snapshot = rows.get(following)
            yield {
                **{name: self._row[name] for name in ("log_dir", "topic", "topic_id", "partition")},
                "base_offset": segment.base_offset,
                "next_base_offset": segment.next_base_offset,
                "size_bytes": segment.log.size,
                "max_timestamp": facts.largest_timestamp,
                "verdict": str(readiness.verdict),
                "reason": readiness.reason,
                "next_step": readiness.next_step,
                "snapshot": str(
                    examination.snapshots[following].verdict(now, producer_expiration)
                    if following in examination.snapshots
                    else SnapshotVerdict.UNVERIFIED
                ),
                "snapshot_provenance": None if snapshot is None else _provenance(snapshot),
                "high_watermark": replay.high_watermark,
                "last_stable_offset": replay.last_stable_offset,
                "log_start_offset": partition.log_start_offset,
                "finding_count": 0 if end is None or end.finding is None else 1,
            }


def _as_tiered(row: Mapping[str, Any], replace: bool) -> Comparison:
    """The verdict on what a bundle would carry: the broker's file, or the object written in its place."""
    found = SnapshotVerdict(row["found"])
    if row["object_key"] is not None and (found is SnapshotVerdict.MISSING or (replace and not found.is_trusted)):
        return Comparison(SnapshotVerdict.MATCHES, f"computed from the log ({row['provenance']})")
    return Comparison(found, row["found_reason"])


def _provenance(row: Mapping[str, Any]) -> str | None:
    if SnapshotVerdict(row["found"]).is_trusted:
        return "BROKER"
    return None if row["object_key"] is None else str(row["provenance"])
