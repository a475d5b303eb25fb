"""Topic configs of KIP-405 for copying and deletion, and the temporary values that `unblock` sets."""

from __future__ import annotations

REMOTE_STORAGE = "remote.storage.enable"
COPY_DISABLE = "remote.log.copy.disable"
RETENTION_MS, RETENTION_BYTES = RETENTION = ("retention.ms", "retention.bytes")
LOCAL_RETENTION = ("local.retention.ms", "local.retention.bytes")
AS_TOTAL = "-2"  # local retention: the same as the total retention
UNLIMITED = "-1"
MARK = "9223372036854775806"
"""A practically unlimited `retention.ms`. It marks a topic whose configs `unblock` overrides."""

OVERRIDES = {
    COPY_DISABLE: "true",
    RETENTION_MS: MARK,
    RETENTION_BYTES: UNLIMITED,
    **dict.fromkeys(LOCAL_RETENTION, AS_TOTAL),
}
"""Temporary values of all configs that `unblock` may override."""
