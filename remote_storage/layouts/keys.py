"""Build and parse object keys; no other module does.

Segments, as the Aiven plugin names them (io.aiven.kafka.tieredstorage.ObjectKeyFactory):

    <topic>-<topic id>/<partition>/<start offset>-<segment id>.<log | indexes | rsm-manifest>
    payments-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ.log
    payments-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ.indexes
    payments-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ.rsm-manifest

Segments, as Kafka's LocalTieredStorage names them below its directory:

    kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id><suffix>
    kafka-tiered-storage/payments-7-MWJ6FHTfRYy67jzwZdeqSQ/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ.log
    suffixes .log .index .timeindex .txnindex .leader_epoch_checkpoint .snapshot

Producer snapshots, their manifests, and the cluster id of a partition. Brokers do not read these objects:

    snapshots/<topic>-<topic id or no-topic-id>/<partition>/<end offset>.snapshot
    snapshots/<topic>-<topic id or no-topic-id>/<partition>/manifest-<run id>.json
    snapshots/<topic>-<topic id or no-topic-id>/<partition>/cluster.json
    snapshots/payments-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000005678.snapshot
    snapshots/old.topic-no-topic-id/7/manifest-2026-11-21T1530.json
    snapshots/payments-MWJ6FHTfRYy67jzwZdeqSQ/7/cluster.json

Claims of segments, manifest caches of partitions, saved configs of topics, the result of `publish --prove` for a
cluster, and probes for conditional writes:

    claims/<topic>-<topic id>/<partition>/<base offset>-<leader epoch>.json
    claims/<topic>-<topic id>/<partition>/manifests.json
    claims/<topic>-<topic id>/unblock.json
    claims/read-back-<cluster id>.json
    claims/probe-<32 hex digits>
    claims/payments-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-5.json
    claims/payments-MWJ6FHTfRYy67jzwZdeqSQ/7/manifests.json
    claims/payments-MWJ6FHTfRYy67jzwZdeqSQ/unblock.json

Offsets have 20 digits; a snapshot's offset is exclusive. A claim's leader epoch is the last leader epoch of the
segment. So if a new leader truncates and rewrites the log, the rewritten segments have other claims. Ids are 22
characters base64url. Their last character is A, Q, g or w, because it encodes only two bits. `no-topic-id` is shorter,
so it is never an id.

Keys are relative to the store, whose URI is a folder: `s3://bucket/tiered` is the plugin's `key.prefix=tiered/`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.metadata.segment_metadata import (
    UUID_PATTERN,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    partition_of,
)
from tiersnap.snapshot.gate.printed_steps import NEXT_STEP
from tiersnap.snapshot.gate.verdict import Verdict

NO_TOPIC_ID = "no-topic-id"
SNAPSHOTS = "snapshots"
CLAIMS = "claims"
LOCAL_TIERED_STORAGE = "kafka-tiered-storage"

_OFFSET = "[0-9]{20}"
_NUMBER = "0|[1-9][0-9]{0,9}"
_SHOWN = 256  # characters of a key, in an error
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+~=-]{0,127}")


class KeyKind(StrEnum):
    """A kind of object. All keys of a kind end with its `suffix`."""

    LOG = ".log"
    INDEXES = ".indexes"
    RSM_MANIFEST = ".rsm-manifest"
    LOCAL_LOG = "local .log"
    LOCAL_OFFSET_INDEX = "local .index"
    LOCAL_TIME_INDEX = "local .timeindex"
    LOCAL_TRANSACTION_INDEX = "local .txnindex"
    LOCAL_LEADER_EPOCHS = "local .leader_epoch_checkpoint"
    LOCAL_SNAPSHOT = "local .snapshot"
    SNAPSHOT = ".snapshot"
    SNAPSHOT_MANIFEST = ".json"
    CLUSTER = "cluster.json"
    CLAIM = "claim .json"
    MANIFESTS = "manifests.json"
    UNBLOCK = "unblock.json"

    @property
    def suffix(self) -> str:
        """Return the text with which the keys of this kind end."""
        return self.value.rpartition(" ")[2]

    @property
    def is_local(self) -> bool:
        """Return whether the key belongs to the layout of LocalTieredStorage."""
        return self.value.startswith("local ")


_AIVEN_KINDS = {kind.suffix: kind for kind in (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST)}
_LOCAL_KINDS = {kind.suffix: kind for kind in KeyKind if kind.is_local}
_OF_SEGMENTS = frozenset({*_AIVEN_KINDS.values(), *_LOCAL_KINDS.values()})
_AIVEN = re.compile(rf"(.+)-({UUID_PATTERN})/({_NUMBER})/({_OFFSET})-({UUID_PATTERN})(\.[a-z-]+)")
_LOCAL = re.compile(
    rf"{LOCAL_TIERED_STORAGE}/(.+)-({_NUMBER})-({UUID_PATTERN})/({_OFFSET})-({UUID_PATTERN})(\.[a-z_]+)"
)
_TOPIC_FOLDER = re.compile(rf"(.+)-({UUID_PATTERN})/")
_LOCAL_FOLDER = re.compile(rf"{LOCAL_TIERED_STORAGE}/(.+)-({_NUMBER})-({UUID_PATTERN})/")
_SNAPSHOT = re.compile(
    rf"{SNAPSHOTS}/(.+)-({UUID_PATTERN}|{NO_TOPIC_ID})/({_NUMBER})/"
    rf"(?:({_OFFSET})\.snapshot|manifest-(.+)\.json|(cluster)\.json)"
)
_CLAIM = re.compile(rf"{CLAIMS}/(.+)-({UUID_PATTERN})/({_NUMBER})/({_OFFSET})-({_NUMBER})\.json")
_MANIFESTS = re.compile(rf"{CLAIMS}/(.+)-({UUID_PATTERN})/({_NUMBER})/manifests\.json")
_UNBLOCK = re.compile(rf"{CLAIMS}/(.+)-({UUID_PATTERN})/unblock\.json")


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """The parts of a key. A field is None if keys of this kind do not have it."""

    kind: KeyKind
    partition: TopicIdPartition  # partition 0 for UNBLOCK, because that key has no partition
    # start offset of a segment, base offset of a claim, or exclusive end offset of a snapshot
    offset: int | None = None
    segment_id: str | None = None
    run_id: str | None = None
    leader_epoch: int | None = None


def offset_text(offset: int) -> str:
    """Return an offset as 20 digits, as in Kafka's file names.

    Raises:
        InvalidKeyError: `offset` is negative, or needs more than 63 bits.
    """
    if not 0 <= offset < 1 << 63:
        raise InvalidKeyError(f"{offset} is not an offset")
    return f"{offset:020d}"


def segment(kind: KeyKind, metadata: RemoteLogSegmentMetadata) -> str:
    """Return the key of one object of a remote segment. `kind` also determines the layout."""
    return _segment(kind, metadata.id, metadata.start_offset)


def segment_stem(metadata: RemoteLogSegmentMetadata, *, local: bool = False) -> str:
    """Return the prefix of the keys of a remote segment's objects. No other key has this prefix."""
    kind = KeyKind.LOG
    if local:
        kind = KeyKind.LOCAL_LOG
    return segment(kind, metadata).removesuffix(kind.suffix)


