"""Dumps of log segments and KRaft snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tiersnap.snapshot.dump import kafka_text
from tiersnap.snapshot.dump.columns import Column, flags, numbers, times, words
from tiersnap.snapshot.dump.contents import Contents, Text
from tiersnap.snapshot.dump.files import FileKind, next_base_offset
from tiersnap.snapshot.dump.log_entries import STOPPED, EntriesEnd, LogEntries, is_valid
from tiersnap.snapshot.formats import record_batch as rb
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.kernels.dump_entries import LOG_ENTRY_DTYPE
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.units import count_of

_DELETE_HORIZON_MASK = 0x40
_CODECS = (*kafka_text.CODECS, "5", "6", "7")
_CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
    "UNKNOWN",
)
_CONTROL_NAMES = (None, *_CONTROL_TYPES)
_CONTENTS = ("data", "transactional", "emptied", "legacy", "control", *_CONTROL_TYPES)
_SMALLEST_SIZE = 14
# Ascending by number, for np.searchsorted.
_PROBLEMS = {
    kernels.BAD_SIZE: FindingKind.BAD_SIZE,
    kernels.BAD_MAGIC: FindingKind.BAD_MAGIC,
    kernels.BAD_CRC: FindingKind.BAD_CRC,
    kernels.BAD_OFFSET: FindingKind.BAD_OFFSET,
    kernels.BAD_CONTROL: FindingKind.BAD_CONTROL_RECORD,
}


class LogContents(Contents):
    """The batch headers of a `.log` or `.checkpoint` file."""

    def columns(self) -> Iterator[Sequence[Column]]:
        """Yield a column per header field. A value is absent if it is -1, or if the entry's magic has no such field."""
        is_empty = True
        for rows in self._judged(self._entries()):
            is_empty = False
            yield self._columns(rows)
        if is_empty:
            yield self._columns(np.empty(0, LOG_ENTRY_DTYPE))

    def kafka_text(self) -> Iterator[Text]:
        """Yield the heading of kafka-dump-log, a line per batch, and the message about a partial batch at the end."""
        yield self._heading()
        entries = self._entries()
        for rows in self._judged(entries):
            yield from kafka_text.log_entries(rows)
            if kafka_text.is_fatal(rows).any():
                self.judgement.notes.append(
                    f"{self.file.path}: kafka-dump-log crashes at this batch, so its output ends here too"
                )
                return
        trailing = entries.end.size - entries.end.valid_bytes
        if trailing and entries.end.reason in (kernels.END, kernels.PARTIAL) and self._options.max_bytes is None:
            yield f"Found {trailing} invalid bytes at the end of {self.file.name}\n".encode()

    def _heading(self) -> bytes:
        if self.file.kind is FileKind.LOG:
            return f"Log starting offset: {self.file.offset}\n".encode()
        if self.file.epoch is None:
            return b"KRaft bootstrap snapshot\n"
        return f"Snapshot end offset: {self.file.offset}, epoch: {self.file.epoch}\n".encode()

    def _entries(self) -> LogEntries:
        return LogEntries(
            self.file.path,
            base_offset=(self.file.offset or 0) if self.file.kind is FileKind.LOG else 0,
            max_bytes=self._options.max_bytes,
            count=self._options.count,
            check_crc=self._options.check_crc,
        )

    def _judged(self, entries: LogEntries) -> Iterator[np.ndarray]:
        try:
            for rows in entries:
                wrong = np.flatnonzero(rows["problem"])
                for row in rows[wrong[: self.judgement.room]]:
                    self._add(_PROBLEMS[int(row["problem"])], int(row["position"]), _message(row))
                    wrong = wrong[1:]
                self.judgement.further += wrong.size
                yield rows
        except OSError as error:
            self._add(FindingKind.UNREADABLE_FILE, -1, error.strerror or str(error))
            entries.end = EntriesEnd(0, 0, STOPPED)
        self._judge_end(entries.end)

    def _judge_end(self, end: EntriesEnd) -> None:
        if end.reason == kernels.BAD_SIZE:
            message = f"the batch size is {end.found}, but the smallest possible size is {_SMALLEST_SIZE}"
            self._add(FindingKind.BAD_SIZE, end.valid_bytes, message)
        elif end.reason == STOPPED or self._options.max_bytes is not None:
            return
        elif trailing := end.size - end.valid_bytes:
            self._judge_trailing(trailing, end)
        elif not end.size:
            self._judge_empty()

    def _is_active(self) -> bool:
        """Return whether a broker may still append to the file: it is a log, and no later segment exists."""
        return self.file.kind is not FileKind.KRAFT_SNAPSHOT and next_base_offset(self.file) is None

    def _judge_trailing(self, trailing: int, end: EntriesEnd) -> None:
        if self._is_active():
            what = "zeros" if end.reason == kernels.ZEROS else "bytes of an unfinished batch"
            self.judgement.notes.append(
                f"{self.file.path}: {trailing} {what} at the end, which is normal in an active segment"
            )
        else:
            message = f"the last batch is incomplete: the file ends after {count_of(trailing, 'byte')} of it"
            self._add(FindingKind.TRUNCATED_SEGMENT, end.valid_bytes, message)

    def _judge_empty(self) -> None:
        if self.file.kind is FileKind.KRAFT_SNAPSHOT:
            self._add(FindingKind.EMPTY_SEGMENT, -1, "the snapshot has 0 bytes")
        elif not self._is_active():
            self.judgement.notes.append(
                f"{self.file.path}: a closed segment of 0 bytes. The log cleaner leaves such a file if no record "
                "survives. If the topic is not compacted, records are lost: tiersnap scan LOGDIR"
            )

    def _add(self, kind: FindingKind, position: int, message: str) -> None:
        self.judgement.add(Finding(kind, self.file.path, position, message))

    def _columns(self, rows: np.ndarray) -> Sequence[Column]:
        attributes = rows["attributes"]
        is_legacy = rows["magic"] < 2
        has_horizon = ((attributes & _DELETE_HORIZON_MASK) != 0) & ~is_legacy
        control_name = np.minimum(rows["control_type"] + 1, len(_CONTROL_NAMES) - 1)
        unchecked = np.full(rows.size, not self._options.check_crc)
        return (
            numbers("position", rows["position"]),
            numbers("size", rows["batch_length"].astype(np.int64) + rb.LOG_OVERHEAD),
            numbers("base_offset", rows["base_offset"]),
            numbers("last_offset", rows["base_offset"] + rows["last_offset_delta"]),
            numbers("record_count", rows["record_count"], none=-1),
            numbers("producer_id", rows["producer_id"], none=-1),
            numbers("producer_epoch", rows["producer_epoch"], none=-1),
            numbers("base_sequence", rows["base_sequence"], none=-1),
            numbers("last_sequence", kafka_text.last_sequences(rows), none=-1),
            words("contents", _contents(rows), _CONTENTS, only="table"),
            flags("is_transactional", (attributes & rb.TRANSACTIONAL_MASK) != 0, absent=is_legacy, only="json"),
            flags("is_control", (attributes & rb.CONTROL_MASK) != 0, absent=is_legacy, only="json"),
            words("control_type", control_name, _CONTROL_NAMES, only="json"),
            numbers("coordinator_epoch", rows["coordinator_epoch"], none=-1),
            words("codec", attributes & rb.CODEC_MASK, _CODECS),
            numbers("partition_leader_epoch", rows["partition_leader_epoch"], none=-1),
            words("timestamp_type", kafka_text.timestamp_types(rows), kafka_text.TIMESTAMP_TYPES, only="json"),
            times("base_timestamp", rows["base_timestamp"], only="json"),
            times("max_timestamp", rows["max_timestamp"]),
            times("delete_horizon", rows["base_timestamp"], absent=~has_horizon, only="json"),
            numbers("magic", rows["magic"], only="json"),
            numbers("crc", rows["crc"], only="json"),
            flags("is_valid", is_valid(rows), absent=unchecked, only="json"),
            words("problem", np.searchsorted(np.array([0, *_PROBLEMS]), rows["problem"]), (None, *_PROBLEMS.values())),
        )


