"""One partition carried: its decodes in, the missing snapshots written, what is to be said of it out, as facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.errors import TiersnapError, TransientError, UnknownStateError, recorded
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import Segment
from tiersnap.snapshot.log.places import resolve
from tiersnap.snapshot.log.segment_scan import SegmentEnd
from tiersnap.snapshot.replay.examine import Examination, conclude, partition_facts
from tiersnap.snapshot.replay.partition_replay import (
    Beginning,
    Replay,
    may_be_stored,
    replay_partition,
    snapshot_reader,
)
from tiersnap.snapshot.replay.partition_state import Boundary, StartState
from tiersnap.snapshot.replay.remote_state import ELSEWHERE
from tiersnap.snapshot.replay.segment_fold import Run
from tiersnap.snapshot.replay.trust import Comparison, Provenance, SnapshotVerdict
from tiersnap.snapshot.tables.deltas import NO_DELTAS, parts
from tiersnap.snapshot.tables.facts import (
    FactKind,
    Row,
    fact,
    of_comparison,
    of_partition,
    of_segment,
    to_batches,
    to_comparison,
)
from tiersnap.snapshot.tables.listed import from_row
from tiersnap.snapshot.tables.schemas import PART_DELTAS, PARTITION_KEY
from tiersnap.snapshot.tasks.carry_options import CarryOptions
from tiersnap.snapshot.tasks.decode_segments import segment_end
from tiersnap.snapshot.tasks.local_input import LocalInput
from tiersnap.snapshot.tasks.look_again import why_not_read
from tiersnap.snapshot.tasks.partition_input import PartitionInput
from tiersnap.snapshot.tasks.remote_look import RemoteLook
from tiersnap.snapshot.tasks.remote_start import is_continued, known_state, read_entries, start_state
from tiersnap.snapshot.tasks.snapshot_sink import SnapshotSink
from tiersnap.snapshot.tasks.store_boundary import BoundaryStore, of_stored
from tiersnap.snapshot.tasks.window_start import WindowStart

# Columns of LISTED that a carry leaves in the table.
_AS_LISTED = ("directory_id", "cluster_id", "leader_epochs", "expired_to", "encrypted_by")


@dataclass(frozen=True)
class CarryPartition:
    """INPUT rows of one partition -> PARTITIONS rows; nothing is written to object storage without a sink.

    Attributes:
        run: number of the run.
        now: ms, the run's only reading of the clock.
        look: reads a state of remote storage that a listing names; None where no listing does.
        away: what a sink said that does not answer: it is not asked again, or every boundary of every partition would
            wait for its time-outs.
    """

    options: CarryOptions
    sink: SnapshotSink | None
    run: int
    now: int
    look: RemoteLook | None = None
    away: list[str] = field(default_factory=list)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Carry the partition.

        Raises:
            ValueError: the rows are not in order.
        """
        rows = PartitionInput(batches)
        if rows.listed is None:
            raise ValueError("no listing before the decodes: Spark did not keep the order of the sort")
        yield from to_batches(self.facts(rows))

    def facts(self, rows: PartitionInput | LocalInput) -> Iterator[Row]:
        """Rows of PARTITIONS as dicts, `deltas` as arrays (DELTA_DTYPE)."""
        return _Carry(self, rows).facts()


