"""Rebuild missing objects of published segments, from a local log or from the remaining remote objects."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from tiersnap.remote_storage.errors import DeletedByClusterError, ObjectNotFoundError
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.mend.lacking_objects import plan_lacking, put_lacking
from tiersnap.remote_storage.mend.mend_rules import MendRules
from tiersnap.remote_storage.mend.right_segments import RightSegments
from tiersnap.remote_storage.mend.segments_to_mend import Mending, plaintext_refused
from tiersnap.remote_storage.mend.stored_files import not_mended, putting_back
from tiersnap.remote_storage.mend.stored_logs import StoredLogs
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.remote_log.encryption import EncryptionLook
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, newest, read_lineage, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import SegmentObjects, ids_of, segments_by_id
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.remote_storage.upload.send_objects import delete_in_reverse
from tiersnap.remote_storage.verify.compare_whole import find_problems
from tiersnap.remote_storage.verify.local_log import LocalLogs
from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.remote_storage.verify.read_whole import ReadWhole
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError, TransientError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest
from tiersnap.snapshot.replay.remote_listing import Encryption

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteLogs:
    """The remote segments of a location and the logs on this host, from which segments can be rebuilt.

    Attributes:
        local: logs on this host.
        starts: log start offsets by partition, from the cluster.
    """

    location: RemoteLocation
    rules: MendRules
    local: LocalLogs
    starts: Mapping[TopicIdPartition, int]

    @property
    def store(self) -> ObjectStore:
        """Return the store of the location."""
        return self.location.store

    def is_local(self, record: RemoteLogSegmentMetadata) -> bool:
        """Return whether a log on this host has the segment of a record, with the recorded offsets and size."""
        local = self.local.of(record.id.topic_id_partition)
        return local is not None and local.segment_of(record) is not None

    def verify(self, partition: TopicIdPartition, depth: CheckDepth) -> dict[str, str]:
        """Verify a partition. Return the reasons why segments are wrong, by segment id.

        Raises:
            TiersnapError: remote storage does not answer, or refuses a request.
        """
        checks = self._check(partition, depth).checks()
        return {each.segment_id: each.reason for each in checks if each.segment_id and not each.verdict.is_sound}

    def read_whole(self, partition: TopicIdPartition) -> ReadWhole:
        """Read all segments of a partition fully, check them, and return the result.

        Raises:
            TiersnapError: remote storage does not answer, or refuses a request.
        """
        return ReadWhole(self._check(partition, CheckDepth.FULL))

    def find_problems(self, partition: TopicIdPartition, ids: Collection[str]) -> dict[str, str]:
        """Read the segments `ids`, which are not published yet. Return the reasons why some are wrong, by segment id.

        Raises:
            TiersnapError: remote storage does not answer, or refuses a request.
        """
        return find_problems(self.location, partition, ids, self.local.compare_of(partition), self.rules.broker_expiry)

    def _check(self, partition: TopicIdPartition, depth: CheckDepth) -> PartitionCheck:
        asked = CheckRequest(depth, self.rules.now, self.rules.producer_expiration)
        compare = self.local.compare_of(partition)
        return PartitionCheck(self.location, partition, asked, compare_locally=compare, names_replaced=True)

    @contextmanager
    def right_segments(
        self, partition: TopicIdPartition, records: Iterable[RemoteLogSegmentMetadata], wrong: Collection[str] = ()
    ) -> Iterator[RightSegments]:
        """Yield the right content of segments of a partition. The end of the `with` block deletes temporary files.

        Args:
            records: the segments that the caller may ask for.
            wrong: ids of segments whose snapshots are not trusted.
        """
        listed = segments_by_id(self.location, partition)
        local = self.local.of(partition)
        found = self._complete(listed.values())
        lineage = lineage_of(self.store, (each for each in found if each.segment_id not in wrong))
        if not lineage and local is not None:
            lineage = local.partition.whole_epochs
        with tempfile.TemporaryDirectory(prefix="tiersnap-") as folder:
            yield RightSegments(
                self.location,
                partition,
                listed,
                lineage,
                self.starts.get(partition, 0),
                self.rules,
                frozenset(wrong),
                frozenset(each.end_offset + 1 for each in records),
                StoredLogs(self.store, found, frozenset(wrong), _others(listed, found)),
                local,
                Path(folder),
            )

    def _complete(self, listed: Iterable[SegmentObjects]) -> list[RemoteSegment]:
        """Return the complete segments among `listed`."""
        have_all = [each for each in listed if not each.missing]
        found = in_parallel(partial(read_segment, self.store), have_all)
        return [each for each in found if isinstance(each, RemoteSegment)]


def _others(listed: Mapping[str, SegmentObjects], complete: Iterable[RemoteSegment]) -> list[SegmentObjects]:
    ids = ids_of(complete)
    return [each for segment_id, each in listed.items() if segment_id not in ids]


def lineage_of(store: ObjectStore, copies: Iterable[RemoteSegment]) -> LeaderEpochs:
    """Return the leader epochs of the newest segment whose epochs can be read. Empty if there is none."""
    left = list(copies)
    while left:
        copy = newest(left)
        try:
            return read_lineage(store, copy)
        except (CorruptDataError, ObjectNotFoundError):
            left.remove(copy)
    return ()


@dataclass(frozen=True)
class MakeAgain:
    """Rebuilds missing objects, or only plans to.

    Attributes:
        check_known: raises DeletedByClusterError if brokers no longer know a segment.
        apply: whether to write. If not, the objects are only rebuilt, to check that this is possible.
    """

    logs: RemoteLogs
    check_known: Callable[[RemoteLogSegmentMetadata], None]
    allow_plaintext: bool
    apply: bool

    def each(self, missing: Iterable[Mending]) -> Iterator[Mending]:
        """Mend, partition by partition, the segments that --from did not restore. Continue after a failure."""
        for partition, group in groupby(missing, key=lambda each: each.metadata.id.topic_id_partition):
            of_one = sorted(group, key=lambda each: each.metadata.start_offset)
            if any(_is_left(each) for each in of_one):
                of_one = self._of_partition(partition, of_one)
            yield from of_one

    def _of_partition(self, partition: TopicIdPartition, of_one: list[Mending]) -> list[Mending]:
        try:
            with self.logs.right_segments(partition, [each.metadata for each in of_one]) as right:
                return [self._mended(each, right) for each in of_one]
        except TiersnapError as error:
            return [_not_reached(each, error) for each in of_one]

    def _mended(self, mending: Mending, right: RightSegments) -> Mending:
        if not _is_left(mending):
            return mending
        record, made = mending.metadata, list[str]()
        store, location = self.logs.store, self.logs.location
        planned = replace(mending, action=MendAction.REBUILD, outcome=MendOutcome.PLANNED, error=None)
        there = right.listed.get(record.id.segment_id)
        try:
            if there is None or KeyKind.RSM_MANIFEST not in there.objects:
                encryption = check_plaintext(location, record, allowed=self.allow_plaintext)
                planned = replace(planned, encryption=encryption)
            with right.of(record, prefers_local=False) as segment:
                lacking = plan_lacking(location, record, there, segment.bundle(store))
                if not self.apply:
                    return planned
                self.check_known(record)
                with putting_back(location, record):
                    put_lacking(location, lacking, lambda: self.check_known(record), made)
                self.check_known(record)
        except DeletedByClusterError:
            delete_in_reverse(store, made)
            return replace(planned, outcome=MendOutcome.DELETED)
        except TiersnapError as error:
            first = _first(mending, error)
            why = first
            if first is not error:
                why = _both(record, first, error)
            return replace(mending, action=MendAction.NONE, outcome=MendOutcome.FAILED, error=why)
        _log.info("made %d objects again: %s at offset %d", len(made), record.id, record.start_offset)
        return replace(planned, outcome=MendOutcome.MENDED)


def check_plaintext(location: RemoteLocation, record: RemoteLogSegmentMetadata, *, allowed: bool) -> Encryption | None:
    """Refuse plain text beside encrypted segments.

    If plain text is `allowed`, or the layout is LocalTieredStorage's, check nothing and return None. Otherwise return
    UNKNOWN if no manifest shows whether the plugin encrypts, and None if a manifest shows that it does not.

    Raises:
        PlaintextRefusedError: a manifest shows that the plugin encrypts, and plain text is not `allowed`.
    """
    if allowed or location.is_local:
        return None
    shown = EncryptionLook(location.store).of_partition(record.id.topic_id_partition)
    if shown.manifest:
        raise plaintext_refused(record, shown.manifest)
    if shown.encryption is Encryption.UNKNOWN:
        return Encryption.UNKNOWN
    return None


def _is_left(mending: Mending) -> bool:
    """Return whether a segment must still be rebuilt.

    Return True if the segment has no error yet, or if its only error is that --from lacks an undamaged segment.
    """
    is_refused = mending.error is not None and not isinstance(mending.error, CorruptDataError)
    return mending.action is MendAction.NONE and not is_refused


def _not_reached(mending: Mending, error: TiersnapError) -> Mending:
    """Return a segment. If it was not rebuilt yet, add the error that ended the work on its partition."""
    if not _is_left(mending):
        return mending
    return replace(mending, error=_first(mending, error))


def _first(mending: Mending, error: TiersnapError) -> TiersnapError:
    """Return the error to report: `error` if it is transient, otherwise the earlier error about --from.

    Without an earlier error, return `error`.
    """
    if isinstance(error, TransientError):
        return error
    return mending.error or error


def _both(record: RemoteLogSegmentMetadata, first: TiersnapError, second: TiersnapError) -> TiersnapError:
    """Return one error for a segment that --from lacks (`first`) and that cannot be rebuilt either (`second`)."""
    return CorruptDataError(f"{first.message}; {second.message.removeprefix(not_mended(record))}", hint=first.hint)
