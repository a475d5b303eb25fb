"""Examine the partitions of one host, and upload their READY segments, without Spark.

The host stores no state. Remote segments and claims in remote storage show which segments are finished and which are
being uploaded. The Spark tasks of `tiersnap run` call the same functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.metadata.segment_metadata import name_of
from tiersnap.remote_storage.remote_log.known_manifests import KnownManifests
from tiersnap.remote_storage.remote_log.listing_ahead import ListingAhead
from tiersnap.remote_storage.remote_log.log_head import AskLogStart
from tiersnap.remote_storage.remote_log.lost_below import lost_error_of
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.retire.partition_leftovers import sweep_partition
from tiersnap.remote_storage.retire.store_leftovers import SweptStore, sweep_store
from tiersnap.remote_storage.stores.probe import check_conditions
from tiersnap.remote_storage.upload.bundle import PlannedSegment
from tiersnap.remote_storage.upload.stored_snapshots import KeptSnapshots, StoredSnapshots
from tiersnap.remote_storage.upload.tier_job import Tierer, TierJob
from tiersnap.remote_storage.upload.tier_partition import plan_segment, tier_partition
from tiersnap.remote_storage.upload.tier_plan import TierPlan
from tiersnap.remote_storage.upload.upload_again import damaged_uploads
from tiersnap.snapshot.errors import RecordedError, TiersnapError
from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers
from tiersnap.snapshot.exactly_once.simulate.lost_producers import lost_producers_of
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.gate.copy_task import NO_BROKERS, BesideBrokers, ClusterAnswer
from tiersnap.snapshot.gate.judge import Readiness
from tiersnap.snapshot.gate.judge_partition import Policy, SegmentReadiness, open_at
from tiersnap.snapshot.gate.next_steps import needs_upload
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import LogDir, Partition, read_properties
from tiersnap.snapshot.log.log_start import log_start_of
from tiersnap.snapshot.log.selection import NamedLogDir, matches_topic
from tiersnap.snapshot.replay.expiry import BrokerExpiry, ReplayOptions
from tiersnap.snapshot.replay.facts import PartitionFacts
from tiersnap.snapshot.replay.folds_ahead import FoldsAhead
from tiersnap.snapshot.replay.partition_listing import PartitionListing, RemoteLister
from tiersnap.snapshot.replay.partition_state import SnapshotAt
from tiersnap.snapshot.replay.remote_listing import CopyEvent, Encryption, LocationCheck, RemoteListing
from tiersnap.snapshot.replay.remote_records import Records
from tiersnap.snapshot.replay.replay_listing import ListingReplay, Replayed, error_at
from tiersnap.snapshot.replay.segment_runs import LocalDecodes

RefusalOf = Callable[[PartitionListing], TiersnapError | None]
"""Returns the error that forbids the upload of a partition's segments, or None."""


def _refuse_none(_: PartitionListing) -> None:
    """Return None, because a run without a cluster refuses no partition."""