class _Carry:
    """One carry of one partition."""

    def __init__(self, task: CarryPartition, rows: PartitionInput | LocalInput) -> None:
        listed = rows.listed
        assert listed is not None
        self._task, self._rows, self._listed = task, rows, listed
        self._key = {name: listed[name] for name in PARTITION_KEY}
        self._source, path = resolve(listed["log_dir"])
        self._partition = from_row(path.rstrip("/"), listed)
        self._bases = {segment.base_offset for segment in self._partition.segments}
        self._largest_timestamps = {each["base_offset"]: each["largest_timestamp"] for each in listed["segments"]}
        self._snapshot_file = snapshot_reader(self._source, self._partition)
        self._boundaries: dict[int, Row] = {}
        self._errors: list[TiersnapError] = []
        self._file_bytes: int | None = None
        self._file_crc: int | None = None
        self._not_read: str | None = None
        self._unread_count = 0
        # Nobody could look whether the log goes back further than its files.
        self._is_blind = listed["remote_error"] is not None and self._partition.first_base_offset > 0
        self._is_continued = is_continued(self._partition, listed["copies"] or ())
        # Not a byte goes where tiersnap may not upload.
        self._is_refused = listed["encrypted_by"] is not None
        is_left = self._is_blind or self._is_refused
        self._store = None if is_left or task.sink is None else self._store_in(task.sink)

    def _store_in(self, sink: SnapshotSink) -> BoundaryStore:
        task = self._task
        return BoundaryStore(
            sink, self._partition, self._listed, task.options, now=task.now, away=task.away, errors=self._errors
        )

    def facts(self) -> Iterator[Row]:
        """Rows of PARTITIONS."""
        try:
            start = self._claimed_start() or self._start() or self._window_start()
            begins = self._beginning() if start is None else Beginning(self._is_continued, start)
        except TiersnapError as unknown:
            yield from self._unfinished(unknown)
            return
        replay, boundaries = replay_partition(self._partition, self._read_runs, self._read_snapshot, begins=begins)
        if self._store is not None:
            self._store.gaps = replay.gaps
        for boundary in boundaries:
            self._settle(boundary)
        self._note_vanished(replay)
        if self._store is not None:
            self._store.commit()
        examination = conclude(replay, {offset: to_comparison(row) for offset, row in self._boundaries.items()})
        yield from self._carried(examination)
        yield from self._boundaries.values()
        for segment in examination.segments:
            yield self._fact(FactKind.SEGMENT, offset=segment.base_offset, **of_segment(segment))
        yield from self._findings(examination)
        for number, error in enumerate(self._errors):
            yield self._error(number, error)

    def _error(self, number: int, error: TiersnapError) -> Row:
        message = f"{self._partition.name}{error.attrs.get('at', '')}: {error.message}"
        return self._fact(FactKind.ERROR, part=number, message=message, **recorded(error))

    def _unfinished(self, error: TiersnapError) -> Iterator[Row]:
        """Of a partition of which nothing can be said."""
        replay, _ = replay_partition(replace(self._partition, segments=()), self._read_runs, self._read_snapshot)
        yield self._fact(FactKind.CARRIED, fingerprint="", **of_partition(partition_facts(replay)))
        yield self._error(0, error)

    def _fact(self, kind: FactKind, *, offset: int = 0, part: int = 0, **values: object) -> Row:
        return fact(self._key, kind, run=self._task.run, offset=offset, part=part, **values)

    def _start(self) -> StartState | None:
        """The state that an earlier carry left; what it said of the boundaries below stays true."""
        carried = next((row for row in self._rows.facts if row["kind"] == FactKind.CARRIED), None)
        if carried is None or carried["state_offset"] is None:
            return None
        states = sorted((row for row in self._rows.facts if row["kind"] == FactKind.STATE), key=lambda row: row["part"])
        offset = carried["state_offset"]
        for row in self._rows.facts:
            if row["kind"] == FactKind.BOUNDARY and row["offset"] <= offset:
                kept = {name: value for name, value in row.items() if name != "deltas" and value is not None}
                self._boundaries[row["offset"]] = {**kept, "run": self._task.run}
        deltas = np.concatenate([NO_DELTAS, *(row["deltas"] for row in states)])
        return StartState(offset, deltas, carried["history_from"], carried["has_adopted"])

    def _claimed_start(self) -> StartState | None:
        """The state that the listing names in remote storage, where a claim vouches for it."""
        start, look = self._listed["start"], self._task.look
        if start is None or look is None:
            return None
        entries = read_entries(look, self._partition, start)
        state = start_state(self._partition, start, entries)
        self._note_start(state, start["provenance"])
        return state

    def _note_start(self, state: StartState, provenance: str) -> None:
        """Begin there, and remember what is open there: the next segment's transaction index is held against it."""
        opened = state.deltas.compress(state.deltas["txn_first_offset"] >= 0)
        self._boundaries[state.offset] = self._fact(
            FactKind.BOUNDARY,
            offset=state.offset,
            **of_comparison(Comparison(SnapshotVerdict.UNVERIFIED, "not compared: remote storage has one of its own")),
            open_transactions=[
                {"producer_id": producer_id, "first_offset": first}
                for producer_id, first in opened[["producer_id", "txn_first_offset"]].tolist()
            ],
            provenance=provenance,
            folded_from=state.offset,
        )
        self._rows.begin_at(state.offset)

    def _beginning(self) -> Beginning:
        """What remote storage says of a log that begins there, if a snapshot is wanted here; else nobody asks it."""
        begins = self._known_beginning() if self._wants_snapshot() else Beginning(self._is_continued)
        if begins.start is not None:
            complete = Provenance.COMPUTED if begins.start.has_adopted else Provenance.COMPUTED_FROM_SNAPSHOT
            self._note_start(begins.start, str(complete))
        return begins

    def _known_beginning(self) -> Beginning:
        look, options = self._task.look, self._task.options
        if look is None or self._is_blind or not self._is_continued:
            return Beginning(self._is_continued)
        copies = self._listed["copies"] or ()
        expiration = options.producer_expiration
        begins = known_state(look, self._partition, copies, now=self._task.now, producer_expiration=expiration)
        if begins.why:
            told = f"what came before its files is not known: {begins.why}"
            self._errors.append(UnknownStateError(told, hint=ELSEWHERE, at=""))
        return begins

    def _wants_snapshot(self) -> bool:
        """Whether a state is needed: for a segment that is to be tiered, or because all boundaries are wanted."""
        ends = (each["next_base_offset"] for each in self._listed["segments"] if not each["is_tiered"])
        may_go = any(end is not None and may_be_stored(self._partition, end) for end in ends)
        return may_go or self._task.options.every_boundary

    def _window_start(self) -> StartState | None:
        """The state at the edge of the scan window, once what lies before it has been settled."""
        offset = self._listed["window_offset"]
        if offset is None:
            return None
        window = WindowStart(
            self._source,
            self._partition,
            offset,
            self._rows.window(),
            is_continued=self._is_continued,
            before=lambda: self._known_beginning().start if self._wants_snapshot() else None,
        )
        tiered_ends = {each["next_base_offset"] for each in self._listed["segments"] if each["is_tiered"]}
        first = self._partition.segments[0].base_offset
        ends = {end for end in (*self._bases, *self._partition.snapshots) if end > first} - tiered_ends
        for boundary in window.boundaries(ends, self._read_snapshot):
            self._settle(boundary)
        return window.state

    def _read_runs(self, segment: Segment, cuts: list[int]) -> tuple[Iterable[Run], SegmentEnd]:
        found = self._rows.decode(segment.base_offset)
        if found is None:
            return (), self._undecoded(segment)
        decode, runs = found
        return runs, segment_end(decode, segment.log.path)

    def _undecoded(self, segment: Segment) -> SegmentEnd:
        """Of a segment that needed no decode: it lies below the state that the carry starts from."""
        end = segment.next_base_offset if segment.next_base_offset is not None else segment.base_offset
        return SegmentEnd(
            size=segment.log.size,
            valid_bytes=segment.log.size,
            batch_count=0,
            legacy_count=0,
            last_offset=end - 1,
            first_timestamp=-1,
            max_timestamp=self._largest_timestamps.get(segment.base_offset) or -1,
            has_gaps=False,
            digest="",
            crc_checked=False,
            finding=None,
        )

    def _read_snapshot(self, offset: int) -> bytes | None:
        self._file_bytes = self._file_crc = self._not_read = None
        try:
            data = self._snapshot_file(offset)
        except OSError as error:
            self._not_read = why_not_read(error)
            self._unread_count += 1
            raise
        if data is not None:
            self._file_bytes, self._file_crc = len(data), crc32c(data)
        return data

    def _settle(self, boundary: Boundary) -> None:
        """Remember what was found at the boundary, and what was stored of it."""
        row = self._fact(
            FactKind.BOUNDARY,
            offset=boundary.offset,
            **of_comparison(boundary.found),
            file_bytes=self._file_bytes,
            file_crc=self._file_crc,
            not_read=self._not_read,
            open_transactions=_open_transactions(boundary),
            provenance=str(boundary.provenance),
            folded_from=boundary.folded_from,
        )
        stored = None if self._store is None else self._store.put(boundary)
        self._boundaries[boundary.offset] = row if stored is None else row | of_stored(stored, self._task.run)

    def _note_vanished(self, replay: Replay) -> None:
        """Retention deletes segments at any time: one that went after it was listed is no damage but bad luck."""
        decodes = {segment["base_offset"]: segment["decode"] for segment in self._listed["segments"]}
        for base_offset, end in replay.ends.items():
            if end.finding is not None and end.finding.kind is FindingKind.UNREADABLE_FILE:
                name = decodes[base_offset]
                path = end.finding.path if name is None else f"{self._partition.path}/{name}"
                if self._source.is_gone(path):
                    self._errors.append(TransientError(f"{path} was deleted while the run was at work", at=""))

    def _carried(self, examination: Examination) -> Iterator[Row]:
        may_get_start = examination.replay.lacks_start and self._unread_count > 0
        is_finished = not (self._errors or self._is_blind or may_get_start)
        digest = self._task.options.digest(place=None if self._task.sink is None else self._task.sink.uri)
        # A snapshot file that could not be read may turn out to know more than the log, and the state follow from it.
        # And what was not stored, since it was refused, is stored from the beginning once it is not.
        is_kept = is_finished and not self._unread_count and not self._is_refused
        state = examination.replay.closed_state if is_kept else None
        chains = {segment["base_offset"]: segment["chain"] for segment in self._listed["segments"]}
        yield self._fact(
            FactKind.CARRIED,
            fingerprint=f"{self._listed['fingerprint']}:{digest}" if is_finished else "",
            **of_partition(examination.facts),
            **{name: self._listed[name] for name in _AS_LISTED},
            state_offset=None if state is None else state.offset,
            state_chain=None if state is None else chains[state.offset],
            history_from=None if state is None else state.history_from,
            has_adopted=None if state is None else state.has_adopted,
            unread_count=self._unread_count,
        )
        if state is not None:
            for number, piece in enumerate(parts(state.deltas)):
                yield self._fact(FactKind.STATE, part=number, deltas=piece)

    def _findings(self, examination: Examination) -> Iterator[Row]:
        for number, finding in enumerate(examination.findings):
            yield self._fact(
                FactKind.FINDING,
                part=number,
                finding_kind=str(finding.kind),
                path=finding.path,
                position=finding.position,
                message=finding.message,
            )


def _open_transactions(boundary: Boundary) -> list[dict[str, int]] | None:
    """Those open at the boundary, which the transaction index of the next segment is held against."""
    opened = boundary.open_transactions
    if opened is None or len(opened) > PART_DELTAS:
        return None
    return [{"producer_id": producer_id, "first_offset": first} for producer_id, first in opened]
