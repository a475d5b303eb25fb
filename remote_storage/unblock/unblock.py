"""Find partitions with a stuck copy task, upload their segments, and let the copy tasks continue (release.py)."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap

from tiersnap.remote_storage.cluster.copy_tasks import check_cluster_of
from tiersnap.remote_storage.cluster.hung_copies import HungLimit
from tiersnap.remote_storage.cluster.leader_epochs import Lineage, dirs_for_epochs, open_lineage
from tiersnap.remote_storage.cluster.log_starts import located
from tiersnap.remote_storage.cluster.lost_epochs import LostEpochs, find_lost_epochs
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader
from tiersnap.remote_storage.cluster.read_records import partitions_of
from tiersnap.remote_storage.cluster.stuck import find_stuck, tiered_topics
from tiersnap.remote_storage.cluster.topics import led_partitions
from tiersnap.remote_storage.locks.saved_configs import SavedConfigsStore
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition, name_of
from tiersnap.remote_storage.publish.location_evidence import ProvePlace
from tiersnap.remote_storage.publish.location_proof import PlaceProof
from tiersnap.remote_storage.publish.paused_topics import PausedTopics, restore_left
from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan
from tiersnap.remote_storage.remote_log.finished import finished_of
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.remote_log.remote_inventory import list_remote_partition
from tiersnap.remote_storage.remote_log.segment_objects import ids_of
from tiersnap.remote_storage.stores.probe import check_conditions
from tiersnap.remote_storage.unblock.freeing import Freeing
from tiersnap.remote_storage.unblock.release import ReleaseTopics
from tiersnap.remote_storage.upload.host_outcome import HostOutcome
from tiersnap.remote_storage.upload.tier_host import HostPartition, HostTier
from tiersnap.remote_storage.verify.broker_attempts import ComparedAttempts, compare_attempts
from tiersnap.remote_storage.verify.compare_whole import split_problems
from tiersnap.remote_storage.verify.local_log import LocalLog
from tiersnap.snapshot.errors import TiersnapError, TransientError, UsageError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.log.log_dir import LogDir, Partition, read_properties, split_folder_name
from tiersnap.snapshot.log.selection import NamedLogDir, named
from tiersnap.snapshot.replay.replay_start import Beginnings, beginning

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Unblocked:
    """The result of a run of `unblock`."""

    candidates: int  # number of tiered partitions that were checked
    freeings: tuple[Freeing, ...] = ()  # the stuck partitions
    tiered: HostOutcome = field(default_factory=lambda: HostOutcome(()))  # the upload; in a plan, its plan
    refusals: tuple[TiersnapError, ...] = ()  # errors of topics that were not changed
    doubts: tuple[TiersnapError, ...] = ()  # errors after the first upload or publication
    proof: PlaceProof | None = None  # the proof that brokers read this location; None if nothing is stuck
    lost_epochs: tuple[LostEpochs, ...] = ()  # partitions that only `repair` frees

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the run."""
        if self.freeings:
            yield from self.tiered.findings
        yield from self.tiered.errors
        yield from self.refusals
        yield from self.doubts
        for each in self.freeings:
            if each.problem is not None:
                yield each.problem
        if self.lost_epochs:
            yield OtherProblem.STUCK_COPY


