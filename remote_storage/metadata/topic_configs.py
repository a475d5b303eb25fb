"""Topic configs of KIP-405 that decide what brokers copy and delete, and the values that `unblock` sets for a while."""

from __future__ import annotations

REMOTE_STORAGE = "remote.storage.enable"
COPY_DISABLE = "remote.log.copy.disable"
RETENTION_MS, RETENTION_BYTES = RETENTION = ("retention.ms", "retention.bytes")
LOCAL_RETENTION = ("local.retention.ms", "local.retention.bytes")
AS_TOTAL = "-2"  # local retention as long as the total one
UNLIMITED = "-1"
MARK = "9223372036854775806"
"""A `retention.ms` as good as endless, by which a topic says that `unblock` overrides its configs."""

OVERRIDES = {
    COPY_DISABLE: "true",
    RETENTION_MS: MARK,
    RETENTION_BYTES: UNLIMITED,
    **dict.fromkeys(LOCAL_RETENTION, AS_TOTAL),
}
"""The configs that `unblock` ever overrides, and the value of each meanwhile."""
