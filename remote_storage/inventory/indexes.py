"""The indexes of a remote segment, and the leader epochs of its partition at that time."""

from __future__ import annotations

from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment
from tiersnap.remote_storage.layouts.keys import KeyKind, ObjectKeys
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata.leader_epochs import epochs_in_range
from tiersnap.remote_storage.stores.object_store import ObjectInfo, ObjectStore
from tiersnap.remote_storage.stores.small_object import INDEXES_BYTES, get_small
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs, parse_leader_epochs
from tiersnap.snapshot.units import count_of


def read_indexes(store: ObjectStore, copy: RemoteSegment) -> dict[IndexType, bytes | None]:
    """All indexes of a copy; None for a transaction index that it never had.

    Raises:
        ObjectNotFoundError: an object of the copy is gone.
        CorruptDataError: it is shorter than its manifest says, or not what was stored.
    """
    if copy.places is None:
        return {index: copy.layout.fetch_index(store, copy.metadata, index) for index in IndexType}
    key = ObjectKeys().segment(KeyKind.INDEXES, copy.metadata)
    size = max(place[0] + place[1] for place in copy.places.values() if place)
    data = get_small(store, ObjectInfo(key, size, None, 0), limit=INDEXES_BYTES)
    indexes: dict[IndexType, bytes | None] = {}
    for index, place in copy.places.items():
        indexes[index] = None if place is None else data[place[0] : place[0] + place[1]]
        if place is not None and len(indexes[index] or b"") != place[1]:
            raise CorruptDataError(f"{store.uri}{key}: {index} ends after {count_of(len(data), 'byte')}", key=key)
    return indexes


def read_lineage(store: ObjectStore, copy: RemoteSegment) -> LeaderEpochs:
    """The leader epochs of the partition as they were when the copy was made, all that began below its end.

    Of a copy that the plugin encrypted its manifest alone can be read, so these are the epochs of its segment.

    Raises:
        CorruptDataError: not a leader-epoch-checkpoint, or not the epochs that the copy's manifest tells.
    """
    if copy.is_encrypted:
        return copy.metadata.segment_leader_epochs
    name = f"{store.uri}{copy.layout.log_key(copy.metadata)}: leader epochs"
    data = read_indexes(store, copy)[IndexType.LEADER_EPOCH] or b""
    lineage = parse_leader_epochs(data.decode("utf-8", "replace"), name=name)
    if epochs_in_range(lineage, copy.start_offset, copy.end_offset) != copy.metadata.segment_leader_epochs:
        raise CorruptDataError(f"{name} {lineage} are not those of the manifest {copy.metadata.segment_leader_epochs}")
    return lineage
