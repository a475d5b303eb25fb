"""A claim: one JSON object per segment, which names all copy attempts at the segment.

    {"version":1,
     "attempts":[{"segmentId":"…","runId":"…","warehouse":"s3://…"|null,
                  "process":{"host":"…","pid":1,"processStart":"…"},"ended":false}, …],      newest last
     "finished":"<segment id>"|null,
     "snapshot":{"crc32c":"8 hex digits","provenance":"…","verdict":"…"}|null,
     "kept":["<segment id>", …]}                                                    newest last

`ended` marks an attempt that gave up and deleted its objects. `finished` is the segment id of the attempt whose remote
segment is valid. `snapshot` describes the producer snapshot of that segment. If `finished` is set, all other attempts
have ended, and objects with their segment ids are leftovers.

`kept` contains the ids of remote segments that were finished and then replaced, because they lost objects or because
two replicas rolled at different offsets. It also contains the ids of segments that `mend` restores. Records in
`__remote_log_metadata` may name any segment that was ever finished. Therefore `may_delete` returns False for such a
segment, until the caller has read the records and found none that names the segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from msgspec import Meta, structs

from tiersnap.remote_storage.layouts.stored_json import LONGEST, Crc, SegmentId, Stored, StoredObject, Text
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, is_uuid
from tiersnap.snapshot.errors import UsageError

MAX_ATTEMPTS = 64


@dataclass(frozen=True, slots=True)
class ClaimedSegment:
    """A segment with a claim. `leader_epoch` is the last leader epoch of the segment."""

    partition: TopicIdPartition
    base_offset: int
    leader_epoch: int

    def __str__(self) -> str:
        return f"{self.partition} at offset {self.base_offset}, leader epoch {self.leader_epoch}"


class Attempt(Stored, frozen=True):
    """A copy attempt: one try to upload a segment."""

    segment_id: SegmentId  # of this attempt only
    run_id: Text
    warehouse: Text | None  # URI of the run's tables, None if the run has no tables
    process: Process
    ended: bool

    @classmethod
    def of(cls, segment_id: str, run_id: str, warehouse: str | None = None, process: Process | None = None) -> Self:
        """Return a new attempt of a process, by default this process.

        Raises:
            UsageError: `segment_id` is not a segment id, or a text has more than 1,024 characters.
        """
        made = cls(segment_id, run_id, warehouse, process or this_process(), ended=False)
        if not is_uuid(segment_id):
            raise UsageError(f"{segment_id!r} is not a segment id, which has 22 base64url characters")
        for text in (run_id, warehouse or "", made.process.host, made.process.process_start):
            if len(text) > LONGEST:
                raise UsageError(f"{text[:60]!r}… is too long for a claim, which stores at most {LONGEST} characters")
        return made


class ClaimedSnapshot(Stored, frozen=True):
    """The producer snapshot that was uploaded with the segment."""

    crc32c: Crc
    provenance: Text
    verdict: Text  # result of comparing a broker's file with the log; "" for a computed snapshot

    @classmethod
    def of(cls, crc32c: int, provenance: str, verdict: str) -> Self:
        """Return the snapshot with this CRC-32C."""
        return cls(f"{crc32c:08x}", provenance, verdict)


class Claim(StoredObject, frozen=True, kw_only=True):
    """The content of a claim object."""

    what = "a claim"
    limit = 2 << 20
    hint = "if no run is uploading this segment, delete the object and run the same command again"

    attempts: Annotated[tuple[Attempt, ...], Meta(min_length=1, max_length=MAX_ATTEMPTS)]  # newest last
    finished: SegmentId | None  # of the attempt whose remote segment is valid; None until an attempt finishes
    snapshot: ClaimedSnapshot | None
    kept: Annotated[tuple[SegmentId, ...], Meta(max_length=MAX_ATTEMPTS)]  # ids of kept segments, newest last

    def __post_init__(self) -> None:
        if self.finished not in (None, self.holder.segment_id):
            raise ValueError(f"the claim names {self.finished} as finished, but another attempt holds the claim")

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        """Return the claim of the first attempt at a segment."""
        return cls(attempts=(attempt,), finished=None, snapshot=None, kept=())

    @property
    def holder(self) -> Attempt:
        """Return the newest attempt, which holds the claim."""
        return self.attempts[-1]

    @property
    def segment_ids(self) -> tuple[str, ...]:
        """Return the segment ids of the kept remote segments and of all attempts."""
        return (*self.kept, *(attempt.segment_id for attempt in self.attempts))

    @property
    def earlier(self) -> tuple[Attempt, ...]:
        """Return the ended attempts that never finished a segment. Callers may delete the objects of these attempts."""
        return tuple(attempt for attempt in self.attempts[:-1] if self.may_delete(attempt.segment_id))

    def was_finished(self, segment_id: str) -> bool:
        """Return whether the segment was ever finished.

        Records in `__remote_log_metadata` may name such a segment.
        """
        return segment_id == self.finished or segment_id in self.kept

    def may_delete(self, segment_id: str, *, has_no_record: bool = False) -> bool:
        """Return whether a segment of this claim may be deleted after its attempt has ended.

        Args:
            has_no_record: whether the caller has read the records of the segment's cluster, and none names the segment.
        """
        return has_no_record or not self.was_finished(segment_id)

    def names(self, segment_id: str | None) -> bool:
        """Return whether an attempt has this segment id."""
        return any(each.segment_id == segment_id for each in self.attempts)

    def taken_by(self, attempt: Attempt) -> Claim:
        """Return this claim with a new holder and without a finished attempt.

        The new claim has at most the newest MAX_ATTEMPTS attempts. Older attempts are dropped; normally, their objects
        were already deleted.
        """
        attempts = (*self.attempts, attempt)[-MAX_ATTEMPTS:]
        return Claim(attempts=attempts, finished=None, snapshot=None, kept=self.kept)

    def reopened_by(self, attempt: Attempt) -> Claim:
        """Return this claim with a new holder. The segment id of the finished attempt moves to `kept`."""
        earlier = tuple(each for each in self.attempts if each.segment_id != self.finished)
        kept = self.kept
        if self.finished:
            kept = (*kept, self.finished)
        attempts = (*earlier, attempt)[-MAX_ATTEMPTS:]
        return Claim(attempts=attempts, finished=None, snapshot=None, kept=kept[-MAX_ATTEMPTS:])

    def keeping(self, segment_id: str) -> Claim:
        """Return this claim with `segment_id` in `kept`, so that no attempt deletes that remote segment."""
        earlier = tuple(each for each in self.attempts[:-1] if each.segment_id != segment_id)
        kept = (*self.kept, segment_id)[-MAX_ATTEMPTS:]
        return structs.replace(self, attempts=(*earlier, self.holder), kept=kept)

    def finished_by_holder(self, snapshot: ClaimedSnapshot | None) -> Claim:
        """Return this claim with the holder's attempt as the finished one."""
        return structs.replace(self, finished=self.holder.segment_id, snapshot=snapshot)

    def released(self) -> Claim:
        """Return this claim with the holder's attempt marked as ended."""
        return structs.replace(self, attempts=(*self.attempts[:-1], structs.replace(self.holder, ended=True)))


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A version of a segment's claim that this process read or wrote."""

    segment: ClaimedSegment
    claim: Claim
    etag: str  # of the object; a write replaces only this version
