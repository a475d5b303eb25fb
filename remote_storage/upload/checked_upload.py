"""Check a segment's bytes while they are sent, and the stored objects afterwards; no earlier check is trusted.

The store reads the log in pieces, and each piece is checked on the way, so the file is read once. The checks compute
every batch's CRC and the header digest of the decode, and compare the indexes and the leader epochs with the batches.
The store receives the last piece only if all checks passed, and a store that lacks a piece makes no object.

A server that answers 200 has not always kept the bytes. So each object is compared as soon as it was sent: by the
checksum in the answer to the put, or by HEAD if the answer has none. Before the segment becomes visible, its objects
are listed once more, because an acknowledged object may have been lost.
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
    """A ByteSource that checks the log of a segment while it is read in order; `seek(0)` starts again."""

    def __init__(self, file: ByteSource, segment: SegmentBundle, found: FoundIndexes) -> None:
        self._file = file
        self._segment = segment
        self._found = found
        self._indexes: CheckedIndexes | None = None
        self._wrong_epoch: WrongEpoch | None = None
        self._begin()

    @property
    def indexes(self) -> CheckedIndexes:
        """Return the checked indexes. Raises UsageError: the log was not read to its end."""
        if self._indexes is None:
            raise UsageError(f"segment {self._segment.base_offset} was not read to its end")
        return self._indexes

    def read(self, nbytes: int, /) -> bytes:
        """See ByteSource.

        Raises:
            CorruptSegmentError: a batch is damaged.
            SegmentChangedError: the file ends early, or differs from the decoded one.
            WrongLeaderEpochsError: a batch has another leader epoch than the leader-epoch-checkpoint.
            IncompleteBundleError: a scan window began behind the segment, and the transaction index is lost.
            UnknownTransactionsError: a scan window began behind the segment, and the snapshot lacks a transaction that
                is open at the segment's end.
        """
        data = self._next(nbytes)
        if self._wrong_epoch is None:
            return data
        # Nothing more is sent. But a changed file explains wrong epochs, and only the digest at its end shows that.
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
                f"segment changed since it was decoded: {self._segment.log.path}: its headers give {end.digest}, "
                f"they gave {decoded}",
                hint="run the same command again: it decodes the segment anew",
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
            f"the batch at offset {wrong.base_offset} was written under leader epoch {wrong.written}, the "
            f"leader-epoch-checkpoint says {wrong.told}: it is of another log, or older than this one",
            hint="take the leader-epoch-checkpoint of the replica whose log this is, or tier from another replica; a "
            "broker makes it from the batches only of what it recovers",
            base_offset=self._segment.base_offset,
            offset=wrong.base_offset,
            written=wrong.written,
            told=wrong.told,
        )

    def _lost_index(self) -> IncompleteBundleError:
        log = self._segment.log.path
        return IncompleteBundleError(
            f"{log}: it holds aborted transactions, its .txnindex is missing or wrong, and the scan window begins "
            "behind it: nobody knows where they began",
            hint="run again without --scan window: it replays the whole log and makes the index again",
            base_offset=self._segment.base_offset,
        )

    def _refuse_lacking_snapshot(self, opened: np.ndarray) -> None:
        """Refuse a snapshot of a scan window that lacks a transaction which is open at the segment's end.

        Args:
            opened: ONGOING_TXN_DTYPE.
        """
        snapshot = self._segment.producer_snapshot
        named = ongoing_transactions(snapshot_file.decode(snapshot.data)).tolist() if opened.size else []
        lacking = sorted(set(opened.tolist()).difference(named))
        if lacking:
            producer, first = lacking[0]
            count = count_of(len(lacking), "transaction")
            raise UnknownTransactionsError(
                f"{self._segment.log.path}: it ends inside {count} that its snapshot lacks, one of producer {producer} "
                f"since offset {first}: the scan window begins behind it",
                hint="run again without --scan window: it replays the whole log",
                base_offset=self._segment.base_offset,
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


def check_stored(store: ObjectStore, key: str, put: PutResult) -> None:
    """Compare an object with the bytes that were sent. It takes one HEAD, unless the answer to the put proved them.

    Raises:
        TransientError: the object does not exist.
        RemoteStorageError: the store has other bytes.
    """
    if not put.proved:
        _check(store, key, put, store.head(key))


def check_listed(store: ObjectStore, stem: str, sent: Iterable[tuple[str, PutResult]]) -> None:
    """Check with one listing that all objects of a remote segment exist, with the right sizes and ETags.

    Args:
        stem: common prefix of the keys of the segment's objects.
        sent: keys, with the results of the puts.

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
            f"{store.uri}{key}: not there after it was written", hint="run the same command again: it copies anew"
        )
    # A listing has no checksums; the listing of a directory has no ETags either.
    is_another = False
    if found.etag and put.etag and found.crc32c is None:
        is_another = found.etag.strip('"') != put.etag.strip('"')
    has_other_bytes = found.size != put.size or found.crc32c not in {None, put.crc32c}
    if has_other_bytes or is_another:
        raise RemoteStorageError(
            f"{store.uri}{key}: wrote {count_of(put.size, 'byte')} with CRC {put.crc32c:08x}, the store has "
            f"{count_of(found.size, 'byte')}{_what_else(found, is_another=is_another)}",
            hint="run the same command again; if it recurs, the store is not to be trusted with this",
            key=key,
        )


def _what_else(found: ObjectInfo, *, is_another: bool) -> str:
    if found.crc32c is not None:
        return f" with CRC {found.crc32c:08x}"
    return " under another ETag" if is_another else ""
