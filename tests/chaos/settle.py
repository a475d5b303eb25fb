"""After the storm: all heals, tiersnap finishes its work, brokers go on behind it, and all is read and listed."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from confluent_kafka import KafkaException

from tests.broker.harness.damage import segment_bases
from tests.broker.harness.waiting import NotInTimeError, wait_until
from tests.chaos.cluster import TOPICS, Cluster
from tests.chaos.facts import Partition
from tests.chaos.history import Event, History
from tests.chaos.operator import COPIED, Operator, age, run_command
from tests.chaos.readers import read_whole
from tests.chaos.schedule import NODES
from tests.chaos.snapshots import tell_snapshots
from tiersnap.remote_storage.cluster.client import Cluster as Asked
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.formats.checkpoints import parse_leader_epochs

_ID = 22  # characters of an id in LocalTieredStorage's names
_BASE = 20


def settle(cluster: Cluster, history: History, operator: Operator | None) -> None:
    """Everything from the last fault to the last fact; `operator` (not running any more) is None in a control run.

    Raises:
        AssertionError: the cluster did not heal, or a topic could not be read to its end.
    """
    wait_until(lambda: all(_is_whole(cluster, topic) for topic in TOPICS), "all replicas are in sync", seconds=240)
    with contextlib.suppress(NotInTimeError):
        # Transactions of producers that died are ended by their timeout.
        wait_until(lambda: all(_is_stable(cluster, topic) for topic in TOPICS), "nothing is open", seconds=60, every=1)
    _read(cluster, history, "before")
    if operator is not None:
        _finish(cluster, operator)
    for topic in TOPICS:
        cluster.alter(topic, {"remote.log.copy.disable": "false", "local.retention.bytes": "1"})
    _wait_for_short_logs(cluster)
    if operator is not None:
        for node in {cluster.state(topic).leader for topic in TOPICS}:
            operator.unblock(node, topics=".*")
        _wait_for_short_logs(cluster)
    _read(cluster, history, "final")
    named: set[str] = set()
    if operator is not None:
        age(cluster.remote)
        time.sleep(1)
        words = ("--remote", cluster.remote, "--bootstrap-server", cluster.bootstrap)
        run_command(history, "maintain", "remove-orphans", *words, "--apply")
        _, out = run_command(history, "maintain", "remove-orphans", *words)
        named = {key for row in json.loads(out)["result"]["rows"] for key in row["keys"]}
    partitions = _tell_partitions(cluster, history)
    segments = _tell_segments_and_objects(cluster, history, named)
    for partition in partitions:
        tell_snapshots(
            cluster.remote, history, partition, [each for each in segments if each["topic"] == partition.topic]
        )


def _is_whole(cluster: Cluster, topic: str) -> bool:
    with contextlib.suppress(KafkaException, TimeoutError):
        state = cluster.state(topic)
        return state.leader in NODES and len(state.isr) == len(NODES)
    return False


def _is_stable(cluster: Cluster, topic: str) -> bool:
    with contextlib.suppress(KafkaException, TimeoutError):
        _, end, stable = cluster.offsets(topic)
        return end == stable
    return False


def _read(cluster: Cluster, history: History, phase: str) -> None:
    for topic in TOPICS:
        _, end, stable = cluster.offsets(topic)
        read_whole(history, cluster.bootstrap, topic, "read_uncommitted", phase, end)
        if phase == "final":
            read_whole(history, cluster.bootstrap, topic, "read_committed", phase, stable)


def _finish(cluster: Cluster, operator: Operator) -> None:
    """What was left in the middle is resumed, by leaders' hosts alone, and published."""
    time.sleep(2)  # high watermarks come to the disks
    leaders = {cluster.state(topic).leader for topic in TOPICS}
    for node in leaders:
        operator.tier(node, jumps=False)
    operator.publish()
    operator.unblock(cluster.state(COPIED).leader)


def _wait_for_short_logs(cluster: Cluster) -> None:
    """Until leaders have deleted what is remote, or nothing has changed for 15 s: a copier may be stuck."""
    seen, since = [], time.monotonic()
    while time.monotonic() - since < 15:
        now = [_local_start(cluster, topic) for topic in TOPICS]
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(1)


def _leader_folder(cluster: Cluster, topic: str) -> Path:
    folder = cluster.folder(cluster.state(topic).leader, topic)
    assert folder is not None, topic
    return folder


def _local_start(cluster: Cluster, topic: str) -> int:
    return segment_bases(_leader_folder(cluster, topic))[0]


def _tell_partitions(cluster: Cluster, history: History) -> list[Partition]:
    found = []
    for topic in TOPICS:
        start, end, stable = cluster.offsets(topic)
        folder = _leader_folder(cluster, topic)
        path = folder / "leader-epoch-checkpoint"
        bases = segment_bases(folder)
        epochs = list(parse_leader_epochs(path.read_text(), name=str(path)))
        topic_id = cluster.state(topic).topic_id
        generation = cluster.generations[topic]
        partition = Partition(topic, generation, topic_id, start, end, bases[0], bases[-1], stable, epochs)
        history.tell("partition", **vars(partition))
        found.append(partition)
    return found


def _tell_segments_and_objects(cluster: Cluster, history: History, named: set[str]) -> list[Event]:
    """Remote segments as the records of the metadata topic tell them, files as they lie there."""
    claims = "".join(path.read_text(errors="replace") for path in cluster.remote.glob("claims/**/*.json"))
    files: dict[TopicIdPartition, list[Path]] = {}
    for path in sorted(cluster.remote.glob("kafka-tiered-storage/*/*")):
        name, topic_id = path.parent.name[: -_ID - 1], path.parent.name[-_ID:]
        files.setdefault(TopicIdPartition(name.rpartition("-")[0], topic_id, 0), []).append(path)
    for topic in TOPICS:
        files.setdefault(TopicIdPartition(topic, cluster.state(topic).topic_id, 0), [])
    segments: list[Event] = []
    topic_of_metadata = MetadataTopic.of(Asked(cluster.bootstrap))
    with topic_of_metadata.read(files) as reader:
        cache = reader.read_to_end()
    for partition, paths in files.items():
        of = {"topic": partition.topic, "topic_id": partition.topic_id}
        for segment in cache.segments(partition).values():
            told: Event = {
                **of,
                "id": segment.id.segment_id,
                "start": segment.start_offset,
                "end": segment.end_offset,
                "state": segment.state.name,
                "epochs": [list(each) for each in segment.segment_leader_epochs],
                "ours": segment.id.segment_id in claims,
            }
            history.tell("segment", **told)
            segments.append(told)
        for path in paths:
            segment_id = path.name[_BASE + 1 : _BASE + 1 + _ID]
            key = str(path.relative_to(cluster.remote))
            history.tell("object", **of, id=segment_id, key=key, claimed=segment_id in claims, named=key in named)
    return segments
