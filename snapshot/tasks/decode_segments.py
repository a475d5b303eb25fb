"""Segments to decode -> SEGMENTS rows: how each file ended, and its runs of producer deltas in parts.

Also rows of the table `record_batches`, and the CRC of their records as a column more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.collected.source import read_decodes
from tiersnap.snapshot.formats.records import COVERED, records_crc
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import FileRef, Segment
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.log.segment_walk import SegmentWalk
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.decodes import Decoded, SegmentFile, StoredDecode, decode_batches, with_files
from tiersnap.snapshot.tables.deltas import NO_DELTAS
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, RECORD_BATCHES, RECORD_BATCHES_TABLE, schema_of, to_batch


@dataclass(frozen=True, slots=True)
class WantedSegment:
    """A segment to decode.

    Attributes:
        cuts: offsets inside it at which a state is wanted.
        decode: of a collected folder: the object that holds the decode.
        not_read: why it could not be read before, where that alone is why it is wanted.
    """

    file: SegmentFile
    cuts: tuple[int, ...] = ()
    decode: str | None = None
    not_read: str | None = None


_WANTED_ROWS = Rows(WantedSegment)
WANTED = _WANTED_ROWS.schema


@dataclass(frozen=True)
class DecodeSegments:
    """WANTED rows -> SEGMENTS rows.

    Attributes:
        run: number of the run that decodes.
    """

    check_crc: bool
    run: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each segment, or take the decode that its host made.

        What cannot be read is a row with a finding, once for each reason.
        """
        for is_collected, rows in groupby(_WANTED_ROWS.read(batches), key=lambda wanted: wanted.decode is not None):
            if not is_collected:
                yield from decode_batches(filter(None, map(self._decode, rows)))
                continue
            for (_, name), group in groupby(rows, key=_place):
                yield from self._take(name or "", list(group))

    def _take(self, name: str, wanted: Sequence[WantedSegment]) -> Iterator[pa.RecordBatch]:
        """Decodes out of one object of a collected folder: all of it or nothing, since a decode is never a part."""
        filesystem, folder = wanted[0].file.folder
        path = f"{folder}/{name}"
        files = {each.file.base_offset: each.file for each in wanted}
        try:
            read = list(read_decodes(filesystem, path, files.keys()))
        except OSError as error:
            finding = Finding(FindingKind.UNREADABLE_FILE, path, -1, error.strerror or str(error))
            yield from decode_batches(
                self._unread(each.file, finding) for each in wanted if each.not_read != finding.message
            )
            return
        for rows in read:
            yield with_files(rows, files, run=self.run)

    def _unread(self, file: SegmentFile, finding: Finding) -> Decoded:
        base, following = file.base_offset, file.next_base_offset
        walk = SegmentWalk("", base_offset=base, next_base_offset=following, check_crc=False, keep_rows=False)
        return StoredDecode(file, walk.end(0, finding), self.run), [Run(base, NO_DELTAS, -1)]

    def _decode(self, wanted: WantedSegment) -> Decoded | None:
        """Return the decode; None where it is as before: nothing has changed."""
        file = wanted.file
        filesystem, folder = file.folder
        log = FileRef(f"{folder}/{file.base_offset:020d}.log", file.size_bytes, file.modified_ns)
        segment = Segment(file.base_offset, file.next_base_offset, log)
        runs, end = fold_segment(filesystem, segment, cuts=wanted.cuts, check_crc=self.check_crc)
        if wanted.not_read is not None and end.finding is not None and end.finding.message == wanted.not_read:
            return None
        return StoredDecode(file, end, self.run), runs


def _place(wanted: WantedSegment) -> tuple[tuple[str, str, int], str | None]:
    file = wanted.file
    return (file.log_dir, file.topic, file.partition), wanted.decode


@dataclass(frozen=True)
class DecodeBatches:
    """WANTED rows -> rows of RECORD_BATCHES_TABLE; of a damaged or unreadable segment those before the damage.

    Attributes:
        run: number of the run that decodes.
    """

    check_crc: bool
    run: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each segment."""
        for wanted in _WANTED_ROWS.read(batches):
            yield from self._decode(wanted.file)

    def _decode(self, file: SegmentFile) -> Iterator[pa.RecordBatch]:
        filesystem, folder = file.folder
        scan = SegmentScan(
            filesystem,
            f"{folder}/{file.base_offset:020d}.log",
            base_offset=file.base_offset,
            next_base_offset=file.next_base_offset,
            check_crc=self.check_crc,
        )
        identity = {
            "log_dir": file.log_dir,
            "topic": file.topic,
            "partition": file.partition,
            "topic_id": file.topic_id,
            "segment_base_offset": file.base_offset,
            "segment_size_bytes": file.size_bytes,
            "segment_modified_ns": file.modified_ns,
            "run": self.run,
        }
        for rows in scan:
            yield to_batch(rows, identity, RECORD_BATCHES_TABLE)


HEADERS = ("batch_length", "crc", *(COVERED.names or ()))
# `content` says of batches what is alike in their headers.
ALIKE = schema_of(
    *(RECORD_BATCHES.field(name) for name in (*PARTITION_KEY, "base_offset", *HEADERS)), ("content", pa.int64())
)
WITH_RECORDS_CRC = schema_of(
    *(RECORD_BATCHES.field(name) for name in (*PARTITION_KEY, "base_offset", "producer_id", "producer_epoch")),
    ("content", pa.int64()),
    ("records_crc", pa.int64()),
)


def add_records_crc(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield WITH_RECORDS_CRC rows for ALIKE rows."""
    for batch in batches:
        headers = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in HEADERS}
        kept = [batch.column(name) for name in WITH_RECORDS_CRC.names[:-1]]
        crcs = pa.array(records_crc(headers).astype(np.int64))
        yield pa.RecordBatch.from_arrays([*kept, crcs], schema=WITH_RECORDS_CRC)
