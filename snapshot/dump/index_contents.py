"""Dumps of index files, producer snapshots and small text files.

An offset index is compared with the log file in its folder, if one exists. All entries are shown, even wrong ones. Zero
padding is not shown.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from tiersnap.snapshot.dump import kafka_text
from tiersnap.snapshot.dump.columns import Column, numbers, times, words
from tiersnap.snapshot.dump.contents import Contents, Options, Text, unreadable
from tiersnap.snapshot.dump.files import FileKind, StorageFile
from tiersnap.snapshot.errors import CorruptDataError, CorruptIndexError
from tiersnap.snapshot.formats import checkpoints, indexes, snapshot_file, transaction_index
from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.regular_file import open_regular, read_regular, read_text
from tiersnap.snapshot.units import count_of

_START = struct.Struct(">qiibIhi")  # baseOffset, batchLength, leader epoch, magic, crc, attributes, lastOffsetDelta
_SMALLEST_SIZE = 14


class LogProbe:
    """A reader of single batches of an open log file. It is a context manager that closes the file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    def __enter__(self) -> LogProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def batch_at(self, position: int) -> tuple[int, int] | None:
        """Return first and last offset (inclusive) of the batch at a byte position, None without a complete batch."""
        if position < 0:
            return None
        data = os.pread(self._descriptor, _START.size, position)
        if len(data) < _START.size:
            return None
        base_offset, length, _, magic, _, _, delta = _START.unpack(data)
        if length < _SMALLEST_SIZE or position + rb.LOG_OVERHEAD + length > self._size:
            return None
        last_delta = delta if magic >= 2 else 0
        return base_offset, base_offset + last_delta


