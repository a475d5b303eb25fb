"""Find the state from which a replay starts: the producer state at an offset.

A replay uses the first of these states that is known (see replay_listing):

    a claimed snapshot   at the end of the tiered segments: the snapshot of a remote segment that tiersnap uploaded, as
                         recorded in the segment's claim (`claimed_start`)
    an earlier replay    the state that it stored at the base offset of its active segment (replay_listing.Resume)
    the scan window      the state at the window's first offset (window_start.WindowStart)
    remote storage       if the log begins in remote storage: the state at the first local offset, or at the first
                         remote segment end above it (`known_state`). A follower restores its state in the same way
                         (TierStateMachine.buildRemoteLogAuxState)
    the log start        if the log begins at its first local segment: no producers

During the replay, a broker's file that strictly EXTENDS the log replaces the state. A replay that imitates a broker
(AS_BROKER) also starts from a file at the first local offset (partition_state.ReplayState).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from tiersnap.snapshot.errors import RemoteStorageError, TiersnapError, TransientError, UnknownStateError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import begins_below, may_begin_below, why_unknown
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.producer_fold import from_entries
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.remote_listing import ClaimedStart, ListedCopy, RemoteListing, RemoteLook


@dataclass(frozen=True, slots=True)
class StartState:
    """The producer state at `offset`, from which a replay starts."""

    offset: int
    deltas: np.ndarray  # DELTA_DTYPE, of the batches below `offset`
    # `deltas` may lack batches below this offset; 0 if it lacks none. If it is above the log's first offset, it is the
    # start of a scan window.
    history_from: int
    has_adopted: bool  # whether a broker's snapshot supplied the producers that the log lacks
    # Whether `deltas` lacks batches that exist only in remote storage; if so, no computed snapshot may be written.
    lacks_start: bool = False
    # Why the open transactions at `offset` are unknown, or "". If set, no computed snapshot may be written.
    transactions_unknown: str = ""


@dataclass(frozen=True, slots=True)
class CopyState:
    """The producer state at the end of a remote segment, above the first local offset."""

    offset: int  # exclusive; a base offset of the log
    entries: np.ndarray  # ENTRY_DTYPE, ascending producer id
    is_believed: Callable[[Comparison], bool]  # decides whether to use `entries`, by their comparison with the log


@dataclass(frozen=True, slots=True)
class Beginning:
    """The producer state of a log at its first local offset, as far as it is known."""

    # Whether the log begins in remote storage; None if remote storage does not show it, so that the local files decide
    # (see log_start).
    is_continued: bool | None = None
    start: StartState | None = None  # the state at the first local offset; None if it is unknown
    # The state at a remote segment's end above the first local offset, if `start` is unknown.
    copy: CopyState | None = None
    why: str = ""  # why remote storage could not supply the state or the log start; "" otherwise
    may_pass: bool = False  # whether the failure is transient
    # Whether to start from the snapshot file at the first local offset, right or wrong, as a broker does.
    as_broker: bool = False

    def goes_back(self, partition: Partition) -> bool:
        """Return whether the log begins or may begin in remote storage."""
        if self.is_continued is None:
            return begins_below(partition) is not False
        return self.is_continued

    def is_unlocated(self, partition: Partition) -> bool:
        """Return whether the log start offset and the state at the first local offset are both unknown."""
        has_state = self.start is not None or self.copy is not None
        return self.is_continued is None and not has_state and begins_below(partition) is None

    def opened(self, partition: Partition) -> Partition:
        """Return the partition with the log start that a broker uses when it opens the partition.

        If no checkpoint names the log start of a tiered log, the broker assumes 0, and so loads the snapshot file at
        the first local offset (LogLoader.load).
        """
        if partition.log_start_checkpoint is not None or self.is_unlocated(partition):
            return partition
        if not self.goes_back(partition):
            return partition
        return replace(partition, log_start_checkpoint=0)

    def is_unasked(self, partition: Partition) -> bool:
        """Return whether the state at the first local offset is in remote storage and remote storage was not asked."""
        return self.goes_back(partition) and self.start is None and self.copy is None and not self.why


NOT_LOOKED = Beginning()
AS_BROKER = Beginning(as_broker=True)


def beginning(look: RemoteLook, expiry: BrokerExpiry, partition: Partition) -> Beginning:
    """Return the producer state of a log at its first local offset, from remote storage.

    Missing remote segments do not prove that the log begins at its first local segment; see log_start.

    Raises:
        TransientError: remote storage does not answer.
        RemoteStorageError: remote storage refuses the request.
    """
    if partition.topic_id is None:
        return Beginning(True, why="the topic id is unknown on this host")
    try:
        copies = look(partition).copies
    except (TransientError, RemoteStorageError):
        raise
    except TiersnapError as error:
        return Beginning(True, why=error.message)
    continued = is_continued(partition, copies)
    if continued is None:
        return Beginning(why=NOT_REACHED)
    if not continued:
        return Beginning(False)
    return known_state(look, partition, copies, expiry)


def known_state(
    look: RemoteLook, partition: Partition, copies: Iterable[ListedCopy], expiry: BrokerExpiry
) -> Beginning:
    """Return the state at the first local offset, or else at the first remote segment end above it.

    Raises:
        TransientError: remote storage does not answer.
        RemoteStorageError: remote storage refuses the request.
    """
    first = partition.first_base_offset
    behind = {segment.base_offset for segment in partition.segments} - {first}
    ends = [copy.next_base_offset for copy in copies_up_to(behind, copies, partition)]
    try:
        found = look.state_at(partition, first, expiry)
        return Beginning(True, StartState(first, from_entries(found.entries), first, has_adopted=found.is_complete))
    except UnknownStateError as error:
        why = f"no producer state at the first local offset {first}: {error.message}"
    if ends:
        try:
            found = look.state_at(partition, min(ends), expiry)

            def is_believed(compared: Comparison) -> bool:
                """Return whether the entries agree with the log for each producer that a broker would keep now."""
                return compared.verdict(expiry).is_trusted

            return Beginning(True, copy=CopyState(found.offset, found.entries, is_believed), why=why)
        except UnknownStateError as error:
            why = f"{why}; {error.message}"
    return Beginning(True, why=why)


def copies_up_to(ends: Collection[int], copies: Iterable[ListedCopy], partition: Partition) -> list[ListedCopy]:
    """Return the finished remote segments that end at one of `ends` (exclusive).

    A segment is omitted if one of its offsets does not belong to the log's lineage.
    """
    lineage = partition.whole_epochs
    found: list[ListedCopy] = []
    for copy in copies:
        if not copy.is_finished or copy.next_base_offset not in ends:
            continue
        if copy.facts.is_of(lineage):
            found.append(copy)
    return found


def claimed_start(
    look: RemoteLook, partition: Partition, copies: Iterable[ListedCopy], *, doubts_log_start: bool
) -> ClaimedStart | None:
    """Return the first snapshot that a claim of these remote segments records, or None. Each claim takes one request.

    Args:
        doubts_log_start: whether to refuse a snapshot that was folded from a log start, because the log start is in
            doubt.

    Raises:
        TiersnapError: the claims could not be read.
    """
    found = look.find_start(partition, copies)
    if found is None or (doubts_log_start and found.provenance is Provenance.COMPUTED_FROM_LOG_START):
        return None
    return found


def read_entries(look: RemoteLook, partition: Partition, start: ClaimedStart) -> np.ndarray:
    """Return the entries (ENTRY_DTYPE) of a claimed snapshot.

    Raises:
        TiersnapError: the snapshot cannot be read, or differs from the one that the claim records.
    """
    return snapshot_file.decode(look.read_start(partition, start))


def start_state(partition: Partition, start: ClaimedStart, entries: np.ndarray) -> StartState:
    """Return the state of a claimed snapshot, from which a replay starts."""
    is_complete = start.provenance in (Provenance.BROKER, Provenance.COMPUTED)
    begins = partition.first_base_offset
    return StartState(start.snapshot_offset, from_entries(entries), history_from=begins, has_adopted=is_complete)


NOT_REACHED = "remote storage does not have all offsets below the first local segment"


def is_continued(partition: Partition, copies: Iterable[ListedCopy]) -> bool | None:
    """Return whether the log begins in remote storage; None if its log start is unknown (see log_start)."""
    return begins_below(partition, RemoteListing(tuple(copies)).coverage(partition.whole_epochs).covered)


FindBeginning = Callable[[Partition], Beginning]


@dataclass
class Beginnings:
    """Finds the beginning of each log that may begin in remote storage.

    If remote storage fails to answer once, no further request is sent.
    """

    find: FindBeginning | None = None  # reads remote storage; None to send no request
    # Why the state at a log's first local offset is unknown, by partition.
    unknown: dict[str, str] = field(default_factory=dict)
    # Why the log start offset is unknown, by partition.
    unlocated: dict[str, str] = field(default_factory=dict)
    away: str = ""  # why no further request is sent; "" while remote storage answers
    may_pass: bool = False  # whether a failure in `unknown` is transient

    def of(self, partition: Partition) -> Beginning:
        """Return the Beginning of a log. If the state or the log start is unknown, record the reason."""
        if not may_begin_below(partition) or never_tiered_reason(partition):
            return NOT_LOOKED
        found = NOT_LOOKED
        if self.find is not None:
            found = self._ask(self.find, partition)
        if found.is_unlocated(partition):
            self.unlocated[partition.name] = why_unknown(partition)
        elif found.why and found.copy is None:
            self.unknown[partition.name] = found.why
        self.may_pass |= found.may_pass
        return found

    def again(self, partition: Partition) -> Beginning:
        """Find the Beginning again, after the partition's log start became known. This replaces recorded reasons."""
        self.unknown.pop(partition.name, None)
        self.unlocated.pop(partition.name, None)
        return self.of(partition)

    def _ask(self, find: FindBeginning, partition: Partition) -> Beginning:
        if not self.away:
            try:
                return find(partition)
            except (TransientError, RemoteStorageError) as error:
                self.away = error.message
        return Beginning(True, why=self.away, may_pass=True)

    def errors(self) -> Iterator[TiersnapError]:
        """Yield an error for each log whose state at the first local offset is unknown."""
        if self.may_pass:
            yield TransientError(self.away or "remote storage does not answer", hint="run the same command again")
        for name, why in (self.unknown | self.unlocated).items():
            yield UnknownStateError(f"{name}: {why}")
