"""Missing objects of segments that brokers know, made again from a local log or from the tier's other objects."""

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
from tiersnap.remote_storage.mend.right_segments import MendRules, RightSegments
from tiersnap.remote_storage.mend.segments_to_mend import Mending, plaintext_refused
from tiersnap.remote_storage.mend.stored_files import not_mended, putting_back
from tiersnap.remote_storage.mend.stored_logs import StoredLogs
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tiersnap.remote_storage.remote_log.encryption import EncryptionLook
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, newest, read_lineage, read_segment
from tiersnap.remote_storage.remote_log.segment_objects import segments_by_id
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.remote_storage.upload.uploader import delete_in_reverse
from tiersnap.remote_storage.verify.compare_whole import find_doubts
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
    """Sources of the right content of segments of several partitions.

    Attributes:
        local: logs on this host.
        starts: log start offsets, by the cluster.
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
        """Return whether a log on this host has a segment with the offsets and as many bytes as a record says."""
        local = self.local.of(record.id.topic_id_partition)
        return local is not None and local.segment_of(record) is not None

    def verify(self, partition: TopicIdPartition, depth: CheckDepth) -> dict[str, str]:
        """Verify a partition; return why segments are wrong, by their ids.

        Raises:
            TiersnapError: remote storage does not answer, or refuses.
        """
        checks = (each for each in self._check(partition, depth).checks() if each.segment_id)
        return {each.segment_id: each.reason for each in checks if not each.verdict.is_sound}

    def read_whole(self, partition: TopicIdPartition) -> ReadWhole:
        """Read all segments of a partition, and compare them.

        Raises:
            TiersnapError: remote storage does not answer, or refuses.
        """
        return ReadWhole(self._check(partition, CheckDepth.FULL))

    def find_doubts(self, partition: TopicIdPartition, ids: Collection[str]) -> dict[str, str]:
        """Read segments before brokers are told of them; return why some of them may not become visible.

        Raises:
            TiersnapError: remote storage does not answer, or refuses.
        """
        local = self.local.of(partition)
        return find_doubts(
            self.location, partition, ids, None if local is None else local.compare, self.rules.broker_expiry
        )

    def _check(self, partition: TopicIdPartition, depth: CheckDepth) -> PartitionCheck:
        local, rules = self.local.of(partition), self.rules
        asked = CheckRequest(depth, rules.now, rules.producer_expiration)
        compare = None if local is None else local.compare
        return PartitionCheck(self.location, partition, asked, compare_locally=compare, names_replaced=True)

    @contextmanager
    def right_segments(
        self, partition: TopicIdPartition, records: Iterable[RemoteLogSegmentMetadata], wrong: Collection[str] = ()
    ) -> Iterator[RightSegments]:
        """Give the right content of segments of a partition; files go with the context.

        Args:
            records: of those that may be asked for.
            wrong: ids of segments whose snapshots are not believed.
        """
        listed = segments_by_id(self.location, partition)
        local = self.local.of(partition)
        whole = [each for each in listed.values() if not each.missing]
        read = in_parallel(partial(read_segment, self.store), whole)
        found = [each for each in read if isinstance(each, RemoteSegment)]
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
                StoredLogs(self.store, found, frozenset(wrong)),
                local,
                Path(folder),
            )


def lineage_of(store: ObjectStore, copies: Iterable[RemoteSegment]) -> LeaderEpochs:
    """Return the leader epochs of the newest segment that tells them; empty if none does."""
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
    """Makes missing objects again, or plans it.

    Attributes:
        check_known: raises DeletedByClusterError if brokers do not know a segment any more.
        apply: write; without it segments are made to see that they can be, and nothing is kept.
    """

    logs: RemoteLogs
    check_known: Callable[[RemoteLogSegmentMetadata], None]
    allow_plaintext: bool
    apply: bool

    def each(self, missing: Iterable[Mending]) -> Iterator[Mending]:
        """Mend those that were not found elsewhere, partition by partition; what fails keeps no other from it."""
        for partition, group in groupby(missing, key=lambda each: each.metadata.id.topic_id_partition):
            of_one = sorted(group, key=lambda each: each.metadata.start_offset)
            if not any(_is_left(each) for each in of_one):
                yield from of_one
                continue
            try:
                with self.logs.right_segments(partition, [each.metadata for each in of_one]) as right:
                    done = [self._mended(each, right) if _is_left(each) else each for each in of_one]
            except TiersnapError as error:
                done = [replace(each, error=_first(each, error)) if _is_left(each) else each for each in of_one]
            yield from done

    def _mended(self, mending: Mending, right: RightSegments) -> Mending:
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
            why = error if first is error else _both(record, first, error)
            return replace(mending, action=MendAction.NONE, outcome=MendOutcome.FAILED, error=why)
        _log.info("made objects again: %s at offset %d: %d", record.id, record.start_offset, len(made))
        return replace(planned, outcome=MendOutcome.MENDED)


def check_plaintext(location: RemoteLocation, record: RemoteLogSegmentMetadata, *, allowed: bool) -> Encryption | None:
    """See that plain text may go where a segment lies; UNKNOWN if no manifest shows it.

    Raises:
        PlaintextRefusedError: a manifest shows that the plugin encrypts there, and plain text is not `allowed`.
    """
    if allowed or location.is_local:
        return None
    shown = EncryptionLook(location.store).of_partition(record.id.topic_id_partition)
    if shown.manifest:
        raise plaintext_refused(record, shown.manifest)
    return Encryption.UNKNOWN if shown.encryption is Encryption.UNKNOWN else None


def _is_left(mending: Mending) -> bool:
    """Return whether a segment was looked for nowhere yet, or not found in --from."""
    is_refused = mending.error is not None and not isinstance(mending.error, CorruptDataError)
    return mending.action is MendAction.NONE and not is_refused


def _first(mending: Mending, error: TiersnapError) -> TiersnapError:
    """Return why a segment did not come from --from, else `error`; and that, if the next run may not meet it."""
    return error if mending.error is None or isinstance(error, TransientError) else mending.error


def _both(record: RemoteLogSegmentMetadata, first: TiersnapError, second: TiersnapError) -> TiersnapError:
    """Return the error that a segment is neither in --from, nor can be made again."""
    return CorruptDataError(f"{first.message}; {second.message.removeprefix(not_mended(record))}", hint=first.hint)