@dataclass
class Unblock:
    """One run of `unblock`."""

    place: ProvePlace  # proves that brokers read the location, before anything is uploaded
    host: HostTier  # uploads stuck partitions if `host.apply` is set
    log_dirs: Mapping[str, LogDir]  # log directories of one broker, by URI
    topic: re.Pattern[str] | None  # a regular expression for whole topic names; None for all
    broker_id: int | None  # broker id in records; None for each partition's leader
    talk: Callable[[str], None]  # reports progress
    hung: HungLimit | None = None  # age at which a copy counts as hung; None frees no hung copies
    # yields the partitions unchanged, and reports progress
    watch: Callable[[Iterable[HostPartition]], Iterable[HostPartition]] = iter
    _freeings: dict[TopicPartition, Freeing] = field(default_factory=dict)
    _refusals: dict[str, TiersnapError] = field(default_factory=dict)
    _doubts: list[TiersnapError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster, self.metadata_topic = self.place.cluster, self.place.metadata_topic
        self._records = SavedConfigsStore(self.host.location.store)

    def run(self) -> Unblocked:
        """Return the plan, or with `host.apply` the result.

        An error after an upload or a publication is added to `doubts`, so that earlier results are reported.

        Raises:
            UsageError: a stuck partition is in two of the log directories.
            ClusterRefusedError, MetadataTopicCompactedError: brokers would refuse records of tiersnap.
            WrongClusterError: a log directory is from another cluster.
            WrongPlaceError, UnprovenPlaceError: brokers may read another remote location.
            UnblockHeldError: another run holds a topic for longer than a run normally takes.
        """
        check_cluster_of(self.cluster, self.log_dirs)
        names = sorted(partitions_of(starmap(NamedLogDir, self.log_dirs.items()), self.topic))
        wanted = {name for name, _ in names}
        left = restore_left(self.cluster, self._records, wanted, self.talk, apply=self.host.apply)
        self._refusals |= left.refusals
        topics = tiered_topics(self.cluster, wanted - self._refusals.keys(), self.talk)
        candidates = led_partitions(topics, names)
        log_dirs = dirs_for_epochs(self.cluster, self.log_dirs)
        with self.metadata_topic.read(candidates) as reader, open_lineage(self.cluster, log_dirs) as lineage:
            stuck = find_stuck(self.cluster, reader, lineage, candidates, left.partitions, self.talk, self.hung)
            _log.debug("%d of %d tiered partitions are stuck", len(stuck), len(candidates))
            lost = tuple(self._lost_epochs(reader.cache, candidates))
            if not stuck:
                return Unblocked(len(candidates), refusals=tuple(self._refusals.values()), lost_epochs=lost)
            self._freeings = {each.name: each for each in map(Freeing, stuck)}
            self._refuse_two_replicas()
            proof = self._prove()
            if self.host.apply:  # `check_conditions` writes, so it follows the proof
                check_conditions(self.host.location.store)
            tiered = self._free(reader, lineage)
        freed, refusals = tuple(self._freeings.values()), tuple(self._refusals.values())
        return Unblocked(len(candidates), freed, tiered, refusals, tuple(self._doubts), proof, lost)

    def _prove(self) -> PlaceProof | None:
        if not self._lacking():
            return None  # only copies are hung, so nothing is published
        self.metadata_topic.check_takes_records()
        return self.place.prove(self.host.location)

    def _lost_epochs(self, cache: MetadataCache, candidates: Mapping[TopicIdPartition, int]) -> Iterator[LostEpochs]:
        """Yield the partitions whose copy task fails because leader epochs are lost.

        A partition is checked only if its leader is the broker of a log directory.
        """
        for log_dir in self.log_dirs.values():
            owner = read_properties(log_dir.filesystem, log_dir.path)
            led = {each: at for each, at in candidates.items() if owner is None or at == owner.node_id}
            names = {(each.topic, each.partition) for each in led}
            yield from find_lost_epochs(cache, named(log_dir, names), led)

    def _refuse_two_replicas(self) -> None:
        found: Counter[TopicPartition | None] = Counter()
        for log_dir in self.log_dirs.values():
            found.update(map(split_folder_name, log_dir.folders))
        for topic, number in self._freeings:
            if found[topic, number] > 1:
                raise UsageError(
                    f"{topic}-{number}: more than one LOGDIR has a replica of this partition",
                    hint="give the log directories of one broker, preferably of the leader",
                )

    def _lacking(self) -> dict[TopicPartition, Freeing]:
        """Return the stuck partitions without a hung copy."""
        return {name: each for name, each in self._freeings.items() if each.stuck.hung is None}

    def _complete(self) -> frozenset[str]:
        """Return the ids of complete segments in the stuck partitions."""
        partitions = [each.stuck.partition for each in self._lacking().values()]
        complete: set[str] = set()
        for each in partitions:
            complete |= ids_of(list_remote_partition(self.host.location, each).segments)
        return frozenset(complete)

    def _read_first(self, reader: MetadataReader) -> ComparedAttempts:
        """Compare unpublished remote segments of the stuck partitions with the local logs.

        Brokers or tiersnap uploaded these segments.
        """
        cache, location, options = reader.read_to_end(), self.host.location, self.host.options
        right: set[str] = set()
        wrong: dict[str, str] = {}
        differing: dict[str, str] = {}
        for each in self._lacking().values():
            partition = each.stuck.partition
            begun, now = cache.begun_by_brokers(partition), self.host.tierer.now
            ours = {one.id.segment_id for one in finished_of(location, partition) if cache.may_become_visible(one)}
            expiry = options.broker_expiry(now)
            begins = Beginnings(partial(beginning, Observe(location, untrusted=begun | ours), expiry))
            local = compare = None
            if begun or ours:
                local = self._local_log(partition, begins)
            if local is not None:
                compare = local.compare
            found = compare_attempts(location, partition, begun, local, expiry)
            deleted = dict.fromkeys(cache.deleted_attempts(partition), "brokers began to delete the segment")
            # A segment that differs from the local log is from another log: do not upload it again, publish nothing.
            doubts = split_problems(location, partition, ours, compare, expiry)
            right |= found.right
            differing |= doubts.differing
            wrong |= deleted | found.wrong | doubts.damaged
            for segment_id, why in (found.wrong | doubts.damaged).items():
                self.talk(f"{partition}: tiersnap uploads the unpublished segment {segment_id} again: {why}")
        return ComparedAttempts(frozenset(right), wrong, differing)

    def _local_log(self, partition: TopicIdPartition, begins: Beginnings) -> LocalLog | None:
        for log_dir in self.log_dirs.values():
            for each in named(log_dir, {(partition.topic, partition.partition)}):
                return LocalLog(log_dir.filesystem, each, begins)
        return None

    def _tier(self, host: HostTier) -> HostOutcome:
        """Upload the READY segments of the stuck partitions."""
        lacking = self._lacking()

        def found() -> Iterator[tuple[NamedLogDir, Partition]]:
            for uri, log_dir in self.log_dirs.items():
                for each in named(log_dir, lacking):
                    yield NamedLogDir(uri, log_dir), each

        return HostOutcome(tuple(self.watch(host.partitions(located(self.cluster, found())))))

    def _free(self, reader: MetadataReader, lineage: Lineage) -> HostOutcome:
        # Copy tasks start new attempts meanwhile. An attempt that becomes complete after this listing is not compared,
        # so it counts as missing.
        complete = self._complete()
        attempts = self._read_first(reader)
        host = replace(self.host, wrong=frozenset(attempts.wrong), of_brokers=complete | attempts.right)
        tiered = self._tier(host)
        try:
            self._release(host, tiered, attempts, reader, lineage)
        except TiersnapError as error:
            if not tiered.copied and not any(each.is_published for each in self._freeings.values()):
                raise
            for each in self._freeings.values():
                each.interrupt(error)
            self._doubts.append(error)
        return tiered

    def _release(
        self,
        host: HostTier,
        tiered: HostOutcome,
        attempts: ComparedAttempts,
        reader: MetadataReader,
        lineage: Lineage,
    ) -> None:
        """Plan the publication of the stuck partitions. With `host.apply`, publish; see ReleaseTopics."""
        lacking = self._lacking().values()
        finished: list[RemoteLogSegmentMetadata] = []
        for each in lacking:
            finished += finished_of(host.location, each.stuck.partition)
        release = ReleaseTopics(
            self.cluster,
            self.metadata_topic,
            reader,
            lineage,
            PausedTopics(self.cluster, self._records, self.talk),
            list(self._freeings.values()),
            finished,
            self.broker_id,
            self.talk,
            host.location.words,
            attempts,
        )
        release.ask_settings()
        plans = release.plan(lacking) | _refused_unknown(tiered)
        uploads = {each.name: each for each in tiered.partitions}
        for name, freeing in self._freeings.items():
            upload = uploads.get(name)
            if upload is None:
                freeing.plan((), plans.get(name))
                continue
            if name_of(upload.partition) == freeing.stuck.partition:
                freeing.failure = _first_transient(upload.errors)
            planned: frozenset[int] = frozenset()
            if not host.apply:
                planned = upload.planned_offsets
            freeing.plan(upload.readiness, plans.get(name), planned)
        if host.apply:
            release.run(plans)


def _refused_unknown(tiered: HostOutcome) -> dict[TopicPartition, PublishPlan]:
    """Return a refused plan for each partition whose remote segments could not be listed."""
    refused = {}
    for each in tiered.partitions:
        if each.remote_error:
            refused[each.name] = PublishPlan(name_of(each.partition), refusal=each.remote_error)
    return refused


def _first_transient(errors: Iterable[TiersnapError]) -> TransientError | None:
    return next((each for each in errors if isinstance(each, TransientError)), None)
