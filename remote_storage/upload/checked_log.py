"""A segment's bytes on their way out, checked as they go: nothing is sent on the word of an earlier look.

Every batch's CRC is computed, the header digest of the decode is made again, and the indexes and the leader epochs are
compared with the batches, all in the pieces in which the store takes the log; so the file is read once. The last piece
is handed out only when everything is proved, and a store that lacks a piece makes no object.
"""

from __future__ import annotations

import numpy as np

from tiersnap.remote_storage.errors import CorruptSegmentError, SegmentChangedError, WrongLeaderEpochsError
from tiersnap.remote_storage.stores.object_store import ByteSource
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.leader_epochs import EpochCheck, WrongEpoch
from tiersnap.snapshot.log.segment_check import SegmentCheck
from tiersnap.snapshot.repair.index_check import CheckedIndexes, FoundIndexes, IndexCheck


class CheckedLog:
    """A ByteSource over the log of a segment, which is read in order; `seek(0)` begins again."""

    def __init__(self, file: ByteSource, segment: SegmentBundle, found: FoundIndexes) -> None:
        self._file = file
        self._segment = segment
        self._found = found
        self._indexes: CheckedIndexes | None = None
        self._wrong_epoch: WrongEpoch | None = None
        self._begin()

    @property
    def indexes(self) -> CheckedIndexes:
        """Return the indexes that the batches give, once all was read."""
        if self._indexes is None:
            raise UsageError(f"segment {self._segment.base_offset} was not read to its end")
        return self._indexes

    def read(self, nbytes: int, /) -> bytes:
        """See ByteSource.

        Raises:
            CorruptSegmentError: a batch is damaged.
            SegmentChangedError: the file ends early, or is not what was decoded.
            WrongLeaderEpochsError: a batch has another leader epoch than the log's checkpoint tells.
        """
        data = self._next(nbytes)
        if self._wrong_epoch is None:
            return data
        # Nothing more is sent. Whether these are the bytes that were decoded shows only at their end.
        while self._left:
            if not self._next(nbytes):
                return b""
        raise self._wrong_epochs(self._wrong_epoch)

    def _next(self, nbytes: int) -> bytes:
        """The next piece, checked; empty where the file ends early."""
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

    def _check_epochs(self, rows: np.ndarray) -> None:
        if self._wrong_epoch is None:
            self._wrong_epoch = self._epoch_check.first_wrong(rows)

    def _wrong_epochs(self, wrong: WrongEpoch) -> WrongLeaderEpochsError:
        return WrongLeaderEpochsError(
            f"the batch at offset {wrong.base_offset} was written under leader epoch {wrong.written}, the "
            f"leader-epoch-checkpoint says {wrong.told}: it is of another log, or older than this one",
            hint="take the leader-epoch-checkpoint of the replica whose log this is, or tier from another replica; a "
            "broker makes it from the batches only of what it recovers",
            base_offset=self._segment.base_offset,
            offset=wrong.base_offset,
            written=wrong.written,
            told=wrong.told,
        )

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
            segment.base_offset,
            segment.next_base_offset,
            on_rows=self._check_epochs,
            size=segment.log.size,
            name=segment.log.path,
        )
        self._epoch_check = EpochCheck(segment.segment_leader_epochs)
        self._wrong_epoch = None
        self._index_check = IndexCheck(segment.base_offset, self._found, segment.ongoing())