def partition_segments(partition: TopicIdPartition, *, local: bool = False) -> str:
    """Return the prefix of the keys of a partition's segments. No other key has this prefix.

    The partition must have a topic id.
    """
    if local:
        return f"{LOCAL_TIERED_STORAGE}/{partition.topic}-{partition.partition}-{_id(partition)}/"
    return f"{topic_folder(partition)}{partition.partition}/"


def partition_snapshots(partition: TopicIdPartition) -> str:
    """Return the prefix of the keys of a partition's snapshots, snapshot manifests and `cluster.json`.

    No other key has this prefix.
    """
    return f"{SNAPSHOTS}/{partition.topic}-{partition.topic_id or NO_TOPIC_ID}/{partition.partition}/"


def snapshot(partition: TopicIdPartition, offset: int) -> str:
    """Return the key of the producer snapshot at a snapshot offset (exclusive)."""
    return f"{partition_snapshots(partition)}{offset_text(offset)}{KeyKind.SNAPSHOT.suffix}"


def snapshot_manifest(partition: TopicIdPartition, run_id: str) -> str:
    """Return the key of the manifest that a run writes for a partition's snapshots.

    Raises:
        InvalidKeyError: `run_id` is not 1 to 128 letters, digits and `._:+~=-`, beginning with a letter or digit.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise InvalidKeyError(f"{run_id!r} is not a run id, which has 1 to 128 letters, digits and ._:+~=-")
    return f"{partition_snapshots(partition)}manifest-{run_id}{KeyKind.SNAPSHOT_MANIFEST.suffix}"


def cluster(partition: TopicIdPartition) -> str:
    """Return the key of the object with the id of the cluster from which a partition was uploaded."""
    return f"{partition_snapshots(partition)}{KeyKind.CLUSTER.suffix}"


def partition_claims(partition: TopicIdPartition) -> str:
    """Return the prefix of the keys of a partition's claims and manifest cache. The partition must have a topic id."""
    return f"{topic_claims(partition)}{partition.partition}/"


