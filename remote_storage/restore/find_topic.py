"""Find the partitions of a topic in remote storage for a restore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.remote_log.cluster_record import read_cluster_id
from tiersnap.remote_storage.remote_log.partition_objects import PartitionObjects, list_topic
from tiersnap.remote_storage.restore.request import RestoreRequest
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError, NewerFormatError, UsageError
from tiersnap.snapshot.units import count_of

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition in remote storage, and the id of the cluster that wrote it; None if the id is unknown."""

    listed: PartitionObjects
    cluster_id: str | None


def find_topic(store: ObjectStore, asked: RestoreRequest) -> list[FoundPartition]:
    """Return the partitions of the topic in remote storage.

    Raises:
        ObjectNotFoundError: the topic, or a requested partition, has no segment in remote storage.
        UsageError: the topic has several topic ids or layouts, the user named another cluster than the recorded one, or
            one offset was given for several partitions.
        CorruptDataError, NewerFormatError: the recorded cluster id cannot be read, and the user named no cluster.
    """
    listed = _find_partitions(store, asked)
    _check_offsets(listed, asked)
    return [FoundPartition(each, _source_cluster(store, each, asked.cluster_id)) for each in listed]


def _check_offsets(listed: Sequence[PartitionObjects], asked: RestoreRequest) -> None:
    for option, offset in (("--log-start", asked.log_start), ("--until", asked.until)):
        if offset is not None and len(listed) > 1:
            named = ", ".join(str(each.partition) for each in listed[:_MOST_NAMED])
            raise UsageError(
                f"{option} {offset} can apply to only one partition, but {count_of(len(listed), 'partition')} are "
                f"selected: {named}",
                hint=f"select one partition: {option} {offset} --partition {listed[0].partition}",
            )


def _find_partitions(store: ObjectStore, asked: RestoreRequest) -> list[PartitionObjects]:
    """Return the partitions, which all have the same topic id and the same layout.

    If remote storage has several topic ids or layouts of the topic, the user must name one.
    """
    topic, listed = asked.name, _list_wanted(store, asked)
    missing = asked.numbers - {each.partition.partition for each in listed}
    if not listed or missing:
        number = ""
        if missing:
            number = f", partition {min(missing)}"
        raise ObjectNotFoundError(
            f"{store.uri}: no remote segment of {topic}{number}",
            hint="give as --remote the location of the topic's segments, including the plugin's key.prefix",
        )
    _check_is_one_topic(store, topic, listed)
    return listed


def _list_wanted(store: ObjectStore, asked: RestoreRequest) -> list[PartitionObjects]:
    """List the requested partitions, under the requested topic id and layout.

    If the user named no partition, topic id or layout, the listing includes all of them.
    """
    numbers, only = asked.numbers, None
    if len(numbers) == 1:
        (only,) = numbers
    found = list_topic(store, asked.name, topic_id=asked.topic_id, partition=only, local=asked.is_local)
    return [each for each in found if not numbers or each.partition.partition in numbers]


def _check_is_one_topic(store: ObjectStore, topic: str, listed: Sequence[PartitionObjects]) -> None:
    topic_ids = list(dict.fromkeys(each.partition.topic_id for each in listed))
    if len(topic_ids) > 1:
        raise UsageError(
            f"{store.uri}: {topic} has segments under {len(topic_ids)} topic ids: {named(map(str, topic_ids))}",
            hint="the topic was deleted and created again; select one topic id: --topic-id ID",
        )
    if len({each.is_local for each in listed}) > 1:
        raise UsageError(
            f"{store.uri}: {topic} has segments in both layouts",
            hint="select one layout: --layout aiven or --layout local-tiered-storage",
        )


def _source_cluster(store: ObjectStore, listed: PartitionObjects, given: str | None) -> str | None:
    try:
        recorded = read_cluster_id(store, listed.partition)
    except CorruptDataError as error:
        if given is None or isinstance(error, NewerFormatError):
            raise
        return given
    if recorded is None:
        return given
    if given not in (None, recorded):
        raise UsageError(
            f"{listed.partition}: --cluster-id is {given}, but the run that uploaded the partition recorded {recorded}",
            hint="remove --cluster-id: restore then uses the recorded cluster id",
        )
    return recorded


def named(texts: Iterable[str]) -> str:
    """Return the first five texts and the number of further texts, joined for a message."""
    named = list(texts)
    shown = "; ".join(named[:_MOST_NAMED])
    if len(named) > _MOST_NAMED:
        return f"{shown} and {len(named) - _MOST_NAMED} more"
    return shown
