"""Plan the restore of each partition, without any write."""

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
from tiersnap.remote_storage.restore.find_topic import FoundPartition, named
from tiersnap.remote_storage.restore.partition_folder import FolderPlan, find_unfinished, folder_differs
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
    """One partition of a plan."""

    action: RestoreAction
    folder: FolderPlan
    destination: Destination
    source_cluster: str
    # transactions that are open at the log end, by the remote snapshot there
    told_open: tuple[RestoredTransaction, ...]
    leftovers: tuple[str, ...]  # names of unfinished folders of other plans for this partition
    topic_is_checked: bool  # the records of a cluster that has the topic were read


def plan_topic(
    store: ObjectStore,
    target: Target,
    found: Iterable[FoundPartition],
    asked: RestoreRequest,
    published: Mapping[TopicIdPartition, Published] | None,
) -> list[RestorePlan]:
    """Plan how each partition goes to the target.

    Args:
        published: the cluster's records of each partition; None without a cluster.

    Raises:
        OtherClusterError, UnknownClusterError, UsageError: see `choose_destination`; or remote storage has no segment
            that the user leaves out by id.
        DeletedByClusterError: see `as_published`.
        UnpublishedError: the log needs segments that are not known to be published.
        ObjectNotFoundError, RemoteGapError, MissingHeadError, MissingTailError: see `plan_chain`.
        FolderDiffersError: its folder is there with other segments.
        CorruptDataError: see `read_lineage`.
    """
    found = list(found)
    _check_without(store, found, asked, published or {})
    return [_plan(store, target, each, asked, (published or {}).get(each.listed.partition)) for each in found]


def _check_without(
    store: ObjectStore,
    found: Iterable[FoundPartition],
    asked: RestoreRequest,
    published: Mapping[TopicIdPartition, Published],
) -> None:
    known = set[str]().union(*published.values())
    for each in found:
        known.update(attempt.segment_id for attempt in each.listed.attempts)
    for segment_id in asked.without:
        if segment_id not in known:
            raise UsageError(
                f"--without {segment_id}: {store.uri} has no such segment of these partitions",
                hint="tiersnap restore --segments, without --apply, lists the segments",
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
    starts = target.offsets(LOG_START_OFFSETS) if destination.is_same_cluster else {}
    chain = _chain(store, found.listed, asked, starts.get((at.topic, at.partition), 0), published)
    folder = FolderPlan(
        at.topic, at.partition, destination.topic_id, chain, asked.broker_expiry, destination.empty_state
    )
    unfinished = find_unfinished(folder, target.path)
    action = RestoreAction.RESTORE if unfinished.resumed is None else RestoreAction.RESUME
    if os.path.lexists(target.path / folder.name):
        _check_segments(target, folder)
        action = RestoreAction.COMPARE
    return RestorePlan(
        action,
        folder,
        destination,
        found.cluster_id or "",
        _told_open(store, chain),
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
    """Return the segments that make the log.

    Args:
        known_log_start: from the log directory; used if the user gave none.
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
        # An error that unpublished segments cannot mend is raised first.
        chain = chain_of(taking_all(remote))
        ids = {copy.segment_id for copy in remote.unpublished}
        needed = [piece.copy for piece in chain.pieces if piece.copy.segment_id in ids]
        if not needed:
            return chain  # the unpublished segments come from a leader that lost an unclean election
        raise _unpublished(remote, needed, is_asked=published is not None) from error


def _unpublished(remote: RemoteInventory, needed: Sequence[RemoteSegment], *, is_asked: bool) -> UnpublishedError:
    those = named(f"segment {each.segment_id} from offset {each.start_offset}" for each in needed)
    first = "tiersnap publish publishes them" if is_asked else "--bootstrap-server HOST:PORT asks the cluster"
    restores = "--unpublished restores them all the same"
    return UnpublishedError(
        f"{remote.partition}: the log needs {count_of(len(needed), 'segment')}, {remote.why_unpublished}: {those}",
        hint=f"{first}; {restores}",
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
            f"the log starts at {known_log_start} by {LOG_START_OFFSETS} in the log directory. If that entry belongs "
            f"to an older log, add --log-start {lineage[0][1]} --partition {remote.partition}. {error.hint or ''}"
        ).rstrip()
        raise


def _nothing_complete(store: ObjectStore, remote: RemoteInventory) -> ObjectNotFoundError:
    problems = named(f"segment {each.start_offset}: {each.problem}" for each in remote.leftovers)
    return ObjectNotFoundError(
        f"{store.uri}: no complete copy of any segment of {remote.partition}" + (f": {problems}" if problems else ""),
        hint="only a copy that was finished is restored",
    )


def _read_lineage(store: ObjectStore, head: RemoteSegment) -> LeaderEpochs:
    """Return the leader epochs of the newest copy; the hint of its error names the option that leaves it out."""
    try:
        return read_lineage(store, head)
    except CorruptDataError as error:
        error.hint = f"the newest copy tells the leader epochs of all; without it: --without {head.segment_id}"
        raise


def _check_segments(target: Target, plan: FolderPlan) -> None:
    """Raise FolderDiffersError if the folder's segment files are not those of the plan, by name and size."""
    folder = target.path / plan.name
    found = {path.name: path.lstat().st_size for path in folder.glob("*.log")}
    if not any(found.values()):
        # A broker without the folder creates an empty one, as `kafka-topics --create` does.
        raise folder_differs(folder, "it holds no record, so a broker that missed the partition made it")
    expected = _expected_sizes(plan)
    if found.keys() != expected.keys():
        odd = sorted(found.keys() ^ expected.keys())
        raise folder_differs(folder, f"{odd[0]} is {'not of the tier' if odd[0] in found else 'missing'}")
    for name, size in expected.items():
        if size not in (None, found[name]):
            raise folder_differs(folder, f"{name} has {count_of(found[name], 'byte')}, the tier's {size}")


def _expected_sizes(plan: FolderPlan) -> dict[str, int | None]:
    """Return the bytes of each segment file by name; None for a piece that is cut, which the fetch measures."""
    sizes: dict[str, int | None] = {}
    for piece in plan.chain.pieces:
        sizes[f"{piece.start_offset:020d}.log"] = piece.copy.metadata.segment_size if piece.is_whole else None
    sizes[f"{plan.chain.end_offset:020d}.log"] = 0  # the active one
    return sizes


def _told_open(store: ObjectStore, chain: Chain) -> tuple[RestoredTransaction, ...]:
    """Return the transactions that are open at the log end; none if no readable remote snapshot is of that offset."""
    last = chain.pieces[-1]
    if last.end_offset != last.copy.end_offset:
        return ()
    try:
        entries = snapshot_file.decode(read_indexes(store, last.copy)[IndexType.PRODUCER_SNAPSHOT] or b"")
    except CorruptSnapshotError:
        return ()
    opened = np.sort(entries[entries["current_txn_first_offset"] >= 0], order="current_txn_first_offset")
    names = ("producer_id", "producer_epoch", "current_txn_first_offset")
    return tuple(RestoredTransaction(*row) for row in zip(*(opened[name].tolist() for name in names), strict=True))
