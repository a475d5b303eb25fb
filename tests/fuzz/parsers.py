"""Every parser of bytes that somebody else may have written, with real bytes of its kind.

A parser answers or raises one of its documented errors, which is told in few words. Where a checksum covers the bytes,
what it answers is held against a readable decoder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from msgspec import structs

from tests.fuzz import checked
from tests.fuzz.seeds import batches, files, listing_seeds, manifest_seeds, metadata_record_seeds
from tests.reference import transaction_state as ts
from tests.reference.plugin_compressed import packed_sizes
from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.layouts import keys, rsm_manifest
from tiersnap.remote_storage.locks.claim import Attempt, Claim
from tiersnap.remote_storage.locks.lease import LeaseHolder
from tiersnap.remote_storage.locks.process import Process
from tiersnap.remote_storage.locks.read_back_record import PROBE_TOPIC, ReadBackRecord
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, decode_saved_configs
from tiersnap.remote_storage.metadata import metadata_records
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.snapshot_objects import SnapshotManifest, SnapshotRecord
from tiersnap.snapshot.collected.listing import Listing
from tiersnap.snapshot.collected.marker import Marker
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.formats import (
    checkpoints,
    compression,
    indexes,
    java_properties,
    meta_properties,
    topic_record,
    transaction_index,
    transaction_state,
)
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.report.model import Count, Sums, totals_of
from tiersnap.snapshot.report.run_history import RunHead, heads_of, index_of

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
CLAIM = Claim.of(Attempt.of(ID, "run-1", "s3://bucket/tables", Process("broker-1", 17, "99")))
RECORD = SnapshotRecord(1000, 56, "00000007", 1, Provenance.COMPUTED, 0)
TOTALS = totals_of({Verdict.READY: Count(1, 2)}, findings=0, recent=0, waiting_since=None)
SUMS = {each.name: getattr(TOTALS, each.name) for each in fields(Sums)}
HEAD = RunHead(
    run_id="run-1",
    finished_at=7,
    applied=True,
    source="/logs",
    remote="s3://b",
    version="0.1.0",
    partitions=1,
    **SUMS,
)
BEGUN = SavedConfigs(
    cluster_id=ID,
    topic="orders",
    topic_id=ID,
    partitions=(0, 1),
    before={"remote.log.copy.disable": None},
    process=Process("broker-1", 17, "99"),
)
READ_BACK = structs.replace(ReadBackRecord.empty(ID, "s3://bucket/tiers/", "AWS"), brokers="0" * 64)
READING_BACK = structs.replace(
    ReadBackRecord.empty(ID, "file:///t/", "inode 7"),
    topic=f"{PROBE_TOPIC}1795816782-0123abcd",
    process=BEGUN.process,
)
SNAPSHOT_MANIFEST = SnapshotManifest.of(TopicIdPartition("orders", ID, 0), "run-1", (RECORD,))


@dataclass(frozen=True)
class Parser:
    """One parser: its name, real bytes of its kind, how it is called, and what it may raise."""

    name: str
    seeds: Sequence[bytes]
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = (TiersnapError,)
    share: int = 10  # of the inputs, in parts; slow ones get fewer


def _text(parse: Callable[..., object]) -> Callable[[bytes], object]:
    """As the product gives it a file's bytes."""
    return lambda data: parse(data.decode("utf-8", "replace"), name="file")


def _chunks_of(manifest: bytes) -> Callable[[bytes], object]:
    """The chunk index in a manifest that is right but for it."""
    rest = {name: value for name, value in json.loads(manifest).items() if name != "chunkIndex"}
    behind = json.dumps(rest).encode()[1:]
    return lambda data: rsm_manifest.decode(b'{"chunkIndex":' + data + b"," + behind, name="index")


def _compressed(data: bytes) -> object:
    return compression.decompress(data[0] & 7 if data else 0, data[1:], largest=1 << 20)


