"""Replay one listed partition from the best known state, and store the missing snapshots.

A host passes only the log directory. A Spark task also passes decodes, and the state that an earlier run stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tiersnap.snapshot.errors import TiersnapError, TransientError, UnknownStateError
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.findings import DELETED, FindingKind
from tiersnap.snapshot.log.index_faults import faults_by_order
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.log.segment_walk import SegmentEnd
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.examine import Examination, conclude, examine_decodes
from tiersnap.snapshot.replay.expiry import ReplayOptions
from tiersnap.snapshot.replay.partition_listing import PartitionListing
from tiersnap.snapshot.replay.partition_replay import Replay, may_be_stored, snapshot_reader
from tiersnap.snapshot.replay.partition_state import Boundary, SnapshotAt, StoredAt
from tiersnap.snapshot.replay.remote_listing import ELSEWHERE, RemoteLook
from tiersnap.snapshot.replay.replay_start import (
    NOT_REACHED,
    Beginning,
    StartState,
    is_continued,
    known_state,
    read_entries,
    start_state,
)
from tiersnap.snapshot.replay.segment_runs import DecodeSource
from tiersnap.snapshot.replay.snapshot_sink import BoundaryStore, SnapshotSink, StoredSnapshot
from tiersnap.snapshot.replay.window_start import WindowStart

MOST_OPEN_TRANSACTIONS = 2_000
"""Limit for one offset. A row with more open transactions stores null, so that its arrays stay small."""

_IN_REMOTE = Comparison(
    SnapshotVerdict.UNVERIFIED, "not compared: remote storage already has a snapshot for this offset"
)


@dataclass(frozen=True, slots=True, eq=False)
class Resume:
    """The results of a partition's replay in an earlier run."""

    start: StartState | None = None  # the state to continue from; None without one
    # The stored results by snapshot offset.
    snapshots: Mapping[int, SnapshotAt] = field(default_factory=dict)


FROM_THE_BEGINNING = Resume()


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """The results of a partition's replay."""

    examination: Examination
    errors: tuple[TiersnapError, ...]  # in order; `attrs["at"]` is the position of an error in the partition
    unread_count: int = 0  # number of snapshot files that could not be read
    is_finished: bool = False  # whether another replay of the same files would return the same
    # The state from which a replay of the grown log continues; None if it must start from the beginning.
    state: StartState | None = None


def error_at(partition: Partition, error: TiersnapError) -> str:
    """Return the error's message, preceded by the partition's name and the error's position in the partition."""
    return f"{partition.name}{error.attrs.get('at', '')}: {error.message}"


@dataclass(frozen=True)
class ListingReplay:
    """Replays listed partitions. Without a sink, nothing is written to object storage."""

    options: ReplayOptions
    sink: SnapshotSink | None
    run: int  # number of the run
    now: int  # ms, the time of the run
    look: RemoteLook | None = None  # reads the states in remote storage that listings name; None if no listing has one
    # The error of a sink that does not answer, or empty. Such a sink is not called again, because each call would wait
    # for a timeout.
    away: list[str] = field(default_factory=list)

    def replay(self, listing: PartitionListing, decodes: DecodeSource, resume: Resume = FROM_THE_BEGINNING) -> Replayed:
        """Return the results of a partition's replay."""
        return _OneReplay(self, listing, decodes, resume).replayed()


