"""Segments that are mended, and how each ends; those that lie in another place, where they were uploaded by mistake."""

from __future__ import annotations

from collections.abc import Sequence
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
    """One missing or wrong segment, and how it ends.

    Attributes:
        found: it, in the other place; None where it is not complete there.
        error: why it failed, or was not found in --from.
        encryption: whether the plugin encrypts where plain text is to go; None where nobody looked.
        problem: why it is wrong; "" of one that lacks objects.
        replaced_by: id of the segment that takes its place; "" before it is uploaded.
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
        """As brokers know it."""
        return self.missing.metadata


def plan_mending(
    source: RemoteLocation, missing: Sequence[MissingSegment], target: RemoteLocation, *, allow_plaintext: bool = True
) -> list[Mending]:
    """Look for missing segments in `source`; brokers read `target`.

    One listing a partition, and a look into each copy.

    Args:
        allow_plaintext: also among segments that are encrypted in `target`.
    """
    action = MendAction.COPY if source.layout == target.layout else MendAction.REBUILD
    attempts: dict[str, SegmentObjects] = {}
    look = None if allow_plaintext or target.is_local else EncryptionLook(target.store)
    shown: dict[TopicIdPartition, Shown | None] = {}
    for partition in dict.fromkeys(each.metadata.id.topic_id_partition for each in missing):
        shown[partition] = None if look is None else look.of_partition(partition)
        attempts |= segments_by_id(source, partition)
    return [
        _planned(
            source.store,
            each,
            attempts.get(each.metadata.id.segment_id),
            action,
            shown[each.metadata.id.topic_id_partition],
        )
        for each in missing
    ]


def _planned(
    source: ObjectStore,
    missing: MissingSegment,
    attempt: SegmentObjects | None,
    action: MendAction,
    shown: Shown | None,
) -> Mending:
    metadata = missing.metadata
    found = None if attempt is None else read_segment(source, attempt)
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
    """Return a segment that does not come from `source`."""
    error = CorruptDataError(
        f"{not_mended(missing.metadata)}{source.uri}: {why}",
        hint="find its objects, in older versions of the bucket say, and name that place by --from",
    )
    return Mending(missing, MendAction.NONE, MendOutcome.FAILED, error=error)


def plaintext_refused(metadata: RemoteLogSegmentMetadata, manifest: str) -> PlaintextRefusedError:
    """Return the error that plain text does not go among encrypted segments; `manifest` is the key of one."""
    return PlaintextRefusedError(
        f"{metadata.id}: not mended: it is plain text, and the plugin encrypts there: {manifest} shows it",
        hint="--allow-plaintext, if plain text may lie there",
    )


def why_not(metadata: RemoteLogSegmentMetadata, found: RemoteSegment | IncompleteSegment | None) -> str:
    """Return why the objects found do not bring a segment back, "" if they may."""
    if found is None:
        return "no object of it"
    if isinstance(found, IncompleteSegment):
        return found.problem
    if found.is_encrypted:
        return "it is encrypted, and tiersnap has no key to compare it: copy its objects by the store's own client"
    theirs = found.metadata
    told = (metadata.start_offset, metadata.end_offset, metadata.segment_size, metadata.segment_leader_epochs)
    there = (theirs.start_offset, theirs.end_offset, theirs.segment_size, theirs.segment_leader_epochs)
    return "" if told == there else "it is not the segment of which the record tells"
