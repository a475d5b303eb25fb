"""Find topics whose copying tiersnap paused, and topics that `publish` refuses because of their saved configs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topic_checks import check_copying_was_not_switched_off
from tiersnap.remote_storage.errors import CopyingOffError, SettingsAsideError, UnblockHeldError
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs, SavedConfigsStore
from tiersnap.remote_storage.publish.pause_copying import check_mark
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.errors import CorruptDataError, NewerFormatError


class PauseState(StrEnum):
    """The state of a topic whose configs tiersnap overrode."""

    AT_WORK = "AT_WORK"  # a run is working on the topic, and will resume it
    LEFT = "LEFT"  # a run was killed; its saved configs are in remote storage
    NOTHING_SAVED = "NOTHING_SAVED"  # the topic has the mark of a pause, but its saved configs are missing
    DAMAGED = "DAMAGED"  # the saved configs are damaged, or from another cluster
    NEWER_FORMAT = "NEWER_FORMAT"  # a newer tiersnap saved the configs
    UNMARKED = "UNMARKED"  # the topic looks paused, as the saved configs show, but lacks the mark
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
        """Return False if another run is working on the topic and will resume copying, otherwise True."""
        return self.state is not PauseState.AT_WORK

    def says(self) -> str:
        """Return the topic and the reason of its state, for messages."""
        return f"{self.topic}: {self.reason}"


def find_left_paused(
    cluster: Cluster, store: ObjectStore | None, topic_ids: Mapping[str, str], marked: Collection[str]
) -> list[PausedTopic]:
    """Return the topics that are still paused, or whose saved configs make `publish` refuse them, sorted by name.

    Reading the saved configs needs one request to the store for each topic.

    Args:
        store: the store with the saved configs; None if the remote location is unknown.
        topic_ids: topic ids by topic name, of tiered topics and of topics with the mark of a pause.
        marked: names of the topics whose configs have the mark of a pause.
    """
    if store is None:
        why = "a run of tiersnap paused copying; to see whether that run still works, give --remote"
        return [PausedTopic(each, PauseState.NOT_ASKED, why) for each in sorted(marked)]
    records, cluster_id = SavedConfigsStore(store), cluster.cluster_id()

    def state(topic: str) -> PausedTopic | None:
        is_marked = topic in marked
        try:
            saved = records.find_topic(topic, topic_ids[topic], cluster_id)
            if saved is not None:
                check_mark(cluster.settings(topic), saved)
        except (UnblockHeldError, SettingsAsideError, CorruptDataError) as refusal:
            return _refused(topic, refusal, is_marked=is_marked)
        if is_marked:
            return _left(cluster, topic, saved)
        return None  # brokers copy the topic, and `publish` deletes the saved configs

    return list(filter(None, in_parallel(state, sorted(topic_ids))))


def _refused(
    topic: str, refusal: UnblockHeldError | SettingsAsideError | CorruptDataError, *, is_marked: bool
) -> PausedTopic:
    """Return the topic with the error that `publish` would raise."""
    reason = refusal.message.removeprefix(f"{topic}: ")
    if is_marked:
        reason = f"copying is paused: {reason}"
    if isinstance(refusal, UnblockHeldError):
        return PausedTopic(topic, PauseState.AT_WORK, reason)
    state = PauseState.DAMAGED
    if isinstance(refusal, NewerFormatError):
        state = PauseState.NEWER_FORMAT
    if isinstance(refusal, SettingsAsideError):
        state = PauseState.UNMARKED
    return PausedTopic(topic, state, reason, refusal.hint)


def _left(cluster: Cluster, topic: str, saved: SavedConfigs | None) -> PausedTopic | None:
    """Return a topic that still has the mark of a pause; None if the mark has been removed meanwhile."""
    if saved is not None:
        why = "an earlier run ended without resuming copying: nothing is tiered, and retention deletes nothing"
        return PausedTopic(topic, PauseState.LEFT, why)
    try:
        check_copying_was_not_switched_off(topic, cluster.settings(topic), ())
    except SettingsAsideError as gone:
        return PausedTopic(topic, PauseState.NOTHING_SAVED, gone.message.removeprefix(f"{topic}: "), gone.hint)
    except CopyingOffError:
        pass
    return None
