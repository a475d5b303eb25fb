"""Which claims vouch for the snapshot of a remote segment: those that say it was computed, or compared strictly."""

from __future__ import annotations

from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stored.claim import Claim, ClaimedSegment, ClaimedSnapshot
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.replay.trust import Provenance, SnapshotVerdict

_COMPUTED = frozenset({Provenance.COMPUTED, Provenance.COMPUTED_FROM_LOG_START, Provenance.COMPUTED_FROM_SNAPSHOT})
_STRICT = frozenset({SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS})


def claimed_segment(partition: TopicIdPartition, start_offset: int, leader_epochs: LeaderEpochs) -> ClaimedSegment:
    """Return what a claim of a segment with these leader epochs is of."""
    return ClaimedSegment(partition, start_offset, leader_epochs[-1][0])


def vouched_snapshot(claim: Claim | None, segment_id: str) -> ClaimedSnapshot | None:
    """Return the snapshot of `segment_id` that its claim vouches for, None where the claim does not.

    Leave to upload is not enough: a broker's file must have matched the log with every entry counted.
    """
    if claim is None or claim.finished != segment_id or claim.snapshot is None:
        return None
    snapshot = claim.snapshot
    is_compared = snapshot.provenance == Provenance.BROKER and snapshot.verdict in _STRICT
    return snapshot if snapshot.provenance in _COMPUTED or is_compared else None


def names(claim: Claim | None, segment_id: str) -> bool:
    """Return whether the claim is of an attempt with that segment id."""
    return claim is not None and segment_id in {attempt.segment_id for attempt in claim.attempts}
