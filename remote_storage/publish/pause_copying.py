"""Pause and resume copying of a topic, so that its copy task reads `__remote_log_metadata` again.

A copy task keeps the highest remote offset in memory. One request sets `remote.log.copy.disable`, which ends the task,
and a second request restores all configs. While copying is disabled, a broker applies total retention to the local log
and deletes remote segments. So the first request also sets total retention to unlimited and local retention to -2, the
only value that the broker then accepts.

tiersnap saves the topic's own configs in remote storage before the pause, and deletes the saved configs last (see
saved_configs.py). SIGINT, SIGTERM and SIGHUP are delayed until copying is enabled again. If the process is killed, the
next run restores the saved configs first.

Other writers may share the bucket, so saved configs are used only if the topic has the mark. A topic has the mark if
its `retention.ms` is MARK. Only users with the right to alter the topic can set `retention.ms`. If another user changes
a config during the pause, the new value stays. If a broker refuses the saved configs, tiersnap only enables copying,
and the error names the other configs.
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

_WITHOUT_MARK = {**OVERRIDES, RETENTION_MS: UNLIMITED}  # the overrides, with an unmarked retention.ms

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
_APPLIED_SECONDS = 30.0
_RESTORE_SECONDS = 60.0
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def pause(cluster: Cluster, saved: SavedConfigs, off: Mapping[str, str], *, while_off: Callable[[], object]) -> None:
    """Change the configs to `off`, call `while_off`, and restore the saved configs.

    tiersnap waits a second before `while_off`, so that copy tasks end. It waits another second after `while_off`, so
    that the leader reads the published records before the next copy task starts.

    Raises:
        TransientError: a broker did not answer. If copying is still disabled, the hint says so.
        SettingsAsideError: a broker refuses the saved configs. Copying is enabled if the broker allows that.
    """
    with _deferred_signals():
        try:
            _log.info("%s: setting %s", saved.topic, dict(off))
            cluster.change_settings(saved.topic, off)
            _wait_until(lambda: is_copying_off(cluster.settings(saved.topic)), saved.topic)
            # Brokers apply a config some time after DescribeConfigs returns it. Without the delay they miss the pause.
            time.sleep(SETTLE_SECONDS)
            while_off()
            time.sleep(SETTLE_SECONDS)
        finally:
            # Restore even after a failed request: the broker may have applied it, and only the answer was lost.
            _put_back(cluster, saved)


def restore(cluster: Cluster, saved: SavedConfigs) -> bool:
    """Restore the saved configs that are still overridden. Return False if none was overridden.

    Raises:
        BrokerUnavailableError: no broker accepted the configs within a minute.
        SettingsAsideError: a broker refuses the saved configs. Copying is enabled if the broker allows that.
    """
    if not still_aside(cluster.settings(saved.topic), saved.before):
        return False
    _put_back(cluster, saved)
    return True


def check_mark(settings: Mapping[str, TopicConfig], saved: SavedConfigs) -> None:
    """Raise an error if a topic's configs look overridden, but the topic lacks the mark.

    Raises:
        SettingsAsideError: another writer may have set the configs, or written the saved configs.
    """
    doubtful = aside_without_mark(settings, saved.before)
    if doubtful:
        raise SettingsAsideError(
            f"{saved.topic}: the saved configs in remote storage show that tiersnap changed "
            f"{', '.join(doubtful)}, but the topic lacks the mark {RETENTION_MS}={MARK}",
            hint=f"to restore the saved configs: kafka-configs --alter --topic {saved.topic}{as_options(doubtful)}; "
            "to keep the current configs: delete the object "
            f"claims/{saved.topic}-{saved.topic_id}/unblock.json. After that, run the same command again",
            aside=doubtful,
        )


def _put_back(cluster: Cluster, saved: SavedConfigs) -> None:
    deadline = time.monotonic() + _RESTORE_SECONDS
    while True:
        try:
            # Include configs that have their saved value already, because the broker that answers may lag.
            values = unchanged_by_others(cluster.settings(saved.topic), saved.before)
            try:
                _change_back(cluster, saved.topic, values)
            except ClusterRefusedError as refused:
                _switch_on_alone(cluster, saved, refused)
        except TransientError as error:
            if time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"{saved.topic}: tiersnap could not restore the configs, and copying may still be disabled: "
                    f"{error.message}",
                    hint="run the same command again: it first restores the configs",
                    before=dict(saved.before),
                ) from error
            _log.warning("%s: configs are not restored yet, retrying: %s", saved.topic, error.message)
            time.sleep(1)
        else:
            _log.info("%s: restored %s", saved.topic, values)
            return


def _change_back(cluster: Cluster, topic: str, values: Values) -> None:
    if values:
        cluster.change_settings(topic, values)
        _wait_until(lambda: not still_aside(cluster.settings(topic), values), topic)


def _switch_on_alone(cluster: Cluster, saved: SavedConfigs, refused: ClusterRefusedError) -> None:
    """Restore only `remote.log.copy.disable`, because local disks fill up while copying is disabled.

    Raise an error that names the configs that are still overridden.
    """
    topic = saved.topic
    _log.warning("%s: configs cannot be restored: %s", topic, refused.message)
    aside = still_aside(cluster.settings(topic), saved.before)
    with suppress(ClusterRefusedError):
        if COPY_DISABLE in aside:
            _change_back(cluster, topic, {COPY_DISABLE: aside[COPY_DISABLE]})
    left = still_aside(cluster.settings(topic), saved.before)
    if left:
        raise SettingsAsideError(
            f"{topic}: configs not restored: {', '.join(left)}: the broker refuses the saved values: {refused.message}",
            hint="set values that the broker accepts, then run the same command again; the saved values: "
            f"kafka-configs --alter --topic {topic}{as_options(left)}",
            aside=left,
        ) from refused


def _wait_until(is_applied: Callable[[], bool], topic: str) -> None:
    deadline = time.monotonic() + _APPLIED_SECONDS
    while not is_applied():
        if time.monotonic() > deadline:
            raise BrokerUnavailableError(
                f"{topic}: tiersnap changed the configs, but brokers do not return the new values yet",
                hint="run the same command again",
            )
        time.sleep(0.1)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Delay SIGINT, SIGTERM and SIGHUP until the `with` block ends. Then raise the first signal that arrived."""
    received: list[int] = []
    try:
        before = {number: signal.signal(number, lambda got, _: received.append(got)) for number in _DEFERRED}
    except ValueError:  # only the main thread may set signal handlers
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def settings_while_off(settings: Mapping[str, TopicConfig]) -> dict[str, str]:
    """Return the overrides that disable copying and make retention delete nothing."""
    names = [COPY_DISABLE, RETENTION_MS]
    if value_of(settings, RETENTION_BYTES, UNLIMITED) != UNLIMITED:
        names.append(RETENTION_BYTES)
    # Unlimited local retention needs no override: the broker accepts it beside unlimited total retention.
    names += [name for name in LOCAL_RETENTION if value_of(settings, name, AS_TOTAL) not in {AS_TOTAL, UNLIMITED}]
    return {name: OVERRIDES[name] for name in names}