@dataclass
class HostPartition:
    """The findings and the results of one partition."""

    log_dir: str  # as the user wrote it
    partition: Partition
    facts: PartitionFacts
    segments: list[SegmentReadiness]  # with the current verdicts; ascending
    events: list[CopyEvent] = field(default_factory=list)  # events of copy attempts, in order
    findings: tuple[Finding, ...] = ()  # damaged and unreadable files
    errors: list[TiersnapError] = field(default_factory=list)
    remote_error: TiersnapError | None = None  # the failed listing of remote storage; then nothing is uploaded
    lost_error: TiersnapError | None = None  # the error that names lost offsets; also in `errors`
    snapshots_written: int = 0  # number of objects
    snapshots_mended: int = 0  # number of written snapshots that replaced a damaged object
    leftover_count: int = 0  # number of leftovers of ended copy attempts
    leftovers_removed: int = 0  # number of deleted leftover objects
    encryption: Encryption | None = None  # of the remote segments; None if they were not listed
    lost_producers: LostProducers | None = None  # producers that the replica lost; None without any or without a search
    refusal: TiersnapError | None = None  # why the cluster cannot take the segments; then nothing is uploaded
    planned: list[SegmentReadiness] = field(default_factory=list)  # in a plan: the segments with verdicts after --apply
    snapshots_planned: int = 0  # in a plan: number of snapshot objects that --apply would write

    @property
    def name(self) -> TopicPartition:
        """Return topic name and partition number."""
        return self.partition.topic, self.partition.partition

    def refuse(self, refusal: TiersnapError) -> None:
        """Set the refusal and drop the plan. If segments wait for an upload, add the refusal to `errors`."""
        self.refusal, self.planned = refusal, []
        if self.is_refused:
            self.errors.append(refusal)

    @property
    def planned_offsets(self) -> frozenset[int]:
        """Return the base offsets of the segments that --apply would upload."""
        return frozenset(each.facts.base_offset for each in self.planned if each.is_ready)

    @property
    def plan(self) -> TierPlan:
        """Return what --apply would write; empty if this run had --apply."""
        ready = [each.facts.size_bytes for each in self.planned if each.is_ready]
        return TierPlan.of(ready, self.snapshots_planned)

    @property
    def readiness(self) -> list[Readiness]:
        """Return the current readiness of each segment."""
        return [each.readiness for each in self.segments]

    @property
    def is_to_tier(self) -> bool:
        """Return whether there is something to tier, or copy attempts were made.

        There is something to tier if a segment is READY, or would be READY with a snapshot or with --allow-plaintext.
        """
        wanted = (Verdict.READY, Verdict.ENCRYPTED_REMOTE, Verdict.MISSING_SNAPSHOT)
        return bool(self.events) or any(self.verdicts[each] for each in wanted)

    @property
    def is_refused(self) -> bool:
        """Return whether the cluster refuses the partition, and the partition has segments that need an upload."""
        return self.refusal is not None and (self.is_to_tier or any(map(needs_upload, self.verdicts)))

    @property
    def verdicts_to_clear(self) -> Counter[Verdict]:
        """Return the number of segments by verdict.

        If the cluster refuses the partition, omit verdicts that an upload or `publish` would clear.
        """
        found = self.verdicts
        if self.is_refused:
            for verdict in [each for each in found if needs_upload(each) or each is Verdict.UPLOADED]:
                del found[verdict]
        return found

    @property
    def awaits_records(self) -> bool:
        """Return whether UPLOADED segments may lack records. False if `errors` has the refusal of the partition."""
        if self.is_refused:
            return False
        return bool(self.verdicts[Verdict.UPLOADED])

    def note_published(self, next_offset: int) -> None:
        """Set the verdict TIERED for published segments, which end at or below `next_offset` (exclusive)."""
        for number, each in enumerate(self.segments):
            end = each.facts.next_base_offset
            if (
                each.readiness.verdict in (Verdict.UPLOADED, Verdict.IN_REMOTE)
                and end is not None
                and end <= next_offset
            ):
                self.segments[number] = each.as_published()

    @property
    def verdicts(self) -> Counter[Verdict]:
        """Return the number of segments by verdict."""
        return Counter(each.readiness.verdict for each in self.segments)


