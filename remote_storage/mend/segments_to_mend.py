"""Segments to mend, their outcomes, and the plan to restore missing segments from another location."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiersnap.remote_storage.cluster.missing_objects import MissingSegment
from tiersnap.remote_storage.errors import PlaintextRefusedError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.stored_files import not_mended
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.remote_log.encryption import EncryptionLook, Shown
from tiersnap.remote_storage.remote_log.remote_segment import IncompleteSegment, RemoteSegment, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, segments_by_id
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError
from tiersnap.snapshot.replay.remote_listing import Encryption


@dataclass(frozen=True, slots=True)
class Mending:
    """A missing or wrong segment, and its outcome.

    Attributes:
        found: the segment in --from; None if --from does not have the complete segment.
        error: the reason why mending failed, or why --from lacks the segment.
        encryption: whether the plugin encrypts in the location that brokers read; None if this was not checked.
        problem: the reason why the segment is wrong; "" if it lacks objects.
        replaced_by: id of the segment that replaces this one; "" until it is uploaded.
    """

    missing: MissingSegment
    action: MendAction
    outcome: MendOutcome
    found: RemoteSegment | None = None
    error: TiersnapError | None = None
    encryption: Encryption | None = None
    problem: str = ""
    replaced_by: str = ""

    @property
    def metadata(self) -> RemoteLogSegmentMetadata:
        """Return the record of the segment."""
        return self.missing.metadata

    @property
    def segment_id(self) -> str:
        """Return the id of the segment."""
        return self.missing.metadata.id.segment_id


def plan_mending(
    source: RemoteLocation, missing: Sequence[MissingSegment], target: RemoteLocation, *, allow_plaintext: bool = True
) -> list[Mending]:
    """Plan how to restore missing segments in `target`, which brokers read, from objects in `source`.

    Requests: one listing per partition, and one read per segment.

    Args:
        allow_plaintext: whether to write plain text even beside encrypted segments in `target`.
    """
    action = MendAction.REBUILD
    if source.layout == target.layout:
        action = MendAction.COPY
    attempts: dict[str, SegmentObjects] = {}
    partitions = dict.fromkeys(each.metadata.id.topic_id_partition for each in missing)
    for partition in partitions:
        attempts |= segments_by_id(source, partition)
    shown: dict[TopicIdPartition, Shown] = {}
    if not (allow_plaintext or target.is_local):
        shown = _encryption(target.store, partitions)
    planned: list[Mending] = []
    for each in missing:
        segment = each.metadata.id
        attempt, encryption = attempts.get(segment.segment_id), shown.get(segment.topic_id_partition)
        planned.append(_planned(source.store, each, attempt, action, encryption))
    return planned


def _encryption(store: ObjectStore, partitions: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, Shown]:
    look = EncryptionLook(store)
    return {partition: look.of_partition(partition) for partition in partitions}


def _planned(
    source: ObjectStore,
    missing: MissingSegment,
    attempt: SegmentObjects | None,
    action: MendAction,
    shown: Shown | None,
) -> Mending:
    metadata = missing.metadata
    found = None
    if attempt is not None:
        found = read_segment(source, attempt)
    why = why_not(metadata, found)
    if isinstance(found, RemoteSegment) and not why:
        if shown is None:
            return Mending(missing, action, MendOutcome.PLANNED, found)
        if not shown.manifest:
            return Mending(missing, action, MendOutcome.PLANNED, found, encryption=shown.encryption)
        refused = plaintext_refused(metadata, shown.manifest)
        return Mending(missing, MendAction.NONE, MendOutcome.FAILED, error=refused)
    return not_from(source, missing, why)


def not_from(source: ObjectStore, missing: MissingSegment, why: str) -> Mending:
    """Return a segment that cannot be mended from `source`. `why` is the reason."""
    error = CorruptDataError(
        f"{not_mended(missing.metadata)}{source.uri}: {why}",
        hint="find the objects of the segment, for example in older object versions of the bucket, and give their "
        "location as --from",
    )
    return Mending(missing, MendAction.NONE, MendOutcome.FAILED, error=error)


def plaintext_refused(metadata: RemoteLogSegmentMetadata, manifest: str) -> PlaintextRefusedError:
    """Return the error about plain text beside encrypted segments.

    `manifest` is the key of an encrypted segment's manifest.
    """
    return PlaintextRefusedError(
        f"{metadata.id}: not mended: the segment is plain text, but the plugin encrypts at this location, see "
        f"{manifest}",
        hint="if plain text may be stored there, add --allow-plaintext",
    )


def why_not(metadata: RemoteLogSegmentMetadata, found: RemoteSegment | IncompleteSegment | None) -> str:
    """Return the reason why `found`, the segment in --from, cannot restore a segment; "" if it can."""
    if found is None:
        return "the location has no objects of the segment"
    if isinstance(found, IncompleteSegment):
        return found.problem
    if found.is_encrypted:
        return (
            "the segment is encrypted, and tiersnap has no key to check the segment: copy the objects of the segment "
            "with the client of the store"
        )
    theirs = found.metadata
    told = (metadata.start_offset, metadata.end_offset, metadata.segment_size, metadata.segment_leader_epochs)
    there = (theirs.start_offset, theirs.end_offset, theirs.segment_size, theirs.segment_leader_epochs)
    if told != there:
        return "the segment at this location differs from the segment that the record describes"
    return ""
