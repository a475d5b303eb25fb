"""Collect a log directory partition by partition. Each partition gets a listing, which names its collected objects.

A listing is written only after all objects that it names exist. So a collection may be killed at any time. The next
collection ships the segments that the partition's listing lacks. If a killed collection left objects that no listing
names, a later collection deletes them after a day. A segment whose file does not change is read and shipped only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from msgspec import structs

from tiersnap.remote_storage.collect.collect_plan import GRACE_MS, CollectPlan, plan_partition
from tiersnap.remote_storage.collect.folder import CollectedFolder, Read
from tiersnap.remote_storage.collect.parts import DecodePart
from tiersnap.remote_storage.errors import ObjectChangedError
from tiersnap.remote_storage.upload.snapshot_source import SourceFile
from tiersnap.snapshot.collected.listing import Listing
from tiersnap.snapshot.collected.marker import Marker, Part, new_name
from tiersnap.snapshot.errors import CorruptDataError, TiersnapError, TransientError, UnfinishedError
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.gate.exit_code import Problem
from tiersnap.snapshot.log.findings import DELETED, NOT_READ, Finding, FindingKind
from tiersnap.snapshot.log.log_dir import FileRef, LogDir, Partition, Segment
from tiersnap.snapshot.log.segment_walk import SegmentEnd
from tiersnap.snapshot.regular_file import SMALL_FILE_BYTES
from tiersnap.snapshot.replay.partition_replay import cut_offsets
from tiersnap.snapshot.replay.segment_runs import fold_segment
from tiersnap.snapshot.tables.decodes import SegmentFile
from tiersnap.snapshot.units import count_of

# Attempts at a partition, because retention and rolls may change it during the read.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Collected:
    """The outcome of one partition.

    Attributes:
        plan: None if planning failed, or if the partition folder vanished during the collection.
        error: the reason why the partition was not collected, or only partly. None after a complete collection, and if
            the folder vanished.
    """

    folder: str
    plan: CollectPlan | None = None
    error: TiersnapError | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """One run of `tiersnap collect`.

    Attributes:
        uri: value of the column `log_dir` in all rows that are collected.
        with_batches: whether batch headers are shipped, too.
        now: time of the run in epoch ms; the clock is not read again.
        apply: whether objects are written; if not, only plan.
    """

    to: CollectedFolder
    uri: str
    log_dir: LogDir
    properties: MetaProperties | None
    with_batches: bool
    now: int
    apply: bool

    def partitions(self, selected: list[str]) -> Iterator[Collected]:
        """Collect the partition folders `selected`, one after another. If one fails, its `Collected` has the error.

        Raises:
            UsageError: another log directory was collected into this folder.
            TransientError: another collection writes to this folder now.
        """
        marker = self.to.marker_of(Marker.of(self.uri, self.properties))
        if self.apply:
            marker = self._announce(marker, selected)
        complete: set[str] = set()
        away: TiersnapError | None = None
        for folder in selected:
            if away is not None:
                yield Collected(
                    folder,
                    error=TransientError(f"not collected, because of an earlier error: {away.message}", hint=away.hint),
                )
                continue
            done = self._partition(folder)
            if done.error is None:
                complete.update({folder} if done.plan is not None else ())
            elif isinstance(done.error, TransientError) and not isinstance(done.error, _OF_ONE_PARTITION):
                # Stop, because every further partition would wait for the time-out of the store.
                away = done.error
            yield done
        if self.apply and away is None:
            self._finish(marker, complete)

    def _announce(self, before: Read[Marker], selected: list[str]) -> Read[Marker]:
        """Add the selected folders to `collected.json` before any object is written.

        If this run is killed, a later run finds the objects by these folder names.
        """
        marker = before.value or Marker.of(self.uri, self.properties)
        new = set(selected).difference(marker.partitions, marker.absent)
        if before.value is not None and not new:
            return before
        announced = structs.replace(marker, absent={**marker.absent, **dict.fromkeys(new, self.now)})
        return self.to.put_marker(announced, before)

    def _finish(self, before: Read[Marker], complete: set[str]) -> None:
        """Write the collected partitions to `collected.json`.

        Delete the collected objects of partitions that left the disk at least a day ago.
        """
        assert before.value is not None
        marker = before.value
        partitions = set(self.log_dir.folders).intersection(marker.partitions) | complete
        absent = self._without_deleted(self._absent(marker, partitions))
        after = structs.replace(marker, partitions=tuple(sorted(partitions)), absent=absent)
        if after != marker:
            self.to.put_marker(after, before)

    def _absent(self, marker: Marker, partitions: set[str]) -> dict[str, int]:
        """Return the folders of `marker` that left the disk or have no complete listing.

        The values are the times (epoch ms) at which a collection first added the folder to `Marker.absent`.
        """
        absent = {folder: since for folder, since in marker.absent.items() if folder not in partitions}
        return absent | dict.fromkeys(sorted(set(marker.partitions).difference(self.log_dir.folders)), self.now)

    def _without_deleted(self, absent: dict[str, int]) -> dict[str, int]:
        """Delete the collected objects of folders that left the disk at least a day ago.

        Return the remaining entries of `absent`.
        """
        on_disk, left = set(self.log_dir.folders), {}
        for folder, since in absent.items():
            is_due = folder not in on_disk and since + GRACE_MS <= self.now
            if not (is_due and self.to.delete_partition(folder)):
                left[folder] = since
        return left

    def _partition(self, folder: str) -> Collected:
        done = Collected(folder)
        for _ in range(_ATTEMPTS):
            try:
                before = self.to.listing(folder)
                plan = self._plan(folder, before.value)
                done = Collected(folder, plan)
                if self.apply and plan.is_changed:
                    self._ship(folder, plan, before)
            except TiersnapError as error:
                if self.log_dir.filesystem.is_gone(f"{self.log_dir.path}/{folder}"):
                    return Collected(folder)  # the topic was deleted, or the partition moved to another disk
                done = replace(done, error=error)
                if isinstance(error, _MovedError):
                    continue
            return done
        return done

    def _plan(self, folder: str, before: Listing | None) -> CollectPlan:
        partition = self.log_dir.partition(folder)
        _check_findings(partition.path, partition)
        return plan_partition(
            self.uri,
            partition,
            before,
            properties=self.properties,
            with_batches=self.with_batches,
            now=self.now,
        )

    def _ship(self, folder: str, plan: CollectPlan, before: Read[Listing]) -> None:
        for part in self._decoded(plan):
            for name, data in part.objects().items():
                self.to.put_part(folder, name, data)
            plan = replace(plan, decodes={**plan.decodes, **part.decodes})
            if part.is_full:
                before = self.to.put_listing(folder, plan.progress, before)
        snapshots = dict(plan.snapshots)
        for offset, file in plan.snapshot_files.items():
            snapshots[offset] = new_name(offset, Part.SNAPSHOT)
            self.to.put_part(folder, snapshots[offset], self._snapshot(file))
        listing = replace(plan, snapshots=snapshots).listing
        others = self.to.parts(folder) - listing.objects
        due: set[str] = set()
        left: dict[str, int] = {}
        for name in others:
            since = listing.superseded.get(name, self.now)
            if since + GRACE_MS <= self.now:
                due.add(name)
            else:
                left[name] = since
        self.to.put_listing(folder, replace(listing, superseded=left), before)
        self.to.delete_parts(folder, due)

    def _decoded(self, plan: CollectPlan) -> Iterator[DecodePart]:
        """Yield the decoded segments to ship. Neighbouring segments share an object; the active segment has its own."""
        part: DecodePart | None = None
        files = plan.files()
        for segment in plan.segments:
            if part is not None and (part.is_full or segment.is_active):
                yield part
                part = None
            part = part or DecodePart(segment.base_offset, with_batches=self.with_batches)
            self._decode(plan.partition, segment, files[segment.base_offset], part)
        if part is not None:
            yield part

    def _decode(self, partition: Partition, segment: Segment, file: SegmentFile, part: DecodePart) -> None:
        on_rows = None
        if self.with_batches:
            on_rows = partial(part.add_batches, file=file)
        runs, end = fold_segment(self.log_dir.filesystem, segment, cuts=cut_offsets(partition), on_rows=on_rows)
        self._check_read(segment, end)
        part.add(file, end, runs)

    def _check_read(self, segment: Segment, end: SegmentEnd) -> None:
        finding = end.finding
        if finding is not None and finding.finding_kind in NOT_READ:
            if self.log_dir.filesystem.is_gone(segment.log.path):
                raise _MovedError(f"{segment.log.path}: {DELETED}", hint="run the same command again")
            raise _unread(segment.log.path, finding.finding_kind, finding.message)

    def _snapshot(self, file: FileRef) -> bytes:
        if file.size > SMALL_FILE_BYTES:
            raise UnfinishedError(
                f"{file.path}: {count_of(file.size, 'byte')}, more than a snapshot may have",
                hint="check whether the file is a producer snapshot",
            )
        try:
            return SourceFile(self.log_dir.filesystem, file.path, file.size).read()
        except TransientError as error:
            raise _MovedError(error.message, hint=error.hint) from error


class _UnreadError(TransientError):
    """Raised when a file of the log directory cannot be read now."""


class _MovedError(_UnreadError):
    """Raised when a file changed after its partition was listed. The partition is listed again."""


# Transient errors that are not failures of the store.
_OF_ONE_PARTITION = (_UnreadError, ObjectChangedError)


def _check_findings(path: str, partition: Partition) -> None:
    """Refuse a partition if its folder `path` or one of its segment files cannot be read."""
    logs = {segment.log.path for segment in partition.segments}
    for finding in partition.findings:
        if finding.finding_kind is FindingKind.PERMISSION_DENIED or finding.path == path:
            raise _unread(finding.path, finding.finding_kind, finding.message)
        # A retry would not help, and without the segment the collected log would have a hole.
        if finding.finding_kind is FindingKind.UNREADABLE_FILE and finding.path in logs:
            raise CorruptDataError(f"{finding.path}: {finding.message}", hint="replace the file by a regular one")


def _unread(path: str, kind: FindingKind, message: str) -> TiersnapError:
    if kind is FindingKind.PERMISSION_DENIED:
        return UnfinishedError(f"{path}: {message}", hint="run the command as the user that runs the broker")
    return _UnreadError(
        f"{path}: {message}", hint="run the same command again; to check the file on this host: tiersnap scan LOGDIR"
    )


@dataclass
class CollectTotals:
    """Totals over all partitions.

    Attributes:
        changed: number of partitions with something to ship.
        segments: number of segments that were decoded or will be decoded.
        bytes: total size of the decoded segments.
        snapshots: number of snapshot files that were shipped or will be shipped.
        errors: errors of the partitions that were not collected.
        findings: findings about log directories and folders, but not about the content of segments.
    """

    changed: int = 0
    segments: int = 0
    bytes: int = 0
    snapshots: int = 0
    errors: list[TiersnapError] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, done: Collected) -> None:
        """Add the counts of a partition."""
        if done.error is not None:
            self.errors.append(done.error)
        elif done.plan is not None:
            self.findings += done.plan.partition.findings
            self.changed += done.plan.is_changed
            self.segments += len(done.plan.segments)
            self.bytes += done.plan.bytes_to_read
            self.snapshots += len(done.plan.snapshot_files)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that determine the exit code."""
        yield from self.findings
        yield from self.errors