def _contents(rows: np.ndarray) -> np.ndarray:
    """Return a word for each entry, such as `transactional` or `ABORT`, as an index into _CONTENTS."""
    attributes = rows["attributes"]
    named = _CONTENTS.index("ABORT") + np.clip(rows["control_type"], 0, len(_CONTROL_TYPES) - 1)
    control = np.where(rows["control_type"] >= 0, named, _CONTENTS.index("control"))
    code = np.where((attributes & rb.TRANSACTIONAL_MASK) != 0, 1, 0)
    code = np.where((attributes & rb.CONTROL_MASK) != 0, control, code)
    code = np.where(rows["record_count"] == 0, 2, code)
    return np.where(rows["magic"] < 2, 3, code)


def _message(row: np.void) -> str:
    problem = int(row["problem"])
    if problem == kernels.BAD_CRC:
        name = "CRC-32" if row["magic"] < 2 else "CRC-32C"
        return (
            f"{name}: the stored value is {int(row['crc']):08x}, the computed value is {int(row['computed_crc']):08x}"
        )
    if problem == kernels.BAD_OFFSET:
        last = int(row["base_offset"]) + int(row["last_offset_delta"])
        return f"offsets {int(row['base_offset'])} to {last} are not above the previous offsets"
    if problem == kernels.BAD_MAGIC:
        return f"magic is {int(row['magic'])}, expected 0 to 2"
    if problem == kernels.BAD_SIZE:
        smallest = rb.HEADER_LENGTH - rb.LOG_OVERHEAD
        return f"the batch size is {int(row['batch_length'])}, but the smallest possible size is {smallest}"
    return "the control record type is not 0 (ABORT) or 1 (COMMIT)"
