"""Find a log's producer state in remote storage.

`find_start` finds a snapshot that a claim marks as trusted. `state_at` applies the rule of remote_state.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from tiersnap.remote_storage.errors import ObjectNotFoundError, SnapshotChangedError
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.locks.claim import Claim, ClaimedSegment
from tiersnap.remote_storage.locks.claim_protocol import read_claim
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.remote_log.remote_log import RemoteLog, differs_from_claim, metadata_of, snapshot_in_claim
from tiersnap.remote_storage.remote_log.remote_state import RemoteSnapshot, find_state
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.errors import CorruptDataError, UnknownStateError
from tiersnap.snapshot.gate.next_steps import VERIFY_LOCATION
from tiersnap.snapshot.gate.printed_steps import Place
from tiersnap.snapshot.gate.step_template import Hole
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.log_dir import PartitionLog
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.remote_listing import ClaimedStart, ListedCopy, RemoteState

_log = logging.getLogger(__name__)


def state_at(
    location: RemoteLocation,
    partition: PartitionLog,
    offset: int,
    expiry: BrokerExpiry,
    *,
    untrusted: Collection[str] = (),
) -> RemoteState:
    """Return the producer state of a log at an exclusive offset, from its remote segments.

    The first search skips segments whose records are all older than `expiry.since`, because their producers have
    expired. If it fails, a second search takes all segments. The segments from the trusted snapshot up to `offset` are
    downloaded.

    Args:
        untrusted: ids of segments whose snapshots must not start a replay.

    Raises:
        UnknownStateError: remote storage does not determine the state.
        TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
    """

    def found_since(since: int | None) -> RemoteState:
        log = replace(RemoteLog.listed(location, partition, offset, since=since), untrusted=untrusted)
        start = partition.log_start_checkpoint
        return find_state(offset, log.snapshots, log, log_start_offset=start, expiry=expiry)

    try:
        found = found_since(expiry.since)
    except UnknownStateError:
        if expiry.since is None:
            raise
        found = found_since(None)
    for why in found.refused:
        _log.warning("%s: %s: tiersnap computes the producer state from earlier remote segments", partition.name, why)
    return found


def living_producers(
    location: RemoteLocation, partition: PartitionLog, offset: int, expiry: BrokerExpiry
) -> np.ndarray:
    """Return the ids of active producers in the remote snapshots at or below an offset, ascending.

    Segments whose records are all older than `expiry.since` are not read, because their producers have expired. A
    damaged snapshot adds no producer.

    Raises:
        TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
    """
    log = RemoteLog.listed(location, partition, offset, since=expiry.since)

    def ids(of: RemoteSnapshot) -> np.ndarray:
        try:
            entries = log.entries(of)
        except CorruptDataError as error:
            _log.debug("%s: not used: %s", partition.name, error.message)
            return np.empty(0, np.int64)
        living: np.ndarray = expiry.live(entries)["producer_id"]
        return living

    return np.unique(np.concatenate([np.empty(0, np.int64), *in_parallel(ids, log.snapshots)]))


def find_start(
    store: ObjectStore, partition: TopicIdPartition, copies: Iterable[ListedCopy], known: Mapping[str, Claim]
) -> ClaimedStart | None:
    """Return the first snapshot that the claim of its remote segment marks as trusted, or None if there is none.

    Claims are read in the order of `copies`, up to the first trusted snapshot. Each claim that is not in `known` needs
    one request.

    Args:
        copies: finished remote segments, the preferred ones first.
        known: claims that were already read when `copies` were listed, by segment id.
    """
    for copy in copies:
        segment = ClaimedSegment(partition, copy.base_offset, copy.leader_epochs[-1][0])
        try:
            claim = known.get(copy.segment_id) or read_claim(store, segment)
        except CorruptDataError:
            continue
        snapshot = snapshot_in_claim(claim, copy.segment_id)
        if snapshot is not None:
            crc, provenance = int(snapshot.crc32c, 16), Provenance(snapshot.provenance)
            return ClaimedStart(copy.next_base_offset, copy.segment_id, copy.base_offset, crc, provenance)
    return None


def read_start(location: RemoteLocation, partition: TopicIdPartition, start: ClaimedStart) -> bytes:
    """Return the bytes of the producer snapshot that `start` names.

    Raises:
        SnapshotChangedError: the snapshot was deleted; `find_start` may find another.
        CorruptDataError: the checksum differs from the claim's.
    """
    metadata = metadata_of(partition, start.segment_id, start.segment_base_offset, start.snapshot_offset)
    name = f"{location.log_uri(metadata)}: producer snapshot"
    try:
        data = location.layout.fetch_index(location.store, metadata, IndexType.PRODUCER_SNAPSHOT) or b""
    except ObjectNotFoundError as error:
        raise SnapshotChangedError(
            f"{metadata.id}: {error.message}", hint="run the same command again", offset=start.snapshot_offset, at=""
        ) from error
    if why := differs_from_claim(data, f"{start.snapshot_crc32c:08x}"):
        place = Place(values={Hole.REMOTE: location.words})
        raise CorruptDataError(f"{name} {why}", hint=place.text(VERIFY_LOCATION))
    return data
