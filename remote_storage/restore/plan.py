"""What `restore` would do for each partition, found out without writing anything."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial

import numpy as np

from tiersnap.remote_storage.errors import (
    MissingHeadError,
    MissingTailError,
    ObjectNotFoundError,
    RemoteGapError,
    UnpublishedError,
)
from tiersnap.remote_storage.inventory.partition_objects import PartitionObjects, list_topic
from tiersnap.remote_storage.inventory.remote_inventory import RemoteInventory
from tiersnap.remote_storage.inventory.remote_segment import IncompleteSegment, newest, read_indexes, read_lineage
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.restore.folder import FolderPlan, find_unfinished, folder_differs
from tiersnap.remote_storage.restore.published import (
    Published,
    as_claimed,
    as_published,
    read_copies,
    refusing,
    taking_all,
)
from tiersnap.remote_storage.restore.segment_chain import Chain, Piece, plan_chain
from tiersnap.remote_storage.restore.target import Destination, Target
from tiersnap.remote_storage.stored.deletion_record import read_record, read_records
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError, CorruptSnapshotError, UsageError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.log_dir import LOG_START_OFFSETS
from tiersnap.snapshot.log.restored_log import OpenTransaction
from tiersnap.snapshot.units import count_of

_MOST_NAMED = 5


class RestoreAction(StrEnum):
    """What happens to a partition."""

    RESTORE = "RESTORE"
    RESUME = "RESUME"  # an earlier restore was cut short
    COMPARE = "COMPARE"  # a folder with such segments is there


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """One partition of a plan.

    Attributes:
        told_open: transactions that are open at the log end, by the tier's own snapshot there.
        leftovers: names of unfinished folders of other plans for this partition.
        topic_is_checked: a cluster that has the topic was asked what it knows of the segments.
    """

    action: RestoreAction
    folder: FolderPlan
    destination: Destination
    source_cluster: str
    told_open: tuple[OpenTransaction, ...]
    leftovers: tuple[str, ...]
    topic_is_checked: bool


def find_partitions(
    store: ObjectStore, topic: str, *, topic_id: str | None, partitions: Collection[int], local: bool | None
) -> list[PartitionObjects]:
    """What remote storage has of the topic: one topic id, one layout.

    Raises:
        ObjectNotFoundError: nothing, or not all that was asked for.
        UsageError: more than one topic id or layout.
        CorruptDataError, NewerFormatError: nothing, and what `expire` recorded cannot be read.
    """
    only = next(iter(partitions)) if len(partitions) == 1 else None
    listed = list_topic(store, topic, topic_id=topic_id, partition=only, local=local)
    listed = tuple(each for each in listed if not partitions or each.partition.partition in partitions)
    by_id: dict[str | None, list[PartitionObjects]] = defaultdict(list)
    for each in listed:
        by_id[each.partition.topic_id].append(each)
    missing = set(partitions) - {each.partition.partition for each in listed}
    if not listed or missing:
        raise _none_found(store, topic, topic_id, min(missing, default=None))
    if len(by_id) > 1:
        raise UsageError(
            f"{store.uri}: {topic} has segments under {len(by_id)} topic ids: {_named(map(str, by_id))}",
            hint="the topic was made anew; say which one: --topic-id ID",
        )
    if len({each.is_local for each in listed}) > 1:
        raise UsageError(
            f"{store.uri}: {topic} has segments in both layouts",
            hint="say which: --layout aiven or --layout local-tiered-storage",
        )
    return list(listed)


def _none_found(store: ObjectStore, topic: str, topic_id: str | None, partition: int | None) -> ObjectNotFoundError:
    """That there is no segment, and that `tiersnap expire` took them where it recorded so."""
    what = f"{store.uri}: no remote segment of {topic}" + ("" if partition is None else f", partition {partition}")
    taken = [
        f"{at} ({at.topic_id}) below offset {record.log_start_offset}"
        for at, record in sorted(read_records(store, ObjectKeys(), topic).items(), key=lambda item: str(item[0]))
        if record.log_start_offset and topic_id in (None, at.topic_id) and partition in (None, at.partition)
    ]
    if taken:
        return ObjectNotFoundError(
            f"{what}: tiersnap expire deleted {_named(taken)}",
            hint="what it deleted is gone, unless the bucket keeps old versions",
        )
    return ObjectNotFoundError(
        what, hint="--remote names the place where it was tiered, the plugin's key.prefix included"
    )


def plan_pieces(
    store: ObjectStore,
    listed: PartitionObjects,
    *,
    without: Collection[str] = (),
    log_start_offset: int | None = None,
    until: int | None = None,
    known_log_start: int = 0,
    published: Published | None = None,
    unpublished: bool = False,
) -> Chain:
    """Which copies make the log.

    Args:
        without: segment ids to leave out.
        log_start_offset, until: as given by the user.
        known_log_start: of the log directory's own checkpoint; used where the user gave none.
        published: what the cluster knows of the partition; None where it was not asked.
        unpublished: also take copies of which nobody says that they were published.

    Raises:
        DeletedByClusterError: see `as_published`.
        UnpublishedError: there is a log, and `unpublished` copies make it.
        ObjectNotFoundError, RemoteGapError, MissingHeadError, MissingTailError: see `plan_chain`.
        CorruptDataError, NewerFormatError: see `read_lineage` and `read_record`.
    """
    remote = read_copies(store, listed)
    if published is None:
        remote = as_claimed(store, remote)
    else:
        remote = as_published(remote, published, unpublished=unpublished)
    chain_of = partial(_chain, store, without, log_start_offset, until, known_log_start)
    if unpublished or not remote.unpublished:
        return chain_of(taking_all(remote))
    try:
        return chain_of(refusing(remote))
    except (ObjectNotFoundError, RemoteGapError, MissingHeadError, MissingTailError) as error:
        # What is wrong beside it is said first.
        pieces = chain_of(taking_all(remote)).pieces
        raise _unpublished(remote, pieces, is_asked=published is not None) from error


def _unpublished(remote: RemoteInventory, pieces: Iterable[Piece], *, is_asked: bool) -> UnpublishedError:
    ids = {copy.segment_id for copy in remote.unpublished}
    needed = [piece.copy for piece in pieces if piece.copy.segment_id in ids]
    named = _named(f"segment {each.segment_id} from offset {each.start_offset}" for each in needed)
    restores = "--unpublished restores them all the same"
    return UnpublishedError(
        f"{remote.partition}: the log needs {count_of(len(needed), 'segment')}, {remote.why_unpublished}: {named}",
        hint=f"tiersnap publish tells the cluster of them; {restores}"
        if is_asked
        else f"--bootstrap-server HOST:PORT asks the cluster; {restores}",
    )


def _chain(
    store: ObjectStore,
    without: Collection[str],
    log_start_offset: int | None,
    until: int | None,
    known_log_start: int,
    remote: RemoteInventory,
) -> Chain:
    copies = [copy for copy in remote.segments if copy.segment_id not in without]
    if not copies:
        problems = _named(f"segment {each.start_offset}: {each.problem}" for each in remote.leftovers)
        raise ObjectNotFoundError(
            f"{store.uri}: no complete copy of any segment of {remote.partition}"
            + (f": {problems}" if problems else ""),
            hint="only a copy that was finished is restored",
        )
    head = newest(copies)
    try:
        lineage = read_lineage(store, head)
    except CorruptDataError as error:
        error.hint = f"the newest copy tells the leader epochs of all; without it: --without {head.segment_id}"
        raise
    unusable = [each for each in remote.leftovers if each.segment_id not in without]
    is_of_disk = log_start_offset is None and known_log_start > lineage[0][1]
    wanted = known_log_start if is_of_disk else log_start_offset
    try:
        return plan_chain(
            copies,
            lineage,
            unusable=unusable,
            is_expired=_expired(store, remote.partition),
            log_start_offset=wanted,
            until=until,
        )
    except (ObjectNotFoundError, RemoteGapError) as error:
        if is_of_disk:
            error.hint = (
                f"that the log starts at {wanted} says the {LOG_START_OFFSETS} of the log directory: if it is of an "
                f"older log, --log-start {lineage[0][1]} --partition {remote.partition.partition} goes before it. "
                f"{error.hint or ''}"
            ).rstrip()
        raise


def _expired(store: ObjectStore, partition: TopicIdPartition) -> Callable[[IncompleteSegment], bool]:
    """Whether `tiersnap expire` took an attempt; what it recorded is read when that is asked."""
    record = cache(partial(read_record, store, ObjectKeys(), partition))
    return lambda attempt: record().has_taken(attempt.segment_id, attempt.start_offset)


def plan_restore(
    store: ObjectStore,
    target: Target,
    listed: PartitionObjects,
    chain: Chain,
    destination: Destination,
    *,
    source_cluster: str,
    producer_expiration: int | None,
    now: int,
    topic_is_checked: bool,
) -> RestorePlan:
    """How the partition goes to the target.

    Raises:
        FolderDiffersError: its folder is there with other segments.
    """
    folder = FolderPlan(
        listed.partition.topic,
        listed.partition.partition,
        destination.topic_id,
        chain,
        empty_state=destination.empty_state,
        producer_expiration=producer_expiration,
        now=now,
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
        source_cluster,
        _told_open(store, chain),
        unfinished.leftovers,
        topic_is_checked,
    )


def known_log_start(target: Target, listed: PartitionObjects, *, is_same_cluster: bool) -> int:
    """The log start offset that the target's checkpoint still has of the partition, or 0."""
    at = (listed.partition.topic, listed.partition.partition)
    return target.offsets(LOG_START_OFFSETS).get(at, 0) if is_same_cluster else 0


