"""Wrong segments of ours that no broker manages, replaced by right ones under new ids, and deleted.

No record names them: a claim says that tiersnap uploaded a segment, and which one counts. So the wrong one is deleted
when the right one is finished: one that this run made, or verified. If a run is killed between the two, the next run
deletes it; if it is killed while it deletes, the rest is a leftover. A segment that no claim names may be a broker's:
it stays, and is named.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.cluster.missing_objects import MissingSegment
from tiersnap.remote_storage.inventory.remote_inventory import list_remote_partition
from tiersnap.remote_storage.inventory.remote_log import metadata_of
from tiersnap.remote_storage.inventory.remote_segment import IncompleteSegment, RemoteSegment
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.make_again import RemoteLogs, check_plaintext
from tiersnap.remote_storage.mend.mending import Mending
from tiersnap.remote_storage.mend.replace_wrong import check_complete, failed, upload_right
from tiersnap.remote_storage.mend.right_segments import RightSegments
from tiersnap.remote_storage.mend.stored_files import not_mended, not_rebuilt
from tiersnap.remote_storage.mend.unmanaged_tier import Remnant
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.own_objects import claim_protocol
from tiersnap.remote_storage.own_objects.claim import ClaimedSegment
from tiersnap.remote_storage.retire.partition_leftovers import Swept, delete_visible_first
from tiersnap.remote_storage.upload.tier_job import Tierer, TierJob
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError, TransientError
from tiersnap.snapshot.readiness.remote_check import CheckDepth

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplaceUnmanaged:
    """Replaces wrong segments of ours, partition by partition.

    Attributes:
        apply: write; without it segments are made to see that they can be, and nothing is kept.
        remnants: see UnmanagedTier; they are deleted.
        failures: why partitions could not be checked, once `each` has gone through.
    """

    logs: RemoteLogs
    tierer: Tierer
    allow_plaintext: bool
    apply: bool
    remnants: Mapping[TopicIdPartition, Sequence[Remnant]] = field(default_factory=dict)
    failures: list[TiersnapError] = field(default_factory=list)

    def each(
        self, partitions: Iterable[TopicIdPartition], depth: CheckDepth, lacking: Iterable[Mending]
    ) -> Iterator[Mending]:
        """Verify partitions, and replace what is wrong but for segments that lack objects; those are mended apart."""
        known = {each.metadata.id.segment_id for each in lacking}
        for partition in partitions:
            try:
                found = self.logs.verify(partition, depth)
                remnants = self.remnants.get(partition, ())
                if self.apply:
                    self._delete_remnants(partition, [each for each in remnants if each.right_id in found.sound])
                apart = known.union(each.left.segment_id for each in remnants)
                wrong = {key: why for key, why in found.wrong.items() if key not in apart}
                yield from self._of_partition(partition, wrong, found.sound)
            except TransientError as error:
                self.failures.append(error)
                return  # a server that does not answer is asked once
            except TiersnapError as error:
                self.failures.append(error)

    def _delete_remnants(self, partition: TopicIdPartition, remnants: Iterable[Remnant]) -> None:
        job = TierJob(self.logs.location, partition, self.tierer)
        for each in remnants:
            _delete_replaced(job, each.left, each.claimed, each.right_id)
            _log.info("deleted what was left of %s: %s is complete", each.left.segment_id, each.right_id)

    def _of_partition(
        self, partition: TopicIdPartition, wrong: Mapping[str, str], sound: frozenset[str]
    ) -> list[Mending]:
        location = self.logs.location
        if not wrong:
            return []
        there = list_remote_partition(location, partition)
        listed: list[RemoteSegment | IncompleteSegment] = [
            *(each for each in there.leftovers if not _is_attempt(each)),
            *there.segments,
            *there.uncounted,
        ]
        found = {each.segment_id: each for each in listed if each.segment_id in wrong}.values()
        job = TierJob(location, partition, self.tierer, replaced=frozenset(wrong), verified=sound)
        records = [each.metadata for each in found if isinstance(each, RemoteSegment)]
        with self.logs.right_segments(partition, records, wrong) as right:
            done: list[Mending] = []
            for each in sorted(found, key=lambda each: each.start_offset):
                done.append(self._replaced(each, right, job, wrong[each.segment_id]))
                job = replace(job, verified=sound.union(one.replaced_by for one in done))
            return done

    def _replaced(
        self, found: RemoteSegment | IncompleteSegment, right: RightSegments, job: TierJob, reason: str
    ) -> Mending:
        if isinstance(found, IncompleteSegment):
            start = found.start_offset
            record = metadata_of(job.partition, found.segment_id, start, start + 1)
            return failed(
                _planned(record, reason), _not_ours(record, reason) if found.claim is None else _damaged(record, reason)
            )
        record = found.metadata
        planned = _planned(record, reason)
        try:
            claim = claim_protocol.read_claim(job.store, found.claimed_as)
            if claim is None or found.segment_id not in claim.segment_ids:
                raise _not_ours(record, reason)
            check_plaintext(job.location, record, allowed=self.allow_plaintext)
            with right.of(record, prefers_local=True) as segment:
                if not self.apply:
                    segment.bundle(job.store)
                    return planned
                segment_id = upload_right(job, segment)
            if segment_id is None:
                raise not_rebuilt(record, "other segments hold its offsets")
            _delete_replaced(job, found, found.claimed_as, segment_id)
        except TiersnapError as error:
            return failed(planned, error)
        _log.info("uploaded %s in the place of %s, and deleted that", segment_id, record.id)
        return replace(planned, outcome=MendOutcome.MENDED, replaced_by=segment_id)


def _delete_replaced(
    job: TierJob, gone: RemoteSegment | IncompleteSegment, claimed: ClaimedSegment, right_id: str
) -> None:
    """Delete a segment in whose place another one is finished; the claim lets go of it first.

    Raises:
        TransientError: the other one is not complete any more, or an object could not be deleted.
        ObjectChangedError: the claim names another one by now.
    """
    check_complete(job.location, job.partition, gone.segment_id, right_id)
    claim_protocol.let_go(job.store, claimed, replace(job.new_attempt(), segment_id=gone.segment_id), instead=right_id)
    Swept(failures=delete_visible_first(job.store, gone.keys)).check()


def _is_attempt(left: IncompleteSegment) -> bool:
    """Return whether it is of an attempt of ours that did not finish: tier copies the segment again, and deletes it."""
    return left.claim is not None and left.claim.finished != left.segment_id


def _planned(record: RemoteLogSegmentMetadata, reason: str) -> Mending:
    return Mending(MissingSegment(record, True, ()), MendAction.REPLACE, MendOutcome.PLANNED, problem=reason)


def _damaged(record: RemoteLogSegmentMetadata, reason: str) -> CorruptDataError:
    return CorruptDataError(
        f"{not_mended(record)}{reason}; nothing else says where it ends",
        hint="tiersnap tier uploads it again from a log that has its offsets",
    )


def _not_ours(record: RemoteLogSegmentMetadata, reason: str) -> CorruptDataError:
    return CorruptDataError(
        f"{not_mended(record)}{reason}; no claim says that tiersnap uploaded it, so brokers may know it",
        hint="--bootstrap-server, of the cluster that wrote the segments",
    )
