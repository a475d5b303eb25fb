"""Publish finished segments.

All segments are planned first. Then each topic is paused, planned again, published and read back.

A copy task keeps the highest remote offset in memory, so it would upload published segments again. Copying of a topic
is therefore paused while records are written. After the last topic, tiersnap watches the copy tasks of all paused
topics. If another user disabled copying, copying stays disabled.

A copy task or another tool may write records between the plan and the publication. If the read-back of
`__remote_log_metadata` shows such records and they hide segments, publishing stops.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby, repeat

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
    ids_of_metadata,
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
from tiersnap.remote_storage.verify.compare_whole import find_problems
from tiersnap.remote_storage.verify.local_log import LocalLogs
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry

_log = logging.getLogger(__name__)

_FINISHED = SegmentState.COPY_SEGMENT_FINISHED
Segments = dict[TopicIdPartition, list[RemoteLogSegmentMetadata]]


@dataclass(frozen=True, slots=True)
class Published:
    """The result of a publication: the plans, the number of written records, and the errors."""

    plans: Sequence[PublishPlan]  # without `apply`, plans that were not carried out
    records: int = 0  # number of written records
    # errors of topics: copying was enabled during the publication, copying is still paused, or the copy task fails
    doubts: Sequence[TiersnapError] = ()
    proof: PlaceProof | None = None  # the proof that brokers read this location; None if nothing is to be published
    stuck_ahead: Sequence[
        TopicIdPartition
    ] = ()  # partitions whose copy task fails at the segment after the published ones
    still_off: Sequence[str] = ()  # published topics whose copying another user disabled

    @property
    def errors(self) -> list[TiersnapError]:
        """Return the errors of the plans, then `doubts`."""
        found: list[TiersnapError] = []
        for plan in self.plans:
            found += plan.errors
        return [*found, *self.doubts]

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the plans and of stuck copy tasks."""
        yield from self.errors
        yield from repeat(OtherProblem.STUCK_COPY_AHEAD, len(self.stuck_ahead))

    @property
    def plan(self) -> PublishCounts:
        """Return the counts of segments that were published, or without `apply`, the counts of segments to publish."""
        return PublishCounts.of(self.plans)

    @property
    def segment_ids(self) -> list[RemoteLogSegmentId]:
        """Return the ids of segments that were published, or without `apply`, the ids of segments to publish."""
        found: list[RemoteLogSegmentId] = []
        for plan in self.plans:
            if plan.is_open:
                found += [each.id for each in plan.to_tell]
        return found


