"""Settings that `unblock` puts aside while copying is off, and what of them is to be put back.

While copying is off a broker applies total retention to the local log alone, and deletes the remote segments below what
is left: retention is endless as long as that lasts. A local retention of its own is refused by the broker then.

What a topic had is recorded in the bucket (begun), where others may write, too. So the topic itself says that its
settings are aside: `retention.ms` is MARK then, which only who may alter the topic can set. Without the mark nothing is
put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiersnap.remote_storage.cluster.client import Setting
from tiersnap.remote_storage.cluster.topic_checks import is_marked, value_of
from tiersnap.remote_storage.metadata.topic_configs import (
    AS_TOTAL,
    COPY_DISABLE,
    LOCAL_RETENTION,
    OVERRIDES,
    RETENTION_BYTES,
    RETENTION_MS,
    UNLIMITED,
)

Values = Mapping[str, str | None]
"""Settings of a topic's own by name; None is one that the topic does not have."""

_WITHOUT_MARK = {**OVERRIDES, RETENTION_MS: UNLIMITED}  # as earlier versions put them aside


def settings_while_off(settings: Mapping[str, Setting]) -> dict[str, str]:
    """What to set so that the broker accepts copying to be off, and deletes nothing."""
    bytes_too = value_of(settings, RETENTION_BYTES, UNLIMITED) != UNLIMITED
    # Endless local retention is that of the total one.
    local = [name for name in LOCAL_RETENTION if value_of(settings, name, AS_TOTAL) not in {AS_TOTAL, UNLIMITED}]
    names = (COPY_DISABLE, RETENTION_MS, *([RETENTION_BYTES] if bytes_too else []), *local)
    return {name: OVERRIDES[name] for name in names}


def own_values(settings: Mapping[str, Setting], names: Iterable[str]) -> dict[str, str | None]:
    """What the topic itself has set of `names`."""
    return {name: settings[name].value if name in settings and settings[name].is_own else None for name in names}


def still_aside(settings: Mapping[str, Setting], before: Values) -> dict[str, str | None]:
    """Of what a topic had `before`, the settings that it does not have again, as they are still put aside."""
    return _unlike(settings, before, OVERRIDES) if is_marked(settings) else {}


def aside_without_mark(settings: Mapping[str, Setting], before: Values) -> dict[str, str | None]:
    """Of what a topic is said to have had `before`, the settings that look put aside, while it does not say so."""
    return {} if is_marked(settings) else _unlike(settings, before, _WITHOUT_MARK)


def changed_by_nobody(settings: Mapping[str, Setting], before: Values) -> dict[str, str | None]:
    """Of what a topic had `before`, the settings that nobody has given another value since they were put aside."""
    now = own_values(settings, before)
    return {name: value for name, value in before.items() if now[name] in {OVERRIDES[name], value}}


def as_options(values: Values) -> str:
    """`values` as options of `kafka-configs --alter`, each with a space before it."""
    added = ",".join(f"{name}={value}" for name, value in values.items() if value is not None)
    deleted = ",".join(name for name, value in values.items() if value is None)
    return (f" --add-config {added}" if added else "") + (f" --delete-config {deleted}" if deleted else "")


def _unlike(settings: Mapping[str, Setting], before: Values, aside: Mapping[str, str]) -> dict[str, str | None]:
    now = own_values(settings, before)
    return {name: value for name, value in before.items() if now[name] == aside[name] != value}
