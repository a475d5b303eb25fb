"""The request to check remote segments, and the result for one remote segment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.columns import BaseOffset, PartitionNumber, Topic, TopicId
from tiersnap.snapshot.gate.trusted import TRUSTED
from tiersnap.snapshot.rows import Rows


class CheckDepth(StrEnum):
    """The part of remote storage that is read. Each depth includes the previous ones."""

    METADATA = "metadata"  # listing, manifests, sizes, leader epochs against the lineage
    SNAPSHOTS = "snapshots"  # every snapshot, and the log of segments whose producers may still be active
    FULL = "full"  # every byte

    @property
    def rank(self) -> int:
        """Return the rank of the depth; 0 reads the least."""
        return list(CheckDepth).index(self)


class RemoteVerdict(StrEnum):
    """The verdict on a remote segment. A verdict with the name of a SnapshotVerdict has the same meaning."""

    CORRUPT = "CORRUPT"  # an object is damaged
    MISSING = "MISSING"  # an object is missing, or offsets are in no complete remote segment
    SUSPECT = "SUSPECT"  # its snapshot is wrong about producers that a broker would keep
    UNVERIFIED = "UNVERIFIED"  # remote storage did not answer
    GONE = "GONE"  # it had a problem, and was deleted during the check
    NOT_CHECKABLE = "NOT_CHECKABLE"  # complete, but encrypted by the plugin
    NOT_COMPARED = "NOT_COMPARED"  # no problem found, but no fold to compare its snapshot with
    EXTENDS = "EXTENDS"
    MATCHES = "MATCHES"

    @property
    def is_sound(self) -> bool:
        """Return whether the part of the segment that was read has no problem."""
        return self in SOUND

    @property
    def is_trusted(self) -> bool:
        """Return whether the segment's snapshot was compared and is trusted; see SnapshotVerdict."""
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
    """The producer state with which a snapshot was compared."""

    LOCAL_LOG = "LOCAL_LOG"
    WAREHOUSE = "WAREHOUSE"  # equal to a snapshot that a run computed, or compared with the log
    CLAIM = "CLAIM"  # equal to the snapshot that was uploaded, which had been computed or compared with the log
    REMOTE_LOG = "REMOTE_LOG"  # the fold of remote segments, from the start of the remote log
    OWN_SEGMENT = "OWN_SEGMENT"  # the fold of its segment, and active producers of earlier snapshots
    EARLIER_SNAPSHOTS = "EARLIER_SNAPSHOTS"  # active producers of earlier snapshots
    NOTHING = "NOTHING"


NO_LOG = frozenset({ComparedWith.EARLIER_SNAPSHOTS, ComparedWith.NOTHING})
"""Comparisons without a log and without the fold of a log."""


@dataclass(frozen=True, slots=True)
class RemoteCheck:
    """The result of the check of one remote segment, or of offsets that no complete remote segment contains."""

    topic: Topic
    topic_id: TopicId
    partition: PartitionNumber
    segment_id: Annotated[str, Meta(description='segment id; "" for offsets that are in no complete remote segment')]
    base_offset: BaseOffset
    next_base_offset: Annotated[int | None, Meta(description="exclusive end offset; null if it is unknown")]
    leader_epoch: Annotated[int, Meta(description="newest leader epoch of the segment; -1 if it is unknown")]
    is_of_log: Annotated[
        bool,
        Meta(
            description="whether the segment's leader epochs agree with the leader epochs of the partition's newest "
            "remote segment"
        ),
    ]
    listed: Annotated[int, Meta(description="segments of the partition that were listed")]
    listed_from: Annotated[int, Meta(description="base offset of the first listed segment")]
    bytes: Annotated[int, Meta(description="bytes of all objects of the segment")]
    written_at: Annotated[int, Meta(description="time of the last write of an object, ms by the store's clock")]
    depth: Annotated[CheckDepth, Meta(description="how much was read")]
    verdict: Annotated[RemoteVerdict, Meta(description="result of the check")]
    compared_with: Annotated[ComparedWith, Meta(description="source of the state with which the snapshot was compared")]
    reason: Annotated[str, Meta(description="description of the result")]
    checked_at: Annotated[int, Meta(description="time of the check, ms")]
    producer_expiration: Annotated[
        int | None,
        Meta(description="idle time after which a broker drops a producer, ms; null if all entries were compared"),
    ]
    remote: Annotated[str, Meta(description="URI of the verified remote location")]

    def rank(self) -> int:
        """Return the sort key for printing: the worst verdict comes first."""
        return list(RemoteVerdict).index(self.verdict)

    def still_holds(self, asked: CheckRequest, written_at: int, size: int) -> bool:
        """Return whether this earlier result makes the check `asked` unnecessary.

        This result must report no problem, and come from a check at least as strict as `asked`. The time and size in
        the listing must be unchanged.

        Args:
            written_at: time of the last write of an object in the listing, ms by the store's clock.
            size: bytes of all objects in the listing.
        """
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
    """The depth and time of a check, and the sample of segments to check."""

    depth: CheckDepth
    now: int  # ms
    producer_expiration: int | None  # ms, the broker's producer.id.expiration.ms; None if it never drops producers
    sampled: int | None = None  # verify only segments whose `sample_order` is at most this; None for all

    @property
    def counted_since(self) -> int | None:
        """Return the time limit in ms; None if there is no limit.

        The check ignores producers whose last write was before the limit.
        """
        return _counted_since(self.now, self.producer_expiration)


def _counted_since(now: int, producer_expiration: int | None) -> int | None:
    if producer_expiration is None:
        return None
    return now - producer_expiration
