"""The result of checking one remote segment, and the request for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.columns import BaseOffset, PartitionNumber, Topic, TopicId
from tiersnap.snapshot.gate.trusted import TRUSTED
from tiersnap.snapshot.rows import Rows


class CheckDepth(StrEnum):
    """The part of the tier that is read; each depth includes those before it."""

    METADATA = "metadata"  # listing, manifests, sizes, leader epochs against the lineage
    SNAPSHOTS = "snapshots"  # every snapshot, and the log of segments whose producers may live
    FULL = "full"  # every byte

    @property
    def rank(self) -> int:
        """Return the rank of the depth; 0 reads least."""
        return list(CheckDepth).index(self)


class RemoteVerdict(StrEnum):
    """The verdict on a remote segment; verdicts with the name of a SnapshotVerdict mean the same."""

    CORRUPT = "CORRUPT"  # an object is damaged
    MISSING = "MISSING"  # an object is missing, or offsets are in no complete remote segment
    SUSPECT = "SUSPECT"  # its snapshot contradicts what a broker would keep
    UNVERIFIED = "UNVERIFIED"  # remote storage did not answer
    GONE = "GONE"  # it had a problem, and was deleted since
    NOT_CHECKABLE = "NOT_CHECKABLE"  # encrypted by the plugin; complete
    NOT_COMPARED = "NOT_COMPARED"  # no problem found, but there was no fold to compare its snapshot with
    EXTENDS = "EXTENDS"
    MATCHES = "MATCHES"

    @property
    def is_sound(self) -> bool:
        """Return whether the read part of the segment has no problem."""
        return self in SOUND

    @property
    def is_trusted(self) -> bool:
        """Return whether its snapshot was compared and is trusted; see SnapshotVerdict."""
        return self.value in TRUSTED


SOUND = frozenset(
    {
        RemoteVerdict.GONE,
        RemoteVerdict.NOT_CHECKABLE,
        RemoteVerdict.NOT_COMPARED,
        RemoteVerdict.EXTENDS,
        RemoteVerdict.MATCHES,
    }
)


class ComparedWith(StrEnum):
    """The state that a snapshot was compared with."""

    LOCAL_LOG = "LOCAL_LOG"
    WAREHOUSE = "WAREHOUSE"  # the same bytes as a snapshot that a run compared with the log, or computed
    CLAIM = "CLAIM"  # the same bytes as when it was uploaded, compared or computed
    REMOTE_LOG = "REMOTE_LOG"  # the fold of remote segments, from where the remote log begins
    OWN_SEGMENT = "OWN_SEGMENT"  # the fold of its segment, and producers of earlier snapshots that live
    EARLIER_SNAPSHOTS = "EARLIER_SNAPSHOTS"  # producers of earlier snapshots that live
    NOTHING = "NOTHING"


NO_LOG = frozenset({ComparedWith.EARLIER_SNAPSHOTS, ComparedWith.NOTHING})
"""Comparisons with neither a log nor the fold of one."""


@dataclass(frozen=True, slots=True)
class RemoteCheck:
    """One remote segment that was verified, or offsets that no complete one holds."""

    topic: Topic
    topic_id: TopicId
    partition: PartitionNumber
    segment_id: Annotated[str, Meta(description='"" for offsets that are in no complete remote segment')]
    base_offset: BaseOffset
    next_base_offset: Annotated[int | None, Meta(description="exclusive end; null if it is unknown")]
    leader_epoch: Annotated[int, Meta(description="its newest leader epoch; -1 if it is unknown")]
    is_of_log: Annotated[bool, Meta(description="whether the newest segment has the same leader epochs")]
    listed: Annotated[int, Meta(description="segments of the partition that were listed")]
    listed_from: Annotated[int, Meta(description="base offset of the first listed segment")]
    bytes: Annotated[int, Meta(description="bytes of all its objects")]
    written_at: Annotated[int, Meta(description="ms, by the store's clock: when its last object was written")]
    depth: Annotated[CheckDepth, Meta(description="how much was read")]
    verdict: Annotated[RemoteVerdict, Meta(description="result of the check")]
    compared_with: Annotated[ComparedWith, Meta(description="what the remote segment was compared with")]
    reason: Annotated[str, Meta(description="the result in words")]
    checked_at: Annotated[int, Meta(description="ms, when it was checked")]
    producer_expiration: Annotated[
        int | None, Meta(description="ms, after which a broker drops a producer; null if every entry was counted")
    ]
    remote: Annotated[str, Meta(description="URI of the remote storage that was verified")]

    def rank(self) -> int:
        """Return the sort key for a terminal: the worst verdict comes first."""
        return list(RemoteVerdict).index(self.verdict)

    def still_holds(self, asked: CheckRequest, written_at: int, size: int) -> bool:
        """Return whether nothing was wrong, the check was as strict, and the objects are the same by listing."""
        if (self.written_at, self.bytes) != (written_at, size):
            return False
        if not self.is_of_log or not self.verdict.is_sound:
            return False
        if self.depth.rank < asked.depth.rank:
            return False
        own, wanted = _counted_since(self.checked_at, self.producer_expiration), asked.counted_since
        return own is None or (wanted is not None and own <= wanted)


CHECKS = Rows(RemoteCheck)


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The request of a check."""

    depth: CheckDepth
    now: int  # ms
    producer_expiration: int | None  # ms, the broker's producer.id.expiration.ms; None if it never drops producers
    sampled: int | None = None  # largest `sample_order` of the segments that are verified; None for all

    @property
    def counted_since(self) -> int | None:
        """Return the time (ms) before which producers have expired and do not count; None if all count."""
        return _counted_since(self.now, self.producer_expiration)


def _counted_since(now: int, producer_expiration: int | None) -> int | None:
    return None if producer_expiration is None else now - producer_expiration
