"""Segments that lack objects in remote storage that no broker manages: their records are made of what is there.

A segment counts if readers see it, or if the claim of tiersnap says that it was finished. Its manifest says what a
record would say; without one its log, and the leader epochs of the segments beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.cluster.missing_objects import MissingSegment
from tiersnap.remote_storage.errors import UnknownToClusterError
from tiersnap.remote_storage.inventory.partition_objects import list_all
from tiersnap.remote_storage.inventory.remote_inventory import RemoteInventory, list_remote_partition
from tiersnap.remote_storage.inventory.remote_log import metadata_of
from tiersnap.remote_storage.inventory.remote_segment import IncompleteSegment
from tiersnap.remote_storage.inventory.segment_bytes import fetched_segment
from tiersnap.remote_storage.inventory.segment_objects import SegmentObjects
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.make_again import RemoteLogs, lineage_of
from tiersnap.remote_storage.mend.mending import Mending
from tiersnap.remote_storage.mend.stored_files import manifest_of, not_rebuilt, stored_copy
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    epochs_in_range,
)
from tiersnap.remote_storage.own_objects.claim import ClaimedSegment
from tiersnap.remote_storage.own_objects.claim_protocol import claim_naming
from tiersnap.remote_storage.own_objects.cluster_record import read_cluster_id
from tiersnap.remote_storage.own_objects.saved_configs import SavedConfigsStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import GateError, TiersnapError, TransientError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.replay.segment_runs import fold_segment


@dataclass(frozen=True, slots=True)
class Remnant:
    """The rest of a segment that a claim keeps and that no reader finds, and the complete one in its place.

    A claim keeps what a broker may know. Where no broker does, nobody wants what cannot be made complete again.
    """

    left: IncompleteSegment
    claimed: ClaimedSegment
    right_id: str


@dataclass(frozen=True)
class UnmanagedTier:
    """The partitions of remote storage, without a cluster that could be asked.

    Attributes:
        is_wanted: takes the topics.
        unmanaged: the user says that no broker manages them.
        failures: why partitions are left as they are, once `lacking` has gone through; so is what follows.
        partitions: the others.
        remnants: what may be deleted of them.
    """

    logs: RemoteLogs
    is_wanted: Callable[[str], bool]
    unmanaged: bool
    failures: list[TiersnapError] = field(default_factory=list)
    partitions: list[TopicIdPartition] = field(default_factory=list)
    remnants: dict[TopicIdPartition, list[Remnant]] = field(default_factory=dict)

    def lacking(self) -> Iterator[Mending]:
        """Find segments that lack objects, in partitions that no broker may manage."""
        for partition in list_all(self.logs.store, self.is_wanted)[0]:
            try:
                if partition.topic_id is not None:
                    self._refuse_managed(partition)
                    lacking = self._lacking_of(partition)
                    self.partitions.append(partition)
                    yield from lacking
            except TransientError as error:
                self.failures.append(error)
                return  # a server that does not answer is asked once
            except TiersnapError as error:
                self.failures.append(error)

    def _lacking_of(self, partition: TopicIdPartition) -> list[Mending]:
        store = self.logs.store
        found = list_remote_partition(self.logs.location, partition)
        self.remnants[partition] = list(_remnants(store, found))
        gone = {each.segment_id for each in found.superseded}
        gone |= {each.left.segment_id for each in self.remnants[partition]}
        left = [(each, each.objects) for each in found.leftovers if each.segment_id not in gone and _counts(each)]
        local = self.logs.local.of(partition)
        lineage = lineage_of(store, found.segments) if left else ()
        if not lineage and local is not None:
            lineage = local.partition.leader_epochs or ()
        return [self._lacking(each, objects, lineage) for each, objects in left if objects is not None]

    def _refuse_managed(self, partition: TopicIdPartition) -> None:
        store = self.logs.store
        read_cluster_id(store, partition)  # if it is damaged, nothing tells whose segments these are
        if SavedConfigsStore(store).has_saved(partition.topic, partition.topic_id or ""):
            why = "tiersnap unblock has begun with its topic, which a broker has: end it first"
        elif not self.unmanaged:
            why = "no cluster was asked whether a broker manages it: --bootstrap-server, or --unmanaged where none is"
        else:
            return
        hint = "--bootstrap-server, of the cluster that wrote the segments; or --unmanaged, if there is none any more"
        raise UnknownToClusterError(f"{partition}: not mended: {why}", hint=hint)

    def _lacking(self, left: IncompleteSegment, objects: SegmentObjects, lineage: LeaderEpochs) -> Mending:
        named = metadata_of(objects.partition, left.segment_id, left.start_offset, left.start_offset + 1)
        try:
            record: RemoteLogSegmentMetadata = self._record(named, objects, lineage)
            error: TiersnapError | None = None
        except TiersnapError as unknown:
            is_gate = isinstance(unknown, GateError)
            record, error = named, unknown if is_gate else not_rebuilt(named, unknown.message)
        missing = MissingSegment(record, left.claim is not None, objects.missing)
        return Mending(missing, MendAction.NONE, MendOutcome.FAILED, error=error)

    def _record(
        self, named: RemoteLogSegmentMetadata, objects: SegmentObjects, lineage: LeaderEpochs
    ) -> RemoteLogSegmentMetadata:
        if KeyKind.RSM_MANIFEST in objects.objects:
            return manifest_of(self.logs.store, objects).metadata
        if objects.log is None:
            raise not_rebuilt(named, "neither a manifest nor a log says where it ends: tiersnap tier uploads it again")
        record = replace(named, segment_size=objects.log.size)
        with fetched_segment(self.logs.store, stored_copy(self.logs.store, record, objects)) as segment:
            _, told = fold_segment(LOCAL, replace(segment, next_base_offset=None))
        epochs = epochs_in_range(lineage, record.start_offset, told.last_offset + 1)
        if told.finding is not None or not epochs:
            why = "no other segment tells its leader epochs" if told.finding is None else f"log: {told.finding.message}"
            raise not_rebuilt(named, why)
        return replace(
            record,
            end_offset=told.last_offset,
            max_timestamp=told.max_timestamp,
            event_timestamp=objects.modified,
            segment_leader_epochs=epochs,
        )


def _counts(left: IncompleteSegment) -> bool:
    """Return whether an incomplete segment lost an object, and is not of an attempt that never finished."""
    is_finished = left.claim is not None and left.claim.finished == left.segment_id
    return left.objects is not None and bool(left.objects.missing) and (left.is_visible or is_finished)


def _remnants(store: ObjectStore, found: RemoteInventory) -> Iterator[Remnant]:
    whole = {each.segment_id for each in found.segments}
    for left in found.leftovers:
        lacks_log = left.objects is not None and left.objects.log is None
        if left.claim is None and (lacks_log or not left.is_visible):
            claim = claim_naming(store, found.claimed, left.start_offset, left.segment_id)
            if claim is not None and left.segment_id in claim.kept and claim.finished in whole:
                yield Remnant(left, claim.segment, claim.finished)
