"""Pause copying of topics while records are written. Save the topic configs first, and restore them afterwards.

`publish`, `tier`, `run` and `unblock` use this module for every pause. pause_copying.py sends the requests.
If a process is killed during a pause, the saved configs stay in remote storage, and `restore_left` restores them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topic_checks import (
    check_copying_was_not_switched_off,
    is_copying_off,
    is_marked,
)
from tiersnap.remote_storage.errors import (
    ClusterRefusedError,
    CopyingOffError,
    SettingsAsideError,
    UnblockHeldError,
)
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore, after_other_run
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.metadata.topic_configs import OVERRIDES
from tiersnap.remote_storage.publish.pause_copying import (
    check_mark,
    own_values,
    pause,
    restore,
    settings_while_off,
    still_aside,
)
from tiersnap.snapshot.errors import TiersnapError

NOT_PAUSED = (CopyingOffError, SettingsAsideError, ClusterRefusedError, UnblockHeldError)
"""Errors that forbid a pause of one topic. Other topics may still be paused."""
Talk = Callable[[str], None]


@dataclass(frozen=True)
class Pause:
    """The configs of one pause: `saved` are the topic's own, `off` are the overrides."""

    saved: SavedConfigs
    off: Mapping[str, str]


@dataclass
class PausedTopics:
    """The topics of one cluster that a run pauses."""

    cluster: Cluster
    records: SavedConfigsStore  # stores the saved configs, and which run holds them
    talk: Talk  # reports finished and slow steps
    _pauses: dict[str, Pause] = field(default_factory=dict)

    def check(self, partitions: Collection[TopicIdPartition]) -> None:
        """Check that the cluster accepts the configs of a pause. Nothing is changed.

        Args:
            partitions: one or more partitions of one topic.

        Raises:
            CopyingOffError: another user disabled copying of the topic.
            SettingsAsideError: a killed run paused the topic, and its saved configs are missing.
            ClusterRefusedError: the cluster refuses the configs: ZooKeeper mode, Kafka before 3.9, or no permission.
            UnblockHeldError: another run holds the topic for longer than a run normally takes.
        """
        asked = after_other_run(partial(self._pause_of, partitions), self.talk)
        self.cluster.change_settings(asked.saved.topic, asked.off, validate_only=True)
        self.cluster.change_settings(asked.saved.topic, asked.saved.before, validate_only=True)
        self._pauses[asked.saved.topic] = asked

    def check_if_copied(self, partitions: Collection[TopicIdPartition]) -> None:
        """Call `check`, unless another user disabled copying of the topic."""
        settings = self.cluster.settings(next(iter(partitions)).topic)
        if is_marked(settings) or not is_copying_off(settings):
            self.check(partitions)

    @property
    def checked(self) -> list[str]:
        """Return the topics that passed `check` or were paused."""
        return list(self._pauses)

    def while_paused(self, partitions: Collection[TopicIdPartition], act: Callable[[], object]) -> None:
        """Pause copying of the partitions' topic, call `act`, and resume copying.

        Raises:
            CopyingOffError: another user disabled copying of the topic meanwhile.
            UnblockHeldError: another run holds the topic for longer than a run normally takes.
            TransientError, SettingsAsideError: see pause_copying.pause.
        """
        noted = after_other_run(partial(self._save, partitions), self.talk)
        pause(self.cluster, noted.saved, noted.off, while_off=act)
        self.talk(f"{noted.saved.topic}: tiersnap paused copying and resumed it")

    def forget(self, topic: str) -> None:
        """Delete the saved configs of a topic. Call this when its copy task has continued."""
        self.records.drop(self._pauses[topic].saved)

    def forget_left(self, saved: SavedConfigs) -> None:
        """Delete the configs that a killed run saved. Keep them if this run has paused the same topic."""
        if saved.topic not in self._pauses:
            self.records.drop(saved)

    def release(self) -> None:
        """Release the topics whose saved configs still exist, so that the next run may restore these configs."""
        self.records.release()

    def _save(self, partitions: Collection[TopicIdPartition]) -> Pause:
        """Save a topic's configs before the pause. From then on, no other run changes the topic's configs."""
        noted = self._pause_of(partitions)
        self.records.put(noted.saved)
        # Another run may have restored the configs between the read and the save, so read them again.
        now = self._pause_of(partitions)
        if now != noted:
            self.records.put(now.saved)
        self._pauses[now.saved.topic] = now
        return now

    def _pause_of(self, partitions: Collection[TopicIdPartition]) -> Pause:
        first = next(iter(partitions))
        topic, topic_id, cluster_id = first.topic, first.topic_id or "", self.cluster.cluster_id()
        settings = self.cluster.settings(topic)
        if is_copying_off(settings) and self.records.noted(topic, topic_id) is None:
            # `find_topic` raises if another run paused the topic. If that run has just ended, read the configs again.
            self.records.find_topic(topic, topic_id, cluster_id)
            settings = self.cluster.settings(topic)
        noted = self.records.noted(topic, topic_id)
        # Earlier values of overridden configs exist only in the saved configs.
        aside: dict[str, str | None] = {}
        if noted is not None:
            aside = still_aside(settings, noted.before)
        check_copying_was_not_switched_off(topic, settings, aside)
        off = settings_while_off(settings) | {name: OVERRIDES[name] for name in aside}
        before = own_values(settings, off) | aside
        numbers = tuple(each.partition for each in partitions)
        return Pause(SavedConfigs.of(cluster_id, topic, topic_id, numbers, before), off)


