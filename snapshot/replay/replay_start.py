"""The start of a replay: the state of its producers at an offset, by all that is known of what lies below.

Asked in this order (replay_listing), the first that is known:

    a claimed snapshot   of a remote segment of ours whose claim vouches for it, behind what is tiered (`claimed_start`)
    an earlier replay    what it left at the base offset of the segment that was active (replay_listing.Resume)
    the scan window      its first offset, once what producers need from before was read (window_start.WindowStart)
    remote storage       of a log that goes back further than its files: the state where they begin, or where a remote
                         segment ends soonest behind (`known_state`), as a follower begins that restores its state from
                         there (TierStateMachine.buildRemoteLogAuxState)
    the log start        of a log that begins at its first file: nobody is known there

On the way a broker's file that strictly EXTENDS the log takes the place of the state, and for a replay as a broker does
it (AS_BROKER) also the file where the files begin (partition_state.ReplayState).
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
    """State to start from: the deltas of everything below `offset` that the log (or an adopted file) still tells."""

    offset: int
    deltas: np.ndarray
    # Batches below this offset may be unknown to `deltas`; 0 = the log was complete. Above the log's first offset it is
    # where a scan window began.
    history_from: int
    has_adopted: bool  # a broker's snapshot already told what the log could not
    # Batches that `deltas` needed are in remote storage alone, so nothing computed may be written.
    lacks_start: bool = False
    # Why nothing tells which transactions are open there, or "". If something is, nothing computed may be written.
    transactions_unknown: str = ""


@dataclass(frozen=True, slots=True)
class CopyState:
    """The producer state at the end of a remote segment that ends behind the first file of the log."""

    offset: int  # exclusive; a base offset of the log
    entries: np.ndarray  # ENTRY_DTYPE, ascending producer id
    is_believed: Callable[[Comparison], bool]  # asked how it compares with what the files before say


@dataclass(frozen=True, slots=True)
class Beginning:
    """The state of a log before its first file."""

    # The log goes back further in remote storage; None if that does not say it, and the files decide (log_start).
    is_continued: bool | None = None
    start: StartState | None = None  # the state to begin with; None where none is known
    # The state at the end of a copy that ends behind the first file, where none is known at that.
    copy: CopyState | None = None
    why: str = ""  # remote storage was asked, and does not tell the state or where the log begins; "" otherwise
    may_pass: bool = False  # asked again it may
    # Take the file where the files begin, as a broker does that opens the log, be it right or wrong.
    as_broker: bool = False

    def goes_back(self, partition: Partition) -> bool:
        """Return whether the log goes back further than its files, or nothing tells that it does not."""
        return begins_below(partition) is not False if self.is_continued is None else self.is_continued

    def is_unlocated(self, partition: Partition) -> bool:
        """Return whether nothing tells where the log begins, nor a state to begin with."""
        has_state = self.start is not None or self.copy is not None
        return self.is_continued is None and not has_state and begins_below(partition) is None

    def opened(self, partition: Partition) -> Partition:
        """Return the partition as a broker opens it, also before the first checkpoint of its log start.

        The log start of a tiered log is 0 for it then, so it loads the file where the files begin (LogLoader.load).
        """
        is_told = partition.log_start_checkpoint is not None or self.is_unlocated(partition)
        return partition if is_told or not self.goes_back(partition) else replace(partition, log_start_checkpoint=0)

    def is_unasked(self, partition: Partition) -> bool:
        """Return whether remote storage would have to be asked for the state where the files begin, and was not."""
        return self.goes_back(partition) and self.start is None and self.copy is None and not self.why


NOT_LOOKED = Beginning()
AS_BROKER = Beginning(as_broker=True)


def beginning(look: RemoteLook, expiry: BrokerExpiry, partition: Partition) -> Beginning:
    """Return what remote storage says of a log before its first file.

    Nothing found is no proof that a log begins at its files; see log_start.

    Raises:
        TransientError: remote storage does not answer.
        RemoteStorageError: it refuses.
    """
    if partition.topic_id is None:
        return Beginning(True, why="its topic id is not known here")
    try:
        copies = look(partition).copies
    except (TransientError, RemoteStorageError):
        raise
    except TiersnapError as error:
        return Beginning(True, why=error.message)
    continued = is_continued(partition, copies)
    if continued is None:
        return Beginning(why=NOT_REACHED)
    return known_state(look, partition, copies, expiry) if continued else Beginning(False)


def known_state(
    look: RemoteLook, partition: Partition, copies: Iterable[ListedCopy], expiry: BrokerExpiry
) -> Beginning:
    """Return the state where the files of a log begin that is continued, or where a copy ends soonest behind.

    Raises:
        TransientError: remote storage does not answer.
        RemoteStorageError: it refuses.
    """
    first = partition.first_base_offset
    behind = {segment.base_offset for segment in partition.segments} - {first}
    ends = [copy.next_base_offset for copy in copies_up_to(behind, copies, partition)]
    try:
        found = look.state_at(partition, first, expiry)
        return Beginning(True, StartState(first, from_entries(found.entries), first, has_adopted=found.is_complete))
    except UnknownStateError as error:
        why = f"its files begin at {first}: {error.message}"
    if ends:
        try:
            found = look.state_at(partition, min(ends), expiry)

            def is_believed(compared: Comparison) -> bool:
                """Unless it lacks, or says otherwise of, a producer that a broker would know now."""
                return compared.verdict(expiry).is_trusted

            return Beginning(True, copy=CopyState(found.offset, found.entries, is_believed), why=why)
        except UnknownStateError as error:
            why = f"{why}; {error.message}"
    return Beginning(True, why=why)


def copies_up_to(ends: Collection[int], copies: Iterable[ListedCopy], partition: Partition) -> list[ListedCopy]:
    """Return the finished copies, wholly of the log's own lineage, that end at one of these offsets (exclusive)."""
    lineage = partition.whole_epochs
    ending = (copy for copy in copies if copy.is_finished and copy.next_base_offset in ends)
    return [copy for copy in ending if copy.facts.is_of(lineage)]


