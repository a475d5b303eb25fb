"""`listing.parquet`: one row that lists the files of a collected partition, and the objects made from them.

`listed` contains the partition's files, with an object name for each segment and snapshot. The object of a segment
contains the decoded segment. The object of a snapshot contains the bytes of the snapshot file. `decodes` describes the
decoded segments, so that the next collection does not decode unchanged segments again. During a long collection,
`decodes` already has new segments, while `listed` is from the previous collection. `superseded` names the objects that
only readers of an older listing still need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import starmap

import pyarrow as pa
import pyarrow.parquet as pq

from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.listed import ListedPartition, ListedSegment
from tiersnap.snapshot.tables.schema_parts import schema_of

VERSION = 5
_VERSION_KEY = b"tiersnap.collected"
_ANEW = "collect again into an empty folder: tiersnap collect LOGDIR --to EMPTY_FOLDER --apply"


@dataclass(frozen=True, slots=True)
class CollectedDecode:
    """The decode of one segment in a collected folder.

    Attributes:
        object: name of the object with the segment's rows of the table `segments`.
        batches: name of the object with the segment's rows of `record_batches`; None if they were not collected.
        next_base_offset, size_bytes, modified_ns: fields of the decoded log file, to detect changes.
        run_starts: offsets at which ranges of batches (Run) begin, ascending.
    """

    base_offset: int
    object: str
    batches: str | None = None
    next_base_offset: int | None = None
    size_bytes: int = 0
    modified_ns: int = 0
    valid_bytes: int = 0
    log_end_offset: int = 0
    run_starts: tuple[int, ...] = ()

    def is_right(self, segment: ListedSegment) -> bool:
        """Return whether the decode still matches the listed segment.

        The log file must be unchanged, and the decode must end at the segment's end. A range of batches must begin at
        each cut, which is an offset at which a replay needs the state. jobs.pipeline.changes checks the tables by the
        same rule.
        """
        is_same = (self.size_bytes, self.modified_ns) == (segment.size_bytes, segment.modified_ns)
        return is_same and self._ends_well(segment) and self._has_cuts(segment)

    def _ends_well(self, segment: ListedSegment) -> bool:
        """Return whether the decode still ends at the segment's end.

        This is true if the next base offset is unchanged. It is also true if the segment was closed after the decode,
        and the decode read the whole file without damage. Only an active segment may end with an incomplete batch.
        """
        following = segment.next_base_offset
        if following == self.next_base_offset:
            return True
        if following is None or self.next_base_offset is not None:
            return False
        return self.valid_bytes == self.size_bytes > 0 and self.log_end_offset <= following

    def _has_cuts(self, segment: ListedSegment) -> bool:
        """Return whether a range of batches begins at each of the segment's cuts (ListedSegment.cuts)."""
        cuts = set(segment.cuts)
        if segment.next_base_offset is None:
            cuts = {cut for cut in cuts if cut <= self.log_end_offset}
        return cuts <= set(self.run_starts)


@dataclass(frozen=True, slots=True)
class _Superseded:
    object: str
    since: int  # epoch ms


@dataclass(frozen=True, slots=True)
class _Stored:
    listed: ListedPartition
    decodes: tuple[CollectedDecode, ...]
    superseded: tuple[_Superseded, ...]


_STORED_ROWS = Rows(_Stored)
COLLECTED = schema_of(*_STORED_ROWS.schema, metadata={_VERSION_KEY: str(VERSION).encode()})


@dataclass(frozen=True, slots=True)
class Listing:
    """A collected partition.

    Attributes:
        listed: the partition. `decode` of a segment and `object` of a snapshot are names of objects in the folder.
        decodes: decodes by base offset.
        superseded: time (epoch ms) since which the listing does not need an object, by object name.
    """

    listed: ListedPartition
    decodes: Mapping[int, CollectedDecode] = field(default_factory=dict)
    superseded: Mapping[str, int] = field(default_factory=dict)

    @property
    def objects(self) -> frozenset[str]:
        """Return the names of all objects that the listing refers to."""
        return frozenset(filter(None, self._names()))

    def _names(self) -> Iterator[str | None]:
        for segment in self.listed.segments:
            yield segment.decode
        for file in self.listed.snapshots:
            yield file.object
        for decode in self.decodes.values():
            yield decode.object
            yield decode.batches

    def encode(self) -> bytes:
        """Return the bytes of the Parquet file."""
        superseded = tuple(starmap(_Superseded, sorted(self.superseded.items())))
        decodes = tuple(self.decodes[base] for base in sorted(self.decodes))
        stored = _Stored(self.listed, decodes, superseded)
        sink = pa.BufferOutputStream()
        table = pa.Table.from_batches([_STORED_ROWS.batch([stored])]).cast(COLLECTED)
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        return bytes(sink.getvalue())

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> Listing:
        """Return the listing in the bytes of a Parquet file.

        Raises:
            UsageError: another version of tiersnap wrote the file.
            CorruptDataError: the bytes are damaged, or are no listing.
        """
        try:
            table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
            version = int((table.schema.metadata or {})[_VERSION_KEY])
            if version > VERSION:
                raise UsageError(
                    f"{name}: a newer tiersnap wrote this file, in version {version}", hint="upgrade tiersnap"
                )
            if version < VERSION:
                raise UsageError(f"{name}: an earlier tiersnap wrote this file, in version {version}", hint=_ANEW)
            (stored,) = _STORED_ROWS.read(table.select(COLLECTED.names).to_batches())
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise CorruptDataError(
                f"{name}: not a listing that tiersnap collect wrote: {reason}", hint=_ANEW
            ) from error
        decodes = {decode.base_offset: decode for decode in stored.decodes}
        return cls(stored.listed, decodes, {each.object: each.since for each in stored.superseded})
