"""Stage 3: carry the state along each partition, write the snapshots that are missing, judge every segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from snapshot import snapshot_file, tables
from snapshot.carry import Boundary, StartState
from snapshot.delta_rows import DELTA_COLUMNS, deltas_to_table, table_to_deltas, writable
from snapshot.errors import TiersnapError, TransientError
from snapshot.examine import Examination, compaction_reason, conclude
from snapshot.findings import FindingKind
from snapshot.log_dir import Partition, Segment, resolve
from snapshot.partition_replay import Replay, replay_partition, snapshot_reader
from snapshot.partition_rows import PARTITIONS, fingerprint, from_row, to_table
from snapshot.producer_state import live_entries
from snapshot.replay import Run
from snapshot.segment_scan import SegmentEnd
from snapshot.stages.decoded_segments import DECODED_SEGMENT, DeltaFiles, segment_end
from snapshot.stages.snapshot_sink import SnapshotObject, SnapshotSink, StoredSnapshot
from snapshot.table_file import WRITTEN_FILE, TableFile
from snapshot.trust import Comparison, SnapshotVerdict

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
    """Settings of the stage; all but `as_of` change what a partition's outcome is.

    Attributes:
        expiration: ms, producers idle that long at `as_of` (ms) are left out of what is written; None keeps all.
        every_boundary: write every aligned boundary, not only those that lack a snapshot.
        replace: also write where the broker's file is CORRUPT or SUSPECT, and tier with what was written.
    """

    expiration: int | None
    as_of: int
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
        self._is_compacted = bool(compaction_reason(self._partition, has_gaps=False))
        self._snapshot_file = snapshot_reader(source, self._partition)
        self._bases = {segment.base_offset for segment in self._partition.segments}
        self._decoded = {segment["base_offset"]: segment for segment in row["decoded"]}
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

    def row(self) -> dict[str, Any]:
        """The row of CARRIED."""
        replay, boundaries = replay_partition(
            self._partition,
            self._read_runs,
            self._read_snapshot,
            start=self._start,
            producer_expiration=self._task.options.producer_expiration,
        )
        for boundary in boundaries:
            self._settle(boundary)
        self._note_vanished(replay)
        self._commit()
        rows = self._snapshots | self._new
        trusted = {offset: _as_tiered(row, self._task.options.replace) for offset, row in rows.items()}
        examination = conclude(self._partition, replay, trusted, self._tiered())
        return {
            "state": self._state_row(replay.closed_state),
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

    def _tiered(self) -> set[int]:
        """Base offsets of the segments that are in remote storage up to their ends."""
        ends: dict[int, int] = {}
        for row in self._row["tiered"]:
            ends[row["base_offset"]] = max(row["end_offset"], ends.get(row["base_offset"], -1))
        nexts = {segment.base_offset: segment.next_base_offset for segment in self._partition.segments}
        return {
            base for base, following in nexts.items() if following is not None and ends.get(base, -1) + 1 >= following
        }

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
            "found": str(boundary.found.verdict),
            "found_reason": boundary.found.reason,
            "provenance": str(boundary.provenance),
            "folded_from": boundary.folded_from,
            "entry_count": None,
            "crc": None,
            "object_key": None,
            "run_id": self._task.run_id,
            "recorded_at": self._task.now,
        }
        self._new[boundary.offset] = row
        if self._task.sink is None or not self._is_wanted(boundary.offset, boundary.found.verdict):
            return
        if self._away:
            # Every boundary of every partition would wait for its time-outs; the next run goes on here.
            if not self._errors:
                self._errors.append(TransientError(f"not tried after: {self._away[0].message}", at=""))
            return
        entries = live_entries(boundary.entries, as_of=options.as_of, expiration=options.expiration)
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
        if options.every_boundary:
            return True
        # What is not replicated yet may be cut off and written anew, and the object would contradict the log for good.
        limit = self._partition.high_watermark
        if offset not in self._bases or self._is_compacted or (limit is not None and offset > limit):
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
        """The state of the last run, if everything below it is as it was and the high watermark is not."""
        previous = self._row["previous"]
        if previous is None or previous["state_end_offset"] is None:
            return None
        offset = previous["state_end_offset"]
        high_watermark = self._partition.high_watermark
        if high_watermark is not None and high_watermark < offset:
            return None
        if previous["chain"] != self._chain(offset) or self._lacks_objects(offset):
            return None
        row_group = previous["state_row_group"]
        groups = [row_group] if row_group >= 0 else []
        path = f"{self._folder}/producer_states/{previous['state_file']}"
        try:
            deltas = table_to_deltas(self._deltas.read(path, groups, DELTA_COLUMNS))
        except FileNotFoundError:
            # Somebody cleaned up the table: what the state was made of is still there.
            return None
        return StartState(offset, deltas, previous["history_from"], previous["has_adopted"], previous["last_timestamp"])

    def _chain(self, offset: int) -> str:
        """Digest of all that the state at `offset`, and what is known of the snapshots below it, were made of."""
        segments = [
            (row["base_offset"], row["size_bytes"], row["modified_ns"])
            for row in self._row["segments"]
            if row["base_offset"] < offset
        ]
        snapshots = [
            (row["end_offset"], row["size_bytes"], row["modified_ns"])
            for row in self._row["snapshots"]
            if row["end_offset"] <= offset
        ]
        judged = (self._partition.topic_id, self._partition.cleaner_offset, self._task.options.producer_expiration)
        return fingerprint(segments, snapshots, offset in self._bases, judged)

    def _state_row(self, state: StartState | None) -> dict[str, Any]:
        # Errors leave the partition unfinished: without a fingerprint the next run carries it again. So does a
        # snapshot file that could not be read: neither its size nor its time will say when it can be.
        decoded_at = [self._decoded[base]["decoded_at"] for base in self._bases]
        digest = outcome_fingerprint(
            self._row["fingerprint"],
            self._row["topic_id"],
            max(decoded_at, default=None),
            self._task.options,
            writes=self._task.sink is not None,
        )
        is_unfinished = bool(self._errors) or self._is_unread
        row: dict[str, Any] = {
            **{name: self._row[name] for name in tables.PARTITION_KEY},
            "fingerprint": "" if is_unfinished else digest,
            "recorded_at": self._task.now,
        }
        if state is None or is_unfinished:
            return row
        identity = {**{name: self._row[name] for name in tables.PARTITION_KEY}, "end_offset": state.offset}
        row_group = self._states.write(deltas_to_table(state.deltas, identity, tables.PRODUCER_STATES))
        return row | {
            "state_end_offset": state.offset,
            "state_file": self._states.name,
            "state_row_group": row_group,
            "history_from": state.history_from,
            "has_adopted": state.has_adopted,
            "last_timestamp": state.last_timestamp,
            "chain": self._chain(state.offset),
        }

    def _readiness(self, examination: Examination, rows: Mapping[int, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        replay, partition = examination.replay, self._partition
        for segment, readiness in zip(partition.segments, examination.readiness, strict=True):
            end = replay.ends.get(segment.base_offset)
            following = replay.log_end if segment.next_base_offset is None else segment.next_base_offset
            snapshot = rows.get(following)
            yield {
                **{name: self._row[name] for name in ("log_dir", "topic", "topic_id", "partition")},
                "base_offset": segment.base_offset,
                "next_base_offset": segment.next_base_offset,
                "size_bytes": segment.log.size,
                "max_timestamp": -1 if end is None else end.max_timestamp,
                "verdict": str(readiness.verdict),
                "reason": readiness.reason,
                "next_step": readiness.next_step,
                "snapshot": str(
                    examination.snapshots[following].verdict
                    if following in examination.snapshots
                    else SnapshotVerdict.UNKNOWN
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
