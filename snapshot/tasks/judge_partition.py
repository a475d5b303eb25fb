"""One partition judged by the results of its newest replay and by remote storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiersnap.snapshot.gate.judge_partition import Policy, SegmentReadiness, open_at
from tiersnap.snapshot.replay.partition_state import SnapshotAt
from tiersnap.snapshot.replay.remote_listing import ListedCopy, RemoteListing
from tiersnap.snapshot.tables.facts import StoredReplay, StoredResults
from tiersnap.snapshot.tables.readiness import CopyPlan, SegmentJudgement
from tiersnap.snapshot.tables.segment_verdict import SegmentVerdict


@dataclass(frozen=True)
class PartitionJudge(Policy):
    """Judges a partition by its stored results."""

    def judged(self, found: StoredResults | None, copies: Sequence[ListedCopy]) -> Iterator[SegmentJudgement]:
        """Yield the segments of a partition that was replayed; none before. `copies` are those in remote storage.

        Raises:
            ValueError: there are segments, snapshots or copies, and no replay.
        """
        replayed = None if found is None else found.replayed
        if found is None or replayed is None:
            if copies or (found is not None and (found.segments or found.snapshots)):
                raise ValueError("segments and no replay of their partition: Spark did not bring its rows together")
            return
        remote = RemoteListing(tuple(copies), encrypted_by=replayed.encrypted_by)
        coverage = remote.coverage(replayed.leader_epochs, replayed.facts.log_end_offset)
        segments = found.segments.values()
        for each in self.judge(replayed.facts, found.partition, segments, found.snapshots, coverage):
            verdict = SegmentVerdict.of(found.log_dir, found.topic, found.partition, replayed.facts, each)
            before = found.snapshots.get(each.facts.base_offset)
            yield SegmentJudgement(verdict, _copy_plan(replayed, each, before) if each.is_ready else None)


def _copy_plan(replayed: StoredReplay, judged: SegmentReadiness, before: SnapshotAt | None) -> CopyPlan:
    """Return the plan of a READY segment; `before` is what is remembered of its base offset."""
    end, is_object = judged.snapshot.found, judged.snapshot.is_object
    assert end is not None and judged.snapshot.provenance is not None, "READY without a snapshot"
    stored = end.stored if is_object else None
    return CopyPlan(
        cluster_id=replayed.cluster_id,
        leader_epochs=replayed.leader_epochs,
        open_transactions=open_at(judged.facts.base_offset, before),
        provenance=judged.snapshot.provenance,
        file=end.file,
        comparison=None if is_object else end.comparison.compared,
        object_key=None if stored is None else stored.object_key,
        object_crc32c=None if stored is None else stored.object_crc32c,
    )