def claimed_start(
    look: RemoteLook, partition: Partition, copies: Iterable[ListedCopy], *, doubts_log_start: bool
) -> ClaimedStart | None:
    """Return the start of the first copy of ours whose claim vouches for its snapshot; a request a copy.

    Args:
        doubts_log_start: do not take one that was folded from where the log began at that time.

    Raises:
        TiersnapError: it cannot be known.
    """
    found = look.find_start(partition, copies)
    is_from_log_start = found is not None and found.provenance is Provenance.COMPUTED_FROM_LOG_START
    return None if is_from_log_start and doubts_log_start else found


def read_entries(look: RemoteLook, partition: Partition, start: ClaimedStart) -> np.ndarray:
    """Return entries (ENTRY_DTYPE) of the snapshot.

    Raises:
        TiersnapError: it cannot be read, or is another one than the claim says.
    """
    return snapshot_file.decode(look.read_start(partition, start))


def start_state(partition: Partition, start: ClaimedStart, entries: np.ndarray) -> StartState:
    """Return the state to begin with."""
    is_complete = start.provenance in (Provenance.BROKER, Provenance.COMPUTED)
    begins = partition.first_base_offset
    return StartState(start.snapshot_offset, from_entries(entries), history_from=begins, has_adopted=is_complete)


NOT_REACHED = "remote storage holds no segments of the log from there to its first file"


def is_continued(partition: Partition, copies: Iterable[ListedCopy]) -> bool | None:
    """Return whether the log goes back further in remote storage; None if its log start is unknown. See log_start."""
    return begins_below(partition, RemoteListing(tuple(copies)).coverage(partition.whole_epochs).covered)


FindBeginning = Callable[[Partition], Beginning]


@dataclass
class Beginnings:
    """Asks of each log that may go back further than its files; once remote storage does not answer, of none."""

    find: FindBeginning | None = None  # asks remote storage; None to ask nothing
    # Why remote storage does not say what came before a log's files, by partition.
    unknown: dict[str, str] = field(default_factory=dict)
    # Why nothing tells where a log begins, by partition.
    unlocated: dict[str, str] = field(default_factory=dict)
    away: str = ""  # why remote storage is asked no more, "" while it answers
    may_pass: bool = False  # of `unknown` some may be known when this is run again

    def of(self, partition: Partition) -> Beginning:
        """Return the beginning of a log before its first file."""
        if not may_begin_below(partition) or never_tiered_reason(partition):
            return NOT_LOOKED
        found = NOT_LOOKED if self.find is None else self._ask(self.find, partition)
        if found.is_unlocated(partition):
            self.unlocated[partition.name] = why_unknown(partition)
        elif found.why and found.copy is None:
            self.unknown[partition.name] = found.why
        self.may_pass |= found.may_pass
        return found

    def again(self, partition: Partition) -> Beginning:
        """Return `of` for a partition whose log start is known now; the answer replaces the last one."""
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
        """Yield an error for each log whose state at its first file is unknown."""
        if self.may_pass:
            yield TransientError(self.away or "remote storage does not answer", hint="run the same command again")
        for name, why in (self.unknown | self.unlocated).items():
            yield UnknownStateError(f"{name}: {why}")
