"""Find the damaged segments among those that --upload-again names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from tiersnap.remote_storage.errors import DivergedLogError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import name_of
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.verify.compare_whole import split_problems
from tiersnap.remote_storage.verify.local_log import LocalLog
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.replay_start import Beginnings, beginning


def damaged_uploads(
    location: RemoteLocation,
    ids: Collection[str],
    partitions: Iterable[tuple[FileSystem, Partition]],
    expiry: BrokerExpiry,
) -> frozenset[str]:
    """Compare complete segments with the local log, and return the ids of damaged segments.

    Args:
        location: the remote location.
        ids: ids of segments that tiersnap uploaded.
        partitions: file systems and partitions of this host.
        expiry: see `find_problems`.

    Raises:
        UsageError: an id belongs to no complete segment that tiersnap uploaded for one of these partitions.
        DivergedLogError: a segment is intact, but from another log.
        TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
    """
    left, damaged = set(ids), set[str]()
    for filesystem, partition in partitions:
        name = name_of(partition)
        listed = list_remote_partition(location, name).segments if left else ()
        found = {each.segment_id for each in listed if each.segment_id in left and not each.is_brokers}
        if not found:
            continue
        begins = Beginnings(partial(beginning, Observe(location, untrusted=found), expiry))
        doubts = split_problems(location, name, found, LocalLog(filesystem, partition, begins).compare, expiry)
        for segment_id, why in doubts.differing.items():
            raise DivergedLogError(
                f"{name}:{segment_id}: {why}",
                hint="two different logs have the same topic id: run tier on the replica whose log is in remote "
                "storage",
            )
        damaged |= doubts.damaged.keys()
        left -= found
    if left:
        raise UsageError(
            f"--upload-again {min(left)}: tiersnap uploaded no complete segment with this id to {location.store.uri} "
            "for the partitions in LOGDIR",
            hint="to see the ids of damaged uploads: tiersnap publish; to replace segments of brokers: tiersnap mend",
        )
    return frozenset(damaged)