@dataclass(frozen=True)
class Publish:
    """One run of the publication."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    location: RemoteLocation  # remote storage, as brokers use it
    # proves that brokers use `location`; called once, only if there is a segment to publish
    prove: Callable[[], PlaceProof]
    log_dirs: Sequence[str] = ()  # log directories of leaders, read for leader epochs; empty to ask the leaders
    broker_id: int | None = None  # the broker id in records; None for each partition's leader
    local: LocalLogs = field(default_factory=LocalLogs)  # logs of leaders, compared with published segments
    expiry: BrokerExpiry = field(  # a snapshot may omit producers that expired by these rules
        default_factory=lambda: BrokerExpiry(int(time.time() * 1000), DEFAULT_PRODUCER_EXPIRATION_MS)
    )
    talk: Callable[[str], None] = lambda _: None  # reports finished and slow steps
    # ids of segments that this run uploaded and compared with the log; they are not read again
    uploaded: frozenset[str] = frozenset()
    # raises a TiersnapError if a partition's log below an offset differs from the leader's log
    check_leader: Callable[[TopicIdPartition, int], None] = lambda *_: None
    _read: dict[str, str] = field(default_factory=dict)  # why segments are wrong, "" for right ones, by id
    _seen: dict[TopicIdPartition, int] = field(
        default_factory=dict
    )  # exclusive end of the offsets that were compared with the leader

    @cached_property
    def _paused(self) -> PausedTopics:
        return PausedTopics(self.cluster, SavedConfigsStore(self.location.store), self.talk)

    def run(
        self, finished: Iterable[RemoteLogSegmentMetadata], *, apply: bool, topics: Collection[str] = ()
    ) -> Published:
        """Compare finished segments with `__remote_log_metadata`, and plan their publication.

        With `apply`, the planned segments are published. A plan of a fleet takes minutes, so each topic is planned
        again before its records are written. All partitions of the segments' topics are planned, so that the plans
        also report lost segments in partitions without finished segments.

        Args:
            finished: finished remote segments, see `finished_segments`.
            apply: False only returns the plans.
            topics: names of further topics; if a killed run left them paused, their configs are restored.

        Raises:
            WrongPlaceError, UnprovenPlaceError: brokers may read another location, so nothing is published.
            MetadataTopicCompactedError: `__remote_log_metadata` is compacted and refuses records without a key.
            BrokerUnavailableError: a broker did not answer before the first record was written. If copying may still
                be disabled, the hint says so.
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
                check_conditions(self.location.store)  # saved configs need conditional writes
            try:
                self._publish_topics(reader, opened, done)
                if apply:
                    for saved in left.saved:
                        self._paused.forget_left(saved)
            finally:
                self._paused.release()
        done.doubts += _unrestored(left.refusals, done.plans.values())
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
        """Plan the partitions with finished or published segments. Refuse topics that cannot be paused.

        Args:
            partitions: all partitions of the segments' topics.
            refusals: by topic name, the errors of configs that could not be restored.
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
        """Yield the plans of topics that cannot be paused, with the error as refusal."""
        for _, of_topic in groupby(opened, key=lambda plan: plan.partition.topic):
            own = list(of_topic)
            try:
                self._paused.check_if_copied([plan.partition for plan in own])
            except NOT_PAUSED as why:
                yield from (replace(plan, refusal=why) for plan in own)

    def _publish_topics(self, reader: MetadataReader, opened: Segments, done: Done) -> None:
        """Publish the topics one by one, then watch their copy tasks.

        If an error occurs before the first record is written, raise the error. Add a later error to `doubts`, and
        refuse the partitions whose records were not all written.
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
        """Watch the copy tasks of the paused topics. If a task did not read the new records, pause its topic again.

        If a topic cannot be paused again, its saved configs stay for the next run, and the error is added to `doubts`.
        """
        topics = done.watched_topics
        quiet = quiet_seconds(self.cluster, [done.plans[each].leader for each in done.watched])

        def see(_: list[str]) -> set[str]:
            if not done.watched:
                return set()
            self.talk(f"waiting up to {quiet:.0f} s until the copy tasks continue")
            for each, progress in watch(reader, done.watched.values(), quiet).items():
                if progress is CopyProgress.STUCK_AHEAD:
                    done.stuck_ahead.append(each)
                if progress is not CopyProgress.FAILING:
                    del done.watched[each]
            return done.watched_topics

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
        """Yield all partitions of the topics that these partitions belong to."""
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
                doubts=self._find_problems,
                remote=self.location.words,
            )
        return list(map(self._of_leader, plans))

    def _of_leader(self, plan: PublishPlan) -> PublishPlan:
        """Return the plan. Refuse it if the local log differs from the leader's log."""
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
        """Return the ids of complete segments, and of segments whose deletion brokers have published."""
        whole = complete_segments(self.location, partition, segment_ids)
        if len(whole) == len(segment_ids):
            return whole
        finished = ids_of_metadata(reader.read_to_end().in_state(partition, _FINISHED))
        return whole.union(each for each in segment_ids if each not in finished)

    def _find_problems(self, partition: TopicIdPartition, ids: Collection[str]) -> Mapping[str, str]:
        """Read each segment once in a run. Return why segments are wrong, by segment id."""
        unread = set(ids) - self._read.keys() - self.uploaded
        doubts = find_problems(self.location, partition, unread, self.local.compare_of(partition), self.expiry)
        self._read.update(dict.fromkeys(unread, "") | doubts)
        return {each: self._read[each] for each in ids if self._read.get(each)}

    def _doubts(self, topic: str) -> Iterator[TiersnapError]:
        """Yield an error if another user enabled copying of a topic while tiersnap published its segments."""
        try:
            if is_copying_off(self.cluster.settings(topic)):
                return
        except (TransientError, ClusterRefusedError) as error:
            yield error
            return
        _log.warning("copying was enabled during the publication: topic=%s", topic)
        yield CopyingSwitchedOnError(
            f"{topic}: another user or program enabled copying during the publication: the copy tasks missed records "
            "of published segments, and upload these segments again",
            hint="to let the copy tasks continue after the published segments, set unlimited retention and "
            f"{COPY_DISABLE}=true, then {COPY_DISABLE}=false and the earlier retention: kafka-configs --alter --topic "
            f"{topic}. For segments that were uploaded twice: tiersnap runbook 6",
        )


def _refused(plan: PublishPlan, refusal: TiersnapError | None) -> PublishPlan:
    if refusal is None or not plan.is_open:
        return plan
    return replace(plan, refusal=refusal)


def _unrestored(refusals: Mapping[str, TiersnapError], plans: Iterable[PublishPlan]) -> Iterator[TiersnapError]:
    """Yield the refusals that no plan contains, for example of a topic without segments to publish."""
    told = {plan.refusal for plan in plans}
    yield from (refusal for refusal in refusals.values() if refusal not in told)
