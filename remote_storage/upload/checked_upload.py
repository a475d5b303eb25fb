"""Check the bytes of a segment during the upload, and the stored objects after it.

CheckedLog checks each piece of the log before the store receives the piece, so the file is read once. It computes the
CRC of each batch and the digest over all batch headers, and compares indexes and leader epochs with the batches. If a
check fails, the store does not receive the last piece, and creates no object.

An acknowledged object may still be lost or wrong. So directly after the put, the checksum of the stored object is
compared with the sent bytes. If the answer to the put has no checksum, a HEAD request gets it. Before the segment
becomes visible, a listing checks that all objects exist.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tiersnap.remote_storage.errors import (
    CorruptSegmentError,
    SegmentChangedError,
    WrongLeaderEpochsError,
)
from tiersnap.remote_storage.stores.object_store import ByteSource, ObjectInfo, ObjectStore, PutResult
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.snapshot.errors import (
    IncompleteBundleError,
    RemoteStorageError,
    TransientError,
    UnknownTransactionsError,
    UsageError,
)
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.transaction_index import ongoing_transactions
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.leader_epochs import EpochCheck, WrongEpoch
from tiersnap.snapshot.log.segment_check import SegmentCheck
from tiersnap.snapshot.repair.index_check import CheckedIndexes, FoundIndexes, IndexCheck
from tiersnap.snapshot.units import count_of


class CheckedLog:
    """A ByteSource that checks the log of a segment while a store reads it; `seek(0)` restarts the check."""

    def __init__(self, file: ByteSource, segment: SegmentBundle, found: FoundIndexes) -> None:
        self._file = file
        self._segment = segment
        self._found = found
        self._indexes: CheckedIndexes | None = None
        self._wrong_epoch: WrongEpoch | None = None
        self._begin()

    @property
    def indexes(self) -> CheckedIndexes:
        """Return the checked indexes. Raise UsageError if the log was not read to its end."""
        if self._indexes is None:
            raise UsageError(f"segment {self._segment.base_offset} was not read to its end")
        return self._indexes

    def read(self, nbytes: int, /) -> bytes:
        """See ByteSource.

        Raises:
            CorruptSegmentError: a batch is damaged.
            SegmentChangedError: the file ends early, or changed since tiersnap decoded it.
            WrongLeaderEpochsError: a batch has another leader epoch than the leader-epoch-checkpoint.
            IncompleteBundleError: the segment is older than the scan window, and its transaction index is lost.
            UnknownTransactionsError: the segment is older than the scan window, and its snapshot lacks a transaction
                that is open at the segment's end.
        """
        data = self._next(nbytes)
        if self._wrong_epoch is None:
            return data
        # Read the rest without returning it: if the file changed, `_finish` reports that instead of wrong epochs.
        while self._left:
            if not self._next(nbytes):
                return b""
        raise self._wrong_epochs(self._wrong_epoch)

    def _next(self, nbytes: int) -> bytes:
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
        """See ByteSource; only position 0 is supported."""
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
                f"{self._segment.log.path}: the segment changed since tiersnap decoded it: its batch headers had "
                f"the digest {decoded}, and now have {end.digest}",
                hint="run the same command again, which decodes the changed file",
                path=self._segment.log.path,
            )
        found = self._index_check.finish()
        if self._segment.producer_snapshot.provenance.is_of_window:
            if found.lacks_transactions:
                raise self._lost_index()
            self._refuse_lacking_snapshot(self._index_check.open_transactions)
        self._indexes = found

    def _check_epochs(self, rows: np.ndarray) -> None:
        if self._wrong_epoch is None:
            self._wrong_epoch = self._epoch_check.first_wrong(rows)

    def _wrong_epochs(self, wrong: WrongEpoch) -> WrongLeaderEpochsError:
        return WrongLeaderEpochsError(
            f"the batch at offset {wrong.base_offset} has leader epoch {wrong.written}, but "
            f"leader-epoch-checkpoint says {wrong.expected}: the checkpoint belongs to another log, or is older than "
            "this log",
            hint="copy leader-epoch-checkpoint from a replica with the same log, or tier from another replica. Brokers "
            "rebuild the checkpoint only for segments that they recover",
            base_offset=self._segment.base_offset,
            offset=wrong.base_offset,
            written=wrong.written,
            expected=wrong.expected,
        )

    def _lost_index(self) -> IncompleteBundleError:
        log = self._segment.log.path
        return IncompleteBundleError(
            f"{log}: the segment has aborted transactions, but its .txnindex is missing or wrong. The scan window "
            "begins after the segment, so tiersnap does not know where these transactions start",
            hint="run the same command without --scan window: it replays the whole log, and rebuilds the index",
            base_offset=self._segment.base_offset,
        )

    def _refuse_lacking_snapshot(self, opened: np.ndarray) -> None:
        """Raise an error if the snapshot lacks a transaction that is open at the segment's end.

        Args:
            opened: the open transactions, ONGOING_TXN_DTYPE.
        """
        if not opened.size:
            return
        named = ongoing_transactions(snapshot_file.decode(self._segment.producer_snapshot.data)).tolist()
        lacking = sorted(set(opened.tolist()).difference(named))
        if lacking:
            producer, first = lacking[0]
            count = count_of(len(lacking), "open transaction")
            raise UnknownTransactionsError(
                f"{self._segment.log.path}: the snapshot of the segment lacks {count} (the first: producer "
                f"{producer}, from offset {first}). The scan window begins after this segment",
                hint="run the same command without --scan window: it replays the whole log",
                base_offset=self._segment.base_offset,
            )

    def _corrupt(self, finding: Finding) -> CorruptSegmentError:
        return CorruptSegmentError(
            str(finding),
            hint="restore the segment from another replica; to see where the file is damaged: tiersnap dump FILE",
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


def check_stored(store: ObjectStore, key: str, put: PutResult) -> None:
    """Compare a stored object with the bytes that were sent. If the answer to the put had no checksum, send a HEAD.

    Raises:
        TransientError: the object does not exist.
        RemoteStorageError: the store has other bytes.
    """
    if not put.proved:
        _check(store, key, put, store.head(key))


def check_listed(store: ObjectStore, stem: str, sent: Iterable[tuple[str, PutResult]]) -> None:
    """Check with one listing that all objects of a remote segment exist with the right sizes and ETags.

    Args:
        store: the store of the remote location.
        stem: common prefix of the object keys of the segment.
        sent: object keys with the results of the puts.

    Raises:
        TransientError: an object does not exist.
        RemoteStorageError: the store has other bytes.
    """
    puts = dict(sent)
    listed = {found.key: found for found in store.list_keys(stem, puts.keys())}
    for key, put in puts.items():
        _check(store, key, put, listed.get(key))


def _check(store: ObjectStore, key: str, put: PutResult, found: ObjectInfo | None) -> None:
    if found is None:
        raise TransientError(
            f"{store.uri}{key}: tiersnap wrote the object, but now it is missing",
            hint="run the same command again, which uploads the segment again",
        )
    # Listings have no checksums. Listings of directories have no ETags either.
    is_another = False
    if found.etag and put.etag and found.crc32c is None:
        is_another = found.etag.strip('"') != put.etag.strip('"')
    has_other_bytes = found.size != put.size or found.crc32c not in {None, put.crc32c}
    if has_other_bytes or is_another:
        raise RemoteStorageError(
            f"{store.uri}{key}: tiersnap wrote {count_of(put.size, 'byte')} with CRC {put.crc32c:08x}, but the "
            f"store has {count_of(found.size, 'byte')}{_what_else(found, is_another=is_another)}",
            hint="run the same command again; if the error recurs, the store damages objects",
            key=key,
        )


def _what_else(found: ObjectInfo, *, is_another: bool) -> str:
    if found.crc32c is not None:
        return f" with CRC {found.crc32c:08x}"
    if is_another:
        return " under another ETag"
    return ""
