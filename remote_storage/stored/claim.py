"""What a claim says: one JSON object, by which the attempts at one segment know of each other.

    {"version":1,
     "attempts":[{"segmentId":"…","runId":"…","warehouse":"s3://…"|null,
                  "host":"…","pid":1,"processStart":"…","ended":false}, …],      newest last
     "finished":"<segment id>"|null,
     "snapshot":{"crc32c":"8 hex digits","provenance":"…","verdict":"…"}|null}

`ended` is an attempt that gave up and deleted its objects. `finished` names the attempt whose copy counts; `snapshot`
says what was uploaded with it. All other attempts are over, and what has their segment ids is left over.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, is_uuid
from tiersnap.remote_storage.stored.process import Process, this_process
from tiersnap.remote_storage.stores.strict_json import has_version
from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.units import count_of

VERSION = 1
MAX_BYTES = 2 << 20
MAX_ATTEMPTS = 64
_LONGEST = 1024  # characters of a text


@dataclass(frozen=True, slots=True)
class ClaimedSegment:
    """What is claimed; `leader_epoch` is that of the segment's last leader epoch entry."""

    partition: TopicIdPartition
    base_offset: int
    leader_epoch: int

    def __str__(self) -> str:
        return f"{self.partition} at {self.base_offset}, leader epoch {self.leader_epoch}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to copy a segment.

    Attributes:
        segment_id: the id that is this attempt's alone; 22 characters base64url.
        warehouse: URI of the tables of the run, None for a run without any.

    Raises:
        UsageError: a segment id of another form, or a text of more than 1,024 characters.
    """

    segment_id: str
    run_id: str
    warehouse: str | None = None
    process: Process = field(default_factory=this_process)
    ended: bool = False

    def __post_init__(self) -> None:
        if not is_uuid(self.segment_id):
            raise UsageError(f"{self.segment_id!r} is no segment id: 22 characters base64url")
        for text in (self.run_id, self.warehouse or "", self.process.host, self.process.start):
            if len(text) > _LONGEST:
                raise UsageError(f"{text[:60]!r}… is too long for a claim: at most {_LONGEST} characters")


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
    """A claim as it was read or written.

    Attributes:
        attempts: newest last, at least one.
        finished: segment id of the attempt whose copy counts, None while there is none.
        etag: of the object; not a part of its content.
    """

    segment: ClaimedSegment
    attempts: tuple[Attempt, ...]
    finished: str | None = None
    snapshot: ClaimedSnapshot | None = None
    etag: str = field(default="", compare=False)

    @property
    def holder(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[-1]

    @property
    def earlier(self) -> tuple[Attempt, ...]:
        """Attempts that are over, but for the one that finished: what has their segment ids may be deleted."""
        return tuple(attempt for attempt in self.attempts[:-1] if attempt.segment_id != self.finished)

    def taken_by(self, attempt: Attempt) -> Claim:
        """This claim with a new holder and nothing finished.

        The oldest attempts are forgotten: each of the many that came after them had their objects to delete.
        """
        return Claim(self.segment, (*self.attempts, attempt)[-MAX_ATTEMPTS:], etag=self.etag)

    def without_finished(self) -> Claim:
        """This claim without the attempt that finished: its copy is nobody's any more, and stays."""
        return replace(self, attempts=tuple(each for each in self.attempts if each.segment_id != self.finished))

    def finished_by_holder(self, snapshot: ClaimedSnapshot | None) -> Claim:
        """This claim, with the holder's copy as the one that counts."""
        return replace(self, finished=self.holder.segment_id, snapshot=snapshot)

    def released(self) -> Claim:
        """This claim, whose holder gave up."""
        return replace(self, attempts=(*self.attempts[:-1], replace(self.holder, ended=True)))

    def encode(self) -> bytes:
        """One line of JSON."""
        snapshot = self.snapshot and {
            "crc32c": f"{self.snapshot.crc32c:08x}",
            "provenance": self.snapshot.provenance,
            "verdict": self.snapshot.verdict,
        }
        content = {
            "version": VERSION,
            "attempts": [_attempt_row(attempt) for attempt in self.attempts],
            "finished": self.finished,
            "snapshot": snapshot,
        }
        return json.dumps(content, separators=(",", ":")).encode("ascii")

    @classmethod
    def decode(cls, segment: ClaimedSegment, data: bytes, *, name: str, etag: str = "") -> Claim:
        """The inverse of `encode`.

        Raises:
            NewerFormatError: a newer tiersnap made it.
            CorruptDataError: not a claim.
        """
        try:
            if len(data) > MAX_BYTES:
                raise ValueError(count_of(len(data), "byte"))  # noqa: TRY301
            found = json.loads(data, parse_constant=_refuse, parse_float=_refuse)
            version = found.get("version") if isinstance(found, dict) else None
            if not has_version(version, VERSION, name=name):
                raise ValueError(f"version {version!r}")  # noqa: TRY301
            rows = _fields(found, "version", "attempts", "finished", "snapshot")
            attempts = tuple(_attempt(row) for row in _typed(rows["attempts"], list))
            if not 1 <= len(attempts) <= MAX_ATTEMPTS:
                raise ValueError(count_of(len(attempts), "attempt"))  # noqa: TRY301
            finished = _maybe(_segment_id, rows["finished"])
            if finished is not None and finished != attempts[-1].segment_id:
                raise ValueError(f"finished by {finished}, which does not hold it")  # noqa: TRY301
            return cls(segment, attempts, finished, _maybe(_snapshot, rows["snapshot"]), etag)
        except (ValueError, TypeError, RecursionError) as error:
            raise CorruptDataError(
                f"{name}: not a claim that this tiersnap reads: {str(error)[:200]}",
                hint="look at it; if no run is at this segment, delete the object and run the same command again",
            ) from error


