"""Replace the wrong segments that brokers read, and delete segments that brokers no longer read.

A right segment gets a new segment id. The code of `tier` uploads the segment, and the code of `publish` publishes it.
After each record, brokers can read all offsets that they could read before. The claim keeps the id of the replaced
segment, so that no run deletes a segment that brokers know. If a run is killed, the next run finds the uploaded segment
and publishes it.

A deletion follows RemoteLogManager.deleteRemoteLogSegment: DELETE_SEGMENT_STARTED, then the objects, then
DELETE_SEGMENT_FINISHED. Its records have the broker id NO_BROKER, so that the next run recognises unfinished deletions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import Lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.errors import NotDeletedError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.make_again import RemoteLogs, check_plaintext
from tiersnap.remote_storage.mend.mend_plan import deletion, may_be_deleted, wrong_and_read
from tiersnap.remote_storage.mend.right_segments import RightSegments
from tiersnap.remote_storage.mend.segments_to_mend import Mending
from tiersnap.remote_storage.mend.stored_files import not_rebuilt
from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    ids_of_metadata,
    new_segment_id,
)
from tiersnap.remote_storage.publish.plan_publication import plan_publication
from tiersnap.remote_storage.publish.segments_to_publish import TO_PUBLISH, PublishPlan
from tiersnap.remote_storage.publish.write_records import publish_plans
from tiersnap.remote_storage.remote_log.cluster_record import put_cluster_id
from tiersnap.remote_storage.remote_log.complete import complete_segments
from tiersnap.remote_storage.remote_log.finished import finished_of
from tiersnap.remote_storage.retire.partition_leftovers import Swept
from tiersnap.remote_storage.stores.requests import Deadline
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.copy_attempt import CopyAttempt, begin_attempt
from tiersnap.remote_storage.upload.send_objects import delete_copy
from tiersnap.remote_storage.upload.tier_job import Tierer, TierJob
from tiersnap.remote_storage.verify.read_whole import ReadWhole
from tiersnap.snapshot.errors import TiersnapError, TransientError

_log = logging.getLogger(__name__)

_FINISHED = SegmentState.COPY_SEGMENT_FINISHED
_DELETING, _DELETED = SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED


@dataclass(frozen=True)
class ReplaceWrong:
    """Replaces wrong segments, partition by partition.

    Attributes:
        apply: whether to write. If not, the right segments are only built, to check that this is possible.
    """

    cluster: Cluster
    metadata_topic: MetadataTopic
    reader: MetadataReader
    lineage: Lineage
    logs: RemoteLogs
    tierer: Tierer
    allow_plaintext: bool
    apply: bool

    def of_partition(
        self, partition: TopicIdPartition, planned: Sequence[Mending], wrong: Collection[str]
    ) -> list[Mending]:
        """Replace segments of one partition by ascending offset. Publish each replacement before the next upload.

        If a segment cannot be replaced yet, try again after each successful replacement of another segment.

        Args:
            wrong: ids of all segments of the partition that are wrong or lack objects.
        """
        waiting = {each.metadata.id.segment_id: _planned(each) for each in planned}
        start = self.logs.starts.get(partition, 0)
        try:
            check_plaintext(self.logs.location, planned[0].metadata, allowed=self.allow_plaintext)
            ours, doubted = self._read_ours(partition, planned, wrong)
            wrong = {*wrong, *doubted}
            index = self._index_with_ours(partition, ours, wrong)
        except TiersnapError as error:
            return [failed(each, error) for each in waiting.values()]
        job = self._job(partition, wrong, ours)
        done, held = dict[str, Mending](), dict[str, Mending]()
        with self.logs.right_segments(partition, [each.metadata for each in planned], wrong) as right:
            while left := wrong_and_read(index, waiting.keys() - done.keys() - held.keys(), start):
                segment_id = left[0].id.segment_id
                mending = self._judged(waiting[segment_id], new_segment_id(), wrong)
                if mending.error is not None:
                    held[segment_id] = mending
                    continue
                done[segment_id] = self._replaced(mending, right, job)
                if done[segment_id].outcome is MendOutcome.MENDED:
                    held.clear()
                    index = self.reader.cache.index(partition)
        return self._with_unread(waiting, done | held)

    def _job(
        self, partition: TopicIdPartition, wrong: Collection[str], ours: Iterable[RemoteLogSegmentMetadata]
    ) -> TierJob:
        """Return the job that uploads right segments. Only segments that brokers read count as uploaded.

        Unfinished attempts of brokers do not count, because they may be damaged. Segments that tiersnap uploaded above
        the brokers' last segment do not count, because `mend` does not publish them.
        """
        read = ids_of_metadata(self.reader.cache.in_state(partition, _FINISHED))
        replaced = (ids_of_metadata(ours) - read).union(wrong)
        return TierJob(self.logs.location, partition, self.tierer, replaced=replaced, of_brokers=read)

    def _with_unread(self, waiting: Mapping[str, Mending], ended: Mapping[str, Mending]) -> list[Mending]:
        """Return all segments with their outcomes.

        A segment without an outcome in `ended` counts as mended. Brokers no longer read it, because replacements of
        other segments have its offsets.
        """
        outcome = MendOutcome.PLANNED
        if self.apply:
            outcome = MendOutcome.MENDED
        return [ended.get(name) or replace(each, outcome=outcome) for name, each in waiting.items()]

    def _read_ours(
        self, partition: TopicIdPartition, planned: Sequence[Mending], wrong: Collection[str]
    ) -> tuple[list[RemoteLogSegmentMetadata], Collection[str]]:
        """Read the unpublished segments of tiersnap that share offsets with `planned`.

        Return the right segments, and the ids of the wrong segments.
        """
        replaced = [each.metadata for each in planned]
        known = self.reader.cache.segments(partition).keys() | set(wrong)
        ours = _overlapping(finished_of(self.logs.location, partition), replaced, known)
        doubted = self.logs.find_problems(partition, ours.keys())
        return [record for segment_id, record in ours.items() if segment_id not in doubted], doubted.keys()

    def _index_with_ours(
        self, partition: TopicIdPartition, ours: Iterable[RemoteLogSegmentMetadata], wrong: Collection[str]
    ) -> RemoteIndex:
        """Publish tiersnap's segments `ours`, which were read fully. Return the brokers' index after the publication.

        Segments above the brokers' last segment are not published, because the copy task continues there.
        """
        index = self.reader.cache.index(partition)
        end = max(each.end_offset for each in index.finished())
        ours = [each for each in ours if each.end_offset <= end]
        if not ours:
            return index
        plan = self._plan(ours, wrong)
        if not plan.is_open:
            return index
        if self.apply:
            publish_plans(self.metadata_topic, self.reader, [plan], None)
            return self.reader.cache.index(partition)
        index = index.copy()
        for each in plan.to_tell:
            index.take(each)
        return index

    def _judged(self, mending: Mending, segment_id: str, wrong: Collection[str]) -> Mending:
        """Return the segment. Add an error if its replacement with the id `segment_id` may not be published."""
        return _as_planned(mending, self._plan([_renamed(mending.metadata, segment_id)], wrong), segment_id)

    def _replaced(self, planned: Mending, right: RightSegments, job: TierJob) -> Mending:
        mending, max_timestamp = self._uploaded(planned, right, job)
        if not mending.replaced_by:
            return mending
        try:
            new = replace(_renamed(mending.metadata, mending.replaced_by), max_timestamp=max_timestamp)
            plan = self._plan([new], job.replaced)
            mending = _as_planned(mending, plan, mending.replaced_by)
            if mending.error is None:
                wrong = mending.metadata.id
                check_complete(job.location, job.partition, wrong.segment_id, mending.replaced_by)
                publish_plans(self.metadata_topic, self.reader, [plan], None)
                mending = replace(mending, outcome=MendOutcome.MENDED)
        except TiersnapError as error:
            return failed(mending, error)
        return mending

    def _plan(self, new: Sequence[RemoteLogSegmentMetadata], wrong: Collection[str]) -> PublishPlan:
        """Plan the records of new segments. The copy task works at higher offsets, so copying stays enabled."""
        partition = new[0].id.topic_id_partition
        (plan,) = plan_publication(
            self.cluster,
            self.reader.read_to_end(),
            self.lineage,
            {partition: new},
            stuck={partition},
            complete_segments=self._complete,
            wrong=wrong,
        )
        return plan

    def _complete(self, partition: TopicIdPartition, ids: Collection[str]) -> Collection[str]:
        return complete_segments(self.logs.location, partition, ids)

    def _uploaded(self, mending: Mending, right: RightSegments, job: TierJob) -> tuple[Mending, int]:
        """Upload the right segment. Return the mending, and the largest timestamp of the segment's batches (ms)."""
        record = mending.metadata
        try:
            with right.of(record, prefers_local=True) as segment:
                if not self.apply:
                    segment.bundle(job.store)
                    return mending, segment.max_timestamp
                # If the topic is deleted during the upload, `remove-orphans` needs the cluster id for the leftovers.
                put_cluster_id(job.store, job.partition, self.cluster.cluster_id())
                segment_id = upload_right(job, segment)
                if segment_id is None:
                    raise not_rebuilt(
                        record, "other segments have these offsets; to publish the other segments: tiersnap publish"
                    )
        except TiersnapError as error:
            return failed(mending, error), -1
        _log.info("uploaded %s in the place of %s", segment_id, record.id)
        return replace(mending, replaced_by=segment_id), segment.max_timestamp


