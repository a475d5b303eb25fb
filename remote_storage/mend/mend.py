"""Mend the segments that brokers read: restore missing objects, replace wrong segments, and delete unread segments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import dirs_for_epochs, open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataReader, MetadataTopic
from tiersnap.remote_storage.cluster.missing_objects import (
    Missing,
    MissingSegment,
    ReadByBrokers,
    find_missing,
)
from tiersnap.remote_storage.errors import NotDeletedError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.make_again import MakeAgain, RemoteLogs
from tiersnap.remote_storage.mend.mend_plan import to_be_deleted, without_readers, wrong_and_read
from tiersnap.remote_storage.mend.put_back import PutBack, check_known
from tiersnap.remote_storage.mend.replace_wrong import DeleteUnread, ReplaceWrong, failed
from tiersnap.remote_storage.mend.segments_to_mend import Mending, plan_mending
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
    ids_of_metadata,
)
from tiersnap.remote_storage.publish.location_proof import PlaceProof
from tiersnap.remote_storage.remote_log.segment_objects import ids_of
from tiersnap.remote_storage.stores.probe import check_conditions
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.gate.remote_check import CheckDepth


@dataclass(frozen=True, slots=True)
class MendRequest:
    """The options of a run.

    Attributes:
        source: another location to which objects were uploaded by mistake; None if there is none.
        depth: depth of the verification; None to find only missing objects.
        log_dirs: log directories of leaders. tiersnap reads leader epochs there if this client cannot ask leaders.
        delete_bad: whether to delete wrong or redundant segments that brokers no longer read. Partitions with such
            segments are then verified with CheckDepth.FULL.
        allow_plaintext: whether to write plain text even beside segments that the plugin encrypted.
        apply: whether to write.
    """

    source: RemoteLocation | None = None
    depth: CheckDepth | None = None
    log_dirs: Sequence[str] = ()
    delete_bad: bool = False
    allow_plaintext: bool = False
    apply: bool = False


@dataclass(slots=True)
class Mended:
    """The result of a run.

    Attributes:
        missing: segments that lacked objects.
        wrong: number of wrong segments that lack no objects.
        unread: number of wrong segments that brokers no longer read, and that this run does not delete.
        done: segments that were mended, or would be.
        failures: errors that ended the work on a partition.
        proof: the proof that brokers read this location; None if there was nothing to mend.
    """

    missing: Missing
    wrong: int = 0
    unread: int = 0
    done: list[Mending] = field(default_factory=list)
    failures: list[TiersnapError] = field(default_factory=list)
    proof: PlaceProof | None = None


@dataclass(frozen=True)
class MendTier:
    """One run of `mend`.

    Attributes:
        known: the segments that brokers read.
        ask: returns the segments that brokers read now.
        prove: proves that brokers read the location of `request`. Called once before the first write, if anything must
            be written.
        watch: yields the given partitions unchanged, and reports progress.
    """

    cluster: Cluster
    metadata_topic: MetadataTopic
    reader: MetadataReader
    logs: RemoteLogs
    tierer: Tierer
    known: ReadByBrokers
    ask: Callable[[], ReadByBrokers]
    prove: Callable[[], PlaceProof]
    request: MendRequest
    watch: Callable[[Iterable[TopicIdPartition]], Iterable[TopicIdPartition]] = iter

    def run(self) -> Mended:
        """Mend or plan one partition after the other. A failure of one partition does not stop the others.

        If a server does not answer, the run stops after the present partition, and the next run continues.

        Raises:
            ConditionsIgnoredError: see check_conditions.
            WrongPlaceError, UnprovenPlaceError: brokers may read another location.
            TransientError: brokers do not answer, or the store does not list objects.
        """
        logs, known = self.logs, self.known.segments
        missing = find_missing(known, lambda: self.ask().segments, self.reader.cache.ours, logs.location)
        lacking: dict[TopicIdPartition, list[MissingSegment]] = {}
        for each in missing.segments:
            lacking.setdefault(each.metadata.id.topic_id_partition, []).append(each)
        mended = Mended(missing)
        for partition in self.watch(dict.fromkeys([*lacking, *known])):
            self._mend(partition, lacking.get(partition, []), mended)
            if any(isinstance(each, TransientError) for each in mended.failures):
                break
        return mended

    def _mend(self, partition: TopicIdPartition, lost: Sequence[MissingSegment], mended: Mended) -> None:
        """Mend one partition. If the partition cannot be verified, no segment is replaced or deleted."""
        bad = self._verified(partition, mended)
        done = [Mending(each, MendAction.NONE, MendOutcome.FAILED) for each in lost]
        if bad:
            mended.wrong += len(bad.keys() - ids_of(done))
        if lost or bad or self.request.delete_bad:
            self._prove(mended)
        try:
            if done:
                done = self._put_back(done)
            if bad is not None:
                done = self._replaced(partition, done, bad)
                if self.request.delete_bad:
                    done += self._deleted(partition, done)
                mended.unread += len(self._unread(partition, bad) - ids_of(done))
        except TiersnapError as error:
            mended.failures.append(error)
        mended.done += done

    def _verified(self, partition: TopicIdPartition, mended: Mended) -> dict[str, str] | None:
        """Return the reasons why segments are wrong, by segment id. None if the partition cannot be verified."""
        try:
            depth = self._depth(partition)
            if depth is None:
                return {}
            return self.logs.verify(partition, depth)
        except TiersnapError as error:
            mended.failures.append(error)
            return None

    def _prove(self, mended: Mended) -> None:
        """Prove once that brokers read this location.

        If the run writes, also check with a probe object whether the store supports conditional writes.
        """
        if mended.proof is None:
            mended.proof = self.prove()
            if self.request.apply:
                check_conditions(self.logs.store)

    def _depth(self, partition: TopicIdPartition) -> CheckDepth | None:
        index, asked = self.reader.cache.index(partition), self.request
        if asked.delete_bad and any(without_readers(index, self._deleting(partition))):
            return CheckDepth.FULL
        return asked.depth

    # Missing objects.

    def _put_back(self, lost: Sequence[Mending]) -> list[Mending]:
        """Mend the segments that lack objects.

        Sources: the log on this host, then --from, then the remaining remote objects.
        """
        asked, known = self.request, partial(check_known, self.reader.read_to_end)
        again = MakeAgain(self.logs, known, asked.allow_plaintext, asked.apply)
        if asked.source is None:
            return list(again.each(lost))
        done = self._by_local_log(again, lost)
        settled = ids_of(done)
        left = [each for each in lost if each.segment_id not in settled]
        done += again.each(self._from_elsewhere(asked.source, left))
        return sorted(done, key=lambda each: each.metadata.start_offset)

    def _by_local_log(self, again: MakeAgain, lost: Iterable[Mending]) -> list[Mending]:
        """Rebuild segments from the log on this host.

        Return the rebuilt segments. The list also has the segments that failed with a transient error.
        """
        by_log = again.each(each for each in lost if self.logs.is_local(each.metadata))
        return [each for each in by_log if each.error is None or isinstance(each.error, TransientError)]

    def _from_elsewhere(self, source: RemoteLocation, lost: Sequence[Mending]) -> list[Mending]:
        asked, missing = self.request, [each.missing for each in lost]
        planned = plan_mending(source, missing, self.logs.location, allow_plaintext=asked.allow_plaintext)
        return list(PutBack(source.store, self.logs, self.reader.read_to_end, asked.apply).each(planned))

    # Wrong segments.

    def _replaced(self, partition: TopicIdPartition, done: list[Mending], bad: Mapping[str, str]) -> list[Mending]:
        """Replace each segment that brokers read and that is wrong, or lacks objects that cannot be restored.

        If only a transient error prevented the restore of objects, the segment is left to the next run.
        """
        lost = _lost(done)
        wrong = (bad.keys() - ids_of(done)) | lost.keys()
        index, start = self.reader.cache.index(partition), self.logs.starts.get(partition, 0)
        left: list[Mending] = []
        for each in wrong_and_read(index, wrong, start):
            segment_id = each.id.segment_id
            mending = lost.get(segment_id) or self._named(each)
            left.append(replace(mending, problem=bad.get(segment_id, "")))
        if not left:
            return done
        ids = ids_of(left)
        others = [each for each in done if each.segment_id not in ids]
        return [*others, *self._replace(partition, left, ids | bad.keys())]

    def _replace(self, partition: TopicIdPartition, left: Sequence[Mending], wrong: Collection[str]) -> list[Mending]:
        with open_lineage(self.cluster, dirs_for_epochs(self.cluster, self.request.log_dirs)) as lineage:
            job = ReplaceWrong(
                self.cluster,
                self.metadata_topic,
                self.reader,
                lineage,
                self.logs,
                self.tierer,
                self.request.allow_plaintext,
                self.request.apply,
            )
            done = job.of_partition(partition, left, wrong)
        first = {each.segment_id: each.error for each in left}
        return [_with_first_error(each, first[each.segment_id]) for each in done]

    def _named(self, record: RemoteLogSegmentMetadata) -> Mending:
        missing = MissingSegment(record, record.id.segment_id in self.reader.cache.ours, ())
        return Mending(missing, MendAction.NONE, MendOutcome.FAILED)

    # Segments that brokers no longer read.

    def _deleting(self, partition: TopicIdPartition) -> Iterator[RemoteLogSegmentMetadata]:
        return self.reader.cache.in_state(partition, SegmentState.DELETE_SEGMENT_STARTED)

    def _unread(self, partition: TopicIdPartition, bad: Mapping[str, str]) -> frozenset[str]:
        """Return the ids of the segments in `bad` that `delete_bad` may delete."""
        if not bad:
            return frozenset()
        index = self.reader.read_to_end().index(partition)
        return ids_of_metadata(without_readers(index, self._deleting(partition))) & bad.keys()

    def _deleted(self, partition: TopicIdPartition, done: Sequence[Mending]) -> Iterator[Mending]:
        """Check all segments of the partition fully. Then delete the segments that brokers no longer read."""
        index = self.reader.read_to_end().index(partition)
        if not any(without_readers(index, self._deleting(partition))):
            return
        proof = self.logs.read_whole(partition)
        job = DeleteUnread(self.metadata_topic, self.reader, self.logs, proof)
        is_open = any(each.outcome is MendOutcome.PLANNED for each in done)
        for segment in to_be_deleted(index, self._deleting(partition), proof):
            planned = replace(self._named(segment), action=MendAction.DELETE, outcome=MendOutcome.PLANNED)
            try:
                if self.request.apply:
                    job.delete(segment)
                    planned = replace(planned, outcome=MendOutcome.MENDED)
                else:
                    job.check(index, segment)
                yield planned
            except NotDeletedError as error:
                if not is_open:  # otherwise --apply first mends the segment that brokers read
                    yield failed(planned, error)
            except TiersnapError as error:
                yield failed(planned, error)


def _lost(done: Iterable[Mending]) -> dict[str, Mending]:
    """Return the segments that could not be mended, by segment id, without those that failed with a transient error."""
    found = {}
    for each in done:
        is_transient = isinstance(each.error, TransientError)
        if each.outcome is MendOutcome.FAILED and not is_transient:
            found[each.segment_id] = each
    return found


def _with_first_error(mending: Mending, first: TiersnapError | None) -> Mending:
    """Return `mending`. If its replacement failed, the error becomes `first`, unless `first` is None.

    `first` is the reason why the missing objects could not be restored. It explains more than the replacement's error.
    """
    if mending.error is None or first is None:
        return mending
    return replace(mending, error=first)
