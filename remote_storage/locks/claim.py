"""A claim: one JSON object, by which the attempts at one segment know of each other.

    {"version":1,
     "attempts":[{"segmentId":"…","runId":"…","warehouse":"s3://…"|null,
                  "process":{"host":"…","pid":1,"processStart":"…"},"ended":false}, …],      newest last
     "finished":"<segment id>"|null,
     "snapshot":{"crc32c":"8 hex digits","provenance":"…","verdict":"…"}|null,
     "kept":["<segment id>", …]}                                                    newest last

`ended` is an attempt that gave up and deleted its objects. `finished` names the attempt whose copy counts; `snapshot`
says what was uploaded with it. All other attempts are over, and what has their segment ids is left over. `kept` names
copies that were finished before another attempt took their place, because they lost objects or a replica rolled
elsewhere, and those that `mend` puts back. Records may name a segment that was finished once, so `may_delete` leaves
it, and `maintain remove-orphans`, which reads the records, sees that it is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from msgspec import Meta

from tiersnap.remote_storage.layouts import stored_json
from tiersnap.remote_storage.layouts.stored_json import LONGEST, Crc, SegmentId, Stored, StoredObject, Text
from tiersnap.remote_storage.locks.process import Process, this_process
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, is_uuid
from tiersnap.snapshot.errors import UsageError

MAX_BYTES = 2 << 20
MAX_ATTEMPTS = 64
_LOOK = "look at it; if no run is at this segment, delete the object and run the same command again"


@dataclass(frozen=True, slots=True)
class ClaimedSegment:
    """The segment that is claimed; `leader_epoch` is that of its last leader epoch entry."""

    partition: TopicIdPartition
    base_offset: int
    leader_epoch: int

    def __str__(self) -> str:
        return f"{self.partition} at {self.base_offset}, leader epoch {self.leader_epoch}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to copy a segment.

    Raises:
        UsageError: a segment id of another form, or a text of more than 1,024 characters.
    """

    segment_id: str  # the id that is this attempt's alone; 22 characters base64url
    run_id: str
    warehouse: str | None = None  # URI of the tables of the run, None for a run without any
    process: Process = field(default_factory=this_process)
    ended: bool = False

    def __post_init__(self) -> None:
        if not is_uuid(self.segment_id):
            raise UsageError(f"{self.segment_id!r} is no segment id: 22 characters base64url")
        for text in (self.run_id, self.warehouse or "", self.process.host, self.process.process_start):
            if len(text) > LONGEST:
                raise UsageError(f"{text[:60]!r}… is too long for a claim: at most {LONGEST} characters")


@dataclass(frozen=True, slots=True)
class ClaimedSnapshot:
    """The snapshot that was uploaded with the segment: CRC-32C, and what it was made of.

    `verdict` is that of the comparison of a broker's file, every entry counted; "" of what was computed.
    """

    crc32c: int
    provenance: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as it was read or written."""

    segment: ClaimedSegment
    attempts: tuple[Attempt, ...]  # newest last, at least one
    finished: str | None = None  # segment id of the attempt whose copy counts, None while there is none
    snapshot: ClaimedSnapshot | None = None
    etag: str = field(default="", compare=False)  # of the object; not a part of its content
    kept: tuple[str, ...] = ()  # segment ids of copies that it replaced, newest last

    @property
    def holder(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[-1]

    @property
    def segment_ids(self) -> tuple[str, ...]:
        """Return the segment ids of all copies and attempts of ours."""
        return (*self.kept, *(attempt.segment_id for attempt in self.attempts))

    @property
    def earlier(self) -> tuple[Attempt, ...]:
        """Attempts that are over and never finished: what has their segment ids may be deleted."""
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
        """This claim with a new holder and nothing finished.

        The oldest attempts are forgotten: each of the many that came after them had their objects to delete.
        """
        return Claim(self.segment, (*self.attempts, attempt)[-MAX_ATTEMPTS:], etag=self.etag, kept=self.kept)

    def without_finished(self) -> Claim:
        """Return this claim without the attempt that finished; its copy is kept."""
        left = tuple(each for each in self.attempts if each.segment_id != self.finished)
        kept = (*self.kept, self.finished) if self.finished else self.kept
        return replace(self, attempts=left, kept=kept[-MAX_ATTEMPTS:])

    def keeping(self, segment_id: str) -> Claim:
        """Return this claim, by which no attempt deletes the copy with that segment id."""
        left = tuple(each for each in self.attempts[:-1] if each.segment_id != segment_id)
        return replace(self, attempts=(*left, self.holder), kept=(*self.kept, segment_id)[-MAX_ATTEMPTS:])

    def finished_by_holder(self, snapshot: ClaimedSnapshot | None) -> Claim:
        """This claim, with the holder's copy as the one that counts."""
        return replace(self, finished=self.holder.segment_id, snapshot=snapshot)

    def released(self) -> Claim:
        """This claim, whose holder gave up."""
        return replace(self, attempts=(*self.attempts[:-1], replace(self.holder, ended=True)))

    def encode(self) -> bytes:
        """One line of JSON."""
        snapshot = None
        if (of := self.snapshot) is not None:
            snapshot = _StoredSnapshot(crc32c=f"{of.crc32c:08x}", provenance=of.provenance, verdict=of.verdict)
        attempts = tuple(map(_stored_attempt, self.attempts))
        stored = _StoredClaim(attempts=attempts, finished=self.finished, snapshot=snapshot, kept=self.kept)
        return stored_json.encode(stored)

    @classmethod
    def decode(cls, segment: ClaimedSegment, data: bytes, *, name: str) -> Claim:
        """The inverse of `encode`, without an etag; raises as `stored_json.decode`."""
        found = stored_json.decode(data, _StoredClaim, name=name, what="a claim", limit=MAX_BYTES, hint=_LOOK)
        if found.finished not in (None, found.attempts[-1].segment_id):
            why = f"finished by {found.finished}, which does not hold it"
            raise stored_json.corrupt(name, "a claim", why, _LOOK)
        snapshot = None
        if (of := found.snapshot) is not None:
            snapshot = ClaimedSnapshot(int(of.crc32c, 16), of.provenance, of.verdict)
        return cls(segment, tuple(map(_attempt, found.attempts)), found.finished, snapshot, kept=found.kept)


class _StoredAttempt(Stored, frozen=True, kw_only=True):
    segment_id: SegmentId
    run_id: Text
    warehouse: Text | None
    process: Process
    ended: bool


class _StoredSnapshot(Stored, frozen=True, kw_only=True):
    crc32c: Crc
    provenance: Text
    verdict: Text


class _StoredClaim(StoredObject, frozen=True, kw_only=True):
    attempts: Annotated[tuple[_StoredAttempt, ...], Meta(min_length=1, max_length=MAX_ATTEMPTS)]
    finished: SegmentId | None
    snapshot: _StoredSnapshot | None
    kept: Annotated[tuple[SegmentId, ...], Meta(max_length=MAX_ATTEMPTS)]


def _stored_attempt(attempt: Attempt) -> _StoredAttempt:
    return _StoredAttempt(
        segment_id=attempt.segment_id,
        run_id=attempt.run_id,
        warehouse=attempt.warehouse,
        process=attempt.process,
        ended=attempt.ended,
    )


def _attempt(stored: _StoredAttempt) -> Attempt:
    return Attempt(stored.segment_id, stored.run_id, stored.warehouse, stored.process, stored.ended)