def topic_folder(partition: TopicIdPartition) -> str:
    """Return the prefix of the keys of all segments of the partition's topic, in the Aiven layout.

    No other key has this prefix. The partition must have a topic id.
    """
    return f"{partition.topic}-{_id(partition)}/"


def topic_claims(partition: TopicIdPartition) -> str:
    """Return the prefix of the keys of all claims of the partition's topic. The partition must have a topic id."""
    return f"{CLAIMS}/{topic_folder(partition)}"


def claim(partition: TopicIdPartition, base_offset: int, leader_epoch: int) -> str:
    """Return the key of a segment's claim. `leader_epoch` is the last leader epoch of the segment.

    Raises:
        InvalidKeyError: `base_offset` is not an offset, the partition has no topic id, or `leader_epoch` is negative or
            above 31 bits.
    """
    if not 0 <= leader_epoch < 1 << 31:
        raise InvalidKeyError(f"{leader_epoch} is not a leader epoch")
    return f"{partition_claims(partition)}{offset_text(base_offset)}-{leader_epoch}{KeyKind.CLAIM.suffix}"


def manifests(partition: TopicIdPartition) -> str:
    """Return the key of a partition's manifest cache. The partition must have a topic id."""
    return f"{partition_claims(partition)}{KeyKind.MANIFESTS.suffix}"


def unblock(topic: str, topic_id: str) -> str:
    """Return the key of the saved configs of a topic."""
    name = TopicIdPartition(topic, topic_id, 0)
    return f"{CLAIMS}/{name.topic}-{name.topic_id}/{KeyKind.UNBLOCK.suffix}"


def read_back(cluster_id: str) -> str:
    """Return the key of a cluster's ReadBackRecord.

    Raises:
        InvalidKeyError: `cluster_id` is not 1 to 64 letters, digits and `-_`.
    """
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise InvalidKeyError(
            f"{cluster_id[:_SHOWN]!r} is not a cluster id, which has 1 to 64 letters, digits, - and _"
        )
    return f"{CLAIMS}/read-back-{cluster_id}.json"


def topic(topic: str, *, local: bool = False) -> str:
    """Return a common prefix of the keys of a topic's segments, whatever its topic id is.

    Keys of other topics may have the same prefix.
    """
    if local:
        return f"{LOCAL_TIERED_STORAGE}/{topic}-"
    return f"{topic}-"


def topic_snapshots(topic: str) -> str:
    """Return a common prefix of the keys of a topic's snapshots, whatever its topic id is.

    Keys of other topics may have the same prefix.
    """
    return f"{SNAPSHOTS}/{topic}-"


def topic_of_folder(folder: str) -> TopicIdPartition | None:
    """Return the topic whose segments are in `folder`, or None if `folder` is not a folder of segments.

    The result has the topic name, the topic id and the partition number 0. The folder may be of any layout.
    """
    found = _LOCAL_FOLDER.fullmatch(folder) or _TOPIC_FOLDER.fullmatch(folder)
    if found is None:
        return None
    try:
        return partition_of(found[1], found[found.re.groups], 0)
    except InvalidKeyError:
        return None


