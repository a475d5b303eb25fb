"""Where a carry begins whose log goes back further in remote storage: with the snapshot of a copy (listed.START).

Either a copy of ours, whose claim was read, on the way through what is tiered; or the first copy that ends where the
files begin or where a segment of what is tiered does, whoever made it. The latter is what a follower begins with when
it restores its state from remote storage (TierStateMachine.buildRemoteLogAuxState).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.gate.coverage import coverage_of
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.state.carry import StartState
from tiersnap.snapshot.state.producer_state import from_entries
from tiersnap.snapshot.state.trust import Provenance
from tiersnap.snapshot.tables.remote_log_segments import finished_copies
from tiersnap.snapshot.tasks.remote_look import RemoteLook

Start = Mapping[str, Any]


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
