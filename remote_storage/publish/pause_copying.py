"""`remote.log.copy.disable` true and false again: a copier that forgets what it knew, and never one left off.

A running copier keeps in memory how far remote storage reaches. Switched off and on it asks `__remote_log_metadata`
anew. While it is off a broker applies total retention to the local log alone, and deletes the remote segments below
what is left; so retention is endless meanwhile. A local retention of its own is refused by the broker then. All of that
changes in one request, and back in another.

What the topic had set is recorded in remote storage before anything is changed, and the record is deleted last; see
saved_configs. Interrupts and SIGTERM wait until copying is on again; whatever else ends the process, the next run finds
the record and puts the settings back first. Others may write to the bucket, too. So the topic itself says that its
configs are overridden: `retention.ms` is MARK then, which only who may alter the topic can set. Without the mark
nothing is put back. What somebody else has set meanwhile stays; where a broker refuses what the topic had, copying is
switched on alone, and the rest is named.
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
"""Settings of a topic's own by name; None is one that the topic does not have."""

_WITHOUT_MARK = {**OVERRIDES, RETENTION_MS: UNLIMITED}  # endless, and nobody says why

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
_APPLIED_SECONDS = 30.0
_RESTORE_SECONDS = 60.0
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def pause(cluster: Cluster, saved: SavedConfigs, off: Mapping[str, str], *, while_off: Callable[[], object]) -> None:
    """Change the settings to `off`, call `while_off`, and put the saved ones back.

    Brokers have a moment before `while_off`, so that copiers have ended, and one after it, so that the leader has read
    what was published before its next copier asks how far remote storage reaches.

    Raises:
        TransientError: a broker went away; where copying could not be switched on again the hint says so.
        SettingsAsideError: a broker refuses what the topic had; copying is on again where that is possible.
    """
    with _deferred_signals():
        try:
            _log.info("%s: setting %s", saved.topic, dict(off))
            cluster.change_settings(saved.topic, off)
            _wait_until(lambda: is_copying_off(cluster.settings(saved.topic)), saved.topic)
            # Brokers apply a setting some time after they show it; off and on at once would be nothing to them.
            time.sleep(SETTLE_SECONDS)
            while_off()
            time.sleep(SETTLE_SECONDS)
        finally:
            # Also where the first request failed: its answer may be what was lost.
            _put_back(cluster, saved)


def restore(cluster: Cluster, saved: SavedConfigs) -> bool:
    """Put back what the topic had set and still lacks; returns whether there was something.

    Raises:
        BrokerUnavailableError: no broker took it within a minute.
        SettingsAsideError: a broker refuses what the topic had; copying is on again where that is possible.
    """
    if not still_aside(cluster.settings(saved.topic), saved.before):
        return False
    _put_back(cluster, saved)
    return True


def check_mark(settings: Mapping[str, TopicConfig], saved: SavedConfigs) -> None:
    """See that the topic says itself that its settings are aside, where they look so.

    Raises:
        SettingsAsideError: it does not: somebody else may have set them, or written the record.
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
            # Also what is not seen aside: the broker that is asked may lag behind.
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
    """Copying as it was before, without what the broker refuses: a disk fills while copying is off."""
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
    bytes_too = value_of(settings, RETENTION_BYTES, UNLIMITED) != UNLIMITED
    # Endless local retention is that of the total one.
    local = [name for name in LOCAL_RETENTION if value_of(settings, name, AS_TOTAL) not in {AS_TOTAL, UNLIMITED}]
    names = (COPY_DISABLE, RETENTION_MS, *([RETENTION_BYTES] if bytes_too else []), *local)
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
    """`values` as options of `kafka-configs --alter`, each with a space before it."""
    added = ",".join(f"{name}={value}" for name, value in values.items() if value is not None)
    deleted = ",".join(name for name, value in values.items() if value is None)
    options = f" --add-config {added}" if added else ""
    return f"{options} --delete-config {deleted}" if deleted else options


def _unlike(settings: Mapping[str, TopicConfig], before: Values, aside: Mapping[str, str]) -> dict[str, str | None]:
    now = own_values(settings, before)
    return {name: value for name, value in before.items() if now[name] == aside[name] != value}