@dataclass(frozen=True, slots=True)
class Left:
    """The configs that killed runs saved, and by topic name the errors of topics whose configs are not restored."""

    saved: tuple[SavedConfigs, ...] = ()
    refusals: Mapping[str, TiersnapError] = field(default_factory=dict)

    @property
    def partitions(self) -> list[TopicIdPartition]:
        """Return the partitions that the killed runs named in their saved configs."""
        found: list[TopicIdPartition] = []
        for each in self.saved:
            found += [TopicIdPartition(each.topic, each.topic_id, number) for number in each.partitions]
        return found


def restore_left(
    cluster: Cluster, records: SavedConfigsStore, topics: Iterable[str], talk: Talk, *, apply: bool
) -> Left:
    """Restore the topic configs that a killed run had changed. Without `apply`, only report the topics.

    A topic is refused if another run works on it for longer than a run normally takes (UnblockHeldError). A topic is
    also refused if another writer may have changed its configs (SettingsAsideError).

    Raises:
        BrokerUnavailableError: no broker accepted the configs within a minute.
        CorruptDataError: the saved configs are damaged, or from another cluster.
    """
    found, refusals = _find_left(cluster, records, topics, talk)
    saved: list[SavedConfigs] = []
    for each in found:
        # Check each mark right before the restore, because the restores of the topics before it may take minutes.
        try:
            check_mark(cluster.settings(each.topic), each)
        except SettingsAsideError as doubt:
            refusals[each.topic] = doubt
            continue
        saved.append(each)
        if not apply:
            talk(f"{each.topic}: an earlier run did not finish; --apply first restores the configs of the topic")
        elif restore(cluster, each):
            talk(f"{each.topic}: an earlier run did not finish; tiersnap has restored the configs of the topic")
    return Left(tuple(saved), refusals)


def _find_left(
    cluster: Cluster, records: SavedConfigsStore, topics: Iterable[str], talk: Talk
) -> tuple[list[SavedConfigs], dict[str, TiersnapError]]:
    """Return the saved configs of topics, and by topic name the errors of topics on which another run still works."""
    topic_ids = {name: topic.topic_id for name, topic in cluster.topics(topics).items()}
    cluster_id = cluster.cluster_id()
    try:
        return after_other_run(lambda: records.find(topic_ids, cluster_id), talk), {}
    except UnblockHeldError:
        pass
    found: list[SavedConfigs] = []
    refusals: dict[str, TiersnapError] = {}
    for name, topic_id in topic_ids.items():
        try:
            saved = records.find_topic(name, topic_id, cluster_id)
        except UnblockHeldError as held:
            refusals[name] = held
            continue
        if saved is not None:
            found.append(saved)
    return found, refusals
