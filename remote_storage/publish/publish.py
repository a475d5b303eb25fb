"""Publish finished segments.

All segments are planned first. Then each topic is paused, planned once more, published and read back.

A copy task keeps the end of remote storage in memory, so it would upload published segments again. Copying of a topic
is therefore paused while its records are written. Its copy tasks are watched after the last topic. If another user
disabled copying, it stays disabled.

A copy task or another tool may write records between the plan and ours. The metadata topic shows its records, and
publishing stops there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copy_progress import CopyProgress, Watched, quiet_seconds, watch
from tiersnap.remote_storage.cluster.leader_epochs import open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.topic_checks import is_copying_off
from tiersnap.remote_storage.errors import (
    ClusterRefusedError,
    CopyingSwitchedOnError,
    SettingsAsideError,
)
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.saved_configs import SavedConfigsStore
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
from tiersnap.remote_storage.publish.location_proof import PlaceProof
from tiersnap.remote_storage.publish.paused_topics import NOT_PAUSED, PausedTopics, restore_left
from tiersnap.remote_storage.publish.plan_publication import plan_publication
from tiersnap.remote_storage.publish.publish_counts import PublishCounts
from tiersnap.remote_storage.publish.publish_outcome import Done
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan, by_partition
from tiersnap.remote_storage.publish.watch_resumed import still_stuck, watch_resumed
from tiersnap.remote_storage.publish.write_records import publish_plans
from tiersnap.remote_storage.remote_log.complete import complete_segments
from tiersnap.remote_storage.stores.probe import check_conditions
from tiersnap.remote_storage.verify.compare_whole import find_doubts
from tiersnap.remote_storage.verify.local_log import LocalLogs
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry

_log = logging.getLogger(__name__)

_FINISHED = SegmentState.COPY_SEGMENT_FINISHED
Segments = dict[TopicIdPartition, list[RemoteLogSegmentMetadata]]


@dataclass(frozen=True, slots=True)
class Published:
    """The plan, and the records that were written."""

    plans: Sequence[PublishPlan]  # as they were carried out, or would be
    records: int = 0  # number that were written
    # topics whose copying may not have been off all the while, that are still paused, or whose copy task fails
    doubts: Sequence[TiersnapError] = ()
    proof: PlaceProof | None = None  # that brokers read this place; None if nothing is to be published
    stuck_ahead: Sequence[TopicIdPartition] = ()  # their copy tasks fail at the segment after the published ones
    still_off: Sequence[str] = ()  # published topics whose copying another user disabled

    @property
    def errors(self) -> list[TiersnapError]:
        """Return the errors of the plans, and doubts."""
        found: list[TiersnapError] = []
        for plan in self.plans:
            found += plan.errors
        return [*found, *self.doubts]

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the plans and of stuck copy tasks."""
        yield from self.errors
        yield from (OtherProblem.STUCK_COPY_AHEAD for _ in self.stuck_ahead)

    @property
    def plan(self) -> PublishCounts:
        """Return the counts of segments that are published, or would be."""
        return PublishCounts.of(self.plans)

    @property
    def told(self) -> list[RemoteLogSegmentId]:
        """Return the segments that were published, or would be."""
        found: list[RemoteLogSegmentId] = []
        for plan in self.plans:
            if plan.is_open:
                found += [each.id for each in plan.to_tell]
        return found