def parse(key: str) -> ParsedKey:
    """Return the parts of a key. Raises InvalidKeyError: the key has none of the forms of this module."""
    folder, _, _ = key.partition("/")
    found = _PARSERS.get(folder, _parse_aiven)(key)
    if found is not None:
        return found
    raise InvalidKeyError(
        f"{key[:_SHOWN]!r} is not an object key of tiersnap, the Aiven plugin or LocalTieredStorage",
        hint="check the prefix in --remote: it must be the plugin's key.prefix",
        key=key,
    )


def _parse_snapshot(key: str) -> ParsedKey | None:
    if not (match := _SNAPSHOT.fullmatch(key)):
        return None
    topic, topic_id, number, offset, run_id, cluster = match.groups()
    if topic_id == NO_TOPIC_ID:
        topic_id = None
    partition = partition_of(topic, topic_id, int(number))
    if offset is not None:
        return ParsedKey(KeyKind.SNAPSHOT, partition, offset=_offset(offset, key))
    if cluster is not None:
        return ParsedKey(KeyKind.CLUSTER, partition)
    if _RUN_ID.fullmatch(run_id) is None:
        return None
    return ParsedKey(KeyKind.SNAPSHOT_MANIFEST, partition, run_id=run_id)


def _parse_claim(key: str) -> ParsedKey | None:
    if (match := _CLAIM.fullmatch(key)) and int(match[5]) < 1 << 31:
        partition = partition_of(match[1], match[2], int(match[3]))
        return ParsedKey(KeyKind.CLAIM, partition, _offset(match[4], key), leader_epoch=int(match[5]))
    if match := _MANIFESTS.fullmatch(key):
        return ParsedKey(KeyKind.MANIFESTS, partition_of(match[1], match[2], int(match[3])))
    if match := _UNBLOCK.fullmatch(key):
        return ParsedKey(KeyKind.UNBLOCK, partition_of(match[1], match[2], 0))
    return None


def _parse_local(key: str) -> ParsedKey | None:
    match = _LOCAL.fullmatch(key)
    if match is None or match[6] not in _LOCAL_KINDS:
        return None
    partition = partition_of(match[1], match[3], int(match[2]))
    return ParsedKey(_LOCAL_KINDS[match[6]], partition, _offset(match[4], key), match[5])


def _parse_aiven(key: str) -> ParsedKey | None:
    match = _AIVEN.fullmatch(key)
    if match is None or match[6] not in _AIVEN_KINDS:
        return None
    partition = partition_of(match[1], match[2], int(match[3]))
    return ParsedKey(_AIVEN_KINDS[match[6]], partition, _offset(match[4], key), match[5])


# Parsers by the first folder of a key. Segment keys never begin with such a folder, because it has no topic id.
_PARSERS = {SNAPSHOTS: _parse_snapshot, CLAIMS: _parse_claim, LOCAL_TIERED_STORAGE: _parse_local}


def recognise(key: str) -> ParsedKey | None:
    """Return the parts of a key, or None if it has none of the forms of this module."""
    try:
        return parse(key)
    except InvalidKeyError:
        return None


def _segment(kind: KeyKind, segment_id: RemoteLogSegmentId, start_offset: int) -> str:
    if kind not in _OF_SEGMENTS:
        raise InvalidKeyError(f"{kind.name} is not a part of a remote segment")
    folder = partition_segments(segment_id.topic_id_partition, local=kind.is_local)
    return f"{folder}{offset_text(start_offset)}-{segment_id.segment_id}{kind.suffix}"


def _id(partition: TopicIdPartition) -> str:
    if partition.topic_id is None:
        raise InvalidKeyError(
            f"{partition}: the topic id is unknown, and remote segments need one",
            hint=NEXT_STEP[Verdict.TOPIC_ID_UNKNOWN],
        )
    return partition.topic_id


def _offset(digits: str, key: str) -> int:
    offset = int(digits)
    if offset >= 1 << 63:
        raise InvalidKeyError(f"{key!r}: {digits} is not an offset", key=key)
    return offset
