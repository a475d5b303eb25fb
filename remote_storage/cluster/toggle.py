"""`remote.log.copy.disable` true and false again: a copier that forgets what it knew, and never one left off.

A running copier keeps in memory how far remote storage reaches. Switched off and on it asks `__remote_log_metadata`
anew. While it is off, total retention applies to the local log alone, so a local retention of its own is refused by the
broker and must be put aside as well. All of that changes in one request, and back in another.

What the topic had set is recorded in remote storage before anything is changed, and the record is deleted last; see
begun. Interrupts and SIGTERM wait until copying is on again; whatever else ends the process, the next run finds the
record and puts the settings back first.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from tiersnap.remote_storage.cluster.begun import Begun
from tiersnap.remote_storage.cluster.client import Cluster, Setting
from tiersnap.remote_storage.cluster.topic_checks import (
    AS_TOTAL,
    COPY_DISABLE,
    LOCAL_RETENTION,
    RETENTION,
    is_copying_off,
    value_of,
)
from tiersnap.remote_storage.errors import BrokerUnavailableError
from tiersnap.snapshot.errors import TransientError

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
_APPLIED_SECONDS = 30.0
_RESTORE_SECONDS = 60.0
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def settings_while_off(settings: Mapping[str, Setting]) -> dict[str, str]:
    """What to set so that the broker accepts copying to be off."""
    changed = {COPY_DISABLE: "true"}
    for local, total in zip(LOCAL_RETENTION, RETENTION, strict=True):
        if value_of(settings, local, AS_TOTAL) not in {AS_TOTAL, value_of(settings, total, "-1")}:
            changed[local] = AS_TOTAL
    return changed


def own_values(settings: Mapping[str, Setting], names: Mapping[str, str]) -> dict[str, str | None]:
    """What the topic itself has set of `names`, None where it has not."""
    return {name: settings[name].value if settings[name].is_own else None for name in names}


def toggle(cluster: Cluster, begun: Begun, off: Mapping[str, str], *, while_off: Callable[[], object]) -> None:
    """Change the settings to `off`, call `while_off`, and put those of `begun` back.

    Brokers have a moment before `while_off`, so that copiers have ended, and one after it, so that the leader has read
    what was published before its next copier asks how far remote storage reaches.

    Raises:
        TransientError: a broker went away; where copying could not be switched on again the hint says so.
    """
    with _deferred_signals():
        try:
            _log.info("%s: setting %s", begun.topic, dict(off))
            cluster.change_settings(begun.topic, off)
            _wait_for(cluster, begun.topic, off=True)
            # Brokers apply a setting some time after they show it; off and on at once would be nothing to them.
            time.sleep(SETTLE_SECONDS)
            while_off()
            time.sleep(SETTLE_SECONDS)
        finally:
            # Also where the first request failed: its answer may be what was lost.
            _put_back(cluster, begun)


def restore(cluster: Cluster, begun: Begun) -> bool:
    """Put back what the topic had set, unless copying is on again; returns whether it was not.

    Raises:
        BrokerUnavailableError: no broker took it within a minute.
    """
    if not is_copying_off(cluster.settings(begun.topic)):
        return False
    _put_back(cluster, begun)
    return True


def _put_back(cluster: Cluster, begun: Begun) -> None:
    deadline = time.monotonic() + _RESTORE_SECONDS
    while True:
        try:
            cluster.change_settings(begun.topic, begun.before)
            _wait_for(cluster, begun.topic, off=False)
        except TransientError as error:
            if time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"{begun.topic}: copying to remote storage is still switched off: {error.message}",
                    hint="run the same command again: it puts the settings back first",
                    before=dict(begun.before),
                ) from error
            _log.warning("%s: settings are not put back yet, trying again: %s", begun.topic, error.message)
            time.sleep(1)
        else:
            _log.info("%s: put back %s", begun.topic, dict(begun.before))
            return


def _wait_for(cluster: Cluster, topic: str, *, off: bool) -> None:
    deadline = time.monotonic() + _APPLIED_SECONDS
    while is_copying_off(cluster.settings(topic)) != off:
        if time.monotonic() > deadline:
            raise BrokerUnavailableError(
                f"{topic}: {COPY_DISABLE} was changed and brokers do not show it", hint="run the same command again"
            )
        time.sleep(0.1)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Interrupts wait until the body is done; then the first one counts."""
    received: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)

    try:
        before = {number: signal.signal(number, remember) for number in _DEFERRED}
    except ValueError:  # not the main thread, which is the one that gets signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])