@dataclass(frozen=True)
class Publish:
    """One run."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    location: RemoteLocation  # remote storage, as brokers use it
    # proves that they do; called once, before the first record, and not without one
    prove: Callable[[], PlaceProof]
    log_dirs: Sequence[str] = ()  # of leaders, for leader epochs; empty if the leaders can be asked
    broker_id: int | None = None  # named in records; None for each partition's leader
    local: LocalLogs = field(default_factory=LocalLogs)  # logs of leaders, compared with published segments
    expiry: BrokerExpiry = field(  # a snapshot may omit producers that expired
        default_factory=lambda: BrokerExpiry(int(time.time() * 1000), DEFAULT_PRODUCER_EXPIRATION_MS)
    )
    talk: Callable[[str], None] = lambda _: None  # reports finished and slow steps
    # ids of segments that this run uploaded: it read them from the log and compared them during the upload
    uploaded: frozenset[str] = frozenset()
    # raises a TiersnapError if the log of a partition, up to an offset, is not the leader's
    check_leader: Callable[[TopicIdPartition, int], None] = lambda *_: None
    _read: dict[str, str] = field(default_factory=dict)  # why segments are wrong, "" of right ones, by id
    _seen: dict[TopicIdPartition, int] = field(default_factory=dict)  # up to which offset a log is the leader's

    @cached_property
    def _paused(self) -> PausedTopics:
        return PausedTopics(self.cluster, SavedConfigsStore(self.location.store), self.talk)

    def run(
        self, finished: Iterable[RemoteLogSegmentMetadata], *, apply: bool, topics: Collection[str] = ()
    ) -> Published:
        """Plan finished segments by the records of `__remote_log_metadata`, and publish them.

        Planning a fleet takes minutes, so each topic is planned once more right before its records are written. All
        partitions of the topics are searched for lost segments that brokers know.

        Args:
            finished: segments in remote storage.
            topics: names of more topics whose configs are put back if a killed run left them paused.

        Raises:
            WrongPlaceError, UnprovenPlaceError: brokers may read another place, so nothing is published.
            MetadataTopicCompactedError: `__remote_log_metadata` takes no record without a key.
            BrokerUnavailableError: a broker went away before the first record. The hint tells if copying may still be
                disabled.
        """
        segments, done = by_partition(finished), Done()
        asked = {each.topic for each in segments}.union(topics)
        left = restore_left(self.cluster, self._paused.records, asked, self.talk, apply=apply)
        partitions = list(dict.fromkeys([*segments, *self._of_topics(segments)]))
        with self.metadata_topic.read(partitions) as reader:
            self._plan_all(reader, segments, partitions, left.refusals, done)
            proof = None
            if done.opened:
                self.metadata_topic.check_takes_records()
                proof = self.prove()
            opened: Segments = {}
            if apply:
                opened = {plan.partition: segments[plan.partition] for plan in done.opened}
            if opened and self._paused.checked:
                check_conditions(self.location.store)  # the saved configs rely on them
            try:
                self._publish_topics(reader, opened, done)
                if apply:
                    for saved in left.saved:
                        self._paused.forget_left(saved)
            finally:
                self._paused.release()
        done.doubts += _unrestored(left.refusals, segments)
        plans = [plan for plan in done.plans.values() if plan.partition in segments or plan.errors]
        return Published(plans, done.records, done.doubts, proof, done.stuck_ahead, done.still_off)

    def _plan_all(
        self,
        reader: MetadataReader,
        segments: Segments,
        partitions: Iterable[TopicIdPartition],
        refusals: Mapping[str, TiersnapError],
        done: Done,
    ) -> None:
        """Plan the partitions with segments or brokers' copies; refuse those of topics that cannot be paused.

        Args:
            partitions: all partitions of the segments' topics.
            refusals: by the name of a topic whose configs could not be put back.
        """
        cache = reader.read_to_end()
        wanted = dict(segments)
        for each in partitions:
            if each not in wanted and any(cache.in_state(each, _FINISHED)):
                wanted[each] = []
        planned = self._plan(reader, wanted, is_paused_later=True)
        done.take(_refused(plan, refusals.get(plan.partition.topic)) for plan in planned)
        done.take(self._refuse_unpausable(done.opened))

    def _refuse_unpausable(self, opened: Iterable[PublishPlan]) -> Iterator[PublishPlan]:
        """Yield the plans of topics that cannot be paused, each with the reason."""
        for _, of_topic in groupby(opened, key=lambda plan: plan.partition.topic):
            own = list(of_topic)
            try:
                self._paused.check_if_copied([plan.partition for plan in own])
            except NOT_PAUSED as why:
                yield from (replace(plan, refusal=why) for plan in own)

    def _publish_topics(self, reader: MetadataReader, opened: Segments, done: Done) -> None:
        """Publish topic by topic, and watch their copy tasks.

        An error after the first record is a doubt, because earlier records count. The topics after it are refused.
        """
        try:
            for _, partitions in groupby(opened, key=lambda each: each.topic):
                self._publish_topic(reader, {each: opened[each] for each in partitions}, done)
            self._see_copying_go_on(reader, done)
        except TiersnapError as error:
            if not done.records:
                raise
            done.doubts.append(error)
            done.refuse_unwritten(opened, error)

    def _publish_topic(self, reader: MetadataReader, wanted: Segments, done: Done) -> None:
        topic = next(iter(wanted)).topic
        try:
            if is_copying_off(self.cluster.settings(topic)):
                if self._write(reader, wanted, done):
                    done.still_off.append(topic)
                    done.doubts += self._doubts(topic)
            else:
                self._paused.while_paused(wanted, lambda: self._write_while_paused(reader, wanted, done))
        except SettingsAsideError as aside:
            done.doubts.append(aside)
        except NOT_PAUSED as why:
            done.take(replace(done.plans[each], refusal=why) for each in wanted)

    def _write(self, reader: MetadataReader, wanted: Segments, done: Done) -> int:
        plans = self._plan(reader, wanted)
        done.take(plans)
        written = publish_plans(self.metadata_topic, reader, plans, self.broker_id)
        done.records += written
        done.written.update(wanted)
        return written

    def _write_while_paused(self, reader: MetadataReader, wanted: Segments, done: Done) -> None:
        self._write(reader, wanted, done)
        self._watch_later(reader, wanted, done)

    @staticmethod
    def _watch_later(reader: MetadataReader, partitions: Iterable[TopicIdPartition], done: Done) -> None:
        cache = reader.read_to_end()
        for each in partitions:
            plan = done.plans[each]
            if plan.refusal is None:
                done.watched[each] = Watched(each, plan.next_offset, frozenset(cache.segments(each)))

    def _see_copying_go_on(self, reader: MetadataReader, done: Done) -> None:
        """Watch the copy tasks of the paused topics; pause a topic again if its task did not read the new records.

        If a topic cannot be paused again, add a doubt and keep its saved configs for the next run.
        """
        topics = {each.topic for each in done.watched}
        quiet = quiet_seconds(self.cluster, [done.plans[each].leader for each in done.watched])

        def see(_: list[str]) -> set[str]:
            if not done.watched:
                return set()
            self.talk(f"waiting up to {quiet:.0f} s for copying to go on")
            for each, progress in watch(reader, done.watched.values(), quiet).items():
                if progress is CopyProgress.STUCK_AHEAD:
                    done.stuck_ahead.append(each)
                if progress is not CopyProgress.FAILING:
                    del done.watched[each]
            return {each.topic for each in done.watched}

        def pause_again(topic: str) -> None:
            again = sorted(each for each in done.watched if each.topic == topic)
            try:
                self._paused.while_paused(again, partial(self._watch_later, reader, again, done))
            except TiersnapError as error:
                doubted.add(topic)
                done.doubts.append(error)
                for each in again:
                    del done.watched[each]

        doubted: set[str] = set()
        failing = watch_resumed(topics, see, pause_again)
        if failing:
            done.doubts.append(still_stuck(failing))
        for topic in topics - doubted.union(failing):
            self._paused.forget(topic)

    def _of_topics(self, partitions: Collection[TopicIdPartition]) -> Iterator[TopicIdPartition]:
        """Yield all partitions of the partitions' topics."""
        ids = {(each.topic, each.topic_id) for each in partitions}
        for topic in self.cluster.topics(name for name, _ in ids).values():
            if (topic.name, topic.topic_id) in ids:
                for number in topic.leaders:
                    yield TopicIdPartition(topic.name, topic.topic_id, number)

    def _plan(self, reader: MetadataReader, wanted: Segments, *, is_paused_later: bool = False) -> list[PublishPlan]:
        whole = partial(self._complete_segments, reader)
        with open_lineage(self.cluster, self.log_dirs) as lineage:
            cache = reader.read_to_end()
            plans = plan_publication(
                self.cluster,
                cache,
                lineage,
                wanted,
                stuck=wanted if is_paused_later else (),
                complete_segments=whole,
                doubts=self._find_doubts,
                remote=self.location.words,
            )
        return [self._of_leader(plan) for plan in plans]

    def _of_leader(self, plan: PublishPlan) -> PublishPlan:
        """Return the plan, refused if its segments may not be of the leader's log."""
        if not plan.is_open or self._seen.get(plan.partition) == plan.next_offset:
            return plan
        try:
            self.check_leader(plan.partition, plan.next_offset)
        except TiersnapError as refusal:
            return replace(plan, refusal=refusal)
        self._seen[plan.partition] = plan.next_offset
        return plan

    def _complete_segments(
        self, reader: MetadataReader, partition: TopicIdPartition, segment_ids: Collection[str]
    ) -> Collection[str]:
        """Return the ids of complete segments, and of segments that brokers delete: they write its record first."""
        whole = complete_segments(self.location, partition, segment_ids)
        if len(whole) == len(segment_ids):
            return whole
        finished = {each.id.segment_id for each in reader.read_to_end().in_state(partition, _FINISHED)}
        return whole.union(each for each in segment_ids if each not in finished)

    def _find_doubts(self, partition: TopicIdPartition, ids: Collection[str]) -> Mapping[str, str]:
        """Read segments, each once in a run; return why some are wrong."""
        unread = set(ids) - self._read.keys() - self.uploaded
        local = self.local.of(partition)
        compare = None if local is None else local.compare
        self._read.update(
            dict.fromkeys(unread, "") | find_doubts(self.location, partition, unread, compare, self.expiry)
        )
        return {each: self._read[each] for each in ids if self._read.get(each)}

    def _doubts(self, topic: str) -> Iterator[TiersnapError]:
        """Yield an error unless copying of a published topic is still disabled."""
        try:
            if is_copying_off(self.cluster.settings(topic)):
                return
        except (TransientError, ClusterRefusedError) as error:
            yield error
            return
        _log.warning("copying was switched on while it was published: topic=%s", topic)
        yield CopyingSwitchedOnError(
            f"{topic}: copying was switched on while it was published: its copiers do not see all of it, and copy the "
            "rest again",
            hint=f"kafka-configs --alter --topic {topic} --add-config {COPY_DISABLE}=true with endless retention, then "
            "false: they look again, and go on behind it. What was copied twice stays so: tiersnap runbook 6",
        )


def _refused(plan: PublishPlan, refusal: TiersnapError | None) -> PublishPlan:
    if refusal is None or not plan.is_open:
        return plan
    return replace(plan, refusal=refusal)


def _unrestored(refusals: Mapping[str, TiersnapError], segments: Iterable[TopicIdPartition]) -> Iterator[TiersnapError]:
    """Yield the refusals of other topics: no plan carries them."""
    topics = {each.topic for each in segments}
    for name, refusal in refusals.items():
        if name not in topics:
            yield refusal
