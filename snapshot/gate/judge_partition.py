"""The segments of one partition judged, each with the snapshot that it would be tiered with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tiersnap.snapshot.gate.copy_task import NO_BROKERS, BesideBrokers, BrokerAtWork
from tiersnap.snapshot.gate.judge import Readiness, judge
from tiersnap.snapshot.gate.trusted import COMPARED, Provenance, SnapshotVerdict
from tiersnap.snapshot.gate.verdict import TO_UPLOAD, Verdict
from tiersnap.snapshot.log.coverage import RemoteCoverage
from tiersnap.snapshot.producer_fold import OpenTransactions
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
from tiersnap.snapshot.replay.partition_state import SnapshotAt
from tiersnap.snapshot.replay.snapshot_comparison import ExaminedSegment, computed

_NOT_REACHED = Comparison(SnapshotVerdict.UNVERIFIED, "not reached: the log is damaged below it")


@dataclass(frozen=True, slots=True)
class JudgedSnapshot:
    """The snapshot at the end of a segment, or at the log end."""

    found: SnapshotAt | None  # the stored result of the offset; None if no replay reached it
    verdict: SnapshotVerdict  # the present verdict on the broker's file, or on the computed object that replaces it
    provenance: Provenance | None = None  # None for a file that is not trusted
    is_object: bool = False  # the segment is uploaded with the computed object, not with the broker's file

    @property
    def compared(self) -> SnapshotVerdict | None:
        """Return the result of the strict comparison of the file; None if none was compared."""
        strict = None if self.found is None else self.found.comparison.compared
        return strict if strict in COMPARED else None


@dataclass(frozen=True, slots=True)
class SegmentReadiness:
    """A segment, its verdict, and the snapshot at its end."""

    facts: SegmentFacts
    readiness: Readiness
    snapshot: JudgedSnapshot

    @property
    def is_ready(self) -> bool:
        """Return whether it may be tiered now."""
        return self.readiness.verdict in TO_UPLOAD

    def as_uploaded(self) -> SegmentReadiness:
        """Return this segment with the verdict UPLOADED, after its upload: brokers do not know it yet."""
        return self._with(Verdict.UPLOADED, "tiersnap uploaded it now; brokers do not know it before it is published")

    def as_published(self) -> SegmentReadiness:
        """Return this segment with the verdict TIERED, after its publication."""
        return self._with(Verdict.TIERED, "in remote storage; published now")

    def as_found(self) -> SegmentReadiness:
        """Return this segment with the verdict IN_REMOTE, because the upload found it in remote storage."""
        return self._with(Verdict.IN_REMOTE, "another attempt uploaded it meanwhile; its records were not read")

    def _with(self, verdict: Verdict, reason: str) -> SegmentReadiness:
        return replace(self, readiness=Readiness(self.facts.base_offset, verdict, reason))


@dataclass(frozen=True)
class Policy:
    """The rules by which segments are judged."""

    replace: bool  # a computed object replaces an untrusted file
    expiry: BrokerExpiry
    # The scan read only a window: an older snapshot file of a broker is used without a comparison.
    is_bounded: bool = False
    beside: BesideBrokers = NO_BROKERS  # detects a working broker, to leave the segments to it
    mends_indexes: bool = False  # the upload rebuilds wrong indexes of READY segments

    def judge(
        self,
        facts: PartitionFacts,
        partition: int,
        segments: Iterable[SegmentFacts],
        snapshots: Mapping[int, SnapshotAt],
        coverage: RemoteCoverage,
        refused: Mapping[int, str] = MappingProxyType({}),
    ) -> tuple[SegmentReadiness, ...]:
        """Return the segments of a partition, ascending, each judged.

        Args:
            partition: its number.
            segments: ascending base offsets.
            snapshots: earlier results of snapshot offsets.
            coverage: the offsets of the log's lineage in remote storage.
            refused: reasons for which an upload refused segments before a scan window, by base offset.
        """
        known = tuple(segments)
        ends: list[SnapshotAt | None] = []
        for segment in known:
            offset = segment.next_base_offset
            if offset is None:
                offset = facts.log_end_offset
            ends.append(snapshots.get(offset))
        broker = self.beside.broker_at(facts.topic_id, partition, coverage.broker_wrote_at)
        tiered = [ExaminedSegment(each, self._as_tiered(end)) for each, end in zip(known, ends, strict=True)]
        verdicts = self._verdicts(facts, tiered, ends, coverage, broker, refused)
        return tuple(
            SegmentReadiness(each.facts, readiness, self._judged(each, end))
            for each, end, readiness in zip(tiered, ends, verdicts, strict=True)
        )

    def _verdicts(
        self,
        facts: PartitionFacts,
        tiered: list[ExaminedSegment],
        ends: list[SnapshotAt | None],
        coverage: RemoteCoverage,
        broker: BrokerAtWork | None,
        refused: Mapping[int, str],
    ) -> Iterable[Readiness]:
        unread: dict[int, str] = {}
        beyond_broker: set[int] = set()
        for segment, end in zip(tiered, ends, strict=True):
            if end is None:
                continue
            base = segment.facts.base_offset
            if self._is_unread(end):
                unread[base] = refused.get(base, "")
            # A broker's copy task fails if there is no snapshot file.
            if end.comparison.compared is SnapshotVerdict.MISSING:
                beyond_broker.add(base)
        return judge(
            facts,
            tiered,
            self.expiry,
            coverage=coverage,
            unread=unread,
            broker=broker,
            beyond_broker=beyond_broker,
            mends_indexes=self.mends_indexes,
        )

    def _judged(self, segment: ExaminedSegment, found: SnapshotAt | None) -> JudgedSnapshot:
        verdict = segment.snapshot.verdict(self.expiry)
        if found is None:
            return JudgedSnapshot(None, verdict)
        if self.is_object(found):
            return JudgedSnapshot(found, verdict, found.provenance, is_object=True)
        if self._is_taken(found):
            return JudgedSnapshot(found, verdict, Provenance.BROKER_UNVERIFIED)
        is_trusted = found.comparison.verdict(self.expiry).is_trusted
        return JudgedSnapshot(found, verdict, Provenance.BROKER if is_trusted else None)

    def is_object(self, found: SnapshotAt) -> bool:
        """Return whether a segment is tiered with the computed object and not with the broker's file."""
        verdict = found.comparison.verdict(self.expiry)
        is_instead = verdict is SnapshotVerdict.MISSING or (self.replace and not verdict.is_trusted)
        return found.stored is not None and is_instead

    def _as_tiered(self, found: SnapshotAt | None) -> Comparison:
        """Return the comparison of the snapshot that a bundle carries: the broker's file, or the object for it."""
        if found is None:
            return _NOT_REACHED
        return computed(found.provenance) if self.is_object(found) else found.comparison

    def _is_taken(self, found: SnapshotAt) -> bool:
        """Return whether the broker's file is uploaded without a comparison: it was read and is older than the window.

        If the state at the log's remote start is unknown, the replica may have been rebuilt, so its files are not used.
        """
        is_read = found.file.file_crc32c is not None and found.comparison.compared is SnapshotVerdict.UNVERIFIED
        return self.is_bounded and is_read and not found.provenance.lacks_start

    def _is_unread(self, end: SnapshotAt) -> bool:
        """Return whether nothing read the segment that ends there, and nothing proves which transactions are open.

        The window's begin is proven, so a snapshot that was computed for it names them.
        """
        if end.comparison.compared is SnapshotVerdict.UNVERIFIED:
            return self._is_taken(end)
        is_of_window = self.is_bounded and end.provenance is Provenance.COMPUTED_WITHIN_WINDOW
        return is_of_window and end.snapshot_offset < end.folded_from


def open_at(base_offset: int, before: SnapshotAt | None) -> OpenTransactions | None:
    """Return the transactions that are open at the base offset, None if they are unknown."""
    if before is None:
        return () if base_offset == 0 else None  # before the first record of a topic nothing was open
    return before.open_transactions
