"""Records of `unblock` whose topic was deleted: there is nothing left to put back.

Of a topic that lives a record stays whatever its age: the settings in it are put back by the next `unblock`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.inventory.partition_objects import StoredRecord
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.retire.known_to_cluster import Ask, KnownPartition
from tiersnap.remote_storage.retire.orphans import TOPIC_DELETED, Aged, Orphan
from tiersnap.remote_storage.retire.outcomes import Fate, OrphanKind
from tiersnap.remote_storage.stored.saved_configs import SavedConfigs, decode_saved_configs
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.small_object import MANIFEST_BYTES, read_decoded
from tiersnap.snapshot.errors import CorruptDataError


def judge_saved_configs(store: ObjectStore, records: Iterable[StoredRecord], aged: Aged, ask: Ask) -> Iterator[Orphan]:
    """Records that may go, or of which nobody can say so.

    Args:
        ask: what the cluster knows of partitions.
    """
    for record in records:
        if not aged.is_old(record.info.modified):
            continue
        try:
            decode = partial(decode_saved_configs, topic=record.topic, topic_id=record.topic_id)
            saved = read_decoded(store, record.info.key, decode, limit=MANIFEST_BYTES)
        except ObjectNotFoundError:
            continue  # the run that made it has ended meanwhile
        except CorruptDataError as error:
            yield _orphan(record, Fate.LEAVE, error.message)
            continue
        known = ask(TopicIdPartition(saved.topic, saved.topic_id, number) for number in saved.partitions)
        if not any(each.is_live for each in known.values()):
            refusal = _refusal(saved, known)
            yield _orphan(record, Fate.REFUSE if refusal else Fate.REMOVE, refusal or TOPIC_DELETED)


def _refusal(saved: SavedConfigs, known: Mapping[TopicIdPartition, KnownPartition]) -> str:
    """Only of a partition whose remote segments the cluster has deleted is it certain that the topic is gone."""
    refusals = [each.refusal(saved.cluster_id) for each in known.values()]
    return next(filter(None, refusals), "") if refusals else "it names no partition"


def _orphan(record: StoredRecord, action: Fate, reason: str) -> Orphan:
    partition = TopicIdPartition(record.topic, record.topic_id, 0)
    return Orphan(OrphanKind.UNBLOCK, action, reason, (record.info.key,), record.info.size, partition)
