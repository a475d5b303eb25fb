"""Producer snapshots and the text files of a log directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tiersnap.snapshot.dump import kafka_text
from tiersnap.snapshot.dump.columns import Column, numbers, times, words
from tiersnap.snapshot.dump.contents import Judgement, Options, Text, unreadable
from tiersnap.snapshot.dump.files import FileKind, StorageFile
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats import checkpoints, snapshot_file
from tiersnap.snapshot.regular_file import read_regular, read_text
from tiersnap.snapshot.replay.producer_state import ENTRY_DTYPE


class SnapshotContents:
    """The producers of a `.snapshot` file, in the order of the file."""

    def __init__(self, file: StorageFile, options: Options) -> None:
        self.file = file
        self.judgement = Judgement()
        self._options = options

    def columns(self) -> Iterator[Sequence[Column]]:
        """One column a field; what is unset is absent."""
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
        """One line a producer; nothing for a corrupt file."""
        entries = self._entries()
        if entries is not None:
            yield kafka_text.producers(entries)

    def _entries(self) -> np.ndarray | None:
        try:
            data = read_regular(self.file.path, follow=True)
            snapshot_file.decode(data, name=self.file.path)
        except CorruptDataError as error:
            self.judgement.add(error)
            return None
        except OSError as error:
            self.judgement.add(unreadable(self.file, error))
            return None
        return self._options.first(kafka_text.in_file_order(data, snapshot_file.HEADER_LENGTH))


class TextContents:
    """Leader epochs, offset checkpoints and partition metadata."""

    def __init__(self, file: StorageFile, options: Options) -> None:
        self.file = file
        self.judgement = Judgement()
        self._options = options

    def columns(self) -> Iterator[Sequence[Column]]:
        """One column a field of the text's lines."""
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
        """Nothing: the tool does not read these files."""
        self.judgement.notes.append(f"{self.file.path}: kafka-dump-log does not read such files, other outputs do")
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