def _check_segments(target: Target, plan: FolderPlan) -> None:
    folder = target.path / plan.name
    found = {path.name: path.lstat().st_size for path in folder.glob("*.log")}
    if not any(found.values()):
        # What a broker makes when it finds no folder, and what `kafka-topics --create` leaves.
        raise folder_differs(folder, "it holds no record, so a broker that missed the partition made it")
    end = plan.chain.end_offset
    expected = {f"{piece.start_offset:020d}.log" for piece in plan.chain.pieces} | {f"{end:020d}.log"}
    if found.keys() != expected:
        odd = sorted(found.keys() ^ expected)
        raise folder_differs(folder, f"{odd[0]} is {'not of the tier' if odd[0] in found else 'missing'}")
    for piece in plan.chain.pieces:
        name, size = f"{piece.start_offset:020d}.log", piece.copy.metadata.segment_size
        if piece.is_whole and found[name] != size:
            raise folder_differs(folder, f"{name} has {count_of(found[name], 'byte')}, the tier's {size}")


def _told_open(store: ObjectStore, chain: Chain) -> tuple[OpenTransaction, ...]:
    last = chain.pieces[-1]
    if last.end_offset != last.copy.end_offset:
        return ()
    try:
        entries = snapshot_file.decode(read_indexes(store, last.copy)[IndexType.PRODUCER_SNAPSHOT] or b"")
    except CorruptSnapshotError:
        return ()
    opened = np.sort(entries[entries["current_txn_first_offset"] >= 0], order="current_txn_first_offset")
    names = ("producer_id", "producer_epoch", "current_txn_first_offset")
    return tuple(OpenTransaction(*row) for row in zip(*(opened[name].tolist() for name in names), strict=True))


def _named(texts: Iterable[str]) -> str:
    named = list(texts)
    return "; ".join(named[:_MOST_NAMED]) + (
        f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    )
