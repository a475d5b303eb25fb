"""`listing.parquet`: one row that says what a collected partition holds, and in which objects.

The row is a ListedPartition, as the log directory was listed on its host; its segments and snapshots name
their objects. `decodes` says more of the decodes, for the next collection; while one is under way, they are ahead of
the row. `superseded` are objects that the row no longer names, which who reads by an older listing may still need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.listed import ListedPartition, ListedSegment
from tiersnap.snapshot.tables.schemas import schema_of

VERSION = 5
_VERSION_KEY = b"tiersnap.collected"
_ANEW = "give an empty folder as --to and collect again"


@dataclass(frozen=True, slots=True)
class CollectedDecode:
    """A decode that was shipped.

    Attributes:
        object: name of the object with its rows of `segments`.
        batches: likewise of `record_batches`; None where they were not asked for.
        next_base_offset, size_bytes, modified_ns: of the file that was decoded.
        run_starts: offsets at which its runs begin, ascending.
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
        """Return whether it is still right for a segment as it is listed now.

        The file is the same, a state is wanted at no new offset inside it, and it is followed as it was, or was sound
        when it was rolled: what is normal at the end of the active segment is damage in a closed one. The fleet's run
        asks the same of its tables (jobs.pipeline.changes).
        """
        following = segment.next_base_offset
        is_same = (self.size_bytes, self.modified_ns) == (segment.size_bytes, segment.modified_ns)
        ends_well = following == self.next_base_offset or (
            self.next_base_offset is None
            and self.valid_bytes == self.size_bytes > 0
            and following is not None
            and self.log_end_offset <= following
        )
        reached = {cut for cut in segment.cuts if following is not None or cut <= self.log_end_offset}
        return is_same and ends_well and reached <= set(self.run_starts)


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
        listed: with `decode` of its segments and `object` of its snapshots.
        decodes: by base offset.
        superseded: names of objects, and since when (epoch ms).
    """

    listed: ListedPartition
    decodes: Mapping[int, CollectedDecode] = field(default_factory=dict)
    superseded: Mapping[str, int] = field(default_factory=dict)

    @property
    def objects(self) -> frozenset[str]:
        """Names of the objects that it needs."""
        of_decodes = (name for decode in self.decodes.values() for name in (decode.object, decode.batches))
        of_segments = (segment.decode for segment in self.listed.segments)
        of_snapshots = (file.object for file in self.listed.snapshots)
        return frozenset(name for name in (*of_decodes, *of_segments, *of_snapshots) if name is not None)

    def encode(self) -> bytes:
        """The bytes of a Parquet file."""
        superseded = tuple(_Superseded(*each) for each in sorted(self.superseded.items()))
        stored = _Stored(self.listed, tuple(decode for _, decode in sorted(self.decodes.items())), superseded)
        sink = pa.BufferOutputStream()
        table = pa.Table.from_batches([_STORED_ROWS.batch([stored])]).cast(COLLECTED)
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        return bytes(sink.getvalue())

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> Listing:
        """The inverse of `encode`.

        Raises:
            UsageError: another version of tiersnap wrote it.
            CorruptDataError: it is no such file.
        """
        try:
            table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
            version = int((table.schema.metadata or {})[_VERSION_KEY])
            if version > VERSION:
                raise UsageError(f"{name}: version {version} of a newer tiersnap", hint="upgrade tiersnap")
            if version < VERSION:
                raise UsageError(f"{name}: version {version} of an earlier tiersnap", hint=_ANEW)
            (stored,) = _STORED_ROWS.read(table.select(COLLECTED.names).to_batches())
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            raise CorruptDataError(
                f"{name}: not what tiersnap collect writes: {str(error).splitlines()[0]}", hint=_ANEW
            ) from error
        decodes = {decode.base_offset: decode for decode in stored.decodes}
        return cls(stored.listed, decodes, {each.object: each.since for each in stored.superseded})
