"""Pause copying of a topic and resume it, by `remote.log.copy.disable`, so that its copy task reads the records again.

A running copy task keeps the end of remote storage in memory. After a pause it reads `__remote_log_metadata` again.
During the pause a broker would apply total retention to the local log alone, and delete the remote segments below it.
So the same request makes total retention endless, and local retention -2, because the broker refuses any other value. A
second request restores all configs.

The topic's own configs are saved in remote storage before the pause, and the saved configs are deleted last (see
saved_configs). Interrupts and SIGTERM wait until copying is enabled again. If the process is killed, the next run finds
the saved configs and restores them first. The bucket may have other writers, so saved configs count only if the topic
carries their mark. `retention.ms` is MARK during the pause, and only users with the right to alter the topic can set
it. A config that was changed during the pause keeps its new value. If a broker refuses the earlier configs, only
copying is enabled, and the error names the refused configs.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topic_checks import is_copying_off, is_marked, value_of
from tiersnap.remote_storage.cluster.topics import TopicConfig
from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError, SettingsAsideError
from tiersnap.remote_storage.locks.saved_configs import SavedConfigs
from tiersnap.remote_storage.metadata.topic_configs import (
    AS_TOTAL,
    COPY_DISABLE,
    LOCAL_RETENTION,
    MARK,
    OVERRIDES,
    RETENTION_BYTES,
    RETENTION_MS,
    UNLIMITED,
)
from tiersnap.snapshot.errors import TransientError

Values = Mapping[str, str | None]
"""A topic's own configs by name; None if the topic does not set the config."""

_WITHOUT_MARK = {**OVERRIDES, RETENTION_MS: UNLIMITED}  # endless, without a mark

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
_APPLIED_SECONDS = 30.0
_RESTORE_SECONDS = 60.0
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def pause(cluster: Cluster, saved: SavedConfigs, off: Mapping[str, str], *, while_off: Callable[[], object]) -> None:
    """Change the configs to `off`, call `while_off`, and restore the saved configs.

    A second before `while_off` lets copy tasks end. A second after it lets the leader read the published records before
    its next copy task asks for the end of remote storage.

    Raises:
        TransientError: a broker went away. If copying could not be enabled again, the hint tells it.
        SettingsAsideError: a broker refuses the saved configs. Copying is enabled again if the broker allows it.
    """
    with _deferred_signals():
        try:
            _log.info("%s: setting %s", saved.topic, dict(off))
            cluster.change_settings(saved.topic, off)
            _wait_until(lambda: is_copying_off(cluster.settings(saved.topic)), saved.topic)
            # Brokers apply a config some time after they show it, and would miss a pause without this delay.
            time.sleep(SETTLE_SECONDS)
            while_off()
            time.sleep(SETTLE_SECONDS)
        finally:
            # Restore even if the first request failed, because only its answer may have been lost.
            _put_back(cluster, saved)


def restore(cluster: Cluster, saved: SavedConfigs) -> bool:
    """Restore the saved configs that are still overridden; return whether there were any.

    Raises:
        BrokerUnavailableError: no broker accepted them within a minute.
        SettingsAsideError: a broker refuses the saved configs. Copying is enabled again if the broker allows it.
    """
    if not still_aside(cluster.settings(saved.topic), saved.before):
        return False
    _put_back(cluster, saved)
    return True


def check_mark(settings: Mapping[str, TopicConfig], saved: SavedConfigs) -> None:
    """Check that a topic carries the mark if its configs look overridden.

    Raises:
        SettingsAsideError: it lacks the mark. Another writer may have set its configs, or written the saved configs.
    """
    doubtful = aside_without_mark(settings, saved.before)
    if doubtful:
        raise SettingsAsideError(
            f"{saved.topic}: saved configs in remote storage say that tiersnap overrode {', '.join(doubtful)}, "
            f"and the topic does not say so itself, with {RETENTION_MS}={MARK}",
            hint=f"if it is so: kafka-configs --alter --topic {saved.topic}{as_options(doubtful)}; if the topic is to "
            f"stay as it is: delete claims/{saved.topic}-{saved.topic_id}/unblock.json, the saved configs; then run "
            "the same command again",
            aside=doubtful,
        )


