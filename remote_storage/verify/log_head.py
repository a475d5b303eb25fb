"""The offsets of a log before its first remote segment: lost, deleted by retention, or never uploaded.

Retention leaves no trace in remote storage. The log start tells it from a loss: brokers advance it before they delete a
segment. A claim that was finished tells what tiersnap uploaded, also if no object of a partition is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tiersnap.remote_storage.locks.claim import ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.gate.remote_check import RemoteVerdict
from tiersnap.snapshot.log.leader_epochs import Interval


@dataclass(frozen=True, slots=True)
class ToldStart:
    """A log start offset.

    Attributes:
        is_current: a cluster told it, or a checkpoint that no running broker owns. The checkpoint of a running broker
            is up to a minute old, and retention may have passed it.
    """

    offset: int
    is_current: bool


LogStartOf = Callable[[TopicIdPartition, Sequence[Interval]], ToldStart | None]
"""Returns the log start of a partition, None if it is unknown, given the offsets that remote segments hold.

It is asked after the segments were listed: brokers advance the log start before they delete a segment.
"""


def nobody_tells(_: TopicIdPartition, __: Sequence[Interval]) -> ToldStart | None:
    """Return None: a LogStartOf without a log and without a cluster."""
    return None


@dataclass(frozen=True, slots=True)
class Head:
    """Offsets from `start` to the exclusive `end` that no remote segment holds; `end` is None if it is unknown."""

    start: int
    end: int | None
    verdict: RemoteVerdict
    reason: str


@dataclass(frozen=True)
class LogHead:
    """The beginning of one log in remote storage.

    Attributes:
        first: the first offset that a remote segment holds; None if there is no segment.
        local_from: base offset of the first local file; None without a local log.
        claimed: all claims of the partition.
    """

    store: ObjectStore
    first: int | None
    claimed: Iterable[ClaimedSegment]
    local_from: int | None = None

    def judge(self, start: ToldStart | None) -> Head | None:
        """Return the offsets that are lost, or that may be; None if nothing is missing."""
        if start is None:
            is_missing = self._was_uploaded(0) if self.first is None else self.first > 0
            return self._doubt(0, _UNKNOWN_START) if is_missing else None
        if self.first is not None and self.first <= start.offset:
            return None
        is_in_files = self.local_from is not None and self.local_from <= start.offset
        if (self.first is None or is_in_files) and not self._was_uploaded(start.offset):
            return None
        if not start.is_current:
            return self._doubt(start.offset, _OLD_CHECKPOINT)
        why = f"offsets {self._from(start.offset)} are in no complete remote segment of this log"
        return Head(start.offset, self.first, RemoteVerdict.MISSING, why)

    def _doubt(self, start: int, why: str) -> Head:
        return Head(start, self.first, RemoteVerdict.UNVERIFIED, why.format(self._from(start)))

    def _from(self, start: int) -> str:
        return f"from {start} on" if self.first is None else f"{start} to {self.first - 1}"

    def _was_uploaded(self, start: int) -> bool:
        """Return whether a claim in these offsets was finished once; one request for most logs."""
        before = (each for each in self.claimed if self.first is None or each.base_offset < self.first)
        wanted = [each for each in before if each.base_offset >= start]
        newest_first = sorted(wanted, key=lambda each: (each.base_offset, each.leader_epoch), reverse=True)
        return any(self._was_finished(each) for each in newest_first)

    def _was_finished(self, segment: ClaimedSegment) -> bool:
        with suppress(CorruptDataError):
            claim = read_claim(self.store, segment)
            return claim is not None and bool(claim.finished or claim.kept)
        return False


_ASK = "The log start tells it: give LOGDIR of a broker that has the partition, or --bootstrap-server"
_UNKNOWN_START = f"offsets {{}} are in no remote segment: retention deleted them or they were lost. {_ASK}"
_OLD_CHECKPOINT = (
    "offsets {} are in no remote segment: they were lost, or retention deleted them after the running broker wrote "
    "its log-start-offset-checkpoint. Give --bootstrap-server, or verify again after a minute"
)