def check_complete(location: RemoteLocation, partition: TopicIdPartition, wrong_id: str, right_id: str) -> None:
    """Check that the right segment is still complete, before it replaces the wrong one.

    Raises:
        TransientError: the right segment lost an object.
    """
    if right_id not in complete_segments(location, partition, {right_id}):
        why = f"segment {right_id}, which replaces it, has lost an object since the upload"
        raise TransientError(
            f"{partition}:{wrong_id}: {why}", hint="run the same command again: it uploads the segment again"
        )


def upload_right(job: TierJob, segment: PlannedSegment) -> str | None:
    """Upload a right segment unless it exists. Return its segment id in remote storage.

    Raises:
        TiersnapError: the upload failed, and the segment is not visible.
    """
    begun = begin_attempt(job, segment, Deadline(job.tierer.timeout))
    ended = begun.complete(begun.look) if isinstance(begun, CopyAttempt) else begun
    if ended.lost is not None:
        raise ended.lost.error
    last = ended.events[-1]
    if last.error is not None:
        raise last.error.raised
    return last.segment_id


def _planned(mending: Mending) -> Mending:
    return replace(mending, action=MendAction.REPLACE, outcome=MendOutcome.PLANNED, error=None)


def failed(mending: Mending, error: TiersnapError) -> Mending:
    """Return a segment that was not mended, with the error."""
    return replace(mending, action=MendAction.NONE, outcome=MendOutcome.FAILED, error=error)