def _put_back(cluster: Cluster, saved: SavedConfigs) -> None:
    deadline = time.monotonic() + _RESTORE_SECONDS
    while True:
        try:
            # Configs that do not look overridden are included, because the broker that answers may lag behind.
            values = changed_by_nobody(cluster.settings(saved.topic), saved.before)
            try:
                _change_back(cluster, saved.topic, values)
            except ClusterRefusedError as refused:
                _switch_on_alone(cluster, saved, refused)
        except TransientError as error:
            if time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"{saved.topic}: settings are not put back, and copying may still be off: {error.message}",
                    hint="run the same command again: it puts the settings back first",
                    before=dict(saved.before),
                ) from error
            _log.warning("%s: settings are not put back yet, trying again: %s", saved.topic, error.message)
            time.sleep(1)
        else:
            _log.info("%s: put back %s", saved.topic, values)
            return


def _change_back(cluster: Cluster, topic: str, values: Values) -> None:
    if values:
        cluster.change_settings(topic, values)
        _wait_until(lambda: not still_aside(cluster.settings(topic), values), topic)


def _switch_on_alone(cluster: Cluster, saved: SavedConfigs, refused: ClusterRefusedError) -> None:
    """Restore only the config of copying if the broker refuses others, because disks fill without copying."""
    topic = saved.topic
    _log.warning("%s: settings cannot be put back: %s", topic, refused.message)
    aside = still_aside(cluster.settings(topic), saved.before)
    with suppress(ClusterRefusedError):
        _change_back(cluster, topic, {name: value for name, value in aside.items() if name == COPY_DISABLE})
    left = still_aside(cluster.settings(topic), saved.before)
    if left:
        raise SettingsAsideError(
            f"{topic}: still set aside: {', '.join(left)}; the broker refuses what the topic had: {refused.message}",
            hint=f"kafka-configs --alter --topic {topic}{as_options(left)} (or what the broker takes), then run the "
            "same command again",
            aside=left,
        ) from refused


def _wait_until(is_applied: Callable[[], bool], topic: str) -> None:
    deadline = time.monotonic() + _APPLIED_SECONDS
    while not is_applied():
        if time.monotonic() > deadline:
            raise BrokerUnavailableError(
                f"{topic}: settings were changed and brokers do not show it", hint="run the same command again"
            )
        time.sleep(0.1)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Interrupts wait until the body is done; then the first one counts."""
    received: list[int] = []
    try:
        before = {number: signal.signal(number, lambda got, _: received.append(got)) for number in _DEFERRED}
    except ValueError:  # not the main thread, which is the one that gets signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def settings_while_off(settings: Mapping[str, TopicConfig]) -> dict[str, str]:
    """Return the configs with which the broker accepts that copying is off, and deletes nothing."""
    names = [COPY_DISABLE, RETENTION_MS]
    if value_of(settings, RETENTION_BYTES, UNLIMITED) != UNLIMITED:
        names.append(RETENTION_BYTES)
    # Unlimited local retention follows the total one, so it needs no override.
    names += [name for name in LOCAL_RETENTION if value_of(settings, name, AS_TOTAL) not in {AS_TOTAL, UNLIMITED}]
    return {name: OVERRIDES[name] for name in names}


def own_values(settings: Mapping[str, TopicConfig], names: Iterable[str]) -> dict[str, str | None]:
    """Return the topic's own values of `names`."""
    return {name: settings[name].value if name in settings and settings[name].is_own else None for name in names}


def still_aside(settings: Mapping[str, TopicConfig], before: Values) -> dict[str, str | None]:
    """Return the configs of `before` that are still overridden."""
    return _unlike(settings, before, OVERRIDES) if is_marked(settings) else {}


def aside_without_mark(settings: Mapping[str, TopicConfig], before: Values) -> dict[str, str | None]:
    """Return the configs of `before` that look overridden although the topic lacks the mark."""
    return {} if is_marked(settings) else _unlike(settings, before, _WITHOUT_MARK)


def changed_by_nobody(settings: Mapping[str, TopicConfig], before: Values) -> dict[str, str | None]:
    """Return the configs of `before` that still have the overriding value."""
    now = own_values(settings, before)
    return {name: value for name, value in before.items() if now[name] in {OVERRIDES[name], value}}


def as_options(values: Values) -> str:
    """Return `values` as options of `kafka-configs --alter`, each with a space before it."""
    added, deleted = [], []
    for name, value in values.items():
        if value is None:
            deleted.append(name)
        else:
            added.append(f"{name}={value}")
    options = ""
    if added:
        options += f" --add-config {','.join(added)}"
    if deleted:
        options += f" --delete-config {','.join(deleted)}"
    return options


def _unlike(settings: Mapping[str, TopicConfig], before: Values, aside: Mapping[str, str]) -> dict[str, str | None]:
    now = own_values(settings, before)
    return {name: value for name, value in before.items() if now[name] == aside[name] != value}
