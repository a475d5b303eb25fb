"""Find topics whose copying tiersnap paused. The run that paused them was killed, or is still working."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topic_checks import check_copying_was_not_switched_off
from tiersnap.remote_storage.errors import CopyingOffError, SettingsAsideError, UnblockHeldError
from tiersnap.remote_storage.locks.saved_configs import SavedConfigsStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError


class PauseState(StrEnum):
    """The state of a topic whose configs tiersnap overrode."""

    AT_WORK = "AT_WORK"  # a run is working on the topic, and will resume it
    LEFT = "LEFT"  # a run was killed; its saved configs are in remote storage
    NOTHING_SAVED = "NOTHING_SAVED"  # the saved configs are missing, damaged or from another cluster
    NOT_ASKED = "NOT_ASKED"  # the remote location is unknown, so saved configs were not read


@dataclass(frozen=True, slots=True)
class PausedTopic:
    """A topic whose copying tiersnap paused."""

    topic: str
    state: PauseState
    reason: str
    hint: str = ""  # a command that restores the configs

    @property
    def is_left(self) -> bool:
        """Return True unless a running process is known that will resume copying of the topic."""
        return self.state is not PauseState.AT_WORK

    def says(self) -> str:
        """Return the topic and the reason of its state, for messages."""
        return f"{self.topic}: {self.reason}"


def find_left_paused(cluster: Cluster, store: ObjectStore | None, topic_ids: Mapping[str, str]) -> list[PausedTopic]:
    """Return the topics that are still paused, sorted by name.

    Args:
        store: the store with the saved configs; None if the remote location is unknown.
        topic_ids: topic ids by topic name, of the topics for which `topic_checks.is_marked` is True.
    """
    states = (_state(cluster, store, name, topic_id) for name, topic_id in sorted(topic_ids.items()))
    return list(filter(None, states))


def _state(cluster: Cluster, store: ObjectStore | None, topic: str, topic_id: str) -> PausedTopic | None:
    if store is None:
        why = "a run of tiersnap paused copying; to see whether that run still works, give --remote"
        return PausedTopic(topic, PauseState.NOT_ASKED, why)
    try:
        saved = SavedConfigsStore(store).find({topic: topic_id}, cluster.cluster_id())
    except UnblockHeldError as held:
        return PausedTopic(topic, PauseState.AT_WORK, f"copying is paused: {held.message}")
    except CorruptDataError as damaged:
        return PausedTopic(topic, PauseState.NOTHING_SAVED, f"copying is paused: {damaged.message}", damaged.hint)
    if saved:
        why = "an earlier run ended without resuming copying: nothing is tiered, and retention deletes nothing"
        return PausedTopic(topic, PauseState.LEFT, why)
    try:
        check_copying_was_not_switched_off(topic, cluster.settings(topic), ())
    except SettingsAsideError as gone:
        return PausedTopic(topic, PauseState.NOTHING_SAVED, gone.message.removeprefix(f"{topic}: "), gone.hint)
    except CopyingOffError:
        pass
    return None  # the run has ended meanwhile
