"""A claim: one JSON object per segment, which names every attempt to upload it.

    {"version":1,
     "attempts":[{"segmentId":"…","runId":"…","warehouse":"s3://…"|null,
                  "process":{"host":"…","pid":1,"processStart":"…"},"ended":false}, …],      newest last
     "finished":"<segment id>"|null,
     "snapshot":{"crc32c":"8 hex digits","provenance":"…","verdict":"…"}|null,
     "kept":["<segment id>", …]}                                                    newest last

`ended` marks an attempt that gave up and deleted its objects. `finished` names the attempt whose remote segment counts,
and `snapshot` describes the snapshot that was uploaded with it. The other attempts are over, and objects with their
segment ids are leftovers.

`kept` names remote segments that were finished before another attempt replaced them, because they lost objects or
because a replica rolled at other offsets. It also names those that `mend` restores. Records may name a segment that was
finished once, so `may_delete` refuses it, unless the caller read the records and none names it.
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
    """The segment that is claimed; `leader_epoch` is that of its last leader epoch entry."""

    partition: TopicIdPartition
    base_offset: int
    leader_epoch: int

    def __str__(self) -> str:
        return f"{self.partition} at {self.base_offset}, leader epoch {self.leader_epoch}"


class Attempt(Stored, frozen=True):
    """One attempt to upload a segment."""

    segment_id: SegmentId  # no other attempt has it
    run_id: Text
    warehouse: Text | None  # URI of the tables of the run, None for a run without tables
    process: Process
    ended: bool

    @classmethod
    def of(cls, segment_id: str, run_id: str, warehouse: str | None = None, process: Process | None = None) -> Self:
        """Return a new attempt of a process, by default of this one.

        Raises:
            UsageError: a segment id of another form, or a text of more than 1,024 characters.
        """
        made = cls(segment_id, run_id, warehouse, process or this_process(), ended=False)
        if not is_uuid(segment_id):
            raise UsageError(f"{segment_id!r} is no segment id: 22 characters base64url")
        for text in (run_id, warehouse or "", made.process.host, made.process.process_start):
            if len(text) > LONGEST:
                raise UsageError(f"{text[:60]!r}… is too long for a claim: at most {LONGEST} characters")
        return made


class ClaimedSnapshot(Stored, frozen=True):
    """The snapshot that was uploaded with the segment."""

    crc32c: Crc
    provenance: Text
    verdict: Text  # of the comparison of a broker's file in which every entry counts; "" for a computed snapshot

    @classmethod
    def of(cls, crc32c: int, provenance: str, verdict: str) -> Self:
        """Return the snapshot with this CRC-32C."""
        return cls(f"{crc32c:08x}", provenance, verdict)


class Claim(StoredObject, frozen=True, kw_only=True):
    """The content of a claim."""

    what = "a claim"
    limit = 2 << 20
    hint = "look at it; if no run is at this segment, delete the object and run the same command again"

    attempts: Annotated[tuple[Attempt, ...], Meta(min_length=1, max_length=MAX_ATTEMPTS)]  # newest last
    finished: SegmentId | None  # of the attempt whose remote segment counts, None before one finished
    snapshot: ClaimedSnapshot | None
    kept: Annotated[tuple[SegmentId, ...], Meta(max_length=MAX_ATTEMPTS)]  # of replaced segments, newest last

    def __post_init__(self) -> None:
        if self.finished not in (None, self.holder.segment_id):
            raise ValueError(f"finished by {self.finished}, which does not hold it")

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        """Return the claim of a first attempt."""
        return cls(attempts=(attempt,), finished=None, snapshot=None, kept=())

    @property
    def holder(self) -> Attempt:
        """Return the newest attempt."""
        return self.attempts[-1]

    @property
    def segment_ids(self) -> tuple[str, ...]:
        """Return the segment ids of the kept remote segments and of all attempts."""
        return (*self.kept, *(attempt.segment_id for attempt in self.attempts))

    @property
    def earlier(self) -> tuple[Attempt, ...]:
        """Return the attempts that are over and never finished. Objects with their segment ids may be deleted."""
        return tuple(attempt for attempt in self.attempts[:-1] if self.may_delete(attempt.segment_id))

    def was_finished(self, segment_id: str) -> bool:
        """Return whether the segment was finished once, so that the records of a cluster may name it."""
        return segment_id == self.finished or segment_id in self.kept

    def may_delete(self, segment_id: str, *, has_no_record: bool = False) -> bool:
        """Return whether a segment that this claim names may be deleted once its attempt is over.

        Args:
            has_no_record: the records of the segment's cluster were read, and none names it.
        """
        return has_no_record or not self.was_finished(segment_id)

    def names(self, segment_id: str | None) -> bool:
        """Return whether an attempt has that segment id."""
        return any(each.segment_id == segment_id for each in self.attempts)

    def taken_by(self, attempt: Attempt) -> Claim:
        """Return this claim with a new holder and nothing finished.

        It drops the oldest attempts: each attempt after them had to delete their objects.
        """
        attempts = (*self.attempts, attempt)[-MAX_ATTEMPTS:]
        return Claim(attempts=attempts, finished=None, snapshot=None, kept=self.kept)

    def reopened_by(self, attempt: Attempt) -> Claim:
        """Return this claim with a new holder; the remote segment that was finished is kept."""
        earlier = tuple(each for each in self.attempts if each.segment_id != self.finished)
        kept = (*self.kept, self.finished) if self.finished else self.kept
        attempts = (*earlier, attempt)[-MAX_ATTEMPTS:]
        return Claim(attempts=attempts, finished=None, snapshot=None, kept=kept[-MAX_ATTEMPTS:])

    def keeping(self, segment_id: str) -> Claim:
        """Return this claim, by which no attempt deletes the remote segment with that id."""
        earlier = tuple(each for each in self.attempts[:-1] if each.segment_id != segment_id)
        kept = (*self.kept, segment_id)[-MAX_ATTEMPTS:]
        return structs.replace(self, attempts=(*earlier, self.holder), kept=kept)

    def finished_by_holder(self, snapshot: ClaimedSnapshot | None) -> Claim:
        """Return this claim, by which the holder's remote segment counts."""
        return structs.replace(self, finished=self.holder.segment_id, snapshot=snapshot)

    def released(self) -> Claim:
        """Return this claim, whose holder gave up."""
        return structs.replace(self, attempts=(*self.attempts[:-1], structs.replace(self.holder, ended=True)))


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A version of a segment's claim, which one process read or wrote."""

    segment: ClaimedSegment
    claim: Claim
    etag: str  # of the object; a write replaces this version and no other