def _as_planned(mending: Mending, plan: PublishPlan, segment_id: str) -> Mending:
    """Return `mending` if the plan publishes its replacement `segment_id`, else `mending` with an error."""
    if plan.refusal is not None:
        return failed(mending, plan.refusal)
    told = {each.metadata.id.segment_id: each for each in plan.segments}[segment_id]
    if told.error is not None:
        return failed(mending, told.error)
    if told.action not in TO_PUBLISH:
        return failed(
            mending,
            not_rebuilt(
                mending.metadata, f"brokers would not read the new segment in place of the wrong one: {told.action}"
            ),
        )
    return mending


def _renamed(record: RemoteLogSegmentMetadata, segment_id: str) -> RemoteLogSegmentMetadata:
    return replace(record, id=replace(record.id, segment_id=segment_id), state=_FINISHED)


def _overlapping(
    segments: Iterable[RemoteLogSegmentMetadata],
    others: Collection[RemoteLogSegmentMetadata],
    left_out: Collection[str],
) -> dict[str, RemoteLogSegmentMetadata]:
    """Return the segments that share an offset with one of `others`, by segment id. Skip the ids in `left_out`."""
    found = {}
    for each in segments:
        if each.id.segment_id in left_out:
            continue
        if any(each.start_offset <= one.end_offset and one.start_offset <= each.end_offset for one in others):
            found[each.id.segment_id] = each
    return found


# Segments that brokers no longer read.


@dataclass(frozen=True)
class DeleteUnread:
    """Deletes segments of one partition that brokers no longer read.

    Attributes:
        proof: the full check of the partition, which shows whether the remaining segments are right.
    """

    metadata_topic: MetadataTopic
    reader: MetadataReader
    logs: RemoteLogs
    proof: ReadWhole

    def check(self, index: RemoteIndex, segment: RemoteLogSegmentMetadata) -> None:
        """Check that a segment may be deleted.

        Raises:
            NotDeletedError: the segment must be kept.
        """
        start = self.logs.starts.get(segment.id.topic_id_partition, 0)
        if why := may_be_deleted(index, segment, start, self.proof):
            raise NotDeletedError(
                f"{segment.id}: not deleted: {why}",
                hint="first mend the segment that brokers read: give the LOGDIR of a replica, or --from",
            )

    def delete(self, segment: RemoteLogSegmentMetadata) -> None:
        """Delete a segment, or continue its deletion.

        Raises:
            NotDeletedError: the segment must be kept, because of a change since the plan.
            TransientError: an object could not be deleted. The next run continues.
            DeliveryFailedError: a record was not acknowledged.
        """
        partition, now = segment.id.topic_id_partition, self.logs.rules.now
        cache = self.reader.read_to_end()
        known = cache.segments(partition).get(segment.id.segment_id)
        if known is None or known.state is not segment.state:
            return  # brokers have deleted it
        self.check(cache.index(partition), segment)
        if segment.state is _FINISHED:
            self._tell(partition, [deletion(segment, _DELETING, now)])
        Swept(failures=delete_copy(self.logs.location, segment)).check()
        self._tell(partition, [deletion(segment, _DELETED, now)])
        _log.info("deleted %s", segment.id)

    def _tell(self, partition: TopicIdPartition, records: Iterable[MetadataRecord]) -> None:
        self.metadata_topic.publish((partition, each) for each in records)
