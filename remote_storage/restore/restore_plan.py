"""Plan the restore of each partition. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tiersnap.remote_storage.errors import (
    MissingHeadError,
    MissingTailError,
    ObjectNotFoundError,
    RemoteGapError,
    UnpublishedError,
)
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.partition_objects import PartitionObjects
from tiersnap.remote_storage.remote_log.remote_inventory import RemoteInventory
from tiersnap.remote_storage.remote_log.remote_segment import (
    RemoteSegment,
    newest,
    read_indexes,
    read_lineage,
)
from tiersnap.remote_storage.remote_log.segment_objects import ids_of
from tiersnap.remote_storage.restore.find_topic import FoundPartition, named
from tiersnap.remote_storage.restore.partition_folder import FolderPlan, find_unfinished, folder_differs, log_name
from tiersnap.remote_storage.restore.published import (
    Published,
    as_claimed,
    as_published,
    read_copies,
    refusing,
    taking_all,
    without_ids,
)
from tiersnap.remote_storage.restore.request import RestoreAction, RestoreRequest
from tiersnap.remote_storage.restore.segment_chain import Chain, plan_chain
from tiersnap.remote_storage.restore.target import Destination, Target, choose_destination
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError, CorruptSnapshotError, UsageError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.log_dir import LOG_START_OFFSETS
from tiersnap.snapshot.replay.restored_kinds import RestoredTransaction
from tiersnap.snapshot.units import count_of


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The plan of one partition."""

    action: RestoreAction
    folder: FolderPlan
    destination: Destination
    source_cluster: str
    # Open transactions in the remote snapshot at the log end.
    expected_open: tuple[RestoredTransaction, ...]
    leftovers: tuple[str, ...]  # names of this partition's unfinished folders with other plans
    topic_is_checked: bool  # whether the records of a cluster with this topic were read


def plan_topic(
    store: ObjectStore,
    target: Target,
    found: Iterable[FoundPartition],
    asked: RestoreRequest,
    published: Mapping[TopicIdPartition, Published] | None,
) -> list[RestorePlan]:
    """Plan the restore of each partition of a topic.

    Args:
        published: the cluster's records of each partition; None without a cluster.

    Raises:
        OtherClusterError, UnknownClusterError: see `choose_destination`.
        UsageError: see `choose_destination`; or remote storage has no segment with an id that --without names.
        DeletedByClusterError: see `as_published`.
        UnpublishedError: the log needs segments that are not known to be published.
        ObjectNotFoundError, RemoteGapError, MissingHeadError, MissingTailError: see `plan_chain`.
        FolderDiffersError: the folder of a partition exists, but has other segments.
        CorruptDataError: see `read_lineage`.
    """
    found, records = list(found), published or {}
    _check_without(store, found, asked, records)
    return [_plan(store, target, each, asked, records.get(each.listed.partition)) for each in found]


def _check_without(
    store: ObjectStore,
    found: Iterable[FoundPartition],
    asked: RestoreRequest,
    published: Mapping[TopicIdPartition, Published],
) -> None:
    known = set[str]().union(*published.values())
    for each in found:
        known |= ids_of(each.listed.attempts)
    for segment_id in asked.without:
        if segment_id not in known:
            raise UsageError(
                f"--without {segment_id}: these partitions have no such segment in {store.uri}",
                hint="to list the segments: tiersnap restore --segments (without --apply)",
            )


def _plan(
    store: ObjectStore, target: Target, found: FoundPartition, asked: RestoreRequest, published: Published | None
) -> RestorePlan:
    at = found.listed.partition
    destination = choose_destination(
        target,
        str(at),
        source_cluster=found.cluster_id,
        topic_id=at.topic_id or "",
        as_topic_id=asked.as_topic_id,
        producer_state=asked.producer_state,
    )
    known_log_start = 0
    if destination.is_same_cluster:
        known_log_start = target.offsets(LOG_START_OFFSETS).get((at.topic, at.partition), 0)
    chain = _chain(store, found.listed, asked, known_log_start, published)
    folder = FolderPlan(
        at.topic, at.partition, destination.topic_id, chain, asked.broker_expiry, destination.empty_state
    )
    unfinished = find_unfinished(folder, target.path)
    action = RestoreAction.RESTORE
    if unfinished.resumed is not None:
        action = RestoreAction.RESUME
    if os.path.lexists(target.path / folder.name):
        _check_segments(target, folder)
        action = RestoreAction.COMPARE
    return RestorePlan(
        action,
        folder,
        destination,
        found.cluster_id or "",
        _expected_open(store, chain),
        unfinished.leftovers,
        published is not None,
    )


def _chain(
    store: ObjectStore,
    listed: PartitionObjects,
    asked: RestoreRequest,
    known_log_start: int,
    published: Published | None,
) -> Chain:
    """Return the remote segments that make the log.

    Args:
        known_log_start: log start offset from the log directory's checkpoint, used if the user gave no --log-start.
    """
    remote = read_copies(store, listed)
    if published is None:
        remote = as_claimed(store, remote)
    else:
        remote = as_published(remote, published, unpublished=asked.unpublished)
    chain_of = partial(_chain_of, store, asked, known_log_start)
    if asked.unpublished or not remote.unpublished:
        return chain_of(taking_all(remote))
    try:
        return chain_of(refusing(remote))
    except (ObjectNotFoundError, RemoteGapError, MissingHeadError, MissingTailError) as error:
        # If the unpublished segments do not help either, this raises the same error.
        chain = chain_of(taking_all(remote))
        ids = ids_of(remote.unpublished)
        needed = [piece.copy for piece in chain.pieces if piece.copy.segment_id in ids]
        if not needed:
            return chain  # the chain needs no unpublished segment: a leader that lost an unclean election wrote them
        raise _unpublished(remote, needed, is_asked=published is not None) from error