class _IndexContents(Contents):
    def __init__(self, file: StorageFile, options: Options) -> None:
        super().__init__(file, options)
        self._base_offset = file.offset or 0
        self._data = b""
        try:
            self._data = read_regular(file.path, follow=True)
        except OSError as error:
            self.judgement.add(unreadable(file, error))

    def _judge(self, decode: Callable[..., np.ndarray]) -> None:
        try:
            decode(self._data, base_offset=self._base_offset, name=self.file.path)
        except CorruptDataError as error:
            self.judgement.add(error)

    def _raw(self, dtype: np.dtype) -> np.ndarray:
        return np.frombuffer(self._data, dtype, len(self._data) // dtype.itemsize)

    def _offsets(self, raw: np.ndarray) -> np.ndarray:
        return raw["relative_offset"].astype(np.int64) + self._base_offset

    def _log(self) -> LogProbe | None:
        log = Path(self.file.path).with_name(f"{self.file.name.split('.')[0]}.log")
        if not log.exists():
            self.judgement.notes.append(
                f"{self.file.path}: the folder has no {log.name}, so the index entries are not compared with the log"
            )
            return None
        try:
            return LogProbe(open_regular(log, follow=True))
        except OSError as error:  # retention may have deleted the log since `exists`
            why = error.strerror or error
            self.judgement.notes.append(
                f"{log}: {why}, so the entries of {self.file.path} are not compared with this log"
            )
            return None


class OffsetIndexContents(_IndexContents):
    """The entries of an `.index` file."""

    def columns(self) -> Iterator[Sequence[Column]]:
        """Yield absolute offsets and byte positions."""
        self._judge(indexes.decode_offset_index)
        raw = _unpadded(self._raw(indexes.OFFSET_ENTRY_ON_DISK))
        self._compare(raw)
        raw = self._options.first(raw)
        yield numbers("offset", self._offsets(raw)), numbers("position", raw["position"])

    def kafka_text(self) -> Iterator[Text]:
        """Yield a line per entry. The text ends at the padding, or at the first entry that points to no batch."""
        self._judge(indexes.decode_offset_index)
        raw = self._raw(indexes.OFFSET_ENTRY_ON_DISK)
        if raw.size == 0:
            yield f"{kafka_text.java_path(self.file.path)} is empty.\n".encode("utf-8", "surrogateescape")
            return
        raw = _until_padding(raw)
        raw = self._options.first(raw[: self._compare(raw)])
        yield kafka_text.offset_index(self._offsets(raw), raw["position"])

    def _compare(self, raw: np.ndarray) -> int:
        """Compare the entries with the log. Return how many precede the first entry that points to no batch."""
        log = self._log()
        if log is None:
            return raw.size
        later, readable = 0, raw.size
        with log:
            for index, (relative, position) in enumerate(raw.tolist()):
                offset = relative + self._base_offset
                batch = log.batch_at(position)
                if batch is None:
                    readable = min(readable, index)
                if batch is None or not self._base_offset <= batch[0] <= offset:
                    self.judgement.add(
                        CorruptIndexError(
                            f"{self.file.path} at byte {index * raw.itemsize}: offset {offset} points to byte "
                            f"{position} of the log, but no batch with that offset begins there",
                            hint="delete the index file: the broker rebuilds it from the log at its next start",
                        )
                    )
                elif batch[1] != offset:
                    later += 1
        if later:
            self.judgement.notes.append(
                f"{self.file.path}: {count_of(later, 'entry has', 'entries have')} a later offset than the batch "
                "at the entry's position. Such entries are correct: a broker writes them when it appends several "
                "batches at once"
            )
        return readable


class TimeIndexContents(_IndexContents):
    """The entries of a `.timeindex` file."""

    def columns(self) -> Iterator[Sequence[Column]]:
        """Yield timestamps and absolute offsets."""
        self._judge(indexes.decode_time_index)
        raw = self._options.first(_unpadded(self._raw(indexes.TIME_ENTRY_ON_DISK)))
        yield times("timestamp", raw["timestamp"]), numbers("offset", self._offsets(raw))

    def kafka_text(self) -> Iterator[Text]:
        """Yield a line per entry. The text ends at the padding."""
        self._judge(indexes.decode_time_index)
        raw = self._options.first(_until_padding(self._raw(indexes.TIME_ENTRY_ON_DISK)))
        yield kafka_text.time_index(raw["timestamp"], self._offsets(raw))


class TransactionIndexContents(_IndexContents):
    """The entries of a `.txnindex` file."""

    def columns(self) -> Iterator[Sequence[Column]]:
        """Yield the aborted transactions: producer id, first offset, last offset and last stable offset."""
        self._judge(transaction_index.decode)
        raw = self._options.first(self._raw(transaction_index.ABORTED_TXN_ON_DISK))
        yield tuple(numbers(name, raw[name]) for name in transaction_index.ABORTED_TXN_DTYPE.names or ())

    def kafka_text(self) -> Iterator[Text]:
        """Yield a line per entry. Yield nothing if an entry has a version that Kafka does not support."""
        self._judge(transaction_index.decode)
        raw = self._raw(transaction_index.ABORTED_TXN_ON_DISK)
        if not (raw["version"] > transaction_index.VERSION).any():
            yield kafka_text.transaction_index(self._options.first(raw))


def _unpadded(raw: np.ndarray) -> np.ndarray:
    """Return the entries without the zero entries at the end."""
    used = np.flatnonzero(raw != np.zeros(1, raw.dtype)[0])
    return raw[: used[-1] + 1] if used.size else raw[:0]


def _until_padding(raw: np.ndarray) -> np.ndarray:
    """Return the entries that kafka-dump-log prints: it stops at an offset 0, except in the first entry."""
    padding = np.flatnonzero(raw["relative_offset"][1:] == 0)
    return raw[: padding[0] + 1] if padding.size else raw


class SnapshotContents(Contents):
    """The producers of a `.snapshot` file, in the order of the file."""

    def columns(self) -> Iterator[Sequence[Column]]:
        """Yield a column per field. A value of -1 is absent, such as the last offset of an entry without a batch."""
        entries = self._entries()
        if entries is None:
            entries = np.empty(0, ENTRY_DTYPE)
        without_batch = entries["last_offset"] < 0
        yield (
            numbers("producer_id", entries["producer_id"]),
            numbers("producer_epoch", entries["producer_epoch"], none=-1),
            numbers("last_sequence", np.where(without_batch, -1, entries["last_sequence"]), none=-1),
            numbers("last_offset", entries["last_offset"], none=-1),
            numbers("offset_delta", np.where(without_batch, -1, entries["offset_delta"]), none=-1),
            times("timestamp", entries["timestamp"]),
            numbers("coordinator_epoch", entries["coordinator_epoch"], none=-1),
            numbers("current_txn_first_offset", entries["current_txn_first_offset"], none=-1),
        )

    def kafka_text(self) -> Iterator[Text]:
        """Yield a line per producer. Yield nothing if the file is corrupt."""
        entries = self._entries()
        if entries is not None:
            yield kafka_text.producers(entries)

    def _entries(self) -> np.ndarray | None:
        try:
            entries = snapshot_file.checked(read_regular(self.file.path, follow=True), name=self.file.path)
        except CorruptDataError as error:
            self.judgement.add(error)
            return None
        except OSError as error:
            self.judgement.add(unreadable(self.file, error))
            return None
        return self._options.first(entries.astype(ENTRY_DTYPE))


class TextContents(Contents):
    """Leader epochs, offset checkpoints and partition metadata."""

    def columns(self) -> Iterator[Sequence[Column]]:
        """Yield a column for each field of a line."""
        try:
            rows = self._rows(read_text(Path(self.file.path), follow=True))
        except CorruptDataError as error:
            self.judgement.add(error)
            rows = []
        except OSError as error:
            self.judgement.add(unreadable(self.file, error))
            rows = []
        rows = rows[: self._options.count]
        if self.file.kind is FileKind.LEADER_EPOCHS:
            yield numbers("epoch", _integers(rows, 0)), numbers("start_offset", _integers(rows, 1))
        elif self.file.kind is FileKind.OFFSET_CHECKPOINT:
            topics, codes = np.unique(np.array([row[0] for row in rows], np.str_), return_inverse=True)
            yield (
                words("topic", codes, topics.tolist()),
                numbers("partition", _integers(rows, 1)),
                numbers("offset", _integers(rows, 2)),
            )
        else:
            yield (words("topic_id", np.arange(len(rows)), [str(row[0]) for row in rows]),)

    def kafka_text(self) -> Iterator[Text]:
        """Return an empty iterator, because kafka-dump-log does not read these files."""
        self.judgement.notes.append(
            f"{self.file.path}: kafka-dump-log does not print files of this kind; use another --output"
        )
        return iter(())

    def _rows(self, text: str) -> list[tuple[str | int, ...]]:
        if self.file.kind is FileKind.LEADER_EPOCHS:
            return list(checkpoints.parse_leader_epochs(text, name=self.file.path))
        if self.file.kind is FileKind.OFFSET_CHECKPOINT:
            offsets = checkpoints.parse_offsets(text, name=self.file.path)
            return [(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        return [(checkpoints.parse_topic_id(text, name=self.file.path),)]


def _integers(rows: list[tuple[str | int, ...]], index: int) -> np.ndarray:
    return np.array([row[index] for row in rows], np.int64)
