"""Walk over the bytes of one segment: decode, fold and check its batches.

`SegmentScan` walks over the windows of a file, and `SegmentCheck` over the pieces of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Protocol

import numpy as np
from msgspec import Meta

from tiersnap.snapshot.columns import CrcChecked, Digest, HasGaps
from tiersnap.snapshot.errors import CorruptRecordError
from tiersnap.snapshot.formats.compression import decompress
from tiersnap.snapshot.formats.record_batch import (
    CODEC_MASK,
    CONTROL_MASK,
    HEADER_LENGTH,
    LOG_OVERHEAD,
    RECORD_BATCH_DTYPE,
)
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.kernels.crc import START
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.producer_fold import DELTA_DTYPE, ProducerFold
from tiersnap.snapshot.units import count_of

# Rows per pass: few enough to stay in the processor's cache until they are counted, folded and copied.
_ROWS = 8192
_PAUSES = (kernels.ROWS_FULL, kernels.TABLE_FULL, kernels.CUT, kernels.COMPRESSED_CONTROL)
_NO_DELTAS = np.empty(0, DELTA_DTYPE)
_LARGEST_CONTROL = 1 << 20  # bytes; a control record has fewer than 100
_ATTRIBUTES = 22  # position of the low byte of the attributes

_MESSAGES = {
    kernels.BAD_SIZE: (FindingKind.BAD_SIZE, "the batch size is {found}, but the smallest possible size is {expected}"),
    kernels.BAD_MAGIC: (FindingKind.BAD_MAGIC, "magic is {found}, expected 0 to {expected}"),
    kernels.BAD_CRC: (FindingKind.BAD_CRC, "the stored CRC is {expected:08x}, but the computed CRC is {found:08x}"),
    kernels.BAD_OFFSET: (FindingKind.BAD_OFFSET, "the base offset of a batch is {found}, expected at least {expected}"),
    kernels.BAD_CONTROL: (
        FindingKind.BAD_CONTROL_RECORD,
        "the control record type is {found}, expected 0 (ABORT) or 1 (COMMIT)",
    ),
}


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """The result of a walk over a segment. The walk stopped at the end of the segment or at damage."""

    total_bytes: Annotated[int, Meta(description="bytes of the file when tiersnap opened it")]
    valid_bytes: Annotated[int, Meta(description="bytes up to the end of the last valid entry")]
    batch_count: Annotated[int, Meta(description="number of valid record batches")]
    legacy_count: Annotated[int, Meta(description="entries of magic 0 and 1, which are counted but not decoded")]
    last_offset: Annotated[
        int, Meta(description="last offset of the last valid entry; base offset - 1 if there is none")
    ]
    first_timestamp: Annotated[
        int, Meta(description="ms, largest timestamp of the first decoded batch; -1 if there is none")
    ]
    max_timestamp: Annotated[
        int,
        Meta(description="ms, largest record timestamp of the valid entries; -1 if there is none"),
    ]
    has_gaps: HasGaps
    digest: Digest
    crc_checked: CrcChecked
    finding: Finding | None  # damage that ended the walk, or None

    def largest_timestamp(self, modified_ns: int) -> int:
        """Return the segment's largest timestamp in ms, which brokers use for retention and in remote log metadata.

        If no entry has a timestamp, return the file's modification time. Follows
        org.apache.kafka.storage.internals.log.LogSegment.largestTimestamp.

        Args:
            modified_ns: the file's modification time, ns since the epoch.
        """
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return modified_ns // 1_000_000


class Folding(Protocol):
    """A receiver that folds batches while they are decoded.

    Attributes:
        producers: the current fold.
        stop_at: offset; `cut` is called before the first entry at or above this offset is folded.
    """

    producers: ProducerFold

    @property
    def stop_at(self) -> int:
        """Return the offset at which a new fold must begin, or NO_CUT. It is above all folded batches."""

    def cut(self, max_timestamp: int) -> None:
        """Start a new fold with a larger `stop_at`.

        Args:
            max_timestamp: ms, largest timestamp of the segment's entries below `stop_at`; -1 if none has a timestamp.
        """


@dataclass
class SegmentWalk:
    """A walk over one segment. `SegmentScan` explains its fields."""

    path: str  # for findings
    _: KW_ONLY
    base_offset: int
    next_base_offset: int | None
    check_crc: bool
    keep_rows: bool
    folding: Folding | None = None
    cursor: int = field(default=0, init=False)
    reason: int = field(default=kernels.END, init=False)

    def __post_init__(self) -> None:
        self._states = _new_states(self.base_offset)
        self._state = self._states[0]
        self._out = kernels.NO_ROWS

    @property
    def valid_bytes(self) -> int:
        """Return the byte position in the segment at which its last valid entry ends."""
        return int(self._state["valid_bytes"])

    def make_room(self, size: int) -> None:
        """Allocate the array for decoded rows, if rows are kept; `size` is the segment's size in bytes."""
        if self.keep_rows:
            self._out = np.empty(min(max(size // HEADER_LENGTH, 1), _ROWS), RECORD_BATCH_DTYPE)

    def over(self, window: np.ndarray, position: int) -> Iterator[np.ndarray]:
        """Walk over a uint8 window, which begins at byte `position` of the segment. Yield arrays of decoded rows.

        An array is valid until the next one is requested. Afterwards, `cursor` is the position in `window` at which the
        walk stopped, and `reason` is the reason (a constant of kernels.batch).
        """
        state = self._state
        cursor, reason = 0, kernels.ROWS_FULL
        while reason in _PAUSES:
            cursor, reason = self._step(window, cursor, position)
            if reason not in (kernels.TABLE_FULL, kernels.COMPRESSED_CONTROL) and state["row_count"]:
                yield self._out[: state["row_count"]]
                state["row_count"] = 0
        self.cursor, self.reason = cursor, reason

    def _step(self, window: np.ndarray, cursor: int, position: int) -> tuple[int, int]:
        folding, state = self.folding, self._state
        if folding is None:
            stop_at, slots, deltas = kernels.NO_CUT, kernels.NO_SLOTS, _NO_DELTAS
        else:
            stop_at, (slots, deltas) = folding.stop_at, folding.producers.table
            state["producer_count"] = len(folding.producers)
        cursor, reason = kernels.walk(
            window, cursor, position, stop_at, self.check_crc, self._states, self._out, slots, deltas
        )
        if folding is not None:
            folding.producers.extended_to(int(state["producer_count"]))
            if reason == kernels.TABLE_FULL:
                folding.producers.grow()
            elif reason == kernels.CUT:
                folding.cut(int(state["max_timestamp"]))
        if reason == kernels.COMPRESSED_CONTROL:
            tell_compressed_control(state, window[cursor:])
        return cursor, reason

    def finding(self, size: int, reason: int) -> Finding | None:
        """Return the finding about a segment of `size` bytes whose walk stopped for `reason`, or None."""
        state, valid_bytes = self._state, self.valid_bytes
        if reason in _MESSAGES:
            kind, message = _MESSAGES[reason]
            return Finding(
                kind, self.path, valid_bytes, message.format(expected=state["expected"], found=state["found"])
            )
        if self.next_base_offset is None:
            return None
        if size == 0:
            return Finding(FindingKind.EMPTY_SEGMENT, self.path, -1, "a closed segment has 0 bytes")
        if valid_bytes < size:
            message = (
                "the last batch of a closed segment is incomplete: the file ends after "
                f"{count_of(size - valid_bytes, 'byte')} of it"
            )
            return Finding(FindingKind.TRUNCATED_SEGMENT, self.path, valid_bytes, message)
        if state["last_offset"] >= self.next_base_offset:
            message = (
                f"the last offset is {state['last_offset']}, but the next segment begins at {self.next_base_offset}"
            )
            return Finding(FindingKind.OFFSETS_OVERLAP, self.path, -1, message)
        return None

    def end(self, size: int, finding: Finding | None) -> SegmentEnd:
        """Return the result of the walk."""
        state = self._state
        return SegmentEnd(
            total_bytes=size,
            valid_bytes=self.valid_bytes,
            batch_count=int(state["batch_count"]),
            legacy_count=int(state["legacy_count"]),
            last_offset=int(state["last_offset"]),
            first_timestamp=int(state["first_timestamp"]),
            max_timestamp=int(state["max_timestamp"]),
            has_gaps=bool(state["is_missing_records"] or state["is_missing_batches"]),
            digest=f"{int(state['digest']):016x}",
            crc_checked=self.check_crc,
            finding=finding,
        )


def compressed_controls(rows: np.ndarray) -> np.ndarray:
    """Return the indexes of compressed control batches that have a record; the compiled loops cannot decode these.

    Brokers write control batches uncompressed, but can read compressed ones (DefaultRecordBatch.iterator,
    ProducerAppendInfo.append).

    Args:
        rows: structured array with the fields attributes and record_count.
    """
    is_control = (rows["attributes"] & CONTROL_MASK) != 0
    return np.flatnonzero(is_control & ((rows["attributes"] & CODEC_MASK) != 0) & (rows["record_count"] > 0))


def compressed_control_record(window: np.ndarray) -> tuple[int, int, int]:
    """Return (type, coordinator epoch, timestamp delta in ms) of the first record of a compressed control batch.

    If the record is damaged, the type is MALFORMED.

    Args:
        window: uint8; begins with the base offset of the batch.
    """
    batch = window[: LOG_OVERHEAD + int.from_bytes(window[8:LOG_OVERHEAD].tobytes(), "big")]
    codec, stored = int(batch[_ATTRIBUTES]) & CODEC_MASK, batch[HEADER_LENGTH:].tobytes()
    try:
        records = decompress(codec, stored, largest=_LARGEST_CONTROL)
    except CorruptRecordError:
        return kernels.MALFORMED, -1, 0
    return kernels.control_record(np.frombuffer(records, np.uint8), 0, len(records))


def tell_compressed_control(state: np.void, window: np.ndarray) -> None:
    """Decompress the control batch at which a walk stopped, and set the fields of its record in the state.

    Args:
        window: uint8; begins with this batch.
    """
    kind, coordinator_epoch, delta = compressed_control_record(window)
    state["control_position"] = state["valid_bytes"]
    state["control_type"], state["coordinator_epoch"], state["control_delta"] = kind, coordinator_epoch, delta


def _new_states(base_offset: int) -> np.ndarray:
    states = np.zeros(1, kernels.WALK_DTYPE)
    state = states[0]
    state["last_offset"] = base_offset - 1
    state["first_timestamp"] = state["max_timestamp"] = state["control_position"] = -1
    state["digest"] = START
    return states
