"""Where a carry begins whose log goes back further in remote storage: with the snapshot of a copy (listed.START).

Either a copy of ours, whose claim was read, on the way through what is tiered; or the first copy that ends where the
files begin or where a segment of what is tiered does, whoever made it. The latter is what a follower begins with when
it restores its state from remote storage (TierStateMachine.buildRemoteLogAuxState).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from tiersnap.snapshot.errors import RemoteStorageError, TiersnapError, TransientError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.coverage import coverage_of
from tiersnap.snapshot.log.lineage import ENDLESS
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.state.carry import CopyState, StartState
from tiersnap.snapshot.state.partition_replay import Beginning
from tiersnap.snapshot.state.producer_state import from_entries
from tiersnap.snapshot.state.trust import Comparison, Provenance
from tiersnap.snapshot.tables.remote_log_segments import finished_copies
from tiersnap.snapshot.tasks.remote_look import RemoteLook

Start = Mapping[str, Any]


def believing(now: int, producer_expiration: int | None) -> Callable[[Comparison], bool]:
    """Believe a copy's snapshot unless it lacks, or says otherwise of, a producer that a broker would know at `now`."""
    return lambda found: found.verdict(now, producer_expiration).is_trusted


def beginning(look: RemoteLook, believes: Callable[[Comparison], bool], partition: Partition) -> Beginning:
    """What remote storage says of a log before its first file: by a copy that ends there, or else soonest behind.

    It is asked for a listing, for the copy's claim and for its snapshot. A copy that a claim names counts only if the
    claim vouches for its snapshot; one that ends behind the first file only if it `believes` how the files before that
    compare with it. Nothing found is no proof that a log begins at its files, but where no checkpoint speaks of it, and
    no copy holds the offset before them (`is_continued`).

    Raises:
        TransientError: remote storage does not answer.
        RemoteStorageError: it refuses.
    """
    if partition.topic_id is None:
        return Beginning(True, why="its topic id is not known here")
    try:
        copies = look(partition)["copies"]
        if not (partition.begins_in_remote_storage or is_continued(partition, copies)):
            return Beginning(False)
        ending = copies_up_to({segment.base_offset for segment in partition.segments}, copies, partition)
        first = min((copy["end_offset"] for copy in ending), default=None)
        ending = [copy for copy in ending if copy["end_offset"] == first]
        # Of a log that begins at 0, or nobody knows where, a snapshot folded from a later beginning lacks something.
        start = claimed_start(look, partition, ending, doubts_log_start=not partition.log_start_checkpoint)
        start = start or newest_start(look.brokers_own(partition, ending))
    except (TransientError, RemoteStorageError):
        raise
    except TiersnapError as error:
        return Beginning(True, why=error.message)
    if start is None:
        why = "no claim vouches for the copy that ends" if ending else "no copy of this log ends"
        return Beginning(True, why=f"its files begin at {partition.first_base_offset}, and {why} there")
    try:
        entries = snapshot_file.decode(look.read_start(partition, start))
    except TiersnapError as error:
        return Beginning(True, why=error.message, may_pass=isinstance(error, TransientError))
    if start["offset"] > partition.first_base_offset:
        return Beginning(True, copy=CopyState(start["offset"], entries, believes))
    return Beginning(True, start_state(partition, start, entries))


def copies_up_to(
    ends: Collection[int], copies: Iterable[Mapping[str, Any]], partition: Partition
) -> list[Mapping[str, Any]]:
    """Rows of listed.COPY of the log's own lineage that end at one of these offsets (exclusive)."""
    return [copy for copy in copies if copy["end_offset"] + 1 in ends and _agrees(copy, partition)]


def _agrees(copy: Mapping[str, Any], partition: Partition) -> bool:
    """Whether the whole copy is finished, and of the log's own lineage."""
    remote = coverage_of(finished_copies([copy]), partition.leader_epochs or (), ENDLESS)
    return remote.covers(copy["start_offset"], copy["end_offset"] + 1)


def newest_start(copies: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A row of listed.START of the copy that ends first, and of those the newest, whoever made it; no request."""
    copy = min(copies, key=lambda copy: (copy["end_offset"], -copy["event_timestamp"]), default=None)
    if copy is None:
        return None
    return {
        "offset": copy["end_offset"] + 1,
        "segment_id": copy["segment_id"],
        "segment_start_offset": copy["start_offset"],
        "crc32c": None,
        "provenance": str(Provenance.BROKER),
    }


def claimed_start(
    look: RemoteLook, partition: Partition, copies: Iterable[Mapping[str, Any]], *, doubts_log_start: bool
) -> dict[str, Any] | None:
    """A row of listed.START of the first copy of ours whose claim vouches for its snapshot; a request a copy.

    Args:
        doubts_log_start: do not take one that was folded from where the log began at that time.

    Raises:
        TiersnapError: it cannot be known.
    """
    found = look.find_start(partition, copies)
    is_from_log_start = found is not None and found["provenance"] == Provenance.COMPUTED_FROM_LOG_START
    return None if is_from_log_start and doubts_log_start else found


def is_claimed(start: Start) -> bool:
    """Whether the copy is one of ours, and its claim says what its snapshot was made of."""
    return start["crc32c"] is not None


def read_entries(look: RemoteLook, partition: Partition, start: Start) -> np.ndarray | None:
    """Entries (ENTRY_DTYPE) of the snapshot; None for one that no claim vouches for and that is of no use.

    Raises:
        TransientError: remote storage does not answer.
        TiersnapError: the copy is claimed, and its snapshot cannot be read or is another one than the claim says.
    """
    try:
        return snapshot_file.decode(look.read_start(partition, start))
    except TransientError:
        raise
    except TiersnapError:
        if is_claimed(start):
            raise
        return None


def start_state(partition: Partition, start: Start, entries: np.ndarray) -> StartState:
    """The state to begin with. A file at the offset of an unclaimed one is still adopted if it says that and more."""
    provenance = Provenance(start["provenance"])
    is_complete = is_claimed(start) and provenance in (Provenance.BROKER, Provenance.COMPUTED)
    begins = partition.first_base_offset
    return StartState(start["offset"], from_entries(entries), history_from=begins, has_adopted=is_complete)


def is_continued(partition: Partition, copies: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the log goes back further in remote storage: by its checkpoint, else by what is found there.

    Args:
        copies: rows of listed.COPY.
    """
    first = partition.first_base_offset
    if partition.log_start_checkpoint is not None or first == 0:
        return partition.begins_in_remote_storage
    return coverage_of(finished_copies(copies), partition.leader_epochs or (), first + 1).covers(first - 1, first)
