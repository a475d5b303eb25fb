"""Parsers whose answer is held against a readable decoder, and those that read a file or an object."""

from __future__ import annotations

import struct
import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa

from tests.fuzz.seeds import ID, METADATA
from tests.reference.crc32c import crc32c
from tests.reference.record_batch import read_segment
from tests.reference.walked import walked
from tiersnap.jobs.cli.text_files import read_properties, read_topic_ids
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.cluster_record import read_cluster_id
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import FileRef, Segment
from tiersnap.snapshot.log.records import SegmentRecords

PARTITION = TopicIdPartition("orders", ID, 3)


class WrongAnswerError(AssertionError):
    """Raised when a parser answers what the readable decoder does not."""


def record_batches(data: bytes) -> None:
    """The compiled walk against the readable decoder: the same rows up to the same byte."""
    rows, position, _, _ = walked(data)
    expected = read_segment(data)
    if rows.tolist() != expected.rows() or position != expected.valid_bytes:
        raise WrongAnswerError(f"{rows.size} batches up to {position}, not {expected}")


def records(data: bytes) -> None:
    """Records of one segment file; what is wrong is a finding."""
    path = _folder() / "00000000000000000000.log"
    path.write_bytes(data)
    found = SegmentRecords(LOCAL, Segment(0, None, FileRef(str(path), len(data), 0)))
    for record in found:
        if record.position >= len(data):
            raise WrongAnswerError(f"a record at byte {record.position} of {len(data)}")


def snapshot(data: bytes) -> None:
    """What is read is what Kafka's reader reads: version, CRC, count and length agree."""
    entries = snapshot_file.decode(data)
    version, crc, count = struct.unpack_from(">hIi", data)
    if (version, crc) != (1, crc32c(data[6:])) or len(data) != 10 + 46 * count:
        raise WrongAnswerError(f"{entries.size} entries of a file that no broker reads")
    # As a broker's map: of one producer the last entry.
    kept = {entry[0]: entry for entry in struct.iter_unpack(">qhiqiqiq", data[10:])}
    if entries.tolist() != [kept[producer_id] for producer_id in sorted(kept)]:
        raise WrongAnswerError("other entries than a broker loads from the file")


def cluster_record(data: bytes) -> None:
    """The cluster that an object names."""
    store = DirectoryStore(_folder())
    path = _folder() / keys.cluster(PARTITION)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    read_cluster_id(store, PARTITION)


def topic_ids(data: bytes) -> None:
    """A file of --topic-ids."""
    path = _folder() / "ids"
    path.write_bytes(data)
    read_topic_ids(path)


def client_properties(data: bytes) -> None:
    """A file of --command-config."""
    path = _folder() / "client.properties"
    path.write_bytes(data)
    read_properties(path)


def key_seeds() -> list[str]:
    """Keys of every kind."""
    return [
        *(keys.segment(kind, METADATA) for kind in (KeyKind.LOG, KeyKind.RSM_MANIFEST, KeyKind.LOCAL_LOG)),
        keys.unblock("orders", ID),
        keys.snapshot(PARTITION, 1000),
        keys.cluster(PARTITION),
        keys.claim(PARTITION, 1000, 3),
        keys.snapshot_manifest(PARTITION, "20260101T000000Z-abcdef"),
    ]


def compressed_seeds() -> list[bytes]:
    """A codec's number and its data."""
    data = bytes(range(64)) * 4
    codecs = {1: "gzip", 3: "lz4", 4: "zstd"}
    made = [bytes([number]) + pa.Codec(name).compress(data, asbytes=True) for number, name in codecs.items()]
    block = pa.Codec("snappy").compress(data, asbytes=True)
    java = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
    return [*made, bytes([2]) + block, bytes([2]) + java]


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="tiersnap-fuzz-"))