def _attempt_row(attempt: Attempt) -> dict[str, object]:
    return {
        "segmentId": attempt.segment_id,
        "runId": attempt.run_id,
        "warehouse": attempt.warehouse,
        "host": attempt.process.host,
        "pid": attempt.process.pid,
        "processStart": attempt.process.start,
        "ended": attempt.ended,
    }


def _attempt(row: object) -> Attempt:
    found = _fields(row, "segmentId", "runId", "warehouse", "host", "pid", "processStart", "ended")
    pid = _typed(found["pid"], int)
    if not 0 <= pid < 1 << 31:
        raise ValueError(f"pid {pid}")
    process = Process(_text(found["host"]), pid, _text(found["processStart"]))
    warehouse = _maybe(_text, found["warehouse"])
    ended = _typed(found["ended"], bool)
    return Attempt(_segment_id(found["segmentId"]), _text(found["runId"]), warehouse, process, ended)


def _snapshot(row: object) -> ClaimedSnapshot:
    found = _fields(row, "crc32c", "provenance", "verdict")
    digits = _text(found["crc32c"])
    if len(digits) != 8 or not set(digits) <= set("0123456789abcdef"):
        raise ValueError(f"CRC {digits!r}")
    return ClaimedSnapshot(int(digits, 16), _text(found["provenance"]), _text(found["verdict"]))


def _fields(row: object, *names: str) -> dict[str, object]:
    found: dict[str, object] = _typed(row, dict)
    if set(found) != set(names):
        raise ValueError(f"has the fields {sorted(found)[:20]} and not {sorted(names)}")
    return found


def _typed(value: object, kind: type) -> Any:  # noqa: ANN401
    if type(value) is not kind:  # True is an int
        raise TypeError(f"{str(value)[:80]!r} is no {kind.__name__}")
    return value


def _text(value: object) -> str:
    text: str = _typed(value, str)
    if len(text) > _LONGEST:
        raise ValueError(f"a text of {len(text)} characters")
    return text


def _segment_id(value: object) -> str:
    text = _text(value)
    if not is_uuid(text):
        raise ValueError(f"{text!r} is no segment id")
    return text


def _maybe(read: Callable[[object], Any], value: object) -> Any:  # noqa: ANN401
    return None if value is None else read(value)


def _refuse(text: str) -> None:
    raise ValueError(f"{text[:40]} is no number of a claim")
