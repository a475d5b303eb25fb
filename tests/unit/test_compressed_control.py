"""A compressed control batch counts as Kafka counts it: decompressed, its first record says all."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.reference import log_builder as lb
from tests.reference.command import assert_said, tiersnap
from tests.reference.indexes_in_memory import check_indexes
from tests.reference.small_log import file_of
from tests.reference.walked import walked
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.kernels import batch as kernels
from tiersnap.snapshot.repair.index_check import FoundIndexes

pytestmark = pytest.mark.unit

CODECS = {1: gzip.compress, 2: pa.Codec("snappy").compress, 3: pa.Codec("lz4").compress, 4: pa.Codec("zstd").compress}
ABORT_VALUE = struct.pack(">hi", 0, 4)


def abort(offset: int, codec: int = 0, records: bytes | None = None) -> bytes:
    """An ABORT marker of producer 7, coordinator epoch 4; `records` are its bytes in place of the right ones."""
    body = lb.record(0, 0, struct.pack(">hh", 0, lb.ABORT), ABORT_VALUE)
    if records is None:
        records = bytes(CODECS[codec](body)) if codec else body
    return lb.raw_batch(
        offset,
        last_offset_delta=0,
        record_count=1,
        records=records,
        attributes=lb.CONTROL | lb.TRANSACTIONAL | codec,
        producer_id=7,
        epoch=2,
    )


def segment(codec: int = 0, records: bytes | None = None) -> bytes:
    opened = lb.data_batch(0, 3, 7, 2, 0, transactional=True)
    return opened + abort(3, codec, records) + lb.data_batch(4, 2, 7, 2, 3)


def written(log_dir: Path, codec: int) -> Path:
    """A log of two segments, the first with the marker."""
    segments = {0: [segment(codec)], 6: [lb.data_batch(6, 1, 7, 2, 5)]}
    return lb.write_partition(log_dir, "orders", 0, segments, high_watermark=7, indexes=True)


@pytest.mark.parametrize("codec", CODECS)
def test_walk_gives_the_same_rows_when_a_marker_is_compressed(codec: int) -> None:
    names = ["base_offset", "control_type", "coordinator_epoch", "control_timestamp", "record_count", "producer_epoch"]
    rows, _, reason, _ = walked(segment(codec))
    assert reason == kernels.END
    plain, *_ = walked(segment())
    assert rows[names].tolist() == plain[names].tolist()


# As Kafka 4.1.1 folds the segment, whatever the codec (tests/broker/oracle/FoldOracle.java).
BY_KAFKA = [(7, 2, 4, 5, 1, lb.TIMESTAMP + 1, 4, -1)]


@pytest.mark.parametrize("codec", [0, *CODECS])
def test_repair_writes_kafkas_snapshot_when_a_marker_is_compressed(tmp_path: Path, codec: int) -> None:
    folder = written(tmp_path, codec)
    assert_said(tiersnap("repair", tmp_path, "--apply"), 0)
    assert snapshot_file.decode(file_of(folder, 6, ".snapshot").read_bytes()).tolist() == BY_KAFKA


@pytest.mark.parametrize("codec", CODECS)
def test_index_check_finds_the_aborted_transaction_when_its_marker_is_compressed(codec: int) -> None:
    none_open = np.empty(0, [("producer_id", "<i8"), ("first_offset", "<i8")])
    plain, compressed = (check_indexes(segment(each), 0, FoundIndexes(), none_open) for each in (0, codec))
    assert plain.transaction_index
    assert compressed.transaction_index == plain.transaction_index


@pytest.mark.parametrize("crc", [(), ("--no-crc",)])
@pytest.mark.parametrize("codec", CODECS)
def test_dump_shows_the_marker_when_it_is_compressed(tmp_path: Path, codec: int, crc: tuple[str, ...]) -> None:
    log = file_of(tmp_path, 0, ".log")
    log.write_bytes(segment(codec))
    ran = tiersnap("dump", log, *crc)
    assert_said(ran, 0)
    (row,) = (row for row in json.loads(ran.out)["result"][0]["entries"] if row["is_control"])
    assert (row["control_type"], row["coordinator_epoch"], row["problem"]) == ("ABORT", 4, None)


@pytest.mark.parametrize(
    ("codec", "records"),
    [
        (1, b"no gzip"),
        (2, b"\xff\xff\xff\xff\x0f"),
        (4, bytes(pa.Codec("zstd").compress(b"\0" * 20))),
        (1, gzip.compress(b"\x08\0\0\0\2\0")),
        (7, b"no codec"),
    ],
    ids=["no gzip", "snappy without an end", "zstd of zeros", "gzip of a short key", "no codec"],
)
def test_a_wrong_compressed_control_record_is_damage(tmp_path: Path, codec: int, records: bytes) -> None:
    folder = lb.write_partition(tmp_path, "orders", 0, {0: [segment(codec, records)]}, high_watermark=6)
    assert_said(tiersnap("scan", tmp_path), 5, "BAD_CONTROL_RECORD")
    assert_said(tiersnap("dump", file_of(folder, 0, ".log")), 5, "control record")