@dataclass(frozen=True)
class HostTier:
    """Tiers the partitions of one host's log directories."""

    location: RemoteLocation
    options: ReplayOptions
    tierer: Tierer
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # topic ids by name, if partition.metadata lacks them
    check_crc: bool = True
    allow_plaintext: bool = False  # upload even if the plugin encrypted other segments
    beside: BesideBrokers = NO_BROKERS  # detects segments that a broker is going to copy
    records: Records | None = None  # from `__remote_log_metadata`; None if they were not read
    # ids of complete segments that differ from the log: they count as missing, and are not deleted
    wrong: frozenset[str] = frozenset()
    of_brokers: frozenset[str] | None = None  # ids of the brokers' segments that count; None if all count
    log_start_of_now: AskLogStart | None = None  # see Observe.ask_log_start
    finds_lost_producers: bool = False  # search for producers that the replica lost
    refusal_of: RefusalOf = _refuse_none
    apply: bool = False  # write to remote storage; False only plans
    _kept: KeptSnapshots = field(default_factory=KeptSnapshots)
    _doubt: LocationCheck = field(default_factory=LocationCheck)

    def with_answer(self, answer: ClusterAnswer, left_for: int | None) -> HostTier:
        """Return a copy with the cluster's records and copy tasks; for `left_for` see BesideBrokers."""
        beside = BesideBrokers(left_for=left_for, tasks=answer.tasks)
        return replace(self, beside=beside, records=answer.records)

    def uploading_again(self, ids: Collection[str], found: Iterable[tuple[NamedLogDir, Partition]]) -> HostTier:
        """Return a copy that uploads the damaged segments among `ids` again; see damaged_uploads."""
        if not ids:
            return self
        partitions = ((named.log_dir.filesystem, self._with_topic_id(each)) for named, each in found)
        damaged = damaged_uploads(self.location, ids, partitions, self._expiry)
        return replace(self, wrong=self.wrong | damaged)

    def prepare_store(self, topic: re.Pattern[str] | None) -> SweptStore:
        """Check that the store supports conditional writes, and delete leftovers. Without `apply` do nothing.

        A missing bucket or permission is reported here, before the replay.

        Args:
            topic: matches the names of topics to tier; None for all.

        Raises:
            ConditionsIgnoredError: the store ignores the conditions of conditional writes.
        """
        if not self.apply:
            return SweptStore()
        check_conditions(self.location.store)
        return sweep_store(self.location.store, lambda name: matches_topic(name, topic))

    def partitions(self, found: Iterable[tuple[NamedLogDir, Partition]]) -> Iterator[HostPartition]:
        """Tier the partitions one by one, and yield the result of each.

        If a request gets no answer, no request is made for later partitions.
        """
        refuses_plaintext, wrong = not self.allow_plaintext, self.wrong
        observe = Observe(
            self.location,
            refuses_plaintext,
            self.records,
            untrusted=wrong,
            wrong=wrong,
            of_brokers=self.of_brokers,
            ask_log_start=self.log_start_of_now,
            ahead=ListingAhead(),
        )
        lister = RemoteLister(observe, wants_start=True)
        task = ListingReplay(self.options, self._sink(), run=1, now=self.tierer.now, look=observe)
        cluster_ids: dict[str, str | None] = {}
        for named, each in found:
            log_dir = named.log_dir
            if named.source not in cluster_ids:
                cluster_ids[named.source] = _cluster_id(log_dir)
            partition = self._with_topic_id(each)
            listing = lister.with_remote(PartitionListing(log_dir.filesystem, partition, cluster_ids[named.source]))
            if listing.is_remote_known:
                self._doubt.take(partition, listing.remote)
            refusal = self.refusal_of(listing)
            mine = task if listing.remote_error is None and refusal is None else replace(task, sink=None)
            done = self._tier(named.uri, listing, mine, observe.known(name_of(partition)))
            if refusal is not None:
                done.refuse(refusal)
            if self.finds_lost_producers and listing.is_remote_known:
                done.lost_producers = lost_producers_of(observe, log_dir.filesystem, partition, self._expiry)
            yield done

    def _with_topic_id(self, partition: Partition) -> Partition:
        return replace(partition, topic_id=partition.topic_id or self.topic_ids.get(partition.topic))

    def _sink(self) -> StoredSnapshots:
        kept = None
        if self.apply:
            kept = self._kept
        return StoredSnapshots(self.location.store, self.tierer.run_id, self.options.replace, self.apply, kept)

    @property
    def _expiry(self) -> BrokerExpiry:
        return self.options.broker_expiry(self.tierer.now)

    def place_errors(self) -> tuple[TiersnapError, ...]:
        """Return the reasons, from all listings so far, why brokers may read another remote location."""
        return self._doubt.errors(self.location.store.uri)

    def _tier(self, uri: str, listing: PartitionListing, task: ListingReplay, known: KnownManifests) -> HostPartition:
        self._kept.clear()
        with FoldsAhead(check_crc=self.check_crc) as folds:
            folds.expect(listing.filesystem, listing.partition)
            replayed = task.replay(listing, LocalDecodes(listing.filesystem, self.check_crc, folds))
        done = self._judged(uri, listing, replayed)
        is_writing = self.apply and task.sink is not None
        if is_writing and listing.remote.leftover_count:
            self._sweep(done, known)
        if is_writing and any(each.is_ready for each in done.segments):
            self._copy(done, listing, replayed.examination.reached, known)
        return done

    def _judged(self, uri: str, listing: PartitionListing, replayed: Replayed) -> HostPartition:
        found, remote, partition = replayed.examination, listing.remote, listing.partition
        policy = Policy(self.options.replace, self._expiry, beside=self._beside_now(remote), mends_indexes=True)
        coverage = remote.coverage(partition.leader_epochs, found.facts.log_end_offset)
        about = found.facts, partition.partition, found.segments
        judged = list(policy.judge(*about, found.reached, coverage))
        unwritten = {offset: replace(each, stored=None) for offset, each in found.reached.items()}
        segments = judged if self.apply else list(policy.judge(*about, unwritten, coverage))
        stored = [each.stored for each in found.reached.values() if each.stored is not None]
        errors = [RecordedError.of(each, error_at(partition, each)).raised for each in replayed.errors]
        remote_error: TiersnapError | None = None
        if listing.remote_error is not None:
            remote_error = listing.remote_error.raised
        lost_error = lost_error_of(self.location, partition, remote.lost)
        errors.extend(filter(None, [remote_error, lost_error]))
        written = sum(each.written_by is not None for each in stored)
        done = HostPartition(
            uri,
            partition,
            found.facts,
            segments,
            findings=found.findings,
            errors=errors,
            remote_error=remote_error,
            lost_error=lost_error,
            leftover_count=remote.leftover_count or 0,
            encryption=remote.encryption,
        )
        if self.apply:
            done.snapshots_written, done.snapshots_mended = written, sum(each.is_mended for each in stored)
        else:
            done.planned, done.snapshots_planned = judged, written
        return done

    def _beside_now(self, remote: RemoteListing) -> BesideBrokers:
        """Return `beside`. If brokers uploaded segments, add the store's current time, which costs a request."""
        is_asked = self.beside.left_for is not None and any(copy.is_brokers for copy in remote.copies)
        if not is_asked:
            return self.beside
        return replace(self.beside, store_now=self.location.store.now())

    def _sweep(self, done: HostPartition, known: KnownManifests) -> None:
        job = TierJob(self.location, name_of(done.partition), self.tierer, known)
        try:
            found = job.list_remote_partition(done.partition.first_base_offset)
            swept = sweep_partition(job.store, found, log_start=log_start_of(done.partition) or 0)
            done.leftovers_removed = swept.objects
            done.errors.extend(swept.doubts)
            swept.check()
        except TiersnapError as error:
            done.errors.append(error)

    def _copy(
        self, done: HostPartition, listing: PartitionListing, snapshots: Mapping[int, SnapshotAt], known: KnownManifests
    ) -> None:
        partition = done.partition
        by_base = {each.facts.base_offset: number for number, each in enumerate(done.segments)}
        for event in tier_partition(
            self.location,
            name_of(partition),
            list(self._planned(done, listing, snapshots)),
            self.tierer,
            cluster_id=listing.cluster_id,
            known=known,
            replaced=self.wrong,
            of_brokers=self.of_brokers,
        ):
            done.events.append(event)
            if event.error is not None:
                done.errors.append(event.error.raised)
            elif event.is_in_remote_storage:
                number = by_base[event.base_offset]
                judged = done.segments[number]
                done.segments[number] = judged.as_uploaded() if event.is_finished else judged.as_found()

    def _planned(
        self, done: HostPartition, listing: PartitionListing, snapshots: Mapping[int, SnapshotAt]
    ) -> Iterator[PlannedSegment]:
        """Yield the READY segments as arguments for `tier_partition`."""
        partition = done.partition
        for segment, judged in zip(partition.segments, done.segments, strict=True):
            if judged.is_ready:
                yield plan_segment(
                    listing.filesystem,
                    segment,
                    judged,
                    leader_epochs=partition.leader_epochs or (),
                    open_transactions=open_at(segment.base_offset, snapshots.get(segment.base_offset)),
                    kept=self._kept,
                )


def _cluster_id(log_dir: LogDir) -> str | None:
    properties = read_properties(log_dir.filesystem, log_dir.path)
    if properties is None:
        return None
    return properties.cluster_id
