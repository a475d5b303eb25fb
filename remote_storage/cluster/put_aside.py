"""Settings that `unblock` puts aside while copying is off, and what of them is to be put back.

While copying is off a broker applies total retention to the local log alone, and deletes the remote segments below what
is left: retention is endless as long as that lasts. A local retention of its own is refused by the broker then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiersnap.remote_storage.cluster.client import Setting
from tiersnap.remote_storage.cluster.topic_checks import (
    AS_TOTAL,
    COPY_DISABLE,
    LOCAL_RETENTION,
    RETENTION,
    UNLIMITED,
    value_of,
)

Values = Mapping[str, str | None]
"""Settings of a topic's own by name; None is one that the topic does not have."""

ASIDE = {COPY_DISABLE: "true", **dict.fromkeys(RETENTION, UNLIMITED), **dict.fromkeys(LOCAL_RETENTION, AS_TOTAL)}
"""The settings that are ever put aside, and the value of each while it is."""


def settings_while_off(settings: Mapping[str, Setting]) -> dict[str, str]:
    """What to set so that the broker accepts copying to be off, and deletes nothing."""
    finite = [name for name in RETENTION if value_of(settings, name, UNLIMITED) != UNLIMITED]
    # Endless local retention is that of the total one.
    local = [name for name in LOCAL_RETENTION if value_of(settings, name, AS_TOTAL) not in {AS_TOTAL, UNLIMITED}]
    return {name: ASIDE[name] for name in (COPY_DISABLE, *finite, *local)}


def own_values(settings: Mapping[str, Setting], names: Iterable[str]) -> dict[str, str | None]:
    """What the topic itself has set of `names`."""
    return {name: settings[name].value if name in settings and settings[name].is_own else None for name in names}


def still_aside(settings: Mapping[str, Setting], before: Values) -> dict[str, str | None]:
    """Of what a topic had `before`, the settings that it does not have again, as they are still put aside."""
    now = own_values(settings, before)
    return {name: value for name, value in before.items() if now[name] == ASIDE[name] != value}


def changed_by_nobody(settings: Mapping[str, Setting], before: Values) -> dict[str, str | None]:
    """Of what a topic had `before`, the settings that nobody has given another value since they were put aside."""
    now = own_values(settings, before)
    return {name: value for name, value in before.items() if now[name] in {ASIDE[name], value}}


def as_options(values: Values) -> str:
    """`values` as options of `kafka-configs --alter`, each with a space before it."""
    added = ",".join(f"{name}={value}" for name, value in values.items() if value is not None)
    deleted = ",".join(name for name, value in values.items() if value is None)
    return (f" --add-config {added}" if added else "") + (f" --delete-config {deleted}" if deleted else "")
