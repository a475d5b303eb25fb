"""A folder that `tiersnap collect` filled, as a source of `tiersnap run`. It is read through pyarrow.fs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tiersnap.snapshot.collected.listing import Listing
from tiersnap.snapshot.collected.marker import LISTING, MARKER, Marker, batches_of
from tiersnap.snapshot.errors import CorruptDataError, NotALogDirError, SourceNotFoundError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.log.file_system import FileSystem, read_bounded
from tiersnap.snapshot.log.findings import Finding, FindingKind, unreadable
from tiersnap.snapshot.log.log_dir import Partition, split_folder_name
from tiersnap.snapshot.log.places import resolve
from tiersnap.snapshot.tables.decodes import SEGMENTS
from tiersnap.snapshot.tables.listed import ListedPartition
from tiersnap.snapshot.tables.spark_made_tables import RECORD_BATCHES


@dataclass(frozen=True, slots=True)
class CollectedSource:
    """A collected folder.

    Attributes:
        uri: URI or path from the command line. Rows of the tables have it as `log_dir`.
        path: path of the folder inside `filesystem`.
        marker: content of `collected.json` when the folder was opened.
    """

    uri: str
    filesystem: FileSystem
    path: str
    marker: Marker
    findings: tuple[Finding, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the names of the partition folders."""
        return self.marker.partitions

    @property
    def log_starts(self) -> Mapping[TopicPartition, int]:
        """Return an empty mapping, because each listing contains the log start of its partition."""
        return {}

    @property
    def properties(self) -> MetaProperties | None:
        """Return the meta.properties of the log directory, None if it had none."""
        return self.marker.properties

    @property
    def collected_from(self) -> str:
        """Return the log directory and its broker in words, for messages."""
        return self.marker.place

    @property
    def collected_log_dir(self) -> str:
        """Return the path of the log directory on the broker's host."""
        return self.marker.log_dir

    def listed(
        self, folder: str, topic_ids: Mapping[str, str], located: Callable[[Partition], Partition] = lambda each: each
    ) -> tuple[ListedPartition, Partition]:
        """Return a partition as a row and as a Partition.

        If its listing cannot be read, the partition has a finding and no segments.

        Args:
            topic_ids: topic ids by topic name. They are used for topics that have no id on disk.
            located: function that gives a partition the log start offset from --log-start or from its leader.
        """
        listing, finding = self._read(folder)
        if listing is None:
            partition = self._unread(folder, finding)
            return ListedPartition.of(self.uri, partition, self.marker.properties), partition
        found = listing.listed.on_disk(self.path)
        partition = located(replace(found, topic_id=found.topic_id or topic_ids.get(found.topic)))
        listed = ListedPartition.of(self.uri, partition, self.marker.properties)
        decodes = {each.base_offset: each.decode for each in listing.listed.segments}
        objects = {each.end_offset: each.object for each in listing.listed.snapshots}
        segments = (replace(each, decode=decodes[each.base_offset]) for each in listed.segments)
        snapshots = (replace(each, object=objects[each.end_offset]) for each in listed.snapshots)
        return replace(listed, segments=tuple(segments), snapshots=tuple(snapshots)), partition

    def _unread(self, folder: str, finding: Finding | None) -> Partition:
        """Return a partition without segments. Its only finding is the failure to read its listing."""
        topic, number = split_folder_name(folder) or ("", -1)
        findings = () if finding is None else (finding,)
        return Partition(f"{self.path}/{folder}", (), {}, topic=topic, partition=number, findings=findings)

    def batches(self, folder: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of RECORD_BATCHES of all segments of a partition.

        Raises:
            OSError: an object cannot be read.
            SourceNotFoundError: `collect` did not store the headers of some segment.
        """
        listing, _ = self._read(folder)
        segments = () if listing is None else listing.listed.segments
        for name, group in groupby(segments, key=lambda segment: segment.decode or ""):
            path = f"{self.path}/{folder}/{batches_of(name)}"
            bases = pa.array([segment.base_offset for segment in group], pa.int64())
            try:
                yield from self._batches(path, bases)
            except FileNotFoundError as error:
                raise SourceNotFoundError(
                    f"{path}: tiersnap collect wrote no batch headers",
                    hint="collect them: tiersnap collect LOGDIR --to URI --headers --apply",
                ) from error

    def _batches(self, path: str, bases: pa.Int64Array) -> Iterator[pa.RecordBatch]:
        with self.filesystem.open(path) as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            for batch in parquet.iter_batches(columns=RECORD_BATCHES.names):
                kept = batch.filter(pc.is_in(batch["segment_base_offset"], bases))
                log_dirs = pa.repeat(pa.scalar(self.uri, pa.string()), kept.num_rows)
                columns = [log_dirs, *(kept[name] for name in RECORD_BATCHES.names[1:])]
                yield pa.RecordBatch.from_arrays(columns, schema=RECORD_BATCHES)

    def _read(self, folder: str) -> tuple[Listing | None, Finding | None]:
        path = f"{self.path}/{folder}/{LISTING}"
        try:
            return Listing.decode(read_bounded(self.filesystem, path), name=path), None
        except OSError as error:
            return None, unreadable(path, error)
        except CorruptDataError as error:
            return None, Finding(FindingKind.UNREADABLE_FILE, path, -1, error.message)


def open_collected(uri: str) -> CollectedSource | None:
    """Return the collected folder at a URI or path, None if the folder has no `collected.json`.

    Raises:
        SourceNotFoundError: the folder cannot be read.
        UsageError: a newer tiersnap wrote `collected.json`.
        CorruptDataError: `collected.json` is damaged.
        NotALogDirError: no partition was collected yet.
    """
    filesystem, path = resolve(uri)
    path = path.rstrip("/")
    name = f"{path}/{MARKER}"
    try:
        data = read_bounded(filesystem, name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceNotFoundError(
            f"{uri}: {error.strerror or error}", hint="check that this user may read the folder"
        ) from error
    marker = Marker.decode(data, name=name)
    if not marker.partitions:
        raise NotALogDirError(
            f"{uri}: tiersnap collect has not written any partition of {marker.place} yet",
            hint="on the host of that log directory: tiersnap collect LOGDIR --to URI --apply",
        )
    return CollectedSource(uri, filesystem, path, marker)


def read_decodes(filesystem: FileSystem, path: str, bases: Collection[int]) -> Iterator[pa.RecordBatch]:
    """Yield the decodes of some segments as rows of SEGMENTS, in the order in which the object contains them.

    Args:
        path: path of the object inside `filesystem`.
        bases: base offsets of the wanted segments.

    Raises:
        OSError: the object cannot be read or is damaged.
    """
    wanted = pa.array(list(bases), pa.int64())
    with filesystem.open(path) as file:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        for batch in parquet.iter_batches(batch_size=64, columns=SEGMENTS.names):
            kept = batch.filter(pc.is_in(batch["base_offset"], wanted))
            if kept.num_rows:
                yield kept