def own_values(settings: Mapping[str, TopicConfig], names: Iterable[str]) -> dict[str, str | None]:
    """Return the topic's own values of these configs; None for a config that the topic does not set."""
    values: dict[str, str | None] = {}
    for name in names:
        config = settings.get(name)
        values[name] = config.value if config is not None and config.is_own else None
    return values


def still_aside(settings: Mapping[str, TopicConfig], before: Values) -> dict[str, str | None]:
    """Return the configs of `before` that are still overridden; none if the topic lacks the mark."""
    if not is_marked(settings):
        return {}
    return _unlike(settings, before, OVERRIDES)


def aside_without_mark(settings: Mapping[str, TopicConfig], before: Values) -> dict[str, str | None]:
    """Return the configs of `before` that look overridden; none if the topic has the mark."""
    if is_marked(settings):
        return {}
    return _unlike(settings, before, _WITHOUT_MARK)


def unchanged_by_others(settings: Mapping[str, TopicConfig], before: Values) -> dict[str, str | None]:
    """Return the configs of `before` that no other user changed: they have the override or the saved value."""
    now = own_values(settings, before)
    return {name: value for name, value in before.items() if now[name] in {OVERRIDES[name], value}}


def as_options(values: Values) -> str:
    """Return `values` as options of `kafka-configs --alter`, with a leading space."""
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
