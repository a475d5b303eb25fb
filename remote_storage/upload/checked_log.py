"""A segment's bytes on their way out, checked as they go: nothing is sent on the word of an earlier look.

Every batch's CRC is computed, the header digest of the decode is made again, and the indexes are compared with the
batches, all in the pieces in which the store takes the log; so the file is read once. The last piece is handed out
only when everything is proved, and a store that lacks a piece makes no object.
"""

from __future__ import annotations

from tiersnap.remote_storage.errors import CorruptSegmentError, SegmentChangedError
from tiersnap.remote_storage.stores.object_store import ByteSource
from tiersnap.remote_storage.upload.ready_segment import ReadySegment
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.segment_check import SegmentCheck
from tiersnap.snapshot.repair.index_check import CheckedIndexes, FoundIndexes, IndexCheck


class CheckedLog:
    """A ByteSource over the log of a segment, which is read in order; `seek(0)` begins again."""

    def __init__(self, file: ByteSource, segment: ReadySegment, found: FoundIndexes) -> None:
        self._file = file
        self._segment = segment
        self._found = found
        self._indexes: CheckedIndexes | None = None
        self._begin()

    @property
    def indexes(self) -> CheckedIndexes:
        """What the batches say, once all was read."""
        if self._indexes is None:
            raise UsageError(f"segment {self._segment.base_offset} was not read to its end")
        return self._indexes

    def read(self, nbytes: int, /) -> bytes:
        """See ByteSource.

        Raises:
            CorruptSegmentError: a batch is damaged.
            SegmentChangedError: the file ends early, or is not what was decoded.
        """
        data = self._file.read(min(nbytes, self._left))
        if not data:
            return data
        piece = memoryview(data)
        self._check.update(piece)
        if self._check.finding is not None:
            raise self._corrupt(self._check.finding)
        self._index_check.update(piece)
        self._left -= len(data)
        if self._left == 0:
            self._finish()
        return data

    def seek(self, position: int, /) -> int:
        """See ByteSource; only the start of the file can be looked for."""
        if position != 0:
            raise UsageError(f"a segment is sent from its start, not from byte {position}")
        self._begin()
        return self._file.seek(0)

    def _finish(self) -> None:
        end = self._check.finish()
        if end.finding is not None:
            raise self._corrupt(end.finding)
        decoded = self._segment.header_digest
        if decoded is not None and end.digest != decoded:
            raise SegmentChangedError(
                f"segment changed since it was decoded: {self._segment.log.path}: its headers give {end.digest}, "
                f"they gave {decoded}",
                hint="run the same command again: it decodes the segment anew",
                path=self._segment.log.path,
            )
        self._indexes = self._index_check.finish()

    def _corrupt(self, finding: Finding) -> CorruptSegmentError:
        return CorruptSegmentError(
            str(finding),
            hint="tiersnap dump FILE shows the place; restore the segment from another replica",
            base_offset=self._segment.base_offset,
            position=finding.position,
        )

    def _begin(self) -> None:
        segment = self._segment
        self._left = segment.log.size
        self._check = SegmentCheck(
            segment.base_offset, segment.next_base_offset, size=segment.log.size, name=segment.log.path
        )
        self._index_check = IndexCheck(segment.base_offset, self._found, segment.ongoing())