def parsers() -> list[Parser]:
    """All of them."""
    manifests = manifest_seeds()
    variable = {
        "type": "variable",
        "originalChunkSize": 10,
        "originalFileSize": 25,
        "transformedChunks": packed_sizes([7, 9, 3]),
    }
    return [
        Parser("record batches", batches(), checked.record_batches, share=4),
        Parser("producer snapshot", files("*.snapshot", 700), checked.snapshot, share=4),
        Parser("offset index", files("*.index", 400), lambda data: indexes.decode_offset_index(data, base_offset=0)),
        Parser("time index", files("*.timeindex", 400), lambda data: indexes.decode_time_index(data, base_offset=0)),
        Parser(
            "transaction index", files("*.txnindex", 400), lambda data: transaction_index.decode(data, base_offset=0)
        ),
        Parser("offset checkpoint", files("*-offset-checkpoint", 2000), _text(checkpoints.parse_offsets)),
        Parser("leader epochs", files("leader-epoch-checkpoint", 500), _text(checkpoints.parse_leader_epochs)),
        Parser("partition.metadata", files("partition.metadata", 200), _text(checkpoints.parse_topic_id)),
        Parser("meta.properties", files("meta.properties", 500), _text(meta_properties.parse)),
        Parser(
            "server.properties",
            [*files("meta.properties", 500), b"rsm.config.key.prefix : a\\u0041\\\n b/\r\n!x\rlog.dirs=/a,/b"],
            lambda data: java_properties.parse(data.decode("utf-8", "replace")),
            (),
        ),
        Parser(
            "topic record",
            [bytes([1, 2, 0, 7]) + b"orders" + bytes(range(16)) + b"\0", bytes([1, 9, 0]) + bytes(range(16)) + b"\0"],
            topic_record.decode_topic_change,
        ),
        Parser("transaction state key", [ts.key("my-id"), ts.key("")], transaction_state.decode_key),
        Parser(
            "transaction state value",
            [
                ts.value(),
                ts.value(state=ts.ONGOING, partitions=[("orders", [0, 3]), ("payments", [1])]),
                ts.value(version=1, partitions=[("orders", [0, 3])], tags={7: b"later"}),
            ],
            transaction_state.decode_value,
        ),
        Parser("compressed records", checked.compressed_seeds(), _compressed),
        Parser("records of a segment", batches(), checked.records, share=2),
        Parser("remote log metadata", metadata_record_seeds(), metadata_records.decode),
        Parser("rsm-manifest", manifests, lambda data: rsm_manifest.decode(data, name="manifest")),
        Parser(
            "chunk index",
            [json.dumps(json.loads(each)["chunkIndex"]).encode() for each in manifests]
            + [json.dumps(variable).encode()],
            _chunks_of(manifests[0]),
        ),
        Parser(
            "claim",
            [CLAIM.encode(), CLAIM.released().encode(), CLAIM.finished_by_holder(None).encode()],
            lambda data: Claim.decode(data, name="claim"),
        ),
        Parser(
            "lease",
            [LeaseHolder.of("run-1", Process("a", 1, "2")).encode()],
            lambda data: LeaseHolder.decode(data, name="lease"),
        ),
        Parser("cluster record", [b'{"version":1,"clusterId":"%s"}' % ID.encode()], checked.cluster_record),
        Parser(
            "collected marker",
            [
                structs.replace(
                    Marker.of("/logs", MetaProperties(ID, 1, ID)), partitions=("orders-0",), absent={"gone-1": 5}
                ).encode(),
                Marker.of("/logs", None).encode(),
            ],
            lambda data: Marker.decode(data, name="collected.json"),
        ),
        Parser("collected listing", listing_seeds(), lambda data: Listing.decode(data, name="listing.parquet")),
        Parser(
            "object key",
            [key.encode() for key in checked.key_seeds()],
            lambda data: keys.parse(data.decode("utf-8", "replace")),
            (InvalidKeyError,),
        ),
        Parser(
            "unblock record",
            [BEGUN.encode()],
            lambda data: decode_saved_configs(data, "orders", ID, name="unblock.json"),
        ),
        Parser(
            "read-back record",
            [READ_BACK.encode(), READING_BACK.encode()],
            lambda data: ReadBackRecord.decode(data, name="read-back.json"),
        ),
        Parser("topic ids", [f"orders {ID}\n# old\npayments {ID}\n".encode()], checked.topic_ids, share=2),
        Parser(
            "client properties",
            [b"security.protocol=SASL_SSL\n# who\nsasl.username = me\n"],
            checked.client_properties,
            share=2,
        ),
        Parser("index of runs", [index_of((HEAD,))], heads_of, (ValueError,)),
        Parser("snapshot manifest", [SNAPSHOT_MANIFEST.encode()], lambda data: SnapshotManifest.decode(data, name="m")),
    ]