def _unpublished(remote: RemoteInventory, needed: Sequence[RemoteSegment], *, is_asked: bool) -> UnpublishedError:
    those = named(f"segment {each.segment_id} from offset {each.start_offset}" for each in needed)
    first = "to ask the cluster whether the segments are published: --bootstrap-server HOST:PORT"
    if is_asked:
        first = "to publish the segments: tiersnap publish"
    return UnpublishedError(
        f"{remote.partition}: the log needs {count_of(len(needed), 'segment')} ({remote.why_unpublished}): {those}",
        hint=f"{first}; to restore the segments nevertheless, add --unpublished",
    )


def _chain_of(store: ObjectStore, asked: RestoreRequest, known_log_start: int, remote: RemoteInventory) -> Chain:
    copies = without_ids(remote.segments, asked.without)
    if not copies:
        raise _nothing_complete(store, remote)
    lineage = _read_lineage(store, newest(copies))
    unusable = without_ids(remote.leftovers, asked.without)
    chain_from = partial(plan_chain, copies, lineage, unusable=unusable, until=asked.until)
    if asked.log_start is not None or known_log_start <= lineage[0][1]:
        return chain_from(log_start_offset=asked.log_start)
    try:
        return chain_from(log_start_offset=known_log_start)
    except (ObjectNotFoundError, RemoteGapError) as error:
        error.hint = (
            f"{LOG_START_OFFSETS} in the log directory says that the log starts at {known_log_start}. If that "
            f"entry belongs to an older log, add --log-start {lineage[0][1]} --partition {remote.partition}. "
            f"{error.hint or ''}"
        ).rstrip()
        raise


def _nothing_complete(store: ObjectStore, remote: RemoteInventory) -> ObjectNotFoundError:
    problems = named(f"segment {each.start_offset}: {each.problem}" for each in remote.leftovers)
    if problems:
        problems = f": {problems}"
    return ObjectNotFoundError(
        f"{store.uri}: no complete remote segment of {remote.partition}{problems}",
        hint="restore uses only complete remote segments",
    )


def _read_lineage(store: ObjectStore, head: RemoteSegment) -> LeaderEpochs:
    """Return the leader epochs of the newest remote segment.

    If the epochs are damaged, the hint of the error names the option that skips the segment.
    """
    try:
        return read_lineage(store, head)
    except CorruptDataError as error:
        error.hint = (
            "restore reads the leader epochs of the whole log from the newest segment; to skip this segment: "
            f"--without {head.segment_id}"
        )
        raise


def _check_segments(target: Target, plan: FolderPlan) -> None:
    """Raise FolderDiffersError if the folder's segment files differ from the plan's in name or size."""
    folder = target.path / plan.name
    found = {path.name: path.lstat().st_size for path in folder.glob("*.log")}
    if not any(found.values()):
        # If a broker starts without the folder of a partition, it creates an empty one.
        raise folder_differs(
            folder, "the folder contains no record, so a broker created it when the partition was missing"
        )
    expected = _expected_sizes(plan)
    if found.keys() != expected.keys():
        odd = min(found.keys() ^ expected.keys())
        if odd in found:
            raise folder_differs(folder, f"the remote log does not have the file {odd}")
        raise folder_differs(folder, f"{odd} is missing")
    for name, size in expected.items():
        if size not in (None, found[name]):
            raise folder_differs(
                folder, f"{name} has {count_of(found[name], 'byte')}, but the remote segment has {size}"
            )


def _expected_sizes(plan: FolderPlan) -> dict[str, int | None]:
    """Return the size of each segment file in bytes, by name.

    The size of a segment that will be cut is None, because it is known only after the fetch.
    """
    sizes: dict[str, int | None] = {}
    for piece in plan.chain.pieces:
        name = log_name(piece.start_offset)
        sizes[name] = None
        if piece.is_whole:
            sizes[name] = piece.copy.metadata.segment_size
    sizes[log_name(plan.chain.end_offset)] = 0  # the active segment
    return sizes


def _expected_open(store: ObjectStore, chain: Chain) -> tuple[RestoredTransaction, ...]:
    """Return the transactions that are open at the log end, according to the remote snapshot at that offset.

    If this snapshot is missing or damaged, return an empty tuple.
    """
    last = chain.pieces[-1]
    if last.end_offset != last.copy.end_offset:
        return ()
    try:
        entries = snapshot_file.decode(read_indexes(store, last.copy)[IndexType.PRODUCER_SNAPSHOT] or b"")
    except CorruptSnapshotError:
        return ()
    opened = np.sort(entries[entries["current_txn_first_offset"] >= 0], order="current_txn_first_offset")
    producers, epochs = opened["producer_id"].tolist(), opened["producer_epoch"].tolist()
    return tuple(map(RestoredTransaction, producers, epochs, opened["current_txn_first_offset"].tolist()))