class _OneReplay:
    """The replay of one partition."""

    def __init__(self, task: ListingReplay, listing: PartitionListing, decodes: DecodeSource, resume: Resume) -> None:
        self._task, self._listing, self._decodes, self._resume = task, listing, decodes, resume
        self._partition = listing.partition
        self._known: dict[int, SnapshotAt] = {}
        self._errors: list[TiersnapError] = []
        self._read = snapshot_reader(listing.filesystem, listing.partition)
        self._unread_count = 0
        # If the remote segments could not be listed, the log may begin in remote storage.
        error = listing.remote_error
        self._is_blind = error is not None and self._partition.first_base_offset > 0
        self._is_continued = is_continued(self._partition, listing.remote.copies)
        # No object is written to a location that tiersnap may not upload to.
        self._is_refused = listing.remote.encrypted_by is not None or (error is not None and not error.is_transient)
        self._store: BoundaryStore | None = None
        if task.sink is not None and not self._is_blind and not self._is_refused:
            about = (self._partition, listing.cluster_id, task.options)
            self._store = BoundaryStore(task.sink, *about, now=task.now, away=task.away, errors=self._errors)

    def replayed(self) -> Replayed:
        try:
            start = self._claimed_start() or self._resumed() or self._window_start()
            begins = self._beginning() if start is None else Beginning(self._is_continued, start)
        except TiersnapError as unknown:
            nothing = Replay(replace(self._partition, segments=()))
            return Replayed(replace(conclude(nothing, {}), findings=()), (unknown,))
        examination = examine_decodes(
            self._partition,
            self._decodes,
            self._read_snapshot,
            on_boundary=self._settle,
            begins=begins,
            known=self._known,
            largest_timestamps=self._listing.largest_timestamps,
            find_faults=self._index_faults,
        )
        if self._store is not None:
            self._store.commit()
            examination = replace(examination, reached=self._with_stored(examination.reached, self._store.stored))
        is_finished = self._is_finished(examination)
        # Keep no state if a snapshot file was not read, because it may extend the log. Keep none if uploads were
        # refused, because a later replay must store the snapshots from the beginning.
        state = None
        if is_finished and not self._unread_count and not self._is_refused:
            state = examination.closed
        return Replayed(examination, tuple(self._errors), self._unread_count, is_finished, state)

    def _is_finished(self, examination: Examination) -> bool:
        """Return whether a later replay of the same files would give the same results."""
        has_vanished = self._note_vanished(examination)
        if self._errors or has_vanished or self._is_blind:
            return False
        # A repair of an index does not change the listing, so the next run must examine the indexes again.
        if examination.has_index_faults:
            return False
        may_get_start = examination.lacks_start and self._unread_count > 0
        return not may_get_start

    def _resumed(self) -> StartState | None:
        """Return the state that an earlier replay stored, or None.

        Keep the earlier results up to the state's offset.
        """
        start = self._resume.start
        if start is not None:
            for offset, each in self._resume.snapshots.items():
                if offset <= start.offset:
                    self._known[offset] = each
        return start

    def _claimed_start(self) -> StartState | None:
        """Return the state in the remote snapshot that the listing names as `start`; None without such a snapshot."""
        start, look = self._listing.start, self._task.look
        if start is None or look is None:
            return None
        state = start_state(self._partition, start, read_entries(look, self._partition, start))
        self._note_start(state, start.provenance)
        return state

    def _note_start(self, state: StartState, provenance: Provenance) -> None:
        """Record the start and the transactions that are open at it.

        The check of a transaction index needs the transactions that are open at the start of the segment.
        """
        opened = state.deltas.compress(state.deltas["txn_first_offset"] >= 0)
        self._known[state.offset] = SnapshotAt(
            state.offset,
            _IN_REMOTE,
            provenance,
            folded_from=state.offset,
            open_transactions=tuple(opened[["producer_id", "txn_first_offset"]].tolist()),
        )
        self._decodes.begin_at(state.offset)

    def _beginning(self) -> Beginning:
        """Return the state at the first local offset. Remote storage is not read if no snapshot must be computed."""
        if not self._wants_snapshot():
            return Beginning(self._is_continued)
        begins = self._known_beginning()
        if begins.start is not None:
            provenance = Provenance.COMPUTED_FROM_SNAPSHOT
            if begins.start.has_adopted:
                provenance = Provenance.COMPUTED
            self._note_start(begins.start, provenance)
        return begins

    def _known_beginning(self) -> Beginning:
        look = self._task.look
        if look is None:
            return Beginning(self._is_continued)
        if self._is_continued is None:
            return Beginning(None, why=NOT_REACHED)
        if self._is_blind or not self._is_continued:
            return Beginning(self._is_continued)
        expiry = self._task.options.broker_expiry(self._task.now)
        begins = known_state(look, self._partition, self._listing.remote.copies, expiry)
        if begins.why:
            message = f"the producer state below the first local segment is unknown: {begins.why}"
            self._errors.append(UnknownStateError(message, hint=ELSEWHERE, at=""))
        return begins

    def _wants_snapshot(self) -> bool:
        """Return whether a snapshot must be computed: a segment is not tiered, or the options want all snapshots."""
        if self._task.options.every_boundary:
            return True
        tiered = self._listing.tiered
        for segment in self._partition.segments:
            end = segment.next_base_offset
            if end is None or segment.base_offset in tiered:
                continue
            if may_be_stored(self._partition, end):
                return True
        return False

    def _window_start(self) -> StartState | None:
        """Store the results below the scan window, and return the state at its start; None without a window."""
        offset = self._listing.window_offset
        if offset is None:
            return None
        window = WindowStart(
            self._listing.filesystem,
            self._partition,
            offset,
            self._decodes.window(),
            is_continued=self._is_continued is not False,
            before=lambda: self._known_beginning().start if self._wants_snapshot() else None,
            read_snapshot=self._read_snapshot,
            leader=self._listing.leader,
        )
        for boundary in window.boundaries(self._ends_before_window(), self._read_snapshot):
            self._known[boundary.offset] = self._settle(boundary)
        return window.state

    def _index_faults(self, segment: Segment, end: SegmentEnd) -> tuple[str, ...]:
        """Return the faults in the indexes of a segment; () if the segment is tiered."""
        if segment.base_offset in self._listing.tiered:
            return ()
        return faults_by_order(self._listing.filesystem, segment, end)

    def _ends_before_window(self) -> Iterable[int]:
        segments, tiered = self._partition.segments, self._listing.tiered
        ends = set(self._partition.snapshots)
        ends.update(each.base_offset for each in segments)
        for segment in segments:
            if segment.base_offset in tiered and segment.next_base_offset is not None:
                ends.discard(segment.next_base_offset)
        return (end for end in ends if end > segments[0].base_offset)

    def _read_snapshot(self, offset: int) -> bytes | None:
        try:
            return self._read(offset)
        except OSError:
            self._unread_count += 1
            raise

    def _settle(self, boundary: Boundary) -> SnapshotAt:
        """Start to write the boundary's snapshot if it is wanted, and return the boundary's result."""
        opened = boundary.open_transactions
        if opened is not None and len(opened) > MOST_OPEN_TRANSACTIONS:
            opened = None
        snapshot = replace(boundary.snapshot, open_transactions=opened)
        if self._store is not None:
            self._store.put(boundary)
        return snapshot

    def _with_stored(
        self, reached: Mapping[int, SnapshotAt], stored: Mapping[int, StoredSnapshot]
    ) -> dict[int, SnapshotAt]:
        """Return the results, and add to each result the object of its snapshot, if the snapshot was stored."""
        found = dict(reached)
        for at, each in stored.items():
            if at in found:
                run = self._task.run if each.is_new else None
                written = StoredAt(each.key, each.crc32c, each.entry_count, run, each.is_mended)
                found[at] = replace(found[at], stored=written)
        return found

    def _note_vanished(self, examination: Examination) -> bool:
        """Return whether a segment was deleted after the listing, for example by retention.

        Add an error for each deleted object of a collected folder.
        """
        objects = self._listing.decode_objects
        has_vanished = False
        for segment, facts in zip(self._partition.segments, examination.segments, strict=True):
            if facts.damage_kind is FindingKind.DELETED_FILE:
                has_vanished = True
            if facts.damage_kind is not FindingKind.UNREADABLE_FILE:
                continue
            path = segment.log.path
            if segment.base_offset in objects:
                path = f"{self._partition.path}/{objects[segment.base_offset]}"
            if self._listing.filesystem.is_gone(path):
                self._errors.append(TransientError(f"{path}: {DELETED}", at=""))
        return has_vanished
