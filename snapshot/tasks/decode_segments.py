"""Segments to decode -> SEGMENTS rows: how each file ended, and its runs of producer deltas in parts.

Also rows of the table `record_batches`, and the CRC of their records as a column more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from tiersnap.snapshot.codecs import Row, RowCodec
from tiersnap.snapshot.collected.source import read_decodes
from tiersnap.snapshot.formats.records import COVERED, records_crc
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import FileRef, Segment
from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.log.segment_walk import SegmentEnd, SegmentWalk
from tiersnap.snapshot.replay.segment_runs import Run, fold_segment
from tiersnap.snapshot.tables.deltas import NO_DELTAS, parts, to_lists
from tiersnap.snapshot.tables.listed import partition_folder
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, RECORD_BATCHES, SEGMENTS, TABLES, schema_of, to_batch

WANTED = schema_of(
    *(("log_dir", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("topic_id", pa.string())),
    *(("base_offset", pa.int64()), ("next_base_offset", pa.int64())),
    *(("size_bytes", pa.int64()), ("modified_ns", pa.int64()), ("cuts", pa.list_(pa.int64()))),
    ("decode", pa.string()),  # of a collected folder: the object that holds the decode
    ("not_read", pa.string()),  # why it could not be read before, where that alone is why it is wanted
)


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
        rows = (row for batch in batches for row in batch.to_pylist())
        for place, wanted in groupby(rows, key=itemgetter("log_dir", "topic", "partition", "decode")):
            if place[-1] is None:
                for row in wanted:
                    yield from self._decode(row)
            else:
                yield from self._take(place[-1], list(wanted))

    def _take(self, name: str, wanted: Sequence[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        """Decodes out of one object of a collected folder: all of it or nothing, since a decode is never a part."""
        filesystem, folder = partition_folder(*(wanted[0][name] for name in PARTITION_KEY))
        path = f"{folder}/{name}"
        try:
            yield from list(read_decodes(filesystem, path, wanted, run=self.run))
        except OSError as error:
            finding = Finding(FindingKind.UNREADABLE_FILE, path, -1, error.strerror or str(error))
            yield from (self._unread(row, finding) for row in wanted if row["not_read"] != finding.message)

    def _unread(self, wanted: Mapping[str, Any], finding: Finding) -> pa.RecordBatch:
        following = wanted["next_base_offset"]
        base_offset = wanted["base_offset"]
        walk = SegmentWalk("", base_offset=base_offset, next_base_offset=following, check_crc=False, keep_rows=False)
        identity = {**wanted, "run": self.run, "crc_checked": False}
        return segment_rows(identity, walk.end(0, finding), [Run(base_offset, NO_DELTAS, -1)])

    def _decode(self, wanted: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        filesystem, folder = partition_folder(*(wanted[name] for name in PARTITION_KEY))
        name = f"{folder}/{wanted['base_offset']:020d}.log"
        log = FileRef(name, wanted["size_bytes"], wanted["modified_ns"])
        segment = Segment(wanted["base_offset"], wanted["next_base_offset"], log)
        runs, end = fold_segment(filesystem, segment, cuts=wanted["cuts"], check_crc=self.check_crc)
        if wanted["not_read"] is not None and end.finding is not None and end.finding.message == wanted["not_read"]:
            return  # as before: nothing has changed
        yield segment_rows({**wanted, "run": self.run, "crc_checked": self.check_crc}, end, runs)


def segment_rows(identity: Mapping[str, Any], end: SegmentEnd, runs: list[Run]) -> pa.RecordBatch:
    """Rows of SEGMENTS of one decode; `identity` holds the columns up to `crc_checked`, but for part and digest."""
    values = {**end_values(end), **identity}
    pieces = [(run, piece) for run in runs for piece in parts(run.deltas)]
    count = len(pieces)
    columns = {
        field.name: pa.repeat(pa.scalar(values[field.name], field.type), count)
        for field in SEGMENTS
        if field.name in values
    }
    columns["part"] = pa.array(range(count), pa.int32())
    columns["run_start_offset"] = pa.array([run.start_offset for run, _ in pieces], pa.int64())
    columns["run_max_timestamp"] = pa.array([run.max_timestamp for run, _ in pieces], pa.int64())
    columns["deltas"] = to_lists([piece for _, piece in pieces])
    return pa.RecordBatch.from_arrays([columns[name] for name in SEGMENTS.names], schema=SEGMENTS)


_END = RowCodec(SegmentEnd, columns={"size": "size_bytes"}, without=("last_offset", "finding"))
_OF_FINDING = {"kind": "finding_kind", "position": "finding_position", "message": "finding_message"}
_FINDING = RowCodec(Finding, columns=_OF_FINDING, without=("path",))
_NO_FINDING = dict.fromkeys(_OF_FINDING.values())


def end_values(end: SegmentEnd) -> Row:
    """Return the columns of SEGMENTS that say how a decode ended."""
    finding = _NO_FINDING if end.finding is None else _FINDING.to_row(end.finding)
    return {**_END.to_row(end), **finding, "log_end_offset": end.last_offset + 1}


def segment_end(decode: Mapping[str, Any], path: str) -> SegmentEnd:
    """Return how the decode of a segment ended, from a row of SEGMENTS."""
    finding = None if decode["finding_kind"] is None else _FINDING.of_row(decode, path=path)
    return _END.of_row(decode, last_offset=decode["log_end_offset"] - 1, finding=finding)


@dataclass(frozen=True)
class DecodeBatches:
    """WANTED rows -> rows of TABLES["record_batches"]; of a damaged or unreadable segment those before the damage.

    Attributes:
        run: number of the run that decodes.
    """

    check_crc: bool
    run: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each segment."""
        for batch in batches:
            for wanted in batch.to_pylist():
                yield from self._decode(wanted)

    def _decode(self, wanted: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        filesystem, folder = partition_folder(*(wanted[name] for name in PARTITION_KEY))
        scan = SegmentScan(
            filesystem,
            f"{folder}/{wanted['base_offset']:020d}.log",
            base_offset=wanted["base_offset"],
            next_base_offset=wanted["next_base_offset"],
            check_crc=self.check_crc,
        )
        identity = {
            **wanted,
            "segment_base_offset": wanted["base_offset"],
            "segment_size_bytes": wanted["size_bytes"],
            "segment_modified_ns": wanted["modified_ns"],
            "run": self.run,
        }
        for rows in scan:
            yield to_batch(rows, identity, TABLES["record_batches"])


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
